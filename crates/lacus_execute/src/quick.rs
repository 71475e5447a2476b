//! Programs that are done sooner than a thread is started for them.

use crate::input::Input;
use lacus_algebra::expr::{CheckedProgram, Element, ElementNode, StepNode};
use std::collections::BTreeMap;

/// Operations of all steps: some hundred microseconds.
const FEW_OPERATIONS: f64 = 2e5;

/// Steps: planning each takes some microseconds.
const FEW_STEPS: usize = 64;

/// Elements of all inputs, which may have to be converted.
const FEW_ELEMENTS: f64 = 1e6;

/// Whether a program is done at once: a few steps without loops, on a few elements that are in memory. Then it is best run on
/// the thread that asks for it, which need not be interrupted.
pub fn is_quick(program: &CheckedProgram, inputs: &BTreeMap<String, Input<'_>>) -> bool {
    let elements = |input: &Input<'_>| match input {
        Input::Dense(tensor) => tensor.shape().dims().iter().map(|&n| n as f64).product::<f64>(),
        Input::Sparse(tensor) => tensor.nnz() as f64,
        Input::Stored(..) => f64::INFINITY,
    };
    let operations = |node: &StepNode| match node {
        StepNode::Compute(_, value) => {
            let places: f64 = value.axes.iter().map(|axis| axis.extent as f64).product();
            places * operations(&value.body)
        }
        StepNode::Save(..) => 0.0,
        StepNode::For { .. } | StepNode::Loop { .. } => f64::INFINITY,
    };
    let steps = program.steps();
    steps.len() <= FEW_STEPS
        && inputs.values().map(elements).sum::<f64>() <= FEW_ELEMENTS
        && steps.iter().map(|step| operations(&step.node)).sum::<f64>() <= FEW_OPERATIONS
}

/// Operations of one element.
fn operations(element: &Element) -> f64 {
    let times = match &element.node {
        ElementNode::Reduce(reduction) => {
            reduction.axes.iter().map(|axis| axis.extent as f64).product::<f64>()
        }
        _ => 1.0,
    };
    times * (1.0 + element.parts().into_iter().map(operations).sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacus_algebra::{Functions, Inputs, check, parse};
    use lacus_tensor::{DType, Shape, Tensor};

    #[test]
    fn little_programs_are_quick() {
        let quick = |extent: u64, text: &str| {
            let shape = Shape::new([extent, extent]).unwrap();
            let types = Inputs::new().with("A", DType::F64, shape.clone());
            let text = format!("A = load(\"A\")\n{text}");
            let program = check(&parse(&text).unwrap(), &types, &Functions::new()).unwrap();
            let tensor = Tensor::zeros(DType::F64, shape).unwrap();
            is_quick(&program, &[("A".to_owned(), Input::from(tensor.as_ref()))].into())
        };
        assert!(quick(10, "save(A + A, \"x\")"));
        assert!(quick(10, "save(A @ A + sum(A), \"x\")"));
        assert!(quick(0, "save(A @ A, \"x\")"));
        assert!(!quick(100, "save(A @ A, \"x\")"));
        assert!(!quick(1000, "save(A + 1, \"x\")"));
        assert!(!quick(2000, "save(A[0], \"x\")"));
        assert!(!quick(2, "for t in 0..3 { A = A + 1 }\nsave(A, \"x\")"));
        assert!(!quick(2, &format!("{}save(A, \"x\")", "A = A + 1\n".repeat(100))));
    }
}
