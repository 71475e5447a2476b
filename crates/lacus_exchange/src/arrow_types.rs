//! What Arrow's types become as columns, and how their values are taken. The one place that decides it, for Parquet files and
//! for tables in memory alike.
//!
//! | Arrow | column | read as |
//! |---|---|---|
//! | booleans, integers, floats | scalars of the dtype | numbers |
//! | strings | `text` | text |
//! | decimals, dates, times, timestamps | `text` | the exact text: `12.50`, `2026-01-31`, `2026-01-31T08:30:00.000001Z` |
//! | durations | int64 scalars | how many of their unit |
//! | lists of numbers | `generic`, one axis | arrays |
//! | fixed-size lists inside each other, or inside a list | `generic` of as many axes | arrays |
//! | lists of lists of numbers | `sequence[generic]` | lists of arrays, each of its own length |
//! | lists of strings, decimals, dates, times | `sequence[text]` | lists of text |
//! | binaries, structs with `bytes` and `path` | media, if the first one is of a known format | |
//! | lists of those | `sequence[image]`, `sequence[audio]` | |
//! | structs, maps, lists of them, nulls | `json` | dicts and lists |
//! | dictionaries, run-end encoded | as their values | |
//! | `Array2D` … `Array5D` of Hugging Face, `arrow.fixed_shape_tensor` | `generic` of that shape | arrays |
//! | `ClassLabel` of Hugging Face, also in lists | `class_label` | numbers with names; -1 is missing |
//!
//! Intervals and unions are refused, and so is a null among the numbers of a list, since arrays have none. Where the column
//! alone does not say which Arrow type it was, the type is kept in the column's metadata under [`ARROW_KEY`]; exports
//! give it back.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use bytes::Bytes;
use lacus_dataset::ColumnSpec;
use lacus_media::Format;
use lacus_tensor::{DType, MAX_RANK};
use serde_json::{Value as Json, json};

use crate::arrow_numbers::{dtype_of, list_item};
use crate::folder::{label_column, media_column};

/// The key of a column's metadata that names the Arrow type its values came as.
pub(crate) const ARROW_KEY: &str = "arrow";

/// How the values of a field become cells.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Take {
    /// Numbers, cast to the dtype.
    Scalar(DType),
    /// Numbers of classes; negative ones are missing.
    Label,
    /// The same in lists.
    Labels,
    /// Text, or what Arrow writes as text without losing anything.
    Text,
    /// Text that is JSON.
    JsonText,
    /// Structs, maps, lists.
    Nested,
    Media,
    /// The binary `bytes` of a struct.
    MediaStruct,
    /// Lists of this depth, as one tensor of these sizes.
    Tensor(DType, Vec<Option<u64>>),
    /// A list of lists of this depth, each a tensor.
    Tensors(DType, usize),
    /// Elements, with their shapes in the field of this name.
    Flat(DType, String),
    Polygons(DType),
    Texts,
    Files,
    FileStructs,
}

/// What a field becomes.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub spec: ColumnSpec,
    pub take: Take,
    pub metadata: Option<Json>,
}

impl Taken {
    fn new(spec: ColumnSpec, take: Take) -> Taken {
        Taken { spec, take, metadata: None }
    }

    /// With the type that its values came as.
    fn came_as(self, data_type: &DataType) -> Taken {
        let text = kept(data_type).to_string();
        // A type whose text is not understood again is not worth a note.
        let readable = text.parse::<DataType>().is_ok_and(|parsed| parsed == kept(data_type));
        Taken { metadata: readable.then(|| json!({ARROW_KEY: text})), ..self }
    }
}

/// The Arrow type that a column's metadata names.
pub(crate) fn came_as(metadata: Option<&Json>) -> Option<DataType> {
    metadata?.get(ARROW_KEY)?.as_str()?.parse().ok()
}

fn generic(dtype: DType, shape: Vec<Option<u64>>) -> ColumnSpec {
    ColumnSpec { dtype: Some(dtype), shape: Some(shape), ..ColumnSpec::default() }
}

fn typed(htype: &str) -> ColumnSpec {
    ColumnSpec { htype: Some(htype.to_owned()), ..ColumnSpec::default() }
}

