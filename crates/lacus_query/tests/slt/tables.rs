//! The tables of a logic test. Statements that make or change tables are run by plain DataFusion; what a query reads is stored in a
//! dataset of ours first, and is compared with what was put in.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchIterator};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Schema};
use async_trait::async_trait;
use datafusion::common::TableReference;
use datafusion::prelude::{SessionConfig, SessionContext};
use lacus_dataset::{Dataset, View};
use lacus_exchange::{ImportOptions, from_arrow};
use lacus_io::{Store, World};
use lacus_query::{Answer, Named, QueryError, Question, Sources, ask, compute};
use lacus_table::Table;
use tokio::sync::Mutex;

/// Rows, and of which types.
pub(crate) struct Rows {
    pub schema: Arc<Schema>,
    pub batches: Vec<RecordBatch>,
}

/// The tables of one file.
pub(crate) struct Tables {
    plain: SessionContext,
    /// What was stored since a table was last changed.
    stored: Mutex<HashMap<String, View>>,
}

impl Tables {
    pub(crate) fn new() -> Tables {
        // As the suite's own runner sets it: some answers without ORDER BY depend on it.
        let config = SessionConfig::new().with_target_partitions(4);
        Tables { plain: SessionContext::new_with_config(config), stored: Mutex::default() }
    }

    /// Runs a statement in plain DataFusion.
    pub(crate) async fn run(&self, sql: &str) -> Result<Rows, String> {
        let said = async {
            let frame = self.plain.sql(sql).await?;
            let context = Arc::new(frame.task_ctx());
            let plan = frame.create_physical_plan().await?;
            let schema = plan.schema();
            let batches = datafusion::physical_plan::collect(plan, context).await?;
            Ok::<Rows, datafusion::error::DataFusionError>(Rows { schema, batches })
        };
        said.await.map_err(|error| error.to_string())
    }

    /// Runs a statement that may change tables.
    pub(crate) async fn change(&self, sql: &str) -> Result<(), String> {
        self.stored.lock().await.clear();
        self.run(sql).await.map(|_| ())
    }

    /// Asks us.
    pub(crate) async fn ask(self: Arc<Self>, sql: &str) -> Result<Rows, QueryError> {
        let answer = ask(&Question::new(sql.to_owned()), self.as_ref()).await?;
        rows_of(answer).await
    }
}

/// All rows of an answer.
pub(crate) async fn rows_of(answer: Answer) -> Result<Rows, QueryError> {
    match answer {
        Answer::Table(table) => {
            Ok(Rows { schema: Arc::clone(table.schema()), batches: table.batches().to_vec() })
        }
        Answer::View(view) => {
            let places: Vec<u64> = (0..view.len()).collect();
            let batch = compute(&view, &view.columns(), &places, &[]).await?;
            Ok(Rows { schema: batch.schema(), batches: vec![batch] })
        }
    }
}

#[async_trait]
impl Sources for Tables {
    fn has_default(&self) -> bool {
        false
    }

    fn names(&self) -> Vec<String> {
        let schema = self.plain.catalog("datafusion").and_then(|catalog| catalog.schema("public"));
        schema.map(|schema| schema.table_names()).unwrap_or_default()
    }

    async fn open(&self, named: &Named) -> Result<Option<View>, QueryError> {
        if named.at.is_some() || !self.names().contains(&named.name) {
            return Ok(None);
        }
        let mut stored = self.stored.lock().await;
        if let Some(view) = stored.get(&named.name) {
            return Ok(Some(view.clone()));
        }
        let wrong = |why: String| QueryError::text(format!("table {:?} is not kept: {why}", named.name));
        let frame = self.plain.table(TableReference::bare(named.name.as_str())).await;
        let frame = frame.map_err(|error| wrong(error.to_string()))?;
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let batches = frame.collect().await.map_err(|error| wrong(error.to_string()))?;
        let view = store(schema, batches).await.map_err(wrong)?;
        stored.insert(named.name.clone(), view.clone());
        Ok(Some(view))
    }
}

