//! Which dtype a result has: the rules of numpy 2.

use lacus_tensor::DType;

use super::function::Operand;

/// The dtype that holds the numbers of both.
pub(crate) fn promote(a: DType, b: DType) -> DType {
    if a == b || b == DType::Bool {
        return a;
    }
    if a == DType::Bool {
        return b;
    }
    if a.is_complex() || b.is_complex() {
        let is_single = |dtype: DType| match dtype {
            DType::C128 | DType::F64 => false,
            DType::C64 | DType::F16 | DType::BF16 | DType::F32 => true,
            integer => integer.size_bytes() <= 2,
        };
        return if is_single(a) && is_single(b) { DType::C64 } else { DType::C128 };
    }
    match (a.is_float(), b.is_float()) {
        (true, true) => match (a, b) {
            (DType::F64, _) | (_, DType::F64) => DType::F64,
            // Also of the two halves, neither of which holds the other.
            _ => DType::F32,
        },
        (true, false) => float_and_integer(a, b),
        (false, true) => float_and_integer(b, a),
        (false, false) => integers(a, b),
    }
}

fn float_and_integer(float: DType, integer: DType) -> DType {
    match (float, integer.size_bytes()) {
        (DType::F64, _) | (_, 4 | 8) => DType::F64,
        (DType::F32, _) | (_, 2) => DType::F32,
        (half, _) => half,
    }
}

fn integers(a: DType, b: DType) -> DType {
    let is_signed = |dtype: DType| matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64);
    let (a_bytes, b_bytes) = (a.size_bytes(), b.size_bytes());
    if is_signed(a) == is_signed(b) {
        return if a_bytes >= b_bytes { a } else { b };
    }
    let (signed, unsigned) = if is_signed(a) { (a_bytes, b_bytes) } else { (b_bytes, a_bytes) };
    match signed.max(2 * unsigned) {
        1 => DType::I8,
        2 => DType::I16,
        4 => DType::I32,
        8 => DType::I64,
        _ => DType::F64,
    }
}

/// The dtype in which two operands meet. A literal of SQL takes the dtype of the other, unless it is of a higher kind: a float
/// among integers makes float64, an integer among truth values int64.
pub(crate) fn meet(a: &Operand, b: &Operand) -> DType {
    match (a.is_weak, b.is_weak) {
        (true, false) => weak(a.dtype, b.dtype),
        (false, true) => weak(b.dtype, a.dtype),
        _ => promote(a.dtype, b.dtype),
    }
}

/// The dtype of all operands together.
pub(crate) fn meet_all(operands: &[Operand]) -> DType {
    let strong =
        operands.iter().filter(|operand| !operand.is_weak).map(|operand| operand.dtype).reduce(promote);
    match strong {
        Some(strong) => {
            let weak_ones = operands.iter().filter(|operand| operand.is_weak);
            weak_ones.fold(strong, |dtype, literal| weak(literal.dtype, dtype))
        }
        None => operands.iter().map(|operand| operand.dtype).reduce(promote).unwrap_or(DType::F64),
    }
}

fn weak(literal: DType, other: DType) -> DType {
    match (literal.is_float(), other) {
        (true, other) if other.is_float() || other.is_complex() => other,
        (true, _) => DType::F64,
        (false, DType::Bool) => literal,
        (false, other) => other,
    }
}

/// The dtype of `sqrt`, `exp` and others that make floats.
pub(crate) fn float_of(dtype: DType) -> DType {
    match dtype {
        DType::Bool | DType::I8 | DType::U8 => DType::F16,
        DType::I16 | DType::U16 => DType::F32,
        DType::I32 | DType::U32 | DType::I64 | DType::U64 => DType::F64,
        float => float,
    }
}

/// The dtype of means, and of quotients: integers make float64.
pub(crate) fn quotient_of(dtype: DType) -> DType {
    if dtype.is_integer() || dtype == DType::Bool { DType::F64 } else { dtype }
}

/// The dtype of sums and products: integers are widened.
pub(crate) fn sum_of(dtype: DType) -> DType {
    match dtype {
        DType::Bool | DType::I8 | DType::I16 | DType::I32 | DType::I64 => DType::I64,
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => DType::U64,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors::Dims;

    #[test]
    fn arrays_meet_as_in_numpy() {
        let check = |a: &str, b: &str, expected: &str| {
            let (a, b) = (a.parse().unwrap(), b.parse().unwrap());
            assert_eq!(promote(a, b).name(), expected, "{a} {b}");
            assert_eq!(promote(b, a).name(), expected, "{b} {a}");
        };
        check("uint8", "uint8", "uint8");
        check("bool", "int8", "int8");
        check("uint8", "int8", "int16");
        check("uint8", "int16", "int16");
        check("uint32", "int8", "int64");
        check("uint64", "int64", "float64");
        check("uint64", "uint8", "uint64");
        check("float16", "uint8", "float16");
        check("float16", "int16", "float32");
        check("float16", "uint32", "float64");
        check("float32", "uint16", "float32");
        check("float32", "int32", "float64");
        check("float32", "float16", "float32");
        check("bfloat16", "float16", "float32");
        check("bfloat16", "int8", "bfloat16");
        check("complex64", "float32", "complex64");
        check("complex64", "int16", "complex64");
        check("complex64", "int64", "complex128");
        check("complex64", "float64", "complex128");
    }

    #[test]
    fn literals_are_weak() {
        let check = |literal: &str, other: &str, expected: &str| {
            let of = |dtype: &str, is_weak| Operand {
                dtype: dtype.parse().unwrap(),
                dims: Dims::Unranked,
                is_weak,
            };
            assert_eq!(meet(&of(literal, true), &of(other, false)).name(), expected, "{literal} {other}");
        };
        check("int64", "uint8", "uint8");
        check("int64", "bool", "int64");
        check("int64", "float16", "float16");
        check("float64", "uint8", "float64");
        check("float64", "float32", "float32");
        check("float64", "bool", "float64");
        check("float64", "complex64", "complex64");
    }
}
