//! Branches with several writers, on stores that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lacus_simulation::{Dice, Faults, FlakyStore, seeded_world};
use lacus_tensor::ErrorKind;
use object_store::ObjectStore;
use object_store::memory::InMemory;

use super::*;

/// Everything goes at once, so that tidying and its races happen.
const EAGER: Tidying = Tidying { grace_millis: 0, at_least: 1 };

fn store(inner: Arc<dyn ObjectStore>) -> Store {
    Store::over(url::Url::parse("memory:///branches/").unwrap(), inner).unwrap()
}

fn id(text: &str) -> CommitId {
    CommitId::of(text.as_bytes())
}

fn named(name: &str) -> BranchRef {
    BranchRef { name: name.to_owned(), directory: format!("_branches/{name}"), ..BranchRef::main() }
}

async fn step(store: &Store, world: &World, held: &Held, head: CommitId) -> Result<Held, HistoryError> {
    let new = BranchRef { head: Some(head), version: held.branch().version + 1, ..held.branch().clone() };
    put(store, world, Some(held), new, EAGER).await
}

#[tokio::test]
async fn main_is_there_from_the_start() {
    let (store, world) = (store(Arc::new(InMemory::new())), seeded_world(1));
    let main = get(&store, "main").await.unwrap();
    assert_eq!((main.branch(), main.path()), (&BranchRef::main(), None));
    assert_eq!(list(&store).await.unwrap(), std::slice::from_ref(&main));
    assert_eq!(names(&store).await.unwrap(), ["main"]);
    let moved = step(&store, &world, &main, id("a")).await.unwrap();
    assert_eq!(get(&store, "main").await.unwrap(), moved);
    // Who still holds what it was is told what it is.
    let error = step(&store, &world, &main, id("b")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains(&id("a").short()), "{error}");
    for error in [delete(&store, &world, &moved).await, rename(&store, &world, &moved, "other").await] {
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);
    }
    let error = create(&store, &world, named("main")).await.unwrap_err();
    assert!(matches!(error, HistoryError::NameTaken { .. }), "{error}");
}

