//! The same elements otherwise arranged: `transpose`, `reshape`, `concat`, `stack`.

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::functions::string;
use lacus_tensor::{Buffer, DType, Shape, Tensor};

use super::function::{Body, Call, Function, Operand, Planned, axis_of};
use super::promote::meet_all;
use crate::tensors::{Dims, TensorBuilder, cast, shape_text};

#[derive(Debug)]
struct Transpose;

#[derive(Debug)]
struct Reshape;

/// Tensors joined along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Join {
    /// One that they have.
    Concat,
    /// One that is new.
    Stack,
}

pub(super) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "transpose",
            "x, axes…",
            "The axes in another order; in the opposite one if none is given.",
            "SELECT transpose(image, 2, 0, 1) FROM photos",
            Transpose,
        ),
        Function::new(
            "reshape",
            "x, sizes…",
            "The elements with other axes; one size may be -1 and follows from the others.",
            "SELECT reshape(image, -1, 3) FROM photos",
            Reshape,
        ),
        Function::new(
            "concat",
            "tensors…",
            "Tensors one after the other along their first axis, or along the axis that a constant integer at the end says.",
            "SELECT concat(boxes, more_boxes), concat(a, b, 1) FROM photos",
            Join::Concat,
        )
        .plain(string::concat),
        Function::new(
            "concat_tensors",
            "tensors…",
            "Like concat, but for tensors only.",
            "SELECT concat_tensors(a, b) FROM pairs",
            Join::Concat,
        ),
        Function::new(
            "stack",
            "tensors…",
            "Tensors of one shape along a new axis: the first, or the one that a constant integer at the end says.",
            "SELECT stack(red, green, blue, -1) FROM photos",
            Join::Stack,
        ),
    ]
}

impl Body for Transpose {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let operand = call.operand(0)?;
        let axes =
            (1..call.count()).map(|at| call.constant_int(at, "an axis")).collect::<Result<Vec<_>>>()?;
        let axes: Vec<i64> = axes.into_iter().map(Option::unwrap_or_default).collect();
        let dims = match operand.dims.sizes() {
            None if axes.is_empty() => Dims::Unranked,
            None => Dims::Ranked(vec![None; axes.len()]),
            Some(sizes) => {
                let order = order(call.name, &axes, sizes.len()).map_err(DataFusionError::Plan)?;
                Dims::ranked(order.into_iter().map(|axis| sizes[axis]).collect())
            }
        };
        call.field(operand.dtype, dims)
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let tensors = call.tensors(0)?;
        let axes: Vec<i64> = (1..call.count()).map(|at| call.constant_int(at).unwrap_or(0)).collect();
        let mut builder = TensorBuilder::new(call.name, &call.output_type()?, call.rows)?;
        for row in 0..call.rows {
            match tensors.get(row)? {
                None => builder.push_null(),
                Some(tensor) => {
                    let tensor = tensor.view();
                    let order =
                        order(call.name, &axes, tensor.shape().rank()).map_err(DataFusionError::Execution)?;
                    builder.push(&tensor.transpose(&order))?;
                }
            }
        }
        builder.finish()
    }
}

/// The order of the axes of a tensor. Fails if it is none.
fn order(name: &str, axes: &[i64], rank: usize) -> Result<Vec<usize>, String> {
    if axes.is_empty() {
        return Ok((0..rank).rev().collect());
    }
    let order = axes.iter().map(|axis| axis_of(name, *axis, rank)).collect::<Result<Vec<_>, _>>()?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    match sorted.into_iter().eq(0..rank) {
        true => Ok(order),
        false => Err(format!("{name}: {axes:?} is no order of {rank} axes")),
    }
}

impl Body for Reshape {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let operand = call.operand(0)?;
        let mut sizes = Vec::new();
        for at in 1..call.count() {
            call.expect_integer(at, "a size")?;
            sizes.push(match call.constant(at) {
                Some(_) => call.constant_int(at, "a size")?,
                None => None,
            });
        }
        let known: Option<Vec<i64>> = sizes.iter().copied().collect();
        let dims = match (known, &operand.dims) {
            (Some(sizes), Dims::Fixed(shape)) => {
                Dims::Fixed(reshaped(call.name, shape, &sizes).map_err(DataFusionError::Plan)?)
            }
            _ => Dims::ranked(
                sizes.iter().map(|size| size.and_then(|size| u64::try_from(size).ok())).collect(),
            ),
        };
        call.field(operand.dtype, dims)
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let tensors = call.tensors(0)?;
        let sizes = (1..call.count()).map(|at| call.ints(at)).collect::<Result<Vec<_>>>()?;
        call.build(|row| {
            if call.any_null(row) {
                return Ok(None);
            }
            let Some(tensor) = tensors.get(row)? else { return Ok(None) };
            let tensor = tensor.view().to_tensor();
            let sizes: Vec<i64> = sizes.iter().map(|sizes| sizes.value(row)).collect();
            let dims =
                reshaped(call.name, tensor.shape().dims(), &sizes).map_err(DataFusionError::Execution)?;
            let (dtype, shape) = (tensor.dtype(), Shape::new(dims));
            let made = shape.and_then(|shape| Tensor::new(dtype, shape, tensor.into_buffer()));
            made.map(Some).map_err(|error| call.wrong(error))
        })
    }
}

