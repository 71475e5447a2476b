//! The dataset: a table, and the types of its columns.

use lacus_io::boxed;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use lacus_sample::{Column, ColumnHeader, Form};
use lacus_table::{ColumnRow, RowAxis, Table, ValueColumn};
use serde_json::{Map, Value as Json};

use crate::error::DatasetError;
use crate::links::LinkRoots;

/// What the table keeps as the dtype of a column that has none yet.
const OPEN_DTYPE: &str = "any";

/// A dataset: columns that share rows, and arrays.
#[derive(Debug)]
pub struct Dataset {
    table: Table,
    links: LinkRoots,
    /// Columns of one state of the table, as they were asked for.
    known: Mutex<(u64, HashMap<String, Arc<Column>>)>,
}

impl Dataset {
    /// The dataset that a table holds.
    pub fn new(table: Table) -> Dataset {
        let links = LinkRoots::new(table.home().text());
        Dataset { table, links, known: Mutex::default() }
    }

    /// Its table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Its table, to write arrays to.
    pub fn table_mut(&mut self) -> &mut Table {
        &mut self.table
    }

    /// Its table, for somebody else.
    pub fn into_table(self) -> Table {
        self.table
    }

    /// Becomes the dataset that another table holds: a branch of it, or another state. Where links may lead stays.
    pub fn replace_table(&mut self, table: Table) {
        self.table = table;
        self.forget_columns();
    }

    /// Forgets what is known of columns. Needed where the same version number comes to mean something else: versions inside a
    /// transaction are numbered like those that others make meanwhile.
    pub fn forget_columns(&mut self) {
        *self.known.get_mut().unwrap_or_else(|e| e.into_inner()) = (0, HashMap::new());
    }

    /// Exactly what this one sees, the writes of its transaction included, for as long as it is held. It refuses writes, and
    /// follows the links that this one follows.
    pub fn frozen(&self) -> Dataset {
        Dataset { table: self.table.frozen(), links: self.links.clone(), known: Mutex::default() }
    }

    /// The same, with links that may lead elsewhere.
    pub(crate) fn following(&self, links: LinkRoots) -> Dataset {
        Dataset { links, ..self.frozen() }
    }

    /// Where its links may lead.
    pub fn links(&self) -> &LinkRoots {
        &self.links
    }

    /// Allows links to lead under `root`, for this handle.
    pub fn allow_links(
        &mut self,
        root: &str,
        options: &BTreeMap<String, String>,
    ) -> Result<(), DatasetError> {
        self.links.allow(root, options)
    }

    /// How many rows there are.
    #[boxed]
    pub async fn len(&self) -> Result<u64, DatasetError> {
        Ok(self.table.rows().await?.len())
    }

    /// Whether there is no row.
    #[boxed]
    pub async fn is_empty(&self) -> Result<bool, DatasetError> {
        Ok(self.len().await? == 0)
    }

    /// The names of the columns, in the order in which they were added.
    pub fn column_names(&self) -> Vec<String> {
        self.table.column_names()
    }

    /// The type of a column.
    pub fn column(&self, name: &str) -> Result<Arc<Column>, DatasetError> {
        let state = self.table.state_number();
        let mut known = self.known.lock().unwrap_or_else(|e| e.into_inner());
        if known.0 != state {
            *known = (state, HashMap::new());
        }
        if let Some(column) = known.1.get(name) {
            return Ok(Arc::clone(column));
        }
        let column = Arc::new(parse(name, &self.header(name)?)?);
        known.1.insert(name.to_owned(), Arc::clone(&column));
        Ok(column)
    }

    /// What the table says of a column.
    pub(crate) fn header(&self, name: &str) -> Result<ColumnRow, DatasetError> {
        if self.table.is_column(name) {
            return Ok(self.table.column(name)?.header);
        }
        if self.table.contains(name) {
            return Err(DatasetError::IsArray { name: name.to_owned() });
        }
        Err(DatasetError::NoSuchColumn { name: name.to_owned(), close: self.table.close_to(name) })
    }

    /// The ids of the rows at some positions.
    pub(crate) async fn ids(&self, positions: &[u64]) -> Result<Vec<u64>, DatasetError> {
        let axis = self.table.rows().await?;
        positions.iter().map(|position| id_at(&axis, *position)).collect()
    }
}

pub(crate) fn id_at(axis: &RowAxis, position: u64) -> Result<u64, DatasetError> {
    axis.id(position).ok_or(DatasetError::OutOfBounds {
        row: i64::try_from(position).unwrap_or(i64::MAX),
        rows: axis.len(),
    })
}

/// The type of a column from what the table keeps of it.
pub(crate) fn parse(name: &str, header: &ColumnRow) -> Result<Column, DatasetError> {
    let dtype = if header.dtype == OPEN_DTYPE { String::new() } else { header.dtype.clone() };
    Column::from_header(&ColumnHeader {
        htype: header.htype.clone(),
        dtype,
        shape: header.shape.clone(),
        parameters: Json::Object(header.parameters.clone()).to_string(),
    })
    .map_err(DatasetError::column(name))
}

/// What the table keeps of a column.
pub(crate) fn render(column: &Column, metadata: Option<Json>) -> ColumnRow {
    let header = column.header();
    let parameters: Map<String, Json> = serde_json::from_str(&header.parameters).unwrap_or_default();
    ColumnRow {
        htype: header.htype,
        dtype: if header.dtype.is_empty() { OPEN_DTYPE.to_owned() } else { header.dtype },
        shape: header.shape,
        form: match column.form() {
            Form::Int => ValueColumn::Int,
            Form::Float => ValueColumn::Float,
            Form::Real => ValueColumn::Real,
            Form::Text => ValueColumn::Text,
            Form::Blob => ValueColumn::Data,
        },
        parameters,
        metadata,
    }
}
