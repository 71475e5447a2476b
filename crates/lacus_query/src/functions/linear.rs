//! Products of vectors and matrices, and norms.

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use datafusion::common::{Result, ScalarValue, plan_err};
use lacus_tensor::kernels::matrix::{MatrixMut, MatrixRef};
use lacus_tensor::kernels::multiply::multiply_add;
use lacus_tensor::{DType, Shape, Tensor, TensorError, TensorRef};

use super::broadcast::{broadcast_dims, broadcast_shape, spread_all};
use super::function::{Body, Call, Function, Planned};
use super::promote::{meet, quotient_of};
use super::reduce::{runs, sum, without_axis};
use crate::tensors::{Class, Dims, Wide, cast, loaded, loaded_complex, shape_text, store_complex, tensor_of};

/// Which product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Product {
    Dot,
    Matmul,
}

/// `norm`.
#[derive(Debug)]
struct Norm;

pub(super) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "dot",
            "a, b",
            "numpy's dot: the inner product of vectors, the product of matrices; of more axes, the sum over the last one of a and \
             the one before the last of b.",
            "SELECT dot(a, b) FROM pairs",
            Product::Dot,
        ),
        Function::new(
            "matmul",
            "a, b",
            "The product of matrices; further axes in front are broadcast.",
            "SELECT matmul(rotation, points) FROM scenes",
            Product::Matmul,
        ),
        Function::new(
            "norm",
            "x, ord?, axis?",
            "The length of a vector, or numpy's norm of another order: a number, 'inf', '-inf' or 'fro'. Without an order, the \
             square root of the sum of all squares, for any number of axes.",
            "SELECT norm(embedding), norm(embedding, 1) FROM docs",
            Norm,
        ),
    ]
}

/// How two operands are multiplied: a product of matrices for each place of the axes in front.
struct Fit {
    /// Rows of a, what is summed over, columns of b.
    rows: u64,
    inner: u64,
    columns: u64,
    /// The axes in front, of both together.
    batch: Vec<u64>,
    result: Vec<u64>,
}

impl Product {
    /// The sizes of the result. A size that is not known is taken for one that fits.
    fn dims(self, name: &str, a: &Dims, b: &Dims) -> Result<Dims> {
        let (Some(left), Some(right)) = (a.sizes(), b.sizes()) else { return Ok(Dims::Unranked) };
        if left.is_empty() || right.is_empty() {
            return match self {
                Product::Dot => broadcast_dims(name, a, b),
                Product::Matmul => plan_err!("{name}: shapes {a} and {b} do not fit: a number is no matrix"),
            };
        }
        let (left_inner, right_inner) = (left[left.len() - 1], right[right.len().saturating_sub(2)]);
        if let (Some(found), Some(other)) = (left_inner, right_inner)
            && found != other
        {
            return plan_err!("{name}: shapes {a} and {b} do not fit: {found} and {other} differ");
        }
        let (rows, columns) = (&left[..left.len() - 1], right.get(right.len().wrapping_sub(1)));
        let columns = columns.filter(|_| right.len() > 1);
        let mut sizes = match self {
            Product::Dot => [rows, &right[..right.len().saturating_sub(2)]].concat(),
            Product::Matmul => {
                let front =
                    |sizes: &[Option<u64>]| Dims::ranked(sizes[..sizes.len().saturating_sub(2)].to_vec());
                let batch = broadcast_dims(name, &front(&left), &front(&right))?;
                let row = rows.last().filter(|_| left.len() > 1);
                batch.sizes().unwrap_or_default().into_iter().chain(row.copied()).collect()
            }
        };
        sizes.extend(columns.copied());
        Ok(Dims::ranked(sizes))
    }

