//! Copies a dataset to another place in the best layout for streaming: rows in order, links followed, one kind of
//! file for each kind of sample, nothing that was replaced.

use lacus_io::boxed;
use std::borrow::Cow;

use lacus_io::{Store, World};
use lacus_sample::{Column, Form, Stored, decode_text, encode};
use lacus_table::{
    BlobSample, BlobTile, ColumnValues, ColumnWrite, Put, Read, RowChange, Table, Wish, WriteOptions,
};
use lacus_tensor::Index;
use serde_json::json;

use crate::columns::ColumnFacts;
use crate::dataset::{Dataset, render};
use crate::error::DatasetError;
use crate::extend::column_write;
use crate::row_set::RowSet;
use crate::view::View;

/// Stored bytes copied at a time, and rows.
const GROUP_BYTES: u64 = 256 << 20;
const GROUP_ROWS: u64 = 256 << 10;

/// What is copied.
struct Copied<'a> {
    rows: &'a RowSet,
    columns: Vec<ColumnFacts>,
    /// Whether arrays are copied as well.
    arrays: bool,
}

impl View {
    /// Writes its rows, in their order, and its columns to an empty place as a dataset of its own. Samples are not decoded; links
    /// become what they lead to; arrays, which have no rows, stay behind.
    #[boxed]
    pub async fn materialize(
        &self,
        store: Store,
        world: World,
        options: &WriteOptions,
    ) -> Result<Dataset, DatasetError> {
        let columns = self.columns().into_iter().map(|name| self.source().column_facts(&name));
        let what = Copied { rows: self.rows(), columns: columns.collect::<Result<_, _>>()?, arrays: false };
        self.source().copy_out(what, store, world, options).await
    }
}

impl Dataset {
    /// Writes a copy of this version to an empty place. Samples are not decoded; links become what they lead to.
    #[boxed]
    pub async fn materialize(
        &self,
        store: Store,
        world: World,
        options: &WriteOptions,
    ) -> Result<Dataset, DatasetError> {
        let axis = self.table().rows().await?;
        let rows = RowSet::from_runs(axis.id_runs(0..axis.len()));
        let what = Copied { rows: &rows, columns: self.columns()?, arrays: true };
        self.copy_out(what, store, world, options).await
    }

    /// Copies to an empty place, all or nothing.
    async fn copy_out(
        &self,
        what: Copied<'_>,
        store: Store,
        world: World,
        options: &WriteOptions,
    ) -> Result<Dataset, DatasetError> {
        let mut copy = Dataset::new(Table::create(store.clone(), world.clone()).await?);
        match self.copy_to(what, &mut copy, options).await {
            Ok(()) => Ok(copy),
            Err(error) => {
                // Nothing half is left; that this may fail too is not what the caller asked.
                drop(copy);
                let _ = Table::delete(store, world).await;
                Err(error)
            }
        }
    }

    async fn copy_to(
        &self,
        what: Copied<'_>,
        copy: &mut Dataset,
        options: &WriteOptions,
    ) -> Result<(), DatasetError> {
        let Copied { rows, columns, arrays } = what;
        let headers = columns
            .iter()
            .map(|facts| {
                let column = match facts.column.htype().link {
                    true => facts.column.resolved(),
                    false => (*facts.column).clone(),
                };
                (facts.name.clone(), render(&column, facts.metadata.clone()))
            })
            .collect();
        let names: Vec<&String> = columns.iter().map(|facts| &facts.name).collect();
        let change = RowChange {
            op: "MATERIALIZE",
            detail: json!({"from": self.table().store().text(), "version": self.table().version(), "tensors": names}),
            headers,
            ..RowChange::default()
        };
        copy.table_mut().change_rows(change, options).await?;
        if arrays {
            self.copy_arrays(copy, options).await?;
        }
        let axis = self.table().rows().await?;
        let stored: u64 = columns.iter().map(|facts| facts.stored_bytes).sum();
        let per_row = stored / axis.len().max(1);
        let step = (GROUP_BYTES / per_row.max(1)).clamp(1, GROUP_ROWS);
        let mut from = 0;
        while from < rows.len() {
            let ids: Vec<u64> = rows.every(from, 1, step.min(rows.len() - from)).iter().collect();
            let version = self.table().version();
            let position = |id: &u64| axis.position(*id).ok_or(DatasetError::NoSuchRow { id: *id, version });
            let positions: Vec<u64> = ids.iter().map(position).collect::<Result<_, _>>()?;
            let new: Vec<u64> = copy.table_mut().reserve_ids(ids.len() as u64).await?.collect();
            let mut change =
                RowChange { op: "APPEND", detail: json!({"rows": ids.len()}), ..RowChange::default() };
            for facts in &columns {
                let (name, column) = (&facts.name, &facts.column);
                change.writes.extend(self.copied(name, column, &ids, &new, &positions).await?);
            }
            change.append = new;
            copy.table_mut().change_rows(change, options).await?;
            from += step;
        }
        Ok(())
    }

