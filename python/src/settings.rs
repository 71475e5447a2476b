//! The threads and the memory that all handles of the process share.

use lacus::io::{Memory, Pool};
use pyo3::prelude::*;

/// Changes what is given.
#[pyfunction]
pub(crate) fn configure(py: Python<'_>, threads: Option<usize>, memory: Option<u64>) {
    py.detach(|| {
        if let Some(threads) = threads {
            Pool::process().set_threads(threads);
        }
        if let Some(bytes) = memory {
            Memory::process().set_bytes(bytes);
        }
    });
}

/// Threads, bytes of the budget, bytes in flight, bytes cached.
#[pyfunction]
pub(crate) fn settings() -> (usize, u64, u64, u64) {
    let memory = Memory::process();
    (Pool::process().threads(), memory.bytes(), memory.in_flight(), memory.cached())
}
