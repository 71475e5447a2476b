//! A scan gives what reading the same rows gives: in any order, rows repeated, samples missing, in batches cut by bytes.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, UInt64Type};
use futures::TryStreamExt;
use lacus_arrow::{Cell, cells, plain_values, taken};
use lacus_dataset::{Batch, ColumnSpec, Dataset, DatasetError, ErrorKind, Sample, ScanOptions};
use lacus_tensor::{Buffer, DType, Shape, Tensor};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Place, extend, fixed, options, spec};

fn tensor(dtype: DType, dims: &[u64], salt: u64) -> Tensor {
    let shape = Shape::new(dims.to_vec()).unwrap();
    let length = shape.byte_len(dtype).unwrap();
    let bytes: Vec<u8> = (0..length as u64).map(|i| ((i * 31 + salt * 7) % 251) as u8).collect();
    Tensor::new(dtype, shape, Buffer::from_slice(&bytes)).unwrap()
}

fn columns() -> Vec<(&'static str, ColumnSpec)> {
    let mut label = spec("class_label");
    label.options.insert("class_names".to_owned(), json!(["cat", "dog", "owl"]));
    let ranked = |dtype, shape: &[Option<u64>]| ColumnSpec {
        dtype: Some(dtype),
        shape: Some(shape.to_vec()),
        ..ColumnSpec::default()
    };
    vec![
        ("label", label),
        ("count", ranked(DType::U64, &[])),
        ("half", ranked(DType::F16, &[])),
        ("brain", ranked(DType::BF16, &[])),
        ("caption", spec("text")),
        ("facts", spec("json")),
        ("words", spec("sequence[text]")),
        ("vector", fixed(DType::F32, &[3, 2])),
        ("boxes", ranked(DType::F32, &[None, Some(4)])),
        ("any", ColumnSpec { dtype: Some(DType::I16), ..spec("generic") }),
        (
            "parts",
            ColumnSpec { dtype: Some(DType::U8), shape: Some(vec![None]), ..spec("sequence[generic]") },
        ),
        ("blob", spec("bytes")),
        ("open", spec("generic")),
        ("photo", spec("image")),
        ("photos", spec("sequence[image]")),
    ]
}

/// A sample of a column for a row, owned by the caller's tensors.
fn sample<'a>(name: &str, row: u64, tensors: &'a [Tensor]) -> Sample<'a> {
    let lacks = (row * 5 + name.len() as u64).is_multiple_of(7) || name == "open";
    if lacks {
        return Sample::Missing;
    }
    match name {
        "label" => Sample::Json(json!(row % 3)),
        "caption" => Sample::Text(format!("row {row} {}", "ä".repeat((row % 50) as usize)).into()),
        "facts" => Sample::Json(json!({"row": row, "odd": [row % 2 == 1, null]})),
        "words" => Sample::Sequence((0..row % 4).map(|i| Sample::Text(format!("w{i}").into())).collect()),
        "blob" => Sample::Encoded(vec![row as u8; (row % 600) as usize].into()),
        "parts" | "photos" => Sample::Sequence(tensors.iter().map(|t| Sample::Tensor(t.as_ref())).collect()),
        _ => Sample::Tensor(tensors[0].as_ref()),
    }
}

fn tensors(name: &str, row: u64) -> Vec<Tensor> {
    match name {
        "count" => {
            vec![Tensor::new(DType::U64, Shape::default(), Buffer::from_elements(&[u64::MAX - row])).unwrap()]
        }
        "half" => vec![tensor(DType::F16, &[], row)],
        "brain" => vec![tensor(DType::BF16, &[], row)],
        "vector" => vec![tensor(DType::F32, &[3, 2], row)],
        "boxes" => vec![tensor(DType::F32, &[row % 5, 4], row)],
        "any" => vec![tensor(DType::I16, &vec![2; (row % 3) as usize], row)],
        "parts" => (0..row % 3).map(|i| tensor(DType::U8, &[i + 1], row)).collect(),
        "photo" => vec![tensor(DType::U8, &[4 + row % 3, 5, 3], row)],
        "photos" => (0..row % 3).map(|i| tensor(DType::U8, &[4, 3 + i, 3], row)).collect(),
        _ => Vec::new(),
    }
}

