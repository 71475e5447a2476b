//! Writes an array while it is being made: its pieces go to one file as they come.
//!
//! ```text
//! array_writer ── write, write, … ── keep_array: one change of the table
//!                                 └─ dropped: nothing of it stays
//! ```
//!
//! Memory holds the chunks that are being encoded, and a bounded part of those of which some pieces are still missing.
//! The rest of these waits in a file without a name.

use lacus_io::boxed;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use lacus_io::{Extent, Store, World, on_plain_thread};
use lacus_layout::{
    Codec, Compression, Coords, DEFAULT_ZSTD_LEVEL, Header, Layout, Optimize, Scratch, Value, Wish,
    chunk_extent, dense_copy, encoder,
};
use lacus_tensor::{Buffer, DType, Index, Selection, Shape, SparseTensor, TensorRef};
use serde_json::{Value as Json, json};
use tokio::runtime::Handle;

use crate::error::TableError;
use crate::files::chunk_file::{ChunkFileWriter, ClosedFile};
use crate::log::snapshot::HeaderRow;
use crate::table::write::choose_zeros;
use crate::table::{Table, check_metadata, check_name};
use crate::write::commit::{Staged, Supersede};
use crate::write::region::{encode_one, touched_chunks};
use crate::write::stage::{FILE_BYTES, WriteOptions, new_path};
use crate::write::write_set::WriteSet;

/// An array that is being written, of which nobody sees anything yet.
pub struct ArrayWriter {
    name: String,
    header: Header,
    metadata: Option<Json>,
    store: Store,
    world: World,
    runtime: Handle,
    files: Mutex<Files>,
    parts: Mutex<Parts>,
}

#[derive(Default)]
struct Files {
    open: Option<ChunkFileWriter>,
    closed: Vec<ClosedFile>,
    /// Nonzeros that were written, of a sparse array.
    nnz: u64,
}

/// Chunks of which some pieces are missing.
struct Parts {
    all: BTreeMap<Coords, Part>,
    /// Bytes of those in memory, and how many these may be.
    held: usize,
    most: usize,
    aside: lacus_io::Scratch,
}

struct Part {
    /// Elements that are missing.
    missing: u64,
    bytes: Waiting,
}

enum Waiting {
    Here(Buffer),
    Aside(Extent, usize),
}

/// Encoded rows of a sparse array.
pub struct EncodedRows {
    chunks: Vec<(Coords, Codec, u32, Vec<u8>)>,
    nnz: u64,
}

impl Table {
    /// Begins to write a dense array, new or in place of an old one. Chunks whose pieces come one by one may take
    /// `part_bytes` of memory; more than that waits in a file in `aside`.
    #[expect(clippy::too_many_arguments, reason = "what an array is, and where it may wait")]
    #[boxed]
    pub async fn array_writer(
        &mut self,
        name: &str,
        dtype: DType,
        shape: Shape,
        wish: &Wish,
        metadata: Option<Json>,
        part_bytes: usize,
        aside: &Path,
    ) -> Result<ArrayWriter, TableError> {
        let header = choose_zeros(dtype, &shape, wish).map_err(TableError::of_tensor(name))?;
        self.writer_of(name, header, metadata, part_bytes, aside).await
    }

    /// Begins to write a sparse matrix row by row, new or in place of an old one. It is stored as CSR.
    #[boxed]
    pub async fn rows_writer(
        &mut self,
        name: &str,
        dtype: DType,
        shape: Shape,
        optimize: Optimize,
        metadata: Option<Json>,
    ) -> Result<ArrayWriter, TableError> {
        let level = match optimize {
            Optimize::Slices => DEFAULT_ZSTD_LEVEL,
            Optimize::Size => 9,
        };
        let header = Header {
            dtype,
            shape,
            layout: Layout::CompressedRows { split: 1 },
            nnz: Some(0),
            compression: Compression::Zstd { level },
            reasons: vec!["CSR: it was stored row by row while it was computed".to_owned()],
        };
        self.writer_of(name, header, metadata, 0, &std::env::temp_dir()).await
    }

