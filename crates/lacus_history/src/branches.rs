//! Branches: names that move. Whoever creates the next number moved one.
//!
//! ```text
//! _lacus/branches/main/00000000000000000000            {"directory":"","head":"ab12…","version":7,…}
//! _lacus/branches/main/00000000000000000001            {…}          the highest number is what the branch is
//! _lacus/branches/feature%2Fx/00000000000000000003     {…,"deleted":true}
//! ```
//!
//! Put-if-absent is the one conditional put that every store has, and it makes exactly one writer the creator of a
//! number. Three things need care:
//!
//! - **Answers get lost.** Each object carries a mark of its own and the marks of those before it, so that a writer that finds
//!   its number taken, or does not know, can tell whether it was itself, even if others moved on since.
//! - **Old numbers are tidied away**, so that reading stays cheap. A slow writer may then create a number that others used
//!   and removed. The newest is never removed, so that it finds a higher one, for which it looks after its put, and that
//!   one does not know its mark.
//! - **A listing takes time.** On a file system it may miss both a number that is removed and one that is created
//!   meanwhile. So a number stays for a while after its successor came, and a listing that took long is made again.

use lacus_error::close_to;
use lacus_io::boxed;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use lacus_io::{Entry, IoError, Store, World};
use lacus_table::{BLANK_SEAL, Seal, look_at_seal, seal};
use serde::{Deserialize, Serialize};

use crate::error::HistoryError;
use crate::id::CommitId;
use crate::names::{check_name, decode, encode};

/// The branch that is there from the start: the table at the dataset's root, which stock readers open.
pub const MAIN: &str = "main";

const PREFIX: &str = "_lacus/branches/";

/// How long a number stays after its successor came. Object stores keep the time in whole seconds, so this is one at
/// least; much more would make listings long where commits are quick.
const GRACE_MILLIS: i64 = 2_000;

/// A listing that took longer is made again: well below what a number stays for.
const SLOW_LISTING: Duration = Duration::from_millis(500);

/// Listings of a store that is always slow, before one is believed. Object stores answer from one moment anyhow.
const LISTINGS: u32 = 3;

/// How old numbers are removed. They go together: each time, the newest is made safe first, which costs a file system
/// some milliseconds.
const TIDYING: Tidying = Tidying { grace_millis: GRACE_MILLIS, at_least: 16 };

/// Marks of earlier numbers that an object carries: more than others move a branch while one waits for an answer.
const MARKS: usize = 32;

/// Branches read at the same time.
const AT_ONCE: usize = 32;

/// What a branch is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchRef {
    /// Its name.
    pub name: String,
    /// The directory of its table in the dataset; `""` is the root.
    pub directory: String,
    /// Its newest commit; none before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<CommitId>,
    /// The table version whose content is the head's. Versions above are the draft.
    pub version: u64,
    /// Whether it was deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// When it came to be what it is, in milliseconds since 1970, UTC.
    pub time_millis: i64,
    /// The commit it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<CommitId>,
}

impl BranchRef {
    /// Main as it is before anything was committed. No object says so.
    fn main() -> BranchRef {
        BranchRef {
            name: MAIN.to_owned(),
            directory: String::new(),
            head: None,
            version: 0,
            deleted: false,
            time_millis: 0,
            from: None,
        }
    }

    /// What it is, in a few words.
    fn describe(&self) -> String {
        match (self.deleted, &self.head) {
            (true, _) => "it was deleted".to_owned(),
            (false, Some(head)) => format!("it is at commit {}, version {} now", head.short(), self.version),
            (false, None) => format!("it is at version {} now, without a commit", self.version),
        }
    }
}

/// A branch as somebody found it: what it is, and the number that must still be the highest for it to be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    branch: BranchRef,
    /// None for main before its first commit.
    number: Option<u64>,
    /// The marks of this number and those before it, the newest first.
    marks: Vec<String>,
}

impl Held {
    fn main() -> Held {
        Held { branch: BranchRef::main(), number: None, marks: Vec::new() }
    }

    /// What the branch is.
    pub fn branch(&self) -> &BranchRef {
        &self.branch
    }

    /// The same branch with a head that its table already has.
    pub(crate) fn with_head(&self, head: Option<CommitId>, version: u64) -> Held {
        Held { branch: BranchRef { head, version, ..self.branch.clone() }, ..self.clone() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.branch.name
    }

    /// Where the object that says so is, if there is one: to make it safe against power loss.
    pub fn path(&self) -> Option<String> {
        self.number.map(|number| path(&self.branch.name, number))
    }
}

/// What is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(flatten)]
    branch: BranchRef,
    /// The mark of this put, and those of the numbers before it.
    marks: Vec<String>,
    /// The checksum of all of this; older objects have none.
    #[serde(default)]
    crc32c: String,
}

