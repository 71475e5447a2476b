//! Sparse matrices, compressed by rows (CSR), and arithmetic on them.
//!
//! ```text
//! . 7 . .        starts:  0   1   2       4      row i is starts[i]..starts[i + 1]
//! . . . 8        indices: 1   3   0   2          ascending within a row
//! 9 . 6 .        values:  7   8   9   6
//! ```
//!
//! A [`Pattern`] says which places are stored, a [`Csr`] adds their values. What is stored stays stored: an explicit
//! zero counts. What is not stored is zero and takes no part: `0 * inf` is no NaN here.
//!
//! Products add to what a dense matrix holds, term by term in ascending order of the inner index, whatever the shape,
//! the strides and the machine: cutting a product into tiles along the inner index changes no bit of it.
//!
//! ```
//! use lacus_tensor::kernels::csr::Csr;
//! use lacus_tensor::kernels::matrix::{MatrixMut, MatrixRef};
//! let sparse = Csr::new(2, 3, vec![0, 1, 3], vec![1, 0, 2], vec![7.0, 9.0, 6.0])?;
//! let mut result = [0.0; 2];
//! let vector = MatrixRef::from_rows(&[1.0, 10.0, 100.0], 3, 1)?;
//! sparse.multiply_dense(1.0, vector, MatrixMut::from_rows(&mut result, 2, 1)?, true);
//! assert_eq!(result, [70.0, 609.0]);
//! # Ok::<(), lacus_tensor::TensorError>(())
//! ```

mod value;
mod pattern;
mod product;
mod sparse_product;
mod sampled;
mod pieces;
#[cfg(test)]
mod tests;

use super::matrix::{MatrixMut, MatrixRef};
use crate::error::TensorError;

pub use pattern::Pattern;
pub use product::{dense_multiply, dense_multiply_transposed};
pub use sampled::{sampled, sampled_into};
pub use value::Value;

/// A sparse matrix: a pattern and one value per place.
#[derive(Clone, Debug, PartialEq)]
pub struct Csr<T> {
    pattern: Pattern,
    values: Vec<T>,
}

impl<T: Value> Csr<T> {
    /// A matrix of these parts: `starts` has one entry per row and one more, `indices` are the columns. Fails unless
    /// the starts ascend from 0 to the number of values, and the columns ascend strictly within each row and lie
    /// within the matrix.
    pub fn new(
        rows: usize,
        columns: usize,
        starts: Vec<usize>,
        indices: Vec<u32>,
        values: Vec<T>,
    ) -> Result<Csr<T>, TensorError> {
        Csr::from_pattern(Pattern::new(rows, columns, starts, indices)?, values)
    }

    /// A matrix without stored elements. Fails if it is too wide.
    pub fn empty(rows: usize, columns: usize) -> Result<Csr<T>, TensorError> {
        Csr::new(rows, columns, vec![0; rows + 1], Vec::new(), Vec::new())
    }

    /// A matrix of these places and their values, row by row. Fails unless there is one value per place.
    pub fn from_pattern(pattern: Pattern, values: Vec<T>) -> Result<Csr<T>, TensorError> {
        if values.len() != pattern.nnz() {
            return Err(TensorError::Matrix { what: "a sparse matrix takes one value per place" });
        }
        Ok(Csr { pattern, values })
    }

    /// A matrix of sorted coordinates, as a sparse tensor holds them. Fails if they are unsorted, appear twice or lie
    /// outside.
    pub fn from_coordinates(
        rows: usize,
        columns: usize,
        [row_of, column_of]: [&[i64]; 2],
        values: Vec<T>,
    ) -> Result<Csr<T>, TensorError> {
        if row_of.len() != values.len() || column_of.len() != values.len() {
            return Err(TensorError::Matrix { what: "a sparse matrix takes two coordinates per value" });
        }
        let outside = |row, coordinate, axis, size| TensorError::CoordinateOutOfBounds {
            row,
            coordinate,
            axis,
            size: size as u64,
        };
        let mut starts = vec![0usize; rows + 1];
        let mut last = 0;
        for (place, &row) in row_of.iter().enumerate() {
            if row < 0 || row as u64 >= rows as u64 {
                return Err(outside(place, row, 0, rows));
            }
            if row < last {
                return Err(TensorError::Matrix {
                    what: "the coordinates of a sparse matrix are not sorted",
                });
            }
            last = row;
            starts[row as usize + 1] += 1;
        }
        for row in 0..rows {
            starts[row + 1] += starts[row];
        }
        let mut indices = Vec::with_capacity(values.len());
        for (place, &column) in column_of.iter().enumerate() {
            if column < 0 || column as u64 >= columns as u64 {
                return Err(outside(place, column, 1, columns));
            }
            // A column beyond 32 bits belongs to a matrix that `new` refuses.
            indices.push(column as u32);
        }
        Csr::new(rows, columns, starts, indices, values)
    }

