//! Contractions: sums of products over labelled axes, and the order in which to do one of many factors.
//!
//! `x = A @ B @ v` costs n³ operations from the left and n² from the right. The order is found exactly for up to
//! [`EXACT_FACTORS`] factors, by dynamic programming over sets of them, and greedily beyond.

use crate::expr::{Comprehension, Element, ElementNode, Index, ReduceOp, Slot};
use lacus_tensor::BinaryOp;
use std::collections::BTreeMap;

/// A label of an axis: the index it had in the program.
pub type Label = Index;

/// `out[…] = Σ Π factors`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contraction {
    /// What is multiplied: a variable, and the label of each of its axes.
    pub factors: Vec<(Slot, Vec<Label>)>,
    /// The labels of the result in order. All others are summed over.
    pub output: Vec<Label>,
    /// How far each label runs.
    pub extents: BTreeMap<Label, u64>,
}

/// One product of two factors, by their numbers. Results are numbered after the factors, in the order of the steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairStep {
    /// The left factor.
    pub left: usize,
    /// The right factor.
    pub right: usize,
    /// The labels of the result.
    pub output: Vec<Label>,
    /// Multiplications it takes.
    pub multiplications: u128,
}

/// Factors up to which the order is found exactly: 3ⁿ splits, a fraction of a second.
pub const EXACT_FACTORS: usize = 12;

impl Contraction {
    /// The contraction that a comprehension is: a sum of a product of variables, each indexed by indices alone,
    /// with nothing left out. `None` for anything else.
    pub fn of(value: &Comprehension) -> Option<Contraction> {
        let mut extents: BTreeMap<Label, u64> =
            value.axes.iter().map(|axis| (axis.index, axis.extent)).collect();
        let product = match &value.body.node {
            ElementNode::Reduce(reduction) => {
                if reduction.op != ReduceOp::Op(BinaryOp::Add) || reduction.guard.is_some() {
                    return None;
                }
                extents.extend(reduction.axes.iter().map(|axis| (axis.index, axis.extent)));
                &reduction.body
            }
            _ => &value.body,
        };
        let mut factors = Vec::new();
        collect(product, &mut factors)?;
        let used = |label: &Label| factors.iter().any(|(_, labels)| labels.contains(label));
        let output: Vec<Label> = value.axes.iter().map(|axis| axis.index).collect();
        extents.keys().all(used).then_some(Contraction { factors, output, extents })
    }

    /// Elements of a tensor with these labels.
    pub fn size(&self, labels: &[Label]) -> u128 {
        labels.iter().fold(1, |size, label| size.saturating_mul(u128::from(self.extent(*label))))
    }

    /// How far a label runs.
    pub fn extent(&self, label: Label) -> u64 {
        self.extents.get(&label).copied().unwrap_or(1)
    }

    /// The order that takes the fewest multiplications, as steps of two factors each. None for a single factor.
    pub fn order(&self) -> Vec<PairStep> {
        if self.factors.len() <= EXACT_FACTORS { self.exact_order() } else { self.greedy_order() }
    }

    /// Labels of the product of some factors that are still needed: by other factors or by the result.
    fn labels_of(&self, inside: impl Fn(usize) -> bool) -> Vec<Label> {
        self.extents
            .keys()
            .filter(|label| {
                let uses = |wanted: bool| {
                    self.factors
                        .iter()
                        .enumerate()
                        .any(|(at, (_, labels))| inside(at) == wanted && labels.contains(label))
                };
                uses(true) && (uses(false) || self.output.contains(label))
            })
            .copied()
            .collect()
    }

    fn multiplications(&self, left: &[Label], right: &[Label]) -> u128 {
        let mut all = left.to_vec();
        all.extend(right.iter().filter(|label| !left.contains(label)));
        self.size(&all)
    }

