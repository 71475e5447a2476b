//! From expressions to formulas: equal parts are computed once, constants while building, and what nobody needs not at
//! all.

use super::primitive::{self, Forms};
use super::{Formula, Kind, Step, Work};
use crate::dtype::DType;
use crate::op::{BinaryOp, UnaryOp};
use crate::scalar::Scalar;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A function of the caller, from elements to an element. The same arguments give the same result: it may be called less
/// than once for each element.
pub type Function = Arc<dyn Fn(&[Scalar]) -> Scalar + Send + Sync>;

/// A value of a formula that is being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Register(usize);

/// Builds a [`Formula`]. Types that are not computed with, and operands that do not fit, are bugs of the caller: it panics.
#[derive(Default)]
pub struct FormulaBuilder {
    inputs: Vec<DType>,
    nodes: Vec<(Node, Kind)>,
    functions: Vec<Function>,
    known: HashMap<(Node, Kind), Register>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Node {
    Input(usize),
    /// The bits of an element.
    Constant(u64),
    Convert(Register),
    Unary(UnaryOp, Register),
    Binary(BinaryOp, Register, Register),
    Select(Register, Register, Register),
    Call(usize, Vec<Register>),
}

impl FormulaBuilder {
    /// Nothing yet.
    pub fn new() -> FormulaBuilder {
        FormulaBuilder::default()
    }

    /// The next input. Inputs are numbered in the order of these calls.
    pub fn input(&mut self, dtype: DType) -> Register {
        self.inputs.push(dtype);
        self.node(Node::Input(self.inputs.len() - 1), Kind::new(dtype))
    }

    /// The next input, which will be given as a ramp: an integer that grows by a step. (Any input of integers may be.)
    pub fn ramp(&mut self) -> Register {
        self.input(DType::I64)
    }

    /// The same element for all.
    pub fn constant(&mut self, value: Scalar) -> Register {
        let bits = match value {
            Scalar::Bool(x) => u64::from(x),
            Scalar::I64(x) => x as u64,
            Scalar::F32(x) => u64::from(x.to_bits()),
            Scalar::F64(x) => x.to_bits(),
        };
        self.node(Node::Constant(bits), Kind::new(value.dtype()))
    }

    /// The type of a value.
    pub fn dtype(&self, register: Register) -> DType {
        self.kind(register).dtype()
    }

    /// A value as another type, see [`Scalar::convert`].
    pub fn convert(&mut self, register: Register, dtype: DType) -> Register {
        let to = Kind::new(dtype);
        if self.kind(register) == to {
            return register;
        }
        match self.as_constant(register) {
            Some(value) => self.constant(value.convert(dtype)),
            None => self.node(Node::Convert(register), to),
        }
    }

    /// An operation on a value, with the type of result that [`Scalar::unary`] has.
    pub fn unary(&mut self, op: UnaryOp, register: Register) -> Register {
        if let Some(value) = self.as_constant(register) {
            return self.constant(value.unary(op));
        }
        if let Some((_, kind)) = primitive::unary(op, self.kind(register)) {
            return self.node(Node::Unary(op, register), kind);
        }
        let dtype = match op {
            UnaryOp::Not => DType::Bool,
            op if op.makes_float() => DType::F64,
            _ => DType::I64,
        };
        let converted = self.convert(register, dtype);
        self.unary(op, converted)
    }

    /// An operation on two values of one type, with the type of result that [`Scalar::binary`] has. `and` and `or` take
    /// truth values only.
    pub fn binary(&mut self, op: BinaryOp, a: Register, b: Register) -> Register {
        let kind = self.kind(a);
        assert_eq!(kind, self.kind(b), "formula: {op} of different types");
        assert!(!op.is_logical() || kind == Kind::Bool, "formula: {op} of {}", kind.dtype());
        if let (Some(x), Some(y)) = (self.as_constant(a), self.as_constant(b)) {
            // A zero divisor is to be met at run time.
            if !(op.divides_whole() && matches!(y, Scalar::I64(0) | Scalar::Bool(false))) {
                return self.constant(x.binary(op, y));
            }
        }
        if let Some((_, kind)) = primitive::binary(op, kind) {
            return self.node(Node::Binary(op, a, b), kind);
        }
        let dtype = if matches!(op, BinaryOp::Div | BinaryOp::Pow) { DType::F64 } else { DType::I64 };
        let (a, b) = (self.convert(a, dtype), self.convert(b, dtype));
        self.binary(op, a, b)
    }

    /// `a` where the condition (a truth value) holds, else `b`, both of one type.
    pub fn select(&mut self, condition: Register, a: Register, b: Register) -> Register {
        assert_eq!(self.kind(condition), Kind::Bool, "formula: a condition is no truth value");
        let kind = self.kind(a);
        assert_eq!(kind, self.kind(b), "formula: a choice of different types");
        match self.as_constant(condition) {
            Some(condition) => {
                if condition.is_true() {
                    a
                } else {
                    b
                }
            }
            None if a == b => a,
            None => self.node(Node::Select(condition, a, b), kind),
        }
    }

    /// A function of the caller. What it returns is converted to `dtype`.
    pub fn call(&mut self, function: Function, arguments: &[Register], dtype: DType) -> Register {
        self.functions.push(function);
        self.node(Node::Call(self.functions.len() - 1, arguments.to_vec()), Kind::new(dtype))
    }

