//! Elements in C order, and their way from one dtype to another where nothing is lost.
//!
//! | from | to | when |
//! |---|---|---|
//! | an integer dtype | another | every value fits |
//! | an integer dtype | a float | every value is exact |
//! | a float | a wider one | always |
//! | a float | a narrower one | only where the caller lets it round; no number may become infinite |
//! | an integer dtype | bool | only where the caller asks, and all values are 0 or 1 |

use std::borrow::Cow;

use half::{bf16, f16};
use lacus_tensor::{DType, Shape, Tensor, TensorError, TensorRef};

/// Elements of a dtype in C order: the caller's own where they lie so.
#[derive(Debug, Clone)]
pub(crate) struct Elements<'a> {
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    pub(crate) bytes: Cow<'a, [u8]>,
}

/// What a cast may do besides what loses nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Casts {
    /// Floats become narrower ones.
    pub(crate) rounds: bool,
    /// Zeros and ones become bools.
    pub(crate) to_bool: bool,
}

/// Why a cast was refused.
#[derive(Debug, PartialEq)]
pub(crate) enum Refused {
    /// These dtypes do not go into each other.
    DType,
    /// This value does not.
    Value(String),
}

impl<'a> Elements<'a> {
    pub(crate) fn of(tensor: &TensorRef<'a>) -> Elements<'a> {
        let bytes = match tensor.contiguous_bytes() {
            Some(bytes) => Cow::Borrowed(bytes),
            None => Cow::Owned(tensor.to_tensor().bytes().to_vec()),
        };
        Elements { dtype: tensor.dtype(), shape: tensor.shape().clone(), bytes }
    }

    pub(crate) fn owned(tensor: &Tensor) -> Elements<'static> {
        Elements {
            dtype: tensor.dtype(),
            shape: tensor.shape().clone(),
            bytes: Cow::Owned(tensor.bytes().to_vec()),
        }
    }

    /// A view of them.
    pub(crate) fn view(&self) -> Result<TensorRef<'_>, TensorError> {
        TensorRef::contiguous(self.dtype, &self.shape, &self.bytes)
    }

    /// The same elements in another shape, which must take as many.
    pub(crate) fn reshape(self, dims: &[u64]) -> Result<Elements<'a>, TensorError> {
        let shape = Shape::new(dims)?;
        TensorRef::contiguous(self.dtype, &shape, &self.bytes)?;
        Ok(Elements { shape, ..self })
    }

    /// The same values in another dtype.
    pub(crate) fn cast(self, to: DType, casts: Casts) -> Result<Elements<'a>, Refused> {
        let from = self.dtype;
        if from == to {
            return Ok(self);
        }
        // No element, no dtype: an empty list is a list of anything.
        let bytes = match self.bytes.is_empty() {
            true => Vec::new(),
            false => cast_bytes(from, to, &self.bytes, casts)?,
        };
        Ok(Elements { dtype: to, shape: self.shape, bytes: Cow::Owned(bytes) })
    }
}

fn cast_bytes(from: DType, to: DType, bytes: &[u8], casts: Casts) -> Result<Vec<u8>, Refused> {
    if from.is_integer() && (to.is_integer() || to == DType::Bool && casts.to_bool) {
        return match from {
            DType::I8 => integers::<i8, 1>(bytes, to, i8::from_le_bytes),
            DType::I16 => integers::<i16, 2>(bytes, to, i16::from_le_bytes),
            DType::I32 => integers::<i32, 4>(bytes, to, i32::from_le_bytes),
            DType::I64 => integers::<i64, 8>(bytes, to, i64::from_le_bytes),
            DType::U8 => integers::<u8, 1>(bytes, to, u8::from_le_bytes),
            DType::U16 => integers::<u16, 2>(bytes, to, u16::from_le_bytes),
            DType::U32 => integers::<u32, 4>(bytes, to, u32::from_le_bytes),
            _ => integers::<u64, 8>(bytes, to, u64::from_le_bytes),
        };
    }
    let widens = match (from, to) {
        (DType::F16 | DType::BF16, DType::F32 | DType::F64) | (DType::F32, DType::F64) => true,
        _ => from.is_integer(),
    };
    let rounds = casts.rounds && from.is_float();
    if !to.is_float() || !(widens || rounds) {
        return Err(Refused::DType);
    }
    floats(from, to, bytes, rounds)
}

