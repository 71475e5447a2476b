//! The order of tasks: on each site one after another, such that what is started is finished soon and what is loaded is
//! loaded for a task that is next.
//!
//! One walk over the whole graph, depth first from what is asked for, decides it. Before a task come the tasks it
//! reads, those with the longest chain behind them first: their inputs are gone when the short ones come into memory.
//! Each site does its own tasks in the order of the walk, so that no site waits for one that waits for it. Only what is
//! quickly made of stored tiles and wanted elsewhere is done a little ahead, so that it arrives in time.

use crate::task_graph::{TaskGraph, TaskId, TaskKind};
use std::collections::VecDeque;

/// Who does what, in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// All tasks, each after those it reads.
    pub order: Vec<TaskId>,
    /// The tasks of each site in order.
    pub sites: Vec<Vec<TaskId>>,
}

impl Schedule {
    /// For every task its place in the order, and that of the last task that reads its tile: how long the tile has to
    /// be kept. What nobody reads is kept no longer than it takes to write it out.
    pub fn lifetimes(&self, graph: &TaskGraph) -> Vec<(u32, u32)> {
        let mut all = vec![(0, 0); graph.len()];
        for (at, &id) in self.order.iter().enumerate() {
            all[id as usize] = (at as u32, at as u32);
            for &input in graph.task(id).iter().flat_map(|task| task.inputs) {
                all[input as usize].1 = at as u32;
            }
        }
        all
    }
}

/// The schedule of a graph on so many sites.
pub fn schedule(graph: &TaskGraph, sites: u64) -> Schedule {
    let depths = depths(graph);
    let mut order = Vec::with_capacity(graph.len());
    // 0: not seen, 1: its inputs are being walked, 2: done.
    let mut state = vec![0u8; graph.len()];
    let dependents = graph.dependents();
    let asked = graph.outputs().iter().flat_map(|output| output.tiles.iter().map(|(_, task)| *task));
    // What a loop carries on may be read by nobody yet.
    let loose = (0..graph.len() as TaskId).filter(|&task| dependents[task as usize] == 0);
    let mut open: Vec<TaskId> = Vec::new();
    let mut inputs: Vec<TaskId> = Vec::new();
    for root in asked.chain(loose) {
        open.push(root);
        while let Some(&task) = open.last() {
            let at = task as usize;
            let Some(found) = graph.task(task).filter(|_| state[at] == 0) else {
                open.pop();
                if state[at] == 1 {
                    state[at] = 2;
                    order.push(task);
                }
                continue;
            };
            state[at] = 1;
            inputs.clear();
            inputs.extend(found.inputs.iter().filter(|&&input| state[input as usize] == 0));
            // The last one pushed is walked first.
            inputs.reverse();
            inputs.sort_by_key(|&input| depths[input as usize]);
            open.extend_from_slice(&inputs);
        }
    }
    let order = ahead(graph, order, &depths, sites);
    let mut by_site = vec![Vec::new(); sites.max(1) as usize];
    for &task in &order {
        if let Some(found) = graph.task(task) {
            by_site[found.site as usize].push(task);
        }
    }
    Schedule { order, sites: by_site }
}

/// Accumulations of a site before which it does what others wait for: one during which it is sent, and one to spare.
const AHEAD: usize = 2;

/// Moves tasks that make a tile of stored ones for another site before the last accumulations of their site.
fn ahead(graph: &TaskGraph, order: Vec<TaskId>, depths: &[u32], sites: u64) -> Vec<TaskId> {
    let mut is_sent = vec![false; graph.len()];
    for task in graph.tasks() {
        for &input in task.inputs {
            is_sent[input as usize] |= graph.task(input).is_some_and(|from| from.site != task.site);
        }
    }
    let mut before: Vec<VecDeque<usize>> = vec![VecDeque::from(vec![0; AHEAD]); sites.max(1) as usize];
    // Places are doubled, so that there is one before each.
    let mut places: Vec<usize> = vec![usize::MAX; graph.len()];
    for (at, &id) in order.iter().enumerate() {
        let Some(task) = graph.task(id) else { continue };
        let own = &mut before[task.site as usize];
        places[id as usize] = 2 * at + 1;
        if task.kind == TaskKind::Apply && depths[id as usize] <= 1 && is_sent[id as usize] {
            places[id as usize] = (2 * own[0]).min(2 * at + 1);
            for &input in task.inputs {
                places[input as usize] = places[input as usize].min(places[id as usize]);
            }
        } else if task.kind == TaskKind::Accumulate {
            own.pop_front();
            own.push_back(at);
        }
    }
    let mut result: Vec<(usize, u32, usize, TaskId)> = order
        .into_iter()
        .enumerate()
        .map(|(at, id)| (places[id as usize], depths[id as usize].min(1), at, id))
        .collect();
    result.sort_unstable();
    result.into_iter().map(|(.., id)| id).collect()
}

/// The longest chain of tasks behind each task; tiles that are there have none.
fn depths(graph: &TaskGraph) -> Vec<u32> {
    let mut depths: Vec<u32> = Vec::with_capacity(graph.len());
    for task in graph.tasks() {
        let deepest = task.inputs.iter().map(|&input| depths[input as usize] + 1).max().unwrap_or(0);
        depths.push(if matches!(task.kind, TaskKind::Load | TaskKind::Given) { 0 } else { deepest });
    }
    depths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{PROGRAMS, checked};
    use crate::machine::PlanOptions;
    use crate::plan::plan;
    use crate::task_graph::GraphOptions;

    #[test]
    fn every_task_comes_once_after_what_it_reads() {
        for text in PROGRAMS {
            let options = PlanOptions { sites: 4, block: Some(2), ..PlanOptions::default() };
            let planned = plan(&checked(text), &options).unwrap();
            let graph = TaskGraph::build(&planned, &GraphOptions::default()).unwrap();
            let schedule = schedule(&graph, 4);
            let mut done = vec![false; graph.len()];
            for &id in &schedule.order {
                let task = graph.task(id).unwrap();
                assert!(task.inputs.iter().all(|&input| done[input as usize]), "{text}");
                assert!(!std::mem::replace(&mut done[id as usize], true));
            }
            assert!(done.iter().all(|&done| done));
            for (id, &(made, last)) in schedule.lifetimes(&graph).iter().enumerate() {
                assert!(made <= last && schedule.order[made as usize] == id as TaskId);
            }
            let by_site: usize = schedule.sites.iter().map(Vec::len).sum();
            assert_eq!(by_site, graph.len());
        }
    }
}
