//! Tiles that are put aside on disk.

use crate::error::ExecuteError;
use crate::tile::{SparseTile, Tile};
use crate::window::WindowMut;
use lacus_io::{Extent, IoError, Scratch};
use lacus_tensor::DType;
use std::path::Path;

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
        let put = |parts: &[&[u8]]| self.scratch.put(parts).map_err(|e| self.failed(&e));
        match tile {
            Tile::Dense(window) => {
                let window = window.clone().into_contiguous();
                let extent = put(&[window.bytes().unwrap_or_default()])?;
                Ok(Aside { extent, dtype: window.dtype(), shape: window.shape().to_vec(), nnz: None })
            }
            Tile::Sparse(sparse) => {
                let parts = sparse.to_bytes();
                let extent = put(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
                let (shape, nnz) = (sparse.shape().to_vec(), Some(sparse.nnz()));
                Ok(Aside { extent, dtype: sparse.dtype(), shape, nnz })
            }
        }
    }

    /// Reads a tile back.
    pub(crate) fn get(&self, aside: &Aside) -> Result<Tile, ExecuteError> {
        let get = |to: &mut [u8]| self.scratch.get(&aside.extent, to).map_err(|e| self.failed(&e));
        let Some(nnz) = aside.nnz else {
            let mut window = WindowMut::for_overwrite(aside.dtype, &aside.shape);
            get(window.bytes_mut().unwrap_or_default())?;
            return Ok(Tile::Dense(window.freeze()));
        };
        let mut bytes = vec![0; aside.extent.length() as usize];
        get(&mut bytes)?;
        Ok(Tile::Sparse(SparseTile::from_bytes(aside.dtype, [aside.shape[0], aside.shape[1]], nnz, &bytes)?))
    }

    /// Forgets a tile.
    pub(crate) fn remove(&self, aside: Aside) {
        self.scratch.remove(aside.extent);
    }
}
