//! Tokens into trees, by recursive descent with one table of binding strengths.

use crate::error::{AlgebraError, Place, Problem};
use crate::syntax::ast::{
    Argument, Expr, ExprNode, Program, Span, Statement, StatementNode, Subscript, Target,
};
use crate::syntax::lexer::{Token, tokens};
use crate::syntax::print::{MATMUL_STRENGTH, NEG_STRENGTH, NOT_STRENGTH, POW_STRENGTH, strength};
use lacus_tensor::{BinaryOp, UnaryOp};

/// Levels of nesting that are followed. Trees are walked by recursion; this many levels of the largest frames fit the
/// 2 MiB stack of a thread several times over. A row of operators (`a + b + c + …`) is no nesting: whoever walks a tree goes
/// along its left sides in a loop.
const MAX_DEPTH: usize = 200;

const KEYWORDS: [&str; 15] = [
    "for", "in", "while", "repeat", "until", "def", "return", "if", "and", "or", "not", "true", "false",
    "inf", "None",
];

/// Reads a program. A statement ends at the end of its line, at a `;`, or where the next one begins; `#` starts
/// a comment. Fails with the place of the first thing that does not fit.
pub fn parse(source: &str) -> Result<Program, AlgebraError> {
    let mut parser = Parser { source, tokens: tokens(source)?, at: 0, depth: 0 };
    let statements = parser.statements(&Token::End)?;
    if *parser.peek() != Token::End {
        return parser.unexpected("the end of the program");
    }
    Ok(Program { source: source.to_owned(), statements })
}