/// The shape that these sizes give a tensor of a shape.
fn reshaped(name: &str, shape: &[u64], sizes: &[i64]) -> Result<Vec<u64>, String> {
    let count: u64 = shape.iter().product();
    let wrong = || {
        let sizes: Vec<String> = sizes.iter().map(i64::to_string).collect();
        format!(
            "{name}: a tensor of shape {} does not have the shape ({})",
            shape_text(shape),
            sizes.join(", ")
        )
    };
    let open = sizes.iter().filter(|size| **size == -1).count();
    if open > 1 || sizes.iter().any(|size| *size < -1) {
        return Err(wrong());
    }
    let given = sizes
        .iter()
        .filter(|size| **size >= 0)
        .try_fold(1u64, |product, size| product.checked_mul(*size as u64));
    let given = given.ok_or_else(wrong)?;
    let rest = match open {
        1 if given > 0 && count.is_multiple_of(given) => count / given,
        0 if given == count => 0,
        _ => return Err(wrong()),
    };
    Ok(sizes.iter().map(|size| if *size == -1 { rest } else { *size as u64 }).collect())
}

impl Join {
    /// How many of the arguments are tensors, and the axis.
    fn split(self, count: usize, is_axis: bool, axis: Option<i64>) -> (usize, i64) {
        match is_axis && count > 1 {
            true => (count - 1, axis.unwrap_or(0)),
            false => (count, 0),
        }
    }

    /// The size of the result, from those of its parts.
    fn dims(self, name: &str, operands: &[Operand], axis: i64) -> Result<Dims> {
        let Some(all) = operands.iter().map(|operand| operand.dims.sizes()).collect::<Option<Vec<_>>>()
        else {
            return Ok(Dims::Unranked);
        };
        let first = &all[0];
        let rank = first.len() + usize::from(self == Join::Stack);
        if rank == 0 {
            return plan_err!("{name}: numbers have no axis to be joined along; use stack");
        }
        let axis = axis_of(name, axis, rank).map_err(DataFusionError::Plan)?;
        let mut result = first.clone();
        if self == Join::Stack {
            result.insert(axis, Some(operands.len() as u64));
        }
        for (at, sizes) in all.iter().enumerate().skip(1) {
            let differ = || {
                let (a, b) = (&operands[0].dims, &operands[at].dims);
                plan_err!("{name}: shapes {a} and {b} do not fit")
            };
            if sizes.len() != first.len() {
                return differ();
            }
            for (place, size) in sizes.iter().enumerate() {
                let target = if self == Join::Stack && place >= axis { place + 1 } else { place };
                if self == Join::Concat && place == axis {
                    result[axis] = result[axis].zip(*size).map(|(a, b)| a + b);
                    continue;
                }
                match (result[target], size) {
                    (Some(a), Some(b)) if a != *b => return differ(),
                    (None, Some(b)) => result[target] = Some(*b),
                    _ => {}
                }
            }
        }
        Ok(Dims::ranked(result))
    }
}

impl Body for Join {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let count = call.count();
        if count == 0 {
            return plan_err!("{}: expected at least 1 argument, found 0", call.name);
        }
        let last = count - 1;
        let is_axis = call.constant(last).is_some_and(|scalar| scalar.data_type().is_integer());
        let has_axes =
            (0..last).any(|at| call.operand(at).is_ok_and(|operand| operand.dims.rank() != Some(0)));
        let is_axis = is_axis && has_axes;
        let axis = if is_axis { call.constant_int(last, "axis")? } else { None };
        let (count, axis) = self.split(count, is_axis, axis);
        let operands = (0..count).map(|at| call.operand(at)).collect::<Result<Vec<_>>>()?;
        call.field(meet_all(&operands), self.dims(call.name, &operands, axis)?)
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let dtype = call.output_type()?.dtype;
        let last = call.count() - 1;
        let is_axis = call.is_constant(last) && call.fields[last].data_type().is_integer();
        let all = (0..call.count()).map(|at| call.tensors(at)).collect::<Result<Vec<_>>>()?;
        let has_axes = all[..last].iter().any(|tensors| tensors.tensor_type().dims.rank() != Some(0));
        let (count, axis) = self.split(call.count(), is_axis && has_axes, call.constant_int(last));
        call.build(|row| {
            let mut parts = Vec::with_capacity(count);
            for tensors in &all[..count] {
                let Some(tensor) = tensors.get(row)? else { return Ok(None) };
                parts.push(cast(&tensor.view(), dtype).map_err(|error| call.wrong(error))?);
            }
            self.join(call, &parts, axis, dtype).map(Some)
        })
    }
}

