//! Loaders: batches of views for training, made ahead of time.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lacus::loader::order::{Draws, Ranks, Tail};
use lacus::loader::{
    Batches, Collate, ColumnBatch, ColumnPlan, LoadedBatch, Loader as Loading, LoaderSpec, LoaderState,
    Missing, OnError, SampleTransform as Transforming, Settings, ShuffleWish,
};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use crate::array::into_array;
use crate::errors::{invalid, raise_error};
use crate::handle::{Handle, done};
use crate::runtime::{Interrupt, is_sound, run_aside, run_here};
use crate::samples::python;
use crate::view::View;

/// A transform of samples that runs without Python.
#[pyclass(frozen, module = "lacus._native")]
pub(crate) struct SampleTransform {
    inner: Arc<dyn Transforming>,
}

impl SampleTransform {
    #[expect(dead_code, reason = "transforms that are compiled make one")]
    pub(crate) fn new(inner: Arc<dyn Transforming>) -> SampleTransform {
        SampleTransform { inner }
    }
}

/// A column as `lacus/loader.py` hands it over: a dict with all of these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ColumnArguments {
    name: String,
    collate: String,
    /// A number or a text that stands for missing samples.
    missing_number: Option<f64>,
    missing_text: Option<String>,
    pad_value: f64,
    transform: Option<Py<SampleTransform>>,
}

/// Everything else, in the same way.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct LoaderArguments {
    required: Vec<String>,
    /// `none`, `blocks` or `full`.
    shuffle: String,
    block_bytes: u64,
    /// Samples of an epoch, where it is not every row once.
    samples: Option<u64>,
    replace: bool,
    shares: Option<Vec<f64>>,
    /// A column by whose lengths samples are sorted.
    bucket_by: Option<String>,
    batch_size: u64,
    rank: u64,
    world: u64,
    tail: String,
    prefetch: u64,
    on_error: String,
    timeout: f64,
}

fn column(py: Python<'_>, given: ColumnArguments) -> PyResult<ColumnPlan> {
    let ColumnArguments { name, collate, missing_number, missing_text, pad_value, transform } = given;
    let collate = match collate.as_str() {
        "auto" => Collate::Auto,
        "stack" => Collate::Stack,
        "pad" => Collate::Pad,
        "list" => Collate::List,
        "nested" => Collate::Nested,
        other => return Err(invalid(py, format!("collate: {other:?} is unknown"))),
    };
    let missing = match (missing_number, missing_text) {
        (Some(number), _) => Missing::Number(number),
        (_, Some(text)) => Missing::Text(text),
        _ => Missing::Keep,
    };
    let transform = transform.map(|transform| Arc::clone(&transform.get().inner));
    Ok(ColumnPlan { name, collate, missing, pad_value, transform })
}

/// Loads batches of views.
#[pyclass(frozen, module = "lacus._native")]
pub(crate) struct Loader {
    loader: Loading,
    /// On the states of the views, which stay.
    handles: Vec<Arc<Handle>>,
}

#[pymethods]
impl Loader {
    #[staticmethod]
    fn make(
        py: Python<'_>,
        views: Vec<PyRef<'_, View>>,
        columns: Vec<ColumnArguments>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        rest: LoaderArguments,
    ) -> PyResult<Loader> {
        let handles = views.iter().map(|view| Arc::clone(view.handle())).collect();
        let views: Vec<lacus::View> = views.iter().map(|view| view.rows().clone()).collect();
        let rows: u64 = views.iter().map(lacus::View::len).sum();
        let count = rest.samples.unwrap_or(rows);
        let draws = match (weights, rest.shares) {
            (Some(weights), _) => {
                Draws::Weighted { weights: weights.as_slice()?.into(), count, replace: rest.replace }
            }
            (None, Some(shares)) => Draws::Mixed { shares, count },
            (None, None) => Draws::All,
        };
        let spec = LoaderSpec {
            views,
            columns: columns.into_iter().map(|given| column(py, given)).collect::<PyResult<_>>()?,
            required: rest.required,
            shuffle: match rest.shuffle.as_str() {
                "blocks" => ShuffleWish::Blocks { bytes: rest.block_bytes },
                "full" => ShuffleWish::Full,
                _ => ShuffleWish::None,
            },
            draws,
            bucket_by: rest.bucket_by,
            settings: Settings {
                batch_size: rest.batch_size,
                ranks: Ranks { rank: rest.rank, world: rest.world },
                tail: match rest.tail.as_str() {
                    "drop" => Tail::Drop,
                    "pad" => Tail::Pad,
                    _ => Tail::Split,
                },
                prefetch_bytes: rest.prefetch,
                on_error: match rest.on_error.as_str() {
                    "skip" => OnError::Skip,
                    "zeros" => OnError::Zeros,
                    _ => OnError::Raise,
                },
                timeout: Duration::from_secs_f64(rest.timeout),
            },
        };
        let made = run_aside(py, &Interrupt::Abandon, async || {
            Ok(Loading::new(spec).await.map_err(lacus::Error::from))
        })?;
        Ok(Loader { loader: done(py, made)?, handles })
    }

