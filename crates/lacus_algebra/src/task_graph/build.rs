//! Forwards over what runs, to make tasks for the tiles that are needed.

use super::needed::{needed, ranges};
use super::unroll::{Doing, Instances};
use super::{Output, TaskGraph, TaskId, TaskKind};
use crate::error::AlgebraError;
use crate::expr::Slot;
use crate::network::{Made, Read};
use crate::plan::ProgramPlan;
use crate::spread::Spread;
use crate::tiling::{Tiles, each_of};
use crate::touch::{Ranges, Tiled};
use std::collections::{BTreeMap, HashMap};

/// Inputs of all tasks together, at most: two gigabytes of them.
const MAX_INPUTS: usize = 1 << 29;

/// No task.
const NONE: TaskId = TaskId::MAX;

pub(super) fn build(
    plan: &ProgramPlan,
    instances: Instances,
    asked: &BTreeMap<String, Vec<Vec<u64>>>,
) -> Result<TaskGraph, AlgebraError> {
    let wanted = needed(plan, &instances, asked)?;
    let mut builder =
        Builder { plan, graph: TaskGraph::default(), made: HashMap::new(), tiles: HashMap::new() };
    builder.graph.known = instances.known;
    for ((doing, round), wanted) in instances.all.iter().zip(wanted) {
        match doing {
            Doing::Operator(at) => builder.operator(*at, *round, &wanted)?,
            Doing::Carry { inside, from } => builder.carry(*inside, *from, *round)?,
            Doing::Output(name, slot) => builder.output(name.clone(), *slot, *round, &wanted)?,
        }
    }
    Ok(builder.graph)
}

/// How to find the tile that a read needs, quickly where it has the tiles of its labels.
enum Route {
    Strides(Vec<(usize, usize)>),
    Search(Tiles),
}

impl Route {
    fn of(tiled: &Tiled<'_>, read: &Read, tensor: Tiles) -> Route {
        let mut strides = Vec::new();
        let mut stride = 1;
        for (axis, at) in read.at.iter().enumerate().rev() {
            match at.as_index().map(|index| index.0 as usize) {
                Some(label) if tiled.labels.dims[label] == tensor.dims[axis] => strides.push((label, stride)),
                _ => return Route::Search(tensor),
            }
            stride *= tensor.counts[axis] as usize;
        }
        if read.under.is_empty() { Route::Strides(strides) } else { Route::Search(tensor) }
    }
}

struct Builder<'a> {
    plan: &'a ProgramPlan,
    graph: TaskGraph,
    /// The task that makes each tile of the current version of a value.
    made: HashMap<Slot, Vec<TaskId>>,
    tiles: HashMap<Slot, usize>,
}

