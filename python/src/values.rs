//! Arrow's arrays as Python's values: arrays of numpy where all values are numbers or tensors alike, else lists.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use lacus::arrow::{Cell, elements, list_item, plain_values, sample_cells};
use lacus::tensor::{Buffer, DType, Shape, Tensor};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::array::into_array;
use crate::errors::{invalid, raise_tensor};
use crate::samples::python_json;

/// The values of a column. Missing ones are `None`, in a list.
pub(crate) fn values<'py>(py: Python<'py>, field: &Field, array: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    let wrong = |why: String| invalid(py, format!("column {:?}: {why}", field.name()));
    match sample_cells(field, array).map_err(wrong)? {
        Some(cells) => samples(py, cells),
        None => plain(py, &plain_values(array).map_err(wrong)?),
    }
}

/// Samples: stacked if all are tensors of one shape.
fn samples<'py>(py: Python<'py>, cells: Vec<Cell>) -> PyResult<Bound<'py, PyAny>> {
    if let Some((dtype, dims, bytes)) = stacked(&cells) {
        return array_of(py, dtype, dims, &bytes);
    }
    let items = cells.into_iter().map(|cell| sample(py, cell)).collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, items)?.into_any())
}

fn stacked(cells: &[Cell]) -> Option<(DType, Vec<u64>, Vec<u8>)> {
    let (dtype, dims, first) = cells.first()?.elements()?;
    let mut all = Vec::with_capacity(first.len() * cells.len());
    for cell in cells {
        let (of, sizes, bytes) = cell.elements()?;
        if (of, sizes) != (dtype, dims) {
            return None;
        }
        all.extend_from_slice(bytes);
    }
    let dims = [&[cells.len() as u64], dims].concat();
    Some((dtype, dims, all))
}

fn sample<'py>(py: Python<'py>, cell: Cell) -> PyResult<Bound<'py, PyAny>> {
    match cell {
        Cell::Missing => Ok(py.None().into_bound(py)),
        Cell::Scalar(dtype, bytes) => array_of(py, dtype, Vec::new(), &bytes[..dtype.size_bytes()]),
        Cell::Tensor(tensor) => into_array(py, *tensor),
        Cell::Text(text) => Ok(PyString::new(py, &text).into_any()),
        Cell::Json(value) => python_json(py, &value),
        Cell::Media(bytes) => Ok(PyBytes::new(py, &bytes).into_any()),
        Cell::List(cells) => {
            let items = cells.into_iter().map(|cell| sample(py, cell)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, items)?.into_any())
        }
    }
}

fn array_of<'py>(py: Python<'py>, dtype: DType, dims: Vec<u64>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let made = Shape::new(dims).and_then(|shape| Tensor::new(dtype, shape, Buffer::from_slice(bytes)));
    into_array(py, made.map_err(|error| raise_tensor(py, &error))?)
}

/// Values of SQL's own types.
fn plain<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    let wrong = |error: arrow::error::ArrowError| invalid(py, error.to_string());
    if let Some((dtype, bytes)) = elements(array) {
        return without_nulls(py, array, array_of(py, dtype, vec![array.len() as u64], &bytes)?);
    }
    if let Some(kind) = numpy_time(array.data_type()) {
        let counts = cast(array, &DataType::Int64).map_err(wrong)?;
        if let Some((dtype, bytes)) = elements(&counts) {
            let numbers = array_of(py, dtype, vec![array.len() as u64], &bytes)?;
            return without_nulls(py, array, numbers.call_method1("view", (kind,))?);
        }
    }
    let each = |value: &dyn Fn(usize) -> PyResult<Bound<'py, PyAny>>| -> PyResult<Bound<'py, PyAny>> {
        let items = (0..array.len()).map(|row| match array.is_null(row) {
            true => Ok(py.None().into_bound(py)),
            false => value(row),
        });
        Ok(PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any())
    };
    match array.data_type() {
        DataType::Null => each(&|_| Ok(py.None().into_bound(py))),
        DataType::Utf8 => {
            let texts = array.as_string::<i32>();
            each(&|row| Ok(PyString::new(py, texts.value(row)).into_any()))
        }
        DataType::Binary => {
            let bytes = array.as_binary::<i32>();
            each(&|row| Ok(PyBytes::new(py, bytes.value(row)).into_any()))
        }
        DataType::List(item) | DataType::FixedSizeList(item, _) => each(&|row| match list_item(array, row) {
            Some(items) => values(py, item, &items),
            None => Ok(py.None().into_bound(py)),
        }),
        DataType::Struct(fields) => {
            let parts = array.as_struct();
            let columns = fields.iter().zip(parts.columns());
            let columns = columns
                .map(|(field, part)| Ok((field.name(), values(py, field, part)?)))
                .collect::<PyResult<Vec<_>>>()?;
            each(&|row| {
                let dict = PyDict::new(py);
                columns.iter().try_for_each(|(name, part)| dict.set_item(name, part.get_item(row)?))?;
                Ok(dict.into_any())
            })
        }
        data_type => {
            let texts = ArrayFormatter::try_new(array, &FormatOptions::default()).map_err(wrong)?;
            let text = |row: usize| texts.value(row).try_to_string().map_err(wrong);
            match data_type.is_decimal() {
                true => {
                    let decimal = py.import("decimal")?.getattr("Decimal")?;
                    each(&|row| decimal.call1((text(row)?,)))
                }
                false => each(&|row| Ok(PyString::new(py, &text(row)?).into_any())),
            }
        }
    }
}

/// An array of numpy, or a list with None where Arrow has nulls.
fn without_nulls<'py>(
    py: Python<'py>,
    array: &ArrayRef,
    numbers: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    if array.null_count() == 0 {
        return Ok(numbers);
    }
    let items = (0..array.len()).map(|row| match array.is_null(row) {
        true => Ok(py.None().into_bound(py)),
        false => numbers.get_item(row),
    });
    Ok(PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any())
}

/// numpy's name for a type of times that counts something.
fn numpy_time(data_type: &DataType) -> Option<&'static str> {
    Some(match data_type {
        DataType::Date32 => "M8[D]",
        DataType::Date64 => "M8[ms]",
        DataType::Timestamp(TimeUnit::Second, _) => "M8[s]",
        DataType::Timestamp(TimeUnit::Millisecond, _) => "M8[ms]",
        DataType::Timestamp(TimeUnit::Microsecond, _) => "M8[us]",
        DataType::Timestamp(TimeUnit::Nanosecond, _) => "M8[ns]",
        DataType::Duration(TimeUnit::Second) => "m8[s]",
        DataType::Duration(TimeUnit::Millisecond) => "m8[ms]",
        DataType::Duration(TimeUnit::Microsecond) => "m8[us]",
        DataType::Duration(TimeUnit::Nanosecond) => "m8[ns]",
        _ => return None,
    })
}
