//! Clauses that SQL does not have, done one after the other.
//!
//! ```text
//! FROM, WHERE ─→ EXPAND BY ─→ GROUP BY without aggregates │ UNGROUP BY ─→ ORDER BY ─→ ARRANGE BY ─→ SAMPLE BY ─→ LIMIT
//! ```
//!
//! What SQL has is asked as SQL, of the rows that the step before left. As long as these are rows of a dataset, they are a view, and
//! so is the answer. Values that a step needs (weights, keys) are columns that are computed and left out again.

use std::collections::BTreeSet;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt64Array};
use arrow::compute::{cast, concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, LimitClause, ObjectName, OrderBy, Query, Select, SelectItem, SetExpr,
    Statement, TableFactor, Value, WildcardAdditionalOptions,
};
use lacus_dataset::{Draw, View, drawn};
use lacus_io::boxed;

use crate::answer::{Answer, Table};
use crate::error::QueryError;
use crate::language::{
    Clause, ExpandBy, ID, Parsed, ROW, SampleBy, WITH_ROWS, alias_of, mentions, table_named,
};
use crate::rows::chosen;
use crate::run::{computed, places, plan_text, table, view};
use crate::session::{Bound, Settings, bind, bind_rows};
use crate::stacking::{Groups, elements, groups, stack, unstack};

/// The table that an expanded view is.
const EXPANDED: &str = "\u{1}expanded";

/// The name of a table that is not a dataset.
const ANSWER: &str = "answer";

/// A question that is answered in steps.
pub(crate) struct Steps {
    parsed: Parsed,
    views: Vec<(String, View)>,
    settings: Settings,
    /// What GROUP BY says, if the rows of a group become sequences.
    keys: Option<Vec<Expr>>,
    order_by: Option<OrderBy>,
    limit: Option<LimitClause>,
    /// What was done, for EXPLAIN.
    done: Vec<String>,
}

/// A question that is understood.
pub(crate) enum Understood {
    /// It is SQL alone.
    Plain(Box<Bound>),
    /// It is not.
    InSteps(Box<Steps>),
}

/// Understands a question. A GROUP BY that SQL refuses because columns are neither keys nor aggregates asks for sequences.
#[boxed]
pub(crate) async fn understand(
    parsed: Parsed,
    views: Vec<(String, View)>,
    settings: Settings,
) -> Result<Understood, QueryError> {
    let has_clauses = !parsed.clauses.is_empty();
    let keys = match &parsed.clauses.ungroup_by {
        Some(_) => None,
        None => sequence_keys(&parsed.statement),
    };
    if has_clauses && keys.is_none() {
        return Ok(Understood::InSteps(Box::new(Steps::new(parsed, views, settings, None)?)));
    }
    let mut plain = parsed.clone();
    plain.clauses = Default::default();
    let refused = match bind(plain, &views, &settings).await {
        Ok(bound) if !has_clauses => return Ok(Understood::Plain(Box::new(bound))),
        Ok(_) => return Ok(Understood::InSteps(Box::new(Steps::new(parsed, views, settings, None)?))),
        Err(error) => error,
    };
    if keys.is_none() {
        return Err(refused);
    }
    let steps = Steps::new(parsed, views, settings, keys)?;
    match steps.has_rows().await {
        true => Ok(Understood::InSteps(Box::new(steps))),
        false => Err(refused),
    }
}

/// The keys of a GROUP BY whose rows may be meant to become sequences.
fn sequence_keys(statement: &Statement) -> Option<Vec<Expr>> {
    let Statement::Query(query) = statement else { return None };
    let SetExpr::Select(select) = &*query.body else { return None };
    let GroupByExpr::Expressions(keys, modifiers) = &select.group_by else { return None };
    let is_plain = modifiers.is_empty() && select.having.is_none() && select.distinct.is_none();
    if keys.is_empty() || !is_plain {
        return None;
    }
    Some(keys.iter().map(|key| written_out(key, &select.projection)).collect())
}

