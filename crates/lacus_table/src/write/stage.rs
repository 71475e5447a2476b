//! Writes the data files of a commit that is yet to be made.
//!
//! ```text
//! jobs (sorted by name) ─encode on all cores, in order→ chunk files   (at most 512 MiB each)
//!                       └─one row a nonzero──────────→ cell files
//! ```
//!
//! Nothing written here is visible: a file counts from the log entry on that names it. When a
//! writer dies, its files stay behind unseen until a clean-up.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use lacus_io::{Store, World, on_plain_thread};
use lacus_layout::{EncodeChunks, EncodedChunk, LayoutError, Scratch};
use lacus_tensor::SparseTensor;
use lacus_threads::Pool;

use crate::error::TableError;
use crate::files::cell_file::CellFileWriter;
use crate::files::chunk_file::{ChunkFileWriter, ClosedFile, StagedFile};
use crate::log::snapshot::HeaderRow;

/// Files are closed at this size: large enough to keep their number low, small enough to move.
pub(crate) const FILE_BYTES: u64 = 512 << 20;

/// How far a long operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the value dealt with.
    pub done_bytes: u64,
    /// Bytes there are.
    pub total_bytes: u64,
}

/// Hears how far an operation is.
pub type ProgressFn = Arc<dyn Fn(Progress) + Send + Sync>;

/// What a write may be told.
#[derive(Clone, Default)]
pub struct WriteOptions {
    /// Makes the write, and everything before it, safe against power loss before it returns.
    pub durable: bool,
    /// Lets the transaction that becomes a commit return before the disk has it. The next commit, or a durable write, makes up for
    /// it.
    pub unsynced: bool,
    /// Who writes; by default the user this process runs as.
    pub author: Option<String>,
    /// Hears of progress.
    pub progress: Option<ProgressFn>,
    /// Set to true from anywhere to stop: nothing is written then.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl std::fmt::Debug for WriteOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteOptions").field("durable", &self.durable).field("author", &self.author).finish()
    }
}

impl WriteOptions {
    pub(crate) fn cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(|c| c.load(Ordering::Relaxed))
    }
}

/// Bytes dealt with so far, told to whoever listens.
pub(crate) struct Meter<'a> {
    options: &'a WriteOptions,
    done: AtomicU64,
    total: u64,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(options: &'a WriteOptions, total: u64) -> Self {
        Meter { options, done: AtomicU64::new(0), total }
    }

    pub(crate) fn add(&self, bytes: u64) {
        let done_bytes = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(progress) = &self.options.progress {
            progress(Progress { done_bytes: done_bytes.min(self.total), total_bytes: self.total });
        }
    }
}

/// A tensor to be written as chunk rows.
pub(crate) struct ChunkJob<'a> {
    pub name: String,
    pub header: Option<HeaderRow>,
    pub encoder: Box<dyn EncodeChunks + 'a>,
    /// Bytes of the value, for progress.
    pub value_bytes: u64,
    /// Bytes it will take in the file when that is known beforehand, else 0.
    pub expected_bytes: u64,
}

/// A tensor to be written as cells.
pub(crate) struct CellJob<'a> {
    pub name: String,
    pub header: HeaderRow,
    pub tensor: &'a SparseTensor,
}

/// Writes chunk rows, encoding on all cores, and returns the files.
pub(crate) async fn write_chunks(
    store: &Store,
    world: &World,
    mut jobs: Vec<ChunkJob<'_>>,
    options: &WriteOptions,
    meter: &Meter<'_>,
) -> Result<Vec<StagedFile>, TableError> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    jobs.sort_by(|a, b| a.name.cmp(&b.name));
    let expected: u64 = jobs.iter().map(|j| j.expected_bytes).sum();
    let mut roller = Roller { store, world, open: None, closed: Vec::new(), expected };
    let result = on_plain_thread(|| {
        let runtime = tokio::runtime::Handle::current();
        for job in &jobs {
            if let Some(header) = &job.header {
                roller.writer()?.header(&job.name, header)?;
            }
            roller = encode_in_order(&runtime, world.pool(), roller, job, options, meter)?;
        }
        roller.finish()
    });
    let mut staged = Vec::new();
    for file in result? {
        staged.push(file.finish(options.durable).await?);
    }
    Ok(staged)
}

/// Opens files, and closes them when they are large enough.
struct Roller<'a> {
    store: &'a Store,
    world: &'a World,
    open: Option<ChunkFileWriter>,
    closed: Vec<ClosedFile>,
    expected: u64,
}

/// The path of a new data file.
pub(crate) fn new_path(world: &World) -> String {
    format!("data/{}.parquet", world.uuid())
}