#[derive(Clone, Copy)]
struct Tidying {
    grace_millis: i64,
    at_least: usize,
}

fn path(name: &str, number: u64) -> String {
    format!("{PREFIX}{}/{number:020}", encode(name))
}

/// All branches, sorted by name.
#[boxed]
pub async fn list(store: &Store) -> Result<Vec<Held>, HistoryError> {
    let mut found = list_with_deleted(store).await?;
    found.retain(|held| !held.branch.deleted);
    Ok(found)
}

/// All branches and the tombstones of those that were deleted, sorted by name.
#[boxed]
pub async fn list_with_deleted(store: &Store) -> Result<Vec<Held>, HistoryError> {
    let numbers = numbers(store, PREFIX).await?;
    let reads = numbers.into_iter().map(|(name, found)| async move { newest(store, &name, found).await });
    let mut held: Vec<Held> = stream::iter(reads)
        .buffer_unordered(AT_ONCE)
        .try_filter_map(|held| async { Ok(held) })
        .try_collect()
        .await?;
    if !held.iter().any(|held| held.branch.name == MAIN) {
        held.push(Held::main());
    }
    held.sort_by(|a, b| a.branch.name.cmp(&b.branch.name));
    Ok(held)
}

/// The names that are or were in use, sorted. Nothing is read, so that a damaged one is among them.
#[boxed]
pub async fn names(store: &Store) -> Result<Vec<String>, HistoryError> {
    let mut names: Vec<String> = numbers(store, PREFIX).await?.into_keys().collect();
    if let Err(at) = names.binary_search_by(|name| name.as_str().cmp(MAIN)) {
        names.insert(at, MAIN.to_owned());
    }
    Ok(names)
}

/// The branch of this name; an error that suggests others, if there is none.
#[boxed]
pub async fn get(store: &Store, name: &str) -> Result<Held, HistoryError> {
    if let Some(held) = find(store, name).await? {
        return Ok(held);
    }
    let others = list(store).await?;
    let close = close_to(name, others.iter().map(Held::name));
    Err(HistoryError::NoSuchRef { what: "branch", name: name.to_owned(), close })
}

/// The branch of this name, if there is one.
#[boxed]
pub async fn find(store: &Store, name: &str) -> Result<Option<Held>, HistoryError> {
    if check_name("branch", name).is_err() {
        return Ok(None);
    }
    Ok(look(store, name).await?.filter(|held| !held.branch.deleted))
}

/// The branch of this name, if there is or was one.
pub(crate) async fn find_with_deleted(store: &Store, name: &str) -> Result<Option<Held>, HistoryError> {
    match check_name("branch", name).is_err() {
        true => Ok(None),
        false => look(store, name).await,
    }
}

/// As [`find`], tombstones included.
async fn look(store: &Store, name: &str) -> Result<Option<Held>, HistoryError> {
    let prefix = format!("{PREFIX}{}/", encode(name));
    let found = numbers(store, &prefix).await?.remove(name).unwrap_or_default();
    let held = newest(store, name, found).await?;
    Ok(held.or_else(|| (name == MAIN).then(Held::main)))
}

/// Makes a branch. `branch` says all but the time.
#[boxed]
pub async fn create(store: &Store, world: &World, branch: BranchRef) -> Result<Held, HistoryError> {
    check_name("branch", &branch.name)?;
    let name = branch.name.clone();
    let taken = || HistoryError::NameTaken { what: "branch", name };
    // Numbers go on from a tombstone, so that who still holds the deleted one cannot move the new one.
    let before = look(store, &branch.name).await?;
    if before.as_ref().is_some_and(|held| !held.branch.deleted) {
        return Err(taken());
    }
    match put(store, world, before.as_ref(), BranchRef { deleted: false, ..branch }, TIDYING).await {
        Err(HistoryError::Moved { .. }) => Err(taken()),
        other => other,
    }
}

/// Moves a branch from what it was found to be to `new`, whose name stays. If anybody was faster, nothing is changed and
/// the error says what the branch is now.
///
/// An error of the store leaves open whether the branch was moved: look again.
#[boxed]
pub async fn advance(
    store: &Store,
    world: &World,
    held: &Held,
    new: BranchRef,
) -> Result<Held, HistoryError> {
    put(store, world, Some(held), BranchRef { name: held.branch.name.clone(), ..new }, TIDYING).await
}

/// Deletes a branch: a tombstone stays. The caller removes its table some time after.
#[boxed]
pub async fn delete(store: &Store, world: &World, held: &Held) -> Result<Held, HistoryError> {
    refuse_main("delete", held)?;
    advance(store, world, held, BranchRef { deleted: true, ..held.branch.clone() }).await
}

