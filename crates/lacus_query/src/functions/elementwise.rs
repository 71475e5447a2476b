//! Functions of single elements: `abs`, `sqrt`, `round`, `clip`, `where`, `astype` and others.

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::functions::math;
use lacus_tensor::{Buffer, DType, Shape, Tensor, TensorRef};

use super::arithmetic::weakened;
use super::broadcast::{broadcast_dims, broadcast_shape, spread_all};
use super::decode::dtype_named;
use super::function::{Body, Call, Function, Operand, Planned};
use super::promote::{float_of, meet_all};
use crate::tensors::{Class, TensorArray, Wide, cast, in_order, loaded, loaded_complex, store, tensor_of};

/// A function of one element.
#[derive(Clone, Copy, Debug)]
enum Unary {
    Negative,
    Not,
    Abs,
    IsNan,
    Round,
    Floor,
    Ceil,
    /// One that makes floats, in both precisions.
    Float(fn(f32) -> f32, fn(f64) -> f64),
}

/// `clip`.
#[derive(Debug)]
struct Clip;

/// `where`.
#[derive(Debug)]
struct Where;

/// `astype`.
#[derive(Debug)]
struct AsType;

pub(super) fn functions() -> Vec<Function> {
    use Unary::*;
    let one = |name, about, example, unary: Unary| Function::new(name, "x", about, example, unary);
    vec![
        one("tensor_negative", "Every element with the other sign. Written -x.", "SELECT -embedding FROM docs", Negative),
        one("tensor_not", "Where elements are false, or zero. Written NOT x.", "SELECT NOT (mask > 0) FROM photos", Not),
        one("abs", "Every element without its sign.", "SELECT abs(embedding) FROM docs", Abs).plain(math::abs),
        one("exp", "The exponential of every element.", "SELECT exp(logits) FROM runs", Float(f32::exp, f64::exp)).plain(math::exp),
        one("ln", "The natural logarithm of every element.", "SELECT ln(x) FROM points", Float(f32::ln, f64::ln)).plain(math::ln),
        one(
            "log",
            "The natural logarithm of every element, as in numpy. Of a plain number, as in SQL, it is the one to base 10.",
            "SELECT log(embedding) FROM docs",
            Float(f32::ln, f64::ln),
        )
        .plain(math::log),
        one("log2", "The logarithm to base 2 of every element.", "SELECT log2(x) FROM points", Float(f32::log2, f64::log2)).plain(math::log2),
        one("log10", "The logarithm to base 10 of every element.", "SELECT log10(x) FROM points", Float(f32::log10, f64::log10)).plain(math::log10),
        one("sqrt", "The square root of every element.", "SELECT sqrt(x) FROM points", Float(f32::sqrt, f64::sqrt)).plain(math::sqrt),
        one("sin", "The sine of every element.", "SELECT sin(x) FROM points", Float(f32::sin, f64::sin)).plain(math::sin),
        one("cos", "The cosine of every element.", "SELECT cos(x) FROM points", Float(f32::cos, f64::cos)).plain(math::cos),
        one("tanh", "The hyperbolic tangent of every element.", "SELECT tanh(x) FROM points", Float(f32::tanh, f64::tanh)).plain(math::tanh),
        Function::new(
            "round",
            "x, decimals?",
            "Every element rounded, to the even one of two that are as near; to some decimals if these are given.",
            "SELECT round(embedding, 2) FROM docs",
            Round,
        )
        .plain(math::round),
        one("floor", "Every element rounded down.", "SELECT floor(boxes) FROM photos", Floor).plain(math::floor),
        one("ceil", "Every element rounded up.", "SELECT ceil(boxes) FROM photos", Ceil).plain(math::ceil),
        one("isnan", "Where elements are not a number.", "SELECT * FROM docs WHERE any(isnan(embedding))", IsNan).plain(math::isnan),
        Function::new(
            "clip",
            "x, low, high",
            "Every element, or the bound that is nearest where it lies outside.",
            "SELECT clip(image, 10, 245) FROM photos",
            Clip,
        ),
        Function::new(
            "where",
            "condition, a, b",
            "The element of a where the condition is true, else that of b.",
            "SELECT tensor_where(mask > 0, image, 0) FROM photos",
            Where,
        )
        .aliases(&["tensor_where"]),
        Function::new(
            "astype",
            "x, dtype",
            "The elements in another dtype, cast as numpy does. Makes tensors of lists of numbers, too.",
            "SELECT astype(image, 'float32') / 255 FROM photos",
            AsType,
        ),
    ]
}

