//! Programs as trees, as the parser makes them or as Rust code builds them:
//!
//! ```
//! use lacus_algebra::syntax::{Expr, Program, Target};
//!
//! let [a, b] = [Expr::name("A").at(["i", "k"]), Expr::name("B").at(["k", "j"])];
//! let program = Program::new().assign(Target::indexed("C", ["i", "j"]), a * b);
//! assert_eq!(program.to_string(), "C[i, j] = A[i, k] * B[k, j]\n");
//! assert_eq!(program, lacus_algebra::parse("C[i,j] = A[i,k] * B[k,j]")?);
//! # Ok::<(), lacus_algebra::AlgebraError>(())
//! ```
//!
//! Two trees are equal when they say the same, wherever they stand in their texts.

use lacus_tensor::{BinaryOp, UnaryOp};
use std::collections::BTreeSet;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// Bytes of the text that a part of a program was read from; empty for parts built from Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Span {
    pub(crate) fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end }
    }
}

/// A whole program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The text it was read from, for messages; empty when built from Rust.
    pub source: String,
    /// Its statements in order.
    pub statements: Vec<Statement>,
}

/// A statement and where it stands.
#[derive(Clone, Debug)]
pub struct Statement {
    /// What it says.
    pub node: StatementNode,
    /// Where.
    pub span: Span,
}

/// What a statement says.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementNode {
    /// `C[i, j] = A[i, k] * B[k, j] if i < j`, or with `min=` and other reductions.
    Assign {
        /// What is assigned to.
        target: Target,
        /// The operation of `min=` and its kin, by name; `None` for `=`.
        reduce: Option<String>,
        /// The right side.
        value: Expr,
        /// The condition after `if`.
        guard: Option<Expr>,
    },
    /// `save(value, "name")`
    Save {
        /// What is saved.
        value: Expr,
        /// Under which name.
        name: String,
    },
    /// `for variable in from..to { body }`
    For {
        /// Takes each whole number in turn.
        variable: String,
        /// The first.
        from: Expr,
        /// The one after the last.
        to: Expr,
        /// What is done for each.
        body: Vec<Statement>,
    },
    /// `while condition { body }`
    While {
        /// Looked at before each round.
        condition: Expr,
        /// What is done in a round.
        body: Vec<Statement>,
    },
    /// `repeat { body } until condition`
    Repeat {
        /// What is done in a round; at least one is done.
        body: Vec<Statement>,
        /// Looked at after each round.
        until: Expr,
    },
    /// `def name(parameters) = expression`, or with a block that ends in `return`.
    Define {
        /// The function.
        name: String,
        /// Its parameters.
        parameters: Vec<String>,
        /// Statements before the result; none in the short form.
        body: Vec<Statement>,
        /// The result.
        result: Expr,
    },
}

/// The left side of an assignment.
#[derive(Clone, Debug)]
pub struct Target {
    /// The variable.
    pub name: String,
    /// Its indices; `None` when the variable stands alone, so that the right side is whole arrays.
    pub indices: Option<Vec<String>>,
    /// The extents of those that are told, as in `C[i in 0..n]`.
    pub extents: Vec<(String, Expr)>,
    /// Where it stands.
    pub span: Span,
}

/// An expression and where it stands.
///
/// A row of operators, `a + b + c`, is a tree that grows to the left. It may be much longer than a stack is deep: copying,
/// comparing, printing and dropping go along it in a loop.
#[derive(Debug)]
pub struct Expr {
    /// What it says.
    pub node: ExprNode,
    /// Where.
    pub span: Span,
}

/// What an expression says.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprNode {
    /// `true` or `false`
    Bool(bool),
    /// A whole number, not negative.
    Int(i64),
    /// A number with a point or an exponent, or `inf`; not negative.
    Float(f64),
    /// A text in quotes, for functions that take one.
    Text(String),
    /// A variable or an index.
    Name(String),
    /// `[n, m]`, for functions that take a list.
    List(Vec<Expr>),
    /// `-x` or `not x`
    Unary(UnaryOp, Box<Expr>),
    /// `a + b` and its kin; never `min` or `max`, which are calls.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `a @ b`
    MatMul(Box<Expr>, Box<Expr>),
    /// `f(x, axis=0)`
    Call {
        /// The function.
        name: String,
        /// Its arguments.
        arguments: Vec<Argument>,
    },
    /// `A[i + 1, 0:10]`
    Subscript(Box<Expr>, Vec<Subscript>),
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// Its name, when it is given by name.
    pub name: Option<String>,
    /// Its value.
    pub value: Expr,
}

