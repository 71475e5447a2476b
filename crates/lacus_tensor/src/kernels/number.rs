//! The types that are computed with: doubles, singles, integers, and bytes as truth values.

use crate::buffer::Element;
use crate::dtype::DType;
use std::fmt;

/// A type that is computed with. `u8` stands for bool and is 0 or 1.
pub trait Lane:
    Element + fmt::Debug + PartialEq + PartialOrd + Send + Sync + Default + sealed::Sealed
{
    /// Its dtype.
    const DTYPE: DType;
}

/// A type with sums and products.
pub trait Number: Lane + sealed::Multiply {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// The sum. Integers wrap.
    fn plus(self, other: Self) -> Self;
    /// The product. Integers wrap.
    fn times(self, other: Self) -> Self;
}

/// A float.
pub trait Real: Number {}

impl Lane for u8 {
    const DTYPE: DType = DType::Bool;
}
impl Lane for i64 {
    const DTYPE: DType = DType::I64;
}
impl Lane for f32 {
    const DTYPE: DType = DType::F32;
}
impl Lane for f64 {
    const DTYPE: DType = DType::F64;
}

impl Number for i64 {
    const ZERO: i64 = 0;
    const ONE: i64 = 1;
    #[inline(always)]
    fn plus(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn times(self, other: i64) -> i64 {
        self.wrapping_mul(other)
    }
}

macro_rules! real {
    ($($float:ty),*) => {$(
        impl Number for $float {
            const ZERO: $float = 0.0;
            const ONE: $float = 1.0;
            #[inline(always)]
            fn plus(self, other: $float) -> $float {
                self + other
            }
            #[inline(always)]
            fn times(self, other: $float) -> $float {
                self * other
            }
        }
        impl Real for $float {}
    )*};
}
real!(f32, f64);

pub(crate) mod sealed {
    use crate::kernels::matrix::{MatrixMut, MatrixRef};

    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for i64 {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}

    /// Types that bring their matrix product; see `multiply`.
    pub trait Multiply: Sized {
        /// C = [C +] alpha · A · B, where no side is empty and all shapes fit.
        fn multiply(c: MatrixMut<Self>, alpha: Self, a: MatrixRef<Self>, b: MatrixRef<Self>, is_first: bool);
    }
}