/// What a key of GROUP BY means: the number or the alias of a column that is selected, or itself.
fn written_out(key: &Expr, items: &[SelectItem]) -> Expr {
    let of = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
        _ => None,
    };
    let meant = match key {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => {
                number.parse::<usize>().ok().and_then(|at| items.get(at.checked_sub(1)?)).and_then(of)
            }
            _ => None,
        },
        Expr::Identifier(name) => items.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if alias.value == name.value => Some(expr.clone()),
            _ => None,
        }),
        _ => None,
    };
    meant.unwrap_or_else(|| key.clone())
}

/// Rows on their way through the steps.
enum Rows {
    View(View),
    Table(RecordBatch),
}

impl Rows {
    fn len(&self) -> u64 {
        match self {
            Rows::View(view) => view.len(),
            Rows::Table(rows) => rows.num_rows() as u64,
        }
    }

    fn take(&self, places: &[u64]) -> Result<Rows, QueryError> {
        Ok(match self {
            Rows::View(view) => Rows::View(view.take(places)?),
            Rows::Table(rows) => {
                let places = UInt64Array::from(places.to_vec());
                Rows::Table(take_record_batch(rows, &places).map_err(|error| value(error.to_string()))?)
            }
        })
    }
}

fn value(why: impl Into<String>) -> QueryError {
    QueryError::Value(why.into())
}

impl Steps {
    fn new(
        mut parsed: Parsed,
        views: Vec<(String, View)>,
        settings: Settings,
        keys: Option<Vec<Expr>>,
    ) -> Result<Steps, QueryError> {
        let (order_by, limit) = match &mut parsed.statement {
            Statement::Query(query) => (query.order_by.take(), query.limit_clause.take()),
            _ => (None, None),
        };
        let steps = Steps { parsed, views, settings, keys, order_by, limit, done: Vec::new() };
        steps.select()?;
        Ok(steps)
    }

    fn select(&self) -> Result<&Select, QueryError> {
        match &self.parsed.statement {
            Statement::Query(query) => match &*query.body {
                SetExpr::Select(select) => Ok(select),
                _ => Err(QueryError::text("these clauses belong to a SELECT")),
            },
            _ => Err(QueryError::text("not a query")),
        }
    }

    fn query_mut(parsed: &mut Parsed) -> Result<(&mut Select, &mut Option<OrderBy>), QueryError> {
        let Statement::Query(query) = &mut parsed.statement else {
            return Err(QueryError::text("not a query"));
        };
        let Query { body, order_by, .. } = &mut **query;
        match &mut **body {
            SetExpr::Select(select) => Ok((select, order_by)),
            _ => Err(QueryError::text("these clauses belong to a SELECT")),
        }
    }

    fn wrong(&self, why: impl Into<String>, bytes: &Range<usize>) -> QueryError {
        QueryError::at(why, &self.parsed.text, bytes.clone())
    }

    /// The query with other columns, and no clauses but FROM, WHERE and, if it is to be, ORDER BY.
    fn part(&self, items: Vec<SelectItem>, is_ordered: bool) -> Result<Parsed, QueryError> {
        let mut part = self.parsed.clone();
        part.clauses = Default::default();
        let (select, order_by) = Steps::query_mut(&mut part)?;
        select.projection = items;
        select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
        *order_by = self.order_by.clone().filter(|_| is_ordered);
        Ok(part)
    }

    /// Whether the query without its GROUP BY gives rows of a dataset.
    async fn has_rows(&self) -> bool {
        let Ok(part) = self.select().and_then(|select| self.part(select.projection.clone(), false)) else {
            return false;
        };
        match bind(part, &self.views, &self.settings).await {
            Ok(bound) => chosen(&bound).is_some(),
            Err(_) => false,
        }
    }

    /// The answer.
    #[boxed]
    pub(crate) async fn answer(mut self) -> Result<Answer, QueryError> {
        let rows = self.run().await?;
        Ok(match rows {
            Rows::View(view) => Answer::View(view),
            Rows::Table(rows) => Answer::Table(Table::new(rows.schema(), vec![rows])),
        })
    }

