//! Arithmetic on tiles: the innermost loops. They know no plan, no thread and no file; each has a naive twin in its
//! tests that says what it means.

/// Is raised when a kernel, or what chooses among them, gives other bits than before.
pub const REVISION: u32 = 5;

pub mod matrix;

pub mod number;
mod vectorise;
pub use vectorise::vectors_of_this_machine;

pub mod reduce;

mod packed;
mod panels;
pub mod multiply;
pub mod semiring;

pub mod formula;

pub mod csr;

pub mod distance;