impl Unary {
    fn dtype(self, of: DType) -> DType {
        match self {
            Unary::Not | Unary::IsNan => DType::Bool,
            Unary::Abs => match of {
                DType::C64 => DType::F32,
                DType::C128 => DType::F64,
                real => real,
            },
            Unary::Float(..) => float_of(of),
            _ => of,
        }
    }
}

impl Body for Unary {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let operand = call.operand(0)?;
        let dtype = operand.dtype;
        if dtype == DType::Bool && matches!(self, Unary::Negative) {
            return plan_err!("{}: truth values have no sign; use NOT", call.name);
        }
        let takes_complex = matches!(self, Unary::Negative | Unary::Not | Unary::Abs | Unary::IsNan);
        if dtype.is_complex() && !takes_complex {
            return plan_err!("{}: is not defined for {dtype}", call.name);
        }
        call.constant_int(1, "decimals")?;
        call.field(self.dtype(dtype), operand.dims)
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let tensors = call.tensors(0)?;
        let output = call.output_type()?.dtype;
        let decimals = call.constant_int(1).unwrap_or(0);
        call.build(|row| match tensors.get(row)? {
            Some(tensor) => {
                self.apply(&tensor.view(), output, decimals).map(Some).map_err(|error| call.wrong(error))
            }
            None => Ok(None),
        })
    }
}

impl Unary {
    fn apply(
        self,
        tensor: &TensorRef<'_>,
        output: DType,
        decimals: i64,
    ) -> Result<Tensor, lacus_tensor::TensorError> {
        let (dtype, dims, bytes) = (tensor.dtype(), tensor.shape().dims(), in_order(tensor));
        let is_whole = dtype.is_integer() || dtype == DType::Bool;
        if dtype.is_complex() {
            let numbers = loaded_complex(dtype, &bytes);
            let made = numbers.iter().map(|[a, b]| match self {
                Unary::Negative => [-a, -b],
                Unary::Abs => [a.hypot(*b), 0.0],
                Unary::IsNan => [f64::from(a.is_nan() || b.is_nan()), 0.0],
                _ => [f64::from(*a == 0.0 && *b == 0.0), 0.0],
            });
            let mut result = Tensor::zeros(output, Shape::new(dims)?)?;
            crate::tensors::store_complex(output, &made.collect::<Vec<_>>(), result.bytes_mut());
            return Ok(result);
        }
        match (self, Class::of(dtype)) {
            (Unary::IsNan, _) if is_whole => Tensor::zeros(output, Shape::new(dims)?),
            (Unary::Floor | Unary::Ceil, _) if is_whole => Ok(tensor.to_tensor()),
            (Unary::Round, _) if is_whole && decimals >= 0 => Ok(tensor.to_tensor()),
            (Unary::Negative, Class::Int) => map(&bytes, dtype, output, dims, i64::wrapping_neg),
            (Unary::Abs, Class::Int) => map(&bytes, dtype, output, dims, i64::wrapping_abs),
            (Unary::Negative, Class::Uint) => map(&bytes, dtype, output, dims, u64::wrapping_neg),
            (Unary::Abs, Class::Uint) => Ok(tensor.to_tensor()),
            (Unary::Not, _) => map(&bytes, dtype, output, dims, |value: f64| f64::from(!value.is_true())),
            (Unary::Float(single, double), _) => match Class::of(output) {
                Class::Single => map(&bytes, dtype, output, dims, single),
                _ => map(&bytes, dtype, output, dims, double),
            },
            (Unary::Round, _) => {
                let scale = 10f64.powi(decimals.clamp(-400, 400) as i32);
                match Class::of(dtype) {
                    Class::Single if decimals == 0 => map(&bytes, dtype, output, dims, f32::round_ties_even),
                    Class::Single => {
                        let scale = scale as f32;
                        map(&bytes, dtype, output, dims, |value: f32| {
                            (value * scale).round_ties_even() / scale
                        })
                    }
                    _ if decimals == 0 => map(&bytes, dtype, output, dims, f64::round_ties_even),
                    // Negative powers of ten are no binary fractions, so that their inverse is used, as numpy does.
                    _ if decimals < 0 => {
                        let scale = 10f64.powi((-decimals).clamp(0, 400) as i32);
                        map(&bytes, dtype, output, dims, |value: f64| {
                            (value / scale).round_ties_even() * scale
                        })
                    }
                    _ => map(&bytes, dtype, output, dims, |value: f64| {
                        (value * scale).round_ties_even() / scale
                    }),
                }
            }
            (Unary::Negative, _) => map(&bytes, dtype, output, dims, |value: f64| -value),
            (Unary::Abs, _) => map(&bytes, dtype, output, dims, f64::abs),
            (Unary::IsNan, _) => map(&bytes, dtype, output, dims, |value: f64| f64::from(value.is_nan())),
            (Unary::Floor, _) => map(&bytes, dtype, output, dims, f64::floor),
            (Unary::Ceil, _) => map(&bytes, dtype, output, dims, f64::ceil),
        }
    }
}

