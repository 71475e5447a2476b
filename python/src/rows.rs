//! Rows and columns of a dataset.

use std::collections::BTreeMap;
use std::sync::Arc;

use lacus::StorageOptions;
use lacus::dataset::{Batch, ColumnSpec, Dataset, DatasetError, Extend, OnError, Summary};
use lacus::io::{Store, World};
use lacus::media::{Limits, decode, probe};
use lacus::sample::Column as SampleColumn;
use lacus::search::{TextIndex, create_text_index, drop_text_index, text_index, update_text_index};
use lacus::table::WriteOptions;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::array::into_array;
use crate::convert::{dtype, json, on_error, tuple};
use crate::errors::{invalid, raise_dataset, raise_dataset_with};
use crate::handle::Handle;
use crate::samples::{Held, HeldRows, Wanted, dressed, python};
use crate::selection::indices;

/// What is known of a column without reading it.
#[pyclass(frozen, get_all, module = "lacus._native")]
pub(crate) struct ColumnInfo {
    name: String,
    htype: String,
    is_sequence: bool,
    is_link: bool,
    is_text: bool,
    is_scalar: bool,
    /// numpy's name; `None` while it is open, and for texts.
    dtype: Option<&'static str>,
    /// Files have the dtype they say themselves.
    files_keep_dtype: bool,
    /// Sizes, `None` where samples differ; `None` for any shape.
    shape: Option<Vec<Option<u64>>>,
    is_fixed: bool,
    compression: String,
    class_names: Vec<String>,
    options: String,
    stored_bytes: u64,
    metadata: Option<String>,
}

fn info(name: &str, column: &SampleColumn, stored_bytes: u64, metadata: Option<String>) -> ColumnInfo {
    use lacus::sample::Form;
    let htype = column.htype();
    ColumnInfo {
        name: name.to_owned(),
        htype: htype.to_string(),
        is_sequence: htype.sequence,
        is_link: htype.link,
        is_text: column.form() == Form::Text,
        is_scalar: matches!(column.form(), Form::Int | Form::Float | Form::Real),
        dtype: column.dtype().map(|dtype| dtype.name()),
        files_keep_dtype: column.files_keep_dtype(),
        shape: column.shape().map(<[Option<u64>]>::to_vec),
        is_fixed: column.fixed_shape().is_some() && !htype.sequence,
        compression: column.compression().to_string(),
        class_names: column.class_names().to_vec(),
        options: serde_json::Value::Object(column.options().clone()).to_string(),
        stored_bytes,
        metadata,
    }
}

/// A column to make: htype, dtype, shape, compression, options as JSON text.
type SpecArguments = (Option<String>, Option<String>, Option<Vec<Option<u64>>>, Option<String>, String);

/// A row of a summary: name, htype, dtype, samples, least and greatest shape, compression, bytes.
type SummaryRow = (String, String, String, u64, Option<(Vec<u64>, Vec<u64>)>, String, u64);

/// What was appended: the version, how many rows, and those that were left out with the reasons.
type Extended = (u64, u64, Vec<(u64, String)>);

/// Rows, columns, files, bytes, advice.
type SummaryArguments = (u64, Vec<SummaryRow>, usize, u64, Vec<String>);

/// Reads of fewer samples than this run on the calling thread.
pub(crate) const SHORT_ROWS: usize = 64;

/// The same exception, with the place of the value in front.
fn in_row(py: Python<'_>, column: &str, row: usize, error: PyErr) -> PyErr {
    prefixed(py, format!("column {column:?}, row {row}: "), error)
}

fn prefixed(py: Python<'_>, place: String, error: PyErr) -> PyErr {
    let message = format!("{place}{}", error.value(py));
    let class = error.get_type(py);
    let is_ours = class.module().is_ok_and(|module| module.to_string().starts_with("lacus"));
    match is_ours {
        true => PyErr::from_type(class, (message,)),
        false => {
            let ours = invalid(py, message);
            ours.set_cause(py, Some(error));
            ours
        }
    }
}

