//! How far a vector is from each of many: what searches rank by.
//!
//! Sums are made in sixteen parts that are added in a fixed order, so that every machine and every caller gets the same bits for
//! the same two vectors. Reading memory takes longer than the arithmetic.
//!
//! ```
//! use lacus_tensor::kernels::distance::{Measure, distances};
//! let (rows, mut found) = ([3.0f32, 0.0, 0.0, 4.0], [0.0; 2]);
//! distances(Measure::L2, &[0.0, 0.0], &rows, &mut found);
//! assert_eq!(found, [3.0, 4.0]);
//! ```

use half::{bf16, f16};

use super::vectorise::{Loop, vectorise_narrowly};
use crate::dtype::DType;

/// How two vectors are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Measure {
    /// The cosine of the angle between them; NaN if one has no length.
    Cosine,
    /// The sum of the products of their elements.
    Inner,
    /// The sum of the absolute differences.
    L1,
    /// The length of the difference.
    L2,
    /// The largest absolute difference.
    Linf,
    /// The number of places where they differ.
    Hamming,
}

impl Measure {
    /// The measure of this name: `cosine`, `dot`, `l1`, `l2`, `linf` or `hamming`.
    pub fn named(name: &str) -> Option<Measure> {
        let all =
            [Measure::Cosine, Measure::Inner, Measure::L1, Measure::L2, Measure::Linf, Measure::Hamming];
        all.into_iter().find(|measure| measure.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Cosine => "cosine",
            Measure::Inner => "dot",
            Measure::L1 => "l1",
            Measure::L2 => "l2",
            Measure::Linf => "linf",
            Measure::Hamming => "hamming",
        }
    }

    /// Whether more is nearer.
    pub fn is_similarity(self) -> bool {
        matches!(self, Measure::Cosine | Measure::Inner)
    }
}

/// A float that distances are computed in.
pub trait Lane: Copy + PartialOrd + Send + Sync + Default + sealed::Arithmetic {}

impl Lane for f32 {}
impl Lane for f64 {}

mod sealed {
    pub trait Arithmetic: Sized {
        const ZERO: Self;
        const ONE: Self;
        fn add(self, other: Self) -> Self;
        fn sub(self, other: Self) -> Self;
        fn mul(self, other: Self) -> Self;
        fn div(self, other: Self) -> Self;
        fn abs(self) -> Self;
        fn sqrt(self) -> Self;
        fn is_nan(&self) -> bool;
        fn of_f32(value: f32) -> Self;
        fn of_f64(value: f64) -> Self;
    }

    macro_rules! arithmetic {
        ($float:ident) => {
            impl Arithmetic for $float {
                const ZERO: $float = 0.0;
                const ONE: $float = 1.0;
                #[inline(always)]
                fn add(self, other: $float) -> $float {
                    self + other
                }
                #[inline(always)]
                fn sub(self, other: $float) -> $float {
                    self - other
                }
                #[inline(always)]
                fn mul(self, other: $float) -> $float {
                    self * other
                }
                #[inline(always)]
                fn div(self, other: $float) -> $float {
                    self / other
                }
                #[inline(always)]
                fn abs(self) -> $float {
                    $float::abs(self)
                }
                #[inline(always)]
                fn sqrt(self) -> $float {
                    $float::sqrt(self)
                }
                #[inline(always)]
                fn is_nan(&self) -> bool {
                    $float::is_nan(*self)
                }
                #[inline(always)]
                fn of_f32(value: f32) -> $float {
                    value as $float
                }
                #[inline(always)]
                fn of_f64(value: f64) -> $float {
                    value as $float
                }
            }
        };
    }

    arithmetic!(f32);
    arithmetic!(f64);
}

/// Puts the distance of `query` from each of the vectors in `rows`, which lie one after the other, into `out`. Panics if `rows` has
/// not as many as `out`.
pub fn distances<T: Lane>(measure: Measure, query: &[T], rows: &[T], out: &mut [T]) {
    assert_eq!(rows.len(), query.len() * out.len(), "vectors of {} elements", query.len());
    vectorise_narrowly(Distances { measure, query, rows, out });
}

/// The distance of two vectors. Panics if one is longer.
pub fn distance<T: Lane>(measure: Measure, a: &[T], b: &[T]) -> T {
    let mut out = [T::ZERO];
    distances(measure, b, a, &mut out);
    out[0]
}

