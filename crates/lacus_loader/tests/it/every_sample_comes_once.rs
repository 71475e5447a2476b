//! An epoch has every sample once, whatever happens on the way; what was made ahead goes with the iterator.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lacus_loader::{
    Loader, LoaderError, LoaderSpec, OnError, SampleInput, SampleKey, SampleOutput, SampleTransform,
    Settings, TransformFailure,
};
use lacus_sample::Column;
use lacus_tensor::{DType, ErrorKind};

use crate::made::{block_on, epoch, numbers, settings, spec, view};

#[test]
fn a_runtime_that_ends_takes_nothing_along() {
    // As around a fork: the tasks are gone, and the batches go on with the next runtime.
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let first = runtime();
    let view = first.block_on(view("runtimes", 60, 2));
    let loader = first.block_on(Loader::new(spec(&view, &["number"]))).unwrap();
    let mut batches = loader.batches(1, 0, 0).unwrap();
    let mut seen = numbers(&first.block_on(batches.next()).unwrap().unwrap());
    drop(first);
    let second = runtime();
    // What was ready stays so; the rest is made again.
    while let Some(batch) = second.block_on(batches.next()).unwrap() {
        seen.extend(numbers(&batch));
    }
    assert_eq!(seen, second.block_on(epoch(&loader, 1, 0)).concat());
}

/// Doubles a vector; fails for some rows, and counts its calls.
#[derive(Debug)]
struct Doubled {
    fails_every: u64,
    calls: AtomicU64,
}

impl SampleTransform for Doubled {
    fn output(&self, _: &Column) -> Result<SampleOutput, TransformFailure> {
        Ok(SampleOutput { dtype: DType::F64, shape: Some(vec![3]) })
    }

    fn output_shape(&self, _: &SampleInput<'_>, _: SampleKey) -> Result<Vec<u64>, TransformFailure> {
        Ok(vec![3])
    }

    fn apply(&self, input: &SampleInput<'_>, key: SampleKey, out: &mut [u8]) -> Result<(), TransformFailure> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.fails_every > 0 && key.row % self.fails_every == 0 {
            return Err(TransformFailure { kind: ErrorKind::Corrupt, why: "as told".to_owned() });
        }
        let SampleInput::Tensor(tensor) = input else { panic!("{input:?}") };
        let bytes = tensor.to_tensor();
        for (from, to) in bytes.bytes().chunks_exact(4).zip(out.chunks_exact_mut(8)) {
            let value = f64::from(f32::from_le_bytes(from.try_into().unwrap()));
            to.copy_from_slice(&(2.0 * value).to_le_bytes());
        }
        Ok(())
    }
}

#[test]
fn transforms_write_into_the_batch_and_failures_are_dealt_with_as_told() {
    block_on(async {
        let view = view("transforms", 30, 2).await;
        let made = |fails_every, on_error| {
            let transform = Arc::new(Doubled { fails_every, calls: AtomicU64::new(0) });
            let mut spec = spec(&view, &["number", "vector"]);
            spec.columns[1].transform = Some(Arc::clone(&transform) as _);
            spec.settings = Settings { on_error, ..settings(5, 0, 1) };
            (transform, spec)
        };
        let (transform, good) = made(0, OnError::Raise);
        let loader = Loader::new(good).await.unwrap();
        let mut batches = loader.batches(1, 0, 0).unwrap();
        while let Some(batch) = batches.next().await.unwrap() {
            let lacus_loader::ColumnBatch::Stacked(vectors) = &batch.columns[1].1 else { panic!() };
            assert_eq!((vectors.dtype(), vectors.shape().dims()), (DType::F64, &[5, 3][..]));
            let firsts: Vec<f64> = vectors
                .bytes()
                .chunks_exact(24)
                .map(|b| f64::from_le_bytes(b[..8].try_into().unwrap()))
                .collect();
            let expected: Vec<f64> = numbers(&batch).iter().map(|n| 2.0 * *n as f64).collect();
            assert_eq!(firsts, expected);
        }
        assert_eq!(transform.calls.load(Ordering::Relaxed), 30);

        let is_bad = |row: u64| view.rows().get(row).unwrap() % 4 == 0;
        let (_, skipping) = made(4, OnError::Skip);
        let loader = Loader::new(skipping).await.unwrap();
        let kept = epoch(&loader, 1, 0).await;
        assert_eq!(kept.len() as u64, loader.batch_count(0).unwrap());
        let mut kept = kept.concat();
        kept.sort_unstable();
        assert_eq!(kept, (0..30).filter(|row| !is_bad(*row)).collect::<Vec<_>>());
        assert_eq!(loader.stats().failures, (0..30).filter(|row| is_bad(*row)).count() as u64);
        assert!(loader.stats().failed[0].contains("as told"));

        let (_, zeros) = made(4, OnError::Zeros);
        assert_eq!(epoch(&Loader::new(zeros).await.unwrap(), 1, 0).await.concat().len(), 30);

        let (_, raising) = made(4, OnError::Raise);
        let loader = Loader::new(raising).await.unwrap();
        let mut batches = loader.batches(1, 0, 0).unwrap();
        let (mut errors, mut good) = (0, 0);
        loop {
            match batches.next().await {
                Ok(Some(_)) => good += 1,
                Ok(None) => break,
                Err(error) => {
                    assert!(
                        matches!(&error, LoaderError::Sample { column, .. } if column == "vector"),
                        "{error}"
                    );
                    assert_eq!(error.kind(), ErrorKind::Corrupt);
                    errors += 1;
                }
            }
        }
        assert!(errors > 0);
        assert_eq!(errors + good, loader.batch_count(0).unwrap(), "after an error the next batch comes");
    });
}

#[test]
fn a_dropped_iterator_leaves_nothing_behind() {
    block_on(async {
        let view = view("dropped", 200, 2).await;
        for _ in 0..20 {
            let small = Settings { prefetch_bytes: 64 << 10, ..settings(4, 0, 1) };
            let loader = Loader::new(LoaderSpec { settings: small, ..spec(&view, &["number", "vector"]) })
                .await
                .unwrap();
            let mut batches = loader.batches(1, 0, 0).unwrap();
            batches.next().await.unwrap();
            drop(batches);
        }
        let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        for _ in 0..200 {
            if alive() == 0 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(alive(), 0);
    });
}
