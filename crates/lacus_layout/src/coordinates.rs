//! Coordinates (COO): one table row per nonzero, readable and filterable by any SQL engine.
//!
//! **What it stores.** For each nonzero its coordinates in `c0 … c(n-1)` and its value in a typed column.
//!
//! **When it wins.** When other engines shall read the nonzeros, and for shapes with more cells than any
//! linear index can count. It takes more space and time than the packed layouts.
//!
//! **The row layout.** Nothing is packed here: this file only says which column holds the values of a
//! dtype, and turns element bytes into the numbers of that column and back, bit for bit.
//!
//! | dtype | column | how |
//! |---|---|---|
//! | bool, int8 … int64, uint8 … uint32 | `int` | the number |
//! | uint64 | `int` | the same 64 bits, so numbers from 2^63 on look negative |
//! | float16, bfloat16, float32 | `float` | widened on the bits, so that NaN payloads survive |
//! | float64 | `real` | the same 64 bits |
//! | complex64, complex128 | `data` | real and imaginary part, little-endian |
//!
//! ```
//! use lacus_layout::{CellColumn, cell_column, ints_to_values, values_to_ints};
//! use lacus_tensor::DType;
//! assert_eq!(cell_column(DType::U16), CellColumn::Int);
//! let ints = values_to_ints(DType::U16, &[1, 0, 0xff, 0xff]).unwrap();
//! assert_eq!(ints, [1, 65535]);
//! assert_eq!(ints_to_values(DType::U16, &ints).unwrap(), [1, 0, 0xff, 0xff]);
//! ```

use lacus_tensor::DType;

use crate::error::LayoutError;

/// The typed column of the table that holds nonzero values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CellColumn {
    /// `int`: 64-bit integers.
    Int,
    /// `float`: 32-bit floats, handled as their bits.
    Float,
    /// `real`: 64-bit floats, handled as their bits.
    Real,
    /// `data`: the element's bytes.
    Data,
}

/// The column that holds the nonzeros of this dtype.
pub fn cell_column(dtype: DType) -> CellColumn {
    match dtype {
        DType::F16 | DType::BF16 | DType::F32 => CellColumn::Float,
        DType::F64 => CellColumn::Real,
        DType::C64 | DType::C128 => CellColumn::Data,
        _ => CellColumn::Int,
    }
}

/// Element bytes of an integer or bool dtype as the numbers of the `int` column.
///
/// Fails with an invalid error for other dtypes or a length that is no whole number of elements.
pub fn values_to_ints(dtype: DType, bytes: &[u8]) -> Result<Vec<i64>, LayoutError> {
    check_values(dtype, CellColumn::Int, bytes)?;
    Ok(match dtype {
        DType::Bool | DType::U8 => bytes.iter().map(|byte| i64::from(*byte)).collect(),
        DType::I8 => bytes.iter().map(|byte| i64::from(*byte as i8)).collect(),
        DType::I16 => each(bytes, |b| i64::from(i16::from_le_bytes(b))),
        DType::I32 => each(bytes, |b| i64::from(i32::from_le_bytes(b))),
        DType::U16 => each(bytes, |b| i64::from(u16::from_le_bytes(b))),
        DType::U32 => each(bytes, |b| i64::from(u32::from_le_bytes(b))),
        // 64 bits are kept as they are.
        _ => each(bytes, i64::from_le_bytes),
    })
}

