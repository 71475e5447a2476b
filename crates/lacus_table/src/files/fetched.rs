//! Parts of a file that are in memory, read by the stock Parquet reader as if the file were.

use std::io::{Cursor, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};

/// Pieces of a file, by offset. What is asked for and not there is remembered, so that the caller
/// can fetch it and try again.
#[derive(Clone, Debug)]
pub(crate) struct Fetched {
    file_bytes: u64,
    pieces: Vec<(u64, Bytes)>,
    missed: Arc<Mutex<Option<Range<u64>>>>,
}

impl Fetched {
    pub(crate) fn new(file_bytes: u64) -> Self {
        Fetched { file_bytes, pieces: Vec::new(), missed: Arc::default() }
    }

    pub(crate) fn add(&mut self, offset: u64, bytes: Bytes) {
        self.pieces.push((offset, bytes));
    }

    /// How many bytes there are.
    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// The first range that was asked for in vain since the last call.
    pub(crate) fn take_missed(&self) -> Option<Range<u64>> {
        self.missed.lock().unwrap_or_else(|e| e.into_inner()).take()
    }

    /// Whether all of `range` is in one piece.
    pub(crate) fn holds(&self, range: &Range<u64>) -> bool {
        self.slice(range.start, range.end - range.start).is_some()
    }

    /// The bytes from `start` on, if they are in one piece.
    pub(crate) fn slice(&self, start: u64, length: u64) -> Option<Bytes> {
        self.pieces.iter().find_map(|(offset, bytes)| {
            let from = usize::try_from(start.checked_sub(*offset)?).ok()?;
            let to = from.checked_add(usize::try_from(length).ok()?)?;
            (to <= bytes.len()).then(|| bytes.slice(from..to))
        })
    }

    fn miss(&self, range: Range<u64>) -> ParquetError {
        let message = format!("bytes {}..{} are not in memory", range.start, range.end);
        let inside = range.end <= self.file_bytes;
        if inside {
            self.missed.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(range);
        }
        ParquetError::General(message)
    }
}

impl Length for Fetched {
    fn len(&self) -> u64 {
        self.file_bytes
    }
}

impl ChunkReader for Fetched {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let found = self
            .pieces
            .iter()
            .find(|(offset, bytes)| start >= *offset && start < offset.saturating_add(bytes.len() as u64));
        match found {
            Some((offset, bytes)) => Ok(Box::new(Cursor::new(bytes.slice((start - offset) as usize..)))),
            None => Err(self.miss(start..self.file_bytes)),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        self.slice(start, length as u64).ok_or_else(|| self.miss(start..start.saturating_add(length as u64)))
    }
}
