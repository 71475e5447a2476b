//! A dataset on the local file system: positioned reads and writes on open files.
//!
//! Data files never change once written, so an open descriptor stays right for as long as it is
//! kept. A bounded number of them is kept open, because opening costs as much as a small read.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lacus_threads::Pool;

use crate::climb::climb;
use crate::error::IoError;
use crate::layers::counting::Counts;

/// Open files kept per store: enough for a compacted dataset, far below common descriptor limits.
const MAX_OPEN_FILES: usize = 128;

/// A directory on this machine, with the data files in it that are open.
#[derive(Debug)]
pub(crate) struct LocalRoot {
    path: PathBuf,
    /// How far paths may climb out of it.
    climbs: usize,
    open: Mutex<OpenFiles>,
    counts: Arc<Counts>,
}

/// Open files, and when each was last asked for, counted in questions.
#[derive(Debug, Default)]
struct OpenFiles {
    files: HashMap<String, (Arc<File>, u64)>,
    now: u64,
}

impl LocalRoot {
    pub(crate) fn new(path: PathBuf, climbs: usize, counts: Arc<Counts>) -> Self {
        LocalRoot { path, climbs, open: Mutex::default(), counts }
    }

    /// The same directory, with no file open.
    pub(crate) fn again(&self) -> LocalRoot {
        LocalRoot::new(self.path.clone(), self.climbs, Arc::clone(&self.counts))
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The open file at `path` (relative to the root).
    pub(crate) fn file(&self, path: &str) -> Result<Arc<File>, IoError> {
        let mut open = self.open.lock().unwrap_or_else(|e| e.into_inner());
        open.now += 1;
        let now = open.now;
        if let Some((file, used)) = open.files.get_mut(path) {
            *used = now;
            return Ok(Arc::clone(file));
        }
        let file = File::open(self.full(path)?).map_err(|e| IoError::from_os("open", path, e))?;
        if open.files.len() >= MAX_OPEN_FILES {
            let oldest = open.files.values().map(|(_, used)| *used).min();
            open.files.retain(|_, (_, used)| Some(*used) != oldest);
        }
        let file = Arc::new(file);
        open.files.insert(path.to_owned(), (Arc::clone(&file), now));
        Ok(file)
    }

    /// When a file was last changed or got another name, in milliseconds since 1970: a hard link has the time of
    /// what it links to, but the system notes when it was made.
    pub(crate) fn changed_millis(&self, path: &str) -> Result<i64, IoError> {
        let found = fs::metadata(self.full(path)?).map_err(|e| IoError::from_os("look", path, e))?;
        Ok(found.ctime().max(found.mtime()) * 1000 + 999)
    }

    /// The whole path of a file, which may climb as far as this root allows.
    fn full(&self, path: &str) -> Result<PathBuf, IoError> {
        let (up, rest) = climb(path, self.climbs)?;
        let above = self.path.ancestors().nth(up).unwrap_or(&self.path);
        Ok(above.join(rest))
    }

    /// Makes `to` a second name of the file `from`; where the file system has none, a copy.
    pub(crate) fn link(&self, from: &str, to: &str) -> Result<(), IoError> {
        let (from_full, to_full) = (self.full(from)?, self.full(to)?);
        let failed = |e| IoError::from_os("copy", from, e);
        if let Some(parent) = to_full.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        match fs::hard_link(&from_full, &to_full) {
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => {
                Err(failed(e))
            }
            Err(_) => {
                self.counts.add_write(fs::metadata(&from_full).map_or(0, |m| m.len()));
                fs::copy(&from_full, &to_full).map(|_| ()).map_err(failed)
            }
            Ok(()) => {
                self.counts.add_write(0);
                Ok(())
            }
        }
    }

    /// Reads exactly `head.len() + body.len()` bytes at `offset`: one system call, two buffers, so
    /// that a page's header and its payload land in different places without a copy.
    pub(crate) fn read_at(
        &self,
        file: &File,
        path: &str,
        offset: u64,
        head: &mut [u8],
        body: &mut [u8],
    ) -> Result<(), IoError> {
        let total = head.len() + body.len();
        let parts = [
            libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: head.len() },
            libc::iovec { iov_base: body.as_mut_ptr().cast(), iov_len: body.len() },
        ];
        let offset_signed = i64::try_from(offset).unwrap_or(i64::MAX);
        // SAFETY: both buffers are exclusively borrowed for the length given, and the descriptor
        // is open for as long as `file` is borrowed.
        let read = unsafe { libc::preadv(file.as_raw_fd(), parts.as_ptr(), 2, offset_signed) };
        let read = match usize::try_from(read) {
            Ok(read) => read,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(IoError::from_os("read", path, error));
                }
                0
            }
        };
        self.counts.add_read(total as u64);
        // A short read is finished piece by piece.
        if read < head.len() {
            file.read_exact_at(&mut head[read..], offset + read as u64)
                .map_err(|e| IoError::from_os("read", path, e))?;
        }
        let in_body = read.saturating_sub(head.len());
        if in_body < body.len() {
            let at = offset + (total - body.len() + in_body) as u64;
            file.read_exact_at(&mut body[in_body..], at).map_err(|e| IoError::from_os("read", path, e))?;
        }
        Ok(())
    }

    pub(crate) fn create(&self, path: &str, expected_bytes: u64) -> Result<File, IoError> {
        let full = self.path.join(path);
        let open = || OpenOptions::new().write(true).read(true).create_new(true).open(&full);
        let file = match open() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if let Some(parent) = full.parent() {
                    fs::create_dir_all(parent).map_err(|e| IoError::from_os("create directory", path, e))?;
                }
                open()
            }
            other => other,
        }
        .map_err(|e| IoError::from_os("create", path, e))?;
        if expected_bytes > 0 {
            let expected = i64::try_from(expected_bytes).unwrap_or(i64::MAX);
            // SAFETY: the descriptor is open; the call touches no memory of ours.
            let code = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, expected) };
            // Preallocation takes 0.69 of the time of growing the file write by write, and finds a
            // full disk before anything is written. A file system that cannot do it says so, and
            // the file then grows as it is written.
            let error = io::Error::last_os_error();
            let full_codes = [libc::ENOSPC, libc::EDQUOT, libc::EFBIG];
            if code != 0 && error.raw_os_error().is_some_and(|c| full_codes.contains(&c)) {
                drop(file);
                let _ = fs::remove_file(&full);
                return Err(IoError::from_os("allocate", path, error));
            }
        }
        Ok(file)
    }

    pub(crate) fn write_at(&self, file: &File, path: &str, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.counts.add_write(bytes.len() as u64);
        file.write_all_at(bytes, offset).map_err(|e| IoError::from_os("write", path, e))
    }

    pub(crate) fn remove(&self, path: &str) {
        let _ = fs::remove_file(self.path.join(path));
    }

    /// Puts a small file in place of an old one. Readers see one or the other; a power loss may leave either, or an empty
    /// file.
    pub(crate) fn replace(&self, path: &str, bytes: &[u8]) -> Result<(), IoError> {
        let failed = |e| IoError::from_os("write", path, e);
        let full = self.path.join(path);
        let beside = full.with_extension(format!("{}.new", std::process::id()));
        if let Some(parent) = full.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        fs::write(&beside, bytes).map_err(failed)?;
        fs::rename(&beside, &full).map_err(failed)
    }

    /// Makes the named files and the directories they are in safe against power loss, each once and several at a time.
    pub(crate) fn sync(&self, paths: &[String]) -> Result<(), IoError> {
        let mut wanted: BTreeSet<PathBuf> = BTreeSet::new();
        for path in paths {
            let full = self.full(path)?;
            let mut directory = full.parent();
            while let Some(d) = directory {
                wanted.insert(d.to_owned());
                // Files above this root are other tables': their directories were synced with them.
                if d == self.path || !d.starts_with(&self.path) {
                    break;
                }
                directory = d.parent();
            }
            wanted.insert(full);
        }
        if let Some(above) = self.path.parent().filter(|p| !p.as_os_str().is_empty()) {
            wanted.insert(above.to_owned());
        }
        let wanted: Vec<PathBuf> = wanted.into_iter().collect();
        let sync = |path: PathBuf| match File::open(&path).and_then(|file| file.sync_all()) {
            Ok(()) => {
                self.counts.add_sync();
                Ok(())
            }
            // What was cleaned up meanwhile needs no syncing.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(IoError::from_os("sync", path.display().to_string(), e)),
        };
        Pool::for_waiting().team(wanted.len()).map(wanted, sync).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_used_stay_open() {
        let directory = tempfile::tempdir().unwrap();
        let root = LocalRoot::new(directory.path().to_owned(), 0, Arc::default());
        for i in 0..MAX_OPEN_FILES + 10 {
            fs::write(directory.path().join(i.to_string()), "x").unwrap();
        }
        let first = root.file("0").unwrap();
        for i in 1..MAX_OPEN_FILES + 10 {
            root.file(&i.to_string()).unwrap();
            assert!(Arc::ptr_eq(&first, &root.file("0").unwrap()), "opened again after {i} others");
        }
        let open = root.open.lock().unwrap();
        assert_eq!(open.files.len(), MAX_OPEN_FILES);
        assert!(!open.files.contains_key("1"));
    }

    #[test]
    fn each_file_and_directory_is_synced_once() {
        let directory = tempfile::tempdir().unwrap();
        let root = LocalRoot::new(directory.path().join("ds"), 0, Arc::default());
        let paths: Vec<String> = (0..100).map(|i| format!("{}/{}/{i}", i % 2, i % 4)).collect();
        for path in &paths {
            fs::create_dir_all(root.full(path).unwrap().parent().unwrap()).unwrap();
            fs::write(root.full(path).unwrap(), path).unwrap();
        }
        root.sync(&paths).unwrap();
        // Four directories with files, two above them, the root and the one it is in.
        assert_eq!(root.counts.syncs(), 100 + 4 + 2 + 2);
        root.sync(&["0/0/gone".to_owned(), "never/there".to_owned()]).unwrap();
        assert_eq!(root.counts.syncs(), 108 + 4);
        let error = root.sync(&["0/0/0/below a file".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("sync"), "{error}");
    }
}
