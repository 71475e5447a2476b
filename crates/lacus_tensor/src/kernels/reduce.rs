//! Reductions: many elements to one, rows into a row.
//!
//! Sums are pairwise, so that their error grows with the logarithm of the length. The order depends on the length only:
//! not on strides, and not on the machine.
//!
//! ```
//! use lacus_tensor::{BinaryOp, kernels::reduce::{fold_rows, reduce}};
//! assert_eq!(reduce(BinaryOp::Add, &[1.0, 2.0, 3.0]), 6.0);
//! let mut best = [3, 5];
//! fold_rows(BinaryOp::Min, &mut best, &[4i64, 1]);
//! assert_eq!(best, [3, 1]);
//! ```

use super::number::Value;
use super::vectorise::{Loop, vectorise};
use crate::dtype::DType;
use crate::op::BinaryOp;
use std::marker::PhantomData;

/// All elements as one: `run[0] ⊕ run[1] ⊕ …`, grouped as pleases; the identity of `op` if there are none.
///
/// `op` is associative. Bytes are truth values, which have no sum. Panics otherwise: a bug of the caller.
pub fn reduce<T: Value>(op: BinaryOp, run: &[T]) -> T {
    // SAFETY: the elements of a slice.
    unsafe { reduce_strided(op, run.as_ptr(), 1, run.len()) }
}

/// [`reduce`] for elements that do not lie side by side. The result has the same bits.
///
/// # Safety
/// `first.offset(i * stride)` is readable for all `i < n`.
pub unsafe fn reduce_strided<T: Value>(op: BinaryOp, first: *const T, stride: isize, n: usize) -> T {
    with_fold(op, Reduce { first, stride, n })
}

/// `acc[i] = acc[i] ⊕ row[i]`. `op` as in [`reduce`]. Panics if the lengths differ.
pub fn fold_rows<T: Value>(op: BinaryOp, acc: &mut [T], row: &[T]) {
    assert_eq!(acc.len(), row.len(), "fold: rows of different lengths");
    with_fold(op, FoldRows { acc, row });
}

/// [`fold_rows`] for elements that do not lie side by side.
///
/// # Safety
/// `acc.offset(i * acc_stride)` is writable and `row.offset(i * row_stride)` readable for all `i < n`, and no element of
/// one is an element of the other. `acc_stride` may be 0: then everything goes into one element, in order.
pub unsafe fn fold_rows_strided<T: Value>(
    op: BinaryOp,
    acc: *mut T,
    acc_stride: isize,
    row: *const T,
    row_stride: isize,
    n: usize,
) {
    if acc_stride == 1 && row_stride == 1 {
        // SAFETY: the caller promised the elements, and that no two are the same.
        let (acc, row) =
            unsafe { (std::slice::from_raw_parts_mut(acc, n), std::slice::from_raw_parts(row, n)) };
        return fold_rows(op, acc, row);
    }
    with_fold(op, FoldStrided { acc, acc_stride, row, row_stride, n });
}

/// An associative operation with its identity.
pub(crate) trait Fold<T> {
    const IDENTITY: T;
    fn fold(a: T, b: T) -> T;
    /// The same for operands that are not NaN.
    fn fold_known(a: T, b: T) -> T;
}

pub(crate) struct Add;
pub(crate) struct Mul;
pub(crate) struct Min;
pub(crate) struct Max;

macro_rules! fold {
    ($($name:ident $method:ident $known:ident $identity:ident),*) => {$(
        impl<T: Value> Fold<T> for $name {
            const IDENTITY: T = T::$identity;
            #[inline(always)]
            fn fold(a: T, b: T) -> T {
                a.$method(b)
            }
            #[inline(always)]
            fn fold_known(a: T, b: T) -> T {
                a.$known(b)
            }
        }
    )*};
}
fold!(
    Add add add ZERO,
    Mul mul mul ONE,
    Min least least_known GREATEST,
    Max greatest greatest_known LEAST
);

/// A loop over any operation.
trait FoldLoop<T> {
    type Output;
    fn run<F: Fold<T>>(self) -> Self::Output;
}

struct With<T, F, L>(L, PhantomData<(T, F)>);

impl<T, F: Fold<T>, L: FoldLoop<T>> Loop for With<T, F, L> {
    type Output = L::Output;
    #[inline(always)]
    fn run(self) -> L::Output {
        self.0.run::<F>()
    }
}

