//! A formula of what a sum or a product has just made is run on it in place, part by part; no bit depends on it.
//!
//! Where every value is looked at on its own (NaN is forbidden), nothing is fused: the same programs are run both ways.

use crate::programs_run_as_they_are_meant::{array, run_one};
use lacus_algebra::conformance::PROGRAMS;
use lacus_algebra::expr::CheckedProgram;
use lacus_algebra::{Array, Functions, Inputs, Limits, check, interpret, parse};
use lacus_execute::{Finished, Input, Made, RunOptions, run};
use lacus_tensor::{Buffer, DType, Shape, Tensor};
use std::collections::BTreeMap;

fn tensor(dtype: DType, dims: &[u64], seed: u64) -> Tensor {
    let count = dims.iter().product::<u64>();
    let values = (0..count).map(|at| lacus_algebra::random(seed, at) - 0.5);
    let buffer = match dtype {
        DType::F32 => Buffer::from_elements(&values.map(|x| x as f32).collect::<Vec<_>>()),
        DType::I64 => Buffer::from_elements(&values.map(|x| (x * 20.0) as i64).collect::<Vec<_>>()),
        _ => Buffer::from_elements(&values.collect::<Vec<_>>()),
    };
    Tensor::new(dtype, Shape::new(dims.to_vec()).unwrap(), buffer).unwrap()
}

