//! Where a branch stands, and what is in its draft.

use std::sync::Arc;

use lacus_io::boxed;
use lacus_table::{Difference, HistoryEntry};

use crate::commits::Commit;
use crate::error::HistoryError;
use crate::id::CommitId;
use crate::timeline::Timeline;

/// Where a branch stands and what is in its draft.
#[derive(Clone, Debug)]
pub struct Status {
    /// The branch.
    pub branch: String,
    /// Its newest commit.
    pub head: Option<(CommitId, Arc<Commit>)>,
    /// Its newest version.
    pub version: u64,
    /// Versions that are in no commit yet, newest first.
    pub draft: Vec<HistoryEntry>,
    /// What they changed.
    pub difference: Difference,
}

impl Timeline {
    /// Where a branch stands.
    #[boxed]
    pub async fn status(&self, branch: &str) -> Result<Status, HistoryError> {
        let tip = self.tip(branch).await?;
        let difference = match tip.draft.is_empty() {
            true => Difference::default(),
            false => self
                .before_draft(&tip.table, tip.head.map(|_| tip.version))
                .await?
                .compare(&tip.table)
                .await?
                .shown(),
        };
        let head = match tip.head {
            Some(id) => Some((id, self.commits().read_for(&id, || format!("branch {branch:?}")).await?)),
            None => None,
        };
        let (branch, version) = (branch.to_owned(), tip.table.version());
        Ok(Status { branch, head, version, draft: tip.draft, difference })
    }
}
