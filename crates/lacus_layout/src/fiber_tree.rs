//! The fibre tree (CSF, Compressed Sparse Fiber).
//!
//! **What it stores.** A tree with a level per axis, in `axis_order`: a node is a coordinate, the path from
//! the root to a leaf is a nonzero, and a coordinate that many nonzeros share is stored once.
//!
//! **When it wins.** Tensors of higher rank whose nonzeros cluster on some axes, read whole or by slices of
//! the root's axis; and shapes with more cells than a 64-bit number can count, since no level ever folds
//! axes together.
//!
//! **The row layout.** One table row per run of 32 to 64 Ki leaves, cut where an early level changes if
//! possible: `c0 … c(n-1)` are the coordinates of its first nonzero, in `axis_order`. The bytes are a packed
//! tree of n levels (codec `packed`), complete in itself. (The paper keeps the first two levels unchunked
//! beside the others; here each run repeats the few nodes above it, so that any run is read alone.)
//!
//! ```
//! use lacus_layout::{Compression, Header, Layout, Scratch, StoredChunk, Value, encoder, read_sparse};
//! use lacus_tensor::{Buffer, DType, Duplicates, Selection, Shape, SparseTensor};
//! use lacus_threads::Team;
//!
//! // Nonzeros at (0, 1, 5), (0, 1, 6) and (2, 0, 5); the last axis is the root.
//! let shape = Shape::new(vec![3, 4, 9]).unwrap();
//! let coords = Buffer::from_elements(&[0i64, 0, 2, 1, 1, 0, 5, 6, 5]);
//! let values = Buffer::from_elements(&[1u8, 2, 3]);
//! let tensor = SparseTensor::new(DType::U8, shape.clone(), coords, values, Duplicates::Refuse).unwrap();
//! let header = Header {
//!     dtype: DType::U8,
//!     shape: shape.clone(),
//!     layout: Layout::FiberTree { axis_order: vec![2, 0, 1] },
//!     nnz: Some(3),
//!     compression: Compression::None,
//!     reasons: vec![],
//! };
//! let chunks = encoder(&header, Value::Sparse(&tensor)).unwrap();
//! let mut scratch = Scratch::new();
//! let chunk = chunks.encode(0, &mut scratch).unwrap();
//! assert_eq!(&chunk.coords[..], [5, 0, 1]);
//!
//! let stored = StoredChunk { coords: chunk.coords, codec: chunk.codec, bytes: &chunk.bytes };
//! assert_eq!(read_sparse(&header, &Selection::all(&shape), &[stored], Team::alone()).unwrap(), tensor);
//! ```

use lacus_tensor::{Shape, SparseTensor};

use crate::chunk::{ChunkIndex, Coords, EncodeChunks};
use crate::error::LayoutError;
use crate::levels::Levels;
use crate::order::reorder;
use crate::packed::Effort;
use crate::reach::{Place, Reach, place_of};
use crate::runs::{Run, Runs, cut};

pub(crate) fn levels(shape: &Shape, axis_order: &[usize]) -> Levels {
    let dims = shape.dims();
    Levels {
        axes: axis_order.iter().map(|axis| vec![*axis]).collect(),
        origin: vec![0; dims.len()],
        extent: dims.to_vec(),
    }
}

pub(crate) fn tree_encoder<'a>(
    tensor: &'a SparseTensor,
    axis_order: &[usize],
    effort: Effort,
) -> Result<Box<dyn EncodeChunks + 'a>, LayoutError> {
    let columns: Vec<&[i64]> = (0..tensor.shape().rank()).map(|axis| tensor.axis(axis)).collect();
    let c_order: Vec<usize> = (0..columns.len()).collect();
    let order = reorder(&columns, tensor.shape().dims(), &c_order, axis_order);
    let place = |i: usize| order.as_ref().map_or(i, |order| order[i]);
    let changed = |i: usize| {
        let differs = |axis: &usize| columns[*axis][place(i)] != columns[*axis][place(i - 1)];
        axis_order.iter().position(differs).unwrap_or(axis_order.len())
    };
    let run = |places: std::ops::Range<usize>| Run {
        coords: Coords::of(axis_order.iter().map(|axis| columns[*axis][place(places.start)] as u64)),
        places,
    };
    let runs = cut(tensor.nnz(), changed).into_iter().map(run).collect();
    let levels = levels(tensor.shape(), axis_order);
    Ok(Box::new(Runs::new(tensor, order, runs, effort, move |_: &Coords| Ok(levels.clone()))?))
}

/// Which rows of the index a selection wants.
pub(crate) fn wanted(axis_order: &[usize], reach: &Reach<'_>, index: &ChunkIndex) -> Vec<usize> {
    let coords_of = |place: &Place| Coords::of(place.iter().copied().take(axis_order.len()));
    reach.runs(axis_order, index, place_of, coords_of)
}
