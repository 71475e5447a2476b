//! Writes the files of a change of rows: samples, headers of columns, rows of the dataset.
//!
//! ```text
//! scalars, texts, /rows ──→ a cell file
//! blobs ─────────────────→ chunk files (at most 512 MiB each)
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Array, Float64Array, Int64Array, StringArray};
use arrow::buffer::{Buffer as ArrowBuffer, ScalarBuffer};
use lacus_io::{Store, World, on_plain_thread};
use lacus_layout::{Coords, crc32c};

use crate::error::TableError;
use crate::files::cell_file::CellFileWriter;
use crate::files::chunk_file::{BlobRow, ChunkFileWriter, ClosedFile, StagedFile};
use crate::log::snapshot::HeaderRow;
use crate::read::scalars::ScalarBits;
use crate::schema::{ROW_AXIS, column};
use crate::write::stage::{FILE_BYTES, Meter, WriteOptions, new_path};

/// New samples of one column.
#[derive(Debug)]
pub struct ColumnWrite<'a> {
    /// The column.
    pub name: String,
    /// The ids of the rows, ascending.
    pub ids: Vec<u64>,
    /// A sample for each.
    pub values: ColumnValues<'a>,
}

/// Samples as rows hold them.
#[derive(Debug)]
pub enum ColumnValues<'a> {
    /// Numbers.
    Scalars(ScalarBits),
    /// Texts.
    Texts(Vec<Cow<'a, str>>),
    /// Anything else.
    Blobs(Vec<BlobSample<'a>>),
}

impl ColumnValues<'_> {
    /// How many samples there are.
    pub fn len(&self) -> usize {
        match self {
            ColumnValues::Scalars(values) => values.len(),
            ColumnValues::Texts(values) => values.len(),
            ColumnValues::Blobs(values) => values.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn bytes(&self) -> u64 {
        match self {
            ColumnValues::Scalars(values) => values.len() as u64 * 8,
            ColumnValues::Texts(values) => values.iter().map(|text| text.len() as u64).sum(),
            ColumnValues::Blobs(values) => {
                values.iter().flat_map(|sample| &sample.tiles).map(|tile| tile.bytes.len() as u64).sum()
            }
        }
    }
}

/// A sample that is bytes.
#[derive(Clone, Debug)]
pub struct BlobSample<'a> {
    /// Its shape, where samples of the column differ.
    pub shape: Option<Vec<i64>>,
    /// Its pieces; one without coordinates for a sample in one piece.
    pub tiles: Vec<BlobTile<'a>>,
}

/// A piece of a sample.
#[derive(Clone, Debug)]
pub struct BlobTile<'a> {
    /// Its place among the pieces.
    pub coords: Vec<i64>,
    /// How the bytes are to be read.
    pub codec: Cow<'static, str>,
    /// The stored bytes.
    pub bytes: Cow<'a, [u8]>,
}

/// What the files of a change are to hold.
pub(crate) struct RowJobs<'a> {
    pub headers: Vec<(String, HeaderRow)>,
    pub writes: Vec<ColumnWrite<'a>>,
    /// New rows of the dataset: runs of ids with their sequence.
    pub axis: Vec<(u64, Vec<u64>)>,
}

/// Writes the files.
pub(crate) async fn write_rows(
    store: &Store,
    world: &World,
    jobs: RowJobs<'_>,
    options: &WriteOptions,
) -> Result<Vec<StagedFile>, TableError> {
    let meter = Meter::new(options, jobs.writes.iter().map(|write| write.values.bytes()).sum());
    let closed = on_plain_thread(|| write_closed(store, world, jobs, options, &meter))?;
    let mut staged = Vec::with_capacity(closed.len());
    for file in closed {
        staged.push(file.finish(options.durable).await?);
    }
    Ok(staged)
}

