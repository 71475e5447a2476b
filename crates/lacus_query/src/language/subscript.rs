//! `x[…]` with numpy's subscripts.
//!
//! What SQL has, too (`x[1]`, `x[1:2]`, `x['key']`), stays what sqlparser makes of it: the planner decides by the type of x. Any other
//! subscript becomes `subscript(x, pattern, bounds…)`, where the pattern has one entry per axis and a letter per bound:
//!
//! ```text
//! x[100:500, ::2, 0]   →   subscript(x, 'a:b,::c,i', 100, 500, 2, 0)
//! x[..., -1]           →   subscript(x, '...,i', -1)
//! ```

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, Subscript, Value,
};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Span, Token};

/// One axis of a subscript.
pub(super) enum Axis {
    Index(Box<Expr>),
    /// From, to, step.
    Slice(Box<[Option<Expr>; 3]>),
    Rest,
}

/// Reads the subscripts, and the fields behind them, of an expression. The next token is `[`.
pub(super) fn parse_subscripts(parser: &mut Parser<'_>, root: &Expr) -> Result<Expr, ParserError> {
    let (mut root, mut chain) = match root.clone() {
        Expr::CompoundFieldAccess { root, access_chain } => (*root, access_chain),
        other => (other, Vec::new()),
    };
    loop {
        let span = parser.peek_token_ref().span;
        if !parser.consume_token(&Token::LBracket) {
            break;
        }
        let axes = parser.parse_comma_separated(parse_axis)?;
        parser.expect_token(&Token::RBracket)?;
        match plain(axes) {
            Ok(subscript) => chain.push(AccessExpr::Subscript(subscript)),
            Err(axes) => {
                if !chain.is_empty() {
                    let access_chain = std::mem::take(&mut chain);
                    root = Expr::CompoundFieldAccess { root: Box::new(root), access_chain };
                }
                root = subscript_call(root, axes, span);
            }
        }
    }
    parser.parse_compound_expr(root, chain)
}

/// Reads one axis of a subscript.
pub(super) fn parse_axis(parser: &mut Parser<'_>) -> Result<Axis, ParserError> {
    if parser.peek_token_ref().token == Token::Period {
        for _ in 0..3 {
            parser.expect_token(&Token::Period)?;
        }
        return Ok(Axis::Rest);
    }
    let bound = |parser: &mut Parser<'_>| {
        let next = &parser.peek_token_ref().token;
        let absent = matches!(next, Token::Colon | Token::Comma | Token::RBracket | Token::RParen);
        if absent { Ok(None) } else { parser.parse_expr().map(Some) }
    };
    let start = bound(parser)?;
    if !parser.consume_token(&Token::Colon) {
        return match start {
            Some(index) => Ok(Axis::Index(Box::new(index))),
            None => parser.expected_ref("an index or a slice", parser.peek_token_ref()),
        };
    }
    let stop = bound(parser)?;
    let step = if parser.consume_token(&Token::Colon) { bound(parser)? } else { None };
    Ok(Axis::Slice(Box::new([start, stop, step])))
}

/// The subscript as SQL has it, if it does.
fn plain(mut axes: Vec<Axis>) -> Result<Subscript, Vec<Axis>> {
    match (axes.pop(), axes.is_empty()) {
        (Some(Axis::Index(index)), true) => Ok(Subscript::Index { index: *index }),
        (Some(Axis::Slice(bounds)), true) if matches!(*bounds, [Some(_), Some(_), None]) => {
            let [lower_bound, upper_bound, stride] = *bounds;
            Ok(Subscript::Slice { lower_bound, upper_bound, stride })
        }
        (last, _) => {
            axes.extend(last);
            Err(axes)
        }
    }
}

/// A subscript that SQL does not have.
pub(super) fn subscript_call(root: Expr, axes: Vec<Axis>, span: Span) -> Expr {
    let mut bounds = Vec::new();
    let mut pattern = Vec::with_capacity(axes.len());
    for axis in axes {
        pattern.push(match axis {
            Axis::Rest => "...".to_owned(),
            Axis::Index(index) => {
                bounds.push(*index);
                "i".to_owned()
            }
            Axis::Slice(slice) => {
                let [start, stop, step] = *slice;
                let letter = |bound: &Option<Expr>, letter| if bound.is_some() { letter } else { "" };
                let mut entry = format!("{}:{}", letter(&start, "a"), letter(&stop, "b"));
                if step.is_some() {
                    entry.push_str(":c");
                }
                bounds.extend([start, stop, step].into_iter().flatten());
                entry
            }
        });
    }
    let pattern = Expr::Value(Value::SingleQuotedString(pattern.join(",")).with_span(span));
    call("subscript", span, [root, pattern].into_iter().chain(bounds).collect())
}

/// A call of a function.
pub(crate) fn call(name: &str, span: Span, arguments: Vec<Expr>) -> Expr {
    let args =
        arguments.into_iter().map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::with_span(span, name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
