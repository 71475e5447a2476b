//! What it means to compare class labels with numbers: the label stands for its number.
//!
//! ```text
//! label = 1                →  label = 'dog'               names can be looked up in zone maps
//! label < 2                →  class_id(label) < 2
//! label IN (1, 2)          →  label IN ('dog', 'bird')
//! CASE label WHEN 1 …      →  CASE label WHEN 'dog' …
//! ```
//!
//! Operators become calls while a query is planned, see [`crate::operators`]; all other expressions afterwards, by [`Labels`], which
//! comes before DataFusion makes the types of both sides equal.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, Case, InList, InSubquery, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, lit};
use datafusion::optimizer::AnalyzerRule;

use crate::tensors::Kind;

/// What an expression is. Nothing that we know of, if its type cannot be told.
pub(crate) fn kind(expr: &Expr, schema: &DFSchema) -> Kind {
    expr.to_field(schema).map_or(Kind::Other, |(_, field)| Kind::of(&field))
}

/// Rewrites comparisons of labels with numbers.
#[derive(Debug)]
pub(crate) struct Labels {
    class_id: Arc<ScalarUDF>,
}

impl Labels {
    /// With the function that gives the number of a class; `None` if it is not among these.
    pub(crate) fn new(functions: &[Arc<ScalarUDF>]) -> Option<Labels> {
        let class_id = functions.iter().find(|function| function.name() == "class_id")?;
        Some(Labels { class_id: Arc::clone(class_id) })
    }

    /// The number of a label.
    pub(crate) fn number(&self, label: Expr) -> Expr {
        Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&self.class_id), args: vec![label] })
    }

    /// Expressions that are compared with each other. If one is a label and others are numbers: with `by_name`, numbers become
    /// names, provided that all are constant; else labels become numbers.
    pub(crate) fn compared(
        &self,
        all: Vec<Expr>,
        by_name: bool,
        schema: &DFSchema,
    ) -> Transformed<Vec<Expr>> {
        let kinds: Vec<Kind> = all.iter().map(|expr| kind(expr, schema)).collect();
        let is_number = |kind: &Kind| matches!(kind, Kind::Number(_));
        let names = kinds.iter().find_map(|kind| match kind {
            Kind::Class(column) => Some(column.class_names().to_vec()),
            _ => None,
        });
        let (Some(names), true) = (names, kinds.iter().any(is_number)) else { return Transformed::no(all) };
        let labels = kinds.iter().filter(|kind| matches!(kind, Kind::Class(_))).count();
        // A number without a name is written out, unless that is the name of another class.
        let has_name = |number: i64| {
            usize::try_from(number).is_ok_and(|place| place < names.len())
                || !names.contains(&number.to_string())
        };
        let are_constant = all
            .iter()
            .zip(&kinds)
            .filter(|(_, kind)| is_number(kind))
            .all(|(expr, _)| constant(expr).is_some_and(has_name));
        let one = |(expr, kind): (Expr, Kind)| match (kind, constant(&expr)) {
            (Kind::Number(_), Some(number)) if by_name && are_constant && labels == 1 => {
                class_named(number, &names)
            }
            (Kind::Class(_), _) if !(by_name && are_constant && labels == 1) => self.number(expr),
            _ => expr,
        };
        Transformed::yes(all.into_iter().zip(kinds).map(one).collect())
    }

    fn rewritten(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let compared = |all: Vec<Expr>, by_name: bool| {
            let found = self.compared(all, by_name, schema);
            (found.transformed, found.data.into_iter())
        };
        Ok(match expr {
            Expr::InList(InList { expr, list, negated }) => {
                let (is_new, mut all) = compared(std::iter::once(*expr).chain(list).collect(), true);
                let expr = Box::new(next(&mut all)?);
                let expr = Expr::InList(InList { expr, list: all.collect(), negated });
                told(expr, is_new)
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let (is_new, mut all) = compared(vec![*expr, *low, *high], false);
                let mut one = || next(&mut all).map(Box::new);
                let between = Between { expr: one()?, negated, low: one()?, high: one()? };
                told(Expr::Between(between), is_new)
            }
            Expr::Case(Case { expr: Some(operand), when_then_expr, else_expr }) => {
                let (conditions, results): (Vec<_>, Vec<_>) = when_then_expr.into_iter().unzip();
                let conditions = conditions.into_iter().map(|condition| *condition);
                let (is_new, mut all) = compared(std::iter::once(*operand).chain(conditions).collect(), true);
                let expr = Some(Box::new(next(&mut all)?));
                let when_then_expr = all.map(Box::new).zip(results).collect();
                told(Expr::Case(Case { expr, when_then_expr, else_expr }), is_new)
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let field = subquery.subquery.schema().fields().first();
                let of_numbers = field.is_some_and(|field| matches!(Kind::of(field), Kind::Number(_)));
                let is_new = of_numbers && matches!(kind(&expr, schema), Kind::Class(_));
                let expr = if is_new { Box::new(self.number(*expr)) } else { expr };
                let expr = Expr::InSubquery(InSubquery { expr, subquery, negated });
                told(expr, is_new)
            }
            // `IS DISTINCT FROM` and the like, which are no operators to the planner.
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
                let (is_new, mut all) = compared(vec![*left, *right], false);
                let mut one = || next(&mut all).map(Box::new);
                let binary = BinaryExpr { left: one()?, op, right: one()? };
                told(Expr::BinaryExpr(binary), is_new)
            }
            other => Transformed::no(other),
        })
    }
}

pub(crate) fn is_comparison(op: Operator) -> bool {
    use Operator::*;
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn told(expr: Expr, is_new: bool) -> Transformed<Expr> {
    if is_new { Transformed::yes(expr) } else { Transformed::no(expr) }
}

fn next(all: &mut impl Iterator<Item = Expr>) -> Result<Expr> {
    all.next().ok_or_else(|| datafusion::common::DataFusionError::Internal("an operand is gone".to_owned()))
}

fn constant(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::Int64(number), _) => *number,
        _ => None,
    }
}

/// The name of the class of a number. One that has no name stands for itself.
fn class_named(number: i64, names: &[String]) -> Expr {
    match usize::try_from(number).ok().and_then(|place| names.get(place)) {
        Some(name) => lit(name.as_str()),
        None => lit(number.to_string()),
    }
}

impl AnalyzerRule for Labels {
    fn name(&self) -> &str {
        "lacus_labels"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let analyzed = plan.transform_up_with_subqueries(|plan| {
            let mut schema = merge_schema(&plan.inputs());
            if let LogicalPlan::TableScan(scan) = &plan {
                let source =
                    DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
                schema.merge(&source);
            }
            // Columns keep the names that they have.
            let names = NamePreserver::new(&plan);
            let plan = plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let expr = expr.transform_up(|expr| self.rewritten(expr, &schema))?;
                Ok(expr.update_data(|expr| name.restore(expr)))
            })?;
            plan.map_data(LogicalPlan::recompute_schema)
        })?;
        Ok(analyzed.data)
    }
}
