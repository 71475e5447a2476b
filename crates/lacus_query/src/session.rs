//! From a question to a plan: the tables it names are opened, its functions and types are known.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::datasource::{MemTable, ViewTable};
use datafusion::error::DataFusionError;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SessionStateDefaults;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::Analyzer;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement as Parsable;
use datafusion::sql::sqlparser::ast::{self, Statement};
use lacus_dataset::View;
use lacus_io::{Memory, Pool, boxed};

use crate::calls::{is_plain, udf};
use crate::cells::Cells;
use crate::error::QueryError;
use crate::faults::{Asked, close_to, explained};
use crate::functions::{self, NOT_A_TENSOR};
use crate::labels::Labels;
use crate::language::{
    At, ID, Parsed, ROW, Reduction, TableRef, WITH_ROWS, fold_constants, name_columns, parse,
    reduction_names, resolve_reductions,
};
use crate::operators::Operators;
use crate::parameters::fill;
use crate::question::{Callee, Named, Question, Sources};
use crate::singles::Singles;
use crate::slices::Slices;
use crate::source::Source;
use crate::sums::exact_sum;
use crate::tensors::Kind;
use crate::yielding::{Waiting, YieldingJoins};

/// The least that a query may use.
const LEAST_MEMORY: u64 = 64 << 20;

/// What is written like a function of ours, and is none.
const WRITTEN_AS_FUNCTIONS: [&str; 3] = ["row_id", "cells", "slice"];

/// A question whose words are understood.
pub(crate) struct Bound {
    pub state: SessionState,
    pub parsed: Parsed,
    /// The statement with its reductions resolved, which the plan was made of.
    pub statement: Statement,
    pub plan: LogicalPlan,
    /// The tables, by the key that stands in the statement.
    pub tables: Vec<(String, Opened)>,
    pub budget: u64,
    /// Whether columns are read where they are scanned, for comparison.
    pub reads_all: bool,
    /// As long as this is there, somebody waits for the answer.
    _waiting: Waiting,
}

/// A table that was opened.
pub(crate) struct Opened {
    pub view: View,
    /// Names of columns that hold tensors or media.
    pub tensors: HashSet<String>,
}

impl Bound {
    /// What an error needs to be explained.
    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked { text: &self.parsed.text, budget: self.budget }
    }

    pub(crate) fn table(&self, key: &str) -> Option<&Opened> {
        self.tables.iter().find(|(known, _)| known == key).map(|(_, opened)| opened)
    }
}

/// A question whose text was read: parameters have their values, columns their names.
pub(crate) fn read(question: &Question, sources: &dyn Sources) -> Result<Parsed, QueryError> {
    let mut parsed = parse(&question.text, sources.has_default())?;
    fill(&mut parsed, &question.parameters)?;
    name_columns(&mut parsed.statement, &parsed.text);
    fold_constants(&mut parsed.statement);
    Ok(parsed)
}

/// How a question is answered, whatever it asks.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Bytes that it may use.
    pub budget: u64,
    /// Whether columns are read where they are scanned, and nothing is pruned, for comparison.
    pub reads_all: bool,
    /// Functions of the caller's.
    pub functions: Vec<Arc<dyn Callee>>,
    /// Arrays that expressions read.
    pub slices: Slices,
}

impl Settings {
    pub(crate) fn of(question: &Question) -> Settings {
        let usual = Settings::default();
        Settings {
            budget: question.memory.unwrap_or(usual.budget),
            reads_all: question.reads_all,
            functions: question.functions.clone(),
            slices: Slices::default(),
        }
    }

    /// The same for a question that reads arrays of these datasets.
    pub(crate) fn reading(self, parsed: &Parsed, views: &[(String, View)]) -> Settings {
        let is_read = |key: &String| parsed.tables.iter().any(|table| table.is_value && table.key == *key);
        let read = views.iter().filter(|(key, _)| is_read(key)).cloned();
        Settings { slices: Slices::of(read), ..self }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        // A quarter of what the process may use.
        let budget = (Memory::process().bytes() / 4).max(LEAST_MEMORY);
        Settings { budget, reads_all: false, functions: Vec::new(), slices: Slices::default() }
    }
}

