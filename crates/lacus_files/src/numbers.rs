//! Numbers as text, both ways, without losing bits.
//!
//! Floats are written as the shortest decimal that reads back to the same bits (NaN keeps its sign but
//! not its payload: text has no word for it), integers exactly. Reading never rounds a value out of its
//! type: `300` is no int8, `1.5` no integer, `1e999` no float64.

use half::{bf16, f16};
use lacus_tensor::DType;

use crate::error::{Fault, quoted};

/// A growing column of values of one type, little-endian.
#[derive(Debug)]
pub(crate) struct Column {
    dtype: DType,
    bytes: Vec<u8>,
}

impl Column {
    pub(crate) fn new(dtype: DType) -> Column {
        Column { dtype, bytes: Vec::new() }
    }

    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends the value that a word says. A complex column gets it as the real part.
    #[inline]
    pub(crate) fn push(&mut self, word: &[u8]) -> Result<(), Fault> {
        // Most values in sparse files are small counts. Fifteen digits are exact in a float64, and
        // rounded once in a float32.
        if word.len() <= 15
            && let Some(count) = unsigned(word)
        {
            match self.dtype {
                DType::F64 => self.bytes.extend_from_slice(&(count as f64).to_le_bytes()),
                DType::F32 => self.bytes.extend_from_slice(&(count as f32).to_le_bytes()),
                DType::I64 | DType::U64 => self.bytes.extend_from_slice(&count.to_le_bytes()),
                dtype if push_integer(&mut self.bytes, dtype, count.into()) => {}
                _ => return self.push_word(word),
            }
            return Ok(());
        }
        self.push_word(word)
    }

    fn push_word(&mut self, word: &[u8]) -> Result<(), Fault> {
        match self.dtype {
            DType::C64 | DType::C128 => self.push_complex(word, b"0"),
            dtype => push_real(&mut self.bytes, dtype, word),
        }
    }

    /// Appends a complex value. Panics if the column is not complex.
    pub(crate) fn push_complex(&mut self, real: &[u8], imaginary: &[u8]) -> Result<(), Fault> {
        let part = match self.dtype {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => panic!("a complex value for a column of {other}"),
        };
        push_real(&mut self.bytes, part, real)?;
        push_real(&mut self.bytes, part, imaginary)
    }

    /// Appends the last value again, as it stands on the other side of a matrix's diagonal.
    pub(crate) fn push_mirrored(&mut self, mirror: Mirror) -> Result<(), Fault> {
        let size = self.dtype.size_bytes();
        let last = self.bytes.len() - size;
        let mut item = [0; 16];
        item[..size].copy_from_slice(&self.bytes[last..]);
        mirrored(self.dtype, &mut item[..size], mirror)?;
        self.bytes.extend_from_slice(&item[..size]);
        Ok(())
    }
}

/// How the value at (j, i) follows from the one at (i, j).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mirror {
    Same,
    Negated,
    Conjugated,
}

/// Changes one value to what stands on the other side of the diagonal.
pub(crate) fn mirrored(dtype: DType, item: &mut [u8], mirror: Mirror) -> Result<(), Fault> {
    let size = item.len();
    match mirror {
        Mirror::Same => {}
        Mirror::Conjugated if dtype.is_complex() => item[size - 1] ^= 0x80,
        Mirror::Conjugated => {}
        Mirror::Negated if dtype.is_complex() => {
            item[size / 2 - 1] ^= 0x80;
            item[size - 1] ^= 0x80;
        }
        Mirror::Negated if dtype.is_float() => item[size - 1] ^= 0x80,
        Mirror::Negated => {
            let mut text = Vec::new();
            write_value(&mut text, dtype, item);
            let negated = integer(&text).map(|value| -value);
            let mut bytes = Vec::with_capacity(size);
            if !negated.is_some_and(|value| push_integer(&mut bytes, dtype, value)) {
                let text = String::from_utf8_lossy(&text);
                return Err(Fault::malformed(format!(
                    "a skew-symmetric matrix has no {dtype} opposite of {text}"
                )));
            }
            item.copy_from_slice(&bytes);
        }
    }
    Ok(())
}

