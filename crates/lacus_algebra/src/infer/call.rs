//! Calls: functions of elements, of whole arrays, of tensors' names and shapes, and those the program defines.

use super::indexed::WHOLE_FUNCTIONS;
use super::promote::common;
use super::{Binding, Facts, Infer, Lowered, MAX_DEPTH};
use crate::array::compute_dtype;
use crate::error::{AlgebraError, Problem};
use crate::expr::{Affine, Axis, Element, ElementNode};
use crate::syntax::{Argument, Expr, ExprNode, Span};
use lacus_tensor::DType;
use lacus_tensor::Scalar;
use lacus_tensor::{BinaryOp, UnaryOp};
use std::collections::BTreeMap;

/// True for names that a program cannot define.
pub(super) fn is_built_in(name: &str) -> bool {
    WHOLE_FUNCTIONS.contains(&name)
        || ["where", "pow", "min", "max", "save"].contains(&name)
        || UnaryOp::NAMED.iter().any(|op| op.name() == name)
        || conversion(name).is_some()
}

/// The type that a function converts to, if it is one that does.
fn conversion(name: &str) -> Option<DType> {
    [DType::Bool, DType::I64, DType::F32, DType::F64].into_iter().find(|dtype| dtype.name() == name)
}

impl<'a> Infer<'a> {
    pub(super) fn call(
        &mut self,
        name: &str,
        arguments: &[Argument],
        expr: &Expr,
    ) -> Result<Lowered, AlgebraError> {
        let reduces = matches!(name, "min" | "max")
            && (arguments.len() == 1 || arguments.iter().any(|argument| argument.name.is_some()));
        if reduces || WHOLE_FUNCTIONS.contains(&name) {
            let value = self.in_whole(|infer| infer.whole_call(name, arguments, expr))?;
            return self.as_part(value, expr);
        }
        if let Some(named) = arguments.iter().find_map(|argument| argument.name.as_ref()) {
            return self.arguments(name, "arguments without names", &format!("`{named}=`"), expr.span);
        }
        if name == "where" {
            let [c, a, b] = arguments else {
                return self.arguments(name, "3 arguments", &arguments.len().to_string(), expr.span);
            };
            let condition = self.operand(&c.value)?;
            let (a_said, b_said) = (self.says(&c.value, true), self.says(&c.value, false));
            let a = self.operand_where(&a.value, a_said)?;
            let b = self.operand_where(&b.value, b_said)?;
            return self.choose([condition, a, b], expr.span);
        }
        if self.definitions.contains_key(name) {
            return self.defined(name, arguments, expr);
        }
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            values.push(self.operand(&argument.value)?);
        }
        self.element_call(name, values, expr.span)
    }

    fn arguments<T>(
        &self,
        function: &str,
        expected: &str,
        found: &str,
        span: Span,
    ) -> Result<T, AlgebraError> {
        let (function, expected, found) = (function.to_owned(), expected.to_owned(), found.to_owned());
        self.fail(Problem::Arguments { function, expected, found }, span)
    }

    /// An operand under a condition that says more about positions.
    fn operand_where(&mut self, expr: &Expr, says: Vec<Affine>) -> Result<Lowered, AlgebraError> {
        let before = self.indices.as_ref().map(|indices| indices.said.clone());
        if let Some(indices) = &mut self.indices {
            indices.said.extend(says);
        }
        let value = self.operand(expr);
        if let (Some(indices), Some(before)) = (&mut self.indices, before) {
            indices.said = before;
        }
        value
    }

    #[inline(never)]
    fn element_call(
        &mut self,
        name: &str,
        values: Vec<Lowered>,
        span: Span,
    ) -> Result<Lowered, AlgebraError> {
        let count = values.len().to_string();
        if let Some(op) = UnaryOp::NAMED.into_iter().find(|op| op.name() == name) {
            return match <[Lowered; 1]>::try_from(values) {
                Ok([a]) => self.unary(op, a, span),
                Err(_) => self.arguments(name, "1 argument", &count, span),
            };
        }
        if let Some(dtype) = conversion(name) {
            return match <[Lowered; 1]>::try_from(values) {
                Ok([a]) => Ok(Lowered { axes: a.axes, body: a.body.convert(dtype), facts: Facts::default() }),
                Err(_) => self.arguments(name, "1 argument", &count, span),
            };
        }
        match name {
            "pow" => match <[Lowered; 2]>::try_from(values) {
                Ok([a, b]) => self.binary(BinaryOp::Pow, a, b, span),
                Err(_) => self.arguments(name, "2 arguments", &count, span),
            },
            "min" | "max" => {
                let op = if name == "min" { BinaryOp::Min } else { BinaryOp::Max };
                let mut values = values.into_iter();
                let Some(first) = values.next() else {
                    return self.arguments(name, "at least 1 argument", "0", span);
                };
                values.try_fold(first, |all, next| self.binary(op, all, next, span))
            }
            _ => {
                let Some(function) = self.functions.get(name).cloned() else {
                    return self.fail(Problem::UndefinedFunction { name: name.to_owned() }, span);
                };
                if function.arity() != values.len() {
                    return self.arguments(name, &format!("{} arguments", function.arity()), &count, span);
                }
                self.registered(function, values, span)
            }
        }
    }

    #[inline(never)]
    fn registered(
        &mut self,
        function: crate::function::Function,
        values: Vec<Lowered>,
        span: Span,
    ) -> Result<Lowered, AlgebraError> {
        let types = values.iter().map(|value| (value.body.dtype, value.facts.weak));
        let (dtype, weak) = types.reduce(common).unwrap_or((DType::F64, true));
        let dtype = if dtype == DType::F32 { DType::F32 } else { DType::F64 };
        // Arguments are broadcast one after another, so that there can be any number of them.
        let mut axes: Vec<Axis> = Vec::new();
        let mut bodies: Vec<Element> = Vec::new();
        for value in values {
            let so_far = Lowered { axes: axes.clone(), body: pack(bodies), facts: Facts::default() };
            let what = format!("`{}`", function.name());
            let (common, [packed, body]) = self.broadcast(&what, [so_far, value], span)?;
            axes = common;
            bodies = unpack(packed);
            bodies.push(body.convert(dtype));
        }
        let body = Element { node: ElementNode::Call(function, bodies), dtype };
        Ok(Lowered { axes, body, facts: Facts { weak, known: None } })
    }

    /// A call of a function that the program defines: its body is put in place of the call.
    #[inline(never)]
    fn defined(&mut self, name: &str, arguments: &[Argument], expr: &Expr) -> Result<Lowered, AlgebraError> {
        let definition = self.definitions[name];
        if self.calls.iter().any(|caller| caller == name) {
            return self.fail(Problem::Recursion { name: name.to_owned() }, expr.span);
        }
        if arguments.len() != definition.parameters.len() {
            let (expected, found) = (definition.parameters.len(), arguments.len().to_string());
            return self.arguments(name, &format!("{expected} arguments"), &found, expr.span);
        }
        if self.indices.is_some() && !definition.body.is_empty() {
            let what = format!("'{name}' has statements, so it takes whole arrays and not elements");
            return self.fail(Problem::Misplaced { what }, expr.span);
        }
        let mut scope = BTreeMap::new();
        for (parameter, argument) in definition.parameters.iter().zip(arguments) {
            let value = self.operand(&argument.value)?;
            if value.body.depth() > MAX_DEPTH {
                return self.fail(Problem::TooDeep { limit: MAX_DEPTH }, argument.value.span);
            }
            let binding = if value.axes.is_empty() {
                Binding::Element(value)
            } else {
                let facts = value.facts;
                let value = self.materialize(value, argument.value.span)?;
                match value.as_slot(&self.program.slots) {
                    Some(slot) => Binding::Variable { slot, facts, loops: self.loops, owned: false },
                    None => Binding::Element(value),
                }
            };
            scope.insert(parameter.clone(), binding);
        }
        let outer = std::mem::replace(&mut self.scope, scope);
        let is_element = self.indices.is_some();
        // The names of indices mean nothing within the function.
        let indices = self.indices.take();
        self.calls.push(name.to_owned());
        let value = self.statements(definition.body).and_then(|()| self.lower(definition.result));
        self.calls.pop();
        self.scope = outer;
        self.indices = indices;
        let value = value?;
        if is_element { Ok(Lowered::scalar(self.element(value, expr)?, Facts::default())) } else { Ok(value) }
    }

    #[inline(never)]
    fn whole_call(
        &mut self,
        name: &str,
        arguments: &[Argument],
        expr: &Expr,
    ) -> Result<Lowered, AlgebraError> {
        let span = expr.span;
        let mut positional: Vec<&Expr> = Vec::new();
        let mut axis = None;
        for argument in arguments {
            match argument.name.as_deref() {
                None => positional.push(&argument.value),
                Some("axis") if axis.is_none() => axis = Some(&argument.value),
                Some(other) => {
                    return self.arguments(name, "`axis=` at most once", &format!("`{other}=`"), span);
                }
            }
        }
        let count = positional.len().to_string();
        if axis.is_some() && !matches!(name, "sum" | "prod" | "any" | "all" | "min" | "max") {
            return self.arguments(name, "no `axis=`", "one", span);
        }
        match (name, &positional[..]) {
            ("sum" | "prod" | "any" | "all" | "min" | "max", [x]) => self.reduction(name, x, axis, span),
            ("sum" | "prod" | "any" | "all", [x, by]) if axis.is_none() => {
                self.reduction(name, x, Some(by), span)
            }
            ("sum" | "prod" | "any" | "all" | "min" | "max", _) => self.arguments(
                name,
                "an array and an axis or a list of them",
                &format!("{count} arguments"),
                span,
            ),
            ("transpose", [x]) => {
                let mut value = self.operand(x)?;
                value.axes.reverse();
                Ok(value)
            }
            ("transpose", [x, order]) => {
                let value = self.operand(x)?;
                let axes = self.axes(name, order, &value.dims())?;
                if axes.len() != value.axes.len() {
                    let expected = format!("{} axes", value.axes.len());
                    return self.arguments(name, &expected, &axes.len().to_string(), span);
                }
                Ok(Lowered { axes: axes.iter().map(|&axis| value.axes[axis].clone()).collect(), ..value })
            }
            ("einsum", [spec, operands @ ..]) => self.einsum(spec, operands, span),
            ("dim", [x, axis]) => {
                let shape = self.operand(x)?.dims();
                let axis = self.axes(name, axis, &shape)?;
                let extent = match axis[..] {
                    [axis] => shape[axis] as i64,
                    _ => return self.arguments(name, "one axis", "a list", span),
                };
                let facts = Facts { weak: true, known: Some((extent, extent)) };
                Ok(Lowered::scalar(Element::constant(Scalar::I64(extent)), facts))
            }
            ("load", [tensor]) => self.load(tensor),
            ("zeros" | "ones", [shape]) => {
                let value = Scalar::F64(if name == "ones" { 1.0 } else { 0.0 });
                self.filled(shape, Element::constant(value), span)
            }
            ("full", [shape, value]) => {
                let value_span = value.span;
                let value = self.operand(value)?;
                if !value.axes.is_empty() {
                    let found = value.describe();
                    let (what, expected) = ("`full`".to_owned(), "a single number".to_owned());
                    return self.fail(Problem::Type { what, expected, found }, value_span);
                }
                self.filled(shape, value.body, span)
            }
            ("random", [shape, seed]) => {
                let seed = self.known(seed, "the seed of `random`")?;
                let mut value = self.filled(shape, Element::constant(Scalar::F64(0.0)), span)?;
                let position = value.axes.iter().try_fold(Affine::default(), |position, axis| {
                    let scaled = Affine::default().plus(&position, i64::try_from(axis.extent).ok()?)?;
                    scaled.plus(&Affine::index(axis.index), 1)
                });
                let Some(position) = position else {
                    return self.fail(Problem::TooLarge { shape: value.dims() }, span);
                };
                value.body = Element { node: ElementNode::Random(seed as u64, position), dtype: DType::F64 };
                Ok(value)
            }
            _ => {
                let expected = match name {
                    "transpose" => "an array, or an array and a list of axes",
                    "einsum" => "a specification in quotes and its operands",
                    "dim" => "an array and an axis",
                    "load" => "the name of a tensor in quotes",
                    "full" => "a list of extents and a number",
                    "random" => "a list of extents and a seed",
                    _ => "a list of extents",
                };
                self.arguments(name, expected, &format!("{count} arguments"), span)
            }
        }
    }

    #[inline(never)]
    fn reduction(
        &mut self,
        name: &str,
        array: &Expr,
        axis: Option<&Expr>,
        span: Span,
    ) -> Result<Lowered, AlgebraError> {
        let op = match name {
            "sum" => BinaryOp::Add,
            "prod" => BinaryOp::Mul,
            "min" => BinaryOp::Min,
            "max" => BinaryOp::Max,
            "any" => BinaryOp::Or,
            _ => BinaryOp::And,
        };
        let mut value = self.operand(array)?;
        if op.is_logical() && value.body.dtype != DType::Bool {
            let found = value.describe();
            let (what, expected) = (format!("`{name}`"), "bools".to_owned());
            return self.fail(Problem::Type { what, expected, found }, span);
        }
        let over = match axis {
            Some(axis) => self.axes(name, axis, &value.dims())?,
            None => (0..value.axes.len()).collect(),
        };
        let axes = over.iter().map(|&axis| value.axes[axis].clone()).collect();
        let kept = value.axes.iter().enumerate().filter(|(at, _)| !over.contains(at));
        value.axes = kept.map(|(_, axis)| axis.clone()).collect();
        Ok(self.reduce(op, value, axes))
    }

    /// One axis or a list of them, counted from the end when negative, each at most once.
    fn axes(&mut self, what: &str, expr: &Expr, shape: &[u64]) -> Result<Vec<usize>, AlgebraError> {
        let items = match &expr.node {
            ExprNode::List(items) => items.iter().collect(),
            _ => vec![expr],
        };
        let mut axes = Vec::with_capacity(items.len());
        for item in items {
            let axis = self.known(item, "an axis")?;
            let rank = shape.len() as i64;
            let place = if axis < 0 { axis.saturating_add(rank) } else { axis };
            match usize::try_from(place).ok().filter(|&place| place < shape.len() && !axes.contains(&place)) {
                Some(place) => axes.push(place),
                None => {
                    let problem = Problem::Axis { what: format!("`{what}`"), axis, shape: shape.to_vec() };
                    return self.fail(problem, item.span);
                }
            }
        }
        Ok(axes)
    }

    #[inline(never)]
    fn filled(&mut self, shape: &Expr, body: Element, span: Span) -> Result<Lowered, AlgebraError> {
        let items = match &shape.node {
            ExprNode::List(items) => items.iter().collect(),
            _ => vec![shape],
        };
        let mut axes = Vec::with_capacity(items.len());
        for item in items {
            let extent = self.known_extent(item)?;
            axes.push(self.axis(extent));
        }
        let shape: Vec<u64> = axes.iter().map(|axis| axis.extent).collect();
        let elements = shape.iter().try_fold(1i64, |all, &n| all.checked_mul(i64::try_from(n.max(1)).ok()?));
        if elements.is_none() {
            return self.fail(Problem::TooLarge { shape }, span);
        }
        Ok(Lowered { axes, body, facts: Facts::default() })
    }

    #[inline(never)]
    fn load(&mut self, tensor: &Expr) -> Result<Lowered, AlgebraError> {
        let ExprNode::Text(name) = &tensor.node else {
            return self.arguments(
                "load",
                "the name of a tensor in quotes",
                &format!("`{tensor}`"),
                tensor.span,
            );
        };
        let slot = match self.loaded.get(name) {
            Some(slot) => *slot,
            None => {
                let Some((dtype, shape)) = self.inputs.by_name.get(name) else {
                    return self.fail(Problem::UnknownTensor { name: name.clone() }, tensor.span);
                };
                let Some(computed) = compute_dtype(*dtype) else {
                    let problem = Problem::UnusableType { name: name.clone(), dtype: dtype.name() };
                    return self.fail(problem, tensor.span);
                };
                let slot = self.slot(name, computed, shape.dims().to_vec(), tensor.span)?;
                self.program.slots[slot.0].input = Some(name.clone());
                self.loaded.insert(name.clone(), slot);
                slot
            }
        };
        Ok(self.read(slot, Facts::default()))
    }

    /// `einsum("ik,kj->ij", A, B)`: without an arrow the result has the letters that occur once, in order.
    #[inline(never)]
    fn einsum(&mut self, spec: &Expr, operands: &[&Expr], span: Span) -> Result<Lowered, AlgebraError> {
        let ExprNode::Text(text) = &spec.node else {
            return self.arguments("einsum", "a specification in quotes", &format!("`{spec}`"), spec.span);
        };
        let wrong = |reason: String| Problem::Einsum { spec: text.clone(), reason };
        let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match compact.split_once("->") {
            Some((left, right)) => (left.to_owned(), Some(right.to_owned())),
            None => (compact.clone(), None),
        };
        let terms: Vec<&str> = left.split(',').collect();
        let letters = left.chars().filter(|c| *c != ',').chain(right.iter().flat_map(|right| right.chars()));
        if let Some(other) = letters.into_iter().find(|c| !c.is_ascii_alphabetic()) {
            return self.fail(wrong(format!("{other:?} is no letter")), spec.span);
        }
        if terms.len() != operands.len() {
            let reason = format!("it has {} terms for {} operands", terms.len(), operands.len());
            return self.fail(wrong(reason), spec.span);
        }
        let mut axes: BTreeMap<char, (Axis, String)> = BTreeMap::new();
        let mut product: Option<Lowered> = None;
        for (term, operand) in terms.iter().zip(operands) {
            let mut value = self.factor(operand)?;
            let shape = value.dims();
            if term.chars().count() != shape.len() {
                let reason = format!("'{term}' does not fit {operand} of shape {shape:?}");
                return self.fail(wrong(reason), operand.span);
            }
            for (letter, axis) in term.chars().zip(std::mem::take(&mut value.axes)) {
                let of = format!("{operand} {shape:?}");
                let (known, first_of) = axes.entry(letter).or_insert_with(|| (axis.clone(), of.clone()));
                if known.extent != axis.extent {
                    let (first, first_of) = (known.extent, first_of.clone());
                    let (index, second) = (letter.to_string(), axis.extent);
                    let problem = Problem::TwoExtents { index, first, first_of, second, second_of: of };
                    return self.fail(problem, operand.span);
                }
                let _ = value.body.substitute(axis.index, &Affine::index(known.index));
            }
            product = Some(match product {
                None => value,
                Some(product) => self.binary(BinaryOp::Mul, product, value, span)?,
            });
        }
        let right = right
            .unwrap_or_else(|| axes.keys().filter(|letter| left.matches(**letter).count() == 1).collect());
        let mut kept = Vec::new();
        for (at, letter) in right.char_indices() {
            match axes.get(&letter) {
                Some((axis, _)) if !right[..at].contains(letter) => kept.push(axis.clone()),
                Some(_) => {
                    return self.fail(wrong(format!("'{letter}' appears twice in the result")), spec.span);
                }
                None => return self.fail(wrong(format!("'{letter}' is in no operand")), spec.span),
            }
        }
        let summed = axes.iter().filter(|(letter, _)| !right.contains(**letter));
        let summed: Vec<Axis> = summed.map(|(_, (axis, _))| axis.clone()).collect();
        let mut product =
            product.unwrap_or_else(|| Lowered::scalar(Element::constant(Scalar::I64(1)), Facts::default()));
        product.axes = kept;
        product.facts = Facts::default();
        Ok(if summed.is_empty() { product } else { self.reduce(BinaryOp::Add, product, summed) })
    }
}

/// Several elements as one, so that they can be broadcast together.
fn pack(elements: Vec<Element>) -> Element {
    let none = crate::function::Function::new("", elements.len(), |_| 0.0);
    Element { node: ElementNode::Call(none, elements), dtype: DType::F64 }
}

fn unpack(packed: Element) -> Vec<Element> {
    match packed.node {
        ElementNode::Call(_, elements) => elements,
        _ => Vec::new(),
    }
}
