//! Parquet comes in: typed columns, and our own ones as what they were.

use lacus_io::boxed;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::Schema;
use lacus_dataset::Dataset;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use crate::error::ExchangeError;
use crate::folder::entries;
use crate::from_arrow::{ROWS, Rows, TakenField, decide, hand_on};
use crate::importer::{Feed, import};
use crate::options::{ImportOptions, Report};

/// Imports a Parquet file, or a directory of them with one schema, as [`from_arrow`](crate::from_arrow) imports a table in
/// memory. Nulls stay missing. What [`to_parquet`](crate::to_parquet) wrote becomes the columns it was made of.
///
/// Fails as [`ImportOptions::on_error`] says for columns that nothing can be made of and for rows that do not fit.
#[boxed]
pub async fn from_parquet(
    dataset: &mut Dataset,
    source: &Path,
    options: &ImportOptions,
) -> Result<Report, ExchangeError> {
    let source = source.to_owned();
    import(dataset, options, move |feed| read(feed, &source)).await
}

/// What the first file decides for all.
struct Plan {
    schema: Arc<Schema>,
    takes: Vec<TakenField>,
}

fn read(feed: &mut Feed, source: &Path) -> Result<(), ExchangeError> {
    let files = files(source)?;
    let mut total = 0;
    for file in &files {
        total += open(file)?.rows;
    }
    let mut plan: Option<Plan> = None;
    for file in &files {
        let Open { reader, schema, .. } = open(file)?;
        if let Some(plan) = &plan
            && plan.schema.fields() != schema.fields()
        {
            feed.bad(file.display().to_string(), "has other columns than the files before")?;
            continue;
        }
        let source = format!("{}: ", file.display());
        let wrong = |error: arrow::error::ArrowError| ExchangeError::source(file, error.to_string());
        let mut rows = Rows::new(reader.map(|batch| batch.map_err(wrong)));
        if plan.is_none() {
            let takes = decide(feed, &schema, rows.first()?, &source, Some(total))?;
            plan = Some(Plan { schema, takes });
        }
        let Some(Plan { takes, .. }) = &plan else { continue };
        let mut row = 0;
        while let Some(batch) = rows.next().transpose()? {
            hand_on(feed, &batch, takes, &source, row)?;
            row += batch.num_rows() as u64;
        }
    }
    Ok(())
}

fn files(source: &Path) -> Result<Vec<PathBuf>, ExchangeError> {
    if !source.is_dir() {
        return Ok(vec![source.to_owned()]);
    }
    if source.join("_delta_log").is_dir() {
        let why = "is a Delta table, whose log says which files count: export it to Parquet first";
        return Err(ExchangeError::source(source, why));
    }
    let found: Vec<PathBuf> = entries(source)?
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "parquet"))
        .collect();
    match found.is_empty() {
        true => Err(ExchangeError::source(source, "there are no .parquet files in it")),
        false => Ok(found),
    }
}

/// A file whose footer was read.
struct Open {
    reader: ParquetRecordBatchReader,
    schema: Arc<Schema>,
    rows: u64,
}

fn open(path: &Path) -> Result<Open, ExchangeError> {
    let file = File::open(path).map_err(ExchangeError::io(path, "open"))?;
    let wrong = |error: parquet::errors::ParquetError| ExchangeError::source(path, error.to_string());
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(wrong)?;
    let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
    let schema = Arc::clone(builder.schema());
    Ok(Open { reader: builder.with_batch_size(ROWS).build().map_err(wrong)?, schema, rows })
}
