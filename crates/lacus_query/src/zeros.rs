//! Zero has two signs and is one number. DataFusion's `=` knows that; what it looks up by bits does not.
//!
//! ```text
//! x IN (0.0, 1.5, …)          →  x = 0.0 OR x IN (1.5, …)
//! CASE x WHEN 0.0 THEN …      →  CASE WHEN x = 0.0 THEN …
//! ```
//!
//! The optimizer makes lists of such comparisons, so this comes after it.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::{Case, InList};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// A plan in which lists and cases do not tell zeros apart.
pub(crate) fn equal_zeros(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mended = plan.transform_up_with_subqueries(|plan| {
        // What is pushed into a scan only rules rows out.
        if matches!(plan, LogicalPlan::TableScan(_)) {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(mended)?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })
    })?;
    Ok(mended.data)
}

fn mended(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::InList(InList { expr, list, negated }) if list.iter().any(is_zero) && !expr.is_volatile() => {
            let (mut zeros, rest): (Vec<Expr>, Vec<Expr>) = list.into_iter().partition(is_zero);
            // One of either sign is as good as both.
            let zero = zeros.swap_remove(0);
            let found = match negated {
                true => Expr::not_eq((*expr).clone(), zero),
                false => Expr::eq((*expr).clone(), zero),
            };
            Transformed::yes(match (rest.is_empty(), negated) {
                (true, _) => found,
                (false, true) => found.and(Expr::InList(InList { expr, list: rest, negated })),
                (false, false) => found.or(Expr::InList(InList { expr, list: rest, negated })),
            })
        }
        Expr::Case(Case { expr: Some(operand), when_then_expr, else_expr })
            if when_then_expr.iter().any(|(when, _)| is_zero(when)) && !operand.is_volatile() =>
        {
            let compared =
                |(when, then): (Box<Expr>, Box<Expr>)| (Box::new(Expr::eq((*operand).clone(), *when)), then);
            let when_then_expr = when_then_expr.into_iter().map(compared).collect();
            Transformed::yes(Expr::Case(Case { expr: None, when_then_expr, else_expr }))
        }
        other => Transformed::no(other),
    })
}

/// Whether an expression is a zero that has a sign.
fn is_zero(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => *value == 0.0,
        Expr::Literal(ScalarValue::Float32(Some(value)), _) => *value == 0.0,
        Expr::Literal(ScalarValue::Float16(Some(value)), _) => value.to_f32() == 0.0,
        _ => false,
    }
}
