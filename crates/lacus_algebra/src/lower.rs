//! From a checked program to a [`Network`]: every assignment makes a value of its own, reductions stand alone,
//! products of many factors are done two at a time in the best order, equal operators are one, and what a loop does
//! not change is computed before it.

mod factors;
mod inlined;
mod live;
mod reductions;
mod rounds;
mod sampled;

use crate::error::{AlgebraError, Place, Problem};
use crate::expr::{
    Affine, Axis, CheckedProgram, Comprehension, Element, ElementNode, Index, Slot, Step, StepNode, Symbol,
};
use crate::network::{FlowNode, Fold, Known, Made, Network, Operator, Scope, Value, slots_of};
use crate::syntax::Span;
use lacus_tensor::BinaryOp;
use lacus_tensor::DType;
use std::collections::{BTreeMap, BTreeSet};

/// The operators of a program, without those that nothing saved depends on. A program that saves nothing keeps its
/// variables as if it saved them. Fails if an intermediate result would be too large to count.
pub fn lower(program: &CheckedProgram) -> Result<Network, AlgebraError> {
    let mut lower = Lower {
        network: Network {
            source: program.source.clone(),
            scopes: vec![Scope { parent: None, of: None, is_after: false }],
            ..Network::default()
        },
        current: vec![None; program.slots.len()],
        levels: vec![Level::new(0)],
        program,
        made_up: 0,
    };
    for (at, slot) in program.slots.iter().enumerate() {
        if let Some(stored) = &slot.input {
            let made = Made::Load(stored.clone());
            lower.current[at] = Some(lower.value(&slot.name, slot.dtype, slot.dims.clone(), made, 0));
        }
    }
    lower.steps(&program.steps)?;
    let mut network = lower.network;
    network.flow = lower.levels.remove(0).nodes;
    if !saves(&network, &network.flow) {
        for (name, slot) in &program.names {
            let computed = lower.current[slot.0]
                .filter(|slot| matches!(network.value(*slot).made, Made::Operator(_) | Made::Carried(_)));
            network.flow.extend(computed.map(|slot| FlowNode::Save(slot, name.clone())));
        }
    }
    live::keep(&mut network);
    Ok(network)
}

fn saves(network: &Network, flow: &[FlowNode]) -> bool {
    flow.iter().any(|node| match node {
        FlowNode::Save(..) => true,
        FlowNode::Operator(_) => false,
        FlowNode::Loop(at) => {
            saves(network, &network.loops[*at].before) || saves(network, &network.loops[*at].after)
        }
    })
}

struct Lower<'a> {
    network: Network,
    program: &'a CheckedProgram,
    /// The value of each of the program's variables now.
    current: Vec<Option<Slot>>,
    /// The program and the loops around the current statement.
    levels: Vec<Level>,
    /// Names made up so far.
    made_up: usize,
}

struct Level {
    scope: usize,
    nodes: Vec<FlowNode>,
    /// Operators that were made here, by what they do.
    seen: BTreeMap<String, Slot>,
}

impl Level {
    fn new(scope: usize) -> Level {
        Level { scope, nodes: Vec::new(), seen: BTreeMap::new() }
    }
}

