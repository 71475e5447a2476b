//! The reference interpreter: runs a checked program on small dense arrays, one element after another. It is
//! what a program means; engines and plans are compared with it.

use crate::array::{Array, positions};
use crate::error::{AlgebraError, Place, Problem};
use crate::expr::{
    Affine, Axis, CheckedProgram, Comprehension, Element, ElementNode, ReduceOp, Reduction, Step, StepNode,
    Symbol,
};
use crate::syntax::Span;
use lacus_tensor::DType;
use lacus_tensor::Scalar;
use std::collections::BTreeMap;

/// How far the interpreter goes before it gives up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rounds of all loops together.
    pub rounds: u64,
    /// Elements of one array.
    pub elements: u64,
    /// Operations on elements for one array.
    pub operations: u64,
}

impl Default for Limits {
    /// A million rounds, arrays of up to 16 million elements (256 MiB, as the interpreter keeps them), and a few
    /// minutes for one of them.
    fn default() -> Limits {
        Limits { rounds: 1_000_000, elements: 1 << 24, operations: 1 << 34 }
    }
}

/// What a program left behind.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What it saved, by name.
    pub saved: BTreeMap<String, Array>,
    /// Its variables that are defined at the end, by name.
    pub variables: BTreeMap<String, Array>,
}

/// Runs a program on the tensors it loads. Fails if one is missing or is not what the program was checked
/// with, or if a limit is reached.
pub fn interpret(
    program: &CheckedProgram,
    inputs: &BTreeMap<String, Array>,
    limits: Limits,
) -> Result<Outcome, AlgebraError> {
    let mut machine = Machine {
        program,
        limits,
        values: vec![None; program.slots.len()],
        indices: vec![0; program.index_count as usize],
        rounds: 0,
        saved: BTreeMap::new(),
    };
    for (value, slot) in machine.values.iter_mut().zip(&program.slots) {
        let Some(name) = &slot.input else { continue };
        let given = inputs.get(name).ok_or_else(|| AlgebraError::MissingInput { name: name.clone() })?;
        let dims: Vec<usize> = slot.dims.iter().map(|&n| n as usize).collect();
        if given.dims() != dims || given.dtype() != slot.dtype {
            let what = format!("input '{name}', checked as {} and given as {}", slot.dtype, given.dtype());
            return Err(AlgebraError::TileShapes { what, shapes: vec![dims, given.dims().to_vec()] });
        }
        *value = Some(given.clone());
    }
    machine.steps(&program.steps)?;
    let named = program.names.iter().map(|(name, slot)| (name.clone(), machine.values[slot.0].clone()));
    let variables = named.filter_map(|(name, value)| Some((name, value?))).collect();
    Ok(Outcome { saved: machine.saved, variables })
}

struct Machine<'a> {
    program: &'a CheckedProgram,
    limits: Limits,
    values: Vec<Option<Array>>,
    /// The value of each index that runs.
    indices: Vec<i64>,
    rounds: u64,
    saved: BTreeMap<String, Array>,
}

