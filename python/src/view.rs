//! Views: some rows and columns of one state.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use lacus::dataset::{Compare, Constant, Filter, ScanOptions};
use lacus::history::SavedView;
use lacus::{AnswerScan, Draw, Repository, StorageOptions, View as Rows, ViewData, WriteOptions};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyString};

use crate::errors::{invalid, raise_dataset};
use crate::handle::{Handle, done};
use crate::rows::{SHORT_ROWS, parts, samples};
use crate::runtime::{Interrupt, run_aside, run_here};
use crate::stream::{Batches, batch_capsules, schema_capsule};
use crate::table::Table;
use crate::udf::{FunctionArguments, Functions};

/// The state of a view: the dataset's id, the directory of its table, the version, the commit.
type StateRow = (String, String, u64, Option<String>);

/// A saved view: name, commit, author, time in milliseconds since 1970, message, query, how many rows.
pub(crate) type SavedRow = (String, String, String, i64, String, Option<String>, u64);

/// Some rows and columns of one state of a dataset.
#[pyclass(frozen, module = "lacus._native")]
pub(crate) struct View {
    /// On the state, which stays.
    handle: Arc<Handle>,
    rows: Rows,
}

impl View {
    pub(crate) fn new(handle: Arc<Handle>, rows: Rows) -> View {
        View { handle, rows }
    }

    /// Of the same state.
    fn with(&self, rows: Rows) -> View {
        View { handle: Arc::clone(&self.handle), rows }
    }

    fn made(&self, py: Python<'_>, rows: Result<Rows, lacus::dataset::DatasetError>) -> PyResult<View> {
        rows.map(|rows| self.with(rows)).map_err(|error| raise_dataset(py, &error))
    }
}

/// The view that JSON text describes.
pub(crate) fn data(py: Python<'_>, text: &str) -> PyResult<ViewData> {
    serde_json::from_str(text)
        .map_err(|error| invalid(py, format!("this is no view, or one of a newer version of lacus: {error}")))
}

pub(crate) fn saved_row(saved: SavedView) -> SavedRow {
    let SavedView { name, commit, author, time_millis, message, query, rows, .. } = saved;
    (name, commit.to_string(), author, time_millis, message, query, rows)
}

#[pymethods]
impl View {
    fn row_count(&self) -> u64 {
        self.rows.len()
    }

    fn columns(&self) -> Vec<String> {
        self.rows.columns()
    }

    fn state(&self) -> StateRow {
        let state = self.rows.state();
        (state.dataset, state.directory, state.version, state.commit)
    }

    /// Whether both are the same rows, in the same order, and columns of the same state.
    fn is_same_as(&self, other: &View) -> bool {
        self.rows.is_same_as(&other.rows)
    }

    /// The view as JSON text.
    fn data(&self) -> String {
        serde_json::to_string(&self.rows.data()).unwrap_or_default()
    }

