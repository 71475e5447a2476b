//! Reads samples by the ids of their rows.
//!
//! ```text
//! scalars   ids ─index→ places ─file's values, decoded once→ numbers
//! texts     ids ─index→ places ─pages→ texts
//! blobs     ids ─locate→ Samples (shapes, codecs, sizes) ─fetch→ bytes, one planned read for all
//! ```

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type};
use bytes::Bytes;
use lacus_io::{LocalRoot, Request, Store, blocking, coalesce, fetch};
use lacus_layout::verify_crc32c;

use crate::blob_index::{BlobCache, BlobIndex};
use crate::cells::read_verified;
use crate::error::TableError;
use crate::file_index::FileIndex;
use crate::form::Form;
use crate::held::extend_run;
use crate::read::threads_for;
use crate::row_index::ColumnIndex;
use crate::schema::column;
use crate::snapshot::FileEntry;
use crate::tensor_index::Cache;

/// Gaps read through: on a disk a system call costs about as much as copying 4 KiB, on an object store
/// a request as much as reading 128 KiB.
const LOCAL_GAP_BYTES: u64 = 4 << 10;
const REMOTE_GAP_BYTES: u64 = 128 << 10;

/// The largest request made by merging.
const MAX_REQUEST_BYTES: u64 = 8 << 20;

/// Bytes of decoded scalars kept at most.
const MAX_KEPT_BYTES: usize = 256 << 20;

/// Scalars, as bits of the column that holds them.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalars {
    /// Of the `int` column.
    Int(Vec<i64>),
    /// Of the `float` column.
    Float(Vec<u32>),
    /// Of the `real` column.
    Real(Vec<u64>),
}

impl Scalars {
    /// No scalars of a form; `None` if it holds none.
    pub(crate) fn of(form: Form) -> Option<Scalars> {
        Scalars::none(form.name())
    }

    /// No scalars, of the column called `name`.
    pub(crate) fn none(name: &str) -> Option<Scalars> {
        match name {
            column::INT => Some(Scalars::Int(Vec::new())),
            column::FLOAT => Some(Scalars::Float(Vec::new())),
            column::REAL => Some(Scalars::Real(Vec::new())),
            _ => None,
        }
    }

    /// The column that holds them.
    pub(crate) fn column(&self) -> &'static str {
        match self {
            Scalars::Int(_) => column::INT,
            Scalars::Float(_) => column::FLOAT,
            Scalars::Real(_) => column::REAL,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Scalars::Int(values) => values.len(),
            Scalars::Float(values) => values.len(),
            Scalars::Real(values) => values.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether two scalars have the same bits.
    pub(crate) fn is_same_at(&self, other: &Scalars, at: usize) -> bool {
        match (self, other) {
            (Scalars::Int(a), Scalars::Int(b)) => a.get(at) == b.get(at),
            (Scalars::Float(a), Scalars::Float(b)) => a.get(at) == b.get(at),
            (Scalars::Real(a), Scalars::Real(b)) => a.get(at) == b.get(at),
            _ => false,
        }
    }

    /// Appends the values of an array; false if it is of another type.
    fn extend(&mut self, array: &ArrayRef) -> bool {
        match (self, array.data_type()) {
            (Scalars::Int(values), DataType::Int64) => {
                values.extend_from_slice(array.as_primitive::<Int64Type>().values());
            }
            (Scalars::Float(values), DataType::Float32) => {
                values.extend(array.as_primitive::<Float32Type>().values().iter().map(|v| v.to_bits()));
            }
            (Scalars::Real(values), DataType::Float64) => {
                values.extend(array.as_primitive::<Float64Type>().values().iter().map(|v| v.to_bits()));
            }
            _ => return false,
        }
        true
    }

    /// Appends zeros.
    fn extend_zeros(&mut self, count: usize) {
        let length = self.len() + count;
        match self {
            Scalars::Int(values) => values.resize(length, 0),
            Scalars::Float(values) => values.resize(length, 0),
            Scalars::Real(values) => values.resize(length, 0),
        }
    }

    /// Appends `count` values from `at` on of the same kind of scalars.
    fn extend_from(&mut self, other: &Scalars, at: usize, count: usize) {
        match (self, other) {
            (Scalars::Int(to), Scalars::Int(from)) => to.extend_from_slice(&from[at..at + count]),
            (Scalars::Float(to), Scalars::Float(from)) => to.extend_from_slice(&from[at..at + count]),
            (Scalars::Real(to), Scalars::Real(from)) => to.extend_from_slice(&from[at..at + count]),
            _ => {}
        }
    }
}

/// Scalars of some rows.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalarRead {
    /// Which of the rows have one; the others hold zero.
    pub present: Vec<bool>,
    /// One for each row asked for.
    pub values: Scalars,
}

