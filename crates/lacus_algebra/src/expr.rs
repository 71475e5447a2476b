//! A checked program: what is wanted, as expressions over named indices with all types and extents known.
//!
//! Whatever form a statement had (indices, whole arrays, `einsum`), it becomes a [`Comprehension`]: the axes of
//! the result, and one element as a tree of reads, operations and reductions. `C = A @ B` and
//! `C[i, j] = A[i, k] * B[k, j]` are the same comprehension.

mod affine;

pub use affine::{Affine, Index, Slot, Symbol};

use crate::function::Function;
use crate::syntax::Span;
use lacus_tensor::DType;
use lacus_tensor::Scalar;
use lacus_tensor::{BinaryOp, UnaryOp};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Result};

/// A program whose types and shapes fit, as [`check`](crate::check) makes it.
#[derive(Clone, Debug, Default)]
pub struct CheckedProgram {
    /// The text, for messages.
    pub(crate) source: String,
    pub(crate) slots: Vec<SlotType>,
    pub(crate) index_count: u32,
    pub(crate) steps: Vec<Step>,
    /// What the names that are defined at the end stand for.
    pub(crate) names: BTreeMap<String, Slot>,
}

/// A variable of a checked program.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotType {
    /// Its name in the program, or one made up for an intermediate result.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// Its shape.
    pub dims: Vec<u64>,
    /// The stored tensor it is loaded from, if it is.
    pub input: Option<String>,
}

/// One thing to do, and the text it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What.
    pub node: StepNode,
    /// Where in the text.
    pub span: Span,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub enum StepNode {
    /// Computes a whole array and then assigns it, so that it may read its own variable.
    Compute(Slot, Comprehension),
    /// Saves a variable under a name.
    Save(Slot, String),
    /// Counts a variable from a number up to before another.
    For {
        /// The variable.
        counter: Slot,
        /// The first number.
        from: Affine,
        /// The number after the last.
        to: Affine,
        /// What is done for each.
        body: Vec<Step>,
    },
    /// Goes round: `before`, then ends or not, then `after`. `while` has its condition's steps before and its
    /// body after, `repeat` everything before.
    Loop {
        /// Done before the condition is looked at.
        before: Vec<Step>,
        /// A single bool.
        condition: Slot,
        /// Ends when the condition is this.
        ends_when: bool,
        /// Done when the loop has not ended.
        after: Vec<Step>,
    },
}

/// An array given by its elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Comprehension {
    /// The axes of the result in order.
    pub axes: Vec<Axis>,
    /// The element at a position.
    pub body: Element,
}

/// An index and how far it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The index.
    pub index: Index,
    /// From 0 up to before this.
    pub extent: u64,
}

/// One element, as a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Element {
    /// How it is made.
    pub node: ElementNode,
    /// Its type.
    pub dtype: DType,
}

/// How an element is made.
#[derive(Clone, Debug, PartialEq)]
pub enum ElementNode {
    /// A number.
    Constant(Scalar),
    /// The value of an index, or of a sum of them.
    Position(Affine),
    /// An element of a variable.
    Read(Slot, Vec<Affine>),
    /// A number from [0, 1), the same for the same seed and position.
    Random(u64, Affine),
    /// The same number in another type.
    Convert(Box<Element>),
    /// An operation on one element.
    Unary(UnaryOp, Box<Element>),
    /// An operation on two elements of one type.
    Binary(BinaryOp, Box<Element>, Box<Element>),
    /// A registered function of elements of one float type.
    Call(Function, Vec<Element>),
    /// The second where the first is true, else the third; the other one is not looked at.
    Where(Box<Element>, Box<Element>, Box<Element>),
    /// All elements over some axes, reduced.
    Reduce(Box<Reduction>),
}

/// A reduction within an element.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduction {
    /// By which operation.
    pub op: ReduceOp,
    /// Over which axes, the last one fastest.
    pub axes: Vec<Axis>,
    /// Positions at which this is false are left out.
    pub guard: Option<Element>,
    /// What is reduced.
    pub body: Element,
}

/// An associative operation with an identity.
#[derive(Clone, Debug, PartialEq)]
pub enum ReduceOp {
    /// A built-in one.
    Op(BinaryOp),
    /// A registered one.
    Function(Function),
}

impl CheckedProgram {
    /// The type and shape of a variable.
    pub fn slot(&self, slot: Slot) -> &SlotType {
        &self.slots[slot.0]
    }

    /// All variables, by number.
    pub fn slots(&self) -> &[SlotType] {
        &self.slots
    }

    /// What to do, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// What it saves: names, and the variable that was saved last under each.
    pub fn saves(&self) -> BTreeMap<String, Slot> {
        fn walk(steps: &[Step], all: &mut BTreeMap<String, Slot>) {
            for step in steps {
                match &step.node {
                    StepNode::Compute(..) => {}
                    StepNode::Save(slot, name) => {
                        all.insert(name.clone(), *slot);
                    }
                    StepNode::For { body, .. } => walk(body, all),
                    StepNode::Loop { before, after, .. } => {
                        walk(before, all);
                        walk(after, all);
                    }
                }
            }
        }
        let mut all = BTreeMap::new();
        walk(&self.steps, &mut all);
        all
    }

    /// The variable that a name stands for at the end of the program.
    pub fn find(&self, name: &str) -> Option<(Slot, &SlotType)> {
        let slot = *self.names.get(name)?;
        Some((slot, &self.slots[slot.0]))
    }
}

impl Element {
    pub(crate) fn constant(value: Scalar) -> Element {
        Element { node: ElementNode::Constant(value), dtype: value.dtype() }
    }

