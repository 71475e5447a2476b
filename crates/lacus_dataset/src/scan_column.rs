//! One column of a scan: how large its samples are, and how they become an array.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray};
use lacus_arrow::{Cell, Mapping, Unfit, is_file_codec, is_files};
use lacus_io::blocking;
use lacus_sample::{
    Column, Form, Sample, TileRef, Value, decode_scalar_memory, decode_text, sequence_elements,
};
use lacus_table::{RowAxis, Samples};
use lacus_tensor::{DType, Shape, Tensor};

use crate::columns::ColumnFacts;
use crate::dataset::Dataset;
use crate::error::DatasetError;
use crate::id_runs::ids_of;
use crate::rows_read::{Batch, stored_shape};

/// Decoded bytes for a stored one, where nothing else is known: texts, and sequences of arrays.
const EXPANSION: u64 = 4;

/// A column that is scanned.
#[derive(Debug)]
pub(crate) struct ScanColumn {
    pub name: String,
    pub column: Arc<Column>,
    pub mapping: Mapping,
    /// About the bytes of a sample in memory.
    pub usual_bytes: u64,
}

pub(crate) fn position(axis: &RowAxis, id: u64) -> u64 {
    axis.position(id).unwrap_or(id)
}

impl ScanColumn {
    /// A column of a dataset of so many rows.
    pub(crate) fn new(facts: ColumnFacts, rows: u64) -> Result<ScanColumn, DatasetError> {
        let mapping = mapping(&facts)?;
        let usual_bytes = match fixed_bytes(&mapping) {
            Some(bytes) => bytes,
            None => EXPANSION * (facts.stored_bytes / rows.max(1)) + 8,
        };
        Ok(ScanColumn { name: facts.name, column: facts.column, mapping, usual_bytes })
    }

    pub(crate) fn wrong(&self, row: Option<u64>, why: String) -> DatasetError {
        DatasetError::Arrow { column: self.name.clone(), row, why }
    }

    /// About the bytes that a located sample has in an array.
    pub(crate) fn bytes(&self, samples: &Samples, i: usize) -> u64 {
        let stored = || samples.tiles(i).map(|tile| samples.tile(tile).2).sum::<u64>();
        match &self.mapping {
            Mapping::List(dtype) | Mapping::Ragged { dtype, .. } | Mapping::Unranked(dtype) => {
                stored_shape(&self.column, samples, i).map_or(4, |shape| tensor_bytes(*dtype, &shape) + 12)
            }
            Mapping::Bytes if is_files(&self.column) => stored() + 4,
            Mapping::Sequence(of) if **of == Mapping::Bytes && is_files(&self.column) => stored() + 4,
            _ => EXPANSION * stored() + 8,
        }
    }

    /// The samples of some rows; `None` if they are too large for one array.
    pub(crate) async fn array(
        &self,
        dataset: &Dataset,
        runs: &[(u64, u64)],
        texts: Option<&StringArray>,
    ) -> Result<Option<ArrayRef>, DatasetError> {
        let axis = dataset.table().rows().await?;
        let array = match self.column.form() {
            Form::Int | Form::Float | Form::Real => self.numbers(dataset, runs).await?,
            Form::Text => match texts {
                // Text and JSON are stored as Arrow says them.
                Some(texts) if self.is_plain_text() => Ok(Arc::new(texts.clone()) as ArrayRef),
                Some(texts) => self.texts(dataset, &axis, &ids_of(runs), texts).await?,
                None => Err(Unfit::TooLarge),
            },
            Form::Blob => self.blobs(dataset, &axis, &ids_of(runs)).await?,
        };
        match array {
            Ok(array) => Ok(Some(array)),
            Err(Unfit::TooLarge) => Ok(None),
            Err(Unfit::Sample(place, why)) => {
                let id = ids_of(runs).get(place).copied();
                Err(self.wrong(id.map(|id| position(&axis, id)), why))
            }
            Err(Unfit::All(why)) => Err(self.wrong(None, why)),
        }
    }

    async fn numbers(
        &self,
        dataset: &Dataset,
        runs: &[(u64, u64)],
    ) -> Result<Result<ArrayRef, Unfit>, DatasetError> {
        let read = dataset.table().read_numbers(&self.name, runs).await?;
        let present = read.present;
        let all = decode_scalar_memory(&self.column, self.column.form(), read.values)
            .map_err(DatasetError::column(&self.name))?;
        if matches!(self.mapping, Mapping::Number(_) | Mapping::Class { .. })
            || self.column.logical().is_some()
        {
            return Ok(self.rows_of(all, present.as_deref()));
        }
        let is_present = |place: usize| present.as_ref().is_none_or(|present| present[place]);
        let cell = |(place, bytes): (usize, &[u8])| match is_present(place) {
            true => Cell::scalar(all.dtype(), bytes),
            false => Cell::Missing,
        };
        let cells: Vec<Cell> =
            all.bytes().chunks_exact(all.dtype().size_bytes()).enumerate().map(cell).collect();
        Ok(self.mapping.array(&cells))
    }

    fn is_plain_text(&self) -> bool {
        matches!(self.mapping, Mapping::Text | Mapping::Json) && !self.column.htype().link
    }

    /// The rows of a tensor, which is given away.
    fn rows_of(&self, tensor: Tensor, present: Option<&[bool]>) -> Result<ArrayRef, Unfit> {
        let otherwise = || Unfit::All("these samples do not lie in one tensor".to_owned());
        self.mapping.array_of_rows(tensor, present)?.ok_or_else(otherwise)
    }

