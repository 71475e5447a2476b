//! Searches in FROM: `text_search('caption', 'black cat', 10)` and its like.
//!
//! ```text
//! SELECT … FROM text_search('caption', 'cat', 10) AS t WHERE t.label = 3 AND score > 1
//!     → FROM "text_search 1" AS t WHERE score > 1      the best rows, as a table of their own
//!       SELECT * FROM dataset AS t WHERE t.label = 3   the rows that are searched
//! ```
//!
//! WHERE comes before the best rows are chosen, so what it says of rows is taken out of the SELECT. What it says of the score stays: a
//! row that it leaves out makes no room for one that scores less.

use std::ops::{ControlFlow, Range};

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, Query, Select, SetExpr,
    TableAlias, TableFactor, Value, Visit, Visitor,
};
use datafusion::sql::sqlparser::parser::Parser;

use super::dialect::Language;
use super::source::{Source, tokenise};
use crate::error::QueryError;

/// The column that the rows of a search have beside those of the dataset.
pub(crate) const SCORE: &str = "score";

/// Functions of FROM that search, and how they are called.
pub(super) const SEARCHES: &[(&str, &str)] = &[
    ("text_search", "text_search([dataset, ]column, words, k)"),
    ("hybrid_search", "hybrid_search([dataset, ]vector_column, vector, text_column, words, k)"),
];

/// A search in FROM.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Search {
    /// The function.
    pub(crate) function: &'static str,
    /// What it was given, without the dataset.
    pub(crate) args: Vec<Expr>,
    /// The key of the table that is searched.
    pub(crate) of: String,
    /// What FROM calls it.
    pub(crate) known_as: String,
    /// The rows that are searched, of this table.
    pub(crate) rows: Box<Query>,
}

/// The search that a name in FROM is.
pub(super) fn search_named(name: &ObjectName) -> Option<(&'static str, &'static str)> {
    let [only] = &name.0[..] else { return None };
    let name = only.as_ident()?;
    SEARCHES.iter().find(|(known, _)| name.value.eq_ignore_ascii_case(known)).copied()
}

/// The arguments of a search, and the dataset if it is named.
pub(super) fn arguments(
    source: &Source<'_>,
    (name, usage): (&'static str, &'static str),
    args: Vec<FunctionArg>,
    bytes: &Range<usize>,
) -> Result<(Option<String>, Vec<Expr>), QueryError> {
    let wrong = |found: String| Err(source.error(format!("expected {usage}, found {found}"), bytes.clone()));
    let expected = if name == "text_search" { 3 } else { 5 };
    let count = args.len();
    let mut exprs = Vec::with_capacity(count);
    for arg in args {
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => exprs.push(expr),
            other => return wrong(format!("`{other}`")),
        }
    }
    let dataset = exprs.first().filter(|_| count == expected + 1).and_then(text_of);
    if dataset.is_some() {
        exprs.remove(0);
    }
    match exprs.len() == expected {
        true => Ok((dataset, exprs)),
        false => wrong(format!("{count} arguments")),
    }
}

/// The text that an expression is: one in quotes of either kind, or a plain word.
pub(crate) fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(name.value.clone()),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// All rows of a table.
pub(super) fn all_rows(key: &str, known_as: &str) -> Result<Box<Query>, QueryError> {
    let language = Language::default();
    let text = format!("SELECT * FROM {} AS {}", quoted(key), quoted(known_as));
    let tokens = tokenise(&text, &language)?.tokens;
    let mut parser: Parser<'_> = language.parser(tokens);
    parser.parse_query().map_err(|error| QueryError::Internal(error.to_string()))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Moves what WHERE says of rows from a SELECT to the search that is all of its FROM.
pub(super) fn take_where(select: &mut Select, search: &mut Search) {
    let Some(filter) = select.selection.take() else { return };
    let mut parts = Vec::new();
    split(filter, &mut parts);
    let (of_score, of_rows): (Vec<Expr>, Vec<Expr>) =
        parts.into_iter().partition(|part| names_score(part, &search.known_as));
    select.selection = joined(of_score);
    if let SetExpr::Select(rows) = &mut *search.rows.body {
        rows.selection = joined(of_rows);
    }
}

fn split(expr: Expr, parts: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            split(*left, parts);
            split(*right, parts);
        }
        Expr::Nested(inner) if matches!(&*inner, Expr::BinaryOp { op: BinaryOperator::And, .. }) => {
            split(*inner, parts);
        }
        other => parts.push(other),
    }
}