/// A count or coordinate: decimal digits that fit.
#[inline]
pub(crate) fn unsigned(word: &[u8]) -> Option<u64> {
    // Nineteen digits cannot overflow; the longer ones are rare.
    if word.is_empty() || word.len() > 19 {
        return std::str::from_utf8(word).ok().filter(|w| !w.starts_with('+'))?.parse().ok();
    }
    let mut value = 0u64;
    for &byte in word {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    Some(value)
}

fn push_real(bytes: &mut Vec<u8>, dtype: DType, word: &[u8]) -> Result<(), Fault> {
    let text = std::str::from_utf8(word).unwrap_or_default();
    let number = || Fault::malformed(format!("{} where a {dtype} number should be", quoted(word)));
    let fits = match dtype {
        DType::F64 => {
            let value: f64 = text.parse().map_err(|_| number())?;
            bytes.extend_from_slice(&value.to_le_bytes());
            value.is_finite()
        }
        DType::F32 => {
            let value: f32 = text.parse().map_err(|_| number())?;
            bytes.extend_from_slice(&value.to_le_bytes());
            value.is_finite()
        }
        DType::F16 => {
            let value = f16::from_f64(text.parse().map_err(|_| number())?);
            bytes.extend_from_slice(&value.to_le_bytes());
            value.is_finite()
        }
        DType::BF16 => {
            let value = bf16::from_f64(text.parse().map_err(|_| number())?);
            bytes.extend_from_slice(&value.to_le_bytes());
            value.is_finite()
        }
        _ => {
            let value = integer(word).ok_or_else(number)?;
            return if push_integer(bytes, dtype, value) {
                Ok(())
            } else {
                Err(Fault::malformed(format!("{text} is out of the range of {dtype}")))
            };
        }
    };
    // "inf" and "nan" say so themselves; digits that become infinite were too large.
    if fits || !word.iter().any(u8::is_ascii_digit) {
        Ok(())
    } else {
        Err(Fault::malformed(format!("{text} is out of the range of {dtype}")))
    }
}

/// A whole number, also when it is written as a float is (`3.0`, `1e3`).
fn integer(word: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(word).ok()?;
    if let Ok(value) = text.parse() {
        return Some(value);
    }
    // Above this, neighbouring integers are the same float.
    const EXACT: f64 = (1u64 << 53) as f64;
    let value: f64 = text.parse().ok()?;
    (value.fract() == 0.0 && value.abs() <= EXACT).then_some(value as i128)
}

/// Appends an integer if its type can hold it.
fn push_integer(bytes: &mut Vec<u8>, dtype: DType, value: i128) -> bool {
    macro_rules! push {
        ($type:ty) => {
            match <$type>::try_from(value) {
                Ok(value) => bytes.extend_from_slice(&value.to_le_bytes()),
                Err(_) => return false,
            }
        };
    }
    match dtype {
        DType::Bool => match value {
            0 | 1 => bytes.push(value as u8),
            _ => return false,
        },
        DType::I8 => push!(i8),
        DType::I16 => push!(i16),
        DType::I32 => push!(i32),
        DType::I64 => push!(i64),
        DType::U8 => push!(u8),
        DType::U16 => push!(u16),
        DType::U32 => push!(u32),
        DType::U64 => push!(u64),
        _ => return false,
    }
    true
}

/// Writes one value; a complex one as two words.
#[inline]
pub(crate) fn write_value(out: &mut Vec<u8>, dtype: DType, item: &[u8]) {
    macro_rules! number {
        ($type:ty) => {
            <$type>::from_le_bytes(item.try_into().expect("an item has its type's size"))
        };
    }
    match dtype {
        DType::Bool => out.push(if item[0] == 0 { b'0' } else { b'1' }),
        DType::I8 => write_signed(out, number!(i8).into()),
        DType::I16 => write_signed(out, number!(i16).into()),
        DType::I32 => write_signed(out, number!(i32).into()),
        DType::I64 => write_signed(out, number!(i64)),
        DType::U8 => write_unsigned(out, item[0].into()),
        DType::U16 => write_unsigned(out, number!(u16).into()),
        DType::U32 => write_unsigned(out, number!(u32).into()),
        DType::U64 => write_unsigned(out, number!(u64)),
        DType::F16 => write_float(out, number!(f16).to_f32(), f64::from),
        DType::BF16 => write_float(out, number!(bf16).to_f32(), f64::from),
        DType::F32 => write_float(out, number!(f32), f64::from),
        DType::F64 => write_float(out, number!(f64), |value| value),
        DType::C64 | DType::C128 => {
            let part = if dtype == DType::C64 { DType::F32 } else { DType::F64 };
            let (real, imaginary) = item.split_at(item.len() / 2);
            write_value(out, part, real);
            out.push(b' ');
            write_value(out, part, imaginary);
        }
    }
}

fn write_float<F: Copy + std::fmt::Debug>(out: &mut Vec<u8>, value: F, widen: impl Fn(F) -> f64) {
    use std::io::Write;
    // Below this, a whole number's digits are exact and shorter than any other form.
    const WHOLE: f64 = 1e15;
    let wide = widen(value);
    let word: &[u8] = if wide.is_nan() {
        if wide.is_sign_negative() { b"-nan" } else { b"nan" }
    } else if wide.fract() == 0.0 && wide.abs() < WHOLE && !(wide == 0.0 && wide.is_sign_negative()) {
        return write_signed(out, wide as i64);
    } else {
        // Debug chooses the exponent form where it is shorter; Display never does.
        return write!(out, "{value:?}").expect("memory can be written to");
    };
    out.extend_from_slice(word);
}

fn write_signed(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    write_unsigned(out, value.unsigned_abs());
}

/// Writes decimal digits.
#[inline]
pub(crate) fn write_unsigned(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

#[cfg(test)]
mod tests;
