//! Reads a selection of an array in three steps, so that a caller can overlap them.
//!
//! ```text
//! Selection ─plan→ ArrayRead ─fetch→ FetchedArray ─decode→ Read
//!            sync             async                sync, on the pool; checksums are verified here
//! ```
//!
//! Of an array in coordinate form (COO) cells are decoded by the Parquet reader while they are fetched; its third step only
//! selects.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use lacus_io::{Store, blocking, boxed, read_ranges};
use lacus_layout::{Layout, StoredChunk, read_sparse, verify_crc32c, wanted};
use lacus_tensor::{Buffer, Index, Selection, SparseTensor, Target, Tensor};
use lacus_threads::Pool;

use crate::error::TableError;
use crate::files::page::Page;
use crate::read::arrays::{
    PageTask, Read, Tools, bad_page, cell_runs, damaged, decode_page, foreign_value, grid_chunks, page_tasks,
    place_dense, read_cells, read_dense, team_for,
};
use crate::read::tensor_index::TensorIndex;

/// Reads a selection, whatever the layout: a dense one straight into its place, a sparse one step by step.
pub(crate) async fn read(
    store: &Store,
    pool: &Pool,
    index: &Arc<TensorIndex>,
    selection: Selection,
) -> Result<Read, TableError> {
    if index.header.layout.is_sparse() {
        let fetched = ArrayRead::plan(store, pool, Arc::clone(index), selection)?.fetch().await?;
        return blocking(|| fetched.decode());
    }
    let mut buffer = room_for(index, &selection)?;
    read_dense(store, pool, index, &selection, &mut buffer).await?;
    Ok(Read::Dense(Tensor::new(index.header.dtype, selection.output_shape().clone(), buffer)?))
}

/// A whole tensor as the caller of an update needs it.
pub(crate) async fn read_all_sparse(
    store: &Store,
    pool: &Pool,
    index: &Arc<TensorIndex>,
) -> Result<SparseTensor, TableError> {
    match read(store, pool, index, Selection::all(&index.header.shape)).await? {
        Read::Sparse(tensor) => Ok(tensor),
        Read::Dense(tensor) => Ok(SparseTensor::from_dense(&tensor.as_ref())),
    }
}

/// Memory for a selection of a dense tensor.
fn room_for(index: &TensorIndex, selection: &Selection) -> Result<Buffer, TableError> {
    let (shape, dtype) = (selection.output_shape(), index.header.dtype);
    let room = Buffer::try_for_overwrite(shape.byte_len(dtype)?);
    Ok(room.map_err(|error| error.for_what(format!("{dtype} of shape {shape}")))?)
}

/// Which pages of which files hold a selection.
#[derive(Debug)]
pub struct ArrayRead {
    store: Store,
    pool: Pool,
    index: Arc<TensorIndex>,
    selection: Selection,
    /// Chunks, by number in the index.
    wanted: Vec<usize>,
    tasks: Vec<PageTask>,
}

/// How much of an array is read: a table has a row per chunk, and in coordinate form (COO) a row per cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Rows of the table.
    pub rows: u64,
    /// Their bytes as stored; in coordinate form, as decoded.
    pub bytes: u64,
}

fn amount(index: &TensorIndex, selection: &Selection, wanted: &[usize]) -> Amount {
    if !matches!(index.header.layout, Layout::Coordinates) {
        let bytes = wanted.iter().map(|&i| index.places[i].bytes).sum();
        return Amount { rows: wanted.len() as u64, bytes };
    }
    let runs = cell_runs(index, selection);
    let rows = runs.iter().flat_map(|(_, runs)| runs).map(|(_, count)| *count).sum();
    let width = 8 * index.header.shape.rank() + index.header.dtype.size_bytes();
    Amount { rows, bytes: rows * width as u64 }
}

/// What was fetched of an array.
#[derive(Debug)]
pub struct FetchedArray {
    read: ArrayRead,
    fetched: Fetched,
}

#[derive(Debug)]
enum Fetched {
    /// For each task its page, or where another tool wrote the file, the values of its chunks.
    Pages(Vec<Result<Bytes, Vec<Bytes>>>),
    Cells(SparseTensor),
}

impl ArrayRead {
    pub(crate) fn plan(
        store: &Store,
        pool: &Pool,
        index: Arc<TensorIndex>,
        selection: Selection,
    ) -> Result<ArrayRead, TableError> {
        let is_cells = matches!(index.header.layout, Layout::Coordinates);
        let wanted = if is_cells { Vec::new() } else { wanted(&index.header, &selection, &index.chunks) };
        let tasks = page_tasks(&index, &wanted)?;
        Ok(ArrayRead { store: store.clone(), pool: pool.clone(), index, selection, wanted, tasks })
    }

    /// Stored bytes to fetch, for callers that bound what they hold; 0 where that is not known before.
    pub fn bytes(&self) -> u64 {
        self.tasks.iter().map(|task| u64::from(task.page.bytes)).sum()
    }

    /// Plans to read another part of the same array.
    pub fn of_part(&self, indices: &[Index]) -> Result<ArrayRead, TableError> {
        let selection = Selection::resolve(&self.index.header.shape, indices)?;
        ArrayRead::plan(&self.store, &self.pool, Arc::clone(&self.index), selection)
    }

    /// How much of what is stored this reads.
    pub fn amount(&self) -> Amount {
        amount(&self.index, &self.selection, &self.wanted)
    }

    /// How much another part of the same array would read, without a plan for it.
    pub fn amount_of_part(&self, indices: &[Index]) -> Result<Amount, TableError> {
        let selection = Selection::resolve(&self.index.header.shape, indices)?;
        let wanted = match self.index.header.layout {
            Layout::Coordinates => Vec::new(),
            _ => wanted(&self.index.header, &selection, &self.index.chunks),
        };
        Ok(amount(&self.index, &selection, &wanted))
    }

