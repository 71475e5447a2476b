//! Reads a selection of a tensor: which pages, fetch them, decode them into place.
//!
//! ```text
//! Selection ─wanted→ chunks ─pages→ tasks ─┬ directory: threads read pages straight into the result
//!                                          └ object store: merged requests, many in flight
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Float32Type, Float64Type, Int64Type};
use bytes::Bytes;
use lacus_io::{LocalRoot, Store, blocking, coalesce, fetch};
use lacus_layout::{
    CellColumn, Codec, Coords, Layout, Scratch, StoredChunk, cell_column, chunk_extent, decode_dense,
    dense_copy, floats_to_values, ints_to_values, read_sparse, reals_to_values, verify_crc32c, wanted,
};
use lacus_tensor::{Buffer, Selection, SparseTensor, Target, Tensor};

use crate::cells;
use crate::chunk_file::PAGE_BYTES;
use crate::error::TableError;
use crate::file_index::DataPage;
use crate::page::{Page, is_start_of_single};
use crate::schema::{column, coordinate};
use crate::tensor_index::{Place, TensorIndex};

/// What a read gives: a dense tensor for dense layouts, a sparse one for sparse layouts.
#[derive(Debug)]
pub enum Read {
    /// Every element.
    Dense(Tensor),
    /// The nonzeros.
    Sparse(SparseTensor),
}

/// Gaps up to this are read through on an object store rather than asked for separately.
const GAP_BYTES: u64 = 128 << 10;

/// The largest request made by merging.
const MAX_REQUEST_BYTES: u64 = 8 << 20;

/// The most bytes a page of ours has in front of its only value.
const MAX_PAGE_START: usize = 256;

/// Below this many bytes a second thread costs more than it brings.
const BYTES_PER_THREAD: u64 = 512 << 10;

/// Reads a selection, whatever the layout.
pub(crate) async fn read(
    store: &Store,
    index: &TensorIndex,
    selection: &Selection,
) -> Result<Read, TableError> {
    if !index.header.layout.is_sparse() {
        let shape = selection.output_shape();
        let dtype = index.header.dtype;
        let mut buffer = Buffer::try_for_overwrite(shape.byte_len(dtype)?)
            .map_err(|error| error.for_what(format!("{dtype} of shape {shape}")))?;
        read_dense(store, index, selection, &mut buffer).await?;
        return Ok(Read::Dense(Tensor::new(index.header.dtype, shape.clone(), buffer)?));
    }
    if matches!(index.header.layout, Layout::Coordinates) {
        return Ok(Read::Sparse(read_cells(store, index, selection).await?));
    }
    let rows = wanted(&index.header, selection, &index.chunks);
    let stored = read_stored(store, index, &rows).await?;
    let chunks: Vec<StoredChunk<'_>> = rows
        .iter()
        .zip(&stored)
        .map(|(&i, bytes)| StoredChunk {
            coords: index.chunks.coords(i),
            codec: index.places[i].codec,
            bytes,
        })
        .collect();
    let total: u64 = stored.iter().map(|b| b.len() as u64).sum();
    // Packed chunks hold some 30 bytes of result for each byte stored.
    let threads = threads_for(total * 16);
    blocking(|| read_sparse(&index.header, selection, &chunks, threads))
        .map(Read::Sparse)
        .map_err(TableError::of_tensor(&index.name))
}

/// Reads a selection of a dense tensor into the caller's memory, which has exactly its size.
pub(crate) async fn read_dense(
    store: &Store,
    index: &TensorIndex,
    selection: &Selection,
    out: &mut [u8],
) -> Result<(), TableError> {
    let wanted = wanted(&index.header, selection, &index.chunks);
    // A chunk that is not stored is zeros.
    if grid_chunks(index) != Some(index.chunks.len() as u64) {
        blocking(|| out.fill(0));
    }
    let tasks = page_tasks(index, &wanted)?;
    let target = Target::new(out);
    let plain = index.files.iter().all(|f| f.has_plain_pages());
    match store.local().filter(|_| plain) {
        Some(local) => blocking(|| read_local(local, index, selection, &tasks, &target)),
        None => read_remote(store, index, selection, &tasks, &target).await,
    }
}

