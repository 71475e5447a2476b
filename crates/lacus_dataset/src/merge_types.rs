//! What merges ask about the types of columns: class names that both sides added are united.

use std::borrow::Cow;

use futures::future::BoxFuture;
use lacus_sample::{Base, Column, Sample, Value, encode, joined_class_names, moved_classes};
use lacus_table::{
    BlobTile, ColumnRow, ColumnTypes, ColumnValues, ColumnWrite, Join, ScalarBits, Table, TableError,
    ValueColumn,
};
use lacus_tensor::{DType, Tensor};
use serde_json::{Map, Value as Json};

use crate::dataset::{Dataset, parse, render};
use crate::error::DatasetError;
use crate::extend::column_write;
use crate::rows_read::Batch;

/// What is in conflict where class names are.
const CLASS_NAMES: &str = "class names";

/// Samples rewritten at a time.
const AT_ONCE: usize = 4096;

/// The types that this crate knows, for merges.
#[derive(Clone, Copy, Debug, Default)]
pub struct SampleTypes;

impl ColumnTypes for SampleTypes {
    fn join(&self, base: Option<&ColumnRow>, ours: &ColumnRow, theirs: &ColumnRow) -> Join {
        let others = [Some(ours), base];
        if others.into_iter().flatten().any(|other| nameless(other) != nameless(theirs)) {
            return Join::Apart { what: None };
        }
        joined(base, ours, theirs).unwrap_or(Join::Apart { what: Some(CLASS_NAMES) })
    }

    fn rewritten<'a>(
        &'a self,
        table: &'a Table,
        column: &'a str,
        to: &'a ColumnRow,
        ids: Vec<u64>,
    ) -> BoxFuture<'a, Result<ColumnWrite<'static>, TableError>> {
        Box::pin(async move {
            let rewritten = rewritten(table, column, to, ids).await;
            rewritten.map_err(|error| match error {
                DatasetError::Table(error) => error,
                other => TableError::Fault { what: other.to_string() },
            })
        })
    }
}

/// What a header says but for class names and metadata.
fn nameless(header: &ColumnRow) -> ColumnRow {
    let mut parameters = header.parameters.clone();
    if let Some(options) = parameters.get_mut("options").and_then(Json::as_object_mut) {
        options.remove("class_names");
    }
    // No options are the same as an empty list of them.
    if parameters.get("options").is_some_and(|options| options.as_object().is_some_and(Map::is_empty)) {
        parameters.remove("options");
    }
    ColumnRow { parameters, metadata: None, ..header.clone() }
}

fn joined(base: Option<&ColumnRow>, ours: &ColumnRow, theirs: &ColumnRow) -> Option<Join> {
    let column = |header: &ColumnRow| parse("", header).ok();
    let base = base.map(|base| column(base).map(|base| base.class_names().to_vec()));
    let (base, mine, other) = (base.unwrap_or(Some(Vec::new()))?, column(ours)?, column(theirs)?);
    let names = joined_class_names(&base, mine.class_names(), other.class_names())?;
    let rewrites = moved_classes(other.class_names(), &names).is_some();
    // The classes of a binary mask are its layers: another number for one would be another place.
    let is_number = !matches!(mine.htype().base, Base::BinaryMask) && !mine.htype().sequence;
    if rewrites && !is_number {
        return None;
    }
    let column = mine.with_class_names(names).ok()?;
    let header = Box::new(render(&column, ours.metadata.clone()));
    Some(Join::One { header, rewrites })
}

async fn rewritten(
    table: &Table,
    name: &str,
    to: &ColumnRow,
    ids: Vec<u64>,
) -> Result<ColumnWrite<'static>, DatasetError> {
    let (from, to) = (parse(name, &table.column(name)?.header)?, parse(name, to)?);
    let moved = moved_classes(from.class_names(), to.class_names());
    let moved = moved.unwrap_or_else(|| (0..from.class_names().len()).collect());
    let (mut found, mut values) = (Vec::new(), None);
    for ids in ids.chunks(AT_ONCE) {
        let write = match table.column(name)?.header.form {
            ValueColumn::Int => numbers(table, name, &moved, ids).await?,
            _ => tensors(table, name, &to, &moved, ids).await?,
        };
        let Some(write) = write else { continue };
        found.extend(write.ids);
        match (&mut values, write.values) {
            (None, first) => values = Some(first),
            (
                Some(ColumnValues::Scalars(ScalarBits::Int(all))),
                ColumnValues::Scalars(ScalarBits::Int(more)),
            ) => {
                all.extend(more);
            }
            (Some(ColumnValues::Blobs(all)), ColumnValues::Blobs(more)) => all.extend(more),
            _ => {
                return Err(DatasetError::refused(
                    "merge",
                    format!("the labels of {name:?} changed their form"),
                ));
            }
        }
    }
    let values = values.unwrap_or(ColumnValues::Scalars(ScalarBits::Int(Vec::new())));
    Ok(ColumnWrite { name: name.to_owned(), ids: found, values })
}