impl Lower<'_> {
    fn too_large(&self, dims: Vec<u64>, span: Span) -> AlgebraError {
        Problem::TooLarge { shape: dims }.at(Place::of(&self.program.source, span.start, span.end))
    }

    fn value(&mut self, name: &str, dtype: DType, dims: Vec<u64>, made: Made, scope: usize) -> Slot {
        self.network.values.push(Value { name: name.to_owned(), dtype, dims, made, scope });
        Slot(self.network.values.len() - 1)
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), AlgebraError> {
        for step in steps {
            match &step.node {
                StepNode::Compute(slot, value) => {
                    let made = self.compute(*slot, value, step.span)?;
                    self.current[slot.0] = Some(made);
                }
                StepNode::Save(slot, name) => {
                    if let Some(value) = self.current[slot.0] {
                        let value = self.settled(value, step.span)?;
                        self.top().nodes.push(FlowNode::Save(value, name.clone()));
                    }
                }
                StepNode::For { counter, from, to, body } => {
                    self.round_trip(step, Some((*counter, from, to)), body, &[])?;
                }
                StepNode::Loop { before, after, .. } => self.round_trip(step, None, before, after)?,
            }
        }
        Ok(())
    }

    fn top(&mut self) -> &mut Level {
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    fn compute(&mut self, slot: Slot, value: &Comprehension, span: Span) -> Result<Slot, AlgebraError> {
        let name = self.program.slots[slot.0].name.clone();
        let body = self.rename(&value.body)?;
        if value.axes.is_empty() && self.is_known(&body) {
            let scope = self.levels[self.level_of(&[&body])].scope;
            return Ok(self.value(&name, body.dtype, Vec::new(), Made::Parameter(body), scope));
        }
        if let ElementNode::Read(slot, at) = &body.node {
            let whole = at.iter().zip(&value.axes).all(|(at, axis)| at.as_index() == Some(axis.index));
            let dims = value.axes.iter().map(|axis| axis.extent);
            if whole && dims.eq(self.network.value(*slot).dims.iter().copied()) {
                return Ok(*slot);
            }
        }
        if let ElementNode::Reduce(reduction) = &body.node
            && value.axes.iter().all(|axis| body.uses(axis.index))
        {
            return self.reduction(&name, &value.axes, (**reduction).clone(), &[], span);
        }
        let body = self.without_reductions(body, &value.axes, &[], span)?;
        self.emit(&name, value.axes.clone(), None, body, span)
    }

    /// The element with values in place of the program's variables, and what is known computed.
    fn rename(&self, element: &Element) -> Result<Element, AlgebraError> {
        let mut element = element.clone();
        self.rename_in(&mut element)?;
        Ok(element)
    }

    fn rename_in(&self, element: &mut Element) -> Result<(), AlgebraError> {
        let now = |slot: Slot| self.current[slot.0].unwrap_or(slot);
        let number = |at: &Affine| {
            at.replace(|symbol| match symbol {
                Symbol::Index(_) => Affine::symbol(symbol),
                Symbol::Slot(slot) => match self.network.known(now(slot), &Known::new()) {
                    Some(known) => Affine::constant(known.to_i64()),
                    None => Affine::symbol(Symbol::Slot(now(slot))),
                },
            })
            .ok_or_else(|| AlgebraError::Argument {
                what: "a position",
                expected: "of at most 64 bits",
                found: at.to_string(),
            })
        };
        match &mut element.node {
            ElementNode::Read(slot, at) => {
                *slot = now(*slot);
                for at in at {
                    *at = number(at)?;
                }
            }
            ElementNode::Position(at) | ElementNode::Random(_, at) => *at = number(at)?,
            _ => {}
        }
        element.parts_mut().into_iter().try_for_each(|part| self.rename_in(part))?;
        if let Some(value) = self.network.evaluate(element, &Known::new()) {
            *element = Element::constant(value.convert(element.dtype));
        }
        Ok(())
    }

    /// True when a single number follows from literals and counters.
    fn is_known(&self, element: &Element) -> bool {
        let own = match &element.node {
            ElementNode::Read(slot, _) => {
                matches!(self.network.value(*slot).made, Made::Parameter(_) | Made::Counter(_))
            }
            ElementNode::Random(..) | ElementNode::Reduce(_) => false,
            _ => true,
        };
        own && element.parts().into_iter().all(|part| self.is_known(part))
    }

    /// The outermost level at which everything that these read is there.
    fn level_of(&self, elements: &[&Element]) -> usize {
        let mut slots = BTreeSet::new();
        elements.iter().for_each(|element| slots_of(element, &mut slots));
        let mut deepest = 0;
        for slot in slots {
            let scope = self.network.value(slot).scope;
            let level = self
                .network
                .around(scope)
                .find_map(|scope| self.levels.iter().position(|level| level.scope == scope));
            deepest = deepest.max(level.unwrap_or(0));
        }
        // The second part of a round runs once less than the first, and what belongs to it stays there.
        let next = self.levels.get(deepest + 1).map(|level| &self.network.scopes[level.scope]);
        if next.is_some_and(|scope| scope.is_after) { deepest + 1 } else { deepest }
    }

    /// A value that is there: of a known number, the operator that makes it.
    fn settled(&mut self, slot: Slot, span: Span) -> Result<Slot, AlgebraError> {
        let value = self.network.value(slot).clone();
        match value.made {
            Made::Parameter(body) => self.emit(&value.name, Vec::new(), None, body, span),
            Made::Counter(_) => {
                let at = Affine::symbol(Symbol::Slot(slot));
                let body = Element { node: ElementNode::Position(at), dtype: DType::I64 };
                self.emit(&value.name, Vec::new(), None, body, span)
            }
            _ => Ok(slot),
        }
    }

    /// Adds an operator, unless there is one that does the same.
    fn emit(
        &mut self,
        name: &str,
        axes: Vec<Axis>,
        fold: Option<Fold>,
        body: Element,
        span: Span,
    ) -> Result<Slot, AlgebraError> {
        let dims: Vec<u64> = axes.iter().map(|axis| axis.extent).collect();
        let elements = dims.iter().try_fold(1u64, |all, &n| all.checked_mul(n.max(1)));
        if elements.is_none_or(|n| n > i64::MAX as u64) {
            return Err(self.too_large(dims, span));
        }
        let mut operator = Operator { output: Slot(0), axes, fold, body, reads: Vec::new(), span, scope: 0 };
        number_from_zero(&mut operator);
        let key = format!("{:?} {:?} {:?}", operator.axes, operator.fold, operator.body);
        if let Some(slot) = self.levels.iter().rev().find_map(|level| level.seen.get(&key)) {
            return Ok(*slot);
        }
        let level = self.level_of(&operator.elements());
        operator.reads = self.network.reads(&operator);
        operator.scope = self.levels[level].scope;
        let at = self.network.operators.len();
        let slot = self.value(name, operator.body.dtype, dims, Made::Operator(at), operator.scope);
        operator.output = slot;
        self.network.operators.push(operator);
        self.levels[level].nodes.push(FlowNode::Operator(at));
        self.levels[level].seen.insert(key, slot);
        Ok(slot)
    }

    fn name(&mut self, base: &str) -> String {
        self.made_up += 1;
        format!("{base}.{}", self.made_up)
    }
}

