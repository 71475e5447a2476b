//! Reads samples: any rows of a column, whole or in part, in one planned read.

use std::collections::HashMap;

use bytes::Bytes;
use lacus_io::blocking;
use lacus_sample::{
    Base, Column, Form, Sample, Scalars as SampleScalars, Stored, TileRef, Value, decode_blob,
    decode_blob_into, decode_scalars, decode_text, encode, sample_dtype, tiles_wanted,
};
use lacus_table::{Samples, Scalars};
use lacus_tensor::{Buffer, DType, Index, Selection, Shape, Tensor, TensorError};

use crate::dataset::Dataset;
use crate::error::DatasetError;
use crate::threads::in_parallel;

/// Samples of some rows of a column.
#[derive(Debug)]
pub enum Batch {
    /// Every row has a sample and all have the shape that the column declares: one tensor, rows first.
    Stacked(Tensor),
    /// A value for each row; `None` where it is missing.
    Values(Vec<Option<Value>>),
}

impl Dataset {
    /// The samples of the rows at `positions`, in their order. `indices` select a part of each sample; there are none
    /// for whole samples. Samples of a fixed shape come stacked, unless one is missing.
    pub async fn read(
        &self,
        name: &str,
        positions: &[u64],
        indices: &[Index],
    ) -> Result<Batch, DatasetError> {
        let column = self.column(name)?;
        match column.form() {
            Form::Int | Form::Float | Form::Real => {
                self.read_scalars(name, &column, positions, indices).await
            }
            Form::Text => self.read_texts(name, &column, positions, indices).await.map(Batch::Values),
            Form::Blob => {
                let ids = self.ids(positions).await?;
                let samples = self.table().locate(name, &ids).await?;
                let read = Reading { dataset: self, name, column: &column, positions, indices, samples };
                read.batch().await
            }
        }
    }

    /// The shapes of the samples at `positions`, without reading them; `None` where one is missing. Of texts and JSON
    /// it is the shape `()`.
    pub async fn shapes(&self, name: &str, positions: &[u64]) -> Result<Vec<Option<Vec<u64>>>, DatasetError> {
        let column = self.column(name)?;
        let ids = self.ids(positions).await?;
        match column.form() {
            Form::Int | Form::Float | Form::Real => {
                let runs: Vec<(u64, u64)> = ids.iter().map(|id| (*id, 1)).collect();
                let read = self.table().read_scalars(name, &runs).await?;
                Ok(read.present.into_iter().map(|present| present.then(Vec::new)).collect())
            }
            Form::Text if column.htype().link => {
                // What lies elsewhere has to be asked there.
                let values = self.read_texts(name, &column, positions, &[]).await?;
                Ok(values.into_iter().map(|value| value.as_ref().map(shape_of)).collect())
            }
            Form::Text => {
                let texts = self.table().read_texts(name, &ids).await?;
                Ok(texts.into_iter().map(|text| text.map(|_| Vec::new())).collect())
            }
            Form::Blob => {
                let samples = self.table().locate(name, &ids).await?;
                let shapes = (0..ids.len()).map(|i| stored_shape(&column, &samples, i)).collect();
                Ok(shapes)
            }
        }
    }

