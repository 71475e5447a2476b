//! Indexes that searches use: made, listed, dropped.

use std::sync::Arc;

use lacus::dataset::Dataset;
use lacus::search::{IndexInfo, IndexSpec, Measure};
use lacus::table::WriteOptions;
use pyo3::prelude::*;

use crate::errors::invalid;
use crate::rows::Rows;

/// An index, as `lacus/search.py` takes it: column, kind, metric, lists, rows, covered, bits, recall, (neighbours, probes, recall),
/// stored bytes, damage.
type IndexArguments =
    (String, String, String, u64, u64, u64, Option<u8>, f64, Vec<(usize, usize, f64)>, u64, Option<String>);

fn arguments(info: IndexInfo) -> IndexArguments {
    let probes = info.probes.iter().map(|found| (found.neighbours, found.probes, found.recall)).collect();
    (
        info.column,
        info.kind,
        info.metric,
        info.lists,
        info.rows,
        info.covered,
        info.bits,
        info.recall,
        probes,
        info.stored_bytes,
        info.damage,
    )
}

/// Makes an index of vectors.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "named ones in Python")]
pub(crate) fn create_vector_index(
    py: Python<'_>,
    rows: &Rows,
    name: &str,
    metric: &str,
    lists: Option<usize>,
    recall: f64,
    bits: Option<u8>,
    seed: u64,
    durable: bool,
) -> PyResult<IndexArguments> {
    let measure = match Measure::named(metric) {
        Some(measure) => measure,
        None => {
            return Err(invalid(
                py,
                format!("create_index: no metric {metric:?}; there are cosine, dot, l2"),
            ));
        }
    };
    let spec = IndexSpec { measure, lists, recall, bits, seed };
    let made =
        rows.handle().write_rows(py, durable, async |dataset: &mut Dataset, options: &WriteOptions| {
            lacus::search::create_index(dataset, name, &spec, options).await
        })?;
    Ok(arguments(made))
}

/// Drops the index of a column of vectors; false if there is none.
#[pyfunction]
pub(crate) fn drop_vector_index(py: Python<'_>, rows: &Rows, name: &str, durable: bool) -> PyResult<bool> {
    rows.handle().write_rows(py, durable, async |dataset: &mut Dataset, options: &WriteOptions| {
        lacus::search::drop_index(dataset, name, options).await
    })
}

/// The indexes of vectors.
#[pyfunction]
pub(crate) fn vector_indexes(py: Python<'_>, rows: &Rows) -> PyResult<Vec<IndexArguments>> {
    let found = rows.handle().read_rows(py, false, async |dataset: &Dataset| {
        lacus::search::indexes(&Arc::new(dataset.frozen())).await
    })?;
    Ok(found.into_iter().map(arguments).collect())
}
