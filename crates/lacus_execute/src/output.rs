//! Where results go: arrays for the caller, or a transaction of a table, tile by tile while the program runs.

use crate::engine::Results;
use crate::error::ExecuteError;
use crate::input::stored;
use crate::panels::{Way, store_rows, whole};
use crate::sparsity::Densities;
use crate::spill::Spill;
use crate::spool::{Spool, SpoolRoom, Spooled};
use crate::tile::{SparseTile, Tile};
use crate::window::{Window, WindowMut};
use lacus_algebra::expr::Slot;
use lacus_algebra::{FlowNode, Made as MadeBy, Network, Operator, ProgramPlan, Tiles, Until};
use lacus_layout::{Value, Wish};
use lacus_table::{ArrayWriter, ErrorKind, Put, Table, WriteOptions};
use lacus_tensor::{DType, Index, Shape, SparseTensor};
use lacus_threads::Team;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::runtime::Handle;

/// A result that goes back to the caller.
#[derive(Clone, Debug)]
pub enum Made {
    /// Every element, in C order.
    Dense(Window),
    /// The nonzeros.
    Sparse(SparseTensor),
}

impl Made {
    /// The bytes it takes.
    pub fn size_bytes(&self) -> u64 {
        match self {
            Made::Dense(window) => window.size_bytes(),
            Made::Sparse(sparse) => (sparse.coords().len() + sparse.values().len()) as u64,
        }
    }
}

/// Where a saved tensor goes in a dataset.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// Its name there.
    pub name: String,
    /// What is wanted of its layout.
    pub wish: Wish,
    /// Metadata of the caller's.
    pub metadata: Option<Json>,
}

/// A dataset that results are stored in.
pub struct Store<'a> {
    /// The table: nothing of a run is seen before all of it.
    pub table: &'a mut Table,
    /// How to write.
    pub options: &'a WriteOptions,
    /// What is stored, by the name it is saved as.
    pub targets: BTreeMap<String, Target>,
}

/// Results up to this many bytes are put together in memory and stored as a whole, with the layout that suits them.
/// Larger ones are stored tile by tile; pages of larger ones that go back to the caller may be asked for first.
pub(crate) const WHOLE_BYTES: u64 = 64 << 20;

/// An element that is the sum of so many takes longer to make than to write.
const MANY_TERMS: u64 = 256;

/// The results of a run.
pub(crate) struct ResultTiles<'a, 't> {
    by_name: BTreeMap<String, Saved>,
    /// The first name that each value is saved as, for values whose tiles are made in place.
    in_place: HashMap<Slot, String>,
    /// The same for values that the last round of a loop makes.
    in_last_round: HashMap<Slot, String>,
    /// A name that each value is saved as.
    names: HashMap<Slot, String>,
    store: Option<Mutex<&'a mut Store<'t>>>,
    runtime: Option<Handle>,
    /// Bytes of sparse tiles that wait in memory, at most.
    spool_bytes: u64,
    spill: PathBuf,
}

struct Saved {
    tiles: Tiles,
    /// All of it; `None` for what is stored tile by tile.
    whole: Option<Window>,
    /// Tiles of a sparse result.
    sparse: Option<Spool>,
    /// What writes a result that is stored tile by tile, once it has begun.
    streamed: Mutex<Option<Streamed>>,
    /// Bytes of chunks of which some tiles are missing, where chunks are not tiles.
    part_bytes: u64,
    dtype: DType,
    /// The name in the dataset.
    stored_as: Option<String>,
    /// Whether it is certain that the program saves it.
    is_made: AtomicBool,
}

/// A result that is being stored.
struct Streamed {
    writer: Arc<ArrayWriter>,
    /// The tiles that have come.
    seen: HashSet<u32>,
}

