//! What the signs `[`, `::`, `:` and `?` mean where they stand, and which words are names of functions.
//!
//! ```text
//! x[::2, 1]        →  x[: : 2, 1]       two colons of a slice, not a cast
//! a IN [1, 2]      →  a IN (1, 2)
//! a = ? AND b = ?  →  a = $1 AND b = $2
//! a = :low         →  a = $low
//! any(x > 2)       →  a function, although ANY is a keyword
//! ```

use std::ops::Range;

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::source::{SLICE, Source, bytes_of, ends_expression, is_word, span_of};
use crate::error::QueryError;

/// A parameter in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// `1`, `2`, … or its name, without `$`, `:` and `?`.
    pub(crate) name: String,
    /// Where it stands.
    pub(crate) bytes: Range<usize>,
}

/// What a bracket that is open is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    Subscript,
    InList,
    Other,
}

/// Replaces the signs, and lists the parameters from left to right.
pub(super) fn read_signs(source: &mut Source<'_>) -> Result<Vec<Parameter>, QueryError> {
    let tokens = std::mem::take(&mut source.tokens);
    let mut read: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 8);
    let mut parameters = Parameters::default();
    let mut open = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(TokenWithSpan { token, span }) = tokens.next() {
        let bytes = bytes_of(span);
        let before = read.last().map(|token| &token.token);
        let in_subscript = open.last() == Some(&Bracket::Subscript);
        let next = tokens.peek();
        match token {
            Token::LBracket => {
                let bracket = match before {
                    Some(before) if is_word(before, "IN") => Bracket::InList,
                    Some(before) if ends_expression(before) => Bracket::Subscript,
                    _ => Bracket::Other,
                };
                open.push(bracket);
                let token = if bracket == Bracket::InList { Token::LParen } else { Token::LBracket };
                read.push(TokenWithSpan::new(token, span));
            }
            Token::RBracket => {
                let token = if open.pop() == Some(Bracket::InList) { Token::RParen } else { Token::RBracket };
                read.push(TokenWithSpan::new(token, span));
            }
            Token::LParen | Token::LBrace => {
                // The arguments of `slice` are subscripts.
                let is_slice = before.is_some_and(|before| is_word(before, SLICE));
                open.push(if is_slice { Bracket::Subscript } else { Bracket::Other });
                read.push(TokenWithSpan::new(token, span));
            }
            Token::RParen | Token::RBrace => {
                open.pop();
                read.push(TokenWithSpan::new(token, span));
            }
            Token::DoubleColon if in_subscript => {
                let middle = bytes.start + 1;
                read.push(TokenWithSpan::new(Token::Colon, span_of(bytes.start..middle)));
                read.push(TokenWithSpan::new(Token::Colon, span_of(middle..bytes.end)));
            }
            Token::Colon => {
                let separates = match before {
                    Some(before) if in_subscript => {
                        ends_expression(before)
                            || matches!(before, Token::LBracket | Token::Comma | Token::Colon)
                    }
                    Some(before) => ends_expression(before),
                    None => false,
                };
                let name = next.filter(|next| !separates && bytes_of(next.span).start == bytes.end);
                let Some((name, end)) = name.and_then(|next| match &next.token {
                    Token::Word(Word { value, quote_style: None, .. }) => {
                        Some((value.clone(), bytes_of(next.span).end))
                    }
                    _ => None,
                }) else {
                    read.push(TokenWithSpan::new(Token::Colon, span));
                    continue;
                };
                tokens.next();
                read.push(parameters.named(name, bytes.start..end));
            }
            Token::Placeholder(sign) => read.push(parameters.placeholder(source, &sign, bytes)?),
            Token::Word(Word { value, quote_style: None, keyword: Keyword::ANY | Keyword::ALL })
                if next.is_some_and(|next| next.token == Token::LParen) && !wants_quantifier(before) =>
            {
                let word = Word { value, quote_style: None, keyword: Keyword::NoKeyword };
                read.push(TokenWithSpan::new(Token::Word(word), span));
            }
            other => read.push(TokenWithSpan::new(other, span)),
        }
    }
    source.tokens = read;
    parameters.checked(source)
}

/// Whether ANY and ALL belong to what stands before: `= ANY (…)`, `UNION ALL (…)`.
fn wants_quantifier(before: Option<&Token>) -> bool {
    match before {
        Some(Token::Word(word)) => matches!(
            word.keyword,
            Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::LIKE | Keyword::ILIKE
        ),
        Some(token) => matches!(
            token,
            Token::Eq | Token::DoubleEq | Token::Neq | Token::Lt | Token::LtEq | Token::Gt | Token::GtEq
        ),
        None => false,
    }
}

/// The parameters seen so far, by kind.
#[derive(Default)]
struct Parameters {
    all: Vec<Parameter>,
    questions: Vec<usize>,
    numbers: Vec<usize>,
    names: Vec<usize>,
}

impl Parameters {
    fn push(&mut self, name: String, bytes: Range<usize>) -> TokenWithSpan {
        let token = TokenWithSpan::new(Token::Placeholder(format!("${name}")), span_of(bytes.clone()));
        self.all.push(Parameter { name, bytes });
        token
    }

    fn named(&mut self, name: String, bytes: Range<usize>) -> TokenWithSpan {
        self.names.push(self.all.len());
        self.push(name, bytes)
    }

    fn placeholder(
        &mut self,
        source: &Source<'_>,
        sign: &str,
        bytes: Range<usize>,
    ) -> Result<TokenWithSpan, QueryError> {
        if sign == "?" {
            self.questions.push(self.all.len());
            return Ok(self.push(self.questions.len().to_string(), bytes));
        }
        let name = sign.strip_prefix('$').unwrap_or_default();
        if name.starts_with(|letter: char| letter.is_ascii_digit()) {
            if !name.parse::<u32>().is_ok_and(|number| number > 0) {
                return Err(source.error("parameters are counted from 1: `$1`, `$2`", bytes));
            }
            self.numbers.push(self.all.len());
            return Ok(self.push(name.to_owned(), bytes));
        }
        if name.is_empty() {
            return Err(source.error("a parameter is written `?`, `$1`, `$name` or `:name`", bytes));
        }
        Ok(self.named(name.to_owned(), bytes))
    }

    /// The parameters, if they are of one kind.
    fn checked(self, source: &Source<'_>) -> Result<Vec<Parameter>, QueryError> {
        let mut kinds: Vec<usize> = [&self.questions, &self.numbers, &self.names]
            .into_iter()
            .filter_map(|kind| kind.first().copied())
            .collect();
        kinds.sort_unstable();
        if let Some(second) = kinds.get(1) {
            let why = "parameters are either all `?`, all numbered (`$1`) or all named (`:name`, `$name`)";
            return Err(source.error(why, self.all[*second].bytes.clone()));
        }
        Ok(self.all)
    }
}
