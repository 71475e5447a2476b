//! Where the bytes of every sample in a chunk file lie, and what is known of them.
//!
//! Our pages are plain: a page ends with its last value, and each value is its length and its bytes.
//! So the lengths in the tail give the place of every single value, and a sample is read by itself.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type};
use lacus_io::Store;
use lacus_tensor::MAX_RANK;

use crate::error::TableError;
use crate::files::file_index::FileIndex;
use crate::log::content_key::file_key;
use crate::log::snapshot::FileEntry;
use crate::read::tensor_index::{Cache, all};
use crate::schema::{column, coordinate};

/// The blobs of one file, by row.
#[derive(Debug)]
pub(crate) struct BlobIndex {
    pub file: Arc<FileIndex>,
    /// Where each row's bytes begin; meaningless for a file that another tool wrote.
    offsets: Vec<u64>,
    lengths: Vec<u32>,
    crcs: Vec<u32>,
    codecs: Vec<u8>,
    codec_names: Vec<Arc<str>>,
    /// Shapes one after the other, and where each row's begins.
    shapes: Vec<i64>,
    shape_starts: Vec<u32>,
    /// Tile coordinates, by axis; no axes where nothing is tiled.
    tiles: Vec<Vec<Option<i64>>>,
}

impl BlobIndex {
    async fn load(store: &Store, file: Arc<FileIndex>) -> Result<BlobIndex, TableError> {
        let rows = file.rows();
        let all = [(0, rows)];
        let batch = match rows {
            0 => return Err(TableError::corrupt(&file.path, "the file has no rows")),
            _ => {
                let names = [column::CODEC, column::CRC, column::BYTES, column::SHAPE, "c0"];
                file.columns(store, &all, &names).await?
            }
        };
        let bad = |what: &str| TableError::corrupt(&file.path, format!("samples: {what}"));
        let lengths = batch.column_by_name(column::BYTES).and_then(|c| c.as_primitive_opt::<Int64Type>());
        let lengths = lengths.ok_or_else(|| bad("no lengths"))?;
        let crcs = batch.column_by_name(column::CRC).and_then(|c| c.as_primitive_opt::<Int32Type>());
        let crcs = crcs.ok_or_else(|| bad("no checksums"))?;
        let names = batch.column_by_name(column::CODEC).and_then(|c| c.as_string_opt::<i32>());
        let names = names.ok_or_else(|| bad("no codecs"))?;
        if crcs.null_count() != lengths.null_count() || names.null_count() != lengths.null_count() {
            return Err(bad("a codec or a checksum is missing"));
        }
        let mut found = Vec::with_capacity(lengths.len());
        for i in 0..lengths.len() {
            let length = match lengths.is_valid(i) {
                true => Some(u32::try_from(lengths.value(i)).map_err(|_| bad("a length makes no sense"))?),
                false => None,
            };
            found.push(length);
        }
        let offsets = match file.has_plain_pages() {
            true => {
                file.value_offsets(&found).ok_or_else(|| bad("lengths and pages contradict each other"))?
            }
            false => Vec::new(),
        };
        let (codecs, codec_names) = interned(names).ok_or_else(|| bad("too many codecs"))?;
        let (shapes, shape_starts) = shapes(&batch).ok_or_else(|| bad("shapes are no lists of numbers"))?;
        let tiled = batch.column_by_name("c0").is_some_and(|c| c.null_count() < c.len());
        let tiles = match tiled {
            true => {
                let axes: Vec<String> = (0..MAX_RANK).map(coordinate).collect();
                let axes: Vec<&str> = axes.iter().map(String::as_str).collect();
                tile_columns(&file.columns(store, &all, &axes).await?, &axes)
            }
            false => Vec::new(),
        };
        Ok(BlobIndex {
            offsets,
            lengths: found.into_iter().map(|length| length.unwrap_or(0)).collect(),
            crcs: crcs.values().iter().map(|crc| *crc as u32).collect(),
            codecs,
            codec_names,
            shapes,
            shape_starts,
            tiles,
            file,
        })
    }

    fn memory_bytes(&self) -> u64 {
        let rows = self.lengths.len() * (8 + 4 + 4 + 1 + 4);
        (rows + self.shapes.len() * 8 + self.tiles.len() * self.lengths.len() * 16 + 256) as u64
    }

    pub(crate) fn range(&self, row: u64) -> Option<Range<u64>> {
        let start = *self.offsets.get(row as usize)?;
        Some(start..start + u64::from(self.lengths[row as usize]))
    }

    pub(crate) fn bytes(&self, row: u64) -> u64 {
        self.lengths.get(row as usize).copied().unwrap_or(0).into()
    }

