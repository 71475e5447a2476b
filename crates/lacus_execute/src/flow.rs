//! The flow of a program: stretches of tasks, and loops around them.
//!
//! A stretch between loops is one graph. A loop's body is planned once, and its units are made once unless counters
//! decide what is read. What a loop carries from round to round are the same tiles under another name.

use crate::engine::Engine;
use crate::error::ExecuteError;
use crate::memory::TileId;
use crate::units::{Unit, Units, depends_on_counters};
use lacus_algebra::expr::Slot;
use lacus_algebra::{FlowNode, Known, Made, Task, TaskGraph, TaskId, TaskKind, Until};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What a loop carries: the tiles of each value.
pub(crate) type CarriedTiles = Vec<(Slot, Vec<TileId>)>;

/// Rounds of loops and what was carried, for those who want to write it down.
pub(crate) trait Rounds {
    /// An outermost loop begins, or goes on from where it was.
    fn begin(&mut self, of: usize);
    /// A round of an outermost loop is over, and it is not known to be the last one. `carried` has what goes on.
    fn over(&mut self, of: usize, round: u64, carried: &[(Slot, Vec<TileId>)]) -> Result<(), ExecuteError>;
    /// Where an outermost loop goes on from, if it was interrupted: rounds that are done, and what was carried.
    fn resume(&mut self, of: usize) -> Result<Option<(u64, CarriedTiles)>, ExecuteError>;
}

/// Runs the flow of a plan.
pub(crate) struct Flow<'e, 'a> {
    engine: &'e Engine<'a>,
    /// Tiles that outlive the stretch they were made in.
    store: HashMap<(Slot, u32), TileId>,
    /// Tiles that are loaded within loops.
    loads: HashMap<(Slot, u32), TileId>,
    loaded_in_loops: HashSet<Slot>,
    /// Graphs of stretches that are yet to come, and are the same whenever they do, by where they are in the flow.
    graphs: HashMap<usize, Arc<(TaskGraph, Units)>>,
    /// Rounds that are left.
    rounds: u64,
    allowed: u64,
    depth: usize,
    /// Values whose tiles are made in memory of the caller.
    in_place: HashSet<Slot>,
    /// Likewise in the last round of an outermost loop, and whether that is now.
    in_last_round: HashSet<Slot>,
    is_last_round: bool,
    /// Which tile is which for those who count moves: one that a loop carries on is another one in the next round.
    names: HashMap<(Slot, u32), u64>,
    next_name: u64,
}

/// Loops, and what is between them.
fn stretches(flow: &[FlowNode]) -> impl Iterator<Item = &[FlowNode]> {
    let is_loop = |node: &FlowNode| matches!(node, FlowNode::Loop(_));
    flow.chunk_by(move |a, b| !is_loop(a) && !is_loop(b))
}

impl<'e, 'a> Flow<'e, 'a> {
    pub(crate) fn new(
        engine: &'e Engine<'a>,
        rounds: u64,
        in_place: HashSet<Slot>,
        in_last_round: HashSet<Slot>,
    ) -> Flow<'e, 'a> {
        let network = &engine.plan.network;
        let mut loaded_in_loops = HashSet::new();
        for at in network.running() {
            let operator = &network.operators[at];
            if operator.scope != 0 {
                loaded_in_loops.extend(operator.reads.iter().map(|read| read.value));
            }
        }
        Flow {
            engine,
            store: HashMap::new(),
            loads: HashMap::new(),
            loaded_in_loops,
            graphs: HashMap::new(),
            rounds,
            allowed: rounds,
            depth: 0,
            in_place,
            in_last_round,
            is_last_round: false,
            names: HashMap::new(),
            next_name: 0,
        }
    }

    /// All of it. Fails before anything is done if a step of it is not going to fit.
    pub(crate) fn run(&mut self, rounds: &mut dyn Rounds) -> Result<(), ExecuteError> {
        let plan = self.engine.plan;
        let most = self.most(&plan.network.flow, &mut Known::new())?;
        self.engine.check_budget(most)?;
        self.flow(&plan.network.flow, &mut Known::new(), rounds)
    }

