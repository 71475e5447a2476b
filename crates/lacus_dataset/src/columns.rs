//! Columns come and go: added, dropped, renamed, described.

use futures::future::BoxFuture;
use lacus_io::boxed;
use std::sync::Arc;

use lacus_sample::{Column, ColumnSpec, Sample, encode, infer};
use lacus_table::{RowChange, WriteOptions};
use serde_json::{Value as Json, json};

use crate::dataset::{Dataset, render};
use crate::error::DatasetError;
use crate::extend::column_write;

/// What is known of a column without reading it.
#[derive(Clone, Debug)]
pub struct ColumnFacts {
    /// Its name.
    pub name: String,
    /// Its type.
    pub column: Arc<Column>,
    /// Bytes its samples take in the files of this version.
    pub stored_bytes: u64,
    /// Metadata of the caller's.
    pub metadata: Option<Json>,
}

impl Dataset {
    /// What is known of all columns, in the order in which they were added.
    pub fn columns(&self) -> Result<Vec<ColumnFacts>, DatasetError> {
        self.column_names().iter().map(|name| self.column_facts(name)).collect()
    }

    /// What is known of a column.
    pub fn column_facts(&self, name: &str) -> Result<ColumnFacts, DatasetError> {
        let column = self.column(name)?;
        let info = self.table().column(name)?;
        Ok(ColumnFacts {
            name: name.to_owned(),
            column,
            stored_bytes: info.stored_bytes,
            metadata: info.header.metadata,
        })
    }

    /// Makes a column. Rows that are there get `default`, or no sample. Only the column is written.
    pub fn add_column<'a>(
        &'a mut self,
        name: &'a str,
        spec: &'a ColumnSpec,
        default: Option<Sample<'a>>,
        metadata: Option<Json>,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<u64, DatasetError>> {
        Box::pin(async move {
            if self.table().contains(name) {
                return Err(DatasetError::NameTaken { name: name.to_owned() });
            }
            let mut column = Column::new(spec).map_err(DatasetError::column(name))?;
            let mut change = RowChange {
                op: "ADD COLUMN",
                detail: json!({"tensors": [name], "htype": column.htype().to_string()}),
                ..RowChange::default()
            };
            if let Some(sample) = default {
                if let Some(dtype) = infer(&sample).filter(|_| column.is_open()) {
                    column = column.settle(dtype);
                }
                let stored = encode(&column, sample).map_err(DatasetError::column(name))?;
                let axis = self.table().rows().await?;
                let mut ids: Vec<u64> = axis
                    .id_runs(0..axis.len())
                    .into_iter()
                    .flat_map(|(first, count)| first..first + count)
                    .collect();
                ids.sort_unstable();
                let all = ids.into_iter().map(|id| (id, stored.clone())).collect();
                change.writes.extend(column_write(name, &column, all));
            }
            change.headers.push((name.to_owned(), render(&column, metadata)));
            Ok(self.table_mut().change_rows(change, options).await?)
        })
    }

    /// Drops a column. Older versions keep it.
    #[boxed]
    pub async fn drop_column(&mut self, name: &str, options: &WriteOptions) -> Result<u64, DatasetError> {
        self.header(name)?;
        Ok(self.table_mut().remove(&[name], options).await?)
    }

    /// Gives a column another name. Stored bytes are copied.
    #[boxed]
    pub async fn rename_column(
        &mut self,
        from: &str,
        to: &str,
        options: &WriteOptions,
    ) -> Result<u64, DatasetError> {
        self.header(from)?;
        Ok(self.table_mut().rename_column(from, to, options).await?)
    }

    /// Adds names to the classes of a column. Those that are there keep their numbers.
    #[boxed]
    pub async fn add_class_names(
        &mut self,
        name: &str,
        names: &[String],
        options: &WriteOptions,
    ) -> Result<u64, DatasetError> {
        let header = self.header(name)?;
        let column = self.column(name)?;
        let new: Vec<String> =
            names.iter().filter(|new| !column.class_names().contains(new)).cloned().collect();
        if new.is_empty() {
            return Ok(self.table().version());
        }
        let column = column.with_class_names(new).map_err(DatasetError::column(name))?;
        let change = RowChange {
            op: "ADD CLASSES",
            detail: json!({"tensors": [name]}),
            headers: vec![(name.to_owned(), render(&column, header.metadata))],
            ..RowChange::default()
        };
        Ok(self.table_mut().change_rows(change, options).await?)
    }
}
