//! Text into tokens. Line ends are tokens, except within parentheses and brackets, where a statement goes on.

use crate::error::{AlgebraError, Place, Problem};
use crate::syntax::ast::Span;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Int(i64),
    Float(f64),
    Text(String),
    /// A name or a keyword.
    Word(String),
    Symbol(&'static str),
    LineEnd,
    End,
}

/// Longest first, so that `**` is not read as two stars.
const SYMBOLS: [&str; 31] = [
    "**", "//", "..", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "@=", "+", "-", "*", "/", "%",
    "@", "<", ">", "=", "(", ")", "[", "]", "{", "}", ",", ":", ";",
];

/// What is between quotes, of which the first is at `start`, and the length with both. `\\` and `\"` mean what follows.
fn text(source: &str, start: usize) -> Result<(String, usize), AlgebraError> {
    let mut text = String::new();
    let mut rest = source[start + 1..].char_indices();
    while let Some((at, letter)) = rest.next() {
        match letter {
            '"' => return Ok((text, at + 2)),
            '\n' => break,
            '\\' => match rest.next() {
                Some((_, escaped @ ('"' | '\\'))) => text.push(escaped),
                other => {
                    let place = start + 1 + at;
                    let end = other.map_or(source.len(), |(at, letter)| start + 1 + at + letter.len_utf8());
                    let found = match other {
                        Some((_, letter)) if letter != '\n' => format!("`{}`", &source[place..end]),
                        _ => "the end of the line".to_owned(),
                    };
                    return Err(unexpected(source, place, end, "`\\\\` or `\\\"` in a text", &found));
                }
            },
            letter => text.push(letter),
        }
    }
    Err(unexpected(source, start, source.len(), "a closing \" on the same line", "none"))
}

pub(crate) fn tokens(source: &str) -> Result<Vec<(Token, Span)>, AlgebraError> {
    let bytes = source.as_bytes();
    let mut all = Vec::new();
    let mut open = 0usize;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        let token = match byte {
            b' ' | b'\t' | b'\r' => {
                at += 1;
                continue;
            }
            b'#' => {
                at += source[at..].find('\n').unwrap_or(source.len() - at);
                continue;
            }
            b'\n' => {
                at += 1;
                if open > 0 {
                    continue;
                }
                Token::LineEnd
            }
            b'"' => {
                let (text, length) = text(source, start)?;
                at += length;
                Token::Text(text)
            }
            b'0'..=b'9' => number(source, &mut at)?,
            b'.' if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => number(source, &mut at)?,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                while bytes.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
                    at += 1;
                }
                Token::Word(source[start..at].to_owned())
            }
            _ => {
                let Some(symbol) = SYMBOLS.iter().find(|symbol| source[at..].starts_with(**symbol)) else {
                    let found = source[at..].chars().next().unwrap_or(' ');
                    return Err(unexpected(
                        source,
                        at,
                        at + found.len_utf8(),
                        "a name, a number or an operator",
                        &format!("{found:?}"),
                    ));
                };
                match *symbol {
                    "(" | "[" => open += 1,
                    ")" | "]" => open = open.saturating_sub(1),
                    _ => {}
                }
                at += symbol.len();
                Token::Symbol(symbol)
            }
        };
        all.push((token, Span { start, end: at }));
    }
    all.push((Token::End, Span { start: source.len(), end: source.len() }));
    Ok(all)
}

fn number(source: &str, at: &mut usize) -> Result<Token, AlgebraError> {
    let bytes = source.as_bytes();
    let start = *at;
    let digits = |at: &mut usize| {
        while bytes.get(*at).is_some_and(u8::is_ascii_digit) {
            *at += 1;
        }
    };
    let mut is_float = false;
    digits(at);
    // `0..10` is a range, not the number `0.` before `.10`.
    if bytes.get(*at) == Some(&b'.') && bytes.get(*at + 1) != Some(&b'.') {
        is_float = true;
        *at += 1;
        digits(at);
    }
    if matches!(bytes.get(*at), Some(b'e' | b'E')) {
        let mut after = *at + 1;
        if matches!(bytes.get(after), Some(b'+' | b'-')) {
            after += 1;
        }
        if bytes.get(after).is_some_and(u8::is_ascii_digit) {
            is_float = true;
            *at = after;
            digits(at);
        }
    }
    let text = &source[start..*at];
    let token =
        if is_float { text.parse().ok().map(Token::Float) } else { text.parse().ok().map(Token::Int) };
    token.ok_or_else(|| unexpected(source, start, *at, "a number of at most 64 bits", text))
}

fn unexpected(source: &str, start: usize, end: usize, expected: &str, found: &str) -> AlgebraError {
    Problem::Unexpected { expected: expected.to_owned(), found: found.to_owned() }
        .at(Place::of(source, start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_tokens() {
        let check = |text: &str, expected: &[Token]| {
            let found: Vec<Token> = tokens(text).unwrap().into_iter().map(|(token, _)| token).collect();
            assert_eq!(found[..found.len() - 1], *expected, "{text}");
        };
        let word = |text: &str| Token::Word(text.to_owned());
        check("0..10", &[Token::Int(0), Token::Symbol(".."), Token::Int(10)]);
        check(
            "1e-8 .5 2. 3e",
            &[Token::Float(1e-8), Token::Float(0.5), Token::Float(2.0), Token::Int(3), word("e")],
        );
        check("a # b\nc", &[word("a"), Token::LineEnd, word("c")]);
        check("(a\nb)", &[Token::Symbol("("), word("a"), word("b"), Token::Symbol(")")]);
        check("\"x y\"", &[Token::Text("x y".to_owned())]);
        check(r#""a\"b\\""#, &[Token::Text("a\"b\\".to_owned())]);
        check("x*=2", &[word("x"), Token::Symbol("*="), Token::Int(2)]);
    }

    #[test]
    fn what_is_no_token_is_an_error_with_its_place() {
        let check = |text: &str, expected: &str| {
            let error = tokens(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        };
        check("a = ?", "expected a name, a number or an operator, found '?'\n --> line 1, column 5");
        check("\n\"open", "expected a closing \" on the same line, found none\n --> line 2, column 1");
        check("99999999999999999999", "expected a number of at most 64 bits, found 99999999999999999999");
        check("ü", "expected a name, a number or an operator, found 'ü'");
    }
}
