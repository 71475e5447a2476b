//! Questions in SQL.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, Decimal128Array, ListBuilder, StringBuilder};
use arrow::datatypes::Field;
use lacus::history::CommitId;
use lacus::io::World;
use lacus::query::QueryError;
use lacus::{Answer, Asked, Parameter, Parameters, Pinned, Place, Question, Repository, StorageOptions};
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::array::tensor_ref;
use crate::convert::dtype;
use crate::dataset::Dataset;
use crate::errors::{invalid, raise_error};
use crate::handle::{Handle, done};
use crate::table::Table;
use crate::udf::{FunctionArguments, Functions};
use crate::view::View;

/// A question as `lacus/query.py` hands it over: the text, its parameters (a list, a dict or None), bytes of memory, functions.
type QuestionArguments<'py> = (String, Option<Bound<'py, PyAny>>, Option<u64>, Vec<FunctionArguments>);

/// What may be read: the view that `dataset` is, the dataset whose other states it may name, other views by name, and options of the
/// stores of datasets that are named by their URL.
type SourceArguments<'py> =
    (Option<Bound<'py, View>>, Option<Bound<'py, Dataset>>, Vec<(String, Bound<'py, View>)>, StorageOptions);

/// Answers a question, with a `View` or a `Table`.
#[pyfunction]
pub(crate) fn ask<'py>(
    py: Python<'py>,
    question: QuestionArguments<'py>,
    sources: SourceArguments<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let ((question, functions), asked) = (read_question(py, question)?, read_sources(&sources));
    let answer = functions.run(py, async || Ok(lacus::ask(&question, &asked).await))?;
    match done(py, answer)? {
        Answer::Table(table) => {
            let table = Table::new(Arc::clone(table.schema()), table.batches().to_vec());
            Ok(Bound::new(py, table)?.into_any())
        }
        Answer::View(rows) => {
            let handle = handle_of(&rows, &sources, &asked.storage_options);
            Ok(Bound::new(py, View::new(handle, rows))?.into_any())
        }
    }
}

/// How a question is answered.
#[pyfunction]
pub(crate) fn explain<'py>(
    py: Python<'py>,
    question: QuestionArguments<'py>,
    sources: SourceArguments<'py>,
    analyze: bool,
) -> PyResult<String> {
    let ((question, functions), asked) = (read_question(py, question)?, read_sources(&sources));
    let told = functions.run(py, async || Ok(lacus::explain(&question, &asked, analyze).await))?;
    done(py, told)
}

/// The page about all functions, in Markdown.
#[pyfunction]
pub(crate) fn functions_page() -> String {
    lacus::query::reference()
}

/// The names of all functions.
#[pyfunction]
pub(crate) fn function_names() -> Vec<String> {
    lacus::query::function_names()
}

fn read_question(
    py: Python<'_>,
    (text, parameters, memory, functions): QuestionArguments<'_>,
) -> PyResult<(Question, Functions)> {
    let parameters = match parameters {
        None => Parameters::None,
        Some(given) => match (given.cast::<PyDict>(), given.cast::<PyList>()) {
            (Ok(named), _) => {
                let one = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
                    Ok((name.extract()?, parameter(&value)?))
                };
                Parameters::Named(named.iter().map(one).collect::<PyResult<_>>()?)
            }
            (_, Ok(list)) => {
                Parameters::Positional(list.iter().map(|value| parameter(&value)).collect::<PyResult<_>>()?)
            }
            _ => return Err(invalid(py, "parameters are a sequence or a mapping")),
        },
    };
    let functions = Functions::read(py, functions)?;
    let question =
        Question { parameters, memory, functions: functions.callees().to_vec(), ..Question::new(text) };
    Ok((question, functions))
}

