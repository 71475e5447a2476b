//! Single elements: what the operations on them mean.

use crate::dtype::DType;
use crate::function::{Function, whole_quotient, whole_rest};
use crate::op::{BinaryOp, UnaryOp};
use std::fmt;

/// One element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// An integer. Arithmetic wraps, as numpy's does.
    I64(i64),
    /// A single.
    F32(f32),
    /// A double.
    F64(f64),
}

impl Scalar {
    /// Its type.
    pub const fn dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::I64(_) => DType::I64,
            Scalar::F32(_) => DType::F32,
            Scalar::F64(_) => DType::F64,
        }
    }

    /// The nearest element of another type: floats are cut towards zero to become integers, and everything
    /// except zero is true. `dtype` is one of the four that are computed with.
    pub fn convert(self, dtype: DType) -> Scalar {
        match dtype {
            DType::Bool => Scalar::Bool(match self {
                Scalar::Bool(x) => x,
                Scalar::I64(x) => x != 0,
                Scalar::F32(x) => x != 0.0,
                Scalar::F64(x) => x != 0.0,
            }),
            DType::I64 => Scalar::I64(match self {
                Scalar::Bool(x) => i64::from(x),
                Scalar::I64(x) => x,
                Scalar::F32(x) => x as i64,
                Scalar::F64(x) => x as i64,
            }),
            DType::F32 => Scalar::F32(match self {
                Scalar::I64(x) => x as f32,
                Scalar::F32(x) => x,
                other => other.to_f64() as f32,
            }),
            _ => Scalar::F64(self.to_f64()),
        }
    }

    /// As a double.
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(x) => f64::from(u8::from(x)),
            Scalar::I64(x) => x as f64,
            Scalar::F32(x) => f64::from(x),
            Scalar::F64(x) => x,
        }
    }

    /// True when it is not zero.
    pub fn is_true(self) -> bool {
        matches!(self.convert(DType::Bool), Scalar::Bool(true))
    }

    /// `op` of this element. Functions that make floats take integers and bools as doubles.
    pub fn unary(self, op: UnaryOp) -> Scalar {
        match (op, self) {
            (UnaryOp::Not, x) => Scalar::Bool(!x.is_true()),
            (_, Scalar::F64(x)) => Scalar::F64(unary_f64(op, x)),
            (_, Scalar::F32(x)) => Scalar::F32(unary_f32(op, x)),
            (op, x) if op.makes_float() => Scalar::F64(unary_f64(op, x.to_f64())),
            (UnaryOp::Neg, x) => Scalar::I64(x.to_i64().wrapping_neg()),
            (UnaryOp::Abs, x) => Scalar::I64(x.to_i64().wrapping_abs()),
            (UnaryOp::Sign, x) => Scalar::I64(x.to_i64().signum()),
            (UnaryOp::Relu, x) => Scalar::I64(x.to_i64().max(0)),
            // Whole numbers are rounded.
            (_, x) => Scalar::I64(x.to_i64()),
        }
    }

    /// `self op other`, both of one type.
    pub fn binary(self, op: BinaryOp, other: Scalar) -> Scalar {
        match (self, other) {
            (Scalar::F64(a), Scalar::F64(b)) => match compare(op, a.partial_cmp(&b)) {
                Some(truth) => Scalar::Bool(truth),
                None => Scalar::F64(binary_f64(op, a, b)),
            },
            (Scalar::F32(a), Scalar::F32(b)) => match compare(op, a.partial_cmp(&b)) {
                Some(truth) => Scalar::Bool(truth),
                None => Scalar::F32(binary_f32(op, a, b)),
            },
            (Scalar::Bool(a), Scalar::Bool(b)) if op.is_logical() => {
                Scalar::Bool(if op == BinaryOp::And { a && b } else { a || b })
            }
            (Scalar::Bool(a), Scalar::Bool(b)) if matches!(op, BinaryOp::Min | BinaryOp::Max) => {
                Scalar::Bool(if op == BinaryOp::Min { a && b } else { a || b })
            }
            (a, b) if matches!(op, BinaryOp::Div | BinaryOp::Pow) => {
                Scalar::F64(binary_f64(op, a.to_f64(), b.to_f64()))
            }
            (a, b) => {
                let (a, b) = (a.to_i64(), b.to_i64());
                match compare(op, Some(a.cmp(&b))) {
                    Some(truth) => Scalar::Bool(truth),
                    None => Scalar::I64(binary_i64(op, a, b)),
                }
            }
        }
    }

    /// As an integer, see [`Scalar::convert`].
    pub fn to_i64(self) -> i64 {
        match self.convert(DType::I64) {
            Scalar::I64(x) => x,
            _ => 0,
        }
    }
}

