//! `FROM vector_search('embedding', ?, 10)`: the rows of a dataset that are nearest to a vector, nearest first.
//!
//! It is written as what it means, before anything else looks at the query:
//!
//! ```text
//! SELECT * FROM vector_search('v', q, 10) WHERE p
//! SELECT *, cosine_similarity("v", q) AS score FROM dataset WHERE p
//!   ORDER BY nan_as_null(cosine_similarity("v", q)) DESC NULLS LAST LIMIT 10
//! ```
//!
//! So WHERE comes first, and as many rows come back as there are, up to the number that is asked for. Where the query has an order, groups
//! or a limit of its own, or reads other tables, too, the search becomes a query in FROM.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use datafusion::execution::SessionStateDefaults;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, GroupByExpr, Ident, LimitClause, OrderBy, OrderByExpr, OrderByKind,
    OrderByOptions, Query, Select, SelectFlavor, SelectItem, SetExpr, TableAlias, TableFactor,
    TableWithJoins, Value, VisitMut, VisitorMut, WildcardAdditionalOptions, visit_expressions,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::names::identifier;
use super::source::{Source, bytes_of};
use super::subscript::call;
use super::tables::table_named;
use crate::error::QueryError;

/// The name of the function.
pub(crate) const VECTOR_SEARCH: &str = "vector_search";

/// The function that makes NULL of NaN.
pub(crate) const NAN_AS_NULL: &str = "nan_as_null";

/// What vectors are compared by: names, the function that does, and what its value is called.
const METRICS: &[(&[&str], &str, &str)] = &[
    (&["cosine", "cosine_similarity"], "cosine_similarity", "score"),
    (&["dot", "inner_product", "ip"], "inner_product", "score"),
    (&["l2", "euclidean", "l2_distance"], "l2_distance", "distance"),
    (&["l1", "manhattan", "l1_distance"], "l1_distance", "distance"),
    (&["linf", "linf_distance"], "linf_distance", "distance"),
    (&["hamming", "hamming_distance"], "hamming", "distance"),
];

