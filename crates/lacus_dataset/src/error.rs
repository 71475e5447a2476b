//! What can go wrong with a dataset of samples.

use lacus_io::IoError;
use lacus_sample::SampleError;
use lacus_table::TableError;
use lacus_tensor::{ErrorKind, TensorError};

/// An error of a dataset, with the facts. [`DatasetError::kind`] says what the caller should do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// The table refused or failed.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A shape or selection was refused.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A sample does not fit its column, or stored bytes are not what they should be.
    #[error("column {column:?}, row {row}: {source}")]
    Sample {
        /// The column.
        column: String,
        /// The row: its place among those given, or its position in the dataset.
        row: u64,
        /// What is wrong.
        source: Box<SampleError>,
    },
    /// Something else is wrong with a sample.
    #[error("column {column:?}, row {row}: {source}")]
    InRow {
        /// The column.
        column: String,
        /// The row, as in [`DatasetError::Sample`].
        row: u64,
        /// What is wrong.
        source: Box<DatasetError>,
    },
    /// A column cannot be made, or be read, like this.
    #[error("column {column:?}: {source}")]
    Column {
        /// The column.
        column: String,
        /// What is wrong.
        source: Box<SampleError>,
    },
    /// There is no column of this name.
    #[error("no column {name:?}{}", did_you_mean(.close))]
    NoSuchColumn {
        /// The name asked for.
        name: String,
        /// Names that are close to it.
        close: Vec<String>,
    },
    /// The name belongs to an array, which has no rows.
    #[error("{name:?} is an array, not a column: it has no rows of the dataset")]
    IsArray {
        /// The name.
        name: String,
    },
    /// There is a tensor of this name already.
    #[error("there is a tensor {name:?} already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// Columns of one call have different lengths.
    #[error("columns have different numbers of samples: {}", lengths(.found))]
    UnequalLengths {
        /// Columns and their lengths.
        found: Vec<(String, usize)>,
    },
    /// A row that is not there.
    #[error("row {row} is out of bounds for {rows} rows")]
    OutOfBounds {
        /// The row asked for.
        row: i64,
        /// How many there are.
        rows: u64,
    },
    /// A row id that the state does not have.
    #[error("no row has the id {id} in version {version}: it was deleted, or belongs to another state")]
    NoSuchRow {
        /// The id.
        id: u64,
        /// The version looked at.
        version: u64,
    },
    /// A column, or a sample of it, has no Arrow form.
    #[error("column {column:?}{}: {why}", at_row(.row))]
    Arrow {
        /// The column.
        column: String,
        /// The position of the sample's row, if it is one sample.
        row: Option<u64>,
        /// Why it has none.
        why: String,
    },
    /// What another reader of the same bytes was told.
    #[error("{message}")]
    Copied {
        /// Its kind.
        kind: ErrorKind,
        /// What it says.
        message: String,
    },
    /// The request makes no sense.
    #[error("{op}: {why}")]
    Refused {
        /// What was asked.
        op: &'static str,
        /// Why it is refused.
        why: String,
    },
    /// A link leads where links may not lead.
    #[error("links to {url} are not allowed: allow its root first (allowed: {allowed})")]
    LinkRefused {
        /// The link.
        url: String,
        /// What is allowed.
        allowed: String,
    },
    /// A link leads to nothing.
    #[error("link {url}: nothing is there")]
    NoLinkTarget {
        /// The link.
        url: String,
    },
    /// What a link leads to is no sample of the column.
    #[error("link {url}: {source}")]
    Linked {
        /// The link.
        url: String,
        /// What is wrong.
        source: Box<SampleError>,
    },
    /// What a link leads to cannot be read.
    #[error("link {url}: {source}")]
    Link {
        /// The link.
        url: String,
        /// What went wrong.
        source: Box<IoError>,
    },
}

impl From<IoError> for DatasetError {
    fn from(error: IoError) -> DatasetError {
        DatasetError::Table(error.into())
    }
}

impl DatasetError {
    /// What the caller should do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            DatasetError::Table(error) => error.kind(),
            DatasetError::Tensor(error) => error.kind(),
            DatasetError::Sample { source, .. } | DatasetError::Column { source, .. } => source.kind(),
            DatasetError::InRow { source, .. } => source.kind(),
            DatasetError::Linked { source, .. } => source.kind(),
            DatasetError::Copied { kind, .. } => *kind,
            DatasetError::NoSuchColumn { .. }
            | DatasetError::NoLinkTarget { .. }
            | DatasetError::NoSuchRow { .. } => ErrorKind::NotFound,
            DatasetError::NameTaken { .. } => ErrorKind::Conflict,
            DatasetError::IsArray { .. }
            | DatasetError::Arrow { .. }
            | DatasetError::UnequalLengths { .. }
            | DatasetError::OutOfBounds { .. }
            | DatasetError::Refused { .. }
            | DatasetError::LinkRefused { .. } => ErrorKind::Invalid,
            DatasetError::Link { source, .. } => match source.is_not_found() {
                true => ErrorKind::NotFound,
                false => ErrorKind::Unavailable,
            },
        }
    }

    /// True where Python users expect an `IndexError`.
    pub fn is_out_of_bounds(&self) -> bool {
        match self {
            DatasetError::Table(error) => error.is_out_of_bounds(),
            DatasetError::Tensor(error) => error.is_out_of_bounds(),
            DatasetError::Sample { source, .. } => source.is_out_of_bounds(),
            DatasetError::InRow { source, .. } => source.is_out_of_bounds(),
            DatasetError::OutOfBounds { .. } => true,
            _ => false,
        }
    }

    pub(crate) fn sample(column: &str, row: u64) -> impl FnOnce(SampleError) -> DatasetError {
        move |source| DatasetError::Sample { column: column.to_owned(), row, source: Box::new(source) }
    }

    pub(crate) fn in_row(column: &str, row: u64) -> impl FnOnce(DatasetError) -> DatasetError {
        move |source| DatasetError::InRow { column: column.to_owned(), row, source: Box::new(source) }
    }

    pub(crate) fn column(column: &str) -> impl FnOnce(SampleError) -> DatasetError {
        move |source| DatasetError::Column { column: column.to_owned(), source: Box::new(source) }
    }

    pub(crate) fn refused(op: &'static str, why: impl Into<String>) -> DatasetError {
        DatasetError::Refused { op, why: why.into() }
    }
}

fn did_you_mean(close: &[String]) -> String {
    match close.is_empty() {
        true => String::new(),
        false => format!("; did you mean {}?", close.join(" or ")),
    }
}

fn at_row(row: &Option<u64>) -> String {
    row.map_or(String::new(), |row| format!(", row {row}"))
}

fn lengths(found: &[(String, usize)]) -> String {
    let each: Vec<String> = found.iter().map(|(name, length)| format!("{name:?} has {length}")).collect();
    each.join(", ")
}
