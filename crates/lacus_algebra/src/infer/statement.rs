//! Statements: assignments, loops, definitions.

use super::call::is_built_in;
use super::{Binding, Definition, Facts, Infer, Lowered, describe};
use crate::error::{AlgebraError, Problem};
use crate::expr::{Affine, Slot, Step, StepNode};
use crate::syntax::{Expr, ExprNode, Span, Statement, StatementNode, Target};
use lacus_tensor::DType;
use std::collections::BTreeSet;

impl<'a> Infer<'a> {
    pub(super) fn statements(&mut self, statements: &'a [Statement]) -> Result<(), AlgebraError> {
        statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &'a Statement) -> Result<(), AlgebraError> {
        let span = statement.span;
        match &statement.node {
            StatementNode::Assign { target, reduce, value, guard } => {
                self.assign(target, reduce.as_deref(), value, guard.as_ref(), span)
            }
            StatementNode::Save { value, name } => {
                if *self.saved.entry(name.clone()).or_insert(span) != span {
                    let what = format!("\"{name}\" is saved by another statement already");
                    return self.fail(Problem::Misplaced { what }, span);
                }
                let lowered = self.lower(value)?;
                let lowered = self.materialize(lowered, value.span)?;
                match lowered.as_slot(&self.program.slots) {
                    Some(slot) => self.step(StepNode::Save(slot, name.clone()), span),
                    None => return self.fail(Problem::NotKnown { what: "what is saved".to_owned() }, span),
                }
                Ok(())
            }
            StatementNode::For { variable, from, to, body } => self.count(variable, from, to, body, span),
            StatementNode::While { condition, body } => self.rounds(condition, body, false, span),
            StatementNode::Repeat { body, until } => self.rounds(until, body, true, span),
            StatementNode::Define { name, parameters, body, result } => {
                if is_built_in(name) || self.loops > 0 || !self.calls.is_empty() {
                    let what = if is_built_in(name) {
                        format!("'{name}' is built in")
                    } else {
                        format!("function '{name}' must be defined outside of loops and functions")
                    };
                    return self.fail(Problem::Misplaced { what }, span);
                }
                self.definitions.insert(name.clone(), Definition { parameters, body, result });
                Ok(())
            }
        }
    }

    fn assign(
        &mut self,
        target: &Target,
        reduce: Option<&str>,
        value: &Expr,
        guard: Option<&Expr>,
        span: Span,
    ) -> Result<(), AlgebraError> {
        let lowered = if target.indices.is_some() || reduce.is_some() {
            self.indexed(target, reduce, value, guard, span)?
        } else if let Some(guard) = guard {
            let what = "a condition after `if` needs a left side with indices: use `where` for whole arrays";
            return self.fail(Problem::Misplaced { what: what.to_owned() }, guard.span);
        } else {
            self.lower(value)?
        };
        let facts = if lowered.axes.is_empty() { lowered.facts } else { Facts::default() };
        let (dtype, dims) = (lowered.body.dtype, lowered.dims());
        let old = match self.scope.get(&target.name) {
            Some(Binding::Variable { slot, loops, owned, .. }) => Some((*slot, *loops, *owned)),
            _ => None,
        };
        let mut slot = None;
        if let Some((old, loops, owned)) = old {
            let found = &self.program.slots[old.0];
            let same = found.dtype == dtype && found.dims == dims;
            if same && owned {
                slot = Some(old);
            } else if loops < self.loops {
                let (before, after) = (describe(found.dtype, &found.dims), describe(dtype, &dims));
                let name = target.name.clone();
                return self.fail(Problem::LoopChanges { name, before, after }, target.span);
            }
        }
        let slot = match slot {
            Some(slot) => slot,
            // `G = load("G")` names what is there already.
            None => match lowered.as_slot(&self.program.slots).filter(|slot| !self.assigned.contains(slot)) {
                Some(slot) => {
                    self.bind(&target.name, slot, facts, false);
                    return Ok(());
                }
                None => self.variable(&target.name, dtype, dims, span)?,
            },
        };
        self.compute(slot, lowered, span);
        self.bind(&target.name, slot, facts, true);
        Ok(())
    }

    fn variable(
        &mut self,
        name: &str,
        dtype: DType,
        dims: Vec<u64>,
        span: Span,
    ) -> Result<Slot, AlgebraError> {
        let slot = self.slot(name, dtype, dims, span)?;
        self.assigned.insert(slot);
        Ok(slot)
    }

    fn bind(&mut self, name: &str, slot: Slot, facts: Facts, owned: bool) {
        let loops = match self.scope.get(name) {
            Some(Binding::Variable { loops, .. }) => *loops,
            _ => self.loops,
        };
        match facts.known {
            Some(range) => self.ranges.insert(slot, range),
            None => self.ranges.remove(&slot),
        };
        self.scope.insert(name.to_owned(), Binding::Variable { slot, facts, loops, owned });
    }

    /// Before a loop: variables that its body assigns are given places of their own, and nothing is known of
    /// their values any more.
    fn enter(&mut self, body: &[Statement], span: Span) -> Result<BTreeSet<String>, AlgebraError> {
        let mut assigned = BTreeSet::new();
        assigned_names(body, &mut assigned);
        for name in &assigned {
            let slot = match self.scope.get(name).cloned() {
                None => continue,
                Some(Binding::Variable { slot, owned: true, .. }) => slot,
                Some(Binding::Variable { slot, .. }) => {
                    let value = self.read(slot, Facts::default());
                    self.copy(name, value, span)?
                }
                Some(Binding::Element(value)) => self.copy(name, value, span)?,
            };
            let loops = self.loops;
            self.ranges.remove(&slot);
            let facts = Facts::default();
            self.scope.insert(name.clone(), Binding::Variable { slot, facts, loops, owned: true });
        }
        self.loops += 1;
        Ok(assigned)
    }

