//! The simulator: a schedule on sites with a speed, a network and a memory, without data. What it moves is what the plan
//! says; how long it takes and how much memory it needs is how plans are compared.
//!
//! A site does its tasks one after another, and meanwhile receives the tiles of its next one, one after another too.
//! What is stored is there when it is asked for, and takes memory from then on. A tile is kept until its last reader is done; where memory is short, the tile that is
//! needed last is put aside (Belady's rule: the schedule is known), to disk unless it can be loaded again.

mod memory;

use crate::network::Made;
use crate::plan::ProgramPlan;
use crate::schedule::Schedule;
use crate::search::candidates::operations;
use crate::task_graph::{Task, TaskGraph, TaskId, TaskKind};
use memory::{Keeping, Memory};
use std::collections::{BTreeSet, HashMap};

/// What a run would be like.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulation {
    /// Elements sent between sites.
    pub moved_floats: u128,
    /// Bytes sent between sites.
    pub moved_bytes: u128,
    /// From the first task to the last, in seconds.
    pub makespan_secs: f64,
    /// The part of the time that sites compute, on average.
    pub utilisation: f64,
    /// Each site.
    pub sites: Vec<SiteLoad>,
}

/// What a site would do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SiteLoad {
    /// Tasks it runs.
    pub tasks: usize,
    /// Seconds it computes.
    pub busy_secs: f64,
    /// Bytes it receives.
    pub received_bytes: u128,
    /// Bytes it sends.
    pub sent_bytes: u128,
    /// Bytes it holds at most.
    pub peak_bytes: u64,
    /// Bytes it writes to disk for want of memory.
    pub spilled_bytes: u128,
    /// Bytes it reads again, from its disk or from storage.
    pub reread_bytes: u128,
}

impl Simulation {
    /// Bytes that the fullest site holds.
    pub fn peak_bytes(&self) -> u64 {
        self.sites.iter().map(|site| site.peak_bytes).max().unwrap_or(0)
    }

    /// Bytes that all sites write to disk for want of memory.
    pub fn spilled_bytes(&self) -> u128 {
        self.sites.iter().map(|site| site.spilled_bytes).sum()
    }
}

/// Runs a schedule without data.
pub fn simulate(plan: &ProgramPlan, graph: &TaskGraph, schedule: &Schedule) -> Simulation {
    let sites = plan.options.sites as usize;
    let mut run = Run {
        plan,
        graph,
        sizes: graph.sizes(plan),
        memory: Memory::new(graph, schedule, plan.options.sites, plan.options.memory_bytes),
        loads: vec![SiteLoad::default(); sites],
        finished: graph.tasks().map(|task| if is_stored(task.kind) { 0.0 } else { f64::NAN }).collect(),
        free: vec![0.0; sites],
        started: vec![0.0; sites],
        sending: vec![0.0; sites],
        receiving: vec![0.0; sites],
        moved: (0, 0),
    };
    // Positions in the order of all tasks say when a tile is needed.
    let mut positions = vec![0u32; graph.len()];
    schedule.order.iter().enumerate().for_each(|(at, &id)| positions[id as usize] = at as u32);
    let mut next = vec![0usize; sites];
    let mut waiting: HashMap<TaskId, Vec<usize>> = HashMap::new();
    // The site that is free first does its next task, so that links are taken in the order of time.
    let mut open: BTreeSet<(u64, usize)> = (0..sites).map(|site| (0, site)).collect();
    while let Some((_, site)) = open.pop_first() {
        let Some(&id) = schedule.sites[site].get(next[site]) else { continue };
        let Some(task) = graph.task(id) else { continue };
        if let Some(&missing) = task.inputs.iter().find(|&&input| run.finished[input as usize].is_nan()) {
            waiting.entry(missing).or_default().push(site);
            continue;
        }
        run.task(id, &task, positions[id as usize] as usize);
        next[site] += 1;
        // Times are not negative, so that their bits are in their order.
        open.insert((run.free[site].to_bits(), site));
        for other in waiting.remove(&id).unwrap_or_default() {
            open.insert((run.free[other].max(run.finished[id as usize]).to_bits(), other));
        }
    }
    let makespan_secs = run.free.iter().copied().fold(0.0, f64::max);
    let busy: f64 = run.loads.iter().map(|load| load.busy_secs).sum();
    let whole = makespan_secs * sites as f64;
    let utilisation = if whole > 0.0 { busy / whole } else { 1.0 };
    let (moved_floats, moved_bytes) = run.moved;
    Simulation { moved_floats, moved_bytes, makespan_secs, utilisation, sites: run.loads }
}

