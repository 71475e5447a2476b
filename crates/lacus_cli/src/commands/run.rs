//! `lacus run`: a tensor program on a dataset; what it saves becomes one version.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use lacus_algebra::expr::{CheckedProgram, Step, StepNode};
use lacus_algebra::{AlgebraError, Array, Functions, Inputs, Limits, Problem, check, interpret, parse};
use lacus_files::{FileTensors, FileValue, ReadOptions, open};
use lacus_layout::{Value, Wish};
use lacus_table::{ErrorKind, Put, Read, Table, TableError, WriteOptions};
use lacus_tensor::{DType, Scalar, Shape, SparseTensor, TensorRef};
use serde_json::json;

use super::explain::read_program;
use super::{Context, tensor_json};
use crate::args::RunArgs;
use crate::failure::Failure;
use crate::output::{Bar, count, few};

/// A tensor that a program loads.
enum Source<'a> {
    Dense(Box<TensorRef<'a>>),
    Sparse(&'a SparseTensor),
    /// A tensor of the dataset as it was at the start, by its name.
    Stored(String),
}

/// What is to be run.
struct Request<'a> {
    program: &'a CheckedProgram,
    sources: BTreeMap<String, Source<'a>>,
    /// The dataset as it was at the start.
    data: &'a Table,
    memory_bytes: Option<u64>,
    workers: Option<usize>,
    spill: Option<PathBuf>,
    forbid_nan: bool,
    checkpoint_every: Option<u64>,
    /// Set by Ctrl-C.
    cancel: Arc<AtomicBool>,
}

/// What was run.
struct Finished {
    version: u64,
    seconds: f64,
    bytes_read: u64,
    spilled_bytes: u64,
    peak_memory_bytes: u64,
}

/// Runs a program and stores what it saves, as one version. **The backing**: this is what a faster engine replaces. The
/// reference interpreter knows no budget, no workers and no checkpoints.
async fn execute(
    request: Request<'_>,
    into: &mut Table,
    options: &WriteOptions,
    bar: &Bar,
) -> Result<Finished, Failure> {
    let start = Instant::now();
    let _ = (request.memory_bytes, request.workers, &request.spill, request.checkpoint_every);
    let (mut bytes_read, mut inputs) = (0, BTreeMap::new());
    for (name, source) in &request.sources {
        let tensor = match source {
            Source::Dense(tensor) => tensor.to_tensor(),
            Source::Sparse(tensor) => tensor.to_dense()?,
            Source::Stored(stored) => match request.data.read(stored, &[]).await? {
                Read::Dense(tensor) => tensor,
                Read::Sparse(tensor) => tensor.to_dense()?,
            },
        };
        bytes_read += tensor.bytes().len() as u64;
        // Types that are not computed with were refused when the program was checked.
        inputs.extend(Array::from_tensor(&tensor).map(|array| (name.clone(), array)));
    }
    let outcome = lacus_io::blocking(|| interpret(request.program, &inputs, Limits::default()));
    let mut stored = Vec::new();
    for (name, array) in outcome.map_err(failed)?.saved {
        let is_nan =
            |item: &Scalar| matches!(item, Scalar::F32(_) | Scalar::F64(_)) && item.to_f64().is_nan();
        if request.forbid_nan && array.items().iter().any(is_nan) {
            return Err(Failure::invalid(format!("{name:?}: a result has NaN, which --forbid-nan refuses")));
        }
        stored.push((name, array.to_tensor().map_err(failed)?));
    }
    bar.set(1, 1);
    if request.cancel.load(Ordering::Relaxed) {
        return Err(Failure::stopped());
    }
    let puts = stored.iter().map(|(name, tensor)| Put {
        name: name.clone(),
        value: Value::Dense(tensor.as_ref()),
        wish: Wish::default(),
        metadata: None,
    });
    let version = into.put(puts.collect(), options).await?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Finished { version, seconds, bytes_read, spilled_bytes: 0, peak_memory_bytes: 0 })
}

pub(crate) async fn run(context: &Context, args: RunArgs) -> Result<(), Failure> {
    let text = read_program(&args.program)?;
    let mut table = context.open_to_write(&args.data).await?;
    let files = context.stop.or(open_inputs(&args)).await?;
    let data = table.frozen();
    let sources = sources(&text, &files, &data)?;
    let mut inputs = Inputs::new();
    for (name, source) in &sources {
        let (dtype, shape) = kind(source, &data)?;
        inputs = inputs.with(name, dtype, shape);
    }
    let checked = parse(&text).and_then(|program| check(&program, &inputs, &Functions::new()));
    let program = checked.map_err(|error| explained(error, &sources, &data).about(&args.program))?;
    let names = saves(program.steps());
    if names.is_empty() {
        return Err(Failure::invalid(format!("{}: the program saves nothing", args.program))
            .hint("save(x, \"name\") says what is wanted of it"));
    }
    let bar = context.output.tasks("run");
    let request = Request {
        program: &program,
        sources,
        data: &data,
        memory_bytes: args.memory,
        workers: args.workers,
        spill: args.spill.clone(),
        forbid_nan: args.forbid_nan,
        checkpoint_every: args.checkpoint_every,
        cancel: context.stop.flag(),
    };
    let options =
        WriteOptions { durable: args.durable, cancel: Some(context.stop.flag()), ..WriteOptions::default() };
    let finished = execute(request, &mut table, &options, &bar).await?;
    drop(bar);
    report(context, &table, &names, &finished)
}

