//! Sums of which only some are looked at.

use super::live;
use crate::expr::{ElementNode, ReduceOp, Slot};
use crate::network::{FlowNode, Fold, Made, Network, Operator, Read, Until};
use lacus_tensor::BinaryOp;

impl Network {
    /// Takes sums only where they are looked at: `where(c, Σ …, 0)` becomes `Σ … if c`, for those of which `pays` says so.
    /// That is a loss if most of them are looked at: a sum with a condition is no product of matrices.
    pub fn sample(&mut self, pays: impl Fn(&Network, &Operator) -> bool) {
        let mut is_changed = false;
        for at in self.running() {
            if let Some(sampled) = self.sampled(at).filter(|sampled| pays(self, sampled)) {
                self.operators[at] = sampled;
                is_changed = true;
            }
        }
        if is_changed {
            live::keep(self);
        }
    }

    /// The sum with a condition that an operator could be.
    fn sampled(&self, at: usize) -> Option<Operator> {
        let operator = &self.operators[at];
        let ElementNode::Where(condition, sum, other) = &operator.body.node else { return None };
        let ElementNode::Read(slot, place) = &sum.node else { return None };
        let ElementNode::Constant(zero) = &other.node else { return None };
        let Made::Operator(of) = self.value(*slot).made else { return None };
        let found = &self.operators[of];
        let Fold { op: ReduceOp::Op(BinaryOp::Add), axes, guard: None } = found.fold.as_ref()? else {
            return None;
        };
        let is_same = operator.fold.is_none()
            && !zero.is_true()
            && operator.scope == found.scope
            && operator.axes == found.axes
            && operator.body.dtype == found.body.dtype
            && place.iter().zip(&operator.axes).all(|(at, axis)| at.as_index() == Some(axis.index));
        if !is_same || self.uses(*slot) != 1 {
            return None;
        }
        let mut reads: Vec<Read> = Vec::new();
        let looked_at = operator.reads.iter().filter(|read| read.value != *slot);
        for read in looked_at.chain(&found.reads) {
            if !reads.contains(read) {
                reads.push(read.clone());
            }
        }
        let guard = Some((**condition).clone());
        Some(Operator {
            fold: Some(Fold { op: ReduceOp::Op(BinaryOp::Add), axes: axes.clone(), guard }),
            body: found.body.clone(),
            reads,
            ..operator.clone()
        })
    }

    /// How often a value is used.
    fn uses(&self, slot: Slot) -> usize {
        let mut count = 0;
        self.walk(&self.flow, &mut |node| match node {
            FlowNode::Operator(at) => {
                count += self.operators[*at].reads.iter().filter(|read| read.value == slot).count();
            }
            FlowNode::Save(saved, _) => count += usize::from(*saved == slot),
            FlowNode::Loop(at) => {
                let node = &self.loops[*at];
                let carried = node.carried.iter().flat_map(|carried| [carried.enter, carried.next]);
                count += carried.filter(|&carried| carried == slot).count();
                count += usize::from(matches!(node.until, Until::Is(until, _) if until == slot));
            }
        });
        count
    }
}
