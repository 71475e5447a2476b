//! The order of coordinates: checking that they are inside of the shape and sorted, and sorting them.
//!
//! Rows are compared by their place in C order, one number per row, whenever the tensor has fewer than
//! 2^64 elements; else axis by axis.

use crate::buffer::Buffer;
use crate::error::TensorError;
use crate::shape::Shape;
use std::cmp::Ordering;

/// How coordinates are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Each comes after the one before.
    Strict,
    /// None comes before the one before, but some are equal.
    Repeating,
    Unsorted,
}

impl Order {
    fn and(self, next: Ordering) -> Order {
        match (self, next) {
            (Order::Unsorted, _) | (_, Ordering::Greater) => Order::Unsorted,
            (Order::Repeating, _) | (_, Ordering::Equal) => Order::Repeating,
            (Order::Strict, Ordering::Less) => Order::Strict,
        }
    }
}

/// Rows looked at together, so that the second look finds them in the first-level cache.
const BLOCK: usize = 1024;

/// Checks that all coordinates (axis by axis, `nnz` each) lie inside of the shape, and finds their order.
pub(super) fn check(shape: &Shape, coords: &[i64], nnz: usize) -> Result<Order, TensorError> {
    if shape.rank() == 0 {
        return Ok(if nnz > 1 { Order::Repeating } else { Order::Strict });
    }
    let linear = shape.elements().is_some();
    let mut order = Order::Strict;
    let mut places = [0; BLOCK];
    let mut last = None;
    for begin in (0..nnz).step_by(BLOCK) {
        let rows = begin..nnz.min(begin + BLOCK);
        for (axis, &size) in shape.dims().iter().enumerate() {
            check_bounds(&coords[axis * nnz..][rows.clone()], axis, size, rows.start)?;
        }
        if order == Order::Unsorted {
            continue;
        }
        if linear {
            let places = &mut places[..rows.len()];
            linear_places(shape, coords, nnz, rows.start, places);
            order = last.map_or(order, |last: u64| order.and(last.cmp(&places[0])));
            last = places.last().copied();
            if !places.is_sorted_by(|a, b| a < b) {
                order = order.and(Ordering::Equal);
                order = if places.is_sorted() { order } else { Order::Unsorted };
            }
        } else {
            for row in rows.start.max(1)..rows.end {
                order = order.and(compare_rows(shape, coords, nnz, row - 1, row));
            }
        }
    }
    Ok(order)
}

fn check_bounds(column: &[i64], axis: usize, size: u64, first_row: usize) -> Result<(), TensorError> {
    // A coordinate is inside when neither it nor its distance to the last place is negative. Collecting
    // sign bits needs no comparison, so the loop runs on vectors everywhere.
    let last = size as i64 - 1;
    let signs = column.iter().fold(last, |signs, &at| signs | at | last.wrapping_sub(at));
    if signs >= 0 {
        return Ok(());
    }
    let outside = |&at: &i64| at < 0 || at as u64 >= size;
    match column.iter().position(outside) {
        None => Ok(()),
        Some(row) => Err(TensorError::CoordinateOutOfBounds {
            row: first_row + row,
            coordinate: column[row],
            axis,
            size,
        }),
    }
}

/// The places in C order of the rows from `first` on.
pub(super) fn linear_places(shape: &Shape, coords: &[i64], nnz: usize, first: usize, places: &mut [u64]) {
    places.fill(0);
    for (axis, &size) in shape.dims().iter().enumerate() {
        let column = &coords[axis * nnz + first..][..places.len()];
        for (place, &at) in places.iter_mut().zip(column) {
            *place = place.wrapping_mul(size).wrapping_add(at as u64);
        }
    }
}

