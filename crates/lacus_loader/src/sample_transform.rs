//! Where a transform meets the loader: one sample comes in, and its result is written into the memory of the batch.
//!
//! ```text
//! stored file or decoded tensor ─output→ dtype, shape if all samples share it ─apply(key)→ elements, in place
//! ```
//!
//! The loader calls a transform from many threads at once, in any order. What it makes of a sample must depend on the sample and its
//! [`SampleKey`] alone: then the same batches come out on any number of machines, and after any restart.

use std::fmt::Debug;

use lacus_sample::Column;
use lacus_tensor::{DType, ErrorKind, TensorRef};

/// What a transform is given of a sample.
#[derive(Clone, Debug)]
pub enum SampleInput<'a> {
    /// A media file, not decoded yet: a transform may decode it at a smaller size, or only a part of it.
    File {
        /// The column it is of.
        column: &'a Column,
        /// The shape that the whole sample has.
        shape: &'a [u64],
        /// The file.
        bytes: &'a [u8],
    },
    /// Elements.
    Tensor(TensorRef<'a>),
}

/// What random choices depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SampleKey {
    /// The seed of the loader.
    pub seed: u64,
    /// The epoch.
    pub epoch: u64,
    /// The id of the row. Where an epoch has a row more than once, `seed` differs between the occurrences.
    pub row: u64,
}

/// What a transform makes of every sample of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleOutput {
    /// The dtype of the elements.
    pub dtype: DType,
    /// The shape, if all samples come out with the same one: then batches are one block of memory that is written in place.
    pub shape: Option<Vec<u64>>,
}

/// Why a sample could not be transformed. The loader adds the column and the row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct TransformFailure {
    /// What the caller should do about it.
    pub kind: ErrorKind,
    /// What happened.
    pub why: String,
}

impl TransformFailure {
    /// Of the input of the user.
    pub fn invalid(why: impl Into<String>) -> TransformFailure {
        TransformFailure { kind: ErrorKind::Invalid, why: why.into() }
    }
}

/// Makes something else of each sample of a column.
pub trait SampleTransform: Debug + Send + Sync {
    /// What comes out, as far as that is known before a sample was seen: `column` says what goes in. Fails for columns that this
    /// transform is not for; called once, before anything is read.
    fn output(&self, column: &Column) -> Result<SampleOutput, TransformFailure>;

    /// The shape that this sample comes out with. Called only where [`SampleTransform::output`] gave no shape, before memory is taken
    /// for the result.
    fn output_shape(&self, input: &SampleInput<'_>, key: SampleKey) -> Result<Vec<u64>, TransformFailure>;

    /// Writes the result to `out`, which has exactly the bytes that dtype and shape take: C order, little-endian. After an error `out`
    /// holds anything.
    fn apply(&self, input: &SampleInput<'_>, key: SampleKey, out: &mut [u8]) -> Result<(), TransformFailure>;
}