/// The scalars of one tensor in one file, dead rows included.
#[derive(Debug)]
struct Block {
    /// Runs (first row, place of its value), in order.
    runs: Vec<(u64, usize)>,
    values: Scalars,
}

impl Block {
    fn place(&self, row: u64) -> Option<usize> {
        let run = self.runs.partition_point(|(first, _)| *first <= row).checked_sub(1)?;
        let (first, place) = self.runs[run];
        let place = place + (row - first) as usize;
        (place < self.values.len()).then_some(place)
    }
}

type Blocks = HashMap<(String, String), Arc<Block>>;

/// What was learned for reading samples.
#[derive(Debug)]
pub(crate) struct SampleCache {
    base: Arc<Cache>,
    pub(crate) blobs: BlobCache,
    blocks: Mutex<Blocks>,
}

impl SampleCache {
    pub(crate) fn new(base: Arc<Cache>) -> SampleCache {
        let blobs = BlobCache::new(Arc::clone(&base));
        SampleCache { base, blobs, blocks: Mutex::default() }
    }

    pub(crate) fn trim(&self, is_live: impl Fn(&str) -> bool) {
        self.blobs.trim(&is_live);
        self.blocks.lock().unwrap_or_else(|e| e.into_inner()).retain(|(path, _), _| is_live(path));
    }

    async fn block(
        &self,
        store: &Store,
        entry: &FileEntry,
        name: &str,
        kind: &Scalars,
    ) -> Result<Arc<Block>, TableError> {
        let key = (entry.path().to_owned(), name.to_owned());
        if let Some(block) = self.blocks.lock().unwrap_or_else(|e| e.into_inner()).get(&key) {
            return Ok(Arc::clone(block));
        }
        let file = self.base.file(store, entry).await?;
        let rows = entry.held(name).map(|held| held.rows.clone()).unwrap_or_default();
        check_rows(&file, &rows)?;
        let batch = read_verified(store, &file, &[column::ROW], Some(kind.column()), &rows).await?;
        let mut values = Scalars::none(kind.column()).unwrap_or(Scalars::Int(Vec::new()));
        let sound = batch.column_by_name(kind.column()).is_some_and(|array| values.extend(array));
        if !sound {
            let what = format!("column {:?} of {name:?} has another type", kind.column());
            return Err(TableError::corrupt(entry.path(), what));
        }
        let mut runs = Vec::with_capacity(rows.len());
        let mut place = 0;
        for (first, count) in rows {
            runs.push((first, place));
            place += count as usize;
        }
        let block = Arc::new(Block { runs, values });
        let mut blocks = self.blocks.lock().unwrap_or_else(|e| e.into_inner());
        let kept: usize = blocks.values().map(|block| block.values.len() * 8).sum();
        if kept + block.values.len() * 8 > MAX_KEPT_BYTES {
            blocks.clear();
        }
        blocks.insert(key, Arc::clone(&block));
        Ok(block)
    }

