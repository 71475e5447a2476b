//! Plan, fetch, decode: what comes out is what one call gives, and damage is found by the last of them.

use std::borrow::Cow;
use std::sync::Arc;

use lacus_dataset::{Batch, Dataset, ErrorKind, Sample, View};
use lacus_io::{Store, World};
use lacus_table::Table;
use lacus_tensor::{Buffer, DType, Index, Shape, Tensor};

use crate::support::{Place, extend, fixed, options, spec};

fn tensor(row: u64, size: u64) -> Tensor {
    let elements: Vec<u16> = (0..size).map(|i| (i * 31 + row * 7) as u16).collect();
    Tensor::new(DType::U16, Shape::new(vec![size]).unwrap(), Buffer::from_elements(&elements)).unwrap()
}

/// A column of each form, with holes in two of them.
async fn fill(dataset: &mut Dataset) {
    dataset.add_column("label", &fixed(DType::U16, &[]), None, None, &options()).await.unwrap();
    dataset.add_column("text", &spec("text"), None, None, &options()).await.unwrap();
    dataset.add_column("fixed", &fixed(DType::U16, &[900]), None, None, &options()).await.unwrap();
    dataset.add_column("ragged", &spec("generic"), None, None, &options()).await.unwrap();
    for part in 0..3 {
        let rows = part * 10..part * 10 + 10;
        let scalar = |row: u64| {
            Tensor::new(DType::U16, Shape::default(), Buffer::from_elements(&[row as u16])).unwrap()
        };
        let labels: Vec<Tensor> = rows.clone().map(scalar).collect();
        let same: Vec<Tensor> = rows.clone().map(|row| tensor(row, 900)).collect();
        let ragged: Vec<Tensor> = rows.clone().map(|row| tensor(row, 100 + row)).collect();
        let hole = |i: usize, sample| if i == 4 { Sample::Missing } else { sample };
        let columns = vec![
            ("label", labels.iter().map(|label| Sample::Tensor(label.as_ref())).collect()),
            (
                "text",
                rows.enumerate()
                    .map(|(i, row)| hole(i, Sample::Text(Cow::Owned(format!("t{row}")))))
                    .collect(),
            ),
            ("fixed", same.iter().map(|one| Sample::Tensor(one.as_ref())).collect()),
            (
                "ragged",
                ragged.iter().enumerate().map(|(i, one)| hole(i, Sample::Tensor(one.as_ref()))).collect(),
            ),
        ];
        extend(dataset, columns).await;
    }
}

async fn check(mut dataset: Dataset) {
    fill(&mut dataset).await;
    let part = [Index::Slice { start: Some(5), stop: Some(50), step: None }];
    for positions in [vec![], vec![29], vec![3, 4, 5, 6], vec![20, 3, 3, 14, 0]] {
        for (column, indices) in [
            ("label", &[][..]),
            ("text", &[]),
            ("fixed", &[]),
            ("fixed", &part),
            ("ragged", &[]),
            ("ragged", &part),
        ] {
            let planned = dataset.plan(column, &positions, indices).await.unwrap();
            assert!(planned.bytes() > 0 || column == "text" || positions.is_empty() || positions == [4]);
            let fetched = planned.fetch().await.unwrap();
            // Decoding needs neither the dataset nor a runtime.
            let decoded = std::thread::spawn(move || fetched.decode()).join().unwrap().unwrap();
            match (decoded, dataset.read(column, &positions, indices).await.unwrap()) {
                (Batch::Stacked(one), Batch::Stacked(other)) => assert_eq!(one, other),
                (Batch::Values(one), Batch::Values(other)) => {
                    assert_eq!(one.len(), positions.len());
                    assert_eq!(one, other);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    let out = dataset.plan("fixed", &[30], &[]).await.unwrap_err();
    assert_eq!(out.kind(), ErrorKind::Invalid, "{out}");
    let sliced = dataset.plan("text", &[0], &part).await.unwrap_err();
    assert_eq!(sliced.kind(), ErrorKind::Invalid, "{sliced}");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_steps_give_what_one_call_gives() {
    let store = Store::open("memory://three-steps-of-rows", &Default::default()).unwrap();
    check(Dataset::new(Table::create(store, World::real()).await.unwrap())).await;
    let place = Place::new();
    check(place.create().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_plans_its_own_rows() {
    let place = Place::new();
    let mut dataset = place.create().await;
    fill(&mut dataset).await;
    let every: Vec<u64> = (0..30).collect();
    let view = View::all(Arc::new(dataset), None).await.unwrap();
    let backwards = view.every(29, -1, 30).unwrap();
    for column in ["label", "text", "fixed", "ragged"] {
        let fetched = backwards.plan(column, &every, &[]).await.unwrap().fetch().await.unwrap();
        let positions: Vec<u64> = (0..30).rev().collect();
        let expected = view.source().read(column, &positions, &[]).await.unwrap();
        match (fetched.decode().unwrap(), expected) {
            (Batch::Stacked(one), Batch::Stacked(other)) => assert_eq!(one, other),
            (Batch::Values(one), Batch::Values(other)) => assert_eq!(one, other),
            other => panic!("{other:?}"),
        }
    }
    let some = backwards.select(&["label".to_owned()]).unwrap();
    assert_eq!(some.plan("fixed", &[0], &[]).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(backwards.plan("fixed", &[30], &[]).await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_found_by_the_last_step() {
    let place = Place::new();
    let mut dataset = place.create().await;
    fill(&mut dataset).await;
    for entry in std::fs::read_dir(place.directory.path().join("ds/data")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        // Samples lie in front of everything else.
        bytes[1000..2000].iter_mut().for_each(|byte| *byte ^= 1);
        std::fs::write(&path, bytes).unwrap();
    }
    let every: Vec<u64> = (0..30).collect();
    let fetched = dataset.plan("fixed", &every, &[]).await.unwrap().fetch().await.unwrap();
    assert_eq!(fetched.decode().unwrap_err().kind(), ErrorKind::Corrupt);
}
