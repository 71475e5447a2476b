//! A tensor is who it is, whatever it is called: diffs show renames, merges follow them.

use std::sync::Arc;

use lacus_history::{Choice, Conflict, HistoryError, State, Timeline};
use lacus_io::World;
use lacus_table::{Fate, Table};
use object_store::memory::InMemory;

use crate::tables::{
    add_labels, append, branch, content, get, merge, options, put, record, relabel, stop, store_over, write,
};

async fn made() -> (Timeline, Table) {
    let store = store_over(Arc::new(InMemory::new()));
    let timeline = Timeline::new(store.clone(), World::real());
    let mut main = Table::create(store, World::real()).await.unwrap();
    put(&mut main, "a", &[1, 1, 1, 1]).await.unwrap();
    put(&mut main, "b", &[2, 2, 2, 2]).await.unwrap();
    add_labels(&mut main).await.unwrap();
    append(&mut main, &[5, 6, 7]).await.unwrap();
    timeline.commit(&mut main, &record("base"), false).await.unwrap();
    (timeline, main)
}

async fn commit(timeline: &Timeline, table: &mut Table) {
    timeline.commit(table, &record("changed"), false).await.unwrap();
}

async fn rename(table: &mut Table, names: &[(&str, &str)]) {
    let names: Vec<(String, String)> =
        names.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
    table.rename_all(&names, &options()).await.unwrap();
}

