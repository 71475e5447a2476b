//! Rows of an answer: as an aligned table for people, as JSON and CSV for programs.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use lacus::arrow::{Cell, elements, list_item, plain_values, sample_cells};
use lacus::tensor::DType;
use serde_json::{Map, Value as Json, json};

use crate::commands::head::{Shown, brief, missing, shape_text};
use crate::failure::Failure;
use crate::numbers;
use crate::output::{Side, columns, size};

/// Elements of a tensor that programs get; larger ones are told by their shape.
const MOST: u64 = 1000;

/// The cells of a batch, column by column.
pub(crate) fn batch_cells(batch: &RecordBatch) -> Result<Vec<Vec<Shown>>, Failure> {
    let schema = batch.schema();
    let of = |(field, array): (&std::sync::Arc<Field>, &ArrayRef)| {
        cells(field, array).map_err(|why| Failure::invalid(why).about(field.name()))
    };
    schema.fields().iter().zip(batch.columns()).map(of).collect()
}

/// A table with a line for the names; columns of numbers keep to the right.
pub(crate) fn table_text(names: &[String], batches: &[Vec<Vec<Shown>>]) -> String {
    let mut sides = vec![Side::Right; names.len()];
    let mut lines = vec![names.to_vec()];
    for batch in batches {
        let rows = batch.first().map_or(0, Vec::len);
        for (side, column) in sides.iter_mut().zip(batch) {
            if column.iter().any(|cell| !(cell.json.is_number() || cell.json.is_null())) {
                *side = Side::Left;
            }
        }
        lines.extend((0..rows).map(|row| batch.iter().map(|column| column[row].text.clone()).collect()));
    }
    columns(&sides, &lines)
}

/// The same with a line for each value, for tables that are wider than the screen.
pub(crate) fn expanded_text(names: &[String], batches: &[Vec<Vec<Shown>>]) -> String {
    let (mut text, mut number) = (String::new(), 0);
    for batch in batches {
        for row in 0..batch.first().map_or(0, Vec::len) {
            number += 1;
            let lines: Vec<Vec<String>> = names
                .iter()
                .zip(batch)
                .map(|(name, column)| vec![name.clone(), column[row].text.clone()])
                .collect();
            text.push_str(&format!("-- row {number}\n{}", columns(&[Side::Left, Side::Left], &lines)));
        }
    }
    text
}

/// A row for programs.
pub(crate) fn row_json(names: &[String], batch: &[Vec<Shown>], row: usize) -> Json {
    let cells = names.iter().zip(batch).map(|(name, column)| (name.clone(), column[row].json.clone()));
    Json::Object(cells.collect::<Map<_, _>>())
}

/// A line of values, as RFC 4180 has it.
pub(crate) fn csv_line<'a>(values: impl Iterator<Item = &'a Json>) -> String {
    let value = |value: &Json| match value {
        Json::Null => String::new(),
        Json::String(text) => csv_text(text),
        other => csv_text(&other.to_string()),
    };
    let values: Vec<String> = values.map(value).collect();
    format!("{}\r\n", values.join(","))
}

