//! Results have the same bits for any number of workers, and with any budget that is enough.

use lacus_algebra::{Functions, Inputs, check, parse};
use lacus_execute::{ExecuteError, Input, Made, RunOptions, run};
use lacus_tensor::{Buffer, DType, Shape, Tensor};
use lacus_threads::Pool;
use std::collections::BTreeMap;

fn random(rows: usize, columns: usize, seed: u64) -> Tensor {
    let values: Vec<f64> =
        (0..rows * columns).map(|at| lacus_algebra::random(seed, at as u64) - 0.5).collect();
    let shape = Shape::new([rows as u64, columns as u64]).unwrap();
    Tensor::new(DType::F64, shape, Buffer::from_elements(&values)).unwrap()
}

const PROGRAM: &str = "A = load(\"A\"); B = load(\"B\")
    C = A @ B
    D = C @ transpose(B)
    s = sum(D * D, 1)
    x = transpose(C) @ s
    save(D, \"D\"); save(x, \"x\"); save(sum(D), \"t\")";

fn bits(options: &RunOptions) -> Result<(BTreeMap<String, Vec<u8>>, lacus_execute::Report), ExecuteError> {
    let (a, b) = (random(90, 110, 1), random(110, 70, 2));
    let types =
        Inputs::new().with("A", DType::F64, a.shape().clone()).with("B", DType::F64, b.shape().clone());
    let program = check(&parse(PROGRAM).unwrap(), &types, &Functions::new()).unwrap();
    let inputs =
        [("A".to_owned(), Input::from(a.as_ref())), ("B".to_owned(), Input::from(b.as_ref()))].into();
    let done = run(&program, &inputs, None, options)?;
    let bytes = done.made.iter().map(|(name, made)| match made {
        Made::Dense(window) => (name.clone(), window.bytes().unwrap().to_vec()),
        Made::Sparse(_) => panic!("a sparse result"),
    });
    Ok((bytes.collect(), done.report))
}

#[test]
fn whatever_the_workers() {
    let options =
        |pool: &Pool| RunOptions { pool: Some(pool.clone()), block: Some(16), ..RunOptions::default() };
    let (one, _) = bits(&options(&Pool::new(1))).unwrap();
    for workers in [1, 2, 3, 8] {
        let pool = Pool::new(workers);
        let (found, report) = bits(&options(&pool)).unwrap();
        assert_eq!((found == one, report.workers), (true, workers));
        assert_eq!(pool.most_workers(), workers - 1, "the calling thread takes part");
    }
}

#[test]
fn whoever_is_free() {
    let (one, _) = bits(&RunOptions { block: Some(16), ..RunOptions::default() }).unwrap();
    let pool = Pool::new(2);
    let options =
        RunOptions { workers: Some(8), pool: Some(pool.clone()), block: Some(16), ..RunOptions::default() };
    // The one worker of the pool runs a program itself; then three callers want its help at once.
    let found = pool.team(2).map(vec![(); 2], |()| bits(&options).unwrap());
    let threads: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..3).map(|_| scope.spawn(|| bits(&options).unwrap())).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (found, report) in found.into_iter().chain(threads) {
        assert_eq!((found == one, report.workers), (true, 2), "as many as the pool has");
    }
    assert_eq!(pool.most_workers(), 1);
}

#[test]
fn whatever_the_memory() {
    let spill = tempfile::tempdir().unwrap();
    let options = |memory, workers| RunOptions {
        workers: Some(workers),
        block: Some(16),
        memory_bytes: memory,
        spill: Some(spill.path().to_owned()),
        ..RunOptions::default()
    };
    let (free, report) = bits(&options(None, 1)).unwrap();
    assert_eq!(report.spilled_bytes, 0);
    let fixed = (90 * 110 + 70 + 1) * 8;
    for workers in [1, 3] {
        for memory in [fixed + 9_000, fixed + 20_000, fixed + 40_000] {
            let (found, report) = bits(&options(Some(memory), workers)).unwrap();
            assert_eq!(found, free, "{memory} bytes, {workers} workers");
            assert!(report.peak_bytes <= memory, "{report}");
            assert!(report.spilled_bytes > 0, "{report}");
        }
    }
    assert_eq!(std::fs::read_dir(spill.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_budget_that_is_too_small_says_what_would_do() {
    let options =
        |memory| RunOptions { block: Some(16), memory_bytes: Some(memory), ..RunOptions::default() };
    let Err(ExecuteError::Budget { needed, .. }) = bits(&options(80_000)) else { panic!("it fits") };
    assert!(bits(&options(needed)).is_ok());
    assert!(matches!(bits(&options(needed - 1)), Err(ExecuteError::Budget { .. })));
    assert!(matches!(bits(&options(100)), Err(ExecuteError::Budget { .. })));
}
