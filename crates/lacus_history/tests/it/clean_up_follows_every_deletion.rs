//! Whatever is deleted, in whatever order: a clean-up takes it, what is left reads as before, `check` finds nothing, and the
//! next clean-up has nothing to do, whatever its grace period.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lacus_history::{Combined, GcOptions, GcReport, HistoryError, Timeline, branches, tags};
use lacus_io::{Store, World};
use lacus_simulation::Dice;
use lacus_table::{At, Table};
use object_store::memory::InMemory;

use crate::tables::{
    Content, add_labels, append, branch, content, delete_row, merge, options, put, record, relabel, stop,
    store_over, write,
};

const AT_ONCE: GcOptions =
    GcOptions { dry_run: false, grace: Duration::ZERO, retention: None, dropped_grace: None };
const WITH_GRACE: GcOptions = GcOptions { grace: Duration::from_secs(24 * 3600), ..AT_ONCE };

/// The history as a process sees it that has just begun.
fn fresh(home: &Store) -> Timeline {
    Timeline::new(home.clone(), World::real())
}

async fn gc(home: &Store, how: GcOptions) -> GcReport {
    fresh(home).gc(&how, &options()).await.unwrap()
}

async fn open(home: &Store, name: &str) -> Table {
    fresh(home).open(name, None).await.unwrap().table
}

async fn commit(home: &Store, table: &mut Table, message: &str) {
    fresh(home).commit(table, &record(message), false).await.unwrap();
}

async fn create() -> (Store, Table) {
    let home = store_over(Arc::new(InMemory::new()));
    let main = Table::create(home.clone(), World::real()).await.unwrap();
    (home, main)
}

async fn fill(home: &Store, main: &mut Table) {
    put(main, "x", &[0; 8]).await.unwrap();
    add_labels(main).await.unwrap();
    append(main, &[1, 2, 3]).await.unwrap();
    commit(home, main, "some of everything").await;
}

/// A dataset whose first commit is at version 0, with a branch made from there.
async fn dataset() -> Store {
    let (home, mut main) = create().await;
    commit(&home, &mut main, "nothing yet").await;
    let mut zero = branch(&fresh(&home), "zero", "main").await.unwrap();
    put(&mut zero, "z", &[1, 2]).await.unwrap();
    commit(&home, &mut zero, "on a branch from version 0").await;
    fill(&home, &mut main).await;
    home
}

/// What can be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Branch,
    BranchWithDraftOnly,
    BranchThatAnotherBorrowsFrom,
    MiddleOfThree,
    BranchFromVersionZero,
    BranchMadeAgain,
    RenamedBranch,
    PublishedBranch,
    MergedBranch,
    FastForwardedBranch,
    Tag,
    Tensor,
    Rows,
    Draft,
    OldVersions,
    OldCommits,
}

const KINDS: [Kind; 16] = [
    Kind::Branch,
    Kind::BranchWithDraftOnly,
    Kind::BranchThatAnotherBorrowsFrom,
    Kind::MiddleOfThree,
    Kind::BranchFromVersionZero,
    Kind::BranchMadeAgain,
    Kind::RenamedBranch,
    Kind::PublishedBranch,
    Kind::MergedBranch,
    Kind::FastForwardedBranch,
    Kind::Tag,
    Kind::Tensor,
    Kind::Rows,
    Kind::Draft,
    Kind::OldVersions,
    Kind::OldCommits,
];

impl Kind {
    /// Whether states that somebody could open before are to be gone.
    fn takes_states(self) -> bool {
        matches!(self, Kind::OldVersions | Kind::OldCommits)
    }
}

/// A branch with a commit of its own.
async fn worked_on(home: &Store, name: &str, from: &str, value: i64) -> Table {
    let mut table = branch(&fresh(home), name, from).await.unwrap();
    put(&mut table, &format!("of {name}"), &[value; 6]).await.unwrap();
    commit(home, &mut table, &format!("on {name}")).await;
    table
}

async fn delete(home: &Store, name: &str) {
    fresh(home).delete_branch(name, true).await.unwrap();
}

