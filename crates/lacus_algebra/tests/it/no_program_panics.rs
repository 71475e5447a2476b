//! Whatever the text, there is a result or an error with its place. Programs are rows of pieces that often fit.

use lacus_algebra::{
    AlgebraError, Array, Functions, GraphOptions, Inputs, Limits, PlanOptions, Scalar, TaskGraph, check,
    interpret, parse, plan_program, run as run_plan, schedule, simulate,
};
use lacus_tensor::{DType, Shape};
use proptest::prelude::*;
use std::collections::BTreeMap;

const STARTS: [&str; 16] = [
    "x = ",
    "A = ",
    "n = ",
    "s[i] = ",
    "C[i,j] = ",
    "x[] = ",
    "s[i] min= ",
    "x max= ",
    "s[j] *= ",
    "b or= ",
    "for t in 0..3 { x = ",
    "while x < 3 { x = ",
    "repeat { x = ",
    "def f(a) = ",
    "save(x, \"s\")\nx = ",
    "s[i] hypot= ",
];

const ATOMS: [&str; 34] = [
    "A",
    "v",
    "x",
    "n",
    "t",
    "i",
    "1",
    "0.5",
    "9223372036854775807",
    "true",
    "inf",
    "A[i,j]",
    "A[i,k]",
    "A[k,j]",
    "v[i]",
    "v[j]",
    "v[i+1]",
    "v[2*i]",
    "v[i-j]",
    "v[-1]",
    "v[t]",
    "A[1]",
    "A[0:2, ::-1]",
    "v[n:x]",
    "sum(A)",
    "max(A, axis=1)",
    "dim(A, 0)",
    "zeros([n, 2])",
    "random([3], 1)",
    "full([2, n], x)",
    "einsum(\"ij,kj\", A, A)",
    "transpose(A)",
    "f(x)",
    "where(i > 0, v[i-1], v[i])",
];

const JOINTS: [&str; 20] = [
    " + ",
    " - ",
    " * ",
    " / ",
    " % ",
    " ** ",
    " @ ",
    " < ",
    " == ",
    " and ",
    " or ",
    ", ",
    ")",
    " if ",
    " if i < j and ",
    " + -(",
    " * abs(",
    " - exp(",
    "[0]",
    " + not ",
];

const ENDS: [&str; 6] = ["\n", "\n", " }\n", " } until x > 2\n", "; ", ")\n"];

fn run(text: &str) -> Result<(), AlgebraError> {
    let matrix = Array::from_fn(DType::F64, &[3, 3], |at| Scalar::F64((at[0] + 2 * at[1]) as f64));
    let vector = Array::from_fn(DType::I64, &[3], |at| Scalar::I64(at[0] as i64 - 1));
    let inputs = Inputs::new().with("A", DType::F64, Shape::new([3, 3]).unwrap()).with(
        "v",
        DType::I64,
        Shape::new([3]).unwrap(),
    );
    let text = format!("A = load(\"A\")\nv = load(\"v\")\nn = 2\nx = 1\n{text}");
    let program = check(&parse(&text)?, &inputs, &Functions::new())?;
    let values = BTreeMap::from([("A".to_owned(), matrix), ("v".to_owned(), vector)]);
    let limits = Limits { rounds: 50, elements: 1000, operations: 100_000 };
    let expected = interpret(&program, &values, limits)?;
    // What runs by elements can be planned, and runs by tasks with the same result.
    let options = PlanOptions { sites: 3, block: Some(2), ..PlanOptions::default() };
    let planned = plan_program(&program, &options).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let found = run_plan(&planned, &values, limits).unwrap_or_else(|error| panic!("{text}\n{error}"));
    // Programs that save nothing keep their variables.
    let asked = if expected.saved.is_empty() { &expected.variables } else { &expected.saved };
    for (name, value) in asked.iter().filter(|(name, _)| found.contains_key(*name)) {
        let close = |(a, b): (&Scalar, &Scalar)| {
            let (a, b) = (a.to_f64(), b.to_f64());
            a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0)
        };
        let same = found[name].items().iter().zip(value.items()).all(close);
        assert!(same, "{text}\n{name} by elements {value:?}\nby tasks {:?}", found[name]);
    }
    let graph = TaskGraph::build(&planned, &GraphOptions::default()).unwrap();
    let simulation = simulate(&planned, &graph, &schedule(&graph, 3));
    assert_eq!(simulation.moved_floats, planned.moved_floats, "{text}");
    Ok(())
}

#[test]
fn some_of_the_pieces_fit() {
    for text in [
        "for t in 0..3 { x = v[t] }\n",
        "C[i,j] = A[i,k] * A[k,j] if i < j and true\n",
        "repeat { x = x + sum(v) * 0 + 1 } until x > 2\n",
        "def f(a) = a ** 2\nx = f(x)\n",
        "s[i] = v[i] - where(i > 0, v[i-1], v[i])\n",
    ] {
        run(text).unwrap_or_else(|error| panic!("{text}{error}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn any_program_gives_a_result_or_an_error_with_its_place(
        statements in prop::collection::vec((
            prop::sample::select(&STARTS[..]),
            prop::collection::vec((prop::sample::select(&ATOMS[..]), prop::sample::select(&JOINTS[..])), 0..4),
            prop::sample::select(&ATOMS[..]),
            prop::sample::select(&ENDS[..]),
        ), 1..5)
    ) {
        let mut text = String::new();
        for (start, pairs, atom, end) in statements {
            text += start;
            pairs.iter().for_each(|(atom, joint)| { text += atom; text += joint; });
            text += atom;
            text += end;
        }
        if let Err(error) = run(&text) {
            let shown = error.to_string();
            prop_assert!(shown.contains("\n --> line "), "{text}\n{shown}");
            prop_assert!(error.kind().exit_code() < 70);
        }
    }

    #[test]
    fn any_text_is_a_program_or_an_error_with_its_place(text in "\\PC{0,80}") {
        no_panic(&text)?;
    }

    #[test]
    fn any_row_of_tokens_is_a_program_or_an_error_with_its_place(
        tokens in prop::collection::vec(prop::sample::select(&TOKENS[..]), 0..40)
    ) {
        no_panic(&tokens.concat())?;
        no_panic(&tokens.join(" "))?;
    }
}

/// What the lexer knows, and some that it does not.
const TOKENS: [&str; 48] = [
    "x", "A", "i", "1", "0", "2.5", "1e400", "-", "+", "*", "/", "%", "**", "@", "(", ")", "[", "]", "{",
    "}", ",", ";", ":", "..", "=", "==", "<", ">=", "!=", "min=", "if", "for", "in", "while", "repeat",
    "until", "def", "return", "load", "save", "\"A\"", "\"", "einsum", "where", "not", "and", "\n", "é",
];

fn no_panic(text: &str) -> Result<(), TestCaseError> {
    let inputs = Inputs::new().with("A", DType::F64, Shape::new([3, 3]).unwrap());
    let found = parse(text).and_then(|program| {
        reads_again(&program);
        check(&program, &inputs, &Functions::new())
    });
    if let Err(error) = found {
        let shown = error.to_string();
        prop_assert!(text.is_empty() || shown.contains("\n --> line "), "{:?}\n{}", text, shown);
    }
    Ok(())
}

/// What was read can be printed and read again.
fn reads_again(program: &lacus_algebra::syntax::Program) {
    let printed = program.to_string();
    assert_eq!(parse(&printed).as_ref(), Ok(program), "{printed}");
}
