//! What can go wrong on the way in or out.

use std::io;
use std::path::{Path, PathBuf};

use lacus_dataset::{DatasetError, ErrorKind};
use lacus_files::FileError;
use lacus_table::TableError;

/// An error of an import or export. [`ExchangeError::kind`] says what the caller should do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The dataset refused or failed.
    #[error(transparent)]
    Dataset(DatasetError),
    /// A file of tensors was refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// A sample cannot be taken, or cannot be given in this form.
    #[error("{place}: {why}")]
    Bad {
        /// Where it is: a file, a line, a row.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// A source is not what it should be.
    #[error("{}: {why}", path.display())]
    Source {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The format of a source cannot be detected: the caller has to say it.
    #[error("{}: cannot detect the format from the name; specify it", path.display())]
    UnknownKind {
        /// The file.
        path: PathBuf,
    },
    /// The dataset does not hold what is asked for.
    #[error("{0}")]
    Lacking(String),
    /// There is something at the destination already.
    #[error("{}: there is something already", path.display())]
    Taken {
        /// The destination.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{}: {doing}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// The caller cancelled. Nothing of it is kept.
    #[error("cancelled; nothing of it is kept")]
    Cancelled,
    /// A fault of ours.
    #[error("{0}")]
    Fault(String),
}

impl ExchangeError {
    /// What the caller should do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            ExchangeError::Dataset(error) => error.kind(),
            ExchangeError::File(error) => error.kind(),
            ExchangeError::Bad { .. }
            | ExchangeError::Source { .. }
            | ExchangeError::UnknownKind { .. }
            | ExchangeError::Lacking(_) => ErrorKind::Invalid,
            ExchangeError::Taken { .. } => ErrorKind::Conflict,
            ExchangeError::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => ErrorKind::NotFound,
                io::ErrorKind::PermissionDenied
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::IsADirectory
                | io::ErrorKind::InvalidInput
                | io::ErrorKind::InvalidData
                | io::ErrorKind::InvalidFilename
                | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Invalid,
                _ => ErrorKind::Unavailable,
            },
            ExchangeError::Cancelled => ErrorKind::Unavailable,
            ExchangeError::Fault(_) => ErrorKind::Internal,
        }
    }

    /// Whether the caller cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, ExchangeError::Cancelled)
    }

    pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> ExchangeError {
        let path = path.to_owned();
        move |source| ExchangeError::Io { path, doing, source }
    }

    pub(crate) fn source(path: &Path, why: impl Into<String>) -> ExchangeError {
        ExchangeError::Source { path: path.to_owned(), why: why.into() }
    }

    pub(crate) fn bad(place: impl Into<String>, why: impl Into<String>) -> ExchangeError {
        ExchangeError::Bad { place: place.into(), why: why.into() }
    }
}

impl From<DatasetError> for ExchangeError {
    fn from(error: DatasetError) -> ExchangeError {
        match error {
            DatasetError::Table(TableError::Cancelled) => ExchangeError::Cancelled,
            other => ExchangeError::Dataset(other),
        }
    }
}

impl From<TableError> for ExchangeError {
    fn from(error: TableError) -> ExchangeError {
        DatasetError::from(error).into()
    }
}
