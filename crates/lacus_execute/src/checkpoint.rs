//! Checkpoints of loops: what a loop carries from round to round, stored in the dataset now and then, so that a run that
//! was killed is gone on with.
//!
//! ```text
//! _run/<program and inputs>/<loop>/<value>/dense        its tiles, as one array
//!                                         /<tile>       one that is sparse
//! ```
//!
//! All of one loop is replaced at once, by a version of its own: the results' transaction knows nothing of it. What a
//! checkpoint is called follows from everything that decides the bits of a result, so whoever finds one can go on with it,
//! and has the same bits at the end. The version that has the results no longer has the checkpoints.

use crate::engine::Engine;
use crate::error::ExecuteError;
use crate::flow::Rounds;
use crate::input::{Input, stored};
use crate::memory::TileId;
use crate::output::{Store, WHOLE_BYTES, bounds, fixed_by, slices, still_there};
use crate::tile::{SparseTile, Tile};
use crate::window::{Window, WindowMut};
use lacus_algebra::expr::Slot;
use lacus_algebra::{FlowNode, Network, ProgramPlan};
use lacus_layout::{Value, Wish};
use lacus_table::{ErrorKind, Put, Table, TableError, WriteOptions};
use lacus_tensor::{Buffer, DType, Shape, Tensor, TensorRef};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use tokio::runtime::Handle;

/// Where checkpoints are in a dataset.
const PLACE: &str = "_run";

/// Where a checkpoint's facts are in the metadata of its arrays.
const FACTS: &str = "lacus.checkpoint";

/// Arrays are hashed piece by piece, so that one that is not contiguous need not be copied as a whole.
const PIECE_BYTES: u64 = 4 << 20;

/// The checkpoints of one run.
pub(crate) struct Checkpoints {
    /// A handle of its own: its versions are made while the results' transaction is open.
    table: Table,
    options: WriteOptions,
    runtime: Handle,
    every: u64,
    /// The names of all of them begin with this.
    prefix: String,
    /// Values up to this size are put together in memory.
    whole_bytes: u64,
}

impl Checkpoints {
    /// Looks for checkpoints of the same program on the same inputs. Fails if one of its loops cannot have any.
    pub(crate) fn new(
        plan: &ProgramPlan,
        inputs: &BTreeMap<String, Input<'_>>,
        store: &Store<'_>,
        runtime: Option<Handle>,
        (every, budget): (u64, u64),
    ) -> Result<Checkpoints, ExecuteError> {
        for node in &plan.network.flow {
            if let FlowNode::Loop(of) = node {
                can_be_gone_on_with(&plan.network, *of)?;
            }
        }
        let runtime = runtime.ok_or(ExecuteError::NoCheckpoints)?;
        let mut table = store.table.twin();
        runtime.block_on(table.refresh()).map_err(stored)?;
        let prefix = format!("{PLACE}/{}", identity(plan, inputs)?);
        let options = WriteOptions { progress: None, ..store.options.clone() };
        let whole_bytes = WHOLE_BYTES.min(budget / 8);
        Ok(Checkpoints { table, options, runtime, every: every.max(1), prefix, whole_bytes })
    }

    /// Rounds of the run that `engine` does.
    pub(crate) fn rounds<'e, 'a>(&'e mut self, engine: &'e Engine<'a>) -> Recorder<'e, 'a> {
        Recorder { checkpoints: self, engine, began: 0, resumed: 0 }
    }

    /// Takes all of them away, with the transaction that has the results.
    pub(crate) fn discard(self, store: &mut Store<'_>) -> Result<(), ExecuteError> {
        let names = self.names(&self.prefix);
        if names.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.runtime.block_on(store.table.discard(&names, store.options)).map_err(stored)?;
        Ok(())
    }

    /// Everything below a name.
    fn names(&self, above: &str) -> Vec<String> {
        let mut names = self.table.names();
        names.retain(|name| name.strip_prefix(above).is_some_and(|rest| rest.starts_with('/')));
        names
    }

    /// A tile that was sparse.
    fn read_sparse(&self, name: &str, dtype: DType, shape: &[usize]) -> Result<SparseTile, ExecuteError> {
        let length = self.table.tensor(name).map_err(stored)?.header.shape.dims().iter().product::<u64>();
        let mut bytes = vec![0; length as usize];
        self.runtime.block_on(self.table.read_into(name, &[], &mut bytes)).map_err(stored)?;
        let &[rows, columns] = shape else { return Err(odd(name)) };
        let nnz = bytes.len().saturating_sub((rows + 1) * 8) / (4 + dtype.size_bytes());
        Ok(SparseTile::from_bytes(dtype, [rows, columns], nnz, &bytes)?)
    }
}

