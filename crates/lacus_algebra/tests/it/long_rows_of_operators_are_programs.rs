//! Rows of operators may be as long as a program may be: nothing that is done with them needs a stack as deep. What is really
//! nested is refused before it gets too deep.

use lacus_algebra::{
    Array, Functions, Inputs, Limits, PlanOptions, Scalar, check, interpret, lower, parse, plan_program, run,
};
use lacus_tensor::{DType, Shape};
use std::collections::BTreeMap;

fn inputs() -> Inputs {
    let (vector, matrix) = (Shape::new([3]).unwrap(), Shape::new([3, 3]).unwrap());
    Inputs::new().with("x", DType::F64, vector).with("A", DType::F64, matrix)
}

fn values() -> BTreeMap<String, Array> {
    let x = Array::from_fn(DType::F64, &[3], |at| Scalar::F64(at[0] as f64 + 0.5));
    let a = Array::from_fn(DType::F64, &[3, 3], |at| Scalar::F64((at[0] * 3 + at[1]) as f64));
    BTreeMap::from([("x".to_owned(), x), ("A".to_owned(), a)])
}

/// The right side of `y`, and what it is.
fn check_row(target: &str, row: &str, expected: [f64; 3]) {
    let text = format!("x = load(\"x\")\nA = load(\"A\")\n{target} = {row}\nsave(y, \"y\")\n");
    let program =
        check(&parse(&text).unwrap(), &inputs(), &Functions::new()).unwrap_or_else(|error| panic!("{error}"));
    let limits = Limits { rounds: 1, elements: 1_000_000, operations: 10_000_000 };
    let found = interpret(&program, &values(), limits).unwrap().saved["y"].clone();
    let numbers: Vec<f64> = found.items().iter().map(|item| item.to_f64()).collect();
    assert_eq!(numbers, expected, "{target}");
    let options = PlanOptions { sites: 2, block: Some(2), ..PlanOptions::default() };
    let planned = plan_program(&program, &options).unwrap();
    assert_eq!(run(&planned, &values(), limits).unwrap()["y"], found);
    // Steps, and not one for each operator.
    assert!(lower(&program).unwrap().running().len() <= row.matches(['+', '*']).count() / 20 + 1);
}

#[test]
fn ten_thousand_terms_are_summed_from_the_left() {
    check_row("y", &format!("x{}", " + x".repeat(9_999)), [5e3, 1.5e4, 2.5e4]);
    check_row("y[i]", &format!("x[i]{}", " + x[i]".repeat(9_999)), [5e3, 1.5e4, 2.5e4]);
    // Literals take the type of what they meet in the end.
    check_row("y", &format!("1{} + x", " + 1".repeat(998)), [999.5, 1000.5, 1001.5]);
    check_row("y", &format!("(x > 0) * 1{}", " * 1 + x - x".repeat(2_000)), [1.0; 3]);
}

#[test]
fn sums_stay_within_their_terms() {
    let row = format!("A[i,j] * x[j]{} + x[i]", " + 1 - A[i,j] * 0".repeat(500));
    check_row("y[i]", &row, [507.0, 521.5, 536.0]);
}

#[test]
fn what_is_really_nested_is_refused() {
    // Frames of unoptimised code are several times as large, and twenty thousand levels fit neither stack.
    let large = std::thread::Builder::new().stack_size(8 << 20).spawn(nested).unwrap();
    large.join().unwrap();
}

fn nested() {
    let refused = |text: String| {
        let found = parse(&format!("x = load(\"x\")\nA = load(\"A\")\n{text}"))
            .and_then(|program| check(&program, &inputs(), &Functions::new()));
        let error = found.unwrap_err().to_string();
        assert!(error.starts_with("nested deeper than 2"), "{error}");
    };
    for depth in [1_000, 20_000] {
        refused(format!("y = {}x{}", "exp(".repeat(depth), ")".repeat(depth)));
        refused(format!("y = {}x{}", "x + (".repeat(depth), ")".repeat(depth)));
        refused(format!("y = {}x", "x ** ".repeat(depth)));
        refused(format!("y[i] = x[i]{}", " * x[i]".repeat(depth)));
        refused(format!("y[i] = x[i]{}", " + x[i]".repeat(depth) + " if i > 0"));
        refused(format!("y[i] = x[i{}]", " + 0".repeat(depth)));
        refused(format!("y[i] = x[i] if i >= 0{}", " and i >= 0".repeat(depth)));
    }
}
