//! What is wrong with a log is an error that names it, or it does not matter. It is never another table.

use std::sync::Arc;

use lacus_io::{Store, World};
use lacus_layout::Wish;
use lacus_simulation::{Dice, seeded_world};
use lacus_table::{
    At, ColumnRow, ColumnValues, ColumnWrite, ErrorKind, RowChange, ScalarBits, Table, TableError,
    ValueColumn, WriteOptions, check_log, empty_tail, remove_empty_tail, repair_log,
};
use lacus_tensor::{DType, Index};
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use serde_json::Value as Json;

use crate::support::{layout, put, random_tensor};

struct Log {
    objects: Arc<InMemory>,
}

impl Log {
    fn new() -> Log {
        Log { objects: Arc::new(InMemory::new()) }
    }

    fn store(&self) -> Store {
        Store::over(url::Url::parse("memory:///log/").unwrap(), Arc::clone(&self.objects) as _).unwrap()
    }

    async fn open(&self, at: At) -> Result<Table, TableError> {
        Table::open(self.store(), seeded_world(9), at).await
    }

    async fn set(&self, path: &str, bytes: impl Into<bytes::Bytes>) {
        self.objects.put(&Path::from(format!("log/{path}")), bytes.into().into()).await.unwrap();
    }

    async fn get(&self, path: &str) -> Vec<u8> {
        self.store().read_all(path).await.unwrap().to_vec()
    }

    /// Changes every line of an entry.
    async fn change(&self, version: u64, mut change: impl FnMut(&mut Json)) {
        let text = String::from_utf8(self.get(&entry(version)).await).unwrap();
        let lines = text.lines().map(|line| {
            let mut action: Json = serde_json::from_str(line).unwrap();
            change(&mut action);
            format!("{action}\n")
        });
        self.set(&entry(version), lines.collect::<String>()).await;
    }

    /// Takes all checksums away, as if an older version had written the entries.
    async fn make_old(&self, versions: std::ops::RangeInclusive<u64>) {
        for version in versions {
            self.change(version, strip).await;
        }
    }
}

fn entry(version: u64) -> String {
    format!("_delta_log/{version:020}.json")
}

fn strip(action: &mut Json) {
    let info = action.get_mut("commitInfo").and_then(|info| info["lacus"].as_object_mut());
    info.map(|info| info.remove("crc32c"));
    let tags = action.get_mut("add").and_then(|add| add["tags"].as_object_mut());
    tags.map(|tags| tags.remove("lacus.crc"));
}

fn ints(name: &str, ids: &[u64]) -> ColumnWrite<'static> {
    let values = ScalarBits::Int(ids.iter().map(|id| *id as i64 * 3).collect());
    ColumnWrite { name: name.into(), ids: ids.to_vec(), values: ColumnValues::Scalars(values) }
}

/// A table with arrays of several layouts and a column, rewritten here and there.
async fn filled(log: &Log) -> Table {
    let dice = Dice::new(3);
    let options = WriteOptions::default();
    let mut table = Table::create(log.store(), seeded_world(3)).await.unwrap();
    for (name, of) in [("a", "FTSF"), ("b", "COO"), ("c", "CSR"), ("d", "BSGS")] {
        let tensor = random_tensor(&dice, DType::U8, &[6, 7], 2);
        put(&mut table, name, &tensor, layout(of)).await.unwrap();
    }
    let header = ColumnRow {
        htype: "generic".into(),
        dtype: "int64".into(),
        shape: Vec::new(),
        form: ValueColumn::Int,
        parameters: Default::default(),
        metadata: None,
    };
    let ids: Vec<u64> = table.reserve_ids(9).await.unwrap().collect();
    let change = RowChange {
        op: "APPEND",
        append: ids.clone(),
        writes: vec![ints("label", &ids)],
        headers: vec![("label".into(), header)],
        ..Default::default()
    };
    table.change_rows(change, &options).await.unwrap();
    let change = RowChange { op: "DELETE", delete: ids[2..4].to_vec(), ..Default::default() };
    table.change_rows(change, &options).await.unwrap();
    table.set_metadata(Some("a"), serde_json::json!({"k": 1}), &options).await.unwrap();
    table.rename("b", "renamed", &options).await.unwrap();
    table.set_metadata(None, serde_json::json!({"all": 1}), &options).await.unwrap();
    table
}