impl<'a, 't> ResultTiles<'a, 't> {
    /// Room for results. What does not fit waits in a file in `spill`.
    pub(crate) fn new(
        plan: &ProgramPlan,
        store: Option<&'a mut Store<'t>>,
        runtime: Option<Handle>,
        budget: u64,
        sparse: &Densities,
        team: Team<'_>,
        spill: Option<&Path>,
    ) -> Result<ResultTiles<'a, 't>, ExecuteError> {
        let mut by_name = BTreeMap::new();
        let (mut in_place, mut in_last_round) = (HashMap::new(), HashMap::new());
        let all = plan.network.saves();
        let is_stored = |name: &str| store.as_ref().is_some_and(|store| store.targets.contains_key(name));
        let kept = kept_in_memory(&plan.network, &is_stored, budget, sparse);
        let needed = bytes_of(&plan.network, &kept);
        if needed > budget {
            return Err(results_alone(needed, budget));
        }
        let is_any_sparse = all.iter().any(|(_, slot)| sparse.contains_key(slot));
        let spool_bytes = if is_any_sparse { small_bytes(budget) } else { 0 };
        let room = Arc::new(SpoolRoom::new(spool_bytes, Spill::new(spill)));
        for (name, slot) in &all {
            let value = plan.network.value(*slot);
            let tiles = plan.tiles(*slot);
            let target = store.as_ref().and_then(|store| store.targets.get(name));
            let is_sparse = sparse.contains_key(slot);
            let is_whole = kept.contains(&(name.clone(), *slot));
            let shape: Vec<usize> = value.dims.iter().map(|&n| n as usize).collect();
            let bytes = bytes_of_value(&plan.network, *slot);
            let is_at_end = plan.network.flow.contains(&FlowNode::Save(*slot, name.clone()));
            // What is saved within the loop is what it was before the loop made it anew.
            let next = made_in_last_round(plan, *slot).filter(|_| is_at_end);
            let is_long = takes_long(plan, next.unwrap_or(*slot));
            let pages = (is_long && bytes >= WHOLE_BYTES).then_some(team);
            let whole = match is_whole {
                true => {
                    let made = WindowMut::for_result(value.dtype, &shape, pages);
                    Some(made.map_err(|error| error.for_what(format!("the result {name:?}")))?.freeze())
                }
                false => None,
            };
            let is_once = all.iter().filter(|(other, _)| other == name).count() == 1;
            let is_made_once = match value.made {
                MadeBy::Operator(at) => plan.network.operators[at].scope == 0,
                _ => false,
            };
            if is_whole && is_once && is_made_once {
                in_place.entry(*slot).or_insert_with(|| name.clone());
            }
            if let (true, true, Some(next)) = (is_whole, is_once, next) {
                in_last_round.entry(next).or_insert_with(|| name.clone());
            }
            let stored_as = target.map(|target| target.name.clone());
            let has_chunks =
                |target: &&Target| target.wish.chunk_shape.is_some() || target.wish.chunk_rank.is_some();
            let is_cut_anew = !is_sparse && !is_whole && target.filter(has_chunks).is_some();
            let part_bytes = if is_cut_anew { small_bytes(budget) / 2 } else { 0 };
            let sparse = is_sparse.then(|| Spool::new(tiles.clone(), value.dtype, &room));
            // A loop that saves may have no rounds.
            let is_made = AtomicBool::new(is_at_end);
            let saved = Saved {
                tiles,
                whole,
                sparse,
                streamed: Mutex::default(),
                part_bytes,
                dtype: value.dtype,
                stored_as,
                is_made,
            };
            by_name.insert(name.clone(), saved);
        }
        let names = all.into_iter().map(|(name, slot)| (slot, name)).collect();
        let spill = spill.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let store = store.map(Mutex::new);
        Ok(ResultTiles { by_name, in_place, in_last_round, names, store, runtime, spool_bytes, spill })
    }

    /// Bytes of memory that results take while the program runs.
    pub(crate) fn bytes(&self) -> u64 {
        let of = |saved: &Saved| saved.whole.as_ref().map_or(0, Window::size_bytes) + saved.part_bytes;
        self.by_name.values().map(of).sum::<u64>() + self.spool_bytes
    }

    /// Whether some of these follow from the budget: with a larger one they would be more.
    pub(crate) fn has_shares(&self) -> bool {
        self.spool_bytes > 0 || self.by_name.values().any(|saved| saved.part_bytes > 0)
    }

