//! Which row is this? `row_id()` is the id that a row keeps through all states; `row_number()` without OVER is its place in what FROM
//! names, from 0 on.
//!
//! ```text
//! SELECT row_id(), * FROM dataset      →  SELECT (dataset.id), * EXCEPT (row, id) FROM "dataset rows" AS dataset
//! … ON row_id(a) = row_id(b)           →  … ON a.id = b.id
//! random(7)                            →  hash_random(7, dataset.id)
//! bm25(caption, 'cat')                 →  "bm25"('caption', 'cat', 'dataset', dataset.id)
//! ```
//!
//! The columns have names that nobody can write by accident, and only tables that are asked for them have them.

use std::ops::{ControlFlow, Range};

use datafusion::sql::sqlparser::ast::{
    ExceptSelectItem, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, JoinConstraint,
    JoinOperator, ObjectName, ObjectNamePart, OrderBy, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins, Value, VisitMut,
    VisitorMut, WildcardAdditionalOptions,
};

use super::source::{Source, bytes_of, span_of};
use super::subscript::call;
use crate::error::QueryError;

/// The column that has the place of a row, from 0 on.
pub(crate) const ROW: &str = "\u{1}row";

/// The column that has the id of a row.
pub(crate) const ID: &str = "\u{1}id";

/// What the key of a table ends with that has these columns.
pub(crate) const WITH_ROWS: &str = "\u{1}rows";

/// What `bm25` becomes: a function of the name of a column, words, the key of a table and the id of a row. No text is an argument, since
/// scores depend on all rows: they are looked up by id.
pub(crate) const BM25: &str = "\u{1}bm25";

/// Replaces the calls by columns.
pub(super) fn read_identity(source: &Source<'_>, query: &mut Query) -> Result<(), QueryError> {
    Walk { source }.query(query, &[])
}

/// Whether EXCEPT was put behind `*` here, not by the user.
pub(crate) fn is_ours(except: &ExceptSelectItem) -> bool {
    except.first_element.value == ROW && except.additional_elements.iter().all(|name| name.value == ID)
}

/// A table of FROM.
struct Table {
    known_as: Option<String>,
    /// What stands in FROM.
    key: Option<String>,
    /// Whether it is a dataset, not a query.
    is_dataset: bool,
    is_asked: bool,
}

struct Walk<'a> {
    source: &'a Source<'a>,
}

