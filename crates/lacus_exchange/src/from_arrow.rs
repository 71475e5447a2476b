//! Arrow tables come in: batches of rows become cells. What each type becomes is on the page of
//! [`lacus_arrow`].

use arrow::array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow::datatypes::Schema;
use lacus_arrow::{Cell, Take, Taken, cells, plain_values, taken};
use lacus_dataset::Dataset;
use serde_json::Value as Json;

use crate::error::ExchangeError;
use crate::importer::{Feed, NewColumn, import};
use crate::names::column_names;
use crate::options::{ImportOptions, Report};

/// Rows taken together: few, since each may hold a picture. Also how many are looked at to see what bytes are.
pub(crate) const ROWS: usize = 1024;

/// Imports a table in memory, batch by batch, as [`from_parquet`](crate::from_parquet) imports a file: every type
/// becomes the same column, and every value the same sample.
///
/// Fails as [`ImportOptions::on_error`] says for columns that nothing can be made of and for rows that do not fit.
pub async fn from_arrow(
    dataset: &mut Dataset,
    table: impl RecordBatchReader + Send + 'static,
    options: &ImportOptions,
) -> Result<Report, ExchangeError> {
    import(dataset, options, move |feed| {
        let schema = table.schema();
        let batches = table.map(|batch| {
            batch.map_err(|error| ExchangeError::bad("the table", format!("cannot be read: {error}")))
        });
        let mut rows = Rows::new(batches);
        let takes = decide(feed, &schema, rows.first()?, "", None)?;
        let mut row = 0;
        while let Some(batch) = rows.next().transpose()? {
            hand_on(feed, &batch, &takes, "", row)?;
            row += batch.num_rows() as u64;
        }
        Ok(())
    })
    .await
}

/// Batches cut to at most [`ROWS`] rows, the first of which can be looked at before.
pub(crate) struct Rows<I> {
    batches: I,
    /// What is left of the batch that is being cut.
    rest: Option<RecordBatch>,
    /// Pieces that were looked at.
    seen: std::collections::VecDeque<RecordBatch>,
}

impl<I: Iterator<Item = Result<RecordBatch, ExchangeError>>> Rows<I> {
    pub(crate) fn new(batches: I) -> Rows<I> {
        Rows { batches, rest: None, seen: Default::default() }
    }

    /// The first [`ROWS`] rows, which come again.
    pub(crate) fn first(&mut self) -> Result<&std::collections::VecDeque<RecordBatch>, ExchangeError> {
        let mut rows = 0;
        let mut seen = std::collections::VecDeque::new();
        while rows < ROWS {
            let Some(batch) = self.next().transpose()? else { break };
            rows += batch.num_rows();
            seen.push_back(batch);
        }
        self.seen = seen;
        Ok(&self.seen)
    }
}

impl<I: Iterator<Item = Result<RecordBatch, ExchangeError>>> Iterator for Rows<I> {
    type Item = Result<RecordBatch, ExchangeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(batch) = self.seen.pop_front() {
            return Some(Ok(batch));
        }
        loop {
            let batch = match self.rest.take() {
                Some(rest) => rest,
                None => match self.batches.next()? {
                    Ok(batch) => batch,
                    Err(error) => return Some(Err(error)),
                },
            };
            if batch.num_rows() > ROWS {
                self.rest = Some(batch.slice(ROWS, batch.num_rows() - ROWS));
                return Some(Ok(batch.slice(0, ROWS)));
            }
            if batch.num_rows() > 0 {
                return Some(Ok(batch));
            }
        }
    }
}

/// A field that is taken: its place, its name, and how.
pub(crate) type TakenField = (usize, String, Take);

