use std::sync::Arc;

use lacus_layout::{Value, Wish};
use lacus_simulation::{Dice, seeded_world};
use lacus_tensor::{DType, Shape, Tensor};
use object_store::memory::InMemory;

use super::*;
use crate::log::actions::{Foreign, entry_path};
use crate::log::deletion::encode_inline;
use crate::log::replay::{replay, without_listing};
use crate::log::snapshot::{FileTags, TAG};
use crate::{At, ErrorKind, Put, Table, WriteOptions};

fn memory() -> Store {
    let url = url::Url::parse("memory:///checkpoints/").unwrap();
    Store::over(url, Arc::new(InMemory::new())).unwrap()
}

async fn put(table: &mut Table, name: &str, value: u8) -> u64 {
    let shape = Shape::new(vec![4]).unwrap();
    let mut tensor = Tensor::zeros(DType::U8, shape).unwrap();
    tensor.bytes_mut().fill(value);
    let value = Value::Dense(tensor.as_ref());
    let put = Put { name: name.into(), value, wish: Wish::default(), metadata: None };
    table.put(vec![put], &WriteOptions::default()).await.unwrap()
}

/// A state of as many files as asked for, each as Lacus writes them, some with deletion vectors.
async fn large_state(dice: &Dice, files: usize) -> LogState {
    let mut table = Table::create(memory(), seeded_world(1)).await.unwrap();
    put(&mut table, "encoder/layer-number/weight", 1).await;
    let mut state = table.snapshot().log_state();
    let sample = state.adds[0].clone();
    let world = seeded_world(2);
    state.adds = (0..files)
        .map(|i| {
            let mut add = sample.clone();
            let name = format!("encoder/layer-{i}/weight");
            add.path = format!("data/{}.parquet", world.uuid());
            add.size += dice.below(100_000) as i64;
            add.modification_time += 1000 * i as i64 + dice.below(1000) as i64;
            add.stats = add.stats.map(|stats| stats.replace("encoder/layer-number/weight", &name));
            if dice.one_in(10) {
                let rows = [1, 5 + dice.below(100)].into_iter().collect();
                let mut descriptor = encode_inline(&rows);
                if dice.one_in(2) {
                    descriptor.storage_type = "u".into();
                    descriptor.path_or_inline_dv = z85::encode(world.uuid().as_bytes());
                    descriptor.offset = Some(1);
                }
                add.deletion_vector = Some(descriptor);
            }
            for text in add.tags.iter_mut().flat_map(|tags| tags.get_mut(TAG)).flatten() {
                let mut tags: FileTags = serde_json::from_str(text).unwrap();
                tags.tail += dice.below(100_000);
                tags.tail_crc = Some(dice.roll() as u32);
                tags.deleted = add.deletion_vector.as_ref().map_or(0, |dv| dv.cardinality as u64);
                tags.tensors[0].name = name.clone();
                *text = serde_json::to_string(&tags).unwrap();
            }
            add
        })
        .collect();
    state
}

fn sorted(mut state: LogState) -> Vec<String> {
    state.adds.sort_by(|a, b| a.path.cmp(&b.path));
    state.adds.iter().map(|add| format!("{:?}", Add { data_change: true, ..add.clone() })).collect()
}

