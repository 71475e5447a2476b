//! The task graph of a contraction: its plan, partially evaluated over tile coordinates. No data is touched.
//!
//! ```text
//! load A[i,k]   load B[k,j]  …  all k of one part          another part
//!        └──────────┴─→ multiply C[i,j] part 0 ─┐   multiply C[i,j] part 1
//!                                               └──→ reduce C[i,j] ←──┘
//! ```
//!
//! Pair, product and sum of one tile of a result are one task that accumulates in place, `k` ascending, so that the
//! number of tasks is that of the tiles of results and not that of multiplications, and sums are the same however many
//! sites there are within a part. Where the grid splits contracted labels, each part is such a task and a reduce adds
//! them. The graph is built backwards from the tiles that are asked for; nothing else gets a task.
//!
//! Tasks are rows of columns: about thirty bytes each, and four for each tile they read.

use crate::contraction::{Contraction, Label};
use crate::error::AlgebraError;
use crate::grid::{Grid, Product};
use crate::plan::ContractionPlan;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Inputs of all tasks together, at most: two gigabytes of them.
const MAX_INPUTS: usize = 1 << 29;

/// A task, by its number. Tasks come after all that they read.
pub type TaskId = u32;

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Reads a tile of a factor.
    Load,
    /// Multiplies tiles two by two and adds all products.
    Multiply,
    /// Adds contributions.
    Reduce,
}

/// A task of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task<'a> {
    /// What it does.
    pub kind: TaskKind,
    /// The tensor its tile belongs to: factors of the contraction first, then the results of products in order.
    pub tensor: usize,
    /// The tile, counted in C order over the tiles of its tensor.
    pub tile: u64,
    /// Where it runs.
    pub site: usize,
    /// What it reads: of a multiplication left and right in turn.
    pub inputs: &'a [TaskId],
}

/// Tasks and what they read.
#[derive(Clone, Debug, Default)]
pub struct TaskGraph {
    kinds: Vec<TaskKind>,
    tensors: Vec<u16>,
    tiles: Vec<u64>,
    sites: Vec<u32>,
    /// Elements of each task's tile.
    floats: Vec<u64>,
    input_ends: Vec<u32>,
    inputs: Vec<TaskId>,
    outputs: Vec<TaskId>,
}

