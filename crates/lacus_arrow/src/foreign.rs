//! What Arrow's types become as columns, and how their values are taken. The one place that decides it, for Parquet files and
//! for tables in memory alike.
//!
//! | Arrow | column | read as |
//! |---|---|---|
//! | booleans, integers, floats | scalars of the dtype | numbers |
//! | strings | `text` | text |
//! | dates, timestamps, times, durations | `date`, `timestamp`, `time`, `duration` | integers that mean such |
//! | decimals of up to 38 digits | `decimal` | exact numbers |
//! | other decimals | `text` | the exact text: `12.50` |
//! | lists of numbers | `generic`, one axis | arrays |
//! | fixed-size lists inside each other, or inside a list | `generic` of as many axes | arrays |
//! | lists of lists of numbers | `sequence[generic]` | lists of arrays, each of its own length |
//! | lists of strings | `sequence[text]` | lists of text |
//! | lists of dates, times, decimals | `sequence[date]` and so on | lists of them |
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

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use bytes::Bytes;
use lacus_media::Format;
use lacus_sample::{Column, ColumnSpec};
use lacus_tensor::{DType, MAX_RANK};
use serde_json::{Value as Json, json};

use crate::counts;
use crate::mapping::{EXTENSION_METADATA, EXTENSION_NAME, FIXED_SHAPE, Mapping, VARIABLE_SHAPE};
use crate::note::{ARROW_KEY, Note, kept};
use crate::numbers::{dtype_of, list_item, values_type};

/// How the values of a field become cells.
#[derive(Clone, Debug, PartialEq)]
pub enum Take {
    /// As a scan gave them.
    Ours(Mapping),
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
    /// Bytes.
    Media,
    /// The binary `bytes` of a struct.
    MediaStruct,
    /// Lists of this depth, as one tensor of these sizes.
    Tensor(DType, Vec<Option<u64>>),
    /// A list of lists of this depth, each a tensor.
    Tensors(DType, usize),
    /// Elements, with their shapes in the field of this name.
    Flat(DType, String),
    /// Outlines.
    Polygons(DType),
    /// A list of texts.
    Texts,
    /// A list of files.
    Files,
    /// A list of structs with `bytes`.
    FileStructs,
}

impl Take {
    /// The name of the field that holds the shapes, where another one does.
    pub fn shape_column(&self) -> Option<&str> {
        match self {
            Take::Flat(_, name) => Some(name),
            _ => None,
        }
    }
}

/// What a field becomes.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The column to make.
    pub spec: ColumnSpec,
    /// How its values are taken.
    pub take: Take,
    /// The metadata of the column.
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

fn generic(dtype: DType, shape: Vec<Option<u64>>) -> ColumnSpec {
    ColumnSpec { dtype: Some(dtype), shape: Some(shape), ..ColumnSpec::default() }
}

fn typed(htype: &str) -> ColumnSpec {
    ColumnSpec { htype: Some(htype.to_owned()), ..ColumnSpec::default() }
}

/// A column of labels with these names.
pub fn label_spec(names: Vec<String>) -> ColumnSpec {
    let mut spec = typed("class_label");
    spec.options.insert("class_names".to_owned(), json!(names));
    spec
}

/// What a field becomes: one of ours what it was, another what its type, `hint` (which is Hugging Face's) and its first rows say.
/// `None` if it belongs to another field. Fails with why it cannot be taken, and what would help.
pub fn taken(
    field: &Field,
    schema: &Schema,
    hint: Option<&Json>,
    first: impl FnOnce() -> Result<Vec<ArrayRef>, String>,
) -> Result<Option<Taken>, String> {
    let known = match Note::of(field) {
        Note::Companion => return Ok(None),
        Note::Column { spec, shape_column, metadata } => {
            ours(&spec, shape_column, field, schema).map(|take| Taken { spec: *spec, take, metadata })
        }
        Note::None => None,
    };
    match known {
        Some(taken) => Ok(Some(taken)),
        None => foreign(field, hint, &first()?).map(Some),
    }
}

/// How a field of ours is taken; `None` if it is not as we write it.
fn ours(spec: &ColumnSpec, shape_column: Option<String>, field: &Field, schema: &Schema) -> Option<Take> {
    let htype = spec.htype.as_deref()?;
    let dtype = spec.dtype.unwrap_or(DType::F64);
    if shape_column.is_none()
        && let Ok(mapping) =
            Column::new(spec).map_err(|_| ()).and_then(|c| Mapping::of(&c, None).map_err(|_| ()))
        && mapping.is_of(field.data_type())
    {
        return Some(Take::Ours(mapping));
    }
    if let Some(name) = shape_column {
        return schema.index_of(&name).is_ok().then_some(Take::Flat(dtype, name));
    }
    Some(match htype {
        "text" => Take::Text,
        "json" | "list" | "tag" => match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Take::JsonText,
            _ => Take::Nested,
        },
        "image" | "image.gray" | "audio" | "video" | "dicom" | "bytes" => Take::Media,
        "sequence[text]" => Take::Texts,
        "sequence[generic]" => Take::Tensors(dtype, spec.shape.as_ref()?.len()),
        "polygon" => Take::Polygons(dtype),
        // Another type of date or time than we wrote: what it is now is not what it was.
        "date" | "timestamp" | "time" | "duration" | "decimal" => return None,
        other if counts::is_sequence_of_counts(other) => return None,
        other if other.starts_with("sequence[") => Take::Files,
        _ => match spec.shape.as_deref() {
            Some([]) => Take::Scalar(dtype),
            Some(shape) => Take::Tensor(dtype, shape.to_vec()),
            _ => return None,
        },
    })
}