/// Matrices X, Y, W and vectors b, c of one type.
fn given(dtype: DType, [m, k, n]: [u64; 3]) -> [(&'static str, Tensor); 5] {
    [
        ("X", tensor(dtype, &[m, k], 1)),
        ("W", tensor(dtype, &[k, n], 2)),
        ("Y", tensor(dtype, &[m, n], 3)),
        ("b", tensor(dtype, &[n], 4)),
        ("c", tensor(dtype, &[m], 5)),
    ]
}

/// A program that begins by loading them.
fn checked(text: &str, tensors: &[(&'static str, Tensor)]) -> CheckedProgram {
    let mut loads = String::new();
    let mut types = Inputs::new();
    for (name, tensor) in tensors {
        loads += &format!("{name} = load(\"{name}\")\n");
        types = types.with(name, tensor.dtype(), tensor.shape().clone());
    }
    let text = loads + text;
    let parsed = parse(&text).unwrap_or_else(|error| panic!("{text}\n{error:?}"));
    check(&parsed, &types, &Functions::new()).unwrap_or_else(|error| panic!("{text}\n{error:?}"))
}

/// What integers become by the interpreter, which says what programs mean.
fn meant(text: &str, shape: [u64; 3]) -> BTreeMap<String, Vec<u8>> {
    let tensors = given(DType::I64, shape);
    let arrays = tensors
        .iter()
        .map(|(name, tensor)| ((*name).to_owned(), Array::from_tensor(tensor).unwrap()))
        .collect();
    let done = interpret(&checked(text, &tensors), &arrays, Limits::default()).unwrap();
    done.saved.iter().map(|(name, made)| (name.clone(), made.to_tensor().unwrap().bytes().to_vec())).collect()
}

fn run_on(text: &str, dtype: DType, shape: [u64; 3], options: &RunOptions) -> Finished {
    let tensors = given(dtype, shape);
    let program = checked(text, &tensors);
    let inputs: BTreeMap<String, Input<'_>> =
        tensors.iter().map(|(name, tensor)| ((*name).to_owned(), Input::from(tensor.as_ref()))).collect();
    run(&program, &inputs, None, options).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn bits(done: &Finished) -> BTreeMap<String, Vec<u8>> {
    let bytes = done.made.iter().map(|(name, made)| match made {
        Made::Dense(window) => (name.clone(), window.bytes().unwrap().to_vec()),
        Made::Sparse(_) => panic!("a sparse result"),
    });
    bytes.collect()
}

/// What is run, and how many tasks less there are for one tile of each value.
const FUSED: [(&str, u64); 8] = [
    ("save(relu(X @ W + b), \"h\")", 1),
    ("save(Y - 2 * (X @ W), \"h\")", 1),
    // What is on the left of the product is used twice by one formula.
    ("S = X @ W\nH[i,j] = where(S[i,j] > 0, S[i,j], 2 * S[i,j]) * c[i]\nsave(H, \"h\")", 1),
    // One after another.
    ("S = X @ W\nT = S + b\nU[i,j] = T[i,j] * c[i]\nsave(U, \"h\")", 2),
    // Two products: one of them is there before the other is finished.
    ("save(X @ W + (2 * X) @ (W * 3) - Y, \"h\")", 1),
    // What is summed is masked.
    ("G[i,j] = X[i,k] * W[k,j] if Y[i,j] > 0\nsave(G, \"h\")", 1),
    ("r = sum(X @ W, 1)\nsave(r + c, \"h\")", 1),
    ("M = transpose(W) @ transpose(X)\nsave(M + 1, \"h\")", 1),
];

/// These are not: somebody else looks at the sum, at another place, or with another type.
const APART: [&str; 5] = [
    "S = X @ W\nsave(S, \"s\")\nsave(S + b, \"h\")",
    "S = X @ W\nsave(S + b, \"h\")\nsave(max(S), \"g\")",
    "S = X @ transpose(X)\nT[i,j] = S[i,j] + S[j,i]\nsave(T, \"h\")",
    "S = X @ W\nT[i,j] = S[i,j] > 0\nsave(T, \"h\")",
    "s = sum(X, 1)\nT[i,j] = s[i] * b[j]\nsave(T, \"h\")",
];

const TYPES: [DType; 3] = [DType::F64, DType::F32, DType::I64];

#[test]
fn with_the_same_bits() {
    let texts = FUSED.iter().map(|(text, _)| *text).chain(APART);
    for text in texts {
        for dtype in TYPES {
            for block in [None, Some(4), Some(7)] {
                for workers in [1, 3] {
                    let options = |forbid_nan| RunOptions {
                        block,
                        workers: Some(workers),
                        forbid_nan,
                        ..Default::default()
                    };
                    let (at_once, apart) = (
                        run_on(text, dtype, [9, 23, 11], &options(false)),
                        run_on(text, dtype, [9, 23, 11], &options(true)),
                    );
                    assert_eq!(bits(&at_once), bits(&apart), "{text}, {dtype}, {block:?}, {workers} workers");
                    assert!(at_once.report.planned <= apart.report.planned);
                }
            }
        }
    }
}

#[test]
fn and_large_ones_by_parts() {
    for (text, _) in FUSED {
        for dtype in [DType::F64, DType::F32] {
            for block in [None, Some(300)] {
                let options = |forbid_nan| RunOptions { block, forbid_nan, ..Default::default() };
                // More rows than a kernel does at once, and more than one part of the inner axis.
                let shape = [413, 300, 307];
                let (at_once, apart) =
                    (run_on(text, dtype, shape, &options(false)), run_on(text, dtype, shape, &options(true)));
                assert_eq!(bits(&at_once), bits(&apart), "{text}, {dtype}, {block:?}");
            }
        }
    }
}

#[test]
fn as_one_task_with_one_tile() {
    let options =
        |forbid_nan| RunOptions { block: Some(64), workers: Some(1), forbid_nan, ..Default::default() };
    for (text, fewer) in FUSED {
        let run = |forbid_nan| run_on(text, DType::F64, [40, 30, 50], &options(forbid_nan)).report;
        let (at_once, apart) = (run(false), run(true));
        assert_eq!(at_once.planned + fewer, apart.planned, "{text}");
        assert!(at_once.peak_bytes < apart.peak_bytes, "{text}: {at_once} and {apart}");
    }
    for text in APART {
        let run = |forbid_nan| run_on(text, DType::F64, [40, 30, 50], &options(forbid_nan)).report;
        assert_eq!(run(false).planned, run(true).planned, "{text}");
    }
}

#[test]
fn within_the_same_memory_with_spilling() {
    let spill = tempfile::tempdir().unwrap();
    let text = "S = X @ W\nT = relu(S @ transpose(W) + X) @ W\nsave(Y - T, \"h\")";
    let options = |memory_bytes| RunOptions {
        block: Some(16),
        memory_bytes,
        workers: Some(3),
        spill: Some(spill.path().to_owned()),
        ..Default::default()
    };
    let free = run_on(text, DType::F64, [90, 110, 70], &options(None));
    for more in [12_000, 16_000, 20_000] {
        let memory = 90 * 70 * 8 + more;
        let tight = run_on(text, DType::F64, [90, 110, 70], &options(Some(memory)));
        assert_eq!(bits(&tight), bits(&free), "{memory}");
        assert!(tight.report.peak_bytes <= memory, "{}", tight.report);
        assert!(tight.report.spilled_bytes > 0, "{}", tight.report);
    }
}

#[test]
fn in_programs_of_every_kind() {
    for text in PROGRAMS {
        for block in [None, Some(3)] {
            let made = |forbid_nan| -> Vec<(String, Array)> {
                let options = RunOptions { block, forbid_nan, ..Default::default() };
                run_one(text, &options).made.iter().map(|(name, made)| (name.clone(), array(made))).collect()
            };
            assert_eq!(made(false), made(true), "{text}");
        }
    }
}

/// The last round of a loop makes its results where they belong.
#[test]
fn and_results_of_loops_in_place_of_the_result() {
    let programs = [
        "for t in 0..ROUNDS { Y = Y - 2 * (X @ W) }\nsave(Y, \"h\")",
        // Saved twice, and read once more after the loop.
        "for t in 0..ROUNDS { Y = relu(Y + X @ W) }\nsave(Y, \"h\")\nsave(Y, \"g\")\nsave(sum(Y), \"s\")",
        // What is carried changes places, and one is what the other was.
        "Z = Y * 2\nfor t in 0..ROUNDS { T = Z + b\nZ = Y\nY = T }\nsave(Y, \"h\")\nsave(Z, \"g\")",
        // One value for two.
        "Z = Y * 2\nfor t in 0..ROUNDS { Z = Y + b\nY = Z }\nsave(Y, \"h\")\nsave(Z, \"g\")",
        // Read again in the round that makes it.
        "for t in 0..ROUNDS { Y = Y + 1\nb = sum(Y, 0) }\nsave(Y, \"h\")\nsave(b, \"g\")",
        // Loops in loops, and one whose end depends on data.
        "for t in 0..ROUNDS { for u in 0..2 { Y = Y * 2 + b } }\nsave(Y, \"h\")",
        "n = 0\nwhile n < ROUNDS { n = n + 1\nY = Y + b }\nsave(Y, \"h\")",
        // Saved in a round, as it was before the round makes it anew; without rounds there is no such result.
        "for t in 0..ROUNDS { save(Y, \"h\")\nY = Y + 1 }\nsave(Y, \"z\")",
        "for t in 0..ROUNDS { T = Y + 1\nsave(Y, \"h\")\nY = T }\nsave(b, \"z\")",
        "for t in 0..ROUNDS { for u in 0..2 { save(Y, \"h\")\nb = b + 1 }\nY = Y + b }\nsave(b, \"z\")",
    ];
    for text in programs {
        for rounds in [0, 1, 2, 5] {
            let text = text.replace("ROUNDS", &rounds.to_string());
            for block in [None, Some(4)] {
                let run = |forbid_nan, workers| {
                    let options =
                        RunOptions { block, forbid_nan, workers: Some(workers), ..Default::default() };
                    bits(&run_on(&text, DType::I64, [9, 7, 11], &options))
                };
                let expected = meant(&text, [9, 7, 11]);
                for (forbid_nan, workers) in [(false, 1), (false, 3), (true, 3)] {
                    assert_eq!(run(forbid_nan, workers), expected, "{text}, {block:?}, {workers} workers");
                }
            }
        }
    }
}
