//! Reductions within larger expressions become operators of their own, so that every operator has one at most.

use super::{Lower, both};
use crate::error::AlgebraError;
use crate::expr::{Axis, Element, ElementNode, Reduction, Slot, Symbol};
use crate::network::Fold;
use crate::syntax::Span;
use lacus_tensor::DType;
use lacus_tensor::UnaryOp;

impl Lower<'_> {
    /// The element with every reduction computed before and read. `outer` are the axes around it, and `holds` what
    /// is true wherever the element is looked at.
    pub(super) fn without_reductions(
        &mut self,
        mut element: Element,
        outer: &[Axis],
        holds: &[Element],
        span: Span,
    ) -> Result<Element, AlgebraError> {
        match element.node {
            ElementNode::Reduce(reduction) => {
                let uses = |axis: &Axis| {
                    reduction.body.uses(axis.index)
                        || reduction.guard.as_ref().is_some_and(|guard| guard.uses(axis.index))
                };
                let mut axes: Vec<Axis> = outer.iter().filter(|axis| uses(axis)).cloned().collect();
                // A condition that keeps positions inside may use more axes.
                let needed = self.reaches_outside(&reduction, outer);
                let holds = if needed { holds } else { &[] };
                axes.extend(
                    outer
                        .iter()
                        .filter(|axis| !uses(axis) && holds.iter().any(|held| held.uses(axis.index)))
                        .cloned(),
                );
                let at = axes.iter().map(|axis| crate::expr::Affine::index(axis.index)).collect();
                let dtype = element.dtype;
                let name = self.name("r");
                let slot = self.reduction(&name, &axes, *reduction, holds, span)?;
                Ok(Element { node: ElementNode::Read(slot, at), dtype })
            }
            ElementNode::Where(c, a, b) => {
                let c = self.without_reductions(*c, outer, holds, span)?;
                let not = Element {
                    node: ElementNode::Unary(UnaryOp::Not, Box::new(c.clone())),
                    dtype: DType::Bool,
                };
                let with = |condition: &Element| [holds, std::slice::from_ref(condition)].concat();
                let a = self.without_reductions(*a, outer, &with(&c), span)?;
                let b = self.without_reductions(*b, outer, &with(&not), span)?;
                let node = ElementNode::Where(Box::new(c), Box::new(a), Box::new(b));
                Ok(Element { node, dtype: element.dtype })
            }
            _ => {
                for part in element.parts_mut() {
                    let own = std::mem::replace(part, Element::constant(lacus_tensor::Scalar::Bool(false)));
                    *part = self.without_reductions(own, outer, holds, span)?;
                }
                Ok(element)
            }
        }
    }

    /// An operator that reduces, with what it needs.
    pub(super) fn reduction(
        &mut self,
        name: &str,
        axes: &[Axis],
        reduction: Reduction,
        holds: &[Element],
        span: Span,
    ) -> Result<Slot, AlgebraError> {
        let Reduction { op, axes: over, guard, body } = reduction;
        let outer = [axes, &over[..]].concat();
        let mut guard = match guard {
            Some(guard) => Some(self.without_reductions(guard, &outer, holds, span)?),
            None => None,
        };
        let inner: Vec<Element> = holds.iter().chain(&guard).cloned().collect();
        let body = self.without_reductions(body, &outer, &inner, span)?;
        for held in holds {
            guard = Some(match guard {
                Some(guard) => both(held.clone(), guard),
                None => held.clone(),
            });
        }
        self.factorised(name, axes, Fold { op, axes: over, guard }, body, span)
    }

    /// True when a position of a reduction leaves its tensor unless something outside keeps it in.
    fn reaches_outside(&self, reduction: &Reduction, outer: &[Axis]) -> bool {
        let axes = [outer, &reduction.axes[..]].concat();
        self.leaves(&reduction.body, &axes)
            || reduction.guard.as_ref().is_some_and(|guard| self.leaves(guard, &axes))
    }

    fn leaves(&self, element: &Element, axes: &[Axis]) -> bool {
        if let ElementNode::Read(slot, at) = &element.node {
            let inside = at.iter().zip(&self.network.value(*slot).dims).all(|(at, &extent)| {
                if at.factors().any(|(symbol, _)| matches!(symbol, Symbol::Slot(_))) {
                    return false;
                }
                let (low, high) = at.range(|symbol| {
                    let axis = axes.iter().find(|axis| Symbol::Index(axis.index) == symbol);
                    (0, axis.map_or(0, |axis| axis.extent.max(1) - 1) as i64)
                });
                low >= 0 && high < i128::from(extent)
            });
            if !inside {
                return true;
            }
        }
        // Axes of reductions within run as far as they say.
        if let ElementNode::Reduce(reduction) = &element.node {
            return self.reaches_outside(reduction, axes);
        }
        element.parts().into_iter().any(|part| self.leaves(part, axes))
    }
}
