//! A whole run: plan, engine, flow, results.

use crate::by_rows::{self, ByRows};
use crate::checkpoint::Checkpoints;
use crate::engine::{Engine, Watch};
use crate::error::ExecuteError;
use crate::flow::{CarriedTiles, Flow, Rounds};
use crate::form::Nonzeros;
use crate::input::{Input, InputTiles, SPARSE_BELOW, stored};
use crate::limits::default_memory_bytes;
use crate::memory::TileId;
use crate::output::{
    Made, ResultTiles, Store, Target, bytes_of, fixed_by, kept_in_memory, results_alone, still_there,
};
use crate::report::Report;
use crate::sparsity::{Densities, densities, sparse_bytes, sparse_loads};
use crate::spill::Spill;
use crate::uneven::expected;
use futures::future::BoxFuture;
use lacus_algebra::expr::{Affine, CheckedProgram, Slot};
use lacus_algebra::{
    Machine, Network, Operator, PlanOptions, ProgramPlan, Read, Tiling, lower, plan_network,
};
use lacus_io::on_plain_thread;
use lacus_table::{Table, WriteOptions};
use lacus_tensor::PoolCap;
use lacus_threads::{Pool, Team};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Sites that a program is planned for where all share one memory. Part of what fixes the bits of a result: sums are
/// split among so many, whatever the number of workers.
pub const LANES: u64 = 8;

/// A tile of doubles of two thousand by two thousand: kernels are at their best, and there are enough for all workers.
const TILE_BYTES: u64 = 32 << 20;

/// Tiles that a search for spreads looks at where lanes share one memory: there they differ in how sums are split and in
/// little else, and whoever waits for the plan could have computed meanwhile.
const EFFORT: u64 = 500_000;

/// How a program is run.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// Bytes of tiles in memory, at most; by default [`default_memory_bytes`].
    pub memory_bytes: Option<u64>,
    /// Threads that compute; by default, and at most, as many as the pool has.
    pub workers: Option<usize>,
    /// Where they come from; by default the process's pool.
    pub pool: Option<Pool>,
    /// A directory for what does not fit, which has to exist; by default the directory for temporary files.
    pub spill: Option<PathBuf>,
    /// Fails when a result of an operator is not a number.
    pub forbid_nan: bool,
    /// Integers divided by zero with `//` or `%` are zero, as in numpy, and [`Report::divided_by_zero`] says so; otherwise the
    /// run fails.
    pub zero_by_zero: bool,
    /// Rounds of all loops together, at most.
    pub rounds: Option<u64>,
    /// Stores what outermost loops carry every so many rounds, as a version of its own under `_run/`, and goes on from there
    /// when the same program is run on the same inputs again. Needs a dataset that results are stored in.
    pub checkpoint_every: Option<u64>,
    /// Runs on so many sites, each with its own memory, and counts what moves between them.
    pub sites: Option<u64>,
    /// The extent of a tile along every axis; by default tiles of some megabytes.
    pub block: Option<u64>,
    /// Set to true from anywhere to stop.
    pub cancel: Option<Arc<AtomicBool>>,
    /// Hears of progress, some ten times a second.
    pub watch: Option<Arc<Watch>>,
}

impl RunOptions {
    /// The threads that compute.
    pub(crate) fn team(&self) -> Team<'_> {
        let pool = self.pool.as_ref().unwrap_or_else(|| Pool::process());
        pool.team(self.workers.unwrap_or_else(|| pool.threads()))
    }
}

/// Tiles are not cut further than this, whatever the budget.
const LEAST_TILE_BYTES: u64 = 1 << 12;

/// Sparse tiles are cut up to so many times smaller because they differ in size: more would be too many of them.
const MOST_SKEW: f64 = 4.0;

/// Nor into more than this.
const MOST_TILES: f64 = 131_072.0;

/// Tiles that there should be room for: some for each worker, and all that one task of any operator may hold.
fn tiles_at_once(network: &Network) -> u64 {
    let of_one = |at: usize| -> u64 {
        let operator = &network.operators[at];
        let labels = operator.labels();
        let is_whole = |at: &Affine, extent: u64| {
            at.as_index().is_some_and(|index| {
                labels.iter().any(|label| label.index == index && label.extent == extent)
            })
        };
        // What is not read index by index along whole axes lies in two tiles along an axis.
        let tiles = |read: &Read| -> u64 {
            let dims = &network.value(read.value).dims;
            1 << read.at.iter().zip(dims).filter(|(at, extent)| !is_whole(at, **extent)).count().min(8)
        };
        let read: u64 = operator.reads.iter().map(tiles).sum();
        // Once as they are and once put together, the result, and tiles that are larger than they should be.
        3 * (2 * read + 2)
    };
    network.running().into_iter().map(of_one).fold(32, u64::max)
}