    /// The step that needs most, as far as one can tell without running: loops are looked at in their first rounds and in the
    /// last one.
    fn most(&mut self, flow: &'a [FlowNode], known: &mut Known) -> Result<Option<(u64, Slot)>, ExecuteError> {
        let plan = self.engine.plan;
        let mut most = None;
        for part in stretches(flow) {
            let found = match part {
                [FlowNode::Loop(of)] => {
                    let node = &plan.network.loops[*of];
                    let rounds = match &node.until {
                        Until::Counted(counter, from, to) => {
                            let number = |at| plan.network.position(at, known).unwrap_or(0);
                            let (from, to) = (number(from), number(to));
                            let mut rounds = vec![from, from.saturating_add(1), to.saturating_sub(1)];
                            rounds.retain(|&n| n >= from && n < to);
                            rounds.dedup();
                            rounds.into_iter().map(|n| Some((*counter, n))).collect()
                        }
                        Until::Is(..) => vec![None],
                    };
                    self.depth += 1;
                    let mut most = None;
                    for round in rounds {
                        known.extend(round);
                        most = most.max(self.most(&node.before, known)?);
                        most = most.max(self.most(&node.after, known)?);
                    }
                    self.depth -= 1;
                    if let Until::Counted(counter, ..) = &node.until {
                        known.remove(counter);
                    }
                    most
                }
                part => {
                    let found = self.graph(part, known)?;
                    let (graph, units) = &*found;
                    if !(self.depth > 0 && depends_on_counters(plan, part)) {
                        self.graphs.insert(part.as_ptr() as usize, Arc::clone(&found));
                    }
                    let finals: HashSet<TaskId> = graph
                        .outputs()
                        .iter()
                        .flat_map(|output| output.tiles.iter().map(|(_, task)| *task))
                        .collect();
                    let bytes = |id| {
                        let tail = units.fused.tail(id);
                        graph.task(tail).map_or(0, |task| self.expected(&task, finals.contains(&tail)))
                    };
                    let need = |unit: &Unit| (self.engine.need(graph, unit, bytes), unit.task);
                    let most = units.all.iter().map(need).max();
                    most.and_then(|(need, task)| Some((need, graph.task(task)?.value)))
                }
            };
            most = most.max(found);
        }
        Ok(most)
    }

    /// Bytes that the tile of a task is going to take, at least. One that is final, or was, may be a part of a result.
    fn expected(&self, task: &Task<'_>, is_final: bool) -> u64 {
        let engine = self.engine;
        let is_in_place = |value: Slot| {
            (is_final || task.kind == TaskKind::Given)
                && (self.in_place.contains(&value) || self.in_last_round.contains(&value))
        };
        match task.kind {
            TaskKind::Load if engine.loads.resident(task.value, task.tile).is_some() => 0,
            TaskKind::Load => engine.loads.bytes(task.value, task.tile),
            _ if is_in_place(task.value) => 0,
            _ => engine.tile_bytes(task.value, task.tile),
        }
    }

    /// The graph of a stretch, and its units.
    fn graph(&self, part: &'a [FlowNode], known: &Known) -> Result<Arc<(TaskGraph, Units)>, ExecuteError> {
        if let Some(found) = self.graphs.get(&(part.as_ptr() as usize)) {
            return Ok(Arc::clone(found));
        }
        let graph = TaskGraph::of_part(self.engine.plan, part, known)?;
        let units = self.engine.units(&graph)?;
        Ok(Arc::new((graph, units)))
    }

    fn flow(
        &mut self,
        flow: &'a [FlowNode],
        known: &mut Known,
        rounds: &mut dyn Rounds,
    ) -> Result<(), ExecuteError> {
        for part in stretches(flow) {
            match part {
                [FlowNode::Loop(of)] => self.looping(*of, known, rounds)?,
                part => self.part(part, known)?,
            }
        }
        Ok(())
    }

