//! Writes a Parquet file of chunk rows: blobs first, everything needed to find them at the tail.
//!
//! ```text
//! PAR1 | data pages, row group by row group | index columns | page index | footer | PAR1
//!        straight from the caller's memory     one request from here to the end: `tail`
//! ```
//!
//! `data` is the first column of the file's schema, too, so that readers which look for a row group where its first
//! column begins find it ([`chunk_file_schema`]).
//!
//! The index columns (names, coordinates, codecs, checksums, headers) are written by the stock
//! Parquet writer into memory, with a `data` column of nulls; their bytes are then placed behind the
//! blobs, and the footer is rewritten to point to where everything is.

use std::borrow::Cow;
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
use serde::{Deserialize, Serialize};

use crate::error::TableError;
use crate::files::page::{Levels, page_start};
use crate::files::stats::FileStats;
use crate::log::deletion::Descriptor;
use crate::log::held::Holding;
use crate::log::snapshot::{FILE_REVISION, FileKind, FileTags, HeaderRow};
use crate::log::zone::Zone;
use crate::schema::{chunk_file_schema, column, coordinate, writer_properties};

/// A value of at least this size gets a page of its own; smaller ones share pages of about this
/// size. Reading 64 KiB costs an object store no more than reading one byte.
pub(crate) const PAGE_BYTES: usize = 64 << 10;

/// Blob bytes per row group: what a stock reader holds in memory at a time.
const ROW_GROUP_BYTES: u64 = 128 << 20;

/// Index rows gathered before they are handed to the Parquet writer.
const BATCH_ROWS: usize = 8 << 10;

/// A file that was written and is not yet part of the table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StagedFile {
    pub path: String,
    pub bytes: u64,
    /// The statistics, as the log has them.
    pub stats: Option<String>,
    pub tags: FileTags,
    /// The rows that do not count, of a file taken over from another state.
    pub vector: Option<Descriptor>,
    /// Whether other versions have the file: then it stays, should the commit fail.
    pub is_old: bool,
    /// Runs of the ids of its rows of the dataset, where they are known better than the tags tell.
    pub new_rows: Option<Vec<(u64, u64)>>,
}

