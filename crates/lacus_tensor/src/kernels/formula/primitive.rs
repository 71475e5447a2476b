//! The loops of a formula: one operation on a run of elements, each compiled for every type it takes, for operands that
//! are runs or single elements, and for the vectors of several machines.

use super::Kind;
use crate::function::{Function, whole_quotient, whole_rest};
use crate::kernels::number::{Value, sealed::Sealed};
use crate::kernels::vectorise::{Vectors, vectors};
use crate::op::{BinaryOp, UnaryOp};
use std::marker::PhantomData;

/// What a loop is called with.
pub(super) struct Operands {
    /// Where `n` results go. They overlap no operand.
    pub(super) out: *mut u8,
    /// `n` elements, or one.
    pub(super) from: [*const u8; 3],
    /// How many.
    pub(super) n: usize,
}

/// A loop. True when an integer met a zero divisor.
///
/// # Safety
/// The operands are as the loop's operation, types and form want them, aligned, and the machine has the vectors.
pub(super) type Primitive = unsafe fn(&Operands) -> bool;

/// A loop for each form of its operands: bit `i` of the index is set when operand `i` is a single element. If all are, the
/// first form does it with `n = 1`.
pub(super) type Forms = [Primitive; 8];

/// The loop of an operation on one operand of `kind`. `None` if there is none: convert first.
pub(super) fn unary(op: UnaryOp, kind: Kind) -> Option<(Forms, Kind)> {
    macro_rules! floats {
        ($t:ty, $($name:ident),*) => {
            match op {
                $(UnaryOp::$name => map1::<$t, ops::$name>(),)*
                UnaryOp::Not => return None,
            }
        };
    }
    macro_rules! of_floats {
        ($t:ty) => {
            floats!(
                $t, Neg, Exp, Log, Sqrt, Abs, Sign, Tanh, Sigmoid, Relu, Expm1, Log1p, Sin, Cos, Floor, Ceil,
                Round
            )
        };
    }
    Some(match kind {
        Kind::F64 => of_floats!(f64),
        Kind::F32 => of_floats!(f32),
        Kind::I64 => match op {
            UnaryOp::Neg => map1::<i64, ops::Neg>(),
            UnaryOp::Abs => map1::<i64, ops::Abs>(),
            UnaryOp::Sign => map1::<i64, ops::Sign>(),
            UnaryOp::Relu => map1::<i64, ops::Relu>(),
            UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round => map1::<i64, ops::Floor>(),
            _ => return None,
        },
        Kind::Bool if op == UnaryOp::Not => map1::<u8, ops::Not>(),
        Kind::Bool => return None,
    })
}

/// The loop of an operation on two operands of `kind`. `None` if there is none: convert first.
pub(super) fn binary(op: BinaryOp, kind: Kind) -> Option<(Forms, Kind)> {
    macro_rules! by_name {
        ($t:ty, $($name:ident),*) => {
            match op {
                $(BinaryOp::$name => map2::<$t, ops::$name>(),)*
                _ => return None,
            }
        };
    }
    Some(match kind {
        Kind::F64 => by_name!(f64, Add, Sub, Mul, Div, Mod, FloorDiv, Pow, Min, Max, Eq, Ne, Lt, Le, Gt, Ge),
        Kind::F32 => by_name!(f32, Add, Sub, Mul, Div, Mod, FloorDiv, Pow, Min, Max, Eq, Ne, Lt, Le, Gt, Ge),
        Kind::I64 if op == BinaryOp::Mod => divide::<ops::Mod>(),
        Kind::I64 if op == BinaryOp::FloorDiv => divide::<ops::FloorDiv>(),
        Kind::I64 => by_name!(i64, Add, Sub, Mul, Min, Max, Eq, Ne, Lt, Le, Gt, Ge),
        Kind::Bool => by_name!(u8, Min, Max, And, Or, Eq, Ne, Lt, Le, Gt, Ge),
    })
}

/// The loop that turns elements of one type into another. `None` if there is nothing to do.
pub(super) fn convert(from: Kind, to: Kind) -> Option<Forms> {
    macro_rules! pairs {
        ($($a:ident $ta:ty => $($b:ident $tb:ty),*;)*) => {
            match (from, to) {
                $($((Kind::$a, Kind::$b) => [pick::<Convert<$ta, $tb>>()].repeat_forms(),)*)*
                _ => return None,
            }
        };
    }
    Some(pairs!(
        Bool u8 => I64 i64, F32 f32, F64 f64;
        I64 i64 => Bool u8, F32 f32, F64 f64;
        F32 f32 => Bool u8, I64 i64, F64 f64;
        F64 f64 => Bool u8, I64 i64, F32 f32;
    ))
}

