//! Makes versions safe against power loss, and notes up to which one they are.

use futures::StreamExt;
use lacus_io::{Store, boxed};

use crate::error::TableError;
use crate::log::actions::{Action, entry_path, missing_entry, read_entry};
use crate::log::beginning::first_entry;
use crate::log::deletion;
use crate::log::seal::{parse_number, sealed_number};
use crate::log::snapshot::Snapshot;

/// Where the newest version that is known to be safe against power loss is noted.
const SYNCED: &str = "_lacus/synced";

/// Log entries read at once to see what is to be synced.
const ENTRIES_AT_ONCE: usize = 32;

/// Syncs all that the versions since the last synced one wrote: data files, deletion vectors, log entries and the
/// directories they are in. Which version that is, is noted once the work is done: what an entry says of itself was
/// written before. The note itself is not synced: an old or empty one only means that more is synced the next time.
#[boxed]
pub(crate) async fn sync(store: &Store, snapshot: &Snapshot) -> Result<(), TableError> {
    if store.is_durable_at_once() {
        return Ok(());
    }
    let newest = snapshot.version;
    let noted = noted_as_synced(store).await;
    let first = noted.map_or(0, |noted| noted.saturating_add(1)).max(first_entry(&snapshot.metadata));
    if first > newest {
        return Ok(());
    }
    let mut entries = futures::stream::iter(first..=newest)
        .map(|version| async move { (version, read_entry(store, version).await) })
        .buffered(ENTRIES_AT_ONCE);
    let mut paths = Vec::new();
    while let Some((version, actions)) = entries.next().await {
        let actions = match actions? {
            Some(actions) => actions,
            // Another tool tidied its log up.
            None if version < newest => continue,
            None => return Err(missing_entry(store, version)),
        };
        for action in &actions {
            if let Action::Add(add) = action {
                paths.push(add.path.clone());
                paths.extend(add.deletion_vector.as_ref().and_then(deletion::file_path));
            }
        }
        paths.push(entry_path(version));
    }
    store.make_durable(&paths)?;
    Ok(store.replace(SYNCED, sealed_number(newest).into()).await?)
}

/// The newest version of a table that is noted as safe against power loss.
pub(crate) async fn noted_as_synced(store: &Store) -> Option<u64> {
    parse_number(&store.read_all(SYNCED).await.ok()?)
}