/// Widens elements, given by their bytes, to floats. Panics if there are not as many as in `out`; complex numbers have no width
/// and become their real parts' bits, so nobody asks for them.
pub fn widen<T: Lane>(dtype: DType, bytes: &[u8], out: &mut [T]) {
    assert_eq!(bytes.len(), out.len() * dtype.size_bytes(), "elements of {dtype}");
    macro_rules! each {
        ($type:ty, $of:expr) => {
            for (to, from) in out.iter_mut().zip(bytes.as_chunks::<{ size_of::<$type>() }>().0) {
                *to = $of(<$type>::from_le_bytes(*from));
            }
        };
    }
    match dtype {
        DType::F32 => each!(f32, T::of_f32),
        DType::F64 => each!(f64, T::of_f64),
        DType::F16 => each!(f16, |x: f16| T::of_f32(x.to_f32())),
        DType::BF16 => each!(bf16, |x: bf16| T::of_f32(x.to_f32())),
        DType::I8 => each!(i8, |x| T::of_f32(f32::from(x))),
        DType::U8 | DType::Bool => each!(u8, |x| T::of_f32(f32::from(x))),
        DType::I16 => each!(i16, |x| T::of_f32(f32::from(x))),
        DType::U16 => each!(u16, |x| T::of_f32(f32::from(x))),
        DType::I32 => each!(i32, |x| T::of_f64(f64::from(x))),
        DType::U32 => each!(u32, |x| T::of_f64(f64::from(x))),
        DType::I64 => each!(i64, |x| T::of_f64(x as f64)),
        DType::U64 => each!(u64, |x| T::of_f64(x as f64)),
        DType::C64 | DType::C128 => out.fill(T::of_f32(f32::NAN)),
    }
}

struct Distances<'a, T> {
    measure: Measure,
    query: &'a [T],
    rows: &'a [T],
    out: &'a mut [T],
}

impl<T: Lane> Loop for Distances<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Distances { measure, query, rows, out } = self;
        if query.is_empty() {
            // Of no elements all sums are zero.
            let of_none = if measure == Measure::Cosine { T::of_f32(f32::NAN) } else { T::ZERO };
            return out.fill(of_none);
        }
        let each = rows.chunks_exact(query.len()).zip(out);
        match measure {
            Measure::Cosine => {
                let length = fold(query, query, |a, b| a.mul(b)).sqrt();
                for (row, out) in each {
                    let (product, square) = both(row, query);
                    *out = product.div(square.sqrt().mul(length));
                }
            }
            Measure::Inner => {
                each.for_each(|(row, out)| *out = fold(row, query, |a, b| a.mul(b)));
            }
            Measure::L1 => each.for_each(|(row, out)| *out = fold(row, query, |a, b| a.sub(b).abs())),
            Measure::L2 => {
                let square = |a: T, b: T| {
                    let difference = a.sub(b);
                    difference.mul(difference)
                };
                each.for_each(|(row, out)| *out = fold(row, query, square).sqrt());
            }
            Measure::Linf => each.for_each(|(row, out)| *out = largest(row, query)),
            Measure::Hamming => {
                let differ = |a: T, b: T| if a == b { T::ZERO } else { T::ONE };
                each.for_each(|(row, out)| *out = fold(row, query, differ));
            }
        }
    }
}

