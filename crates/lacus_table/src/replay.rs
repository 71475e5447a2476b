//! From a log to the state of a table.
//!
//! ```text
//! _last_checkpoint ─→ the log checkpoint it names ─┐
//!                 └─→ the entries after it ────────┴→ LogState
//! ```
//!
//! Nothing is listed: the entries after a checkpoint are asked for until one is missing, so an open costs
//! the same however long the log is. What is unusual about a log (checkpoints in parts, none where one is
//! expected, damage, actions nobody has heard of) is left to delta-rs, which knows the protocol's corner cases.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use deltalake_core::DeltaTable;
use deltalake_core::kernel::EagerSnapshot;
use deltalake_core::logstore::{LogStore, StorageConfig, default_logstore};
use futures::{StreamExt, TryStreamExt};
use lacus_io::Store;
use serde_json::Value as Json;

use crate::deletion::Descriptor;
use crate::error::TableError;
use crate::log::{Action, Add, Foreign, LogState, entry_path, is_table, parse_entry};
use crate::log_checkpoint::{self, CHECKPOINT_EVERY, LAST_CHECKPOINT, LastCheckpoint, checkpoint_path};

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
        Err(error) => Some(error),
    };
    if !is_table(store).await? {
        return Err(TableError::NotADataset { url: store.text().to_owned(), found: "there is no Delta log" });
    }
    match (by_the_book(store, version).await, trouble) {
        (Ok(state), trouble) => {
            if let Some(error) = trouble {
                tracing::warn!(%error, "the log had to be listed");
            }
            Ok(state)
        }
        (Err(error), Some(TableError::Corrupt { path, what })) => {
            Err(TableError::corrupt(path, format!("{what}; listing the log did not help: {error}")))
        }
        (Err(error), _) => Err(error),
    }
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
            futures::join!(checkpoint(store, start, known), entries(store, first, version));
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
            folded.apply(parse_entry(version, bytes)?);
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
) -> Result<Option<Vec<Action>>, TableError> {
    match start {
        Some(start) => log_checkpoint::read(store, start, last).await,
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
    let names = store.names("_delta_log").await?;
    let numbered = |suffix: &str| {
        let mut found: Vec<u64> =
            names.iter().filter_map(|name| name.strip_suffix(suffix)?.parse().ok()).collect();
        found.sort_unstable();
        found
    };
    let (listed, checkpoints) = (numbered(".json"), numbered(".checkpoint.parquet"));
    let begins = listed.first() == Some(&0);
    let last = LastCheckpoint::read(store).await?;
    for start in begins.then_some(None).into_iter().chain(checkpoints.into_iter().map(Some)) {
        let first = start.map_or(0, |start| start + 1);
        let after: Vec<u64> = listed.iter().copied().filter(|version| *version >= first).collect();
        if after.iter().copied().ne(first..first + after.len() as u64) {
            continue;
        }
        let known = last.as_ref().filter(|last| start == Some(last.version));
        let actions = match checkpoint(store, start, known).await {
            Ok(Some(actions)) => actions,
            Ok(None) | Err(TableError::Corrupt { .. }) => continue,
            Err(error) => return Err(error),
        };
        let mut folded = Folded::default();
        folded.apply(actions);
        let mut entries =
            futures::stream::iter(&after).map(|version| entry(store, *version)).buffered(BATCH as usize);
        let mut version = start;
        while let Some(bytes) = entries.try_next().await? {
            let next = version.map_or(0, |version| version + 1);
            let Some(bytes) = bytes else { return Ok(None) };
            folded.apply(parse_entry(next, &bytes)?);
            version = Some(next);
        }
        if let Some(state) = version.and_then(|version| folded.state(version)) {
            return Ok(Some(state));
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
    has_unknown: bool,
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
                // Why a file came is the entry's to say, and forgotten here as it is by delta-rs.
                Action::Add(add) => {
                    self.adds.insert(add.path.clone(), Add { data_change: true, ..add });
                }
                Action::Protocol(protocol) => self.protocol = Some(protocol),
                Action::Metadata(metadata) => self.metadata = Some(without_nulls(metadata)),
                Action::Transaction(_) | Action::Domain(_) => self.foreign.note(&action),
                Action::Other => self.has_unknown = true,
                Action::Remove(_) | Action::CommitInfo(_) => {}
            }
        }
    }

    /// The state, if the actions make one.
    fn state(self, version: u64) -> Option<LogState> {
        if self.has_unknown {
            return None;
        }
        Some(LogState {
            version,
            protocol: self.protocol?,
            metadata: self.metadata?,
            adds: self.adds.into_values().collect(),
            foreign: Some(self.foreign),
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

fn delta_log_store(store: &Store) -> Arc<dyn LogStore> {
    default_logstore(store.object_store(), store.root_object_store(), store.url(), &StorageConfig::default())
}

/// The state of a table as delta-rs replays it, which does not tell all that other writers keep there.
pub(crate) async fn by_the_book(store: &Store, version: Option<u64>) -> Result<LogState, TableError> {
    let log_store = delta_log_store(store);
    let snapshot = EagerSnapshot::try_new(log_store.as_ref(), version).await?;
    let to_json = |what: &str, result: Result<Json, serde_json::Error>| {
        result.map_err(|e| TableError::corrupt("_delta_log", format!("{what}: {e}")))
    };
    let protocol = to_json("protocol", serde_json::to_value(snapshot.protocol()))?;
    let metadata = to_json("metaData", serde_json::to_value(snapshot.metadata()))?;
    let mut adds = Vec::new();
    for view in snapshot.try_log_data()?.iter() {
        let descriptor = view.deletion_vector_descriptor().map(|dv| Descriptor {
            storage_type: dv.storage_type.as_ref().to_owned(),
            path_or_inline_dv: dv.path_or_inline_dv,
            offset: dv.offset,
            size_in_bytes: dv.size_in_bytes,
            cardinality: dv.cardinality,
        });
        // The one public way to a file's tags.
        #[allow(deprecated)]
        let add = view.add_action();
        adds.push(Add {
            path: add.path,
            partition_values: add.partition_values,
            size: add.size,
            modification_time: add.modification_time,
            data_change: add.data_change,
            stats: add.stats,
            tags: add.tags,
            deletion_vector: descriptor,
        });
    }
    let metadata = without_nulls(metadata);
    Ok(LogState { version: snapshot.version(), protocol, metadata, adds, foreign: None })
}

/// Writes a log checkpoint through delta-rs, which replays the log anew and leaves nothing out.
pub(crate) async fn checkpoint_by_the_book(store: &Store, version: u64) -> Result<(), TableError> {
    let mut table = DeltaTable::new(delta_log_store(store));
    table.load_version(version).await?;
    deltalake_core::checkpoints::create_checkpoint(&table, None).await?;
    // A torn one would keep the table from opening.
    let Some(local) = store.local() else { return Ok(()) };
    let written = [checkpoint_path(version), LAST_CHECKPOINT.to_owned()];
    Ok(lacus_io::blocking(|| local.sync(&written))?)
}

#[cfg(test)]
mod tests;
