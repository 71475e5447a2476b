//! Several writes as one version: nobody sees any of them before all of them.
//!
//! ```text
//! begin ── put, extend, … ── files staged, changes resolved against a private snapshot ── finish: one log entry
//!                                                                                      └─ abandon: nothing
//! ```
//!
//! When others wrote meanwhile and nothing clashes, the changes are resolved anew on top of theirs, in their order.

use futures::future::BoxFuture;
use lacus_io::boxed;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::error::TableError;
use crate::log::snapshot::Snapshot;
use crate::table::Table;
use crate::write::commit::{Attempt, Committer, NameVersion, Staged};
use crate::write::stage::WriteOptions;

/// After this long the files of a transaction are looked for before they are committed: a clean-up takes what no log
/// has once it is old.
const LONG_MILLIS: i64 = 15 * 60 * 1000;

/// Writes that nobody sees yet.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// What there was when it began.
    base: Snapshot,
    staged: Vec<Staged>,
    /// Files written for it.
    made: Vec<String>,
    began_millis: i64,
}

/// Where an open transaction stood.
#[derive(Debug)]
pub struct Savepoint {
    snapshot: Snapshot,
    staged: usize,
    made: usize,
}

impl Transaction {
    pub(crate) fn base(&self) -> &Snapshot {
        &self.base
    }
}

impl Table {
    /// Begins a transaction: from now on writes are seen by this handle only.
    pub fn begin(&mut self) -> Result<(), TableError> {
        if self.transaction.is_some() {
            return Err(TableError::refused("begin", "a transaction is open already"));
        }
        if self.read_only {
            return Err(TableError::ReadOnly { version: self.version() });
        }
        self.transaction = Some(Transaction {
            base: self.snapshot.clone(),
            staged: Vec::new(),
            made: Vec::new(),
            began_millis: self.world.now_millis(),
        });
        Ok(())
    }

    /// A handle on what this one sees in which things can be tried out: a transaction is open in it, to be abandoned.
    pub fn scratch(&self) -> Result<Table, TableError> {
        let mut scratch = Table::over(self.store.clone(), self.world.clone(), self.snapshot.clone(), false);
        scratch.home = self.home.clone();
        scratch.begin()?;
        Ok(scratch)
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Whether a transaction is open and something was written in it.
    pub fn has_writes(&self) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| !transaction.staged.is_empty())
    }

    /// The tensors written in the open transaction.
    pub fn written_tensors(&self) -> Vec<String> {
        let staged = self.transaction.iter().flat_map(|transaction| &transaction.staged);
        let written = staged.flat_map(|staged| &staged.writes.tensors);
        let mut names: Vec<String> = written.map(|written| written.tensor.clone()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Makes everything written since [`Table::begin`] one version, which `name` may give the name of a commit. On an
    /// error, of which a clash with another writer is one, nothing of it stays. Without any writes there is no new
    /// version.
    pub fn finish<'a>(
        &'a mut self,
        op: &'static str,
        detail: Json,
        name: Option<&'a NameVersion<'a>>,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<u64, TableError>> {
        Box::pin(async move {
            let Some(transaction) = self.transaction.take() else {
                return Err(TableError::refused("finish", "no transaction is open"));
            };
            let Transaction { base, staged, mut made, began_millis } = transaction;
            let ready = std::mem::replace(&mut self.snapshot, base);
            if staged.is_empty() {
                return Ok(self.version());
            }
            if self.world.now_millis() - began_millis > LONG_MILLIS {
                for path in staged.iter().flat_map(Staged::made) {
                    if !self.store.exists(&path).await? {
                        self.row_ids.forget();
                        let what = format!("staged file {path:?}, which was cleaned up");
                        return Err(TableError::Conflict { what, version: self.version() });
                    }
                }
            }
            let attempt = Attempt { op, detail, staged: &staged, ready: Some(ready), name };
            let cache = Arc::clone(&self.cache);
            let committer =
                Committer { store: &self.store, world: &self.world, cache: &cache, rows: &self.rows };
            let finished = committer.commit_all(&mut self.snapshot, attempt, options, &mut made).await;
            match &finished {
                Err(_) => self.row_ids.forget(),
                Ok(version) if *version == self.snapshot.version => self.remove_unused(made).await,
                // Others have gone on from it: what they no longer have, it may still need.
                Ok(_) => {}
            }
            self.trim();
            finished
        })
    }

    /// Gives up everything written since [`Table::begin`].
    #[boxed]
    pub async fn abandon(&mut self) {
        let Some(transaction) = self.transaction.take() else { return };
        self.snapshot = transaction.base;
        self.row_ids.forget();
        self.trim();
        // Unseen files are harmless; removing them is a courtesy that may fail.
        let _ = self.store.remove(transaction.made).await;
    }

    /// Where the open transaction stands, to go back to.
    pub fn savepoint(&self) -> Option<Savepoint> {
        let transaction = self.transaction.as_ref()?;
        let (staged, made) = (transaction.staged.len(), transaction.made.len());
        Some(Savepoint { snapshot: self.snapshot.clone(), staged, made })
    }

    /// Gives up what was written in the open transaction since then. The rest of it stays.
    #[boxed]
    pub async fn roll_back(&mut self, to: Savepoint) {
        let Some(transaction) = &mut self.transaction else { return };
        transaction.staged.truncate(to.staged);
        let unused = transaction.made.split_off(to.made.min(transaction.made.len()));
        self.snapshot = to.snapshot;
        self.state = super::next_state();
        let _ = self.store.remove(unused).await;
    }

    /// Takes a change into the open transaction.
    pub(crate) async fn stage_privately(
        &mut self,
        staged: Staged,
        options: &WriteOptions,
    ) -> Result<u64, TableError> {
        let cache = Arc::clone(&self.cache);
        let committer = Committer { store: &self.store, world: &self.world, cache: &cache, rows: &self.rows };
        let mut made = staged.made();
        let applied = committer.apply_privately(&mut self.snapshot, &staged, options, &mut made).await;
        if let Some(transaction) = &mut self.transaction {
            transaction.made.extend(made);
            if applied.is_ok() {
                transaction.staged.push(staged);
            }
        }
        self.state = super::next_state();
        applied.map(|()| self.version())
    }

    /// Removes files that were made on the way and that the version does not have.
    async fn remove_unused(&self, made: Vec<String>) {
        let vectors: std::collections::HashSet<String> = self
            .snapshot
            .files
            .values()
            .filter_map(|file| crate::log::deletion::file_path(file.deletions()?))
            .collect();
        let is_used = |path: &String| self.snapshot.files.contains_key(path) || vectors.contains(path);
        let unused: Vec<String> = made.into_iter().filter(|path| !is_used(path)).collect();
        let _ = self.store.remove(unused).await;
    }
}
