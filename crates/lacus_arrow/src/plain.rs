//! Samples as plain Arrow columns that any engine reads, and what of a column they cannot say.
//!
//! | sample | Arrow |
//! |---|---|
//! | a scalar | its type (halves as float32) |
//! | a class | its number, and its name in `<column>_name` |
//! | text | string |
//! | a date, a decimal, a time, a duration | the same; strings in Delta tables, except for dates, decimals and microseconds of UTC |
//! | JSON, lists, tags | string |
//! | media | binary |
//! | an array of one axis | list |
//! | any other array | list of its elements in C order, and its shape in `<column>_shape` |
//! | polygons | list of outlines, each a list of points, each a list of numbers |
//! | sequences of texts, of pictures or sound | list of strings, list of binary |
//!
//! Sequences of arrays of a known number of axes are lists of lists. Columns that came from Arrow go out as the type they came
//! as, where that is another one: decimals, dates, times, durations, structs, maps, lists in lists. Sequences of other
//! things and complex numbers have no plain form. What else a column is stands in the metadata of its field, under
//! `lacus`: our own import makes the same column of it again.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryBuilder, ListArray, ListBuilder, StringBuilder};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use lacus_sample::{Base, Column};
use lacus_tensor::DType;
use serde_json::{Value as Json, json};

use crate::cell::{Cell, class_name};
use crate::counts::type_of;
use crate::logical::{self, Dialect};
use crate::note::{FIELD_KEY, came_as, describe};
use crate::numbers::{arrow_type, dtype_of, numbers};

/// How a column becomes Arrow columns.
#[derive(Clone, Debug, PartialEq)]
pub enum Plain {
    /// A number.
    Scalar(DType),
    /// A number, and the name that stands for it.
    Class(DType),
    /// Text.
    Text,
    /// Bytes.
    Media,
    /// A list of numbers.
    List(DType),
    /// Elements, with the shape beside them.
    Flat(DType),
    /// Outlines.
    Polygons(DType),
    /// A list of texts.
    Texts,
    /// A list of files.
    Files,
    /// The type that its values came as.
    Logical(DataType),
}

impl Plain {
    /// The plain form of a column; fails with why there is none.
    pub fn of(column: &Column, metadata: Option<&Json>, dialect: Dialect) -> Result<Plain, String> {
        let htype = column.htype();
        if let Some(logical) = column.logical() {
            let data_type = type_of(logical);
            return Ok(
                match (dialect == Dialect::Parquet || logical::delta_has(&data_type), htype.sequence) {
                    (true, false) => Plain::Logical(data_type),
                    (true, true) => Plain::Logical(list_of(data_type)),
                    (false, false) => Plain::Text,
                    (false, true) => Plain::Texts,
                },
            );
        }
        if let Some(data_type) = came_as(metadata)
            && logical::fits(column, &data_type, dialect)
        {
            return Ok(Plain::Logical(data_type));
        }
        let media = [Base::Image, Base::ImageGray, Base::Video, Base::Audio, Base::Dicom, Base::Bytes]
            .contains(&htype.base);
        let text = matches!(htype.base, Base::Text | Base::Json | Base::List | Base::Tag);
        let dtype = || match column.dtype() {
            Some(dtype) if dtype.is_complex() => Err(format!("{dtype} has no plain form")),
            Some(dtype) => Ok(dtype),
            // No sample has come yet.
            None => Ok(DType::F64),
        };
        if htype.sequence {
            return match htype.base {
                Base::Text => Ok(Plain::Texts),
                Base::Image | Base::ImageGray | Base::Audio | Base::Bytes => Ok(Plain::Files),
                Base::Generic if column.shape().is_some_and(|shape| !shape.is_empty()) => {
                    let number = plain_type(dtype()?, dialect);
                    if dtype_of(&number) != column.dtype() {
                        return Err(format!("{htype} of {} has no plain form", dtype()?));
                    }
                    let rank = column.shape().map_or(0, <[_]>::len);
                    Ok(Plain::Logical((0..=rank).fold(number, |inner, _| list_of(inner))))
                }
                _ => Err(format!("{htype} has no plain form")),
            };
        }
        Ok(match column.shape() {
            _ if media => Plain::Media,
            _ if text => Plain::Text,
            _ if htype.base == Base::Polygon => Plain::Polygons(dtype()?),
            Some([]) if htype.base == Base::ClassLabel && !column.class_names().is_empty() => {
                Plain::Class(dtype()?)
            }
            Some([]) => Plain::Scalar(dtype()?),
            Some([_]) => Plain::List(dtype()?),
            _ => Plain::Flat(dtype()?),
        })
    }

