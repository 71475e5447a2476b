//! Late columns: a plan that reads every column in its scans becomes one that reads wide columns where their values are needed.
//!
//! ```text
//!            Limit                       Fetch + Projection        what the user asked for, of a few rows
//!              │                                │
//!   Projection: mean(image), label           Limit                 label, place │ late: mean(image)
//!              │                 ──→            │
//!        Filter: label = 3               Filter: label = 3         label, place │ late: mean(image)
//!              │                                │
//!     Scan: image, label                Scan: label, place         label, place │ late: image
//! ```
//!
//! Every node of the plan is rebuilt bottom up. Beside its real columns it has late ones: expressions over wide columns, which are named
//! by the scan they are of, and over real columns. A node that needs a late value gets it from a [`Fetch`] below it; all
//! others hand it on. What is not late is left as the optimizer made it.
//!
//! Calls of the caller's own functions are late, too: they are dear, so they are made for rows that are left, and once for each use. Here
//! they get the place of their row, which their errors name.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, Result};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, EmptyRelation, Expr, Extension, Filter, Join, LogicalPlan, Projection, Sort, SortExpr,
    SubqueryAlias, TableScan, TableScanBuilder, Window, lit, when,
};

use crate::calls::{has_call, with_row};
use crate::cells::Cells;
use crate::nearest::{NearestRows, sought};
use crate::source::{PLACE, Source};
use crate::values::{Scans, all_columns, project, unqualified};
use crate::wanted::{any_wanted, place_name, scan_of, wide};

/// A plan that gives the same rows, and reads wide columns late. With `in_order`, rows come in the order of the view unless
/// the plan sorts them.
pub(crate) fn read_late(plan: LogicalPlan, in_order: bool, reads_all: bool) -> Result<LogicalPlan> {
    let mut rewriter = Rewriter::new(&plan, in_order, reads_all)?;
    let schema = Arc::clone(plan.schema());
    let mut node = rewriter.node(plan)?;
    if in_order
        && !node.is_ordered
        && let Some(place) = node.main.clone()
    {
        node = ordered_by(node, vec![unqualified(&place).sort(true, true)], None);
    }
    rewriter.forced(node, &schema)
}

/// A plan that gives the places of the rows that a plan gives, instead of its columns; and whether they are in the order that
/// was asked for. Without an order, they are to be put into that of the view.
pub(crate) fn places_only(plan: LogicalPlan, reads_all: bool) -> Result<Option<(LogicalPlan, bool)>> {
    let mut rewriter = Rewriter::new(&plan, true, reads_all)?;
    let node = rewriter.node(plan)?;
    let Some(place) = node.main else { return Ok(None) };
    let projected = project(vec![unqualified(&place)], node.plan)?;
    Ok(Some((projected, node.is_ordered)))
}

struct Rewriter {
    scans: Scans,
    /// Whether the places of the rows of the first scan are asked for.
    with_rows: bool,
    /// Whether no column is late.
    reads_all: bool,
    /// Whether functions of the caller's are called.
    has_calls: bool,
}

/// A node of the plan.
struct Node {
    plan: LogicalPlan,
    /// Columns that the plan should have and has not, with how to compute them.
    late: Vec<(Column, Expr)>,
    /// The column of the plan that has the places of the rows of the first scan.
    main: Option<String>,
    /// The same, where each row is one row of that scan and of no other: what calls are told of their row.
    row: Option<String>,
    is_ordered: bool,
}

impl Node {
    fn real(plan: LogicalPlan) -> Node {
        Node { plan, late: Vec::new(), main: None, row: None, is_ordered: false }
    }

    fn expression(&self, column: &Column) -> Option<&Expr> {
        self.late.iter().find(|(late, _)| late == column).map(|(_, expression)| expression)
    }

    /// Whether a late column is used, or a function called that is told of its row.
    fn is_late(&self, expr: &Expr) -> Result<bool> {
        if self.row.is_some() && has_call(expr)? {
            return Ok(true);
        }
        if self.late.is_empty() {
            return Ok(false);
        }
        expr.exists(|expr| Ok(matches!(expr, Expr::Column(column) if self.expression(column).is_some())))
    }

