//! Rewrites some chunks of a dense array: a region, an edge that moved, a part that was cut off.
//!
//! Only touched chunks are encoded anew. One that is covered whole is made from the new values
//! alone; any other is read first and patched.

use std::borrow::Cow;
use std::sync::Mutex;

use lacus_io::Store;
use lacus_layout::{
    Compression, Coords, EncodeChunks, EncodedChunk, Header, Layout, LayoutError, Scratch, Value,
    chunk_extent, decode_dense, dense_copy, encoder,
};
use lacus_tensor::{Buffer, Index, Selection, Shape, Target, TensorRef};

use crate::error::TableError;
use crate::read::arrays::read_stored;
use crate::read::tensor_index::TensorIndex;

/// New values for a selection of the array, in C order.
pub(crate) struct Overlay<'a> {
    pub selection: Selection,
    pub values: Cow<'a, [u8]>,
}

/// Encodes the touched chunks of an array under its new header.
pub(crate) struct RegionEncoder<'a> {
    pub store: &'a Store,
    pub runtime: tokio::runtime::Handle,
    /// The array as it is stored.
    pub old: &'a TensorIndex,
    /// What it will be.
    pub header: &'a Header,
    /// The touched chunks, sorted.
    pub chunks: &'a [Coords],
    pub overlay: Option<Overlay<'a>>,
    /// Why a stored chunk could not be read, for the caller to report.
    pub failed: &'a Mutex<Option<TableError>>,
}

impl EncodeChunks for RegionEncoder<'_> {
    fn len(&self) -> usize {
        self.chunks.len()
    }

    fn encode<'a>(&'a self, i: usize, scratch: &'a mut Scratch) -> Result<EncodedChunk<'a>, LayoutError> {
        let coords = self.chunks[i];
        let (origin, extent) = chunk_extent(self.header, &coords)?;
        let shape = Shape::new(extent.clone())?;
        let length = shape.byte_len(self.header.dtype)?;
        let mut bytes = Buffer::zeroed(length);
        let copy = self.overlay.as_ref().and_then(|o| dense_copy(self.header, &coords, &o.selection));
        if !copy.as_ref().is_some_and(|c| c.covers_box()) {
            self.patch_from_old(&coords, &origin, &extent, &mut bytes, scratch)?;
        }
        if let (Some(copy), Some(overlay)) = (&copy, &self.overlay) {
            copy.gather(&overlay.values, &mut bytes);
        }
        encode_one(self.header, &coords, &bytes, scratch, |chunk| {
            Ok(EncodedChunk { coords, bytes: Cow::Owned(chunk.bytes.into_owned()), ..chunk })
        })
    }
}

/// Encodes the bytes of one chunk of a dense array, and lends what they have become. One chunk is a tensor of one chunk:
/// the layout's own encoder does it.
pub(crate) fn encode_one<T>(
    header: &Header,
    coords: &Coords,
    bytes: &[u8],
    scratch: &mut Scratch,
    then: impl FnOnce(EncodedChunk<'_>) -> Result<T, LayoutError>,
) -> Result<T, LayoutError> {
    let (_, extent) = chunk_extent(header, coords)?;
    let shape = Shape::new(extent.clone())?;
    let single = Header {
        dtype: header.dtype,
        shape: shape.clone(),
        layout: Layout::DenseChunks { chunk_shape: extent.iter().map(|&e| e.max(1)).collect() },
        nnz: None,
        compression: header.compression,
        reasons: Vec::new(),
    };
    let value = TensorRef::contiguous(header.dtype, &shape, bytes)?;
    let encode = encoder(&single, Value::Dense(value))?;
    then(encode.encode(0, scratch)?)
}

impl RegionEncoder<'_> {
    /// Fills a chunk's memory with what is stored of it.
    fn patch_from_old(
        &self,
        coords: &Coords,
        origin: &[u64],
        extent: &[u64],
        bytes: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), LayoutError> {
        let Some(i) = self.old.chunks.find(coords) else { return Ok(()) };
        let (_, old_extent) = chunk_extent(&self.old.header, coords)?;
        let item = self.header.dtype.size_bytes();
        let old_length = old_extent.iter().product::<u64>() as usize * item;
        let stored = self.runtime.block_on(read_stored(self.store, self.old, &[i])).map_err(|e| {
            let what = e.to_string();
            self.failed.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(e);
            LayoutError::Corrupt { what: "stored chunk", detail: what }
        })?;
        let mut old_bytes = vec![0; old_length];
        decode_dense(
            &self.old.header,
            coords,
            self.old.places[i].codec,
            &stored[0],
            &mut old_bytes,
            scratch,
        )?;
        if old_extent == extent {
            bytes.copy_from_slice(&old_bytes);
            return Ok(());
        }
        // The edge moved: only the part both extents share is kept.
        let shared: Vec<Index> = old_extent
            .iter()
            .zip(extent)
            .map(|(&o, &n)| Index::Slice { start: Some(0), stop: Some(o.min(n) as i64), step: None })
            .collect();
        let old_shape = Shape::new(old_extent.clone())?;
        let new_shape = Shape::new(extent.to_vec())?;
        let from = Selection::resolve(&old_shape, &shared)?;
        let to = Selection::resolve(&new_shape, &shared)?;
        let zero = vec![0; origin.len()];
        let mut common = vec![0; from.output_elements() as usize * item];
        if let Some(copy) = lacus_tensor::BoxCopy::plan(&from, &zero, &old_extent, item) {
            copy.scatter(&old_bytes, &Target::new(&mut common))?;
        }
        if let Some(copy) = lacus_tensor::BoxCopy::plan(&to, &zero, extent, item) {
            copy.gather(&common, bytes);
        }
        Ok(())
    }
}