    fn data_type(&self, dialect: Dialect) -> DataType {
        match self {
            Plain::Scalar(dtype) | Plain::Class(dtype) => plain_type(*dtype, dialect),
            Plain::Text => DataType::Utf8,
            Plain::Media => DataType::Binary,
            Plain::List(dtype) | Plain::Flat(dtype) => list_of(plain_type(*dtype, dialect)),
            Plain::Polygons(dtype) => list_of(list_of(list_of(plain_type(*dtype, dialect)))),
            Plain::Texts => list_of(DataType::Utf8),
            Plain::Files => list_of(DataType::Binary),
            Plain::Logical(data_type) => data_type.clone(),
        }
    }
}

fn element(of: DataType) -> FieldRef {
    Arc::new(Field::new("element", of, true))
}

fn list_of(of: DataType) -> DataType {
    DataType::List(element(of))
}

/// The type that engines know.
fn plain_type(dtype: DType, dialect: Dialect) -> DataType {
    match (dtype, dialect) {
        (DType::F16 | DType::BF16, _) => DataType::Float32,
        (DType::U8, Dialect::Delta) => DataType::Int16,
        (DType::U16, Dialect::Delta) => DataType::Int32,
        (DType::U32, Dialect::Delta) => DataType::Int64,
        (DType::U64, Dialect::Delta) => DataType::Decimal128(20, 0),
        _ => arrow_type(dtype),
    }
}

/// The fields of a column.
pub fn plain_fields(
    name: &str,
    column: &Column,
    metadata: Option<&Json>,
    plain: &Plain,
    dialect: Dialect,
) -> Vec<Field> {
    let main = Field::new(name, plain.data_type(dialect), true);
    let note = |note: Json| HashMap::from([(FIELD_KEY.to_owned(), note.to_string())]);
    let of_main =
        describe(column, metadata, matches!(plain, Plain::Flat(_)).then(|| format!("{name}_shape")));
    let mut fields = vec![main.with_metadata(note(of_main))];
    let companion = |field: Field| field.with_metadata(note(json!({"of": name})));
    match plain {
        Plain::Flat(_) => {
            fields.push(companion(Field::new(format!("{name}_shape"), list_of(DataType::Int64), true)))
        }
        Plain::Class(_) => fields.push(companion(Field::new(format!("{name}_name"), DataType::Utf8, true))),
        _ => {}
    }
    fields
}

/// The Arrow columns of some samples, as many as there are fields. Fails with why, and which sample it is, if it is one.
pub fn plain_arrays(
    column: &Column,
    plain: &Plain,
    dialect: Dialect,
    cells: &[Cell],
) -> Result<Vec<ArrayRef>, (Option<usize>, String)> {
    if let Plain::Logical(data_type) = plain {
        let array = logical::array(data_type, cells).map_err(|(row, why)| {
            (Some(row), format!("it came as {data_type} and is none any more: {why}"))
        })?;
        return Ok(vec![array]);
    }
    all_arrays(column, plain, dialect, cells).map_err(|why| (None, why))
}

