//! What an expression needs of a wide column: all of each sample, a part, or a fact that indexes know.
//!
//! A wide column of a scan is named by a relation that is in no plan, so that it is told apart from what plans have.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, ScalarValue, TableReference};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;
use lacus_sample::Base;

use crate::source::{PLACE, Source};
use crate::tensors::{Kind, TensorArray};

/// The relation of a wide column of a scan, which is in no plan.
const LATE: &str = "\u{1}late";

/// What is read of a sample.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd)]
pub(crate) enum Wanted {
    /// All of it.
    Whole,
    /// What these subscripts select.
    Part(String),
    /// Its shape.
    Shape,
    /// The size of an axis; negative ones count from the end.
    Size(i64),
    /// A size that a picture has.
    Side(Side),
    /// The number of its axes.
    Rank,
    /// The number of its elements, times the bytes of one.
    Elements(u64),
    /// The name of the type of its elements, which is the same for all.
    DType(String),
    /// The format of the file.
    Codec,
    /// The bytes of the file.
    Bytes,
    /// Whether it is missing.
    IsNull,
}

/// A size of a picture, by the shape of what it decodes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd)]
pub(crate) enum Side {
    Height,
    Width,
    Channels,
    /// The channels of sound.
    Voices,
}

impl Side {
    /// The size; `None` if there is no such axis.
    pub(crate) fn of(self, shape: &[u64]) -> Option<u64> {
        // Of four axes, the first is that of frames.
        let first = usize::from(shape.len() == 4);
        match self {
            Side::Height => shape.get(first).copied(),
            Side::Width => shape.get(first + 1).copied(),
            // Pictures in grays, and sound of one channel, have no axis for them.
            Side::Channels => Some(shape.get(first + 2).copied().unwrap_or(1)),
            Side::Voices => Some(shape.get(1).copied().unwrap_or(1)),
        }
    }
}

impl Wanted {
    /// Whether nothing but indexes is read for it.
    pub(crate) fn is_known(&self) -> bool {
        !matches!(self, Wanted::Whole | Wanted::Part(_))
    }

    /// Whether to look at those rows only whose value is used: others cost time, or may have no such value.
    pub(crate) fn is_for_few(&self) -> bool {
        !self.is_known() || matches!(self, Wanted::Size(_))
    }
}

/// The scan that a wide column is of.
pub(crate) fn scan_of(column: &Column) -> Option<usize> {
    match &column.relation {
        Some(TableReference::Bare { table }) => table.strip_prefix(LATE)?.parse().ok(),
        _ => None,
    }
}

/// The relation of the wide columns of a scan.
pub(crate) fn relation_of(scan: usize) -> TableReference {
    TableReference::bare(format!("{LATE}{scan}"))
}

/// A wide column of a scan.
pub(crate) fn wide(scan: usize, name: &str) -> Expr {
    Expr::Column(Column::new(Some(relation_of(scan)), name))
}

/// The column of a plan that has the places of the rows of a scan.
pub(crate) fn place_name(scan: usize) -> String {
    format!("{PLACE}{scan}")
}

/// The wide column that an expression needs, how much of it, and whether the opposite is meant.
pub(crate) fn wanted(expr: &Expr, sources: &[Arc<Source>]) -> Result<Option<(Column, Wanted, bool)>> {
    let column_of = |expr: &Expr| match expr {
        Expr::Column(column) if scan_of(column).is_some() => Some(column.clone()),
        _ => None,
    };
    Ok(match expr {
        Expr::Column(_) => column_of(expr).map(|column| (column, Wanted::Whole, false)),
        Expr::IsNull(inner) => column_of(inner).map(|column| (column, Wanted::IsNull, false)),
        Expr::IsNotNull(inner) => column_of(inner).map(|column| (column, Wanted::IsNull, true)),
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            let Some(column) = args.first().and_then(column_of) else { return Ok(None) };
            let Some(scan) = scan_of(&column) else { return Ok(None) };
            let field = sources[scan].schema().field_with_name(&column.name)?;
            let element = TensorArray::type_of(field).map(|of| of.dtype);
            let kind = Kind::of(field);
            let wanted = match func.name() {
                // All samples of a column have one, so that only those that are missing have none.
                "dtype" if matches!(kind, Kind::Tensor(_)) || is_file(&kind) => {
                    element.map(|dtype| Wanted::DType(dtype.name().to_owned()))
                }
                name => part_of(name, &args[1..], &kind),
            };
            wanted.map(|wanted| (column, wanted, false))
        }
        _ => None,
    })
}