/// Sub-sample indices: `None` for whole samples.
pub(crate) fn parts(key: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<lacus::tensor::Index>> {
    key.map_or(Ok(Vec::new()), indices)
}

/// Samples: one array when all have the shape that their column declares, else a list.
pub(crate) fn samples<'py>(
    py: Python<'py>,
    column: &SampleColumn,
    batch: Batch,
) -> PyResult<Bound<'py, PyAny>> {
    let values = match batch {
        Batch::Stacked(tensor) => into_array(py, tensor)?,
        Batch::Values(values) => {
            let items = values.into_iter().map(|value| match value {
                Some(value) => python(py, value),
                None => Ok(py.None().into_bound(py)),
            });
            PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
    };
    dressed(values, column)
}

/// Tokenizer, segments, rows with a text, rows that are covered, bytes, what is wrong.
type TextIndexFacts = (String, usize, u64, u64, u64, Option<String>);

fn text_index_facts(index: TextIndex) -> TextIndexFacts {
    (index.tokenizer, index.segments, index.rows, index.covered, index.bytes, index.problem)
}

/// The rows and columns of an open dataset.
#[pyclass(frozen, module = "lacus._native")]
pub(crate) struct Rows {
    handle: Arc<Handle>,
}

impl Rows {
    pub(crate) fn new(handle: Arc<Handle>) -> Rows {
        Rows { handle }
    }

