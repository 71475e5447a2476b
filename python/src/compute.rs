//! Running tensor programs, checking them, and saying how they would be run.
//!
//! ```text
//! run_program ─check_all→ Request (text, program, sources, targets, budget) ─run→ Finished (values, report)
//! ```
//!
//! What computes is in [`run`] alone; everything else here takes Python's values apart and puts them together.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lacus::algebra::expr::CheckedProgram;
use lacus::algebra::{AlgebraError, Functions, Inputs, Problem, check, parse};
use lacus::execute::{ExecuteError, Input, Made, Report, RunOptions, Target, is_quick, run_into};
use lacus::layout::Wish;
use lacus::table::{Table, TableError, WriteOptions};
use lacus::tensor::{DType, Shape, SparseTensor, Tensor};
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::array::{into_array, tensor_ref};
use crate::convert::{WishArguments, dtype, json, shape, tuple};
use crate::dataset::Dataset;
use crate::errors::{invalid, of_kind, raise, raise_algebra};
use crate::handle::Handle;
use crate::runtime::{Interrupt, run_aside, run_now, telling};
use crate::sparse::Sparse;

/// What is to be run.
struct Request<'a> {
    program: &'a CheckedProgram,
    sources: BTreeMap<String, Input<'a>>,
    /// What is stored, by the name it is saved as. The rest goes back to the caller.
    targets: BTreeMap<String, Target>,
    memory_bytes: Option<u64>,
    workers: Option<usize>,
    spill: Option<PathBuf>,
    forbid_nan: bool,
    zero_by_zero: bool,
    checkpoint_every: Option<u64>,
    progress: Option<ProgressFn>,
    /// Set when the caller has had enough.
    cancel: Arc<AtomicBool>,
}

type ProgressFn = Box<dyn Fn(&Report) + Send + Sync>;

/// A value that goes back to the caller.
enum Value {
    Dense(Tensor),
    Sparse(SparseTensor),
}

/// What was run.
#[derive(Default)]
struct Finished {
    made: BTreeMap<String, Value>,
    stored: Vec<String>,
    /// The version that the stored tensors are in.
    version: Option<u64>,
    report: Report,
}

/// The exception for a run that failed.
fn raised(py: Python<'_>, failure: &ExecuteError) -> PyErr {
    match failure {
        ExecuteError::Algebra(error) => raise_algebra(py, error),
        ExecuteError::Cancelled => raise(py, &TableError::Cancelled),
        failure => of_kind(py, failure.kind(), failure.to_string()),
    }
}

impl Request<'_> {
    fn options(&mut self) -> RunOptions {
        let watch = self.progress.take().map(|tell| {
            let watch: Arc<lacus::execute::Watch> = Arc::new(move |report: &Report| tell(report));
            watch
        });
        RunOptions {
            memory_bytes: self.memory_bytes,
            workers: self.workers,
            spill: self.spill.take(),
            forbid_nan: self.forbid_nan,
            zero_by_zero: self.zero_by_zero,
            checkpoint_every: self.checkpoint_every,
            cancel: Some(Arc::clone(&self.cancel)),
            watch,
            ..RunOptions::default()
        }
    }

    /// Whether it is done before anybody could interrupt it.
    fn is_quick(&self) -> bool {
        let is_plain = self.targets.is_empty() && self.checkpoint_every.is_none() && self.progress.is_none();
        is_plain && is_quick(self.program, &self.sources)
    }
}

/// Runs a program and stores what is to be stored, as one version.
async fn run(
    mut request: Request<'_>,
    into: Option<(&mut Table, &WriteOptions)>,
) -> Result<Finished, ExecuteError> {
    let options = request.options();
    let Request { program, sources, targets, .. } = request;
    let (finished, version) = run_into(program, &sources, into, targets, &options).await?;
    handed_back(finished, version)
}

/// Runs a quick program on this thread.
fn run_here(mut request: Request<'_>) -> Result<Finished, ExecuteError> {
    let options = request.options();
    handed_back(lacus::execute::run(request.program, &request.sources, None, &options)?, None)
}

fn handed_back(finished: lacus::execute::Finished, version: Option<u64>) -> Result<Finished, ExecuteError> {
    let mut made = BTreeMap::new();
    for (name, value) in finished.made {
        let value = match value {
            Made::Dense(window) => Value::Dense(window.into_tensor().map_err(ExecuteError::from)?),
            Made::Sparse(sparse) => Value::Sparse(sparse),
        };
        made.insert(name, value);
    }
    Ok(Finished { made, stored: finished.stored, version, report: finished.report })
}

