//! Values of Arrow columns as cells, the way [`Take`] says.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use lacus_tensor::DType;
use serde_json::{Map, Number, Value as Json};

use crate::cell::{Cell, double};
use crate::foreign::{Take, binary, struct_bytes};
use crate::from_array::Cells;
use crate::numbers::{arrow_type, dtype_of, elements, list_item, refuse_nulls, strict_cast, values_type};

/// The same values in their plain type: no dictionaries, runs, views or wide offsets.
pub fn plain_values(array: &ArrayRef) -> Result<ArrayRef, String> {
    let to = values_type(array.data_type());
    match to == *array.data_type() {
        true => Ok(array.clone()),
        false => strict_cast(array, &to),
    }
}

/// The values of a field as cells. `shapes` are those of [`Take::Flat`].
pub fn cells(array: &ArrayRef, take: &Take, shapes: Option<&ArrayRef>) -> Result<Cells, String> {
    let rows = 0..array.len();
    let each = |cell: &dyn Fn(usize) -> Result<Cell, String>| -> Cells {
        rows.clone()
            .map(|row| match array.is_null(row) {
                true => Ok(Cell::Missing),
                false => cell(row),
            })
            .collect()
    };
    Ok(match take {
        Take::Ours(mapping) => mapping.cells(array)?,
        Take::Scalar(_) if array.data_type().is_null() => each(&|_| Ok(Cell::Missing)),
        Take::Scalar(dtype) => {
            let (dtype, bytes) = numbers(array, *dtype)?;
            let item = dtype.size_bytes();
            each(&|row| Ok(Cell::scalar(dtype, &bytes[row * item..])))
        }
        Take::Label => {
            let (_, bytes) = numbers(array, DType::I64)?;
            let label = |row: usize| i64::from_le_bytes(bytes.as_chunks().0[row]);
            each(&|row| Ok(if label(row) < 0 { Cell::Missing } else { Cell::int(label(row)) }))
        }
        Take::Text => {
            let texts = Texts::of(array)?;
            each(&|row| texts.get(row).map(Cell::Text))
        }
        Take::JsonText => {
            let texts = Texts::of(array)?;
            each(&|row| {
                let value = serde_json::from_str(&texts.get(row)?);
                value.map(Cell::Json).map_err(|error| format!("it is not JSON: {error}"))
            })
        }
        Take::Nested => each(&|row| json(array, row).map(Cell::Json)),
        Take::Media => each(&|row| Ok(binary(array, row).map_or(Cell::Missing, Cell::Media))),
        Take::MediaStruct => each(&|row| file(array, row)),
        Take::Labels => each(&|row| listed(array, row, DType::I64)),
        Take::Tensor(dtype, sizes) if sizes.len() == 1 => each(&|row| listed(array, row, *dtype)),
        Take::Tensor(dtype, sizes) => each(&|row| tensor(array, row, *dtype, sizes)),
        Take::Tensors(dtype, depth) => each(&|row| {
            let items = list_item(array, row).ok_or("it is no list")?;
            let sizes = vec![None; *depth];
            (0..items.len())
                .map(|i| match items.is_null(i) {
                    true => Err(format!("its list has a null at place {i}, where a list belongs")),
                    false => tensor(&items, i, *dtype, &sizes).map_err(|why| format!("at place {i}: {why}")),
                })
                .collect::<Result<_, _>>()
                .map(Cell::List)
        }),
        Take::Flat(dtype, _) => {
            let shapes = shapes.ok_or("its shapes are missing")?;
            each(&|row| shaped(array, row, *dtype, shapes))
        }
        Take::Polygons(dtype) => each(&|row| polygons(array, row, *dtype)),
        Take::Texts => each(&|row| {
            let items = list_item(array, row).ok_or("it is no list")?;
            let texts = Texts::of(&items)?;
            in_list(&items, &|i| texts.get(i).map(Cell::Text))
        }),
        Take::Files => each(&|row| {
            let items = list_item(array, row).ok_or("it is no list")?;
            in_list(&items, &|i| Ok(binary(&items, i).map_or(Cell::Missing, Cell::Media)))
        }),
        Take::FileStructs => each(&|row| {
            let items = list_item(array, row).ok_or("it is no list")?;
            in_list(&items, &|i| file(&items, i))
        }),
    })
}

