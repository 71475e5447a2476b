//! From a tensor to its chunks, whatever the layout.

use crate::chunk::{EncodeChunks, Value};
use crate::compressed_rows::Matrix;
use crate::dense_chunks::DenseEncoder;
use crate::error::LayoutError;
use crate::fiber_tree::tree_encoder;
use crate::header::{Header, Layout};
use crate::packed::Effort;
use crate::sparse_blocks::block_encoder;

/// Cuts `value` into the chunks that `header` describes.
///
/// Fails with an invalid error if the header does not fit the value: another dtype or shape, a dense layout
/// for a sparse value or the reverse, and for [`Layout::Coordinates`], whose nonzeros are rows of their own.
pub fn encoder<'a>(header: &Header, value: Value<'a>) -> Result<Box<dyn EncodeChunks + 'a>, LayoutError> {
    header.check()?;
    let name = header.layout.name();
    let effort = Effort::of(header.compression);
    let (dtype, shape) = (value.dtype(), value.shape());
    if dtype != header.dtype || *shape != header.shape {
        return Err(LayoutError::unsupported(
            name,
            format!("the value is {dtype} {shape}, its header says {} {}", header.dtype, header.shape),
        ));
    }
    match (&header.layout, value) {
        (Layout::DenseChunks { .. }, Value::Dense(tensor)) => {
            Ok(Box::new(DenseEncoder::new(header, tensor)?))
        }
        (Layout::DenseChunks { .. }, Value::Sparse(_)) => {
            Err(LayoutError::unsupported(name, "takes a dense tensor, not a sparse one"))
        }
        (Layout::Coordinates, _) => {
            Err(LayoutError::unsupported(name, "nonzeros are table rows of their own, there are no chunks"))
        }
        (_, Value::Dense(_)) => Err(LayoutError::unsupported(name, "takes a sparse tensor, not a dense one")),
        (_, Value::Sparse(tensor)) if header.nnz != Some(tensor.nnz() as u64) => {
            Err(LayoutError::unsupported(
                name,
                format!("the value has {} nonzeros, its header says {:?}", tensor.nnz(), header.nnz),
            ))
        }
        (Layout::CompressedRows { split }, Value::Sparse(tensor)) => {
            Matrix { shape: &header.shape, split: *split, by_columns: false }.encoder(tensor, effort)
        }
        (Layout::CompressedColumns { split }, Value::Sparse(tensor)) => {
            Matrix { shape: &header.shape, split: *split, by_columns: true }.encoder(tensor, effort)
        }
        (Layout::FiberTree { axis_order }, Value::Sparse(tensor)) => tree_encoder(tensor, axis_order, effort),
        (Layout::SparseBlocks { block_shape, axis_order }, Value::Sparse(tensor)) => {
            block_encoder(header, block_shape, axis_order, tensor)
        }
    }
}