    fn exact_order(&self) -> Vec<PairStep> {
        let count = self.factors.len();
        if count < 2 {
            return Vec::new();
        }
        let full = (1usize << count) - 1;
        let labels: Vec<Vec<Label>> = (0..=full).map(|set| self.labels_of(|at| set >> at & 1 == 1)).collect();
        let mut best: Vec<(u128, usize)> = vec![(u128::MAX, 0); full + 1];
        for set in 1..=full {
            if set.is_power_of_two() {
                best[set] = (0, 0);
                continue;
            }
            // Every split once: the half with the lowest factor comes first.
            let lowest = set & set.wrapping_neg();
            let mut half = (set - 1) & set;
            while half > 0 {
                if half & lowest != 0 {
                    let other = set ^ half;
                    let own = self.multiplications(&labels[half], &labels[other]);
                    let total = own.saturating_add(best[half].0).saturating_add(best[other].0);
                    // Of equal ones the first found, so that the same program gets the same plan.
                    if total < best[set].0 || best[set].1 == 0 {
                        best[set] = (total, half);
                    }
                }
                half = (half - 1) & set;
            }
        }
        let mut steps = Vec::new();
        self.emit(full, &best, &labels, &mut steps);
        steps
    }

    fn emit(
        &self,
        set: usize,
        best: &[(u128, usize)],
        labels: &[Vec<Label>],
        steps: &mut Vec<PairStep>,
    ) -> usize {
        if set.is_power_of_two() {
            return set.trailing_zeros() as usize;
        }
        let (first, second) = (best[set].1, set ^ best[set].1);
        let left = self.emit(first, best, labels, steps);
        let right = self.emit(second, best, labels, steps);
        let is_last = set == best.len() - 1;
        let output = if is_last { self.output.clone() } else { labels[set].clone() };
        let multiplications = self.multiplications(&labels[first], &labels[second]);
        steps.push(PairStep { left, right, output, multiplications });
        self.factors.len() + steps.len() - 1
    }

    /// Always the two factors whose product is the smallest, compared with what it replaces.
    fn greedy_order(&self) -> Vec<PairStep> {
        let count = self.factors.len();
        let mut sets: Vec<(usize, Vec<usize>)> = (0..count).map(|at| (at, vec![at])).collect();
        let mut steps: Vec<PairStep> = Vec::new();
        while sets.len() > 1 {
            let labels = |set: &[usize]| self.labels_of(|at| set.contains(&at));
            let mut found: Option<(i128, usize, usize)> = None;
            for a in 0..sets.len() {
                for b in a + 1..sets.len() {
                    let both: Vec<usize> = sets[a].1.iter().chain(&sets[b].1).copied().collect();
                    let size = |set: &[usize]| i128::try_from(self.size(&labels(set))).unwrap_or(i128::MAX);
                    let gain = size(&both).saturating_sub(size(&sets[a].1)).saturating_sub(size(&sets[b].1));
                    if found.is_none_or(|(least, ..)| gain < least) {
                        found = Some((gain, a, b));
                    }
                }
            }
            let Some((_, a, b)) = found else { break };
            let (right, right_set) = sets.remove(b);
            let (left, left_set) = sets.remove(a);
            let both: Vec<usize> = left_set.iter().chain(&right_set).copied().collect();
            let output = if sets.is_empty() { self.output.clone() } else { labels(&both) };
            let multiplications = self.multiplications(&labels(&left_set), &labels(&right_set));
            steps.push(PairStep { left, right, output, multiplications });
            sets.push((count + steps.len() - 1, both));
        }
        steps
    }
}