/// Types and shapes by name.
type Shapes = HashMap<String, (String, Vec<u64>)>;

/// Where a tensor goes: its name in the dataset, what is wanted of its layout, metadata as JSON text.
type TargetArguments = (String, WishArguments, Option<String>);

/// How a program is run, as `lacus/compute.py` hands it over: a dict with all of these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RunArguments {
    memory: Option<u64>,
    workers: Option<usize>,
    spill: Option<PathBuf>,
    forbid_nan: bool,
    zero_by_zero: bool,
    checkpoint_every: Option<u64>,
    durable: bool,
    /// Called with tasks done, tasks, operations, bytes read, memory and bytes spilled.
    progress: Option<Py<PyAny>>,
}

/// A source that Python holds on to while it is read.
enum Held<'py> {
    Array(Bound<'py, PyUntypedArray>, DType),
    Sparse(Arc<SparseTensor>),
    Stored(Arc<Table>, String),
}

impl Held<'_> {
    fn source(&self) -> PyResult<Input<'_>> {
        Ok(match self {
            Held::Array(array, dtype) => Input::from(tensor_ref(array, *dtype)?),
            Held::Sparse(tensor) => Input::Sparse(Arc::clone(tensor)),
            Held::Stored(table, name) => Input::Stored(Arc::clone(table), name.clone()),
        })
    }

    fn kind(&self) -> PyResult<(DType, Shape)> {
        Ok(match self {
            Held::Array(array, dtype) => (*dtype, tensor_ref(array, *dtype)?.shape().clone()),
            Held::Sparse(tensor) => (tensor.dtype(), tensor.shape().clone()),
            Held::Stored(table, name) => {
                let header =
                    table.tensor(name).map_err(|error| Python::attach(|py| raise(py, &error)))?.header;
                (header.dtype, header.shape)
            }
        })
    }
}

/// Tables that stay at the version their handle was at, one for each handle.
#[derive(Default)]
struct Frozen {
    tables: Vec<(Arc<Handle>, Arc<Table>)>,
}

impl Frozen {
    fn table(&mut self, py: Python<'_>, handle: &Arc<Handle>) -> PyResult<Arc<Table>> {
        if let Some((_, table)) = self.tables.iter().find(|(known, _)| Arc::ptr_eq(known, handle)) {
            return Ok(Arc::clone(table));
        }
        let table = Arc::new(handle.peek(py, Table::frozen)?);
        self.tables.push((Arc::clone(handle), Arc::clone(&table)));
        Ok(table)
    }
}