fn with_fold<T: Value, L: FoldLoop<T>>(op: BinaryOp, body: L) -> L::Output {
    match (op, T::DTYPE) {
        (BinaryOp::Add, DType::I64 | DType::F32 | DType::F64) => {
            vectorise(With::<T, Add, L>(body, PhantomData))
        }
        (BinaryOp::Mul, _) | (BinaryOp::And, DType::Bool) => vectorise(With::<T, Mul, L>(body, PhantomData)),
        (BinaryOp::Min, _) => vectorise(With::<T, Min, L>(body, PhantomData)),
        (BinaryOp::Max, _) | (BinaryOp::Or, DType::Bool) => vectorise(With::<T, Max, L>(body, PhantomData)),
        (op, dtype) => panic!("reduce: {op} does not reduce {dtype}"),
    }
}

/// Partial results side by side: enough to fill the pipelines of adders with any vectors.
const ACCUMULATORS: usize = 32;

/// Elements that are reduced by accumulators; above, a tree. More would cost accuracy, fewer time.
const BLOCK: usize = 8 * ACCUMULATORS;

struct Reduce<T> {
    first: *const T,
    stride: isize,
    n: usize,
}

impl<T: Value> FoldLoop<T> for Reduce<T> {
    type Output = T;
    #[inline(always)]
    fn run<F: Fold<T>>(self) -> T {
        // A binary counter instead of a recursion: `sums[i]` holds the sum of 2^i blocks if bit i of `blocks` is set.
        let mut sums = [F::IDENTITY; usize::BITS as usize];
        let mut gathered = [F::IDENTITY; BLOCK];
        let (mut at, mut blocks) = (0, 0usize);
        while at + BLOCK <= self.n {
            // SAFETY: the maker of `self` promised the elements.
            let mut sum = unsafe {
                if self.stride == 1 {
                    block::<T, F>(std::slice::from_raw_parts(self.first.add(at), BLOCK))
                } else {
                    self.gather(at, &mut gathered);
                    block::<T, F>(&gathered)
                }
            };
            let mut level = 0;
            while blocks >> level & 1 == 1 {
                sum = F::fold(sums[level], sum);
                level += 1;
            }
            sums[level] = sum;
            blocks += 1;
            at += BLOCK;
        }
        let mut sum = F::IDENTITY;
        if at < self.n {
            let rest = &mut gathered[..self.n - at];
            // SAFETY: as above.
            unsafe { self.gather(at, rest) };
            sum = block::<T, F>(rest);
        }
        // The rest is the last, and the smaller the sum the later it was made.
        for (level, &earlier) in sums.iter().enumerate() {
            if blocks >> level & 1 == 1 {
                sum = if at == self.n && level == blocks.trailing_zeros() as usize {
                    earlier
                } else {
                    F::fold(earlier, sum)
                };
            }
        }
        sum
    }
}

impl<T: Value> Reduce<T> {
    #[inline(always)]
    unsafe fn gather(&self, at: usize, into: &mut [T]) {
        for (i, element) in into.iter_mut().enumerate() {
            // SAFETY: the caller stays within `n`.
            *element = unsafe { *self.first.offset((at + i) as isize * self.stride) };
        }
    }
}

#[inline(always)]
fn block<T: Value, F: Fold<T>>(run: &[T]) -> T {
    let mut sums = [F::IDENTITY; ACCUMULATORS];
    let (whole, rest) = run.as_chunks::<ACCUMULATORS>();
    for chunk in whole {
        for (sum, &element) in sums.iter_mut().zip(chunk) {
            *sum = F::fold(*sum, element);
        }
    }
    for (sum, &element) in sums.iter_mut().zip(rest) {
        *sum = F::fold(*sum, element);
    }
    let mut half = ACCUMULATORS / 2;
    while half > 0 {
        for i in 0..half {
            sums[i] = F::fold(sums[i], sums[i + half]);
        }
        half /= 2;
    }
    sums[0]
}

struct FoldRows<'a, T> {
    acc: &'a mut [T],
    row: &'a [T],
}

impl<T: Value> FoldLoop<T> for FoldRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<F: Fold<T>>(self) {
        for (acc, &element) in self.acc.iter_mut().zip(self.row) {
            *acc = F::fold(*acc, element);
        }
    }
}

struct FoldStrided<T> {
    acc: *mut T,
    acc_stride: isize,
    row: *const T,
    row_stride: isize,
    n: usize,
}

