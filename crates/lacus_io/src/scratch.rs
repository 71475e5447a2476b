//! Bytes that are put aside for a while, in one file without a name: it goes with its owner, also if that is killed.
//!
//! ```
//! let scratch = lacus_io::Scratch::below(&std::env::temp_dir());
//! let extent = scratch.put(&[b"put ", b"aside"])?;
//! let mut back = [0; 9];
//! scratch.get(&extent, &mut back)?;
//! assert_eq!(&back, b"put aside");
//! scratch.remove(extent);
//! # Ok::<(), lacus_io::IoError>(())
//! ```

use crate::error::IoError;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Extents begin at a page, as reads and writes past the cache of the system would want it.
const PAGE_BYTES: u64 = 4096;

/// Somewhere to put bytes aside. The file is made when the first come; room is given again when they are removed.
#[derive(Debug)]
pub struct Scratch {
    /// The directory that the caller gave.
    parent: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    file: Option<Arc<File>>,
    space: Space,
}

/// Where bytes were put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    offset: u64,
    length: u64,
}

impl Extent {
    /// Bytes that were put there.
    pub fn length(&self) -> u64 {
        self.length
    }
}

impl Scratch {
    /// In a directory, which has to exist when the first bytes come.
    pub fn below(parent: &Path) -> Scratch {
        Scratch { parent: parent.to_path_buf(), inner: Mutex::default() }
    }

    /// The directory.
    pub fn parent(&self) -> &Path {
        &self.parent
    }

    /// Puts bytes aside, one part after another.
    pub fn put(&self, parts: &[&[u8]]) -> Result<Extent, IoError> {
        let file = self.file()?;
        let length = parts.iter().map(|part| part.len() as u64).sum();
        let extent = Extent { offset: self.lock().space.take(length), length };
        let mut offset = extent.offset;
        for part in parts {
            if let Err(error) = file.write_all_at(part, offset) {
                self.remove(extent);
                return Err(self.failed("write", error));
            }
            offset += part.len() as u64;
        }
        Ok(extent)
    }

    /// Reads the first bytes of what was put somewhere.
    pub fn get(&self, extent: &Extent, to: &mut [u8]) -> Result<(), IoError> {
        self.get_at(extent, 0, to)
    }

    /// Reads bytes of what was put somewhere, from one of them on; as many as there are.
    pub fn get_at(&self, extent: &Extent, from: u64, to: &mut [u8]) -> Result<(), IoError> {
        let left = extent.length.saturating_sub(from);
        let wanted = to.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let file = self.file()?;
        file.read_exact_at(&mut to[..wanted], extent.offset + from).map_err(|e| self.failed("read", e))
    }

    /// Gives the room of what was put somewhere to others.
    pub fn remove(&self, extent: Extent) {
        self.lock().space.give(extent.offset, extent.length);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn failed(&self, op: &'static str, error: io::Error) -> IoError {
        IoError::from_os(op, self.parent.display().to_string(), error)
    }

    fn file(&self) -> Result<Arc<File>, IoError> {
        let mut inner = self.lock();
        if let Some(file) = &inner.file {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(nameless(&self.parent).map_err(|e| self.failed("create", e))?);
        inner.file = Some(Arc::clone(&file));
        Ok(file)
    }
}

/// A file that is in no directory.
fn nameless(parent: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    #[cfg(target_os = "linux")]
    if let Ok(file) = options.clone().custom_flags(libc::O_TMPFILE).open(parent) {
        return Ok(file);
    }
    // Where the file system cannot do that, its name is taken away at once.
    static FILES: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!(".lacus-scratch-{}-{number}", std::process::id()));
        match options.clone().create_new(true).open(&path) {
            Ok(file) => {
                fs::remove_file(&path)?;
                return Ok(file);
            }
            // Of a process of another machine or container.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Which parts of a file are free.
#[derive(Debug, Default)]
struct Space {
    /// Lengths by offset, before the end; no two of them touch.
    free: BTreeMap<u64, u64>,
    end: u64,
}

impl Space {
    /// The first place that is long enough, in whole pages.
    fn take(&mut self, length: u64) -> u64 {
        let length = length.next_multiple_of(PAGE_BYTES);
        let found = self.free.iter().find(|(_, free)| **free >= length).map(|(&at, &free)| (at, free));
        let Some((at, free)) = found else {
            self.end += length;
            return self.end - length;
        };
        self.free.remove(&at);
        if free > length {
            self.free.insert(at + length, free - length);
        }
        at
    }

    fn give(&mut self, mut at: u64, length: u64) {
        let mut length = length.next_multiple_of(PAGE_BYTES);
        if length == 0 {
            return;
        }
        let before = self.free.range(..=at).next_back().map_or(0, |(before, free)| before + free);
        let is_free = before > at || at + length > self.end;
        debug_assert!(!is_free, "given twice");
        if is_free {
            return;
        }
        if let Some((&before, &free)) = self.free.range(..at).next_back()
            && before + free == at
        {
            self.free.remove(&before);
            (at, length) = (before, free + length);
        }
        if let Some(free) = self.free.remove(&(at + length)) {
            length += free;
        }
        if at + length == self.end {
            self.end = at;
        } else {
            self.free.insert(at, length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_put_aside_comes_back(
            steps in prop::collection::vec((0..12usize, 0..20_000usize, any::<u8>()), 1..60),
        ) {
            let directory = tempfile::tempdir().unwrap();
            let scratch = Scratch::below(directory.path());
            let mut there: Vec<(Extent, Vec<u8>)> = Vec::new();
            for (which, length, byte) in steps {
                if which < there.len() {
                    scratch.remove(there.swap_remove(which).0);
                } else {
                    let bytes = vec![byte; length];
                    let (a, b) = bytes.split_at(length / 3);
                    there.push((scratch.put(&[a, b]).unwrap(), bytes));
                }
                for (extent, bytes) in &there {
                    let mut back = vec![!byte; bytes.len()];
                    scratch.get(extent, &mut back).unwrap();
                    prop_assert_eq!(&back, bytes);
                    let middle = bytes.len() / 2;
                    scratch.get_at(extent, middle as u64, &mut back).unwrap();
                    prop_assert_eq!(&back[..bytes.len() - middle], &bytes[middle..]);
                }
            }
            // Nobody sees the file, and all of its room comes back.
            prop_assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
            there.drain(..).for_each(|(extent, _)| scratch.remove(extent));
            prop_assert_eq!(scratch.lock().space.end, 0);
            prop_assert!(scratch.lock().space.free.is_empty());
        }
    }

    #[test]
    fn room_is_used_again() {
        let mut space = Space::default();
        let places = [5000, 1, 4096, 9000].map(|length| space.take(length));
        assert_eq!((places, space.end), ([0, 8192, 12288, 16384], 28672));
        space.give(8192, 1);
        space.give(0, 5000);
        assert_eq!((space.take(12_000), space.end), (0, 28672));
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "text").unwrap();
        for path in [file.join("below"), directory.path().join("missing")] {
            let error = Scratch::below(&path).put(&[b"x"]).unwrap_err();
            assert!(error.to_string().contains(&*path.display().to_string()), "{error}");
            assert!(!path.exists());
        }
    }
}
