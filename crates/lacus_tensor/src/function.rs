//! `exp`, `log`, `tanh`, `sigmoid` and their kin, written so that a loop over them is vectorised.
//!
//! No branches, no tables, no calls: what does not apply is computed as well and not chosen. No fused additions
//! either, so the bits are the same with any vectors, on any machine and with any C library. `exp` and `log`
//! are within one unit in the last place of the standard library's, the others within four. Sines and cosines are those
//! of the crate `libm`, one by one; only powers other than the simple ones are the C library's.

/// Functions of one float.
pub(crate) trait Function: Sized {
    /// `e` to the power of it.
    fn exp(self) -> Self;
    /// The natural logarithm: -inf of zero, NaN of what is below.
    fn log(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// `1 / (1 + exp(-x))`
    fn sigmoid(self) -> Self;
    /// `exp(x) - 1`
    fn expm1(self) -> Self;
    /// `log(1 + x)`
    fn log1p(self) -> Self;
    /// The sine.
    fn sin(self) -> Self;
    /// The cosine.
    fn cos(self) -> Self;
    /// What a quotient that is rounded down leaves: with the sign of the divisor, also where it is zero, as numpy has it.
    fn rest(self, divisor: Self) -> Self;
    /// The quotient, rounded down. One that would be whole but for rounding is, as numpy has it.
    fn floor_div(self, divisor: Self) -> Self;
    /// It to some power. Squares, roots and inverses are what one would write for them, as numpy has it.
    fn pow(self, exponent: Self) -> Self;
}

/// What a quotient of integers that is rounded down leaves, with the sign of the divisor, which is not zero.
#[inline(always)]
pub(crate) fn whole_rest(a: i64, divisor: i64) -> i64 {
    let rest = a.wrapping_rem(divisor);
    if rest != 0 && (rest < 0) != (divisor < 0) { rest + divisor } else { rest }
}

/// The quotient of integers, rounded down. The divisor is not zero.
#[inline(always)]
pub(crate) fn whole_quotient(a: i64, divisor: i64) -> i64 {
    let quotient = a.wrapping_div(divisor);
    if a.wrapping_rem(divisor) != 0 && (a < 0) != (divisor < 0) { quotient - 1 } else { quotient }
}

/// The constants of a type: how many bits a fraction has, and how far series have to go.
macro_rules! function {
    (
        $float:ident, $bits:ident, $polynomial:ident, fraction: $fraction:expr, bias: $bias:expr,
        ln_2: $ln_2_high:expr, $ln_2_low:expr, exp: $least:expr, $most:expr, tanh: $flat:expr,
        expm1: $large:expr, sin: $sin:ident, cos: $cos:ident,
        exp_series: $exp_series:expr, log_series: $log_series:expr $(,)?
    ) => {
        impl Function for $float {
            #[inline(always)]
            fn exp(self) -> $float {
                let (less_one, half, rest) = $float::exp_parts(self);
                (1.0 + less_one) * half * rest
            }

            #[inline(always)]
            fn log(self) -> $float {
                // x = 2^k m with √½ ≤ m < √2; log m = 2 atanh(s) with s = (m - 1)/(m + 1). Tiny x are made larger first.
                const ROOT: $bits = std::$float::consts::FRAC_1_SQRT_2.to_bits();
                const ONE: $bits = (1.0 as $float).to_bits();
                const GROW: $float = $float::from_bits(($bias + $fraction + 2) << $fraction);
                let is_tiny = self < $float::MIN_POSITIVE;
                let x = if is_tiny { self * GROW } else { self };
                let shift =
                    if is_tiny { $bias as $float + ($fraction + 2) as $float } else { $bias as $float };
                let biased = x.to_bits().wrapping_add(ONE - ROOT) >> $fraction;
                let m = $float::from_bits(x.to_bits().wrapping_sub(biased.wrapping_sub($bias) << $fraction));
                // An integer as the fraction of a float: no instruction to convert it is needed.
                const WHOLE: $float = $float::from_bits(($bias + $fraction) << $fraction);
                let k = ($float::from_bits(WHOLE.to_bits() | biased) - WHOLE) - shift;
                let f = m - 1.0;
                let s = f / (2.0 + f);
                let z = s * s;
                let series = z * $polynomial($log_series, z);
                let square = 0.5 * f * f;
                // 2 s = f - s f, which keeps what f has exactly: f - (f²/2 - s (f²/2 + series)).
                let found = k * $ln_2_high - ((square - (s * (square + series) + k * $ln_2_low)) - f);
                // The order matters: each choice overrides the ones before.
                let found = if self == $float::INFINITY { self } else { found };
                let found = if self == 0.0 { $float::NEG_INFINITY } else { found };
                if self >= 0.0 { found } else { $float::NAN }
            }

            #[inline(always)]
            fn tanh(self) -> $float {
                // (exp(2x) - 1)/(exp(2x) + 1), which is accurate also where it is small.
                let x = self.abs();
                let x = if x > $flat { $flat } else { x };
                let (less_one, half, rest) = $float::exp_parts(2.0 * x);
                let scale = half * rest;
                let less_one = less_one * scale + (scale - 1.0);
                let found = (less_one / (less_one + 2.0)).copysign(self);
                // Also keeps what NaN it is.
                if self == 0.0 { self } else { found }
            }

            #[inline(always)]
            fn sigmoid(self) -> $float {
                1.0 / (1.0 + Function::exp(-self))
            }

            #[inline(always)]
            fn expm1(self) -> $float {
                let (less_one, half, rest) = $float::exp_parts(self);
                let scale = half * rest;
                let found = less_one * scale + (scale - 1.0);
                // One more or less makes no difference to what is large, and infinities would cancel out.
                let found = if self > $large { (1.0 + less_one) * half * rest } else { found };
                if self == 0.0 { self } else { found }
            }

            #[inline(always)]
            fn log1p(self) -> $float {
                // What 1 + x was rounded by is made up for by a factor.
                let one_more = 1.0 + self;
                let found = Function::log(one_more) * (self / (one_more - 1.0));
                let found = if one_more == 1.0 { self } else { found };
                if self == $float::INFINITY { self } else { found }
            }

            #[inline(always)]
            fn sin(self) -> $float {
                libm::$sin(self)
            }

            #[inline(always)]
            fn cos(self) -> $float {
                libm::$cos(self)
            }

            #[inline(always)]
            fn rest(self, divisor: $float) -> $float {
                let rest = self % divisor;
                let moved = if (rest < 0.0) != (divisor < 0.0) { rest + divisor } else { rest };
                if rest == 0.0 { (0.0 as $float).copysign(divisor) } else { moved }
            }

            #[inline(always)]
            fn floor_div(self, divisor: $float) -> $float {
                let quotient = self / divisor;
                let rest = self % divisor;
                let near = (self - rest) / divisor;
                let near = if rest != 0.0 && (rest < 0.0) != (divisor < 0.0) { near - 1.0 } else { near };
                let whole = near.floor();
                let whole = if near - whole > 0.5 { whole + 1.0 } else { whole };
                let whole = if near == 0.0 { (0.0 as $float).copysign(quotient) } else { whole };
                if divisor == 0.0 { quotient } else { whole }
            }

            #[inline(always)]
            fn pow(self, exponent: $float) -> $float {
                if exponent == 2.0 {
                    self * self
                } else if exponent == 1.0 {
                    self
                } else if exponent == 0.5 && self >= 0.0 {
                    self.sqrt()
                } else if exponent == -1.0 {
                    1.0 / self
                } else {
                    self.powf(exponent)
                }
            }
        }

        impl ExpParts for $float {
            #[inline(always)]
            fn exp_parts(x: $float) -> ($float, $float, $float) {
                // Beyond these it is zero or infinite. Comparisons let NaN through.
                let x = if x < $least { $least } else { x };
                let x = if x > $most { $most } else { x };
                // x = k log 2 + r. Adding this rounds to an integer, which is then in the lowest bits.
                const ROUND: $float = 1.5 * $float::from_bits(($bias + $fraction) << $fraction);
                let shifted = x * std::$float::consts::LOG2_E + ROUND;
                let k = shifted - ROUND;
                let r = (x - k * $ln_2_high) - k * $ln_2_low;
                let series = $polynomial($exp_series, r);
                let less_one = r + r * r * series;
                // 2^k may be no float, so it is two. Both are made of integers below 2^bias that are above zero.
                let k = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(2 * $bias);
                let half = k >> 1;
                let power = |k: $bits| $float::from_bits(k << $fraction);
                (less_one, power(half), power(k.wrapping_sub(half)))
            }
        }
    };
}

/// `exp(x)` as `(1 + a) b c` with two powers of two, so that `exp(x) - 1` can be had without losing what is small.
trait ExpParts: Sized {
    fn exp_parts(x: Self) -> (Self, Self, Self);
}

/// A polynomial from its coefficients, the lowest first: by pairs, then pairs of pairs, so that little waits.
macro_rules! polynomial {
    ($name:ident, $float:ty) => {
        #[inline(always)]
        fn $name<const N: usize>(c: [$float; N], x: $float) -> $float {
            const { assert!(N <= 16) };
            // Conditions are known to the compiler, and loops would keep it from vectorising the one around.
            let (x2, x4, x8) = (x * x, (x * x) * (x * x), ((x * x) * (x * x)) * ((x * x) * (x * x)));
            let two = |i: usize| if i + 1 < N { c[i] + c[i + 1] * x } else { c[i] };
            let four = |i: usize| if i + 2 < N { two(i) + two(i + 2) * x2 } else { two(i) };
            let eight = |i: usize| if i + 4 < N { four(i) + four(i + 4) * x4 } else { four(i) };
            if N > 8 { eight(0) + eight(8) * x8 } else { eight(0) }
        }
    };
}
polynomial!(polynomial_f64, f64);
polynomial!(polynomial_f32, f32);

// High parts of log 2 have enough zeros at their ends that a product with k is exact. Series are those of exp, from x²/2 on,
// and of 2 atanh, from s²·2/3 on; what is left out is less than a twentieth of a unit in the last place.
function! {
    f64, u64, polynomial_f64, fraction: 52, bias: 1023,
    ln_2: 6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10, exp: -746.0, 710.0, tanh: 22.0,
    expm1: 60.0, sin: sin, cos: cos,
    exp_series: [
        1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0, 1.0 / 40_320.0, 1.0 / 362_880.0,
        1.0 / 3_628_800.0, 1.0 / 39_916_800.0, 1.0 / 479_001_600.0, 1.0 / 6_227_020_800.0,
    ],
    log_series: [
        2.0 / 3.0, 2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0, 2.0 / 11.0, 2.0 / 13.0, 2.0 / 15.0, 2.0 / 17.0, 2.0 / 19.0, 2.0 / 21.0,
    ],
}

function! {
    f32, u32, polynomial_f32, fraction: 23, bias: 127,
    ln_2: 0.693_138_1, 9.058_001e-6, exp: -104.0, 89.0, tanh: 10.0,
    expm1: 40.0, sin: sinf, cos: cosf,
    exp_series: [1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0],
    log_series: [2.0 / 3.0, 2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0, 2.0 / 11.0],
}

#[cfg(test)]
mod tests {
    use super::Function;
    use proptest::prelude::*;