/// A parameter: one of Python's own values, the bits of an array with the name of its dtype, or a list of texts.
fn parameter(value: &Bound<'_, PyAny>) -> PyResult<Parameter> {
    let py = value.py();
    let wrong = |error: QueryError| raise_error(py, &error.into());
    if value.is_none() {
        return Ok(Parameter::null());
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(value.is_true().into());
    }
    if value.is_instance_of::<PyInt>() {
        return match (value.extract::<i64>(), value.extract::<u64>()) {
            (Ok(int), _) => Ok(int.into()),
            (_, Ok(int)) => Ok(int.into()),
            _ => Err(invalid(py, format!("params: {value} does not fit into 64 bits"))),
        };
    }
    if let Ok(value) = value.cast::<PyFloat>() {
        return Ok(value.value().into());
    }
    if let Ok(value) = value.cast::<PyString>() {
        return Ok(value.to_str()?.into());
    }
    let arrow = |array: ArrayRef| {
        let field = Field::new("parameter", array.data_type().clone(), true);
        Parameter::arrow(&array, Arc::new(field)).map_err(wrong)
    };
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return arrow(Arc::new(BinaryArray::from_iter_values([bytes.as_bytes()])));
    }
    if let Some((unscaled, scale)) = decimal(value)? {
        let wrong = |error: arrow::error::ArrowError| invalid(py, format!("params: {error}"));
        let made = Decimal128Array::from_iter_values([unscaled]).with_precision_and_scale(38, scale);
        return arrow(Arc::new(made.map_err(wrong)?));
    }
    if let Ok(texts) = value.cast::<PyList>() {
        let mut builder = ListBuilder::new(StringBuilder::new());
        for text in texts.iter() {
            builder.values().append_value(text.extract::<String>()?);
        }
        builder.append(true);
        return arrow(Arc::new(builder.finish()));
    }
    let (array, name): (Bound<'_, PyUntypedArray>, String) = value.cast::<PyTuple>()?.extract()?;
    let tensor = tensor_ref(&array, dtype(py, &name)?)?;
    Parameter::tensor(&tensor).map_err(wrong)
}

/// The digits of Python's decimal as an integer, and how many of them stand behind the point; `None` for other values.
fn decimal(value: &Bound<'_, PyAny>) -> PyResult<Option<(i128, i8)>> {
    let py = value.py();
    if !value.is_instance(&py.import("decimal")?.getattr("Decimal")?)? {
        return Ok(None);
    }
    let text: String = value.call_method1("__format__", ("f",))?.extract()?;
    let digits = text.replace('.', "");
    let scale = text.split_once('.').map_or(0, |(_, part)| part.len());
    match (digits.parse::<i128>(), i8::try_from(scale)) {
        (Ok(unscaled), Ok(scale)) if scale <= 38 && unscaled.unsigned_abs() < 10u128.pow(38) => {
            Ok(Some((unscaled, scale)))
        }
        _ => Err(invalid(py, format!("params: {text} has more than 38 digits"))),
    }
}

fn read_sources((default, states, others, options): &SourceArguments<'_>) -> Asked {
    let handle = states.as_ref().map(|dataset| dataset.get().handle());
    Asked {
        dataset: default.as_ref().map(|view| view.get().rows().clone()),
        repository: handle.as_ref().map(|handle| handle.repository().clone()),
        place: handle.map_or_else(Place::main, |handle| handle.place()),
        others: others.iter().map(|(name, view)| (name.clone(), view.get().rows().clone())).collect(),
        storage_options: options.clone(),
    }
}

/// The handle of an answer: that of the view whose rows these are, or one on another state.
fn handle_of(rows: &lacus::View, sources: &SourceArguments<'_>, options: &StorageOptions) -> Arc<Handle> {
    let (default, _, others, _) = sources;
    let mut views = default.iter().chain(others.iter().map(|(_, view)| view));
    if let Some(view) = views.find(|view| Arc::ptr_eq(view.get().rows().source(), rows.source())) {
        return Arc::clone(view.get().handle());
    }
    let table = rows.source().table();
    let state = rows.state();
    let commit = state.commit.as_deref().and_then(CommitId::parse);
    let place = Place::main().at(commit.map_or(Pinned::Version(state.version), Pinned::Commit));
    let home = table.home().clone();
    let repository = Repository::over(home.url().as_str(), home.clone(), World::real());
    Arc::new(Handle::new(options.clone(), true, repository.around(table.frozen(), place)))
}
