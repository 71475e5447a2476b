//! Looks a whole dataset over: refs, commits, logs, checksums, rows of columns; repairs what needs no guessing.
//!
//! ```text
//! branches ─→ logs ─→ files, checksums, rows     tags ─→ commits ─→ parents, versions, files
//! ```
//!
//! What can be made anew from what is sound is repaired: a ref that lags behind its log, a log checkpoint, the counter of
//! row ids, samples that no row shows. Everything else is damage, and the finding says what to do.

use lacus_io::boxed;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt, stream};
use lacus_io::Store;
use lacus_table::{
    At, Finding, Lives, RowChange, Table, TableError, WriteOptions, check_log, empty_tail, remove_empty_tail,
    repair_log, reserve_above, reserved_until,
};
use lacus_tensor::ErrorKind;
use serde_json::json;

use crate::branches::{self, Held};
use crate::commits::{Commit, commit_path};
use crate::error::HistoryError;
use crate::id::CommitId;
use crate::marks::{self, Marks};
use crate::tags;
use crate::timeline::Timeline;
use crate::views;

/// Commits read at the same time.
const AT_ONCE: usize = 32;

/// What a check saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Branches looked at.
    pub branches: usize,
    /// Tags looked at.
    pub tags: usize,
    /// Saved views looked at.
    pub views: usize,
    /// Commits looked at.
    pub commits: usize,
    /// Stored bytes whose checksums were verified.
    pub verified_bytes: u64,
    /// Damage that is left. Empty for a healthy dataset.
    pub damage: Vec<Finding>,
    /// What a check with `repair` would put right. Empty if that was asked for.
    pub repairable: Vec<Finding>,
    /// What was put right. Empty unless that was asked for.
    pub repaired: Vec<Finding>,
    /// What is no damage, and worth knowing: files that were written in an older way, versions that other programs made.
    pub notes: Vec<Finding>,
}

impl CheckReport {
    /// Whether nothing is left to be put right.
    pub fn is_healthy(&self) -> bool {
        self.damage.is_empty() && self.repairable.is_empty()
    }
}

impl Timeline {
    /// Verifies everything that branches and tags reach: refs, commits, logs, files, checksums, row alignment. With `repair`
    /// puts right what can be put right without guessing. What cannot be read because the store does not answer is an
    /// error, not damage.
    #[boxed]
    pub async fn check(&self, repair: bool, options: &WriteOptions) -> Result<CheckReport, HistoryError> {
        let listing = self.home().list("").await?;
        let mut checking = Checking {
            timeline: self,
            repair,
            options,
            report: CheckReport::default(),
            marks: Marks::default(),
            paths: listing.into_iter().map(|entry| entry.path).collect(),
            logs: BTreeMap::new(),
            wanted: BTreeMap::new(),
            verified: HashSet::new(),
            highest: None,
        };
        checking.marks = match marks::list(self.home()).await {
            Ok(marks) => marks,
            Err(error) => {
                checking.damaged(
                    "marks of expired versions",
                    error,
                    "restore the object from a copy, or remove it",
                )?;
                Marks::default()
            }
        };
        let (mut from, held) = checking.branches().await?;
        from.extend(checking.tags().await?);
        from.extend(checking.views().await?);
        for held in &held {
            checking.table(held).await?;
        }
        checking.row_ids().await?;
        checking.commits(from).await?;
        checking.files();
        let mut report = checking.report;
        for findings in [&mut report.damage, &mut report.repairable, &mut report.repaired, &mut report.notes]
        {
            let mut seen = HashSet::new();
            findings.retain(|finding| seen.insert((finding.what.clone(), finding.problem.clone())));
        }
        Ok(report)
    }
}

struct Checking<'a> {
    timeline: &'a Timeline,
    repair: bool,
    options: &'a WriteOptions,
    report: CheckReport,
    marks: Marks,
    /// All objects there are.
    paths: HashSet<String>,
    /// What the logs of tables say; `None` for one that is damaged.
    logs: BTreeMap<String, Option<Lives>>,
    /// Versions whose files must be there, and for whom.
    wanted: BTreeMap<(String, u64), String>,
    /// Files whose checksums were verified.
    verified: HashSet<String>,
    /// The highest id of any row.
    highest: Option<u64>,
}