    /// Floats between two others, in units in the last place.
    fn apart(a: f64, b: f64) -> u64 {
        let order = |x: f64| {
            let bits = x.to_bits() as i64;
            if bits < 0 { i64::MIN - bits } else { bits }
        };
        if a.is_nan() && b.is_nan() { 0 } else { order(a).abs_diff(order(b)) }
    }

    fn apart_32(a: f32, exact: f64) -> f64 {
        if f64::from(a) == exact || a.is_nan() && exact.is_nan() {
            return 0.0;
        }
        let size = (exact as f32).abs();
        if size.is_infinite() {
            return if a.is_infinite() { 0.0 } else { f64::INFINITY };
        }
        let unit = f64::from(f32::from_bits(size.to_bits() + 1)) - f64::from(size);
        (f64::from(a) - exact).abs() / unit
    }

    fn check(x: f64) {
        assert!(apart(Function::exp(x), x.exp()) <= 1, "exp {x:e}: {:e}", Function::exp(x));
        assert!(apart(Function::log(x), x.ln()) <= 1, "log {x:e}: {:e}", Function::log(x));
        assert!(apart(Function::tanh(x), x.tanh()) <= 4, "tanh {x:e}: {:e}", Function::tanh(x));
        let sigmoid = 1.0 / (1.0 + (-x).exp());
        assert!(apart(Function::sigmoid(x), sigmoid) <= 4, "sigmoid {x:e}: {:e}", Function::sigmoid(x));
        for exponent in [-1.0, 0.5, 1.0, 2.0, 3.0, -0.7] {
            let (found, exact) = (Function::pow(x, exponent), x.powf(exponent));
            assert!(apart(found, exact) <= 1, "{x:e} ** {exponent}: {found:e}, not {exact:e}");
        }
        assert!(apart(Function::expm1(x), x.exp_m1()) <= 4, "expm1 {x:e}: {:e}", Function::expm1(x));
        assert!(apart(Function::log1p(x), x.ln_1p()) <= 4, "log1p {x:e}: {:e}", Function::log1p(x));
        assert!(apart(Function::sin(x), x.sin()) <= 1, "sin {x:e}: {:e}", Function::sin(x));
        assert!(apart(Function::cos(x), x.cos()) <= 1, "cos {x:e}: {:e}", Function::cos(x));
        let x = x as f32;
        let wide = f64::from(x);
        assert!(apart_32(Function::expm1(x), wide.exp_m1()) <= 3.0, "expm1 {x:e}: {:e}", Function::expm1(x));
        assert!(apart_32(Function::log1p(x), wide.ln_1p()) <= 3.0, "log1p {x:e}: {:e}", Function::log1p(x));
        assert!(apart_32(Function::exp(x), wide.exp()) <= 1.2, "exp {x:e}: {:e}", Function::exp(x));
        assert!(apart_32(Function::log(x), wide.ln()) <= 1.0, "log {x:e}: {:e}", Function::log(x));
        assert!(apart_32(Function::tanh(x), wide.tanh()) <= 3.0, "tanh {x:e}: {:e}", Function::tanh(x));
    }