    /// The values whose tiles are made in place.
    pub(crate) fn in_place(&self) -> HashSet<Slot> {
        self.in_place.keys().copied().collect()
    }

    /// Those whose tiles are made in place in the last round of a loop.
    pub(crate) fn in_last_round(&self) -> HashSet<Slot> {
        self.in_last_round.keys().copied().collect()
    }

    fn runtime(&self) -> Result<&Handle, ExecuteError> {
        let what = "results are stored within a runtime";
        self.runtime.as_ref().ok_or_else(|| ExecuteError::Internal { what: what.to_owned() })
    }

    /// Makes room in the dataset for what is certain to be stored tile by tile: what cannot be is known at once.
    pub(crate) fn begin(&self) -> Result<(), ExecuteError> {
        for (name, saved) in &self.by_name {
            if saved.is_made.load(Ordering::Relaxed) {
                self.begin_one(name, saved)?;
            }
        }
        Ok(())
    }

    /// Begins to write a result that is stored tile by tile, unless that has begun.
    fn begin_one(&self, name: &str, saved: &Saved) -> Result<(), ExecuteError> {
        if saved.whole.is_none() && saved.sparse.is_none() && saved.stored_as.is_some() {
            let mut streamed = saved.streamed.lock().unwrap_or_else(|e| e.into_inner());
            if streamed.is_none() {
                *streamed = Some(self.streamed(name, saved)?);
            }
        }
        Ok(())
    }

    fn streamed(&self, name: &str, saved: &Saved) -> Result<Streamed, ExecuteError> {
        let nobody = || ExecuteError::Internal { what: format!("{name:?} is not stored") };
        let mut store = self.store.as_ref().ok_or_else(nobody)?.lock().unwrap_or_else(|e| e.into_inner());
        let Store { table, targets, .. } = &mut **store;
        let Target { name: stored_as, wish, metadata } = targets.get(name).ok_or_else(nobody)?;
        let mut wish = wish.clone();
        if wish.chunk_shape.is_none() && wish.chunk_rank.is_none() {
            wish.chunk_shape = Some(saved.tiles.blocks.clone());
        }
        let shape = Shape::new(saved.tiles.dims.clone())?;
        let (parts, metadata) = (saved.part_bytes as usize, metadata.clone());
        let begun = table.array_writer(stored_as, saved.dtype, shape, &wish, metadata, parts, &self.spill);
        let writer = Arc::new(self.runtime()?.block_on(begun).map_err(stored)?);
        Ok(Streamed { writer, seen: HashSet::new() })
    }

    /// What writes a tile of a result that is stored tile by tile.
    fn writer(&self, name: &str, saved: &Saved, tile: u32) -> Result<Arc<ArrayWriter>, ExecuteError> {
        let mut streamed = saved.streamed.lock().unwrap_or_else(|e| e.into_inner());
        // In each round of a loop a result is saved anew, all of it.
        if streamed.as_ref().is_none_or(|streamed| streamed.seen.contains(&tile)) {
            *streamed = None;
        }
        let streamed = match &mut *streamed {
            Some(streamed) => streamed,
            none => none.insert(self.streamed(name, saved)?),
        };
        streamed.seen.insert(tile);
        Ok(Arc::clone(&streamed.writer))
    }

    /// The names in the dataset of what was stored.
    pub(crate) fn stored(&self) -> Vec<String> {
        let all = self.by_name.values().filter(|saved| saved.is_made.load(Ordering::Relaxed));
        all.filter_map(|saved| saved.stored_as.clone()).collect()
    }

