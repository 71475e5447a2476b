//! Cells as the Arrow type they have or came as: decimals, dates and times from numbers or text, lists in lists from
//! arrays, structs and maps from JSON. The way back of what
//! `foreign.rs` says.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal32Array, Decimal64Array, Decimal128Array, Decimal256Array, FixedSizeListArray,
    ListArray, StringArray, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit, i256};
use arrow::json::ReaderBuilder;
use lacus_sample::{Base, Column};
use lacus_tensor::DType;
use serde_json::{Value as Json, json};

use crate::cell::Cell;
use crate::counts;
use crate::numbers::{dtype_of, numbers, strict_cast};

/// Which engines shall read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Those that read Parquet.
    Parquet,
    /// Those that read Delta tables, which have no unsigned numbers.
    Delta,
}

/// Whether a column can go out as the type its values came as, to engines of a dialect.
pub(crate) fn fits(column: &Column, data_type: &DataType, dialect: Dialect) -> bool {
    let htype = column.htype();
    let is_text = htype.base == Base::Text;
    let is_known = match data_type {
        DataType::Duration(_) => {
            column.dtype() == Some(DType::I64) && column.shape() == Some(&[]) && !htype.sequence
        }
        DataType::List(_) | DataType::FixedSizeList(..) => {
            let (depth, leaf) = leaf(data_type);
            match dtype_of(leaf) {
                Some(dtype) => {
                    let own = column.shape().map(|shape| shape.len() + usize::from(htype.sequence));
                    htype.base == Base::Generic && column.dtype() == Some(dtype) && own == Some(depth)
                }
                None => htype.base == Base::Json || is_text && htype.sequence && depth == 1,
            }
        }
        DataType::Null | DataType::Struct(_) => htype.base == Base::Json && !htype.sequence,
        DataType::Map(entries, _) => match entries.data_type() {
            // The keys of JSON are text.
            DataType::Struct(fields) => {
                htype.base == Base::Json && !htype.sequence && fields[0].data_type() == &DataType::Utf8
            }
            _ => false,
        },
        _ => is_text && !htype.sequence,
    };
    is_known && (dialect == Dialect::Parquet || delta_has(data_type))
}

/// What Delta tables have without special features.
pub(crate) fn delta_has(data_type: &DataType) -> bool {
    match data_type {
        DataType::Decimal128(precision, scale) => *scale >= 0 && *scale as u8 <= *precision,
        DataType::Date32 => true,
        // Delta's timestamps are microseconds of UTC; those without a time zone are a feature that readers must know.
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => true,
        _ => false,
    }
}

fn leaf(data_type: &DataType) -> (usize, &DataType) {
    match data_type {
        DataType::List(of) | DataType::FixedSizeList(of, _) => {
            let (depth, leaf) = leaf(of.data_type());
            (depth + 1, leaf)
        }
        other => (0, other),
    }
}

/// An array of the type, or the first cell that does not fit and why.
pub(crate) fn array(data_type: &DataType, cells: &[Cell]) -> Result<ArrayRef, (usize, String)> {
    all(data_type, cells).map_err(|why| {
        // Which one it is, is looked for only now.
        let bad = |(row, cell): (usize, &Cell)| {
            all(data_type, std::slice::from_ref(cell)).err().map(|why| (row, why))
        };
        cells.iter().enumerate().find_map(bad).unwrap_or((0, why))
    })
}

fn all(data_type: &DataType, cells: &[Cell]) -> Result<ArrayRef, String> {
    match data_type {
        DataType::Duration(_) => counts::array(data_type, cells),
        DataType::Null => Ok(new_null_array(data_type, cells.len())),
        DataType::List(of) | DataType::FixedSizeList(of, _) => match dtype_of(leaf(data_type).1) {
            Some(dtype) => {
                let items: Vec<Item<'_>> = cells.iter().map(Item::of).collect::<Result<_, _>>()?;
                nested(data_type, dtype, &items)
            }
            None if cells.iter().any(|cell| matches!(cell, Cell::List(_))) => {
                in_lists(of.data_type(), data_type, cells)
            }
            None => from_json(data_type, cells),
        },
        DataType::Struct(_) | DataType::Map(..) => from_json(data_type, cells),
        _ if cells.iter().any(|cell| matches!(cell, Cell::Scalar(..))) => counts::array(data_type, cells),
        _ => from_texts(data_type, cells.iter().map(text)),
    }
}

fn text(cell: &Cell) -> Option<&str> {
    match cell {
        Cell::Text(text) => Some(text),
        _ => None,
    }
}

