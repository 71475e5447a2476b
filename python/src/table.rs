//! Tables: answers of queries whose rows are in no dataset.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchIterator};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;
use arrow::ffi_stream::FFI_ArrowArrayStream;
use lacus::arrow::type_name;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::{invalid, out_of_bounds};
use crate::stream::schema_capsule;
use crate::values::values;

/// Rows in memory.
#[pyclass(frozen, module = "lacus._native")]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Table {
        Table { schema, batches }
    }

    /// Some rows of a column as one array.
    fn part(&self, column: usize, mut start: usize, mut count: usize) -> Result<ArrayRef, String> {
        let mut parts: Vec<ArrayRef> = Vec::new();
        for batch in &self.batches {
            let rows = batch.num_rows();
            if start >= rows {
                start -= rows;
                continue;
            }
            let taken = count.min(rows - start);
            if taken == 0 {
                break;
            }
            parts.push(batch.column(column).slice(start, taken));
            (start, count) = (0, count - taken);
        }
        match &parts[..] {
            [] => Ok(arrow::array::new_empty_array(self.schema.field(column).data_type())),
            [one] => Ok(Arc::clone(one)),
            many => {
                let many: Vec<&dyn arrow::array::Array> = many.iter().map(AsRef::as_ref).collect();
                concat(&many).map_err(|error| error.to_string())
            }
        }
    }
}

#[pymethods]
impl Table {
    fn row_count(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// What the types of its columns are called.
    fn types(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| type_name(field)).collect()
    }

    /// Values of the column at a place: of `count` rows from `start` on, fewer at the end.
    fn read<'py>(
        &self,
        py: Python<'py>,
        column: usize,
        start: usize,
        count: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        if column >= self.schema.fields().len() {
            return Err(out_of_bounds(py, format!("there is no column {column}")));
        }
        let array = self.part(column, start, count).map_err(|why| invalid(py, why))?;
        values(py, self.schema.field(column), &array)
    }

    /// Its rows by Arrow's C stream interface.
    fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let batches: Vec<_> = self.batches.iter().cloned().map(Ok).collect();
        let rows = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(rows)), c"arrow_array_stream")
    }

    /// The schema, by Arrow's C data interface.
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }
}
