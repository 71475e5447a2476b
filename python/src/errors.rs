//! Errors of the crates as exceptions of `lacus.errors`, chosen by what the caller should do.

use lacus::algebra::AlgebraError;
use lacus::dataset::DatasetError;
use lacus::exchange::ExchangeError;
use lacus::history::{Conflict, HistoryError};
use lacus::query::QueryError;
use lacus::table::{ErrorKind, TableError};
use lacus::tensor::TensorError;
use lacus::{Error, Hint};
use pyo3::PyErrArguments;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The exception for an error of a table.
pub(crate) fn raise(py: Python<'_>, error: &TableError) -> PyErr {
    let raised = exception(py, class_name(error.kind(), error.is_out_of_bounds()), error.to_string());
    hinted(py, raised, Hint::of_table(error))
}

/// The exception for an error of rows and columns.
pub(crate) fn raise_dataset(py: Python<'_>, error: &DatasetError) -> PyErr {
    raise_dataset_with(py, error, "")
}

/// The same with a note at its end.
pub(crate) fn raise_dataset_with(py: Python<'_>, error: &DatasetError, note: &str) -> PyErr {
    let raised = exception(py, class_name(error.kind(), error.is_out_of_bounds()), format!("{error}{note}"));
    hinted(py, raised, Hint::of_dataset(error))
}

/// The exception for an error of an import or export.
pub(crate) fn raise_exchange(py: Python<'_>, error: &ExchangeError) -> PyErr {
    hinted(py, exception(py, class_name(error.kind(), false), error.to_string()), Hint::of_exchange(error))
}

/// The exception for any error. Conflicts of a merge are listed in theirs; what a function raised is the cause of its own.
pub(crate) fn raise_error(py: Python<'_>, error: &Error) -> PyErr {
    let raised = match error {
        Error::History(HistoryError::Conflicts { conflicts, without_union }) => {
            let all = conflicts.iter().chain(without_union).map(conflict_json).collect();
            let listed = serde_json::Value::Array(all).to_string();
            build(py, "MergeConflictError", (error.to_string(), listed))
        }
        Error::Query(QueryError::Function { cause: Some(cause), .. }) => {
            match cause.downcast_ref::<PyErr>() {
                // KeyboardInterrupt and SystemExit are no errors.
                Some(raised) if !raised.is_instance_of::<PyException>(py) => raised.clone_ref(py),
                raised => {
                    let made = exception(py, class_name(error.kind(), false), error.to_string());
                    made.set_cause(py, raised.map(|raised| raised.clone_ref(py)));
                    made
                }
            }
        }
        error => exception(py, class_name(error.kind(), error.is_out_of_bounds()), error.to_string()),
    };
    hinted(py, raised, error.hint())
}

/// The same exception with what would help as its attribute `hint`, if anything is known to.
fn hinted(py: Python<'_>, raised: PyErr, hint: Option<Hint>) -> PyErr {
    let Some(words) = hint.and_then(told) else { return raised };
    let set = raised.value(py).setattr("hint", words);
    set.err().unwrap_or(raised)
}

/// What helps, as Python code.
fn told(hint: Hint) -> Option<String> {
    let words = match hint {
        Hint::Create { url } => return Some(format!("lacus.create({url:?}) creates one")),
        Hint::EmptyPlace => "choose an empty location",
        Hint::ListTensors => "ds.keys() lists the arrays",
        Hint::ListColumns => "ds.columns lists the columns",
        Hint::ListVersions => "ds.history() lists the versions",
        Hint::ListRefs => "ds.branches and ds.tags list names, ds.log() commits, ds.history() versions",
        Hint::OtherBranch => "ds.branches lists the branches",
        Hint::ListViews => "ds.views lists the saved views",
        Hint::ReadRows => "it is a column: ds[name] reads its rows",
        Hint::Credentials => "check permissions and credentials (the environment, or storage_options=)",
        Hint::Doctor => "the command `lacus doctor` checks the whole dataset",
        Hint::Check => "ds.check() checks the whole history",
        Hint::FirstCommit => "ds.commit(message) creates the first commit",
        Hint::Commit => "ds.commit(message) commits the draft, ds.discard() discards it",
        Hint::CleanedUp => "ds.gc(keep=...) removed what was old",
        Hint::MoreDigits => "give more digits of the id",
        Hint::DecideConflicts => "choose with on_conflict=",
        Hint::SkipErrors => "on_error=\"skip\" leaves these out and lists them in the report",
        Hint::SumDuplicates => "sum_duplicates=True adds up their values",
        Hint::DiscardOthers => "force=True discards them as well",
        Hint::Kind => "specify the format with kind=",
        _ => return None,
    };
    Some(words.to_owned())
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
    let raised = exception(py, class_name(error.kind(), error.is_out_of_bounds()), message);
    hinted(py, raised, Hint::of_table(error))
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
