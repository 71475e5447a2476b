//! From stored rows back to tensors: which rows, then their bytes.
//!
//! ```text
//! selection ─wanted→ rows ─(fetched by the caller)→ bytes ─decode_dense→ boxes, copied to their places
//!                                                         ─decode_sparse→ parts ─assemble→ tensor
//! ```

use lacus_tensor::{Group, Selection};

use crate::chunk::{ChunkIndex, Codec, Coords, Scratch};
use crate::compressed_rows::Matrix;
use crate::error::LayoutError;
use crate::fiber_tree;
use crate::header::{Header, Layout, product};
use crate::levels::Levels;
use crate::order::{key_axes, stable_order};
use crate::packed::{Packer, Reader};
use crate::part::{Picked, SparsePart, pick, pick_listed};
use crate::reach::Reach;
use crate::runs::gather;
use crate::sparse_blocks;
use crate::tree::{self, Level};

/// How many coordinate columns (`c0`, `c1`, …) the chunk rows of this tensor have.
pub fn coordinate_columns(header: &Header) -> usize {
    match &header.layout {
        Layout::CompressedRows { .. } | Layout::CompressedColumns { .. } => 2,
        _ => header.shape.rank().max(1),
    }
}

/// Which rows of `index` to fetch for `selection`, ascending: slice before decode.
///
/// Costs in proportion to the rows wanted, and the logarithm of their distances, not to the rows there
/// are. No row that is needed is left out; a row that holds nothing selected may be among them where the
/// layout cannot tell. Nonzeros of [`Layout::Coordinates`] are no chunks: all rows of `index` are returned.
pub fn wanted(header: &Header, selection: &Selection, index: &ChunkIndex) -> Vec<usize> {
    let everything = || (0..index.len()).collect();
    let Some(reach) = Reach::of(selection) else { return Vec::new() };
    if selection.is_all() || header.shape.rank() == 0 || index.columns() != coordinate_columns(header) {
        return everything();
    }
    match &header.layout {
        Layout::DenseChunks { chunk_shape } => reach.boxes(chunk_shape, index),
        Layout::SparseBlocks { block_shape, .. } => reach.boxes(block_shape, index),
        Layout::CompressedRows { .. } | Layout::CompressedColumns { .. } => {
            matrix(header).map_or_else(everything, |matrix| matrix.wanted(&reach, index))
        }
        Layout::FiberTree { axis_order } => fiber_tree::wanted(axis_order, &reach, index),
        Layout::Coordinates => everything(),
    }
}

/// How many nonzeros a packed chunk holds, from its first bytes.
///
/// Fails with a corrupt error if they are no packed chunk.
pub fn chunk_nnz(bytes: &[u8]) -> Result<u64, LayoutError> {
    Ok(tree::read_head(&mut Reader::new(bytes))?.0)
}

/// Decodes the nonzeros of one chunk that `selection` picks. If none is picked, the values are not decoded.
///
/// Fails with a corrupt error if the bytes do not hold such a chunk.
pub fn decode_sparse(
    header: &Header,
    coords: &Coords,
    codec: Codec,
    bytes: &[u8],
    selection: &Selection,
    scratch: &mut Scratch,
) -> Result<SparsePart, LayoutError> {
    if *selection.input_shape() != header.shape {
        return Err(LayoutError::unsupported(
            header.layout.name(),
            format!("a selection of the shape {} on a tensor of {}", selection.input_shape(), header.shape),
        ));
    }
    let mut reader = Reader::new(bytes);
    let packer = &mut scratch.packer;
    let index = Index::read(header, coords, codec, &mut reader, packer)?;
    let nnz = index.nnz();
    let mut columns = vec![vec![0i64; nnz]; header.shape.rank()];
    let mut slices: Vec<&mut [i64]> = columns.iter_mut().map(|column| &mut column[..]).collect();
    // A block of which only a part is picked is not worth sorting as a whole: the parts are put in order later.
    let order = index.expand(&mut slices, covers(selection, &index.levels));
    let columns: Vec<&[i64]> = columns.iter().map(|column| &column[..]).collect();
    let width = header.dtype.size_bytes();
    let picked = pick(selection, &columns);
    if let Picked::Some(places, coords) = &picked
        && places.is_empty()
    {
        return Ok(SparsePart { coords: coords.clone(), values: Vec::new() });
    }
    let mut values = vec![0; nnz * width];
    packer.read_values(&mut reader, header.dtype, &mut values)?;
    reader.finish()?;
    if let Some(order) = order {
        values = gather(&values, width, order.iter().copied());
    }
    match picked {
        Picked::All(coords) => Ok(SparsePart { coords, values }),
        Picked::Some(places, coords) => {
            Ok(SparsePart { coords, values: gather(&values, width, places.iter().copied()) })
        }
        Picked::Listed => pick_listed(header.dtype, &header.shape, selection, &columns, &values),
    }
}

/// Decodes all nonzeros of one chunk into columns of input coordinates, one per axis, and element bytes,
/// all exactly as long as [`chunk_nnz`] says. The path of whole tensors: no part is made and copied again.
///
/// Blocks come out in C order; runs of CSC and CSF in the order of their layout. Fails with a corrupt error
/// if the bytes do not hold such a chunk.
pub fn decode_sparse_into(
    header: &Header,
    coords: &Coords,
    codec: Codec,
    bytes: &[u8],
    columns: &mut [&mut [i64]],
    values: &mut [u8],
    scratch: &mut Scratch,
) -> Result<(), LayoutError> {
    decode_into(header, coords, codec, bytes, columns, values, true, scratch)
}

