//! One wide table of plain columns, for people who want SQL: a Parquet file, or a Delta table of one version.

use lacus_io::boxed;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use lacus_arrow::{Cell, Dialect, Plain, plain_arrays, plain_fields};
use lacus_dataset::Dataset;
use parquet::arrow::ArrowWriter;
use serde_json::{Value as Json, json};

use crate::error::ExchangeError;
use crate::exporter::{OutColumn, chosen, export_batches, keep_file, new_directory, new_file};
use crate::folder::write_file;
use crate::names::column_names;
use crate::options::{ExportOptions, Report};
use crate::parquet_file::{ROW_GROUP_BYTES, properties};

/// Exports to one Parquet file of plain columns, which appears whole or not at all. See the table of forms on the
/// crate's page; [`from_parquet`](crate::from_parquet) makes the same columns of it again.
///
/// Columns without a plain form are left out, as [`ExportOptions::on_error`] says.
#[boxed]
pub async fn to_parquet(
    dataset: &Dataset,
    dest: &Path,
    options: &ExportOptions,
) -> Result<Report, ExchangeError> {
    let file = new_file(dest)?;
    let out = file.reopen().map_err(ExchangeError::io(dest, "create"))?;
    let (report, _) = write(dataset, out, dest, Dialect::Parquet, options).await?;
    keep_file(file, dest)?;
    Ok(report)
}

/// Exports to a new Delta table of plain columns in a local directory, which appears whole or not at all. Unsigned numbers
/// become wider signed ones, which Delta has.
#[boxed]
pub async fn to_delta(
    dataset: &Dataset,
    dest: &Path,
    options: &ExportOptions,
) -> Result<Report, ExchangeError> {
    let directory = new_directory(dest)?;
    let data = format!("part-00000-{}.zstd.parquet", uuid::Uuid::new_v4());
    let path = directory.path().join(&data);
    let out = File::create_new(&path).map_err(ExchangeError::io(&path, "create"))?;
    let (report, schema) = write(dataset, out, dest, Dialect::Delta, options).await?;
    let size = std::fs::metadata(&path).map_err(ExchangeError::io(&path, "read"))?.len();
    let now = chrono::Utc::now().timestamp_millis();
    let entry = [
        json!({"commitInfo": {
            "timestamp": now, "operation": "CREATE TABLE AS SELECT", "operationParameters": {},
            "engineInfo": concat!("lacus/", env!("CARGO_PKG_VERSION")),
        }}),
        json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}),
        json!({"metaData": {
            "id": uuid::Uuid::new_v4().to_string(),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": delta_schema(&schema).to_string(),
            "partitionColumns": [], "configuration": {}, "createdTime": now,
        }}),
        json!({"add": {
            "path": data, "partitionValues": {}, "size": size, "modificationTime": now, "dataChange": true,
            "stats": json!({"numRecords": report.rows}).to_string(),
        }}),
    ];
    let lines: String = entry.iter().map(|line| format!("{line}\n")).collect();
    let log = directory.path().join("_delta_log").join(format!("{:020}.json", 0));
    write_file(&log, lines.as_bytes())?;
    directory.keep()?;
    Ok(report)
}

