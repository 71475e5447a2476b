//! What the planner handles, by name; everything else is refused.
//!
//! DataFusion drops parts of a statement that it does not know. So the structs of sqlparser are taken apart here without `..`: a field
//! that a newer sqlparser adds does not compile until somebody has decided about it.

use datafusion::sql::sqlparser::ast::{
    Cte, DuplicateTreatment, Expr, Function, FunctionArgumentClause, FunctionArguments, GroupByExpr, Join,
    JoinConstraint, JoinOperator, LimitClause, OrderBy, OrderByExpr, OrderByKind, Query, Select,
    SelectFlavor, SelectItem, SetExpr, SetOperator, TableAlias, TableFactor, TableFunctionArgs,
    WildcardAdditionalOptions, With,
};

use super::source::{Source, bytes_of};
use crate::error::QueryError;

/// Refuses a clause if it is there.
fn refuse(source: &Source<'_>, is_there: bool, clause: &str) -> Result<(), QueryError> {
    refuse_with(source, is_there, clause, "")
}

/// Refuses a clause if it is there, with a hint at what to write instead.
fn refuse_with(source: &Source<'_>, is_there: bool, clause: &str, hint: &str) -> Result<(), QueryError> {
    if is_there {
        return Err(source.error(format!("`{clause}` is not supported{hint}"), source.find(clause)));
    }
    Ok(())
}

/// Checks the parts of a query, but not what it consists of.
pub(super) fn check_query(source: &Source<'_>, query: &Query) -> Result<(), QueryError> {
    let Query {
        with,
        body: _,
        order_by,
        limit_clause,
        fetch,
        locks,
        for_clause,
        settings,
        format_clause,
        pipe_operators,
    } = query;
    if let Some(With { with_token: _, recursive: _, cte_tables }) = with {
        for Cte { alias, query: _, from, materialized, closing_paren_token: _ } in cte_tables {
            check_alias(source, Some(alias))?;
            refuse(source, from.is_some(), "FROM")?;
            refuse(source, materialized.is_some(), "MATERIALIZED")?;
        }
    }
    if let Some(OrderBy { kind, interpolate }) = order_by {
        refuse(source, interpolate.is_some(), "INTERPOLATE")?;
        if let OrderByKind::Expressions(keys) = kind {
            for OrderByExpr { expr: _, options: _, with_fill } in keys {
                refuse(source, with_fill.is_some(), "WITH FILL")?;
            }
        }
    }
    if let Some(LimitClause::LimitOffset { limit: _, offset: _, limit_by }) = limit_clause
        && let Some(first) = limit_by.first()
    {
        use datafusion::sql::sqlparser::ast::Spanned;
        return Err(source.error("`LIMIT … BY` is not supported", bytes_of(first.span())));
    }
    refuse_with(source, fetch.is_some(), "FETCH", "; write LIMIT")?;
    refuse_with(source, !locks.is_empty(), "FOR", ": queries only read, and see one state of the data")?;
    refuse(source, for_clause.is_some(), "FOR")?;
    refuse(source, settings.is_some(), "SETTINGS")?;
    refuse(source, format_clause.is_some(), "FORMAT")?;
    if !pipe_operators.is_empty() {
        let at = source.text.find("|>").unwrap_or(source.text.len());
        return Err(source.error("`|>` is not supported; write the clauses of SELECT", at..at + 2));
    }
    Ok(())
}

/// Checks what a query consists of.
pub(super) fn check_body(source: &Source<'_>, body: &SetExpr) -> Result<(), QueryError> {
    match body {
        SetExpr::Select(_) | SetExpr::Query(_) => Ok(()),
        SetExpr::Values(values) => refuse_with(source, values.value_keyword, "VALUE", "; write VALUES"),
        SetExpr::SetOperation { left: _, op, set_quantifier: _, right: _ } => {
            refuse_with(source, *op == SetOperator::Minus, "MINUS", "; write EXCEPT")
        }
        SetExpr::Insert(_) => refuse_with(source, true, "INSERT", READS),
        SetExpr::Update(_) => refuse_with(source, true, "UPDATE", READS),
        SetExpr::Delete(_) => refuse_with(source, true, "DELETE", READS),
        SetExpr::Merge(_) => refuse_with(source, true, "MERGE", READS),
        SetExpr::Table(_) => refuse_with(source, true, "TABLE", "; write SELECT * FROM"),
    }
}