/// The loop of `if c then a else b`: operands c, a, b.
pub(super) fn select(kind: Kind) -> Forms {
    match kind {
        Kind::Bool => select_of::<u8>(),
        Kind::F32 => select_of::<f32>(),
        Kind::I64 => select_of::<i64>(),
        Kind::F64 => select_of::<f64>(),
    }
}

fn select_of<T: Value>() -> Forms {
    [
        pick::<Choose<Many<u8>, Many<T>, Many<T>>>(),
        pick::<Choose<One<u8>, Many<T>, Many<T>>>(),
        pick::<Choose<Many<u8>, One<T>, Many<T>>>(),
        pick::<Choose<One<u8>, One<T>, Many<T>>>(),
        pick::<Choose<Many<u8>, Many<T>, One<T>>>(),
        pick::<Choose<One<u8>, Many<T>, One<T>>>(),
        pick::<Choose<Many<u8>, One<T>, One<T>>>(),
        pick::<Choose<Many<u8>, Many<T>, Many<T>>>(),
    ]
}

fn map1<T: Value, O: Op1<T>>() -> (Forms, Kind) {
    ([pick::<Map1<T, O>>()].repeat_forms(), Kind::of::<T>())
}

fn map2<T: Value, O: Op2<T>>() -> (Forms, Kind) {
    let forms = [
        pick::<Map2<Many<T>, Many<T>, O>>(),
        pick::<Map2<One<T>, Many<T>, O>>(),
        pick::<Map2<Many<T>, One<T>, O>>(),
    ];
    (forms.repeat_forms(), Kind::of::<O::Out>())
}

fn divide<O: Op2<i64, Out = i64>>() -> (Forms, Kind) {
    let forms = [
        pick::<Divide<Many<i64>, Many<i64>, O>>(),
        pick::<Divide<One<i64>, Many<i64>, O>>(),
        pick::<Divide<Many<i64>, One<i64>, O>>(),
    ];
    (forms.repeat_forms(), Kind::I64)
}

trait RepeatForms {
    /// Fills up with the first, which is never wrong to have where nothing else is called for.
    fn repeat_forms(&self) -> Forms;
}

impl<const N: usize> RepeatForms for [Primitive; N] {
    fn repeat_forms(&self) -> Forms {
        std::array::from_fn(|i| *self.get(i).unwrap_or(&self[0]))
    }
}

/// A loop before it is compiled for somebody's vectors.
trait Body {
    /// # Safety
    /// As [`Primitive`].
    unsafe fn run(operands: &Operands) -> bool;
}

fn pick<B: Body>() -> Primitive {
    match vectors() {
        Vectors::Baseline => baseline::<B>,
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => avx2::<B>,
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => avx512::<B>,
    }
}