/// What a diff from the first commit says of names.
async fn renames(timeline: &Timeline) -> Vec<String> {
    let first = timeline.log(&[timeline.resolve_commit("main", "main").await.unwrap().0], 100).await.unwrap();
    let base = State::Revision(first.last().unwrap().0.to_string());
    let compared = timeline.diff("main", &base, &State::Newest).await.unwrap();
    let shown = compared.difference.tensors.iter().map(|tensor| match (&tensor.renamed_from, tensor.fate) {
        (Some(from), _) => format!("{from} -> {}", tensor.name),
        (None, Fate::Added) => format!("+{}", tensor.name),
        (None, Fate::Dropped) => format!("-{}", tensor.name),
        (None, _) => tensor.name.clone(),
    });
    shown.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tensor_stays_who_it_is() {
    let (timeline, mut main) = made().await;
    // Whatever is done to it, it is recognised under its new name.
    put(&mut main, "a", &[3, 3, 3, 3, 3]).await.unwrap();
    write(&mut main, "a", 0, 9).await.unwrap();
    main.resize("a", 8, &options()).await.unwrap();
    rename(&mut main, &[("a", "c")]).await;
    main.set_metadata(Some("c"), serde_json::json!({"k": 1}), &options()).await.unwrap();
    main.compact(&options()).await.unwrap();
    main.rename("c", "d", &options()).await.unwrap();
    main.rename_column("label", "class", &options()).await.unwrap();
    main.compact(&options()).await.unwrap();
    assert_eq!(renames(&timeline).await, ["label -> class", "a -> d"]);
    // One that is made anew under a name that was used before is another.
    main.rename("b", "kept", &options()).await.unwrap();
    put(&mut main, "b", &[0, 0]).await.unwrap();
    assert_eq!(renames(&timeline).await, ["+b", "label -> class", "a -> d", "b -> kept"]);
    // Restored, it is the first one again.
    commit(&timeline, &mut main).await;
    let first = timeline.resolve_commit("main", "main~1").await.unwrap();
    let state = timeline.state(&first.0, &first.1).await.unwrap();
    timeline.restore(&mut main, &state, &options()).await.unwrap();
    assert_eq!(renames(&timeline).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_the_other_side_come_under_the_new_name() {
    for ours_renames in [true, false] {
        let (timeline, mut main) = made().await;
        let mut other = branch(&timeline, "other", "main").await.unwrap();
        let (renaming, writing) = match ours_renames {
            true => (&mut main, &mut other),
            false => (&mut other, &mut main),
        };
        rename(renaming, &[("a", "c"), ("label", "class")]).await;
        let rows = writing.rows().await.unwrap();
        write(writing, "a", 2, 8).await.unwrap();
        relabel(writing, rows.id(1).unwrap(), 60).await.unwrap();
        append(writing, &[9]).await.unwrap();
        commit(&timeline, &mut main).await;
        commit(&timeline, &mut other).await;
        merge(&timeline, "main", &mut main, "other", &mut stop).await.unwrap();
        assert_eq!(main.names(), ["b", "c", "class"]);
        assert_eq!(get(&main, "c").await, [1, 1, 8, 1]);
        let read = main.read_scalars("class", &main.rows().await.unwrap().id_runs(0..4)).await.unwrap();
        assert_eq!(format!("{:?}", read.values), "Int([5, 60, 7, 9])", "{ours_renames}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_swapped() {
    let (timeline, mut main) = made().await;
    let mut other = branch(&timeline, "other", "main").await.unwrap();
    rename(&mut other, &[("a", "b"), ("b", "a")]).await;
    write(&mut main, "a", 0, 10).await.unwrap();
    write(&mut main, "b", 0, 20).await.unwrap();
    commit(&timeline, &mut main).await;
    commit(&timeline, &mut other).await;
    merge(&timeline, "main", &mut main, "other", &mut stop).await.unwrap();
    assert_eq!(get(&main, "a").await, [20, 2, 2, 2]);
    assert_eq!(get(&main, "b").await, [10, 1, 1, 1]);
    assert_eq!(renames(&timeline).await, ["b -> a", "a -> b"]);
    // And back.
    rename(&mut other, &[("a", "b"), ("b", "a")]).await;
    commit(&timeline, &mut other).await;
    merge(&timeline, "main", &mut main, "other", &mut stop).await.unwrap();
    assert_eq!(get(&main, "a").await, [10, 1, 1, 1]);
    assert_eq!(content(&main).await.rows.len(), 3);
}

/// What each policy makes of a conflict about names: the conflict, and the arrays then.
async fn check(
    ours: &[(&str, &str)],
    theirs: &[(&str, &str)],
    ours_adds: Option<&str>,
    theirs_adds: Option<&str>,
    conflict: &str,
    expected: [(Choice, &str); 2],
) {
    for (choice, expected) in expected {
        let (timeline, mut main) = made().await;
        let mut other = branch(&timeline, "other", "main").await.unwrap();
        rename(&mut main, ours).await;
        rename(&mut other, theirs).await;
        for (table, name, value) in [(&mut main, ours_adds, 30), (&mut other, theirs_adds, 40)] {
            if let Some(name) = name {
                put(table, name, &[value]).await.unwrap();
            }
        }
        commit(&timeline, &mut main).await;
        commit(&timeline, &mut other).await;
        match merge(&timeline, "main", &mut main, "other", &mut stop).await {
            Err(HistoryError::Conflicts { conflicts, .. }) => {
                let found: Vec<String> = conflicts.iter().map(Conflict::to_string).collect();
                assert_eq!(found, [conflict]);
                assert!(conflicts.iter().all(|conflict| !conflict.has_union()));
            }
            other => panic!("{other:?}"),
        }
        merge(&timeline, "main", &mut main, "other", &mut |_| choice).await.unwrap();
        let arrays = content(&main).await.arrays;
        let found: Vec<String> =
            arrays.iter().map(|(name, values)| format!("{name}={}", values[0])).collect();
        assert_eq!(found.join(" "), expected, "{conflict} {choice:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_in_conflict() {
    let both = |ours, theirs| [(Choice::Ours, ours), (Choice::Theirs, theirs)];
    check(
        &[("a", "c")],
        &[("a", "d")],
        None,
        None,
        "\"a\": renamed to \"c\" in ours and to \"d\" in theirs",
        both("b=2 c=1", "b=2 d=1"),
    )
    .await;
    check(
        &[("a", "c")],
        &[],
        None,
        Some("c"),
        "\"c\": a name for two tensors: ours renamed \"a\" to it, theirs has another tensor of this name",
        both("b=2 c=1", "a=1 b=2 c=40"),
    )
    .await;
    check(
        &[],
        &[("a", "c")],
        Some("c"),
        None,
        "\"c\": a name for two tensors: ours has another tensor of this name, theirs renamed \"a\" to it",
        both("a=1 b=2 c=30", "b=2 c=1"),
    )
    .await;
    check(
        &[("a", "c")],
        &[("b", "c")],
        None,
        None,
        "\"c\": a name for two tensors: ours renamed \"a\" to it, theirs renamed \"b\" to it",
        both("b=2 c=1", "a=1 c=2"),
    )
    .await;
}
