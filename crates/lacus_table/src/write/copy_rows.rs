//! Copies live rows into new files, without decoding a chunk: for compaction, small rewrites and
//! renames.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use lacus_io::{Store, World, on_plain_thread};
use lacus_layout::{EncodeChunks, EncodedChunk, Layout, LayoutError, Scratch};

use crate::error::TableError;
use crate::files::cell_file::CellFileWriter;
use crate::files::checks::pieces;
use crate::files::chunk_file::StagedFile;
use crate::log::snapshot::{HeaderRow, Snapshot};
use crate::read::arrays::read_stored;
use crate::read::cells::read_cells;
use crate::read::tensor_index::{Cache, TensorIndex};
use crate::schema::{DATASET_ROW, ROW_AXIS};
use crate::write::copy_samples::{CopiedColumn, Origin, copy_samples};
use crate::write::stage::{ChunkJob, FILE_BYTES, Meter, Ready, WriteOptions, new_path, write_chunks};

/// Stored bytes read at a time while copying, and how many such groups are held.
const GROUP_BYTES: u64 = 8 << 20;
const GROUPS_HELD: usize = 3;

/// Cells copied at a time.
const COPY_ROWS: u64 = 1 << 20;

/// What to copy of one tensor.
#[derive(Clone, Debug)]
pub(crate) struct Copied {
    /// The tensor as it is called now.
    pub name: String,
    /// The name the copy gets.
    pub new_name: String,
    /// The header row to write, if it is among what is copied.
    pub header: Option<HeaderRow>,
    /// Copies only rows in these files; `None` for all.
    pub only: Option<Vec<String>>,
}

/// Copies the live rows of tensors, sorted by their new names.
pub(crate) async fn copy_rows(
    store: &Store,
    world: &World,
    cache: &Arc<Cache>,
    snapshot: &Snapshot,
    tensors: &[Copied],
    options: &WriteOptions,
) -> Result<Vec<StagedFile>, TableError> {
    let origin = Origin { store, cache, snapshot, axis: None };
    copy_between(&origin, store, world, tensors, options).await
}

/// Copies the live rows of tensors from one store to another.
pub(crate) async fn copy_between(
    origin: &Origin<'_>,
    to: &Store,
    world: &World,
    tensors: &[Copied],
    options: &WriteOptions,
) -> Result<Vec<StagedFile>, TableError> {
    let Origin { store, cache, snapshot, .. } = *origin;
    let mut chunked: BTreeMap<&str, (&Copied, Option<Arc<TensorIndex>>)> = BTreeMap::new();
    let mut columns = Vec::new();
    let mut celled: BTreeMap<&str, (&Copied, Arc<TensorIndex>)> = BTreeMap::new();
    for copied in tensors {
        if copied.name == DATASET_ROW {
            chunked.insert(&copied.new_name, (copied, None));
            continue;
        }
        if copied.name == ROW_AXIS || snapshot.tensor(&copied.name).is_some_and(|s| s.header.is_column()) {
            columns.push(CopiedColumn {
                name: copied.name.clone(),
                new_name: copied.new_name.clone(),
                header: copied.header.clone(),
                only: copied.only.clone(),
            });
            continue;
        }
        let index = cache.tensor(store, snapshot, &copied.name).await?;
        if matches!(index.header.layout, Layout::Coordinates) {
            celled.insert(&copied.new_name, (copied, index));
        } else {
            chunked.insert(&copied.new_name, (copied, Some(index)));
        }
    }
    let mut files = copy_chunks(store, to, world, chunked, options).await?;
    files.extend(copy_cells(store, to, world, celled, options).await?);
    if !columns.is_empty() {
        files.extend(copy_samples(origin, to, world, columns, options).await?);
    }
    Ok(files)
}

fn is_wanted(copied: &Copied, path: &str) -> bool {
    copied.only.as_ref().is_none_or(|paths| paths.iter().any(|p| p == path))
}

async fn copy_chunks(
    store: &Store,
    to: &Store,
    world: &World,
    tensors: BTreeMap<&str, (&Copied, Option<Arc<TensorIndex>>)>,
    options: &WriteOptions,
) -> Result<Vec<StagedFile>, TableError> {
    let failed: Mutex<Option<TableError>> = Mutex::new(None);
    let mut jobs = Vec::with_capacity(tensors.len());
    for (new_name, (copied, index)) in tensors {
        let wanted: Vec<usize> = match &index {
            Some(index) => (0..index.places.len())
                .filter(|&i| is_wanted(copied, &index.files[index.places[i].file as usize].path))
                .collect(),
            None => Vec::new(),
        };
        let (encoder, value_bytes): (Box<dyn EncodeChunks + '_>, u64) = match index {
            Some(index) => {
                let bytes = wanted.iter().map(|&i| index.places[i].bytes).sum();
                (Box::new(Stored::new(store, index, wanted, &failed)), bytes)
            }
            None => (Box::new(Ready { chunks: Vec::new() }), 0),
        };
        let (name, header) = (new_name.to_owned(), copied.header.clone());
        jobs.push(ChunkJob { name, header, encoder, value_bytes, expected_bytes: 0 });
    }
    let total = jobs.iter().map(|job| job.value_bytes).sum();
    let written = write_chunks(to, world, jobs, options, &Meter::new(options, total)).await;
    match failed.into_inner().unwrap_or_else(|e| e.into_inner()) {
        Some(error) => Err(error),
        None => written,
    }
}