const READS: &str =
    ": queries only read; write with the methods of a dataset, such as `ds.extend` and `ds.commit`";

/// Checks the parts of a SELECT, but not its tables and expressions.
pub(super) fn check_select(source: &Source<'_>, select: &Select) -> Result<(), QueryError> {
    let Select {
        select_token: _,
        optimizer_hints,
        distinct: _,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection,
        exclude,
        into,
        from: _,
        lateral_views,
        prewhere,
        selection: _,
        connect_by,
        group_by,
        cluster_by,
        distribute_by,
        sort_by,
        having: _,
        named_window: _,
        qualify: _,
        window_before_qualify: _,
        value_table_mode,
        flavor,
    } = select;
    if !optimizer_hints.is_empty() || select_modifiers.is_some() {
        return Err(source.error("hints and modifiers of SELECT are not supported", source.find("SELECT")));
    }
    refuse_with(source, top.is_some(), "TOP", "; write LIMIT at the end")?;
    refuse(source, exclude.is_some(), "EXCLUDE")?;
    refuse_with(source, into.is_some(), "INTO", READS)?;
    refuse_with(source, !lateral_views.is_empty(), "LATERAL VIEW", "; write `CROSS JOIN unnest(…)`")?;
    refuse_with(source, prewhere.is_some(), "PREWHERE", "; write WHERE")?;
    refuse(source, connect_by.iter().any(|part| part.to_string().starts_with("START")), "START WITH")?;
    refuse(source, !connect_by.is_empty(), "CONNECT BY")?;
    match group_by {
        GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers) => {
            if let Some(modifier) = modifiers.first() {
                let words = modifier.to_string();
                let hint = "; write GROUP BY ROLLUP (…), CUBE (…) or GROUPING SETS (…)";
                refuse_with(source, true, &words, hint)?;
            }
        }
    }
    refuse_with(source, !cluster_by.is_empty(), "CLUSTER BY", "; write ORDER BY")?;
    refuse(source, !distribute_by.is_empty(), "DISTRIBUTE BY")?;
    refuse_with(source, !sort_by.is_empty(), "SORT BY", "; write ORDER BY")?;
    refuse(source, value_table_mode.is_some(), "SELECT AS")?;
    match flavor {
        SelectFlavor::Standard | SelectFlavor::FromFirst | SelectFlavor::FromFirstNoSelect => {}
    }
    projection.iter().try_for_each(|item| check_item(source, item))
}

fn check_item(source: &Source<'_>, item: &SelectItem) -> Result<(), QueryError> {
    let options = match item {
        SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { expr: _, alias: _ } => return Ok(()),
        SelectItem::ExprWithAliases { expr: _, aliases } => {
            let place =
                aliases.first().map_or(source.text.len()..source.text.len(), |name| bytes_of(name.span));
            return Err(source.error("several names for one expression are not supported", place));
        }
        SelectItem::QualifiedWildcard(_, options) | SelectItem::Wildcard(options) => options,
    };
    let WildcardAdditionalOptions {
        wildcard_token,
        opt_ilike: _,
        opt_exclude: _,
        opt_except: _,
        opt_replace: _,
        opt_rename,
        opt_alias,
    } = options;
    refuse_with(source, opt_rename.is_some(), "RENAME", "; name the columns with AS")?;
    if opt_alias.is_some() {
        return Err(source.error("`*` cannot be given a name", bytes_of(wildcard_token.0.span)));
    }
    Ok(())
}

