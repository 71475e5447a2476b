//! Operators as people write them.

use super::{Network, Operator};
use crate::expr::{Affine, Element, ElementNode, Index, ReduceOp, Symbol};
use lacus_tensor::BinaryOp;
use std::fmt;

/// The letter that an index of an operator is shown as.
pub(crate) fn letter(index: Index) -> String {
    match b"ijklmnpqrstuvw".get(index.0 as usize) {
        Some(&letter) => char::from(letter).to_string(),
        None => format!("x{}", index.0),
    }
}

/// An operator as a formula, with the names of values.
pub struct Formula<'a>(pub &'a Network, pub &'a Operator);

impl fmt::Display for Formula<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Formula(network, operator) = self;
        let axes: Vec<String> = operator.axes.iter().map(|axis| letter(axis.index)).collect();
        write!(f, "{}[{}] = ", network.value(operator.output).name, axes.join(","))?;
        let body = self.text(&operator.body);
        let Some(fold) = &operator.fold else { return f.write_str(&body) };
        let op = match &fold.op {
            ReduceOp::Op(BinaryOp::Add) => "sum",
            ReduceOp::Op(BinaryOp::Mul) => "prod",
            ReduceOp::Op(op) => op.name(),
            ReduceOp::Function(function) => function.name(),
        };
        let over: Vec<String> = fold.axes.iter().map(|axis| letter(axis.index)).collect();
        write!(f, "{op}[{}] {body}", over.join(","))?;
        match &fold.guard {
            Some(guard) => write!(f, " if {}", self.text(guard)),
            None => Ok(()),
        }
    }
}

impl Formula<'_> {
    fn at(&self, at: &Affine) -> String {
        let mut text = String::new();
        for (symbol, factor) in at.factors() {
            let name = match symbol {
                Symbol::Index(index) => letter(index),
                Symbol::Slot(slot) => self.0.value(slot).name.clone(),
            };
            let sign = if factor < 0 { "-" } else { "+" };
            if !text.is_empty() || factor < 0 {
                text.push_str(sign);
            }
            match factor.unsigned_abs() {
                1 => text.push_str(&name),
                times => text.push_str(&format!("{times}*{name}")),
            }
        }
        match at.offset() {
            0 if !text.is_empty() => {}
            offset if offset >= 0 && !text.is_empty() => text.push_str(&format!("+{offset}")),
            offset => text.push_str(&offset.to_string()),
        }
        text
    }

    fn text(&self, element: &Element) -> String {
        let list = |all: &[Element]| all.iter().map(|a| self.text(a)).collect::<Vec<_>>().join(", ");
        match &element.node {
            ElementNode::Constant(value) => value.to_string(),
            ElementNode::Position(at) => self.at(at),
            ElementNode::Read(slot, at) if at.is_empty() => self.0.value(*slot).name.clone(),
            ElementNode::Read(slot, at) => {
                let at: Vec<String> = at.iter().map(|at| self.at(at)).collect();
                format!("{}[{}]", self.0.value(*slot).name, at.join(","))
            }
            ElementNode::Random(seed, at) => format!("random({seed}, {})", self.at(at)),
            ElementNode::Convert(a) => format!("{}({})", element.dtype.name(), self.text(a)),
            ElementNode::Unary(op, a) => format!("{op}({})", self.text(a)),
            ElementNode::Binary(op @ (BinaryOp::Min | BinaryOp::Max), a, b) => {
                format!("{op}({}, {})", self.text(a), self.text(b))
            }
            ElementNode::Binary(op, a, b) => {
                let side = |part: &Element| match &part.node {
                    ElementNode::Binary(inner, ..) if inner != op || *op != BinaryOp::Mul => {
                        format!("({})", self.text(part))
                    }
                    _ => self.text(part),
                };
                format!("{} {op} {}", side(a), side(b))
            }
            ElementNode::Call(function, all) => format!("{}({})", function.name(), list(all)),
            ElementNode::Where(c, a, b) => {
                format!("where({}, {}, {})", self.text(c), self.text(a), self.text(b))
            }
            ElementNode::Reduce(_) => element.to_string(),
        }
    }
}
