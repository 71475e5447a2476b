//! Whatever object of a dataset is flipped, emptied, cut or deleted, and wherever: what is read is right, or an error says what
//! is damaged. Never wrong data, a panic, or a read that does not end.
//!
//! Every object is emptied, halved and deleted; of the single bytes some are flipped, chosen by a seed, or all of them with
//! `LACUS_TEST_DAMAGE=all` (`make test-damage`, which takes long).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use lacus_history::{HistoryError, State, Timeline};
use lacus_io::{Store, World};
use lacus_layout::{Value, Wish, crc32c};
use lacus_simulation::Dice;
use lacus_table::{
    At, BlobSample, BlobTile, ColumnRow, ColumnValues, ColumnWrite, ErrorKind, Put, Read, RowChange,
    ScalarBits, Table, ValueColumn, WriteOptions,
};
use lacus_tensor::{DType, Index, Shape, Tensor};
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path;

use crate::datasets::{branch, commit, options};

/// Bytes flipped when not all are.
const SAMPLE: usize = 120;

/// More than any look takes: what takes longer hangs.
const LONG: Duration = Duration::from_secs(60);

/// Rows of the dataset: enough that the ids of a third of them make a deletion vector with a file of its own.
const ROWS: u64 = 3600;

/// Where a dataset is while it is damaged.
#[derive(Clone)]
enum Place {
    Memory(InMemory),
    Directory(PathBuf),
}

impl Place {
    fn store(&self) -> Store {
        match self {
            Place::Memory(objects) => {
                let url = url::Url::parse("memory:///ds/").unwrap();
                Store::over(url, Arc::new(objects.clone())).unwrap()
            }
            Place::Directory(path) => Store::open(path.to_str().unwrap(), &Default::default()).unwrap(),
        }
    }

    /// A copy that can be damaged by itself; of a directory there is only the one.
    fn copy(&self) -> Place {
        match self {
            Place::Memory(objects) => Place::Memory(objects.fork()),
            other => other.clone(),
        }
    }

    async fn set(&self, path: &str, bytes: Option<&[u8]>) {
        match (self, bytes) {
            (Place::Memory(objects), Some(bytes)) => {
                let place = Path::from(format!("ds/{path}"));
                objects.put(&place, Bytes::copy_from_slice(bytes).into()).await.unwrap();
            }
            (Place::Memory(objects), None) => {
                objects.delete(&Path::from(format!("ds/{path}"))).await.unwrap();
            }
            (Place::Directory(root), Some(bytes)) => std::fs::write(root.join(path), bytes).unwrap(),
            (Place::Directory(root), None) => std::fs::remove_file(root.join(path)).unwrap(),
        }
    }
}

fn tensor(dtype: DType, dims: &[u64], bytes: impl FnMut() -> u8) -> Tensor {
    let mut tensor = Tensor::zeros(dtype, Shape::new(dims.to_vec()).unwrap()).unwrap();
    tensor.bytes_mut().fill_with(bytes);
    tensor
}

async fn put(table: &mut Table, name: &str, value: &Tensor, layout: &str, chunk: Option<Vec<u64>>) {
    let wish = Wish {
        layout: Some(layout.into()),
        chunk_shape: chunk,
        compression: match layout {
            "FTSF" => lacus_layout::CompressionWish::None,
            _ => lacus_layout::CompressionWish::Auto,
        },
        ..Wish::default()
    };
    let metadata = Some(serde_json::json!({"of": name}));
    let put = Put { name: name.into(), value: Value::Dense(value.as_ref()), wish, metadata };
    table.put(vec![put], &options()).await.unwrap();
}

fn column(name: &str, dtype: &str, form: ValueColumn) -> (String, ColumnRow) {
    let header = ColumnRow {
        htype: if form == ValueColumn::Text { "text" } else { "generic" }.into(),
        dtype: dtype.into(),
        shape: if form == ValueColumn::Data { vec![-1] } else { Vec::new() },
        form,
        parameters: Default::default(),
        metadata: None,
    };
    (name.to_owned(), header)
}

fn ints(name: &str, ids: &[u64], of: impl Fn(u64) -> i64) -> ColumnWrite<'static> {
    let values = ColumnValues::Scalars(ScalarBits::Int(ids.iter().map(|id| of(*id)).collect()));
    ColumnWrite { name: name.into(), ids: ids.to_vec(), values }
}

