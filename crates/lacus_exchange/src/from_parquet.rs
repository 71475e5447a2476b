//! Parquet comes in: typed columns, and our own ones as what they were.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;
use lacus_dataset::{ColumnSpec, Dataset};
use lacus_media::Format;
use lacus_tensor::DType;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use serde_json::Value as Json;

use crate::cell::Cell;
use crate::error::ExchangeError;
use crate::folder::{entries, label_column, media_column};
use crate::importer::{Feed, NewColumn, import};
use crate::names::column_names;
use crate::options::{ImportOptions, Report};
use crate::plain::{Note, arrow_type, dtype_of, elements, list_item};

/// Rows decoded together: few, since each may hold a picture.
const ROWS: usize = 1024;

/// Imports a Parquet file, or a directory of them with one schema. Numbers become scalars of their dtype, strings and
/// times text, lists of numbers arrays of one axis, lists of strings sequences of text, binaries (also in Hugging Face's
/// structs with `bytes`) media if the first one is of a known format. Nulls stay missing. What
/// [`to_parquet`](crate::to_parquet) wrote becomes the columns it was made of.
///
/// Fails as [`ImportOptions::on_error`] says for columns that nothing can be made of and for rows that do not fit.
pub async fn from_parquet(
    dataset: &mut Dataset,
    source: &Path,
    options: &ImportOptions,
) -> Result<Report, ExchangeError> {
    let source = source.to_owned();
    import(dataset, options, move |feed| read(feed, &source)).await
}

/// How the values of a field become cells.
#[derive(Clone, Debug)]
enum Take {
    /// Numbers, cast to the dtype.
    Scalar(DType),
    Text,
    Json,
    Media,
    /// The binary `bytes` of a struct.
    MediaStruct,
    List(DType),
    /// Elements, with their shapes in the field of this name.
    Flat(DType, String),
    Polygons(DType),
    Texts,
    Files,
}

/// What the first file decides for all.
struct Plan {
    schema: Arc<Schema>,
    /// Places of fields, and how they are taken.
    takes: Vec<(usize, Take)>,
}

fn read(feed: &mut Feed, source: &Path) -> Result<(), ExchangeError> {
    let files = files(source)?;
    let mut total = 0;
    for file in &files {
        total += open(file)?.rows;
    }
    let mut plan: Option<Plan> = None;
    for file in &files {
        let Open { reader, schema, .. } = open(file)?;
        if let Some(plan) = &plan
            && plan.schema.fields() != schema.fields()
        {
            feed.bad(file.display().to_string(), "has other columns than the files before")?;
            continue;
        }
        let mut row = 0;
        let mut reader = reader.peekable();
        if plan.is_none() {
            let first = match reader.peek() {
                Some(Ok(batch)) => Some(batch.clone()),
                _ => None,
            };
            let takes = decide(feed, &schema, first.as_ref(), file, total)?;
            plan = Some(Plan { schema, takes });
        }
        let Some(Plan { takes, .. }) = &plan else { continue };
        for batch in reader {
            let batch = batch.map_err(|error| ExchangeError::source(file, error.to_string()))?;
            rows(feed, &batch, takes, file, row)?;
            row += batch.num_rows() as u64;
        }
    }
    Ok(())
}

fn files(source: &Path) -> Result<Vec<PathBuf>, ExchangeError> {
    if !source.is_dir() {
        return Ok(vec![source.to_owned()]);
    }
    if source.join("_delta_log").is_dir() {
        let why = "is a Delta table, whose log says which files count: export it to Parquet first";
        return Err(ExchangeError::source(source, why));
    }
    let found: Vec<PathBuf> = entries(source)?
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "parquet"))
        .collect();
    match found.is_empty() {
        true => Err(ExchangeError::source(source, "there are no .parquet files in it")),
        false => Ok(found),
    }
}

/// A file whose footer was read.
struct Open {
    reader: ParquetRecordBatchReader,
    schema: Arc<Schema>,
    rows: u64,
}

fn open(path: &Path) -> Result<Open, ExchangeError> {
    let file = File::open(path).map_err(ExchangeError::io(path, "open"))?;
    let wrong = |error: parquet::errors::ParquetError| ExchangeError::source(path, error.to_string());
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(wrong)?;
    let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
    let schema = Arc::clone(builder.schema());
    Ok(Open { reader: builder.with_batch_size(ROWS).build().map_err(wrong)?, schema, rows })
}