/// Some rows in several files, some of them deleted: positions and ids differ.
async fn filled(place: &Place) -> Dataset {
    let mut dataset = place.create().await;
    for (name, spec) in columns() {
        dataset.add_column(name, &spec, None, None, &options()).await.unwrap();
    }
    for rows in [0..40u64, 40..41, 41..90] {
        let owned: Vec<Vec<Vec<Tensor>>> =
            columns().iter().map(|(name, _)| rows.clone().map(|row| tensors(name, row)).collect()).collect();
        let known = columns();
        let all = known.iter().zip(&owned).map(|((name, _), owned)| {
            (*name, rows.clone().zip(owned).map(|(row, owned)| sample(name, row, owned)).collect())
        });
        let all = all.collect();
        extend(&mut dataset, all).await;
    }
    dataset.delete_rows(&[3, 4, 41], &options()).await.unwrap();
    place.open().await
}

/// The samples of a column of a batch.
fn taken_back(batch: &RecordBatch, name: &str) -> Vec<Cell> {
    let schema = batch.schema();
    let field = schema.field_with_name(name).unwrap();
    let taken = taken(field, &schema, None, || panic!("the field says all")).unwrap().unwrap();
    let array = plain_values(batch.column_by_name(name).unwrap()).unwrap();
    cells(&array, &taken.take, None).unwrap().into_iter().collect::<Result<_, _>>().unwrap()
}

/// The same as reads give them.
async fn read(dataset: &Dataset, name: &str, positions: &[u64]) -> Vec<Cell> {
    if name == "photo" {
        let files = dataset.stored_bytes(name, positions).await.unwrap();
        return files.into_iter().map(|file| file.map_or(Cell::Missing, Cell::Media)).collect();
    }
    let mut found = Vec::new();
    for position in positions {
        found.push(match dataset.read(name, &[*position], &[]).await.unwrap() {
            Batch::Values(mut values) => values.remove(0).map_or(Cell::Missing, Cell::of_value),
            Batch::Stacked(one) => Cell::tensor(one.dtype(), &one.shape().dims()[1..], one.bytes()).unwrap(),
        });
    }
    if name == "label" {
        let class = |cell: Cell| match cell.as_int() {
            Some(number) => Cell::text(["cat", "dog", "owl"][number as usize]),
            None => Cell::Missing,
        };
        return found.into_iter().map(class).collect();
    }
    found
}

/// Files as the tensors they decode to.
fn decoded(cell: &Cell) -> Cell {
    match cell {
        Cell::Media(bytes) => Cell::of_tensor(lacus_media::decode(bytes, &Default::default()).unwrap()),
        Cell::List(items) => Cell::List(items.iter().map(decoded).collect()),
        other => other.clone(),
    }
}

