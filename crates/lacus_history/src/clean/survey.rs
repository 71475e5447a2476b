//! What a dataset has, and who needs it.
//!
//! ```text
//! refs, tags, commits, marks ─→ Seen ─→ versions that are kept, and why ─┐
//! all logs ─→ lives of files ───────────────────────────────────────────┴→ Plan: what is kept, what nobody needs
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use lacus_io::Entry;
use lacus_table::{At, Lives};

use crate::branches::{self, Held};
use crate::clean::{GcOptions, GcReport, Kept, Removable};
use crate::commits::{Commit, PREFIX as COMMITS, id_of};
use crate::error::HistoryError;
use crate::id::CommitId;
use crate::marks::{self, Mark, Marks};
use crate::tags;
use crate::timeline::Timeline;
use crate::views;
use crate::walk::{Found, ancestors, merge_base};

/// Where the tables of branches are.
const BRANCHES: &str = "_branches/";

/// All that names something.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    branches: Vec<Held>,
    /// Tags and saved views: what they are, and the commit whose data they keep.
    pins: Vec<(String, CommitId)>,
    commits: BTreeMap<CommitId, i64>,
    marks: Marks,
    directories: BTreeSet<String>,
}

impl Seen {
    /// The directories of tables that were removed, as far as something is left of them.
    pub(crate) fn gone(&self) -> impl Iterator<Item = &String> {
        self.directories.iter().filter(|directory| self.marks.is_gone(directory))
    }
}

/// What a clean-up is to do.
pub(crate) struct Plan {
    pub seen: Seen,
    pub report: GcReport,
    /// Marks to put before anything is removed.
    pub marks: Vec<(String, Mark)>,
}

/// A table, and who stands on it.
pub(crate) struct Stand {
    /// Names of the branches whose table it is.
    pub branches: Vec<String>,
    /// The lowest version that one of them says is its head's.
    pub version: u64,
    /// Whether they were deleted.
    pub deleted: bool,
    pub lives: Lives,
}

/// Versions that somebody needs.
struct Reason {
    text: String,
    versions: HashMap<String, Vec<u64>>,
}

impl Timeline {
    /// Reads all that names something.
    pub(crate) async fn look(&self) -> Result<Seen, HistoryError> {
        let store = self.home();
        let branches = branches::list_with_deleted(store).await?;
        let tags = tags::list(store).await?;
        let mut pins: Vec<(String, CommitId)> =
            tags.into_iter().map(|tag| (format!("tag {:?}", tag.name), tag.commit)).collect();
        let views = views::list(store).await?;
        pins.extend(views.into_iter().map(|view| (format!("view {:?}", view.name), view.commit)));
        let marks = marks::list(store).await?;
        let mut directories: BTreeSet<String> = BTreeSet::from([String::new()]);
        directories
            .extend(store.names("_branches").await?.into_iter().map(|name| format!("{BRANCHES}{name}")));
        let stored = match store.list(COMMITS).await {
            Ok(stored) => stored,
            Err(e) if e.is_not_found() => Vec::new(),
            Err(e) => return Err(e.into()),
        };
        let commits =
            stored.iter().filter_map(|entry| Some((id_of(&entry.path)?, entry.modified_millis))).collect();
        Ok(Seen { branches, pins, commits, marks, directories })
    }

