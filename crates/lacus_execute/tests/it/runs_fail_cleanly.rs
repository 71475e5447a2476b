//! A run that fails says why and where, and leaves nothing: no version, no data files, no spilled tiles.

use crate::support::{Place, random, tensor};
use lacus_algebra::{Function, Functions};
use lacus_execute::{ExecuteError, RunOptions};
use lacus_tensor::{Buffer, DType, ErrorKind};
use lacus_threads::Pool;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Small enough that the results are streamed and tiles are put aside.
fn options(place: &Place) -> RunOptions {
    RunOptions {
        block: Some(16),
        workers: Some(2),
        memory_bytes: Some(60_000),
        spill: Some(place.spill()),
        ..RunOptions::default()
    }
}

fn place() -> Place {
    let place = Place::new();
    place.put("A", &random(&[100, 100], 1), None);
    place
}

/// Runs what has to fail, and looks for traces.
fn failure(
    place: &Place,
    text: &str,
    saves: &[&str],
    functions: &Functions,
    options: &RunOptions,
) -> ExecuteError {
    let (version, files) = (place.open().version(), place.data_files());
    let mut table = place.open();
    let done = place.run_on(&mut table, text, saves, &BTreeMap::new(), functions, options);
    let error = done.map(|_| ()).unwrap_err();
    assert!(!table.in_transaction());
    assert_eq!(place.open().version(), version, "no version");
    assert_eq!(place.data_files(), files, "no data files");
    place.assert_no_spill();
    // The handle can be used on.
    place
        .run_on(&mut table, "save(load(\"A\"), \"again\")", &["again"], &BTreeMap::new(), functions, options)
        .unwrap();
    error
}