struct Parser<'a> {
    source: &'a str,
    tokens: Vec<(Token, Span)>,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn peek_second(&self) -> &Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].0
    }

    fn span(&self) -> Span {
        self.tokens[self.at].1
    }

    fn last_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].1
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        // The last token is the end, and stays.
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn fail<T>(&self, problem: Problem, span: Span) -> Result<T, AlgebraError> {
        Err(problem.at(Place::of(self.source, span.start, span.end)))
    }

    fn unexpected<T>(&self, expected: &str) -> Result<T, AlgebraError> {
        let found = match self.peek() {
            Token::End => "the end of the program".to_owned(),
            Token::LineEnd => "the end of the line".to_owned(),
            _ => {
                let span = self.span();
                format!("`{}`", &self.source[span.start..span.end])
            }
        };
        self.fail(Problem::Unexpected { expected: expected.to_owned(), found }, self.span())
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(found) if *found == symbol)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(found) if found == word)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        if found {
            self.next();
        }
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), AlgebraError> {
        if self.take(symbol) { Ok(()) } else { self.unexpected(&format!("`{symbol}`")) }
    }

    fn name(&mut self, what: &str) -> Result<String, AlgebraError> {
        match self.peek() {
            Token::Word(word) if !KEYWORDS.contains(&word.as_str()) => {
                let word = word.clone();
                self.next();
                Ok(word)
            }
            _ => self.unexpected(what),
        }
    }

    fn skip_line_ends(&mut self) {
        while *self.peek() == Token::LineEnd {
            self.next();
        }
    }

    fn deeper(&mut self) -> Result<(), AlgebraError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail(Problem::TooDeep { limit: MAX_DEPTH }, self.span());
        }
        Ok(())
    }

    fn statements(&mut self, end: &Token) -> Result<Vec<Statement>, AlgebraError> {
        self.deeper()?;
        let mut all = Vec::new();
        loop {
            while *self.peek() == Token::LineEnd || self.is(";") {
                self.next();
            }
            if self.peek() == end || *self.peek() == Token::End || self.is_word("return") {
                break;
            }
            let start = self.span();
            let node = self.statement()?;
            all.push(Statement { node, span: start.to(self.last_span()) });
        }
        self.depth -= 1;
        Ok(all)
    }

    fn block(&mut self) -> Result<Vec<Statement>, AlgebraError> {
        self.expect("{")?;
        let body = self.statements(&Token::Symbol("}"))?;
        self.expect("}")?;
        Ok(body)
    }

    fn statement(&mut self) -> Result<StatementNode, AlgebraError> {
        if self.take_word("for") {
            let variable = self.name("the name of the loop's variable")?;
            if !self.take_word("in") {
                return self.unexpected("`in`");
            }
            let from = self.expr()?;
            self.expect("..")?;
            let to = self.expr()?;
            return Ok(StatementNode::For { variable, from, to, body: self.block()? });
        }
        if self.take_word("while") {
            let condition = self.expr()?;
            return Ok(StatementNode::While { condition, body: self.block()? });
        }
        if self.take_word("repeat") {
            let body = self.block()?;
            self.skip_line_ends();
            if !self.take_word("until") {
                return self.unexpected("`until`");
            }
            return Ok(StatementNode::Repeat { body, until: self.expr()? });
        }
        if self.take_word("def") {
            return self.definition();
        }
        if self.is_word("save") && *self.peek_second() == Token::Symbol("(") {
            return self.save();
        }
        self.assignment()
    }

    fn definition(&mut self) -> Result<StatementNode, AlgebraError> {
        let name = self.name("the name of a function")?;
        self.expect("(")?;
        let mut parameters = Vec::new();
        while !self.is(")") {
            let parameter = self.name("the name of a parameter")?;
            if parameters.contains(&parameter) {
                let what = format!("parameter '{parameter}' appears twice");
                return self.fail(Problem::Misplaced { what }, self.last_span());
            }
            parameters.push(parameter);
            if !self.take(",") {
                break;
            }
        }
        self.expect(")")?;
        if self.take("=") {
            return Ok(StatementNode::Define { name, parameters, body: Vec::new(), result: self.expr()? });
        }
        if !self.take("{") {
            return self.unexpected("`=` or `{`");
        }
        let body = self.statements(&Token::Symbol("}"))?;
        if !self.take_word("return") {
            return self.unexpected("`return` at the end of a function");
        }
        let result = self.expr()?;
        while *self.peek() == Token::LineEnd || self.is(";") {
            self.next();
        }
        self.expect("}")?;
        Ok(StatementNode::Define { name, parameters, body, result })
    }

    fn save(&mut self) -> Result<StatementNode, AlgebraError> {
        self.next();
        self.expect("(")?;
        let value = self.expr()?;
        self.expect(",")?;
        let Token::Text(name) = self.peek().clone() else {
            return self.unexpected("the name to save under, in quotes");
        };
        self.next();
        self.expect(")")?;
        Ok(StatementNode::Save { value, name })
    }

    fn assignment(&mut self) -> Result<StatementNode, AlgebraError> {
        let start = self.span();
        let name = self.name("a statement")?;
        let mut indices = None;
        let mut extents = Vec::new();
        if self.take("[") {
            let mut all = Vec::new();
            while !self.is("]") {
                let index = self.name("the name of an index")?;
                if self.take_word("in") {
                    if *self.peek() != Token::Int(0) {
                        return self.unexpected("0, from which an index counts");
                    }
                    self.next();
                    self.expect("..")?;
                    extents.push((index.clone(), self.expr()?));
                }
                all.push(index);
                if !self.take(",") {
                    break;
                }
            }
            self.expect("]")?;
            indices = Some(all);
        }
        let target = Target { name, indices, extents, span: start.to(self.last_span()) };
        let reduce = self.assign_op()?;
        let value = self.expr()?;
        let guard = if self.take_word("if") { Some(self.expr()?) } else { None };
        Ok(StatementNode::Assign { target, reduce, value, guard })
    }

    /// `=`, `min=`, `*=`…: the name of the operation, if any.
    fn assign_op(&mut self) -> Result<Option<String>, AlgebraError> {
        match self.peek().clone() {
            Token::Symbol("=") => {
                self.next();
                Ok(None)
            }
            Token::Symbol(op @ ("+=" | "-=" | "*=" | "/=" | "%=" | "@=")) => {
                self.next();
                Ok(Some(op[..1].to_owned()))
            }
            Token::Word(word) if *self.peek_second() == Token::Symbol("=") => {
                self.next();
                self.next();
                Ok(Some(word))
            }
            _ => self.unexpected("`=`, `min=`, `max=`, `*=` or `or=`"),
        }
    }

    fn expr(&mut self) -> Result<Expr, AlgebraError> {
        self.deeper()?;
        let expr = self.binary(0)?;
        self.depth -= 1;
        Ok(expr)
    }

    fn binary(&mut self, least: u8) -> Result<Expr, AlgebraError> {
        let start = self.span();
        let mut left = self.unary()?;
        while let Some((op, own)) = self.peek_operator().filter(|(_, own)| *own >= least) {
            self.next();
            self.skip_line_ends();
            self.deeper()?;
            let right = self.binary(if own == POW_STRENGTH { NEG_STRENGTH } else { own + 1 })?;
            self.depth -= 1;
            let span = start.to(self.last_span());
            let node = match op {
                Some(op) => ExprNode::Binary(op, Box::new(left), Box::new(right)),
                None => ExprNode::MatMul(Box::new(left), Box::new(right)),
            };
            left = Expr { node, span };
            if op.is_some_and(BinaryOp::is_comparison)
                && self.peek_operator().is_some_and(|(next, _)| next.is_some_and(BinaryOp::is_comparison))
            {
                return self.unexpected("`and`, since comparisons do not chain");
            }
        }
        Ok(left)
    }

    /// The operator that comes next (`None` inside for `@`) and how tightly it binds.
    fn peek_operator(&self) -> Option<(Option<BinaryOp>, u8)> {
        let op = match self.peek() {
            Token::Symbol("@") => return Some((None, MATMUL_STRENGTH)),
            Token::Symbol("+") => BinaryOp::Add,
            Token::Symbol("-") => BinaryOp::Sub,
            Token::Symbol("*") => BinaryOp::Mul,
            Token::Symbol("/") => BinaryOp::Div,
            Token::Symbol("//") => BinaryOp::FloorDiv,
            Token::Symbol("%") => BinaryOp::Mod,
            Token::Symbol("**") => BinaryOp::Pow,
            Token::Symbol("==") => BinaryOp::Eq,
            Token::Symbol("!=") => BinaryOp::Ne,
            Token::Symbol("<") => BinaryOp::Lt,
            Token::Symbol("<=") => BinaryOp::Le,
            Token::Symbol(">") => BinaryOp::Gt,
            Token::Symbol(">=") => BinaryOp::Ge,
            Token::Word(word) if word == "and" => BinaryOp::And,
            Token::Word(word) if word == "or" => BinaryOp::Or,
            _ => return None,
        };
        Some((Some(op), strength(op)))
    }

    fn unary(&mut self) -> Result<Expr, AlgebraError> {
        let start = self.span();
        let (op, inner) = if self.take("-") {
            (UnaryOp::Neg, NEG_STRENGTH)
        } else if self.take_word("not") {
            (UnaryOp::Not, NOT_STRENGTH)
        } else {
            return self.postfix();
        };
        self.deeper()?;
        let inner = self.binary(inner)?;
        self.depth -= 1;
        let span = start.to(self.last_span());
        Ok(Expr { node: ExprNode::Unary(op, Box::new(inner)), span })
    }

    fn postfix(&mut self) -> Result<Expr, AlgebraError> {
        let start = self.span();
        let mut expr = self.primary()?;
        let mut chain = 0;
        while self.is("[") {
            self.deeper()?;
            chain += 1;
            self.next();
            let mut subscripts = Vec::new();
            while !self.is("]") {
                subscripts.push(self.subscript()?);
                if !self.take(",") {
                    break;
                }
            }
            self.expect("]")?;
            let span = start.to(self.last_span());
            expr = Expr { node: ExprNode::Subscript(Box::new(expr), subscripts), span };
        }
        self.depth -= chain;
        Ok(expr)
    }

    fn subscript(&mut self) -> Result<Subscript, AlgebraError> {
        if self.take_word("None") {
            return Ok(Subscript::New);
        }
        let bound = |parser: &mut Self| {
            let ends = parser.is(":") || parser.is(",") || parser.is("]");
            if ends { Ok(None) } else { parser.expr().map(Some) }
        };
        let start = bound(self)?;
        if !self.take(":") {
            return match start {
                Some(at) => Ok(Subscript::At(at)),
                None => self.unexpected("an index"),
            };
        }
        let stop = bound(self)?;
        let step = if self.take(":") { bound(self)? } else { None };
        Ok(Subscript::Range(start, stop, step))
    }

    fn primary(&mut self) -> Result<Expr, AlgebraError> {
        let span = self.span();
        let node = match self.peek().clone() {
            Token::Int(value) => ExprNode::Int(value),
            Token::Float(value) => ExprNode::Float(value),
            Token::Text(text) => ExprNode::Text(text),
            Token::Word(word) if word == "true" || word == "false" => ExprNode::Bool(word == "true"),
            Token::Word(word) if word == "inf" => ExprNode::Float(f64::INFINITY),
            Token::Symbol("(") => {
                self.next();
                let mut inner = self.expr()?;
                self.expect(")")?;
                inner.span = span.to(self.last_span());
                return Ok(inner);
            }
            Token::Symbol("[") => {
                self.next();
                let mut items = Vec::new();
                while !self.is("]") {
                    items.push(self.expr()?);
                    if !self.take(",") {
                        break;
                    }
                }
                self.expect("]")?;
                return Ok(Expr { node: ExprNode::List(items), span: span.to(self.last_span()) });
            }
            _ => {
                let name = self.name("an expression")?;
                if !self.is("(") {
                    return Ok(Expr { node: ExprNode::Name(name), span });
                }
                return self.call(name, span);
            }
        };
        self.next();
        Ok(Expr { node, span })
    }

    fn call(&mut self, name: String, start: Span) -> Result<Expr, AlgebraError> {
        self.expect("(")?;
        let mut arguments = Vec::new();
        while !self.is(")") {
            let is_named = matches!(self.peek(), Token::Word(_)) && *self.peek_second() == Token::Symbol("=");
            let argument = if is_named {
                let name = self.name("the name of an argument")?;
                self.next();
                Some(name)
            } else {
                None
            };
            arguments.push(Argument { name: argument, value: self.expr()? });
            if !self.take(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(Expr { node: ExprNode::Call { name, arguments }, span: start.to(self.last_span()) })
    }
}

#[cfg(test)]
mod tests;