/// A chunk file being written. Rows come sorted by tensor and coordinates.
pub(crate) struct ChunkFileWriter {
    path: String,
    out: FileWriter,
    index: ArrowWriter<Vec<u8>>,
    rows: IndexRows,
    group_first_row: u64,
    group_bytes: u64,
    groups: Vec<Vec<WrittenPage>>,
    page: OpenPage,
    stats: FileStats,
    holding: Holding,
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
        let index = ArrowWriter::try_new_with_options(Vec::new(), chunk_file_schema(), options)
            .map_err(TableError::parquet(&path))?;
        out.append(b"PAR1")?;
        Ok(ChunkFileWriter {
            path,
            out,
            index,
            rows: IndexRows::default(),
            group_first_row: 0,
            group_bytes: 0,
            groups: vec![Vec::new()],
            page: OpenPage::default(),
            stats: FileStats::default(),
            holding: Holding::default(),
        })
    }

    /// Bytes written or reserved so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.out.offset() + self.page.values.len() as u64
    }

    /// Writes a header row.
    pub(crate) fn header(&mut self, name: &str, header: &HeaderRow) -> Result<(), TableError> {
        self.holding.header(name, header);
        self.rows.push(name, IndexRow { header: Some(header.clone()), ..IndexRow::default() });
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
        self.holding.add(name, 1, bytes.len() as u64);
        let blob = Some((Cow::Borrowed(codec.name()), crc, bytes.len() as i64));
        self.rows.push(name, IndexRow { coords: *coords, blob, ..IndexRow::default() });
        self.stats.add(name, coords);
        let pending = self.place(bytes)?;
        self.row_done()?;
        Ok(pending)
    }

    /// Writes a row of a sample, as [`ChunkFileWriter::chunk`] does.
    pub(crate) fn sample(
        &mut self,
        name: &str,
        id: u64,
        sample: &BlobRow<'_>,
    ) -> Result<Option<PendingWrite>, TableError> {
        let bytes = &sample.bytes[..];
        self.holding.add_ids(name, &[id], bytes.len() as u64);
        let is_first = self.holding.last().is_some_and(|held| held.row_count() == 1);
        let zone = sample.shape.map(|shape| Zone::Shape(shape.to_vec(), shape.to_vec()));
        self.holding.add_zone(name, zone.as_ref(), is_first);
        let row = IndexRow {
            id: Some(id as i64),
            coords: sample.tile,
            blob: Some((sample.codec.clone(), sample.crc, bytes.len() as i64)),
            shape: sample.shape.map(<[i64]>::to_vec),
            ..IndexRow::default()
        };
        self.rows.push(name, row);
        self.stats.add(name, &sample.tile);
        self.stats.add_ids(&[id]);
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
        if self.rows.len() >= BATCH_ROWS {
            self.flush_rows()?;
        }
        if self.group_bytes >= ROW_GROUP_BYTES && self.page.levels.rows() == 0 {
            self.flush_rows()?;
            self.index.flush().map_err(TableError::parquet(&self.path))?;
            self.groups.push(Vec::new());
            self.group_first_row = self.holding.rows();
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
        let tags = FileTags {
            kind: FileKind::Chunks,
            revision: FILE_REVISION,
            tail,
            tail_crc,
            deleted: 0,
            tensors: self.holding.finish(),
        };
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
        Ok(StagedFile {
            path: self.path,
            bytes,
            stats: Some(self.stats.render()),
            tags: self.tags,
            vector: None,
            is_old: false,
            new_rows: None,
        })
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
    let mut builder = metadata.into_builder();
    let offsets = builder.take_offset_index().unwrap_or_default();
    let columns = builder.take_column_index().unwrap_or_default();
    let row_groups = builder.take_row_groups();
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
            if chunk.column_path().string() == column::DATA {
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
        let group = group.set_column_metadata(chunks).set_total_byte_size(total);
        let first_page = groups[i].first().map_or(4, |page| page.offset as i64);
        new_groups.push(group.set_file_offset(first_page).build()?);
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

/// A blob that is a sample, or a tile of one.
#[derive(Clone, Debug)]
pub(crate) struct BlobRow<'a> {
    /// Which tile; none for a sample in one piece.
    pub tile: Coords,
    pub codec: Cow<'static, str>,
    pub crc: u32,
    /// The sample's shape, where samples differ.
    pub shape: Option<&'a [i64]>,
    pub bytes: Cow<'a, [u8]>,
}

/// What the index columns say of one row.
#[derive(Default)]
struct IndexRow {
    name: Arc<str>,
    id: Option<i64>,
    coords: Coords,
    /// Codec, checksum, length.
    blob: Option<(Cow<'static, str>, u32, i64)>,
    shape: Option<Vec<i64>>,
    header: Option<HeaderRow>,
}

/// Index rows that wait to be written.
#[derive(Default)]
struct IndexRows {
    rows: Vec<IndexRow>,
}

impl IndexRows {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn push(&mut self, name: &str, row: IndexRow) {
        // Rows come sorted by name, so that most share the one before theirs.
        let name = match self.rows.last() {
            Some(last) if *last.name == *name => Arc::clone(&last.name),
            _ => name.into(),
        };
        self.rows.push(IndexRow { name, ..row });
    }

    /// The gathered rows as a batch, leaving none.
    fn take(&mut self, path: &str) -> Result<RecordBatch, TableError> {
        let rows = std::mem::take(&mut self.rows);
        let schema = chunk_file_schema();
        let mut columns: Vec<ArrayRef> =
            schema.fields().iter().map(|f| new_null_array(f.data_type(), rows.len())).collect();
        let at = |name: &str| schema.index_of(name).expect("the schema has this column");

        let mut names = StringBuilder::new();
        rows.iter().for_each(|row| names.append_value(&row.name));
        columns[at(column::TENSOR)] = Arc::new(names.finish());
        if rows.iter().any(|row| row.id.is_some()) {
            columns[at(column::ROW)] = Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.id)));
        }
        for k in 0..MAX_RANK {
            if rows.iter().any(|row| row.coords.len() > k) {
                let values = rows.iter().map(|row| row.coords.get(k).copied());
                columns[at(&coordinate(k))] = Arc::new(Int64Array::from_iter(values));
            }
        }
        let mut codecs = StringBuilder::new();
        let mut crcs = Int32Builder::new();
        let mut lengths = Int64Builder::new();
        for row in &rows {
            codecs.append_option(row.blob.as_ref().map(|(codec, ..)| codec));
            crcs.append_option(row.blob.as_ref().map(|(_, crc, _)| *crc as i32));
            lengths.append_option(row.blob.as_ref().map(|(.., bytes)| *bytes));
        }
        columns[at(column::BYTES)] = Arc::new(lengths.finish());
        columns[at(column::CODEC)] = Arc::new(codecs.finish());
        columns[at(column::CRC)] = Arc::new(crcs.finish());
        let (mut headers, mut shapes) = (Vec::new(), Vec::new());
        for row in rows {
            headers.push(row.header);
            shapes.push(row.shape);
        }
        header_columns(&headers, |name, array| columns[at(name)] = array);
        if shapes.iter().any(Option::is_some) {
            // The shapes of samples stand in the column that header rows use for theirs.
            for (shape, header) in shapes.iter_mut().zip(&headers) {
                let of_header = header.as_ref().filter(|h| !h.dtype.is_empty()).map(|h| &h.shape);
                *shape = shape.take().or_else(|| of_header.cloned());
            }
            columns[at(column::SHAPE)] = lists(shapes.iter().map(Option::as_deref));
        }
        RecordBatch::try_new(schema, columns).map_err(|e| TableError::corrupt(path, e.to_string()))
    }
}

/// A column of lists of longs.
fn lists<'a>(values: impl Iterator<Item = Option<&'a [i64]>>) -> ArrayRef {
    let element = Field::new("element", arrow::datatypes::DataType::Int64, true);
    let mut builder = ListBuilder::new(Int64Builder::new()).with_field(element);
    for value in values {
        if let Some(value) = value {
            builder.values().append_slice(value);
        }
        builder.append(value.is_some());
    }
    Arc::new(builder.finish())
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
    let shapes = headers.iter().map(|h| h.as_ref().filter(|h| !h.dtype.is_empty()).map(|h| &h.shape[..]));
    set(column::SHAPE, lists(shapes));
    let chunk_shapes = headers.iter().map(|h| h.as_ref().and_then(|h| h.chunk_shape.as_deref()));
    set(column::CHUNK_SHAPE, lists(chunk_shapes));
    set(column::HTYPE, strings(&|h| h.htype.clone()));
    set(column::LAYOUT, strings(&|h| Some(h.layout.clone()).filter(|t| !t.is_empty())));
    set(column::DTYPE, strings(&|h| Some(h.dtype.clone()).filter(|t| !t.is_empty())));
    set(column::PARAMETERS, strings(&|h| Some(h.parameters.clone()).filter(|t| !t.is_empty())));
    set(column::METADATA, strings(&|h| h.metadata.clone()));
}
