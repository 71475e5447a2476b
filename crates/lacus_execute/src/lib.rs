//! Who computes it now? Kernels, memory and workers for the plans of the algebra: on one machine, within a budget, with
//! the same bits for any number of workers.
//!
//! ```text
//! CheckedProgram ─plan_run→ ProgramPlan ─Units→ steps in order ─Engine→ tiles ─→ arrays, or a table's transaction
//!                                                 │      └ Memory: what is here, what goes (Belady), what is spilled
//!                                                 └ Form: what an operator is for kernels
//! ```
//!
//! Why things are as they are is in `design/0005-running-programs.md`.

mod error;

mod in_order;
mod limits;
mod report;

mod window;

mod tile;

mod region;

mod zeros;

mod form;
mod sparse;

mod sparsity;

mod fuse;
mod units;

mod spill;

mod memory;

mod engine;

mod flow;

mod input;

mod uneven;

mod panels;
mod spool;

mod output;

mod by_rows;

mod checkpoint;

mod quick;
mod run;

mod explain;

pub use engine::Watch;
pub use error::ExecuteError;
pub use explain::explain_run;
pub use input::Input;
pub use limits::{default_memory_bytes, default_workers};
pub use output::{Made, Store, Target};
pub use quick::is_quick;
pub use report::Report;
pub use run::{Finished, LANES, RunOptions, plan_run, run, run_into, run_plan};
pub use tile::{SparseTile, Tile};
pub use window::Window;
