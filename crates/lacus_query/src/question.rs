//! What is asked: a text, the values of its parameters, and what may be used to answer it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{Field, FieldRef};
use async_trait::async_trait;
use datafusion::common::ScalarValue;
use lacus_dataset::View;
use lacus_tensor::{DType, Tensor, TensorRef};

use crate::error::QueryError;
use crate::tensors::{Dims, TensorBuilder, TensorType};

/// A question in SQL.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The text.
    pub text: String,
    /// Values of `?`, or of `:name`.
    pub parameters: Parameters,
    /// Bytes of memory that sorts, joins and aggregations may use before they spill to disk; a quarter of the process's budget
    /// if nothing is said, 64 MiB at least.
    pub memory: Option<u64>,
    /// Reads every column of every row that a query names, with no help of zone maps and indexes. For tests: the answers are the
    /// same.
    #[doc(hidden)]
    pub reads_all: bool,
    /// Functions of the caller's that the text may use.
    pub functions: Vec<Arc<dyn Callee>>,
}

impl Question {
    /// A question without parameters.
    pub fn new(text: impl Into<String>) -> Question {
        Question { text: text.into(), ..Question::default() }
    }
}

/// The values of parameters.
#[derive(Clone, Debug, Default)]
pub enum Parameters {
    /// There are none.
    #[default]
    None,
    /// Of `?`, from left to right, or of `$1`, `$2`.
    Positional(Vec<Parameter>),
    /// Of `:name` or `$name`.
    Named(Vec<(String, Parameter)>),
}

/// The value of a parameter.
#[derive(Clone, Debug)]
pub struct Parameter {
    pub(crate) value: ScalarValue,
    pub(crate) field: FieldRef,
}

impl Parameter {
    fn plain(value: ScalarValue) -> Parameter {
        let field = Arc::new(Field::new("parameter", value.data_type(), true));
        Parameter { value, field }
    }

    /// A missing value.
    pub fn null() -> Parameter {
        Parameter::plain(ScalarValue::Null)
    }

    /// A tensor.
    pub fn tensor(tensor: &TensorRef<'_>) -> Result<Parameter, QueryError> {
        let wrong = |error: datafusion::error::DataFusionError| QueryError::text(error.to_string());
        let dims = Dims::Fixed(tensor.shape().dims().to_vec());
        let of = TensorType { dtype: tensor.dtype(), dims };
        let mut builder = TensorBuilder::new("parameter", &of, 1).map_err(wrong)?;
        builder.push(tensor).map_err(wrong)?;
        let array = builder.finish().map_err(wrong)?;
        let field = Arc::new(of.field("parameter").map_err(wrong)?);
        Parameter::arrow(&array, field)
    }

    /// The first value of an Arrow array.
    pub fn arrow(array: &ArrayRef, field: FieldRef) -> Result<Parameter, QueryError> {
        if array.is_empty() {
            return Err(QueryError::text("a parameter has one value, and this array has none"));
        }
        let value =
            ScalarValue::try_from_array(array, 0).map_err(|error| QueryError::text(error.to_string()))?;
        Ok(Parameter { value, field })
    }
}

impl From<bool> for Parameter {
    fn from(value: bool) -> Parameter {
        Parameter::plain(ScalarValue::Boolean(Some(value)))
    }
}

impl From<i64> for Parameter {
    fn from(value: i64) -> Parameter {
        Parameter::plain(ScalarValue::Int64(Some(value)))
    }
}

impl From<u64> for Parameter {
    fn from(value: u64) -> Parameter {
        Parameter::plain(ScalarValue::UInt64(Some(value)))
    }
}

impl From<f64> for Parameter {
    fn from(value: f64) -> Parameter {
        Parameter::plain(ScalarValue::Float64(Some(value)))
    }
}

impl From<&str> for Parameter {
    fn from(value: &str) -> Parameter {
        Parameter::plain(ScalarValue::Utf8(Some(value.to_owned())))
    }
}

impl From<String> for Parameter {
    fn from(value: String) -> Parameter {
        Parameter::plain(ScalarValue::Utf8(Some(value)))
    }
}

/// A dataset that a query names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// `dataset`, a name, or a URL.
    pub name: String,
    /// The state, as the user wrote it: a revision such as `main~2`, `@17` for a version, or a time.
    pub at: Option<String>,
}

/// Opens the datasets that a query names.
#[async_trait]
pub trait Sources: Send + Sync {
    /// Whether there is a dataset that queries without FROM mean.
    fn has_default(&self) -> bool;

    /// The names that can be used, for messages.
    fn names(&self) -> Vec<String>;

    /// The dataset of a name at a state; `None` if there is no such name.
    async fn open(&self, named: &Named) -> Result<Option<View>, QueryError>;
}

/// A function of the caller's, which a query calls by its name.
///
/// It is called on threads of tokio's runtime. One that waits for others, or uses this runtime itself, has to see to that.
pub trait Callee: fmt::Debug + Send + Sync {
    /// What it is called in queries, where upper and lower case make no difference.
    fn name(&self) -> &str;

    /// What it returns for arguments of these types. Fails with why it cannot be called with them.
    fn returns(&self, arguments: &[FieldRef]) -> Result<Returned, String>;

    /// Whether it returns numbers or texts, whatever its arguments: `max(f(x))` is then an aggregate.
    fn is_plain(&self) -> bool {
        false
    }

    /// Whether it returns the same for the same arguments, always: a call with constants is then made once, and a call that
    /// occurs twice may be made once.
    fn is_deterministic(&self) -> bool {
        false
    }

    /// Whether it is called for rows with a missing argument. If not, the result of such a row is missing, too.
    fn takes_nulls(&self) -> bool {
        false
    }

    /// One result per row. Arrays have as many rows, fields say what is in them. Media files are decoded: they are tensors.
    fn call(&self, arguments: &[ArrayRef], fields: &[FieldRef], rows: usize) -> Result<Results, CallError>;
}

/// The type of what a function returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Returned {
    /// Texts.
    Text,
    /// Tensors; numbers are tensors without axes.
    Tensor {
        /// Of their elements.
        dtype: DType,
        /// The size of each axis, `None` where rows may differ; `None` if they may differ in the number of axes.
        shape: Option<Vec<Option<u64>>>,
    },
}

/// What a function returned.
#[derive(Clone, Debug)]
pub enum Results {
    /// The text of each row.
    Texts(Vec<Option<String>>),
    /// The tensor of each row.
    Tensors(Vec<Option<Tensor>>),
    /// One tensor whose first axis is the rows.
    Stacked {
        /// The tensors of all rows.
        tensor: Tensor,
        /// Whether each row has a result; `None` if all have.
        present: Option<Vec<bool>>,
    },
}

/// Why a function failed.
#[derive(Clone, Debug)]
pub struct CallError {
    /// The row of the arguments that it failed for, if one is to blame.
    pub row: Option<usize>,
    /// What went wrong.
    pub why: String,
    /// What it failed with.
    pub cause: Option<Arc<dyn Error + Send + Sync>>,
}

impl CallError {
    /// Without a cause of its own.
    pub fn new(row: Option<usize>, why: impl Into<String>) -> CallError {
        CallError { row, why: why.into(), cause: None }
    }
}
