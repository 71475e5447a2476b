//! Expressions: literals, names, operators, subscripts of whole arrays.

use super::{Binding, Facts, Infer, Lowered, MAX_LEVELS};
use crate::error::{AlgebraError, Problem};
use crate::expr::{Affine, Axis, Element, ElementNode, ReduceOp, Reduction};
use crate::syntax::{Expr, ExprNode, Span, Subscript};
use lacus_tensor::BinaryOp;
use lacus_tensor::DType;
use lacus_tensor::Scalar;

impl Infer<'_> {
    // Not inlining what is called from here keeps the frames of the recursion small.

    /// An expression as an array over its axes; within a statement with indices, as one element.
    pub(super) fn lower(&mut self, expr: &Expr) -> Result<Lowered, AlgebraError> {
        self.longer(expr.span)?;
        self.deeper(expr.span)?;
        let value = self.lower_node(expr);
        self.depth -= 1;
        value
    }

    fn lower_node(&mut self, expr: &Expr) -> Result<Lowered, AlgebraError> {
        let literal = |value: Scalar, known| {
            Ok(Lowered::scalar(Element::constant(value), Facts { weak: value.dtype() != DType::Bool, known }))
        };
        match &expr.node {
            ExprNode::Bool(value) => literal(Scalar::Bool(*value), None),
            ExprNode::Int(value) => literal(Scalar::I64(*value), Some((*value, *value))),
            ExprNode::Float(value) => literal(Scalar::F64(*value), None),
            ExprNode::Text(_) | ExprNode::List(_) => {
                let what =
                    format!("`{expr}` is no number: it can only be an argument of functions that take it");
                self.fail(Problem::Misplaced { what }, expr.span)
            }
            ExprNode::Name(name) => self.name(name, expr),
            ExprNode::Unary(op, a) => {
                let a = self.operand(a)?;
                self.unary(*op, a, expr.span)
            }
            ExprNode::Binary(..) => self.row(expr),
            ExprNode::MatMul(..) => {
                let product = self.in_whole(|infer| infer.products(expr))?;
                self.as_part(product, expr)
            }
            ExprNode::Call { name, arguments } => self.call(name, arguments, expr),
            ExprNode::Subscript(base, subscripts) => match self.site(expr)? {
                Some(element) => Ok(element),
                None => {
                    let slice = self.in_whole(|infer| {
                        let base_value = infer.operand(base)?;
                        infer.slice(base_value, subscripts, base, expr.span)
                    })?;
                    self.as_part(slice, expr)
                }
            },
        }
    }

    /// A row of operators on elements, from the left.
    #[inline(never)]
    fn row(&mut self, expr: &Expr) -> Result<Lowered, AlgebraError> {
        let (mut row, mut first) = (Vec::new(), expr);
        while let ExprNode::Binary(op, left, right) = &first.node {
            row.push((*op, first, right));
            first = left;
        }
        let depth = self.depth;
        // Of whole arrays, what is there can be computed on its own at any point. One element cannot: it is as deep as its
        // row is long.
        let is_whole = self.indices.is_none();
        if !is_whole {
            self.depth += row.len() - 1;
        }
        let mut value = self.operand(first)?;
        for (at, (op, expr, right)) in row.into_iter().rev().enumerate() {
            if at > 0 {
                self.longer(expr.span)?;
                value = self.settle(value, expr.span)?;
            }
            let right = self.operand(right)?;
            value = self.binary(op, value, right, expr.span)?;
            if !is_whole {
                self.depth = self.depth.saturating_sub(1).max(depth);
            } else if value.body.depth() > MAX_LEVELS {
                value = self.materialize(value, expr.span)?;
            }
        }
        self.depth = depth;
        Ok(value)
    }

    /// A row of products of matrices, from the left.
    #[inline(never)]
    fn products(&mut self, expr: &Expr) -> Result<Lowered, AlgebraError> {
        let (mut row, mut first) = (Vec::new(), expr);
        while let ExprNode::MatMul(left, right) = &first.node {
            row.push((first, left, right));
            first = left;
        }
        let mut value = self.lower(first)?;
        for (at, (expr, left, right)) in row.into_iter().rev().enumerate() {
            if at > 0 {
                self.longer(expr.span)?;
            }
            let (a, b) = (self.as_factor(value, left.span)?, self.factor(right)?);
            value = self.matmul(a, b, expr.span)?;
        }
        Ok(value)
    }

    /// An expression within a larger one.
    pub(super) fn operand(&mut self, expr: &Expr) -> Result<Lowered, AlgebraError> {
        let value = self.lower(expr)?;
        self.settle(value, expr.span)
    }

    /// An operand of a contraction, whose every element is read many times: computed first, unless it is a
    /// variable or a part of one.
    pub(super) fn factor(&mut self, expr: &Expr) -> Result<Lowered, AlgebraError> {
        let value = self.lower(expr)?;
        self.as_factor(value, expr.span)
    }

    fn as_factor(&mut self, value: Lowered, span: Span) -> Result<Lowered, AlgebraError> {
        match value.body.node {
            ElementNode::Read(..) | ElementNode::Constant(_) => Ok(value),
            _ => self.materialize(value, span),
        }
    }

    /// Looks at something without the indices of the statement around it.
    #[inline(never)]
    pub(super) fn in_whole<T>(
        &mut self,
        look: impl FnOnce(&mut Self) -> Result<T, AlgebraError>,
    ) -> Result<T, AlgebraError> {
        let indices = self.indices.take();
        let result = look(self);
        self.indices = indices;
        result
    }

    /// A whole array as part of the expression around it: within a statement with indices, it must be one element.
    #[inline(never)]
    pub(super) fn as_part(&mut self, value: Lowered, expr: &Expr) -> Result<Lowered, AlgebraError> {
        if self.indices.is_none() {
            return Ok(value);
        }
        let facts = value.facts;
        let value = self.settle(value, expr.span)?;
        Ok(Lowered::scalar(self.element(value, expr)?, facts))
    }

    #[inline(never)]
    fn name(&mut self, name: &str, expr: &Expr) -> Result<Lowered, AlgebraError> {
        if let Some(index) = self.index_value(name) {
            return Ok(index);
        }
        let value = match self.scope.get(name) {
            Some(Binding::Element(value)) => {
                // A copy is as much as was copied: parameters of parameters can double each time.
                self.size += value.body.size();
                return Ok(value.clone());
            }
            Some(Binding::Variable { slot, facts, .. }) => {
                let (slot, facts) = (*slot, *facts);
                self.read(slot, facts)
            }
            None => {
                let hint = match self.inputs.by_name.contains_key(name) {
                    true => {
                        format!(" (to use the tensor of that name, load it: `{name} = load(\"{name}\")`)")
                    }
                    false => String::new(),
                };
                return self.fail(Problem::Undefined { name: name.to_owned(), hint }, expr.span);
            }
        };
        self.as_part(value, expr)
    }

    /// numpy's `matmul`: the last two axes are matrices, those before are broadcast, vectors count as a row on the
    /// left and as a column on the right.
    #[inline(never)]
    fn matmul(&mut self, mut a: Lowered, mut b: Lowered, span: Span) -> Result<Lowered, AlgebraError> {
        let (left, right) = (a.dims(), b.dims());
        let mismatch = Problem::MatMul { left: left.clone(), right: right.clone() };
        let (Some(inner_a), Some(inner_b)) =
            (a.axes.len().checked_sub(1), b.axes.len().checked_sub(2).or(b.axes.len().checked_sub(1)))
        else {
            return self.fail(mismatch, span);
        };
        if left[inner_a] != right[inner_b] {
            return self.fail(mismatch, span);
        }
        let (k, other) = (a.axes.remove(inner_a), b.axes.remove(inner_b));
        let _ = b.body.substitute(other.index, &Affine::index(k.index));
        let row = if a.axes.is_empty() { None } else { a.axes.pop() };
        let column = if right.len() == 1 { None } else { b.axes.pop() };
        let mut product = self.binary(BinaryOp::Mul, a, b, span)?;
        product.axes.extend(row.into_iter().chain(column));
        Ok(self.reduce(BinaryOp::Add, product, vec![k]))
    }

    /// Reduces a value over axes that are not among its own any more.
    pub(super) fn reduce(&mut self, op: BinaryOp, value: Lowered, axes: Vec<Axis>) -> Lowered {
        let dtype = match (op, value.body.dtype) {
            (BinaryOp::Add | BinaryOp::Mul, DType::Bool) => DType::I64,
            (_, dtype) => dtype,
        };
        if axes.is_empty() {
            return Lowered { axes: value.axes, body: value.body.convert(dtype), facts: Facts::default() };
        }
        let reduction =
            Reduction { op: ReduceOp::Op(op), axes, guard: None, body: value.body.convert(dtype) };
        let body = Element { node: ElementNode::Reduce(Box::new(reduction)), dtype };
        Lowered { axes: value.axes, body, facts: Facts::default() }
    }

    /// `A[3, None, 0:10]`, as numpy's basic indexing: positions remove their axis, ranges keep it, missing ones keep all,
    /// `None` adds one.
    #[inline(never)]
    fn slice(
        &mut self,
        mut value: Lowered,
        subscripts: &[Subscript],
        base: &Expr,
        span: Span,
    ) -> Result<Lowered, AlgebraError> {
        let shape = value.dims();
        let found = subscripts.iter().filter(|subscript| **subscript != Subscript::New).count();
        if found > shape.len() {
            let tensor = base.to_string();
            return self.fail(Problem::WrongRank { tensor, shape, found }, span);
        }
        let mut kept = Vec::new();
        let mut axes = value.axes.clone().into_iter().enumerate();
        for subscript in subscripts {
            if *subscript == Subscript::New {
                kept.push(self.axis(1));
                continue;
            }
            let Some((axis, old)) = axes.next() else { break };
            let by = match subscript {
                Subscript::New => continue,
                Subscript::At(at) => {
                    let mut position = self.affine(at)?;
                    if let Some(from_end) = position.as_constant().filter(|&at| at < 0) {
                        position = Affine::constant(from_end.saturating_add_unsigned(old.extent));
                    }
                    let runs = self.range(&position);
                    self.inside((base, &shape, axis), (at, at.span), runs)?;
                    position
                }
                Subscript::Range(start, stop, step) => {
                    let bounds = [start.as_ref(), stop.as_ref(), step.as_ref()];
                    let (first, step, count) = match self.moving_range(bounds)? {
                        Some((first, step, count)) => {
                            let (low, high) = self.range(&first);
                            let last = i128::from(step) * (i128::from(count) - 1);
                            let runs = (low.min(low + last), high.max(high + last));
                            if count > 0 {
                                self.inside((base, &shape, axis), (subscript, span), runs)?;
                            }
                            (first, step, count)
                        }
                        None => {
                            let (first, step, count) = self.resolve_range(old.extent, bounds, span)?;
                            (Affine::constant(first), step, count)
                        }
                    };
                    let axis = self.axis(count);
                    let by = first.plus(&Affine::index(axis.index), step);
                    kept.push(axis);
                    by.unwrap_or_default()
                }
            };
            if !value.body.substitute(old.index, &by) {
                let reason = "a number exceeds 64 bits".to_owned();
                return self.fail(Problem::NotAffine { reason }, span);
            }
        }
        kept.extend(axes.map(|(_, axis)| axis));
        // What was known of a single number is not known of a part of something larger.
        Ok(Lowered { axes: kept, body: value.body, facts: Facts::default() })
    }

    /// Fails if positions along an axis are not all inside.
    fn inside(
        &self,
        (base, shape, axis): (&Expr, &[u64], usize),
        (index, span): (&dyn std::fmt::Display, Span),
        (low, high): (i128, i128),
    ) -> Result<(), AlgebraError> {
        if low >= 0 && high < i128::from(shape[axis]) {
            return Ok(());
        }
        let clamp = |n: i128| n.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        let (tensor, index, shape) = (base.to_string(), index.to_string(), shape.to_vec());
        self.fail(
            Problem::OutOfBounds { tensor, shape, axis, index, from: clamp(low), to: clamp(high) },
            span,
        )
    }

    /// First position, step and count of a range whose bounds move with counters of loops: by the same, so that there are
    /// always as many positions. `None` if the bounds do not move.
    fn moving_range(
        &mut self,
        [start, stop, step]: [Option<&Expr>; 3],
    ) -> Result<Option<(Affine, i64, u64)>, AlgebraError> {
        let (Some(start), Some(stop)) = (start, stop) else { return Ok(None) };
        let (Some(first), Some(end)) = (self.try_affine(start), self.try_affine(stop)) else {
            return Ok(None);
        };
        if first.as_constant().is_some() && end.as_constant().is_some() {
            return Ok(None);
        }
        let Some(length) = end.plus(&first, -1).and_then(|length| length.as_constant()) else {
            let what = "the number of positions in a range".to_owned();
            return self.fail(Problem::NotKnown { what }, stop.span);
        };
        let step = self.step_of_range(step, stop.span)?;
        let (length, by) = (i128::from(length) * i128::from(step.signum()), i128::from(step).abs());
        Ok(Some((first, step, (length.max(0) + by - 1).div_euclid(by) as u64)))
    }

    /// The step of a range.
    fn step_of_range(&mut self, step: Option<&Expr>, span: Span) -> Result<i64, AlgebraError> {
        match step.map_or(Ok(1), |step| self.known(step, "the step of a range"))? {
            0 => {
                let (what, expected) = ("the step of a range".to_owned(), "a number except 0".to_owned());
                self.fail(Problem::Type { what, expected, found: "0".to_owned() }, span)
            }
            step => Ok(step),
        }
    }

    /// First position, step and count of a range, as Python's `slice.indices`.
    fn resolve_range(
        &mut self,
        extent: u64,
        bounds: [Option<&Expr>; 3],
        span: Span,
    ) -> Result<(i64, i64, u64), AlgebraError> {
        let [start, stop, step] = bounds;
        let mut known =
            |bound: Option<&Expr>| bound.map(|bound| self.known(bound, "a bound of a range")).transpose();
        let (start, stop) = (known(start)?, known(stop)?);
        let (step, extent) = (self.step_of_range(step, span)?, extent as i64);
        let (least, most) = if step > 0 { (0, extent) } else { (-1, extent - 1) };
        let place =
            |bound: i64| (if bound < 0 { bound.saturating_add(extent) } else { bound }).clamp(least, most);
        let first = start.map_or(if step > 0 { least } else { most }, place);
        let end = stop.map_or(if step > 0 { most } else { least }, place);
        let (first_wide, end_wide, step_wide) = (i128::from(first), i128::from(end), i128::from(step));
        let count = if step > 0 {
            (end_wide - first_wide + step_wide - 1).div_euclid(step_wide)
        } else {
            (first_wide - end_wide - step_wide - 1).div_euclid(-step_wide)
        };
        Ok((first, step, count.max(0) as u64))
    }
}
