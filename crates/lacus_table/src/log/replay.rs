//! From a log to the state of a table.
//!
//! ```text
//! _last_checkpoint ─→ the log checkpoint it names ─┐
//!                 └─→ the entries after it ────────┴→ LogState
//! ```
//!
//! Nothing is listed: the entries after a checkpoint are asked for until one is missing, so an open costs
//! the same however long the log is. Where that leads nowhere (the hint is gone or wrong, a checkpoint is damaged or of a kind
//! that Lacus does not write, an entry is missing) the log is listed.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use lacus_io::Store;
use serde_json::Value as Json;

use crate::error::TableError;
use crate::log::actions::{
    Action, Add, Foreign, LogState, entry_path, missing_entry, outer_path, parse_entry, read_known_entry,
};
use crate::log::foreign_checkpoint::read_any;
use crate::log::log_checkpoint::{CHECKPOINT_EVERY, LastCheckpoint};

/// Entries asked for at first, before it is known whether there are any. After a batch more the next log
/// checkpoint is due.
const FIRST_BATCH: u64 = 4;

/// Entries asked for at once after that.
const BATCH: u64 = 16;

/// More entries than this are read only if a listing shows no newer checkpoint that spares them.
const MAX_ENTRIES: u64 = 100;

/// The state of a table at `version` (or the newest).
pub(crate) async fn replay(store: &Store, version: Option<u64>) -> Result<LogState, TableError> {
    let trouble = match without_listing(store, version).await {
        Ok(Some(state)) => return Ok(state),
        Ok(None) => None,
        Err(error @ TableError::Corrupt { .. }) => Some(error),
        Err(error) => return Err(error),
    };
    let listing = Listing::of(store).await?;
    if listing.is_empty() {
        return Err(TableError::NotADataset { url: store.text().to_owned(), found: "there is no Delta log" });
    }
    match (listed(store, &listing, version).await, trouble) {
        (Ok(state), trouble) => {
            if let Some(error) = trouble {
                tracing::warn!(%error, "the log had to be listed");
            }
            Ok(state)
        }
        // The same damage was in the way both times.
        (Err(TableError::Corrupt { path, what }), Some(TableError::Corrupt { path: other, .. }))
            if path == other =>
        {
            Err(TableError::corrupt(path, what))
        }
        (Err(error), Some(TableError::Corrupt { path, what })) => {
            Err(TableError::corrupt(path, format!("{what}; listing the log did not help: {error}")))
        }
        (Err(error), _) => Err(error),
    }
}

/// What a listing shows of a log: versions, in order.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    entries: Vec<u64>,
    /// Checkpoints in one file of the classic kind.
    checkpoints: Vec<u64>,
    /// The files of checkpoints in parts, or of the second kind.
    others: BTreeMap<u64, Vec<String>>,
}

impl Listing {
    pub(crate) async fn of(store: &Store) -> Result<Listing, TableError> {
        let mut listing = Listing::default();
        for name in store.names("_delta_log").await? {
            let Some((digits, rest)) = name.split_once('.').filter(|(digits, _)| digits.len() == 20) else {
                continue;
            };
            let Ok(version) = digits.parse::<u64>() else { continue };
            match rest {
                "json" => listing.entries.push(version),
                "checkpoint.parquet" => listing.checkpoints.push(version),
                other if other.starts_with("checkpoint.") => {
                    listing.others.entry(version).or_default().push(name);
                }
                _ => {}
            }
        }
        listing.entries.sort_unstable();
        listing.checkpoints.sort_unstable();
        Ok(listing)
    }

    fn is_empty(&self) -> bool {
        self.newest().is_none()
    }

    /// The versions that have an entry.
    pub(crate) fn entries(&self) -> &[u64] {
        &self.entries
    }

    pub(crate) fn newest_checkpoint(&self) -> Option<u64> {
        self.checkpoints.last().max(self.others.keys().next_back()).copied()
    }

    fn oldest(&self) -> Option<u64> {
        let others = self.others.keys().next();
        [self.entries.first(), self.checkpoints.first(), others].into_iter().flatten().min().copied()
    }

    fn newest(&self) -> Option<u64> {
        self.newest_checkpoint().max(self.entries.last().copied())
    }

    /// Where a replay up to `end` can begin, newest first, and what the checkpoint there is made of beside a classic file.
    fn starts(&self, end: u64) -> Vec<(u64, &[String])> {
        let classic = self.checkpoints.iter().map(|version| (*version, &[][..]));
        let others = self.others.iter().map(|(version, names)| (*version, &names[..]));
        let mut starts: BTreeMap<u64, &[String]> = classic.collect();
        starts.extend(others);
        starts.into_iter().rev().filter(|(start, _)| *start <= end).collect()
    }

    /// The highest version after `start` and up to `end` that has no entry.
    fn gap(&self, start: Option<u64>, end: u64) -> Option<u64> {
        let first = start.map_or(0, |start| start + 1);
        let mut next = end;
        for entry in self.entries.iter().rev().skip_while(|entry| **entry > end) {
            if *entry < first || *entry != next {
                break;
            }
            match next.checked_sub(1) {
                Some(before) => next = before,
                None => return None,
            }
        }
        (next >= first).then_some(next)
    }
}

