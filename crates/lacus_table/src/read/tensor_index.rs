//! Where the live chunks of one tensor lie, over all the files that hold some, and the caches that
//! keep such knowledge warm.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type};
use futures::{StreamExt, TryStreamExt};
use lacus_io::{IN_FLIGHT, Store};
use lacus_layout::{ChunkIndex, Codec, Coords, Header, coordinate_columns};
use roaring::RoaringTreemap;

use crate::error::TableError;
use crate::files::file_index::FileIndex;
use crate::files::tag_check::check_tags;
use crate::log::content_key::{file_key, state_key, tags_key};
use crate::log::deletion;
use crate::log::snapshot::{FileEntry, Snapshot, TensorState};
use crate::schema::{column, coordinate};

/// A chunk row: its file (by number), its row there, how to read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub file: u32,
    pub row: u64,
    pub codec: Codec,
    pub crc: u32,
    pub bytes: u64,
}

/// One tensor, ready to be read.
#[derive(Debug)]
pub(crate) struct TensorIndex {
    pub name: String,
    pub header: Header,
    pub files: Vec<Arc<FileIndex>>,
    /// Coordinates of the live chunks, sorted; empty for COO.
    pub chunks: ChunkIndex,
    /// Their places, in the same order.
    pub places: Vec<Place>,
    /// For COO: live runs of rows per file.
    pub cells: Vec<(u32, Vec<(u64, u64)>)>,
}

/// What was learned of files, deletion vectors and tensors. It lies in the store's place, so that all handles on the table
/// share it; every key says all that its entry depends on, so nothing in it goes stale.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// The states of tensors that this handle saw last, from which the next ones are built.
    last: Mutex<HashMap<String, Versioned<Weak<TensorIndex>>>>,
}

type Versioned<I> = (TensorState, I);

/// Tags without a checksum that agree with the rows of their file.
struct Proven;

impl Cache {
    /// Forgets what a newer snapshot no longer holds.
    pub(crate) fn trim(&self, snapshot: &Snapshot) {
        self.last().retain(|name, _| snapshot.tensor(name).is_some());
    }

    fn last(&self) -> MutexGuard<'_, HashMap<String, Versioned<Weak<TensorIndex>>>> {
        self.last.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(crate) async fn file(&self, store: &Store, entry: &FileEntry) -> Result<Arc<FileIndex>, TableError> {
        self.file_at(store, entry, &file_key(entry)).await
    }

    /// The same for those who know its key.
    pub(crate) async fn file_at(
        &self,
        store: &Store,
        entry: &FileEntry,
        key: &str,
    ) -> Result<Arc<FileIndex>, TableError> {
        let index = match store.place().get::<FileIndex>(key) {
            Some(index) => index,
            None => {
                let index = Arc::new(FileIndex::load(store, entry).await?);
                store.place().put(key.to_owned(), Arc::clone(&index), index.memory_bytes());
                index
            }
        };
        if entry.has_unproven_tags() {
            self.prove(store, entry, &index).await?;
        }
        Ok(index)
    }

    /// Compares tags that have no checksum with the rows of their file, once.
    async fn prove(&self, store: &Store, entry: &FileEntry, index: &FileIndex) -> Result<(), TableError> {
        let key = tags_key(entry);
        if store.place().get::<Proven>(&key).is_none() {
            let deleted = self.deleted(store, entry).await?;
            check_tags(store, entry, index, deleted.as_deref()).await?;
            store.place().put(key, Arc::new(Proven), 0);
        }
        Ok(())
    }

    /// Makes sure that the tags of these files can be believed.
    pub(crate) async fn prove_all(
        &self,
        store: &Store,
        entries: &[Arc<FileEntry>],
    ) -> Result<(), TableError> {
        let unproven = entries.iter().filter(|entry| entry.has_unproven_tags());
        all(unproven.map(|entry| self.file(store, entry)).collect()).await?;
        Ok(())
    }

    /// The rows of a file that no longer count.
    pub(crate) async fn deleted(
        &self,
        store: &Store,
        entry: &FileEntry,
    ) -> Result<Option<Arc<RoaringTreemap>>, TableError> {
        let Some(descriptor) = entry.deletions() else { return Ok(None) };
        let key = format!("{descriptor:?}");
        if let Some(rows) = store.place().get(&key) {
            return Ok(Some(rows));
        }
        let rows = Arc::new(deletion::read(store, descriptor).await?);
        store.place().put(key, Arc::clone(&rows), rows.serialized_size() as u64);
        Ok(Some(rows))
    }

    /// The index of a tensor at a snapshot.
    pub(crate) async fn tensor(
        &self,
        store: &Store,
        snapshot: &Snapshot,
        name: &str,
    ) -> Result<Arc<TensorIndex>, TableError> {
        let state = snapshot.tensor(name).ok_or_else(|| TableError::NoSuchTensor {
            name: name.to_owned(),
            version: snapshot.version,
            close: snapshot.close_to(name),
        })?;
        let key = state_key(state, name);
        if let Some(index) = store.place().get(key) {
            return Ok(index);
        }
        let known = self.last().get(name).and_then(|(state, index)| Some((state.clone(), index.upgrade()?)));
        let index = Arc::new(self.build_upon(store, state, name, known.as_ref()).await?);
        store.place().put(key.to_owned(), Arc::clone(&index), index.memory_bytes());
        self.last().insert(name.to_owned(), (state.clone(), Arc::downgrade(&index)));
        Ok(index)
    }

