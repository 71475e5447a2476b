//! The same computation, written with indices, as whole arrays, as einsum, from Rust, or by tiles: one result.

use lacus_algebra::syntax::{Expr, Program, Target};
use lacus_algebra::{
    AlgebraError, Array, BinaryOp, Functions, Inputs, JoinKernel, JoinOn, Limits, ReduceKernel, Relation,
    Scalar, check, interpret, parse,
};
use lacus_tensor::{DType, Shape};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn run(program: &Program, inputs: &BTreeMap<String, Array>) -> Result<Array, AlgebraError> {
    let mut types = Inputs::new();
    for (name, value) in inputs {
        let dims: Vec<u64> = value.dims().iter().map(|&n| n as u64).collect();
        types = types.with(name, value.dtype(), Shape::new(dims)?);
    }
    let program = check(program, &types, &Functions::new())?;
    let mut outcome = interpret(&program, inputs, Limits::default())?;
    Ok(outcome.saved.remove("C").expect("the program saves C"))
}

fn matrix(dims: [usize; 2], seed: i64) -> Array {
    Array::from_fn(DType::I64, &dims, |at| {
        Scalar::I64((at[0] as i64 * 13 + at[1] as i64 * 7 + seed) % 19 - 9)
    })
}

fn from_rust(op: Option<&str>) -> Program {
    let load =
        |name: &str| Expr::call("load", [Expr::new(lacus_algebra::syntax::ExprNode::Text(name.to_owned()))]);
    let [a, b] = [Expr::name("A").at(["i", "k"]), Expr::name("B").at(["k", "j"])];
    let program = Program::new().assign(Target::whole("A"), load("A")).assign(Target::whole("B"), load("B"));
    let target = Target::indexed("C", ["i", "j"]);
    match op {
        None => program.assign(target, a * b),
        Some(op) => program.reduce(target, op, a + b),
    }
    .save(Expr::name("C"), "C")
}

proptest! {
    #[test]
    fn a_product_is_the_same_in_every_form(
        n in 1..6usize, k in 1..6usize, m in 1..6usize, block in 1..4usize, seed in 0..20i64,
    ) {
        let (a, b) = (matrix([n, k], seed), matrix([k, m], seed + 3));
        let inputs = BTreeMap::from([("A".to_owned(), a.clone()), ("B".to_owned(), b.clone())]);
        let expected = run(&from_rust(None), &inputs).unwrap();
        for body in [
            "C[i,j] = A[i,k] * B[k,j]",
            "C = A @ B",
            "C = einsum(\"ik,kj->ij\", A, B)",
            "C = transpose(transpose(B) @ transpose(A))",
            "C[i,j] = 0 * A[i,0] * B[0,j]\nfor t in 0..dim(A, 1) { C[i,j] = C[i,j] + A[i,t] * B[t,j] }",
            "def f(x, y) { z[i,j] = x[i,k] * y[k,j]\n return z }\nC = f(A, B)",
        ] {
            let text = format!("A = load(\"A\")\nB = load(\"B\")\n{body}\nsave(C, \"C\")");
            let program = parse(&text).unwrap();
            prop_assert_eq!(&parse(&program.to_string()).unwrap(), &program);
            let found = run(&program, &inputs).unwrap_or_else(|error| panic!("{error}"));
            prop_assert_eq!(&found, &expected, "{}", body);
        }
        let [left, right] = [&a, &b].map(|array| Relation::from_array(array, &[block, block], None).unwrap());
        let joined = left.join(&right, &JoinOn::new(&[1], &[0], JoinKernel::MATMUL)).unwrap();
        let product = joined.aggregate(&[0, 2], &ReduceKernel::Elementwise(BinaryOp::Add)).unwrap();
        prop_assert_eq!(product.to_array(&[n, m], &[block, block]).unwrap(), expected);
    }

    #[test]
    fn shortest_paths_are_the_same_by_tiles(n in 1..6usize, block in 1..4usize, seed in 0..20i64) {
        let a = matrix([n, n], seed);
        let inputs = BTreeMap::from([("A".to_owned(), a.clone()), ("B".to_owned(), a.clone())]);
        let expected = run(&from_rust(Some("min")), &inputs).unwrap();
        let tiles = Relation::from_array(&a, &[block, block], None).unwrap();
        let kernel = JoinKernel::MatMul { times: BinaryOp::Add, plus: BinaryOp::Min };
        let joined = tiles.join(&tiles, &JoinOn::new(&[1], &[0], kernel)).unwrap();
        let product = joined.aggregate(&[0, 2], &ReduceKernel::Elementwise(BinaryOp::Min)).unwrap();
        prop_assert_eq!(product.to_array(&[n, n], &[block, block]).unwrap(), expected);
    }
}