impl BinaryOp {
    /// The element `e` with `e ⊕ x = x`, for operations that have one.
    pub fn identity(self, dtype: DType) -> Option<Scalar> {
        let number = |int: i64, float: f64| match dtype {
            DType::Bool => Scalar::Bool(int != 0),
            DType::I64 => Scalar::I64(int),
            DType::F32 => Scalar::F32(float as f32),
            _ => Scalar::F64(float),
        };
        match self {
            BinaryOp::Add => Some(number(0, 0.0)),
            BinaryOp::Mul | BinaryOp::And => Some(number(1, 1.0)),
            BinaryOp::Or => Some(number(0, 0.0)),
            BinaryOp::Min => Some(number(i64::MAX, f64::INFINITY)),
            BinaryOp::Max if dtype == DType::Bool => Some(Scalar::Bool(false)),
            BinaryOp::Max => Some(number(i64::MIN, f64::NEG_INFINITY)),
            _ => None,
        }
    }

    /// The element `z` with `z ⊗ x = x ⊗ z = z`, for finite `x`.
    pub fn annihilator(self, dtype: DType) -> Option<Scalar> {
        match (self, dtype) {
            (BinaryOp::Mul, _) => BinaryOp::Add.identity(dtype),
            (BinaryOp::And, DType::Bool) => Some(Scalar::Bool(false)),
            (BinaryOp::Or, DType::Bool) => Some(Scalar::Bool(true)),
            (BinaryOp::Add, DType::F32 | DType::F64) => BinaryOp::Min.identity(dtype),
            _ => None,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(x) => write!(f, "{x}"),
            Scalar::I64(x) => write!(f, "{x}"),
            Scalar::F32(x) => write!(f, "{x:?}"),
            Scalar::F64(x) => write!(f, "{x:?}"),
        }
    }
}

fn compare(op: BinaryOp, order: Option<std::cmp::Ordering>) -> Option<bool> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    Some(match op {
        BinaryOp::Eq => order == Some(Equal),
        BinaryOp::Ne => order != Some(Equal),
        BinaryOp::Lt => order == Some(Less),
        BinaryOp::Le => matches!(order, Some(Less | Equal)),
        BinaryOp::Gt => order == Some(Greater),
        BinaryOp::Ge => matches!(order, Some(Greater | Equal)),
        _ => return None,
    })
}

macro_rules! float_ops {
    ($unary:ident, $binary:ident, $float:ty) => {
        fn $unary(op: UnaryOp, x: $float) -> $float {
            match op {
                UnaryOp::Neg => -x,
                UnaryOp::Exp => Function::exp(x),
                UnaryOp::Log => Function::log(x),
                UnaryOp::Sqrt => x.sqrt(),
                UnaryOp::Abs => x.abs(),
                // numpy's: zero stays zero, and NaN stays NaN.
                UnaryOp::Sign if x == 0.0 => 0.0,
                UnaryOp::Sign => x.signum(),
                UnaryOp::Tanh => Function::tanh(x),
                UnaryOp::Sigmoid => Function::sigmoid(x),
                UnaryOp::Relu if x < 0.0 => 0.0,
                UnaryOp::Relu | UnaryOp::Not => x,
                UnaryOp::Expm1 => Function::expm1(x),
                UnaryOp::Log1p => Function::log1p(x),
                UnaryOp::Sin => Function::sin(x),
                UnaryOp::Cos => Function::cos(x),
                UnaryOp::Floor => x.floor(),
                UnaryOp::Ceil => x.ceil(),
                UnaryOp::Round => x.round_ties_even(),
            }
        }

        fn $binary(op: BinaryOp, a: $float, b: $float) -> $float {
            match op {
                BinaryOp::Add => a + b,
                BinaryOp::Sub => a - b,
                BinaryOp::Mul => a * b,
                BinaryOp::Div => a / b,
                BinaryOp::Mod => Function::rest(a, b),
                BinaryOp::FloorDiv => Function::floor_div(a, b),
                BinaryOp::Pow => Function::pow(a, b),
                BinaryOp::Min if a.is_nan() || a < b => a,
                BinaryOp::Max if a.is_nan() || a > b => a,
                _ => b,
            }
        }
    };
}

float_ops!(unary_f64, binary_f64, f64);
float_ops!(unary_f32, binary_f32, f32);

