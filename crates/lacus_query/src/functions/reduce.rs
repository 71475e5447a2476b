//! Sums, means and other reductions over all axes of a tensor, or over one.

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use datafusion::common::{DataFusionError, Result, plan_err};
use lacus_tensor::{DType, Shape, Tensor, TensorRef};

use super::function::{Body, Call, Function, Planned, axis_of};
use super::promote::{quotient_of, sum_of};
use crate::tensors::{
    Class, Dims, Wide, in_order, load, loaded_complex, shape_text, store_complex, tensor_of,
};

/// How elements become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reduction {
    Sum,
    Prod,
    Mean,
    Var,
    Std,
    Min,
    Max,
    Any,
    All,
    /// Like [`Reduction::All`], but false of nothing.
    AllStrict,
    CountNonzero,
    ArgMin,
    ArgMax,
}

pub(super) fn functions() -> Vec<Function> {
    use Reduction::*;
    let one = |name, about, example, reduction: Reduction| {
        Function::new(name, "x, axis?", about, example, reduction)
    };
    vec![
        one(
            "tensor_sum",
            "The sum of the elements; of integers as int64 or uint64. Written sum(x).",
            "SELECT sum(mask) FROM photos",
            Sum,
        ),
        one(
            "tensor_mean",
            "The mean of the elements; of integers as float64. Written mean(x) or avg(x).",
            "SELECT mean(image, axis => 2) FROM photos",
            Mean,
        ),
        one(
            "tensor_std",
            "The standard deviation of the elements, divided by their number. Written std(x).",
            "SELECT std(embedding) FROM docs",
            Std,
        ),
        one(
            "tensor_var",
            "The variance of the elements, divided by their number. Written var(x).",
            "SELECT var(embedding) FROM docs",
            Var,
        ),
        one(
            "tensor_min",
            "The smallest element; NaN if there is one. Written min(x).",
            "SELECT min(image) FROM photos",
            Min,
        ),
        one(
            "tensor_max",
            "The largest element; NaN if there is one. Written max(x).",
            "SELECT max(image) FROM photos",
            Max,
        ),
        one(
            "tensor_prod",
            "The product of the elements; of integers as int64 or uint64.",
            "SELECT tensor_prod(shape(image)) FROM photos",
            Prod,
        )
        .aliases(&["prod"]),
        one(
            "tensor_any",
            "Whether one of the elements is true, or not zero.",
            "SELECT * FROM photos WHERE any(mask)",
            Any,
        )
        .aliases(&["any"]),
        one(
            "tensor_all",
            "Whether all elements are true, or not zero; true if there is none.",
            "SELECT * FROM photos WHERE all(boxes > 0)",
            All,
        )
        .aliases(&["all"]),
        one(
            "all_strict",
            "Whether there are elements and all of them are true, or not zero.",
            "SELECT * FROM photos WHERE all_strict(boxes > 0)",
            AllStrict,
        ),
        one(
            "count_nonzero",
            "How many elements are true, or not zero.",
            "SELECT count_nonzero(mask) FROM photos",
            CountNonzero,
        )
        .aliases(&["nonzero"]),
        one(
            "argmin",
            "The place of the first smallest element; without an axis, in all elements in C order.",
            "SELECT argmin(logits) FROM runs",
            ArgMin,
        ),
        one(
            "argmax",
            "The place of the first largest element; without an axis, in all elements in C order.",
            "SELECT argmax(logits) FROM runs",
            ArgMax,
        ),
    ]
}

impl Reduction {
    fn dtype(self, of: DType) -> DType {
        match self {
            Reduction::Sum | Reduction::Prod => sum_of(of),
            Reduction::Mean | Reduction::Var | Reduction::Std => quotient_of(of),
            Reduction::Min | Reduction::Max => of,
            Reduction::Any | Reduction::All | Reduction::AllStrict => DType::Bool,
            Reduction::CountNonzero | Reduction::ArgMin | Reduction::ArgMax => DType::I64,
        }
    }

    /// Whether there is a result for no elements.
    fn has_identity(self) -> bool {
        !matches!(self, Reduction::Min | Reduction::Max | Reduction::ArgMin | Reduction::ArgMax)
    }

    fn takes_complex(self) -> bool {
        use Reduction::*;
        matches!(self, Sum | Prod | Mean | Any | All | AllStrict | CountNonzero)
    }
}

