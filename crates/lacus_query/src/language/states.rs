//! Which state of a dataset is meant, in all the ways to write it.
//!
//! ```text
//! dataset@"main~2"   dataset VERSION AS OF 'main~2'   dataset AT ('main~2')     a revision
//! dataset VERSION AS OF 3                             dataset AT (version => 3)
//! dataset TIMESTAMP AS OF '2026-01-01'                dataset AT (timestamp => '2026-01-01')
//! ```
//!
//! Behind `cells('name')` and `slice('name', …)` they mean the dataset of the array.
//!
//! All are turned into `AT ('kind', 'value')`, which the parser reads as part of the table; for an array, as its last argument.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, TableVersion, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::source::{SLICE, Source, are_words, bytes_of, is_word, span_of};
use crate::error::QueryError;

/// The function that makes a table of an array.
pub(super) const CELLS: &str = "cells";

/// What stands for `AT` among the arguments of either. No name of a user's begins so.
const STATE_OF_ARRAY: &str = "\u{1}at";

/// A state of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum At {
    /// A branch, a tag, a commit or something relative to one, such as `main~2`.
    Revision(String),
    /// A version of the table.
    Version(u64),
    /// The newest state at a time.
    Timestamp(String),
}

impl At {
    /// How it looks behind the name of its dataset, in the key of a table.
    pub(super) fn suffix(&self) -> String {
        match self {
            At::Revision(revision) => format!("@{revision}"),
            At::Version(version) => format!("@version {version}"),
            At::Timestamp(time) => format!("@timestamp {time}"),
        }
    }

    fn parts(&self) -> (&'static str, String) {
        match self {
            At::Revision(revision) => ("revision", revision.clone()),
            At::Version(version) => ("version", version.to_string()),
            At::Timestamp(time) => ("timestamp", time.clone()),
        }
    }
}

/// Rewrites every state into the one form.
pub(super) fn read_states(source: &mut Source<'_>) -> Result<(), QueryError> {
    let tokens = std::mem::take(&mut source.tokens);
    let mut read: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let follows_name = read.last().is_some_and(|token| matches!(token.token, Token::Word(_)));
        let follows_array = ends_with_array(&read);
        let state = if follows_name || follows_array { state(source, &tokens[at..])? } else { None };
        match state {
            Some((state, length)) => {
                let bytes = bytes_of(tokens[at].span).start..bytes_of(tokens[at + length - 1].span).end;
                let (kind, value) = state.parts();
                let name = match follows_array {
                    true => Token::make_word(STATE_OF_ARRAY, Some('"')),
                    false => Token::make_keyword("AT"),
                };
                let made = [
                    name,
                    Token::LParen,
                    Token::SingleQuotedString(kind.to_owned()),
                    Token::Comma,
                    Token::SingleQuotedString(value),
                    Token::RParen,
                ];
                let made = made.map(|token| TokenWithSpan::new(token, span_of(bytes.clone())));
                match read.pop_if(|_| follows_array) {
                    Some(end) => {
                        let comma = TokenWithSpan::new(Token::Comma, span_of(bytes.clone()));
                        let is_first = read.last().is_some_and(|token| token.token == Token::LParen);
                        read.extend((!is_first).then_some(comma));
                        read.extend(made);
                        read.push(end);
                    }
                    None => read.extend(made),
                }
                at += length;
            }
            None => {
                read.push(tokens[at].clone());
                at += 1;
            }
        }
    }
    source.tokens = read;
    Ok(())
}

/// Whether the tokens end with `cells(…)` or `slice(…)`.
fn ends_with_array(tokens: &[TokenWithSpan]) -> bool {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().rev() {
        match token.token {
            Token::RParen => depth += 1,
            Token::LParen if depth > 1 => depth -= 1,
            Token::LParen => {
                let name = at.checked_sub(1).and_then(|before| tokens.get(before));
                return name
                    .is_some_and(|name| [CELLS, SLICE].iter().any(|known| is_word(&name.token, known)));
            }
            _ if depth == 0 => return false,
            _ => {}
        }
    }
    false
}

/// The state that some tokens begin with, and how many tokens it has.
fn state(source: &Source<'_>, tokens: &[TokenWithSpan]) -> Result<Option<(At, usize)>, QueryError> {
    let first = bytes_of(tokens[0].span);
    let found = if tokens[0].token == Token::AtSign {
        Some(after_sign(source, tokens)?)
    } else if are_words(tokens, &["VERSION", "AS", "OF"]) {
        Some((version(source, tokens.get(3), first)?, 4))
    } else if are_words(tokens, &["TIMESTAMP", "AS", "OF"]) {
        Some((time(source, tokens.get(3), first)?, 4))
    } else if are_words(tokens, &["FOR", "SYSTEM_TIME", "AS", "OF"]) {
        Some((time(source, tokens.get(4), first)?, 5))
    } else if is_word(&tokens[0].token, "AT") && tokens.get(1).is_some_and(|next| next.token == Token::LParen)
    {
        Some(in_parentheses(source, tokens)?)
    } else {
        None
    };
    Ok(found)
}