    /// How it is found; with `analyze`, by finding it.
    #[boxed]
    pub(crate) async fn explained(mut self, analyze: bool, verbose: bool) -> Result<String, QueryError> {
        let part = match self.keys.is_none() && self.parsed.clauses.ungroup_by.is_none() {
            true => self.plain_query(),
            false => self.part(self.select()?.projection.clone(), false)?,
        };
        let bound = bind(part, &self.views, &self.settings).await?;
        let first = plan_text(&bound, analyze, verbose).await?;
        let mut text = format!("these steps read the rows\n{}\n", first.trim_end());
        if analyze {
            self.run().await?;
            self.done.iter().for_each(|step| text += &format!("then {step}\n"));
        } else {
            self.clauses().iter().for_each(|clause| text += &format!("then {clause}\n"));
        }
        Ok(text)
    }

    /// The clauses as the user wrote them, in the order in which they are done.
    fn clauses(&self) -> Vec<String> {
        let clauses = &self.parsed.clauses;
        let written = |bytes: &Range<usize>| self.parsed.text.get(bytes.clone()).unwrap_or("").to_owned();
        let mut found = Vec::new();
        found.extend(clauses.expand_by.iter().map(|clause| written(&clause.bytes)));
        found.extend(clauses.ungroup_by.iter().map(|clause| written(&clause.bytes)));
        if let Some(keys) = &self.keys {
            let keys: Vec<String> = keys.iter().map(Expr::to_string).collect();
            found.push(format!("GROUP BY {}: the rows of a group become sequences", keys.join(", ")));
        }
        found.extend(clauses.arrange_by.iter().map(|clause| written(&clause.bytes)));
        found.extend(clauses.sample_by.iter().map(|clause| written(&clause.bytes)));
        found.extend(self.limit.iter().map(|limit| limit.to_string().trim().to_owned()));
        found
    }

    fn note(&mut self, what: &str, rows: u64) {
        self.done.push(format!("{what}: {rows} rows"));
    }

    async fn run(&mut self) -> Result<Rows, QueryError> {
        if let Some(expand) = self.parsed.clauses.expand_by.take() {
            self.expand(&expand).await?;
        }
        let apart = self.parsed.clauses.ungroup_by.take();
        let keys = self.keys.take();
        let (mut rows, is_ordered) = match (apart, keys) {
            (Some(apart), _) => (Rows::Table(self.ungrouped(&apart).await?), false),
            (_, Some(keys)) => (Rows::Table(self.grouped(&keys).await?), false),
            _ => (self.plain().await?, true),
        };
        if !is_ordered && self.order_by.is_some() {
            rows = self.ordered(rows).await?;
        }
        if let Some(arrange) = self.parsed.clauses.arrange_by.take() {
            let keys = self.values(&rows, arrange.value.clone()).await?;
            let Groups { order, .. } = groups(&keys).map_err(|why| self.wrong(why, &arrange.bytes))?;
            rows = rows.take(&order)?;
            self.note("ARRANGE BY", rows.len());
        }
        match self.parsed.clauses.sample_by.take() {
            None => self.limited(rows),
            Some(sample) if sample.value.after_limit => {
                let rows = self.limited(rows)?;
                self.sampled(rows, &sample).await
            }
            Some(sample) => {
                let rows = self.sampled(rows, &sample).await?;
                self.limited(rows)
            }
        }
    }

