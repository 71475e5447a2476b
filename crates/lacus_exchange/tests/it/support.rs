//! Datasets in memory, files made on the spot.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use lacus_dataset::{Batch, ColumnSpec, Dataset, Extend, Sample, Value};
use lacus_exchange::{ExportOptions, ImportOptions, OnError, Report};
use lacus_io::{Store, World};
use lacus_media::{EncodeOptions, Format};
use lacus_table::{Table, WriteOptions};
use lacus_tensor::{DType, Shape, TensorRef};
use serde_json::Value as Json;

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

pub(crate) async fn dataset() -> Dataset {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let url = format!("memory://exchange-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let store = Store::open(&url, &Default::default()).unwrap();
    Dataset::new(Table::create(store, World::real()).await.unwrap())
}

pub(crate) fn skip() -> ImportOptions {
    ImportOptions { on_error: OnError::Skip, ..ImportOptions::default() }
}

pub(crate) fn skip_out() -> ExportOptions {
    ExportOptions { on_error: OnError::Skip, ..ExportOptions::default() }
}

/// A PNG of this size whose pixels depend on `seed`.
pub(crate) fn png(height: u64, width: u64, seed: u8) -> Vec<u8> {
    picture(height, width, seed, Format::Png)
}

pub(crate) fn picture(height: u64, width: u64, seed: u8, format: Format) -> Vec<u8> {
    let bytes: Vec<u8> = (0..height * width * 3).map(|i| (i as u8).wrapping_mul(seed)).collect();
    let shape = Shape::new([height, width, 3]).unwrap();
    let tensor = TensorRef::contiguous(DType::U8, &shape, &bytes).unwrap();
    lacus_media::encode(tensor, format, &EncodeOptions::default()).unwrap()
}

pub(crate) fn wav(frames: u64) -> Vec<u8> {
    let bytes: Vec<u8> = (0..frames).flat_map(|i| (i as i16 * 100).to_le_bytes()).collect();
    let shape = Shape::new([frames, 1]).unwrap();
    let tensor = TensorRef::contiguous(DType::I16, &shape, &bytes).unwrap();
    lacus_media::encode(tensor, Format::Wav, &EncodeOptions { sample_rate: 8000, ..Default::default() })
        .unwrap()
}

/// All files below a directory and what is in them, sorted by name.
pub(crate) fn tree(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => left.push(path),
                false => {
                    let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                    all.push((name, std::fs::read(&path).unwrap()));
                }
            }
        }
    }
    all.sort();
    all
}

/// Writes a file, and the directories above it.
pub(crate) fn put(root: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

pub(crate) async fn values(dataset: &Dataset, name: &str) -> Vec<Option<Value>> {
    let rows: Vec<u64> = (0..dataset.len().await.unwrap()).collect();
    match dataset.read(name, &rows, &[]).await.unwrap() {
        Batch::Values(values) => values,
        Batch::Stacked(tensor) => {
            let dims = tensor.shape().dims()[1..].to_vec();
            let item = tensor.bytes().len() / rows.len().max(1);
            let one = |i: usize| {
                let shape = Shape::new(dims.clone()).unwrap();
                let bytes = &tensor.bytes()[i * item..(i + 1) * item];
                TensorRef::contiguous(tensor.dtype(), &shape, bytes).unwrap().to_tensor()
            };
            (0..rows.len()).map(|i| Some(Value::Tensor(one(i)))).collect()
        }
    }
}

/// Every cell of every column, and the types of the columns.
pub(crate) async fn everything(dataset: &Dataset) -> Vec<(String, String, Vec<Option<Value>>)> {
    let mut all = Vec::new();
    for name in dataset.column_names() {
        let column = dataset.column(&name).unwrap();
        let facts = format!(
            "{} {:?} {:?} {}",
            column.htype(),
            column.dtype(),
            column.shape(),
            Json::Object(column.options().clone())
        );
        let values = values(dataset, &name).await;
        all.push((name, facts, values));
    }
    all
}

pub(crate) async fn bytes(dataset: &Dataset, name: &str) -> Vec<Option<Vec<u8>>> {
    let rows: Vec<u64> = (0..dataset.len().await.unwrap()).collect();
    let found = dataset.stored_bytes(name, &rows).await.unwrap();
    found.into_iter().map(|bytes| bytes.map(|b| b.to_vec())).collect()
}

pub(crate) fn spec(htype: &str, options: Json) -> ColumnSpec {
    let options = options.as_object().cloned().unwrap_or_default();
    ColumnSpec { htype: Some(htype.into()), options, ..ColumnSpec::default() }
}

pub(crate) async fn filled(columns: Vec<(&str, ColumnSpec, Vec<Sample<'_>>)>) -> Dataset {
    let mut dataset = dataset().await;
    let mut rows = Extend::default();
    for (name, spec, samples) in columns {
        dataset.add_column(name, &spec, None, None, &WriteOptions::default()).await.unwrap();
        rows.columns.push((name.to_owned(), samples.into()));
    }
    dataset.extend(rows, &WriteOptions::default()).await.unwrap();
    dataset
}

/// The whole numbers of scalars.
pub(crate) fn ints(values: &[Option<Value>]) -> Vec<Option<i64>> {
    let int = |value: &Value| match value {
        Value::Tensor(tensor) => {
            let mut bytes = [0; 8];
            bytes[..tensor.bytes().len()].copy_from_slice(tensor.bytes());
            i64::from_le_bytes(bytes)
        }
        other => panic!("{other:?}"),
    };
    values.iter().map(|value| value.as_ref().map(int)).collect()
}

pub(crate) fn texts(values: &[Option<Value>]) -> Vec<Option<String>> {
    let text = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    values.iter().map(|value| value.as_ref().map(text)).collect()
}

pub(crate) fn reasons(report: &Report) -> Vec<String> {
    report.skipped.iter().map(|(place, why)| format!("{place}: {why}")).collect()
}
