//! `sum`, `mean`, `max` and their like: over the rows if the argument is a plain column, over the elements of each row if it is a tensor.
//!
//! ```text
//! max(label)             →  max(label)                 an aggregate
//! max(image)             →  tensor_max(image)          one number per row
//! max(image, 0)          →  tensor_max(image, 0)
//! max(mean(image))       →  max(tensor_mean(image))    the largest mean of all rows
//! any(mask > 2)          →  tensor_any(mask > 2)
//! NOT (mask > 2)         →  tensor_not((mask > 2))
//! std(label)             →  stddev(label)
//! ```
//!
//! Names alone tell a lot but not all: `image[0, 0, 0]` is a number. The caller, who sees types, asks again with the numbers of the
//! calls that are aggregates after all.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::{ControlFlow, Range};

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, ObjectNamePart, OrderBy, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    Spanned, Statement, Subscript, TableAlias, TableFactor, TableWithJoins, UnaryOperator, Value, VisitMut,
    VisitorMut,
};

use super::source::bytes_of;
use super::subscript::call;

/// A call that is an aggregate or a function of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reduction {
    /// Counted from 0 in the order of the text.
    pub(crate) number: usize,
    /// The name, in lower case, as the user wrote it.
    pub(crate) name: String,
    /// Whether it was taken for a function of a tensor.
    pub(crate) of_tensor: bool,
    /// Where the name stands.
    pub(crate) bytes: Range<usize>,
}

/// The reductions, with the aggregates that compute them over rows, and the functions that do over elements.
const REDUCTIONS: &[(&str, &str, &str)] = &[
    ("sum", "sum", "tensor_sum"),
    ("mean", "avg", "tensor_mean"),
    ("avg", "avg", "tensor_mean"),
    ("std", "stddev", "tensor_std"),
    ("var", "var", "tensor_var"),
    ("min", "min", "tensor_min"),
    ("amin", "min", "tensor_min"),
    ("max", "max", "tensor_max"),
    ("amax", "max", "tensor_max"),
    ("prod", "prod", "tensor_prod"),
    ("any", "bool_or", "tensor_any"),
    ("all", "bool_and", "tensor_all"),
];

/// The names of all reductions.
pub(crate) fn reduction_names() -> impl Iterator<Item = String> {
    REDUCTIONS.iter().map(|(name, ..)| (*name).to_owned())
}

/// Functions that make plain values of tensors.
const PLAIN: &[&str] = &[
    "argmax",
    "argmin",
    "array_length",
    "bool_and",
    "bool_or",
    "box_area",
    "bytes",
    "cardinality",
    "channels",
    "class_id",
    "class_name",
    "codec",
    "contains",
    "cosine_similarity",
    "count",
    "count_nonzero",
    "dot",
    "dtype",
    "duration",
    "frames",
    "hamming",
    "hamming_distance",
    "height",
    "inner_product",
    "iou",
    "l1",
    "l1_distance",
    "l1_norm",
    "l2",
    "l2_distance",
    "l2_norm",
    "length",
    "linf",
    "linf_distance",
    "linf_norm",
    "ndim",
    "nonzero",
    "norm",
    "row_number",
    "size",
    "stddev",
    "width",
];

/// Names each reduction after what it is over. `is_tensor` says which columns of the datasets are tensors (or media files),
/// `is_plain` which of the caller's functions return plain values; `keep_plain` has the numbers of calls that are aggregates whatever their arguments look like. To ask again, begin with the
/// statement as it was parsed.
pub(crate) fn resolve_reductions(
    statement: &mut Statement,
    is_tensor: &dyn Fn(&str) -> bool,
    is_plain: &dyn Fn(&str) -> bool,
    keep_plain: &HashSet<usize>,
) -> Vec<Reduction> {
    let mut count = Count(BTreeMap::new());
    let _ = statement.visit(&mut count);
    let numbers = count.0.keys().enumerate().map(|(number, at)| (*at, number)).collect();
    let mut resolver = Resolver { is_tensor, is_plain, keep_plain, numbers, found: Vec::new() };
    if let Statement::Query(query) = statement {
        resolver.query(query, &Names::default(), &HashMap::new());
    }
    let mut found = resolver.found;
    found.sort_by_key(|reduction| reduction.number);
    found
}

/// Where the calls stand that may be either.
struct Count(BTreeMap<usize, ()>);

impl VisitorMut for Count {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && let Some((_, name)) = reduction(function)
            && is_open(function)
        {
            self.0.insert(bytes_of(name.span).start, ());
        }
        ControlFlow::Continue(())
    }
}