/// The dims that are left when an axis goes; all go if there is none.
pub(super) fn without_axis(call: &Planned<'_>, dims: &Dims, axis: Option<i64>) -> Result<Dims> {
    match (axis, dims.sizes()) {
        (None, _) => Ok(Dims::Fixed(Vec::new())),
        (Some(_), None) => Ok(Dims::Unranked),
        (Some(axis), Some(mut sizes)) => {
            let axis = axis_of(call.name, axis, sizes.len()).map_err(DataFusionError::Plan)?;
            sizes.remove(axis);
            Ok(Dims::ranked(sizes))
        }
    }
}

/// A tensor whose elements along an axis lie one after the other: their bytes in this order, the shape without the axis, and its
/// size. All axes are taken as one if none is given.
pub(super) fn runs<'a>(
    name: &str,
    tensor: &TensorRef<'a>,
    axis: Option<i64>,
) -> Result<(std::borrow::Cow<'a, [u8]>, Vec<u64>, usize)> {
    let dims = tensor.shape().dims();
    let Some(axis) = axis else {
        return Ok((in_order(tensor), Vec::new(), dims.iter().product::<u64>() as usize));
    };
    let axis = axis_of(name, axis, dims.len()).map_err(DataFusionError::Execution)?;
    let mut order: Vec<usize> = (0..dims.len()).filter(|at| *at != axis).collect();
    let left = order.iter().map(|at| dims[*at]).collect();
    order.push(axis);
    Ok((in_order(&tensor.transpose(&order)), left, dims[axis] as usize))
}

impl Body for Reduction {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let tensor = call.tensor(0)?;
        let axis = call.constant_int(1, "axis")?;
        if tensor.dtype.is_complex() && !self.takes_complex() {
            return plan_err!("{}: {} numbers have no order", call.name, tensor.dtype);
        }
        let dims = without_axis(call, &tensor.dims, axis)?;
        call.field(self.dtype(tensor.dtype), dims)
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let tensors = call.tensors(0)?;
        let axis = call.constant_int(1);
        let to = call.output_type()?.dtype;
        call.build(|row| {
            let Some(tensor) = tensors.get(row)? else { return Ok(None) };
            let tensor = tensor.view();
            let (bytes, left, length) = runs(call.name, &tensor, axis)?;
            if length == 0 && !self.has_identity() && left.iter().product::<u64>() > 0 {
                let shape = shape_text(tensor.shape().dims());
                return call.fail(format!("there are no elements in a tensor of shape {shape}"));
            }
            self.reduce(tensor.dtype(), &bytes, length, to, &left)
                .map(Some)
                .map_err(|error| call.wrong(error))
        })
    }
}

impl Reduction {
    /// Reduces every `length` elements to one.
    fn reduce(
        self,
        from: DType,
        bytes: &[u8],
        length: usize,
        to: DType,
        left: &[u64],
    ) -> Result<Tensor, lacus_tensor::TensorError> {
        use Reduction::*;
        let count = left.iter().product::<u64>() as usize;
        let runs = Runs { dtype: from, bytes, length, count };
        match (self, Class::of(from)) {
            (Any | All | AllStrict, class) => {
                let truths = match class {
                    Class::Complex => runs
                        .complex()
                        .into_iter()
                        .map(|run| self.truth(run.iter().map(|[a, b]| *a != 0.0 || *b != 0.0)))
                        .collect(),
                    _ => runs.each(|run: &[f64]| self.truth(run.iter().map(|value| value.is_true()))),
                };
                tensor_of(to, left, &truths.into_iter().map(i64::from).collect::<Vec<_>>())
            }
            (CountNonzero, class) => {
                let count = |run: &mut dyn Iterator<Item = bool>| run.filter(|value| *value).count() as i64;
                let counts: Vec<i64> = match class {
                    Class::Complex => {
                        let of = |run: Vec<[f64; 2]>| count(&mut run.iter().map(|value| *value != [0.0; 2]));
                        runs.complex().into_iter().map(of).collect()
                    }
                    _ => runs.each(|run: &[f64]| count(&mut run.iter().map(|value| value.is_true()))),
                };
                tensor_of(to, left, &counts)
            }
            (_, Class::Complex) => {
                let found: Vec<[f64; 2]> = runs.complex().into_iter().map(|run| self.complex(&run)).collect();
                let mut result = Tensor::zeros(to, Shape::new(left)?)?;
                store_complex(to, &found, result.bytes_mut());
                Ok(result)
            }
            (ArgMin | ArgMax, Class::Int) => tensor_of(to, left, &runs.each(|run: &[i64]| self.place(run))),
            (ArgMin | ArgMax, Class::Uint) => tensor_of(to, left, &runs.each(|run: &[u64]| self.place(run))),
            (ArgMin | ArgMax, _) => tensor_of(to, left, &runs.each(|run: &[f64]| self.place(run))),
            (Sum | Prod | Min | Max, Class::Int) => tensor_of(
                to,
                left,
                &runs.each(|run: &[i64]| match self {
                    Sum => run.iter().fold(0i64, |sum, value| sum.wrapping_add(*value)),
                    Prod => run.iter().fold(1i64, |product, value| product.wrapping_mul(*value)),
                    Min => run.iter().copied().min().unwrap_or(0),
                    _ => run.iter().copied().max().unwrap_or(0),
                }),
            ),
            (Sum | Prod | Min | Max, Class::Uint) => tensor_of(
                to,
                left,
                &runs.each(|run: &[u64]| match self {
                    Sum => run.iter().fold(0u64, |sum, value| sum.wrapping_add(*value)),
                    Prod => run.iter().fold(1u64, |product, value| product.wrapping_mul(*value)),
                    Min => run.iter().copied().min().unwrap_or(0),
                    _ => run.iter().copied().max().unwrap_or(0),
                }),
            ),
            // Floats are accumulated in double precision, whatever they are.
            _ => tensor_of(to, left, &runs.each(|run: &[f64]| self.double(run))),
        }
    }