/// Opens the tables that a question names, by the keys that stand in its statement.
#[boxed]
pub(crate) async fn open_all(
    parsed: &Parsed,
    sources: &dyn Sources,
) -> Result<Vec<(String, View)>, QueryError> {
    let mut views: Vec<(String, View)> = Vec::new();
    for table in &parsed.tables {
        if !views.iter().any(|(key, _)| *key == table.key) {
            views.push((table.key.clone(), open(sources, table, &parsed.text).await?));
        }
    }
    Ok(views)
}

/// Understands a question about these views.
#[boxed]
pub(crate) async fn bind(
    parsed: Parsed,
    views: &[(String, View)],
    settings: &Settings,
) -> Result<Bound, QueryError> {
    let budget = settings.budget;
    let waiting = Waiting::default();
    let context = SessionContext::new_with_state(state(budget, &waiting, Pool::process().threads())?);
    add_functions(&context, &settings.functions)?;
    let mut tables = Vec::new();
    for (key, view) in views {
        let table = table_of(&parsed, key);
        if table.is_some_and(|table| table.is_value) {
            continue;
        }
        if let Some((table, array)) = table.and_then(|table| Some((table, table.array.as_ref()?))) {
            register_cells(&context, table, view, array, &parsed.text).await?;
            continue;
        }
        tables.push((key.clone(), register(&context, key, view.clone(), &parsed.text, settings).await?));
    }
    check_functions(&parsed, &context)?;
    let asked = Asked { text: &parsed.text, budget };
    let is_tensor = |name: &str| tables.iter().any(|(_, opened)| opened.tensors.contains(name));
    let (statement, plan) = plan(&context, &parsed.statement, &is_tensor, &settings.slices, &asked).await?;
    let (state, reads_all) = (context.state(), settings.reads_all);
    Ok(Bound { state, statement, plan, parsed, tables, budget, reads_all, _waiting: waiting })
}

/// The table of a key. If it is read both as rows and for its arrays, the former counts.
fn table_of<'a>(parsed: &'a Parsed, key: &str) -> Option<&'a TableRef> {
    let mut found = None;
    for table in parsed.tables.iter().filter(|table| table.key == key) {
        if !table.is_value {
            return Some(table);
        }
        found = Some(table);
    }
    found
}

/// Understands a statement about rows in memory, which it calls by `name`.
#[boxed]
pub(crate) async fn bind_rows(
    parsed: Parsed,
    name: &str,
    rows: RecordBatch,
    settings: &Settings,
) -> Result<Bound, QueryError> {
    let budget = settings.budget;
    let waiting = Waiting::default();
    // One partition, so that rows stay in their order.
    let context = SessionContext::new_with_state(state(budget, &waiting, 1)?);
    add_functions(&context, &settings.functions)?;
    let asked = Asked { text: &parsed.text, budget };
    let tensors = tensors_of(&rows.schema());
    let table =
        MemTable::try_new(rows.schema(), vec![vec![rows]]).map_err(|error| explained(error, &asked))?;
    context
        .register_table(TableReference::bare(name), Arc::new(table))
        .map_err(|error| explained(error, &asked))?;
    check_functions(&parsed, &context)?;
    let is_tensor = |name: &str| tensors.contains(name);
    let (statement, plan) = plan(&context, &parsed.statement, &is_tensor, &settings.slices, &asked).await?;
    Ok(Bound {
        state: context.state(),
        statement,
        plan,
        parsed,
        tables: Vec::new(),
        budget,
        reads_all: settings.reads_all,
        _waiting: waiting,
    })
}

/// The names of columns that hold tensors or media.
fn tensors_of(schema: &Schema) -> HashSet<String> {
    let is = |field: &&Arc<Field>| matches!(Kind::of(field), Kind::Tensor(_) | Kind::Media { .. });
    schema.fields().iter().filter(is).map(|field| field.name().clone()).collect()
}

