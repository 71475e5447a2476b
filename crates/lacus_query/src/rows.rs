//! Are the rows of an answer rows of a dataset? Then it is a view.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Query, Select, SelectItem,
    SetExpr, Statement, TableFactor, VisitMut, VisitorMut, WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::tokenizer::Span;
use lacus_dataset::View;

use crate::language::{BM25, ID, ROW, WITH_ROWS, call, identifier, is_ours, parse, text_of, written};
use crate::session::{Bound, quoted};

/// What a view that answers a question has for columns.
pub(crate) struct Chosen {
    /// The key of the table whose rows it has.
    pub table: String,
    /// The columns in order; `None` if they are those of the table.
    pub columns: Option<Vec<String>>,
    /// Those that are expressions.
    pub computed: BTreeMap<String, String>,
}

/// The columns of the view that answers a question, if a view does.
pub(crate) fn chosen(bound: &Bound) -> Option<Chosen> {
    if !is_chain(&bound.plan) {
        return None;
    }
    let select = select_of(&bound.statement)?;
    let (table, alias) = only_table(select)?;
    let opened = bound.table(&table)?;
    if let [SelectItem::Wildcard(options)] = &select.projection[..]
        && is_plain(options)
    {
        return Some(Chosen { table, columns: None, computed: BTreeMap::new() });
    }
    let of_table = |name: &str| opened.view.columns().iter().any(|known| known == name);
    let (mut columns, mut computed) = (Vec::new(), BTreeMap::new());
    let plain = |name: &str, columns: &mut Vec<String>| {
        columns.push(name.to_owned());
        opened.view.computed().get(name).map(|text| (name.to_owned(), text.clone()))
    };
    for (place, item) in select.projection.iter().enumerate() {
        let (expr, name) = match item {
            SelectItem::Wildcard(options) if is_plain(options) => {
                for name in opened.view.columns() {
                    computed.extend(plain(&name, &mut columns));
                }
                continue;
            }
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.value.as_str())),
            _ => return None,
        };
        let column = column_of(expr, &alias);
        match (column, name) {
            (Some(column), None) if of_table(column) => computed.extend(plain(column, &mut columns)),
            (Some(column), Some(name)) if column == name && of_table(column) => {
                computed.extend(plain(column, &mut columns));
            }
            (_, name) => {
                let name = name.map_or_else(|| expr.to_string(), str::to_owned);
                let text = expression(expr, &alias, &opened.view)?;
                let text = as_written(bound, place, expr, &text).unwrap_or(text);
                // An expression must not take the name of what others mean.
                if of_table(&name) {
                    return None;
                }
                columns.push(name.clone());
                computed.insert(name, text);
            }
        }
    }
    let mut seen = HashSet::new();
    if columns.is_empty() || !columns.iter().all(|name| seen.insert(name)) {
        return None;
    }
    Some(Chosen { table, columns: Some(columns), computed })
}

/// Whether each row of the plan is one row of its only table.
pub(crate) fn is_chain(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::SubqueryAlias(_) => plan.inputs().into_iter().all(is_chain),
        LogicalPlan::TableScan(_) => true,
        _ => false,
    }
}

fn select_of(statement: &Statement) -> Option<&Select> {
    let Statement::Query(query) = statement else { return None };
    match (&query.with, &*query.body) {
        (None, SetExpr::Select(select)) => Some(select),
        _ => None,
    }
}

/// The table of a SELECT that has one, and what it is called.
fn only_table(select: &Select) -> Option<(String, String)> {
    let [from] = &select.from[..] else { return None };
    let TableFactor::Table { name, alias, args: None, .. } = &from.relation else { return None };
    let is_grouped =
        !matches!(&select.group_by, GroupByExpr::Expressions(by, with) if by.is_empty() && with.is_empty());
    if !from.joins.is_empty() || is_grouped || select.distinct.is_some() || select.having.is_some() {
        return None;
    }
    let key = &name.0.last()?.as_ident()?.value;
    let key = key.strip_suffix(WITH_ROWS).unwrap_or(key).to_owned();
    let alias = alias.as_ref().map_or_else(|| key.clone(), |alias| alias.name.value.clone());
    Some((key, alias))
}

