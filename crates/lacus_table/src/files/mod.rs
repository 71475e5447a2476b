//! The two kinds of Parquet file: `chunk_file` holds blobs, `cell_file` holds numbers and texts.
//!
//! ```text
//! chunks, cells ─page, stats→ file          (writing)
//! file ─file_index→ footer, pages, checks   (reading; `scan` and `tag_check` compare it with the log)
//! ```

pub(crate) mod stats;
pub(crate) mod page;
pub(crate) mod fetched;
pub(crate) mod checks;
pub(crate) mod file_index;
pub(crate) mod chunk_file;
pub(crate) mod cell_file;
pub(crate) mod scan;
pub(crate) mod tag_check;
