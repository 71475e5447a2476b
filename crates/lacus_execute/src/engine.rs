//! Workers: each takes the first unit of the order whose turn it is and whose memory is granted.
//!
//! ```text
//! ready units ─first→ grant memory ─→ bring inputs ─→ kernel ─→ tile is there, followers are ready
//!                        │                  └ loads come ahead of time by threads of their own
//!                        └ Σ of what running units need stays within the budget: each can always go on
//! ```

use crate::error::ExecuteError;
use crate::form::{Bench, Form, combine};
use crate::memory::{Entry, Memory, Place, Room, TileId};
use crate::report::Report;
use crate::spill::{Aside, Spill};
use crate::tile::Tile;
use crate::units::{Doing, Units, reads_one_tile_each};
use crate::window::{Window, WindowMut};
use lacus_algebra::expr::Slot;
use lacus_algebra::{Known, Made, ProgramPlan, TaskGraph, TaskId};
use lacus_tensor::DType;
use lacus_tensor::kernels::formula::Scratch;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How often the caller hears of progress, and is asked whether to go on.
const TICK: Duration = Duration::from_millis(100);

/// Units ahead of those at work whose inputs are read before their turn.
const AHEAD: u32 = 8;

/// Where tiles that are loaded come from.
pub(crate) trait Loads: Sync {
    /// A tile that needs no reading: memory of the caller.
    fn resident(&self, value: Slot, tile: u32) -> Option<Tile>;
    /// Reads a tile.
    fn load(&self, value: Slot, tile: u32) -> Result<Tile, ExecuteError>;
    /// Bytes that a tile takes in memory once it is read, at most.
    fn bytes(&self, value: Slot, tile: u32) -> u64;
}

/// Where results go.
pub(crate) trait Results: Sync {
    /// The memory in which a tile of a result is to be made, if the result is one array of the caller's.
    fn window(&self, value: Slot, tile: u32) -> Option<(Window, Vec<usize>, Vec<usize>)>;
    /// The name that a value is saved as, if it is.
    fn name(&self, value: Slot) -> Option<&str>;
    /// Takes a tile of the result of a name.
    fn accept(&self, name: &str, value: Slot, tile: u32, found: &Tile) -> Result<u64, ExecuteError>;
}

/// Who hears of progress.
pub type Watch = dyn Fn(&Report) + Send + Sync;

/// What all workers share.
pub(crate) struct Engine<'a> {
    pub(crate) plan: &'a ProgramPlan,
    pub(crate) loads: &'a dyn Loads,
    pub(crate) results: &'a dyn Results,
    pub(crate) workers: usize,
    pub(crate) forbid_nan: bool,
    pub(crate) counts_moves: bool,
    pub(crate) cancel: Option<&'a AtomicBool>,
    pub(crate) watch: Option<&'a Watch>,
    forms: HashMap<Slot, Form>,
    is_plain: HashMap<Slot, bool>,
    spill: Spill,
    state: Mutex<State>,
    wake: Condvar,
    began: Instant,
}

struct State {
    memory: Memory,
    report: Report,
    /// Copies of tiles on other sites than their own: by tile and site.
    copies: HashSet<(u64, u32)>,
    part: Part,
}

/// The units that are being done.
#[derive(Default)]
struct Part {
    ready: BinaryHeap<std::cmp::Reverse<u32>>,
    waits: Vec<u32>,
    running: u32,
    granted: u64,
    left: usize,
    /// The first unit that is not done; all before are.
    front: u32,
    is_done: Vec<bool>,
    error: Option<ExecuteError>,
}

