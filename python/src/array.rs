//! numpy's memory as tensors and tensors as numpy's memory, neither copied. All `unsafe` of this crate is here and in `stream`.

use std::ffi::c_int;

use lacus::tensor::{Buffer, DType, Shape, Tensor, TensorRef};
use numpy::npyffi::{self, NpyTypes, get_type_object, npy_intp};
use numpy::{PY_ARRAY_API, PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::errors::{invalid, raise_tensor};

/// What owns the memory of an array that came out of a read. It goes back to the pool with the last array
/// that looks at it.
#[pyclass(frozen, module = "lacus._native")]
pub(crate) struct Memory {
    buffer: Buffer,
}

/// The array as a tensor, any strides, for as long as it is borrowed. `dtype` says how its elements are to
/// be understood and must have their size.
pub(crate) fn tensor_ref<'a>(array: &'a Bound<'_, PyUntypedArray>, dtype: DType) -> PyResult<TensorRef<'a>> {
    let py = array.py();
    let descr = array.dtype();
    if descr.itemsize() != dtype.size_bytes() || descr.has_object() {
        return Err(invalid(py, format!("an array of {descr} cannot be read as {dtype}")));
    }
    let dims: Vec<u64> = array.shape().iter().map(|&dim| dim as u64).collect();
    let shape = Shape::new(dims).map_err(|e| raise_tensor(py, &e))?;
    let strides: Vec<i64> = array.strides().iter().map(|&stride| stride as i64).collect();
    let (mut below, mut above) = (0usize, dtype.size_bytes());
    for (&dim, &stride) in array.shape().iter().zip(array.strides()) {
        let reach = dim.saturating_sub(1) * stride.unsigned_abs();
        if stride < 0 { below += reach } else { above += reach }
    }
    let bytes: &[u8] = if array.is_empty() {
        &[]
    } else {
        // SAFETY: an array's elements lie within its memory, and these are the bytes from the lowest to the
        // highest of them; the array, and so its memory, is alive while it is borrowed. Python code that
        // writes to it meanwhile from another thread races with us, as with any numpy function that
        // releases the GIL; elements are plain bytes of which every value is valid.
        unsafe { std::slice::from_raw_parts(data(array).sub(below), below + above) }
    };
    TensorRef::strided(dtype, &shape, &strides, below, bytes).map_err(|e| raise_tensor(py, &e))
}

/// The memory of an array in C order, to be read.
pub(crate) fn bytes<'a>(array: &'a Bound<'_, PyUntypedArray>) -> PyResult<&'a [u8]> {
    if !array.is_c_contiguous() || array.dtype().has_object() {
        return Err(invalid(array.py(), "the array must be contiguous in C order"));
    }
    let len = array.len() * array.dtype().itemsize();
    if len == 0 {
        return Ok(&[]);
    }
    // SAFETY: a contiguous array of so many elements has so many bytes, and it is alive while it is borrowed. Python code that
    // writes to it meanwhile races with us, as above.
    Ok(unsafe { std::slice::from_raw_parts(data(array), len) })
}

/// The memory of a writable array in C order.
pub(crate) fn bytes_mut<'a>(array: &'a mut Bound<'_, PyUntypedArray>) -> PyResult<&'a mut [u8]> {
    let py = array.py();
    let is_writable: bool = array.getattr("flags")?.getattr("writeable")?.extract()?;
    if !array.is_c_contiguous() || !is_writable || array.dtype().has_object() {
        return Err(invalid(py, "the array to read into must be writable and contiguous in C order"));
    }
    let len = array.len() * array.dtype().itemsize();
    if len == 0 {
        return Ok(&mut []);
    }
    // SAFETY: a contiguous array of so many elements has so many bytes, it is writable, and it is alive
    // while it is borrowed. That nobody else uses it meanwhile is the caller's part, as above.
    Ok(unsafe { std::slice::from_raw_parts_mut(data(array), len) })
}

fn data(array: &Bound<'_, PyUntypedArray>) -> *mut u8 {
    // SAFETY: the pointer is that of a live array object; the crate knows where each version of numpy
    // keeps the address of its data.
    unsafe { (*npyffi::_PyArray_GET_ITEM_DATA(array.as_array_ptr())).data.cast() }
}

/// A tensor that was read, as a writable array that owns its memory.
pub(crate) fn into_array(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyAny>> {
    let (dtype, shape) = (tensor.dtype(), tensor.shape().clone());
    let memory = Bound::new(py, Memory { buffer: tensor.into_buffer() })?;
    let start = memory.get().buffer.as_ptr();
    // SAFETY: the buffer holds exactly this tensor and lives in `memory`, which hands it to nobody else, so
    // that its owner may as well write to it.
    unsafe { array_over(memory.into_any(), start, dtype, shape.dims(), npyffi::NPY_ARRAY_WRITEABLE) }
}

/// A read-only array over memory of `owner`, which must be frozen.
pub(crate) fn view<'py>(
    owner: Bound<'py, PyAny>,
    buffer: &Buffer,
    dtype: DType,
    dims: &[u64],
) -> PyResult<Bound<'py, PyAny>> {
    let elements = dims.iter().product::<u64>() as usize;
    assert_eq!(buffer.len(), elements * dtype.size_bytes(), "a view covers its buffer");
    // SAFETY: the buffer has the right length, checked above, `owner` keeps it, and nobody can write to it.
    unsafe { array_over(owner, buffer.as_ptr(), dtype, dims, 0) }
}

/// # Safety
/// `start` is the first of the elements, in C order; they live as long as `owner` and, if `flags` make the
/// array writable, are nobody else's.
unsafe fn array_over<'py>(
    owner: Bound<'py, PyAny>,
    start: *const u8,
    dtype: DType,
    dims: &[u64],
    flags: c_int,
) -> PyResult<Bound<'py, PyAny>> {
    let py = owner.py();
    let mut dims: Vec<npy_intp> = dims.iter().map(|&dim| dim as npy_intp).collect();
    let descr = PyArrayDescr::new(py, type_string(dtype))?;
    // SAFETY: numpy takes the reference to the type; the dimensions are copied; the caller vouches for the
    // memory.
    let made = unsafe {
        PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            get_type_object(py, NpyTypes::PyArray_Type),
            descr.into_dtype_ptr(),
            dims.len() as c_int,
            dims.as_mut_ptr(),
            std::ptr::null_mut(),
            start.cast_mut().cast(),
            flags,
            std::ptr::null_mut(),
        )
    };
    // SAFETY: a new reference, or null with the exception set.
    let array = unsafe { Bound::from_owned_ptr_or_err(py, made)? };
    // SAFETY: the array is fresh and has no base yet; numpy takes the reference to the owner, also when it
    // fails.
    let code = unsafe { PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner.into_ptr()) };
    if code < 0 { Err(PyErr::fetch(py)) } else { Ok(array) }
}

/// numpy's name for the bits: bfloat16, which numpy lacks, comes out as the integers of the same bits.
fn type_string(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "?",
        DType::I8 => "i1",
        DType::I16 => "i2",
        DType::I32 => "i4",
        DType::I64 => "i8",
        DType::U8 => "u1",
        DType::U16 | DType::BF16 => "u2",
        DType::U32 => "u4",
        DType::U64 => "u8",
        DType::F16 => "f2",
        DType::F32 => "f4",
        DType::F64 => "f8",
        DType::C64 => "c8",
        DType::C128 => "c16",
    }
}