    fn ids<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        PyArray1::from_iter(py, self.rows.rows().iter())
    }

    fn every(&self, py: Python<'_>, start: u64, step: i64, count: u64) -> PyResult<View> {
        self.made(py, self.rows.every(start, step, count))
    }

    fn take(&self, py: Python<'_>, places: PyReadonlyArray1<'_, u64>) -> PyResult<View> {
        self.made(py, self.rows.take(places.as_slice()?))
    }

    fn masked(&self, py: Python<'_>, mask: PyReadonlyArray1<'_, bool>) -> PyResult<View> {
        self.made(py, self.rows.masked(mask.as_slice()?))
    }

    fn select(&self, py: Python<'_>, columns: Vec<String>) -> PyResult<View> {
        self.made(py, self.rows.select(&columns))
    }

    fn concat(&self, py: Python<'_>, other: &View) -> PyResult<View> {
        self.made(py, self.rows.concat(&other.rows))
    }

    fn shuffled(&self, py: Python<'_>, seed: u64) -> View {
        self.with(py.detach(|| self.rows.shuffled(seed)))
    }

    fn split(&self, py: Python<'_>, shares: Vec<f64>, seed: Option<u64>) -> PyResult<Vec<View>> {
        let parts = py.detach(|| self.rows.split(&shares, seed));
        let parts = parts.map_err(|error| raise_dataset(py, &error))?;
        Ok(parts.into_iter().map(|rows| self.with(rows)).collect())
    }

    fn sampled(
        &self,
        py: Python<'_>,
        count: u64,
        seed: u64,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        replace: bool,
    ) -> PyResult<View> {
        let weights = weights.as_ref().map(|weights| weights.as_slice()).transpose()?;
        self.made(py, self.rows.sampled(Draw { count, seed, weights, replace }))
    }

    fn sorted_by(&self, py: Python<'_>, name: &str, descending: bool) -> PyResult<View> {
        let sorted = run_aside(py, &Interrupt::Abandon, async || {
            Ok(self.rows.sorted_by(name, descending).await.map_err(lacus::Error::from))
        })?;
        Ok(self.with(done(py, sorted)?))
    }

    /// Where the rows at some places are in the dataset.
    fn positions<'py>(
        &self,
        py: Python<'py>,
        places: PyReadonlyArray1<'_, u64>,
    ) -> PyResult<Bound<'py, PyArray1<u64>>> {
        let places = places.as_slice()?;
        let found = run_here(py, async || Ok(self.rows.positions(places).await.map_err(lacus::Error::from)))?;
        Ok(PyArray1::from_vec(py, done(py, found)?))
    }

    /// Samples of a column at some places: one array when all have the shape it declares, else a list.
    fn read_samples<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        places: PyReadonlyArray1<'_, u64>,
        key: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (places, indices) = (places.as_slice()?, parts(key)?);
        let read = async || Ok(self.rows.read(name, places, &indices).await.map_err(lacus::Error::from));
        let batch = match places.len() < SHORT_ROWS {
            true => run_here(py, read)?,
            false => run_aside(py, &Interrupt::Abandon, read)?,
        };
        let batch = done(py, batch)?;
        let column = self.rows.source().column(name).map_err(|error| raise_dataset(py, &error))?;
        samples(py, &column, batch)
    }

    /// The columns that are computed when they are read: an expression of SQL by name.
    fn computed(&self) -> BTreeMap<String, String> {
        self.rows.computed().clone()
    }

    /// Columns at some places, also those that are computed.
    fn compute(
        &self,
        py: Python<'_>,
        names: Vec<String>,
        places: PyReadonlyArray1<'_, u64>,
        functions: Vec<FunctionArguments>,
    ) -> PyResult<Table> {
        let (places, functions) = (places.as_slice()?, Functions::read(py, functions)?);
        let callees = functions.callees();
        let made = functions.run(py, async || {
            Ok(lacus::query::compute(&self.rows, &names, places, callees).await.map_err(lacus::Error::from))
        })?;
        let batch = done(py, made)?;
        Ok(Table::new(batch.schema(), vec![batch]))
    }

    /// Its rows by Arrow's C stream interface.
    fn stream<'py>(
        &self,
        py: Python<'py>,
        columns: Option<Vec<String>>,
        batch_bytes: Option<u64>,
        functions: Vec<FunctionArguments>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.batches(py, columns, Vec::new(), batch_bytes, functions)?.capsule(py)
    }

    /// Its rows as record batches, one after the other. Rows must pass one of the alternatives, each of which is comparisons
    /// that all must hold: column, operator, constant.
    fn scan(
        &self,
        py: Python<'_>,
        columns: Option<Vec<String>>,
        alternatives: Vec<Vec<Comparison<'_>>>,
        batch_bytes: Option<u64>,
        functions: Vec<FunctionArguments>,
    ) -> PyResult<ViewScan> {
        let batches = self.batches(py, columns, alternatives, batch_bytes, functions)?;
        Ok(ViewScan { batches: Mutex::new(batches) })
    }

    /// Saves it under a name.
    fn save(&self, py: Python<'_>, name: &str, message: &str, query: Option<String>) -> PyResult<SavedRow> {
        let saved = self.handle.look(py, async |repository: &Repository, _: &_| {
            repository.save_view(name, &self.rows, message, query).await
        })?;
        Ok(saved_row(saved))
    }

    /// Copies its rows and columns, those that are computed, too, to an empty place, as a dataset of their own with one commit.
    fn materialize(
        &self,
        py: Python<'_>,
        url: &str,
        options: StorageOptions,
        durable: bool,
        functions: Vec<FunctionArguments>,
    ) -> PyResult<()> {
        let options: BTreeMap<String, String> = options.into_iter().collect();
        let writing = WriteOptions { durable, ..WriteOptions::default() };
        let functions = Functions::read(py, functions)?;
        let (callees, repository) = (functions.callees(), self.handle.repository());
        let made = functions.run(py, async || {
            Ok(repository.materialize(&self.rows, url, &options, &writing, callees).await.map(|_| ()))
        })?;
        done(py, made)
    }
}

