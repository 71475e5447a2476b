//! Puts the values of parameters into a statement, as literals.

use std::ops::ControlFlow;

use arrow::array::{Array as _, ArrayRef, AsArray};
use arrow::datatypes::{DataType as ArrowType, Decimal128Type, DecimalType};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    Array, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, Value, VisitMut, VisitorMut,
};
use lacus_tensor::TensorRef;

use crate::error::QueryError;
use crate::language::Parsed;
use crate::question::{Parameter, Parameters};
use crate::tensors::{Class, TensorArray, loaded};

/// Replaces `$1`, `$name` and so on. Fails for parameters without a value, and for values that nothing asks for.
pub(crate) fn fill(parsed: &mut Parsed, parameters: &Parameters) -> Result<(), QueryError> {
    let text = parsed.text.clone();
    let value_of = |name: &str| -> Option<&Parameter> {
        match parameters {
            Parameters::None => None,
            Parameters::Positional(values) => values.get(name.parse::<usize>().ok()?.checked_sub(1)?),
            Parameters::Named(values) => {
                values.iter().find(|(known, _)| known == name).map(|(_, value)| value)
            }
        }
    };
    for asked in &parsed.parameters {
        if value_of(&asked.name).is_none() {
            let why = match parameters {
                Parameters::Named(values) => {
                    let names: Vec<&str> = values.iter().map(|(name, _)| name.as_str()).collect();
                    format!("no value was given for parameter {}; given: {}", asked.name, names.join(", "))
                }
                Parameters::Positional(values) => {
                    format!("no value was given for parameter {}; {} were given", asked.name, values.len())
                }
                Parameters::None => format!("no value was given for parameter {}", asked.name),
            };
            return Err(QueryError::at(why, &text, asked.bytes.clone()));
        }
    }
    let is_asked = |name: &str| parsed.parameters.iter().any(|asked| asked.name == name);
    let unused = match parameters {
        Parameters::None => None,
        Parameters::Positional(values) => {
            (1..=values.len()).map(|n| n.to_string()).find(|name| !is_asked(name))
        }
        Parameters::Named(values) => values.iter().map(|(name, _)| name.clone()).find(|name| !is_asked(name)),
    };
    if let Some(name) = unused {
        return Err(QueryError::text(format!(
            "a value was given for parameter {name}, which the query does not have"
        )));
    }
    let mut filler = Filler { value_of: &value_of };
    let mut filled = parsed.statement.visit(&mut filler);
    for expr in parsed.clauses.expressions() {
        if filled.is_continue() {
            filled = expr.visit(&mut filler);
        }
    }
    for search in parsed.tables.iter_mut().filter_map(|table| table.search.as_mut()) {
        if filled.is_continue() {
            filled = search.args.visit(&mut filler);
        }
        if filled.is_continue() {
            filled = search.rows.visit(&mut filler);
        }
    }
    match filled {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Filler<'a> {
    value_of: &'a dyn Fn(&str) -> Option<&'a Parameter>,
}

impl VisitorMut for Filler<'_> {
    type Break = QueryError;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<QueryError> {
        let Expr::Value(value) = &*expr else { return ControlFlow::Continue(()) };
        let Value::Placeholder(name) = &value.value else { return ControlFlow::Continue(()) };
        let Some(parameter) = (self.value_of)(name.trim_start_matches('$')) else {
            return ControlFlow::Continue(());
        };
        match literal(parameter) {
            Ok(literal) => {
                *expr = literal;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// A value as an expression of SQL.
fn literal(parameter: &Parameter) -> Result<Expr, QueryError> {
    let plain = |value: Value| Ok(Expr::value(value));
    match &parameter.value {
        ScalarValue::Null => plain(Value::Null),
        ScalarValue::Boolean(Some(value)) => plain(Value::Boolean(*value)),
        ScalarValue::Int64(Some(value)) => plain(Value::Number(value.to_string(), false)),
        ScalarValue::UInt64(Some(value)) => plain(Value::Number(value.to_string(), false)),
        ScalarValue::Float64(Some(value)) => Ok(real(*value)),
        ScalarValue::Utf8(Some(value)) => plain(Value::SingleQuotedString(value.clone())),
        ScalarValue::Binary(Some(bytes)) | ScalarValue::LargeBinary(Some(bytes)) => {
            plain(Value::HexStringLiteral(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
        }
        ScalarValue::Decimal128(Some(unscaled), precision, scale) => {
            let text = Decimal128Type::format_decimal(*unscaled, *precision, *scale);
            let digits = ExactNumberInfo::PrecisionAndScale(u64::from(*precision), i64::from(*scale));
            Ok(cast_of(text, DataType::Decimal(digits)))
        }
        ScalarValue::List(list) if list.value_type() == ArrowType::Utf8 && list.is_valid(0) => {
            texts(&list.value(0))
        }
        other => {
            let wrong = |error: datafusion::error::DataFusionError| QueryError::text(error.to_string());
            let array = other.to_array().map_err(wrong)?;
            let values = TensorArray::new("parameter", &array, &parameter.field).map_err(wrong)?;
            match values.get(0).map_err(wrong)? {
                None => plain(Value::Null),
                Some(tensor) => tensor_literal(&tensor.view()),
            }
        }
    }
}

/// `['a', 'b']`.
fn texts(values: &ArrayRef) -> Result<Expr, QueryError> {
    let text = |value: Option<&str>| {
        Expr::value(value.map_or(Value::Null, |text| Value::SingleQuotedString(text.to_owned())))
    };
    let elem = values.as_string::<i32>().iter().map(text).collect();
    Ok(Expr::Array(Array { elem, named: false }))
}

/// `astype([[…], […]], 'float32')`.
fn tensor_literal(tensor: &TensorRef<'_>) -> Result<Expr, QueryError> {
    let owned = tensor.to_tensor();
    let (dtype, dims) = (owned.dtype(), owned.shape().dims().to_vec());
    if dims.contains(&0) {
        return Err(QueryError::text(format!("a parameter of shape {} has no elements", owned.shape())));
    }
    let elements: Vec<Expr> = match Class::of(dtype) {
        // The shortest text of a single is shorter than that of the same number as a double.
        Class::Single => loaded::<f32>(dtype, owned.bytes()).into_iter().map(single).collect(),
        Class::Double => loaded::<f64>(dtype, owned.bytes()).into_iter().map(real).collect(),
        Class::Complex => return Err(QueryError::text("parameters cannot be complex numbers")),
        Class::Uint => {
            loaded::<u64>(dtype, owned.bytes()).into_iter().map(|x| number(x.to_string())).collect()
        }
        Class::Int => {
            loaded::<i64>(dtype, owned.bytes()).into_iter().map(|x| number(x.to_string())).collect()
        }
    };
    let mut parts = elements;
    for size in dims.iter().rev() {
        let mut rest = parts.into_iter();
        let mut rows = Vec::new();
        loop {
            let elem: Vec<Expr> = rest.by_ref().take(*size as usize).collect();
            if elem.is_empty() {
                break;
            }
            rows.push(Expr::Array(Array { elem, named: false }));
        }
        parts = rows;
    }
    let Some(array) = parts.pop() else { return Err(QueryError::text("a parameter has no elements")) };
    let dtype = Expr::value(Value::SingleQuotedString(dtype.name().to_owned()));
    let argument = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    Ok(Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("astype")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![argument(array), argument(dtype)],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    }))
}

fn number(text: String) -> Expr {
    Expr::value(Value::Number(text, false))
}

fn single(value: f32) -> Expr {
    if value.is_finite() { number(format!("{value:?}")) } else { real(value.into()) }
}

fn real(value: f64) -> Expr {
    if value.is_finite() {
        return number(format!("{value:?}"));
    }
    let text = if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    };
    cast_of(text.to_owned(), DataType::Double(ExactNumberInfo::None))
}

/// `CAST('…' AS …)`.
fn cast_of(text: String, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::value(Value::SingleQuotedString(text))),
        data_type,
        array: false,
        format: None,
    }
}
