//! A branch of ten thousand files costs less than two megabytes, whatever their size; a small commit five writes; and a commit
//! on disk syncs what was written since the last one, each file once.

use std::sync::Arc;

use lacus_history::Timeline;
use lacus_io::{Store, World};
use lacus_table::{At, Table};
use object_store::memory::InMemory;
use serde_json::Value as Json;

use crate::datasets::{branch, commit, paths, put, store_over, write};
use crate::tables::{add_labels, append};

/// A dataset whose log says that it has `files` files of `bytes` bytes each. One of them is there.
async fn large(files: usize, bytes: u64) -> Store {
    let home = store_over(Arc::new(InMemory::new()));
    let mut table = Table::create(home.clone(), World::real()).await.unwrap();
    put(&mut table, "x", &[1, 2, 3, 4, 5, 6, 7, 8]).await;
    let path = |version: usize| format!("_delta_log/{version:020}.json");
    let text = String::from_utf8(home.read_all(&path(1)).await.unwrap().to_vec()).unwrap();
    let lines: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let add = lines.iter().find(|line| line["add"].is_object()).unwrap();
    // Made up from another entry, so without its checksums.
    let mut info = lines.iter().find(|line| line["commitInfo"].is_object()).unwrap().clone();
    info["commitInfo"]["lacus"].as_object_mut().unwrap().remove("crc32c");
    for version in 2..2 + files / 500 {
        let mut entry = format!("{info}\n");
        for number in 0..500 {
            let mut add = add.clone();
            add["add"]["path"] = format!("data/{}.parquet", World::real().uuid()).into();
            add["add"]["size"] = bytes.into();
            let tag = add["add"]["tags"]["lacus"].as_str().unwrap();
            let name = format!("\"name\":\"tensor {version} {number}\"");
            add["add"]["tags"] = serde_json::json!({"lacus": tag.replace("\"name\":\"x\"", &name)});
            entry.push_str(&format!("{add}\n"));
        }
        home.put_new(&path(version), entry.into()).await.unwrap();
    }
    home
}

async fn bytes_of_a_branch(bytes: u64) -> u64 {
    let home = large(10_000, bytes).await;
    let timeline = Timeline::new(home.clone(), World::real());
    let mut main = timeline.open("main", None).await.unwrap().table;
    assert_eq!(main.files().0, 10_001);
    commit(&timeline, &mut main, "large").await;
    let before = home.counts().written_bytes();
    let dev = branch(&timeline, "dev", "main").await;
    let written = home.counts().written_bytes() - before;
    assert_eq!((dev.files().0, dev.borrowed_files().0), (10_001, 10_001));
    written
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_of_ten_thousand_files() {
    let small = bytes_of_a_branch(1_000).await;
    let large = bytes_of_a_branch(100_000_000).await;
    assert!(small < 2_000_000 && large < 2_000_000, "{small} {large}");
    assert!(large.abs_diff(small) * 20 < small, "{small} {large}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_a_small_change() {
    let home = store_over(Arc::new(InMemory::new()));
    let timeline = Timeline::new(home.clone(), World::real());
    let mut main = Table::create(home.clone(), World::real()).await.unwrap();
    put(&mut main, "x", &[0; 64]).await;
    commit(&timeline, &mut main, "first").await;
    for step in 0..10 {
        let before = home.counts().writes();
        write(&mut main, "x", step, 1).await;
        commit(&timeline, &mut main, "small").await;
        let writes = home.counts().writes() - before;
        assert!(writes <= 5, "{writes} writes");
    }
    let again = Table::open(home, World::real(), At::Tip).await.unwrap();
    assert_eq!(again.version(), 11);
}

/// Appends rows one by one and commits them: what was read and synced for the commit, and how many data files and log
/// entries there were to sync.
async fn cost_of_a_commit(home: &Store, main: &mut Table, appends: usize) -> (u64, u64, u64) {
    let timeline = Timeline::new(home.clone(), World::real());
    let written = async || {
        let is_written = |path: &&String| path.starts_with("data/") || path.ends_with(".json");
        paths(home).await.iter().filter(|path| !path.starts_with("_lacus/")).filter(is_written).count() as u64
    };
    let before = written().await;
    for value in 0..appends {
        append(main, &[value as i64]).await.unwrap();
    }
    let new = written().await - before;
    let (reads, syncs) = (home.counts().reads(), home.counts().syncs());
    commit(&timeline, main, "rows").await;
    (home.counts().reads() - reads, home.counts().syncs() - syncs, new)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_syncs_what_is_new() {
    let directory = tempfile::tempdir().unwrap();
    let home = Store::open(directory.path().join("ds").to_str().unwrap(), &Default::default()).unwrap();
    let mut main = Table::create(home.clone(), World::real()).await.unwrap();
    add_labels(&mut main).await.unwrap();
    cost_of_a_commit(&home, &mut main, 3).await;
    let (few_reads, few, few_new) = cost_of_a_commit(&home, &mut main, 1).await;
    let (many_reads, many, many_new) = cost_of_a_commit(&home, &mut main, 70).await;
    assert!(few_new >= 2 && many_new >= 70 * few_new, "{few_new} {many_new}");
    // The rest is the same for every commit: the commit, the ref, and the directories.
    assert_eq!(few - few_new, many - many_new);
    assert!(few - few_new <= 24, "{few} syncs for {few_new} files");
    // Each entry is read for what it says, and for what it wrote.
    assert!(many_reads - few_reads <= 2 * 69 + 4, "{few_reads} {many_reads}");
    // Nothing is left to do for the next.
    let (_, again, again_new) = cost_of_a_commit(&home, &mut main, 1).await;
    assert_eq!((again, again_new), (few, few_new));
}

/// A fork has no entry for its first version, and borrows files that were synced with the table they belong to.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_on_a_branch_syncs_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let home = Store::open(directory.path().join("ds").to_str().unwrap(), &Default::default()).unwrap();
    let timeline = Timeline::new(home.clone(), World::real());
    let mut main = Table::create(home.clone(), World::real()).await.unwrap();
    for value in 0..30 {
        put(&mut main, &format!("x{value}"), &[value, 0]).await;
    }
    commit(&timeline, &mut main, "many").await;
    let mut dev = branch(&timeline, "dev", "main").await;
    put(&mut dev, "y", &[1, 2]).await;
    let (reads, syncs) = (home.counts().reads(), home.counts().syncs());
    commit(&timeline, &mut dev, "one").await;
    let (reads, syncs) = (home.counts().reads() - reads, home.counts().syncs() - syncs);
    assert!(reads <= 16 && syncs <= 26, "{reads} reads, {syncs} syncs");
}