impl<'a> Engine<'a> {
    #[allow(clippy::too_many_arguments)] // All that a run is made of.
    pub(crate) fn new(
        plan: &'a ProgramPlan,
        loads: &'a dyn Loads,
        results: &'a dyn Results,
        workers: usize,
        budget: u64,
        spill: Spill,
    ) -> Engine<'a> {
        let mut forms = HashMap::new();
        let mut is_plain = HashMap::new();
        for at in plan.network.running() {
            let operator = &plan.network.operators[at];
            forms.insert(operator.output, Form::of(plan, at));
            is_plain.insert(operator.output, reads_one_tile_each(plan, operator));
        }
        Engine {
            plan,
            loads,
            results,
            workers: workers.max(1),
            forbid_nan: false,
            counts_moves: false,
            cancel: None,
            watch: None,
            forms,
            is_plain,
            spill,
            state: Mutex::new(State {
                memory: Memory::new(budget),
                report: Report { budget_bytes: budget, workers, ..Report::default() },
                copies: HashSet::new(),
                part: Part::default(),
            }),
            wake: Condvar::new(),
            began: Instant::now(),
        }
    }

    /// What people know a value as.
    fn name(&self, value: Slot) -> &str {
        self.results.name(value).unwrap_or(&self.plan.network.value(value).name)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The numbers of now.
    pub(crate) fn report(&self) -> Report {
        let state = self.lock();
        self.report_of(&state)
    }

    fn report_of(&self, state: &State) -> Report {
        Report {
            secs: self.began.elapsed().as_secs_f64(),
            memory_bytes: state.memory.held(),
            peak_bytes: state.memory.peak,
            ..state.report
        }
    }

    /// A tile goes to a site, unless it has been there.
    pub(crate) fn count_move(&self, name: u64, site: u32, floats: u64, dtype: DType) {
        let mut state = self.lock();
        if self.counts_moves && state.copies.insert((name, site)) {
            state.report.moved_floats += u128::from(floats);
            state.report.moved_bytes += u128::from(floats) * dtype.size_bytes() as u128;
        }
    }

    pub(crate) fn count_round(&self) {
        self.lock().report.rounds += 1;
    }

    /// Rounds of an outermost loop that an earlier run has done, and how many those are with the rounds of loops within.
    pub(crate) fn count_resumed(&self, rounds: u64, in_all: u64) {
        let mut state = self.lock();
        state.report.resumed_rounds += rounds;
        state.report.rounds += in_all;
    }

    /// A tile that somebody holds on to.
    pub(crate) fn keep(&self, id: TileId) {
        self.lock().memory.keep(id);
    }

    /// A tile that nobody holds on to any longer.
    pub(crate) fn release(&self, id: TileId) {
        let gone = self.lock().memory.release(id);
        self.forget(gone);
    }

    fn forget(&self, aside: Option<Aside>) {
        if let Some(aside) = aside {
            self.spill.remove(&aside);
        }
    }

    /// A tile that is loaded, known from now on.
    pub(crate) fn add_load(&self, value: Slot, tile: u32) -> TileId {
        let mut entry = match self.loads.resident(value, tile) {
            Some(found) => Entry::new(Place::Here(found), 0, true),
            None => Entry::new(Place::Away, self.loads.bytes(value, tile).max(1), true),
        };
        entry.origin = Some((value, tile));
        self.lock().memory.add(entry)
    }

    /// A tile that comes from elsewhere; from now on it is like one that was made.
    pub(crate) fn add_given(&self, tile: Tile) -> Result<TileId, ExecuteError> {
        let bytes = tile.size_bytes();
        if let Err(error) = self.make_room(bytes, 0, true) {
            return Err(error.unwrap_or(ExecuteError::Internal { what: "no room for a tile".to_owned() }));
        }
        let mut state = self.lock();
        let id = state.memory.add(Entry::new(Place::Busy, bytes, false));
        state.memory.arrive(id, tile, bytes);
        Ok(id)
    }

    /// A tile that a unit is going to make.
    pub(crate) fn add_made(&self, bytes: u64) -> TileId {
        self.lock().memory.add(Entry::new(Place::Away, bytes, false))
    }

    /// Brings a tile here and hands it out; for conditions and for what is saved outside of units.
    pub(crate) fn fetch(&self, id: TileId, origin: Option<(Slot, u32)>) -> Result<Tile, ExecuteError> {
        let mut state = self.lock();
        loop {
            let bytes = state.memory.entry(id).bytes;
            match &state.memory.entry(id).place {
                Place::Here(tile) => return Ok(tile.clone()),
                Place::Busy => {
                    state = self.wake.wait(state).unwrap_or_else(|e| e.into_inner());
                    continue;
                }
                Place::Away | Place::Aside => {}
            }
            state.memory.entry(id).place = Place::Busy;
            drop(state);
            let brought = self.bring(id, origin, bytes, 0, true);
            state = self.lock();
            if let Err(error) = brought {
                return Err(error.unwrap_or(ExecuteError::Internal { what: "no room for a tile".to_owned() }));
            }
        }
    }

    /// Does all units of a graph. `tiles` has the tile of each task, and `names` what it is known as where moves are
    /// counted.
    pub(crate) fn run(
        &self,
        graph: &TaskGraph,
        units: &Units,
        tiles: &[TileId],
        names: &[u64],
        known: &Known,
    ) -> Result<(), ExecuteError> {
        let job =
            Job { engine: self, graph, units, tiles, names, known, needs: self.needs(graph, units, tiles)? };
        {
            let mut state = self.lock();
            for (task, &id) in tiles.iter().enumerate() {
                state.memory.plan_uses(id, units.uses[task].clone());
            }
            state.report.planned += units.all.len() as u64;
            let ready = (0..units.all.len() as u32).filter(|&at| units.waits[at as usize] == 0);
            state.part = Part {
                ready: ready.map(std::cmp::Reverse).collect(),
                waits: units.waits.clone(),
                left: units.all.len(),
                is_done: vec![false; units.all.len()],
                ..Part::default()
            };
        }
        let workers = self.workers.min(units.all.len());
        if workers <= 1 && self.watch.is_none() && self.cancel.is_none() && !self.reads_ahead(graph) {
            job.work();
        } else {
            std::thread::scope(|scope| {
                for _ in 0..workers {
                    scope.spawn(|| job.work());
                }
                if self.reads_ahead(graph) {
                    for _ in 0..self.workers.min(4) {
                        scope.spawn(|| job.read_ahead());
                    }
                }
                job.watch();
            });
        }
        let mut state = self.lock();
        match state.part.error.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn reads_ahead(&self, graph: &TaskGraph) -> bool {
        graph.tasks().any(|task| {
            task.kind == lacus_algebra::TaskKind::Load && self.loads.resident(task.value, task.tile).is_none()
        })
    }

    /// Bytes that each unit needs. Fails if one needs more than there is.
    fn needs(&self, graph: &TaskGraph, units: &Units, tiles: &[TileId]) -> Result<Vec<u64>, ExecuteError> {
        let mut state = self.lock();
        let mut all = Vec::with_capacity(units.all.len());
        let (mut most, mut of) = (0, None);
        for unit in &units.all {
            let mut inputs = unit.inputs.clone();
            inputs.sort_unstable();
            inputs.dedup();
            let mut need: u64 =
                inputs.iter().map(|&task| state.memory.entry(tiles[task as usize]).bytes).sum();
            if !matches!(unit.doing, Doing::Emit(_)) {
                let value = graph.task(unit.task).map_or(Slot(0), |task| task.value);
                // What is put together from several tiles, or computed before it is multiplied.
                if !self.is_plain.get(&value).copied().unwrap_or(true) {
                    need *= 2;
                }
                need += state.memory.entry(tiles[unit.task as usize]).bytes;
            }
            if need > most {
                (most, of) = (need, Some(unit.task));
            }
            all.push(need);
        }
        let budget = state.report.budget_bytes;
        if most > budget {
            let what = of.and_then(|task| graph.task(task)).map_or_else(String::new, |task| {
                format!("one step of '{}'", self.plan.network.value(task.value).name)
            });
            return Err(ExecuteError::Budget { what, needed: most, budget });
        }
        Ok(all)
    }

    /// Makes room for a tile that is `Busy` and brings it. `None` as the error if there is no room and it is not urgent:
    /// then the tile is where it was.
    fn bring(
        &self,
        id: TileId,
        origin: Option<(Slot, u32)>,
        bytes: u64,
        position: u32,
        is_urgent: bool,
    ) -> Result<(), Option<ExecuteError>> {
        if let Err(error) = self.make_room(bytes, position, is_urgent) {
            let mut state = self.lock();
            let entry = state.memory.entry(id);
            entry.place = if entry.aside.is_some() { Place::Aside } else { Place::Away };
            drop(state);
            self.wake.notify_all();
            return Err(error);
        }
        let (aside, known) = {
            let mut state = self.lock();
            let entry = state.memory.entry(id);
            (entry.aside.clone(), entry.origin)
        };
        let origin = origin.or(known);
        let brought = match (&aside, origin) {
            (Some(aside), _) => self.spill.get(aside).map(Tile::Dense),
            (None, Some((value, tile))) => self.loads.load(value, tile),
            (None, None) => Err(ExecuteError::Internal { what: "a tile that nobody made".to_owned() }),
        };
        let mut state = self.lock();
        let outcome = match brought {
            Ok(tile) => {
                match aside {
                    Some(_) => state.report.reread_bytes += bytes,
                    None => state.report.read_bytes += tile.size_bytes(),
                }
                state.memory.arrive(id, tile, bytes);
                Ok(())
            }
            Err(error) => {
                let entry = state.memory.entry(id);
                entry.place = if entry.aside.is_some() { Place::Aside } else { Place::Away };
                state.memory.give_back(bytes);
                Err(Some(error))
            }
        };
        drop(state);
        self.wake.notify_all();
        outcome
    }

    /// Takes room for so many bytes, putting aside what is needed last.
    fn make_room(&self, bytes: u64, position: u32, is_urgent: bool) -> Result<(), Option<ExecuteError>> {
        let mut state = self.lock();
        loop {
            match state.memory.take(bytes, position, is_urgent) {
                Room::Taken => return Ok(()),
                Room::Wait if !is_urgent => return Err(None),
                Room::Wait => {
                    if let Some(error) = &state.part.error {
                        return Err(Some(error.clone()));
                    }
                    state = self.wake.wait(state).unwrap_or_else(|e| e.into_inner());
                }
                Room::Spill(id, tile) => {
                    drop(state);
                    let put = match &tile {
                        Tile::Dense(window) => self.spill.put(window),
                        Tile::Sparse(sparse) => self.spill.put(&sparse.to_dense()),
                    };
                    state = self.lock();
                    match put {
                        Ok(aside) => {
                            state.report.spilled_bytes += tile.size_bytes();
                            drop(tile);
                            state.memory.put_aside(id, aside);
                            self.wake.notify_all();
                        }
                        Err(error) => {
                            state.memory.keep_here(id, tile);
                            self.wake.notify_all();
                            return Err(Some(error));
                        }
                    }
                }
            }
        }
    }
}

/// The units of one graph, being done.
struct Job<'e, 'a> {
    engine: &'e Engine<'a>,
    graph: &'e TaskGraph,
    units: &'e Units,
    tiles: &'e [TileId],
    /// What tiles are known as where moves are counted.
    names: &'e [u64],
    known: &'e Known,
    needs: Vec<u64>,
}

impl Job<'_, '_> {
    /// What a worker does.
    fn work(&self) {
        let mut scratch = Scratch::new();
        while let Some(unit) = self.next() {
            let done = catch_unwind(AssertUnwindSafe(|| self.unit(unit, &mut scratch)));
            let done = done.unwrap_or_else(|panic| Err(panicked(&*panic)));
            let done = done.map_err(|error| {
                let task = self.graph.task(self.units.all[unit as usize].task);
                let (value, tile) = task.map_or((Slot(0), 0), |task| (task.value, task.tile));
                let coordinates = self.engine.plan.tiles(value).coordinates(tile as usize);
                error.in_tile(self.engine.name(value), coordinates)
            });
            self.finish(unit, done);
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
            state = self.engine.wake.wait(state).unwrap_or_else(|e| e.into_inner());
        }
    }

    fn finish(&self, unit: u32, done: Result<(), ExecuteError>) {
        let mut state = self.engine.lock();
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
        self.engine.wake.notify_all();
    }

    /// Where a task's tile can be read again.
    fn origin(&self, task: TaskId) -> Option<(Slot, u32)> {
        let task = self.graph.task(task)?;
        matches!(self.engine.plan.network.value(task.value).made, Made::Load(_))
            .then_some((task.value, task.tile))
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
                state = self.engine.wake.wait(state).unwrap_or_else(|e| e.into_inner());
                continue;
            }
            let entry = state.memory.entry(id);
            entry.place = Place::Busy;
            let bytes = entry.bytes;
            drop(state);
            let brought = self.engine.bring(id, self.origin(task), bytes, unit, true);
            if let Err(error) = brought {
                let what = "no room for a tile".to_owned();
                return Err(error.unwrap_or(ExecuteError::Internal { what }));
            }
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
                let written = engine.results.accept(name, task.value, task.tile, tile)?;
                engine.lock().report.written_bytes += written;
            }
            drop(found);
            self.release(&unit.inputs);
            return Ok(());
        }
        let id = self.tiles[unit.task as usize];
        let value = plan.network.value(task.value);
        let mut out = match unit.is_first {
            true => self.begin(unit.task, value.dtype, number)?,
            false => {
                // It may have been put aside since the step before.
                let tile = self.take_back(id, number)?;
                match tile {
                    // SAFETY: a tile is handed out to readers after its last step only, and steps follow one another.
                    Tile::Dense(window) => unsafe { WindowMut::resume(window) },
                    Tile::Sparse(_) => {
                        return Err(ExecuteError::Internal {
                            what: "a sparse tile that is being made".to_owned(),
                        });
                    }
                }
            }
        };
        let Some(form) = engine.forms.get(&task.value) else {
            return Err(ExecuteError::Internal { what: format!("nobody makes '{}'", value.name) });
        };
        let operator = &plan.network.operators[form.operator];
        let mut operations = 0.0;
        match unit.doing {
            Doing::Combine => {
                let contribution = found.first().map(|(_, tile)| tile.dense().into_owned());
                if let Some(contribution) = contribution {
                    match unit.is_first {
                        true => out.copy_from(&contribution),
                        false => combine(operator, &mut out, &contribution)?,
                    }
                }
            }
            _ => {
                let tiles: Vec<(Slot, u32, Tile)> = found
                    .into_iter()
                    .filter_map(|(from, tile)| {
                        self.graph.task(from).map(|from| (from.value, from.tile, tile))
                    })
                    .collect();
                let mut bench = Bench { network: &plan.network, known: self.known, tiles: &tiles, scratch };
                form.run(&mut bench, &unit.step, &mut out, unit.is_first)?;
                operations = form.operations(&unit.step);
            }
        }
        let window = out.freeze();
        if unit.is_last && engine.forbid_nan {
            check_numbers(&window, engine.name(task.value), &plan.tiles(task.value), task.tile)?;
        }
        {
            let mut state = engine.lock();
            state.report.operations += operations;
            state.memory.bring_back(id, Tile::Dense(window));
        }
        self.release(&unit.inputs);
        Ok(())
    }

    /// The tile of a task that begins.
    fn begin(&self, task: TaskId, dtype: DType, position: u32) -> Result<WindowMut, ExecuteError> {
        let engine = self.engine;
        let Some(found) = self.graph.task(task) else {
            return Err(ExecuteError::Internal { what: "a task that is not there".to_owned() });
        };
        let id = self.tiles[task as usize];
        let bytes = {
            let mut state = engine.lock();
            let entry = state.memory.entry(id);
            entry.place = Place::Busy;
            entry.bytes
        };
        if bytes == 0
            && let Some((whole, starts, shape)) = engine.results.window(found.value, found.tile)
        {
            // SAFETY: every tile of a result is made by one task, and only this one has begun it.
            return Ok(unsafe { WindowMut::within(&whole, &starts, &shape) });
        }
        if let Err(error) = engine.make_room(bytes, position, true) {
            return Err(error.unwrap_or(ExecuteError::Internal { what: "no room for a tile".to_owned() }));
        }
        let tiles = engine.plan.tiles(found.value);
        let shape: Vec<usize> =
            tiles.shape(&tiles.coordinates(found.tile as usize)).iter().map(|&n| n as usize).collect();
        Ok(WindowMut::for_overwrite(dtype, &shape))
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
                state = engine.wake.wait(state).unwrap_or_else(|e| e.into_inner());
                continue;
            }
            let entry = state.memory.entry(id);
            entry.place = Place::Busy;
            let bytes = entry.bytes;
            drop(state);
            if let Err(error) = engine.bring(id, None, bytes, position, true) {
                return Err(error.unwrap_or(ExecuteError::Internal { what: "no room for a tile".to_owned() }));
            }
            state = engine.lock();
        }
    }

    fn release(&self, inputs: &[TaskId]) {
        let mut state = self.engine.lock();
        let mut gone = Vec::new();
        for (at, &task) in inputs.iter().enumerate() {
            // Pinned once, used as often as it is read.
            let was_pinned = !inputs[..at].contains(&task);
            gone.extend(state.memory.used(self.tiles[task as usize], was_pinned));
        }
        drop(state);
        gone.into_iter().for_each(|aside| self.engine.forget(Some(aside)));
        self.engine.wake.notify_all();
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
    fn read_ahead(&self) {
        // Workers wait for what is being read: they have to hear of it.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.read_while_there_is_room())) {
            self.engine.lock().part.error.get_or_insert(panicked(&*panic));
            self.engine.wake.notify_all();
        }
    }

    fn read_while_there_is_room(&self) {
        let engine = self.engine;
        let mut state = engine.lock();
        loop {
            if state.part.error.is_some() || state.part.left == 0 {
                return;
            }
            let from = state.part.front;
            let to = (from + AHEAD * engine.workers as u32).min(self.units.all.len() as u32);
            let mut next = None;
            'units: for position in from..to {
                if state.part.is_done[position as usize] {
                    continue;
                }
                for &task in &self.units.all[position as usize].inputs {
                    let id = self.tiles[task as usize];
                    let Some(origin) = self.origin(task) else { continue };
                    if state.memory.is_away(id) {
                        next = Some((position, id, origin));
                        break 'units;
                    }
                }
            }
            let brought = match next {
                None => Err(None),
                Some((position, id, origin)) => {
                    let entry = state.memory.entry(id);
                    entry.place = Place::Busy;
                    let bytes = entry.bytes;
                    drop(state);
                    let brought = engine.bring(id, Some(origin), bytes, position, false);
                    state = engine.lock();
                    brought
                }
            };
            match brought {
                Ok(()) => {}
                Err(Some(error)) => {
                    state.part.error.get_or_insert(error);
                    engine.wake.notify_all();
                }
                Err(None) => state = engine.wake.wait(state).unwrap_or_else(|e| e.into_inner()),
            }
        }
    }

    /// Tells how far it is, and stops when asked to.
    fn watch(&self) {
        let engine = self.engine;
        let mut state = engine.lock();
        let mut told = Instant::now();
        loop {
            if state.part.error.is_some() || state.part.left == 0 {
                return;
            }
            if engine.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
                state.part.error.get_or_insert(ExecuteError::Cancelled);
                drop(state);
                engine.wake.notify_all();
                return;
            }
            if told.elapsed() >= TICK
                && let Some(watch) = engine.watch
            {
                let report = engine.report_of(&state);
                drop(state);
                watch(&report);
                told = Instant::now();
                state = engine.lock();
                continue;
            }
            state = engine.wake.wait_timeout(state, TICK).map_or_else(|e| e.into_inner().0, |found| found.0);
        }
    }
}

