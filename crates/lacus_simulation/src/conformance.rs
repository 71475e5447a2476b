//! What every store promises, whatever it is made of: one suite for disks, memory and servers.
//!
//! Each check takes an [`Opener`] of a place that is its own and empty, and panics with what it found. It stands here and not
//! in `lacus_io` behind a feature: a feature that only tests turn on would have every crate above `lacus_io` compiled twice.
//!
//! ```
//! # let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
//! # runtime.block_on(async {
//! use lacus_simulation::conformance;
//! let place = conformance::Opener::new("memory://conformance-doc", Default::default());
//! conformance::a_new_object_is_put_once(&place).await;
//! # });
//! ```

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use lacus_io::{FileWriter, IoError, IoErrorKind, Store, World, blocking, boxed, ensure_conditional_put};

/// More objects than S3 and Google list in one page, or delete in one request: 1,000 each.
const MANY: usize = 1_100;

/// Requests a check has under way at once where it makes many.
const AT_ONCE: usize = 32;

/// Bytes per part of an upload, as `lacus_io` sends them.
const PART_BYTES: usize = 16 << 20;

/// Where a suite works, and how one gets there: each [`Opener::open`] is a handle with connections of its own.
#[derive(Clone, Debug)]
pub struct Opener {
    url: String,
    options: BTreeMap<String, String>,
}

impl Opener {
    /// The place at `url`, with the options of its store.
    pub fn new(url: impl Into<String>, options: BTreeMap<String, String>) -> Self {
        Opener { url: url.into(), options }
    }

    /// A new handle.
    pub fn open(&self) -> Store {
        Store::open(&self.url, &self.options).unwrap_or_else(|e| panic!("{}: {e}", self.url))
    }
}

/// Calls `$run!(name)` for the name of each check, so that a test crate makes one test of each.
#[macro_export]
macro_rules! for_each_check {
    ($run:ident) => {
        $run!(a_new_object_is_put_once);
        $run!(one_of_racing_writers_wins);
        $run!(ranges_are_exact);
        $run!(heads_and_tails_are_as_long_as_there_is);
        $run!(what_is_missing_is_not_found);
        $run!(lists_follow_directories);
        $run!(many_objects_are_listed_and_removed);
        $run!(removal_leaves_the_others);
        $run!(copies_are_the_same);
        $run!(stores_below_share_objects);
        $run!(files_are_uploaded_by_parts);
        $run!(abandoned_files_are_gone);
        $run!(odd_names_are_names);
        $run!(conditional_puts_are_proven);
    };
}

fn bytes(length: usize) -> Bytes {
    (0..length).map(|i| (i * 7 + i / 251) as u8).collect::<Vec<u8>>().into()
}

#[track_caller]
fn ok<T>(result: Result<T, IoError>) -> T {
    result.unwrap_or_else(|e| panic!("{:?}: {e}", e.kind()))
}

#[track_caller]
fn is_kind<T: std::fmt::Debug>(result: Result<T, IoError>, kind: IoErrorKind) {
    match result {
        Err(e) => assert_eq!(e.kind(), kind, "{e}"),
        Ok(found) => panic!("expected {kind:?}, got {found:?}"),
    }
}

async fn sorted_paths(store: &Store, prefix: &str) -> Vec<String> {
    let mut paths: Vec<String> = ok(store.list(prefix).await).into_iter().map(|entry| entry.path).collect();
    paths.sort();
    paths
}

/// `put_new` makes an object that is not there, and leaves one that is as it was.
#[boxed]
pub async fn a_new_object_is_put_once(place: &Opener) {
    let store = place.open();
    ok(store.put_new("a/b", Bytes::from_static(b"first")).await);
    is_kind(store.put_new("a/b", Bytes::from_static(b"second")).await, IoErrorKind::AlreadyExists);
    is_kind(place.open().put_new("a/b", Bytes::new()).await, IoErrorKind::AlreadyExists);
    assert_eq!(&ok(store.read_all("a/b").await)[..], b"first");
    // Nothing is a value too.
    ok(store.put_new("empty", Bytes::new()).await);
    is_kind(store.put_new("empty", Bytes::from_static(b"x")).await, IoErrorKind::AlreadyExists);
    assert!(ok(store.read_all("empty").await).is_empty());
    // A name that was given up can be taken again.
    ok(store.remove(vec!["a/b".into()]).await);
    ok(store.put_new("a/b", Bytes::from_static(b"third")).await);
    assert_eq!(&ok(place.open().read_all("a/b").await)[..], b"third");
}

