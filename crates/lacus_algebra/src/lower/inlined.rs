//! Formulas that are part of another one.

use crate::expr::{Affine, Element, ElementNode, Index, Slot, Symbol};
use crate::network::{FlowNode, Made, Network, Operator, Read, Until};
use std::collections::{BTreeMap, BTreeSet};

/// Tensors that one operator reads at most, so that a step of it needs no more tiles at once than memory has room for.
const MOST_READS: usize = 8;

/// Operations of one operator at most. What is read twice is written down twice, though computed once.
const MOST_PARTS: usize = 256;

impl Network {
    /// Makes formulas part of the only operator that reads them, if that looks at each element once: `t = 2 * a` and
    /// `u = t + b` become `u = 2 * a + b`, a sum of products a contraction. `may` is asked about both values. Nothing is
    /// computed twice, what nobody looks at is not computed at all, and nothing in between goes to memory.
    pub fn inline(&mut self, may: impl Fn(Slot, Slot) -> bool) {
        let mut readers = self.readers();
        let mut gone = BTreeSet::new();
        for at in self.running() {
            while let Some((of, merged)) = self.merged(at, &readers, &may) {
                for read in &self.operators[of].reads {
                    readers.entry(read.value).or_default().operators.remove(&of);
                    readers.entry(read.value).or_default().operators.insert(at);
                }
                self.operators[at] = merged;
                gone.insert(of);
            }
        }
        let parts = self.loops.iter_mut().flat_map(|node| [&mut node.before, &mut node.after]);
        for flow in std::iter::once(&mut self.flow).chain(parts) {
            flow.retain(|node| !matches!(node, FlowNode::Operator(at) if gone.contains(at)));
        }
    }

    /// An operator with one of the formulas that it reads in it, and which one that is.
    fn merged(
        &self,
        at: usize,
        readers: &BTreeMap<Slot, Readers>,
        may: &impl Fn(Slot, Slot) -> bool,
    ) -> Option<(usize, Operator)> {
        let operator = &self.operators[at];
        operator.reads.iter().find_map(|read| {
            let Made::Operator(of) = self.value(read.value).made else { return None };
            let found = &self.operators[of];
            let is_alone =
                readers.get(&read.value).is_some_and(|all| !all.has_others && all.operators.len() == 1);
            let fits = found.fold.is_none()
                && found.scope == operator.scope
                && is_alone
                && may(read.value, operator.output)
                && looks_once(operator, read)
                && count(&operator.body) + count(&found.body) <= MOST_PARTS + 1;
            if !fits {
                return None;
            }
            let mut merged = operator.clone();
            if !put_in_place(&mut merged.body, found) {
                return None;
            }
            if count(&merged.body) > MOST_PARTS {
                return None;
            }
            merged.reads = self.reads(&merged);
            (merged.reads.len() <= MOST_READS).then_some((of, merged))
        })
    }

    /// Who uses each value.
    fn readers(&self) -> BTreeMap<Slot, Readers> {
        let mut all: BTreeMap<Slot, Readers> = BTreeMap::new();
        self.walk(&self.flow, &mut |node| match node {
            FlowNode::Operator(at) => {
                for read in &self.operators[*at].reads {
                    all.entry(read.value).or_default().operators.insert(*at);
                }
            }
            FlowNode::Save(slot, _) => all.entry(*slot).or_default().has_others = true,
            FlowNode::Loop(at) => {
                let node = &self.loops[*at];
                let carried = node.carried.iter().flat_map(|carried| [carried.enter, carried.next]);
                let until = match node.until {
                    Until::Is(slot, _) => Some(slot),
                    Until::Counted(..) => None,
                };
                for slot in carried.chain(until) {
                    all.entry(slot).or_default().has_others = true;
                }
            }
        });
        all
    }
}

/// Who uses a value.
#[derive(Debug, Default)]
struct Readers {
    operators: BTreeSet<usize>,
    /// It is saved, or a loop takes it.
    has_others: bool,
}

/// Whether an operator looks at each element of what it reads once at most, at one place, and at no other tensor if it folds:
/// kernels for products want their factors as they are.
fn looks_once(operator: &Operator, read: &Read) -> bool {
    let mut own = operator.reads.iter().filter(|other| other.value == read.value);
    if !own.all(|other| other.at == read.at) {
        return false;
    }
    if let Some(fold) = &operator.fold {
        let is_only = operator.reads.iter().all(|other| other.value == read.value || other.at.is_empty());
        if !is_only || fold.guard.is_some() {
            return false;
        }
    }
    let mut seen: BTreeSet<Index> = BTreeSet::new();
    for at in &read.at {
        let mut indices = at.factors().filter_map(|(symbol, _)| match symbol {
            Symbol::Index(index) => Some(index),
            Symbol::Slot(_) => None,
        });
        seen.extend(indices.next());
        if indices.next().is_some() {
            return false;
        }
    }
    operator.labels().iter().all(|label| label.extent <= 1 || seen.contains(&label.index))
}

fn count(element: &Element) -> usize {
    1 + element.parts().into_iter().map(count).sum::<usize>()
}

