//! Elements to bytes and back: raw, or zstd after a byte shuffle, with the codecs of `lacus_layout`.

use std::borrow::Cow;
use std::cell::RefCell;

use lacus_layout::{
    Codec, Coords, DEFAULT_ZSTD_LEVEL, Header, Layout, Scratch, Value, decode_dense, encoder,
};
use lacus_tensor::{DType, Shape, TensorRef};

use crate::column::{Column, Compression};
use crate::elements::Elements;
use crate::error::SampleError;
use crate::htype::Base;

/// One encoded tensor.
#[derive(Debug, Clone)]
pub(crate) struct Piece<'a> {
    pub(crate) shape: Vec<u64>,
    pub(crate) codec: &'static str,
    pub(crate) bytes: Cow<'a, [u8]>,
}

/// What is done to elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Raw,
    /// Compressed if that saves at least an eighth.
    Try,
    Zstd(i32),
}

/// Samples below this are stored as they are: a zstd frame has a cost of its own, in bytes and in time.
const TRY_FROM_BYTES: usize = 512;

/// One element of a sequence and one tile that is compressed hold at most this much, so that no frame of a few bytes
/// makes a reader ask for more.
pub(crate) const LARGEST_PIECE_BYTES: usize = 2 << 30;

thread_local! {
    /// Compressors are costly to make, and most samples small.
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

/// Runs `task` with buffers that fit `bytes`. Those of a rare large piece are not kept.
fn with_scratch<T>(bytes: usize, task: impl FnOnce(&mut Scratch) -> T) -> T {
    const KEPT_UP_TO: usize = 16 << 20;
    match bytes <= KEPT_UP_TO {
        true => SCRATCH.with_borrow_mut(task),
        false => task(&mut Scratch::new()),
    }
}

impl Policy {
    pub(crate) fn of(column: &Column) -> Policy {
        match column.compression() {
            Compression::None => Policy::Raw,
            Compression::Zstd { level } => Policy::Zstd(level),
            // The mantissas of embeddings are noise.
            _ if column.htype().base == Base::Embedding => Policy::Raw,
            Compression::Auto | Compression::Media(_) => Policy::Try,
        }
    }
}

/// Encodes a tensor as one piece. The caller's memory is borrowed where it is stored as it is.
pub(crate) fn pack_whole<'a>(elements: Elements<'a>, policy: Policy) -> Result<Piece<'a>, SampleError> {
    let shape = elements.shape.dims().to_vec();
    let packed = match policy {
        Policy::Raw => None,
        _ => compressed(&elements.view()?, policy)?,
    };
    let (codec, bytes) = match packed {
        Some((codec, bytes)) => (codec, Cow::Owned(bytes)),
        None => (Codec::Raw, elements.bytes),
    };
    Ok(Piece { shape, codec: codec.name(), bytes })
}

/// Encodes one tile of a tensor.
pub(crate) fn pack_tile<'a>(
    tile: &TensorRef<'a>,
    policy: Policy,
) -> Result<(&'static str, Cow<'a, [u8]>), SampleError> {
    if let Some((codec, bytes)) = compressed(tile, policy)? {
        return Ok((codec.name(), Cow::Owned(bytes)));
    }
    Ok((Codec::Raw.name(), Elements::of(tile).bytes))
}

/// The compressed form, if there is one that is worth it.
fn compressed(tensor: &TensorRef<'_>, policy: Policy) -> Result<Option<(Codec, Vec<u8>)>, SampleError> {
    let length = tensor.shape().byte_len(tensor.dtype())?;
    let (level, most) = match policy {
        Policy::Raw => return Ok(None),
        Policy::Try if length < TRY_FROM_BYTES => return Ok(None),
        Policy::Try => (DEFAULT_ZSTD_LEVEL, length - length / 8),
        Policy::Zstd(level) => (level, length),
    };
    if length == 0 {
        return Ok(None);
    }
    let mut header = single(tensor.dtype(), tensor.shape());
    header.compression = lacus_layout::Compression::Zstd { level };
    let encoder = encoder(&header, Value::Dense(tensor.clone()))?;
    with_scratch(length, |scratch| {
        let chunk = encoder.encode(0, scratch)?;
        let is_worth_it = chunk.codec != Codec::Raw && chunk.bytes.len() <= most;
        Ok(is_worth_it.then(|| (chunk.codec, chunk.bytes.into_owned())))
    })
}

/// Decodes the bytes of one box of elements into `out`, which has exactly its length.
///
/// Fails with a corrupt error if they do not hold it.
pub(crate) fn unpack_into(
    codec: Codec,
    dtype: DType,
    extent: &[u64],
    bytes: &[u8],
    out: &mut [u8],
) -> Result<(), SampleError> {
    if codec == Codec::Raw || out.is_empty() {
        if bytes.len() != out.len() {
            let detail = format!("{} bytes where {} belong", bytes.len(), out.len());
            return Err(SampleError::corrupt("raw sample", detail));
        }
        out.copy_from_slice(bytes);
        return Ok(());
    }
    check_claim(bytes.len(), out.len())?;
    let shape = Shape::new(extent)?;
    let header = single(dtype, &shape);
    let origin = Coords::new(&[0; lacus_tensor::MAX_RANK][..extent.len().max(1)]).unwrap_or_default();
    with_scratch(out.len(), |scratch| Ok(decode_dense(&header, &origin, codec, bytes, out, scratch)?))
}

/// Fails if a compressed piece cannot be as long as it is said to be. To be asked before memory is taken for it.
pub(crate) fn check_claim(stored: usize, claimed: usize) -> Result<(), SampleError> {
    // The densest block of zstd is 128 KiB in 4 bytes.
    const DENSEST: usize = 32 << 10;
    match claimed <= LARGEST_PIECE_BYTES && claimed / DENSEST <= stored {
        true => Ok(()),
        false => {
            let detail = format!("{stored} bytes cannot hold the {claimed} of the shape");
            Err(SampleError::corrupt("compressed sample", detail))
        }
    }
}

/// The header of a tensor that is a single chunk.
fn single(dtype: DType, shape: &Shape) -> Header {
    Header {
        dtype,
        shape: shape.clone(),
        layout: Layout::DenseChunks { chunk_shape: shape.dims().iter().map(|size| (*size).max(1)).collect() },
        nnz: None,
        compression: lacus_layout::Compression::None,
        reasons: Vec::new(),
    }
}