/// Numbers the indices of an operator from 0 in the order of its axes, so that equal operators look equal.
fn number_from_zero(operator: &mut Operator) {
    let numbers: BTreeMap<Index, Index> =
        operator.labels().iter().enumerate().map(|(at, axis)| (axis.index, Index(at as u32))).collect();
    let of = |index: Index| numbers.get(&index).copied().unwrap_or(index);
    operator.axes.iter_mut().for_each(|axis| axis.index = of(axis.index));
    if let Some(fold) = &mut operator.fold {
        fold.axes.iter_mut().for_each(|axis| axis.index = of(axis.index));
        if let Some(guard) = &mut fold.guard {
            renumber(guard, &of);
        }
    }
    renumber(&mut operator.body, &of);
}

fn renumber(element: &mut Element, of: &impl Fn(Index) -> Index) {
    let each = |at: &mut Affine| {
        let new = at.replace(|symbol| match symbol {
            Symbol::Index(index) => Affine::index(of(index)),
            Symbol::Slot(_) => Affine::symbol(symbol),
        });
        *at = new.unwrap_or_default();
    };
    match &mut element.node {
        ElementNode::Position(at) | ElementNode::Random(_, at) => each(at),
        ElementNode::Read(_, at) => at.iter_mut().for_each(each),
        _ => {}
    }
    element.parts_mut().into_iter().for_each(|part| renumber(part, of));
}

/// Both conditions.
fn both(a: Element, b: Element) -> Element {
    Element { node: ElementNode::Binary(BinaryOp::And, Box::new(a), Box::new(b)), dtype: DType::Bool }
}

#[cfg(test)]
mod tests;
