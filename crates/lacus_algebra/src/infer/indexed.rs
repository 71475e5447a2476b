//! Statements with indices: `C[i, j] = A[i, k] * B[k, j] if i < j`.
//!
//! First all subscripts are collected, and each index gets its extent: the one it was told, or from an axis that it
//! indexes alone, or else the largest with which every position stays within its axis (so `C[i] = A[i + j] * K[j]` is a
//! convolution without padding). Then the right side is lowered with these extents, every position being
//! checked against its axis, and last the sums are put in place.

use super::place_sums::{place_guard, place_sum};
use super::{Binding, Facts, Infer, Lowered, MAX_LEVELS};
use crate::error::{AlgebraError, Problem};
use crate::expr::{Affine, Axis, Element, ElementNode, Index, ReduceOp, Reduction, Slot, Symbol};
use crate::syntax::{Expr, ExprNode, Span, Subscript, Target};
use lacus_tensor::BinaryOp;
use lacus_tensor::DType;
use lacus_tensor::Scalar;
use std::collections::BTreeMap;

/// The indices of a statement and the places where they are used.
#[derive(Clone, Debug, Default)]
pub(super) struct IndexScope {
    names: Vec<(String, Index, Option<u64>)>,
    /// By address of the expression, which lives as long as the program that is checked.
    sites: BTreeMap<usize, Site>,
    /// What conditions around the current expression say is at least 0.
    pub(super) said: Vec<Affine>,
}

/// A tensor with its subscripts.
#[derive(Clone, Debug)]
struct Site {
    slot: Slot,
    name: String,
    positions: Vec<Affine>,
    /// The same as they are written.
    texts: Vec<String>,
    span: Span,
    /// Sites before it.
    order: usize,
}

