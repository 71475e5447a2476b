//! Changes cells and deletes rows.

use futures::future::BoxFuture;
use lacus_io::boxed;
use std::collections::BTreeMap;

use lacus_sample::{Samples, Stored};
use lacus_table::{RowChange, WriteOptions};
use serde_json::json;

use crate::dataset::{Dataset, id_at, render};
use crate::error::DatasetError;
use crate::extend::{column_write, encode_all, make_absolute};

/// Rows that one write may make up to the one it names: past that, a number is a mistake.
const MOST_NEW_ROWS: u64 = 1 << 24;

impl Dataset {
    /// Replaces samples of one column, in one version; nothing of other columns is touched. Where a row is named
    /// twice, the last sample counts. With `grow`, rows past the end are made, without samples in the other
    /// columns; otherwise they are an error.
    pub fn update<'a>(
        &'a mut self,
        name: &'a str,
        positions: &'a [u64],
        samples: impl Into<Samples<'a>>,
        grow: bool,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<u64, DatasetError>> {
        let mut samples: Samples<'a> = samples.into();
        Box::pin(async move {
            if positions.len() != samples.len() {
                let found = vec![("rows".to_owned(), positions.len()), (name.to_owned(), samples.len())];
                return Err(DatasetError::UnequalLengths { found });
            }
            let mut column = (*self.column(name)?).clone();
            let axis = self.table().rows().await?;
            let mut change = RowChange { op: "UPDATE", ..RowChange::default() };
            let end = positions.iter().max().map_or(0, |last| last + 1);
            if end > axis.len() && !grow {
                let row = positions.iter().copied().find(|position| *position >= axis.len()).unwrap_or(end);
                id_at(&axis, row)?;
            }
            if let Some(dtype) = column.is_open().then(|| samples.infer()).flatten() {
                column = column.settle(dtype);
                let metadata = self.header(name)?.metadata;
                change.headers.push((name.to_owned(), render(&column, metadata)));
            }
            if let (true, Samples::Each(samples)) = (column.htype().link, &mut samples) {
                for (sample, position) in samples.iter_mut().zip(positions) {
                    make_absolute(sample);
                    self.check_links(&column, sample).await.map_err(DatasetError::in_row(name, *position))?;
                }
            }
            let mut stored = Vec::with_capacity(samples.len());
            for (found, position) in
                encode_all(self.table().world().pool(), &column, samples, options)?.into_iter().zip(positions)
            {
                stored.push(found.map_err(DatasetError::sample(name, *position))?);
            }
            let new = end.saturating_sub(axis.len());
            if new > MOST_NEW_ROWS {
                let why = format!("row {} is {new} rows past the end, more than {MOST_NEW_ROWS}", end - 1);
                return Err(DatasetError::refused("write", why));
            }
            let new_ids: Vec<u64> = match new {
                0 => Vec::new(),
                _ => self.table_mut().reserve_ids(new).await?.collect(),
            };
            let mut by_id: BTreeMap<u64, Stored<'_>> = BTreeMap::new();
            for (position, stored) in positions.iter().zip(stored) {
                let id = match position.checked_sub(axis.len()) {
                    Some(past) => new_ids[past as usize],
                    None => id_at(&axis, *position)?,
                };
                by_id.insert(id, stored);
            }
            let missing: Vec<u64> = by_id
                .iter()
                .filter(|(id, stored)| {
                    **stored == Stored::Missing && new_ids.first().is_none_or(|first| **id < *first)
                })
                .map(|(id, _)| *id)
                .collect();
            if !missing.is_empty() {
                change.clear.push((name.to_owned(), missing));
            }
            change.detail = json!({"tensors": [name], "rows": by_id.len()});
            change.writes.extend(column_write(name, &column, by_id.into_iter().collect()));
            change.append = new_ids;
            Ok(self.table_mut().change_rows(change, options).await?)
        })
    }

    /// Deletes rows, from every column, in one version.
    #[boxed]
    pub async fn delete_rows(
        &mut self,
        positions: &[u64],
        options: &WriteOptions,
    ) -> Result<u64, DatasetError> {
        let mut ids = self.ids(positions).await?;
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            return Ok(self.table().version());
        }
        let change = RowChange {
            op: "DELETE ROWS",
            detail: json!({"rows": ids.len()}),
            delete: ids,
            ..RowChange::default()
        };
        Ok(self.table_mut().change_rows(change, options).await?)
    }
}
