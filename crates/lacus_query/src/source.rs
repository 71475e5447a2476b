//! A view as a table of DataFusion's: its narrow columns in batches, with the place of each row where that is asked for.
//!
//! ```text
//! filters ─prune→ runs of rows that may pass ─cut into partitions→ each: read a window, slice it into batches
//! ```
//!
//! The rows of a partition follow each other in the view, and the plan is told so: a sort by place costs nothing.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::expressions::Column as PhysicalColumn;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::stream::try_unfold;
use lacus_arrow::Mapping;
use lacus_dataset::{Filter, PlacedRun, View};
use lacus_sample::Form;

use crate::language::{ID, ROW};
use crate::prune::{Columns, superset};
use crate::tensors::Kind;

/// The column that has the place of each row in the view, where it is asked for. No name of a user's begins with it: planning
/// happens without it.
pub(crate) const PLACE: &str = "\u{1}place";

/// Rows that are read together at most.
const WINDOW_ROWS: u64 = 128 << 10;

/// Bytes that are read together, about.
const WINDOW_BYTES: u64 = 16 << 20;

/// Rows that are worth a partition of their own.
const PARTITION_ROWS: u64 = 32 << 10;

/// A text of more bytes than this is read late.
const NARROW_TEXT_BYTES: u64 = 64;

/// A view as a table.
#[derive(Clone)]
pub(crate) struct Source {
    view: View,
    schema: SchemaRef,
    mappings: Arc<HashMap<String, Mapping>>,
    /// Columns whose dates, times or decimals are integers.
    counted: Arc<HashSet<String>>,
    /// By column: whether its samples are read late.
    wide: Arc<[bool]>,
    /// What stands behind the columns.
    more: Vec<Read>,
    /// Whether filters rule rows out.
    is_pruned: bool,
}

/// What a column of a scan is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Read {
    Column(String),
    /// The place of a row, for plans.
    Place,
    /// The place of a row, for users.
    Row,
    /// The id of a row.
    Id,
}

impl Read {
    fn field(&self) -> Field {
        match self {
            Read::Column(name) => Field::new(name, DataType::Null, true),
            Read::Place => Field::new(PLACE, DataType::UInt64, false),
            // Signed, as other numbers of SQL are: users compute with them.
            Read::Row => Field::new(ROW, DataType::Int64, false),
            Read::Id => Field::new(ID, DataType::Int64, false),
        }
    }
}

impl Source {
    /// The stored columns of a view.
    pub(crate) async fn new(view: &View) -> Result<Source, lacus_dataset::DatasetError> {
        let names: Vec<String> =
            view.columns().into_iter().filter(|name| !view.computed().contains_key(name)).collect();
        Source::of(view, &names).await
    }

    /// Some stored columns of a view.
    pub(crate) async fn of(view: &View, names: &[String]) -> Result<Source, lacus_dataset::DatasetError> {
        let (mut mappings, mut counted) = (HashMap::new(), HashSet::new());
        let mut wide = Vec::with_capacity(names.len());
        for name in names {
            let facts = view.source().column_facts(name)?;
            let is_wide = match facts.column.form() {
                Form::Blob => true,
                Form::Text => view.usual_bytes(name).await? > 4 * NARROW_TEXT_BYTES,
                Form::Int | Form::Float | Form::Real => false,
            };
            if facts.column.form() == Form::Int && facts.column.logical().is_some() {
                counted.insert(name.clone());
            }
            wide.push(is_wide || facts.column.htype().link);
            if let Ok(mapping) = Mapping::of(&facts.column, facts.metadata.as_ref()) {
                mappings.insert(name.clone(), mapping);
            }
        }
        let schema = view.arrow_schema(names)?;
        Ok(Source {
            view: view.clone(),
            schema,
            mappings: Arc::new(mappings),
            counted: Arc::new(counted),
            wide: wide.into(),
            more: Vec::new(),
            is_pruned: true,
        })
    }

    /// The same table, with the places of rows as its last column.
    pub(crate) fn with_place(&self) -> Source {
        self.with(&[Read::Place])
    }

    /// The same table, with the places and the ids of rows as its last columns, for users.
    pub(crate) fn with_identity(&self) -> Source {
        self.with(&[Read::Row, Read::Id])
    }

    fn with(&self, more: &[Read]) -> Source {
        let mut fields = self.schema.fields().to_vec();
        fields.extend(more.iter().map(|more| Arc::new(more.field())));
        let more = [&self.more[..], more].concat();
        Source { schema: Arc::new(Schema::new(fields)), more, ..self.clone() }
    }

