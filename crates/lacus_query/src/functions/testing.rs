//! Functions called on values, for tables of cases.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, Float64Array, ListArray, StringArray, new_null_array};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::util::display::array_value_to_string;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs};
use lacus_arrow::{Cell, Mapping};
use lacus_media::{EncodeOptions, Format};
use lacus_sample::{Column, ColumnSpec};
use lacus_tensor::{DType, Tensor};

use super::all;
use crate::tensors::{
    Dims, Kind, TensorArray, TensorBuilder, TensorType, loaded_complex, shape_text, tensor_of,
};

/// An argument.
#[derive(Clone)]
pub(crate) enum Value {
    Constant(ScalarValue),
    /// One row.
    Column(ArrayRef, FieldRef),
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Constant(ScalarValue::Int64(Some(value)))
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Constant(ScalarValue::Float64(Some(value)))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Constant(ScalarValue::Boolean(Some(value)))
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Constant(ScalarValue::from(value))
    }
}

/// A constant text.
pub(crate) fn text(value: &str) -> Value {
    value.into()
}

/// A tensor in a column where all have its shape.
pub(crate) fn fixed(dtype: DType, shape: &[u64], values: &[f64]) -> Value {
    tensor(Dims::Fixed(shape.to_vec()), Some(tensor_of(dtype, shape, values).unwrap()), dtype)
}

/// A tensor in a column where each has its own shape.
pub(crate) fn ragged(dtype: DType, shape: &[u64], values: &[f64]) -> Value {
    tensor(Dims::Ranked(vec![None; shape.len()]), Some(tensor_of(dtype, shape, values).unwrap()), dtype)
}

/// A tensor in a column where each has its own rank.
pub(crate) fn unranked(dtype: DType, shape: &[u64], values: &[f64]) -> Value {
    tensor(Dims::Unranked, Some(tensor_of(dtype, shape, values).unwrap()), dtype)
}

/// A null in a column of tensors.
pub(crate) fn null(dtype: DType, shape: &[u64]) -> Value {
    tensor(Dims::Fixed(shape.to_vec()), None, dtype)
}

/// A number in a column of plain numbers.
pub(crate) fn number(dtype: DType, value: f64) -> Value {
    fixed(dtype, &[], &[value])
}

fn tensor(dims: Dims, value: Option<Tensor>, dtype: DType) -> Value {
    let tensor_type = TensorType { dtype, dims };
    let mut builder = TensorBuilder::new("test", &tensor_type, 1).unwrap();
    builder.push_option(value.as_ref().map(|tensor| tensor.as_ref())).unwrap();
    Value::Column(builder.finish().unwrap(), Arc::new(tensor_type.field("x").unwrap()))
}

/// A list of SQL.
pub(crate) fn list(values: &[f64]) -> Value {
    let item = Arc::new(Field::new("item", DataType::Float64, true));
    let offsets = arrow::buffer::OffsetBuffer::from_lengths([values.len()]);
    let values = Arc::new(Float64Array::from(values.to_vec()));
    let array = ListArray::new(item, offsets, values, None);
    let field = Field::new("x", array.data_type().clone(), true);
    Value::Column(Arc::new(array), Arc::new(field))
}

/// A text in a column.
pub(crate) fn texts(value: &str) -> Value {
    Value::Column(Arc::new(StringArray::from(vec![value])), Arc::new(Field::new("x", DataType::Utf8, true)))
}

/// A column of an htype with one sample.
pub(crate) fn column(spec: &ColumnSpec, cell: Cell) -> Value {
    let column = Column::new(spec).unwrap();
    let mapping = Mapping::of(&column, None).unwrap();
    Value::Column(mapping.array(&[cell]).unwrap(), Arc::new(mapping.field("x", &column, None)))
}

/// A picture in a column of pictures.
pub(crate) fn image(shape: &[u64], values: &[f64]) -> Value {
    let picture = tensor_of(DType::U8, shape, values).unwrap();
    let bytes = lacus_media::encode(picture.as_ref(), Format::Png, &EncodeOptions::default()).unwrap();
    file("image", &bytes)
}