/// Runs a program. What it loads is looked for in `sources` (a `Sparse`, an array and the dtype of its elements, or a dataset
/// and a name in it), then in `data`. What it saves is stored in `data`, if there is one, unless `targets` says None; all of it
/// as one version. Gives back the rest by name, the names that were stored, and what it took.
#[pyfunction]
pub(crate) fn run_program<'py>(
    py: Python<'py>,
    text: &str,
    sources: HashMap<String, Bound<'py, PyAny>>,
    data: Option<Bound<'py, Dataset>>,
    targets: HashMap<String, Option<TargetArguments>>,
    options: RunArguments,
) -> PyResult<(Bound<'py, PyDict>, Vec<String>, Bound<'py, PyDict>)> {
    let mut frozen = Frozen::default();
    let mut held = BTreeMap::new();
    for (name, source) in sources {
        held.insert(name, hold(&source, &mut frozen)?);
    }
    let data = data.map(|data| data.get().handle());
    let parsed = py.detach(|| parse(text)).map_err(|error| raise_algebra(py, &error))?;
    let loads = parsed.loads();
    if let Some(name) = held.keys().find(|name| !loads.contains(*name)) {
        let loads: Vec<String> = loads.iter().map(|name| format!("{name:?}")).collect();
        let loads = if loads.is_empty() { "nothing".to_owned() } else { loads.join(", ") };
        return Err(invalid(py, format!("input {name:?} is not used: the program loads {loads}")));
    }
    if let Some(handle) = &data {
        let table = frozen.table(py, handle)?;
        for name in loads {
            if !held.contains_key(&name) && table.contains(&name) && !table.is_column(&name) {
                held.insert(name.clone(), Held::Stored(Arc::clone(&table), name));
            }
        }
    }
    let mut inputs = Inputs::new();
    for (name, source) in &held {
        let (dtype, shape) = source.kind()?;
        inputs = inputs.with(name, dtype, shape);
    }
    let known = |py: Python<'py>| -> PyResult<Vec<String>> {
        let mut names: Vec<String> = held.keys().cloned().collect();
        if let Some(handle) = &data {
            names.extend(handle.peek(py, |table| {
                let mut names = table.names();
                names.retain(|name| !table.is_column(name));
                names
            })?);
        }
        names.sort();
        names.dedup();
        Ok(names)
    };
    let program = match py.detach(|| check(&parsed, &inputs, &Functions::new())) {
        Ok(program) => program,
        Err(error) => return Err(explained(py, &error, &known(py)?)),
    };
    let saved = saves(&program);
    if saved.is_empty() {
        return Err(invalid(
            py,
            "the program saves nothing: say what is wanted of it with save(x, \"name\")",
        ));
    }
    let mut wanted = BTreeMap::new();
    let mut targets = targets;
    for name in saved.keys() {
        let target = match targets.remove(name) {
            Some(None) => continue,
            Some(Some((stored, wish, metadata))) => {
                let metadata = metadata.map(|text| json(py, &text)).transpose()?;
                Target { name: stored, wish: wish.wish(py)?, metadata }
            }
            None if data.is_none() => continue,
            None => Target { name: name.clone(), wish: Wish::default(), metadata: None },
        };
        wanted.insert(name.clone(), target);
    }
    let cancel = Arc::new(AtomicBool::new(false));
    let mut request = Request {
        program: &program,
        sources: BTreeMap::new(),
        targets: wanted,
        memory_bytes: options.memory,
        workers: options.workers,
        spill: options.spill,
        forbid_nan: options.forbid_nan,
        zero_by_zero: options.zero_by_zero,
        checkpoint_every: options.checkpoint_every,
        progress: options.progress.map(progress),
        cancel: Arc::clone(&cancel),
    };
    for (name, source) in &held {
        request.sources.insert(name.clone(), source.source()?);
    }
    let done = match data.filter(|_| !request.targets.is_empty()) {
        Some(handle) => {
            handle.write(py, options.durable, async |table: &mut Table, options: &WriteOptions| {
                let cancel = options.cancel.clone().unwrap_or_default();
                Ok(run(Request { cancel, ..request }, Some((table, options))).await)
            })?
        }
        None if request.is_quick() => Ok(run_now(py, || run_here(request))?),
        None => run_aside(py, &Interrupt::Cancel(cancel), async || Ok(run(request, None).await))?,
    };
    let finished = match done {
        Ok(Ok(finished)) => finished,
        Ok(Err(failure)) => return Err(raised(py, &failure)),
        Err(error) => return Err(raise(py, &error)),
    };
    let made = PyDict::new(py);
    for (name, value) in finished.made {
        let value = match value {
            Value::Dense(tensor) => into_array(py, tensor)?,
            Value::Sparse(tensor) => Bound::new(py, Sparse::new(tensor))?.into_any(),
        };
        made.set_item(name, value)?;
    }
    Ok((made, finished.stored, report(py, &finished.report, finished.version)?))
}

fn hold<'py>(source: &Bound<'py, PyAny>, frozen: &mut Frozen) -> PyResult<Held<'py>> {
    let py = source.py();
    if let Ok(sparse) = source.cast::<Sparse>() {
        return Ok(Held::Sparse(sparse.get().tensor()));
    }
    let (value, name): (Bound<'py, PyAny>, String) = source.extract()?;
    if let Ok(dataset) = value.cast::<Dataset>() {
        return Ok(Held::Stored(frozen.table(py, &dataset.get().handle())?, name));
    }
    Ok(Held::Array(value.cast::<PyUntypedArray>()?.clone(), dtype(py, &name)?))
}

fn checked(py: Python<'_>, text: &str, inputs: &Inputs) -> Result<CheckedProgram, AlgebraError> {
    py.detach(|| check(&parse(text)?, inputs, &Functions::new()))
}

