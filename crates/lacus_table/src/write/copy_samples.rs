//! Copies live samples and rows of the dataset into new files, in the order of rows.

use std::borrow::Cow;
use std::sync::Arc;

use lacus_io::{Store, World, on_plain_thread};
use lacus_layout::Coords;

use crate::error::TableError;
use crate::files::cell_file::CellFileWriter;
use crate::files::chunk_file::{BlobRow, ChunkFileWriter, StagedFile};
use crate::log::held::extend_run;
use crate::log::snapshot::{HeaderRow, Snapshot};
use crate::read::row_index::{ColumnIndex, RowAxis, RowCache};
use crate::read::samples::{SampleCache, Samples};
use crate::read::tensor_index::Cache;
use crate::read::value_column::ValueColumn;
use crate::schema::ROW_AXIS;
use crate::write::stage::{FILE_BYTES, WriteOptions, new_path};
use crate::write::stage_rows::{scalar_array, write_texts};

/// Stored bytes read at a time, rows of scalars, and texts.
const GROUP_BYTES: u64 = 16 << 20;
const GROUP_ROWS: usize = 64 << 10;
const GROUP_TEXTS: usize = 4 << 10;

/// Where rows are copied from.
pub(crate) struct Origin<'a> {
    pub store: &'a Store,
    pub cache: &'a Arc<Cache>,
    pub snapshot: &'a Snapshot,
    /// The rows of the dataset there; the snapshot says them where this does not.
    pub axis: Option<Arc<RowAxis>>,
}

/// What to copy of one column, or of the rows of the dataset.
pub(crate) struct CopiedColumn {
    pub name: String,
    pub new_name: String,
    pub header: Option<HeaderRow>,
    /// Copies only rows in these files; `None` for all.
    pub only: Option<Vec<String>>,
}

/// Copies columns, sorted by their new names.
pub(crate) async fn copy_samples(
    origin: &Origin<'_>,
    to: &Store,
    world: &World,
    mut columns: Vec<CopiedColumn>,
    options: &WriteOptions,
) -> Result<Vec<StagedFile>, TableError> {
    columns.sort_by(|a, b| a.new_name.cmp(&b.new_name));
    let Origin { store, cache, snapshot, .. } = *origin;
    let rows = RowCache::new(Arc::clone(cache));
    let samples = SampleCache::new(Arc::clone(cache));
    let axis = match &origin.axis {
        Some(axis) => Arc::clone(axis),
        None => rows.axis(store, snapshot).await?,
    };
    let mut cells: Option<CellFileWriter> = None;
    let mut chunks: Option<ChunkFileWriter> = None;
    let mut closed = Vec::new();
    for copied in &columns {
        if options.cancelled() {
            return Err(TableError::Cancelled);
        }
        let name = &copied.new_name;
        if copied.name == ROW_AXIS {
            let index = rows.axis_index(store, snapshot).await?;
            let runs = axis_runs(&axis, &index, copied);
            cells = on_plain_thread(|| {
                let mut writer = opened(to, world, cells)?;
                for (sequence, ids) in runs {
                    writer.axis(&ids, sequence)?;
                }
                Ok::<_, TableError>(Some(writer))
            })?;
            continue;
        }
        let index = rows.column(store, snapshot, &copied.name).await?;
        let places = in_order(&axis, &index, copied);
        let form = ValueColumn::of(&index.header)?;
        if form == ValueColumn::Data {
            chunks = on_plain_thread(|| {
                let mut writer = match chunks {
                    Some(writer) => writer,
                    None => ChunkFileWriter::create(to, new_path(world), 0)?,
                };
                if let Some(header) = &copied.header {
                    writer.header(name, header)?;
                }
                Ok::<_, TableError>(Some(writer))
            })?;
            let mut at = 0;
            while at < places.len() {
                if options.cancelled() {
                    return Err(TableError::Cancelled);
                }
                if let Some(full) = chunks.take_if(|writer| writer.bytes() >= FILE_BYTES) {
                    closed.push(on_plain_thread(|| full.close())?);
                }
                let (group, next) =
                    Samples::group(&samples.base, store, &index, &places, at, GROUP_BYTES).await?;
                let all: Vec<usize> = (0..next - at).collect();
                let bytes = group.fetch(store, world.pool(), &all).await?;
                let ids = &places[at..next];
                chunks = on_plain_thread(|| {
                    let mut writer = match chunks {
                        Some(writer) => writer,
                        None => ChunkFileWriter::create(to, new_path(world), 0)?,
                    };
                    for (tile, (&(id, ..), bytes)) in ids.iter().zip(&bytes).enumerate() {
                        let (coords, codec, _) = group.tile(tile);
                        let row = BlobRow {
                            tile: Coords::new(&coords).unwrap_or_default(),
                            codec: Cow::Owned(codec.to_owned()),
                            crc: group.crc(tile),
                            shape: group.tile_shape(tile),
                            bytes: Cow::Borrowed(bytes),
                        };
                        if let Some(pending) = writer.sample(name, id, &row)? {
                            pending.write(bytes)?;
                        }
                    }
                    Ok::<_, TableError>(Some(writer))
                })?;
                at = next;
            }
            continue;
        }
        cells = on_plain_thread(|| {
            let mut writer = opened(to, world, cells)?;
            if let Some(header) = &copied.header {
                writer.header(name, header)?;
            }
            Ok::<_, TableError>(Some(writer))
        })?;
        let rows = if form == ValueColumn::Text { GROUP_TEXTS } else { GROUP_ROWS };
        for group in places.chunks(rows) {
            if options.cancelled() {
                return Err(TableError::Cancelled);
            }
            let ids: Vec<u64> = group.iter().map(|(id, ..)| *id).collect();
            cells = match form {
                ValueColumn::Int | ValueColumn::Float | ValueColumn::Real => {
                    let mut runs = Vec::new();
                    ids.iter().for_each(|id| extend_run(&mut runs, *id, 1));
                    let read = samples.scalars(store, &index, &runs).await?;
                    let values = scalar_array(&read.values);
                    on_plain_thread(|| {
                        let mut writer = opened(to, world, cells)?;
                        writer.samples(name, &ids, Some((form.name(), &values)))?;
                        Ok::<_, TableError>(Some(writer))
                    })?
                }
                ValueColumn::Text | ValueColumn::Data => {
                    let texts = samples.texts(store, &index, &ids).await?;
                    let texts: Vec<String> = texts.into_iter().map(Option::unwrap_or_default).collect();
                    on_plain_thread(|| {
                        let mut writer = opened(to, world, cells)?;
                        write_texts(&mut writer, name, &ids, &texts)?;
                        Ok::<_, TableError>(Some(writer))
                    })?
                }
            };
            if let Some(full) = cells.take_if(|writer| writer.bytes() >= FILE_BYTES) {
                closed.push(on_plain_thread(|| full.close())?);
            }
        }
    }
    if let Some(writer) = cells {
        closed.push(on_plain_thread(|| writer.close())?);
    }
    if let Some(writer) = chunks {
        closed.push(on_plain_thread(|| writer.close())?);
    }
    let mut files = Vec::with_capacity(closed.len());
    for file in closed {
        files.push(file.finish(options.durable).await?);
    }
    Ok(files)
}