/// Which columns there will be, and how fields become them.
fn decide(
    feed: &mut Feed,
    schema: &Schema,
    first: Option<&RecordBatch>,
    file: &Path,
    total: u64,
) -> Result<Vec<(usize, Take)>, ExchangeError> {
    let classes = hugging_face_classes(schema);
    let (mut found, mut specs, mut takes) = (Vec::new(), Vec::new(), Vec::new());
    for (place, field) in schema.fields().iter().enumerate() {
        let column = first.map(|batch| batch.column(place));
        let decided = match Note::of(field) {
            Note::Companion => continue,
            Note::Column(spec, shape_column) => ours(&spec, shape_column, schema).map(|take| (*spec, take)),
            Note::None => None,
        };
        let names = classes.iter().find(|(name, _)| name == field.name()).map(|(_, names)| names.clone());
        let decided = match (decided, names) {
            (Some(decided), _) => Ok(decided),
            (None, Some(names)) if field.data_type().is_integer() => {
                Ok((label_column("", names).spec, Take::Scalar(DType::I64)))
            }
            (None, _) => foreign(field, column),
        };
        match decided {
            Ok((spec, take)) => {
                found.push(field.name().clone());
                specs.push(spec);
                takes.push((place, take));
            }
            Err(why) => feed.bad(format!("{}: column {:?}", file.display(), field.name()), why)?,
        }
    }
    if takes.is_empty() {
        return Err(ExchangeError::source(file, "there is no column in it that can be taken"));
    }
    let names = column_names(&found);
    let columns = names.into_iter().zip(specs).map(|(name, spec)| NewColumn::new(name, spec)).collect();
    feed.columns(columns, Some(total))?;
    Ok(takes)
}

/// How a field of ours is taken; `None` if it is not as we write it.
fn ours(spec: &ColumnSpec, shape_column: Option<String>, schema: &Schema) -> Option<Take> {
    let htype = spec.htype.as_deref()?;
    let dtype = spec.dtype.unwrap_or(DType::F64);
    if let Some(name) = shape_column {
        return schema.index_of(&name).is_ok().then_some(Take::Flat(dtype, name));
    }
    Some(match htype {
        "text" => Take::Text,
        "json" | "list" | "tag" => Take::Json,
        "image" | "image.gray" | "audio" | "video" | "dicom" => Take::Media,
        "sequence[text]" => Take::Texts,
        "polygon" => Take::Polygons(dtype),
        other if other.starts_with("sequence[") => Take::Files,
        _ => match spec.shape.as_deref() {
            Some([]) => Take::Scalar(dtype),
            Some([_]) => Take::List(dtype),
            _ => return None,
        },
    })
}

/// What a field of somebody else's becomes; fails with why it cannot be taken.
fn foreign(field: &Field, column: Option<&ArrayRef>) -> Result<(ColumnSpec, Take), String> {
    let generic = |dtype: DType, shape: Vec<Option<u64>>| ColumnSpec {
        dtype: Some(dtype),
        shape: Some(shape),
        ..ColumnSpec::default()
    };
    let typed = |htype: &str| ColumnSpec { htype: Some(htype.to_owned()), ..ColumnSpec::default() };
    let media = |first: Option<Bytes>| -> Result<ColumnSpec, String> {
        let Some(first) = first else {
            return Err("its first rows have no value that says what it holds".to_owned());
        };
        match lacus_media::sniff(&first).map(Format::family) {
            Some(family) => Ok(media_column("", family).spec),
            None => Ok(typed("bytes")),
        }
    };
    Ok(match field.data_type() {
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Date32
        | DataType::Date64
        | DataType::Timestamp(..)
        | DataType::Time32(_)
        | DataType::Time64(_) => (typed("text"), Take::Text),
        DataType::Dictionary(_, of)
            if matches!(**of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) =>
        {
            (typed("text"), Take::Text)
        }
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => (generic(DType::F64, Vec::new()), Take::Scalar(DType::F64)),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let first = column.and_then(|column| (0..column.len()).find_map(|row| binary(column, row)));
            (media(first)?, Take::Media)
        }
        DataType::Struct(fields)
            if fields.iter().any(|f| f.name() == "bytes" && f.data_type().is_binary()) =>
        {
            let first = column.and_then(|column| (0..column.len()).find_map(|row| struct_bytes(column, row)));
            (media(first)?, Take::MediaStruct)
        }
        DataType::List(of) | DataType::LargeList(of) => match (dtype_of(of.data_type()), of.data_type()) {
            (Some(dtype), _) => (generic(dtype, vec![None]), Take::List(dtype)),
            (None, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => {
                (typed("sequence[text]"), Take::Texts)
            }
            _ => return Err(format!("nothing can be made of {}", field.data_type())),
        },
        DataType::FixedSizeList(of, size) => match dtype_of(of.data_type()) {
            Some(dtype) => (generic(dtype, vec![u64::try_from(*size).ok()]), Take::List(dtype)),
            None => return Err(format!("nothing can be made of {}", field.data_type())),
        },
        other => match dtype_of(other) {
            Some(dtype) => (generic(dtype, Vec::new()), Take::Scalar(dtype)),
            None => return Err(format!("nothing can be made of {other}")),
        },
    })
}

