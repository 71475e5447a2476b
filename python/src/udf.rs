//! Functions of the caller's that queries call.

use std::error::Error;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::FieldRef;
use lacus::arrow::type_name;
use lacus::{CallError, Callee, DType, Results, Returned, Tensor};
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::array::tensor_ref;
use crate::calls::Calls;
use crate::convert::dtype;
use crate::runtime::{Interrupt, Outcome, calling, run_aside};
use crate::values::values;

/// A function as `lacus/udf.py` hands it over: a dict with all of these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct FunctionArguments {
    name: String,
    /// Of what it returns; `None` for text.
    dtype: Option<String>,
    /// `None` if the number of axes may differ.
    shape: Option<Vec<Option<u64>>>,
    /// How many arguments it takes, at least and at most.
    least: usize,
    most: Option<usize>,
    deterministic: bool,
    nulls: bool,
    /// Takes columns, each with the name of its type, and how many rows they have.
    call: Py<PyAny>,
}

/// The functions that a question may use.
pub(crate) struct Functions {
    callees: Vec<Arc<dyn Callee>>,
    calls: Arc<Calls>,
}

impl Functions {
    pub(crate) fn read(py: Python<'_>, given: Vec<FunctionArguments>) -> PyResult<Functions> {
        let calls = Arc::new(Calls::default());
        let mut callees: Vec<Arc<dyn Callee>> = Vec::with_capacity(given.len());
        for FunctionArguments { name, dtype: of, shape, least, most, deterministic, nulls, call } in given {
            let returned = match of {
                Some(of) => Returned::Tensor { dtype: dtype(py, &of)?, shape },
                None => Returned::Text,
            };
            let (call, calls) = (Arc::new(call), Arc::clone(&calls));
            callees.push(Arc::new(Function {
                name,
                returned,
                least,
                most: most.unwrap_or(usize::MAX),
                deterministic,
                nulls,
                call,
                calls,
            }));
        }
        Ok(Functions { callees, calls })
    }

    pub(crate) fn callees(&self) -> &[Arc<dyn Callee>] {
        &self.callees
    }

    /// Runs work that may call them. Ctrl-C ends it, and them.
    pub(crate) fn run<T, F>(&self, py: Python<'_>, work: impl FnOnce() -> F + Send) -> PyResult<Outcome<T>>
    where
        T: Send,
        F: Future<Output = Outcome<T>>,
    {
        self.calls.begin();
        let done = run_aside(py, &Interrupt::Calls(Arc::clone(&self.calls)), work);
        self.calls.end();
        done
    }
}

#[derive(Debug)]
struct Function {
    name: String,
    returned: Returned,
    least: usize,
    most: usize,
    deterministic: bool,
    nulls: bool,
    call: Arc<Py<PyAny>>,
    calls: Arc<Calls>,
}

impl Callee for Function {
    fn name(&self) -> &str {
        &self.name
    }

    fn returns(&self, arguments: &[FieldRef]) -> Result<Returned, String> {
        let (least, most, found) = (self.least, self.most, arguments.len());
        if (least..=most).contains(&found) {
            return Ok(self.returned.clone());
        }
        let expected = match (least, most) {
            (least, usize::MAX) => format!("at least {least}"),
            (least, most) if least == most => least.to_string(),
            (least, most) => format!("{least} to {most}"),
        };
        let word = if expected == "1" { "argument" } else { "arguments" };
        Err(format!("expected {expected} {word}, found {found}"))
    }

    fn is_plain(&self) -> bool {
        match &self.returned {
            Returned::Text => true,
            Returned::Tensor { shape, .. } => shape.as_ref().is_some_and(Vec::is_empty),
        }
    }

    fn is_deterministic(&self) -> bool {
        self.deterministic
    }

    fn takes_nulls(&self) -> bool {
        self.nulls
    }

    fn call(&self, arguments: &[ArrayRef], fields: &[FieldRef], rows: usize) -> Result<Results, CallError> {
        let (call, calls, returned) =
            (Arc::clone(&self.call), Arc::clone(&self.calls), self.returned.clone());
        let (arguments, fields) = (arguments.to_vec(), fields.to_vec());
        let job = move || {
            calling(|| {
                Python::attach(|py| {
                    let answer = calls.during(py, || answer(py, &call, &arguments, &fields, rows, &returned));
                    answer.unwrap_or_else(|error| Err(failed(py, None, error)))
                })
            })
        };
        self.calls.run(job).unwrap_or_else(|why| Err(CallError::new(None, why)))
    }
}

fn failed(py: Python<'_>, row: Option<usize>, error: PyErr) -> CallError {
    let why = error.value(py).str().map_or_else(|_| error.to_string(), |text| text.to_string());
    CallError { row, why, cause: Some(Arc::new(error)) }
}

/// Calls the function and takes what it says.
fn answer(
    py: Python<'_>,
    call: &Py<PyAny>,
    arguments: &[ArrayRef],
    fields: &[FieldRef],
    rows: usize,
    returned: &Returned,
) -> PyResult<Result<Results, CallError>> {
    let columns = PyList::empty(py);
    for (array, field) in arguments.iter().zip(fields) {
        columns.append((values(py, field, array)?, type_name(field)))?;
    }
    let told = call.bind(py).call1((columns, rows))?;
    let told = told.cast::<PyTuple>()?;
    let kind: String = told.get_item(0)?.extract()?;
    let dtype = match returned {
        Returned::Tensor { dtype, .. } => *dtype,
        Returned::Text => DType::Bool,
    };
    Ok(match kind.as_str() {
        "failed" => {
            let (row, why): (Option<usize>, String) =
                (told.get_item(1)?.extract()?, told.get_item(2)?.extract()?);
            let raised = told.get_item(3)?;
            let cause: Option<Arc<dyn Error + Send + Sync>> = match raised.is_none() {
                true => None,
                false => Some(Arc::new(PyErr::from_value(raised))),
            };
            Err(CallError { row, why, cause })
        }
        "texts" => Ok(Results::Texts(told.get_item(1)?.extract()?)),
        "stacked" => {
            let tensor = tensor(&told.get_item(1)?, dtype)?;
            Ok(Results::Stacked { tensor, present: told.get_item(2)?.extract()? })
        }
        _ => {
            let each = |value: PyResult<Bound<'_, PyAny>>| {
                let value = value?;
                if value.is_none() { Ok(None) } else { tensor(&value, dtype).map(Some) }
            };
            Ok(Results::Tensors(told.get_item(1)?.try_iter()?.map(each).collect::<PyResult<_>>()?))
        }
    })
}

fn tensor(value: &Bound<'_, PyAny>, dtype: DType) -> PyResult<Tensor> {
    let array = value.cast::<PyUntypedArray>()?;
    Ok(tensor_ref(array, dtype)?.to_tensor())
}
