//! Which part of a predicate zone maps can decide: an expression of DataFusion's as a [`Filter`].
//!
//! A filter here only rules rows out: DataFusion looks at the values of what is left. So it must accept whatever DataFusion
//! accepts, whose floats have a total order (NaN above all, -0 below 0), while a [`Filter`]'s are numpy's.

use arrow::datatypes::{DataType, Decimal128Type, DecimalType};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use lacus_arrow::Mapping;
use lacus_dataset::{Compare, Constant, Filter};
use lacus_sample::Base;

use crate::tensors::Kind;

/// How the columns of a table are said in Arrow, by name.
pub(crate) trait Columns {
    /// The mapping of a stored column.
    fn mapping(&self, name: &str) -> Option<&Mapping>;

    /// Whether a stored column holds dates, times or decimals as integers, so that zones bound them.
    fn is_counted(&self, name: &str) -> bool;

    /// What a stored column holds.
    fn kind(&self, name: &str) -> Kind;
}

/// A filter that is true wherever the predicate is; `None` if zones can say nothing of it.
pub(crate) fn superset(predicate: &Expr, columns: &dyn Columns) -> Option<Filter> {
    match predicate {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            match (superset(left, columns), superset(right, columns)) {
                (Some(left), Some(right)) => Some(left.and(right)),
                (one, other) => one.or(other),
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            Some(superset(left, columns)?.or(superset(right, columns)?))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let how = comparison(*op)?;
            match literal(right) {
                Some(value) => compared(left, how, value, columns),
                None => compared(right, mirrored(how), literal(left)?, columns),
            }
        }
        Expr::InList(InList { expr, list, negated: false }) => {
            let name = column(expr)?;
            let mut constants = Vec::with_capacity(list.len());
            for value in list.iter().map(literal) {
                constants.push(constant_of(name, value?, columns)?);
            }
            Some(Filter::In(name.to_owned(), constants))
        }
        Expr::IsNull(inner) => {
            let name = column(inner)?;
            columns.mapping(name).map(|_| Filter::Missing(name.to_owned()))
        }
        Expr::IsNotNull(inner) => {
            let name = column(inner)?;
            columns.mapping(name).map(|_| Filter::Not(Box::new(Filter::Missing(name.to_owned()))))
        }
        Expr::Alias(alias) => superset(&alias.expr, columns),
        _ => None,
    }
}

fn comparison(op: Operator) -> Option<Compare> {
    Some(match op {
        Operator::Eq => Compare::Equal,
        Operator::NotEq => Compare::Unequal,
        Operator::Lt => Compare::Below,
        Operator::LtEq => Compare::AtMost,
        Operator::Gt => Compare::Above,
        Operator::GtEq => Compare::AtLeast,
        _ => return None,
    })
}

/// The comparison with its sides exchanged.
fn mirrored(how: Compare) -> Compare {
    match how {
        Compare::Below => Compare::Above,
        Compare::AtMost => Compare::AtLeast,
        Compare::Above => Compare::Below,
        Compare::AtLeast => Compare::AtMost,
        same => same,
    }
}

fn column(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Column(Column { name, .. }) => Some(name),
        // Class labels are dictionaries, which may be compared as text.
        Expr::Cast(cast) if is_text(cast.field.data_type()) => column(&cast.expr),
        _ => None,
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn literal(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) if !value.is_null() => Some(value),
        _ => None,
    }
}

