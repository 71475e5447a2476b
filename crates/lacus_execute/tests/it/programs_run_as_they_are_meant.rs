//! Programs of every kind are run by the engine and by the interpreter, which says what they mean.

use lacus_algebra::conformance::{PROGRAMS, checked, inputs};
use lacus_algebra::{Array, Limits, interpret};
use lacus_execute::{Finished, Input, Made, RunOptions, run};
use lacus_tensor::Tensor;
use lacus_threads::Pool;
use std::collections::BTreeMap;

pub(crate) fn array(made: &Made) -> Array {
    let Made::Dense(window) = made else { panic!("a sparse result") };
    let tensor = window.as_tensor().expect("results are in C order").to_tensor();
    Array::from_tensor(&tensor).expect("a type that is computed with")
}

/// Runs one of the programs on its inputs.
pub(crate) fn run_one(text: &str, options: &RunOptions) -> Finished {
    let program = checked(text);
    let tensors: BTreeMap<String, Tensor> =
        inputs().1.into_iter().map(|(name, array)| (name, array.to_tensor().unwrap())).collect();
    let given: BTreeMap<String, Input<'_>> =
        tensors.iter().map(|(name, tensor)| (name.clone(), Input::from(tensor.as_ref()))).collect();
    run(&program, &given, None, options).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn compare(text: &str, options: &RunOptions) {
    let program = checked(text);
    let expected = interpret(&program, &inputs().1, Limits::default()).unwrap();
    let found = run_one(text, options);
    assert_eq!(found.made.len(), expected.saved.len(), "{text}");
    for (name, value) in &expected.saved {
        assert_eq!(&array(&found.made[name]), value, "{name} of\n{text}");
    }
}

#[test]
fn with_whole_tensors_as_tiles() {
    for text in PROGRAMS {
        compare(text, &RunOptions::default());
    }
}

#[test]
fn with_tiles_of_every_size() {
    for text in PROGRAMS {
        for block in [1, 2, 3, 5] {
            for workers in [1, 3] {
                compare(
                    text,
                    &RunOptions {
                        block: Some(block),
                        workers: Some(workers),
                        pool: Some(Pool::new(workers)),
                        ..RunOptions::default()
                    },
                );
            }
        }
    }
}

#[test]
fn on_several_sites_and_what_moves_is_what_was_planned() {
    for text in PROGRAMS {
        for sites in [2, 4, 5] {
            let options = RunOptions { block: Some(3), sites: Some(sites), ..RunOptions::default() };
            compare(text, &options);
            if text.contains("repeat") || text.contains("while") {
                // The plan assumes a number of rounds.
                continue;
            }
            let report = run_one(text, &options).report;
            let tensors: BTreeMap<String, Tensor> =
                inputs().1.into_iter().map(|(name, array)| (name, array.to_tensor().unwrap())).collect();
            let given =
                tensors.iter().map(|(name, tensor)| (name.clone(), Input::from(tensor.as_ref()))).collect();
            let plan = lacus_execute::plan_run(&checked(text), &given, &options).unwrap();
            assert_eq!(
                (report.moved_floats, report.moved_bytes),
                (plan.moved_floats, plan.moved_bytes),
                "{text} on {sites}"
            );
        }
    }
}