/// Puts a formula wherever its value is read. False if a position would be too large.
fn put_in_place(element: &mut Element, formula: &Operator) -> bool {
    match &element.node {
        ElementNode::Read(slot, at) if *slot == formula.output => {
            let at = at.clone();
            let moved = |own: &Affine| {
                own.replace(|symbol| match symbol {
                    Symbol::Index(index) => at.get(index.0 as usize).cloned().unwrap_or_default(),
                    Symbol::Slot(_) => Affine::symbol(symbol),
                })
            };
            let mut body = formula.body.clone();
            let is_moved = body.move_positions(&moved);
            *element = body;
            is_moved
        }
        _ => element.parts_mut().into_iter().all(|part| put_in_place(part, formula)),
    }
}

#[cfg(test)]
mod tests {
    use crate::network::Formula;
    use crate::{Functions, Inputs, check, lower, parse};
    use lacus_tensor::{DType, Shape};

    fn check_inlined(text: &str, expected: &[&str]) {
        let shapes = [("A", [9, 8]), ("B", [9, 8]), ("P", [9, 3]), ("Q", [3, 8])];
        let inputs = shapes.iter().fold(Inputs::new(), |inputs, (name, dims)| {
            inputs.with(name, DType::F64, Shape::new(*dims).unwrap())
        });
        let loads: String = shapes.iter().map(|(name, _)| format!("{name} = load(\"{name}\")\n")).collect();
        let program = check(&parse(&format!("{loads}{text}")).unwrap(), &inputs, &Functions::new()).unwrap();
        let mut network = lower(&program).unwrap();
        network.inline(|_, _| true);
        let all: Vec<String> = network
            .running()
            .into_iter()
            .map(|at| Formula(&network, &network.operators[at]).to_string())
            .collect();
        assert_eq!(all, expected, "{text}");
    }

    #[test]
    fn formulas_become_part_of_the_only_one_that_reads_them() {
        check_inlined(
            "t = 2 * A\nu = t * t\nsave(u + B, \"x\")",
            &["_6[i,j] = (2.0 * A[i,j] * 2.0 * A[i,j]) + B[i,j]"],
        );
        check_inlined(
            "e = A - B\nsave(sum(e * e), \"x\")",
            &["_5[] = sum[i,j] (A[i,j] - B[i,j]) * (A[i,j] - B[i,j])"],
        );
        check_inlined(
            "e[i,j,k] = P[i,k] * Q[k,j]\nx[i,j] = e[i,j,k]\nsave(x, \"x\")",
            &["x[i,j] = sum[k] P[i,k] * Q[k,j]"],
        );
        check_inlined("D = A + B\nsave(D[2, 1:4], \"x\")", &["_5[i] = A[2,i+1] + B[2,i+1]"]);
        check_inlined("D = A[:8, :] + B[:8, :]\nd[i] = D[i,i]\nsave(d, \"x\")", &["d[i] = A[i,i] + B[i,i]"]);
        check_inlined(
            "for t in 0..3 { u = A + 1; A = u * 2 }\nsave(A, \"x\")",
            &["A[i,j] = (A[i,j] + 1.0) * 2.0"],
        );
        check_inlined(
            "c = A > 0\nsave(where(c, A, B), \"x\")",
            &["_5[i,j] = where(A[i,j] > 0.0, A[i,j], B[i,j])"],
        );
    }

    #[test]
    fn others_stay_as_they_are() {
        // Read by two, or saved.
        check_inlined(
            "t = 2 * A\nsave(t + B, \"x\")\nsave(t * B, \"y\")",
            &["t[i,j] = 2.0 * A[i,j]", "_5[i,j] = t[i,j] + B[i,j]", "_6[i,j] = t[i,j] * B[i,j]"],
        );
        check_inlined(
            "t = 2 * A\nsave(t, \"t\")\nsave(t + B, \"x\")",
            &["t[i,j] = 2.0 * A[i,j]", "_5[i,j] = t[i,j] + B[i,j]"],
        );
        // Would be computed again and again: along other axes, at other places, in each round.
        check_inlined(
            "r[k] = P[0,k] + 1\nx[i,k] = P[i,k] * r[k]\nsave(x, \"x\")",
            &["r[i] = P[0,i] + 1.0", "x[i,j] = P[i,j] * r[j]"],
        );
        check_inlined(
            "t = 2 * A\nx[i,j] = t[i,j] + t[i,7-j]\nsave(x, \"x\")",
            &["t[i,j] = 2.0 * A[i,j]", "x[i,j] = t[i,j] + t[i,-j+7]"],
        );
        check_inlined(
            "t = 2 * A\nfor s in 0..3 { B = B + t }\nsave(B, \"x\")",
            &["t[i,j] = 2.0 * A[i,j]", "B[i,j] = B[i,j] + t[i,j]"],
        );
        // A factor of a product.
        check_inlined(
            "p = P + 1\nsave(p @ Q, \"x\")",
            &["p[i,j] = P[i,j] + 1.0", "_5[i,j] = sum[k] p[i,k] * Q[k,j]"],
        );
    }

    #[test]
    fn formulas_do_not_grow_without_end() {
        let doubled: String = (0..40).map(|_| "A = A * A\n").collect();
        let lines = format!("{doubled}save(A, \"x\")");
        let shape = Shape::new([9, 8]).unwrap();
        let inputs = Inputs::new().with("A", DType::F64, shape);
        let program =
            check(&parse(&format!("A = load(\"A\")\n{lines}")).unwrap(), &inputs, &Functions::new()).unwrap();
        let mut network = lower(&program).unwrap();
        network.inline(|_, _| true);
        // Seven squarings in one are 255 parts.
        assert_eq!(network.running().len(), 6);
    }
}