impl TaskGraph {
    /// The graph for the asked tiles of the result, by their coordinates; `None` asks for all. Fails if a tile is not
    /// there, or if the graph would not fit memory.
    pub fn build(
        contraction: &Contraction,
        plan: &ContractionPlan,
        asked: Option<&[Vec<u64>]>,
    ) -> Result<TaskGraph, AlgebraError> {
        let mut builder = Builder { contraction, plan, graph: TaskGraph::default(), made: HashMap::new() };
        let Some(last) = plan.products.len().checked_sub(1) else { return Ok(builder.graph) };
        let product = &plan.products[last].product;
        let counts: Vec<u64> = product.output.iter().map(|&label| product.tiles(label)).collect();
        let wanted: Vec<Vec<u64>> = match asked {
            Some(asked) => asked.to_vec(),
            None => coordinates(&counts).collect(),
        };
        for tile in wanted {
            if tile.len() != counts.len() || tile.iter().zip(&counts).any(|(at, count)| at >= count) {
                let (what, expected) = ("a tile that is asked for", "within the tiles of the result");
                return Err(AlgebraError::Argument {
                    what,
                    expected,
                    found: format!("{tile:?} of {counts:?}"),
                });
            }
            let at: BTreeMap<Label, u64> = product.output.iter().copied().zip(tile).collect();
            let task = builder.result(last, &at)?;
            if asked.is_none() || !builder.graph.outputs.contains(&task) {
                builder.graph.outputs.push(task);
            }
        }
        Ok(builder.graph)
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
            tensor: usize::from(self.tensors[at]),
            tile: self.tiles[at],
            site: self.sites[at] as usize,
            inputs: &self.inputs[start..self.input_ends[at] as usize],
        })
    }

    /// All tasks in order.
    pub fn tasks(&self) -> impl Iterator<Item = Task<'_>> {
        (0..self.kinds.len() as TaskId).filter_map(|id| self.task(id))
    }

    /// The tasks that make the tiles that were asked for.
    pub fn outputs(&self) -> &[TaskId] {
        &self.outputs
    }

    /// Elements of a task's tile.
    pub fn floats(&self, id: TaskId) -> u64 {
        self.floats.get(id as usize).copied().unwrap_or(0)
    }

    /// How often each task's tile is read. When that many tasks have read it, it can be deleted, unless it is an
    /// output.
    pub fn dependents(&self) -> Vec<u32> {
        let mut counts = vec![0; self.len()];
        self.inputs.iter().for_each(|&input| counts[input as usize] += 1);
        counts
    }

    /// Elements that are sent between sites: every tile once to every other site that reads it.
    pub fn moved_floats(&self) -> u128 {
        let mut sent: BTreeSet<(TaskId, usize)> = BTreeSet::new();
        for task in self.tasks() {
            let from_elsewhere = |input: &&TaskId| self.sites[**input as usize] as usize != task.site;
            sent.extend(task.inputs.iter().filter(from_elsewhere).map(|&input| (input, task.site)));
        }
        sent.iter().map(|(input, _)| u128::from(self.floats(*input))).sum()
    }

    /// The bytes that the graph itself takes.
    pub fn size_bytes(&self) -> usize {
        let row = size_of::<TaskKind>() + size_of::<u16>() + 2 * size_of::<u64>() + 2 * size_of::<u32>();
        self.len() * row + (self.inputs.len() + self.outputs.len()) * size_of::<TaskId>()
    }
}

struct Builder<'a> {
    contraction: &'a Contraction,
    plan: &'a ContractionPlan,
    graph: TaskGraph,
    /// The task that makes a tile of a tensor.
    made: HashMap<(usize, u64), TaskId>,
}

