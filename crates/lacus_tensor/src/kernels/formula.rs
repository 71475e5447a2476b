//! Element-wise expressions as a register machine: one instruction works on a piece of some hundred elements that stays
//! in the nearest cache, so that a formula of any length reads its inputs once and writes its result once.
//!
//! ```
//! use lacus_tensor::kernels::formula::FormulaBuilder;
//! use lacus_tensor::{BinaryOp, DType, Scalar};
//! let mut build = FormulaBuilder::new();
//! let (a, b) = (build.input(DType::F64), build.input(DType::F64));
//! let two = build.constant(Scalar::F64(2.0));
//! let twice = build.binary(BinaryOp::Mul, two, a);
//! let sum = build.binary(BinaryOp::Add, twice, b);
//! let formula = build.finish(sum);
//! let mut out = [0.0; 2];
//! formula.apply(&[(&[1.0, 2.0][..]).into(), (&[10.0, 20.0][..]).into()], &mut out);
//! assert_eq!(out, [12.0, 24.0]);
//! ```
//!
//! Every result has the bits that [`Scalar`] gives (of a NaN, not its payload).

mod build;
mod primitive;

pub use build::{FormulaBuilder, Function, Register};

use super::number::Value;
use crate::buffer::Buffer;
use crate::dtype::DType;
use crate::scalar::Scalar;
use primitive::{Forms, Operands};
use std::fmt;

/// A formula of one result, ready to run. Made by a [`FormulaBuilder`].
#[derive(Clone)]
pub struct Formula {
    inputs: Vec<DType>,
    /// The bits of constants.
    constants: Vec<u64>,
    steps: Vec<Step>,
    slots: usize,
    result: usize,
    kind: Kind,
}

/// One input of a run: where element `i` of it is.
#[derive(Clone, Copy, Debug)]
pub enum Lane {
    /// At `first`, and every `stride` elements (not bytes) from there. Stride 0: the same element for all.
    Strided {
        /// The first element.
        first: *const u8,
        /// Elements from one to the next.
        stride: isize,
    },
    /// Nowhere: it is `start + i * step`. Only for inputs of integers.
    Ramp {
        /// Element 0.
        start: i64,
        /// What is added for each further element.
        step: i64,
    },
}

