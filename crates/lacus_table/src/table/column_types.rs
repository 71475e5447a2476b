//! What a merge asks of those who know the types of samples.

use std::fmt::Debug;

use futures::future::BoxFuture;

use crate::error::TableError;
use crate::table::Table;
use crate::table::rows::ColumnRow;
use crate::write::stage_rows::ColumnWrite;

/// Somebody who knows the types of samples: the table does not.
pub trait ColumnTypes: Debug + Send + Sync {
    /// Whether the types of a column that two sides changed fit together, and what they become.
    fn join(&self, base: Option<&ColumnRow>, ours: &ColumnRow, theirs: &ColumnRow) -> Join;

    /// Samples of a column of `table`, by the ids of their rows (sorted), as a column of the type `to` holds them. Those that are
    /// missing are left out.
    fn rewritten<'a>(
        &'a self,
        table: &'a Table,
        column: &'a str,
        to: &'a ColumnRow,
        ids: Vec<u64>,
    ) -> BoxFuture<'a, Result<ColumnWrite<'static>, TableError>>;
}

/// What becomes of two types of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Join {
    /// They do not fit together.
    Apart {
        /// What of them does not, in plain words, where that is known.
        what: Option<&'static str>,
    },
    /// One type for the samples of both.
    One {
        /// What the column is then. Samples of ours are as it says.
        header: Box<ColumnRow>,
        /// Whether samples of theirs have to be rewritten for it.
        rewrites: bool,
    },
}