fn opened(store: &Store, world: &World, cells: Option<CellFileWriter>) -> Result<CellFileWriter, TableError> {
    match cells {
        Some(writer) => Ok(writer),
        None => CellFileWriter::create(store, new_path(world), None),
    }
}

/// Which of the files of a column are copied.
fn wanted_files(copied: &CopiedColumn, index: &ColumnIndex) -> Vec<bool> {
    let only: Option<std::collections::HashSet<&str>> =
        copied.only.as_ref().map(|paths| paths.iter().map(String::as_str).collect());
    index.files.iter().map(|file| only.as_ref().is_none_or(|only| only.contains(file.path()))).collect()
}

/// The wanted samples (id, file, row) of one run of rows.
fn in_run(
    index: &ColumnIndex,
    wanted: &[bool],
    (first, count): (u64, u64),
    mut take: impl FnMut(u64, u32, u64),
) {
    let start = index.segments.partition_point(|s| s.first_id + s.count <= first);
    let overlapping = index.segments[start..].iter().take_while(|s| s.first_id < first + count);
    for segment in overlapping.filter(|s| wanted[s.file as usize]) {
        let from = segment.first_id.max(first);
        let to = (segment.first_id + segment.count).min(first + count);
        (from..to).for_each(|id| take(id, segment.file, segment.first_row + (id - segment.first_id)));
    }
}

/// The wanted samples (id, file, row) in the order of rows. A sample whose row is gone is left behind.
fn in_order(axis: &RowAxis, index: &ColumnIndex, copied: &CopiedColumn) -> Vec<(u64, u32, u64)> {
    let wanted = wanted_files(copied, index);
    let mut places = Vec::new();
    for &(_, first, count) in axis.runs() {
        in_run(index, &wanted, (first, count), |id, file, row| places.push((id, file, row)));
    }
    places
}

/// The wanted rows of the dataset in their order, with sequences that keep it: rows whose ids ascend
/// share one.
fn axis_runs(axis: &RowAxis, index: &ColumnIndex, copied: &CopiedColumn) -> Vec<(u64, Vec<u64>)> {
    let wanted = wanted_files(copied, index);
    let mut runs: Vec<(u64, Vec<u64>)> = Vec::new();
    // Rows that stay where they are keep their place between others by their sequence.
    let all = wanted.iter().all(|wanted| *wanted);
    for &(sequence, first, count) in axis.runs() {
        let mut ids = Vec::new();
        in_run(index, &wanted, (first, count), |id, _, _| ids.push(id));
        let Some(&next) = ids.first() else { continue };
        match runs.last_mut() {
            Some((_, before)) if all && before.last().is_some_and(|last| *last < next) => before.extend(ids),
            _ => runs.push((sequence, ids)),
        }
    }
    runs
}
