//! What storing a tensor would cost: estimated on a sample, or measured.

use lacus_tensor::{Buffer, SparseTensor};

use crate::choose::dense;
use crate::choose::sample::Sample;
use crate::chunk::{Scratch, Value};
use crate::encode::encoder;
use crate::error::LayoutError;
use crate::header::{Header, Layout, product};
use crate::sparse_blocks::block_sequence;

/// What storing a tensor would cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimate {
    /// Bytes of all its chunks.
    pub stored_bytes: u64,
    /// Mean bytes of the chunks that a slice `[i]` touches, on each axis.
    pub slice_bytes: Vec<u64>,
}

/// Estimates on a sample what `header` would cost for `value`. [`Layout::Coordinates`] has no chunks; its
/// rows are counted as their plain bytes.
///
/// Fails as [`encoder`] does.
pub fn estimate(header: &Header, value: &Value<'_>) -> Result<Estimate, LayoutError> {
    let stored_bytes = match (&header.layout, value) {
        (Layout::Coordinates, Value::Sparse(tensor)) => {
            tensor.nnz() as u64 * (8 * header.shape.rank() + header.dtype.size_bytes()) as u64
        }
        (Layout::DenseChunks { .. }, _) => {
            header.check()?;
            dense::estimated_bytes(header, value)?
        }
        (_, Value::Sparse(tensor)) => sampled_bytes(header, tensor)?,
        _ => exact_size(header, value)?,
    };
    Ok(Estimate { stored_bytes, slice_bytes: slice_bytes(header, stored_bytes) })
}

/// Encodes all of `value` and adds up the bytes.
///
/// Fails as [`encoder`] does.
pub fn exact_size(header: &Header, value: &Value<'_>) -> Result<u64, LayoutError> {
    let encoder = encoder(header, value.clone())?;
    let mut scratch = Scratch::new();
    (0..encoder.len()).try_fold(0, |sum, i| Ok(sum + encoder.encode(i, &mut scratch)?.bytes.len() as u64))
}

/// Nonzeros of a sample.
const SAMPLE: usize = 32 << 10;

fn sampled_bytes(header: &Header, tensor: &SparseTensor) -> Result<u64, LayoutError> {
    header.check()?;
    if tensor.nnz() <= 2 * SAMPLE {
        return exact_size(header, &Value::Sparse(tensor));
    }
    let (rank, dims) = (header.shape.rank(), header.shape.dims());
    let mut header = header.clone();
    let axes: Vec<(usize, u64)> = match &mut header.layout {
        // Large blocks that follow each other in one order: as if they were one, sampled all over it.
        Layout::SparseBlocks { block_shape, axis_order }
            if !block_sequence(dims, block_shape, axis_order).is_empty()
                && product(dims).is_some_and(|cells| cells <= i64::MAX as u64) =>
        {
            *block_shape = dims.iter().map(|dim| (*dim).max(1)).collect();
            axis_order.iter().map(|axis| (*axis, 1)).collect()
        }
        Layout::SparseBlocks { block_shape, .. } => {
            let cut = (0..rank).filter(|axis| block_shape[*axis] < dims[*axis]);
            cut.map(|axis| (axis, block_shape[axis])).collect()
        }
        Layout::FiberTree { axis_order } => axis_order.iter().map(|axis| (*axis, 1)).collect(),
        Layout::CompressedColumns { split } => {
            (*split..rank).chain(0..*split).map(|axis| (axis, 1)).collect()
        }
        _ => (0..rank).map(|axis| (axis, 1)).collect(),
    };
    let sample = Sample::new(tensor, &axes, SAMPLE);
    let sample = SparseTensor::from_sorted(
        tensor.dtype(),
        tensor.shape().clone(),
        Buffer::from_elements(&sample.columns.concat()),
        Buffer::from_slice(&sample.values),
    );
    header.nnz = Some(sample.nnz() as u64);
    let bytes = exact_size(&header, &Value::Sparse(&sample))?;
    Ok((bytes as f64 * tensor.nnz() as f64 / sample.nnz().max(1) as f64) as u64)
}

/// Mean bytes that `[i]` touches on each axis, if the bytes are spread evenly.
pub(crate) fn slice_bytes(header: &Header, stored_bytes: u64) -> Vec<u64> {
    let dims = header.shape.dims();
    let stored = stored_bytes as f64;
    let runs = |order: &[usize]| {
        let mut chunks = (header.nnz.unwrap_or(0) as f64 / (48 << 10) as f64).max(1.0);
        let mut bytes = vec![stored_bytes; dims.len()];
        for axis in order {
            let dim = (dims[*axis] as f64).max(1.0);
            bytes[*axis] = (stored * (1.0 / dim + 1.0 / chunks).min(1.0)) as u64;
            chunks = (chunks / dim).max(1.0);
        }
        bytes
    };
    match &header.layout {
        Layout::DenseChunks { chunk_shape: sides } | Layout::SparseBlocks { block_shape: sides, .. } => {
            let part = |(dim, side): (&u64, &u64)| stored_bytes / dim.div_ceil(*side).max(1);
            dims.iter().zip(sides).map(part).collect()
        }
        Layout::FiberTree { axis_order } => runs(axis_order),
        Layout::CompressedColumns { split } => {
            runs(&(*split..dims.len()).chain(0..*split).collect::<Vec<_>>())
        }
        Layout::CompressedRows { .. } | Layout::Coordinates => runs(&(0..dims.len()).collect::<Vec<_>>()),
    }
}