    /// Stores what was put together, and hands out the rest. Fails if sparse results take more than there is.
    pub(crate) fn finish(self, budget: u64, team: Team<'_>) -> Result<BTreeMap<String, Made>, ExecuteError> {
        let ResultTiles { by_name, store, runtime, .. } = self;
        let no_runtime = || ExecuteError::Internal { what: "results are stored within a runtime".to_owned() };
        let mut store = store.map(|store| store.into_inner().unwrap_or_else(|e| e.into_inner()));
        let mut made = BTreeMap::new();
        let mut puts = Vec::new();
        let mut spools = Vec::new();
        for (name, saved) in by_name {
            if !saved.is_made.into_inner() {
                continue;
            }
            let streamed = saved.streamed.into_inner().unwrap_or_else(|e| e.into_inner());
            match (saved.whole, saved.sparse, streamed, saved.stored_as) {
                (Some(whole), _, _, Some(_)) => puts.push((name, whole)),
                (Some(whole), _, _, None) => {
                    made.insert(name, Made::Dense(whole));
                }
                (None, Some(spool), ..) => spools.push((name, spool)),
                (None, None, Some(Streamed { writer, .. }), _) => {
                    let (Some(store), Ok(writer)) = (&mut store, Arc::try_unwrap(writer)) else {
                        return Err(ExecuteError::Internal {
                            what: format!("{name:?} is still being written"),
                        });
                    };
                    let Store { table, options, .. } = &mut **store;
                    let runtime = runtime.as_ref().ok_or_else(no_runtime)?;
                    runtime.block_on(table.keep_array(writer, options)).map_err(stored)?;
                }
                (None, None, None, _) => {}
            }
        }
        if let (Some(store), false) = (&mut store, puts.is_empty()) {
            let mut items = Vec::new();
            for (name, whole) in &puts {
                let value = whole.as_tensor().map(Value::Dense);
                let (Some(target), Some(value)) = (store.targets.get(name), value) else { continue };
                items.push(Put {
                    name: target.name.clone(),
                    value,
                    wish: target.wish.clone(),
                    metadata: target.metadata.clone(),
                });
            }
            let runtime = runtime.as_ref().ok_or_else(no_runtime)?;
            runtime.block_on(store.table.put(items, store.options)).map_err(stored)?;
        }
        drop(puts);
        while let Some((name, spool)) = spools.pop() {
            let beside: u64 = made.values().map(Made::size_bytes).sum::<u64>()
                + spools.iter().map(|(_, spool)| spool.held()).sum::<u64>();
            let target = store.as_ref().and_then(|store| store.targets.get(&name)).cloned();
            let delivery = Delivery { name: &name, target, budget, beside, team };
            if let Some(back) = delivery.deliver(spool, store.as_deref_mut(), runtime.as_ref())? {
                made.insert(name, Made::Sparse(back));
            }
        }
        Ok(made)
    }
}

/// A sparse result on its way from its tiles to where it is wanted.
struct Delivery<'a> {
    name: &'a str,
    target: Option<Target>,
    budget: u64,
    /// Bytes of other results in memory.
    beside: u64,
    team: Team<'a>,
}

impl Delivery<'_> {
    /// Stores it, or gives it back.
    fn deliver(
        self,
        spool: Spool,
        store: Option<&mut Store<'_>>,
        runtime: Option<&Handle>,
    ) -> Result<Option<SparseTensor>, ExecuteError> {
        let (dtype, shape) = (spool.dtype(), Shape::new(spool.tiles().dims.clone())?);
        let counts = spool.counts()?;
        let nnz: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        let longest = counts.iter().copied().max().map_or(0, u64::from);
        let wish = self.target.as_ref().map(|target| &target.wish);
        let way = Way::of(wish, dtype, nnz, small_bytes(self.budget));
        let fixed = (self.beside + spool.held() + 4 * counts.len() as u64)
            .saturating_add(way.bytes(wish, dtype, &shape, nnz));
        let line = 8 * spool.tiles().counts[1] * spool.tiles().blocks[0];
        let needed = fixed.saturating_add(way.least(dtype, line, longest));
        if needed > self.budget {
            let what = format!("the result {:?} with {nnz} nonzeros{}", self.name, way.told());
            return Err(ExecuteError::Budget { what, needed, budget: self.budget });
        }
        let (team, panels) = way.cut(dtype, &counts, (self.budget - fixed, line), self.team);
        drop(counts);
        let spooled = Spooled { spool: &spool, shape, panels };
        let (Some(Target { name, wish, metadata }), Some(store), Some(runtime)) =
            (self.target, store, runtime)
        else {
            return whole(&spooled, team).map(Some);
        };
        let Store { table, options, .. } = store;
        if way == Way::Rows {
            let stored_as = (&name[..], wish.optimize, metadata);
            store_rows(&spooled, (table, options), stored_as, runtime, team)?;
            return Ok(None);
        }
        let made = whole(&spooled, team)?;
        drop(spooled);
        drop(spool);
        let put = Put { name, value: Value::Sparse(&made), wish, metadata };
        runtime.block_on(table.put(vec![put], options)).map_err(stored)?;
        Ok(None)
    }
}

