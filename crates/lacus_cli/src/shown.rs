//! Commits, differences and answers, for people and for programs.

mod changes;
mod commits;
mod table;
mod values;

pub(crate) use changes::{text as changes_text, to_json as changes_json};
pub(crate) use commits::{Names, date, entry_json, header, to_json as commit_json};
pub(crate) use table::{batch_cells, csv_line, expanded_text, row_json, table_text};
pub(crate) use values::{changed_values, values_json, values_text};
