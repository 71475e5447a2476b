//! Reads rows of a column in three steps, so that a caller can overlap them: while one batch is decoded, the next is
//! fetched.
//!
//! ```text
//! positions ─plan→ RowsRead ─fetch→ FetchedRows ─decode→ Batch
//!            indexes         async               sync, on the pool; checksums are verified here
//! ```

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use lacus_io::{Pool, blocking, boxed};
use lacus_sample::{
    Column, Form, TileRef, Value, decode_blob, decode_blob_into, decode_scalar_memory, sample_dtype,
    tiles_wanted,
};
use lacus_table::{FetchedSamples, Numbers, SampleRead, Samples};
use lacus_tensor::{Buffer, DType, Index, Selection, Shape, Tensor, TensorError};

use crate::dataset::{Dataset, id_at};
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

/// What is to be read of some rows of a column, and where it lies.
#[derive(Debug)]
pub struct RowsRead<'a> {
    dataset: &'a Dataset,
    name: &'a str,
    column: Arc<Column>,
    positions: Cow<'a, [u64]>,
    indices: &'a [Index],
    plan: Plan,
}

#[derive(Debug)]
enum Plan {
    /// Ids as runs (first, count).
    Scalars(Vec<(u64, u64)>),
    Texts,
    Blobs {
        read: SampleRead,
        shapes: Vec<Option<Vec<u64>>>,
        /// The tiles of each sample.
        wanted: Vec<Vec<usize>>,
    },
}

impl Dataset {
    /// Plans to read the samples of the rows at `positions`, as [`Dataset::read`] does. Waits only for indexes that are not
    /// known yet; no sample is read.
    #[boxed]
    pub async fn plan<'a>(
        &'a self,
        name: &'a str,
        positions: &'a [u64],
        indices: &'a [Index],
    ) -> Result<RowsRead<'a>, DatasetError> {
        self.plan_at(name, Cow::Borrowed(positions), indices).await
    }

    /// The same of positions that nobody else needs.
    #[boxed]
    pub(crate) async fn plan_at<'a>(
        &'a self,
        name: &'a str,
        positions: Cow<'a, [u64]>,
        indices: &'a [Index],
    ) -> Result<RowsRead<'a>, DatasetError> {
        let column = self.column(name)?;
        let plan = match column.form() {
            Form::Int | Form::Float | Form::Real => {
                if !indices.is_empty() {
                    // A scalar has no axes: only what selects none is allowed.
                    Selection::resolve(&Shape::default(), indices)?;
                }
                Plan::Scalars(self.id_runs(&positions).await?)
            }
            Form::Text => {
                if !indices.is_empty() && !column.htype().link {
                    let why = format!("the samples of {name:?} are {}, which have no axes", column.htype());
                    return Err(DatasetError::refused("slice", why));
                }
                Plan::Texts
            }
            Form::Blob => {
                let ids = self.ids(&positions).await?;
                let samples = Arc::new(self.table().locate(name, &ids).await?);
                let shapes: Vec<Option<Vec<u64>>> =
                    (0..positions.len()).map(|i| stored_shape(&column, &samples, i)).collect();
                let wanted = wanted_tiles(&column, &samples, &shapes, indices)
                    .map_err(|(i, error)| DatasetError::sample(name, positions[i])(error))?;
                let tiles = wanted.iter().flatten().copied().collect();
                Plan::Blobs { read: self.table().plan_samples(samples, tiles)?, shapes, wanted }
            }
        };
        Ok(RowsRead { dataset: self, name, column, positions, indices, plan })
    }

    /// The ids at `positions`, as runs where they are consecutive.
    async fn id_runs(&self, positions: &[u64]) -> Result<Vec<(u64, u64)>, DatasetError> {
        match positions {
            [first, .., last]
                if last.checked_sub(*first) == Some(positions.len() as u64 - 1)
                    && positions.windows(2).all(|pair| pair[0] + 1 == pair[1]) =>
            {
                let axis = self.table().rows().await?;
                id_at(&axis, *last)?;
                Ok(axis.id_runs(*first..*last + 1))
            }
            _ => {
                let axis = self.table().rows().await?;
                positions.iter().map(|position| Ok((id_at(&axis, *position)?, 1))).collect()
            }
        }
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

/// The tiles to fetch of each sample; fails with the number of the sample that has none such.
fn wanted_tiles(
    column: &Column,
    samples: &Samples,
    shapes: &[Option<Vec<u64>>],
    indices: &[Index],
) -> Result<Vec<Vec<usize>>, (usize, lacus_sample::SampleError)> {
    let mut wanted = Vec::with_capacity(shapes.len());
    for (i, shape) in shapes.iter().enumerate() {
        let all = samples.tiles(i);
        let Some(shape) = shape.as_ref().filter(|_| !indices.is_empty() || all.len() > 1) else {
            wanted.push(all.collect());
            continue;
        };
        let Some(some) = tiles_wanted(column, shape, indices).map_err(|error| (i, error))? else {
            wanted.push(all.collect());
            continue;
        };
        let places: HashMap<Vec<u64>, usize> = all
            .map(|tile| {
                let coords = samples.tile(tile).0;
                (coords.iter().map(|c| u64::try_from(*c).unwrap_or(u64::MAX)).collect(), tile)
            })
            .collect();
        wanted.push(some.iter().filter_map(|coords| places.get(coords).copied()).collect());
    }
    Ok(wanted)
}

impl<'a> RowsRead<'a> {
    /// Stored bytes to fetch, for callers that bound what they hold; 0 where that is not known before.
    pub fn bytes(&self) -> u64 {
        match &self.plan {
            Plan::Scalars(runs) => 8 * runs.iter().map(|(_, count)| count).sum::<u64>(),
            Plan::Texts => 0,
            Plan::Blobs { read, .. } => read.bytes(),
        }
    }

    /// Reads the bytes. What is on its way is bounded by the store's budget; what has arrived is the caller's. Links are
    /// followed here, and what they lead to is decoded one by one, so that no two files are held at once.
    pub fn fetch(self) -> BoxFuture<'a, Result<FetchedRows, DatasetError>> {
        let RowsRead { dataset, name, column, positions, indices, plan } = self;
        Box::pin(async move {
            let fetched = match plan {
                Plan::Scalars(runs) => Fetched::Scalars(dataset.table().read_numbers(name, &runs).await?),
                Plan::Texts => Fetched::Values(dataset.read_texts(name, &column, &positions, indices).await?),
                Plan::Blobs { read, shapes, wanted } => {
                    let (positions, indices) = (positions.into_owned(), indices.to_vec());
                    Fetched::Blobs(Blobs { tiles: read.fetch().await?, shapes, wanted, positions, indices })
                }
            };
            let pool = dataset.table().world().pool().clone();
            Ok(FetchedRows { name: name.to_owned(), column, pool, fetched })
        })
    }
}