/// A file in a column of files.
pub(crate) fn file(htype: &str, bytes: &[u8]) -> Value {
    let column = Column::new(&ColumnSpec { htype: Some(htype.to_owned()), ..ColumnSpec::default() }).unwrap();
    let field = Mapping::of(&column, None).unwrap().field("x", &column, None);
    Value::Column(Arc::new(BinaryArray::from(vec![bytes])), Arc::new(field))
}

/// The value of a function as text. Columns get a second row of nulls, for which the result must be null, too, and a third that
/// is as the first.
fn called(name: &str, args: &[Value]) -> Result<String> {
    let is_called = |udf: &Arc<datafusion::logical_expr::ScalarUDF>| {
        udf.name() == name || udf.aliases().iter().any(|alias| alias == name)
    };
    let udf = all().into_iter().find(is_called).unwrap_or_else(|| panic!("no function {name}"));
    let given: Vec<FieldRef> = args
        .iter()
        .map(|arg| match arg {
            Value::Constant(scalar) => Arc::new(Field::new("lit", scalar.data_type(), true)),
            Value::Column(_, field) => Arc::clone(field),
        })
        .collect();
    let arg_fields = fields_with_udf(&given, udf.as_ref())?;
    let constants: Vec<Option<&ScalarValue>> = args
        .iter()
        .map(|arg| match arg {
            Value::Constant(scalar) => Some(scalar),
            Value::Column(..) => None,
        })
        .collect();
    let planned = ReturnFieldArgs { arg_fields: &arg_fields, scalar_arguments: &constants };
    let return_field = udf.return_field_from_args(planned)?;
    let mut values = Vec::new();
    for (arg, field) in args.iter().zip(&arg_fields) {
        values.push(match arg {
            Value::Constant(scalar) => ColumnarValue::Scalar(scalar.cast_to(field.data_type())?),
            Value::Column(array, _) => {
                let array = cast(array, field.data_type())?;
                let null = new_null_array(field.data_type(), 1);
                ColumnarValue::Array(concat(&[array.as_ref(), null.as_ref(), array.as_ref()])?)
            }
        });
    }
    let all_constant = constants.iter().all(Option::is_some);
    let result = udf.invoke_with_args(ScalarFunctionArgs {
        args: values,
        arg_fields,
        number_rows: 3,
        return_field: Arc::clone(&return_field),
        config_options: Arc::new(ConfigOptions::default()),
    })?;
    let array = result.into_array(3)?;
    assert_eq!(array.data_type(), return_field.data_type(), "{name}: the type that was promised");
    let shown = shown(&array, &return_field, 0)?;
    if !all_constant {
        assert!(array.is_null(1), "{name}: null in, null out");
        assert_eq!(self::shown(&array, &return_field, 2)?, shown);
    }
    Ok(shown)
}

fn shown(array: &ArrayRef, field: &Field, row: usize) -> Result<String> {
    if array.is_null(row) {
        return Ok("null".to_owned());
    }
    let Kind::Tensor(_) = Kind::of(field) else { return Ok(array_value_to_string(array, row)?) };
    let tensors = TensorArray::new("test", array, field)?;
    let Some(found) = tensors.get(row)? else { return Ok("null".to_owned()) };
    let tensor = found.view().to_tensor();
    let one = |[real, imaginary]: [f64; 2]| match imaginary == 0.0 {
        true => real.to_string(),
        false => format!("{real}+{imaginary}i"),
    };
    let items: Vec<String> = loaded_complex(tensor.dtype(), tensor.bytes()).into_iter().map(one).collect();
    Ok(format!("{} {} [{}]", tensor.dtype(), shape_text(tensor.shape().dims()), items.join(", ")))
}

#[track_caller]
pub(crate) fn check(name: &str, args: &[Value], expected: &str) {
    match called(name, args) {
        Ok(found) => assert_eq!(found, expected, "{name}"),
        Err(error) => panic!("{name}: {error}"),
    }
}

#[track_caller]
pub(crate) fn check_error(name: &str, args: &[Value], part: &str) {
    match called(name, args) {
        Ok(found) => panic!("{name} gave {found}"),
        Err(error) => assert!(error.to_string().contains(part), "{name}: {error}"),
    }
}

/// A constant list of SQL.
pub(crate) fn constant_list(values: &[f64]) -> Value {
    match list(values) {
        Value::Column(array, _) => Value::Constant(ScalarValue::try_from_array(&array, 0).unwrap()),
        constant => constant,
    }
}
