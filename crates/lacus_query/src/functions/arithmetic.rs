//! Operators between tensors: `+`, `*`, `<`, `AND` and the others, element by element.

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use datafusion::common::{Result, plan_err};
use datafusion::functions::math;
use lacus_tensor::{Buffer, DType, Shape, Tensor, TensorRef};

use super::broadcast::{broadcast_dims, broadcast_shape, spread};
use super::function::{Body, Call, Function, Operand, Planned};
use super::promote::{meet, promote, quotient_of};
use crate::tensors::{Class, Wide, cast, in_order, load, loaded, loaded_complex, store, store_complex};

/// Which operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
}

pub(super) fn functions() -> Vec<Function> {
    use Operator::*;
    let one =
        |name, about, example, operator: Operator| Function::new(name, "a, b", about, example, operator);
    vec![
        one("tensor_add", "The sum, element by element. Written a + b.", "SELECT image + 1 FROM photos", Add),
        one(
            "tensor_subtract",
            "The difference, element by element. Written a - b.",
            "SELECT a - b FROM pairs",
            Subtract,
        ),
        one(
            "tensor_multiply",
            "The product, element by element. Written a * b.",
            "SELECT image * 2 FROM photos",
            Multiply,
        ),
        one(
            "tensor_divide",
            "The quotient, element by element; of integers as float64. Written a / b.",
            "SELECT image / 255 FROM photos",
            Divide,
        ),
        one(
            "tensor_modulo",
            "The rest of a division, with the sign of the divisor. Written a % b.",
            "SELECT mask % 2 FROM photos",
            Modulo,
        ),
        one("power", "A power, element by element.", "SELECT power(x, 2) FROM points", Power)
            .aliases(&["pow", "tensor_power"])
            .plain(math::power),
        one("tensor_eq", "Where elements are equal. Written a = b.", "SELECT mask = 3 FROM photos", Eq),
        one("tensor_ne", "Where elements differ. Written a <> b.", "SELECT mask <> 0 FROM photos", Ne),
        one(
            "tensor_lt",
            "Where elements are smaller. Written a < b.",
            "SELECT any(boxes < 0) FROM photos",
            Lt,
        ),
        one(
            "tensor_le",
            "Where elements are not larger. Written a <= b.",
            "SELECT all(boxes <= 1) FROM photos",
            Le,
        ),
        one("tensor_gt", "Where elements are larger. Written a > b.", "SELECT any(mask > 2) FROM photos", Gt),
        one(
            "tensor_ge",
            "Where elements are not smaller. Written a >= b.",
            "SELECT all(boxes >= 0) FROM photos",
            Ge,
        ),
        one(
            "tensor_and",
            "Where both elements are true. Written a AND b.",
            "SELECT (x > 1) AND (x < 3) FROM points",
            And,
        ),
        one(
            "tensor_or",
            "Where one of the elements is true. Written a OR b.",
            "SELECT (x < 1) OR (x > 3) FROM points",
            Or,
        ),
    ]
}

impl Operator {
    fn compares(self) -> bool {
        use Operator::*;
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }

    fn is_logical(self) -> bool {
        matches!(self, Operator::And | Operator::Or)
    }

    /// The dtype in which is computed; `None` stands for integers that no dtype holds, which are compared exactly all the same.
    fn computed_in(self, a: &Operand, b: &Operand) -> Option<DType> {
        if !self.compares() {
            return Some(match self {
                _ if self.is_logical() => DType::Bool,
                Operator::Divide => quotient_of(meet(a, b)),
                // Truth values have no powers and rests of their own.
                Operator::Modulo | Operator::Power if meet(a, b) == DType::Bool => DType::I8,
                _ => meet(a, b),
            });
        }
        let is_integer = |dtype: DType| dtype.is_integer() || dtype == DType::Bool;
        if is_integer(a.dtype) && is_integer(b.dtype) {
            // A literal may be larger than what it is compared with.
            let both = promote(a.dtype, b.dtype);
            return Some(both).filter(|dtype| is_integer(*dtype));
        }
        Some(meet(a, b))
    }
}

