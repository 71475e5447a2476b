//! What can go wrong with a dataset's history.

use lacus_error::{ErrorKind, did_you_mean};
use lacus_io::IoError;
use lacus_table::TableError;

use crate::id::CommitId;
use crate::merge_plan::Conflict;

/// An error of a dataset's history, with the facts. [`HistoryError::kind`] says what the caller should do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The store failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The table refused or failed.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A branch or tag cannot have this name.
    #[error("{what} name {name:?}: {why}")]
    BadName {
        /// `branch` or `tag`.
        what: &'static str,
        /// The name.
        name: String,
        /// Why it is not allowed.
        why: &'static str,
    },
    /// There is a branch or tag of this name already.
    #[error("there is a {what} {name:?} already")]
    NameTaken {
        /// `branch` or `tag`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Nothing is called that.
    #[error("no {what} {name:?}{}", did_you_mean(.close))]
    NoSuchRef {
        /// What was looked for: `branch`, `tag`, `branch, tag, commit or version`.
        what: &'static str,
        /// The name asked for.
        name: String,
        /// Names that are close to it.
        close: Vec<String>,
    },
    /// `v12` is a name that nothing has. It is not taken for a version: a tag of this name may have been deleted.
    #[error("no branch or tag {name:?}{}{}", did_you_mean(.close), version_is_written(.close, *.version))]
    NotAVersion {
        /// The name asked for.
        name: String,
        /// The version that may have been meant.
        version: u64,
        /// Names that are close to it.
        close: Vec<String>,
    },
    /// Digits that can be a version and something else.
    #[error(
        "{version} can be a version or {other}: version {version} is @{version}, and names and ids can be written in full"
    )]
    UnclearVersion {
        /// The version.
        version: u64,
        /// What else it can be.
        other: String,
    },
    /// Several commits begin like this.
    #[error("{prefix:?} is the beginning of several commits: {}", .candidates.join(", "))]
    Ambiguous {
        /// What was asked for.
        prefix: String,
        /// The commits, each as an abbreviated id with the first line of its message.
        candidates: Vec<String>,
    },
    /// Text that names no state of a dataset, whatever there is.
    #[error("revision {text:?}: {why}")]
    BadRevision {
        /// The text.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// A step back from a commit leads beyond the beginning.
    #[error("{text:?}: commit {} has {parents} parents", .commit.short())]
    NoSuchParent {
        /// The revision asked for.
        text: String,
        /// The commit where the steps ended.
        commit: CommitId,
        /// How many parents it has.
        parents: usize,
    },
    /// A branch that has no commit yet.
    #[error("branch {branch:?} has no commit yet")]
    NoCommitYet {
        /// The branch.
        branch: String,
    },
    /// There is no such commit object.
    #[error("no commit {id}{}", needed_by(.referrer))]
    NoSuchCommit {
        /// The commit.
        id: CommitId,
        /// What refers to it, when it is known.
        referrer: Option<String>,
    },
    /// A commit whose data a clean-up removed.
    #[error("{why}")]
    Gone {
        /// The commit.
        id: CommitId,
        /// What is missing.
        why: String,
    },
    /// A version that was in no commit, and that was expired.
    #[error("version {version} was in no commit and was cleaned up{}", nearest(.near))]
    Expired {
        /// The version.
        version: u64,
        /// The commits before and after it.
        near: Vec<String>,
    },
    /// There is nothing that is in no commit yet.
    #[error("nothing to commit: branch {branch:?} has no draft")]
    NothingToCommit {
        /// The branch.
        branch: String,
    },
    /// Both sides of a merge changed the same, and nobody said which counts.
    #[error("{}", conflict_text(.conflicts, .without_union))]
    Conflicts {
        /// Those that nobody settled.
        conflicts: Vec<Conflict>,
        /// Those for which a union was wished that has no meaning.
        without_union: Vec<Conflict>,
    },
    /// Two commits have no ancestor in common.
    #[error("commits {} and {} have no common ancestor: they are not of one dataset", .ours.short(), .theirs.short())]
    Unrelated {
        /// One commit.
        ours: CommitId,
        /// The other.
        theirs: CommitId,
    },
    /// A branch changed under one's feet.
    #[error("branch {name:?} was moved meanwhile: {now}; look again and retry")]
    Moved {
        /// The branch.
        name: String,
        /// What it is now.
        now: String,
    },
    /// The request makes no sense.
    #[error("{op}: {why}")]
    Refused {
        /// What was asked.
        op: &'static str,
        /// Why it is refused.
        why: String,
    },
    /// An object was written by a newer Lacus.
    #[error("this dataset needs a newer Lacus: {what} ({path})")]
    NewerFormat {
        /// The object.
        path: String,
        /// What is not understood.
        what: String,
    },
    /// An object of the history is damaged.
    #[error("{what} ({path})")]
    Corrupt {
        /// The object.
        path: String,
        /// What is wrong with it.
        what: String,
    },
    /// The branch has versions that are in no commit.
    #[error("{op}: branch {branch:?} has a draft of {count} {}; commit or discard it first{}", versions(*.count), other_way(.op))]
    Draft {
        /// What was asked.
        op: &'static str,
        /// The branch.
        branch: String,
        /// How many versions.
        count: usize,
    },
    /// Others wrote to the draft that is to be thrown away.
    #[error("discard: the draft has versions of others: {versions}")]
    DraftOfOthers {
        /// The versions and their authors.
        versions: String,
    },
    /// A fault in Lacus itself.
    #[error("a fault in lacus: {what}")]
    Fault {
        /// What happened.
        what: String,
    },
}

