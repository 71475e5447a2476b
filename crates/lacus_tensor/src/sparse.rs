//! Sparse tensors: the coordinates and values of the elements that are stored; all others are zero.
//!
//! Coordinates are held axis by axis, sorted in C order, each at most once. What is stored stays stored: an
//! explicit zero, a negative zero, a NaN keep their bits.
//!
//! ```text
//! shape (3, 4)      . 7 . .        axis 0:   0   1   2   2        coords: [0 1 2 2 | 1 3 0 2]
//!                   . . . 8        axis 1:   1   3   0   2        values: [7 8 9 6]
//!                   9 . 6 .
//! ```
//!
//! ```
//! use lacus_tensor::{Buffer, DType, Duplicates, Shape, SparseTensor};
//! let coords = Buffer::from_elements::<i64>(&[2, 0, 2, 1, 0, 1, 2, 3]);
//! let values = Buffer::from_slice(&[9, 7, 6, 8]);
//! let sparse = SparseTensor::new(DType::U8, Shape::new([3, 4])?, coords, values, Duplicates::Refuse)?;
//! assert_eq!((sparse.axis(0), sparse.axis(1)), (&[0, 1, 2, 2][..], &[1, 3, 0, 2][..]));
//! assert_eq!(sparse.to_dense()?.bytes(), [0, 7, 0, 0, 0, 0, 0, 8, 9, 0, 6, 0]);
//! # Ok::<(), lacus_tensor::TensorError>(())
//! ```

mod convert;
mod items;
mod order;
mod select;

use crate::buffer::Buffer;
use crate::dtype::DType;
use crate::error::TensorError;
use crate::shape::Shape;
use order::Order;

pub use convert::count_nonzero;

/// What to do with coordinates that appear more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// Fail.
    Refuse,
    /// Add their values in the order given: integers wrap, booleans are or-ed.
    Sum,
}

/// A sparse tensor: sorted, unique coordinates and their values. Equality is bitwise, explicit zeros count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SparseTensor {
    dtype: DType,
    shape: Shape,
    /// `i64`, axis by axis.
    coords: Buffer,
    values: Buffer,
}

impl SparseTensor {
    /// A sparse tensor of these nonzeros in any order. `coords` holds `i64` axis by axis (all coordinates on
    /// axis 0, then all on axis 1, …), `values` one element per nonzero.
    ///
    /// Fails if the lengths disagree, if a coordinate lies outside of the shape, and on duplicates unless
    /// they are to be summed. Takes the buffers as they are when they are sorted already.
    pub fn new(
        dtype: DType,
        shape: Shape,
        coords: Buffer,
        values: Buffer,
        duplicates: Duplicates,
    ) -> Result<SparseTensor, TensorError> {
        let item_bytes = dtype.size_bytes();
        let nnz = values.len() / item_bytes;
        if !values.len().is_multiple_of(item_bytes) {
            let expected = nnz * item_bytes;
            return Err(TensorError::WrongLength {
                what: "the buffer of values",
                expected,
                found: values.len(),
            });
        }
        let expected = nnz.saturating_mul(shape.rank() * size_of::<i64>());
        if coords.len() != expected {
            return Err(TensorError::WrongLength {
                what: "the buffer of coordinates",
                expected,
                found: coords.len(),
            });
        }
        let order = order::check(&shape, coords.cast(), nnz)?;
        if let Some(elements) = shape.elements().filter(|&elements| elements < nnz as u64)
            && duplicates == Duplicates::Refuse
        {
            return Err(TensorError::TooManyNonzeros { nnz, elements, shape: Box::new(shape) });
        }
        let mut sparse = SparseTensor { dtype, shape, coords, values };
        if order == Order::Unsorted {
            sparse.sort();
        }
        if order != Order::Strict {
            sparse.join_duplicates(duplicates)?;
        }
        Ok(sparse)
    }

    /// Takes coordinates that the caller knows to be inside of the shape, sorted in C order and unique;
    /// checked only in debug builds.
    ///
    /// # Panics
    /// If the lengths of `coords` and `values` disagree.
    pub fn from_sorted(dtype: DType, shape: Shape, coords: Buffer, values: Buffer) -> SparseTensor {
        let nnz = values.len() / dtype.size_bytes();
        assert_eq!(values.len(), nnz * dtype.size_bytes(), "the values are whole elements");
        assert_eq!(coords.len(), nnz * shape.rank() * size_of::<i64>(), "one coordinate per axis and value");
        debug_assert_eq!(order::check(&shape, coords.cast(), nnz), Ok(Order::Strict));
        SparseTensor { dtype, shape, coords, values }
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How many elements are stored.
    pub fn nnz(&self) -> usize {
        self.values.len() / self.dtype.size_bytes()
    }

    /// The coordinates of the stored elements on axis `k`.
    ///
    /// # Panics
    /// If there is no such axis.
    pub fn axis(&self, k: usize) -> &[i64] {
        assert!(k < self.shape.rank(), "axis {k} of a tensor of shape {}", self.shape);
        let nnz = self.nnz();
        &self.coords.cast()[k * nnz..(k + 1) * nnz]
    }

    /// All coordinates: `i64`, axis by axis.
    pub fn coords(&self) -> &Buffer {
        &self.coords
    }

    /// The stored elements' bytes.
    pub fn values(&self) -> &Buffer {
        &self.values
    }

    /// Gives the memory away: coordinates and values.
    pub fn into_parts(self) -> (Buffer, Buffer) {
        (self.coords, self.values)
    }

    /// Sorts by coordinates; equal ones stay in order.
    fn sort(&mut self) {
        let (coords, rows) = order::sorted(&self.shape, self.coords.cast(), self.nnz());
        self.values = items::pick(&self.values, self.dtype.size_bytes(), &rows);
        self.coords = coords;
    }

    /// Leaves one of each, when sorted.
    fn join_duplicates(&mut self, duplicates: Duplicates) -> Result<(), TensorError> {
        let nnz = self.nnz();
        let repeats = |row: usize| {
            row > 0 && (0..self.shape.rank()).all(|axis| self.axis(axis)[row] == self.axis(axis)[row - 1])
        };
        let firsts: Vec<usize> = (0..nnz).filter(|&row| !repeats(row)).collect();
        if firsts.len() == nnz {
            return Ok(());
        }
        if duplicates == Duplicates::Refuse {
            let row = (0..nnz).find(|&row| repeats(row)).unwrap_or(0);
            let coordinates = (0..self.shape.rank()).map(|axis| self.axis(axis)[row]).collect();
            return Err(TensorError::DuplicateCoordinates { coordinates });
        }
        self.values = items::sum_runs(self.dtype, &self.values, &firsts);
        self.coords = order::pick_coords(self.coords.cast(), nnz, &firsts);
        Ok(())
    }
}
