//! What is known of one data file once its tail is in memory: where every row's bytes lie.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use bytes::Bytes;
use lacus_io::{Store, coalesce, fetch};
use lacus_layout::crc32c;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
    RowSelectionPolicy,
};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::page_index::column_index::ColumnIndexMetaData;

use crate::error::{TableError, unless_panicking};
use crate::files::checks::{CHECKS_KEY, Check, ZONES_KEY, ZoneRun, parse_checks, parse_zones};
use crate::files::fetched::Fetched;
use crate::files::page::claimed_bytes;
use crate::log::snapshot::{FileEntry, FileKind};
use crate::schema::column;

/// What is read of a file whose tail is not known from its tags: footers of small files fit whole.
const TAIL_GUESS_BYTES: u64 = 256 << 10;

/// Gap read through rather than making another request, and the largest request.
const GAP_BYTES: u64 = 64 << 10;
const MAX_REQUEST_BYTES: u64 = 8 << 20;

/// A page of the `data` column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DataPage {
    pub first_row: u64,
    pub offset: u64,
    pub bytes: u32,
}

/// A data file's footer, page index and, for chunk files, its index columns.
#[derive(Debug)]
pub(crate) struct FileIndex {
    pub path: String,
    pub kind: FileKind,
    metadata: ArrowReaderMetadata,
    tail: Fetched,
    group_first_rows: Vec<u64>,
    data_pages: Vec<DataPage>,
    checks: Vec<Check>,
    zones: Vec<ZoneRun>,
}

impl FileIndex {
    /// Reads the tail of a file: one request for a file Lacus wrote.
    pub(crate) async fn load(store: &Store, entry: &FileEntry) -> Result<FileIndex, TableError> {
        let path = entry.path().to_owned();
        let size = u64::try_from(entry.add.size).unwrap_or(0);
        let from = match entry.tags.kind {
            FileKind::Chunks | FileKind::Cells => entry.tags.tail.min(size),
            FileKind::Foreign => size.saturating_sub(TAIL_GUESS_BYTES),
        };
        let mut tail = Fetched::new(size);
        let bytes = read(store, &path, from..size).await?;
        if entry.tags.tail_crc.is_some_and(|crc| crc32c(&bytes) != crc) {
            return Err(TableError::corrupt(&path, "the end of the file does not have its checksum"));
        }
        tail.add(from, bytes);
        let metadata = loop {
            let parsed = unless_panicking(|| {
                ParquetMetaDataReader::new()
                    .with_page_index_policy(PageIndexPolicy::Optional)
                    .parse_and_finish(&tail)
            });
            match (parsed, tail.take_missed()) {
                (Ok(metadata), _) => break metadata,
                (Err(_), Some(missing)) => tail.add(missing.start, read(store, &path, missing).await?),
                (Err(e), None) => return Err(TableError::parquet(&path)(e)),
            }
        };
        let mut group_first_rows = vec![0];
        for group in metadata.row_groups() {
            let last = *group_first_rows.last().unwrap_or(&0);
            group_first_rows.push(last + u64::try_from(group.num_rows()).unwrap_or(0));
        }
        let data_pages = data_pages(&metadata, &group_first_rows);
        let checks = match entry.tags.kind {
            FileKind::Cells => cell_checks(&metadata)
                .ok_or_else(|| TableError::corrupt(&path, "the checksums of its cells are missing"))?,
            _ => Vec::new(),
        };
        let zones = match entry.tags.kind {
            FileKind::Cells => footer_key(&metadata, ZONES_KEY).map(parse_zones).unwrap_or_default(),
            _ => Vec::new(),
        };
        // Types as the Parquet columns have them, whatever the writer's own notion was.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata =
            ArrowReaderMetadata::try_new(Arc::new(metadata), options).map_err(TableError::parquet(&path))?;
        Ok(FileIndex {
            path,
            kind: entry.tags.kind,
            metadata,
            tail,
            group_first_rows,
            data_pages,
            checks,
            zones,
        })
    }

