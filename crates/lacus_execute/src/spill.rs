//! Tiles that are put aside on disk.

use crate::error::ExecuteError;
use crate::tile::{Rows, SparseTile, Tile};
use crate::window::WindowMut;
use lacus_io::{Extent, IoError, Scratch};
use lacus_tensor::kernels::csr::Csr;
use lacus_tensor::{DType, bytes_of, bytes_of_mut};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A tile on disk.
#[derive(Clone, Debug)]
pub(crate) struct Aside {
    extent: Extent,
    dtype: DType,
    shape: Vec<usize>,
    /// Elements that are stored of a sparse tile, which has the starts of rows, columns and values one after another.
    nnz: Option<usize>,
}

/// Where tiles are put aside.
pub(crate) struct Spill {
    scratch: Scratch,
}

impl Spill {
    pub(crate) fn new(parent: Option<&Path>) -> Spill {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        Spill { scratch: Scratch::below(&parent) }
    }

    fn failed(&self, error: &IoError) -> ExecuteError {
        let path = self.scratch.parent().display().to_string();
        ExecuteError::Spill { path, what: error.message().to_owned() }
    }

    /// Writes a tile.
    pub(crate) fn put(&self, tile: &Tile) -> Result<Aside, ExecuteError> {
        match tile {
            Tile::Dense(window) => {
                let window = window.clone().into_contiguous();
                let bytes = window.bytes().unwrap_or_default();
                let extent = self.scratch.put(&[bytes]).map_err(|e| self.failed(&e))?;
                Ok(Aside { extent, dtype: window.dtype(), shape: window.shape().to_vec(), nnz: None })
            }
            Tile::Sparse(sparse) => self.put_sparse(sparse),
        }
    }

    /// Writes a sparse tile.
    pub(crate) fn put_sparse(&self, tile: &SparseTile) -> Result<Aside, ExecuteError> {
        let starts: Vec<u64> = tile.starts().iter().map(|&start| start as u64).collect();
        let parts = [bytes_of(&starts), bytes_of(tile.columns()), tile.values()];
        let extent = self.scratch.put(&parts).map_err(|e| self.failed(&e))?;
        let (shape, nnz) = (tile.shape().to_vec(), Some(tile.nnz()));
        Ok(Aside { extent, dtype: tile.dtype(), shape, nnz })
    }

    /// Where the rows of a sparse tile start, and where the last one ends.
    pub(crate) fn starts(&self, aside: &Aside) -> Result<Vec<usize>, ExecuteError> {
        let mut starts = vec![0u64; aside.shape[0] + 1];
        self.read(aside, 0, bytes_of_mut(&mut starts))?;
        Ok(starts.into_iter().map(|start| start as usize).collect())
    }

    /// Reads a tile back.
    pub(crate) fn get(&self, aside: &Aside) -> Result<Tile, ExecuteError> {
        let get = |to: &mut [u8]| self.scratch.get(&aside.extent, to).map_err(|e| self.failed(&e));
        let Some(nnz) = aside.nnz else {
            let mut window = WindowMut::for_overwrite(aside.dtype, &aside.shape);
            get(window.bytes_mut().unwrap_or_default())?;
            return Ok(Tile::Dense(window.freeze()));
        };
        let &[rows, columns] = &aside.shape[..] else {
            return Err(ExecuteError::Internal { what: "a sparse tile is a matrix".to_owned() });
        };
        let starts = self.starts(aside)?;
        let first = (rows + 1) * 8;
        let mut indices = vec![0u32; nnz];
        self.read(aside, first, bytes_of_mut(&mut indices))?;
        macro_rules! tile {
            ($name:ident, $zero:expr) => {{
                let mut values = vec![$zero; nnz];
                self.read(aside, first + nnz * 4, bytes_of_mut(&mut values))?;
                SparseTile::$name(Arc::new(Csr::new(rows, columns, starts, indices, values)?))
            }};
        }
        Ok(Tile::Sparse(match aside.dtype {
            DType::I64 => tile!(I64, 0i64),
            DType::F32 => tile!(F32, 0f32),
            _ => tile!(F64, 0f64),
        }))
    }

    fn read(&self, aside: &Aside, from: usize, to: &mut [u8]) -> Result<(), ExecuteError> {
        self.scratch.get_at(&aside.extent, from as u64, to).map_err(|e| self.failed(&e))
    }

    /// Some rows of a sparse tile: where they start among the elements, and these.
    pub(crate) fn rows(&self, aside: &Aside, rows: Range<usize>) -> Result<Rows, ExecuteError> {
        let (height, size) = (aside.shape[0], aside.dtype.size_bytes());
        let mut starts = vec![0u64; rows.len() + 1];
        self.read(aside, rows.start * 8, bytes_of_mut(&mut starts))?;
        let (first, last) = (starts[0] as usize, starts[rows.len()] as usize);
        let mut columns = vec![0u32; last - first];
        self.read(aside, (height + 1) * 8 + first * 4, bytes_of_mut(&mut columns))?;
        let mut values = vec![0u8; (last - first) * size];
        self.read(aside, (height + 1) * 8 + aside.nnz.unwrap_or(0) * 4 + first * size, &mut values)?;
        Ok(Rows { starts: starts.iter().map(|&start| start as usize - first).collect(), columns, values })
    }

    /// Forgets a tile.
    pub(crate) fn remove(&self, aside: Aside) {
        self.scratch.remove(aside.extent);
    }
}
