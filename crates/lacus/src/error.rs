//! One error for everything: what kind it is, the facts, and what would help.

use lacus_algebra::AlgebraError;
use lacus_dataset::DatasetError;
use lacus_exchange::ExchangeError;
use lacus_execute::ExecuteError;
use lacus_files::FileError;
use lacus_history::HistoryError;
use lacus_io::{IoError, IoErrorKind};
use lacus_loader::LoaderError;
use lacus_query::QueryError;
use lacus_table::TableError;
use lacus_tensor::{ErrorKind, TensorError};

/// What went wrong, with the facts of whoever found it. [`Error::kind`] says what the caller should do about it, [`Error::hint`]
/// what would help.
///
/// An error that one part passes on for another is what the other says: `HistoryError::Table` becomes [`Error::Table`], so that
/// there is one place to look for each.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Of a shape, a selection, a value.
    #[error(transparent)]
    Tensor(TensorError),
    /// Of arrays and versions.
    #[error(transparent)]
    Table(TableError),
    /// Of rows and columns.
    #[error(transparent)]
    Dataset(DatasetError),
    /// Of commits, branches, tags, saved views.
    #[error(transparent)]
    History(HistoryError),
    /// Of an import or export.
    #[error(transparent)]
    Exchange(ExchangeError),
    /// Of a query.
    #[error(transparent)]
    Query(QueryError),
    /// Of a loader.
    #[error(transparent)]
    Loader(LoaderError),
    /// Of a file of tensors.
    #[error(transparent)]
    File(FileError),
    /// Of a program that cannot be planned.
    #[error(transparent)]
    Algebra(AlgebraError),
    /// Of a program that ran.
    #[error(transparent)]
    Execute(ExecuteError),
}

/// What would help. Each door says it in its own words: a command, a method.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// There is no dataset: make one at this URL.
    Create {
        /// The URL.
        url: String,
    },
    /// Something is there already: choose an empty place.
    EmptyPlace,
    /// List the tensors.
    ListTensors,
    /// List the columns.
    ListColumns,
    /// List the versions.
    ListVersions,
    /// List branches, tags, commits and versions.
    ListRefs,
    /// List the saved views.
    ListViews,
    /// It is a column: look at its rows, or export them.
    ReadRows,
    /// Look at permissions and credentials.
    Credentials,
    /// Look all tables over for damage.
    Doctor,
    /// Look the whole history over for damage.
    Check,
    /// Make the first commit.
    FirstCommit,
    /// Commit first.
    Commit,
    /// A clean-up removed it.
    CleanedUp,
    /// Give more digits of the commit's id.
    MoreDigits,
    /// Say what counts in a merge: ours, theirs, both.
    DecideConflicts,
    /// Leave out what cannot be taken.
    SkipErrors,
    /// Add up values at the same coordinates.
    SumDuplicates,
    /// Throw versions of others away as well.
    DiscardOthers,
    /// Go to a branch that is there.
    OtherBranch,
    /// Say which format a file has.
    Kind,
}

impl Hint {
    /// What helps against an error of arrays and versions.
    pub fn of_table(error: &TableError) -> Option<Hint> {
        Some(match error {
            TableError::NotADataset { url, .. } => Hint::Create { url: url.clone() },
            TableError::AlreadyExists { .. } => Hint::EmptyPlace,
            TableError::NoSuchTensor { close, .. } if close.is_empty() => Hint::ListTensors,
            TableError::IsColumn { .. } => Hint::ReadRows,
            TableError::NoSuchVersion { .. } => Hint::ListVersions,
            TableError::Io(error) if error.kind() == IoErrorKind::Refused => Hint::Credentials,
            TableError::Corrupt { .. } => Hint::Doctor,
            _ => return None,
        })
    }

    /// What helps against an error of rows and columns.
    pub fn of_dataset(error: &DatasetError) -> Option<Hint> {
        match error {
            DatasetError::Table(error) => Hint::of_table(error),
            DatasetError::NoSuchColumn { close, .. } if close.is_empty() => Some(Hint::ListColumns),
            _ => None,
        }
    }

    /// What helps against an error of commits, branches, tags and saved views.
    pub fn of_history(error: &HistoryError) -> Option<Hint> {
        Some(match error {
            HistoryError::Table(error) => return Hint::of_table(error),
            HistoryError::BadRevision { text, .. } if is_version(text) => Hint::ListVersions,
            HistoryError::NoSuchRef { what: "branch", .. } => Hint::OtherBranch,
            HistoryError::NoSuchRef { what: "view", close, .. } if close.is_empty() => Hint::ListViews,
            HistoryError::NoSuchRef { close, .. } if close.is_empty() => Hint::ListRefs,
            HistoryError::NoCommitYet { .. } => Hint::FirstCommit,
            HistoryError::Draft { .. } => Hint::Commit,
            HistoryError::DraftOfOthers { .. } => Hint::DiscardOthers,
            HistoryError::Gone { .. } => Hint::CleanedUp,
            HistoryError::Corrupt { .. } => Hint::Check,
            HistoryError::Ambiguous { .. } => Hint::MoreDigits,
            HistoryError::Conflicts { .. } => Hint::DecideConflicts,
            _ => return None,
        })
    }