impl Body for Operator {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let (a, b) = (call.operand(0)?, call.operand(1)?);
        let computed = self.computed_in(&a, &b).unwrap_or(DType::I64);
        let both = promote(a.dtype, b.dtype);
        if both == DType::Bool && *self == Operator::Subtract {
            return plan_err!("{}: truth values have no difference; use <>", call.name);
        }
        let is_ordered = matches!(self, Operator::Lt | Operator::Le | Operator::Gt | Operator::Ge);
        if both.is_complex() && (is_ordered || matches!(self, Operator::Modulo | Operator::Power)) {
            return plan_err!("{}: is not defined for {} and {}", call.name, a.dtype, b.dtype);
        }
        let dims = broadcast_dims(call.name, &a.dims, &b.dims)?;
        let dtype = if self.compares() || self.is_logical() { DType::Bool } else { computed };
        call.field(dtype, dims)
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let (left, right) = (call.tensors(0)?, call.tensors(1)?);
        let operand = |at: usize, of: &crate::tensors::TensorType| Operand {
            dtype: of.dtype,
            dims: of.dims.clone(),
            is_weak: call.is_weak(at),
        };
        let (a, b) = (operand(0, left.tensor_type()), operand(1, right.tensor_type()));
        let output = call.output_type()?.dtype;
        // For what computes in the dtype of the result, the plan has the last word on it.
        let computed = match self.compares() || self.is_logical() {
            true => self.computed_in(&a, &b),
            false => Some(output),
        };
        let mut scratch = Scratch::default();
        call.build(|row| {
            let (Some(a_row), Some(b_row)) = (left.get(row)?, right.get(row)?) else { return Ok(None) };
            let (a_row, b_row) = (a_row.view(), b_row.view());
            let (weak_a, weak_b) =
                (weakened(call, &a, &a_row, computed)?, weakened(call, &b, &b_row, computed)?);
            let a_row = weak_a.as_ref().map_or(a_row, |weak| weak.as_ref());
            let b_row = weak_b.as_ref().map_or(b_row, |weak| weak.as_ref());
            self.apply(call, &a_row, &b_row, computed, output, &mut scratch).map(Some)
        })
    }
}

/// A literal in the dtype that it takes; `None` for what stays as it is. Fails for an integer that the dtype cannot hold.
pub(super) fn weakened(
    call: &Call,
    operand: &Operand,
    row: &TensorRef<'_>,
    computed: Option<DType>,
) -> Result<Option<Tensor>> {
    let wanted = match computed {
        Some(wanted) if operand.is_weak && wanted != row.dtype() => wanted,
        _ => return Ok(None),
    };
    let found = cast(row, wanted).map_err(|error| call.wrong(error))?;
    if operand.dtype == DType::I64 && wanted.is_integer() {
        let given = loaded::<i128>(DType::I64, &in_order(row));
        if loaded::<i128>(wanted, found.bytes()) != given {
            let given = given.first().copied().unwrap_or_default();
            return call.fail(format!("the integer {given} is out of bounds for {wanted}"));
        }
    }
    Ok(Some(found))
}

/// Memory for elements while they are computed.
#[derive(Default)]
struct Scratch {
    ints: [Vec<i64>; 3],
    uints: [Vec<u64>; 3],
    singles: [Vec<f32>; 3],
    doubles: [Vec<f64>; 3],
    wide: [Vec<i128>; 3],
}

/// Elements that are computed at a time: three such blocks of the widest type stay in the cache.
const BLOCK: usize = 2048;