async fn batches(dataset: &Dataset, ids: Vec<(u64, u64)>, names: &[&str], bytes: u64) -> Vec<RecordBatch> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let scan = dataset
        .scan(ids, &names, ScanOptions { batch_bytes: bytes, ..ScanOptions::default() })
        .await
        .unwrap();
    assert_eq!(*scan.schema(), dataset.arrow_schema(&names).unwrap());
    scan.stream(dataset).try_collect().await.unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn any_rows_in_any_order(
        runs in prop::collection::vec((0u64..87, 1u64..30), 0..6),
        bytes in prop::sample::select(vec![1u64, 300, 4_000, 1 << 20]),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let place = Place::new();
            let dataset = filled(&place).await;
            let axis = dataset.table().rows().await.unwrap();
            let runs: Vec<(u64, u64)> =
                runs.iter().map(|&(first, count)| (first, count.min(axis.len() - first))).collect();
            let positions: Vec<u64> = runs.iter().flat_map(|&(first, count)| first..first + count).collect();
            let ids = runs.iter().flat_map(|&(first, count)| axis.id_runs(first..first + count)).collect();
            let names: Vec<&str> = columns().iter().map(|(name, _)| *name).collect();
            let found = batches(&dataset, ids, &names, bytes).await;
            assert!(found.iter().all(|batch| batch.num_rows() > 0));
            for name in names {
                let all: Vec<Cell> = found.iter().flat_map(|batch| taken_back(batch, name)).collect();
                let wanted = read(&dataset, name, &positions).await;
                match name {
                    "photos" => assert_eq!(all.iter().map(decoded).collect::<Vec<_>>(), wanted),
                    _ => assert_eq!(all, wanted, "{name}"),
                }
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_cut_by_bytes() {
    let place = Place::new();
    let mut dataset = place.create().await;
    let ranked =
        ColumnSpec { dtype: Some(DType::U8), shape: Some(vec![None, None]), ..ColumnSpec::default() };
    dataset.add_column("x", &ranked, None, None, &options()).await.unwrap();
    dataset.add_column("note", &spec("text"), None, None, &options()).await.unwrap();
    // One is larger than a batch may be, many are far smaller.
    let sizes = [10u64, 10, 5_000, 10, 900, 900, 900, 10];
    let owned: Vec<Tensor> = sizes.iter().map(|size| tensor(DType::U8, &[*size, 1], *size)).collect();
    let notes = sizes.iter().map(|size| Sample::Text("n".repeat(*size as usize).into())).collect();
    let x = owned.iter().map(|tensor| Sample::Tensor(tensor.as_ref())).collect();
    extend(&mut dataset, vec![("x", x), ("note", notes)]).await;
    let axis = dataset.table().rows().await.unwrap();
    let found = batches(&dataset, axis.id_runs(0..8), &["x", "note"], 4_000).await;
    let rows: Vec<usize> = found.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(rows.iter().sum::<usize>(), 8, "{rows:?}");
    for batch in &found {
        let data = batch.column(0).as_struct().column(0).as_list::<i32>().values().len();
        assert!(batch.num_rows() == 1 || 2 * data <= 4_000, "{rows:?}");
    }
    assert!(rows.iter().any(|rows| *rows > 1), "{rows:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_keep_all_their_bits() {
    let place = Place::new();
    let dataset = filled(&place).await;
    let axis = dataset.table().rows().await.unwrap();
    let found = batches(&dataset, axis.id_runs(0..axis.len()), &["count"], 1 << 20).await;
    assert_eq!(found.len(), 1);
    let column: &ArrayRef = found[0].column(0);
    let counts = column.as_primitive::<UInt64Type>();
    assert_eq!(counts.value(1), u64::MAX - 1);
    // Rows are read without columns, too: how many there are.
    let none = batches(&dataset, axis.id_runs(0..axis.len()), &[], 1 << 20).await;
    assert_eq!(none.iter().map(RecordBatch::num_rows).sum::<usize>() as u64, axis.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_an_error() {
    let place = Place::new();
    let dataset = filled(&place).await;
    let scan = |ids: Vec<(u64, u64)>, name: &str| {
        let names = vec![name.to_owned()];
        let dataset = &dataset;
        async move { dataset.scan(ids, &names, ScanOptions::default()).await.unwrap_err() }
    };
    let gone = scan(vec![(0, 10)], "label").await;
    assert!(matches!(gone, DatasetError::NoSuchRow { id: 3, .. }), "{gone}");
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    let unknown = scan(vec![(0, 1)], "labl").await;
    assert!(unknown.to_string().contains("did you mean \"label\""), "{unknown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_came_as_dates_go_out_as_dates() {
    let place = Place::new();
    let mut dataset = place.create().await;
    let came = Some(json!({"arrow": "Date32"}));
    dataset.add_column("day", &spec("text"), None, came, &options()).await.unwrap();
    let took = Some(json!({"arrow": "Duration(ms)"}));
    dataset.add_column("took", &fixed(DType::I64, &[]), None, took, &options()).await.unwrap();
    let days = vec![Sample::Text("2026-01-31".into()), Sample::Missing];
    let five = tensor_of(5);
    extend(&mut dataset, vec![("day", days), ("took", vec![Sample::Missing, Sample::Tensor(five.as_ref())])])
        .await;
    let axis = dataset.table().rows().await.unwrap();
    let found = batches(&dataset, axis.id_runs(0..2), &["day", "took"], 1 << 20).await;
    let schema = found[0].schema();
    assert_eq!(schema.field(0).data_type(), &arrow::datatypes::DataType::Date32);
    let days = arrow::compute::cast(found[0].column(0), &arrow::datatypes::DataType::Utf8).unwrap();
    assert_eq!(days.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("2026-01-31"), None]);
    let took = arrow::compute::cast(found[0].column(1), &arrow::datatypes::DataType::Int64).unwrap();
    assert_eq!(took.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [None, Some(5)]);
    // A text that is no date any more is named with its row.
    let wrong = vec![Sample::Text("soon".into())];
    extend(&mut dataset, vec![("day", wrong), ("took", vec![Sample::Missing])]).await;
    let axis = dataset.table().rows().await.unwrap();
    let mut scan =
        dataset.scan(axis.id_runs(0..3), &["day".to_owned()], ScanOptions::default()).await.unwrap();
    let error = scan.next(&dataset).await.unwrap_err();
    assert!(error.to_string().starts_with("column \"day\", row 2: it came as Date32"), "{error}");
}

fn tensor_of(value: i64) -> Tensor {
    Tensor::new(DType::I64, Shape::default(), Buffer::from_elements(&[value])).unwrap()
}