    fn looping(&mut self, of: usize, known: &mut Known, rounds: &mut dyn Rounds) -> Result<(), ExecuteError> {
        let plan = self.engine.plan;
        let node = &plan.network.loops[of];
        let is_outermost = self.depth == 0;
        let mut done = 0;
        let resumed = if is_outermost { rounds.resume(of)? } else { None };
        match resumed {
            Some((rounds, carried)) => {
                done = rounds;
                self.rounds =
                    self.rounds.checked_sub(done).ok_or(ExecuteError::Rounds { rounds: self.allowed })?;
                for (slot, tiles) in carried {
                    self.bind(slot, slot, tiles);
                }
            }
            None => {
                for carried in &node.carried {
                    let tiles = self.tiles_of(carried.enter)?;
                    self.bind(carried.inside, carried.enter, tiles);
                }
            }
        }
        if is_outermost {
            rounds.begin(of);
        }
        let numbers = match &node.until {
            Until::Counted(_, from, to) => {
                let of = |at| plan.network.position(at, known).unwrap_or(0);
                of(from).saturating_add_unsigned(done)..of(to)
            }
            Until::Is(..) => done as i64..i64::MAX,
        };
        self.depth += 1;
        let last = numbers.end.saturating_sub(1);
        for n in numbers {
            self.rounds = self.rounds.checked_sub(1).ok_or(ExecuteError::Rounds { rounds: self.allowed })?;
            if let Until::Counted(counter, ..) = node.until {
                known.insert(counter, n);
            }
            if is_outermost {
                self.is_last_round = n == last;
            }
            self.flow(&node.before, known, rounds)?;
            self.engine.count_round();
            if let Until::Is(condition, ends_when) = node.until {
                let tile = self.tile(condition, 0)?;
                let found = self.engine.fetch(tile)?;
                let truth = found.dense().scalar().is_some_and(|truth| truth.is_true());
                if truth == ends_when {
                    break;
                }
                self.flow(&node.after, known, rounds)?;
            }
            // All at once: one may become what another was.
            let mut next = Vec::new();
            for carried in &node.carried {
                let tiles = self.tiles_of(carried.next)?;
                tiles.iter().for_each(|&tile| self.engine.keep(tile));
                let names: Vec<u64> =
                    (0..tiles.len() as u32).map(|tile| self.name(carried.next, tile)).collect();
                next.push((carried.inside, carried.next, tiles, names));
            }
            for (inside, from, tiles, names) in next {
                self.carry(inside, from, &names);
                for (at, &tile) in tiles.iter().enumerate() {
                    self.put((inside, at as u32), tile);
                }
                tiles.iter().for_each(|&tile| self.engine.release(tile));
            }
            done += 1;
            // After the last round there would be none that makes what only rounds make.
            if is_outermost && n < last {
                let mut carried = Vec::new();
                for each in &node.carried {
                    carried.push((each.inside, self.tiles_of(each.inside)?));
                }
                rounds.over(of, done, &carried)?;
            }
        }
        self.depth -= 1;
        if is_outermost {
            self.is_last_round = false;
        }
        if let Until::Counted(counter, ..) = node.until {
            known.remove(&counter);
        }
        Ok(())
    }

    /// Gives tiles of one value to another, which keeps them.
    fn bind(&mut self, value: Slot, from: Slot, tiles: Vec<TileId>) {
        let names: Vec<u64> = (0..tiles.len() as u32).map(|tile| self.name(from, tile)).collect();
        self.carry(value, from, &names);
        for (at, tile) in tiles.into_iter().enumerate() {
            self.put((value, at as u32), tile);
        }
    }

    fn fresh_name(&mut self) -> u64 {
        self.next_name += 1;
        self.next_name
    }

    /// What a tile is known as.
    fn name(&mut self, value: Slot, tile: u32) -> u64 {
        match self.names.get(&(value, tile)) {
            Some(&name) => name,
            None => {
                let name = self.fresh_name();
                self.names.insert((value, tile), name);
                name
            }
        }
    }

    /// Tiles go to where the loop has them.
    fn carry(&mut self, inside: Slot, from: Slot, names: &[u64]) {
        let plan = self.engine.plan;
        let home = |slot: Slot, tile: usize| {
            plan.placed.get(&slot).and_then(|placed| placed.homes.get(tile)).copied()
        };
        for (tile, &name) in names.iter().enumerate() {
            if let (Some(to), Some(at)) = (home(inside, tile), home(from, tile))
                && to != at
            {
                let floats = plan.tiles(inside).shape(&plan.tiles(inside).coordinates(tile)).iter().product();
                self.engine.count_move(name, to, floats, plan.network.value(inside).dtype);
            }
            let fresh = self.fresh_name();
            self.names.insert((inside, tile as u32), fresh);
        }
    }