impl Operator {
    fn apply(
        self,
        call: &Call,
        a: &TensorRef<'_>,
        b: &TensorRef<'_>,
        computed: Option<DType>,
        output: DType,
        scratch: &mut Scratch,
    ) -> Result<Tensor> {
        let dims = broadcast_shape(call.name, a.shape().dims(), b.shape().dims())?;
        let shape = Shape::new(&dims[..]).map_err(|error| call.wrong(error))?;
        let length = shape.byte_len(output).map_err(|error| call.wrong(error))?;
        let mut out = Buffer::try_for_overwrite(length).map_err(|error| call.wrong(error))?;
        let (left, right) = (spread(a, &dims)?, spread(b, &dims)?);
        let sides = Sides { a: a.dtype(), left: &left, b: b.dtype(), right: &right, output };
        let failed = if self.is_logical() {
            // Any dtype has truth, and doubles keep it.
            sides.complex_or(
                &mut out,
                |sides, out| {
                    sides.each(&mut scratch.doubles, out, |a: &f64, b: &f64| {
                        Some(f64::of_i64(i64::from(self.truth(a.is_true(), b.is_true()))))
                    })
                },
                |a, b| self.truth(a != [0.0; 2], b != [0.0; 2]),
            )
        } else if self.compares() {
            match computed.map(Class::of) {
                Some(Class::Complex) => {
                    sides.complex_or(&mut out, |_, _| false, |a, b| (a == b) == (self == Operator::Eq))
                }
                Some(Class::Int) => {
                    sides.each(&mut scratch.ints, &mut out, |a, b| Some(i64::from(self.compare(a, b))))
                }
                Some(Class::Uint) => {
                    sides.each(&mut scratch.uints, &mut out, |a, b| Some(u64::from(self.compare(a, b))))
                }
                Some(Class::Single) => {
                    sides.each(&mut scratch.singles, &mut out, |a, b| Some(f32::from(self.compare(a, b))))
                }
                Some(Class::Double) => {
                    sides.each(&mut scratch.doubles, &mut out, |a, b| Some(f64::from(self.compare(a, b))))
                }
                None => sides.each(&mut scratch.wide, &mut out, |a, b| Some(i128::from(self.compare(a, b)))),
            }
        } else {
            match Class::of(output) {
                Class::Complex => {
                    sides.complex(&mut out, |a, b| self.complex(a, b));
                    false
                }
                Class::Int if output == DType::Bool => sides.each(&mut scratch.ints, &mut out, |a, b| {
                    Some(match self {
                        Operator::Add => a | b,
                        _ => a & b,
                    })
                }),
                Class::Int => self.int(&sides, &mut scratch.ints, &mut out),
                Class::Uint => self.uint(&sides, &mut scratch.uints, &mut out),
                Class::Single => self.float(&sides, &mut scratch.singles, &mut out, f32::powf),
                Class::Double => self.float(&sides, &mut scratch.doubles, &mut out, f64::powf),
            }
        };
        if failed {
            return call.fail("integers to negative integer powers are not allowed");
        }
        Tensor::new(output, shape, out).map_err(|error| call.wrong(error))
    }

    fn truth(self, a: bool, b: bool) -> bool {
        if self == Operator::And { a && b } else { a || b }
    }

    fn compare<W: Wide>(self, a: &W, b: &W) -> bool {
        match self {
            Operator::Eq => a == b,
            Operator::Ne => a != b,
            Operator::Lt => a < b,
            Operator::Le => a <= b,
            Operator::Gt => a > b,
            _ => a >= b,
        }
    }

    // Each loop is written for one operator, so that the compiler makes vectors of it.

    fn int(self, sides: &Sides<'_>, scratch: &mut [Vec<i64>; 3], out: &mut [u8]) -> bool {
        match self {
            Operator::Add => sides.each(scratch, out, |a: &i64, b| Some(a.wrapping_add(*b))),
            Operator::Subtract => sides.each(scratch, out, |a: &i64, b| Some(a.wrapping_sub(*b))),
            Operator::Multiply => sides.each(scratch, out, |a: &i64, b| Some(a.wrapping_mul(*b))),
            Operator::Modulo => sides.each(scratch, out, |a: &i64, b| {
                // As in numpy, nothing is left of a division by zero.
                let rest = if *b == 0 { 0 } else { a.wrapping_rem(*b) };
                Some(if rest != 0 && (rest < 0) != (*b < 0) { rest.wrapping_add(*b) } else { rest })
            }),
            _ => sides.each(scratch, out, |a: &i64, b| (*b >= 0).then(|| power(*a as u64, *b as u64) as i64)),
        }
    }