    fn fit(self, name: &str, a: &[u64], b: &[u64]) -> Result<Fit> {
        let whole = |dims: &[u64]| Dims::Fixed(dims.to_vec());
        let result = self.dims(name, &whole(a), &whole(b)).map_err(|error| match error {
            datafusion::common::DataFusionError::Plan(why) => {
                datafusion::common::DataFusionError::Execution(why)
            }
            other => other,
        })?;
        let Dims::Fixed(result) = result else {
            unreachable!("sizes that are known give sizes that are known")
        };
        let rows = if a.len() > 1 { a[a.len() - 2] } else { 1 };
        let columns = if b.len() > 1 { b[b.len() - 1] } else { 1 };
        let front = |dims: &[u64]| dims[..dims.len().saturating_sub(2)].to_vec();
        let batch = match self {
            Product::Matmul => broadcast_shape(name, &front(a), &front(b))?,
            Product::Dot => Vec::new(),
        };
        Ok(Fit { rows, inner: a[a.len() - 1], columns, batch, result })
    }
}

impl Body for Product {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let (a, b) = (call.operand(0)?, call.operand(1)?);
        call.field(meet(&a, &b), self.dims(call.name, &a.dims, &b.dims)?)
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let (left, right) = (call.tensors(0)?, call.tensors(1)?);
        let dtype = call.output_type()?.dtype;
        call.build(|row| {
            let (Some(a), Some(b)) = (left.get(row)?, right.get(row)?) else { return Ok(None) };
            let (a, b) = (cast(&a.view(), dtype), cast(&b.view(), dtype));
            let (a, b) = (a.map_err(|error| call.wrong(error))?, b.map_err(|error| call.wrong(error))?);
            let (a, b) = (a.as_ref(), b.as_ref());
            let is_scale = a.shape().rank() == 0 || b.shape().rank() == 0;
            if is_scale && *self == Product::Dot {
                return scaled(&a, &b).map(Some).map_err(|error| call.wrong(error));
            }
            let fit = self.fit(call.name, a.shape().dims(), b.shape().dims())?;
            let made = match self {
                Product::Matmul => {
                    let full = |tensor: &TensorRef<'_>, matrix: [u64; 2]| {
                        let dims = tensor.shape().dims();
                        if dims.len() <= 2 && fit.batch.is_empty() {
                            return Ok(tensor.to_tensor().bytes().to_vec());
                        }
                        let mut own = dims[..dims.len().saturating_sub(2)].to_vec();
                        own.extend(matrix);
                        let shape = Shape::new(own).map_err(|error| call.wrong(error))?;
                        let bytes = tensor.to_tensor();
                        let tensor = TensorRef::contiguous(dtype, &shape, bytes.bytes());
                        let wanted = [&fit.batch[..], &matrix].concat();
                        let tensor = tensor.map_err(|error| call.wrong(error))?;
                        spread_all(&tensor, &wanted).map(|bytes| bytes.into_owned())
                    };
                    let (a, b) = (full(&a, [fit.rows, fit.inner])?, full(&b, [fit.inner, fit.columns])?);
                    products(dtype, &a, &b, &fit, fit.batch.iter().product::<u64>() as usize)
                }
                Product::Dot => {
                    // One product: all rows of a with all columns of b, which are brought side by side.
                    let rank = b.shape().rank();
                    let mut order: Vec<usize> = (0..rank).collect();
                    if rank > 1 {
                        let inner = order.remove(rank - 2);
                        order.insert(0, inner);
                    }
                    let columns: u64 = order[1..].iter().map(|axis| b.shape().dims()[*axis]).product();
                    let rows: u64 = a.shape().dims()[..a.shape().rank() - 1].iter().product();
                    let fit = Fit { rows, columns, ..fit };
                    products(dtype, a.to_tensor().bytes(), b.transpose(&order).to_tensor().bytes(), &fit, 1)
                }
            };
            made.map(Some).map_err(|error| call.wrong(error))
        })
    }
}

/// A tensor times a number.
fn scaled(a: &TensorRef<'_>, b: &TensorRef<'_>) -> Result<Tensor, TensorError> {
    let (tensor, number) = if a.shape().rank() == 0 { (b, a) } else { (a, b) };
    let (tensor, number) = (tensor.to_tensor(), number.to_tensor());
    let (dtype, dims) = (tensor.dtype(), tensor.shape().dims().to_vec());
    let count = tensor.bytes().len() / dtype.size_bytes();
    let mut repeated = number.bytes().repeat(count);
    repeated.truncate(tensor.bytes().len());
    // Every element is a matrix of one row and one column.
    let fit = Fit { rows: 1, inner: 1, columns: 1, batch: Vec::new(), result: dims };
    products(dtype, tensor.bytes(), &repeated, &fit, count)
}