/// Where a tile begins, and its shape.
pub(crate) fn bounds(tiles: &Tiles, tile: u32) -> (Vec<usize>, Vec<usize>) {
    let at = tiles.coordinates(tile as usize);
    let starts = at.iter().zip(&tiles.blocks).map(|(at, block)| (at * block) as usize).collect();
    (starts, tiles.shape(&at).iter().map(|&n| n as usize).collect())
}

/// The same as a selection.
pub(crate) fn slices(starts: &[usize], shape: &[usize]) -> Vec<Index> {
    let of = |(&start, &count): (&usize, &usize)| Index::Slice {
        start: Some(start as i64),
        stop: Some((start + count) as i64),
        step: None,
    };
    starts.iter().zip(shape).map(of).collect()
}

impl Results for ResultTiles<'_, '_> {
    fn window(&self, value: Slot, tile: u32) -> Option<(Window, Vec<usize>, Vec<usize>)> {
        let name = self.in_place.get(&value).or_else(|| self.in_last_round.get(&value))?;
        let saved = self.by_name.get(name)?;
        let (starts, shape) = bounds(&saved.tiles, tile);
        Some((saved.whole.clone()?, starts, shape))
    }

    fn name(&self, value: Slot) -> Option<&str> {
        self.names.get(&value).map(String::as_str)
    }

    fn saved(&self, name: &str) -> Result<(), ExecuteError> {
        let Some(saved) = self.by_name.get(name) else { return Ok(()) };
        saved.is_made.store(true, Ordering::Relaxed);
        self.begin_one(name, saved)
    }

    fn copies(&self, name: &str) -> u64 {
        let is_streamed = |saved: &Saved| saved.whole.is_none() && saved.sparse.is_none();
        // Shuffled, and compressed.
        if self.by_name.get(name).is_some_and(is_streamed) { 2 } else { 0 }
    }

    fn accept(&self, name: &str, _: Slot, tile: u32, found: &Tile) -> Result<u64, ExecuteError> {
        let Some(saved) = self.by_name.get(name) else { return Ok(0) };
        let (starts, shape) = bounds(&saved.tiles, tile);
        if let Some(spool) = &saved.sparse {
            match found {
                Tile::Sparse(found) => spool.put(tile, found)?,
                Tile::Dense(window) => spool.put(tile, &SparseTile::of_dense(window)?)?,
            }
            return Ok(0);
        }
        let dense = found.dense();
        if let Some(whole) = &saved.whole {
            let part = whole.part(&starts, &shape);
            if part.first() != dense.first() && !part.is_empty() {
                // SAFETY: every tile of a result is handed out once at a time, and nobody reads the result before the end.
                unsafe { WindowMut::within(whole, &starts, &shape) }.copy_from(&dense);
            }
            return Ok(0);
        }
        if saved.stored_as.is_none() {
            return Ok(0);
        }
        let dense = dense.into_owned().into_contiguous();
        let Some(tensor) = dense.as_tensor() else { return Ok(0) };
        let starts: Vec<u64> = starts.iter().map(|&start| start as u64).collect();
        self.writer(name, saved, tile)?.write(&starts, tensor).map_err(stored)?;
        Ok(dense.size_bytes())
    }
}

/// Results up to this many bytes together are put together before they are stored.
fn small_bytes(budget: u64) -> u64 {
    WHOLE_BYTES.min(budget / 8)
}

