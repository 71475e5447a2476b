//! Reads samples by the ids of their rows, for callers that decode them one by one into memory of their own: each sample may fail
//! alone, and what is planned, fetched and decoded needs no borrow.
//!
//! ```text
//! ids ─plan_ids→ IdsRead ─fetch→ FetchedIds ─decode(i), decode_into(i, memory), file(i)→ one sample
//!      indexes            async               sync, from any thread; its checksum is verified here
//! ```

use std::sync::Arc;

use lacus_io::boxed;
use lacus_sample::{
    Base, Column, Form, TileRef, Value, decode_blob, decode_blob_into, decode_scalar_memory, sample_dtype,
};
use lacus_table::{FetchedSamples, SampleRead};
use lacus_tensor::{Buffer, DType, Shape, Tensor};

use crate::dataset::Dataset;
use crate::error::DatasetError;
use crate::rows_read::stored_shape;

/// The bytes of a media file, and the shape of the sample.
type FileAndShape<'a> = (&'a [u8], &'a [u64]);

/// What is to be read of a column in the rows with some ids, and where it lies.
#[derive(Debug)]
pub struct IdsRead {
    dataset: Arc<Dataset>,
    name: Arc<str>,
    column: Arc<Column>,
    ids: Vec<u64>,
    plan: Plan,
}

#[derive(Debug)]
enum Plan {
    Scalars,
    Texts,
    Blobs { read: SampleRead, shapes: Vec<Option<Vec<u64>>> },
}

impl Dataset {
    /// Plans to read the whole samples of a column in the rows with these ids. Waits only for indexes that are not known yet; no
    /// sample is read.
    #[boxed]
    pub async fn plan_ids(
        dataset: &Arc<Dataset>,
        name: &str,
        ids: Vec<u64>,
    ) -> Result<IdsRead, DatasetError> {
        let column = dataset.column(name)?;
        let plan = match column.form() {
            Form::Int | Form::Float | Form::Real => Plan::Scalars,
            Form::Text => Plan::Texts,
            Form::Blob => {
                let samples = Arc::new(dataset.table().locate(name, &ids).await?);
                let shapes: Vec<Option<Vec<u64>>> =
                    (0..ids.len()).map(|i| stored_shape(&column, &samples, i)).collect();
                let tiles = (0..ids.len()).flat_map(|i| samples.tiles(i)).collect();
                Plan::Blobs { read: dataset.table().plan_samples(samples, tiles)?, shapes }
            }
        };
        Ok(IdsRead { dataset: Arc::clone(dataset), name: name.into(), column, ids, plan })
    }
}

impl IdsRead {
    /// Stored bytes to fetch, as far as that is known before.
    pub fn stored_bytes(&self) -> u64 {
        match &self.plan {
            Plan::Scalars => 8 * self.ids.len() as u64,
            Plan::Texts => 0,
            Plan::Blobs { read, .. } => read.bytes(),
        }
    }

    /// About the bytes of one of the samples when it is decoded.
    pub fn decoded_bytes(&self, i: usize) -> u64 {
        match &self.plan {
            Plan::Scalars => 8,
            Plan::Texts => 64,
            Plan::Blobs { shapes, .. } => {
                let item = self.column.dtype().map_or(1, DType::size_bytes) as u64;
                shapes[i].iter().flatten().fold(item, |bytes, size| bytes.saturating_mul(*size))
            }
        }
    }

    /// Reads the bytes. What is on its way is bounded by the store's budget; what has arrived is the caller's. Links are followed
    /// and decoded here.
    #[boxed]
    pub async fn fetch(self) -> Result<FetchedIds, DatasetError> {
        let IdsRead { dataset, name, column, ids, plan } = self;
        let fetched = match plan {
            Plan::Scalars => {
                let runs: Vec<(u64, u64)> = ids.iter().map(|id| (*id, 1)).collect();
                let read = dataset.table().read_numbers(&name, &runs).await?;
                let all = decode_scalar_memory(&column, column.form(), read.values)
                    .map_err(DatasetError::column(&name))?;
                Fetched::Scalars { all, present: read.present }
            }
            Plan::Texts => Fetched::Values(dataset.values_of(&name, &column, &ids).await?),
            Plan::Blobs { read, shapes } => {
                let tiles = read.fetch().await?;
                // Where each sample's tiles are among the fetched.
                let mut starts = Vec::with_capacity(ids.len() + 1);
                let mut next = 0;
                for i in 0..ids.len() {
                    starts.push(next);
                    next += tiles.samples().tiles(i).len();
                }
                starts.push(next);
                Fetched::Blobs { tiles, shapes, starts }
            }
        };
        Ok(FetchedIds { name, column, ids, fetched })
    }
}

