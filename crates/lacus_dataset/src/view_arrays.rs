//! A view for engines that work on Arrow arrays: which rows may pass a filter, and the samples of some rows as an array.

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use lacus_io::boxed;
use lacus_sample::Form;
use lacus_tensor::Index;

use crate::error::DatasetError;
use crate::filter::Filter;
use crate::rows_read::Batch;
use crate::scan_column::ScanColumn;
use crate::view::View;

/// Rows that follow each other both in a view and by their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedRun {
    /// The place of the first in the view.
    pub place: u64,
    /// Its id.
    pub id: u64,
    /// How many there are.
    pub count: u64,
}

/// What is known of a sample without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleFacts {
    /// Its shape.
    pub shape: Vec<u64>,
    /// How its bytes are coded: the format of a media file, or that of elements. Empty for links.
    pub codec: String,
    /// Bytes it takes where it is stored.
    pub stored_bytes: u64,
}

impl View {
    /// The rows for which a filter may be true, in the order of the view. Zones rule rows out; no sample is read.
    #[boxed]
    pub async fn possible(&self, filter: Option<&Filter>) -> Result<Vec<PlacedRun>, DatasetError> {
        let runs = self.rows().runs();
        let set = match filter {
            None => None,
            Some(filter) => {
                let test = self.source().bind(filter)?;
                Some(self.source().candidate_set(&runs, &test).await?)
            }
        };
        let (mut found, mut place) = (Vec::with_capacity(runs.len()), 0);
        for (first, count) in runs {
            match &set {
                None => found.push(PlacedRun { place, id: first, count }),
                Some(set) => {
                    found.extend(set.among(&[(first, count)]).into_iter().map(|(id, count)| PlacedRun {
                        place: place + (id - first),
                        id,
                        count,
                    }))
                }
            }
            place += count;
        }
        Ok(found)
    }

    /// The Arrow schema of some stored columns.
    pub fn arrow_schema(&self, columns: &[impl AsRef<str>]) -> Result<SchemaRef, DatasetError> {
        self.source().arrow_schema(columns)
    }

    /// About the bytes of a sample of a stored column in memory.
    #[boxed]
    pub async fn usual_bytes(&self, name: &str) -> Result<u64, DatasetError> {
        let rows = self.source().table().rows().await?.len();
        Ok(ScanColumn::new(self.source().column_facts(name)?, rows)?.usual_bytes)
    }

    /// The samples of a stored column in the rows with these ids (runs of first id and count), of the type that
    /// [`View::arrow_schema`] says. `None` if they are too large for one array: ask for fewer rows.
    #[boxed]
    pub async fn array(&self, name: &str, ids: &[(u64, u64)]) -> Result<Option<ArrayRef>, DatasetError> {
        let dataset = self.source();
        let rows = dataset.table().rows().await?.len();
        let column = ScanColumn::new(dataset.column_facts(name)?, rows)?;
        let texts = match column.column.form() {
            Form::Text => dataset.table().read_text_array(name, ids).await?,
            _ => None,
        };
        column.array(dataset, ids, texts.as_ref()).await
    }

    /// Parts of the samples of a stored column in the rows with these ids, as [`crate::Dataset::read`] gives them.
    #[boxed]
    pub async fn read_ids(&self, name: &str, ids: &[u64], indices: &[Index]) -> Result<Batch, DatasetError> {
        self.source().read(name, &self.positions_of(ids).await?, indices).await
    }

    /// What is known of the samples in the rows with these ids without reading them; `None` for missing ones.
    #[boxed]
    pub async fn facts(&self, name: &str, ids: &[u64]) -> Result<Vec<Option<SampleFacts>>, DatasetError> {
        let dataset = self.source();
        let column = dataset.column(name)?;
        if column.form() != Form::Blob {
            let shapes = dataset.shapes(name, &self.positions_of(ids).await?).await?;
            let fact = |shape| SampleFacts { shape, codec: String::new(), stored_bytes: 0 };
            return Ok(shapes.into_iter().map(|shape| shape.map(fact)).collect());
        }
        let samples = dataset.table().locate(name, ids).await?;
        let fact = |i: usize| {
            let shape = crate::rows_read::stored_shape(&column, &samples, i)?;
            let tiles = samples.tiles(i);
            let codec = samples.codec(tiles.start).to_owned();
            Some(SampleFacts { shape, codec, stored_bytes: tiles.map(|tile| samples.tile(tile).2).sum() })
        };
        Ok((0..ids.len()).map(fact).collect())
    }

    /// Runs of ids (first, count) of the rows that have a sample.
    #[boxed]
    pub async fn present(&self, name: &str) -> Result<Vec<(u64, u64)>, DatasetError> {
        self.source().column(name)?;
        Ok(self.source().table().present(name).await?)
    }

    async fn positions_of(&self, ids: &[u64]) -> Result<Vec<u64>, DatasetError> {
        let axis = self.source().table().rows().await?;
        let version = self.source().table().version();
        let position = |id: &u64| axis.position(*id).ok_or(DatasetError::NoSuchRow { id: *id, version });
        ids.iter().map(position).collect()
    }
}
