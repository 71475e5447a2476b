//! Arrow arrays as samples again, the way back of [`Mapping`].

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field};
use lacus_sample::Column;
use lacus_tensor::DType;

use crate::cell::Cell;
use crate::counts;
use crate::mapping::{Mapping, stored_type};
use crate::note::Note;
use crate::numbers::{bits_of, list_item, refuse_nulls, values_type};

/// A cell, or why there is none, for each row.
pub type Cells = Vec<Result<Cell, String>>;

impl Mapping {
    /// The column that a field of a scan says it is, and how its samples are said. `None` if the field is somebody else's, or
    /// is no longer of the type that its metadata speaks of.
    pub fn noted(field: &Field) -> Option<(Column, Mapping)> {
        let Note::Column { spec, shape_column: None, metadata } = Note::of(field) else { return None };
        let column = Column::new(&spec).ok()?;
        let mapping = Mapping::of(&column, metadata.as_ref()).ok()?;
        mapping.is_of(field.data_type()).then_some((column, mapping))
    }

    /// Whether a field of this type holds samples as this says. Names inside, what may be null, and kinds of offsets and
    /// dictionaries do not matter: engines change them.
    pub(crate) fn is_of(&self, data_type: &DataType) -> bool {
        is_same(&values_type(&self.data_type()), &values_type(data_type))
    }

    /// The samples of an array of plain values, one per row. Of [`Mapping::Logical`] only dates, times and decimals have some.
    pub(crate) fn cells(&self, array: &ArrayRef) -> Result<Cells, String> {
        let each = |cell: &dyn Fn(usize) -> Result<Cell, String>| -> Cells {
            (0..array.len())
                .map(|row| match array.is_null(row) {
                    true => Ok(Cell::Missing),
                    false => cell(row),
                })
                .collect()
        };
        let strings = || array.as_string_opt::<i32>().ok_or("it is no text");
        Ok(match self {
            Mapping::Nothing => each(&|_| Ok(Cell::Missing)),
            Mapping::Number(dtype) => {
                let bytes = bits(array, *dtype)?;
                each(&|row| Ok(Cell::scalar(*dtype, &bytes[row * dtype.size_bytes()..])))
            }
            Mapping::Class { names, .. } => {
                let texts = strings()?;
                each(&|row| Ok(class(names, texts.value(row))))
            }
            Mapping::Text => {
                let texts = strings()?;
                each(&|row| Ok(Cell::text(texts.value(row))))
            }
            Mapping::Json => {
                let texts = strings()?;
                each(&|row| {
                    let value = serde_json::from_str(texts.value(row));
                    value.map(Cell::Json).map_err(|error| format!("it is not JSON: {error}"))
                })
            }
            Mapping::Bytes => {
                let files = array.as_binary_opt::<i32>().ok_or("it has no bytes")?;
                each(&|row| Ok(Cell::Media(bytes::Bytes::copy_from_slice(files.value(row)))))
            }
            Mapping::List(dtype) => each(&|row| {
                let items = list_item(array, row).ok_or("it is no list")?;
                let bytes = items_of(&items, *dtype)?;
                tensor(*dtype, &[items.len() as u64], &bytes)
            }),
            Mapping::Fixed { dtype, shape } => each(&|row| {
                let items = list_item(array, row).ok_or("it is no list")?;
                tensor(*dtype, shape, &items_of(&items, *dtype)?)
            }),
            Mapping::Ragged { dtype, .. } | Mapping::Unranked(dtype) => {
                let fields = array.as_struct_opt().ok_or("it is no tensor")?;
                let (data, shapes) = (fields.column(0), fields.column(1));
                each(&|row| {
                    let items = list_item(data, row).ok_or("it has no elements")?;
                    let sizes = list_item(shapes, row).ok_or("it has no shape")?;
                    let sizes = items_of(&sizes, DType::I32)?;
                    let size = |size: &[u8; 4]| u64::try_from(i32::from_le_bytes(*size));
                    let dims: Result<Vec<u64>, _> = sizes.as_chunks::<4>().0.iter().map(size).collect();
                    let mut dims = dims.map_err(|_| "its shape is negative")?;
                    if dtype.is_complex() && dims.pop() != Some(2) {
                        return Err("its complex numbers have not two parts".to_owned());
                    }
                    tensor(*dtype, &dims, &items_of(&items, *dtype)?)
                })
            }
            Mapping::Polygons(dtype) => each(&|row| {
                let outlines = list_item(array, row).ok_or("it is no list")?;
                let outline = |place: usize| {
                    let points = list_item(&outlines, place).ok_or("an outline is null")?;
                    let (mut all, mut width) = (Vec::new(), 2);
                    for point in 0..points.len() {
                        let numbers = list_item(&points, point).ok_or("a point is null")?;
                        width = numbers.len() as u64;
                        all.extend(items_of(&numbers, *dtype)?);
                    }
                    tensor(*dtype, &[points.len() as u64, width], &all)
                };
                (0..outlines.len()).map(outline).collect::<Result<_, _>>().map(Cell::List)
            }),
            Mapping::Sequence(of) => each(&|row| {
                let items = list_item(array, row).ok_or("it is no list")?;
                refuse_nulls(&items)?;
                of.cells(&items)?.into_iter().collect::<Result<_, _>>().map(Cell::List)
            }),
            Mapping::Logical(data_type) => counts::cells(data_type, array)?,
        })
    }
}

/// A class by its name. One that is no name but a number is that number.
fn class(names: &[String], text: &str) -> Cell {
    match text.parse() {
        Ok(number) if !names.iter().any(|name| name == text) => Cell::int(number),
        _ => Cell::text(text),
    }
}

/// The elements of a list. A null among them is an error.
fn items_of(items: &ArrayRef, dtype: DType) -> Result<Vec<u8>, String> {
    refuse_nulls(items)?;
    bits(items, dtype)
}

/// The elements of an array whose buffers hold those of a dtype; of nulls there is anything.
fn bits(array: &ArrayRef, dtype: DType) -> Result<Vec<u8>, String> {
    if *array.data_type() != stored_type(dtype) {
        return Err(format!("it is of {} where {dtype} belongs", array.data_type()));
    }
    bits_of(array).ok_or_else(|| format!("{} are no numbers", array.data_type()))
}

fn tensor(dtype: DType, dims: &[u64], bytes: &[u8]) -> Result<Cell, String> {
    Cell::tensor(dtype, dims, bytes).map_err(|error| error.to_string())
}

fn is_same(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::List(a), DataType::List(b)) => is_same(a.data_type(), b.data_type()),
        (DataType::FixedSizeList(a, m), DataType::FixedSizeList(b, n)) => {
            m == n && is_same(a.data_type(), b.data_type())
        }
        (DataType::Struct(a), DataType::Struct(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| a.name() == b.name() && is_same(a.data_type(), b.data_type()))
        }
        (a, b) => a == b,
    }
}
