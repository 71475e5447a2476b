//! Tensors staged by several handles become one version, or nothing; and nobody sees them before.

use lacus_layout::{Value, Wish};
use lacus_simulation::Dice;
use lacus_table::{ErrorKind, Put, StagedTensors, Table, WriteOptions};
use lacus_tensor::{DType, Tensor};

use crate::support::{Place, assert_same, layout, put, random_tensor, read};

async fn stage(table: &mut Table, tensors: &[(&str, &Tensor)], wish: &Wish) -> Vec<u8> {
    let items = tensors
        .iter()
        .map(|(name, tensor)| Put {
            name: (*name).to_owned(),
            value: Value::Dense(tensor.as_ref()),
            wish: wish.clone(),
            metadata: None,
        })
        .collect();
    table.stage(items, &WriteOptions::default()).await.unwrap().to_bytes().unwrap()
}

fn parsed(bytes: &[&[u8]]) -> Vec<StagedTensors> {
    bytes.iter().map(|bytes| StagedTensors::from_bytes(bytes).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn several_handles_make_one_version() {
    let place = Place::new();
    let mut table = place.create().await;
    let dice = Dice::new(5);
    let dense = random_tensor(&dice, DType::F32, &[40, 7], 1);
    let thin = random_tensor(&dice, DType::I32, &[30, 30], 20);
    put(&mut table, "old", &dense, Wish::default()).await.unwrap();
    let (mut one, mut two) = (place.open().await, place.open().await);
    let first = stage(&mut one, &[("a", &dense), ("old", &thin)], &Wish::default()).await;
    let second = stage(&mut two, &[("b", &thin)], &layout("COO")).await;
    assert_eq!((one.version(), place.open().await.names()), (1, vec!["old".to_owned()]));
    assert_same(&read(&place.open().await, "old", &[]).await, &dense, "not yet");

    let version = table.add_staged(parsed(&[&first, &second]), &WriteOptions::default()).await.unwrap();
    assert_eq!(version, 2);
    let seen = place.open().await;
    assert_eq!(seen.names(), ["a", "b", "old"]);
    for (name, tensor) in [("a", &dense), ("b", &thin), ("old", &thin)] {
        assert_same(&read(&seen, name, &[]).await, tensor, name);
    }
    let history = seen.history(Some(1)).await.unwrap();
    assert_eq!(history[0].operation, "ADD STAGED");

    // Once is enough.
    let error = table.add_staged(parsed(&[&first]), &WriteOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("added before"), "{error}");
    assert_eq!(place.open().await.version(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn inside_a_transaction_nobody_sees_them() {
    let place = Place::new();
    let mut table = place.create().await;
    let tensor = random_tensor(&Dice::new(6), DType::F32, &[9], 1);
    let staged = stage(&mut place.open().await, &[("x", &tensor)], &Wish::default()).await;
    table.begin().unwrap();
    table.add_staged(parsed(&[&staged]), &WriteOptions::default()).await.unwrap();
    assert!(table.contains("x") && !place.open().await.contains("x"));
    table.abandon().await;
    // What was staged outlives the transaction.
    table.add_staged(parsed(&[&staged]), &WriteOptions::default()).await.unwrap();
    assert_same(&read(&place.open().await, "x", &[]).await, &tensor, "x");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused_and_writes_nothing() {
    let place = Place::new();
    let mut table = place.create().await;
    let tensor = random_tensor(&Dice::new(7), DType::F32, &[9], 1);
    let staged = stage(&mut table, &[("x", &tensor)], &Wish::default()).await;
    let again = stage(&mut table, &[("x", &tensor)], &Wish::default()).await;
    let error = table.add_staged(parsed(&[&staged, &again]), &WriteOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("staged twice"), "{error}");

    let mut other = Place::new().create().await;
    let error = other.add_staged(parsed(&[&staged]), &WriteOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("another dataset"), "{error}");

    for at in 0..staged.len() {
        let mut damaged = staged.clone();
        damaged[at] ^= 1;
        assert!(StagedTensors::from_bytes(&damaged).is_err(), "{at}");
        assert!(StagedTensors::from_bytes(&staged[..at]).is_err(), "{at}");
    }

    for file in std::fs::read_dir(place.directory.path().join("ds/data")).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    let error = table.add_staged(parsed(&[&staged]), &WriteOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("is missing"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!((place.open().await.version(), place.open().await.names()), (0, vec![]));
}
