//! Writes a Parquet file of chunk rows: blobs first, everything needed to find them at the tail.
//!
//! ```text
//! PAR1 | data pages, row group by row group | index columns | page index | footer | PAR1
//!        straight from the caller's memory     one request from here to the end: `tail`
//! ```
//!
//! The index columns (names, coordinates, codecs, checksums, headers) are written by the stock
//! Parquet writer into memory, with a `data` column of nulls; their bytes are then placed behind the
//! blobs, and the footer is rewritten to point to where everything is.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int32Builder, Int64Array, Int64Builder, ListBuilder, RecordBatch, StringBuilder, new_null_array,
};
use arrow::datatypes::Field;
use lacus_io::{FileWriter, Reserved, Store};
use lacus_layout::{Codec, Coords, crc32c};
use lacus_tensor::MAX_RANK;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding};
use parquet::file::metadata::{
    OffsetIndexBuilder, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::OffsetIndexMetaData;
use parquet::file::writer::TrackedWrite;

use crate::error::TableError;
use crate::page::{Levels, page_start};
use crate::schema::{arrow_schema, column, coordinate_at, writer_properties};
use crate::snapshot::{FileKind, FileTags, HeaderRow, Held};
use crate::stats::FileStats;

/// A value of at least this size gets a page of its own; smaller ones share pages of about this
/// size. Reading 64 KiB costs an object store no more than reading one byte.
pub(crate) const PAGE_BYTES: usize = 64 << 10;

/// Blob bytes per row group: what a stock reader holds in memory at a time.
const ROW_GROUP_BYTES: u64 = 128 << 20;

/// Index rows gathered before they are handed to the Parquet writer.
const BATCH_ROWS: usize = 8 << 10;

/// A file that was written and is not yet part of the table.
#[derive(Clone, Debug)]
pub(crate) struct StagedFile {
    pub path: String,
    pub bytes: u64,
    pub stats: FileStats,
    pub tags: FileTags,
}

/// A chunk file being written. Rows come sorted by tensor and coordinates.
pub(crate) struct ChunkFileWriter {
    path: String,
    out: FileWriter,
    index: ArrowWriter<Vec<u8>>,
    rows: IndexRows,
    row: u64,
    group_first_row: u64,
    group_bytes: u64,
    groups: Vec<Vec<WrittenPage>>,
    page: OpenPage,
    stats: FileStats,
    held: Vec<Held>,
}

struct WrittenPage {
    offset: u64,
    bytes: u64,
    rows: u32,
}

/// Small values waiting to share a page.
#[derive(Default)]
struct OpenPage {
    levels: Levels,
    values: Vec<u8>,
}

/// Bytes that have a place in the file and can be written from any thread.
pub(crate) struct PendingWrite {
    place: Reserved,
    start: Vec<u8>,
}

impl PendingWrite {
    pub(crate) fn write(self, bytes: &[u8]) -> Result<(), TableError> {
        Ok(self.place.write(&[&self.start, bytes])?)
    }
}

impl ChunkFileWriter {
    pub(crate) fn create(store: &Store, path: String, expected_bytes: u64) -> Result<Self, TableError> {
        let mut out = FileWriter::create(store, &path, expected_bytes)?;
        let options = ArrowWriterOptions::new()
            .with_properties(writer_properties(false, false))
            .with_skip_arrow_metadata(true);
        let index = ArrowWriter::try_new_with_options(Vec::new(), arrow_schema(), options)
            .map_err(TableError::parquet(&path))?;
        out.append(b"PAR1")?;
        Ok(ChunkFileWriter {
            path,
            out,
            index,
            rows: IndexRows::default(),
            row: 0,
            group_first_row: 0,
            group_bytes: 0,
            groups: vec![Vec::new()],
            page: OpenPage::default(),
            stats: FileStats::default(),
            held: Vec::new(),
        })
    }

    /// Bytes written or reserved so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.out.offset() + self.page.values.len() as u64
    }

    fn held(&mut self, name: &str) -> &mut Held {
        if self.held.last().is_none_or(|h| h.name != name) {
            self.held.push(Held { name: name.to_owned(), header: None, rows: Vec::new(), bytes: 0 });
        }
        self.held.last_mut().expect("just pushed")
    }

    /// Writes a header row.
    pub(crate) fn header(&mut self, name: &str, header: &HeaderRow) -> Result<(), TableError> {
        let row = self.row;
        self.held(name).header = Some(HeaderRow { row, ..header.clone() });
        self.rows.push(name, &[], None, Some(header));
        self.stats.add(name, &[]);
        self.page.levels.push(false);
        self.row_done()
    }

    /// Writes a chunk row. When the bytes can be written by the caller in parallel, what comes back
    /// says where; they must be written before [`ChunkFileWriter::finish`].
    pub(crate) fn chunk(
        &mut self,
        name: &str,
        coords: &Coords,
        codec: Codec,
        crc: u32,
        bytes: &[u8],
    ) -> Result<Option<PendingWrite>, TableError> {
        let row = self.row;
        let held = self.held(name);
        held.bytes += bytes.len() as u64;
        match held.rows.last_mut() {
            Some((first, count)) if *first + *count == row => *count += 1,
            _ => held.rows.push((row, 1)),
        }
        self.rows.push(name, coords, Some((codec, crc, bytes.len() as i64)), None);
        self.stats.add(name, coords);
        let pending = self.place(bytes)?;
        self.row_done()?;
        Ok(pending)
    }

    fn place(&mut self, bytes: &[u8]) -> Result<Option<PendingWrite>, TableError> {
        let too_long =
            || TableError::refused("write", "a chunk is larger than 4 GiB; use a smaller chunk shape");
        let length = u32::try_from(bytes.len()).map_err(|_| too_long())?.to_le_bytes();
        if bytes.len() < PAGE_BYTES {
            self.page.levels.push(true);
            self.page.values.extend_from_slice(&length);
            self.page.values.extend_from_slice(bytes);
            if self.page.values.len() >= PAGE_BYTES {
                self.flush_page()?;
            }
            return Ok(None);
        }
        if self.page.levels.has_values() {
            self.flush_page()?;
        }
        // Header rows just before a large chunk are nulls at the front of its page.
        let mut levels = std::mem::take(&mut self.page.levels);
        levels.push(true);
        let mut start = page_start(&levels, 4 + bytes.len())?;
        start.extend_from_slice(&length);
        let total = (start.len() + bytes.len()) as u64;
        self.note_page(self.out.offset(), total, levels.rows());
        match self.out.reserve(total) {
            Some(place) => Ok(Some(PendingWrite { place, start })),
            None => {
                self.out.append(&start)?;
                self.out.append(bytes)?;
                Ok(None)
            }
        }
    }

    fn flush_page(&mut self) -> Result<(), TableError> {
        let page = std::mem::take(&mut self.page);
        if page.levels.rows() == 0 {
            return Ok(());
        }
        let mut bytes = page_start(&page.levels, page.values.len())?;
        bytes.extend_from_slice(&page.values);
        self.note_page(self.out.offset(), bytes.len() as u64, page.levels.rows());
        Ok(self.out.append(&bytes)?)
    }

    fn note_page(&mut self, offset: u64, bytes: u64, rows: u32) {
        self.group_bytes += bytes;
        self.groups.last_mut().expect("one group is open").push(WrittenPage { offset, bytes, rows });
    }

    fn row_done(&mut self) -> Result<(), TableError> {
        self.row += 1;
        if self.rows.len() >= BATCH_ROWS {
            self.flush_rows()?;
        }
        if self.group_bytes >= ROW_GROUP_BYTES && self.page.levels.rows() == 0 {
            self.flush_rows()?;
            self.index.flush().map_err(TableError::parquet(&self.path))?;
            self.groups.push(Vec::new());
            self.group_first_row = self.row;
            self.group_bytes = 0;
        }
        Ok(())
    }

    fn flush_rows(&mut self) -> Result<(), TableError> {
        if self.rows.len() == 0 {
            return Ok(());
        }
        let batch = self.rows.take(&self.path)?;
        self.index.write(&batch).map_err(TableError::parquet(&self.path))
    }

    /// Completes the file. Called from a plain thread.
    pub(crate) fn close(mut self) -> Result<ClosedFile, TableError> {
        self.flush_page()?;
        self.flush_rows()?;
        if self.groups.last().is_some_and(Vec::is_empty) && self.groups.len() > 1 {
            self.groups.pop();
        }
        let path = self.path;
        let index = self.index.into_inner().map_err(TableError::parquet(&path))?;
        let tail = self.out.offset();
        let index: bytes::Bytes = index.into();
        let metadata = ParquetMetaDataReader::new()
            .with_page_index_policy(PageIndexPolicy::Required)
            .parse_and_finish(&index)
            .map_err(TableError::parquet(&path))?;
        let body_end = body_end(&metadata);
        let mut last = index[4..body_end].to_vec();
        let footer = relocated_footer(metadata, &self.groups, tail - 4, tail + last.len() as u64)
            .map_err(TableError::parquet(&path))?;
        last.extend_from_slice(&footer);
        self.out.append(&last)?;
        let tail_crc = Some(crc32c(&last));
        let tags = FileTags { kind: FileKind::Chunks, tail, tail_crc, deleted: 0, tensors: self.held };
        Ok(ClosedFile { path, out: self.out, stats: self.stats, tags })
    }
}

