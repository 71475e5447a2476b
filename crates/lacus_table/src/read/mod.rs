//! Reading: from a name and a selection, or from row ids, to values.
//!
//! ```text
//! arrays    Selection ─tensor_index→ chunks ─requests→ bytes ─decode→ Tensor
//! samples   row ids ─row_index, blob_index→ places ─requests→ bytes
//! ```
//!
//! The indexes hold immutable facts of files and are cached. `array_read` and `sample_read` are the same in three steps,
//! plan, fetch and decode, that a caller can overlap.

pub(crate) mod tensor_index;
pub(crate) mod value_column;
pub(crate) mod cells;
pub(crate) mod row_index;
pub(crate) mod blob_index;
pub(crate) mod arrays;
pub(crate) mod scalars;
pub(crate) mod numbers;
pub(crate) mod texts;
pub(crate) mod samples;
pub(crate) mod array_read;
pub(crate) mod sample_read;
pub(crate) mod prune;
