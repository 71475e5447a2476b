//! Workers: each takes the first unit of the order whose turn it is and whose memory is granted.
//!
//! ```text
//! ready units ─first→ grant memory ─→ bring inputs ─→ kernel ─→ tile is there, followers are ready
//!                        │                  └ loads come ahead of time, on threads of the pool that waits
//!                        └ Σ of what running units need stays within the budget: each can always go on
//! ```
//!
//! Workers are the calling thread and those of the pool that are free. One is enough: a worker waits only for a unit or a
//! tile that another one is at work on, and without readers ahead it reads what it needs itself.

mod job;

use crate::error::ExecuteError;
use crate::form::Form;
use crate::fuse::Fusing;
use crate::memory::{Entry, Memory, Place, Room, TileId};
use crate::report::Report;
use crate::sparsity::{Densities, sparse_bytes};
use crate::spill::{Aside, Spill};
use crate::tile::Tile;
use crate::units::{Beside, Doing, Unit, Units};
use crate::window::Window;
use job::Job;
use lacus_algebra::expr::Slot;
use lacus_algebra::{Known, ProgramPlan, TaskGraph, TaskId, TaskKind};
use lacus_tensor::DType;
use lacus_threads::{Pool, Team};
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How often the caller hears of progress, and is asked whether to go on.
const TICK: Duration = Duration::from_millis(100);

/// Threads that read ahead, at most: they wait for a store or a disk most of the time.
const READERS: usize = 4;

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
    /// Whether reading a tile has to wait for somebody else, and not just for memory.
    fn waits(&self, value: Slot) -> bool;
}

/// Where results go.
pub(crate) trait Results: Sync {
    /// The memory in which a tile of a result is to be made, if the result is one array of the caller's.
    fn window(&self, value: Slot, tile: u32) -> Option<(Window, Vec<usize>, Vec<usize>)>;
    /// The name that a value is saved as, if it is.
    fn name(&self, value: Slot) -> Option<&str>;
    /// How often a tile of the result of a name is copied before it is taken.
    fn copies(&self, name: &str) -> u64;
    /// All tiles of the result of a name were taken, of which there may be none.
    fn saved(&self, name: &str) -> Result<(), ExecuteError>;
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
    team: Team<'a>,
    pub(crate) forbid_nan: bool,
    pub(crate) counts_moves: bool,
    /// Integers divided by zero are zero, and no error.
    pub(crate) zero_by_zero: bool,
    by_zero: AtomicBool,
    pub(crate) cancel: Option<&'a AtomicBool>,
    pub(crate) watch: Option<&'a Watch>,
    forms: HashMap<Slot, Form>,
    beside: HashMap<Slot, Beside>,
    /// Values that can stay sparse.
    sparse: Densities,
    spill: Spill,
    state: Mutex<State>,
    /// Something has come, gone or been done.
    wake: Condvar,
    began: Instant,
}

struct State {
    memory: Memory,
    report: Report,
    /// Workers that wait in the middle of a unit, and those of them who wait for room.
    waiting: u32,
    wants_room: u32,
    /// Tiles that are being read before their turn.
    ahead: u32,
    /// When progress was last reported, and whether somebody is reporting it now.
    told: Instant,
    is_telling: bool,
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

/// Bytes that a tile of a value is going to take, about.
pub(crate) fn tile_bytes(plan: &ProgramPlan, sparse: &Densities, value: Slot, tile: u32) -> u64 {
    let own = plan.tiles(value);
    let floats: u64 = own.shape(&own.coordinates(tile as usize)).iter().product();
    match sparse.get(&value) {
        // Nonzeros are not spread evenly.
        Some(&density) => {
            let all: f64 = own.dims.iter().map(|&n| n as f64).product();
            let share = floats as f64 / all.max(1.0);
            (2.0 * share * sparse_bytes(&plan.network, value, density)) as u64 + 8 * own.blocks[0] + 64
        }
        None => floats * plan.network.value(value).dtype.size_bytes() as u64,
    }
}

impl<'a> Engine<'a> {
    pub(crate) fn new(
        plan: &'a ProgramPlan,
        loads: &'a dyn Loads,
        results: &'a dyn Results,
        team: Team<'a>,
        budget: u64,
        spill: Spill,
        sparse: Densities,
    ) -> Engine<'a> {
        let mut forms = HashMap::new();
        let mut beside = HashMap::new();
        for at in plan.network.running() {
            let operator = &plan.network.operators[at];
            forms.insert(operator.output, Form::of(plan, at, &sparse));
            beside.insert(operator.output, Beside::of(plan, operator));
        }
        Engine {
            plan,
            loads,
            results,
            team,
            forbid_nan: false,
            counts_moves: false,
            zero_by_zero: false,
            by_zero: AtomicBool::new(false),
            cancel: None,
            watch: None,
            forms,
            beside,
            sparse,
            spill,
            state: Mutex::new(State {
                memory: Memory::new(budget),
                report: Report { budget_bytes: budget, workers: team.threads(), ..Report::default() },
                waiting: 0,
                wants_room: 0,
                ahead: 0,
                told: Instant::now(),
                is_telling: false,
                copies: HashSet::new(),
                part: Part::default(),
            }),
            wake: Condvar::new(),
            began: Instant::now(),
        }
    }

