//! Whatever the text, there is a result or an error with its place. Programs are rows of pieces that often fit.

use lacus_algebra::{AlgebraError, Array, Functions, Inputs, Limits, Scalar, check, interpret, parse};
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
    interpret(&program, &values, Limits { rounds: 50, elements: 1000, operations: 100_000 }).map(|_| ())
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
}
