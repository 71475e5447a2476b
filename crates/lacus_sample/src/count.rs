//! Samples of dates, times and decimals as the integers that rows hold, or as texts for decimals of many digits.
//!
//! | given | dates, times, durations | decimals |
//! |---|---|---|
//! | text | ISO 8601 | a decimal number |
//! | an integer | the count itself | the value |
//! | a float | refused | the value, by the fewest digits that say it |

use std::borrow::Cow;

use lacus_tensor::{DType, Shape, TensorRef};
use serde_json::Value as Json;

use crate::column::Column;
use crate::elements::{Elements, doubles};
use crate::error::SampleError;
use crate::logical::Logical;
use crate::options::brief;
use crate::sample::Sample;

/// The integer of a sample, as elements of the column's dtype.
pub(crate) fn counted(
    column: &Column,
    logical: &Logical,
    sample: Sample<'_>,
) -> Result<Elements<'static>, SampleError> {
    let found = sample.describe();
    let count = match (given(sample), logical) {
        (Some(Given::Text(text)), _) => {
            let refused = |expected| column.misfit(expected, brief(&Json::String(text.to_string())));
            logical.count(&text).map_err(refused)?
        }
        (Some(Given::Int(number)), Logical::Decimal { .. }) => {
            let refused = || column.misfit(logical.expected(), number.to_string());
            logical.count(&number.to_string()).map_err(|_| refused())?
        }
        (Some(Given::Int(number)), _) => i64::try_from(number)
            .ok()
            .filter(|count| logical.holds(*count))
            .ok_or_else(|| column.misfit(logical.expected(), number.to_string()))?,
        (Some(Given::Float(text)), Logical::Decimal { .. }) => {
            logical.count(&text).map_err(|expected| column.misfit(expected, text))?
        }
        _ => return Err(column.misfit(logical.expected(), found)),
    };
    let dtype = column.known_dtype()?;
    let bytes = match dtype {
        // Its range was checked.
        DType::I32 => (count as i32).to_le_bytes().to_vec(),
        _ => count.to_le_bytes().to_vec(),
    };
    Ok(Elements { dtype, shape: Shape::default(), bytes: Cow::Owned(bytes) })
}

/// The text that a row holds of a decimal with many digits.
pub(crate) fn wide_decimal(
    column: &Column,
    logical: &Logical,
    sample: Sample<'_>,
) -> Result<String, SampleError> {
    let found = sample.describe();
    let text = match given(sample) {
        Some(Given::Text(text)) => text.into_owned(),
        Some(Given::Int(number)) => number.to_string(),
        Some(Given::Float(text)) => text,
        None => return Err(column.misfit(logical.expected(), found)),
    };
    match logical.unscaled(&text) {
        Some(unscaled) => Ok(logical.decimal_text(unscaled)),
        None => Err(column.misfit(logical.expected(), brief(&Json::String(text)))),
    }
}

/// What somebody may give for one of these.
enum Given<'a> {
    Text(Cow<'a, str>),
    Int(i128),
    /// The fewest digits that say it.
    Float(String),
}

fn given(sample: Sample<'_>) -> Option<Given<'_>> {
    match sample {
        Sample::Text(text) => Some(Given::Text(text)),
        Sample::Json(Json::String(text)) => Some(Given::Text(Cow::Owned(text))),
        Sample::Json(Json::Number(number)) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => Some(Given::Int(int.into())),
            (_, Some(int)) => Some(Given::Int(int.into())),
            _ => number.as_f64().map(|number| Given::Float(number.to_string())),
        },
        Sample::Tensor(tensor) if tensor.shape().rank() == 0 => of_tensor(&tensor),
        _ => None,
    }
}

fn of_tensor(tensor: &TensorRef<'_>) -> Option<Given<'static>> {
    let elements = Elements::of(tensor);
    let bytes = &elements.bytes[..];
    Some(match elements.dtype {
        DType::U64 => Given::Int(u64::from_le_bytes(*bytes.first_chunk()?).into()),
        DType::I64 => Given::Int(i64::from_le_bytes(*bytes.first_chunk()?).into()),
        DType::F32 => Given::Float(f32::from_le_bytes(*bytes.first_chunk()?).to_string()),
        dtype if dtype.is_integer() => Given::Int(doubles(dtype, bytes).next()? as i128),
        dtype if dtype.is_float() => Given::Float(doubles(dtype, bytes).next()?.to_string()),
        _ => return None,
    })
}
