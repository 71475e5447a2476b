//! A clean-up removes what no branch, tag, commit or draft reaches, and nothing else, whatever happens meanwhile.

use std::sync::Arc;
use std::time::Duration;

use lacus_history::{GcOptions, GcReport, HistoryError, Timeline};
use lacus_io::{Store, World};
use lacus_simulation::{Faults, FlakyStore};
use lacus_table::Table;
use lacus_tensor::ErrorKind;
use object_store::memory::InMemory;

use crate::datasets::{
    DAY, HOUR, after, assert_whole, at, branch, commit, get, options, paths, put, record, small, store_over,
    write,
};

const GC: GcOptions = GcOptions { dry_run: false, grace: HOUR, retention: None, dropped_grace: None };

async fn gc(timeline: &Timeline, gc: GcOptions) -> GcReport {
    timeline.gc(&gc, &options()).await.unwrap()
}

fn memory() -> Store {
    store_over(Arc::new(InMemory::new()))
}

async fn each_root_keeps_what_it_needs(home: Store) {
    small(&home).await;
    let before = paths(&home).await;

    // All of it is young.
    let report = gc(&after(&home, Duration::ZERO), GC).await;
    assert_eq!(report.removable, []);
    assert_eq!(paths(&home).await, before);

    let report = gc(&after(&home, DAY), GcOptions { dry_run: true, ..GC }).await;
    assert!(!report.removed && paths(&home).await == before, "a dry run removes nothing");
    let again = gc(&after(&home, DAY), GC).await;
    assert_eq!((&again.removable, again.removed), (&report.removable, true));
    assert_eq!(again.kept, report.kept);
    let removed: Vec<&str> = report.removable.iter().map(|removable| removable.path.as_str()).collect();
    let left = paths(&home).await;
    for path in &removed {
        assert!(before.contains(*path) && !left.contains(*path), "{path}");
    }
    let lost: Vec<&String> =
        before.difference(&left).filter(|path| !removed.contains(&path.as_str())).collect();
    assert!(lost.is_empty(), "{lost:?}");
    assert!(
        !left.iter().any(|path| path.starts_with("_branches/dead/") || path.contains("killed")),
        "{left:?}"
    );
    assert!(left.contains("data/read.me") && left.contains("notes.md"));
    assert_eq!(removed.iter().filter(|path| path.starts_with("_lacus/commits/")).count(), 1);
    let kept =
        |reason: &str| report.kept.iter().find(|kept| kept.reason == reason).map_or(0, |kept| kept.files);
    for (reason, files) in
        [("branch \"main\"", 1), ("branch \"dev\"", 3), ("versions in no commit", 1), ("not ours", 2)]
    {
        assert_eq!(kept(reason), files, "{reason}: {:?}", report.kept);
    }
    assert_whole(&home).await;
    let timeline = after(&home, Duration::ZERO);
    assert_eq!(
        at(&timeline, "main", Some("2"), "x").await,
        [2, 2],
        "no commit has it, but anybody may open it"
    );

    // The directory is never used again: commits might name its versions.
    let dead = branch(&timeline, "dead", "v1").await;
    assert_ne!(dead.directory(), "_branches/dead");
    timeline.delete_branch("dead", true).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_root_keeps_what_it_needs_in_memory() {
    each_root_keeps_what_it_needs(memory()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_root_keeps_what_it_needs_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ds");
    each_root_keeps_what_it_needs(Store::open(path.to_str().unwrap(), &Default::default()).unwrap()).await;
    assert!(!path.join("_branches/dead").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_versions_cannot_be_opened_and_go() {
    let home = memory();
    small(&home).await;
    let now = after(&home, DAY);
    assert_eq!(after(&home, Duration::ZERO).expire(HOUR, false).await.unwrap().expired, []);
    let report = now.expire(HOUR, true).await.unwrap();
    // Version 0 and 2 of main, and the version dev began with.
    assert_eq!(report.expired, [("dev".to_owned(), 1), ("main".to_owned(), 2)]);
    assert_eq!(at(&now, "main", Some("2"), "x").await, [2, 2]);
    assert_eq!(now.expire(HOUR, false).await.unwrap(), report);
    assert_eq!(now.expire(HOUR, false).await.unwrap().expired, [], "there is nothing left to expire");
    let error = now.open("main", Some("2")).await.unwrap_err();
    assert!(matches!(error, HistoryError::Expired { version: 2, .. }), "{error}");
    assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("(version 3)"), "{error}");
    let files = |report: &GcReport| report.removable.iter().filter(|r| r.why.contains("no version")).count();
    // Somebody may have it open.
    assert_eq!(files(&gc(&now, GC).await), 0);
    let report = gc(&after(&home, 2 * DAY), GC).await;
    assert_eq!(files(&report), 1, "{report:?}");
    assert_whole(&home).await;
    assert_eq!(gc(&after(&home, 2 * DAY), GC).await.removable, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_retention_drops_may_go_at_once() {
    let home = memory();
    let timeline = Timeline::new(home.clone(), World::real());
    let mut main = Table::create(home.clone(), World::real()).await.unwrap();
    for value in 1..=3 {
        put(&mut main, "x", &[value, 0]).await;
        commit(&timeline, &mut main, &format!("number {value}")).await;
    }
    // Somebody is about to name this.
    home.put_new("data/staged.parquet", "rows".into()).await.unwrap();
    let settings = GcOptions { retention: Some(Duration::ZERO), ..GC };
    assert_eq!(gc(&timeline, settings).await.removable, []);
    let report = gc(&timeline, GcOptions { dropped_grace: Some(Duration::ZERO), ..settings }).await;
    assert_eq!(report.removable.len(), 2, "{report:?}");
    assert!(home.exists("data/staged.parquet").await.unwrap());
    assert_eq!(get(&timeline.open("main", None).await.unwrap().table, "x").await, [3, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_beyond_the_retention_lose_their_data() {
    let home = memory();
    let timeline = Timeline::new(home.clone(), World::real());
    let mut main = Table::create(home.clone(), World::real()).await.unwrap();
    let mut ids = Vec::new();
    for value in 1..=5 {
        put(&mut main, "x", &[value, 0]).await;
        ids.push(commit(&timeline, &mut main, &format!("number {value}")).await.id);
        if value == 2 {
            branch(&timeline, "dev", "main").await;
        }
    }
    timeline.create_tag("third", ids[2], None, String::new()).await.unwrap();
    let mut dev = timeline.open("dev", None).await.unwrap().table;
    put(&mut dev, "y", &[1, 2]).await;
    commit(&timeline, &mut dev, "on dev").await;

    let now = after(&home, DAY);
    let keep = GcOptions { grace: Duration::ZERO, retention: Some(2 * DAY), ..GC };
    assert_eq!(gc(&now, keep).await.removable, []);
    let report = gc(&now, GcOptions { retention: Some(HOUR), ..keep }).await;
    assert_eq!(report.removable.len(), 2, "{report:?}");
    for (value, id) in (1..).zip(&ids) {
        let opened = now.open("main", Some(&id.to_string())).await;
        match value {
            // Where dev began, a tag's, the newest.
            2 | 3 | 5 => assert_eq!(get(&opened.unwrap().table, "x").await, [value, 0]),
            _ => {
                let error = opened.unwrap_err();
                assert!(matches!(error, HistoryError::Gone { .. }), "{error}");
                let read = now.commits().read(id).await.unwrap();
                assert!(matches!(
                    now.create_branch("late", (*id, &read)).await,
                    Err(HistoryError::Gone { .. })
                ));
            }
        }
    }
    assert_eq!(now.log(&[ids[4]], 10).await.unwrap().len(), 5, "the history itself stays");
    let report = now.check(false, &options()).await.unwrap();
    assert!(report.is_healthy(), "{report:?}");
    let (id, theirs) = now.resolve_commit("main", "dev").await.unwrap();
    let mut main = now.open("main", None).await.unwrap().table;
    let merged = record("merged");
    now.merge(
        &mut main,
        (id, &theirs),
        &merged,
        lacus_history::FastForward::Allowed,
        &mut |_| lacus_history::Choice::Stop,
        &options(),
    )
    .await
    .unwrap();
    assert_eq!((get(&main, "x").await, get(&main, "y").await), (vec![5, 0], vec![1, 2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_log_entry_stops_it() {
    let home = memory();
    small(&home).await;
    home.remove(vec!["_delta_log/00000000000000000002.json".into()]).await.unwrap();
    let before = paths(&home).await;
    let error = after(&home, DAY).gc(&GC, &options()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(paths(&home).await, before);
}

/// A link has the time of what it links to, which may be long ago.
#[tokio::test(flavor = "multi_thread")]
async fn a_merge_under_way_keeps_its_links() {
    let directory = tempfile::tempdir().unwrap();
    let home = Store::open(directory.path().join("ds").to_str().unwrap(), &Default::default()).unwrap();
    let timeline = small(&home).await;
    let listed = paths(&home).await;
    let old = listed
        .iter()
        .find(|path| path.starts_with("_branches/dev/data/") && !path.contains("killed"))
        .unwrap();
    let file = std::fs::File::options().write(true).open(directory.path().join("ds").join(old)).unwrap();
    file.set_modified(std::time::SystemTime::now() - 2 * DAY).unwrap();
    home.copy(old, "data/linked.parquet").await.unwrap();
    gc(&timeline, GC).await;
    assert!(home.exists("data/linked.parquet").await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_request_it_leaves_a_sound_dataset() {
    let base = Arc::new(InMemory::new());
    small(&store_over(Arc::clone(&base) as _)).await;
    let settings =
        GcOptions { dry_run: false, grace: Duration::ZERO, retention: Some(HOUR), dropped_grace: None };
    let mut killed = 0;
    for crash_at in 1.. {
        let objects = Arc::new(base.fork());
        let faults = Faults { crash_at, ..Faults::default() };
        let flaky = Arc::new(FlakyStore::new(Arc::clone(&objects) as _, faults, crash_at));
        let dying = after(&store_over(flaky as _), DAY);
        let done = dying.gc(&settings, &options()).await;
        let home = store_over(objects);
        assert_whole(&home).await;
        gc(&after(&home, 2 * DAY), settings).await;
        assert_whole(&home).await;
        let left = paths(&home).await;
        assert!(
            !left.iter().any(|path| path.starts_with("_branches/dead/") || path.contains("killed")),
            "{left:?}"
        );
        match done {
            Ok(_) => break,
            Err(_) => killed += 1,
        }
    }
    assert!(killed > 30, "{killed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_lose_nothing_while_it_runs() {
    let home = memory();
    let timeline = small(&home).await;
    let grace = Duration::from_secs(2);
    tokio::time::sleep(grace + Duration::from_millis(100)).await;
    let writer = |number: i64| {
        let timeline = Timeline::new(home.clone(), World::real());
        std::thread::spawn(move || {
            let work = async move {
                let name = format!("writer-{number}");
                let mut table = branch(&timeline, &name, "main").await;
                put(&mut table, "own", &[number; 8]).await;
                for step in 0..20 {
                    match step % 4 {
                        0 => write(&mut table, "own", step % 8, step).await,
                        1 => put(&mut table, "other", &[step, number]).await,
                        2 => {
                            table.begin().unwrap();
                            put(&mut table, "never", &[1, 2]).await;
                            table.abandon().await;
                        }
                        _ => {
                            commit(&timeline, &mut table, "step").await;
                            let passing = format!("{name}-{step}");
                            let mut brief = branch(&timeline, &passing, &name).await;
                            put(&mut brief, "brief", &[step]).await;
                            timeline.delete_branch(&passing, true).await.unwrap();
                        }
                    }
                }
                (name, get(&table, "own").await, get(&table, "other").await)
            };
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            runtime.unwrap().block_on(work)
        })
    };
    let writers: Vec<_> = (0..3).map(writer).collect();
    let mut removed = 0;
    let settings = GcOptions { grace, ..GC };
    while writers.iter().any(|writer| !writer.is_finished()) {
        removed += gc(&timeline, settings).await.removable.len();
    }
    removed += gc(&timeline, settings).await.removable.len();
    assert!(removed > 0);
    for writer in writers {
        let (name, own, other) = writer.join().unwrap();
        assert_eq!(at(&timeline, &name, None, "own").await, own);
        assert_eq!(at(&timeline, &name, None, "other").await, other);
    }
    assert_whole(&home).await;
}
