//! Tiles: dense windows, or sparse matrices.

use crate::window::{Window, WindowMut};
use lacus_tensor::kernels::csr::{Csr, Pattern, Value};
use lacus_tensor::{DType, Element, TensorError, bytes_of};
use std::borrow::Cow;
use std::ops::Range;
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

/// Some rows of a sparse tile.
pub(crate) struct Rows {
    /// Where each row starts, and where the last one ends.
    pub(crate) starts: Vec<usize>,
    pub(crate) columns: Vec<u32>,
    /// The bytes of the elements.
    pub(crate) values: Vec<u8>,
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

    /// Bytes it takes.
    pub(crate) fn size_bytes(&self) -> u64 {
        with_csr!(self, csr => csr.size_bytes() as u64)
    }

    /// The columns of all elements, row by row.
    pub(crate) fn columns(&self) -> &[u32] {
        with_csr!(self, csr => csr.pattern().indices())
    }

    /// The bytes of all elements.
    pub(crate) fn values(&self) -> &[u8] {
        with_csr!(self, csr => bytes_of(csr.values()))
    }

    /// Where each row starts, and where the last one ends.
    pub(crate) fn starts(&self) -> &[usize] {
        with_csr!(self, csr => csr.pattern().starts())
    }

    /// Its elements at the places of a pattern, zero where it has none.
    pub(crate) fn gather(&self, pattern: &Pattern) -> Window {
        let mut values = WindowMut::for_overwrite(self.dtype(), &[pattern.nnz()]);
        match self {
            SparseTile::I64(csr) => fill_with(&mut values, &csr.gather(pattern)),
            SparseTile::F32(csr) => fill_with(&mut values, &csr.gather(pattern)),
            SparseTile::F64(csr) => fill_with(&mut values, &csr.gather(pattern)),
        }
        values.freeze()
    }

    /// The sum of two; `None` if their types differ.
    pub(crate) fn add(&self, other: &SparseTile) -> Option<SparseTile> {
        Some(match (self, other) {
            (SparseTile::I64(a), SparseTile::I64(b)) => SparseTile::I64(Arc::new(a.add(b))),
            (SparseTile::F32(a), SparseTile::F32(b)) => SparseTile::F32(Arc::new(a.add(b))),
            (SparseTile::F64(a), SparseTile::F64(b)) => SparseTile::F64(Arc::new(a.add(b))),
            _ => return None,
        })
    }

    /// Coordinates and values of what is stored.
    pub(crate) fn coordinates(&self) -> ([Vec<i64>; 2], Window) {
        let mut values = WindowMut::for_overwrite(self.dtype(), &[self.nnz()]);
        let coordinates = match self {
            SparseTile::I64(csr) => {
                fill_with(&mut values, csr.values());
                csr.coordinates()
            }
            SparseTile::F32(csr) => {
                fill_with(&mut values, csr.values());
                csr.coordinates()
            }
            SparseTile::F64(csr) => {
                fill_with(&mut values, csr.values());
                csr.coordinates()
            }
        };
        (coordinates, values.freeze())
    }

    /// Some rows.
    pub(crate) fn rows(&self, rows: Range<usize>) -> Rows {
        let starts = &self.starts()[rows.start..=rows.end];
        let (first, last) = (starts[0], starts[rows.len()]);
        let size = self.dtype().size_bytes();
        Rows {
            starts: starts.iter().map(|start| start - first).collect(),
            columns: self.columns()[first..last].to_vec(),
            values: self.values()[first * size..last * size].to_vec(),
        }
    }

    /// Where rows start, columns, values: what checkpoints store.
    pub(crate) fn to_bytes(&self) -> [Vec<u8>; 3] {
        fn parts<T: Value + Element>(csr: &Csr<T>, bytes: impl Fn(&T) -> Vec<u8>) -> [Vec<u8>; 3] {
            [
                csr.pattern().starts().iter().flat_map(|&start| (start as u64).to_le_bytes()).collect(),
                csr.pattern().indices().iter().flat_map(|column| column.to_le_bytes()).collect(),
                csr.values().iter().flat_map(bytes).collect(),
            ]
        }
        match self {
            SparseTile::I64(csr) => parts(csr, |value| value.to_le_bytes().to_vec()),
            SparseTile::F32(csr) => parts(csr, |value| value.to_le_bytes().to_vec()),
            SparseTile::F64(csr) => parts(csr, |value| value.to_le_bytes().to_vec()),
        }
    }

    /// What [`SparseTile::to_bytes`] has written. Fails if it is something else.
    pub(crate) fn from_bytes(
        dtype: DType,
        [rows, columns]: [usize; 2],
        nnz: usize,
        bytes: &[u8],
    ) -> Result<SparseTile, TensorError> {
        let size = dtype.size_bytes();
        let expected = (rows + 1) * 8 + nnz * (4 + size);
        if bytes.len() != expected {
            return Err(TensorError::WrongLength { what: "a sparse tile", expected, found: bytes.len() });
        }
        let (starts, rest) = bytes.split_at((rows + 1) * 8);
        let (indices, values) = rest.split_at(nnz * 4);
        let starts =
            starts.as_chunks::<8>().0.iter().map(|start| u64::from_le_bytes(*start) as usize).collect();
        let indices = indices.as_chunks::<4>().0.iter().map(|column| u32::from_le_bytes(*column)).collect();
        let wide = values.as_chunks::<8>().0;
        Ok(match dtype {
            DType::I64 => {
                let values = wide.iter().map(|value| i64::from_le_bytes(*value)).collect();
                SparseTile::I64(Arc::new(Csr::new(rows, columns, starts, indices, values)?))
            }
            DType::F32 => {
                let values =
                    values.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect();
                SparseTile::F32(Arc::new(Csr::new(rows, columns, starts, indices, values)?))
            }
            _ => {
                let values = wide.iter().map(|value| f64::from_le_bytes(*value)).collect();
                SparseTile::F64(Arc::new(Csr::new(rows, columns, starts, indices, values)?))
            }
        })
    }

    /// The nonzeros of a dense matrix. Fails if it is none.
    pub(crate) fn of_dense(window: &Window) -> Result<SparseTile, TensorError> {
        let [rows, columns] = *window.shape() else {
            return Err(TensorError::Matrix { what: "a sparse tile has two axes" });
        };
        let strides = [window.strides()[0], window.strides()[1]];
        // SAFETY: the whole of the window, whose elements are of this type.
        unsafe {
            Ok(match window.dtype() {
                DType::I64 => {
                    SparseTile::I64(Arc::new(Csr::from_dense(window.matrix(0, [rows, columns], strides))?))
                }
                DType::F32 => {
                    SparseTile::F32(Arc::new(Csr::from_dense(window.matrix(0, [rows, columns], strides))?))
                }
                _ => SparseTile::F64(Arc::new(Csr::from_dense(window.matrix(0, [rows, columns], strides))?)),
            })
        }
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

fn fill_with<T: Element>(to: &mut WindowMut, from: &[T]) {
    if let Some(to) = to.slice_mut::<T>() {
        to.copy_from_slice(from);
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
            Tile::Sparse(sparse) => sparse.size_bytes(),
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
