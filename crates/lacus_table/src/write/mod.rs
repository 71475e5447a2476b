//! Writing and committing: files are staged first and count from the log entry that names them.
//!
//! ```text
//! values ─stage, stage_rows, copy_*→ Staged (files, write_set) ─commit→ version, or a conflict
//! ```

pub(crate) mod write_set;
pub(crate) mod stage;
pub(crate) mod stage_rows;
pub(crate) mod copy_samples;
pub(crate) mod copy_rows;
pub(crate) mod file_changes;
pub(crate) mod sync;
pub(crate) mod commit;
pub(crate) mod region;
pub(crate) mod row_ids;
