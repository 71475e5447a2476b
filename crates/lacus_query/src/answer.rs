//! What a question is answered with.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use lacus_dataset::View;

/// An answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Rows of the dataset, in the order that was asked for. Columns that are not stored are computed when they are read.
    View(View),
    /// Anything else.
    Table(Table),
}

/// Rows that are in no dataset.
#[derive(Clone, Debug)]
pub struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Table {
        Table { schema, batches }
    }

    /// The columns. Fields of tensors, media and class labels say what they are, as those of a scan do.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows.
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}