    /// About how much memory this takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let own = self.data_pages.len() * size_of::<DataPage>() + self.checks.len() * size_of::<Check>();
        self.tail.bytes() + (self.parquet().memory_size() + own + 256) as u64
    }

    /// Checksums of runs of cells, in order; none for files that another tool wrote.
    pub(crate) fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// Between which values runs of samples lie, in order; none for files from before there were any.
    pub(crate) fn zones(&self) -> &[ZoneRun] {
        &self.zones
    }

    /// Fails if rows (first, count) are not all in the file.
    pub(crate) fn check_rows(&self, rows: &[(u64, u64)]) -> Result<(), TableError> {
        match rows.iter().any(|&(first, count)| first.saturating_add(count) > self.rows()) {
            true => Err(TableError::corrupt(&self.path, "the file has fewer rows than its tags say")),
            false => Ok(()),
        }
    }

    pub(crate) fn rows(&self) -> u64 {
        *self.group_first_rows.last().unwrap_or(&0)
    }

    fn parquet(&self) -> &ParquetMetaData {
        self.metadata.metadata()
    }

    /// The page of the `data` column that holds `row`, and the row's place in it.
    pub(crate) fn data_page(&self, row: u64) -> Option<(DataPage, u32)> {
        let i = self.data_pages.partition_point(|p| p.first_row <= row).checked_sub(1)?;
        let page = self.data_pages[i];
        Some((page, u32::try_from(row - page.first_row).ok()?))
    }

    /// Where the value of each row lies in the file, from the lengths of all rows (`None` for rows without
    /// one). `None` when they do not fill the pages.
    pub(crate) fn value_offsets(&self, lengths: &[Option<u32>]) -> Option<Vec<u64>> {
        let mut offsets = vec![0; lengths.len()];
        for (i, page) in self.data_pages.iter().enumerate() {
            let end = self.data_pages.get(i + 1).map_or(lengths.len() as u64, |next| next.first_row);
            let rows = usize::try_from(page.first_row).ok()?..usize::try_from(end).ok()?;
            let values = lengths.get(rows.clone())?;
            // Every value has its length in front; the last one ends with the page.
            let taken: u64 = values.iter().flatten().map(|length| 4 + u64::from(*length)).sum();
            let mut at = (page.offset + u64::from(page.bytes)).checked_sub(taken)?;
            if at < page.offset {
                return None;
            }
            for (offset, length) in offsets[rows].iter_mut().zip(values) {
                let Some(length) = length else { continue };
                *offset = at + 4;
                at += 4 + u64::from(*length);
            }
        }
        Some(offsets)
    }

    /// Whether the `data` column is laid out as Lacus writes it, so that pages can be read by hand.
    pub(crate) fn has_plain_pages(&self) -> bool {
        self.kind == FileKind::Chunks
    }

    /// The named columns of the rows in `runs` (first, count), in order.
    pub(crate) async fn columns(
        &self,
        store: &Store,
        runs: &[(u64, u64)],
        names: &[&str],
    ) -> Result<RecordBatch, TableError> {
        let wanted = unless_panicking(|| Ok(self.wanted_ranges(runs, names)))
            .map_err(TableError::parquet(&self.path))?;
        let mut held = self.tail.clone();
        let missing: Vec<(usize, Range<u64>)> =
            wanted.into_iter().filter(|range| !held.holds(range)).map(|range| (0, range)).collect();
        let requests = coalesce(&missing, GAP_BYTES, MAX_REQUEST_BYTES);
        let files = [self.path.clone()];
        fetch(store, &files, &requests, |i, bytes: Bytes| {
            held.add(requests[i].range.start, bytes);
            Ok::<_, TableError>(())
        })
        .await?;
        self.check_page_sizes(&held, names)?;
        loop {
            let decoded = lacus_io::blocking(|| {
                let decode = || Ok(self.decode(&held, runs, names));
                unless_panicking(decode).map_err(TableError::parquet(&self.path)).and_then(|batch| batch)
            });
            match (decoded, held.take_missed()) {
                (Ok(batch), _) => return Ok(batch),
                (Err(_), Some(missing)) => held.add(missing.start, read(store, &self.path, missing).await?),
                (Err(e), None) => return Err(e),
            }
        }
    }

    /// Fails if a page in memory claims to be larger than its whole column: the stock reader takes that much memory before
    /// it looks further. Page headers have no checksum; the footer, which says how large columns are, has one.
    fn check_page_sizes(&self, held: &Fetched, names: &[&str]) -> Result<(), TableError> {
        /// More than the two numbers that are looked at take.
        const START_BYTES: u64 = 16;
        let metadata = self.parquet();
        for (g, group) in metadata.row_groups().iter().enumerate() {
            for (leaf, chunk) in group.columns().iter().enumerate() {
                let root = chunk.column_path().parts().first().map(String::as_str);
                if !root.is_some_and(|root| names.contains(&root)) {
                    continue;
                }
                let largest = u64::try_from(chunk.uncompressed_size()).unwrap_or(0);
                let pages = metadata.offset_index().and_then(|i| i.get(g)).and_then(|i| i.get(leaf));
                let pages = pages.map(|pages| pages.page_locations().as_slice()).unwrap_or_default();
                let offsets = pages.iter().map(|page| page.offset).chain(chunk.dictionary_page_offset());
                for offset in offsets.filter_map(|offset| u64::try_from(offset).ok()) {
                    let start = held.slice(offset, START_BYTES);
                    if start.and_then(|start| claimed_bytes(&start)).is_some_and(|bytes| bytes > largest) {
                        let what = format!("the page at byte {offset} is damaged");
                        return Err(TableError::corrupt(&self.path, what));
                    }
                }
            }
        }
        Ok(())
    }

    fn decode(&self, held: &Fetched, runs: &[(u64, u64)], names: &[&str]) -> Result<RecordBatch, TableError> {
        let bad = |e: parquet::errors::ParquetError| TableError::parquet(&self.path)(e);
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(held.clone(), self.metadata.clone());
        let mask = ProjectionMask::columns(builder.parquet_schema(), names.iter().copied());
        // Whole row groups without a wanted row are left out before any page is looked at.
        let groups: Vec<usize> = (0..self.parquet().num_row_groups())
            .filter(|&g| {
                let rows = self.group_first_rows[g]..self.group_first_rows[g + 1];
                runs.iter().any(|&(first, count)| first < rows.end && first + count > rows.start)
            })
            .collect();
        let mut kept = Vec::new();
        let mut before = 0;
        for &g in &groups {
            let rows = self.group_first_rows[g]..self.group_first_rows[g + 1];
            for &(first, count) in runs {
                let from = first.max(rows.start);
                let to = (first + count).min(rows.end);
                if from < to {
                    kept.push((before + from - rows.start) as usize..(before + to - rows.start) as usize);
                }
            }
            before += rows.end - rows.start;
        }
        let total: u64 = runs.iter().map(|(_, count)| count).sum();
        let selection = RowSelection::from_consecutive_ranges(kept.into_iter(), before as usize);
        let reader = builder
            .with_row_groups(groups)
            .with_projection(mask)
            .with_row_selection(selection)
            .with_row_selection_policy(RowSelectionPolicy::Selectors)
            .with_batch_size((total as usize).clamp(1, 1 << 20))
            .build()
            .map_err(bad)?;
        let schema = arrow::array::RecordBatchReader::schema(&reader);
        let batches: Vec<RecordBatch> = reader
            .collect::<Result<_, _>>()
            .map_err(|e| TableError::corrupt(&self.path, format!("not a sound Parquet file: {e}")))?;
        let batch =
            concat_batches(&schema, &batches).map_err(|e| TableError::corrupt(&self.path, e.to_string()))?;
        if batch.num_rows() as u64 != total {
            let what = format!("expected {total} rows, found {}", batch.num_rows());
            return Err(TableError::corrupt(&self.path, what));
        }
        Ok(batch)
    }

    /// The byte ranges the named columns take for the given rows.
    fn wanted_ranges(&self, runs: &[(u64, u64)], names: &[&str]) -> Vec<Range<u64>> {
        let metadata = self.parquet();
        let mut ranges = Vec::new();
        for (g, group) in metadata.row_groups().iter().enumerate() {
            let start = self.group_first_rows[g];
            let end = self.group_first_rows[g + 1];
            let wanted: Vec<Range<u64>> = runs
                .iter()
                .map(|&(first, count)| first.max(start)..(first + count).min(end))
                .filter(|rows| rows.start < rows.end)
                .collect();
            if wanted.is_empty() {
                continue;
            }
            for (leaf, chunk) in group.columns().iter().enumerate() {
                let root = chunk.column_path().parts().first().map(String::as_str);
                if !root.is_some_and(|root| names.contains(&root)) {
                    continue;
                }
                let (offset, length) = chunk.byte_range();
                let pages = metadata.offset_index().and_then(|i| i.get(g)).and_then(|i| i.get(leaf));
                let Some(pages) = pages.map(|p| p.page_locations()).filter(|p| !p.is_empty()) else {
                    ranges.push(offset..offset + length);
                    continue;
                };
                let first_page = u64::try_from(pages[0].offset).unwrap_or(offset);
                if first_page > offset {
                    ranges.push(offset..first_page);
                }
                for (i, page) in pages.iter().enumerate() {
                    let from = start + page.first_row_index as u64;
                    let to = pages.get(i + 1).map_or(end, |p| start + p.first_row_index as u64);
                    if wanted.iter().any(|rows| rows.start < to && rows.end > from) {
                        let at = page.offset as u64;
                        ranges.push(at..at + page.compressed_page_size as u64);
                    }
                }
            }
        }
        ranges
    }

    /// Narrows `runs` to the pages whose `name` column can lie in `bounds` (half open), by the page
    /// statistics. Pages without statistics stay.
    pub(crate) fn prune(&self, runs: &[(u64, u64)], name: &str, bounds: (i64, i64)) -> Vec<(u64, u64)> {
        // Pruning is a favour: where the page index makes no sense, everything is read.
        unless_panicking(|| Ok(self.pruned(runs, name, bounds))).unwrap_or_else(|_| runs.to_vec())
    }

    fn pruned(&self, runs: &[(u64, u64)], name: &str, bounds: (i64, i64)) -> Vec<(u64, u64)> {
        let metadata = self.parquet();
        let mut kept: Vec<(u64, u64)> = Vec::new();
        let mut keep = |from: u64, to: u64| match kept.last_mut() {
            Some((first, count)) if *first + *count == from => *count += to - from,
            _ => kept.push((from, to - from)),
        };
        for (g, group) in metadata.row_groups().iter().enumerate() {
            let start = self.group_first_rows[g];
            let end = self.group_first_rows[g + 1];
            let leaf = group.columns().iter().position(|c| c.column_path().string() == name);
            let pages = leaf.and_then(|leaf| {
                let offsets = metadata.offset_index()?.get(g)?.get(leaf)?;
                match metadata.column_index()?.get(g)?.get(leaf)? {
                    ColumnIndexMetaData::INT64(index) => Some((offsets.page_locations(), index)),
                    _ => None,
                }
            });
            for &(first, count) in runs {
                let (from, to) = (first.max(start), (first + count).min(end));
                if from >= to {
                    continue;
                }
                let Some((pages, index)) = &pages else {
                    keep(from, to);
                    continue;
                };
                for (i, page) in pages.iter().enumerate() {
                    let page_from = start + page.first_row_index as u64;
                    let page_to = pages.get(i + 1).map_or(end, |p| start + p.first_row_index as u64);
                    let (low, high) = (page_from.max(from), page_to.min(to));
                    let outside = match (index.min_value(i), index.max_value(i)) {
                        (Some(&min), Some(&max)) => max < bounds.0 || min >= bounds.1,
                        _ => false,
                    };
                    if low < high && !outside {
                        keep(low, high);
                    }
                }
            }
        }
        kept
    }
}

