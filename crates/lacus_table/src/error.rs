//! What can go wrong with a table, with the facts, and what the caller should do.

use std::fmt;

use lacus_error::did_you_mean;
use lacus_io::IoError;
use lacus_layout::LayoutError;
use lacus_tensor::{ErrorKind, TensorError};

/// An error of a table.
#[derive(Debug)]
#[non_exhaustive]
pub enum TableError {
    /// A shape, selection or value is wrong.
    Tensor(TensorError),
    /// A layout cannot hold the tensor, or stored chunk bytes are damaged.
    Layout {
        /// The tensor, when it is known.
        tensor: Option<String>,
        /// What the layout found.
        source: LayoutError,
    },
    /// The store failed.
    Io(IoError),
    /// There is no dataset at this URL.
    NotADataset {
        /// The URL.
        url: String,
        /// What was found instead.
        found: &'static str,
    },
    /// There is something at this URL already.
    AlreadyExists {
        /// The URL.
        url: String,
    },
    /// No tensor of this name at this version.
    NoSuchTensor {
        /// The name asked for.
        name: String,
        /// The version it was looked for in.
        version: u64,
        /// Names that are close to it.
        close: Vec<String>,
    },
    /// No such table version.
    NoSuchVersion {
        /// What was asked for.
        wanted: String,
        /// The newest version there is.
        newest: u64,
    },
    /// A tensor name that cannot be used.
    BadName {
        /// The name.
        name: String,
        /// Why it cannot be used.
        why: &'static str,
    },
    /// The request makes no sense for this tensor.
    Refused {
        /// What was asked.
        op: &'static str,
        /// Why it is refused.
        why: String,
    },
    /// The handle is pinned to a version, or opened for reading only.
    ReadOnly {
        /// The version it is pinned to.
        version: u64,
    },
    /// There is a tensor of this name already.
    NameTaken {
        /// The name.
        name: String,
    },
    /// The tensor is a column: its samples are read and written row by row.
    IsColumn {
        /// Its name.
        name: String,
    },
    /// Somebody else changed the same thing first.
    Conflict {
        /// What was being written.
        what: String,
        /// The version that came between.
        version: u64,
    },
    /// The table needs a newer Lacus.
    NewerFormat {
        /// What is not understood.
        what: String,
    },
    /// Stored data is damaged.
    Corrupt {
        /// The file it is in.
        path: String,
        /// What is wrong with it.
        what: String,
    },
    /// The version could not be given the name of a commit.
    Naming {
        /// What the caller should do.
        kind: ErrorKind,
        /// What was reported.
        what: String,
    },
    /// A fault in Lacus itself.
    Fault {
        /// What happened.
        what: String,
    },
    /// The caller cancelled the operation.
    Cancelled,
    /// The Delta log could not be read or written.
    Log {
        /// What the caller should do.
        kind: ErrorKind,
        /// What was reported.
        what: String,
    },
}

impl TableError {
    /// What the caller should do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            TableError::Tensor(e) => e.kind(),
            TableError::Layout { source, .. } => source.kind(),
            TableError::Io(e) => e.kind().into(),
            TableError::NotADataset { .. }
            | TableError::NoSuchTensor { .. }
            | TableError::NoSuchVersion { .. } => ErrorKind::NotFound,
            TableError::BadName { .. }
            | TableError::Refused { .. }
            | TableError::ReadOnly { .. }
            | TableError::IsColumn { .. }
            | TableError::NewerFormat { .. } => ErrorKind::Invalid,
            TableError::AlreadyExists { .. } | TableError::NameTaken { .. } | TableError::Conflict { .. } => {
                ErrorKind::Conflict
            }
            TableError::Corrupt { .. } => ErrorKind::Corrupt,
            TableError::Fault { .. } => ErrorKind::Internal,
            TableError::Cancelled => ErrorKind::Unavailable,
            TableError::Log { kind, .. } | TableError::Naming { kind, .. } => *kind,
        }
    }

    /// True for an index outside a tensor's bounds, which Python users expect as `IndexError`.
    pub fn is_out_of_bounds(&self) -> bool {
        matches!(self, TableError::Tensor(e) if e.is_out_of_bounds())
    }

    pub(crate) fn corrupt(path: impl Into<String>, what: impl Into<String>) -> Self {
        TableError::Corrupt { path: path.into(), what: what.into() }
    }

    pub(crate) fn refused(op: &'static str, why: impl Into<String>) -> Self {
        TableError::Refused { op, why: why.into() }
    }

    pub(crate) fn of_tensor(name: &str) -> impl FnOnce(LayoutError) -> TableError {
        move |source| TableError::Layout { tensor: Some(name.to_owned()), source }
    }

    /// An error met while reading the Parquet file at `path`.
    pub(crate) fn parquet(path: &str) -> impl FnOnce(parquet::errors::ParquetError) -> TableError {
        move |e| TableError::corrupt(path, format!("not a sound Parquet file: {e}"))
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::Tensor(e) => write!(f, "{e}"),
            TableError::Layout { tensor: Some(name), source } => write!(f, "tensor {name:?}: {source}"),
            TableError::Layout { tensor: None, source } => write!(f, "{source}"),
            TableError::Io(e) => write!(f, "{e}"),
            TableError::NotADataset { url, found } => write!(f, "no dataset here: {found} ({url})"),
            TableError::IsColumn { name } => {
                write!(f, "{name:?} is a column of samples: it is read and written by rows")
            }
            TableError::AlreadyExists { url } => {
                write!(f, "a dataset or other files are here already ({url})")
            }
            TableError::NoSuchTensor { name, version, close } => {
                write!(f, "no tensor {name:?} at version {version}{}", did_you_mean(close))
            }
            TableError::NoSuchVersion { wanted, newest } => {
                write!(f, "no version {wanted}; the newest is {newest}")
            }
            TableError::BadName { name, why } => write!(f, "tensor name {name:?}: {why}"),
            TableError::Refused { op, why } => write!(f, "{op}: {why}"),
            TableError::ReadOnly { version } => {
                write!(f, "this handle is read-only (pinned to version {version}); open the branch to write")
            }
            TableError::NameTaken { name } => write!(f, "there is a tensor {name:?} already"),
            TableError::Conflict { what, version } => {
                write!(f, "{what} was changed by version {version} meanwhile; refresh and try again")
            }
            TableError::NewerFormat { what } => {
                write!(f, "this dataset needs a newer Lacus: {what}")
            }
            TableError::Corrupt { path, what } => write!(f, "{what} ({path})"),
            TableError::Naming { what, .. } => f.write_str(what),
            TableError::Fault { what } => write!(f, "a fault in lacus: {what}"),
            TableError::Cancelled => write!(f, "cancelled; nothing was written"),
            TableError::Log { what, .. } => write!(f, "Delta log: {what}"),
        }
    }
}

impl std::error::Error for TableError {}

impl From<TensorError> for TableError {
    fn from(e: TensorError) -> Self {
        TableError::Tensor(e)
    }
}

impl From<LayoutError> for TableError {
    fn from(source: LayoutError) -> Self {
        TableError::Layout { tensor: None, source }
    }
}

impl From<IoError> for TableError {
    fn from(e: IoError) -> Self {
        TableError::Io(e)
    }
}

/// Runs the stock reader on bytes that nobody vouches for: it panics on some that contradict
/// themselves, which is damage like any other.
pub(crate) fn unless_panicking<T>(
    work: impl FnOnce() -> Result<T, parquet::errors::ParquetError>,
) -> Result<T, parquet::errors::ParquetError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(parquet::errors::ParquetError::General("the bytes contradict themselves".to_owned()))
    })
}
