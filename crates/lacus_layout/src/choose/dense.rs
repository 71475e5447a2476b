//! The choice for dense tensors: sparse after all, chunk shape, compression.

use lacus_tensor::{DType, Shape, TensorRef, count_nonzero};

use crate::choose::{Choice, CompressionWish, Named, Optimize, Wish, percent, with_commas};
use crate::chunk::{Scratch, Value};
use crate::compress::{Compression, DEFAULT_ZSTD_LEVEL, SHUFFLE_WIDTHS, shuffle};
use crate::error::LayoutError;
use crate::header::{Header, Layout};

/// Chooses for a dense value: a header, or [`Choice::Sparse`] if a sparse layout was asked for or is
/// clearly better.
///
/// Fails with an invalid error if the wish cannot be fulfilled.
pub fn choose_dense(tensor: &TensorRef<'_>, wish: &Wish) -> Result<Choice, LayoutError> {
    let mut reasons = Vec::new();
    match wish.named()? {
        Named::Dense => reasons.push("dense layout asked for".to_string()),
        Named::Auto => match sparse_reasons(tensor)? {
            Ok(reasons) => return Ok(Choice::Sparse { reasons }),
            Err(why_dense) => reasons.push(why_dense),
        },
        _ => return Ok(Choice::Sparse { reasons: vec!["sparse layout asked for".to_string()] }),
    }
    let (dtype, shape) = (tensor.dtype(), tensor.shape());
    let chunk_shape = match (&wish.chunk_shape, wish.chunk_rank) {
        (Some(chunk_shape), _) => chunk_shape.clone(),
        (None, Some(rank)) => whole_trailing_axes(shape, rank)?,
        (None, None) => default_chunk_shape(shape, dtype),
    };
    let mut header = Header {
        dtype,
        shape: shape.clone(),
        layout: Layout::DenseChunks { chunk_shape },
        nnz: None,
        compression: Compression::None,
        reasons,
    };
    header.check()?;
    match wish.compression {
        CompressionWish::None => {}
        CompressionWish::Lz4 => header.compression = Compression::Lz4,
        CompressionWish::Zstd(level) => header.compression = format!("zstd:{level}").parse()?,
        CompressionWish::Auto => {
            let (levels, keep_below): (&[i32], f64) = match wish.optimize {
                Optimize::Slices => (&[DEFAULT_ZSTD_LEVEL], WORTH_DECOMPRESSING),
                Optimize::Size => (&SIZE_LEVELS, 0.98),
            };
            let mut best = (f64::MAX, DEFAULT_ZSTD_LEVEL);
            for level in levels {
                let ratio = compressed_part(tensor, *level)?;
                best = if ratio < best.0 { (ratio, *level) } else { best };
            }
            let (ratio, level) = best;
            if ratio < keep_below {
                header.compression = Compression::Zstd { level };
                header.reasons.push(format!("a sample compresses to {}", percent(ratio)));
            } else {
                header
                    .reasons
                    .push(format!("a sample compresses to {} only: stored as it is", percent(ratio)));
            }
        }
    }
    Ok(Choice::Header(header))
}

/// The levels tried for `optimize = size`: which is better depends on the data; higher ones gain little and
/// take many times as long.
const SIZE_LEVELS: [i32; 2] = [3, 9];

/// What is compressed is decoded at about a gigabyte a second and core, what is not is read straight into
/// place several times as fast; this much smaller it has to be.
const WORTH_DECOMPRESSING: f64 = 0.7;

/// Tensors below this stay dense: a block or a run would not be smaller than their rows.
const SPARSE_FROM_BYTES: u64 = 64 << 10;

/// Denser tensors stay dense: the paper's rule of thumb, and what nearly all public sparse tensors keep to.
const SPARSE_BELOW: f64 = 0.1;

/// Why a tensor should be sparse, or else why it is dense.
fn sparse_reasons(tensor: &TensorRef<'_>) -> Result<Result<Vec<String>, String>, LayoutError> {
    let shape = tensor.shape();
    let elements = shape.elements_saturating();
    let width = tensor.dtype().size_bytes() as u64;
    if shape.rank() == 0 || elements.saturating_mul(width) < SPARSE_FROM_BYTES {
        return Ok(Err("dense: too small to gain from a sparse layout".into()));
    }
    let sampled = sampled_density(tensor);
    if sampled > 2.0 * SPARSE_BELOW {
        return Ok(Err(format!("dense: about {} of a sample is nonzero", percent(sampled))));
    }
    let nnz = count_nonzero(tensor);
    let density = nnz as f64 / elements as f64;
    if nnz == 0 {
        // Likely to be filled later.
        return Ok(Err("dense: all zeros, and chunks of zeros are not stored".into()));
    }
    if density >= SPARSE_BELOW {
        return Ok(Err(format!("dense: {} of the elements are nonzero", percent(density))));
    }
    // The gap to the next nonzero takes the logarithm of its mean and a bit; a value at most its bytes.
    let gap_bits = (1.0 / density.max(1e-18)).log2() + 1.5;
    let sparse_bytes = nnz as f64 * (gap_bits / 8.0 + width as f64) + 200.0;
    let dense_bytes = compressed_part(tensor, DEFAULT_ZSTD_LEVEL)? * (elements * width) as f64;
    if sparse_bytes > dense_bytes {
        return Ok(Err(format!(
            "dense: {} of the elements are nonzero, but compressed chunks are smaller than coordinates",
            percent(density)
        )));
    }
    Ok(Ok(vec![format!(
        "sparse: {} of {} elements are nonzero ({})",
        with_commas(nnz),
        with_commas(elements),
        percent(density)
    )]))
}