    /// The stored bytes of samples: a media file as it was given, a text, the elements of a tensor; `None` where
    /// one is missing.
    pub async fn stored_bytes(
        &self,
        name: &str,
        positions: &[u64],
    ) -> Result<Vec<Option<Bytes>>, DatasetError> {
        let column = self.column(name)?;
        let ids = self.ids(positions).await?;
        match column.form() {
            Form::Blob if column.htype().base == Base::Bytes && !column.htype().sequence => {
                // They may be compressed, which is nobody's business.
                let Batch::Values(values) = self.read(name, positions, &[]).await? else {
                    return Err(DatasetError::refused("bytes", format!("{name:?} holds no bytes")));
                };
                let bytes = |value| match value {
                    Some(Value::Bytes(bytes)) => Some(Bytes::from(bytes)),
                    _ => None,
                };
                Ok(values.into_iter().map(bytes).collect())
            }
            Form::Blob => {
                let samples = self.table().locate(name, &ids).await?;
                let mut wanted = Vec::with_capacity(ids.len());
                for (i, position) in positions.iter().enumerate() {
                    let tiles = samples.tiles(i);
                    if tiles.len() > 1 {
                        let why = format!("row {position} of {name:?} is stored in {} tiles", tiles.len());
                        return Err(DatasetError::refused("bytes", why));
                    }
                    wanted.extend(tiles);
                }
                let mut fetched = self.table().fetch(&samples, &wanted).await?.into_iter();
                Ok((0..ids.len())
                    .map(|i| if samples.tiles(i).is_empty() { None } else { fetched.next() })
                    .collect())
            }
            Form::Text if column.htype().link && !column.htype().sequence => {
                let links = self.table().read_texts(name, &ids).await?;
                let mut found = Vec::with_capacity(links.len());
                for link in links {
                    found.push(match link {
                        Some(link) => Some(self.links().read(&link).await?),
                        None => None,
                    });
                }
                Ok(found)
            }
            Form::Text => {
                let texts = self.table().read_texts(name, &ids).await?;
                Ok(texts.into_iter().map(|text| text.map(Bytes::from)).collect())
            }
            _ => Err(DatasetError::refused("bytes", format!("the samples of {name:?} are numbers"))),
        }
    }

    async fn read_scalars(
        &self,
        name: &str,
        column: &Column,
        positions: &[u64],
        indices: &[Index],
    ) -> Result<Batch, DatasetError> {
        if !indices.is_empty() {
            // A scalar has no axes: only what selects none is allowed.
            Selection::resolve(&Shape::default(), indices)?;
        }
        let axis = self.table().rows().await?;
        let runs = match positions {
            [first, .., last]
                if last.checked_sub(*first) == Some(positions.len() as u64 - 1)
                    && positions.windows(2).all(|pair| pair[0] + 1 == pair[1]) =>
            {
                crate::dataset::id_at(&axis, *last)?;
                axis.id_runs(*first..*last + 1)
            }
            _ => self.ids(positions).await?.into_iter().map(|id| (id, 1)).collect(),
        };
        let read = self.table().read_scalars(name, &runs).await?;
        let scalars = match &read.values {
            Scalars::Int(values) => SampleScalars::Int(values),
            Scalars::Float(values) => SampleScalars::Float(values),
            Scalars::Real(values) => SampleScalars::Real(values),
        };
        let all = decode_scalars(column, scalars).map_err(DatasetError::column(name))?;
        if read.present.iter().all(|present| *present) {
            return Ok(Batch::Stacked(all));
        }
        let item = all.dtype().size_bytes();
        let one = |i: usize| {
            let buffer = Buffer::from_slice(&all.bytes()[i * item..(i + 1) * item]);
            Tensor::new(all.dtype(), Shape::default(), buffer).map(Value::Tensor)
        };
        let mut values = Vec::with_capacity(positions.len());
        for (i, present) in read.present.iter().enumerate() {
            values.push(if *present { Some(one(i)?) } else { None });
        }
        Ok(Batch::Values(values))
    }

    async fn read_texts(
        &self,
        name: &str,
        column: &Column,
        positions: &[u64],
        indices: &[Index],
    ) -> Result<Vec<Option<Value>>, DatasetError> {
        let is_link = column.htype().link;
        if !indices.is_empty() && !is_link {
            let why = format!("the samples of {name:?} are {}, which have no axes", column.htype());
            return Err(DatasetError::refused("slice", why));
        }
        let ids = self.ids(positions).await?;
        let texts = self.table().read_texts(name, &ids).await?;
        let resolved = column.resolved();
        let mut values = Vec::with_capacity(texts.len());
        for (text, position) in texts.iter().zip(positions) {
            let Some(text) = text else {
                values.push(None);
                continue;
            };
            let value = decode_text(column, text).map_err(DatasetError::sample(name, *position))?;
            values.push(Some(match is_link {
                true => self.follow(name, &resolved, *position, value, indices).await?,
                false => value,
            }));
        }
        Ok(values)
    }

