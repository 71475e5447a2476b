//! What can go wrong between a tensor and its rows.
//!
//! Bytes that were read from somewhere are never trusted: whatever they hold, decoding ends in a value
//! or in one of these errors, [`ErrorKind::Corrupt`] for bytes and headers that contradict themselves.

use lacus_tensor::{ErrorKind, TensorError};

/// An error of this crate, with the facts. [`LayoutError::kind`] says what the caller should do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// The stored bytes are not the bytes that were written.
    #[error(
        "checksum: {bytes} stored bytes have CRC-32C {computed:#010x}, but their row says {stored:#010x}"
    )]
    Checksum {
        /// The checksum on the row.
        stored: u32,
        /// The checksum of the bytes at hand.
        computed: u32,
        /// How many bytes there are.
        bytes: usize,
    },
    /// Stored bytes, coordinates or header fields contradict themselves or each other.
    #[error("{what}: {detail}")]
    Corrupt {
        /// What was being read.
        what: &'static str,
        /// What was found.
        detail: String,
    },
    /// The header or codec names something this version does not know.
    #[error("{what} {found:?} is unknown here: it was written by a newer format, or is no Lacus data")]
    Unknown {
        /// Which field.
        what: &'static str,
        /// Its content.
        found: String,
    },
    /// A layout cannot hold this tensor.
    #[error("{layout}: {detail}")]
    Unsupported {
        /// The layout's short name.
        layout: &'static str,
        /// Why not, and what would.
        detail: String,
    },
    /// The caller's wish cannot be fulfilled.
    #[error("{option}: {detail}")]
    Wish {
        /// The option that does not fit.
        option: &'static str,
        /// Why.
        detail: String,
    },
    /// A shape, dtype or selection was refused. Boxed, since it is much larger than the others.
    #[error(transparent)]
    Tensor(Box<TensorError>),
    /// A compressor failed on data that is valid: a fault in this program.
    #[error("{op}: {detail}")]
    Compressor {
        /// What was tried.
        op: &'static str,
        /// What the compressor said.
        detail: String,
    },
}

impl From<TensorError> for LayoutError {
    fn from(error: TensorError) -> LayoutError {
        LayoutError::Tensor(Box::new(error))
    }
}

impl LayoutError {
    /// What the caller should do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            LayoutError::Checksum { .. } | LayoutError::Corrupt { .. } => ErrorKind::Corrupt,
            LayoutError::Unknown { .. } | LayoutError::Unsupported { .. } | LayoutError::Wish { .. } => {
                ErrorKind::Invalid
            }
            LayoutError::Tensor(error) => error.kind(),
            LayoutError::Compressor { .. } => ErrorKind::Internal,
        }
    }

    pub(crate) fn corrupt(what: &'static str, detail: impl Into<String>) -> LayoutError {
        LayoutError::Corrupt { what, detail: detail.into() }
    }

    pub(crate) fn unsupported(layout: &'static str, detail: impl Into<String>) -> LayoutError {
        LayoutError::Unsupported { layout, detail: detail.into() }
    }

    pub(crate) fn wish(option: &'static str, detail: impl Into<String>) -> LayoutError {
        LayoutError::Wish { option, detail: detail.into() }
    }
}
