//! Comparing two states of a dataset, and taking over what differs.
//!
//! ```text
//! two tables ─own_rows, arrays, samples→ Difference ─(a merge decides)→ Graft ─graft, adopt→ version
//! ```

pub(crate) mod difference;
pub(crate) mod own_rows;
pub(crate) mod arrays;
pub(crate) mod samples;
pub(crate) mod tables;
pub(crate) mod adopt;
pub(crate) mod graft;
