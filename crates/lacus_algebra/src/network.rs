//! A program as operators over values, each value made once: what is planned.
//!
//! ```text
//! operator   out[i, j] = fold over k of body(i, j, k)      one fold at most, and it is outermost
//! flow       operators, saves and loops in order           loops carry values from round to round
//! ```
//!
//! Elements read values: within a network `Slot(n)` is value `n`. Single numbers that follow from literals and loop
//! counters are parameters: they are known when tasks are made, so that nothing is computed or moved for them.

mod formula;

pub use formula::Formula;
pub(crate) use formula::letter;

use crate::expr::{Affine, Axis, Element, ElementNode, ReduceOp, Slot, Symbol};
use crate::syntax::Span;
use lacus_tensor::BinaryOp;
use lacus_tensor::DType;
use lacus_tensor::Scalar;
use std::collections::{BTreeMap, BTreeSet};

/// Operators over values, and when they run.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// The text of the program, for messages.
    pub source: String,
    /// All values; `Slot(n)` is the n-th.
    pub values: Vec<Value>,
    /// All operators, also those that nothing needs; `flow` has the others.
    pub operators: Vec<Operator>,
    /// Loops, by number.
    pub loops: Vec<LoopNode>,
    /// Where things run: 0 is the program itself, each loop has one or two more.
    pub scopes: Vec<Scope>,
    /// What to do, in order.
    pub flow: Vec<FlowNode>,
    /// Operators that whoever runs it does apart from the flow, and the names that their values are saved as. They are not
    /// planned.
    pub apart: Vec<(usize, String)>,
}

/// Something that is computed once per round of the loops around it.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Its name in the program, or one made up.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// Its shape.
    pub dims: Vec<u64>,
    /// Where it comes from.
    pub made: Made,
    /// The scope in which it is made.
    pub scope: usize,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Made {
    /// Stored under a name.
    Load(String),
    /// By an operator.
    Operator(usize),
    /// From one round of a loop to the next.
    Carried(usize),
    /// A single number that follows from others that are known.
    Parameter(Element),
    /// The counter of a loop.
    Counter(usize),
}

/// One array from others, element by element or reduced.
#[derive(Clone, Debug, PartialEq)]
pub struct Operator {
    /// The value it makes.
    pub output: Slot,
    /// The axes of the result. Indices are numbered from 0: these first, then those of the fold.
    pub axes: Vec<Axis>,
    /// What is reduced, if anything.
    pub fold: Option<Fold>,
    /// One element before it is reduced. Contains no reduction.
    pub body: Element,
    /// Every place where it reads a tensor.
    pub reads: Vec<Read>,
    /// The statement it comes from.
    pub span: Span,
    /// The scope it runs in.
    pub scope: usize,
}

/// A reduction.
#[derive(Clone, Debug, PartialEq)]
pub struct Fold {
    /// By which operation.
    pub op: ReduceOp,
    /// Over which axes, the last one fastest.
    pub axes: Vec<Axis>,
    /// Positions at which this is false are left out.
    pub guard: Option<Element>,
}

/// A place where an operator reads a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// What it reads.
    pub value: Slot,
    /// At which position along each axis.
    pub at: Vec<Affine>,
    /// It reads only where each of these is as said.
    pub under: Vec<(Element, bool)>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowNode {
    /// Runs an operator.
    Operator(usize),
    /// Saves a value under a name.
    Save(Slot, String),
    /// Runs a loop.
    Loop(usize),
}

/// A loop. It is planned once, whatever its rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopNode {
    /// How long it goes on.
    pub until: Until,
    /// The first part of a round.
    pub before: Vec<FlowNode>,
    /// The second part, if the loop has not ended after the first one.
    pub after: Vec<FlowNode>,
    /// What goes from round to round.
    pub carried: Vec<Carried>,
    /// The statement.
    pub span: Span,
    /// The scopes of `before` and `after`.
    pub scopes: [usize; 2],
}

/// When a loop ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Until {
    /// A counter runs from one number to before another.
    Counted(Slot, Affine, Affine),
    /// A single bool is this, after the first part of a round.
    Is(Slot, bool),
}

