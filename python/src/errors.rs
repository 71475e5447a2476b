//! Errors of the crates as exceptions of `lacus.errors`, chosen by what the caller should do.

use lacus_algebra::AlgebraError;
use lacus_dataset::DatasetError;
use lacus_exchange::ExchangeError;
use lacus_history::{Conflict, HistoryError};
use lacus_table::{ErrorKind, TableError};
use lacus_tensor::TensorError;
use pyo3::PyErrArguments;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The exception for an error of a table.
pub(crate) fn raise(py: Python<'_>, error: &TableError) -> PyErr {
    exception(py, class_name(error.kind(), error.is_out_of_bounds()), error.to_string())
}

/// The exception for an error of rows and columns.
pub(crate) fn raise_dataset(py: Python<'_>, error: &DatasetError) -> PyErr {
    raise_dataset_with(py, error, "")
}

/// The same with a note at its end.
pub(crate) fn raise_dataset_with(py: Python<'_>, error: &DatasetError, note: &str) -> PyErr {
    exception(py, class_name(error.kind(), error.is_out_of_bounds()), format!("{error}{note}"))
}

/// The exception for an error of an import or export.
pub(crate) fn raise_exchange(py: Python<'_>, error: &ExchangeError) -> PyErr {
    exception(py, class_name(error.kind(), false), error.to_string())
}

/// The exception for an error of a dataset's history. Conflicts of a merge are listed in theirs.
pub(crate) fn raise_history(py: Python<'_>, error: &HistoryError) -> PyErr {
    match error {
        HistoryError::Table(error) => raise(py, error),
        HistoryError::Conflicts { conflicts, without_union } => {
            let all = conflicts.iter().chain(without_union).map(conflict_json).collect();
            let listed = serde_json::Value::Array(all).to_string();
            build(py, "MergeConflictError", (error.to_string(), listed))
        }
        other => exception(py, class_name(other.kind(), false), other.to_string()),
    }
}

/// A conflict as `lacus/conflict.py` takes it.
fn conflict_json(conflict: &Conflict) -> serde_json::Value {
    let mut json = serde_json::to_value(conflict).unwrap_or_default();
    json["text"] = conflict.to_string().into();
    json["has_union"] = conflict.has_union().into();
    json
}

/// The same for an error met on a tensor: shapes and selections know no names, so it is added.
pub(crate) fn raise_on(py: Python<'_>, name: &str, error: &TableError) -> PyErr {
    let message = match error {
        TableError::Tensor(_) | TableError::Layout { tensor: None, .. } => {
            format!("tensor {name:?}: {error}")
        }
        _ => error.to_string(),
    };
    exception(py, class_name(error.kind(), error.is_out_of_bounds()), message)
}

/// The exception for a shape, selection or value that is wrong.
pub(crate) fn raise_tensor(py: Python<'_>, error: &TensorError) -> PyErr {
    exception(py, class_name(error.kind(), error.is_out_of_bounds()), error.to_string())
}

/// The exception for an error of a program.
pub(crate) fn raise_algebra(py: Python<'_>, error: &AlgebraError) -> PyErr {
    exception(py, class_name(error.kind(), false), error.to_string())
}

/// The exception of a kind with this message.
pub(crate) fn of_kind(py: Python<'_>, kind: ErrorKind, message: String) -> PyErr {
    exception(py, class_name(kind, false), message)
}

/// `NotFoundError` with this message.
pub(crate) fn not_found(py: Python<'_>, message: impl Into<String>) -> PyErr {
    exception(py, class_name(ErrorKind::NotFound, false), message.into())
}

/// `InvalidError` with this message.
pub(crate) fn invalid(py: Python<'_>, message: impl Into<String>) -> PyErr {
    exception(py, class_name(ErrorKind::Invalid, false), message.into())
}

/// `OutOfBoundsError`, for what numpy answers with an `IndexError`.
pub(crate) fn out_of_bounds(py: Python<'_>, message: impl Into<String>) -> PyErr {
    exception(py, class_name(ErrorKind::Invalid, true), message.into())
}

/// `UnavailableError` with this message.
pub(crate) fn unavailable(py: Python<'_>, message: impl Into<String>) -> PyErr {
    exception(py, class_name(ErrorKind::Unavailable, false), message.into())
}

/// `InternalError`: a fault of ours.
pub(crate) fn internal(py: Python<'_>, message: impl Into<String>) -> PyErr {
    exception(py, class_name(ErrorKind::Internal, false), message.into())
}

fn class_name(kind: ErrorKind, is_out_of_bounds: bool) -> &'static str {
    match kind {
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::Invalid if is_out_of_bounds => "OutOfBoundsError",
        ErrorKind::Invalid => "InvalidError",
        ErrorKind::Conflict => "ConflictError",
        ErrorKind::Unavailable => "UnavailableError",
        ErrorKind::Corrupt => "CorruptError",
        ErrorKind::OutOfMemory => "OutOfMemoryError",
        ErrorKind::Internal => "InternalError",
    }
}

/// The classes are Python's, since they have several bases; they are looked up when one is needed.
fn exception(py: Python<'_>, class: &str, message: String) -> PyErr {
    build(py, class, (message,))
}

fn build(py: Python<'_>, class: &str, arguments: impl PyErrArguments + 'static) -> PyErr {
    let found = py.import("lacus.errors").and_then(|module| module.getattr(class));
    match found.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
        Ok(class) => PyErr::from_type(class, arguments),
        Err(error) => error,
    }
}