impl Walk<'_> {
    /// `visible` are the names of WITH that the query may use.
    fn query(&mut self, query: &mut Query, visible: &[String]) -> Result<(), QueryError> {
        let mut visible = visible.to_vec();
        if let Some(with) = &mut query.with {
            for cte in &mut with.cte_tables {
                let name = cte.alias.name.value.clone();
                if with.recursive {
                    visible.push(name.clone());
                }
                self.query(&mut cte.query, &visible)?;
                visible.push(name);
            }
        }
        self.body(&mut query.body, &mut query.order_by, &visible)
    }

    fn body(
        &mut self,
        body: &mut SetExpr,
        order_by: &mut Option<OrderBy>,
        visible: &[String],
    ) -> Result<(), QueryError> {
        match body {
            SetExpr::Select(select) => self.select(select, order_by, visible),
            SetExpr::Query(query) => self.query(query, visible),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left, &mut None, visible)?;
                self.body(right, &mut None, visible)
            }
            _ => Ok(()),
        }
    }

    fn select(
        &mut self,
        select: &mut Select,
        order_by: &mut Option<OrderBy>,
        visible: &[String],
    ) -> Result<(), QueryError> {
        let mut tables = Vec::new();
        for from in &mut select.from {
            self.tables(from, visible, &mut tables)?;
        }
        for from in &mut select.from {
            for join in &mut from.joins {
                self.expressions(&mut join.join_operator, visible, &mut tables)?;
            }
        }
        self.expressions(&mut select.distinct, visible, &mut tables)?;
        self.expressions(&mut select.projection, visible, &mut tables)?;
        self.expressions(&mut select.selection, visible, &mut tables)?;
        self.expressions(&mut select.group_by, visible, &mut tables)?;
        self.expressions(&mut select.having, visible, &mut tables)?;
        self.expressions(&mut select.named_window, visible, &mut tables)?;
        self.expressions(&mut select.qualify, visible, &mut tables)?;
        self.expressions(order_by, visible, &mut tables)?;
        if !tables.iter().any(|table| table.is_asked) {
            return Ok(());
        }
        let mut at = 0;
        for from in &mut select.from {
            rename(from, &tables, &mut at);
        }
        self.hide(select, &tables)
    }

    /// The tables of FROM, and the calls in the queries among them.
    fn tables(
        &mut self,
        from: &mut TableWithJoins,
        visible: &[String],
        tables: &mut Vec<Table>,
    ) -> Result<(), QueryError> {
        let joined = from.joins.iter_mut().map(|join| &mut join.relation);
        for relation in std::iter::once(&mut from.relation).chain(joined) {
            let mut table = |alias: &Option<TableAlias>, name: Option<&str>, is_dataset: bool| {
                let known_as = alias.as_ref().map(|alias| alias.name.value.clone());
                let key = name.map(str::to_owned);
                let known_as = known_as.or_else(|| key.clone());
                tables.push(Table { known_as, key, is_dataset, is_asked: false });
            };
            match relation {
                TableFactor::Table { name, alias, args: None, .. } => {
                    let name = name.0.last().and_then(|part| part.as_ident()).map(|name| name.value.as_str());
                    let is_dataset = name.is_some_and(|name| !visible.iter().any(|query| query == name));
                    table(alias, name, is_dataset);
                }
                TableFactor::Derived { subquery, alias, .. } => {
                    table(alias, None, false);
                    self.query(subquery, visible)?;
                }
                TableFactor::NestedJoin { table_with_joins, .. } => {
                    self.tables(table_with_joins, visible, tables)?;
                }
                TableFactor::Table { alias, .. }
                | TableFactor::Function { alias, .. }
                | TableFactor::UNNEST { alias, .. } => table(alias, None, false),
                _ => table(&None, None, false),
            }
        }
        Ok(())
    }

    fn expressions(
        &mut self,
        part: &mut impl VisitMut,
        visible: &[String],
        tables: &mut [Table],
    ) -> Result<(), QueryError> {
        match part.visit(&mut Expressions { walk: self, visible, tables, depth: 0 }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }

    /// What a call becomes; `None` if it is none of ours.
    fn column(&self, function: &Function, tables: &mut [Table]) -> Result<Option<Expr>, QueryError> {
        let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return Ok(None) };
        let FunctionArguments::List(list) = &function.args else { return Ok(None) };
        let is = |known: &str| name.value.eq_ignore_ascii_case(known);
        if is("bm25") && list.args.len() == 2 {
            return self.bm25(name, &list.args, tables).map(Some);
        }
        let (column, seed) = match list.args.len() {
            0 | 1 if is("row_id") => (ID, None),
            0 | 1 if is("row_number") && function.over.is_none() => (ROW, None),
            1 | 2 if is("random") => (ID, Some(&list.args[0])),
            _ => return Ok(None),
        };
        let bytes = self.call_bytes(name);
        let wrong = |why: String| Err(self.source.error(why, bytes.clone()));
        let shown = name.value.to_ascii_lowercase();
        let table = match list.args.get(usize::from(seed.is_some())) {
            None => None,
            Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(table)))) => Some(&table.value),
            Some(_) => return wrong(format!("`{shown}` takes the name of a table of FROM")),
        };
        let found = match table {
            Some(wanted) => tables.iter_mut().find(|table| table.known_as.as_ref() == Some(wanted)),
            None if tables.len() > 1 => {
                let names: Vec<&str> = tables.iter().filter_map(|table| table.known_as.as_deref()).collect();
                let hint = names.first().map_or(String::new(), |name| match seed {
                    Some(_) => format!("; write {shown}(seed, {name})"),
                    None => format!("; write {shown}({name})"),
                });
                return wrong(format!("`{shown}` of which table?{hint}"));
            }
            None => tables.first_mut(),
        };
        let Some(Table { known_as: Some(known_as), is_dataset: true, is_asked, .. }) = found else {
            return wrong(format!("`{shown}` needs a dataset in FROM: a query has no rows of its own"));
        };
        *is_asked = true;
        let part = |name: &str| Ident::with_quote_and_span('"', span_of(bytes.clone()), name);
        let column = Expr::CompoundIdentifier(vec![part(known_as), part(column)]);
        Ok(Some(match seed {
            Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(seed))) => {
                call("hash_random", span_of(bytes), vec![seed.clone(), column])
            }
            Some(_) => return wrong("`random` takes a seed".to_owned()),
            None => Expr::Nested(Box::new(column)),
        }))
    }

    /// What a call of `bm25` becomes.
    fn bm25(&self, name: &Ident, args: &[FunctionArg], tables: &mut [Table]) -> Result<Expr, QueryError> {
        let bytes = self.call_bytes(name);
        let wrong = |why: String| Err(self.source.error(why, bytes.clone()));
        let (
            FunctionArg::Unnamed(FunctionArgExpr::Expr(column)),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(words)),
        ) = (&args[0], &args[1])
        else {
            return wrong("`bm25` takes a column and words: bm25(caption, 'black cat')".to_owned());
        };
        let (table, column) = match column {
            Expr::Identifier(column) => (None, &column.value),
            Expr::CompoundIdentifier(parts) if parts.len() == 2 => (Some(&parts[0].value), &parts[1].value),
            _ => return wrong("`bm25` takes a column of texts: bm25(caption, 'black cat')".to_owned()),
        };
        let found = match table {
            Some(wanted) => tables.iter_mut().find(|table| table.known_as.as_ref() == Some(wanted)),
            None if tables.len() > 1 => {
                let names: Vec<&str> = tables.iter().filter_map(|table| table.known_as.as_deref()).collect();
                let hint =
                    names.first().map_or(String::new(), |name| format!("; write bm25({name}.{column}, …)"));
                return wrong(format!("`bm25` of which table?{hint}"));
            }
            None => tables.first_mut(),
        };
        let Some(Table { known_as: Some(known_as), key: Some(key), is_dataset: true, is_asked }) = found
        else {
            return wrong("`bm25` needs a dataset in FROM: scores depend on all its rows".to_owned());
        };
        *is_asked = true;
        let part = |name: &str| Ident::with_quote_and_span('"', span_of(bytes.clone()), name);
        let text = |text: &str| Expr::value(Value::SingleQuotedString(text.to_owned()));
        let id = Expr::CompoundIdentifier(vec![part(known_as), part(ID)]);
        Ok(call(BM25, span_of(bytes.clone()), vec![text(column), words.clone(), text(key), id]))
    }

    /// Where a call stands, with its brackets.
    fn call_bytes(&self, name: &Ident) -> Range<usize> {
        let bytes = bytes_of(name.span);
        let (mut open, mut quote) = (0usize, None);
        for (at, sign) in self.source.text.get(bytes.end..).unwrap_or("").char_indices() {
            match (quote, sign) {
                (Some(of), sign) => quote = (of != sign).then_some(of),
                (None, '\'' | '"') => quote = Some(sign),
                (None, '(') => open += 1,
                (None, ')') if open <= 1 => return bytes.start..bytes.end + at + 1,
                (None, ')') => open -= 1,
                _ => {}
            }
        }
        bytes
    }

    /// Keeps the columns out of `*`.
    fn hide(&self, select: &mut Select, tables: &[Table]) -> Result<(), QueryError> {
        let is_merged =
            select.from.iter().flat_map(|from| &from.joins).any(|join| merges(&join.join_operator));
        let mut items = Vec::with_capacity(select.projection.len());
        for mut item in std::mem::take(&mut select.projection) {
            match &mut item {
                SelectItem::Wildcard(options) if tables.len() == 1 => exclude(options),
                SelectItem::Wildcard(options) => {
                    let place = bytes_of(options.wildcard_token.0.span);
                    let plain = WildcardAdditionalOptions {
                        wildcard_token: options.wildcard_token.clone(),
                        ..Default::default()
                    };
                    if is_merged || *options != plain {
                        let why = "`row_id` of joined tables and this `*` are not possible together; name the columns";
                        return Err(self.source.error(why, place));
                    }
                    for table in tables {
                        let Some(known_as) = &table.known_as else {
                            let why = "give every query of FROM a name with AS, or name the columns";
                            return Err(self.source.error(why, place));
                        };
                        let mut options = plain.clone();
                        if table.is_asked {
                            exclude(&mut options);
                        }
                        let name = ObjectName::from(vec![Ident::with_quote('"', known_as.as_str())]);
                        let kind = SelectItemQualifiedWildcardKind::ObjectName(name);
                        items.push(SelectItem::QualifiedWildcard(kind, options));
                    }
                    continue;
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    let name = name.0.last().and_then(|part| part.as_ident()).map(|name| &name.value);
                    if tables.iter().any(|table| table.is_asked && table.known_as.as_ref() == name) {
                        exclude(options);
                    }
                }
                _ => {}
            }
            items.push(item);
        }
        select.projection = items;
        Ok(())
    }
}

