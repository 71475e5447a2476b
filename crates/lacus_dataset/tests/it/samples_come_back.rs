//! Samples of every form come back, whole and in part, from files and from an object store.

use std::borrow::Cow;
use std::sync::Arc;

use lacus_dataset::{Batch, Dataset, DatasetError, ErrorKind, Extend, OnError, Sample, Value};
use lacus_io::{Store, World};
use lacus_table::Table;
use lacus_tensor::{Buffer, DType, Index, Selection, Shape, Tensor};
use serde_json::json;

use crate::support::{Place, extend, fixed, floats, options, spec};

fn tensor(dims: &[u64], salt: u64) -> Tensor {
    let shape = Shape::new(dims.to_vec()).unwrap();
    let count = dims.iter().product::<u64>();
    let values: Vec<f32> = (0..count).map(|i| ((i * 7 + salt) % 1013) as f32).collect();
    Tensor::new(DType::F32, shape, Buffer::from_elements(&values)).unwrap()
}

async fn value(dataset: &Dataset, name: &str, row: u64, indices: &[Index]) -> Option<Value> {
    match dataset.read(name, &[row], indices).await.unwrap() {
        Batch::Values(mut values) => values.remove(0),
        Batch::Stacked(tensor) => {
            let whole = Selection::resolve(tensor.shape(), &[Index::At(0)]).unwrap();
            Some(Value::Tensor(tensor.as_ref().select(&whole).unwrap()))
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tiles_are_read_in_part() {
    let place = Place::new();
    let mut dataset = place.create().await;
    let column = lacus_dataset::ColumnSpec { compression: Some("none".into()), ..spec("generic") };
    dataset.add_column("volume", &column, None, None, &options()).await.unwrap();
    let large = tensor(&[40, 300, 300], 1);
    let small = tensor(&[2, 3], 2);
    extend(
        &mut dataset,
        vec![(
            "volume",
            vec![Sample::Tensor(small.as_ref()), Sample::Tensor(large.as_ref()), Sample::Missing],
        )],
    )
    .await;
    let dataset = place.open().await;
    assert_eq!(value(&dataset, "volume", 1, &[]).await, Some(Value::Tensor(large.clone())));
    assert_eq!(value(&dataset, "volume", 0, &[]).await, Some(Value::Tensor(small)));
    assert_eq!(value(&dataset, "volume", 2, &[]).await, None);
    let part = [Index::At(17), Index::Slice { start: Some(5), stop: Some(9), step: None }];
    let before = dataset.table().store().counts().read_bytes();
    let found = value(&dataset, "volume", 1, &part).await;
    let read = dataset.table().store().counts().read_bytes() - before;
    let selection = Selection::resolve(large.shape(), &part).unwrap();
    assert_eq!(found, Some(Value::Tensor(large.as_ref().select(&selection).unwrap())));
    assert!(read < 3 << 20, "{read} bytes read of {}", large.bytes().len());
    let shapes = dataset.shapes("volume", &[2, 1, 0]).await.unwrap();
    assert_eq!(shapes, [None, Some(vec![40, 300, 300]), Some(vec![2, 3])]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_form_survives_an_object_store() {
    let url = url::Url::parse("memory:///samples/").unwrap();
    let store = Store::over(url, Arc::new(object_store::memory::InMemory::new())).unwrap();
    let mut dataset = Dataset::new(Table::create(store, World::real()).await.unwrap());
    dataset.add_column("number", &fixed(DType::F64, &[]), None, None, &options()).await.unwrap();
    dataset.add_column("half", &fixed(DType::BF16, &[]), None, None, &options()).await.unwrap();
    dataset.add_column("text", &spec("text"), None, None, &options()).await.unwrap();
    dataset.add_column("json", &spec("json"), None, None, &options()).await.unwrap();
    dataset.add_column("several", &spec("sequence[generic]"), None, None, &options()).await.unwrap();
    dataset.add_column("boxes", &spec("bbox"), None, None, &options()).await.unwrap();
    let nan = f64::from_bits(0x7ff0_0000_0000_0001);
    let number = Tensor::new(DType::F64, Shape::default(), Buffer::from_elements(&[nan])).unwrap();
    let half = Tensor::new(DType::BF16, Shape::default(), Buffer::from_elements(&[0x7f81u16])).unwrap();
    let (one, two) = (floats(&[1.0, 2.0]), floats(&[]));
    let long = "é".repeat(50_000);
    extend(
        &mut dataset,
        vec![
            ("number", vec![Sample::Tensor(number.as_ref()), Sample::Missing]),
            ("half", vec![Sample::Tensor(half.as_ref()), Sample::Missing]),
            ("text", vec![Sample::Text(Cow::Borrowed("")), Sample::Text(Cow::Borrowed(&long))]),
            ("json", vec![Sample::Json(json!({"a": [1, null, 0.1]})), Sample::Missing]),
            (
                "several",
                vec![
                    Sample::Sequence(vec![Sample::Tensor(one.as_ref()), Sample::Tensor(two.as_ref())]),
                    Sample::Sequence(vec![]),
                ],
            ),
            ("boxes", vec![Sample::Json(json!([[1, 2, 3, 4.5]])), Sample::Json(json!([]))]),
        ],
    )
    .await;
    assert_eq!(value(&dataset, "number", 0, &[]).await, Some(Value::Tensor(number)));
    assert_eq!(value(&dataset, "half", 0, &[]).await, Some(Value::Tensor(half)));
    assert_eq!(value(&dataset, "number", 1, &[]).await, None);
    assert_eq!(value(&dataset, "text", 0, &[]).await, Some(Value::Text(String::new())));
    assert_eq!(value(&dataset, "text", 1, &[]).await, Some(Value::Text(long)));
    assert_eq!(value(&dataset, "json", 0, &[]).await, Some(Value::Json(json!({"a": [1, null, 0.1]}))));
    let several = Value::Sequence(vec![Value::Tensor(one), Value::Tensor(two)]);
    assert_eq!(value(&dataset, "several", 0, &[]).await, Some(several));
    assert_eq!(value(&dataset, "several", 1, &[]).await, Some(Value::Sequence(vec![])));
    let Some(Value::Tensor(boxes)) = value(&dataset, "boxes", 0, &[]).await else { panic!() };
    assert_eq!(boxes.shape().dims(), [1, 4]);
    let report = dataset.table().doctor(&options()).await.unwrap();
    assert_eq!(report.damage, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_writes_nothing() {
    let place = Place::new();
    let mut dataset = place.create().await;
    dataset.add_column("image", &spec("image"), None, None, &options()).await.unwrap();
    dataset.add_column("label", &spec("class_label"), None, None, &options()).await.unwrap();
    let version = dataset.table().version();
    let picture = Tensor::zeros(DType::U8, Shape::new(vec![4, 5, 3]).unwrap()).unwrap();
    let good = || Sample::Tensor(picture.as_ref());
    let broken = || Sample::Encoded(Cow::Borrowed(b"\xff\xd8\xff\xe0 no picture"));
    let rows = |on_error| Extend {
        columns: vec![
            ("image".to_owned(), vec![good(), broken(), good()].into()),
            (
                "label".to_owned(),
                vec![Sample::Json(json!(1)), Sample::Json(json!(2)), Sample::Json(json!(3))].into(),
            ),
        ],
        on_error,
    };
    let error = dataset.extend(rows(OnError::Raise), &options()).await.unwrap_err();
    assert!(matches!(&error, DatasetError::Sample { column, row: 1, .. } if column == "image"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!((dataset.table().version(), dataset.len().await.unwrap()), (version, 0));
    let report = dataset.extend(rows(OnError::Skip), &options()).await.unwrap();
    assert_eq!((report.rows, report.skipped.len(), report.skipped[0].row), (2, 1, 1));
    assert_eq!(dataset.shapes("image", &[0, 1]).await.unwrap(), [Some(vec![4, 5, 3]), Some(vec![4, 5, 3])]);
    let error = dataset.read("image", &[2], &[]).await.unwrap_err();
    assert!(error.is_out_of_bounds(), "{error}");
    let error = dataset.read("imag", &[0], &[]).await.unwrap_err();
    assert!(error.to_string().contains("image"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_has_everything_and_no_links() {
    let place = Place::new();
    let mut dataset = place.create().await;
    let picture = tensor(&[3, 4], 3);
    dataset.add_column("image", &spec("image"), None, None, &options()).await.unwrap();
    dataset.add_column("linked", &spec("link[image]"), None, None, &options()).await.unwrap();
    dataset.add_column("x", &spec("generic"), None, None, &options()).await.unwrap();
    let pixels = Tensor::zeros(DType::U8, Shape::new(vec![6, 7, 3]).unwrap()).unwrap();
    extend(
        &mut dataset,
        vec![
            ("image", vec![Sample::Tensor(pixels.as_ref()), Sample::Tensor(pixels.as_ref())]),
            ("x", vec![Sample::Missing, Sample::Tensor(picture.as_ref())]),
        ],
    )
    .await;
    let png = dataset.stored_bytes("image", &[0]).await.unwrap().remove(0).unwrap();
    let file = place.directory.path().join("a b.png");
    std::fs::write(&file, &png).unwrap();
    let link = || vec![Sample::Link(file.to_str().unwrap().to_owned())];
    let refused = dataset.update("linked", &[1], link(), false, &options()).await.unwrap_err();
    assert!(
        matches!(&refused, DatasetError::InRow { row: 1, source, .. } if matches!(**source, DatasetError::LinkRefused { .. })),
        "{refused}"
    );
    dataset.allow_links(place.directory.path().to_str().unwrap(), &Default::default()).unwrap();
    dataset.update("linked", &[1], link(), false, &options()).await.unwrap();
    assert_eq!(value(&dataset, "linked", 1, &[]).await, Some(Value::Tensor(pixels.clone())));
    dataset.delete_rows(&[0], &options()).await.unwrap();
    let copy = dataset.materialize(place.store("copy"), World::real(), &options()).await.unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(copy.len().await.unwrap(), 1);
    assert_eq!(value(&copy, "linked", 0, &[]).await, Some(Value::Tensor(pixels)));
    assert_eq!(value(&copy, "x", 0, &[]).await, Some(Value::Tensor(picture)));
    assert!(!copy.column("linked").unwrap().htype().link);
}
