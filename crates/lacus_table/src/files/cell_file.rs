//! Writes a Parquet file of COO cells: one row a nonzero, plain columns for any SQL engine.

use std::io::Write;
use std::sync::{Arc, Mutex};

use arrow::array::{
    ArrayRef, AsArray, BinaryArray, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray,
    new_null_array,
};
use arrow::buffer::{Buffer as ArrowBuffer, ScalarBuffer};
use lacus_io::{FileWriter, IoError, Store};
use lacus_layout::{CellColumn, cell_column, crc32c, values_to_floats, values_to_ints, values_to_reals};
use lacus_tensor::SparseTensor;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::file::metadata::KeyValue;

use crate::error::TableError;
use crate::files::checks::{CHECKS_KEY, Check, ZONES_KEY, ZoneRun, digest, render_checks};
use crate::files::chunk_file::{ClosedFile, header_columns};
use crate::files::stats::FileStats;
use crate::log::held::Holding;
use crate::log::snapshot::{FILE_REVISION, FileKind, FileTags, HeaderRow};
use crate::log::zone::Zone;
use crate::schema::{
    CELL_PAGE_ROWS, ROW_AXIS, TEXT_PAGE_BYTES, arrow_schema, column, coordinate_at, writer_properties,
};

/// Rows per row group: about 100 MB of plain columns, a few when encoded.
const ROW_GROUP_ROWS: usize = 2 << 20;

/// Distinct values in a sample above which a dictionary of integers stops paying.
const MANY_VALUES: usize = 1024;

/// A cell file being written. Tensors come sorted by name.
pub(crate) struct CellFileWriter {
    path: String,
    writer: ArrowWriter<Sink>,
    group_rows: usize,
    stats: FileStats,
    holding: Holding,
    checks: Vec<Check>,
    zones: Vec<ZoneRun>,
}

