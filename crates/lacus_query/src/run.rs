//! Runs a question that is bound: as a view, as a table, or only to say how.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::UInt64Type;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use futures::{FutureExt, TryStreamExt};
use lacus_dataset::View;
use lacus_io::boxed;

use crate::answer::Table;
use crate::error::QueryError;
use crate::faults::explained;
use crate::fetch::FetchPlanner;
use crate::language::parse;
use crate::late::{places_only, read_late};
use crate::question::Callee;
use crate::rows::{chosen, is_chain};
use crate::session::{Bound, Settings, bind, quoted};
use crate::zeros::equal_zeros;

/// Some columns of some rows of a view as one batch, also those that are computed. `functions` are those of the caller's that
/// expressions may use.
#[boxed]
pub async fn compute(
    view: &View,
    names: &[String],
    places: &[u64],
    functions: &[Arc<dyn Callee>],
) -> Result<RecordBatch, QueryError> {
    let settings = Settings { functions: functions.to_vec(), ..Settings::default() };
    computed(view, names, places, &settings).await
}

/// The same, as a question says it is to be answered.
#[boxed]
pub(crate) async fn computed(
    view: &View,
    names: &[String],
    places: &[u64],
    settings: &Settings,
) -> Result<RecordBatch, QueryError> {
    let columns: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    let parsed = parse(&format!("SELECT {} FROM dataset", columns.join(", ")), true)?;
    // Without the other columns, which may need functions that there are not.
    let views = [("dataset".to_owned(), view.take(places)?.select(names)?)];
    let bound = bind(parsed, &views, settings).await?;
    let table = table(&bound).await.map_err(|error| match error {
        QueryError::Function { name, row: Some(row), why, cause } => {
            let row = usize::try_from(row).ok().and_then(|row| places.get(row)).copied();
            QueryError::Function { name, row, why, cause }
        }
        other => other,
    })?;
    concat_batches(table.schema(), table.batches()).map_err(|error| QueryError::Value(error.to_string()))
}

/// The view that answers, if one does.
#[boxed]
pub(crate) async fn view(bound: &Bound) -> Result<Option<View>, QueryError> {
    let Some(chosen) = chosen(bound) else { return Ok(None) };
    let Some(opened) = bound.table(&chosen.table) else { return Ok(None) };
    let rows = match is_everything(&bound.plan) {
        true => opened.view.clone(),
        false => match places(bound).await? {
            Some(places) => opened.view.take(&places)?,
            None => return Ok(None),
        },
    };
    Ok(Some(match &chosen.columns {
        None => rows,
        Some(columns) => rows.with_columns(columns, &chosen.computed)?,
    }))
}

/// The places that the rows of an answer have in the view they are of, in the order that was asked for.
#[boxed]
pub(crate) async fn places(bound: &Bound) -> Result<Option<Vec<u64>>, QueryError> {
    let wrong = |error: DataFusionError| explained(error, &bound.asked());
    let plan = optimized(bound).map_err(wrong)?;
    let Some((plan, is_ordered)) = places_only(plan, bound.reads_all).map_err(wrong)? else {
        return Ok(None);
    };
    let physical = physical(bound, &plan).await?;
    let stream = execute_stream(physical, bound.state.task_ctx()).map_err(wrong)?;
    let batches = collected(stream, bound).await?;
    let mut places: Vec<u64> = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    for batch in &batches {
        places.extend_from_slice(batch.column(0).as_primitive::<UInt64Type>().values());
    }
    if !is_ordered {
        places.sort_unstable();
    }
    Ok(Some(places))
}

/// Whether a plan keeps all rows in their order.
fn is_everything(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => {
            plan.inputs().into_iter().all(is_everything)
        }
        LogicalPlan::TableScan(_) => true,
        _ => false,
    }
}

/// The plan as DataFusion would run it.
fn optimized(bound: &Bound) -> Result<LogicalPlan, DataFusionError> {
    equal_zeros(bound.state.optimize(&bound.plan)?)
}

