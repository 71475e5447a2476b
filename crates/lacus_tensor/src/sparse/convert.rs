//! Dense to sparse and back, and counting what a sparse tensor would hold.
//!
//! An element counts as zero only when all of its bits are zero, so that a negative zero or a NaN survives
//! the way there and back.

use super::items::with_width;
use super::{SparseTensor, order};
use crate::buffer::Buffer;
use crate::dense::{Tensor, TensorRef};
use crate::error::TensorError;

/// Elements that do not lie in C order are brought into it a piece at a time: small enough for a
/// second-level cache, large enough to copy fast.
const PIECE_BYTES: usize = 256 << 10;

/// How many elements have bits that are not all zero.
pub fn count_nonzero(dense: &TensorRef<'_>) -> u64 {
    let mut count = 0;
    for_each_piece(dense, &mut |bytes| {
        count += match dense.dtype().size_bytes() {
            1 => count_bytes(bytes),
            2 => count_words::<2>(bytes, |word| u16::from_ne_bytes(word) != 0),
            4 => count_words::<4>(bytes, |word| u32::from_ne_bytes(word) != 0),
            8 => count_words::<8>(bytes, |word| u64::from_ne_bytes(word) != 0),
            _ => count_words::<16>(bytes, |word| u128::from_ne_bytes(word) != 0),
        };
    });
    count
}

/// Counts in 64 lanes of a byte each, emptied before they overflow: the compiler makes vectors of them.
fn count_bytes(bytes: &[u8]) -> u64 {
    let (lines, rest) = bytes.as_chunks::<64>();
    let mut count = rest.iter().filter(|&&byte| byte != 0).count() as u64;
    for lines in lines.chunks(255) {
        let mut lanes = [0u8; 64];
        for line in lines {
            for (lane, &byte) in lanes.iter_mut().zip(line) {
                *lane += u8::from(byte != 0);
            }
        }
        count += lanes.iter().map(|&lane| u64::from(lane)).sum::<u64>();
    }
    count
}

fn count_words<const N: usize>(bytes: &[u8], is_nonzero: impl Fn([u8; N]) -> bool) -> u64 {
    // Counters of 32 bits in blocks that cannot overflow them: twice as many per vector as of 64 bits.
    let blocks = bytes.as_chunks::<N>().0.chunks(1 << 20);
    blocks
        .map(|words| words.iter().map(|&word| u32::from(is_nonzero(word))).sum::<u32>())
        .map(u64::from)
        .sum()
}

/// Calls `visit` with the elements' bytes in C order, in one or more pieces of whole elements.
fn for_each_piece(dense: &TensorRef<'_>, visit: &mut impl FnMut(&[u8])) {
    if let Some(bytes) = dense.contiguous_bytes() {
        return visit(bytes);
    }
    let mut scratch = Buffer::for_overwrite(PIECE_BYTES.min(dense.byte_len()));
    visit_pieces(dense, &mut scratch, visit);
}

fn visit_pieces(dense: &TensorRef<'_>, scratch: &mut [u8], visit: &mut impl FnMut(&[u8])) {
    let bytes = dense.byte_len();
    let dims = dense.shape().dims();
    let Some(axis) = dims.iter().position(|&size| size > 1).filter(|_| bytes > scratch.len()) else {
        dense.copy_to(&mut scratch[..bytes]);
        return visit(&scratch[..bytes]);
    };
    // All axes before this one have size one, so parts along it follow each other in C order.
    let size = dims[axis];
    let part = (scratch.len() as u64 / (bytes as u64 / size)).clamp(1, size);
    let (mut origin, mut extent) = (vec![0; dims.len()], dims.to_vec());
    for first in (0..size).step_by(part as usize) {
        origin[axis] = first;
        extent[axis] = part.min(size - first);
        visit_pieces(&dense.region(&origin, &extent), scratch, visit);
    }
}

impl SparseTensor {
    /// The elements of a dense tensor whose bits are not all zero.
    pub fn from_dense(dense: &TensorRef<'_>) -> SparseTensor {
        let nnz = count_nonzero(dense) as usize;
        let (dtype, shape) = (dense.dtype(), dense.shape().clone());
        let mut coords = Buffer::for_overwrite(nnz * shape.rank() * size_of::<i64>());
        let mut values = Buffer::for_overwrite(nnz * dtype.size_bytes());
        let mut rows = Rows {
            dims: shape.dims(),
            at: vec![0; shape.rank()],
            place: 0,
            passed: 0,
            columns: coords.cast_mut::<i64>().chunks_exact_mut(nnz.max(1)).collect(),
            values: &mut values,
            filled: 0,
        };
        for_each_piece(dense, &mut |bytes| with_width!(dtype.size_bytes(), append(bytes, &mut rows)));
        SparseTensor::from_sorted(dtype, shape, coords, values)
    }

