//! What can go wrong while loading.

use lacus_dataset::DatasetError;
use lacus_tensor::{ErrorKind, TensorError};

/// An error of a loader, with the facts. [`LoaderError::kind`] says what the caller should do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoaderError {
    /// The dataset refused or failed.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// A shape was refused, or there is no memory.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// What was asked for makes no sense.
    #[error("loader: {why}")]
    Refused {
        /// Why it is refused.
        why: String,
    },
    /// A sample cannot be loaded.
    #[error("column {column:?}, row {place} of the view (id {id}): {why}")]
    Sample {
        /// The column.
        column: String,
        /// The place of the row in the view.
        place: u64,
        /// The id of the row.
        id: u64,
        /// What the caller should do.
        kind: ErrorKind,
        /// What is wrong.
        why: String,
    },
    /// Samples of a batch do not fit together.
    #[error("column {column:?}: {why}")]
    Collate {
        /// The column.
        column: String,
        /// Which rows, and why.
        why: String,
    },
    /// A state cannot be gone on from.
    #[error("loader state: {why}")]
    State {
        /// Why not.
        why: String,
    },
    /// Nothing came for too long.
    #[error("no batch came for {secs} seconds: the loader was waiting for {what}")]
    TimedOut {
        /// How long it waited.
        secs: u64,
        /// What for.
        what: String,
    },
    /// The part that makes batches ended without a word.
    #[error("loader: {why}")]
    Broken {
        /// What is known of it.
        why: String,
    },
}

impl LoaderError {
    /// What the caller should do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            LoaderError::Dataset(error) => error.kind(),
            LoaderError::Tensor(error) => error.kind(),
            LoaderError::Sample { kind, .. } => *kind,
            LoaderError::Refused { .. } | LoaderError::Collate { .. } | LoaderError::State { .. } => {
                ErrorKind::Invalid
            }
            LoaderError::TimedOut { .. } => ErrorKind::Unavailable,
            LoaderError::Broken { .. } => ErrorKind::Internal,
        }
    }

    /// Whether the batch it belongs to is lost for good, so that going on means going on behind it. After any other error the same
    /// batch is tried again.
    pub fn is_of_data(&self) -> bool {
        matches!(self, LoaderError::Sample { .. } | LoaderError::Collate { .. })
    }

    pub(crate) fn refused(why: impl Into<String>) -> LoaderError {
        LoaderError::Refused { why: why.into() }
    }
}
