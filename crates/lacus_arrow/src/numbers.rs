//! Arrow's numbers and lists, and the bytes that our dtypes have for them.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, LargeListArray, ListArray, make_array,
};
use arrow::buffer::{Buffer, MutableBuffer, NullBuffer};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef};
use lacus_tensor::DType;

/// The Arrow type of the same bits; float32 for bfloat16, which Arrow lacks.
pub(crate) fn arrow_type(dtype: DType) -> DataType {
    match dtype {
        DType::Bool => DataType::Boolean,
        DType::I8 => DataType::Int8,
        DType::I16 => DataType::Int16,
        DType::I32 => DataType::Int32,
        DType::I64 => DataType::Int64,
        DType::U8 => DataType::UInt8,
        DType::U16 => DataType::UInt16,
        DType::U32 => DataType::UInt32,
        DType::U64 => DataType::UInt64,
        DType::F16 => DataType::Float16,
        DType::F32 | DType::BF16 => DataType::Float32,
        DType::F64 | DType::C64 | DType::C128 => DataType::Float64,
    }
}

/// The dtype of the same bits, for Arrow's numbers.
pub(crate) fn dtype_of(data_type: &DataType) -> Option<DType> {
    Some(match data_type {
        DataType::Boolean => DType::Bool,
        DataType::Int8 => DType::I8,
        DataType::Int16 => DType::I16,
        DataType::Int32 => DType::I32,
        DataType::Int64 => DType::I64,
        DataType::UInt8 => DType::U8,
        DataType::UInt16 => DType::U16,
        DataType::UInt32 => DType::U32,
        DataType::UInt64 => DType::U64,
        DataType::Float16 => DType::F16,
        DataType::Float32 => DType::F32,
        DataType::Float64 => DType::F64,
        _ => return None,
    })
}

/// Elements as an Arrow array of the same bits.
pub(crate) fn numbers(dtype: DType, bytes: &[u8], nulls: Option<NullBuffer>) -> Result<ArrayRef, String> {
    if dtype == DType::Bool {
        let values = bytes.iter().map(|byte| *byte != 0).collect::<Vec<bool>>();
        return Ok(Arc::new(BooleanArray::new(values.into(), nulls)));
    }
    let widened: Vec<u8>;
    let bytes = match dtype {
        // The upper half of a float32.
        DType::BF16 => {
            widened = bytes.as_chunks::<2>().0.iter().flat_map(|[low, high]| [0, 0, *low, *high]).collect();
            &widened
        }
        _ => bytes,
    };
    let data_type = arrow_type(dtype);
    let length = bytes.len() / data_type.primitive_width().unwrap_or(1);
    // Arrow wants its numbers aligned.
    let mut buffer = MutableBuffer::new(bytes.len());
    buffer.extend_from_slice(bytes);
    let data = arrow::array::ArrayData::builder(data_type)
        .len(length)
        .nulls(nulls)
        .add_buffer(Buffer::from(buffer))
        .build();
    data.map(make_array).map_err(|error| error.to_string())
}

/// The bytes of Arrow's numbers, as our dtype of the same bits has them. Nulls are zeros or anything.
pub fn elements(array: &ArrayRef) -> Option<(DType, Vec<u8>)> {
    Some((dtype_of(array.data_type())?, bits_of(array)?))
}

/// The bytes of Arrow's numbers. Nulls are zeros or anything.
pub(crate) fn bits_of(array: &ArrayRef) -> Option<Vec<u8>> {
    let dtype = dtype_of(array.data_type())?;
    if dtype == DType::Bool {
        let values = array.as_any().downcast_ref::<BooleanArray>()?.values();
        return Some(values.iter().map(u8::from).collect());
    }
    let data = array.to_data();
    let (width, offset) = (dtype.size_bytes(), data.offset());
    let bytes = data.buffers().first()?.as_slice();
    Some(bytes[offset * width..(offset + data.len()) * width].to_vec())
}

/// The items of a list, whichever kind of list it is; `None` where there is none.
pub fn list_item(array: &ArrayRef, row: usize) -> Option<ArrayRef> {
    if array.is_null(row) {
        return None;
    }
    let any = array.as_any();
    if let Some(lists) = any.downcast_ref::<ListArray>() {
        return Some(lists.value(row));
    }
    if let Some(lists) = any.downcast_ref::<LargeListArray>() {
        return Some(lists.value(row));
    }
    any.downcast_ref::<FixedSizeListArray>().map(|lists| lists.value(row))
}

/// A cast that fails where it would lose a value.
pub(crate) fn strict_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, to, &options).map_err(|error| error.to_string())
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

/// Fails if one of the items of a list is null.
pub(crate) fn refuse_nulls(items: &ArrayRef) -> Result<(), String> {
    match (0..items.len()).find(|i| items.is_null(*i)) {
        None => Ok(()),
        Some(place) => Err(format!(
            "its list has a null at place {place}, which arrays and sequences cannot hold: fill it in, or drop the row"
        )),
    }
}