/// Products of matrices that lie one after the other.
fn products(dtype: DType, a: &[u8], b: &[u8], fit: &Fit, count: usize) -> Result<Tensor, TensorError> {
    let [rows, inner, columns] = [fit.rows, fit.inner, fit.columns].map(|size| size as usize);
    let sizes = [rows, inner, columns];
    match Class::of(dtype) {
        Class::Int => {
            let times = |a: i64, b: i64, sum: i64| sum.wrapping_add(a.wrapping_mul(b));
            tensor_of(dtype, &fit.result, &naive(&loaded(dtype, a), &loaded(dtype, b), sizes, count, times))
        }
        Class::Uint => {
            let times = |a: u64, b: u64, sum: u64| sum.wrapping_add(a.wrapping_mul(b));
            tensor_of(dtype, &fit.result, &naive(&loaded(dtype, a), &loaded(dtype, b), sizes, count, times))
        }
        Class::Single => {
            let (a, b) = (loaded::<f32>(dtype, a), loaded::<f32>(dtype, b));
            let mut out = vec![0f32; count * rows * columns];
            multiplied(&a, &b, sizes, &mut out, 1.0)?;
            tensor_of(dtype, &fit.result, &out)
        }
        Class::Double => {
            let (a, b) = (loaded::<f64>(dtype, a), loaded::<f64>(dtype, b));
            let mut out = vec![0f64; count * rows * columns];
            multiplied(&a, &b, sizes, &mut out, 1.0)?;
            tensor_of(dtype, &fit.result, &out)
        }
        Class::Complex => {
            let (a, b) = (loaded_complex(dtype, a), loaded_complex(dtype, b));
            let times = |[a, b]: [f64; 2], [c, d]: [f64; 2], sum: [f64; 2]| {
                [sum[0] + a * c - b * d, sum[1] + a * d + b * c]
            };
            let out = naive(&a, &b, sizes, count, times);
            let mut result = Tensor::zeros(dtype, Shape::new(&fit.result[..])?)?;
            store_complex(dtype, &out, result.bytes_mut());
            Ok(result)
        }
    }
}

fn multiplied<T: lacus_tensor::kernels::number::Number>(
    a: &[T],
    b: &[T],
    [rows, inner, columns]: [usize; 3],
    out: &mut [T],
    one: T,
) -> Result<(), TensorError> {
    if inner == 0 || rows * columns == 0 {
        return Ok(());
    }
    let pairs = a.chunks_exact(rows * inner).zip(b.chunks_exact(inner * columns));
    for ((a, b), out) in pairs.zip(out.chunks_exact_mut(rows * columns)) {
        let (a, b) = (MatrixRef::from_rows(a, rows, inner)?, MatrixRef::from_rows(b, inner, columns)?);
        multiply_add(MatrixMut::from_rows(out, rows, columns)?, one, a, b, true);
    }
    Ok(())
}

fn naive<T: Copy + Default>(
    a: &[T],
    b: &[T],
    [rows, inner, columns]: [usize; 3],
    count: usize,
    times: impl Fn(T, T, T) -> T,
) -> Vec<T> {
    let mut out = vec![T::default(); count * rows * columns];
    for at in 0..count {
        for row in 0..rows {
            let start = (at * rows + row) * columns;
            for k in 0..inner {
                let factor = a[(at * rows + row) * inner + k];
                let line = &b[(at * inner + k) * columns..][..columns];
                for (out, b) in out[start..start + columns].iter_mut().zip(line) {
                    *out = times(factor, *b, *out);
                }
            }
        }
    }
    out
}

/// The order of a norm.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Default,
    Frobenius,
    Of(f64),
}

fn order(scalar: Option<&ScalarValue>) -> Option<Order> {
    let scalar = match scalar {
        None => return Some(Order::Default),
        Some(scalar) if scalar.is_null() => return Some(Order::Default),
        Some(scalar) => scalar,
    };
    if let Some(Some(text)) = scalar.try_as_str() {
        return match text {
            "inf" => Some(Order::Of(f64::INFINITY)),
            "-inf" => Some(Order::Of(f64::NEG_INFINITY)),
            "fro" => Some(Order::Frobenius),
            _ => None,
        };
    }
    match scalar.cast_to(&arrow::datatypes::DataType::Float64) {
        Ok(ScalarValue::Float64(Some(value))) => Some(Order::Of(value)),
        _ => None,
    }
}

