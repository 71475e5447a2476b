//! Products and sums of two sparse matrices. Products go row by row (Gustavson): each row of A says which rows of B,
//! scaled, add up to a row of the result, in a dense line that stays in cache.

use super::product::{Arithmetic, Pair, Ring};
use super::{Csr, Pattern, Value};
use crate::kernels::matrix::MatrixMut;
use crate::op::BinaryOp;

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
        product_into(Pair::new(plus, times), self, T::ONE, b, c, is_first);
    }

    /// `A · B`, sparse. A place where terms meet is stored even if they cancel.
    ///
    /// # Panics
    /// If the inner extents disagree.
    pub fn multiply(&self, b: &Csr<T>) -> Csr<T> {
        product(Arithmetic, self, b)
    }

    /// `A · B` over a semiring, see [`Csr::multiply_dense_over`].
    ///
    /// # Panics
    /// If the inner extents disagree, or if `plus` has no identity.
    pub fn multiply_over(&self, [plus, times]: [BinaryOp; 2], b: &Csr<T>) -> Csr<T> {
        product(Pair::new(plus, times), self, b)
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
            add_row(ring, a, row, alpha, b, line);
            continue;
        }
        copy.clear();
        if is_first {
            copy.resize(b.columns(), ring.zero());
        } else {
            copy.extend((0..b.columns()).map(|column| c.as_ref().at(row, column)));
        }
        add_row(ring, a, row, alpha, b, &mut copy);
        copy.iter().enumerate().for_each(|(column, &value)| c.set(row, column, value));
    }
}

/// Adds a row of the product to a line as long as B is wide.
#[inline]
fn add_row<T: Value, R: Ring<T>>(ring: R, a: &Csr<T>, row: usize, alpha: T, b: &Csr<T>, line: &mut [T]) {
    assert_eq!(line.len(), b.columns(), "a line of the result");
    let is_scaled = alpha != T::ONE;
    let (indices, values) = a.row(row);
    for (&k, &value) in indices.iter().zip(values) {
        let value = if is_scaled { ring.times(alpha, value) } else { value };
        let (columns, factors) = b.row(k as usize);
        let (columns, last_columns) = columns.as_chunks::<4>();
        let (factors, last_factors) = factors.as_chunks::<4>();
        // Four at a time: their columns differ, so that all can be loaded before the first is stored.
        for (columns, factors) in columns.iter().zip(factors) {
            let columns = columns.map(|column| column as usize);
            // SAFETY: the columns of B are below its number of columns, which is the length of the line.
            unsafe {
                let sums: [T; 4] = std::array::from_fn(|lane| {
                    ring.plus(*line.get_unchecked(columns[lane]), ring.times(value, factors[lane]))
                });
                for lane in 0..4 {
                    *line.get_unchecked_mut(columns[lane]) = sums[lane];
                }
            }
        }
        for (&column, &factor) in last_columns.iter().zip(last_factors) {
            // SAFETY: as above.
            let sum = unsafe { line.get_unchecked_mut(column as usize) };
            *sum = ring.plus(*sum, ring.times(value, factor));
        }
    }
}

fn product<T: Value, R: Ring<T>>(ring: R, a: &Csr<T>, b: &Csr<T>) -> Csr<T> {
    assert_eq!(b.rows(), a.columns(), "the inner extents of a product");
    let columns = b.columns();
    // Terms of each row, and from them how many places they will meet in if these are random: no more than a guess,
    // but one that is neither far below (regrowing) nor the number of terms (many times too much).
    let terms =
        |row: usize| -> usize { a.row(row).0.iter().map(|&k| b.pattern.places(k as usize).len()).sum() };
    let miss = (-1.0 / columns.max(1) as f64).ln_1p();
    let guess: f64 =
        (0..a.rows()).map(|row| columns as f64 * -(terms(row) as f64 * miss).exp_m1()).sum::<f64>() * 1.02;
    let mut indices: Vec<u32> = Vec::with_capacity(guess as usize);
    let mut values: Vec<T> = Vec::with_capacity(guess as usize);
    let mut starts = Vec::with_capacity(a.rows() + 1);
    starts.push(0);

    let mut line = vec![ring.zero(); columns];
    let mut is_touched = vec![0u64; columns.div_ceil(64)];
    for row in 0..a.rows() {
        let first = indices.len();
        let terms = terms(row);
        // Few terms are listed and sorted; many are marked in a bitmap, which is read from end to end.
        let is_listed = terms * (terms.max(2).ilog2() as usize) < is_touched.len();
        if !is_listed {
            // Every element that no term touches stays zero, so the sums need no test.
            add_row(ring, a, row, T::ONE, b, &mut line);
        }
        let (inner, factors) = a.row(row);
        for (&k, &factor) in inner.iter().zip(factors) {
            let (touched, terms) = b.row(k as usize);
            if is_listed {
                for (&column, &term) in touched.iter().zip(terms) {
                    let (word, bit) = (column as usize / 64, 1u64 << (column % 64));
                    if is_touched[word] & bit == 0 {
                        is_touched[word] |= bit;
                        indices.push(column);
                    }
                    let sum = &mut line[column as usize];
                    *sum = ring.plus(*sum, ring.times(factor, term));
                }
            } else {
                touched.iter().for_each(|&column| is_touched[column as usize / 64] |= 1 << (column % 64));
            }
        }
        if is_listed {
            indices[first..].sort_unstable();
            indices[first..].iter().for_each(|&column| is_touched[column as usize / 64] = 0);
        } else {
            for (word, bits) in is_touched.iter_mut().enumerate() {
                while *bits != 0 {
                    indices.push(word as u32 * 64 + bits.trailing_zeros());
                    *bits &= *bits - 1;
                }
            }
        }
        values.extend(
            indices[first..].iter().map(|&column| std::mem::replace(&mut line[column as usize], ring.zero())),
        );
        starts.push(indices.len());
    }
    // A bad guess is given back.
    if indices.capacity() > indices.len() + indices.len() / 4 {
        indices.shrink_to_fit();
        values.shrink_to_fit();
    }
    Csr { pattern: Pattern { rows: a.rows(), columns, starts, indices }, values }
}