impl Builder<'_> {
    fn push(
        &mut self,
        kind: TaskKind,
        value: Slot,
        tile: usize,
        site: u32,
        round: u32,
        inputs: &[TaskId],
    ) -> Result<TaskId, AlgebraError> {
        let too_many = || AlgebraError::Argument {
            what: "a task graph",
            expected: "of a size that fits memory: larger tiles or fewer rounds make fewer tasks",
            found: format!("one of more than {MAX_INPUTS} inputs or {} tasks", u32::MAX),
        };
        let graph = &mut self.graph;
        if graph.inputs.len() + inputs.len() > MAX_INPUTS {
            return Err(too_many());
        }
        let id = u32::try_from(graph.kinds.len()).map_err(|_| too_many())?;
        graph.kinds.push(kind);
        graph.values.push(value.0 as u32);
        graph.tiles.push(tile as u32);
        graph.sites.push(site as u16);
        graph.rounds.push(round);
        graph.inputs.extend_from_slice(inputs);
        graph.input_ends.push(graph.inputs.len() as u32);
        Ok(id)
    }

    fn count(&mut self, value: Slot) -> usize {
        let plan = self.plan;
        *self.tiles.entry(value).or_insert_with(|| plan.tiles(value).len())
    }

    /// The task that makes a tile: loaded or given if nothing has made it.
    fn source(&mut self, value: Slot, tile: usize, round: u32) -> Result<TaskId, AlgebraError> {
        if let Some(&task) = self.made.get(&value).and_then(|tasks| tasks.get(tile))
            && task != NONE
        {
            return Ok(task);
        }
        let kind = match self.plan.network.value(value).made {
            Made::Load(_) => TaskKind::Load,
            _ => TaskKind::Given,
        };
        let task = self.push(kind, value, tile, self.plan.home(value, tile), round, &[])?;
        let count = self.count(value);
        self.made.entry(value).or_insert_with(|| vec![NONE; count])[tile] = task;
        Ok(task)
    }

    fn carry(&mut self, inside: Slot, from: Slot, round: u32) -> Result<(), AlgebraError> {
        let count = self.count(inside);
        let mut tasks = Vec::with_capacity(count);
        for tile in 0..count {
            let input = self.source(from, tile, round)?;
            let site = self.plan.home(inside, tile);
            tasks.push(self.push(TaskKind::Carry, inside, tile, site, round, &[input])?);
        }
        self.made.insert(inside, tasks);
        Ok(())
    }

    fn output(
        &mut self,
        name: Option<String>,
        value: Slot,
        round: u32,
        wanted: &[bool],
    ) -> Result<(), AlgebraError> {
        let mut tiles = Vec::new();
        for tile in (0..wanted.len()).filter(|&tile| wanted[tile]) {
            tiles.push((tile as u32, self.source(value, tile, round)?));
        }
        self.graph.outputs.push(Output { name, value, tiles });
        Ok(())
    }

    fn operator(&mut self, at: usize, round: u32, wanted: &[bool]) -> Result<(), AlgebraError> {
        if !wanted.contains(&true) {
            return Ok(());
        }
        let plan = self.plan;
        let operator = &plan.network.operators[at];
        let known = ranges(&self.graph.known[round as usize]);
        let tiled = Tiled::new(&plan.network, &plan.tiling, operator);
        let routes: Vec<Route> =
            operator.reads.iter().map(|read| Route::of(&tiled, read, plan.tiles(read.value))).collect();
        // What reads nothing is made where it is needed.
        let here = Spread::Grid(vec![1; tiled.labels.counts.len()]);
        let spread = plan.operators.get(&at).map_or(&here, |planned| &planned.spread);
        let sites = spread.sites(tiled.rank);
        let is_fold = operator.fold.is_some();
        let folded: Vec<u64> = tiled.folded().to_vec();
        let mut tasks = vec![NONE; wanted.len()];
        let mut parts: Vec<(u64, Vec<TaskId>)> = Vec::new();
        let mut failed = None;
        let is_guarded = tiled.is_guarded();
        for tile in (0..wanted.len()).filter(|&tile| wanted[tile]) {
            let home = plan.home(operator.output, tile);
            let mut step = plan_coordinates(tiled.counts(), tile);
            let rank = step.len();
            parts.clear();
            each_of(&folded, &mut |inner| {
                step.truncate(rank);
                step.extend_from_slice(inner);
                if failed.is_some() || is_guarded && !tiled.lives(&step, &known) {
                    return;
                }
                let site = match plan.operators.contains_key(&at) {
                    true => sites.of(&step, &tiled.labels.counts),
                    false => u64::from(home),
                };
                let place = match parts.iter().position(|(other, _)| *other == site) {
                    Some(place) => place,
                    None => {
                        parts.push((site, Vec::new()));
                        parts.len() - 1
                    }
                };
                for (read, route) in operator.reads.iter().zip(&routes) {
                    let found = self.inputs(&tiled, read, route, &step, &known, round, &mut parts[place].1);
                    failed = failed.take().or(found.err());
                }
            });
            if let Some(error) = failed.take() {
                return Err(error);
            }
            let kind = if is_fold { TaskKind::Accumulate } else { TaskKind::Apply };
            parts.sort_by_key(|(site, _)| *site);
            if !is_fold {
                // A tile that is read at several places is one input.
                parts.iter_mut().for_each(|(_, inputs)| dedup(inputs));
            }
            tasks[tile] = match &parts[..] {
                [] => self.push(kind, operator.output, tile, home, round, &[])?,
                [(site, inputs)] if *site == u64::from(home) => {
                    self.push(kind, operator.output, tile, home, round, inputs)?
                }
                _ => {
                    let mut contributions = Vec::with_capacity(parts.len());
                    for (site, inputs) in &parts {
                        contributions.push(self.push(
                            kind,
                            operator.output,
                            tile,
                            *site as u32,
                            round,
                            inputs,
                        )?);
                    }
                    self.push(TaskKind::Reduce, operator.output, tile, home, round, &contributions)?
                }
            };
        }
        self.made.insert(operator.output, tasks);
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the step and where its inputs go; used here alone")]
    fn inputs(
        &mut self,
        tiled: &Tiled<'_>,
        read: &Read,
        route: &Route,
        step: &[u64],
        known: &Ranges,
        round: u32,
        inputs: &mut Vec<TaskId>,
    ) -> Result<(), AlgebraError> {
        match route {
            Route::Strides(strides) => {
                let tile = strides.iter().map(|&(label, stride)| step[label] as usize * stride).sum();
                inputs.push(self.source(read.value, tile, round)?);
            }
            Route::Search(tensor) => {
                let mut found = Vec::new();
                tiled.tiles(read, tensor, step, known, |tile| found.push(tile));
                for tile in found {
                    inputs.push(self.source(read.value, tile, round)?);
                }
            }
        }
        Ok(())
    }
}

fn dedup(inputs: &mut Vec<TaskId>) {
    let mut kept: Vec<TaskId> = Vec::with_capacity(inputs.len());
    for &input in inputs.iter() {
        if !kept.contains(&input) {
            kept.push(input);
        }
    }
    *inputs = kept;
}

fn plan_coordinates(counts: &[u64], tile: usize) -> Vec<u64> {
    let mut rest = tile as u64;
    let mut at = vec![0; counts.len()];
    for (at, &count) in at.iter_mut().zip(counts).rev() {
        (*at, rest) = (rest % count.max(1), rest / count.max(1));
    }
    at
}