/// Of writers that put one new object at the same time, exactly one is told that it did, and its bytes are there.
#[boxed]
pub async fn one_of_racing_writers_wins(place: &Opener) {
    // Two handles, as two processes would have.
    let handles = [place.open(), place.open()];
    for round in 0..10 {
        let key = format!("log/{round:020}.json");
        let racers = (0..12usize).map(|racer| {
            let (store, key) = (handles[racer % 2].clone(), key.clone());
            tokio::spawn(async move { store.put_new(&key, Bytes::from(vec![racer as u8; 2000])).await })
        });
        let mut winners = Vec::new();
        for (racer, done) in join_all(racers).await.into_iter().enumerate() {
            match done.unwrap_or_else(|e| panic!("{e}")) {
                Ok(()) => winners.push(racer),
                Err(e) => assert!(e.is_already_exists(), "{:?}: {e}", e.kind()),
            }
        }
        assert_eq!(winners.len(), 1, "round {round}: writers {winners:?} were all told that they won");
        assert_eq!(&ok(handles[0].read_all(&key).await)[..], &vec![winners[0] as u8; 2000][..]);
    }
}

/// A range gives its bytes or an error: never fewer, never others.
#[boxed]
pub async fn ranges_are_exact(place: &Opener) {
    let store = place.open();
    let value = bytes(100_000);
    ok(store.put_new("x", value.clone()).await);
    for range in [0..100_000, 0..1, 99_999..100_000, 5_000..70_000, 0..0, 5..5, 100_000..100_000] {
        let found = ok(store.read("x", range.start as u64..range.end as u64).await);
        assert_eq!(found, value.slice(range.clone()), "{range:?}");
    }
    for range in [0..100_001, 99_999..100_001, 100_000..100_001, 100_001..100_001, 200_000..300_000] {
        is_kind(store.read("x", range).await, IoErrorKind::Truncated);
    }
    ok(store.put_new("empty", Bytes::new()).await);
    assert!(ok(store.read("empty", 0..0).await).is_empty());
    is_kind(store.read("empty", 0..1).await, IoErrorKind::Truncated);
    assert_eq!(ok(store.read_all("x").await), value);
}

/// The first and the last bytes come with the size, and are all there is where that is less than asked for.
#[boxed]
pub async fn heads_and_tails_are_as_long_as_there_is(place: &Opener) {
    let store = place.open();
    let value = bytes(1000);
    ok(store.put_new("x", value.clone()).await);
    ok(store.put_new("empty", Bytes::new()).await);
    for length in [0, 1, 999, 1000, 1001, 1 << 20] {
        let taken = (length as usize).min(1000);
        assert_eq!(ok(store.read_head("x", length).await), (value.slice(..taken), 1000), "head {length}");
        assert_eq!(
            ok(store.read_tail("x", length).await),
            (value.slice(1000 - taken..), 1000),
            "tail {length}"
        );
        assert_eq!(ok(store.read_head("empty", length).await), (Bytes::new(), 0), "head {length}");
        assert_eq!(ok(store.read_tail("empty", length).await), (Bytes::new(), 0), "tail {length}");
    }
}

/// What is missing is reported as missing by everything that needs it, and is nothing to lists and removals.
#[boxed]
pub async fn what_is_missing_is_not_found(place: &Opener) {
    let store = place.open();
    // In a place where there is nothing at all, and beside something.
    for _ in 0..2 {
        is_kind(store.read("a/missing", 0..1).await, IoErrorKind::NotFound);
        is_kind(store.read("a/missing", 0..0).await, IoErrorKind::NotFound);
        is_kind(store.read_all("a/missing").await, IoErrorKind::NotFound);
        is_kind(store.read_head("a/missing", 10).await, IoErrorKind::NotFound);
        is_kind(store.read_tail("a/missing", 10).await, IoErrorKind::NotFound);
        is_kind(store.copy("a/missing", "b").await, IoErrorKind::NotFound);
        assert!(!ok(store.exists("a/missing").await));
        assert!(!ok(store.exists("a").await), "a directory is no object");
        assert_eq!(sorted_paths(&store, "missing").await, [""; 0]);
        assert!(ok(store.names("missing").await).is_empty());
        ok(store.remove(vec!["a/missing".into(), "missing/too".into()]).await);
        if !ok(store.exists("a/there").await) {
            ok(store.put_new("a/there", Bytes::from_static(b"x")).await);
        }
    }
    assert_eq!(sorted_paths(&store, "").await, ["a/there"]);
}