fn compared(expr: &Expr, how: Compare, value: &ScalarValue, columns: &dyn Columns) -> Option<Filter> {
    if let Expr::ScalarFunction(ScalarFunction { func, args }) = expr {
        let (of, args) = args.split_first()?;
        return match func.name() {
            "class_id" => class_compared(column(of)?, how, value, columns),
            function => size_compared(function, column(of)?, args, how, value, columns),
        };
    }
    let name = column(expr)?;
    let mapping = columns.mapping(name)?;
    if matches!(mapping, Mapping::Class { .. }) && !matches!(how, Compare::Equal | Compare::Unequal) {
        return None;
    }
    let value = constant_of(name, value, columns)?;
    let compare = |how| Filter::Compare(name.to_owned(), how, value.clone());
    let not = |how| Filter::Not(Box::new(compare(how)));
    let is_zero = matches!(value, Constant::Float(value) if value == 0.0);
    Some(match (&value, how) {
        (Constant::Float(_), Compare::Unequal) if is_zero => return None,
        (Constant::Float(_), Compare::Below) if is_zero => compare(Compare::AtMost),
        (Constant::Float(_), Compare::Above) if is_zero => not(Compare::Below),
        // True of NaN as well.
        (Constant::Float(_), Compare::Above) => not(Compare::AtMost),
        (Constant::Float(_), Compare::AtLeast) => not(Compare::Below),
        _ => compare(how),
    })
}

/// The number of a class, compared.
fn class_compared(name: &str, how: Compare, value: &ScalarValue, columns: &dyn Columns) -> Option<Filter> {
    match columns.mapping(name)? {
        Mapping::Class { .. } => Some(Filter::Compare(name.to_owned(), how, Constant::Int(integer(value)?))),
        _ => None,
    }
}

/// A size of a tensor or of what a file decodes to, compared.
fn size_compared(
    function: &str,
    name: &str,
    args: &[Expr],
    how: Compare,
    value: &ScalarValue,
    columns: &dyn Columns,
) -> Option<Filter> {
    let (rank, is_stored) = match columns.kind(name) {
        Kind::Tensor(tensor) => (tensor.dims.rank(), true),
        Kind::Media { base: Base::Video, column } => (Some(4), !column.htype().link),
        Kind::Media { base: Base::Image | Base::ImageGray, column } => (None, !column.htype().link),
        _ => return None,
    };
    let is_media = matches!(columns.kind(name), Kind::Media { .. });
    // Of pictures and of tensors with two or three axes, height comes first; of those with four, frames do.
    let first = match rank {
        Some(4) => Some(1),
        Some(2 | 3) => Some(0),
        None if is_media => Some(0),
        _ => None,
    };
    let axis = match (function, args) {
        ("height", []) => first?,
        ("width", []) => first? + 1,
        ("shape", [axis]) => {
            let axis = integer(literal(axis)?)?;
            usize::try_from(if axis < 0 { axis + i128::try_from(rank?).ok()? } else { axis }).ok()?
        }
        _ => return None,
    };
    let size = u64::try_from(integer(value)?).ok()?;
    is_stored.then(|| Filter::Size(name.to_owned(), axis, how, size))
}

fn integer(value: &ScalarValue) -> Option<i128> {
    match value {
        ScalarValue::Int64(Some(value)) => Some((*value).into()),
        ScalarValue::Int32(Some(value)) => Some((*value).into()),
        ScalarValue::UInt64(Some(value)) => Some((*value).into()),
        _ => None,
    }
}

/// A literal that can be compared with the stored values of a column of this name.
fn constant_of(name: &str, value: &ScalarValue, columns: &dyn Columns) -> Option<Constant> {
    match columns.mapping(name)? {
        Mapping::Logical(data_type) => count(data_type, value).filter(|_| columns.is_counted(name)),
        mapping => constant(mapping, value),
    }
}