/// The inverse of [`values_to_ints`]. Fails with a corrupt error if a number is out of the dtype's range.
pub fn ints_to_values(dtype: DType, ints: &[i64]) -> Result<Vec<u8>, LayoutError> {
    let mut bytes = Vec::with_capacity(ints.len().saturating_mul(dtype.size_bytes()));
    fn put<const N: usize, T: TryFrom<i64>>(
        bytes: &mut Vec<u8>,
        ints: &[i64],
        to: impl Fn(T) -> [u8; N],
    ) -> Result<(), i64> {
        for int in ints {
            bytes.extend_from_slice(&to(T::try_from(*int).map_err(|_| *int)?));
        }
        Ok(())
    }
    let done = match dtype {
        DType::Bool => match ints.iter().find(|int| !(0..=1).contains(*int)) {
            Some(int) => Err(*int),
            None => put(&mut bytes, ints, u8::to_le_bytes),
        },
        DType::U8 => put(&mut bytes, ints, u8::to_le_bytes),
        DType::I8 => put(&mut bytes, ints, i8::to_le_bytes),
        DType::I16 => put(&mut bytes, ints, i16::to_le_bytes),
        DType::I32 => put(&mut bytes, ints, i32::to_le_bytes),
        DType::U16 => put(&mut bytes, ints, u16::to_le_bytes),
        DType::U32 => put(&mut bytes, ints, u32::to_le_bytes),
        DType::I64 | DType::U64 => put(&mut bytes, ints, i64::to_le_bytes),
        _ => return Err(wrong_column(dtype, CellColumn::Int)),
    };
    match done {
        Ok(()) => Ok(bytes),
        Err(int) => Err(LayoutError::corrupt("cell value", format!("{int} is no {dtype}"))),
    }
}

/// Element bytes of a float16, bfloat16 or float32 tensor as the bits of the `float` column.
///
/// Fails as [`values_to_ints`].
pub fn values_to_floats(dtype: DType, bytes: &[u8]) -> Result<Vec<u32>, LayoutError> {
    check_values(dtype, CellColumn::Float, bytes)?;
    Ok(match dtype {
        DType::F16 => each(bytes, |b| widen_f16(u16::from_le_bytes(b))),
        DType::BF16 => each(bytes, |b| u32::from(u16::from_le_bytes(b)) << 16),
        _ => each(bytes, u32::from_le_bytes),
    })
}

/// The inverse of [`values_to_floats`]. Fails with a corrupt error if a number is none of the dtype's.
pub fn floats_to_values(dtype: DType, bits: &[u32]) -> Result<Vec<u8>, LayoutError> {
    let narrow = |to: fn(u32) -> Option<u16>| {
        let mut bytes = Vec::with_capacity(bits.len().saturating_mul(2));
        for bits in bits {
            let narrowed = to(*bits).ok_or_else(|| {
                LayoutError::corrupt("cell value", format!("{} is no {dtype}", f32::from_bits(*bits)))
            })?;
            bytes.extend_from_slice(&narrowed.to_le_bytes());
        }
        Ok(bytes)
    };
    match dtype {
        DType::F32 => Ok(bits.iter().flat_map(|bits| bits.to_le_bytes()).collect()),
        DType::BF16 => narrow(|bits| (bits & 0xffff == 0).then_some((bits >> 16) as u16)),
        DType::F16 => narrow(narrow_f16),
        _ => Err(wrong_column(dtype, CellColumn::Float)),
    }
}

/// Element bytes of a float64 tensor as the bits of the `real` column. Fails as [`values_to_ints`].
pub fn values_to_reals(dtype: DType, bytes: &[u8]) -> Result<Vec<u64>, LayoutError> {
    check_values(dtype, CellColumn::Real, bytes)?;
    Ok(each(bytes, u64::from_le_bytes))
}

/// The inverse of [`values_to_reals`].
pub fn reals_to_values(dtype: DType, bits: &[u64]) -> Result<Vec<u8>, LayoutError> {
    match dtype {
        DType::F64 => Ok(bits.iter().flat_map(|bits| bits.to_le_bytes()).collect()),
        _ => Err(wrong_column(dtype, CellColumn::Real)),
    }
}

fn each<const N: usize, T>(bytes: &[u8], from: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|element| from(*element)).collect()
}

fn check_values(dtype: DType, column: CellColumn, bytes: &[u8]) -> Result<(), LayoutError> {
    if cell_column(dtype) != column {
        return Err(wrong_column(dtype, column));
    }
    if !bytes.len().is_multiple_of(dtype.size_bytes()) {
        return Err(LayoutError::unsupported(
            "COO",
            format!("{} bytes are no whole number of {dtype} elements", bytes.len()),
        ));
    }
    Ok(())
}

