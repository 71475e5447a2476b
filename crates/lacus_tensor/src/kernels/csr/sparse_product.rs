//! Products and sums of two sparse matrices. Products go row by row (Gustavson): each row of A says which rows of B,
//! scaled, add up to a row of the result, in a dense line that stays in cache.

use super::product::{Arithmetic, Pair, Paths, Ring, over};
use super::{Csr, Pattern, Value};
use crate::kernels::matrix::MatrixMut;
use crate::kernels::vectorise::prefetch;
use crate::op::BinaryOp;
use std::ops::Range;

impl<T: Value> Csr<T> {
    /// `C += alpha · A · B` with a sparse B and a dense C, or `C = …` if this is the first term: then what C holds is
    /// not read.
    ///
    /// # Panics
    /// If the shapes disagree.
    pub fn multiply_into(&self, alpha: T, b: &Csr<T>, c: MatrixMut<'_, T>, is_first: bool) {
        product_into(Arithmetic, self, alpha, b, c, is_first);
    }

    /// `C ⊕= A · B` over a semiring, see [`Csr::multiply_dense_over`].
    ///
    /// # Panics
    /// If the shapes disagree, or if `plus` has no identity.
    pub fn multiply_into_over(
        &self,
        [plus, times]: [BinaryOp; 2],
        b: &Csr<T>,
        c: MatrixMut<'_, T>,
        is_first: bool,
    ) {
        over!([plus, times], product_into, T, self, T::ONE, b, c, is_first);
    }

    /// `A · B`, sparse. A place where terms meet is stored even if they cancel.
    ///
    /// # Panics
    /// If the inner extents disagree.
    pub fn multiply(&self, b: &Csr<T>) -> Csr<T> {
        product(Arithmetic, self, b)
    }

    /// Some rows of `A · B`, each with the bits it has in the whole. `nnz` is what [`Csr::count_product`] counts for them:
    /// memory for so many elements is taken, and for a line of B.
    ///
    /// # Panics
    /// If the inner extents disagree, or if there are no such rows.
    pub fn multiply_rows(&self, rows: Range<usize>, b: &Csr<T>, nnz: usize) -> Csr<T> {
        product_rows(Arithmetic, self, rows, b, nnz)
    }

    /// How many elements each of some rows of `A · B` stores, without computing them.
    ///
    /// # Panics
    /// If the inner extents disagree, or if there are no such rows.
    pub fn count_product(&self, rows: Range<usize>, b: &Csr<T>) -> Vec<u32> {
        assert_eq!(b.rows(), self.columns(), "the inner extents of a product");
        // The row that was the last one to touch each place, counted from one.
        let mut last = vec![0u32; b.columns()];
        let mut counts = Vec::with_capacity(rows.len());
        for (number, row) in rows.enumerate() {
            let mark = number as u32 + 1;
            let mut count = 0;
            for &k in self.row(row).0 {
                for &column in b.row(k as usize).0 {
                    let last = &mut last[column as usize];
                    count += u32::from(*last != mark);
                    *last = mark;
                }
            }
            counts.push(count);
        }
        counts
    }

    /// `A · B` over a semiring, see [`Csr::multiply_dense_over`].
    ///
    /// # Panics
    /// If the inner extents disagree, or if `plus` has no identity.
    pub fn multiply_over(&self, [plus, times]: [BinaryOp; 2], b: &Csr<T>) -> Csr<T> {
        over!([plus, times], product, T, self, b)
    }

    /// `A + B`: stored where one of them is.
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn add(&self, other: &Csr<T>) -> Csr<T> {
        assert_eq!(self.shape(), other.shape(), "the shapes of a sum");
        if self.pattern == other.pattern {
            let values = self.values.iter().zip(&other.values).map(|(&a, &b)| a.add(b)).collect();
            return Csr { pattern: self.pattern.clone(), values };
        }
        let pattern = Pattern::union(&[&self.pattern, &other.pattern]);
        let mut values = Vec::with_capacity(pattern.nnz());
        for row in 0..self.rows() {
            let ((left, a), (right, b)) = (self.row(row), other.row(row));
            let (mut x, mut y) = (0, 0);
            for &column in pattern.row(row) {
                let in_left = left.get(x) == Some(&column);
                let in_right = right.get(y) == Some(&column);
                values.push(match (in_left, in_right) {
                    (true, true) => a[x].add(b[y]),
                    (true, false) => a[x],
                    _ => b[y],
                });
                x += usize::from(in_left);
                y += usize::from(in_right);
            }
        }
        Csr { pattern, values }
    }
}

