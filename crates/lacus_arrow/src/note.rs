//! What the metadata of a field says beyond its Arrow type, so that our own import makes the same column again, and what the
//! metadata of a column says of the Arrow type its values came as.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use lacus_sample::{Base, Column, ColumnSpec};
use serde_json::{Value as Json, json};

/// The key of a column's metadata that names the Arrow type its values came as.
pub(crate) const ARROW_KEY: &str = "arrow";

/// The key of our metadata in a field's.
pub(crate) const FIELD_KEY: &str = "lacus";

/// What our own import needs to make the same column, with the column's own metadata.
pub(crate) fn describe(column: &Column, metadata: Option<&Json>, shape_column: Option<String>) -> Json {
    // Links go out as what they lead to.
    let mut note = json!({
        "htype": column.resolved().htype().to_string(),
        "options": column.options(),
        "compression": column.compression().to_string(),
    });
    // A dtype that is noted is declared for the column that is made from it.
    if let Some(dtype) = column.dtype().filter(|_| !column.files_keep_dtype()) {
        note["dtype"] = json!(dtype.name());
    }
    let text = matches!(
        column.htype().base,
        Base::Text | Base::Json | Base::List | Base::Tag | Base::Polygon | Base::Bytes
    );
    if let Some(shape) = column.shape().filter(|_| !text) {
        note["shape"] = json!(shape);
    }
    if let Some(name) = shape_column {
        note["shape_column"] = json!(name);
    }
    if let Some(metadata) = metadata {
        note["metadata"] = metadata.clone();
    }
    note
}

/// What the metadata of a field says.
pub(crate) enum Note {
    /// It is a column of this kind, with this metadata.
    Column {
        spec: Box<ColumnSpec>,
        /// The column that its shapes are in.
        shape_column: Option<String>,
        metadata: Option<Json>,
    },
    /// It belongs to a column.
    Companion,
    /// It was written by somebody else.
    None,
}

impl Note {
    pub(crate) fn of(field: &Field) -> Note {
        let Some(text) = field.metadata().get(FIELD_KEY) else { return Note::None };
        let Ok(note) = serde_json::from_str::<Json>(text) else { return Note::None };
        if note.get("of").is_some() {
            return Note::Companion;
        }
        let text = |key: &str| note.get(key).and_then(Json::as_str).map(str::to_owned);
        let spec = ColumnSpec {
            htype: text("htype"),
            dtype: text("dtype").and_then(|dtype| dtype.parse().ok()),
            shape: note.get("shape").and_then(|shape| serde_json::from_value(shape.clone()).ok()),
            compression: text("compression"),
            options: note.get("options").and_then(Json::as_object).cloned().unwrap_or_default(),
        };
        match spec.htype {
            Some(_) => Note::Column {
                spec: Box::new(spec),
                shape_column: text("shape_column"),
                metadata: note.get("metadata").filter(|metadata| metadata.is_object()).cloned(),
            },
            None => Note::None,
        }
    }
}

/// The Arrow type that a column's metadata names.
pub(crate) fn came_as(metadata: Option<&Json>) -> Option<DataType> {
    metadata?.get(ARROW_KEY)?.as_str()?.parse().ok()
}

/// The type as it is noted: everything that may be missing may be, and items of lists are called `element`.
pub(crate) fn kept(data_type: &DataType) -> DataType {
    let element = |of: &Field| Arc::new(Field::new("element", kept(of.data_type()), true));
    match data_type {
        DataType::List(of) => DataType::List(element(of)),
        DataType::FixedSizeList(of, size) => DataType::FixedSizeList(element(of), *size),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|f| Field::new(f.name(), kept(f.data_type()), true)).collect())
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                let key = Field::new("key", kept(fields[0].data_type()), false);
                let value = Field::new("value", kept(fields[1].data_type()), true);
                let entries = DataType::Struct(vec![key, value].into());
                DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
            }
            _ => data_type.clone(),
        },
        other => other.clone(),
    }
}
