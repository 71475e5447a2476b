//! How far vectors are apart: what searches among embeddings rank by.
//!
//! The arithmetic is `lacus_tensor::kernels::distance`, which searches use, too: so a search and a sort by one of these functions
//! rank alike, to the last bit.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Array};
use arrow::datatypes::Field;
use datafusion::common::{Result, exec_err};
use lacus_tensor::kernels::distance::{Measure, distance, distances};
use lacus_tensor::{DType, TensorRef};

use super::broadcast::broadcast_dims;
use super::function::{Body, Call, Function, Planned};
use crate::language::NAN_AS_NULL;
use crate::tensors::{Dims, Kind, TensorArray, Wide, in_order, loaded, shape_text, tensor_of};

/// Whether distances of the vectors of a column from a constant are float32.
pub(crate) fn is_single(column: DType, constant: DType, field: &Field) -> bool {
    are_single((column, false), (constant, matches!(Kind::of(field), Kind::List)))
}

/// Whether distances are float32, by dtypes and whether these are lists of SQL: those have no dtype of their own and take that of what
/// they are compared with.
fn are_single((a, a_is_list): (DType, bool), (b, b_is_list): (DType, bool)) -> bool {
    let is_single = |dtype: DType| matches!(dtype, DType::F16 | DType::BF16 | DType::F32);
    match (a_is_list, b_is_list) {
        (false, true) => is_single(a),
        (true, false) => is_single(b),
        _ => is_single(a) && is_single(b),
    }
}

/// The measure that a function of this name computes.
pub(crate) fn measure_of(name: &str) -> Option<Measure> {
    Some(match name {
        "cosine_similarity" => Measure::Cosine,
        "inner_product" => Measure::Inner,
        "l2_distance" => Measure::L2,
        "l1_distance" => Measure::L1,
        "linf_distance" => Measure::Linf,
        "hamming" => Measure::Hamming,
        _ => return None,
    })
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
        Function::new(
            NAN_AS_NULL,
            "x",
            "The number, or NULL where it is NaN: what `vector_search` sorts by, so that rows without a direction come last.",
            "SELECT * ORDER BY nan_as_null(cosine_similarity(embedding, [0.1, 0.2, 0.3])) DESC NULLS LAST LIMIT 10",
            NanAsNull,
        ),
    ]
}

#[derive(Debug)]
struct NanAsNull;

impl Body for NanAsNull {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let operand = call.operand(0)?;
        if operand.dtype.is_complex() || operand.dims.rank() != Some(0) {
            return datafusion::common::plan_err!("{}: expected a number, found a tensor", call.name);
        }
        call.field(operand.dtype, Dims::Fixed(Vec::new()))
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let values = call.tensors(0)?;
        call.build(|row| {
            let Some(value) = values.get(row)? else { return Ok(None) };
            let value = value.view();
            match loaded::<f64>(value.dtype(), &in_order(&value)).iter().any(|value| value.is_nan()) {
                true => Ok(None),
                false => Ok(Some(value.to_tensor())),
            }
        })
    }
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
        let is_list = |at: usize| matches!(call.kind(at), Kind::List);
        let single = are_single((a.dtype, is_list(0)), (b.dtype, is_list(1)));
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
                (false, true) => fast(*self, call, &left, &right)?,
                (true, false) => fast(*self, call, &right, &left)?,
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
            // Singles are compared as singles, whatever they are compared with.
            let made = match dtype {
                DType::F32 => f64::from(distance(*self, &elements::<f32>(&a), &elements(&b))),
                _ => distance(*self, &elements::<f64>(&a), &elements(&b)),
            };
            tensor_of(dtype, &[], &[made]).map(Some).map_err(|error| call.wrong(error))
        })
    }
}

fn elements<T: Wide>(tensor: &TensorRef<'_>) -> Vec<T> {
    loaded::<T>(tensor.dtype(), &in_order(tensor))
}

/// A column of float32 vectors against a constant.
fn fast(
    measure: Measure,
    call: &Call,
    column: &TensorArray,
    constant: &TensorArray,
) -> Result<Option<ArrayRef>> {
    let Some((size, all)) = column.singles() else { return Ok(None) };
    let Some(query) = constant.get(0)? else { return Ok(None) };
    let query = query.view();
    let shape = query.shape().dims();
    if !column.tensor_type().dims.holds(shape) {
        let (name, found) = (call.name, shape_text(shape));
        return exec_err!("{name}: shapes {} and {found} differ", column.tensor_type().dims);
    }
    let query = elements::<f32>(&query);
    let mut found = vec![0f32; call.rows];
    distances(measure, &query, &all[..call.rows * size], &mut found);
    let found = found.into_iter().enumerate();
    let array: Float32Array = found.map(|(row, found)| (!column.is_null(row)).then_some(found)).collect();
    Ok(Some(Arc::new(array)))
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