fn in_lists(of: &DataType, data_type: &DataType, cells: &[Cell]) -> Result<ArrayRef, String> {
    let items = |cell: &'_ Cell| match cell {
        Cell::List(items) => items.len(),
        _ => 0,
    };
    let present: Vec<bool> = cells.iter().map(|cell| matches!(cell, Cell::List(_))).collect();
    let flat: Vec<Cell> = cells
        .iter()
        .flat_map(|cell| match cell {
            Cell::List(items) => items.clone(),
            _ => Vec::new(),
        })
        .collect();
    let values = all(of, &flat)?;
    let element = Arc::new(Field::new("element", of.clone(), true));
    let offsets = OffsetBuffer::from_lengths(cells.iter().map(items));
    let lists = ListArray::try_new(element, offsets, values, Some(NullBuffer::from(present)));
    let lists: ArrayRef = Arc::new(lists.map_err(|error| error.to_string())?);
    match data_type {
        DataType::List(_) => Ok(lists),
        other => strict_cast(&lists, other),
    }
}

/// What Arrow reads from text. Decimals are read here: Arrow would round what has too many digits.
fn from_texts<'a>(
    data_type: &DataType,
    texts: impl Iterator<Item = Option<&'a str>>,
) -> Result<ArrayRef, String> {
    let (precision, scale) = match data_type {
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) => (*p, *s),
        DataType::Decimal128(p, s) | DataType::Decimal256(p, s) => (*p, *s),
        _ => {
            let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
            return strict_cast(&texts, data_type);
        }
    };
    let wrong = |text: &str| format!("{text:?} is not a decimal({precision}, {scale})");
    let values: Vec<Option<i256>> = texts
        .map(|text| text.map(|text| unscaled(text, precision, scale).ok_or_else(|| wrong(text))).transpose())
        .collect::<Result<_, _>>()?;
    let narrow = |value: &Option<i256>| value.and_then(i256::to_i128);
    let failed = |error: arrow::error::ArrowError| error.to_string();
    Ok(match data_type {
        DataType::Decimal32(..) => {
            let values: Decimal32Array = values.iter().map(|v| narrow(v).map(|v| v as i32)).collect();
            Arc::new(values.with_precision_and_scale(precision, scale).map_err(failed)?)
        }
        DataType::Decimal64(..) => {
            let values: Decimal64Array = values.iter().map(|v| narrow(v).map(|v| v as i64)).collect();
            Arc::new(values.with_precision_and_scale(precision, scale).map_err(failed)?)
        }
        DataType::Decimal128(..) => {
            let values: Decimal128Array = values.iter().map(narrow).collect();
            Arc::new(values.with_precision_and_scale(precision, scale).map_err(failed)?)
        }
        _ => {
            let values: Decimal256Array = values.into_iter().collect();
            Arc::new(values.with_precision_and_scale(precision, scale).map_err(failed)?)
        }
    })
}

/// The whole number that a decimal is, times ten to the scale; `None` if it has more digits than there is room for.
fn unscaled(text: &str, precision: u8, scale: i8) -> Option<i256> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number =
        (whole.len() + part.len()) > 0 && whole.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_digit());
    if !is_number {
        return None;
    }
    let part = part.trim_end_matches('0');
    let mut all = format!("{whole}{part}");
    let shift = i32::from(scale) - part.len() as i32;
    match shift >= 0 {
        true => all.extend(std::iter::repeat_n('0', shift as usize)),
        // Of a negative scale, or with more digits than the scale: only zeros may go.
        false => {
            for _ in 0..-shift {
                match all.pop() {
                    Some('0') | None => {}
                    Some(_) => return None,
                }
            }
        }
    }
    let all = all.trim_start_matches('0');
    if all.len() > usize::from(precision) {
        return None;
    }
    match all.is_empty() {
        true => Some(i256::ZERO),
        false => i256::from_string(&format!("{sign}{all}")),
    }
}

/// JSON values as Arrow's JSON reader takes them.
fn from_json(data_type: &DataType, cells: &[Cell]) -> Result<ArrayRef, String> {
    let schema = Arc::new(Schema::new(vec![Field::new("value", data_type.clone(), true)]));
    let wrong = |error: arrow::error::ArrowError| error.to_string();
    let builder = ReaderBuilder::new(schema).with_strict_mode(true).with_batch_size(cells.len().max(1));
    let mut decoder = builder.build_decoder().map_err(wrong)?;
    let row = |cell: &Cell| match cell {
        Cell::Json(value) => json!({"value": value}),
        _ => json!({"value": Json::Null}),
    };
    let rows: Vec<Json> = cells.iter().map(row).collect();
    decoder.serialize(&rows).map_err(wrong)?;
    match decoder.flush().map_err(wrong)? {
        Some(batch) => Ok(Arc::clone(batch.column(0))),
        None => Ok(new_null_array(data_type, 0)),
    }
}

/// A tensor, several, or nothing.
enum Item<'a> {
    Missing,
    Tensor(&'a [u64], &'a [u8]),
    Several(&'a [Cell]),
}