    fn uint(self, sides: &Sides<'_>, scratch: &mut [Vec<u64>; 3], out: &mut [u8]) -> bool {
        match self {
            Operator::Add => sides.each(scratch, out, |a: &u64, b| Some(a.wrapping_add(*b))),
            Operator::Subtract => sides.each(scratch, out, |a: &u64, b| Some(a.wrapping_sub(*b))),
            Operator::Multiply => sides.each(scratch, out, |a: &u64, b| Some(a.wrapping_mul(*b))),
            Operator::Modulo => sides.each(scratch, out, |a: &u64, b| Some(a.checked_rem(*b).unwrap_or(0))),
            _ => sides.each(scratch, out, |a: &u64, b| Some(power(*a, *b))),
        }
    }

    fn float<W: Float>(
        self,
        sides: &Sides<'_>,
        scratch: &mut [Vec<W>; 3],
        out: &mut [u8],
        powf: impl Fn(W, W) -> W,
    ) -> bool {
        match self {
            Operator::Add => sides.each(scratch, out, |a: &W, b| Some(*a + *b)),
            Operator::Subtract => sides.each(scratch, out, |a: &W, b| Some(*a - *b)),
            Operator::Multiply => sides.each(scratch, out, |a: &W, b| Some(*a * *b)),
            Operator::Divide => sides.each(scratch, out, |a: &W, b| Some(*a / *b)),
            Operator::Modulo => sides.each(scratch, out, |a: &W, b| Some(rest(*a, *b))),
            _ => sides.each(scratch, out, |a: &W, b| Some(powf(*a, *b))),
        }
    }

    fn complex(self, [a, b]: [f64; 2], [c, d]: [f64; 2]) -> [f64; 2] {
        match self {
            Operator::Add => [a + c, b + d],
            Operator::Subtract => [a - c, b - d],
            Operator::Multiply => [a * c - b * d, a * d + b * c],
            _ => {
                let length = c * c + d * d;
                [(a * c + b * d) / length, (b * c - a * d) / length]
            }
        }
    }
}

/// A float to compute with.
trait Float:
    Wide
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Rem<Output = Self>
{
}
impl Float for f32 {}
impl Float for f64 {}

/// The rest of a division, with the sign of the divisor.
fn rest<W: Float>(a: W, b: W) -> W {
    let (zero, rest) = (W::default(), a % b);
    if rest == zero {
        // A zero has the sign of the divisor.
        return if b < zero { W::of_f64(-0.0) } else { zero };
    }
    if (rest < zero) != (b < zero) { rest + b } else { rest }
}

fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut result = 1u64;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    result
}

/// Elements on both sides of an operator. Those of a side are as many as the result has, or one.
struct Sides<'a> {
    a: DType,
    left: &'a [u8],
    b: DType,
    right: &'a [u8],
    output: DType,
}

impl Sides<'_> {
    /// Computes all elements, block by block. Tells whether one of them could not be computed.
    fn each<W: Wide>(
        &self,
        [xs, ys, zs]: &mut [Vec<W>; 3],
        out: &mut [u8],
        compute: impl Fn(&W, &W) -> Option<W>,
    ) -> bool {
        let mut failed = false;
        for (at, out) in out.chunks_mut(BLOCK * self.output.size_bytes()).enumerate() {
            let count = out.len() / self.output.size_bytes();
            block(self.a, self.left, at, count, xs);
            block(self.b, self.right, at, count, ys);
            zs.clear();
            zs.extend(xs.iter().zip(ys.iter()).map(|(a, b)| {
                let made = compute(a, b);
                failed |= made.is_none();
                made.unwrap_or_default()
            }));
            store(self.output, zs, out);
        }
        failed
    }

    /// Computes complex numbers.
    fn complex(&self, out: &mut [u8], compute: impl Fn([f64; 2], [f64; 2]) -> [f64; 2]) {
        let (a, b) = (loaded_complex(self.a, self.left), loaded_complex(self.b, self.right));
        let count = out.len() / self.output.size_bytes();
        let of = |side: &[[f64; 2]], at: usize| if side.len() == 1 { side[0] } else { side[at] };
        let made: Vec<[f64; 2]> = (0..count).map(|at| compute(of(&a, at), of(&b, at))).collect();
        store_complex(self.output, &made, out);
    }

    /// Truth values of complex numbers if one side has such, else what `real` does.
    fn complex_or(
        &self,
        out: &mut [u8],
        real: impl FnOnce(&Self, &mut [u8]) -> bool,
        compute: impl Fn([f64; 2], [f64; 2]) -> bool,
    ) -> bool {
        if !self.a.is_complex() && !self.b.is_complex() {
            return real(self, out);
        }
        self.complex(out, |a, b| [f64::from(compute(a, b)), 0.0]);
        false
    }
}

