//! Searches in FROM: the rows they find are a view, whose order is that of the scores.
//!
//! ```text
//! rows that WHERE leaves ─scores by id→ the best k ─take→ View with the column `score`
//! ```
//!
//! They are done before there is a plan, so that whatever the query does with their rows, it does with rows of a dataset.

use std::ops::Range;

use datafusion::sql::sqlparser::ast::{Expr, SetExpr, Statement, Value};
use lacus_dataset::{ErrorKind, View};
use lacus_io::boxed;
use lacus_search::{fused, text_scores};

use crate::error::QueryError;
use crate::language::{Parsed, SCORE, Search, fold_constants, joined, parse, text_of};
use crate::run::places;
use crate::scoring::{check_column, note};
use crate::session::{Settings, bind, quoted};

/// Ranks of each ranking that count in a hybrid search, at least.
const LEAST_RANKS: u64 = 100;

/// The most rows of a hybrid search: their scores are part of the view.
const MOST_HYBRID: u64 = 10_000;

/// Does the searches in FROM. Their rows are added to the views, under the keys that stand in the statement.
#[boxed]
pub(crate) async fn open_searches(
    parsed: &mut Parsed,
    views: &mut Vec<(String, View)>,
    settings: &Settings,
) -> Result<(), QueryError> {
    // A search in a query that WHERE asks comes behind the one it is asked for.
    for at in (0..parsed.tables.len()).rev() {
        let Some(search) = parsed.tables[at].search.clone() else { continue };
        let bytes = parsed.tables[at].bytes.clone();
        let base = views.iter().find(|(key, _)| *key == search.of).map(|(_, view)| view.clone());
        let base = base.ok_or_else(|| QueryError::Internal(format!("{:?} is not open", search.of)))?;
        let asked = Asked { parsed, search: &search, bytes, views, settings, base };
        let (view, notes) = asked.searched().await?;
        let key = parsed.tables[at].key.clone();
        parsed.notes.extend(notes);
        views.push((key, view));
    }
    Ok(())
}

struct Asked<'a> {
    parsed: &'a Parsed,
    search: &'a Search,
    bytes: Range<usize>,
    views: &'a [(String, View)],
    settings: &'a Settings,
    base: View,
}

