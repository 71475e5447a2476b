//! `slice('volume', 0:10, ::2)`: a stored array, or a part of it, as a value.
//!
//! ```text
//! slice('volume', 0:10, ::2)      →   subscript(slice('volume'), 'a:b,::c', 0, 10, 2)
//! slice(other, 'volume')[0]       →   slice(other, 'volume')[0]
//! slice('volume')@"v1"            →   slice('dataset@v1', 'volume')
//! ```
//!
//! The second step, which looks datasets up, is in [`super::tables`]. From then on a dataset is named by its key, unless it is `dataset`
//! itself.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectNamePart, Subscript,
    UnaryOperator, Value,
};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Span, Token, Word};
use lacus_tensor::Index;

use super::source::{SLICE, is_word};
use super::states::state_of_array;
use super::subscript::{Axis, call, parse_axis, subscript_call};

/// The dataset that is meant where none is named.
const DEFAULT: &str = "dataset";

/// Reads `slice(…)`; `None` if the next token is something else.
pub(super) fn parse_slice(parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
    let next = parser.peek_token_ref();
    let span = next.span;
    if !is_word(&next.token, SLICE) || parser.peek_nth_token_ref(1).token != Token::LParen {
        return None;
    }
    Some(parse_parts(parser, span))
}

fn parse_parts(parser: &mut Parser<'_>, span: Span) -> Result<Expr, ParserError> {
    parser.next_token();
    parser.expect_token(&Token::LParen)?;
    let (mut names, mut axes) = (Vec::new(), Vec::new());
    loop {
        match names.is_empty() || (names.len() == 1 && axes.is_empty() && is_quoted_name(parser)) {
            true => names.push(parse_name(parser)?),
            false => axes.push(parse_axis(parser)?),
        }
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    let end = parser.expect_token(&Token::RParen)?.span.end;
    // The state is the last argument, see `states`.
    if let Some(Axis::Index(index)) =
        axes.pop_if(|axis| matches!(axis, Axis::Index(index) if state_of_array(&argument(index)).is_some()))
    {
        names.push(*index);
    }
    let array = call(SLICE, span, names);
    Ok(match axes.is_empty() {
        true => array,
        false => subscript_call(array, axes, Span { start: span.start, end }),
    })
}

/// Whether the next argument is text in quotes of either kind: a name, not an index.
fn is_quoted_name(parser: &Parser<'_>) -> bool {
    let is_quoted = matches!(
        parser.peek_token_ref().token,
        Token::SingleQuotedString(_) | Token::Word(Word { quote_style: Some(_), .. })
    );
    is_quoted && matches!(parser.peek_nth_token_ref(1).token, Token::Comma | Token::RParen)
}

fn parse_name(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    let is_name =
        matches!(parser.peek_token_ref().token, Token::SingleQuotedString(_) | Token::Word(Word { .. }));
    let ends = matches!(parser.peek_nth_token_ref(1).token, Token::Comma | Token::RParen);
    if !(is_name && ends) {
        return parser.expected_ref("the name of an array in quotes", parser.peek_token_ref());
    }
    parser.parse_expr()
}

fn argument(expr: &Expr) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr.clone()))
}

/// A part of an array that an expression reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    /// The key of the dataset.
    pub(crate) dataset: String,
    /// The name of the array.
    pub(crate) array: String,
    /// Which part of it.
    pub(crate) indices: Vec<Index>,
    /// Where it stands in the text.
    pub(crate) span: Span,
}

/// The array that an expression reads, and what the expression is if that is `read`: subscripts with constant bounds are part of
/// what is read.
pub(crate) fn slice_of(expr: &Expr) -> Option<(Slice, Option<Vec<AccessExpr>>)> {
    match expr {
        Expr::Function(function) if named(function) == Some(SLICE) => Some((whole(function)?, None)),
        Expr::Function(function) if named(function) == Some("subscript") => {
            let arguments = values(function)?;
            let (of, rest) = arguments.split_first()?;
            let Expr::Function(of) = of else { return None };
            let slice = whole(of).filter(|_| named(of) == Some(SLICE))?;
            let (pattern, bounds) = rest.split_first()?;
            let bounds = bounds.iter().map(|bound| integer(bound)).collect::<Option<Vec<i64>>>()?;
            Some((Slice { indices: indices(text(pattern)?, bounds)?, ..slice }, None))
        }
        Expr::CompoundFieldAccess { root, access_chain } => {
            let Expr::Function(of) = &**root else { return None };
            let slice = whole(of).filter(|_| named(of) == Some(SLICE))?;
            let (first, rest) = access_chain.split_first()?;
            let AccessExpr::Subscript(subscript) = first else { return None };
            let bound = |bound: &Option<Expr>| match bound {
                None => Some(None),
                Some(bound) => integer(bound).map(Some),
            };
            let index = match subscript {
                Subscript::Index { index } => Index::At(integer(index)?),
                Subscript::Slice { lower_bound, upper_bound, stride } => Index::Slice {
                    start: bound(lower_bound)?,
                    stop: bound(upper_bound)?,
                    step: bound(stride)?,
                },
            };
            let rest = (!rest.is_empty()).then(|| rest.to_vec());
            Some((Slice { indices: vec![index], ..slice }, rest))
        }
        _ => None,
    }
}

/// The dataset, by its key, and the array that a call of `slice` names.
pub(crate) fn names_of(function: &Function) -> Option<(String, String)> {
    if named(function) != Some(SLICE) {
        return None;
    }
    match &values(function)?[..] {
        [array] => Some((DEFAULT.to_owned(), name(array)?.to_owned())),
        [dataset, array] => Some((name(dataset)?.to_owned(), name(array)?.to_owned())),
        _ => None,
    }
}