fn binary_i64(op: BinaryOp, a: i64, b: i64) -> i64 {
    match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Mod | BinaryOp::FloorDiv if b == 0 => 0,
        BinaryOp::Mod => whole_rest(a, b),
        BinaryOp::FloorDiv => whole_quotient(a, b),
        BinaryOp::Min => a.min(b),
        BinaryOp::Max => a.max(b),
        _ => b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_compute_as_numpy_does() {
        let check = |a: Scalar, op, b: Scalar, expected: Scalar| {
            assert_eq!(a.binary(op, b), expected, "{a} {op} {b}")
        };
        let (i, f) = (Scalar::I64, Scalar::F64);
        check(i(i64::MAX), BinaryOp::Add, i(1), i(i64::MIN));
        check(i(-7), BinaryOp::Mod, i(3), i(2));
        check(i(7), BinaryOp::Mod, i(0), i(0));
        check(i(i64::MIN), BinaryOp::Mod, i(-1), i(0));
        check(f(-7.5), BinaryOp::Mod, f(2.0), f(0.5));
        assert!(f(-2.0).binary(BinaryOp::Mod, f(1.0)).to_f64().is_sign_positive());
        assert!(f(2.0).binary(BinaryOp::Mod, f(-1.0)).to_f64().is_sign_negative());
        assert!(f(f64::NAN).binary(BinaryOp::Mod, f(-1.0)).to_f64().is_nan());
        check(i(-7), BinaryOp::FloorDiv, i(3), i(-3));
        check(i(7), BinaryOp::FloorDiv, i(-7), i(-1));
        check(i(7), BinaryOp::FloorDiv, i(0), i(0));
        check(i(i64::MIN), BinaryOp::FloorDiv, i(-1), i(i64::MIN));
        check(f(-7.5), BinaryOp::FloorDiv, f(2.0), f(-4.0));
        check(f(-1.0), BinaryOp::FloorDiv, f(f64::INFINITY), f(-1.0));
        check(f(1.0), BinaryOp::FloorDiv, f(0.0), f(f64::INFINITY));
        check(i(1), BinaryOp::Div, i(4), f(0.25));
        check(f(2.0), BinaryOp::Le, f(2.0), Scalar::Bool(true));
        assert!(f(f64::NAN).binary(BinaryOp::Min, f(1.0)).to_f64().is_nan());
        assert!(f(1.0).binary(BinaryOp::Max, f(f64::NAN)).to_f64().is_nan());
        assert_eq!(i(i64::MIN).unary(UnaryOp::Abs), i(i64::MIN));
        assert_eq!(f(-0.0).unary(UnaryOp::Sign), f(0.0));
        assert_eq!([2.5, 3.5, -0.5].map(|x| f(x).unary(UnaryOp::Round)), [2.0, 4.0, -0.0].map(f));
        assert_eq!(i(-3).unary(UnaryOp::Floor), i(-3));
    }

    const ALL: [BinaryOp; 17] = [
        BinaryOp::Add,
        BinaryOp::Sub,
        BinaryOp::Mul,
        BinaryOp::Div,
        BinaryOp::Mod,
        BinaryOp::FloorDiv,
        BinaryOp::Pow,
        BinaryOp::Min,
        BinaryOp::Max,
        BinaryOp::Eq,
        BinaryOp::Ne,
        BinaryOp::Lt,
        BinaryOp::Le,
        BinaryOp::Gt,
        BinaryOp::Ge,
        BinaryOp::And,
        BinaryOp::Or,
    ];

    fn samples(op: BinaryOp) -> Vec<Scalar> {
        if op.is_logical() {
            vec![Scalar::Bool(false), Scalar::Bool(true)]
        } else {
            (-4..=4).map(|x| Scalar::F64(f64::from(x))).collect()
        }
    }

    #[test]
    fn what_is_declared_holds_on_all_small_numbers() {
        for op in ALL {
            let values = samples(op);
            let f = |a: &Scalar, b: &Scalar| a.binary(op, *b);
            for a in &values {
                if let Some(e) = op.identity(a.dtype()) {
                    assert_eq!((f(&e, a), f(a, &e)), (*a, *a), "{op} identity");
                }
                if let Some(z) = op.annihilator(a.dtype()) {
                    assert_eq!((f(&z, a), f(a, &z)), (z, z), "{op} annihilator");
                }
                for b in &values {
                    if op.is_commutative() {
                        assert_eq!(f(a, b), f(b, a), "{op} commutes");
                    }
                    for c in &values {
                        if op.is_associative() {
                            assert_eq!(f(&f(a, b), c), f(a, &f(b, c)), "{op} associates");
                        }
                        for plus in ALL.into_iter().filter(|&plus| op.distributes_over(plus)) {
                            let g = |x: Scalar, y: Scalar| x.binary(plus, y);
                            assert_eq!(f(a, &g(*b, *c)), g(f(a, b), f(a, c)), "{op} over {plus}");
                        }
                    }
                    for unary in UnaryOp::NAMED.into_iter().chain([UnaryOp::Neg]) {
                        if !op.is_logical() && unary.distributes_over(op) {
                            let u = |x: &Scalar| x.unary(unary);
                            assert_eq!(u(&f(a, b)), f(&u(a), &u(b)), "{unary} over {op}");
                        }
                    }
                }
            }
        }
    }
}
