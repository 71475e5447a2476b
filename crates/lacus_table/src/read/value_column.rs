//! How the rows of a column hold its samples.

use serde_json::{Map, Value as Json};

use crate::error::TableError;
use crate::log::snapshot::HeaderRow;

/// Which of the table's columns holds the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueColumn {
    /// `int`.
    Int,
    /// `float`.
    Float,
    /// `real`.
    Real,
    /// `text`.
    Text,
    /// `data`, with `codec`, `crc`, `bytes`, `shape`.
    Data,
}

/// The key of a header row's parameters that says so.
const KEY: &str = "form";

impl ValueColumn {
    /// Its name in the header row.
    pub fn name(self) -> &'static str {
        match self {
            ValueColumn::Int => "int",
            ValueColumn::Float => "float",
            ValueColumn::Real => "real",
            ValueColumn::Text => "text",
            ValueColumn::Data => "data",
        }
    }

    /// What the header row of a column says.
    pub(crate) fn of(header: &HeaderRow) -> Result<ValueColumn, TableError> {
        let parameters: Map<String, Json> = serde_json::from_str(&header.parameters).unwrap_or_default();
        let name = parameters.get(KEY).and_then(Json::as_str).unwrap_or_default();
        let all =
            [ValueColumn::Int, ValueColumn::Float, ValueColumn::Real, ValueColumn::Text, ValueColumn::Data];
        all.into_iter().find(|form| form.name() == name).ok_or_else(|| TableError::NewerFormat {
            what: format!("a column is kept in the form {name:?}, which this Lacus does not know"),
        })
    }

    /// Parameters with the form among them.
    pub(crate) fn note(self, parameters: &Map<String, Json>) -> String {
        let mut noted = parameters.clone();
        noted.insert(KEY.to_owned(), self.name().into());
        Json::Object(noted).to_string()
    }
}