/// A literal of the type of a column of dates, times or decimals. Of other types DataFusion casts the column, or the literal.
fn count(data_type: &DataType, value: &ScalarValue) -> Option<Constant> {
    if value.data_type() != *data_type {
        return None;
    }
    Some(match value {
        ScalarValue::Date32(Some(days)) => Constant::Int((*days).into()),
        ScalarValue::TimestampSecond(Some(count), _)
        | ScalarValue::TimestampMillisecond(Some(count), _)
        | ScalarValue::TimestampMicrosecond(Some(count), _)
        | ScalarValue::TimestampNanosecond(Some(count), _)
        | ScalarValue::Time64Microsecond(Some(count))
        | ScalarValue::Time64Nanosecond(Some(count))
        | ScalarValue::DurationSecond(Some(count))
        | ScalarValue::DurationMillisecond(Some(count))
        | ScalarValue::DurationMicrosecond(Some(count))
        | ScalarValue::DurationNanosecond(Some(count)) => Constant::Int((*count).into()),
        ScalarValue::Time32Second(Some(count)) | ScalarValue::Time32Millisecond(Some(count)) => {
            Constant::Int((*count).into())
        }
        // A number that is compared with decimals is a value, so its text says it best.
        ScalarValue::Decimal128(Some(unscaled), precision, scale) => {
            Constant::Text(Decimal128Type::format_decimal(*unscaled, *precision, *scale))
        }
        _ => return None,
    })
}

/// A literal that can be compared with the stored values of a column.
fn constant(mapping: &Mapping, value: &ScalarValue) -> Option<Constant> {
    let is_number = matches!(mapping, Mapping::Number(dtype) if *dtype != lacus_tensor::DType::BF16);
    let is_text = matches!(mapping, Mapping::Text | Mapping::Class { .. });
    Some(match value {
        ScalarValue::Dictionary(_, value) => return constant(mapping, value),
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text))
            if is_text =>
        {
            match mapping {
                // A number that has no name is written out.
                Mapping::Class { names, .. } if !names.contains(text) => match text.parse::<i64>() {
                    Ok(number)
                        if number.to_string() == *text
                            && usize::try_from(number).map_or(true, |place| place >= names.len()) =>
                    {
                        Constant::from(number)
                    }
                    _ => Constant::Text(text.clone()),
                },
                _ => Constant::Text(text.clone()),
            }
        }
        _ if !is_number => return None,
        ScalarValue::Boolean(Some(value)) => Constant::from(*value),
        ScalarValue::Int8(Some(value)) => Constant::Int((*value).into()),
        ScalarValue::Int16(Some(value)) => Constant::Int((*value).into()),
        ScalarValue::Int32(Some(value)) => Constant::Int((*value).into()),
        ScalarValue::Int64(Some(value)) => Constant::Int((*value).into()),
        ScalarValue::UInt8(Some(value)) => Constant::Int((*value).into()),
        ScalarValue::UInt16(Some(value)) => Constant::Int((*value).into()),
        ScalarValue::UInt32(Some(value)) => Constant::Int((*value).into()),
        ScalarValue::UInt64(Some(value)) => Constant::Int((*value).into()),
        ScalarValue::Float16(Some(value)) => real(value.to_f64())?,
        ScalarValue::Float32(Some(value)) => real((*value).into())?,
        ScalarValue::Float64(Some(value)) => real(*value)?,
        _ => return None,
    })
}

