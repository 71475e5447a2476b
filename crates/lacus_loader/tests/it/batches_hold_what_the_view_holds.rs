//! What is in a batch: stacked, padded, nested, listed; missing samples kept, filled, left out.

use lacus_loader::{Collate, ColumnBatch, ColumnPlan, LoadedBatch, Loader, LoaderSpec, Missing, ShuffleWish};
use lacus_sample::Value;
use lacus_tensor::DType;

use crate::made::{block_on, epoch, settings, spec, view};

async fn first(name: &str, plan: ColumnPlan, rows: u64) -> Result<LoadedBatch, String> {
    let view = view(name, 20, 2).await;
    let made = LoaderSpec {
        columns: vec![plan],
        shuffle: ShuffleWish::None,
        settings: settings(rows, 0, 1),
        ..spec(&view, &[])
    };
    let loader = Loader::new(made).await.map_err(|error| error.to_string())?;
    let batch = loader.batches(0, 0, 0).map_err(|error| error.to_string())?.next().await;
    batch.map_err(|error| error.to_string()).map(Option::unwrap)
}

fn longs(bytes: &[u8]) -> Vec<i64> {
    bytes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn ragged_samples_are_put_together_as_told() {
    block_on(async {
        // Rows 0 to 5 have 0, 1, 2, none, 4, 0 elements.
        let plan = |collate, missing| ColumnPlan { collate, missing, ..ColumnPlan::new("ragged") };
        let padded = first("pad", plan(Collate::Pad, Missing::Keep), 5).await.unwrap();
        let ColumnBatch::Padded { values, mask } = &padded.columns[0].1 else { panic!("{padded:?}") };
        assert_eq!((values.shape().dims(), mask.shape().dims()), (&[5, 4][..], &[5, 4][..]));
        assert_eq!(longs(values.bytes()), [0, 0, 0, 0, 1, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4]);
        assert_eq!(mask.dtype(), DType::Bool);
        assert_eq!(mask.bytes(), [0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]);

        let nested = first("nested", plan(Collate::Nested, Missing::Number(0.0)), 5).await.unwrap();
        let ColumnBatch::Nested { values, offsets } = &nested.columns[0].1 else { panic!("{nested:?}") };
        assert_eq!(longs(values.bytes()), [1, 2, 2, 4, 4, 4, 4]);
        assert_eq!(offsets, &[0, 0, 1, 3, 3, 7]);

        for collate in [Collate::Auto, Collate::List] {
            let listed = first("list", plan(collate, Missing::Keep), 5).await.unwrap();
            let ColumnBatch::Values(values) = &listed.columns[0].1 else { panic!("{listed:?}") };
            assert!(
                values[3].is_none()
                    && matches!(&values[4], Some(Value::Tensor(t)) if longs(t.bytes()) == [4; 4])
            );
        }
        let error = first("stack", plan(Collate::Stack, Missing::Number(0.0)), 5).await.unwrap_err();
        assert!(
            error.contains("row 0 of the view") && error.contains("shape (0,)") && error.contains("(1,)"),
            "{error}"
        );
        let error = first("stack-missing", plan(Collate::Stack, Missing::Keep), 5).await.unwrap_err();
        assert!(error.contains("row 3 of the view") && error.contains("has no sample"), "{error}");
    });
}

#[test]
fn numbers_vectors_and_texts_come_as_they_are() {
    block_on(async {
        let view = view("plain", 20, 2).await;
        let made = LoaderSpec {
            shuffle: ShuffleWish::None,
            settings: settings(6, 0, 1),
            ..spec(&view, &["number", "vector", "text"])
        };
        let loader = Loader::new(made).await.unwrap();
        let batch = loader.batches(0, 0, 6).unwrap().next().await.unwrap().unwrap();
        let ColumnBatch::Stacked(vectors) = &batch.columns[1].1 else { panic!("{batch:?}") };
        assert_eq!((vectors.dtype(), vectors.shape().dims()), (DType::F32, &[6, 3][..]));
        assert_eq!(f32::from_le_bytes(vectors.bytes()[12..16].try_into().unwrap()), 7.0);
        let ColumnBatch::Values(texts) = &batch.columns[2].1 else { panic!("{batch:?}") };
        assert_eq!(texts[5], Some(Value::Text("row 11".into())));
        assert_eq!(batch.consumed, 12);
    });
}

#[test]
fn rows_without_a_required_sample_are_left_out_before_anything_is_counted() {
    block_on(async {
        let view = view("required", 20, 2).await;
        let made = LoaderSpec { required: vec!["ragged".into()], ..spec(&view, &["number"]) };
        let loader = Loader::new(made).await.unwrap();
        assert_eq!(loader.samples(), 17);
        let mut found = epoch(&loader, 1, 0).await.concat();
        found.sort_unstable();
        assert_eq!(found, (0..20).filter(|row| row % 7 != 3).collect::<Vec<_>>());
    });
}

#[test]
fn buckets_bring_equal_lengths_together() {
    block_on(async {
        let view = view("buckets", 100, 2).await;
        let mut made = spec(&view, &["number"]);
        made.bucket_by = Some("ragged".into());
        made.settings = settings(5, 0, 1);
        let loader = Loader::new(made).await.unwrap();
        let batches = epoch(&loader, 1, 0).await;
        let length = |row: &u64| if row % 7 == 3 { 0 } else { row % 5 };
        let spread = |batch: &Vec<u64>| {
            batch.iter().map(length).max().unwrap_or(0) - batch.iter().map(length).min().unwrap_or(0)
        };
        assert!(batches.iter().map(spread).sum::<u64>() <= 5, "{batches:?}");
        let mut all = batches.concat();
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
    });
}

#[test]
fn what_cannot_be_loaded_says_why() {
    block_on(async {
        let view = view("wrong", 20, 2).await;
        let said = async |change: &dyn Fn(&mut LoaderSpec)| {
            let mut made = spec(&view, &["number"]);
            change(&mut made);
            Loader::new(made).await.unwrap_err().to_string()
        };
        assert!(said(&|s| s.settings.batch_size = 0).await.contains("batch_size"));
        assert!(said(&|s| s.settings = settings(1, 0, 21)).await.contains("20 samples for 21 ranks"));
        assert!(said(&|s| s.settings = settings(1, 2, 2)).await.contains("rank 2 of world 2"));
        assert!(said(&|s| s.columns = vec![ColumnPlan::new("nmber")]).await.contains("nmber"));
        assert!(said(&|s| s.views.clear()).await.contains("no view"));
    });
}