    /// The elements of a dense matrix whose bits are not all zero. Fails if it is too wide.
    pub fn from_dense(dense: MatrixRef<'_, T>) -> Result<Csr<T>, TensorError> {
        let mut csr = Csr::empty(dense.rows(), dense.columns())?;
        for row in 0..dense.rows() {
            let mut push = |column: usize, value: T| {
                if !value.is_zero() {
                    csr.pattern.indices.push(column as u32);
                    csr.values.push(value);
                }
            };
            match dense.row(row) {
                Some(line) => {
                    // Most are zero: eight at a time are tested without a branch between them.
                    for (at, values) in line.chunks(8).enumerate() {
                        if !values.iter().fold(true, |all, value| all & value.is_zero()) {
                            values.iter().enumerate().for_each(|(lane, &value)| push(at * 8 + lane, value));
                        }
                    }
                }
                None => (0..dense.columns()).for_each(|column| push(column, dense.at(row, column))),
            }
            csr.pattern.starts[row + 1] = csr.values.len();
        }
        // Growing doubles: what was too much is given back.
        csr.pattern.indices.shrink_to_fit();
        csr.values.shrink_to_fit();
        Ok(csr)
    }

    /// Writes all elements of a dense matrix.
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn to_dense(&self, mut dense: MatrixMut<'_, T>) {
        assert_eq!([dense.rows(), dense.columns()], self.shape(), "a sparse matrix and its dense form");
        dense.fill(T::ZERO);
        for row in 0..self.rows() {
            let (indices, values) = self.row(row);
            match dense.row_mut(row) {
                Some(line) => indices.iter().zip(values).for_each(|(&column, &v)| line[column as usize] = v),
                None => {
                    indices.iter().zip(values).for_each(|(&column, &v)| dense.set(row, column as usize, v))
                }
            }
        }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.pattern.rows
    }

    /// Columns.
    pub fn columns(&self) -> usize {
        self.pattern.columns
    }

    /// Rows and columns.
    pub fn shape(&self) -> [usize; 2] {
        self.pattern.shape()
    }

    /// Stored elements.
    pub fn nnz(&self) -> usize {
        self.values.len()
    }

    /// Stored elements as a share of all; 0 for a matrix without elements.
    pub fn density(&self) -> f64 {
        self.pattern.density()
    }

    /// Memory it takes.
    pub fn size_bytes(&self) -> usize {
        self.pattern.size_bytes() + self.values.capacity() * size_of::<T>()
    }

    /// Which places are stored.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// All stored values, row by row.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// All stored values, to be changed in place.
    pub fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }

    /// Takes it apart.
    pub fn into_parts(self) -> (Pattern, Vec<T>) {
        (self.pattern, self.values)
    }

    /// The columns of a row and their values. Panics outside.
    pub fn row(&self, row: usize) -> (&[u32], &[T]) {
        let places = self.pattern.places(row);
        (&self.pattern.indices[places.clone()], &self.values[places])
    }

    /// The coordinates of all stored elements, rows first, as a sparse tensor holds them.
    pub fn coordinates(&self) -> [Vec<i64>; 2] {
        let mut row_of = Vec::with_capacity(self.nnz());
        for row in 0..self.rows() {
            row_of.extend(std::iter::repeat_n(row as i64, self.pattern.places(row).len()));
        }
        [row_of, self.pattern.indices.iter().map(|&column| i64::from(column)).collect()]
    }

    /// Multiplies every stored value.
    pub fn scale(&mut self, alpha: T) {
        self.values.iter_mut().for_each(|value| *value = alpha.mul(*value));
    }

    /// `C += alpha · A` on a dense matrix.
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn scatter_add(&self, alpha: T, mut c: MatrixMut<'_, T>) {
        assert_eq!([c.rows(), c.columns()], self.shape(), "a sparse matrix and what it is added to");
        let strides = [c.row_stride(), c.column_stride()];
        let first = c.as_mut_ptr();
        for row in 0..self.rows() {
            let (indices, values) = self.row(row);
            for (&column, &value) in indices.iter().zip(values) {
                // SAFETY: the place lies within a matrix of the same shape, which is borrowed exclusively.
                unsafe {
                    let place = first.offset(row as isize * strides[0] + column as isize * strides[1]);
                    *place = (*place).add(alpha.mul(value));
                }
            }
        }
    }

    /// Rows as columns.
    ///
    /// # Panics
    /// If there are more rows than a column index can count.
    pub fn transpose(&self) -> Csr<T> {
        assert!(pattern::fits(self.rows()), "{} rows are too many for columns", self.rows());
        // Counting sort: how many go to each row, where each of them begins, then all in order.
        let mut starts = vec![0usize; self.columns() + 1];
        for &column in &self.pattern.indices {
            starts[column as usize + 1] += 1;
        }
        for column in 0..self.columns() {
            starts[column + 1] += starts[column];
        }
        let mut next = starts.clone();
        let mut indices = vec![0u32; self.nnz()];
        let mut values = vec![T::ZERO; self.nnz()];
        for row in 0..self.rows() {
            let (columns, row_values) = self.row(row);
            for (&column, &value) in columns.iter().zip(row_values) {
                let place = &mut next[column as usize];
                indices[*place] = row as u32;
                values[*place] = value;
                *place += 1;
            }
        }
        let pattern = Pattern { rows: self.columns(), columns: self.rows(), starts, indices };
        Csr { pattern, values }
    }
}

/// The density of a product of two matrices with nonzeros in random places, `k` being the inner extent.
pub fn estimate_density(a: f64, b: f64, k: usize) -> f64 {
    // 1 - (1 - ab)^k, without losing the digits of a small ab.
    -((k as f64) * (-(a * b).clamp(0.0, 1.0)).ln_1p()).exp_m1()
}
