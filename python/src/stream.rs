//! Tables of other libraries, by Arrow's C stream interface: their memory is read where it lies.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch, RecordBatchReader, StructArray};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, to_ffi};
use arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use lacus::AnswerScan;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use crate::errors::invalid;
use crate::handle::{Handle, done};
use crate::udf::Functions;

/// A reader of the table in a capsule, as `__arrow_c_stream__` gives it. The capsule is empty afterwards.
pub(crate) fn reader(capsule: &Bound<'_, PyCapsule>) -> PyResult<impl RecordBatchReader + Send + 'static> {
    let py = capsule.py();
    let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: A capsule of this name holds a stream that its producer initialised (the name was checked). Reading takes the
    // stream over and leaves an empty one behind, which the capsule's destructor does not release again.
    let read = unsafe { ArrowArrayStreamReader::from_raw(stream.as_ptr()) };
    read.map_err(|error| invalid(py, format!("from_table: what was given is no table of columns: {error}")))
}

/// A scan of a view on its way.
pub(crate) struct Batches {
    /// Keeps what the view reads from usable for as long as the scan is.
    _handle: Arc<Handle>,
    scan: AnswerScan,
    functions: Functions,
}

impl Batches {
    pub(crate) fn new(handle: Arc<Handle>, scan: AnswerScan, functions: Functions) -> Batches {
        Batches { _handle: handle, scan, functions }
    }

    /// The next batch; `None` at the end.
    pub(crate) fn read(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        let scan = &mut self.scan;
        let read = self.functions.run(py, async || Ok(scan.next().await))?;
        done(py, read)
    }

    /// The schema of all batches.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(self.scan.schema())
    }

    /// The batches by Arrow's C stream interface.
    pub(crate) fn capsule(self, py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
        let stream = FFI_ArrowArrayStream::new(Box::new(self));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Whoever reads the stream may be on any thread, with the GIL or without.
        Python::attach(|py| self.read(py).map_err(|error| ArrowError::ExternalError(Box::new(error))))
            .transpose()
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Batches::schema(self)
    }
}

/// A schema by Arrow's C data interface.
pub(crate) fn schema_capsule<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyCapsule>> {
    let schema =
        FFI_ArrowSchema::try_from(schema.as_ref()).map_err(|error| invalid(py, error.to_string()))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

/// A record batch by Arrow's C data interface: its schema and its array.
pub(crate) fn batch_capsules<'py>(
    py: Python<'py>,
    batch: RecordBatch,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let schema = schema_capsule(py, &batch.schema())?;
    let array: FFI_ArrowArray =
        to_ffi(&StructArray::from(batch).into_data()).map_err(|error| invalid(py, error.to_string()))?.0;
    Ok((schema, PyCapsule::new_with_value(py, array, c"arrow_array")?))
}