/// What a field of somebody else's becomes. `hint` is what Hugging Face says of it, `first` are its first rows.
/// Fails with why it cannot be taken, and what would help.
pub(crate) fn foreign(field: &Field, hint: Option<&Json>, first: &[ArrayRef]) -> Result<Taken, String> {
    let data_type = values_type(field.data_type());
    if let Some(taken) = hinted(field, hint.unwrap_or(&Json::Null), &data_type, first)? {
        return Ok(taken);
    }
    if let Some(dtype) = dtype_of(&data_type) {
        return Ok(Taken::new(generic(dtype, Vec::new()), Take::Scalar(dtype)));
    }
    Ok(match &data_type {
        DataType::Utf8 if extension(field) == Some("arrow.json") => Taken::new(typed("json"), Take::JsonText),
        DataType::Utf8 => Taken::new(typed("text"), Take::Text),
        _ if is_texted(&data_type) => Taken::new(typed("text"), Take::Text).came_as(&data_type),
        DataType::Duration(_) => {
            Taken::new(generic(DType::I64, Vec::new()), Take::Scalar(DType::I64)).came_as(&data_type)
        }
        DataType::Binary | DataType::FixedSizeBinary(_) => {
            let spec = media(first.iter().find_map(|column| some(column, binary)), "")?;
            Taken::new(spec, Take::Media)
        }
        DataType::Struct(fields) if is_file(fields) => {
            let spec = media(first.iter().find_map(|column| some(column, struct_bytes)), "")?;
            Taken::new(spec, Take::MediaStruct)
        }
        DataType::List(_) | DataType::FixedSizeList(..) => list(&data_type, first)?,
        DataType::Null | DataType::Struct(_) | DataType::Map(..) => {
            has_json(&data_type)?;
            Taken::new(typed("json"), Take::Nested).came_as(&data_type)
        }
        other => return Err(refused(other)),
    })
}

/// A list of something.
fn list(data_type: &DataType, first: &[ArrayRef]) -> Result<Taken, String> {
    let Some((of, _)) = items_of(data_type) else { return Err(refused(data_type)) };
    let (sizes, leaf) = depth(data_type);
    if let Some(dtype) = dtype_of(&leaf) {
        if sizes.len() > MAX_RANK {
            return Err(format!(
                "lists {} deep are deeper than the {MAX_RANK} axes of an array",
                sizes.len()
            ));
        }
        let is_plain = matches!(data_type, DataType::List(_)) && sizes.len() == 1;
        // Inside of a list, only lists of a fixed size are sure to be of the same length.
        let taken = match sizes[1..].iter().all(Option::is_some) {
            true => Taken::new(generic(dtype, sizes.clone()), Take::Tensor(dtype, sizes)),
            false => {
                let spec = ColumnSpec {
                    htype: Some("sequence[generic]".to_owned()),
                    ..generic(dtype, sizes[1..].to_vec())
                };
                Taken::new(spec, Take::Tensors(dtype, sizes.len() - 1))
            }
        };
        return Ok(if is_plain { taken } else { taken.came_as(data_type) });
    }
    Ok(match of {
        DataType::Utf8 => Taken::new(typed("sequence[text]"), Take::Texts),
        _ if is_texted(&of) => Taken::new(typed("sequence[text]"), Take::Texts).came_as(data_type),
        DataType::Binary | DataType::FixedSizeBinary(_) => {
            let found = first.iter().find_map(|lists| some_item(lists, binary));
            Taken::new(media(found, "sequence")?, Take::Files)
        }
        DataType::Struct(fields) if is_file(&fields) => {
            let found = first.iter().find_map(|lists| some_item(lists, struct_bytes));
            Taken::new(media(found, "sequence")?, Take::FileStructs)
        }
        _ => {
            has_json(data_type)?;
            Taken::new(typed("json"), Take::Nested).came_as(data_type)
        }
    })
}

