//! Where the live chunks of one tensor lie, over all the files that hold some, and the caches that
//! keep such knowledge warm.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type};
use lacus_io::Store;
use lacus_layout::{ChunkIndex, Codec, Coords, Header, coordinate_columns};
use roaring::RoaringTreemap;

use crate::deletion::{self, Descriptor};
use crate::error::TableError;
use crate::file_index::FileIndex;
use crate::schema::{column, coordinate};
use crate::snapshot::{FileEntry, FileKind, Snapshot, TAG, TensorState};
use crate::tag_check::check_tags;

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

/// A map that several readers share.
#[derive(Debug)]
pub(crate) struct Shared<K, V>(Mutex<HashMap<K, V>>);

impl<K: Hash + Eq, V: Clone> Shared<K, V> {
    pub(crate) fn new() -> Self {
        Shared(Mutex::new(HashMap::new()))
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).get(key).cloned()
    }

    pub(crate) fn put(&self, key: K, value: V) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).insert(key, value);
    }

    fn copied(&self) -> Self
    where
        K: Clone,
    {
        Shared(Mutex::new(self.0.lock().unwrap_or_else(|e| e.into_inner()).clone()))
    }

    pub(crate) fn retain(&self, keep: impl Fn(&K) -> bool) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).retain(|k, _| keep(k));
    }
}

type Versioned = (TensorState, Arc<TensorIndex>);

/// What was learned of files, deletion vectors and tensors. Files never change, so nothing in it
/// goes stale; a tensor's entry is used only for the very files it was made from.
#[derive(Debug)]
pub(crate) struct Cache {
    files: Shared<(String, FileKind), Arc<FileIndex>>,
    /// Tags without a checksum that agree with the rows of their file.
    proven: Shared<(String, Option<String>), ()>,
    deletions: Shared<Descriptor, Arc<RoaringTreemap>>,
    tensors: Shared<String, Versioned>,
}

impl Cache {
    pub(crate) fn new() -> Self {
        Cache {
            files: Shared::new(),
            proven: Shared::new(),
            deletions: Shared::new(),
            tensors: Shared::new(),
        }
    }

    /// A cache with what is known of files, and nothing of tensors, for states that are nobody's version.
    pub(crate) fn of_files(&self) -> Cache {
        Cache { files: self.files.copied(), ..Cache::new() }
    }

    /// Forgets what a newer snapshot no longer holds.
    pub(crate) fn trim(&self, snapshot: &Snapshot) {
        self.files.retain(|(path, _)| snapshot.files.contains_key(path));
        self.proven.retain(|(path, _)| snapshot.files.contains_key(path));
        self.tensors.retain(|name| snapshot.tensor(name).is_some());
        let live: std::collections::HashSet<&Descriptor> =
            snapshot.files.values().filter_map(|f| f.deletions()).collect();
        self.deletions.retain(|descriptor| live.contains(descriptor));
    }

    pub(crate) async fn file(&self, store: &Store, entry: &FileEntry) -> Result<Arc<FileIndex>, TableError> {
        let key = (entry.path().to_owned(), entry.tags.kind);
        let index = match self.files.get(&key) {
            Some(index) => index,
            None => {
                let index = Arc::new(FileIndex::load(store, entry).await?);
                self.files.put(key, Arc::clone(&index));
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
        let text = entry.add.tags.as_ref().and_then(|tags| tags.get(TAG)).cloned().flatten();
        let key = (entry.path().to_owned(), text);
        if self.proven.get(&key).is_none() {
            let deleted = self.deleted(store, entry).await?;
            check_tags(store, entry, index, deleted.as_deref()).await?;
            self.proven.put(key, ());
        }
        Ok(())
    }

    /// Makes sure that the tags of these files can be believed.
    pub(crate) async fn prove_all(
        &self,
        store: &Store,
        entries: &[Arc<FileEntry>],
    ) -> Result<(), TableError> {
        for entry in entries {
            if entry.has_unproven_tags() {
                self.file(store, entry).await?;
            }
        }
        Ok(())
    }

    /// The rows of a file that no longer count.
    pub(crate) async fn deleted(
        &self,
        store: &Store,
        entry: &FileEntry,
    ) -> Result<Option<Arc<RoaringTreemap>>, TableError> {
        let Some(descriptor) = entry.deletions() else { return Ok(None) };
        if let Some(rows) = self.deletions.get(descriptor) {
            return Ok(Some(rows));
        }
        let rows = Arc::new(deletion::read(store, descriptor).await?);
        self.deletions.put(descriptor.clone(), Arc::clone(&rows));
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
        let known = self.tensors.get(&name.to_owned());
        if let Some((known, index)) = &known
            && known.is_same(state)
        {
            return Ok(Arc::clone(index));
        }
        let index = Arc::new(self.build_upon(store, state, name, known.as_ref()).await?);
        self.tensors.put(name.to_owned(), (state.clone(), Arc::clone(&index)));
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
        known: Option<&Versioned>,
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
        let mut rows: Vec<(Coords, Place)> = Vec::new();
        for entry in &state.files {
            let Some(held) = entry.held(name).filter(|h| !h.rows.is_empty()) else { continue };
            let number = u32::try_from(index.files.len()).unwrap_or(u32::MAX);
            if let Some((file, old)) = known.as_mut().and_then(|known| known.remove(&address(entry))) {
                rows.extend(old.into_iter().map(|(coords, place)| (coords, Place { file: number, ..place })));
                index.files.push(file);
                continue;
            }
            let file = self.file(store, entry).await?;
            let deleted = self.deleted(store, entry).await?;
            let live = live_runs(&held.rows, deleted.as_deref());
            if live.iter().any(|&(first, count)| first.saturating_add(count) > file.rows()) {
                return Err(TableError::corrupt(entry.path(), "the file has fewer rows than its tags say"));
            }
            if is_cells {
                index.cells.push((number, live));
            } else if !live.is_empty() {
                chunk_rows(store, &file, number, &live, columns, &mut rows).await?;
            }
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
}

/// What tells an entry from all others while it is held: a number, as pointers must stay on their thread.
fn address(entry: &Arc<FileEntry>) -> usize {
    Arc::as_ptr(entry) as usize
}

/// Chunk rows of a file.
type FileRows = (Arc<FileIndex>, Vec<(Coords, Place)>);

/// The chunk rows of an index, by file.
fn known_rows((state, index): &Versioned) -> HashMap<usize, FileRows> {
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
    out: &mut Vec<(Coords, Place)>,
) -> Result<(), TableError> {
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
    Ok(())
}

/// A column of longs without nulls.
pub(crate) fn long_column<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a [i64]> {
    let array = batch.column_by_name(name)?.as_primitive_opt::<Int64Type>()?;
    (array.null_count() == 0).then(|| array.values().as_ref())
}
