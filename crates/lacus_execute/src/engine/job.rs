//! The units of one graph, being done: what a worker does, and what is read ahead.

use super::{AHEAD, Engine};
use crate::error::{ExecuteError, panicked};
use crate::form::{Bench, Finish, Form, NamedTile, combine};
use crate::memory::{Place, Room, TileId};
use crate::tile::Tile;
use crate::units::{Doing, Unit, Units};
use crate::window::WindowMut;
use lacus_algebra::{Known, Task, TaskGraph, TaskId};
use lacus_tensor::DType;
use lacus_tensor::kernels::formula::Scratch;
use lacus_threads::Team;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The units of one graph, being done.
pub(super) struct Job<'e, 'a> {
    pub(super) engine: &'e Engine<'a>,
    pub(super) graph: &'e TaskGraph,
    pub(super) units: &'e Units,
    pub(super) tiles: &'e [TileId],
    /// What tiles are known as where moves are counted.
    pub(super) names: &'e [u64],
    pub(super) known: &'e Known,
    pub(super) needs: Vec<u64>,
    /// One worker does it all: the other threads are free to help with one unit.
    pub(super) is_alone: bool,
}

impl Job<'_, '_> {
    /// Operations of all units, and of the largest of them.
    pub(super) fn operations(&self) -> (f64, f64) {
        let of = |unit: &Unit| {
            let own = match (unit.doing, self.form(unit.task)) {
                (Doing::Apply | Doing::Accumulate, Some(form)) => form.operations(&unit.step),
                _ => 0.0,
            };
            let then = unit.then.iter().map(|&then| match (self.form(then), self.graph.task(then)) {
                (Some(form), Some(task)) => form.operations(&self.coordinates(&task)),
                _ => 0.0,
            });
            own + then.sum::<f64>()
        };
        self.units.all.iter().map(of).fold((0.0, 0.0), |(all, most), own| (all + own, own.max(most)))
    }

    /// What makes the tile of a task.
    fn form(&self, task: TaskId) -> Option<&Form> {
        self.graph.task(task).and_then(|task| self.engine.forms.get(&task.value))
    }

    /// Where the tile of a task is.
    fn coordinates(&self, task: &Task<'_>) -> Vec<u64> {
        self.engine.plan.tiles(task.value).coordinates(task.tile as usize)
    }

    /// What a worker does.
    pub(super) fn work(&self) {
        self.or_fail(|| self.work_until_done());
    }

