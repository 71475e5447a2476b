//! A merge is undone once it is said which of its parents counts.

use std::sync::Arc;

use lacus_history::{Combined, HistoryError, Timeline, revert_message};
use lacus_io::World;
use lacus_table::Table;
use lacus_tensor::ErrorKind;
use object_store::memory::InMemory;

use crate::tables::{
    add_labels, append, branch, content, delete_row, get, merge, options, put, record, relabel, stop,
    store_over, write,
};

struct Merged {
    timeline: Timeline,
    main: Table,
    rows: Vec<u64>,
}

/// Two sides, merged into main: x[0] and a row's label are main's, x[7], y, a new row and a deleted row are dev's.
async fn merged() -> Merged {
    let home = store_over(Arc::new(InMemory::new()));
    let timeline = Timeline::new(home.clone(), World::real());
    let mut main = Table::create(home, World::real()).await.unwrap();
    put(&mut main, "x", &[0; 8]).await.unwrap();
    add_labels(&mut main).await.unwrap();
    let rows = append(&mut main, &[1, 2, 3]).await.unwrap();
    timeline.commit(&mut main, &record("first"), false).await.unwrap();
    let mut dev = branch(&timeline, "dev", "main").await.unwrap();
    write(&mut dev, "x", 7, 9).await.unwrap();
    put(&mut dev, "y", &[5, 5]).await.unwrap();
    append(&mut dev, &[4]).await.unwrap();
    delete_row(&mut dev, rows[2]).await.unwrap();
    timeline.commit(&mut dev, &record("on dev"), false).await.unwrap();
    write(&mut main, "x", 0, 1).await.unwrap();
    relabel(&mut main, rows[0], 10).await.unwrap();
    timeline.commit(&mut main, &record("on main"), false).await.unwrap();
    let done = merge(&timeline, "main", &mut main, "dev", &mut stop).await.unwrap();
    assert!(matches!(done, Combined::Committed(_)), "{done:?}");
    Merged { timeline, main, rows }
}

impl Merged {
    async fn revert(&mut self, revision: &str, mainline: Option<u64>) -> Result<Combined, HistoryError> {
        let (id, commit) = self.timeline.resolve_commit("main", revision).await?;
        let record = record(&revert_message(&id, &commit, mainline));
        let reverted = (id, &*commit);
        let table = &mut self.main;
        self.timeline.revert_along(table, reverted, mainline, &record, &mut stop, &options()).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn along_either_parent() {
    for (mainline, parent) in [(1, "main~1"), (2, "dev")] {
        let mut merged = merged().await;
        let (id, _) = merged.timeline.resolve_commit("main", parent).await.unwrap();
        let expected = merged.timeline.open("main", Some(parent)).await.unwrap().table;
        merged.revert("main", Some(mainline)).await.unwrap();
        assert_eq!(content(&merged.main).await, content(&expected).await, "mainline {mainline}");
        let (_, commit) = merged.timeline.resolve_commit("main", "main").await.unwrap();
        assert_eq!(commit.summary(), "Revert \"Merge dev into main\"");
        assert!(commit.message.contains(&format!("goes back to {id}")), "{}", commit.message);
        assert_eq!(commit.parents.len(), 1);
    }
}

/// What came after the merge stays, and the revert can be reverted.
#[tokio::test(flavor = "multi_thread")]
async fn in_the_middle_and_back_again() {
    let mut merged = merged().await;
    write(&mut merged.main, "x", 3, 33).await.unwrap();
    let rows = merged.rows.clone();
    relabel(&mut merged.main, rows[1], 20).await.unwrap();
    merged.timeline.commit(&mut merged.main, &record("since"), false).await.unwrap();
    merged.revert("main~1", Some(1)).await.unwrap();
    assert_eq!(get(&merged.main, "x").await, [1, 0, 0, 33, 0, 0, 0, 0]);
    let now = content(&merged.main).await;
    assert!(!now.arrays.contains_key("y"));
    assert_eq!(now.rows, [(rows[0], Some(10)), (rows[1], Some(20)), (rows[2], Some(3))]);
    merged.revert("main", None).await.unwrap();
    assert_eq!(get(&merged.main, "x").await, [1, 0, 0, 33, 0, 0, 0, 9]);
    assert_eq!(content(&merged.main).await.rows.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn but_not_without_saying_which() {
    let mut merged = merged().await;
    let version = merged.main.version();
    let first = merged.timeline.resolve_commit("main", "main^1").await.unwrap().0.short();
    let second = merged.timeline.resolve_commit("main", "main^2").await.unwrap().0.short();
    for (revision, mainline, words) in [
        (
            "main",
            None,
            vec![
                format!("1 goes back to {first} \"on main\""),
                format!("2 goes back to {second} \"on dev\""),
            ],
        ),
        ("main", Some(0), vec!["mainline 0 is no parent".to_owned(), first.clone()]),
        ("main", Some(3), vec!["mainline 3 is no parent".to_owned(), second.clone()]),
        ("main", Some(u64::MAX), vec!["is no parent".to_owned()]),
        ("dev", Some(1), vec!["is not a merge".to_owned()]),
        ("dev~1", Some(1), vec!["is the first".to_owned()]),
    ] {
        let error = merged.revert(revision, mainline).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        for words in words {
            assert!(error.to_string().contains(&words), "{revision} {mainline:?}: {error}");
        }
    }
    merged.main.refresh().await.unwrap();
    assert_eq!(merged.main.version(), version);
}