/// A complete file whose last bytes may still be on their way.
pub(crate) struct ClosedFile {
    path: String,
    out: FileWriter,
    stats: FileStats,
    tags: FileTags,
}

impl ClosedFile {
    pub(crate) fn new(path: String, out: FileWriter, stats: FileStats, tags: FileTags) -> Self {
        ClosedFile { path, out, stats, tags }
    }

    pub(crate) async fn finish(self, durable: bool) -> Result<StagedFile, TableError> {
        let bytes = self.out.finish(durable).await?;
        Ok(StagedFile { path: self.path, bytes, stats: self.stats, tags: self.tags })
    }
}

/// Where the column chunks of an in-memory file end: at its first page index.
fn body_end(metadata: &ParquetMetaData) -> usize {
    let columns = metadata.row_groups().iter().flat_map(|g| g.columns());
    columns
        .flat_map(|c| [c.column_index_offset(), c.offset_index_offset()])
        .flatten()
        .min()
        .map_or(4, |offset| offset as usize)
}

/// The page index and footer for the finished file: index columns moved by `shift`, the `data`
/// column where `groups` says. `at` is the file offset the result will be written to.
fn relocated_footer(
    metadata: ParquetMetaData,
    groups: &[Vec<WrittenPage>],
    shift: u64,
    at: u64,
) -> Result<Vec<u8>, parquet::errors::ParquetError> {
    let shift = shift as i64;
    let data_at = arrow_schema().index_of(column::DATA).expect("the schema has a data column");
    let data_path = column::DATA;
    let mut builder = metadata.into_builder();
    let offsets = builder.take_offset_index().unwrap_or_default();
    let columns = builder.take_column_index().unwrap_or_default();
    let row_groups = builder.take_row_groups();
    let leaf_of_data = row_groups
        .first()
        .and_then(|g| g.columns().iter().position(|c| c.column_path().string() == data_path))
        .unwrap_or(data_at);

    let mut new_groups = Vec::with_capacity(row_groups.len());
    let mut new_offsets: Vec<Vec<OffsetIndexMetaData>> = Vec::with_capacity(row_groups.len());
    let mut new_columns: Vec<Vec<ColumnIndexMetaData>> = columns;
    for (i, group) in row_groups.into_iter().enumerate() {
        let rows = group.num_rows();
        let mut group = group.into_builder();
        let mut chunks = group.take_columns();
        let mut group_offsets = offsets.get(i).cloned().unwrap_or_default();
        for (leaf, chunk) in chunks.iter_mut().enumerate() {
            let moved = chunk.clone();
            if leaf == leaf_of_data {
                let pages = &groups[i];
                let bytes: u64 = pages.iter().map(|p| p.bytes).sum();
                *chunk = moved
                    .into_builder()
                    .set_compression(Compression::UNCOMPRESSED)
                    .set_encodings(vec![Encoding::PLAIN, Encoding::RLE])
                    .clear_page_encoding_stats()
                    .clear_statistics()
                    .set_definition_level_histogram(None)
                    .set_unencoded_byte_array_data_bytes(None)
                    .set_num_values(rows)
                    .set_total_compressed_size(bytes as i64)
                    .set_total_uncompressed_size(bytes as i64)
                    .set_dictionary_page_offset(None)
                    .set_data_page_offset(pages.first().map_or(4, |p| p.offset as i64))
                    .build()?;
                let mut index = OffsetIndexBuilder::new();
                for page in pages {
                    index.append_row_count(i64::from(page.rows));
                    index.append_offset_and_size(page.offset as i64, page.bytes as i32);
                }
                group_offsets[leaf] = index.build();
                if let Some(index) = new_columns.get_mut(i).and_then(|g| g.get_mut(leaf)) {
                    *index = ColumnIndexMetaData::NONE;
                }
            } else {
                let data_page = moved.data_page_offset() + shift;
                let dictionary = moved.dictionary_page_offset().map(|o| o + shift);
                *chunk = moved
                    .into_builder()
                    .set_data_page_offset(data_page)
                    .set_dictionary_page_offset(dictionary)
                    .build()?;
                group_offsets[leaf] = shifted(&group_offsets[leaf], shift, rows);
            }
            // The metadata writer fills in where it puts the page indexes.
            *chunk = chunk
                .clone()
                .into_builder()
                .set_offset_index_offset(None)
                .set_offset_index_length(None)
                .set_column_index_offset(None)
                .set_column_index_length(None)
                .build()?;
        }
        let total: i64 = chunks.iter().map(|c| c.uncompressed_size()).sum();
        new_groups.push(group.set_column_metadata(chunks).set_total_byte_size(total).build()?);
        new_offsets.push(group_offsets);
    }
    let metadata = builder
        .set_row_groups(new_groups)
        .set_column_index(Some(new_columns))
        .set_offset_index(Some(new_offsets))
        .build();
    // The writer counts offsets from where it starts, so it is first moved to `at`.
    let mut kept = Vec::new();
    let mut tracked = TrackedWrite::new(FromOffset { skip: at, kept: &mut kept });
    let zeros = vec![0; 1 << 20];
    let mut left = at;
    while left > 0 {
        let now = left.min(zeros.len() as u64);
        tracked.write_all(&zeros[..now as usize])?;
        left -= now;
    }
    ParquetMetaDataWriter::new_with_tracked(tracked, &metadata).finish()?;
    Ok(kept)
}

