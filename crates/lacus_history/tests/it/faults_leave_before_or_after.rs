//! Whatever request of whatever operation fails, is cut after its effect, is late or is the last: the dataset is as
//! before or as after, and goes on working.

use std::sync::Arc;

use lacus_history::{Choice, HistoryError, Timeline};
use lacus_simulation::{Faults, FlakyStore, seeded_world};
use lacus_table::{At, Table};
use object_store::memory::InMemory;

use crate::tables::{
    Content, add_labels, append, branch, content, delete_row, get, merge, options, put, record, relabel,
    stop, store_over, write,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Commit,
    Transaction,
    CreateBranch,
    DeleteBranch,
    Tag,
    Merge,
    FastForward,
    CherryPick,
    Revert,
    Restore,
    Discard,
    Publish,
}

const ALL: [Op; 12] = [
    Op::Commit,
    Op::Transaction,
    Op::CreateBranch,
    Op::DeleteBranch,
    Op::Tag,
    Op::Merge,
    Op::FastForward,
    Op::CherryPick,
    Op::Revert,
    Op::Restore,
    Op::Discard,
    Op::Publish,
];

/// A dataset with two branches that went different ways, one that lags behind, and a draft where the operation wants one.
async fn prepared(op: Op) -> InMemory {
    let objects = InMemory::new();
    let shared = Arc::new(objects.clone());
    let (store, world) = (store_over(shared), seeded_world(1));
    let mut main = Table::create(store.clone(), world.clone()).await.unwrap();
    let timeline = Timeline::new(store, world);
    put(&mut main, "x", &[0; 6]).await.unwrap();
    add_labels(&mut main).await.unwrap();
    let ids = append(&mut main, &[10, 11, 12, 13]).await.unwrap();
    timeline.commit(&mut main, &record("first"), false).await.unwrap();
    branch(&timeline, "behind", "main").await.unwrap();
    let mut dev = branch(&timeline, "dev", "main").await.unwrap();
    write(&mut dev, "x", 0, 1).await.unwrap();
    relabel(&mut dev, ids[0], 100).await.unwrap();
    append(&mut dev, &[20, 21]).await.unwrap();
    timeline.commit(&mut dev, &record("on dev"), false).await.unwrap();
    write(&mut main, "x", 5, 5).await.unwrap();
    delete_row(&mut main, ids[3]).await.unwrap();
    timeline.commit(&mut main, &record("on main"), false).await.unwrap();
    if matches!(op, Op::Commit | Op::Discard) {
        relabel(&mut main, ids[1], 111).await.unwrap();
        put(&mut main, "y", &[1, 2]).await.unwrap();
    }
    objects
}

async fn run(op: Op, timeline: &Timeline) -> Result<(), HistoryError> {
    let mut main = timeline.open("main", None).await?.table;
    match op {
        Op::Commit => timeline.commit(&mut main, &record("done"), false).await.map(drop),
        Op::Transaction => {
            main.begin()?;
            put(&mut main, "z", &[7, 8]).await?;
            write(&mut main, "x", 2, 9).await?;
            append(&mut main, &[30]).await?;
            timeline.commit_transaction(&mut main, &record("done"), &options()).await.map(drop)
        }
        Op::CreateBranch => branch(timeline, "new", "main").await.map(drop),
        Op::DeleteBranch => timeline.delete_branch("behind", false).await,
        Op::Tag => {
            let (id, _) = timeline.resolve_commit("main", "main").await?;
            timeline.create_tag("v1", id, Some("ada".into()), String::new()).await.map(drop)
        }
        Op::Merge => merge(timeline, "main", &mut main, "dev", &mut |_| Choice::Theirs).await.map(drop),
        Op::FastForward => {
            let mut behind = timeline.open("behind", None).await?.table;
            merge(timeline, "behind", &mut behind, "main", &mut stop).await.map(drop)
        }
        Op::CherryPick => {
            let (id, commit) = timeline.resolve_commit("main", "dev").await?;
            let record = record("picked");
            timeline.cherry_pick(&mut main, (id, &commit), &record, &mut stop, &options()).await.map(drop)
        }
        Op::Revert => {
            let (id, commit) = timeline.resolve_commit("main", "main").await?;
            let record = record("undone");
            timeline.revert(&mut main, (id, &commit), &record, &mut stop, &options()).await.map(drop)
        }
        Op::Restore => {
            let state = timeline.open("main", Some("main~1")).await?.table;
            timeline.restore(&mut main, &state, &options()).await.map(drop)
        }
        Op::Discard => timeline.discard(&mut main, Some("ada"), false, &options()).await.map(drop),
        Op::Publish => timeline.publish("dev", &options()).await.map(drop),
    }
}