/// `slice('array')`, or `slice('key', 'array')` of another dataset.
pub(crate) fn written_slice(dataset: &str, array: &str, span: Span) -> Expr {
    let quoted = |text: &str| Expr::Value(Value::SingleQuotedString(text.to_owned()).with_span(span));
    let names = [dataset].into_iter().filter(|dataset| *dataset != DEFAULT).chain([array]);
    call(SLICE, span, names.map(quoted).collect())
}

fn whole(function: &Function) -> Option<Slice> {
    let (dataset, array) = names_of(function)?;
    let span = function.name.0.first()?.as_ident()?.span;
    Some(Slice { dataset, array, indices: Vec::new(), span })
}

/// The name of a function of ours.
fn named(function: &Function) -> Option<&'static str> {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    [SLICE, "subscript"].into_iter().find(|known| name.value.eq_ignore_ascii_case(known))
}

fn values(function: &Function) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let value = |argument| match argument {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expr)) => Some(expr),
        _ => None,
    };
    list.args.iter().map(value).collect()
}

fn name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Identifier(name) => Some(&name.value),
        other => text(other),
    }
}

fn text(expr: &Expr) -> Option<&str> {
    let Expr::Value(value) = expr else { return None };
    match &value.value {
        Value::SingleQuotedString(text) => Some(text),
        _ => None,
    }
}

fn integer(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        Expr::Nested(inner) => integer(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => integer(expr)?.checked_neg(),
        _ => None,
    }
}

/// The indices that a pattern and its bounds stand for.
fn indices(pattern: &str, bounds: Vec<i64>) -> Option<Vec<Index>> {
    let mut bounds = bounds.into_iter();
    let mut found = Vec::new();
    for entry in pattern.split(',').map(str::trim) {
        let mut bound = |part: Option<&str>| match part {
            None | Some("") => Some(None),
            Some(_) => bounds.next().map(Some),
        };
        found.push(match entry {
            "..." => Index::Ellipsis,
            slice if slice.contains(':') => {
                let mut parts = slice.split(':').map(str::trim);
                let (start, stop) = (bound(parts.next())?, bound(parts.next())?);
                Index::Slice { start, stop, step: bound(parts.next())? }
            }
            index => Index::At(bound(Some(index))??),
        });
    }
    bounds.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::{SelectItem, SetExpr, Statement};

    use super::super::parse;
    use super::*;

    #[test]
    fn arrays_are_values() {
        let check = |text: &str, expected: &str| {
            let found = parse(&format!("SELECT {text} FROM t"), true).unwrap().statement.to_string();
            assert_eq!(found, format!("SELECT {expected} FROM t"), "{text}");
        };
        check("slice('v')", "slice('v')");
        check("SLICE(\"v\", 0:10, ::2)", "subscript(slice('v'), 'a:b,::c', 0, 10, 2)");
        check("slice('v', -1) + 1", "subscript(slice('v'), 'i', -1) + 1");
        check("slice(v, n)", "subscript(slice('v'), 'i', n)");
        check("slice('v', ..., 0)", "subscript(slice('v'), '...,i', 0)");
        check("slice(other, 'v', :)", "subscript(slice('other', 'v'), ':')");
        check("slice('s3://b/ds', 'v')[0:2]", "slice('s3://b/ds', 'v')[0:2]");
        check("slice('v')@\"v1\"", "slice('dataset@v1', 'v')");
        check(
            "slice(other, 'v', f(1)) VERSION AS OF 3",
            "subscript(slice('other@version 3', 'v'), 'i', f(1))",
        );
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let check = |text: &str, why: &str| {
            let error = parse(&format!("SELECT {text} FROM t"), true).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        };
        check("slice()", "expected the name of an array in quotes");
        check("slice(3)", "expected the name of an array in quotes");
        check("slice('a' || 'b')", "expected the name of an array in quotes");
        check("slice('a', 0:1", "expected");
    }

    #[test]
    fn constant_subscripts_are_part_of_what_is_read() {
        let slice = |start, stop, step| Index::Slice { start, stop, step };
        let check = |text: &str, expected: Option<(&[Index], usize)>| {
            let statement = parse(&format!("SELECT {text} FROM t"), true).unwrap().statement;
            let Statement::Query(query) = statement else { panic!("no query") };
            let SetExpr::Select(select) = *query.body else { panic!("no select") };
            let SelectItem::UnnamedExpr(expr) = &select.projection[0] else { panic!("named") };
            let found =
                slice_of(expr).map(|(slice, rest)| (slice.indices, rest.map_or(0, |rest| rest.len())));
            assert_eq!(found, expected.map(|(indices, rest)| (indices.to_vec(), rest)), "{text}");
        };
        check("slice('v')", Some((&[], 0)));
        check("slice('v')[3]", Some((&[Index::At(3)], 0)));
        check("slice('v')[-3][2]", Some((&[Index::At(-3)], 1)));
        check("slice('v')[1:]", Some((&[slice(Some(1), None, None)], 0)));
        check(
            "slice('v', 1:2, ..., ::-1)",
            Some((&[slice(Some(1), Some(2), None), Index::Ellipsis, slice(None, None, Some(-1))], 0)),
        );
        check("slice('v')[n]", None);
        check("slice('v', n)", None);
        check("v[3]", None);
    }
}
