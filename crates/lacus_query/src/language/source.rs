//! The text of a query as tokens whose places are byte offsets.
//!
//! sqlparser counts lines and characters. Every token is given the place "line 1, column = byte + 1" instead, so that each span in
//! the statement, and each place in the parser's messages, leads straight to bytes of the text ([`bytes_of`]).

use std::ops::Range;

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, Word};

use crate::error::QueryError;

/// The function that makes a value of an array: its arguments are subscripts.
pub(super) const SLICE: &str = "slice";

/// A text and its tokens, without spaces and comments.
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: Vec<TokenWithSpan>,
}

/// Reads the tokens of a text.
pub(super) fn tokenise<'a>(text: &'a str, dialect: &dyn Dialect) -> Result<Source<'a>, QueryError> {
    let mut tokens = Vec::new();
    let read = Tokenizer::new(dialect, text).tokenize_with_location_into_buf(&mut tokens);
    let mut walk = Walk { text, at: 0, line: 1, column: 1 };
    let mut kept = Vec::with_capacity(tokens.len());
    for TokenWithSpan { token, span } in tokens {
        if matches!(token, Token::Whitespace(_)) {
            continue;
        }
        let start = walk.byte(span.start);
        let end = walk.byte(span.end).max(start);
        kept.push(TokenWithSpan::new(token, span_of(start..end)));
    }
    if let Err(error) = read {
        let at = walk.byte(error.location);
        return Err(QueryError::at(tokenizer_words(&error.message), text, at..at));
    }
    Ok(Source { text, tokens: kept })
}

/// What the tokenizer complains about, as we say it.
fn tokenizer_words(message: &str) -> String {
    match message {
        "Unterminated string literal" => "the string that begins before this place has no closing `'`".into(),
        "Unexpected EOF while in a multi-line comment" => "the comment has no closing `*/`".into(),
        other if other.starts_with("Expected close delimiter") => {
            "the quoted name has no closing quotation mark".into()
        }
        other => other.to_owned(),
    }
}

impl Source<'_> {
    /// An error at some bytes.
    pub(super) fn error(&self, why: impl Into<String>, bytes: Range<usize>) -> QueryError {
        QueryError::at(why, self.text, bytes)
    }

    /// Where some words first follow each other, such as `FOR UPDATE`; the end of the text if they do not.
    pub(super) fn find(&self, words: &str) -> Range<usize> {
        let words: Vec<&str> = words.split(' ').collect();
        let found = self
            .tokens
            .windows(words.len())
            .find(|window| window.iter().zip(&words).all(|(token, word)| is_word(&token.token, word)));
        match found {
            Some([first, .., last]) => bytes_of(first.span).start..bytes_of(last.span).end,
            Some([only]) => bytes_of(only.span),
            _ => self.text.len()..self.text.len(),
        }
    }

    /// An error of the parser, in plain words and with its place.
    pub(super) fn parser_error(&self, error: ParserError) -> QueryError {
        let message = match error {
            ParserError::RecursionLimitExceeded => {
                return QueryError::text("the query is nested too deeply");
            }
            ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        };
        let (message, at) = match message.rsplit_once(" at Line: ") {
            Some((head, tail)) => {
                let column = tail.rsplit(' ').next().and_then(|column| column.parse::<usize>().ok());
                (head.to_owned(), column.map_or(self.text.len(), |column| column.saturating_sub(1)))
            }
            None => (message, self.text.trim_end().len()),
        };
        let Some((expected, found)) = expected_and_found(&message) else {
            let mut letters = message.chars();
            let first = letters.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
            return self.error(first + letters.as_str(), self.token_at(at, ""));
        };
        self.error(parser_words(expected, found), self.token_at(at, found))
    }

    /// The bytes of the token that begins at a byte, or of the one before it if that is the one that was found.
    fn token_at(&self, at: usize, found: &str) -> Range<usize> {
        let Some(place) = self.tokens.iter().position(|token| bytes_of(token.span).start == at) else {
            return at..at;
        };
        let is_found = |place: usize| self.tokens[place].token.to_string() == found;
        let place = if place > 0 && !is_found(place) && is_found(place - 1) { place - 1 } else { place };
        bytes_of(self.tokens[place].span)
    }
}

