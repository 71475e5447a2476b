//! An array as a table of DataFusion's: `cells('uber')` has a row per stored cell, with its coordinates and its value.
//!
//! ```text
//! c0 = 3 AND c1 < 100 ─ranges→ a box ─cut at chunks→ parts of some MiB ─plan, fetch, decode→ coordinates and values
//! ```
//!
//! Dense arrays have a row for each element, sparse ones for each element that is stored. No more than a part per partition
//! is in memory. Where the parts follow each other in C order, the plan is told so, and a sort by coordinates costs nothing.

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
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::stream::try_unfold;
use lacus_dataset::{DatasetError, View};
use lacus_error::did_you_mean;
use lacus_io::blocking;
use lacus_table::{Read, TableError, TensorInfo};
use lacus_tensor::{Buffer, DType, Shape, SparseTensor, Tensor};

use crate::cell_parts::{Part, Splitter, range_of};
use crate::error::QueryError;
use crate::faults::close_to;
use crate::source::{PLACE, external};
use crate::tensors::{TensorType, cast};

/// The name of the column that has the values.
const VALUE: &str = "value";

/// An array as a table.
#[derive(Clone)]
pub(crate) struct Cells {
    splitter: Arc<Splitter>,
    schema: SchemaRef,
}

impl Cells {
    /// An array of a dataset, at the state of a view.
    pub(crate) async fn open(view: &View, name: &str) -> Result<Cells, QueryError> {
        let info = known_array(view, name, "cells")?;
        let read = view.source().table().plan(name, &[]).await.map_err(DatasetError::from)?;
        let (dtype, rank) = (info.header.dtype, info.header.shape.rank());
        let mut fields: Vec<Field> =
            (0..rank).map(|axis| Field::new(format!("c{axis}"), DataType::Int64, false)).collect();
        let value = TensorType::number(shown_dtype(dtype)).field(VALUE);
        let value = value.map_err(|error| QueryError::Internal(error.to_string()))?;
        fields.push(value.with_nullable(false));
        let splitter = Arc::new(Splitter::new(info, read));
        Ok(Cells { splitter, schema: Arc::new(Schema::new(fields)) })
    }

    /// The same table with the places of cells in C order as its last column; `None` if numbers of 64 bits do not reach the last.
    pub(crate) fn with_place(&self) -> Option<Cells> {
        self.splitter.dims().iter().try_fold(1u64, |count, size| count.checked_mul(*size))?;
        let mut fields = self.schema.fields().to_vec();
        fields.push(Arc::new(Field::new(PLACE, DataType::UInt64, false)));
        Some(Cells { schema: Arc::new(Schema::new(fields)), ..self.clone() })
    }

    pub(crate) fn columns(&self) -> &SchemaRef {
        &self.schema
    }
}

/// What is known about an array that a function of this name reads.
pub(crate) fn known_array(view: &View, name: &str, function: &str) -> Result<TensorInfo, QueryError> {
    let table = view.source().table();
    if table.is_column(name) {
        let quoted = name.replace('"', "\"\"");
        let why = format!(
            "{name:?} is a column, and `{function}` reads arrays: query it by its name, as in `SELECT \"{quoted}\"`"
        );
        return Err(QueryError::text(why));
    }
    if !table.contains(name) {
        let names: Vec<String> = table.names().into_iter().filter(|name| !table.is_column(name)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let close = close_to(name, &names);
        let few = &names[..names.len().min(20)];
        let hint = match (close.is_empty(), names.is_empty()) {
            (false, _) => did_you_mean(&close),
            (_, true) => "; this dataset has no arrays, `ds[name] = values` makes one".to_owned(),
            _ => format!("; arrays: {}{}", few.join(", "), if few.len() < names.len() { ", …" } else { "" }),
        };
        return Err(QueryError::text(format!("no array {name:?}{hint}")));
    }
    let info = table.tensor(name).map_err(DatasetError::from)?;
    let dtype = info.header.dtype;
    if dtype.is_complex() {
        let why = format!(
            "array {name:?} holds {dtype}, and SQL has no complex numbers: read it with `ds[{name:?}][...]`"
        );
        return Err(QueryError::text(why));
    }
    Ok(info)
}

/// The type of the values: bfloat16, which Arrow does not have, is shown as float32, which holds all of it.
pub(crate) fn shown_dtype(dtype: DType) -> DType {
    if dtype == DType::BF16 { DType::F32 } else { dtype }
}

impl fmt::Debug for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cells").field("array", &self.splitter.name()).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for Cells {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let one = |filter: &&Expr| match range_of(filter, self.splitter.rank()) {
            Some(found) if found.is_exact => TableProviderFilterPushDown::Exact,
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
        let splitter = &self.splitter;
        let mut part = splitter.whole();
        let mut is_exact = true;
        for filter in filters {
            let Some(found) = range_of(filter, splitter.rank()) else { continue };
            part.narrow(found.axis, found.from, found.to);
            is_exact &= found.is_exact;
        }
        let columns: Vec<usize> = match projection {
            Some(columns) => columns.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let rank = splitter.rank();
        let items: Vec<Item> = columns
            .iter()
            .map(|&column| match column {
                axis if axis < rank => Item::Axis(axis),
                value if value == rank => Item::Value,
                _ => Item::Place,
            })
            .collect();
        let cut = splitter.cut(part.clone()).map_err(table_error)?;
        // Where places are asked for, the first rows are the first cells in C order, which are read first only if all are.
        let is_first = cut.is_in_order || !items.contains(&Item::Place);
        let limit = limit.filter(|_| is_exact && is_first);
        // The first rows are wanted, and whoever reads ahead reads for nothing.
        let most = if limit.is_some() { 1 } else { session.config().target_partitions().max(1) };
        let each = cut.parts.len().div_ceil(most).max(1);
        let partitions: Vec<Vec<Part>> = match cut.parts.is_empty() {
            true => vec![Vec::new()],
            false => cut.parts.chunks(each).map(<[Part]>::to_vec).collect(),
        };
        Ok(Arc::new(CellsExec::new(Scanned {
            splitter: Arc::clone(&self.splitter),
            schema: Arc::new(self.schema.project(&columns)?),
            items,
            amount: splitter.amount(&part).map_err(table_error)?.rows,
            part,
            partitions,
            is_in_order: cut.is_in_order,
            is_exact,
            limit,
        })))
    }
}

