//! How far vectors are apart: what searches among embeddings rank by.
//!
//! The usual case is a column of float32 vectors of one size and a constant: the elements are taken where they lie, and the loops
//! have sixteen sums each, which the compiler keeps in vectors.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Array};
use arrow::datatypes::Field;
use datafusion::common::{Result, exec_err};
use lacus_tensor::{DType, TensorRef};

use super::broadcast::broadcast_dims;
use super::function::{Body, Call, Function, Operand, Planned};
use super::reduce::sum;
use crate::tensors::{Dims, Kind, TensorArray, in_order, loaded, shape_text, tensor_of};

/// Which measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    Cosine,
    Inner,
    L1,
    L2,
    Linf,
    Hamming,
}

pub(super) fn functions() -> Vec<Function> {
    let one = |name, about, example, measure: Measure| Function::new(name, "a, b", about, example, measure);
    vec![
        one(
            "cosine_similarity",
            "The cosine of the angle between two vectors: 1 for the same direction; NaN if one has no length.",
            "SELECT * FROM docs ORDER BY cosine_similarity(embedding, [0.1, 0.2, 0.3]) DESC LIMIT 10",
            Measure::Cosine,
        ),
        one(
            "inner_product",
            "The sum of the products of the elements.",
            "SELECT inner_product(embedding, [0.1, 0.2, 0.3]) FROM docs",
            Measure::Inner,
        ),
        one(
            "l2_distance",
            "The length of the difference.",
            "SELECT * FROM docs ORDER BY l2_distance(embedding, [0.1, 0.2, 0.3]) LIMIT 10",
            Measure::L2,
        )
        .aliases(&["l2_norm", "l2"]),
        one(
            "l1_distance",
            "The sum of the absolute differences.",
            "SELECT l1_distance(a, b) FROM pairs",
            Measure::L1,
        )
        .aliases(&["l1_norm", "l1"]),
        one(
            "linf_distance",
            "The largest absolute difference.",
            "SELECT linf_distance(a, b) FROM pairs",
            Measure::Linf,
        )
        .aliases(&["linf_norm", "linf"]),
        one(
            "hamming",
            "The number of places where elements differ.",
            "SELECT hamming(a, b) FROM pairs",
            Measure::Hamming,
        )
        .aliases(&["hamming_distance"]),
    ]
}

impl Body for Measure {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let (a, b) = (call.operand(0)?, call.operand(1)?);
        for operand in [&a, &b] {
            if operand.dtype.is_complex() {
                return datafusion::common::plan_err!("{}: is not defined for {}", call.name, operand.dtype);
            }
        }
        let differ = match (&a.dims, &b.dims) {
            (Dims::Fixed(a), Dims::Fixed(b)) => a != b,
            (a, b) => {
                a.rank().zip(b.rank()).is_some_and(|(a, b)| a != b)
                    || broadcast_dims(call.name, a, b).is_err()
            }
        };
        if differ {
            return datafusion::common::plan_err!("{}: shapes {} and {} differ", call.name, a.dims, b.dims);
        }
        // Lists of SQL have no dtype of their own and take that of what they are compared with.
        let is_list = |at: usize| matches!(call.kind(at), Kind::List);
        let is_single = |operand: &Operand| matches!(operand.dtype, DType::F16 | DType::BF16 | DType::F32);
        let single = match (is_list(0), is_list(1)) {
            (false, true) => is_single(&a),
            (true, false) => is_single(&b),
            _ => is_single(&a) && is_single(&b),
        };
        let dtype = match self {
            Measure::Hamming => DType::I64,
            _ if single => DType::F32,
            _ => DType::F64,
        };
        call.field(dtype, Dims::Fixed(Vec::new()))
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let (left, right) = (call.tensors(0)?, call.tensors(1)?);
        let dtype = call.output_type()?.dtype;
        if dtype == DType::F32 {
            let fast = match (call.is_constant(0), call.is_constant(1)) {
                (false, true) => self.fast(call, &left, &right)?,
                (true, false) => self.fast(call, &right, &left)?,
                _ => None,
            };
            if let Some(array) = fast {
                return Ok(array);
            }
        }
        call.build(|row| {
            let (Some(a), Some(b)) = (left.get(row)?, right.get(row)?) else { return Ok(None) };
            let (a, b) = (a.view(), b.view());
            if a.shape() != b.shape() {
                let (a, b) = (a.shape(), b.shape());
                return call.fail(format!("shapes {a} and {b} differ"));
            }
            let double = |tensor: &TensorRef<'_>| loaded::<f64>(tensor.dtype(), &in_order(tensor));
            let made = self.doubles(&double(&a), &double(&b));
            tensor_of(dtype, &[], &[made]).map(Some).map_err(|error| call.wrong(error))
        })
    }
}