/// A list gives every object below a directory, with its size and time; `names` what is right below it.
#[boxed]
pub async fn lists_follow_directories(place: &Opener) {
    let store = place.open();
    let before = World::real().now_millis();
    let paths = ["a/1", "a/2", "a/b/3", "a/b/c/4", "ab/5", "a-b/6", "top"];
    for (length, path) in paths.iter().enumerate() {
        ok(store.put_new(path, bytes(length)).await);
    }
    let check = async |prefix: &str, expected: &[&str]| {
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(sorted_paths(&store, prefix).await, expected, "list {prefix:?}");
    };
    check("", &paths).await;
    check("a", &["a/1", "a/2", "a/b/3", "a/b/c/4"]).await;
    check("a/b", &["a/b/3", "a/b/c/4"]).await;
    check("a/b/c", &["a/b/c/4"]).await;
    // Neither part of a name nor an object is a directory.
    check("to", &[]).await;
    check("top", &[]).await;
    for entry in ok(store.list("").await) {
        let place = paths.iter().position(|path| *path == entry.path);
        assert_eq!(Some(entry.bytes as usize), place, "{}", entry.path);
        // Clean-up goes by these times. Clocks of servers differ a little, and some count whole seconds.
        let late = entry.modified_millis - before;
        assert!((-60_000..600_000).contains(&late), "{} was changed {late} ms after it was put", entry.path);
    }
    let names = async |prefix: &str, expected: &[&str]| {
        let mut found = ok(store.names(prefix).await);
        found.sort();
        assert_eq!(found, expected, "names {prefix:?}");
    };
    names("", &["a", "a-b", "ab", "top"]).await;
    names("a", &["1", "2", "b"]).await;
    names("a/b/c", &["4"]).await;
    // The same from below.
    let below = ok(store.below("a/b"));
    assert_eq!(sorted_paths(&below, "").await, ["3", "c/4"]);
    assert_eq!(sorted_paths(&below, "c").await, ["c/4"]);
}

/// More objects than fit into one page of a list or one request to delete.
#[boxed]
pub async fn many_objects_are_listed_and_removed(place: &Opener) {
    let store = place.open();
    let paths: Vec<String> = (0..MANY).map(|i| format!("many/{}/{i:05}", i % 3)).collect();
    let puts = futures::stream::iter(paths.clone()).map(|path| {
        let store = store.clone();
        async move { ok(store.put_new(&path, Bytes::from_static(b"x")).await) }
    });
    puts.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    ok(store.put_new("few/1", Bytes::new()).await);
    let mut expected = paths.clone();
    expected.sort();
    assert_eq!(sorted_paths(&store, "many").await, expected);
    assert_eq!(ok(store.list("").await).len(), MANY + 1);
    let mut names = ok(store.names("many").await);
    names.sort();
    assert_eq!(names, ["0", "1", "2"]);
    ok(store.remove(paths).await);
    assert_eq!(sorted_paths(&store, "").await, ["few/1"]);
}

/// A removal takes what it names and nothing else, also where names begin alike, and may be repeated.
#[boxed]
pub async fn removal_leaves_the_others(place: &Opener) {
    let store = place.open();
    for path in ["x", "x1", "x-/y", "d/x", "d/x1"] {
        ok(store.put_new(path, Bytes::from_static(b"1")).await);
    }
    for _ in 0..2 {
        ok(store.remove(vec!["x".into(), "d/x".into(), "missing".into()]).await);
        assert_eq!(sorted_paths(&store, "").await, ["d/x1", "x-/y", "x1"]);
    }
    is_kind(store.read_all("x").await, IoErrorKind::NotFound);
    ok(store.remove(Vec::new()).await);
    assert_eq!(ok(store.list("").await).len(), 3);
}

/// A copy has the bytes of what it was made from, and stays when that goes.
#[boxed]
pub async fn copies_are_the_same(place: &Opener) {
    let store = place.open();
    let value = bytes(50_000);
    ok(store.put_new("from/ä b", value.clone()).await);
    ok(store.copy("from/ä b", "to/c d").await);
    ok(store.remove(vec!["from/ä b".into()]).await);
    assert_eq!(ok(store.read_all("to/c d").await), value);
    assert_eq!(sorted_paths(&store, "").await, ["to/c d"]);
}