impl IndexScope {
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// The index of this name, which is `fresh` if there was none.
    pub(super) fn index(&mut self, name: &str, fresh: Index) -> Index {
        match self.names.iter().find(|(known, ..)| known == name) {
            Some((_, index, _)) => *index,
            None => {
                self.names.push((name.to_owned(), fresh, None));
                fresh
            }
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<Index> {
        self.names.iter().find(|(known, ..)| known == name).map(|(_, index, _)| *index)
    }

    pub(super) fn extent(&self, wanted: Index) -> Option<u64> {
        self.names.iter().find(|(_, index, _)| *index == wanted).and_then(|(.., extent)| *extent)
    }

    fn set(&mut self, wanted: Index, extent: u64) {
        if let Some((.., known)) = self.names.iter_mut().find(|(_, index, _)| *index == wanted) {
            *known = Some(extent);
        }
    }
}

/// Functions of whole arrays, whose arguments are not looked at with the indices of the statement.
pub(super) const WHOLE_FUNCTIONS: [&str; 12] =
    ["sum", "prod", "any", "all", "transpose", "einsum", "dim", "load", "zeros", "ones", "full", "random"];

impl Infer<'_> {
    /// The right side of a statement with indices, as an array over the indices of the left side.
    pub(super) fn indexed(
        &mut self,
        target: &Target,
        reduce: Option<&str>,
        value: &Expr,
        guard: Option<&Expr>,
        span: Span,
    ) -> Result<Lowered, AlgebraError> {
        let outputs = target.indices.as_deref().unwrap_or(&[]);
        for (at, name) in outputs.iter().enumerate() {
            if outputs[..at].contains(name) {
                return self.fail(Problem::RepeatedIndex { index: name.clone() }, target.span);
            }
            if self.scope.contains_key(name) {
                return self.fail(Problem::VariableAsIndex { name: name.clone() }, target.span);
            }
        }
        let told = self.told_extents(target)?;
        self.indices = Some(told);
        self.collect(value)?;
        if let Some(guard) = guard {
            self.collect(guard)?;
        }
        self.solve_extents(outputs, span)?;
        let scope = self.indices.clone().unwrap_or_default();
        let mut axes = Vec::with_capacity(outputs.len());
        for name in outputs {
            match scope.find(name).and_then(|index| Some((index, scope.extent(index)?))) {
                Some((index, extent)) => axes.push(Axis { index, extent }),
                None => return self.fail(Problem::OutputIndex { index: name.clone() }, target.span),
            }
        }
        let mut guards = Vec::new();
        if let Some(guard) = guard {
            let said = self.says(guard, true);
            self.conditions(guard, &mut guards)?;
            if let Some(indices) = &mut self.indices {
                indices.said = said;
            }
        }
        let inner: Vec<Axis> = scope
            .names
            .iter()
            .filter(|(name, ..)| !outputs.contains(name))
            .filter_map(|(_, index, extent)| Some(Axis { index: *index, extent: (*extent)? }))
            .collect();
        let body = match reduce {
            None if guards.is_empty() => self.terms(value, &axes, &inner, &scope)?,
            _ => {
                let body = self.lower(value)?;
                self.element(body, value)?
            }
        };
        self.indices = None;
        let body = match reduce {
            None => self.sum_terms(body, &inner, guards, &scope, span)?,
            Some(op) => self.reduce_all(op, body, inner, guards, span)?,
        };
        Ok(Lowered { axes, body, facts: Facts::default() })
    }

    /// The right side of a statement, which is one element. Of a long row of terms, what is there is summed where it is to be
    /// summed and computed on its own every now and then: sums stand within terms, so that is the same.
    fn terms(
        &mut self,
        value: &Expr,
        axes: &[Axis],
        inner: &[Axis],
        scope: &IndexScope,
    ) -> Result<Element, AlgebraError> {
        let (mut row, mut first) = (Vec::new(), value);
        while let ExprNode::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), left, right) = &first.node {
            row.push((*op, first, right));
            first = left;
        }
        if row.len() <= MAX_LEVELS {
            let body = self.lower(value)?;
            return self.element(body, value);
        }
        let mut sum = self.operand(first)?;
        for (at, (op, expr, right)) in row.into_iter().rev().enumerate() {
            self.longer(expr.span)?;
            let term = self.operand(right)?;
            sum = self.binary(op, sum, term, expr.span)?;
            if at % MAX_LEVELS != MAX_LEVELS - 1 {
                continue;
            }
            let facts = sum.facts;
            let body = self.element(sum, expr)?;
            let body = self.sum_terms(body, inner, Vec::new(), scope, expr.span)?;
            let own: Vec<Axis> = axes.iter().filter(|axis| body.uses(axis.index)).cloned().collect();
            let (dtype, dims) = (body.dtype, own.iter().map(|axis| axis.extent).collect());
            let position = own.iter().map(|axis| Affine::index(axis.index)).collect();
            let slot = self.slot(&format!("_{}", self.program.slots.len()), dtype, dims, expr.span)?;
            self.compute(slot, Lowered { axes: own, body, facts }, expr.span);
            sum = Lowered::scalar(Element { node: ElementNode::Read(slot, position), dtype }, facts);
        }
        self.element(sum, value)
    }

    /// A single element, or an error that tells to index the array.
    pub(super) fn element(&self, value: Lowered, expr: &Expr) -> Result<Element, AlgebraError> {
        if value.axes.is_empty() {
            return Ok(value.body);
        }
        self.fail(Problem::NeedsIndices { tensor: expr.to_string(), shape: value.dims() }, expr.span)
    }

    fn conditions(&mut self, guard: &Expr, all: &mut Vec<Element>) -> Result<(), AlgebraError> {
        if let ExprNode::Binary(BinaryOp::And, a, b) = &guard.node {
            self.deeper(guard.span)?;
            self.conditions(a, all)?;
            self.conditions(b, all)?;
            self.depth -= 1;
            return Ok(());
        }
        let value = self.lower(guard)?;
        if value.body.dtype != DType::Bool {
            let (what, expected) = ("the condition after `if`".to_owned(), "a bool".to_owned());
            return self.fail(Problem::Type { what, expected, found: value.describe() }, guard.span);
        }
        all.push(self.element(value, guard)?);
        Ok(())
    }

    fn sum_terms(
        &self,
        mut body: Element,
        inner: &[Axis],
        guards: Vec<Element>,
        scope: &IndexScope,
        span: Span,
    ) -> Result<Element, AlgebraError> {
        for axis in inner {
            body = place_sum(body, axis);
        }
        for guard in guards {
            let summed: Vec<Axis> = inner.iter().filter(|axis| guard.uses(axis.index)).cloned().collect();
            if let Some(first) = summed.first() {
                if !place_guard(&mut body, &guard, &summed) {
                    let name = scope.names.iter().find(|(_, index, _)| *index == first.index);
                    let index = name.map_or_else(String::new, |(name, ..)| name.clone());
                    return self.fail(Problem::GuardIndex { index }, span);
                }
                continue;
            }
            let dtype = body.dtype;
            let zero = Element::constant(Scalar::I64(0)).convert(dtype);
            body =
                Element { node: ElementNode::Where(Box::new(guard), Box::new(body), Box::new(zero)), dtype };
        }
        Ok(body)
    }

    fn reduce_all(
        &self,
        name: &str,
        body: Element,
        axes: Vec<Axis>,
        guards: Vec<Element>,
        span: Span,
    ) -> Result<Element, AlgebraError> {
        let refuse = |reason: &str| {
            self.fail(Problem::NotReducible { op: name.to_owned(), reason: reason.to_owned() }, span)
        };
        let op = match name {
            "min" => ReduceOp::Op(BinaryOp::Min),
            "max" => ReduceOp::Op(BinaryOp::Max),
            "*" => ReduceOp::Op(BinaryOp::Mul),
            "or" => ReduceOp::Op(BinaryOp::Or),
            "and" => ReduceOp::Op(BinaryOp::And),
            "+" => return refuse("`=` already sums, each term on its own"),
            "-" | "/" | "%" | "@" => return refuse("it is not associative"),
            _ => match self.functions.get(name) {
                None => return self.fail(Problem::UndefinedFunction { name: name.to_owned() }, span),
                Some(function) if function.arity() != 2 || function.identity().is_none() => {
                    return refuse("it was not registered as an associative function of two arguments");
                }
                Some(function) => ReduceOp::Function(function.clone()),
            },
        };
        if axes.is_empty() {
            return self.fail(Problem::NothingToReduce { op: name.to_owned() }, span);
        }
        let dtype = match (&op, body.dtype) {
            (ReduceOp::Op(BinaryOp::Or | BinaryOp::And), DType::Bool) => DType::Bool,
            (ReduceOp::Op(op @ (BinaryOp::Or | BinaryOp::And)), found) => {
                let (what, expected) = (format!("`{op}=`"), "bools".to_owned());
                return self.fail(Problem::Type { what, expected, found: found.name().to_owned() }, span);
            }
            (ReduceOp::Op(BinaryOp::Mul), DType::Bool) => DType::I64,
            (ReduceOp::Op(_), dtype) => dtype,
            (ReduceOp::Function(_), DType::F32) => DType::F32,
            (ReduceOp::Function(_), _) => DType::F64,
        };
        let guard = guards.into_iter().reduce(|a, b| Element {
            node: ElementNode::Binary(BinaryOp::And, Box::new(a), Box::new(b)),
            dtype: DType::Bool,
        });
        let reduction = Reduction { op, axes, guard, body: body.convert(dtype) };
        Ok(Element { node: ElementNode::Reduce(Box::new(reduction)), dtype })
    }

    /// Notes every subscript on the right side, and with it every index.
    fn collect(&mut self, expr: &Expr) -> Result<(), AlgebraError> {
        self.deeper(expr.span)?;
        self.collect_node(expr)?;
        self.depth -= 1;
        Ok(())
    }

    fn collect_node(&mut self, expr: &Expr) -> Result<(), AlgebraError> {
        match &expr.node {
            ExprNode::Subscript(base, subscripts) => {
                let indices = self.indices.take();
                let value = self.lower(base)?;
                let value = self.materialize(value, base.span)?;
                self.indices = indices;
                let shape = value.dims();
                let Some(slot) = value.as_slot(&self.program.slots) else {
                    return self.fail(Problem::NeedsIndices { tensor: base.to_string(), shape }, base.span);
                };
                if subscripts.len() != shape.len() {
                    let (tensor, found) = (base.to_string(), subscripts.len());
                    return self.fail(Problem::WrongRank { tensor, shape, found }, expr.span);
                }
                let mut positions = Vec::with_capacity(shape.len());
                for (subscript, &extent) in subscripts.iter().zip(&shape) {
                    let Subscript::At(at) = subscript else {
                        let what = "a range leaves an axis without an index: take the range first, as `A[0:10, :][i, j]`";
                        return self.fail(Problem::Misplaced { what: what.to_owned() }, expr.span);
                    };
                    let mut position = self.affine(at)?;
                    if let Some(from_end) = position.as_constant().filter(|&at| at < 0) {
                        position = Affine::constant(from_end.saturating_add_unsigned(extent));
                    }
                    positions.push(position);
                }
                let texts = subscripts.iter().map(Subscript::to_string).collect();
                let name = base.to_string();
                let mut site = Site { slot, name, positions, texts, span: expr.span, order: 0 };
                if let Some(indices) = &mut self.indices {
                    site.order = indices.sites.len();
                    indices.sites.insert(std::ptr::from_ref(expr).addr(), site);
                }
                Ok(())
            }
            ExprNode::Unary(_, a) => self.collect(a),
            ExprNode::Binary(..) => {
                let (row, first) = expr.row();
                self.collect(first)?;
                row.into_iter().rev().try_for_each(|expr| match &expr.node {
                    ExprNode::Binary(_, _, right) => self.collect(right),
                    _ => Ok(()),
                })
            }
            ExprNode::Call { name, arguments } if !WHOLE_FUNCTIONS.contains(&name.as_str()) => {
                arguments.iter().try_for_each(|argument| self.collect(&argument.value))
            }
            _ => Ok(()),
        }
    }

    /// The indices of which the left side says how far they run.
    fn told_extents(&mut self, target: &Target) -> Result<IndexScope, AlgebraError> {
        let mut scope = IndexScope::default();
        for (name, extent) in &target.extents {
            let extent = self.known_extent(extent)?;
            let fresh = self.fresh();
            let index = scope.index(name, fresh);
            scope.set(index, extent);
        }
        Ok(scope)
    }

    fn solve_extents(&mut self, outputs: &[String], span: Span) -> Result<(), AlgebraError> {
        let mut sites: Vec<Site> =
            self.indices.iter().flat_map(|indices| indices.sites.values().cloned()).collect();
        // As they are written, and not as they lie in memory: messages must not change from run to run.
        sites.sort_by_key(|site| site.order);
        let dims = |infer: &Self, site: &Site| infer.program.slots[site.slot.0].dims.clone();
        let names = self.indices.iter().flat_map(|indices| &indices.names);
        let told: Vec<Index> =
            names.filter(|(.., extent)| extent.is_some()).map(|(_, index, _)| *index).collect();
        let mut first_of: BTreeMap<Index, (u64, String)> = BTreeMap::new();
        for site in &sites {
            let shape = dims(self, site);
            for (position, &extent) in site.positions.iter().zip(&shape) {
                let Some(index) = position.as_index().filter(|index| !told.contains(index)) else { continue };
                let of = format!("{} {shape:?}", site.name);
                match first_of.get(&index) {
                    Some((first, by)) if *first != extent => {
                        let names = self.indices.iter().flat_map(|indices| &indices.names);
                        let name = names.into_iter().find(|(_, known, _)| *known == index);
                        let index = name.map_or_else(String::new, |(name, ..)| name.clone());
                        let (first, first_of, second) = (*first, by.clone(), extent);
                        return self.fail(
                            Problem::TwoExtents { index, first, first_of, second, second_of: of },
                            site.span,
                        );
                    }
                    Some(_) => {}
                    None => {
                        first_of.insert(index, (extent, of));
                        if let Some(indices) = &mut self.indices {
                            indices.set(index, extent);
                        }
                    }
                }
            }
        }
        loop {
            let mut found: BTreeMap<Index, u64> = BTreeMap::new();
            for site in &sites {
                for (axis, (position, &extent)) in site.positions.iter().zip(&dims(self, site)).enumerate() {
                    if let Some((index, largest)) = self.largest_extent(position, extent) {
                        let names = self.indices.iter().flat_map(|indices| &indices.names);
                        let is_output = names
                            .into_iter()
                            .any(|(name, known, _)| *known == index && outputs.contains(name));
                        // A sum of nothing, because the others go too far already, is nothing that anybody means.
                        let first = position.substitute(index, &Affine::constant(0)).unwrap_or_default();
                        if largest == 0 && extent > 0 && !is_output && self.runs(&first) {
                            return self.outside(site, axis, &first);
                        }
                        found
                            .entry(index)
                            .and_modify(|known| *known = largest.min(*known))
                            .or_insert(largest);
                    }
                }
            }
            if found.is_empty() {
                break;
            }
            if let Some(indices) = &mut self.indices {
                found.into_iter().for_each(|(index, extent)| indices.set(index, extent));
            }
        }
        let names = self.indices.iter().flat_map(|indices| &indices.names);
        match names.into_iter().find(|(.., extent)| extent.is_none()) {
            Some((name, ..)) => self.fail(Problem::UnboundedIndex { index: name.clone() }, span),
            None => Ok(()),
        }
    }

    /// For a position with one index that has no extent yet: the index, and the largest extent with which the
    /// position stays within the axis.
    fn largest_extent(&self, position: &Affine, axis_extent: u64) -> Option<(Index, u64)> {
        let unsolved = position.factors().filter_map(|(symbol, factor)| match symbol {
            Symbol::Index(index) if self.indices.as_ref()?.extent(index).is_none() => Some((index, factor)),
            _ => None,
        });
        let [(index, factor)] = unsolved.collect::<Vec<_>>()[..] else { return None };
        let rest = position.substitute(index, &Affine::constant(0))?;
        let (low, high) = self.range(&rest);
        let steps = if factor > 0 {
            (i128::from(axis_extent) - 1 - high).div_euclid(i128::from(factor))
        } else {
            low.div_euclid(-i128::from(factor))
        };
        Some((index, (steps + 1).clamp(0, i128::from(i64::MAX)) as u64))
    }

    /// An element of a tensor, where the statement's subscripts were collected; `None` for an expression that is
    /// not among them.
    pub(super) fn site(&mut self, expr: &Expr) -> Result<Option<Lowered>, AlgebraError> {
        let Some(scope) = &self.indices else { return Ok(None) };
        let Some(site) = scope.sites.get(&std::ptr::from_ref(expr).addr()).cloned() else { return Ok(None) };
        let said = scope.said.clone();
        let slot = self.program.slots[site.slot.0].clone();
        let reads = site.positions.iter().all(|position| self.runs(position));
        for (axis, (position, &extent)) in site.positions.iter().zip(&slot.dims).enumerate() {
            let last = Affine::constant(extent as i64 - 1).plus(position, -1);
            let fits = self.never_negative(position, &said, 2)
                && last.is_some_and(|last| self.never_negative(&last, &said, 2));
            if reads && !fits {
                return self.outside(&site, axis, position);
            }
        }
        let body = Element { node: ElementNode::Read(site.slot, site.positions), dtype: slot.dtype };
        Ok(Some(Lowered::scalar(body, Facts::default())))
    }

    /// Whether all indices of a position have places to be at.
    fn runs(&self, position: &Affine) -> bool {
        position.factors().all(|(symbol, _)| match symbol {
            Symbol::Index(index) => {
                self.indices.as_ref().and_then(|indices| indices.extent(index)) != Some(0)
            }
            Symbol::Slot(_) => true,
        })
    }

    /// The error of a position that leaves its axis.
    fn outside<T>(&self, site: &Site, axis: usize, position: &Affine) -> Result<T, AlgebraError> {
        let (low, high) = self.range(position);
        let clamp = |n: i128| n.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        let (tensor, shape) = (site.name.clone(), self.program.slots[site.slot.0].dims.clone());
        let index = site.texts[axis].clone();
        self.fail(
            Problem::OutOfBounds { tensor, shape, axis, index, from: clamp(low), to: clamp(high) },
            site.span,
        )
    }

    /// The value of a name within a statement with indices, when it is an index.
    pub(super) fn index_value(&self, name: &str) -> Option<Lowered> {
        if matches!(self.scope.get(name), Some(Binding::Variable { .. } | Binding::Element(_))) {
            return None;
        }
        let index = self.indices.as_ref()?.find(name)?;
        let body = Element { node: ElementNode::Position(Affine::index(index)), dtype: DType::I64 };
        Some(Lowered::scalar(body, Facts { weak: true, known: None }))
    }
}
