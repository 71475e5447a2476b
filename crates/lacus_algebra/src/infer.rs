//! Types and shapes, before anything runs: a program and the types of what it loads become a
//! [`CheckedProgram`], or an error with its place.
//!
//! - Elements are computed as bool, i64, f32 or f64. Numbers written in the program take the type of the tensors
//!   they meet (`A + 1` stays f32 for an f32 `A`), everything else promotes as numpy does.
//! - Extents, axes, seeds and positions must follow from shapes, literals and loop counters.
//! - A variable keeps type and shape through a loop, so a loop's body is checked (and later planned) once.

mod affine;
mod call;
mod indexed;
mod place_sums;
mod promote;
mod statement;
mod whole;

use crate::error::{AlgebraError, Place, Problem};
use crate::expr::{
    Affine, Axis, CheckedProgram, Comprehension, Element, ElementNode, Index, Slot, SlotType, Step, StepNode,
};
use crate::function::Functions;
use crate::syntax::{Expr, Program, Span, Statement};
use indexed::IndexScope;
use lacus_tensor::{DType, Shape};
use std::collections::{BTreeMap, BTreeSet};

/// The types of the tensors that a program may load, by name.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    by_name: BTreeMap<String, (DType, Shape)>,
}

impl Inputs {
    /// None.
    pub fn new() -> Inputs {
        Inputs::default()
    }

    /// These and one more.
    pub fn with(mut self, name: &str, dtype: DType, shape: Shape) -> Inputs {
        self.by_name.insert(name.to_owned(), (dtype, shape));
        self
    }
}

/// Checks a program against the tensors it loads and the functions it calls.
///
/// Fails with the place and the shapes in question when a name is undefined, an index has two extents or none,
/// shapes do not broadcast, types do not fit, or a loop can never end.
pub fn check(
    program: &Program,
    inputs: &Inputs,
    functions: &Functions,
) -> Result<CheckedProgram, AlgebraError> {
    let mut infer = Infer {
        source: &program.source,
        inputs,
        functions,
        definitions: BTreeMap::new(),
        program: CheckedProgram { source: program.source.clone(), ..CheckedProgram::default() },
        loaded: BTreeMap::new(),
        saved: BTreeMap::new(),
        scope: BTreeMap::new(),
        assigned: BTreeSet::new(),
        ranges: BTreeMap::new(),
        indices: None,
        loops: 0,
        calls: Vec::new(),
        size: 0,
        depth: 0,
    };
    infer.statements(&program.statements)?;
    let names = infer.scope.into_iter().filter_map(|(name, binding)| match binding {
        Binding::Variable { slot, .. } => Some((name, slot)),
        Binding::Element(_) => None,
    });
    infer.program.names = names.collect();
    Ok(infer.program)
}

/// How many expressions a program may have after its functions were put in place of their calls. Functions that
/// call functions twice double with each level.
const MAX_EXPRESSIONS: usize = 100_000;

/// Levels of elements after which what is there of an expression over whole arrays is computed on its own: a row of ten
/// thousand operators becomes some hundred steps, which are put together again as far as that is good.
const MAX_LEVELS: usize = 100;

/// Levels of expressions within each other, through calls. Walks over them recurse, and must fit the 2 MiB stack of
/// a thread.
const MAX_DEPTH: usize = 250;

struct Infer<'a> {
    source: &'a str,
    inputs: &'a Inputs,
    functions: &'a Functions,
    definitions: BTreeMap<String, Definition<'a>>,
    program: CheckedProgram,
    loaded: BTreeMap<String, Slot>,
    /// Where each name is saved.
    saved: BTreeMap<String, Span>,
    scope: BTreeMap<String, Binding>,
    /// Slots that statements assign, which are not inputs or intermediate results.
    assigned: BTreeSet<Slot>,
    /// Of the variables that are known to lie within one.
    ranges: BTreeMap<Slot, (i64, i64)>,
    /// Set while the right side of a statement with indices is looked at.
    indices: Option<IndexScope>,
    /// Loops around the current statement.
    loops: usize,
    /// Functions whose bodies are being put in place.
    calls: Vec<String>,
    size: usize,
    depth: usize,
}

#[derive(Clone, Copy)]
struct Definition<'a> {
    parameters: &'a [String],
    body: &'a [Statement],
    result: &'a Expr,
}

/// What a name stands for.
#[derive(Clone, Debug)]
enum Binding {
    Variable {
        slot: Slot,
        facts: Facts,
        /// Loops around the statement that made it.
        loops: usize,
        /// False when others may read the same slot, so that an assignment needs a new one.
        owned: bool,
    },
    /// A parameter of a function that stands for a single number.
    Element(Lowered),
}

/// What is known of a single number before running.
#[derive(Clone, Copy, Debug, Default)]
struct Facts {
    /// It comes from literals alone, and takes the type of what it meets.
    weak: bool,
    /// It is a whole number within this (closed) range.
    known: Option<(i64, i64)>,
}