async fn write(
    dataset: &Dataset,
    out: File,
    dest: &Path,
    dialect: Dialect,
    options: &ExportOptions,
) -> Result<(Report, SchemaRef), ExchangeError> {
    let mut report = Report::default();
    let mut columns: Vec<(OutColumn, Plain)> = Vec::new();
    for column in chosen(dataset, options)? {
        match Plain::of(&column.column, column.metadata.as_ref(), dialect) {
            Ok(plain) => columns.push((column, plain)),
            Err(why) => report.skip(options.on_error, format!("column {:?}", column.name), why)?,
        }
    }
    if columns.is_empty() {
        return Err(ExchangeError::Lacking("no column is left that has a plain form".to_owned()));
    }
    report.columns = columns.iter().map(|(column, _)| column.name.clone()).collect();
    let schema = schema(&columns, dialect)?;
    let failed = |error: parquet::errors::ParquetError| ExchangeError::Io {
        path: dest.to_owned(),
        doing: "write",
        source: std::io::Error::other(error),
    };
    let mut writer = ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties())).map_err(failed)?;
    let outgoing: Vec<OutColumn> = columns.iter().map(|(column, _)| column.clone()).collect();
    export_batches(dataset, &outgoing, options, &mut report, |report, first, mut batch| {
        let rows = batch.first().map_or(0, Vec::len);
        let mut all: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
        for ((column, plain), cells) in columns.iter().zip(&mut batch) {
            let arrays = loop {
                match plain_arrays(&column.column, plain, dialect, cells) {
                    Ok(arrays) => break arrays,
                    Err((None, why)) => {
                        let place = format!("column {:?}, rows from {first} on", column.name);
                        return Err(ExchangeError::bad(place, why));
                    }
                    // Without the one that does not fit: each turn has one less.
                    Err((Some(bad), why)) => {
                        let place = format!("column {:?}, row {}", column.name, first + bad as u64);
                        report.skip(options.on_error, place, why)?;
                        cells[bad] = Cell::Missing;
                    }
                }
            };
            all.extend(arrays);
            report.bytes += cells.iter().map(Cell::bytes).sum::<u64>();
        }
        let batch = RecordBatch::try_new(Arc::clone(&schema), all)
            .map_err(|error| ExchangeError::Fault(format!("wide table: {error}")))?;
        writer.write(&batch).map_err(failed)?;
        if writer.in_progress_size() > ROW_GROUP_BYTES {
            writer.flush().map_err(failed)?;
        }
        report.rows += rows as u64;
        Ok(())
    })
    .await?;
    let out = writer.into_inner().map_err(failed)?;
    out.sync_all().map_err(ExchangeError::io(dest, "write"))?;
    Ok((report, schema))
}

fn schema(columns: &[(OutColumn, Plain)], dialect: Dialect) -> Result<SchemaRef, ExchangeError> {
    // Delta's names have none of these characters.
    let plain = |name: &str| match dialect {
        Dialect::Parquet => name.to_owned(),
        Dialect::Delta => name.replace([' ', ',', ';', '{', '}', '(', ')', '\n', '\t', '='], "_"),
    };
    let names = column_names(&columns.iter().map(|(column, _)| plain(&column.name)).collect::<Vec<_>>());
    let mut all: Vec<Field> = Vec::new();
    for ((column, form), name) in columns.iter().zip(&names) {
        all.extend(plain_fields(name, &column.column, column.metadata.as_ref(), form, dialect));
    }
    for (place, field) in all.iter().enumerate() {
        if all[..place].iter().any(|other| other.name().eq_ignore_ascii_case(field.name())) {
            let why =
                format!("two columns would be called {:?}: choose columns, or rename one", field.name());
            return Err(ExchangeError::Lacking(why));
        }
    }
    Ok(Arc::new(Schema::new(all)))
}

fn delta_schema(schema: &Schema) -> Json {
    let field = |field: &Arc<Field>| json!({"name": field.name(), "type": delta_type(field.data_type()), "nullable": true, "metadata": {}});
    json!({"type": "struct", "fields": schema.fields().iter().map(field).collect::<Vec<_>>()})
}

fn delta_type(data_type: &DataType) -> Json {
    json!(match data_type {
        DataType::Boolean => "boolean",
        DataType::Int8 => "byte",
        DataType::Int16 => "short",
        DataType::Int32 => "integer",
        DataType::Int64 => "long",
        DataType::Float32 => "float",
        DataType::Float64 => "double",
        DataType::Decimal128(precision, scale) => return json!(format!("decimal({precision},{scale})")),
        DataType::Binary => "binary",
        DataType::Date32 => "date",
        DataType::Timestamp(..) => "timestamp",
        DataType::List(of) => {
            return json!({"type": "array", "elementType": delta_type(of.data_type()), "containsNull": true});
        }
        _ => "string",
    })
}