    pub(crate) fn shared_handle(&self) -> Arc<Handle> {
        Arc::clone(&self.handle)
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

#[pymethods]
impl Rows {
    fn column_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.handle.peek_rows(py, |dataset| dataset.column_names())
    }

    fn is_column(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.handle.peek(py, |table| table.is_column(name))
    }

    fn column_info(&self, py: Python<'_>, name: &str) -> PyResult<ColumnInfo> {
        let facts = self.handle.peek_rows(py, |dataset| dataset.column_facts(name))?;
        let facts = facts.map_err(|error| raise_dataset(py, &error))?;
        let metadata = facts.metadata.map(|metadata| metadata.to_string());
        Ok(info(name, &facts.column, facts.stored_bytes, metadata))
    }

    fn row_count(&self, py: Python<'_>) -> PyResult<u64> {
        self.handle.read_rows(py, true, async |dataset: &Dataset| dataset.len().await)
    }

    /// Makes a column; rows that are there get `default`, or nothing.
    fn add_column(
        &self,
        py: Python<'_>,
        name: &str,
        spec: SpecArguments,
        default: &Bound<'_, PyAny>,
        metadata: Option<&str>,
        durable: bool,
    ) -> PyResult<u64> {
        let (htype, dtype_name, shape, compression, options) = spec;
        let options = match json(py, &options)? {
            serde_json::Value::Object(options) => options,
            _ => return Err(invalid(py, "options must be a dict")),
        };
        let is_sequence = htype.as_deref().is_some_and(|htype| htype.starts_with("sequence"));
        let dtype = dtype_name.map(|name| dtype(py, &name)).transpose()?;
        let spec = ColumnSpec { htype, dtype, shape, compression, options };
        let metadata = metadata.map(|text| json(py, text)).transpose()?;
        let wanted = match SampleColumn::new(&spec) {
            Ok(column) => Wanted { dtype: spec.dtype, ..Wanted::by(&column) },
            // What is wrong with it is said when it is made.
            Err(_) => Wanted { several: is_sequence, dtype: spec.dtype, logical: false, zoned: false },
        };
        let held = Held::new(default, wanted)
            .map_err(|error| prefixed(py, format!("column {name:?}: default: "), error))?;
        let sample = match &held {
            Held::Missing => None,
            held => Some(held.sample()?),
        };
        self.handle.write_rows(py, durable, async |dataset: &mut Dataset, options: &WriteOptions| {
            dataset.add_column(name, &spec, sample, metadata, options).await
        })
    }

    fn drop_column(&self, py: Python<'_>, name: &str, durable: bool) -> PyResult<u64> {
        self.handle.write_rows(py, durable, async |dataset: &mut Dataset, options: &WriteOptions| {
            dataset.drop_column(name, options).await
        })
    }

    fn rename_column(&self, py: Python<'_>, from_name: &str, to_name: &str, durable: bool) -> PyResult<u64> {
        self.handle.write_rows(py, durable, async |dataset: &mut Dataset, options: &WriteOptions| {
            dataset.rename_column(from_name, to_name, options).await
        })
    }

    fn add_class_names(
        &self,
        py: Python<'_>,
        name: &str,
        names: Vec<String>,
        durable: bool,
    ) -> PyResult<u64> {
        self.handle.write_rows(py, durable, async |dataset: &mut Dataset, options: &WriteOptions| {
            dataset.add_class_names(name, &names, options).await
        })
    }

    /// What is known of the text index of a column.
    fn text_index(&self, py: Python<'_>, name: &str) -> PyResult<TextIndexFacts> {
        let index =
            self.handle.read_rows(py, false, async |dataset: &Dataset| text_index(dataset, name).await)?;
        Ok(text_index_facts(index))
    }

    /// Makes the text index of a column.
    fn create_text_index(
        &self,
        py: Python<'_>,
        name: &str,
        tokenizer: Option<&str>,
        durable: bool,
    ) -> PyResult<TextIndexFacts> {
        let index =
            self.handle.write_rows(py, durable, async |dataset: &mut Dataset, options: &WriteOptions| {
                create_text_index(dataset, name, tokenizer, options).await
            })?;
        Ok(text_index_facts(index))
    }

    /// Adds the rows that the text index of a column does not cover.
    fn update_text_index(&self, py: Python<'_>, name: &str, durable: bool) -> PyResult<TextIndexFacts> {
        let index =
            self.handle.write_rows(py, durable, async |dataset: &mut Dataset, options: &WriteOptions| {
                update_text_index(dataset, name, options).await
            })?;
        Ok(text_index_facts(index))
    }

    /// Whether there was a text index.
    fn drop_text_index(&self, py: Python<'_>, name: &str, durable: bool) -> PyResult<bool> {
        self.handle.write_rows(py, durable, async |dataset: &mut Dataset, options: &WriteOptions| {
            drop_text_index(dataset, name, options).await
        })
    }

    /// Appends rows: columns and lists of samples. Returns the version, how many rows were written, and those
    /// that were not: places and reasons.
    fn extend(
        &self,
        py: Python<'_>,
        columns: Vec<(String, Bound<'_, PyAny>)>,
        on_error_text: &str,
        durable: bool,
    ) -> PyResult<Extended> {
        let on_error = on_error(py, on_error_text)?;
        let mut held: Vec<(String, HeldRows<'_>)> = Vec::with_capacity(columns.len());
        let mut types: BTreeMap<String, Arc<SampleColumn>> = BTreeMap::new();
        // Values that are no samples at all: the row, and why.
        let mut bad: BTreeMap<usize, String> = BTreeMap::new();
        for (name, samples) in &columns {
            let known = self.handle.peek_rows(py, |dataset| dataset.column(name))?;
            let column = known.map_err(|error| raise_dataset(py, &error))?;
            types.insert(name.clone(), Arc::clone(&column));
            if let Some(rows) = HeldRows::of_array(samples, &column) {
                held.push((name.clone(), rows));
                continue;
            }
            let wanted = Wanted::by(&column);
            let mut items = Vec::new();
            for (row, item) in samples.try_iter()?.enumerate() {
                match Held::new(&item?, wanted) {
                    Ok(item) => items.push(item),
                    Err(error) => {
                        let error = in_row(py, name, row, error);
                        if on_error == OnError::Raise {
                            return Err(error);
                        }
                        bad.entry(row).or_insert(error.value(py).to_string());
                        items.push(Held::Missing);
                    }
                }
            }
            held.push((name.clone(), HeldRows::Each(items)));
        }
        let lengths = held.iter().map(|(_, items)| items.len());
        let same_length = lengths.clone().min() == lengths.max();
        let kept: Vec<usize> = match held.first() {
            Some((_, items)) => (0..items.len()).filter(|row| !bad.contains_key(row)).collect(),
            None => Vec::new(),
        };
        // Lengths that differ are reported by whoever looks at all columns.
        if same_length && !bad.is_empty() {
            for ((_, rows), (_, given)) in held.iter_mut().zip(&columns) {
                match rows {
                    HeldRows::Each(items) => {
                        let mut place = 0..;
                        items.retain(|_| place.next().is_some_and(|row| !bad.contains_key(&row)));
                    }
                    HeldRows::Array(array, _) => {
                        *array = given.get_item(PyList::new(py, &kept)?)?.cast_into()?;
                    }
                }
            }
        }
        let mut rows = Extend { columns: Vec::with_capacity(held.len()), on_error };
        for (name, items) in &held {
            rows.columns.push((name.clone(), items.samples()?));
        }
        let extended =
            self.handle.write_rows(py, durable, async |dataset: &mut Dataset, options: &WriteOptions| {
                Ok(dataset.extend(rows, options).await)
            })?;
        let note = |error: &DatasetError| match error {
            DatasetError::Sample { column, row, source } => {
                let rows = held.iter().find(|(name, _)| name == column).map(|(_, rows)| rows);
                rows.zip(types.get(column)).map(|(rows, column)| rows.note(*row as usize, source, column))
            }
            _ => None,
        };
        let extended =
            extended.map_err(|error| raise_dataset_with(py, &error, &note(&error).unwrap_or_default()))?;
        let place = |row: u64| if bad.is_empty() { row } else { kept[row as usize] as u64 };
        let mut skipped: Vec<(u64, String)> = extended
            .skipped
            .into_iter()
            .map(|skipped| {
                let note = note(&skipped.error).unwrap_or_default();
                (place(skipped.row), format!("{}{note}", skipped.error))
            })
            .collect();
        skipped.extend(bad.iter().map(|(row, why)| (*row as u64, why.clone())));
        skipped.sort();
        Ok((extended.version, extended.rows, skipped))
    }

    /// Replaces samples of a column.
    fn update(
        &self,
        py: Python<'_>,
        name: &str,
        positions: Vec<u64>,
        samples: &Bound<'_, PyAny>,
        grow: bool,
        durable: bool,
    ) -> PyResult<u64> {
        let known = self.handle.peek_rows(py, |dataset| dataset.column(name))?;
        let column = known.map_err(|error| raise_dataset(py, &error))?;
        let held = match HeldRows::of_array(samples, &column) {
            Some(rows) => rows,
            None => {
                let wanted = Wanted::by(&column);
                let mut held: Vec<Held<'_>> = Vec::with_capacity(positions.len());
                for (i, item) in samples.try_iter()?.enumerate() {
                    let row = positions.get(i).map_or(i, |position| *position as usize);
                    held.push(Held::new(&item?, wanted).map_err(|error| in_row(py, name, row, error))?);
                }
                HeldRows::Each(held)
            }
        };
        let samples = held.samples()?;
        let updated =
            self.handle.write_rows(py, durable, async |dataset: &mut Dataset, options: &WriteOptions| {
                Ok(dataset.update(name, &positions, samples, grow, options).await)
            })?;
        updated.map_err(|error| {
            let note = match &error {
                DatasetError::Sample { row, source, .. } => {
                    let place = positions.iter().position(|position| position == row);
                    place.map(|place| held.note(place, source, &column))
                }
                _ => None,
            };
            raise_dataset_with(py, &error, &note.unwrap_or_default())
        })
    }

    fn delete_rows(&self, py: Python<'_>, positions: Vec<u64>, durable: bool) -> PyResult<u64> {
        self.handle.write_rows(py, durable, async |dataset: &mut Dataset, options: &WriteOptions| {
            dataset.delete_rows(&positions, options).await
        })
    }

    /// Samples of a column: one array when all have the shape it declares, else a list.
    fn read_samples<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        positions: Vec<u64>,
        key: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let indices = parts(key)?;
        let short = positions.len() < SHORT_ROWS;
        let (column, batch) = self.handle.read_rows(py, short, async |dataset: &Dataset| {
            Ok((dataset.column(name)?, dataset.read(name, &positions, &indices).await?))
        })?;
        samples(py, &column, batch)
    }

    /// Shapes of samples, without reading them; `None` for missing ones.
    fn sample_shapes<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        positions: Vec<u64>,
    ) -> PyResult<Vec<Option<Bound<'py, PyTuple>>>> {
        let shapes = self
            .handle
            .read_rows(py, true, async |dataset: &Dataset| dataset.shapes(name, &positions).await)?;
        shapes.into_iter().map(|shape| shape.map(|dims| tuple(py, &dims)).transpose()).collect()
    }