impl Builder<'_> {
    fn push(
        &mut self,
        kind: TaskKind,
        tensor: usize,
        tile: u64,
        site: u64,
        floats: u64,
        inputs: &[TaskId],
    ) -> Result<TaskId, AlgebraError> {
        let too_many = || AlgebraError::Argument {
            what: "a task graph",
            expected: "of a size that fits memory: larger tiles make fewer tasks",
            found: format!("one of more than {MAX_INPUTS} inputs or {} tasks", u32::MAX),
        };
        if self.graph.inputs.len() + inputs.len() > MAX_INPUTS {
            return Err(too_many());
        }
        let id = u32::try_from(self.graph.kinds.len()).map_err(|_| too_many())?;
        let end = u32::try_from(self.graph.inputs.len() + inputs.len()).map_err(|_| too_many())?;
        self.graph.kinds.push(kind);
        self.graph.tensors.push(u16::try_from(tensor).map_err(|_| too_many())?);
        self.graph.tiles.push(tile);
        self.graph.sites.push(u32::try_from(site).map_err(|_| too_many())?);
        self.graph.floats.push(floats);
        self.graph.inputs.extend_from_slice(inputs);
        self.graph.input_ends.push(end);
        Ok(id)
    }

    /// The task that makes a tile of the result of a product, with all that it needs.
    fn result(&mut self, step: usize, at: &BTreeMap<Label, u64>) -> Result<TaskId, AlgebraError> {
        let plan = self.plan;
        let planned = &plan.products[step];
        let (product, grid) = (&planned.product, &planned.grid);
        let tensor = self.contraction.factors.len() + step;
        let tile = linear(product, &product.output, at);
        if let Some(&task) = self.made.get(&(tensor, tile)) {
            return Ok(task);
        }
        let inner: Vec<Label> =
            product.extents.keys().filter(|label| !product.output.contains(label)).copied().collect();
        let counts: Vec<u64> = inner.iter().map(|&label| product.tiles(label)).collect();
        // By part: the sites along the contracted labels, in the order of the sites.
        let mut parts: BTreeMap<u64, Vec<TaskId>> = BTreeMap::new();
        for contracted in coordinates(&counts) {
            let mut whole = at.clone();
            whole.extend(inner.iter().copied().zip(contracted));
            let site = site_of(grid, &whole);
            let left = self.factor(planned.step.left, step, &product.left, &whole)?;
            let right = self.factor(planned.step.right, step, &product.right, &whole)?;
            parts.entry(site).or_default().extend([left, right]);
        }
        let floats = elements(product, &product.output, at);
        let mut tasks = Vec::with_capacity(parts.len());
        for (site, inputs) in parts {
            tasks.push((site, self.push(TaskKind::Multiply, tensor, tile, site, floats, &inputs)?));
        }
        let task = match tasks[..] {
            [(_, only)] => only,
            _ => {
                let inputs: Vec<TaskId> = tasks.iter().map(|(_, task)| *task).collect();
                let home = tasks.first().map_or(0, |(site, _)| *site);
                self.push(TaskKind::Reduce, tensor, tile, home, floats, &inputs)?
            }
        };
        self.made.insert((tensor, tile), task);
        Ok(task)
    }

    /// The task that makes the tile of a factor that a product needs at these coordinates.
    fn factor(
        &mut self,
        tensor: usize,
        step: usize,
        labels: &[Label],
        at: &BTreeMap<Label, u64>,
    ) -> Result<TaskId, AlgebraError> {
        let factors = self.contraction.factors.len();
        let own: BTreeMap<Label, u64> = labels.iter().map(|label| (*label, at[label])).collect();
        if let Some(producer) = tensor.checked_sub(factors) {
            return self.result(producer, &own);
        }
        let plan = self.plan;
        let (product, grid) = (&plan.products[step].product, &plan.products[step].grid);
        // A label that a factor has twice (a diagonal) is a coordinate of both axes.
        let axes = &self.contraction.factors[tensor].1;
        let tile = linear(product, axes, at);
        if let Some(&task) = self.made.get(&(tensor, tile)) {
            return Ok(task);
        }
        // One copy is in place: on the first of the sites that need it.
        let home = site_of(grid, &own);
        let task = self.push(TaskKind::Load, tensor, tile, home, elements(product, labels, at), &[])?;
        self.made.insert((tensor, tile), task);
        Ok(task)
    }
}

/// The site of coordinates on a grid; labels without one count as 0.
fn site_of(grid: &Grid, at: &BTreeMap<Label, u64>) -> u64 {
    grid.sites.iter().fold(0, |site, (label, &n)| site * n + at.get(label).copied().unwrap_or(0) % n)
}

fn linear(product: &Product, labels: &[Label], at: &BTreeMap<Label, u64>) -> u64 {
    labels.iter().fold(0, |tile, &label| tile * product.tiles(label) + at[&label])
}

fn elements(product: &Product, labels: &[Label], at: &BTreeMap<Label, u64>) -> u64 {
    let extent = |label: &Label| {
        let (extent, block) = (product.extents[label], product.blocks[label].max(1));
        block.min(extent.saturating_sub(at[label] * block))
    };
    labels.iter().map(extent).product()
}