fn collect(product: &Element, factors: &mut Vec<(Slot, Vec<Label>)>) -> Option<()> {
    match &product.node {
        ElementNode::Binary(BinaryOp::Mul, a, b) => {
            collect(a, factors)?;
            collect(b, factors)
        }
        ElementNode::Read(slot, at) => {
            let labels: Option<Vec<Label>> = at.iter().map(|at| at.as_index()).collect();
            factors.push((*slot, labels?));
            Some(())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::StepNode;
    use crate::function::Functions;
    use crate::infer::{Inputs, check};
    use crate::syntax::parser::parse;
    use lacus_tensor::{DType, Shape};
    use proptest::prelude::*;

    fn contraction(text: &str, inputs: &Inputs) -> Option<Contraction> {
        let program = check(&parse(text).unwrap(), inputs, &Functions::new()).unwrap();
        let last = program.steps().last().unwrap();
        let StepNode::Compute(_, value) = &last.node else { panic!("{text}") };
        Contraction::of(value)
    }

    fn chain() -> Inputs {
        let square = Shape::new([1000, 1000]).unwrap();
        Inputs::new().with("A", DType::F64, square.clone()).with("B", DType::F64, square).with(
            "v",
            DType::F64,
            Shape::new([1000]).unwrap(),
        )
    }

    #[test]
    fn a_product_with_a_vector_is_done_from_the_right() {
        let header = "A = load(\"A\"); B = load(\"B\"); v = load(\"v\")\n";
        for text in ["x[i] = A[i,j] * B[j,k] * v[k]", "x = einsum(\"ij,jk,k->i\", A, B, v)"] {
            let found = contraction(&format!("{header}{text}"), &chain()).unwrap();
            let steps = found.order();
            assert_eq!(
                steps.iter().map(|step| (step.left, step.right)).collect::<Vec<_>>(),
                [(1, 2), (0, 3)]
            );
            assert_eq!(steps.iter().map(|step| step.multiplications).sum::<u128>(), 2_000_000);
        }
    }

    #[test]
    fn what_is_no_contraction_is_left_alone() {
        let header = "A = load(\"A\"); B = load(\"B\")\n";
        for text in [
            "x[i,j] = A[i,k] + B[k,j]",
            "x[i,j] min= A[i,k] * B[k,j]",
            "x[i] = A[i,k] if k > i",
            "x = A[1:] @ B",
        ] {
            assert_eq!(contraction(&format!("{header}{text}"), &chain()), None, "{text}");
        }
    }

    /// Every order, by brute force.
    fn least(contraction: &Contraction, sets: &[Vec<usize>]) -> u128 {
        if sets.len() == 1 {
            return 0;
        }
        let labels = |set: &[usize]| contraction.labels_of(|at| set.contains(&at));
        let mut best = u128::MAX;
        for a in 0..sets.len() {
            for b in a + 1..sets.len() {
                let mut rest: Vec<Vec<usize>> = sets
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| *at != a && *at != b)
                    .map(|(_, set)| set.clone())
                    .collect();
                rest.push(sets[a].iter().chain(&sets[b]).copied().collect());
                let own = contraction.multiplications(&labels(&sets[a]), &labels(&sets[b]));
                best = best.min(own + least(contraction, &rest));
            }
        }
        best
    }

    proptest! {
        #[test]
        fn the_order_is_the_best_of_all(
            factors in prop::collection::vec(prop::collection::btree_set(0..6u32, 1..4), 2..6),
            extents in prop::collection::vec(1..9u64, 6), kept in prop::collection::btree_set(0..6u32, 0..3),
        ) {
            let used = |label: &u32| factors.iter().any(|labels| labels.contains(label));
            let contraction = Contraction {
                factors: factors.iter().map(|labels| (Slot(0), labels.iter().map(|&l| Index(l)).collect())).collect(),
                output: kept.iter().filter(|label| used(label)).map(|&label| Index(label)).collect(),
                extents: (0..6).filter(used).map(|label| (Index(label), extents[label as usize])).collect(),
            };
            let sets: Vec<Vec<usize>> = (0..factors.len()).map(|at| vec![at]).collect();
            let best = least(&contraction, &sets);
            let total = |steps: &[PairStep]| steps.iter().map(|step| step.multiplications).sum::<u128>();
            prop_assert_eq!(total(&contraction.exact_order()), best);
            prop_assert_eq!(contraction.greedy_order().len(), factors.len() - 1);
            prop_assert!(total(&contraction.greedy_order()) >= best);
        }
    }
}