impl Dataset {
    /// Texts, and what links lead to: an error of one of them is its own.
    async fn values_of(
        &self,
        name: &str,
        column: &Column,
        ids: &[u64],
    ) -> Result<Vec<Result<Option<Value>, DatasetError>>, DatasetError> {
        let axis = self.table().rows().await?;
        let texts = self.table().read_texts(name, ids).await?;
        let mut values = Vec::with_capacity(texts.len());
        for (text, id) in texts.iter().zip(ids) {
            values.push(match text {
                Some(text) => {
                    let position = axis.position(*id).unwrap_or(*id);
                    self.text_value(name, column, text, position, &[]).await.map(Some)
                }
                None => Ok(None),
            });
        }
        Ok(values)
    }
}

/// What was fetched of a column in the rows with some ids. It can be decoded on any thread.
#[derive(Debug)]
pub struct FetchedIds {
    name: Arc<str>,
    column: Arc<Column>,
    ids: Vec<u64>,
    fetched: Fetched,
}

#[derive(Debug)]
enum Fetched {
    Scalars { all: Tensor, present: Option<Vec<bool>> },
    Values(Vec<Result<Option<Value>, DatasetError>>),
    Blobs { tiles: FetchedSamples, shapes: Vec<Option<Vec<u64>>>, starts: Vec<usize> },
}

impl FetchedIds {
    /// The column.
    pub fn column(&self) -> &Arc<Column> {
        &self.column
    }

    /// The ids that were asked for.
    pub fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// Whether a row has no sample.
    pub fn is_missing(&self, i: usize) -> bool {
        match &self.fetched {
            Fetched::Scalars { present, .. } => present.as_ref().is_some_and(|present| !present[i]),
            Fetched::Values(values) => matches!(values[i], Ok(None)),
            Fetched::Blobs { shapes, .. } => shapes[i].is_none(),
        }
    }

    /// Whether samples are one tensor each, whose shape is known without decoding it.
    pub fn is_tensors(&self) -> bool {
        let htype = self.column.htype();
        match &self.fetched {
            Fetched::Scalars { .. } => true,
            Fetched::Values(_) => false,
            Fetched::Blobs { .. } => !htype.sequence && !matches!(htype.base, Base::Polygon | Base::Bytes),
        }
    }

    /// The shape of a sample that is there; `None` where only decoding tells.
    pub fn shape(&self, i: usize) -> Option<&[u64]> {
        match &self.fetched {
            Fetched::Scalars { .. } => Some(&[]),
            Fetched::Values(_) => None,
            Fetched::Blobs { shapes, .. } => shapes[i].as_deref(),
        }
    }

    /// Bytes it takes where it is stored.
    pub fn stored_bytes(&self, i: usize) -> u64 {
        match &self.fetched {
            Fetched::Scalars { all, .. } => all.dtype().size_bytes() as u64,
            Fetched::Values(_) => 0,
            Fetched::Blobs { tiles, starts, .. } => {
                (starts[i]..starts[i + 1]).map(|at| tiles.samples().tile(tiles.tiles()[at]).2).sum()
            }
        }
    }

    /// The dtype that a sample has when it is decoded. Fails if it cannot be decoded.
    pub fn dtype(&self, i: usize) -> Result<DType, DatasetError> {
        match &self.fetched {
            Fetched::Scalars { all, .. } => Ok(all.dtype()),
            Fetched::Values(_) => Err(self.no_tensor()),
            Fetched::Blobs { tiles, starts, .. } => {
                // What nearly all files are; their headers need not be read.
                if self.column.files_keep_dtype()
                    && starts[i + 1] - starts[i] == 1
                    && tiles.samples().codec(tiles.tiles()[starts[i]]) == "jpeg"
                {
                    return Ok(DType::U8);
                }
                self.with_tiles(i, |tiles| {
                    sample_dtype(&self.column, tiles).map_err(DatasetError::sample(&self.name, self.ids[i]))
                })
            }
        }
    }