impl Asked<'_> {
    fn wrong(&self, why: impl Into<String>) -> QueryError {
        QueryError::at(why, &self.parsed.text, self.bytes.clone())
    }

    fn text(&self, at: usize, what: &str) -> Result<String, QueryError> {
        let function = self.search.function;
        text_of(&self.search.args[at])
            .ok_or_else(|| self.wrong(format!("{function}: {what}, found `{}`", self.search.args[at])))
    }

    fn column(&self, at: usize) -> Result<String, QueryError> {
        let name = self.text(at, "the column must be a name in quotes")?;
        check_column(&self.base, &name).map_err(|why| self.wrong(why))?;
        Ok(name)
    }

    fn k(&self) -> Result<u64, QueryError> {
        let found = self.search.args.last();
        let number = match found {
            Some(Expr::Value(value)) => match &value.value {
                Value::Number(number, _) => number.parse::<u64>().ok(),
                _ => None,
            },
            _ => None,
        };
        match (number, found) {
            (Some(number), _) if number > 0 => Ok(number),
            (_, Some(found)) => {
                let function = self.search.function;
                Err(self.wrong(format!("{function}: k must be a whole number, 1 at least, found `{found}`")))
            }
            _ => Err(self.wrong("k is missing")),
        }
    }

    async fn searched(&self) -> Result<(View, Vec<String>), QueryError> {
        if self.base.columns().iter().any(|name| name == SCORE) {
            let why = format!(
                "{}: the dataset has a column {SCORE:?} itself; write ORDER BY bm25(column, words) DESC LIMIT k",
                self.search.function
            );
            return Err(self.wrong(why));
        }
        match self.search.function {
            "text_search" => self.by_text().await,
            _ => self.by_both().await,
        }
    }

    /// The places in the base of the rows that are searched; `None` if these are all.
    async fn among(&self) -> Result<Option<Vec<u64>>, QueryError> {
        match &*self.search.rows.body {
            SetExpr::Select(select) if select.selection.is_some() => {
                Ok(Some(self.ask(Statement::Query(self.search.rows.clone())).await?))
            }
            _ => Ok(None),
        }
    }

    /// The places of the rows that a statement gives.
    async fn ask(&self, mut statement: Statement) -> Result<Vec<u64>, QueryError> {
        fold_constants(&mut statement);
        let parsed = Parsed { statement, clauses: Default::default(), ..self.parsed.clone() };
        let bound = bind(parsed, self.views, self.settings).await?;
        let found = places(&bound).await?;
        found.ok_or_else(|| self.wrong(format!("{} needs rows of a dataset", self.search.function)))
    }

    /// The places of the rows that match, best first, `most` at most.
    async fn ranked(&self, column: &str, words: &str, most: u64) -> Result<Vec<u64>, QueryError> {
        let among = self.among().await?;
        let scores = text_scores(self.base.source(), column, words, self.settings.reads_all).await;
        let scores = scores.map_err(|error| self.explained(error))?;
        let rows = self.base.rows();
        let mut found: Vec<(f32, u64)> = match among {
            None => scores.of(rows.iter()).into_iter().zip(0..).collect(),
            Some(places) => {
                let ids = places.iter().map(|place| rows.get(*place).unwrap_or(u64::MAX));
                scores.of(ids).into_iter().zip(places.iter().copied()).collect()
            }
        };
        found.retain(|(score, _)| *score > 0.0);
        let better = |a: &(f32, u64), b: &(f32, u64)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if found.len() > most {
            found.select_nth_unstable_by(most, better);
            found.truncate(most);
        }
        found.sort_unstable_by(better);
        Ok(found.into_iter().map(|(_, place)| place).collect())
    }

    fn explained(&self, error: lacus_dataset::DatasetError) -> QueryError {
        match error.kind() {
            ErrorKind::Invalid | ErrorKind::NotFound => self.wrong(error.to_string()),
            _ => error.into(),
        }
    }

    async fn by_text(&self) -> Result<(View, Vec<String>), QueryError> {
        let (column, words, k) = (self.column(0)?, self.text(1, "the words must be a text")?, self.k()?);
        let found = self.ranked(&column, &words, k).await?;
        let score = format!("bm25({}, {})", quoted(&column), literal(&words));
        let notes = vec![note(&self.base, &column).await?];
        Ok((self.view(&found, score)?, notes))
    }

    async fn by_both(&self) -> Result<(View, Vec<String>), QueryError> {
        let vectors = self.text(0, "the column must be a name in quotes")?;
        let (column, words, k) = (self.column(2)?, self.text(3, "the words must be a text")?, self.k()?);
        if k > MOST_HYBRID {
            return Err(self.wrong(format!("hybrid_search: k is {MOST_HYBRID} at most, found {k}")));
        }
        let ranks = LEAST_RANKS.max(k.saturating_mul(10));
        let by_vector = self.nearest(&vectors, ranks).await?;
        let by_text = self.ranked(&column, &words, ranks).await?;
        let mut found = fused(&[by_vector, by_text]);
        found.truncate(usize::try_from(k).unwrap_or(usize::MAX));
        let places: Vec<u64> = found.iter().map(|(place, _)| *place).collect();
        let rows = self.base.rows();
        let ids: Vec<String> =
            places.iter().map(|place| rows.get(*place).unwrap_or(u64::MAX).to_string()).collect();
        let scores: Vec<String> = found.iter().map(|(_, score)| format!("{score:?}")).collect();
        // Ranks are not to be had from a row: they are part of the view.
        let score = match ids.is_empty() {
            true => "CAST(NULL AS DOUBLE)".to_owned(),
            false => format!(
                "array_element([{}], array_position([{}], row_id()))",
                scores.join(", "),
                ids.join(", ")
            ),
        };
        let notes = vec![note(&self.base, &column).await?];
        Ok((self.view(&places, score)?, notes))
    }

    /// The places of the rows whose vectors are nearest.
    async fn nearest(&self, column: &str, most: u64) -> Result<Vec<u64>, QueryError> {
        let (name, vector) = (quoted(column), &self.search.args[1]);
        let text = format!(
            "SELECT * FROM t WHERE {name} IS NOT NULL ORDER BY cosine_similarity({name}, {vector}) DESC LIMIT {most}"
        );
        let template = parse(&text, false).map_err(|error| self.wrong(error.to_string()))?.statement;
        let Statement::Query(template) = template else { return Err(self.wrong("no query")) };
        let mut query = self.search.rows.clone();
        query.order_by = template.order_by.clone();
        query.limit_clause = template.limit_clause.clone();
        if let (SetExpr::Select(rows), SetExpr::Select(present)) = (&mut *query.body, &*template.body) {
            rows.selection =
                joined([rows.selection.take(), present.selection.clone()].into_iter().flatten().collect());
        }
        self.ask(Statement::Query(query)).await.map_err(|error| match error {
            // Of a text that nobody wrote.
            QueryError::Text { why, .. } => self.wrong(why),
            other => other,
        })
    }

    /// Rows of the base, with their score.
    fn view(&self, places: &[u64], score: String) -> Result<View, QueryError> {
        let mut columns = self.base.columns();
        columns.push(SCORE.to_owned());
        let mut computed = self.base.computed().clone();
        computed.insert(SCORE.to_owned(), score);
        Ok(self.base.take(places)?.with_columns(&columns, &computed)?)
    }
}

/// A text of SQL.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
