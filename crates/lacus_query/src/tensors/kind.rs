//! What a column is to the functions: the one place that decides it.

use arrow::datatypes::{DataType, Field};
use lacus_arrow::Mapping;
use lacus_sample::{Base, Column};
use lacus_tensor::DType;

use super::tensor_type::{Dims, TensorType, dtype_of};

/// What a column holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Tensors, with numpy's rules.
    Tensor(TensorType),
    /// Media files of this kind; the column says what they decode to.
    Media {
        /// Image, audio, video or DICOM.
        base: Base,
        /// The column that holds them.
        column: Box<Column>,
    },
    /// Names of classes.
    Class(Box<Column>),
    /// Plain numbers, which behave as SQL says.
    Number(DType),
    /// Lists of SQL.
    List,
    /// Nothing but nulls.
    Null,
    /// Text, dates, structs and all others.
    Other,
}

impl Kind {
    /// What the column of a field holds.
    pub(crate) fn of(field: &Field) -> Kind {
        if let Some((column, mapping)) = Mapping::noted(field) {
            match mapping {
                Mapping::Class { .. } => return Kind::Class(Box::new(column)),
                Mapping::Bytes if column.htype().base != Base::Bytes => {
                    return Kind::Media { base: column.htype().base, column: Box::new(column) };
                }
                _ => {}
            }
        }
        if let Some(tensor) = TensorType::of(field) {
            return Kind::Tensor(tensor);
        }
        match field.data_type() {
            DataType::Null => Kind::Null,
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => Kind::List,
            other => dtype_of(other).map_or(Kind::Other, Kind::Number),
        }
    }

    /// What it is called in messages.
    pub(crate) fn describe(&self, field: &Field) -> String {
        match self {
            Kind::Tensor(tensor) => format!("a tensor ({tensor})"),
            Kind::Media { base, .. } => format!("a file ({base})"),
            Kind::Class(_) => "a class label".to_owned(),
            Kind::Number(dtype) => format!("a number ({dtype})"),
            Kind::List => "a list".to_owned(),
            Kind::Null => "NULL".to_owned(),
            Kind::Other => match field.data_type() {
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".to_owned(),
                other => other.to_string(),
            },
        }
    }
}

/// The type of lists of numbers inside each other, each taken as one tensor. Sizes are known only where the type of the list says
/// them: constants are not looked at, so that a type stays the same when an expression is folded into a constant.
pub(crate) fn list_type(data_type: &DataType) -> Option<TensorType> {
    let (mut sizes, mut inner) = (Vec::new(), data_type);
    loop {
        match inner {
            DataType::List(item) | DataType::LargeList(item) => {
                sizes.push(None);
                inner = item.data_type();
            }
            DataType::FixedSizeList(item, size) => {
                sizes.push(u64::try_from(*size).ok());
                inner = item.data_type();
            }
            // An empty list.
            DataType::Null if !sizes.is_empty() => {
                return Some(TensorType { dtype: DType::F64, dims: Dims::ranked(sizes) });
            }
            other => {
                let dtype = dtype_of(other).filter(|_| !sizes.is_empty())?;
                return Some(TensorType { dtype, dims: Dims::ranked(sizes) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lacus_sample::ColumnSpec;

    use super::*;

    fn field(htype: &str, dtype: Option<DType>, shape: Option<Vec<Option<u64>>>) -> Field {
        let mut spec = ColumnSpec { htype: Some(htype.to_owned()), dtype, shape, ..ColumnSpec::default() };
        if htype == "class_label" {
            spec.options.insert("class_names".to_owned(), serde_json::json!(["cat", "dog"]));
        }
        let column = Column::new(&spec).unwrap();
        Mapping::of(&column, None).unwrap().field("x", &column, None)
    }

    #[test]
    fn the_field_alone_tells() {
        let check = |field: &Field, expected: &str| assert_eq!(Kind::of(field).describe(field), expected);
        check(&field("embedding", None, Some(vec![Some(3)])), "a tensor (float32 of shape (3,))");
        check(&field("generic", Some(DType::I16), Some(vec![None])), "a tensor (int16 of shape (?,))");
        check(&field("generic", Some(DType::I16), Some(vec![])), "a number (int16)");
        check(&field("bbox", None, None), "a tensor (float32 of shape (?, 4))");
        check(&field("image", None, None), "a file (image)");
        check(&field("class_label", None, None), "a class label");
        check(&field("sequence[generic]", Some(DType::F32), Some(vec![None])), "a list");
        check(&field("polygon", None, None), "a list");
        check(&field("text", None, None), "text");
        let list = DataType::new_list(DataType::Int64, true);
        check(&Field::new("x", list, true), "a list");
        check(&Field::new("x", DataType::Float64, true), "a number (float64)");
    }

    #[test]
    fn lists_have_a_type_without_their_values() {
        let list = |of: DataType| DataType::new_list(of, true);
        let check = |data_type: DataType, expected: Option<&str>| {
            assert_eq!(list_type(&data_type).map(|found| found.to_string()).as_deref(), expected);
        };
        check(list(list(DataType::Int64)), Some("int64 of shape (?, ?)"));
        check(DataType::new_fixed_size_list(DataType::Float32, 3, true), Some("float32 of shape (3,)"));
        check(list(DataType::Utf8), None);
        check(DataType::Int64, None);
    }
}
