//! Directories are no object store: names become files, and listings take several steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lacus_history::{BranchRef, CommitId, Tag, branches, tags};
use lacus_io::{Store, World};
use lacus_tensor::ErrorKind;

fn open(directory: &tempfile::TempDir) -> Store {
    Store::open(directory.path().to_str().unwrap(), &Default::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn names_become_files_and_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let (store, world) = (open(&directory), World::real());
    let main = branches::get(&store, "main").await.unwrap();
    assert_eq!(tags::list(&store).await.unwrap(), []);
    let longest = "é".repeat(33);
    for name in ["a/b", "50%", "%2F", "ü@x", "a.b-c_d", &longest] {
        let new = BranchRef { name: name.to_owned(), ..main.branch().clone() };
        branches::create(&store, &world, new).await.unwrap();
        assert_eq!(branches::get(&store, name).await.unwrap().name(), name);
        let (author, message) = (String::new(), String::new());
        let tag = Tag { name: name.to_owned(), commit: CommitId::of(b"x"), author, time_millis: 0, message };
        tags::create(&store, &world, tag).await.unwrap();
        assert_eq!(tags::get(&store, name).await.unwrap().name, name);
    }
    let listed: Vec<String> =
        branches::list(&store).await.unwrap().iter().map(|held| held.name().to_owned()).collect();
    assert_eq!(listed, branches::names(&store).await.unwrap());
    assert_eq!((listed.len(), tags::list(&store).await.unwrap().len()), (7, 6));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_writer_wins_each_number_and_readers_never_go_back() {
    const WRITERS: u64 = 3;
    // More than are tidied away together, after the time they stay for.
    const SECONDS: u64 = 3;
    let directory = tempfile::tempdir().unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let reader = {
        let (store, done) = (open(&directory), Arc::clone(&done));
        tokio::spawn(async move {
            let mut last = 0;
            while !done.load(Ordering::Relaxed) {
                let version = branches::get(&store, "main").await.unwrap().branch().version;
                assert!(version >= last, "a reader went back from {last} to {version}");
                last = version;
            }
        })
    };
    let started = std::time::Instant::now();
    let mut writers = Vec::new();
    for _ in 0..WRITERS {
        let store = open(&directory);
        writers.push(tokio::spawn(async move {
            let world = World::real();
            let mut won = Vec::new();
            while started.elapsed().as_secs() < SECONDS {
                let held = branches::get(&store, "main").await.unwrap();
                let new = BranchRef { version: held.branch().version + 1, ..held.branch().clone() };
                match branches::advance(&store, &world, &held, new).await {
                    Ok(held) => won.push(held.branch().version),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
                }
                world.back_off(0).await;
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
    won.sort_unstable();
    let count = won.len() as u64;
    assert_eq!(won, (1..=count).collect::<Vec<_>>());
    let store = open(&directory);
    assert_eq!(branches::get(&store, "main").await.unwrap().branch().version, count);
    let left = store.list("_lacus/branches/main/").await.unwrap().len() as u64;
    assert!(left < count, "{left} of {count} are left");
}
