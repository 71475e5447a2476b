//! A dataset's history: opens any state of it, and finds where a branch stands.
//!
//! ```text
//! branch ─ref→ directory, head, version ─open→ table ─entries above version→ draft
//!                 ▲                                        │ one of them carries a commit
//!                 └──────────── the ref moves on ◄─────────┘
//! ```

use lacus_io::boxed;
use std::sync::Arc;

use lacus_io::{Store, World};
use lacus_table::{At, ColumnTypes, HistoryEntry, Table, TableError, WriteOptions};

use crate::branches::{self, BranchRef, Held};
use crate::commits::{Commit, Commits};
use crate::error::HistoryError;
use crate::id::CommitId;
use crate::marks;
use crate::revision::{Resolved, resolve as resolve_revision};
use crate::walk::is_ancestor;

/// The history of one dataset. Cheap to clone; commits that were read are remembered.
#[derive(Clone, Debug)]
pub struct Timeline {
    home: Store,
    world: World,
    commits: Arc<Commits>,
    types: Option<Arc<dyn ColumnTypes>>,
}

/// A state that was opened.
#[derive(Debug)]
pub struct Opened {
    /// The table, which can be written to if `branch` says which branch's tip it is.
    pub table: Table,
    /// The branch whose tip this is.
    pub branch: Option<String>,
    /// The commit whose content this is, where that was asked for.
    pub commit: Option<CommitId>,
}

/// Where a branch stands.
#[derive(Debug)]
pub struct Tip {
    /// The branch as it was found.
    pub held: Held,
    /// Its newest commit.
    pub head: Option<CommitId>,
    /// The version whose content is the newest commit's.
    pub version: u64,
    /// Its table, at the newest version.
    pub table: Table,
    /// Versions that changed something and are in no commit yet, newest first.
    pub draft: Vec<HistoryEntry>,
}

impl Timeline {
    /// The history of the dataset at `home`.
    pub fn new(home: Store, world: World) -> Timeline {
        let commits = Arc::new(Commits::new(home.clone()));
        Timeline { home, world, commits, types: None }
    }

    /// The same, with somebody to ask about the types of columns: merges unite what only they know how to.
    pub fn with_types(self, types: Arc<dyn ColumnTypes>) -> Timeline {
        Timeline { types: Some(types), ..self }
    }

    pub(crate) fn types(&self) -> Option<&dyn ColumnTypes> {
        self.types.as_deref()
    }

    /// Where the dataset is.
    pub fn home(&self) -> &Store {
        &self.home
    }

    /// Its clock and dice.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Its commits.
    pub fn commits(&self) -> &Commits {
        &self.commits
    }

    /// Opens the tip of a branch, or the state that `at` names: a branch, tag, commit id or the beginning of one,
    /// `branch~2`, a table version of `branch`, or a time.
    #[boxed]
    pub async fn open(&self, branch: &str, at: Option<&str>) -> Result<Opened, HistoryError> {
        let Some(text) = at else {
            let table = self.branch_table(branch).await?;
            return Ok(Opened { table, branch: Some(branch.to_owned()), commit: None });
        };
        match self.resolve(branch, text).await? {
            Resolved::Branch(held) => {
                let mut table = self.newest(&held).await?;
                table.set_read_only();
                Ok(Opened { table, branch: Some(held.name().to_owned()), commit: None })
            }
            Resolved::Commit(id, commit) => {
                let table = self.state(&id, &commit).await?;
                Ok(Opened { table, branch: None, commit: Some(id) })
            }
            Resolved::Version(version) => self.pinned(branch, At::Version(version)).await,
            Resolved::Time(time) => self.pinned(branch, At::Time(time)).await,
        }
    }

    /// Opens a version of a branch, or what it was at a time.
    #[boxed]
    pub async fn pinned(&self, branch: &str, at: At) -> Result<Opened, HistoryError> {
        let held = branches::get(&self.home, branch).await?;
        let mut table = self.table(&held.branch().directory, at).await?;
        table.set_label(branch);
        self.refuse_expired(table.directory(), table.version()).await?;
        Ok(Opened { table, branch: None, commit: None })
    }

    /// Opens a version of the table in a directory, as somebody else saw it.
    #[boxed]
    pub async fn version_of(&self, directory: &str, version: u64) -> Result<Table, HistoryError> {
        self.refuse_expired(directory, version).await?;
        self.table(directory, At::Version(version)).await
    }

