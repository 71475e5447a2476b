//! `bm25`: how well a text matches words. See `crate::scoring` for what it is replaced by.

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use datafusion::common::{Result, plan_err};

use super::function::{Body, Call, Function, Planned};

#[derive(Debug)]
struct Bm25;

pub(super) fn functions() -> Vec<Function> {
    vec![Function::new(
        "bm25",
        "column, words",
        "How well the text of a row matches some words: the BM25 score of Lucene, over all rows of the dataset at its state, \
         whatever the query keeps of them; 0 if it does not match. Words are any of these, `\"a phrase\"`, `+must` and `-not`. \
         `column` is a column of texts of a dataset in FROM. The index of the column is used where there is one.",
        "SELECT * ORDER BY bm25(caption, 'black cat') DESC LIMIT 10",
        Bm25,
    )]
}

impl Body for Bm25 {
    fn plan(&self, call: &Planned<'_>) -> Result<Field> {
        // The language replaces every call that can be understood.
        plan_err!(
            "{}: expected a column of a dataset in FROM, and words: bm25(caption, 'black cat')",
            call.name
        )
    }

    fn run(&self, call: &Call) -> Result<ArrayRef> {
        plan_err!("{}: it was not planned", call.name)
    }
}