/// Writes out all searches of a query. `has_clauses` says whether it has clauses that SQL has not.
pub(super) fn write_out(source: &Source<'_>, query: &mut Query, has_clauses: bool) -> Result<(), QueryError> {
    match query.visit(&mut Searches { source, has_clauses }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Searches<'a> {
    source: &'a Source<'a>,
    has_clauses: bool,
}

impl VisitorMut for Searches<'_> {
    type Break = QueryError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<QueryError> {
        match self.query(query) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<QueryError> {
        // What is left stands beside other tables, or in a query that sorts or groups.
        match search_of(self.source, table) {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(search)) => {
                *table = search.derived(None);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// A search that is written in FROM.
struct Search {
    dataset: String,
    alias: Option<TableAlias>,
    column: Ident,
    query: Expr,
    count: Expr,
    function: &'static str,
    value: &'static str,
}

impl Searches<'_> {
    fn query(&self, query: &mut Query) -> Result<(), QueryError> {
        let is_bare = query.order_by.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
        let SetExpr::Select(select) = &mut *query.body else { return Ok(()) };
        let is_bare = is_bare && is_plain(select);
        let [from] = &mut select.from[..] else { return Ok(()) };
        if !from.joins.is_empty() {
            return Ok(());
        }
        let Some(search) = search_of(self.source, &mut from.relation)? else { return Ok(()) };
        if self.has_clauses {
            let why = "vector_search cannot be combined with EXPAND, ARRANGE, SAMPLE or UNGROUP BY; search first, then ask the answer: \
                       `ds.query(search).query(…)`";
            return Err(QueryError::text(why));
        }
        if !is_bare {
            from.relation = search.derived(select.selection.take());
            return Ok(());
        }
        if select.flavor == SelectFlavor::FromFirstNoSelect && select.projection.is_empty() {
            let all =
                WildcardAdditionalOptions { wildcard_token: AttachedToken::empty(), ..Default::default() };
            select.projection.push(SelectItem::Wildcard(all));
            select.flavor = SelectFlavor::Standard;
        }
        let value = search.value();
        let names = Values { search: &search, known_as: search.known_as(), value: &value };
        let mut items = Vec::with_capacity(select.projection.len() + 1);
        for mut item in std::mem::take(&mut select.projection) {
            let is_all = matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
            if let SelectItem::UnnamedExpr(expr) = &item
                && names.is_value(expr)
            {
                item = search.item();
            } else if item.visit(&mut names.clone()).is_break() {
                return Err(QueryError::text("vector_search: the query is too deep"));
            }
            items.push(item);
            if is_all {
                items.push(search.item());
            }
        }
        select.projection = items;
        if let Some(condition) = &mut select.selection {
            let _ = condition.visit(&mut names.clone());
        }
        from.relation = search.table();
        query.order_by = Some(search.order());
        query.limit_clause = Some(search.limit());
        Ok(())
    }
}

/// Whether a SELECT has columns and a condition, and nothing else.
fn is_plain(select: &Select) -> bool {
    let is_grouped =
        !matches!(&select.group_by, GroupByExpr::Expressions(by, with) if by.is_empty() && with.is_empty());
    !is_grouped
        && select.distinct.is_none()
        && select.having.is_none()
        && select.qualify.is_none()
        && select.named_window.is_empty()
        && !select.projection.iter().any(is_of_many)
}

/// Whether a column is computed of several rows, or may be.
fn is_of_many(item: &SelectItem) -> bool {
    static AGGREGATES: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let all = SessionStateDefaults::default_aggregate_functions();
        all.iter().flat_map(|function| [&[function.name().to_owned()], function.aliases()].concat()).collect()
    });
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return false };
    let found = visit_expressions(expr, |expr| {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let is_aggregate = match &function.name.0[..] {
            [part] => part.as_ident().is_some_and(|name| AGGREGATES.contains(&name.value.to_lowercase())),
            _ => false,
        };
        match is_aggregate || function.over.is_some() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    found.is_break()
}

/// The search that a table is. Fails if its arguments make no sense.
fn search_of(source: &Source<'_>, table: &mut TableFactor) -> Result<Option<Search>, QueryError> {
    let TableFactor::Table { name, alias, args: Some(given), .. } = table else { return Ok(None) };
    let [part] = &name.0[..] else { return Ok(None) };
    let Some(ident) = part.as_ident() else { return Ok(None) };
    if !ident.value.eq_ignore_ascii_case(VECTOR_SEARCH) {
        return Ok(None);
    }
    let error = |why: String| Err(source.error(why, bytes_of(ident.span)));
    let usage = "vector_search takes a column, a vector, a number of rows and, if you like, a metric: \
                 `vector_search('embedding', ?, 10, 'cosine')`";
    let mut arguments: Vec<Expr> = Vec::new();
    for argument in &given.args {
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => arguments.push(expr.clone()),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. }
                if name.value.eq_ignore_ascii_case("metric") && arguments.len() >= 3 =>
            {
                arguments.push(expr.clone());
            }
            FunctionArg::ExprNamed {
                name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(expr), ..
            } if name.value.eq_ignore_ascii_case("metric") && arguments.len() >= 3 => {
                arguments.push(expr.clone());
            }
            _ => return error(usage.to_owned()),
        }
    }
    let dataset = match arguments.get(1).and_then(text_of) {
        Some(_) => match text_of(&arguments.remove(0)) {
            Some(name) => name.value,
            None => return error(usage.to_owned()),
        },
        None => "dataset".to_owned(),
    };
    let mut arguments = arguments.into_iter();
    let (Some(column), Some(query), Some(count), metric, None) =
        (arguments.next(), arguments.next(), arguments.next(), arguments.next(), arguments.next())
    else {
        return error(format!("{usage}; found {} arguments", given.args.len()));
    };
    let Some(column) = text_of(&column) else {
        return error(format!("vector_search: the column is a name in quotes, found {column}"));
    };
    if let Expr::Value(value) = &count
        && let Value::Number(number, _) = &value.value
        && number.parse::<u64>().ok().is_none_or(|number| number == 0)
    {
        return error(format!(
            "vector_search: the number of rows must be a whole number above 0, found {number}"
        ));
    }
    let metric = match metric {
        None => "cosine".to_owned(),
        Some(metric) => match text_of(&metric) {
            Some(metric) => metric.value.to_lowercase(),
            None => return error(format!("vector_search: the metric is a name in quotes, found {metric}")),
        },
    };
    let Some((_, function, value)) = METRICS.iter().find(|(names, ..)| names.contains(&metric.as_str()))
    else {
        let known: Vec<&str> = METRICS.iter().map(|(names, ..)| names[0]).collect();
        return error(format!("vector_search: no metric {metric:?}; there are {}", known.join(", ")));
    };
    Ok(Some(Search { dataset, alias: alias.take(), column, query, count, function, value }))
}