/// Hugging Face keeps the names of classes in the metadata of the schema.
fn hugging_face_classes(schema: &Schema) -> Vec<(String, Vec<String>)> {
    let Some(text) = schema.metadata().get("huggingface") else { return Vec::new() };
    let note: Json = serde_json::from_str(text).unwrap_or_default();
    let Some(features) = note["info"]["features"].as_object() else { return Vec::new() };
    let classes = features.iter().filter(|(_, feature)| feature["_type"] == "ClassLabel");
    let names = |feature: &Json| -> Option<Vec<String>> {
        feature["names"].as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
    };
    classes.filter_map(|(name, feature)| Some((name.clone(), names(feature)?))).collect()
}

/// Hands on the rows of a batch, whose first one is number `first` of its file.
fn rows(
    feed: &mut Feed,
    batch: &RecordBatch,
    takes: &[(usize, Take)],
    file: &Path,
    first: u64,
) -> Result<(), ExchangeError> {
    let mut columns = Vec::with_capacity(takes.len());
    for (place, take) in takes {
        let shapes = match take {
            Take::Flat(_, name) => batch.column_by_name(name),
            _ => None,
        };
        let cells = cells(batch.column(*place), take, shapes);
        let name = batch.schema_ref().field(*place).name().clone();
        columns.push((name, cells.map_err(|why| ExchangeError::source(file, why))?.into_iter()));
    }
    for row in 0..batch.num_rows() {
        let place = format!("{}: row {}", file.display(), first + row as u64);
        let mut cells = Vec::with_capacity(columns.len());
        let mut fault = None;
        for (name, column) in &mut columns {
            match column.next() {
                Some(Ok(cell)) => cells.push(cell),
                Some(Err(why)) => fault = fault.or(Some(format!("column {name:?}: {why}"))),
                None => {}
            }
        }
        match fault {
            None => feed.row(place, cells)?,
            Some(why) => feed.bad(place, why)?,
        }
    }
    Ok(())
}

type Cells = Vec<Result<Cell, String>>;