async fn check(store: &Store, state: &LogState) {
    let ours = without_listing(store, None).await.unwrap().unwrap();
    assert_eq!(ours.foreign, state.foreign);
    assert_eq!(ours.version, state.version);
    assert_eq!(ours.metadata, state.metadata);
    assert_eq!(ours.protocol["minReaderVersion"], state.protocol["minReaderVersion"]);
    assert!(sorted(ours) == sorted(state.clone()));
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_files_take_less_than_two_megabytes() {
    let dice = Dice::new(1);
    let state = LogState { version: 57, ..large_state(&dice, 10_000).await };
    let bytes = render(&state).unwrap();
    assert!(bytes.len() < 2_000_000, "{}", bytes.len());
    let store = memory();
    write(&store, &state).await.unwrap();
    check(&store, &state).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_may_begin_with_a_checkpoint() {
    let mut table = Table::create(memory(), seeded_world(3)).await.unwrap();
    for i in 0..3 {
        put(&mut table, &format!("t{i}"), i).await;
    }
    let mut state = LogState { version: 57, ..table.snapshot().log_state() };
    let path = "../../data/an old file, 100%.parquet".to_owned();
    state.adds[0].path = path.clone();
    let txn = json!({"appId": "stream", "version": 7, "lastUpdated": 12});
    let domain = json!({"domain": "them", "configuration": "{}", "removed": false});
    state.foreign = Foreign {
        transactions: [("stream".to_owned(), txn)].into(),
        domains: [("them".to_owned(), domain)].into(),
    };
    let store = memory();
    write(&store, &state).await.unwrap();
    check(&store, &state).await;
    let mut table = Table::open(store.clone(), seeded_world(4), At::Tip).await.unwrap();
    assert_eq!((table.version(), table.names().len()), (57, 3));
    assert!(table.snapshot().files.contains_key(&path));
    // Past the next log checkpoint, which carries on what other writers keep.
    for i in 0..6 {
        put(&mut table, "new", i).await;
    }
    assert_eq!(LastCheckpoint::read(&store).await.unwrap().unwrap().version, 60);
    check(&store, &LogState { foreign: state.foreign.clone(), ..table.snapshot().log_state() }).await;
    for version in 57..=63 {
        let at = Table::open(store.clone(), seeded_world(4), At::Version(version)).await.unwrap();
        assert_eq!(at.names().len(), if version == 57 { 3 } else { 4 });
    }
    assert!(!store.exists(&entry_path(57)).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_checkpoint_does_not_move_back() {
    let store = memory();
    let table = Table::create(store.clone(), seeded_world(5)).await.unwrap();
    let state = table.snapshot().log_state();
    for version in [40, 20] {
        write(&store, &LogState { version, ..state.clone() }).await.unwrap();
        assert_eq!(LastCheckpoint::read(&store).await.unwrap().unwrap().version, 40);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_checkpoint_is_noticed() {
    let store = memory();
    let mut table = Table::create(store.clone(), seeded_world(6)).await.unwrap();
    for i in 0..22 {
        put(&mut table, "x", i).await;
    }
    let state = table.snapshot().log_state();
    let last = LastCheckpoint::read(&store).await.unwrap();
    let path = checkpoint_path(20);
    let sound = store.read_all(&path).await.unwrap();
    let right = format!("{:?}", read(&store, 20, last.as_ref()).await.unwrap());
    for at in [5, sound.len() / 2, sound.len() - 5] {
        let mut bytes = sound.to_vec();
        bytes[at] ^= 0x10;
        super::put(&store, &path, bytes.into()).await.unwrap();
        // Its own checksum tells whether the change is one of what it says.
        match read(&store, 20, last.as_ref()).await {
            Ok(actions) => assert_eq!(format!("{actions:?}"), right),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt),
        }
        // The entries are all there, so nothing is lost.
        let found = without_listing(&store, None).await.unwrap().unwrap();
        assert!(found.version == 22 && sorted(found) == sorted(state.clone()));
    }
    super::put(&store, &path, sound.slice(..sound.len() / 2)).await.unwrap();
    store.remove(vec![entry_path(0)]).await.unwrap();
    let error = replay(&store, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains(&path), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_is_gone_is_done_without() {
    let store = memory();
    let mut table = Table::create(store.clone(), seeded_world(6)).await.unwrap();
    for i in 0..70 {
        put(&mut table, "x", i).await;
    }
    for (gone, lasting) in [(60, 68), (40, 55), (20, 39)] {
        store.remove(vec![checkpoint_path(gone)]).await.unwrap();
        for version in [None, Some(lasting)] {
            let state = without_listing(&store, version).await.unwrap().unwrap();
            assert_eq!((state.version, state.adds.len()), (version.unwrap_or(70), 1));
        }
    }
}

#[test]
fn garbage_gives_an_error() {
    let dice = Dice::new(7);
    for length in [0, 8, 100, 5000] {
        let bytes: Vec<u8> = (0..length).map(|_| dice.roll() as u8).collect();
        assert!(parse("x", bytes.into()).is_err());
    }
}
