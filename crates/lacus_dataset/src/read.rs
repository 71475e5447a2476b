//! Reads samples: any rows of a column, whole or in part, in one planned read.

use lacus_io::boxed;

use bytes::Bytes;
use lacus_sample::{Base, Form, Value};
use lacus_tensor::Index;

use crate::dataset::Dataset;
use crate::error::DatasetError;
use crate::rows_read::{Batch, stored_shape};

impl Dataset {
    /// The samples of the rows at `positions`, in their order. `indices` select a part of each sample; there are none
    /// for whole samples. Samples of a fixed shape come stacked, unless one is missing.
    #[boxed]
    pub async fn read(
        &self,
        name: &str,
        positions: &[u64],
        indices: &[Index],
    ) -> Result<Batch, DatasetError> {
        self.plan(name, positions, indices).await?.fetch().await?.decode_aside()
    }

    /// The shapes of the samples at `positions`, without reading them; `None` where one is missing. Of texts and JSON
    /// it is the shape `()`.
    #[boxed]
    pub async fn shapes(&self, name: &str, positions: &[u64]) -> Result<Vec<Option<Vec<u64>>>, DatasetError> {
        let column = self.column(name)?;
        let ids = self.ids(positions).await?;
        match column.form() {
            Form::Int | Form::Float | Form::Real => {
                let runs: Vec<(u64, u64)> = ids.iter().map(|id| (*id, 1)).collect();
                let read = self.table().read_numbers(name, &runs).await?;
                Ok((0..ids.len()).map(|row| read.is_present(row).then(Vec::new)).collect())
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
    #[boxed]
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
}

fn shape_of(value: &Value) -> Vec<u64> {
    match value {
        Value::Tensor(tensor) => tensor.shape().dims().to_vec(),
        Value::Sequence(values) => vec![values.len() as u64],
        Value::Bytes(bytes) => vec![bytes.len() as u64],
        _ => Vec::new(),
    }
}
