//! Tensors of different shapes as tensors of one: numpy's broadcasting.

use std::borrow::Cow;

use datafusion::common::{DataFusionError, Result, exec_err, plan_err};
use lacus_tensor::{Shape, TensorRef};

use crate::tensors::{Dims, in_order, shape_text};

/// The sizes of the result, where they are known. Fails if the shapes cannot fit, whatever is not known.
pub(super) fn broadcast_dims(name: &str, a: &Dims, b: &Dims) -> Result<Dims> {
    let (Some(left), Some(right)) = (a.sizes(), b.sizes()) else { return Ok(Dims::Unranked) };
    let rank = left.len().max(right.len());
    let padded = |sizes: &[Option<u64>]| {
        let mut all = vec![Some(1); rank - sizes.len()];
        all.extend_from_slice(sizes);
        all
    };
    let mut sizes = Vec::with_capacity(rank);
    for pair in padded(&left).into_iter().zip(padded(&right)) {
        sizes.push(match pair {
            (Some(a), Some(b)) if a == b => Some(a),
            (Some(1), other) | (other, Some(1)) => other,
            (Some(found), Some(other)) => {
                return plan_err!("{name}: shapes {a} and {b} do not fit: {found} and {other} differ");
            }
            (Some(size), None) | (None, Some(size)) => Some(size),
            (None, None) => None,
        });
    }
    Ok(Dims::ranked(sizes))
}

/// The shape of the result.
pub(super) fn broadcast_shape(name: &str, a: &[u64], b: &[u64]) -> Result<Vec<u64>> {
    let rank = a.len().max(b.len());
    let size = |dims: &[u64], axis: usize| (axis + dims.len()).checked_sub(rank).map_or(1, |axis| dims[axis]);
    (0..rank)
        .map(|axis| match (size(a, axis), size(b, axis)) {
            (a, b) if a == b => Ok(a),
            (1, other) | (other, 1) => Ok(other),
            (found, other) => {
                let (a, b) = (shape_text(a), shape_text(b));
                exec_err!("{name}: shapes {a} and {b} do not fit: {found} and {other} differ")
            }
        })
        .collect()
}

/// The elements of a tensor as often as a shape wants them, in C order. One element alone is not repeated.
pub(super) fn spread<'a>(tensor: &TensorRef<'a>, shape: &[u64]) -> Result<Cow<'a, [u8]>> {
    let dims = tensor.shape().dims();
    if dims == shape || dims.iter().all(|size| *size == 1) {
        return Ok(in_order(tensor));
    }
    spread_all(tensor, shape)
}

/// The same, with one element alone repeated, too.
pub(super) fn spread_all<'a>(tensor: &TensorRef<'a>, shape: &[u64]) -> Result<Cow<'a, [u8]>> {
    let fault = |error: lacus_tensor::TensorError| DataFusionError::Execution(error.to_string());
    let dims = tensor.shape().dims();
    let (added, bytes) = (shape.len() - dims.len(), in_order(tensor));
    let own = Shape::new(dims).map_err(fault)?.strides_elements();
    let strides: Vec<i64> = (0..shape.len())
        .map(|axis| match axis.checked_sub(added) {
            Some(axis) if dims[axis] != 1 => own[axis] as i64 * tensor.dtype().size_bytes() as i64,
            _ => 0,
        })
        .collect();
    let wanted = Shape::new(shape).map_err(fault)?;
    let view = TensorRef::strided(tensor.dtype(), &wanted, &strides, 0, &bytes).map_err(fault)?;
    Ok(Cow::Owned(view.to_tensor().bytes().to_vec()))
}