#[tokio::test]
async fn branches_come_and_go() {
    let (store, world) = (store(Arc::new(InMemory::new())), seeded_world(2));
    let made = create(&store, &world, named("feature/x")).await.unwrap();
    assert_eq!(find(&store, "feature/x").await.unwrap(), Some(made.clone()));
    assert_eq!(create(&store, &world, named("feature/x")).await.unwrap_err().kind(), ErrorKind::Conflict);
    let error = get(&store, "feature/y").await.unwrap_err();
    assert_eq!(error.to_string(), "no branch \"feature/y\"; did you mean feature/x?");
    for name in ["", "a b", "../x"] {
        assert_eq!(get(&store, name).await.unwrap_err().kind(), ErrorKind::NotFound, "{name}");
        assert_eq!(
            create(&store, &world, named(name)).await.unwrap_err().kind(),
            ErrorKind::Invalid,
            "{name}"
        );
    }
    delete(&store, &world, &made).await.unwrap();
    assert_eq!(find(&store, "feature/x").await.unwrap(), None);
    assert_eq!(list(&store).await.unwrap().len(), 1);
    assert_eq!(list_with_deleted(&store).await.unwrap().len(), 2);
    assert!(delete(&store, &world, &made).await.unwrap_err().to_string().contains("deleted"));
    // The new one is another: who holds the old one cannot move it.
    let again = create(&store, &world, named("feature/x")).await.unwrap();
    assert!(again.number > made.number);
    assert_eq!(step(&store, &world, &made, id("a")).await.unwrap_err().kind(), ErrorKind::Conflict);
    let renamed = rename(&store, &world, &again, "y").await.unwrap();
    assert_eq!(renamed.branch().directory, again.branch().directory);
    let left: Vec<String> = list(&store).await.unwrap().iter().map(|held| held.name().to_owned()).collect();
    assert_eq!(left, ["main", "y"]);
    assert_eq!(step(&store, &world, &again, id("a")).await.unwrap_err().kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn a_rename_that_somebody_moved_under_is_withdrawn() {
    let (store, world) = (store(Arc::new(InMemory::new())), seeded_world(3));
    let made = create(&store, &world, named("old")).await.unwrap();
    step(&store, &world, &made, id("a")).await.unwrap();
    assert_eq!(rename(&store, &world, &made, "new").await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(find(&store, "new").await.unwrap(), None);
    assert_eq!(get(&store, "old").await.unwrap().branch().head, Some(id("a")));
}

#[tokio::test]
async fn a_rename_that_dies_leaves_a_name() {
    for crash_at in 1..20 {
        let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let world = seeded_world(crash_at);
        let made = create(&store(Arc::clone(&memory)), &world, named("old")).await.unwrap();
        let faults = Faults { crash_at, ..Faults::default() };
        let flaky = Arc::new(FlakyStore::new(Arc::clone(&memory), faults, crash_at));
        let answer = rename(&store(flaky), &world, &made, "new").await;
        let left = list(&store(memory)).await.unwrap();
        let names: Vec<&str> = left.iter().map(Held::name).filter(|name| *name != MAIN).collect();
        assert!([&["old"][..], &["new", "old"], &["new"]].contains(&&names[..]), "{names:?}");
        assert!(answer.is_err() || names == ["new"], "{names:?}");
        assert!(left.iter().all(|held| held.name() == MAIN || held.branch().directory == "_branches/old"));
    }
}

#[tokio::test]
async fn a_power_cut_is_repaired_by_taking_back_what_was_not_safe() {
    let (store, world) = (store(Arc::new(InMemory::new())), seeded_world(4));
    let main = get(&store, "main").await.unwrap();
    let new = BranchRef { head: Some(id("a")), version: 1, ..main.branch().clone() };
    let first = advance(&store, &world, &main, new).await.unwrap();
    for (number, torn) in [(1, &b""[..]), (2, &[0; 100])] {
        store.put_new(&path("main", number), Bytes::copy_from_slice(torn)).await.unwrap();
    }
    // Nobody goes back silently: what was lost is named, and a check with `repair` removes it.
    let error = get(&store, "main").await.unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("--repair"), "{error}");
    let empty = empty_moves(&store, "main").await.unwrap();
    assert_eq!(empty, [path("main", 2), path("main", 1)]);
    store.remove(empty).await.unwrap();
    let held = get(&store, "main").await.unwrap();
    assert_eq!((held.branch(), held.number), (first.branch(), Some(0)));
    let moved = step(&store, &world, &held, id("b")).await.unwrap();
    assert_eq!(get(&store, "main").await.unwrap(), moved);
    // Without anything before it, and with content that makes no sense, it is damage.
    store.put_new(&path("x", 0), Bytes::new()).await.unwrap();
    store.put_new(&path("y", 0), Bytes::from_static(b"{\"name\": \"y\"")).await.unwrap();
    for name in ["x", "y"] {
        let error = get(&store, name).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("damaged"), "{error}");
    }
    assert_eq!(names(&store).await.unwrap(), ["main", "x", "y"]);
}

#[tokio::test]
async fn a_slow_writer_cannot_win_what_was_tidied_away() {
    let (store, world) = (store(Arc::new(InMemory::new())), seeded_world(5));
    let main = get(&store, "main").await.unwrap();
    let slow = step(&store, &world, &main, id("0")).await.unwrap();
    let mut held = slow.clone();
    for n in 1..5 {
        held = step(&store, &world, &held, id(&n.to_string())).await.unwrap();
    }
    assert_eq!(store.list(PREFIX).await.unwrap().len(), 1, "tidied");
    for stale in [&main, &slow] {
        assert_eq!(step(&store, &world, stale, id("x")).await.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(get(&store, "main").await.unwrap(), held);
    }
}

#[test]
fn only_what_was_succeeded_a_while_ago_is_surplus() {
    let found = |times: &[i64]| -> BTreeMap<u64, Entry> {
        let entry = |n: usize| Entry { path: n.to_string(), bytes: 1, modified_millis: times[n] };
        (0..times.len()).map(|n| (n as u64, entry(n))).collect()
    };
    let check = |times: &[i64], at_least, expected: &[&str]| {
        assert_eq!(surplus(&found(times), Tidying { grace_millis: 2000, at_least }), expected, "{times:?}");
    };
    check(&[], 1, &[]);
    check(&[5], 1, &[]);
    check(&[0, 1000, 3000], 1, &["0"]);
    check(&[0, 1000, 2999], 1, &[]);
    check(&[0, 0, 0, 9000], 1, &["0", "1"]);
    check(&[0, 0, 0, 9000], 3, &[]);
}

#[test]
fn directories_are_plain_and_new() {
    let taken = ["_branches/a.b", "_branches/a.b-2"];
    let check = |name: &str, expected: &str| {
        assert_eq!(directory_for(name, |directory| taken.contains(&directory)), expected);
    };
    check("x", "_branches/x");
    check("a/b", "_branches/a.b-3");
    check("é@b/c", "_branches/__b.c");
    assert_eq!(directory_for(&"x".repeat(200), |_| false).len(), "_branches/".len() + 100);
}

/// Each writer appends its commits to one branch, looking again when it is too late or unsure. The commits say what they
/// were made from, so that in the end the branch must be a chain of all that were acknowledged.
async fn contest(seed: u64, faults: Faults, tidying: Tidying) {
    const WRITERS: u64 = 4;
    const MOVES: u64 = 12;
    let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let done = Arc::new(AtomicBool::new(false));
    let reader = {
        let (store, done) = (store(Arc::clone(&memory)), Arc::clone(&done));
        tokio::spawn(async move {
            let mut last = 0;
            while !done.load(Ordering::Relaxed) {
                let version = get(&store, "main").await.unwrap().branch().version;
                assert!(version >= last, "a reader went back from {last} to {version}");
                last = version;
                tokio::task::yield_now().await;
            }
        })
    };
    let mut writers = Vec::new();
    for w in 0..WRITERS {
        let flaky = Arc::new(FlakyStore::new(Arc::clone(&memory), faults, seed * 100 + w));
        let store = store(flaky);
        let world = seeded_world(seed * 1000 + w);
        writers.push(tokio::spawn(async move {
            let dice = Dice::new(seed * 77 + w);
            let mut won = Vec::new();
            for n in 0..MOVES {
                for attempt in 0.. {
                    let Ok(held) = get(&store, "main").await else { continue };
                    // Sometimes slowly.
                    for _ in 0..dice.below(20) {
                        tokio::task::yield_now().await;
                    }
                    let head = id(&format!("{w} {n} {attempt}"));
                    let new = BranchRef {
                        head: Some(head),
                        version: held.branch().version + 1,
                        from: held.branch().head,
                        ..held.branch().clone()
                    };
                    match put(&store, &world, Some(&held), new, tidying).await {
                        Ok(held) => {
                            won.push((held.branch().from, head, held.branch().version));
                            break;
                        }
                        Err(error) => {
                            let kind = error.kind();
                            assert!([ErrorKind::Conflict, ErrorKind::Unavailable].contains(&kind), "{error}");
                        }
                    }
                }
            }
            won
        }));
    }
    let mut won = Vec::new();
    for writer in writers {
        won.extend(writer.await.unwrap());
    }
    done.store(true, Ordering::Relaxed);
    reader.await.unwrap();
    let last = get(&store(memory), "main").await.unwrap();
    assert_eq!(won.len() as u64, WRITERS * MOVES);
    won.sort_by_key(|(_, _, version)| *version);
    // No two won the same number, and each was made from what was before it. Moves that were not acknowledged may be between.
    for pair in won.windows(2) {
        assert!(pair[0].2 < pair[1].2, "seed {seed}: two winners of version {}", pair[0].2);
        if pair[0].2 + 1 == pair[1].2 {
            assert_eq!(pair[1].0, Some(pair[0].1), "seed {seed}: a move was lost");
        }
    }
    let (_, head, version) = won[won.len() - 1];
    assert!(last.branch().version >= version);
    if last.branch().version == version {
        assert_eq!(last.branch().head, Some(head));
    }
    if faults.put == 0 && faults.lost_answer == 0 && faults.read == 0 {
        // A writer that was held up while others moved the branch more often than marks are kept may not recognise its
        // own move, and makes another. That is rare.
        let unrecognised = version - WRITERS * MOVES;
        assert!(unrecognised <= 2, "seed {seed}: {unrecognised} moves were not acknowledged");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_several_writers_one_wins() {
    for seed in 0..10 {
        contest(seed, Faults::default(), EAGER).await;
        contest(seed, Faults::default(), TIDYING).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_whose_answers_get_lost() {
    for seed in 0..10 {
        // With a client that repeats its put and meets itself, every move is recognised.
        let faults = Faults { refused_retry: 2, ..Faults::default() };
        contest(seed, faults, TIDYING).await;
        let faults = Faults { refused_retry: 4, lost_answer: 4, put: 5, read: 9, ..Faults::default() };
        contest(seed, faults, TIDYING).await;
        contest(seed, faults, EAGER).await;
    }
}

#[tokio::test]
async fn a_move_whose_every_request_fails_once_happens_or_not() {
    for crash_at in 1..8 {
        let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let calm = store(Arc::clone(&memory));
        let world = seeded_world(crash_at);
        let held = get(&calm, "main").await.unwrap();
        let held = step(&calm, &world, &held, id("a")).await.unwrap();
        let faults = Faults { crash_at, ..Faults::default() };
        let flaky = store(Arc::new(FlakyStore::new(Arc::clone(&memory), faults, crash_at)));
        let answer = step(&flaky, &world, &held, id("b")).await;
        let head = get(&calm, "main").await.unwrap().branch().head;
        match answer {
            Ok(_) => assert_eq!(head, Some(id("b"))),
            Err(_) => assert!([Some(id("a")), Some(id("b"))].contains(&head)),
        }
    }
}