/// The name that an argument is: text in quotes of either kind, or a plain word.
fn text_of(expr: &Expr) -> Option<Ident> {
    match expr {
        Expr::Identifier(name) => Some(name.clone()),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(Ident::with_span(value.span, text.clone())),
            _ => None,
        },
        _ => None,
    }
}

impl Search {
    /// The name under which its columns are known.
    fn known_as(&self) -> &str {
        self.alias.as_ref().map_or(&self.dataset, |alias| &alias.name.value)
    }

    /// What vectors are compared by.
    fn value(&self) -> Expr {
        let column = Ident { span: self.column.span, ..identifier(&self.column.value) };
        call(self.function, Span::empty(), vec![Expr::Identifier(column), self.query.clone()])
    }

    fn item(&self) -> SelectItem {
        SelectItem::ExprWithAlias { expr: self.value(), alias: Ident::new(self.value) }
    }

    fn table(&self) -> TableFactor {
        let mut table = table_named(&self.dataset);
        if let TableFactor::Table { alias, .. } = &mut table {
            alias.clone_from(&self.alias);
        }
        table
    }

    fn order(&self) -> OrderBy {
        let is_similarity = self.value == "score";
        // Rows without a vector, or without a direction, come last.
        let by = match self.function {
            "hamming" => self.value(),
            _ => call(NAN_AS_NULL, Span::empty(), vec![self.value()]),
        };
        let options = OrderByOptions { asc: Some(!is_similarity), nulls_first: Some(false) };
        let by = OrderByExpr { expr: by, options, with_fill: None };
        OrderBy { kind: OrderByKind::Expressions(vec![by]), interpolate: None }
    }

    fn limit(&self) -> LimitClause {
        LimitClause::LimitOffset { limit: Some(self.count.clone()), offset: None, limit_by: Vec::new() }
    }

    /// The search as a query in FROM.
    fn derived(self, mut condition: Option<Expr>) -> TableFactor {
        let value = self.value();
        if let Some(condition) = &mut condition {
            let _ = condition.visit(&mut Values { search: &self, known_as: self.known_as(), value: &value });
        }
        let all = WildcardAdditionalOptions { wildcard_token: AttachedToken::empty(), ..Default::default() };
        let from = TableWithJoins { relation: self.table(), joins: Vec::new() };
        let select = select_of(vec![SelectItem::Wildcard(all), self.item()], from, condition);
        let query = Query {
            with: None,
            body: Box::new(SetExpr::Select(Box::new(select))),
            order_by: Some(self.order()),
            limit_clause: Some(self.limit()),
            fetch: None,
            locks: Vec::new(),
            for_clause: None,
            settings: None,
            format_clause: None,
            pipe_operators: Vec::new(),
        };
        let named =
            |name: &str| TableAlias { explicit: true, name: Ident::new(name), columns: Vec::new(), at: None };
        let alias = Some(self.alias.unwrap_or_else(|| named(VECTOR_SEARCH)));
        TableFactor::Derived { lateral: false, subquery: Box::new(query), alias, sample: None }
    }
}

