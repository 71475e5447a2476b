//! Trees back into text: what is printed parses to the same tree.

use crate::syntax::ast::{Argument, Expr, ExprNode, Program, Statement, StatementNode, Subscript, Target};
use lacus_tensor::{BinaryOp, UnaryOp};
use std::fmt::{Display, Formatter, Result};

/// How tightly an operator binds; the parser uses the same numbers.
pub(crate) fn strength(op: BinaryOp) -> u8 {
    match op {
        BinaryOp::Or => 1,
        BinaryOp::And => 2,
        op if op.is_comparison() => 4,
        BinaryOp::Add | BinaryOp::Sub => 5,
        BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv => MATMUL_STRENGTH,
        _ => POW_STRENGTH,
    }
}

pub(crate) const NOT_STRENGTH: u8 = 3;
pub(crate) const MATMUL_STRENGTH: u8 = 6;
pub(crate) const NEG_STRENGTH: u8 = 7;
pub(crate) const POW_STRENGTH: u8 = 8;
const TIGHTEST: u8 = 9;

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        block(f, &self.statements, 0)
    }
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        statement(f, self, 0)
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.indices {
            Some(indices) => {
                write!(f, "{}[", self.name)?;
                for (at, index) in indices.iter().enumerate() {
                    write!(f, "{}{index}", if at > 0 { ", " } else { "" })?;
                    if let Some((_, extent)) = self.extents.iter().find(|(of, _)| of == index) {
                        write!(f, " in 0..{extent}")?;
                    }
                }
                f.write_str("]")
            }
            None => f.write_str(&self.name),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        expression(f, self, 0)
    }
}

impl Display for Subscript {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Subscript::At(at) => at.fmt(f),
            Subscript::New => f.write_str("None"),
            Subscript::Range(start, stop, step) => {
                if let Some(start) = start {
                    start.fmt(f)?;
                }
                f.write_str(":")?;
                if let Some(stop) = stop {
                    stop.fmt(f)?;
                }
                match step {
                    Some(step) => write!(f, ":{step}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl Display for Argument {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.name {
            Some(name) => write!(f, "{name}={}", self.value),
            None => self.value.fmt(f),
        }
    }
}

fn block(f: &mut Formatter<'_>, statements: &[Statement], depth: usize) -> Result {
    for each in statements {
        write!(f, "{}", "    ".repeat(depth))?;
        statement(f, each, depth)?;
        f.write_str("\n")?;
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn braces(f: &mut Formatter<'_>, body: &[Statement], depth: usize) -> Result {
    f.write_str(" {\n")?;
    block(f, body, depth + 1)?;
    write!(f, "{}}}", "    ".repeat(depth))
}

fn statement(f: &mut Formatter<'_>, statement: &Statement, depth: usize) -> Result {
    match &statement.node {
        StatementNode::Assign { target, reduce, value, guard } => {
            write!(f, "{target} {}= {value}", reduce.as_deref().unwrap_or(""))?;
            match guard {
                Some(guard) => write!(f, " if {guard}"),
                None => Ok(()),
            }
        }
        StatementNode::Save { value, name } => write!(f, "save({value}, {})", quoted(name)),
        StatementNode::For { variable, from, to, body } => {
            write!(f, "for {variable} in {from}..{to}")?;
            braces(f, body, depth)
        }
        StatementNode::While { condition, body } => {
            write!(f, "while {condition}")?;
            braces(f, body, depth)
        }
        StatementNode::Repeat { body, until } => {
            f.write_str("repeat")?;
            braces(f, body, depth)?;
            write!(f, " until {until}")
        }
        StatementNode::Define { name, parameters, body, result } => {
            write!(f, "def {name}({})", parameters.join(", "))?;
            if body.is_empty() {
                return write!(f, " = {result}");
            }
            f.write_str(" {\n")?;
            block(f, body, depth + 1)?;
            let indent = "    ".repeat(depth);
            write!(f, "{indent}    return {result}\n{indent}}}")
        }
    }
}

fn list<T: Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

fn strength_of(expr: &Expr) -> u8 {
    match &expr.node {
        ExprNode::Unary(UnaryOp::Not, _) => NOT_STRENGTH,
        ExprNode::Unary(..) => NEG_STRENGTH,
        ExprNode::Binary(op, ..) => strength(*op),
        ExprNode::MatMul(..) => MATMUL_STRENGTH,
        _ => TIGHTEST,
    }
}

/// Prints with parentheses around what binds less tightly than `least`. A row of operators is printed in a loop: first all
/// parentheses that open to its left, then one operator with its right side after another.
fn expression(f: &mut Formatter<'_>, expr: &Expr, least: u8) -> Result {
    let (row, first) = expr.row();
    // How tightly the left side of each must bind.
    let left_of = |expr: &Expr| match &expr.node {
        ExprNode::Binary(BinaryOp::Pow, ..) => TIGHTEST,
        // Comparisons do not chain, so both of their sides bind more tightly.
        ExprNode::Binary(op, ..) => strength(*op) + u8::from(op.is_comparison()),
        _ => MATMUL_STRENGTH,
    };
    let wanted = |at: usize| if at == 0 { least } else { left_of(row[at - 1]) };
    for (at, expr) in row.iter().enumerate() {
        if strength_of(expr) < wanted(at) {
            f.write_str("(")?;
        }
    }
    operand(f, first, wanted(row.len()))?;
    for (at, expr) in row.iter().enumerate().rev() {
        match &expr.node {
            ExprNode::Binary(BinaryOp::Pow, _, right) => {
                f.write_str(" ** ")?;
                expression(f, right, NEG_STRENGTH)?;
            }
            ExprNode::Binary(op, _, right) => {
                write!(f, " {op} ")?;
                expression(f, right, strength(*op) + 1)?;
            }
            ExprNode::MatMul(_, right) => {
                f.write_str(" @ ")?;
                expression(f, right, MATMUL_STRENGTH + 1)?;
            }
            _ => {}
        }
        if strength_of(expr) < wanted(at) {
            f.write_str(")")?;
        }
    }
    Ok(())
}

/// The same of an expression that is no row.
fn operand(f: &mut Formatter<'_>, expr: &Expr, least: u8) -> Result {
    let own = strength_of(expr);
    if own < least {
        f.write_str("(")?;
        operand(f, expr, 0)?;
        return f.write_str(")");
    }
    match &expr.node {
        ExprNode::Bool(value) => write!(f, "{value}"),
        ExprNode::Int(value) => write!(f, "{value}"),
        // `{:?}` keeps a point or an exponent, so that it is read as a float again.
        ExprNode::Float(value) => write!(f, "{value:?}"),
        ExprNode::Text(value) => f.write_str(&quoted(value)),
        ExprNode::Name(name) => f.write_str(name),
        ExprNode::List(items) => write!(f, "[{}]", list(items)),
        ExprNode::Unary(op, inner) => {
            f.write_str(if *op == UnaryOp::Not { "not " } else { "-" })?;
            expression(f, inner, own)
        }
        // Rows are printed by `expression`.
        ExprNode::Binary(..) | ExprNode::MatMul(..) => Ok(()),
        ExprNode::Call { name, arguments } => write!(f, "{name}({})", list(arguments)),
        ExprNode::Subscript(base, subscripts) => {
            expression(f, base, TIGHTEST)?;
            write!(f, "[{}]", list(subscripts))
        }
    }
}
