//! Positions and whole numbers that must be known before running.

use super::{Binding, Infer};
use crate::error::{AlgebraError, Problem};
use crate::expr::{Affine, Symbol};
use crate::syntax::{Expr, ExprNode};
use lacus_tensor::{BinaryOp, UnaryOp};

impl Infer<'_> {
    /// The expression as a sum of indices and known numbers times whole numbers. Within a statement with
    /// indices, a name that is no variable is an index.
    pub(super) fn affine(&mut self, expr: &Expr) -> Result<Affine, AlgebraError> {
        self.deeper(expr.span)?;
        let found = self.affine_node(expr);
        self.depth -= 1;
        found
    }

    fn affine_node(&mut self, expr: &Expr) -> Result<Affine, AlgebraError> {
        let reason = |text: String| Problem::NotAffine { reason: text };
        let too_large = || reason("a number exceeds 64 bits".to_owned());
        match &expr.node {
            ExprNode::Int(value) => Ok(Affine::constant(*value)),
            ExprNode::Name(name) => match self.scope.get(name) {
                Some(Binding::Element(value)) => {
                    let slot = value.as_slot(&self.program.slots);
                    match (value.facts.known, slot) {
                        (Some((low, high)), _) if low == high => Ok(Affine::constant(low)),
                        (Some(_), Some(slot)) => Ok(Affine::symbol(Symbol::Slot(slot))),
                        _ => self.fail(reason(format!("'{name}' is not known")), expr.span),
                    }
                }
                Some(Binding::Variable { slot, facts, .. }) => {
                    let (slot, facts) = (*slot, *facts);
                    match facts.known {
                        Some((low, high)) if low == high => Ok(Affine::constant(low)),
                        Some(_) => Ok(Affine::symbol(Symbol::Slot(slot))),
                        None => {
                            let found = &self.program.slots[slot.0];
                            let text = format!("'{name}' is {}", super::describe(found.dtype, &found.dims));
                            self.fail(reason(text), expr.span)
                        }
                    }
                }
                None => {
                    if self.indices.is_none() {
                        let hint =
                            " (to use it as an index, give the left side indices: `x[…] = `)".to_owned();
                        return self.fail(Problem::Undefined { name: name.clone(), hint }, expr.span);
                    }
                    let fresh = self.fresh();
                    let index = match &mut self.indices {
                        Some(indices) => indices.index(name, fresh),
                        None => fresh,
                    };
                    Ok(Affine::index(index))
                }
            },
            ExprNode::Unary(UnaryOp::Neg, inner) => {
                let inner = self.affine(inner)?;
                Affine::default().plus(&inner, -1).map_or_else(|| self.fail(too_large(), expr.span), Ok)
            }
            ExprNode::Binary(op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), a, b) => {
                let (a, b) = (self.affine(a)?, self.affine(b)?);
                let result = match (op, a.as_constant(), b.as_constant()) {
                    (BinaryOp::Add, ..) => a.plus(&b, 1),
                    (BinaryOp::Sub, ..) => a.plus(&b, -1),
                    (_, _, Some(times)) => Affine::default().plus(&a, times),
                    (_, Some(times), _) => Affine::default().plus(&b, times),
                    _ => return self.fail(reason("two indices are multiplied".to_owned()), expr.span),
                };
                result.map_or_else(|| self.fail(too_large(), expr.span), Ok)
            }
            ExprNode::Call { name, .. } if name == "dim" => {
                let value = self.known(expr, "a position")?;
                Ok(Affine::constant(value))
            }
            // Of numbers that are known; of indices it would be no sum.
            ExprNode::Binary(op, ..) if op.divides_whole() => match self.known(expr, "a position") {
                Ok(value) => Ok(Affine::constant(value)),
                Err(_) => self.fail(reason(format!("`{expr}` is neither")), expr.span),
            },
            _ => self.fail(reason(format!("`{expr}` is neither")), expr.span),
        }
    }

    /// The affine form, where there is one and it makes no new index: for conditions, which need not have any.
    pub(super) fn try_affine(&mut self, expr: &Expr) -> Option<Affine> {
        let indices = self.indices.clone();
        let count = indices.as_ref().map_or(0, super::IndexScope::len);
        // Nobody asks for the place of an error that is no error, and it takes as long to find as the text is.
        let (source, depth) = (std::mem::take(&mut self.source), self.depth);
        let result = self.affine(expr).ok();
        (self.source, self.depth) = (source, depth);
        if self.indices.as_ref().map_or(0, super::IndexScope::len) != count {
            self.indices = indices;
            return None;
        }
        result
    }

    /// The whole number an expression has before anything runs.
    pub(super) fn known(&mut self, expr: &Expr, what: &str) -> Result<i64, AlgebraError> {
        let indices = self.indices.take();
        let value = self.lower(expr);
        self.indices = indices;
        match value?.facts.known {
            Some((low, high)) if low == high => Ok(low),
            _ => self.fail(Problem::NotKnown { what: what.to_owned() }, expr.span),
        }
    }

    /// The extent that an expression has before anything runs.
    pub(super) fn known_extent(&mut self, expr: &Expr) -> Result<u64, AlgebraError> {
        let found = self.known(expr, "an extent")?;
        u64::try_from(found).or_else(|_| {
            let (what, expected) = ("an extent".to_owned(), "a number from 0".to_owned());
            self.fail(Problem::Type { what, expected, found: found.to_string() }, expr.span)
        })
    }

    /// The range that a position runs through. Indices must have their extents; those of extent 0 count as 0.
    pub(super) fn range(&self, affine: &Affine) -> (i128, i128) {
        affine.range(|symbol| match symbol {
            Symbol::Index(index) => {
                let extent = self.indices.as_ref().and_then(|indices| indices.extent(index)).unwrap_or(1);
                (0, (extent.max(1) - 1) as i64)
            }
            Symbol::Slot(slot) => self.ranges.get(&slot).copied().unwrap_or((i64::MIN, i64::MAX)),
        })
    }

    /// What a condition says about positions when it is true (or false): affine numbers that are at least 0.
    pub(super) fn says(&mut self, condition: &Expr, truth: bool) -> Vec<Affine> {
        let depth = self.depth;
        let found = match self.deeper(condition.span) {
            Ok(()) => self.says_node(condition, truth),
            // Whoever looks at the condition itself says that it is too deep.
            Err(_) => Vec::new(),
        };
        self.depth = depth;
        found
    }

    fn says_node(&mut self, condition: &Expr, truth: bool) -> Vec<Affine> {
        match &condition.node {
            ExprNode::Unary(UnaryOp::Not, inner) => self.says(inner, !truth),
            ExprNode::Binary(op, a, b) if op.is_logical() => {
                if (*op == BinaryOp::And) != truth {
                    return Vec::new();
                }
                let mut all = self.says(a, truth);
                all.extend(self.says(b, truth));
                all
            }
            ExprNode::Binary(op, a, b) if op.is_comparison() => {
                let (Some(a), Some(b)) = (self.try_affine(a), self.try_affine(b)) else {
                    return Vec::new();
                };
                let op = match (op, truth) {
                    (op, true) => *op,
                    (BinaryOp::Lt, false) => BinaryOp::Ge,
                    (BinaryOp::Le, false) => BinaryOp::Gt,
                    (BinaryOp::Gt, false) => BinaryOp::Le,
                    (BinaryOp::Ge, false) => BinaryOp::Lt,
                    (BinaryOp::Ne, false) => BinaryOp::Eq,
                    _ => BinaryOp::Ne,
                };
                let one = Affine::constant(1);
                let less = |low: &Affine, high: &Affine| high.plus(low, -1)?.plus(&one, -1);
                let facts = match op {
                    BinaryOp::Lt => vec![less(&a, &b)],
                    BinaryOp::Gt => vec![less(&b, &a)],
                    BinaryOp::Le => vec![b.plus(&a, -1)],
                    BinaryOp::Ge => vec![a.plus(&b, -1)],
                    BinaryOp::Eq => vec![a.plus(&b, -1), b.plus(&a, -1)],
                    _ => Vec::new(),
                };
                facts.into_iter().flatten().collect()
            }
            _ => Vec::new(),
        }
    }

    /// True when the position is never negative: because its indices are not, or because a condition says so.
    pub(super) fn never_negative(&self, position: &Affine, said: &[Affine], depth: usize) -> bool {
        if self.range(position).0 >= 0 {
            return true;
        }
        depth > 0
            && said.iter().any(|fact| {
                // If `position - n · fact` is not negative and neither is the fact, the position is not.
                let mut multiples: Vec<i64> =
                    position.factors().map(|(_, factor)| factor.saturating_abs()).collect();
                multiples.push(1);
                multiples.sort_unstable();
                multiples.dedup();
                multiples.into_iter().any(|times| {
                    times
                        .checked_neg()
                        .and_then(|times| position.plus(fact, times))
                        .is_some_and(|rest| self.never_negative(&rest, said, depth - 1))
                })
            })
    }
}