    /// How many samples an epoch has, over all ranks.
    fn samples(&self) -> u64 {
        self.loader.samples()
    }

    /// How many batches there are from a place of an epoch on.
    fn batch_count(&self, py: Python<'_>, consumed: u64) -> PyResult<u64> {
        self.loader.batch_count(consumed).map_err(|error| raise_error(py, &error.into()))
    }

    /// How well epochs are shuffled, compared with a full shuffle.
    fn quality(&self, py: Python<'_>, seed: u64) -> PyResult<f64> {
        py.detach(|| self.loader.quality(seed)).map_err(|error| raise_error(py, &error.into()))
    }

    /// The views, without the rows that lack a required sample.
    fn views(&self) -> Vec<View> {
        let pairs = self.handles.iter().zip(self.loader.views());
        pairs.map(|(handle, view)| View::new(Arc::clone(handle), view.clone())).collect()
    }

    /// Sources and places of some positions of an epoch.
    fn order<'py>(
        &self,
        py: Python<'py>,
        seed: u64,
        epoch: u64,
        start: u64,
        end: u64,
    ) -> PyResult<(Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<u64>>)> {
        let end = end.min(self.loader.samples());
        let placed = py.detach(|| {
            self.loader.order().epoch(seed, epoch).map(|mut order| order.range(start.min(end)..end))
        });
        let placed = placed.map_err(|error| raise_error(py, &error.into()))?;
        Ok((
            PyArray1::from_iter(py, placed.iter().map(|placed| placed.source)),
            PyArray1::from_iter(py, placed.iter().map(|placed| placed.place)),
        ))
    }

    /// Counters and shares of time, by name.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.loader.stats();
        let found = PyDict::new(py);
        found.set_item("seconds", stats.secs)?;
        found.set_item("samples", stats.samples)?;
        found.set_item("batches", stats.batches)?;
        found.set_item("samples_per_second", stats.samples_per_sec)?;
        found.set_item("stored_bytes", stats.stored_bytes)?;
        found.set_item("stored_bytes_per_second", stats.stored_bytes_per_sec)?;
        found.set_item("decoded_bytes", stats.decoded_bytes)?;
        found.set_item("decoded_bytes_per_second", stats.decoded_bytes_per_sec)?;
        found.set_item("fetch", stats.fetch)?;
        found.set_item("decode", stats.decode)?;
        found.set_item("wait", stats.wait)?;
        found.set_item("failures", stats.failures)?;
        found.set_item("repeated", stats.repeated)?;
        found.set_item("retries", stats.retries)?;
        found.set_item("failed", stats.failed)?;
        found.set_item("verdict", stats.verdict)?;
        Ok(found)
    }

    /// The same loader, whose counters begin again.
    fn with_new_stats(&self) -> Loader {
        Loader { loader: self.loader.with_new_stats(), handles: self.handles.clone() }
    }

    /// A place of an epoch as JSON text.
    fn state(&self, seed: u64, epoch: u64, consumed: u64) -> String {
        serde_json::to_string(&self.loader.state(seed, epoch, consumed)).unwrap_or_default()
    }

    /// A loader that goes on from a state, and where: seed, epoch, samples consumed.
    fn resumed(&self, py: Python<'_>, state: &str) -> PyResult<(Loader, u64, u64, u64)> {
        let state: LoaderState = serde_json::from_str(state)
            .map_err(|error| invalid(py, format!("this is no state of a loader: {error}")))?;
        let loader = self.loader.resumed(&state).map_err(|error| raise_error(py, &error.into()))?;
        Ok((Loader { loader, handles: self.handles.clone() }, state.seed, state.epoch, state.consumed))
    }

    /// Every `stride`-th of the batches of an epoch, from a place on.
    fn batches(
        &self,
        py: Python<'_>,
        seed: u64,
        epoch: u64,
        consumed: u64,
        stride: u64,
    ) -> PyResult<LoaderBatches> {
        let batches = self.loader.strided_batches(seed, epoch, consumed, stride);
        let batches = batches.map_err(|error| raise_error(py, &error.into()))?;
        Ok(LoaderBatches { batches: Mutex::new(Some(batches)) })
    }
}