impl Join {
    fn join(self, call: &Call, parts: &[Tensor], axis: i64, dtype: DType) -> Result<Tensor> {
        let operands: Vec<Operand> = parts
            .iter()
            .map(|part| Operand { dtype, dims: Dims::Fixed(part.shape().dims().to_vec()), is_weak: false })
            .collect();
        let dims = self.dims(call.name, &operands, axis).map_err(|error| match error {
            DataFusionError::Plan(why) => DataFusionError::Execution(why),
            other => other,
        })?;
        let Dims::Fixed(dims) = dims else { return call.fail("a shape that is not known") };
        let axis = axis_of(call.name, axis, dims.len()).map_err(DataFusionError::Execution)?;
        // Outside of the axis, and bytes of each part within it.
        let outer: usize = dims[..axis].iter().product::<u64>() as usize;
        let shape = Shape::new(&dims[..]).map_err(|error| call.wrong(error))?;
        let mut out = Buffer::try_for_overwrite(shape.byte_len(dtype).map_err(|error| call.wrong(error))?)
            .map_err(|error| call.wrong(error))?;
        let mut at = 0;
        for place in 0..outer {
            for part in parts {
                let size = part.bytes().len() / outer;
                out[at..at + size].copy_from_slice(&part.bytes()[place * size..(place + 1) * size]);
                at += size;
            }
        }
        Tensor::new(dtype, shape, out).map_err(|error| call.wrong(error))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Value, check, check_error, fixed, number, ragged, text};
    use lacus_tensor::DType;

    fn matrix() -> Value {
        fixed(DType::U8, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    }

    #[test]
    fn axes_move() {
        check("transpose", &[matrix()], "uint8 (3, 2) [1, 4, 2, 5, 3, 6]");
        check(
            "transpose",
            &[ragged(DType::U8, &[1, 2, 1], &[1.0, 2.0]), (-1).into(), 0.into(), 1.into()],
            "uint8 (1, 1, 2) [1, 2]",
        );
        check_error("transpose", &[matrix(), 0.into(), 0.into()], "transpose: [0, 0] is no order of 2 axes");
        check("reshape", &[matrix(), 3.into(), (-1).into()], "uint8 (3, 2) [1, 2, 3, 4, 5, 6]");
        check("reshape", &[matrix(), 6.into()], "uint8 (6,) [1, 2, 3, 4, 5, 6]");
        check(
            "reshape",
            &[ragged(DType::U8, &[4], &[1.0, 2.0, 3.0, 4.0]), (-1).into(), 2.into()],
            "uint8 (2, 2) [1, 2, 3, 4]",
        );
        check_error(
            "reshape",
            &[matrix(), 4.into(), (-1).into()],
            "reshape: a tensor of shape (2, 3) does not have the shape (4, -1)",
        );
    }

    #[test]
    fn tensors_are_joined() {
        check("concat", &[matrix(), matrix()], "uint8 (4, 3) [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]");
        check("concat", &[matrix(), matrix(), 1.into()], "uint8 (2, 6) [1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6]");
        check(
            "concat_tensors",
            &[ragged(DType::F32, &[1], &[1.5]), fixed(DType::U8, &[1], &[2.0])],
            "float32 (2,) [1.5, 2]",
        );
        check(
            "stack",
            &[matrix(), matrix(), (-1).into()],
            "uint8 (2, 3, 2) [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]",
        );
        check("stack", &[number(DType::I32, 1.0), number(DType::I32, 2.0)], "int32 (2,) [1, 2]");
        check("concat", &[text("a"), text("b")], "ab");
        check_error(
            "concat",
            &[matrix(), fixed(DType::U8, &[2, 2], &[0.0; 4])],
            "concat: shapes (2, 3) and (2, 2) do not fit",
        );
        check_error("concat", &[matrix(), text("a")], "concat: expected a tensor or numbers, found text");
    }
}