    async fn writer_of(
        &mut self,
        name: &str,
        header: Header,
        metadata: Option<Json>,
        part_bytes: usize,
        aside: &Path,
    ) -> Result<ArrayWriter, TableError> {
        self.writable().await?;
        check_name(name)?;
        check_metadata(metadata.as_ref())?;
        self.refuse_column(name)?;
        Ok(ArrayWriter {
            name: name.to_owned(),
            header,
            metadata,
            store: self.store.clone(),
            world: self.world.clone(),
            runtime: Handle::current(),
            files: Mutex::default(),
            parts: Mutex::new(Parts {
                all: BTreeMap::new(),
                held: 0,
                most: part_bytes,
                aside: lacus_io::Scratch::below(aside),
            }),
        })
    }

    /// Makes what was written a part of the table. Chunks that never came whole are filled up with zeros.
    #[boxed]
    pub async fn keep_array(
        &mut self,
        writer: ArrayWriter,
        options: &WriteOptions,
    ) -> Result<u64, TableError> {
        self.writable().await?;
        let ArrayWriter { name, mut header, metadata, files, .. } = on_plain_thread(|| {
            writer.finish_parts()?;
            Ok::<_, TableError>(writer)
        })?;
        let Files { open, mut closed, nnz } = files.into_inner().unwrap_or_else(|e| e.into_inner());
        if let Some(open) = open {
            closed.push(on_plain_thread(|| open.close())?);
        }
        if header.layout.is_sparse() {
            header.nnz = Some(nnz);
        }
        let row = HeaderRow::new(&header, metadata.as_ref());
        let mut staged = self.stage_headers(vec![(name.clone(), row)], options).await?;
        for file in closed {
            staged.push(file.finish(options.durable).await?);
        }
        let staged = Staged {
            op: "PUT",
            files: staged,
            supersede: vec![Supersede::Tensor(name.clone())],
            writes: WriteSet::whole([name.clone()]),
            detail: json!({"tensors": [name]}),
            data_change: true,
        };
        self.commit(staged, options).await
    }
}

impl ArrayWriter {
    /// Writes a box of a dense array that begins at `starts`. No element may come twice. Call it from any plain thread.
    pub fn write(&self, starts: &[u64], values: TensorRef<'_>) -> Result<(), TableError> {
        let slices: Vec<Index> = starts
            .iter()
            .zip(values.shape().dims())
            .map(|(&start, &count)| Index::Slice {
                start: Some(start as i64),
                stop: Some((start + count) as i64),
                step: None,
            })
            .collect();
        let selection = Selection::resolve(&self.header.shape, &slices)?;
        let own;
        let bytes = match values.contiguous_bytes() {
            Some(bytes) => bytes,
            None => {
                own = values.to_tensor();
                own.bytes()
            }
        };
        let mut scratch = Scratch::new();
        for coords in touched_chunks(&self.header, &selection)? {
            let (_, extent) =
                chunk_extent(&self.header, &coords).map_err(TableError::of_tensor(&self.name))?;
            let length = Shape::new(extent.clone())?.byte_len(self.header.dtype)?;
            let Some(copy) = dense_copy(&self.header, &coords, &selection) else { continue };
            if !copy.covers_box() {
                if let Some(whole) =
                    self.add_part(coords, length, starts, values.shape(), |to| copy.gather(bytes, to))?
                {
                    self.put(coords, &whole, &mut scratch)?;
                }
            } else if length == bytes.len() {
                self.put(coords, bytes, &mut scratch)?;
            } else {
                let mut chunk = Buffer::for_overwrite(length);
                copy.gather(bytes, &mut chunk);
                self.put(coords, &chunk, &mut scratch)?;
            }
        }
        Ok(())
    }

    /// Encodes rows of a sparse matrix: all nonzeros of some of its rows, at their places in the whole matrix.
    pub fn encode_rows(&self, rows: &SparseTensor) -> Result<EncodedRows, TableError> {
        let of_name = || TableError::of_tensor(&self.name);
        let header = Header { nnz: Some(rows.nnz() as u64), ..self.header.clone() };
        let encoder = encoder(&header, Value::Sparse(rows)).map_err(of_name())?;
        let mut scratch = Scratch::new();
        let mut chunks = Vec::with_capacity(encoder.len());
        for i in 0..encoder.len() {
            let chunk = encoder.encode(i, &mut scratch).map_err(of_name())?;
            chunks.push((chunk.coords, chunk.codec, chunk.crc, chunk.bytes.into_owned()));
        }
        Ok(EncodedRows { chunks, nnz: rows.nnz() as u64 })
    }