/// Labels that are one number.
async fn numbers(
    table: &Table,
    name: &str,
    moved: &[usize],
    ids: &[u64],
) -> Result<Option<ColumnWrite<'static>>, DatasetError> {
    let runs: Vec<(u64, u64)> = ids.iter().map(|id| (*id, 1)).collect();
    let read = table.read_scalars(name, &runs).await?;
    let ScalarBits::Int(values) = read.values else { return Ok(None) };
    let there = || read.present.iter().zip(ids.iter().zip(&values)).filter(|(there, _)| **there);
    let number =
        |value: i64| usize::try_from(value).ok().and_then(|at| moved.get(at)).map_or(value, |at| *at as i64);
    let labels = there().map(|(_, (_, value))| number(*value)).collect();
    Ok(Some(ColumnWrite {
        name: name.to_owned(),
        ids: there().map(|(_, (id, _))| *id).collect(),
        values: ColumnValues::Scalars(ScalarBits::Int(labels)),
    }))
}

/// Labels that are many numbers, such as the pixels of a mask.
async fn tensors(
    table: &Table,
    name: &str,
    to: &Column,
    moved: &[usize],
    ids: &[u64],
) -> Result<Option<ColumnWrite<'static>>, DatasetError> {
    let dataset = Dataset::new(table.frozen());
    let axis = table.rows().await?;
    let mut all = Vec::new();
    for &id in ids {
        let Some(position) = axis.position(id) else { continue };
        let mut tensor = match dataset.read(name, &[position], &[]).await? {
            Batch::Stacked(tensor) => without_rows(&tensor)?,
            Batch::Values(mut values) => match values.pop().flatten() {
                Some(Value::Tensor(tensor)) => tensor,
                _ => continue,
            },
        };
        renumber(&mut tensor, moved);
        let stored =
            encode(to, Sample::Tensor(tensor.as_ref())).map_err(DatasetError::sample(name, position))?;
        let write = column_write(name, to, vec![(id, stored)]);
        all.extend(write.map(owned));
    }
    let ids = all.iter().flat_map(|write| write.ids.iter().copied()).collect();
    let samples = all.into_iter().filter_map(|write| match write.values {
        ColumnValues::Blobs(samples) => Some(samples),
        _ => None,
    });
    let values = ColumnValues::Blobs(samples.flatten().collect());
    Ok(Some(ColumnWrite { name: name.to_owned(), ids, values }))
}

/// The only row of a batch.
fn without_rows(tensor: &Tensor) -> Result<Tensor, DatasetError> {
    let shape = lacus_tensor::Shape::new(tensor.shape().dims()[1..].to_vec()).map_err(TableError::from)?;
    let mut sample = Tensor::zeros(tensor.dtype(), shape).map_err(TableError::from)?;
    sample.bytes_mut().copy_from_slice(tensor.bytes());
    Ok(sample)
}

fn owned(write: ColumnWrite<'_>) -> ColumnWrite<'static> {
    let values = match write.values {
        ColumnValues::Scalars(scalars) => ColumnValues::Scalars(scalars),
        ColumnValues::Texts(texts) => {
            ColumnValues::Texts(texts.into_iter().map(|text| Cow::Owned(text.into_owned())).collect())
        }
        ColumnValues::Blobs(samples) => {
            let own = |tile: BlobTile<'_>| BlobTile {
                coords: tile.coords,
                codec: tile.codec,
                bytes: Cow::Owned(tile.bytes.into_owned()),
            };
            let samples = samples.into_iter().map(|sample| lacus_table::BlobSample {
                shape: sample.shape,
                tiles: sample.tiles.into_iter().map(own).collect(),
            });
            ColumnValues::Blobs(samples.collect())
        }
    };
    ColumnWrite { name: write.name, ids: write.ids, values }
}

/// Gives every number that is a class its new one.
fn renumber(tensor: &mut Tensor, moved: &[usize]) {
    let size = tensor.dtype().size_bytes();
    let is_signed = matches!(tensor.dtype(), DType::I8 | DType::I16 | DType::I32 | DType::I64);
    for item in tensor.bytes_mut().chunks_exact_mut(size) {
        let mut wide = [0; 8];
        wide[..size.min(8)].copy_from_slice(&item[..size.min(8)]);
        let is_negative = is_signed && item[size - 1] >= 0x80;
        let number = usize::try_from(u64::from_le_bytes(wide)).ok().filter(|_| !is_negative);
        if let Some(new) = number.and_then(|at| moved.get(at)) {
            item.copy_from_slice(&(*new as u64).to_le_bytes()[..size]);
        }
    }
}

#[cfg(test)]
mod tests {
    use lacus_tensor::Shape;

    use super::*;

    #[test]
    fn numbers_of_every_width_are_rewritten() {
        for dtype in [DType::U8, DType::I8, DType::U16, DType::I32, DType::U32, DType::I64] {
            let mut tensor = Tensor::zeros(dtype, Shape::new(vec![4]).unwrap()).unwrap();
            let size = dtype.size_bytes();
            for (item, value) in tensor.bytes_mut().chunks_exact_mut(size).zip([0i64, 2, 7, -1]) {
                item.copy_from_slice(&value.to_le_bytes()[..size]);
            }
            renumber(&mut tensor, &[0, 1, 5]);
            let mut expected = Tensor::zeros(dtype, Shape::new(vec![4]).unwrap()).unwrap();
            for (item, value) in expected.bytes_mut().chunks_exact_mut(size).zip([0i64, 5, 7, -1]) {
                item.copy_from_slice(&value.to_le_bytes()[..size]);
            }
            assert_eq!(tensor.bytes(), expected.bytes(), "{dtype}");
        }
    }
}
