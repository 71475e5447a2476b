//! Branches that were merged into each other crosswise: what both settled differently is asked again, all the way down.
//!
//! ```text
//! main   base ── a1 ── m1 ── a2 ── m2 ── …      m keeps what a says, n what b says
//!            ╲      ╳           ╳
//! other       ── b1 ── n1 ── b2 ── n2 ── …
//! ```

use std::sync::Arc;

use lacus_history::{Choice, Combined, Conflict, HistoryError, Timeline, merge_bases};
use lacus_io::World;
use lacus_table::Table;
use object_store::memory::InMemory;

use crate::tables::{
    add_labels, append, branch, content, delete_row, get, merge, put, record, relabel, stop, store_over,
    write,
};

struct Both {
    timeline: Timeline,
    main: Table,
    other: Table,
    ids: Vec<u64>,
}

async fn both() -> Both {
    let store = store_over(Arc::new(InMemory::new()));
    let timeline = Timeline::new(store.clone(), World::real());
    let mut main = Table::create(store, World::real()).await.unwrap();
    put(&mut main, "x", &[0; 8]).await.unwrap();
    add_labels(&mut main).await.unwrap();
    let ids = append(&mut main, &[0; 8]).await.unwrap();
    timeline.commit(&mut main, &record("base"), false).await.unwrap();
    let other = branch(&timeline, "other", "main").await.unwrap();
    Both { timeline, main, other, ids }
}

impl Both {
    async fn commit(&mut self, message: &str) -> [String; 2] {
        let record = record(message);
        let a = self.timeline.commit(&mut self.main, &record, true).await.unwrap();
        let b = self.timeline.commit(&mut self.other, &record, true).await.unwrap();
        [a.id.to_string(), b.id.to_string()]
    }

    /// Merges each branch into the other as they are now.
    async fn cross(&mut self, on_main: Choice, on_other: Choice) {
        let [a, b] = self.commit("before crossing").await;
        merge(&self.timeline, "main", &mut self.main, &b, &mut |_| on_main).await.unwrap();
        merge(&self.timeline, "other", &mut self.other, &a, &mut |_| on_other).await.unwrap();
    }

    async fn conflicts(&mut self) -> Vec<Conflict> {
        match merge(&self.timeline, "main", &mut self.main, "other", &mut stop).await {
            Err(HistoryError::Conflicts { conflicts, .. }) => conflicts,
            other => panic!("{other:?}"),
        }
    }

    async fn merge_all(&mut self, choice: Choice) {
        let merged = merge(&self.timeline, "main", &mut self.main, "other", &mut |_| choice).await.unwrap();
        assert!(matches!(merged, Combined::Committed(_)));
        assert!(self.timeline.check(false, &crate::tables::options()).await.unwrap().damage.is_empty());
    }
}

fn sample(id: u64) -> Conflict {
    Conflict::Sample { column: "label".into(), id }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_both_settled_differently_is_a_conflict_at_every_depth() {
    for depth in 1..=3 {
        let mut both = both().await;
        for level in 0..depth {
            let id = both.ids[level];
            relabel(&mut both.main, id, 100).await.unwrap();
            relabel(&mut both.other, id, 200).await.unwrap();
            // What only one side changes is taken by both without a question.
            write(&mut both.main, "x", 2 * level, 1).await.unwrap();
            both.cross(Choice::Ours, Choice::Ours).await;
        }
        let heads = [
            both.timeline.resolve_commit("main", "main").await.unwrap().0,
            both.timeline.resolve_commit("main", "other").await.unwrap().0,
        ];
        let bases = merge_bases(both.timeline.commits(), &heads[..1], &heads[1]).await.unwrap();
        assert_eq!(bases.len(), 2, "depth {depth}");
        let files = both.timeline.home().list("").await.unwrap().len();
        let expected: Vec<Conflict> = both.ids[..depth].iter().map(|id| sample(*id)).collect();
        assert_eq!(both.conflicts().await, expected, "depth {depth}");
        assert_eq!(both.timeline.home().list("").await.unwrap().len(), files, "nothing is left of trying");
        both.merge_all(Choice::Theirs).await;
        let labels: Vec<i64> =
            content(&both.main).await.rows.iter().filter_map(|(_, label)| *label).collect();
        let mut expected = vec![0; 8];
        expected[..depth].fill(200);
        assert_eq!(labels, expected, "depth {depth}");
        let mut expected = vec![0; 8];
        (0..depth).for_each(|level| expected[2 * level] = 1);
        assert_eq!(get(&both.main, "x").await, expected, "depth {depth}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_both_settled_the_same_way_is_none() {
    let mut both = both().await;
    let id = both.ids[0];
    relabel(&mut both.main, id, 100).await.unwrap();
    relabel(&mut both.other, id, 200).await.unwrap();
    both.cross(Choice::Ours, Choice::Theirs).await;
    append(&mut both.other, &[7]).await.unwrap();
    both.commit("more").await;
    both.merge_all(Choice::Stop).await;
    let labels: Vec<Option<i64>> =
        content(&both.main).await.rows.into_iter().map(|(_, label)| label).collect();
    assert_eq!((labels[0], labels[8]), (Some(100), Some(7)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_undone_stays_undone() {
    let mut both = both().await;
    let id = both.ids[0];
    relabel(&mut both.main, id, 100).await.unwrap();
    write(&mut both.other, "x", 6, 6).await.unwrap();
    both.cross(Choice::Stop, Choice::Stop).await;
    relabel(&mut both.other, id, 0).await.unwrap();
    write(&mut both.main, "x", 6, 0).await.unwrap();
    both.commit("undone").await;
    both.merge_all(Choice::Stop).await;
    assert_eq!(content(&both.main).await.rows[0].1, Some(0));
    assert_eq!(get(&both.main, "x").await, [0; 8]);
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_rows_and_names_are_asked_for_too() {
    let mut both = both().await;
    let id = both.ids[0];
    write(&mut both.main, "x", 0, 1).await.unwrap();
    write(&mut both.other, "x", 0, 2).await.unwrap();
    relabel(&mut both.main, id, 100).await.unwrap();
    delete_row(&mut both.other, id).await.unwrap();
    both.main.rename_column("label", "ours", &crate::tables::options()).await.unwrap();
    both.other.rename_column("label", "theirs", &crate::tables::options()).await.unwrap();
    both.cross(Choice::Ours, Choice::Ours).await;
    let found: Vec<String> = both.conflicts().await.iter().map(Conflict::to_string).collect();
    let expected = [
        "\"ours\": called \"theirs\" in theirs".to_owned(),
        format!("row with id {id}: changed in ours (\"ours\"), deleted in theirs"),
        "\"x\", chunk [0]: changed on both sides".to_owned(),
    ];
    assert_eq!(found, expected);
    both.merge_all(Choice::Theirs).await;
    assert_eq!(both.main.column_names(), ["theirs"]);
    assert_eq!(both.main.rows().await.unwrap().len(), 7);
}