    /// The same table, which reads all rows whatever a filter says.
    pub(crate) fn unpruned(&self) -> Source {
        Source { is_pruned: false, ..self.clone() }
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Whether a column is read late.
    pub(crate) fn is_wide(&self, column: usize) -> bool {
        self.wide.get(column).copied().unwrap_or(false)
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Columns for Source {
    fn mapping(&self, name: &str) -> Option<&Mapping> {
        self.mappings.get(name)
    }

    fn is_counted(&self, name: &str) -> bool {
        self.counted.contains(name)
    }

    fn kind(&self, name: &str) -> Kind {
        match self.schema.index_of(name) {
            Ok(column) if self.is_wide(column) => Kind::of(self.schema.field(column)),
            _ => Kind::Other,
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("view", &self.view).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for Source {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let one = |filter: &&Expr| match superset(filter, self).filter(|_| self.is_pruned) {
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(one).collect())
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let filter = filters.iter().filter_map(|filter| superset(filter, self)).reduce(Filter::and);
        let mut runs = self.view.possible(filter.as_ref()).await.map_err(external)?;
        if let Some(limit) = limit {
            keep(&mut runs, limit as u64);
        }
        let columns: Vec<usize> = match projection {
            Some(columns) => columns.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let stored = self.schema.fields().len() - self.more.len();
        let reads: Vec<Read> = columns
            .iter()
            .map(|&column| match column.checked_sub(stored) {
                Some(more) => self.more[more].clone(),
                None => Read::Column(self.schema.field(column).name().clone()),
            })
            .collect();
        let mut usual = 0;
        for read in &reads {
            if let Read::Column(name) = read {
                usual += self.view.usual_bytes(name).await.map_err(external)?;
            }
        }
        let target = session.config().target_partitions();
        Ok(Arc::new(ScanExec::new(Scanned {
            view: self.view.clone(),
            schema: Arc::new(self.schema.project(&columns)?),
            reads,
            usual_bytes: usual.max(1),
            all_rows: self.view.len(),
            is_exact: filters.is_empty(),
            filter: filter.map(|filter| format!("{filter:?}")),
            partitions: cut(runs, target),
        })))
    }
}

/// An error of a dataset's in DataFusion's. Shared, since DataFusion may hand one error to several partitions.
pub(crate) fn external(error: lacus_dataset::DatasetError) -> DataFusionError {
    DataFusionError::External(Box::new(Arc::new(error)))
}

/// Keeps the first rows.
fn keep(runs: &mut Vec<PlacedRun>, mut rows: u64) {
    runs.retain_mut(|run| {
        run.count = run.count.min(rows);
        rows -= run.count;
        run.count > 0
    });
}

/// Rows cut into at most `most` parts of about the same size, in their order.
fn cut(runs: Vec<PlacedRun>, most: usize) -> Vec<Vec<PlacedRun>> {
    let all: u64 = runs.iter().map(|run| run.count).sum();
    let parts = (all / PARTITION_ROWS).clamp(1, most.max(1) as u64);
    let size = all.div_ceil(parts).max(1);
    let mut cut = vec![Vec::new()];
    let mut room = size;
    for mut run in runs {
        while run.count > 0 {
            if room == 0 {
                cut.push(Vec::new());
                room = size;
            }
            let (front, back) = split(run, room);
            room -= front.count;
            if let Some(last) = cut.last_mut() {
                last.push(front);
            }
            run = back;
        }
    }
    cut
}

/// The first `count` rows of a run at most, and the others.
fn split(run: PlacedRun, count: u64) -> (PlacedRun, PlacedRun) {
    let front = PlacedRun { count: run.count.min(count), ..run };
    let back = PlacedRun {
        place: run.place + front.count,
        id: run.id + front.count,
        count: run.count - front.count,
    };
    (front, back)
}

/// What a scan reads.
#[derive(Debug)]
struct Scanned {
    view: View,
    schema: SchemaRef,
    reads: Vec<Read>,
    usual_bytes: u64,
    all_rows: u64,
    /// Whether no filter was pushed down.
    is_exact: bool,
    filter: Option<String>,
    partitions: Vec<Vec<PlacedRun>>,
}

/// Reads narrow columns of a view.
#[derive(Debug)]
pub(crate) struct ScanExec {
    scanned: Arc<Scanned>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanExec {
    fn new(scanned: Scanned) -> ScanExec {
        let schema = Arc::clone(&scanned.schema);
        let place = scanned.reads.iter().position(|read| *read == Read::Place);
        let equivalence = match place {
            Some(place) => {
                let column: Arc<dyn PhysicalExpr> = Arc::new(PhysicalColumn::new(PLACE, place));
                let ascending = SortOptions { descending: false, nulls_first: true };
                let order = vec![PhysicalSortExpr::new(column, ascending)];
                EquivalenceProperties::new_with_orderings(schema, [order])
            }
            None => EquivalenceProperties::new(schema),
        };
        let properties = PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(scanned.partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        ScanExec {
            scanned: Arc::new(scanned),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn rows(&self) -> u64 {
        self.scanned.partitions.iter().flatten().map(|run| run.count).sum()
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scanned { reads, all_rows, filter, .. } = &*self.scanned;
        let shown = |read: &Read| match read {
            Read::Column(name) => name.clone(),
            Read::Place | Read::Row => "(place)".to_owned(),
            Read::Id => "(id)".to_owned(),
        };
        let columns: Vec<String> = reads.iter().map(shown).collect();
        write!(f, "LacusScan: columns=[{}], rows={} of {all_rows}", columns.join(", "), self.rows())?;
        match filter {
            Some(filter) => write!(f, ", pruned_by={filter}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &str {
        "LacusScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = MetricBuilder::new(&self.metrics).output_rows(partition);
        let batch_rows = context.session_config().batch_size().max(1);
        let state = Reading {
            scanned: Arc::clone(&self.scanned),
            rest: self.scanned.partitions[partition].iter().copied().rev().collect(),
            window: None,
            batch_rows,
        };
        let stream = try_unfold(state, move |mut state| {
            let rows = rows.clone();
            async move {
                let batch = state.next().await?;
                Ok(batch.map(|batch| {
                    rows.add(batch.num_rows());
                    (batch, state)
                }))
            }
        });
        let stream = RecordBatchStreamAdapter::new(Arc::clone(&self.scanned.schema), stream);
        Ok(make_cooperative(Box::pin(stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.scanned.schema);
        let rows = match args.partition() {
            Some(partition) => self.scanned.partitions[partition].iter().map(|run| run.count).sum(),
            None => self.rows(),
        } as usize;
        statistics.num_rows =
            if self.scanned.is_exact { Precision::Exact(rows) } else { Precision::Inexact(rows) };
        Ok(Arc::new(statistics))
    }
}

/// A partition that is read.
struct Reading {
    scanned: Arc<Scanned>,
    /// What is still to be read, the next last.
    rest: Vec<PlacedRun>,
    /// What was read, and how many rows of it were handed on.
    window: Option<(RecordBatch, usize)>,
    batch_rows: usize,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some((window, from)) = self.window.take()
                && from < window.num_rows()
            {
                let rows = self.batch_rows.min(window.num_rows() - from);
                let batch = window.slice(from, rows);
                self.window = Some((window, from + rows));
                return Ok(Some(batch));
            }
            let most = (WINDOW_BYTES / self.scanned.usual_bytes).clamp(1, WINDOW_ROWS);
            let runs = self.take(most);
            if runs.is_empty() {
                return Ok(None);
            }
            self.window = Some((self.read(&runs).await?, 0));
        }
    }

    /// The next rows.
    fn take(&mut self, mut most: u64) -> Vec<PlacedRun> {
        let mut taken = Vec::new();
        while most > 0
            && let Some(run) = self.rest.pop()
        {
            let (front, back) = split(run, most);
            most -= front.count;
            taken.push(front);
            if back.count > 0 {
                self.rest.push(back);
            }
        }
        taken
    }

    async fn read(&mut self, runs: &[PlacedRun]) -> Result<RecordBatch> {
        let rows: u64 = runs.iter().map(|run| run.count).sum();
        let ids: Vec<(u64, u64)> = runs.iter().map(|run| (run.id, run.count)).collect();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.scanned.reads.len());
        for read in &self.scanned.reads {
            let places = || runs.iter().flat_map(|run| run.place..run.place + run.count);
            let name = match read {
                Read::Column(name) => name,
                Read::Place => {
                    arrays.push(Arc::new(UInt64Array::from_iter_values(places())));
                    continue;
                }
                Read::Row => {
                    arrays.push(Arc::new(Int64Array::from_iter_values(places().map(|place| place as i64))));
                    continue;
                }
                Read::Id => {
                    let ids = runs.iter().flat_map(|run| run.id..run.id + run.count);
                    arrays.push(Arc::new(Int64Array::from_iter_values(ids.map(|id| id as i64))));
                    continue;
                }
            };
            match self.scanned.view.array(name, &ids).await.map_err(external)? {
                Some(array) => arrays.push(array),
                None if rows > 1 => {
                    // Larger than was thought: the second half waits.
                    let (mut front, mut left) = (Vec::new(), rows / 2);
                    let mut back = Vec::new();
                    for run in runs {
                        let (first, second) = split(*run, left);
                        left -= first.count;
                        front.extend((first.count > 0).then_some(first));
                        back.extend((second.count > 0).then_some(second));
                    }
                    self.rest.extend(back.into_iter().rev());
                    return Box::pin(self.read(&front)).await;
                }
                None => {
                    let why = format!("column {name:?}: one sample is too large for an Arrow array");
                    return Err(DataFusionError::Execution(why));
                }
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows as usize));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.scanned.schema), arrays, &options)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_have_all_rows_in_order() {
        let run = |place, id, count| PlacedRun { place, id, count };
        let all = vec![run(0, 5, 40_000), run(40_000, 70_000, 1), run(40_001, 0, 60_000)];
        let parts = cut(all.clone(), 3);
        assert_eq!(parts.len(), 3);
        let rows = |runs: &[PlacedRun]| runs.iter().map(|run| run.count).sum::<u64>();
        assert!(parts.iter().all(|part| rows(part).abs_diff(33_334) < 3), "{parts:?}");
        let places = parts.iter().flatten().flat_map(|run| run.place..run.place + run.count);
        assert!(places.eq(0..100_001));
        assert_eq!(cut(all, 1).len(), 1);
        assert_eq!(cut(Vec::new(), 8), [vec![]]);
        let mut few = vec![run(0, 0, 4), run(4, 9, 4)];
        keep(&mut few, 5);
        assert_eq!(few, [run(0, 0, 4), run(4, 9, 1)]);
    }
}
