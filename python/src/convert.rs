//! Small values between Python and the crates: wishes, dtypes, metadata, shapes.

use lacus::dataset::OnError;
use lacus::layout::{Compression, CompressionWish, Optimize, Wish};
use lacus::tensor::{DType, Shape};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use serde_json::Value as Json;

use crate::errors::{invalid, raise_tensor};

/// What the caller wants of a layout, as `lacus/dataset.py` hands it over: a dict with all of these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct WishArguments {
    layout: String,
    chunk_shape: Option<Vec<u64>>,
    chunk_rank: Option<usize>,
    block_shape: Option<Vec<u64>>,
    split: Option<usize>,
    axis_order: Option<Vec<usize>>,
    compression: Option<String>,
    optimize: String,
}

impl WishArguments {
    pub(crate) fn wish(self, py: Python<'_>) -> PyResult<Wish> {
        let optimize = match self.optimize.as_str() {
            "slices" => Optimize::Slices,
            "size" => Optimize::Size,
            other => {
                return Err(invalid(py, format!("optimize: {other:?} is neither \"slices\" nor \"size\"")));
            }
        };
        let compression = match self.compression.as_deref() {
            Some("auto") => CompressionWish::Auto,
            None => CompressionWish::None,
            Some(text) => match text.parse::<Compression>() {
                Ok(compression) => compression.into(),
                Err(error) => return Err(invalid(py, error.to_string())),
            },
        };
        Ok(Wish {
            layout: Some(self.layout),
            chunk_shape: self.chunk_shape,
            chunk_rank: self.chunk_rank,
            block_shape: self.block_shape,
            split: self.split,
            axis_order: self.axis_order,
            compression,
            optimize,
        })
    }
}

/// A dtype by its name.
pub(crate) fn dtype(py: Python<'_>, name: &str) -> PyResult<DType> {
    name.parse().map_err(|e| raise_tensor(py, &e))
}

/// A shape from a sequence of sizes.
pub(crate) fn shape(py: Python<'_>, dims: Vec<u64>) -> PyResult<Shape> {
    Shape::new(dims).map_err(|e| raise_tensor(py, &e))
}

/// Sizes as Python shows them: a tuple.
pub(crate) fn tuple<'py>(py: Python<'py>, dims: &[u64]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, dims)
}

/// Metadata, which travels as JSON text.
pub(crate) fn json(py: Python<'_>, text: &str) -> PyResult<Json> {
    serde_json::from_str(text).map_err(|e| invalid(py, format!("metadata: {e}")))
}

/// What becomes of a call one of whose rows is wrong.
pub(crate) fn on_error(py: Python<'_>, text: &str) -> PyResult<OnError> {
    match text {
        "raise" => Ok(OnError::Raise),
        "skip" => Ok(OnError::Skip),
        other => Err(invalid(py, format!("on_error: {other:?} is neither \"raise\" nor \"skip\""))),
    }
}
