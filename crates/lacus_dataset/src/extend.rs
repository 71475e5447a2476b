//! Appends rows: samples of several columns, encoded on all cores, all in one version.

use futures::future::BoxFuture;
use std::borrow::Cow;
use std::collections::BTreeSet;

use lacus_io::blocking;
use lacus_sample::{Column, Form, Sample, Samples, Stored, encode, encode_scalars};
use lacus_table::{
    BlobSample, BlobTile, ColumnValues, ColumnWrite, RowChange, ScalarBits, TableError, WriteOptions,
};
use lacus_threads::Pool;
use serde_json::json;

use crate::dataset::{Dataset, render};
use crate::error::DatasetError;
use crate::links::absolute;
use crate::threads::{in_parallel, map_in_parallel};

/// What becomes of a call one of whose rows is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Nothing is written.
    #[default]
    Raise,
    /// The other rows are written, and it is reported.
    Skip,
}

/// Rows to append.
#[derive(Debug, Default)]
pub struct Extend<'a> {
    /// Columns and their samples, one for each row. A column that is not named has none.
    pub columns: Vec<(String, Samples<'a>)>,
    /// What becomes of rows that do not fit.
    pub on_error: OnError,
}

/// A row that was not written.
#[derive(Debug)]
pub struct Skipped {
    /// Its place among those given.
    pub row: u64,
    /// Why.
    pub error: DatasetError,
}

/// What was appended.
#[derive(Debug)]
pub struct Extended {
    /// The version it made.
    pub version: u64,
    /// Rows written.
    pub rows: u64,
    /// Rows that were not.
    pub skipped: Vec<Skipped>,
}

impl Dataset {
    /// Appends rows, all in one version.
    ///
    /// Fails with nothing written if columns are unknown or differ in length, and, unless errors are skipped, if a
    /// sample does not fit its column: the error names its column and its place.
    pub fn extend<'a>(
        &'a mut self,
        rows: Extend<'a>,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<Extended, DatasetError>> {
        Box::pin(async move {
            let count = self.check_columns(&rows)?;
            let mut change = RowChange { op: "APPEND", ..RowChange::default() };
            let mut encoded: Vec<(String, Column, Vec<Stored<'_>>)> = Vec::with_capacity(rows.columns.len());
            let mut skipped: Vec<Skipped> = Vec::new();
            let mut left_out: BTreeSet<usize> = BTreeSet::new();
            for (name, mut samples) in rows.columns {
                let mut column = (*self.column(&name)?).clone();
                if let Some(dtype) = column.is_open().then(|| samples.infer()).flatten() {
                    column = column.settle(dtype);
                    let metadata = self.header(&name)?.metadata;
                    change.headers.push((name.clone(), render(&column, metadata)));
                }
                let mut failures: Vec<(usize, DatasetError)> = Vec::new();
                if let (true, Samples::Each(samples)) = (column.htype().link, &mut samples) {
                    for (row, sample) in samples.iter_mut().enumerate() {
                        make_absolute(sample);
                        if let Err(error) = self.check_links(&column, sample).await {
                            failures.push((row, DatasetError::in_row(&name, row as u64)(error)));
                        }
                    }
                }
                let stored = encode_all(self.table().world().pool(), &column, samples, options)?;
                let mut kept = Vec::with_capacity(stored.len());
                for (row, stored) in stored.into_iter().enumerate() {
                    match stored {
                        Ok(stored) => kept.push(stored),
                        Err(error) => {
                            failures.push((row, DatasetError::sample(&name, row as u64)(error)));
                            kept.push(Stored::Missing);
                        }
                    }
                }
                failures.sort_by_key(|(row, _)| *row);
                for (row, error) in failures {
                    if rows.on_error == OnError::Raise {
                        return Err(error);
                    }
                    if left_out.insert(row) {
                        skipped.push(Skipped { row: row as u64, error });
                    }
                }
                encoded.push((name, column, kept));
            }
            skipped.sort_by_key(|skipped| skipped.row);
            let written = (count - left_out.len()) as u64;
            if written == 0 {
                return Ok(Extended { version: self.table().version(), rows: 0, skipped });
            }
            let ids: Vec<u64> = self.table_mut().reserve_ids(written).await?.collect();
            for (name, column, stored) in encoded {
                let kept = stored.into_iter().enumerate().filter(|(row, _)| !left_out.contains(row));
                let rows = ids.iter().copied().zip(kept.map(|(_, stored)| stored)).collect();
                change.writes.extend(column_write(&name, &column, rows));
            }
            change.append = ids;
            change.detail = json!({"rows": written});
            let version = self.table_mut().change_rows(change, options).await?;
            Ok(Extended { version, rows: written, skipped })
        })
    }

    /// Checks names and lengths; returns how many rows there are.
    fn check_columns(&self, rows: &Extend<'_>) -> Result<usize, DatasetError> {
        let mut seen = BTreeSet::new();
        for (name, _) in &rows.columns {
            self.column(name)?;
            if !seen.insert(name) {
                return Err(DatasetError::refused("append", format!("column {name:?} is given twice")));
            }
        }
        let count = rows.columns.first().map_or(0, |(_, samples)| samples.len());
        if rows.columns.iter().any(|(_, samples)| samples.len() != count) {
            let found = rows.columns.iter().map(|(name, samples)| (name.clone(), samples.len())).collect();
            return Err(DatasetError::UnequalLengths { found });
        }
        Ok(count)
    }

