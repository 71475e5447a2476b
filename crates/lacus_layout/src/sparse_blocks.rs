//! Sparse blocks (BSGS, Block Sparse Generic Storage; block-sparse, BCSR and mode-generic formats).
//!
//! **What it stores.** The boxes of a regular grid that hold a nonzero. A block numbers its cells in
//! `axis_order` and stores the ascending numbers of its nonzeros, and their values.
//!
//! **When it wins.** Slices: a block is a box, so a selection names the blocks it needs before anything is
//! read, and a block of one index of the first axis makes `[i]` a single small read. With the right
//! `axis_order` it is often the smallest layout as well, since one number holds all coordinates.
//!
//! **The row layout.** One table row per block that holds a nonzero: `c0 … c(n-1)` are the block's place in
//! the grid (`ck = coordinate / block_shape[k]`, in the tensor's order of axes). The bytes are a packed tree
//! of one level (codec `packed`): the number of a cell is `((a · extent_b) + b) · extent_c + …` over its
//! coordinates inside the block, axes in `axis_order`; blocks at the upper edge are trimmed. (The paper
//! stores blocks dense and suggests coordinates for sparse ones; packed gaps take no more than a bit where
//! a block is full, and keep explicit zeros.)
//!
//! ```
//! use lacus_layout::{Compression, Header, Layout, Scratch, StoredChunk, Value, encoder, read_sparse};
//! use lacus_tensor::{Buffer, DType, Duplicates, Selection, Shape, SparseTensor};
//! use lacus_threads::Team;
//!
//! // Nonzeros at (0, 1), (0, 7) and (5, 7), blocks of 2 by 4.
//! let shape = Shape::new(vec![6, 8]).unwrap();
//! let coords = Buffer::from_elements(&[0i64, 0, 5, 1, 7, 7]);
//! let values = Buffer::from_elements(&[1i16, 2, 3]);
//! let tensor = SparseTensor::new(DType::I16, shape.clone(), coords, values, Duplicates::Refuse).unwrap();
//! let header = Header {
//!     dtype: DType::I16,
//!     shape: shape.clone(),
//!     layout: Layout::SparseBlocks { block_shape: vec![2, 4], axis_order: vec![1, 0] },
//!     nnz: Some(3),
//!     compression: Compression::None,
//!     reasons: vec![],
//! };
//! let blocks = encoder(&header, Value::Sparse(&tensor)).unwrap();
//! let mut scratch = vec![Scratch::new(), Scratch::new(), Scratch::new()];
//! let encoded: Vec<_> =
//!     scratch.iter_mut().enumerate().map(|(i, scratch)| blocks.encode(i, scratch).unwrap()).collect();
//! assert_eq!(encoded.iter().map(|block| block.coords.to_vec()).collect::<Vec<_>>(), [[0, 0], [0, 1], [2, 1]]);
//!
//! let stored: Vec<_> = encoded
//!     .iter()
//!     .map(|block| StoredChunk { coords: block.coords, codec: block.codec, bytes: &block.bytes })
//!     .collect();
//! assert_eq!(read_sparse(&header, &Selection::all(&shape), &stored, Team::alone()).unwrap(), tensor);
//! ```

use lacus_tensor::SparseTensor;

use crate::chunk::{Coords, EncodeChunks};
use crate::dense_chunks::chunk_extent;
use crate::error::LayoutError;
use crate::header::Header;
use crate::levels::Levels;
use crate::order::reorder;
use crate::packed::Effort;
use crate::runs::{Run, Runs};

/// How the block at `coords` folds its cells.
pub(crate) fn levels(header: &Header, axis_order: &[usize], coords: &Coords) -> Result<Levels, LayoutError> {
    let (origin, extent) = chunk_extent(header, coords)?;
    Ok(Levels { axes: vec![axis_order.to_vec()], origin, extent })
}

/// Whether blocks one after the other, each in C order, are in C order: all axes but one are cut to single
/// cells before it and not cut after it.
pub(crate) fn in_c_order(dims: &[u64], block_shape: &[u64]) -> bool {
    let leading = dims.iter().zip(block_shape).take_while(|(dim, side)| **side == 1 || **dim <= 1).count();
    dims.iter().zip(block_shape).skip(leading + 1).all(|(dim, side)| side >= dim)
}