/// A function of every element, in blocks that stay in the cache.
fn map<W: Wide>(
    bytes: &[u8],
    from: DType,
    to: DType,
    dims: &[u64],
    of: impl Fn(W) -> W,
) -> Result<Tensor, lacus_tensor::TensorError> {
    const BLOCK: usize = 4096;
    let count = bytes.len() / from.size_bytes();
    let mut out = Buffer::try_for_overwrite(count * to.size_bytes())?;
    for (bytes, out) in bytes.chunks(BLOCK * from.size_bytes()).zip(out.chunks_mut(BLOCK * to.size_bytes())) {
        let mut values = loaded::<W>(from, bytes);
        values.iter_mut().for_each(|value| *value = of(*value));
        store(to, &values, out);
    }
    Tensor::new(to, Shape::new(dims)?, out)
}

/// The operands of a call from `first` on.
fn operands(call: &Planned<'_>, first: usize) -> Result<Vec<Operand>> {
    (first..call.count()).map(|at| call.operand(at)).collect()
}

impl Body for Clip {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let all = operands(call, 0)?;
        let dtype = meet_all(&all);
        if dtype.is_complex() || dtype == DType::Bool {
            return plan_err!("{}: is not defined for {dtype}", call.name);
        }
        let bounds = broadcast_dims(call.name, &all[1].dims, &all[2].dims)?;
        call.field(dtype, broadcast_dims(call.name, &all[0].dims, &bounds)?)
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let output = call.output_type()?.dtype;
        let all = [call.tensors(0)?, call.tensors(1)?, call.tensors(2)?];
        fn clipped<W: Wide>(
            dtype: DType,
            [x, low, high]: &[Vec<u8>; 3],
            dims: &[u64],
        ) -> Result<Tensor, lacus_tensor::TensorError> {
            let (low, high) = (loaded::<W>(dtype, low), loaded::<W>(dtype, high));
            let mut x = loaded::<W>(dtype, x);
            for ((x, low), high) in x.iter_mut().zip(low).zip(high) {
                let raised = if *x < low { low } else { *x };
                *x = if raised > high { high } else { raised };
            }
            tensor_of(dtype, dims, &x)
        }
        call.build(|row| {
            let Some((parts, dims)) = spread_operands(call, &all, 0, output, row)? else { return Ok(None) };
            let made = match Class::of(output) {
                Class::Int => clipped::<i64>(output, &parts, &dims),
                Class::Uint => clipped::<u64>(output, &parts, &dims),
                _ => clipped::<f64>(output, &parts, &dims),
            };
            made.map(Some).map_err(|error| call.wrong(error))
        })
    }
}

/// The elements of three operands, and the shape that they have.
type Spread = ([Vec<u8>; 3], Vec<u64>);