    /// The scalars of the rows with these ids; `kind` says of which column.
    pub(crate) async fn scalars(
        &self,
        store: &Store,
        index: &ColumnIndex,
        ids: &[(u64, u64)],
        kind: &Scalars,
    ) -> Result<ScalarRead, TableError> {
        let total: u64 = ids.iter().map(|(_, count)| count).sum();
        let mut read = ScalarRead {
            present: Vec::with_capacity(total as usize),
            values: Scalars::none(kind.column()).unwrap_or(Scalars::Int(Vec::new())),
        };
        let mut blocks: HashMap<u32, Arc<Block>> = HashMap::new();
        for &(first, count) in ids {
            let (mut id, end) = (first, first + count);
            while id < end {
                let at = index.segments.partition_point(|s| s.first_id + s.count <= id);
                let segment = index.segments.get(at).filter(|s| s.first_id < end);
                let Some(segment) = segment else {
                    read.skip(end - id);
                    break;
                };
                if segment.first_id > id {
                    read.skip(segment.first_id - id);
                    id = segment.first_id;
                }
                let step = (segment.first_id + segment.count).min(end) - id;
                let block = match blocks.get(&segment.file) {
                    Some(block) => block,
                    None => {
                        let entry = &index.files[segment.file as usize];
                        let block = self.block(store, entry, &index.name, kind).await?;
                        blocks.entry(segment.file).or_insert(block)
                    }
                };
                let place = block.place(segment.first_row + (id - segment.first_id)).ok_or_else(|| {
                    TableError::corrupt(index.files[segment.file as usize].path(), "a sample has no value")
                })?;
                if place + step as usize > block.values.len() {
                    let path = index.files[segment.file as usize].path();
                    return Err(TableError::corrupt(path, "samples have no values"));
                }
                read.values.extend_from(&block.values, place, step as usize);
                read.present.extend(std::iter::repeat_n(true, step as usize));
                id += step;
            }
        }
        Ok(read)
    }

    /// The texts of the rows with these ids.
    pub(crate) async fn texts(
        &self,
        store: &Store,
        index: &ColumnIndex,
        ids: &[u64],
    ) -> Result<Vec<Option<String>>, TableError> {
        let mut by_file: HashMap<u32, Vec<(u64, usize)>> = HashMap::new();
        for (place, &id) in ids.iter().enumerate() {
            if let Some((file, row)) = index.places(id).next() {
                by_file.entry(file).or_default().push((row, place));
            }
        }
        let mut texts = vec![None; ids.len()];
        for (number, mut wanted) in by_file {
            wanted.sort_unstable();
            let mut runs: Vec<(u64, u64)> = Vec::new();
            for &(row, _) in &wanted {
                if runs.last().is_none_or(|(first, count)| first + count <= row) {
                    extend_run(&mut runs, row, 1);
                }
            }
            let file = self.base.file(store, &index.files[number as usize]).await?;
            check_rows(&file, &runs)?;
            let batch = read_verified(store, &file, &[column::ROW], Some(column::TEXT), &runs).await?;
            let found = batch.column_by_name(column::TEXT).and_then(|c| c.as_string_opt::<i32>());
            let found = found.ok_or_else(|| TableError::corrupt(&file.path, "texts are missing"))?;
            let mut at = 0;
            for (i, &(row, place)) in wanted.iter().enumerate() {
                if i > 0 && wanted[i - 1].0 != row {
                    at += 1;
                }
                texts[place] = Some(found.value(at).to_owned());
            }
        }
        Ok(texts)
    }

    /// Finds the blobs of the rows with these ids.
    pub(crate) async fn locate(
        &self,
        store: &Store,
        index: Arc<ColumnIndex>,
        ids: &[u64],
    ) -> Result<Samples, TableError> {
        let mut files: Vec<Option<Arc<BlobIndex>>> = vec![None; index.files.len()];
        let mut tiles = Vec::with_capacity(ids.len());
        let mut starts = Vec::with_capacity(ids.len() + 1);
        for &id in ids {
            let first = tiles.len();
            starts.push(first);
            for (file, row) in index.places(id) {
                let known = match &mut files[file as usize] {
                    Some(known) => known,
                    slot => slot.insert(self.blobs.get(store, &index.files[file as usize]).await?),
                };
                if row >= known.file.rows() {
                    let what = "the file has fewer rows than its tags say";
                    return Err(TableError::corrupt(&known.file.path, what));
                }
                tiles.push((file, row));
            }
            let apart = |(file, row): &(u32, u64)| {
                files[*file as usize].as_ref().is_some_and(|known| !known.tile(*row).is_empty())
            };
            if tiles.len() > first + 1 && !tiles[first..].iter().all(apart) {
                let what = format!("column {:?} has two samples for row id {id}", index.name);
                return Err(TableError::corrupt(&index.name, what));
            }
        }
        starts.push(tiles.len());
        Ok(Samples { files, tiles, starts })
    }
}

