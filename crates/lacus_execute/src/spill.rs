//! Tiles that are put aside on disk. The directory is made when the first one comes, and goes with the run.

use crate::error::ExecuteError;
use crate::tile::{SparseTile, Tile};
use crate::window::WindowMut;
use lacus_tensor::DType;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A tile on disk.
#[derive(Clone, Debug)]
pub(crate) struct Aside {
    number: u64,
    dtype: DType,
    shape: Vec<usize>,
    /// Elements that are stored of a sparse tile, which has the starts of rows, columns and values one after another.
    nnz: Option<usize>,
}

/// Where tiles are put aside.
pub(crate) struct Spill {
    /// The directory that the caller gave.
    parent: PathBuf,
    /// Ours within it, once there is one.
    own: Mutex<Option<PathBuf>>,
    next: AtomicU64,
}

/// Tells the directories of one process apart.
static RUNS: AtomicU64 = AtomicU64::new(0);

impl Spill {
    pub(crate) fn new(parent: Option<&Path>) -> Spill {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        Spill { parent, own: Mutex::new(None), next: AtomicU64::new(0) }
    }

    fn failed(&self, error: &std::io::Error) -> ExecuteError {
        ExecuteError::Spill { path: self.parent.display().to_string(), what: error.to_string() }
    }

    fn directory(&self) -> Result<PathBuf, ExecuteError> {
        let mut own = self.own.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(own) = &*own {
            return Ok(own.clone());
        }
        fs::create_dir_all(&self.parent).map_err(|e| self.failed(&e))?;
        let mut make = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut make, 0o700);
        loop {
            let run = RUNS.fetch_add(1, Ordering::Relaxed);
            let path = self.parent.join(format!("lacus-spill-{}-{run}", std::process::id()));
            match make.create(&path) {
                Ok(()) => {
                    *own = Some(path.clone());
                    return Ok(path);
                }
                // One that a killed run has left, or of a process of another machine or container.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
    }

    fn file(&self, number: u64) -> Result<PathBuf, ExecuteError> {
        Ok(self.directory()?.join(format!("{number}.tile")))
    }

    /// Writes a tile.
    pub(crate) fn put(&self, tile: &Tile) -> Result<Aside, ExecuteError> {
        match tile {
            Tile::Dense(window) => {
                let window = window.clone().into_contiguous();
                let number = self.write(&[window.bytes().unwrap_or_default()])?;
                Ok(Aside { number, dtype: window.dtype(), shape: window.shape().to_vec(), nnz: None })
            }
            Tile::Sparse(sparse) => {
                let parts = sparse.to_bytes();
                let number = self.write(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
                Ok(Aside {
                    number,
                    dtype: sparse.dtype(),
                    shape: sparse.shape().to_vec(),
                    nnz: Some(sparse.nnz()),
                })
            }
        }
    }

    fn write(&self, parts: &[&[u8]]) -> Result<u64, ExecuteError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.file(number)?;
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&path)?;
            parts.iter().try_for_each(|part| file.write_all(part))
        };
        if let Err(error) = write() {
            let _ = fs::remove_file(&path);
            return Err(self.failed(&error));
        }
        Ok(number)
    }

    /// Reads a tile back.
    pub(crate) fn get(&self, aside: &Aside) -> Result<Tile, ExecuteError> {
        let path = self.file(aside.number)?;
        let Some(nnz) = aside.nnz else {
            let mut window = WindowMut::for_overwrite(aside.dtype, &aside.shape);
            let bytes = window.bytes_mut().unwrap_or_default();
            let read = File::open(&path).and_then(|mut file| file.read_exact(bytes));
            read.map_err(|e| self.failed(&e))?;
            return Ok(Tile::Dense(window.freeze()));
        };
        let bytes = fs::read(&path).map_err(|e| self.failed(&e))?;
        Ok(Tile::Sparse(SparseTile::from_bytes(aside.dtype, [aside.shape[0], aside.shape[1]], nnz, &bytes)?))
    }

    /// Forgets a tile.
    pub(crate) fn remove(&self, aside: &Aside) {
        if let Ok(path) = self.file(aside.number) {
            // What is left goes with the directory.
            let _ = fs::remove_file(path);
        }
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        let own = self.own.get_mut().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(own) = own {
            let _ = fs::remove_dir_all(own);
        }
    }
}
