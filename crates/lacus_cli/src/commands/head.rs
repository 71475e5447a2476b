//! `lacus head`: the first rows, a line each. Media and arrays are told by their headers; none is decoded.

use lacus::dataset::{Base, Batch, Column, Dataset, Value};
use lacus::sample::Form;
use lacus::tensor::{DType, Shape};
use serde_json::{Map, Value as Json, json};

use super::Context;
use crate::args::HeadArgs;
use crate::failure::Failure;
use crate::numbers;
use crate::output::{Side, columns, size};

/// Characters of a text that are shown.
const WIDEST: usize = 40;

/// What is shown of a sample: for people, and for programs.
pub(crate) struct Shown {
    pub text: String,
    pub json: Json,
}

pub(crate) async fn run(context: &Context, args: HeadArgs) -> Result<(), Failure> {
    let (dataset, view) = context.open_view(&args.dataset.url, &args.version, args.view.as_deref()).await?;
    let names = match (args.columns, &view) {
        (Some(names), _) => names,
        (None, Some(view)) => view.columns(),
        (None, None) => dataset.column_names(),
    };
    if names.is_empty() {
        return Err(Failure::invalid("there are no columns, so there are no rows")
            .hint("`lacus ls` lists the tensors, `lacus get` shows one"));
    }
    let rows: Vec<u64> = match &view {
        Some(view) => view.positions(&(0..args.rows.min(view.len())).collect::<Vec<_>>()).await?,
        None => (0..args.rows.min(dataset.len().await?)).collect(),
    };
    let mut shown = Vec::with_capacity(names.len());
    for name in &names {
        shown.push(samples(&dataset, name, &rows).await?);
    }
    let in_row = |row: usize| -> Json {
        let cells = names.iter().zip(&shown).map(|(name, column)| (name.clone(), column[row].json.clone()));
        Json::Object(cells.collect::<Map<_, _>>())
    };
    context.output.result(
        || (0..rows.len()).map(in_row).collect(),
        || {
            let mut lines =
                vec![std::iter::once("ROW".to_owned()).chain(names.iter().cloned()).collect::<Vec<_>>()];
            for (place, row) in rows.iter().enumerate() {
                let cells = shown.iter().map(|column| column[place].text.clone());
                lines.push(std::iter::once(row.to_string()).chain(cells).collect());
            }
            let mut sides = vec![Side::Left; names.len() + 1];
            sides[0] = Side::Right;
            columns(&sides, &lines)
        },
    )
}

/// Samples of a column, told without decoding any.
pub(crate) async fn samples(dataset: &Dataset, name: &str, rows: &[u64]) -> Result<Vec<Shown>, Failure> {
    let column = dataset.column(name)?;
    if column.htype().link {
        return links(dataset, name, rows).await;
    }
    if column.form() != Form::Blob {
        let values = match dataset.read(name, rows, &[]).await? {
            Batch::Values(values) => values,
            Batch::Stacked(tensor) => {
                let item = tensor.dtype().size_bytes();
                let one = |bytes: &[u8]| of_scalar(&column, tensor.dtype(), bytes);
                return Ok(tensor.bytes().chunks_exact(item).map(one).collect());
            }
        };
        return Ok(values
            .iter()
            .map(|value| value.as_ref().map_or_else(missing, |v| of_value(&column, v)))
            .collect());
    }
    let shapes = dataset.shapes(name, rows).await?;
    let media = [Base::Image, Base::ImageGray, Base::Video, Base::Audio, Base::Dicom];
    if !media.contains(&column.htype().base) || column.htype().sequence {
        let array = |shape: Option<Vec<u64>>| shape.map_or_else(missing, |shape| of_array(&column, &shape));
        return Ok(shapes.into_iter().map(array).collect());
    }
    let files = dataset.stored_bytes(name, rows).await;
    let mut shown = Vec::with_capacity(rows.len());
    for (place, shape) in shapes.into_iter().enumerate() {
        let bytes = files.as_ref().ok().and_then(|files| files[place].as_ref());
        shown.push(match (shape, bytes) {
            (None, _) => missing(),
            (Some(shape), Some(bytes)) if lacus::media::sniff(bytes).is_some() => {
                let format = lacus::media::sniff(bytes).map_or("", |format| format.name());
                let length = bytes.len() as u64;
                Shown {
                    text: format!("{format} {} {}", shape_text(&shape), size(length)),
                    json: json!({"format": format, "shape": shape, "bytes": length}),
                }
            }
            (Some(shape), _) => of_array(&column, &shape),
        });
    }
    Ok(shown)
}

/// Links as they are: they may lead where nobody allowed to look.
async fn links(dataset: &Dataset, name: &str, rows: &[u64]) -> Result<Vec<Shown>, Failure> {
    let axis = dataset.table().rows().await?;
    let ids: Vec<u64> = rows.iter().filter_map(|row| axis.id(*row)).collect();
    let texts = dataset.table().read_texts(name, &ids).await?;
    let link = |text: String| Shown { text: brief(&text), json: json!(text) };
    Ok(texts.into_iter().map(|text| text.map_or_else(missing, link)).collect())
}

pub(crate) fn missing() -> Shown {
    Shown { text: "-".to_owned(), json: Json::Null }
}

fn of_value(column: &Column, value: &Value) -> Shown {
    match value {
        Value::Tensor(tensor) if tensor.shape().rank() == 0 => {
            of_scalar(column, tensor.dtype(), tensor.bytes())
        }
        Value::Tensor(tensor) => of_array(column, tensor.shape().dims()),
        Value::Text(text) | Value::Link(text) => Shown { text: brief(text), json: json!(text) },
        Value::Bytes(bytes) => {
            let length = bytes.len() as u64;
            Shown { text: size(length), json: json!({"bytes": length}) }
        }
        Value::Json(value) => Shown { text: brief(&value.to_string()), json: value.clone() },
        Value::Sequence(values) => {
            let all: Vec<Shown> = values.iter().map(|value| of_value(column, value)).collect();
            let texts: Vec<&str> = all.iter().map(|shown| shown.text.as_str()).collect();
            Shown {
                text: brief(&format!("[{}]", texts.join(", "))),
                json: all.into_iter().map(|shown| shown.json).collect(),
            }
        }
    }
}

fn of_scalar(column: &Column, dtype: DType, bytes: &[u8]) -> Shown {
    let json = numbers::json(dtype, bytes);
    if let (Some(logical), Some(count)) = (column.logical(), json.as_i64()) {
        let text = logical.text(count);
        return Shown { json: json!(text), text };
    }
    let name = json.as_u64().and_then(|number| column.class_names().get(usize::try_from(number).ok()?));
    match name {
        Some(name) => Shown { text: brief(name), json: json!(name) },
        None => Shown { text: numbers::text(dtype, bytes), json },
    }
}

fn of_array(column: &Column, shape: &[u64]) -> Shown {
    let htype = column.htype();
    let what = match (htype.sequence, column.dtype()) {
        (true, _) => htype.to_string(),
        (false, _) if matches!(htype.base, Base::Polygon | Base::Bytes) => htype.to_string(),
        (false, dtype) => dtype.map_or_else(|| htype.to_string(), |dtype| dtype.name().to_owned()),
    };
    Shown { text: format!("{what} {}", shape_text(shape)), json: json!({"dtype": what, "shape": shape}) }
}

pub(crate) fn shape_text(shape: &[u64]) -> String {
    Shape::new(shape).map_or_else(|_| format!("{shape:?}"), |shape| shape.to_string())
}

/// A text on one line, cut if it is long.
pub(crate) fn brief(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.char_indices().nth(WIDEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
