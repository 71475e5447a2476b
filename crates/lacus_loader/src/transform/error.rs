//! What can be wrong with a list of steps, or with a sample that goes through it.

use lacus_media::MediaError;
use lacus_tensor::ErrorKind;

/// Why a transform was refused, or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransformError {
    /// A step cannot work, whatever the sample.
    #[error("step {place} ({name}): {why}")]
    Step {
        /// Its place in the list, from 1 on.
        place: usize,
        /// Its name.
        name: &'static str,
        /// What is wrong, and what would do.
        why: String,
    },
    /// The description is no list of steps.
    #[error("a transform is a list of steps as JSON: {0}")]
    Description(#[source] serde_json::Error),
    /// A step cannot work on this sample.
    #[error("{name}: {why}")]
    Sample {
        /// The name of the step.
        name: &'static str,
        /// What is wrong with the sample.
        why: String,
    },
    /// The sample is nothing that a transform is for.
    #[error("{0}")]
    Input(String),
    /// The file cannot be decoded.
    #[error(transparent)]
    Media(#[from] MediaError),
}

impl TransformError {
    /// What the caller should do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            TransformError::Media(error) => error.kind(),
            _ => ErrorKind::Invalid,
        }
    }

    pub(super) fn sample(name: &'static str, why: impl Into<String>) -> TransformError {
        TransformError::Sample { name, why: why.into() }
    }
}