/// Opens the files of `--input`, by name.
async fn open_inputs(args: &RunArgs) -> Result<BTreeMap<String, FileTensors>, Failure> {
    let inputs = args.inputs.clone();
    let opening = tokio::task::spawn_blocking(move || {
        let mut files = BTreeMap::new();
        for (name, path) in inputs {
            let file = open(&path, &ReadOptions::default())?;
            if file.len() != 1 {
                let found = count(file.len(), "tensor");
                return Err(Failure::invalid(format!("--input {name}: {} holds {found}", path.display()))
                    .hint("each input is a file of one tensor"));
            }
            if files.insert(name.clone(), file).is_some() {
                return Err(Failure::invalid(format!("--input {name}: it is given twice")));
            }
        }
        Ok(files)
    });
    opening.await.map_err(|error| Failure::new(ErrorKind::Internal, error.to_string()))?
}

/// What the program may load: inputs first, then tensors of the dataset that it names.
fn sources<'a>(
    text: &str,
    files: &'a BTreeMap<String, FileTensors>,
    data: &Table,
) -> Result<BTreeMap<String, Source<'a>>, Failure> {
    let mut sources = BTreeMap::new();
    for (name, file) in files {
        for entry in file.entries() {
            let source = match entry.value() {
                FileValue::Dense(tensor) => Source::Dense(Box::new(tensor)),
                FileValue::Sparse(tensor) => Source::Sparse(tensor),
            };
            sources.insert(name.clone(), source);
        }
    }
    // Everything that stands in quotes, and some that does not: texts have no escapes, and comments may have quotes.
    for name in text.split(['"', '\n']) {
        if !sources.contains_key(name) && data.contains(name) && !data.is_column(name) {
            sources.insert(name.to_owned(), Source::Stored(name.to_owned()));
        }
    }
    Ok(sources)
}

fn kind(source: &Source<'_>, data: &Table) -> Result<(DType, Shape), TableError> {
    Ok(match source {
        Source::Dense(tensor) => (tensor.dtype(), tensor.shape().clone()),
        Source::Sparse(tensor) => (tensor.dtype(), tensor.shape().clone()),
        Source::Stored(name) => {
            let header = data.tensor(name)?.header;
            (header.dtype, header.shape)
        }
    })
}

fn failed(error: AlgebraError) -> Failure {
    Failure::new(error.kind(), error.to_string())
}

/// An error of a program; one of a tensor that is not there says which are.
fn explained(error: AlgebraError, sources: &BTreeMap<String, Source<'_>>, data: &Table) -> Failure {
    let is_unknown = matches!(&error, AlgebraError::Program { problem, .. }
        if matches!(**problem, Problem::UnknownTensor { .. }));
    if !is_unknown {
        return failed(error);
    }
    let mut names = data.names();
    names.retain(|name| !data.is_column(name));
    names.extend(sources.keys().cloned());
    names.sort();
    names.dedup();
    let there = if names.is_empty() { "there are none".to_owned() } else { few(&names, 8) };
    failed(error).hint(format!("tensors that can be loaded: {there}"))
}

/// Names that a program saves under, sorted.
fn saves(steps: &[Step]) -> Vec<String> {
    let mut names = Vec::new();
    for step in steps {
        match &step.node {
            StepNode::Compute(..) => {}
            StepNode::Save(_, name) => names.push(name.clone()),
            StepNode::For { body, .. } => names.extend(saves(body)),
            StepNode::Loop { before, after, .. } => {
                names.extend(saves(before));
                names.extend(saves(after));
            }
        }
    }
    names.sort();
    names.dedup();
    names
}

fn report(context: &Context, table: &Table, names: &[String], finished: &Finished) -> Result<(), Failure> {
    let infos = names.iter().map(|name| table.tensor(name)).collect::<Result<Vec<_>, _>>()?;
    let Finished { version, seconds, bytes_read, spilled_bytes, peak_memory_bytes } = *finished;
    context.output.done(
        || {
            json!({
                "version": version, "seconds": seconds, "bytes_read": bytes_read, "spilled_bytes": spilled_bytes,
                "peak_memory_bytes": peak_memory_bytes, "tensors": infos.iter().map(tensor_json).collect::<Vec<_>>(),
            })
        },
        || {
            let shown: Vec<String> =
                infos.iter().map(|info| format!("{} {} {}", info.name, info.header.dtype, info.header.shape)).collect();
            format!("saved {} in {seconds:.1} s, version {version}", few(&shown, 8))
        },
    )
}