/// What Hugging Face, or a known extension type, says of a field beyond its Arrow type.
fn hinted(
    field: &Field,
    hint: &Json,
    data_type: &DataType,
    first: &[ArrayRef],
) -> Result<Option<Taken>, String> {
    if let Some(shape) = tensor_shape(field, hint)? {
        let (sizes, leaf) = depth(data_type);
        let Some(dtype) = dtype_of(&leaf) else { return Err(refused(data_type)) };
        let is_flat = extension(field) == Some(FIXED_SHAPE_TENSOR);
        if !is_flat && sizes.len() != shape.len() {
            let (found, wanted) = (sizes.len(), shape.len());
            return Err(format!(
                "it is declared as an array of {wanted} axes, but its lists are {found} deep"
            ));
        }
        let taken = Taken::new(generic(dtype, shape.clone()), Take::Tensor(dtype, shape));
        return Ok(Some(if is_flat { taken } else { taken.came_as(data_type) }));
    }
    let in_list = hint.get("feature").or_else(|| hint.get(0)).unwrap_or(&Json::Null);
    let is = |hint: &Json, name: &str| hint["_type"] == name;
    let names = |hint: &Json| -> Option<Vec<String>> {
        hint["names"].as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
    };
    if let Some(names) = names(hint).filter(|_| is(hint, "ClassLabel") && data_type.is_integer()) {
        return Ok(Some(Taken::new(label_column("", names).spec, Take::Label)));
    }
    let item = items_of(data_type).map(|(of, _)| of);
    let of_integers = item.as_ref().is_some_and(DataType::is_integer);
    if let Some(names) = names(in_list).filter(|_| is(in_list, "ClassLabel") && of_integers) {
        let spec = ColumnSpec { shape: Some(vec![None]), ..label_column("", names).spec };
        return Ok(Some(Taken::new(spec, Take::Labels)));
    }
    // The kind of media is known also where the first rows have none.
    let family = |hint: &Json| {
        [("Image", "image"), ("Audio", "audio"), ("Video", "video")]
            .into_iter()
            .find(|(name, _)| is(hint, name))
            .map(|(_, htype)| htype)
    };
    let has_none = !first.iter().any(|column| some(column, struct_bytes).is_some());
    match (family(hint), data_type) {
        (Some(htype), DataType::Struct(fields)) if is_file(fields) && has_none => {
            Ok(Some(Taken::new(typed(htype), Take::MediaStruct)))
        }
        _ => Ok(None),
    }
}

const FIXED_SHAPE_TENSOR: &str = "arrow.fixed_shape_tensor";

fn extension(field: &Field) -> Option<&str> {
    field.metadata().get("ARROW:extension:name").map(String::as_str)
}

/// The shape that an extension type, or Hugging Face, declares.
fn tensor_shape(field: &Field, hint: &Json) -> Result<Option<Vec<Option<u64>>>, String> {
    let note: Json = field
        .metadata()
        .get("ARROW:extension:metadata")
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let is_array = |name: &str| {
        name.strip_prefix("Array").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let shape = match extension(field).map(|name| name.rsplit('.').next().unwrap_or(name)) {
        Some("fixed_shape_tensor") => {
            let order = note["permutation"].as_array();
            let in_order = |order: &Vec<Json>| order.iter().enumerate().all(|(i, axis)| *axis == json!(i));
            if !order.is_none_or(in_order) {
                return Err("the axes of its tensors are permuted: store them in C order first".to_owned());
            }
            note["shape"].clone()
        }
        Some(name) if is_array(name) => note[0].clone(),
        _ if hint["_type"].as_str().is_some_and(is_array) => hint["shape"].clone(),
        _ => return Ok(None),
    };
    let size = |size: &Json| match size {
        Json::Null => Some(None),
        other => other.as_u64().map(Some),
    };
    let sizes: Option<Vec<Option<u64>>> = shape.as_array().and_then(|all| all.iter().map(size).collect());
    sizes.map(Some).ok_or_else(|| format!("its shape {shape} is no list of sizes"))
}

/// What bytes are, by the first of them: files of a family, or bytes that nobody looks into.
fn media(first: Option<Bytes>, wrapper: &str) -> Result<ColumnSpec, String> {
    let Some(first) = first else {
        return Err("its first rows have no bytes that show what it holds: drop the column, or put a row with a value first"
            .to_owned());
    };
    let spec = match lacus_media::sniff(&first).map(Format::family) {
        Some(family) => media_column("", family).spec,
        None => typed("bytes"),
    };
    Ok(match (wrapper, &spec.htype) {
        ("sequence", Some(htype)) => ColumnSpec { htype: Some(format!("sequence[{htype}]")), ..spec },
        _ => spec,
    })
}

fn refused(data_type: &DataType) -> String {
    format!(
        "Lacus has no column for {data_type}: cast it to numbers, text or a list of them first, or drop it"
    )
}

/// Types whose values Arrow writes as text, and reads again without loss.
fn is_texted(data_type: &DataType) -> bool {
    data_type.is_decimal()
        || matches!(
            data_type,
            DataType::Date32
                | DataType::Date64
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Timestamp(..)
        )
}

/// Hugging Face's files: bytes, and where they came from.
fn is_file(fields: &Fields) -> bool {
    let is_bytes = |field: &FieldRef| field.name() == "bytes" && *field.data_type() == DataType::Binary;
    let is_known = |field: &FieldRef| ["bytes", "path"].contains(&field.name().as_str());
    fields.iter().any(is_bytes) && fields.iter().all(is_known)
}

/// Whether JSON can say all that a type can hold.
fn has_json(data_type: &DataType) -> Result<(), String> {
    match data_type {
        DataType::Null | DataType::Utf8 | DataType::Duration(_) => Ok(()),
        other if dtype_of(other).is_some() || is_texted(other) => Ok(()),
        DataType::List(of) | DataType::FixedSizeList(of, _) => has_json(of.data_type()),
        DataType::Map(entries, _) => has_json(entries.data_type()),
        DataType::Struct(fields) => fields.iter().try_for_each(|field| {
            has_json(field.data_type()).map_err(|why| match why.strip_prefix("its field ") {
                Some(inner) => format!("its field \"{}.{}", field.name(), inner.trim_start_matches('"')),
                None => format!("its field {:?}: {why}", field.name()),
            })
        }),
        DataType::Binary | DataType::FixedSizeBinary(_) => {
            Err("JSON has no bytes: give them a column of their own, or drop them".to_owned())
        }
        other => Err(refused(other)),
    }
}

/// How deep lists are, with the sizes of those that have one, and what is in the innermost.
fn depth(data_type: &DataType) -> (Vec<Option<u64>>, DataType) {
    let mut sizes = Vec::new();
    let mut of = data_type.clone();
    while let Some((inner, size)) = items_of(&of) {
        sizes.push(size);
        of = inner;
    }
    (sizes, of)
}

fn items_of(data_type: &DataType) -> Option<(DataType, Option<u64>)> {
    match data_type {
        DataType::List(of) => Some((of.data_type().clone(), None)),
        DataType::FixedSizeList(of, size) => Some((of.data_type().clone(), u64::try_from(*size).ok())),
        _ => None,
    }
}

/// The plain type of the same values, all the way down: no dictionaries, runs, views or wide offsets.
pub(crate) fn values_type(data_type: &DataType) -> DataType {
    let inside = |field: &Field| -> FieldRef {
        let name = field.name().clone();
        Arc::new(Field::new(name, values_type(field.data_type()), field.is_nullable()))
    };
    match data_type {
        DataType::Dictionary(_, of) => values_type(of),
        DataType::RunEndEncoded(_, of) => values_type(of.data_type()),
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        DataType::List(of)
        | DataType::LargeList(of)
        | DataType::ListView(of)
        | DataType::LargeListView(of) => DataType::List(inside(of)),
        DataType::FixedSizeList(of, size) => DataType::FixedSizeList(inside(of), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| inside(field)).collect()),
        DataType::Map(entries, sorted) => DataType::Map(inside(entries), *sorted),
        other => other.clone(),
    }
}