fn table_error(error: TableError) -> DataFusionError {
    external(DatasetError::from(error))
}

/// A column of the scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Axis(usize),
    Value,
    Place,
}

/// What a scan reads.
#[derive(Debug)]
struct Scanned {
    splitter: Arc<Splitter>,
    schema: SchemaRef,
    items: Vec<Item>,
    /// All of what is read.
    part: Part,
    /// Chunks or cells that it has.
    amount: u64,
    partitions: Vec<Vec<Part>>,
    is_in_order: bool,
    /// Whether all filters that were pushed down are answered.
    is_exact: bool,
    limit: Option<usize>,
}

impl Scanned {
    /// Whether there is a row for each element, so that coordinates follow from the shape.
    fn is_dense(&self) -> bool {
        !self.splitter.is_sparse()
    }

    /// By what the rows of a partition are sorted.
    fn order(&self) -> Vec<PhysicalSortExpr> {
        if !self.is_in_order {
            return Vec::new();
        }
        let place_of = |item: Item| self.items.iter().position(|found| *found == item);
        let ascending = SortOptions { descending: false, nulls_first: true };
        let by = |place: usize| {
            let column: Arc<dyn PhysicalExpr> =
                Arc::new(PhysicalColumn::new(self.schema.field(place).name(), place));
            PhysicalSortExpr::new(column, ascending)
        };
        if let Some(place) = place_of(Item::Place) {
            return vec![by(place)];
        }
        let mut order = Vec::new();
        for (axis, &(from, to)) in self.part.ranges().iter().enumerate() {
            match place_of(Item::Axis(axis)) {
                Some(place) => order.push(by(place)),
                // An axis with one coordinate orders nothing.
                None if to <= from + 1 => {}
                None => break,
            }
        }
        order
    }
}

