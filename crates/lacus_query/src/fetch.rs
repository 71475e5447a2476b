//! Reads wide columns for rows whose places are known: the node of a plan, and the operator that runs it.
//!
//! ```text
//! rows with places ─cut by bytes→ ids ─read what is wanted, no more→ the same rows with more columns
//! ```

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, Int64Builder, ListBuilder, RecordBatch,
    RecordBatchOptions, StringArray, UInt32Array, UInt64Array, new_null_array,
};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, DFSchemaRef, DataFusionError, Result, exec_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use futures::StreamExt;
use futures::stream::try_unfold;
use lacus_dataset::{Batch, SampleFacts, Value, View};
use lacus_tensor::{DType, Shape, TensorRef, bytes_of as bytes_of_elements, parse_indices};

use crate::source::{Source, external};
use crate::tensors::{TensorBuilder, TensorType, cast, dtype_of};
use crate::wanted::{Side, Wanted};

/// Bytes of samples that are held at once in a batch, about.
const BATCH_BYTES: u64 = 16 << 20;

/// A column that is read.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// What it is read from.
    pub source: Arc<Source>,
    /// The column of the input that has the places of rows.
    pub place: String,
    /// The column of the source.
    pub column: String,
    /// What is read of it.
    pub wanted: Wanted,
    /// The column of the input that says for which rows; the others get NULL.
    pub when: Option<String>,
    /// What is made: its name is that of the new column.
    pub field: FieldRef,
}

impl Item {
    fn key(&self) -> (usize, &str, &str, &Wanted, Option<&str>, &str) {
        let source = Arc::as_ptr(&self.source) as usize;
        (source, &self.place, &self.column, &self.wanted, self.when.as_deref(), self.field.name())
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Item) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Item {}

impl Hash for Item {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = &self.column;
        match &self.wanted {
            Wanted::Whole => write!(f, "{column}"),
            Wanted::Part(part) => write!(f, "{column}[{part}]"),
            Wanted::Shape => write!(f, "shape({column})"),
            Wanted::Size(axis) => write!(f, "shape({column}, {axis})"),
            Wanted::Side(Side::Height) => write!(f, "height({column})"),
            Wanted::Side(Side::Width) => write!(f, "width({column})"),
            Wanted::Side(_) => write!(f, "channels({column})"),
            Wanted::Rank => write!(f, "ndim({column})"),
            Wanted::Elements(1) => write!(f, "size({column})"),
            Wanted::Elements(_) | Wanted::Bytes => write!(f, "bytes({column})"),
            Wanted::DType(_) => write!(f, "dtype({column})"),
            Wanted::Codec => write!(f, "codec({column})"),
            Wanted::IsNull => write!(f, "{column} IS NULL"),
        }?;
        match &self.when {
            Some(when) => write!(f, " where {when}"),
            None => Ok(()),
        }
    }
}

/// A node that adds columns to its input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fetch {
    input: LogicalPlan,
    items: Vec<Item>,
    schema: DFSchemaRef,
}

impl Fetch {
    pub(crate) fn new(input: LogicalPlan, items: Vec<Item>) -> Result<Fetch> {
        let mut fields: Vec<_> =
            input.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field))).collect();
        fields.extend(items.iter().map(|item| (None, Arc::clone(&item.field))));
        let schema = DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?;
        Ok(Fetch { input, items, schema: Arc::new(schema) })
    }
}

impl PartialOrd for Fetch {
    fn partial_cmp(&self, other: &Fetch) -> Option<Ordering> {
        self.input.partial_cmp(&other.input)
    }
}

impl UserDefinedLogicalNodeCore for Fetch {
    fn name(&self) -> &str {
        "LacusFetch"
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
        write!(f, "LacusFetch: {}", listed(&self.items))
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Fetch> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => Fetch::new(input, self.items.clone()),
            _ => internal_err!("LacusFetch has one input"),
        }
    }
}

fn listed(items: &[Item]) -> String {
    items.iter().map(Item::to_string).collect::<Vec<_>>().join(", ")
}

/// Plans [`Fetch`] nodes.
pub(crate) struct FetchPlanner;

#[async_trait]
impl ExtensionPlanner for FetchPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn datafusion::catalog::Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(fetch) = node.as_any().downcast_ref::<Fetch>() else { return Ok(None) };
        let [input] = inputs else { return internal_err!("LacusFetch has one input") };
        Ok(Some(Arc::new(FetchExec::new(Arc::clone(input), fetch.items.clone())?)))
    }
}

/// Where the places of rows are, and which rows are meant.
#[derive(Clone, Copy, Debug)]
struct Places {
    place: usize,
    when: Option<usize>,
}