    /// From now on the query reads the rows that WHERE found and their neighbours.
    async fn expand(&mut self, clause: &Clause<ExpandBy>) -> Result<(), QueryError> {
        let of_one = "EXPAND BY needs one dataset in FROM: rows of a join have no neighbours";
        let (key, _) = self.source().ok_or_else(|| self.wrong(of_one, &clause.bytes))?;
        if mentions(&self.parsed.statement, ROW) {
            let why = "EXPAND BY adds rows, so `row_number()` would mean two things; `row_id()` means one";
            return Err(self.wrong(why, &clause.bytes));
        }
        let mut asked = self.part(vec![everything()], false)?;
        let (select, _) = Steps::query_mut(&mut asked)?;
        only_where(select);
        let bound = bind(asked, &self.views, &self.settings).await?;
        let found = places(&bound).await?;
        // Cells of an array are not rows of the dataset, and none of the tables that were opened.
        let base = bound.table(&key).map(|opened| opened.view.clone());
        let (Some(found), Some(base)) = (found, base) else {
            return Err(self.wrong(of_one, &clause.bytes));
        };
        let rows = with_neighbours(&found, &clause.value, base.len());
        self.note("EXPAND BY", rows.len() as u64);
        self.views.push((EXPANDED.to_owned(), base.take(&rows)?));
        let (select, _) = Steps::query_mut(&mut self.parsed)?;
        select.selection = None;
        if let Some(TableFactor::Table { name, alias, .. }) =
            select.from.first_mut().map(|from| &mut from.relation)
        {
            let known_as = name.0.last().and_then(|part| part.as_ident()).cloned();
            let known_as = known_as.unwrap_or_else(|| Ident::new("dataset"));
            alias.get_or_insert_with(|| alias_of(known_as));
            let has_ids = name.0.last().and_then(|part| part.as_ident());
            let has_ids = has_ids.is_some_and(|name| name.value.ends_with(WITH_ROWS));
            let key = format!("{EXPANDED}{}", if has_ids { WITH_ROWS } else { "" });
            *name = ObjectName::from(vec![Ident::with_quote('"', key)]);
        }
        Ok(())
    }

    /// The key of the only table in FROM, and what it is called there.
    fn source(&self) -> Option<(String, String)> {
        let [from] = &self.select().ok()?.from[..] else { return None };
        let TableFactor::Table { name, alias, args: None, .. } = &from.relation else { return None };
        if !from.joins.is_empty() {
            return None;
        }
        let key = &name.0.last()?.as_ident()?.value;
        let key = key.strip_suffix(WITH_ROWS).unwrap_or(key).to_owned();
        let known_as = alias.as_ref().map_or_else(|| key.clone(), |alias| alias.name.value.clone());
        Some((key, known_as))
    }

    /// What the query asks in words of SQL, but for LIMIT.
    fn plain_query(&self) -> Parsed {
        let mut parsed = self.parsed.clone();
        parsed.clauses = Default::default();
        if let Statement::Query(query) = &mut parsed.statement {
            query.order_by = self.order_by.clone();
        }
        parsed
    }

    /// What rows of an answer are called in expressions.
    fn known_as(&self) -> String {
        self.source().map_or_else(|| ANSWER.to_owned(), |(_, known_as)| known_as)
    }

    /// The rows that SQL gives, in the order that it asks for.
    async fn plain(&mut self) -> Result<Rows, QueryError> {
        let bound = bind(self.plain_query(), &self.views, &self.settings).await?;
        let rows = match view(&bound).await? {
            Some(view) => Rows::View(view),
            None => Rows::Table(whole(&table(&bound).await?)?),
        };
        self.note("SELECT", rows.len());
        Ok(rows)
    }

    /// The rows of the query with hidden columns behind them.
    async fn with_hidden(&self, hidden: &[Expr]) -> Result<View, QueryError> {
        let mut items = self.select()?.projection.clone();
        items.extend(hidden.iter().enumerate().map(|(place, expr)| hidden_item(place, expr)));
        let bound = bind(self.part(items, false)?, &self.views, &self.settings).await?;
        let needs_one = "GROUP BY without aggregates and UNGROUP BY need rows of one dataset";
        view(&bound).await?.ok_or_else(|| QueryError::text(needs_one))
    }

    /// A row for each group, with sequences of what its rows have.
    async fn grouped(&mut self, keys: &[Expr]) -> Result<RecordBatch, QueryError> {
        let view = self.with_hidden(keys).await?;
        let columns = shown(&view);
        let values = computed(&view, &hidden_names(keys.len()), &all(view.len()), &self.settings).await?;
        let Groups { order, ends } = groups(values.columns()).map_err(value)?;
        let rows = computed(&view.select(&columns)?, &columns, &order, &self.settings).await?;
        let same = key_names(keys, &self.select()?.projection);
        let stacked = stack(&rows, &ends, &|name| same.contains(name)).map_err(value)?;
        self.note("GROUP BY", stacked.num_rows() as u64);
        Ok(stacked)
    }

