//! A product of two dense matrices at some places only (SDDMM).

use super::product::with_vectors;
use super::{Csr, Pattern, Value};
use crate::kernels::matrix::MatrixRef;
use crate::kernels::vectorise::prefetch;

/// Inner extent that is summed at once. It bounds what is copied of a matrix whose columns do not lie side by side.
const BLOCK: usize = 128;

/// Partial sums per place. They do not depend on the machine's vectors, so that the result does not either.
const LANES: usize = 16;

/// `A · B` at the places of a pattern. The sum at a place goes by blocks of the inner extent, each of them in lanes: the
/// order is the same for all strides and machines, but it is not the ascending one of the other products.
///
/// # Panics
/// If the shapes disagree.
pub fn sampled<T: Value>(pattern: &Pattern, a: MatrixRef<'_, T>, b: MatrixRef<'_, T>) -> Csr<T> {
    let mut values = vec![T::ZERO; pattern.nnz()];
    sampled_into(pattern, a, b, &mut values);
    Csr { pattern: pattern.clone(), values }
}

/// Adds `A · B` to one value per place of a pattern, see [`sampled`]. Cutting the inner extent at multiples of 128 changes
/// no bit. A matrix B whose columns do not lie side by side is copied, 128 rows at a time.
///
/// # Panics
/// If the shapes disagree.
pub fn sampled_into<T: Value>(pattern: &Pattern, a: MatrixRef<'_, T>, b: MatrixRef<'_, T>, values: &mut [T]) {
    assert_eq!(a.columns(), b.rows(), "the inner extents of a product");
    assert_eq!([a.rows(), b.columns()], pattern.shape(), "the shape of a product");
    assert_eq!(values.len(), pattern.nnz(), "one value per place");
    let (mut a_row, mut b_columns) = (Vec::new(), Vec::new());
    for from in (0..a.columns()).step_by(BLOCK) {
        let len = BLOCK.min(a.columns() - from);
        let is_packed = b.row_stride() != 1 && len > 1;
        if is_packed {
            pack(b, from, len, &mut b_columns);
        }
        let (b_first, b_stride) = if is_packed {
            (b_columns.as_ptr(), len as isize)
        } else {
            (b.as_ptr().wrapping_offset(from as isize * b.row_stride()), b.column_stride())
        };
        for row in 0..a.rows() {
            let places = pattern.places(row);
            if places.is_empty() {
                continue;
            }
            let line = match a.row(row) {
                Some(line) => &line[from..from + len],
                None => {
                    a_row.clear();
                    a_row.extend((from..from + len).map(|k| a.at(row, k)));
                    &a_row[..]
                }
            };
            let columns = &pattern.indices[places.clone()];
            // SAFETY: the columns of the pattern are columns of B, of which `len` elements lie side by side.
            unsafe { add_dots(line, b_first, b_stride, columns, &mut values[places]) };
        }
    }
}

/// Copies rows `from..from + len` so that columns lie side by side.
fn pack<T: Value>(b: MatrixRef<'_, T>, from: usize, len: usize, packed: &mut Vec<T>) {
    packed.resize(b.columns() * len, T::ZERO);
    // A few columns at a time, whose lines stay in cache until they are full.
    for column in (0..b.columns()).step_by(8) {
        let width = 8.min(b.columns() - column);
        for k in 0..len {
            for lane in column..column + width {
                packed[lane * len + k] = b.at(from + k, lane);
            }
        }
    }
}

with_vectors! {
    /// Adds the products of one row with some columns.
    ///
    /// # Safety
    /// As many elements as the row has are readable from each of `columns`.
    add_dots<T: Value; > =
        add_dots_body(line: &[T], b: *const T, b_stride: isize, columns: &[u32], sums: &mut [T])
}

#[inline(always)]
unsafe fn add_dots_body<T: Value>(line: &[T], b: *const T, b_stride: isize, columns: &[u32], sums: &mut [T]) {
    let step = (64 / size_of::<T>()).max(1);
    for (place, (&column, sum)) in columns.iter().zip(sums).enumerate() {
        // Columns are far apart: ask for the one after the next while this one is summed.
        if let Some(&next) = columns.get(place + 2) {
            let next = b.wrapping_offset(next as isize * b_stride);
            (0..line.len()).step_by(step).for_each(|k| prefetch(next.wrapping_add(k)));
        }
        // SAFETY: the caller's promise.
        let other = unsafe { std::slice::from_raw_parts(b.offset(column as isize * b_stride), line.len()) };
        *sum = sum.add(dot(line, other));
    }
}

#[inline(always)]
fn dot<T: Value>(a: &[T], b: &[T]) -> T {
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    let mut lanes = [T::ZERO; LANES];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            lanes[lane] = lanes[lane].add(a[lane].mul(b[lane]));
        }
    }
    for (lane, (&a, &b)) in a_rest.iter().zip(b_rest).enumerate() {
        lanes[lane] = lanes[lane].add(a.mul(b));
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = lanes[lane].add(lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}