/// Lets the Parquet writer write to a [`FileWriter`], keeping the error it met.
struct Sink {
    out: FileWriter,
    failed: Arc<Mutex<Option<IoError>>>,
    /// What was written since the tail began, once it has.
    tail: Option<Vec<u8>>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Some(tail) = &mut self.tail {
            tail.extend_from_slice(bytes);
        }
        match self.out.append(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(e) => {
                self.failed.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(e);
                Err(std::io::Error::other("the file could not be written"))
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl CellFileWriter {
    /// Starts a file; `sample` decides how integer values are encoded.
    pub(crate) fn create(
        store: &Store,
        path: String,
        sample: Option<&SparseTensor>,
    ) -> Result<Self, TableError> {
        let out = FileWriter::create(store, &path, 0)?;
        let options = ArrowWriterOptions::new()
            .with_properties(writer_properties(true, sample.is_some_and(has_many_values)))
            .with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(
            Sink { out, failed: Arc::default(), tail: None },
            arrow_schema(),
            options,
        )
        .map_err(TableError::parquet(&path))?;
        Ok(CellFileWriter {
            path,
            writer,
            group_rows: 0,
            stats: FileStats::default(),
            holding: Holding::default(),
            checks: Vec::new(),
            zones: Vec::new(),
        })
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.writer.bytes_written() + self.writer.in_progress_size()) as u64
    }

    /// Writes a header row.
    pub(crate) fn header(&mut self, name: &str, header: &HeaderRow) -> Result<(), TableError> {
        self.holding.header(name, header);
        let schema = arrow_schema();
        let mut columns: Vec<ArrayRef> =
            schema.fields().iter().map(|f| new_null_array(f.data_type(), 1)).collect();
        columns[0] = Arc::new(StringArray::from(vec![name]));
        header_columns(&[Some(header.clone())], |column, array| {
            columns[schema.index_of(column).expect("the schema has this column")] = array;
        });
        self.stats.add_name(name, 1);
        let batch = RecordBatch::try_new(schema, columns)
            .map_err(|e| TableError::corrupt(&self.path, e.to_string()))?;
        self.write(&batch)
    }

    /// Writes the cells `from..to` of a tensor.
    pub(crate) fn cells(
        &mut self,
        name: &str,
        tensor: &SparseTensor,
        cancelled: impl Fn() -> bool,
        mut progress: impl FnMut(u64),
    ) -> Result<(), TableError> {
        let item = tensor.dtype().size_bytes();
        let mut from = 0;
        while from < tensor.nnz() {
            if cancelled() {
                return Err(TableError::Cancelled);
            }
            let to = (from + CELL_PAGE_ROWS).min(tensor.nnz());
            let coords: Vec<&[i64]> = (0..tensor.shape().rank()).map(|k| &tensor.axis(k)[from..to]).collect();
            let values = &tensor.values()[from * item..to * item];
            let values = value_array(tensor, values)?;
            self.batch(name, &coords, values)?;
            progress(((to - from) * item) as u64);
            from = to;
        }
        Ok(())
    }

    /// Writes any number of cells, a page at a time.
    pub(crate) fn batches(
        &mut self,
        name: &str,
        coords: &[&[i64]],
        (value_column, values): (&'static str, ArrayRef),
    ) -> Result<(), TableError> {
        for from in (0..values.len()).step_by(CELL_PAGE_ROWS) {
            let rows = CELL_PAGE_ROWS.min(values.len() - from);
            let part: Vec<&[i64]> = coords.iter().map(|axis| &axis[from..from + rows]).collect();
            self.batch(name, &part, (value_column, values.slice(from, rows)))?;
        }
        Ok(())
    }

    /// Writes one page of cells.
    fn batch(
        &mut self,
        name: &str,
        coords: &[&[i64]],
        (value_column, values): (&'static str, ArrayRef),
    ) -> Result<(), TableError> {
        let rows = values.len();
        if rows == 0 {
            return Ok(());
        }
        let crc = digest(coords, Some(&values));
        self.checks.push(Check { first: self.holding.rows(), rows: rows as u64, crc });
        let schema = arrow_schema();
        let mut columns = self.columns(name, rows);
        for (k, axis) in coords.iter().enumerate() {
            let low = axis.iter().copied().min().unwrap_or(0);
            let high = axis.iter().copied().max().unwrap_or(0);
            self.stats.add_range(k, low, high, rows as u64);
            columns[coordinate_at(k)] = Arc::new(Int64Array::from(axis.to_vec()));
        }
        columns[schema.index_of(value_column).expect("the schema has this column")] = values;
        self.holding.add(name, rows as u64, 0);
        let batch = RecordBatch::try_new(schema, columns)
            .map_err(|e| TableError::corrupt(&self.path, e.to_string()))?;
        self.write(&batch)
    }

    /// The columns of rows of one tensor, all null but the name.
    fn columns(&mut self, name: &str, rows: usize) -> Vec<ArrayRef> {
        let schema = arrow_schema();
        let mut columns: Vec<ArrayRef> =
            schema.fields().iter().map(|f| new_null_array(f.data_type(), rows)).collect();
        columns[0] = Arc::new(StringArray::from_iter_values(std::iter::repeat_n(name, rows)));
        self.stats.add_name(name, rows as u64);
        columns
    }

    /// Writes samples that are scalars or texts, with the ids of their rows. The rows of the dataset
    /// itself have no values.
    pub(crate) fn samples(
        &mut self,
        name: &str,
        ids: &[u64],
        values: Option<(&'static str, &ArrayRef)>,
    ) -> Result<(), TableError> {
        let mut from = 0;
        while from < ids.len() {
            let rows = match values {
                Some((column::TEXT, texts)) => text_rows(texts, from),
                _ => CELL_PAGE_ROWS,
            };
            let rows = rows.min(ids.len() - from);
            let part = &ids[from..from + rows];
            let longs: Vec<i64> = part.iter().map(|id| *id as i64).collect();
            let values = values.map(|(column, values)| (column, values.slice(from, rows)));
            let crc = digest(&[&longs], values.as_ref().map(|(_, values)| values));
            self.checks.push(Check { first: self.holding.rows(), rows: rows as u64, crc });
            let schema = arrow_schema();
            let mut columns = self.columns(name, rows);
            columns[1] = Arc::new(Int64Array::from(longs));
            let values = values.map(|(column, values)| {
                columns[schema.index_of(column).expect("the schema has this column")] = Arc::clone(&values);
                values
            });
            self.stats.add_ids(part);
            let first = self.holding.rows();
            self.holding.add_ids(name, part, 0);
            if let Some(values) = values {
                let is_first = self.holding.last().is_some_and(|held| held.row_count() == rows as u64);
                let zone = Zone::of(&values);
                self.holding.add_zone(name, zone.as_ref(), is_first);
                self.zones.extend(zone.map(|zone| (first, rows as u64, zone)));
            }
            let batch = RecordBatch::try_new(schema, columns)
                .map_err(|e| TableError::corrupt(&self.path, e.to_string()))?;
            self.write(&batch)?;
            from += rows;
        }
        Ok(())
    }

    /// Writes rows of the dataset, whose order is their sequence's, then their ids'.
    pub(crate) fn axis(&mut self, ids: &[u64], sequence: u64) -> Result<(), TableError> {
        self.samples(ROW_AXIS, ids, None)?;
        self.holding.add_sequence(ROW_AXIS, sequence, ids.len() as u64);
        Ok(())
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), TableError> {
        let before = self.bytes();
        let result = self.writer.write(batch);
        self.check(result)?;
        self.group_rows += batch.num_rows();
        if self.group_rows >= ROW_GROUP_ROWS {
            let result = self.writer.flush();
            self.check(result)?;
            self.group_rows = 0;
        }
        let written = self.bytes().saturating_sub(before);
        if let Some(held) = self.holding.last() {
            held.bytes += written;
        }
        Ok(())
    }

    fn check<T>(&mut self, result: Result<T, parquet::errors::ParquetError>) -> Result<T, TableError> {
        let failed = Arc::clone(&self.writer.inner_mut().failed);
        result.map_err(|e| cause(&failed, &self.path, e))
    }

    /// Completes the file. Called from a plain thread.
    pub(crate) fn close(mut self) -> Result<ClosedFile, TableError> {
        let result = self.writer.flush();
        self.check(result)?;
        // The columns of cells are shared by all tensors of a file: what each takes is its part of
        // what they take together.
        let total: i64 = self.writer.flushed_row_groups().iter().map(|g| g.compressed_size()).sum();
        let rows: u64 = self.holding.all().iter().map(|held| held.row_count()).sum();
        for held in self.holding.all() {
            let own = held.row_count();
            held.bytes = (total.max(0) as u128 * u128::from(own) / u128::from(rows.max(1))) as u64;
        }
        let checks = KeyValue::new(CHECKS_KEY.to_owned(), render_checks(&self.checks));
        self.writer.append_key_value_metadata(checks);
        if !self.zones.is_empty() {
            let zones = serde_json::to_string(&self.zones).unwrap_or_default();
            self.writer.append_key_value_metadata(KeyValue::new(ZONES_KEY.to_owned(), zones));
        }
        let sink = self.writer.inner_mut();
        let tail = sink.out.offset();
        sink.tail = Some(Vec::new());
        let failed = Arc::clone(&sink.failed);
        let sink = self.writer.into_inner().map_err(|e| cause(&failed, &self.path, e))?;
        let tail_crc = sink.tail.as_deref().map(crc32c);
        let tags = FileTags {
            kind: FileKind::Cells,
            revision: FILE_REVISION,
            tail,
            tail_crc,
            deleted: 0,
            tensors: self.holding.finish(),
        };
        Ok(ClosedFile::new(self.path, sink.out, self.stats, tags))
    }
}

/// How many texts from `from` on fill a page.
fn text_rows(texts: &ArrayRef, from: usize) -> usize {
    let texts = texts.as_string::<i32>();
    let start = texts.value_offsets()[from] as usize;
    let end = texts.value_offsets().partition_point(|at| (*at as usize) < start + TEXT_PAGE_BYTES);
    end.saturating_sub(from).clamp(1, CELL_PAGE_ROWS)
}

/// What really went wrong when the Parquet writer reports an error: the file's failure, if there was one.
fn cause(failed: &Mutex<Option<IoError>>, path: &str, error: parquet::errors::ParquetError) -> TableError {
    match failed.lock().unwrap_or_else(|e| e.into_inner()).take() {
        Some(io) => io.into(),
        None => TableError::parquet(path)(error),
    }
}

/// The column and array that hold the values of cells.
fn value_array(tensor: &SparseTensor, bytes: &[u8]) -> Result<(&'static str, ArrayRef), TableError> {
    let dtype = tensor.dtype();
    Ok(match cell_column(dtype) {
        CellColumn::Int => (column::INT, Arc::new(Int64Array::from(values_to_ints(dtype, bytes)?))),
        CellColumn::Float => {
            // Bits, not numbers: a conversion would quiet signalling NaNs.
            let bits = ArrowBuffer::from_vec(values_to_floats(dtype, bytes)?);
            (column::FLOAT, Arc::new(Float32Array::new(ScalarBuffer::from(bits), None)))
        }
        CellColumn::Real => {
            let bits = ArrowBuffer::from_vec(values_to_reals(dtype, bytes)?);
            (column::REAL, Arc::new(Float64Array::new(ScalarBuffer::from(bits), None)))
        }
        CellColumn::Data => {
            let values = bytes.chunks_exact(dtype.size_bytes());
            (column::DATA, Arc::new(BinaryArray::from_iter_values(values)))
        }
    })
}

/// Whether the values of a tensor are many different ones, judged by a sample.
fn has_many_values(tensor: &SparseTensor) -> bool {
    let item = tensor.dtype().size_bytes();
    let step = (tensor.nnz() / 8192).max(1);
    let sample: std::collections::HashSet<&[u8]> = tensor.values().chunks_exact(item).step_by(step).collect();
    sample.len() > MANY_VALUES
}