/// Which columns there will be, and how fields become them. `source` is named in errors, with `: ` behind it if there is one.
pub(crate) fn decide<'a>(
    feed: &mut Feed,
    schema: &Schema,
    first: impl IntoIterator<Item = &'a RecordBatch>,
    source: &str,
    total: Option<u64>,
) -> Result<Vec<TakenField>, ExchangeError> {
    let first: Vec<&RecordBatch> = first.into_iter().collect();
    let features = hugging_face(schema);
    let (mut found, mut takens, mut takes) = (Vec::new(), Vec::new(), Vec::new());
    for (place, field) in schema.fields().iter().enumerate() {
        let first = || -> Result<Vec<ArrayRef>, String> {
            // In small pieces: many large files would not fit into one array of the plain type.
            let pieces = first.iter().flat_map(|batch| pieces(batch.column(place)));
            pieces.map(|piece| plain_values(&piece)).collect()
        };
        let Some(decided) = taken(field, schema, features.get(field.name()), first).transpose() else {
            continue;
        };
        match decided {
            Ok(taken) => {
                found.push(field.name().clone());
                takes.push((place, field.name().clone(), taken.take.clone()));
                takens.push(taken);
            }
            Err(why) => feed.bad(format!("{source}column {:?}", field.name()), why)?,
        }
    }
    if takes.is_empty() {
        return Err(ExchangeError::Lacking(format!("{source}there is no column that can be taken")));
    }
    let column =
        |(name, taken): (String, Taken)| NewColumn::new(name, taken.spec).with_metadata(taken.metadata);
    let columns = column_names(&found).into_iter().zip(takens).map(column).collect();
    feed.columns(columns, total)?;
    Ok(takes)
}

fn pieces(array: &ArrayRef) -> impl Iterator<Item = ArrayRef> {
    const PIECE: usize = 16;
    (0..array.len()).step_by(PIECE).map(move |at| array.slice(at, PIECE.min(array.len() - at)))
}

/// What Hugging Face says of each column: it keeps that in the metadata of the schema.
fn hugging_face(schema: &Schema) -> serde_json::Map<String, Json> {
    let note = schema.metadata().get("huggingface").and_then(|text| serde_json::from_str::<Json>(text).ok());
    let features = note.as_ref().and_then(|note| note["info"]["features"].as_object());
    features.cloned().unwrap_or_default()
}

/// Hands on the rows of a batch, whose first one is number `first`.
pub(crate) fn hand_on(
    feed: &mut Feed,
    batch: &RecordBatch,
    takes: &[TakenField],
    source: &str,
    first: u64,
) -> Result<(), ExchangeError> {
    let rows = batch.num_rows();
    let mut columns = match columns_of(batch, takes) {
        Ok(columns) => columns,
        Err((name, why)) if rows <= 1 => {
            return feed.bad(format!("{source}row {first}"), format!("column {name:?}: {why}"));
        }
        // One of them is the cause, or they are too large together.
        Err(_) => {
            let half = rows / 2;
            hand_on(feed, &batch.slice(0, half), takes, source, first)?;
            return hand_on(feed, &batch.slice(half, rows - half), takes, source, first + half as u64);
        }
    };
    for row in 0..rows {
        let place = format!("{source}row {}", first + row as u64);
        let mut cells = Vec::with_capacity(columns.len());
        let mut fault = None;
        for (name, column) in &mut columns {
            match column.next() {
                Some(Ok(cell)) => cells.push(cell),
                Some(Err(why)) => fault = fault.or(Some(format!("column {name:?}: {why}"))),
                None => {}
            }
        }
        match fault {
            None => feed.row(place, cells)?,
            Some(why) => feed.bad(place, why)?,
        }
    }
    Ok(())
}

type Column<'a> = (&'a str, std::vec::IntoIter<Result<Cell, String>>);

/// The cells of a batch by column. Fails with the column, and why none of it could be taken.
fn columns_of<'a>(
    batch: &RecordBatch,
    takes: &'a [TakenField],
) -> Result<Vec<Column<'a>>, (&'a str, String)> {
    let column = |(place, name, take): &'a TakenField| {
        let taken = || {
            let shapes = match take.shape_column() {
                Some(name) => batch.column_by_name(name).map(plain_values).transpose()?,
                None => None,
            };
            cells(&plain_values(batch.column(*place))?, take, shapes.as_ref())
        };
        taken().map(|cells| (name.as_str(), cells.into_iter())).map_err(|why| (name.as_str(), why))
    };
    takes.iter().map(column).collect()
}
