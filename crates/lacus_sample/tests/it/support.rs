//! Columns, samples and the short way through encode and decode.

use lacus_sample::{
    Blob, Column, ColumnSpec, Form, Sample, SampleError, Stored, TileRef, Tiling, Value, decode_blob,
    decode_scalar, decode_text, encode, tiles_wanted,
};
use lacus_tensor::{Buffer, DType, Element, Index, Shape, Tensor};
use proptest::prelude::*;
use serde_json::{Map, Value as Json};

/// Settings of all properties: no files are left behind.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

pub(crate) fn spec(htype: &str) -> ColumnSpec {
    ColumnSpec { htype: Some(htype.to_owned()), ..ColumnSpec::default() }
}

pub(crate) fn column(htype: &str) -> Column {
    Column::new(&spec(htype)).unwrap()
}

pub(crate) fn with_options(htype: &str, options: Json) -> Column {
    Column::new(&ColumnSpec { options: map(options), ..spec(htype) }).unwrap()
}

pub(crate) fn compressed(htype: &str, compression: &str) -> Column {
    Column::new(&ColumnSpec { compression: Some(compression.to_owned()), ..spec(htype) }).unwrap()
}

/// A generic column; tiles of some hundred bytes, so that small tensors have many.
pub(crate) fn generic(dtype: DType, shape: Option<Vec<Option<u64>>>, compression: &str) -> Column {
    let spec = ColumnSpec {
        dtype: Some(dtype),
        shape,
        compression: Some(compression.to_owned()),
        ..ColumnSpec::default()
    };
    Column::new(&spec).unwrap().with_tiling(Tiling::new(2000, 500).unwrap())
}

pub(crate) fn map(value: Json) -> Map<String, Json> {
    value.as_object().cloned().unwrap()
}

pub(crate) fn tensor<T: Element>(dtype: DType, dims: &[u64], values: &[T]) -> Tensor {
    Tensor::new(dtype, Shape::new(dims).unwrap(), Buffer::from_elements(values)).unwrap()
}

pub(crate) fn dtypes() -> impl Strategy<Value = DType> {
    proptest::sample::select(DType::ALL.to_vec())
}

/// Shapes of up to five axes, some of them empty.
pub(crate) fn shapes() -> impl Strategy<Value = Vec<u64>> {
    let dims = proptest::collection::vec(prop_oneof![8 => 1u64..6, 1 => Just(0), 3 => 6u64..40], 0..=5);
    dims.prop_map(|mut dims| {
        while dims.iter().product::<u64>() > 10_000 {
            let longest = (0..dims.len()).max_by_key(|axis| dims[*axis]).unwrap_or(0);
            dims[longest] /= 2;
        }
        dims
    })
}