impl<'a> Item<'a> {
    fn of(cell: &'a Cell) -> Result<Item<'a>, String> {
        Ok(match cell {
            Cell::Missing => Item::Missing,
            Cell::List(cells) => Item::Several(cells),
            other => match other.elements() {
                Some((_, dims, bytes)) => Item::Tensor(dims, bytes),
                None => return Err("it is no array".to_owned()),
            },
        })
    }

    /// What lies along the first axis.
    fn inside(&self, size: usize, out: &mut Vec<Item<'a>>) -> Result<usize, String> {
        let before = out.len();
        match self {
            Item::Missing => out.extend((0..size).map(|_| Item::Missing)),
            Item::Several(cells) => {
                for cell in *cells {
                    out.push(Item::of(cell)?);
                }
            }
            Item::Tensor(dims, bytes) => {
                let (length, inner) = dims.split_first().ok_or("it is a number, not an array")?;
                let step = if *length == 0 { 0 } else { bytes.len() / *length as usize };
                let part = |i: usize| Item::Tensor(inner, &bytes[i * step..(i + 1) * step]);
                out.extend((0..*length as usize).map(part));
            }
        }
        Ok(out.len() - before)
    }

    fn is_missing(&self) -> bool {
        matches!(self, Item::Missing)
    }
}

fn nested(data_type: &DataType, dtype: DType, items: &[Item<'_>]) -> Result<ArrayRef, String> {
    let wrong = |error: arrow::error::ArrowError| error.to_string();
    let nulls = || NullBuffer::from(items.iter().map(|item| !item.is_missing()).collect::<Vec<bool>>());
    match data_type {
        DataType::List(of) => {
            let (mut inner, mut lengths) = (Vec::new(), Vec::with_capacity(items.len()));
            if let Some(width) = dtype_of(of.data_type()).map(DType::size_bytes) {
                let mut bytes = Vec::new();
                for item in items {
                    let found = elements_of(item)?;
                    lengths.push(found.len() / width);
                    bytes.extend_from_slice(found);
                }
                let values = numbers(dtype, &bytes, None)?;
                let offsets = OffsetBuffer::from_lengths(lengths);
                return Ok(Arc::new(
                    ListArray::try_new(Arc::clone(of), offsets, values, Some(nulls())).map_err(wrong)?,
                ));
            }
            for item in items {
                lengths.push(item.inside(0, &mut inner)?);
            }
            let values = nested(of.data_type(), dtype, &inner)?;
            let offsets = OffsetBuffer::from_lengths(lengths);
            Ok(Arc::new(ListArray::try_new(Arc::clone(of), offsets, values, Some(nulls())).map_err(wrong)?))
        }
        DataType::FixedSizeList(of, size) => {
            let length = usize::try_from(*size).unwrap_or(0);
            let uneven = |found: usize| format!("it has {found} items where lists of {length} belong");
            let values = match dtype_of(of.data_type()).map(DType::size_bytes) {
                Some(width) => {
                    let mut bytes = Vec::new();
                    for item in items {
                        match elements_of(item)? {
                            [] if item.is_missing() => bytes.resize(bytes.len() + length * width, 0),
                            found if found.len() == length * width => bytes.extend_from_slice(found),
                            found => return Err(uneven(found.len() / width)),
                        }
                    }
                    numbers(dtype, &bytes, None)?
                }
                None => {
                    let mut inner = Vec::new();
                    for item in items {
                        let found = item.inside(length, &mut inner)?;
                        if found != length {
                            return Err(uneven(found));
                        }
                    }
                    nested(of.data_type(), dtype, &inner)?
                }
            };
            let lists = FixedSizeListArray::try_new(Arc::clone(of), *size, values, Some(nulls()));
            Ok(Arc::new(lists.map_err(wrong)?))
        }
        other => Err(format!("{other} is no list")),
    }
}

fn elements_of<'a>(item: &Item<'a>) -> Result<&'a [u8], String> {
    match item {
        Item::Missing => Ok(&[]),
        Item::Tensor(dims, bytes) if dims.len() == 1 => Ok(bytes),
        Item::Tensor(dims, _) => Err(format!("it has {} axes where one belongs", dims.len())),
        Item::Several(_) => Err("it is a sequence where an array belongs".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_exactly_or_not_at_all() {
        let check = |text: &str, (precision, scale): (u8, i8), expected: Option<&str>| {
            let found = unscaled(text, precision, scale);
            assert_eq!(
                found.map(|value| value.to_string()).as_deref(),
                expected,
                "{text} {precision} {scale}"
            );
        };
        check("12.50", (10, 2), Some("1250"));
        check("-0.01", (3, 2), Some("-1"));
        check("12.5", (10, 2), Some("1250"));
        check("12.500", (10, 2), Some("1250"));
        check("12.505", (10, 2), None);
        check("+7", (1, 0), Some("7"));
        check("10", (1, 0), None);
        check("0", (1, 0), Some("0"));
        check("00.0", (1, 1), Some("0"));
        check("1200", (2, -2), Some("12"));
        check("1250", (3, -2), None);
        check("1e3", (5, 0), None);
        check("", (5, 0), None);
        check(".", (5, 0), None);
        let large = "9".repeat(76);
        check(&large, (76, 0), Some(&large));
        check(&large, (75, 0), None);
    }
}