fn odd(name: &str) -> ExecuteError {
    let what = format!("checkpoint {name:?} is not what a run has written; remove it to start over");
    ExecuteError::Storage { kind: ErrorKind::Corrupt, what }
}

/// Writes down rounds, and goes on with those that were.
pub(crate) struct Recorder<'e, 'a> {
    checkpoints: &'e mut Checkpoints,
    engine: &'e Engine<'a>,
    /// Rounds of all loops when this one began, and those of it that an earlier run has done.
    began: u64,
    resumed: u64,
}

impl Recorder<'_, '_> {
    fn network(&self) -> &Network {
        &self.engine.plan.network
    }

    /// What is stored of a value: its facts, or nothing if it does not fit.
    fn facts(&self, name: &str, slot: Slot) -> Result<Option<Json>, ExecuteError> {
        if !self.checkpoints.table.contains(name) {
            return Ok(None);
        }
        let found = self.checkpoints.table.tensor(name).map_err(stored)?;
        let value = self.network().value(slot);
        let facts = found.metadata.get(FACTS).cloned();
        let is_same = found.header.dtype == value.dtype && found.header.shape.dims() == value.dims;
        Ok(facts.filter(|_| is_same))
    }

    /// Stores what a loop carries.
    fn write(&mut self, of: usize, round: u64, carried: &[(Slot, Vec<TileId>)]) -> Result<(), TableOr> {
        let engine = self.engine;
        let plan = engine.plan;
        let counted = engine.report().rounds - self.began + self.resumed;
        let Checkpoints { table, options, runtime, prefix, whole_bytes, .. } = &mut *self.checkpoints;
        let before: Vec<String> = {
            let above = format!("{prefix}/{of}/");
            table.names().into_iter().filter(|name| name.starts_with(&above)).collect()
        };
        if !before.is_empty() {
            let before: Vec<&str> = before.iter().map(String::as_str).collect();
            runtime.block_on(table.remove(&before, options))?;
        }
        let as_chunks = |shape: Vec<u64>| Wish {
            layout: Some("FTSF".to_owned()),
            chunk_shape: (!shape.is_empty()).then_some(shape),
            ..Wish::default()
        };
        let mut wholes: Vec<(String, Window, Wish, Json)> = Vec::new();
        let mut parts: Vec<(String, Tensor)> = Vec::new();
        for (k, (slot, ids)) in carried.iter().enumerate() {
            let value = plan.network.value(*slot);
            let tiles = plan.tiles(*slot);
            let name = format!("{prefix}/{of}/{k}/dense");
            let shape: Vec<usize> = value.dims.iter().map(|&n| n as usize).collect();
            let bytes = tiles.floats().iter().sum::<u64>() * value.dtype.size_bytes() as u64;
            let wish = as_chunks(tiles.blocks.iter().map(|&n| n.max(1)).collect());
            let mut sparse = Vec::new();
            let mut metadata = json!({FACTS: {
                "program": plan.network.source, "loop": of, "value": value.name, "rounds": round, "counted": counted,
            }});
            if bytes <= *whole_bytes {
                let whole = WindowMut::zeroed(value.dtype, &shape).freeze();
                for (tile, &id) in ids.iter().enumerate() {
                    match engine.fetch(id)? {
                        Tile::Dense(window) => {
                            let (starts, shape) = bounds(&tiles, tile as u32);
                            // SAFETY: the array is ours alone, and nobody looks at it before it is complete.
                            unsafe { WindowMut::within(&whole, &starts, &shape) }.copy_from(&window);
                        }
                        Tile::Sparse(found) => {
                            sparse.push(tile);
                            parts.push(part_of(&found, format!("{prefix}/{of}/{k}/{tile}"))?);
                        }
                    }
                }
                metadata[FACTS]["sparse"] = json!(sparse);
                wholes.push((name, whole, wish, metadata));
                continue;
            }
            let all = Shape::new(value.dims.clone()).map_err(ExecuteError::from)?;
            runtime.block_on(table.create_array(&name, value.dtype, all, &wish, None, options))?;
            for (tile, &id) in ids.iter().enumerate() {
                match engine.fetch(id)? {
                    Tile::Dense(window) => {
                        let (starts, shape) = bounds(&tiles, tile as u32);
                        let window = window.into_contiguous();
                        let Some(tensor) = window.as_tensor() else { continue };
                        runtime.block_on(table.write_region(
                            &name,
                            &slices(&starts, &shape),
                            tensor,
                            options,
                        ))?;
                    }
                    Tile::Sparse(found) => {
                        sparse.push(tile);
                        let found = [part_of(&found, format!("{prefix}/{of}/{k}/{tile}"))?];
                        runtime.block_on(table.put(puts(&found), options))?;
                    }
                }
            }
            metadata[FACTS]["sparse"] = json!(sparse);
            runtime.block_on(table.set_metadata(Some(&name), metadata, options))?;
        }
        let mut items = puts(&parts);
        for (name, whole, wish, metadata) in &wholes {
            let Some(tensor) = whole.as_tensor() else { continue };
            let (wish, metadata) = (wish.clone(), Some(metadata.clone()));
            items.push(Put { name: name.clone(), value: Value::Dense(tensor), wish, metadata });
        }
        if !items.is_empty() {
            runtime.block_on(table.put(items, options))?;
        }
        Ok(())
    }
}

