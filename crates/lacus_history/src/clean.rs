//! Clean-up: finds what no branch, tag, commit or draft reaches, over all branches, and removes it.

use std::time::Duration;

use lacus_table::WriteOptions;

use crate::error::HistoryError;
use crate::timeline::Timeline;

/// What a clean-up is told.
#[derive(Clone, Copy, Debug)]
pub struct GcOptions {
    /// Only reports.
    pub dry_run: bool,
    /// What is younger stays, whatever reaches it: writers may be about to need it.
    pub grace: Duration,
    /// Commits that are older and are neither a tag's nor a branch's newest lose their data; `None` keeps all that a
    /// branch or tag reaches.
    pub retention: Option<Duration>,
}

/// Something that is not needed any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removable {
    /// The object.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Why nothing needs it.
    pub why: String,
}

/// What is kept, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Who needs it: `branch "main"`, `tag "v1"`, `commits`, `draft of "dev"`, `grace period`.
    pub reason: String,
    /// How many files; each counts for the first who needs it.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// What a clean-up found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Whether it was removed.
    pub removed: bool,
    /// What nothing needs, sorted by path.
    pub removable: Vec<Removable>,
    /// What is kept.
    pub kept: Vec<Kept>,
}

/// What an expiry found: per branch, versions that are in no commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpireReport {
    /// Branch and how many of its versions can no longer be opened.
    pub expired: Vec<(String, u64)>,
}

impl Timeline {
    /// Finds, and unless it is a dry run removes, what nothing reaches.
    pub async fn gc(&self, _gc: &GcOptions, _options: &WriteOptions) -> Result<GcReport, HistoryError> {
        todo!()
    }

    /// Squashes old drafts: versions older than `older_than` that are in no commit, and are not a branch's newest, cannot be
    /// opened any more; the next clean-up removes what only they had.
    pub async fn expire(&self, _older_than: Duration, _dry_run: bool) -> Result<ExpireReport, HistoryError> {
        todo!()
    }
}
