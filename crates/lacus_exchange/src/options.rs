//! What an import or export may be told, and what it tells.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lacus_dataset::{OnError, RowSet};

use crate::error::ExchangeError;

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Rows (or tensors) dealt with.
    pub items: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// How many there are, where that is known.
    pub total_items: Option<u64>,
}

/// Hears how far it is.
pub type ProgressFn = Arc<dyn Fn(Progress) + Send + Sync>;

/// What an import may be told.
#[derive(Clone, Default)]
pub struct ImportOptions {
    /// What becomes of a sample that cannot be taken: the whole import fails and nothing of it is kept, or it is
    /// left out and reported.
    pub on_error: OnError,
    /// Columns that are there already are appended to. Otherwise they are an error.
    pub append: bool,
    /// A group that the names of the columns (or tensors) are put under.
    pub prefix: Option<String>,
    /// For a folder: its first level are splits, such as `train` and `val`, which go into a column of this name.
    pub split_column: Option<String>,
    /// For COCO: where the pictures are, if that cannot be guessed.
    pub images: Option<PathBuf>,
    /// For CSV: what separates fields; by default a tab in `.tsv` files, else a comma.
    pub delimiter: Option<u8>,
    /// Returns only when it is safe against power loss.
    pub durable: bool,
    /// Who writes; by default the user this process runs as.
    pub author: Option<String>,
    /// Hears of progress.
    pub progress: Option<ProgressFn>,
    /// Set to true from anywhere to stop: nothing of the import is kept then.
    pub cancel: Option<Arc<AtomicBool>>,
}

/// What an export may be told.
#[derive(Clone, Default)]
pub struct ExportOptions {
    /// Only these columns (or tensors), in this order.
    pub columns: Option<Vec<String>>,
    /// Only these rows, in this order.
    pub rows: Option<Arc<RowSet>>,
    /// What becomes of a row or column that the format has no place for: the export fails, or it is left out and
    /// reported.
    pub on_error: OnError,
    /// For CSV: what separates fields; by default a tab in `.tsv` files, else a comma.
    pub delimiter: Option<u8>,
    /// Hears of progress.
    pub progress: Option<ProgressFn>,
    /// Set to true from anywhere to stop: nothing is left at the destination then.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl std::fmt::Debug for ImportOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImportOptions").field("on_error", &self.on_error).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ExportOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExportOptions").field("columns", &self.columns).finish_non_exhaustive()
    }
}

/// Fails if the flag is set.
pub(crate) fn check_cancel(cancel: Option<&Arc<AtomicBool>>) -> Result<(), ExchangeError> {
    match cancel.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
        true => Err(ExchangeError::Cancelled),
        false => Ok(()),
    }
}

/// Of more than this many things left out only the number is reported.
pub const MOST_SKIPPED: usize = 1000;

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Rows (or tensors) that came in or went out.
    pub rows: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// What was left out, where it was and why; at most [`MOST_SKIPPED`] of them.
    pub skipped: Vec<(String, String)>,
    /// How many were left out.
    pub skipped_total: u64,
    /// The columns (or tensors) it went into or came from.
    pub columns: Vec<String>,
}

impl Report {
    /// Notes something that was left out, unless errors are raised.
    pub(crate) fn skip(
        &mut self,
        on_error: OnError,
        place: String,
        why: String,
    ) -> Result<(), ExchangeError> {
        if on_error == OnError::Raise {
            return Err(ExchangeError::Bad { place, why });
        }
        self.skipped_total += 1;
        if self.skipped.len() < MOST_SKIPPED {
            self.skipped.push((place, why));
        }
        Ok(())
    }
}