/// What stands between the brackets for one axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Subscript {
    /// One position: an index, a number, a sum of them.
    At(Expr),
    /// `start:stop:step`, each of which may be missing.
    Range(Option<Expr>, Option<Expr>, Option<Expr>),
    /// `None`: a new axis of extent 1.
    New,
}

impl Program {
    /// The names of all tensors that it loads, whether or not it needs them.
    pub fn loads(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        self.statements.iter().for_each(|statement| statement.loads(&mut all));
        all
    }
}

impl Statement {
    fn loads(&self, all: &mut BTreeSet<String>) {
        let (statements, expressions): (&[Statement], Vec<&Expr>) = match &self.node {
            StatementNode::Assign { target, value, guard, .. } => {
                let extents = target.extents.iter().map(|(_, extent)| extent);
                (&[], extents.chain(guard).chain([value]).collect())
            }
            StatementNode::Save { value, .. } => (&[], vec![value]),
            StatementNode::For { from, to, body, .. } => (body, vec![from, to]),
            StatementNode::While { condition, body } => (body, vec![condition]),
            StatementNode::Repeat { body, until } => (body, vec![until]),
            StatementNode::Define { body, result, .. } => (body, vec![result]),
        };
        statements.iter().for_each(|statement| statement.loads(all));
        expressions.into_iter().for_each(|expression| expression.loads(all));
    }
}

impl Expr {
    /// Expressions that this one is made of, one level down.
    pub(crate) fn parts(&self) -> Vec<&Expr> {
        match &self.node {
            ExprNode::List(all) => all.iter().collect(),
            ExprNode::Unary(_, a) => vec![a],
            ExprNode::Binary(_, a, b) | ExprNode::MatMul(a, b) => vec![a, b],
            ExprNode::Call { arguments, .. } => arguments.iter().map(|argument| &argument.value).collect(),
            ExprNode::Subscript(of, all) => {
                let within = all.iter().flat_map(|subscript| match subscript {
                    Subscript::At(at) => vec![at],
                    Subscript::Range(start, stop, step) => {
                        [start, stop, step].into_iter().flatten().collect()
                    }
                    Subscript::New => Vec::new(),
                });
                within.chain([&**of]).collect()
            }
            ExprNode::Bool(_)
            | ExprNode::Int(_)
            | ExprNode::Float(_)
            | ExprNode::Text(_)
            | ExprNode::Name(_) => Vec::new(),
        }
    }

    fn loads(&self, all: &mut BTreeSet<String>) {
        let mut open = vec![self];
        while let Some(expr) = open.pop() {
            let parts = expr.parts();
            if let ExprNode::Call { name, .. } = &expr.node
                && name == "load"
                && let [Expr { node: ExprNode::Text(tensor), .. }] = parts[..]
            {
                all.insert(tensor.clone());
            }
            open.extend(parts);
        }
    }

    /// The operators of a row from the last to the first, and what is left of them all.
    pub(crate) fn row(&self) -> (Vec<&Expr>, &Expr) {
        let (mut row, mut first) = (Vec::new(), self);
        while let ExprNode::Binary(_, left, _) | ExprNode::MatMul(left, _) = &first.node {
            row.push(first);
            first = left;
        }
        (row, first)
    }
}

impl Clone for Expr {
    fn clone(&self) -> Expr {
        let (row, first) = self.row();
        let mut left = Expr { node: first.node.clone(), span: first.span };
        for expr in row.into_iter().rev() {
            let node = match &expr.node {
                ExprNode::Binary(op, _, right) => ExprNode::Binary(*op, Box::new(left), right.clone()),
                ExprNode::MatMul(_, right) => ExprNode::MatMul(Box::new(left), right.clone()),
                other => other.clone(),
            };
            left = Expr { node, span: expr.span };
        }
        left
    }
}

impl Drop for Expr {
    fn drop(&mut self) {
        // One after another, so that each has nothing to its left when it goes.
        let mut next = std::mem::replace(&mut self.node, ExprNode::Bool(false));
        while let ExprNode::Binary(_, left, _) | ExprNode::MatMul(left, _) = &mut next {
            next = std::mem::replace(&mut left.node, ExprNode::Bool(false));
        }
    }
}

impl PartialEq for Program {
    fn eq(&self, other: &Program) -> bool {
        self.statements == other.statements
    }
}

impl PartialEq for Statement {
    fn eq(&self, other: &Statement) -> bool {
        self.node == other.node
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        let ((row, first), (other_row, other_first)) = (self.row(), other.row());
        let same = |(own, other): (&&Expr, &&Expr)| match (&own.node, &other.node) {
            (ExprNode::Binary(op, _, right), ExprNode::Binary(other_op, _, other)) => {
                op == other_op && right == other
            }
            (ExprNode::MatMul(_, right), ExprNode::MatMul(_, other)) => right == other,
            _ => false,
        };
        row.len() == other_row.len() && row.iter().zip(&other_row).all(same) && first.node == other_first.node
    }
}