/// The elements of three operands in one dtype and one shape; those before `first` keep their dtype.
fn spread_operands(
    call: &Call,
    all: &[TensorArray; 3],
    first: usize,
    dtype: DType,
    row: usize,
) -> Result<Option<Spread>> {
    let mut tensors = Vec::with_capacity(3);
    for (at, tensors_of) in all.iter().enumerate() {
        let Some(found) = tensors_of.get(row)? else { return Ok(None) };
        let of = tensors_of.tensor_type();
        let operand = Operand { dtype: of.dtype, dims: of.dims.clone(), is_weak: call.is_weak(at) };
        let weak = match at >= first {
            true => weakened(call, &operand, &found.view(), Some(dtype))?,
            false => None,
        };
        let tensor = weak.unwrap_or_else(|| found.view().to_tensor());
        tensors.push(match at >= first && tensor.dtype() != dtype {
            true => cast(&tensor.as_ref(), dtype).map_err(|error| call.wrong(error))?,
            false => tensor,
        });
    }
    let [a, b, c] = [0, 1, 2].map(|at| tensors[at].shape().dims());
    let dims = broadcast_shape(call.name, a, &broadcast_shape(call.name, b, c)?)?;
    let mut parts = [Vec::new(), Vec::new(), Vec::new()];
    for (part, tensor) in parts.iter_mut().zip(&tensors) {
        *part = match tensor.shape().dims() == dims {
            true => tensor.bytes().to_vec(),
            false => spread_all(&tensor.as_ref(), &dims)?.into_owned(),
        };
    }
    Ok(Some((parts, dims)))
}

impl Body for Where {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let all = operands(call, 0)?;
        let dims = broadcast_dims(call.name, &all[1].dims, &all[2].dims)?;
        call.field(meet_all(&all[1..]), broadcast_dims(call.name, &all[0].dims, &dims)?)
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let output = call.output_type()?.dtype;
        let all = [call.tensors(0)?, call.tensors(1)?, call.tensors(2)?];
        let width = output.size_bytes();
        call.build(|row| {
            let Some(([condition, mut a, b], dims)) = spread_operands(call, &all, 1, output, row)? else {
                return Ok(None);
            };
            let of = all[0].tensor_type().dtype;
            let is_true = |item: &[u8]| loaded_complex(of, item)[0] != [0.0; 2];
            let truths = condition.chunks_exact(of.size_bytes());
            for ((truth, a), b) in truths.zip(a.chunks_exact_mut(width)).zip(b.chunks_exact(width)) {
                let holds = if of == DType::Bool { truth[0] != 0 } else { is_true(truth) };
                if !holds {
                    a.copy_from_slice(b);
                }
            }
            let made = Shape::new(dims).and_then(|shape| Tensor::new(output, shape, Buffer::from_slice(&a)));
            made.map(Some).map_err(|error| call.wrong(error))
        })
    }
}