fn csv_text(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn cells(field: &Field, array: &ArrayRef) -> Result<Vec<Shown>, String> {
    match sample_cells(field, array)? {
        Some(cells) => Ok(cells.iter().map(sample).collect()),
        None => plain(&plain_values(array)?),
    }
}

fn sample(cell: &Cell) -> Shown {
    match cell {
        Cell::Missing => missing(),
        Cell::Scalar(dtype, bytes) => number(*dtype, &bytes[..dtype.size_bytes()]),
        Cell::Tensor(tensor) => {
            let (dtype, dims) = (tensor.dtype(), tensor.shape().dims());
            let json = match dims.iter().product::<u64>() <= MOST {
                true => nested(dtype, dims, tensor.bytes()),
                false => json!({"dtype": dtype.name(), "shape": dims}),
            };
            Shown { text: format!("{} {}", dtype.name(), shape_text(dims)), json }
        }
        Cell::Text(value) => text(value),
        Cell::Json(value) => Shown { text: brief(&value.to_string()), json: value.clone() },
        Cell::Media(bytes) => media(bytes),
        Cell::List(cells) => listed(cells.iter().map(sample).collect()),
    }
}

fn plain(array: &ArrayRef) -> Result<Vec<Shown>, String> {
    let each = |value: &dyn Fn(usize) -> Result<Shown, String>| -> Result<Vec<Shown>, String> {
        (0..array.len()).map(|row| if array.is_null(row) { Ok(missing()) } else { value(row) }).collect()
    };
    if let Some((dtype, bytes)) = elements(array) {
        let item = dtype.size_bytes();
        return each(&|row| Ok(number(dtype, &bytes[row * item..(row + 1) * item])));
    }
    match array.data_type() {
        DataType::Null => each(&|_| Ok(missing())),
        DataType::Utf8 => each(&|row| Ok(text(array.as_string::<i32>().value(row)))),
        DataType::Binary => each(&|row| Ok(media(array.as_binary::<i32>().value(row)))),
        DataType::List(item) | DataType::FixedSizeList(item, _) => each(&|row| match list_item(array, row) {
            Some(items) => cells(item, &items).map(listed),
            None => Ok(missing()),
        }),
        DataType::Struct(fields) => {
            let parts = fields.iter().zip(array.as_struct().columns());
            let parts = parts.map(|(field, part)| cells(field, part)).collect::<Result<Vec<_>, _>>()?;
            each(&|row| {
                let values = fields
                    .iter()
                    .zip(&parts)
                    .map(|(field, part)| (field.name().clone(), part[row].json.clone()));
                let json = Json::Object(values.collect());
                Ok(Shown { text: brief(&json.to_string()), json })
            })
        }
        _ => {
            let texts = ArrayFormatter::try_new(array, &FormatOptions::default())
                .map_err(|error| error.to_string())?;
            each(&|row| {
                texts.value(row).try_to_string().map(|value| text(&value)).map_err(|error| error.to_string())
            })
        }
    }
}

fn text(value: &str) -> Shown {
    Shown { text: brief(value), json: json!(value) }
}

fn number(dtype: DType, bytes: &[u8]) -> Shown {
    Shown { text: numbers::text(dtype, bytes), json: numbers::json(dtype, bytes) }
}

fn media(bytes: &[u8]) -> Shown {
    let format = lacus::media::sniff(bytes).map_or("bytes", |format| format.name());
    let length = bytes.len() as u64;
    Shown { text: format!("{format} {}", size(length)), json: json!({"format": format, "bytes": length}) }
}

fn listed(all: Vec<Shown>) -> Shown {
    let texts: Vec<&str> = all.iter().map(|shown| shown.text.as_str()).collect();
    Shown {
        text: brief(&format!("[{}]", texts.join(", "))),
        json: all.into_iter().map(|shown| shown.json).collect(),
    }
}

/// A tensor as lists inside each other.
fn nested(dtype: DType, dims: &[u64], bytes: &[u8]) -> Json {
    match dims {
        [] => numbers::json(dtype, bytes),
        [0, ..] => json!([]),
        [count, inner @ ..] => {
            let step = bytes.len() / *count as usize;
            let part =
                |place: u64| nested(dtype, inner, &bytes[place as usize * step..(place as usize + 1) * step]);
            (0..*count).map(part).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, ListArray, StringArray};
    use arrow::datatypes::{Int64Type, Schema};

    use super::*;

    fn batch() -> RecordBatch {
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None]), None]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(vec![Some("a, \"b\""), None])),
            Arc::new(Int64Array::from(vec![Some(7), None])),
            Arc::new(Float64Array::from(vec![0.1, f64::NAN])),
            Arc::new(lists),
        ];
        let fields = ["name", "n", "x", "l"].iter().zip(&columns);
        let fields: Vec<Field> =
            fields.map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
    }

    #[test]
    fn rows_for_people_and_programs() {
        let names = ["name", "n", "x", "l"].map(str::to_owned);
        let cells = batch_cells(&batch()).unwrap();
        let expected = "name    n  x    l\na, \"b\"  7  0.1  [1, -]\n-       -  nan  -\n";
        assert_eq!(table_text(&names, &[cells]), expected);
        let cells = batch_cells(&batch()).unwrap();
        assert_eq!(
            row_json(&names, &cells, 0),
            json!({"name": "a, \"b\"", "n": 7, "x": 0.1, "l": [1, null]})
        );
        let line = |row: usize| csv_line(cells.iter().map(|column| &column[row].json));
        assert_eq!(line(0), "\"a, \"\"b\"\"\",7,0.1,\"[1,null]\"\r\n");
        assert_eq!(line(1), ",,nan,\r\n");
        assert!(expanded_text(&names, &[cells]).starts_with("-- row 1\nname  a, \"b\"\nn     7\n"));
    }

    #[test]
    fn tensors_are_lists_in_lists() {
        let bytes: Vec<u8> = (0..6i16).flat_map(i16::to_le_bytes).collect();
        assert_eq!(nested(DType::I16, &[2, 3], &bytes), json!([[0, 1, 2], [3, 4, 5]]));
        assert_eq!(nested(DType::I16, &[2, 0], &[]), json!([[], []]));
    }
}
