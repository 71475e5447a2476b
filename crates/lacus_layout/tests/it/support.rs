//! Tensors, layouts and selections of all kinds, and the short way through encoder and decoder.

use lacus_layout::{
    ChunkIndex, Codec, Compression, Coords, Header, Layout, LayoutError, Scratch, StoredChunk, Value,
    coordinate_columns, decode_dense, dense_copy, encoder, read_sparse, wanted,
};
use lacus_tensor::{Buffer, DType, Duplicates, Index, Selection, Shape, SparseTensor, Target, Tensor};
use lacus_threads::Pool;
use proptest::prelude::*;

/// Settings of all properties: no files are left behind.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

pub(crate) fn dtypes() -> impl Strategy<Value = DType> {
    proptest::sample::select(DType::ALL.to_vec())
}

/// Shapes of up to five axes, some of them empty, one of them possibly long.
pub(crate) fn shapes(least_rank: usize) -> impl Strategy<Value = Vec<u64>> {
    let dims =
        proptest::collection::vec(prop_oneof![8 => 1u64..6, 1 => Just(0), 2 => 6u64..30], least_rank..=5);
    dims.prop_map(|mut dims| {
        // At most some ten thousand cells.
        while dims.iter().product::<u64>() > 20_000 {
            let longest = (0..dims.len()).max_by_key(|axis| dims[*axis]).unwrap_or(0);
            dims[longest] /= 2;
        }
        dims
    })
}

/// Element bytes with structure: few different ones, or any.
pub(crate) fn element_bytes(dtype: DType, seed: u64, i: u64) -> Vec<u8> {
    let noise = (seed ^ i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let noise = noise ^ noise >> 29;
    let wide = match seed % 3 {
        0 => u128::from(noise % 3),
        1 => u128::from(noise) | u128::from(noise.rotate_left(17)) << 64,
        _ => match dtype {
            DType::F32 | DType::C64 => u128::from(((noise % 9) as f32).to_bits()),
            _ => u128::from(((noise % 90) as f64 / 10.0).to_bits()),
        },
    };
    match dtype {
        DType::Bool => vec![wide as u8 & 1],
        _ => wide.to_le_bytes()[..dtype.size_bytes()].to_vec(),
    }
}

/// Sparse tensors of rank 1 to 5.
pub(crate) fn sparse_tensors() -> impl Strategy<Value = SparseTensor> {
    (dtypes(), shapes(1), any::<u64>(), 0u64..100).prop_map(|(dtype, dims, seed, density)| {
        let cells: u64 = dims.iter().product();
        let keep = |cell: &u64| {
            (seed ^ cell).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0x7f <= density * density / 80
        };
        let kept: Vec<u64> = (0..cells).filter(keep).collect();
        sparse(dtype, &dims, &kept, seed)
    })
}

/// The sparse tensor with nonzeros at these cells, ascending.
pub(crate) fn sparse(dtype: DType, dims: &[u64], cells: &[u64], seed: u64) -> SparseTensor {
    let mut coords = vec![0i64; dims.len() * cells.len()];
    for (i, cell) in cells.iter().enumerate() {
        let mut rest = *cell;
        for (axis, dim) in dims.iter().enumerate().rev() {
            coords[axis * cells.len() + i] = (rest % dim) as i64;
            rest /= dim;
        }
    }
    let values: Vec<u8> = cells.iter().flat_map(|cell| element_bytes(dtype, seed, *cell)).collect();
    let shape = Shape::new(dims.to_vec()).unwrap();
    SparseTensor::new(
        dtype,
        shape,
        Buffer::from_elements(&coords),
        Buffer::from_slice(&values),
        Duplicates::Refuse,
    )
    .unwrap()
}

pub(crate) fn dense_tensors() -> impl Strategy<Value = Tensor> {
    (dtypes(), shapes(0), any::<u64>()).prop_map(|(dtype, dims, seed)| {
        let cells: u64 = dims.iter().product();
        let bytes: Vec<u8> = (0..cells).flat_map(|cell| element_bytes(dtype, seed, cell)).collect();
        Tensor::new(dtype, Shape::new(dims).unwrap(), Buffer::from_slice(&bytes)).unwrap()
    })
}

/// Numbers from which the options of a layout are made, whatever the rank.
pub(crate) fn knobs() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(any::<u64>(), 12)
}

pub(crate) fn permutation(rank: usize, knobs: &[u64]) -> Vec<usize> {
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.sort_by_key(|axis| knobs[*axis]);
    axes
}

pub(crate) fn box_shape(dims: &[u64], knobs: &[u64]) -> Vec<u64> {
    dims.iter().zip(knobs).map(|(dim, knob)| knob % (dim + 2) + 1).collect()
}

/// One packed layout of each kind.
pub(crate) fn packed_layouts(dims: &[u64], knobs: &[u64]) -> Vec<Layout> {
    let split = (knobs[6] % (dims.len() as u64 + 1)) as usize;
    vec![
        Layout::CompressedRows { split },
        Layout::CompressedColumns { split },
        Layout::FiberTree { axis_order: permutation(dims.len(), knobs) },
        Layout::SparseBlocks {
            block_shape: box_shape(dims, &knobs[5..]),
            axis_order: permutation(dims.len(), knobs),
        },
    ]
}

