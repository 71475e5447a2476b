//! The dimensions of a tensor: at most [`MAX_RANK`] of them, held inline so that a shape clones
//! without an allocation.

use crate::dtype::DType;
use crate::error::TensorError;
use std::fmt;

/// The most axes a tensor can have. Chunk rows have one coordinate column per axis, all of them
/// there from the start, so the number is part of the stored format.
pub const MAX_RANK: usize = 16;

/// The size of each axis, outermost first. The default is the shape of a scalar, `()`.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape {
    rank: u8,
    /// Zero beyond `rank`, so that equality and hashing can be derived.
    dims: [u64; MAX_RANK],
}

impl Shape {
    /// A shape of these dimensions. Fails if there are more than [`MAX_RANK`], or if one exceeds `i64::MAX`.
    pub fn new(dims: impl Into<Vec<u64>>) -> Result<Shape, TensorError> {
        Shape::from_dims(&dims.into())
    }

    pub(crate) fn from_dims(dims: &[u64]) -> Result<Shape, TensorError> {
        if dims.len() > MAX_RANK {
            return Err(TensorError::TooManyAxes { rank: dims.len() });
        }
        if let Some(axis) = dims.iter().position(|&size| size > i64::MAX as u64) {
            return Err(TensorError::AxisTooLong { axis, size: dims[axis] });
        }
        let mut all = [0; MAX_RANK];
        all[..dims.len()].copy_from_slice(dims);
        Ok(Shape { rank: dims.len() as u8, dims: all })
    }

    /// The size of each axis.
    pub fn dims(&self) -> &[u64] {
        &self.dims[..self.rank()]
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        usize::from(self.rank)
    }

    /// The number of elements: 1 for a scalar, 0 when any axis is empty, `None` when it exceeds `u64`.
    pub fn elements(&self) -> Option<u64> {
        if self.dims().contains(&0) {
            return Some(0);
        }
        self.dims().iter().try_fold(1u64, |product, &size| product.checked_mul(size))
    }

    /// The number of elements, or `u64::MAX` when there are more.
    pub fn elements_saturating(&self) -> u64 {
        self.elements().unwrap_or(u64::MAX)
    }

    /// The bytes of a dense tensor of this shape. Fails if they cannot be addressed.
    pub fn byte_len(&self, dtype: DType) -> Result<usize, TensorError> {
        self.elements()
            .and_then(|elements| elements.checked_mul(dtype.size_bytes() as u64))
            .filter(|&bytes| bytes <= isize::MAX as u64)
            .map(|bytes| bytes as usize)
            .ok_or_else(|| TensorError::TooManyBytes { dtype, shape: Box::new(self.clone()) })
    }

    /// How many elements apart neighbours on each axis are in C order. Only meaningful when
    /// [`elements`](Shape::elements) is some number (else the outer strides saturate).
    pub fn strides_elements(&self) -> Vec<u64> {
        let mut strides = vec![1; self.rank()];
        for axis in (1..self.rank()).rev() {
            strides[axis - 1] = u64::saturating_mul(strides[axis], self.dims[axis].max(1));
        }
        strides
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (axis, size) in self.dims().iter().enumerate() {
            f.write_str(if axis == 0 { "" } else { ", " })?;
            write!(f, "{size}")?;
        }
        f.write_str(if self.rank == 1 { ",)" } else { ")" })
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shape{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_strides_and_text() {
        let check = |dims: &[u64], elements, strides: &[u64], text: &str| {
            let shape = Shape::new(dims).unwrap();
            assert_eq!(shape.elements(), elements);
            assert_eq!(shape.strides_elements(), strides);
            assert_eq!(shape.to_string(), text);
        };
        check(&[], Some(1), &[], "()");
        check(&[3], Some(3), &[1], "(3,)");
        check(&[91, 24, 887], Some(1_937_208), &[21_288, 887, 1], "(91, 24, 887)");
        check(&[1 << 40, 0, 1 << 40], Some(0), &[1 << 40, 1 << 40, 1], "(1099511627776, 0, 1099511627776)");
        check(&[1 << 40, 1 << 40], None, &[1 << 40, 1], "(1099511627776, 1099511627776)");
    }

    #[test]
    fn limits_are_checked() {
        assert_eq!(Shape::new([1; 17]), Err(TensorError::TooManyAxes { rank: 17 }));
        assert!(Shape::new([1; 16]).is_ok());
        let long = 1 << 63;
        assert_eq!(Shape::new([3, long]), Err(TensorError::AxisTooLong { axis: 1, size: long }));
        let large = Shape::new([long - 1]).unwrap();
        assert_eq!(large.byte_len(DType::U8), Ok(isize::MAX as usize));
        assert!(large.byte_len(DType::U16).is_err());
        assert!(Shape::new([1 << 40, 1 << 40]).unwrap().byte_len(DType::U8).is_err());
        assert_eq!(Shape::default().byte_len(DType::C128), Ok(16));
    }
}