/// Keeps what is written from an offset on.
struct FromOffset<'a> {
    skip: u64,
    kept: &'a mut Vec<u8>,
}

impl Write for FromOffset<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let skipped = self.skip.min(bytes.len() as u64);
        self.skip -= skipped;
        self.kept.extend_from_slice(&bytes[skipped as usize..]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn shifted(index: &OffsetIndexMetaData, shift: i64, rows: i64) -> OffsetIndexMetaData {
    let pages = index.page_locations();
    let mut moved = OffsetIndexBuilder::new();
    for (i, page) in pages.iter().enumerate() {
        let next = pages.get(i + 1).map_or(rows, |p| p.first_row_index);
        moved.append_row_count(next - page.first_row_index);
        moved.append_offset_and_size(page.offset + shift, page.compressed_page_size);
    }
    moved.build()
}

/// Index rows on their way into the Parquet writer.
#[derive(Default)]
struct IndexRows {
    names: Vec<String>,
    coords: Vec<Coords>,
    chunks: Vec<Option<(Codec, u32, i64)>>,
    headers: Vec<Option<HeaderRow>>,
}

impl IndexRows {
    fn len(&self) -> usize {
        self.names.len()
    }

    fn push(
        &mut self,
        name: &str,
        coords: &[i64],
        chunk: Option<(Codec, u32, i64)>,
        header: Option<&HeaderRow>,
    ) {
        self.names.push(name.to_owned());
        self.coords.push(Coords::new(coords).unwrap_or_default());
        self.chunks.push(chunk);
        self.headers.push(header.cloned());
    }

    /// The gathered rows as a batch, leaving none.
    fn take(&mut self, path: &str) -> Result<RecordBatch, TableError> {
        let rows = std::mem::take(self);
        let schema = arrow_schema();
        let mut columns: Vec<ArrayRef> =
            schema.fields().iter().map(|f| new_null_array(f.data_type(), rows.len())).collect();
        let at = |name: &str| schema.index_of(name).expect("the schema has this column");

        let mut names = StringBuilder::new();
        rows.names.iter().for_each(|n| names.append_value(n));
        columns[at(column::TENSOR)] = Arc::new(names.finish());
        for k in 0..MAX_RANK {
            if rows.coords.iter().any(|c| c.len() > k) {
                let values = rows.coords.iter().map(|c| c.get(k).copied());
                columns[coordinate_at(k)] = Arc::new(Int64Array::from_iter(values));
            }
        }
        let mut codecs = StringBuilder::new();
        let mut crcs = Int32Builder::new();
        let mut lengths = Int64Builder::new();
        for chunk in &rows.chunks {
            codecs.append_option(chunk.as_ref().map(|(codec, ..)| codec.name()));
            crcs.append_option(chunk.as_ref().map(|(_, crc, _)| *crc as i32));
            lengths.append_option(chunk.as_ref().map(|(.., bytes)| *bytes));
        }
        columns[at(column::BYTES)] = Arc::new(lengths.finish());
        columns[at(column::CODEC)] = Arc::new(codecs.finish());
        columns[at(column::CRC)] = Arc::new(crcs.finish());
        header_columns(&rows.headers, |name, array| columns[at(name)] = array);
        RecordBatch::try_new(schema, columns).map_err(|e| TableError::corrupt(path, e.to_string()))
    }
}

/// The columns that only header rows fill.
pub(crate) fn header_columns(headers: &[Option<HeaderRow>], mut set: impl FnMut(&str, ArrayRef)) {
    if headers.iter().all(Option::is_none) {
        return;
    }
    let strings = |get: &dyn Fn(&HeaderRow) -> Option<String>| -> ArrayRef {
        let mut builder = StringBuilder::new();
        headers.iter().for_each(|h| builder.append_option(h.as_ref().and_then(get)));
        Arc::new(builder.finish())
    };
    let lists = |get: &dyn Fn(&HeaderRow) -> Option<Vec<i64>>| -> ArrayRef {
        let element = Field::new("element", arrow::datatypes::DataType::Int64, true);
        let mut builder = ListBuilder::new(Int64Builder::new()).with_field(element);
        for header in headers {
            match header.as_ref().and_then(get) {
                Some(values) => {
                    builder.values().append_slice(&values);
                    builder.append(true);
                }
                None => builder.append(false),
            }
        }
        Arc::new(builder.finish())
    };
    set(column::SHAPE, lists(&|h| (!h.dtype.is_empty()).then(|| h.shape.clone())));
    set(column::CHUNK_SHAPE, lists(&|h| h.chunk_shape.clone()));
    set(column::LAYOUT, strings(&|h| Some(h.layout.clone()).filter(|t| !t.is_empty())));
    set(column::DTYPE, strings(&|h| Some(h.dtype.clone()).filter(|t| !t.is_empty())));
    set(column::PARAMETERS, strings(&|h| Some(h.parameters.clone()).filter(|t| !t.is_empty())));
    set(column::METADATA, strings(&|h| h.metadata.clone()));
}