impl Rounds for Recorder<'_, '_> {
    fn begin(&mut self, _: usize) {
        self.began = self.engine.report().rounds;
    }

    fn over(&mut self, of: usize, round: u64, carried: &[(Slot, Vec<TileId>)]) -> Result<(), ExecuteError> {
        if !round.is_multiple_of(self.checkpoints.every) || carried.is_empty() {
            return Ok(());
        }
        {
            let Checkpoints { table, runtime, .. } = &mut *self.checkpoints;
            runtime.block_on(table.refresh()).map_err(stored)?;
            runtime.block_on(still_there(table))?;
            table.begin().map_err(stored)?;
        }
        let written = self.write(of, round, carried);
        let Checkpoints { table, options, runtime, .. } = &mut *self.checkpoints;
        let done = match written {
            Ok(()) => {
                let detail = json!({"loop": of, "rounds": round});
                runtime.block_on(table.finish("CHECKPOINT", detail, None, options)).map_err(TableOr::from)
            }
            Err(error) => {
                runtime.block_on(table.abandon());
                Err(error)
            }
        };
        match done {
            Ok(_) => Ok(()),
            // Another run of the same program has written one: it is as good as ours.
            Err(TableOr::Table(TableError::Conflict { .. })) => Ok(()),
            Err(TableOr::Table(error)) => Err(stored(error)),
            Err(TableOr::Other(error)) => Err(error),
        }
    }

    fn resume(&mut self, of: usize) -> Result<Option<(u64, Vec<(Slot, Vec<TileId>)>)>, ExecuteError> {
        self.resumed = 0;
        let plan = self.engine.plan;
        let mut found = Vec::new();
        for (k, carried) in plan.network.loops[of].carried.iter().enumerate() {
            let name = format!("{}/{of}/{k}", self.checkpoints.prefix);
            let Some(facts) = self.facts(&format!("{name}/dense"), carried.inside)? else { return Ok(None) };
            found.push((carried.inside, name, facts));
        }
        let number = |facts: &Json, what: &str| facts.get(what).and_then(Json::as_u64).unwrap_or(0);
        let Some(done) = found.first().map(|(.., facts)| number(facts, "rounds")).filter(|&done| done > 0)
        else {
            return Ok(None);
        };
        if found.iter().any(|(.., facts)| number(facts, "rounds") != done) {
            return Ok(None);
        }
        self.resumed = found.first().map_or(0, |(.., facts)| number(facts, "counted"));
        let mut all = Vec::new();
        for (slot, name, facts) in found {
            let value = plan.network.value(slot);
            let tiles = plan.tiles(slot);
            let sparse: Vec<u64> = facts["sparse"]
                .as_array()
                .map(|all| all.iter().filter_map(Json::as_u64).collect())
                .unwrap_or_default();
            let mut ids = Vec::with_capacity(tiles.len());
            for tile in 0..tiles.len() as u32 {
                let (starts, shape) = bounds(&tiles, tile);
                let read = if sparse.contains(&u64::from(tile)) {
                    let name = format!("{name}/{tile}");
                    Tile::Sparse(self.checkpoints.read_sparse(&name, value.dtype, &shape)?)
                } else {
                    let mut window = WindowMut::for_overwrite(value.dtype, &shape);
                    let bytes = window.bytes_mut().unwrap_or_default();
                    let Checkpoints { table, runtime, .. } = &*self.checkpoints;
                    let name = format!("{name}/dense");
                    runtime
                        .block_on(table.read_into(&name, &slices(&starts, &shape), bytes))
                        .map_err(stored)?;
                    Tile::Dense(window.freeze())
                };
                ids.push(self.engine.add_given(read)?);
            }
            all.push((slot, ids));
        }
        self.engine.count_resumed(done, self.resumed);
        Ok(Some((done, all)))
    }
}