impl Checking<'_> {
    fn finding(&mut self, what: impl Into<String>, problem: impl Into<String>) {
        self.report.damage.push(Finding { what: what.into(), problem: problem.into() });
    }

    /// Notes an error as damage, unless it only says that the store could not be asked.
    fn damaged(&mut self, what: &str, error: HistoryError, advice: &str) -> Result<(), HistoryError> {
        match error {
            HistoryError::Table(TableError::Cancelled) => return Err(error),
            _ if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Conflict) => return Err(error),
            _ => {}
        }
        self.finding(what, format!("{error}; {advice}"));
        Ok(())
    }

    /// Notes something that can be put right; `done` is how that went.
    fn repaired(
        &mut self,
        finding: Finding,
        done: Option<Result<(), HistoryError>>,
        advice: &str,
    ) -> Result<(), HistoryError> {
        match done {
            None | Some(Ok(())) => self.right(finding),
            Some(Err(error)) => self.damaged(&finding.what, error, advice)?,
        }
        Ok(())
    }

    /// Notes something that was put right, or could be.
    fn right(&mut self, finding: Finding) {
        match self.repair {
            true => self.report.repaired.push(finding),
            false => self.report.repairable.push(finding),
        }
    }

    /// Reads every ref. Gives what they point to.
    async fn branches(&mut self) -> Result<(Vec<(CommitId, String)>, Vec<Held>), HistoryError> {
        let store = self.timeline.home();
        let (mut heads, mut live) = (Vec::new(), Vec::new());
        for name in branches::names(store).await? {
            let what = format!("branch {name:?}");
            if self.has_empty_moves(&name, &what).await? {
                continue;
            }
            match branches::find(store, &name).await {
                Ok(Some(held)) => {
                    self.report.branches += 1;
                    heads.extend(held.branch().head.map(|head| (head, what)));
                    live.push(held);
                }
                Ok(None) => {}
                Err(error) => {
                    let advice = "restore the object from a copy; or remove it, which takes the branch back to \
                                  what it was before, and commit again";
                    self.damaged(&what, error, advice)?;
                }
            }
        }
        Ok((heads, live))
    }

    /// Moves of a branch of which a power cut left nothing: whether they are there still, and in the way.
    async fn has_empty_moves(&mut self, name: &str, what: &str) -> Result<bool, HistoryError> {
        let store = self.timeline.home();
        let empty = branches::empty_moves(store, name).await?;
        let Some(path) = empty.first() else { return Ok(false) };
        let problem = format!(
            "its newest state is an empty object, as after a power cut ({path}); removing it takes the branch back to \
             the state before, and later versions become its draft"
        );
        let finding = Finding { what: what.to_owned(), problem };
        let done = match self.repair {
            true => Some(store.remove(empty.clone()).await.map_err(HistoryError::from)),
            false => None,
        };
        self.repaired(finding, done, "remove the object by hand")?;
        Ok(!self.repair)
    }

    async fn tags(&mut self) -> Result<Vec<(CommitId, String)>, HistoryError> {
        let store = self.timeline.home();
        let mut found = Vec::new();
        for name in tags::names(store).await? {
            let what = format!("tag {name:?}");
            self.report.tags += 1;
            match tags::find(store, &name).await {
                Ok(tag) => found.extend(tag.map(|tag| (tag.commit, what))),
                Err(error) => self.damaged(&what, error, "delete the tag and give it anew")?,
            }
        }
        Ok(found)
    }

    async fn views(&mut self) -> Result<Vec<(CommitId, String)>, HistoryError> {
        let store = self.timeline.home();
        let mut found = Vec::new();
        for name in views::names(store).await? {
            let what = format!("view {name:?}");
            self.report.views += 1;
            match views::find(store, &name).await {
                Ok(view) => found.extend(view.map(|view| (view.commit, what))),
                Err(error) => self.damaged(&what, error, "delete the view and save it again")?,
            }
        }
        Ok(found)
    }

    /// What the log of a table says, once it is known whether it opens as it should.
    async fn log(
        &mut self,
        directory: &str,
        safe: Option<u64>,
        what: &str,
    ) -> Result<Option<Table>, HistoryError> {
        let advice = "restore its objects from a copy; other versions and branches are not touched";
        let store = match directory {
            "" => self.timeline.home().clone(),
            below => self.timeline.home().below(below)?,
        };
        if self.has_empty_tail(&store, safe).await? {
            self.logs.insert(directory.to_owned(), None);
            return Ok(None);
        }
        match check_log(&store).await {
            Ok(None) => {}
            Ok(Some(finding)) => {
                let done = repair_log(&store, !self.repair).await.map_err(HistoryError::from);
                self.repaired(finding, Some(done), advice)?;
            }
            Err(error) => self.damaged(what, error.into(), advice)?,
        }
        let table = match self.timeline.table(directory, At::Tip).await {
            Ok(table) => table,
            Err(error) => {
                self.logs.insert(directory.to_owned(), None);
                self.damaged(what, error, advice)?;
                return Ok(None);
            }
        };
        let lives = match table.lives().await {
            Ok(lives) => Some(lives),
            Err(error) => {
                let advice = "versions up to it cannot be opened; restore it from a copy";
                self.damaged(what, error.into(), advice)?;
                None
            }
        };
        self.logs.insert(directory.to_owned(), lives);
        Ok(Some(table))
    }

    /// Entries at the end of a log of which a power cut left nothing: whether they are there still, and in the way. `safe` is
    /// the newest version that a commit names.
    async fn has_empty_tail(&mut self, store: &Store, safe: Option<u64>) -> Result<bool, HistoryError> {
        let versions = empty_tail(store, safe).await?;
        let (Some(newest), Some(oldest)) = (versions.first(), versions.last()) else { return Ok(false) };
        let problem = match newest == oldest {
            true => format!(
                "log entry {newest} is empty, as after a power cut; it is removed, and version {newest} with it"
            ),
            false => format!(
                "log entries {oldest} to {newest} are empty, as after a power cut; they are removed, and their versions with them"
            ),
        };
        let finding = Finding { what: store.outer_path("_delta_log")?, problem };
        let done = match self.repair {
            true => Some(remove_empty_tail(store, &versions).await.map_err(HistoryError::from)),
            false => None,
        };
        self.repaired(finding, done, "remove the entries by hand, the newest first")?;
        Ok(!self.repair)
    }

    /// A branch: its ref against its log, and all that its newest version holds.
    async fn table(&mut self, held: &Held) -> Result<(), HistoryError> {
        let branch = held.branch();
        let what = format!("branch {:?}", branch.name);
        if self.logs.contains_key(&branch.directory) {
            return Ok(());
        }
        let safe = branch.head.map(|_| branch.version);
        let Some(mut table) = self.log(&branch.directory, safe, &what).await? else { return Ok(()) };
        let (first, newest) = (table.first_version(), table.version());
        if !(first..=newest).contains(&branch.version) && (branch.head.is_some() || branch.version > newest) {
            let problem = format!(
                "it is at version {}, and its log has versions {first} to {newest}; restore the log from a copy",
                branch.version
            );
            self.finding(&what, problem);
        }
        let lives = self.logs.get(&branch.directory).and_then(Option::as_ref);
        let above =
            lives.into_iter().flat_map(|lives| &lives.entries).filter(|entry| entry.version > branch.version);
        let carried = above.filter_map(|entry| entry.commit.as_ref().map(|_| entry.version)).max();
        if let Some(version) = carried {
            let problem =
                format!("it is at version {}, and version {version} carries a commit", branch.version);
            let done = match self.repair {
                true => Some(self.timeline.tip(&branch.name).await.map(drop)),
                false => None,
            };
            self.repaired(Finding { what: what.clone(), problem }, done, "see what is said of that commit")?;
        }
        let others = self.logs.get(&branch.directory).and_then(Option::as_ref).and_then(of_others);
        self.report.notes.extend(others.map(|problem| Finding { what: what.clone(), problem }));
        for version in branch.version.max(first)..=newest {
            self.wanted.entry((branch.directory.clone(), version)).or_insert_with(|| what.clone());
        }
        self.content(&mut table, &what).await
    }

    /// Files, checksums and rows of a table's newest version.
    async fn content(&mut self, table: &mut Table, what: &str) -> Result<(), HistoryError> {
        let found = table.doctor_beside(&mut self.verified, self.options).await?;
        self.report.verified_bytes += found.verified_bytes;
        for finding in found.foreign {
            self.finding(format!("{what}, {}", finding.what), finding.problem);
        }
        let notes = found.notes.into_iter();
        self.report.notes.extend(
            notes.map(|note| Finding { what: format!("{what}, {}", note.what), problem: note.problem }),
        );
        for finding in found.damage.into_iter().filter(|finding| finding.problem != "the file is gone") {
            let advice = "restore the file from a copy, or take the tensor from a commit that has it sound";
            self.finding(format!("{what}, {}", finding.what), format!("{}; {advice}", finding.problem));
        }
        self.highest = self.highest.max(table.highest_id());
        // A column that cannot be indexed was found by the doctor.
        let Ok(strays) = table.strays().await else { return Ok(()) };
        if strays.is_empty() {
            return Ok(());
        }
        let ids =
            |runs: &[(u64, u64)]| runs.iter().flat_map(|(first, count)| *first..first + count).collect();
        let clear: Vec<(String, Vec<u64>)> =
            strays.iter().map(|(name, runs)| (name.clone(), ids(runs))).collect();
        let change = RowChange { op: "REPAIR", detail: json!({}), clear, ..RowChange::default() };
        let done = match self.repair {
            // No row shows them, so that nobody can miss them.
            true => Some(table.change_rows(change, self.options).await.map(drop).map_err(HistoryError::from)),
            false => None,
        };
        if let Some(Err(error)) = done {
            return self.damaged(what, error, "samples of rows that are not there could not be cleared");
        }
        for (name, runs) in strays {
            let count: u64 = runs.iter().map(|(_, count)| count).sum();
            let first = runs.first().map_or(0, |(first, _)| *first);
            let problem = format!("{count} samples are of rows that are not there, from row id {first} on");
            self.right(Finding { what: format!("{what}, column {name:?}"), problem });
        }
        Ok(())
    }

    /// No id of a row may be given out again.
    async fn row_ids(&mut self) -> Result<(), HistoryError> {
        let Some(highest) = self.highest else { return Ok(()) };
        let store = self.timeline.home();
        let until = match reserved_until(store).await {
            Ok(until) => until,
            Err(error) => {
                return self.damaged(
                    "row ids",
                    error.into(),
                    "remove the object: others say which ids are taken",
                );
            }
        };
        if until > highest {
            return Ok(());
        }
        let problem = format!("ids from {until} on are free, and {highest} is a row's");
        let done = match self.repair {
            true => {
                Some(reserve_above(store, self.timeline.world(), highest).await.map_err(HistoryError::from))
            }
            false => None,
        };
        self.repaired(Finding { what: "row ids".to_owned(), problem }, done, "see what is said of it")
    }

    /// Reads every commit that is reached, from the store.
    async fn commits(&mut self, from: Vec<(CommitId, String)>) -> Result<(), HistoryError> {
        let mut read: HashMap<CommitId, Option<Arc<Commit>>> = HashMap::new();
        let mut next: BTreeMap<CommitId, String> = from.into_iter().collect();
        while !next.is_empty() {
            let commits = self.timeline.commits();
            let reads = stream::iter(next)
                .map(|(id, referrer)| async move { (id, commits.read_stored(&id).await, referrer) })
                .buffer_unordered(AT_ONCE);
            let found: Vec<(CommitId, Result<Arc<Commit>, HistoryError>, String)> = reads.collect().await;
            next = BTreeMap::new();
            for (id, commit, referrer) in found {
                self.report.commits += 1;
                let commit = match commit {
                    Ok(commit) => commit,
                    Err(error) => {
                        let advice =
                            format!("{referrer} refers to it; restore {} from a copy", commit_path(&id));
                        self.damaged(&format!("commit {}", id.short()), error, &advice)?;
                        read.insert(id, None);
                        continue;
                    }
                };
                for parent in &commit.parents {
                    next.entry(*parent).or_insert_with(|| format!("commit {}", id.short()));
                }
                read.insert(id, Some(commit));
            }
            next.retain(|id, _| !read.contains_key(id));
        }
        let directories: BTreeSet<String> =
            read.values().flatten().map(|commit| commit.directory.clone()).collect();
        for directory in directories {
            if !self.logs.contains_key(&directory) && !self.marks.is_gone(&directory) {
                let named = read.values().flatten().filter(|commit| commit.directory == directory);
                let safe = named.map(|commit| commit.version).max();
                self.log(&directory, safe, &format!("table {directory:?}")).await?;
            }
        }
        let mut reached: Vec<(CommitId, Arc<Commit>)> =
            read.iter().filter_map(|(id, commit)| Some((*id, Arc::clone(commit.as_ref()?)))).collect();
        reached.sort_by_key(|(id, commit)| (commit.generation, id.to_string()));
        for (id, commit) in &reached {
            self.commit(id, commit, &read);
        }
        for (id, commit) in &reached {
            self.past(id, commit).await?;
        }
        Ok(())
    }

    /// What only an older commit has: its checksums, those of files verified already left out.
    async fn past(&mut self, id: &CommitId, commit: &Commit) -> Result<(), HistoryError> {
        let is_known = matches!(self.logs.get(&commit.directory), Some(Some(_)));
        if !is_known || self.marks.is_expired(&commit.directory, commit.version, None) {
            return Ok(());
        }
        // One that does not open was told of by its log.
        let Ok(table) = self.timeline.state(id, commit).await else { return Ok(()) };
        let found = table.doctor_beside(&mut self.verified, self.options).await?;
        self.report.verified_bytes += found.verified_bytes;
        for finding in found.damage.into_iter().filter(|finding| finding.problem != "the file is gone") {
            let what = format!("commit {}, {}", id.short(), finding.what);
            self.finding(what, format!("{}; restore the file from a copy", finding.problem));
        }
        Ok(())
    }

    /// A commit against its parents and its table.
    fn commit(&mut self, id: &CommitId, commit: &Commit, read: &HashMap<CommitId, Option<Arc<Commit>>>) {
        let what = format!("commit {}", id.short());
        let parents: Option<Vec<u64>> =
            commit.parents.iter().map(|parent| Some(read.get(parent)?.as_ref()?.generation)).collect();
        if let Some(parents) = parents {
            let expected = parents.into_iter().max().unwrap_or(0) + 1;
            if commit.generation != expected {
                let problem =
                    format!("its generation is {}, and by its parents it is {expected}", commit.generation);
                self.finding(&what, problem);
            }
        }
        if self.marks.is_expired(&commit.directory, commit.version, None) {
            return;
        }
        if let Some(Some(lives)) = self.logs.get(&commit.directory) {
            let (first, newest) = (lives.first, lives.newest);
            if !(first..=newest).contains(&commit.version) {
                let problem = format!(
                    "it is version {} of table {:?}, which has versions {first} to {newest}; restore the log from a copy",
                    commit.version, commit.directory
                );
                self.finding(&what, problem);
            }
        }
        self.wanted.entry((commit.directory.clone(), commit.version)).or_insert(what);
    }

    /// Whether all files of all versions that count are there.
    fn files(&mut self) {
        let mut missing = Vec::new();
        for (directory, lives) in &self.logs {
            let Some(lives) = lives else { continue };
            for life in lives.files.iter().filter(|life| !self.paths.contains(&life.path)) {
                let end = life.until.unwrap_or(u64::MAX);
                let range = (directory.clone(), life.from)..(directory.clone(), end);
                let wanted =
                    self.wanted.range(range).find(|((_, v), _)| !self.marks.is_expired(directory, *v, None));
                if let Some((_, who)) = wanted {
                    missing.push((life.path.clone(), who.clone()));
                }
            }
        }
        for (path, who) in missing {
            self.finding(path, format!("the file is gone, and {who} needs it; restore it from a copy"));
        }
    }
}

/// Versions that a note lists at most.
const LISTED: usize = 5;

/// Which versions of a table other programs made, and what they did, if there are some.
fn of_others(lives: &Lives) -> Option<String> {
    let of_others: Vec<(u64, String)> = lives
        .entries
        .iter()
        .filter_map(|entry| {
            Some((entry.version, format!("{} by {}", entry.operation, entry.foreign.as_ref()?)))
        })
        .collect();
    let shown = of_others.iter().rev().take(LISTED).map(|(version, what)| format!("{version} ({what})"));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let more = match of_others.len().checked_sub(LISTED) {
        None | Some(0) => String::new(),
        Some(more) => format!(" and {more} more"),
    };
    let last = "what they deleted of dense arrays and columns reads as zeros and missing samples";
    (!of_others.is_empty()).then(|| format!("versions that other programs made: {shown}{more}; {last}"))
}