    fn truth(self, mut run: impl ExactSizeIterator<Item = bool>) -> bool {
        match self {
            Reduction::Any => run.any(|value| value),
            Reduction::AllStrict => run.len() > 0 && run.all(|value| value),
            _ => run.all(|value| value),
        }
    }

    fn double(self, run: &[f64]) -> f64 {
        let count = run.len() as f64;
        match self {
            Reduction::Prod => run.iter().product(),
            Reduction::Mean => sum(run) / count,
            Reduction::Var | Reduction::Std => {
                let mean = sum(run) / count;
                let squares: Vec<f64> = run.iter().map(|value| (value - mean) * (value - mean)).collect();
                let variance = sum(&squares) / count;
                if self == Reduction::Std { variance.sqrt() } else { variance }
            }
            Reduction::Min => extreme(run, |a, b| a < b),
            Reduction::Max => extreme(run, |a, b| a > b),
            _ => sum(run),
        }
    }

    fn complex(self, run: &[[f64; 2]]) -> [f64; 2] {
        let total = match self {
            Reduction::Prod => run.iter().fold([1.0, 0.0], |[a, b], [c, d]| [a * c - b * d, a * d + b * c]),
            _ => run.iter().fold([0.0, 0.0], |[a, b], [c, d]| [a + c, b + d]),
        };
        match self {
            Reduction::Mean => total.map(|part| part / run.len() as f64),
            _ => total,
        }
    }

    /// Where the first extreme is; a NaN is one.
    #[expect(clippy::eq_op, reason = "what differs from itself is not a number")]
    fn place<W: Wide>(self, run: &[W]) -> i64 {
        let mut best = 0;
        for (at, value) in run.iter().enumerate() {
            let kept = run[best];
            if kept != kept {
                break;
            }
            let is_better = match self {
                Reduction::ArgMin => *value < kept,
                _ => *value > kept,
            };
            if is_better || *value != *value {
                best = at;
            }
        }
        best as i64
    }
}

/// Elements in runs of one length.
struct Runs<'a> {
    dtype: DType,
    bytes: &'a [u8],
    length: usize,
    count: usize,
}

impl Runs<'_> {
    fn each<W: Wide, R>(&self, mut reduce: impl FnMut(&[W]) -> R) -> Vec<R> {
        let size = self.length * self.dtype.size_bytes();
        let mut run = Vec::with_capacity(self.length);
        (0..self.count)
            .map(|at| {
                run.clear();
                load(self.dtype, &self.bytes[at * size..(at + 1) * size], &mut run);
                reduce(&run)
            })
            .collect()
    }

    fn complex(&self) -> Vec<Vec<[f64; 2]>> {
        let size = self.length * self.dtype.size_bytes();
        (0..self.count)
            .map(|at| loaded_complex(self.dtype, &self.bytes[at * size..(at + 1) * size]))
            .collect()
    }
}

/// A sum in eight parts: vectors add them, and each part has an eighth of the rounding errors.
pub(super) fn sum(run: &[f64]) -> f64 {
    let mut parts = [0.0; 8];
    let (chunks, rest) = run.as_chunks::<8>();
    for chunk in chunks {
        for (part, value) in parts.iter_mut().zip(chunk) {
            *part += value;
        }
    }
    let [a, b, c, d, e, f, g, h] = parts;
    ((a + b) + (c + d)) + ((e + f) + (g + h)) + rest.iter().sum::<f64>()
}