/// Bytes of a budget that are set aside for memory that is kept for the next tiles: it is part of what one sees.
pub(crate) fn pooled(budget: u64, results: u64) -> u64 {
    (lacus_tensor::pool_limit_bytes() as u64).min(budget.saturating_sub(results) / 8)
}

/// The least budget, beside results, of which so many bytes are left for tiles.
fn with_pool(tiles: u64) -> u64 {
    let pool = (tiles.saturating_sub(1) / 7).min(lacus_tensor::pool_limit_bytes() as u64);
    tiles.saturating_add(pool)
}

/// What a run has made.
pub struct Finished {
    /// What goes back to the caller, by the name it was saved as.
    pub made: BTreeMap<String, Made>,
    /// The names in the dataset of what was stored: not of what only a loop saves that had no rounds.
    pub stored: Vec<String>,
    /// What it took.
    pub report: Report,
    /// What fixes the bits of the results.
    pub fixed_by: Json,
}

/// Plans a program for this engine, with results that go back to the caller.
pub fn plan_run(
    program: &CheckedProgram,
    inputs: &BTreeMap<String, Input<'_>>,
    options: &RunOptions,
) -> Result<ProgramPlan, ExecuteError> {
    plan_for(program, inputs, &|_| false, options)
}

/// Plans a program of whose results some are stored.
pub(crate) fn plan_for(
    program: &CheckedProgram,
    inputs: &BTreeMap<String, Input<'_>>,
    is_stored: &dyn Fn(&str) -> bool,
    options: &RunOptions,
) -> Result<ProgramPlan, ExecuteError> {
    let mut network = lower(program)?;
    let sparse = sparse_values(&network, inputs)?;
    if !options.forbid_nan {
        // What can stay sparse has kernels of its own.
        network.inline(|part, whole| !sparse.contains_key(&part) && !sparse.contains_key(&whole));
    }
    network
        .sample(|network, operator| Nonzeros::samples(network, operator, &|slot| sparse.contains_key(&slot)));
    let budget = options.memory_bytes.unwrap_or_else(default_memory_bytes);
    let sparse = sparse_values(&network, inputs)?;
    if options.block.is_none() && options.sites.is_none() && !options.forbid_nan {
        by_rows::take_out(&mut network, &sparse, inputs, budget)?;
    }
    let skew = skew(&network, inputs);
    let bytes = |slot: Slot| {
        let value = network.value(slot);
        match sparse.get(&slot) {
            Some(&density) => skew * sparse_bytes(&network, slot, density),
            None => value.dims.iter().map(|&n| n as f64).product::<f64>() * value.dtype.size_bytes() as f64,
        }
    };
    let results = bytes_of(&network, &kept_in_memory(&network, is_stored, budget, &sparse));
    let room = budget.saturating_sub(results).saturating_sub(pooled(budget, results));
    let at_once = tiles_at_once(&network);
    let all = network.present().into_iter().map(bytes);
    let least = LEAST_TILE_BYTES.max((all.fold(0.0, f64::max) / MOST_TILES) as u64);
    if results > budget {
        return Err(results_alone(results.saturating_add(with_pool(least.saturating_mul(at_once))), budget));
    }
    let tile_bytes = TILE_BYTES.min(room / at_once).max(least);
    let tiling = match options.block {
        Some(block) => Tiling::of_block(block),
        None => Tiling::by_bytes(&network, bytes, tile_bytes)?,
    };
    let sites = options.sites.unwrap_or(LANES);
    let machine = match options.sites {
        Some(_) => Machine::default(),
        // What is in one memory need not be moved.
        None => Machine { bytes_per_sec: 1e15, task_secs: 1e-6, ..Machine::default() },
    };
    let effort = match options.sites {
        Some(_) => PlanOptions::default().effort,
        None => EFFORT,
    };
    let options = PlanOptions { sites, machine, effort, ..PlanOptions::default() };
    Ok(plan_network(network, tiling, &options)?)
}