/// From one integer type to any other, checked.
fn integers<T: Copy + Into<i128>, const N: usize>(
    bytes: &[u8],
    to: DType,
    read: fn([u8; N]) -> T,
) -> Result<Vec<u8>, Refused> {
    fn put<T: Copy + Into<i128>, U: TryFrom<i128>, const N: usize, const M: usize>(
        bytes: &[u8],
        read: fn([u8; N]) -> T,
        write: fn(U) -> [u8; M],
    ) -> Result<Vec<u8>, Refused> {
        let values = bytes.as_chunks::<N>().0;
        let mut out = Vec::with_capacity(values.len() * M);
        for value in values {
            let value: i128 = read(*value).into();
            let fitting = U::try_from(value).map_err(|_| Refused::Value(value.to_string()))?;
            out.extend_from_slice(&write(fitting));
        }
        Ok(out)
    }
    match to {
        DType::I8 => put(bytes, read, i8::to_le_bytes),
        DType::I16 => put(bytes, read, i16::to_le_bytes),
        DType::I32 => put(bytes, read, i32::to_le_bytes),
        DType::I64 => put(bytes, read, i64::to_le_bytes),
        DType::U8 => put(bytes, read, u8::to_le_bytes),
        DType::U16 => put(bytes, read, u16::to_le_bytes),
        DType::U32 => put(bytes, read, u32::to_le_bytes),
        DType::U64 => put(bytes, read, u64::to_le_bytes),
        _ => put(bytes, read, |Bit(bit)| [bit]),
    }
}

/// A bool, read from an integer.
struct Bit(u8);

impl TryFrom<i128> for Bit {
    type Error = ();

    fn try_from(value: i128) -> Result<Bit, ()> {
        match value {
            0 => Ok(Bit(0)),
            1 => Ok(Bit(1)),
            _ => Err(()),
        }
    }
}

fn floats(from: DType, to: DType, bytes: &[u8], rounds: bool) -> Result<Vec<u8>, Refused> {
    let count = bytes.len() / from.size_bytes();
    let mut out = Vec::with_capacity(count * to.size_bytes());
    let mut refused = None;
    let mut put = |value: f64, exact: bool, text: &dyn Fn() -> String| {
        let back = match to {
            DType::F16 => f16::from_f64(value).to_f64(),
            DType::BF16 => bf16::from_f64(value).to_f64(),
            DType::F32 => f64::from(value as f32),
            _ => value,
        };
        let same = back == value || value.is_nan();
        if refused.is_none() && !(exact && same || rounds && back.is_finite() == value.is_finite()) {
            refused = Some(text());
        }
        match to {
            DType::F16 => out.extend_from_slice(&f16::from_f64(value).to_le_bytes()),
            DType::BF16 => out.extend_from_slice(&bf16::from_f64(value).to_le_bytes()),
            DType::F32 => out.extend_from_slice(&(value as f32).to_le_bytes()),
            _ => out.extend_from_slice(&value.to_le_bytes()),
        }
    };
    match from {
        DType::I64 => {
            for bytes in bytes.as_chunks().0 {
                let value = i64::from_le_bytes(*bytes);
                put(value as f64, (value as f64) as i128 == i128::from(value), &|| value.to_string());
            }
        }
        DType::U64 => {
            for bytes in bytes.as_chunks().0 {
                let value = u64::from_le_bytes(*bytes);
                put(value as f64, (value as f64) as i128 == i128::from(value), &|| value.to_string());
            }
        }
        _ => doubles(from, bytes).for_each(|value| put(value, true, &|| format!("{value:?}"))),
    }
    match refused {
        Some(value) => Err(Refused::Value(value)),
        None => Ok(out),
    }
}

