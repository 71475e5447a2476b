//! A Parquet file of record batches, which appears whole or not at all.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::error::ExchangeError;
use crate::exporter::{keep_file, new_file};

/// A row group is closed when it takes this much.
pub(crate) const ROW_GROUP_BYTES: usize = 64 << 20;

/// How all our Parquet files are written.
pub(crate) fn properties() -> WriterProperties {
    let level = ZstdLevel::try_new(1).unwrap_or_default();
    WriterProperties::builder()
        .set_created_by(concat!("lacus ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(level))
        .build()
}

/// A file that is being written. Dropped before [`ParquetFile::finish`], it leaves nothing.
#[derive(Debug)]
pub struct ParquetFile {
    dest: PathBuf,
    file: tempfile::NamedTempFile,
    writer: ArrowWriter<File>,
}

impl ParquetFile {
    /// A file of these columns. Fails if one of them has a type that Parquet does not have.
    pub fn create(dest: &Path, schema: SchemaRef) -> Result<ParquetFile, ExchangeError> {
        let file = new_file(dest)?;
        let out = file.reopen().map_err(ExchangeError::io(dest, "create"))?;
        let writer = ArrowWriter::try_new(out, schema, Some(properties())).map_err(failed(dest))?;
        Ok(ParquetFile { dest: dest.to_owned(), file, writer })
    }

    /// Appends rows.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), ExchangeError> {
        self.writer.write(batch).map_err(failed(&self.dest))?;
        if self.writer.in_progress_size() > ROW_GROUP_BYTES {
            self.writer.flush().map_err(failed(&self.dest))?;
        }
        Ok(())
    }

    /// Gives it its name, over what was there.
    pub fn finish(self) -> Result<(), ExchangeError> {
        let out = self.writer.into_inner().map_err(failed(&self.dest))?;
        out.sync_all().map_err(ExchangeError::io(&self.dest, "write"))?;
        keep_file(self.file, &self.dest)
    }
}

/// What is said when the writer fails.
pub(crate) fn failed(dest: &Path) -> impl Fn(ParquetError) -> ExchangeError + use<> {
    let path = dest.to_owned();
    move |error| match error {
        ParquetError::NYI(why) | ParquetError::ArrowError(why) => {
            ExchangeError::Lacking(format!("{} has no Parquet form: {why}", path.display()))
        }
        error => {
            ExchangeError::Io { path: path.clone(), doing: "write", source: std::io::Error::other(error) }
        }
    }
}
