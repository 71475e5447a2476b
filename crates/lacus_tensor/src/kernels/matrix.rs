//! Matrices in somebody's memory, with any strides: what the matrix kernels take.
//!
//! ```
//! use lacus_tensor::kernels::matrix::MatrixRef;
//! let rows = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
//! let matrix = MatrixRef::from_rows(&rows, 2, 3)?;
//! assert_eq!(matrix.transposed().at(2, 1), 6.0);
//! # Ok::<(), lacus_tensor::TensorError>(())
//! ```

use crate::error::TensorError;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A matrix that is read.
#[derive(Clone, Copy, Debug)]
pub struct MatrixRef<'a, T> {
    first: NonNull<T>,
    rows: usize,
    columns: usize,
    row_stride: isize,
    column_stride: isize,
    memory: PhantomData<&'a T>,
}

/// A matrix that is written.
#[derive(Debug)]
pub struct MatrixMut<'a, T> {
    first: NonNull<T>,
    rows: usize,
    columns: usize,
    row_stride: isize,
    column_stride: isize,
    memory: PhantomData<&'a mut T>,
}

// SAFETY: a shared borrow of elements, which may be read from any thread.
unsafe impl<T: Sync> Send for MatrixRef<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for MatrixRef<'_, T> {}
// SAFETY: an exclusive borrow of elements, which may be moved to any thread.
unsafe impl<T: Send> Send for MatrixMut<'_, T> {}

impl<'a, T: Copy> MatrixRef<'a, T> {
    /// A matrix within a slice: element (i, j) is at `offset + i * row_stride + j * column_stride`. Fails if one of them
    /// lies outside.
    pub fn new(
        memory: &'a [T],
        offset: usize,
        [rows, columns]: [usize; 2],
        [row_stride, column_stride]: [isize; 2],
    ) -> Result<MatrixRef<'a, T>, TensorError> {
        check(memory.len(), offset, [rows, columns], [row_stride, column_stride])?;
        // Of a matrix without elements nothing is read.
        let offset = if rows == 0 || columns == 0 { 0 } else { offset };
        // SAFETY: the first element lies within the slice.
        let first = unsafe { NonNull::new_unchecked(memory.as_ptr().cast_mut().add(offset)) };
        Ok(MatrixRef { first, rows, columns, row_stride, column_stride, memory: PhantomData })
    }

    /// A matrix whose rows follow one another. Fails if the slice is shorter.
    pub fn from_rows(memory: &'a [T], rows: usize, columns: usize) -> Result<MatrixRef<'a, T>, TensorError> {
        MatrixRef::new(memory, 0, [rows, columns], [columns as isize, 1])
    }

    /// A matrix anywhere.
    ///
    /// # Safety
    /// All elements are readable for as long as `'a`, and nobody writes to them.
    pub unsafe fn from_raw(
        first: NonNull<T>,
        [rows, columns]: [usize; 2],
        [row_stride, column_stride]: [isize; 2],
    ) -> MatrixRef<'a, T> {
        MatrixRef { first, rows, columns, row_stride, column_stride, memory: PhantomData }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Elements from one row to the next.
    pub fn row_stride(&self) -> isize {
        self.row_stride
    }

    /// Elements from one column to the next.
    pub fn column_stride(&self) -> isize {
        self.column_stride
    }

    /// Where its first element is.
    pub fn as_ptr(&self) -> *const T {
        self.first.as_ptr()
    }

    /// Rows as columns. Nothing is copied.
    pub fn transposed(self) -> MatrixRef<'a, T> {
        MatrixRef {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// An element. Panics outside.
    pub fn at(&self, row: usize, column: usize) -> T {
        assert!(row < self.rows && column < self.columns, "({row}, {column}) is outside");
        let offset = row as isize * self.row_stride + column as isize * self.column_stride;
        // SAFETY: the constructor promised every element.
        unsafe { *self.first.as_ptr().offset(offset) }
    }

    /// A row whose elements lie side by side; `None` if they do not. Panics outside.
    pub fn row(&self, row: usize) -> Option<&'a [T]> {
        assert!(row < self.rows, "row {row} is outside");
        if self.column_stride != 1 && self.columns > 1 {
            return None;
        }
        // SAFETY: these are elements of the matrix, side by side.
        Some(unsafe {
            std::slice::from_raw_parts(
                self.first.as_ptr().offset(row as isize * self.row_stride),
                self.columns,
            )
        })
    }
}

impl<'a, T: Copy> MatrixMut<'a, T> {
    /// The rows above one, and the others. Panics if there are not that many.
    pub fn split_at_row(self, row: usize) -> (MatrixMut<'a, T>, MatrixMut<'a, T>) {
        assert!(row <= self.rows, "row {row} is outside");
        let below = self.first.as_ptr().wrapping_offset(row as isize * self.row_stride);
        // SAFETY: an address within the matrix or, if it has no rows, one that is not looked at.
        let below = unsafe { NonNull::new_unchecked(below) };
        let rest = MatrixMut { first: below, rows: self.rows - row, ..self };
        (MatrixMut { rows: row, ..self }, rest)
    }