fn extreme(run: &[f64], is_better: impl Fn(f64, f64) -> bool) -> f64 {
    let mut best = run.first().copied().unwrap_or(f64::NAN);
    for value in run {
        if value.is_nan() {
            return f64::NAN;
        }
        if is_better(*value, best) {
            best = *value;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::NOT_A_TENSOR;
    use super::super::testing::{check, check_error, fixed, null, ragged};
    use lacus_tensor::DType;

    #[test]
    fn all_axes_and_one() {
        let matrix = fixed(DType::U8, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 250.0]);
        let case = |name: &str, whole: &str, first: &str, last: &str| {
            check(name, std::slice::from_ref(&matrix), whole);
            check(name, &[matrix.clone(), 0.into()], first);
            check(name, &[matrix.clone(), (-1).into()], last);
        };
        case("tensor_sum", "265", "uint64 (3,) [5, 7, 253]", "uint64 (2,) [6, 259]");
        case("tensor_min", "1", "uint8 (3,) [1, 2, 3]", "uint8 (2,) [1, 4]");
        case("tensor_max", "250", "uint8 (3,) [4, 5, 250]", "uint8 (2,) [3, 250]");
        case(
            "tensor_mean",
            "44.166666666666664",
            "float64 (3,) [2.5, 3.5, 126.5]",
            "float64 (2,) [2, 86.33333333333333]",
        );
        case("tensor_prod", "30000", "uint64 (3,) [4, 10, 750]", "uint64 (2,) [6, 5000]");
        case("tensor_any", "true", "bool (3,) [1, 1, 1]", "bool (2,) [1, 1]");
        case("tensor_all", "true", "bool (3,) [1, 1, 1]", "bool (2,) [1, 1]");
        case("count_nonzero", "6", "int64 (3,) [2, 2, 2]", "int64 (2,) [3, 3]");
        check("nonzero", &[fixed(DType::F32, &[4], &[0.0, -0.0, f64::NAN, 2.0])], "2");
        case("argmax", "5", "int64 (3,) [1, 1, 1]", "int64 (2,) [2, 2]");
        case("argmin", "0", "int64 (3,) [0, 0, 0]", "int64 (2,) [0, 0]");
        check("tensor_var", &[fixed(DType::F32, &[4], &[1.0, 2.0, 3.0, 4.0])], "1.25");
        check("tensor_std", &[fixed(DType::F64, &[2], &[1.0, 3.0])], "1.0");
    }

    #[test]
    fn dtypes_and_edges_are_numpys() {
        check("tensor_sum", &[fixed(DType::Bool, &[3], &[1.0, 0.0, 1.0])], "2");
        check("tensor_sum", &[fixed(DType::I8, &[2], &[127.0, 127.0])], "254");
        check("tensor_sum", &[ragged(DType::F32, &[0], &[])], "0.0");
        check("tensor_mean", &[ragged(DType::I32, &[0], &[])], "NaN");
        check("tensor_all", &[ragged(DType::I32, &[0], &[])], "true");
        check("all_strict", &[ragged(DType::I32, &[0], &[])], "false");
        check("tensor_min", &[fixed(DType::F32, &[3], &[1.0, f64::NAN, 0.0])], "NaN");
        check("argmin", &[fixed(DType::F32, &[3], &[1.0, f64::NAN, 0.0])], "1");
        check("tensor_sum", &[fixed(DType::C64, &[2], &[1.0, 2.0])], "complex64 () [3]");
        check("tensor_sum", &[null(DType::F32, &[2])], "null");
        check_error(
            "tensor_min",
            &[ragged(DType::I32, &[0, 2], &[])],
            "tensor_min: there are no elements in a tensor of shape (0, 2)",
        );
        check_error(
            "tensor_max",
            &[fixed(DType::C64, &[1], &[1.0])],
            "tensor_max: complex64 numbers have no order",
        );
        check_error(
            "tensor_sum",
            &[fixed(DType::U8, &[1], &[1.0]), 1.into()],
            "tensor_sum: axis 1 is out of bounds for a tensor with 1 axes",
        );
        check_error("tensor_sum", &[1.into()], NOT_A_TENSOR);
        check_error("tensor_sum", &["a".into()], NOT_A_TENSOR);
    }
}
