//! Our dialect: what sqlparser's `GenericDialect` reads of queries, with numpy's subscripts, weights and states of datasets.

use std::any::TypeId;
use std::cell::Cell;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::limits::PARSER_DEPTH;
use super::slices::parse_slice;
use super::subscript::parse_subscripts;
use super::weights::parse_weights;

/// How many expressions the parser may begin to read per token. It tries alternatives, which nest: a short text with a mistake deep
/// inside could keep it busy for years.
const EFFORT_PER_TOKEN: usize = 50;

/// What it may do for a short text.
const EFFORT: usize = 50_000;

/// The dialect; one per text, as it counts.
#[derive(Debug, Default)]
pub(super) struct Language {
    /// How many more expressions may be begun.
    effort: Cell<usize>,
}

impl Language {
    /// A parser of some tokens.
    pub(super) fn parser(&self, tokens: Vec<TokenWithSpan>) -> Parser<'_> {
        self.effort.set(EFFORT + EFFORT_PER_TOKEN * tokens.len());
        Parser::new(self).with_recursion_limit(PARSER_DEPTH).with_tokens_with_locations(tokens)
    }
}

macro_rules! yes {
    ($($ability:ident)*) => { $(fn $ability(&self) -> bool { true })* };
}

impl Dialect for Language {
    // Some abilities are no flags but questions for this type.
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, letter: char) -> bool {
        letter == '"' || letter == '`'
    }

    fn is_identifier_start(&self, letter: char) -> bool {
        letter.is_alphabetic() || letter == '_'
    }

    // Not `@`, which stands before a state.
    fn is_identifier_part(&self, letter: char) -> bool {
        letter.is_alphabetic() || letter.is_ascii_digit() || letter == '_' || letter == '$'
    }

    // What we refuse is read, too, so that it can be refused by name.
    yes! {
        supports_unicode_string_literal supports_group_by_expr supports_group_by_with_modifier
        supports_left_associative_joins_without_parens supports_connect_by supports_match_recognize supports_pipe_operator
        supports_window_function_null_treatment_arg supports_dictionary_syntax supports_window_clause_named_window_reference
        supports_select_wildcard_except support_map_literal_syntax allow_extract_custom allow_extract_single_quotes
        supports_extract_comma_syntax supports_parens_around_table_factor supports_values_as_table_factor
        supports_limit_comma supports_from_first_select supports_projection_trailing_commas supports_try_convert
        supports_bitwise_shift_operators supports_named_fn_args_with_assignment_operator supports_struct_literal
        supports_nested_comments supports_string_escape_constant supports_array_typedef_with_brackets
        supports_filter_during_aggregation supports_select_wildcard_exclude supports_interval_options
        supports_select_wildcard_replace supports_select_wildcard_ilike supports_select_wildcard_rename
        supports_prewhere supports_with_fill supports_limit_by supports_interpolate supports_settings
        supports_select_format supports_comma_separated_trim supports_select_item_multi_column_alias
        supports_array_join_syntax supports_table_versioning supports_dollar_placeholder supports_partiql supports_lambda_functions
        supports_order_by_all
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        // A colon separates the bounds of slices, and conditions from weights; it is no operator.
        matches!(parser.peek_token_ref().token, Token::Colon | Token::AtSign).then_some(Ok(0))
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let Some(effort) = self.effort.get().checked_sub(1) else {
            return Some(Err(ParserError::RecursionLimitExceeded));
        };
        self.effort.set(effort);
        parse_weights(parser).or_else(|| parse_slice(parser))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        match &parser.peek_token_ref().token {
            Token::LBracket => Some(parse_subscripts(parser, left)),
            Token::Word(word) => match word.keyword {
                Keyword::AND => {
                    Some(parse_chain(parser, left, precedence, Keyword::AND, BinaryOperator::And))
                }
                Keyword::OR => Some(parse_chain(parser, left, precedence, Keyword::OR, BinaryOperator::Or)),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Reads `a OR b OR c …` as a balanced tree, so that thousands of them are a few levels deep.
fn parse_chain(
    parser: &mut Parser<'_>,
    first: &Expr,
    precedence: u8,
    keyword: Keyword,
    operator: BinaryOperator,
) -> Result<Expr, ParserError> {
    let mut terms = vec![first.clone()];
    while parser.parse_keyword(keyword) {
        terms.push(parser.parse_subexpr(precedence)?);
    }
    while terms.len() > 1 {
        let mut pairs = Vec::with_capacity(terms.len().div_ceil(2));
        let mut rest = terms.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => {
                    Expr::BinaryOp { left: Box::new(left), op: operator.clone(), right: Box::new(right) }
                }
                None => left,
            });
        }
        terms = pairs;
    }
    terms.pop().ok_or_else(|| ParserError::ParserError("an expression without terms".into()))
}
