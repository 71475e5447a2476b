//! One sample on its way between a dataset and a file: owned, small, and of few kinds.

use std::borrow::Cow;

use bytes::Bytes;
use lacus_sample::{Column, Sample, Value};
use lacus_tensor::{Buffer, DType, Shape, Tensor, TensorError, TensorRef};
use serde_json::Value as Json;

/// A sample.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// There is none.
    Missing,
    /// A tensor of no axes, of a dtype of at most eight bytes: its element comes first.
    Scalar(DType, [u8; 8]),
    /// Text.
    Text(String),
    /// A JSON value.
    Json(Json),
    /// The bytes of a media file, or of a column of bytes.
    Media(Bytes),
    /// Elements.
    Tensor(Box<Tensor>),
    /// Several samples of one row.
    List(Vec<Cell>),
}

impl Cell {
    /// A tensor of these bytes.
    pub fn tensor(dtype: DType, dims: &[u64], bytes: &[u8]) -> Result<Cell, TensorError> {
        let tensor = Tensor::new(dtype, Shape::new(dims)?, Buffer::from_slice(bytes))?;
        Ok(Cell::of_tensor(tensor))
    }

    /// A tensor; one of no axes as a scalar.
    pub fn of_tensor(tensor: Tensor) -> Cell {
        match tensor.shape().rank() == 0 && tensor.dtype().size_bytes() <= 8 {
            true => Cell::scalar(tensor.dtype(), tensor.bytes()),
            false => Cell::Tensor(Box::new(tensor)),
        }
    }

    /// The element at the front of `bytes`, which hold at least one.
    pub fn scalar(dtype: DType, bytes: &[u8]) -> Cell {
        let mut element = [0; 8];
        let length = dtype.size_bytes().min(8);
        element[..length].copy_from_slice(&bytes[..length]);
        Cell::Scalar(dtype, element)
    }

    /// A whole number.
    pub fn int(value: i64) -> Cell {
        Cell::Scalar(DType::I64, value.to_le_bytes())
    }

    /// A text.
    pub fn text(value: impl Into<String>) -> Cell {
        Cell::Text(value.into())
    }

    /// A tensor of one axis.
    pub fn numbers<T: lacus_tensor::Element>(dtype: DType, values: &[T]) -> Result<Cell, TensorError> {
        let shape = Shape::new([values.len() as u64])?;
        Ok(Cell::Tensor(Box::new(Tensor::new(dtype, shape, Buffer::from_elements(values))?)))
    }

    /// Bytes of what it holds.
    pub fn bytes(&self) -> u64 {
        match self {
            Cell::Missing => 0,
            Cell::Scalar(dtype, _) => dtype.size_bytes() as u64,
            Cell::Text(text) => text.len() as u64,
            Cell::Json(value) => json_bytes(value),
            Cell::Media(bytes) => bytes.len() as u64,
            Cell::Tensor(tensor) => tensor.bytes().len() as u64,
            Cell::List(cells) => cells.iter().map(Cell::bytes).sum(),
        }
    }

    /// How many samples it takes to say it.
    pub fn count(&self) -> usize {
        match self {
            Cell::List(cells) => 1 + cells.len(),
            _ => 1,
        }
    }