    /// Does something that others wait for: if it panics, they have to hear of it.
    fn or_fail(&self, what: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(what)) {
            self.engine.lock().part.error.get_or_insert(panicked(&*panic));
            self.engine.wake.notify_all();
        }
    }

    fn work_until_done(&self) {
        let mut scratch = Scratch::new();
        while let Some(unit) = self.next() {
            let done = catch_unwind(AssertUnwindSafe(|| self.unit(unit, &mut scratch)));
            let done = done.unwrap_or_else(|panic| Err(panicked(&*panic)));
            let done = done.map_err(|error| match self.graph.task(self.units.all[unit as usize].task) {
                Some(task) => error.in_tile(self.engine.name(task.value), self.coordinates(&task)),
                None => error,
            });
            self.finish(unit, done);
            self.engine.tell();
        }
    }

    /// The first unit whose turn it is and whose memory is granted. `None` when all is done, or nothing more is to be.
    fn next(&self) -> Option<u32> {
        let mut state = self.engine.lock();
        loop {
            let budget = state.report.budget_bytes;
            let part = &mut state.part;
            if part.error.is_some() || part.left == 0 {
                return None;
            }
            if self.engine.is_cancelled() {
                part.error = Some(ExecuteError::Cancelled);
                drop(state);
                self.engine.wake.notify_all();
                return None;
            }
            let first = part.ready.peek().map(|first| first.0);
            if let Some(unit) = first {
                let need = self.needs[unit as usize];
                if part.running == 0 || part.granted + need <= budget {
                    part.ready.pop();
                    part.running += 1;
                    part.granted += need;
                    return Some(unit);
                }
            }
            state = self.engine.pause(state);
        }
    }

    /// A unit is done: what it read is released, and those that waited for it may go on.
    fn finish(&self, unit: u32, done: Result<(), ExecuteError>) {
        let mut state = self.engine.lock();
        let mut gone = Vec::new();
        if done.is_ok() {
            let inputs = &self.units.all[unit as usize].inputs;
            for (at, &task) in inputs.iter().enumerate() {
                // Pinned once, used as often as it is read.
                let was_pinned = !inputs[..at].contains(&task);
                gone.extend(state.memory.used(self.tiles[task as usize], was_pinned));
            }
        }
        state.report.done += 1;
        let part = &mut state.part;
        part.running -= 1;
        part.granted -= self.needs[unit as usize];
        part.left -= 1;
        part.is_done[unit as usize] = true;
        while part.is_done.get(part.front as usize) == Some(&true) {
            part.front += 1;
        }
        match done {
            Ok(()) => {
                for &follower in &self.units.followers[unit as usize] {
                    part.waits[follower as usize] -= 1;
                    if part.waits[follower as usize] == 0 {
                        part.ready.push(std::cmp::Reverse(follower));
                    }
                }
            }
            Err(error) => {
                part.error.get_or_insert(error);
            }
        }
        drop(state);
        gone.into_iter().for_each(|aside| self.engine.forget(Some(aside)));
        self.engine.wake.notify_all();
    }

    /// Pins the inputs of a unit, bringing those that are not here.
    fn acquire(&self, unit: u32, inputs: &[TaskId]) -> Result<Vec<(TaskId, Tile)>, ExecuteError> {
        let mut found: Vec<(TaskId, Tile)> = Vec::with_capacity(inputs.len());
        let mut state = self.engine.lock();
        let mut at = 0;
        while let Some(&task) = inputs.get(at) {
            if found.iter().any(|(other, _)| *other == task) {
                at += 1;
                continue;
            }
            let id = self.tiles[task as usize];
            if let Some(tile) = state.memory.pin(id) {
                found.push((task, tile));
                at += 1;
                continue;
            }
            if matches!(state.memory.entry(id).place, Place::Busy) {
                if let Some(error) = state.part.error.clone() {
                    return Err(error);
                }
                state = self.engine.wait(state);
                continue;
            }
            let entry = state.memory.entry(id);
            entry.place = Place::Busy;
            let bytes = entry.bytes;
            drop(state);
            self.engine.bring(id, bytes, unit)?;
            state = self.engine.lock();
        }
        Ok(found)
    }

    fn unit(&self, number: u32, scratch: &mut Scratch) -> Result<(), ExecuteError> {
        let unit = &self.units.all[number as usize];
        let engine = self.engine;
        let plan = engine.plan;
        let Some(task) = self.graph.task(unit.task) else { return Ok(()) };
        let found = self.acquire(number, &unit.inputs)?;
        if engine.counts_moves {
            self.count_moves(task.site, &unit.inputs);
        }
        if let Doing::Emit(output) = unit.doing {
            if let (Some(name), Some((_, tile))) =
                (&self.graph.outputs()[output as usize].name, found.first())
            {
                // What is loaded and saved as it is was made by nobody who would have looked.
                if engine.forbid_nan {
                    check_numbers(tile, name, &plan.tiles(task.value), task.tile)?;
                }
                let written = engine.results.accept(name, task.value, task.tile, tile)?;
                engine.lock().report.written_bytes += written;
            }
            return Ok(());
        }
        let id = self.tiles[unit.task as usize];
        let name = || engine.name(task.value).to_owned();
        let Some(form) = engine.forms.get(&task.value) else {
            return Err(ExecuteError::Internal { what: format!("nobody makes '{}'", name()) });
        };
        let operator = &plan.network.operators[form.operator];
        let tiles: Vec<NamedTile> = found
            .into_iter()
            .filter_map(|(from, tile)| self.graph.task(from).map(|from| (from.value, from.tile, tile)))
            .collect();
        let before = match unit.is_first {
            true => None,
            // It may have been put aside since the step before.
            false => Some(self.take_back(id, number)?),
        };
        let mut bench = Bench {
            network: &plan.network,
            known: self.known,
            tiles: &tiles,
            scratch,
            team: if self.is_alone { engine.team } else { Team::alone() },
            by_zero: engine.zero_by_zero.then_some(&engine.by_zero),
        };
        let mut operations = if unit.doing == Doing::Combine { 0.0 } else { form.operations(&unit.step) };
        let is_sparse = engine.sparse.contains_key(&task.value);
        if is_sparse && unit.is_first {
            self.reserve(id, number)?;
        }
        // How much a product of sparse tiles takes is known now, and was guessed before.
        let mut extra = 0;
        if is_sparse
            && form.is_product()
            && unit.doing != Doing::Combine
            && let Some(most) = form.sparse_product_bytes(&bench, &unit.step, before.as_ref())
        {
            let inputs: u64 = self.engine.need(self.graph, unit, |task| match task == unit.task {
                true => 0,
                false => self.engine.lock().memory.entry(self.tiles[task as usize]).bytes,
            });
            engine.check_budget(Some((inputs + most, task.value)))?;
            let expected = engine.lock().memory.entry(id).bytes;
            extra = most.saturating_sub(expected);
            engine.make_room(extra, number)?;
        }
        // What can stay sparse is tried first, and gives back what was there if it cannot.
        let tried = match unit.doing {
            _ if !is_sparse => Err(before),
            Doing::Combine => match (&before, &tiles[..]) {
                (None, [(.., tile @ Tile::Sparse(_))]) => Ok(tile.clone()),
                (Some(Tile::Sparse(a)), [(.., Tile::Sparse(b))]) => a.add(b).map(Tile::Sparse).ok_or(before),
                _ => Err(before),
            },
            _ if form.is_product() => form.run_sparse_product(&mut bench, &unit.step, before)?,
            _ => form.run_at_nonzeros(&mut bench, &unit.step, before, unit.is_first)?,
        };
        let tile = match tried {
            Ok(tile) => tile,
            Err(before) => {
                let mut out = match before {
                    None if is_sparse => self.fresh(unit.task)?,
                    None => self.begin(unit.task, number)?,
                    // SAFETY: a tile is handed out to readers after its last step only, and steps follow one another.
                    Some(Tile::Dense(window)) => unsafe { WindowMut::resume(window) },
                    Some(Tile::Sparse(sparse)) => {
                        let dense = sparse.to_dense();
                        // SAFETY: fresh memory.
                        unsafe { WindowMut::resume(dense) }
                    }
                };
                let finish = self.finishing(unit, &out, &tiles)?;
                match (unit.doing, tiles.first()) {
                    (Doing::Combine, Some((.., contribution))) => {
                        match unit.is_first {
                            true => out.copy_from(&contribution.dense()),
                            false => combine(operator, &mut out, &contribution.dense())?,
                        }
                        if let Some(finish) = &finish {
                            finish.all(bench.scratch, &mut out)?;
                        }
                    }
                    (Doing::Combine, None) => {}
                    _ => form.run(&mut bench, &unit.step, &mut out, unit.is_first, finish.as_ref())?,
                }
                operations += finish.map_or(0.0, |finish| finish.operations());
                Tile::Dense(out.freeze())
            }
        };
        if unit.is_last && engine.forbid_nan {
            check_numbers(&tile, engine.name(task.value), &plan.tiles(task.value), task.tile)?;
        }
        let old = {
            let mut state = engine.lock();
            state.report.operations += operations;
            state.memory.give_back(extra);
            state.memory.bring_back(id, tile)
        };
        engine.forget(old);
        Ok(())
    }

    /// What finishes the tile of a unit in place.
    fn finishing(
        &self,
        unit: &Unit,
        out: &WindowMut,
        tiles: &[NamedTile],
    ) -> Result<Option<Finish<'_>>, ExecuteError> {
        let Some(mut own) = self.graph.task(unit.task).filter(|_| !unit.then.is_empty()) else {
            return Ok(None);
        };
        let mut finish = Finish::new(&self.engine.plan.network, self.known, self.coordinates(&own));
        for &then in &unit.then {
            let (Some(form), Some(task)) = (self.form(then), self.graph.task(then)) else {
                return Err(ExecuteError::Internal { what: format!("task {then} is not there") });
            };
            finish.push(form, (own.value, own.tile, out.window()), tiles.to_vec());
            own = task;
        }
        Ok(Some(finish))
    }

    /// Room for a tile of which it is only guessed how much it takes.
    fn reserve(&self, id: TileId, position: u32) -> Result<(), ExecuteError> {
        let bytes = {
            let mut state = self.engine.lock();
            let entry = state.memory.entry(id);
            entry.place = Place::Busy;
            entry.bytes
        };
        self.engine.make_room(bytes, position)
    }

    /// Memory for the tile of a task.
    fn fresh(&self, task: TaskId) -> Result<WindowMut, ExecuteError> {
        let Some(found) = self.graph.task(task) else {
            return Err(ExecuteError::Internal { what: "a task that is not there".to_owned() });
        };
        let tiles = self.engine.plan.tiles(found.value);
        let shape: Vec<usize> =
            tiles.shape(&tiles.coordinates(found.tile as usize)).iter().map(|&n| n as usize).collect();
        Ok(WindowMut::for_overwrite(self.engine.plan.network.value(found.value).dtype, &shape))
    }

    /// The tile of a task that begins.
    fn begin(&self, task: TaskId, position: u32) -> Result<WindowMut, ExecuteError> {
        let id = self.tiles[task as usize];
        self.reserve(id, position)?;
        let is_in_place = self.engine.lock().memory.entry(id).bytes == 0;
        if is_in_place
            && let Some(found) = self.graph.task(self.units.fused.tail(task))
            && let Some((whole, starts, shape)) = self.engine.results.window(found.value, found.tile)
        {
            // SAFETY: every tile of a result is made by one task, and only this one has begun it.
            return Ok(unsafe { WindowMut::within(&whole, &starts, &shape) });
        }
        self.fresh(task)
    }

    /// A tile that was begun, to go on with.
    fn take_back(&self, id: TileId, position: u32) -> Result<Tile, ExecuteError> {
        let engine = self.engine;
        let mut state = engine.lock();
        loop {
            if let Some(tile) = state.memory.take_out(id) {
                return Ok(tile);
            }
            if let Some(error) = state.part.error.clone() {
                return Err(error);
            }
            if matches!(state.memory.entry(id).place, Place::Busy) {
                state = engine.wait(state);
                continue;
            }
            let entry = state.memory.entry(id);
            entry.place = Place::Busy;
            let bytes = entry.bytes;
            drop(state);
            engine.bring(id, bytes, position)?;
            state = engine.lock();
        }
    }

    fn count_moves(&self, site: u32, inputs: &[TaskId]) {
        for &input in inputs {
            let Some(from) = self.graph.task(input).filter(|from| from.site != site) else { continue };
            let floats = self.graph.floats(self.engine.plan, input);
            let dtype = self.engine.plan.network.value(from.value).dtype;
            self.engine.count_move(self.names[input as usize], site, floats, dtype);
        }
    }

    /// Reads tiles before their turn, while there is room that nobody needs sooner.
    pub(super) fn read_ahead(&self) {
        self.or_fail(|| self.read_while_there_is_room());
    }

    fn read_while_there_is_room(&self) {
        let engine = self.engine;
        let mut state = engine.lock();
        loop {
            if state.part.error.is_some() || state.part.left == 0 {
                return;
            }
            let from = state.part.front;
            let to = (from + AHEAD * engine.team.threads() as u32).min(self.units.all.len() as u32);
            let mut next = None;
            'units: for position in from..to {
                if state.part.is_done[position as usize] {
                    continue;
                }
                for &task in &self.units.all[position as usize].inputs {
                    let id = self.tiles[task as usize];
                    if state.memory.can_be_read(id) {
                        next = Some((position, id));
                        break 'units;
                    }
                }
            }
            // Only room that nobody needs sooner is taken, and nothing is written to disk for it.
            let room = next.is_some_and(|(position, id)| {
                let bytes = state.memory.entry(id).bytes;
                match state.memory.take(bytes, position, false) {
                    Room::Taken => true,
                    Room::Spill(other, tile) => {
                        state.memory.keep_here(other, tile);
                        false
                    }
                    Room::Wait => false,
                }
            });
            let Some((_, id)) = next.filter(|_| room) else {
                state = engine.wake.wait(state).unwrap_or_else(|e| e.into_inner());
                continue;
            };
            let entry = state.memory.entry(id);
            entry.place = Place::Busy;
            let bytes = entry.bytes;
            state.ahead += 1;
            drop(state);
            let brought = engine.bring_taken(id, bytes);
            state = engine.lock();
            state.ahead -= 1;
            if let Err(error) = brought {
                state.part.error.get_or_insert(error);
            }
            engine.wake.notify_all();
        }
    }
}

