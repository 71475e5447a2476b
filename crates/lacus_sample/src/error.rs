//! What can go wrong between a sample and its row.
//!
//! ```text
//! bbox: expected float32 of shape (boxes, 4), found float32 of shape (2, 5)
//! └ htype      └ what fits                          └ what came
//! ```
//!
//! No column and no row is named here: who knows them adds them.

use lacus_layout::LayoutError;
use lacus_media::MediaError;
use lacus_tensor::{ErrorKind, TensorError};

/// An error of this crate, with the facts. [`SampleError::kind`] says what the caller should do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// No type has this name.
    #[error("unknown htype {name:?}{}: the known ones are {known}, sequence[...] and link[...]", did_you_mean(.close))]
    UnknownHType {
        /// The name as given.
        name: String,
        /// Names that look like it.
        close: Vec<String>,
        /// All names.
        known: String,
    },
    /// A column cannot be made like this.
    #[error("{option}: {detail}")]
    Spec {
        /// The option that does not fit.
        option: String,
        /// Why, and what would.
        detail: String,
    },
    /// A sample is not what its column holds.
    #[error("{htype}: expected {expected}, found {found}")]
    DoesNotFit {
        /// The type of the column.
        htype: String,
        /// What the column holds.
        expected: String,
        /// What came.
        found: String,
    },
    /// One element of a sequence is wrong.
    #[error("element {index} of the sequence: {source}")]
    Element {
        /// Which one, from 0.
        index: usize,
        /// What is wrong with it.
        source: Box<SampleError>,
    },
    /// The column takes the dtype of its first sample, and has none yet.
    #[error("{htype}: the dtype of this column is open until its first sample: settle it first")]
    Open {
        /// The type of the column.
        htype: String,
    },
    /// A stored form was asked of a column that has another one.
    #[error("{htype}: rows hold this column as {found}, not as {asked}")]
    WrongForm {
        /// The type of the column.
        htype: String,
        /// How rows hold it.
        found: &'static str,
        /// How it was read.
        asked: &'static str,
    },
    /// Stored bytes or header fields contradict themselves or each other.
    #[error("{what}: {detail}")]
    Corrupt {
        /// What was being read.
        what: &'static str,
        /// What was found.
        detail: String,
    },
    /// A header or codec names something this version does not know.
    #[error("{what} {found:?} is unknown here: it was written by a newer format, or is no Lacus data")]
    Unknown {
        /// Which field.
        what: &'static str,
        /// Its content.
        found: String,
    },
    /// A media file was refused. Boxed, since it is much larger than the others.
    #[error(transparent)]
    Media(Box<MediaError>),
    /// A shape or selection was refused.
    #[error(transparent)]
    Tensor(Box<TensorError>),
    /// Packing or unpacking failed.
    #[error(transparent)]
    Layout(Box<LayoutError>),
}

impl SampleError {
    /// What the caller should do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            SampleError::UnknownHType { .. }
            | SampleError::Spec { .. }
            | SampleError::DoesNotFit { .. }
            | SampleError::Open { .. }
            | SampleError::WrongForm { .. }
            | SampleError::Unknown { .. } => ErrorKind::Invalid,
            SampleError::Corrupt { .. } => ErrorKind::Corrupt,
            SampleError::Element { source, .. } => source.kind(),
            SampleError::Media(error) => error.kind(),
            SampleError::Tensor(error) => error.kind(),
            SampleError::Layout(error) => error.kind(),
        }
    }

    /// True for the cases in which numpy raises `IndexError` and not `ValueError`.
    pub fn is_out_of_bounds(&self) -> bool {
        match self {
            SampleError::Tensor(error) => error.is_out_of_bounds(),
            SampleError::Element { source, .. } => source.is_out_of_bounds(),
            _ => false,
        }
    }

    pub(crate) fn spec(option: impl Into<String>, detail: impl Into<String>) -> SampleError {
        SampleError::Spec { option: option.into(), detail: detail.into() }
    }

    pub(crate) fn corrupt(what: &'static str, detail: impl Into<String>) -> SampleError {
        SampleError::Corrupt { what, detail: detail.into() }
    }
}

impl From<TensorError> for SampleError {
    fn from(error: TensorError) -> SampleError {
        SampleError::Tensor(Box::new(error))
    }
}

impl From<LayoutError> for SampleError {
    fn from(error: LayoutError) -> SampleError {
        SampleError::Layout(Box::new(error))
    }
}

impl From<MediaError> for SampleError {
    fn from(error: MediaError) -> SampleError {
        SampleError::Media(Box::new(error))
    }
}

fn did_you_mean(close: &[String]) -> String {
    match close {
        [] => String::new(),
        _ => format!(" (did you mean {}?)", close.join(" or ")),
    }
}
