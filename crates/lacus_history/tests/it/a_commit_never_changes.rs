use bytes::Bytes;
use lacus_history::{Commit, CommitId, Commits, HistoryError, Lineage, LineageInput, commit_path};
use lacus_io::Memory;
use lacus_simulation::{Faults, FlakyStore};
use lacus_tensor::ErrorKind;
use object_store::memory::InMemory;
use serde_json::json;
use std::sync::Arc;

use crate::support::{commit, memory, store_over};

fn full() -> Commit {
    let parent = CommitId::of(b"parent");
    let input = LineageInput {
        commit: Some(parent),
        url: Some("s3://b/d".to_owned()),
        tensors: vec!["a".to_owned()],
    };
    let lineage = Lineage {
        outputs: vec!["labels".to_owned()],
        program: Some("train.py".to_owned()),
        function: None,
        inputs: vec![input],
        parameters: json!({"rate": 0.1, "epochs": 3}),
    };
    let metadata = json!({"zebra": 1, "ant": {"b": [1.5, null], "a": "ü"}}).as_object().unwrap().clone();
    Commit {
        metadata,
        lineage: vec![lineage],
        changed: vec!["labels".to_owned()],
        ..commit("Labels\n\nby hand", 7, vec![parent])
    }
}

#[tokio::test]
async fn it_comes_back_and_its_bytes_are_canonical() {
    let store = memory();
    let commits = Commits::new(store.clone());
    let id = commits.write(&full()).await.unwrap();
    assert_eq!(commits.write(&full()).await.unwrap(), id, "the same again is fine");
    // Another process shares no caches.
    let elsewhere = store.within(&Memory::new(1 << 20));
    assert_eq!(*Commits::new(elsewhere).read(&id).await.unwrap(), full());
    let bytes = store.read_all(&commit_path(&id)).await.unwrap();
    assert_eq!(CommitId::of(&bytes), id);
    let text = std::str::from_utf8(&bytes).unwrap();
    assert!(text.starts_with(r#"{"author":"Ada","changed":["labels"],"dataset":"d","#), "{text}");
    assert!(text.contains(r#""metadata":{"ant":{"a":"ü","b":[1.5,null]},"zebra":1}"#), "{text}");
    assert_eq!(commits.list().await.unwrap(), [id]);
    assert_eq!(full().summary(), "Labels");
}

#[tokio::test]
async fn damage_shows() {
    let good = full().to_bytes().unwrap();
    let id = CommitId::of(&good);
    let mut flipped = good.clone();
    flipped[20] ^= 1;
    for damaged in [&good[..good.len() - 1], &[], &flipped] {
        let store = memory();
        store.put_new(&commit_path(&id), Bytes::copy_from_slice(damaged)).await.unwrap();
        let commits = Commits::new(store);
        // Writing it does not claim that it is there.
        for error in [commits.read(&id).await.map(drop), commits.write(&full()).await.map(drop)] {
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(error.to_string().contains(&commit_path(&id)), "{error}");
        }
    }
}

#[tokio::test]
async fn handles_share_what_was_read_within_the_budget() {
    let budget = Memory::new(64 << 10);
    let writer = Commits::new(memory());
    let mut ids = Vec::new();
    for generation in 0..200u64 {
        let message = format!("{generation} {}", "x".repeat(400));
        ids.push(writer.write(&commit(&message, generation + 1, Vec::new())).await.unwrap());
    }
    let store = writer.store().within(&budget);
    let (one, other) = (Commits::new(store.clone()), Commits::new(store));
    for id in &ids {
        one.read(id).await.unwrap();
        // Used again and again, so it stays while others go.
        one.read(&ids[0]).await.unwrap();
        assert!(budget.cached() <= 32 << 10, "half of the budget is for caches");
    }
    let loads = budget.loads();
    assert_eq!(loads, 200, "each commit was read once");
    assert_eq!(other.read(&ids[0]).await.unwrap().generation, 1);
    assert_eq!(other.read(&ids[199]).await.unwrap().generation, 200);
    assert_eq!(budget.loads(), loads, "what one handle has read, another one finds");
    assert!(budget.cached() > 16 << 10, "caches are not emptied whole");
    other.read(&ids[1]).await.unwrap();
    assert_eq!(budget.loads(), loads + 1, "what was not used for longest went first");
}

#[tokio::test]
async fn what_is_missing_or_newer_is_said() {
    let store = memory();
    let commits = Commits::new(store.clone());
    let missing = CommitId::of(b"missing");
    let error = commits.read_for(&missing, || "branch \"x\"".to_owned()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.to_string(), format!("no commit {missing}, to which branch \"x\" refers"));
    let newer = br#"{"format":2,"else":1}"#;
    let id = CommitId::of(newer);
    store.put_new(&commit_path(&id), Bytes::from_static(newer)).await.unwrap();
    assert!(matches!(commits.read(&id).await.unwrap_err(), HistoryError::NewerFormat { .. }));
    let other = b"[1]";
    let id = CommitId::of(other);
    store.put_new(&commit_path(&id), Bytes::from_static(other)).await.unwrap();
    assert_eq!(commits.read(&id).await.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn a_put_whose_answer_was_lost_is_repeated() {
    let faults = Faults { lost_answer: 2, refused_retry: 2, put: 3, ..Faults::default() };
    for seed in 0..30 {
        let commits =
            Commits::new(store_over(Arc::new(FlakyStore::new(Arc::new(InMemory::new()), faults, seed))));
        let id = loop {
            match commits.write(&full()).await {
                Ok(id) => break id,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        };
        assert_eq!(*commits.read_stored(&id).await.unwrap(), full());
    }
}