fn compare_rows(shape: &Shape, coords: &[i64], nnz: usize, a: usize, b: usize) -> Ordering {
    (0..shape.rank())
        .map(|axis| coords[axis * nnz + a].cmp(&coords[axis * nnz + b]))
        .find(|ordering| ordering.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// The coordinates sorted, and the rows in that order; equal ones stay in order. The coordinates are inside
/// of the shape.
pub(super) fn sorted(shape: &Shape, coords: &[i64], nnz: usize) -> (Buffer, Vec<usize>) {
    let Some(elements) = shape.elements() else {
        let mut rows: Vec<usize> = (0..nnz).collect();
        rows.sort_by(|&a, &b| compare_rows(shape, coords, nnz, a, b));
        return (pick_coords(coords, nnz, &rows), rows);
    };
    let mut memory = Buffer::for_overwrite(nnz * size_of::<u64>());
    let places = memory.cast_mut::<u64>();
    linear_places(shape, coords, nnz, 0, places);
    let row_bits = usize::BITS - nnz.leading_zeros();
    let place_bits = u64::BITS - elements.leading_zeros();
    let rows = if row_bits + place_bits <= u64::BITS {
        // Place and row in one word sort several times as fast as in two.
        for (row, place) in places.iter_mut().enumerate() {
            *place = *place << row_bits | row as u64;
        }
        sort_words(&mut memory, row_bits, place_bits);
        let places = memory.cast_mut::<u64>();
        let row_mask = (1 << row_bits) - 1;
        let rows = places.iter().map(|word| (word & row_mask) as usize).collect();
        places.iter_mut().for_each(|word| *word >>= row_bits);
        rows
    } else {
        let mut pairs: Vec<(u64, usize)> = places.iter().copied().zip(0..).collect();
        pairs.sort_unstable();
        places.iter_mut().zip(&pairs).for_each(|(place, pair)| *place = pair.0);
        pairs.into_iter().map(|(_, row)| row).collect()
    };
    (unravel(shape, memory.cast_mut()), rows)
}

/// Sorts words by their `bits` from bit `shift` on; lower bits ascend already. One stable counting sort per
/// eleven bits: the counters of a pass fit a first-level cache.
fn sort_words(memory: &mut Buffer, shift: u32, bits: u32) {
    const DIGIT: u32 = 11;
    let count = memory.len() / size_of::<u64>();
    if count < 1 << DIGIT {
        return memory.cast_mut::<u64>().sort_unstable();
    }
    let mut sorted = Buffer::for_overwrite(memory.len());
    for shift in (shift..shift + bits).step_by(DIGIT as usize) {
        let words = memory.cast::<u64>();
        let digit = |word: u64| (word >> shift) as usize & ((1 << DIGIT) - 1);
        let mut ends = [0usize; 1 << DIGIT];
        words.iter().for_each(|&word| ends[digit(word)] += 1);
        if ends.contains(&count) {
            continue;
        }
        let mut total = 0;
        for end in &mut ends {
            total += std::mem::replace(end, total);
        }
        let places = sorted.cast_mut::<u64>();
        for &word in words {
            let end = &mut ends[digit(word)];
            places[*end] = word;
            *end += 1;
        }
        std::mem::swap(memory, &mut sorted);
    }
}

/// The coordinates of places in C order. Computing them is faster than fetching them from all over memory.
fn unravel(shape: &Shape, places: &mut [u64]) -> Buffer {
    let mut coords = Buffer::for_overwrite(places.len() * shape.rank() * size_of::<i64>());
    let columns = coords.cast_mut::<i64>().chunks_exact_mut(places.len().max(1));
    for (column, &size) in columns.zip(shape.dims()).rev() {
        for (at, place) in column.iter_mut().zip(places.iter_mut()) {
            let outer = *place / size;
            *at = (*place - outer * size) as i64;
            *place = outer;
        }
    }
    coords
}

/// The coordinates of `rows`, in that order.
pub(super) fn pick_coords(coords: &[i64], nnz: usize, rows: &[usize]) -> Buffer {
    let mut picked = Buffer::for_overwrite(size_of_val(coords) / nnz.max(1) * rows.len());
    if nnz > 0 && !rows.is_empty() {
        let columns = picked.cast_mut::<i64>().chunks_exact_mut(rows.len());
        for (to, from) in columns.zip(coords.chunks_exact(nnz)) {
            to.iter_mut().zip(rows).for_each(|(place, &row)| *place = from[row]);
        }
    }
    picked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_told_apart() {
        let check_order = |dims: &[u64], coords: &[i64], nnz: usize, expected: Order| {
            let shape = Shape::new(dims).unwrap();
            assert_eq!(check(&shape, coords, nnz), Ok(expected), "{dims:?} {coords:?}");
        };
        for outer in [4, 1 << 60] {
            let dims = [outer, 50];
            check_order(&dims, &[], 0, Order::Strict);
            check_order(&dims, &[0, 0, 1, 3, 4, 0], 3, Order::Strict);
            check_order(&dims, &[0, 0, 1, 3, 3, 0], 3, Order::Repeating);
            check_order(&dims, &[0, 0, 1, 3, 2, 0], 3, Order::Unsorted);
            check_order(&dims, &[0, 1, 1, 0, 3, 3, 3, 0], 4, Order::Unsorted);
        }
        check_order(&[], &[], 1, Order::Strict);
        check_order(&[], &[], 2, Order::Repeating);
        // Across blocks.
        let mut coords: Vec<i64> = (0..5000).collect();
        check_order(&[5000], &coords, 5000, Order::Strict);
        coords[BLOCK] = coords[BLOCK - 1];
        check_order(&[5000], &coords, 5000, Order::Repeating);
        coords[2 * BLOCK] = 0;
        check_order(&[5000], &coords, 5000, Order::Unsorted);
    }

    #[test]
    fn what_is_outside_is_named() {
        let check_error = |dims: &[u64], coords: &[i64], nnz: usize, expected: &str| {
            let error = check(&Shape::new(dims).unwrap(), coords, nnz).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check_error(&[3, 4], &[0, 1, 0, 4], 2, "nonzero 1 has coordinate 4 on axis 1, outside of [0, 4)");
        check_error(&[3, 4], &[-1, 1, 0, 4], 2, "nonzero 0 has coordinate -1 on axis 0, outside of [0, 3)");
        check_error(&[0], &[0], 1, "nonzero 0 has coordinate 0 on axis 0, outside of [0, 0)");
        let mut coords = vec![0; 3000];
        coords[2999] = i64::MIN;
        check_error(
            &[i64::MAX as u64],
            &coords,
            3000,
            &format!("nonzero 2999 has coordinate {} on axis 0, outside of [0, {})", i64::MIN, i64::MAX),
        );
    }

    #[test]
    fn sorting_is_stable_in_all_three_ways() {
        // One word, two words, axis by axis.
        for outer in [40, 1 << 58, 1 << 62] {
            let shape = Shape::new([outer, 40]).unwrap();
            let (coords, rows) = sorted(&shape, &[3, 1, 3, 1, 0, 9, 2, 9, 2, 7], 5);
            assert_eq!(rows, [4, 1, 3, 0, 2]);
            assert_eq!(coords.cast::<i64>(), [0, 1, 1, 3, 3, 7, 2, 2, 9, 9]);
        }
    }

    #[test]
    fn many_rows_sort_by_counting() {
        for size in [1u64, 2, 3000, 1 << 30, 1 << 50] {
            let places: Vec<i64> =
                (1..5000u64).map(|row| (row.wrapping_mul(0x9e37_79b9_7f4a_7c15) % size) as i64).collect();
            let mut expected: Vec<usize> = (0..places.len()).collect();
            expected.sort_by_key(|&row| places[row]);
            let (coords, rows) = sorted(&Shape::new([size]).unwrap(), &places, places.len());
            assert_eq!(rows, expected);
            assert!(coords.cast::<i64>().iter().eq(rows.iter().map(|&row| &places[row])));
        }
    }
}