/// Whether something is true of what an expression needs of wide columns, at one place at least.
pub(crate) fn any_wanted(
    expr: &Expr,
    sources: &[Arc<Source>],
    mut is: impl FnMut(&Wanted) -> bool,
) -> Result<bool> {
    let mut found = false;
    expr.apply(|expr| {
        Ok(match wanted(expr, sources)? {
            Some((_, wanted, _)) => {
                found |= is(&wanted);
                TreeNodeRecursion::Jump
            }
            None => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// Whether a column has files in it. What a link leads to has a shape that no index knows.
fn is_file(kind: &Kind) -> bool {
    matches!(kind, Kind::Media { column, .. } if !column.htype().link)
}

/// What a function needs of a wide column, if it is less than all.
fn part_of(function: &str, args: &[Expr], kind: &Kind) -> Option<Wanted> {
    let is_file = is_file(kind);
    let tensor = match kind {
        Kind::Tensor(tensor) => Some(tensor),
        _ => None,
    };
    let is_tensor = tensor.is_some();
    let base = match kind {
        Kind::Media { base, .. } if is_file => Some(*base),
        _ => None,
    };
    let is_picture = matches!(base, Some(Base::Image | Base::ImageGray | Base::Video)) || is_tensor;
    match (function, args) {
        ("shape", []) if is_tensor || is_file => Some(Wanted::Shape),
        ("shape", [axis]) if is_tensor || is_file => number(axis).map(Wanted::Size),
        ("ndim", []) if is_tensor || is_file => Some(Wanted::Rank),
        ("size", []) if is_tensor || is_file => Some(Wanted::Elements(1)),
        ("height", []) if is_picture => Some(Wanted::Side(Side::Height)),
        ("width", []) if is_picture => Some(Wanted::Side(Side::Width)),
        ("channels", []) if is_picture => Some(Wanted::Side(Side::Channels)),
        ("channels", []) if base == Some(Base::Audio) => Some(Wanted::Side(Side::Voices)),
        ("codec", []) if is_file => Some(Wanted::Codec),
        ("bytes", []) if is_file => Some(Wanted::Bytes),
        ("bytes", []) => tensor.map(|tensor| Wanted::Elements(tensor.dtype.size_bytes() as u64)),
        ("subscript", [Expr::Literal(ScalarValue::Utf8(Some(pattern)), _), bounds @ ..]) if is_tensor => {
            subscripts(pattern, bounds).map(Wanted::Part)
        }
        _ => None,
    }
}

fn number(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::Int64(value), _) => *value,
        Expr::Literal(ScalarValue::Int32(value), _) => value.map(i64::from),
        _ => None,
    }
}

/// The text of subscripts whose bounds are constant: the letters of a pattern stand for them.
fn subscripts(pattern: &str, bounds: &[Expr]) -> Option<String> {
    let mut bounds = bounds.iter();
    let mut text = String::new();
    for letter in pattern.chars() {
        match letter.is_ascii_alphabetic() {
            true => text.push_str(&number(bounds.next()?)?.to_string()),
            false => text.push(letter),
        }
    }
    bounds.next().is_none().then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors::{Dims, TensorType};
    use datafusion::prelude::{col, lit};
    use lacus_tensor::DType;

    #[test]
    fn functions_need_less_than_all() {
        let kind = Kind::Tensor(TensorType { dtype: DType::F32, dims: Dims::Unranked });
        let check = |function: &str, args: &[Expr], expected: Option<Wanted>| {
            assert_eq!(part_of(function, args, &kind), expected, "{function}");
        };
        check("shape", &[], Some(Wanted::Shape));
        check("shape", &[lit(-1i64)], Some(Wanted::Size(-1)));
        check("shape", &[col("n")], None);
        check("bytes", &[], Some(Wanted::Elements(4)));
        check("width", &[], Some(Wanted::Side(Side::Width)));
        check("subscript", &[lit("a:b,i"), lit(1i64), lit(2i64), lit(-1i64)], {
            Some(Wanted::Part("1:2,-1".into()))
        });
        check("subscript", &[lit("i"), col("n")], None);
        check("mean", &[], None);
        assert_eq!(part_of("shape", &[], &Kind::Other), None);
    }

    #[test]
    fn sides_are_those_of_pictures() {
        let sides = |shape: &[u64]| [Side::Height, Side::Width, Side::Channels].map(|side| side.of(shape));
        assert_eq!(sides(&[4, 5, 3]), [Some(4), Some(5), Some(3)]);
        assert_eq!(sides(&[7, 4, 5, 3]), [Some(4), Some(5), Some(3)]);
        assert_eq!(sides(&[4, 5]), [Some(4), Some(5), Some(1)]);
        assert_eq!(sides(&[4]), [Some(4), None, Some(1)]);
        assert_eq!([Side::Voices.of(&[9]), Side::Voices.of(&[9, 2])], [Some(1), Some(2)]);
    }
}
