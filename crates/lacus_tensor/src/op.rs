//! Operations on single elements, and what is known of them: which are associative, which commute, what their
//! identity is, what distributes over what. Rules with side conditions ask here.

use std::fmt;

/// An operation on one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `-x`
    Neg,
    /// `not x`
    Not,
    /// `exp(x)`
    Exp,
    /// `log(x)`
    Log,
    /// `sqrt(x)`
    Sqrt,
    /// `abs(x)`
    Abs,
    /// `sign(x)`: -1, 0 or 1
    Sign,
    /// `tanh(x)`
    Tanh,
    /// `sigmoid(x)`: `1 / (1 + exp(-x))`
    Sigmoid,
    /// `relu(x)`: `max(x, 0)`
    Relu,
    /// `expm1(x)`: `exp(x) - 1`, also where that is small
    Expm1,
    /// `log1p(x)`: `log(1 + x)`, also where that is small
    Log1p,
    /// `sin(x)`
    Sin,
    /// `cos(x)`
    Cos,
    /// `floor(x)`: the next whole number below
    Floor,
    /// `ceil(x)`: the next whole number above
    Ceil,
    /// `round(x)`: the nearest whole number, of two the even one
    Round,
}

/// An operation on two elements of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a / b`, always a float
    Div,
    /// `a % b`, with the sign of `b`; 0 for integers when `b` is 0, as numpy has it
    Mod,
    /// `a // b`, rounded down; 0 for integers when `b` is 0, as numpy has it
    FloorDiv,
    /// `a ** b`, always a float
    Pow,
    /// `min(a, b)`; NaN when one is
    Min,
    /// `max(a, b)`; NaN when one is
    Max,
    /// `a == b`
    Eq,
    /// `a != b`
    Ne,
    /// `a < b`
    Lt,
    /// `a <= b`
    Le,
    /// `a > b`
    Gt,
    /// `a >= b`
    Ge,
    /// `a and b`
    And,
    /// `a or b`
    Or,
}

impl UnaryOp {
    /// The functions a program calls by name.
    pub const NAMED: [UnaryOp; 15] = [
        UnaryOp::Exp,
        UnaryOp::Log,
        UnaryOp::Sqrt,
        UnaryOp::Abs,
        UnaryOp::Sign,
        UnaryOp::Tanh,
        UnaryOp::Sigmoid,
        UnaryOp::Relu,
        UnaryOp::Expm1,
        UnaryOp::Log1p,
        UnaryOp::Sin,
        UnaryOp::Cos,
        UnaryOp::Floor,
        UnaryOp::Ceil,
        UnaryOp::Round,
    ];

    /// The name in programs.
    pub const fn name(self) -> &'static str {
        match self {
            UnaryOp::Neg => "-",
            UnaryOp::Not => "not",
            UnaryOp::Exp => "exp",
            UnaryOp::Log => "log",
            UnaryOp::Sqrt => "sqrt",
            UnaryOp::Abs => "abs",
            UnaryOp::Sign => "sign",
            UnaryOp::Tanh => "tanh",
            UnaryOp::Sigmoid => "sigmoid",
            UnaryOp::Relu => "relu",
            UnaryOp::Expm1 => "expm1",
            UnaryOp::Log1p => "log1p",
            UnaryOp::Sin => "sin",
            UnaryOp::Cos => "cos",
            UnaryOp::Floor => "floor",
            UnaryOp::Ceil => "ceil",
            UnaryOp::Round => "round",
        }
    }

    /// True when the result is a float whatever goes in.
    pub const fn makes_float(self) -> bool {
        matches!(
            self,
            UnaryOp::Exp
                | UnaryOp::Log
                | UnaryOp::Sqrt
                | UnaryOp::Tanh
                | UnaryOp::Sigmoid
                | UnaryOp::Expm1
                | UnaryOp::Log1p
                | UnaryOp::Sin
                | UnaryOp::Cos
        )
    }

    /// True when `f(a ⊕ b) = f(a) ⊕ f(b)`. Sums are equal up to rounding.
    pub const fn distributes_over(self, op: BinaryOp) -> bool {
        match (self, op) {
            (UnaryOp::Neg, BinaryOp::Add)
            | (UnaryOp::Abs, BinaryOp::Mul)
            | (UnaryOp::Sign, BinaryOp::Mul) => true,
            // Functions that never fall keep the order of their arguments.
            (
                UnaryOp::Exp
                | UnaryOp::Sign
                | UnaryOp::Tanh
                | UnaryOp::Sigmoid
                | UnaryOp::Relu
                | UnaryOp::Expm1
                | UnaryOp::Floor
                | UnaryOp::Ceil
                | UnaryOp::Round,
                BinaryOp::Min | BinaryOp::Max,
            ) => true,
            _ => false,
        }
    }
}

impl BinaryOp {
    /// The name in programs.
    pub const fn name(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Mod => "%",
            BinaryOp::FloorDiv => "//",
            BinaryOp::Pow => "**",
            BinaryOp::Min => "min",
            BinaryOp::Max => "max",
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::Lt => "<",
            BinaryOp::Le => "<=",
            BinaryOp::Gt => ">",
            BinaryOp::Ge => ">=",
            BinaryOp::And => "and",
            BinaryOp::Or => "or",
        }
    }

    /// True for `==`, `<` and their kin, whose result is a bool.
    pub const fn is_comparison(self) -> bool {
        matches!(
            self,
            BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge
        )
    }

    /// True for `and` and `or`, which take bools only.
    pub const fn is_logical(self) -> bool {
        matches!(self, BinaryOp::And | BinaryOp::Or)
    }

    /// True for `%` and `//`, which are errors of integers when the divisor is 0.
    pub const fn divides_whole(self) -> bool {
        matches!(self, BinaryOp::Mod | BinaryOp::FloorDiv)
    }

    /// True when the grouping does not matter (for floats: up to rounding).
    pub const fn is_associative(self) -> bool {
        matches!(
            self,
            BinaryOp::Add | BinaryOp::Mul | BinaryOp::Min | BinaryOp::Max | BinaryOp::And | BinaryOp::Or
        )
    }

    /// True when the order does not matter.
    pub const fn is_commutative(self) -> bool {
        self.is_associative() || matches!(self, BinaryOp::Eq | BinaryOp::Ne)
    }

    /// True when `a ⊗ (b ⊕ c) = (a ⊗ b) ⊕ (a ⊗ c)` on both sides, which makes (⊕, ⊗) a semiring. Sums and
    /// products are equal up to rounding; integers as long as nothing overflows.
    pub const fn distributes_over(self, plus: BinaryOp) -> bool {
        matches!(
            (self, plus),
            (BinaryOp::Mul, BinaryOp::Add)
                | (BinaryOp::Add, BinaryOp::Min | BinaryOp::Max)
                | (BinaryOp::Min, BinaryOp::Max | BinaryOp::Min)
                | (BinaryOp::Max, BinaryOp::Min | BinaryOp::Max)
                | (BinaryOp::And, BinaryOp::Or | BinaryOp::And)
                | (BinaryOp::Or, BinaryOp::And | BinaryOp::Or)
        )
    }
}

impl fmt::Display for UnaryOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for BinaryOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
