//! Which datasets a query reads: a walk over the whole statement that checks it, too.
//!
//! A table at a state becomes one quoted name, the key, with the name that the user wrote as its alias:
//! `FROM dataset@"main~2"` → `FROM "dataset@main~2" AS dataset`. So does an array: `FROM cells('uber')` →
//! `FROM "cells(dataset, uber)" AS uber`.

use std::collections::{HashMap, HashSet};
use std::ops::{ControlFlow, Range};

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, JoinOperator,
    ObjectName, Query, Select, SelectFlavor, SelectItem, SetExpr, TableAlias, TableFactor, TableVersion,
    TableWithJoins, Value, VisitMut, VisitorMut, WildcardAdditionalOptions,
};

use super::handled::{check_body, check_expr, check_join, check_query, check_select, check_table};
use super::slices::written_slice;
use super::source::{SLICE, Source, bytes_of, span_of};
use super::states::{At, CELLS, state_of_array, written};
use crate::error::QueryError;

/// How many tables a query may read. Joins become a plan as deep as there are tables.
const TABLES: usize = 256;

/// How many queries WITH may name. Each sees the names of those before it, so that many cost their square.
const WITHS: usize = 256;

/// A dataset that a query reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableRef {
    /// The name that stands in the statement; the same for the same dataset at the same state.
    pub(crate) key: String,
    /// What the user wrote: `dataset`, a name or a URL.
    pub(crate) name: String,
    /// At which state.
    pub(crate) at: Option<At>,
    /// The array of it whose cells are read, instead of its rows.
    pub(crate) array: Option<String>,
    /// Whether only arrays of it are read, as values.
    pub(crate) is_value: bool,
    /// Where the name stands; for a query without FROM, its SELECT.
    pub(crate) bytes: Range<usize>,
}

/// Checks a query, puts `FROM dataset` where it is left out, and lists the datasets. `outside` are expressions that stand outside of
/// the statement. They may not ask anything themselves.
pub(super) fn take_tables<'e>(
    source: &Source<'_>,
    query: &mut Query,
    outside: impl Iterator<Item = &'e mut Expr>,
    default_dataset: bool,
) -> Result<Vec<TableRef>, QueryError> {
    let mut walk = Walk { source, tables: Vec::new(), keys: HashMap::new(), taken: HashSet::new(), withs: 0 };
    walk.query(query, &[], default_dataset)?;
    let count = walk.tables.len();
    for expr in outside {
        walk.expressions(expr, &[])?;
    }
    match walk.tables[count..].iter().find(|table| !table.is_value) {
        Some(table) => Err(source.error("a query is not possible here", table.bytes.clone())),
        None => Ok(walk.tables),
    }
}

struct Walk<'a> {
    source: &'a Source<'a>,
    tables: Vec<TableRef>,
    /// The key of each dataset, state and array.
    keys: HashMap<(String, Option<At>, Option<String>), String>,
    /// Keys and names of WITH, which a new key must not be.
    taken: HashSet<String>,
    /// How many queries of WITH there are.
    withs: usize,
}

