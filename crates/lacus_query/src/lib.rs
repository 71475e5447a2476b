//! Which samples do I want? SQL with tensors as values; views and tables as answers.
//!
//! ```text
//! text ─language→ Statement ─bind→ LogicalPlan ─late→ LogicalPlan ─run→ places → View
//!                  (sources)                                        └→ record batches → Table
//! ```
//!
//! [`ask`] answers a [`Question`], [`explain`] says how it would be answered. Which datasets a query may name is up to the
//! [`Sources`] that the caller hands in. This is the only crate that names DataFusion.

mod error;
mod language;
mod tensors;
mod functions;
mod question;
mod calls;
mod answer;
mod faults;
mod prune;
mod source;
mod wanted;
mod fetch;
mod nearest;
mod cell_parts;
mod cells;
mod values;
mod late;
mod labels;
mod operators;
mod parameters;
mod yielding;
mod session;
mod rows;
mod run;
mod stacking;
mod steps;
mod ask;

pub use answer::{Answer, Table};
pub use ask::{ask, explain};
pub use error::{Place, QueryError};
pub use functions::reference;
pub use question::{CallError, Callee, Named, Parameter, Parameters, Question, Results, Returned, Sources};
pub use run::compute;
pub use session::function_names;