/// Gives a branch another name. Its table stays where it is.
///
/// The new name comes first and the old one goes then, so that the branch has a name at every moment. Who is killed
/// between leaves both, for the same table: nothing is lost, and deleting either name leaves the other. If somebody moved the
/// old one between, the new name is withdrawn.
#[boxed]
pub async fn rename(store: &Store, world: &World, held: &Held, to: &str) -> Result<Held, HistoryError> {
    refuse_main("rename", held)?;
    let made = create(store, world, BranchRef { name: to.to_owned(), ..held.branch.clone() }).await?;
    match delete(store, world, held).await {
        Ok(_) => Ok(made),
        Err(moved @ HistoryError::Moved { .. }) => {
            delete(store, world, &made).await?;
            Err(moved)
        }
        Err(error) => Err(error),
    }
}

/// Main is the table itself, which stock readers open, and what is opened when no branch is named.
fn refuse_main(op: &'static str, held: &Held) -> Result<(), HistoryError> {
    match held.branch.name == MAIN {
        true => {
            Err(HistoryError::Refused { op, why: "main is the dataset itself; its name stays".to_owned() })
        }
        false => Ok(()),
    }
}

/// A directory for the table of a new branch: its name, as far as it is plain, and a number if that is taken.
///
/// `is_taken` says which directories are, or were, of a branch, tombstones included, or are there. Two writers
/// may still get the same: whoever creates the table's first object has it, and the other asks again.
pub fn directory_for(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    /// Of the name's bytes, so that paths stay readable and a number fits.
    const LONGEST: usize = 100;
    let plain = |c: char| match c {
        '/' => '.',
        c if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') => c,
        _ => '_',
    };
    let plain: String = name.chars().map(plain).take(LONGEST).collect();
    let first = format!("_branches/{plain}");
    let numbered = (2u64..).map(|number| format!("{first}-{number}"));
    std::iter::once(first.clone()).chain(numbered).find(|directory| !is_taken(directory)).unwrap_or(first)
}

/// Puts the number after `before`, or the first.
async fn put(
    store: &Store,
    world: &World,
    before: Option<&Held>,
    branch: BranchRef,
    tidying: Tidying,
) -> Result<Held, HistoryError> {
    let branch = BranchRef { time_millis: world.now_millis(), ..branch };
    let name = branch.name.clone();
    let number = match before.and_then(|held| held.number) {
        Some(last) => last
            .checked_add(1)
            .ok_or_else(|| HistoryError::corrupt(path(&name, last), "no number is left for this branch"))?,
        None => 0,
    };
    let mark = world.uuid().simple().to_string();
    let earlier = before.into_iter().flat_map(|held| held.marks.iter().cloned());
    let marks = std::iter::once(mark.clone()).chain(earlier).take(MARKS).collect();
    let stored = Stored { branch, marks, crc32c: BLANK_SEAL.to_owned() };
    let fault = |e: serde_json::Error| HistoryError::Fault { what: format!("a branch as JSON: {e}") };
    let bytes = Bytes::from(seal(serde_json::to_vec(&stored).map_err(fault)?));
    let own = path(&name, number);
    let answer = store.put_new(&own, bytes).await;
    let won = Held { branch: stored.branch, number: Some(number), marks: stored.marks };

    // Whatever the answer, what is there decides: see the head of this file.
    let prefix = format!("{PREFIX}{}/", encode(&name));
    let found = match numbers(store, &prefix).await {
        Ok(mut found) => found.remove(&name).unwrap_or_default(),
        // The answer says more than that nobody can look.
        Err(error) => return Err(unsure(answer).unwrap_or(error)),
    };
    let highest = found.keys().next_back().copied();
    if answer.is_ok() && highest == Some(number) {
        tidy(store, &own, &found, tidying).await;
        return Ok(won);
    }
    match newest(store, &name, found).await {
        Ok(Some(now)) if now.marks.contains(&mark) => Ok(won),
        Ok(Some(now)) if now.number >= Some(number) => {
            // What a slow writer put is below the highest, where nobody looks; removing it is a courtesy.
            if answer.is_ok() {
                let _ = store.remove(vec![own]).await;
            }
            Err(HistoryError::Moved { name, now: now.branch.describe() })
        }
        Ok(_) => Err(unsure(answer).unwrap_or_else(|| HistoryError::Fault {
            what: format!("a put that succeeded cannot be seen ({own})"),
        })),
        Err(error) => Err(unsure(answer).unwrap_or(error)),
    }
}

/// The error of a put of which it is not known whether it got in.
fn unsure(answer: Result<(), IoError>) -> Option<HistoryError> {
    answer.err().filter(|error| !error.is_already_exists()).map(HistoryError::Io)
}

