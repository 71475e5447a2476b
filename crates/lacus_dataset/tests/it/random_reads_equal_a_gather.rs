//! Rows read in any order, with repeats, are what a plain look at a list gives: over several files and pages, with rows
//! deleted, samples changed and samples missing; and a scan of the same rows gives the same.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Float32Type, Int64Type};
use futures::TryStreamExt;
use lacus_dataset::{Batch, Dataset, Extend, Sample, Samples, ScanOptions, Value};
use lacus_tensor::{Buffer, DType, Element, Shape, Tensor};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::support::{Place, extend, fixed, options, spec};

/// A row as a plain list has it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    label: Option<i64>,
    score: Option<f32>,
    name: Option<String>,
}

fn tensor<T: Element>(dtype: DType, values: &[T]) -> Tensor {
    Tensor::new(dtype, Shape::new([values.len() as u64]).unwrap(), Buffer::from_elements(values)).unwrap()
}

fn int(value: i64) -> Tensor {
    Tensor::new(DType::I64, Shape::default(), Buffer::from_elements(&[value])).unwrap()
}

/// Three files of rows and two of changes; the first has several pages of numbers. Its rows have no score.
async fn filled(place: &Place) -> (Dataset, Vec<Row>) {
    let mut dataset = place.create().await;
    dataset.add_column("label", &fixed(DType::I64, &[]), None, None, &options()).await.unwrap();
    let mut rows: Vec<Row> =
        (0..70_000).map(|i| Row { label: Some(i * 7919 % 1009), ..Row::default() }).collect();
    let labels: Vec<i64> = rows.iter().filter_map(|row| row.label).collect();
    let labels = tensor(DType::I64, &labels);
    let columns = vec![("label".to_owned(), Samples::Rows(Box::new(labels.as_ref())))];
    dataset.extend(Extend { columns, ..Extend::default() }, &options()).await.unwrap();

    dataset.add_column("score", &fixed(DType::F32, &[]), None, None, &options()).await.unwrap();
    dataset.add_column("name", &spec("text"), None, None, &options()).await.unwrap();
    for count in [35_000i64, 300] {
        let new: Vec<Row> = (0..count)
            .map(|i| Row {
                label: (i % 3 != 0).then_some(-i),
                score: (count > 1000 || i % 5 != 1).then_some(i as f32 / 8.0),
                name: (i % 4 != 2).then(|| format!("name {i} {}", "é".repeat((i % 11) as usize))),
            })
            .collect();
        let labels: Vec<Option<Tensor>> = new.iter().map(|row| row.label.map(int)).collect();
        let scores: Vec<Option<Tensor>> = new
            .iter()
            .map(|row| {
                let memory = Buffer::from_elements(&[row.score?]);
                Some(Tensor::new(DType::F32, Shape::default(), memory).unwrap())
            })
            .collect();
        fn samples(tensors: &[Option<Tensor>]) -> Vec<Sample<'_>> {
            tensors
                .iter()
                .map(|t| t.as_ref().map_or(Sample::Missing, |t| Sample::Tensor(t.as_ref())))
                .collect()
        }
        let names = new.iter().map(|row| match &row.name {
            Some(name) => Sample::Text(name.as_str().into()),
            None => Sample::Missing,
        });
        let all = vec![("label", samples(&labels)), ("score", samples(&scores)), ("name", names.collect())];
        extend(&mut dataset, all).await;
        rows.extend(new);
    }
    let changed: Vec<u64> = (0..500).map(|i| i * 211 % 105_000).collect();
    let labels: Vec<Tensor> = changed.iter().map(|row| int(*row as i64 + (1 << 40))).collect();
    let samples: Vec<Sample<'_>> = labels.iter().map(|t| Sample::Tensor(t.as_ref())).collect();
    dataset.update("label", &changed, samples, false, &options()).await.unwrap();
    changed.iter().for_each(|row| rows[*row as usize].label = Some(*row as i64 + (1 << 40)));
    let mut deleted: Vec<u64> = (0..400).map(|i| i * 97 % 105_300).chain(40_000..45_000).collect();
    dataset.delete_rows(&deleted, &options()).await.unwrap();
    deleted.sort_unstable();
    let mut number = 0..;
    rows.retain(|_| deleted.binary_search(&number.next().unwrap()).is_err());
    (place.open().await, rows)
}