/// What a field of somebody else's becomes. `hint` is what Hugging Face says of it, `first` are its first rows.
/// Fails with why it cannot be taken, and what would help.
fn foreign(field: &Field, hint: Option<&Json>, first: &[ArrayRef]) -> Result<Taken, String> {
    let data_type = values_type(field.data_type());
    if let Some(taken) = hinted(field, hint.unwrap_or(&Json::Null), &data_type, first)? {
        return Ok(taken);
    }
    if let Some(dtype) = dtype_of(&data_type) {
        return Ok(Taken::new(generic(dtype, Vec::new()), Take::Scalar(dtype)));
    }
    if let Some((spec, data_type)) = counts::spec_of(&data_type) {
        return Ok(Taken::new(spec, Take::Ours(Mapping::Logical(data_type))));
    }
    Ok(match &data_type {
        DataType::Utf8 if extension(field) == Some("arrow.json") => Taken::new(typed("json"), Take::JsonText),
        DataType::Utf8 => Taken::new(typed("text"), Take::Text),
        _ if is_texted(&data_type) => Taken::new(typed("text"), Take::Text).came_as(&data_type),
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
    if let Some((spec, element)) = counts::spec_of(&of) {
        let htype = spec.htype.as_deref().map(|htype| format!("sequence[{htype}]"));
        let several = Mapping::Sequence(Box::new(Mapping::Logical(element)));
        return Ok(Taken::new(ColumnSpec { htype, ..spec }, Take::Ours(several)));
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
    if extension(field) == Some(VARIABLE_SHAPE) {
        return variable_shape(field, data_type).map(Some);
    }
    if let Some(shape) = tensor_shape(field, hint)? {
        let (sizes, leaf) = depth(data_type);
        let Some(dtype) = dtype_of(&leaf) else { return Err(refused(data_type)) };
        let is_flat = extension(field) == Some(FIXED_SHAPE);
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
        return Ok(Some(Taken::new(label_spec(names), Take::Label)));
    }
    let item = items_of(data_type).map(|(of, _)| of);
    let of_integers = item.as_ref().is_some_and(DataType::is_integer);
    if let Some(names) = names(in_list).filter(|_| is(in_list, "ClassLabel") && of_integers) {
        let spec = ColumnSpec { shape: Some(vec![None]), ..label_spec(names) };
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

fn extension(field: &Field) -> Option<&str> {
    field.metadata().get(EXTENSION_NAME).map(String::as_str)
}

/// The shape that an extension type, or Hugging Face, declares.
fn tensor_shape(field: &Field, hint: &Json) -> Result<Option<Vec<Option<u64>>>, String> {
    let note = extension_note(field);
    let is_array = |name: &str| {
        name.strip_prefix("Array").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let shape = match extension(field).map(|name| name.rsplit('.').next().unwrap_or(name)) {
        Some("fixed_shape_tensor") => {
            refuse_permuted(&note)?;
            note["shape"].clone()
        }
        Some(name) if is_array(name) => note[0].clone(),
        _ if hint["_type"].as_str().is_some_and(is_array) => hint["shape"].clone(),
        _ => return Ok(None),
    };
    sizes_of(&shape).map(Some)
}

fn sizes_of(shape: &Json) -> Result<Vec<Option<u64>>, String> {
    let size = |size: &Json| match size {
        Json::Null => Some(None),
        other => other.as_u64().map(Some),
    };
    let sizes: Option<Vec<Option<u64>>> = shape.as_array().and_then(|all| all.iter().map(size).collect());
    sizes.ok_or_else(|| format!("its shape {shape} is no list of sizes"))
}

fn extension_note(field: &Field) -> Json {
    let text = field.metadata().get(EXTENSION_METADATA);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn refuse_permuted(note: &Json) -> Result<(), String> {
    let in_order = |order: &Vec<Json>| order.iter().enumerate().all(|(i, axis)| *axis == json!(i));
    match note["permutation"].as_array().is_none_or(in_order) {
        true => Ok(()),
        false => Err("the axes of its tensors are permuted: store them in C order first".to_owned()),
    }
}

/// Tensors of as many axes, in Arrow's own type for them.
fn variable_shape(field: &Field, data_type: &DataType) -> Result<Taken, String> {
    let note = extension_note(field);
    refuse_permuted(&note)?;
    let DataType::Struct(fields) = data_type else { return Err(refused(data_type)) };
    let of = |name: &str| fields.iter().find(|field| field.name() == name).map(|field| field.data_type());
    let dtype = of("data").and_then(items_of).and_then(|(of, _)| dtype_of(&of));
    let axes = of("shape").and_then(items_of).and_then(|(_, size)| size);
    let (Some(dtype), Some(axes)) = (dtype, axes) else { return Err(refused(data_type)) };
    let shape = match &note["uniform_shape"] {
        Json::Null => vec![None; axes as usize],
        sizes => sizes_of(sizes)?,
    };
    let mapping = Mapping::Ragged { dtype, shape: shape.clone() };
    match mapping.is_of(data_type) {
        true => Ok(Taken::new(generic(dtype, shape), Take::Ours(mapping))),
        false => Err(refused(data_type)),
    }
}

/// What bytes are, by the first of them: files of a family, or bytes that nobody looks into.
fn media(first: Option<Bytes>, wrapper: &str) -> Result<ColumnSpec, String> {
    let Some(first) = first else {
        return Err("its first rows have no bytes that show what it holds: drop the column, or put a row with a value first"
            .to_owned());
    };
    let spec = match lacus_media::sniff(&first).map(Format::family) {
        Some(family) => typed(&family.to_string()),
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