impl Body for Norm {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let operand = call.operand(0)?;
        let is_given = call.count() > 1 && !call.fields[1].data_type().is_null();
        let order = if is_given && call.constant(1).is_none() { None } else { order(call.constant(1)) };
        let Some(order) = order else {
            return plan_err!("{}: the order must be a constant number, 'inf', '-inf' or 'fro'", call.name);
        };
        let axis = call.constant_int(2, "axis")?;
        if let (None, Order::Of(value), Some(rank)) = (axis, order, operand.dims.rank()) {
            let is_known = rank == 1 || (rank == 2 && (value.abs() == 1.0 || value.is_infinite()));
            if !is_known {
                let of = operand.dims;
                return plan_err!("{}: there is no norm of order {value} for shape {of}", call.name);
            }
        }
        if order == Order::Frobenius && (axis.is_some() || operand.dims.rank().is_some_and(|rank| rank != 2))
        {
            return plan_err!("{}: 'fro' is a norm of matrices, found shape {}", call.name, operand.dims);
        }
        let dtype = match operand.dtype {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            real => quotient_of(real),
        };
        call.field(dtype, without_axis(call, &operand.dims, axis)?)
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let tensors = call.tensors(0)?;
        let dtype = call.output_type()?.dtype;
        let order = order(call.constant(1)).unwrap_or(Order::Default);
        let axis = call.constant_int(2);
        call.build(|row| {
            let Some(tensor) = tensors.get(row)? else { return Ok(None) };
            let tensor = tensor.view();
            let rank = tensor.shape().rank();
            let lengths = |bytes: &[u8]| -> Vec<f64> {
                let numbers = loaded_complex(tensor.dtype(), bytes);
                numbers.into_iter().map(|[a, b]| if b == 0.0 { a.abs() } else { a.hypot(b) }).collect()
            };
            if let (None, Order::Of(value), 2) = (axis, order, rank) {
                // Sums of columns, or of rows.
                let (bytes, _, length) =
                    runs(call.name, &tensor, Some(if value.abs() == 1.0 { 0 } else { 1 }))?;
                let sums: Vec<f64> = lengths(&bytes).chunks(length.max(1)).map(sum).collect();
                let found = match value > 0.0 {
                    true => sums.into_iter().fold(f64::NEG_INFINITY, f64::max),
                    false => sums.into_iter().fold(f64::INFINITY, f64::min),
                };
                return tensor_of(dtype, &[], &[found]).map(Some).map_err(|error| call.wrong(error));
            }
            if let (None, Order::Of(value)) = (axis, order)
                && rank != 1
            {
                let shape = shape_text(tensor.shape().dims());
                return call.fail(format!("there is no norm of order {value} for shape {shape}"));
            }
            let (bytes, left, length) = runs(call.name, &tensor, axis)?;
            let count = left.iter().product::<u64>() as usize;
            let all = lengths(&bytes);
            let made: Vec<f64> =
                (0..count).map(|at| vector_norm(&all[at * length..(at + 1) * length], order)).collect();
            tensor_of(dtype, &left, &made).map(Some).map_err(|error| call.wrong(error))
        })
    }
}

/// The norm of a vector, of whose elements the absolute values are given.
fn vector_norm(run: &[f64], order: Order) -> f64 {
    match order {
        Order::Of(f64::INFINITY) => run.iter().copied().fold(0.0, largest),
        Order::Of(f64::NEG_INFINITY) => run.iter().copied().fold(f64::INFINITY, |a, b| -largest(-a, -b)),
        Order::Of(0.0) => run.iter().filter(|value| value.is_true()).count() as f64,
        Order::Of(1.0) => sum(run),
        Order::Of(value) if value != 2.0 => {
            sum(&run.iter().map(|item| item.powf(value)).collect::<Vec<_>>()).powf(1.0 / value)
        }
        _ => sum(&run.iter().map(|value| value * value).collect::<Vec<_>>()).sqrt(),
    }
}