/// A session with our functions and settings.
fn state(budget: u64, waiting: &Waiting, partitions: usize) -> Result<SessionState, QueryError> {
    let internal = |error: DataFusionError| QueryError::Internal(error.to_string());
    let disks = DiskManagerBuilder::default().with_mode(DiskManagerMode::OsTmpDirectory);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(usize::try_from(budget).unwrap_or(usize::MAX))))
        .with_disk_manager_builder(disks)
        .build_arc()
        .map_err(internal)?;
    let mut config = SessionConfig::new().with_target_partitions(partitions).with_information_schema(false);
    let options = config.options_mut();
    // Names are as they are written.
    options.sql_parser.enable_ident_normalization = false;
    options.sql_parser.collect_spans = true;
    options.sql_parser.map_string_types_to_utf8view = false;
    let functions = functions::all();
    let mut planners: Vec<Arc<dyn datafusion::logical_expr::planner::ExprPlanner>> =
        vec![Arc::new(Operators::new(&functions))];
    planners.extend(SessionStateDefaults::default_expr_planners());
    // Before types are made equal: a label and a number have none in common.
    let mut rules = Analyzer::new().rules;
    rules.insert(0, Arc::new(Singles));
    if let Some(labels) = Labels::new(&functions) {
        rules.insert(0, Arc::new(labels));
    }
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_expr_planners(planners)
        .with_analyzer_rules(rules)
        .with_physical_optimizer_rule(Arc::new(YieldingJoins::new(waiting)))
        .build();
    for function in functions {
        state.register_udf(function).map_err(internal)?;
    }
    state.register_udaf(exact_sum()).map_err(internal)?;
    Ok(state)
}

/// Makes functions of the caller's known to a session.
fn add_functions(context: &SessionContext, functions: &[Arc<dyn Callee>]) -> Result<(), QueryError> {
    if functions.is_empty() {
        return Ok(());
    }
    let mut known = known_functions(&context.state());
    known.extend(reduction_names());
    known.extend(WRITTEN_AS_FUNCTIONS.map(str::to_owned));
    for callee in functions {
        let name = callee.name();
        if known.contains(&name.to_lowercase()) {
            return Err(QueryError::text(format!(
                "udf {name}: there is a built-in function of this name; give yours another"
            )));
        }
        context.register_udf(udf(callee));
    }
    Ok(())
}

/// The names of all functions that a query can use.
pub fn function_names() -> Vec<String> {
    let Ok(state) = state(LEAST_MEMORY, &Waiting::default(), 1) else { return Vec::new() };
    let mut names: Vec<String> = known_functions(&state).into_iter().collect();
    names.extend(reduction_names());
    names.extend(WRITTEN_AS_FUNCTIONS.map(str::to_owned));
    names.sort_unstable();
    names.dedup();
    names
}

fn known_functions(state: &SessionState) -> HashSet<String> {
    let scalar = state.scalar_functions().keys();
    let all = scalar.chain(state.aggregate_functions().keys()).chain(state.window_functions().keys());
    let mut all: HashSet<String> = all.chain(state.table_functions().keys()).cloned().collect();
    all.extend(state.higher_order_functions().keys().cloned());
    // Not functions to DataFusion, but written as such.
    all.extend(["make_map", "unnest", "unnest_outer"].map(str::to_owned));
    all
}

async fn open(sources: &dyn Sources, table: &TableRef, text: &str) -> Result<View, QueryError> {
    let at = table.at.as_ref().map(|at| match at {
        At::Revision(revision) => revision.clone(),
        At::Version(version) => format!("@{version}"),
        At::Timestamp(time) => time.clone(),
    });
    let at_place = |error| at_table(error, table, text);
    let named = Named { name: table.name.clone(), at };
    if let Some(view) = sources.open(&named).await.map_err(at_place)? {
        return Ok(view);
    }
    let names = sources.names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let close = close_to(&table.name, &names);
    let why = match (close.is_empty(), names.is_empty()) {
        (false, _) => format!("no dataset {:?}; did you mean {}?", table.name, close.join(" or ")),
        (_, false) => format!("no dataset {:?}; known here: {}", table.name, names.join(", ")),
        _ => format!("no dataset {:?}: name one by its URL, in double quotes", table.name),
    };
    Err(QueryError::at(why, text, table.bytes.clone()))
}