    /// The index of any state of a tensor; it is not kept.
    pub(crate) async fn build(
        &self,
        store: &Store,
        state: &TensorState,
        name: &str,
    ) -> Result<TensorIndex, TableError> {
        self.build_upon(store, state, name, None).await
    }

    /// The same, given the index of another state: rows of files that both have are not read again. An array that is
    /// written chunk by chunk would take longer with each of them otherwise.
    async fn build_upon(
        &self,
        store: &Store,
        state: &TensorState,
        name: &str,
        known: Option<&Versioned<Arc<TensorIndex>>>,
    ) -> Result<TensorIndex, TableError> {
        self.prove_all(store, &state.files).await?;
        let mut known = known.filter(|(known, _)| Arc::ptr_eq(&known.header, &state.header)).map(known_rows);
        let header = state.header.parse().map_err(TableError::of_tensor(name))?;
        let is_cells = matches!(header.layout, lacus_layout::Layout::Coordinates);
        let columns = coordinate_columns(&header);
        let mut index = TensorIndex {
            name: name.to_owned(),
            header,
            files: Vec::new(),
            chunks: ChunkIndex::default(),
            places: Vec::new(),
            cells: Vec::new(),
        };
        let holds = |entry: &&Arc<FileEntry>| entry.held(name).is_some_and(|h| !h.rows.is_empty());
        let mut found: Vec<Option<FileRows>> = Vec::new();
        let mut missing = Vec::new();
        for (number, entry) in (0..).zip(state.files.iter().filter(holds)) {
            let old = known.as_mut().and_then(|known| known.remove(&address(entry)));
            if old.is_none() {
                missing.push(self.file_rows(store, entry, name, number, (!is_cells).then_some(columns)));
            }
            found.push(old);
        }
        let mut loaded = all(missing).await?.into_iter();
        let mut rows: Vec<(Coords, Place)> = Vec::new();
        for (number, found) in (0..).zip(found) {
            let Some((file, some)) = found else {
                let Some((file, some, live)) = loaded.next() else { break };
                rows.extend(some);
                index.files.push(file);
                if is_cells {
                    index.cells.push((number, live));
                }
                continue;
            };
            rows.extend(some.into_iter().map(|(coords, place)| (coords, Place { file: number, ..place })));
            index.files.push(file);
        }
        if rows.windows(2).any(|pair| pair[0].0 > pair[1].0) {
            rows.sort_unstable_by_key(|(coords, _)| *coords);
        }
        if !index.header.layout.is_sparse() {
            // With every chunk in the grid, as many chunks as places mean that none is missing.
            for (coords, _) in &rows {
                lacus_layout::chunk_extent(&index.header, coords).map_err(TableError::of_tensor(name))?;
            }
        }
        let coords = (0..columns).map(|k| rows.iter().map(|(c, _)| c[k]).collect()).collect();
        if !is_cells {
            index.chunks = ChunkIndex::new(coords).map_err(TableError::of_tensor(name))?;
        }
        index.places = rows.into_iter().map(|(_, place)| place).collect();
        Ok(index)
    }

    /// What a file holds of a tensor: its chunk rows if `columns` says how many coordinates they have, and which runs of
    /// rows are alive.
    async fn file_rows(
        &self,
        store: &Store,
        entry: &FileEntry,
        name: &str,
        number: u32,
        columns: Option<usize>,
    ) -> Result<LoadedRows, TableError> {
        let file = self.file(store, entry).await?;
        let deleted = self.deleted(store, entry).await?;
        let held = entry.held(name).map(|held| held.rows.as_slice()).unwrap_or_default();
        let live = live_runs(held, deleted.as_deref());
        if live.iter().any(|&(first, count)| first.saturating_add(count) > file.rows()) {
            return Err(TableError::corrupt(entry.path(), "the file has fewer rows than its tags say"));
        }
        let rows = match columns.filter(|_| !live.is_empty()) {
            Some(columns) => chunk_rows(store, &file, number, &live, columns).await?,
            None => Vec::new(),
        };
        Ok((file, rows, live))
    }
}

impl TensorIndex {
    fn memory_bytes(&self) -> u64 {
        let coords = self.places.len() * 8 * coordinate_columns(&self.header);
        let cells: usize = self.cells.iter().map(|(_, runs)| runs.len() * 16).sum();
        (coords + cells + self.places.len() * size_of::<Place>() + self.files.len() * 8 + 256) as u64
    }
}

/// A file, chunk rows of it, and which of its rows are alive.
type LoadedRows = (Arc<FileIndex>, Vec<(Coords, Place)>, Vec<(u64, u64)>);

