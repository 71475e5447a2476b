//! Clean-up: finds what no branch, tag, commit or draft reaches, over all branches, and removes it.

mod survey;

use lacus_io::boxed;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use lacus_table::{TableError, WriteOptions};

use crate::branches;
use crate::commits::id_of;
use crate::error::HistoryError;
use crate::id::CommitId;
use crate::marks;
use crate::timeline::Timeline;
use survey::Expirable;
use survey::{Plan, new_mark};

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
    /// How long the data that `retention` drops stays for those who have it open; `grace` unless given. What nobody has named yet
    /// stays for `grace` all the same.
    pub dropped_grace: Option<Duration>,
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

/// How often refs are looked at again before what they do not reach is removed: on a busy dataset they move all the time.
const LOOKS: usize = 4;

/// Objects removed at a time, between looks at whether to stop.
const AT_ONCE: usize = 1000;

impl Timeline {
    /// Finds, and unless it is a dry run removes, what nothing reaches.
    ///
    /// ```text
    /// look ─→ survey ─→ look again ─changed→ survey again …
    ///                       └─same→ marks ─→ commits ─→ logs of deleted branches ─→ files
    /// ```
    ///
    /// It is safe while others work: what they made, unnamed or deleted within the grace period stays. Versions and commits
    /// that lose their data are marked first, and their files go once the mark is as old as the grace period. Damage,
    /// such as a log entry that is missing, is an error, and nothing is removed then. Killed in the middle it leaves less
    /// to do for the next.
    #[boxed]
    pub async fn gc(&self, gc: &GcOptions, options: &WriteOptions) -> Result<GcReport, HistoryError> {
        let mut plan = self.survey(gc, self.look().await?).await?;
        if gc.dry_run {
            return Ok(plan.report);
        }
        for _ in 0..LOOKS {
            let seen = self.look().await?;
            if seen == plan.seen {
                break;
            }
            let before: BTreeSet<String> =
                plan.report.removable.into_iter().map(|removable| removable.path).collect();
            plan = self.survey(gc, seen).await?;
            // What came to be needed or known between goes another time.
            plan.report.removable.retain(|removable| before.contains(&removable.path));
        }
        for (directory, mark) in &plan.marks {
            marks::put(self.home(), directory, mark).await?;
        }
        // Names go before what they name.
        let rank = |path: &str| match path {
            _ if path.starts_with(crate::commits::PREFIX) => 0,
            _ if path.contains("/_delta_log/") => 1,
            _ => 2,
        };
        let mut paths: Vec<String> =
            plan.report.removable.iter().map(|removable| removable.path.clone()).collect();
        paths.sort_by_key(|path| rank(path));
        for some in paths.chunk_by(|a, b| rank(a) == rank(b)).flat_map(|rank| rank.chunks(AT_ONCE)) {
            if options.cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
                return Err(HistoryError::Table(TableError::Cancelled));
            }
            self.home().remove(some.to_vec()).await?;
        }
        self.commits().forget(paths.iter().filter_map(|path| id_of(path)));
        self.remove_empty_directories(&plan);
        Ok(GcReport { removed: true, ..plan.report })
    }

    /// Removes the directories that removed tables leave on a file system, those with something in them excepted.
    fn remove_empty_directories(&self, plan: &Plan) {
        let known = plan.seen.gone();
        let new = plan.marks.iter().filter(|(_, mark)| mark.gone).map(|(directory, _)| directory);
        for directory in new.chain(known) {
            let below = ["_delta_log", "data", "_lacus", ""].map(|below| format!("{directory}/{below}"));
            self.home().remove_empty_directories(below.iter().map(String::as_str));
        }
    }

    /// Squashes old drafts: versions older than `older_than` that are in no commit, and are not a branch's newest, cannot be
    /// opened any more; the next clean-up removes what only they had. The versions since the newest commit stay.
    #[boxed]
    pub async fn expire(&self, older_than: Duration, dry_run: bool) -> Result<ExpireReport, HistoryError> {
        let now = self.world().now_millis();
        let cutoff = now.saturating_sub(i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX));
        let known = marks::list(self.home()).await?;
        let branches = branches::list(self.home()).await?;
        let stands = self.stands(branches.iter()).await?;
        let mut named: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        self.commits().read_ahead().await;
        for id in self.commits().list().await? {
            // One that cannot be read may name any version. An expiry can wait.
            let commit = self.commits().read(&id).await?;
            named.entry(commit.directory.clone()).or_default().insert(commit.version);
        }
        let none = BTreeSet::new();
        let mut report = ExpireReport::default();
        for (directory, stand) in &stands {
            let before = stand.lives.expirable(stand.version, cutoff);
            let mut kept = named.get(directory).unwrap_or(&none).clone();
            kept.retain(|version| !known.is_expired(directory, *version, None));
            let Some((_, mark)) = new_mark(&known, directory, &stand.lives, before, &kept, now) else {
                continue;
            };
            let versions = stand.lives.first..before;
            let count = versions
                .filter(|version| mark.expires(*version) && !known.is_expired(directory, *version, None))
                .count();
            if !dry_run {
                marks::put(self.home(), directory, &mark).await?;
            }
            report.expired.push((stand.branches.join(", "), count as u64));
        }
        report.expired.sort();
        Ok(report)
    }

    /// Refuses a version that was expired.
    pub(crate) async fn refuse_expired(&self, directory: &str, version: u64) -> Result<(), HistoryError> {
        let marks = marks::list_of(self.home(), directory).await?;
        if !marks.is_expired(directory, version, None) {
            return Ok(());
        }
        // The nearest commits, as far as they can still be opened.
        let mut below: Option<(u64, CommitId)> = None;
        let mut above: Option<(u64, CommitId)> = None;
        self.commits().read_ahead().await;
        for id in self.commits().list().await? {
            let Ok(commit) = self.commits().read(&id).await else { continue };
            if commit.directory != directory || marks.is_expired(directory, commit.version, None) {
                continue;
            }
            let found = (commit.version, id);
            match commit.version < version {
                true => below = below.max(Some(found)),
                false => above = Some(above.map_or(found, |above| above.min(found))),
            }
        }
        let near: Vec<String> = [below, above]
            .into_iter()
            .flatten()
            .map(|(version, id)| format!("{} (version {version})", id.short()))
            .collect();
        Err(HistoryError::Expired { version, near })
    }
}