/// The part of nonzeros in short runs of elements spread over the tensor.
fn sampled_density(tensor: &TensorRef<'_>) -> f64 {
    let samples = samples(tensor, 64, 256);
    let counted: u64 = samples.iter().map(count_nonzero).sum();
    let elements: u64 = samples.iter().map(|sample| sample.shape().elements_saturating()).sum();
    counted as f64 / elements.max(1) as f64
}

/// How much of its size a sample keeps when compressed, shuffled or not.
pub(crate) fn compressed_part(tensor: &TensorRef<'_>, level: i32) -> Result<f64, LayoutError> {
    let width = tensor.dtype().size_bytes();
    let (mut before, mut after) = (0, [0, 0]);
    let Scratch { mut packer, mut gathered, mut shuffled, mut out, .. } = Scratch::new();
    for sample in samples(tensor, 8, SAMPLE_BYTES / width as u64) {
        gathered.resize(sample.shape().byte_len(tensor.dtype())?, 0);
        sample.copy_to(&mut gathered);
        before += gathered.len();
        packer.zstd.compress(&gathered, level, &mut out)?;
        after[0] += out.len();
        if SHUFFLE_WIDTHS.contains(&width) {
            shuffled.resize(gathered.len(), 0);
            shuffle(&gathered, width, &mut shuffled);
            packer.zstd.compress(&shuffled, level, &mut out)?;
            after[1] += out.len();
        } else {
            after[1] = after[0];
        }
    }
    Ok(after[0].min(after[1]) as f64 / before.max(1) as f64)
}

const SAMPLE_BYTES: u64 = 64 << 10;

/// Up to `count` boxes of about `elements` elements, spread evenly; each is contiguous in C order but for
/// its edges.
fn samples<'a>(tensor: &TensorRef<'a>, count: u64, elements: u64) -> Vec<TensorRef<'a>> {
    let dims = tensor.shape().dims();
    let total = tensor.shape().elements_saturating();
    if total == 0 {
        return Vec::new();
    }
    if total <= count * elements {
        return vec![tensor.clone()];
    }
    let mut extent = vec![1; dims.len()];
    let mut rest = elements.max(1);
    for (side, dim) in extent.iter_mut().zip(dims).rev() {
        *side = rest.min(*dim);
        rest /= *side;
    }
    let sample = |k: u64| {
        // The middle of the k-th part of the tensor.
        let mut linear = (u128::from(total) * u128::from(2 * k + 1) / u128::from(2 * count)) as u64;
        let mut origin = vec![0; dims.len()];
        for (axis, dim) in dims.iter().enumerate().rev() {
            origin[axis] = (linear % dim).min(dim - extent[axis]);
            linear /= dim;
        }
        tensor.region(&origin, &extent)
    };
    (0..count).map(sample).collect()
}

fn whole_trailing_axes(shape: &Shape, rank: usize) -> Result<Vec<u64>, LayoutError> {
    let cut = shape.rank().checked_sub(rank).ok_or_else(|| {
        LayoutError::wish("chunk_rank", format!("{rank} axes where the tensor has {}", shape.rank()))
    })?;
    Ok(shape
        .dims()
        .iter()
        .enumerate()
        .map(|(axis, dim)| if axis < cut { 1 } else { (*dim).max(1) })
        .collect())
}

/// A chunk of this size is a good request on any store and leaves slices something to skip.
const CHUNK_BYTES: u64 = 1 << 20;

/// One index of an axis (an image, a frame) is kept whole up to this size, rather than cut.
const LARGEST_CHUNK_BYTES: u64 = 4 << 20;

/// Whole trailing axes while they fit, the next one in even pieces, single indices before.
pub(crate) fn default_chunk_shape(shape: &Shape, dtype: DType) -> Vec<u64> {
    let mut chunk = vec![1; shape.rank()];
    let mut bytes = dtype.size_bytes() as u64;
    for (side, dim) in chunk.iter_mut().zip(shape.dims()).rev() {
        let dim = (*dim).max(1);
        let whole = bytes.saturating_mul(dim);
        let few_large = bytes >= CHUNK_BYTES / 4 && whole <= LARGEST_CHUNK_BYTES;
        if whole <= CHUNK_BYTES || few_large {
            *side = dim;
            bytes = whole;
            if whole <= CHUNK_BYTES {
                continue;
            }
        } else {
            let most = (CHUNK_BYTES / bytes).max(1);
            // Even pieces: 1000 in pieces of at most 300 is 4 times 250.
            *side = dim.div_ceil(dim.div_ceil(most));
        }
        break;
    }
    chunk
}

/// What the chunks of a dense tensor would take, from a sample.
pub(crate) fn estimated_bytes(header: &Header, value: &Value<'_>) -> Result<u64, LayoutError> {
    let bytes = header.shape.byte_len(header.dtype)? as f64;
    match (header.compression, value) {
        (Compression::Zstd { level }, Value::Dense(tensor)) => {
            Ok((compressed_part(tensor, level)? * bytes) as u64)
        }
        _ => Ok(bytes as u64),
    }
}
