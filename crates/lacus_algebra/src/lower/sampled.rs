//! Sums of which only some are looked at.

use crate::expr::{Affine, Axis, Element, ElementNode, ReduceOp, Slot, Symbol};
use crate::network::{FlowNode, Fold, Made, Network, Operator, Read, Until};
use lacus_tensor::BinaryOp;
use std::collections::BTreeMap;

impl Network {
    /// Takes sums only where they are looked at: the sum in `where(c, A - Σ …, 0)` becomes `Σ … if c`, for those of which
    /// `pays` says so. That is a loss if most of them are looked at: a sum with a condition is no product of matrices.
    pub fn sample(&mut self, pays: impl Fn(&Network, &Operator) -> bool) {
        let mut uses = self.uses();
        for at in self.running() {
            for place in 0..self.operators[at].reads.len() {
                let Some((of, sampled)) = self.sampled(at, place, &uses) else { continue };
                // The condition may read what is made after the sum, which nobody else waits for.
                if pays(self, &sampled) && self.move_before(of, at) {
                    for read in &sampled.reads[self.operators[of].reads.len()..] {
                        *uses.entry(read.value).or_default() += 1;
                    }
                    self.operators[of] = sampled;
                }
            }
        }
    }

    /// The sum that an operator looks at under a condition only, with that condition.
    fn sampled(&self, at: usize, place: usize, uses: &BTreeMap<Slot, usize>) -> Option<(usize, Operator)> {
        let operator = &self.operators[at];
        let read = &operator.reads[place];
        let Made::Operator(of) = self.value(read.value).made else { return None };
        let found = &self.operators[of];
        let Fold { op: ReduceOp::Op(BinaryOp::Add), guard: None, .. } = found.fold.as_ref()? else {
            return None;
        };
        let guard = operator.fold.as_ref().and_then(|fold| fold.guard.as_ref());
        let (condition, true) =
            read.under.first().map(|(c, truth)| (c, *truth)).or(guard.map(|c| (c, true)))?
        else {
            return None;
        };
        if operator.scope != found.scope || uses.get(&read.value) != Some(&1) {
            return None;
        }
        // What the condition says in the operator's indices, in those of the sum.
        let names = names_of(operator, read, found)?;
        let renamed = |at: &Affine| {
            let is_known = at.factors().all(|(symbol, _)| match symbol {
                Symbol::Index(_) => names.contains_key(&symbol),
                Symbol::Slot(_) => true,
            });
            is_known.then(|| at.replace(|symbol| Affine::symbol(*names.get(&symbol).unwrap_or(&symbol))))?
        };
        let mut sampled = found.clone();
        let mut looked_at = Vec::new();
        reads_of(condition, &mut looked_at);
        for (value, at) in looked_at.into_iter().filter(|(slot, _)| !self.is_number(*slot)) {
            // The sum itself is not there yet; and what is there in places only would need its own condition.
            let is_there = |read: &Read| read.value == value && read.at == *at && read.under.is_empty();
            if value == found.output || !operator.reads.iter().any(is_there) {
                return None;
            }
            let at = at.iter().map(renamed).collect::<Option<_>>()?;
            let read = Read { value, at, under: Vec::new() };
            if !sampled.reads.contains(&read) {
                sampled.reads.push(read);
            }
        }
        let mut condition = condition.clone();
        if !condition.move_positions(&renamed) {
            return None;
        }
        sampled.fold.as_mut()?.guard = Some(condition);
        Some((of, sampled))
    }

    /// Runs an operator right before another one. False if they are not parts of the same flow.
    fn move_before(&mut self, of: usize, at: usize) -> bool {
        let parts = self.loops.iter_mut().flat_map(|node| [&mut node.before, &mut node.after]);
        for flow in std::iter::once(&mut self.flow).chain(parts) {
            let place = |flow: &[FlowNode], of| flow.iter().position(|node| *node == FlowNode::Operator(of));
            if let (Some(from), Some(to)) = (place(flow, of), place(flow, at)) {
                // It was made for the other one, and hence stands before it.
                flow[from..to].rotate_left(1);
                return true;
            }
        }
        false
    }

    /// Whether this is a parameter or a counter, which operators do not list as reads.
    fn is_number(&self, slot: Slot) -> bool {
        matches!(self.value(slot).made, Made::Parameter(_) | Made::Counter(_))
    }

    /// How often each value is used.
    fn uses(&self) -> BTreeMap<Slot, usize> {
        let mut all: BTreeMap<Slot, usize> = BTreeMap::new();
        let mut used = |slot: Slot| *all.entry(slot).or_default() += 1;
        self.walk(&self.flow, &mut |node| match node {
            FlowNode::Operator(at) => self.operators[*at].reads.iter().for_each(|read| used(read.value)),
            FlowNode::Save(slot, _) => used(*slot),
            FlowNode::Loop(at) => {
                let node = &self.loops[*at];
                node.carried.iter().flat_map(|carried| [carried.enter, carried.next]).for_each(&mut used);
                if let Until::Is(until, _) = node.until {
                    used(until);
                }
            }
        });
        all
    }
}

