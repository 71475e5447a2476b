//! What is stored is read tile by tile, and what is too large for memory is stored tile by tile: the same bits, one version.

use crate::support::{Place, random, tensor};
use lacus_algebra::Functions;
use lacus_execute::{Input, Made, RunOptions, run};
use lacus_tensor::{Buffer, DType, Tensor};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A program on arrays in memory, with as much memory as it likes.
fn in_memory(
    text: &str,
    given: &BTreeMap<String, Tensor>,
    options: &RunOptions,
) -> BTreeMap<String, Vec<u8>> {
    let mut types = lacus_algebra::Inputs::new();
    for (name, tensor) in given {
        types = types.with(name, tensor.dtype(), tensor.shape().clone());
    }
    let program =
        lacus_algebra::check(&lacus_algebra::parse(text).unwrap(), &types, &Functions::new()).unwrap();
    let inputs = given.iter().map(|(name, tensor)| (name.clone(), Input::from(tensor.as_ref()))).collect();
    let done = run(&program, &inputs, None, options).unwrap();
    let bytes = |made: &Made| match made {
        Made::Dense(window) => window.bytes().unwrap().to_vec(),
        Made::Sparse(tensor) => tensor.to_dense().unwrap().bytes().to_vec(),
    };
    done.made.iter().map(|(name, made)| (name.clone(), bytes(made))).collect()
}

fn options(block: u64) -> RunOptions {
    RunOptions { block: Some(block), workers: Some(2), ..RunOptions::default() }
}

