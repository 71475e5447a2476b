//! `slice('volume', 0:10)` in an expression: an array, or a part of it, that is read once before the query is planned.
//!
//! ```text
//! subscript(slice('volume'), 'a:b', 0, 10) ─read the chunks it needs→ a tensor ─→ "slice0"(), a function that returns it
//! ```
//!
//! A function, not a literal: plans are printed, hashed and compared, which takes long where a literal is large.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result as Outcome, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr as Planned, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArgumentList, FunctionArguments, Ident, ObjectName, Statement, VisitMut,
    VisitorMut,
};
use lacus_dataset::{DatasetError, View};
use lacus_io::{blocking, boxed};
use lacus_table::Read;
use lacus_tensor::{Index, Selection, Tensor};

use crate::cells::{known_array, shown_dtype};
use crate::error::QueryError;
use crate::faults::Asked;
use crate::language::{Slice, bytes_of, slice_of};
use crate::tensors::{Dims, TensorBuilder, TensorType, cast, shape_text};

/// Elements up to which a value is folded into the plan like any other constant.
const FOLDED: u64 = 1024;

/// What was read, with the function that returns it.
type Known = Vec<(Slice, Arc<ScalarUDF>)>;

/// The arrays that a question reads as values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slices {
    /// The datasets by their keys.
    views: HashMap<String, View>,
    /// What was read. A question may be planned more than once.
    read: Arc<Mutex<Known>>,
}

impl Slices {
    /// Of these datasets, by their keys.
    pub(crate) fn of(views: impl IntoIterator<Item = (String, View)>) -> Slices {
        Slices { views: views.into_iter().collect(), ..Slices::default() }
    }

    /// Reads what a statement needs, and makes it known to a session.
    #[boxed]
    pub(crate) async fn read(
        &self,
        statement: &Statement,
        context: &SessionContext,
        asked: &Asked<'_>,
    ) -> Result<(), QueryError> {
        let mut found = Vec::new();
        each_slice(&mut statement.clone(), &mut |slice| {
            found.push(slice);
            "\u{1}slice".to_owned()
        });
        for slice in found {
            let udf = match self.known(&slice) {
                Some(udf) => udf,
                None => {
                    let value = self.value(&slice, asked).await?;
                    let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
                    let udf = Arc::new(value.into_udf(read.len()));
                    read.push((slice, Arc::clone(&udf)));
                    udf
                }
            };
            context.register_udf(udf.as_ref().clone());
        }
        Ok(())
    }

    /// Puts the functions that return what was read into a statement.
    pub(crate) fn put(&self, statement: &mut Statement) {
        each_slice(statement, &mut |slice| {
            self.known(&slice).map_or_else(String::new, |udf| udf.name().to_owned())
        });
    }

    fn known(&self, slice: &Slice) -> Option<Arc<ScalarUDF>> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |known: &Slice| {
            (&known.dataset, &known.array, &known.indices) == (&slice.dataset, &slice.array, &slice.indices)
        };
        read.iter().find(|(known, _)| same(known)).map(|(_, udf)| Arc::clone(udf))
    }

    async fn value(&self, slice: &Slice, asked: &Asked<'_>) -> Result<Value, QueryError> {
        let wrong = |why: String| QueryError::at(why, asked.text, bytes_of(slice.span));
        let Some(view) = self.views.get(&slice.dataset) else {
            return Err(wrong(format!("no dataset {:?} to read an array of", slice.dataset)));
        };
        let found = read(view, slice, asked.budget).await;
        found.map_err(|error| match error {
            QueryError::Text { why, place: None } => wrong(why),
            other => other,
        })
    }
}

/// Calls a function for each array that a statement reads, and puts a call of the function that it names in its place.
fn each_slice(statement: &mut Statement, each: &mut dyn FnMut(Slice) -> String) {
    let _ = statement.visit(&mut Replace { each });
}

struct Replace<'a> {
    each: &'a mut dyn FnMut(Slice) -> String,
}

impl VisitorMut for Replace<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some((slice, rest)) = slice_of(expr) {
            let span = slice.span;
            let read = returning((self.each)(slice), span);
            *expr = match rest {
                None => read,
                Some(access_chain) => Expr::CompoundFieldAccess { root: Box::new(read), access_chain },
            };
        }
        ControlFlow::Continue(())
    }
}

