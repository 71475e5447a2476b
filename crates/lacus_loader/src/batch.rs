//! A batch: samples of some rows, column by column, ready to be handed over.

use lacus_sample::Value;
use lacus_tensor::{ErrorKind, Tensor};

/// A row of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchRow {
    /// Which of the loader's views it is of.
    pub source: u32,
    /// Its place in that view.
    pub place: u64,
    /// Its id, which never changes.
    pub id: u64,
    /// Its position in the order of the epoch.
    pub position: u64,
}

/// The samples of one column.
#[derive(Debug)]
pub enum ColumnBatch {
    /// One tensor, rows first.
    Stacked(Tensor),
    /// One tensor of the largest sizes; the mask is true where elements are a sample's.
    Padded {
        /// The elements.
        values: Tensor,
        /// Of the leading axes, up to the last one that may differ between samples.
        mask: Tensor,
    },
    /// Samples one after the other along their first axis.
    Nested {
        /// The elements.
        values: Tensor,
        /// Where each sample begins, and the end.
        offsets: Vec<i64>,
    },
    /// One by one; `None` where one is missing.
    Values(Vec<Option<Value>>),
}

/// A sample that could not be loaded.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The column.
    pub column: String,
    /// The row.
    pub row: BatchRow,
    /// What the caller should do.
    pub kind: ErrorKind,
    /// What is wrong.
    pub why: String,
}

/// Samples of some rows.
#[derive(Debug)]
pub struct LoadedBatch {
    /// The number of the batch in what is left of the epoch.
    pub number: u64,
    /// The rows that are in it.
    pub rows: Vec<BatchRow>,
    /// The columns, in the order asked for.
    pub columns: Vec<(String, ColumnBatch)>,
    /// Samples that were left out, or that zeros stand for.
    pub failures: Vec<Failure>,
    /// How many of the rows were in another batch of this epoch, so that ranks have equally many.
    pub repeated: u64,
    /// How many samples of the epoch all ranks have consumed once this batch is.
    pub consumed: u64,
    /// About the bytes it takes.
    pub bytes: u64,
}