    /// What decides which tasks are done at one go.
    fn fusing(&self) -> Fusing<'_> {
        Fusing { sparse: &self.sparse, on_one_site: self.counts_moves, is_off: self.forbid_nan }
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
            divided_by_zero: self.by_zero.load(Ordering::Relaxed),
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

    /// Reports progress to who watches, if it is time and no other worker is at it.
    fn tell(&self) {
        let Some(watch) = self.watch else { return };
        let mut state = self.lock();
        if state.is_telling || state.told.elapsed() < TICK {
            return;
        }
        state.is_telling = true;
        let report = self.report_of(&state);
        drop(state);
        watch(&report);
        let mut state = self.lock();
        (state.told, state.is_telling) = (Instant::now(), false);
    }

    /// Waits until something has changed, but no longer than a tick: then progress is reported, and the caller's wish to stop
    /// is heard.
    fn pause<'s>(&'s self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let (mut state, waited) = self.wake.wait_timeout(state, TICK).unwrap_or_else(|e| e.into_inner());
        if !waited.timed_out() {
            return state;
        }
        if self.is_cancelled() {
            state.part.error.get_or_insert(ExecuteError::Cancelled);
            self.wake.notify_all();
        }
        drop(state);
        self.tell();
        self.lock()
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }

    pub(crate) fn count_round(&self) {
        self.lock().report.rounds += 1;
        self.tell();
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
            self.spill.remove(aside);
        }
    }

    /// A tile that is loaded, known from now on.
    pub(crate) fn add_load(&self, value: Slot, tile: u32) -> TileId {
        let entry = match self.loads.resident(value, tile) {
            Some(found) => Entry::new(Place::Here(found), 0, Some((value, tile))),
            None => Entry::new(Place::Away, self.loads.bytes(value, tile).max(1), Some((value, tile))),
        };
        self.lock().memory.add(entry)
    }

    /// A tile that comes from elsewhere; from now on it is like one that was made.
    pub(crate) fn add_given(&self, tile: Tile) -> Result<TileId, ExecuteError> {
        let bytes = tile.size_bytes().max(1);
        self.make_room(bytes, 0)?;
        let mut state = self.lock();
        let id = state.memory.add(Entry::new(Place::Busy, bytes, None));
        state.memory.arrive(id, tile, bytes);
        Ok(id)
    }

    /// A tile that a unit is going to make.
    pub(crate) fn add_made(&self, bytes: u64) -> TileId {
        self.lock().memory.add(Entry::new(Place::Away, bytes, None))
    }

    /// Bytes that the tile of a value is expected to take.
    pub(crate) fn tile_bytes(&self, value: Slot, tile: u32) -> u64 {
        tile_bytes(self.plan, &self.sparse, value, tile)
    }

    /// Brings a tile here and hands it out; for conditions and for what is saved outside of units.
    pub(crate) fn fetch(&self, id: TileId) -> Result<Tile, ExecuteError> {
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
            self.bring(id, bytes, 0)?;
            state = self.lock();
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
        let needs = self.needs(graph, units, tiles)?;
        let mut job = Job { engine: self, graph, units, tiles, names, known, needs, is_alone: false };
        {
            let mut state = self.lock();
            for (task, &id) in tiles.iter().enumerate() {
                if units.fused.tail(task as u32) == task as u32 {
                    state.memory.plan_uses(id, units.uses[task].clone());
                }
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
        let (reads_ahead, waits) = self.reads_ahead(graph);
        let team = self.team.at_most(units.all.len());
        // Threads would cost more than there is to do beside the largest unit.
        let (operations, largest) = job.operations();
        let is_little = units.all.len() <= FEW_UNITS && operations - largest < LITTLE_WORK;
        if !reads_ahead && team.threads() == 1 || !waits && is_little {
            job.is_alone = true;
            job.work();
        } else {
            let readers = if reads_ahead { self.team.threads().min(READERS) } else { 0 };
            let caller = std::thread::current().id();
            Pool::for_waiting().team(1 + readers).run(&|| match std::thread::current().id() == caller {
                true => team.run(&|| job.work()),
                false => job.read_ahead(),
            });
        }
        let mut state = self.lock();
        match state.part.error.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Whether tiles have to be read, and whether that has to wait for somebody else.
    fn reads_ahead(&self, graph: &TaskGraph) -> (bool, bool) {
        let mut found = (false, false);
        for task in graph.tasks().filter(|task| task.kind == TaskKind::Load) {
            if self.loads.resident(task.value, task.tile).is_none() {
                found = (true, found.1 || self.loads.waits(task.value));
            }
            if found.1 {
                break;
            }
        }
        found
    }

    /// Bytes that a unit needs, if tiles take so many.
    pub(crate) fn need(&self, graph: &TaskGraph, unit: &Unit, bytes: impl FnMut(TaskId) -> u64) -> u64 {
        let value = graph.task(unit.task).map_or(Slot(0), |task| task.value);
        let need = unit.need(self.beside.get(&value).copied().unwrap_or(Beside::NOTHING), bytes);
        match unit.doing {
            Doing::Emit(output) => {
                let name = graph.outputs()[output as usize].name.as_ref();
                need * (1 + name.map_or(0, |name| self.results.copies(name)))
            }
            _ => need,
        }
    }

    /// The units of a graph. Tasks are done at one go only if the tiles of all of them are not too much at once.
    pub(crate) fn units(&self, graph: &TaskGraph) -> Result<Units, ExecuteError> {
        let budget = self.lock().report.budget_bytes;
        let bytes = |task: TaskId| match graph.task(task) {
            Some(task) if task.kind == TaskKind::Load => {
                let is_resident = self.loads.resident(task.value, task.tile).is_some();
                if is_resident { 0 } else { self.loads.bytes(task.value, task.tile) }
            }
            Some(task) => self.tile_bytes(task.value, task.tile),
            None => 0,
        };
        let fits = |unit: &Unit| self.need(graph, unit, bytes) <= budget;
        Ok(Units::that_fit(self.plan, graph, &self.fusing(), fits)?)
    }

    /// Bytes that each unit needs. Fails if one needs more than there is.
    fn needs(&self, graph: &TaskGraph, units: &Units, tiles: &[TileId]) -> Result<Vec<u64>, ExecuteError> {
        let mut state = self.lock();
        let mut all = Vec::with_capacity(units.all.len());
        let (mut most, mut of) = (0, None);
        for unit in &units.all {
            let need = self.need(graph, unit, |task| state.memory.entry(tiles[task as usize]).bytes);
            if need > most {
                (most, of) = (need, Some(unit.task));
            }
            all.push(need);
        }
        drop(state);
        let value = of.and_then(|task| graph.task(task)).map_or(Slot(0), |task| task.value);
        self.check_budget(Some((most, value)))?;
        Ok(all)
    }

    /// Fails if a step for a value needs more than there is.
    pub(crate) fn check_budget(&self, most: Option<(u64, Slot)>) -> Result<(), ExecuteError> {
        let budget = self.lock().report.budget_bytes;
        match most {
            Some((needed, value)) if needed > budget => {
                let what = format!("one step of '{}'", self.plan.network.value(value).name);
                Err(ExecuteError::Budget { what, needed, budget })
            }
            _ => Ok(()),
        }
    }

    /// Makes room for a tile that is `Busy` and brings it.
    fn bring(&self, id: TileId, bytes: u64, position: u32) -> Result<(), ExecuteError> {
        if let Err(error) = self.make_room(bytes, position) {
            let mut state = self.lock();
            let entry = state.memory.entry(id);
            entry.place = if entry.aside.is_some() { Place::Aside } else { Place::Away };
            drop(state);
            self.wake.notify_all();
            return Err(error);
        }
        self.bring_taken(id, bytes)
    }

    /// Brings a tile that is `Busy` and for which room was taken.
    fn bring_taken(&self, id: TileId, bytes: u64) -> Result<(), ExecuteError> {
        let (aside, origin) = {
            let mut state = self.lock();
            let entry = state.memory.entry(id);
            (entry.aside.clone(), entry.origin)
        };
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

    /// Waits until something has changed, in the middle of a unit.
    fn wait<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        state.waiting += 1;
        // Whoever wants room can have it now, see `make_room`: nobody else will release any.
        if state.wants_room > 0 && state.ahead == 0 && state.waiting >= state.part.running {
            self.wake.notify_all();
        }
        let mut state = self.pause(state);
        state.waiting -= 1;
        state
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
                    state.wants_room += 1;
                    state = self.wait(state);
                    state.wants_room -= 1;
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
