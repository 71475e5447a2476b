//! Elements as text for people and as JSON for programs.

use half::{bf16, f16};
use lacus::tensor::DType;
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

/// The element in these bytes, for the eye: long fractions are rounded.
pub(crate) fn text(dtype: DType, bytes: &[u8]) -> String {
    fn complex(real: String, imaginary: String) -> String {
        let sign = if imaginary.starts_with('-') { "" } else { "+" };
        format!("{real}{sign}{imaginary}j")
    }
    match number(dtype, bytes) {
        Number::Bool(value) => if value { "True" } else { "False" }.to_owned(),
        Number::Int(value) => value.to_string(),
        Number::Unsigned(value) => value.to_string(),
        Number::Single(value) => brief(single(value), value.into()),
        Number::Double(value) => brief(double(value), value),
        Number::SingleComplex(real, imaginary) => {
            complex(brief(single(real), real.into()), brief(single(imaginary), imaginary.into()))
        }
        Number::DoubleComplex(real, imaginary) => {
            complex(brief(double(real), real), brief(double(imaginary), imaginary))
        }
    }
}

/// A number's text, when it is short, else six digits of it.
fn brief(text: String, value: f64) -> String {
    const SHORT: usize = 9;
    let rounded = format!("{value:.5e}");
    match rounded.parse::<f64>() {
        _ if text.len() <= SHORT => text,
        // Zeros where there are other digits would be a lie.
        Ok(_) if value.abs() >= 1e6 => rounded,
        Ok(rounded) => format!("{rounded:?}"),
        Err(_) => text,
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
        check(DType::F64, &(2.0f64 / 3.0).to_le_bytes(), "0.666667", json!(2.0 / 3.0));
        check(
            DType::F64,
            &1.5277611440170125e-5f64.to_le_bytes(),
            "1.52776e-5",
            json!(1.5277611440170125e-5),
        );
        check(DType::F64, &1234567.0f64.to_le_bytes(), "1234567.0", json!(1234567.0));
        check(DType::F64, &(-123456789.5f64).to_le_bytes(), "-1.23457e8", json!(-123456789.5));
        check(DType::F16, &[0, 0x3c], "1.0", json!(1.0));
        check(DType::BF16, &[0x80, 0xbf], "-1.0", json!(-1.0));
        let complex = [1.5f32.to_le_bytes(), (-0.0f32).to_le_bytes()].concat();
        check(DType::C64, &complex, "1.5-0.0j", json!([1.5, -0.0]));
        let complex = [0f64.to_le_bytes(), f64::NAN.to_le_bytes()].concat();
        check(DType::C128, &complex, "0.0+nanj", json!([0.0, "nan"]));
    }
}
