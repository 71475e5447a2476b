//! Random histories, replayed from log checkpoints and from nothing but entries. (That other readers see the same files is
//! tested with them, in `python/tests`.)

use std::sync::Arc;

use lacus_layout::{Value, Wish};
use lacus_simulation::{Dice, seeded_world};
use lacus_tensor::{DType, Index, Shape, Tensor};
use object_store::memory::InMemory;
use serde_json::json;

use super::*;
use crate::log::snapshot::Snapshot;
use crate::{At, Put, Table, WriteOptions};

fn random_tensor(dice: &Dice, dims: &[u64]) -> Tensor {
    let mut tensor = Tensor::zeros(DType::U8, Shape::new(dims.to_vec()).unwrap()).unwrap();
    tensor.bytes_mut().fill_with(|| dice.roll() as u8);
    tensor
}

async fn put(table: &mut Table, name: &str, tensor: &Tensor, layout: &str) {
    let mut wish = Wish { layout: Some(layout.to_owned()), ..Wish::default() };
    if name == "big" {
        wish.chunk_shape = Some(vec![1, 100_000]);
    }
    let put = Put { name: name.into(), value: Value::Dense(tensor.as_ref()), wish, metadata: None };
    table.put(vec![put], &WriteOptions::default()).await.unwrap();
}

/// All of a snapshot.
fn described(state: LogState) -> String {
    let protocol = without_nulls(state.protocol);
    let (snapshot, untagged) = Snapshot::new(LogState { protocol, ..state }).unwrap();
    assert!(untagged.is_empty());
    format!("{snapshot:#?}")
}

async fn check(store: &Store, version: Option<u64>, what: &str) -> LogState {
    let ours = without_listing(store, version).await.unwrap().unwrap_or_else(|| panic!("{what}: listed"));
    let plain = fold(store, None, None, &[], ours.version).await.unwrap().unwrap();
    let listing = Listing::of(store).await.unwrap();
    let by_list = listed(store, &listing, version).await.unwrap();
    let ours_text = described(ours.clone());
    for other in [plain, by_list] {
        let other_text = described(other);
        if ours_text != other_text {
            let differing = ours_text.lines().zip(other_text.lines()).find(|(a, b)| a != b);
            panic!("{what}: {differing:#?}");
        }
    }
    ours
}