fn each(batch: Batch) -> Vec<Option<Vec<u8>>> {
    match batch {
        Batch::Stacked(tensor) => {
            let item = tensor.dtype().size_bytes();
            tensor.bytes().chunks_exact(item).map(|bytes| Some(bytes.to_vec())).collect()
        }
        Batch::Values(values) => values
            .into_iter()
            .map(|value| match value? {
                Value::Tensor(tensor) => Some(tensor.bytes().to_vec()),
                Value::Text(text) => Some(text.into_bytes()),
                other => panic!("{other:?}"),
            })
            .collect(),
    }
}

async fn check(dataset: &Dataset, rows: &[Row], positions: &[u64]) {
    let wanted: Vec<&Row> = positions.iter().map(|position| &rows[*position as usize]).collect();
    let read = async |name| each(dataset.read(name, positions, &[]).await.unwrap());
    let expected = |of: fn(&Row) -> Option<Vec<u8>>| wanted.iter().map(|row| of(row)).collect::<Vec<_>>();
    let label = |row: &Row| row.label.map(|label| label.to_le_bytes().to_vec());
    let score = |row: &Row| row.score.map(|score| score.to_le_bytes().to_vec());
    let name = |row: &Row| row.name.clone().map(String::into_bytes);
    assert_eq!(read("label").await, expected(label));
    assert_eq!(read("score").await, expected(score));
    assert_eq!(read("name").await, expected(name));

    let axis = dataset.table().rows().await.unwrap();
    let ids = positions.iter().map(|position| (axis.id(*position).unwrap(), 1)).collect();
    let names = ["label", "score", "name"].map(str::to_owned);
    let small = ScanOptions { batch_bytes: 3000, ..ScanOptions::default() };
    let scan = dataset.scan(ids, &names, small).await.unwrap();
    let batches: Vec<_> = scan.stream(dataset).try_collect().await.unwrap();
    let mut scanned = Vec::new();
    for batch in &batches {
        let labels = batch.column(0).as_primitive::<Int64Type>();
        let scores = batch.column(1).as_primitive::<Float32Type>();
        let names = batch.column(2).as_string::<i32>();
        scanned.extend((0..batch.num_rows()).map(|i| Row {
            label: labels.is_valid(i).then(|| labels.value(i)),
            score: scores.is_valid(i).then(|| scores.value(i)),
            name: names.is_valid(i).then(|| names.value(i).to_owned()),
        }));
    }
    assert!(scanned.iter().eq(wanted));
}

/// Positions: scattered, repeated, and runs in any order.
fn positions(rows: u64) -> impl Strategy<Value = Vec<u64>> {
    let one = prop_oneof![
        (0..rows).prop_map(|at| at..at + 1),
        (0..rows, 1..40u64).prop_map(move |(at, count)| at..(at + count).min(rows)),
        // Around the borders of pages and files.
        (32_700..32_800u64, 1..200u64).prop_map(|(at, count)| at..at + count),
        (64_500..64_700u64, 1..200u64).prop_map(|(at, count)| at..at + count),
        (rows - 320..rows, 1..320u64).prop_map(move |(at, count)| at..(at + count).min(rows)),
    ];
    prop::collection::vec(one, 0..60).prop_map(|runs| runs.into_iter().flatten().collect())
}

#[test]
fn random_reads_equal_a_gather() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let place = Place::new();
    let (dataset, rows) = runtime.block_on(filled(&place));
    let count = runtime.block_on(dataset.len()).unwrap();
    assert_eq!(count, rows.len() as u64);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(48));
    let tested = runner.run(&positions(count), |positions| {
        runtime.block_on(check(&dataset, &rows, &positions));
        Ok(())
    });
    tested.unwrap();
    let all: Vec<u64> = (0..count).collect();
    runtime.block_on(check(&dataset, &rows, &all));
    let backwards: Vec<u64> = all.into_iter().rev().step_by(3).collect();
    runtime.block_on(check(&dataset, &rows, &backwards));
}