impl Machine<'_> {
    fn fail<T>(&self, reason: String, span: Span) -> Result<T, AlgebraError> {
        let place = Place::of(&self.program.source, span.start, span.end);
        Err(Problem::InterpreterLimit { reason }.at(place))
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), AlgebraError> {
        for step in steps {
            match &step.node {
                StepNode::Compute(slot, value) => {
                    let value = self.compute(value, step.span)?;
                    self.values[slot.0] = Some(value);
                }
                StepNode::Save(slot, name) => {
                    if let Some(value) = &self.values[slot.0] {
                        self.saved.insert(name.clone(), value.clone());
                    }
                }
                StepNode::For { counter, from, to, body } => {
                    for n in self.position(from)..self.position(to) {
                        self.round(step.span)?;
                        self.values[counter.0] = Some(Array::scalar(Scalar::I64(n)));
                        self.steps(body)?;
                    }
                }
                StepNode::Loop { before, condition, ends_when, after } => loop {
                    self.round(step.span)?;
                    self.steps(before)?;
                    let truth =
                        self.values[condition.0].as_ref().is_some_and(|value| value.at(&[]).is_true());
                    if truth == *ends_when {
                        break;
                    }
                    self.steps(after)?;
                },
            }
        }
        Ok(())
    }

    fn round(&mut self, span: Span) -> Result<(), AlgebraError> {
        self.rounds += 1;
        if self.rounds > self.limits.rounds {
            return self.fail(format!("more than {} rounds of loops", self.limits.rounds), span);
        }
        Ok(())
    }

    fn compute(&mut self, value: &Comprehension, span: Span) -> Result<Array, AlgebraError> {
        let elements = value.axes.iter().fold(1u64, |all, axis| all.saturating_mul(axis.extent));
        if elements > self.limits.elements {
            return self
                .fail(format!("{elements} elements in one array, more than {}", self.limits.elements), span);
        }
        let operations = elements.saturating_mul(operations(&value.body));
        if operations > self.limits.operations {
            let reason =
                format!("{operations} operations for one array, more than {}", self.limits.operations);
            return self.fail(reason, span);
        }
        let dims = extents(&value.axes);
        let mut items = Vec::with_capacity(elements as usize);
        for at in positions(&dims) {
            self.place(&value.axes, &at);
            items.push(self.element(&value.body));
        }
        Array::new(value.body.dtype, dims, items)
    }

    fn place(&mut self, axes: &[Axis], at: &[usize]) {
        for (axis, &at) in axes.iter().zip(at) {
            self.indices[axis.index.0 as usize] = at as i64;
        }
    }

    fn position(&self, at: &Affine) -> i64 {
        at.value(|symbol| match symbol {
            Symbol::Index(index) => self.indices[index.0 as usize],
            Symbol::Slot(slot) => self.values[slot.0].as_ref().map_or(0, |value| value.at(&[]).to_i64()),
        })
    }

    fn element(&mut self, element: &Element) -> Scalar {
        match &element.node {
            ElementNode::Constant(value) => *value,
            ElementNode::Position(at) => Scalar::I64(self.position(at)),
            ElementNode::Read(slot, at) => {
                let at: Vec<usize> = at.iter().map(|at| self.position(at) as usize).collect();
                match &self.values[slot.0] {
                    Some(value) => value.at(&at),
                    // Checked programs assign before they read.
                    None => Scalar::F64(f64::NAN).convert(element.dtype),
                }
            }
            ElementNode::Random(seed, at) => Scalar::F64(random(*seed, self.position(at) as u64)),
            ElementNode::Convert(a) => self.element(a).convert(element.dtype),
            ElementNode::Unary(op, a) => self.element(a).unary(*op),
            ElementNode::Binary(op, a, b) => {
                let a = self.element(a);
                a.binary(*op, self.element(b))
            }
            ElementNode::Call(function, all) => {
                let arguments: Vec<f64> = all.iter().map(|a| self.element(a).to_f64()).collect();
                Scalar::F64(function.call(&arguments)).convert(element.dtype)
            }
            ElementNode::Where(c, a, b) => {
                if self.element(c).is_true() {
                    self.element(a)
                } else {
                    self.element(b)
                }
            }
            ElementNode::Reduce(reduction) => self.reduce(reduction, element.dtype),
        }
    }

    fn reduce(&mut self, reduction: &Reduction, dtype: DType) -> Scalar {
        let Reduction { op, axes, guard, body } = reduction;
        let mut result = op.identity(dtype).unwrap_or(Scalar::F64(f64::NAN).convert(dtype));
        for at in positions(&extents(axes)) {
            self.place(axes, &at);
            if guard.as_ref().is_some_and(|guard| !self.element(guard).is_true()) {
                continue;
            }
            let next = self.element(body);
            result = match op {
                ReduceOp::Op(op) => result.binary(*op, next),
                ReduceOp::Function(function) => {
                    Scalar::F64(function.call(&[result.to_f64(), next.to_f64()])).convert(dtype)
                }
            };
        }
        result
    }
}

/// Operations that one element takes at most.
fn operations(element: &Element) -> u64 {
    let parts = element.parts().into_iter().map(operations).fold(1, u64::saturating_add);
    match &element.node {
        ElementNode::Reduce(reduction) => {
            reduction.axes.iter().fold(parts, |all, axis| all.saturating_mul(axis.extent))
        }
        _ => parts,
    }
}

fn extents(axes: &[Axis]) -> Vec<usize> {
    axes.iter().map(|axis| axis.extent as usize).collect()
}

/// A number from [0, 1) for a seed and a position: splitmix64 over both, so that every tile of a tensor can be
/// made on its own, anywhere.
pub fn random(seed: u64, position: u64) -> f64 {
    let mix = |x: u64| {
        let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    };
    let start = mix(seed.wrapping_add(0x9E37_79B9_7F4A_7C15));
    let bits = mix(start.wrapping_add(position.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15)));
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests;
