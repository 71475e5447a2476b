//! Matrix products over a semiring: C = C ⊕ (A ⊗ B), such as shortest paths with (min, +).
//!
//! ```
//! use lacus_tensor::BinaryOp;
//! use lacus_tensor::kernels::{matrix::{MatrixMut, MatrixRef}, semiring::fold_product};
//! let far = f64::INFINITY;
//! let roads = [0.0, 3.0, far, far, 0.0, 4.0, far, far, 0.0];
//! let (a, mut best) = (MatrixRef::from_rows(&roads, 3, 3)?, roads);
//! fold_product(BinaryOp::Min, BinaryOp::Add, MatrixMut::from_rows(&mut best, 3, 3)?, a, a);
//! assert_eq!(best[2], 7.0);
//! # Ok::<(), lacus_tensor::TensorError>(())
//! ```

use super::matrix::{MatrixMut, MatrixRef};
use super::multiply::multiply_add;
use super::number::{Number, Value};
use super::packed::fold_packed;
use super::reduce::{Add, Max, Min, Mul};
use crate::dtype::DType;
use crate::op::BinaryOp;
use std::ptr::NonNull;

/// C = C ⊕ (A ⊗ B): `c[i, j] = c[i, j] ⊕ (a[i, 0] ⊗ b[0, j]) ⊕ (a[i, 1] ⊗ b[1, j]) ⊕ …`, grouped as pleases.
///
/// `times` distributes over `plus`. Bytes are truth values, for `and`, `or`, `min` and `max`. Panics otherwise, and if the
/// shapes do not fit.
pub fn fold_product<T: Value>(
    plus: BinaryOp,
    times: BinaryOp,
    c: MatrixMut<'_, T>,
    a: MatrixRef<'_, T>,
    b: MatrixRef<'_, T>,
) {
    assert!(
        a.columns() == b.rows() && c.rows() == a.rows() && c.columns() == b.columns(),
        "product over ({plus}, {times}): [{}, {}] × [{}, {}] is not [{}, {}]",
        a.rows(),
        a.columns(),
        b.rows(),
        b.columns(),
        c.rows(),
        c.columns(),
    );
    // On truth values, `and` is the smaller and `or` the larger one.
    let as_order = |op| match (op, T::DTYPE) {
        (BinaryOp::And, DType::Bool) => BinaryOp::Min,
        (BinaryOp::Or, DType::Bool) => BinaryOp::Max,
        (op, _) => op,
    };
    match (as_order(plus), as_order(times), T::DTYPE) {
        (BinaryOp::Add, BinaryOp::Mul, DType::F64) => add_product::<T, f64>(c, a, b),
        (BinaryOp::Add, BinaryOp::Mul, DType::F32) => add_product::<T, f32>(c, a, b),
        (BinaryOp::Add, BinaryOp::Mul, DType::I64) => fold_packed::<T, Add, Mul>(c, T::ONE, a, b),
        (BinaryOp::Min, BinaryOp::Min, _) => fold_packed::<T, Min, Min>(c, T::ONE, a, b),
        (BinaryOp::Min, BinaryOp::Max, _) => fold_packed::<T, Min, Max>(c, T::ONE, a, b),
        (BinaryOp::Max, BinaryOp::Min, _) => fold_packed::<T, Max, Min>(c, T::ONE, a, b),
        (BinaryOp::Max, BinaryOp::Max, _) => fold_packed::<T, Max, Max>(c, T::ONE, a, b),
        (BinaryOp::Min, BinaryOp::Add, DType::I64 | DType::F32 | DType::F64) => {
            fold_packed::<T, Min, Add>(c, T::ONE, a, b);
        }
        (BinaryOp::Max, BinaryOp::Add, DType::I64 | DType::F32 | DType::F64) => {
            fold_packed::<T, Max, Add>(c, T::ONE, a, b);
        }
        (_, _, dtype) => panic!("product: ({plus}, {times}) is no semiring of {dtype}"),
    }
}

/// The ordinary product, for which there is something better. `T` is `N`, which the caller knows and the compiler does not.
fn add_product<T: Value, N: Number>(mut c: MatrixMut<'_, T>, a: MatrixRef<'_, T>, b: MatrixRef<'_, T>) {
    assert_eq!(T::DTYPE, N::DTYPE);
    let same = |m: MatrixRef<'_, T>| {
        let first = NonNull::new(m.as_ptr().cast_mut().cast::<N>()).expect("matrices have an address");
        (first, [m.rows(), m.columns()], [m.row_stride(), m.column_stride()])
    };
    let (first, shape, strides) = same(c.as_ref());
    debug_assert_eq!(first.as_ptr(), c.as_mut_ptr().cast());
    // SAFETY: the same matrices, and their elements have the same type: a dtype belongs to one type only.
    unsafe {
        let c = MatrixMut::from_raw(first, shape, strides);
        let ((a, a_shape, a_strides), (b, b_shape, b_strides)) = (same(a), same(b));
        let (a, b) = (MatrixRef::from_raw(a, a_shape, a_strides), MatrixRef::from_raw(b, b_shape, b_strides));
        multiply_add(c, N::ONE, a, b, false);
    }
}

#[cfg(test)]
mod tests;