    /// The same element in another type.
    pub(crate) fn convert(self, dtype: DType) -> Element {
        match self.node {
            _ if self.dtype == dtype => self,
            ElementNode::Constant(value) => Element::constant(value.convert(dtype)),
            _ => Element { node: ElementNode::Convert(Box::new(self)), dtype },
        }
    }

    /// Parts that this element is made of, one level down.
    pub fn parts(&self) -> Vec<&Element> {
        match &self.node {
            ElementNode::Constant(_)
            | ElementNode::Position(_)
            | ElementNode::Read(..)
            | ElementNode::Random(..) => Vec::new(),
            ElementNode::Convert(a) | ElementNode::Unary(_, a) => vec![a],
            ElementNode::Binary(_, a, b) => vec![a, b],
            ElementNode::Call(_, all) => all.iter().collect(),
            ElementNode::Where(a, b, c) => vec![a, b, c],
            ElementNode::Reduce(reduction) => reduction.guard.iter().chain([&reduction.body]).collect(),
        }
    }

    pub(crate) fn parts_mut(&mut self) -> Vec<&mut Element> {
        match &mut self.node {
            ElementNode::Constant(_)
            | ElementNode::Position(_)
            | ElementNode::Read(..)
            | ElementNode::Random(..) => Vec::new(),
            ElementNode::Convert(a) | ElementNode::Unary(_, a) => vec![a],
            ElementNode::Binary(_, a, b) => vec![a, b],
            ElementNode::Call(_, all) => all.iter_mut().collect(),
            ElementNode::Where(a, b, c) => vec![a, b, c],
            ElementNode::Reduce(reduction) => {
                reduction.guard.iter_mut().chain([&mut reduction.body]).collect()
            }
        }
    }

    /// Positions this element reads at or takes the value of, not those of its parts.
    pub fn positions(&self) -> &[Affine] {
        match &self.node {
            ElementNode::Position(at) | ElementNode::Random(_, at) => std::slice::from_ref(at),
            ElementNode::Read(_, at) => at,
            _ => &[],
        }
    }

    /// True when the index occurs anywhere within.
    pub fn uses(&self, index: Index) -> bool {
        self.positions().iter().any(|at| at.factor(Symbol::Index(index)) != 0)
            || self.parts().into_iter().any(|part| part.uses(index))
    }

    /// Elements it is made of, itself included.
    pub(crate) fn size(&self) -> usize {
        self.parts().into_iter().map(Element::size).sum::<usize>() + 1
    }

    /// Levels of elements within each other.
    pub(crate) fn depth(&self) -> usize {
        self.parts().into_iter().map(Element::depth).max().unwrap_or(0) + 1
    }

    /// True when there is a reduction anywhere within.
    pub(crate) fn reduces(&self) -> bool {
        matches!(self.node, ElementNode::Reduce(_)) || self.parts().into_iter().any(Element::reduces)
    }

    /// Replaces an index everywhere. False when a number exceeds 64 bits.
    pub(crate) fn substitute(&mut self, index: Index, by: &Affine) -> bool {
        self.move_positions(&|at| at.substitute(index, by))
    }

    /// Replaces every position. False when there is none to replace one by.
    pub(crate) fn move_positions(&mut self, by: &dyn Fn(&Affine) -> Option<Affine>) -> bool {
        let own = match &mut self.node {
            ElementNode::Position(at) | ElementNode::Random(_, at) => std::slice::from_mut(at),
            ElementNode::Read(_, at) => &mut at[..],
            _ => &mut [],
        };
        own.iter_mut().all(|at| by(at).map(|new| *at = new).is_some())
            && self.parts_mut().into_iter().all(|part| part.move_positions(by))
    }
}

impl ReduceOp {
    /// What nothing reduces to.
    pub fn identity(&self, dtype: DType) -> Option<Scalar> {
        match self {
            ReduceOp::Op(op) => op.identity(dtype),
            ReduceOp::Function(function) => {
                function.identity().map(|value| Scalar::F64(value).convert(dtype))
            }
        }
    }
}

impl Display for Axis {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "x{}<{}", self.index.0, self.extent)
    }
}

impl Display for Comprehension {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "[{}] {}", list(&self.axes), self.body)
    }
}

impl Display for Element {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.node {
            ElementNode::Constant(value) => value.fmt(f),
            ElementNode::Position(at) => write!(f, "({at})"),
            ElementNode::Read(slot, at) => write!(f, "v{}[{}]", slot.0, list(at)),
            ElementNode::Random(seed, at) => write!(f, "random({seed}, {at})"),
            ElementNode::Convert(a) => write!(f, "{}({a})", self.dtype.name()),
            ElementNode::Unary(op, a) => write!(f, "{op}({a})"),
            ElementNode::Binary(op @ (BinaryOp::Min | BinaryOp::Max), a, b) => write!(f, "{op}({a}, {b})"),
            ElementNode::Binary(op, a, b) => write!(f, "({a} {op} {b})"),
            ElementNode::Call(function, all) => write!(f, "{}({})", function.name(), list(all)),
            ElementNode::Where(c, a, b) => write!(f, "where({c}, {a}, {b})"),
            ElementNode::Reduce(reduction) => {
                let op = match &reduction.op {
                    ReduceOp::Op(op) => op.name(),
                    ReduceOp::Function(function) => function.name(),
                };
                write!(f, "reduce {op} [{}]", list(&reduction.axes))?;
                if let Some(guard) = &reduction.guard {
                    write!(f, " if {guard}")?;
                }
                write!(f, " ({})", reduction.body)
            }
        }
    }
}

fn list<T: Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}