/// What a panic said.
fn panicked(panic: &(dyn std::any::Any + Send)) -> ExecuteError {
    let what = panic.downcast_ref::<String>().cloned();
    let what = what.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    ExecuteError::Panic { what: what.unwrap_or_else(|| "nothing".to_owned()) }
}

/// Fails at the first element that is not a number.
fn check_numbers(
    window: &Window,
    name: &str,
    tiles: &lacus_algebra::Tiles,
    tile: u32,
) -> Result<(), ExecuteError> {
    let window = window.clone().into_contiguous();
    let at = match window.dtype() {
        DType::F64 => window.slice::<f64>().and_then(|all| all.iter().position(|x| x.is_nan())),
        DType::F32 => window.slice::<f32>().and_then(|all| all.iter().position(|x| x.is_nan())),
        _ => None,
    };
    let Some(mut at) = at else { return Ok(()) };
    let coordinates = tiles.coordinates(tile as usize);
    let mut position = vec![0u64; coordinates.len()];
    for axis in (0..coordinates.len()).rev() {
        let extent = window.shape()[axis].max(1);
        position[axis] = coordinates[axis] * tiles.blocks[axis] + (at % extent) as u64;
        at /= extent;
    }
    Err(ExecuteError::NotANumber { value: name.to_owned(), tile: coordinates, at: position })
}
