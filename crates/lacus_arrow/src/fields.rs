//! Columns of any table as people see them: what their type is called, and the samples of those that hold some.
//!
//! A field of a scan, or of what a function made of one, says in its metadata what it holds. All others hold plain values.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, Schema};
use lacus_sample::{Base, Column};
use lacus_tensor::DType;

use crate::cell::Cell;
use crate::foreign::{Take, taken};
use crate::mapping::Mapping;
use crate::numbers::{dtype_of, values_type};
use crate::take::{cells, plain_values};

/// What the type of a field is called: `float32 (?, 4)`, `image`, `class_label`, `text`, `int64`, `list of text`.
pub fn type_name(field: &Field) -> String {
    match noted(field) {
        Some((column, Mapping::Bytes | Mapping::Json | Mapping::Sequence(_) | Mapping::Polygons(_))) => {
            column.htype().to_string()
        }
        Some((_, Mapping::Class { .. })) => Base::ClassLabel.to_string(),
        Some((_, Mapping::Number(dtype))) => dtype.name().to_owned(),
        Some((_, Mapping::List(dtype))) => shaped(dtype, &[None]),
        Some((_, Mapping::Fixed { dtype, shape })) => {
            shaped(dtype, &shape.iter().copied().map(Some).collect::<Vec<_>>())
        }
        Some((_, Mapping::Ragged { dtype, shape })) => shaped(dtype, &shape),
        Some((_, Mapping::Unranked(dtype))) => format!("{} (...)", dtype.name()),
        _ => plain_name(field.data_type()),
    }
}

/// The samples of a column whose field says that they are some: tensors, media files, JSON, several samples of a row. `None` for
/// plain values, which Arrow's own type says all about, and for names of classes. Fails with why a value is not what the field says.
pub fn sample_cells(field: &Field, array: &ArrayRef) -> Result<Option<Vec<Cell>>, String> {
    match noted(field) {
        None | Some((_, Mapping::Nothing | Mapping::Class { .. } | Mapping::Text | Mapping::Logical(_))) => {
            Ok(None)
        }
        Some((_, Mapping::Number(dtype))) if dtype != DType::BF16 => Ok(None),
        Some((_, mapping)) => {
            let found = cells(&plain_values(array)?, &Take::Ours(mapping), None)?;
            found.into_iter().collect::<Result<_, _>>().map(Some)
        }
    }
}

/// The column that a field says it is, and how its samples are said.
fn noted(field: &Field) -> Option<(Column, Mapping)> {
    let found = taken(field, &Schema::empty(), None, || Err("it is somebody else's".to_owned())).ok()??;
    match found.take {
        Take::Ours(mapping) => Some((Column::new(&found.spec).ok()?, mapping)),
        _ => None,
    }
}

fn shaped(dtype: DType, sizes: &[Option<u64>]) -> String {
    let sizes: Vec<String> =
        sizes.iter().map(|size| size.map_or("?".to_owned(), |size| size.to_string())).collect();
    match &sizes[..] {
        [only] => format!("{} ({only},)", dtype.name()),
        sizes => format!("{} ({})", dtype.name(), sizes.join(", ")),
    }
}

fn plain_name(data_type: &DataType) -> String {
    let data_type = values_type(data_type);
    if let Some(dtype) = dtype_of(&data_type) {
        return dtype.name().to_owned();
    }
    match &data_type {
        DataType::Null => "null".to_owned(),
        DataType::Utf8 => "text".to_owned(),
        DataType::Binary | DataType::FixedSizeBinary(_) => "bytes".to_owned(),
        DataType::Date32 | DataType::Date64 => "date".to_owned(),
        DataType::Time32(_) | DataType::Time64(_) => "time".to_owned(),
        DataType::Timestamp(..) => "timestamp".to_owned(),
        DataType::Duration(_) => "duration".to_owned(),
        DataType::Interval(_) => "interval".to_owned(),
        DataType::List(of) | DataType::FixedSizeList(of, _) => {
            format!("list of {}", plain_name(of.data_type()))
        }
        DataType::Struct(_) => "struct".to_owned(),
        DataType::Map(..) => "map".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;
    use lacus_sample::ColumnSpec;

    use super::*;

    fn column(htype: &str, dtype: Option<DType>, shape: Option<Vec<Option<u64>>>) -> (Column, Mapping) {
        let mut spec = ColumnSpec { htype: Some(htype.to_owned()), dtype, shape, ..ColumnSpec::default() };
        if htype == "class_label" {
            spec.options.insert("class_names".to_owned(), serde_json::json!(["cat", "dog"]));
        }
        let column = Column::new(&spec).unwrap();
        let mapping = Mapping::of(&column, None).unwrap();
        (column, mapping)
    }

    #[test]
    fn types_have_names() {
        let check = |htype: &str, dtype: Option<DType>, shape: Option<Vec<Option<u64>>>, name: &str| {
            let (column, mapping) = column(htype, dtype, shape);
            assert_eq!(type_name(&mapping.field("x", &column, None)), name);
        };
        check("image", None, None, "image");
        check("class_label", None, None, "class_label");
        check("embedding", None, Some(vec![Some(3)]), "float32 (3,)");
        check("bbox", None, None, "float32 (?, 4)");
        check("generic", Some(DType::I16), Some(vec![]), "int16");
        check("generic", Some(DType::F64), None, "float64 (...)");
        check("text", None, None, "text");
        check("json", None, None, "json");
        check("sequence[image]", None, None, "sequence[image]");
        let plain = |data_type: DataType| type_name(&Field::new("x", data_type, true));
        assert_eq!(plain(DataType::LargeUtf8), "text");
        assert_eq!(plain(DataType::new_list(DataType::Utf8, true)), "list of text");
        assert_eq!(plain(DataType::Float64), "float64");
    }

    #[test]
    fn samples_are_found_by_the_field() {
        let (of, mapping) = column("generic", Some(DType::I64), Some(vec![Some(2)]));
        let given = [Cell::numbers(DType::I64, &[1i64, 2]).unwrap(), Cell::Missing];
        let array = mapping.array(&given).map_err(|unfit| unfit.to_string()).unwrap();
        let field = mapping.field("x", &of, None);
        assert_eq!(sample_cells(&field, &array).unwrap().as_deref(), Some(&given[..]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        assert_eq!(sample_cells(&Field::new("x", DataType::Int64, true), &numbers), Ok(None));
    }
}
