//! Finds the rows that are nearest to a vector, in place of a sort by a distance with a limit: the node of a plan, and the operator
//! that runs it.
//!
//! ```text
//! Sort: l2_distance(v, q), fetch=10         Sort: rank, fetch=10       costs nothing: rows come in this order
//!   │                               ──→       │
//! Filter: label = 3                         LacusNearest: v
//!                                             │
//!                                           Filter: label = 3          places of rows that may be found
//! ```
//!
//! What may be found is known before anything is compared, so a filter never takes away what was found.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt64Array};
use arrow::compute::{SortOptions, interleave};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, UInt64Type};
use async_trait::async_trait;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, DFSchemaRef, DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, SortExpr, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::expressions::Column as PhysicalColumn;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use futures::{StreamExt, TryStreamExt};
use lacus_search::{Allowed, Found, Measure, Nearest, QueryVector, Ranking, expected, nearest};
use lacus_tensor::DType;

use crate::functions::{is_single, measure_of};
use crate::language::NAN_AS_NULL;
use crate::source::{Source, external};
use crate::tensors::{Dims, TensorArray, TensorType, in_order, loaded};
use crate::wanted::{place_name, scan_of};

/// Bytes of rows that are held while it is not known which of them are found.
const HELD_BYTES: usize = 64 << 20;

/// What a sort looks for, if it is by the distance of a wide column from a constant: the scan that the column is of, and the rest.
pub(crate) fn sought(
    by: &Expr,
    sort: &SortExpr,
    fetch: usize,
    sources: &[Arc<Source>],
) -> Result<Option<(usize, Nearest)>> {
    // Names that rules gave to parts are no parts.
    let by = by.clone().unalias_nested().data;
    let (call, nan_is_null) = match &by {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == NAN_AS_NULL => {
            match &args[..] {
                [Expr::ScalarFunction(inner)] => (inner, true),
                _ => return Ok(None),
            }
        }
        Expr::ScalarFunction(call) => (call, false),
        _ => return Ok(None),
    };
    let Some(measure) = measure_of(call.func.name()) else { return Ok(None) };
    let is_constant = |expr: &Expr| expr.column_refs().is_empty() && !expr.is_volatile();
    let (column, constant) = match &call.args[..] {
        [Expr::Column(column), constant] | [constant, Expr::Column(column)] if is_constant(constant) => {
            (column, constant)
        }
        _ => return Ok(None),
    };
    let Some(scan) = scan_of(column) else { return Ok(None) };
    let field = sources[scan].schema().field_with_name(&column.name)?;
    let Some(TensorType { dtype, dims: Dims::Fixed(shape) }) = TensorType::of(field) else { return Ok(None) };
    // A list of numbers of several types may be a call still.
    let constant = match constant {
        Expr::Literal(..) => constant.clone(),
        other => ExprSimplifier::new(SimplifyContext::default()).simplify(other.clone())?,
    };
    let Some(query) = query_of(measure, dtype, &shape, &constant)? else { return Ok(None) };
    let ranking = Ranking { descending: !sort.asc, nulls_first: sort.nulls_first, nan_is_null };
    let column = column.name.clone();
    Ok(Some((scan, Nearest { column, measure, query, ranking, count: fetch, by_index: true })))
}

/// The constant, if it is a vector as the column has them.
fn query_of(measure: Measure, dtype: DType, shape: &[u64], constant: &Expr) -> Result<Option<QueryVector>> {
    let Expr::Literal(value, _) = constant else { return Ok(None) };
    let (_, field) = constant.to_field(&DFSchema::empty())?;
    let is_vector = matches!(shape, [size] if *size > 0) && !dtype.is_complex();
    if !is_vector || value.is_null() || TensorArray::type_of(&field).is_none() {
        return Ok(None);
    }
    let values = TensorArray::new("search", &value.to_array()?, &field)?;
    let Some(row) = values.get(0)? else { return Ok(None) };
    let tensor = row.view();
    if tensor.shape().dims() != shape || tensor.dtype().is_complex() {
        return Ok(None);
    }
    let bytes = in_order(&tensor);
    Ok(Some(match measure != Measure::Hamming && is_single(dtype, tensor.dtype(), &field) {
        true => QueryVector::Single(loaded::<f32>(tensor.dtype(), &bytes)),
        false => QueryVector::Double(loaded::<f64>(tensor.dtype(), &bytes)),
    }))
}

/// A node that keeps the nearest rows of its input, and adds a column with their ranks.
#[derive(Clone, Debug)]
pub(crate) struct NearestRows {
    input: LogicalPlan,
    source: Arc<Source>,
    /// The column of the input that has the places of rows.
    place: String,
    /// The column that is added.
    rank: String,
    wanted: Arc<Nearest>,
    schema: DFSchemaRef,
}