/// Any bits, or few different ones, so that some tensors compress.
pub(crate) fn filled(dtype: DType, dims: &[u64], seed: u64) -> Tensor {
    let shape = Shape::new(dims).unwrap();
    let length = shape.byte_len(dtype).unwrap();
    let byte = |i: usize| {
        let noise = (seed ^ i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let noise = (noise.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u8;
        match (dtype, seed % 3) {
            (DType::Bool, _) => noise & 1,
            (_, 0) => noise & 3,
            (_, 1) if i.is_multiple_of(dtype.size_bytes()) => noise & 7,
            (_, 1) => 0,
            _ => noise,
        }
    };
    let bytes: Vec<u8> = (0..length).map(byte).collect();
    Tensor::new(dtype, shape, Buffer::from_slice(&bytes)).unwrap()
}

pub(crate) fn tensors() -> impl Strategy<Value = Tensor> {
    (dtypes(), shapes(), any::<u64>()).prop_map(|(dtype, dims, seed)| filled(dtype, &dims, seed))
}

/// Indices made from numbers, of any kind. numpy may refuse them.
pub(crate) fn indices(dims: &[u64], knobs: &[u64]) -> Vec<Index> {
    let mut indices = Vec::new();
    for (axis, &dim) in dims.iter().enumerate() {
        let knob = knobs[axis % knobs.len()] >> axis;
        let size = dim as i64;
        let place = |k: u64| (knob >> k) as i64 % (size + 1).max(1);
        indices.push(match knob % 8 {
            0 => Index::At(place(4) - place(5)),
            1 => Index::Slice { start: None, stop: None, step: None },
            2 => Index::Slice { start: Some(place(4)), stop: None, step: Some(1 + place(9) % 3) },
            3 => Index::Slice { start: Some(-place(4)), stop: Some(-1), step: None },
            4 => Index::Slice { start: None, stop: None, step: Some(-1 - place(7) % 3) },
            5 => Index::Slice { start: Some(place(4) / 2), stop: Some(size / 2 + place(9) / 2), step: None },
            6 if size > 0 => {
                Index::List { dims: vec![3], values: vec![place(3) % size, place(8) % size, place(5) % size] }
            }
            6 => Index::NewAxis,
            _ => Index::Mask {
                dims: vec![dim],
                bits: (0..dim).map(|i| (knob ^ i.wrapping_mul(0x9e37_79b9)) & 4 == 0).collect(),
            },
        });
    }
    // Not all axes need an index, and one may stand for several.
    indices.truncate(1 + (knobs[0] >> 50) as usize % 5);
    if knobs[0] >> 60 == 3 {
        indices.insert(0, Index::Ellipsis);
    }
    indices
}

pub(crate) fn knobs() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(any::<u64>(), 5)
}

pub(crate) fn blob(stored: Stored<'_>) -> Blob<'_> {
    match stored {
        Stored::Blob(blob) => blob,
        other => panic!("{other:?} is no blob"),
    }
}

pub(crate) fn tile_refs<'a>(blob: &'a Blob<'_>) -> Vec<TileRef<'a>> {
    let tile = |tile: &'a lacus_sample::Tile<'_>| TileRef {
        coords: tile.coords.clone(),
        codec: tile.codec,
        bytes: &tile.bytes,
    };
    blob.tiles.iter().map(tile).collect()
}

/// What is selected of a stored blob, from no more tiles than are wanted.
pub(crate) fn read(column: &Column, blob: &Blob<'_>, indices: &[Index]) -> Result<Value, SampleError> {
    let wanted = tiles_wanted(column, &blob.shape, indices)?;
    let mut tiles = tile_refs(blob);
    if let Some(wanted) = wanted {
        assert!(wanted.is_sorted());
        tiles.retain(|tile| wanted.contains(&tile.coords));
        assert_eq!(tiles.len(), wanted.len());
    }
    decode_blob(column, &blob.shape, indices, &tiles)
}

/// There and back.
pub(crate) fn round_trip(column: &Column, sample: Sample<'_>) -> Result<Option<Value>, SampleError> {
    match encode(column, sample)? {
        Stored::Missing => Ok(None),
        Stored::Text(text) => decode_text(column, &text).map(Some),
        Stored::Blob(blob) => read(column, &blob, &[]).map(Some),
        scalar => {
            assert!(matches!(column.form(), Form::Int | Form::Float | Form::Real));
            decode_scalar(column, &scalar).map(|tensor| Some(Value::Tensor(tensor)))
        }
    }
}

pub(crate) fn same(column: &Column, sample: Sample<'_>) -> Value {
    round_trip(column, sample).unwrap().unwrap()
}

/// A test file of the media crate.
pub(crate) fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/../lacus_media/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub(crate) fn png(tensor: &Tensor) -> Vec<u8> {
    media(tensor, lacus_media::Format::Png)
}

pub(crate) fn media(tensor: &Tensor, format: lacus_media::Format) -> Vec<u8> {
    lacus_media::encode(tensor.as_ref(), format, &lacus_media::EncodeOptions::default()).unwrap()
}