    /// The formula of one of the values.
    pub fn finish(self, result: Register) -> Formula {
        let mut is_used = vec![false; self.nodes.len()];
        is_used[result.0] = true;
        for register in (0..=result.0).rev() {
            if is_used[register] {
                self.operands(register).iter().for_each(|operand| is_used[operand.0] = true);
            }
        }
        let used = || (0..=result.0).filter(|&register| is_used[register]);

        // Numbers: inputs, constants, the others.
        let mut values = vec![0; self.nodes.len()];
        let mut constants = Vec::new();
        for register in used() {
            match self.nodes[register].0 {
                Node::Input(input) => values[register] = input,
                Node::Constant(bits) => {
                    values[register] = self.inputs.len() + constants.len();
                    constants.push(bits);
                }
                _ => {}
            }
        }
        let mut next = self.inputs.len() + constants.len();
        let mut steps = Vec::new();
        let mut is_loaded = vec![false; self.nodes.len()];
        for register in used() {
            let operands = self.operands(register);
            if matches!(self.nodes[register].0, Node::Input(_) | Node::Constant(_)) {
                continue;
            }
            for &operand in &operands {
                if let (Node::Input(_), false) = (&self.nodes[operand.0].0, is_loaded[operand.0]) {
                    is_loaded[operand.0] = true;
                    let kind = self.kind(operand);
                    steps.push(Step {
                        work: Work::Load,
                        value: values[operand.0],
                        kind,
                        slot: 0,
                        form_mask: 0,
                    });
                }
            }
            values[register] = next;
            next += 1;
            let kind = self.nodes[register].1;
            let work = match &self.nodes[register].0 {
                Node::Call(function, arguments) => Work::Call(
                    Arc::clone(&self.functions[*function]),
                    arguments.iter().map(|&argument| (values[argument.0], self.kind(argument))).collect(),
                ),
                _ => {
                    let number = |i: usize| values[operands.get(i).unwrap_or(&operands[0]).0];
                    Work::Loop(self.forms(register), [number(0), number(1), number(2)])
                }
            };
            let form_mask = (1 << operands.len().min(3)) - 1;
            steps.push(Step { work, value: values[register], kind, slot: 0, form_mask });
        }
        let slots = assign_slots(&mut steps, next);
        Formula {
            inputs: self.inputs.clone(),
            constants,
            steps,
            slots,
            result: values[result.0],
            kind: self.kind(result),
        }
    }

    fn node(&mut self, node: Node, kind: Kind) -> Register {
        *self.known.entry((node, kind)).or_insert_with_key(|key| {
            self.nodes.push(key.clone());
            Register(self.nodes.len() - 1)
        })
    }

    fn kind(&self, register: Register) -> Kind {
        self.nodes[register.0].1
    }

    fn as_constant(&self, register: Register) -> Option<Scalar> {
        let (Node::Constant(bits), kind) = &self.nodes[register.0] else { return None };
        Some(match kind {
            Kind::Bool => Scalar::Bool(*bits != 0),
            Kind::I64 => Scalar::I64(*bits as i64),
            Kind::F32 => Scalar::F32(f32::from_bits(*bits as u32)),
            Kind::F64 => Scalar::F64(f64::from_bits(*bits)),
        })
    }

    fn operands(&self, register: usize) -> Vec<Register> {
        match &self.nodes[register].0 {
            Node::Input(_) | Node::Constant(_) => Vec::new(),
            Node::Convert(a) | Node::Unary(_, a) => vec![*a],
            Node::Binary(_, a, b) => vec![*a, *b],
            Node::Select(c, a, b) => vec![*c, *a, *b],
            Node::Call(_, arguments) => arguments.clone(),
        }
    }

    fn forms(&self, register: usize) -> Forms {
        let (node, kind) = &self.nodes[register];
        let forms = match node {
            Node::Convert(a) => primitive::convert(self.kind(*a), *kind),
            Node::Unary(op, a) => primitive::unary(*op, self.kind(*a)).map(|(forms, _)| forms),
            Node::Binary(op, a, _) => primitive::binary(*op, self.kind(*a)).map(|(forms, _)| forms),
            _ => Some(primitive::select(*kind)),
        };
        forms.expect("nodes are only made for loops that exist")
    }
}

/// Gives every step a register, and a register that is needed no more to another step. A step's register is none of its
/// operands'. Returns how many there are.
fn assign_slots(steps: &mut [Step], values: usize) -> usize {
    let mut last_use = vec![0; values];
    for (at, step) in steps.iter().enumerate() {
        operands(&step.work).for_each(|value| last_use[value] = at);
    }
    let mut slot_of = vec![None; values];
    let mut free = Vec::new();
    let mut slots = 0;
    for (at, step) in steps.iter_mut().enumerate() {
        step.slot = free.pop().unwrap_or_else(|| {
            slots += 1;
            slots - 1
        });
        slot_of[step.value] = Some(step.slot);
        for value in operands(&step.work) {
            if last_use[value] == at {
                free.extend(slot_of[value].take());
            }
        }
    }
    slots
}

fn operands(work: &Work) -> impl Iterator<Item = usize> {
    let (few, many): (&[usize], &[(usize, Kind)]) = match work {
        Work::Load => (&[], &[]),
        Work::Loop(_, operands) => (operands, &[]),
        Work::Call(_, operands) => (&[], operands),
    };
    few.iter().copied().chain(many.iter().map(|&(value, _)| value))
}

impl fmt::Debug for FormulaBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FormulaBuilder").field("inputs", &self.inputs).field("nodes", &self.nodes).finish()
    }
}
