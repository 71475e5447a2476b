//! The types that are computed with: doubles, singles, integers, and bytes as truth values.

use crate::buffer::Element;
use crate::dtype::DType;
use std::fmt;

/// A type that is computed with. `u8` stands for bool and is 0 or 1.
pub trait Value:
    Element + fmt::Debug + PartialEq + PartialOrd + Send + Sync + Default + sealed::Sealed
{
    /// Its dtype.
    const DTYPE: DType;
}

/// A type with sums and products. Those of integers wrap.
pub trait Number: Value + sealed::Multiply {}

/// A float.
pub trait Real: Number {}

impl Value for u8 {
    const DTYPE: DType = DType::Bool;
}
impl Value for i64 {
    const DTYPE: DType = DType::I64;
}
impl Value for f32 {
    const DTYPE: DType = DType::F32;
}
impl Value for f64 {
    const DTYPE: DType = DType::F64;
}

impl Number for i64 {}
impl Number for f32 {}
impl Number for f64 {}
impl Real for f32 {}
impl Real for f64 {}

pub(crate) mod sealed {
    use crate::kernels::matrix::{MatrixMut, MatrixRef};
    use crate::kernels::multiply::Then;

    /// What [`crate::Scalar`] says of the operations, without a choice at run time.
    pub trait Sealed: Copy {
        /// The identity of `+`.
        const ZERO: Self;
        /// The identity of `*`.
        const ONE: Self;
        /// The identity of `min`.
        const GREATEST: Self;
        /// The identity of `max`.
        const LEAST: Self;
        fn add(self, other: Self) -> Self;
        fn mul(self, other: Self) -> Self;
        fn least(self, other: Self) -> Self;
        fn greatest(self, other: Self) -> Self;
        /// `least` of two that are not NaN.
        #[inline(always)]
        fn least_known(self, other: Self) -> Self {
            self.least(other)
        }
        /// `greatest` of two that are not NaN.
        #[inline(always)]
        fn greatest_known(self, other: Self) -> Self {
            self.greatest(other)
        }
    }

    impl Sealed for u8 {
        const ZERO: u8 = 0;
        const ONE: u8 = 1;
        const GREATEST: u8 = 1;
        const LEAST: u8 = 0;
        #[inline(always)]
        fn add(self, other: u8) -> u8 {
            self | other
        }
        #[inline(always)]
        fn mul(self, other: u8) -> u8 {
            self & other
        }
        #[inline(always)]
        fn least(self, other: u8) -> u8 {
            self & other
        }
        #[inline(always)]
        fn greatest(self, other: u8) -> u8 {
            self | other
        }
    }

    impl Sealed for i64 {
        const ZERO: i64 = 0;
        const ONE: i64 = 1;
        const GREATEST: i64 = i64::MAX;
        const LEAST: i64 = i64::MIN;
        #[inline(always)]
        fn add(self, other: i64) -> i64 {
            self.wrapping_add(other)
        }
        #[inline(always)]
        fn mul(self, other: i64) -> i64 {
            self.wrapping_mul(other)
        }
        #[inline(always)]
        fn least(self, other: i64) -> i64 {
            self.min(other)
        }
        #[inline(always)]
        fn greatest(self, other: i64) -> i64 {
            self.max(other)
        }
    }

    macro_rules! float {
        ($($float:ident),*) => {$(
            impl Sealed for $float {
                const ZERO: $float = 0.0;
                const ONE: $float = 1.0;
                const GREATEST: $float = $float::INFINITY;
                const LEAST: $float = $float::NEG_INFINITY;
                #[inline(always)]
                fn add(self, other: $float) -> $float {
                    self + other
                }
                #[inline(always)]
                fn mul(self, other: $float) -> $float {
                    self * other
                }
                // The inner choice is one instruction, which takes the second operand when one is NaN.
                #[inline(always)]
                fn least(self, other: $float) -> $float {
                    let least = if self < other { self } else { other };
                    if self.is_nan() { self } else { least }
                }
                #[inline(always)]
                fn greatest(self, other: $float) -> $float {
                    let greatest = if self > other { self } else { other };
                    if self.is_nan() { self } else { greatest }
                }
                #[inline(always)]
                fn least_known(self, other: $float) -> $float {
                    if other < self { other } else { self }
                }
                #[inline(always)]
                fn greatest_known(self, other: $float) -> $float {
                    if other > self { other } else { self }
                }
            }
        )*};
    }
    float!(f32, f64);

    /// Types that bring their matrix product; see `multiply`.
    pub trait Multiply: Sized {
        /// C = [C +] alpha · A · B, where no side is empty and all shapes fit.
        fn multiply(
            c: MatrixMut<Self>,
            alpha: Self,
            a: MatrixRef<Self>,
            b: MatrixRef<Self>,
            is_first: bool,
            then: &mut Then<'_, Self>,
        );
    }
}