unsafe fn baseline<B: Body>(operands: &Operands) -> bool {
    // SAFETY: the caller's promise.
    unsafe { B::run(operands) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<B: Body>(operands: &Operands) -> bool {
    // SAFETY: the caller's promise.
    unsafe { B::run(operands) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn avx512<B: Body>(operands: &Operands) -> bool {
    // SAFETY: the caller's promise.
    unsafe { B::run(operands) }
}

/// An operand.
trait Operand: Copy {
    type T: Value;
    /// # Safety
    /// It is at `from`.
    unsafe fn new(from: *const u8) -> Self;
    /// # Safety
    /// Element `i` exists.
    unsafe fn at(self, i: usize) -> Self::T;
}

/// A run of elements.
#[derive(Clone, Copy)]
struct Many<T>(*const T);

/// An element that stands for a run. It is read once, before the loop.
#[derive(Clone, Copy)]
struct One<T>(T);

impl<T: Value> Operand for Many<T> {
    type T = T;
    #[inline(always)]
    unsafe fn new(from: *const u8) -> Many<T> {
        Many(from.cast())
    }
    #[inline(always)]
    unsafe fn at(self, i: usize) -> T {
        // SAFETY: the caller's promise.
        unsafe { *self.0.add(i) }
    }
}

impl<T: Value> Operand for One<T> {
    type T = T;
    #[inline(always)]
    unsafe fn new(from: *const u8) -> One<T> {
        // SAFETY: the caller's promise.
        One(unsafe { *from.cast() })
    }
    #[inline(always)]
    unsafe fn at(self, _: usize) -> T {
        self.0
    }
}

struct Map1<T, O>(PhantomData<(T, O)>);

impl<T: Value, O: Op1<T>> Body for Map1<T, O> {
    #[inline(always)]
    unsafe fn run(operands: &Operands) -> bool {
        let (out, a) = (operands.out.cast::<T>(), operands.from[0].cast::<T>());
        for i in 0..operands.n {
            // SAFETY: the caller's promise.
            unsafe { *out.add(i) = O::apply(*a.add(i)) };
        }
        false
    }
}

struct Map2<A, B, O>(PhantomData<(A, B, O)>);

impl<A: Operand, B: Operand<T = A::T>, O: Op2<A::T>> Body for Map2<A, B, O> {
    #[inline(always)]
    unsafe fn run(operands: &Operands) -> bool {
        let out = operands.out.cast::<O::Out>();
        // SAFETY: the caller's promise.
        let (a, b) = unsafe { (A::new(operands.from[0]), B::new(operands.from[1])) };
        for i in 0..operands.n {
            // SAFETY: the caller's promise.
            unsafe { *out.add(i) = O::apply(a.at(i), b.at(i)) };
        }
        false
    }
}

/// `%` and `//` of integers, which watch for zeros.
struct Divide<A, B, O>(PhantomData<(A, B, O)>);

impl<A: Operand<T = i64>, B: Operand<T = i64>, O: Op2<i64, Out = i64>> Body for Divide<A, B, O> {
    #[inline(always)]
    unsafe fn run(operands: &Operands) -> bool {
        let out = operands.out.cast::<i64>();
        // SAFETY: the caller's promise.
        let (a, b) = unsafe { (A::new(operands.from[0]), B::new(operands.from[1])) };
        let mut is_zero_met = false;
        for i in 0..operands.n {
            // SAFETY: the caller's promise.
            unsafe {
                let (a, b) = (a.at(i), b.at(i));
                is_zero_met |= b == 0;
                *out.add(i) = if b == 0 { 0 } else { O::apply(a, b) };
            }
        }
        is_zero_met
    }
}

struct Convert<A, B>(PhantomData<(A, B)>);

impl<A: Value + Cast<B>, B: Value> Body for Convert<A, B> {
    #[inline(always)]
    unsafe fn run(operands: &Operands) -> bool {
        let (out, a) = (operands.out.cast::<B>(), operands.from[0].cast::<A>());
        for i in 0..operands.n {
            // SAFETY: the caller's promise.
            unsafe { *out.add(i) = (*a.add(i)).cast() };
        }
        false
    }
}

struct Choose<C, A, B>(PhantomData<(C, A, B)>);

impl<C: Operand<T = u8>, A: Operand, B: Operand<T = A::T>> Body for Choose<C, A, B> {
    #[inline(always)]
    unsafe fn run(operands: &Operands) -> bool {
        let out = operands.out.cast::<A::T>();
        // SAFETY: the caller's promise.
        let (c, a, b) =
            unsafe { (C::new(operands.from[0]), A::new(operands.from[1]), B::new(operands.from[2])) };
        for i in 0..operands.n {
            // SAFETY: the caller's promise. Both are read before the choice, so that it is one instruction.
            unsafe {
                let (c, a, b) = (c.at(i), a.at(i), b.at(i));
                *out.add(i) = if c != 0 { a } else { b };
            }
        }
        false
    }
}

/// An operation that keeps its type.
trait Op1<T> {
    fn apply(x: T) -> T;
}

/// An operation on two elements of one type.
trait Op2<T> {
    type Out: Value;
    fn apply(a: T, b: T) -> Self::Out;
}

/// `as`, with truths.
trait Cast<B> {
    fn cast(self) -> B;
}

macro_rules! cast {
    ($($a:ty => $($b:ty),*;)*) => {$($(
        impl Cast<$b> for $a {
            #[inline(always)]
            fn cast(self) -> $b {
                self as $b
            }
        }
    )*)*};
}
cast!(u8 => i64, f32, f64; i64 => f32, f64; f32 => i64, f64; f64 => i64, f32;);

macro_rules! truth {
    ($($a:ty),*) => {$(
        impl Cast<u8> for $a {
            #[inline(always)]
            fn cast(self) -> u8 {
                u8::from(self != <$a>::ZERO)
            }
        }
    )*};
}
truth!(i64, f32, f64);

/// The operations, by their names in [`UnaryOp`] and [`BinaryOp`].
mod ops {
    use super::{Function, Op1, Op2, Sealed, whole_quotient, whole_rest};

    macro_rules! op1 {
        ($($name:ident { $($t:ty)* => |$x:ident| $body:expr })*) => {$($(
            impl Op1<$t> for $name {
                #[inline(always)]
                fn apply($x: $t) -> $t {
                    $body
                }
            }
        )*)*};
    }

    macro_rules! names {
        ($($name:ident)*) => {$(pub(super) struct $name;)*};
    }
    names!(Neg Not Exp Log Sqrt Abs Sign Tanh Sigmoid Relu Expm1 Log1p Sin Cos Floor Ceil Round);
    names!(Add Sub Mul Div Mod FloorDiv Pow Min Max Eq Ne Lt Le Gt Ge And Or);

    op1! {
        Neg { f32 f64 => |x| -x }
        Neg { i64 => |x| x.wrapping_neg() }
        Not { u8 => |x| u8::from(x == 0) }
        Exp { f32 f64 => |x| Function::exp(x) }
        Log { f32 f64 => |x| Function::log(x) }
        Sqrt { f32 f64 => |x| x.sqrt() }
        Abs { f32 f64 => |x| x.abs() }
        Abs { i64 => |x| x.wrapping_abs() }
        Sign { f32 f64 => |x| if x == 0.0 { 0.0 } else { x.signum() } }
        Sign { i64 => |x| i64::from(x > 0) - i64::from(x < 0) }
        Tanh { f32 f64 => |x| Function::tanh(x) }
        Sigmoid { f32 f64 => |x| Function::sigmoid(x) }
        Relu { f32 f64 => |x| if x < 0.0 { 0.0 } else { x } }
        Relu { i64 => |x| x.max(0) }
        Expm1 { f32 f64 => |x| Function::expm1(x) }
        Log1p { f32 f64 => |x| Function::log1p(x) }
        Sin { f32 f64 => |x| Function::sin(x) }
        Cos { f32 f64 => |x| Function::cos(x) }
        Floor { f32 f64 => |x| x.floor() }
        Floor { i64 => |x| x }
        Ceil { f32 f64 => |x| x.ceil() }
        Round { f32 f64 => |x| x.round_ties_even() }
    }

    macro_rules! same {
        ($($name:ident { $($t:ty)* => |$a:ident, $b:ident| $body:expr })*) => {$($(
            impl Op2<$t> for $name {
                type Out = $t;
                #[inline(always)]
                fn apply($a: $t, $b: $t) -> $t {
                    $body
                }
            }
        )*)*};
    }
    macro_rules! truth {
        ($($name:ident $op:tt)*) => {$(
            truth!(@ $name $op, u8);
            truth!(@ $name $op, i64);
            truth!(@ $name $op, f32);
            truth!(@ $name $op, f64);
        )*};
        (@ $name:ident $op:tt, $t:ty) => {
            impl Op2<$t> for $name {
                type Out = u8;
                #[inline(always)]
                fn apply(a: $t, b: $t) -> u8 {
                    u8::from(a $op b)
                }
            }
        };
    }

    same! {
        Add { i64 f32 f64 => |a, b| Sealed::add(a, b) }
        Sub { f32 f64 => |a, b| a - b }
        Sub { i64 => |a, b| a.wrapping_sub(b) }
        Mul { i64 f32 f64 => |a, b| Sealed::mul(a, b) }
        Div { f32 f64 => |a, b| a / b }
        Mod { f32 f64 => |a, b| Function::rest(a, b) }
        // The divisor is not zero.
        Mod { i64 => |a, b| whole_rest(a, b) }
        FloorDiv { f32 f64 => |a, b| Function::floor_div(a, b) }
        FloorDiv { i64 => |a, b| whole_quotient(a, b) }
        Pow { f32 f64 => |a, b| Function::pow(a, b) }
        Min { u8 i64 f32 f64 => |a, b| Sealed::least(a, b) }
        Max { u8 i64 f32 f64 => |a, b| Sealed::greatest(a, b) }
        And { u8 => |a, b| a & b }
        Or { u8 => |a, b| a | b }
    }
    truth!(Eq == Ne != Lt < Le <= Gt > Ge >=);
}
