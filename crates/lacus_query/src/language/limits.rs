//! How long and how deep a query may be, checked on its tokens: before a parser that calls itself sees them.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::source::{Source, bytes_of, is_word};
use crate::error::QueryError;

/// The longest text. Values belong into parameters, so queries are short.
const TEXT_BYTES: usize = 1 << 20;

/// How many parentheses, brackets and CASEs may be open at once. Each costs several calls of the parser and of the planner.
const DEPTH: usize = 128;

/// How many of these may be parentheses of FROM, for each of which the parser takes about 18 KB of the stack.
const TABLE_DEPTH: usize = 32;

/// How many tokens an expression may have without parentheses, commas, AND and OR. `a + b + c` becomes a tree as deep as it is
/// long, which is dropped by a function that calls itself; AND and OR become balanced trees.
const RUN_TOKENS: usize = 2000;

/// How many queries UNION, INTERSECT and EXCEPT may join, for the same reason.
const SET_OPERATIONS: usize = 128;

/// How deep the parser may call itself: a level of nesting is up to three of its calls.
pub(super) const PARSER_DEPTH: usize = 3 * DEPTH + 16;

/// Refuses a text that is too long.
pub(super) fn check_text(text: &str) -> Result<(), QueryError> {
    if text.len() > TEXT_BYTES {
        let why = format!(
            "the query has {} bytes, more than the {TEXT_BYTES} that are allowed; hand over long values as parameters",
            text.len()
        );
        return Err(QueryError::text(why));
    }
    Ok(())
}

/// Refuses tokens that are nested too deeply or joined by too many operators.
pub(super) fn check_tokens(source: &Source<'_>) -> Result<(), QueryError> {
    // One entry per open parenthesis: tokens since the last separator, and BETWEENs that wait for their AND.
    let mut runs = vec![(0_usize, 0_usize)];
    // For the same parentheses: whether a table or a query of FROM is inside. And whether one would be if the next token opened one.
    let (mut of_tables, mut is_table) = (vec![false], false);
    let (mut set_operations, mut prefixes) = (0, 0);
    for token in &source.tokens {
        let here = || bytes_of(token.span);
        let word = |word: &str| is_word(&token.token, word);
        let opens = matches!(token.token, Token::LParen | Token::LBracket | Token::LBrace) || word("CASE");
        let closes = matches!(token.token, Token::RParen | Token::RBracket | Token::RBrace) || word("END");
        // `- - x` and `NOT NOT x` nest, too.
        let is_prefix = matches!(token.token, Token::Minus | Token::Plus | Token::Tilde) || word("NOT");
        prefixes = if is_prefix { prefixes + 1 } else { 0 };
        if opens || prefixes > DEPTH {
            if runs.len() > DEPTH || prefixes > DEPTH {
                return Err(source.error(format!("more than {DEPTH} levels of nesting"), here()));
            }
            runs.push((0, 0));
            of_tables.push(is_table);
            if is_table && of_tables.iter().filter(|&&of| of).count() > TABLE_DEPTH {
                return Err(
                    source.error(format!("more than {TABLE_DEPTH} levels of nesting in FROM"), here())
                );
            }
        } else if closes && runs.len() > 1 {
            runs.pop();
            of_tables.pop();
        }
        is_table = word("FROM") || word("JOIN") || is_table && token.token == Token::LParen;
        set_operations += usize::from(word("UNION") || word("INTERSECT") || word("EXCEPT"));
        if set_operations > SET_OPERATIONS {
            let why = format!("more than {SET_OPERATIONS} queries joined by UNION, INTERSECT and EXCEPT");
            return Err(source.error(why, here()));
        }
        let Some((run, betweens)) = runs.last_mut() else { continue };
        if word("AND") && *betweens > 0 {
            *betweens -= 1;
        } else if token.token == Token::Comma || SEPARATORS.iter().any(|separator| word(separator)) {
            *run = 0;
        }
        *betweens += usize::from(word("BETWEEN"));
        *run += 1;
        if *run > RUN_TOKENS {
            let why =
                format!("an expression with more than {RUN_TOKENS} parts; use parentheses or parameters");
            return Err(source.error(why, here()));
        }
    }
    Ok(())
}

/// Words that end an expression, or join parts of one without making the tree deep.
const SEPARATORS: &[&str] =
    &["AND", "OR", "WHEN", "THEN", "ELSE", "SELECT", "FROM", "WHERE", "JOIN", "ON", "BY", "HAVING", "WITH"];