    /// The bytes of a media file that is stored as it came, and the shape of the sample. `None` for anything else.
    pub fn file(&self, i: usize) -> Result<Option<FileAndShape<'_>>, DatasetError> {
        let Fetched::Blobs { tiles, shapes, starts } = &self.fetched else { return Ok(None) };
        let Some(shape) = &shapes[i] else { return Ok(None) };
        let is_file = self.column.holds_files()
            && self.is_tensors()
            && starts[i + 1] - starts[i] == 1
            && lacus_media::Format::ALL
                .iter()
                .any(|format| format.name() == tiles.samples().codec(tiles.tiles()[starts[i]]));
        match is_file {
            true => Ok(Some((tiles.verified_tile(starts[i])?, shape))),
            false => Ok(None),
        }
    }

    /// A sample; `None` if the row has none. Fails with a corrupt error if it does not have its checksum.
    pub fn decode(&self, i: usize) -> Result<Option<Value>, DatasetError> {
        match &self.fetched {
            Fetched::Scalars { .. } if self.is_missing(i) => Ok(None),
            Fetched::Scalars { all, .. } => {
                let item = all.dtype().size_bytes();
                let buffer = Buffer::from_slice(&all.bytes()[i * item..(i + 1) * item]);
                Ok(Some(Value::Tensor(Tensor::new(all.dtype(), Shape::default(), buffer)?)))
            }
            Fetched::Values(values) => match &values[i] {
                Ok(value) => Ok(value.clone()),
                Err(error) => Err(DatasetError::Copied { kind: error.kind(), message: error.to_string() }),
            },
            Fetched::Blobs { shapes, .. } => {
                let Some(shape) = &shapes[i] else { return Ok(None) };
                self.with_tiles(i, |tiles| {
                    decode_blob(&self.column, shape, &[], tiles)
                        .map(Some)
                        .map_err(DatasetError::sample(&self.name, self.ids[i]))
                })
            }
        }
    }

    /// Decodes a sample that is one tensor into `out`, which has exactly its length. After an error `out` holds anything.
    pub fn decode_into(&self, i: usize, out: &mut [u8]) -> Result<(), DatasetError> {
        match &self.fetched {
            Fetched::Scalars { all, .. } => {
                let item = all.dtype().size_bytes();
                out.copy_from_slice(&all.bytes()[i * item..(i + 1) * item]);
                Ok(())
            }
            Fetched::Values(_) => Err(self.no_tensor()),
            Fetched::Blobs { shapes, .. } => {
                let Some(shape) = &shapes[i] else { return Err(self.no_tensor()) };
                self.with_tiles(i, |tiles| {
                    decode_blob_into(&self.column, shape, tiles, out)
                        .map_err(DatasetError::sample(&self.name, self.ids[i]))
                })
            }
        }
    }

    fn no_tensor(&self) -> DatasetError {
        DatasetError::refused("read", format!("the samples of {:?} are not tensors", self.name))
    }

    fn with_tiles<T>(
        &self,
        i: usize,
        work: impl FnOnce(&[TileRef<'_>]) -> Result<T, DatasetError>,
    ) -> Result<T, DatasetError> {
        let Fetched::Blobs { tiles, starts, .. } = &self.fetched else { return Err(self.no_tensor()) };
        let samples = tiles.samples();
        let one = |at: usize| {
            let tile = tiles.tiles()[at];
            let coords = match starts[i + 1] - starts[i] {
                1 => Vec::new(),
                _ => samples.tile(tile).0.iter().map(|c| u64::try_from(*c).unwrap_or(0)).collect(),
            };
            Ok(TileRef { coords, codec: samples.codec(tile), bytes: tiles.verified_tile(at)? })
        };
        if starts[i + 1] - starts[i] == 1 {
            return work(&[one(starts[i])?]);
        }
        work(&(starts[i]..starts[i + 1]).map(one).collect::<Result<Vec<_>, DatasetError>>()?)
    }
}