/// The sum of something of all pairs, in sixteen parts.
#[inline(always)]
fn fold<T: Lane>(a: &[T], b: &[T], of: impl Fn(T, T) -> T) -> T {
    let mut parts = [T::ZERO; 16];
    let ((a_chunks, a_rest), (b_chunks, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for at in 0..16 {
            parts[at] = parts[at].add(of(a[at], b[at]));
        }
    }
    let rest = a_rest.iter().zip(b_rest).fold(T::ZERO, |sum, (a, b)| sum.add(of(*a, *b)));
    total(parts).add(rest)
}

/// The sum of the products, and the sum of the squares of the first, as [`fold`] makes them.
#[inline(always)]
fn both<T: Lane>(a: &[T], b: &[T]) -> (T, T) {
    let (mut products, mut squares) = ([T::ZERO; 16], [T::ZERO; 16]);
    let ((a_chunks, a_rest), (b_chunks, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for at in 0..16 {
            products[at] = products[at].add(a[at].mul(b[at]));
            squares[at] = squares[at].add(a[at].mul(a[at]));
        }
    }
    let (mut product, mut square) = (T::ZERO, T::ZERO);
    for (a, b) in a_rest.iter().zip(b_rest) {
        product = product.add(a.mul(*b));
        square = square.add(a.mul(*a));
    }
    (total(products).add(product), total(squares).add(square))
}

/// The sum of the parts, halves first: vectors add them.
#[inline(always)]
fn total<T: Lane>(mut parts: [T; 16]) -> T {
    for half in [8, 4, 2, 1] {
        for at in 0..half {
            parts[at] = parts[at].add(parts[at + half]);
        }
    }
    parts[0]
}

#[inline(always)]
fn largest<T: Lane>(a: &[T], b: &[T]) -> T {
    let larger = |most: T, found: T| if found.is_nan() || found > most { found } else { most };
    let mut most = T::ZERO;
    for (a, b) in a.iter().zip(b) {
        // Once it is NaN it stays so.
        most = if most.is_nan() { most } else { larger(most, a.sub(*b).abs()) };
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a measure means, as plainly as can be.
    fn naive(measure: Measure, a: &[f64], b: &[f64]) -> f64 {
        let pairs = || a.iter().zip(b);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        match measure {
            Measure::Cosine => dot(a, b) / (dot(a, a).sqrt() * dot(b, b).sqrt()),
            Measure::Inner => dot(a, b),
            Measure::L1 => pairs().map(|(a, b)| (a - b).abs()).sum(),
            Measure::L2 => pairs().map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt(),
            Measure::Linf => pairs().map(|(a, b)| (a - b).abs()).fold(0.0, f64::max),
            Measure::Hamming => pairs().filter(|(a, b)| a != b).count() as f64,
        }
    }

    const ALL: [Measure; 6] =
        [Measure::Cosine, Measure::Inner, Measure::L1, Measure::L2, Measure::Linf, Measure::Hamming];

    proptest::proptest! {
        #[test]
        fn all_lengths_mean_what_the_plain_loop_does(size in 1usize..70, seed in 0u64..1000) {
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                ((state >> 40) % 17) as f64 - 8.0
            };
            let query: Vec<f64> = (0..size).map(|_| next()).collect();
            let rows: Vec<f64> = (0..size * 5).map(|_| next()).collect();
            let single = |values: &[f64]| values.iter().map(|x| *x as f32).collect::<Vec<f32>>();
            for measure in ALL {
                let (mut double, mut singles) = ([0.0f64; 5], [0.0f32; 5]);
                distances(measure, &query, &rows, &mut double);
                distances(measure, &single(&query), &single(&rows), &mut singles);
                for (at, row) in rows.chunks(size).enumerate() {
                    let expected = naive(measure, row, &query);
                    let same = |found: f64, within: f64| {
                        (found.is_nan() && expected.is_nan()) || (found - expected).abs() <= within
                    };
                    proptest::prop_assert!(same(double[at], 1e-9), "{measure:?}: {} {expected}", double[at]);
                    proptest::prop_assert!(same(singles[at].into(), 1e-3), "{measure:?}: {}", singles[at]);
                    proptest::prop_assert_eq!(
                        distance(measure, row, &query).to_bits(), double[at].to_bits(), "alone"
                    );
                }
            }
        }
    }

    #[test]
    fn nan_and_no_length() {
        assert!(distance(Measure::Cosine, &[0.0f32, 0.0], &[1.0, 0.0]).is_nan());
        assert!(distance(Measure::Linf, &[f64::NAN, 9.0], &[1.0, 0.0]).is_nan());
        assert_eq!(distance(Measure::Hamming, &[f64::NAN, 9.0], &[f64::NAN, 9.0]), 1.0);
        assert_eq!(distance::<f32>(Measure::L2, &[], &[]), 0.0);
    }

    #[test]
    fn elements_are_widened() {
        fn check(dtype: DType, bytes: &[u8], expected: f64) {
            let (mut single, mut double) = ([0.0f32], [0.0f64]);
            widen(dtype, bytes, &mut single);
            widen(dtype, bytes, &mut double);
            assert_eq!((f64::from(single[0]), double[0]), (expected, expected), "{dtype}");
        }
        check(DType::F32, &1.5f32.to_le_bytes(), 1.5);
        check(DType::F64, &(-2.5f64).to_le_bytes(), -2.5);
        check(DType::F16, &f16::from_f32(0.5).to_le_bytes(), 0.5);
        check(DType::BF16, &bf16::from_f32(-3.0).to_le_bytes(), -3.0);
        check(DType::I8, &[0xFF], -1.0);
        check(DType::U8, &[0xFF], 255.0);
        check(DType::I16, &(-7i16).to_le_bytes(), -7.0);
        check(DType::U16, &7u16.to_le_bytes(), 7.0);
        check(DType::I32, &(-70_000i32).to_le_bytes(), -70_000.0);
        check(DType::U32, &70_000u32.to_le_bytes(), 70_000.0);
        check(DType::I64, &(-9i64).to_le_bytes(), -9.0);
        check(DType::U64, &9u64.to_le_bytes(), 9.0);
        check(DType::Bool, &[1], 1.0);
    }
}