/// The reduction that a call names, and the name.
fn reduction(function: &Function) -> Option<(&'static (&'static str, &'static str, &'static str), &Ident)> {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    let known = REDUCTIONS.iter().find(|(known, ..)| name.value.eq_ignore_ascii_case(known))?;
    Some((known, name))
}

/// Whether a call has none of the parts that only aggregates have.
fn is_open(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    function.over.is_none()
        && function.filter.is_none()
        && function.null_treatment.is_none()
        && function.within_group.is_empty()
        && list.duplicate_treatment.is_none()
        && list.clauses.is_empty()
}

fn arguments(function: &Function) -> impl Iterator<Item = &Expr> {
    let list = match &function.args {
        FunctionArguments::List(list) => list.args.as_slice(),
        FunctionArguments::None | FunctionArguments::Subquery(_) => &[],
    };
    list.iter().filter_map(|argument| match argument {
        FunctionArg::Named { arg: FunctionArgExpr::Expr(expr), .. }
        | FunctionArg::ExprNamed { arg: FunctionArgExpr::Expr(expr), .. }
        | FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    })
}

/// What a table of FROM has for columns.
#[derive(Clone, Debug)]
enum Columns {
    /// Those of a dataset.
    Dataset,
    /// Those of a query: by name whether they are tensors, and what `*` stands for.
    Query { named: Vec<(String, bool)>, rest: Vec<Columns> },
}

/// The tables that an expression may name columns of; outer queries come last.
#[derive(Clone, Debug, Default)]
struct Names {
    tables: Vec<(Option<String>, Columns)>,
    /// Names given in SELECT, which ORDER BY and HAVING may use.
    aliases: Vec<(String, bool)>,
}

type Withs = HashMap<String, Columns>;

struct Resolver<'a> {
    is_tensor: &'a dyn Fn(&str) -> bool,
    is_plain: &'a dyn Fn(&str) -> bool,
    keep_plain: &'a HashSet<usize>,
    numbers: HashMap<usize, usize>,
    found: Vec<Reduction>,
}

