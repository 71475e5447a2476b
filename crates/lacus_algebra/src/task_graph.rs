//! The task graph of a program: its plan, partially evaluated over tile coordinates. No data is touched.
//!
//! ```text
//! load A[i,k]   load B[k,j]  …  all k of one part           another part
//!        └──────────┴─→ accumulate C[i,j] on one site ─┐   accumulate C[i,j] on another
//!                                                      └──→ reduce C[i,j] ←──┘
//! ```
//!
//! Pair, product and sum of one tile of a result are one task that accumulates in place, steps ascending, so that there
//! are as many tasks as tiles and not as multiplications, and sums are the same however many sites there are within a
//! part. Where a spread splits what is folded, each part is such a task and a reduce adds them. The graph is built
//! backwards from what is asked for: nothing else gets a task.
//!
//! Loops are instantiated as many rounds ahead as asked for, or part by part, as templates with what comes from outside
//! given.
//!
//! Tasks are rows of columns: some twenty bytes each, and four for each tile they read.

mod build;
mod needed;
mod unroll;

use crate::error::AlgebraError;
use crate::expr::Slot;
use crate::network::{FlowNode, Known, Made};
use crate::plan::ProgramPlan;
use crate::site_set::SiteSets;
use std::collections::BTreeMap;

/// A task, by its number. Tasks come after all that they read.
pub type TaskId = u32;

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Reads a stored tile.
    Load,
    /// Makes a tile from others, element by element, or from nothing.
    Apply,
    /// Folds steps into a tile, in place: for products a multiply-accumulate.
    Accumulate,
    /// Reduces contributions from several sites.
    Reduce,
    /// Takes a tile into the next round of a loop. Nothing is computed.
    Carry,
    /// A tile that is there already, where a graph is a template.
    Given,
}

/// A task of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task<'a> {
    /// What it does.
    pub kind: TaskKind,
    /// The value its tile belongs to; the operator that makes it is the kernel.
    pub value: Slot,
    /// The tile, counted in C order over the tiles of its value.
    pub tile: u32,
    /// Where it runs.
    pub site: u32,
    /// The round it belongs to, for [`TaskGraph::known`].
    pub round: u32,
    /// What it reads: of an accumulation the tiles of every step in turn, of a reduction the contributions in order.
    pub inputs: &'a [TaskId],
}

/// Tasks and what they read.
#[derive(Clone, Debug, Default)]
pub struct TaskGraph {
    kinds: Vec<TaskKind>,
    values: Vec<u32>,
    tiles: Vec<u32>,
    sites: Vec<u16>,
    rounds: Vec<u32>,
    input_ends: Vec<u32>,
    inputs: Vec<TaskId>,
    /// What the counters are in each round.
    known: Vec<Known>,
    outputs: Vec<Output>,
}

/// A value that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The name it is saved under; none for the condition of a loop, or what a template hands on.
    pub name: Option<String>,
    /// The value.
    pub value: Slot,
    /// The tasks that make its tiles, with the numbers of these.
    pub tiles: Vec<(u32, TaskId)>,
}

/// What to build.
#[derive(Clone, Debug, Default)]
pub struct GraphOptions {
    /// Rounds of every loop, at most; `None` for all, where those that depend on data take as many as the plan assumed.
    pub rounds: Option<u64>,
    /// Coordinates of the tiles that are wanted of some saved names; all tiles of the others.
    pub asked: BTreeMap<String, Vec<Vec<u64>>>,
}

impl TaskGraph {
    /// The graph of a plan. Fails if a tile that is asked for is not there, or if the graph would not fit memory: then
    /// ask for fewer rounds.
    pub fn build(plan: &ProgramPlan, options: &GraphOptions) -> Result<TaskGraph, AlgebraError> {
        let instances = unroll::program(plan, options.rounds)?;
        build::build(plan, instances, &options.asked)
    }

    /// The graph of a stretch of the flow without loops, such as one part of a round: a template, the same for all rounds
    /// unless counters decide what is read. What comes from elsewhere is given, and what is read elsewhere is an output.
    pub fn of_part(plan: &ProgramPlan, part: &[FlowNode], known: &Known) -> Result<TaskGraph, AlgebraError> {
        let instances = unroll::part(plan, part, known)?;
        build::build(plan, instances, &BTreeMap::new())
    }

