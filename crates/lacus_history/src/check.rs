//! Looks a whole dataset over: refs, commits, logs, checksums, rows of columns; repairs what needs no guessing.

use lacus_table::{Finding, WriteOptions};

use crate::error::HistoryError;
use crate::timeline::Timeline;

/// What a check saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Branches looked at.
    pub branches: usize,
    /// Tags looked at.
    pub tags: usize,
    /// Commits looked at.
    pub commits: usize,
    /// Stored bytes whose checksums were verified.
    pub verified_bytes: u64,
    /// Damage that is left. Empty for a healthy dataset.
    pub damage: Vec<Finding>,
    /// What was repaired, or with `repair` could be.
    pub repaired: Vec<Finding>,
}

impl Timeline {
    /// Verifies everything that branches and tags reach: refs, commits, logs, files, checksums, row alignment. With `repair`
    /// puts right what can be put right without guessing.
    pub async fn check(&self, _repair: bool, _options: &WriteOptions) -> Result<CheckReport, HistoryError> {
        todo!()
    }
}
