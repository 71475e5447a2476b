use std::collections::BTreeMap;

use chrono::{FixedOffset, TimeZone};
use lacus_history::{BranchRef, CommitId, Commits, Held, Resolved, Revision, Step, Tag};
use lacus_history::{branches, parse_time, parse_time_in, resolve_revision, tags};
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
        ("@12", "version 12"),
        ("version:12", "version 12"),
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
        ("@21", ErrorKind::Invalid, "the newest is 20"),
        ("version:21", ErrorKind::Invalid, "the newest is 20"),
        ("version:x", ErrorKind::NotFound, "no branch, tag, commit or version"),
        ("v14", ErrorKind::NotFound, "no branch or tag \"v14\"; version 14 of a branch is written @14"),
        ("v1", ErrorKind::NotFound, "did you mean v1.0? Version 1 of a branch is written @1"),
        ("v99", ErrorKind::NotFound, "version 99 of a branch is written @99"),
        ("@12~1", ErrorKind::Invalid, "version or a time"),
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

/// A name that somebody relied on must not come to mean something else once it is deleted.
#[tokio::test]
async fn what_was_deleted_is_no_version() {
    let World { commits, ids, main } = world().await;
    let (store, world) = (commits.store().clone(), seeded_world(2));
    let tag = Tag {
        name: "v7".to_owned(),
        commit: ids["b"],
        author: String::new(),
        time_millis: 0,
        message: String::new(),
    };
    tags::create(&store, &world, tag).await.unwrap();
    let resolve = async |text: &str| resolve_revision(&commits, text, &main, NEWEST).await;
    assert!(matches!(resolve("v7").await.unwrap(), Resolved::Commit(id, _) if id == ids["b"]));
    tags::delete(&store, "v7").await.unwrap();
    let error = resolve("v7").await.unwrap_err();
    assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("@7"), "{error}");

    let held = branches::get(&store, "12").await.unwrap();
    branches::delete(&store, &world, &held).await.unwrap();
    let error = resolve("12").await.unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("version 12 is @12"), "{error}");
    assert!(matches!(resolve("@12").await.unwrap(), Resolved::Version(12)));
}

/// Digits that are the beginning of a commit's id and a version there is.
#[tokio::test]
async fn digits_that_mean_two_things_mean_neither() {
    let World { commits, main, .. } = world().await;
    let digits = loop {
        let count = commits.list().await.unwrap().len();
        let id = commits.write(&commit(&format!("number {count}"), 1, Vec::new())).await.unwrap();
        if id.digits(4).bytes().all(|digit| digit.is_ascii_digit()) {
            break id.digits(4);
        }
    };
    let version: u64 = digits.parse().unwrap();
    let error = resolve_revision(&commits, &digits, &main, version).await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Invalid && error.to_string().contains(&format!("@{version}")),
        "{error}"
    );
    let found = resolve_revision(&commits, &format!("@{digits}"), &main, version).await.unwrap();
    assert!(matches!(found, Resolved::Version(found) if found == version));
    // Where there is no such version, it is the commit.
    let found = resolve_revision(&commits, &digits, &main, 0).await.unwrap();
    assert!(version == 0 || matches!(found, Resolved::Commit(..)));
}

#[test]
fn times_are_read() {
    let (day, hour) = (1_769_817_600_000, 3_600_000);
    let noon = day + 12 * hour;
    let zone = FixedOffset::east_opt(3 * 3600).unwrap();
    for (text, expected) in [
        // Without a zone: that of whoever asks.
        ("2026-01-31", Some(day - 3 * hour)),
        ("2026-01-31T12:00", Some(noon - 3 * hour)),
        ("2026-01-31 12:00", Some(noon - 3 * hour)),
        ("2026-01-31 12:00:00.250", Some(noon - 3 * hour + 250)),
        ("2026-01-31T12:00Z", Some(noon)),
        ("2026-01-31T12:00:00Z", Some(noon)),
        ("2026-01-31T14:00:00+02:00", Some(noon)),
        ("2026-01-31T14:00+02:00", Some(noon)),
        ("2026-01-31 14:00:00+0200", Some(noon)),
        ("2026-01-31T25:00", None),
        ("2026-02-30", None),
        ("yesterday", None),
        ("12:00", None),
        ("", None),
    ] {
        assert_eq!(parse_time_in(text, &zone), expected, "{text}");
    }
    let local = chrono::Local.with_ymd_and_hms(2026, 1, 31, 12, 0, 0).unwrap().timestamp_millis();
    assert_eq!(parse_time("2026-01-31T12:00"), Some(local));
}
