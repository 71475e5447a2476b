//! Reads a selection of a tensor: which pages, fetch them, decode them into place.
//!
//! ```text
//! Selection ─wanted→ chunks ─pages→ tasks ─read_pieces→ the result, straight where a chunk is stored as it is
//! ```

use std::ops::Range;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Float32Type, Float64Type, Int64Type};
use bytes::Bytes;
use lacus_io::{Pieces, ReadStraight, Store, blocking, fetch, read_pieces, requests_for};
use lacus_layout::{
    CellColumn, Codec, Coords, Scratch, cell_column, chunk_extent, decode_dense, dense_copy,
    floats_to_values, ints_to_values, reals_to_values, verify_crc32c, wanted,
};
use lacus_tensor::{Buffer, Selection, SparseTensor, Target, Tensor};
use lacus_threads::{Pool, Team};

use crate::error::TableError;
use crate::files::chunk_file::PAGE_BYTES;
use crate::files::file_index::DataPage;
use crate::files::page::{Page, is_start_of_single};
use crate::read::cells;
use crate::read::tensor_index::{Place, TensorIndex};
use crate::schema::{column, coordinate};

/// What a read gives: a dense tensor for dense layouts, a sparse one for sparse layouts.
#[derive(Debug)]
pub enum Read {
    /// Every element.
    Dense(Tensor),
    /// The nonzeros.
    Sparse(SparseTensor),
}

/// The most bytes a page of ours has in front of its only value.
const MAX_PAGE_START: usize = 256;

/// Below this many bytes a second thread costs more than it brings.
const BYTES_PER_THREAD: u64 = 512 << 10;

/// Reads a selection of a dense tensor into the caller's memory, which has exactly its size.
pub(crate) async fn read_dense(
    store: &Store,
    pool: &Pool,
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
    let is_plain = |task: &PageTask| index.files[task.file as usize].has_plain_pages();
    let mut tools = Tools::default();
    for task in tasks.iter().filter(|task| !is_plain(task)) {
        foreign(store, index, selection, task, &target, &mut tools).await?;
    }
    let tasks: Vec<&PageTask> = tasks.iter().filter(|task| is_plain(task)).collect();
    let files: Vec<String> = index.files.iter().map(|file| file.path.clone()).collect();
    let dense = DensePages { index, selection, tasks: &tasks, target: &target };
    read_pieces(store, pool, &files, &ranges_of(&tasks), &dense).await
}

/// File and range of pages.
fn ranges_of(tasks: &[&PageTask]) -> Vec<(usize, Range<u64>)> {
    let range = |page: &DataPage| page.offset..page.offset + u64::from(page.bytes);
    tasks.iter().map(|task| (task.file as usize, range(&task.page))).collect()
}

/// How many chunks the grid of a dense tensor has.
pub(crate) fn grid_chunks(index: &TensorIndex) -> Option<u64> {
    let sides = index.header.chunk_shape()?;
    let dims = index.header.shape.dims();
    dims.iter().zip(sides).try_fold(1u64, |n, (&dim, &side)| n.checked_mul(dim.div_ceil(side.max(1))))
}

/// The threads worth using for work on so many bytes.
pub(crate) fn team_for(pool: &Pool, bytes: u64) -> Team<'_> {
    pool.team(usize::try_from(bytes / BYTES_PER_THREAD).unwrap_or(usize::MAX))
}

/// A page to read, and the chunks wanted from it.
#[derive(Debug)]
pub(crate) struct PageTask {
    pub file: u32,
    pub page: DataPage,
    /// Chunks (by number in the index) and their rows in the page.
    pub chunks: Vec<(usize, u32)>,
}

pub(crate) fn page_tasks(index: &TensorIndex, wanted: &[usize]) -> Result<Vec<PageTask>, TableError> {
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

/// Memory one thread uses again and again.
#[derive(Default)]
pub(crate) struct Tools {
    chunk: Vec<u8>,
    scratch: Scratch,
}

/// Pages of a dense tensor, on their way into the result.
struct DensePages<'a> {
    index: &'a TensorIndex,
    selection: &'a Selection,
    tasks: &'a [&'a PageTask],
    target: &'a Target<'a>,
}

