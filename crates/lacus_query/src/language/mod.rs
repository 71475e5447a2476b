//! From the text of a query to a statement that is checked. No data is touched.
//!
//! ```text
//! text ─tokens→ limits ─signs, states→ tokens of SQL ─clauses→ the rest ─parser→ Query ─tables→ Parsed
//!                                                   └→ Clauses
//! ```
//!
//! The spans in the statement are byte offsets, see [`source`].

mod source;
mod limits;
mod signs;
mod states;
mod subscript;
mod slices;
mod weights;
mod tql;
mod dialect;
mod clauses;
mod handled;
mod tables;
mod identity;
mod names;
mod fold;
mod reductions;
#[cfg(test)]
mod tests;

pub(crate) use clauses::{Clause, Clauses, ExpandBy, SampleBy};
pub(crate) use fold::fold_constants;
pub(crate) use identity::{ID, ROW, WITH_ROWS, is_ours, mentions};
pub(crate) use names::{identifier, name_columns, written};
pub(crate) use reductions::{Reduction, reduction_names, resolve_reductions};
pub(crate) use signs::Parameter;
pub(crate) use slices::{Slice, names_of, slice_of, written_slice};
pub(crate) use source::bytes_of;
pub(crate) use states::At;
pub(crate) use subscript::call;
pub(crate) use tables::{TableRef, alias_of, table_named};

use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::error::QueryError;
use dialect::Language;
use source::{Source, bytes_of as bytes, is_word, tokenise};

/// A query that is read and checked.
#[derive(Clone, Debug)]
pub(crate) struct Parsed {
    /// The query, in words of SQL.
    pub(crate) statement: Statement,
    /// Whether its rows are wanted, or how they are found.
    pub(crate) kind: Kind,
    /// The datasets that it reads, once per place.
    pub(crate) tables: Vec<TableRef>,
    /// The clauses that SQL does not have.
    pub(crate) clauses: Clauses,
    /// The parameters, from left to right, once per place.
    pub(crate) parameters: Vec<Parameter>,
    /// What was parsed.
    pub(crate) text: String,
}

/// What is wanted of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Its rows.
    Query,
    /// Its plan.
    Explain {
        /// Whether to run it.
        analyze: bool,
        /// Whether to show all there is.
        verbose: bool,
    },
}

/// Bytes of stack that reading a query may take. The parser wants up to 100 KB for a level of FROM, where it is not optimised.
const STACK_BYTES: usize = 8 << 20;

/// Reads a query. With `default_dataset`, a SELECT without FROM reads `dataset`.
pub(crate) fn parse(text: &str, default_dataset: bool) -> Result<Parsed, QueryError> {
    stacker::maybe_grow(STACK_BYTES, STACK_BYTES, || read(text, default_dataset))
}

fn read(text: &str, default_dataset: bool) -> Result<Parsed, QueryError> {
    limits::check_text(text)?;
    let language = Language::default();
    let mut source = tokenise(text, &language)?;
    let kind = take_kind(&mut source)?;
    limits::check_tokens(&source)?;
    check_start(&source)?;
    let parameters = signs::read_signs(&mut source)?;
    states::read_states(&mut source)?;
    let mut clauses = clauses::take_clauses(&mut source, &language)?;

    let mut parser = language.parser(source.tokens.clone());
    let mut query = parser.parse_query().map_err(|error| source.parser_error(error))?;
    let mut ended = false;
    while parser.consume_token(&Token::SemiColon) {
        ended = true;
    }
    let next = parser.peek_token_ref();
    if next.token != Token::EOF {
        let why = if ended {
            "one query at a time".to_owned()
        } else {
            format!("expected the end of the query, found `{next}`")
        };
        return Err(source.error(why, bytes(next.span)));
    }
    let tables = tables::take_tables(&source, &mut query, clauses.expressions(), default_dataset)?;
    tql::read_names(&mut query);
    clauses.expressions().for_each(tql::read_names);
    identity::read_identity(&source, &mut query, clauses.expressions())?;
    Ok(Parsed {
        statement: Statement::Query(query),
        kind,
        tables,
        clauses,
        parameters,
        text: text.to_owned(),
    })
}

/// Takes `EXPLAIN [ANALYZE] [VERBOSE]` away.
fn take_kind(source: &mut Source<'_>) -> Result<Kind, QueryError> {
    if !source.tokens.first().is_some_and(|token| is_word(&token.token, "EXPLAIN")) {
        return Ok(Kind::Query);
    }
    let is = |at: usize, word| source.tokens.get(at).is_some_and(|token| is_word(&token.token, word));
    let (mut analyze, mut verbose, mut length) = (false, false, 1);
    loop {
        if is(length, "ANALYZE") && !analyze {
            analyze = true;
        } else if is(length, "VERBOSE") && !verbose {
            verbose = true;
        } else {
            break;
        }
        length += 1;
    }
    if is(length, "FORMAT") {
        return Err(source.error("`EXPLAIN FORMAT` is not supported", bytes(source.tokens[length].span)));
    }
    source.tokens.drain(..length);
    Ok(Kind::Explain { analyze, verbose })
}

/// Refuses what begins as no query does.
fn check_start(source: &Source<'_>) -> Result<(), QueryError> {
    let first = source.tokens.iter().find(|token| token.token != Token::SemiColon);
    let Some(first) = first else { return Err(QueryError::text("the query is empty")) };
    if first.token == Token::LParen
        || ["SELECT", "WITH", "FROM", "VALUES"].iter().any(|word| is_word(&first.token, word))
    {
        return Ok(());
    }
    let place = bytes(first.span);
    let found = first.token.to_string();
    let instead = WRITES.iter().find(|(words, _)| words.iter().any(|word| is_word(&first.token, word)));
    let why = match instead {
        Some((_, instead)) => {
            format!("queries only read: instead of {}, use {instead}", found.to_uppercase())
        }
        None => format!("a query begins with SELECT, WITH, FROM, VALUES or EXPLAIN, not with `{found}`"),
    };
    Err(source.error(why, place))
}

/// Statements that change something, and how that is done with Lacus.
const WRITES: &[(&[&str], &str)] = &[
    (&["INSERT", "COPY", "LOAD", "REPLACE"], "`ds.extend`, then `ds.commit`"),
    (&["UPDATE", "MERGE"], "`ds[\"column\"][rows] = values`, then `ds.commit`"),
    (&["DELETE", "TRUNCATE"], "`ds.delete_rows`, then `ds.commit`"),
    (&["CREATE", "ALTER", "DROP"], "the methods of a dataset, such as `ds.add_column`"),
    (&["BEGIN", "START", "COMMIT", "ROLLBACK"], "`ds.commit`"),
    (&["SET", "RESET", "USE", "PRAGMA"], "the arguments of the call"),
    (&["SHOW", "DESCRIBE", "DESC"], "`ds.summary`"),
    (
        &[
            "GRANT",
            "REVOKE",
            "CALL",
            "EXECUTE",
            "PREPARE",
            "DEALLOCATE",
            "VACUUM",
            "OPTIMIZE",
            "ANALYZE",
            "ATTACH",
            "DETACH",
        ],
        "the methods of a dataset",
    ),
];