/// Checks a table, but not the queries and expressions in it.
pub(super) fn check_table(source: &Source<'_>, table: &TableFactor) -> Result<(), QueryError> {
    match table {
        TableFactor::Table {
            name: _,
            alias,
            args,
            with_hints,
            version: _,
            with_ordinality,
            partitions,
            json_path,
            sample,
            index_hints,
        } => {
            if let Some(TableFunctionArgs { args: _, settings }) = args {
                refuse(source, settings.is_some(), "SETTINGS")?;
            }
            refuse(source, !with_hints.is_empty(), "WITH")?;
            refuse(source, *with_ordinality, "WITH ORDINALITY")?;
            refuse(source, !partitions.is_empty(), "PARTITION")?;
            if json_path.is_some() {
                return Err(
                    source.error("a table has no subscript; write it behind a column", source.find("FROM"))
                );
            }
            refuse_sample(source, sample.is_some())?;
            refuse(source, !index_hints.is_empty(), "INDEX")?;
            check_alias(source, alias.as_ref())
        }
        TableFactor::Derived { lateral: _, subquery: _, alias, sample } => {
            refuse_sample(source, sample.is_some())?;
            check_alias(source, alias.as_ref())
        }
        TableFactor::Function { lateral: _, name: _, args: _, with_ordinality, alias } => {
            refuse(source, *with_ordinality, "WITH ORDINALITY")?;
            check_alias(source, alias.as_ref())
        }
        TableFactor::UNNEST { alias, array_exprs: _, with_offset, with_offset_alias, with_ordinality } => {
            refuse(source, *with_offset || with_offset_alias.is_some(), "WITH OFFSET")?;
            refuse(source, *with_ordinality, "WITH ORDINALITY")?;
            check_alias(source, alias.as_ref())
        }
        TableFactor::NestedJoin { table_with_joins: _, alias } => check_alias(source, alias.as_ref()),
        TableFactor::TableFunction { .. } => refuse(source, true, "TABLE"),
        TableFactor::Pivot { .. } => refuse(source, true, "PIVOT"),
        TableFactor::Unpivot { .. } => refuse(source, true, "UNPIVOT"),
        TableFactor::MatchRecognize { .. } => refuse(source, true, "MATCH_RECOGNIZE"),
        TableFactor::JsonTable { .. } => refuse(source, true, "JSON_TABLE"),
        TableFactor::OpenJsonTable { .. } => refuse(source, true, "OPENJSON"),
        TableFactor::XmlTable { .. } => refuse(source, true, "XMLTABLE"),
        TableFactor::SemanticView { .. } => refuse(source, true, "SEMANTIC_VIEW"),
    }
}

fn refuse_sample(source: &Source<'_>, is_there: bool) -> Result<(), QueryError> {
    let word = if source.find("TABLESAMPLE").start < source.text.len() { "TABLESAMPLE" } else { "SAMPLE" };
    refuse_with(source, is_there, word, "; write SAMPLE BY at the end of the query")
}

fn check_alias(source: &Source<'_>, alias: Option<&TableAlias>) -> Result<(), QueryError> {
    let Some(TableAlias { explicit: _, name: _, columns, at }) = alias else { return Ok(()) };
    if let Some(typed) = columns.iter().find(|column| column.data_type.is_some()) {
        return Err(source.error("types of columns are not supported here", bytes_of(typed.name.span)));
    }
    match at {
        Some(at) => Err(source.error("`AT` with a name is not supported", bytes_of(at.span))),
        None => Ok(()),
    }
}

