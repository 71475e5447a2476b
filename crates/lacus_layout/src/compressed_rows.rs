//! Compressed rows and columns (CSR and CSC, Compressed Sparse Row and Column).
//!
//! **What it stores.** The tensor as a matrix: axes before `split` folded into the row number, the others
//! into the column number, both in C order. For each row that has any, how many nonzeros it has and their
//! columns; for CSC the same with rows and columns exchanged. Rows without nonzeros take no space, so a
//! matrix may have 2^63 of them.
//!
//! **When it wins.** Matrices and graphs, whose rows are looked up: the index of a row that holds many
//! nonzeros is stored once. CSC for lookups by the trailing axes.
//!
//! **The row layout.** One table row per run of matrix rows with 32 to 64 Ki nonzeros: `c0` is the first
//! matrix row (CSC: column) of the run, `c1` is 0; a matrix row with more nonzeros than that is cut, and
//! the run that starts inside it has its first column (CSC: row) in `c1`. The bytes are a packed tree of
//! two levels (codec `packed`): rows, then columns.
//!
//! ```
//! use lacus_layout::{Compression, Header, Layout, Scratch, StoredChunk, Value, encoder, read_sparse};
//! use lacus_tensor::{Buffer, DType, Duplicates, Selection, Shape, SparseTensor};
//! use lacus_threads::Team;
//!
//! // Nonzeros at (0, 1), (2, 0) and (2, 3).
//! let shape = Shape::new(vec![3, 4]).unwrap();
//! let coords = Buffer::from_elements(&[0i64, 2, 2, 1, 0, 3]);
//! let values = Buffer::from_elements(&[1.5f32, 2.5, 3.5]);
//! let tensor = SparseTensor::new(DType::F32, shape.clone(), coords, values, Duplicates::Refuse).unwrap();
//! let header = Header {
//!     dtype: DType::F32,
//!     shape: shape.clone(),
//!     layout: Layout::CompressedRows { split: 1 },
//!     nnz: Some(3),
//!     compression: Compression::None,
//!     reasons: vec![],
//! };
//! let chunks = encoder(&header, Value::Sparse(&tensor)).unwrap();
//! let mut scratch = Scratch::new();
//! let chunk = chunks.encode(0, &mut scratch).unwrap();
//! assert_eq!((&chunk.coords[..], chunk.codec.name(), chunk.nnz), (&[0, 0][..], "packed", 3));
//!
//! let stored = StoredChunk { coords: chunk.coords, codec: chunk.codec, bytes: &chunk.bytes };
//! assert_eq!(read_sparse(&header, &Selection::all(&shape), &[stored], Team::alone()).unwrap(), tensor);
//! ```

use lacus_tensor::{MAX_RANK, Shape, SparseTensor};

use crate::chunk::{ChunkIndex, Coords, EncodeChunks};
use crate::error::LayoutError;
use crate::levels::Levels;
use crate::order::reorder;
use crate::packed::Effort;
use crate::reach::{Place, Reach};
use crate::runs::{Run, Runs, cut};

/// A tensor seen as a matrix whose major lines (rows for CSR, columns for CSC) are compressed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(crate) shape: &'a Shape,
    pub(crate) split: usize,
    /// CSC: columns are the major lines.
    pub(crate) by_columns: bool,
}

impl Matrix<'_> {
    fn name(&self) -> &'static str {
        if self.by_columns { "CSC" } else { "CSR" }
    }

    /// The axes of the major and of the minor lines.
    fn axes(&self) -> [Vec<usize>; 2] {
        let (rows, columns) = ((0..self.split).collect(), (self.split..self.shape.rank()).collect());
        if self.by_columns { [columns, rows] } else { [rows, columns] }
    }

    pub(crate) fn levels(&self) -> Levels {
        let dims = self.shape.dims();
        Levels { axes: self.axes().to_vec(), origin: vec![0; dims.len()], extent: dims.to_vec() }
    }

    pub(crate) fn encoder<'t>(
        &self,
        tensor: &'t SparseTensor,
        effort: Effort,
    ) -> Result<Box<dyn EncodeChunks + 't>, LayoutError> {
        let levels = self.levels();
        let columns: Vec<&[i64]> = (0..tensor.shape().rank()).map(|axis| tensor.axis(axis)).collect();
        let c_order: Vec<usize> = (0..columns.len()).collect();
        let order = reorder(&columns, self.shape.dims(), &c_order, &levels.order());
        let place = |i: usize| order.as_ref().map_or(i, |order| order[i]);
        let starts_line = |i: usize| {
            i == 0
                || levels.axes[0].iter().any(|axis| columns[*axis][place(i)] != columns[*axis][place(i - 1)])
        };
        let cuts = cut(tensor.nnz(), |i| usize::from(!starts_line(i)));
        let runs = cuts.into_iter().map(|places| {
            let first = levels.fold(&columns, std::iter::once(place(places.start)));
            let minor = if starts_line(places.start) { 0 } else { first[1][0] };
            Run { coords: Coords::of([first[0][0], minor]), places }
        });
        let runs = runs.collect();
        Ok(Box::new(Runs::new(tensor, order, runs, effort, move |_: &Coords| Ok(levels.clone()))?))
    }

    /// Which rows of the index a selection wants.
    pub(crate) fn wanted(&self, reach: &Reach<'_>, index: &ChunkIndex) -> Vec<usize> {
        let [major, minor] = self.axes();
        let dims = self.shape.dims();
        let start_of = |coords: &Coords| {
            let mut place = [0; MAX_RANK];
            unfold_line(coords[0] as u64, &major, dims, &mut place[..major.len()]);
            unfold_line(coords[1] as u64, &minor, dims, &mut place[major.len()..][..minor.len()]);
            place
        };
        let fold_line = |axes: &[usize], place: &[u64]| {
            axes.iter().zip(place).fold(0, |sum, (axis, value)| sum * dims[*axis] + value)
        };
        let coords_of =
            |place: &Place| Coords::of([fold_line(&major, place), fold_line(&minor, &place[major.len()..])]);
        reach.runs(&[&major[..], &minor[..]].concat(), index, start_of, coords_of)
    }

    /// Fails unless a chunk whose first nonzero is in major line `major`, minor line `minor`, belongs at
    /// `coords`.
    pub(crate) fn check_start(&self, coords: &Coords, major: u64, minor: u64) -> Result<(), LayoutError> {
        match coords[..] == [major as i64, minor as i64] || coords[..] == [major as i64, 0] {
            true => Ok(()),
            false => Err(LayoutError::corrupt(
                "packed chunk",
                format!("a {} chunk at {coords:?} starts with line {major}, place {minor}", self.name()),
            )),
        }
    }
}

/// The coordinates folded in `line`. A line beyond the matrix keeps its excess on the first axis, so that
/// it still comes after all others.
fn unfold_line(mut line: u64, axes: &[usize], dims: &[u64], place: &mut [u64]) {
    for (position, axis) in axes.iter().enumerate().rev() {
        let dim = dims[*axis].max(1);
        place[position] = if position == 0 { line } else { line % dim };
        line /= dim;
    }
}
