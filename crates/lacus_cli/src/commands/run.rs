//! `lacus run`: a tensor program on a dataset; what it saves becomes one version.

use std::collections::BTreeMap;
use std::sync::Arc;

use lacus::algebra::syntax::Program;
use lacus::algebra::{AlgebraError, Functions, Inputs, Problem, check, parse};
use lacus::execute::{ExecuteError, Input, Report, RunOptions, Target, run_into};
use lacus::files::{FileTensors, FileValue, ReadOptions, open};
use lacus::table::{ErrorKind, Table, WriteOptions};
use serde_json::json;

use super::explain::read_program;
use super::{Context, tensor_json};
use crate::args::RunArgs;
use crate::failure::Failure;
use crate::output::{count, few, size};

pub(crate) async fn run(context: &Context, args: RunArgs) -> Result<(), Failure> {
    let text = read_program(&args.program)?;
    let mut table = context.open_to_write(&args.data).await?;
    let files = context.stop.or(open_inputs(&args)).await?;
    let data = Arc::new(table.frozen());
    let parsed = parse(&text).map_err(|error| failed(error).about(&args.program))?;
    let loads = parsed.loads();
    if let Some(name) = files.keys().find(|name| !loads.contains(*name)) {
        let loads: Vec<String> = loads.into_iter().collect();
        return Err(Failure::invalid(format!("--input {name}: the program does not load it"))
            .hint(format!("it loads {}", few(&loads, 10))));
    }
    let sources = sources(&parsed, &files, &data);
    let mut inputs = Inputs::new();
    for (name, source) in &sources {
        let (dtype, shape, _) = source.describe().map_err(stopped)?;
        inputs = inputs.with(name, dtype, shape);
    }
    let checked = check(&parsed, &inputs, &Functions::new());
    let program = checked.map_err(|error| explained(error, &sources, &data).about(&args.program))?;
    let names: Vec<String> = program.saves().into_keys().collect();
    if names.is_empty() {
        return Err(Failure::invalid(format!("{}: the program saves nothing", args.program))
            .hint("save(x, \"name\") says what is wanted of it"));
    }
    let bar = Arc::new(context.output.tasks("run"));
    let shown = Arc::clone(&bar);
    let options = RunOptions {
        memory_bytes: args.memory,
        workers: args.workers,
        spill: args.spill.clone(),
        forbid_nan: args.forbid_nan,
        checkpoint_every: args.checkpoint_every,
        cancel: Some(context.stop.flag()),
        watch: Some(Arc::new(move |now: &Report| {
            shown.set(now.done, now.planned);
            let (read, memory) = (size(now.read_bytes), size(now.memory_bytes));
            let spilled = match now.spilled_bytes {
                0 => String::new(),
                bytes => format!(", {} spilled", size(bytes)),
            };
            shown.say(&format!("run  {:.1} GFLOP/s, {read} read, {memory} in memory{spilled}", now.gflops()));
        })),
        ..RunOptions::default()
    };
    let write =
        WriteOptions { durable: args.durable, cancel: Some(context.stop.flag()), ..WriteOptions::default() };
    let targets: BTreeMap<String, Target> =
        names.iter().map(|name| (name.clone(), Target { name: name.clone(), ..Target::default() })).collect();
    let done = run_into(&program, &sources, Some((&mut table, &write)), targets, &options).await;
    drop(options);
    let (finished, version) = done.map_err(|error| match (error, args.checkpoint_every) {
        (ExecuteError::Cancelled, Some(_)) => {
            Failure::stopped().hint("the same command goes on after the rounds of its last checkpoint")
        }
        (error, _) => stopped(error),
    })?;
    drop(bar);
    report(context, &table, &finished.stored, &finished.report, version)
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
    program: &Program,
    files: &'a BTreeMap<String, FileTensors>,
    data: &Arc<Table>,
) -> BTreeMap<String, Input<'a>> {
    let mut sources = BTreeMap::new();
    for (name, file) in files {
        for entry in file.entries() {
            let source = match entry.value() {
                FileValue::Dense(tensor) => Input::from(tensor),
                FileValue::Sparse(tensor) => Input::Sparse(Arc::new(tensor.clone())),
            };
            sources.insert(name.clone(), source);
        }
    }
    for name in program.loads() {
        if !sources.contains_key(&name) && data.contains(&name) && !data.is_column(&name) {
            sources.insert(name.clone(), Input::Stored(Arc::clone(data), name));
        }
    }
    sources
}

/// A run that did not come to its end.
fn stopped(error: ExecuteError) -> Failure {
    match error {
        ExecuteError::Cancelled => Failure::stopped(),
        error => Failure::new(error.kind(), error.to_string()),
    }
}

fn failed(error: AlgebraError) -> Failure {
    Failure::new(error.kind(), error.to_string())
}

/// An error of a program; one of a tensor that is not there says which are.
fn explained(error: AlgebraError, sources: &BTreeMap<String, Input<'_>>, data: &Table) -> Failure {
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

fn report(
    context: &Context,
    table: &Table,
    names: &[String],
    done: &Report,
    version: Option<u64>,
) -> Result<(), Failure> {
    let infos = names.iter().map(|name| table.tensor(name)).collect::<Result<Vec<_>, _>>()?;
    context.output.done(
        || {
            json!({
                "version": version, "seconds": done.secs, "tasks": done.done, "operations": done.operations,
                "rounds": done.rounds, "resumed_rounds": done.resumed_rounds, "bytes_read": done.read_bytes, "spilled_bytes": done.spilled_bytes,
                "peak_memory_bytes": done.peak_bytes, "workers": done.workers,
                "tensors": infos.iter().map(tensor_json).collect::<Vec<_>>(),
            })
        },
        || {
            let shown: Vec<String> = infos
                .iter()
                .map(|info| format!("{} {} {}", info.name, info.header.dtype, info.header.shape))
                .collect();
            let version = version.map_or_else(String::new, |version| format!(", version {version}"));
            format!("saved {} in {:.1} s{version}", few(&shown, 8), done.secs)
        },
    )
}
