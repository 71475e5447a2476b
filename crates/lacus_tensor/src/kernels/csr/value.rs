//! Which elements sparse matrices hold, and what sum and product mean for them.

use crate::dtype::DType;
use crate::op::BinaryOp;
use crate::scalar::Scalar;
use std::fmt::Debug;

/// An element of a sparse matrix: a float, an integer whose arithmetic wraps, or a truth value as a byte (0 or 1),
/// whose sum is "or" and whose product is "and".
pub trait Value: sealed::Sealed + Copy + Debug + PartialEq + Send + Sync + 'static {
    /// What is not stored.
    const ZERO: Self;
    /// What changes nothing in a product.
    const ONE: Self;
    /// Its type.
    const DTYPE: DType;

    /// The sum.
    fn add(self, other: Self) -> Self;
    /// The product.
    fn mul(self, other: Self) -> Self;
    /// The smaller one; NaN when one is.
    fn lesser(self, other: Self) -> Self;
    /// The larger one; NaN when one is.
    fn greater(self, other: Self) -> Self;
    /// Any operation, its result as an element of the same type.
    fn binary(self, op: BinaryOp, other: Self) -> Self;
    /// True when all bits are zero: a negative zero is an element worth storing.
    fn is_zero(self) -> bool;
    /// As a scalar.
    fn to_scalar(self) -> Scalar;
    /// The nearest element to a scalar.
    fn from_scalar(scalar: Scalar) -> Self;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for i64 {}
    impl Sealed for u8 {}
}

macro_rules! value {
    ($type:ty, $variant:ident, $dtype:ident, $zero:expr, $one:expr, $add:expr, $mul:expr, $bits:expr,
     $to:expr, $from:expr) => {
        impl Value for $type {
            const ZERO: Self = $zero;
            const ONE: Self = $one;
            const DTYPE: DType = DType::$dtype;

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                $add(self, other)
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                $mul(self, other)
            }

            // The first one if it is NaN, as scalars have it.
            #[inline(always)]
            fn lesser(self, other: Self) -> Self {
                if self != self || self < other { self } else { other }
            }

            #[inline(always)]
            fn greater(self, other: Self) -> Self {
                if self != self || self > other { self } else { other }
            }

            fn binary(self, op: BinaryOp, other: Self) -> Self {
                match op {
                    BinaryOp::Add => self.add(other),
                    BinaryOp::Mul => self.mul(other),
                    BinaryOp::Min => self.lesser(other),
                    BinaryOp::Max => self.greater(other),
                    _ => Self::from_scalar(self.to_scalar().binary(op, other.to_scalar())),
                }
            }

            #[inline(always)]
            fn is_zero(self) -> bool {
                $bits(self) == 0
            }

            fn to_scalar(self) -> Scalar {
                Scalar::$variant($to(self))
            }

            fn from_scalar(scalar: Scalar) -> Self {
                match scalar.convert(DType::$dtype) {
                    Scalar::$variant(x) => $from(x),
                    _ => unreachable!("a scalar converts to the type asked for"),
                }
            }
        }
    };
}

value!(f32, F32, F32, 0.0, 1.0, |a, b| a + b, |a, b| a * b, f32::to_bits, |x| x, |x| x);
value!(f64, F64, F64, 0.0, 1.0, |a, b| a + b, |a, b| a * b, f64::to_bits, |x| x, |x| x);
value!(i64, I64, I64, 0, 1, i64::wrapping_add, i64::wrapping_mul, |x| x, |x| x, |x| x);
value!(u8, Bool, Bool, 0, 1, |a, b| a | b, |a, b| a & b, |x| x, |x| x != 0, u8::from);
