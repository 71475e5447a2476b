//! Imports and exports of rows.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lacus::dataset::{Dataset, DatasetError};
use lacus::exchange::{
    ExchangeError, ExportOptions, ImportOptions, Kind, Progress, ProgressFn, Report, export_as, from_arrow,
    import_as,
};
use lacus::table::WriteOptions;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::convert::on_error;
use crate::errors::{invalid, raise_exchange};
use crate::rows::Rows;
use crate::stream::reader;
use crate::view::View;

/// Rows, bytes, what was left out (places and reasons), how many in all, columns.
type ReportRow = (u64, u64, Vec<(String, String)>, u64, Vec<String>);

/// What an import may be told: on_error, append, prefix, split_column, images, delimiter, durable.
type ImportArguments = (String, bool, Option<String>, Option<String>, Option<PathBuf>, Option<char>, bool);

/// How often a listener is told: often enough for a bar that moves.
const TOLD_EVERY: Duration = Duration::from_millis(200);

fn import_options(
    py: Python<'_>,
    given: ImportArguments,
    listener: Option<Py<PyAny>>,
) -> PyResult<ImportOptions> {
    let (errors, append, prefix, split_column, images, separator, durable) = given;
    Ok(ImportOptions {
        on_error: on_error(py, &errors)?,
        append,
        prefix,
        split_column,
        images,
        delimiter: delimiter(py, separator)?,
        durable,
        progress: progress(listener),
        ..ImportOptions::default()
    })
}

fn row(report: Report) -> ReportRow {
    (report.rows, report.bytes, report.skipped, report.skipped_total, report.columns)
}

fn kind(
    py: Python<'_>,
    name: Option<&str>,
    guess: impl FnOnce() -> Result<Kind, ExchangeError>,
) -> PyResult<Kind> {
    let found = match name {
        Some(name) => name.parse(),
        None => guess(),
    };
    found.map_err(|error| raise_exchange(py, &error))
}

fn delimiter(py: Python<'_>, text: Option<char>) -> PyResult<Option<u8>> {
    text.map(|text| u8::try_from(text).map_err(|_| invalid(py, format!("delimiter: {text:?} is no ASCII"))))
        .transpose()
}

/// Tells a Python function now and then: items, bytes, total.
fn progress(listener: Option<Py<PyAny>>) -> Option<ProgressFn> {
    let listener = listener?;
    let start = Instant::now();
    let told = AtomicU64::new(0);
    Some(Arc::new(move |now: Progress| {
        let millis = start.elapsed().as_millis() as u64;
        let last = told.load(Ordering::Relaxed);
        if millis < last + TOLD_EVERY.as_millis() as u64 && Some(now.items) != now.total_items {
            return;
        }
        told.store(millis, Ordering::Relaxed);
        Python::attach(|py| {
            // A listener that fails must not end the import.
            let _ = listener.call1(py, (now.items, now.bytes, now.total_items));
        });
    }))
}

#[pyclass(frozen, module = "lacus._native")]
pub(crate) struct Exchange {
    rows: Py<Rows>,
}

#[pymethods]
impl Exchange {
    #[new]
    fn new(rows: Py<Rows>) -> Exchange {
        Exchange { rows }
    }

    /// Imports a source, whose kind is guessed if it is not named.
    fn import_from(
        &self,
        py: Python<'_>,
        kind_name: Option<&str>,
        source: PathBuf,
        options: ImportArguments,
        listener: Option<Py<PyAny>>,
    ) -> PyResult<ReportRow> {
        let kind = kind(py, kind_name, || Kind::of_source(&source))?;
        let options = import_options(py, options, listener)?;
        let rows = self.rows.get();
        let imported = rows.handle().write_rows(
            py,
            options.durable,
            async |dataset: &mut Dataset, writing: &WriteOptions| {
                let options = ImportOptions { cancel: writing.cancel.clone(), ..options };
                Ok::<_, DatasetError>(import_as(kind, dataset, &source, &options).await)
            },
        )?;
        imported.map(row).map_err(|error| raise_exchange(py, &error))
    }

    /// Imports a table in memory, given as an Arrow C stream.
    fn import_table(
        &self,
        py: Python<'_>,
        stream: &Bound<'_, PyCapsule>,
        options: ImportArguments,
        listener: Option<Py<PyAny>>,
    ) -> PyResult<ReportRow> {
        let options = import_options(py, options, listener)?;
        let table = reader(stream)?;
        let rows = self.rows.get();
        let imported = rows.handle().write_rows(
            py,
            options.durable,
            async |dataset: &mut Dataset, writing: &WriteOptions| {
                let options = ImportOptions { cancel: writing.cancel.clone(), ..options };
                Ok::<_, DatasetError>(from_arrow(dataset, table, &options).await)
            },
        )?;
        imported.map(row).map_err(|error| raise_exchange(py, &error))
    }

    /// Exports to a destination, whose kind is guessed if it is not named.
    #[expect(clippy::too_many_arguments, reason = "one for each of the Python function")]
    fn export_to(
        &self,
        py: Python<'_>,
        kind_name: Option<&str>,
        dest: PathBuf,
        columns: Option<Vec<String>>,
        errors: &str,
        separator: Option<char>,
        listener: Option<Py<PyAny>>,
        view: Option<&Bound<'_, View>>,
    ) -> PyResult<ReportRow> {
        let kind = kind(py, kind_name, || Ok(Kind::of_dest(&dest)))?;
        let options = ExportOptions {
            columns,
            on_error: on_error(py, errors)?,
            delimiter: delimiter(py, separator)?,
            progress: progress(listener),
            ..ExportOptions::default()
        };
        let (rows, columns) = match view {
            Some(view) => {
                let rows = view.get().rows();
                let columns = options.columns.clone().unwrap_or_else(|| rows.columns());
                (Some(Arc::clone(rows.rows())), Some(columns))
            }
            None => (None, options.columns.clone()),
        };
        let options = ExportOptions { rows, columns, ..options };
        let handle = match view {
            Some(view) => Arc::clone(view.get().handle()),
            None => self.rows.get().shared_handle(),
        };
        let exported = handle.read_rows(py, false, async |dataset: &Dataset| {
            Ok::<_, DatasetError>(export_as(kind, dataset, &dest, &options).await)
        })?;
        exported.map(row).map_err(|error| raise_exchange(py, &error))
    }
}
