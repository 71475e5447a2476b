//! What differs between two states, and what a commit changed.

use lacus_io::boxed;
use lacus_table::{At, Difference, Table};

use crate::commits::Commit;
use crate::error::HistoryError;
use crate::id::CommitId;
use crate::revision::Resolved;
use crate::timeline::Timeline;
use crate::walk::{Found, log};

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
    /// The state that a draft began with: the newest commit's, or an empty dataset.
    pub(crate) async fn before_draft(
        &self,
        table: &Table,
        version: Option<u64>,
    ) -> Result<Table, HistoryError> {
        let version = version.unwrap_or_else(|| table.first_version());
        self.table(table.directory(), At::Version(version)).await
    }

    /// The commits that a revision comes from, newest first.
    #[boxed]
    pub async fn log(&self, from: &[CommitId], limit: usize) -> Result<Vec<Found>, HistoryError> {
        log(self.commits(), from, limit).await
    }

    /// What differs between two states of the dataset.
    #[boxed]
    pub async fn diff(&self, branch: &str, before: &State, after: &State) -> Result<Compared, HistoryError> {
        let before = self.state_of(branch, before).await?;
        let after = self.state_of(branch, after).await?;
        let difference = before.compare(&after).await?.shown();
        Ok(Compared { before, after, difference })
    }

    /// What a commit changed: from its first parent, or from nothing.
    #[boxed]
    pub async fn changes_of(&self, id: &CommitId, commit: &Commit) -> Result<Compared, HistoryError> {
        let after = self.state(id, commit).await?;
        let before = match commit.parents.first() {
            Some(parent) => {
                let before = self.commits().read_for(parent, || format!("commit {}", id.short())).await?;
                self.state(parent, &before).await?
            }
            None => self.table("", At::Version(0)).await?,
        };
        let difference = before.compare(&after).await?.shown();
        Ok(Compared { before, after, difference })
    }

    /// Opens a state, for reading only.
    #[boxed]
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
