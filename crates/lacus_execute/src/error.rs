//! What can go wrong while a program runs.

use lacus_algebra::AlgebraError;
use lacus_tensor::{ErrorKind, TensorError};
use std::sync::Arc;

/// Why a program could not be run to its end. Nothing of it was stored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ExecuteError {
    /// The program cannot be planned.
    #[error(transparent)]
    Algebra(Arc<AlgebraError>),

    /// A tensor could not be made.
    #[error(transparent)]
    Tensor(#[from] TensorError),

    /// A tensor that the program loads is not there.
    #[error("the program loads {name:?}, which is not there{known}")]
    NoInput {
        /// Its name.
        name: String,
        /// What is.
        known: String,
    },

    /// A tensor that the program loads is not what it was planned for.
    #[error("input {name:?}: {what}")]
    BadInput {
        /// Its name.
        name: String,
        /// What is wrong.
        what: String,
    },

    /// The budget is less than the largest step takes.
    #[error("a memory budget of {} is too small: {what} takes {}", human(*.budget), human_at_least(*.needed))]
    Budget {
        /// What needs so much.
        what: String,
        /// Bytes that would do.
        needed: u64,
        /// Bytes that were allowed.
        budget: u64,
    },

    /// A result that is not a number, where those are forbidden.
    #[error("{value:?}: NaN at {at:?}, tile {tile:?} (forbid_nan is set)")]
    NotANumber {
        /// The name of the value.
        value: String,
        /// The tile.
        tile: Vec<u64>,
        /// The position.
        at: Vec<u64>,
    },

    /// A remainder or quotient of integers by zero.
    #[error("an integer is divided by zero at {at:?}")]
    ZeroDivision {
        /// The values of the indices.
        at: Vec<i64>,
    },

    /// Something went wrong in one task.
    #[error("{value}, tile {tile:?}: {source}")]
    Task {
        /// The name of the value.
        value: String,
        /// The tile.
        tile: Vec<u64>,
        /// What went wrong.
        source: Box<ExecuteError>,
    },

    /// A worker panicked: a bug of ours.
    #[error("a worker panicked: {what}")]
    Panic {
        /// What it said.
        what: String,
    },

    /// A loop that goes on.
    #[error("a loop has not ended after {rounds} rounds")]
    Rounds {
        /// Rounds that were allowed.
        rounds: u64,
    },

    /// What does not fit memory could not be put aside.
    #[error("spilling to {path:?}: {what}")]
    Spill {
        /// Where.
        path: String,
        /// What went wrong.
        what: String,
    },

    /// The directory for what does not fit memory does not exist.
    #[error("spill: {path:?} is not a directory; create it first")]
    NoSpill {
        /// What was given.
        path: String,
    },

    /// Reading or storing a tensor failed.
    #[error("{what}")]
    Storage {
        /// What to do about it.
        kind: ErrorKind,
        /// What went wrong.
        what: String,
    },

    /// Checkpoints are asked for, and there is nowhere to keep them.
    #[error(
        "checkpoints of loops are kept in the dataset that results are stored in, and this run stores nothing"
    )]
    NoCheckpoints,

    /// A loop that cannot be gone on with in the middle.
    #[error(
        "checkpoint_every: a loop that saves {name:?} within {within} cannot be gone on with; save it after the loop"
    )]
    SavesWithin {
        /// What is saved.
        name: String,
        /// Where.
        within: &'static str,
    },

    /// The caller asked to stop.
    #[error("the run was cancelled")]
    Cancelled,

    /// A bug of ours.
    #[error("internal: {what}")]
    Internal {
        /// What was found.
        what: String,
    },
}

impl ExecuteError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            ExecuteError::Algebra(error) => error.kind(),
            ExecuteError::Tensor(error) => error.kind(),
            ExecuteError::NoInput { .. } => ErrorKind::NotFound,
            ExecuteError::BadInput { .. }
            | ExecuteError::Budget { .. }
            | ExecuteError::NotANumber { .. }
            | ExecuteError::ZeroDivision { .. }
            | ExecuteError::NoCheckpoints
            | ExecuteError::SavesWithin { .. }
            | ExecuteError::NoSpill { .. }
            | ExecuteError::Rounds { .. } => ErrorKind::Invalid,
            ExecuteError::Task { source, .. } => source.kind(),
            ExecuteError::Spill { .. } | ExecuteError::Cancelled => ErrorKind::Unavailable,
            ExecuteError::Storage { kind, .. } => *kind,
            ExecuteError::Panic { .. } | ExecuteError::Internal { .. } => ErrorKind::Internal,
        }
    }

    /// The same error with the tile it happened in.
    pub(crate) fn in_tile(self, value: &str, tile: Vec<u64>) -> ExecuteError {
        match self {
            error @ (ExecuteError::Task { .. }
            | ExecuteError::Cancelled
            | ExecuteError::Budget { .. }
            | ExecuteError::NotANumber { .. }) => error,
            error => ExecuteError::Task { value: value.to_owned(), tile, source: Box::new(error) },
        }
    }
}

impl From<AlgebraError> for ExecuteError {
    fn from(error: AlgebraError) -> ExecuteError {
        ExecuteError::Algebra(Arc::new(error))
    }
}

/// What a panic said. Memory that is missing is no bug of ours.
pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> ExecuteError {
    if let Some(error) = panic.downcast_ref::<TensorError>() {
        return ExecuteError::Tensor(error.clone());
    }
    let what = panic.downcast_ref::<String>().cloned();
    let what = what.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    ExecuteError::Panic { what: what.unwrap_or_else(|| "nothing".to_owned()) }
}

/// Bytes for people.
pub(crate) fn human(bytes: u64) -> String {
    in_units(bytes, |tenths| tenths)
}

/// Bytes for people who allow as many as they read.
fn human_at_least(bytes: u64) -> String {
    in_units(bytes, f64::ceil)
}

fn in_units(bytes: u64, round: impl Fn(f64) -> f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut size = bytes as f64;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < units.len() {
        size /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{:.1} {}", round(size * 10.0) / 10.0, units[unit]) }
}
