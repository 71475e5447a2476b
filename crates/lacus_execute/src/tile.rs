//! Tiles: dense windows, or sparse matrices.

use crate::window::{Window, WindowMut};
use lacus_tensor::DType;
use lacus_tensor::kernels::csr::Csr;
use std::borrow::Cow;
use std::sync::Arc;

/// The unit of computing.
#[derive(Clone, Debug)]
pub enum Tile {
    /// Every element.
    Dense(Window),
    /// The nonzeros of a matrix.
    Sparse(SparseTile),
}

/// The nonzeros of a matrix, by the type of its elements.
#[derive(Clone, Debug)]
pub enum SparseTile {
    /// Integers.
    I64(Arc<Csr<i64>>),
    /// Singles.
    F32(Arc<Csr<f32>>),
    /// Doubles.
    F64(Arc<Csr<f64>>),
}

/// Calls with the matrix, whatever its type.
macro_rules! with_csr {
    ($tile:expr, $csr:ident => $body:expr) => {
        match $tile {
            SparseTile::I64($csr) => $body,
            SparseTile::F32($csr) => $body,
            SparseTile::F64($csr) => $body,
        }
    };
}

impl SparseTile {
    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        match self {
            SparseTile::I64(_) => DType::I64,
            SparseTile::F32(_) => DType::F32,
            SparseTile::F64(_) => DType::F64,
        }
    }

    /// Rows and columns.
    pub fn shape(&self) -> [usize; 2] {
        with_csr!(self, csr => csr.shape())
    }

    /// Elements that are stored.
    pub fn nnz(&self) -> usize {
        with_csr!(self, csr => csr.nnz())
    }

    /// Every element.
    pub fn to_dense(&self) -> Window {
        let [rows, columns] = self.shape();
        let mut window = WindowMut::for_overwrite(self.dtype(), &[rows, columns]);
        let strides = [columns as isize, 1];
        // SAFETY: a fresh window of this shape and type.
        unsafe {
            match self {
                SparseTile::I64(csr) => csr.to_dense(window.matrix(0, [rows, columns], strides)),
                SparseTile::F32(csr) => csr.to_dense(window.matrix(0, [rows, columns], strides)),
                SparseTile::F64(csr) => csr.to_dense(window.matrix(0, [rows, columns], strides)),
            }
        }
        window.freeze()
    }
}

impl Tile {
    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        match self {
            Tile::Dense(window) => window.dtype(),
            Tile::Sparse(sparse) => sparse.dtype(),
        }
    }

    /// The bytes it takes.
    pub fn size_bytes(&self) -> u64 {
        match self {
            Tile::Dense(window) => window.size_bytes(),
            Tile::Sparse(sparse) => with_csr!(sparse, csr => csr.size_bytes() as u64),
        }
    }

    /// True for the nonzeros of a matrix.
    pub fn is_sparse(&self) -> bool {
        matches!(self, Tile::Sparse(_))
    }

    /// Every element; of a sparse tile a copy.
    pub fn dense(&self) -> Cow<'_, Window> {
        match self {
            Tile::Dense(window) => Cow::Borrowed(window),
            Tile::Sparse(sparse) => Cow::Owned(sparse.to_dense()),
        }
    }
}