fn product_into<T: Value, R: Ring<T>>(
    ring: R,
    a: &Csr<T>,
    alpha: T,
    b: &Csr<T>,
    mut c: MatrixMut<'_, T>,
    is_first: bool,
) {
    assert_eq!(b.rows(), a.columns(), "the inner extents of a product");
    assert_eq!([c.rows(), c.columns()], [a.rows(), b.columns()], "the shape of a product");
    let mut copy = Vec::new();
    for row in 0..a.rows() {
        if let Some(line) = c.row_mut(row) {
            if is_first {
                line.fill(ring.zero());
            }
            add_row::<T, R, false>(ring, a, row, alpha, b, line, &mut []);
            continue;
        }
        copy.clear();
        if is_first {
            copy.resize(b.columns(), ring.zero());
        } else {
            copy.extend((0..b.columns()).map(|column| c.as_ref().at(row, column)));
        }
        add_row::<T, R, false>(ring, a, row, alpha, b, &mut copy, &mut []);
        copy.iter().enumerate().for_each(|(column, &value)| c.set(row, column, value));
    }
}

/// Adds a row of the product to a line as long as B is wide. If asked to, marks the places it touches with a 1.
#[inline]
fn add_row<T: Value, R: Ring<T>, const IS_MARKED: bool>(
    ring: R,
    a: &Csr<T>,
    row: usize,
    alpha: T,
    b: &Csr<T>,
    line: &mut [T],
    marks: &mut [u8],
) {
    assert_eq!(line.len(), b.columns(), "a line of the result");
    assert!(!IS_MARKED || marks.len() == line.len(), "a mark per place");
    let is_scaled = alpha != T::ONE;
    let (indices, values) = a.row(row);
    for (place, (&k, &value)) in indices.iter().zip(values).enumerate() {
        // Rows of B are far apart: ask for the beginning of the next one, from where the machine goes on by itself.
        if let Some(&next) = indices.get(place + 1) {
            let start = b.pattern.starts[next as usize];
            for line in 0..4 {
                prefetch(b.pattern.indices.as_ptr().wrapping_add(start + line * 16));
                prefetch(b.values.as_ptr().wrapping_add(start + line * (64 / size_of::<T>())));
            }
        }
        let value = if is_scaled { ring.times(alpha, value) } else { value };
        let (columns, factors) = b.row(k as usize);
        let (columns, last_columns) = columns.as_chunks::<4>();
        let (factors, last_factors) = factors.as_chunks::<4>();
        // Four at a time: their columns differ, so that all can be loaded before the first is stored.
        for (columns, factors) in columns.iter().zip(factors) {
            let columns = columns.map(|column| column as usize);
            // SAFETY: the columns of B are below its number of columns, which is the length of the line and, if there
            // are any, of the marks.
            unsafe {
                let sums: [T; 4] = std::array::from_fn(|lane| {
                    ring.plus(*line.get_unchecked(columns[lane]), ring.times(value, factors[lane]))
                });
                for lane in 0..4 {
                    *line.get_unchecked_mut(columns[lane]) = sums[lane];
                    if IS_MARKED {
                        *marks.get_unchecked_mut(columns[lane]) = 1;
                    }
                }
            }
        }
        for (&column, &factor) in last_columns.iter().zip(last_factors) {
            // SAFETY: as above.
            unsafe {
                let sum = line.get_unchecked_mut(column as usize);
                *sum = ring.plus(*sum, ring.times(value, factor));
                if IS_MARKED {
                    *marks.get_unchecked_mut(column as usize) = 1;
                }
            }
        }
    }
}

fn product<T: Value, R: Ring<T>>(ring: R, a: &Csr<T>, b: &Csr<T>) -> Csr<T> {
    assert_eq!(b.rows(), a.columns(), "the inner extents of a product");
    let columns = b.columns();
    // From the terms of each row, how many places they will meet in if these are random: no more than a guess, but one
    // that is neither far below (regrowing) nor the number of terms (many times too much).
    let miss = (-1.0 / columns.max(1) as f64).ln_1p();
    let meet = |terms: usize| columns as f64 * -(terms as f64 * miss).exp_m1();
    let guess = (0..a.rows()).map(|row| meet(terms(a, row, b)) * 1.02).sum::<f64>() as usize + columns;
    let mut product = product_rows(ring, a, 0..a.rows(), b, guess);
    // A bad guess is given back.
    let nnz = product.values.len();
    if product.values.capacity() > nnz + nnz / 4 {
        product.pattern.indices.shrink_to_fit();
        product.values.shrink_to_fit();
    }
    product
}