    /// The same as the dataset takes it.
    pub fn sample(&self) -> Result<Sample<'_>, TensorError> {
        Ok(match self {
            Cell::Missing => Sample::Missing,
            Cell::Scalar(dtype, element) => {
                let bytes = &element[..dtype.size_bytes().min(8)];
                Sample::Tensor(TensorRef::contiguous(*dtype, &Shape::default(), bytes)?)
            }
            Cell::Text(text) => Sample::Text(Cow::Borrowed(text)),
            Cell::Json(value) => Sample::Json(value.clone()),
            Cell::Media(bytes) => Sample::Encoded(Cow::Borrowed(bytes)),
            Cell::Tensor(tensor) => Sample::Tensor(tensor.as_ref().as_ref()),
            Cell::List(cells) => Sample::Sequence(cells.iter().map(Cell::sample).collect::<Result<_, _>>()?),
        })
    }

    /// A value as the dataset gave it.
    pub fn of_value(value: Value) -> Cell {
        match value {
            Value::Tensor(tensor) => Cell::of_tensor(tensor),
            Value::Text(text) | Value::Link(text) => Cell::Text(text),
            Value::Json(value) => Cell::Json(value),
            Value::Bytes(bytes) => Cell::Media(bytes.into()),
            Value::Sequence(values) => Cell::List(values.into_iter().map(Cell::of_value).collect()),
        }
    }

    /// The dtype, the dimensions and the bytes of numbers.
    pub fn elements(&self) -> Option<(DType, &[u64], &[u8])> {
        match self {
            Cell::Scalar(dtype, element) => Some((*dtype, &[], &element[..dtype.size_bytes().min(8)])),
            Cell::Tensor(tensor) => Some((tensor.dtype(), tensor.shape().dims(), tensor.bytes())),
            _ => None,
        }
    }

    /// Numbers, as doubles.
    pub fn doubles(&self) -> Option<Vec<f64>> {
        let (dtype, _, bytes) = self.elements()?;
        bytes.chunks_exact(dtype.size_bytes()).map(|item| double(dtype, item)).collect()
    }

    /// The text of a date, a time or a decimal, as a column of such has it; `None` for anything else.
    pub fn logical_text(&self, column: &Column) -> Option<String> {
        match self {
            Cell::Scalar(..) => Some(column.logical()?.text(self.as_int()?)),
            _ => None,
        }
    }

    /// A whole number.
    pub fn as_int(&self) -> Option<i64> {
        let (dtype, _, bytes) = self.elements()?;
        match dtype {
            DType::U64 => i64::try_from(u64::from_le_bytes(*bytes.first_chunk()?)).ok(),
            DType::I64 => Some(i64::from_le_bytes(*bytes.first_chunk()?)),
            _ => double(dtype, bytes).filter(|value| value.fract() == 0.0).map(|value| value as i64),
        }
    }
}

fn json_bytes(value: &Json) -> u64 {
    match value {
        Json::String(text) => 2 + text.len() as u64,
        Json::Array(items) => 2 + items.iter().map(json_bytes).sum::<u64>(),
        Json::Object(fields) => {
            2 + fields.iter().map(|(key, value)| key.len() as u64 + 4 + json_bytes(value)).sum::<u64>()
        }
        _ => 4,
    }
}

/// One element as a double; `None` for complex ones.
pub fn double(dtype: DType, bytes: &[u8]) -> Option<f64> {
    Some(match dtype {
        DType::Bool | DType::U8 => f64::from(*bytes.first()?),
        DType::I8 => f64::from(i8::from_le_bytes(*bytes.first_chunk()?)),
        DType::I16 => f64::from(i16::from_le_bytes(*bytes.first_chunk()?)),
        DType::I32 => f64::from(i32::from_le_bytes(*bytes.first_chunk()?)),
        DType::I64 => i64::from_le_bytes(*bytes.first_chunk()?) as f64,
        DType::U16 => f64::from(u16::from_le_bytes(*bytes.first_chunk()?)),
        DType::U32 => f64::from(u32::from_le_bytes(*bytes.first_chunk()?)),
        DType::U64 => u64::from_le_bytes(*bytes.first_chunk()?) as f64,
        DType::F16 => f64::from(half_to_single(u16::from_le_bytes(*bytes.first_chunk()?))),
        DType::BF16 => f64::from(f32::from_bits(u32::from(u16::from_le_bytes(*bytes.first_chunk()?)) << 16)),
        DType::F32 => f64::from(f32::from_le_bytes(*bytes.first_chunk()?)),
        DType::F64 => f64::from_le_bytes(*bytes.first_chunk()?),
        DType::C64 | DType::C128 => return None,
    })
}

/// IEEE half precision, widened.
fn half_to_single(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff));
    match exponent {
        0 => sign * fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1024.0 + fraction) * 2f32.powi(exponent - 25),
    }
}

/// The name of a class: its number where it has none.
pub fn class_name(column: &Column, number: i64) -> String {
    let name = usize::try_from(number).ok().and_then(|number| column.class_names().get(number));
    name.cloned().unwrap_or_else(|| number.to_string())
}
