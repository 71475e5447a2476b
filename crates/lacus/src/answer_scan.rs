//! The rows of an answer as Arrow record batches, whatever the answer is.
//!
//! ```text
//! Table ───────────────────→ its batches
//! View, all columns stored ─→ a scan
//! View, some computed ──────→ a query for some rows at a time
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use lacus_dataset::{Scan, ScanOptions, View};
use lacus_io::boxed;
use lacus_query::{Answer, Callee, QueryError, Table};

use crate::error::Error;

/// Rows of the first batch that is computed, before it is known how large a row is.
const FIRST_ROWS: u64 = 64;

/// Rows of a batch at most.
const MOST_ROWS: u64 = 1 << 16;

/// The rows of an answer, on their way.
#[derive(Debug)]
pub struct AnswerScan {
    schema: SchemaRef,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Table(VecDeque<RecordBatch>),
    Stored(View, Box<Scan>),
    Computed {
        view: View,
        columns: Vec<String>,
        functions: Vec<Arc<dyn Callee>>,
        /// The place of the next row.
        next: u64,
        /// How many rows the next batch has.
        rows: u64,
        batch_bytes: u64,
    },
}

impl AnswerScan {
    /// The rows of an answer that needs no functions of the caller's.
    #[boxed]
    pub async fn of(answer: &Answer) -> Result<AnswerScan, Error> {
        match answer {
            Answer::Table(table) => Ok(AnswerScan::of_table(table)),
            Answer::View(view) => AnswerScan::of_view(view, None, ScanOptions::default(), &[]).await,
        }
    }

    /// The rows of a table.
    pub fn of_table(table: &Table) -> AnswerScan {
        let batches = table.batches().iter().cloned().collect();
        AnswerScan { schema: Arc::clone(table.schema()), source: Source::Table(batches) }
    }

    /// The rows of a view: of these columns, or of all of its own. Columns that are computed may use `functions` of the caller's. They
    /// cannot be scanned with a filter; a query can have one.
    #[boxed]
    pub async fn of_view(
        view: &View,
        columns: Option<&[String]>,
        options: ScanOptions,
        functions: &[Arc<dyn Callee>],
    ) -> Result<AnswerScan, Error> {
        let view = match columns {
            Some(columns) => view.select(columns)?,
            None => view.clone(),
        };
        let Some(name) = view.computed().keys().next() else {
            let scan = view.scan(None, options).await?;
            let schema = Arc::clone(scan.schema());
            return Ok(AnswerScan { schema, source: Source::Stored(view, Box::new(scan)) });
        };
        if options.filter.is_some() {
            let why = format!("{name:?} is computed, so the view is filtered by a query: SELECT * WHERE …");
            return Err(QueryError::text(why).into());
        }
        let columns = view.columns();
        // No rows cost nothing, and have all types.
        let schema = lacus_query::compute(&view, &columns, &[], functions).await?.schema();
        let source = Source::Computed {
            view,
            columns,
            functions: functions.to_vec(),
            next: 0,
            rows: FIRST_ROWS,
            batch_bytes: options.batch_bytes,
        };
        Ok(AnswerScan { schema, source })
    }

    /// The columns. Fields of tensors, media and class labels say what they are.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next rows; `None` at the end.
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        match &mut self.source {
            Source::Table(batches) => Ok(batches.pop_front()),
            Source::Stored(view, scan) => Ok(scan.next(view.source()).await?),
            Source::Computed { view, columns, functions, next, rows, batch_bytes } => {
                let count = (*rows).min(view.len() - *next);
                if count == 0 {
                    return Ok(None);
                }
                let places: Vec<u64> = (*next..*next + count).collect();
                let batch = lacus_query::compute(view, columns, &places, functions).await?;
                *next += count;
                let row_bytes = (batch.get_array_memory_size() as u64 / count).max(1);
                *rows = (*batch_bytes / row_bytes).clamp(1, MOST_ROWS);
                Ok(Some(batch))
            }
        }
    }
}