/// The results that are put together in memory: those that go back to the caller, and small ones.
pub(crate) fn kept_in_memory(
    network: &Network,
    is_stored: &dyn Fn(&str) -> bool,
    budget: u64,
    sparse: &Densities,
) -> Vec<(String, Slot)> {
    let mut small = 0;
    let mut all = network.saves();
    all.retain(|(name, slot)| {
        if sparse.contains_key(slot) {
            return false;
        }
        let is_stored = is_stored(name);
        let bytes = bytes_of_value(network, *slot);
        let is_kept = !is_stored || bytes <= WHOLE_BYTES && small + bytes <= budget / 8;
        small += if is_kept && is_stored { bytes } else { 0 };
        is_kept
    });
    all
}

/// What results take.
pub(crate) fn bytes_of(network: &Network, results: &[(String, Slot)]) -> u64 {
    results.iter().map(|(_, slot)| bytes_of_value(network, *slot)).fold(0, u64::saturating_add)
}

/// What all elements of a value take; of a sparse one that may be more than can be counted.
fn bytes_of_value(network: &Network, slot: Slot) -> u64 {
    let value = network.value(slot);
    value.dims.iter().fold(value.dtype.size_bytes() as u64, |bytes, &extent| bytes.saturating_mul(extent))
}

/// What the last round of an outermost loop makes for a value that it carried, if that is known to be the last one.
fn made_in_last_round(plan: &ProgramPlan, slot: Slot) -> Option<Slot> {
    let network = &plan.network;
    let MadeBy::Carried(at) = network.value(slot).made else { return None };
    let node = &network.loops[at];
    let next = node.carried.iter().find(|carried| carried.inside == slot)?.next;
    let MadeBy::Operator(by) = network.value(next).made else { return None };
    let is_counted = matches!(node.until, Until::Counted(..));
    let is_outermost = network.flow.contains(&FlowNode::Loop(at));
    let is_its_own = network.operators[by].scope == node.scopes[0] && plan.tiles(next) == plan.tiles(slot);
    (is_counted && is_outermost && is_its_own).then_some(next)
}

/// Whether most of the time goes into making each element of a value, as in a product of matrices, or a formula of one.
fn takes_long(plan: &ProgramPlan, slot: Slot) -> bool {
    let made_by = |slot: Slot| match plan.network.value(slot).made {
        MadeBy::Operator(at) => Some(&plan.network.operators[at]),
        _ => None,
    };
    let has_many_terms = |operator: &Operator| {
        let fold = operator.fold.as_ref();
        fold.is_some_and(|fold| fold.axes.iter().map(|axis| axis.extent).product::<u64>() >= MANY_TERMS)
    };
    let dims = |slot: Slot| &plan.network.value(slot).dims;
    made_by(slot).is_some_and(|operator| {
        let mut reads = operator.reads.iter().filter(|read| dims(read.value) == dims(slot));
        has_many_terms(operator)
            || operator.fold.is_none() && reads.any(|read| made_by(read.value).is_some_and(has_many_terms))
    })
}

/// A budget that is less than the results in memory.
pub(crate) fn results_alone(needed: u64, budget: u64) -> ExecuteError {
    let what = "to keep the results, which go back to the caller as arrays,".to_owned();
    ExecuteError::Budget { what, needed, budget }
}

/// Fails if a dataset was deleted meanwhile: a version of what is no longer there would be no dataset either.
pub(crate) async fn still_there(table: &Table) -> Result<(), ExecuteError> {
    match table.is_there().await.map_err(stored)? {
        true => Ok(()),
        false => {
            let what = format!("the dataset was deleted while the program ran: {}", table.store().text());
            Err(ExecuteError::Storage { kind: ErrorKind::NotFound, what })
        }
    }
}

/// What decides the bits of a result, next to the program and its inputs.
pub(crate) fn fixed_by(plan: &ProgramPlan) -> Json {
    let blocks: BTreeMap<String, Vec<u64>> = plan
        .placed
        .keys()
        .map(|&slot| (plan.network.value(slot).name.clone(), plan.tiles(slot).blocks))
        .collect();
    json!({
        "lanes": plan.options.sites,
        "tiles": blocks,
        "kernels": format!("lacus {}, {}", env!("CARGO_PKG_VERSION"), lacus_tensor::kernels::REVISION),
        "target": std::env::consts::ARCH,
        "vectors": lacus_tensor::kernels::vectors_of_this_machine(),
    })
}
