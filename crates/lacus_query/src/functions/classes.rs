//! Class labels: their numbers and their names.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, ListBuilder, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, plan_err};
use lacus_arrow::Mapping;

use super::function::{Body, Call, Function, Planned};
use crate::tensors::{Kind, in_order, loaded};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    Id,
    Name,
}

pub(super) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "class_id",
            "label",
            "The number of a class: the place of its name among those of the column, from 0 on.",
            "SELECT class_id(label) FROM photos",
            Label::Id,
        ),
        Function::new(
            "class_name",
            "label",
            "The name of a class; of a number without a name, the number. Of several labels in a row, a list of names.",
            "SELECT class_name(labels) FROM photos",
            Label::Name,
        ),
    ]
}

/// The names of the classes of a column.
fn names(field: &Field) -> Vec<String> {
    Mapping::noted(field).map(|(column, _)| column.class_names().to_vec()).unwrap_or_default()
}

fn name(names: &[String], id: i64) -> String {
    usize::try_from(id).ok().and_then(|id| names.get(id).cloned()).unwrap_or_else(|| id.to_string())
}

impl Body for Label {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        let kind = call.kind(0);
        match (self, &kind) {
            (Label::Id, Kind::Class(_) | Kind::Null) => Ok(call.plain_field(DataType::Int64)),
            (Label::Id, Kind::Number(dtype)) if dtype.is_integer() => Ok(call.plain_field(DataType::Int64)),
            (Label::Name, Kind::Class(_) | Kind::Null) => Ok(call.plain_field(DataType::Utf8)),
            (Label::Name, Kind::Number(dtype)) if dtype.is_integer() => Ok(call.plain_field(DataType::Utf8)),
            (Label::Name, Kind::Tensor(tensor))
                if tensor.dtype.is_integer() && tensor.dims.rank() == Some(1) =>
            {
                Ok(call.plain_field(DataType::new_list(DataType::Utf8, true)))
            }
            _ => plan_err!("{}: expected a class label, found {}", call.name, call.describe(0)),
        }
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        let names = names(&call.fields[0]);
        match (self, Kind::of(&call.fields[0])) {
            (Label::Id, Kind::Number(_) | Kind::Null) => Ok(Arc::new(call.ints(0)?)),
            (Label::Id, _) => {
                let texts = call.texts(0)?;
                let places: std::collections::HashMap<&str, i64> =
                    names.iter().enumerate().map(|(place, name)| (name.as_str(), place as i64)).collect();
                let mut found = Vec::with_capacity(call.rows);
                for row in 0..call.rows {
                    found.push(match texts.is_null(row) {
                        true => None,
                        // A number without a name is written out in the column.
                        false => {
                            match places.get(texts.value(row)).copied().or(texts.value(row).parse().ok()) {
                                Some(id) => Some(id),
                                None => {
                                    return call
                                        .fail(format!("{:?} is no class of the column", texts.value(row)));
                                }
                            }
                        }
                    });
                }
                Ok(Arc::new(Int64Array::from(found)))
            }
            (Label::Name, Kind::Number(_)) => {
                let ids = call.ints(0)?;
                Ok(Arc::new(ids.iter().map(|id| id.map(|id| name(&names, id))).collect::<StringArray>()))
            }
            (Label::Name, Kind::Tensor(_)) => {
                let tensors = call.tensors(0)?;
                let mut lists = ListBuilder::new(StringBuilder::new());
                for row in 0..call.rows {
                    let Some(labels) = tensors.get(row)? else {
                        lists.append_null();
                        continue;
                    };
                    let labels = labels.view();
                    for id in loaded::<i64>(labels.dtype(), &in_order(&labels)) {
                        lists.values().append_value(name(&names, id));
                    }
                    lists.append(true);
                }
                Ok(Arc::new(lists.finish()))
            }
            (Label::Name, _) => Ok(Arc::new(call.texts(0)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Value, check, check_error, column, number};
    use crate::tensors::tensor_of;
    use lacus_arrow::Cell;
    use lacus_sample::ColumnSpec;
    use lacus_tensor::DType;

    fn label(cell: Cell, shape: Option<Vec<Option<u64>>>) -> Value {
        let mut spec = ColumnSpec {
            htype: Some("class_label".to_owned()),
            shape,
            dtype: Some(DType::I32),
            ..ColumnSpec::default()
        };
        spec.options.insert("class_names".to_owned(), serde_json::json!(["cat", "dog"]));
        column(&spec, cell)
    }

    #[test]
    fn numbers_and_names() {
        check("class_id", &[label(Cell::scalar(DType::I32, &1i32.to_le_bytes()), None)], "1");
        check("class_name", &[label(Cell::scalar(DType::I32, &1i32.to_le_bytes()), None)], "dog");
        check("class_id", &[label(Cell::scalar(DType::I32, &7i32.to_le_bytes()), None)], "7");
        let several = Cell::of_tensor(tensor_of(DType::I32, &[3], &[1i64, 0, 5]).unwrap());
        check("class_name", &[label(several, Some(vec![None]))], "[dog, cat, 5]");
        check("class_id", &[number(DType::I32, 3.0)], "3");
        check_error("class_id", &["cat".into()], "class_id: expected a class label, found text");
    }
}
