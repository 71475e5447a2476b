//! The clauses that SQL does not have: cut out of the tokens before sqlparser reads the rest.
//!
//! ```text
//! SELECT … WHERE … [EXPAND BY before after] GROUP BY … [UNGROUP BY column, …] ORDER BY … [ARRANGE BY expr, …]
//!        [SAMPLE BY weight [REPLACE] [LIMIT n [PERCENT]] [SEED n]] LIMIT …
//! ```

use std::ops::Range;

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::dialect::Language;
use super::source::{Source, are_words, bytes_of, is_word};
use crate::error::QueryError;

/// Our clauses of a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Clauses {
    /// `ARRANGE BY`: rows with equal values stand together, in the order of their first appearance.
    pub(crate) arrange_by: Option<Clause<Vec<Expr>>>,
    /// `SAMPLE BY`: rows drawn by weight.
    pub(crate) sample_by: Option<Clause<SampleBy>>,
    /// `UNGROUP BY`: the columns whose sequences become rows.
    pub(crate) ungroup_by: Option<Clause<Vec<Expr>>>,
    /// `EXPAND BY`: neighbours of the rows found.
    pub(crate) expand_by: Option<Clause<ExpandBy>>,
}

/// A clause and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Clause<T> {
    pub(crate) value: T,
    pub(crate) bytes: Range<usize>,
}

/// How to draw rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SampleBy {
    /// The weight of a row.
    pub(crate) weight: Expr,
    /// Whether a row may be drawn more than once.
    pub(crate) replace: bool,
    /// How many to draw, or how many percent.
    pub(crate) limit: Option<Expr>,
    /// Whether the limit is in percent.
    pub(crate) percent: bool,
    /// Where chance begins.
    pub(crate) seed: Option<u64>,
    /// Whether the LIMIT of the query stands before this clause, and so is applied before it.
    pub(crate) after_limit: bool,
}

/// How many rows before and after.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExpandBy {
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// Clauses in the order in which they may stand; the flag says which are ours.
const ORDER: &[(&str, &[&str], usize, bool)] = &[
    ("SELECT", &["SELECT"], 0, false),
    ("FROM", &["FROM"], 1, false),
    ("WHERE", &["WHERE"], 2, false),
    ("EXPAND BY", &["EXPAND", "BY"], 3, true),
    ("GROUP BY", &["GROUP", "BY"], 4, false),
    ("HAVING", &["HAVING"], 5, false),
    ("WINDOW", &["WINDOW"], 5, false),
    ("QUALIFY", &["QUALIFY"], 5, false),
    ("UNGROUP BY", &["UNGROUP", "BY"], 6, true),
    ("ORDER BY", &["ORDER", "BY"], 7, false),
    ("ARRANGE BY", &["ARRANGE", "BY"], 8, true),
    ("SAMPLE BY", &["SAMPLE", "BY"], 9, true),
    ("LIMIT", &["LIMIT"], 9, false),
    ("OFFSET", &["OFFSET"], 9, false),
    ("FETCH", &["FETCH"], 9, false),
];

/// A clause of the outermost query: which one, and its tokens.
struct Found {
    name: &'static str,
    rank: usize,
    ours: bool,
    tokens: Range<usize>,
}

/// Takes our clauses out of the tokens of the outermost query.
pub(super) fn take_clauses(source: &mut Source<'_>, language: &Language) -> Result<Clauses, QueryError> {
    let mut clauses = Clauses::default();
    let found = find_clauses(source)?;
    if !found.iter().any(|clause| clause.ours) {
        return Ok(clauses);
    }
    check_order(source, &found)?;
    for (at, clause) in found.iter().enumerate().filter(|(_, clause)| clause.ours) {
        let tokens = &source.tokens[clause.tokens.clone()];
        let bytes = bytes_of(tokens[0].span).start..bytes_of(tokens[tokens.len() - 1].span).end;
        let mut parser = language.parser(tokens[2..].to_vec());
        let after_limit = found[..at].iter().any(|earlier| matches!(earlier.name, "LIMIT" | "OFFSET"));
        let read = read_clause(&mut parser, clause.name, after_limit, bytes.clone(), &mut clauses)
            .and_then(|()| parser.expect_token(&Token::EOF).map(drop));
        read.map_err(|error| match error {
            ParserError::ParserError(message) if !message.contains(" at Line: ") => {
                let why = format!("`{}` is incomplete", clause.name);
                source.error(why, bytes)
            }
            other => source.parser_error(other),
        })?;
    }
    let cut: Vec<Range<usize>> =
        found.into_iter().filter(|clause| clause.ours).map(|clause| clause.tokens).collect();
    let mut at = 0;
    source.tokens.retain(|_| {
        at += 1;
        !cut.iter().any(|range| range.contains(&(at - 1)))
    });
    Ok(clauses)
}

