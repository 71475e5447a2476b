//! What operators and subscripts mean when one side is a tensor: functions of ours. Plain values keep SQL's meaning.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess, ScalarUDF, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use lacus_arrow::Mapping;
use lacus_tensor::DType;

use crate::labels::{Labels, kind};
use crate::tensors::Kind;

/// Plans operators and subscripts by the types of their operands.
#[derive(Debug)]
pub(crate) struct Operators {
    functions: HashMap<String, Arc<ScalarUDF>>,
    labels: Option<Labels>,
}

impl Operators {
    /// With these functions to choose from.
    pub(crate) fn new(functions: &[Arc<ScalarUDF>]) -> Operators {
        let named = |function: &Arc<ScalarUDF>| (function.name().to_owned(), Arc::clone(function));
        Operators { functions: functions.iter().map(named).collect(), labels: Labels::new(functions) }
    }

    fn call(&self, name: &str, args: Vec<Expr>) -> Option<Expr> {
        let func = Arc::clone(self.functions.get(name)?);
        Some(Expr::ScalarFunction(ScalarFunction { func, args }))
    }
}

impl Operators {
    /// `info['a'][0]` of JSON: the value at a path, as text.
    fn json(&self, expr: &RawFieldAccessExpr, schema: &DFSchema) -> Option<Expr> {
        let step = match &expr.field_access {
            GetFieldAccess::NamedStructField { name } => {
                let key = name.try_as_str()??;
                let quote = if key.contains('"') { '\'' } else { '"' };
                format!("[{quote}{key}{quote}]")
            }
            GetFieldAccess::ListIndex { key } => match key.as_ref() {
                Expr::Literal(ScalarValue::Int64(Some(place)), _) => format!("[{place}]"),
                _ => return None,
            },
            GetFieldAccess::ListRange { .. } => return None,
        };
        if let Some((of, path)) = json_path(&expr.expr) {
            return self.call("json_get", vec![of.clone(), lit(format!("{path}{step}"))]);
        }
        is_json(&expr.expr, schema)
            .then(|| self.call("json_get", vec![expr.expr.clone(), lit(step)]))
            .flatten()
    }

    /// A value of JSON that meets a number or a truth value is one, not its text.
    fn typed(&self, expr: Expr, met: &Kind) -> Expr {
        let function = match met {
            Kind::Number(DType::Bool) => "json_bool",
            Kind::Number(_) => "json_number",
            _ => return expr,
        };
        let typed = json_path(&expr).and_then(|(of, path)| self.call(function, vec![of.clone(), lit(path)]));
        typed.unwrap_or(expr)
    }
}

/// The number of a class whose name is compared with several labels in a row: `any(labels = 'dog')`. A name that no class has is a number
/// that none has.
fn class_number(name: &Expr, labels: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::Literal(ScalarValue::Utf8(Some(name)), _) = name else { return None };
    let (_, field) = labels.to_field(schema).ok()?;
    let (column, _) = Mapping::noted(&field)?;
    let names = column.class_names();
    if names.is_empty() || !matches!(Kind::of(&field), Kind::Tensor(_)) {
        return None;
    }
    let number = names.iter().position(|known| known == name).map_or(-1, |place| place as i64);
    Some(lit(number))
}

/// The JSON and the path of a value in it.
fn json_path(expr: &Expr) -> Option<(&Expr, &str)> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "json_get" => match &args[..] {
            [of, Expr::Literal(path, _)] => Some((of, path.try_as_str()??)),
            _ => None,
        },
        _ => None,
    }
}

fn is_json(expr: &Expr, schema: &DFSchema) -> bool {
    let is = |field: &Field| matches!(Mapping::noted(field), Some((_, Mapping::Json)));
    expr.to_field(schema).is_ok_and(|(_, field)| is(&field))
}