const LARGE: &str = "A = load(\"A\")
    B = A @ A; C = B @ A
    D = tick(C) + B
    save(B, \"B\"); save(D, \"D\"); save(transpose(C) @ D, \"E\")";
const NAMES: [&str; 3] = ["B", "D", "E"];

/// Calls `then` at the n-th element.
fn ticking(n: u64, then: impl Fn() + Send + Sync + 'static) -> Functions {
    let calls = AtomicU64::new(0);
    Functions::new().with(Function::new("tick", 1, move |x| {
        if calls.fetch_add(1, Ordering::Relaxed) == n {
            then();
        }
        x[0]
    }))
}

#[test]
fn when_it_is_cancelled_in_the_middle() {
    for workers in [1, 2, 4] {
        let place = place();
        let cancel = Arc::new(AtomicBool::new(false));
        let options = RunOptions {
            cancel: Some(Arc::clone(&cancel)),
            workers: Some(workers),
            pool: Some(Pool::new(workers)),
            ..options(&place)
        };
        let functions = {
            let cancel = Arc::clone(&cancel);
            ticking(5_000, move || {
                cancel.store(true, Ordering::Relaxed);
                std::thread::sleep(std::time::Duration::from_millis(250));
            })
        };
        let (version, files) = (place.open().version(), place.data_files());
        let mut table = place.open();
        let done = place.run_on(&mut table, LARGE, &NAMES, &BTreeMap::new(), &functions, &options);
        assert!(matches!(done.map(|_| ()), Err(ExecuteError::Cancelled)));
        assert_eq!((place.open().version(), place.data_files()), (version, files));
        place.assert_no_spill();
    }
}

#[test]
fn when_who_watches_panics() {
    for workers in [1, 2] {
        let place = place();
        let is_first = AtomicBool::new(true);
        let watch: Arc<lacus_execute::Watch> =
            Arc::new(move |_| assert!(!is_first.swap(false, Ordering::Relaxed), "nothing to see"));
        let pool = Some(Pool::new(workers));
        let options = RunOptions { watch: Some(watch), pool, ..options(&place) };
        let long = || std::thread::sleep(std::time::Duration::from_millis(250));
        let error = failure(&place, LARGE, &NAMES, &ticking(100, long), &options);
        assert!(error.to_string().contains("nothing to see"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Internal);
    }
}

#[test]
fn when_a_worker_panics() {
    for workers in [1, 2, 4] {
        let place = place();
        let options =
            RunOptions { workers: Some(workers), pool: Some(Pool::new(workers)), ..options(&place) };
        let error = failure(&place, LARGE, &NAMES, &ticking(3_000, || panic!("an odd number")), &options);
        let text = error.to_string();
        assert!(text.contains("an odd number") && text.contains("tile ["), "{text}");
        assert!(text.starts_with("D, tile"), "{text}");
        assert_eq!(error.kind(), ErrorKind::Internal);
    }
}

#[test]
fn when_tiles_cannot_be_put_aside() {
    let place = place();
    let file = place.directory.path().join("file");
    std::fs::write(&file, "text").unwrap();
    let new = place.directory.path().join("new");
    // Also a program that would have spilled nothing is told.
    for program in [LARGE, "save(sum(load(\"A\")), \"B\")"] {
        for path in [file.join("below"), file.clone(), new.join("er")] {
            let options = RunOptions { spill: Some(path.clone()), ..options(&place) };
            let (version, files) = (place.open().version(), place.data_files());
            let functions = ticking(u64::MAX, || ());
            let done =
                place.run_on(&mut place.open(), program, &NAMES, &BTreeMap::new(), &functions, &options);
            let error = done.map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().contains(&*path.display().to_string()), "{error}");
            assert_eq!((place.open().version(), place.data_files()), (version, files));
            assert!(!new.exists());
        }
    }
}

#[test]
fn when_a_remainder_is_by_zero() {
    let place = place();
    let values: Vec<i64> = (0..100).map(|at| if at == 37 { 0 } else { at + 1 }).collect();
    place.put("n", &tensor(DType::I64, &[100], Buffer::from_elements(&values)), None);
    let text = "n = load(\"n\"); k[i] = 7 % n[i]; save(k, \"k\")";
    let error = failure(&place, text, &["k"], &Functions::new(), &options(&place));
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("[37]") && error.to_string().starts_with("k, tile [2]"), "{error}");
    let text = "n = load(\"n\"); k[i] = where(n[i] != 0, 7 % n[i], -1); save(k, \"k\")";
    place.run(text, &["k"], &options(&place)).unwrap();
    let found: Vec<i64> = place.get("k").as_chunks::<8>().0.iter().map(|&x| i64::from_le_bytes(x)).collect();
    let expected: Vec<i64> = values.iter().map(|&n| if n != 0 { 7i64.rem_euclid(n) } else { -1 }).collect();
    assert_eq!(found, expected);
}

#[test]
fn when_there_is_nan_and_it_is_forbidden() {
    let place = place();
    let mut values: Vec<f64> = vec![1.0; 100 * 50];
    values[61 * 50 + 23] = -1.0;
    place.put("x", &tensor(DType::F64, &[100, 50], Buffer::from_elements(&values)), None);
    let text = "x = load(\"x\"); root = sqrt(x); save(root * 2, \"y\")";
    let options = RunOptions { forbid_nan: true, ..options(&place) };
    let error = failure(&place, text, &["y"], &Functions::new(), &options);
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("[61, 23]"), "{error}");
    let singles: Vec<f32> = values.iter().map(|&x| x as f32).collect();
    place.put("x", &tensor(DType::F32, &[100, 50], Buffer::from_elements(&singles)), None);
    assert!(failure(&place, text, &["y"], &Functions::new(), &options).to_string().contains("[61, 23]"));
    place.run(text, &["y"], &RunOptions { forbid_nan: false, ..options }).unwrap();
}

#[test]
fn when_the_budget_is_too_small() {
    let place = place();
    let functions = ticking(u64::MAX, || ());
    let least = {
        let options = RunOptions { memory_bytes: Some(3_000), ..options(&place) };
        let (version, files) = (place.open().version(), place.data_files());
        let done = place.run_on(&mut place.open(), LARGE, &NAMES, &BTreeMap::new(), &functions, &options);
        assert_eq!((place.open().version(), place.data_files()), (version, files));
        match done.map(|_| ()) {
            Err(ExecuteError::Budget { needed, .. }) => needed,
            other => panic!("{other:?}"),
        }
    };
    let options = RunOptions { memory_bytes: Some(least), ..options(&place) };
    let done = place.run_on(&mut place.open(), LARGE, &NAMES, &BTreeMap::new(), &functions, &options);
    done.map(|_| ()).unwrap();
}