/// One input of [`Formula::apply`].
#[derive(Clone, Copy, Debug)]
pub enum Slice<'a> {
    /// Truth values, 0 or 1.
    Bool(&'a [u8]),
    /// Integers.
    I64(&'a [i64]),
    /// Singles.
    F32(&'a [f32]),
    /// Doubles.
    F64(&'a [f64]),
    /// Integers that need no memory, see [`Lane::Ramp`].
    Ramp {
        /// Element 0.
        start: i64,
        /// What is added for each further element.
        step: i64,
    },
}

/// Memory for the registers of formulas. Make one for each thread and keep it: it grows to the largest formula.
#[derive(Debug, Default)]
pub struct Scratch {
    registers: Option<Buffer>,
    places: Vec<Place>,
    arguments: Vec<Scalar>,
}

// SAFETY: the pointers in `places` are only used within one run, which borrows the scratch.
unsafe impl Send for Scratch {}

impl Scratch {
    /// Without memory yet.
    pub fn new() -> Scratch {
        Scratch::default()
    }
}

impl Formula {
    /// The type of the result.
    pub fn dtype(&self) -> DType {
        self.kind.dtype()
    }

    /// The types of the inputs, in the order in which they were asked for. All of them are to be given to a run, also
    /// those on which the result does not depend.
    pub fn inputs(&self) -> &[DType] {
        &self.inputs
    }

    /// Bytes of scratch memory for a run.
    pub fn scratch_bytes(&self) -> usize {
        self.slots * self.slot_bytes()
    }

    /// The result for slices of one length. True if an integer met a divisor of zero, see [`Formula::run`].
    ///
    /// Panics if the slices are not what the formula asks for.
    pub fn apply<T: Value>(&self, inputs: &[Slice<'_>], out: &mut [T]) -> bool {
        assert_eq!(T::DTYPE, self.dtype(), "formula: the type of the result");
        assert_eq!(inputs.len(), self.inputs.len(), "formula: how many inputs");
        let lanes: Vec<Lane> = inputs
            .iter()
            .zip(&self.inputs)
            .map(|(&input, &wanted)| {
                let (dtype, len, lane) = match input {
                    Slice::Bool(x) => (DType::Bool, x.len(), Lane::contiguous(x.as_ptr().cast())),
                    Slice::I64(x) => (DType::I64, x.len(), Lane::contiguous(x.as_ptr().cast())),
                    Slice::F32(x) => (DType::F32, x.len(), Lane::contiguous(x.as_ptr().cast())),
                    Slice::F64(x) => (DType::F64, x.len(), Lane::contiguous(x.as_ptr().cast())),
                    Slice::Ramp { start, step } => (DType::I64, out.len(), Lane::Ramp { start, step }),
                };
                assert_eq!(dtype, wanted, "formula: the type of an input");
                assert_eq!(len, out.len(), "formula: the length of an input");
                lane
            })
            .collect();
        // SAFETY: slices of the right types and lengths, one of which is borrowed exclusively.
        unsafe { self.run(&lanes, out.len(), out.as_mut_ptr().cast(), 1, &mut Scratch::new()) }
    }

    /// The result for `n` elements: element `i` goes to `out`, `i * out_stride` elements (not bytes) further on.
    ///
    /// True if an integer was divided by zero with `%`, in any element, also where a selection then took another value.
    /// The result has a 0 there.
    ///
    /// # Safety
    /// One lane for each of [`Formula::inputs`], in their order, with elements of its type that are aligned and readable;
    /// ramps only for integers. The places of the result are aligned, writable and differ from each other. No input reads
    /// them, unless it is all of them, each element for its own place.
    pub unsafe fn run(
        &self,
        inputs: &[Lane],
        n: usize,
        out: *mut u8,
        out_stride: isize,
        scratch: &mut Scratch,
    ) -> bool {
        debug_assert_eq!(inputs.len(), self.inputs.len(), "formula: how many inputs");
        if n == 0 {
            return false;
        }
        let size = self.kind.size_bytes();
        let is_out = |lane: &Lane| matches!(*lane, Lane::Strided { first, stride } if first == out && stride == out_stride);
        let Some(last) = self.steps.last().filter(|last| last.value == self.result) else {
            // The result is an input or a constant.
            let lane = match self.result.checked_sub(self.inputs.len()) {
                None => inputs[self.result],
                Some(constant) => {
                    Lane::Strided { first: (&raw const self.constants[constant]).cast(), stride: 0 }
                }
            };
            if !is_out(&lane) {
                // SAFETY: the caller's promise; constants are 8 bytes that begin with the element.
                unsafe { lane.copy(size, 0, n, out, out_stride) };
            }
            return false;
        };
        let slot_bytes = self.slot_bytes();
        let memory = scratch.reserve(self.scratch_bytes());
        let Scratch { places, arguments, .. } = scratch;
        self.place(inputs, memory, places);
        let is_one = places[self.result].is_one;
        // What is read of the result's own places is read before they are written.
        let is_direct = out_stride == 1 && !is_one && !inputs.iter().any(is_out);
        let mut is_zero_met = false;
        let total = if is_one { 1 } else { n };
        let piece = self.piece();
        let mut at = 0;
        while at < total {
            let len = piece.min(total - at);
            for (input, (&lane, place)) in inputs.iter().zip(places.iter_mut()).enumerate() {
                if let (Lane::Strided { first, stride: 1 }, false) = (lane, place.is_one) {
                    place.from = first.wrapping_add(at * self.inputs[input].size_bytes());
                }
            }
            for step in &self.steps {
                let n = if places[step.value].is_one { 1 } else { len };
                let is_last = std::ptr::eq(step, last);
                let to = if is_last && is_direct {
                    out.wrapping_add(at * size)
                } else {
                    memory.wrapping_add(step.slot * slot_bytes)
                };
                match &step.work {
                    Work::Load => {
                        let lane = inputs[step.value];
                        if places[step.value].is_gathered {
                            // SAFETY: the caller's promise; registers have room for a piece.
                            unsafe { lane.copy(step.kind.size_bytes(), at, n, to, 1) };
                        }
                    }
                    Work::Loop(forms, operands) => {
                        let from = operands.map(|value| places[value].from);
                        let form = if n == 1 && places[step.value].is_one {
                            0
                        } else {
                            let bit = |i: usize| usize::from(places[operands[i]].is_one) << i;
                            (bit(0) | bit(1) | bit(2)) & step.form_mask
                        };
                        // SAFETY: the builder matched types and loops; all operands are placed, and no register is an
                        // operand and the result of one step.
                        is_zero_met |= unsafe { forms[form](&Operands { out: to, from, n }) };
                    }
                    Work::Call(function, operands) => {
                        for i in 0..n {
                            arguments.clear();
                            arguments.extend(operands.iter().map(|&(value, kind)| {
                                let place = places[value];
                                let i = if place.is_one { 0 } else { i };
                                // SAFETY: element `i` of a register or an input.
                                unsafe { kind.read(place.from.add(i * kind.size_bytes())) }
                            }));
                            let result = function(arguments).convert(step.kind.dtype());
                            // SAFETY: registers have room for a piece, the result for `n` elements.
                            unsafe { step.kind.write(to.add(i * step.kind.size_bytes()), result) };
                        }
                    }
                }
            }
            if !is_direct {
                let stride = if is_one { 0 } else { 1 };
                let lane = Lane::Strided { first: places[self.result].from, stride };
                let to = out.wrapping_offset(at as isize * out_stride * size as isize);
                // SAFETY: the caller's promise for the result; the register holds a piece.
                unsafe { lane.copy(size, 0, if is_one { n } else { len }, to, out_stride) };
            }
            at += len;
        }
        is_zero_met
    }

    /// Where every value is during a run, apart from what moves with the pieces.
    fn place(&self, inputs: &[Lane], memory: *mut u8, places: &mut Vec<Place>) {
        places.clear();
        for lane in inputs {
            places.push(match *lane {
                Lane::Strided { first, stride } => {
                    Place { from: first, is_one: stride == 0, is_gathered: stride != 0 && stride != 1 }
                }
                Lane::Ramp { step, .. } => {
                    Place { from: std::ptr::null(), is_one: step == 0, is_gathered: true }
                }
            });
        }
        for constant in &self.constants {
            places.push(Place { from: (&raw const *constant).cast(), is_one: true, is_gathered: false });
        }
        for step in &self.steps {
            let register = memory.wrapping_add(step.slot * self.slot_bytes()).cast_const();
            match &step.work {
                Work::Load => {
                    if places[step.value].is_gathered {
                        places[step.value].from = register;
                    }
                }
                Work::Loop(_, operands) => {
                    let is_one = operands.iter().all(|&value| places[value].is_one);
                    places.push(Place { from: register, is_one, is_gathered: false });
                }
                Work::Call(_, operands) => {
                    let is_one = operands.iter().all(|&(value, _)| places[value].is_one);
                    places.push(Place { from: register, is_one, is_gathered: false });
                }
            }
        }
    }

    /// Elements of a piece: the registers take less than half of a first-level cache of 32 KiB, since what is read ahead of
    /// the inputs goes through it as well. Measured: 256 elements are a fifth faster than 1024 for five registers of
    /// doubles, and below 256 the calls of the loops begin to show.
    fn piece(&self) -> usize {
        let lanes = (12 << 10) / 8 / (self.slots + 1);
        (lanes & !63).clamp(256, 1024)
    }

    /// A register. The odd line keeps equal elements of different registers apart in the cache.
    fn slot_bytes(&self) -> usize {
        self.piece() * 8 + 64
    }
}

/// A value of a run: `from` is its first element in the current piece.
#[derive(Clone, Copy, Debug)]
struct Place {
    from: *const u8,
    /// The same element for all.
    is_one: bool,
    /// An input that has to be brought to a register first.
    is_gathered: bool,
}

#[derive(Clone)]
struct Step {
    work: Work,
    /// What it makes: inputs are numbered first, then constants, then steps that are no loads.
    value: usize,
    kind: Kind,
    /// The register it writes to.
    slot: usize,
    /// Which operands there are, as bits.
    form_mask: usize,
}

#[derive(Clone)]
enum Work {
    /// Brings an input to a register, unless it can be read where it is.
    Load,
    /// An operation. Operands that it has not repeat the first.
    Loop(Forms, [usize; 3]),
    /// A function of the caller.
    Call(Function, Vec<(usize, Kind)>),
}

impl Scratch {
    fn reserve(&mut self, bytes: usize) -> *mut u8 {
        if self.registers.as_ref().is_none_or(|registers| registers.len() < bytes) {
            self.registers = Some(Buffer::for_overwrite(bytes));
        }
        self.registers.as_mut().map_or(std::ptr::null_mut(), Buffer::as_mut_ptr)
    }
}

impl Lane {
    /// Elements side by side.
    pub const fn contiguous(first: *const u8) -> Lane {
        Lane::Strided { first, stride: 1 }
    }

    /// One element for all.
    pub const fn same(first: *const u8) -> Lane {
        Lane::Strided { first, stride: 0 }
    }

    /// Copies `n` elements of `size` bytes, beginning with element `at`.
    unsafe fn copy(self, size: usize, at: usize, n: usize, to: *mut u8, to_stride: isize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Lane::Ramp { start, step } => {
                    let to = to.cast::<i64>();
                    let start = start.wrapping_add((at as i64).wrapping_mul(step));
                    for i in 0..n {
                        *to.offset(i as isize * to_stride) =
                            start.wrapping_add((i as i64).wrapping_mul(step));
                    }
                }
                Lane::Strided { first, stride } => {
                    let first = first.wrapping_offset(at as isize * stride * size as isize);
                    match size {
                        1 => copy_strided(first, stride, to, to_stride, n),
                        4 => copy_strided(first.cast::<u32>(), stride, to.cast(), to_stride, n),
                        _ => copy_strided(first.cast::<u64>(), stride, to.cast(), to_stride, n),
                    }
                }
            }
        }
    }
}

unsafe fn copy_strided<T: Copy>(from: *const T, stride: isize, to: *mut T, to_stride: isize, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match (stride, to_stride) {
            (1, 1) => std::ptr::copy_nonoverlapping(from, to, n),
            (0, 1) => std::slice::from_raw_parts_mut(to, n).fill(*from),
            _ => {
                for i in 0..n as isize {
                    *to.offset(i * to_stride) = *from.offset(i * stride);
                }
            }
        }
    }
}

/// The types of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Bool,
    I64,
    F32,
    F64,
}

