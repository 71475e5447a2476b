//! Pieces of sparse matrices, sparse matrices of pieces, and sums along their rows and columns.

use super::{Csr, Pattern, Value};
use crate::error::TensorError;
use crate::op::BinaryOp;
use std::ops::Range;

impl<T: Value> Csr<T> {
    /// Some rows and columns.
    ///
    /// # Panics
    /// If they lie outside.
    pub fn slice(&self, rows: Range<usize>, columns: Range<usize>) -> Csr<T> {
        assert!(rows.start <= rows.end && rows.end <= self.rows(), "rows {rows:?} are outside");
        assert!(
            columns.start <= columns.end && columns.end <= self.columns(),
            "columns {columns:?} are outside"
        );
        let shape = [rows.len(), columns.len()];
        let places = self.pattern.starts[rows.start]..self.pattern.starts[rows.end];
        if shape[1] == self.columns() {
            let starts = self.pattern.starts[rows.start..=rows.end].iter().map(|start| start - places.start);
            let pattern = Pattern {
                rows: shape[0],
                columns: shape[1],
                starts: starts.collect(),
                indices: self.pattern.indices[places.clone()].to_vec(),
            };
            return Csr { pattern, values: self.values[places].to_vec() };
        }
        let expected = places.len() as f64 * shape[1] as f64 / self.columns() as f64;
        let mut indices = Vec::with_capacity(expected as usize);
        let mut values = Vec::with_capacity(expected as usize);
        let mut starts = Vec::with_capacity(shape[0] + 1);
        starts.push(0);
        for row in rows {
            let (row_indices, row_values) = self.row(row);
            let from = row_indices.partition_point(|&column| (column as usize) < columns.start);
            let to = from + row_indices[from..].partition_point(|&column| (column as usize) < columns.end);
            indices.extend(row_indices[from..to].iter().map(|column| column - columns.start as u32));
            values.extend_from_slice(&row_values[from..to]);
            starts.push(indices.len());
        }
        Csr { pattern: Pattern { rows: shape[0], columns: shape[1], starts, indices }, values }
    }

    /// One matrix of many, which form a grid: row by row, `across` of them in each. Fails unless their edges meet.
    pub fn assemble(parts: &[&Csr<T>], across: usize) -> Result<Csr<T>, TensorError> {
        if parts.is_empty() || across == 0 || !parts.len().is_multiple_of(across) {
            return Err(TensorError::Matrix { what: "the parts of a sparse matrix do not form a grid" });
        }
        let widths = || parts[..across].iter().map(|part| part.columns());
        let fits = |bands: &[&Csr<T>]| {
            bands.iter().zip(widths()).all(|(part, width)| part.shape() == [bands[0].rows(), width])
        };
        if !parts.chunks(across).all(fits) {
            return Err(TensorError::Matrix {
                what: "the edges of the parts of a sparse matrix do not meet",
            });
        }
        let rows = parts.iter().step_by(across).map(|part| part.rows()).sum();
        let columns = widths().sum();
        if !super::pattern::fits(columns) {
            return Err(TensorError::Matrix { what: "a sparse matrix has at most 2^32 columns" });
        }
        let nnz = parts.iter().map(|part| part.nnz()).sum();
        let (mut indices, mut values) = (Vec::with_capacity(nnz), Vec::with_capacity(nnz));
        let mut starts = Vec::with_capacity(rows + 1);
        starts.push(0);
        for band in parts.chunks(across) {
            for row in 0..band[0].rows() {
                let mut first = 0;
                for part in band {
                    let (row_indices, row_values) = part.row(row);
                    indices.extend(row_indices.iter().map(|&column| (first + column as usize) as u32));
                    values.extend_from_slice(row_values);
                    first += part.columns();
                }
                starts.push(indices.len());
            }
        }
        Ok(Csr { pattern: Pattern { rows, columns, starts, indices }, values })
    }

    /// Joins each row to one value, the zeros that are not stored included: they count for min, max and products.
    ///
    /// # Panics
    /// If `op` has no identity.
    pub fn reduce_rows(&self, op: BinaryOp) -> Vec<T> {
        let mut results: Vec<T> = vec![identity(op); self.rows()];
        for (row, result) in results.iter_mut().enumerate() {
            let values = self.row(row).1;
            *result = match op {
                BinaryOp::Add => values.iter().fold(*result, |sum, &value| sum.add(value)),
                _ => values.iter().fold(*result, |sum, &value| sum.binary(op, value)),
            };
            with_zeros(op, result, values.len(), self.columns());
        }
        results
    }

    /// Joins each column to one value, see [`Csr::reduce_rows`].
    ///
    /// # Panics
    /// If `op` has no identity.
    pub fn reduce_columns(&self, op: BinaryOp) -> Vec<T> {
        let mut results: Vec<T> = vec![identity(op); self.columns()];
        let places = self.pattern.indices.iter().zip(&self.values);
        if op == BinaryOp::Add {
            for (&column, &value) in places {
                let sum = &mut results[column as usize];
                *sum = sum.add(value);
            }
            return results;
        }
        let mut counts = vec![0usize; self.columns()];
        for (&column, &value) in places {
            let result = &mut results[column as usize];
            *result = result.binary(op, value);
            counts[column as usize] += 1;
        }
        for (result, &count) in results.iter_mut().zip(&counts) {
            with_zeros(op, result, count, self.rows());
        }
        results
    }
}

fn identity<T: Value>(op: BinaryOp) -> T {
    T::from_scalar(op.identity(T::DTYPE).expect("a reduction has an identity"))
}

/// One zero stands for all: none changes a sum, and the other operations give the same for one as for many.
fn with_zeros<T: Value>(op: BinaryOp, result: &mut T, stored: usize, all: usize) {
    if stored < all && op != BinaryOp::Add {
        *result = result.binary(op, T::ZERO);
    }
}