/// Adds columns that are read by the places of rows.
#[derive(Debug)]
struct FetchExec {
    input: Arc<dyn ExecutionPlan>,
    items: Arc<[Item]>,
    /// For each item, the columns of the input that have places, and that say for which rows it is.
    places: Arc<[Places]>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl FetchExec {
    fn new(input: Arc<dyn ExecutionPlan>, items: Vec<Item>) -> Result<FetchExec> {
        let schema = input.schema();
        let places = |item: &Item| -> Result<Places> {
            let when = item.when.as_ref().map(|when| schema.index_of(when)).transpose()?;
            Ok(Places { place: schema.index_of(&item.place)?, when })
        };
        let places = items.iter().map(places).collect::<Result<Vec<_>>>()?;
        let mut fields: Vec<FieldRef> = schema.fields().to_vec();
        fields.extend(items.iter().map(|item| Arc::clone(&item.field)));
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        // Columns keep their places, so that orders of the input are orders of the output.
        let orders = input.equivalence_properties().oeq_class().iter().cloned().collect::<Vec<_>>();
        let equivalence = EquivalenceProperties::new_with_orderings(schema, orders);
        let properties = PlanProperties::new(
            equivalence,
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Ok(FetchExec {
            input,
            items: items.into(),
            places: places.into(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl DisplayAs for FetchExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LacusFetch: {}", listed(&self.items))
    }
}

impl ExecutionPlan for FetchExec {
    fn name(&self) -> &str {
        "LacusFetch"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
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
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(FetchExec::new(input, self.items.to_vec())?)),
            _ => internal_err!("LacusFetch has one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let counted = Counted {
            rows: MetricBuilder::new(&self.metrics).output_rows(partition),
            samples: MetricBuilder::new(&self.metrics).counter("samples_read", partition),
        };
        let state = Fetching {
            input: self.input.execute(partition, context)?,
            items: Arc::clone(&self.items),
            places: Arc::clone(&self.places),
            schema: self.schema(),
            parts: VecDeque::new(),
            counted,
        };
        let stream = try_unfold(state, |mut state| async move {
            let batch = state.next().await?;
            Ok(batch.map(|batch| (batch, state)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

struct Counted {
    rows: Count,
    samples: Count,
}

struct Fetching {
    input: SendableRecordBatchStream,
    items: Arc<[Item]>,
    places: Arc<[Places]>,
    schema: SchemaRef,
    /// Parts of the last batch that are still to be done.
    parts: VecDeque<RecordBatch>,
    counted: Counted,
}

impl Fetching {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(part) = self.parts.pop_front() {
                let mut arrays = part.columns().to_vec();
                for (item, places) in self.items.iter().zip(self.places.iter()) {
                    let ids = ids(item, &part, *places)?;
                    if !item.wanted.is_known() {
                        self.counted.samples.add(ids.present.len());
                    }
                    arrays.push(ids.spread(read(item, &ids.present).await?, item)?);
                }
                self.counted.rows.add(part.num_rows());
                let options = RecordBatchOptions::new().with_row_count(Some(part.num_rows()));
                let schema = Arc::clone(&self.schema);
                return Ok(Some(RecordBatch::try_new_with_options(schema, arrays, &options)?));
            }
            let Some(batch) = self.input.next().await.transpose()? else { return Ok(None) };
            self.parts = cut(&self.items, &self.places, &batch).await?;
        }
    }
}

/// A batch cut so that the samples of each part have about as many bytes as may be held.
async fn cut(items: &[Item], places: &[Places], batch: &RecordBatch) -> Result<VecDeque<RecordBatch>> {
    let mut sizes = vec![0u64; batch.num_rows()];
    for (item, places) in items.iter().zip(places) {
        if item.wanted.is_known() {
            continue;
        }
        let ids = ids(item, batch, *places)?;
        let view = item.source.view();
        if let Some(bytes) = fixed_bytes(item) {
            ids.rows().for_each(|row| sizes[row] += bytes);
            continue;
        }
        let facts = view.facts(&item.column, &ids.present).await.map_err(external)?;
        for (row, known) in ids.rows().zip(facts) {
            sizes[row] += known.map_or(0, |known| bytes_of(&known));
        }
    }
    let (mut parts, mut from) = (VecDeque::new(), 0);
    while from < sizes.len() {
        let (mut to, mut bytes) = (from, 0u64);
        while to < sizes.len() && (to == from || bytes.saturating_add(sizes[to]) <= BATCH_BYTES) {
            bytes = bytes.saturating_add(sizes[to]);
            to += 1;
        }
        parts.push_back(batch.slice(from, to - from));
        from = to;
    }
    Ok(parts)
}

/// The bytes of a sample, where all have as many.
fn fixed_bytes(item: &Item) -> Option<u64> {
    match item.field.data_type() {
        DataType::FixedSizeList(of, count) => {
            Some(of.data_type().primitive_width()? as u64 * u64::try_from(*count).ok()?)
        }
        other => other.primitive_width().map(|width| width as u64),
    }
}

/// About the bytes that a sample has in memory when it is used: a picture is decoded.
fn bytes_of(known: &SampleFacts) -> u64 {
    let elements = known.shape.iter().try_fold(1u64, |count, size| count.checked_mul(*size));
    elements.unwrap_or(u64::MAX).max(known.stored_bytes)
}

/// The ids of the rows at some places, without the rows that have none (an outer join made them) and those that are not meant.
struct Ids {
    present: Vec<u64>,
    /// For each row, which of the present it is; `None` if all are there.
    places: Option<Vec<Option<u32>>>,
}

fn ids(item: &Item, batch: &RecordBatch, columns: Places) -> Result<Ids> {
    let places = batch.column(columns.place);
    let Some(places) = places.as_any().downcast_ref::<UInt64Array>() else {
        return internal_err!("places are no numbers: {}", places.data_type());
    };
    let rows = item.source.view().rows();
    let id = |place: u64| {
        rows.get(place).ok_or_else(|| DataFusionError::Internal(format!("no row has the place {place}")))
    };
    let when = columns.when.map(|when| batch.column(when).as_boolean());
    if places.null_count() == 0 && when.is_none() {
        let present = places.values().iter().map(|place| id(*place)).collect::<Result<_>>()?;
        return Ok(Ids { present, places: None });
    }
    let is_meant = |row: usize| when.is_none_or(|when| when.is_valid(row) && when.value(row));
    let (mut present, mut at) = (Vec::new(), Vec::with_capacity(places.len()));
    for (row, place) in places.iter().enumerate() {
        let place = place.filter(|_| is_meant(row));
        at.push(place.map(|_| present.len() as u32));
        if let Some(place) = place {
            present.push(id(place)?);
        }
    }
    Ok(Ids { present, places: Some(at) })
}

impl Ids {
    /// The rows that the present ones are.
    fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        let all = match &self.places {
            None => 0..self.present.len(),
            Some(_) => 0..0,
        };
        let some =
            self.places.iter().flatten().enumerate().filter(|(_, at)| at.is_some()).map(|(row, _)| row);
        all.chain(some)
    }

    /// An array of the present rows as one of all rows.
    fn spread(&self, array: ArrayRef, item: &Item) -> Result<ArrayRef> {
        let Some(at) = &self.places else { return Ok(array) };
        let spread = match self.present.is_empty() {
            true => new_null_array(item.field.data_type(), at.len()),
            false => take(&array, &UInt32Array::from(at.clone()), None)?,
        };
        Ok(match item.wanted {
            // A row that an outer join made has no sample, and SQL's IS NULL is never null itself.
            Wanted::IsNull => {
                let is_null = spread.as_boolean().iter().map(|is_null| Some(is_null.unwrap_or(true)));
                Arc::new(is_null.collect::<BooleanArray>())
            }
            _ => spread,
        })
    }
}

/// Reads what is wanted of some rows.
async fn read(item: &Item, ids: &[u64]) -> Result<ArrayRef> {
    let (view, name) = (item.source.view(), item.column.as_str());
    match &item.wanted {
        Wanted::Whole => whole(view, name, ids, item.field.data_type()).await,
        Wanted::Part(part) => {
            let indices =
                parse_indices(part).map_err(|error| DataFusionError::Execution(error.to_string()))?;
            let batch = view.read_ids(name, ids, &indices).await.map_err(external)?;
            tensors(batch, &item.field, ids.len())
        }
        Wanted::IsNull | Wanted::DType(_) => {
            let runs = view.present(name).await.map_err(external)?;
            let is_null = |id: &u64| {
                let at = runs.partition_point(|(first, count)| first + count <= *id);
                runs.get(at).is_none_or(|(first, _)| first > id)
            };
            Ok(match &item.wanted {
                Wanted::DType(name) => {
                    Arc::new(StringArray::from_iter(ids.iter().map(|id| (!is_null(id)).then_some(name))))
                }
                _ => Arc::new(BooleanArray::from_iter(ids.iter().map(|id| Some(is_null(id))))),
            })
        }
        known => {
            let facts = view.facts(name, ids).await.map_err(external)?;
            let ints = |of: &dyn Fn(&SampleFacts) -> Result<Option<i64>>| -> Result<ArrayRef> {
                let one = |known: &Option<SampleFacts>| known.as_ref().map_or(Ok(None), of);
                Ok(Arc::new(facts.iter().map(one).collect::<Result<Int64Array>>()?))
            };
            Ok(match known {
                Wanted::Codec => {
                    Arc::new(StringArray::from_iter(facts.iter().map(|known| Some(&known.as_ref()?.codec))))
                }
                Wanted::Bytes => ints(&|known| Ok(Some(known.stored_bytes as i64)))?,
                Wanted::Size(axis) => ints(&|known| size(&known.shape, *axis).map(Some))?,
                Wanted::Side(side) => ints(&|known| Ok(side.of(&known.shape).map(|size| size as i64)))?,
                Wanted::Rank => ints(&|known| Ok(Some(known.shape.len() as i64)))?,
                Wanted::Elements(bytes) => {
                    ints(&|known| Ok(Some((known.shape.iter().product::<u64>() * bytes) as i64)))?
                }
                _ => shapes(&facts, &item.field)?,
            })
        }
    }
}

/// The size of an axis, with the error that `shape` has.
fn size(shape: &[u64], axis: i64) -> Result<i64> {
    let at = if axis < 0 { axis + shape.len() as i64 } else { axis };
    match usize::try_from(at).ok().and_then(|at| shape.get(at)) {
        Some(size) => Ok(*size as i64),
        None => exec_err!("shape: axis {axis} is out of bounds for a tensor with {} axes", shape.len()),
    }
}

/// Shapes, of the type that the plan says.
fn shapes(facts: &[Option<SampleFacts>], field: &Field) -> Result<ArrayRef> {
    let Some(wanted) = TensorType::of(field) else {
        let mut lists = ListBuilder::new(Int64Builder::new());
        if let DataType::List(item) = field.data_type() {
            lists = lists.with_field(Arc::clone(item));
        }
        for known in facts {
            if let Some(known) = known {
                known.shape.iter().for_each(|size| lists.values().append_value(*size as i64));
            }
            lists.append(known.is_some());
        }
        return Ok(Arc::new(lists.finish()));
    };
    let mut builder = TensorBuilder::new("shape", &wanted, facts.len())?;
    for known in facts {
        let Some(known) = known else {
            builder.push_null();
            continue;
        };
        let sizes: Vec<i64> = known.shape.iter().map(|size| *size as i64).collect();
        let shape = Shape::new([sizes.len() as u64])
            .map_err(|error| DataFusionError::Execution(error.to_string()))?;
        let tensor = TensorRef::contiguous(DType::I64, &shape, bytes_of_elements(&sizes))
            .map_err(|error| DataFusionError::Execution(error.to_string()))?;
        builder.push(&tensor)?;
    }
    builder.finish()
}

/// All of some samples.
async fn whole(view: &View, name: &str, ids: &[u64], data_type: &DataType) -> Result<ArrayRef> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for id in ids {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == *id => *count += 1,
            _ => runs.push((*id, 1)),
        }
    }
    match view.array(name, &runs).await.map_err(external)? {
        Some(array) => Ok(array),
        None if ids.len() > 1 => {
            let (front, back) = ids.split_at(ids.len() / 2);
            let front = Box::pin(whole(view, name, front, data_type)).await?;
            let back = Box::pin(whole(view, name, back, data_type)).await?;
            Ok(concat(&[&front, &back])?)
        }
        None => {
            Err(DataFusionError::Execution(format!("column {name:?}: one sample is too large for an array")))
        }
    }
}

/// Parts of samples, as the type that the plan says.
fn tensors(batch: Batch, field: &Field, rows: usize) -> Result<ArrayRef> {
    // An element is a plain number.
    let number = || dtype_of(field.data_type()).map(TensorType::number);
    let Some(wanted) = TensorType::of(field).or_else(number) else {
        return internal_err!("a part of a tensor is no tensor: {field}");
    };
    let mut builder = TensorBuilder::new("subscript", &wanted, rows)?;
    let push = |builder: &mut TensorBuilder, tensor: TensorRef<'_>| match tensor.dtype() == wanted.dtype {
        true => builder.push(&tensor),
        false => {
            let tensor = cast(&tensor, wanted.dtype)
                .map_err(|error| DataFusionError::Execution(format!("subscript: {error}")))?;
            builder.push(&tensor.as_ref())
        }
    };
    match batch {
        Batch::Stacked(tensor) => {
            let dims = tensor.shape().dims();
            let inner =
                Shape::new(&dims[1..]).map_err(|error| DataFusionError::Execution(error.to_string()))?;
            let item = tensor.bytes().len() / rows.max(1);
            for row in 0..rows {
                let bytes = &tensor.bytes()[row * item..(row + 1) * item];
                let one = TensorRef::contiguous(tensor.dtype(), &inner, bytes)
                    .map_err(|error| DataFusionError::Execution(error.to_string()))?;
                push(&mut builder, one)?;
            }
        }
        Batch::Values(values) => {
            for value in &values {
                match value {
                    Some(Value::Tensor(tensor)) => push(&mut builder, tensor.as_ref())?,
                    None => builder.push_null(),
                    Some(_) => return internal_err!("a part of a tensor is no tensor"),
                }
            }
        }
    }
    builder.finish()
}
