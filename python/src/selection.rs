//! What stands between the brackets of `t[…]` as the crate's indices. numpy's rules, and its messages where it
//! raises `IndexError`.

use lacus::tensor::Index;
use numpy::{PyArrayDescrMethods, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PyList, PySlice, PyTuple};

use crate::errors::out_of_bounds;

/// The indices of a key: a tuple is several, anything else is one.
pub(crate) fn indices(key: &Bound<'_, PyAny>) -> PyResult<Vec<Index>> {
    match key.cast::<PyTuple>() {
        Ok(items) => items.iter().map(|item| index(&item)).collect(),
        Err(_) => Ok(vec![index(key)?]),
    }
}

fn index(item: &Bound<'_, PyAny>) -> PyResult<Index> {
    if item.is_none() {
        return Ok(Index::NewAxis);
    }
    if item.is_instance_of::<PyEllipsis>() {
        return Ok(Index::Ellipsis);
    }
    if let Ok(slice) = item.cast::<PySlice>() {
        let part = |name| bound(&slice.getattr(name)?);
        return Ok(Index::Slice { start: part("start")?, stop: part("stop")?, step: part("step")? });
    }
    if let Ok(value) = item.cast::<PyBool>() {
        return Ok(Index::Mask { dims: Vec::new(), bits: vec![value.is_true()] });
    }
    // Scalars of numpy and tensors of torch say best themselves what they are: some that are true or false
    // have `__index__`, too.
    let is_sequence = item.cast::<PyList>().is_ok() || item.cast::<PyTuple>().is_ok();
    if is_sequence || (item.cast::<PyInt>().is_err() && item.hasattr("__array__")?) {
        return array_index(item);
    }
    let py = item.py();
    let Ok(integer) = item.call_method0("__index__") else { return Err(unusable(py)) };
    match integer.extract::<i64>() {
        Ok(at) => Ok(Index::At(at)),
        Err(_) => Err(out_of_bounds(py, "cannot fit 'int' into an index-sized integer")),
    }
}

fn unusable(py: Python<'_>) -> PyErr {
    out_of_bounds(
        py,
        "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays \
         are valid indices",
    )
}

/// A bound of a slice: those beyond what fits mean the end, as in Python.
fn bound(value: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if value.is_none() {
        return Ok(None);
    }
    let integer = match value.call_method0("__index__") {
        Ok(integer) => integer,
        Err(_) => {
            let message = "slice indices must be integers or None or have an __index__ method";
            return Err(out_of_bounds(value.py(), message));
        }
    };
    match integer.extract::<i64>() {
        Ok(bound) => Ok(Some(bound)),
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => {
            Ok(Some(if integer.lt(0)? { i64::MIN } else { i64::MAX }))
        }
        Err(error) => Err(error),
    }
}

fn array_index(item: &Bound<'_, PyAny>) -> PyResult<Index> {
    let py = item.py();
    let numpy = py.import("numpy")?;
    // Ragged nestings make numpy raise; for an index that is an IndexError.
    let array = numpy.call_method1("asarray", (item,)).map_err(|_| unusable(py))?;
    let mut array = array.cast_into::<PyUntypedArray>()?;
    let dims: Vec<u64> = array.shape().iter().map(|&dim| dim as u64).collect();
    let is_empty_list = array.len() == 0 && item.cast::<PyUntypedArray>().is_err();
    match array.dtype().kind() {
        b'b' => {
            let array: PyReadonlyArrayDyn<'_, bool> = array.extract()?;
            Ok(Index::Mask { dims, bits: array.as_array().iter().copied().collect() })
        }
        kind @ (b'i' | b'u') => {
            if kind == b'u' && array.dtype().itemsize() == 8 {
                // What is beyond any axis must not turn negative.
                let largest = numpy.getattr("uint64")?.call1((i64::MAX,))?;
                let clipped = numpy.call_method1("minimum", (&array, largest))?;
                array = numpy.call_method1("asarray", (clipped,))?.cast_into()?;
            }
            let longs = array.call_method1("astype", ("int64",))?;
            let longs: PyReadonlyArrayDyn<'_, i64> = longs.extract()?;
            Ok(Index::List { dims, values: longs.as_array().iter().copied().collect() })
        }
        // An empty list has no type of its own and selects nothing.
        _ if is_empty_list => Ok(Index::List { dims, values: Vec::new() }),
        _ => Err(out_of_bounds(py, "arrays used as indices must be of integer (or boolean) type")),
    }
}