    /// What `text` means to somebody on a branch.
    #[boxed]
    pub async fn resolve(&self, branch: &str, text: &str) -> Result<Resolved, HistoryError> {
        let tip = self.tip(branch).await?;
        let on = tip.as_settled();
        match resolve_revision(&self.commits, text, &on, tip.table.version()).await? {
            Resolved::Branch(held) if held.name() == branch => Ok(Resolved::Branch(on)),
            other => Ok(other),
        }
    }

    /// The commit that `text` means: a branch means its newest.
    #[boxed]
    pub async fn resolve_commit(
        &self,
        branch: &str,
        text: &str,
    ) -> Result<(CommitId, Arc<Commit>), HistoryError> {
        match self.resolve(branch, text).await? {
            Resolved::Commit(id, commit) => Ok((id, commit)),
            Resolved::Branch(held) => {
                let tip = self.tip(held.name()).await?;
                let id = tip.head.ok_or_else(|| no_commit(held.name()))?;
                Ok((id, self.commits.read_for(&id, || format!("branch {:?}", held.name())).await?))
            }
            Resolved::Version(_) | Resolved::Time(_) => {
                let why = "this is a version or a time; a commit is needed".to_owned();
                Err(HistoryError::BadRevision { text: text.to_owned(), why })
            }
        }
    }

    /// The table with a commit's content.
    #[boxed]
    pub async fn state(&self, id: &CommitId, commit: &Commit) -> Result<Table, HistoryError> {
        let gone = || {
            let why = format!(
                "the data of commit {} is gone: version {} of {:?} was cleaned up",
                id.short(),
                commit.version,
                self.home.text()
            );
            HistoryError::Gone { id: *id, why }
        };
        let marks = marks::list_of(&self.home, &commit.directory).await?;
        if marks.is_expired(&commit.directory, commit.version, None) {
            return Err(gone());
        }
        let opened = self.table(&commit.directory, At::Version(commit.version)).await;
        opened.map_err(|error| match error {
            HistoryError::Table(TableError::NotADataset { .. }) => gone(),
            HistoryError::Table(TableError::NoSuchVersion { newest, .. }) => {
                cut_log(&format!("commit {}", id.short()), &commit.directory, commit.version, newest)
            }
            other => other,
        })
    }

    /// A table of the dataset.
    #[boxed]
    pub async fn table(&self, directory: &str, at: At) -> Result<Table, HistoryError> {
        Ok(Table::open_in(&self.home, directory, self.world.clone(), at).await?)
    }

    async fn branch_table(&self, branch: &str) -> Result<Table, HistoryError> {
        // Main is where it always was, so that its ref and its log are read at the same time.
        if branch != branches::MAIN {
            return self.newest(&branches::get(&self.home, branch).await?).await;
        }
        let (held, table) = futures::join!(branches::get(&self.home, branch), self.table("", At::Tip));
        // Where there is no table, there is no dataset: that says more than what is wrong with its ref.
        let (mut table, held) = (table?, held?);
        table.set_label(held.name());
        reach(&held, &mut table).await?;
        Ok(table)
    }

    /// The newest version of a branch's table.
    pub(crate) async fn newest(&self, held: &Held) -> Result<Table, HistoryError> {
        let mut table = self.table(&held.branch().directory, At::Tip).await?;
        table.set_label(held.name());
        reach(held, &mut table).await?;
        Ok(table)
    }

    /// The branch that a table is the table of.
    #[boxed]
    pub async fn branch_of(&self, table: &Table) -> Result<String, HistoryError> {
        if let Some(label) = table.label() {
            return Ok(label.to_owned());
        }
        self.branch_in(table.directory()).await
    }

    /// The branch whose table is in a directory.
    #[boxed]
    pub async fn branch_in(&self, directory: &str) -> Result<String, HistoryError> {
        // Main is where it always was.
        if directory.is_empty() {
            return Ok(branches::MAIN.to_owned());
        }
        let all = branches::list(&self.home).await?;
        let held = all.iter().find(|held| held.branch().directory == directory);
        let held = held.ok_or_else(|| HistoryError::Refused {
            op: "find the branch",
            why: format!("the table in {directory:?} is no branch's"),
        })?;
        Ok(held.name().to_owned())
    }

