use super::*;
use proptest::prelude::*;

fn read(dtype: DType, text: &str) -> Option<Vec<u8>> {
    let mut column = Column::new(dtype);
    match text.split_once(' ') {
        Some((real, imaginary)) => column.push_complex(real.as_bytes(), imaginary.as_bytes()).ok()?,
        None => column.push(text.as_bytes()).ok()?,
    }
    Some(column.bytes().to_vec())
}

fn written(dtype: DType, item: &[u8]) -> String {
    let mut out = Vec::new();
    write_value(&mut out, dtype, item);
    String::from_utf8(out).unwrap()
}

#[test]
fn words_become_values() {
    let check = |dtype: DType, text: &str, expected: Option<&[u8]>| {
        assert_eq!(read(dtype, text).as_deref(), expected, "{dtype} {text:?}");
    };
    check(DType::F64, "12", Some(&12f64.to_le_bytes()));
    check(DType::F64, "-1.5e3", Some(&(-1500f64).to_le_bytes()));
    check(DType::F64, "inf", Some(&f64::INFINITY.to_le_bytes()));
    check(DType::F64, "1e999", None);
    check(DType::F64, "", None);
    check(DType::F64, "x", None);
    check(DType::F64, "\u{fe}", None);
    check(DType::F32, "0.1", Some(&0.1f32.to_le_bytes()));
    check(DType::F32, "1e39", None);
    check(DType::F16, "65504", Some(&f16::MAX.to_le_bytes()));
    check(DType::F16, "70000", None);
    check(DType::I8, "-128", Some(&[0x80]));
    check(DType::I8, "128", None);
    check(DType::I8, "3.0", Some(&[3]));
    check(DType::I8, "1e1", Some(&[10]));
    check(DType::I8, "1.5", None);
    check(DType::I64, "1e300", None);
    check(DType::U64, "18446744073709551615", Some(&[0xff; 8]));
    check(DType::U64, "-1", None);
    check(DType::Bool, "1", Some(&[1]));
    check(DType::Bool, "2", None);
    check(DType::C64, "1 -2", Some(&[0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0]));
    check(DType::C64, "1", Some(&[0, 0, 0x80, 0x3f, 0, 0, 0, 0]));
}

#[test]
fn counts() {
    let check =
        |text: &str, expected: Option<u64>| assert_eq!(unsigned(text.as_bytes()), expected, "{text:?}");
    check("0", Some(0));
    check("0017", Some(17));
    check("9999999999999999999", Some(9_999_999_999_999_999_999));
    check("18446744073709551615", Some(u64::MAX));
    check("18446744073709551616", None);
    check("00000000000000000000000001", Some(1));
    check("+1", None);
    check("+18446744073709551615", None);
    check("-1", None);
    check("1.0", None);
    check("", None);
}

#[test]
fn floats_are_written_short() {
    let check = |value: f64, expected: &str| assert_eq!(written(DType::F64, &value.to_le_bytes()), expected);
    check(3.0, "3");
    check(-3.0, "-3");
    check(0.0, "0");
    check(-0.0, "-0.0");
    check(0.1, "0.1");
    check(1e300, "1e300");
    check(f64::NEG_INFINITY, "-inf");
    check(f64::NAN.copysign(1.0), "nan");
    check(f64::NAN.copysign(-1.0), "-nan");
    assert_eq!(written(DType::F32, &0.1f32.to_le_bytes()), "0.1");
}

#[test]
fn the_other_side_of_the_diagonal() {
    let check = |dtype: DType, text: &str, mirror: Mirror, expected: Option<&str>| {
        let mut item = read(dtype, text).unwrap();
        let found = mirrored(dtype, &mut item, mirror).ok().map(|()| written(dtype, &item));
        assert_eq!(found.as_deref(), expected, "{dtype} {text} {mirror:?}");
    };
    check(DType::F64, "1.5", Mirror::Same, Some("1.5"));
    check(DType::F64, "1.5", Mirror::Negated, Some("-1.5"));
    check(DType::F32, "0", Mirror::Negated, Some("-0.0"));
    check(DType::I16, "-3", Mirror::Negated, Some("3"));
    check(DType::I8, "-128", Mirror::Negated, None);
    check(DType::U8, "1", Mirror::Negated, None);
    check(DType::U8, "0", Mirror::Negated, Some("0"));
    check(DType::C64, "1 2", Mirror::Negated, Some("-1 -2"));
    check(DType::C128, "1 2", Mirror::Conjugated, Some("1 -2"));
    check(DType::F64, "1", Mirror::Conjugated, Some("1"));
}

/// The bits that text keeps: all, but for the payload of a NaN and for bytes of a bool that are no bool.
fn text_form(dtype: DType, item: &[u8]) -> Vec<u8> {
    macro_rules! float {
        ($type:ty, $item:expr) => {{
            let value = <$type>::from_le_bytes($item.try_into().unwrap());
            if value.is_nan() { <$type>::NAN.copysign(value) } else { value }.to_le_bytes().to_vec()
        }};
    }
    match dtype {
        DType::Bool => vec![u8::from(item[0] != 0)],
        DType::F16 => float!(f16, item),
        DType::BF16 => float!(bf16, item),
        DType::F32 => float!(f32, item),
        DType::F64 => float!(f64, item),
        DType::C64 => [float!(f32, item[..4]), float!(f32, item[4..])].concat(),
        DType::C128 => [float!(f64, item[..8]), float!(f64, item[8..])].concat(),
        _ => item.to_vec(),
    }
}

#[test]
fn every_half_float_survives() {
    for dtype in [DType::F16, DType::BF16] {
        for bits in 0..=u16::MAX {
            let item = bits.to_le_bytes();
            let text = written(dtype, &item);
            assert_eq!(read(dtype, &text).unwrap(), text_form(dtype, &item), "{dtype} {bits:#x} {text}");
        }
    }
}

proptest! {
    #[test]
    fn text_keeps_bits(bits in any::<[u8; 16]>()) {
        for dtype in DType::ALL {
            let item = &bits[..dtype.size_bytes()];
            let text = written(dtype, item);
            prop_assert_eq!(read(dtype, &text).unwrap(), text_form(dtype, item), "{} {}", dtype, text);
        }
    }

    #[test]
    fn no_word_panics(word in any::<Vec<u8>>()) {
        for dtype in DType::ALL {
            let _ = Column::new(dtype).push(&word);
        }
        let _ = unsigned(&word);
    }
}