/// The larger one; NaN if one is.
fn largest(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_error, fixed, list, ragged, text};
    use lacus_tensor::DType;

    #[test]
    fn products_are_numpys() {
        let a = || fixed(DType::F32, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let b = || fixed(DType::F32, &[3, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        check("matmul", &[a(), b()], "float32 (2, 2) [4, 5, 10, 11]");
        check("dot", &[a(), b()], "float32 (2, 2) [4, 5, 10, 11]");
        check("matmul", &[a(), fixed(DType::F64, &[3], &[1.0, 1.0, 1.0])], "float64 (2,) [6, 15]");
        check(
            "matmul",
            &[fixed(DType::I32, &[2], &[1.0, 2.0]), fixed(DType::I32, &[2, 2], &[1.0, 2.0, 3.0, 4.0])],
            "int32 (2,) [7, 10]",
        );
        check("dot", &[fixed(DType::U8, &[2], &[20.0, 20.0]), fixed(DType::U8, &[2], &[20.0, 0.0])], "144");
        check("dot", &[ragged(DType::F32, &[2], &[1.0, 2.0]), list(&[3.0, 4.0])], "11.0");
        check("dot", &[a(), 2.into()], "float32 (2, 3) [2, 4, 6, 8, 10, 12]");
        check(
            "dot",
            &[fixed(DType::C64, &[2], &[1.0, 2.0]), fixed(DType::C64, &[2], &[1.0, 2.0])],
            "complex64 () [5]",
        );
        let batch = fixed(DType::I64, &[2, 1, 2], &[1.0, 2.0, 3.0, 4.0]);
        check(
            "matmul",
            &[batch.clone(), fixed(DType::I64, &[2, 1], &[1.0, 10.0])],
            "int64 (2, 1, 1) [21, 43]",
        );
        check(
            "dot",
            &[fixed(DType::I64, &[2], &[1.0, 1.0]), fixed(DType::I64, &[2, 2, 1], &[1.0, 2.0, 3.0, 4.0])],
            "int64 (2, 1) [3, 7]",
        );
        check(
            "matmul",
            &[ragged(DType::F32, &[2, 0], &[]), ragged(DType::F32, &[0, 1], &[])],
            "float32 (2, 1) [0, 0]",
        );
        let (wide, tall) = (fixed(DType::F32, &[7, 3], &[0.0; 21]), fixed(DType::F32, &[4, 2], &[0.0; 8]));
        check_error("matmul", &[wide, tall], "matmul: shapes (7, 3) and (4, 2) do not fit: 3 and 4 differ");
        check_error(
            "matmul",
            &[ragged(DType::F32, &[2], &[1.0, 2.0]), fixed(DType::F32, &[1], &[1.0])],
            "matmul: shapes (2,) and (1,) do not fit: 2 and 1 differ",
        );
        check_error("matmul", &[a(), 2.into()], "a number is no matrix");
    }

    #[test]
    fn norms_are_numpys() {
        let vector = || fixed(DType::F32, &[2], &[3.0, -4.0]);
        check("norm", &[vector()], "5.0");
        check("norm", &[vector(), 1.into()], "7.0");
        check("norm", &[vector(), 0.into()], "2.0");
        check("norm", &[vector(), text("inf")], "4.0");
        check("norm", &[vector(), text("-inf")], "3.0");
        check("norm", &[vector(), 2.into(), 0.into()], "5.0");
        let matrix = || fixed(DType::I32, &[2, 2], &[1.0, -2.0, 3.0, 4.0]);
        check("norm", &[matrix(), 1.into()], "6.0");
        check("norm", &[matrix(), text("inf")], "7.0");
        check("norm", &[matrix(), text("fro")], "5.477225575051661");
        check(
            "norm",
            &[fixed(DType::F64, &[2, 2], &[3.0, 4.0, 6.0, 8.0]), 2.into(), 1.into()],
            "float64 (2,) [5, 10]",
        );
        check_error("norm", &[matrix(), 3.into()], "norm: there is no norm of order 3 for shape (2, 2)");
        check_error("norm", &[vector(), text("nuc")], "norm: the order must be a constant number");
    }
}