/// Makes something and deletes it. `n` keeps the names of several apart.
async fn perform(kind: Kind, home: &Store, n: usize) {
    let timeline = fresh(home);
    let (a, b, c) = (format!("a{n}"), format!("b{n}"), format!("c{n}"));
    let value = n as i64;
    let mut main = open(home, "main").await;
    match kind {
        Kind::Branch => {
            worked_on(home, &a, "main", value).await;
            delete(home, &a).await;
        }
        Kind::BranchWithDraftOnly => {
            let mut table = branch(&timeline, &a, "main").await.unwrap();
            put(&mut table, "never", &[value]).await.unwrap();
            delete(home, &a).await;
        }
        Kind::BranchThatAnotherBorrowsFrom => {
            let mut table = worked_on(home, &a, "main", value).await;
            worked_on(home, &b, &a, value + 1).await;
            put(&mut table, "only here", &[value, 9]).await.unwrap();
            commit(home, &mut table, "that nobody else has").await;
            delete(home, &a).await;
        }
        Kind::MiddleOfThree => {
            worked_on(home, &a, "main", value).await;
            worked_on(home, &b, &a, value + 1).await;
            worked_on(home, &c, &b, value + 2).await;
            delete(home, &b).await;
        }
        Kind::BranchFromVersionZero => {
            let first = timeline.resolve_commit("main", "zero~1").await.unwrap();
            assert_eq!(first.1.version, 0);
            worked_on(home, &a, "zero~1", value).await;
            worked_on(home, &b, "zero~1", value).await;
            delete(home, &a).await;
        }
        Kind::BranchMadeAgain => {
            worked_on(home, &a, "main", value).await;
            delete(home, &a).await;
            worked_on(home, &a, "main", value + 1).await;
        }
        Kind::RenamedBranch => {
            let mut table = worked_on(home, &a, "main", value).await;
            timeline.rename_branch(&a, &b).await.unwrap();
            table.set_label(&b);
            for step in 0..2 {
                table.begin().unwrap();
                write(&mut table, &format!("of {a}"), step, 77).await.unwrap();
                fresh(home).commit_transaction(&mut table, &record("tx"), &options()).await.unwrap();
            }
            timeline.rename_branch(&b, &c).await.unwrap();
            if n.is_multiple_of(2) {
                delete(home, &c).await;
            }
        }
        Kind::PublishedBranch => {
            worked_on(home, &a, "main", value).await;
            timeline.publish(&a, &options()).await.unwrap();
            delete(home, &a).await;
        }
        Kind::MergedBranch => {
            worked_on(home, &a, "main", value).await;
            write(&mut main, "x", n % 8, value).await.unwrap();
            commit(home, &mut main, "beside it").await;
            merge(&timeline, "main", &mut main, &a, &mut stop).await.unwrap();
            delete(home, &a).await;
        }
        Kind::FastForwardedBranch => {
            worked_on(home, &a, "main", value).await;
            let done = merge(&timeline, "main", &mut main, &a, &mut stop).await.unwrap();
            assert!(matches!(done, Combined::FastForward(_)), "{done:?}");
            delete(home, &a).await;
        }
        Kind::Tag => {
            worked_on(home, &a, "main", value).await;
            let (id, _) = timeline.resolve_commit("main", &a).await.unwrap();
            timeline.create_tag(&b, id, None, String::new()).await.unwrap();
            delete(home, &a).await;
            // The tag alone has it.
            gc(home, AT_ONCE).await;
            let tagged = fresh(home).open("main", Some(&b)).await.unwrap().table;
            assert_eq!(content(&tagged).await.arrays[&format!("of {a}")], [value; 6]);
            tags::delete(home, &b).await.unwrap();
        }
        Kind::Tensor => {
            put(&mut main, "to be dropped", &[value; 4]).await.unwrap();
            commit(home, &mut main, "with it").await;
            main.remove(&["to be dropped"], &options()).await.unwrap();
            commit(home, &mut main, "without it").await;
        }
        Kind::Rows => {
            let ids = append(&mut main, &[value, value + 1, value + 2]).await.unwrap();
            relabel(&mut main, ids[2], 99).await.unwrap();
            delete_row(&mut main, ids[0]).await.unwrap();
            commit(home, &mut main, "rows come and go").await;
        }
        Kind::Draft => {
            put(&mut main, "x", &[value; 8]).await.unwrap();
            append(&mut main, &[value]).await.unwrap();
            let thrown = timeline.discard(&mut main, Some("ada"), false, &options()).await.unwrap();
            assert_eq!(thrown, 2);
        }
        Kind::OldVersions => {
            for step in 0..3 {
                write(&mut main, "x", step, value).await.unwrap();
            }
            commit(home, &mut main, "the last of three").await;
            timeline.expire(Duration::ZERO, false).await.unwrap();
        }
        Kind::OldCommits => {
            write(&mut main, "x", n % 8, value).await.unwrap();
            commit(home, &mut main, "another").await;
            gc(home, GcOptions { retention: Some(Duration::ZERO), ..AT_ONCE }).await;
        }
    }
}