/// An error of the table, of which some are none here, or another one.
enum TableOr {
    Table(TableError),
    Other(ExecuteError),
}

impl From<TableError> for TableOr {
    fn from(error: TableError) -> TableOr {
        TableOr::Table(error)
    }
}

impl From<ExecuteError> for TableOr {
    fn from(error: ExecuteError) -> TableOr {
        TableOr::Other(error)
    }
}

/// A sparse tile exactly as it is: an element that is stored and zero stays stored.
fn part_of(tile: &SparseTile, name: String) -> Result<(String, Tensor), ExecuteError> {
    let bytes = tile.to_bytes().concat();
    let shape = Shape::new([bytes.len() as u64])?;
    Ok((name, Tensor::new(DType::U8, shape, Buffer::from_slice(&bytes))?))
}

fn puts(parts: &[(String, Tensor)]) -> Vec<Put<'_>> {
    let wish = Wish { layout: Some("FTSF".to_owned()), ..Wish::default() };
    let mut all = Vec::with_capacity(parts.len());
    for (name, tensor) in parts {
        let (name, wish) = (name.clone(), wish.clone());
        all.push(Put { name, value: Value::Dense(tensor.as_ref()), wish, metadata: None });
    }
    all
}

/// A loop that is gone on with in the middle does its last round, or the first part of it, in any case. What is saved there
/// is saved then. What is saved elsewhere in a loop might have been saved for the last time before.
fn can_be_gone_on_with(network: &Network, of: usize) -> Result<(), ExecuteError> {
    fn refuse(network: &Network, flow: &[FlowNode], within: &'static str) -> Result<(), ExecuteError> {
        for node in flow {
            match node {
                FlowNode::Save(_, name) => {
                    return Err(ExecuteError::SavesWithin { name: name.clone(), within });
                }
                FlowNode::Loop(of) => {
                    refuse(network, &network.loops[*of].before, within)?;
                    refuse(network, &network.loops[*of].after, within)?;
                }
                FlowNode::Operator(_) => {}
            }
        }
        Ok(())
    }
    let node = &network.loops[of];
    refuse(network, &node.after, "'while'")?;
    for inner in &node.before {
        if let FlowNode::Loop(_) = inner {
            refuse(network, std::slice::from_ref(inner), "a loop in it")?;
        }
    }
    Ok(())
}

/// What tells this run from all that could have other bits.
fn identity(plan: &ProgramPlan, inputs: &BTreeMap<String, Input<'_>>) -> Result<String, ExecuteError> {
    let mut hash = Sha256::new();
    let say = |hash: &mut Sha256, bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    say(&mut hash, plan.network.source.as_bytes());
    say(&mut hash, fixed_by(plan).to_string().as_bytes());
    for &slot in plan.placed.keys() {
        say(&mut hash, format!("{} {:?}", slot.0, plan.tiles(slot).blocks).as_bytes());
    }
    for (_, name) in plan.loads() {
        say(&mut hash, name.as_bytes());
        let Some(input) = inputs.get(name) else { continue };
        let (dtype, shape, _) = input.describe()?;
        say(&mut hash, format!("{dtype} {shape}").as_bytes());
        match input {
            Input::Dense(tensor) => hash_elements(&mut hash, tensor),
            Input::Sparse(tensor) => {
                say(&mut hash, tensor.coords());
                say(&mut hash, tensor.values());
            }
            Input::Stored(table, name) => {
                say(&mut hash, table.dataset_id().as_bytes());
                say(&mut hash, table.fingerprint(name).map_err(stored)?.as_bytes());
            }
        }
    }
    Ok(hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

fn hash_elements(hash: &mut Sha256, tensor: &TensorRef<'_>) {
    if let Some(bytes) = tensor.contiguous_bytes() {
        hash.update(bytes);
        return;
    }
    let dims = tensor.shape().dims();
    let Some((&rows, rest)) = dims.split_first() else {
        hash.update(tensor.to_tensor().bytes());
        return;
    };
    let row_bytes = rest.iter().product::<u64>() * tensor.dtype().size_bytes() as u64;
    let step = (PIECE_BYTES / row_bytes.max(1)).max(1);
    let mut from = 0;
    while from < rows {
        let (mut starts, mut shape) = (vec![0; dims.len()], dims.to_vec());
        (starts[0], shape[0]) = (from, step.min(rows - from));
        hash.update(tensor.region(&starts, &shape).to_tensor().bytes());
        from += step;
    }
}
