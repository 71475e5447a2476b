//! A check finds what is damaged, and repairs what needs no guessing.

use std::sync::Arc;

use lacus_history::{CheckReport, Timeline};
use lacus_io::{Store, World};
use lacus_table::{ColumnRow, ColumnValues, ColumnWrite, Finding, RowChange, ScalarBits, Table, ValueColumn};
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path;

use crate::datasets::{assert_whole, branch, commit, options, paths, put, small, store_over};

struct Dataset {
    objects: Arc<InMemory>,
    home: Store,
    timeline: Timeline,
}

impl Dataset {
    async fn new() -> Dataset {
        let objects = Arc::new(InMemory::new());
        let home = store_over(Arc::clone(&objects) as _);
        small(&home).await;
        Dataset { timeline: Timeline::new(home.clone(), World::real()), objects, home }
    }

    async fn check(&self, repair: bool) -> CheckReport {
        // One that remembers nothing.
        Timeline::new(self.home.clone(), World::real()).check(repair, &options()).await.unwrap()
    }

    /// Changes the bytes of an object.
    async fn change(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.home.read_all(path).await.unwrap().to_vec();
        change(&mut bytes);
        self.objects.put(&Path::from(format!("ds/{path}")), bytes.into()).await.unwrap();
    }

    /// Every object with its bytes.
    async fn objects(&self) -> Vec<(String, Vec<u8>)> {
        let mut found = Vec::new();
        for path in paths(&self.home).await {
            let bytes = self.home.read_all(&path).await.unwrap().to_vec();
            found.push((path, bytes));
        }
        found
    }

    async fn find(&self, part: &str) -> String {
        let paths = paths(&self.home).await;
        paths.into_iter().rfind(|path| path.starts_with(part)).unwrap_or_else(|| panic!("{part}"))
    }

    async fn remove(&self, path: &str) {
        assert!(self.home.exists(path).await.unwrap(), "{path}");
        self.home.remove(vec![path.to_owned()]).await.unwrap();
    }

    /// Exactly what is damaged cannot be repaired, and is named.
    async fn assert_damage(&self, what: &str, problem: &str) {
        let report = self.check(true).await;
        let found = report.damage.iter().any(|f| f.what.contains(what) && f.problem.contains(problem));
        assert!(found, "{what}: {problem}: {report:?}");
        assert!(!self.check(false).await.damage.is_empty(), "it is still there");
    }