    #[test]
    fn ends_and_edges() {
        for x in [
            0.0,
            1.0,
            1e-300,
            5e-324,
            f64::MIN_POSITIVE,
            0.1,
            0.346,
            0.347,
            0.7,
            22.0,
            88.0,
            700.0,
            709.7,
            745.0,
            745.2,
            1e300,
        ] {
            check(x);
            check(-x);
        }
        for x in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            check(x);
        }
        assert_eq!(Function::exp(0.0f64), 1.0);
        assert_eq!(Function::log(1.0f64), 0.0);
        assert_eq!(Function::tanh(-0.0f64).to_bits(), (-0.0f64).to_bits());
        assert_eq!(Function::tanh(f64::NEG_INFINITY), -1.0);
        assert_eq!(Function::exp(-745.0f64), 5e-324);
        assert_eq!(Function::exp(89.0f32), f32::INFINITY);
        assert_eq!(Function::exp(-104.0f32), 0.0);
        assert_eq!(Function::log(f32::from_bits(1)), f32::from_bits(1).ln());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn they_are_what_they_are_called(bits in any::<u64>(), x in -50.0..50.0f64, scale in -12i32..4) {
            check(f64::from_bits(bits));
            check(f64::from(f32::from_bits(bits as u32)));
            check(x);
            check(x * 10f64.powi(scale));
        }
    }
}