/// A call without arguments.
fn returning(name: String, span: datafusion::sql::sqlparser::tokenizer::Span) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::with_quote_and_span('"', span, name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: Vec::new(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Reads a part of an array. Of its chunks, those that hold it.
async fn read(view: &View, slice: &Slice, budget: u64) -> Result<Value, QueryError> {
    let name = slice.array.as_str();
    let info = known_array(view, name, "slice")?;
    let wrong = |error: lacus_tensor::TensorError| QueryError::text(format!("slice of {name:?}: {error}"));
    let selection = Selection::resolve(&info.header.shape, &slice.indices).map_err(wrong)?;
    let shape = selection.output_shape();
    let bytes = shape.elements_saturating().saturating_mul(info.header.dtype.size_bytes() as u64);
    if bytes > budget {
        let why = format!(
            "slice of {name:?} has the shape {} and takes {bytes} bytes; read less of it with a subscript",
            shape_text(shape.dims())
        );
        return Err(QueryError::Memory { budget, why });
    }
    let plan = view.source().table().plan(name, &slice.indices).await.map_err(DatasetError::from)?;
    let fetched = plan.fetch().await.map_err(DatasetError::from)?;
    let title = shown(slice);
    blocking(|| {
        let tensor = match fetched.decode().map_err(DatasetError::from)? {
            Read::Dense(tensor) => tensor,
            Read::Sparse(sparse) => sparse.to_dense().map_err(wrong)?,
        };
        Value::new(title, tensor)
    })
}

/// As numpy writes it.
fn shown(slice: &Slice) -> String {
    let bound = |bound: &Option<i64>| bound.map_or_else(String::new, |bound| bound.to_string());
    let axis = |index: &Index| match index {
        Index::At(place) => place.to_string(),
        Index::Slice { start, stop, step: None } => format!("{}:{}", bound(start), bound(stop)),
        Index::Slice { start, stop, step } => format!("{}:{}:{}", bound(start), bound(stop), bound(step)),
        _ => "...".to_owned(),
    };
    let axes: Vec<String> = slice.indices.iter().map(axis).collect();
    match axes.is_empty() {
        true => format!("slice('{}')", slice.array),
        false => format!("slice('{}')[{}]", slice.array, axes.join(", ")),
    }
}

/// A part of an array that was read, as a function without arguments.
#[derive(Debug)]
struct Value {
    /// What it is called in a session.
    name: String,
    /// What plans show.
    title: String,
    value: ScalarValue,
    field: FieldRef,
    signature: Signature,
}

impl Value {
    fn new(title: String, tensor: Tensor) -> Result<Value, QueryError> {
        let wrong = |error: datafusion::error::DataFusionError| QueryError::Value(error.to_string());
        let dtype = shown_dtype(tensor.dtype());
        let tensor = match dtype == tensor.dtype() {
            true => tensor,
            false => {
                cast(&tensor.as_ref(), dtype).map_err(|error| QueryError::Internal(error.to_string()))?
            }
        };
        let of = TensorType { dtype, dims: Dims::Fixed(tensor.shape().dims().to_vec()) };
        let mut builder = TensorBuilder::new("slice", &of, 1).map_err(wrong)?;
        builder.push(&tensor.as_ref()).map_err(wrong)?;
        let array = builder.finish().map_err(wrong)?;
        let value = ScalarValue::try_from_array(&array, 0).map_err(wrong)?;
        let field = Arc::new(of.field("slice").map_err(wrong)?);
        let volatility = match tensor.shape().elements_saturating() > FOLDED {
            true => Volatility::Volatile,
            false => Volatility::Immutable,
        };
        Ok(Value { name: String::new(), title, value, field, signature: Signature::nullary(volatility) })
    }

    fn into_udf(self, number: usize) -> ScalarUDF {
        Value { name: format!("\u{1}slice{number}"), ..self }.into()
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.name == other.name
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Value {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Outcome<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Outcome<FieldRef> {
        Ok(Arc::clone(&self.field))
    }

    fn schema_name(&self, _: &[Planned]) -> Outcome<String> {
        Ok(self.title.clone())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Outcome<ColumnarValue> {
        Ok(ColumnarValue::Scalar(self.value.clone()))
    }
}