async fn change(table: &mut Table, change: RowChange<'_>) {
    table.change_rows(change, &options()).await.unwrap();
}

/// A dataset with every kind of object: log entries, a log checkpoint and its hint, on main and on a branch; chunk files with small
/// and large chunks, samples and tiles, cell files with cells, numbers, texts and rows; deletion vectors in the log and in files;
/// commits, refs, a tag, row ids, marks of expired versions.
async fn build(home: &Store) {
    let world = World::real();
    let timeline = Timeline::new(home.clone(), world.clone());
    let dice = Dice::new(7);
    let mut main = Table::create(home.clone(), world).await.unwrap();
    // More than a plain table rewrites, so that a write to a part of it makes a deletion vector.
    let large = tensor(DType::U8, &[6, 200_000], || dice.roll() as u8);
    put(&mut main, "large", &large, "FTSF", Some(vec![1, 200_000])).await;
    let small = tensor(DType::U8, &[8, 8], || dice.roll() as u8);
    put(&mut main, "small", &small, "FTSF", Some(vec![2, 8])).await;
    let sparse = tensor(DType::U8, &[9, 9], || if dice.one_in(4) { dice.roll() as u8 } else { 0 });
    put(&mut main, "cells", &sparse, "COO", None).await;
    put(&mut main, "rows of it", &sparse, "CSR", None).await;
    let ids: Vec<u64> = main.reserve_ids(ROWS).await.unwrap().collect();
    let few: Vec<u64> = ids.iter().copied().take(12).collect();
    let texts = few.iter().map(|id| format!("text of {id}").into()).collect();
    let blobs = few.iter().map(|id| BlobSample {
        shape: Some(vec![*id as i64 + 3]),
        tiles: vec![BlobTile {
            coords: vec![],
            codec: "raw".into(),
            bytes: vec![*id as u8; *id as usize + 3].into(),
        }],
    });
    let writes = vec![
        ints("label", &ids, |id| id as i64 * 7),
        ColumnWrite { name: "caption".into(), ids: few.clone(), values: ColumnValues::Texts(texts) },
        ColumnWrite { name: "blob".into(), ids: few.clone(), values: ColumnValues::Blobs(blobs.collect()) },
    ];
    let headers = vec![
        column("label", "int64", ValueColumn::Int),
        column("caption", "string", ValueColumn::Text),
        column("blob", "uint8", ValueColumn::Data),
    ];
    change(&mut main, RowChange { op: "APPEND", append: ids.clone(), writes, headers, ..Default::default() })
        .await;
    main.set_metadata(None, serde_json::json!({"dataset": 1}), &options()).await.unwrap();
    let first = commit(&timeline, &mut main, "first").await;
    timeline.create_tag("v1", first.id, None, "the first".into()).await.unwrap();
    let patch = tensor(DType::U8, &[200_000], || dice.roll() as u8);
    main.write_region("large", &[Index::At(2)], patch.as_ref(), &options()).await.unwrap();
    // Scattered, so that ids are in no tag and the vector is in no log entry.
    let third: Vec<u64> = ids.iter().copied().filter(|id| id % 3 == 0).collect();
    let some: Vec<u64> = ids.iter().copied().filter(|id| id % 9 == 1).collect();
    change(&mut main, RowChange { op: "DELETE", delete: third, ..Default::default() }).await;
    let writes = vec![ints("label", &some, |id| -(id as i64))];
    change(&mut main, RowChange { op: "UPDATE", writes, ..Default::default() }).await;
    while main.version() < 21 {
        let next = tensor(DType::U8, &[4], || dice.roll() as u8);
        put(&mut main, "often", &next, "FTSF", Some(vec![4])).await;
    }
    commit(&timeline, &mut main, "second").await;
    let mut dev = branch(&timeline, "dev", "main").await;
    let patch = tensor(DType::U8, &[8], || 9);
    dev.write_region("small", &[Index::At(3)], patch.as_ref(), &options()).await.unwrap();
    let more: Vec<u64> = dev.reserve_ids(3).await.unwrap().collect();
    let writes = vec![ints("label", &more, |id| id as i64)];
    change(&mut dev, RowChange { op: "APPEND", append: more, writes, ..Default::default() }).await;
    commit(&timeline, &mut dev, "on dev").await;
    timeline.expire(Duration::ZERO, false).await.unwrap();
}

