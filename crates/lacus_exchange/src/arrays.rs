//! safetensors: arrays by name, not rows.

use lacus_io::boxed;
use std::path::Path;

use lacus_dataset::{Dataset, OnError};
use lacus_files::{FileValue, Format, Item, Metadata, Packing, ReadOptions};
use lacus_io::blocking;
use lacus_table::{Put, Read, Value, Wish, WriteOptions};
use lacus_tensor::Tensor;
use serde_json::json;

use crate::error::ExchangeError;
use crate::options::{ExportOptions, ImportOptions, Progress, Report, check_cancel};

/// Puts the tensors of a safetensors file by their names, all in one version. Tensors of the same names are replaced
/// with [`ImportOptions::append`], and are an error otherwise.
#[boxed]
pub async fn from_safetensors(
    dataset: &mut Dataset,
    source: &Path,
    options: &ImportOptions,
) -> Result<Report, ExchangeError> {
    let file = blocking(|| {
        lacus_files::open_as(source, Format::Safetensors, Packing::Plain, &ReadOptions::default())
    })?;
    let mut report = Report::default();
    let metadata = (!file.metadata().is_empty()).then(|| json!(file.metadata()));
    let group = options.prefix.as_deref().map(|group| group.trim_end_matches('/'));
    let mut items = Vec::new();
    for entry in file.entries() {
        let name = match group {
            Some(group) => format!("{group}/{}", entry.name()),
            None => entry.name().to_owned(),
        };
        let table = dataset.table();
        let taken = table.contains(&name) && (!options.append || table.is_column(&name));
        if taken {
            return Err(lacus_dataset::DatasetError::NameTaken { name }.into());
        }
        let FileValue::Dense(value) = entry.value() else { continue };
        report.bytes += value.shape().byte_len(value.dtype()).map_or(0, |bytes| bytes as u64);
        report.columns.push(name.clone());
        items.push(Put {
            name,
            value: Value::Dense(value),
            wish: Wish::default(),
            metadata: metadata.clone(),
        });
    }
    report.rows = items.len() as u64;
    let (count, progress) = (report.rows, options.progress.clone());
    let write = WriteOptions {
        durable: options.durable,
        unsynced: false,
        author: options.author.clone(),
        progress: progress.map(|progress| -> lacus_table::ProgressFn {
            std::sync::Arc::new(move |p: lacus_table::Progress| {
                let items = if p.done_bytes >= p.total_bytes { count } else { 0 };
                progress(Progress { items, bytes: p.done_bytes, total_items: Some(count) });
            })
        }),
        cancel: options.cancel.clone(),
    };
    if !items.is_empty() {
        dataset.table_mut().put(items, &write).await?;
    }
    Ok(report)
}

/// Writes the arrays of a dataset (not its columns) to a safetensors file, which appears whole or not at all. Sparse
/// ones are filled up with zeros. All of them are in memory at once.
#[boxed]
pub async fn to_safetensors(
    dataset: &Dataset,
    dest: &Path,
    options: &ExportOptions,
) -> Result<Report, ExchangeError> {
    let table = dataset.table();
    let mut report = Report::default();
    let names = match &options.columns {
        Some(names) => names.clone(),
        None => table.names().into_iter().filter(|name| !table.is_column(name)).collect(),
    };
    if names.is_empty() {
        let why = "the dataset has no arrays, only columns, for which safetensors has no place";
        return Err(ExchangeError::Lacking(why.to_owned()));
    }
    let mut tensors: Vec<(String, Tensor, Metadata)> = Vec::with_capacity(names.len());
    for name in names {
        check_cancel(options.cancel.as_ref())?;
        if table.is_column(&name) {
            let why = "it is a column, and safetensors holds arrays".to_owned();
            report.skip(options.on_error, format!("{name:?}"), why)?;
            continue;
        }
        let info = table.tensor(&name)?;
        if info.header.dtype == lacus_tensor::DType::C128 {
            report.skip(options.on_error, format!("{name:?}"), "safetensors has no complex128".to_owned())?;
            continue;
        }
        let tensor = match table.read(&name, &[]).await? {
            Read::Dense(tensor) => tensor,
            Read::Sparse(tensor) => tensor.to_dense().map_err(lacus_dataset::DatasetError::from)?,
        };
        let texts = info.metadata.as_object().into_iter().flatten();
        let metadata = texts.map(|(key, value)| {
            (key.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        });
        report.bytes += tensor.bytes().len() as u64;
        tensors.push((name, tensor, metadata.collect()));
        if let Some(progress) = &options.progress {
            let items = tensors.len() as u64;
            progress(Progress { items, bytes: report.bytes, total_items: None });
        }
    }
    if tensors.is_empty() && options.on_error == OnError::Skip {
        return Err(ExchangeError::Lacking("nothing is left that safetensors has a place for".to_owned()));
    }
    let items: Vec<Item<'_>> = tensors
        .iter()
        .map(|(name, tensor, metadata)| Item {
            name,
            value: FileValue::Dense(tensor.as_ref()),
            metadata: Some(metadata).filter(|metadata| !metadata.is_empty()),
        })
        .collect();
    blocking(|| lacus_files::write(dest, Format::Safetensors, Packing::Plain, &items))?;
    report.rows = items.len() as u64;
    report.columns = tensors.iter().map(|(name, ..)| name.clone()).collect();
    Ok(report)
}