impl Pieces for DensePages<'_> {
    type Tools = Tools;
    type Error = TableError;

    /// One raw chunk that lands in one piece is read straight to where it belongs.
    fn straight(&self, piece: usize, read: &mut ReadStraight<'_>) -> Result<bool, TableError> {
        let (index, task) = (self.index, self.tasks[piece]);
        let [(i, within)] = task.chunks[..] else { return Ok(false) };
        let place = &index.places[i];
        let coords = index.chunks.coords(i);
        let bytes = task.page.bytes as usize;
        let start = bytes.checked_sub(place.bytes as usize).filter(|start| *start <= MAX_PAGE_START);
        let run = dense_copy(&index.header, &coords, self.selection).and_then(|copy| copy.whole_run());
        let (Codec::Raw, Some(start), Some(run)) = (place.codec, start, run) else { return Ok(false) };
        // Smaller chunks share pages.
        if run.len() as u64 != place.bytes || run.len() < PAGE_BYTES {
            return Ok(false);
        }
        let mut head = [0; MAX_PAGE_START];
        // SAFETY: distinct chunks land in distinct parts of the result, and each chunk is read by one thread.
        let body = unsafe { self.target.slice_mut(run) };
        read(&mut head[..start], body)?;
        if !is_start_of_single(&head[..start], within, body.len()) {
            return Err(bad_page(index, task));
        }
        verify_crc32c(body, place.crc).map_err(|e| damaged(index, &coords, e))?;
        Ok(true)
    }

    fn take(&self, piece: usize, bytes: &[u8], tools: &mut Tools) -> Result<(), TableError> {
        decode_page(self.index, self.selection, self.tasks[piece], bytes, self.target, tools)
    }
}

pub(crate) fn bad_page(index: &TensorIndex, task: &PageTask) -> TableError {
    let path = &index.files[task.file as usize].path;
    TableError::corrupt(path, format!("the page at byte {} is damaged", task.page.offset))
}

pub(crate) fn damaged(index: &TensorIndex, coords: &Coords, source: lacus_layout::LayoutError) -> TableError {
    TableError::Layout { tensor: Some(format!("{} chunk {coords:?}", index.name)), source }
}

/// Decodes the wanted chunks of one page into their places.
pub(crate) fn decode_page(
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

pub(crate) fn place_dense(
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
        // SAFETY: as in `DensePages::straight`.
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

pub(crate) async fn foreign_value(store: &Store, index: &TensorIndex, i: usize) -> Result<Bytes, TableError> {
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
    let requests = requests_for(store, &ranges_of(&by_hand));
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

/// The runs of COO cells that a selection may have, by file: pages are pruned by the statistics of each coordinate.
pub(crate) fn cell_runs(index: &TensorIndex, selection: &Selection) -> Vec<(u32, Vec<(u64, u64)>)> {
    let Some(bounds) = selection.bounding_box() else { return Vec::new() };
    if selection.is_all() {
        return index.cells.clone();
    }
    let coordinates: Vec<String> = (0..bounds.len()).map(coordinate).collect();
    let long = |v: u64| i64::try_from(v).unwrap_or(i64::MAX);
    let pruned = index.cells.iter().map(|(number, runs)| {
        let file = &index.files[*number as usize];
        let bounded = coordinates.iter().zip(&bounds);
        let runs = bounded.fold(runs.clone(), |runs, (name, &(low, high))| {
            file.prune(&runs, name, (long(low), long(high)))
        });
        (*number, runs)
    });
    pruned.filter(|(_, runs)| !runs.is_empty()).collect()
}

/// Reads COO cells: pages pruned by the statistics of each coordinate, then exact selection.
pub(crate) async fn read_cells(
    store: &Store,
    index: &TensorIndex,
    selection: &Selection,
) -> Result<SparseTensor, TableError> {
    let header = &index.header;
    let rank = header.shape.rank();
    let everything = selection.is_all();
    let mut axes: Vec<Vec<i64>> = vec![Vec::new(); rank];
    let mut values: Vec<u8> = Vec::new();
    for (number, runs) in cell_runs(index, selection) {
        let file = &index.files[number as usize];
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