    /// What helps against an error of an import or export.
    pub fn of_exchange(error: &ExchangeError) -> Option<Hint> {
        match error {
            ExchangeError::Dataset(error) => Hint::of_dataset(error),
            ExchangeError::Bad { .. } => Some(Hint::SkipErrors),
            ExchangeError::Taken { .. } => Some(Hint::EmptyPlace),
            ExchangeError::UnknownKind { .. } => Some(Hint::Kind),
            ExchangeError::File(error) if error.has_duplicates() => Some(Hint::SumDuplicates),
            _ => None,
        }
    }
}

impl Error {
    /// What the caller should do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Tensor(error) => error.kind(),
            Error::Table(error) => error.kind(),
            Error::Dataset(error) => error.kind(),
            // Versions are counted, so that one that is not there is not found.
            Error::History(HistoryError::BadRevision { text, .. }) if is_version(text) => ErrorKind::NotFound,
            Error::History(error) => error.kind(),
            Error::Exchange(error) => error.kind(),
            Error::Query(error) => error.kind(),
            Error::Loader(error) => error.kind(),
            Error::File(error) => error.kind(),
            Error::Algebra(error) => error.kind(),
            Error::Execute(error) => error.kind(),
        }
    }

    /// Whether a position is past an end: Python raises an `IndexError` for it.
    pub fn is_out_of_bounds(&self) -> bool {
        match self {
            Error::Tensor(error) => error.is_out_of_bounds(),
            Error::Table(error) => error.is_out_of_bounds(),
            Error::Dataset(error) => error.is_out_of_bounds(),
            _ => false,
        }
    }

    /// Whether the caller stopped it. Nothing of it is kept.
    pub fn is_cancelled(&self) -> bool {
        matches!(
            self,
            Error::Table(TableError::Cancelled)
                | Error::Exchange(ExchangeError::Cancelled)
                | Error::Execute(ExecuteError::Cancelled)
                | Error::Query(QueryError::Cancelled)
        )
    }

    /// What would help.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Error::Table(error) => Hint::of_table(error),
            Error::Dataset(error) => Hint::of_dataset(error),
            Error::History(error) => Hint::of_history(error),
            Error::Exchange(error) => Hint::of_exchange(error),
            Error::File(error) if error.has_duplicates() => Some(Hint::SumDuplicates),
            _ => None,
        }
    }
}

/// Whether a revision is a version: `@17`, `version:17`, `17`.
fn is_version(text: &str) -> bool {
    let digits = text.strip_prefix('@').or_else(|| text.strip_prefix("version:")).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
}

impl From<TensorError> for Error {
    fn from(error: TensorError) -> Error {
        Error::Tensor(error)
    }
}

impl From<IoError> for Error {
    fn from(error: IoError) -> Error {
        Error::Table(error.into())
    }
}

impl From<TableError> for Error {
    fn from(error: TableError) -> Error {
        Error::Table(error)
    }
}

impl From<DatasetError> for Error {
    fn from(error: DatasetError) -> Error {
        match error {
            DatasetError::Table(error) => error.into(),
            DatasetError::Tensor(error) => error.into(),
            error => Error::Dataset(error),
        }
    }
}

impl From<HistoryError> for Error {
    fn from(error: HistoryError) -> Error {
        match error {
            HistoryError::Table(error) => error.into(),
            HistoryError::Io(error) => error.into(),
            error => Error::History(error),
        }
    }
}

impl From<ExchangeError> for Error {
    fn from(error: ExchangeError) -> Error {
        match error {
            ExchangeError::Dataset(error) => error.into(),
            ExchangeError::File(error) => error.into(),
            error => Error::Exchange(error),
        }
    }
}

impl From<QueryError> for Error {
    fn from(error: QueryError) -> Error {
        match error {
            QueryError::Dataset(error) => error.into(),
            error => Error::Query(error),
        }
    }
}

impl From<LoaderError> for Error {
    fn from(error: LoaderError) -> Error {
        match error {
            LoaderError::Dataset(error) => error.into(),
            LoaderError::Tensor(error) => error.into(),
            error => Error::Loader(error),
        }
    }
}

impl From<FileError> for Error {
    fn from(error: FileError) -> Error {
        Error::File(error)
    }
}

impl From<AlgebraError> for Error {
    fn from(error: AlgebraError) -> Error {
        Error::Algebra(error)
    }
}

impl From<ExecuteError> for Error {
    fn from(error: ExecuteError) -> Error {
        Error::Execute(error)
    }
}
