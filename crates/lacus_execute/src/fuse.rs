//! Which tasks are done at one go: a formula of what another task has just made finishes that tile in place.
//!
//! ```text
//! S[0,0] = Σ x[0,k] W[k,0]        units of S as ever, and with the last one, while a part of the tile is in a cache,
//! H[0,0] = relu(S[0,0] + b[0])    that part becomes the one of H: one tile, and no way to memory and back
//! ```
//!
//! A task is fused with the only one that reads its tile. There is no other way from the one to the other, so nobody waits
//! for himself. No bit depends on it.

use crate::sparsity::Densities;
use lacus_algebra::expr::{Element, ElementNode, Index, Slot};
use lacus_algebra::{Made, Operator, ProgramPlan, TaskGraph, TaskId, TaskKind};
use lacus_tensor::DType;
use std::collections::HashMap;

/// Tiles that the formulas of a unit may read, apart from their own: they are in memory beside what the unit reads itself.
const MOST_TILES: usize = 6;

/// What decides which tasks may be fused.
pub(crate) struct Fusing<'a> {
    /// Values that can stay sparse, which are not made part by part.
    pub(crate) sparse: &'a Densities,
    /// Only on the same site, as moves are counted.
    pub(crate) on_one_site: bool,
    /// Every value is looked at on its own.
    pub(crate) is_off: bool,
}

/// The tasks of a graph that are done at one go with another one.
pub(crate) struct Fused {
    /// For each task the formula that takes its tile over, or itself.
    next: Vec<TaskId>,
    /// For each task the first of those that it is done with: the one whose units they are.
    heads: Vec<TaskId>,
    /// For each task the last of them: the one that leaves the tile behind.
    tails: Vec<TaskId>,
}

impl Fused {
    /// Finds them.
    pub(crate) fn of(plan: &ProgramPlan, graph: &TaskGraph, how: &Fusing<'_>) -> Fused {
        let own: Vec<TaskId> = (0..graph.len() as TaskId).collect();
        let mut fused = Fused { next: own.clone(), heads: own.clone(), tails: own };
        if how.is_off {
            return fused;
        }
        let (mut users, mut last) = (vec![0u32; graph.len()], vec![graph.len(); graph.len()]);
        for (id, task) in graph.tasks().enumerate() {
            for &input in task.inputs {
                let is_new = std::mem::replace(&mut last[input as usize], id) != id;
                users[input as usize] += u32::from(is_new);
            }
        }
        for output in graph.outputs() {
            output.tiles.iter().for_each(|&(_, task)| users[task as usize] += 1);
        }
        let mut pairs: HashMap<(Slot, Slot), bool> = HashMap::new();
        let mut tiles = vec![0; graph.len()];
        for (id, task) in graph.tasks().enumerate().filter(|(_, task)| task.kind == TaskKind::Apply) {
            let mut found: Option<(TaskId, bool)> = None;
            for &input in task.inputs.iter().filter(|&&input| users[input as usize] == 1) {
                let Some(maker) = graph.task(input) else { continue };
                let is_fold = match maker.kind {
                    TaskKind::Accumulate | TaskKind::Reduce => true,
                    TaskKind::Apply => false,
                    TaskKind::Load | TaskKind::Given | TaskKind::Carry => continue,
                };
                let is_here = maker.tile == task.tile && (!how.on_one_site || maker.site == task.site);
                let fits = *pairs
                    .entry((maker.value, task.value))
                    .or_insert_with(|| is_finished_by(plan, maker.value, task.value, how.sparse));
                // Folds take longer than formulas: what they make is worth more where it is.
                if is_here && fits && found.is_none_or(|(_, other)| is_fold && !other) {
                    found = Some((input, is_fold));
                }
            }
            let Some((input, _)) = found else { continue };
            let mut others = task.inputs.to_vec();
            others.sort_unstable();
            others.dedup();
            let count = tiles[input as usize] + others.len() - 1;
            if count <= MOST_TILES {
                tiles[id] = count;
                fused.next[input as usize] = id as TaskId;
                fused.heads[id] = fused.heads[input as usize];
            }
        }
        // Tasks come after what they read.
        for id in (0..graph.len()).rev() {
            fused.tails[id] = match fused.next[id] as usize {
                next if next == id => id as TaskId,
                next => fused.tails[next],
            };
        }
        fused
    }

    /// The first of those that a task is done with: itself, for most.
    pub(crate) fn head(&self, task: TaskId) -> TaskId {
        self.heads[task as usize]
    }

    /// Tasks, each with the formula that takes its tile over.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (TaskId, TaskId)> {
        (0..).zip(self.next.iter().copied()).filter(|(task, next)| task != next)
    }

    /// Those that are done after a task in the same place, in their order.
    pub(crate) fn after(&self, task: TaskId) -> Vec<TaskId> {
        let mut all = Vec::new();
        let mut at = task;
        while self.next[at as usize] != at {
            at = self.next[at as usize];
            all.push(at);
        }
        all
    }

    /// The task that leaves behind what is made where another one began: itself, for most.
    pub(crate) fn tail(&self, task: TaskId) -> TaskId {
        self.tails[task as usize]
    }
}

/// Whether a value is a formula of another one, element by element, that can be put in its place.
fn is_finished_by(plan: &ProgramPlan, from: Slot, to: Slot, sparse: &Densities) -> bool {
    let network = &plan.network;
    let made_by = |slot: Slot| match network.value(slot).made {
        Made::Operator(at) => Some(&network.operators[at]),
        _ => None,
    };
    let (Some(operator), Some(maker)) = (made_by(to), made_by(from)) else { return false };
    let is_dense = |slot: Slot| !sparse.contains_key(&slot);
    // A formula is made part by part, and would make what it reads dense for each of them.
    if maker.fold.is_none() && !maker.reads.iter().all(|read| is_dense(read.value)) {
        return false;
    }
    let dims = &network.value(to).dims;
    operator.fold.is_none()
        && network.value(from).dtype == network.value(to).dtype
        && network.value(from).dims == *dims
        && plan.tiles(from).blocks == plan.tiles(to).blocks
        && is_dense(from)
        && is_dense(to)
        && operator.reads.iter().all(|read| {
            is_dense(read.value)
                && has_one_tile(plan, operator, read)
                && (read.value != from || is_place_by_place(read))
        })
        // Whether a divisor of zero was really looked at can be told only as long as everything is there.
        && !divides(&operator.body)
}

/// Whether a read goes index by index along whole axes: then it needs one tile.
fn has_one_tile(plan: &ProgramPlan, operator: &Operator, read: &lacus_algebra::Read) -> bool {
    let labels = plan.label_tiles(operator);
    let dims = &plan.network.value(read.value).dims;
    let blocks = plan.tiles(read.value).blocks;
    read.at.iter().enumerate().all(|(axis, at)| {
        at.as_index().is_some_and(|index| {
            let label = index.0 as usize;
            labels.dims[label] == dims[axis] && labels.blocks[label] == blocks[axis]
        })
    })
}

fn is_place_by_place(read: &lacus_algebra::Read) -> bool {
    read.at.iter().enumerate().all(|(axis, at)| at.as_index() == Some(Index(axis as u32)))
}

/// Whether there is a remainder or a quotient of integers, for which a divisor of zero is an error.
fn divides(element: &Element) -> bool {
    let is_one = |dtype: DType| !matches!(dtype, DType::F32 | DType::F64);
    matches!(element.node, ElementNode::Binary(op, ..) if op.divides_whole()) && is_one(element.dtype)
        || element.parts().into_iter().any(divides)
}
