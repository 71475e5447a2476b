//! Numbers as text: the shortest that gives them back.

use lacus_arrow::double;
use lacus_tensor::DType;

/// One element as the shortest text that gives it back.
pub(crate) fn number_text(dtype: DType, bytes: &[u8]) -> String {
    let first = |n: usize| bytes.get(..n).unwrap_or_default();
    match dtype {
        DType::Bool => if bytes.first() == Some(&1) { "true" } else { "false" }.to_owned(),
        DType::I64 => i64::from_le_bytes(first(8).try_into().unwrap_or_default()).to_string(),
        DType::U64 => u64::from_le_bytes(first(8).try_into().unwrap_or_default()).to_string(),
        DType::F64 => format!("{:?}", f64::from_le_bytes(first(8).try_into().unwrap_or_default())),
        DType::C64 => {
            format!("{}+{}j", number_text(DType::F32, first(4)), number_text(DType::F32, &bytes[4..]))
        }
        DType::C128 => {
            format!("{}+{}j", number_text(DType::F64, first(8)), number_text(DType::F64, &bytes[8..]))
        }
        _ if dtype.is_integer() => format!("{}", double(dtype, bytes).unwrap_or_default() as i64),
        _ => format!("{:?}", double(dtype, bytes).unwrap_or_default() as f32),
    }
}

/// Elements as nested lists: `[[1, 2], [3, 4]]`.
pub(crate) fn nested_text(dtype: DType, dims: &[u64], bytes: &[u8]) -> String {
    let Some((size, inner)) = dims.split_first() else { return number_text(dtype, bytes) };
    let step = match *size {
        0 => 0,
        size => bytes.len() / size as usize,
    };
    let items: Vec<String> =
        (0..*size as usize).map(|i| nested_text(dtype, inner, &bytes[i * step..(i + 1) * step])).collect();
    format!("[{}]", items.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_texts_that_give_them_back() {
        let check =
            |dtype: DType, bytes: &[u8], expected: &str| assert_eq!(number_text(dtype, bytes), expected);
        check(DType::Bool, &[1], "true");
        check(DType::I8, &[255], "-1");
        check(DType::U64, &[255; 8], "18446744073709551615");
        check(DType::F32, &0.1f32.to_le_bytes(), "0.1");
        check(DType::F64, &f64::NAN.to_le_bytes(), "NaN");
        check(DType::F16, &0x3c00u16.to_le_bytes(), "1.0");
        check(DType::F16, &0x0001u16.to_le_bytes(), "5.9604645e-8");
        check(DType::BF16, &0x3f80u16.to_le_bytes(), "1.0");
        assert_eq!(nested_text(DType::U8, &[2, 2], &[1, 2, 3, 4]), "[[1, 2], [3, 4]]");
        assert_eq!(nested_text(DType::U8, &[2, 0], &[]), "[[], []]");
    }
}
