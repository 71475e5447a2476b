//! Text that says which state of a dataset is meant.
//!
//! ```text
//! main  v1.0  ab12cd34  HEAD     a branch, a tag, a commit's id or its beginning (4 digits or more), where one is
//! main~2  v1.0^  ab12^2~3        steps back from any of them: first parents, or the second parent of a merge
//! @12  version:12  12            a table version
//! 2026-01-31  2026-01-31T12:00Z  a time; without a zone it is local time, without hours the day's beginning
//! ```
//!
//! `@12` and `version:12` are versions whatever else there is. What another word means depends on what there is, and the first
//! of these counts: a branch, a tag, a version, a commit, a time. Digits alone are a version only as long as they can be
//! nothing else: not if a deleted branch was called so, nor if a commit begins with them. `v12` is the name of a branch or a tag
//! and never a version: deleting a tag leaves no trace, and who asks for a release must not get the table as it once was.

use lacus_error::close_to;
use lacus_io::boxed;
use std::sync::Arc;

use chrono::{DateTime, Days, Local, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeZone};

use crate::branches::{self, Held};
use crate::commits::{Commit, Commits};
use crate::error::HistoryError;
use crate::id::{CommitId, DIGITS, SHORT, is_prefix};
use crate::tags;

/// Candidates named in an error.
const CANDIDATES: usize = 10;

/// A revision as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The word before the steps.
    pub word: String,
    /// Steps back from there, in order.
    pub steps: Vec<Step>,
}

/// A step back from a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// `~n`: so many first parents back.
    Back(u64),
    /// `^n`: the parent of this number, from 1 on; 0 is the commit itself.
    Parent(u64),
}

/// Which state of a dataset is meant.
#[derive(Clone, Debug)]
pub enum Resolved {
    /// A branch, with its draft.
    Branch(Held),
    /// A commit.
    Commit(CommitId, Arc<Commit>),
    /// A table version of the branch one is on.
    Version(u64),
    /// The state of the branch one is on at a time, in milliseconds since 1970.
    Time(i64),
}

impl Revision {
    /// Takes the text apart.
    pub fn parse(text: &str) -> Result<Revision, HistoryError> {
        let bad = |why: &str| HistoryError::BadRevision { text: text.to_owned(), why: why.to_owned() };
        let trimmed = text.trim();
        let end = trimmed.find(['~', '^']).unwrap_or(trimmed.len());
        let (word, mut rest) = trimmed.split_at(end);
        if word.is_empty() {
            return Err(bad("it is empty, or has nothing before ~ or ^"));
        }
        let mut steps = Vec::new();
        while let Some(sign) = rest.chars().next() {
            let after = &rest[sign.len_utf8()..];
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            let number = match &after[..digits] {
                "" => 1,
                number => number.parse::<u64>().map_err(|_| bad("the number is too large"))?,
            };
            match sign {
                '~' => steps.push(Step::Back(number)),
                '^' => steps.push(Step::Parent(number)),
                _ => return Err(bad("only ~, ~2, ^ and ^2 may follow a name")),
            }
            rest = &after[digits..];
        }
        Ok(Revision { word: word.to_owned(), steps })
    }

    /// The table version that the word is, whatever else there is.
    fn version(&self) -> Option<u64> {
        digits(self.word.strip_prefix('@').or_else(|| self.word.strip_prefix("version:"))?)
    }
}

/// The number that a text of digits is.
fn digits(text: &str) -> Option<u64> {
    let are_digits = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    are_digits.then(|| text.parse().ok()).flatten()
}

/// The time that the text says, in milliseconds since 1970; `None` if it says none. Without a zone it is the local time of this
/// machine, or of the zone that the variable `TZ` names.
pub fn parse_time(text: &str) -> Option<i64> {
    parse_time_in(text, &Local)
}

/// The same for another zone than the local one.
pub fn parse_time_in(text: &str, zone: &impl TimeZone) -> Option<i64> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.timestamp_millis());
    }
    for separator in ["T", " "] {
        for seconds in ["", ":%S%.f"] {
            let format = format!("%Y-%m-%d{separator}%H:%M{seconds}");
            if let Some(text) = text.strip_suffix('Z')
                && let Ok(time) = NaiveDateTime::parse_from_str(text, &format)
            {
                return Some(time.and_utc().timestamp_millis());
            }
            if let Ok(time) = NaiveDateTime::parse_from_str(text, &format) {
                return millis_in(time, zone);
            }
            if let Ok(time) = DateTime::parse_from_str(text, &format!("{format}%#z")) {
                return Some(time.timestamp_millis());
            }
        }
    }
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    millis_in(day.and_time(NaiveTime::MIN), zone)
}

/// When a clock in a zone shows this time, as Python has it: the first time where it does so twice, and by the offset before
/// where it is set forward past it.
fn millis_in(time: NaiveDateTime, zone: &impl TimeZone) -> Option<i64> {
    match zone.from_local_datetime(&time) {
        LocalResult::Single(found) | LocalResult::Ambiguous(found, _) => Some(found.timestamp_millis()),
        LocalResult::None => {
            let before = zone.from_local_datetime(&time.checked_sub_days(Days::new(1))?).earliest()?;
            let offset = before.offset().fix().local_minus_utc();
            Some(time.and_utc().timestamp_millis() - i64::from(offset) * 1000)
        }
    }
}