impl Body for AsType {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let Some(dtype) = dtype_named(call, 1)? else {
            return Err(DataFusionError::Plan(format!("{}: the dtype must not be NULL", call.name)));
        };
        call.field(dtype, call.operand(0)?.dims)
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let output = call.output_type()?.dtype;
        let tensors = call.tensors(0)?.decoding_to(output);
        call.build(|row| match tensors.get(row)? {
            Some(tensor) => cast(&tensor.view(), output).map(Some).map_err(|error| call.wrong(error)),
            None => Ok(None),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Value, check, check_error, fixed, image, list, number, text};
    use lacus_tensor::DType;

    #[test]
    fn elements_one_by_one() {
        let case = |name: &str, x: Value, expected: &str| check(name, &[x], expected);
        let floats = || fixed(DType::F64, &[4], &[-1.5, 0.5, 2.5, 4.0]);
        case("tensor_negative", floats(), "float64 (4,) [1.5, -0.5, -2.5, -4]");
        case("abs", floats(), "float64 (4,) [1.5, 0.5, 2.5, 4]");
        case("round", floats(), "float64 (4,) [-2, 0, 2, 4]");
        case("floor", floats(), "float64 (4,) [-2, 0, 2, 4]");
        case("ceil", floats(), "float64 (4,) [-1, 1, 3, 4]");
        case("sqrt", fixed(DType::F32, &[2], &[4.0, 9.0]), "float32 (2,) [2, 3]");
        case("sqrt", fixed(DType::U8, &[1], &[4.0]), "float16 (1,) [2]");
        case("sqrt", fixed(DType::I32, &[1], &[-1.0]), "float64 (1,) [NaN]");
        case("exp", fixed(DType::I16, &[1], &[0.0]), "float32 (1,) [1]");
        case("log", fixed(DType::F64, &[1], &[1.0]), "float64 (1,) [0]");
        case("tensor_not", fixed(DType::U8, &[2], &[0.0, 3.0]), "bool (2,) [1, 0]");
        case("isnan", fixed(DType::F32, &[2], &[f64::NAN, 3.0]), "bool (2,) [1, 0]");
        case("isnan", fixed(DType::U8, &[1], &[3.0]), "bool (1,) [0]");
        case("tensor_negative", fixed(DType::U8, &[1], &[1.0]), "uint8 (1,) [255]");
        case("abs", fixed(DType::I8, &[2], &[-128.0, -3.0]), "int8 (2,) [-128, 3]");
        case("abs", fixed(DType::C64, &[1], &[-3.0]), "float32 (1,) [3]");
        case("floor", fixed(DType::U8, &[1], &[3.0]), "uint8 (1,) [3]");
        check("round", &[fixed(DType::F64, &[2], &[1.256, 12.345]), 2.into()], "float64 (2,) [1.26, 12.34]");
        check("round", &[fixed(DType::I64, &[2], &[125.0, 135.0]), (-1).into()], "int64 (2,) [120, 140]");
        check_error(
            "tensor_negative",
            &[fixed(DType::Bool, &[1], &[1.0])],
            "tensor_negative: truth values have no sign",
        );
        check_error("exp", &[fixed(DType::C64, &[1], &[1.0])], "exp: is not defined for complex64");
    }

    #[test]
    fn plain_numbers_keep_the_meaning_of_sql() {
        check("abs", &[number(DType::I32, -3.0)], "3");
        check("log", &[number(DType::F64, 100.0)], "2.0");
        check("round", &[number(DType::F64, 2.5)], "3.0");
        check("sqrt", &[number(DType::I32, 16.0)], "4.0");
        check("round", &[number(DType::F64, 2.345), 1.into()], "2.3");
        check_error("abs", &[text("a")], "");
    }

    #[test]
    fn clip_where_and_astype() {
        let bytes = || fixed(DType::U8, &[3], &[1.0, 100.0, 250.0]);
        check("clip", &[bytes(), 10.into(), 200.into()], "uint8 (3,) [10, 100, 200]");
        check("clip", &[bytes(), 10.5.into(), 200.into()], "float64 (3,) [10.5, 100, 200]");
        check(
            "clip",
            &[fixed(DType::F32, &[2], &[f64::NAN, 3.0]), 0.into(), 1.into()],
            "float32 (2,) [NaN, 1]",
        );
        check(
            "where",
            &[fixed(DType::Bool, &[3], &[1.0, 0.0, 1.0]), bytes(), 0.into()],
            "uint8 (3,) [1, 0, 250]",
        );
        check(
            "tensor_where",
            &[fixed(DType::U8, &[2, 1], &[2.0, 0.0]), bytes(), (-1.5).into()],
            "float64 (2, 3) [1, 100, 250, -1.5, -1.5, -1.5]",
        );
        check("astype", &[bytes(), text("int8")], "int8 (3,) [1, 100, -6]");
        check("astype", &[list(&[1.0, 2.0]), text("float32")], "float32 (2,) [1, 2]");
        check("astype", &[image(&[1, 1, 3], &[1.0, 2.0, 3.0]), text("uint16")], "uint16 (1, 1, 3) [1, 2, 3]");
        check_error(
            "clip",
            &[bytes(), (-1).into(), 10.into()],
            "clip: the integer -1 is out of bounds for uint8",
        );
    }
}