/// The clauses of the outermost query, with the tokens up to the next clause.
fn find_clauses(source: &Source<'_>) -> Result<Vec<Found>, QueryError> {
    let tokens = &source.tokens;
    let mut found: Vec<Found> = Vec::new();
    let (mut depth, mut set_operation) = (0_usize, None);
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace => depth = depth.saturating_sub(1),
            Token::SemiColon if depth == 0 => end_last(&mut found, at),
            _ => {}
        }
        if depth == 0 && ["UNION", "INTERSECT", "EXCEPT"].iter().any(|word| is_word(&token.token, word)) {
            set_operation.get_or_insert(at);
        }
        let Some((name, _, rank, ours)) = ORDER.iter().find(|(_, words, ..)| are_words(&tokens[at..], words))
        else {
            continue;
        };
        if depth > 0 {
            if *ours {
                let why = format!("`{name}` is only possible in the outermost query");
                return Err(source.error(why, bytes_of(token.span)));
            }
            continue;
        }
        // `IS DISTINCT FROM` is no clause, and the first LIMIT behind SAMPLE BY belongs to it.
        if *name == "FROM" && at > 0 && is_word(&tokens[at - 1].token, "DISTINCT") {
            continue;
        }
        if *name == "LIMIT"
            && let Some(Found { name: "SAMPLE BY", tokens: sample, .. }) = found.last()
            && !tokens[sample.start..at].iter().any(|token| is_word(&token.token, "LIMIT"))
        {
            continue;
        }
        end_last(&mut found, at);
        found.push(Found { name, rank: *rank, ours: *ours, tokens: at..tokens.len() });
    }
    if let (Some(_), Some(ours)) = (set_operation, found.iter().find(|clause| clause.ours)) {
        let why = format!("`{}` is not possible together with UNION, INTERSECT and EXCEPT", ours.name);
        return Err(source.error(why, bytes_of(tokens[ours.tokens.start].span)));
    }
    Ok(found)
}

fn end_last(found: &mut [Found], at: usize) {
    if let Some(last) = found.last_mut()
        && last.tokens.end > at
    {
        last.tokens.end = at;
    }
}

/// Refuses clauses of ours that stand twice, or where they do not belong.
fn check_order(source: &Source<'_>, found: &[Found]) -> Result<(), QueryError> {
    // Of each name, one that stands before tells as much as all do: a text may have very many.
    let mut seen: Vec<&Found> = Vec::new();
    for clause in found {
        for earlier in &seen {
            let why = if clause.ours && clause.name == earlier.name {
                format!("`{}` stands twice", clause.name)
            } else if (clause.ours || earlier.ours) && earlier.rank > clause.rank {
                format!("`{}` stands before `{}`", clause.name, earlier.name)
            } else {
                continue;
            };
            return Err(source.error(why, bytes_of(source.tokens[clause.tokens.start].span)));
        }
        if !seen.iter().any(|earlier| earlier.name == clause.name) {
            seen.push(clause);
        }
    }
    Ok(())
}

/// Reads one clause from the tokens behind its name.
fn read_clause(
    parser: &mut Parser<'_>,
    name: &str,
    after_limit: bool,
    bytes: Range<usize>,
    clauses: &mut Clauses,
) -> Result<(), ParserError> {
    match name {
        "ARRANGE BY" => {
            let value = parser.parse_comma_separated(Parser::parse_expr)?;
            clauses.arrange_by = Some(Clause { value, bytes });
        }
        "UNGROUP BY" => {
            let value = parser.parse_comma_separated(Parser::parse_expr)?;
            if value.iter().any(|one| !matches!(one, Expr::Identifier(_) | Expr::CompoundIdentifier(_))) {
                return parser.expected("the name of a column", first_token(parser));
            }
            clauses.ungroup_by = Some(Clause { value, bytes });
        }
        "EXPAND BY" => {
            let before = parser.parse_literal_uint()?;
            let _comma_is_optional = parser.consume_token(&Token::Comma);
            let after = parser.parse_literal_uint()?;
            clauses.expand_by = Some(Clause { value: ExpandBy { before, after }, bytes });
        }
        _ => {
            let weight = parser.parse_expr()?;
            let replace = take_word(parser, "REPLACE");
            let limit = if take_word(parser, "LIMIT") { Some(parser.parse_expr()?) } else { None };
            let percent = limit.is_some() && take_word(parser, "PERCENT");
            let seed = if take_word(parser, "SEED") { Some(parser.parse_literal_uint()?) } else { None };
            let value = SampleBy { weight, replace, limit, percent, seed, after_limit };
            clauses.sample_by = Some(Clause { value, bytes });
        }
    }
    Ok(())
}

fn first_token(parser: &Parser<'_>) -> TokenWithSpan {
    parser.token_at(0).clone()
}

fn take_word(parser: &mut Parser<'_>, word: &str) -> bool {
    let here = is_word(&parser.peek_token_ref().token, word);
    if here {
        parser.advance_token();
    }
    here
}

impl Clauses {
    /// All expressions in them.
    pub(crate) fn expressions(&mut self) -> impl Iterator<Item = &mut Expr> {
        let arrange = self.arrange_by.iter_mut().flat_map(|clause| &mut clause.value);
        let sample = self.sample_by.iter_mut().map(|clause| &mut clause.value);
        let sample = sample.flat_map(|sample| std::iter::once(&mut sample.weight).chain(&mut sample.limit));
        arrange.chain(sample).chain(self.ungroup_by.iter_mut().flat_map(|clause| &mut clause.value))
    }

    /// Whether the query has none of them.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Clauses::default()
    }
}
