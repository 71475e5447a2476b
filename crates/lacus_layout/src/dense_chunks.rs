//! Dense chunks (FTSF, the Flattened Tensor Storage Format of the Delta Tensor paper).
//!
//! **What it stores.** Every element, in boxes of a regular grid. The paper's chunks are whole trailing
//! axes (`chunk_rank`); here a chunk may be any box, of which that is one case.
//!
//! **When it wins.** Whenever more than about a tenth of the elements are nonzero: there is nothing to
//! remember beside the elements, a chunk that is selected whole is read straight into place, and a chunk
//! can be changed alone.
//!
//! **The row layout.** One row per chunk: `c0 … c(n-1)` are the chunk's place in the grid, so element `e`
//! of axis `k` lies in the chunk with `ck = e / chunk_shape[k]`. A tensor of rank 0 has the single
//! coordinate `c0 = 0`. The bytes are the elements in C order, little-endian; chunks at the upper edge are
//! trimmed, not padded. The codec says whether they are `raw`, `zstd` or `shuffle<w>+zstd`. A row that is
//! not there means zeros.
//!
//! ```
//! use lacus_layout::{Compression, Header, Layout, Scratch, Value, decode_dense, encoder};
//! use lacus_tensor::{DType, Shape, TensorRef};
//!
//! let shape = Shape::new(vec![2, 3]).unwrap();
//! let header = Header {
//!     dtype: DType::U8,
//!     shape: shape.clone(),
//!     layout: Layout::DenseChunks { chunk_shape: vec![2, 2] },
//!     nnz: None,
//!     compression: Compression::None,
//!     reasons: vec![],
//! };
//! let bytes = [1, 2, 3, 4, 5, 6];
//! let chunks = encoder(&header, Value::Dense(TensorRef::contiguous(DType::U8, &shape, &bytes).unwrap())).unwrap();
//! let mut scratch = Scratch::new();
//! let last = chunks.encode(1, &mut scratch).unwrap();
//! assert_eq!((&last.coords[..], &last.bytes[..]), (&[0, 1][..], &[3, 6][..]));
//!
//! let mut out = [0; 2];
//! decode_dense(&header, &last.coords, last.codec, &last.bytes, &mut out, &mut Scratch::new()).unwrap();
//! assert_eq!(out, [3, 6]);
//! ```

use std::borrow::Cow;

use lacus_tensor::{BoxCopy, Selection, TensorRef};

use crate::bit_planes::{from_planes, to_planes};
use crate::chunk::{Codec, Coords, EncodeChunks, EncodedChunk, Scratch};
use crate::compress::{
    Compression, DEFAULT_ZSTD_LEVEL, SHUFFLE_WIDTHS, lz4_compress, lz4_decompress, shuffle, unshuffle,
};
use crate::error::LayoutError;
use crate::header::{Header, Layout};

/// A dense tensor cut into the chunks of its grid.
pub(crate) struct DenseEncoder<'a> {
    tensor: TensorRef<'a>,
    header: Header,
    grid: Vec<u64>,
    len: usize,
    codec: Codec,
}