async fn read(store: &Store, path: &str, range: Range<u64>) -> Result<Bytes, TableError> {
    let _reserved = store.memory().reserve(range.end.saturating_sub(range.start)).await;
    store.read(path, range).await.map_err(|e| match e.is_not_found() {
        true => TableError::corrupt(path, "a data file of this version is gone"),
        false => TableError::from(e),
    })
}

fn cell_checks(metadata: &ParquetMetaData) -> Option<Vec<Check>> {
    parse_checks(footer_key(metadata, CHECKS_KEY)?)
}

fn footer_key<'a>(metadata: &'a ParquetMetaData, key: &str) -> Option<&'a str> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
}

fn data_pages(metadata: &ParquetMetaData, group_first_rows: &[u64]) -> Vec<DataPage> {
    let mut found = Vec::new();
    for (g, group) in metadata.row_groups().iter().enumerate() {
        let leaf = group.columns().iter().position(|c| c.column_path().string() == column::DATA);
        let pages = leaf.and_then(|leaf| metadata.offset_index()?.get(g)?.get(leaf));
        for page in pages.map(|p| p.page_locations().as_slice()).unwrap_or_default() {
            found.push(DataPage {
                first_row: group_first_rows[g] + u64::try_from(page.first_row_index).unwrap_or(0),
                offset: u64::try_from(page.offset).unwrap_or(0),
                bytes: u32::try_from(page.compressed_page_size).unwrap_or(0),
            });
        }
    }
    found
}