impl ScalarRead {
    fn skip(&mut self, count: u64) {
        self.present.extend(std::iter::repeat_n(false, count as usize));
        self.values.extend_zeros(count as usize);
    }
}

fn check_rows(file: &FileIndex, rows: &[(u64, u64)]) -> Result<(), TableError> {
    match rows.iter().any(|&(first, count)| first.saturating_add(count) > file.rows()) {
        true => Err(TableError::corrupt(&file.path, "the file has fewer rows than its tags say")),
        false => Ok(()),
    }
}

/// Samples that were found: what is known of them without reading them.
#[derive(Debug)]
pub struct Samples {
    files: Vec<Option<Arc<BlobIndex>>>,
    /// (file, row) of every tile.
    tiles: Vec<(u32, u64)>,
    /// Where each sample's tiles begin, and the end.
    starts: Vec<usize>,
}

impl Samples {
    /// How many rows were asked for.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether none was asked for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn blob(&self, tile: usize) -> (&BlobIndex, u64) {
        let (file, row) = self.tiles[tile];
        (self.files[file as usize].as_ref().expect("located with its file"), row)
    }

    /// The tiles of a sample, as numbers for [`Samples::tile`]; none when it is missing.
    pub fn tiles(&self, sample: usize) -> std::ops::Range<usize> {
        self.starts[sample]..self.starts[sample + 1]
    }

    /// The shape of a sample, where it has one of its own.
    pub fn shape(&self, sample: usize) -> Option<&[i64]> {
        let tile = self.tiles(sample).next()?;
        let (blob, row) = self.blob(tile);
        blob.shape(row)
    }

    /// Coordinates, codec and stored bytes of a tile. No coordinates: the sample is in one piece.
    pub fn tile(&self, tile: usize) -> (Vec<i64>, &str, u64) {
        let (blob, row) = self.blob(tile);
        (blob.tile(row), blob.codec(row), blob.bytes(row))
    }

    /// The codec of a tile.
    pub fn codec(&self, tile: usize) -> &str {
        let (blob, row) = self.blob(tile);
        blob.codec(row)
    }

    /// The checksum of a tile's bytes.
    pub(crate) fn crc(&self, tile: usize) -> u32 {
        let (blob, row) = self.blob(tile);
        blob.crc(row)
    }

    /// The shape on a tile's row.
    pub(crate) fn tile_shape(&self, tile: usize) -> Option<&[i64]> {
        let (blob, row) = self.blob(tile);
        blob.shape(row)
    }

    /// Some of the blobs at `places` (id, file, row), from `at` on: about `bytes` of them, each as a sample
    /// of one tile. Also returns where the next ones begin.
    pub(crate) async fn group(
        blobs: &BlobCache,
        store: &Store,
        index: &ColumnIndex,
        places: &[(u64, u32, u64)],
        at: usize,
        bytes: u64,
    ) -> Result<(Samples, usize), TableError> {
        let mut files: Vec<Option<Arc<BlobIndex>>> = vec![None; index.files.len()];
        let (mut taken, mut next) = (0, at);
        // The tiles of a sample stay together.
        let is_inside = |next: usize| next > at && places[next - 1].0 == places[next].0;
        while next < places.len() && (next == at || taken < bytes || is_inside(next)) {
            let (_, file, row) = places[next];
            let known = match &mut files[file as usize] {
                Some(known) => known,
                slot => slot.insert(blobs.get(store, &index.files[file as usize]).await?),
            };
            if row >= known.file.rows() {
                let what = "the file has fewer rows than its tags say";
                return Err(TableError::corrupt(&known.file.path, what));
            }
            taken += known.bytes(row);
            next += 1;
        }
        let tiles: Vec<(u32, u64)> = places[at..next].iter().map(|&(_, file, row)| (file, row)).collect();
        let starts = (0..=tiles.len()).collect();
        Ok((Samples { files, tiles, starts }, next))
    }

    /// Reads tiles (by number): one planned read, checksums verified, results in the order asked for.
    pub(crate) async fn fetch(&self, store: &Store, tiles: &[usize]) -> Result<Vec<Bytes>, TableError> {
        let mut found: Vec<Option<Bytes>> = vec![None; tiles.len()];
        let mut wanted = Vec::with_capacity(tiles.len());
        // Which of `tiles` each wanted range is for.
        let mut order = Vec::with_capacity(tiles.len());
        for (place, &tile) in tiles.iter().enumerate() {
            let (blob, row) = self.blob(tile);
            if blob.file.has_plain_pages() {
                let range =
                    blob.range(row).ok_or_else(|| TableError::corrupt(&blob.file.path, "no bytes"))?;
                wanted.push((self.tiles[tile].0 as usize, range));
                order.push(place);
            } else {
                found[place] = Some(read_foreign(store, &blob.file, row).await?);
            }
        }
        let paths: Vec<String> = self
            .files
            .iter()
            .map(|file| match file {
                Some(blob) => blob.file.path.clone(),
                None => String::new(),
            })
            .collect();
        match store.local() {
            Some(local) => {
                let requests = coalesce(&wanted, LOCAL_GAP_BYTES, MAX_REQUEST_BYTES);
                let read = blocking(|| read_local(local, &paths, &requests))?;
                for (request, bytes) in requests.iter().zip(read) {
                    for part in &request.parts {
                        found[order[part.wanted]] = Some(bytes.slice(part.within.clone()));
                    }
                }
            }
            None => {
                let requests = coalesce(&wanted, REMOTE_GAP_BYTES, MAX_REQUEST_BYTES);
                fetch(store, &paths, &requests, |i, bytes: Bytes| {
                    for part in &requests[i].parts {
                        let slice =
                            (bytes.len() >= part.within.end).then(|| bytes.slice(part.within.clone()));
                        found[order[part.wanted]] = slice;
                    }
                    Ok::<_, TableError>(())
                })
                .await?;
            }
        }
        let mut all = Vec::with_capacity(tiles.len());
        for (&tile, bytes) in tiles.iter().zip(found) {
            let (blob, row) = self.blob(tile);
            let gone = || TableError::corrupt(&blob.file.path, "a sample could not be read whole");
            let bytes = bytes.ok_or_else(gone)?;
            verify_crc32c(&bytes, blob.crc(row)).map_err(|_| {
                TableError::corrupt(
                    &blob.file.path,
                    format!("the sample in row {row} does not have its checksum"),
                )
            })?;
            all.push(bytes);
        }
        Ok(all)
    }
}