/// Everything a state holds, as text.
async fn content(table: &Table) -> Result<String, HistoryError> {
    let mut text = format!("version {} {}\n", table.version(), table.metadata());
    let axis = table.rows().await?;
    let runs = axis.id_runs(0..axis.len());
    let ids: Vec<u64> = runs.iter().flat_map(|&(first, count)| first..first + count).collect();
    writeln!(text, "rows {} {:08x}", ids.len(), crc32c(format!("{ids:?}").as_bytes())).unwrap();
    for name in table.names() {
        write!(text, "{name} {} ", table.metadata_of(Some(&name))).unwrap();
        if !table.is_column(&name) {
            let info = table.tensor(&name)?;
            write!(text, "{:?} {:?} ", info.header.dtype, info.header.shape.dims()).unwrap();
            match table.read(&name, &[Index::Ellipsis]).await? {
                Read::Dense(tensor) => writeln!(text, "{:08x}", crc32c(tensor.bytes())).unwrap(),
                Read::Sparse(tensor) => {
                    writeln!(text, "{:08x}", crc32c(tensor.to_dense().unwrap().bytes())).unwrap();
                }
            }
            continue;
        }
        let info = table.column(&name)?;
        let header = info.header;
        let values = match header.form {
            ValueColumn::Text => format!("{:?}", table.read_texts(&name, &ids).await?),
            ValueColumn::Data => {
                let samples = table.locate(&name, &ids).await?;
                let tiles: Vec<usize> = (0..ids.len()).flat_map(|i| samples.tiles(i)).collect();
                let shapes: Vec<_> = (0..ids.len()).map(|i| samples.shape(i)).collect();
                format!("{shapes:?} {:?}", table.fetch(&samples, &tiles).await?)
            }
            _ => format!("{:?}", table.read_scalars(&name, &runs).await?),
        };
        writeln!(text, "{} {} {:08x}", header.dtype, header.htype, crc32c(values.as_bytes())).unwrap();
    }
    Ok(text)
}

type Seen = BTreeMap<&'static str, Result<String, HistoryError>>;

async fn branch_content(timeline: &Timeline, branch: &str, at: Option<&str>) -> Result<String, HistoryError> {
    content(&timeline.open(branch, at).await?.table).await
}

async fn commits(timeline: &Timeline, branch: &str) -> Result<String, HistoryError> {
    let tip = timeline.tip(branch).await?;
    let from: Vec<_> = tip.head.into_iter().collect();
    let found = timeline.log(&from, 100).await?;
    let lines = found.iter().map(|(id, commit)| format!("{id} {}", commit.message));
    Ok(format!("{:?} {} draft", lines.collect::<Vec<_>>(), tip.draft.len()))
}

async fn versions(timeline: &Timeline, branch: &str) -> Result<String, HistoryError> {
    Ok(format!("{:?}", timeline.open(branch, None).await?.table.history(None).await?))
}

async fn difference(timeline: &Timeline) -> Result<String, HistoryError> {
    let state = |text: &str| State::Revision(text.to_owned());
    Ok(format!("{:?}", timeline.diff("main", &state("v1"), &state("dev")).await?.difference))
}

async fn tags(timeline: &Timeline) -> Result<String, HistoryError> {
    Ok(format!("{:?}", lacus_history::tags::list(timeline.home()).await?))
}

/// All that can be asked of the dataset, each answer by itself.
async fn look(place: Place) -> Seen {
    let store = place.store();
    let timeline = Timeline::new(store.clone(), World::real());
    let table = async { content(&Table::open(store, World::real(), At::Tip).await?).await };
    BTreeMap::from([
        ("main", branch_content(&timeline, "main", None).await),
        ("dev", branch_content(&timeline, "dev", None).await),
        ("main's head", branch_content(&timeline, "main", Some("HEAD")).await),
        ("v1", branch_content(&timeline, "main", Some("v1")).await),
        ("the table", table.await),
        ("commits of main", commits(&timeline, "main").await),
        ("commits of dev", commits(&timeline, "dev").await),
        ("versions of main", versions(&timeline, "main").await),
        ("versions of dev", versions(&timeline, "dev").await),
        ("difference", difference(&timeline).await),
        ("tags", tags(&timeline).await),
    ])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    Flipped(usize, u8),
    Emptied,
    Halved,
    Deleted,
}