fn all_arrays(
    column: &Column,
    plain: &Plain,
    dialect: Dialect,
    cells: &[Cell],
) -> Result<Vec<ArrayRef>, String> {
    let wrong = |error: arrow::error::ArrowError| error.to_string();
    Ok(match plain {
        Plain::Scalar(dtype) | Plain::Class(dtype) => {
            let mut bytes = Vec::with_capacity(cells.len() * dtype.size_bytes());
            let present: Vec<bool> = cells.iter().map(|cell| cell.elements().is_some()).collect();
            for cell in cells {
                match cell.elements() {
                    Some((_, _, element)) => bytes.extend_from_slice(element),
                    None => bytes.extend(std::iter::repeat_n(0, dtype.size_bytes())),
                }
            }
            let values = numbers(*dtype, &bytes, Some(NullBuffer::from(present)))?;
            let mut all = vec![cast(&values, &plain_type(*dtype, dialect)).map_err(wrong)?];
            if matches!(plain, Plain::Class(_)) {
                let mut names = StringBuilder::new();
                for cell in cells {
                    names.append_option(cell.as_int().map(|number| class_name(column, number)));
                }
                all.push(Arc::new(names.finish()));
            }
            all
        }
        Plain::Text => {
            let mut texts = StringBuilder::new();
            for cell in cells {
                match cell {
                    Cell::Text(text) => texts.append_value(text),
                    Cell::Json(value) => texts.append_value(value.to_string()),
                    other => texts.append_option(other.logical_text(column)),
                }
            }
            vec![Arc::new(texts.finish())]
        }
        Plain::Media => {
            let mut files = BinaryBuilder::new();
            for cell in cells {
                match cell {
                    Cell::Media(bytes) => files.append_value(bytes),
                    _ => files.append_null(),
                }
            }
            vec![Arc::new(files.finish())]
        }
        Plain::List(dtype) => vec![flat(*dtype, dialect, cells)?],
        Plain::Flat(dtype) => {
            let mut shapes =
                ListBuilder::new(arrow::array::Int64Builder::new()).with_field(element(DataType::Int64));
            for cell in cells {
                match cell.elements() {
                    Some((_, dims, _)) => shapes.append_value(dims.iter().map(|size| Some(*size as i64))),
                    None => shapes.append_null(),
                }
            }
            vec![flat(*dtype, dialect, cells)?, Arc::new(shapes.finish())]
        }
        Plain::Polygons(dtype) => vec![polygons(*dtype, dialect, cells)?],
        Plain::Texts => {
            let mut lists = ListBuilder::new(StringBuilder::new()).with_field(element(DataType::Utf8));
            for cell in cells {
                let Cell::List(items) = cell else {
                    lists.append_null();
                    continue;
                };
                for item in items {
                    match item {
                        Cell::Text(text) => lists.values().append_value(text),
                        other => lists.values().append_option(other.logical_text(column)),
                    }
                }
                lists.append(true);
            }
            vec![Arc::new(lists.finish())]
        }
        Plain::Files => {
            let mut lists = ListBuilder::new(BinaryBuilder::new()).with_field(element(DataType::Binary));
            for cell in cells {
                let Cell::List(items) = cell else {
                    lists.append_null();
                    continue;
                };
                for item in items {
                    match item {
                        Cell::Media(bytes) => lists.values().append_value(bytes),
                        _ => lists.values().append_null(),
                    }
                }
                lists.append(true);
            }
            vec![Arc::new(lists.finish())]
        }
        Plain::Logical(data_type) => vec![logical::array(data_type, cells).map_err(|(_, why)| why)?],
    })
}

/// The elements of each sample as a list.
fn flat(dtype: DType, dialect: Dialect, cells: &[Cell]) -> Result<ArrayRef, String> {
    let mut bytes = Vec::new();
    let mut lengths = Vec::with_capacity(cells.len());
    let mut present = Vec::with_capacity(cells.len());
    for cell in cells {
        let found = cell.elements();
        present.push(found.is_some());
        let (_, _, elements) = found.unwrap_or((dtype, &[], &[]));
        lengths.push(elements.len() / dtype.size_bytes());
        bytes.extend_from_slice(elements);
    }
    let to = plain_type(dtype, dialect);
    let values = cast(&numbers(dtype, &bytes, None)?, &to).map_err(|error| error.to_string())?;
    list(values, to, &lengths, Some(present))
}

/// Lists of these lengths. More elements than 32 bits count are an error.
fn list(
    values: ArrayRef,
    of: DataType,
    lengths: &[usize],
    present: Option<Vec<bool>>,
) -> Result<ArrayRef, String> {
    if i32::try_from(values.len()).is_err() {
        return Err(format!("{} elements are too many for one batch of lists", values.len()));
    }
    let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
    let lists = ListArray::try_new(element(of), offsets, values, present.map(NullBuffer::from));
    Ok(Arc::new(lists.map_err(|error| error.to_string())?))
}

fn polygons(dtype: DType, dialect: Dialect, cells: &[Cell]) -> Result<ArrayRef, String> {
    let (mut bytes, mut coordinates, mut points, mut outlines) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let present: Vec<bool> = cells.iter().map(|cell| matches!(cell, Cell::List(_))).collect();
    for cell in cells {
        let Cell::List(found) = cell else {
            outlines.push(0);
            continue;
        };
        outlines.push(found.len());
        for outline in found {
            let Some((_, &[count, width], elements)) = outline.elements() else {
                return Err("an outline that is no list of points".to_owned());
            };
            points.push(count as usize);
            coordinates.extend(std::iter::repeat_n(width as usize, count as usize));
            bytes.extend_from_slice(elements);
        }
    }
    let to = plain_type(dtype, dialect);
    let values = cast(&numbers(dtype, &bytes, None)?, &to).map_err(|error| error.to_string())?;
    let values = list(values, to.clone(), &coordinates, None)?;
    let values = list(values, list_of(to.clone()), &points, None)?;
    list(values, list_of(list_of(to)), &outlines, Some(present))
}