/// What was fetched of some rows. It needs the dataset no more, and can be decoded on another thread.
#[derive(Debug)]
pub struct FetchedRows {
    name: String,
    column: Arc<Column>,
    pool: Pool,
    fetched: Fetched,
}

#[derive(Debug)]
enum Fetched {
    Scalars(Numbers),
    Values(Vec<Option<Value>>),
    Blobs(Blobs),
}

#[derive(Debug)]
struct Blobs {
    tiles: FetchedSamples,
    shapes: Vec<Option<Vec<u64>>>,
    wanted: Vec<Vec<usize>>,
    positions: Vec<u64>,
    indices: Vec<Index>,
}

impl FetchedRows {
    /// [`decode`](FetchedRows::decode)s on a thread where that may take its time.
    pub(crate) fn decode_aside(self) -> Result<Batch, DatasetError> {
        match self.fetched {
            Fetched::Blobs(_) => blocking(|| self.decode()),
            // There is next to nothing to decode.
            _ => self.decode(),
        }
    }

    /// The samples, in the order of the positions. Fails with a corrupt error if one does not have its checksum.
    pub fn decode(self) -> Result<Batch, DatasetError> {
        let FetchedRows { name, column, pool, fetched } = self;
        match fetched {
            Fetched::Scalars(read) => scalars(&name, &column, read),
            Fetched::Values(values) => Ok(Batch::Values(values)),
            Fetched::Blobs(blobs) => {
                Decoding { name: &name, column: &column, pool: &pool, blobs: &blobs }.batch()
            }
        }
    }
}