/// Whether an expression gives bytes that nothing says more of.
fn is_binary(expr: &Expr, schema: &DFSchema) -> bool {
    expr.to_field(schema).is_ok_and(|(_, field)| {
        matches!(Kind::of(&field), Kind::Other)
            && matches!(field.data_type(), DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
    })
}

fn is_tensor(kind: &Kind) -> bool {
    matches!(kind, Kind::Tensor(_) | Kind::Media { .. })
}

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = expr;
        let (left, right) = match op {
            BinaryOperator::Eq | BinaryOperator::NotEq => {
                let by_left = class_number(&right, &left, schema);
                (class_number(&left, &right, schema).unwrap_or(left), by_left.unwrap_or(right))
            }
            _ => (left, right),
        };
        let expr = RawBinaryExpr { op, left, right };
        let (left, right) = (kind(&expr.left, schema), kind(&expr.right, schema));
        let is_logical = matches!(expr.op, BinaryOperator::And | BinaryOperator::Or);
        // The bytes of a file are compared as bytes.
        let are_bytes =
            |one: &Kind, other: &Expr| matches!(one, Kind::Media { .. }) && is_binary(other, schema);
        if are_bytes(&left, &expr.right) || are_bytes(&right, &expr.left) {
            return Ok(PlannerResult::Original(expr));
        }
        let any = is_tensor(&left) || is_tensor(&right);
        if any && !(is_logical && !(is_tensor(&left) && is_tensor(&right))) {
            let name = match expr.op {
                BinaryOperator::Plus => "tensor_add",
                BinaryOperator::Minus => "tensor_subtract",
                BinaryOperator::Multiply => "tensor_multiply",
                BinaryOperator::Divide => "tensor_divide",
                BinaryOperator::Modulo => "tensor_modulo",
                BinaryOperator::Eq => "tensor_eq",
                BinaryOperator::NotEq => "tensor_ne",
                BinaryOperator::Lt => "tensor_lt",
                BinaryOperator::LtEq => "tensor_le",
                BinaryOperator::Gt => "tensor_gt",
                BinaryOperator::GtEq => "tensor_ge",
                BinaryOperator::And => "tensor_and",
                BinaryOperator::Or => "tensor_or",
                _ => return Ok(PlannerResult::Original(expr)),
            };
            return Ok(match self.call(name, vec![expr.left.clone(), expr.right.clone()]) {
                Some(call) => PlannerResult::Planned(call),
                None => PlannerResult::Original(expr),
            });
        }
        // A class label that meets a number means the number of that class.
        let RawBinaryExpr { op, left: of_left, right: of_right } = expr;
        let (left, right) = (self.typed(of_left, &right), self.typed(of_right, &left));
        let by_name = matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq);
        let (left, right) = match &self.labels {
            None => (left, right),
            Some(labels) => {
                let mut both = labels.compared(vec![left, right], by_name, schema).data.into_iter();
                match (both.next(), both.next()) {
                    (Some(left), Some(right)) => (left, right),
                    _ => return internal_err!("an operand is gone"),
                }
            }
        };
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }

    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        if let Some(call) = self.json(&expr, schema) {
            return Ok(PlannerResult::Planned(call));
        }
        if !is_tensor(&kind(&expr.expr, schema)) {
            return Ok(PlannerResult::Original(expr));
        }
        let (pattern, bounds) = match &expr.field_access {
            GetFieldAccess::ListIndex { key } => ("i", vec![key.as_ref().clone()]),
            GetFieldAccess::ListRange { start, stop, stride } => {
                ("a:b:c", vec![start.as_ref().clone(), stop.as_ref().clone(), stride.as_ref().clone()])
            }
            GetFieldAccess::NamedStructField { .. } => return Ok(PlannerResult::Original(expr)),
        };
        let args = [expr.expr.clone(), lit(pattern)].into_iter().chain(bounds).collect();
        Ok(match self.call("subscript", args) {
            Some(call) => PlannerResult::Planned(call),
            None => PlannerResult::Original(expr),
        })
    }
}