fn write_closed(
    store: &Store,
    world: &World,
    jobs: RowJobs<'_>,
    options: &WriteOptions,
    meter: &Meter<'_>,
) -> Result<Vec<ClosedFile>, TableError> {
    let (mut blobs, mut cells): (Vec<_>, Vec<_>) = jobs
        .writes
        .into_iter()
        .filter(|write| !write.ids.is_empty())
        .partition(|write| matches!(write.values, ColumnValues::Blobs(_)));
    blobs.sort_by(|a, b| a.name.cmp(&b.name));
    cells.sort_by(|a, b| a.name.cmp(&b.name));
    let mut headers = jobs.headers;
    headers.sort_by(|a, b| a.0.cmp(&b.0));
    let mut closed = Vec::new();
    // Headers go where something else is written anyway.
    let (chunk_headers, cell_headers) = match cells.is_empty() && jobs.axis.is_empty() {
        true => (headers, Vec::new()),
        false => (Vec::new(), headers),
    };
    if !cells.is_empty() || !jobs.axis.is_empty() {
        let mut writer = CellFileWriter::create(store, new_path(world), None)?;
        let mut axis = Some(jobs.axis);
        let mut write_axis = |writer: &mut CellFileWriter, before: Option<&str>| {
            if before.is_some_and(|name| name < ROW_AXIS) {
                return Ok(());
            }
            for (sequence, ids) in axis.take().unwrap_or_default() {
                writer.axis(&ids, sequence)?;
            }
            Ok::<_, TableError>(())
        };
        for name in names(cell_headers.iter().map(|h| &h.0), cells.iter().map(|c| &c.name)) {
            write_axis(&mut writer, Some(&name))?;
            if let Some((_, header)) = cell_headers.iter().find(|(of, _)| *of == name) {
                writer.header(&name, header)?;
            }
            for write in cells.iter().filter(|write| write.name == name) {
                if options.cancelled() {
                    return Err(TableError::Cancelled);
                }
                match &write.values {
                    ColumnValues::Scalars(scalars) => {
                        let values = scalar_array(scalars);
                        writer.samples(&name, &write.ids, Some((scalars.column(), &values)))?;
                    }
                    ColumnValues::Texts(texts) => write_texts(&mut writer, &name, &write.ids, texts)?,
                    // Blobs are written below.
                    ColumnValues::Blobs(_) => {}
                }
                meter.add(write.values.bytes());
            }
        }
        write_axis(&mut writer, None)?;
        closed.push(writer.close()?);
    }
    let mut open: Option<ChunkFileWriter> = None;
    for name in names(chunk_headers.iter().map(|h| &h.0), blobs.iter().map(|b| &b.name)) {
        let header = chunk_headers.iter().find(|(of, _)| *of == name);
        if let Some((_, header)) = header {
            rolled(store, world, &mut open, &mut closed)?.header(&name, header)?;
        }
        for write in blobs.iter().filter(|write| write.name == name) {
            let ColumnValues::Blobs(samples) = &write.values else { continue };
            for (&id, sample) in write.ids.iter().zip(samples) {
                if options.cancelled() {
                    return Err(TableError::Cancelled);
                }
                let writer = rolled(store, world, &mut open, &mut closed)?;
                write_sample(writer, &name, id, sample, meter)?;
            }
        }
    }
    if let Some(writer) = open {
        closed.push(writer.close()?);
    }
    Ok(closed)
}

/// All names of two sorted lists, sorted.
fn names<'a>(
    headers: impl Iterator<Item = &'a String>,
    writes: impl Iterator<Item = &'a String>,
) -> Vec<String> {
    let mut all: Vec<String> = headers.chain(writes).cloned().collect();
    all.sort();
    all.dedup();
    all
}

/// The chunk file to write to: the open one, or a new one when that is full.
fn rolled<'w>(
    store: &Store,
    world: &World,
    open: &'w mut Option<ChunkFileWriter>,
    closed: &mut Vec<ClosedFile>,
) -> Result<&'w mut ChunkFileWriter, TableError> {
    if let Some(full) = open.take_if(|writer| writer.bytes() >= FILE_BYTES) {
        closed.push(full.close()?);
    }
    match open {
        Some(writer) => Ok(writer),
        slot => Ok(slot.insert(ChunkFileWriter::create(store, new_path(world), 0)?)),
    }
}

fn write_sample(
    writer: &mut ChunkFileWriter,
    name: &str,
    id: u64,
    sample: &BlobSample<'_>,
    meter: &Meter<'_>,
) -> Result<(), TableError> {
    for tile in &sample.tiles {
        let coords = Coords::new(&tile.coords)
            .ok_or_else(|| TableError::refused("write", "a tile has too many coordinates"))?;
        let row = BlobRow {
            tile: coords,
            codec: tile.codec.clone(),
            crc: crc32c(&tile.bytes),
            shape: sample.shape.as_deref(),
            bytes: Cow::Borrowed(&tile.bytes),
        };
        if let Some(pending) = writer.sample(name, id, &row)? {
            pending.write(&tile.bytes)?;
        }
        meter.add(tile.bytes.len() as u64);
    }
    Ok(())
}

/// Bytes of text that become one Arrow array, which counts them in 31 bits.
const TEXT_ARRAY_BYTES: usize = 64 << 20;

/// Writes texts, some at a time.
pub(crate) fn write_texts<S: AsRef<str>>(
    writer: &mut CellFileWriter,
    name: &str,
    ids: &[u64],
    texts: &[S],
) -> Result<(), TableError> {
    let mut from = 0;
    while from < texts.len() {
        let mut bytes = 0;
        let fits = texts[from..].iter().take_while(|text| {
            bytes += text.as_ref().len();
            bytes <= TEXT_ARRAY_BYTES
        });
        let to = from + fits.count().max(1);
        if texts[from].as_ref().len() > i32::MAX as usize {
            return Err(TableError::refused("write", format!("a text of {name:?} is longer than 2 GiB")));
        }
        let array: ArrayRef = Arc::new(StringArray::from_iter_values(&texts[from..to]));
        writer.samples(name, &ids[from..to], Some((column::TEXT, &array)))?;
        from = to;
    }
    Ok(())
}

/// Scalars as an array, bit for bit.
pub(crate) fn scalar_array(scalars: &ScalarBits) -> ArrayRef {
    match scalars {
        ScalarBits::Int(values) => Arc::new(Int64Array::from(values.clone())),
        ScalarBits::Float(bits) => {
            let bits = ArrowBuffer::from_vec(bits.clone());
            Arc::new(Float32Array::new(ScalarBuffer::from(bits), None))
        }
        ScalarBits::Real(bits) => {
            let bits = ArrowBuffer::from_vec(bits.clone());
            Arc::new(Float64Array::new(ScalarBuffer::from(bits), None))
        }
    }
}
