//! Names states: commits, transactions, and the draft between them.

use futures::future::BoxFuture;
use lacus_io::boxed;
use lacus_table::{NameVersion, Table, TableError, WriteOptions, default_author};
use serde_json::{Map, Value as Json, json};

use crate::branches::{self, BranchRef, Held};
use crate::commits::{COMMIT_FORMAT, Commit, Lineage, commit_path};
use crate::error::HistoryError;
use crate::id::CommitId;
use crate::timeline::{Timeline, Tip, another_table, durable, no_commit, same_table, stand_still};

/// What a commit says.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// What was done, in the words of who did it.
    pub message: String,
    /// Who; by default the user this process runs as.
    pub author: Option<String>,
    /// Anything else.
    pub metadata: Map<String, Json>,
    /// Where its tensors came from.
    pub lineage: Vec<Lineage>,
}

/// What was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The commit.
    pub id: CommitId,
    /// The table version with its content.
    pub version: u64,
}

impl Timeline {
    /// Gives the newest version of a branch the name of a commit, and makes it safe against power loss. A branch
    /// without a draft is refused unless `allow_empty`. `table` is moved to that version.
    #[boxed]
    pub async fn commit(
        &self,
        table: &mut Table,
        record: &Record,
        allow_empty: bool,
    ) -> Result<Recorded, HistoryError> {
        self.commit_as(table, record, allow_empty, &[]).await
    }

    /// The same, with more parents than the head.
    pub(crate) async fn commit_as(
        &self,
        table: &mut Table,
        record: &Record,
        allow_empty: bool,
        others: &[CommitId],
    ) -> Result<Recorded, HistoryError> {
        check_message(&record.message)?;
        for tries in 0u32.. {
            let tip = self.tip_of(table).await?;
            same_table(table, &tip)?;
            if tip.draft.is_empty() && tip.head.is_some() && !allow_empty {
                return Err(HistoryError::NothingToCommit { branch: tip.held.name().to_owned() });
            }
            let version = tip.table.version();
            // A version that another writer's commit named may not be synced yet: only what was noted counts.
            tip.table.sync().await?;
            let parents = tip.head.into_iter().chain(others.iter().copied()).collect();
            let commit = self.describe(&tip.table, record, version, parents, changed(&tip, &[])).await?;
            let id = self.commits().write(&commit).await?;
            let moved = BranchRef { head: Some(id), version, ..tip.held.branch().clone() };
            match branches::advance(self.home(), self.world(), &tip.held, moved).await {
                Ok(held) => {
                    self.make_durable(&id, &held)?;
                    table.refresh().await?;
                    return Ok(Recorded { id, version });
                }
                // Somebody else committed: what is left of the draft goes on top of theirs.
                Err(HistoryError::Moved { .. }) => self.world().back_off(tries.min(16)).await,
                Err(error) => return Err(error),
            }
        }
        Err(HistoryError::Table(TableError::Cancelled))
    }

    /// Ends the transaction of a table: everything written in it becomes one version and one commit, or nothing.
    /// Without any writes nothing is committed.
    #[boxed]
    pub async fn commit_transaction(
        &self,
        table: &mut Table,
        record: &Record,
        options: &WriteOptions,
    ) -> Result<Option<Recorded>, HistoryError> {
        if let Err(error) = check_message(&record.message) {
            table.abandon().await;
            return Err(error);
        }
        if !table.has_writes() {
            table.abandon().await;
            return Ok(None);
        }
        let finished = self.finish(table, "TRANSACTION", json!({}), record, &[], options).await;
        finished.map(Some)
    }

