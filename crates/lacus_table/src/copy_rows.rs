//! Copies live rows into new files, without decoding a chunk: for compaction, small rewrites and
//! renames.

use std::collections::BTreeMap;
use std::sync::Arc;

use lacus_io::{Store, World};
use lacus_layout::Layout;

use crate::cell_file::CellFileWriter;
use crate::cells::read_cells;
use crate::checks::pieces;
use crate::chunk_file::StagedFile;
use crate::error::TableError;
use crate::read::read_stored;
use crate::schema::DATASET_ROW;
use crate::snapshot::{HeaderRow, Snapshot};
use crate::stage::{ChunkJob, Meter, Ready, WriteOptions, new_path, on_plain_thread, write_chunks};
use crate::tensor_index::{Cache, TensorIndex};

/// Stored bytes held in memory at a time while copying.
const COPY_BYTES: u64 = 64 << 20;

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
    cache: &Cache,
    snapshot: &Snapshot,
    tensors: &[Copied],
    options: &WriteOptions,
) -> Result<Vec<StagedFile>, TableError> {
    let mut chunked: BTreeMap<&str, (&Copied, Option<Arc<TensorIndex>>)> = BTreeMap::new();
    let mut celled: BTreeMap<&str, (&Copied, Arc<TensorIndex>)> = BTreeMap::new();
    for copied in tensors {
        if copied.name == DATASET_ROW {
            chunked.insert(&copied.new_name, (copied, None));
            continue;
        }
        let index = cache.tensor(store, snapshot, &copied.name).await?;
        if matches!(index.header.layout, Layout::Coordinates) {
            celled.insert(&copied.new_name, (copied, index));
        } else {
            chunked.insert(&copied.new_name, (copied, Some(index)));
        }
    }
    let mut files = copy_chunks(store, world, chunked, options).await?;
    files.extend(copy_cells(store, world, celled, options).await?);
    Ok(files)
}

fn is_wanted(copied: &Copied, path: &str) -> bool {
    copied.only.as_ref().is_none_or(|paths| paths.iter().any(|p| p == path))
}

async fn copy_chunks(
    store: &Store,
    world: &World,
    tensors: BTreeMap<&str, (&Copied, Option<Arc<TensorIndex>>)>,
    options: &WriteOptions,
) -> Result<Vec<StagedFile>, TableError> {
    let meter = Meter::new(options, 0);
    let mut files = Vec::new();
    let mut jobs: Vec<ChunkJob<'static>> = Vec::new();
    let mut held = 0;
    for (new_name, (copied, index)) in tensors {
        let mut header = copied.header.clone();
        let wanted: Vec<usize> = match &index {
            Some(index) => (0..index.places.len())
                .filter(|&i| is_wanted(copied, &index.files[index.places[i].file as usize].path))
                .collect(),
            None => Vec::new(),
        };
        let mut from = 0;
        // At least once, for the header row of a tensor without chunks.
        while from < wanted.len() || header.is_some() {
            let mut to = from;
            while let Some(index) = index.as_ref().filter(|_| to < wanted.len() && held < COPY_BYTES) {
                held += index.places[wanted[to]].bytes;
                to += 1;
            }
            let mut chunks = Vec::with_capacity(to - from);
            if let Some(index) = &index {
                let stored = read_stored(store, index, &wanted[from..to]).await?;
                for (&i, bytes) in wanted[from..to].iter().zip(stored) {
                    let place = &index.places[i];
                    chunks.push((index.chunks.coords(i), place.codec, place.crc, bytes));
                }
            }
            jobs.push(ChunkJob {
                name: new_name.to_owned(),
                header: header.take(),
                encoder: Box::new(Ready { chunks }),
                value_bytes: held,
                expected_bytes: 0,
            });
            from = to;
            if held >= COPY_BYTES {
                files.extend(write_chunks(store, world, std::mem::take(&mut jobs), options, &meter).await?);
                held = 0;
            }
        }
    }
    files.extend(write_chunks(store, world, jobs, options, &meter).await?);
    Ok(files)
}

async fn copy_cells(
    store: &Store,
    world: &World,
    tensors: BTreeMap<&str, (&Copied, Arc<TensorIndex>)>,
    options: &WriteOptions,
) -> Result<Vec<StagedFile>, TableError> {
    if tensors.is_empty() {
        return Ok(Vec::new());
    }
    let mut writer = CellFileWriter::create(store, new_path(world), None)?;
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
                let cells = read_cells(store, file, &index.header, &[piece]).await?;
                writer = on_plain_thread(|| {
                    writer.batches(new_name, &cells.axes(), cells.values()).map(|()| writer)
                })?;
            }
        }
    }
    let closed = on_plain_thread(|| writer.close())?;
    Ok(vec![closed.finish(options.durable).await?])
}