fn real(value: f64) -> Option<Constant> {
    (!value.is_nan()).then_some(Constant::Float(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors::{Dims, TensorType};
    use datafusion::prelude::{col, lit};
    use lacus_tensor::DType;
    use std::collections::HashMap;

    impl Columns for HashMap<&str, Mapping> {
        fn mapping(&self, name: &str) -> Option<&Mapping> {
            self.get(name)
        }

        fn is_counted(&self, name: &str) -> bool {
            name != "old"
        }

        fn kind(&self, name: &str) -> Kind {
            match name {
                "pixels" => Kind::Tensor(TensorType {
                    dtype: DType::U8,
                    dims: Dims::Ranked(vec![None, None, Some(3)]),
                }),
                _ => Kind::Other,
            }
        }
    }

    #[test]
    fn predicates_become_filters() {
        let names = vec!["cat".to_owned(), "dog".to_owned()];
        let columns: HashMap<&str, Mapping> = [
            ("n", Mapping::Number(DType::I64)),
            ("x", Mapping::Number(DType::F64)),
            ("t", Mapping::Text),
            ("day", Mapping::Logical(DataType::Date32)),
            ("price", Mapping::Logical(DataType::Decimal128(10, 2))),
            ("old", Mapping::Logical(DataType::Date32)),
            ("label", Mapping::Class { dtype: DType::U32, names }),
        ]
        .into();
        let check = |expr: Expr, expected: Option<Filter>| assert_eq!(superset(&expr, &columns), expected);
        let compare = |name: &str, how, value: Constant| Filter::Compare(name.into(), how, value);
        let not = |filter| Filter::Not(Box::new(filter));
        check(col("n").gt(lit(3i64)), Some(compare("n", Compare::Above, 3i64.into())));
        check(lit(3i64).gt(col("n")), Some(compare("n", Compare::Below, 3i64.into())));
        check(col("x").gt(lit(3.0)), Some(not(compare("x", Compare::AtMost, 3.0.into()))));
        check(col("x").lt(lit(0.0)), Some(compare("x", Compare::AtMost, 0.0.into())));
        check(col("x").not_eq(lit(0.0)), None);
        check(col("x").eq(lit(f64::NAN)), None);
        check(col("label").eq(lit("dog")), Some(compare("label", Compare::Equal, "dog".into())));
        check(col("label").gt(lit("dog")), None);
        check(col("n").eq(lit("dog")), None);
        // Class 7 has no name and is written out.
        check(col("label").eq(lit("7")), Some(compare("label", Compare::Equal, 7i64.into())));
        let call = |name: &str, args: Vec<Expr>| {
            let found = crate::functions::all().into_iter().find(|function| function.name() == name).unwrap();
            found.call(args)
        };
        let class_id = |name: &str| call("class_id", vec![col(name)]);
        check(class_id("label").lt(lit(2i64)), Some(compare("label", Compare::Below, 2i64.into())));
        check(class_id("n").lt(lit(2i64)), None);
        let size = |axis, how, size| Some(Filter::Size("pixels".into(), axis, how, size));
        let shape = |axis: i64| call("shape", vec![col("pixels"), lit(axis)]);
        check(shape(0).gt(lit(3i64)), size(0, Compare::Above, 3));
        check(lit(3i64).gt(shape(-1)), size(2, Compare::Below, 3));
        check(shape(0).gt(lit(-3i64)), None);
        check(call("width", vec![col("pixels")]).eq(lit(9i64)), size(1, Compare::Equal, 9));
        check(call("width", vec![col("n")]).eq(lit(9i64)), None);
        check(col("n").in_list(vec![lit(1i64), lit(2i64)], false), {
            Some(Filter::In("n".into(), vec![1i64.into(), 2i64.into()]))
        });
        check(col("n").in_list(vec![lit(1i64)], true), None);
        check(col("t").is_null(), Some(Filter::Missing("t".into())));
        check(col("t").is_not_null(), Some(not(Filter::Missing("t".into()))));
        let day = || lit(ScalarValue::Date32(Some(7)));
        check(col("day").gt_eq(day()), Some(compare("day", Compare::AtLeast, 7i64.into())));
        check(col("day").gt_eq(lit(7i64)), None);
        // Rows hold it as text.
        check(col("old").gt_eq(day()), None);
        let price = |unscaled, scale| lit(ScalarValue::Decimal128(Some(unscaled), 10, scale));
        check(col("price").lt(price(1250, 2)), Some(compare("price", Compare::Below, "12.50".into())));
        check(col("price").lt(price(125, 1)), None);
        // Of a conjunction a part is enough, of a disjunction all parts are needed.
        let known = col("n").eq(lit(1i64));
        let unknown = col("n").eq(col("x"));
        let one = Some(compare("n", Compare::Equal, 1i64.into()));
        check(known.clone().and(unknown.clone()), one);
        check(known.or(unknown), None);
    }
}