impl Roller<'_> {
    fn writer(&mut self) -> Result<&mut ChunkFileWriter, TableError> {
        if self.open.as_ref().is_some_and(|w| w.bytes() >= FILE_BYTES) {
            self.close()?;
        }
        if self.open.is_none() {
            // Room for the blobs and their page headers; what is too much is given back.
            let ahead = match self.expected {
                0 => 0,
                bytes => bytes.min(FILE_BYTES) + (1 << 16),
            };
            self.open = Some(ChunkFileWriter::create(self.store, new_path(self.world), ahead)?);
        }
        Ok(self.open.as_mut().expect("just opened"))
    }

    fn close(&mut self) -> Result<(), TableError> {
        if let Some(writer) = self.open.take() {
            self.expected = self.expected.saturating_sub(writer.bytes());
            self.closed.push(writer.close()?);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<ClosedFile>, TableError> {
        self.close()?;
        Ok(self.closed)
    }
}

/// Encodes the chunks of one job on several threads; they enter the file in order.
fn encode_in_order<'r>(
    runtime: &tokio::runtime::Handle,
    pool: &Pool,
    roller: Roller<'r>,
    job: &ChunkJob<'_>,
    options: &WriteOptions,
    meter: &Meter<'_>,
) -> Result<Roller<'r>, TableError> {
    let count = job.encoder.len();
    let per_chunk = job.value_bytes.checked_div(count as u64).unwrap_or(0);
    let team = crate::read::arrays::team_for(pool, job.value_bytes).at_most(count);
    struct Turn<'r> {
        next: usize,
        roller: Roller<'r>,
        failed: Option<TableError>,
    }
    let turn = Mutex::new(Turn { next: 0, roller, failed: None });
    let moved = Condvar::new();
    let disk = Mutex::new(());
    let next = AtomicUsize::new(0);
    let one = |i: usize, scratch: &mut Scratch| -> Result<bool, TableError> {
        if options.cancelled() {
            return Err(TableError::Cancelled);
        }
        let chunk = job.encoder.encode(i, scratch).map_err(TableError::of_tensor(&job.name))?;
        let mut turn = turn.lock().unwrap_or_else(|e| e.into_inner());
        while turn.next != i && turn.failed.is_none() {
            turn = moved.wait(turn).unwrap_or_else(|e| e.into_inner());
        }
        if turn.failed.is_some() {
            return Ok(false);
        }
        // A dense chunk of zeros is not stored: a missing chunk means the same.
        let pending = if chunk.nnz == 0 {
            None
        } else {
            let writer = turn.roller.writer()?;
            writer.chunk(&job.name, &chunk.coords, chunk.codec, chunk.crc, &chunk.bytes)?
        };
        turn.next = i + 1;
        drop(turn);
        moved.notify_all();
        if let Some(pending) = pending {
            // The kernel lets one writer into a file at a time; a second would only spin at the gate.
            let _alone = disk.lock().unwrap_or_else(|e| e.into_inner());
            pending.write(&chunk.bytes)?;
        }
        meter.add(per_chunk);
        Ok(true)
    };
    let work = || {
        let _inside = runtime.enter();
        let mut scratch = Scratch::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count {
                return;
            }
            // A thread that panics must not leave the others waiting for its turn.
            let caught = catch_unwind(AssertUnwindSafe(|| one(i, &mut scratch)));
            let what = || format!("encoding chunk {i} of tensor {:?} panicked", job.name);
            match caught.unwrap_or_else(|_| Err(TableError::Fault { what: what() })) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    let mut turn = turn.lock().unwrap_or_else(|e| e.into_inner());
                    turn.failed.get_or_insert(error);
                    drop(turn);
                    moved.notify_all();
                    return;
                }
            }
        }
    };
    team.run(&work);
    let turn = turn.into_inner().unwrap_or_else(|e| e.into_inner());
    match turn.failed {
        Some(error) => Err(error),
        None => Ok(turn.roller),
    }
}

/// Writes cells and returns the files.
pub(crate) async fn write_cells(
    store: &Store,
    world: &World,
    mut jobs: Vec<CellJob<'_>>,
    options: &WriteOptions,
    meter: &Meter<'_>,
) -> Result<Vec<StagedFile>, TableError> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    jobs.sort_by(|a, b| a.name.cmp(&b.name));
    let closed = on_plain_thread(|| {
        let mut closed = Vec::new();
        let mut open: Option<CellFileWriter> = None;
        for job in &jobs {
            if open.as_ref().is_some_and(|w| w.bytes() >= FILE_BYTES) {
                closed.extend(open.take().map(CellFileWriter::close).transpose()?);
            }
            let writer = match &mut open {
                Some(writer) => writer,
                None => open.insert(CellFileWriter::create(store, new_path(world), Some(job.tensor))?),
            };
            writer.header(&job.name, &job.header)?;
            writer.cells(&job.name, job.tensor, || options.cancelled(), |bytes| meter.add(bytes))?;
        }
        closed.extend(open.map(CellFileWriter::close).transpose()?);
        Ok::<_, TableError>(closed)
    })?;
    let mut staged = Vec::new();
    for file in closed {
        staged.push(file.finish(options.durable).await?);
    }
    Ok(staged)
}

/// Chunks that are encoded already, to be stored as they are.
pub(crate) struct Ready {
    pub chunks: Vec<(lacus_layout::Coords, lacus_layout::Codec, u32, bytes::Bytes)>,
}

impl EncodeChunks for Ready {
    fn len(&self) -> usize {
        self.chunks.len()
    }

    fn encode<'a>(&'a self, i: usize, _: &'a mut Scratch) -> Result<EncodedChunk<'a>, LayoutError> {
        let (coords, codec, crc, bytes) = &self.chunks[i];
        let bytes = std::borrow::Cow::Borrowed(&bytes[..]);
        Ok(EncodedChunk { coords: *coords, codec: *codec, crc: *crc, bytes, nnz: 1 })
    }
}