    /// Tasks there are.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// A task, if there is one of this number.
    pub fn task(&self, id: TaskId) -> Option<Task<'_>> {
        let at = id as usize;
        let kind = *self.kinds.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.input_ends[before]) as usize;
        Some(Task {
            kind,
            value: Slot(self.values[at] as usize),
            tile: self.tiles[at],
            site: u32::from(self.sites[at]),
            round: self.rounds[at],
            inputs: &self.inputs[start..self.input_ends[at] as usize],
        })
    }

    /// All tasks in order.
    pub fn tasks(&self) -> impl Iterator<Item = Task<'_>> {
        (0..self.kinds.len() as TaskId).filter_map(|id| self.task(id))
    }

    /// What was asked for.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// What the counters are in a round.
    pub fn known(&self, round: u32) -> &Known {
        &self.known[round as usize]
    }

    /// Elements of a task's tile.
    pub fn floats(&self, plan: &ProgramPlan, id: TaskId) -> u64 {
        let Some(task) = self.task(id) else { return 0 };
        let tiles = plan.tiles(task.value);
        tiles.shape(&tiles.coordinates(task.tile as usize)).iter().product()
    }

    /// How many tasks read each task's tile, each counted once. When they have, it can be deleted, unless it is an
    /// output.
    pub fn dependents(&self) -> Vec<u32> {
        let mut counts = vec![0; self.len()];
        let mut last = vec![TaskId::MAX; self.len()];
        for (id, task) in self.tasks().enumerate() {
            for &input in task.inputs {
                if last[input as usize] != id as TaskId {
                    last[input as usize] = id as TaskId;
                    counts[input as usize] += 1;
                }
            }
        }
        counts
    }

    /// Elements and bytes that are sent between sites: every tile once to every other site that reads it.
    pub fn moved(&self, plan: &ProgramPlan) -> (u128, u128) {
        let sizes = self.sizes(plan);
        let mut there = SiteSets::new(self.len(), plan.options.sites);
        let (mut floats, mut bytes) = (0u128, 0u128);
        for task in self.tasks() {
            for &input in task.inputs {
                let at = input as usize;
                if u32::from(self.sites[at]) != task.site && !there.contains(at, u64::from(task.site)) {
                    there.insert(at, u64::from(task.site));
                    floats += u128::from(sizes[at].0);
                    bytes += u128::from(sizes[at].1);
                }
            }
        }
        (floats, bytes)
    }

    /// Elements and bytes of every task's tile.
    pub(crate) fn sizes(&self, plan: &ProgramPlan) -> Vec<(u64, u64)> {
        let mut by_value: BTreeMap<u32, (Vec<u64>, u64)> = BTreeMap::new();
        self.values
            .iter()
            .zip(&self.tiles)
            .map(|(&value, &tile)| {
                let (floats, size) = by_value.entry(value).or_insert_with(|| {
                    let slot = Slot(value as usize);
                    (plan.tiles(slot).floats(), plan.network.value(slot).dtype.size_bytes() as u64)
                });
                (floats[tile as usize], floats[tile as usize] * *size)
            })
            .collect()
    }

    /// The bytes that the graph itself takes.
    pub fn size_bytes(&self) -> usize {
        let row = size_of::<TaskKind>() + size_of::<u16>() + 4 * size_of::<u32>();
        let outputs: usize = self.outputs.iter().map(|output| output.tiles.len() * 8).sum();
        self.len() * row + self.inputs.len() * size_of::<TaskId>() + outputs
    }

    /// How many tasks there are of each kind, in the order of [`TaskKind`].
    pub fn counts(&self) -> [usize; 6] {
        let mut counts = [0; 6];
        self.kinds.iter().for_each(|kind| counts[*kind as usize] += 1);
        counts
    }

    /// Steps of all accumulations: for a product of matrices, the products of tiles.
    pub fn steps(&self, plan: &ProgramPlan) -> usize {
        self.tasks()
            .filter(|task| task.kind == TaskKind::Accumulate)
            .map(|task| {
                let reads = match &plan.network.value(task.value).made {
                    Made::Operator(at) => plan.network.operators[*at].reads.len(),
                    _ => 1,
                };
                task.inputs.len() / reads.max(1)
            })
            .sum()
    }
}

#[cfg(test)]
mod tests;
