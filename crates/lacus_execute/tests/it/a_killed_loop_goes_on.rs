//! A run that was interrupted in a loop goes on after its last checkpoint, has the same bits at the end, and leaves nothing
//! behind.

use crate::support::{Place, random};
use lacus_algebra::{Function, Functions};
use lacus_execute::{ExecuteError, RunOptions};
use lacus_tensor::ErrorKind;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const COUNTED: &str = "A = load(\"A\"); x = load(\"x\")
    B = A @ transpose(A)
    k = 0; z = x * 0.0 - 0.0; found = sum(x) > 0
    for t in 0..11 {
        y[i] = B[i,j] * x[j]
        x = y / max(abs(y))
        k = k + t
        found = not found
        inner = 0
        while inner < 3 { z = -z; inner = inner + 1 }
    }
    save(x, \"out\"); save(k, \"k\"); save(found, \"found\"); save(z, \"z\")";
const COUNTED_SAVES: [&str; 4] = ["out", "k", "found", "z"];

const UNTIL: &str = "A = load(\"A\"); x = load(\"x\"); n = 0
    repeat {
        y = A @ x
        s = y / sqrt(sum(y * y))
        d = sum(abs(s - x))
        x = s; n = n + 1
    } until n > 20 or d < 1e-12
    w = 1.0
    while w < 100 { w = w * 2 + sum(x) * 0 }
    save(x, \"out\"); save(n, \"n\"); save(w, \"w\")";
const UNTIL_SAVES: [&str; 3] = ["out", "n", "w"];

fn place() -> Place {
    let place = Place::new();
    place.put("A", &random(&[40, 40], 1), None);
    place.put("x", &random(&[40], 2), None);
    place
}

fn options() -> RunOptions {
    RunOptions { block: Some(16), checkpoint_every: Some(2), workers: Some(2), ..RunOptions::default() }
}

fn checkpoints(place: &Place) -> Vec<String> {
    place.open().names().into_iter().filter(|name| name.starts_with("_run/")).collect()
}

fn whole(text: &str, saves: &[&str]) -> (BTreeMap<String, Vec<u8>>, u64) {
    let place = place();
    let done = place.run(text, saves, &RunOptions { checkpoint_every: None, ..options() }).unwrap().0;
    (saves.iter().map(|name| ((*name).to_owned(), place.get(name))).collect(), done.report.rounds)
}

#[test]
fn after_any_round_and_with_the_same_bits() {
    for (text, saves, memory) in [
        (COUNTED, &COUNTED_SAVES[..], None),
        (UNTIL, &UNTIL_SAVES, None),
        (COUNTED, &COUNTED_SAVES, Some(16_000)),
    ] {
        let (expected, rounds) = whole(text, saves);
        for interrupted in [1, 2, 3, 7, 9, 20, 23, 27, 40] {
            let place = place();
            let before = place.open().version();
            let options = RunOptions { memory_bytes: memory, spill: Some(place.spill()), ..options() };
            let first = place.run(text, saves, &RunOptions { rounds: Some(interrupted), ..options.clone() });
            if interrupted >= rounds {
                assert!(first.is_ok());
                continue;
            }
            let first = first.map(|_| ()).unwrap_err();
            assert!(matches!(first, ExecuteError::Rounds { .. }), "{first}");
            let found = checkpoints(&place);
            let table = place.open();
            assert!(saves.iter().all(|name| !table.contains(name)), "nothing is stored before the end");
            let between = table.version();
            let (done, version) =
                place.run(text, saves, &options).unwrap_or_else(|e| panic!("{interrupted}: {e}"));
            assert_eq!(done.report.resumed_rounds > 0, !found.is_empty(), "after {interrupted}: {found:?}");
            assert_eq!(done.report.rounds, rounds, "after {interrupted}");
            assert!(between > before || found.is_empty());
            for (name, bytes) in &expected {
                assert_eq!(&place.get(name), bytes, "{name} after {interrupted} rounds");
            }
            let mut names = place.open().names();
            names.sort();
            let mut all: Vec<String> = saves.iter().map(|name| (*name).to_owned()).collect();
            all.extend(["A".to_owned(), "x".to_owned()]);
            all.sort();
            assert_eq!(names, all, "nothing is left behind");
            assert_eq!(Some(place.open().version()), version);
            place.assert_no_spill();
        }
    }
}

#[test]
fn large_values_are_written_tile_by_tile() {
    let place = place();
    let text = "A = load(\"A\"); B = A
        for t in 0..6 { B = B @ A + A }
        save(B, \"B\")";
    let options = RunOptions { memory_bytes: Some(40_000), spill: Some(place.spill()), ..options() };
    let reference = self::place();
    reference.run(text, &["B"], &RunOptions { checkpoint_every: None, ..options.clone() }).unwrap();
    let stopped = place.run(text, &["B"], &RunOptions { rounds: Some(5), ..options.clone() });
    assert!(stopped.is_err());
    let table = place.open();
    let [name] = &checkpoints(&place)[..] else { panic!("{:?}", checkpoints(&place)) };
    assert_eq!(table.tensor(name).unwrap().metadata["lacus.checkpoint"]["rounds"], 4);
    let (done, _) = place.run(text, &["B"], &options).unwrap();
    assert_eq!((done.report.resumed_rounds, done.report.rounds), (4, 6));
    assert_eq!(place.get("B"), reference.get("B"));
    assert_eq!(checkpoints(&place), Vec::<String>::new());
}

#[test]
fn a_run_that_was_cancelled_goes_on() {
    let place = place();
    let calls = Arc::new(AtomicU64::new(0));
    let cancel = Arc::new(AtomicBool::new(false));
    let text = "x = load(\"x\")
        for t in 0..30 { x = tick(x) }
        save(x, \"out\")";
    let functions = |stop_at: u64| {
        let (calls, cancel) = (Arc::clone(&calls), Arc::clone(&cancel));
        Functions::new().with(Function::new("tick", 1, move |x| {
            if calls.fetch_add(1, Ordering::Relaxed) == stop_at {
                cancel.store(true, Ordering::Relaxed);
                std::thread::sleep(std::time::Duration::from_millis(300));
            }
            x[0] + 1.0
        }))
    };
    let none = BTreeMap::new();
    let with = RunOptions { cancel: Some(Arc::clone(&cancel)), ..options() };
    let mut table = place.open();
    let first = place.run_on(&mut table, text, &["out"], &none, &functions(40 * 20 + 5), &with);
    assert!(matches!(first.map(|_| ()), Err(ExecuteError::Cancelled)));
    assert!(!table.in_transaction());
    cancel.store(false, Ordering::Relaxed);
    // The handle is still where it was, and finds what it has written.
    let (done, _) = place.run_on(&mut table, text, &["out"], &none, &functions(u64::MAX), &with).unwrap();
    assert_eq!((done.report.resumed_rounds, done.report.rounds), (20, 30));
    let expected: Vec<u8> = random(&[40], 2)
        .bytes()
        .as_chunks::<8>()
        .0
        .iter()
        .flat_map(|x| (0..30).fold(f64::from_le_bytes(*x), |x, _| x + 1.0).to_le_bytes())
        .collect();
    assert_eq!(place.get("out"), expected);
    assert_eq!(checkpoints(&place), Vec::<String>::new());
}

#[test]
fn only_the_same_program_on_the_same_inputs_goes_on() {
    let place = place();
    // Four rounds, of which each has four of the loop in it.
    let short = RunOptions { rounds: Some(23), ..options() };
    let resumed = |place: &Place, text: &str, options: &RunOptions| {
        place.run(text, &COUNTED_SAVES, options).unwrap().0.report.resumed_rounds
    };
    assert!(place.run(COUNTED, &COUNTED_SAVES, &short).is_err());
    assert_eq!(resumed(&place, &COUNTED.replace("k + t", "k - t"), &options()), 0, "another program");
    assert_eq!(resumed(&place, COUNTED, &RunOptions { block: Some(8), ..options() }), 0, "other tiles");
    // What others write does not matter.
    place.put("other", &random(&[3], 9), None);
    assert_eq!(resumed(&place, COUNTED, &RunOptions { workers: Some(3), ..options() }), 4);

    assert!(place.run(COUNTED, &COUNTED_SAVES, &short).is_err());
    place.put("x", &random(&[40], 3), None);
    assert_eq!(resumed(&place, COUNTED, &options()), 0, "another input");

    // The same of what is in memory.
    let given = |seed| [("x".to_owned(), random(&[40], seed))].into();
    let with = |seed, options: &RunOptions| {
        let mut table = place.open();
        place.run_on(&mut table, COUNTED, &COUNTED_SAVES, &given(seed), &Functions::new(), options)
    };
    assert!(with(7, &short).is_err());
    assert_eq!(with(8, &options()).unwrap().0.report.resumed_rounds, 0);
    assert_eq!(with(7, &options()).unwrap().0.report.resumed_rounds, 4);
}

#[test]
fn checkpoints_that_cannot_be_are_refused() {
    let place = place();
    let version = place.open().version();
    let refused = |text: &str, saves: &[&str]| {
        let error = place.run(text, saves, &options()).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    };
    let text = "x = load(\"x\"); n = 0
        while n < 5 { n = n + 1; save(n, \"n\") }
        save(x, \"y\")";
    assert!(refused(text, &["n", "y"]).contains("save it after the loop"));
    let text = "x = load(\"x\")
        for t in 0..5 { x = x + 1 }
        save(x, \"y\")";
    assert!(refused(text, &[]).contains("stores nothing"));
    assert_eq!(place.open().version(), version);
}