/// The chunks of the grid that a selection touches, sorted.
pub(crate) fn touched_chunks(header: &Header, selection: &Selection) -> Result<Vec<Coords>, TableError> {
    let sides = header
        .chunk_shape()
        .ok_or_else(|| TableError::refused("write a region", "only dense arrays are written in parts"))?;
    let Some(bounds) = selection.bounding_box() else { return Ok(Vec::new()) };
    let mut per_axis: Vec<(u64, u64)> = Vec::with_capacity(sides.len());
    for (&(low, high), &side) in bounds.iter().zip(sides) {
        per_axis.push((low / side.max(1), high.div_ceil(side.max(1))));
    }
    let mut touched = Vec::new();
    let mut at: Vec<u64> = per_axis.iter().map(|&(low, _)| low).collect();
    if sides.is_empty() {
        return Ok(vec![Coords::new(&[0]).unwrap_or_default()]);
    }
    'grid: loop {
        let longs: Vec<i64> = at.iter().map(|&c| c as i64).collect();
        let coords =
            Coords::new(&longs).ok_or_else(|| TableError::refused("write a region", "too many axes"))?;
        if dense_copy(header, &coords, selection).is_some() {
            touched.push(coords);
        }
        for axis in (0..at.len()).rev() {
            at[axis] += 1;
            if at[axis] < per_axis[axis].1 {
                continue 'grid;
            }
            at[axis] = per_axis[axis].0;
        }
        break;
    }
    Ok(touched)
}

/// The header of the same array with another first dimension.
pub(crate) fn with_first_dimension(header: &Header, first: u64) -> Result<Header, TableError> {
    let mut dims = header.shape.dims().to_vec();
    match dims.first_mut() {
        Some(dim) => *dim = first,
        None => return Err(TableError::refused("resize", "a scalar has no first axis")),
    }
    Ok(Header { shape: Shape::new(dims)?, ..header.clone() })
}

/// Chunks whose extent differs between two headers that differ in the first dimension, and chunks
/// that the new one no longer has.
pub(crate) fn moved_edge(old: &TensorIndex, new: &Header) -> Result<(Vec<Coords>, Vec<Coords>), TableError> {
    let (mut changed, mut dropped) = (Vec::new(), Vec::new());
    let side = new.chunk_shape().and_then(|s| s.first().copied()).unwrap_or(1).max(1);
    let rows = new.shape.dims().first().map_or(1, |&dim| dim.div_ceil(side));
    for i in 0..old.chunks.len() {
        let coords = old.chunks.coords(i);
        if coords[0] as u64 >= rows {
            dropped.push(coords);
        } else if chunk_extent(&old.header, &coords)?.1 != chunk_extent(new, &coords)?.1 {
            changed.push(coords);
        }
    }
    Ok((changed, dropped))
}

/// Bytes the raw chunks of a dense tensor take in a file, when that can be told beforehand.
pub(crate) fn expected_bytes(header: &Header) -> u64 {
    match header.compression {
        Compression::None if !header.layout.is_sparse() => {
            header.shape.byte_len(header.dtype).map_or(0, |n| n as u64)
        }
        _ => 0,
    }
}
