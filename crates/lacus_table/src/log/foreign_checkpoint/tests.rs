//! Checkpoints as other writers make them, each in place of the classic one and of the entries before it.

use bytes::Bytes;
use lacus_layout::{Value, Wish};
use lacus_simulation::seeded_world;
use lacus_tensor::{DType, ErrorKind, Shape, Tensor};
use serde_json::json;

use super::*;
use crate::log::actions::{Add, LogState, entry_path, render_lines};
use crate::log::log_checkpoint::{LAST_CHECKPOINT, checkpoint_path, render};
use crate::log::replay::replay;
use crate::{At, Put, Table, WriteOptions};

/// A table of 22 versions whose first entries and whose checkpoint are gone, and its state at version 20.
async fn beheaded(name: &str) -> (Store, LogState) {
    let store = Store::open(&format!("memory://foreign-checkpoint-{name}"), &Default::default()).unwrap();
    let mut table = Table::create(store.clone(), seeded_world(1)).await.unwrap();
    let value = Tensor::zeros(DType::U8, Shape::new([3]).unwrap()).unwrap();
    for i in 0..22 {
        let put = Put {
            name: format!("t{i}"),
            value: Value::Dense(value.as_ref()),
            wish: Wish::default(),
            metadata: None,
        };
        table.put(vec![put], &WriteOptions::default()).await.unwrap();
    }
    let state = replay(&store, Some(20)).await.unwrap();
    assert_eq!(state.adds.len(), 20);
    let mut gone: Vec<String> = (0..=20).map(entry_path).collect();
    gone.extend([checkpoint_path(20), LAST_CHECKPOINT.to_owned()]);
    store.remove(gone).await.unwrap();
    (store, state)
}

async fn put(store: &Store, name: &str, bytes: impl Into<Bytes>) {
    store.put_new(&format!("_delta_log/{name}"), bytes.into()).await.unwrap();
}

/// The bytes of a checkpoint with some of a state's files.
fn some(state: &LogState, adds: &[Add]) -> Bytes {
    render(&LogState { adds: adds.to_vec(), ..state.clone() }).unwrap()
}

async fn opens(store: &Store) {
    let table = Table::open(store.clone(), seeded_world(2), At::Tip).await.unwrap();
    assert_eq!((table.version(), table.names().len()), (22, 22));
    let old = Table::open(store.clone(), seeded_world(2), At::Version(20)).await.unwrap();
    assert_eq!(old.names().len(), 20);
}

async fn is_corrupt(store: &Store) {
    let error = Table::open(store.clone(), seeded_world(2), At::Tip).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_in_parts_are_read_when_all_are_there() {
    let (store, state) = beheaded("parts").await;
    let part = |part: u64| format!("{:020}.checkpoint.{part:010}.0000000003.parquet", 20);
    put(&store, &part(1), some(&state, &state.adds[..7])).await;
    put(&store, &part(3), some(&state, &state.adds[15..])).await;
    is_corrupt(&store).await;
    put(&store, &part(2), some(&state, &state.adds[7..15])).await;
    opens(&store).await;
    // With the hint that such writers leave.
    put(&store, "_last_checkpoint", json!({"version": 20, "size": 22, "parts": 3}).to_string()).await;
    opens(&store).await;
    store.remove(vec![format!("_delta_log/{}", part(2))]).await.unwrap();
    put(&store, &part(2), "no parquet").await;
    is_corrupt(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_of_the_second_version_are_read_with_their_sidecars() {
    let (store, state) = beheaded("second").await;
    let own = vec![Action::Protocol(state.protocol.clone()), Action::Metadata(state.metadata.clone())];
    let mut lines = render_lines(&own);
    for line in [
        json!({"sidecar": {"path": "a.parquet", "sizeInBytes": 1, "modificationTime": 1}}),
        json!({"sidecar": {"path": "b%20c.parquet", "sizeInBytes": 1, "modificationTime": 1}}),
        json!({"checkpointMetadata": {"version": 20}}),
    ] {
        lines.extend(format!("{line}\n").bytes());
    }
    put(&store, &format!("{:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", 20), lines).await;
    put(&store, "_sidecars/a.parquet", some(&state, &state.adds[..12])).await;
    is_corrupt(&store).await;
    put(&store, "_sidecars/b c.parquet", some(&state, &state.adds[12..])).await;
    opens(&store).await;
}

#[test]
fn one_whole_checkpoint_is_found_among_files() {
    let check = |names: &[&str], expected: Option<&[&str]>| {
        let names: Vec<String> = names.iter().map(|name| format!("{:020}.checkpoint.{name}", 7)).collect();
        let expected = expected.map(|expected| {
            expected.iter().map(|name| format!("_delta_log/{:020}.checkpoint.{name}", 7)).collect::<Vec<_>>()
        });
        assert_eq!(one_of(7, &names), expected, "{names:?}");
    };
    let [one, two] = ["0000000001.0000000002.parquet", "0000000002.0000000002.parquet"];
    check(&[], None);
    check(&[one], None);
    check(&[two, one], Some(&[one, two]));
    check(&["0000000001.0000000001.parquet", one], Some(&["0000000001.0000000001.parquet"]));
    check(&["0000000001.9999999999.parquet"], None);
    check(&[one, "some-uuid.json"], Some(&["some-uuid.json"]));
    check(&["some-uuid.parquet"], Some(&["some-uuid.parquet"]));
    check(&["tmp", "x.y.z"], None);
}