    /// The sample that a link, or several, lead to.
    async fn follow(
        &self,
        name: &str,
        column: &Column,
        position: u64,
        value: Value,
        indices: &[Index],
    ) -> Result<Value, DatasetError> {
        let sample = match self.linked(value).await.map_err(DatasetError::in_row(name, position))? {
            Ok(sample) => sample,
            Err(other) => return Ok(other),
        };
        let wrong = |error| DatasetError::sample(name, position)(error);
        let mut column = column.clone();
        if let Some(dtype) = column.is_open().then(|| lacus_sample::infer(&sample)).flatten() {
            column = column.settle(dtype);
        }
        match blocking(|| encode(&column, sample)).map_err(wrong)? {
            Stored::Blob(blob) => {
                let tiles: Vec<TileRef<'_>> = blob
                    .tiles
                    .iter()
                    .map(|t| TileRef { coords: t.coords.clone(), codec: t.codec, bytes: &t.bytes })
                    .collect();
                blocking(|| decode_blob(&column, &blob.shape, indices, &tiles)).map_err(wrong)
            }
            Stored::Text(text) => decode_text(&column, &text).map_err(wrong),
            stored => lacus_sample::decode_scalar(&column, &stored).map(Value::Tensor).map_err(wrong),
        }
    }
}

impl Dataset {
    /// What links lead to, as a sample; another value comes back as it is.
    pub(crate) async fn linked(&self, value: Value) -> Result<Result<Sample<'static>, Value>, DatasetError> {
        Ok(match value {
            Value::Link(url) => Ok(Sample::Encoded(Vec::from(self.links().read(&url).await?).into())),
            Value::Sequence(links) => {
                let mut all = Vec::with_capacity(links.len());
                for link in links {
                    if let Value::Link(url) = link {
                        all.push(Sample::Encoded(Vec::from(self.links().read(&url).await?).into()));
                    }
                }
                Ok(Sample::Sequence(all))
            }
            other => Err(other),
        })
    }
}

fn shape_of(value: &Value) -> Vec<u64> {
    match value {
        Value::Tensor(tensor) => tensor.shape().dims().to_vec(),
        Value::Sequence(values) => vec![values.len() as u64],
        Value::Bytes(bytes) => vec![bytes.len() as u64],
        _ => Vec::new(),
    }
}

/// The shape of a located sample; `None` when it is missing.
pub(crate) fn stored_shape(column: &Column, samples: &Samples, i: usize) -> Option<Vec<u64>> {
    if samples.tiles(i).is_empty() {
        return None;
    }
    Some(match samples.shape(i) {
        Some(shape) => shape.iter().map(|size| u64::try_from(*size).unwrap_or(0)).collect(),
        None => column.fixed_shape().unwrap_or_default(),
    })
}

/// Blobs that were located, and what is wanted of them.
struct Reading<'a> {
    dataset: &'a Dataset,
    name: &'a str,
    column: &'a Column,
    positions: &'a [u64],
    indices: &'a [Index],
    samples: Samples,
}