impl Resolver<'_> {
    /// Renames what is in a query, and says which of its columns are tensors.
    fn query(&mut self, query: &mut Query, outer: &Names, withs: &Withs) -> Columns {
        let mut withs = withs.clone();
        if let Some(with) = &mut query.with {
            for cte in &mut with.cte_tables {
                let columns = self.query(&mut cte.query, &Names::default(), &withs);
                withs.insert(cte.alias.name.value.clone(), renamed(columns, Some(&cte.alias)));
            }
        }
        self.body(&mut query.body, outer, &withs, &mut query.order_by)
    }

    fn body(
        &mut self,
        body: &mut SetExpr,
        outer: &Names,
        withs: &Withs,
        order_by: &mut Option<OrderBy>,
    ) -> Columns {
        match body {
            SetExpr::Select(select) => self.select(select, outer, withs, order_by),
            SetExpr::Query(query) => self.query(query, outer, withs),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(right, outer, withs, &mut None);
                self.body(left, outer, withs, order_by)
            }
            _ => Columns::Query { named: Vec::new(), rest: Vec::new() },
        }
    }

    fn select(
        &mut self,
        select: &mut Select,
        outer: &Names,
        withs: &Withs,
        order_by: &mut Option<OrderBy>,
    ) -> Columns {
        let mut names = Names::default();
        for table in &mut select.from {
            self.joined(table, &mut names, outer, withs);
        }
        let own = names.tables.clone();
        names.tables.extend(outer.tables.iter().cloned());
        names.aliases.clone_from(&outer.aliases);
        for table in &mut select.from {
            for join in &mut table.joins {
                self.expressions(&mut join.join_operator, &names, withs);
            }
        }
        let columns = self.columns(select, &own, &names);
        self.expressions(&mut select.projection, &names, withs);
        self.expressions(&mut select.selection, &names, withs);
        if let Columns::Query { named, .. } = &columns {
            names.aliases.splice(0..0, named.iter().cloned());
        }
        self.expressions(&mut select.distinct, &names, withs);
        self.expressions(&mut select.group_by, &names, withs);
        self.expressions(&mut select.having, &names, withs);
        self.expressions(&mut select.named_window, &names, withs);
        self.expressions(&mut select.qualify, &names, withs);
        self.expressions(order_by, &names, withs);
        columns
    }

    fn joined(&mut self, table: &mut TableWithJoins, names: &mut Names, outer: &Names, withs: &Withs) {
        let joined = table.joins.iter_mut().map(|join| &mut join.relation);
        for relation in std::iter::once(&mut table.relation).chain(joined) {
            match relation {
                TableFactor::Table { name, alias, args: None, .. } => {
                    let name = name.0.last().and_then(|part| part.as_ident()).map(|name| name.value.clone());
                    let columns =
                        name.as_ref().and_then(|name| withs.get(name)).cloned().unwrap_or(Columns::Dataset);
                    let known_as = alias.as_ref().map(|alias| alias.name.value.clone()).or(name);
                    names.tables.push((known_as, renamed(columns, alias.as_ref())));
                }
                TableFactor::Derived { lateral, subquery, alias, .. } => {
                    let visible = if *lateral { &*names } else { outer };
                    let columns = self.query(subquery, &visible.clone(), withs);
                    let known_as = alias.as_ref().map(|alias| alias.name.value.clone());
                    names.tables.push((known_as, renamed(columns, alias.as_ref())));
                }
                TableFactor::NestedJoin { table_with_joins, .. } => {
                    self.joined(table_with_joins, names, outer, withs);
                }
                other => {
                    let visible = names.clone();
                    self.expressions(other, &visible, withs);
                }
            }
        }
    }

    /// What the items of a SELECT are.
    fn columns(&self, select: &Select, own: &[(Option<String>, Columns)], names: &Names) -> Columns {
        let (mut named, mut rest) = (Vec::new(), Vec::new());
        for item in &select.projection {
            match item {
                SelectItem::ExprWithAlias { expr, alias } => {
                    named.push((alias.value.clone(), self.is_tensor_valued(expr, names)));
                }
                SelectItem::UnnamedExpr(expr) => {
                    let name = match expr {
                        Expr::Identifier(name) => name.value.clone(),
                        Expr::CompoundIdentifier(parts) => {
                            parts.last().map(|name| name.value.clone()).unwrap_or_default()
                        }
                        other => other.to_string(),
                    };
                    named.push((name, self.is_tensor_valued(expr, names)));
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), _) => {
                    let table =
                        table.0.last().and_then(|part| part.as_ident()).map(|name| name.value.clone());
                    rest.extend(
                        own.iter().filter(|(name, _)| *name == table).map(|(_, columns)| columns.clone()),
                    );
                }
                SelectItem::Wildcard(_) => rest.extend(own.iter().map(|(_, columns)| columns.clone())),
                SelectItem::QualifiedWildcard(..) | SelectItem::ExprWithAliases { .. } => {}
            }
        }
        Columns::Query { named, rest }
    }

    fn expressions(&mut self, part: &mut impl VisitMut, names: &Names, withs: &Withs) {
        let _ = part.visit(&mut Expressions { resolver: self, names, withs, depth: 0 });
    }

    /// Renames a call, if it is a reduction.
    fn call(&mut self, function: &mut Function, names: &Names) {
        let Some(((name, aggregate, of_elements), ident)) = reduction(function) else { return };
        let (span, bytes) = (ident.span, bytes_of(ident.span));
        let number = self.numbers.get(&bytes.start).copied().filter(|_| is_open(function));
        let over_elements = arguments(function).count() > 1
            || arguments(function).next().is_some_and(|argument| self.is_tensor_valued(argument, names));
        let of_tensor = number.is_some_and(|number| over_elements && !self.keep_plain.contains(&number));
        let renamed = if of_tensor { of_elements } else { aggregate };
        function.name = ObjectName::from(vec![Ident::with_span(span, *renamed)]);
        if let Some(number) = number {
            self.found.push(Reduction { number, name: (*name).to_owned(), of_tensor, bytes });
        }
    }

    /// Signs, NOT and BETWEEN of tensors as functions: SQL has them for plain values alone. The functions take plain values,
    /// too, so that it does no harm where names promised a tensor and there is none.
    fn operator(&self, expr: &mut Expr, names: &Names) {
        if !matches!(expr, Expr::UnaryOp { .. } | Expr::Between { .. }) || !self.is_tensor_valued(expr, names)
        {
            return;
        }
        let span = expr.span();
        let owned = std::mem::replace(expr, Expr::value(Value::Null));
        *expr = match owned {
            Expr::UnaryOp { op: UnaryOperator::Plus, expr } => Expr::Nested(expr),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => call("tensor_negative", span, vec![*expr]),
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => call("tensor_not", span, vec![*expr]),
            Expr::Between { expr, negated, low, high } => {
                let compared = |op, bound| Expr::BinaryOp { left: expr.clone(), op, right: bound };
                let (above, below) =
                    (compared(BinaryOperator::GtEq, low), compared(BinaryOperator::LtEq, high));
                let between =
                    Expr::BinaryOp { left: Box::new(above), op: BinaryOperator::And, right: Box::new(below) };
                match negated {
                    true => call("tensor_not", span, vec![between]),
                    false => Expr::Nested(Box::new(between)),
                }
            }
            other => other,
        };
    }

    fn is_tensor_column(&self, table: Option<&str>, name: &str, names: &Names) -> bool {
        if table.is_none()
            && let Some((_, is_tensor)) = names.aliases.iter().find(|(alias, _)| alias == name)
        {
            return *is_tensor;
        }
        let known = |known_as: &Option<String>| table.is_none() || known_as.as_deref() == table;
        let mut tables = names.tables.iter().filter(|(known_as, _)| known(known_as));
        match tables.clone().next() {
            Some(_) => tables.any(|(_, columns)| self.has_tensor(columns, name)),
            // The table may be a struct with a field of that name.
            None => table.is_some_and(|column| self.is_tensor_column(None, column, names)),
        }
    }

    fn has_tensor(&self, columns: &Columns, name: &str) -> bool {
        match columns {
            Columns::Dataset => (self.is_tensor)(name),
            Columns::Query { named, rest } => match named.iter().find(|(known, _)| known == name) {
                Some((_, is_tensor)) => *is_tensor,
                None => rest.iter().any(|columns| self.has_tensor(columns, name)),
            },
        }
    }

    /// Whether an expression is a tensor, as far as names tell.
    fn is_tensor_valued(&self, expr: &Expr, names: &Names) -> bool {
        let is = |expr: &Expr| self.is_tensor_valued(expr, names);
        match expr {
            Expr::Identifier(name) => self.is_tensor_column(None, &name.value, names),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., table, name] => self.is_tensor_column(Some(&table.value), &name.value, names),
                [name] => self.is_tensor_column(None, &name.value, names),
                [] => false,
            },
            // An element of a shape is a number; other tensors may have more axes.
            Expr::CompoundFieldAccess { root, access_chain } => {
                let of_shape = matches!(&**root, Expr::Function(function) if is_named(function, "shape"));
                let index =
                    matches!(access_chain.as_slice(), [AccessExpr::Subscript(Subscript::Index { .. })]);
                !(of_shape && index) && is(root)
            }
            Expr::Function(function) if reduction(function).is_some() => arguments(function).count() > 1,
            Expr::Function(function) if is_named(function, "slice") => true,
            Expr::Function(function) if is_named(function, "subscript") => {
                arguments(function).next().is_some_and(is)
            }
            Expr::Function(function) => {
                let name = function.name.0.last().and_then(ObjectNamePart::as_ident);
                let plain = PLAIN.iter().any(|plain| is_named(function, plain))
                    || name.is_some_and(|name| (self.is_plain)(&name.value));
                !plain && arguments(function).any(is)
            }
            Expr::BinaryOp { left, right, .. }
            | Expr::IsDistinctFrom(left, right)
            | Expr::IsNotDistinctFrom(left, right) => is(left) || is(right),
            Expr::UnaryOp { expr, .. }
            | Expr::Nested(expr)
            | Expr::Cast { expr, .. }
            | Expr::Ceil { expr, .. }
            | Expr::Floor { expr, .. }
            | Expr::InList { expr, .. } => is(expr),
            Expr::Between { expr, low, high, .. } => is(expr) || is(low) || is(high),
            Expr::Case { conditions, else_result, .. } => {
                conditions.iter().any(|when| is(&when.result)) || else_result.as_deref().is_some_and(is)
            }
            Expr::Array(array) => array.elem.iter().any(is),
            _ => false,
        }
    }
}

fn is_named(function: &Function, name: &str) -> bool {
    matches!(function.name.0.as_slice(), [ObjectNamePart::Identifier(ident)] if ident.value.eq_ignore_ascii_case(name))
}

/// Columns under the names that an alias gives them.
fn renamed(columns: Columns, alias: Option<&TableAlias>) -> Columns {
    match (columns, alias) {
        (Columns::Query { mut named, rest }, Some(alias)) if rest.is_empty() => {
            for ((name, _), column) in named.iter_mut().zip(&alias.columns) {
                name.clone_from(&column.name.value);
            }
            Columns::Query { named, rest }
        }
        (columns, _) => columns,
    }
}

/// Walks through expressions; queries in them are handed back to the resolver.
struct Expressions<'r, 'a> {
    resolver: &'r mut Resolver<'a>,
    names: &'r Names,
    withs: &'r Withs,
    depth: usize,
}

impl VisitorMut for Expressions<'_, '_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if self.depth == 0 {
            self.resolver.query(query, self.names, self.withs);
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0 {
            self.resolver.operator(expr, self.names);
            if let Expr::Function(function) = expr {
                self.resolver.call(function, self.names);
            }
        }
        ControlFlow::Continue(())
    }
}
