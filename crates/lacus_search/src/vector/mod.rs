//! Search by vector: exact top-k, and inverted lists (IVF).
//!
//! ```text
//! nearest        view, rows that WHERE allows ─blocks→ vectors in memory ─distances, all threads→ the first k
//!                                             └cover→ lists ─probe→ nearest centres first ┘
//! create_index   vectors ─clusters→ centres ─lists→ rows by list, probes for a recall ─stored→ arrays of the dataset
//! ```

mod ranking;
mod placed;
mod random;
mod clusters;
mod lists;
mod blocks;
mod exact;
mod stored;
mod cover;
mod probe;
mod nearest;
mod create;

pub use create::{IndexInfo, create_index, drop_index, indexes};
pub use exact::QueryVector;
pub use lacus_tensor::kernels::distance::Measure;
pub use lists::{IndexSpec, Probes};
pub use nearest::{Allowed, Found, IndexUse, Nearest, Report, expected, nearest};
pub use ranking::Ranking;