/// An expression as an array that is not computed yet: its axes and the element at a position. Within a
/// statement with indices there are no axes, and the element depends on the indices.
#[derive(Clone, Debug)]
struct Lowered {
    axes: Vec<Axis>,
    body: Element,
    facts: Facts,
}

impl Lowered {
    fn dims(&self) -> Vec<u64> {
        self.axes.iter().map(|axis| axis.extent).collect()
    }

    fn scalar(body: Element, facts: Facts) -> Lowered {
        Lowered { axes: Vec::new(), body, facts }
    }

    fn describe(&self) -> String {
        describe(self.body.dtype, &self.dims())
    }

    /// The variable this is, unchanged and whole. A part of it that begins where it begins is not.
    fn as_slot(&self, slots: &[SlotType]) -> Option<Slot> {
        match &self.body.node {
            ElementNode::Read(slot, at)
                if slots[slot.0].dims == self.dims()
                    && at.iter().zip(&self.axes).all(|(at, axis)| at.as_index() == Some(axis.index)) =>
            {
                Some(*slot)
            }
            _ => None,
        }
    }
}

fn describe(dtype: DType, dims: &[u64]) -> String {
    if dims.is_empty() {
        format!("a single {}", dtype.name())
    } else {
        format!("{} of shape {dims:?}", dtype.name())
    }
}

impl<'a> Infer<'a> {
    /// One level further in. Fails if there are too many.
    fn deeper(&mut self, span: Span) -> Result<(), AlgebraError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail(Problem::TooDeep { limit: MAX_DEPTH }, span);
        }
        Ok(())
    }

    /// One expression more. Fails if there are too many.
    fn longer(&mut self, span: Span) -> Result<(), AlgebraError> {
        self.size += 1;
        if self.size > MAX_EXPRESSIONS {
            return self.fail(Problem::TooLong { limit: MAX_EXPRESSIONS }, span);
        }
        Ok(())
    }

    fn fail<T>(&self, problem: Problem, span: Span) -> Result<T, AlgebraError> {
        Err(problem.at(Place::of(self.source, span.start, span.end)))
    }

    fn fresh(&mut self) -> Index {
        self.program.index_count += 1;
        Index(self.program.index_count - 1)
    }

    fn axis(&mut self, extent: u64) -> Axis {
        Axis { index: self.fresh(), extent }
    }

    /// A new variable. Fails if it has too many elements or axes.
    fn slot(&mut self, name: &str, dtype: DType, dims: Vec<u64>, span: Span) -> Result<Slot, AlgebraError> {
        let elements = dims.iter().try_fold(1u64, |all, &n| all.checked_mul(n.max(1)));
        if elements.is_none_or(|n| n > i64::MAX as u64) {
            return self.fail(Problem::TooLarge { shape: dims }, span);
        }
        if dims.len() > lacus_tensor::MAX_RANK {
            let (expected, found) =
                (format!("at most {} axes", lacus_tensor::MAX_RANK), dims.len().to_string());
            return self.fail(Problem::Type { what: "a tensor".to_owned(), expected, found }, span);
        }
        self.program.slots.push(SlotType { name: name.to_owned(), dtype, dims, input: None });
        Ok(Slot(self.program.slots.len() - 1))
    }

    fn step(&mut self, node: StepNode, span: Span) {
        self.program.steps.push(Step { node, span });
    }

    fn compute(&mut self, slot: Slot, value: Lowered, span: Span) {
        self.step(StepNode::Compute(slot, Comprehension { axes: value.axes, body: value.body }), span);
    }

    /// A whole variable.
    fn read(&mut self, slot: Slot, facts: Facts) -> Lowered {
        let SlotType { dtype, dims, .. } = self.program.slots[slot.0].clone();
        let axes: Vec<Axis> = dims.iter().map(|&extent| self.axis(extent)).collect();
        let at = axes.iter().map(|axis| Affine::index(axis.index)).collect();
        Lowered { axes, body: Element { node: ElementNode::Read(slot, at), dtype }, facts }
    }

    /// Computes an intermediate result now, and reads it from then on.
    fn materialize(&mut self, value: Lowered, span: Span) -> Result<Lowered, AlgebraError> {
        let facts = value.facts;
        let slot = match value.as_slot(&self.program.slots) {
            Some(slot) => slot,
            None => {
                let name = format!("_{}", self.program.slots.len());
                let slot = self.slot(&name, value.body.dtype, value.dims(), span)?;
                self.compute(slot, value, span);
                slot
            }
        };
        Ok(self.read(slot, facts))
    }

    /// A value to be used within a larger expression: reductions are computed first, so that they are not
    /// computed again for every element around them.
    fn settle(&mut self, value: Lowered, span: Span) -> Result<Lowered, AlgebraError> {
        if value.body.reduces() { self.materialize(value, span) } else { Ok(value) }
    }
}

#[cfg(test)]
mod tests;
