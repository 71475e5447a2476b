//! A stored tensor: its facts, reading, writing regions.

use std::sync::Arc;

use lacus::io::Pool;
use lacus::layout::{Value, content_digests as content_digests_of};
use lacus::table::{Read, Table, TableError};
use lacus::tensor::{DType, Index, Selection, SparseTensor};
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::array::{bytes, bytes_mut, into_array, tensor_ref};
use crate::convert::{dtype, json, tuple};
use crate::errors::raise_on;
use crate::handle::Handle;
use crate::runtime::{Outcome, run_now};
use crate::selection::indices;
use crate::sparse::Sparse;

/// What is known of a tensor without reading it.
#[pyclass(frozen, get_all, module = "lacus._native")]
pub(crate) struct TensorInfo {
    name: String,
    dtype: &'static str,
    shape: Py<PyTuple>,
    layout: &'static str,
    is_sparse: bool,
    nnz: Option<u64>,
    chunk_shape: Option<Py<PyTuple>>,
    compression: String,
    stored_bytes: u64,
    metadata: String,
    reasons: Vec<String>,
}

impl TensorInfo {
    pub(crate) fn new(py: Python<'_>, info: lacus::table::TensorInfo) -> PyResult<TensorInfo> {
        let header = info.header;
        let chunk_shape = header.chunk_shape().map(|dims| tuple(py, dims)).transpose()?;
        Ok(TensorInfo {
            name: info.name,
            dtype: header.dtype.name(),
            shape: tuple(py, header.shape.dims())?.unbind(),
            layout: header.layout.name(),
            is_sparse: header.layout.is_sparse(),
            nnz: header.nnz,
            chunk_shape: chunk_shape.map(Bound::unbind),
            compression: header.compression.to_string(),
            stored_bytes: info.stored_bytes,
            metadata: info.metadata.to_string(),
            reasons: header.reasons,
        })
    }
}

/// A value that Python holds on to while it is written.
pub(crate) enum Held<'py> {
    Array(Bound<'py, PyUntypedArray>, DType),
    Sparse(Arc<SparseTensor>),
}

impl<'py> Held<'py> {
    /// An array whose elements are of the named dtype, or a `Sparse`.
    pub(crate) fn new(value: &Bound<'py, PyAny>, dtype_name: &str) -> PyResult<Held<'py>> {
        if let Ok(sparse) = value.cast::<Sparse>() {
            return Ok(Held::Sparse(sparse.get().tensor()));
        }
        Ok(Held::Array(value.cast::<PyUntypedArray>()?.clone(), dtype(value.py(), dtype_name)?))
    }

    pub(crate) fn value(&self) -> PyResult<Value<'_>> {
        match self {
            Held::Array(array, dtype) => Ok(Value::Dense(tensor_ref(array, *dtype)?)),
            Held::Sparse(tensor) => Ok(Value::Sparse(tensor)),
        }
    }
}

/// Reading this many bytes takes some ten milliseconds.
const SHORT_BYTES: u64 = 32 << 20;

/// A tensor of a dataset by its name, at whatever version the dataset's handle is.
#[pyclass(frozen, module = "lacus._native")]
pub(crate) struct Tensor {
    handle: Arc<Handle>,
    name: String,
}

impl Tensor {
    /// Fails if there is no such tensor.
    pub(crate) fn new(py: Python<'_>, handle: Arc<Handle>, name: String) -> PyResult<Tensor> {
        let tensor = Tensor { handle, name };
        tensor.known(py)?;
        Ok(tensor)
    }

    fn known(&self, py: Python<'_>) -> PyResult<lacus::table::TensorInfo> {
        self.checked(py, self.handle.peek(py, |table| table.tensor(&self.name))?)
    }

    /// Whether a selection is read in some ten milliseconds, judged by the bytes it can have to do with.
    fn is_short(&self, py: Python<'_>, indices: &[Index]) -> PyResult<bool> {
        self.handle.peek(py, |table| {
            let Ok(info) = table.tensor(&self.name) else { return true };
            // Packed nonzeros take some twentieth of what they unpack to.
            if info.header.layout.is_sparse() {
                return info.stored_bytes <= SHORT_BYTES / 20;
            }
            let Ok(selection) = Selection::resolve(&info.header.shape, indices) else { return true };
            let Some(bounds) = selection.bounding_box() else { return true };
            let cells = bounds.iter().fold(1u64, |n, (low, high)| n.saturating_mul(high - low));
            cells.saturating_mul(info.header.dtype.size_bytes() as u64) <= SHORT_BYTES
        })
    }