impl Kind {
    fn new(dtype: DType) -> Kind {
        match dtype {
            DType::Bool => Kind::Bool,
            DType::I64 => Kind::I64,
            DType::F32 => Kind::F32,
            DType::F64 => Kind::F64,
            other => panic!("formula: {other} is not computed with"),
        }
    }

    fn of<T: Value>() -> Kind {
        Kind::new(T::DTYPE)
    }

    const fn dtype(self) -> DType {
        match self {
            Kind::Bool => DType::Bool,
            Kind::I64 => DType::I64,
            Kind::F32 => DType::F32,
            Kind::F64 => DType::F64,
        }
    }

    const fn size_bytes(self) -> usize {
        self.dtype().size_bytes()
    }

    unsafe fn read(self, from: *const u8) -> Scalar {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Kind::Bool => Scalar::Bool(*from != 0),
                Kind::I64 => Scalar::I64(*from.cast()),
                Kind::F32 => Scalar::F32(*from.cast()),
                Kind::F64 => Scalar::F64(*from.cast()),
            }
        }
    }

    unsafe fn write(self, to: *mut u8, value: Scalar) {
        // SAFETY: the caller's promise.
        unsafe {
            match value {
                Scalar::Bool(x) => *to = u8::from(x),
                Scalar::I64(x) => *to.cast() = x,
                Scalar::F32(x) => *to.cast() = x,
                Scalar::F64(x) => *to.cast() = x,
            }
        }
    }
}

impl fmt::Debug for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Formula")
            .field("inputs", &self.inputs)
            .field("dtype", &self.dtype())
            .field("steps", &self.steps.len())
            .field("slots", &self.slots)
            .finish()
    }
}

macro_rules! slices {
    ($($name:ident $t:ty),*) => {$(
        impl<'a> From<&'a [$t]> for Slice<'a> {
            fn from(slice: &'a [$t]) -> Slice<'a> {
                Slice::$name(slice)
            }
        }
    )*};
}
slices!(Bool u8, I64 i64, F32 f32, F64 f64);

#[cfg(test)]
mod tests;
