//! A pack as a directory of tantivy's, read block by block.
//!
//! tantivy reads where it is asked to search, and cannot wait. So a search is tried; where bytes are missing it fails and says which;
//! these are fetched, and it is tried again. Blocks are kept, and a search that needs the same ones again fetches nothing.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use tantivy::HasLen;
use tantivy::directory::error::{DeleteError, OpenReadError, OpenWriteError};
use tantivy::directory::{Directory, FileHandle, OwnedBytes, WatchCallback, WatchHandle, WritePtr};

/// Bytes that are fetched together at least. Postings of a word are some KiB, the dictionary some hundred.
pub(crate) const BLOCK_BYTES: u64 = 256 << 10;

/// The bytes of a pack, as far as they were fetched.
pub(crate) struct Blocks {
    length: u64,
    files: HashMap<PathBuf, Range<u64>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By number.
    fetched: HashMap<u64, Arc<[u8]>>,
    missing: BTreeSet<u64>,
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks").field("length", &self.length).finish_non_exhaustive()
    }
}

impl Blocks {
    /// None fetched yet, of a pack of `length` bytes with these files.
    pub(crate) fn new(length: u64, files: HashMap<PathBuf, Range<u64>>) -> Blocks {
        Blocks { length, files, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The ranges that a search missed since this was asked last.
    pub(crate) fn take_missing(&self) -> Vec<Range<u64>> {
        let missing = std::mem::take(&mut self.state().missing);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for block in missing {
            let range = block * BLOCK_BYTES..((block + 1) * BLOCK_BYTES).min(self.length);
            match ranges.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        ranges
    }

    /// Whether a search missed something.
    pub(crate) fn is_missing(&self) -> bool {
        !self.state().missing.is_empty()
    }

    /// Keeps what was fetched: a range that [`Blocks::take_missing`] gave.
    pub(crate) fn keep(&self, range: &Range<u64>, bytes: &[u8]) {
        let mut state = self.state();
        for (block, bytes) in (range.start / BLOCK_BYTES..).zip(bytes.chunks(BLOCK_BYTES as usize)) {
            state.fetched.insert(block, bytes.into());
        }
    }

    /// Bytes that are kept.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.state().fetched.values().map(|block| block.len() as u64).sum()
    }

    fn read(&self, range: Range<u64>) -> io::Result<OwnedBytes> {
        if range.start >= range.end {
            return Ok(OwnedBytes::empty());
        }
        let mut state = self.state();
        let blocks = range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
        let missing: Vec<u64> = blocks.clone().filter(|block| !state.fetched.contains_key(block)).collect();
        if !missing.is_empty() {
            state.missing.extend(missing);
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "bytes are not fetched yet"));
        }
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        for block in blocks {
            let Some(kept) = state.fetched.get(&block) else { continue };
            let first = block * BLOCK_BYTES;
            let from = range.start.saturating_sub(first).min(kept.len() as u64) as usize;
            let to = (range.end - first).min(kept.len() as u64) as usize;
            bytes.extend_from_slice(&kept[from..to]);
        }
        Ok(OwnedBytes::new(bytes))
    }
}

/// A file in a pack.
struct File {
    blocks: Arc<Blocks>,
    range: Range<u64>,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("range", &self.range).finish_non_exhaustive()
    }
}

impl HasLen for File {
    fn len(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }
}

impl FileHandle for File {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        let (start, end) = (self.range.start + range.start as u64, self.range.start + range.end as u64);
        if end > self.range.end {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a read past the end of a file"));
        }
        self.blocks.read(start..end)
    }
}

/// The directory that a pack is.
#[derive(Clone, Debug)]
pub(crate) struct PackDirectory(pub Arc<Blocks>);

impl PackDirectory {
    fn file(&self, path: &Path) -> Result<File, OpenReadError> {
        let range = self.0.files.get(path).cloned();
        let range = range.ok_or_else(|| OpenReadError::FileDoesNotExist(path.to_owned()))?;
        Ok(File { blocks: Arc::clone(&self.0), range })
    }
}

fn read_only() -> io::Error {
    io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "segments are never changed")
}

impl Directory for PackDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        Ok(Arc::new(self.file(path)?))
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        Ok(self.0.files.contains_key(path))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        let file = self.file(path)?;
        let bytes = file.read_bytes(0..file.len());
        let bytes = bytes.map_err(|error| OpenReadError::wrap_io_error(error, path.to_owned()))?;
        Ok(bytes.to_vec())
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        Err(DeleteError::IoError { io_error: Arc::new(read_only()), filepath: path.to_owned() })
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        Err(OpenWriteError::wrap_io_error(read_only(), path.to_owned()))
    }

    fn atomic_write(&self, _: &Path, _: &[u8]) -> io::Result<()> {
        Err(read_only())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn watch(&self, _: WatchCallback) -> tantivy::Result<WatchHandle> {
        Ok(WatchHandle::empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_fetched_once() {
        let bytes: Vec<u8> = (0..BLOCK_BYTES * 3 + 7).map(|at| (at % 251) as u8).collect();
        let length = bytes.len() as u64;
        let path = PathBuf::from("a.term");
        let blocks = Arc::new(Blocks::new(length, HashMap::from([(path.clone(), 5..length)])));
        let directory = PackDirectory(Arc::clone(&blocks));
        let file = directory.get_file_handle(&path).unwrap();
        let range = (BLOCK_BYTES as usize - 10)..(BLOCK_BYTES as usize + 10);
        assert_eq!(file.read_bytes(range.clone()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let missing = blocks.take_missing();
        assert_eq!(missing, [0..BLOCK_BYTES * 2]);
        for range in &missing {
            blocks.keep(range, &bytes[range.start as usize..range.end as usize]);
        }
        assert_eq!(&file.read_bytes(range.clone()).unwrap()[..], &bytes[range.start + 5..range.end + 5]);
        assert!(blocks.take_missing().is_empty());
        assert_eq!(blocks.kept_bytes(), 2 * BLOCK_BYTES);
        // The last block is short.
        assert!(file.read_bytes(file.len() - 1..file.len()).is_err());
        assert_eq!(blocks.take_missing(), [3 * BLOCK_BYTES..length]);
        assert!(file.read_bytes(0..file.len() + 1).is_err());
    }
}