/// An error that points at the table it is about.
fn at_table(error: QueryError, table: &TableRef, text: &str) -> QueryError {
    match error {
        QueryError::Text { why, place: None } => QueryError::at(why, text, table.bytes.clone()),
        other => other,
    }
}

/// Makes an array a table of a session.
async fn register_cells(
    context: &SessionContext,
    table: &TableRef,
    view: &View,
    array: &str,
    text: &str,
) -> Result<(), QueryError> {
    let cells = Cells::open(view, array).await.map_err(|error| at_table(error, table, text))?;
    let made = context.register_table(TableReference::bare(table.key.as_str()), Arc::new(cells));
    made.map(drop).map_err(|error| QueryError::Internal(error.to_string()))
}

/// Makes a view a table of a session.
#[boxed]
async fn register(
    context: &SessionContext,
    key: &str,
    view: View,
    text: &str,
    settings: &Settings,
) -> Result<Opened, QueryError> {
    let asked = Asked { text, budget: settings.budget };
    let internal = |error: DataFusionError| explained(error, &asked);
    // A table, and the same with the columns that say which row it is.
    let add = |key: &str, source: Source| -> Result<(), QueryError> {
        let source = if settings.reads_all { source.unpruned() } else { source };
        let rows = TableReference::bare(format!("{key}{WITH_ROWS}"));
        context.register_table(rows, Arc::new(source.with_identity())).map_err(internal)?;
        context.register_table(TableReference::bare(key), Arc::new(source)).map_err(internal)?;
        Ok(())
    };
    let source = match view.computed().is_empty() {
        true => Source::new(&view).await?,
        // Expressions may use columns that the view does not show.
        false => Source::of(&view, &view.source().column_names()).await?,
    };
    let mut tensors = tensors_of(source.schema());
    if view.computed().is_empty() {
        add(key, source)?;
        return Ok(Opened { view, tensors });
    }
    check_computed(&view, context)?;
    let base = format!("\u{1}stored {key}");
    add(&base, source)?;
    let items: Vec<String> = view
        .columns()
        .iter()
        .map(|name| match view.computed().get(name) {
            Some(expression) => format!("{expression} AS {}", quoted(name)),
            None => quoted(name),
        })
        .collect();
    let stored = tensors.clone();
    let slices = Slices::of([("dataset".to_owned(), view.clone())]);
    let identity = [format!("row_number() AS {}", quoted(ROW)), format!("row_id() AS {}", quoted(ID))];
    for (key, more) in [(key.to_owned(), &[][..]), (format!("{key}{WITH_ROWS}"), &identity[..])] {
        let items = [&items[..], more].concat().join(", ");
        let inner = parse(&format!("SELECT {items} FROM {}", quoted(&base)), false)?;
        let is_tensor = |name: &str| stored.contains(name);
        let (_, plan) = plan(context, &inner.statement, &is_tensor, &slices, &asked).await?;
        if more.is_empty() {
            tensors = tensors_of(plan.schema().as_arrow());
        }
        let table: Arc<dyn TableProvider> = Arc::new(ViewTable::new(plan, None));
        context.register_table(TableReference::bare(key), table).map_err(internal)?;
    }
    Ok(Opened { view, tensors })
}