    fn put(&mut self, key: (Slot, u32), tile: TileId) {
        self.engine.keep(tile);
        if let Some(before) = self.store.insert(key, tile) {
            self.engine.release(before);
        }
    }

    fn tiles_of(&mut self, value: Slot) -> Result<Vec<TileId>, ExecuteError> {
        (0..self.engine.plan.tiles(value).len() as u32).map(|tile| self.tile(value, tile)).collect()
    }

    /// A tile that is there or can be loaded.
    fn tile(&mut self, value: Slot, tile: u32) -> Result<TileId, ExecuteError> {
        if let Some(&found) = self.store.get(&(value, tile)) {
            return Ok(found);
        }
        let plan = self.engine.plan;
        if !matches!(plan.network.value(value).made, Made::Load(_)) {
            let name = &plan.network.value(value).name;
            return Err(ExecuteError::Internal { what: format!("tile {tile} of '{name}' is missing") });
        }
        if let Some(&found) = self.loads.get(&(value, tile)) {
            return Ok(found);
        }
        let found = self.engine.add_load(value, tile);
        self.engine.keep(found);
        self.loads.insert((value, tile), found);
        Ok(found)
    }

    /// Whether this is the round that makes a result.
    fn is_made_last(&self, value: Slot) -> bool {
        self.is_last_round && self.in_last_round.contains(&value)
    }

    fn part(&mut self, part: &'a [FlowNode], known: &Known) -> Result<(), ExecuteError> {
        let found = self.graph(part, known)?;
        if self.depth == 0 {
            // It comes only once.
            self.graphs.remove(&(part.as_ptr() as usize));
        }
        let (graph, units) = &*found;
        // The tasks that finish tiles of results, and those whose tiles go on.
        let (mut finals, mut going_on) = (HashSet::new(), Vec::new());
        for output in graph.outputs() {
            match output.name {
                Some(_) => finals.extend(output.tiles.iter().map(|(_, task)| *task)),
                None => {
                    going_on.extend(output.tiles.iter().map(|&(tile, task)| ((output.value, tile), task)));
                    if self.is_made_last(output.value) {
                        finals.extend(output.tiles.iter().map(|(_, task)| *task));
                    }
                }
            }
        }
        let mut tiles = Vec::with_capacity(graph.len());
        for (id, task) in graph.tasks().enumerate() {
            // What is finished in place is one tile, and that of the one who finishes it.
            let tail = units.fused.tail(id as u32);
            tiles.push(match task.kind {
                _ if tail != id as u32 => TileId::MAX,
                TaskKind::Load if self.depth == 0 && !self.loaded_in_loops.contains(&task.value) => {
                    match self.loads.get(&(task.value, task.tile)) {
                        Some(&found) => found,
                        None => self.engine.add_load(task.value, task.tile),
                    }
                }
                TaskKind::Load | TaskKind::Given => self.tile(task.value, task.tile)?,
                _ if finals.contains(&(id as u32))
                    && (self.in_place.contains(&task.value) || self.is_made_last(task.value)) =>
                {
                    self.engine.add_made(0)
                }
                _ => self.engine.add_made(self.engine.tile_bytes(task.value, task.tile).max(1)),
            });
        }
        for id in 0..tiles.len() {
            tiles[id] = tiles[units.fused.tail(id as u32) as usize];
        }
        going_on.iter().for_each(|(_, task)| self.engine.keep(tiles[*task as usize]));
        let mut names = Vec::new();
        if self.engine.counts_moves {
            for task in graph.tasks() {
                names.push(match task.kind {
                    TaskKind::Load | TaskKind::Given => self.name(task.value, task.tile),
                    _ => self.fresh_name(),
                });
            }
        }
        self.engine.run(graph, units, &tiles, &names, known)?;
        for name in graph.outputs().iter().filter_map(|output| output.name.as_ref()) {
            self.engine.results.saved(name)?;
        }
        for (key, task) in going_on {
            let tile = tiles[task as usize];
            if let Some(&name) = names.get(task as usize) {
                self.names.insert(key, name);
            }
            self.put(key, tile);
            self.engine.release(tile);
        }
        Ok(())
    }
}
