//! Elements as text for people and as JSON for programs.

use half::{bf16, f16};
use lacus_tensor::DType;
use serde_json::{Value as Json, json};

/// One element, as wide as its family goes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Single(f32),
    Double(f64),
    SingleComplex(f32, f32),
    DoubleComplex(f64, f64),
}

/// The element in these bytes, as `numpy` would print it; shortest text that gives the same number back.
pub(crate) fn text(dtype: DType, bytes: &[u8]) -> String {
    fn complex(real: String, imaginary: String) -> String {
        let sign = if imaginary.starts_with('-') { "" } else { "+" };
        format!("{real}{sign}{imaginary}j")
    }
    match number(dtype, bytes) {
        Number::Bool(value) => if value { "True" } else { "False" }.to_owned(),
        Number::Int(value) => value.to_string(),
        Number::Unsigned(value) => value.to_string(),
        Number::Single(value) => single(value),
        Number::Double(value) => double(value),
        Number::SingleComplex(real, imaginary) => complex(single(real), single(imaginary)),
        Number::DoubleComplex(real, imaginary) => complex(double(real), double(imaginary)),
    }
}

/// The element in these bytes. JSON has no words for NaN and infinities, so these are texts; a complex
/// number is a pair.
pub(crate) fn json(dtype: DType, bytes: &[u8]) -> Json {
    fn float(value: f64, text: impl FnOnce() -> String) -> Json {
        if value.is_finite() { json!(value) } else { json!(text()) }
    }
    // Through text: the nearest double of 0.1 as a single would be 0.10000000149011612.
    let of_single = |value: f32| float(single(value).parse().unwrap_or(f64::from(value)), || single(value));
    let of_double = |value: f64| float(value, || double(value));
    match number(dtype, bytes) {
        Number::Bool(value) => json!(value),
        Number::Int(value) => json!(value),
        Number::Unsigned(value) => json!(value),
        Number::Single(value) => of_single(value),
        Number::Double(value) => of_double(value),
        Number::SingleComplex(real, imaginary) => json!([of_single(real), of_single(imaginary)]),
        Number::DoubleComplex(real, imaginary) => json!([of_double(real), of_double(imaginary)]),
    }
}

fn single(value: f32) -> String {
    if value.is_finite() { format!("{value:?}") } else { double(f64::from(value)) }
}

fn double(value: f64) -> String {
    match value {
        _ if value.is_nan() => "nan".to_owned(),
        f64::INFINITY => "inf".to_owned(),
        f64::NEG_INFINITY => "-inf".to_owned(),
        _ => format!("{value:?}"),
    }
}

/// Reads the element at the front of `bytes`, which hold at least one.
fn number(dtype: DType, bytes: &[u8]) -> Number {
    fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
        *bytes.first_chunk().expect("an element is there")
    }
    match dtype {
        DType::Bool => Number::Bool(bytes[0] != 0),
        DType::I8 => Number::Int(i8::from_le_bytes(first(bytes)).into()),
        DType::I16 => Number::Int(i16::from_le_bytes(first(bytes)).into()),
        DType::I32 => Number::Int(i32::from_le_bytes(first(bytes)).into()),
        DType::I64 => Number::Int(i64::from_le_bytes(first(bytes))),
        DType::U8 => Number::Unsigned(bytes[0].into()),
        DType::U16 => Number::Unsigned(u16::from_le_bytes(first(bytes)).into()),
        DType::U32 => Number::Unsigned(u32::from_le_bytes(first(bytes)).into()),
        DType::U64 => Number::Unsigned(u64::from_le_bytes(first(bytes))),
        DType::F16 => Number::Single(f16::from_le_bytes(first(bytes)).into()),
        DType::BF16 => Number::Single(bf16::from_le_bytes(first(bytes)).into()),
        DType::F32 => Number::Single(f32::from_le_bytes(first(bytes))),
        DType::F64 => Number::Double(f64::from_le_bytes(first(bytes))),
        DType::C64 => {
            Number::SingleComplex(f32::from_le_bytes(first(bytes)), f32::from_le_bytes(first(&bytes[4..])))
        }
        DType::C128 => {
            Number::DoubleComplex(f64::from_le_bytes(first(bytes)), f64::from_le_bytes(first(&bytes[8..])))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_as_people_and_programs_know_them() {
        let check = |dtype: DType, bytes: &[u8], expected: &str, expected_json: Json| {
            assert_eq!(
                (text(dtype, bytes), json(dtype, bytes)),
                (expected.to_owned(), expected_json),
                "{dtype}"
            );
        };
        check(DType::Bool, &[1], "True", json!(true));
        check(DType::I8, &[255], "-1", json!(-1));
        check(DType::U64, &u64::MAX.to_le_bytes(), "18446744073709551615", json!(u64::MAX));
        check(DType::F32, &0.1f32.to_le_bytes(), "0.1", json!(0.1));
        check(DType::F32, &f32::NAN.to_le_bytes(), "nan", json!("nan"));
        check(DType::F64, &f64::NEG_INFINITY.to_le_bytes(), "-inf", json!("-inf"));
        check(DType::F64, &1e300f64.to_le_bytes(), "1e300", json!(1e300));
        check(DType::F16, &[0, 0x3c], "1.0", json!(1.0));
        check(DType::BF16, &[0x80, 0xbf], "-1.0", json!(-1.0));
        let complex = [1.5f32.to_le_bytes(), (-0.0f32).to_le_bytes()].concat();
        check(DType::C64, &complex, "1.5-0.0j", json!([1.5, -0.0]));
        let complex = [0f64.to_le_bytes(), f64::NAN.to_le_bytes()].concat();
        check(DType::C128, &complex, "0.0+nanj", json!([0.0, "nan"]));
    }
}