/// A name as SQL writes it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Plans a statement. Whether `sum` and others mean the elements of a tensor or the rows of a column is guessed by names, and
/// guessed again where types say otherwise.
#[boxed]
async fn plan(
    context: &SessionContext,
    statement: &Statement,
    is_tensor: &(dyn Fn(&str) -> bool + Sync),
    slices: &Slices,
    asked: &Asked<'_>,
) -> Result<(Statement, LogicalPlan), QueryError> {
    slices.read(statement, context, asked).await?;
    let state = context.state();
    let attempt = async |keep_plain: &HashSet<usize>| {
        let mut resolved = statement.clone();
        let is_plain = |name: &str| {
            state.scalar_functions().get(&name.to_lowercase()).is_some_and(|function| is_plain(function))
        };
        let reductions = resolve_reductions(&mut resolved, &|name| is_tensor(name), &is_plain, keep_plain);
        let mut planned = resolved.clone();
        slices.put(&mut planned);
        let plan = state.statement_to_plan(Parsable::Statement(Box::new(planned))).await;
        (plan.map(|plan| (resolved, plan)), reductions)
    };
    let mut keep_plain = HashSet::new();
    let (mut found, mut reductions) = attempt(&keep_plain).await;
    'guess: loop {
        let error = match found {
            Ok(planned) => return Ok(planned),
            Err(error) => error,
        };
        let Some(culprit) = not_a_tensor(&error) else { return Err(explained(error, asked)) };
        let left = |one: &&Reduction| one.of_tensor && !keep_plain.contains(&one.number);
        let mut guesses: Vec<usize> = reductions
            .iter()
            .filter(left)
            .filter(|one| culprit == format!("tensor_{}", one.name))
            .map(|one| one.number)
            .collect();
        // Of nested calls the inner one comes last, and decides.
        guesses.reverse();
        let Some(last) = guesses.first().copied() else { return Err(explained(error, asked)) };
        // Of calls of one name, the one to blame is that without which planning gets further.
        for guess in guesses {
            let mut with = keep_plain.clone();
            with.insert(guess);
            let (again, known) = attempt(&with).await;
            let is_better = match &again {
                Ok(_) => true,
                Err(other) => not_a_tensor(other).is_some() && other.to_string() != error.to_string(),
            };
            if is_better {
                (keep_plain, found, reductions) = (with, again, known);
                continue 'guess;
            }
        }
        keep_plain.insert(last);
        (found, reductions) = attempt(&keep_plain).await;
    }
}

/// The function that was called with something else than a tensor, if that is what is wrong.
fn not_a_tensor(error: &DataFusionError) -> Option<String> {
    match error.find_root() {
        DataFusionError::Plan(why) => {
            let (function, _) = why.strip_prefix(NOT_A_TENSOR)?.strip_prefix(": ")?.split_once(" of ")?;
            Some(function.to_owned())
        }
        _ => None,
    }
}

/// Refuses functions that there are not, with the nearest names.
fn check_functions(parsed: &Parsed, context: &SessionContext) -> Result<(), QueryError> {
    match unknown_function(&parsed.statement, context) {
        None => Ok(()),
        Some((name, why)) => Err(QueryError::at(why, &parsed.text, crate::language::bytes_of(name.span))),
    }
}

/// Refuses a view with a column that needs a function which there is not.
fn check_computed(view: &View, context: &SessionContext) -> Result<(), QueryError> {
    for (column, expression) in view.computed() {
        let parsed = parse(&format!("SELECT {expression} FROM t"), false)?;
        if let Some((name, _)) = unknown_function(&parsed.statement, context) {
            return Err(QueryError::text(format!(
                "column {column:?} is computed by {expression}, and there is no function {:?} here: define it again",
                name.value
            )));
        }
    }
    Ok(())
}

/// A function that there is not, and what to say about it.
fn unknown_function(statement: &Statement, context: &SessionContext) -> Option<(ast::Ident, String)> {
    use std::ops::ControlFlow;
    let mut known = known_functions(&context.state());
    known.extend(reduction_names());
    known.extend(["row_id", "slice"].map(str::to_owned));
    let found = ast::visit_expressions(statement, |expr| {
        if let ast::Expr::Function(function) = expr
            && let [ast::ObjectNamePart::Identifier(name)] = function.name.0.as_slice()
            // Such as `user`, which may be a column.
            && function.args != ast::FunctionArguments::None
            && !known.contains(&name.value.to_lowercase())
        {
            return ControlFlow::Break(name.clone());
        }
        ControlFlow::Continue(())
    });
    let ControlFlow::Break(name) = found else { return None };
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    let close = close_to(&name.value, &names);
    let why = match close.is_empty() {
        true => format!("no function {:?}", name.value),
        false => format!("no function {:?}; did you mean {}?", name.value, close.join(" or ")),
    };
    Some((name, why))
}
