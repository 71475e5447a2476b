//! Dates, timestamps, times, durations and decimals in Arrow: integers with a meaning on both sides.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, PrimitiveArray};
use arrow::datatypes::{DataType, Decimal128Type, DecimalType, Int32Type, Int64Type, TimeUnit};
use lacus_sample::{ColumnSpec, Logical, Unit};
use lacus_tensor::DType;
use serde_json::json;

use crate::cell::Cell;
use crate::numbers::strict_cast;

/// The most digits that a decimal column has.
const MOST_DIGITS: u8 = 38;

/// The Arrow type of what a column's integers mean.
pub(crate) fn type_of(logical: &Logical) -> DataType {
    match logical {
        Logical::Date => DataType::Date32,
        Logical::Timestamp { unit, timezone } => DataType::Timestamp(arrow_unit(*unit), timezone.clone()),
        Logical::Time { unit: unit @ (Unit::Second | Unit::Millisecond) } => {
            DataType::Time32(arrow_unit(*unit))
        }
        Logical::Time { unit } => DataType::Time64(arrow_unit(*unit)),
        Logical::Duration { unit } => DataType::Duration(arrow_unit(*unit)),
        Logical::Decimal { precision, scale } => DataType::Decimal128(*precision, *scale as i8),
    }
}

fn arrow_unit(unit: Unit) -> TimeUnit {
    match unit {
        Unit::Second => TimeUnit::Second,
        Unit::Millisecond => TimeUnit::Millisecond,
        Unit::Microsecond => TimeUnit::Microsecond,
        Unit::Nanosecond => TimeUnit::Nanosecond,
    }
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => Unit::Second,
        TimeUnit::Millisecond => Unit::Millisecond,
        TimeUnit::Microsecond => Unit::Microsecond,
        TimeUnit::Nanosecond => Unit::Nanosecond,
    }
    .name()
}

/// The column for values of an Arrow type, and the type they have there; `None` if it is no date, time or decimal that columns
/// have.
pub(crate) fn spec_of(data_type: &DataType) -> Option<(ColumnSpec, DataType)> {
    let spec = |htype: &str, options: serde_json::Value| ColumnSpec {
        htype: Some(htype.to_owned()),
        options: options.as_object().cloned().unwrap_or_default(),
        ..ColumnSpec::default()
    };
    Some(match data_type {
        DataType::Date32 | DataType::Date64 => (spec("date", json!({})), DataType::Date32),
        DataType::Timestamp(unit, timezone) => {
            let options = match timezone {
                Some(timezone) => json!({"unit": unit_name(*unit), "timezone": **timezone}),
                None => json!({"unit": unit_name(*unit)}),
            };
            (spec("timestamp", options), data_type.clone())
        }
        DataType::Time32(unit) | DataType::Time64(unit) => {
            (spec("time", json!({"unit": unit_name(*unit)})), data_type.clone())
        }
        DataType::Duration(unit) => (spec("duration", json!({"unit": unit_name(*unit)})), data_type.clone()),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            let digits = u8::try_from(*scale).ok().filter(|scale| scale <= precision)?;
            if *precision > MOST_DIGITS {
                return None;
            }
            let options = json!({"precision": precision, "scale": digits});
            (spec("decimal", options), DataType::Decimal128(*precision, *scale))
        }
        _ => return None,
    })
}

/// Whether a type of column is a sequence of these.
pub(crate) fn is_sequence_of_counts(htype: &str) -> bool {
    ["date", "timestamp", "time", "duration", "decimal"]
        .iter()
        .any(|base| htype.strip_prefix("sequence[").and_then(|rest| rest.strip_suffix(']')) == Some(base))
}

/// The dtype of a column's integers for an Arrow type; `None` if it is none of these.
pub(crate) fn dtype_of(data_type: &DataType) -> Option<DType> {
    Some(match data_type {
        DataType::Date32 => DType::I32,
        DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_) => {
            DType::I64
        }
        DataType::Decimal128(..) => DType::I64,
        _ => return None,
    })
}

