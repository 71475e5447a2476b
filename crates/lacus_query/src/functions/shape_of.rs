//! What is known of a tensor without its elements: `shape`, `ndim`, `size`, `dtype`. Of files only the header is read.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, plan_err};
use lacus_tensor::DType;

use super::function::{Body, Call, Function, Planned, axis_of};
use crate::tensors::{Dims, tensor_of};

/// Which of the facts.
#[derive(Clone, Copy, Debug)]
enum Fact {
    Shape,
    Rank,
    Size,
    DType,
}

pub(super) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "shape",
            "x, axis?",
            "The size of each axis, as a tensor of one axis; with an axis, its size. Files are not decoded for it.",
            "SELECT shape(image), shape(image, 0) FROM photos",
            Fact::Shape,
        ),
        Function::new("ndim", "x", "The number of axes.", "SELECT ndim(image) FROM photos", Fact::Rank),
        Function::new("size", "x", "The number of elements.", "SELECT size(mask) FROM photos", Fact::Size),
        Function::new(
            "dtype",
            "x",
            "The name of the type of the elements: 'uint8', 'float32', …",
            "SELECT dtype(embedding) FROM docs",
            Fact::DType,
        ),
    ]
}

impl Body for Fact {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let operand = call.operand(0)?;
        match self {
            Fact::Shape if call.count() == 2 => {
                if let (Some(axis), Some(rank)) = (call.constant_int(1, "axis")?, operand.dims.rank())
                    && let Err(why) = axis_of(call.name, axis, rank)
                {
                    return plan_err!("{why}");
                }
                Ok(call.plain_field(DataType::Int64))
            }
            // A list even where the rank is known, so that all shapes are of one type.
            Fact::Shape => call.field(DType::I64, Dims::Ranked(vec![None])),
            Fact::Rank | Fact::Size => Ok(call.plain_field(DataType::Int64)),
            Fact::DType => Ok(call.plain_field(DataType::Utf8)),
        }
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let tensors = call.tensors(0)?;
        let ints = |of: &dyn Fn(&[u64]) -> Result<i64>| -> Result<ArrayRef> {
            let mut found = Vec::with_capacity(call.rows);
            for row in 0..call.rows {
                found.push(match call.any_null(row) {
                    true => None,
                    false => tensors.shape(row)?.map(|shape| of(&shape)).transpose()?,
                });
            }
            Ok(Arc::new(Int64Array::from(found)))
        };
        match self {
            Fact::Shape if call.count() == 2 => {
                let axis = call.constant_int(1).unwrap_or(0);
                ints(&|shape| match axis_of(call.name, axis, shape.len()) {
                    Ok(axis) => Ok(shape[axis] as i64),
                    Err(why) => Err(datafusion::common::DataFusionError::Execution(why)),
                })
            }
            Fact::Shape => call.build(|row| {
                let Some(shape) = tensors.shape(row)? else { return Ok(None) };
                tensor_of(DType::I64, &[shape.len() as u64], &shape)
                    .map(Some)
                    .map_err(|error| call.wrong(error))
            }),
            Fact::Rank => ints(&|shape| Ok(shape.len() as i64)),
            Fact::Size => ints(&|shape| Ok(shape.iter().product::<u64>() as i64)),
            Fact::DType => {
                let name = tensors.tensor_type().dtype.name();
                let names = (0..call.rows).map(|row| (!tensors.is_null(row)).then_some(name));
                Ok(Arc::new(names.collect::<StringArray>()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_error, fixed, ragged};
    use lacus_tensor::DType;

    #[test]
    fn facts_without_elements() {
        let image = fixed(DType::U8, &[2, 3], &[1.0; 6]);
        check("shape", std::slice::from_ref(&image), "int64 (2,) [2, 3]");
        check("ndim", std::slice::from_ref(&image), "2");
        check("size", std::slice::from_ref(&image), "6");
        check("dtype", std::slice::from_ref(&image), "uint8");
        check("shape", &[image.clone(), 1.into()], "3");
        check("shape", &[image.clone(), (-2).into()], "2");
        check("shape", &[ragged(DType::F32, &[0, 4], &[])], "int64 (2,) [0, 4]");
        check_error("shape", &[image, 2.into()], "shape: axis 2 is out of bounds for a tensor with 2 axes");
        check_error("ndim", &["a".into()], "ndim: expected a tensor or numbers, found text");
    }
}