/// Later stretches and rounds need more than the first.
#[test]
fn when_the_budget_is_too_small_for_what_comes_later() {
    let place = place();
    for text in [
        "A = load(\"A\"); C = A + 1\nfor t in 0..2 { C = C @ C + C }\nsave(sum(C), \"r\")",
        "A = load(\"A\"); s = sum(A)\nfor t in 0..3 { for u in t..3 { s = s + A[u, t] } }\nB = A @ A + s\nsave(B, \"r\")",
        "A = load(\"A\"); k = 0\nrepeat { k = k + 1; A = A @ A / 100 } until k > 2\nsave(A * transpose(A), \"r\")",
    ] {
        let at = |memory: u64| {
            let options = RunOptions { memory_bytes: Some(memory), ..options(&place) };
            place.run(text, &["r"], &options).map(|_| ())
        };
        let Err(ExecuteError::Budget { needed, .. }) = at(2_000) else { panic!("{text}: it fits") };
        // Some is for results that are put together before they are stored.
        assert!(at(needed * 3 / 4).is_err(), "{text}: {needed} is more than it takes");
        at(needed).unwrap_or_else(|error| panic!("{text}: {needed} does not do: {error}"));
    }
}

#[test]
fn when_it_is_part_of_a_transaction_that_goes_on() {
    let place = place();
    place.put("y", &random(&[5], 2), None);
    let before = place.get("y");
    let mut table = place.open();
    table.begin().unwrap();
    let write = lacus_table::WriteOptions::default();
    place.runtime.block_on(table.remove(&["A"], &write)).unwrap();
    let values: Vec<i64> = (0..10_000).collect();
    let given = [("n".to_owned(), tensor(DType::I64, &[100, 100], Buffer::from_elements(&values)))].into();
    // Tiles of y are stored by the time that something else fails.
    let text = "n = load(\"n\"); save(n * 2, \"y\"); bad[i,j] = n[i,j] % (n[i,j] - 9990); save(bad, \"bad\")";
    let names = ["y", "bad"];
    let done = place.run_on(&mut table, text, &names, &given, &Functions::new(), &options(&place));
    assert_eq!(done.map(|_| ()).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(table.in_transaction() && !table.contains("bad"));
    // What was done before stays, and the same handle can go on.
    let text = "n = load(\"n\"); save(n + 1, \"more\")";
    place.run_on(&mut table, text, &["more"], &given, &Functions::new(), &options(&place)).unwrap();
    place.runtime.block_on(table.finish("WRITE", serde_json::json!({}), None, &write)).unwrap();
    let table = place.open();
    assert!(!table.contains("A") && !table.contains("bad") && table.contains("more"));
    assert_eq!(place.get("y"), before);
    assert_eq!(table.names().len(), 2);
}

#[test]
fn when_the_dataset_goes_away() {
    let place = place();
    let path = place.directory.path().join("data.lacus");
    let is_gone = Arc::new(AtomicBool::new(false));
    let functions = {
        let (path, is_gone) = (path.clone(), Arc::clone(&is_gone));
        ticking(100, move || {
            std::fs::remove_dir_all(&path).unwrap();
            is_gone.store(true, Ordering::SeqCst);
        })
    };
    let text = "A = load(\"A\"); B = tick(A[0:20, 0:20])
        save(B, \"B\"); save(A @ A + sum(B), \"C\")";
    let done =
        place.run_on(&mut place.open(), text, &["B", "C"], &BTreeMap::new(), &functions, &options(&place));
    let error = done.map(|_| ()).unwrap_err();
    assert!(is_gone.load(Ordering::SeqCst));
    assert!(
        matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unavailable | ErrorKind::Corrupt),
        "{error:?}"
    );
    assert_eq!(place.data_files(), Vec::<String>::new());
    place.assert_no_spill();
}
