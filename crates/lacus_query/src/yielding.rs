//! Joins that give way to others, and that end when nobody waits for them any more.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::exec_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{NestedLoopJoinExec, NestedLoopJoinExecBuilder};

/// Whether a question was given up. Says so when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Has joins give way from time to time, and end when they are given up.
///
/// A join makes many rows of few: whoever counts them would not come back before all are made, however many these are. One that compares
/// every row with every other may do so for long without one row that fits.
#[derive(Debug)]
pub(crate) struct YieldingJoins {
    is_given_up: Arc<AtomicBool>,
}

impl YieldingJoins {
    pub(crate) fn new(waiting: &Waiting) -> YieldingJoins {
        YieldingJoins { is_given_up: Arc::clone(&waiting.0) }
    }

    fn watched(&self, join: &NestedLoopJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(filter) = join.filter() else { return Ok(None) };
        let watched =
            Watched { inner: Arc::clone(filter.expression()), is_given_up: Arc::clone(&self.is_given_up) };
        let filter =
            JoinFilter::new(Arc::new(watched), filter.column_indices().to_vec(), Arc::clone(filter.schema()));
        let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
        let join = NestedLoopJoinExecBuilder::new(left, right, *join.join_type())
            .with_projection_ref(join.projection().clone())
            .with_filter(Some(filter))
            .build()?;
        Ok(Some(Arc::new(join)))
    }
}

impl PhysicalOptimizerRule for YieldingJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let wrapped = |plan: Arc<dyn ExecutionPlan>| {
            if !plan.name().ends_with("JoinExec") {
                return Ok(Transformed::no(plan));
            }
            let watched = match plan.downcast_ref::<NestedLoopJoinExec>() {
                Some(join) => self.watched(join)?,
                None => None,
            };
            let yielding = CooperativeExec::new(watched.unwrap_or(plan));
            Ok(Transformed::yes(Arc::new(yielding) as Arc<dyn ExecutionPlan>))
        };
        plan.transform_up(wrapped).data()
    }

    fn name(&self) -> &str {
        "yielding_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A condition that fails as soon as the question is given up.
#[derive(Debug)]
struct Watched {
    inner: Arc<dyn PhysicalExpr>,
    is_given_up: Arc<AtomicBool>,
}

impl PartialEq for Watched {
    fn eq(&self, other: &Watched) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for Watched {}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PhysicalExpr for Watched {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.inner.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.inner.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.inner.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if self.is_given_up.load(Ordering::Relaxed) {
            return exec_err!("the query was given up");
        }
        self.inner.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let inner = children.pop().unwrap_or_else(|| Arc::clone(&self.inner));
        Ok(Arc::new(Watched { inner, is_given_up: Arc::clone(&self.is_given_up) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}
