//! Which type a result has, and the conversions that make both sides of an operation one type.

use super::{Facts, Infer, Lowered};
use crate::error::{AlgebraError, Problem};
use crate::expr::{Affine, Axis, Element, ElementNode};
use crate::syntax::Span;
use lacus_tensor::{BinaryOp, DType, Scalar, UnaryOp};

/// The common type of two values. A weak one (from literals alone) gives way to the other, unless it is of a
/// wider kind.
pub(super) fn common(a: (DType, bool), b: (DType, bool)) -> (DType, bool) {
    let kind = |dtype: DType| match dtype {
        DType::Bool => 0,
        DType::I64 => 1,
        _ => 2,
    };
    let weak = a.1 && b.1;
    let dtype = match (a, b) {
        ((a, _), (b, _)) if a == b => a,
        ((a, true), (b, false)) if kind(a) <= kind(b) => b,
        ((a, false), (b, true)) if kind(b) <= kind(a) => a,
        ((DType::Bool, _), (other, _)) | ((other, _), (DType::Bool, _)) => other,
        // i64 and f32, or f32 and f64, or a weak float with an integer.
        _ => DType::F64,
    };
    (dtype, weak)
}

fn float(dtype: DType) -> DType {
    if dtype == DType::F32 { DType::F32 } else { DType::F64 }
}

fn number(dtype: DType) -> DType {
    if dtype == DType::Bool { DType::I64 } else { dtype }
}

impl Infer<'_> {
    pub(super) fn unary(&mut self, op: UnaryOp, a: Lowered, span: Span) -> Result<Lowered, AlgebraError> {
        if op == UnaryOp::Not && a.body.dtype != DType::Bool {
            let (what, expected) = ("`not`".to_owned(), "a bool".to_owned());
            return self.fail(Problem::Type { what, expected, found: a.describe() }, span);
        }
        let dtype = match op {
            UnaryOp::Not => DType::Bool,
            op if op.makes_float() => float(a.body.dtype),
            _ => number(a.body.dtype),
        };
        let known = match op {
            UnaryOp::Neg => {
                a.facts.known.and_then(|(low, high)| Some((high.checked_neg()?, low.checked_neg()?)))
            }
            _ => None,
        };
        let body = Element { node: ElementNode::Unary(op, Box::new(a.body.convert(dtype))), dtype };
        Ok(Lowered { axes: a.axes, body, facts: Facts { weak: a.facts.weak, known } })
    }

    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        a: Lowered,
        b: Lowered,
        span: Span,
    ) -> Result<Lowered, AlgebraError> {
        let (mut dtype, weak) = common((a.body.dtype, a.facts.weak), (b.body.dtype, b.facts.weak));
        match op {
            op if op.is_logical() => {
                if let Some(other) = [&a, &b].into_iter().find(|side| side.body.dtype != DType::Bool) {
                    let found = other.describe();
                    return self.fail(
                        Problem::Type { what: format!("`{op}`"), expected: "bools".to_owned(), found },
                        span,
                    );
                }
            }
            BinaryOp::Div | BinaryOp::Pow => dtype = float(dtype),
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Mod | BinaryOp::FloorDiv => {
                dtype = number(dtype);
            }
            _ => {}
        }
        let known = a.facts.known.zip(b.facts.known).and_then(|(a, b)| known(op, a, b));
        let result = if op.is_comparison() { DType::Bool } else { dtype };
        let (axes, [a, b]) = self.broadcast(&format!("`{op}`"), [a, b], span)?;
        let node = ElementNode::Binary(op, Box::new(a.convert(dtype)), Box::new(b.convert(dtype)));
        let facts = Facts { weak: weak && !op.is_comparison(), known };
        Ok(Lowered { axes, body: Element { node, dtype: result }, facts })
    }

    /// `where(c, a, b)`
    pub(super) fn choose(&mut self, [c, a, b]: [Lowered; 3], span: Span) -> Result<Lowered, AlgebraError> {
        if c.body.dtype != DType::Bool {
            let (what, expected) = ("the condition of `where`".to_owned(), "a bool".to_owned());
            return self.fail(Problem::Type { what, expected, found: c.describe() }, span);
        }
        let (dtype, weak) = common((a.body.dtype, a.facts.weak), (b.body.dtype, b.facts.weak));
        let (axes, [c, a, b]) = self.broadcast("`where`", [c, a, b], span)?;
        let node = ElementNode::Where(Box::new(c), Box::new(a.convert(dtype)), Box::new(b.convert(dtype)));
        Ok(Lowered { axes, body: Element { node, dtype }, facts: Facts { weak, known: None } })
    }

    /// The bodies of several arrays over common axes, as numpy broadcasts: shapes are aligned at their ends, and
    /// an axis of extent 1 is repeated.
    pub(super) fn broadcast<const N: usize>(
        &mut self,
        what: &str,
        all: [Lowered; N],
        span: Span,
    ) -> Result<(Vec<Axis>, [Element; N]), AlgebraError> {
        let rank = all.iter().map(|each| each.axes.len()).max().unwrap_or(0);
        let mut axes: Vec<Axis> = Vec::with_capacity(rank);
        for position in 0..rank {
            let extents = all.iter().filter_map(|each| {
                (position + each.axes.len()).checked_sub(rank).map(|own| each.axes[own].extent)
            });
            let mut extent = 1;
            for found in extents {
                if extent == 1 {
                    extent = found;
                } else if found != 1 && found != extent {
                    let shape_with = |wanted: u64| {
                        all.iter()
                            .find(|each| {
                                (position + each.axes.len())
                                    .checked_sub(rank)
                                    .is_some_and(|own| each.axes[own].extent == wanted)
                            })
                            .map_or_else(Vec::new, Lowered::dims)
                    };
                    let (left, right) = (shape_with(extent), shape_with(found));
                    return self.fail(Problem::Broadcast { what: what.to_owned(), left, right }, span);
                }
            }
            axes.push(self.axis(extent));
        }
        let bodies = all.map(|mut each| {
            let offset = rank - each.axes.len();
            for (own, axis) in each.axes.iter().enumerate() {
                let to = &axes[offset + own];
                let by = if axis.extent == to.extent { Affine::index(to.index) } else { Affine::constant(0) };
                // An index for an index cannot exceed 64 bits.
                let _ = each.body.substitute(axis.index, &by);
            }
            each.body
        });
        Ok((axes, bodies))
    }
}

fn known(op: BinaryOp, a: (i64, i64), b: (i64, i64)) -> Option<(i64, i64)> {
    match op {
        BinaryOp::Add => Some((a.0.checked_add(b.0)?, a.1.checked_add(b.1)?)),
        BinaryOp::Sub => Some((a.0.checked_sub(b.1)?, a.1.checked_sub(b.0)?)),
        BinaryOp::Mul => {
            let mut products = Vec::with_capacity(4);
            for x in [a.0, a.1] {
                for y in [b.0, b.1] {
                    products.push(x.checked_mul(y)?);
                }
            }
            Some((*products.iter().min()?, *products.iter().max()?))
        }
        BinaryOp::FloorDiv if b.0 == b.1 && b.0 != 0 => {
            let by = |a: i64| Scalar::I64(a).binary(op, Scalar::I64(b.0)).to_i64();
            Some((by(a.0).min(by(a.1)), by(a.0).max(by(a.1))))
        }
        BinaryOp::Mod if a.0 == a.1 && b.0 == b.1 && b.0 != 0 => {
            let rest = Scalar::I64(a.0).binary(op, Scalar::I64(b.0)).to_i64();
            Some((rest, rest))
        }
        _ => None,
    }
}
