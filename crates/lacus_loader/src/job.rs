//! All that the stages of a loader need to know, shared between them.

use std::sync::Arc;

use lacus_dataset::View;
use lacus_tensor::DType;
use lacus_threads::Pool;

use crate::error::LoaderError;
use crate::order::{OrderSpec, Shuffle};
use crate::sample_transform::SampleOutput;
use crate::settings::{ColumnPlan, Settings, ShuffleWish};

/// Runs per block: entropy is lost where two neighbours are of one run, which is one pair in so many.
const RUNS_PER_BLOCK: u64 = 64;

/// A block has no more rows than this, however small they are: its order is kept in memory, 8 bytes a row.
const MOST_BLOCK_ROWS: u64 = 1 << 20;

/// What is loaded, and how.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) sources: Vec<View>,
    pub(crate) columns: Vec<ColumnPlan>,
    /// What the transform of a column makes, if it has one.
    pub(crate) outputs: Vec<Option<SampleOutput>>,
    pub(crate) order: OrderSpec,
    pub(crate) settings: Settings,
    pub(crate) digest: String,
    /// Stored bytes of a row on average, in the columns that are loaded.
    pub(crate) loaded_row_bytes: u64,
}

impl Job {
    pub(crate) fn pool(&self) -> Pool {
        match self.sources.first() {
            Some(view) => view.source().table().world().pool().clone(),
            None => Pool::process().clone(),
        }
    }

    /// The bytes that a sample takes in a batch, where a transform decides that.
    pub(crate) fn transformed_bytes(&self, column: usize) -> Option<u64> {
        let SampleOutput { dtype, shape } = self.outputs[column].as_ref()?;
        Some(bytes_of(*dtype, shape.as_ref()?))
    }
}

/// Bytes of so many elements.
pub(crate) fn bytes_of(dtype: DType, shape: &[u64]) -> u64 {
    shape.iter().fold(dtype.size_bytes() as u64, |bytes, size| bytes.saturating_mul(*size))
}

/// Stored bytes of a row of a view in some of its columns, on average over the whole dataset.
pub(crate) async fn row_bytes(view: &View, columns: &[String]) -> Result<u64, LoaderError> {
    let (table, mut bytes) = (view.source().table(), 0u64);
    let rows = view.source().len().await?.max(1);
    for name in columns.iter().filter(|name| !view.computed().contains_key(*name)) {
        bytes += table.column(name).map_err(lacus_dataset::DatasetError::from)?.stored_bytes;
    }
    Ok((bytes / rows).max(1))
}

/// What a wish means for a view whose rows take so many bytes.
pub(crate) fn shuffle_of(wish: ShuffleWish, row_bytes: u64) -> Shuffle {
    match wish {
        ShuffleWish::None => Shuffle::None,
        ShuffleWish::Full => Shuffle::Full,
        ShuffleWish::Blocks { bytes } => {
            let block = (bytes / row_bytes.max(1)).clamp(1, MOST_BLOCK_ROWS);
            Shuffle::Blocks { run: (block / RUNS_PER_BLOCK).max(1), block }
        }
    }
}

/// The view of rows that have a sample in all of some columns. Nothing is read for it.
pub(crate) async fn with_samples(view: &View, columns: &[String]) -> Result<View, LoaderError> {
    let mut view = view.clone();
    for name in columns {
        let present = view.present(name).await?;
        let has = |id: u64| {
            let at = present.partition_point(|(first, _)| *first <= id);
            at > 0 && id - present[at - 1].0 < present[at - 1].1
        };
        let mask: Vec<bool> = view.rows().iter().map(has).collect();
        if mask.contains(&false) {
            view = view.masked(&mask)?;
        }
    }
    Ok(view)
}

pub(crate) type SharedJob = Arc<Job>;