/// Whether a join makes one column of two.
fn merges(operator: &JoinOperator) -> bool {
    match operator {
        JoinOperator::Join(on)
        | JoinOperator::Inner(on)
        | JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on)
        | JoinOperator::Right(on)
        | JoinOperator::RightOuter(on)
        | JoinOperator::FullOuter(on) => matches!(on, JoinConstraint::Using(_) | JoinConstraint::Natural),
        _ => false,
    }
}

fn exclude(options: &mut WildcardAdditionalOptions) {
    let (row, id) = (Ident::with_quote('"', ROW), Ident::with_quote('"', ID));
    match &mut options.opt_except {
        Some(except) => except.additional_elements.extend([row, id]),
        None => {
            options.opt_except = Some(ExceptSelectItem { first_element: row, additional_elements: vec![id] });
        }
    }
}

/// Reads the tables that are asked from those with the columns.
fn rename(from: &mut TableWithJoins, tables: &[Table], at: &mut usize) {
    let joined = from.joins.iter_mut().map(|join| &mut join.relation);
    for relation in std::iter::once(&mut from.relation).chain(joined) {
        if let TableFactor::NestedJoin { table_with_joins, .. } = relation {
            rename(table_with_joins, tables, at);
            continue;
        }
        let is_asked = tables.get(*at).is_some_and(|table| table.is_asked);
        *at += 1;
        let TableFactor::Table { name, alias, args: None, .. } = relation else { continue };
        let Some(ident) = name.0.last().and_then(|part| part.as_ident()).cloned().filter(|_| is_asked) else {
            continue;
        };
        alias.get_or_insert_with(|| TableAlias {
            explicit: true,
            name: ident.clone(),
            columns: Vec::new(),
            at: None,
        });
        let key = format!("{}{WITH_ROWS}", ident.value);
        *name = ObjectName::from(vec![Ident::with_quote_and_span('"', ident.span, key)]);
    }
}