    /// The tables that branches stand on, by directory. A deleted branch whose table is another one's as well says nothing
    /// about it: the others do.
    pub(crate) async fn stands<'a>(
        &self,
        branches: impl Iterator<Item = &'a Held>,
    ) -> Result<BTreeMap<String, Stand>, HistoryError> {
        let mut branches: Vec<&Held> = branches.collect();
        branches.sort_by_key(|held| held.branch().deleted);
        let mut stands: BTreeMap<String, Stand> = BTreeMap::new();
        for held in branches {
            let branch = held.branch();
            if let Some(stand) = stands.get_mut(&branch.directory) {
                if stand.deleted == branch.deleted {
                    stand.branches.push(branch.name.clone());
                    stand.version = stand.version.min(branch.version);
                }
                continue;
            }
            let lives = self.table(&branch.directory, At::Tip).await?.lives().await?;
            let (branches, version, deleted) = (vec![branch.name.clone()], branch.version, branch.deleted);
            stands.insert(branch.directory.clone(), Stand { branches, version, deleted, lives });
        }
        Ok(stands)
    }

    /// Finds what is needed, why, and what is not.
    pub(crate) async fn survey(&self, gc: &GcOptions, seen: Seen) -> Result<Plan, HistoryError> {
        let now = self.world().now_millis();
        let millis = |time: std::time::Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let before_grace = now.saturating_sub(millis(gc.grace));
        let is_young = |time_millis: i64| time_millis > before_grace;
        let before_dropped = gc.dropped_grace.map_or(before_grace, |grace| now.saturating_sub(millis(grace)));

        // Who stands somewhere: branches, and those whose deletion may still be under way. Of the latter, an earlier clean-up
        // with a shorter grace period may have taken the table, or commits that only they had.
        let counts = |held: &&Held| {
            let branch = held.branch();
            !branch.deleted || (is_young(branch.time_millis) && !seen.marks.is_gone(&branch.directory))
        };
        let mut stands = self.stands(seen.branches.iter().filter(counts)).await?;
        let mut heads = self::heads(&seen, &stands, counts, false)?;
        let mut from: Vec<CommitId> = heads.iter().copied().collect();
        from.extend(seen.pins.iter().map(|(_, commit)| *commit));
        let mut reached: BTreeMap<CommitId, Arc<Commit>> =
            ancestors(self.commits(), &from).await?.into_iter().collect();
        if let Some(id) = reached.keys().find(|id| !seen.commits.contains_key(id)) {
            // It is in memory only.
            return Err(HistoryError::NoSuchCommit { id: *id, referrer: None });
        }
        for id in self::heads(&seen, &stands, counts, true)? {
            if let Some(found) = self.all_before(&seen, &id).await? {
                heads.insert(id);
                reached.extend(found);
            }
        }
        // Commits that somebody may be about to give a name.
        let mut young: BTreeMap<CommitId, Arc<Commit>> = BTreeMap::new();
        for (id, _) in seen.commits.iter().filter(|(id, time)| is_young(**time) && !reached.contains_key(id))
        {
            // Nobody can open what comes from a commit that is not there.
            let found = self.all_before(&seen, id).await?.unwrap_or_default();
            young.extend(found.into_iter().filter(|(id, _)| !reached.contains_key(id)));
        }

        // Tables of branches that are gone, as far as commits still need them.
        let named = reached.values().chain(young.values());
        let needed: BTreeSet<&str> = named.map(|commit| commit.directory.as_str()).collect();
        let mut bygone: BTreeMap<String, Lives> = BTreeMap::new();
        for directory in needed {
            if stands.contains_key(directory)
                || !seen.directories.contains(directory)
                || seen.marks.is_gone(directory)
            {
                continue;
            }
            let lives = self.table(directory, At::Tip).await?.lives().await?;
            bygone.insert(directory.to_owned(), lives);
        }

        // What loses its data in this run.
        let mut new_marks: Vec<(String, Mark)> = Vec::new();
        if let Some(retention) = gc.retention {
            let cutoff = now.saturating_sub(millis(retention));
            let mut surviving: BTreeSet<CommitId> = heads.clone();
            surviving.extend(seen.pins.iter().map(|(_, commit)| *commit));
            surviving.extend(self.bases(&heads).await?);
            surviving.extend(young.keys());
            surviving
                .extend(reached.iter().filter(|(_, commit)| commit.time_millis > cutoff).map(|(id, _)| *id));
            let mut kept: HashMap<&str, BTreeSet<u64>> = HashMap::new();
            for (_, commit) in reached.iter().chain(&young).filter(|(id, _)| surviving.contains(*id)) {
                kept.entry(commit.directory.as_str()).or_default().insert(commit.version);
            }
            let none = BTreeSet::new();
            for (directory, stand) in &stands {
                let before = stand.lives.expirable(stand.version, cutoff);
                let kept = kept.get(directory.as_str()).unwrap_or(&none);
                new_marks.extend(new_mark(&seen.marks, directory, &stand.lives, before, kept, now));
            }
            for (directory, lives) in &bygone {
                let kept = kept.get(directory.as_str()).unwrap_or(&none);
                new_marks.extend(new_mark(&seen.marks, directory, lives, lives.newest + 1, kept, now));
            }
        }
        let mut all_marks = seen.marks.clone();
        new_marks.iter().for_each(|(directory, mark)| all_marks.add(directory, mark.clone()));
        let is_expired =
            |directory: &str, version: u64| all_marks.is_expired(directory, version, Some(before_dropped));

        let reasons = reasons(&seen, &stands, &reached, &young, is_young, is_expired, &all_marks);
        stands.extend(bygone.into_iter().map(|(directory, lives)| {
            let version = lives.newest;
            (directory, Stand { branches: Vec::new(), version, deleted: true, lives })
        }));
        let mut plan = Plan { report: GcReport::default(), marks: new_marks, seen };
        let listing = self.home().list("").await?;
        let sorting =
            Sorting { timeline: self, stands: &stands, reasons: &reasons, before_grace, before_dropped, now };
        sorting.sort(&mut plan, listing, |id| reached.contains_key(id) || young.contains_key(id));
        Ok(plan)
    }

    /// A commit and all it comes from; `None` if not all of them are stored any more, whatever is in memory.
    async fn all_before(&self, seen: &Seen, id: &CommitId) -> Result<Option<Vec<Found>>, HistoryError> {
        match ancestors(self.commits(), &[*id]).await {
            Ok(found) => Ok(found.iter().all(|(id, _)| seen.commits.contains_key(id)).then_some(found)),
            Err(HistoryError::NoSuchCommit { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The commits that branches have in common: merging needs their content.
    async fn bases(&self, heads: &BTreeSet<CommitId>) -> Result<BTreeSet<CommitId>, HistoryError> {
        let mut bases = BTreeSet::new();
        for ours in heads {
            for theirs in heads.range(..ours) {
                bases.extend(merge_base(self.commits(), ours, theirs).await?.map(|(id, _)| id));
            }
        }
        Ok(bases)
    }
}

/// The commits that some branches are at, those that versions above their refs carry included.
fn heads(
    seen: &Seen,
    stands: &BTreeMap<String, Stand>,
    counts: impl Fn(&&Held) -> bool,
    deleted: bool,
) -> Result<BTreeSet<CommitId>, HistoryError> {
    let mut heads: BTreeSet<CommitId> = seen
        .branches
        .iter()
        .filter(counts)
        .filter(|held| held.branch().deleted == deleted)
        .filter_map(|held| held.branch().head)
        .collect();
    for (directory, stand) in stands.iter().filter(|(_, stand)| stand.deleted == deleted) {
        let above = stand.lives.entries.iter().filter(|entry| entry.version > stand.version);
        for text in above.filter_map(|entry| entry.commit.as_deref()) {
            let bad = || {
                HistoryError::corrupt(directory.as_str(), format!("a version carries {text:?}, no commit"))
            };
            heads.insert(CommitId::parse(text).ok_or_else(bad)?);
        }
    }
    Ok(heads)
}

/// What expiring needs to know of a table.
pub(crate) trait Expirable {
    /// The first version that stays: that of the head, or the first that was made after `cutoff`.
    fn expirable(&self, head: u64, cutoff: i64) -> u64;
}

impl Expirable for Lives {
    fn expirable(&self, head: u64, cutoff: i64) -> u64 {
        let young = self.entries.iter().find(|entry| entry.time_millis > cutoff).map(|entry| entry.version);
        // A fork's first version has no entry: it is as old as the one after it.
        let young = young.map(|version| if version == self.first + 1 { self.first } else { version });
        young.unwrap_or(self.newest).min(head).min(self.newest)
    }
}

/// The mark that expires the versions below `before` but for `kept`, if that is more than is expired already.
pub(crate) fn new_mark(
    marks: &Marks,
    directory: &str,
    lives: &Lives,
    before: u64,
    kept: &BTreeSet<u64>,
    now: i64,
) -> Option<(String, Mark)> {
    let kept = kept.range(..before).copied().collect();
    let mark = Mark { before, kept, time_millis: now, gone: false };
    let mut versions = lives.first..before;
    let is_more =
        versions.any(|version| mark.expires(version) && !marks.is_expired(directory, version, None));
    is_more.then(|| (directory.to_owned(), mark))
}

/// Who needs which versions, the most telling first.
fn reasons(
    seen: &Seen,
    stands: &BTreeMap<String, Stand>,
    reached: &BTreeMap<CommitId, Arc<Commit>>,
    young: &BTreeMap<CommitId, Arc<Commit>>,
    is_young: impl Fn(i64) -> bool,
    is_expired: impl Fn(&str, u64) -> bool,
    marks: &Marks,
) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = Vec::new();
    let mut add = |text: String, found: &mut dyn Iterator<Item = (&str, u64)>| {
        let mut versions: HashMap<String, Vec<u64>> = HashMap::new();
        for (directory, version) in found {
            versions.entry(directory.to_owned()).or_default().push(version);
        }
        versions.values_mut().for_each(|versions| versions.sort_unstable());
        reasons.push(Reason { text, versions });
    };
    for held in seen.branches.iter().filter(|held| !held.branch().deleted) {
        let branch = held.branch();
        let Some(stand) = stands.get(&branch.directory) else { continue };
        let directory = branch.directory.as_str();
        let own = [(directory, branch.version), (directory, stand.lives.newest)];
        add(format!("branch {:?}", branch.name), &mut own.into_iter());
        let draft = branch.version + 1..stand.lives.newest;
        add(format!("draft of {:?}", branch.name), &mut draft.map(|version| (directory, version)));
    }
    let place = |commit: &'_ Arc<Commit>| -> (String, u64) { (commit.directory.clone(), commit.version) };
    for (what, commit) in &seen.pins {
        let found = reached.get(commit).map(place);
        add(what.clone(), &mut found.iter().map(|(directory, version)| (directory.as_str(), *version)));
    }
    let lasting = reached.values().filter(|commit| !is_expired(&commit.directory, commit.version));
    add("commits".to_owned(), &mut lasting.map(|commit| (commit.directory.as_str(), commit.version)));
    for held in
        seen.branches.iter().filter(|held| held.branch().deleted && is_young(held.branch().time_millis))
    {
        let directory = held.branch().directory.as_str();
        let Some(stand) = stands.get(directory).filter(|stand| stand.branches == [held.name()]) else {
            continue;
        };
        let versions =
            (stand.lives.first..=stand.lives.newest).filter(|version| !is_expired(directory, *version));
        let text = format!("branch {:?}, deleted within the grace period", held.name());
        add(text, &mut versions.map(|version| (directory, version)));
    }
    // Those marked only now are needed by who has them open.
    for is_marked in [false, true] {
        let all = stands.iter().flat_map(|(directory, stand)| {
            (stand.lives.first..=stand.lives.newest).map(move |version| (directory.as_str(), version))
        });
        let mut found = all.filter(|(directory, version)| {
            marks.is_expired(directory, *version, None) == is_marked && !is_expired(directory, *version)
        });
        add(if is_marked { GRACE } else { "versions in no commit" }.to_owned(), &mut found);
    }
    add(GRACE.to_owned(), &mut young.values().map(|commit| (commit.directory.as_str(), commit.version)));
    reasons
}

const GRACE: &str = "grace period";
const HISTORY: &str = "logs, refs and commits";
const NOT_OURS: &str = "not ours";

/// Sorts all objects into those that are kept and those that nobody needs.
struct Sorting<'a> {
    timeline: &'a Timeline,
    stands: &'a BTreeMap<String, Stand>,
    reasons: &'a [Reason],
    before_grace: i64,
    before_dropped: i64,
    now: i64,
}

/// What logs say of a file.
#[derive(Clone, Copy, Default)]
struct InLogs {
    /// The first reason to keep it.
    reason: Option<usize>,
    /// Whether it was removed within the grace period.
    is_young: bool,
}

impl Sorting<'_> {
    fn sort(&self, plan: &mut Plan, listing: Vec<Entry>, is_reached: impl Fn(&CommitId) -> bool) {
        let in_logs = self.in_logs();
        let dead = self.dead(&plan.seen, &listing);
        let with_log = listing
            .iter()
            .map(|entry| split(&entry.path))
            .filter(|(_, rest)| rest.starts_with("_delta_log/"));
        let mut tables: HashSet<String> = with_log.map(|(directory, _)| directory.to_owned()).collect();
        tables.extend(plan.seen.gone().cloned());
        for directory in dead.iter().filter(|directory| !plan.seen.marks.is_gone(directory)) {
            let mark = Mark { before: u64::MAX, kept: Vec::new(), time_millis: self.now, gone: true };
            plan.marks.push((directory.clone(), mark));
        }
        let mut kept: BTreeMap<usize, (usize, u64)> = BTreeMap::new();
        let others = self.reasons.len();
        let (grace, history, not_ours) = (others, others + 1, others + 2);
        for entry in listing {
            let (directory, rest) = split(&entry.path);
            let is_dead = dead.contains(directory);
            let is_data = (rest.starts_with("data/") && rest.ends_with(".parquet"))
                || (rest.starts_with("deletion_vector_") && rest.ends_with(".bin"));
            let found = in_logs.get(entry.path.as_str());
            let fate = if let Some(found) = found {
                match (found.reason, found.is_young) {
                    (Some(reason), _) => Ok(reason),
                    (None, true) => Ok(grace),
                    (None, false) => Err("no version that is kept has it"),
                }
            } else if is_data && (directory.is_empty() || is_dead || self.stands.contains_key(directory)) {
                match self.changed(&entry) > self.before_grace {
                    true => Ok(grace),
                    false if is_dead => Err("its branch was deleted"),
                    false => Err("no log has it: its writer did not finish"),
                }
            } else if rest.starts_with("_delta_log/") || rest.starts_with("_lacus/") {
                match id_of(&entry.path) {
                    Some(id) if !is_reached(&id) && entry.modified_millis <= self.before_grace => {
                        Err("no branch or tag reaches this commit")
                    }
                    None if is_dead => Err("its branch was deleted"),
                    _ => Ok(history),
                }
            } else {
                // A table that somebody may be making has data as well.
                Ok(if is_data && tables.contains(directory) { grace } else { not_ours })
            };
            match fate {
                Ok(reason) => {
                    let (files, bytes) = kept.entry(reason).or_default();
                    (*files, *bytes) = (*files + 1, *bytes + entry.bytes);
                }
                Err(why) => {
                    plan.report.removable.push(Removable {
                        path: entry.path,
                        bytes: entry.bytes,
                        why: why.to_owned(),
                    });
                }
            }
        }
        plan.report.removable.sort_by(|a, b| a.path.cmp(&b.path));
        for (reason, (files, bytes)) in kept {
            let reason = match self.reasons.get(reason) {
                Some(reason) => reason.text.clone(),
                None if reason == grace => GRACE.to_owned(),
                None if reason == history => HISTORY.to_owned(),
                None => NOT_OURS.to_owned(),
            };
            match plan.report.kept.iter_mut().find(|kept| kept.reason == reason) {
                Some(kept) => (kept.files, kept.bytes) = (kept.files + files, kept.bytes + bytes),
                None => plan.report.kept.push(Kept { reason, files, bytes }),
            }
        }
    }

    /// What logs say of each file.
    fn in_logs(&self) -> HashMap<&str, InLogs> {
        let mut found: HashMap<&str, InLogs> = HashMap::new();
        for (directory, stand) in self.stands {
            let wanted: Vec<Option<&Vec<u64>>> =
                self.reasons.iter().map(|reason| reason.versions.get(directory)).collect();
            for life in &stand.lives.files {
                let needs = |versions: &Option<&Vec<u64>>| {
                    versions.is_some_and(|versions| {
                        let at = versions.partition_point(|version| *version < life.from);
                        versions.get(at).is_some_and(|version| life.includes(*version))
                    })
                };
                let reason = wanted.iter().position(needs);
                let is_young = life.removed_millis.is_some_and(|time| time > self.before_dropped);
                let known = found.entry(life.path.as_str()).or_default();
                known.reason = match (known.reason, reason) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
                known.is_young |= is_young;
            }
        }
        found
    }

    /// The directories of tables that nobody stands on and of which no version is kept.
    fn dead(&self, seen: &Seen, listing: &[Entry]) -> HashSet<String> {
        let mut logs: HashMap<&str, i64> = HashMap::new();
        for entry in listing {
            let (directory, rest) = split(&entry.path);
            if rest.starts_with("_delta_log/") {
                let newest = logs.entry(directory).or_insert(i64::MIN);
                *newest = (*newest).max(entry.modified_millis);
            }
        }
        let is_kept =
            |directory: &str| self.reasons.iter().any(|reason| reason.versions.contains_key(directory));
        let is_dead = |directory: &&String| {
            // A log is what makes a directory a table's; one without was being removed.
            let is_old = logs.get(directory.as_str()).map(|newest| *newest <= self.before_grace);
            !directory.is_empty()
                && !is_kept(directory)
                && is_old.unwrap_or_else(|| seen.marks.is_gone(directory))
        };
        seen.directories.iter().filter(is_dead).cloned().collect()
    }

    /// When a file that no log has came to be. A link has the time of what it links to, but the file system knows.
    fn changed(&self, entry: &Entry) -> i64 {
        let changed = self.timeline.home().changed_millis(&entry.path);
        changed.map_or(entry.modified_millis, |changed| changed.max(entry.modified_millis))
    }
}

/// The table's directory and the path in it.
fn split(path: &str) -> (&str, &str) {
    let below = path.strip_prefix(BRANCHES).and_then(|rest| rest.find('/'));
    match below {
        Some(at) => (&path[..BRANCHES.len() + at], &path[BRANCHES.len() + at + 1..]),
        None => ("", path),
    }
}