/// The items of a list, none of which may be null.
fn in_list(items: &ArrayRef, cell: &dyn Fn(usize) -> Result<Cell, String>) -> Result<Cell, String> {
    refuse_nulls(items)?;
    (0..items.len()).map(cell).collect::<Result<_, _>>().map(Cell::List)
}

/// A file in a struct. One that is elsewhere is refused: where its path leads is not ours to follow.
fn file(array: &ArrayRef, row: usize) -> Result<Cell, String> {
    if let Some(bytes) = struct_bytes(array, row) {
        return Ok(Cell::Media(bytes));
    }
    let path = array.as_struct_opt().and_then(|fields| fields.column_by_name("path"));
    match path.filter(|path| !path.is_null(row)).and_then(|path| path.as_string_opt::<i32>()) {
        Some(path) => Err(format!(
            "it has the path {:?} but no bytes: put the file's bytes into the table (Hugging Face: embed_external_files=True)",
            path.value(row)
        )),
        None => Ok(Cell::Missing),
    }
}

/// Values as text: strings as they are, others as Arrow writes them.
struct Texts<'a> {
    formatter: ArrayFormatter<'a>,
}

impl<'a> Texts<'a> {
    fn of(array: &'a ArrayRef) -> Result<Texts<'a>, String> {
        const PLAIN: FormatOptions<'static> = FormatOptions::new().with_display_error(false);
        let formatter = ArrayFormatter::try_new(array, &PLAIN).map_err(|error| error.to_string())?;
        Ok(Texts { formatter })
    }

    fn get(&self, row: usize) -> Result<String, String> {
        self.formatter.value(row).try_to_string().map_err(|error| error.to_string())
    }
}

/// Numbers as the elements of a dtype.
fn numbers(array: &ArrayRef, dtype: DType) -> Result<(DType, Vec<u8>), String> {
    let cast = strict_cast(array, &arrow_type(dtype))?;
    let (found, bytes) = elements(&cast).ok_or_else(|| format!("{} are no numbers", array.data_type()))?;
    Ok(match dtype {
        // Only its upper half was there before.
        DType::BF16 => (dtype, bytes.as_chunks::<4>().0.iter().flat_map(|b| [b[2], b[3]]).collect()),
        _ => (found, bytes),
    })
}

/// A list of numbers as a tensor of one axis.
fn listed(array: &ArrayRef, row: usize, dtype: DType) -> Result<Cell, String> {
    let items = list_item(array, row).ok_or("it is no list")?;
    refuse_nulls(&items)?;
    let (dtype, bytes) = numbers(&items, dtype)?;
    Cell::tensor(dtype, &[items.len() as u64], &bytes).map_err(|error| error.to_string())
}

/// Lists in lists as one tensor: all of a depth have the same length. A list that is one level deep may also hold the
/// elements of a tensor of known sizes in C order.
fn tensor(array: &ArrayRef, row: usize, dtype: DType, sizes: &[Option<u64>]) -> Result<Cell, String> {
    let mut items = array.slice(row, 1);
    let mut dims = Vec::with_capacity(sizes.len());
    let mut lists = 1;
    let mut depth = 0;
    while let Some((lengths, inner)) = opened(&items)? {
        let length = match (lengths.first(), sizes.get(depth).copied().flatten()) {
            (Some(length), _) => *length,
            // Of no list nothing is known but what was declared.
            (None, size) => size.unwrap_or(0) as usize,
        };
        if let Some(other) = lengths.iter().find(|other| **other != length) {
            return Err(format!(
                "its lists have {length} and {other} items on level {}: an array needs the same number in each",
                depth + 1
            ));
        }
        dims.push(length as u64);
        lists *= length;
        items = inner;
        depth += 1;
    }
    refuse_nulls(&items)?;
    let (dtype, bytes) = numbers(&items, dtype)?;
    let flat: Option<Vec<u64>> = sizes.iter().copied().collect();
    if let (1, Some(flat)) = (depth, flat)
        && flat.len() > 1
    {
        dims = flat;
        lists = dims.iter().product::<u64>() as usize;
    }
    if items.len() != lists {
        return Err(format!("it has {} numbers where {lists} belong", items.len()));
    }
    Cell::tensor(dtype, &dims, &bytes).map_err(|error| error.to_string())
}

/// The lengths of some lists, and what is in them; `None` if they are no lists. A null among them is an error.
fn opened(array: &ArrayRef) -> Result<Option<(Vec<usize>, ArrayRef)>, String> {
    if let Some(lists) = array.as_list_opt::<i32>() {
        refuse_nulls(array)?;
        let offsets = lists.value_offsets();
        let lengths = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize).collect();
        let (first, last) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
        return Ok(Some((lengths, lists.values().slice(first, last - first))));
    }
    let Some(lists) = array.as_fixed_size_list_opt() else { return Ok(None) };
    refuse_nulls(array)?;
    let size = lists.value_length() as usize;
    // The values of a slice are already those of the slice.
    Ok(Some((vec![size; lists.len()], lists.values().clone())))
}