/// `@"main~2"`, `@v1`, `@3f2a`.
fn after_sign(source: &Source<'_>, tokens: &[TokenWithSpan]) -> Result<(At, usize), QueryError> {
    let sign = bytes_of(tokens[0].span);
    if let Some(Token::Word(Word { value, quote_style: Some(_), .. })) = tokens.get(1).map(|next| &next.token)
    {
        return Ok((At::Revision(value.clone()), 2));
    }
    if let Some(Token::SingleQuotedString(value)) = tokens.get(1).map(|next| &next.token) {
        return Ok((At::Revision(value.clone()), 2));
    }
    // A commit may begin with digits, which the tokenizer takes for a number.
    let (mut end, mut length) = (sign.end, 1);
    while let Some(next) = tokens.get(length) {
        let bytes = bytes_of(next.span);
        if bytes.start != end || !matches!(next.token, Token::Word(_) | Token::Number(..)) {
            break;
        }
        (end, length) = (bytes.end, length + 1);
    }
    let touches = tokens.get(length).is_some_and(|next| {
        bytes_of(next.span).start == end && matches!(next.token, Token::Tilde | Token::Minus | Token::Div)
    });
    if length == 1 || touches {
        let why = "after `@` a branch, a tag or a commit is expected; write it in double quotes: `dataset@\"main~2\"`";
        return Err(source.error(why, sign));
    }
    Ok((At::Revision(source.text[sign.end..end].to_owned()), length))
}

/// The value of `VERSION AS OF`.
fn version(
    source: &Source<'_>,
    token: Option<&TokenWithSpan>,
    place: std::ops::Range<usize>,
) -> Result<At, QueryError> {
    match token.map(|token| &token.token) {
        Some(Token::Number(digits, _)) => match digits.parse() {
            Ok(number) => Ok(At::Version(number)),
            Err(_) => Err(source.error("a version is a whole number", place)),
        },
        Some(Token::SingleQuotedString(revision)) => Ok(At::Revision(revision.clone())),
        _ => Err(source.error("a version is a number or a revision in quotes, such as 3 or 'main~2'", place)),
    }
}

/// The value of `TIMESTAMP AS OF`.
fn time(
    source: &Source<'_>,
    token: Option<&TokenWithSpan>,
    place: std::ops::Range<usize>,
) -> Result<At, QueryError> {
    match token.map(|token| &token.token) {
        Some(Token::SingleQuotedString(time)) => Ok(At::Timestamp(time.clone())),
        _ => Err(source.error("a time is written in quotes, such as '2026-01-01 12:00'", place)),
    }
}

/// `AT ('main~2')`, `AT (version => 3)`.
fn in_parentheses(source: &Source<'_>, tokens: &[TokenWithSpan]) -> Result<(At, usize), QueryError> {
    let place = bytes_of(tokens[0].span);
    let arrow = tokens.get(3).is_some_and(|token| token.token == Token::RArrow);
    let (state, length) = if !arrow {
        (version(source, tokens.get(2), place.clone())?, 4)
    } else if is_word(&tokens[2].token, "timestamp") {
        (time(source, tokens.get(4), place.clone())?, 6)
    } else if ["version", "revision", "branch", "tag", "commit"]
        .iter()
        .any(|key| is_word(&tokens[2].token, key))
    {
        (version(source, tokens.get(4), place.clone())?, 6)
    } else {
        return Err(
            source.error("AT takes `version => 3`, `revision => 'main~2'` or `timestamp => '…'`", place)
        );
    };
    match tokens.get(length - 1).map(|token| &token.token) {
        Some(Token::RParen) => Ok((state, length)),
        _ => Err(source.error("AT takes one state: `AT ('main~2')` or `AT (version => 3)`", place)),
    }
}

/// The state that [`read_states`] left in the statement; `None` if it is something else of sqlparser's.
pub(super) fn written(version: &TableVersion) -> Option<At> {
    let TableVersion::Function(Expr::Function(function)) = version else { return None };
    called(function)
}

/// The state that [`read_states`] left among the arguments of `cells` or `slice`.
pub(super) fn state_of_array(argument: &FunctionArg) -> Option<At> {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(function))) = argument else { return None };
    let name = function.name.0.first()?.as_ident()?;
    (name.value == STATE_OF_ARRAY).then(|| called(function))?
}

fn called(function: &Function) -> Option<At> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let text = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(ValueWithSpan {
            value: Value::SingleQuotedString(text),
            ..
        }))) => Some(text.clone()),
        _ => None,
    };
    let [kind, value] = list.args.as_slice() else { return None };
    let value = text(value)?;
    match text(kind)?.as_str() {
        "revision" => Some(At::Revision(value)),
        "version" => value.parse().ok().map(At::Version),
        "timestamp" => Some(At::Timestamp(value)),
        _ => None,
    }
}