    /// Fails unless all links of a sample may be followed and lead to samples of the column.
    pub(crate) async fn check_links(&self, column: &Column, sample: &Sample<'_>) -> Result<(), DatasetError> {
        let links: Vec<&str> = match sample {
            Sample::Link(url) => vec![url],
            Sample::Sequence(all) => all
                .iter()
                .filter_map(|sample| match sample {
                    Sample::Link(url) => Some(url.as_str()),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        };
        for link in links {
            self.links().check(link, column).await?;
        }
        Ok(())
    }
}

/// Makes texts that are given for links, and paths in them, links that mean the same everywhere.
pub(crate) fn make_absolute(sample: &mut Sample<'_>) {
    match sample {
        Sample::Link(url) => *url = absolute(url),
        Sample::Text(url) => *sample = Sample::Link(absolute(url)),
        Sample::Json(serde_json::Value::Array(items)) if items.iter().all(serde_json::Value::is_string) => {
            let links = items.iter().filter_map(serde_json::Value::as_str);
            *sample = Sample::Sequence(links.map(|link| Sample::Link(absolute(link))).collect());
        }
        Sample::Sequence(all) => all.iter_mut().for_each(make_absolute),
        _ => {}
    }
}

/// Encodes samples on all cores.
pub(crate) fn encode_all<'a>(
    pool: &Pool,
    column: &Column,
    samples: Samples<'a>,
    options: &WriteOptions,
) -> Result<Vec<Result<Stored<'a>, lacus_sample::SampleError>>, DatasetError> {
    let cancelled = || options.cancel.as_ref().is_some_and(|c| c.load(std::sync::atomic::Ordering::Relaxed));
    let encode = |sample| match cancelled() {
        true => Ok(Stored::Missing),
        false => encode(column, sample),
    };
    let encoded = blocking(|| match samples {
        Samples::Each(samples) => {
            let weight = samples.iter().take(64).map(weight).max().unwrap_or(0);
            map_in_parallel(pool, samples, weight, encode)
        }
        Samples::Rows(tensor) => {
            let is_scalar = matches!(column.form(), Form::Int | Form::Float | Form::Real);
            let count = tensor.shape().dims().first().map_or(0, |rows| *rows as usize);
            if is_scalar && tensor.shape().rank() == 1 {
                return encode_scalars(column, &tensor);
            }
            let weight = (0..count.min(1)).map(|row| weight(&Sample::Tensor(tensor.row(row as u64)))).sum();
            in_parallel(pool, count, weight, |row| encode(Sample::Tensor(tensor.row(row as u64))))
        }
    });
    match cancelled() {
        true => Err(TableError::Cancelled.into()),
        false => Ok(encoded),
    }
}

/// About how many bytes encoding a sample works on.
fn weight(sample: &Sample<'_>) -> u64 {
    match sample {
        // Packing takes several times as long as copying.
        Sample::Tensor(tensor) => {
            16 * tensor.shape().byte_len(tensor.dtype()).map_or(0, |bytes| bytes as u64)
        }
        // Kept as they come, most of them.
        Sample::Encoded(bytes) => 1024 + bytes.len() as u64,
        Sample::Sequence(all) => all.iter().map(weight).sum(),
        _ => 64,
    }
}

/// Stored samples (ids ascending) as the table takes them; `None` when all are missing.
pub(crate) fn column_write<'a>(
    name: &str,
    column: &Column,
    rows: Vec<(u64, Stored<'a>)>,
) -> Option<ColumnWrite<'a>> {
    let mut ids = Vec::with_capacity(rows.len());
    let fixed = column.fixed_shape();
    let mut values = match column.form() {
        Form::Int => ColumnValues::Scalars(ScalarBits::Int(Vec::new())),
        Form::Float => ColumnValues::Scalars(ScalarBits::Float(Vec::new())),
        Form::Real => ColumnValues::Scalars(ScalarBits::Real(Vec::new())),
        Form::Text => ColumnValues::Texts(Vec::new()),
        Form::Blob => ColumnValues::Blobs(Vec::new()),
    };
    for (id, stored) in rows {
        match (&mut values, stored) {
            (ColumnValues::Scalars(ScalarBits::Int(all)), Stored::Int(value)) => all.push(value),
            (ColumnValues::Scalars(ScalarBits::Float(all)), Stored::Float(value)) => all.push(value),
            (ColumnValues::Scalars(ScalarBits::Real(all)), Stored::Real(value)) => all.push(value),
            (ColumnValues::Texts(all), Stored::Text(text)) => all.push(text),
            (ColumnValues::Blobs(all), Stored::Blob(blob)) => {
                let longs =
                    |dims: &[u64]| dims.iter().map(|d| i64::try_from(*d).unwrap_or(i64::MAX)).collect();
                let is_fixed = fixed.as_ref().is_some_and(|fixed| *fixed == blob.shape);
                all.push(BlobSample {
                    shape: (!is_fixed).then(|| longs(&blob.shape)),
                    tiles: blob
                        .tiles
                        .into_iter()
                        .map(|tile| BlobTile {
                            coords: longs(&tile.coords),
                            codec: Cow::Borrowed(tile.codec),
                            bytes: tile.bytes,
                        })
                        .collect(),
                });
            }
            // Missing; a form of another column cannot come from its own encoder.
            _ => continue,
        }
        ids.push(id);
    }
    (!ids.is_empty()).then(|| ColumnWrite { name: name.to_owned(), ids, values })
}