    /// The dense tensor with zeros where nothing is stored. Fails if it does not fit into memory.
    pub fn to_dense(&self) -> Result<Tensor, TensorError> {
        let mut dense = Tensor::zeros(self.dtype, self.shape.clone())?;
        with_width!(self.dtype.size_bytes(), place_items(self, dense.bytes_mut()));
        Ok(dense)
    }
}

fn place_items<const N: usize>(sparse: &SparseTensor, dense: &mut [u8]) {
    let (dense, _) = dense.as_chunks_mut::<N>();
    let (values, _) = sparse.values.as_chunks::<N>();
    let mut places = [0; 1024];
    for (block, values) in values.chunks(places.len()).enumerate() {
        let places = &mut places[..values.len()];
        order::linear_places(&sparse.shape, sparse.coords.cast(), sparse.nnz(), block * 1024, places);
        for (&place, value) in places.iter().zip(values) {
            dense[place as usize] = *value;
        }
    }
}

/// The rows of `from_dense` while they are being filled.
struct Rows<'a> {
    dims: &'a [u64],
    /// The last element written: its coordinates, and its place in C order.
    at: Vec<i64>,
    place: u64,
    /// Elements in the pieces before this one.
    passed: u64,
    columns: Vec<&'a mut [i64]>,
    values: &'a mut [u8],
    filled: usize,
}

impl Rows<'_> {
    /// Writes the coordinates of the element at `place`, which comes after the last one.
    fn push(&mut self, place: u64) {
        let mut ahead = (place - self.place) as i64;
        self.place = place;
        for (at, &size) in self.at.iter_mut().zip(self.dims).rev() {
            *at += ahead;
            if *at < size as i64 {
                break;
            }
            ahead = *at / size as i64;
            *at -= ahead * size as i64;
        }
        for (column, &at) in self.columns.iter_mut().zip(&self.at) {
            column[self.filled] = at;
        }
        self.filled += 1;
    }
}

/// Appends the nonzero elements of one piece.
fn append<const N: usize>(bytes: &[u8], rows: &mut Rows<'_>) {
    const BLOCK_BYTES: usize = 1024;
    let mut found = [0u16; BLOCK_BYTES];
    for block in bytes.chunks(BLOCK_BYTES) {
        let (elements, _) = block.as_chunks::<N>();
        let count = find_nonzero::<N>(block, &mut found);
        let values = &mut rows.values.as_chunks_mut::<N>().0[rows.filled..][..count];
        for (value, &index) in values.iter_mut().zip(&found) {
            *value = elements[usize::from(index)];
        }
        for &index in &found[..count] {
            rows.push(rows.passed + u64::from(index));
        }
        rows.passed += elements.len() as u64;
    }
}

/// Writes the indices of nonzero elements and returns how many there are. Zeros are passed a cache line at
/// a time.
fn find_nonzero<const N: usize>(block: &[u8], found: &mut [u16; 1024]) -> usize {
    let mut count = 0;
    let (lines, rest) = block.as_chunks::<64>();
    for (line, bytes) in lines.iter().enumerate() {
        let words = bytes.as_chunks::<8>().0;
        if words.iter().fold(0, |bits, &word| bits | u64::from_ne_bytes(word)) == 0 {
            continue;
        }
        if N >= 8 {
            for (index, element) in bytes.as_chunks::<N>().0.iter().enumerate() {
                found[count] = (line * (64 / N) + index) as u16;
                count += usize::from(*element != [0; N]);
            }
            continue;
        }
        for (word, &bytes) in words.iter().enumerate() {
            // The highest bit of each lane that holds a nonzero element: adding the other bits of a full
            // lane carries into it.
            let high = match N {
                1 => 0x8080_8080_8080_8080,
                2 => 0x8000_8000_8000_8000,
                _ => 0x8000_0000_8000_0000,
            };
            let bits = u64::from_le_bytes(bytes);
            let mut left = (((bits & !high) + !high) | bits) & high;
            while left != 0 {
                let lane = left.trailing_zeros() as usize / (8 * N);
                found[count] = ((line * 64 + word * 8) / N + lane) as u16;
                count += 1;
                left &= left - 1;
            }
        }
    }
    let passed = lines.len() * 64 / N;
    for (index, element) in rest.as_chunks::<N>().0.iter().enumerate() {
        found[count] = (passed + index) as u16;
        count += usize::from(*element != [0; N]);
    }
    count
}