    fn checked<T>(&self, py: Python<'_>, outcome: Outcome<T>) -> PyResult<T> {
        outcome.map_err(|error| raise_on(py, &self.name, &error))
    }
}

#[pymethods]
impl Tensor {
    fn info(&self, py: Python<'_>) -> PyResult<TensorInfo> {
        TensorInfo::new(py, self.known(py)?)
    }

    /// The shape that a selection has.
    fn selected_shape<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        let indices = indices(key)?;
        let selection = Selection::resolve(&self.known(py)?.header.shape, &indices);
        let selection = self.checked(py, selection.map_err(TableError::from))?;
        tuple(py, selection.output_shape().dims())
    }

    /// A writable array for a dense tensor, a `Sparse` for a sparse one.
    fn read<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let indices = indices(key)?;
        let short = self.is_short(py, &indices)?;
        let read =
            self.handle.read(py, short, async |table: &Table| table.read(&self.name, &indices).await)?;
        match self.checked(py, read)? {
            Read::Dense(tensor) => into_array(py, tensor),
            Read::Sparse(tensor) => Ok(Bound::new(py, Sparse::new(tensor))?.into_any()),
        }
    }

    fn read_into(
        &self,
        py: Python<'_>,
        out: &Bound<'_, PyUntypedArray>,
        key: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let indices = indices(key)?;
        let mut out = out.clone();
        let bytes = bytes_mut(&mut out)?;
        let short = self.is_short(py, &indices)?;
        let read = self
            .handle
            .read(py, short, async |table: &Table| table.read_into(&self.name, &indices, bytes).await)?;
        self.checked(py, read)
    }

    /// Writes values that have the selection's shape and the tensor's dtype.
    fn write(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        values: &Bound<'_, PyUntypedArray>,
        dtype_name: &str,
        durable: bool,
    ) -> PyResult<u64> {
        let indices = indices(key)?;
        let values = tensor_ref(values, dtype(py, dtype_name)?)?;
        let written = self.handle.write(py, durable, async |table: &mut Table, options: &_| {
            table.write_region(&self.name, &indices, values, options).await
        })?;
        self.checked(py, written)
    }

    fn append(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyAny>,
        dtype_name: &str,
        durable: bool,
    ) -> PyResult<u64> {
        let held = Held::new(values, dtype_name)?;
        let values = held.value()?;
        let written = self.handle.write(py, durable, async |table: &mut Table, options: &_| {
            table.append(&self.name, values, options).await
        })?;
        self.checked(py, written)
    }

    /// Sets the length of the first axis.
    fn resize(&self, py: Python<'_>, first: u64, durable: bool) -> PyResult<u64> {
        let written = self.handle.write(py, durable, async |table: &mut Table, options: &_| {
            table.resize(&self.name, first, options).await
        })?;
        self.checked(py, written)
    }

    fn set_metadata(&self, py: Python<'_>, metadata: &str, durable: bool) -> PyResult<u64> {
        let metadata = json(py, metadata)?;
        let written = self.handle.write(py, durable, async |table: &mut Table, options: &_| {
            table.set_metadata(Some(&self.name), metadata, options).await
        })?;
        self.checked(py, written)
    }
}

/// 16 bytes of each array that tell contents apart; see `lacus_layout::content_digests`.
#[pyfunction]
pub(crate) fn content_digests<'py>(
    py: Python<'py>,
    arrays: Vec<Bound<'py, PyUntypedArray>>,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let contents: Vec<&[u8]> = arrays.iter().map(bytes).collect::<PyResult<_>>()?;
    let team = Pool::process().team(Pool::process().threads());
    let found = run_now(py, || content_digests_of(&contents, team))?;
    Ok(found.iter().map(|digest| PyBytes::new(py, &digest.to_le_bytes())).collect())
}