impl Damage {
    fn of(self, bytes: &[u8]) -> Option<Vec<u8>> {
        match self {
            Damage::Flipped(at, bits) => {
                let mut bytes = bytes.to_vec();
                bytes[at] ^= bits;
                Some(bytes)
            }
            Damage::Emptied => Some(Vec::new()),
            Damage::Halved => Some(bytes[..bytes.len() / 2].to_vec()),
            Damage::Deleted => None,
        }
    }
}

/// Answers that may differ when an object is gone without a trace: nothing else says that it was there.
fn may_differ(path: &str, damage: Damage, question: &str) -> bool {
    if damage != Damage::Deleted {
        return false;
    }
    let ends = |suffix: &str| path.ends_with(suffix);
    // A tag that is gone is not listed; a ref that is gone leaves the one before it, and its commit is a draft.
    (path.starts_with("_lacus/tags/") && question == "tags")
        || (path.starts_with("_lacus/branches/main/") && ["commits of main", "main's head"].contains(&question))
        || (path.starts_with("_lacus/branches/dev/") && question == "commits of dev")
        // The table at the root, opened without asking the ref, ends where its log ends.
        || (question == "the table" && path.starts_with("_delta_log/") && ends("21.json"))
}

/// What is wrong with what was seen, if anything.
fn fault(path: &str, damage: Damage, truth: &Seen, seen: &Seen) -> Option<String> {
    for (question, answer) in seen {
        let right = truth[question].as_ref().unwrap();
        match answer {
            Ok(answer) if answer == right || may_differ(path, damage, question) => {}
            Ok(answer) => {
                return Some(format!("{question}: wrong answer\n--- expected\n{right}\n--- found\n{answer}"));
            }
            Err(error) if error.kind() == ErrorKind::Corrupt => {}
            // Of what is gone it may be said that it is not there.
            Err(error) if error.kind() == ErrorKind::NotFound && damage == Damage::Deleted => {}
            Err(error) => return Some(format!("{question}: {:?}: {error}", error.kind())),
        }
    }
    None
}

struct Case {
    path: String,
    damage: Damage,
}

/// Damages an object, looks, and says what was wrong.
async fn try_one(
    place: &Place,
    objects: &BTreeMap<String, Bytes>,
    truth: &Seen,
    case: &Case,
) -> Option<String> {
    let Case { path, damage } = case;
    let sound = &objects[path];
    let copy = place.copy();
    copy.set(path, damage.of(sound).as_deref()).await;
    let looked = AssertUnwindSafe(look(copy.clone())).catch_unwind();
    let fault = match tokio::time::timeout(LONG, looked).await {
        Ok(Ok(seen)) => fault(path, *damage, truth, &seen),
        Ok(Err(_)) => Some("a panic".to_owned()),
        Err(_) => Some("no end".to_owned()),
    };
    if let Place::Directory(_) = copy {
        copy.set(path, Some(sound)).await;
    }
    fault.map(|fault| format!("{path} {damage:?}: {fault}"))
}

async fn objects_of(store: &Store) -> BTreeMap<String, Bytes> {
    let mut objects = BTreeMap::new();
    for entry in store.list("").await.unwrap() {
        if !entry.path.contains("/probe/") {
            let bytes = store.read_all(&entry.path).await.unwrap();
            objects.insert(entry.path, bytes);
        }
    }
    objects
}

/// Data files that some state holds which can be asked for.
async fn live_files(store: &Store) -> BTreeSet<String> {
    let timeline = Timeline::new(store.clone(), World::real());
    let mut live = BTreeSet::new();
    for (branch, at) in [("main", None), ("dev", None), ("main", Some("v1"))] {
        let table = timeline.open(branch, at).await.unwrap().table;
        let lives = table.lives().await.unwrap();
        let version = table.version();
        live.extend(lives.files.into_iter().filter(|file| file.includes(version)).map(|file| file.path));
    }
    live
}

/// The part of an object that is flipped byte by byte: of a data file that is its end, as its chunks are known to be verified.
fn flippable(path: &str, bytes: &[u8]) -> std::ops::Range<usize> {
    match path.contains("data/") {
        true => bytes.len().saturating_sub(12_000)..bytes.len(),
        false => 0..bytes.len(),
    }
}

