//! What is a tensor? Values, shapes, selections: no files, threads, async or Arrow.
//!
//! ```text
//! Shape + DType + Buffer  →  Tensor (dense, owned)      TensorRef (dense, borrowed, any strides)
//!                            SparseTensor (coordinates and values)
//! "0:10, :, [3, 5]"  ─parse→  Index…  ─resolve→  Selection  ─plan→  BoxCopy, one per stored box
//! ```
//!
//! A tensor stored as chunks is read without ever being whole: each chunk is a box, and a [`BoxCopy`] moves
//! what a selection wants of it to its place in the result.
//!
//! ```
//! use lacus_tensor::{BoxCopy, Buffer, DType, Selection, Shape, Target, Tensor, parse_indices};
//!
//! let shape = Shape::new([4, 3])?; // Stored as two chunks of two rows each.
//! let chunks = [[0u8, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]];
//! let selection = Selection::resolve(&shape, &parse_indices("1:, ::2")?)?;
//! let mut result = Tensor::zeros(DType::U8, selection.output_shape().clone())?;
//! let target = Target::new(result.bytes_mut());
//! for (chunk, first_row) in chunks.iter().zip([0, 2]) {
//!     if let Some(copy) = BoxCopy::plan(&selection, &[first_row, 0], &[2, 3], 1) {
//!         copy.scatter(chunk, &target)?;
//!     }
//! }
//! assert_eq!(result.bytes(), [3, 5, 6, 8, 9, 11]);
//! # Ok::<(), lacus_tensor::TensorError>(())
//! ```
//!
//! Bits are kept everywhere: a NaN's payload, a negative zero, an explicit zero of a sparse tensor come out
//! as they went in. Memory is little-endian, as the stored format is.

mod error;

mod dtype;
mod shape;

mod op;

mod function;
mod scalar;

mod buffer;
mod strided;

mod dense;

mod selection;

mod copy;
mod sparse;

pub mod kernels;

pub use buffer::{
    Buffer, Element, PoolCap, available_bytes, bytes_of, bytes_of_mut, elements_of, pool_limit_bytes,
    set_pool_limit_bytes,
};
pub use copy::{BoxCopy, Target};
pub use dense::{Tensor, TensorRef};
pub use dtype::DType;
pub use error::{ErrorKind, TensorError};
pub use op::{BinaryOp, UnaryOp};
pub use scalar::Scalar;
pub use selection::{Group, Index, Selection, parse_indices};
pub use shape::{MAX_RANK, Shape};
pub use sparse::{Duplicates, SparseTensor, count_nonzero};

#[cfg(target_endian = "big")]
compile_error!("tensors are little-endian in memory; this crate has no byte-swapping paths");