#[test]
fn results_that_are_streamed_are_those_in_memory() {
    let text = "A = load(\"A\"); B = load(\"B\")
        C = A @ B
        save(C, \"C\"); save(C > 0, \"positive\"); save(sum(C, 0), \"s\"); save(int64(C * 100), \"whole\")
        save(float32(C), \"single\")";
    let names = ["C", "positive", "s", "whole", "single"];
    for block in [11, 50] {
        let given: BTreeMap<String, Tensor> =
            [("A".to_owned(), random(&[90, 50], 1)), ("B".to_owned(), random(&[50, 70], 2))].into();
        let expected = in_memory(text, &given, &options(block));
        let place = Place::new();
        given.iter().for_each(|(name, tensor)| place.put(name, tensor, None));
        let before = place.open().version();
        // What is stored while it runs is not seen.
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (told, path) = (Arc::clone(&seen), place.directory.path().join("data.lacus/_delta_log"));
        let watch: Arc<lacus_execute::Watch> = Arc::new(move |_: &lacus_execute::Report| {
            told.lock().unwrap().push(std::fs::read_dir(&path).unwrap().count());
        });
        let options = RunOptions {
            memory_bytes: Some(100_000),
            spill: Some(place.spill()),
            watch: Some(watch),
            ..options(block)
        };
        let (done, version) = place.run(text, &names, &options).unwrap();
        assert!(done.report.written_bytes >= 90 * 70 * 8, "{}", done.report);
        assert!(done.report.peak_bytes <= 100_000, "{}", done.report);
        assert_eq!(version, Some(before + 1));
        // The last is told when all is done, and before it is a version.
        let counts = std::mem::take(&mut *seen.lock().unwrap());
        assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
        for name in names {
            assert_eq!(place.get(name), expected[name], "{name} with tiles of {block}");
        }
        // Results are replaced, whatever they were.
        place.put("C", &random(&[3], 5), None);
        place.run(text, &names, &options).unwrap();
        assert_eq!(place.get("C"), expected["C"]);
        place.assert_no_spill();
    }
}

#[test]
fn a_streamed_result_that_is_saved_in_every_round_is_the_last_one() {
    let text = "A = load(\"A\"); B = A
        for t in 0..3 { B = B @ A; save(B, \"B\") }";
    let given: BTreeMap<String, Tensor> = [("A".to_owned(), random(&[60, 60], 1))].into();
    let expected = in_memory(text, &given, &options(16));
    let place = Place::new();
    place.put("A", &given["A"], None);
    for memory in [None, Some(60_000)] {
        let options = RunOptions {
            memory_bytes: memory,
            spill: Some(place.spill()),
            checkpoint_every: None,
            ..options(16)
        };
        place.run(text, &["B"], &options).unwrap();
        assert_eq!(place.get("B"), expected["B"]);
    }
    let options = RunOptions { checkpoint_every: Some(1), ..options(16) };
    assert!(place.run(text, &["B"], &RunOptions { rounds: Some(2), ..options.clone() }).is_err());
    let (done, _) = place.run(text, &["B"], &options).unwrap();
    assert_eq!(done.report.resumed_rounds, 2);
    assert_eq!(place.get("B"), expected["B"]);
}

fn few(dtype: DType, dims: &[u64]) -> Tensor {
    let count = dims.iter().product::<u64>();
    let is_set = |at: u64| at.is_multiple_of(23);
    macro_rules! buffer {
        ($t:ty) => {
            Buffer::from_elements(
                &(0..count)
                    .map(|at| if is_set(at) { (at % 100 + 1) as $t } else { 0 as $t })
                    .collect::<Vec<_>>(),
            )
        };
    }
    let buffer = match dtype {
        DType::F32 => buffer!(f32),
        DType::U8 => buffer!(u8),
        DType::I32 => buffer!(i32),
        DType::I64 => buffer!(i64),
        _ => buffer!(f64),
    };
    tensor(dtype, dims, buffer)
}

#[test]
fn every_type_and_layout_is_read_under_a_small_budget() {
    let text = "A = load(\"A\"); v = load(\"v\")
        p[i] = A[i,j] * v[j]
        q[j] = A[i,j] * A[i,j] if i < 30
        R = A[3:40:2, ::-1] + 1
        save(p, \"p\"); save(q, \"q\"); save(R, \"R\")";
    let names = ["p", "q", "R"];
    let dense = [DType::F64, DType::F32, DType::U8, DType::I32, DType::I64].map(|dtype| (dtype, "FTSF"));
    let sparse = ["COO", "CSR", "CSC", "CSF", "BSGS"].map(|layout| (DType::F64, layout));
    let both = [(DType::F32, "CSR"), (DType::U8, "COO"), (DType::I32, "BSGS"), (DType::I64, "CSC")];
    for (dtype, layout) in dense.into_iter().chain(sparse).chain(both) {
        let given: BTreeMap<String, Tensor> =
            [("A".to_owned(), few(dtype, &[40, 50])), ("v".to_owned(), few(dtype, &[50]))].into();
        let expected = in_memory(text, &given, &options(16));
        let place = Place::new();
        place.put("A", &given["A"], Some(layout));
        place.put("v", &given["v"], None);
        for memory in [None, Some(30_000)] {
            let options = RunOptions { memory_bytes: memory, spill: Some(place.spill()), ..options(16) };
            let (done, _) =
                place.run(text, &names, &options).unwrap_or_else(|e| panic!("{dtype} {layout}: {e}"));
            assert!(memory.is_none_or(|memory| done.report.peak_bytes <= memory), "{}", done.report);
            for name in names {
                assert_eq!(place.get(name), expected[name], "{name} of {dtype} in {layout}, {memory:?}");
            }
            place.assert_no_spill();
        }
    }
}

#[test]
fn stored_tensors_are_carried_by_loops_and_read_again() {
    let place = Place::new();
    place.put("A", &random(&[64, 64], 1), None);
    place.put("B", &random(&[64, 64], 2), None);
    let text = "A = load(\"A\"); B = load(\"B\"); s = 0.0
        for t in 0..5 { C = A; A = B; B = C; s = s + sum(A * float64(t)) }
        save(s, \"s\"); save(A, \"A2\")";
    let given = [("A".to_owned(), random(&[64, 64], 1)), ("B".to_owned(), random(&[64, 64], 2))].into();
    let expected = in_memory(text, &given, &options(16));
    for memory in [None, Some(20_000)] {
        let options = RunOptions { memory_bytes: memory, spill: Some(place.spill()), ..options(16) };
        for checkpoint_every in [None, Some(1), Some(2)] {
            let options = RunOptions { checkpoint_every, ..options.clone() };
            place.run(text, &["s", "A2"], &options).unwrap();
            assert_eq!(place.get("s"), expected["s"]);
            assert_eq!(place.get("A2"), expected["A2"]);
        }
    }
}

#[test]
fn what_is_read_is_what_there_was_when_the_run_began() {
    // Others write while it runs: the tensors that it reads, and other ones.
    let place = Place::new();
    let a = random(&[40, 40], 1);
    place.put("A", &a, None);
    let calls = Arc::new(AtomicU64::new(0));
    let is_written = Arc::new(AtomicBool::new(false));
    let text = "A = load(\"A\"); s = 0.0
        for t in 0..3 { s = s + sum(tick(A)) }
        save(s, \"s\"); save(A, \"copy\")";
    let (go, heard) = (Arc::clone(&calls), Arc::clone(&is_written));
    let functions = Functions::new().with(lacus_algebra::Function::new("tick", 1, move |x| {
        if go.fetch_add(1, Ordering::SeqCst) == 0 {
            while !heard.load(Ordering::SeqCst) {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
        x[0]
    }));
    let options = RunOptions { memory_bytes: Some(12_000), spill: Some(place.spill()), ..options(10) };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while calls.load(Ordering::SeqCst) == 0 {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            place.put("A", &random(&[40, 40], 5), None);
            place.put("other", &random(&[4], 5), None);
            is_written.store(true, Ordering::SeqCst);
        });
        place
            .run_on(&mut place.open(), text, &["s", "copy"], &BTreeMap::new(), &functions, &options)
            .unwrap();
    });
    assert_eq!(place.get("copy"), a.bytes());
    assert_eq!(place.get("A"), random(&[40, 40], 5).bytes());
    assert!(place.open().contains("other"));
}

#[test]
fn bits_do_not_depend_on_where_tiles_lie() {
    // Tiles of arrays in memory are parts of larger ones, with gaps; those that are read have none.
    let text = "A = load(\"A\"); T = load(\"T\"); W = load(\"W\")
        C = A @ A
        save(C, \"C\"); save(sum(A), \"s\"); save(sum(A * transpose(C)), \"f\"); save(sum(exp(C), 0), \"e\")
        P[i,j,l] = T[i,j,k] * W[k,l]
        Q[i] = T[i,j,k] * P[i,j,k]
        R[j,k] = T[i,j,k] * A[i,j]
        save(P, \"P\"); save(Q, \"Q\"); save(R, \"R\"); save(sum(P), \"p\"); save(prod(1 + A), \"q\")";
    let names = ["C", "s", "f", "e", "P", "Q", "R", "p", "q"];
    let given: BTreeMap<String, Tensor> = [
        ("A".to_owned(), random(&[50, 50], 1)),
        ("T".to_owned(), random(&[50, 50, 20], 2)),
        ("W".to_owned(), random(&[20, 20], 3)),
    ]
    .into();
    for block in [7, 20, 64] {
        let expected = in_memory(text, &given, &options(block));
        let place = Place::new();
        given.iter().for_each(|(name, tensor)| place.put(name, tensor, Some("FTSF")));
        place.run(text, &names, &options(block)).unwrap();
        for name in names {
            assert_eq!(place.get(name), expected[name], "{name} with tiles of {block}");
        }
        let options =
            RunOptions { memory_bytes: Some(400_000), spill: Some(place.spill()), ..options(block) };
        if block < 64 {
            place.run(text, &names, &options).unwrap();
            for name in names {
                assert_eq!(place.get(name), expected[name], "{name} with tiles of {block}, streamed");
            }
        }
    }
}

#[test]
fn what_only_a_loop_saves_is_stored_if_it_has_rounds() {
    let text = "A = load(\"A\")
        for t in 0..ROUNDS { A = A * 2
            save(A, \"twice\") }
        save(A, \"A2\")";
    for memory_bytes in [None, Some(60_000)] {
        for rounds in [0, 2] {
            let place = Place::new();
            let (a, before) = (random(&[60, 50], 1), random(&[7], 2));
            place.put("A", &a, None);
            place.put("twice", &before, None);
            let options = RunOptions { memory_bytes, spill: Some(place.spill()), ..options(16) };
            let text = text.replace("ROUNDS", &rounds.to_string());
            let (done, _) = place.run(&text, &["twice", "A2"], &options).unwrap();
            let names: &[&str] = if rounds == 0 { &["A2"] } else { &["A2", "twice"] };
            assert_eq!(done.stored, names);
            let times = |by: f64| -> Vec<u8> {
                let all = a.bytes().as_chunks::<8>().0.iter();
                all.flat_map(|x| (f64::from_le_bytes(*x) * by).to_le_bytes()).collect()
            };
            let (twice, product) =
                if rounds == 0 { (before.bytes().to_vec(), 1.0) } else { (times(4.0), 4.0) };
            assert_eq!(place.get("twice"), twice, "{rounds} rounds, {memory_bytes:?} bytes");
            assert_eq!(place.get("A2"), times(product), "{rounds} rounds, {memory_bytes:?} bytes");
        }
    }
}

#[test]
fn an_empty_result_that_no_round_saves_replaces_nothing() {
    for (rounds, expected) in [(0, 7), (1, 0)] {
        let place = Place::new();
        place.put("z", &random(&[7], 1), None);
        let text =
            format!("Z = zeros([0, 3])\nfor t in 0..{rounds} {{ save(Z + 1, \"z\") }}\nsave(1, \"s\")");
        let (done, _) = place.run(&text, &["z", "s"], &options(16)).unwrap();
        assert_eq!(done.stored.len(), 1 + rounds);
        assert_eq!(place.get("z").len(), 8 * expected, "{rounds} rounds");
    }
}

#[test]
fn a_runtime_of_one_thread_is_enough() {
    let text = "A = load(\"A\")\nsave(A @ A, \"B\")";
    let bits = |runtime: Option<tokio::runtime::Runtime>| {
        let mut place = Place::new();
        place.put("A", &random(&[60, 60], 4), None);
        if let Some(runtime) = runtime {
            place.runtime = runtime;
        }
        place.run(text, &["B"], &options(16)).unwrap();
        place.get("B")
    };
    let single = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(bits(Some(single)), bits(None));
}