fn cases(objects: &BTreeMap<String, Bytes>, live: &BTreeSet<String>, all: bool) -> Vec<Case> {
    let dice = Dice::new(11);
    let is_asked_for = |path: &str| !path.contains("data/") || live.contains(path);
    let asked = || objects.iter().filter(|(path, bytes)| is_asked_for(path) && !bytes.is_empty());
    let mut cases = Vec::new();
    for (path, _) in asked() {
        for damage in [Damage::Emptied, Damage::Halved, Damage::Deleted] {
            cases.push(Case { path: path.clone(), damage });
        }
    }
    let total: usize = asked().map(|(path, bytes)| flippable(path, bytes).len()).sum();
    for (path, bytes) in asked() {
        for at in flippable(path, bytes) {
            if all || dice.below(total as u64) < SAMPLE as u64 {
                // A digit becomes another digit, or the highest bit goes.
                let bits = if dice.one_in(4) { 0x80 } else { 1 << dice.below(3) };
                cases.push(Case { path: path.clone(), damage: Damage::Flipped(at, bits) });
            }
        }
    }
    cases
}

fn all() -> bool {
    std::env::var("LACUS_TEST_DAMAGE").is_ok_and(|value| value == "all")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn sweep(place: &Place, cases: &[Case], at_once: usize) {
    let (objects, truth) = runtime().block_on(async {
        let truth = look(place.copy()).await;
        (objects_of(&place.store()).await, truth)
    });
    for (question, answer) in &truth {
        assert!(answer.is_ok(), "{question}: {answer:?}");
    }
    let next = AtomicUsize::new(0);
    let work = || {
        runtime().block_on(async {
            let mut faults = Vec::new();
            while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                faults.extend(try_one(place, &objects, &truth, case).await);
            }
            faults
        })
    };
    let mut faults: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    faults.sort();
    let (count, listed) = (faults.len(), faults.iter().take(12).cloned().collect::<Vec<_>>().join("\n\n"));
    assert!(faults.is_empty(), "{count} of {} cases:\n{listed}", cases.len());
}

/// A dataset at a place, its objects, and the data files that can be asked for.
fn built(place: &Place) -> (BTreeMap<String, Bytes>, BTreeSet<String>) {
    runtime().block_on(async {
        let store = place.store();
        build(&store).await;
        (objects_of(&store).await, live_files(&store).await)
    })
}

#[test]
fn of_a_dataset_in_memory() {
    let place = Place::Memory(InMemory::new());
    let (objects, live) = built(&place);
    sweep(&place, &cases(&objects, &live, all()), 2);
}

/// The same on a disk, where files are read another way: whatever is in them, and whatever of them is there.
#[test]
fn of_a_dataset_on_a_disk() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::Directory(directory.path().join("ds"));
    let (objects, live) = built(&place);
    let mut cases = cases(&objects, &live, false);
    cases.retain(|case| live.contains(&case.path) || case.path.contains("_last_checkpoint"));
    sweep(&place, &cases, 1);
}

/// A write on top of damage is refused, or nothing is lost by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_on_top_loses_nothing() {
    let place = Place::Memory(InMemory::new());
    build(&place.store()).await;
    let objects = objects_of(&place.store()).await;
    let truth = look(place.copy()).await;
    for (path, bytes) in objects.iter().filter(|(path, _)| !path.contains("data/")) {
        for damage in [Damage::Emptied, Damage::Halved, Damage::Deleted] {
            let copy = place.copy();
            copy.set(path, damage.of(bytes).as_deref()).await;
            let timeline = Timeline::new(copy.store(), World::real());
            for branch in ["main", "dev"] {
                let Ok(opened) = timeline.open(branch, None).await else { continue };
                let mut table = opened.table;
                let value = tensor(DType::U8, &[4], || 1);
                let value = Value::Dense(value.as_ref());
                let new = Put { name: "new".into(), value, wish: Wish::default(), metadata: None };
                if table.put(vec![new], &WriteOptions::default()).await.is_err() {
                    continue;
                }
                let again = Timeline::new(copy.store(), World::real());
                let mut table = again.open(branch, None).await.unwrap().table;
                table.remove(&["new"], &options()).await.unwrap();
                // The same but for its number.
                let right = truth[branch].as_ref().unwrap();
                let without = |text: &str| text.split_once(" {").map(|(_, rest)| rest.to_owned());
                match content(&table).await {
                    Ok(found) => assert_eq!(without(&found), without(right), "{path} {damage:?} {branch}"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{path} {damage:?}: {error}"),
                }
            }
        }
    }
}