/// As [`decode_sparse_into`]; blocks are brought into C order only if `sort` says so.
#[expect(clippy::too_many_arguments, reason = "the public function's, and one")]
pub(crate) fn decode_into(
    header: &Header,
    coords: &Coords,
    codec: Codec,
    bytes: &[u8],
    columns: &mut [&mut [i64]],
    values: &mut [u8],
    sort: bool,
    scratch: &mut Scratch,
) -> Result<(), LayoutError> {
    let mut reader = Reader::new(bytes);
    let packer = &mut scratch.packer;
    let index = Index::read(header, coords, codec, &mut reader, packer)?;
    let (nnz, width) = (index.nnz(), header.dtype.size_bytes());
    let fits = columns.len() == header.shape.rank()
        && columns.iter().all(|column| column.len() == nnz)
        && values.len() == nnz * width;
    if !fits {
        return Err(LayoutError::unsupported(
            header.layout.name(),
            format!("a chunk of {nnz} nonzeros does not fit the columns it is to be decoded into"),
        ));
    }
    let order = index.expand(columns, sort);
    packer.read_values(&mut reader, header.dtype, values)?;
    reader.finish()?;
    if let Some(order) = order {
        let sorted = gather(values, width, order.iter().copied());
        values.copy_from_slice(&sorted);
    }
    Ok(())
}

/// Whether `selection` picks every element of the box, in order.
fn covers(selection: &Selection, levels: &Levels) -> bool {
    selection.groups().iter().all(|group| match group {
        Group::Range { axis, start, step: 1, len, .. } => {
            let (first, last) = (levels.origin[*axis], levels.origin[*axis] + levels.extent[*axis]);
            *start <= first && last - start <= *len
        }
        Group::Range { axis, start, len: 1, .. } => {
            levels.extent[*axis] == 1 && levels.origin[*axis] == *start
        }
        _ => false,
    })
}

/// How the box of the chunk at `coords` is folded.
pub(crate) fn levels_of(header: &Header, coords: &Coords) -> Result<Levels, LayoutError> {
    if coords.len() != coordinate_columns(header) {
        return Err(LayoutError::corrupt(
            "chunk coordinates",
            format!("{coords:?} has {} numbers where {} belong", coords.len(), coordinate_columns(header)),
        ));
    }
    match (&header.layout, matrix(header)) {
        (_, Some(matrix)) => Ok(matrix.levels()),
        (Layout::FiberTree { axis_order }, _) => Ok(fiber_tree::levels(&header.shape, axis_order)),
        (Layout::SparseBlocks { axis_order, .. }, _) => sparse_blocks::levels(header, axis_order, coords),
        _ => Err(LayoutError::unsupported(header.layout.name(), "has no packed chunks")),
    }
}

fn matrix(header: &Header) -> Option<Matrix<'_>> {
    let (split, by_columns) = match &header.layout {
        Layout::CompressedRows { split } => (*split, false),
        Layout::CompressedColumns { split } => (*split, true),
        _ => return None,
    };
    Some(Matrix { shape: &header.shape, split, by_columns })
}

/// The decoded index of one chunk.
struct Index {
    levels: Levels,
    tree: Vec<Level>,
}

impl Index {
    fn read(
        header: &Header,
        coords: &Coords,
        codec: Codec,
        reader: &mut Reader<'_>,
        packer: &mut Packer,
    ) -> Result<Index, LayoutError> {
        if codec != Codec::Packed {
            return Err(LayoutError::corrupt(
                "packed chunk",
                format!("codec {codec} on a chunk of a {} tensor", header.layout.name()),
            ));
        }
        let levels = levels_of(header, coords)?;
        let cells = product(&levels.extent).unwrap_or(u64::MAX);
        let most = header.nnz.unwrap_or(0).min(cells);
        let tree = tree::read_index(reader, &levels.limits()?, most, packer)?;
        let first = |level: usize| tree.get(level).and_then(|level| level.ids.first()).copied().unwrap_or(0);
        if let Some(matrix) = matrix(header) {
            matrix.check_start(coords, first(0), first(1))?;
        } else if matches!(header.layout, Layout::FiberTree { .. })
            && coords.iter().enumerate().any(|(level, value)| first(level) != *value as u64)
        {
            return Err(LayoutError::corrupt(
                "packed chunk",
                format!("a CSF chunk at {coords:?} starts elsewhere"),
            ));
        }
        Ok(Index { levels, tree })
    }

    fn nnz(&self) -> usize {
        self.tree.last().map_or(0, |level| level.ids.len())
    }

    /// Writes the coordinates. A block whose cells are numbered in another order is brought into C order
    /// if `sort` says so; the result is then the order to bring its values into.
    fn expand(&self, columns: &mut [&mut [i64]], sort: bool) -> Option<Vec<usize>> {
        if sort && let [axes] = &self.levels.axes[..] {
            let ids = &self.tree[0].ids;
            let wide = |axis: &usize| self.levels.extent[*axis] > 1;
            let from: Vec<usize> = axes.iter().copied().filter(wide).collect();
            let to: Vec<usize> = (0..columns.len()).filter(wide).collect();
            let (keys, limit) = self.levels.keys(axes, ids, key_axes(&from, &to));
            if let Some(order) = stable_order(ids.len(), limit, |i| keys[i]) {
                let ids = order.iter().map(|place| ids[*place]).collect();
                self.levels.unfold(&[Level { ids, leaves: Vec::new() }], columns);
                return Some(order);
            }
        }
        self.levels.unfold(&self.tree, columns);
        None
    }
}