/// Puts what vectors are compared by where its name stands.
#[derive(Clone)]
struct Values<'a> {
    search: &'a Search,
    known_as: &'a str,
    value: &'a Expr,
}

impl Values<'_> {
    fn is_value(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Identifier(name) => name.value == self.search.value,
            Expr::CompoundIdentifier(parts) => match &parts[..] {
                [of, name] => of.value == self.known_as && name.value == self.search.value,
                _ => false,
            },
            _ => false,
        }
    }
}

impl VisitorMut for Values<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.is_value(expr) {
            *expr = self.value.clone();
        }
        ControlFlow::Continue(())
    }
}

/// Some columns of a table.
fn select_of(projection: Vec<SelectItem>, from: TableWithJoins, selection: Option<Expr>) -> Select {
    Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from: vec![from],
        lateral_views: Vec::new(),
        prewhere: None,
        selection,
        connect_by: Vec::new(),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    fn check(text: &str, expected: &str) {
        assert_eq!(parse(text, true).unwrap().statement.to_string(), expected, "{text}");
    }

    fn check_error(from: &str, why: &str) {
        let error = parse(&format!("SELECT * FROM {from}"), true).unwrap_err().to_string();
        assert!(error.contains(why), "{from}: {error}");
    }

    #[test]
    fn a_search_is_a_sort_with_a_limit() {
        check(
            "SELECT * FROM vector_search('v', [1, 2], 10) WHERE label = 3",
            "SELECT *, cosine_similarity(v, [1, 2]) AS score FROM \"dataset\" WHERE label = 3 \
             ORDER BY nan_as_null(cosine_similarity(v, [1, 2])) DESC NULLS LAST LIMIT 10",
        );
        check(
            "SELECT id, distance, s.distance * 2 AS d FROM vector_search(other, \"v\", [1], 5, 'l2') AS s WHERE distance < 9",
            "SELECT id, l2_distance(v, [1]) AS distance, l2_distance(v, [1]) * 2 AS d FROM \"other\" AS s \
             WHERE l2_distance(v, [1]) < 9 ORDER BY nan_as_null(l2_distance(v, [1])) ASC NULLS LAST LIMIT 5",
        );
        check(
            "SELECT count(*) FROM vector_search('v', [1], 5) AS s WHERE s.score > 0 AND s.ok",
            "SELECT count(*) FROM (SELECT *, cosine_similarity(v, [1]) AS score FROM \"dataset\" AS s \
             WHERE cosine_similarity(v, [1]) > 0 AND s.ok ORDER BY nan_as_null(cosine_similarity(v, [1])) DESC NULLS LAST LIMIT 5) AS s",
        );
        check(
            "SELECT label, count(*) FROM vector_search('v', [1], 5, metric => 'hamming') WHERE ok GROUP BY label",
            "SELECT label, count(*) FROM (SELECT *, hamming(v, [1]) AS distance FROM \"dataset\" WHERE ok \
             ORDER BY hamming(v, [1]) ASC NULLS LAST LIMIT 5) AS vector_search GROUP BY label",
        );
    }

    #[test]
    fn wrong_arguments_are_refused() {
        check_error("vector_search()", "takes a column, a vector, a number of rows");
        check_error("vector_search('v', [1])", "found 2 arguments");
        check_error("vector_search('v', [1], 0)", "must be a whole number above 0, found 0");
        check_error("vector_search('v', [1], 3, 'l3')", "no metric \"l3\"; there are cosine, dot, l2");
        check_error("vector_search(3, [1], 3)", "the column is a name in quotes, found 3");
        check_error("vector_search('v', [1], 3) SAMPLE BY w", "cannot be combined");
    }
}
