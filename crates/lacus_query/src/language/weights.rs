//! Weights by condition, as in TQL.
//!
//! ```text
//! max_weight(x > 2: 5, True: 1)   →   greatest(CASE WHEN x > 2 THEN 5 END, CASE WHEN True THEN 1 END)
//! sum_weight(a: 1, b: 2)          →   (CASE WHEN a THEN 1 ELSE 0 END + CASE WHEN b THEN 2 ELSE 0 END)
//! ```

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{BinaryOperator, CaseWhen, Expr, Value};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Span, Token};

use super::source::is_word;
use super::subscript::call;

/// Reads `max_weight(…)` and `sum_weight(…)`; `None` if the next token is something else.
pub(super) fn parse_weights(parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
    let next = parser.peek_token_ref();
    let (name, span) = (&next.token, next.span);
    let (max, sum) = (is_word(name, "max_weight"), is_word(name, "sum_weight"));
    if !(max || sum) || parser.peek_nth_token_ref(1).token != Token::LParen {
        return None;
    }
    Some(parse_pairs(parser).map(|pairs| if max { greatest(pairs, span) } else { sum_of_all(pairs) }))
}

fn parse_pairs(parser: &mut Parser<'_>) -> Result<Vec<CaseWhen>, ParserError> {
    parser.next_token();
    parser.expect_token(&Token::LParen)?;
    let pairs = parser.parse_comma_separated(|parser| {
        let condition = parser.parse_expr()?;
        parser.expect_token(&Token::Colon)?;
        let result = parser.parse_expr()?;
        Ok(CaseWhen { condition, result })
    })?;
    parser.expect_token(&Token::RParen)?;
    Ok(pairs)
}

/// The greatest weight whose condition holds; NULL, which `greatest` leaves out, where none does.
fn greatest(pairs: Vec<CaseWhen>, span: Span) -> Expr {
    let mut cases: Vec<Expr> = pairs.into_iter().map(|pair| case(vec![pair], None)).collect();
    match cases.len() {
        1 => cases.remove(0),
        _ => call("greatest", span, cases),
    }
}

fn sum_of_all(pairs: Vec<CaseWhen>) -> Expr {
    let zero = || Box::new(Expr::Value(Value::Number("0".into(), false).with_empty_span()));
    let sum = pairs.into_iter().map(|pair| case(vec![pair], Some(zero()))).reduce(|left, right| {
        Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::Plus, right: Box::new(right) }
    });
    Expr::Nested(sum.map_or_else(zero, Box::new))
}

fn case(conditions: Vec<CaseWhen>, else_result: Option<Box<Expr>>) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions,
        else_result,
    }
}