    /// A row for each element of sequences.
    async fn ungrouped(&mut self, clause: &Clause<Vec<Expr>>) -> Result<RecordBatch, QueryError> {
        let wrong = |why: String| self.wrong(format!("UNGROUP BY: {why}"), &clause.bytes);
        let names: Vec<String> = clause.value.iter().filter_map(column_name).collect();
        let select = self.select()?;
        if !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty()) {
            return Err(wrong("rows are either grouped or ungrouped, not both".to_owned()));
        }
        let view = self.with_hidden(&clause.value).await?;
        let columns = shown(&view);
        let rows = computed(&view, &view.columns(), &all(view.len()), &self.settings).await?;
        let schema = rows.schema();
        let mut parts = Vec::new();
        for (hidden, name) in hidden_names(names.len()).iter().zip(&names) {
            let place = schema.index_of(hidden).map_err(|error| value(error.to_string()))?;
            let field = schema.field(place).clone().with_name(name);
            let found = elements(&field, rows.column(place)).map_err(wrong)?;
            parts.push((name, found));
        }
        let Some((first, counted)) = parts.first() else {
            return Err(wrong("it names no column".to_owned()));
        };
        for (name, other) in &parts[1..] {
            let differs = counted.counts.iter().zip(&other.counts).position(|(ours, theirs)| ours != theirs);
            if let Some(row) = differs {
                let (ours, theirs) = (counted.counts[row], other.counts[row]);
                let why = format!("row {row} has {ours} of {first:?} and {theirs} of {name:?}");
                return Err(wrong(why));
            }
        }
        let wanted: Vec<usize> = columns.iter().filter_map(|name| schema.index_of(name).ok()).collect();
        let rows = rows.project(&wanted).map_err(|error| value(error.to_string()))?;
        let items = self.select()?.projection.clone();
        let apart = |name: &str| {
            let found = parts.iter().find(|(known, _)| is_shown_as(known, name, &items));
            found.map(|(_, found)| (found.field.clone().with_name(name), ArrayRef::clone(&found.array)))
        };
        let rows = unstack(&rows, &counted.counts, &apart).map_err(value)?;
        self.note("UNGROUP BY", rows.num_rows() as u64);
        Ok(rows)
    }

    /// The rows of a table in the order that the query asks for.
    async fn ordered(&mut self, rows: Rows) -> Result<Rows, QueryError> {
        let Rows::Table(rows) = rows else { return Ok(rows) };
        let mut asked = self.part(vec![everything()], true)?;
        without_with(&mut asked);
        let known_as = self.known_as();
        let (select, _) = Steps::query_mut(&mut asked)?;
        select.selection = None;
        only_from(select, &known_as);
        let bound = bind_rows(asked, &known_as, rows, &self.settings).await?;
        Ok(Rows::Table(whole(&table(&bound).await?)?))
    }

    /// Values of expressions for each row.
    async fn values(&self, rows: &Rows, exprs: Vec<Expr>) -> Result<Vec<ArrayRef>, QueryError> {
        let names = hidden_names(exprs.len());
        let wants_ids = exprs.iter().any(|expr| mentions(expr, ID));
        let items = exprs.iter().enumerate().map(|(place, expr)| hidden_item(place, expr));
        let mut asked = self.part(items.collect(), false)?;
        let (select, _) = Steps::query_mut(&mut asked)?;
        select.selection = None;
        only_where(select);
        let found = match rows {
            Rows::View(view) => {
                // The expressions are about the dataset, whatever columns the answer has.
                let known_as = self.known_as();
                match wants_ids {
                    true => only_from(select, &format!("{known_as}{WITH_ROWS}")),
                    false => only_from(select, &known_as),
                }
                if let Some(TableFactor::Table { alias, .. }) =
                    select.from.first_mut().map(|from| &mut from.relation).filter(|_| wants_ids)
                {
                    *alias = Some(alias_of(Ident::with_quote('"', &*known_as)));
                }
                let mut columns = view.source().column_names();
                columns.extend(
                    view.computed()
                        .keys()
                        .filter(|name| !columns.contains(name))
                        .cloned()
                        .collect::<Vec<_>>(),
                );
                let view = view.with_columns(&columns, view.computed())?;
                let views = [(known_as, view)];
                table(&bind(asked, &views, &self.settings).await?).await?
            }
            Rows::Table(_) if wants_ids => {
                let why =
                    "`row_id()` and `random(seed)` need rows of a dataset: this query answers with a table";
                return Err(QueryError::text(why));
            }
            Rows::Table(rows) => {
                let known_as = self.known_as();
                only_from(select, &known_as);
                without_with(&mut asked);
                table(&bind_rows(asked, &known_as, rows.clone(), &self.settings).await?).await?
            }
        };
        let found = whole(&found)?;
        let column = |name: &String| {
            let array = found.column_by_name(name).cloned();
            array.ok_or_else(|| QueryError::Internal(format!("no column {name:?}")))
        };
        names.iter().map(column).collect()
    }

    async fn sampled(&mut self, rows: Rows, clause: &Clause<SampleBy>) -> Result<Rows, QueryError> {
        let SampleBy { weight, replace, limit, percent, seed, .. } = &clause.value;
        let found = self.values(&rows, vec![weight.clone()]).await?;
        let weights = weights(&found[0]).map_err(|why| self.wrong(why, &clause.bytes))?;
        let candidates = match replace {
            true => u64::MAX,
            false => weights.iter().filter(|weight| **weight > 0.0).count() as u64,
        };
        let count = match (limit, percent) {
            (None, _) => rows.len(),
            (Some(limit), false) => self.whole_number(limit, "LIMIT", &clause.bytes)?,
            (Some(limit), true) => {
                let percent = number(limit).filter(|percent| *percent >= 0.0);
                let percent = percent
                    .ok_or_else(|| self.wrong("PERCENT needs a number, zero or above", &clause.bytes))?;
                (rows.len() as f64 * percent / 100.0).round() as u64
            }
        };
        let count = if rows.len() == 0 { 0 } else { count.min(candidates) };
        let draw = Draw { count, seed: seed.unwrap_or(0), weights: Some(&weights), replace: *replace };
        let places = drawn(rows.len(), draw).map_err(|error| self.wrong(error.to_string(), &clause.bytes))?;
        let rows = rows.take(&places)?;
        self.note("SAMPLE BY", rows.len());
        Ok(rows)
    }

    fn limited(&mut self, rows: Rows) -> Result<Rows, QueryError> {
        let Some(limit) = self.limit.take() else { return Ok(rows) };
        let (limit, offset) = match &limit {
            LimitClause::LimitOffset { limit, offset, .. } => {
                (limit.clone(), offset.as_ref().map(|offset| offset.value.clone()))
            }
            LimitClause::OffsetCommaLimit { offset, limit } => (Some(limit.clone()), Some(offset.clone())),
        };
        let nowhere = 0..0;
        let whole = |expr: Option<Expr>, what: &str, default: u64| match expr {
            None => Ok(default),
            Some(expr) => self.whole_number(&expr, what, &nowhere),
        };
        let from = whole(offset, "OFFSET", 0)?.min(rows.len());
        let count = whole(limit, "LIMIT", u64::MAX)?.min(rows.len() - from);
        let rows = match rows {
            Rows::View(view) => Rows::View(view.every(from, 1, count)?),
            Rows::Table(rows) => Rows::Table(rows.slice(from as usize, count as usize)),
        };
        self.note("LIMIT", rows.len());
        Ok(rows)
    }

    fn whole_number(&self, expr: &Expr, what: &str, bytes: &Range<usize>) -> Result<u64, QueryError> {
        let found = number(expr).filter(|number| *number >= 0.0 && number.fract() == 0.0);
        found.map(|number| number as u64).ok_or_else(|| {
            let why = format!("{what} needs a whole number, zero or above, found `{expr}`");
            if bytes.is_empty() { QueryError::text(why) } else { self.wrong(why, bytes) }
        })
    }
}

