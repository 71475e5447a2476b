//! The names of columns.

use std::ops::Range;

use datafusion::sql::sqlparser::ast::{Expr, Ident, SelectItem, SetExpr, Spanned, Statement};

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::dialect::Language;
use super::source::{are_words, bytes_of, is_word, tokenise};

/// Names columns that the user gave no name after what the user wrote.
pub(crate) fn name_columns(statement: &mut Statement, text: &str) {
    let Statement::Query(query) = statement else { return };
    let SetExpr::Select(select) = &mut *query.body else { return };
    let items = items(text).filter(|items| items.len() == select.projection.len());
    for (place, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        if matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
            continue;
        }
        // Spans leave out signs before, and words behind: `-n`, `n IS NULL`.
        let whole = items.as_ref().map(|items| items[place].clone()).filter(|item| {
            let bytes = bytes_of(expr.span());
            item.start <= bytes.start && bytes.end <= item.end
        });
        let whole = whole.and_then(|item| text.get(item));
        let written = whole.or(written(expr, text)).map_or_else(|| expr.to_string(), str::to_owned);
        let alias = Ident::with_quote('"', written);
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
    }
}

/// Where the items of the outermost SELECT stand; `None` if it has none.
fn items(text: &str) -> Option<Vec<Range<usize>>> {
    let source = tokenise(text, &Language::default()).ok()?;
    let (mut depth, mut items, mut item) = (0usize, Vec::new(), None::<Range<usize>>);
    let mut is_inside = false;
    let mut before: Option<&Token> = None;
    for (at, TokenWithSpan { token, span }) in source.tokens.iter().enumerate() {
        let rest = &source.tokens[at..];
        let is = |word: &str| is_word(token, word);
        let follows = |word: &str| before.is_some_and(|before| is_word(before, word));
        if depth == 0 && !is_inside {
            is_inside = is("SELECT");
        } else if depth == 0 && item.is_none() && is_before_items(token, before) {
            // `DISTINCT ON (…)`
        } else if depth == 0 && is_inside {
            let ends = (is("FROM") && !follows("DISTINCT"))
                || (is("GROUP") && !follows("WITHIN"))
                || (is("EXCEPT") && before != Some(&Token::Mul))
                || ENDS.iter().any(|word| is_word(token, word))
                || ["ARRANGE", "SAMPLE", "EXPAND", "UNGROUP"]
                    .iter()
                    .any(|word| are_words(rest, &[*word, "BY"]))
                || *token == Token::SemiColon;
            if ends {
                break;
            }
            match token {
                Token::Comma => items.extend(item.take()),
                _ => {
                    let bytes = bytes_of(*span);
                    item = Some(item.map_or(bytes.clone(), |item| item.start..bytes.end));
                }
            }
        } else if is_inside && let Some(item) = &mut item {
            item.end = bytes_of(*span).end;
        }
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace => {
                depth = depth.saturating_sub(1);
                if depth == 0
                    && is_inside
                    && let Some(item) = &mut item
                {
                    item.end = bytes_of(*span).end;
                }
            }
            _ => {}
        }
        before = Some(token);
    }
    items.extend(item);
    (!items.is_empty()).then_some(items)
}

/// Whether a token still belongs to `SELECT ALL` or `SELECT DISTINCT ON (…)`.
fn is_before_items(token: &Token, before: Option<&Token>) -> bool {
    let follows = |word: &str| before.is_some_and(|before| is_word(before, word));
    let is_quantifier = (is_word(token, "DISTINCT") || is_word(token, "ALL")) && follows("SELECT");
    is_quantifier
        || (is_word(token, "ON") && follows("DISTINCT"))
        || (*token == Token::LParen && follows("ON"))
}

/// Words that end the items of a SELECT.
const ENDS: &[&str] = &[
    "INTO",
    "WHERE",
    "HAVING",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "FETCH",
    "UNION",
    "INTERSECT",
    "QUALIFY",
    "WINDOW",
];

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

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::name_columns;

    #[test]
    fn columns_are_named_as_they_are_written() {
        let check = |items: &str, names: &[&str]| {
            let text = format!("WITH w AS (SELECT 1, 2) SELECT {items} FROM t WHERE a IS DISTINCT FROM b");
            let mut statement = parse(&text, false).unwrap().statement;
            name_columns(&mut statement, &text);
            let found = statement.to_string();
            for name in names {
                assert!(found.contains(&format!(" AS \"{name}\"")), "{items}: {found}");
            }
            assert_eq!(found.matches(" AS \"").count(), names.len(), "{items}: {found}");
        };
        check("n, -n, n IS NULL, NOT (a)", &["-n", "n IS NULL", "NOT (a)"]);
        check("f(a, b) + 1, x[1:2, ::3], (a)", &["f(a, b) + 1", "x[1:2, ::3]", "(a)"]);
        check("DISTINCT a IS DISTINCT FROM b", &["a IS DISTINCT FROM b"]);
        check(
            "count(*) FILTER (WHERE a > 1), CASE WHEN a THEN 1 END",
            &["count(*) FILTER (WHERE a > 1)", "CASE WHEN a THEN 1 END"],
        );
        check("slice('x', :, 0), a AS b", &["slice('x', :, 0)"]);
    }
}
