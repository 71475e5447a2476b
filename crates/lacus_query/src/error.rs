//! What can be wrong with a question.

use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use lacus_dataset::{DatasetError, ErrorKind};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The text cannot be read or does not fit the data. The message shows the line, with the place underlined where it is known.
    #[error("{why}{}", Shown(place.as_ref()))]
    Text {
        /// What is wrong, with the nearest names where a name is.
        why: String,
        /// Where, if that is known.
        place: Option<Place>,
    },
    /// A value made the query fail: a subscript out of bounds, a division by zero.
    #[error("{0}")]
    Value(String),
    /// A function of the caller's failed.
    #[error("udf {name}: {}{why}", row.map_or_else(String::new, |row| format!("row {row}: ")))]
    Function {
        /// What it is called in the query.
        name: String,
        /// The place of the row in the view that was asked; `None` if it is not known, as after a join.
        row: Option<u64>,
        /// What went wrong.
        why: String,
        /// What the function itself failed with.
        cause: Option<Arc<dyn Error + Send + Sync>>,
    },
    /// The memory that the query may use is not enough.
    #[error("the query needs more than the {budget} bytes of memory that it may use: {why}")]
    Memory {
        /// What it may use.
        budget: u64,
        /// What wanted more.
        why: String,
    },
    /// A dataset cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// A dataset cannot be read, and several steps of the query met the same error.
    #[error("{0}")]
    SharedDataset(Arc<DatasetError>),
    /// The caller stopped it.
    #[error("the query was cancelled")]
    Cancelled,
    /// A fault of this program.
    #[error("{0}; this is a bug")]
    Internal(String),
}

impl QueryError {
    /// What the caller should do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            QueryError::Text { .. } | QueryError::Value(_) | QueryError::Function { .. } => {
                ErrorKind::Invalid
            }
            QueryError::Memory { .. } => ErrorKind::OutOfMemory,
            QueryError::Dataset(error) => error.kind(),
            QueryError::SharedDataset(error) => error.kind(),
            QueryError::Cancelled => ErrorKind::Unavailable,
            QueryError::Internal(_) => ErrorKind::Internal,
        }
    }

    /// An error somewhere in the text.
    pub fn text(why: impl Into<String>) -> QueryError {
        QueryError::Text { why: why.into(), place: None }
    }

    /// An error at some bytes of the text.
    pub fn at(why: impl Into<String>, text: &str, bytes: Range<usize>) -> QueryError {
        QueryError::Text { why: why.into(), place: Some(Place::new(text, bytes)) }
    }
}

/// A place in the text of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line, from 1 on.
    pub line: usize,
    /// The character in the line, from 1 on.
    pub column: usize,
    /// The whole line.
    pub text: String,
    /// How many characters of it are meant; one at least.
    pub length: usize,
}

impl Place {
    /// The place of some bytes; beyond the end of the text it is the end.
    pub fn new(text: &str, bytes: Range<usize>) -> Place {
        let floor =
            |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let (start, end) = (floor(bytes.start), floor(bytes.end.max(bytes.start)));
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let length = text[start..end.min(line_end).max(start)].chars().count().max(1);
        Place {
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            text: text[line_start..line_end].to_owned(),
            length,
        }
    }
}

/// A place below a message.
struct Shown<'a>(Option<&'a Place>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Place { line, column, text, length }) = self.0 else { return Ok(()) };
        let number = line.to_string();
        let indent = " ".repeat(number.len() + 3 + column - 1);
        write!(f, "\n{number} | {text}\n{indent}{}", "^".repeat(*length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_underlined() {
        let check = |text: &str, bytes: Range<usize>, shown: &str| {
            assert_eq!(QueryError::at("wrong", text, bytes).to_string(), shown);
        };
        check("SELECT lable", 7..12, "wrong\n1 | SELECT lable\n           ^^^^^");
        check("SELECT\n é, x", 10..11, "wrong\n2 |  é, x\n      ^");
        check("SELECT", 6..6, "wrong\n1 | SELECT\n          ^");
        check("a", 50..60, "wrong\n1 | a\n     ^");
    }
}