impl Reading<'_> {
    async fn batch(&self) -> Result<Batch, DatasetError> {
        let count = self.positions.len();
        let shapes: Vec<Option<Vec<u64>>> =
            (0..count).map(|i| stored_shape(self.column, &self.samples, i)).collect();
        let wanted = self.wanted(&shapes)?;
        let flat: Vec<usize> = wanted.iter().flatten().copied().collect();
        let bytes = self.dataset.table().fetch(&self.samples, &flat).await?;
        // Where each sample's tiles are among the fetched.
        let mut starts = Vec::with_capacity(count + 1);
        let mut next = 0;
        for tiles in &wanted {
            starts.push(next);
            next += tiles.len();
        }
        starts.push(next);
        let tiles = |i: usize| -> Vec<TileRef<'_>> {
            let of = wanted[i].iter().zip(&bytes[starts[i]..starts[i + 1]]);
            of.map(|(&tile, bytes)| {
                let coords = match wanted[i].len() {
                    1 if self.samples.tiles(i).len() == 1 => Vec::new(),
                    _ => self.samples.tile(tile).0.iter().map(|c| u64::try_from(*c).unwrap_or(0)).collect(),
                };
                TileRef { coords, codec: self.samples.codec(tile), bytes }
            })
            .collect()
        };
        let stored: u64 = bytes.iter().map(|bytes| bytes.len() as u64).sum();
        if let Some(shape) = self.stackable(&shapes)
            && let Some(dtype) = self.shared_dtype(&tiles)?
        {
            return blocking(|| self.stack(&shape, dtype, &tiles));
        }
        let weight = 8 * stored / count.max(1) as u64;
        let decoded = blocking(|| {
            in_parallel(count, weight, |i| {
                let Some(shape) = &shapes[i] else { return Ok(None) };
                decode_blob(self.column, shape, self.indices, &tiles(i))
                    .map(Some)
                    .map_err(DatasetError::sample(self.name, self.positions[i]))
            })
        });
        decoded.into_iter().collect::<Result<_, _>>().map(Batch::Values)
    }

    /// The tiles to fetch of each sample.
    fn wanted(&self, shapes: &[Option<Vec<u64>>]) -> Result<Vec<Vec<usize>>, DatasetError> {
        let mut wanted = Vec::with_capacity(shapes.len());
        for (i, shape) in shapes.iter().enumerate() {
            let all = self.samples.tiles(i);
            let Some(shape) = shape.as_ref().filter(|_| !self.indices.is_empty() || all.len() > 1) else {
                wanted.push(all.collect());
                continue;
            };
            let some = tiles_wanted(self.column, shape, self.indices)
                .map_err(DatasetError::sample(self.name, self.positions[i]))?;
            let Some(some) = some else {
                wanted.push(all.collect());
                continue;
            };
            let places: HashMap<Vec<u64>, usize> = all
                .map(|tile| {
                    let coords = self.samples.tile(tile).0;
                    (coords.iter().map(|c| u64::try_from(*c).unwrap_or(u64::MAX)).collect(), tile)
                })
                .collect();
            wanted.push(some.iter().filter_map(|coords| places.get(coords).copied()).collect());
        }
        Ok(wanted)
    }

    /// The shape of each sample, if all are there, whole, of one tensor and of the shape that the column declares.
    fn stackable(&self, shapes: &[Option<Vec<u64>>]) -> Option<Vec<u64>> {
        let fixed = self.column.fixed_shape().filter(|_| self.indices.is_empty())?;
        let one = !self.column.htype().sequence;
        (one && shapes.iter().all(|shape| shape.as_ref() == Some(&fixed))).then_some(fixed)
    }

    /// The dtype that all samples have, if it is the same. Files may have their own, which their headers say.
    fn shared_dtype<'t>(
        &self,
        tiles: &impl Fn(usize) -> Vec<TileRef<'t>>,
    ) -> Result<Option<DType>, DatasetError> {
        if !self.column.files_keep_dtype() || self.positions.is_empty() {
            return Ok(self.column.dtype());
        }
        let mut shared = None;
        for (i, position) in self.positions.iter().enumerate() {
            let dtype = sample_dtype(self.column, &tiles(i));
            let dtype = dtype.map_err(DatasetError::sample(self.name, *position))?;
            if *shared.get_or_insert(dtype) != dtype {
                return Ok(None);
            }
        }
        Ok(shared)
    }

    fn stack<'t>(
        &self,
        shape: &[u64],
        dtype: DType,
        tiles: &(impl Fn(usize) -> Vec<TileRef<'t>> + Sync),
    ) -> Result<Batch, DatasetError> {
        let count = self.positions.len();
        let mut dims = vec![count as u64];
        dims.extend_from_slice(shape);
        let whole = Shape::new(dims)?;
        let length = whole.byte_len(dtype)?;
        let item = length / count.max(1);
        let named = |error: TensorError| error.for_what(format!("{count} samples of column {:?}", self.name));
        let mut buffer = Buffer::try_for_overwrite(length).map_err(named)?;
        let parts: Vec<std::sync::Mutex<&mut [u8]>> = match item {
            0 => Vec::new(),
            _ => buffer.chunks_exact_mut(item).map(std::sync::Mutex::new).collect(),
        };
        let decoded = in_parallel(parts.len(), 4 * item as u64, |i| {
            let mut out = parts[i].lock().unwrap_or_else(|e| e.into_inner());
            decode_blob_into(self.column, shape, &tiles(i), &mut out)
                .map_err(DatasetError::sample(self.name, self.positions[i]))
        });
        drop(parts);
        decoded.into_iter().collect::<Result<(), _>>()?;
        Ok(Batch::Stacked(Tensor::new(dtype, whole, buffer)?))
    }
}
