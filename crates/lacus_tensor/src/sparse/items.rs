//! Elements as bytes: picking some of them, and adding them by dtype.

use crate::buffer::Buffer;
use crate::dtype::DType;
use half::{bf16, f16};

/// Calls a generic function with the width of an element as its constant.
macro_rules! with_width {
    ($width:expr, $function:ident ( $($argument:expr),* )) => {
        match $width {
            1 => $function::<1>($($argument),*),
            2 => $function::<2>($($argument),*),
            4 => $function::<4>($($argument),*),
            8 => $function::<8>($($argument),*),
            _ => $function::<16>($($argument),*),
        }
    };
}
pub(super) use with_width;

/// The elements at `rows`, in that order.
pub(super) fn pick(values: &[u8], item_bytes: usize, rows: &[usize]) -> Buffer {
    let mut picked = Buffer::for_overwrite(rows.len() * item_bytes);
    with_width!(item_bytes, pick_sized(values, rows, &mut picked));
    picked
}

fn pick_sized<const N: usize>(values: &[u8], rows: &[usize], picked: &mut [u8]) {
    let (values, _) = values.as_chunks::<N>();
    let (picked, _) = picked.as_chunks_mut::<N>();
    for (place, &row) in picked.iter_mut().zip(rows) {
        *place = values[row];
    }
}

/// The sums of runs of elements; run `k` goes from `firsts[k]` to the next. A run of one keeps its bits.
pub(super) fn sum_runs(dtype: DType, values: &[u8], firsts: &[usize]) -> Buffer {
    let item_bytes = dtype.size_bytes();
    let mut sums = pick(values, item_bytes, firsts);
    let ends = firsts.iter().skip(1).copied().chain([values.len() / item_bytes]);
    for ((sum, &first), end) in sums.chunks_exact_mut(item_bytes).zip(firsts).zip(ends) {
        for value in values[(first + 1) * item_bytes..end * item_bytes].chunks_exact(item_bytes) {
            add(dtype, sum, value);
        }
    }
    sums
}

/// Adds one element to another, both little-endian.
fn add(dtype: DType, sum: &mut [u8], value: &[u8]) {
    macro_rules! add_as {
        ($type:ty, $add:expr) => {{
            let components = sum.as_chunks_mut().0.iter_mut().zip(value.as_chunks().0);
            for (sum, value) in components {
                *sum = $add(<$type>::from_le_bytes(*sum), <$type>::from_le_bytes(*value)).to_le_bytes();
            }
        }};
    }
    match dtype {
        DType::Bool => add_as!(u8, |a: u8, b: u8| a | b),
        DType::I8 | DType::U8 => add_as!(u8, u8::wrapping_add),
        DType::I16 | DType::U16 => add_as!(u16, u16::wrapping_add),
        DType::I32 | DType::U32 => add_as!(u32, u32::wrapping_add),
        DType::I64 | DType::U64 => add_as!(u64, u64::wrapping_add),
        DType::F16 => add_as!(f16, |a: f16, b: f16| a + b),
        DType::BF16 => add_as!(bf16, |a: bf16, b: bf16| a + b),
        DType::F32 | DType::C64 => add_as!(f32, |a: f32, b: f32| a + b),
        DType::F64 | DType::C128 => add_as!(f64, |a: f64, b: f64| a + b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_adds_its_own_way() {
        let check = |dtype: DType, a: &[u8], b: &[u8], expected: &[u8]| {
            let values = [a, b, a].concat();
            // One run of two, one of one.
            let sums = sum_runs(dtype, &values, &[0, 2]);
            assert_eq!(sums[..], [expected, a].concat(), "{dtype}");
        };
        check(DType::Bool, &[1], &[1], &[1]);
        check(DType::U8, &[200], &[100], &[44]);
        check(DType::I8, &[0x80], &[0xff], &[0x7f]);
        check(DType::I16, &(-2i16).to_le_bytes(), &5i16.to_le_bytes(), &3i16.to_le_bytes());
        check(DType::U32, &u32::MAX.to_le_bytes(), &2u32.to_le_bytes(), &1u32.to_le_bytes());
        check(DType::I64, &i64::MAX.to_le_bytes(), &1i64.to_le_bytes(), &i64::MIN.to_le_bytes());
        check(
            DType::F16,
            &f16::from_f32(1.5).to_le_bytes(),
            &f16::from_f32(2.0).to_le_bytes(),
            &f16::from_f32(3.5).to_le_bytes(),
        );
        check(
            DType::BF16,
            &bf16::from_f32(256.0).to_le_bytes(),
            &bf16::from_f32(1.0).to_le_bytes(),
            &bf16::from_f32(256.0).to_le_bytes(),
        );
        check(DType::F32, &0.1f32.to_le_bytes(), &0.2f32.to_le_bytes(), &(0.1f32 + 0.2).to_le_bytes());
        let complex = |re: f64, im: f64| [re.to_le_bytes(), im.to_le_bytes()].concat();
        check(DType::C128, &complex(1.0, -2.0), &complex(0.5, 4.0), &complex(1.5, 2.0));
        let complex = |re: f32, im: f32| [re.to_le_bytes(), im.to_le_bytes()].concat();
        check(DType::C64, &complex(1.0, -2.0), &complex(0.5, 4.0), &complex(1.5, 2.0));
    }
}