impl Walk<'_> {
    /// `visible` are the names of WITH that the query may use.
    fn query(&mut self, query: &mut Query, visible: &[String], default: bool) -> Result<(), QueryError> {
        check_query(self.source, query)?;
        let mut visible = visible.to_vec();
        if let Some(with) = &mut query.with {
            self.withs += with.cte_tables.len();
            if self.withs > WITHS {
                let why = format!("WITH names {WITHS} queries at most");
                return Err(self.source.error(why, self.source.find("WITH")));
            }
            self.taken.extend(with.cte_tables.iter().map(|cte| cte.alias.name.value.clone()));
            for cte in &mut with.cte_tables {
                let name = cte.alias.name.value.clone();
                if with.recursive {
                    visible.push(name.clone());
                }
                self.query(&mut cte.query, &visible, default)?;
                if !with.recursive {
                    visible.push(name);
                }
            }
        }
        self.body(&mut query.body, &visible, default)?;
        self.expressions(&mut query.order_by, &visible)?;
        self.expressions(&mut query.limit_clause, &visible)
    }

    fn body(&mut self, body: &mut SetExpr, visible: &[String], default: bool) -> Result<(), QueryError> {
        check_body(self.source, body)?;
        match body {
            SetExpr::Select(select) => self.select(select, visible, default),
            SetExpr::Query(query) => self.query(query, visible, default),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left, visible, default)?;
                self.body(right, visible, default)
            }
            SetExpr::Values(values) => self.expressions(values, visible),
            SetExpr::Insert(_)
            | SetExpr::Update(_)
            | SetExpr::Delete(_)
            | SetExpr::Merge(_)
            | SetExpr::Table(_) => Ok(()),
        }
    }

    fn select(&mut self, select: &mut Select, visible: &[String], default: bool) -> Result<(), QueryError> {
        check_select(self.source, select)?;
        if select.flavor == SelectFlavor::FromFirstNoSelect && select.projection.is_empty() {
            let options =
                WildcardAdditionalOptions { wildcard_token: AttachedToken::empty(), ..Default::default() };
            select.projection.push(SelectItem::Wildcard(options));
            select.flavor = SelectFlavor::Standard;
        }
        if select.from.is_empty() && default {
            select.from.push(default_table(bytes_of(select.select_token.0.span)));
        }
        let mut names = HashSet::new();
        for table in &mut select.from {
            self.joined(table, visible, &mut names)?;
        }
        self.expressions(&mut select.distinct, visible)?;
        self.expressions(&mut select.projection, visible)?;
        self.expressions(&mut select.selection, visible)?;
        self.expressions(&mut select.group_by, visible)?;
        self.expressions(&mut select.having, visible)?;
        self.expressions(&mut select.named_window, visible)?;
        self.expressions(&mut select.qualify, visible)
    }

    /// `names` are those under which the columns of this FROM are known.
    fn joined(
        &mut self,
        table: &mut TableWithJoins,
        visible: &[String],
        names: &mut HashSet<String>,
    ) -> Result<(), QueryError> {
        self.table(&mut table.relation, visible, names)?;
        for join in &mut table.joins {
            check_join(self.source, join)?;
            self.table(&mut join.relation, visible, names)?;
            match &mut join.join_operator {
                JoinOperator::Join(on)
                | JoinOperator::Inner(on)
                | JoinOperator::Left(on)
                | JoinOperator::LeftOuter(on)
                | JoinOperator::Right(on)
                | JoinOperator::RightOuter(on)
                | JoinOperator::FullOuter(on)
                | JoinOperator::LeftSemi(on)
                | JoinOperator::RightSemi(on)
                | JoinOperator::LeftAnti(on)
                | JoinOperator::RightAnti(on) => self.expressions(on, visible)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn table(
        &mut self,
        table: &mut TableFactor,
        visible: &[String],
        names: &mut HashSet<String>,
    ) -> Result<(), QueryError> {
        check_table(self.source, table)?;
        if let TableFactor::Table { name, args: Some(_), .. } = &*table
            && is_cells(name)
        {
            return self.cells(table, names);
        }
        match table {
            TableFactor::Table { args: Some(arguments), version, .. } => {
                if version.is_some() {
                    return Err(QueryError::text("only datasets have states, not functions"));
                }
                self.expressions(&mut arguments.args, visible)
            }
            TableFactor::Table { .. } => self.named(table, visible, names),
            TableFactor::Derived { subquery, .. } => self.query(subquery, visible, false),
            // Under a name of their own, tables in brackets are not known by theirs.
            TableFactor::NestedJoin { table_with_joins, alias: Some(_) } => {
                self.joined(table_with_joins, visible, &mut HashSet::new())
            }
            TableFactor::NestedJoin { table_with_joins, .. } => self.joined(table_with_joins, visible, names),
            TableFactor::Function { args, .. } => self.expressions(args, visible),
            TableFactor::UNNEST { array_exprs, .. } => self.expressions(array_exprs, visible),
            _ => Ok(()),
        }
    }

    /// A table that is named: a dataset, or a query of WITH.
    fn named(
        &mut self,
        table: &mut TableFactor,
        visible: &[String],
        names: &mut HashSet<String>,
    ) -> Result<(), QueryError> {
        let TableFactor::Table { name: full_name, alias, version, .. } = table else { return Ok(()) };
        let [part] = full_name.0.as_slice() else {
            use datafusion::sql::sqlparser::ast::Spanned;
            let why = format!(
                "the name of a dataset has one part; write one with dots in double quotes: \"{}\"",
                {
                    let parts: Vec<String> =
                        full_name.0.iter().filter_map(|part| Some(part.as_ident()?.value.clone())).collect();
                    parts.join(".")
                }
            );
            return Err(self.source.error(why, bytes_of(full_name.span())));
        };
        let Some(ident) = part.as_ident().cloned() else {
            return Err(QueryError::text("the name of a dataset is no function"));
        };
        let bytes = bytes_of(ident.span);
        let error = |why: String| Err(self.source.error(why, bytes.clone()));
        let at = self.state(version, &bytes)?;
        let known_as = alias.as_ref().map_or(&ident.value, |alias| &alias.name.value);
        if !names.insert(known_as.clone()) {
            return error(format!("`{known_as}` stands twice in this FROM; tell them apart with AS"));
        }
        if visible.contains(&ident.value) {
            return match at {
                Some(_) => error(format!("`{}` is a query of WITH; only datasets have states", ident.value)),
                None => Ok(()),
            };
        }
        if self.tables.len() == TABLES {
            return error(format!("a query reads {TABLES} tables at most"));
        }
        let key = self.key(&ident.value, &at, None);
        if key != ident.value {
            alias.get_or_insert_with(|| alias_of(ident.clone()));
            *full_name = ObjectName::from(vec![Ident::with_quote_and_span('"', ident.span, key.clone())]);
        }
        self.tables.push(TableRef { key, name: ident.value, at, array: None, is_value: false, bytes });
        Ok(())
    }

    /// `cells('array')` or `cells(dataset, 'array')`: the cells of an array, which are known by its name.
    fn cells(&mut self, table: &mut TableFactor, names: &mut HashSet<String>) -> Result<(), QueryError> {
        let TableFactor::Table { name: full_name, alias, version, args, .. } = table else { return Ok(()) };
        let Some(ident) = full_name.0.first().and_then(|part| part.as_ident()).cloned() else {
            return Ok(());
        };
        let bytes = bytes_of(ident.span);
        let error = |why: String| Err(self.source.error(why, bytes.clone()));
        if version.is_some() {
            return error("the state stands behind the array: `cells('name')@\"v1\"`".to_owned());
        }
        let mut given = args.take().map(|given| given.args).unwrap_or_default();
        let at = given.last().and_then(state_of_array);
        if at.is_some() {
            given.pop();
        }
        let texts: Option<Vec<String>> = given.iter().map(text_of).collect();
        let (dataset, array) = match texts.as_deref() {
            Some([array]) => ("dataset", array),
            Some([dataset, array]) => (dataset.as_str(), array),
            Some(found) => {
                let why = "`cells` takes the name of an array, or a dataset and a name";
                return error(format!("{why}, found {} arguments", found.len()));
            }
            None => {
                return error("`cells` takes the name of an array in quotes: `cells('name')`".to_owned());
            }
        };
        let known_as = alias.as_ref().map_or(array, |alias| &alias.name.value);
        if !names.insert(known_as.clone()) {
            return error(format!("`{known_as}` stands twice in this FROM; tell them apart with AS"));
        }
        if self.tables.len() == TABLES {
            return error(format!("a query reads {TABLES} tables at most"));
        }
        let key = self.key(dataset, &at, Some(array));
        alias.get_or_insert_with(|| alias_of(Ident::with_quote_and_span('"', ident.span, array)));
        *full_name = ObjectName::from(vec![Ident::with_quote_and_span('"', ident.span, key.clone())]);
        let (name, array) = (dataset.to_owned(), Some(array.clone()));
        self.tables.push(TableRef { key, name, at, array, is_value: false, bytes });
        Ok(())
    }

    /// `slice('array')` or `slice(dataset, 'array')`: an array as a value.
    fn slice(&mut self, expr: &mut Expr) -> Result<(), QueryError> {
        let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = &mut *expr else {
            return Ok(());
        };
        let Some(ident) = name.0.first().and_then(|part| part.as_ident()).cloned() else { return Ok(()) };
        if name.0.len() > 1 || !ident.value.eq_ignore_ascii_case(SLICE) {
            return Ok(());
        }
        let (bytes, mut given) = (bytes_of(ident.span), std::mem::take(&mut list.args));
        let at = given.last().and_then(state_of_array);
        if at.is_some() {
            given.pop();
        }
        let texts: Option<Vec<String>> = given.iter().map(text_of).collect();
        let (dataset, array) = match texts.as_deref() {
            Some([array]) => ("dataset", array),
            Some([dataset, array]) => (dataset.as_str(), array),
            _ => {
                let why = "`slice` takes the name of an array in quotes, or a dataset and a name";
                return Err(self.source.error(why, bytes));
            }
        };
        if self.tables.len() == TABLES {
            return Err(self.source.error(format!("a query reads {TABLES} tables at most"), bytes));
        }
        let key = self.key(dataset, &at, None);
        *expr = written_slice(&key, array, ident.span);
        self.tables.push(TableRef { key, name: dataset.to_owned(), at, array: None, is_value: true, bytes });
        Ok(())
    }

    /// The state that is written behind a table.
    fn state(
        &self,
        version: &mut Option<TableVersion>,
        bytes: &Range<usize>,
    ) -> Result<Option<At>, QueryError> {
        let Some(version) = version.take() else { return Ok(None) };
        match written(&version) {
            Some(at) => Ok(Some(at)),
            None => {
                let why = "CHANGES and BEFORE are not supported; write `AT (version => 3)`";
                Err(self.source.error(why, bytes.clone()))
            }
        }
    }

    /// The key of a dataset or an array at a state: no other dataset, array, state or query of WITH has it.
    fn key(&mut self, name: &str, at: &Option<At>, array: Option<&str>) -> String {
        let state = (name.to_owned(), at.clone(), array.map(str::to_owned));
        if let Some(key) = self.keys.get(&state) {
            return key.clone();
        }
        let mut key = format!("{name}{}", at.as_ref().map(At::suffix).unwrap_or_default());
        if let Some(array) = array {
            key = format!("{CELLS}({key}, {array})");
        }
        let is_new = at.is_some() || array.is_some();
        // A dataset without a state keeps its name: in places where a query of WITH of that name is visible we do not come here.
        while (is_new && self.taken.contains(&key)) || self.keys.values().any(|other| *other == key) {
            key.push('\'');
        }
        self.keys.insert(state, key.clone());
        key
    }

    /// Checks expressions, and the queries in them.
    fn expressions(&mut self, part: &mut impl VisitMut, visible: &[String]) -> Result<(), QueryError> {
        match part.visit(&mut Expressions { walk: self, visible, depth: 0 }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }
}

fn is_cells(name: &ObjectName) -> bool {
    matches!(&name.0[..], [only] if only.as_ident().is_some_and(|name| name.value.eq_ignore_ascii_case(CELLS)))
}

/// What a table is called that the user gave no other name.
pub(crate) fn alias_of(name: Ident) -> TableAlias {
    TableAlias { explicit: true, name, columns: Vec::new(), at: None }
}

/// The name that an argument is: text in quotes of either kind, or a plain word.
fn text_of(argument: &FunctionArg) -> Option<String> {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else { return None };
    match expr {
        Expr::Identifier(name) => Some(name.value.clone()),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// `FROM dataset`, as if it were written at SELECT.
fn default_table(bytes: Range<usize>) -> TableWithJoins {
    let relation = table_of(Ident::with_span(span_of(bytes), "dataset"));
    TableWithJoins { relation, joins: Vec::new() }
}

/// A table by its name.
pub(crate) fn table_named(name: &str) -> TableFactor {
    table_of(Ident::with_quote('"', name))
}

fn table_of(name: Ident) -> TableFactor {
    TableFactor::Table {
        name: ObjectName::from(vec![name]),
        alias: None,
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

/// Comparisons with all rows of a query: `= ANY` is IN and `<> ALL` is NOT IN. The others are refused: if both sides read the same dataset,
/// DataFusion takes the column of the query for that of the row and answers wrongly.
fn compare_with_query(source: &Source<'_>, expr: &mut Expr) -> Result<(), QueryError> {
    let (left, op, right, is_all) = match expr {
        Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op, right, false),
        Expr::AllOp { left, compare_op, right } => (left, compare_op, right, true),
        _ => return Ok(()),
    };
    let Expr::Subquery(query) = &mut **right else { return Ok(()) };
    let negated = match (&*op, is_all) {
        (BinaryOperator::Eq, false) => false,
        (BinaryOperator::NotEq, true) => true,
        _ => {
            use datafusion::sql::sqlparser::ast::Spanned;
            let word = if is_all { "ALL" } else { "ANY" };
            let why = format!(
                "`{op} {word}` of a query is not supported; compare with its max or min: `{op} (SELECT max(x) FROM …)`"
            );
            return Err(source.error(why, bytes_of(left.span())));
        }
    };
    *expr = Expr::InSubquery { expr: left.clone(), subquery: query.clone(), negated };
    Ok(())
}

/// Walks through expressions. A query in them is handed back to [`Walk::query`]; below it this visitor does nothing.
struct Expressions<'w, 'a> {
    walk: &'w mut Walk<'a>,
    visible: &'w [String],
    depth: usize,
}

impl VisitorMut for Expressions<'_, '_> {
    type Break = QueryError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<QueryError> {
        self.depth += 1;
        if self.depth > 1 {
            return ControlFlow::Continue(());
        }
        match self.walk.query(query, self.visible, false) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<QueryError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<QueryError> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        if let Err(error) = compare_with_query(self.walk.source, expr).and_then(|()| self.walk.slice(expr)) {
            return ControlFlow::Break(error);
        }
        match check_expr(self.walk.source, expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn arrays_are_tables() {
        let check = |from: &str, name: &str, at: Option<At>, array: &str| {
            let parsed = parse(&format!("SELECT * FROM {from}"), true).unwrap();
            let [table] = &parsed.tables[..] else { panic!("{from}: {:?}", parsed.tables) };
            assert_eq!((table.name.as_str(), &table.at), (name, &at), "{from}");
            assert_eq!(table.array.as_deref(), Some(array), "{from}");
        };
        let tag = || Some(At::Revision("v1".to_owned()));
        check("cells('uber')", "dataset", None, "uber");
        check("CELLS(\"uber\") AS u", "dataset", None, "uber");
        check("cells(other, 'a/b')", "other", None, "a/b");
        check("cells('s3://bucket/ds', 'a') t", "s3://bucket/ds", None, "a");
        check("cells('uber')@\"v1\"", "dataset", tag(), "uber");
        check("cells('uber')@v1 AS old", "dataset", tag(), "uber");
        check("cells(other, uber) VERSION AS OF 3", "other", Some(At::Version(3)), "uber");
        check("cells('uber') AT (version => 3) WHERE c0 = 1", "dataset", Some(At::Version(3)), "uber");

        // Two states of one array are two tables; the same array twice is one, under two names.
        let text = "SELECT * FROM cells('x') AS new, cells('x')@\"v1\" AS old, cells('x') AS again";
        let keys: Vec<String> =
            parse(text, true).unwrap().tables.into_iter().map(|table| table.key).collect();
        assert_eq!(keys[0], keys[2]);
        assert_ne!(keys[0], keys[1]);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let check = |from: &str, why: &str| {
            let error = parse(&format!("SELECT * FROM {from}"), true).unwrap_err().to_string();
            assert!(error.contains(why), "{from}: {error}");
        };
        check("cells()", "takes the name of an array, or a dataset and a name, found 0 arguments");
        check("cells('a', 'b', 'c')", "found 3 arguments");
        check("cells(3)", "takes the name of an array in quotes");
        check("cells('a' || 'b')", "takes the name of an array in quotes");
        check("cells('a') JOIN cells('a') USING (c0)", "stands twice in this FROM");
    }
}