/// The type as it is noted: everything that may be missing may be, and items of lists are called `element`.
fn kept(data_type: &DataType) -> DataType {
    let element = |of: &Field| Arc::new(Field::new("element", kept(of.data_type()), true));
    match data_type {
        DataType::List(of) => DataType::List(element(of)),
        DataType::FixedSizeList(of, size) => DataType::FixedSizeList(element(of), *size),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|f| Field::new(f.name(), kept(f.data_type()), true)).collect())
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                let key = Field::new("key", kept(fields[0].data_type()), false);
                let value = Field::new("value", kept(fields[1].data_type()), true);
                let entries = DataType::Struct(vec![key, value].into());
                DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
            }
            _ => data_type.clone(),
        },
        other => other.clone(),
    }
}

/// The first value that is not null.
fn some(array: &ArrayRef, get: fn(&ArrayRef, usize) -> Option<Bytes>) -> Option<Bytes> {
    (0..array.len()).find_map(|row| get(array, row))
}

fn some_item(lists: &ArrayRef, get: fn(&ArrayRef, usize) -> Option<Bytes>) -> Option<Bytes> {
    (0..lists.len()).filter_map(|row| list_item(lists, row)).find_map(|items| some(&items, get))
}

/// The bytes of a row of a plain binary column.
pub(crate) fn binary(array: &ArrayRef, row: usize) -> Option<Bytes> {
    if array.is_null(row) {
        return None;
    }
    let bytes = match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().value(row),
        DataType::LargeBinary => array.as_binary::<i64>().value(row),
        DataType::BinaryView => array.as_binary_view().value(row),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(row),
        _ => return None,
    };
    Some(Bytes::copy_from_slice(bytes))
}

/// The `bytes` of a row of structs.
pub(crate) fn struct_bytes(array: &ArrayRef, row: usize) -> Option<Bytes> {
    if array.is_null(row) {
        return None;
    }
    binary(array.as_struct_opt()?.column_by_name("bytes")?, row)
}