    /// Where a branch stands. A version that carries a commit which the ref does not know yet moves the ref on.
    #[boxed]
    pub async fn tip(&self, branch: &str) -> Result<Tip, HistoryError> {
        let held = branches::get(&self.home, branch).await?;
        let table = self.table(&held.branch().directory, At::Tip).await?;
        self.settle(held, table).await
    }

    /// Where the branch of a table stands: its log is read from there on.
    #[boxed]
    pub async fn tip_of(&self, table: &Table) -> Result<Tip, HistoryError> {
        let held = branches::get(&self.home, &self.branch_of(table).await?).await?;
        if table.directory() != held.branch().directory || table.is_read_only() {
            let table = self.table(&held.branch().directory, At::Tip).await?;
            return self.settle(held, table).await;
        }
        let mut newest = table.twin();
        newest.refresh().await?;
        self.settle(held, newest).await
    }

    async fn settle(&self, mut held: Held, mut table: Table) -> Result<Tip, HistoryError> {
        table.set_label(held.name());
        loop {
            reach(&held, &mut table).await?;
            let (head, version) = (held.branch().head, held.branch().version);
            // Before the first commit there is nothing to compare with, and every version is draft.
            let above = table.version().saturating_sub(version) + u64::from(head.is_none());
            let mut entries = match above {
                0 => Vec::new(),
                above => table.history(usize::try_from(above).ok()).await?,
            };
            let Some(newest) = entries.iter().position(|entry| entry.commit.is_some()) else {
                entries.retain(|entry| !entry.moved && entry.operation != "CREATE");
                return Ok(Tip { held, head, version, table, draft: entries });
            };
            // From the oldest on, each on top of the one before: of several that were made at once none is lost.
            let (mut id, version) = (head, entries[newest].version);
            for entry in entries[newest..].iter().rev().filter(|entry| entry.commit.is_some()) {
                id = Some(self.named(table.directory(), entry, id).await?);
            }
            let moved = BranchRef { head: id, version, ..held.branch().clone() };
            match branches::advance(&self.home, &self.world, &held, moved).await {
                Ok(moved) => held = moved,
                Err(HistoryError::Moved { .. }) => held = branches::get(&self.home, held.name()).await?,
                // Who may only read sees it all the same.
                Err(_) => {
                    entries.truncate(newest);
                    entries.retain(|entry| !entry.moved);
                    return Ok(Tip { held, head: id, version, table, draft: entries });
                }
            }
        }
    }

    /// The commit with the content of a version of a table, found among a commit and its first parents.
    pub(crate) async fn commit_of(
        &self,
        from: CommitId,
        directory: &str,
        version: u64,
    ) -> Result<CommitId, HistoryError> {
        let mut id = from;
        loop {
            let commit = self.commits.read(&id).await?;
            if commit.directory == directory && commit.version == version {
                return Ok(id);
            }
            id = match commit.parents.first() {
                Some(parent) => *parent,
                // It was named otherwise meanwhile: what the branch is at has its content, too.
                None => return Ok(from),
            };
        }
    }

    /// The commit that a version carries. One that does not come from the head, because another was made while the
    /// version was being written, is made to: the same by whoever finds it.
    async fn named(
        &self,
        directory: &str,
        entry: &HistoryEntry,
        head: Option<CommitId>,
    ) -> Result<CommitId, HistoryError> {
        let text = entry.commit.as_deref().unwrap_or_default();
        let id = CommitId::parse(text).ok_or_else(|| {
            let what = format!("version {} carries {text:?}, which is no commit", entry.version);
            HistoryError::corrupt("_delta_log", what)
        })?;
        let Some(head) = head else { return Ok(id) };
        if id == head || is_ancestor(&self.commits, &head, &id).await? {
            return Ok(id);
        }
        let commit = self.commits.read_for(&id, || format!("version {}", entry.version)).await?;
        if (commit.directory.as_str(), commit.version) != (directory, entry.version) {
            // A commit of elsewhere, whose content this version has: what led to it must not be forgotten.
            let parents = vec![head, id];
            let generation = self.generation(&parents).await?;
            let (directory, version) = (directory.to_owned(), entry.version);
            let commit = Commit { parents, generation, directory, version, ..(*commit).clone() };
            return self.commits.write(&commit).await;
        }
        let mut parents = commit.parents.clone();
        match parents.first_mut() {
            Some(first) => *first = head,
            None => parents.push(head),
        }
        let generation = self.generation(&parents).await?;
        self.commits.write(&Commit { parents, generation, ..(*commit).clone() }).await
    }