/// Rows as a dataset that has exactly them.
async fn store(schema: Arc<Schema>, batches: Vec<RecordBatch>) -> Result<View, String> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let url = format!("memory://logic-{}", MADE.fetch_add(1, Ordering::Relaxed));
    let store = Store::open(&url, &Default::default()).map_err(|error| error.to_string())?;
    let table = Table::create(store, World::real()).await.map_err(|error| error.to_string())?;
    let mut dataset = Dataset::new(table);
    let field = |field: &Arc<Field>| {
        let plain = Field::new(field.name(), plain_type(field.data_type()), true);
        Arc::new(plain.with_metadata(field.metadata().clone()))
    };
    let kept = Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()));
    let plain = |batch: &RecordBatch| {
        let columns = batch.columns().iter().map(plain_array).collect::<Result<Vec<_>, _>>()?;
        RecordBatch::try_new(Arc::clone(&kept), columns)
    };
    let batches =
        batches.iter().map(plain).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    let reader = RecordBatchIterator::new(batches.clone().into_iter().map(Ok), Arc::clone(&kept));
    let imported = from_arrow(&mut dataset, reader, &ImportOptions::default()).await;
    imported.map_err(|error| error.to_string())?;
    let view = View::all(Arc::new(dataset.frozen()), None).await.map_err(|error| error.to_string())?;
    let whole = concat_batches(&kept, &batches).map_err(|error| error.to_string())?;
    same(&view, &whole).await?;
    Ok(view)
}

/// Whether a view has the columns and values that were put in.
async fn same(view: &View, batch: &RecordBatch) -> Result<(), String> {
    let schema = batch.schema();
    let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    if view.columns() != names {
        return Err(format!("columns {names:?} are stored as {:?}", view.columns()));
    }
    let places: Vec<u64> = (0..view.len()).collect();
    let found = compute(view, &names, &places, &[]).await.map_err(|error| error.to_string())?;
    for ((name, put), got) in names.iter().zip(batch.columns()).zip(found.columns()) {
        if shape_of(put.data_type()) != shape_of(got.data_type()) {
            return Err(format!(
                "column {name:?} of type {} is stored as {}",
                put.data_type(),
                got.data_type()
            ));
        }
        let got = cast(got, put.data_type()).map_err(|error| error.to_string())?;
        if got.to_data() != put.to_data() {
            return Err(format!("column {name:?} of type {} comes back with other values", put.data_type()));
        }
    }
    Ok(())
}

/// A type without what Arrow calls the items of lists and whether they may be missing.
fn shape_of(data_type: &DataType) -> DataType {
    let item = |field: &Arc<Field>| Arc::new(Field::new("item", shape_of(field.data_type()), true));
    match data_type {
        DataType::List(of) => DataType::List(item(of)),
        DataType::FixedSizeList(of, size) => DataType::FixedSizeList(item(of), *size),
        DataType::Struct(fields) => {
            let field = |field: &Arc<Field>| Field::new(field.name(), shape_of(field.data_type()), true);
            DataType::Struct(fields.iter().map(field).collect())
        }
        other => other.clone(),
    }
}

/// The type in which we keep values of a type: how texts and bytes are laid out in memory is not kept, nor are dictionaries.
fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::RunEndEncoded(_, values) => plain_type(values.data_type()),
        DataType::List(of) | DataType::LargeList(of) => {
            DataType::List(Arc::new(of.as_ref().clone().with_data_type(plain_type(of.data_type()))))
        }
        DataType::Struct(fields) => {
            let field = |field: &Arc<Field>| {
                Arc::new(field.as_ref().clone().with_data_type(plain_type(field.data_type())))
            };
            DataType::Struct(fields.iter().map(field).collect())
        }
        other => other.clone(),
    }
}

fn plain_array(array: &ArrayRef) -> Result<ArrayRef, arrow::error::ArrowError> {
    cast(array, &plain_type(array.data_type()))
}
