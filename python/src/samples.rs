//! Samples between Python and the crates: anything a caller may give, anything a column may hold.

use std::borrow::Cow;

use lacus::sample::{Column, Form, Logical, Sample, SampleError, Samples, Value};
use lacus::tensor::DType;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple, PyType,
};
use serde_json::{Map, Value as Json};

use crate::array::{into_array, tensor_ref};
use crate::convert::dtype;
use crate::errors::invalid;

/// A sample with what it borrows from kept alive.
pub(crate) enum Held<'py> {
    Missing,
    Bytes(Bound<'py, PyBytes>),
    /// A file that was read, and where it is.
    File(Bound<'py, PyBytes>, String),
    Array(Bound<'py, PyUntypedArray>, DType),
    Text(String),
    Json(Json),
    Link(String),
    Several(Vec<Held<'py>>),
}

/// What a column makes of the values it is given.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// A list is several samples of one row.
    pub several: bool,
    /// The dtype of its elements, if it has some.
    pub dtype: Option<DType>,
    /// Its samples are dates, times or decimals.
    pub logical: bool,
    /// They have a time zone.
    pub zoned: bool,
}

impl Wanted {
    pub(crate) fn by(column: &Column) -> Wanted {
        let dtype = column.dtype().filter(|_| column.form() != Form::Text);
        let zoned = matches!(column.logical(), Some(Logical::Timestamp { timezone: Some(_), .. }));
        Wanted { several: column.htype().sequence, dtype, logical: column.logical().is_some(), zoned }
    }
}

/// The samples of several rows, with what they borrow from kept alive.
pub(crate) enum HeldRows<'py> {
    Each(Vec<Held<'py>>),
    /// The rows of one array: no object is made for each.
    Array(Bound<'py, PyUntypedArray>, DType),
}

impl<'py> HeldRows<'py> {
    /// The rows of an array whose elements can be taken as they are; `None` for anything else.
    pub(crate) fn of_array(samples: &Bound<'py, PyAny>, column: &Column) -> Option<HeldRows<'py>> {
        let array = samples.cast::<PyUntypedArray>().ok()?;
        let is_plain = samples.is_exact_instance_of::<PyUntypedArray>() && array.ndim() > 0;
        if let (true, 1, Some(logical)) = (is_plain, array.ndim(), column.logical())
            && let Some(counts) = counts(array, logical).filter(|_| !column.htype().sequence)
        {
            return Some(HeldRows::Array(counts, DType::I64));
        }
        let dtype = plain_dtype(array).filter(|_| is_plain)?;
        let form = column.form();
        // numpy's doubles are Python's, which are rounded. Where scalars lie in blobs, each is looked at.
        let rounds = dtype == DType::F64 && array.ndim() == 1 && form == Form::Blob;
        let rounds = rounds && column.dtype().is_some_and(|own| own != dtype);
        match form == Form::Text || column.htype().sequence || rounds {
            true => None,
            false => Some(HeldRows::Array(array.clone(), dtype)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            HeldRows::Each(all) => all.len(),
            HeldRows::Array(array, _) => array.shape()[0],
        }
    }

    /// What an error about the sample of a row says at its end.
    pub(crate) fn note(&self, row: usize, error: &SampleError, column: &Column) -> String {
        let element = match error {
            SampleError::Element { index, .. } => Some(*index),
            _ => None,
        };
        match self {
            HeldRows::Each(all) => {
                all.get(row).and_then(|held| held.note(element, column)).unwrap_or_default()
            }
            HeldRows::Array(..) => String::new(),
        }
    }

    /// The samples, borrowed.
    pub(crate) fn samples(&self) -> PyResult<Samples<'_>> {
        Ok(match self {
            HeldRows::Each(all) => Samples::Each(all.iter().map(Held::sample).collect::<PyResult<_>>()?),
            HeldRows::Array(array, dtype) => Samples::Rows(Box::new(tensor_ref(array, *dtype)?)),
        })
    }
}

/// Nestings deeper than this are nobody's sample.
const MAX_DEPTH: usize = 64;

impl<'py> Held<'py> {
    /// Looks at a value of Python's.
    pub(crate) fn new(value: &Bound<'py, PyAny>, wanted: Wanted) -> PyResult<Held<'py>> {
        let py = value.py();
        let several = wanted.several;
        if value.is_none() {
            return Ok(Held::Missing);
        }
        if let Ok(array) = value.cast::<PyUntypedArray>() {
            // Kinds of arrays that mean more than their elements, such as masked ones, say what they are.
            let plain = plain_dtype(array).filter(|_| value.is_exact_instance_of::<PyUntypedArray>());
            return match plain {
                // Of several axes, it is seen later whether it is one sample or several.
                Some(dtype) if !several || array.ndim() > 1 => Ok(Held::Array(array.clone(), dtype)),
                // numpy's own dates and times.
                None if several && wanted.logical && array.ndim() > 0 => {
                    Held::listed(value.try_iter()?.collect::<PyResult<Vec<_>>>()?, wanted)
                }
                Some(_) if array.ndim() > 0 => {
                    Held::listed(value.try_iter()?.collect::<PyResult<Vec<_>>>()?, wanted)
                }
                _ => Held::converted(value, wanted),
            };
        }
        if let Ok(bytes) = value.cast::<PyBytes>() {
            return Ok(Held::Bytes(bytes.clone()));
        }
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(Held::Text(text.to_str()?.to_owned()));
        }
        if let Ok(bytes) = value.cast::<PyByteArray>() {
            return Ok(Held::Bytes(PyBytes::new(py, &bytes.to_vec())));
        }
        let list = value.cast::<PyList>().map(|list| list.iter().collect::<Vec<_>>());
        let list = list.or_else(|_| value.cast::<PyTuple>().map(|tuple| tuple.iter().collect::<Vec<_>>()));
        if let Ok(items) = list {
            // Lists of plain things are one value; lists of arrays, files or links are several.
            return match several || items.iter().any(is_heavy) {
                true => Held::listed(items, wanted),
                false => Held::plain(value, wanted),
            };
        }
        let is_plain = value.is_instance_of::<PyBool>()
            || value.is_instance_of::<PyInt>()
            || value.is_instance_of::<PyFloat>()
            || value.is_instance_of::<PyDict>();
        if is_plain {
            return Held::plain(value, wanted);
        }
        if value.is_instance_of::<PyMemoryView>() {
            return Ok(Held::Bytes(py.get_type::<PyBytes>().call1((value,))?.cast_into()?));
        }
        // A scalar of numpy's is an array of no axes, which takes it a tenth of the time that anything else would.
        static GENERIC: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        if value.is_instance(GENERIC.import(py, "numpy", "generic")?)? {
            let array = value.call_method0("__array__")?.cast_into::<PyUntypedArray>()?;
            if let Some(dtype) = plain_dtype(&array) {
                return Ok(Held::Array(array, dtype));
            }
        }
        Held::converted(value, wanted)
    }

    /// Numbers, lists and dicts. Infinities and NaN, which JSON lacks, become elements of the column's dtype.
    fn plain(value: &Bound<'py, PyAny>, wanted: Wanted) -> PyResult<Held<'py>> {
        let dtype = match wanted.dtype {
            Some(dtype @ (DType::F16 | DType::F32 | DType::F64)) if has_no_json(value, 0) => {
                // numpy would make NaN of it, which is another value.
                if has_none(value, 0) {
                    return Err(invalid(
                        value.py(),
                        "found None among the numbers of a list: arrays have no place for it",
                    ));
                }
                dtype
            }
            _ => return Ok(Held::Json(json(value, 0)?)),
        };
        let array = value.py().import("numpy")?.call_method1("asarray", (value, dtype.name()))?;
        Ok(Held::Array(array.cast_into::<PyUntypedArray>()?, dtype))
    }

    fn listed(items: Vec<Bound<'py, PyAny>>, wanted: Wanted) -> PyResult<Held<'py>> {
        let wanted = Wanted { several: false, ..wanted };
        items.iter().map(|item| Held::new(item, wanted)).collect::<PyResult<_>>().map(Held::Several)
    }

    /// What says itself what it is (`lacus.read`, `lacus.link`), or becomes an array.
    fn converted(value: &Bound<'py, PyAny>, wanted: Wanted) -> PyResult<Held<'py>> {
        let py = value.py();
        if let Ok(own) = value.getattr("_lacus_sample") {
            let (kind, held): (String, Bound<'py, PyAny>) = own.call0()?.extract()?;
            return match kind.as_str() {
                "link" => Ok(Held::Link(held.extract()?)),
                _ => match (held.cast_into::<PyBytes>(), value.getattr("path")?.extract()?) {
                    (Ok(bytes), Some(path)) => Ok(Held::File(bytes, path)),
                    (Ok(bytes), None) => Ok(Held::Bytes(bytes)),
                    (Err(error), _) => Held::new(&error.into_inner(), Wanted { several: false, ..wanted }),
                },
            };
        }
        if wanted.logical {
            let said = py.import("lacus._moments")?.call_method1("text_of", (value, wanted.zoned))?;
            if said.is_none() {
                return Ok(Held::Missing);
            }
            if let Ok(text) = said.cast::<PyString>() {
                return Ok(Held::Text(text.to_str()?.to_owned()));
            }
        }
        let what = format!("a {}", value.get_type().name()?);
        let bits = py.import("lacus._arrays")?.getattr("bits")?.call1((value, what))?;
        let (array, name): (Bound<'py, PyAny>, String) = bits.extract()?;
        Ok(Held::Array(array.cast_into::<PyUntypedArray>()?, dtype(py, &name)?))
    }

    /// What an error about the sample, or about one element of it, says at its end: which file it is, or how to give one.
    fn note(&self, element: Option<usize>, column: &Column) -> Option<String> {
        match self {
            Held::File(_, path) => Some(format!(" (file {path:?})")),
            Held::Text(text) if column.holds_files() => Some(format!(
                "; to store a file, give lacus.read({:?})",
                text.chars().take(80).collect::<String>()
            )),
            Held::Several(all) => all.get(element?)?.note(None, column),
            _ => None,
        }
    }

    /// The sample, borrowed.
    pub(crate) fn sample(&self) -> PyResult<Sample<'_>> {
        Ok(match self {
            Held::Missing => Sample::Missing,
            Held::Bytes(bytes) | Held::File(bytes, _) => Sample::Encoded(Cow::Borrowed(bytes.as_bytes())),
            Held::Array(array, dtype) => Sample::Tensor(tensor_ref(array, *dtype)?),
            Held::Text(text) => Sample::Text(Cow::Borrowed(text)),
            Held::Json(value) => Sample::Json(value.clone()),
            Held::Link(url) => Sample::Link(url.clone()),
            Held::Several(all) => Sample::Sequence(all.iter().map(Held::sample).collect::<PyResult<_>>()?),
        })
    }
}

/// Whether an item makes its list a list of samples.
fn is_heavy(item: &Bound<'_, PyAny>) -> bool {
    let is_array = item.cast::<PyUntypedArray>().is_ok_and(|array| array.ndim() > 0);
    is_array || item.is_instance_of::<PyBytes>() || item.hasattr("_lacus_sample").unwrap_or(false)
}

/// Whether a value is, or a list has, a float that JSON has no word for.
fn has_no_json(value: &Bound<'_, PyAny>, depth: usize) -> bool {
    if let Ok(float) = value.cast::<PyFloat>() {
        return !float.value().is_finite();
    }
    let in_list = |mut items: Box<dyn Iterator<Item = Bound<'_, PyAny>> + '_>| {
        depth < MAX_DEPTH && items.any(|item| has_no_json(&item, depth + 1))
    };
    match (value.cast::<PyList>(), value.cast::<PyTuple>()) {
        (Ok(list), _) => in_list(Box::new(list.iter())),
        (_, Ok(tuple)) => in_list(Box::new(tuple.iter())),
        _ => false,
    }
}

/// Whether a list has a `None` somewhere.
fn has_none(value: &Bound<'_, PyAny>, depth: usize) -> bool {
    let in_list = |item: Bound<'_, PyAny>| depth < MAX_DEPTH && has_none(&item, depth + 1);
    match (value.cast::<PyList>(), value.cast::<PyTuple>()) {
        (Ok(list), _) => list.iter().any(in_list),
        (_, Ok(tuple)) => tuple.iter().any(in_list),
        _ => value.is_none(),
    }
}

/// The dtype of an array whose bits can be taken as they are.
fn plain_dtype(array: &Bound<'_, PyUntypedArray>) -> Option<DType> {
    let descr = array.dtype();
    if descr.byteorder() == b'>' {
        return None;
    }
    Some(match (descr.kind(), descr.itemsize()) {
        (b'b', 1) => DType::Bool,
        (b'i', 1) => DType::I8,
        (b'i', 2) => DType::I16,
        (b'i', 4) => DType::I32,
        (b'i', 8) => DType::I64,
        (b'u', 1) => DType::U8,
        (b'u', 2) => DType::U16,
        (b'u', 4) => DType::U32,
        (b'u', 8) => DType::U64,
        (b'f', 2) => DType::F16,
        (b'f', 4) => DType::F32,
        (b'f', 8) => DType::F64,
        (b'c', 8) => DType::C64,
        (b'c', 16) => DType::C128,
        _ => return None,
    })
}

/// A value of Python's as JSON.
fn json(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Json> {
    let py = value.py();
    if depth > MAX_DEPTH {
        return Err(invalid(py, "a sample is nested too deep, or holds itself"));
    }
    if value.is_none() {
        return Ok(Json::Null);
    }
    if let Ok(bool) = value.cast::<PyBool>() {
        return Ok(Json::Bool(bool.is_true()));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Json::String(text.to_str()?.to_owned()));
    }
    if value.is_instance_of::<PyInt>() {
        return match value.extract::<i64>() {
            Ok(int) => Ok(int.into()),
            Err(error) if error.is_instance_of::<PyOverflowError>(py) => {
                let large = value.extract::<u64>();
                large.map(Json::from).map_err(|_| invalid(py, format!("{value} does not fit into 64 bits")))
            }
            Err(error) => Err(error),
        };
    }
    if let Ok(float) = value.cast::<PyFloat>() {
        let number = serde_json::Number::from_f64(float.value());
        return number.map(Json::Number).ok_or_else(|| {
            invalid(py, format!("{} has no JSON; give numbers as a numpy array", float.value()))
        });
    }
    if let Ok(list) = value.cast::<PyList>() {
        return list.iter().map(|item| json(&item, depth + 1)).collect::<PyResult<_>>().map(Json::Array);
    }
    if let Ok(tuple) = value.cast::<PyTuple>() {
        return tuple.iter().map(|item| json(&item, depth + 1)).collect::<PyResult<_>>().map(Json::Array);
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        let mut map = Map::new();
        for (key, item) in dict.iter() {
            let Ok(key) = key.cast::<PyString>() else {
                return Err(invalid(py, format!("the key {key} of a JSON object is no text")));
            };
            map.insert(key.to_str()?.to_owned(), json(&item, depth + 1)?);
        }
        return Ok(Json::Object(map));
    }
    // Scalars and arrays of numpy, inside of something else.
    if let Ok(plain) = value.call_method0("tolist") {
        return json(&plain, depth + 1);
    }
    Err(invalid(py, format!("a {} cannot be a sample", value.get_type().name()?)))
}

/// What numpy calls the dates, times and durations of a column, and what `lacus/_moments.py` calls what numpy lacks.
fn kind_of(logical: &Logical) -> String {
    match logical {
        Logical::Date => "M8[D]".to_owned(),
        Logical::Timestamp { unit, .. } => format!("M8[{unit}]"),
        Logical::Time { unit } => format!("time[{unit}]"),
        Logical::Duration { unit } => format!("m8[{unit}]"),
        Logical::Decimal { .. } => "decimal".to_owned(),
    }
}

/// numpy's dates or times as the integers of a column; `None` for anything else, and where each has to be looked at.
fn counts<'py>(array: &Bound<'py, PyUntypedArray>, logical: &Logical) -> Option<Bound<'py, PyUntypedArray>> {
    if !matches!(array.dtype().kind(), b'M' | b'm') {
        return None;
    }
    let moments = array.py().import("lacus._moments").ok()?;
    moments.call_method1("counts", (array, kind_of(logical))).ok()?.cast_into::<PyUntypedArray>().ok()
}

/// Samples as `lacus/_moments.py` says them, if they are dates, times or decimals: else as they are.
pub(crate) fn dressed<'py>(values: Bound<'py, PyAny>, column: &Column) -> PyResult<Bound<'py, PyAny>> {
    let Some(logical) = column.logical() else { return Ok(values) };
    let (timezone, scale) = match logical {
        Logical::Timestamp { timezone, .. } => (timezone.as_deref(), 0),
        Logical::Decimal { scale, .. } => (None, *scale),
        _ => (None, 0),
    };
    let moments = values.py().import("lacus._moments")?;
    moments.call_method1("dressed", (values, kind_of(logical), timezone, scale))
}

/// A decoded sample as Python has it.
pub(crate) fn python<'py>(py: Python<'py>, value: Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Tensor(tensor) => into_array(py, tensor),
        Value::Text(text) | Value::Link(text) => Ok(PyString::new(py, &text).into_any()),
        Value::Json(value) => python_json(py, &value),
        Value::Bytes(bytes) => Ok(PyBytes::new(py, &bytes).into_any()),
        Value::Sequence(values) => {
            let items = values.into_iter().map(|value| python(py, value)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, items)?.into_any())
        }
    }
}

/// A JSON value as Python has it.
pub(crate) fn python_json<'py>(py: Python<'py>, value: &Json) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Json::Null => py.None().into_bound(py),
        Json::Bool(bool) => PyBool::new(py, *bool).to_owned().into_any(),
        Json::String(text) => PyString::new(py, text).into_any(),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => int.into_pyobject(py)?.into_any(),
            (_, Some(int)) => int.into_pyobject(py)?.into_any(),
            _ => number.as_f64().unwrap_or(f64::NAN).into_pyobject(py)?.into_any(),
        },
        Json::Array(items) => {
            let items = items.iter().map(|item| python_json(py, item)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        Json::Object(map) => {
            let dict = PyDict::new(py);
            for (key, item) in map {
                dict.set_item(key, python_json(py, item)?)?;
            }
            dict.into_any()
        }
    })
}