impl HistoryError {
    /// What the caller should do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            HistoryError::Io(error) => error.kind().into(),
            HistoryError::Table(error) => error.kind(),
            HistoryError::NoSuchRef { .. }
            | HistoryError::NotAVersion { .. }
            | HistoryError::NoSuchParent { .. }
            | HistoryError::NoCommitYet { .. }
            | HistoryError::NoSuchCommit { .. }
            | HistoryError::Expired { .. }
            | HistoryError::Gone { .. } => ErrorKind::NotFound,
            HistoryError::BadName { .. }
            | HistoryError::Ambiguous { .. }
            | HistoryError::UnclearVersion { .. }
            | HistoryError::BadRevision { .. }
            | HistoryError::Unrelated { .. }
            | HistoryError::Refused { .. }
            | HistoryError::Draft { .. }
            | HistoryError::DraftOfOthers { .. }
            | HistoryError::NothingToCommit { .. }
            | HistoryError::NewerFormat { .. } => ErrorKind::Invalid,
            HistoryError::NameTaken { .. } | HistoryError::Moved { .. } | HistoryError::Conflicts { .. } => {
                ErrorKind::Conflict
            }
            HistoryError::Corrupt { .. } => ErrorKind::Corrupt,
            HistoryError::Fault { .. } => ErrorKind::Internal,
        }
    }

    pub(crate) fn corrupt(path: impl Into<String>, what: impl Into<String>) -> HistoryError {
        HistoryError::Corrupt { path: path.into(), what: what.into() }
    }
}

/// Conflicts listed one by one in a message; all of them are in the error.
const LISTED: usize = 20;

fn conflict_text(conflicts: &[Conflict], without_union: &[Conflict]) -> String {
    let mut text = String::from("both sides changed the same; nothing was merged");
    let all = conflicts.iter().map(|c| (c, "")).chain(without_union.iter().map(|c| (c, " (has no union)")));
    for (conflict, note) in all.clone().take(LISTED) {
        text.push_str(&format!("\n  {conflict}{note}"));
    }
    if let more @ 1.. = all.count().saturating_sub(LISTED) {
        text.push_str(&format!("\n  and {more} more"));
    }
    text
}

fn other_way(op: &str) -> &'static str {
    if op == "checkout" { ", or use force to leave it there" } else { "" }
}

fn versions(count: usize) -> &'static str {
    if count == 1 { "version" } else { "versions" }
}

fn version_is_written(close: &[String], version: u64) -> String {
    let start = if close.is_empty() { "; version" } else { " Version" };
    format!("{start} {version} of a branch is written @{version}")
}

fn nearest(near: &[String]) -> String {
    match near.is_empty() {
        true => String::new(),
        false => format!("; near it are the commits {}", near.join(" and ")),
    }
}

fn needed_by(referrer: &Option<String>) -> String {
    referrer.as_ref().map(|referrer| format!(", to which {referrer} refers")).unwrap_or_default()
}
