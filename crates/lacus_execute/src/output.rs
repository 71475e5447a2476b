//! Where results go: arrays for the caller, or a transaction of a table, tile by tile while the program runs.

use crate::engine::Results;
use crate::error::ExecuteError;
use crate::input::stored;
use crate::sparsity::Densities;
use crate::tile::{SparseTile, Tile};
use crate::window::{Window, WindowMut};
use lacus_algebra::expr::Slot;
use lacus_algebra::{FlowNode, Made as MadeBy, Network, Operator, ProgramPlan, Tiles, Until};
use lacus_layout::{Value, Wish};
use lacus_table::{ErrorKind, Put, Table, WriteOptions};
use lacus_tensor::{Buffer, DType, Index, Shape, SparseTensor};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Handle;

/// A result that goes back to the caller.
#[derive(Clone, Debug)]
pub enum Made {
    /// Every element, in C order.
    Dense(Window),
    /// The nonzeros.
    Sparse(SparseTensor),
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
}

struct Saved {
    tiles: Tiles,
    /// All of it; `None` for what is stored tile by tile.
    whole: Option<Window>,
    /// Tiles of a sparse result.
    sparse: Option<Mutex<BTreeMap<u32, SparseTile>>>,
    dtype: DType,
    /// The name in the dataset.
    stored_as: Option<String>,
    /// Whether it is certain that the program saves it.
    is_made: AtomicBool,
    /// Whether there is room in the dataset for its tiles.
    is_begun: AtomicBool,
}

impl<'a, 't> ResultTiles<'a, 't> {
    /// Room for results.
    pub(crate) fn new(
        plan: &ProgramPlan,
        store: Option<&'a mut Store<'t>>,
        runtime: Option<Handle>,
        budget: u64,
        sparse: &Densities,
        workers: usize,
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
            let whole = is_whole.then(|| match is_long && bytes >= WHOLE_BYTES {
                true => WindowMut::populated(value.dtype, &shape, workers).freeze(),
                false => WindowMut::for_overwrite(value.dtype, &shape).freeze(),
            });
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
            let sparse = is_sparse.then(|| Mutex::new(BTreeMap::new()));
            // A loop that saves may have no rounds.
            let is_made = AtomicBool::new(is_at_end);
            let saved = Saved {
                tiles,
                whole,
                sparse,
                dtype: value.dtype,
                stored_as,
                is_made,
                is_begun: false.into(),
            };
            by_name.insert(name.clone(), saved);
        }
        let names = all.into_iter().map(|(name, slot)| (slot, name)).collect();
        Ok(ResultTiles { by_name, in_place, in_last_round, names, store: store.map(Mutex::new), runtime })
    }

    /// Bytes of memory that results take while the program runs.
    pub(crate) fn bytes(&self) -> u64 {
        self.by_name.values().filter_map(|saved| saved.whole.as_ref()).map(Window::size_bytes).sum()
    }

    /// The values whose tiles are made in place.
    pub(crate) fn in_place(&self) -> HashSet<Slot> {
        self.in_place.keys().copied().collect()
    }

    /// Those whose tiles are made in place in the last round of a loop.
    pub(crate) fn in_last_round(&self) -> HashSet<Slot> {
        self.in_last_round.keys().copied().collect()
    }

    fn block<T>(
        &self,
        work: impl Future<Output = Result<T, lacus_table::TableError>>,
    ) -> Result<T, ExecuteError> {
        let runtime = self.runtime.as_ref().ok_or_else(|| ExecuteError::Internal {
            what: "results are stored within a runtime".to_owned(),
        })?;
        runtime.block_on(work).map_err(stored)
    }

    /// Makes room in the dataset for what is certain to be stored tile by tile: what cannot be is known at once.
    pub(crate) fn begin(&self) -> Result<(), ExecuteError> {
        let Some(store) = &self.store else { return Ok(()) };
        let mut store = store.lock().unwrap_or_else(|e| e.into_inner());
        for (name, saved) in &self.by_name {
            if saved.whole.is_none() && saved.sparse.is_none() && saved.is_made.load(Ordering::Relaxed) {
                self.begin_one(name, saved, &mut store)?;
            }
        }
        Ok(())
    }

    /// Makes room in the dataset for a result, once.
    fn begin_one(&self, name: &str, saved: &Saved, store: &mut Store<'t>) -> Result<(), ExecuteError> {
        let Store { table, options, targets } = store;
        let Some(target) = targets.get(name) else { return Ok(()) };
        if saved.is_begun.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        if table.contains(&target.name) {
            self.block(table.remove(&[&target.name], options))?;
        }
        let mut wish = target.wish.clone();
        if wish.chunk_shape.is_none() && wish.chunk_rank.is_none() {
            wish.chunk_shape = Some(saved.tiles.blocks.clone());
        }
        let shape = Shape::new(saved.tiles.dims.clone())?;
        let metadata = target.metadata.clone();
        self.block(table.create_array(&target.name, saved.dtype, shape, &wish, metadata, options))?;
        Ok(())
    }

    /// The names in the dataset of what was stored.
    pub(crate) fn stored(&self) -> Vec<String> {
        let all = self.by_name.values().filter(|saved| saved.is_made.load(Ordering::Relaxed));
        all.filter_map(|saved| saved.stored_as.clone()).collect()
    }

    /// Stores what was put together, and hands out the rest.
    pub(crate) fn finish(self) -> Result<BTreeMap<String, Made>, ExecuteError> {
        let ResultTiles { by_name, store, runtime, .. } = self;
        let mut made = BTreeMap::new();
        let mut puts = Vec::new();
        for (name, saved) in by_name {
            if !saved.is_made.into_inner() {
                continue;
            }
            let value = match (saved.whole, saved.sparse) {
                (Some(whole), _) => Made::Dense(whole),
                (None, Some(tiles)) => {
                    let tiles = tiles.into_inner().unwrap_or_else(|e| e.into_inner());
                    Made::Sparse(assembled(saved.dtype, &saved.tiles, &tiles)?)
                }
                (None, None) => continue,
            };
            match saved.stored_as {
                Some(_) => puts.push((name, value)),
                None => {
                    made.insert(name, value);
                }
            }
        }
        if let (Some(store), Some(runtime), false) = (store, runtime, puts.is_empty()) {
            let store = store.into_inner().unwrap_or_else(|e| e.into_inner());
            let mut items = Vec::new();
            for (name, made) in &puts {
                let value = match made {
                    Made::Dense(whole) => whole.as_tensor().map(Value::Dense),
                    Made::Sparse(sparse) => Some(Value::Sparse(sparse)),
                };
                let (Some(target), Some(value)) = (store.targets.get(name), value) else { continue };
                items.push(Put {
                    name: target.name.clone(),
                    value,
                    wish: target.wish.clone(),
                    metadata: target.metadata.clone(),
                });
            }
            runtime.block_on(store.table.put(items, store.options)).map_err(stored)?;
        }
        Ok(made)
    }
}