fn is_same(a: &Expr, b: &Expr) -> bool {
    match (column_name(a), column_name(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

/// The name of the column that an expression is.
fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(name.value.clone()),
        Expr::CompoundIdentifier(parts) => parts.last().map(|name| name.value.clone()),
        _ => None,
    }
}

/// The names of columns of the answer that are keys.
fn key_names(keys: &[Expr], items: &[SelectItem]) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = keys.iter().filter_map(column_name).collect();
    for item in items {
        if let SelectItem::ExprWithAlias { expr, alias } = item {
            match keys.iter().any(|key| is_same(key, expr)) {
                true => names.insert(alias.value.clone()),
                // Another expression that is called as a key is.
                false => names.remove(&alias.value),
            };
        }
    }
    names
}

/// Whether a column of the answer is this column of the dataset.
fn is_shown_as(column: &str, name: &str, items: &[SelectItem]) -> bool {
    let aliased = items.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if alias.value == name => Some(column_name(expr)),
        _ => None,
    });
    match aliased {
        Some(of) => of.as_deref() == Some(column),
        None => column == name,
    }
}

fn everything() -> SelectItem {
    SelectItem::Wildcard(WildcardAdditionalOptions {
        wildcard_token: AttachedToken::empty(),
        ..Default::default()
    })
}