impl<'a> DenseEncoder<'a> {
    pub(crate) fn new(header: &Header, tensor: TensorRef<'a>) -> Result<DenseEncoder<'a>, LayoutError> {
        let Layout::DenseChunks { chunk_shape } = &header.layout else {
            return Err(LayoutError::unsupported(
                header.layout.name(),
                "takes a sparse tensor, not a dense one",
            ));
        };
        let grid: Vec<u64> =
            header.shape.dims().iter().zip(chunk_shape).map(|(dim, side)| dim.div_ceil(*side)).collect();
        let len = crate::header::product(&grid).and_then(|len| usize::try_from(len).ok());
        let len = len.ok_or_else(|| LayoutError::unsupported("FTSF", "more chunks than memory can count"))?;
        let mut encoder = DenseEncoder { tensor, header: header.clone(), grid, len, codec: Codec::Raw };
        encoder.codec = match header.compression {
            Compression::None => Codec::Raw,
            Compression::Lz4 => Codec::BitsLz4 { width: header.dtype.size_bytes() as u8 },
            Compression::Zstd { level } => encoder.better_codec(level)?,
        };
        Ok(encoder)
    }

    /// Shuffled or not: tried on the first part of a few chunks spread over the tensor.
    fn better_codec(&self, level: i32) -> Result<Codec, LayoutError> {
        let width = self.header.dtype.size_bytes();
        if !SHUFFLE_WIDTHS.contains(&width) || self.len == 0 {
            return Ok(Codec::Zstd);
        }
        let shuffled = Codec::ShuffleZstd { width: width as u8 };
        let mut scratch = Scratch::new();
        let mut sizes = [0usize; 2];
        for k in 0..SAMPLES.min(self.len) {
            let i = self.len * k / SAMPLES.min(self.len);
            let (origin, extent) = chunk_extent(&self.header, &self.coords(i))?;
            // Whole leading slabs of the chunk, so that the sample keeps the order of the bytes.
            let mut extent = extent;
            for axis in 0..extent.len() {
                let rest: u64 = extent[axis + 1..].iter().product::<u64>() * width as u64;
                extent[axis] = extent[axis].min((SAMPLE_BYTES / rest.max(1)).max(1));
            }
            let sample = self.tensor.region(&origin, &extent);
            gather(&sample, &mut scratch.gathered);
            let Scratch { packer, gathered, shuffled, out, .. } = &mut scratch;
            let zstd = &mut packer.zstd;
            zstd.compress(gathered, level, out)?;
            sizes[0] += out.len();
            shuffled.resize(gathered.len(), 0);
            shuffle(gathered, width, shuffled);
            zstd.compress(shuffled, level, out)?;
            sizes[1] += out.len();
        }
        Ok(if sizes[0] < sizes[1] { Codec::Zstd } else { shuffled })
    }

    fn coords(&self, i: usize) -> Coords {
        if self.grid.is_empty() {
            return Coords::of([0]);
        }
        let mut rest = i as u64;
        let mut place = [0u64; lacus_tensor::MAX_RANK];
        for (slot, count) in place.iter_mut().zip(&self.grid).rev() {
            *slot = rest % count;
            rest /= count;
        }
        Coords::of(place.into_iter().take(self.grid.len()))
    }
}

/// Enough to tell shuffled from not shuffled, in about a millisecond.
const SAMPLES: usize = 4;
const SAMPLE_BYTES: u64 = 64 << 10;

impl EncodeChunks for DenseEncoder<'_> {
    fn len(&self) -> usize {
        self.len
    }

    fn encode<'a>(&'a self, i: usize, scratch: &'a mut Scratch) -> Result<EncodedChunk<'a>, LayoutError> {
        let coords = self.coords(i);
        let (origin, extent) = chunk_extent(&self.header, &coords)?;
        let region = self.tensor.region(&origin, &extent);
        let Scratch { packer, gathered, shuffled, planes, out, .. } = scratch;
        let zstd = &mut packer.zstd;
        let raw: &[u8] = match region.contiguous_bytes() {
            Some(bytes) => bytes,
            None => {
                gather(&region, gathered);
                gathered
            }
        };
        let nnz = if is_zero(raw) { 0 } else { extent.iter().product() };
        let level = match self.header.compression {
            Compression::Zstd { level } => level,
            Compression::None | Compression::Lz4 => DEFAULT_ZSTD_LEVEL,
        };
        match self.codec {
            Codec::Raw | Codec::Packed => {
                return Ok(EncodedChunk::new(coords, Codec::Raw, Cow::Borrowed(raw), nnz));
            }
            Codec::Zstd => zstd.compress(raw, level, out)?,
            Codec::ShuffleZstd { width } => {
                shuffled.resize(raw.len(), 0);
                shuffle(raw, width as usize, shuffled);
                zstd.compress(shuffled, level, out)?;
            }
            Codec::BitsLz4 { width } => {
                shuffled.resize(raw.len(), 0);
                if width > 1 {
                    shuffle(raw, width as usize, shuffled);
                    planes.resize(raw.len(), 0);
                    to_planes(shuffled, planes);
                    std::mem::swap(planes, shuffled);
                } else {
                    to_planes(raw, shuffled);
                }
                lz4_compress(shuffled, out)?;
            }
        }
        if out.len() < raw.len() {
            return Ok(EncodedChunk::new(coords, self.codec, Cow::Borrowed(out), nnz));
        }
        Ok(EncodedChunk::new(coords, Codec::Raw, Cow::Borrowed(raw), nnz))
    }
}

fn gather(region: &TensorRef<'_>, target: &mut Vec<u8>) {
    let elements: u64 = region.shape().dims().iter().product();
    target.resize(elements as usize * region.dtype().size_bytes(), 0);
    region.copy_to(target);
}

fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<64>();
    words.iter().all(|word| word.iter().fold(0, |any, byte| any | byte) == 0)
        && rest.iter().all(|byte| *byte == 0)
}

/// Where the chunk or block at `coords` lies in the tensor: its origin, and its extent after trimming.
///
/// Fails with a corrupt error if the grid has no such place, with an invalid one if the layout has no grid.
pub fn chunk_extent(header: &Header, coords: &Coords) -> Result<(Vec<u64>, Vec<u64>), LayoutError> {
    let sides = header.chunk_shape().ok_or_else(|| {
        LayoutError::unsupported(header.layout.name(), "this layout has runs of nonzeros, not boxes")
    })?;
    let outside = || {
        LayoutError::corrupt(
            "chunk coordinates",
            format!("{coords:?} is no place in the grid of {sides:?} boxes over {}", header.shape),
        )
    };
    let dims = header.shape.dims();
    if dims.is_empty() {
        return if coords[..] == [0] { Ok((vec![], vec![])) } else { Err(outside()) };
    }
    if coords.len() != dims.len() {
        return Err(outside());
    }
    let mut origin = Vec::with_capacity(dims.len());
    let mut extent = Vec::with_capacity(dims.len());
    for ((at, side), dim) in coords.iter().zip(sides).zip(dims) {
        let first = u64::try_from(*at).ok().and_then(|at| at.checked_mul(*side)).filter(|first| first < dim);
        let first = first.ok_or_else(outside)?;
        origin.push(first);
        extent.push((*side).min(dim - first));
    }
    Ok((origin, extent))
}

/// Which elements of the chunk at `coords` go where in the selection's output; `None` if none do, or if
/// the coordinates are no place in the grid.
pub fn dense_copy(header: &Header, coords: &Coords, selection: &Selection) -> Option<BoxCopy> {
    let (origin, extent) = chunk_extent(header, coords).ok()?;
    BoxCopy::plan(selection, &origin, &extent, header.dtype.size_bytes())
}

/// Decodes a dense chunk into `out`, which must have exactly its length (the product of its extent times
/// the element size). Uncompressed and unshuffled chunks go straight there.
///
/// Fails with a corrupt error if the bytes do not hold that chunk; `out` may then be partly written.
pub fn decode_dense(
    header: &Header,
    coords: &Coords,
    codec: Codec,
    bytes: &[u8],
    out: &mut [u8],
    scratch: &mut Scratch,
) -> Result<(), LayoutError> {
    let (_, extent) = chunk_extent(header, coords)?;
    let length = extent.iter().product::<u64>() * header.dtype.size_bytes() as u64;
    if out.len() as u64 != length {
        return Err(LayoutError::unsupported(
            header.layout.name(),
            format!("the chunk at {coords:?} has {length} bytes, not the {} asked for", out.len()),
        ));
    }
    match codec {
        Codec::Raw if bytes.len() == out.len() => out.copy_from_slice(bytes),
        Codec::Raw => {
            return Err(LayoutError::corrupt(
                "dense chunk",
                format!("{} raw bytes at {coords:?} where {length} belong", bytes.len()),
            ));
        }
        Codec::Zstd => scratch.packer.zstd.decompress(bytes, out)?,
        Codec::ShuffleZstd { width } if out.len().is_multiple_of(width as usize) => {
            scratch.shuffled.resize(out.len(), 0);
            scratch.packer.zstd.decompress(bytes, &mut scratch.shuffled)?;
            unshuffle(&scratch.shuffled, width as usize, out);
        }
        Codec::BitsLz4 { width: 1 } => {
            scratch.shuffled.resize(out.len(), 0);
            lz4_decompress(bytes, &mut scratch.shuffled)?;
            from_planes(&scratch.shuffled, out);
        }
        Codec::BitsLz4 { width } if out.len().is_multiple_of(width as usize) => {
            scratch.shuffled.resize(out.len(), 0);
            lz4_decompress(bytes, &mut scratch.shuffled)?;
            scratch.planes.resize(out.len(), 0);
            from_planes(&scratch.shuffled, &mut scratch.planes);
            unshuffle(&scratch.planes, width as usize, out);
        }
        Codec::ShuffleZstd { .. } | Codec::BitsLz4 { .. } | Codec::Packed => {
            return Err(LayoutError::corrupt(
                "dense chunk",
                format!("the codec {codec} does not fit {}", header.dtype),
            ));
        }
    }
    Ok(())
}