/// All coordinates within counts, in C order.
fn coordinates(counts: &[u64]) -> impl Iterator<Item = Vec<u64>> + use<> {
    let dims: Vec<usize> = counts.iter().map(|&n| n as usize).collect();
    crate::array::positions(&dims).map(|at| at.into_iter().map(|n| n as u64).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{Index, Slot};
    use crate::grid::Objective;
    use crate::plan::{PlanOptions, plan_contraction};
    use proptest::prelude::*;

    fn chain(extents: &[u64]) -> Contraction {
        let last = extents.len() as u32 - 1;
        Contraction {
            factors: (0..last).map(|at| (Slot(at as usize), vec![Index(at), Index(at + 1)])).collect(),
            output: vec![Index(0), Index(last)],
            extents: extents.iter().enumerate().map(|(at, &n)| (Index(at as u32), n)).collect(),
        }
    }

    fn planned(contraction: &Contraction, sites: u64, block: u64) -> ContractionPlan {
        let options = PlanOptions { sites, block, objective: Objective::Moved, budget_floats: None };
        plan_contraction(contraction, &options).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

        #[test]
        fn the_graph_moves_what_the_plan_says(
            extents in prop::collection::vec(1..30u64, 3..6), sites in 1..9u64, block in 2..9u64,
        ) {
            let contraction = chain(&extents);
            let plan = planned(&contraction, sites, block);
            let graph = TaskGraph::build(&contraction, &plan, None).unwrap();
            prop_assert_eq!(graph.moved_floats(), plan.moved_floats);
            for (id, task) in graph.tasks().enumerate() {
                prop_assert!(task.inputs.iter().all(|&input| (input as usize) < id), "inputs come first");
                prop_assert!((task.site as u64) < sites);
            }
            let dependents = graph.dependents();
            for (id, &count) in dependents.iter().enumerate() {
                prop_assert!(count > 0 || graph.outputs().contains(&(id as u32)), "nothing is made in vain");
            }
        }

        #[test]
        fn only_what_is_asked_for_gets_tasks(i in 0..4u64, j in 0..4u64, sites in 1..9u64) {
            let contraction = chain(&[8, 6, 8]);
            let plan = planned(&contraction, sites, 2);
            let graph = TaskGraph::build(&contraction, &plan, Some(&[vec![i, j], vec![i, j]])).unwrap();
            let loads: Vec<(usize, u64)> =
                graph.tasks().filter(|task| task.kind == TaskKind::Load).map(|task| (task.tensor, task.tile)).collect();
            let expected: BTreeSet<(usize, u64)> = (0..3).flat_map(|k| [(0, i * 3 + k), (1, k * 4 + j)]).collect();
            prop_assert_eq!(loads.len(), 6);
            prop_assert_eq!(loads.into_iter().collect::<BTreeSet<_>>(), expected);
            prop_assert_eq!(graph.outputs().len(), 1);
        }
    }

    #[test]
    fn products_of_one_tile_are_one_task() {
        let contraction = chain(&[40, 60, 40]);
        let graph = TaskGraph::build(&contraction, &planned(&contraction, 1, 10), None).unwrap();
        let count = |kind| graph.tasks().filter(|task| task.kind == kind).count();
        assert_eq!((count(TaskKind::Load), count(TaskKind::Multiply), count(TaskKind::Reduce)), (48, 16, 0));
        let first = graph.task(graph.outputs()[0]).unwrap();
        let k: Vec<u64> =
            first.inputs.iter().step_by(2).map(|&left| graph.task(left).unwrap().tile).collect();
        assert_eq!(k, [0, 1, 2, 3, 4, 5], "k ascending");
        assert_eq!(graph.task(1_000_000), None);
        assert!(TaskGraph::build(&contraction, &planned(&contraction, 1, 10), Some(&[vec![4, 0]])).is_err());
    }

    #[test]
    fn a_million_multiplications_stay_small() {
        let contraction = chain(&[10_000, 10_000, 10_000]);
        let graph = TaskGraph::build(&contraction, &planned(&contraction, 10, 100), None).unwrap();
        let products: usize = graph
            .tasks()
            .filter(|task| task.kind == TaskKind::Multiply)
            .map(|task| task.inputs.len() / 2)
            .sum();
        assert_eq!(products, 1_000_000);
        assert!(graph.size_bytes() < 20_000_000, "{} bytes", graph.size_bytes());
    }
}
