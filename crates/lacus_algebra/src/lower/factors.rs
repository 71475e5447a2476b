//! Products of many factors under a reduction: two at a time, in the order that takes the fewest multiplications, with
//! each factor computed once and not again for every axis that it does not have. Any pair of operations that makes a
//! semiring will do.

use super::Lower;
use crate::contraction::{Contraction, Label};
use crate::error::AlgebraError;
use crate::expr::{Affine, Axis, Element, ElementNode, ReduceOp, Slot};
use crate::network::Fold;
use crate::syntax::Span;
use lacus_tensor::BinaryOp;

impl Lower<'_> {
    /// An operator that folds a body without reductions, or several that come to the same.
    pub(super) fn factorised(
        &mut self,
        name: &str,
        axes: &[Axis],
        fold: Fold,
        body: Element,
        span: Span,
    ) -> Result<Slot, AlgebraError> {
        let (ReduceOp::Op(plus), None) = (&fold.op, &fold.guard) else {
            return self.emit(name, axes.to_vec(), Some(fold), body, span);
        };
        let plus = *plus;
        let all: Vec<Axis> = axes.iter().chain(&fold.axes).cloned().collect();
        let times = match &body.node {
            ElementNode::Binary(times, ..) if times.distributes_over(plus) && *times != plus => *times,
            _ => return self.emit(name, axes.to_vec(), Some(fold), body, span),
        };
        let mut factors = Vec::new();
        split(body, times, &mut factors);
        let labels = |factor: &Element| -> Vec<Axis> {
            all.iter().filter(|axis| factor.uses(axis.index)).cloned().collect()
        };
        // What depends on no index (a number, known or computed) stays with the last product.
        let (numbers, tensors): (Vec<Element>, Vec<Element>) =
            factors.into_iter().partition(|factor| labels(factor).is_empty());
        let mut settled = Vec::with_capacity(tensors.len());
        for factor in tensors {
            let own = labels(&factor);
            if is_plain(&factor) || own.len() == all.len() {
                settled.push(factor);
                continue;
            }
            let (dtype, at) = (factor.dtype, own.iter().map(|axis| Affine::index(axis.index)).collect());
            let temporary = self.name(name);
            let slot = self.emit(&temporary, own, None, factor, span)?;
            settled.push(Element { node: ElementNode::Read(slot, at), dtype });
        }
        let used = |axis: &Axis| settled.iter().any(|factor| factor.uses(axis.index));
        if settled.len() < 3 || !settled.iter().all(is_indexed) || !all.iter().all(used) {
            let body = product(settled.into_iter().chain(numbers), times);
            return match body {
                Some(body) => self.emit(name, axes.to_vec(), Some(fold), body, span),
                None => Err(self.too_large(Vec::new(), span)),
            };
        }
        self.pairs(name, axes, &fold, times, settled, numbers, span)
    }

    /// Products of two at a time.
    #[expect(clippy::too_many_arguments, reason = "all of one statement, and used here alone")]
    fn pairs(
        &mut self,
        name: &str,
        axes: &[Axis],
        fold: &Fold,
        times: BinaryOp,
        mut factors: Vec<Element>,
        numbers: Vec<Element>,
        span: Span,
    ) -> Result<Slot, AlgebraError> {
        let all: Vec<Axis> = axes.iter().chain(&fold.axes).cloned().collect();
        let labels_of = |factor: &Element| -> Vec<Label> {
            factor.positions().iter().chain(inner_positions(factor)).filter_map(Affine::as_index).collect()
        };
        let contraction = Contraction {
            factors: factors.iter().map(|factor| (Slot(0), labels_of(factor))).collect(),
            output: axes.iter().map(|axis| axis.index).collect(),
            extents: all.iter().map(|axis| (axis.index, axis.extent)).collect(),
        };
        let steps = contraction.order();
        let last = steps.len() - 1;
        let mut slot = Slot(0);
        for (at, step) in steps.into_iter().enumerate() {
            let (left, right) = (factors[step.left].clone(), factors[step.right].clone());
            let output: Vec<Axis> = step
                .output
                .iter()
                .filter_map(|label| all.iter().find(|axis| axis.index == *label).cloned())
                .collect();
            let over: Vec<Axis> = all
                .iter()
                .filter(|axis| (left.uses(axis.index) || right.uses(axis.index)) && !output.contains(axis))
                .cloned()
                .collect();
            let extra = if at == last { numbers.clone() } else { Vec::new() };
            let Some(body) = product([left, right].into_iter().chain(extra), times) else { continue };
            let dtype = body.dtype;
            let own = if at == last { name.to_owned() } else { self.name(name) };
            let fold = (!over.is_empty()).then(|| Fold { op: fold.op.clone(), axes: over, guard: None });
            slot = self.emit(&own, output.clone(), fold, body, span)?;
            let position = output.iter().map(|axis| Affine::index(axis.index)).collect();
            factors.push(Element { node: ElementNode::Read(slot, position), dtype });
        }
        Ok(slot)
    }
}

fn split(element: Element, times: BinaryOp, factors: &mut Vec<Element>) {
    match element.node {
        ElementNode::Binary(op, a, b) if op == times => {
            split(*a, times, factors);
            split(*b, times, factors);
        }
        _ => factors.push(element),
    }
}

fn product(factors: impl Iterator<Item = Element>, times: BinaryOp) -> Option<Element> {
    factors.reduce(|a, b| {
        let dtype = a.dtype;
        Element { node: ElementNode::Binary(times, Box::new(a), Box::new(b)), dtype }
    })
}

/// A tensor that is read, perhaps in another type: nothing is saved by computing it before.
fn is_plain(factor: &Element) -> bool {
    match &factor.node {
        ElementNode::Read(..) | ElementNode::Constant(_) | ElementNode::Position(_) => true,
        ElementNode::Convert(inner) => is_plain(inner),
        _ => false,
    }
}

/// A tensor that is read by indices alone.
fn is_indexed(factor: &Element) -> bool {
    match &factor.node {
        ElementNode::Read(_, at) => at.iter().all(|at| at.as_index().is_some()),
        ElementNode::Convert(inner) => is_indexed(inner),
        _ => false,
    }
}

fn inner_positions(factor: &Element) -> &[Affine] {
    match &factor.node {
        ElementNode::Convert(inner) => match inner.positions() {
            [] => inner_positions(inner),
            found => found,
        },
        _ => &[],
    }
}