/// Fails at the first element that is not a number.
fn check_numbers(
    tile: &Tile,
    name: &str,
    tiles: &lacus_algebra::Tiles,
    number: u32,
) -> Result<(), ExecuteError> {
    let (places, window) = match tile {
        Tile::Dense(window) => (None, window.clone().into_contiguous()),
        Tile::Sparse(sparse) => {
            let (places, values) = sparse.coordinates();
            (Some(places), values)
        }
    };
    let at = match window.dtype() {
        DType::F64 => window.slice::<f64>().and_then(|all| all.iter().position(|x| x.is_nan())),
        DType::F32 => window.slice::<f32>().and_then(|all| all.iter().position(|x| x.is_nan())),
        _ => None,
    };
    let Some(mut at) = at else { return Ok(()) };
    let coordinates = tiles.coordinates(number as usize);
    let within: Vec<u64> = match places {
        Some(places) => places.iter().map(|axis| axis[at] as u64).collect(),
        None => {
            let mut within = vec![0; coordinates.len()];
            for (within, &extent) in within.iter_mut().zip(window.shape()).rev() {
                *within = (at % extent.max(1)) as u64;
                at /= extent.max(1);
            }
            within
        }
    };
    let starts = coordinates.iter().zip(&tiles.blocks).map(|(at, block)| at * block);
    let at = starts.zip(within).map(|(start, within)| start + within).collect();
    Err(ExecuteError::NotANumber { value: name.to_owned(), tile: coordinates, at })
}