/// Everything that somebody can name: branches with their versions, tags, commits. Those that were cleaned up and say so
/// are left out.
async fn states(home: &Store) -> BTreeMap<String, Content> {
    let timeline = fresh(home);
    let mut found = BTreeMap::new();
    let mut from = Vec::new();
    for held in branches::list(home).await.unwrap() {
        let name = held.name().to_owned();
        from.extend(held.branch().head);
        let tip = timeline.open(&name, None).await.unwrap().table;
        found.insert(format!("branch {name}"), content(&tip).await);
        for version in tip.first_version()..=tip.version() {
            match timeline.pinned(&name, At::Version(version)).await {
                Ok(opened) => {
                    found.insert(format!("branch {name}, version {version}"), content(&opened.table).await)
                }
                Err(HistoryError::Expired { .. }) => None,
                Err(error) => panic!("{name}, version {version}: {error}"),
            };
        }
    }
    for tag in tags::list(home).await.unwrap() {
        from.push(tag.commit);
        let commit = timeline.commits().read(&tag.commit).await.unwrap();
        let state = timeline.state(&tag.commit, &commit).await.unwrap();
        found.insert(format!("tag {}", tag.name), content(&state).await);
    }
    for (id, commit) in timeline.log(&from, usize::MAX).await.unwrap() {
        match timeline.state(&id, &commit).await {
            Ok(table) => found.insert(format!("commit {id}"), content(&table).await),
            Err(HistoryError::Gone { .. }) => None,
            Err(error) => panic!("commit {} ({}): {error}", id.short(), commit.message),
        };
    }
    found
}

async fn assert_clean(home: &Store, after: &str) {
    let report = fresh(home).check(false, &options()).await.unwrap();
    assert_eq!((report.damage, report.repaired), (vec![], vec![]), "after {after}");
}

/// Cleans up, and again, and looks at everything there was. Gives what there is.
async fn clean_up(home: &Store, after: &str) -> BTreeMap<String, Content> {
    let before = states(home).await;
    assert_clean(home, after).await;
    gc(home, AT_ONCE).await;
    assert_clean(home, after).await;
    let now = states(home).await;
    assert_eq!(before.keys().collect::<BTreeSet<_>>(), now.keys().collect(), "after {after}");
    for (name, content) in &before {
        assert_eq!(&now[name], content, "{name} after {after}");
    }
    // Branches that were deleted a moment ago count again with a grace period, and what they had is gone.
    for how in [AT_ONCE, WITH_GRACE] {
        let report = gc(home, how).await;
        assert_eq!(report.removable, [], "after {after} ({how:?})");
    }
    now
}

/// The table of the deleted branch is gone, and the branch was deleted within the grace period of the next clean-up.
#[tokio::test(flavor = "multi_thread")]
async fn a_branch_that_was_collected_at_once_stays_collected() {
    let (home, mut main) = create().await;
    fill(&home, &mut main).await;
    perform(Kind::Branch, &home, 0).await;
    assert!(!gc(&home, AT_ONCE).await.removable.is_empty());
    let report = fresh(&home).gc(&WITH_GRACE, &options()).await.unwrap();
    assert_eq!(report.removable, []);
}