/// The state of a table from the newest sound checkpoint that a listing shows and every entry after it.
async fn listed(store: &Store, listing: &Listing, version: Option<u64>) -> Result<LogState, TableError> {
    let newest = listing.newest().unwrap_or_default();
    let end = version.unwrap_or(newest);
    // A fork's log begins where it was made, and stock clean-ups take old entries away.
    if end > newest || listing.oldest().is_some_and(|oldest| end < oldest) {
        return Err(TableError::NoSuchVersion { wanted: end.to_string(), newest });
    }
    let last = LastCheckpoint::read(store).await?;
    let starts = listing.starts(end).into_iter().map(|(start, others)| (Some(start), others));
    let mut damage = None;
    for (start, others) in starts.chain([(None, &[][..])]) {
        if let Some(missing) = listing.gap(start, end) {
            // A listing takes time, and may miss what came meanwhile.
            let error = match store.exists(&entry_path(missing)).await? {
                true => TableError::Log {
                    kind: lacus_tensor::ErrorKind::Unavailable,
                    what: format!("log entry {missing} was written this moment; try again"),
                },
                false => missing_entry(store, missing),
            };
            damage.get_or_insert(error);
            break;
        }
        let known = last.as_ref().filter(|last| start == Some(last.version));
        match fold(store, start, known, others, end).await {
            Ok(Some(state)) => return Ok(state),
            // Parts of it are missing, or the log goes on from nothing.
            Ok(None) => {}
            // An older one needs the same entries, and more.
            Err(error @ TableError::Corrupt { .. }) if start.is_some() && !is_of_entry(&error) => {
                tracing::warn!(%error, "a log checkpoint is passed over");
                damage.get_or_insert(error);
            }
            Err(error) => return Err(damage.unwrap_or(error)),
        }
    }
    Err(damage.unwrap_or_else(|| {
        TableError::corrupt(outer_path(store, "_delta_log"), "the log names no protocol or no schema")
    }))
}

/// Whether an error is one of an entry, and not of a checkpoint.
fn is_of_entry(error: &TableError) -> bool {
    matches!(error, TableError::Corrupt { path, .. } if path.ends_with(".json") && !path.contains(".checkpoint."))
}

/// The state at version `end` from a checkpoint (or the beginning) and the entries after it, all of which are there; none
/// if the checkpoint is gone or not whole, or no table comes of it.
async fn fold(
    store: &Store,
    start: Option<u64>,
    last: Option<&LastCheckpoint>,
    others: &[String],
    end: u64,
) -> Result<Option<LogState>, TableError> {
    let Some(actions) = checkpoint(store, start, last, others).await? else { return Ok(None) };
    let mut folded = Folded::default();
    folded.apply(actions);
    let mut entries = futures::stream::iter(start.map_or(0, |start| start + 1)..=end)
        .map(|version| read_known_entry(store, version))
        .buffered(BATCH as usize);
    while let Some(actions) = entries.try_next().await? {
        folded.apply(actions);
    }
    Ok(folded.state(end))
}