/// Waits for loads of many files at once; their results in order.
pub(crate) async fn all<T, F>(loads: Vec<F>) -> Result<Vec<T>, TableError>
where
    F: Future<Output = Result<T, TableError>>,
{
    if loads.len() > 1 {
        return futures::stream::iter(loads).buffered(IN_FLIGHT).try_collect().await;
    }
    let mut results = Vec::with_capacity(loads.len());
    for load in loads {
        results.push(load.await?);
    }
    Ok(results)
}

/// What tells an entry from all others while it is held: a number, as pointers must stay on their thread.
fn address(entry: &Arc<FileEntry>) -> usize {
    Arc::as_ptr(entry) as usize
}

/// Chunk rows of a file.
type FileRows = (Arc<FileIndex>, Vec<(Coords, Place)>);

/// The chunk rows of an index, by file.
fn known_rows((state, index): &Versioned<Arc<TensorIndex>>) -> HashMap<usize, FileRows> {
    if !index.cells.is_empty() {
        return HashMap::new();
    }
    let mut rows: Vec<Vec<(Coords, Place)>> = vec![Vec::new(); index.files.len()];
    for (at, place) in index.places.iter().enumerate() {
        rows[place.file as usize].push((index.chunks.coords(at), *place));
    }
    // Files are numbered in the order of those that have rows.
    let holders = state.files.iter().filter(|e| e.held(&index.name).is_some_and(|h| !h.rows.is_empty()));
    let found = holders.zip(index.files.iter().zip(rows));
    found.map(|(entry, (file, rows))| (address(entry), (Arc::clone(file), rows))).collect()
}

/// The parts of `runs` that are not deleted.
pub(crate) fn live_runs(runs: &[(u64, u64)], deleted: Option<&RoaringTreemap>) -> Vec<(u64, u64)> {
    let Some(deleted) = deleted else { return runs.to_vec() };
    let mut live = Vec::new();
    for &(first, count) in runs {
        let end = first + count;
        let mut from = first;
        // Whole runs go at once; holes one by one.
        let dead = deleted.range_cardinality(first..end);
        if dead == 0 {
            live.push((first, count));
            continue;
        }
        if dead == count {
            continue;
        }
        for row in deleted.iter().skip_while(|r| *r < first).take_while(|r| *r < end) {
            if row > from {
                live.push((from, row - from));
            }
            from = row + 1;
        }
        if from < end {
            live.push((from, end - from));
        }
    }
    live
}

/// Reads the index columns of live chunk rows.
async fn chunk_rows(
    store: &Store,
    file: &FileIndex,
    number: u32,
    live: &[(u64, u64)],
    columns: usize,
) -> Result<Vec<(Coords, Place)>, TableError> {
    let coordinates: Vec<String> = (0..columns).map(coordinate).collect();
    let mut names: Vec<&str> = coordinates.iter().map(String::as_str).collect();
    names.extend([column::CODEC, column::CRC, column::BYTES]);
    let batch = file.columns(store, live, &names).await?;
    let bad = |what: &str| TableError::corrupt(&file.path, format!("chunk rows: {what}"));
    let longs =
        |name: &str| long_column(&batch, name).ok_or_else(|| bad(&format!("column {name:?} is missing")));
    let axes = coordinates.iter().map(|name| longs(name)).collect::<Result<Vec<_>, _>>()?;
    let lengths = longs(column::BYTES)?;
    let codecs = batch.column_by_name(column::CODEC).and_then(|c| c.as_string_opt::<i32>());
    let codecs = codecs.ok_or_else(|| bad("column \"codec\" is missing"))?;
    let crcs = batch.column_by_name(column::CRC).and_then(|c| c.as_primitive_opt::<Int32Type>());
    let crcs = crcs.ok_or_else(|| bad("column \"crc\" is missing"))?;
    if codecs.null_count() + crcs.null_count() > 0 {
        return Err(bad("a codec or checksum is null"));
    }
    let mut out = Vec::with_capacity(batch.num_rows());
    let mut last: Option<(&str, Codec)> = None;
    let mut row_numbers = live.iter().flat_map(|&(first, count)| first..first + count);
    for i in 0..batch.num_rows() {
        let text = codecs.value(i);
        let codec = match last {
            Some((same, codec)) if same == text => codec,
            _ => text.parse().map_err(|e| TableError::Layout { tensor: None, source: e })?,
        };
        last = Some((text, codec));
        let mut values = [0; lacus_tensor::MAX_RANK];
        for (value, axis) in values.iter_mut().zip(&axes) {
            *value = axis[i];
        }
        let coords = Coords::new(&values[..columns]).ok_or_else(|| bad("too many coordinates"))?;
        let row = row_numbers.next().unwrap_or_default();
        let bytes = u64::try_from(lengths[i]).map_err(|_| bad("a negative length"))?;
        out.push((coords, Place { file: number, row, codec, crc: crcs.value(i) as u32, bytes }));
    }
    Ok(out)
}

/// A column of longs without nulls.
pub(crate) fn long_column<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a [i64]> {
    let array = batch.column_by_name(name)?.as_primitive_opt::<Int64Type>()?;
    (array.null_count() == 0).then(|| array.values().as_ref())
}
