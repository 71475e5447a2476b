//! Scores of text search in a plan.
//!
//! ```text
//! bm25(caption, 'cat') ─language→ "bm25"('caption', 'cat', 'dataset', id) ─before it runs→ scores of all rows, by id
//! ```
//!
//! A score depends on all rows, so it cannot be computed from the text of one. The calls that are left in a plan when it is about to
//! run are looked up, their scores are worked out once, and the function is a look into a list. No text passes through the plan.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use arrow::array::{Array, AsArray, Float32Array};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, exec_err, internal_err, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use lacus_dataset::View;
use lacus_search::{TextScores, text_index};

use crate::error::QueryError;
use crate::language::BM25;

/// A search that a plan needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Scored {
    /// The key of the table.
    pub table: String,
    /// The column of texts.
    pub column: String,
    /// What is searched for.
    pub words: String,
}

/// The scores that a query knows.
#[derive(Default)]
pub(crate) struct Scoring {
    known: Mutex<HashMap<Scored, Arc<TextScores>>>,
}

impl fmt::Debug for Scoring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scoring").finish_non_exhaustive()
    }
}

impl Scoring {
    fn known(&self) -> MutexGuard<'_, HashMap<Scored, Arc<TextScores>>> {
        self.known.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Whether scores are known.
    pub(crate) fn has(&self, scored: &Scored) -> bool {
        self.known().contains_key(scored)
    }

    /// Makes scores known.
    pub(crate) fn learn(&self, scored: Scored, scores: Arc<TextScores>) {
        self.known().insert(scored, scores);
    }

    /// The function that looks scores up.
    pub(crate) fn udf(self: &Arc<Self>) -> ScalarUDF {
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::new_from_impl(LookUp { scoring: Arc::clone(self), signature })
    }
}

/// The searches that a plan needs.
pub(crate) fn searches(plan: &LogicalPlan) -> Result<BTreeSet<Scored>> {
    let mut found = BTreeSet::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(ScalarFunction { func, args }) = expr
                    && func.name() == BM25
                {
                    let text = |at: usize| match args.get(at) {
                        Some(Expr::Literal(value, _)) => value.try_as_str().flatten().map(str::to_owned),
                        _ => None,
                    };
                    if let (Some(column), Some(words), Some(table)) = (text(0), text(1), text(2)) {
                        found.insert(Scored { table, column, words });
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// Refuses a column that a view does not have or that is computed, which has no index and no statistics.
pub(crate) fn check_column(view: &View, name: &str) -> Result<(), String> {
    if let Some(text) = view.computed().get(name) {
        return Err(format!("bm25: column {name:?} is computed by {text}; search a column that is stored"));
    }
    if view.columns().iter().any(|known| known == name) {
        return Ok(());
    }
    match view.source().column(name) {
        Ok(_) => {
            Err(format!("column {name:?} is not one of those of this view: {}", view.columns().join(", ")))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// What EXPLAIN says of a search.
pub(crate) async fn note(view: &View, column: &str) -> Result<String, QueryError> {
    let about = text_index(view.source(), column).await?;
    let (rows, covered) = (about.rows, about.covered);
    let tokenizer = &about.tokenizer;
    let problem = about.problem.map_or_else(String::new, |problem| format!("; {problem}"));
    Ok(match (about.segments, rows - covered) {
        (0, _) => {
            format!("text search in {column:?}: no index; the texts of all {rows} rows are read{problem}")
        }
        (_, 0) => {
            format!("text search in {column:?}: the index ({tokenizer}) covers all {rows} rows{problem}")
        }
        (_, rest) => format!(
            "text search in {column:?}: the index ({tokenizer}) covers {covered} of {rows} rows; the texts of {rest} rows are read{problem}"
        ),
    })
}

#[derive(Clone, Debug)]
struct LookUp {
    scoring: Arc<Scoring>,
    signature: Signature,
}

impl PartialEq for LookUp {
    fn eq(&self, other: &LookUp) -> bool {
        Arc::ptr_eq(&self.scoring, &other.scoring)
    }
}

impl Eq for LookUp {}

impl Hash for LookUp {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.scoring).hash(state);
    }
}

impl ScalarUDFImpl for LookUp {
    fn name(&self) -> &str {
        BM25
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float32)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [_, words, _, _] if words.is_string() => Ok(types.to_vec()),
            _ => plan_err!("bm25: the words must be a text"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let words = args.scalar_arguments.get(1).copied().flatten();
        match words.and_then(|words| words.try_as_str()).flatten() {
            Some(_) => Ok(Arc::new(Field::new("bm25", DataType::Float32, false))),
            None => plan_err!("bm25: the words must be a constant text"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [column, words, table, ids] = &args.args[..] else {
            return internal_err!("bm25 of {}", args.args.len());
        };
        let text = |value: &ColumnarValue| match value {
            ColumnarValue::Scalar(value) => value.try_as_str().flatten().map(str::to_owned),
            ColumnarValue::Array(array) if !array.is_empty() => {
                Some(array.as_string_opt::<i32>()?.value(0).to_owned())
            }
            ColumnarValue::Array(_) => None,
        };
        let (Some(column), Some(words), Some(table)) = (text(column), text(words), text(table)) else {
            return exec_err!("bm25: the words must be a constant text");
        };
        let found = self.scoring.known().get(&Scored { table, column, words }).cloned();
        let Some(scores) = found else { return internal_err!("bm25: the scores are not known") };
        let ids = ids.to_array(args.number_rows)?;
        let Some(ids) = ids.as_primitive_opt::<Int64Type>() else {
            return internal_err!("bm25: ids are integers");
        };
        let found =
            scores.of(ids.iter().map(|id| id.and_then(|id| u64::try_from(id).ok()).unwrap_or(u64::MAX)));
        Ok(ColumnarValue::Array(Arc::new(Float32Array::from(found))))
    }
}
