//! Tables of other libraries, by Arrow's C stream interface: their memory is read where it lies.

use arrow::array::RecordBatchReader;
use arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use crate::errors::invalid;

/// A reader of the table in a capsule, as `__arrow_c_stream__` gives it. The capsule is empty afterwards.
pub(crate) fn reader(capsule: &Bound<'_, PyCapsule>) -> PyResult<impl RecordBatchReader + Send + 'static> {
    let py = capsule.py();
    let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: A capsule of this name holds a stream that its producer initialised (the name was checked). Reading takes the
    // stream over and leaves an empty one behind, which the capsule's destructor does not release again.
    let read = unsafe { ArrowArrayStreamReader::from_raw(stream.as_ptr()) };
    read.map_err(|error| invalid(py, format!("from_table: what was given is no table of columns: {error}")))
}