/// A value that goes from round to round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Its value in a round, and after the loop if the first part of a round does not make it anew.
    pub inside: Slot,
    /// Its value before the loop.
    pub enter: Slot,
    /// Its value at the end of a round.
    pub next: Slot,
}

/// Where things run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The scope around it.
    pub parent: Option<usize>,
    /// The loop it is a part of.
    pub of: Option<usize>,
    /// True for the second part of a round.
    pub is_after: bool,
}

/// Numbers that are known when tasks are made: loop counters, and what follows from them.
pub type Known = BTreeMap<Slot, i64>;

impl Network {
    /// A value.
    pub fn value(&self, slot: Slot) -> &Value {
        &self.values[slot.0]
    }

    /// The operators that run, in the order of the flow, loops once.
    pub fn running(&self) -> Vec<usize> {
        let mut all = Vec::new();
        self.walk(&self.flow, &mut |node| {
            if let FlowNode::Operator(at) = node {
                all.push(*at);
            }
        });
        all
    }

    /// The values that there are: all but those of operators that do not run.
    pub fn present(&self) -> Vec<Slot> {
        let running: BTreeSet<usize> = self.running().into_iter().collect();
        let is_there = |slot: &Slot| match self.value(*slot).made {
            Made::Operator(at) => running.contains(&at),
            _ => true,
        };
        (0..self.values.len()).map(Slot).filter(is_there).collect()
    }

    /// The loops that run, outer ones first.
    pub fn looping(&self) -> Vec<usize> {
        let mut all = Vec::new();
        self.walk(&self.flow, &mut |node| {
            if let FlowNode::Loop(at) = node {
                all.push(*at);
            }
        });
        all
    }

    /// The values that are saved, with their names, in the order of the flow.
    pub fn saves(&self) -> Vec<(String, Slot)> {
        let mut all = Vec::new();
        self.walk(&self.flow, &mut |node| {
            if let FlowNode::Save(slot, name) = node {
                all.push((name.clone(), *slot));
            }
        });
        all
    }

    /// The values that are saved.
    pub fn saved(&self) -> Vec<Slot> {
        self.saves().into_iter().map(|(_, slot)| slot).collect()
    }

    pub(crate) fn walk(&self, flow: &[FlowNode], each: &mut impl FnMut(&FlowNode)) {
        for node in flow {
            each(node);
            if let FlowNode::Loop(at) = node {
                self.walk(&self.loops[*at].before, each);
                self.walk(&self.loops[*at].after, each);
            }
        }
    }

    /// The scopes around a scope, itself first.
    pub fn around(&self, scope: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(scope), |&at| self.scopes[at].parent)
    }

    /// Every place where an operator reads a tensor, as its elements have it.
    pub(crate) fn reads(&self, operator: &Operator) -> Vec<Read> {
        let mut all = Vec::new();
        operator.elements().into_iter().for_each(|element| self.reads_of(element, &mut Vec::new(), &mut all));
        all
    }

    fn reads_of(&self, element: &Element, under: &mut Vec<(Element, bool)>, all: &mut Vec<Read>) {
        match &element.node {
            ElementNode::Read(slot, at) => {
                let made = &self.value(*slot).made;
                let read = Read { value: *slot, at: at.clone(), under: under.clone() };
                if !matches!(made, Made::Parameter(_) | Made::Counter(_)) && !all.contains(&read) {
                    all.push(read);
                }
            }
            ElementNode::Where(c, a, b) => {
                self.reads_of(c, under, all);
                for (part, truth) in [(a, true), (b, false)] {
                    under.push(((**c).clone(), truth));
                    self.reads_of(part, under, all);
                    under.pop();
                }
            }
            _ => element.parts().into_iter().for_each(|part| self.reads_of(part, under, all)),
        }
    }

    /// The value of a known number. `None` for what is not known, such as a number that is computed.
    pub fn known(&self, slot: Slot, known: &Known) -> Option<Scalar> {
        match &self.value(slot).made {
            Made::Counter(_) => known.get(&slot).map(|&n| Scalar::I64(n)),
            Made::Parameter(element) => self.evaluate(element, known),
            _ => None,
        }
    }

    /// A position without indices.
    pub fn position(&self, at: &Affine, known: &Known) -> Option<i64> {
        let mut is_known = true;
        let value = at.value(|symbol| {
            let number = match symbol {
                Symbol::Slot(slot) => self.known(slot, known).map(Scalar::to_i64),
                Symbol::Index(_) => None,
            };
            is_known &= number.is_some();
            number.unwrap_or(0)
        });
        is_known.then_some(value)
    }

    /// An element without indices, reductions and tensors.
    pub fn evaluate(&self, element: &Element, known: &Known) -> Option<Scalar> {
        let part = |part: &Element| self.evaluate(part, known);
        Some(match &element.node {
            ElementNode::Constant(value) => *value,
            ElementNode::Position(at) => Scalar::I64(self.position(at, known)?),
            ElementNode::Read(slot, at) if at.is_empty() => self.known(*slot, known)?,
            ElementNode::Read(..) | ElementNode::Random(..) | ElementNode::Reduce(_) => return None,
            ElementNode::Convert(a) => part(a)?.convert(element.dtype),
            ElementNode::Unary(op, a) => part(a)?.unary(*op),
            ElementNode::Binary(op, a, b) => part(a)?.binary(*op, part(b)?),
            ElementNode::Where(c, a, b) => {
                if part(c)?.is_true() {
                    part(a)?
                } else {
                    part(b)?
                }
            }
            ElementNode::Call(function, all) => {
                let all: Option<Vec<f64>> = all.iter().map(|a| part(a).map(Scalar::to_f64)).collect();
                Scalar::F64(function.call(&all?)).convert(element.dtype)
            }
        })
    }
}