    /// A matrix within a slice, see [`MatrixRef::new`]. Fails if an element lies outside, or if two are the same.
    pub fn new(
        memory: &'a mut [T],
        offset: usize,
        [rows, columns]: [usize; 2],
        [row_stride, column_stride]: [isize; 2],
    ) -> Result<MatrixMut<'a, T>, TensorError> {
        check(memory.len(), offset, [rows, columns], [row_stride, column_stride])?;
        let (r, c) = (row_stride.unsigned_abs(), column_stride.unsigned_abs());
        let is_apart = rows <= 1 && (columns <= 1 || c > 0)
            || columns <= 1 && r > 0
            || c > 0 && r >= columns.saturating_mul(c)
            || r > 0 && c >= rows.saturating_mul(r);
        if !is_apart && rows > 0 && columns > 0 {
            return Err(TensorError::Matrix {
                what: "elements of a matrix that is written lie on each other",
            });
        }
        let offset = if rows == 0 || columns == 0 { 0 } else { offset };
        // SAFETY: the first element lies within the slice.
        let first = unsafe { NonNull::new_unchecked(memory.as_mut_ptr().add(offset)) };
        Ok(MatrixMut { first, rows, columns, row_stride, column_stride, memory: PhantomData })
    }

    /// A matrix whose rows follow one another. Fails if the slice is shorter.
    pub fn from_rows(
        memory: &'a mut [T],
        rows: usize,
        columns: usize,
    ) -> Result<MatrixMut<'a, T>, TensorError> {
        MatrixMut::new(memory, 0, [rows, columns], [columns as isize, 1])
    }

    /// A matrix anywhere.
    ///
    /// # Safety
    /// All elements are writable for as long as `'a`, no two are the same, and nobody else reads or writes them.
    pub unsafe fn from_raw(
        first: NonNull<T>,
        [rows, columns]: [usize; 2],
        [row_stride, column_stride]: [isize; 2],
    ) -> MatrixMut<'a, T> {
        MatrixMut { first, rows, columns, row_stride, column_stride, memory: PhantomData }
    }

    /// The same matrix, borrowed to be read.
    pub fn as_ref(&self) -> MatrixRef<'_, T> {
        MatrixRef {
            first: self.first,
            rows: self.rows,
            columns: self.columns,
            row_stride: self.row_stride,
            column_stride: self.column_stride,
            memory: PhantomData,
        }
    }

    /// The same matrix, borrowed for a shorter time.
    pub fn reborrow(&mut self) -> MatrixMut<'_, T> {
        MatrixMut { memory: PhantomData, ..*self }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Elements from one row to the next.
    pub fn row_stride(&self) -> isize {
        self.row_stride
    }

    /// Elements from one column to the next.
    pub fn column_stride(&self) -> isize {
        self.column_stride
    }

    /// Where its first element is.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.first.as_ptr()
    }

    /// Rows as columns. Nothing is copied.
    pub fn transposed(self) -> MatrixMut<'a, T> {
        MatrixMut {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// Writes an element. Panics outside.
    pub fn set(&mut self, row: usize, column: usize, value: T) {
        assert!(row < self.rows && column < self.columns, "({row}, {column}) is outside");
        let offset = row as isize * self.row_stride + column as isize * self.column_stride;
        // SAFETY: the constructor promised every element.
        unsafe { *self.first.as_ptr().offset(offset) = value }
    }

    /// A row whose elements lie side by side; `None` if they do not. Panics outside.
    pub fn row_mut(&mut self, row: usize) -> Option<&mut [T]> {
        assert!(row < self.rows, "row {row} is outside");
        if self.column_stride != 1 && self.columns > 1 {
            return None;
        }
        // SAFETY: these are elements of the matrix, side by side, and the borrow of the matrix is exclusive.
        Some(unsafe {
            std::slice::from_raw_parts_mut(
                self.first.as_ptr().offset(row as isize * self.row_stride),
                self.columns,
            )
        })
    }

    /// Writes the same value everywhere.
    pub fn fill(&mut self, value: T) {
        for row in 0..self.rows {
            match self.row_mut(row) {
                Some(row) => row.fill(value),
                None => (0..self.columns).for_each(|column| self.set(row, column, value)),
            }
        }
    }
}

fn check(
    len: usize,
    offset: usize,
    [rows, columns]: [usize; 2],
    [row_stride, column_stride]: [isize; 2],
) -> Result<(), TensorError> {
    if rows == 0 || columns == 0 {
        return Ok(());
    }
    let reach = |count: usize, stride: isize| (count as i128 - 1) * stride as i128;
    let ends = [reach(rows, row_stride), reach(columns, column_stride)];
    let low = offset as i128 + ends.iter().map(|&end| end.min(0)).sum::<i128>();
    let high = offset as i128 + ends.iter().map(|&end| end.max(0)).sum::<i128>();
    if low < 0 || high >= len as i128 {
        return Err(TensorError::Matrix { what: "a matrix reaches beyond its memory" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_stay_within_their_memory() {
        let mut memory = [0.0f64; 12];
        assert!(MatrixRef::new(&memory, 0, [3, 4], [4, 1]).is_ok());
        assert!(MatrixRef::new(&memory, 11, [3, 4], [-4, -1]).is_ok());
        assert!(MatrixRef::new(&memory, 0, [3, 4], [0, 1]).is_ok());
        assert!(MatrixRef::new(&memory, 1, [3, 4], [4, 1]).is_err());
        assert!(MatrixRef::new(&memory, 0, [3, 4], [-4, 1]).is_err());
        assert!(MatrixRef::new(&memory, 99, [0, 4], [4, 1]).is_ok());
        assert!(MatrixMut::new(&mut memory, 0, [3, 4], [0, 1]).is_err());
        assert!(MatrixMut::new(&mut memory, 0, [3, 4], [1, 3]).is_ok());
        assert!(MatrixMut::new(&mut memory, 0, [3, 4], [1, 2]).is_err());
        let mut matrix = MatrixMut::from_rows(&mut memory, 3, 4).unwrap();
        matrix.set(1, 2, 5.0);
        assert_eq!(matrix.transposed().as_ref().at(2, 1), 5.0);
    }
}