    pub(crate) fn crc(&self, row: u64) -> u32 {
        self.crcs.get(row as usize).copied().unwrap_or(0)
    }

    pub(crate) fn codec(&self, row: u64) -> &Arc<str> {
        &self.codec_names[usize::from(self.codecs[row as usize])]
    }

    /// The shape on the row; `None` where the column's own is meant.
    pub(crate) fn shape(&self, row: u64) -> Option<&[i64]> {
        let start = *self.shape_starts.get(row as usize)?;
        let end = *self.shape_starts.get(row as usize + 1)?;
        // A null list and an empty one differ by a mark: see `shapes`.
        match (start & NO_SHAPE, end & !NO_SHAPE) {
            (NO_SHAPE, _) => None,
            (_, end) => self.shapes.get((start & !NO_SHAPE) as usize..end as usize),
        }
    }

    /// The coordinates of the tile on the row; none for a sample in one piece.
    pub(crate) fn tile(&self, row: u64) -> Vec<i64> {
        self.tiles.iter().map_while(|axis| axis.get(row as usize).copied().flatten()).collect()
    }
}

/// Marks the start of a row that has no shape.
const NO_SHAPE: u32 = 1 << 31;

fn shapes(batch: &RecordBatch) -> Option<(Vec<i64>, Vec<u32>)> {
    let lists = batch.column_by_name(column::SHAPE)?.as_list_opt::<i32>()?;
    let values = lists.values().as_primitive_opt::<Int64Type>()?;
    let (mut shapes, mut starts) = (Vec::new(), Vec::with_capacity(lists.len() + 1));
    for i in 0..lists.len() {
        let start = u32::try_from(shapes.len()).ok().filter(|start| *start < NO_SHAPE)?;
        if lists.is_null(i) {
            starts.push(start | NO_SHAPE);
            continue;
        }
        starts.push(start);
        let range = lists.value_offsets()[i] as usize..lists.value_offsets()[i + 1] as usize;
        shapes.extend_from_slice(values.values().get(range)?);
    }
    starts.push(u32::try_from(shapes.len()).ok()?);
    Some((shapes, starts))
}

fn interned(names: &arrow::array::StringArray) -> Option<(Vec<u8>, Vec<Arc<str>>)> {
    let mut known: Vec<Arc<str>> = Vec::new();
    let mut numbers = Vec::with_capacity(names.len());
    for i in 0..names.len() {
        let name = if names.is_valid(i) { names.value(i) } else { "" };
        let number = match numbers.last() {
            Some(&last) if *known[usize::from(last)] == *name => last,
            _ => match known.iter().position(|k| **k == *name) {
                Some(at) => u8::try_from(at).ok()?,
                None => {
                    known.push(name.into());
                    u8::try_from(known.len() - 1).ok()?
                }
            },
        };
        numbers.push(number);
    }
    Some((numbers, known))
}

fn tile_columns(batch: &RecordBatch, axes: &[&str]) -> Vec<Vec<Option<i64>>> {
    let columns = axes.iter().map_while(|axis| {
        let column = batch.column_by_name(axis)?.as_primitive_opt::<Int64Type>()?;
        (column.null_count() < column.len()).then(|| column.iter().collect())
    });
    columns.collect()
}

impl Cache {
    /// The blobs of a file.
    pub(crate) async fn blobs(&self, store: &Store, entry: &FileEntry) -> Result<Arc<BlobIndex>, TableError> {
        let key = file_key(entry);
        // Tags that nothing vouches for are compared with the file, whoever loaded it.
        if let Some(index) = store.place().get(&key).filter(|_| !entry.has_unproven_tags()) {
            return Ok(index);
        }
        let file = self.file(store, entry).await?;
        if let Some(index) = store.place().get(&key) {
            return Ok(index);
        }
        let index = Arc::new(BlobIndex::load(store, file).await?);
        store.place().put(key, Arc::clone(&index), index.memory_bytes());
        Ok(index)
    }

    /// The blobs of some files, given by number: a slot for each file, those that are wanted loaded at once.
    pub(crate) async fn blobs_of(
        &self,
        store: &Store,
        files: &[Arc<FileEntry>],
        wanted: impl Iterator<Item = u32>,
    ) -> Result<Vec<Option<Arc<BlobIndex>>>, TableError> {
        let mut is_wanted = vec![false; files.len()];
        wanted.for_each(|file| is_wanted[file as usize] = true);
        let numbers: Vec<usize> = (0..files.len()).filter(|file| is_wanted[*file]).collect();
        let loads = numbers.iter().map(|file| self.blobs(store, &files[*file])).collect();
        let mut found = vec![None; files.len()];
        for (file, index) in numbers.into_iter().zip(all(loads).await?) {
            found[file] = Some(index);
        }
        Ok(found)
    }
}
