//! Arithmetic of constants: `x[2 * 3 : 10 - 1]` is `x[6:9]`.
//!
//! The type of what a tensor function makes depends on its constants, so they have to be known when it is planned.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Statement, UnaryOperator, Value, VisitMut, VisitorMut,
};

/// Replaces arithmetic of numbers by its result, where that is exact.
pub(crate) fn fold_constants(statement: &mut Statement) {
    let _ = statement.visit(&mut Fold);
}

struct Fold;

impl VisitorMut for Fold {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let folded = match expr {
            Expr::Nested(inner) if number(inner).is_some() => Some((**inner).clone()),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => match number(inner) {
                Some(Number::Int(value)) => value.checked_neg().map(|value| literal(value.to_string())),
                Some(Number::Real(value)) => Some(literal(format!("{:?}", -value))),
                None => least(inner).then(|| literal(i64::MIN.to_string())),
            },
            Expr::BinaryOp { left, op, right } => match (number(left), number(right)) {
                (Some(left), Some(right)) => computed(left, op, right),
                _ => None,
            },
            _ => None,
        };
        if let Some(folded) = folded {
            *expr = folded;
        }
        ControlFlow::Continue(())
    }
}

#[derive(Clone, Copy)]
enum Number {
    Int(i64),
    Real(f64),
}

fn number(expr: &Expr) -> Option<Number> {
    let Expr::Value(value) = expr else { return None };
    let Value::Number(text, false) = &value.value else { return None };
    match text.parse() {
        Ok(value) => Some(Number::Int(value)),
        // An integer that is too large is left as it is: as a float it would be another number.
        Err(_) if text.bytes().all(|sign| sign.is_ascii_digit()) => None,
        Err(_) => text.parse().ok().filter(|value: &f64| value.is_finite()).map(Number::Real),
    }
}

/// Whether this is the number whose negative is the least integer.
fn least(expr: &Expr) -> bool {
    let text = i64::MIN.unsigned_abs().to_string();
    matches!(expr, Expr::Value(value) if matches!(&value.value, Value::Number(found, false) if *found == text))
}

fn literal(text: String) -> Expr {
    Expr::value(Value::Number(text, false))
}

fn computed(left: Number, op: &BinaryOperator, right: Number) -> Option<Expr> {
    if let (Number::Int(left), Number::Int(right)) = (left, right) {
        let value = match op {
            BinaryOperator::Plus => left.checked_add(right),
            BinaryOperator::Minus => left.checked_sub(right),
            BinaryOperator::Multiply => left.checked_mul(right),
            BinaryOperator::Divide => left.checked_div(right),
            BinaryOperator::Modulo => left.checked_rem(right),
            _ => None,
        };
        return value.map(|value| literal(value.to_string()));
    }
    let real = |number: Number| match number {
        Number::Int(value) => value as f64,
        Number::Real(value) => value,
    };
    let (left, right) = (real(left), real(right));
    let value = match op {
        BinaryOperator::Plus => left + right,
        BinaryOperator::Minus => left - right,
        BinaryOperator::Multiply => left * right,
        BinaryOperator::Divide => left / right,
        _ => return None,
    };
    value.is_finite().then(|| literal(format!("{value:?}")))
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::fold_constants;

    #[test]
    fn numbers_are_computed() {
        let check = |text: &str, expected: &str| {
            let mut statement = parse(&format!("SELECT {text} FROM t"), false).unwrap().statement;
            fold_constants(&mut statement);
            let found = statement.to_string();
            assert_eq!(found, format!("SELECT {expected} FROM t"), "{text}");
        };
        check("1 + 2 * (3 - 5)", "-3");
        check("-(2) * -3", "6");
        check("x * (1.0 / 4)", "x * 0.25");
        check("7 / 2, 7 % 4, 7 / 0", "3, 3, 7 / 0");
        check("9223372036854775807 + 1", "9223372036854775807 + 1");
        check("-9223372036854775808, -(9223372036854775808)", "-9223372036854775808, -(9223372036854775808)");
        check("9223372036854775808 - 1", "9223372036854775808 - 1");
        check("1 < 2, 'a' || 'b'", "1 < 2, 'a' || 'b'");
    }
}
