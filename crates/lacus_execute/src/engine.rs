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
use crate::sparsity::{Densities, sparse_bytes};
use crate::spill::{Aside, Spill};
use crate::tile::Tile;
use crate::units::{Doing, Unit, Units, reads_one_tile_each};
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

/// Units, and operations of all of them, up to which the calling thread does them alone.
const FEW_UNITS: usize = 64;
const LITTLE_WORK: f64 = 1e6;

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
    /// Values that can stay sparse.
    sparse: Densities,
    spill: Spill,
    state: Mutex<State>,
    /// Something has come, gone or been done.
    wake: Condvar,
    /// All units are done, or nothing more is to be.
    ended: Condvar,
    began: Instant,
}

struct State {
    memory: Memory,
    report: Report,
    /// Workers that wait for room.
    waiting: u32,
    /// Tiles that are being read before their turn.
    ahead: u32,
    /// When progress was told.
    told: Option<Instant>,
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
        sparse: Densities,
    ) -> Engine<'a> {
        let mut forms = HashMap::new();
        let mut is_plain = HashMap::new();
        for at in plan.network.running() {
            let operator = &plan.network.operators[at];
            forms.insert(operator.output, Form::of(plan, at, &|slot| sparse.contains_key(&slot)));
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
            sparse,
            spill,
            state: Mutex::new(State {
                memory: Memory::new(budget),
                report: Report { budget_bytes: budget, workers, ..Report::default() },
                waiting: 0,
                ahead: 0,
                told: Some(Instant::now()),
                copies: HashSet::new(),
                part: Part::default(),
            }),
            wake: Condvar::new(),
            ended: Condvar::new(),
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

    /// Tells who watches, if it is time.
    fn tell(&self) {
        let Some(watch) = self.watch else { return };
        let mut state = self.lock();
        if state.told.is_some_and(|told| told.elapsed() < TICK) {
            return;
        }
        state.told = Some(Instant::now());
        let report = self.report_of(&state);
        drop(state);
        watch(&report);
    }

    pub(crate) fn count_round(&self) {
        self.lock().report.rounds += 1;
        self.tell();
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
        let entry = match self.loads.resident(value, tile) {
            Some(found) => Entry::new(Place::Here(found), 0, true),
            None => Entry::new(Place::Away, self.loads.bytes(value, tile).max(1), true),
        };
        self.lock().memory.add(entry)
    }

    /// A tile that a unit is going to make.
    pub(crate) fn add_made(&self, bytes: u64) -> TileId {
        self.lock().memory.add(Entry::new(Place::Away, bytes, false))
    }

    /// Bytes that the tile of a value is expected to take.
    pub(crate) fn tile_bytes(&self, value: Slot, tile: u32) -> u64 {
        let own = self.plan.tiles(value);
        let floats: u64 = own.shape(&own.coordinates(tile as usize)).iter().product();
        match self.sparse.get(&value) {
            // Nonzeros are not spread evenly.
            Some(&density) => {
                let all: f64 = own.dims.iter().map(|&n| n as f64).product();
                let share = floats as f64 / all.max(1.0);
                (2.0 * share * sparse_bytes(&self.plan.network, value, density)) as u64
                    + 8 * own.blocks[0]
                    + 64
            }
            None => floats * self.plan.network.value(value).dtype.size_bytes() as u64,
        }
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
        let reads_ahead = self.reads_ahead(graph);
        let workers = self.workers.min(units.all.len());
        // Threads would cost more than there is to do.
        let is_little = units.all.len() <= FEW_UNITS && job.operations() < LITTLE_WORK;
        if !reads_ahead && (workers <= 1 || is_little) {
            job.work();
        } else {
            std::thread::scope(|scope| {
                for _ in 0..workers {
                    scope.spawn(|| job.work());
                }
                if reads_ahead {
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

    /// Makes room for a tile that is `Busy` and brings it.
    fn bring(
        &self,
        id: TileId,
        origin: Option<(Slot, u32)>,
        bytes: u64,
        position: u32,
    ) -> Result<(), ExecuteError> {
        if let Err(error) = self.make_room(bytes, position) {
            let mut state = self.lock();
            let entry = state.memory.entry(id);
            entry.place = if entry.aside.is_some() { Place::Aside } else { Place::Away };
            drop(state);
            self.wake.notify_all();
            return Err(error);
        }
        self.bring_taken(id, origin, bytes)
    }

    /// Brings a tile that is `Busy` and for which room was taken.
    fn bring_taken(&self, id: TileId, origin: Option<(Slot, u32)>, bytes: u64) -> Result<(), ExecuteError> {
        let aside = self.lock().memory.entry(id).aside.clone();
        let brought = match (&aside, origin) {
            (Some(aside), _) => self.spill.get(aside),
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
                Err(error)
            }
        };
        drop(state);
        self.wake.notify_all();
        outcome
    }

    /// Takes room for so many bytes, putting aside what is needed last.
    fn make_room(&self, bytes: u64, position: u32) -> Result<(), ExecuteError> {
        let mut state = self.lock();
        loop {
            match state.memory.take(bytes, position, true) {
                Room::Taken => return Ok(()),
                Room::Wait => {
                    if let Some(error) = &state.part.error {
                        return Err(error.clone());
                    }
                    // Sparse tiles can be larger than was expected. When everybody who could release something waits, too,
                    // a little too much is better than nothing.
                    if state.ahead == 0 && state.waiting + 1 >= state.part.running.max(1) {
                        state.memory.take_anyway(bytes);
                        return Ok(());
                    }
                    state.waiting += 1;
                    state = self.wake.wait(state).unwrap_or_else(|e| e.into_inner());
                    state.waiting -= 1;
                }
                Room::Spill(id, tile) => {
                    drop(state);
                    let put = self.spill.put(&tile);
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
                            return Err(error);
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
    /// Operations of all units.
    fn operations(&self) -> f64 {
        let of = |unit: &Unit| {
            let form = self.graph.task(unit.task).and_then(|task| self.engine.forms.get(&task.value));
            match unit.doing {
                Doing::Apply | Doing::Accumulate => form.map_or(0.0, |form| form.operations(&unit.step)),
                _ => 0.0,
            }
        };
        self.units.all.iter().map(of).sum()
    }

    /// What a worker does.
    fn work(&self) {
        let mut scratch = Scratch::new();
        while let Some(unit) = self.next() {
            let done = catch_unwind(AssertUnwindSafe(|| self.unit(unit, &mut scratch)));
            let done = done.unwrap_or_else(|panic| {
                let what = panic.downcast_ref::<String>().cloned();
                let what = what.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
                Err(ExecuteError::Panic { what: what.unwrap_or_else(|| "nothing".to_owned()) })
            });
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
            if self.engine.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
                part.error = Some(ExecuteError::Cancelled);
                drop(state);
                self.engine.wake.notify_all();
                self.engine.ended.notify_all();
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
        let is_over = part.left == 0 || part.error.is_some();
        drop(state);
        gone.into_iter().for_each(|aside| self.engine.forget(Some(aside)));
        self.engine.wake.notify_all();
        if is_over {
            self.engine.ended.notify_all();
        }
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
            self.engine.bring(id, self.origin(task), bytes, unit)?;
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
            return Ok(());
        }
        let id = self.tiles[unit.task as usize];
        let name = || engine.name(task.value).to_owned();
        let Some(form) = engine.forms.get(&task.value) else {
            return Err(ExecuteError::Internal { what: format!("nobody makes '{}'", name()) });
        };
        let operator = &plan.network.operators[form.operator];
        let tiles: Vec<(Slot, u32, Tile)> = found
            .into_iter()
            .filter_map(|(from, tile)| self.graph.task(from).map(|from| (from.value, from.tile, tile)))
            .collect();
        let before = match unit.is_first {
            true => None,
            // It may have been put aside since the step before.
            false => Some(self.take_back(id, number)?),
        };
        let mut bench = Bench { network: &plan.network, known: self.known, tiles: &tiles, scratch };
        let is_sparse = engine.sparse.contains_key(&task.value);
        if is_sparse && unit.is_first {
            self.reserve(id, number)?;
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
                match (unit.doing, tiles.first()) {
                    (Doing::Combine, Some((.., contribution))) => match unit.is_first {
                        true => out.copy_from(&contribution.dense()),
                        false => combine(operator, &mut out, &contribution.dense())?,
                    },
                    (Doing::Combine, None) => {}
                    _ => form.run(&mut bench, &unit.step, &mut out, unit.is_first)?,
                }
                Tile::Dense(out.freeze())
            }
        };
        if unit.is_last && engine.forbid_nan {
            check_numbers(&tile, engine.name(task.value), &plan.tiles(task.value), task.tile)?;
        }
        let operations = if unit.doing == Doing::Combine { 0.0 } else { form.operations(&unit.step) };
        {
            let mut state = engine.lock();
            state.report.operations += operations;
            state.memory.bring_back(id, tile);
        }
        Ok(())
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
            && let Some(found) = self.graph.task(task)
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
                state = engine.wake.wait(state).unwrap_or_else(|e| e.into_inner());
                continue;
            }
            let entry = state.memory.entry(id);
            entry.place = Place::Busy;
            let bytes = entry.bytes;
            drop(state);
            engine.bring(id, None, bytes, position)?;
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
    fn read_ahead(&self) {
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
            // Only room that nobody needs sooner is taken, and nothing is written to disk for it.
            let room = next.is_some_and(|(position, id, _)| {
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
            let Some((_, id, origin)) = next.filter(|_| room) else {
                state = engine.wake.wait(state).unwrap_or_else(|e| e.into_inner());
                continue;
            };
            let entry = state.memory.entry(id);
            entry.place = Place::Busy;
            let bytes = entry.bytes;
            state.ahead += 1;
            drop(state);
            let brought = engine.bring_taken(id, Some(origin), bytes);
            state = engine.lock();
            state.ahead -= 1;
            if let Err(error) = brought {
                state.part.error.get_or_insert(error);
                engine.ended.notify_all();
            }
            engine.wake.notify_all();
        }
    }

    /// Tells how far it is, and stops when asked to.
    fn watch(&self) {
        let engine = self.engine;
        let mut state = engine.lock();
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
            drop(state);
            engine.tell();
            state = engine.lock();
            state = engine.ended.wait_timeout(state, TICK).map_or_else(|e| e.into_inner().0, |found| found.0);
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