/// Reads cells of an array.
#[derive(Debug)]
struct CellsExec {
    scanned: Arc<Scanned>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl CellsExec {
    fn new(scanned: Scanned) -> CellsExec {
        let schema = Arc::clone(&scanned.schema);
        let order = scanned.order();
        let equivalence = match order.is_empty() {
            true => EquivalenceProperties::new(schema),
            false => EquivalenceProperties::new_with_orderings(schema, [order]),
        };
        let properties = PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(scanned.partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        CellsExec {
            scanned: Arc::new(scanned),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for CellsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scanned { splitter, schema, part, amount, limit, .. } = &*self.scanned;
        let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let unit = if splitter.is_cells() { "cells" } else { "chunks" };
        write!(f, "LacusCells: array={:?}, columns=[{}]", splitter.name(), columns.join(", "))?;
        write!(f, ", ranges=[{}]", splitter.shown(part))?;
        write!(f, ", {unit}={amount} of {}", splitter.rows())?;
        match limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for CellsExec {
    fn name(&self) -> &str {
        "LacusCells"
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
        let state = Reading {
            scanned: Arc::clone(&self.scanned),
            rest: self.scanned.partitions[partition].iter().rev().cloned().collect(),
            window: None,
            left: self.scanned.limit.unwrap_or(usize::MAX),
            batch_rows: context.session_config().batch_size().max(1),
            read: MetricBuilder::new(&self.metrics).counter("stored_rows_read", partition),
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
        let scanned = &*self.scanned;
        let mut statistics = Statistics::new_unknown(&scanned.schema);
        let parts: &[Part] = match args.partition() {
            Some(partition) => &scanned.partitions[partition],
            None => std::slice::from_ref(&scanned.part),
        };
        let (mut rows, mut is_known) = (0u64, scanned.is_exact);
        for part in parts {
            let (count, is_exact) = scanned.splitter.cells(part).map_err(table_error)?;
            rows = rows.saturating_add(count);
            is_known &= is_exact;
        }
        let rows = usize::try_from(rows).unwrap_or(usize::MAX).min(scanned.limit.unwrap_or(usize::MAX));
        statistics.num_rows = if is_known { Precision::Exact(rows) } else { Precision::Inexact(rows) };
        Ok(Arc::new(statistics))
    }
}

/// A partition that is read.
struct Reading {
    scanned: Arc<Scanned>,
    /// What is still to be read, the next last.
    rest: Vec<Part>,
    window: Option<Window>,
    /// How many rows may still come.
    left: usize,
    batch_rows: usize,
    read: Count,
}

/// What was read, and how many rows of it were handed on.
struct Window {
    part: Part,
    rows: usize,
    next: usize,
    /// Coordinates within the part; `None` for a dense array, where they follow from the shape.
    sparse: Option<SparseTensor>,
    /// `None` if nobody asks for values.
    values: Option<ArrayRef>,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.left == 0 {
                return Ok(None);
            }
            if let Some(window) = &mut self.window
                && window.next < window.rows
            {
                let rows = self.batch_rows.min(window.rows - window.next).min(self.left);
                let batch = window.batch(&self.scanned, rows)?;
                window.next += rows;
                self.left -= rows;
                return Ok(Some(batch));
            }
            self.window = None;
            let Some(part) = self.rest.pop() else { return Ok(None) };
            match self.scanned.splitter.split(&part).map_err(table_error)? {
                Some((_, front, back)) => self.rest.extend([back, front]),
                None => self.window = self.read(part).await?,
            }
        }
    }

    async fn read(&self, part: Part) -> Result<Option<Window>> {
        let splitter = &self.scanned.splitter;
        let wants_values = self.scanned.items.contains(&Item::Value);
        if self.scanned.is_dense() && !wants_values {
            let rows = splitter.cells(&part).map_err(table_error)?.0 as usize;
            return Ok(Some(Window { part, rows, next: 0, sparse: None, values: None }));
        }
        let plan = splitter.plan(&part).map_err(table_error)?;
        let amount = plan.amount().rows;
        if amount == 0 && !self.scanned.is_dense() {
            return Ok(None);
        }
        self.read.add(amount as usize);
        let fetched = plan.fetch().await.map_err(table_error)?;
        let dtype = splitter.dtype();
        blocking(|| {
            let (rows, sparse, tensor) = match fetched.decode().map_err(table_error)? {
                Read::Dense(tensor) => {
                    let rows = tensor.shape().elements_saturating();
                    (rows as usize, None, flat(dtype, rows, tensor.into_buffer())?)
                }
                Read::Sparse(sparse) => {
                    let values = flat(dtype, sparse.nnz() as u64, sparse.values().clone())?;
                    (sparse.nnz(), Some(sparse), values)
                }
            };
            let values = wants_values.then(|| values(tensor)).transpose()?;
            Ok(Some(Window { part, rows, next: 0, sparse, values }))
        })
    }
}

fn flat(dtype: DType, count: u64, elements: Buffer) -> Result<Tensor> {
    let internal = |error: lacus_tensor::TensorError| DataFusionError::Internal(error.to_string());
    Tensor::new(dtype, Shape::new([count]).map_err(internal)?, elements).map_err(internal)
}

/// Values as Arrow has them.
fn values(tensor: Tensor) -> Result<ArrayRef> {
    let dtype = shown_dtype(tensor.dtype());
    let tensor = match dtype == tensor.dtype() {
        true => tensor,
        false => {
            cast(&tensor.as_ref(), dtype).map_err(|error| DataFusionError::Internal(error.to_string()))?
        }
    };
    let array = TensorType::number(dtype).mapping()?.array_of_rows(tensor, None);
    match array.map_err(|error| DataFusionError::Execution(error.to_string()))? {
        Some(array) => Ok(array),
        None => Err(DataFusionError::Internal(format!("{dtype} is no number in Arrow"))),
    }
}

impl Window {
    /// The next rows.
    fn batch(&self, scanned: &Scanned, rows: usize) -> Result<RecordBatch> {
        let (from, to) = (self.next, self.next + rows);
        let ranges = self.part.ranges();
        let axis_of = |axis: usize| -> Vec<i64> {
            let start = ranges[axis].0 as i64;
            match &self.sparse {
                Some(sparse) => sparse.axis(axis)[from..to].iter().map(|at| at + start).collect(),
                None => self.part.coordinates(axis, from as u64, to as u64),
            }
        };
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(scanned.items.len());
        for item in &scanned.items {
            arrays.push(match item {
                Item::Axis(axis) => Arc::new(Int64Array::from(axis_of(*axis))),
                Item::Value => match &self.values {
                    Some(values) => values.slice(from, rows),
                    None => return Err(DataFusionError::Internal("values were not read".to_owned())),
                },
                Item::Place => {
                    let dims = scanned.splitter.dims();
                    let mut places = vec![0u64; rows];
                    for (axis, size) in dims.iter().enumerate() {
                        for (place, at) in places.iter_mut().zip(axis_of(axis)) {
                            *place = *place * size + at as u64;
                        }
                    }
                    Arc::new(UInt64Array::from(places))
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&scanned.schema), arrays, &options)?)
    }
}