fn scalars(name: &str, column: &Column, read: Numbers) -> Result<Batch, DatasetError> {
    let present = read.present;
    let all = decode_scalar_memory(column, column.form(), read.values).map_err(DatasetError::column(name))?;
    let Some(present) = present else { return Ok(Batch::Stacked(all)) };
    let item = all.dtype().size_bytes();
    let one = |i: usize| {
        let buffer = Buffer::from_slice(&all.bytes()[i * item..(i + 1) * item]);
        Tensor::new(all.dtype(), Shape::default(), buffer).map(Value::Tensor)
    };
    let mut values = Vec::with_capacity(present.len());
    for (i, present) in present.iter().enumerate() {
        values.push(if *present { Some(one(i)?) } else { None });
    }
    Ok(Batch::Values(values))
}

/// Blobs that were fetched, and what they are.
struct Decoding<'a> {
    name: &'a str,
    column: &'a Column,
    pool: &'a Pool,
    blobs: &'a Blobs,
}

impl Decoding<'_> {
    fn batch(&self) -> Result<Batch, DatasetError> {
        let Blobs { tiles: fetched, shapes, wanted, positions, indices } = self.blobs;
        let (bytes, samples) = (fetched.verified()?, fetched.samples());
        let count = positions.len();
        // Where each sample's tiles are among the fetched.
        let mut starts = Vec::with_capacity(count + 1);
        let mut next = 0;
        for tiles in wanted {
            starts.push(next);
            next += tiles.len();
        }
        starts.push(next);
        let tiles = |i: usize| -> Vec<TileRef<'_>> {
            let of = wanted[i].iter().zip(&bytes[starts[i]..starts[i + 1]]);
            of.map(|(&tile, bytes)| {
                let coords = match wanted[i].len() {
                    1 if samples.tiles(i).len() == 1 => Vec::new(),
                    _ => samples.tile(tile).0.iter().map(|c| u64::try_from(*c).unwrap_or(0)).collect(),
                };
                TileRef { coords, codec: samples.codec(tile), bytes }
            })
            .collect()
        };
        let stored: u64 = bytes.iter().map(|bytes| bytes.len() as u64).sum();
        if let Some(shape) = self.stackable()
            && let Some(dtype) = self.shared_dtype(&tiles)?
        {
            return self.stack(&shape, dtype, &tiles);
        }
        let weight = 8 * stored / count.max(1) as u64;
        let decoded = in_parallel(self.pool, count, weight, |i| {
            let Some(shape) = &shapes[i] else { return Ok(None) };
            decode_blob(self.column, shape, indices, &tiles(i))
                .map(Some)
                .map_err(DatasetError::sample(self.name, positions[i]))
        });
        decoded.into_iter().collect::<Result<_, _>>().map(Batch::Values)
    }

    /// The shape of each sample, if all are there, whole, of one tensor and of the shape that the column declares.
    fn stackable(&self) -> Option<Vec<u64>> {
        let fixed = self.column.fixed_shape().filter(|_| self.blobs.indices.is_empty())?;
        let one = !self.column.htype().sequence;
        (one && self.blobs.shapes.iter().all(|shape| shape.as_ref() == Some(&fixed))).then_some(fixed)
    }

    /// The dtype that all samples have, if it is the same. Files may have their own, which their headers say.
    fn shared_dtype<'t>(
        &self,
        tiles: &impl Fn(usize) -> Vec<TileRef<'t>>,
    ) -> Result<Option<DType>, DatasetError> {
        if !self.column.files_keep_dtype() || self.blobs.positions.is_empty() {
            return Ok(self.column.dtype());
        }
        let mut shared = None;
        for (i, position) in self.blobs.positions.iter().enumerate() {
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
        let count = self.blobs.positions.len();
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
        let decoded = in_parallel(self.pool, parts.len(), 4 * item as u64, |i| {
            let mut out = parts[i].lock().unwrap_or_else(|e| e.into_inner());
            decode_blob_into(self.column, shape, &tiles(i), &mut out)
                .map_err(DatasetError::sample(self.name, self.blobs.positions[i]))
        });
        drop(parts);
        decoded.into_iter().collect::<Result<(), _>>()?;
        Ok(Batch::Stacked(Tensor::new(dtype, whole, buffer)?))
    }
}