    /// Ends a transaction as a commit with the head and `others` as its parents. On an error nothing of it stays.
    pub(crate) async fn finish(
        &self,
        table: &mut Table,
        op: &'static str,
        detail: Json,
        record: &Record,
        others: &[CommitId],
        options: &WriteOptions,
    ) -> Result<Recorded, HistoryError> {
        let tip = match self.tip_of(table).await {
            Ok(tip) => tip,
            Err(error) => {
                table.abandon().await;
                return Err(error);
            }
        };
        if let Err(error) = same_table(table, &tip) {
            table.abandon().await;
            return Err(error);
        }
        let changed = changed(&tip, &table.written_tensors());
        let (tip, changed) = (&tip, &changed);
        let name = move |version: u64| -> BoxFuture<'_, Result<String, TableError>> {
            Box::pin(async move {
                let named = async {
                    // The head may have moved since: a commit comes from the newest there is.
                    let held = branches::get(self.home(), tip.held.name()).await?;
                    if held.branch().directory != tip.table.directory() {
                        return Err(another_table(tip.held.name()));
                    }
                    let mut parents: Vec<CommitId> = held.branch().head.into_iter().collect();
                    parents.extend_from_slice(others);
                    let commit = self.describe(&tip.table, record, version, parents, changed.clone()).await?;
                    self.commits().write(&commit).await
                };
                // The table knows nothing of commits: it is told the kind and the words.
                named.await.map(|id| id.to_string()).map_err(|error| match error {
                    HistoryError::Table(error) => error,
                    other => TableError::Naming { kind: other.kind(), what: other.to_string() },
                })
            })
        };
        let version = table.finish(op, detail, Some(&name as &NameVersion<'_>), &durable(options)).await?;
        // The version stands. Finding it moves the branch on.
        let tip = self.tip_of(table).await?;
        // Others may have gone on from it since.
        let id = self.commit_of(tip.head()?, table.directory(), version).await?;
        if !options.unsynced {
            self.make_durable(&id, &tip.held)?;
        }
        Ok(Recorded { id, version })
    }

    /// The commit that a version is to be.
    async fn describe(
        &self,
        table: &Table,
        record: &Record,
        version: u64,
        parents: Vec<CommitId>,
        changed: Vec<String>,
    ) -> Result<Commit, HistoryError> {
        Ok(Commit {
            format: COMMIT_FORMAT,
            generation: self.generation(&parents).await?,
            parents,
            directory: table.directory().to_owned(),
            version,
            author: record.author.clone().unwrap_or_else(default_author),
            time_millis: self.world().now_millis(),
            message: record.message.clone(),
            metadata: record.metadata.clone(),
            lineage: record.lineage.clone(),
            changed,
            dataset: table.dataset_id().to_owned(),
        })
    }

    /// Makes the objects of a commit safe against power loss; object stores are once they have answered.
    pub(crate) fn make_durable(&self, id: &CommitId, held: &Held) -> Result<(), HistoryError> {
        let mut paths = vec![commit_path(id)];
        paths.extend(held.path());
        Ok(self.home().make_durable(&paths)?)
    }

    /// Throws the draft of a branch away: the newest version gets the content of the newest commit. Versions that
    /// others wrote are not thrown away unless `force`. Returns how many versions there were.
    #[boxed]
    pub async fn discard(
        &self,
        table: &mut Table,
        author: Option<&str>,
        force: bool,
        options: &WriteOptions,
    ) -> Result<usize, HistoryError> {
        let tip = self.tip_of(table).await?;
        if tip.draft.is_empty() {
            return Ok(0);
        }
        let me = author.map_or_else(default_author, str::to_owned);
        let others: Vec<String> = tip
            .draft
            .iter()
            .filter(|e| e.author != me)
            .map(|e| format!("{} by {}", e.version, e.author))
            .collect();
        if !others.is_empty() && !force {
            return Err(HistoryError::DraftOfOthers { versions: others.join(", ") });
        }
        let head = tip.head.ok_or_else(|| no_commit(tip.held.name()))?;
        stand_still(table, &tip).await?;
        let state = self.table(table.directory(), lacus_table::At::Version(tip.version)).await?;
        table.begin()?;
        let restored = table.restore(&state, options).await;
        if let Err(error) = restored {
            table.abandon().await;
            return Err(error.into());
        }
        let branch = tip.held.name();
        let name = |_: u64| -> BoxFuture<'_, Result<String, TableError>> {
            Box::pin(async move {
                // A commit writes no log entry: it is seen here, or not at all.
                self.head_is_still(branch, head).await?;
                Ok(head.to_string())
            })
        };
        let detail = json!({"commit": head.to_string()});
        table.finish("DISCARD", detail, Some(&name as &NameVersion<'_>), &durable(options)).await?;
        self.tip_of(table).await?;
        Ok(tip.draft.len())
    }
}

/// The tensors that a draft and a transaction on top of it wrote.
fn changed(tip: &Tip, more: &[String]) -> Vec<String> {
    let is_own = |name: &&String| !name.is_empty() && !name.starts_with('/');
    let written = tip.draft.iter().flat_map(|entry| &entry.tensors).chain(more);
    let mut changed: Vec<String> = written.filter(is_own).cloned().collect();
    // The first commit has everything there is.
    if tip.head.is_none() {
        changed.extend(tip.table.names());
    }
    changed.sort();
    changed.dedup();
    changed
}

fn check_message(message: &str) -> Result<(), HistoryError> {
    match message.trim().is_empty() {
        true => Err(HistoryError::Refused { op: "commit", why: "the message is empty".to_owned() }),
        false => Ok(()),
    }
}