    async fn copy_arrays(&self, copy: &mut Dataset, options: &WriteOptions) -> Result<(), DatasetError> {
        let arrays = self.table().names().into_iter().filter(|name| !self.table().is_column(name));
        for name in arrays {
            let info = self.table().tensor(&name)?;
            let read = self.table().read(&name, &[Index::Ellipsis]).await?;
            let value = match &read {
                Read::Dense(tensor) => lacus_table::Value::Dense(tensor.as_ref()),
                Read::Sparse(tensor) => lacus_table::Value::Sparse(tensor),
            };
            let wish = Wish::like(&info.header);
            let metadata = Some(info.metadata).filter(|metadata| !metadata.is_null());
            copy.table_mut().put(vec![Put { name, value, wish, metadata }], options).await?;
        }
        Ok(())
    }

    /// The samples of some rows of a column, as the copy takes them.
    async fn copied(
        &self,
        name: &str,
        column: &Column,
        ids: &[u64],
        new: &[u64],
        positions: &[u64],
    ) -> Result<Option<ColumnWrite<'static>>, DatasetError> {
        match column.form() {
            Form::Blob => {
                let samples = self.table().locate(name, ids).await?;
                let tiles: Vec<usize> = (0..ids.len()).flat_map(|i| samples.tiles(i)).collect();
                let mut bytes = self.table().fetch(&samples, &tiles).await?.into_iter();
                let (mut kept, mut blobs) = (Vec::new(), Vec::new());
                for (i, id) in new.iter().enumerate() {
                    let range = samples.tiles(i);
                    if range.is_empty() {
                        continue;
                    }
                    kept.push(*id);
                    blobs.push(BlobSample {
                        shape: samples.shape(i).map(<[i64]>::to_vec),
                        tiles: range
                            .zip(&mut bytes)
                            .map(|(tile, bytes)| {
                                let (coords, codec, _) = samples.tile(tile);
                                BlobTile {
                                    coords,
                                    codec: Cow::Owned(codec.to_owned()),
                                    bytes: Cow::Owned(Vec::from(bytes)),
                                }
                            })
                            .collect(),
                    });
                }
                let values = ColumnValues::Blobs(blobs);
                Ok((!kept.is_empty()).then(|| ColumnWrite { name: name.to_owned(), ids: kept, values }))
            }
            Form::Text if column.htype().link => {
                let resolved = column.resolved();
                let mut rows: Vec<(u64, Stored<'static>)> = Vec::new();
                let texts = self.table().read_texts(name, ids).await?;
                for ((text, id), position) in texts.into_iter().zip(new).zip(positions) {
                    let Some(text) = text else { continue };
                    let wrong = || DatasetError::sample(name, *position);
                    let link = decode_text(column, &text).map_err(wrong())?;
                    let linked = self.linked(link).await.map_err(DatasetError::in_row(name, *position))?;
                    let Ok(sample) = linked else { continue };
                    rows.push((*id, encode(&resolved, sample).map_err(wrong())?));
                }
                Ok(column_write(name, &resolved, rows))
            }
            Form::Text => {
                let texts = self.table().read_texts(name, ids).await?;
                let rows =
                    new.iter().zip(texts).filter_map(|(id, text)| Some((*id, Stored::Text(text?.into()))));
                Ok(column_write(name, column, rows.collect()))
            }
            _ => {
                let runs: Vec<(u64, u64)> = ids.iter().map(|id| (*id, 1)).collect();
                let read = self.table().read_scalars(name, &runs).await?;
                let stored = |i: usize| match &read.values {
                    lacus_table::ScalarBits::Int(values) => Stored::Int(values[i]),
                    lacus_table::ScalarBits::Float(values) => Stored::Float(values[i]),
                    lacus_table::ScalarBits::Real(values) => Stored::Real(values[i]),
                };
                let rows = new.iter().enumerate().filter(|(i, _)| read.present[*i]);
                Ok(column_write(name, column, rows.map(|(i, id)| (*id, stored(i))).collect()))
            }
        }
    }
}