/// A column, an operator, a constant.
type Comparison<'py> = (String, String, Bound<'py, PyAny>);

/// A scan on its way.
#[pyclass(frozen, module = "lacus._native")]
pub(crate) struct ViewScan {
    batches: Mutex<Batches>,
}

#[pymethods]
impl ViewScan {
    /// The schema, by Arrow's C data interface.
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = self.locked(py)?.schema();
        schema_capsule(py, &schema)
    }

    /// The next batch, by Arrow's C data interface: its schema and its array; `None` at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)>> {
        let batch = self.locked(py)?.read(py)?;
        batch.map(|batch| batch_capsules(py, batch)).transpose()
    }
}

impl ViewScan {
    fn locked(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Batches>> {
        // Waiting would hold the GIL that the other thread needs.
        self.batches.try_lock().map_err(|_| invalid(py, "a scan is read by one thread at a time"))
    }
}

/// What is compared with a column's samples.
fn constant(value: &Bound<'_, PyAny>) -> PyResult<Constant> {
    if let Ok(text) = value.extract::<String>() {
        return Ok(Constant::Text(text));
    }
    if let Ok(number) = value.extract::<i128>() {
        return Ok(Constant::Int(number));
    }
    if let Ok(number) = value.extract::<f64>() {
        return Ok(Constant::Float(number));
    }
    let told = value.repr().map(|told| told.to_string()).unwrap_or_default();
    Err(invalid(value.py(), format!("filter: samples are compared with numbers and texts, not with {told}")))
}

fn comparison((column, operator, value): &Comparison<'_>) -> PyResult<Filter> {
    let py = value.py();
    let compare = |how| Ok(Filter::Compare(column.clone(), how, constant(value)?));
    let one_of = || -> PyResult<Filter> {
        if value.is_instance_of::<PyString>() {
            return Err(invalid(
                py,
                format!("filter: {operator:?} takes a list of constants, found one text"),
            ));
        }
        let constants = value.try_iter()?.map(|item| constant(&item?)).collect::<PyResult<_>>()?;
        Ok(Filter::In(column.clone(), constants))
    };
    match operator.as_str() {
        "==" | "=" if value.is_none() => Ok(Filter::Missing(column.clone())),
        "!=" if value.is_none() => Ok(Filter::Not(Box::new(Filter::Missing(column.clone())))),
        "==" | "=" => compare(Compare::Equal),
        "!=" => compare(Compare::Unequal),
        "<" => compare(Compare::Below),
        "<=" => compare(Compare::AtMost),
        ">" => compare(Compare::Above),
        ">=" => compare(Compare::AtLeast),
        "in" => one_of(),
        "not in" => Ok(Filter::Not(Box::new(one_of()?))),
        other => {
            let known = "==, !=, <, <=, >, >=, in, not in";
            Err(invalid(py, format!("filter: {other:?} is no operator; there are {known}")))
        }
    }
}

impl View {
    fn batches(
        &self,
        py: Python<'_>,
        columns: Option<Vec<String>>,
        alternatives: Vec<Vec<Comparison<'_>>>,
        batch_bytes: Option<u64>,
        functions: Vec<FunctionArguments>,
    ) -> PyResult<Batches> {
        let functions = Functions::read(py, functions)?;
        let mut options = ScanOptions::default();
        options.batch_bytes = batch_bytes.unwrap_or(options.batch_bytes);
        let mut any = Vec::with_capacity(alternatives.len());
        for all in &alternatives {
            any.push(Filter::All(all.iter().map(comparison).collect::<PyResult<_>>()?));
        }
        options.filter = (!any.is_empty()).then_some(Filter::Any(any));
        let callees = functions.callees();
        let scan = functions.run(py, async || {
            Ok(AnswerScan::of_view(&self.rows, columns.as_deref(), options, callees).await)
        })?;
        Ok(Batches::new(Arc::clone(&self.handle), done(py, scan)?, functions))
    }

    pub(crate) fn rows(&self) -> &Rows {
        &self.rows
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }
}
