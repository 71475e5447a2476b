//! What opening and changing cost, counted in bytes.

use lacus_dataset::{Batch, Dataset, Sample};
use lacus_tensor::{Buffer, DType, Shape, Tensor};

use crate::support::{Place, extend, fixed, floats, numbers, options, spec};

/// Bytes written since, by a change.
async fn written(dataset: &mut Dataset, change: impl AsyncFnOnce(&mut Dataset)) -> u64 {
    let before = dataset.table().store().counts().written_bytes();
    change(dataset).await;
    dataset.table().store().counts().written_bytes() - before
}

/// Distinct positions all over `0..rows`.
fn scattered(count: u64, rows: u64) -> Vec<u64> {
    (0..count).map(|i| (i * (rows / count) + i * 7 % (rows / count)) % rows).collect()
}

fn scalar(value: i64) -> Tensor {
    Tensor::new(DType::I64, Shape::default(), Buffer::from_elements(&[value])).unwrap()
}

const MILLION: u64 = 1_000_000;

/// A million rows whose labels count up.
async fn a_million_labels(dataset: &mut Dataset) {
    let column = fixed(DType::I64, &[]);
    dataset.add_column("label", &column, None, None, &options()).await.unwrap();
    for part in 0..10 {
        let labels: Vec<Tensor> = (0..MILLION / 10).map(|i| scalar((part * 100_000 + i) as i64)).collect();
        let samples = labels.iter().map(|label| Sample::Tensor(label.as_ref())).collect();
        extend(dataset, vec![("label", samples)]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_labels_of_a_million() {
    let place = Place::new();
    let mut dataset = place.create().await;
    a_million_labels(&mut dataset).await;
    assert_eq!(dataset.len().await.unwrap(), MILLION);
    let rows = scattered(1000, MILLION);
    let new: Vec<Tensor> = rows.iter().map(|row| scalar(-(*row as i64))).collect();
    let bytes = written(&mut dataset, async |dataset| {
        let samples: Vec<_> = new.iter().map(|label| Sample::Tensor(label.as_ref())).collect();
        dataset.update("label", &rows, samples, false, &options()).await.unwrap();
    })
    .await;
    assert!(bytes < 100_000, "1,000 labels took {bytes} bytes");
    let again = place.open().await;
    let all = numbers(&again, "label", &(0..MILLION).collect::<Vec<_>>()).await;
    let changed: std::collections::HashSet<u64> = rows.iter().copied().collect();
    let expected = |row: u64| if changed.contains(&row) { -(row as i64) } else { row as i64 };
    assert!((0..MILLION).zip(&all).all(|(row, found)| expected(row) == *found));

    // A column beside a million rows is one header row.
    let bytes = written(&mut dataset, async |dataset| {
        dataset.add_column("caption", &spec("text"), None, None, &options()).await.unwrap();
    })
    .await;
    assert!(bytes < 20_000, "a new column took {bytes} bytes");
    // Deleting rows writes what tells them, not what is left.
    let bytes = written(&mut dataset, async |dataset| {
        dataset.delete_rows(&rows, &options()).await.unwrap();
    })
    .await;
    assert!(bytes < 100_000, "deleting 1,000 rows took {bytes} bytes");
    assert_eq!(dataset.len().await.unwrap(), MILLION - 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_embeddings() {
    let place = Place::new();
    let mut dataset = place.create().await;
    let (rows, width) = (40_000u64, 768usize);
    dataset.add_column("embedding", &fixed(DType::F32, &[768]), None, None, &options()).await.unwrap();
    let made = |row: u64, salt: u64| -> Vec<f32> {
        (0..width as u64).map(|k| ((row * 31 + k * 17 + salt) as f32 * 0.37).sin()).collect()
    };
    for part in 0..4 {
        let tensors: Vec<Tensor> = (0..rows / 4).map(|i| floats(&made(part * rows / 4 + i, 0))).collect();
        let samples = tensors.iter().map(|tensor| Sample::Tensor(tensor.as_ref())).collect();
        extend(&mut dataset, vec![("embedding", samples)]).await;
    }
    let chosen = scattered(1000, rows);
    let new: Vec<Tensor> = chosen.iter().map(|row| floats(&made(*row, 5))).collect();
    let bytes = written(&mut dataset, async |dataset| {
        let samples: Vec<_> = new.iter().map(|tensor| Sample::Tensor(tensor.as_ref())).collect();
        dataset.update("embedding", &chosen, samples, false, &options()).await.unwrap();
    })
    .await;
    let new_bytes = 1000 * width as u64 * 4;
    assert!(bytes <= 4 * new_bytes, "{bytes} bytes for {new_bytes} new ones");
    // In any order, from several files, in one read of what is wanted.
    let wanted: Vec<u64> = chosen.iter().rev().copied().chain([0, rows - 1]).collect();
    let before = dataset.table().store().counts().read_bytes();
    let Batch::Stacked(found) = dataset.read("embedding", &wanted, &[]).await.unwrap() else { panic!() };
    let stored = |row: u64| made(row, if chosen.contains(&row) { 5 } else { 0 });
    for (row, found) in wanted.iter().zip(found.bytes().chunks_exact(width * 4)) {
        let expected = floats(&stored(*row));
        assert!(expected.bytes() == found, "row {row}");
    }
    let read = dataset.table().store().counts().read_bytes() - before;
    let tails = 3 * (1 << 20);
    assert!(read < 2 * wanted.len() as u64 * width as u64 * 4 + tails, "{read} bytes read");
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_reads_no_data() {
    let place = Place::new();
    let mut dataset = place.create().await;
    let rows = 50_000u64;
    let names: Vec<String> = (0..50).map(|k| format!("group{}/column{k}", k % 5)).collect();
    for name in &names {
        dataset.add_column(name, &fixed(DType::I64, &[]), None, None, &options()).await.unwrap();
    }
    let labels: Vec<Tensor> = (0..rows).map(|i| scalar(i as i64)).collect();
    for _ in 0..2 {
        let samples = || labels.iter().map(|label| Sample::Tensor(label.as_ref())).collect::<Vec<_>>();
        let columns = names.iter().map(|name| (name.as_str(), samples())).collect();
        extend(&mut dataset, columns).await;
    }
    // The other rows, up to a million, have but one sample each.
    for _ in 2..20 {
        let samples = labels.iter().map(|label| Sample::Tensor(label.as_ref())).collect();
        extend(&mut dataset, vec![(names[0].as_str(), samples)]).await;
    }
    drop(labels);
    let dataset = place.open().await;
    assert_eq!(dataset.len().await.unwrap(), MILLION);
    assert_eq!(dataset.columns().unwrap().len(), 50);
    let read = dataset.table().store().counts().read_bytes();
    assert!(read < 2_000_000, "opening read {read} bytes");
}

/// What many small appends leave is as good as one large one once it is compacted.
#[tokio::test(flavor = "multi_thread")]
async fn compaction_makes_small_appends_one() {
    let place = Place::new();
    let mut dataset = place.create().await;
    dataset.add_column("x", &spec("generic"), None, None, &options()).await.unwrap();
    let tensors: Vec<Tensor> = (0..100).map(|i| floats(&vec![i as f32; 300 + i])).collect();
    for tensor in &tensors {
        extend(&mut dataset, vec![("x", vec![Sample::Tensor(tensor.as_ref())])]).await;
    }
    dataset.table_mut().compact(&options()).await.unwrap();
    let dataset = place.open().await;
    let all: Vec<u64> = (0..100).collect();
    dataset.read("x", &[0], &[]).await.unwrap();
    let before = dataset.table().store().counts().reads();
    let Batch::Values(found) = dataset.read("x", &all, &[]).await.unwrap() else { panic!() };
    assert!(dataset.table().store().counts().reads() - before <= 2);
    for (found, expected) in found.into_iter().zip(&tensors) {
        let Some(lacus_dataset::Value::Tensor(found)) = found else { panic!() };
        assert!(found.bytes() == expected.bytes());
    }
}
