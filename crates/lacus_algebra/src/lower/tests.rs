use super::*;
use crate::function::Functions;
use crate::infer::{Inputs, check};
use crate::network::Formula;
use crate::syntax::parser::parse;
use lacus_tensor::Shape;

fn network(text: &str) -> Network {
    let square = || Shape::new([8, 8]).unwrap();
    let inputs = Inputs::new()
        .with("A", DType::F64, square())
        .with("B", DType::F64, square())
        .with("G", DType::F64, square())
        .with("v", DType::F64, Shape::new([8]).unwrap());
    let header = "A = load(\"A\"); B = load(\"B\"); v = load(\"v\"); G = load(\"G\")\n";
    let program = parse(&format!("{header}{text}")).unwrap();
    lower(&check(&program, &inputs, &Functions::new()).unwrap()).unwrap()
}

fn formulas(text: &str) -> Vec<String> {
    let network = network(text);
    network.running().iter().map(|&at| Formula(&network, &network.operators[at]).to_string()).collect()
}

#[test]
fn every_operator_has_one_reduction_at_most() {
    assert_eq!(formulas("C = A @ B"), ["C[i,j] = sum[k] A[i,k] * B[k,j]"]);
    assert_eq!(
        formulas("s[i] = 0.85 * G[i,j] * v[j] + 0.15 / dim(G, 0)"),
        ["r.1[i] = sum[j] G[i,j] * v[j] * 0.85", "s[i] = r.1[i] + 0.01875"]
    );
    // A factor is computed once, and not again for every index that it does not have.
    assert_eq!(
        formulas("x[i] = A[i,j] * exp(B[j,k])"),
        ["x.1[i,j] = exp(B[i,j])", "x[i] = sum[j,k] A[i,j] * x.1[j,k]"]
    );
    // What keeps a position inside stays with it.
    assert_eq!(
        formulas("t[i] = where(i > 0, A[i-1,j] * v[j], 0)"),
        ["t[i] = sum[j] where(i > 0, A[i-1,j] * v[j], 0.0)"]
    );
}

#[test]
fn products_of_many_factors_are_done_in_the_best_order() {
    assert_eq!(
        formulas("x[i] = 2 * A[i,j] * B[j,k] * v[k]"),
        ["x.1[i] = sum[j] B[i,j] * v[j]", "x[i] = sum[j] A[i,j] * x.1[j] * 2.0"]
    );
    assert_eq!(
        formulas("x[i] min= A[i,j] + B[j,k] + v[k]"),
        ["x.1[i] = min[j] B[i,j] + v[j]", "x[i] = min[j] A[i,j] + x.1[j]"]
    );
}

#[test]
fn equal_operators_are_one_and_what_nothing_needs_is_none() {
    let text = "C = A @ B\nD[i,j] = A[i,k] * B[k,j]\nE = C + D\nF = A @ A\nsave(E, \"E\")";
    assert_eq!(formulas(text), ["C[i,j] = sum[k] A[i,k] * B[k,j]", "E[i,j] = C[i,j] + C[i,j]"]);
}

#[test]
fn a_loop_is_planned_once_and_carries_what_it_changes() {
    let text = "n = dim(G, 0)\nr = full([n], 1/n)\nrepeat { s[i] = 0.85 * G[i,j] * r[j] + 0.15/n
        H = A @ B
        d = sum(abs(s - r)) + sum(H)
        r = s } until d < 1e-8\nsave(r, \"rank\")";
    let network = network(text);
    let [loop_node] = &network.loops[..] else { panic!() };
    assert_eq!(loop_node.carried.len(), 1);
    assert_eq!(network.value(loop_node.carried[0].inside).name, "r");
    // The product does not change: it is computed before the loop.
    let before: Vec<String> = network
        .flow
        .iter()
        .filter_map(|node| match node {
            FlowNode::Operator(at) => Some(Formula(&network, &network.operators[*at]).to_string()),
            _ => None,
        })
        .collect();
    assert!(before.contains(&"H[i,j] = sum[k] A[i,k] * B[k,j]".to_owned()), "{before:?}");
    assert_eq!(network.flow.last(), Some(&FlowNode::Save(loop_node.carried[0].next, "rank".to_owned())));
    assert!(loop_node.after.is_empty());
}

#[test]
fn known_numbers_need_no_operator() {
    let text = "x = zeros([8])\nfor t in 0..4 { m = 2 * t\n x[i] = x[i] + A[i, m] * m }\nsave(x, \"x\")";
    let network = network(text);
    let names: Vec<&str> =
        network.running().iter().map(|&at| &*network.value(network.operators[at].output).name).collect();
    assert_eq!(names, ["x", "x"]);
}
