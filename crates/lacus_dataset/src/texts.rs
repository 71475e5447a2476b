//! Reads texts, and the samples that links among them lead to.

use lacus_io::blocking;
use lacus_sample::{Column, Sample, Stored, TileRef, Value, decode_blob, decode_text, encode};
use lacus_tensor::Index;

use crate::dataset::Dataset;
use crate::error::DatasetError;

impl Dataset {
    /// The texts of rows, links followed.
    pub(crate) async fn read_texts(
        &self,
        name: &str,
        column: &Column,
        positions: &[u64],
        indices: &[Index],
    ) -> Result<Vec<Option<Value>>, DatasetError> {
        let ids = self.ids(positions).await?;
        let texts = self.table().read_texts(name, &ids).await?;
        let mut values = Vec::with_capacity(texts.len());
        for (text, position) in texts.iter().zip(positions) {
            values.push(match text {
                Some(text) => Some(self.text_value(name, column, text, *position, indices).await?),
                None => None,
            });
        }
        Ok(values)
    }

    /// What a stored text says, or leads to. `position` is that of its row, for errors.
    pub(crate) async fn text_value(
        &self,
        name: &str,
        column: &Column,
        text: &str,
        position: u64,
        indices: &[Index],
    ) -> Result<Value, DatasetError> {
        let value = decode_text(column, text).map_err(DatasetError::sample(name, position))?;
        match column.htype().link {
            true => self.follow(name, &column.resolved(), position, value, indices).await,
            false => Ok(value),
        }
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