impl NearestRows {
    pub(crate) fn new(
        input: LogicalPlan,
        source: Arc<Source>,
        scan: usize,
        rank: String,
        wanted: Arc<Nearest>,
    ) -> Result<NearestRows> {
        NearestRows::over(input, source, place_name(scan), rank, wanted)
    }

    fn over(
        input: LogicalPlan,
        source: Arc<Source>,
        place: String,
        rank: String,
        wanted: Arc<Nearest>,
    ) -> Result<NearestRows> {
        let mut fields: Vec<_> =
            input.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field))).collect();
        fields.push((None, Arc::new(Field::new(&rank, DataType::UInt64, false))));
        let schema = Arc::new(DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?);
        Ok(NearestRows { input, source, place, rank, wanted, schema })
    }

    fn key(&self) -> (&LogicalPlan, usize, &str, &str, usize) {
        let (source, wanted) = (Arc::as_ptr(&self.source) as usize, Arc::as_ptr(&self.wanted) as usize);
        (&self.input, source, &self.place, &self.rank, wanted)
    }
}

impl PartialEq for NearestRows {
    fn eq(&self, other: &NearestRows) -> bool {
        self.key() == other.key()
    }
}

impl Eq for NearestRows {}

impl Hash for NearestRows {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialOrd for NearestRows {
    fn partial_cmp(&self, other: &NearestRows) -> Option<Ordering> {
        self.input.partial_cmp(&other.input)
    }
}

impl UserDefinedLogicalNodeCore for NearestRows {
    fn name(&self) -> &str {
        "LacusNearest"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LacusNearest: {}", shown(&self.wanted))
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<NearestRows> {
        let NearestRows { source, place, rank, wanted, .. } = self.clone();
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => NearestRows::over(input, source, place, rank, wanted),
            _ => internal_err!("LacusNearest has one input"),
        }
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let columns = self.input.schema().fields().len();
        let place = self.input.schema().index_of_column_by_name(None, &self.place)?;
        let mut needed: Vec<usize> =
            output_columns.iter().copied().filter(|column| *column < columns).collect();
        needed.push(place);
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }
}

/// What is looked for, for people.
fn shown(wanted: &Nearest) -> String {
    let Nearest { column, measure, ranking, count, .. } = wanted;
    let order = if ranking.descending { "desc" } else { "asc" };
    format!("{column}, {} {order}, k={count}", measure.name())
}

/// Whether a plan has all rows of a view and nothing but their places.
fn is_whole(plan: &LogicalPlan) -> bool {
    fn has_all_rows(plan: &LogicalPlan) -> bool {
        match plan {
            LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => {
                plan.inputs().into_iter().all(has_all_rows)
            }
            LogicalPlan::TableScan(scan) => scan.filters.is_empty() && scan.fetch.is_none(),
            _ => false,
        }
    }
    plan.schema().fields().len() == 1 && has_all_rows(plan)
}

/// Whether a plan looks for nearest rows.
pub(crate) fn has_nearest(plan: &LogicalPlan) -> bool {
    let is_nearest = match plan {
        LogicalPlan::Extension(extension) => extension.node.as_any().is::<NearestRows>(),
        _ => false,
    };
    is_nearest || plan.inputs().into_iter().any(has_nearest)
}

/// Plans [`NearestRows`] nodes.
pub(crate) struct NearestPlanner;

#[async_trait]
impl ExtensionPlanner for NearestPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        logical: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn datafusion::catalog::Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<NearestRows>() else { return Ok(None) };
        let ([logical], [input]) = (logical, inputs) else {
            return internal_err!("LacusNearest has one input");
        };
        let expected = expected(node.source.view(), &node.wanted).await.map_err(external)?;
        let input = (!is_whole(logical)).then(|| Arc::clone(input));
        let seeker = Seeker {
            source: Arc::clone(&node.source),
            wanted: Arc::clone(&node.wanted),
            place: node.place.clone(),
            rank: node.rank.clone(),
            expected,
        };
        Ok(Some(Arc::new(NearestExec::new(input, Arc::new(seeker))?)))
    }
}

/// What the operator looks for.
#[derive(Debug)]
struct Seeker {
    source: Arc<Source>,
    wanted: Arc<Nearest>,
    place: String,
    rank: String,
    /// How it is going to be found, for people.
    expected: String,
}

/// Keeps the nearest rows.
#[derive(Debug)]
struct NearestExec {
    /// The rows that may be found; all of the view if there is none.
    input: Option<Arc<dyn ExecutionPlan>>,
    seeker: Arc<Seeker>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl NearestExec {
    fn new(input: Option<Arc<dyn ExecutionPlan>>, seeker: Arc<Seeker>) -> Result<NearestExec> {
        let mut fields: Vec<FieldRef> = match &input {
            Some(input) => input.schema().fields().to_vec(),
            None => vec![Arc::new(Field::new(&seeker.place, DataType::UInt64, false))],
        };
        let metadata = input.as_ref().map(|input| input.schema().metadata().clone()).unwrap_or_default();
        fields.push(Arc::new(Field::new(&seeker.rank, DataType::UInt64, false)));
        let rank: Arc<dyn PhysicalExpr> = Arc::new(PhysicalColumn::new(&seeker.rank, fields.len() - 1));
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        let ascending = SortOptions { descending: false, nulls_first: true };
        let order = vec![PhysicalSortExpr::new(rank, ascending)];
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(schema, [order]),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(NearestExec { input, seeker, properties: Arc::new(properties), metrics })
    }
}

impl DisplayAs for NearestExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LacusNearest: {}, {}", shown(&self.seeker.wanted), self.seeker.expected)
    }
}