/// Elements whose shape stands in another column.
fn shaped(array: &ArrayRef, row: usize, dtype: DType, shapes: &ArrayRef) -> Result<Cell, String> {
    let items = list_item(array, row).ok_or("it is no list")?;
    refuse_nulls(&items)?;
    let (dtype, bytes) = numbers(&items, dtype)?;
    let shape = list_item(shapes, row).ok_or("its shape is missing")?;
    let (_, shape) = numbers(&shape, DType::I64)?;
    let size = |size: &[u8; 8]| u64::try_from(i64::from_le_bytes(*size)).map_err(|_| "its shape is negative");
    let dims = shape.as_chunks::<8>().0.iter().map(size).collect::<Result<Vec<u64>, _>>()?;
    Cell::tensor(dtype, &dims, &bytes).map_err(|error| error.to_string())
}

fn polygons(array: &ArrayRef, row: usize, dtype: DType) -> Result<Cell, String> {
    let outlines = list_item(array, row).ok_or("it is no list")?;
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

/// A value as JSON: structs as objects, maps with text keys too, other maps as lists of pairs.
fn json(array: &ArrayRef, row: usize) -> Result<Json, String> {
    if array.is_null(row) || array.data_type().is_null() {
        return Ok(Json::Null);
    }
    Ok(match array.data_type() {
        DataType::Boolean => Json::Bool(array.as_boolean().value(row)),
        DataType::Utf8 => Json::String(array.as_string::<i32>().value(row).to_owned()),
        DataType::Struct(fields) => {
            let values = array.as_struct();
            let mut object = Map::new();
            for (field, column) in fields.iter().zip(values.columns()) {
                let value =
                    json(column, row).map_err(|why| format!("its field {:?}: {why}", field.name()))?;
                if object.insert(field.name().clone(), value).is_some() {
                    return Err(format!("it has two fields {:?}", field.name()));
                }
            }
            Json::Object(object)
        }
        DataType::Map(..) => {
            let entries: ArrayRef = std::sync::Arc::new(array.as_map().value(row));
            let (keys, values) = (entries.as_struct().column(0), entries.as_struct().column(1));
            if keys.data_type() != &DataType::Utf8 {
                let pair = |i: usize| Ok(Json::Array(vec![json(keys, i)?, json(values, i)?]));
                return (0..entries.len()).map(pair).collect::<Result<_, String>>().map(Json::Array);
            }
            let mut object = Map::new();
            for i in 0..entries.len() {
                let key = keys.as_string::<i32>().value(i);
                if object.insert(key.to_owned(), json(values, i)?).is_some() {
                    return Err(format!("its map has the key {key:?} twice"));
                }
            }
            Json::Object(object)
        }
        DataType::List(_) | DataType::FixedSizeList(..) => {
            let items = list_item(array, row).ok_or("it is no list")?;
            (0..items.len()).map(|i| json(&items, i)).collect::<Result<_, _>>().map(Json::Array)?
        }
        DataType::Duration(_) => {
            let (_, bytes) = numbers(&array.slice(row, 1), DType::I64)?;
            Json::from(i64::from_le_bytes(bytes.as_chunks().0[0]))
        }
        DataType::UInt64 => Json::from(array.as_primitive::<arrow::datatypes::UInt64Type>().value(row)),
        DataType::Int64 => Json::from(array.as_primitive::<arrow::datatypes::Int64Type>().value(row)),
        other => match dtype_of(other) {
            Some(dtype) => {
                let (_, bytes) = elements(&array.slice(row, 1)).ok_or("it is no number")?;
                let value = double(dtype, &bytes).ok_or("it is no number")?;
                match dtype.is_integer() {
                    true => Json::from(value as i64),
                    false => Number::from_f64(value)
                        .map(Json::Number)
                        .ok_or_else(|| format!("JSON has no {value}: give it a column of its own"))?,
                }
            }
            None => Json::String(Texts::of(array)?.get(row)?),
        },
    })
}