async fn run(seed: u64, deletion_vectors: bool) {
    let dice = Dice::new(seed);
    let url = url::Url::parse("memory:///histories/").unwrap();
    let store = Store::over(url, Arc::new(InMemory::new())).unwrap();
    let options = WriteOptions::default();
    let mut table = Table::create(store.clone(), seeded_world(seed)).await.unwrap();
    if deletion_vectors {
        // A large array whose parts are changed makes the table use them.
        put(&mut table, "big", &random_tensor(&dice, &[20, 100_000]), "FTSF").await;
    }
    let mut foreign = Foreign::default();
    let mut vectors_seen = false;
    for step in 0..50 {
        let what = format!("seed {seed} step {step}");
        let names: Vec<String> = table.names().into_iter().filter(|name| name != "big").collect();
        let old = names.get(dice.below(names.len().max(1) as u64) as usize).cloned();
        match (dice.below(10), old) {
            (0..=3, _) | (_, None) => {
                let layout = ["FTSF", "COO", "CSR"][dice.below(3) as usize];
                let tensor = random_tensor(&dice, &[1 + dice.below(9), 5]);
                put(&mut table, &format!("t{}", dice.below(8)), &tensor, layout).await;
            }
            (4, _) if deletion_vectors => {
                let patch = random_tensor(&dice, &[100_000]);
                let at = [Index::At(dice.below(20) as i64)];
                table.write_region("big", &at, patch.as_ref(), &options).await.unwrap();
            }
            (4 | 5, Some(name)) => {
                table.remove(&[&name], &options).await.unwrap();
            }
            (6, _) => {
                table.compact(&options).await.unwrap();
            }
            (7, name) => {
                let name = name.filter(|_| dice.one_in(2));
                table.set_metadata(name.as_deref(), json!({"step": step}), &options).await.unwrap();
            }
            _ => {
                // Another writer notes how far it got.
                let app = format!("app{}", dice.below(3));
                let txn = json!({"appId": app, "version": step, "lastUpdated": 1});
                let removed = dice.one_in(2);
                let domain = json!({"domain": app, "configuration": "{}", "removed": removed});
                let lines = [
                    json!({"commitInfo": {"timestamp": 5, "operation": "STREAM"}}),
                    json!({"txn": txn}),
                    json!({"domainMetadata": domain}),
                ];
                let text: Vec<String> = lines.iter().map(Json::to_string).collect();
                store.put_new(&entry_path(table.version() + 1), text.join("\n").into()).await.unwrap();
                table.refresh().await.unwrap();
                foreign.note(&Action::Transaction(txn));
                foreign.note(&Action::Domain(domain));
            }
        }
        let opened = check(&store, None, &what).await;
        vectors_seen |= opened.adds.iter().any(|add| add.deletion_vector.is_some());
        assert_eq!(opened.version, table.version(), "{what}");
        assert_eq!(opened.foreign, foreign, "{what}");
        assert_eq!(table.snapshot().log_state().foreign, opened.foreign, "{what}");
        if dice.one_in(5) {
            table = Table::open(store.clone(), seeded_world(1000 * seed + step), At::Tip).await.unwrap();
        }
    }
    assert_eq!(vectors_seen, deletion_vectors, "seed {seed}");
    for version in 0..=table.version() {
        check(&store, Some(version), &format!("seed {seed} version {version}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_ways_lead_to_the_same_snapshot() {
    for seed in 0..4 {
        run(seed, false).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_ways_lead_to_the_same_snapshot_with_deletion_vectors() {
    for seed in 10..13 {
        run(seed, true).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_unusual_is_left_to_a_listing() {
    let dice = Dice::new(20);
    let url = url::Url::parse("memory:///unusual/").unwrap();
    let store = Store::over(url, Arc::new(InMemory::new())).unwrap();
    let mut table = Table::create(store.clone(), seeded_world(20)).await.unwrap();
    put(&mut table, "x", &random_tensor(&dice, &[3]), "FTSF").await;
    // An action nobody has heard of is passed over, as the protocol has it, and is in no log checkpoint.
    let unknown = json!({"somethingNew": {"path": "x"}}).to_string();
    store.put_new(&entry_path(2), unknown.into()).await.unwrap();
    assert_eq!(without_listing(&store, None).await.unwrap().unwrap().version, 2);
    table.refresh().await.unwrap();
    for _ in 0..19 {
        put(&mut table, "x", &random_tensor(&dice, &[3]), "FTSF").await;
    }
    check(&store, None, "after a checkpoint").await;
    check(&store, Some(10), "before it").await;
    // Versions that are not there.
    assert!(without_listing(&store, Some(22)).await.unwrap().is_none());
    assert!(without_listing(&store, Some(u64::MAX)).await.unwrap().is_none());
    // An entry after a gap.
    store.put_new(&entry_path(23), "{}".into()).await.unwrap();
    assert!(without_listing(&store, None).await.unwrap().is_none());
}

#[test]
fn a_replay_begins_where_a_checkpoint_is_likely() {
    fn check(last: Option<u64>, version: Option<u64>, expected: &[Option<u64>]) {
        assert_eq!(starts(last, version), expected, "{last:?} {version:?}");
    }
    check(None, None, &[None]);
    check(None, Some(7), &[None]);
    check(None, Some(20), &[Some(20), None]);
    check(None, Some(59), &[Some(40), Some(20), None]);
    check(Some(0), None, &[Some(0), None]);
    check(Some(57), None, &[Some(57), Some(40), Some(20), None]);
    check(Some(40), Some(45), &[Some(40), Some(20), None]);
    check(Some(200), None, &[Some(200), Some(180), Some(160), Some(140), Some(120), Some(100)]);
    check(None, Some(205), &[Some(200), Some(180), Some(160), Some(140), Some(120)]);
}