/// The parts of "Expected: x, found: y".
fn expected_and_found(message: &str) -> Option<(&str, &str)> {
    let (expected, found) = message.strip_prefix("Expected")?.rsplit_once(", found: ")?;
    Some((expected.trim_start_matches(':').trim_start(), found))
}

/// What was expected and found as a sentence.
fn parser_words(expected: &str, found: &str) -> String {
    let expected = match expected {
        "end of statement" => "the end of the query".to_owned(),
        "identifier" => "a name".to_owned(),
        "EOF" => "the end of the clause".to_owned(),
        "joined table" => "a table".to_owned(),
        plain if plain.contains(' ') && plain.chars().any(char::is_lowercase) => plain.replace(" | ", ", "),
        token => format!("`{token}`"),
    };
    let found = if found == "EOF" { "the end of the query".to_owned() } else { format!("`{found}`") };
    if expected == found {
        format!("unexpected {found}")
    } else {
        format!("expected {expected}, found {found}")
    }
}

/// The span that stands for some bytes.
pub(super) fn span_of(bytes: Range<usize>) -> Span {
    let location = |byte: usize| Location { line: 1, column: byte as u64 + 1 };
    Span { start: location(bytes.start), end: location(bytes.end) }
}

/// The bytes that a span of the statement stands for.
pub(crate) fn bytes_of(span: Span) -> Range<usize> {
    let byte = |location: Location| (location.column as usize).saturating_sub(1);
    byte(span.start)..byte(span.end).max(byte(span.start))
}

/// Whether a token is this word, without quotation marks, in upper or lower case.
pub(super) fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(Word { value, quote_style: None, .. }) if value.eq_ignore_ascii_case(word))
}

/// Whether the tokens from some place on are these words.
pub(super) fn are_words(tokens: &[TokenWithSpan], words: &[&str]) -> bool {
    tokens.len() >= words.len() && tokens.iter().zip(words).all(|(token, word)| is_word(&token.token, word))
}

/// Whether an expression may end with this token, so that `[` behind it is a subscript and `:` no parameter.
pub(super) fn ends_expression(token: &Token) -> bool {
    match token {
        Token::Word(Word { quote_style: Some(_), .. }) => true,
        Token::Word(Word { keyword, .. }) => !STARTERS.contains(keyword),
        Token::RParen | Token::RBracket | Token::RBrace | Token::Placeholder(_) => true,
        Token::Number(..) | Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) => true,
        _ => false,
    }
}

/// Words behind which an expression begins.
const STARTERS: &[Keyword] = &[
    Keyword::ALL,
    Keyword::AND,
    Keyword::ANY,
    Keyword::ARRAY,
    Keyword::AS,
    Keyword::BETWEEN,
    Keyword::BY,
    Keyword::CASE,
    Keyword::DISTINCT,
    Keyword::ELSE,
    Keyword::ESCAPE,
    Keyword::EXCEPT,
    Keyword::FROM,
    Keyword::HAVING,
    Keyword::ILIKE,
    Keyword::IN,
    Keyword::INTERSECT,
    Keyword::IS,
    Keyword::JOIN,
    Keyword::LIKE,
    Keyword::LIMIT,
    Keyword::NOT,
    Keyword::OFFSET,
    Keyword::ON,
    Keyword::OR,
    Keyword::QUALIFY,
    Keyword::REGEXP,
    Keyword::RLIKE,
    Keyword::SELECT,
    Keyword::THEN,
    Keyword::TO,
    Keyword::UNION,
    Keyword::WHEN,
    Keyword::WHERE,
    Keyword::XOR,
];

/// Turns lines and characters into bytes, forwards only, so that a long text is walked once.
struct Walk<'a> {
    text: &'a str,
    at: usize,
    line: u64,
    column: u64,
}

impl Walk<'_> {
    fn byte(&mut self, to: Location) -> usize {
        for letter in self.text[self.at..].chars() {
            if (self.line, self.column) >= (to.line, to.column) {
                break;
            }
            self.at += letter.len_utf8();
            if letter == '\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        self.at
    }
}
