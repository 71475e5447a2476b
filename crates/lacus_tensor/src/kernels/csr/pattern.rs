//! Which places of a matrix are stored, without their values.
//!
//! A formula over sparse operands runs on the places of one pattern: unite or intersect the operands' patterns, gather
//! each operand there, run the formula over the gathered values as if they were a vector, and put the result back.
//!
//! ```
//! use lacus_tensor::kernels::csr::{Csr, Pattern};
//! let a = Csr::new(1, 4, vec![0, 2], vec![0, 2], vec![1.0, 2.0])?;
//! let b = Csr::new(1, 4, vec![0, 2], vec![2, 3], vec![5.0, 7.0])?;
//! let places = Pattern::union(&[a.pattern(), b.pattern()]);
//! let (x, y) = (a.gather(&places), b.gather(&places));
//! let smaller = x.iter().zip(&y).map(|(x, y)| x - y).collect();
//! assert_eq!(Csr::from_pattern(places, smaller)?.row(0), (&[0, 2, 3][..], &[1.0, -3.0, -7.0][..]));
//! # Ok::<(), lacus_tensor::TensorError>(())
//! ```

use super::{Csr, Value};
use crate::error::TensorError;
use crate::kernels::matrix::MatrixRef;
use std::ops::Range;

/// Places of a matrix, row by row, ascending within each row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Ascending, one more than there are rows, from 0 to the number of indices.
    pub(super) starts: Vec<usize>,
    /// Columns: ascending strictly within a row, below `columns`. Unsafe code relies on it.
    pub(super) indices: Vec<u32>,
}

/// True when so many columns can be counted by an index.
pub(super) fn fits(columns: usize) -> bool {
    columns as u64 <= 1 << 32
}

impl Pattern {
    /// A pattern of these parts, see [`Csr::new`].
    pub fn new(
        rows: usize,
        columns: usize,
        starts: Vec<usize>,
        indices: Vec<u32>,
    ) -> Result<Pattern, TensorError> {
        let fail = |what| Err(TensorError::Matrix { what });
        if !fits(columns) {
            return fail("a sparse matrix has at most 2^32 columns");
        }
        if starts.len() != rows + 1 || starts[0] != 0 || starts[rows] != indices.len() {
            return fail("the rows of a sparse matrix do not add up to its elements");
        }
        if !starts.is_sorted() {
            return fail("the rows of a sparse matrix do not follow one another");
        }
        for row in starts.windows(2) {
            let row = &indices[row[0]..row[1]];
            if !row.is_sorted_by(|a, b| a < b) {
                return fail("the columns within a row of a sparse matrix do not ascend");
            }
            if row.last().is_some_and(|&last| last as usize >= columns) {
                return fail("a column of a sparse matrix lies outside");
            }
        }
        Ok(Pattern { rows, columns, starts, indices })
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Rows and columns.
    pub fn shape(&self) -> [usize; 2] {
        [self.rows, self.columns]
    }

    /// Places.
    pub fn nnz(&self) -> usize {
        self.indices.len()
    }

    /// Places as a share of all; 0 for a matrix without elements.
    pub fn density(&self) -> f64 {
        let elements = self.rows as f64 * self.columns as f64;
        if elements == 0.0 { 0.0 } else { self.nnz() as f64 / elements }
    }

    /// Memory it takes.
    pub fn size_bytes(&self) -> usize {
        self.starts.capacity() * size_of::<usize>() + self.indices.capacity() * size_of::<u32>()
    }

    /// Where each row begins among all places, and where the last one ends.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// The columns of all places, row by row.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// Which of all places belong to a row. Panics outside.
    pub fn places(&self, row: usize) -> Range<usize> {
        self.starts[row]..self.starts[row + 1]
    }

    /// The columns of a row. Panics outside.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.indices[self.places(row)]
    }

    /// The places that are in one of these patterns.
    ///
    /// # Panics
    /// If there are none, or if their shapes differ.
    pub fn union(patterns: &[&Pattern]) -> Pattern {
        fold(patterns, |a, b, out| {
            let (mut x, mut y) = (0, 0);
            while x < a.len() && y < b.len() {
                let (i, j) = (a[x], b[y]);
                out.push(i.min(j));
                x += usize::from(i <= j);
                y += usize::from(j <= i);
            }
            out.extend_from_slice(&a[x..]);
            out.extend_from_slice(&b[y..]);
        })
    }

    /// The places that are in all of these patterns.
    ///
    /// # Panics
    /// If there are none, or if their shapes differ.
    pub fn intersection(patterns: &[&Pattern]) -> Pattern {
        fold(patterns, |a, b, out| {
            let (mut x, mut y) = (0, 0);
            while x < a.len() && y < b.len() {
                let (i, j) = (a[x], b[y]);
                if i == j {
                    out.push(i);
                }
                x += usize::from(i <= j);
                y += usize::from(j <= i);
            }
        })
    }

    /// The values of a dense matrix at these places. A matrix with a stride of zero spreads a row or a column over all
    /// of them.
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn gather_dense<T: Value>(&self, dense: MatrixRef<'_, T>) -> Vec<T> {
        assert_eq!([dense.rows(), dense.columns()], self.shape(), "a pattern and the matrix it gathers from");
        let mut values = Vec::with_capacity(self.nnz());
        for row in 0..self.rows {
            let columns = self.row(row).iter();
            match dense.row(row) {
                Some(line) => values.extend(columns.map(|&column| line[column as usize])),
                None => values.extend(columns.map(|&column| dense.at(row, column as usize))),
            }
        }
        values
    }
}

impl<T: Value> Csr<T> {
    /// The values at the places of any pattern of the same shape; zero where nothing is stored.
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn gather(&self, pattern: &Pattern) -> Vec<T> {
        assert_eq!(pattern.shape(), self.shape(), "a pattern and the matrix it gathers from");
        if *pattern == self.pattern {
            return self.values.clone();
        }
        let mut gathered = vec![T::ZERO; pattern.nnz()];
        for row in 0..self.rows() {
            let (indices, values) = self.row(row);
            let (mut x, mut y) = (0, 0);
            let wanted = pattern.row(row);
            let gathered = &mut gathered[pattern.places(row)];
            while x < indices.len() && y < wanted.len() {
                let (i, j) = (indices[x], wanted[y]);
                if i == j {
                    gathered[y] = values[x];
                }
                x += usize::from(i <= j);
                y += usize::from(j <= i);
            }
        }
        gathered
    }
}

/// Joins the rows of all patterns, two at a time.
fn fold(patterns: &[&Pattern], join: impl Fn(&[u32], &[u32], &mut Vec<u32>)) -> Pattern {
    let (first, rest) = patterns.split_first().expect("at least one pattern to join");
    let mut result = (*first).clone();
    for pattern in rest {
        assert_eq!(pattern.shape(), result.shape(), "patterns that are joined");
        if **pattern == result {
            continue;
        }
        let mut starts = Vec::with_capacity(result.rows + 1);
        starts.push(0);
        let mut indices = Vec::with_capacity(result.nnz().max(pattern.nnz()));
        for row in 0..result.rows {
            join(result.row(row), pattern.row(row), &mut indices);
            starts.push(indices.len());
        }
        result = Pattern { starts, indices, ..result };
    }
    result
}