/// Checks how a table is joined.
pub(super) fn check_join(source: &Source<'_>, join: &Join) -> Result<(), QueryError> {
    let Join { relation: _, global, join_operator } = join;
    refuse(source, *global, "GLOBAL")?;
    match join_operator {
        JoinOperator::Join(_)
        | JoinOperator::Inner(_)
        | JoinOperator::Left(_)
        | JoinOperator::LeftOuter(_)
        | JoinOperator::Right(_)
        | JoinOperator::RightOuter(_)
        | JoinOperator::FullOuter(_)
        | JoinOperator::LeftSemi(_)
        | JoinOperator::RightSemi(_)
        | JoinOperator::LeftAnti(_)
        | JoinOperator::RightAnti(_)
        | JoinOperator::CrossJoin(JoinConstraint::None) => Ok(()),
        JoinOperator::CrossJoin(_) => {
            Err(source.error("`CROSS JOIN` takes no condition; write JOIN", source.find("CROSS")))
        }
        JoinOperator::Semi(_) => refuse_with(source, true, "SEMI JOIN", "; write LEFT SEMI JOIN"),
        JoinOperator::Anti(_) => refuse_with(source, true, "ANTI JOIN", "; write LEFT ANTI JOIN"),
        JoinOperator::CrossApply => refuse_with(source, true, "CROSS APPLY", "; write CROSS JOIN LATERAL"),
        JoinOperator::OuterApply => refuse_with(source, true, "OUTER APPLY", "; write LEFT JOIN LATERAL"),
        JoinOperator::AsOf { .. } => refuse(source, true, "ASOF JOIN"),
        JoinOperator::StraightJoin(_) => refuse(source, true, "STRAIGHT_JOIN"),
        JoinOperator::ArrayJoin | JoinOperator::LeftArrayJoin | JoinOperator::InnerArrayJoin => {
            refuse_with(source, true, "ARRAY JOIN", "; write `CROSS JOIN unnest(…)`")
        }
    }
}

/// Checks an expression, but not its parts. What is no function the planner handles or refuses itself.
pub(super) fn check_expr(source: &Source<'_>, expr: &Expr) -> Result<(), QueryError> {
    let Expr::Function(function) = expr else { return Ok(()) };
    let Function { name, uses_odbc_syntax, parameters, args, filter, null_treatment, over, within_group } =
        function;
    let place = name.0.first().and_then(|part| part.as_ident()).map_or(0..0, |name| bytes_of(name.span));
    let error = |why: String| Err(source.error(why, place.clone()));
    if *uses_odbc_syntax {
        return error("`{fn …}` is not supported".into());
    }
    if *parameters != FunctionArguments::None {
        return error(format!("`{name}` takes one list of arguments"));
    }
    let mut special =
        filter.is_some() || null_treatment.is_some() || over.is_some() || !within_group.is_empty();
    match args {
        FunctionArguments::None => {}
        FunctionArguments::Subquery(_) => return error(format!("`{name}` of a query is not supported")),
        FunctionArguments::List(list) => {
            special |= list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
            for clause in &list.clauses {
                match clause {
                    FunctionArgumentClause::IgnoreOrRespectNulls(_) | FunctionArgumentClause::OrderBy(_) => {
                        special = true;
                    }
                    other => {
                        return error(format!("`{other}` in the arguments of `{name}` is not supported"));
                    }
                }
            }
        }
    }
    let known = name.to_string().to_ascii_lowercase();
    if special && !AGGREGATES.contains(&known.as_str()) {
        let why = format!(
            "`{name}` is computed per row: it takes no DISTINCT, ORDER BY, FILTER, OVER or treatment of NULLs"
        );
        return error(why);
    }
    Ok(())
}

/// Functions over several rows. The planner drops OVER, DISTINCT and the like from all others.
const AGGREGATES: &[&str] = &[
    "all",
    "any",
    "approx_distinct",
    "approx_median",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar",
    "covar_pop",
    "covar_samp",
    "cume_dist",
    "dense_rank",
    "first_value",
    "grouping",
    "lag",
    "last_value",
    "lead",
    "max",
    "mean",
    "median",
    "min",
    "nth_value",
    "ntile",
    "percent_rank",
    "percentile_cont",
    "prod",
    "quantile_cont",
    "rank",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "row_number",
    "std",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "sum",
    "var",
    "var_pop",
    "var_population",
    "var_samp",
    "var_sample",
];
