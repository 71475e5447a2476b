//! What an element is where sparse tensors are zero.
//!
//! An element is zero wherever some sparse tensors are, if it comes out as zero with zeros in their place: `R * D`,
//! `where(R != 0, R - T, 0)`. (What is not stored takes no part: 0 times infinity is 0 here.)

use lacus_algebra::expr::{Affine, Element, ElementNode, Slot};
use lacus_algebra::{BinaryOp, Network, Operator, Scalar};
use lacus_tensor::DType;

/// The value of an element where some reads are zero, if it follows.
pub(crate) fn at_zero(element: &Element, is_zero: &dyn Fn(Slot, &[Affine]) -> bool) -> Option<Scalar> {
    let part = |part: &Element| at_zero(part, is_zero);
    let zero = |dtype: DType| Scalar::I64(0).convert(dtype);
    match &element.node {
        ElementNode::Constant(value) => Some(*value),
        ElementNode::Read(slot, at) => is_zero(*slot, at).then(|| zero(element.dtype)),
        ElementNode::Convert(a) => part(a).map(|a| a.convert(element.dtype)),
        ElementNode::Unary(op, a) => part(a).map(|a| a.unary(*op)),
        ElementNode::Binary(op, a, b) => {
            let (a, b) = (part(a), part(b));
            let is = |side: &Option<Scalar>, truth: bool| side.is_some_and(|side| side.is_true() == truth);
            match (op, &a, &b) {
                (BinaryOp::Mul, ..) if is(&a, false) || is(&b, false) => Some(zero(element.dtype)),
                (BinaryOp::And, ..) if is(&a, false) || is(&b, false) => Some(Scalar::Bool(false)),
                (BinaryOp::Or, ..) if is(&a, true) || is(&b, true) => Some(Scalar::Bool(true)),
                // A remainder or quotient by zero is an error, which somebody has to look at.
                (op, _, Some(b)) if op.divides_whole() && element.dtype == DType::I64 && !b.is_true() => None,
                (_, Some(a), Some(b)) => Some(a.binary(*op, *b)),
                _ => None,
            }
        }
        ElementNode::Where(c, a, b) => match part(c) {
            Some(truth) => part(if truth.is_true() { a } else { b }),
            None => part(a).zip(part(b)).filter(|(a, b)| a == b).map(|(a, _)| a),
        },
        _ => None,
    }
}

/// True for the number zero.
pub(crate) fn is_zero(value: Option<Scalar>) -> bool {
    value.is_some_and(|value| !value.is_true() && value.to_f64() == 0.0)
}

/// The two labels of a matrix that is read by them alone.
pub(crate) fn labels_of(at: &[Affine]) -> Option<[usize; 2]> {
    let [a, b] = at else { return None };
    let (a, b) = (a.as_index()?.0 as usize, b.as_index()?.0 as usize);
    (a != b).then_some([a, b])
}

/// Whether a read goes over the whole of a matrix by these labels.
pub(crate) fn is_whole(
    network: &Network,
    operator: &Operator,
    slot: Slot,
    at: &[Affine],
    labels: [usize; 2],
) -> bool {
    let extents = operator.labels();
    let dims = &network.value(slot).dims;
    labels_of(at) == Some(labels)
        && dims.len() == 2
        && labels
            .iter()
            .zip(dims)
            .all(|(&label, &extent)| extents.get(label).is_some_and(|axis| axis.extent == extent))
}