    async fn texts(
        &self,
        dataset: &Dataset,
        axis: &RowAxis,
        ids: &[u64],
        texts: &StringArray,
    ) -> Result<Result<ArrayRef, Unfit>, DatasetError> {
        let mut cells = Vec::with_capacity(texts.len());
        for (text, id) in texts.iter().zip(ids) {
            let Some(text) = text else {
                cells.push(Cell::Missing);
                continue;
            };
            let row = position(axis, *id);
            cells.push(match is_files(&self.column) {
                true => {
                    let value =
                        decode_text(&self.column, text).map_err(DatasetError::sample(&self.name, row))?;
                    let linked = dataset.linked(value).await;
                    match linked.map_err(DatasetError::in_row(&self.name, row))? {
                        Ok(sample) => cell_of(sample),
                        Err(value) => Cell::of_value(value),
                    }
                }
                false => Cell::of_value(dataset.text_value(&self.name, &self.column, text, row, &[]).await?),
            });
        }
        Ok(blocking(|| self.mapping.array(&cells)))
    }

    async fn blobs(
        &self,
        dataset: &Dataset,
        axis: &RowAxis,
        ids: &[u64],
    ) -> Result<Result<ArrayRef, Unfit>, DatasetError> {
        if is_files(&self.column) {
            let cells = self.files(dataset, axis, ids).await?;
            return Ok(blocking(|| self.mapping.array(&cells)));
        }
        let rows: Vec<u64> = ids.iter().map(|id| position(axis, *id)).collect();
        match dataset.read(&self.name, &rows, &[]).await? {
            Batch::Stacked(tensor) if matches!(self.mapping, Mapping::Fixed { .. }) => {
                Ok(self.rows_of(tensor, None))
            }
            Batch::Stacked(tensor) => {
                let cells = unstacked(&tensor)?;
                Ok(blocking(|| self.mapping.array(&cells)))
            }
            Batch::Values(values) => blocking(|| {
                let cell = |value: Option<Value>| value.map_or(Cell::Missing, Cell::of_value);
                let cells: Vec<Cell> = values.into_iter().map(cell).collect();
                Ok(self.mapping.array(&cells))
            }),
        }
    }

    /// Media files as they are stored. A picture without a pixel is no file, and so missing.
    async fn files(&self, dataset: &Dataset, axis: &RowAxis, ids: &[u64]) -> Result<Vec<Cell>, DatasetError> {
        let samples = dataset.table().locate(&self.name, ids).await?;
        let wanted: Vec<usize> = (0..ids.len()).flat_map(|i| samples.tiles(i)).collect();
        let mut fetched = dataset.table().fetch(&samples, &wanted).await?.into_iter();
        let mut cells = Vec::with_capacity(ids.len());
        for (i, id) in ids.iter().enumerate() {
            let tiles = samples.tiles(i);
            let mut bytes: Vec<_> = fetched.by_ref().take(tiles.len()).collect();
            let (Some(bytes), true) = (bytes.pop(), tiles.len() == 1) else {
                cells.push(Cell::Missing);
                continue;
            };
            let codec = samples.codec(tiles.start);
            cells.push(match self.column.htype().sequence {
                false if is_file_codec(codec) => Cell::Media(bytes),
                false => Cell::Missing,
                true => {
                    let tile = TileRef { coords: Vec::new(), codec, bytes: &bytes };
                    let elements = sequence_elements(&tile)
                        .map_err(DatasetError::sample(&self.name, position(axis, *id)))?;
                    let file = |(codec, part): &(&str, &[u8])| match is_file_codec(codec) {
                        true => Cell::Media(bytes.slice_ref(part)),
                        false => Cell::Missing,
                    };
                    Cell::List(elements.iter().map(file).collect())
                }
            });
        }
        Ok(cells)
    }
}

/// What a link led to.
fn cell_of(sample: Sample<'static>) -> Cell {
    match sample {
        Sample::Encoded(bytes) => Cell::Media(bytes.into_owned().into()),
        Sample::Sequence(samples) => Cell::List(samples.into_iter().map(cell_of).collect()),
        _ => Cell::Missing,
    }
}

/// The samples along the first axis.
fn unstacked(tensor: &Tensor) -> Result<Vec<Cell>, DatasetError> {
    let dims = tensor.shape().dims();
    let (count, inner) = (dims[0] as usize, &dims[1..]);
    let item = Shape::new(inner)?.byte_len(tensor.dtype())?;
    let cell = |i: usize| Cell::tensor(tensor.dtype(), inner, &tensor.bytes()[i * item..(i + 1) * item]);
    Ok((0..count).map(cell).collect::<Result<_, _>>()?)
}

/// How a column is said in Arrow.
pub(crate) fn mapping(facts: &ColumnFacts) -> Result<Mapping, DatasetError> {
    let none = |why| DatasetError::Arrow { column: facts.name.clone(), row: None, why };
    Mapping::of(&facts.column, facts.metadata.as_ref()).map_err(none)
}

/// The bytes of a sample in memory, where all have as many.
pub(crate) fn fixed_bytes(mapping: &Mapping) -> Option<u64> {
    match mapping {
        Mapping::Nothing => Some(0),
        Mapping::Number(dtype) => Some(dtype.size_bytes() as u64),
        Mapping::Class { .. } => Some(4),
        Mapping::Fixed { dtype, shape } => Some(tensor_bytes(*dtype, shape)),
        _ => None,
    }
}

fn tensor_bytes(dtype: DType, shape: &[u64]) -> u64 {
    shape.iter().fold(dtype.size_bytes() as u64, |bytes, size| bytes.saturating_mul(*size))
}
