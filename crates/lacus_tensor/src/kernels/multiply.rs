//! Dense matrix products: C = alpha·A·B, or C += alpha·A·B. Floats are multiplied by kernels of our own on machines with
//! AVX2 or AVX-512, where they are faster than `gemm`'s as soon as others share the caches, and by `gemm` on all others.
//!
//! ```
//! use lacus_tensor::kernels::matrix::{MatrixMut, MatrixRef};
//! use lacus_tensor::kernels::multiply::multiply_add;
//! let (a, b, mut c) = ([1.0, 2.0, 3.0, 4.0], [1.0, 1.0], [f64::NAN; 2]);
//! let (a, b) = (MatrixRef::from_rows(&a, 2, 2)?, MatrixRef::from_rows(&b, 2, 1)?);
//! multiply_add(MatrixMut::from_rows(&mut c, 2, 1)?, 1.0, a, b, true);
//! assert_eq!(c, [3.0, 7.0]);
//! # Ok::<(), lacus_tensor::TensorError>(())
//! ```

#[cfg(target_arch = "x86_64")]
mod fused;
mod vector;

use super::matrix::{MatrixMut, MatrixRef};
use super::number::{Number, sealed::Multiply};
use super::packed::fold_packed;
use super::reduce::{Add, Mul};
use gemm_common::Parallelism;

/// What is done with each part of C as soon as all of its sums are there, and it still is in a cache: its first row and
/// column, and the part.
pub type Then<'a, T> = dyn FnMut([usize; 2], MatrixMut<'_, T>) + 'a;

/// C = alpha·A·B if this is the first product (what C held is not read), else C += alpha·A·B. All strides will do.
///
/// The order of summation depends on shapes, strides and the machine only. Panics if the shapes do not fit.
pub fn multiply_add<T: Number>(
    c: MatrixMut<'_, T>,
    alpha: T,
    a: MatrixRef<'_, T>,
    b: MatrixRef<'_, T>,
    is_first: bool,
) {
    multiply_add_then(c, alpha, a, b, is_first, &mut |_, _| {});
}

/// Like [`multiply_add`], and then something with what came out: every element is in one of the parts that `then` gets.
pub fn multiply_add_then<T: Number>(
    mut c: MatrixMut<'_, T>,
    alpha: T,
    a: MatrixRef<'_, T>,
    b: MatrixRef<'_, T>,
    is_first: bool,
    then: &mut Then<'_, T>,
) {
    assert!(
        a.columns() == b.rows() && c.rows() == a.rows() && c.columns() == b.columns(),
        "multiply: [{}, {}] × [{}, {}] is not [{}, {}]",
        a.rows(),
        a.columns(),
        b.rows(),
        b.columns(),
        c.rows(),
        c.columns(),
    );
    if c.rows() == 0 || c.columns() == 0 {
        return;
    }
    if a.columns() == 0 {
        if is_first {
            c.fill(T::ZERO);
        }
    } else if c.columns() == 1 {
        vector::multiply(a, alpha, b, c.reborrow(), is_first);
    } else if c.rows() == 1 {
        vector::multiply(b.transposed(), alpha, a.transposed(), c.reborrow().transposed(), is_first);
    } else {
        return T::multiply(c, alpha, a, b, is_first, then);
    }
    then([0, 0], c);
}

macro_rules! by_gemm {
    ($float:ident, $library:ident) => {
        impl Multiply for $float {
            fn multiply(
                mut c: MatrixMut<'_, $float>,
                alpha: $float,
                a: MatrixRef<'_, $float>,
                b: MatrixRef<'_, $float>,
                is_first: bool,
                then: &mut Then<'_, $float>,
            ) {
                #[cfg(target_arch = "x86_64")]
                if let Some(kernel) = fused::kernel() {
                    // SAFETY: the machine has its vectors.
                    return unsafe { fused::multiply(&kernel, c, alpha, a, b, is_first, then) };
                }
                // The micro-kernel writes columns.
                let is_by_rows = c.column_stride().unsigned_abs() < c.row_stride().unsigned_abs();
                let all = c.reborrow();
                let (mut all, a, b) =
                    if is_by_rows { (all.transposed(), b.transposed(), a.transposed()) } else { (all, a, b) };
                let beta = if is_first { 0.0 } else { 1.0 };
                // SAFETY: the matrices promise their elements, and the shapes fit.
                unsafe {
                    $library::gemm::$float::get_gemm_fn()(
                        all.rows(),
                        all.columns(),
                        a.columns(),
                        all.as_mut_ptr(),
                        all.column_stride(),
                        all.row_stride(),
                        !is_first,
                        a.as_ptr(),
                        a.column_stride(),
                        a.row_stride(),
                        b.as_ptr(),
                        b.column_stride(),
                        b.row_stride(),
                        beta,
                        alpha,
                        false,
                        false,
                        false,
                        Parallelism::None,
                    );
                }
                then([0, 0], c);
            }
        }
    };
}
by_gemm!(f32, gemm_f32);
by_gemm!(f64, gemm_f64);

impl Multiply for i64 {
    fn multiply(
        mut c: MatrixMut<'_, i64>,
        alpha: i64,
        a: MatrixRef<'_, i64>,
        b: MatrixRef<'_, i64>,
        is_first: bool,
        then: &mut Then<'_, i64>,
    ) {
        if is_first {
            c.fill(0);
        }
        fold_packed::<i64, Add, Mul>(c.reborrow(), alpha, a, b);
        then([0, 0], c);
    }
}

#[cfg(test)]
pub(super) mod tests;