/// What anybody can see: per branch its content, the messages of its commits, its draft, what it borrows; the tags.
async fn picture(timeline: &Timeline) -> String {
    let mut seen = Vec::new();
    for branch in timeline.list_branches("main").await.unwrap() {
        let tip = timeline.tip(&branch.name).await.unwrap();
        let log = timeline.log(&tip.head.into_iter().collect::<Vec<_>>(), 100).await.unwrap();
        let messages: Vec<&str> = log.iter().map(|(_, commit)| commit.message.as_str()).collect();
        let Content { arrays, rows } = content(&tip.table).await;
        let draft = tip.draft.len();
        let borrows = branch.borrowed_files > 0;
        // Ids of new rows depend on how many were reserved in vain.
        let labels: Vec<_> = rows.iter().map(|(_, label)| label).collect();
        seen.push(format!(
            "{} {arrays:?} {labels:?} {messages:?} draft {draft} borrows {borrows}",
            branch.name
        ));
    }
    let tags = lacus_history::tags::list(timeline.home()).await.unwrap();
    seen.push(format!("{:?}", tags.iter().map(|tag| &tag.name).collect::<Vec<_>>()));
    seen.join("\n")
}

fn calm(objects: &InMemory, seed: u64) -> Timeline {
    Timeline::new(store_over(Arc::new(objects.clone())), seeded_world(seed))
}

async fn check(op: Op, faults: impl Fn(u64) -> Faults) {
    let start = prepared(op).await;
    let before = picture(&calm(&start.fork(), 2)).await;
    let done = start.fork();
    run(op, &calm(&done, 3)).await.unwrap();
    let after = picture(&calm(&done, 2)).await;
    assert_ne!(before, after, "{op:?} does nothing");
    for number in 1.. {
        let objects = start.fork();
        let flaky = Arc::new(FlakyStore::new(Arc::new(objects.clone()), faults(number), number));
        let timeline = Timeline::new(store_over(Arc::clone(&flaky) as _), seeded_world(100 + number));
        let ended = run(op, &timeline).await;
        let reached = flaky.requests() >= number;
        let fresh = calm(&objects, 200 + number);
        let seen = picture(&fresh).await;
        if ended.is_ok() {
            assert_eq!(seen, after, "{op:?} said it was done; fault at request {number}");
        } else {
            assert!(
                seen == before || seen == after,
                "{op:?}, fault at request {number}: {ended:?}\n{seen}\nbefore:\n{before}\nafter:\n{after}"
            );
        }
        // The next one can go on.
        let mut main = fresh.open("main", None).await.unwrap().table;
        assert_eq!(main.directory(), "");
        write(&mut main, "x", 3, 33).await.unwrap();
        fresh.commit(&mut main, &record("after the fault"), false).await.unwrap();
        assert_eq!(get(&fresh.table("", At::Tip).await.unwrap(), "x").await[3], 33);
        if !reached {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_one_request_fails() {
    for op in ALL {
        check(op, |number| Faults { fail_at: number, ..Faults::default() }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_one_answer_is_lost() {
    for op in ALL {
        check(op, |number| Faults { cut_at: number, ..Faults::default() }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_one_request_is_late() {
    for op in ALL {
        check(op, |number| Faults { delay_at: number, ..Faults::default() }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_process_dies() {
    for op in ALL {
        check(op, |number| Faults { crash_at: number, ..Faults::default() }).await;
    }
}
