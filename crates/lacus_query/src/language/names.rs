//! The names of columns.

use std::ops::Range;

use datafusion::sql::sqlparser::ast::{Expr, Ident, SelectItem, SetExpr, Spanned, Statement};

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::source::bytes_of;

/// Names columns that the user gave no name after what the user wrote.
pub(crate) fn name_columns(statement: &mut Statement, text: &str) {
    let Statement::Query(query) = statement else { return };
    let SetExpr::Select(select) = &mut *query.body else { return };
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        if matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
            continue;
        }
        let written = written(expr, text).map_or_else(|| expr.to_string(), str::to_owned);
        let alias = Ident::with_quote('"', written);
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
    }
}

/// An expression as the user wrote it.
pub(crate) fn written<'a>(expr: &Expr, text: &'a str) -> Option<&'a str> {
    let written = text.get(closed(text, bytes_of(expr.span())))?.trim();
    (!written.is_empty()).then_some(written)
}

/// A name, in quotes if it needs them.
pub(crate) fn identifier(name: &str) -> Ident {
    let is_first = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    let is_plain = name.starts_with(is_first)
        && name.chars().all(|letter| is_first(letter) || letter.is_ascii_digit())
        && matches!(Token::make_word(name, None), Token::Word(word) if word.keyword == Keyword::NoKeyword);
    if is_plain { Ident::new(name) } else { Ident::with_quote('"', name) }
}

/// A piece of the text with the brackets that follow it and belong to it: spans of calls end with the last argument.
fn closed(text: &str, piece: Range<usize>) -> Range<usize> {
    let Some(written) = text.get(piece.clone()) else { return piece };
    let mut open = 0usize;
    let mut quote = None;
    for sign in written.chars() {
        match (quote, sign) {
            (Some(of), sign) => quote = (of != sign).then_some(of),
            (None, '\'' | '"') => quote = Some(sign),
            (None, '(' | '[') => open += 1,
            (None, ')' | ']') => open = open.saturating_sub(1),
            _ => {}
        }
    }
    let mut end = piece.end;
    for (at, sign) in text[piece.end..].char_indices() {
        match sign {
            _ if open == 0 => break,
            ')' | ']' => (open, end) = (open - 1, piece.end + at + 1),
            sign if sign.is_whitespace() => {}
            _ => break,
        }
    }
    piece.start..end
}
