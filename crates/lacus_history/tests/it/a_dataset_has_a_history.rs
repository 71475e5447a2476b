//! Commits, branches, merges and what is around them, on real tables.

use std::sync::Arc;

use lacus_history::{Choice, Combined, Conflict, HistoryError, State, Timeline, merge_message};
use lacus_io::{Store, World};
use lacus_table::{At, Content, Table};
use lacus_tensor::ErrorKind;

use crate::tables::{branch, get, merge, options, put, record, stop, store_over, write};

struct Begun {
    timeline: Timeline,
    main: Table,
    _directory: Option<tempfile::TempDir>,
}

async fn begin(local: bool) -> Begun {
    let (store, directory) = match local {
        true => {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("ds");
            (Store::open(path.to_str().unwrap(), &Default::default()).unwrap(), Some(directory))
        }
        false => (store_over(Arc::new(object_store::memory::InMemory::new())), None),
    };
    let world = World::real();
    let main = Table::create(store.clone(), world.clone()).await.unwrap();
    Begun { timeline: Timeline::new(store, world), main, _directory: directory }
}

async fn a_whole_story(local: bool) {
    let Begun { timeline, mut main, _directory } = begin(local).await;
    put(&mut main, "x", &[0; 8]).await.unwrap();
    let status = timeline.status("main").await.unwrap();
    assert_eq!((status.draft.len(), status.head.is_none()), (1, true));
    let first = timeline.commit(&mut main, &record("first"), false).await.unwrap();
    let again = timeline.commit(&mut main, &record("again"), false).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Invalid, "{again}");
    assert!(timeline.status("main").await.unwrap().draft.is_empty());

    // Two lines of work, on different places of one array.
    let mut dev = branch(&timeline, "dev", "main").await.unwrap();
    assert_eq!(get(&dev, "x").await, [0; 8]);
    write(&mut dev, "x", 0, 1).await.unwrap();
    put(&mut dev, "y", &[5, 6]).await.unwrap();
    timeline.commit(&mut dev, &record("on dev"), false).await.unwrap();
    assert_eq!(get(&main, "x").await, [0; 8]);
    write(&mut main, "x", 7, 9).await.unwrap();
    timeline.commit(&mut main, &record("on main"), false).await.unwrap();

    let listed = timeline.list_branches("main").await.unwrap();
    let dev_info = listed.iter().find(|b| b.name == "dev").unwrap();
    assert_eq!(dev_info.ahead_behind, Some((1, 1)));

    let merged = merge(&timeline, "main", &mut main, "dev", &mut stop).await.unwrap();
    let Combined::Committed(merged) = merged else { panic!("{merged:?}") };
    assert_eq!(get(&main, "x").await, [1, 0, 0, 0, 0, 0, 0, 9]);
    assert_eq!(get(&main, "y").await, [5, 6]);
    assert_eq!(main.borrowed_files().0, 0, "main stays plain");
    let commit = timeline.commits().read(&merged.id).await.unwrap();
    assert_eq!(commit.parents.len(), 2);
    assert!(timeline.status("main").await.unwrap().draft.is_empty());
    assert_eq!(merge(&timeline, "main", &mut main, "dev", &mut stop).await.unwrap(), Combined::UpToDate);

    // Dev only lags behind now.
    let forwarded = merge(&timeline, "dev", &mut dev, "main", &mut stop).await.unwrap();
    assert!(matches!(forwarded, Combined::FastForward(at) if at.id == merged.id), "{forwarded:?}");
    assert_eq!(get(&dev, "x").await, [1, 0, 0, 0, 0, 0, 0, 9]);
    assert_eq!(timeline.tip("dev").await.unwrap().head, Some(merged.id));

    // The same place on both sides is a conflict, and nothing changes.
    write(&mut dev, "x", 3, 30).await.unwrap();
    timeline.commit(&mut dev, &record("dev again"), false).await.unwrap();
    write(&mut main, "x", 2, 20).await.unwrap();
    timeline.commit(&mut main, &record("main again"), false).await.unwrap();
    let before = main.version();
    let error = merge(&timeline, "main", &mut main, "dev", &mut stop).await.unwrap_err();
    let HistoryError::Conflicts { conflicts, .. } = &error else { panic!("{error}") };
    assert!(matches!(&conflicts[..], [Conflict::Chunk { array, .. }] if array == "x"), "{error}");
    main.refresh().await.unwrap();
    assert_eq!((main.version(), get(&main, "x").await[2]), (before, 20));
    let theirs = merge(&timeline, "main", &mut main, "dev", &mut |_| Choice::Theirs).await.unwrap();
    assert!(matches!(theirs, Combined::Committed(_)));
    assert_eq!(get(&main, "x").await, [1, 0, 0, 30, 0, 0, 0, 9]);

    // Back to the beginning, and away from there again.
    let opened = timeline.open("main", Some(&first.id.short())).await.unwrap();
    assert_eq!(get(&opened.table, "x").await, [0; 8]);
    timeline.restore(&mut main, &opened.table, &options()).await.unwrap();
    assert_eq!(get(&main, "x").await, [0; 8]);
    assert!(!main.contains("y"));
    assert_eq!(timeline.status("main").await.unwrap().draft.len(), 1);
    assert_eq!(
        timeline.discard(&mut main, Some("eve"), false, &options()).await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
    assert_eq!(timeline.discard(&mut main, Some("ada"), false, &options()).await.unwrap(), 1);
    assert_eq!(get(&main, "x").await, [1, 0, 0, 30, 0, 0, 0, 9]);
    assert!(timeline.status("main").await.unwrap().draft.is_empty());

    // Undo one commit in the middle.
    let (id, commit) = timeline.resolve_commit("main", "main^1^1").await.unwrap();
    assert_eq!(commit.message, merge_message("dev", "main"));
    let error =
        timeline.revert(&mut main, (id, &commit), &record("undo"), &mut stop, &options()).await.unwrap_err();
    assert!(error.to_string().contains("merge"), "{error}");
    write(&mut main, "x", 5, 50).await.unwrap();
    let mistake = timeline.commit(&mut main, &record("a mistake"), false).await.unwrap();
    write(&mut main, "x", 0, 2).await.unwrap();
    timeline.commit(&mut main, &record("not a mistake"), false).await.unwrap();
    let commit = timeline.commits().read(&mistake.id).await.unwrap();
    timeline.revert(&mut main, (mistake.id, &commit), &record("undo"), &mut stop, &options()).await.unwrap();
    assert_eq!(get(&main, "x").await, [2, 0, 0, 30, 0, 0, 0, 9]);
    timeline
        .cherry_pick(&mut dev, (mistake.id, &commit), &record("picked"), &mut stop, &options())
        .await
        .unwrap();
    assert_eq!(get(&dev, "x").await[5], 50);

    // Diff says where.
    let compared = timeline
        .diff("main", &State::Revision("main~1".into()), &State::Revision("main".into()))
        .await
        .unwrap();
    let x = compared.difference.tensor("x").unwrap();
    assert!(matches!(&x.content, Content::Chunks { changed } if changed.len() == 1));

    // Publish: a branch that borrows nothing.
    let mut late = branch(&timeline, "late/one", "main").await.unwrap();
    assert!(late.borrowed_files().0 > 0);
    timeline.publish("late/one", &options()).await.unwrap();
    late.refresh().await.unwrap();
    assert_eq!(late.borrowed_files().0, 0);
    assert_eq!(get(&late, "x").await, get(&main, "x").await);
    timeline.rename_branch("late/one", "later").await.unwrap();
    assert!(timeline.open("later", None).await.is_ok());
    let missing = timeline.open("late/one", None).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    timeline.delete_branch("later", false).await.unwrap();
    let refused = timeline.delete_branch("dev", false).await.unwrap_err();
    assert!(refused.to_string().contains("force"), "{refused}");
    timeline.delete_branch("dev", true).await.unwrap();

    // Stock ways of opening main still work.
    let plain = Table::open(timeline.home().clone(), World::real(), At::Tip).await.unwrap();
    assert_eq!(get(&plain, "x").await, [2, 0, 0, 30, 0, 0, 0, 9]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_story_on_disk() {
    a_whole_story(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_story_in_memory() {
    a_whole_story(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_one_commit_or_nothing() {
    let Begun { timeline, mut main, _directory } = begin(true).await;
    put(&mut main, "x", &[0; 4]).await.unwrap();
    timeline.commit(&mut main, &record("first"), false).await.unwrap();
    let mut other = timeline.open("main", None).await.unwrap().table;

    main.begin().unwrap();
    put(&mut main, "a", &[1, 2]).await.unwrap();
    write(&mut main, "x", 0, 7).await.unwrap();
    write(&mut main, "x", 1, 8).await.unwrap();
    put(&mut main, "a", &[3, 4]).await.unwrap();
    assert_eq!(get(&main, "x").await, [7, 8, 0, 0]);
    other.refresh().await.unwrap();
    assert_eq!(get(&other, "x").await, [0; 4]);
    assert!(!other.contains("a"));
    // Somebody else writes elsewhere meanwhile.
    write(&mut other, "x", 3, 9).await.unwrap();
    let done = timeline.commit_transaction(&mut main, &record("both"), &options()).await.unwrap();
    let done = done.unwrap();
    other.refresh().await.unwrap();
    assert_eq!((get(&other, "x").await, get(&other, "a").await), (vec![7, 8, 0, 9], vec![3, 4]));
    let commit = timeline.commits().read(&done.id).await.unwrap();
    assert_eq!(
        (commit.changed.clone(), commit.version),
        (vec!["a".to_owned(), "x".to_owned()], done.version)
    );

    main.begin().unwrap();
    write(&mut main, "x", 0, 100).await.unwrap();
    main.abandon().await;
    assert_eq!(get(&main, "x").await, [7, 8, 0, 9]);

    // The same place: a conflict, and nothing of the transaction stays.
    main.begin().unwrap();
    put(&mut main, "b", &[1]).await.unwrap();
    write(&mut main, "x", 0, 100).await.unwrap();
    write(&mut other, "x", 1, 200).await.unwrap();
    let clash = timeline.commit_transaction(&mut main, &record("late"), &options()).await.unwrap_err();
    assert_eq!(clash.kind(), ErrorKind::Conflict, "{clash}");
    main.refresh().await.unwrap();
    assert!(!main.contains("b"));
    assert_eq!(get(&main, "x").await, [7, 200, 0, 9]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_references_are_named() {
    let Begun { timeline, mut main, _directory } = begin(false).await;
    let (none, _) = (timeline.resolve_commit("main", "main").await.unwrap_err(), ());
    assert_eq!(none.kind(), ErrorKind::NotFound, "{none}");
    put(&mut main, "x", &[0; 4]).await.unwrap();
    let first = timeline.commit(&mut main, &record("first"), false).await.unwrap();
    let commit = timeline.commits().read(&first.id).await.unwrap();
    timeline.create_branch("experiment", (first.id, &commit)).await.unwrap();
    let unknown = timeline.open("experimant", None).await.unwrap_err();
    assert!(unknown.to_string().contains("experiment"), "{unknown}");
    let taken = timeline.create_branch("experiment", (first.id, &commit)).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::Conflict, "{taken}");
    for name in ["", "a b", "..", "-x", "HEAD", "a//b"] {
        let bad = timeline.create_branch(name, (first.id, &commit)).await.unwrap_err();
        assert_eq!(bad.kind(), ErrorKind::Invalid, "{name:?}: {bad}");
    }
    let last = timeline.delete_branch("main", true).await.unwrap_err();
    assert_eq!(last.kind(), ErrorKind::Invalid, "{last}");
}