/// A store below another reads, copies and writes the other's objects by climbing paths, and gets no further.
#[boxed]
pub async fn stores_below_share_objects(place: &Opener) {
    let store = place.open();
    let branch = ok(store.below("_branches/b"));
    ok(store.put_new("data/x", Bytes::from_static(b"abc")).await);
    assert_eq!(&ok(branch.read("../../data/x", 1..3).await)[..], b"bc");
    assert_eq!(ok(branch.read_tail("../../data/x", 2).await), (Bytes::from_static(b"bc"), 3));
    assert!(ok(branch.exists("../../data/x").await));
    ok(branch.copy("../../data/x", "data/y").await);
    assert_eq!(&ok(store.read_all("_branches/b/data/y").await)[..], b"abc");
    is_kind(branch.read_all("../../../data/x").await, IoErrorKind::Invalid);
    is_kind(branch.put_new("../z", Bytes::new()).await, IoErrorKind::Invalid);
}

/// Files of any size come back, also where they are longer than one part of an upload.
#[boxed]
pub async fn files_are_uploaded_by_parts(place: &Opener) {
    let store = place.open();
    let value = bytes(2 * PART_BYTES + PART_BYTES / 2);
    for length in [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, value.len()] {
        let path = format!("data/{length}");
        let mut file = ok(FileWriter::create(&store, &path, 0));
        // Pieces that fit neither parts nor pages.
        ok(blocking(|| value[..length].chunks(1_000_003).try_for_each(|piece| file.append(piece))));
        assert_eq!(file.offset(), length as u64);
        assert_eq!(ok(file.finish(true).await), length as u64);
        assert!(ok(store.read_all(&path).await) == value.slice(..length), "{length} bytes came back changed");
        // Across the seam of two parts.
        let seam = length.saturating_sub(PART_BYTES + 10)..length.min(PART_BYTES + 10);
        if !seam.is_empty() {
            let found = ok(store.read(&path, seam.start as u64..seam.end as u64).await);
            assert!(found == value.slice(seam), "the seam of {length} bytes came back changed");
        }
    }
    let sizes = ok(store.list("data").await);
    assert!(sizes.iter().all(|entry| entry.path == format!("data/{}", entry.bytes)), "{sizes:?}");
}

/// A file that is dropped before it is finished was never there.
#[boxed]
pub async fn abandoned_files_are_gone(place: &Opener) {
    let store = place.open();
    let value = bytes(PART_BYTES + 100);
    for length in [10, value.len()] {
        let path = format!("data/{length}");
        let mut file = ok(FileWriter::create(&store, &path, length as u64));
        ok(blocking(|| file.append(&value[..length])));
        drop(file);
        assert!(!ok(store.exists(&path).await));
    }
    assert_eq!(sorted_paths(&store, "").await, [""; 0]);
}

/// Names with characters that mean something to URLs, shells or servers are names like any other.
#[boxed]
pub async fn odd_names_are_names(place: &Opener) {
    let store = place.open();
    let long = "l".repeat(200);
    let names = [
        "with space",
        "größe/日本語",
        "100%",
        "a%2Fb",
        "a%20b",
        "a+b",
        "q?x=1&y=2",
        "#hash",
        "it's",
        "semi;colon",
        "comma,dot.",
        "at@colon:x",
        "(round)",
        "[square]",
        "{curly}",
        "~tilde",
        "$dollar",
        "!",
        "=",
        "Upper",
        "upper",
        ".hidden",
        "-dash",
        long.as_str(),
    ];
    for name in names {
        let value = Bytes::from(name.to_owned());
        store.put_new(name, value.clone()).await.unwrap_or_else(|e| panic!("put {name:?}: {e}"));
        is_kind(store.put_new(name, Bytes::new()).await, IoErrorKind::AlreadyExists);
    }
    for name in names {
        let found = store.read_all(name).await.unwrap_or_else(|e| panic!("read {name:?}: {e}"));
        assert_eq!(&found[..], name.as_bytes());
        let found = store.read(name, 1..name.len() as u64).await;
        let found = found.unwrap_or_else(|e| panic!("read a range of {name:?}: {e}"));
        assert_eq!(&found[..], &name.as_bytes()[1..]);
        assert!(ok(store.exists(name).await), "{name:?}");
    }
    let mut expected = names.to_vec();
    expected.sort_unstable();
    assert_eq!(sorted_paths(&store, "").await, expected);
    assert_eq!(ok(store.names("größe").await), ["日本語"]);
    ok(store.remove(names.iter().map(|name| (*name).to_owned()).collect()).await);
    assert_eq!(sorted_paths(&store, "").await, [""; 0]);
}

/// The probe finds that conditional puts are honoured, and leaves nothing behind.
#[boxed]
pub async fn conditional_puts_are_proven(place: &Opener) {
    let store = place.open();
    for _ in 0..2 {
        ok(ensure_conditional_put(&store, &World::real()).await);
    }
    assert_eq!(sorted_paths(&store, "").await, [""; 0]);
}