/// The elements as doubles, which all dtypes but 64-bit integers become exactly. Complex ones have none.
pub(crate) fn doubles(dtype: DType, bytes: &[u8]) -> Box<dyn Iterator<Item = f64> + '_> {
    fn each<'a, const N: usize>(
        bytes: &'a [u8],
        read: impl Fn([u8; N]) -> f64 + 'a,
    ) -> Box<dyn Iterator<Item = f64> + 'a> {
        Box::new(bytes.as_chunks::<N>().0.iter().map(move |element| read(*element)))
    }
    match dtype {
        DType::Bool | DType::U8 => each(bytes, |b| u8::from_le_bytes(b).into()),
        DType::I8 => each(bytes, |b| i8::from_le_bytes(b).into()),
        DType::I16 => each(bytes, |b| i16::from_le_bytes(b).into()),
        DType::I32 => each(bytes, |b| i32::from_le_bytes(b).into()),
        DType::I64 => each(bytes, |b| i64::from_le_bytes(b) as f64),
        DType::U16 => each(bytes, |b| u16::from_le_bytes(b).into()),
        DType::U32 => each(bytes, |b| u32::from_le_bytes(b).into()),
        DType::U64 => each(bytes, |b| u64::from_le_bytes(b) as f64),
        DType::F16 => each(bytes, |b| f16::from_le_bytes(b).to_f64()),
        DType::BF16 => each(bytes, |b| bf16::from_le_bytes(b).to_f64()),
        DType::F32 => each(bytes, |b| f32::from_le_bytes(b).into()),
        DType::F64 => each(bytes, f64::from_le_bytes),
        DType::C64 | DType::C128 => Box::new(std::iter::empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacus_tensor::{Buffer, Element};

    fn cast<T: Element>(from: DType, values: &[T], to: DType, casts: Casts) -> Result<Vec<f64>, Refused> {
        let buffer = Buffer::from_elements(values);
        let shape = Shape::new([values.len() as u64]).unwrap();
        let tensor = TensorRef::contiguous(from, &shape, &buffer).unwrap();
        let cast = Elements::of(&tensor).cast(to, casts)?;
        assert_eq!((cast.dtype, &cast.shape), (to, &shape));
        Ok(doubles(to, &cast.bytes).collect())
    }

    #[test]
    fn what_loses_nothing_is_cast() {
        let plain = Casts::default();
        let rounds = Casts { rounds: true, ..plain };
        let value = |text: &str| Err(Refused::Value(text.to_owned()));
        assert_eq!(cast(DType::I64, &[0i64, 255], DType::U8, plain), Ok(vec![0.0, 255.0]));
        assert_eq!(cast(DType::I64, &[0i64, 256], DType::U8, plain), value("256"));
        assert_eq!(cast(DType::I64, &[-1i64], DType::U64, plain), value("-1"));
        assert_eq!(cast(DType::U64, &[u64::MAX], DType::I64, plain), value("18446744073709551615"));
        assert_eq!(cast(DType::I64, &[7i64], DType::F32, plain), Ok(vec![7.0]));
        assert_eq!(cast(DType::I64, &[(1i64 << 24) + 1], DType::F32, plain), value("16777217"));
        assert_eq!(cast(DType::I64, &[i64::MAX], DType::F64, plain), value("9223372036854775807"));
        assert_eq!(cast(DType::I64, &[i64::MAX], DType::F64, rounds), value("9223372036854775807"));
        assert_eq!(
            cast(DType::F32, &[0.5f32, f32::INFINITY], DType::F64, plain),
            Ok(vec![0.5, f64::INFINITY])
        );
        assert_eq!(cast(DType::F64, &[0.5f64], DType::F32, plain), Err(Refused::DType));
        assert_eq!(cast(DType::F64, &[0.1f64], DType::F32, rounds), Ok(vec![f64::from(0.1f32)]));
        assert_eq!(cast(DType::F64, &[1e39f64], DType::F32, rounds), value("1e39"));
        assert!(cast(DType::F64, &[f64::NAN], DType::F16, rounds).unwrap()[0].is_nan());
        assert_eq!(cast(DType::F64, &[1.0f64], DType::I32, rounds), Err(Refused::DType));
        assert_eq!(cast(DType::Bool, &[1u8], DType::I32, rounds), Err(Refused::DType));
        assert_eq!(cast(DType::U8, &[1u8], DType::Bool, plain), Err(Refused::DType));
        let to_bool = Casts { to_bool: true, ..plain };
        assert_eq!(cast(DType::U8, &[1u8, 0], DType::Bool, to_bool), Ok(vec![1.0, 0.0]));
        assert_eq!(cast(DType::U8, &[255u8], DType::Bool, to_bool), value("255"));
        assert_eq!(cast::<f64>(DType::F64, &[], DType::U8, plain), Ok(vec![]));
        assert_eq!(cast(DType::F32, &[1f32], DType::C64, rounds), Err(Refused::DType));
    }
}