    /// It can be repaired, and is then whole.
    async fn assert_repaired(&self, what: &str, problem: &str) {
        let is_among = |findings: &[Finding]| {
            findings.iter().any(|f| f.what.contains(what) && f.problem.contains(problem))
        };
        let before = self.objects().await;
        let seen = self.check(false).await;
        let could = |r: &CheckReport| r.damage.is_empty() && r.repaired.is_empty() && is_among(&r.repairable);
        assert!(could(&seen), "{what}: {problem}: {seen:?}");
        assert!(before == self.objects().await, "a check without repair changes nothing");
        let done = self.check(true).await;
        let did = done.damage.is_empty() && done.repairable.is_empty() && is_among(&done.repaired);
        assert!(did, "{what}: {problem}: {done:?}");
        let after = self.check(false).await;
        assert!(after.is_healthy() && after.repaired.is_empty(), "{what}: {after:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_dataset_is_sound() {
    let dataset = Dataset::new().await;
    let report = dataset.check(true).await;
    assert_eq!((report.branches, report.tags, report.commits), (2, 1, 3));
    assert!(report.is_healthy() && report.repaired.is_empty(), "{report:?}");
    // x of main, and x (which is shared), y, z of dev: two numbers each, stored once.
    assert!(report.verified_bytes > 0);
    assert_whole(&dataset.home).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_branches_share_is_verified_once() {
    let dataset = Dataset::new().await;
    let before = dataset.check(false).await.verified_bytes;
    for name in ["a", "b", "c"] {
        branch(&dataset.timeline, name, "main").await;
    }
    let report = dataset.check(false).await;
    assert_eq!((report.branches, report.verified_bytes), (5, before));
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_refs_and_commits_are_named() {
    let dataset = Dataset::new().await;
    let path = dataset.find("_lacus/branches/dev/").await;
    dataset.change(&path, |bytes| bytes.truncate(20)).await;
    dataset.assert_damage("branch \"dev\"", "damaged").await;

    let dataset = Dataset::new().await;
    dataset.change("_lacus/tags/v1", |bytes| bytes.truncate(20)).await;
    dataset.assert_damage("tag \"v1\"", "damaged").await;

    let dataset = Dataset::new().await;
    let (id, _) = dataset.timeline.resolve_commit("main", "main").await.unwrap();
    dataset.change(&lacus_history::commit_path(&id), |bytes| bytes[30] ^= 1).await;
    dataset.assert_damage(&id.short(), "hash").await;

    let dataset = Dataset::new().await;
    let (id, _) = dataset.timeline.resolve_commit("main", "v1").await.unwrap();
    dataset.remove(&lacus_history::commit_path(&id)).await;
    dataset.assert_damage(&id.short(), "refers to it").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_files_and_logs_are_named() {
    let data = |table: &Table| table.store().directory().to_owned();
    let dataset = Dataset::new().await;
    let path = dataset.find("_branches/dev/data/").await;
    let path = match path.contains("killed") {
        true => {
            dataset.remove(&path).await;
            dataset.find("_branches/dev/data/").await
        }
        false => path,
    };
    dataset.remove(&path).await;
    dataset.assert_damage(&path, "the file is gone").await;

    // The file of a tagged commit that no branch's newest version has any more, but for dev, which borrows it.
    let dataset = Dataset::new().await;
    let tagged = dataset.timeline.open("main", Some("v1")).await.unwrap().table;
    assert_eq!(data(&tagged), "");
    let lives = tagged.lives().await.unwrap();
    let path = lives.files[0].path.clone();
    dataset.remove(&path).await;
    dataset.assert_damage(&path, "the file is gone").await;

    let dataset = Dataset::new().await;
    let tip = dataset.timeline.open("main", None).await.unwrap().table;
    let path = tip.lives().await.unwrap().files.into_iter().find(|life| life.until.is_none()).unwrap().path;
    dataset
        .change(&path, |bytes| {
            let at = bytes.windows(8).position(|bytes| bytes == 3i64.to_le_bytes()).unwrap_or(6);
            bytes[at] ^= 1;
        })
        .await;
    dataset.assert_damage("branch \"main\"", "").await;

    let dataset = Dataset::new().await;
    dataset.remove("_delta_log/00000000000000000002.json").await;
    dataset.assert_damage("branch \"main\"", "").await;

    let dataset = Dataset::new().await;
    dataset.remove("_delta_log/00000000000000000003.json").await;
    dataset.assert_damage("branch \"main\"", "its log has versions 0 to 2").await;
    let error = dataset.timeline.open("main", None).await.unwrap_err();
    assert!(error.to_string().contains("its log ends with version 2"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ref_that_lags_behind_is_moved_on() {
    let dataset = Dataset::new().await;
    let mut main = dataset.timeline.open("main", None).await.unwrap().table;
    main.begin().unwrap();
    put(&mut main, "x", &[3, 3]).await;
    let record = crate::datasets::record("in one");
    dataset.timeline.commit_transaction(&mut main, &record, &options()).await.unwrap();
    let path = dataset.find("_lacus/branches/main/").await;
    dataset.remove(&path).await;
    dataset.assert_repaired("branch \"main\"", "version 4 carries a commit").await;
    assert!(dataset.home.exists(&path).await.unwrap());
    assert_whole(&dataset.home).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn log_checkpoints_are_made_anew() {
    let hint = "_branches/dev/_delta_log/_last_checkpoint";
    let dataset = Dataset::new().await;
    dataset.remove(hint).await;
    dataset.assert_repaired(hint, "it is missing").await;
    assert!(dataset.home.exists(hint).await.unwrap());
    assert_whole(&dataset.home).await;

    let dataset = Dataset::new().await;
    dataset.change(hint, |bytes| bytes.truncate(9)).await;
    dataset.assert_repaired(hint, "it is damaged").await;
    assert_whole(&dataset.home).await;

    // One of main, where every entry is there.
    let dataset = Dataset::new().await;
    let mut main = dataset.timeline.open("main", None).await.unwrap().table;
    for _ in main.version()..22 {
        put(&mut main, "x", &[3, 3]).await;
    }
    commit(&dataset.timeline, &mut main, "later").await;
    let path = "_delta_log/00000000000000000020.checkpoint.parquet";
    dataset.change(path, |bytes| bytes[40] ^= 1).await;
    // What is in it may be sound, and only the hint says that it is another.
    dataset.assert_repaired("_delta_log/", "").await;
    assert_whole(&dataset.home).await;

    // What a branch began with is said nowhere else.
    let dataset = Dataset::new().await;
    let path = "_branches/dev/_delta_log/00000000000000000001.checkpoint.parquet";
    dataset.change(path, |bytes| bytes.truncate(bytes.len() / 2)).await;
    dataset.assert_damage("_branches/dev/_delta_log", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_power_cut_left_empty_is_removed_if_it_was_never_safe() {
    // A version of the draft.
    let dataset = Dataset::new().await;
    let mut main = dataset.timeline.open("main", None).await.unwrap().table;
    put(&mut main, "x", &[4, 4]).await;
    let path = format!("_delta_log/{:020}.json", main.version());
    dataset.change(&path, |bytes| bytes.clear()).await;
    let error = dataset.timeline.open("main", None).await.unwrap_err();
    assert!(error.kind() == lacus_tensor::ErrorKind::Corrupt && error.to_string().contains(&path), "{error}");
    dataset.assert_repaired("_delta_log", "log entry 4 is empty").await;
    assert_whole(&dataset.home).await;

    // The version of a commit: it was promised.
    let dataset = Dataset::new().await;
    dataset.change("_delta_log/00000000000000000003.json", |bytes| bytes.clear()).await;
    dataset.assert_damage("branch \"main\"", "log entry 3 is empty").await;

    // A move of a branch.
    let dataset = Dataset::new().await;
    let mut main = dataset.timeline.open("main", None).await.unwrap().table;
    put(&mut main, "w", &[4, 4]).await;
    commit(&dataset.timeline, &mut main, "third").await;
    let path = dataset.find("_lacus/branches/main/").await;
    dataset.change(&path, |bytes| bytes.fill(0)).await;
    assert!(dataset.timeline.open("main", None).await.unwrap_err().to_string().contains(&path));
    dataset.assert_repaired("branch \"main\"", "empty object").await;
    let status = dataset.timeline.status("main").await.unwrap();
    assert_eq!((status.version, status.draft.len()), (4, 1), "the version is there, as a draft");
    assert_whole(&dataset.home).await;
}

async fn with_rows(dataset: &Dataset) -> (Table, Vec<u64>) {
    let mut main = dataset.timeline.open("main", None).await.unwrap().table;
    let header = ColumnRow {
        htype: "class_label".into(),
        dtype: "int64".into(),
        shape: Vec::new(),
        form: ValueColumn::Int,
        parameters: Default::default(),
        metadata: None,
    };
    let ids: Vec<u64> = main.reserve_ids(4).await.unwrap().collect();
    let change = RowChange {
        op: "APPEND",
        append: ids.clone(),
        writes: vec![labels(&ids)],
        headers: vec![("labels".into(), header)],
        ..Default::default()
    };
    main.change_rows(change, &options()).await.unwrap();
    (main, ids)
}

fn labels(ids: &[u64]) -> ColumnWrite<'static> {
    let values = ColumnValues::Scalars(ScalarBits::Int(ids.iter().map(|id| *id as i64).collect()));
    ColumnWrite { name: "labels".into(), ids: ids.to_vec(), values }
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_belong_to_rows() {
    let dataset = Dataset::new().await;
    let (mut main, ids) = with_rows(&dataset).await;
    let report = dataset.check(false).await;
    assert!(report.is_healthy(), "{report:?}");
    let strange = [ids[3] + 100];
    let change = RowChange { op: "UPDATE", writes: vec![labels(&strange)], ..Default::default() };
    main.change_rows(change, &options()).await.unwrap();
    dataset.assert_repaired("column \"labels\"", "1 samples").await;
    main.refresh().await.unwrap();
    assert_eq!(main.sample_rows("labels").await.unwrap(), 4);
    assert_whole(&dataset.home).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_row_id_is_given_twice() {
    let dataset = Dataset::new().await;
    let (_, ids) = with_rows(&dataset).await;
    let path = dataset.find("_lacus/rows/").await;
    dataset.remove(&path).await;
    dataset.assert_repaired("row ids", "is a row's").await;
    let mut dev = dataset.timeline.open("dev", None).await.unwrap().table;
    assert!(dev.reserve_ids(1).await.unwrap().start > ids[3], "dev has no rows, and knows nothing of main's");
}