/// The values that can stay sparse.
pub(crate) fn sparse_values(
    network: &Network,
    inputs: &BTreeMap<String, Input<'_>>,
) -> Result<Densities, ExecuteError> {
    let mut nonzeros: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, input) in inputs {
        if let (.., Some(nnz)) = input.describe()? {
            nonzeros.insert(name, nnz);
        }
    }
    let loads = sparse_loads(network, &|name| nonzeros.get(name).copied(), SPARSE_BELOW);
    let expected = |operator: &Operator| expected(network, operator, inputs).map(|found| found.density);
    Ok(densities(network, &loads, &expected))
}

/// How many times the mean the fullest tile of a sparse product may have. What is beyond [`MOST_SKEW`] shows when it is made.
fn skew(network: &Network, inputs: &BTreeMap<String, Input<'_>>) -> f64 {
    let of = |at: usize| expected(network, &network.operators[at], inputs).map(|found| found.skew);
    network.running().into_iter().filter_map(of).fold(1.0, f64::max).min(MOST_SKEW)
}

/// Runs a program and stores what it saves under the names of `targets`, all as one version, with what fixes its bits in the
/// metadata of each; what has no target comes back. In a transaction that is open already it all stays in there. When it
/// fails, nothing is stored.
pub fn run_into<'a>(
    program: &'a CheckedProgram,
    inputs: &'a BTreeMap<String, Input<'a>>,
    into: Option<(&'a mut Table, &'a WriteOptions)>,
    targets: BTreeMap<String, Target>,
    options: &'a RunOptions,
) -> BoxFuture<'a, Result<(Finished, Option<u64>), ExecuteError>> {
    Box::pin(async move {
        let Some((table, write)) = into.filter(|_| !targets.is_empty()) else {
            return Ok((on_plain_thread(|| run(program, inputs, None, options))?, None));
        };
        for target in targets.values() {
            table.refuse_column(&target.name).map_err(stored)?;
        }
        // In a transaction of the caller's, what was written before stays.
        let before = table.savepoint();
        let is_ours = before.is_none();
        if is_ours {
            table.begin().map_err(stored)?;
        }
        let mut store = Store { table, options: write, targets };
        let done = on_plain_thread(|| run(program, inputs, Some(&mut store), options));
        let Store { table, .. } = store;
        let is_there = match done {
            Ok(finished) => still_there(table).await.map(|()| finished),
            Err(error) => Err(error),
        };
        let finished = match is_there {
            Ok(finished) => finished,
            Err(error) => {
                match before {
                    Some(before) => table.roll_back(before).await,
                    None => table.abandon().await,
                }
                return Err(error);
            }
        };
        if !is_ours {
            return Ok((finished, None));
        }
        let detail = json!({"tensors": finished.stored});
        let version = table.finish("RUN", detail, None, write).await.map_err(stored)?;
        Ok((finished, Some(version)))
    })
}

/// Runs a program on its inputs. Results that have a target are written to the table's open transaction (the caller
/// finishes or abandons it); the others are handed back. Blocks; call it outside of the runtime's own threads, or where
/// blocking is allowed.
pub fn run(
    program: &CheckedProgram,
    inputs: &BTreeMap<String, Input<'_>>,
    mut store: Option<&mut Store<'_>>,
    options: &RunOptions,
) -> Result<Finished, ExecuteError> {
    let is_stored = |name: &str| store.as_ref().is_some_and(|store| store.targets.contains_key(name));
    let plan = plan_for(program, inputs, &is_stored, options)?;
    if let Some(store) = &mut store {
        let mut facts = fixed_by(&plan);
        facts["program"] = plan.network.source.clone().into();
        for target in store.targets.values_mut() {
            let metadata = target.metadata.get_or_insert_with(|| json!({}));
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("lacus.run".to_owned(), facts.clone());
            }
        }
    }
    run_plan(&plan, inputs, store, options)
}