/// The plan that makes a table.
fn table_plan(bound: &Bound) -> Result<LogicalPlan, DataFusionError> {
    let plan = optimized(bound)?;
    read_late(plan, is_chain(&bound.plan), bound.reads_all)
}

#[boxed]
async fn physical(bound: &Bound, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>, QueryError> {
    let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(FetchPlanner)]);
    let made = planner.create_physical_plan(plan, &bound.state).await;
    made.map_err(|error| explained(error, &bound.asked()))
}

/// All rows of a stream. A panic of the engine's is an error, and not the end of the program.
async fn collected(stream: SendableRecordBatchStream, bound: &Bound) -> Result<Vec<RecordBatch>, QueryError> {
    let collected = AssertUnwindSafe(stream.try_collect()).catch_unwind().await;
    match collected {
        Ok(batches) => batches.map_err(|error| explained(error, &bound.asked())),
        Err(panic) => {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()));
            let why = said.unwrap_or_else(|| "without a message".to_owned());
            Err(QueryError::Internal(format!("the query engine failed: {why}")))
        }
    }
}

/// The table that answers.
#[boxed]
pub(crate) async fn table(bound: &Bound) -> Result<Table, QueryError> {
    let wrong = |error: DataFusionError| explained(error, &bound.asked());
    let plan = table_plan(bound).map_err(wrong)?;
    // As the query says it, with what fields say of tensors.
    let schema = Arc::new(plan.schema().as_arrow().clone());
    let physical = physical(bound, &plan).await?;
    let stream = execute_stream(physical, bound.state.task_ctx()).map_err(wrong)?;
    let batches = collected(stream, bound).await?;
    let typed = |batch: RecordBatch| {
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&schema), batch.columns().to_vec(), &options)
    };
    let batches = batches.into_iter().map(typed).collect::<Result<Vec<_>, _>>();
    let batches = batches.map_err(|error| QueryError::Internal(error.to_string()))?;
    Ok(Table::new(schema, batches))
}

/// The plan of what answers a question. With `verbose`, also the plan as the query says it, and as it is before columns become late.
#[boxed]
pub(crate) async fn plan_text(bound: &Bound, analyze: bool, verbose: bool) -> Result<String, QueryError> {
    let wrong = |error: DataFusionError| explained(error, &bound.asked());
    let is_view = chosen(bound).is_some() && !is_everything(&bound.plan);
    let plan = match is_view {
        true => {
            let plan = optimized(bound).map_err(wrong)?;
            match places_only(plan, bound.reads_all).map_err(wrong)? {
                Some((plan, _)) => plan,
                None => table_plan(bound).map_err(wrong)?,
            }
        }
        false => table_plan(bound).map_err(wrong)?,
    };
    let physical = physical(bound, &plan).await?;
    let mut text = String::new();
    text += match (chosen(bound).is_some(), is_view) {
        (true, true) => "answer: a view; these steps find its rows\n\n",
        (true, false) => "answer: a view of all rows; these steps read its columns\n\n",
        _ => "answer: a table\n\n",
    };
    if verbose {
        let before = optimized(bound).map_err(wrong)?;
        text += &format!("as asked:\n{}\n\n", bound.plan.display_indent_schema());
        text += &format!("optimized:\n{}\n\n", before.display_indent_schema());
        text += &format!("with late columns:\n{}\n\n", plan.display_indent_schema());
        text += "steps:\n";
    }
    if analyze {
        let stream = execute_stream(Arc::clone(&physical), bound.state.task_ctx()).map_err(wrong)?;
        let rows: usize = stream
            .try_fold(0, |rows, batch| async move { Ok(rows + batch.num_rows()) })
            .await
            .map_err(wrong)?;
        text += &format!("rows: {rows}\n");
        text += &DisplayableExecutionPlan::with_metrics(physical.as_ref()).indent(verbose).to_string();
    } else {
        if !verbose {
            text += &format!("{}\n\n", plan.display_indent());
        }
        text += &DisplayableExecutionPlan::new(physical.as_ref()).indent(verbose).to_string();
    }
    Ok(text.replace('\u{1}', "_"))
}