struct Run<'a> {
    plan: &'a ProgramPlan,
    graph: &'a TaskGraph,
    /// Elements and bytes of each task's tile.
    sizes: Vec<(u64, u64)>,
    memory: Memory,
    loads: Vec<SiteLoad>,
    /// When each task was done; not a number before that.
    finished: Vec<f64>,
    /// When each site, and its link in both directions, is free, and when it started its last task.
    free: Vec<f64>,
    started: Vec<f64>,
    sending: Vec<f64>,
    receiving: Vec<f64>,
    moved: (u128, u128),
}

impl Run<'_> {
    fn task(&mut self, id: TaskId, task: &Task<'_>, now: usize) {
        let machine = &self.plan.options.machine;
        let site = task.site as usize;
        self.loads[site].tasks += 1;
        if is_stored(task.kind) {
            return;
        }
        let mut ready = self.free[site];
        let mut disk_bytes = 0u128;
        let (own_floats, own_bytes) = self.sizes[id as usize];
        self.memory.start(id, site, now, own_bytes, &mut self.loads[site]);
        for step in task.inputs.chunks(at_once(self.plan, task)) {
            for &input in step {
                let (floats, bytes) = self.sizes[input as usize];
                match self.memory.fetch(input, site, now, bytes, &mut self.loads[site]) {
                    Keeping::Here => {}
                    Keeping::Aside => disk_bytes += u128::from(bytes),
                    Keeping::Away => {
                        let from = self.graph.task(input).map_or(site, |from| from.site as usize);
                        if from == site {
                            continue;
                        }
                        self.memory.hold(input, from, now, bytes, &mut self.loads[from]);
                        // Either end is busy for as long, when it is free; the network in between keeps the rest.
                        let start = self.finished[input as usize].max(self.started[site]);
                        let secs = bytes as f64 / machine.bytes_per_sec;
                        self.sending[from] = self.sending[from].max(start) + secs;
                        self.receiving[site] = self.receiving[site].max(start) + secs;
                        let end = self.sending[from].max(self.receiving[site]);
                        ready = ready.max(end);
                        self.moved.0 += u128::from(floats);
                        self.moved.1 += u128::from(bytes);
                        self.loads[site].received_bytes += u128::from(bytes);
                        self.loads[from].sent_bytes += u128::from(bytes);
                        // The owner may let go of it once all have it.
                        self.memory.release(input, from, bytes);
                    }
                }
            }
            for &input in step {
                self.memory.release(input, site, self.sizes[input as usize].1);
            }
        }
        let secs =
            compute_secs(self.plan, task, own_floats) + disk_bytes as f64 / machine.spill_bytes_per_sec;
        (self.started[site], self.free[site]) = (ready, ready + secs);
        self.finished[id as usize] = self.free[site];
        self.loads[site].busy_secs += secs;
        self.memory.settle(id, site, own_bytes);
    }
}

/// True for what needs no computing, only memory.
fn is_stored(kind: TaskKind) -> bool {
    matches!(kind, TaskKind::Load | TaskKind::Given)
}

/// Inputs that a task needs at the same time: of an accumulation those of one step.
fn at_once(plan: &ProgramPlan, task: &Task<'_>) -> usize {
    let all = task.inputs.len().max(1);
    match (task.kind, &plan.network.value(task.value).made) {
        (TaskKind::Accumulate, Made::Operator(at)) => {
            let reads = plan.network.operators[*at].reads.len().max(1);
            if all.is_multiple_of(reads) { reads } else { all }
        }
        (TaskKind::Reduce, _) => 1,
        _ => all,
    }
}

fn compute_secs(plan: &ProgramPlan, task: &Task<'_>, floats: u64) -> f64 {
    let machine = &plan.options.machine;
    let per_operation = 1.0 / machine.operations_per_sec;
    let work = match (task.kind, &plan.network.value(task.value).made) {
        (TaskKind::Load | TaskKind::Given | TaskKind::Carry, _) => return 0.0,
        (TaskKind::Reduce, _) => floats as f64 * task.inputs.len() as f64,
        (_, Made::Operator(at)) => {
            let operator = &plan.network.operators[*at];
            let per_point = operations(&operator.body).max(1) as f64;
            // Of what is folded its share: all steps of the tile, of which this task has some.
            let folded = operator.fold.iter().flat_map(|fold| &fold.axes);
            let (mut points, mut steps) = (1.0, 1.0);
            for axis in folded {
                points *= axis.extent as f64;
                steps *= axis.extent.div_ceil(plan.tiling.block(axis.extent)) as f64;
            }
            let own = task.inputs.len() as f64 / operator.reads.len().max(1) as f64;
            let share = if operator.fold.is_some() && steps > 0.0 { (own / steps).min(1.0) } else { 1.0 };
            floats as f64 * points * share * per_point
        }
        _ => floats as f64,
    };
    work * per_operation + machine.task_secs
}

#[cfg(test)]
mod tests;