/// Chunks that are stored already, read a group at a time as their turn comes.
struct Stored<'a> {
    store: &'a Store,
    runtime: tokio::runtime::Handle,
    index: Arc<TensorIndex>,
    wanted: Vec<usize>,
    /// Where each group begins in `wanted`.
    groups: Vec<usize>,
    /// The groups read last.
    read: Mutex<VecDeque<(usize, Vec<Bytes>)>>,
    failed: &'a Mutex<Option<TableError>>,
}

impl<'a> Stored<'a> {
    fn new(
        store: &'a Store,
        index: Arc<TensorIndex>,
        wanted: Vec<usize>,
        failed: &'a Mutex<Option<TableError>>,
    ) -> Stored<'a> {
        let mut groups = vec![0];
        let mut held = 0;
        for (at, &i) in wanted.iter().enumerate() {
            if held >= GROUP_BYTES {
                groups.push(at);
                held = 0;
            }
            held += index.places[i].bytes;
        }
        let (runtime, read) = (tokio::runtime::Handle::current(), Mutex::default());
        Stored { store, runtime, index, wanted, groups, read, failed }
    }

    fn bytes(&self, at: usize) -> Result<Bytes, TableError> {
        let group = self.groups.partition_point(|&start| start <= at) - 1;
        let start = self.groups[group];
        let mut read = self.read.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((_, bytes)) = read.iter().find(|(g, _)| *g == group) {
            return Ok(bytes[at - start].clone());
        }
        let end = self.groups.get(group + 1).copied().unwrap_or(self.wanted.len());
        let bytes = self.runtime.block_on(read_stored(self.store, &self.index, &self.wanted[start..end]))?;
        let found = bytes[at - start].clone();
        read.push_back((group, bytes));
        if read.len() > GROUPS_HELD {
            read.pop_front();
        }
        Ok(found)
    }
}

impl EncodeChunks for Stored<'_> {
    fn len(&self) -> usize {
        self.wanted.len()
    }

    fn encode<'a>(&'a self, i: usize, _: &'a mut Scratch) -> Result<EncodedChunk<'a>, LayoutError> {
        let bytes = self.bytes(i).map_err(|e| {
            let detail = e.to_string();
            self.failed.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(e);
            LayoutError::Corrupt { what: "stored chunk", detail }
        })?;
        let place = &self.index.places[self.wanted[i]];
        let coords = self.index.chunks.coords(self.wanted[i]);
        let bytes = Cow::Owned(Vec::from(bytes));
        Ok(EncodedChunk { coords, codec: place.codec, crc: place.crc, bytes, nnz: 1 })
    }
}

async fn copy_cells(
    store: &Store,
    to: &Store,
    world: &World,
    tensors: BTreeMap<&str, (&Copied, Arc<TensorIndex>)>,
    options: &WriteOptions,
) -> Result<Vec<StagedFile>, TableError> {
    if tensors.is_empty() {
        return Ok(Vec::new());
    }
    let mut closed = Vec::new();
    let mut writer = CellFileWriter::create(to, new_path(world), None)?;
    for (new_name, (copied, index)) in tensors {
        if let Some(header) = &copied.header {
            writer = on_plain_thread(|| writer.header(new_name, header).map(|()| writer))?;
        }
        for (number, runs) in &index.cells {
            let file = &index.files[*number as usize];
            if !is_wanted(copied, &file.path) {
                continue;
            }
            for piece in pieces(runs, file.checks(), COPY_ROWS) {
                if options.cancelled() {
                    return Err(TableError::Cancelled);
                }
                if writer.bytes() >= FILE_BYTES {
                    closed.push(on_plain_thread(|| writer.close())?);
                    writer = CellFileWriter::create(to, new_path(world), None)?;
                }
                let cells = read_cells(store, file, &index.header, &[piece]).await?;
                writer = on_plain_thread(|| {
                    writer.batches(new_name, &cells.axes(), cells.values()).map(|()| writer)
                })?;
            }
        }
    }
    closed.push(on_plain_thread(|| writer.close())?);
    let mut files = Vec::new();
    for file in closed {
        files.push(file.finish(options.durable).await?);
    }
    Ok(files)
}