fn is_plain(options: &WildcardAdditionalOptions) -> bool {
    let plain =
        WildcardAdditionalOptions { wildcard_token: options.wildcard_token.clone(), ..Default::default() };
    let except = options.opt_except.clone().filter(|except| !is_ours(except));
    WildcardAdditionalOptions { opt_except: except, ..options.clone() } == plain
}

/// The column that an expression is.
fn column_of<'a>(expr: &'a Expr, table: &str) -> Option<&'a str> {
    match expr {
        Expr::Identifier(name) => Some(&name.value),
        Expr::CompoundIdentifier(parts) => match &parts[..] {
            [of, name] if of.value == table => Some(&name.value),
            _ => None,
        },
        _ => None,
    }
}

/// The text of an expression that can be asked of any view with the same columns.
fn expression(expr: &Expr, table: &str, view: &View) -> Option<String> {
    let mut expr = expr.clone();
    match expr.visit(&mut Unqualified { table, view }) {
        ControlFlow::Break(()) => None,
        ControlFlow::Continue(()) => Some(expr.to_string()),
    }
}

/// The text of an expression as the user wrote it, if it means the same in any view with the same columns.
fn as_written(bound: &Bound, place: usize, expr: &Expr, text: &str) -> Option<String> {
    let written = written(expr, &bound.parsed.text)?;
    let (found, asked) = (parsed(written)?, select_of(&bound.parsed.statement)?.projection.get(place)?);
    let (SelectItem::UnnamedExpr(asked) | SelectItem::ExprWithAlias { expr: asked, .. }) = asked else {
        return None;
    };
    // Names of tables, values of parameters and computed columns are written out, and so is all that was not understood as it is
    // written.
    let is_same = found.to_string() == asked.to_string() && parsed(text)?.to_string() == expr.to_string();
    is_same.then(|| written.to_owned())
}

/// Takes the name of the table off columns, and writes out those that are computed themselves.
struct Unqualified<'a> {
    table: &'a str,
    view: &'a View,
}

impl VisitorMut for Unqualified<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        // What a subquery reads is not part of the view.
        ControlFlow::Break(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(called) = called_bm25(expr) {
            *expr = called;
            return ControlFlow::Continue(());
        }
        let Some(name) = column_of(expr, self.table).map(str::to_owned) else {
            return match expr {
                Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            };
        };
        if name == ROW {
            // In the view that answers, rows have other places.
            return ControlFlow::Break(());
        }
        *expr = match self.view.computed().get(&name) {
            None if name == ID => call("row_id", Span::empty(), Vec::new()),
            None => Expr::Identifier(identifier(&name)),
            Some(text) => {
                let Some(inner) = parsed(text) else { return ControlFlow::Break(()) };
                Expr::Nested(Box::new(inner))
            }
        };
        ControlFlow::Continue(())
    }
}

/// The expression that a text is.
fn parsed(text: &str) -> Option<Expr> {
    let statement = parse(&format!("SELECT {text} FROM {}", quoted("t")), false).ok()?.statement;
    let select = select_of(&statement)?;
    let [SelectItem::UnnamedExpr(expr)] = &select.projection[..] else { return None };
    let mut expr = expr.clone();
    let _ = expr.visit(&mut Called);
    Some(expr)
}

/// Writes the id of a row as the call that it was.
struct Called;

impl VisitorMut for Called {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if column_of(expr, "t") == Some(ID) {
            *expr = call("row_id", Span::empty(), Vec::new());
        }
        if let Some(called) = called_bm25(expr) {
            *expr = called;
        }
        ControlFlow::Continue(())
    }
}

/// The call of `bm25` that became this expression.
fn called_bm25(expr: &Expr) -> Option<Expr> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else {
        return None;
    };
    if name.0.last()?.as_ident()?.value != BM25 {
        return None;
    }
    let arg = |at: usize| match list.args.get(at)? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    let column = Expr::Identifier(identifier(&text_of(&arg(0)?)?));
    Some(call("bm25", Span::empty(), vec![column, arg(1)?]))
}