    /// Stored bytes of samples; `None` for missing ones.
    fn sample_bytes<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        positions: Vec<u64>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let short = positions.len() < SHORT_ROWS;
        let bytes = self
            .handle
            .read_rows(py, short, async |dataset: &Dataset| dataset.stored_bytes(name, &positions).await)?;
        Ok(bytes.into_iter().map(|bytes| bytes.map(|bytes| PyBytes::new(py, &bytes))).collect())
    }

    /// The ids of rows, which never change.
    fn row_ids(&self, py: Python<'_>, positions: Vec<u64>) -> PyResult<Vec<u64>> {
        self.handle.read_rows(py, true, async |dataset: &Dataset| {
            let axis = dataset.table().rows().await?;
            let id = |position: &u64| {
                let row = i64::try_from(*position).unwrap_or(i64::MAX);
                axis.id(*position).ok_or(DatasetError::OutOfBounds { row, rows: axis.len() })
            };
            positions.iter().map(id).collect()
        })
    }

    /// Where the rows with these ids are; `None` for those that are not there.
    fn row_positions(&self, py: Python<'_>, ids: Vec<u64>) -> PyResult<Vec<Option<u64>>> {
        self.handle.read_rows(py, true, async |dataset: &Dataset| {
            let axis = dataset.table().rows().await?;
            Ok(ids.iter().map(|id| axis.position(*id)).collect())
        })
    }

    /// Rows, columns, files, bytes, advice.
    fn summary(&self, py: Python<'_>) -> PyResult<SummaryArguments> {
        let found: Summary =
            self.handle.read_rows(py, false, async |dataset: &Dataset| dataset.summary().await)?;
        let columns = found
            .columns
            .into_iter()
            .map(|c| (c.name, c.htype, c.dtype, c.samples, c.shape_range, c.compression, c.stored_bytes));
        Ok((found.rows, columns.collect(), found.files.0, found.files.1, found.advice))
    }

    /// Lets links lead under a root.
    fn allow_links(&self, py: Python<'_>, root: &str, options: StorageOptions) -> PyResult<()> {
        let options: BTreeMap<String, String> = options.into_iter().collect();
        self.handle
            .set_up(py, |dataset| dataset.allow_links(root, &options))?
            .map_err(|error| raise_dataset(py, &error))
    }

    fn link_roots(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.handle.peek_rows(py, |dataset| dataset.links().roots().to_vec())
    }

    /// Copies this version to an empty place.
    fn materialize(&self, py: Python<'_>, url: &str, options: StorageOptions, durable: bool) -> PyResult<()> {
        let options: BTreeMap<String, String> = options.into_iter().collect();
        let writing = WriteOptions { durable, ..WriteOptions::default() };
        self.handle.read_rows(py, false, async |dataset: &Dataset| {
            let to = Store::open(url, &options)?;
            dataset.materialize(to, World::real(), &writing).await.map(|_| ())
        })
    }
}

/// The facts of a media file: format, dtype, shape, details as JSON text.
#[pyfunction]
pub(crate) fn probe_media<'py>(
    py: Python<'py>,
    bytes: &Bound<'py, PyBytes>,
) -> PyResult<(String, &'static str, Bound<'py, PyTuple>, String)> {
    let facts = probe(bytes.as_bytes()).map_err(|error| invalid(py, error.to_string()))?;
    let details = serde_json::Value::Object(facts.details).to_string();
    Ok((facts.format.to_string(), facts.dtype.name(), tuple(py, &facts.shape)?, details))
}

/// A media file as an array.
#[pyfunction]
pub(crate) fn decode_media<'py>(py: Python<'py>, bytes: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyAny>> {
    let raw = bytes.as_bytes();
    let tensor = py.detach(|| decode(raw, &Limits::default()));
    into_array(py, tensor.map_err(|error| invalid(py, error.to_string()))?)
}