/// What adds up to a row of a product.
fn terms<T: Value>(a: &Csr<T>, row: usize, b: &Csr<T>) -> usize {
    a.row(row).0.iter().map(|&k| b.pattern.places(k as usize).len()).sum()
}

/// Rows of a product, with room for so many elements from the start.
fn product_rows<T: Value, R: Ring<T>>(
    ring: R,
    a: &Csr<T>,
    rows: Range<usize>,
    b: &Csr<T>,
    room: usize,
) -> Csr<T> {
    assert_eq!(b.rows(), a.columns(), "the inner extents of a product");
    let columns = b.columns();
    // Whole eights are written at the end of a row, see `collect_marked`.
    let mut indices: Vec<u32> = Vec::with_capacity(room + 8);
    let mut values: Vec<T> = Vec::with_capacity(room + 8);
    let mut starts = Vec::with_capacity(rows.len() + 1);
    starts.push(0);

    // Both are back to zero after each row.
    let mut line = vec![ring.zero(); columns];
    let mut marks = vec![0u8; columns];
    let height = rows.len();
    for row in rows {
        let terms = terms(a, row, b);
        // Few terms are listed and sorted; many are marked, and the marks are read from end to end.
        if terms * (terms.max(2).ilog2() as usize) < columns / 8 {
            list_row(ring, a, row, b, &mut line, &mut marks, &mut indices, &mut values);
        } else {
            add_row::<T, R, true>(ring, a, row, T::ONE, b, &mut line, &mut marks);
            let places = marks.iter().map(|&mark| usize::from(mark)).sum::<usize>();
            indices.reserve(places + 8);
            values.reserve(places + 8);
            collect_marked(ring.zero(), &mut line, &mut marks, &mut indices, &mut values);
        }
        starts.push(indices.len());
    }
    Csr { pattern: Pattern { rows: height, columns, starts, indices }, values }
}

/// A row of few terms: the places in the order in which they are touched, then sorted.
#[expect(clippy::too_many_arguments, reason = "the state of `product`, of which this is a piece")]
fn list_row<T: Value, R: Ring<T>>(
    ring: R,
    a: &Csr<T>,
    row: usize,
    b: &Csr<T>,
    line: &mut [T],
    marks: &mut [u8],
    indices: &mut Vec<u32>,
    values: &mut Vec<T>,
) {
    let first = indices.len();
    let (inner, factors) = a.row(row);
    for (&k, &factor) in inner.iter().zip(factors) {
        let (touched, terms) = b.row(k as usize);
        for (&column, &term) in touched.iter().zip(terms) {
            let place = column as usize;
            if marks[place] == 0 {
                marks[place] = 1;
                indices.push(column);
            }
            line[place] = ring.plus(line[place], ring.times(factor, term));
        }
    }
    indices[first..].sort_unstable();
    for &column in &indices[first..] {
        marks[column as usize] = 0;
        values.push(std::mem::replace(&mut line[column as usize], ring.zero()));
    }
}

/// Moves all marked places to the end of the result, in order. There is room for them, and for eight more.
fn collect_marked<T: Value>(
    zero: T,
    line: &mut [T],
    marks: &mut [u8],
    indices: &mut Vec<u32>,
    values: &mut Vec<T>,
) {
    let (eights, rest) = marks.as_chunks_mut::<8>();
    let (lines, rest_line) = line.as_chunks_mut::<8>();
    let first = indices.len();
    let (to_indices, to_values) = (indices.spare_capacity_mut(), values.spare_capacity_mut());
    let room = to_indices.len().min(to_values.len());
    let mut count = 0;
    for (at, (marks, line)) in eights.iter_mut().zip(lines).enumerate() {
        if u64::from_ne_bytes(*marks) == 0 {
            continue;
        }
        assert!(count + 8 <= room, "room for the places of a row");
        for lane in 0..8 {
            // Written in any case, but counted only if marked: no branch that could be guessed wrong.
            // SAFETY: `count` grows by at most one per lane, so it stays below `room`.
            unsafe {
                to_indices.get_unchecked_mut(count).write((at * 8 + lane) as u32);
                to_values.get_unchecked_mut(count).write(line[lane]);
            }
            count += usize::from(marks[lane]);
        }
        *marks = [0; 8];
        *line = [zero; 8];
    }
    for (lane, (mark, value)) in rest.iter_mut().zip(rest_line).enumerate() {
        if std::mem::take(mark) != 0 {
            to_indices[count].write((eights.len() * 8 + lane) as u32);
            to_values[count].write(std::mem::replace(value, zero));
            count += 1;
        }
    }
    // SAFETY: all of these were written above.
    unsafe {
        indices.set_len(first + count);
        values.set_len(first + count);
    }
}
