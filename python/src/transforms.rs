//! Native transforms of samples: lists of steps as JSON, checked, and applied to an array or to the bytes of a file.

use std::sync::Arc;

use lacus::loader::SampleKey;
use lacus::loader::transform::{Pipeline, TransformError};
use lacus::tensor::{DType, Tensor};
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::array::{into_array, tensor_ref};
use crate::convert::dtype;
use crate::errors::of_kind;
use crate::loader::SampleTransform;

fn raise_transform(py: Python<'_>, error: &TransformError) -> PyErr {
    of_kind(py, error.kind(), error.to_string())
}

fn pipeline(py: Python<'_>, steps: &str) -> PyResult<Pipeline> {
    Pipeline::from_json(steps).map_err(|error| raise_transform(py, &error))
}

fn finished(py: Python<'_>, made: Result<Tensor, TransformError>) -> PyResult<Bound<'_, PyAny>> {
    into_array(py, made.map_err(|error| raise_transform(py, &error))?)
}

/// Fails for steps that cannot work; else the dtype of what comes out, and whether the steps are for sound.
#[pyfunction]
pub(crate) fn check_transform(py: Python<'_>, steps: &str) -> PyResult<(&'static str, bool)> {
    let pipeline = pipeline(py, steps)?;
    Ok((pipeline.dtype().name(), pipeline.is_for_sound()))
}

/// Steps for a loader.
#[pyfunction]
pub(crate) fn native_transform(py: Python<'_>, steps: &str) -> PyResult<SampleTransform> {
    Ok(SampleTransform::new(Arc::new(pipeline(py, steps)?)))
}

/// Applies steps to the bytes of a file. The key is (seed, epoch, row).
#[pyfunction]
pub(crate) fn transform_file<'py>(
    py: Python<'py>,
    steps: &str,
    bytes: &Bound<'py, PyBytes>,
    key: (u64, u64, u64),
) -> PyResult<Bound<'py, PyAny>> {
    let pipeline = pipeline(py, steps)?;
    let raw = bytes.as_bytes();
    finished(py, py.detach(|| pipeline.apply_to_file(raw, sample_key(key))))
}

/// Applies steps to an array, whose elements are of the named dtype.
#[pyfunction]
pub(crate) fn transform_array<'py>(
    py: Python<'py>,
    steps: &str,
    array: &Bound<'py, PyUntypedArray>,
    dtype_name: &str,
    key: (u64, u64, u64),
) -> PyResult<Bound<'py, PyAny>> {
    let pipeline = pipeline(py, steps)?;
    let dtype: DType = dtype(py, dtype_name)?;
    let tensor = tensor_ref(array, dtype)?;
    finished(py, py.detach(|| pipeline.apply_to_tensor(&tensor, sample_key(key))))
}

fn sample_key((seed, epoch, row): (u64, u64, u64)) -> SampleKey {
    SampleKey { seed, epoch, row }
}