/// Integers as what they mean. Those of 64 bits, and of 32 bits for dates.
pub(crate) fn of_numbers(data_type: &DataType, numbers: &ArrayRef) -> Result<ArrayRef, String> {
    match data_type {
        DataType::Decimal128(precision, scale) => {
            let unscaled =
                numbers.as_primitive_opt::<Int64Type>().ok_or("they are no integers of 64 bits")?;
            // Whoever wrote them was asked, but stored numbers are never trusted.
            let most = 10i128.pow(u32::from(*precision));
            let is_beyond = |value: i64| i128::from(value).abs() >= most;
            if let Some(beyond) = unscaled.iter().flatten().find(|value| is_beyond(*value)) {
                return Err(format!("{beyond} has more than {precision} digits"));
            }
            let wide: Decimal128Array = unscaled.unary(i128::from);
            let decimals = wide.with_precision_and_scale(*precision, *scale);
            decimals.map(|decimals| Arc::new(decimals) as ArrayRef).map_err(|error| error.to_string())
        }
        DataType::Time32(_) => strict_cast(&strict_cast(numbers, &DataType::Int32)?, data_type),
        _ => strict_cast(numbers, data_type),
    }
}

/// Samples that are integers, or missing, as what they mean.
pub(crate) fn array(data_type: &DataType, cells: &[Cell]) -> Result<ArrayRef, String> {
    let mut counts = Vec::with_capacity(cells.len());
    for cell in cells {
        counts.push(match cell {
            Cell::Missing => None,
            other => Some(other.as_int().ok_or("it is no integer")?),
        });
    }
    let numbers: ArrayRef = match data_type {
        DataType::Date32 => {
            let days = counts.iter().map(|count| count.map(i32::try_from).transpose());
            let days: Result<PrimitiveArray<Int32Type>, _> = days.collect();
            Arc::new(days.map_err(|_| "it is a day that 32 bits do not count")?)
        }
        _ => Arc::new(counts.into_iter().collect::<PrimitiveArray<Int64Type>>()),
    };
    of_numbers(data_type, &numbers)
}

/// The samples of an array: integers, and for decimals their exact text, since an integer given for a decimal is its value.
pub(crate) fn cells(data_type: &DataType, array: &ArrayRef) -> Result<Vec<Result<Cell, String>>, String> {
    let Some(dtype) = dtype_of(data_type) else { return Err(format!("{data_type} is taken otherwise")) };
    let array = match array.data_type() == data_type {
        true => Arc::clone(array),
        false => strict_cast(array, data_type)?,
    };
    let each = |cell: &dyn Fn(usize) -> Cell| -> Vec<Result<Cell, String>> {
        (0..array.len()).map(|row| Ok(if array.is_null(row) { Cell::Missing } else { cell(row) })).collect()
    };
    Ok(match data_type {
        DataType::Decimal128(precision, scale) => {
            let decimals = array.as_primitive_opt::<Decimal128Type>().ok_or("they are no decimals")?;
            let text = |row: usize| Decimal128Type::format_decimal(decimals.value(row), *precision, *scale);
            each(&|row| Cell::Text(text(row)))
        }
        DataType::Date32 => {
            let days = strict_cast(&array, &DataType::Int32)?;
            let days = days.as_primitive_opt::<Int32Type>().ok_or("they are no days")?;
            each(&|row| Cell::scalar(dtype, &days.value(row).to_le_bytes()))
        }
        DataType::Time32(_) => {
            let counts = strict_cast(&array, &DataType::Int32)?;
            let counts = counts.as_primitive_opt::<Int32Type>().ok_or("they are no times")?;
            each(&|row| Cell::int(counts.value(row).into()))
        }
        _ => {
            let counts = strict_cast(&array, &DataType::Int64)?;
            let counts = counts.as_primitive_opt::<Int64Type>().ok_or("they are no times")?;
            each(&|row| Cell::int(counts.value(row)))
        }
    })
}