fn hidden_item(place: usize, expr: &Expr) -> SelectItem {
    SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', hidden_name(place)) }
}

fn hidden_name(place: usize) -> String {
    format!("\u{1}hidden{place}")
}

fn hidden_names(count: usize) -> Vec<String> {
    (0..count).map(hidden_name).collect()
}

/// The columns of a view that its user sees.
fn shown(view: &View) -> Vec<String> {
    view.columns().into_iter().filter(|name| !name.starts_with('\u{1}')).collect()
}

fn all(rows: u64) -> Vec<u64> {
    (0..rows).collect()
}

/// Makes `FROM name` of whatever a SELECT reads.
fn only_from(select: &mut Select, name: &str) {
    select.from.truncate(1);
    if let Some(from) = select.from.first_mut() {
        from.joins.clear();
        from.relation = table_named(name);
    }
}

/// Leaves out WITH: rows in memory are all that is read.
fn without_with(parsed: &mut Parsed) {
    if let Statement::Query(query) = &mut parsed.statement {
        query.with = None;
    }
}

/// Leaves out what is said about the rows that FROM and WHERE give.
fn only_where(select: &mut Select) {
    select.distinct = None;
    select.having = None;
    select.qualify = None;
}

/// A table as one batch.
fn whole(table: &Table) -> Result<RecordBatch, QueryError> {
    concat_batches(table.schema(), table.batches()).map_err(|error| value(error.to_string()))
}

/// The rows found and as many before and after each, once each, in the order of the dataset.
fn with_neighbours(found: &[u64], by: &ExpandBy, rows: u64) -> Vec<u64> {
    let mut sorted = found.to_vec();
    sorted.sort_unstable();
    let (mut all, mut next) = (Vec::new(), 0u64);
    for place in sorted {
        let from = place.saturating_sub(by.before).max(next);
        let to = place.saturating_add(by.after).saturating_add(1).min(rows);
        if from < to {
            all.extend(from..to);
            next = to;
        }
    }
    all
}

/// Weights as numbers; what is missing weighs nothing.
fn weights(array: &ArrayRef) -> Result<Vec<f64>, String> {
    let is_number =
        array.data_type().is_numeric() || matches!(array.data_type(), DataType::Boolean | DataType::Null);
    if !is_number {
        return Err(format!("SAMPLE BY needs a number for each row, found {}", array.data_type()));
    }
    let numbers = cast(array, &DataType::Float64).map_err(|error| error.to_string())?;
    Ok(numbers.as_primitive::<Float64Type>().iter().map(|weight| weight.unwrap_or(0.0)).collect())
}

fn number(expr: &Expr) -> Option<f64> {
    let Expr::Value(found) = expr else { return None };
    match &found.value {
        Value::Number(text, _) => text.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_come_once() {
        let check = |found: &[u64], before, after, expected: &[u64]| {
            assert_eq!(with_neighbours(found, &ExpandBy { before, after }, 10), expected);
        };
        check(&[4], 1, 2, &[3, 4, 5, 6]);
        check(&[9, 0], 1, 1, &[0, 1, 8, 9]);
        check(&[3, 5], 1, 1, &[2, 3, 4, 5, 6]);
        check(&[3, 4], 0, 0, &[3, 4]);
        check(&[], 5, 5, &[]);
        check(&[2], u64::MAX, u64::MAX, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
}
