//! Loops: what goes from round to round becomes a value that the loop carries.

use super::{Level, Lower};
use crate::error::AlgebraError;
use crate::expr::{Affine, Element, ElementNode, Slot, Step, StepNode};
use crate::network::{Carried, FlowNode, LoopNode, Made, Scope, Until, Value};
use lacus_tensor::DType;
use std::collections::BTreeSet;

impl Lower<'_> {
    /// A loop: `for` with its counter, or one with a condition between its parts.
    pub(super) fn round_trip(
        &mut self,
        step: &Step,
        counted: Option<(Slot, &Affine, &Affine)>,
        before: &[Step],
        after: &[Step],
    ) -> Result<(), AlgebraError> {
        let at = self.network.loops.len();
        let parent = Some(self.top().scope);
        let first = self.network.scopes.len();
        self.network.scopes.push(Scope { parent, of: Some(at), is_after: false });
        self.network.scopes.push(Scope { parent: Some(first), of: Some(at), is_after: true });
        let placeholder = Until::Is(Slot(0), true);
        let scopes = [first, first + 1];
        let (carried, nodes) = (Vec::new(), Vec::new());
        let span = step.span;
        self.network.loops.push(LoopNode {
            until: placeholder,
            before: nodes.clone(),
            after: nodes,
            carried,
            span,
            scopes,
        });
        let mut assigned = BTreeSet::new();
        assigned_in(before, &mut assigned);
        assigned_in(after, &mut assigned);
        let mut entering = Vec::new();
        for &slot in &assigned {
            if let Some(value) = self.current[slot.0] {
                entering.push((slot, self.settled(value, span)?));
            }
        }
        let bounds = match counted {
            Some((_, from, to)) => {
                let now =
                    |at: &Affine| Element { node: ElementNode::Position(at.clone()), dtype: DType::I64 };
                Some([self.rename(&now(from))?, self.rename(&now(to))?].map(|element| match element.node {
                    ElementNode::Position(at) => at,
                    ElementNode::Constant(value) => Affine::constant(value.to_i64()),
                    _ => Affine::default(),
                }))
            }
            None => None,
        };
        self.levels.push(Level::new(first));
        for (slot, enter) in &entering {
            let Value { name, dtype, dims, .. } = self.network.value(*enter).clone();
            let name = if name == self.program.slots[slot.0].name {
                name
            } else {
                self.program.slots[slot.0].name.clone()
            };
            self.current[slot.0] = Some(self.value(&name, dtype, dims, Made::Carried(at), first));
        }
        let insides: Vec<Option<Slot>> = entering.iter().map(|(slot, _)| self.current[slot.0]).collect();
        let counter = match counted {
            Some((counter, ..)) => {
                let name = self.program.slots[counter.0].name.clone();
                let value = self.value(&name, DType::I64, Vec::new(), Made::Counter(at), first);
                self.current[counter.0] = Some(value);
                Some(value)
            }
            None => None,
        };
        self.steps(before)?;
        let condition = match &step.node {
            StepNode::Loop { condition, .. } => {
                let value = self.current[condition.0].unwrap_or(*condition);
                Some(self.settled(value, span)?)
            }
            _ => None,
        };
        // Numbers that a counter gave are not known after its loop.
        for &slot in &assigned {
            if let Some(value) = self.current[slot.0]
                && matches!(self.network.value(value).made, Made::Parameter(_))
                && self.network.value(value).scope == first
            {
                self.current[slot.0] = Some(self.settled(value, span)?);
            }
        }
        let at_exit: Vec<(Slot, Option<Slot>)> =
            assigned.iter().map(|&slot| (slot, self.current[slot.0])).collect();
        let mut second = Vec::new();
        if !after.is_empty() {
            self.levels.push(Level::new(first + 1));
            self.steps(after)?;
        }
        let mut carried = Vec::new();
        for ((slot, enter), inside) in entering.iter().zip(&insides) {
            let (Some(inside), Some(next)) = (*inside, self.current[slot.0]) else { continue };
            let next = self.settled(next, span)?;
            carried.push(Carried { inside, enter: *enter, next });
        }
        if !after.is_empty() {
            second = self.levels.pop().map(|level| level.nodes).unwrap_or_default();
        }
        let first_nodes = self.levels.pop().map(|level| level.nodes).unwrap_or_default();
        for (slot, value) in at_exit {
            self.current[slot.0] = value;
        }
        let until = match (counter, bounds, condition, &step.node) {
            (Some(counter), Some([from, to]), ..) => {
                // What a counted loop carries is up to date after its last round.
                for ((slot, _), inside) in entering.iter().zip(&insides) {
                    self.current[slot.0] = *inside;
                }
                Until::Counted(counter, from, to)
            }
            (_, _, Some(condition), StepNode::Loop { ends_when, .. }) => Until::Is(condition, *ends_when),
            _ => Until::Is(Slot(0), true),
        };
        let node = &mut self.network.loops[at];
        (node.until, node.before, node.after, node.carried) = (until, first_nodes, second, carried);
        self.top().nodes.push(FlowNode::Loop(at));
        Ok(())
    }
}

fn assigned_in(steps: &[Step], all: &mut BTreeSet<Slot>) {
    for step in steps {
        match &step.node {
            StepNode::Compute(slot, _) => {
                all.insert(*slot);
            }
            StepNode::Save(..) => {}
            StepNode::For { body, .. } => assigned_in(body, all),
            StepNode::Loop { before, after, .. } => {
                assigned_in(before, all);
                assigned_in(after, all);
            }
        }
    }
}