/// The order of axes that blocks one after the other, each numbered in `axis_order`, are in: `axis_order`
/// if none but its first axis is cut, else no order at all.
pub(crate) fn block_sequence<'a>(dims: &[u64], block_shape: &[u64], axis_order: &'a [usize]) -> &'a [usize] {
    let cut = |axis: usize| block_shape[axis] < dims[axis];
    match axis_order.iter().skip(1).any(|axis| cut(*axis)) {
        true => &[],
        false => axis_order,
    }
}

pub(crate) fn block_encoder<'a>(
    header: &Header,
    block_shape: &[u64],
    axis_order: &[usize],
    tensor: &'a SparseTensor,
) -> Result<Box<dyn EncodeChunks + 'a>, LayoutError> {
    let dims = tensor.shape().dims();
    let columns: Vec<&[i64]> = (0..dims.len()).map(|axis| tensor.axis(axis)).collect();
    // Only cut axes tell blocks apart.
    let cut: Vec<usize> = (0..dims.len()).filter(|axis| block_shape[*axis] < dims[*axis]).collect();
    let block_of = |axis: usize, i: usize| columns[axis][i] as u64 / block_shape[axis];
    let order = match in_c_order(dims, block_shape) {
        true => None,
        false => {
            let grid: Vec<u64> = cut.iter().map(|axis| dims[*axis].div_ceil(block_shape[*axis])).collect();
            let blocks: Vec<Vec<i64>> = cut
                .iter()
                .map(|axis| (0..tensor.nnz()).map(|i| block_of(*axis, i) as i64).collect())
                .collect();
            let blocks: Vec<&[i64]> = blocks.iter().map(|column| &column[..]).collect();
            let all: Vec<usize> = (0..cut.len()).collect();
            reorder(&blocks, &grid, &[], &all)
        }
    };
    let place = |i: usize| order.as_ref().map_or(i, |order| order[i]);
    let mut runs = Vec::new();
    let mut start = 0;
    while start < tensor.nnz() {
        let coords = Coords::of((0..dims.len()).map(|axis| block_of(axis, place(start))));
        // The block's bounds, so that no nonzero needs a division.
        let bounds: Vec<(&[i64], std::ops::Range<i64>)> = cut
            .iter()
            .map(|axis| {
                let from = coords[*axis] * block_shape[*axis] as i64;
                (columns[*axis], from..from.saturating_add(block_shape[*axis] as i64))
            })
            .collect();
        let inside = |i: usize| bounds.iter().all(|(column, bounds)| bounds.contains(&column[place(i)]));
        let end = end_of(start, tensor.nnz(), inside);
        runs.push(Run { places: start..end, coords });
        start = end;
    }
    let (compression, header, axis_order) = (header.compression, header.clone(), axis_order.to_vec());
    let levels_of = move |coords: &Coords| levels(&header, &axis_order, coords);
    Ok(Box::new(Runs::new(tensor, order, runs, Effort::of(compression), levels_of)?))
}

/// Where the places after `start` stop being inside, which they are without a gap: by growing steps, then by
/// halving.
fn end_of(start: usize, n: usize, inside: impl Fn(usize) -> bool) -> usize {
    let (mut last, mut step) = (start, 1);
    while last + step < n && inside(last + step) {
        last += step;
        step *= 2;
    }
    let mut end = n.min(last + step);
    while last + 1 < end {
        let middle = last + (end - last) / 2;
        if inside(middle) { last = middle } else { end = middle }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_found() {
        for n in 1..40 {
            for start in 0..n {
                for end in start + 1..=n {
                    assert_eq!(end_of(start, n, |i| i < end), end);
                }
            }
        }
    }

    #[test]
    fn slabs_keep_c_order() {
        let check = |dims: &[u64], sides: &[u64], expected| {
            assert_eq!(in_c_order(dims, sides), expected, "{sides:?}")
        };
        check(&[91, 24, 887], &[1, 24, 887], true);
        check(&[91, 24, 887], &[7, 24, 1000], true);
        check(&[91, 24, 887], &[1, 5, 887], true);
        check(&[91, 24, 887], &[1, 1, 100], true);
        check(&[91, 24, 887], &[91, 24, 887], true);
        check(&[91, 24, 887], &[2, 5, 887], false);
        check(&[91, 24, 887], &[1, 24, 100], false);
        check(&[91, 24, 887], &[91, 24, 100], false);
        check(&[1, 24], &[1, 5], true);
    }
}