impl Measure {
    /// A column of float32 vectors against a constant.
    fn fast(self, call: &Call, column: &TensorArray, constant: &TensorArray) -> Result<Option<ArrayRef>> {
        let Some((size, all)) = column.singles() else { return Ok(None) };
        let Some(query) = constant.get(0)? else { return Ok(None) };
        let query = query.view();
        let shape = query.shape().dims();
        if !column.tensor_type().dims.holds(shape) {
            let (name, found) = (call.name, shape_text(shape));
            return exec_err!("{name}: shapes {} and {found} differ", column.tensor_type().dims);
        }
        let query = loaded::<f32>(query.dtype(), &in_order(&query));
        let length = fold(&query, &query, |a, b| a * b).sqrt();
        let one = |row: usize| {
            let vector = &all[row * size..(row + 1) * size];
            match self {
                Measure::Inner => fold(vector, &query, |a, b| a * b),
                Measure::L1 => fold(vector, &query, |a, b| (a - b).abs()),
                Measure::L2 => fold(vector, &query, |a, b| (a - b) * (a - b)).sqrt(),
                Measure::Linf => {
                    vector.iter().zip(&query).fold(0.0, |most: f32, (a, b)| largest(most, (a - b).abs()))
                }
                _ => {
                    fold(vector, &query, |a, b| a * b) / (fold(vector, vector, |a, b| a * b).sqrt() * length)
                }
            }
        };
        let array: Float32Array =
            (0..call.rows).map(|row| (!column.is_null(row)).then(|| one(row))).collect();
        Ok(Some(Arc::new(array)))
    }

    fn doubles(self, a: &[f64], b: &[f64]) -> f64 {
        let total =
            |of: &dyn Fn(f64, f64) -> f64| sum(&a.iter().zip(b).map(|(a, b)| of(*a, *b)).collect::<Vec<_>>());
        match self {
            Measure::Cosine => {
                let lengths = sum(&a.iter().map(|a| a * a).collect::<Vec<_>>()).sqrt()
                    * sum(&b.iter().map(|b| b * b).collect::<Vec<_>>()).sqrt();
                total(&|a, b| a * b) / lengths
            }
            Measure::Inner => total(&|a, b| a * b),
            Measure::L1 => total(&|a, b| (a - b).abs()),
            Measure::L2 => total(&|a, b| (a - b) * (a - b)).sqrt(),
            Measure::Linf => a.iter().zip(b).fold(0.0, |most: f64, (a, b)| match (a - b).abs() {
                found if found.is_nan() || found > most => found,
                _ => most,
            }),
            Measure::Hamming => a.iter().zip(b).filter(|(a, b)| a != b).count() as f64,
        }
    }
}

fn largest(a: f32, b: f32) -> f32 {
    if b.is_nan() || b > a { b } else { a }
}

/// The sum of something of all pairs, in sixteen parts.
fn fold(a: &[f32], b: &[f32], of: impl Fn(f32, f32) -> f32) -> f32 {
    let mut parts = [0f32; 16];
    let ((a_chunks, a_rest), (b_chunks, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for at in 0..16 {
            parts[at] += of(a[at], b[at]);
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| of(*a, *b)).sum();
    parts.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Value, check, check_error, constant_list, fixed, list, ragged};
    use lacus_tensor::DType;

    #[test]
    fn both_ways_agree() {
        let vector = || fixed(DType::F32, &[3], &[1.0, 2.0, -2.0]);
        let case = |name: &str, expected: &str| {
            for other in [
                constant_list(&[3.0, 0.0, 0.0]),
                list(&[3.0, 0.0, 0.0]),
                fixed(DType::F32, &[3], &[3.0, 0.0, 0.0]),
            ] {
                check(name, &[vector(), other.clone()], expected);
                check(name, &[other, vector()], expected);
            }
        };
        case("cosine_similarity", "0.33333334");
        case("inner_product", "3.0");
        case("l1_distance", "6.0");
        case("l2_norm", "3.4641016");
        case("linf_norm", "2.0");
        case("hamming", "3");
        let long = |value: f64| vec![value; 37];
        let many: Value = fixed(DType::F32, &[37], &long(1.0));
        check("l1_distance", &[many, constant_list(&long(3.0))], "74.0");
        check(
            "l2_distance",
            &[fixed(DType::U8, &[2], &[0.0, 0.0]), fixed(DType::U8, &[2], &[3.0, 4.0])],
            "5.0",
        );
        check("l2_distance", &[ragged(DType::F64, &[2], &[0.0, 0.0]), list(&[3.0, 4.0])], "5.0");
        check_error(
            "l2_distance",
            &[vector(), constant_list(&[1.0])],
            "l2_distance: shapes (3,) and (1,) differ",
        );
        check_error(
            "l2_distance",
            &[vector(), fixed(DType::F32, &[2], &[1.0, 1.0])],
            "l2_distance: shapes (3,) and (2,) differ",
        );
    }
}