/// The values of a field as cells.
fn cells(array: &ArrayRef, take: &Take, shapes: Option<&ArrayRef>) -> Result<Cells, String> {
    let rows = 0..array.len();
    let wrong = |error: arrow::error::ArrowError| error.to_string();
    Ok(match take {
        Take::Scalar(dtype) => {
            let (dtype, bytes) = numbers(array, *dtype)?;
            let item = dtype.size_bytes();
            let cell = |row: usize| match array.is_null(row) {
                true => Cell::Missing,
                false => Cell::scalar(dtype, &bytes[row * item..]),
            };
            rows.map(|row| Ok(cell(row))).collect()
        }
        Take::Text | Take::Json => {
            let texts = cast(array, &DataType::Utf8).map_err(wrong)?;
            let texts = texts.as_string::<i32>();
            let cell = |row: usize| match (texts.is_null(row), take) {
                (true, _) => Ok(Cell::Missing),
                (false, Take::Json) => {
                    let value = serde_json::from_str(texts.value(row));
                    value.map(Cell::Json).map_err(|error| format!("it is not JSON: {error}"))
                }
                (false, _) => Ok(Cell::text(texts.value(row))),
            };
            rows.map(cell).collect()
        }
        Take::Media => rows.map(|row| Ok(binary(array, row).map_or(Cell::Missing, Cell::Media))).collect(),
        Take::MediaStruct => {
            rows.map(|row| Ok(struct_bytes(array, row).map_or(Cell::Missing, Cell::Media))).collect()
        }
        Take::List(dtype) => rows.map(|row| listed(array, row, *dtype, None)).collect(),
        Take::Flat(dtype, _) => rows.map(|row| listed(array, row, *dtype, shapes)).collect(),
        Take::Polygons(dtype) => rows.map(|row| polygons(array, row, *dtype)).collect(),
        Take::Texts => {
            let cell = |row: usize| {
                let Some(items) = list_item(array, row) else { return Ok(Cell::Missing) };
                let items = cast(&items, &DataType::Utf8).map_err(wrong)?;
                let texts = items.as_string::<i32>();
                let text =
                    |text: Option<&str>| text.map(Cell::text).ok_or("it has a null in its list".to_owned());
                texts.iter().map(text).collect::<Result<_, _>>().map(Cell::List)
            };
            rows.map(cell).collect()
        }
        Take::Files => {
            let cell = |row: usize| {
                let Some(items) = list_item(array, row) else { return Ok(Cell::Missing) };
                let file = |place| {
                    binary(&items, place).map(Cell::Media).ok_or("it has a null in its list".to_owned())
                };
                (0..items.len()).map(file).collect::<Result<_, _>>().map(Cell::List)
            };
            rows.map(cell).collect()
        }
    })
}

/// Numbers as the elements of a dtype.
fn numbers(array: &ArrayRef, dtype: DType) -> Result<(DType, Vec<u8>), String> {
    let cast = cast(array, &arrow_type(dtype)).map_err(|error| error.to_string())?;
    let (found, bytes) = elements(&cast).ok_or_else(|| format!("{} are no numbers", array.data_type()))?;
    Ok(match dtype {
        // Only its upper half was there before.
        DType::BF16 => (dtype, bytes.as_chunks::<4>().0.iter().flat_map(|b| [b[2], b[3]]).collect()),
        _ => (found, bytes),
    })
}

fn listed(array: &ArrayRef, row: usize, dtype: DType, shapes: Option<&ArrayRef>) -> Result<Cell, String> {
    let Some(items) = list_item(array, row) else { return Ok(Cell::Missing) };
    if items.null_count() > 0 {
        return Err("it has a null in its list".to_owned());
    }
    let (dtype, bytes) = numbers(&items, dtype)?;
    let dims = match shapes {
        None => vec![items.len() as u64],
        Some(shapes) => {
            let shape = list_item(shapes, row).ok_or("its shape is missing")?;
            let (_, shape) = numbers(&shape, DType::I64)?;
            let size = |size: &[u8; 8]| {
                u64::try_from(i64::from_le_bytes(*size)).map_err(|_| "its shape is negative")
            };
            shape.as_chunks::<8>().0.iter().map(size).collect::<Result<Vec<u64>, _>>()?
        }
    };
    Cell::tensor(dtype, &dims, &bytes).map_err(|error| error.to_string())
}

fn polygons(array: &ArrayRef, row: usize, dtype: DType) -> Result<Cell, String> {
    let Some(outlines) = list_item(array, row) else { return Ok(Cell::Missing) };
    let outline = |place: usize| -> Result<Cell, String> {
        let points = list_item(&outlines, place).ok_or("an outline is null")?;
        let (mut bytes, mut width) = (Vec::new(), 2);
        for point in 0..points.len() {
            let numbers_of = list_item(&points, point).ok_or("a point is null")?;
            width = numbers_of.len() as u64;
            bytes.extend(numbers(&numbers_of, dtype)?.1);
        }
        Cell::tensor(dtype, &[points.len() as u64, width], &bytes).map_err(|error| error.to_string())
    };
    (0..outlines.len()).map(outline).collect::<Result<_, _>>().map(Cell::List)
}

fn binary(array: &ArrayRef, row: usize) -> Option<Bytes> {
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

fn struct_bytes(array: &ArrayRef, row: usize) -> Option<Bytes> {
    if array.is_null(row) {
        return None;
    }
    binary(array.as_struct_opt()?.column_by_name("bytes")?, row)
}
