//! What a scan gives can be imported again: the same columns, the same samples.

use arrow::array::{RecordBatch, RecordBatchIterator};
use futures::TryStreamExt;
use lacus_dataset::{ColumnSpec, Dataset, Sample, ScanOptions};
use lacus_exchange::{ImportOptions, from_arrow};
use lacus_tensor::{Buffer, DType, Shape, Tensor};
use serde_json::json;

use crate::support::{block_on, bytes, dataset, everything, filled, png, spec, wav};

fn tensor(dtype: DType, dims: &[u64], salt: u8) -> Tensor {
    let shape = Shape::new(dims.to_vec()).unwrap();
    let length = shape.byte_len(dtype).unwrap();
    let values: Vec<u8> = (0..length).map(|i| (i as u8).wrapping_mul(13).wrapping_add(salt) % 63).collect();
    Tensor::new(dtype, shape, Buffer::from_slice(&values)).unwrap()
}

async fn scanned(dataset: &Dataset) -> Vec<RecordBatch> {
    let axis = dataset.table().rows().await.unwrap();
    let ids = axis.id_runs(0..axis.len());
    let options = ScanOptions { batch_bytes: 2_000, ..ScanOptions::default() };
    let scan = dataset.scan(ids, &dataset.column_names(), options).await.unwrap();
    scan.stream(dataset).try_collect().await.unwrap()
}

async fn imported(batches: Vec<RecordBatch>) -> Dataset {
    let schema = batches[0].schema();
    let reader = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
    let mut dataset = dataset().await;
    from_arrow(&mut dataset, reader, &ImportOptions::default()).await.unwrap();
    dataset
}

#[test]
fn columns_of_every_type() {
    let tensors: Vec<Tensor> = (0..3).map(|i| tensor(DType::F32, &[u64::from(i), 4], i)).collect();
    let fixed: Vec<Tensor> = (0..3).map(|i| tensor(DType::BF16, &[2, 3], i)).collect();
    let complex: Vec<Tensor> = (0..3).map(|i| tensor(DType::C64, &[u64::from(i)], i)).collect();
    let pixels: Vec<Tensor> = (0..3).map(|i| tensor(DType::U8, &[3, 2 + u64::from(i), 3], i)).collect();
    let outlines: Vec<Tensor> = (0..3).map(|i| tensor(DType::F32, &[3, 2], i)).collect();
    let each = |all: &'_ [Tensor]| -> Vec<Sample<'static>> {
        let own = |tensor: &Tensor| -> Tensor { tensor.clone() };
        let leaked: &'static [Tensor] = Vec::leak(all.iter().map(own).collect());
        let mut samples: Vec<Sample<'static>> = leaked.iter().map(|t| Sample::Tensor(t.as_ref())).collect();
        samples[1] = Sample::Missing;
        samples
    };
    let (one, two) = (png(3, 4, 1), png(2, 2, 2));
    let file = |bytes: &[u8]| Sample::Encoded(bytes.to_vec().into());
    let typed = |dtype, shape: &[Option<u64>]| ColumnSpec {
        dtype: Some(dtype),
        shape: Some(shape.to_vec()),
        ..ColumnSpec::default()
    };
    let text = |text: &'static str| Sample::Text(text.into());
    block_on(async {
        let source = filled(vec![
            (
                "label",
                spec("class_label", json!({"class_names": ["b", "a"]})),
                vec![text("a"), Sample::Missing, text("b")],
            ),
            ("boxes", spec("bbox", json!({})), each(&tensors)),
            ("grid", typed(DType::BF16, &[Some(2), Some(3)]), each(&fixed)),
            ("wave", typed(DType::C64, &[None]), each(&complex)),
            ("any", ColumnSpec { dtype: Some(DType::F32), ..ColumnSpec::default() }, each(&tensors)),
            ("photo", spec("image", json!({})), vec![file(&one), file(&two), Sample::Missing]),
            (
                "raw",
                ColumnSpec { compression: Some("none".into()), ..spec("image", json!({})) },
                each(&pixels),
            ),
            (
                "album",
                spec("sequence[image]", json!({})),
                vec![
                    Sample::Sequence(vec![file(&one), file(&two)]),
                    Sample::Missing,
                    Sample::Sequence(vec![]),
                ],
            ),
            ("sound", spec("audio", json!({})), vec![file(&wav(7)), Sample::Missing, file(&wav(9))]),
            (
                "outline",
                spec("polygon", json!({})),
                vec![
                    Sample::Sequence(each(&outlines[..2]).drain(..1).collect()),
                    Sample::Missing,
                    Sample::Sequence(vec![]),
                ],
            ),
            (
                "facts",
                spec("json", json!({})),
                vec![Sample::Json(json!({"a": 1.5})), Sample::Missing, Sample::Json(json!([]))],
            ),
            (
                "words",
                spec("sequence[text]", json!({})),
                vec![Sample::Sequence(vec![text("x")]), Sample::Missing, Sample::Sequence(vec![])],
            ),
        ])
        .await;
        let found = imported(scanned(&source).await).await;
        assert_eq!(everything(&found).await, everything(&source).await);
        // Files are the same files, not only the same pictures.
        for name in ["photo", "album", "sound"] {
            assert_eq!(bytes(&found, name).await, bytes(&source, name).await);
        }
    });
}
