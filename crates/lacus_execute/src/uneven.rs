//! How many nonzeros a product of two sparse matrices of the caller's has, and how unevenly they lie, from where those of
//! the factors are. Links of graphs gather at few nodes: spread evenly, they would meet in a tenth of the places.

use crate::input::Input;
use lacus_algebra::expr::Affine;
use lacus_algebra::{Made, Network, Operator, Read};
use lacus_tensor::SparseTensor;
use std::collections::BTreeMap;

/// Parts that each axis is cut into, to see how uneven a product is.
const PARTS: usize = 8;

/// What is expected of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Expected {
    /// The share of its elements that are stored.
    pub(crate) density: f64,
    /// How many times the mean the fullest of its parts has.
    pub(crate) skew: f64,
}

/// What is expected of an operator that multiplies two sparse matrices in memory. `None` for any other.
pub(crate) fn expected(
    network: &Network,
    operator: &Operator,
    inputs: &BTreeMap<String, Input<'_>>,
) -> Option<Expected> {
    let [a, b] = &operator.reads[..] else { return None };
    let labels = operator.labels();
    if operator.axes.len() != 2 || labels.len() != 3 {
        return None;
    }
    let of = |read: &Read| -> Option<(&SparseTensor, [usize; 2])> {
        let Made::Load(name) = &network.value(read.value).made else { return None };
        let Input::Sparse(tensor) = inputs.get(name)? else { return None };
        let [first, second] = &read.at[..] else { return None };
        let label = |at: &Affine| Some(at.as_index()?.0 as usize);
        Some((&**tensor, [label(first)?, label(second)?]))
    };
    let (first, second) = (of(a)?, of(b)?);
    let has = |(_, labels): &(&SparseTensor, [usize; 2]), label: usize| labels.contains(&label);
    let (left, right) = if has(&first, 0) { (first, second) } else { (second, first) };
    if !(has(&left, 0) && has(&left, 2) && has(&right, 1) && has(&right, 2)) {
        return None;
    }
    let extent = |label: usize| labels[label].extent;
    // One of each matrix would be more than its nonzeros.
    let lines = extent(0).saturating_add(extent(2));
    if lines > 8 * (left.0.nnz() + right.0.nnz()) as u64 + (1 << 16) {
        return None;
    }
    let axis = |(tensor, labels): &(&'_ SparseTensor, [usize; 2]), label: usize| -> Vec<i64> {
        let at = usize::from(labels[1] == label);
        tensor.axis(at).to_vec()
    };
    let part = |at: i64, extent: u64| (at as u64 * PARTS as u64 / extent.max(1)) as usize;
    // Nonzeros along each inner index: of the right factor in all, and of both by parts.
    let inner = extent(2) as usize;
    let mut lengths = vec![0u32; inner];
    let mut by_part = vec![[[0u32; PARTS]; 2]; inner];
    for (k, column) in axis(&right, 2).into_iter().zip(axis(&right, 1)) {
        lengths[k as usize] += 1;
        by_part[k as usize][1][part(column, extent(1))] += 1;
    }
    let mut terms = vec![0u64; extent(0) as usize];
    for (k, row) in axis(&left, 2).into_iter().zip(axis(&left, 0)) {
        terms[row as usize] += u64::from(lengths[k as usize]);
        by_part[k as usize][0][part(row, extent(0))] += 1;
    }
    let width = extent(1) as f64;
    let nnz: f64 = terms.iter().map(|&terms| -width * (-(terms as f64) / width.max(1.0)).exp_m1()).sum();
    let mut of_parts = [[0.0; PARTS]; PARTS];
    for [rows, columns] in &by_part {
        for (of_parts, &row) in of_parts.iter_mut().zip(rows).filter(|(_, row)| **row > 0) {
            of_parts
                .iter_mut()
                .zip(columns)
                .for_each(|(sum, &column)| *sum += f64::from(row) * f64::from(column));
        }
    }
    // More than all of its places no part has.
    let places = (extent(0) as f64 * width / (PARTS * PARTS) as f64).max(1.0);
    let of_parts: Vec<f64> =
        of_parts.iter().flatten().map(|&terms| -places * (-terms / places).exp_m1()).collect();
    let mean = of_parts.iter().sum::<f64>() / of_parts.len() as f64;
    let most = of_parts.iter().copied().fold(0.0, f64::max);
    let all = (extent(0) as f64 * width).max(1.0);
    Some(Expected { density: nnz / all, skew: if mean > 0.0 { most / mean } else { 1.0 } })
}