/// Which state `text` means for somebody who is `on` a branch whose newest table version is `newest`.
#[boxed]
pub async fn resolve(
    commits: &Commits,
    text: &str,
    on: &Held,
    newest: u64,
) -> Result<Resolved, HistoryError> {
    let revision = Revision::parse(text)?;
    let found = base(commits, text, &revision, on, newest).await?;
    if revision.steps.is_empty() {
        return Ok(found);
    }
    let (mut id, mut commit) = match found {
        Resolved::Branch(held) => head(commits, &held).await?,
        Resolved::Commit(id, commit) => (id, commit),
        Resolved::Version(_) | Resolved::Time(_) => {
            let why = "steps go back from commits, and this is a version or a time".to_owned();
            return Err(HistoryError::BadRevision { text: text.to_owned(), why });
        }
    };
    for step in &revision.steps {
        let (times, number) = match step {
            Step::Back(times) => (*times, 1),
            Step::Parent(0) => (0, 1),
            Step::Parent(number) => (1, *number),
        };
        for _ in 0..times {
            let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
            let Some(parent) = commit.parents.get(index).copied() else {
                let parents = commit.parents.len();
                return Err(HistoryError::NoSuchParent { text: text.to_owned(), commit: id, parents });
            };
            commit = commits.read_for(&parent, || format!("commit {}", id.short())).await?;
            id = parent;
        }
    }
    Ok(Resolved::Commit(id, commit))
}

/// The newest commit of a branch.
#[boxed]
pub async fn head(commits: &Commits, held: &Held) -> Result<(CommitId, Arc<Commit>), HistoryError> {
    let name = held.name();
    let id = held.branch().head.ok_or_else(|| HistoryError::NoCommitYet { branch: name.to_owned() })?;
    Ok((id, commits.read_for(&id, || format!("branch {name:?}")).await?))
}

/// What the word alone means.
async fn base(
    commits: &Commits,
    text: &str,
    revision: &Revision,
    on: &Held,
    newest: u64,
) -> Result<Resolved, HistoryError> {
    let word = revision.word.as_str();
    if word == "HEAD" || word == "@" {
        let (id, commit) = head(commits, on).await?;
        return Ok(Resolved::Commit(id, commit));
    }
    let no_version = |version: u64| HistoryError::BadRevision {
        text: text.to_owned(),
        why: format!("there is no version {version}: the newest is {newest}"),
    };
    if let Some(version) = revision.version() {
        return match version <= newest {
            true => Ok(Resolved::Version(version)),
            false => Err(no_version(version)),
        };
    }
    let branch = branches::find_with_deleted(commits.store(), word).await?;
    let was_branch = branch.as_ref().is_some_and(|held| held.branch().deleted);
    if let Some(held) = branch.filter(|held| !held.branch().deleted) {
        return Ok(Resolved::Branch(held));
    }
    if let Some(tag) = tags::find(commits.store(), word).await? {
        let commit = commits.read_for(&tag.commit, || format!("tag {word:?}")).await?;
        return Ok(Resolved::Commit(tag.commit, commit));
    }
    let number = digits(word);
    let by_prefix = match is_prefix(word) {
        true => by_prefix(commits, word).await,
        false => Ok(None),
    };
    if let Some(version) = number.filter(|version| *version <= newest) {
        let other = match by_prefix {
            _ if was_branch => Some("a branch that was deleted".to_owned()),
            Ok(None) => None,
            Ok(Some((id, _))) => Some(format!("commit {}", id.short())),
            Err(HistoryError::Ambiguous { .. }) => Some("one of several commits".to_owned()),
            Err(error) => return Err(error),
        };
        return match other {
            Some(other) => Err(HistoryError::UnclearVersion { version, other }),
            None => Ok(Resolved::Version(version)),
        };
    }
    if let Some((id, commit)) = by_prefix? {
        return Ok(Resolved::Commit(id, commit));
    }
    if let Some(time) = parse_time(word) {
        return Ok(Resolved::Time(time));
    }
    if let Some(version) = number {
        return Err(no_version(version));
    }
    let known = branches::list(commits.store()).await?;
    let tags = tags::names(commits.store()).await?;
    let close = close_to(word, known.iter().map(Held::name).chain(tags.iter().map(String::as_str)));
    let name = word.to_owned();
    match word.strip_prefix('v').and_then(digits) {
        Some(version) => Err(HistoryError::NotAVersion { name, version, close }),
        None => Err(HistoryError::NoSuchRef { what: "branch, tag, commit or version", name, close }),
    }
}

/// The only commit whose id begins like this, if there is one.
async fn by_prefix(commits: &Commits, prefix: &str) -> Result<Option<(CommitId, Arc<Commit>)>, HistoryError> {
    if let Some(id) = CommitId::parse(prefix) {
        return Ok(Some((id, commits.read(&id).await?)));
    }
    let mut ids = commits.list().await?;
    ids.retain(|id| id.has_prefix(prefix));
    let [id] = ids[..] else {
        if ids.is_empty() {
            return Ok(None);
        }
        let mut candidates = Vec::new();
        for id in ids.iter().take(CANDIDATES) {
            // A damaged one is a candidate as well.
            let commit = commits.read(id).await.ok();
            let summary = commit.as_ref().map(|commit| commit.summary()).unwrap_or("cannot be read");
            candidates.push(format!("{} ({summary})", id.digits(digits_apart(&ids))));
        }
        if ids.len() > CANDIDATES {
            candidates.push(format!("and {} more", ids.len() - CANDIDATES));
        }
        return Err(HistoryError::Ambiguous { prefix: prefix.to_owned(), candidates });
    };
    Ok(Some((id, commits.read(&id).await?)))
}

/// How many digits tell these sorted ids apart; ten at least.
fn digits_apart(ids: &[CommitId]) -> usize {
    let common = |a: &CommitId, b: &CommitId| {
        a.to_string().bytes().zip(b.to_string().bytes()).take_while(|(a, b)| a == b).count()
    };
    ids.windows(2).map(|pair| common(&pair[0], &pair[1]) + 1).max().unwrap_or(0).clamp(SHORT, DIGITS)
}