/// Its table is still there, as another branch borrows from it, and its newest commit is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_branch_that_others_borrow_from_stays_collected() {
    let (home, mut main) = create().await;
    fill(&home, &mut main).await;
    perform(Kind::BranchThatAnotherBorrowsFrom, &home, 0).await;
    let report = gc(&home, AT_ONCE).await;
    assert!(report.removable.iter().any(|found| found.path.starts_with("_lacus/commits/")), "{report:?}");
    let report = fresh(&home).gc(&WITH_GRACE, &options()).await.unwrap();
    assert_eq!(report.removable, []);
    assert_eq!(content(&open(&home, "b0").await).await.arrays["of a0"], [0; 6]);
}

/// Its log has a checkpoint of version 0 and no entry for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_branch_from_version_0_is_sound() {
    let home = dataset().await;
    let mut zero = open(&home, "zero").await;
    assert_eq!((zero.first_version(), zero.version()), (0, 1));
    assert_clean(&home, "nothing").await;
    gc(&home, AT_ONCE).await;
    // Past the first log checkpoint of its own.
    for value in 0..45 {
        write(&mut zero, "z", 0, value).await.unwrap();
    }
    commit(&home, &mut zero, "many").await;
    assert_eq!(zero.history(None).await.unwrap().len(), 46);
    for (version, expected) in [(1, 1), (5, 3), (30, 28), (46, 44)] {
        let opened = fresh(&home).pinned("zero", At::Version(version)).await.unwrap().table;
        assert_eq!(content(&opened).await.arrays["z"][0], expected, "version {version}");
    }
    let first = fresh(&home).pinned("zero", At::Version(0)).await.unwrap().table;
    assert_eq!(content(&first).await, Content::default());
    clean_up(&home, "many versions").await;
    let untouched = branch(&fresh(&home), "untouched", "zero~2").await.unwrap();
    assert_eq!(untouched.version(), 0);
    let mut again = open(&home, "untouched").await;
    fresh(&home).commit(&mut again, &record("empty"), true).await.unwrap();
    assert_eq!(again.history(None).await.unwrap(), []);
    clean_up(&home, "another branch from version 0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_by_itself() {
    for (n, kind) in KINDS.into_iter().chain([Kind::Branch, Kind::RenamedBranch]).enumerate() {
        let home = dataset().await;
        perform(kind, &home, n).await;
        clean_up(&home, &format!("{kind:?} {n}")).await;
    }
}

/// All kinds in one dataset, with a clean-up after each, or after every few.
#[tokio::test(flavor = "multi_thread")]
async fn one_after_the_other() {
    for (seed, every) in [(0, 1), (1, 4)] {
        let (dice, home) = (Dice::new(seed), dataset().await);
        let mut order = KINDS.to_vec();
        for at in (1..order.len()).rev() {
            order.swap(at, dice.below(at as u64 + 1) as usize);
        }
        let mut known = states(&home).await;
        for (n, kinds) in order.chunks(every).enumerate() {
            for (k, kind) in kinds.iter().enumerate() {
                perform(*kind, &home, n * every + k).await;
            }
            let after = format!("{kinds:?}, seed {seed}");
            let now = clean_up(&home, &after).await;
            // Nothing that was there before is another one, and only what was asked for is gone.
            for (name, content) in &known {
                let is_tip = name.starts_with("branch ") && !name.contains("version");
                match now.get(name) {
                    Some(found) if !is_tip => assert_eq!(found, content, "{name} after {after}"),
                    Some(_) => {}
                    None => assert!(kinds.iter().any(|kind| kind.takes_states()), "{name} after {after}"),
                }
            }
            known = now;
        }
        let mut main = open(&home, "main").await;
        write(&mut main, "x", 0, 1).await.unwrap();
        commit(&home, &mut main, "work goes on").await;
    }
}