impl PartialEq for Target {
    fn eq(&self, other: &Target) -> bool {
        (&self.name, &self.indices, &self.extents) == (&other.name, &other.indices, &other.extents)
    }
}

impl Program {
    /// A program without statements.
    pub fn new() -> Program {
        Program::default()
    }

    /// This program and `target = value`.
    pub fn assign(self, target: Target, value: Expr) -> Program {
        self.then(StatementNode::Assign { target, reduce: None, value, guard: None })
    }

    /// This program and `target op= value`, such as `min=`.
    pub fn reduce(self, target: Target, op: &str, value: Expr) -> Program {
        self.then(StatementNode::Assign { target, reduce: Some(op.to_owned()), value, guard: None })
    }

    /// This program and `save(value, "name")`.
    pub fn save(self, value: Expr, name: &str) -> Program {
        self.then(StatementNode::Save { value, name: name.to_owned() })
    }

    /// This program and one more statement.
    pub fn then(mut self, node: StatementNode) -> Program {
        self.statements.push(Statement { node, span: Span::default() });
        self
    }
}

impl Target {
    /// A variable that stands alone.
    pub fn whole(name: &str) -> Target {
        Target { name: name.to_owned(), indices: None, extents: Vec::new(), span: Span::default() }
    }

    /// A variable with indices; none of them for a single number.
    pub fn indexed<'a>(name: &str, indices: impl IntoIterator<Item = &'a str>) -> Target {
        let indices = indices.into_iter().map(str::to_owned).collect();
        Target { name: name.to_owned(), indices: Some(indices), extents: Vec::new(), span: Span::default() }
    }

    /// The same, with the extent of one of its indices.
    pub fn with_extent(mut self, index: &str, extent: Expr) -> Target {
        self.extents.push((index.to_owned(), extent));
        self
    }
}

impl Expr {
    /// An expression without a place in a text.
    pub fn new(node: ExprNode) -> Expr {
        Expr { node, span: Span::default() }
    }

    /// A variable or an index.
    pub fn name(name: &str) -> Expr {
        Expr::new(ExprNode::Name(name.to_owned()))
    }

    /// A number.
    pub fn number(value: f64) -> Expr {
        let literal = Expr::new(ExprNode::Float(value.abs()));
        if value.is_sign_negative() { -literal } else { literal }
    }

    /// A whole number. The least one has no literal of its own, and is written as a difference.
    pub fn int(value: i64) -> Expr {
        match value.checked_abs() {
            Some(size) if value < 0 => -Expr::new(ExprNode::Int(size)),
            Some(size) => Expr::new(ExprNode::Int(size)),
            None => Expr::int(value + 1) - Expr::int(1),
        }
    }

    /// This expression with one index per axis.
    pub fn at<'a>(self, indices: impl IntoIterator<Item = &'a str>) -> Expr {
        let subscripts = indices.into_iter().map(|index| Subscript::At(Expr::name(index))).collect();
        Expr::new(ExprNode::Subscript(Box::new(self), subscripts))
    }

    /// A call of a function.
    pub fn call(name: &str, arguments: impl IntoIterator<Item = Expr>) -> Expr {
        let arguments = arguments.into_iter().map(|value| Argument { name: None, value }).collect();
        Expr::new(ExprNode::Call { name: name.to_owned(), arguments })
    }

    /// `self op other`, such as a comparison.
    pub fn binary(self, op: BinaryOp, other: Expr) -> Expr {
        match op {
            BinaryOp::Min | BinaryOp::Max => Expr::call(op.name(), [self, other]),
            _ => Expr::new(ExprNode::Binary(op, Box::new(self), Box::new(other))),
        }
    }

    /// `self @ other`
    pub fn matmul(self, other: Expr) -> Expr {
        Expr::new(ExprNode::MatMul(Box::new(self), Box::new(other)))
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident),*) => {$(
        impl $trait for Expr {
            type Output = Expr;

            fn $method(self, other: Expr) -> Expr {
                self.binary(BinaryOp::$trait, other)
            }
        }
    )*};
}

operator!(Add add, Sub sub, Mul mul, Div div);

impl Neg for Expr {
    type Output = Expr;

    fn neg(self) -> Expr {
        Expr::new(ExprNode::Unary(UnaryOp::Neg, Box::new(self)))
    }
}