fn wrong_column(dtype: DType, column: CellColumn) -> LayoutError {
    LayoutError::unsupported("COO", format!("{dtype} values do not go into the {column:?} column"))
}

/// Half to single precision on the bits: a NaN keeps its payload and whether it signals.
fn widen_f16(bits: u16) -> u32 {
    let sign = u32::from(bits >> 15) << 31;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let mantissa = u32::from(bits) & 0x3ff;
    match (exponent, mantissa) {
        (0, 0) => sign,
        (0, _) => {
            // Subnormal: shift the leading bit into the hidden place.
            let shift = mantissa.leading_zeros() - 21;
            sign | ((113 - shift) << 23) | (((mantissa << shift) & 0x3ff) << 13)
        }
        (31, _) => sign | 0xff << 23 | mantissa << 13,
        _ => sign | (exponent + 112) << 23 | mantissa << 13,
    }
}

/// The inverse of [`widen_f16`]; `None` for numbers it does not make.
fn narrow_f16(bits: u32) -> Option<u16> {
    let sign = (bits >> 31 << 15) as u16;
    let exponent = bits >> 23 & 0xff;
    let mantissa = bits & 0x7f_ffff;
    let narrow = match exponent {
        0 => 0,
        255 => 0x7c00 | (mantissa >> 13) as u16,
        113..=142 => ((exponent - 112) << 10) as u16 | (mantissa >> 13) as u16,
        103..=112 => ((mantissa | 0x80_0000) >> (126 - exponent)) as u16,
        _ => return None,
    };
    (widen_f16(sign | narrow) == bits).then_some(sign | narrow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacus_tensor::ErrorKind;

    #[test]
    fn every_half_survives() {
        for bits in 0..=u16::MAX {
            let wide = widen_f16(bits);
            assert_eq!(narrow_f16(wide), Some(bits), "{bits:#06x}");
        }
        assert_eq!(f32::from_bits(widen_f16(0x3c00)), 1.0);
        assert_eq!(f32::from_bits(widen_f16(0x0001)), 2f32.powi(-24));
        assert_eq!(f32::from_bits(widen_f16(0xfbff)), -65504.0);
        for none in [1.0e-9f32, 65520.0, 1.0001, 1.0e-40] {
            assert_eq!(narrow_f16(none.to_bits()), None, "{none}");
        }
    }

    #[test]
    fn every_dtype_goes_both_ways() {
        let noise: Vec<u8> = (0u32..960).map(|i| (i.wrapping_mul(2654435761) >> 24) as u8).collect();
        for dtype in DType::ALL {
            let bytes = match dtype {
                DType::Bool => noise.iter().map(|byte| byte & 1).collect(),
                _ => noise.clone(),
            };
            let back = match cell_column(dtype) {
                CellColumn::Int => ints_to_values(dtype, &values_to_ints(dtype, &bytes).unwrap()),
                CellColumn::Float => floats_to_values(dtype, &values_to_floats(dtype, &bytes).unwrap()),
                CellColumn::Real => reals_to_values(dtype, &values_to_reals(dtype, &bytes).unwrap()),
                CellColumn::Data => Ok(bytes.clone()),
            };
            assert_eq!(back, Ok(bytes), "{dtype}");
        }
    }

    #[test]
    fn foreign_numbers_are_corrupt() {
        let cases = [
            (DType::Bool, 2),
            (DType::U8, 256),
            (DType::I8, -129),
            (DType::U16, -1),
            (DType::I32, 1 << 31),
            (DType::U32, 1 << 32),
        ];
        for (dtype, int) in cases {
            assert_eq!(ints_to_values(dtype, &[int]).unwrap_err().kind(), ErrorKind::Corrupt, "{dtype}");
        }
        for dtype in [DType::F16, DType::BF16] {
            let bits = 1.000_000_1f32.to_bits();
            assert_eq!(floats_to_values(dtype, &[bits]).unwrap_err().kind(), ErrorKind::Corrupt, "{dtype}");
        }
        assert_eq!(values_to_ints(DType::F32, &[0; 4]).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(values_to_ints(DType::I32, &[0; 3]).unwrap_err().kind(), ErrorKind::Invalid);
    }
}