/// Loads block number `at`; a single element as often as it is needed.
fn block<W: Wide>(dtype: DType, bytes: &[u8], at: usize, count: usize, out: &mut Vec<W>) {
    out.clear();
    let size = dtype.size_bytes();
    if bytes.len() == size && count > 0 {
        load(dtype, bytes, out);
        let value = out[0];
        return out.resize(count, value);
    }
    let start = at * BLOCK * size;
    load(dtype, &bytes[start..start + count * size], out);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Value, check, check_error, fixed, list, null, number, ragged, unranked};
    use lacus_tensor::DType;

    fn bytes() -> Value {
        fixed(DType::U8, &[3], &[1.0, 2.0, 250.0])
    }

    #[test]
    fn arithmetic_is_numpys() {
        let case = |name: &str, a: Value, b: Value, expected: &str| check(name, &[a, b], expected);
        case("tensor_add", bytes(), 10.into(), "uint8 (3,) [11, 12, 4]");
        case("tensor_multiply", bytes(), 2.into(), "uint8 (3,) [2, 4, 244]");
        case("tensor_multiply", bytes(), 2.5.into(), "float64 (3,) [2.5, 5, 625]");
        case("tensor_subtract", bytes(), 2.into(), "uint8 (3,) [255, 0, 248]");
        case("tensor_divide", bytes(), 2.into(), "float64 (3,) [0.5, 1, 125]");
        case("power", bytes(), 2.into(), "uint8 (3,) [1, 4, 36]");
        case("tensor_modulo", bytes(), 7.into(), "uint8 (3,) [1, 2, 5]");
        let floats = || fixed(DType::F32, &[2], &[-1.5, 2.0]);
        case("tensor_multiply", floats(), 0.5.into(), "float32 (2,) [-0.75, 1]");
        case("tensor_modulo", floats(), 2.into(), "float32 (2,) [0.5, 0]");
        case("power", floats(), 2.into(), "float32 (2,) [2.25, 4]");
        case("tensor_divide", floats(), 0.into(), "float32 (2,) [-inf, inf]");
        case("tensor_add", bytes(), number(DType::I64, 1.0), "int64 (3,) [2, 3, 251]");
        case("tensor_add", number(DType::F32, 0.5), bytes(), "float32 (3,) [1.5, 2.5, 250.5]");
        case("tensor_add", list(&[0.5, 0.5, 0.5]), bytes(), "float64 (3,) [1.5, 2.5, 250.5]");
        let truths = || fixed(DType::Bool, &[2], &[1.0, 0.0]);
        case("tensor_add", truths(), truths(), "bool (2,) [1, 0]");
        case("tensor_add", truths(), 1.into(), "int64 (2,) [2, 1]");
        case("tensor_multiply", fixed(DType::C64, &[1], &[2.0]), 3.into(), "complex64 (1,) [6]");
        case(
            "tensor_modulo",
            fixed(DType::I8, &[3], &[-7.0, 7.0, 5.0]),
            fixed(DType::I8, &[3], &[3.0, -3.0, 0.0]),
            "int8 (3,) [2, -2, 0]",
        );
    }

    #[test]
    fn shapes_are_broadcast() {
        let column = || fixed(DType::I32, &[2, 1], &[10.0, 20.0]);
        check(
            "tensor_add",
            &[column(), fixed(DType::I32, &[3], &[1.0, 2.0, 3.0])],
            "int32 (2, 3) [11, 12, 13, 21, 22, 23]",
        );
        check("tensor_add", &[column(), ragged(DType::I32, &[1], &[1.0])], "int32 (2, 1) [11, 21]");
        check("tensor_add", &[unranked(DType::I32, &[2], &[1.0, 2.0]), 1.into()], "int32 (2,) [2, 3]");
        check("tensor_add", &[ragged(DType::I32, &[0], &[]), 1.into()], "int32 (0,) []");
        check(
            "tensor_add",
            &[ragged(DType::I32, &[0, 2], &[]), fixed(DType::I32, &[2], &[1.0, 2.0])],
            "int32 (0, 2) []",
        );
        check("tensor_add", &[null(DType::I32, &[2]), 1.into()], "null");
        let wide = fixed(DType::I32, &[3], &[1.0; 3]);
        check_error(
            "tensor_add",
            &[wide.clone(), fixed(DType::I32, &[2], &[1.0; 2])],
            "tensor_add: shapes (3,) and (2,) do not fit: 3 and 2 differ",
        );
        check_error(
            "tensor_add",
            &[wide, ragged(DType::I32, &[2], &[1.0; 2])],
            "tensor_add: shapes (3,) and (2,) do not fit: 3 and 2 differ",
        );
    }

    #[test]
    fn comparisons_are_exact() {
        let case = |name: &str, a: Value, b: Value, expected: &str| check(name, &[a, b], expected);
        case("tensor_gt", bytes(), 2.into(), "bool (3,) [0, 0, 1]");
        case("tensor_lt", bytes(), 300.into(), "bool (3,) [1, 1, 1]");
        case("tensor_eq", bytes(), 2.into(), "bool (3,) [0, 1, 0]");
        case("tensor_eq", fixed(DType::F32, &[1], &[0.1]), 0.1.into(), "bool (1,) [1]");
        case("tensor_eq", fixed(DType::F64, &[1], &[f64::NAN]), f64::NAN.into(), "bool (1,) [0]");
        case(
            "tensor_ge",
            fixed(DType::U64, &[1], &[9007199254740992.0]),
            9007199254740993.into(),
            "bool (1,) [0]",
        );
        case("tensor_ge", fixed(DType::U64, &[1], &[0.0]), (-1).into(), "bool (1,) [1]");
        let truths = || fixed(DType::Bool, &[2], &[1.0, 0.0]);
        case("tensor_and", truths(), fixed(DType::U8, &[2], &[3.0, 3.0]), "bool (2,) [1, 0]");
        case("tensor_or", truths(), true.into(), "bool (2,) [1, 1]");
    }

    #[test]
    fn what_numpy_refuses_is_refused() {
        let truths = || fixed(DType::Bool, &[1], &[1.0]);
        check_error(
            "tensor_subtract",
            &[truths(), truths()],
            "tensor_subtract: truth values have no difference",
        );
        check_error(
            "tensor_add",
            &[bytes(), 256.into()],
            "tensor_add: the integer 256 is out of bounds for uint8",
        );
        check_error(
            "tensor_add",
            &[bytes(), (-1).into()],
            "tensor_add: the integer -1 is out of bounds for uint8",
        );
        check_error(
            "power",
            &[fixed(DType::I32, &[1], &[2.0]), (-1).into()],
            "integers to negative integer powers",
        );
        check_error(
            "tensor_lt",
            &[fixed(DType::C64, &[1], &[1.0]), 1.into()],
            "tensor_lt: is not defined for complex64 and int64",
        );
        check_error(
            "tensor_add",
            &[bytes(), "a".into()],
            "tensor_add: expected a tensor or numbers, found text",
        );
    }
}