impl Operator {
    /// All axes that it runs through: those of the result, then those of the fold.
    pub fn labels(&self) -> Vec<Axis> {
        let folded = self.fold.iter().flat_map(|fold| &fold.axes);
        self.axes.iter().chain(folded).cloned().collect()
    }

    /// What it evaluates: a condition if there is one, then the body.
    pub(crate) fn elements(&self) -> Vec<&Element> {
        let guard = self.fold.iter().filter_map(|fold| fold.guard.as_ref());
        guard.chain([&self.body]).collect()
    }

    /// True when it pairs two or more tensors and reduces (a group-by-join in TensorPlanner's words).
    pub fn is_contraction(&self) -> bool {
        self.fold.is_some() && self.tensors().len() > 1
    }

    /// The values it reads, each once, in order. A value that is read at two places counts twice here.
    fn tensors(&self) -> Vec<&Read> {
        self.reads.iter().filter(|read| !read.at.is_empty()).collect()
    }

    /// Both operations of a plain contraction of two tensors read by indices alone, `⊕ (a ⊗ b)`: what kernels for
    /// matrices can do.
    pub fn semiring(&self) -> Option<(BinaryOp, BinaryOp)> {
        let Fold { op: ReduceOp::Op(plus), guard: None, .. } = self.fold.as_ref()? else { return None };
        let ElementNode::Binary(times, a, b) = &self.body.node else { return None };
        let is_plain = |element: &Element| match &element.node {
            ElementNode::Read(_, at) => !at.is_empty() && at.iter().all(|at| at.as_index().is_some()),
            _ => false,
        };
        (is_plain(a) && is_plain(b) && times.distributes_over(*plus)).then_some((*plus, *times))
    }

    /// What it is, in a word.
    pub fn kind(&self) -> &'static str {
        match (&self.fold, self.reads.len()) {
            (Some(_), _) if self.is_contraction() => "contract",
            (Some(_), _) => "reduce",
            (None, 0) => "fill",
            (None, _) => "apply",
        }
    }
}

/// Every value that an element reads or takes a position from.
pub(crate) fn slots_of(element: &Element, all: &mut BTreeSet<Slot>) {
    if let ElementNode::Read(slot, _) = &element.node {
        all.insert(*slot);
    }
    for at in element.positions() {
        all.extend(at.factors().filter_map(|(symbol, _)| match symbol {
            Symbol::Slot(slot) => Some(slot),
            Symbol::Index(_) => None,
        }));
    }
    element.parts().into_iter().for_each(|part| slots_of(part, all));
}