/// What a program saves, with types and shapes.
fn saves(program: &CheckedProgram) -> BTreeMap<String, (DType, Vec<u64>)> {
    let kind = |(name, slot)| {
        let slot = program.slot(slot);
        (name, (slot.dtype, slot.dims.clone()))
    };
    program.saves().into_iter().map(kind).collect()
}

/// Names that an error lists at most.
const LISTED: usize = 10;

/// An error of a program; one of a tensor that is not there says which are.
fn explained(py: Python<'_>, error: &AlgebraError, known: &[String]) -> PyErr {
    let AlgebraError::Program { problem, .. } = error else { return raise_algebra(py, error) };
    let Problem::UnknownTensor { .. } = **problem else { return raise_algebra(py, error) };
    let shown: Vec<String> = known.iter().take(LISTED).map(|name| format!("{name:?}")).collect();
    let more = match known.len() {
        0 => "there are none".to_owned(),
        count if count > LISTED => format!("there are {} and {} more", shown.join(", "), count - LISTED),
        _ => format!("there are {}", shown.join(", ")),
    };
    crate::errors::not_found(py, format!("{error}\n{more}"))
}

/// Tells a Python function. One that fails must not end the run.
fn progress(listener: Py<PyAny>) -> ProgressFn {
    Box::new(move |now: &Report| {
        Python::attach(|py| {
            let told =
                (now.done, now.planned, now.operations, now.read_bytes, now.memory_bytes, now.spilled_bytes);
            if let Err(error) = telling(|| listener.call1(py, told)) {
                error.write_unraisable(py, None);
            }
        });
    })
}

fn report<'py>(py: Python<'py>, report: &Report, version: Option<u64>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("seconds", report.secs)?;
    dict.set_item("tasks", report.done)?;
    dict.set_item("operations", report.operations)?;
    dict.set_item("bytes_read", report.read_bytes)?;
    dict.set_item("peak_memory_bytes", report.peak_bytes)?;
    dict.set_item("spilled_bytes", report.spilled_bytes)?;
    dict.set_item("rounds", report.rounds)?;
    dict.set_item("resumed_rounds", report.resumed_rounds)?;
    dict.set_item("workers", report.workers)?;
    dict.set_item("divided_by_zero", report.divided_by_zero)?;
    dict.set_item("version", version)?;
    Ok(dict)
}

/// Checks a program against the types and shapes of what it may load: those of what it saves, by name.
#[pyfunction]
pub(crate) fn check_program<'py>(
    py: Python<'py>,
    text: &str,
    shapes: Shapes,
) -> PyResult<BTreeMap<String, (&'static str, Bound<'py, PyTuple>)>> {
    let mut inputs = Inputs::new();
    let mut known: Vec<String> = shapes.keys().cloned().collect();
    known.sort();
    for (name, (dtype_name, dims)) in shapes {
        inputs = inputs.with(&name, dtype(py, &dtype_name)?, shape(py, dims)?);
    }
    let program = checked(py, text, &inputs).map_err(|error| explained(py, &error, &known))?;
    let kind =
        |(name, (dtype, dims)): (String, (DType, Vec<u64>))| Ok((name, (dtype.name(), tuple(py, &dims)?)));
    saves(&program).into_iter().map(kind).collect()
}

/// How a program would be run here on these sources (as for `run_program`), for people.
#[pyfunction]
pub(crate) fn explain_run<'py>(
    py: Python<'py>,
    text: &str,
    sources: HashMap<String, Bound<'py, PyAny>>,
    memory: Option<u64>,
    workers: Option<usize>,
) -> PyResult<String> {
    let mut frozen = Frozen::default();
    let mut held = BTreeMap::new();
    let mut types = Inputs::new();
    for (name, source) in sources {
        let source = hold(&source, &mut frozen)?;
        let (dtype, shape) = source.kind()?;
        types = types.with(&name, dtype, shape);
        held.insert(name, source);
    }
    let program = checked(py, text, &types).map_err(|error| raise_algebra(py, &error))?;
    let mut inputs = BTreeMap::new();
    for (name, source) in &held {
        inputs.insert(name.clone(), source.source()?);
    }
    let options = RunOptions { memory_bytes: memory, workers, ..RunOptions::default() };
    let explained = py.detach(|| lacus::execute::explain_run(&program, &inputs, &options));
    explained.map_err(|failure| raised(py, &failure))
}