    /// Reads the pages: one planned read. What is on its way is bounded by the store's budget; what has arrived is the
    /// caller's.
    #[boxed]
    pub async fn fetch(self) -> Result<FetchedArray, TableError> {
        let (store, index) = (&self.store, &self.index);
        if matches!(index.header.layout, Layout::Coordinates) {
            let cells = read_cells(store, index, &self.selection).await?;
            return Ok(FetchedArray { read: self, fetched: Fetched::Cells(cells) });
        }
        let is_plain = |task: &PageTask| index.files[task.file as usize].has_plain_pages();
        let mut ranges = Vec::with_capacity(self.tasks.len());
        for task in self.tasks.iter().filter(|task| is_plain(task)) {
            let end = task.page.offset + u64::from(task.page.bytes);
            ranges.push((task.file as usize, task.page.offset..end));
        }
        let files: Vec<String> = index.files.iter().map(|file| file.path.clone()).collect();
        let memory = |length| {
            Buffer::try_for_overwrite(length).map_err(|e| TableError::from(e.for_what("stored chunks")))
        };
        let mut read = read_ranges(store, &self.pool, &files, &ranges, memory).await?.into_iter();
        let mut pages = Vec::with_capacity(self.tasks.len());
        for task in &self.tasks {
            if is_plain(task) {
                pages.extend(read.next().map(Ok));
                continue;
            }
            let mut values = Vec::with_capacity(task.chunks.len());
            for &(i, _) in &task.chunks {
                values.push(foreign_value(store, index, i).await?);
            }
            pages.push(Err(values));
        }
        Ok(FetchedArray { read: self, fetched: Fetched::Pages(pages) })
    }
}

impl FetchedArray {
    /// The selection. Fails with a corrupt error if a chunk does not have its checksum or cannot be decoded.
    pub fn decode(self) -> Result<Read, TableError> {
        let FetchedArray { read, fetched } = self;
        let pages = match fetched {
            Fetched::Cells(cells) => return Ok(Read::Sparse(cells)),
            Fetched::Pages(pages) => pages,
        };
        if read.index.header.layout.is_sparse() {
            return read.sparse(&pages).map(Read::Sparse);
        }
        let mut buffer = room_for(&read.index, &read.selection)?;
        read.dense(&pages, &mut buffer)?;
        let shape = read.selection.output_shape().clone();
        Ok(Read::Dense(Tensor::new(read.index.header.dtype, shape, buffer)?))
    }
}

type Pages = [Result<Bytes, Vec<Bytes>>];

impl ArrayRead {
    fn dense(&self, pages: &Pages, out: &mut [u8]) -> Result<(), TableError> {
        let (index, selection) = (&*self.index, &self.selection);
        // A chunk that is not stored is zeros.
        if grid_chunks(index) != Some(index.chunks.len() as u64) {
            out.fill(0);
        }
        let target = Target::new(out);
        let failed: Mutex<Option<TableError>> = Mutex::new(None);
        let work = self.tasks.iter().zip(pages).collect();
        let team = team_for(&self.pool, self.bytes());
        team.map_with(work, Tools::default, |(task, page): (&PageTask, _), tools| {
            let locked = || failed.lock().unwrap_or_else(|e| e.into_inner());
            if locked().is_some() {
                return;
            }
            let decoded = match page {
                Ok(page) => decode_page(index, selection, task, page, &target, tools),
                Err(values) => {
                    task.chunks.iter().zip(values).try_for_each(|(&(i, _), value): (_, &Bytes)| {
                        place_dense(index, selection, i, value, &target, tools)
                    })
                }
            };
            if let Err(error) = decoded {
                locked().get_or_insert(error);
            }
        });
        failed.into_inner().unwrap_or_else(|e| e.into_inner()).map_or(Ok(()), Err)
    }

    fn sparse(&self, pages: &Pages) -> Result<SparseTensor, TableError> {
        let index = &*self.index;
        let mut chunks = Vec::with_capacity(self.wanted.len());
        for (task, page) in self.tasks.iter().zip(pages) {
            let parsed =
                page.as_ref().ok().map(|page| Page::parse(page).ok_or_else(|| bad_page(index, task)));
            let parsed = parsed.transpose()?;
            for (at, &(i, within)) in task.chunks.iter().enumerate() {
                let bytes = match (&parsed, page) {
                    (Some(page), _) => page.value(within).ok_or_else(|| bad_page(index, task))?,
                    (None, Err(values)) => &values[at],
                    (None, Ok(_)) => return Err(bad_page(index, task)),
                };
                let coords = index.chunks.coords(i);
                chunks.push((i, StoredChunk { coords, codec: index.places[i].codec, bytes }));
            }
        }
        let total: u64 = chunks.iter().map(|(_, chunk)| chunk.bytes.len() as u64).sum();
        // Packed chunks hold some 30 bytes of result for each byte stored.
        let team = team_for(&self.pool, total * 16);
        let verified = team.map(chunks.iter().collect(), |(i, chunk): &(usize, StoredChunk<'_>)| {
            verify_crc32c(chunk.bytes, index.places[*i].crc).map_err(|e| damaged(index, &chunk.coords, e))
        });
        verified.into_iter().collect::<Result<(), _>>()?;
        let chunks: Vec<StoredChunk<'_>> = chunks.into_iter().map(|(_, chunk)| chunk).collect();
        read_sparse(&index.header, &self.selection, &chunks, team).map_err(TableError::of_tensor(&index.name))
    }
}