/// Everything a table holds, as text.
async fn content(table: &Table) -> Result<String, TableError> {
    let mut text = format!("{} {}", table.version(), table.metadata());
    let axis = table.rows().await?;
    let runs = axis.id_runs(0..axis.len());
    for name in table.names() {
        let metadata = table.metadata_of(Some(&name));
        text += &match table.is_column(&name) {
            true => format!("{name} {metadata} {:?}", table.read_scalars(&name, &runs).await?),
            false => format!("{name} {metadata} {:?}", table.read(&name, &[Index::Ellipsis]).await?),
        };
    }
    Ok(text)
}

fn assert_corrupt<T>(result: Result<T, TableError>, part: &str) {
    let Err(error) = result else { panic!("{part}: accepted") };
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains(part), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_entry_is_no_commit() {
    let log = Log::new();
    let mut table = filled(&log).await;
    let newest = table.version();
    let blanks: [&[u8]; 4] = [b"", b"\n", &[0; 512], b"{}\n"];
    for version in [0, 3, newest] {
        let sound = log.get(&entry(version)).await;
        for blank in blanks {
            log.set(&entry(version), blank.to_vec()).await;
            assert_corrupt(log.open(At::Tip).await, &entry(version));
            assert_corrupt(log.open(At::Version(newest)).await, &entry(version));
            if version > 0 {
                assert_eq!(log.open(At::Version(version - 1)).await.unwrap().version(), version - 1);
            }
        }
        log.set(&entry(version), sound).await;
    }
    // Of one that comes while a handle is open, the next write says so, and changes nothing.
    log.set(&entry(newest + 1), Vec::new()).await;
    let tensor = random_tensor(&Dice::new(1), DType::U8, &[3], 1);
    assert_corrupt(put(&mut table, "new", &tensor, Wish::default()).await, &entry(newest + 1));
    assert_corrupt(table.refresh().await, &entry(newest + 1));
    assert!(log.get(&entry(newest + 1)).await.is_empty());
    // Nobody was told that it would last.
    assert_eq!(
        empty_tail(&log.store(), Some(newest + 1)).await.unwrap(),
        Vec::<u64>::new(),
        "a commit names it"
    );
    let found = empty_tail(&log.store(), Some(newest)).await.unwrap();
    assert_eq!(found, [newest + 1]);
    remove_empty_tail(&log.store(), &found).await.unwrap();
    assert_eq!(log.open(At::Tip).await.unwrap().version(), newest);
    put(&mut table, "new", &tensor, Wish::default()).await.unwrap();
    // One that others build on is not removed.
    log.set(&entry(newest), Vec::new()).await;
    assert_eq!(empty_tail(&log.store(), None).await.unwrap(), Vec::<u64>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_other_writers_are_read_as_they_are() {
    let log = Log::new();
    let table = filled(&log).await;
    let truth = content(&table).await.unwrap();
    let next = table.version() + 1;
    log.set(&entry(next), r#"{"txn":{"appId":"stream","version":1}}"#).await;
    let opened = log.open(At::Tip).await.unwrap();
    assert_eq!(opened.version(), next);
    let expected = truth.replacen(&table.version().to_string(), &next.to_string(), 1);
    assert_eq!(content(&opened).await.unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_byte_of_an_entry_counts() {
    let log = Log::new();
    let table = filled(&log).await;
    let truth = content(&table).await.unwrap();
    let dice = Dice::new(5);
    for version in 0..=table.version() {
        let sound = log.get(&entry(version)).await;
        for _ in 0..30 {
            let mut bytes = sound.clone();
            let at = dice.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << dice.below(7);
            log.set(&entry(version), bytes).await;
            match log.open(At::Tip).await {
                // A flip in the name of the key hides the checksum, and nothing else.
                Ok(table) => assert_eq!(content(&table).await.unwrap(), truth, "{version} {at}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}"),
            }
        }
        log.set(&entry(version), sound).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_without_a_checksum_are_compared_with_the_file() {
    let log = Log::new();
    let table = filled(&log).await;
    let (truth, newest) = (content(&table).await.unwrap(), table.version());
    log.make_old(0..=newest).await;
    assert_eq!(content(&log.open(At::Tip).await.unwrap()).await.unwrap(), truth, "they are read as before");
    // Every number in every tag, one more.
    let mut tried = 0;
    for version in 1..=newest {
        let sound = log.get(&entry(version)).await;
        let text = String::from_utf8(sound.clone()).unwrap();
        let starts: Vec<usize> = text.match_indices("\"lacus\":\"").map(|(at, _)| at).collect();
        for start in starts {
            let end = start + text[start..].find("}]}\"").unwrap();
            for at in (start..end).filter(|at| text.as_bytes()[*at].is_ascii_digit()) {
                let mut bytes = sound.clone();
                bytes[at] = if bytes[at] == b'9' { b'8' } else { bytes[at] + 1 };
                log.set(&entry(version), bytes).await;
                let found = match log.open(At::Tip).await {
                    Ok(table) => content(&table).await,
                    Err(error) => Err(error),
                };
                let what = || text[at.saturating_sub(40)..(at + 20).min(text.len())].to_owned();
                match found {
                    Ok(found) => assert_eq!(found, truth, "{}", what()),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{}: {error}", what()),
                }
                tried += 1;
            }
        }
        log.set(&entry(version), sound).await;
    }
    assert!(tried > 100, "{tried}");
    // A tag that has a checksum is not believed without it.
    let log = Log::new();
    filled(&log).await;
    log.change(1, |action| {
        let info = action.get_mut("commitInfo").and_then(|info| info["lacus"].as_object_mut());
        info.map(|info| info.remove("crc32c"));
        if let Some(tag) = action.pointer_mut("/add/tags/lacus") {
            *tag = tag.as_str().unwrap().replace("[6,7]", "[7,6]").into();
        }
    })
    .await;
    assert_corrupt(log.open(At::Version(1)).await, "checksum");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_opens_without_its_hint() {
    let log = Log::new();
    let table = filled(&log).await;
    let mut fork = table.fork("_branches/b").await.unwrap();
    let tensor = random_tensor(&Dice::new(1), DType::U8, &[3], 1);
    put(&mut fork, "new", &tensor, Wish::default()).await.unwrap();
    let truth = content(&fork).await.unwrap();
    let hint = "_branches/b/_delta_log/_last_checkpoint";
    let sound = log.get(hint).await;
    let open = || Table::open_in(table.home(), "_branches/b", World::real(), At::Tip);
    let text = String::from_utf8(sound.clone()).unwrap();
    let version = format!("\"version\":{}", table.version());
    assert!(text.contains(&version), "{text}");
    let damaged = [
        String::new(),
        "{".to_owned(),
        text.replace(&version, "\"version\":3"),
        text.replace(&version, "\"version\":77"),
        text.replace("sizeInBytes\":", "sizeInBytes\":1"),
        text.replace("lacus.crc32c\":\"", "lacus.crc32c\":\"1"),
    ];
    let below = log.store().below("_branches/b").unwrap();
    for text in damaged {
        log.set(hint, text.clone()).await;
        assert_eq!(content(&open().await.unwrap()).await.unwrap(), truth, "{text}");
        let found = check_log(&below).await.unwrap();
        assert!(found.is_some_and(|found| found.what.contains("_delta_log/")), "{text}");
    }
    log.store().remove(vec![hint.to_owned()]).await.unwrap();
    assert_eq!(content(&open().await.unwrap()).await.unwrap(), truth);
    assert!(check_log(&below).await.unwrap().is_some());
    repair_log(&below, true).await.unwrap();
    assert!(!log.store().exists(hint).await.unwrap(), "a dry run writes nothing");
    repair_log(&below, false).await.unwrap();
    assert!(log.store().exists(hint).await.unwrap() && check_log(&below).await.unwrap().is_none());
    assert_eq!(content(&open().await.unwrap()).await.unwrap(), truth);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gap_in_a_log_is_named() {
    let log = Log::new();
    let table = filled(&log).await;
    for version in [0, 4] {
        let sound = log.get(&entry(version)).await;
        log.store().remove(vec![entry(version)]).await.unwrap();
        assert_corrupt(log.open(At::Tip).await, &entry(version));
        assert_corrupt(table.history(None).await, &entry(version));
        log.set(&entry(version), sound).await;
    }
    assert_eq!(log.open(At::Tip).await.unwrap().version(), table.version());
}