/// Runs a plan, see [`run`].
pub fn run_plan(
    plan: &ProgramPlan,
    inputs: &BTreeMap<String, Input<'_>>,
    mut store: Option<&mut Store<'_>>,
    options: &RunOptions,
) -> Result<Finished, ExecuteError> {
    if let Some(path) = options.spill.as_ref().filter(|path| !path.is_dir()) {
        return Err(ExecuteError::NoSpill { path: path.display().to_string() });
    }
    let runtime = tokio::runtime::Handle::try_current().ok();
    let budget = options.memory_bytes.unwrap_or_else(default_memory_bytes);
    let team = options.team();
    let sparse = sparse_values(&plan.network, inputs)?;
    let loads = InputTiles::new(plan, inputs, runtime.clone(), &sparse, team)?;
    let mut checkpoints = match (options.checkpoint_every, store.as_deref()) {
        (None, _) => None,
        (Some(_), None) => return Err(ExecuteError::NoCheckpoints),
        (Some(every), Some(store)) => {
            Some(Checkpoints::new(plan, inputs, store, runtime.clone(), (every, budget))?)
        }
    };
    let (mut made, mut stored, mut apart) = (BTreeMap::new(), Vec::new(), Report::default());
    let is_target = |name: &str| store.as_ref().is_some_and(|store| store.targets.contains_key(name));
    let kept = bytes_of(&plan.network, &kept_in_memory(&plan.network, &is_target, budget, &sparse));
    for each in &plan.network.apart {
        let taken = kept + made.values().map(Made::size_bytes).sum::<u64>();
        let by_rows = ByRows {
            network: &plan.network,
            inputs,
            runtime: runtime.clone(),
            budget,
            taken,
            team,
            cancel: options.cancel.as_deref(),
        };
        match by_rows.run(each, store.as_deref_mut(), &mut apart)? {
            Some(found) => {
                made.insert(each.1.clone(), found);
            }
            None => stored.extend(store.as_ref().map(|store| store.targets[&each.1].name.clone())),
        }
    }
    let taken = made.values().map(Made::size_bytes).sum::<u64>();
    let (whole_budget, budget) = (budget, budget - taken);
    let in_all = |error| match error {
        ExecuteError::Budget { what, needed, .. } => {
            ExecuteError::Budget { what, needed: needed.saturating_add(taken), budget: whole_budget }
        }
        error => error,
    };
    let is_stored = store.is_some();
    let spill = options.spill.as_deref();
    let results = ResultTiles::new(plan, store.as_deref_mut(), runtime, budget, &sparse, team, spill)
        .map_err(in_all)?;
    let pooled = pooled(budget, results.bytes());
    let fixed = results.bytes() + pooled;
    let left = budget - fixed;
    let _pool = PoolCap::new(pooled as usize);
    results.begin()?;
    let report = {
        let spill = Spill::new(spill);
        let mut engine = Engine::new(plan, &loads, &results, team, left, spill, sparse);
        engine.forbid_nan = options.forbid_nan;
        engine.counts_moves = options.sites.is_some();
        engine.zero_by_zero = options.zero_by_zero;
        engine.cancel = options.cancel.as_deref();
        engine.watch = options.watch.as_deref();
        let rounds = options.rounds.unwrap_or(1_000_000_000);
        let mut flow = Flow::new(&engine, rounds, results.in_place(), results.in_last_round());
        let done = match &mut checkpoints {
            Some(checkpoints) => flow.run(&mut checkpoints.rounds(&engine)),
            None => flow.run(&mut NoRounds),
        };
        done.map_err(|error| match error {
            ExecuteError::Budget { what, needed, .. } => {
                let needed = results.bytes() + with_pool(needed);
                // Of a larger budget an eighth may go to results that are put together before they are stored.
                let needed = if is_stored { needed + needed.div_ceil(7) } else { needed };
                // Another one to sparse tiles that wait, or to chunks that are put together.
                let needed = if results.has_shares() { needed + needed.div_ceil(3) } else { needed };
                in_all(ExecuteError::Budget { what, needed, budget })
            }
            error => error,
        })?;
        let mut report = engine.report();
        report.peak_bytes = apart.peak_bytes.max(report.peak_bytes + results.bytes() + taken);
        report.budget_bytes = whole_budget;
        report.operations += apart.operations;
        report.done += apart.done;
        report.planned += apart.planned;
        report.written_bytes += apart.written_bytes;
        report
    };
    if let Some(watch) = &options.watch {
        watch(&report);
    }
    let fixed_by = fixed_by(plan);
    stored.extend(results.stored());
    made.extend(results.finish(budget, team).map_err(in_all)?);
    if let (Some(checkpoints), Some(store)) = (checkpoints, store) {
        checkpoints.discard(store)?;
    }
    Ok(Finished { made, stored, report, fixed_by })
}

/// Loops are not written down.
struct NoRounds;

impl Rounds for NoRounds {
    fn begin(&mut self, _: usize) {}

    fn over(&mut self, _: usize, _: u64, _: &[(Slot, Vec<TileId>)]) -> Result<(), ExecuteError> {
        Ok(())
    }

    fn resume(&mut self, _: usize) -> Result<Option<(u64, CarriedTiles)>, ExecuteError> {
        Ok(None)
    }
}
