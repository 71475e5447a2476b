//! The binding crate behind the `lacus` Python package: it converts and releases the GIL, nothing else.
//! Signatures, defaults and documentation are in `lacus/*.py`; one file per noun there and here.
//!
//! ```text
//! ds.put("x", value) ─dataset.py, values.py→ Dataset.put ─array.rs→ TensorRef ─runtime.rs→ Table::put
//! t[0:10, ::2]       ─tensor.py→ Tensor.read ─selection.rs→ [Index] ─runtime.rs→ Table::read ─array.rs→ ndarray
//! ```

mod errors;

mod calls;

mod runtime;

mod settings;

mod array;
mod convert;
mod handle;
mod selection;

mod sparse;

mod samples;

mod rows;

mod values;

mod udf;

mod stream;

mod table;

mod view;

mod exchange;

mod tensor;

mod history;

mod dataset;

mod query;

mod search;

mod compute;

use pyo3::prelude::*;

/// What the package calls. Not for anybody else: it may change at any time.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use crate::array::Memory;
    #[pymodule_export]
    use crate::compute::{check_program, explain_run, run_program};
    #[pymodule_export]
    use crate::dataset::{Dataset, delete, exists};
    #[pymodule_export]
    use crate::exchange::Exchange;
    #[pymodule_export]
    use crate::history::History;
    #[pymodule_export]
    use crate::query::{ask, explain, function_names, functions_page};
    #[pymodule_export]
    use crate::rows::{ColumnInfo, Rows, decode_media, probe_media};
    #[pymodule_export]
    use crate::search::{create_vector_index, drop_vector_index, vector_indexes};
    #[pymodule_export]
    use crate::settings::{configure, settings};
    #[pymodule_export]
    use crate::sparse::Sparse;
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::tensor::{Tensor, TensorInfo};
    #[pymodule_export]
    use crate::view::{View, ViewScan};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::runtime::register(module)
    }
}