pub(crate) fn sparse_header(tensor: &SparseTensor, layout: Layout) -> Header {
    Header {
        dtype: tensor.dtype(),
        shape: tensor.shape().clone(),
        layout,
        nnz: Some(tensor.nnz() as u64),
        compression: Compression::None,
        reasons: vec![],
    }
}

pub(crate) fn dense_header(tensor: &Tensor, knobs: &[u64]) -> Header {
    Header {
        dtype: tensor.dtype(),
        shape: tensor.shape().clone(),
        layout: Layout::DenseChunks { chunk_shape: box_shape(tensor.shape().dims(), knobs) },
        nnz: None,
        compression: match knobs[7] % 3 {
            0 => Compression::None,
            1 => Compression::Lz4,
            _ => Compression::Zstd { level: 1 },
        },
        reasons: vec![],
    }
}

/// A chunk row that outlives its encoder.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) coords: Coords,
    pub(crate) codec: Codec,
    pub(crate) crc: u32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) nnz: u64,
}

impl Row {
    pub(crate) fn stored(&self) -> StoredChunk<'_> {
        StoredChunk { coords: self.coords, codec: self.codec, bytes: &self.bytes }
    }
}

pub(crate) fn encode(header: &Header, value: Value<'_>) -> Vec<Row> {
    let encoder = encoder(header, value).unwrap();
    let mut scratch = Scratch::new();
    let mut rows = Vec::new();
    for i in 0..encoder.len() {
        let chunk = encoder.encode(i, &mut scratch).unwrap();
        rows.push(Row {
            coords: chunk.coords,
            codec: chunk.codec,
            crc: chunk.crc,
            bytes: chunk.bytes.to_vec(),
            nnz: chunk.nnz,
        });
    }
    rows
}

pub(crate) fn index_of(header: &Header, rows: &[Row]) -> ChunkIndex {
    let column = |k: usize| rows.iter().map(|row| row.coords[k]).collect();
    ChunkIndex::new((0..coordinate_columns(header)).map(column).collect()).unwrap()
}

/// Reads a selection the way a table does: wanted rows only.
pub(crate) fn read_packed(
    header: &Header,
    rows: &[Row],
    selection: &Selection,
) -> Result<SparseTensor, LayoutError> {
    let fetched: Vec<StoredChunk<'_>> =
        wanted(header, selection, &index_of(header, rows)).into_iter().map(|i| rows[i].stored()).collect();
    read_sparse(header, selection, &fetched, Pool::process().team(2))
}

pub(crate) fn read_dense(
    header: &Header,
    rows: &[Row],
    selection: &Selection,
) -> Result<Tensor, LayoutError> {
    let mut out = Tensor::zeros(header.dtype, selection.output_shape().clone()).unwrap();
    let target = Target::new(out.bytes_mut());
    let mut scratch = Scratch::new();
    for i in wanted(header, selection, &index_of(header, rows)) {
        let row = &rows[i];
        let (_, extent) = lacus_layout::chunk_extent(header, &row.coords)?;
        let mut chunk = vec![0; extent.iter().product::<u64>() as usize * header.dtype.size_bytes()];
        decode_dense(header, &row.coords, row.codec, &row.bytes, &mut chunk, &mut scratch)?;
        let copy =
            dense_copy(header, &row.coords, selection).expect("a wanted chunk holds something selected");
        copy.scatter(&chunk, &target).unwrap();
    }
    Ok(out)
}

/// A selection made from numbers; `None` if numpy would refuse it.
pub(crate) fn selection(shape: &Shape, knobs: &[u64]) -> Option<Selection> {
    let mut indices = Vec::new();
    for (axis, dim) in shape.dims().iter().enumerate() {
        let knob = knobs[axis];
        let dim = *dim as i64;
        let at = |shift: u32| (knob >> shift) as i64 % (dim + 1);
        match knob % 9 {
            0 | 1 if dim > 0 => {
                indices.push(Index::At((knob >> 8) as i64 % dim - (knob >> 40 & 1) as i64 * dim))
            }
            2 | 3 => indices.push(Index::Slice { start: Some(at(8)), stop: Some(at(20)), step: None }),
            4 => {
                let step = [-3, -2, -1, 2, 3][(knob >> 8) as usize % 5];
                let bound = |shift: u32| (knob >> shift & 1 == 0).then(|| at(shift));
                indices.push(Index::Slice { start: bound(12), stop: bound(30), step: Some(step) });
            }
            5 if dim > 0 => {
                let count = knob >> 8 & 3;
                let values = (0..count).map(|k| (knob >> (10 + 5 * k)) as i64 % dim).collect();
                indices.push(Index::List { dims: vec![count], values });
            }
            6 if dim > 0 => {
                let bits = (0..dim).map(|k| knob >> (8 + k % 50) & 1 == 1).collect();
                indices.push(Index::Mask { dims: vec![dim as u64], bits });
            }
            _ => indices.push(Index::Slice { start: None, stop: None, step: None }),
        }
        if knob >> 60 == 7 {
            indices.push(Index::NewAxis);
        }
    }
    Selection::resolve(shape, &indices).ok()
}
