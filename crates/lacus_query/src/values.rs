//! Values of expressions over wide columns: a [`Fetch`] below them reads what they need, for the rows that need it.
//!
//! ```text
//! CASE WHEN shape(x, 0) > 3 THEN x[3] END
//!
//!     CASE WHEN when1 THEN fetched2 END
//!                 │
//!     Fetch: x[3] where when1                      nothing is read, and nothing can be out of bounds, for other rows
//!                 │
//!     Projection: …, fetched1 > 3 AS when1
//!                 │
//!     Fetch: shape(x, 0)
//! ```
//!
//! A CASE, AND or OR whose later parts read something is computed in such steps. All else that is needed comes from one
//! [`Fetch`].

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::{
    BinaryExpr, Case, Expr, ExprSchemable, Extension, LogicalPlan, Operator, Projection, when,
};

use crate::fetch::{Fetch, Item};
use crate::source::Source;
use crate::wanted::{any_wanted, place_name, relation_of, scan_of, wanted};

/// A column that no table has.
pub(crate) fn unqualified(name: &str) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

pub(crate) fn project(exprs: Vec<Expr>, input: LogicalPlan) -> Result<LogicalPlan> {
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?))
}

pub(crate) fn all_columns(plan: &LogicalPlan) -> Vec<Expr> {
    plan.schema().columns().into_iter().map(Expr::Column).collect()
}

/// A plan with one more column.
fn with_column(plan: LogicalPlan, value: Expr, name: &str) -> Result<LogicalPlan> {
    let mut columns = all_columns(&plan);
    columns.push(value.alias(name));
    project(columns, plan)
}

/// The scans of a plan that have wide columns.
#[derive(Default)]
pub(crate) struct Scans {
    pub(crate) sources: Vec<Arc<Source>>,
    /// For names.
    next: usize,
}

/// For which rows values are wanted: the columns that say so, each of which is true where those before are.
#[derive(Clone, Default)]
struct Rows(Vec<String>);

impl Rows {
    fn and(&self, when: &str) -> Rows {
        let mut all = self.0.clone();
        all.push(when.to_owned());
        Rows(all)
    }

    /// A value that is computed for these rows only.
    fn only(&self, value: Expr) -> Result<Expr> {
        match self.0.last() {
            Some(last) => when(unqualified(last), value).end(),
            None => Ok(value),
        }
    }
}

/// A plan while values are computed, and what it has by now.
struct Step {
    plan: LogicalPlan,
    fetched: Vec<Item>,
}

impl Scans {
    /// A name that nothing else has.
    pub(crate) fn name(&mut self, what: &str) -> String {
        self.next += 1;
        format!("\u{1}{what}{}", self.next)
    }

    /// Reads what expressions need of wide columns: the plan with columns more, and the expressions over them.
    pub(crate) fn values(&mut self, plan: LogicalPlan, exprs: Vec<Expr>) -> Result<(LogicalPlan, Vec<Expr>)> {
        let mut step = Step { plan, fetched: Vec::new() };
        let exprs = self.values_of(&mut step, exprs, &Rows::default())?;
        Ok((step.plan, exprs))
    }