impl ExecutionPlan for NearestExec {
    fn name(&self) -> &str {
        "LacusNearest"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.input.iter().collect()
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input.iter().map(|_| Distribution::SinglePartition).collect()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(NearestExec::new(children.pop(), Arc::clone(&self.seeker))?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.as_ref().map(|input| input.execute(0, context)).transpose()?;
        let (seeker, schema, metrics) = (Arc::clone(&self.seeker), self.schema(), self.metrics.clone());
        let rows = MetricBuilder::new(&self.metrics).output_rows(partition);
        let made = async move {
            let (batch, found) = match input {
                None => seeker.of_all(&schema).await?,
                Some(input) => seeker.of_some(input, &schema).await?,
            };
            let count = |name: &'static str, value: u64| {
                MetricBuilder::new(&metrics).counter(name, partition).add(value as usize);
            };
            count("rows_scanned", found.report.scanned);
            if let Some(index) = &found.report.index {
                count("index_covers", index.covered);
                count("lists_probed", index.probed);
                count("lists", index.lists);
            }
            rows.add(batch.num_rows());
            Ok::<_, DataFusionError>(batch)
        };
        let stream = futures::stream::once(made);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream.boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

impl Seeker {
    /// The nearest of all rows.
    async fn of_all(&self, schema: &SchemaRef) -> Result<(RecordBatch, Found)> {
        let found = nearest(self.source.view(), &self.wanted, Allowed::All).await.map_err(external)?;
        let places: ArrayRef = Arc::new(UInt64Array::from(found.places.clone()));
        let ranks: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..found.places.len() as u64));
        Ok((RecordBatch::try_new(Arc::clone(schema), vec![places, ranks])?, found))
    }

    /// The nearest of some rows.
    async fn of_some(
        &self,
        mut input: SendableRecordBatchStream,
        schema: &SchemaRef,
    ) -> Result<(RecordBatch, Found)> {
        let place = input.schema().index_of(&self.place)?;
        let (mut held, mut bytes): (Vec<RecordBatch>, usize) = (Vec::new(), 0);
        while let Some(batch) = input.try_next().await? {
            bytes += batch.get_array_memory_size();
            held.push(batch);
            // Rows that are not among the nearest so far are not among those of all.
            if bytes > HELD_BYTES && input.schema().fields().len() > 1 {
                let (kept, _) = self.first(&held, place, schema).await?;
                bytes = kept.get_array_memory_size();
                held = vec![kept.project(&(0..input.schema().fields().len()).collect::<Vec<_>>())?];
            }
        }
        self.first(&held, place, schema).await
    }

    /// The nearest of rows that are held, with their ranks.
    async fn first(
        &self,
        held: &[RecordBatch],
        place: usize,
        schema: &SchemaRef,
    ) -> Result<(RecordBatch, Found)> {
        let mut places: Vec<u64> = Vec::with_capacity(held.iter().map(RecordBatch::num_rows).sum());
        for batch in held {
            places.extend_from_slice(batch.column(place).as_primitive::<UInt64Type>().values());
        }
        places.sort_unstable();
        let view = self.source.view();
        let found = nearest(view, &self.wanted, Allowed::Places(&places)).await.map_err(external)?;
        let ranks: HashMap<u64, usize> = found.places.iter().copied().zip(0..).collect();
        let mut rows = vec![(0, 0); found.places.len()];
        for (at, batch) in held.iter().enumerate() {
            for (row, place) in batch.column(place).as_primitive::<UInt64Type>().values().iter().enumerate() {
                if let Some(rank) = ranks.get(place) {
                    rows[*rank] = (at, row);
                }
            }
        }
        let columns = schema.fields().len() - 1;
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns + 1);
        for column in 0..columns {
            let parts: Vec<&dyn Array> = held.iter().map(|batch| batch.column(column).as_ref()).collect();
            arrays.push(match parts.is_empty() {
                true => arrow::array::new_empty_array(schema.field(column).data_type()),
                false => interleave(&parts, &rows)?,
            });
        }
        arrays.push(Arc::new(UInt64Array::from_iter_values(0..rows.len() as u64)));
        Ok((RecordBatch::try_new(Arc::clone(schema), arrays)?, found))
    }
}