/// The indices of an operator by those of the whole of what it reads; `None` if it reads another part of that.
fn names_of(operator: &Operator, read: &Read, of: &Operator) -> Option<BTreeMap<Symbol, Symbol>> {
    let axes: Vec<&Axis> =
        operator.axes.iter().chain(operator.fold.iter().flat_map(|fold| &fold.axes)).collect();
    let mut names = BTreeMap::new();
    for (at, axis) in read.at.iter().zip(&of.axes) {
        let index = at.as_index()?;
        let is_all = axes.iter().any(|own| own.index == index && own.extent == axis.extent);
        if !is_all || names.insert(Symbol::Index(index), Symbol::Index(axis.index)).is_some() {
            return None;
        }
    }
    Some(names)
}

/// Everything that an element reads.
fn reads_of<'e>(element: &'e Element, all: &mut Vec<(Slot, &'e Vec<Affine>)>) {
    if let ElementNode::Read(slot, at) = &element.node {
        all.push((*slot, at));
    }
    element.parts().into_iter().for_each(|part| reads_of(part, all));
}

#[cfg(test)]
mod tests {
    use crate::network::Formula;
    use crate::{Functions, Inputs, check, lower, parse};
    use lacus_tensor::{DType, Shape};

    /// The operators of a program after sums that are looked at in places were told so.
    fn sampled(text: &str) -> Vec<String> {
        let shapes = [("R", [9, 8]), ("T", [9, 8]), ("P", [9, 3]), ("Q", [3, 8])];
        let inputs = shapes.iter().fold(Inputs::new(), |inputs, (name, dims)| {
            inputs.with(name, DType::F64, Shape::new(*dims).unwrap())
        });
        let loads: String = shapes.iter().map(|(name, _)| format!("{name} = load(\"{name}\")\n")).collect();
        let program = check(&parse(&format!("{loads}{text}")).unwrap(), &inputs, &Functions::new()).unwrap();
        let mut network = lower(&program).unwrap();
        network.sample(|_, _| true);
        network
            .running()
            .into_iter()
            .map(|at| Formula(&network, &network.operators[at]).to_string())
            .collect()
    }

    #[test]
    fn sums_get_the_condition_they_are_looked_at_under() {
        let all = sampled("save(where(R != 0, R - P @ Q, 0), \"x\")");
        assert!(all[0].contains("sum[k] P[i,k] * Q[k,j] if R[i,j] != 0"), "{all:?}");
        // What the condition needs is made first.
        let all = sampled("G[i,j] = P[i,k] * Q[k,j]\nH = R + T\nsave(where(H > 1, G, 0), \"x\")");
        assert!(all[0].contains("R[i,j] + T[i,j]") && all[1].contains(" if H[i,j] > 1"), "{all:?}");
        let all = sampled(
            "for t in 0..3 { G = where(R != 0, P @ Q, 0); P = 2 * P }\nsave(P, \"x\")\nsave(G, \"y\")",
        );
        assert!(all.iter().any(|operator| operator.contains(" if R[i,j] != 0")), "{all:?}");
        // Also where it is summed up at once, or transposed.
        let all = sampled("G = P @ Q\nx[] = abs(R[a,b] - G[a,b]) if R[a,b] > 3\nsave(x, \"x\")");
        assert!(all.len() == 2 && all[0].contains(" if R[i,j] > 3"), "{all:?}");
        let all = sampled("G = P @ Q\nx[j,i] = where(R[i,j] != 0, G[i,j], 0)\nsave(x, \"x\")");
        assert!(all[0].contains(" if R[i,j] != 0"), "{all:?}");
    }

    #[test]
    fn sums_that_others_see_stay_whole() {
        for text in [
            "G = P @ Q\nsave(where(R != 0, G, 0), \"x\")\nsave(sum(G), \"y\")",
            "G = P @ Q\nsave(where(R != 0, 0, G), \"x\")",
            "G = P @ Q\nx[i,j] = where(R[i,j] != 0, G[i,0], 0)\nsave(x, \"x\")",
            "G = P @ Q\nx[i,j,l] = where(R[i,j] + P[i,l] != 0, G[i,j], 0)\nsave(x, \"x\")",
            "G = transpose(P) @ P\nx[i] = where(P[0,i] != 0, G[i,i], 0)\nsave(x, \"x\")",
            "save(R - P @ Q, \"x\")",
            "G = P @ Q\nx[] = R[i,j] if R[i,j] != 0 and G[i,j] > 1\nsave(x, \"x\")",
            "G = P @ Q\nx[i,j] = where(where(R[i,j] != 0, T[i,j], 0) > 0.5, G[i,j], 0)\nsave(x, \"x\")",
        ] {
            let all = sampled(text);
            assert!(
                !all.iter().any(|operator| operator.contains("sum[k]") && operator.contains(" if ")),
                "{text}: {all:?}"
            );
        }
    }
}
