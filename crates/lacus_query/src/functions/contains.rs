//! `contains`: whether a value is in a tensor, a list or a text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, plan_err};
use datafusion::functions::string;
use datafusion::functions_nested::array_has::array_has_udf;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use lacus_arrow::Mapping;

use super::function::{Body, Call, Function, Planned};
use crate::tensors::{Kind, in_order, loaded, loaded_complex};

#[derive(Debug)]
struct Contains;

pub(super) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "contains",
            "x, value",
            "Whether one of the elements of a tensor, or of the items of a list, is equal to a value; whether a text has another in it.",
            "SELECT * FROM photos WHERE contains(labels, 3)",
            Contains,
        )
        .plain(string::contains)
        .of_numbers(),
    ]
}

impl Body for Contains {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        if call.kind(0) == Kind::List {
            fields_with_udf(call.fields, array_has_udf().as_ref())?;
            return Ok(call.plain_field(DataType::Boolean));
        }
        call.operand(0)?;
        if is_class_name(call.fields) {
            return Ok(call.plain_field(DataType::Boolean));
        }
        match call.operand(1)?.dims.rank() {
            Some(0) => Ok(call.plain_field(DataType::Boolean)),
            _ => plan_err!("{}: expected a number, found {}", call.name, call.describe(1)),
        }
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        if Kind::of(&call.fields[0]) == Kind::List {
            let arg_fields = fields_with_udf(&call.fields, array_has_udf().as_ref())?;
            let mut args = Vec::new();
            for (at, field) in arg_fields.iter().enumerate() {
                args.push(ColumnarValue::Array(cast(&call.array(at)?, field.data_type())?));
            }
            let result = array_has_udf().invoke_with_args(ScalarFunctionArgs {
                args,
                arg_fields,
                number_rows: call.rows,
                return_field: Arc::clone(&call.output),
                config_options: Arc::new(ConfigOptions::default()),
            })?;
            return result.into_array(call.rows);
        }
        if is_class_name(&call.fields) {
            return by_name(call);
        }
        let (tensors, values) = (call.tensors(0)?, call.tensors(1)?);
        let mut found = Vec::with_capacity(call.rows);
        for row in 0..call.rows {
            let (Some(tensor), Some(value)) = (tensors.get(row)?, values.get(row)?) else {
                found.push(None);
                continue;
            };
            let all = |row: &lacus_tensor::TensorRef<'_>| loaded_complex(row.dtype(), &in_order(row));
            let (tensor, value) = (all(&tensor.view()), all(&value.view()));
            found.push(Some(value.first().is_some_and(|value| tensor.contains(value))));
        }
        Ok(Arc::new(BooleanArray::from(found)))
    }
}

/// Whether the name of a class is looked for among several labels.
fn is_class_name(fields: &[FieldRef]) -> bool {
    let is_text = matches!(fields[1].data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    is_text && Mapping::noted(&fields[0]).is_some_and(|(column, _)| !column.class_names().is_empty())
}

/// Whether one of the labels of a row has a name.
fn by_name(call: &Call) -> Result<ArrayRef> {
    let column = Mapping::noted(&call.fields[0]);
    let names = column.as_ref().map_or(&[][..], |(column, _)| column.class_names());
    let (tensors, wanted) = (call.tensors(0)?, call.texts(1)?);
    let mut found = Vec::with_capacity(call.rows);
    for row in 0..call.rows {
        let Some(labels) = tensors.get(row)?.filter(|_| wanted.is_valid(row)) else {
            found.push(None);
            continue;
        };
        let number = names.iter().position(|name| name == wanted.value(row));
        let labels = loaded::<i64>(labels.view().dtype(), &in_order(&labels.view()));
        found.push(Some(number.is_some_and(|number| labels.contains(&(number as i64)))));
    }
    Ok(Arc::new(BooleanArray::from(found)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_error, fixed, list, number, text, texts};
    use lacus_tensor::DType;

    #[test]
    fn tensors_lists_and_texts() {
        let tensor = || fixed(DType::U8, &[3], &[1.0, 2.0, 3.0]);
        check("contains", &[tensor(), 3.into()], "true");
        check("contains", &[tensor(), 4.into()], "false");
        check("contains", &[tensor(), 2.5.into()], "false");
        check("contains", &[list(&[1.0, 2.0]), 2.into()], "true");
        check("contains", &[number(DType::I64, 3.0), 3.into()], "true");
        check("contains", &[number(DType::I64, 3.0), 4.into()], "false");
        check("contains", &[texts("a cat"), text("cat")], "true");
        check("contains", &[texts("a cat"), text("dog")], "false");
        check_error("contains", &[tensor(), tensor()], "contains: expected a number, found a tensor");
    }
}