    /// Writes encoded rows; they come in ascending order. Call it from any plain thread.
    pub fn write_rows(&self, rows: EncodedRows) -> Result<(), TableError> {
        for (coords, codec, crc, bytes) in rows.chunks {
            self.place(coords, codec, crc, &bytes)?;
        }
        self.files().nnz += rows.nnz;
        Ok(())
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Encodes and writes a whole chunk.
    fn put(&self, coords: Coords, bytes: &[u8], scratch: &mut Scratch) -> Result<(), TableError> {
        let placed = encode_one(&self.header, &coords, bytes, scratch, |chunk| {
            // A dense chunk of zeros is not stored: a missing chunk means the same.
            Ok(if chunk.nnz == 0 { Ok(()) } else { self.place(coords, chunk.codec, chunk.crc, &chunk.bytes) })
        });
        placed.map_err(TableError::of_tensor(&self.name))?
    }

    fn place(&self, coords: Coords, codec: Codec, crc: u32, bytes: &[u8]) -> Result<(), TableError> {
        let pending = {
            let _inside = self.runtime.enter();
            let mut files = self.files();
            if files.open.as_ref().is_some_and(|open| open.bytes() >= FILE_BYTES)
                && let Some(full) = files.open.take()
            {
                files.closed.push(full.close()?);
            }
            let open = match &mut files.open {
                Some(open) => open,
                none => none.insert(ChunkFileWriter::create(&self.store, new_path(&self.world), 0)?),
            };
            open.chunk(&self.name, &coords, codec, crc, bytes)?
        };
        pending.map_or(Ok(()), |pending| pending.write(bytes))
    }

    /// Adds a piece to a chunk, and hands it out when it was the last one.
    fn add_part(
        &self,
        coords: Coords,
        length: usize,
        starts: &[u64],
        shape: &Shape,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Option<Buffer>, TableError> {
        let (origin, extent) =
            chunk_extent(&self.header, &coords).map_err(TableError::of_tensor(&self.name))?;
        let shared = |axis: usize| {
            let end = (starts[axis] + shape.dims()[axis]).min(origin[axis] + extent[axis]);
            end - starts[axis].max(origin[axis])
        };
        let count: u64 = (0..origin.len()).map(shared).product();
        let mut parts = self.parts();
        let (mut bytes, missing) = match parts.all.remove(&coords) {
            Some(part) => (parts.bring(part.bytes)?, part.missing),
            None => (Buffer::zeroed(length), extent.iter().product()),
        };
        fill(&mut bytes);
        let missing = missing.saturating_sub(count);
        if missing == 0 {
            return Ok(Some(bytes));
        }
        let bytes = parts.keep(bytes)?;
        parts.all.insert(coords, Part { missing, bytes });
        Ok(None)
    }

    /// Writes chunks that never came whole.
    fn finish_parts(&self) -> Result<(), TableError> {
        let mut scratch = Scratch::new();
        loop {
            let mut parts = self.parts();
            let Some((coords, part)) = parts.all.pop_first() else { return Ok(()) };
            let bytes = parts.bring(part.bytes)?;
            drop(parts);
            self.put(coords, &bytes, &mut scratch)?;
        }
    }
}

impl Parts {
    /// Takes a chunk out, from wherever it waits.
    fn bring(&mut self, waiting: Waiting) -> Result<Buffer, TableError> {
        match waiting {
            Waiting::Here(bytes) => {
                self.held -= bytes.len();
                Ok(bytes)
            }
            Waiting::Aside(extent, length) => {
                let mut bytes = Buffer::for_overwrite(length);
                self.aside.get(&extent, &mut bytes)?;
                self.aside.remove(extent);
                Ok(bytes)
            }
        }
    }

    /// Keeps a chunk in memory, or puts it aside if there is no room for it.
    fn keep(&mut self, bytes: Buffer) -> Result<Waiting, TableError> {
        if self.held + bytes.len() <= self.most {
            self.held += bytes.len();
            return Ok(Waiting::Here(bytes));
        }
        let extent = self.aside.put(&[&bytes])?;
        Ok(Waiting::Aside(extent, bytes.len()))
    }
}
