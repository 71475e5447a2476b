//! Where the sums of an `=` with indices stand: an index that is only on the right is summed within the term it
//! occurs in.
//!
//! ```text
//! s[i] = a * G[i,j] * r[j] + b       →  Σ_j (a G_ij r_j) + b
//! s[i] = a * (G[i,j] * r[j] + b)     →  a (Σ_j (G_ij r_j) + b)
//! s[i] = A[i,j] * (B[j] + C[j])      →  Σ_j (A_ij (B_j + C_j))
//! s[i] = exp(A[i,j])                 →  Σ_j exp(A_ij)
//! ```
//!
//! A term is an operand of `+` or `-`; the smallest one that holds all occurrences of the index is summed.

use crate::expr::{Axis, Element, ElementNode, ReduceOp, Reduction};
use lacus_tensor::DType;
use lacus_tensor::{BinaryOp, UnaryOp};

/// The element with `axis` summed in the terms that it occurs in.
pub(super) fn place_sum(element: Element, axis: &Axis) -> Element {
    if !element.uses(axis.index) {
        return element;
    }
    if !splits(&element, axis) {
        return sum(element, axis);
    }
    let Element { node, dtype } = element;
    let place = |part: Box<Element>| Box::new(place_sum(*part, axis));
    let node = match node {
        ElementNode::Unary(op, a) => ElementNode::Unary(op, place(a)),
        ElementNode::Convert(a) => ElementNode::Convert(place(a)),
        ElementNode::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), a, b) => {
            ElementNode::Binary(op, place(a), place(b))
        }
        // Only one side uses the index, and `place_sum` leaves the other as it is.
        ElementNode::Binary(op, a, b) => ElementNode::Binary(op, place(a), place(b)),
        ElementNode::Reduce(reduction) => {
            let Reduction { op, axes, guard, body } = *reduction;
            ElementNode::Reduce(Box::new(Reduction { op, axes, guard, body: place_sum(body, axis) }))
        }
        other => other,
    };
    Element { node, dtype }
}

/// True when the sum belongs further in: there is a `+` or `-` below, reached through factors only, and no
/// factor on the way uses the index too.
fn splits(element: &Element, axis: &Axis) -> bool {
    match &element.node {
        ElementNode::Binary(BinaryOp::Add | BinaryOp::Sub, ..) => true,
        ElementNode::Unary(UnaryOp::Neg, a) => splits(a, axis),
        // Bools are counted, so the sum stays outside of their conversion.
        ElementNode::Convert(a) => a.dtype != DType::Bool && splits(a, axis),
        ElementNode::Binary(BinaryOp::Mul, a, b) => match (a.uses(axis.index), b.uses(axis.index)) {
            (true, false) => splits(a, axis),
            (false, true) => splits(b, axis),
            _ => false,
        },
        ElementNode::Binary(BinaryOp::Div, a, b) => !b.uses(axis.index) && splits(a, axis),
        ElementNode::Reduce(reduction) => {
            reduction.op == ReduceOp::Op(BinaryOp::Add) && splits(&reduction.body, axis)
        }
        _ => false,
    }
}

fn sum(element: Element, axis: &Axis) -> Element {
    let dtype = if element.dtype == DType::Bool { DType::I64 } else { element.dtype };
    let mut reduction = match element.node {
        ElementNode::Reduce(reduction) if reduction.op == ReduceOp::Op(BinaryOp::Add) => reduction,
        _ => Box::new(Reduction {
            op: ReduceOp::Op(BinaryOp::Add),
            axes: Vec::new(),
            guard: None,
            body: element.convert(dtype),
        }),
    };
    reduction.axes.push(axis.clone());
    Element { node: ElementNode::Reduce(reduction), dtype }
}

/// Adds a condition on summed indices to the sums over them, in every term. True when each term had one.
pub(super) fn place_guard(element: &mut Element, guard: &Element, summed: &[Axis]) -> bool {
    match &mut element.node {
        ElementNode::Binary(BinaryOp::Add | BinaryOp::Sub, a, b) => {
            place_guard(a, guard, summed) & place_guard(b, guard, summed)
        }
        ElementNode::Unary(UnaryOp::Neg, a) => place_guard(a, guard, summed),
        _ => attach(element, guard, summed),
    }
}

/// Adds the condition to all outermost sums that know the indices it uses. True when there was one.
fn attach(element: &mut Element, guard: &Element, unknown: &[Axis]) -> bool {
    match &mut element.node {
        ElementNode::Reduce(reduction) => {
            let inner: Vec<Axis> =
                unknown.iter().filter(|axis| !reduction.axes.contains(axis)).cloned().collect();
            if !inner.is_empty() {
                return attach(&mut reduction.body, guard, &inner);
            }
            reduction.guard = Some(match reduction.guard.take() {
                Some(other) => Element {
                    node: ElementNode::Binary(BinaryOp::And, Box::new(other), Box::new(guard.clone())),
                    dtype: DType::Bool,
                },
                None => guard.clone(),
            });
            true
        }
        ElementNode::Unary(_, a) | ElementNode::Convert(a) => attach(a, guard, unknown),
        ElementNode::Binary(_, a, b) => attach(a, guard, unknown) | attach(b, guard, unknown),
        _ => false,
    }
}