/// How many chunks the grid of a dense tensor has.
fn grid_chunks(index: &TensorIndex) -> Option<u64> {
    let sides = index.header.chunk_shape()?;
    let dims = index.header.shape.dims();
    dims.iter().zip(sides).try_fold(1u64, |n, (&dim, &side)| n.checked_mul(dim.div_ceil(side.max(1))))
}

pub(crate) fn threads_for(bytes: u64) -> usize {
    // Asking opens several files, which costs more than a small read.
    static CORES: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
    usize::try_from(bytes / BYTES_PER_THREAD).unwrap_or(usize::MAX).clamp(1, *CORES)
}

/// A page to read, and the chunks wanted from it.
struct PageTask {
    file: u32,
    page: DataPage,
    /// Chunks (by number in the index) and their rows in the page.
    chunks: Vec<(usize, u32)>,
}

fn page_tasks(index: &TensorIndex, wanted: &[usize]) -> Result<Vec<PageTask>, TableError> {
    let mut tasks: Vec<PageTask> = Vec::with_capacity(wanted.len());
    for &i in wanted {
        let Place { file, row, .. } = index.places[i];
        let known = &index.files[file as usize];
        if !known.has_plain_pages() {
            // Read by the book, so where its page lies does not matter.
            let page = DataPage { first_row: row, offset: 0, bytes: 0 };
            tasks.push(PageTask { file, page, chunks: vec![(i, 0)] });
            continue;
        }
        let (page, within) = known
            .data_page(row)
            .ok_or_else(|| TableError::corrupt(&known.path, format!("row {row} has no data page")))?;
        match tasks.last_mut() {
            Some(task) if task.file == file && task.page == page => task.chunks.push((i, within)),
            _ => tasks.push(PageTask { file, page, chunks: vec![(i, within)] }),
        }
    }
    Ok(tasks)
}

