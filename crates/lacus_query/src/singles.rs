//! A column of singles compared with a number: `x = 0.1` asks whether x is the single that 0.1 is, as numpy and DuckDB do.
//!
//! DataFusion would make x a double, and no single is the double 0.1.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, Case, InList};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::labels::is_comparison;

/// Makes singles of the doubles that singles are compared with.
#[derive(Debug)]
pub(crate) struct Singles;

impl AnalyzerRule for Singles {
    fn name(&self) -> &str {
        "lacus_singles"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let analyzed = plan.transform_up_with_subqueries(|plan| {
            let mut schema = merge_schema(&plan.inputs());
            if let LogicalPlan::TableScan(scan) = &plan {
                let source =
                    DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
                schema.merge(&source);
            }
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let expr = expr.transform_up(|expr| Ok(compared(expr, &schema)))?;
                Ok(expr.update_data(|expr| name.restore(expr)))
            })
        })?;
        Ok(analyzed.data)
    }
}

/// A comparison whose numbers are singles, if what they are compared with is one.
fn compared(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let mut operands: Vec<&mut Expr> = match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => vec![left, right],
        Expr::InList(InList { expr, list, .. }) => std::iter::once(&mut **expr).chain(list).collect(),
        Expr::Between(Between { expr, low, high, .. }) => vec![expr, low, high],
        Expr::Case(Case { expr: Some(operand), when_then_expr, .. }) => std::iter::once(&mut **operand)
            .chain(when_then_expr.iter_mut().map(|(when, _)| &mut **when))
            .collect(),
        _ => return Transformed::no(expr),
    };
    let are_singles = operands.iter().all(|operand| {
        as_single(operand).is_some() || operand.get_type(schema).is_ok_and(|found| found == DataType::Float32)
    });
    let numbers = operands.iter().filter(|operand| as_single(operand).is_some()).count();
    if !are_singles || numbers == 0 || numbers == operands.len() {
        return Transformed::no(expr);
    }
    for operand in &mut operands {
        if let Some(single) = as_single(operand) {
            **operand = single;
        }
    }
    Transformed::yes(expr)
}

/// A number of the query as a single; `None` if it is too large to be one.
fn as_single(expr: &Expr) -> Option<Expr> {
    let Expr::Literal(ScalarValue::Float64(Some(value)), metadata) = expr else { return None };
    let single = *value as f32;
    (single.is_finite() || !value.is_finite())
        .then(|| Expr::Literal(ScalarValue::Float32(Some(single)), metadata.clone()))
}
