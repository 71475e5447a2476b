//! What can go wrong with tensor values, and what the caller should do about it.
//!
//! [`TensorError`] holds the facts; [`ErrorKind`] says which way out there is (check the name, fix the input, retry, stop).
//!
//! Shapes are boxed here: they are held inline elsewhere, and every `Result` would be as large as they are.
//!
//! Indexing errors carry numpy's own sentences, so that a message seen in Python can be searched for.

use lacus_error::ErrorKind;

use crate::dtype::DType;
use crate::shape::{MAX_RANK, Shape};

/// Why a tensor, a shape, a selection or a copy between them was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// No dtype has this name.
    #[error("unknown dtype '{name}': expected one of {}", dtype_names())]
    UnknownDType {
        /// The name as given.
        name: String,
    },

    /// A shape has more axes than [`MAX_RANK`].
    #[error("number of dimensions must be within [0, {MAX_RANK}], found {rank}")]
    TooManyAxes {
        /// Axes asked for.
        rank: usize,
    },

    /// The result of an indexing would have more axes than [`MAX_RANK`].
    #[error("number of dimensions must be within [0, {MAX_RANK}], indexing result would have {rank}")]
    TooManyResultAxes {
        /// Axes of the result.
        rank: usize,
    },

    /// One dimension does not fit a signed 64-bit integer.
    #[error("axis {axis} has size {size}, more than the largest possible (9223372036854775807)")]
    AxisTooLong {
        /// Which axis.
        axis: usize,
        /// Its size as given.
        size: u64,
    },

    /// The bytes of a tensor cannot be addressed.
    #[error("a dense {dtype} tensor of shape {shape} is too large for memory")]
    TooManyBytes {
        /// Element type.
        dtype: DType,
        /// Shape asked for.
        shape: Box<Shape>,
    },

    /// There is not so much memory.
    #[error("{what} takes {bytes} bytes of memory{}", left(*.available))]
    OutOfMemory {
        /// What it is for.
        what: String,
        /// Bytes asked for.
        bytes: usize,
        /// Bytes that this process could still get, if that is known; the operating system may have refused all the same.
        available: Option<u64>,
    },

    /// A buffer does not hold as many bytes as it must.
    #[error("{what} takes {expected} bytes, found {found}")]
    WrongLength {
        /// What the buffer is for.
        what: &'static str,
        /// Bytes it must hold.
        expected: usize,
        /// Bytes it holds.
        found: usize,
    },

    /// Strides reach outside of the bytes they index, or are not one per axis.
    #[error("strides {strides:?} from byte {origin} do not fit shape {shape} in {len} bytes")]
    BadStrides {
        /// Shape of the view.
        shape: Box<Shape>,
        /// Strides in bytes.
        strides: Vec<i64>,
        /// Byte of the first element.
        origin: usize,
        /// Bytes given.
        len: usize,
    },

    /// Two values that must have the same shape do not.
    #[error("{what}: expected shape {expected}, found {found}")]
    ShapeMismatch {
        /// What was tried.
        what: &'static str,
        /// The shape asked for.
        expected: Box<Shape>,
        /// The shape found.
        found: Box<Shape>,
    },

    /// A matrix cannot be what its strides say.
    #[error("{what}")]
    Matrix {
        /// Why.
        what: &'static str,
    },

    /// An integer index is outside of its axis.
    #[error("index {index} is out of bounds for axis {axis} with size {size}")]
    IndexOutOfBounds {
        /// Index as given (negative ones count from the end).
        index: i64,
        /// Axis of the indexed tensor.
        axis: usize,
        /// Size of that axis.
        size: u64,
    },

    /// More axes are indexed than there are.
    #[error("too many indices for array: array is {rank}-dimensional, but {indexed} were indexed")]
    TooManyIndices {
        /// Axes of the tensor.
        rank: usize,
        /// Axes the indices consume.
        indexed: usize,
    },

    /// A boolean mask does not have the size of the axis it masks.
    #[error(
        "boolean index did not match indexed array along axis {axis}; size of axis is {size} but size of \
         corresponding boolean axis is {mask_size}"
    )]
    MaskMismatch {
        /// Axis of the indexed tensor.
        axis: usize,
        /// Size of that axis.
        size: u64,
        /// Size of the mask along it.
        mask_size: u64,
    },

    /// Integer arrays (or masks) of one indexing do not broadcast.
    #[error("shape mismatch: indexing arrays could not be broadcast together with shapes {}", tuples(.shapes))]
    IndexBroadcast {
        /// Shapes of the arrays, in order.
        shapes: Vec<Vec<u64>>,
    },

    /// A slice has step zero.
    #[error("slice step cannot be zero")]
    ZeroStep,

    /// Two ellipses in one indexing.
    #[error("an index can only have a single ellipsis ('...')")]
    TwoEllipses,

    /// An index array does not have as many values as its shape says.
    #[error("an index array of shape {} takes {expected} values, found {found}", tuple(.dims))]
    IndexValues {
        /// Shape of the index array.
        dims: Vec<u64>,
        /// Values it must have.
        expected: u64,
        /// Values it has.
        found: usize,
    },

    /// The text of a selection cannot be read.
    #[error("cannot read selection at character {at}: {reason} (in '{text}')")]
    SelectionText {
        /// The whole text.
        text: String,
        /// Position of the offending character, from 0.
        at: usize,
        /// What is wrong there.
        reason: String,
    },

    /// A nonzero lies outside of its tensor.
    #[error("nonzero {row} has coordinate {coordinate} on axis {axis}, outside of [0, {size})")]
    CoordinateOutOfBounds {
        /// Which nonzero.
        row: usize,
        /// Its coordinate.
        coordinate: i64,
        /// On which axis.
        axis: usize,
        /// Size of that axis.
        size: u64,
    },

    /// More nonzeros than the tensor has elements.
    #[error("{nnz} nonzeros cannot be distinct in a tensor of {elements} elements, shape {shape}")]
    TooManyNonzeros {
        /// Nonzeros given.
        nnz: usize,
        /// Elements of the tensor.
        elements: u64,
        /// Its shape.
        shape: Box<Shape>,
    },

    /// Two nonzeros share their coordinates.
    #[error("the coordinates {} appear more than once", tuple_signed(.coordinates))]
    DuplicateCoordinates {
        /// The coordinates, one per axis.
        coordinates: Vec<i64>,
    },
}

