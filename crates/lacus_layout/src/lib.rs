//! How does a tensor become table rows? Pure, both ways.
//!
//! A [`Header`] says what a tensor is and how it is stored; [`choose_dense`] and [`choose_sparse`] make one.
//! An [`encoder`] cuts the tensor into chunks, which become rows: coordinates, a codec, a checksum, bytes.
//! For a [`Selection`](lacus_tensor::Selection), [`wanted`] names the rows to fetch, before anything is
//! decoded; [`decode_dense`] and [`decode_sparse`] turn their bytes back into elements.
//!
//! ```
//! use lacus_layout::{
//!     Choice, ChunkIndex, Scratch, StoredChunk, Value, Wish, choose_sparse, encoder, read_sparse, wanted,
//! };
//! use lacus_tensor::{Buffer, DType, Duplicates, Selection, Shape, SparseTensor, parse_indices};
//! use lacus_threads::Team;
//!
//! // Nonzeros at (0, 1), (2, 0), (2, 3).
//! let shape = Shape::new(vec![3, 4])?;
//! let coords = Buffer::from_elements(&[0i64, 2, 2, 1, 0, 3]);
//! let tensor =
//!     SparseTensor::new(DType::U8, shape.clone(), coords, Buffer::from_slice(&[7, 8, 9]), Duplicates::Refuse)?;
//!
//! let wish = Wish { block_shape: Some(vec![1, 4]), ..Wish::default() };
//! let Choice::Header(header) = choose_sparse(&tensor, &wish)? else { unreachable!() };
//! let chunks = encoder(&header, Value::Sparse(&tensor))?;
//! let mut scratch = [Scratch::new(), Scratch::new()];
//! let [first, second] = &mut scratch;
//! let rows = [chunks.encode(0, first)?, chunks.encode(1, second)?];
//!
//! let index = ChunkIndex::new((0..2).map(|k| rows.iter().map(|row| row.coords[k]).collect()).collect())?;
//! let selection = Selection::resolve(&shape, &parse_indices("2, 1:")?)?;
//! let fetched: Vec<StoredChunk> = wanted(&header, &selection, &index)
//!     .into_iter()
//!     .map(|i| StoredChunk { coords: rows[i].coords, codec: rows[i].codec, bytes: &rows[i].bytes })
//!     .collect();
//! assert_eq!(fetched.len(), 1);
//! let slice = read_sparse(&header, &selection, &fetched, Team::alone())?;
//! assert_eq!((slice.axis(0), &slice.values()[..]), (&[2][..], &[9][..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | layout | name | rows are |
//! |---|---|---|
//! | [`Layout::DenseChunks`] | FTSF | boxes of a grid, all elements |
//! | [`Layout::Coordinates`] | COO | nonzeros |
//! | [`Layout::CompressedRows`], [`Layout::CompressedColumns`] | CSR, CSC | runs of matrix rows or columns |
//! | [`Layout::FiberTree`] | CSF | runs of a tree's leaves |
//! | [`Layout::SparseBlocks`] | BSGS | boxes of a grid, nonzeros only |
//!
//! There is no I/O, no clock and no global state here. Bytes are never trusted: decoding ends in a value or
//! in an error of kind corrupt.

mod error;

mod bit_planes;
mod compress;
mod header;

mod packed;
mod tree;

mod chunk;
mod levels;
mod order;
mod part;
mod reach;
mod runs;

mod coordinates;
mod dense_chunks;

mod compressed_rows;
mod fiber_tree;
mod sparse_blocks;

mod encode;

mod decode;
mod read;

mod choose;

pub use choose::{
    Choice, CompressionWish, Estimate, Optimize, Wish, choose_dense, choose_sparse, estimate, exact_size,
};
pub use chunk::{ChunkIndex, Codec, Coords, EncodeChunks, EncodedChunk, Scratch, Value};
pub use compress::{Compression, Crc32c, DEFAULT_ZSTD_LEVEL, content_digests, crc32c, verify_crc32c};
pub use coordinates::{
    CellColumn, cell_column, floats_to_values, ints_to_values, reals_to_values, values_to_floats,
    values_to_ints, values_to_reals,
};
pub use decode::{chunk_nnz, coordinate_columns, decode_sparse, decode_sparse_into, wanted};
pub use dense_chunks::{chunk_extent, decode_dense, dense_copy};
pub use encode::encoder;
pub use error::LayoutError;
pub use header::{Header, Layout};
pub use part::SparsePart;
pub use read::{StoredChunk, assemble, read_sparse};