/// The state of a table from a checkpoint where one is expected and the entries after it; none if the log
/// is not as simple as that.
pub(crate) async fn without_listing(
    store: &Store,
    version: Option<u64>,
) -> Result<Option<LogState>, TableError> {
    let last = LastCheckpoint::read(store).await?;
    if last.as_ref().is_some_and(|last| !last.is_classic()) {
        return Ok(None);
    }
    let last = last.filter(|last| version.is_none_or(|version| last.version <= version));
    let mut damage = None;
    for start in starts(last.as_ref().map(|last| last.version), version) {
        let first = start.map_or(0, |start| start + 1);
        let known = last.as_ref().filter(|last| start == Some(last.version));
        // Whether there is a checkpoint and what came after it is asked at the same time.
        let (checkpoint, entries) =
            futures::join!(checkpoint(store, start, known, &[]), entries(store, first, version));
        let checkpoint = match checkpoint {
            Ok(Some(checkpoint)) => checkpoint,
            Ok(None) => continue,
            Err(error @ TableError::Corrupt { .. }) => {
                tracing::warn!(%error, "a log checkpoint is passed over");
                damage = Some(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        let Some(entries) = entries? else { break };
        let mut folded = Folded::default();
        folded.apply(checkpoint);
        for (version, bytes) in (first..).zip(&entries) {
            folded.apply(parse_entry(store, version, bytes)?);
        }
        let version = (first + entries.len() as u64).checked_sub(1);
        if let Some(state) = version.and_then(|version| folded.state(version)) {
            return Ok(Some(state));
        }
        break;
    }
    damage.map_or(Ok(None), Err)
}

/// Where to begin, best first: the checkpoint that is said to be the last, those before it in case that one is
/// damaged or another writer's version came where it was due, and the beginning of the log (none).
fn starts(last: Option<u64>, version: Option<u64>) -> Vec<Option<u64>> {
    let end = version.or(last).unwrap_or(0);
    let oldest = end.saturating_sub(MAX_ENTRIES);
    // `last` may be no multiple: a log may begin anywhere.
    let below = last.unwrap_or(end.saturating_add(1));
    let multiples = (oldest.div_ceil(CHECKPOINT_EVERY).max(1)..below.div_ceil(CHECKPOINT_EVERY)).rev();
    let mut starts: Vec<Option<u64>> = last.into_iter().map(Some).collect();
    starts.extend(multiples.map(|multiple| Some(multiple * CHECKPOINT_EVERY)));
    if oldest == 0 {
        starts.push(None);
    }
    starts
}

/// The actions of a checkpoint; none of them where a log begins without one.
async fn checkpoint(
    store: &Store,
    start: Option<u64>,
    last: Option<&LastCheckpoint>,
    others: &[String],
) -> Result<Option<Vec<Action>>, TableError> {
    match start {
        Some(start) => read_any(store, start, last, others).await,
        None => Ok(Some(Vec::new())),
    }
}

/// The entries from `first` to `last` (or the newest); none if there are too many or one is missing that should
/// be there.
async fn entries(store: &Store, first: u64, last: Option<u64>) -> Result<Option<Vec<Bytes>>, TableError> {
    let end = last.map_or(first.saturating_add(MAX_ENTRIES), |last| last.saturating_add(1));
    if end.saturating_sub(first) > MAX_ENTRIES {
        return Ok(None);
    }
    let mut found = Vec::new();
    let mut next = first;
    while next < end {
        let size = if last.is_none() && next == first { FIRST_BATCH } else { BATCH };
        let stop = end.min(next + size);
        let batch: Vec<Option<Bytes>> = futures::stream::iter(next..stop)
            .map(|version| entry(store, version))
            .buffered(BATCH as usize)
            .try_collect()
            .await?;
        let present = batch.iter().take_while(|entry| entry.is_some()).count();
        let is_whole = present == batch.len();
        // An entry after a gap was written this very moment, or the log is broken.
        if batch[present..].iter().any(|entry| entry.is_some()) {
            return Ok(None);
        }
        found.extend(batch.into_iter().flatten());
        if !is_whole {
            return Ok(last.is_none().then_some(found));
        }
        next = stop;
    }
    Ok(last.is_some().then_some(found))
}

/// The newest state of a table from the oldest that its log still says: every entry is read, log checkpoints only where the
/// log begins with one. None if no beginning leads to the newest entry.
pub(crate) async fn from_the_beginning(store: &Store) -> Result<Option<LogState>, TableError> {
    let listing = Listing::of(store).await?;
    let Some(end) = listing.newest() else { return Ok(None) };
    let last = LastCheckpoint::read(store).await?;
    let starts = listing.starts(end).into_iter().rev().map(|(start, others)| (Some(start), others));
    for (start, others) in std::iter::once((None, &[][..])).chain(starts) {
        if listing.gap(start, end).is_some() {
            continue;
        }
        let known = last.as_ref().filter(|last| start == Some(last.version));
        match fold(store, start, known, others, end).await {
            Ok(None) => continue,
            Err(error @ TableError::Corrupt { .. }) if start.is_some() && !is_of_entry(&error) => continue,
            found => return found,
        }
    }
    Ok(None)
}

async fn entry(store: &Store, version: u64) -> Result<Option<Bytes>, TableError> {
    match store.read_all(&entry_path(version)).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// What the actions so far add up to.
#[derive(Default)]
struct Folded {
    protocol: Option<Json>,
    metadata: Option<Json>,
    adds: HashMap<String, Add>,
    foreign: Foreign,
}

impl Folded {
    /// Applies the actions of one entry, whose order means nothing: a file that is both removed and
    /// added got another deletion vector.
    fn apply(&mut self, actions: Vec<Action>) {
        for action in &actions {
            if let Action::Remove(remove) = action {
                self.adds.remove(&remove.path);
            }
        }
        for action in actions {
            match action {
                // Why a file came is the entry's to say, and forgotten here.
                Action::Add(add) => {
                    self.adds.insert(add.path.clone(), Add { data_change: true, ..add });
                }
                Action::Protocol(protocol) => self.protocol = Some(protocol),
                Action::Metadata(metadata) => self.metadata = Some(without_nulls(metadata)),
                Action::Transaction(_) | Action::Domain(_) => self.foreign.note(&action),
                Action::Remove(_) | Action::CommitInfo(_) | Action::Sidecar(_) | Action::Other => {}
            }
        }
    }

    /// The state, if the actions make one.
    fn state(self, version: u64) -> Option<LogState> {
        Some(LogState {
            version,
            protocol: self.protocol?,
            metadata: self.metadata?,
            adds: self.adds.into_values().collect(),
            foreign: self.foreign,
        })
    }
}

/// Some writers say null where others say nothing.
fn without_nulls(mut action: Json) -> Json {
    if let Some(fields) = action.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    action
}

#[cfg(test)]
mod tests;