/// Removes numbers that nobody needs. This may fail: they stay, then.
async fn tidy(store: &Store, newest: &str, found: &BTreeMap<u64, Entry>, tidying: Tidying) {
    let surplus = surplus(found, tidying);
    if surplus.is_empty() {
        return;
    }
    // A power cut could keep the removals and lose the newest.
    if store.make_durable(&[newest.to_owned()]).is_err() {
        return;
    }
    let _ = store.remove(surplus).await;
}

/// The numbers whose successor has been there for a while, by the store's own clock; none if there are few.
fn surplus(found: &BTreeMap<u64, Entry>, tidying: Tidying) -> Vec<String> {
    let Some(now) = found.values().next_back().map(|newest| newest.modified_millis) else {
        return Vec::new();
    };
    let pairs = found.values().zip(found.values().skip(1));
    let old = pairs.filter(|(_, successor)| successor.modified_millis + tidying.grace_millis <= now);
    let paths: Vec<String> = old.map(|(entry, _)| entry.path.clone()).collect();
    match paths.len() >= tidying.at_least {
        true => paths,
        false => Vec::new(),
    }
}

/// Branches and their numbers below `prefix`. Objects of other names are left out.
async fn numbers(
    store: &Store,
    prefix: &str,
) -> Result<BTreeMap<String, BTreeMap<u64, Entry>>, HistoryError> {
    let mut listing = Vec::new();
    for _ in 0..LISTINGS {
        let started = Instant::now();
        listing = match store.list(prefix).await {
            Ok(listing) => listing,
            Err(e) if e.is_not_found() => Vec::new(),
            Err(e) => return Err(e.into()),
        };
        if started.elapsed() < SLOW_LISTING {
            break;
        }
    }
    let mut branches: BTreeMap<String, BTreeMap<u64, Entry>> = BTreeMap::new();
    for entry in listing {
        let parts = entry.path.strip_prefix(PREFIX).and_then(|rest| rest.split_once('/'));
        let parsed = parts.and_then(|(name, number)| Some((decode(name)?, number.parse::<u64>().ok()?)));
        if let Some((name, number)) = parsed.filter(|(name, number)| path(name, *number) == entry.path) {
            branches.entry(name).or_default().insert(number, entry);
        }
    }
    Ok(branches)
}

/// What the highest of the numbers found says; `None` if there are none.
async fn newest(
    store: &Store,
    name: &str,
    mut found: BTreeMap<u64, Entry>,
) -> Result<Option<Held>, HistoryError> {
    let prefix = format!("{PREFIX}{}/", encode(name));
    while let Some(number) = found.keys().next_back().copied() {
        let path = path(name, number);
        let bytes = match store.read_all(&path).await {
            Ok(bytes) => bytes,
            // Somebody moved the branch and tidied up: look again.
            Err(e) if e.is_not_found() => {
                found = numbers(store, &prefix).await?.remove(name).unwrap_or_default();
                continue;
            }
            Err(e) => return Err(e.into()),
        };
        // A power cut leaves files without content, or with zeros, and only such as were not made safe. Going back to
        // what was before, silently, could hide a commit: somebody has to look, see `empty_moves`.
        if is_empty(&bytes) {
            let what = format!(
                "branch {name:?} is damaged: the object that says what it is is empty, as after a power cut; \
                 `lacus check --repair` takes the branch back to what it was before"
            );
            return Err(HistoryError::corrupt(path, what));
        }
        let damaged = |what: String| {
            HistoryError::corrupt(
                &path,
                format!("branch {name:?} is damaged: {what}; restore it from a copy"),
            )
        };
        if look_at_seal(&bytes) == Seal::Broken {
            return Err(damaged("it does not have its checksum".to_owned()));
        }
        let stored: Stored = serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
        if stored.branch.name != name {
            return Err(damaged(format!("it says that it is {:?}", stored.branch.name)));
        }
        return Ok(Some(Held { branch: stored.branch, number: Some(number), marks: stored.marks }));
    }
    Ok(None)
}

fn is_empty(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// The objects of the highest numbers of a branch that are empty, the highest first, where what was before is known: one below
/// says it, or this was main's first commit. A move is made safe before anybody is told of it, and before older numbers are
/// tidied away, so that undoing it takes nothing back that was promised.
pub(crate) async fn empty_moves(store: &Store, name: &str) -> Result<Vec<String>, HistoryError> {
    let prefix = format!("{PREFIX}{}/", encode(name));
    let found = numbers(store, &prefix).await?.remove(name).unwrap_or_default();
    let mut empty = Vec::new();
    for number in found.keys().rev() {
        let path = path(name, *number);
        if !is_empty(&store.read_all(&path).await?) {
            return Ok(empty);
        }
        empty.push(path);
    }
    let is_first = name == MAIN && found.contains_key(&0);
    Ok(if is_first { empty } else { Vec::new() })
}

#[cfg(test)]
mod tests;