/// A sparse tensor from its tiles.
fn assembled(
    dtype: DType,
    tiles: &Tiles,
    all: &BTreeMap<u32, SparseTile>,
) -> Result<SparseTensor, ExecuteError> {
    let shape = Shape::new(tiles.dims.clone())?;
    let size = dtype.size_bytes();
    let nnz: usize = all.values().map(SparseTile::nnz).sum();
    let mut rows: Vec<i64> = Vec::with_capacity(nnz);
    let mut columns: Vec<i64> = Vec::with_capacity(nnz);
    let mut values: Vec<u8> = Vec::with_capacity(nnz * size);
    for (&tile, found) in all {
        let (starts, _) = bounds(tiles, tile);
        let ([own_rows, own_columns], own_values) = found.coordinates();
        rows.extend(own_rows.iter().map(|row| row + starts[0] as i64));
        columns.extend(own_columns.iter().map(|column| column + starts[1] as i64));
        values.extend_from_slice(own_values.bytes().unwrap_or_default());
    }
    // Tiles come one after another, rows go across them.
    let mut order: Vec<usize> = (0..nnz).collect();
    order.sort_unstable_by_key(|&at| (rows[at], columns[at]));
    let coordinates: Vec<i64> =
        order.iter().map(|&at| rows[at]).chain(order.iter().map(|&at| columns[at])).collect();
    let sorted: Vec<u8> =
        order.iter().flat_map(|&at| values[at * size..(at + 1) * size].iter().copied()).collect();
    Ok(SparseTensor::from_sorted(
        dtype,
        shape,
        Buffer::from_elements(&coordinates),
        Buffer::from_slice(&sorted),
    ))
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
        match &self.store {
            Some(store) if saved.whole.is_none() && saved.sparse.is_none() => {
                self.begin_one(name, saved, &mut store.lock().unwrap_or_else(|e| e.into_inner()))
            }
            _ => Ok(()),
        }
    }

    fn accept(&self, name: &str, _: Slot, tile: u32, found: &Tile) -> Result<u64, ExecuteError> {
        let Some(saved) = self.by_name.get(name) else { return Ok(0) };
        let (starts, shape) = bounds(&saved.tiles, tile);
        if let Some(sparse) = &saved.sparse {
            let kept = match found {
                Tile::Sparse(found) => found.clone(),
                Tile::Dense(window) => SparseTile::of_dense(window)?,
            };
            sparse.lock().unwrap_or_else(|e| e.into_inner()).insert(tile, kept);
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
        let (Some(store), Some(stored_as)) = (&self.store, &saved.stored_as) else { return Ok(0) };
        let dense = dense.into_owned().into_contiguous();
        let Some(tensor) = dense.as_tensor() else { return Ok(0) };
        let indices = slices(&starts, &shape);
        let mut store = store.lock().unwrap_or_else(|e| e.into_inner());
        self.begin_one(name, saved, &mut store)?;
        let Store { table, options, .. } = &mut **store;
        self.block(table.write_region(stored_as, &indices, tensor, options))?;
        Ok(dense.size_bytes())
    }
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