    /// An expression with late columns written out, whose calls are told of their row.
    fn written_out(&self, expr: Expr) -> Result<Expr> {
        let replaced = expr.transform_down(|expr| match &expr {
            Expr::Column(column) => match self.expression(column) {
                Some(late) => Ok(Transformed::new(late.clone(), true, TreeNodeRecursion::Jump)),
                None => Ok(Transformed::no(expr)),
            },
            _ => Ok(Transformed::no(expr)),
        })?;
        match &self.row {
            Some(row) => with_row(replaced.data, &unqualified(row)),
            None => Ok(replaced.data),
        }
    }

    /// Columns that nobody sees and that late ones need.
    fn hidden(&self) -> Result<Vec<Expr>> {
        let mut names: BTreeSet<String> = self.main.iter().cloned().collect();
        for (_, expr) in &self.late {
            names.extend(hidden_of(expr)?);
        }
        Ok(names.iter().map(|name| unqualified(name)).collect())
    }
}

/// The hidden columns that an expression needs: places of wide columns, and what was carried along.
fn hidden_of(expr: &Expr) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    expr.apply(|expr| {
        if let Expr::Column(column) = expr {
            match scan_of(column) {
                Some(scan) => names.insert(place_name(scan)),
                None if column.relation.is_none() && column.name.starts_with('\u{1}') => {
                    names.insert(column.name.clone())
                }
                None => false,
            };
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(names)
}

impl Rewriter {
    fn new(plan: &LogicalPlan, with_rows: bool, reads_all: bool) -> Result<Rewriter> {
        let mut has_calls = false;
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                has_calls |= has_call(expr)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(Rewriter { scans: Scans::default(), with_rows, reads_all, has_calls })
    }

    fn node(&mut self, plan: LogicalPlan) -> Result<Node> {
        let plan = plan
            .map_subqueries(|plan| {
                // The rows of a subquery are nobody's answer.
                let with_rows = std::mem::replace(&mut self.with_rows, false);
                let schema = Arc::clone(plan.schema());
                let node = self.node(plan)?;
                self.with_rows = with_rows;
                self.forced(node, &schema).map(Transformed::yes)
            })?
            .data;
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::SubqueryAlias(alias) => self.alias(alias),
            LogicalPlan::Filter(filter) => self.filter(filter),
            LogicalPlan::Sort(sort) => self.sort(sort),
            LogicalPlan::Limit(mut limit) => {
                let mut node = self.node(Arc::unwrap_or_clone(limit.input))?;
                if self.with_rows
                    && !node.is_ordered
                    && let Some(place) = node.main.clone()
                {
                    // The first rows are the first of the view.
                    node = ordered_by(node, vec![unqualified(&place).sort(true, true)], None);
                }
                limit.input = Arc::new(node.plan);
                Ok(Node { plan: LogicalPlan::Limit(limit), ..node })
            }
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::EmptyRelation(empty) if self.with_rows && !empty.produce_one_row => {
                self.no_rows(&empty.schema)
            }
            LogicalPlan::Aggregate(aggregate) => {
                let Aggregate { input, group_expr, aggr_expr, .. } = aggregate;
                let node = self.node_aside(input)?;
                let groups = group_expr.len();
                let counts =
                    aggr_expr.into_iter().map(|expr| counted(expr, &node)).collect::<Result<Vec<_>>>()?;
                let all = group_expr.into_iter().chain(counts).collect();
                let (node, mut all) = self.computed_inside(node, all)?;
                let aggregates = all.split_off(groups);
                let aggregate = Aggregate::try_new(Arc::new(node.plan), all, aggregates)?;
                Ok(Node::real(LogicalPlan::Aggregate(aggregate)))
            }
            LogicalPlan::Window(window) => {
                let Window { input, window_expr, .. } = window;
                let node = self.node(Arc::unwrap_or_clone(input))?;
                let (node, exprs) = self.computed_inside(node, window_expr)?;
                let window = Window::try_new(exprs, Arc::new(node.plan))?;
                Ok(Node { plan: LogicalPlan::Window(window), is_ordered: false, ..node })
            }
            other => {
                let mut inputs = Vec::new();
                for input in other.inputs() {
                    let schema = Arc::clone(input.schema());
                    let node = self.node_aside(Arc::new(input.clone()))?;
                    inputs.push(self.forced(node, &schema)?);
                }
                if inputs.is_empty() {
                    return Ok(Node::real(other));
                }
                Ok(Node::real(other.with_new_exprs(other.expressions(), inputs)?))
            }
        }
    }

    /// A node whose rows are nobody's answer.
    fn node_aside(&mut self, plan: Arc<LogicalPlan>) -> Result<Node> {
        let with_rows = std::mem::replace(&mut self.with_rows, false);
        let node = self.node(Arc::unwrap_or_clone(plan));
        self.with_rows = with_rows;
        node
    }

    /// A condition that is never true leaves no scan in the plan. The places of no rows are there all the same.
    fn no_rows(&mut self, schema: &DFSchema) -> Result<Node> {
        let place = self.scans.name("none");
        let mut fields: Vec<_> =
            schema.iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field))).collect();
        fields.push((None, Arc::new(Field::new(&place, DataType::UInt64, true))));
        let schema = Arc::new(DFSchema::new_with_metadata(fields, schema.metadata().clone())?);
        let plan = LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema });
        Ok(Node { main: Some(place), is_ordered: true, ..Node::real(plan) })
    }

    fn scan(&mut self, scan: TableScan) -> Result<Node> {
        let provider = source_as_provider(&scan.source)?;
        let any: &dyn Any = provider.as_ref();
        if let Some(cells) = any.downcast_ref::<Cells>()
            && self.with_rows
            && let Some(placed) = cells.with_place()
        {
            return self.placed_cells(scan, &placed);
        }
        let Some(source) = any.downcast_ref::<Source>() else {
            return Ok(Node::real(LogicalPlan::TableScan(scan)));
        };
        let all: Vec<usize> = match &scan.projection {
            Some(columns) => columns.clone(),
            None => (0..source.schema().fields().len()).collect(),
        };
        let (late, mut narrow): (Vec<usize>, Vec<usize>) =
            all.into_iter().partition(|column| source.is_wide(*column) && !self.reads_all);
        if late.is_empty() && !self.with_rows && !self.has_calls {
            return Ok(Node::real(LogicalPlan::TableScan(scan)));
        }
        let number = self.scans.sources.len();
        self.scans.sources.push(Arc::new(source.clone()));
        let placed: Arc<dyn TableProvider> = Arc::new(source.with_place());
        narrow.push(source.schema().fields().len());
        let table = scan.table_name.clone();
        let name = |column: &usize| source.schema().field(*column).name().clone();
        let column = |name: String| Column::new(Some(table.clone()), name);
        let mut exprs: Vec<Expr> =
            narrow[..narrow.len() - 1].iter().map(|narrow| Expr::Column(column(name(narrow)))).collect();
        exprs.push(Expr::Column(column(PLACE.to_owned())).alias(place_name(number)));
        let late = late.iter().map(|late| (column(name(late)), wide(number, &name(late)))).collect();
        let built = TableScanBuilder::new(scan.table_name, provider_as_source(placed))
            .with_projection(Some(narrow))
            .with_filters(scan.filters)
            .with_fetch(scan.fetch)
            .build()?;
        let plan = project(exprs, LogicalPlan::TableScan(built))?;
        let main = Some(place_name(number));
        Ok(Node { plan, late, row: main.clone(), main, is_ordered: false })
    }

    /// A scan of an array whose rows come in C order unless something else is asked for.
    fn placed_cells(&self, scan: TableScan, placed: &Cells) -> Result<Node> {
        let place = placed.columns().fields().len() - 1;
        let mut columns = scan.projection.unwrap_or_else(|| (0..place).collect());
        let name = |column: &usize| {
            Column::new(Some(scan.table_name.clone()), placed.columns().field(*column).name())
        };
        let mut exprs: Vec<Expr> = columns.iter().map(|column| Expr::Column(name(column))).collect();
        let main = place_name(self.scans.sources.len());
        exprs.push(Expr::Column(name(&place)).alias(main.clone()));
        columns.push(place);
        let built =
            TableScanBuilder::new(scan.table_name.clone(), provider_as_source(Arc::new(placed.clone())))
                .with_projection(Some(columns))
                .with_filters(scan.filters)
                .with_fetch(scan.fetch)
                .build()?;
        let plan = project(exprs, LogicalPlan::TableScan(built))?;
        Ok(Node { main: Some(main), ..Node::real(plan) })
    }

    fn projection(&mut self, projection: Projection) -> Result<Node> {
        let Projection { expr, input, schema, .. } = projection;
        let node = self.node(Arc::unwrap_or_clone(input))?;
        let node = self.called(node, &expr, 2)?;
        let mut exprs = Vec::with_capacity(expr.len());
        let mut late = Vec::new();
        let mut carried: Vec<(Column, String)> = Vec::new();
        for (place, expr) in expr.into_iter().enumerate() {
            if !node.is_late(&expr)? {
                exprs.push(expr);
                continue;
            }
            let (qualifier, field) = schema.qualified_field(place);
            let column = Column::new(qualifier.cloned(), field.name());
            // Real columns that the expression uses go along under a name of their own.
            let expr = expr.unalias().transform(|expr| match &expr {
                Expr::Column(column) if node.expression(column).is_none() => {
                    let known = carried.iter().find(|(carried, _)| carried == column);
                    let name = match known {
                        Some((_, name)) => name.clone(),
                        None => {
                            let name = self.scans.name("carried");
                            carried.push((column.clone(), name.clone()));
                            name
                        }
                    };
                    Ok(Transformed::yes(unqualified(&name)))
                }
                _ => Ok(Transformed::no(expr)),
            })?;
            late.push((column, node.written_out(expr.data)?));
        }
        exprs.extend(carried.into_iter().map(|(column, name)| Expr::Column(column).alias(name)));
        let own: BTreeSet<String> = exprs.iter().map(|expr| expr.schema_name().to_string()).collect();
        let above = Node {
            late,
            main: node.main.clone(),
            row: node.row.clone(),
            ..Node::real(LogicalPlan::default())
        };
        exprs.extend(
            above.hidden()?.into_iter().filter(|expr| !own.contains(&expr.schema_name().to_string())),
        );
        Ok(Node { plan: project(exprs, node.plan)?, is_ordered: node.is_ordered, ..above })
    }

    fn alias(&mut self, alias: SubqueryAlias) -> Result<Node> {
        let SubqueryAlias { input, alias, schema, .. } = alias;
        let before = Arc::clone(input.schema());
        let node = self.node(Arc::unwrap_or_clone(input))?;
        let (mut exprs, mut late) = (Vec::new(), Vec::new());
        for (old, (_, field)) in before.columns().into_iter().zip(schema.iter()) {
            match node.expression(&old) {
                Some(expression) => {
                    late.push((Column::new(Some(alias.clone()), field.name()), expression.clone()));
                }
                None => exprs.push(Expr::Column(old).alias_qualified(Some(alias.clone()), field.name())),
            }
        }
        let above = Node {
            late,
            main: node.main.clone(),
            row: node.row.clone(),
            ..Node::real(LogicalPlan::default())
        };
        exprs.extend(above.hidden()?);
        Ok(Node { plan: project(exprs, node.plan)?, is_ordered: node.is_ordered, ..above })
    }

    fn filter(&mut self, filter: Filter) -> Result<Node> {
        let mut node = self.node(Arc::unwrap_or_clone(filter.input))?;
        let mut real = Vec::new();
        // What indexes tell is looked at before anything is read.
        let (mut known, mut read) = (Vec::new(), Vec::new());
        for part in split_conjunction_owned(filter.predicate) {
            if !node.is_late(&part)? {
                real.push(part);
                continue;
            }
            let out = node.written_out(part.clone())?;
            let reads = any_wanted(&out, &self.scans.sources, |wanted| !wanted.is_known())?;
            match reads || has_call(&out)? {
                true => read.push(part),
                false => known.push(part),
            }
        }
        if let Some(predicate) = conjunction(real) {
            node.plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(node.plan))?);
        }
        for parts in [known, read] {
            if parts.is_empty() {
                continue;
            }
            node = self.called(node, &parts, 1)?;
            let parts =
                parts.into_iter().map(|part| node.written_out(part)).collect::<Result<Vec<Expr>>>()?;
            let columns = all_columns(&node.plan);
            let (plan, parts) = self.scans.values(node.plan, parts)?;
            let Some(predicate) = conjunction(parts) else { unreachable!("it is not empty") };
            let plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?);
            // What was read is not kept: a few of the rows are left, and it may be large.
            node.plan = project(columns, plan)?;
        }
        Ok(node)
    }

    fn sort(&mut self, sort: Sort) -> Result<Node> {
        let Sort { expr, input, fetch } = sort;
        let node = self.node(Arc::unwrap_or_clone(input))?;
        if let ([by], Some(fetch)) = (&expr[..], fetch)
            && let Some(node) = self.nearest(&node, by, fetch)?
        {
            return Ok(node);
        }
        let exprs = expr.iter().map(|sort| sort.expr.clone()).collect();
        let (node, exprs) = self.computed(node, exprs)?;
        let mut keys: Vec<SortExpr> = exprs
            .into_iter()
            .zip(&expr)
            .map(|(by, sort)| SortExpr::new(by, sort.asc, sort.nulls_first))
            .collect();
        if let Some(place) = &node.main {
            // Equal rows stay in the order of the view.
            keys.push(unqualified(place).sort(true, true));
        }
        Ok(ordered_by(node, keys, fetch))
    }

    /// A sort by the distance of vectors from a constant, of which so many rows are wanted, finds them without sorting.
    fn nearest(&mut self, node: &Node, by: &SortExpr, fetch: usize) -> Result<Option<Node>> {
        let Some(place) = &node.row else { return Ok(None) };
        let out = node.written_out(by.expr.clone())?;
        let Some((scan, wanted)) = sought(&out, by, fetch, &self.scans.sources)? else { return Ok(None) };
        if *place != place_name(scan) {
            return Ok(None);
        }
        let (rank, source) = (self.scans.name("rank"), Arc::clone(&self.scans.sources[scan]));
        let rows = NearestRows::new(node.plan.clone(), source, scan, rank.clone(), Arc::new(wanted))?;
        let plan = LogicalPlan::Extension(Extension { node: Arc::new(rows) });
        let (late, main, row) = (node.late.clone(), node.main.clone(), node.row.clone());
        let found = Node { plan, late, main, row, is_ordered: false };
        Ok(Some(ordered_by(found, vec![unqualified(&rank).sort(true, true)], Some(fetch))))
    }

    fn join(&mut self, join: Join) -> Result<Node> {
        let Join { left, right, on, filter, join_type, join_constraint, null_equality, null_aware, .. } =
            join;
        let is_right = matches!(join_type, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark);
        let (mut left, mut right) = match is_right {
            true => (self.node_aside(left)?, self.node(Arc::unwrap_or_clone(right))?),
            false => (self.node(Arc::unwrap_or_clone(left))?, self.node_aside(right)?),
        };
        let (of_left, of_right): (Vec<Expr>, Vec<Expr>) = on.into_iter().unzip();
        let (with_keys, of_left) = self.computed(left, of_left)?;
        left = with_keys;
        let (with_keys, of_right) = self.computed(right, of_right)?;
        right = with_keys;
        if let Some(filter) = &filter {
            // Columns of both sides: what is late becomes real before the rows meet.
            left = self.real_columns(left, filter)?;
            right = self.real_columns(right, filter)?;
        }
        let on = of_left.into_iter().zip(of_right).collect();
        if matches!(join_type, JoinType::Right | JoinType::Full) {
            left = self.guarded(left)?;
        }
        if matches!(join_type, JoinType::Left | JoinType::Full) {
            right = self.guarded(right)?;
        }
        let (mut late, of_right) = (left.late, right.late);
        let is_left = matches!(join_type, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark);
        match (is_left, is_right) {
            (true, _) => {}
            (_, true) => late = of_right,
            _ => late.extend(of_right),
        }
        let main = if is_right { right.main } else { left.main };
        let row = match (is_left, is_right) {
            (true, _) => left.row,
            (_, true) => right.row,
            _ => None,
        };
        let join = Join::try_new(
            Arc::new(left.plan),
            Arc::new(right.plan),
            on,
            filter,
            join_type,
            join_constraint,
            null_equality,
            null_aware,
        )?;
        Ok(Node { plan: LogicalPlan::Join(join), late, main, row, is_ordered: false })
    }

    /// Late values of rows that an outer join may make up: they are null there, whatever the expression says of nulls. Which rows are
    /// real ones is told by a column of its own: a place may be null in a real row, if another outer join made it up.
    fn guarded(&mut self, node: Node) -> Result<Node> {
        if node.late.iter().all(|(_, expr)| matches!(expr, Expr::Column(_))) {
            return Ok(node);
        }
        let there = self.scans.name("there");
        let mut columns = all_columns(&node.plan);
        columns.push(lit(true).alias(there.clone()));
        let mut late = node.late;
        for (_, expr) in late.iter_mut().filter(|(_, expr)| !matches!(expr, Expr::Column(_))) {
            *expr = when(unqualified(&there).is_not_null(), expr.clone()).end()?;
        }
        Ok(Node { plan: project(columns, node.plan)?, late, ..node })
    }

    /// Late columns that call functions become real ones where expressions use them so many times: what is called twice may
    /// give two values.
    fn called(&mut self, mut node: Node, exprs: &[Expr], least: usize) -> Result<Node> {
        let mut wanted = Vec::new();
        for (column, late) in &node.late {
            if !has_call(late)? {
                continue;
            }
            let mut uses = 0;
            for expr in exprs {
                expr.apply(|expr| {
                    uses += usize::from(matches!(expr, Expr::Column(used) if used == column));
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
            if uses >= least {
                wanted.push(Expr::Column(column.clone()));
            }
        }
        for column in &wanted {
            node = self.real_columns(node, column)?;
        }
        Ok(node)
    }

    /// Late columns that an expression uses become real ones of the same name.
    fn real_columns(&mut self, node: Node, used: &Expr) -> Result<Node> {
        let columns = used.column_refs();
        let (wanted, late): (Vec<_>, Vec<_>) =
            node.late.into_iter().partition(|(column, _)| columns.contains(column));
        let node = Node { late, ..node };
        if wanted.is_empty() {
            return Ok(node);
        }
        let mut exprs = all_columns(&node.plan);
        let (names, values): (Vec<Column>, Vec<Expr>) = wanted.into_iter().unzip();
        let (plan, values) = self.scans.values(node.plan, values)?;
        let named = |(column, value): (Column, Expr)| value.alias_qualified(column.relation, column.name);
        exprs.extend(names.into_iter().zip(values).map(named));
        Ok(Node { plan: project(exprs, plan)?, ..node })
    }

    /// Expressions that use no late column: those that do are computed below, under names of their own. A late column that
    /// is asked for by itself becomes a real one.
    fn computed(&mut self, node: Node, exprs: Vec<Expr>) -> Result<(Node, Vec<Expr>)> {
        let mut node = self.called(node, &exprs, 1)?;
        for expr in &exprs {
            if matches!(expr, Expr::Column(_)) {
                node = self.real_columns(node, expr)?;
            }
        }
        let (mut asked, mut found) = (Vec::new(), Vec::with_capacity(exprs.len()));
        for expr in exprs {
            if !node.is_late(&expr)? {
                found.push(expr);
                continue;
            }
            let name = self.scans.name("computed");
            asked.push((node.written_out(expr)?, name.clone()));
            found.push(unqualified(&name));
        }
        if !asked.is_empty() {
            let mut columns = all_columns(&node.plan);
            let (exprs, names): (Vec<Expr>, Vec<String>) = asked.into_iter().unzip();
            let (plan, exprs) = self.scans.values(node.plan, exprs)?;
            columns.extend(exprs.into_iter().zip(names).map(|(expr, name)| expr.alias(name)));
            node.plan = project(columns, plan)?;
        }
        Ok((node, found))
    }

    /// Aggregates, windows and groups whose arguments use no late column. They keep their names.
    fn computed_inside(&mut self, node: Node, exprs: Vec<Expr>) -> Result<(Node, Vec<Expr>)> {
        let mut node = self.called(node, &exprs, 1)?;
        let mut found = Vec::with_capacity(exprs.len());
        // What was computed already: windows over the same rows must name them alike.
        let mut known: Vec<(Expr, String)> = Vec::new();
        for expr in exprs {
            if !node.is_late(&expr)? {
                found.push(expr);
                continue;
            }
            // Sets of groups name the columns they group by.
            if matches!(expr, Expr::Column(_) | Expr::GroupingSet(_)) {
                node = self.real_columns(node, &expr)?;
                found.push(expr);
                continue;
            }
            let name = expr.schema_name().to_string();
            // Outermost expressions that are computed of each row by itself.
            let mut wanted = Vec::new();
            let replaced = expr.transform_down(|expr| {
                let is_of_many =
                    matches!(expr, Expr::AggregateFunction(_) | Expr::WindowFunction(_) | Expr::Alias(_));
                let has_many = expr.exists(|expr| {
                    Ok(matches!(expr, Expr::AggregateFunction(_) | Expr::WindowFunction(_)))
                })?;
                if is_of_many || has_many || !node.is_late(&expr)? {
                    return Ok(Transformed::no(expr));
                }
                let out = node.written_out(expr)?;
                // What is called twice may give two values.
                let same = if has_call(&out)? { None } else { known.iter().find(|(known, _)| *known == out) };
                let name = match same {
                    Some((_, name)) => name.clone(),
                    None => {
                        let name = self.scans.name("computed");
                        known.push((out.clone(), name.clone()));
                        wanted.push((out, name.clone()));
                        name
                    }
                };
                Ok(Transformed::new(unqualified(&name), true, TreeNodeRecursion::Jump))
            })?;
            if !wanted.is_empty() {
                let mut columns = all_columns(&node.plan);
                let (values, names): (Vec<Expr>, Vec<String>) = wanted.into_iter().unzip();
                let (plan, values) = self.scans.values(node.plan, values)?;
                columns.extend(values.into_iter().zip(names).map(|(expr, name)| expr.alias(name)));
                node.plan = project(columns, plan)?;
            }
            found.push(replaced.data.unalias().alias(name));
        }
        Ok((node, found))
    }

    /// The plan with all its columns, and no others.
    fn forced(&mut self, node: Node, schema: &DFSchema) -> Result<LogicalPlan> {
        let columns = schema.columns();
        if node.late.is_empty() && node.plan.schema().columns() == columns {
            return Ok(node.plan);
        }
        let mut exprs = Vec::with_capacity(columns.len());
        for column in &columns {
            exprs.push(node.written_out(Expr::Column(column.clone()))?);
        }
        let (plan, exprs) = self.scans.values(node.plan, exprs)?;
        let named = |(expr, column): (Expr, Column)| match &expr {
            Expr::Column(found) if *found == column => expr,
            _ => expr.alias_qualified(column.relation, column.name),
        };
        project(exprs.into_iter().zip(columns).map(named).collect(), plan)
    }
}

/// `count(x)` of a late column, which needs to know only whether there is an x. It keeps its name.
fn counted(expr: Expr, node: &Node) -> Result<Expr> {
    let name = expr.schema_name().to_string();
    let counted = expr.transform(|expr| match &expr {
        Expr::AggregateFunction(AggregateFunction { func, params })
            if func.name() == "count"
                && !params.distinct
                && matches!(&params.args[..], [Expr::Column(column)] if node.expression(column).is_some()) =>
        {
            let is_there = when(params.args[0].clone().is_not_null(), lit(1i64)).end()?;
            let params = AggregateFunctionParams { args: vec![is_there], ..params.clone() };
            Ok(Transformed::yes(Expr::AggregateFunction(AggregateFunction {
                func: Arc::clone(func),
                params,
            })))
        }
        _ => Ok(Transformed::no(expr)),
    })?;
    Ok(match counted.transformed {
        true => counted.data.unalias().alias(name),
        false => counted.data,
    })
}

/// Puts rows into an order.
fn ordered_by(node: Node, expr: Vec<SortExpr>, fetch: Option<usize>) -> Node {
    let plan = LogicalPlan::Sort(Sort { expr, input: Arc::new(node.plan), fetch });
    Node { plan, is_ordered: true, ..node }
}