/// All of several conditions.
pub(crate) fn joined(parts: Vec<Expr>) -> Option<Expr> {
    parts.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(nested(left)),
        op: BinaryOperator::And,
        right: Box::new(nested(right)),
    })
}

/// In brackets, unless it is a row of ANDs already.
fn nested(expr: Expr) -> Expr {
    match expr {
        Expr::BinaryOp { op: BinaryOperator::And, .. } | Expr::Nested(_) => expr,
        other => Expr::Nested(Box::new(other)),
    }
}

/// Whether an expression uses the score.
fn names_score(expr: &Expr, known_as: &str) -> bool {
    struct Look<'a>(&'a str);
    impl Visitor for Look<'_> {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let is_score = match expr {
                Expr::Identifier(name) => name.value == SCORE,
                Expr::CompoundIdentifier(parts) => {
                    matches!(&parts[..], [of, name] if of.value == self.0 && name.value == SCORE)
                }
                _ => false,
            };
            if is_score { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    expr.visit(&mut Look(known_as)).is_break()
}

/// Makes a search a table with a name of its own.
pub(super) fn rename(table: &mut TableFactor, key: &str, known_as: &str) {
    let TableFactor::Table { name, alias, args, .. } = table else { return };
    let ident = name.0.first().and_then(|part| part.as_ident()).cloned();
    let span = ident.map_or_else(|| AttachedToken::empty().0.span, |ident| ident.span);
    *args = None;
    *name = ObjectName::from(vec![Ident::with_quote_and_span('"', span, key)]);
    alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name: Ident::with_quote_and_span('"', span, known_as),
        columns: Vec::new(),
        at: None,
    });
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn where_comes_before_the_search() {
        let check = |text: &str, outer: &str, inner: &str| {
            let parsed = parse(text, true).unwrap();
            let search = parsed.tables.iter().find_map(|table| table.search.as_ref()).unwrap();
            assert_eq!(parsed.statement.to_string().replace('\u{1}', "!"), outer, "{text}");
            assert_eq!(search.rows.to_string().replace('\u{1}', "!"), inner, "{text}");
        };
        let from = "FROM \"!text_search 1\" AS \"dataset\"";
        check(
            "SELECT * FROM text_search('caption', 'cat', 10)",
            &format!("SELECT * {from}"),
            "SELECT * FROM \"dataset\" AS \"dataset\"",
        );
        check(
            "SELECT a, score FROM text_search('caption', ?, 10) WHERE label = 3 AND score > 1 AND (b OR c)",
            &format!("SELECT a, score {from} WHERE score > 1"),
            "SELECT * FROM \"dataset\" AS \"dataset\" WHERE (label = 3) AND (b OR c)",
        );
        check(
            "SELECT t.a FROM text_search(other, 'caption', 'cat', 10) AS t WHERE t.label = 3 ORDER BY t.a",
            "SELECT t.a FROM \"!text_search 1\" AS t ORDER BY t.a",
            "SELECT * FROM \"other\" AS \"t\" WHERE t.label = 3",
        );
        check(
            "SELECT * FROM text_search('caption', 'cat', 10) WHERE row_id() > 5",
            &format!("SELECT * {from}"),
            "SELECT * EXCEPT (\"!row\", \"!id\") FROM \"dataset!rows\" AS \"dataset\" WHERE (\"dataset\".\"!id\") > 5",
        );
        // Of joined tables, WHERE is about the rows that the search found.
        check(
            "SELECT * FROM text_search('caption', 'cat', 10) AS t JOIN b ON t.x = b.x WHERE b.y = 1",
            "SELECT * FROM \"!text_search 1\" AS t JOIN b ON t.x = b.x WHERE b.y = 1",
            "SELECT * FROM \"dataset\" AS \"t\"",
        );
    }

    #[test]
    fn wrong_calls_are_refused() {
        let check = |text: &str, why: &str| {
            let found = parse(text, true).unwrap_err().to_string();
            assert!(found.starts_with(why), "{text}: {found}");
        };
        check(
            "SELECT * FROM text_search()",
            "expected text_search([dataset, ]column, words, k), found 0 arguments",
        );
        check(
            "SELECT * FROM text_search('a', 'b')",
            "expected text_search([dataset, ]column, words, k), found 2",
        );
        check("SELECT * FROM hybrid_search('a', 'b', 3)", "expected hybrid_search(");
        check(
            "SELECT * FROM text_search('a', 'b', k => 3)",
            "expected text_search([dataset, ]column, words, k), found `k",
        );
        check(
            "SELECT * FROM text_search('a', 'b', 3), text_search('a', 'b', 3)",
            "`dataset` stands twice in this FROM",
        );
    }
}