    fn copy(&mut self, name: &str, value: Lowered, span: Span) -> Result<Slot, AlgebraError> {
        let slot = self.variable(name, value.body.dtype, value.dims(), span)?;
        self.compute(slot, value, span);
        Ok(slot)
    }

    /// After a loop: what it may not have made is not defined, and nothing is known of what it assigned.
    fn leave(&mut self, assigned: &BTreeSet<String>, before: &BTreeSet<String>, surely_ran: bool) {
        self.loops -= 1;
        let outer = self.loops;
        self.scope.retain(|name, _| surely_ran || before.contains(name));
        for (name, binding) in &mut self.scope {
            if let Binding::Variable { slot, facts, loops, .. } = binding {
                *loops = (*loops).min(outer);
                if assigned.contains(name) {
                    *facts = Facts::default();
                    self.ranges.remove(slot);
                }
            }
        }
    }

    fn count(
        &mut self,
        variable: &str,
        from: &Expr,
        to: &Expr,
        body: &'a [Statement],
        span: Span,
    ) -> Result<(), AlgebraError> {
        let (from, to) = (self.bound(from)?, self.bound(to)?);
        let before: BTreeSet<String> = self.scope.keys().cloned().collect();
        let assigned = self.enter(body, span)?;
        if assigned.contains(variable) {
            let what = format!("'{variable}' counts this loop, so its body cannot assign it");
            return self.fail(Problem::Misplaced { what }, span);
        }
        let (first, last) = (self.range(&from).0 as i64, self.range(&to).1.saturating_sub(1) as i64);
        let surely_ran = self.range(&from).1 < self.range(&to).0;
        let counter = self.variable(variable, DType::I64, Vec::new(), span)?;
        let facts = Facts { weak: true, known: Some((first, last.max(first))) };
        let shadowed = self.scope.remove(variable);
        self.bind(variable, counter, facts, true);
        let steps = self.within(|infer| infer.statements(body))?;
        self.leave(&assigned, &before, surely_ran);
        self.scope.remove(variable);
        if let Some(shadowed) = shadowed {
            self.scope.insert(variable.to_owned(), shadowed);
        }
        self.step(StepNode::For { counter, from, to, body: steps }, span);
        Ok(())
    }

    fn bound(&mut self, expr: &Expr) -> Result<Affine, AlgebraError> {
        let depth = self.depth;
        self.affine(expr).or_else(|error| {
            self.depth = depth;
            match self.known(expr, "a bound of a loop") {
                Ok(known) => Ok(Affine::constant(known)),
                Err(_) => Err(error),
            }
        })
    }

    /// `while` and `repeat`.
    fn rounds(
        &mut self,
        condition: &Expr,
        body: &'a [Statement],
        is_repeat: bool,
        span: Span,
    ) -> Result<(), AlgebraError> {
        let before: BTreeSet<String> = self.scope.keys().cloned().collect();
        let assigned = self.enter(body, span)?;
        let mut depends = BTreeSet::new();
        names(condition, &mut depends);
        if depends.is_disjoint(&assigned) {
            let all: Vec<String> = depends.into_iter().map(|name| format!("'{name}'")).collect();
            let depends = if all.is_empty() { "nothing".to_owned() } else { all.join(", ") };
            return self.fail(Problem::EndlessLoop { depends }, condition.span);
        }
        let mut flag = Slot(0);
        let mut first = if is_repeat { self.within(|infer| infer.statements(body))? } else { Vec::new() };
        first.extend(self.within(|infer| {
            flag = infer.condition(condition)?;
            Ok(())
        })?);
        let after = if is_repeat { Vec::new() } else { self.within(|infer| infer.statements(body))? };
        self.leave(&assigned, &before, is_repeat);
        self.step(StepNode::Loop { before: first, condition: flag, ends_when: is_repeat, after }, span);
        Ok(())
    }

    fn condition(&mut self, expr: &Expr) -> Result<Slot, AlgebraError> {
        let value = self.lower(expr)?;
        let is_bool = value.body.dtype == DType::Bool && value.axes.is_empty();
        let found = value.describe();
        match self.materialize(value, expr.span)?.as_slot(&self.program.slots) {
            Some(slot) if is_bool => Ok(slot),
            _ => {
                let (what, expected) = ("the condition of a loop".to_owned(), "a single bool".to_owned());
                self.fail(Problem::Type { what, expected, found }, expr.span)
            }
        }
    }

    /// The steps that something makes, apart from those around it.
    fn within(
        &mut self,
        make: impl FnOnce(&mut Self) -> Result<(), AlgebraError>,
    ) -> Result<Vec<Step>, AlgebraError> {
        let outer = std::mem::take(&mut self.program.steps);
        make(self)?;
        Ok(std::mem::replace(&mut self.program.steps, outer))
    }
}

fn assigned_names(statements: &[Statement], all: &mut BTreeSet<String>) {
    for statement in statements {
        match &statement.node {
            StatementNode::Assign { target, .. } => {
                all.insert(target.name.clone());
            }
            StatementNode::For { body, .. }
            | StatementNode::While { body, .. }
            | StatementNode::Repeat { body, .. } => assigned_names(body, all),
            StatementNode::Save { .. } | StatementNode::Define { .. } => {}
        }
    }
}

fn names(expr: &Expr, all: &mut BTreeSet<String>) {
    let mut open = vec![expr];
    while let Some(expr) = open.pop() {
        if let ExprNode::Name(name) = &expr.node {
            all.insert(name.clone());
        }
        open.extend(expr.parts());
    }
}