impl TensorError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            TensorError::OutOfMemory { .. } => ErrorKind::OutOfMemory,
            _ => ErrorKind::Invalid,
        }
    }

    /// True for the cases in which numpy raises `IndexError` and not `ValueError`.
    pub fn is_out_of_bounds(&self) -> bool {
        matches!(
            self,
            TensorError::IndexOutOfBounds { .. }
                | TensorError::TooManyIndices { .. }
                | TensorError::TooManyResultAxes { .. }
                | TensorError::MaskMismatch { .. }
                | TensorError::IndexBroadcast { .. }
                | TensorError::TwoEllipses
        )
    }
}

fn left(available: Option<u64>) -> String {
    match available {
        Some(bytes) => format!(", and {bytes} are available"),
        None => ", which the system refuses".to_owned(),
    }
}

impl TensorError {
    /// The same, if it is about memory, with what the memory is for.
    pub fn for_what(self, purpose: impl Into<String>) -> TensorError {
        match self {
            TensorError::OutOfMemory { bytes, available, .. } => {
                TensorError::OutOfMemory { what: purpose.into(), bytes, available }
            }
            other => other,
        }
    }
}

fn dtype_names() -> String {
    DType::ALL.map(DType::name).join(", ")
}

/// A shape the way numpy prints it inside of broadcast errors: `(2,3)`, `(2,)`, `()`.
fn tuple(dims: &[u64]) -> String {
    match dims {
        [only] => format!("({only},)"),
        _ => format!("({})", dims.iter().map(u64::to_string).collect::<Vec<_>>().join(",")),
    }
}

fn tuples(shapes: &[Vec<u64>]) -> String {
    shapes.iter().map(|dims| tuple(dims)).collect::<Vec<_>>().join(" ")
}

fn tuple_signed(values: &[i64]) -> String {
    match values {
        [only] => format!("({only},)"),
        _ => format!("({})", values.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_exit_codes_and_words() {
        let all = [
            (ErrorKind::NotFound, 3, "not found"),
            (ErrorKind::Invalid, 2, "invalid"),
            (ErrorKind::Conflict, 4, "conflict"),
            (ErrorKind::Unavailable, 5, "unavailable"),
            (ErrorKind::Corrupt, 6, "corrupt"),
            (ErrorKind::Internal, 70, "internal"),
        ];
        for (kind, code, word) in all {
            assert_eq!((kind.exit_code(), kind.to_string().as_str()), (code, word));
        }
    }

    #[test]
    fn messages_name_the_facts() {
        let check = |error: TensorError, expected: &str| assert_eq!(error.to_string(), expected);
        check(
            TensorError::IndexBroadcast { shapes: vec![vec![2], vec![2, 3], vec![]] },
            "shape mismatch: indexing arrays could not be broadcast together with shapes (2,) (2,3) ()",
        );
        check(
            TensorError::DuplicateCoordinates { coordinates: vec![1, 2] },
            "the coordinates (1, 2) appear more than once",
        );
        check(
            TensorError::WrongLength { what: "the tensor", expected: 8, found: 3 },
            "the tensor takes 8 bytes, found 3",
        );
    }
}