    fn values_of(&mut self, step: &mut Step, exprs: Vec<Expr>, rows: &Rows) -> Result<Vec<Expr>> {
        let scope = self.scope(&step.plan)?;
        let (mut items, mut choices): (Vec<Item>, Vec<(Expr, String)>) = (Vec::new(), Vec::new());
        let mut replaced = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let expr = expr.transform_down(|expr| {
                if self.is_choice(&expr)? {
                    let name = self.name("chosen");
                    choices.push((expr, name.clone()));
                    return Ok(Transformed::new(unqualified(&name), true, TreeNodeRecursion::Jump));
                }
                let Some((column, wanted, is_negated)) = wanted(&expr, &self.sources)? else {
                    return Ok(Transformed::no(expr));
                };
                let Some(scan) = scan_of(&column) else { return Ok(Transformed::no(expr)) };
                let known = step.fetched.iter().chain(&items).find(|item| {
                    item.place == place_name(scan)
                        && item.column == column.name
                        && item.wanted == wanted
                        && item.when.as_ref().is_none_or(|when| rows.0.contains(when))
                });
                let name = match known {
                    Some(item) => item.field.name().clone(),
                    None => {
                        let name = self.name("fetched");
                        let (_, field) = match is_negated {
                            true => Expr::IsNull(Box::new(Expr::Column(column.clone()))).to_field(&scope)?,
                            false => expr.to_field(&scope)?,
                        };
                        let field = field.as_ref().clone().with_name(&name).with_nullable(true);
                        items.push(Item {
                            source: Arc::clone(&self.sources[scan]),
                            place: place_name(scan),
                            column: column.name,
                            when: rows.0.last().filter(|_| wanted.is_for_few()).cloned(),
                            wanted,
                            field: Arc::new(field),
                        });
                        name
                    }
                };
                let value = unqualified(&name);
                let value = if is_negated { Expr::Not(Box::new(value)) } else { value };
                Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
            })?;
            replaced.push(expr.data);
        }
        if !items.is_empty() {
            let fetch = Fetch::new(step.plan.clone(), items.clone())?;
            step.plan = LogicalPlan::Extension(Extension { node: Arc::new(fetch) });
            step.fetched.extend(items);
        }
        for (choice, name) in choices {
            let value = self.chosen(step, choice, rows)?;
            step.plan = with_column(step.plan.clone(), rows.only(value)?, &name)?;
        }
        Ok(replaced)
    }

    fn value_of(&mut self, step: &mut Step, expr: Expr, rows: &Rows) -> Result<Expr> {
        let mut values = self.values_of(step, vec![expr], rows)?;
        // There is a value for each expression.
        Ok(values.swap_remove(0))
    }

    /// Whether an expression has parts that are looked at for some rows only, and that read something.
    fn is_choice(&self, expr: &Expr) -> Result<bool> {
        match expr {
            Expr::Case(Case { expr: _, when_then_expr, else_expr }) => {
                let conditions = when_then_expr.iter().skip(1).map(|(condition, _)| condition);
                let results = when_then_expr.iter().map(|(_, result)| result);
                for part in conditions.chain(results).chain(else_expr) {
                    if self.reads(part)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
                Ok(self.reads(left)? || self.reads(right)?)
            }
            _ => Ok(false),
        }
    }

    /// Whether an expression needs what should be looked at for few rows.
    fn reads(&self, expr: &Expr) -> Result<bool> {
        any_wanted(expr, &self.sources, |wanted| wanted.is_for_few())
    }

    /// The value of a choice, part by part.
    fn chosen(&mut self, step: &mut Step, choice: Expr, rows: &Rows) -> Result<Expr> {
        match choice {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                // What costs nothing comes first.
                let (first, second) = match self.reads(&left)? && !self.reads(&right)? {
                    true => (right, left),
                    false => (left, right),
                };
                let first = self.value_of(step, *first, rows)?;
                let (value, open) = (self.name("first"), self.name("when"));
                step.plan = with_column(step.plan.clone(), rows.only(first)?, &value)?;
                let first = unqualified(&value);
                // The other side matters unless this one has decided.
                let is_open = match op {
                    Operator::And => first.clone().is_not_false(),
                    _ => first.clone().is_not_true(),
                };
                step.plan = with_column(step.plan.clone(), rows.only(is_open)?, &open)?;
                let second = self.value_of(step, *second, &rows.and(&open))?;
                Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(first), op, Box::new(second))))
            }
            Expr::Case(Case { expr, when_then_expr, else_expr }) => {
                let operand = match expr {
                    None => None,
                    Some(operand) => {
                        let (value, name) = (self.value_of(step, *operand, rows)?, self.name("operand"));
                        step.plan = with_column(step.plan.clone(), rows.only(value)?, &name)?;
                        Some(unqualified(&name))
                    }
                };
                let (mut rest, mut cases) = (rows.clone(), Vec::with_capacity(when_then_expr.len()));
                for (condition, result) in when_then_expr {
                    let condition = self.value_of(step, *condition, &rest)?;
                    let condition = match &operand {
                        Some(operand) => operand.clone().eq(condition),
                        None => condition,
                    };
                    let (value, yes, no) = (self.name("condition"), self.name("when"), self.name("when"));
                    step.plan = with_column(step.plan.clone(), rest.only(condition)?, &value)?;
                    let condition = unqualified(&value);
                    let mut columns = all_columns(&step.plan);
                    columns.push(rest.only(condition.clone().is_true())?.alias(&yes));
                    columns.push(rest.only(condition.is_not_true())?.alias(&no));
                    step.plan = project(columns, step.plan.clone())?;
                    let result = self.value_of(step, *result, &rest.and(&yes))?;
                    cases.push((Box::new(unqualified(&yes)), Box::new(result)));
                    rest = rest.and(&no);
                }
                let otherwise = match else_expr {
                    Some(otherwise) => Some(Box::new(self.value_of(step, *otherwise, &rest)?)),
                    None => None,
                };
                Ok(Expr::Case(Case::new(None, cases, otherwise)))
            }
            other => self.value_of(step, other, rows),
        }
    }

    /// The columns of a plan, and all wide ones.
    fn scope(&self, plan: &LogicalPlan) -> Result<DFSchema> {
        let mut fields: Vec<_> =
            plan.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field))).collect();
        for (scan, source) in self.sources.iter().enumerate() {
            let relation = relation_of(scan);
            let wide =
                source.schema().fields().iter().enumerate().filter(|(place, _)| source.is_wide(*place));
            fields.extend(wide.map(|(_, field)| (Some(relation.clone()), Arc::clone(field))));
        }
        DFSchema::new_with_metadata(fields, Default::default())
    }
}