/// Walks through the expressions of a SELECT; queries in them are walks of their own.
struct Expressions<'w, 'a> {
    walk: &'w mut Walk<'a>,
    visible: &'w [String],
    tables: &'w mut [Table],
    depth: usize,
}

impl VisitorMut for Expressions<'_, '_> {
    type Break = QueryError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<QueryError> {
        self.depth += 1;
        if self.depth > 1 {
            return ControlFlow::Continue(());
        }
        match self.walk.query(query, self.visible) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<QueryError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<QueryError> {
        if self.depth == 0
            && let Expr::Function(function) = expr
        {
            match self.walk.column(function, self.tables) {
                Ok(None) => {}
                Ok(Some(column)) => *expr = column,
                Err(error) => return ControlFlow::Break(error),
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn calls_become_columns() {
        let check = |text: &str, expected: &str| {
            let found = parse(text, true).unwrap().statement.to_string();
            assert_eq!(found.replace('\u{1}', "!"), expected, "{text}");
        };
        let from = "FROM \"dataset!rows\" AS dataset";
        let except = "* EXCEPT (\"!row\", \"!id\")";
        check("SELECT row_id(), *", &format!("SELECT (\"dataset\".\"!id\"), {except} {from}"));
        check(
            "SELECT a ORDER BY ROW_NUMBER() DESC",
            &format!("SELECT a {from} ORDER BY (\"dataset\".\"!row\") DESC"),
        );
        check("SELECT row_number() OVER ()", "SELECT row_number() OVER () FROM dataset");
        check("SELECT random(7)", &format!("SELECT hash_random(7, \"dataset\".\"!id\") {from}"));
        check("SELECT random()", "SELECT random() FROM dataset");
        check(
            "SELECT a ORDER BY bm25(caption, '(cat)') DESC",
            &format!(
                "SELECT a {from} ORDER BY !bm25('caption', '(cat)', 'dataset', \"dataset\".\"!id\") DESC"
            ),
        );
        check(
            "SELECT * FROM a JOIN b ON row_id(a) = b.x",
            &format!("SELECT \"a\".{except}, \"b\".* FROM \"a!rows\" AS a JOIN b ON (\"a\".\"!id\") = b.x"),
        );
        check(
            "WITH q AS (SELECT row_id() AS id) SELECT * FROM q",
            &format!("WITH q AS (SELECT (\"dataset\".\"!id\") AS id {from}) SELECT * FROM q"),
        );
    }

    #[test]
    fn a_table_must_be_meant() {
        let check = |text: &str, why: &str| {
            let found = parse(text, true).unwrap_err().to_string();
            assert!(found.starts_with(why), "{text}: {found}");
        };
        check("SELECT row_id() FROM a, b", "`row_id` of which table?; write row_id(a)");
        check("SELECT row_id(c) FROM a, b", "`row_id` needs a dataset in FROM");
        check("WITH q AS (SELECT 1) SELECT row_id() FROM q", "`row_id` needs a dataset in FROM");
        check("SELECT bm25(x, 'a') FROM a, b", "`bm25` of which table?; write bm25(a.x, …)");
        check("SELECT bm25(upper(x), 'a')", "`bm25` takes a column of texts");
        check("WITH q AS (SELECT 1 AS x) SELECT bm25(x, 'a') FROM q", "`bm25` needs a dataset in FROM");
        check("SELECT row_number(1)", "`row_number` takes the name of a table");
        check("SELECT *, row_id(a) FROM a JOIN b USING (x)", "`row_id` of joined tables and this `*`");
    }
}
