//! Names of TQL, Deep Lake's language, for what is called otherwise here.
//!
//! ```text
//! DATA(x, 3)                  →  subscript(x, 'i', 3)
//! normalize(boxes, window)    →  normalize_boxes(boxes, window)
//! l2_norm(a - b)              →  norm(a - b)
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart,
    Value, VisitMut, VisitorMut,
};

use super::subscript::call;

/// Replaces the names.
pub(super) fn read_names(part: &mut impl VisitMut) {
    let _ = part.visit(&mut Names);
}

struct Names;

impl VisitorMut for Names {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else {
            return ControlFlow::Continue(());
        };
        let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else { return ControlFlow::Continue(()) };
        let span = ident.span;
        match ident.value.to_ascii_lowercase().as_str() {
            "data" => {
                let value = |argument: &FunctionArg| match argument {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                    _ => None,
                };
                let Some(mut values) = list.args.iter().map(value).collect::<Option<Vec<Expr>>>() else {
                    return ControlFlow::Continue(());
                };
                match values.len() {
                    0 => {}
                    1 => *expr = Expr::Nested(Box::new(values.remove(0))),
                    count => {
                        let pattern = vec!["i"; count - 1].join(",");
                        let pattern = Expr::Value(Value::SingleQuotedString(pattern).with_span(span));
                        values.insert(1, pattern);
                        *expr = call("subscript", span, values);
                    }
                }
            }
            // With two arguments they are distances.
            "l2_norm" if list.args.len() == 1 => {
                *name = ObjectName::from(vec![Ident::with_span(span, "norm")]);
            }
            "l1_norm" | "linf_norm" if list.args.len() == 1 => {
                let order = match ident.value.eq_ignore_ascii_case("l1_norm") {
                    true => Value::Number("1".to_owned(), false),
                    false => Value::SingleQuotedString("inf".to_owned()),
                };
                let order = Expr::Value(order.with_span(span));
                list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(order)));
                *name = ObjectName::from(vec![Ident::with_span(span, "norm")]);
            }
            "normalize" if list.args.len() > 1 => {
                *name = ObjectName::from(vec![Ident::with_span(span, "normalize_boxes")]);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn names_are_replaced() {
        let check = |text: &str, expected: &str| {
            let found = parse(&format!("SELECT {text} FROM t"), false).unwrap().statement.to_string();
            assert_eq!(found, format!("SELECT {expected} FROM t"), "{text}");
        };
        check("DATA(x, 3)", "subscript(x, 'i', 3)");
        check("data(x, 3, n + 1)", "subscript(x, 'i,i', 3, n + 1)");
        check("DATA(x)", "(x)");
        check("normalize(b, w)", "normalize_boxes(b, w)");
        check("normalize(b)", "normalize(b)");
        check("l2_norm(b - ARRAY[1, 2])", "norm(b - ARRAY[1, 2])");
        check("l1_norm(b), linf_norm(b)", "norm(b, 1), norm(b, 'inf')");
        check("l2_norm(a, b)", "l2_norm(a, b)");
    }
}