fn read_local(
    local: &LocalRoot,
    index: &TensorIndex,
    selection: &Selection,
    tasks: &[PageTask],
    target: &Target<'_>,
) -> Result<(), TableError> {
    let total: u64 = tasks.iter().map(|t| u64::from(t.page.bytes)).sum();
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<TableError>> = Mutex::new(None);
    let work = || {
        let mut tools = Tools::default();
        loop {
            let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            if let Err(error) = read_page(local, index, selection, task, target, &mut tools) {
                next.store(tasks.len(), Ordering::Relaxed);
                failed.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(error);
                return;
            }
        }
    };
    let threads = threads_for(total).min(tasks.len().max(1));
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    match failed.into_inner().unwrap_or_else(|e| e.into_inner()) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Memory one thread uses again and again.
#[derive(Default)]
struct Tools {
    page: Vec<u8>,
    chunk: Vec<u8>,
    scratch: Scratch,
}

fn read_page(
    local: &LocalRoot,
    index: &TensorIndex,
    selection: &Selection,
    task: &PageTask,
    target: &Target<'_>,
    tools: &mut Tools,
) -> Result<(), TableError> {
    let known = &index.files[task.file as usize];
    let file = local.file(&known.path)?;
    let bytes = task.page.bytes as usize;
    // One raw chunk that lands in one piece is read straight to where it belongs.
    if let [(i, within)] = task.chunks[..] {
        let place = &index.places[i];
        let coords = index.chunks.coords(i);
        let start = bytes.checked_sub(place.bytes as usize).filter(|start| *start <= MAX_PAGE_START);
        let run = dense_copy(&index.header, &coords, selection).and_then(|copy| copy.whole_run());
        if let (Codec::Raw, Some(start), Some(run)) = (place.codec, start, run)
            && run.len() as u64 == place.bytes
            // Smaller chunks share pages.
            && run.len() >= PAGE_BYTES
            && known.has_plain_pages()
        {
            let mut head = [0; MAX_PAGE_START];
            // SAFETY: distinct chunks land in distinct parts of the result, and each chunk is read
            // by one thread.
            let body = unsafe { target.slice_mut(run) };
            local.read_at(&file, &known.path, task.page.offset, &mut head[..start], body)?;
            if !is_start_of_single(&head[..start], within, body.len()) {
                return Err(bad_page(index, task));
            }
            return verify_crc32c(body, place.crc).map_err(|e| damaged(index, &coords, e));
        }
    }
    tools.page.resize(bytes, 0);
    local.read_at(&file, &known.path, task.page.offset, &mut [], &mut tools.page)?;
    let page = std::mem::take(&mut tools.page);
    let result = decode_page(index, selection, task, &page, target, tools);
    tools.page = page;
    result
}

fn bad_page(index: &TensorIndex, task: &PageTask) -> TableError {
    let path = &index.files[task.file as usize].path;
    TableError::corrupt(path, format!("the page at byte {} is damaged", task.page.offset))
}

fn damaged(index: &TensorIndex, coords: &Coords, source: lacus_layout::LayoutError) -> TableError {
    TableError::Layout { tensor: Some(format!("{} chunk {coords:?}", index.name)), source }
}

/// Decodes the wanted chunks of one page into their places.
fn decode_page(
    index: &TensorIndex,
    selection: &Selection,
    task: &PageTask,
    bytes: &[u8],
    target: &Target<'_>,
    tools: &mut Tools,
) -> Result<(), TableError> {
    let page = Page::parse(bytes).ok_or_else(|| bad_page(index, task))?;
    for &(i, within) in &task.chunks {
        let value = page.value(within).ok_or_else(|| bad_page(index, task))?;
        place_dense(index, selection, i, value, target, tools)?;
    }
    Ok(())
}

fn place_dense(
    index: &TensorIndex,
    selection: &Selection,
    i: usize,
    value: &[u8],
    target: &Target<'_>,
    tools: &mut Tools,
) -> Result<(), TableError> {
    let header = &index.header;
    let coords = index.chunks.coords(i);
    let place = &index.places[i];
    verify_crc32c(value, place.crc).map_err(|e| damaged(index, &coords, e))?;
    let Some(copy) = dense_copy(header, &coords, selection) else { return Ok(()) };
    if let Some(run) = copy.whole_run() {
        // SAFETY: as in `read_page`.
        let body = unsafe { target.slice_mut(run) };
        return decode_dense(header, &coords, place.codec, value, body, &mut tools.scratch)
            .map_err(|e| damaged(index, &coords, e));
    }
    let length = chunk_bytes(index, &coords)?;
    if place.codec == Codec::Raw && value.len() == length {
        copy.scatter(value, target)?;
        return Ok(());
    }
    tools.chunk.resize(length, 0);
    decode_dense(header, &coords, place.codec, value, &mut tools.chunk, &mut tools.scratch)
        .map_err(|e| damaged(index, &coords, e))?;
    copy.scatter(&tools.chunk, target)?;
    Ok(())
}

/// The decoded size of a dense chunk.
pub(crate) fn chunk_bytes(index: &TensorIndex, coords: &Coords) -> Result<usize, TableError> {
    let (_, extent) = chunk_extent(&index.header, coords).map_err(TableError::of_tensor(&index.name))?;
    let length = extent
        .iter()
        .try_fold(index.header.dtype.size_bytes() as u64, |n, &e| n.checked_mul(e))
        .and_then(|n| usize::try_from(n).ok());
    length.ok_or_else(|| TableError::corrupt(&index.name, "a chunk is larger than memory"))
}

async fn read_remote(
    store: &Store,
    index: &TensorIndex,
    selection: &Selection,
    tasks: &[PageTask],
    target: &Target<'_>,
) -> Result<(), TableError> {
    let mut by_hand = Vec::new();
    let mut tools = Tools::default();
    for task in tasks {
        if index.files[task.file as usize].has_plain_pages() {
            by_hand.push(task);
        } else {
            foreign(store, index, selection, task, target, &mut tools).await?;
        }
    }
    let ranges: Vec<_> = by_hand
        .iter()
        .map(|t| (t.file as usize, t.page.offset..t.page.offset + u64::from(t.page.bytes)))
        .collect();
    let requests = coalesce(&ranges, GAP_BYTES, MAX_REQUEST_BYTES);
    let files: Vec<String> = index.files.iter().map(|f| f.path.clone()).collect();
    fetch(store, &files, &requests, |r, bytes: Bytes| {
        blocking(|| {
            for part in &requests[r].parts {
                decode_page(
                    index,
                    selection,
                    by_hand[part.wanted],
                    &bytes[part.within.clone()],
                    target,
                    &mut tools,
                )?;
            }
            Ok(())
        })
    })
    .await
}

/// Chunks of a file that another tool wrote, read by the book.
async fn foreign(
    store: &Store,
    index: &TensorIndex,
    selection: &Selection,
    task: &PageTask,
    target: &Target<'_>,
    tools: &mut Tools,
) -> Result<(), TableError> {
    for &(i, _) in &task.chunks {
        let value = foreign_value(store, index, i).await?;
        place_dense(index, selection, i, &value, target, tools)?;
    }
    Ok(())
}

async fn foreign_value(store: &Store, index: &TensorIndex, i: usize) -> Result<Bytes, TableError> {
    let place = &index.places[i];
    let file = &index.files[place.file as usize];
    let batch = file.columns(store, &[(place.row, 1)], &[column::DATA]).await?;
    let data = batch.column_by_name(column::DATA).and_then(|c| c.as_binary_opt::<i32>());
    match data.filter(|d| d.len() == 1 && d.is_valid(0)) {
        Some(data) => Ok(Bytes::copy_from_slice(data.value(0))),
        None => Err(TableError::corrupt(&file.path, format!("row {} has no data", place.row))),
    }
}

/// The stored bytes of chunks, verified, in the order asked for.
pub(crate) async fn read_stored(
    store: &Store,
    index: &TensorIndex,
    wanted: &[usize],
) -> Result<Vec<Bytes>, TableError> {
    let tasks = page_tasks(index, wanted)?;
    let mut found: Vec<Bytes> = vec![Bytes::new(); wanted.len()];
    let position: std::collections::HashMap<usize, usize> =
        wanted.iter().enumerate().map(|(at, &i)| (i, at)).collect();
    let mut by_hand: Vec<&PageTask> = Vec::new();
    for task in &tasks {
        if index.files[task.file as usize].has_plain_pages() {
            by_hand.push(task);
            continue;
        }
        for &(i, _) in &task.chunks {
            found[position[&i]] = foreign_value(store, index, i).await?;
        }
    }
    let ranges: Vec<_> = by_hand
        .iter()
        .map(|t| (t.file as usize, t.page.offset..t.page.offset + u64::from(t.page.bytes)))
        .collect();
    let gap = if store.local().is_some() { 4 << 10 } else { GAP_BYTES };
    let requests = coalesce(&ranges, gap, MAX_REQUEST_BYTES);
    let files: Vec<String> = index.files.iter().map(|f| f.path.clone()).collect();
    fetch(store, &files, &requests, |r, bytes: Bytes| {
        for part in &requests[r].parts {
            let task = by_hand[part.wanted];
            let page_bytes = bytes.slice(part.within.clone());
            let page = Page::parse(&page_bytes).ok_or_else(|| bad_page(index, task))?;
            for &(i, within) in &task.chunks {
                let value = page.value(within).ok_or_else(|| bad_page(index, task))?;
                found[position[&i]] = page_bytes.slice_ref(value);
            }
        }
        Ok::<_, TableError>(())
    })
    .await?;
    for (&i, bytes) in wanted.iter().zip(&found) {
        verify_crc32c(bytes, index.places[i].crc).map_err(|e| damaged(index, &index.chunks.coords(i), e))?;
    }
    Ok(found)
}

/// Reads COO cells: pages pruned by the statistics of each coordinate, then exact selection.
async fn read_cells(
    store: &Store,
    index: &TensorIndex,
    selection: &Selection,
) -> Result<SparseTensor, TableError> {
    let header = &index.header;
    let rank = header.shape.rank();
    let everything = selection.is_all();
    let coordinates: Vec<String> = (0..rank).map(coordinate).collect();
    let bounds = selection.bounding_box();
    let mut axes: Vec<Vec<i64>> = vec![Vec::new(); rank];
    let mut values: Vec<u8> = Vec::new();
    for (number, runs) in &index.cells {
        let Some(bounds) = &bounds else { break };
        let file = &index.files[*number as usize];
        let mut runs = runs.clone();
        if !everything {
            for (k, &(low, high)) in bounds.iter().enumerate() {
                let long = |v: u64| i64::try_from(v).unwrap_or(i64::MAX);
                runs = file.prune(&runs, &coordinates[k], (long(low), long(high)));
            }
        }
        if runs.is_empty() {
            continue;
        }
        let cells = cells::read_cells(store, file, header, &runs).await?;
        for (axis, found) in axes.iter_mut().zip(cells.axes()) {
            axis.extend_from_slice(found);
        }
        let (_, array) = cells.values();
        let bad = || TableError::corrupt(&file.path, "cells: values of another type");
        let decoded = match cell_column(header.dtype) {
            CellColumn::Int => {
                let ints = array.as_primitive_opt::<Int64Type>().ok_or_else(bad)?;
                ints_to_values(header.dtype, ints.values())
            }
            CellColumn::Float => {
                let floats = array.as_primitive_opt::<Float32Type>().ok_or_else(bad)?;
                let bits: Vec<u32> = floats.values().iter().map(|v| v.to_bits()).collect();
                floats_to_values(header.dtype, &bits)
            }
            CellColumn::Real => {
                let reals = array.as_primitive_opt::<Float64Type>().ok_or_else(bad)?;
                let bits: Vec<u64> = reals.values().iter().map(|v| v.to_bits()).collect();
                reals_to_values(header.dtype, &bits)
            }
            CellColumn::Data => {
                let data = array.as_binary_opt::<i32>().ok_or_else(bad)?;
                Ok(data.iter().flatten().flatten().copied().collect())
            }
        };
        values.extend_from_slice(&decoded.map_err(TableError::of_tensor(&index.name))?);
    }
    blocking(|| {
        let coords: Vec<i64> = axes.concat();
        let tensor = SparseTensor::new(
            header.dtype,
            header.shape.clone(),
            Buffer::from_elements(&coords),
            Buffer::from_slice(&values),
            lacus_tensor::Duplicates::Refuse,
        )
        .map_err(|e| TableError::corrupt(&index.name, format!("stored cells are not sound: {e}")))?;
        Ok(if everything { tensor } else { tensor.select(selection) })
    })
}

/// A whole tensor as the caller of an update needs it.
pub(crate) async fn read_all_sparse(store: &Store, index: &TensorIndex) -> Result<SparseTensor, TableError> {
    let selection = Selection::all(&index.header.shape);
    match read(store, index, &selection).await? {
        Read::Sparse(tensor) => Ok(tensor),
        Read::Dense(tensor) => Ok(SparseTensor::from_dense(&tensor.as_ref())),
    }
}