impl<T: Value> FoldLoop<T> for FoldStrided<T> {
    type Output = ();
    #[inline(always)]
    fn run<F: Fold<T>>(self) {
        for i in 0..self.n as isize {
            // SAFETY: the maker of `self` promised the elements.
            unsafe {
                let acc = self.acc.offset(i * self.acc_stride);
                *acc = F::fold(*acc, *self.row.offset(i * self.row_stride));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::Scalar;
    use proptest::prelude::*;

    #[test]
    fn sums_are_pairwise_and_the_same_with_any_stride() {
        for n in [0, 1, 31, 32, 33, 255, 256, 257, 511, 513, 100_000] {
            let numbers: Vec<f64> = (0..n).map(|i| 1.0 / (i as f64 * 0.37 + 1.0)).collect();
            let spread: Vec<f64> = numbers.iter().rev().flat_map(|&x| [x, f64::NAN, f64::NAN]).collect();
            let sum = reduce(BinaryOp::Add, &numbers);
            let last = spread.as_ptr().wrapping_add(3 * n).wrapping_sub(3);
            // SAFETY: every third element from the back.
            let again = unsafe { reduce_strided(BinaryOp::Add, last, -3, n) };
            assert_eq!(sum.to_bits(), again.to_bits(), "{n}");
        }
        // One after the other this would stop to grow at 2^24.
        assert_eq!(reduce(BinaryOp::Add, &vec![1.0f32; 1 << 26]), (1 << 26) as f32);
    }

    #[test]
    fn nothing_reduces_to_the_identity() {
        assert_eq!(reduce::<f64>(BinaryOp::Min, &[]), f64::INFINITY);
        assert_eq!(reduce::<i64>(BinaryOp::Mul, &[]), 1);
        assert_eq!(reduce::<u8>(BinaryOp::Or, &[]), 0);
        assert_eq!(reduce::<u8>(BinaryOp::And, &[]), 1);
    }

    #[test]
    #[should_panic(expected = "reduce: + does not reduce bool")]
    fn truths_have_no_sum() {
        reduce(BinaryOp::Add, &[1u8]);
    }

    fn check<T: Value>(op: BinaryOp, run: &[T], other: &[T], scalar: impl Fn(T) -> Scalar) {
        let same = |a: Scalar, b: Scalar| a == b || a.to_f64().is_nan() && b.to_f64().is_nan();
        if let Some((&first, rest)) = run.split_first() {
            let expected = rest.iter().fold(scalar(first), |acc, &x| acc.binary(op, scalar(x)));
            let got = scalar(reduce(op, run));
            assert!(same(got, expected), "{op} of {run:?}: {got} {expected}");
        }
        let mut acc = run.to_vec();
        let n = acc.len().min(other.len());
        fold_rows(op, &mut acc[..n], &other[..n]);
        let mut strided = run.to_vec();
        // SAFETY: every second element of both.
        unsafe { fold_rows_strided(op, strided.as_mut_ptr(), 2, other.as_ptr(), 2, n / 2) };
        for i in 0..n {
            let expected = scalar(run[i]).binary(op, scalar(other[i]));
            assert!(same(scalar(acc[i]), expected), "{op}");
            assert!(same(
                scalar(strided[i]),
                if i % 2 == 0 && i / 2 < n / 2 { expected } else { scalar(run[i]) }
            ));
        }
    }

    proptest! {
        #[test]
        fn reductions_mean_what_scalars_say(a in prop::collection::vec(-3i64..4, 0..700), b in prop::collection::vec(-3i64..4, 0..700)) {
            // 3 becomes NaN for the floats; sums and products of small whole numbers have one result in any order.
            let float = |&x: &i64| if x == 3 && a.len() % 2 == 0 { f64::NAN } else { x as f64 };
            let (fa, fb): (Vec<_>, Vec<_>) = (a.iter().map(float).collect(), b.iter().map(float).collect());
            let single = |v: &[f64]| v.iter().map(|&x| x as f32).collect::<Vec<_>>();
            let truth = |v: &[i64]| v.iter().map(|&x| u8::from(x != 2)).collect::<Vec<_>>();
            for op in [BinaryOp::Add, BinaryOp::Min, BinaryOp::Max] {
                check(op, &fa, &fb, Scalar::F64);
                check(op, &single(&fa), &single(&fb), Scalar::F32);
                check(op, &a, &b, Scalar::I64);
            }
            let sign = |v: &[f64]| v.iter().map(|x| x.signum()).collect::<Vec<_>>();
            check(BinaryOp::Mul, &sign(&fa), &sign(&fb), Scalar::F64);
            check(BinaryOp::Mul, &a, &b, Scalar::I64);
            for op in [BinaryOp::And, BinaryOp::Or, BinaryOp::Min, BinaryOp::Max] {
                check(op, &truth(&a), &truth(&b), |x| Scalar::Bool(x != 0));
            }
        }
    }
}
