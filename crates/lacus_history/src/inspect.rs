//! Looks at history: what is in the draft, what a commit did, what differs between two states.

use std::sync::Arc;

use lacus_table::{At, Difference, HistoryEntry, Table};

use crate::commit::Commit;
use crate::error::HistoryError;
use crate::id::CommitId;
use crate::revision::Resolved;
use crate::timeline::Timeline;
use crate::walk::{Found, log};

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

/// Two states and what differs between them. The tables are for reading values, old and new.
#[derive(Debug)]
pub struct Compared {
    /// The earlier state.
    pub before: Table,
    /// The later state.
    pub after: Table,
    /// What changed from one to the other.
    pub difference: Difference,
}

/// A state to compare.
#[derive(Clone, Debug)]
pub enum State {
    /// The newest commit of the branch.
    Head,
    /// The newest version of the branch, its draft included.
    Newest,
    /// What a revision means.
    Revision(String),
}

impl Timeline {
    /// Where a branch stands.
    pub async fn status(&self, branch: &str) -> Result<Status, HistoryError> {
        let tip = self.tip(branch).await?;
        let difference = match tip.draft.is_empty() {
            true => Difference::default(),
            false => {
                self.before_draft(&tip.table, tip.head.map(|_| tip.version))
                    .await?
                    .compare(&tip.table)
                    .await?
            }
        };
        let head = match tip.head {
            Some(id) => Some((id, self.commits().read_for(&id, || format!("branch {branch:?}")).await?)),
            None => None,
        };
        let (branch, version) = (branch.to_owned(), tip.table.version());
        Ok(Status { branch, head, version, draft: tip.draft, difference })
    }

    /// The state that a draft began with: the newest commit's, or an empty dataset.
    async fn before_draft(&self, table: &Table, version: Option<u64>) -> Result<Table, HistoryError> {
        let version = version.unwrap_or_else(|| table.first_version());
        self.table(table.directory(), At::Version(version)).await
    }

    /// The commits that a revision comes from, newest first.
    pub async fn log(&self, from: &[CommitId], limit: usize) -> Result<Vec<Found>, HistoryError> {
        log(self.commits(), from, limit).await
    }

    /// What differs between two states of the dataset.
    pub async fn diff(&self, branch: &str, before: &State, after: &State) -> Result<Compared, HistoryError> {
        let before = self.state_of(branch, before).await?;
        let after = self.state_of(branch, after).await?;
        let difference = before.compare(&after).await?;
        Ok(Compared { before, after, difference })
    }

    /// What a commit changed: from its first parent, or from nothing.
    pub async fn changes_of(&self, id: &CommitId, commit: &Commit) -> Result<Compared, HistoryError> {
        let after = self.state(id, commit).await?;
        let before = match commit.parents.first() {
            Some(parent) => {
                let before = self.commits().read_for(parent, || format!("commit {}", id.short())).await?;
                self.state(parent, &before).await?
            }
            None => self.table("", At::Version(0)).await?,
        };
        let difference = before.compare(&after).await?;
        Ok(Compared { before, after, difference })
    }

    /// Opens a state, for reading only.
    pub async fn state_of(&self, branch: &str, state: &State) -> Result<Table, HistoryError> {
        match state {
            State::Newest => {
                let mut table = self.tip(branch).await?.table;
                table.set_read_only();
                Ok(table)
            }
            State::Head => {
                let tip = self.tip(branch).await?;
                self.before_draft(&tip.table, tip.head.map(|_| tip.version)).await
            }
            State::Revision(text) => match self.resolve(branch, text).await? {
                // A branch is compared as it is, its draft included.
                Resolved::Branch(held) => {
                    let mut table = self.newest(&held).await?;
                    table.set_read_only();
                    Ok(table)
                }
                Resolved::Commit(id, commit) => self.state(&id, &commit).await,
                Resolved::Version(version) => Ok(self.pinned(branch, At::Version(version)).await?.table),
                Resolved::Time(time) => Ok(self.pinned(branch, At::Time(time)).await?.table),
            },
        }
    }
}