/// Reads requests from a directory, on several threads where there is much to read.
fn read_local(local: &LocalRoot, paths: &[String], requests: &[Request]) -> Result<Vec<Bytes>, TableError> {
    let read = |request: &Request| -> Result<Bytes, TableError> {
        let path = &paths[request.file];
        let file = local.file(path)?;
        let mut bytes = vec![0; (request.range.end - request.range.start) as usize];
        local.read_at(&file, path, request.range.start, &mut [], &mut bytes)?;
        Ok(bytes.into())
    };
    let total: u64 = requests.iter().map(|r| r.range.end - r.range.start).sum();
    let threads = threads_for(total).min(requests.len().max(1));
    if threads == 1 {
        return requests.iter().map(read).collect();
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<Bytes, TableError>)>> = Mutex::new(Vec::with_capacity(requests.len()));
    let work = || {
        let mut mine = Vec::new();
        while let Some((i, request)) = {
            let i = next.fetch_add(1, Ordering::Relaxed);
            requests.get(i).map(|request| (i, request))
        } {
            mine.push((i, read(request)));
        }
        done.lock().unwrap_or_else(|e| e.into_inner()).extend(mine);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    done.sort_unstable_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, bytes)| bytes).collect()
}

/// Reads a value from a file that another tool wrote.
async fn read_foreign(store: &Store, file: &FileIndex, row: u64) -> Result<Bytes, TableError> {
    let batch = file.columns(store, &[(row, 1)], &[column::DATA]).await?;
    let gone = || TableError::corrupt(&file.path, format!("row {row} has no data"));
    let data = batch.column_by_name(column::DATA).and_then(|c| c.as_binary_opt::<i32>()).ok_or_else(gone)?;
    match data.is_valid(0) {
        true => Ok(Bytes::copy_from_slice(data.value(0))),
        false => Err(gone()),
    }
}
