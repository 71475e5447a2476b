//! Sparse tensors that Python holds. They do not change, so their coordinates and values are shown as
//! read-only arrays over the memory they are in.

use std::sync::Arc;

use lacus::tensor::{Buffer, DType, Duplicates, Selection, SparseTensor, TensorError, TensorRef};
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array::{into_array, tensor_ref, view};
use crate::convert::{dtype, shape, tuple};
use crate::errors::raise_tensor;
use crate::selection::indices;

/// Sorted, unique coordinates and their values.
#[pyclass(frozen, module = "lacus._native")]
pub(crate) struct Sparse {
    tensor: Arc<SparseTensor>,
}

impl Sparse {
    pub(crate) fn new(tensor: SparseTensor) -> Sparse {
        Sparse { tensor: Arc::new(tensor) }
    }

    pub(crate) fn tensor(&self) -> Arc<SparseTensor> {
        Arc::clone(&self.tensor)
    }
}

#[pymethods]
impl Sparse {
    /// Takes coordinates of shape (ndim, nnz) as int64, checks and sorts them.
    #[staticmethod]
    fn from_parts(
        py: Python<'_>,
        coords: &Bound<'_, PyUntypedArray>,
        values: &Bound<'_, PyUntypedArray>,
        dtype_name: &str,
        dims: Vec<u64>,
        sum_duplicates: bool,
    ) -> PyResult<Sparse> {
        let (dtype, shape) = (dtype(py, dtype_name)?, shape(py, dims)?);
        let (coords, values) = (tensor_ref(coords, DType::I64)?, tensor_ref(values, dtype)?);
        let duplicates = if sum_duplicates { Duplicates::Sum } else { Duplicates::Refuse };
        let made =
            py.detach(|| SparseTensor::new(dtype, shape, gathered(&coords)?, gathered(&values)?, duplicates));
        made.map(Sparse::new).map_err(|e| raise_tensor(py, &e))
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        self.tensor.dtype().name()
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        tuple(py, self.tensor.shape().dims())
    }

    #[getter]
    fn nnz(&self) -> usize {
        self.tensor.nnz()
    }

    /// The coordinates, of shape (ndim, nnz).
    fn coords(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        let tensor = slf.get().tensor();
        let dims = [tensor.shape().rank() as u64, tensor.nnz() as u64];
        view(slf.into_any(), tensor.coords(), DType::I64, &dims)
    }

    fn values(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        let tensor = slf.get().tensor();
        view(slf.into_any(), tensor.values(), tensor.dtype(), &[tensor.nnz() as u64])
    }

    fn to_dense<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let dense = py.detach(|| self.tensor.to_dense()).map_err(|e| raise_tensor(py, &e))?;
        into_array(py, dense)
    }

    fn select(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Sparse> {
        let indices = indices(key)?;
        let selected = py.detach(|| {
            let selection = Selection::resolve(self.tensor.shape(), &indices)?;
            Ok(self.tensor.select(&selection))
        });
        selected.map(Sparse::new).map_err(|e: TensorError| raise_tensor(py, &e))
    }

    /// Same dtype, shape, coordinates and bits of values.
    fn equals(&self, py: Python<'_>, other: &Sparse) -> bool {
        py.detach(|| self.tensor == other.tensor)
    }
}

/// The elements in C order in a buffer of their own.
fn gathered(tensor: &TensorRef<'_>) -> Result<Buffer, TensorError> {
    let mut buffer = Buffer::try_for_overwrite(tensor.shape().byte_len(tensor.dtype())?)?;
    tensor.copy_to(&mut buffer);
    Ok(buffer)
}
