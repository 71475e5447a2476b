//! Small datasets with branches, and clocks that run ahead.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use lacus_history::{Record, Recorded, Timeline};
use lacus_io::{Clock, Store, World};
use lacus_layout::{Value, Wish};
use lacus_simulation::Dice;
use lacus_table::{Put, Read, Table, WriteOptions};
use lacus_tensor::{DType, Index, Shape, Tensor};
use object_store::ObjectStore;

pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);

struct Ahead(Duration);

impl Clock for Ahead {
    fn now_millis(&self) -> i64 {
        World::real().now_millis() + self.0.as_millis() as i64
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

/// The history of a dataset as somebody sees it whose clock is ahead: everything there is was made that long ago.
pub(crate) fn after(home: &Store, time: Duration) -> Timeline {
    let dice = Dice::new(World::real().uuid().as_u64_pair().0);
    Timeline::new(home.clone(), World::new(Arc::new(Ahead(time)), Arc::new(dice)))
}

pub(crate) fn store_over(inner: Arc<dyn ObjectStore>) -> Store {
    Store::over(url::Url::parse("memory:///ds/").unwrap(), inner).unwrap()
}

pub(crate) fn options() -> WriteOptions {
    WriteOptions { author: Some("ada".into()), ..WriteOptions::default() }
}

pub(crate) fn record(message: &str) -> Record {
    Record { message: message.into(), author: Some("ada".into()), ..Record::default() }
}

pub(crate) fn numbers(values: &[i64]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut tensor = Tensor::zeros(DType::I64, Shape::new(vec![values.len() as u64]).unwrap()).unwrap();
    tensor.bytes_mut().copy_from_slice(&bytes);
    tensor
}

pub(crate) async fn put(table: &mut Table, name: &str, values: &[i64]) {
    let tensor = numbers(values);
    let wish = Wish { chunk_shape: Some(vec![2]), layout: Some("FTSF".into()), ..Wish::default() };
    let value = Value::Dense(tensor.as_ref());
    table.put(vec![Put { name: name.into(), value, wish, metadata: None }], &options()).await.unwrap();
}

pub(crate) async fn write(table: &mut Table, name: &str, at: i64, value: i64) {
    let values = numbers(&[value]);
    let index = [Index::Slice { start: Some(at), stop: Some(at + 1), step: None }];
    table.write_region(name, &index, values.as_ref(), &options()).await.unwrap();
}

pub(crate) async fn get(table: &Table, name: &str) -> Vec<i64> {
    let read = table.read(name, &[]).await.unwrap_or_else(|e| panic!("{name}: {e}"));
    let Read::Dense(tensor) = read else { panic!() };
    tensor.bytes().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect()
}

pub(crate) async fn commit(timeline: &Timeline, table: &mut Table, message: &str) -> Recorded {
    timeline.commit(table, &record(message), false).await.unwrap()
}

pub(crate) async fn branch(timeline: &Timeline, name: &str, from: &str) -> Table {
    let (id, commit) = timeline.resolve_commit("main", from).await.unwrap();
    timeline.create_branch(name, (id, &commit)).await.unwrap();
    timeline.open(name, None).await.unwrap().table
}

/// What `name` is at a revision of a branch.
pub(crate) async fn at(timeline: &Timeline, on: &str, revision: Option<&str>, name: &str) -> Vec<i64> {
    get(&timeline.open(on, revision).await.unwrap().table, name).await
}

pub(crate) async fn paths(home: &Store) -> BTreeSet<String> {
    home.list("").await.unwrap().into_iter().map(|entry| entry.path).collect()
}

/// A dataset with something for every root: a tagged commit, one that is not, versions in no commit, a branch with a
/// commit and a draft; and with what nobody needs: a deleted branch, a killed writer's file.
///
/// ```text
/// main   1: x=[1,1]  first, v1    2: x=[2,2]    3: x=[3,3]  second
/// dev    └─ y=[5,5]  on dev       draft: z=[6,6]
/// dead   └─ w=[7,7]  deleted
/// ```
pub(crate) async fn small(home: &Store) -> Timeline {
    let timeline = Timeline::new(home.clone(), World::real());
    let mut main = Table::create(home.clone(), World::real()).await.unwrap();
    put(&mut main, "x", &[1, 1]).await;
    let first = commit(&timeline, &mut main, "first").await;
    timeline.create_tag("v1", first.id, None, String::new()).await.unwrap();
    put(&mut main, "x", &[2, 2]).await;
    put(&mut main, "x", &[3, 3]).await;
    commit(&timeline, &mut main, "second").await;
    let mut dev = branch(&timeline, "dev", "v1").await;
    put(&mut dev, "y", &[5, 5]).await;
    commit(&timeline, &mut dev, "on dev").await;
    put(&mut dev, "z", &[6, 6]).await;
    let mut dead = branch(&timeline, "dead", "v1").await;
    put(&mut dead, "w", &[7, 7]).await;
    commit(&timeline, &mut dead, "on dead").await;
    timeline.delete_branch("dead", true).await.unwrap();
    home.put_new("data/killed.parquet", "half".into()).await.unwrap();
    home.put_new("_branches/dev/data/killed.parquet", "half".into()).await.unwrap();
    home.put_new("deletion_vector_killed.bin", "half".into()).await.unwrap();
    home.put_new("data/read.me", "mine".into()).await.unwrap();
    home.put_new("notes.md", "mine".into()).await.unwrap();
    timeline
}

/// Everything that somebody can name in that dataset is as it was.
pub(crate) async fn assert_whole(home: &Store) {
    let timeline = Timeline::new(home.clone(), World::real());
    assert_eq!(at(&timeline, "main", None, "x").await, [3, 3]);
    assert_eq!(at(&timeline, "main", Some("v1"), "x").await, [1, 1]);
    assert_eq!(at(&timeline, "dev", None, "x").await, [1, 1]);
    assert_eq!(at(&timeline, "dev", Some("HEAD"), "y").await, [5, 5]);
    assert_eq!(at(&timeline, "dev", None, "z").await, [6, 6]);
    let report = timeline.check(false, &options()).await.unwrap();
    assert!(report.is_healthy(), "{report:?}");
}
