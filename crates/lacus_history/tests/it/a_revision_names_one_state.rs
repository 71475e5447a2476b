use std::collections::BTreeMap;

use lacus_history::{BranchRef, CommitId, Commits, Held, Resolved, Revision, Step, Tag};
use lacus_history::{branches, parse_time, resolve_revision, tags};
use lacus_simulation::seeded_world;
use lacus_tensor::ErrorKind;

use crate::support::{commit, history, memory};

const NEWEST: u64 = 20;

struct World {
    commits: Commits,
    ids: BTreeMap<String, CommitId>,
    main: Held,
}

async fn world() -> World {
    let store = memory();
    let (commits, world) = (Commits::new(store.clone()), seeded_world(1));
    let ids = history(&commits, "a:\nb: a\nx: a\nm: b x\n").await;
    let main = branches::get(&store, "main").await.unwrap();
    let new = BranchRef { head: Some(ids["m"]), version: 9, ..main.branch().clone() };
    let main = branches::advance(&store, &world, &main, new).await.unwrap();
    let other = |name: &str, head| BranchRef { name: name.to_owned(), head, ..main.branch().clone() };
    branches::create(&store, &world, other("feature/x", Some(ids["x"]))).await.unwrap();
    branches::create(&store, &world, other("12", Some(ids["x"]))).await.unwrap();
    branches::create(&store, &world, other("empty", None)).await.unwrap();
    for (name, commit) in [("v1.0", ids["b"]), ("main", ids["a"]), ("gone", CommitId::of(b"gone"))] {
        let (name, author, message) = (name.to_owned(), String::new(), String::new());
        tags::create(&store, &world, Tag { name, commit, author, time_millis: 0, message }).await.unwrap();
    }
    World { commits, ids, main }
}

#[tokio::test]
async fn whatever_it_is_called() {
    let World { commits, ids, main } = world().await;
    let b = ids["b"].to_string();
    let cases = [
        ("main", "branch main"),
        ("feature/x", "branch feature/x"),
        ("12", "branch 12"),
        ("v12", "version 12"),
        ("13", "version 13"),
        ("0", "version 0"),
        ("v1.0", "b"),
        ("HEAD", "m"),
        ("@", "m"),
        ("@^", "b"),
        ("HEAD~1", "b"),
        ("HEAD~2", "a"),
        ("main^2", "x"),
        ("main^2^", "a"),
        ("main^2~1", "a"),
        ("main^1", "b"),
        ("main~", "b"),
        ("main~~", "a"),
        ("main~0", "m"),
        ("main^0", "m"),
        ("feature/x~1", "a"),
        (" v1.0^ ", "a"),
        (&b, "b"),
        (&b[..12], "b"),
        (&format!("{}~1", b[..12].to_uppercase()), "a"),
        ("2026-01-31", "time 1769817600000"),
        ("2026-01-31T00:00:01Z", "time 1769817601000"),
    ];
    for (text, expected) in cases {
        let found = match resolve_revision(&commits, text, &main, NEWEST).await.unwrap() {
            Resolved::Branch(held) => format!("branch {}", held.name()),
            Resolved::Commit(_, commit) => commit.message.clone(),
            Resolved::Version(version) => format!("version {version}"),
            Resolved::Time(time) => format!("time {time}"),
        };
        assert_eq!(found, expected, "{text}");
    }
}

#[tokio::test]
async fn or_says_why_not() {
    let World { commits, main, .. } = world().await;
    let cases = [
        ("mian", ErrorKind::NotFound, "did you mean main?"),
        ("featur/x", ErrorKind::NotFound, "did you mean feature/x?"),
        ("gone", ErrorKind::NotFound, "to which tag \"gone\" refers"),
        ("empty~1", ErrorKind::NotFound, "has no commit yet"),
        ("main~9", ErrorKind::NotFound, "has 0 parents"),
        ("main^3", ErrorKind::NotFound, "has 2 parents"),
        ("21", ErrorKind::Invalid, "the newest is 20"),
        ("99999999999999999999999", ErrorKind::NotFound, "no branch, tag, commit or version"),
        ("13~1", ErrorKind::Invalid, "version or a time"),
        ("", ErrorKind::Invalid, "empty"),
        ("~2", ErrorKind::Invalid, "nothing before"),
        ("main~x", ErrorKind::Invalid, "may follow a name"),
        ("main~99999999999999999999999", ErrorKind::Invalid, "too large"),
        ("2026-13-45", ErrorKind::NotFound, "no branch"),
    ];
    for (text, kind, words) in cases {
        let error = resolve_revision(&commits, text, &main, NEWEST).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{text}: {error}");
        assert!(error.to_string().contains(words), "{text}: {error}");
    }
}

#[tokio::test]
async fn beginnings_that_several_share_list_them() {
    let World { commits, main, .. } = world().await;
    let mut by_prefix: BTreeMap<String, Vec<CommitId>> = BTreeMap::new();
    let prefix = loop {
        let count: usize = by_prefix.values().map(Vec::len).sum();
        let id = commits.write(&commit(&format!("number {count}"), 1, Vec::new())).await.unwrap();
        let same = by_prefix.entry(id.digits(4)).or_default();
        same.push(id);
        if same.len() == 2 && id.digits(4).bytes().any(|digit| digit.is_ascii_alphabetic()) {
            break id.digits(4);
        }
    };
    let error = resolve_revision(&commits, &prefix, &main, NEWEST).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    for id in &by_prefix[&prefix] {
        assert!(error.to_string().contains(&format!("{} (number ", id.short())), "{error}");
    }
}

#[test]
fn texts_come_apart() {
    let steps = |text: &str| Revision::parse(text).unwrap().steps;
    assert_eq!(steps("a/b~3^2^~"), [Step::Back(3), Step::Parent(2), Step::Parent(1), Step::Back(1)]);
    assert_eq!(steps("a"), []);
}

#[test]
fn times_are_read() {
    let day = 1_769_817_600_000;
    let noon = day + 43_200_000;
    for (text, expected) in [
        ("2026-01-31", Some(day)),
        ("2026-01-31T12:00", Some(noon)),
        ("2026-01-31 12:00", Some(noon)),
        ("2026-01-31T12:00Z", Some(noon)),
        ("2026-01-31T12:00:00Z", Some(noon)),
        ("2026-01-31 12:00:00.250", Some(noon + 250)),
        ("2026-01-31T14:00:00+02:00", Some(noon)),
        ("2026-01-31T14:00+02:00", Some(noon)),
        ("2026-01-31 14:00:00+0200", Some(noon)),
        ("2026-01-31T25:00", None),
        ("2026-02-30", None),
        ("yesterday", None),
        ("12:00", None),
        ("", None),
    ] {
        assert_eq!(parse_time(text), expected, "{text}");
    }
}