    /// Fails if the head of a branch is another one by now.
    pub(crate) async fn head_is_still(&self, branch: &str, head: CommitId) -> Result<(), TableError> {
        let moved = |kind, what| TableError::Naming { kind, what };
        let held = branches::get(&self.home, branch).await.map_err(|e| moved(e.kind(), e.to_string()))?;
        match held.branch().head == Some(head) {
            true => Ok(()),
            false => {
                let what = format!("branch {branch:?} was moved meanwhile; look again and retry");
                Err(moved(lacus_table::ErrorKind::Conflict, what))
            }
        }
    }

    /// The generation of a commit with these parents.
    pub(crate) async fn generation(&self, parents: &[CommitId]) -> Result<u64, HistoryError> {
        let mut highest = 0;
        for parent in parents {
            highest = highest.max(self.commits.read(parent).await?.generation);
        }
        Ok(highest + 1)
    }
}

impl Tip {
    /// The branch with the head that was found.
    fn as_settled(&self) -> Held {
        self.held.with_head(self.head, self.version)
    }

    /// Refuses `op` while there is a draft.
    pub fn refuse_draft(&self, op: &'static str) -> Result<(), HistoryError> {
        match self.draft.len() {
            0 => Ok(()),
            count => Err(HistoryError::Draft { op, branch: self.held.name().to_owned(), count }),
        }
    }

    /// The head, which must be there.
    pub(crate) fn head(&self) -> Result<CommitId, HistoryError> {
        self.head.ok_or_else(|| no_commit(self.held.name()))
    }
}

/// Moves `table` on to the version that the branch is at, or further. A log that ends before it has lost entries: what is left
/// of it is an older state, which must not be taken for this one.
async fn reach(held: &Held, table: &mut Table) -> Result<(), HistoryError> {
    if held.branch().version > table.version() {
        // The ref may have moved on since the table was opened.
        table.refresh().await?;
    }
    match held.branch().version > table.version() {
        true => {
            let who = format!("branch {:?}", held.name());
            Err(cut_log(&who, table.directory(), held.branch().version, table.version()))
        }
        false => Ok(()),
    }
}

fn cut_log(who: &str, directory: &str, version: u64, newest: u64) -> HistoryError {
    let what = format!(
        "{who} is at version {version}, and its log ends with version {newest}: entries are missing; restore them from \
         a copy"
    );
    let log = if directory.is_empty() { "_delta_log".to_owned() } else { format!("{directory}/_delta_log") };
    HistoryError::corrupt(log, what)
}

/// Moves `table` to the tip that was looked at; what somebody wrote since would be overlooked.
pub(crate) async fn stand_still(table: &mut Table, tip: &Tip) -> Result<(), HistoryError> {
    same_table(table, tip)?;
    table.refresh().await?;
    match table.version() == tip.table.version() {
        true => Ok(()),
        false => {
            let now = format!("somebody wrote version {}", table.version());
            Err(HistoryError::Moved { name: tip.held.name().to_owned(), now })
        }
    }
}

/// Fails if the branch is another table than the one at hand: it was deleted or renamed and made anew.
pub(crate) fn same_table(table: &Table, tip: &Tip) -> Result<(), HistoryError> {
    match table.directory() == tip.table.directory() {
        true => Ok(()),
        false => Err(another_table(tip.held.name())),
    }
}

pub(crate) fn another_table(branch: &str) -> HistoryError {
    let now = "it was deleted and recreated; open it again".to_owned();
    HistoryError::Moved { name: branch.to_owned(), now }
}

pub(crate) fn no_commit(branch: &str) -> HistoryError {
    HistoryError::NoCommitYet { branch: branch.to_owned() }
}

/// What a write of the history is told: synced, as commits are.
pub(crate) fn durable(options: &WriteOptions) -> WriteOptions {
    WriteOptions { durable: !options.unsynced, ..options.clone() }
}