/// Batches of an epoch, one after the other.
#[pyclass(frozen, module = "lacus._native")]
pub(crate) struct LoaderBatches {
    /// `None` once it is closed.
    batches: Mutex<Option<Batches>>,
}

impl Drop for LoaderBatches {
    fn drop(&mut self) {
        // In a child that lost the threads which worked on it, its locks may be held for ever.
        if !is_sound() {
            std::mem::forget(self.locked().take());
        }
    }
}

impl LoaderBatches {
    fn locked(&self) -> MutexGuard<'_, Option<Batches>> {
        self.batches.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn alone(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Option<Batches>>> {
        // Waiting would hold the GIL that the other thread needs.
        self.batches
            .try_lock()
            .map_err(|_| invalid(py, "the batches of a loader are read by one thread at a time"))
    }
}

#[pymethods]
impl LoaderBatches {
    /// The next batch: columns by name, the sources, places, ids and positions of its rows, samples consumed, samples that failed.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let mut batches = self.alone(py)?;
        let Some(batches) = batches.as_mut() else { return Ok(None) };
        if let Some(ready) = batches.ready() {
            return handed_over(py, ready.map_err(|error| raise_error(py, &error.into()))?).map(Some);
        }
        let next = run_here(py, async || Ok(batches.next().await.map_err(lacus::Error::from)))?;
        done(py, next)?.map(|batch| handed_over(py, batch)).transpose()
    }

    /// Samples of the epoch that all ranks have consumed.
    fn consumed(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.alone(py)?.as_ref().map_or(0, Batches::consumed))
    }

    /// Batches that are left.
    fn left(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.alone(py)?.as_ref().map_or(0, Batches::left))
    }

    /// Drops what was made ahead.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        *self.alone(py)? = None;
        Ok(())
    }
}

fn handed_over(py: Python<'_>, batch: LoadedBatch) -> PyResult<Bound<'_, PyTuple>> {
    let columns = PyDict::new(py);
    for (name, column) in batch.columns {
        columns.set_item(name, collated(py, column)?)?;
    }
    let rows = &batch.rows;
    let failures: Vec<(String, u64, u64, String)> =
        batch.failures.into_iter().map(|f| (f.column, f.row.place, f.row.id, f.why)).collect();
    let parts = (
        columns,
        PyArray1::from_iter(py, rows.iter().map(|row| row.source)),
        PyArray1::from_iter(py, rows.iter().map(|row| row.place)),
        PyArray1::from_iter(py, rows.iter().map(|row| row.id)),
        PyArray1::from_iter(py, rows.iter().map(|row| row.position)),
        batch.consumed,
        failures,
    );
    parts.into_pyobject(py)
}

/// A column of a batch: an array, a list, or two arrays and what they are.
fn collated(py: Python<'_>, column: ColumnBatch) -> PyResult<Bound<'_, PyAny>> {
    let pair = |kind: &str, first: Bound<'_, PyAny>, second: Bound<'_, PyAny>| {
        Ok((PyString::intern(py, kind), first.unbind(), second.unbind()).into_pyobject(py)?.into_any())
    };
    match column {
        ColumnBatch::Stacked(tensor) => into_array(py, tensor),
        ColumnBatch::Padded { values, mask } => {
            pair("padded", into_array(py, values)?, into_array(py, mask)?)
        }
        ColumnBatch::Nested { values, offsets } => {
            pair("nested", into_array(py, values)?, PyArray1::from_vec(py, offsets).into_any())
        }
        ColumnBatch::Values(values) => {
            let items = values.into_iter().map(|value| match value {
                Some(value) => python(py, value),
                None => Ok(py.None().into_bound(py)),
            });
            Ok(PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
    }
}
