//! How an operator deals with sparse operands without looking at zeros.

use super::ProductForm;
use super::fold::counted;
use crate::zeros::{at_zero, is_whole, is_zero, labels_of};
use lacus_algebra::expr::{Affine, Element, ElementNode, ReduceOp, Slot, Symbol};
use lacus_algebra::{BinaryOp, Network, Operator, Scalar};
use lacus_tensor::DType;

/// What an operator does with sparse operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// A formula at the places of nonzeros.
    Nonzeros,
    /// The same, reduced.
    Folded,
    /// A product at the places of nonzeros (SDDMM).
    Sampled,
    /// A product of matrices of which some are sparse.
    Product,
    /// Another order of axes, or a part of a matrix.
    Moved,
}

/// How an operator can deal with these values as sparse ones; `None` if it would have to look at zeros.
pub(crate) fn manner(
    network: &Network,
    operator: &Operator,
    sparse: &dyn Fn(Slot) -> bool,
) -> Option<Manner> {
    let rank = operator.axes.len();
    let count = operator.labels().len();
    let is_number = |dtype: DType| matches!(dtype, DType::I64 | DType::F32 | DType::F64);
    let whole = |labels: [usize; 2]| {
        move |slot: Slot, at: &[Affine]| sparse(slot) && is_whole(network, operator, slot, at, labels)
    };
    let all_whole = |labels: [usize; 2]| {
        let is = whole(labels);
        operator.reads.iter().filter(|read| sparse(read.value)).all(|read| is(read.value, &read.at))
    };
    match &operator.fold {
        None => {
            let fits = rank == 2 && is_number(operator.body.dtype) && all_whole([0, 1]);
            if fits && is_zero(at_zero(&operator.body, &whole([0, 1]))) {
                return Some(Manner::Nonzeros);
            }
            moves(operator).is_some().then_some(Manner::Moved)
        }
        Some(fold) => {
            let ReduceOp::Op(op) = &fold.op else { return None };
            if let Some(guard) = &fold.guard {
                let fits = rank == 2 && count == 3 && *op == BinaryOp::Add && is_number(operator.body.dtype);
                // The guard alone looks at sparse values, and at places of the result.
                let mut reads = Vec::new();
                reads_of(&operator.body, &mut reads);
                let in_body = reads.iter().any(|&slot| sparse(slot));
                let is_false = at_zero(guard, &whole([0, 1])) == Some(Scalar::Bool(false));
                let uses_fold = guard.uses(lacus_algebra::expr::Index(2));
                let is_product =
                    || ProductForm::within(network, operator).is_some_and(|product| product.is_of_matrices());
                let samples = fits && all_whole([0, 1]) && !in_body && is_false && !uses_fold;
                if samples && is_product() {
                    return Some(Manner::Sampled);
                }
            } else if is_product(network, operator, sparse) {
                return Some(Manner::Product);
            }
            let mut labels =
                operator.reads.iter().filter(|read| sparse(read.value)).map(|read| labels_of(&read.at));
            let labels = labels.next()??;
            let fits =
                count == 2 && all_whole(labels) && *op == BinaryOp::Add && is_number(operator.body.dtype);
            (fits && is_zero(at_zero(&counted(operator), &whole(labels)))).then_some(Manner::Folded)
        }
    }
}

/// Of a matrix whose elements are those of another one at other places: for each axis of that the label, and by what it is
/// multiplied and moved.
pub(super) fn moves(operator: &Operator) -> Option<[(usize, i64, i64); 2]> {
    let ElementNode::Read(_, at) = &operator.body.node else { return None };
    let along = |at: &Affine| {
        let mut factors = at.factors();
        match (factors.next()?, factors.next()) {
            ((Symbol::Index(index), factor), None) => Some((index.0 as usize, factor, at.offset())),
            _ => None,
        }
    };
    let [rows, columns] = &at[..] else { return None };
    let (rows, columns) = (along(rows)?, along(columns)?);
    (operator.axes.len() == 2 && rows.0 != columns.0).then_some([rows, columns])
}

fn reads_of(element: &Element, all: &mut Vec<Slot>) {
    if let ElementNode::Read(slot, _) = &element.node {
        all.push(*slot);
    }
    element.parts().into_iter().for_each(|part| reads_of(part, all));
}

/// A sum of products of two matrices or vectors, in which sparse ones are factors as they are.
fn is_product(network: &Network, operator: &Operator, sparse: &dyn Fn(Slot) -> bool) -> bool {
    let Some(form) = ProductForm::of(network, operator) else { return false };
    form.takes_sparse()
        && operator.reads.iter().filter(|read| sparse(read.value)).all(|read| form.is_factor(operator, read))
}
