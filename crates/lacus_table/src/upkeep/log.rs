//! Does a log open as it should? `_last_checkpoint` and what it names are a summary of the log, and can be made anew. Entries
//! say what nothing else says: the only ones that are ever removed are empty ones at the end.

use lacus_io::Store;
use lacus_io::boxed;

use crate::error::TableError;
use crate::log::actions::{entry_path, is_blank};
use crate::log::log_checkpoint::{self, LAST_CHECKPOINT, LastCheckpoint, checkpoint_path};
use crate::log::replay::{Listing, from_the_beginning};
use crate::log::snapshot::Snapshot;
use crate::upkeep::Finding;
use crate::write::sync::noted_as_synced;

/// What is wrong with the log checkpoint that opening begins with, if anything.
#[boxed]
pub async fn check_log(store: &Store) -> Result<Option<Finding>, TableError> {
    let finding = |path: &str, problem: String| -> Result<Option<Finding>, TableError> {
        Ok(Some(Finding { what: store.outer_path(path)?, problem }))
    };
    let text = match store.read_all(LAST_CHECKPOINT).await {
        Ok(text) => text,
        Err(e) if e.is_not_found() => {
            let names = store.names("_delta_log").await?;
            return match names.iter().any(|name| name.ends_with(".checkpoint.parquet")) {
                true => finding(LAST_CHECKPOINT, "it is missing, and there are log checkpoints".to_owned()),
                false => Ok(None),
            };
        }
        Err(e) => return Err(e.into()),
    };
    let Ok(last) = serde_json::from_slice::<LastCheckpoint>(&text) else {
        return finding(LAST_CHECKPOINT, "it is damaged".to_owned());
    };
    if !last.is_classic() {
        return Ok(None);
    }
    let path = checkpoint_path(last.version);
    match log_checkpoint::read(store, last.version, Some(&last)).await {
        Ok(Some(_)) if log_checkpoint::is_described(store, &last).await? => Ok(None),
        Ok(Some(_)) => {
            finding(LAST_CHECKPOINT, format!("it does not describe the log checkpoint it names ({path})"))
        }
        Ok(None) => finding(&path, "_last_checkpoint names it, and it is missing".to_owned()),
        Err(TableError::Corrupt { what, .. }) => finding(&path, what),
        Err(error) => Err(error),
    }
}

/// Makes the log checkpoint that opening begins with anew, from the entries of the log and the checkpoint it begins with, if
/// any. Fails if the log does not say all: nothing is made up. A dry run only says whether it could be done.
#[boxed]
pub async fn repair_log(store: &Store, dry_run: bool) -> Result<(), TableError> {
    let Some(state) = from_the_beginning(store).await? else {
        let what = "the log does not say what is in the table from its beginning on";
        return Err(TableError::corrupt(store.outer_path(LAST_CHECKPOINT)?, what));
    };
    // What this version does not understand, a checkpoint of ours would leave out.
    if let Some(what) = Snapshot::new(state.clone())?.0.unknown_to_writers {
        return Err(TableError::NewerFormat { what });
    }
    if dry_run {
        return Ok(());
    }
    let damaged = match LastCheckpoint::read(store).await? {
        Some(last) if last.is_classic() && last.version != state.version => {
            let read = log_checkpoint::read(store, last.version, Some(&last)).await;
            matches!(read, Err(TableError::Corrupt { .. })).then_some(last.version)
        }
        _ => None,
    };
    log_checkpoint::rewrite(store, &state).await?;
    // Who opens the version of a damaged checkpoint would read it.
    if let Some(version) = damaged {
        store.remove(vec![checkpoint_path(version)]).await?;
    }
    Ok(())
}

/// Versions at the end of a log whose entries are empty, newest first: what a power cut leaves of entries that had not reached the
/// disk. None of them is `known` to be safe, or noted as such, and none has a log checkpoint: nobody was told that it would
/// last, so that removing it loses nothing that was promised.
#[boxed]
pub async fn empty_tail(store: &Store, known: Option<u64>) -> Result<Vec<u64>, TableError> {
    let listing = Listing::of(store).await?;
    let checkpoint = listing.newest_checkpoint();
    let safe = known.max(noted_as_synced(store).await).max(checkpoint);
    let mut found = Vec::new();
    for &version in listing.entries().iter().rev() {
        let is_last = found.last().is_none_or(|last| version + 1 == *last);
        if safe.is_some_and(|safe| version <= safe) || !is_last || version == 0 {
            break;
        }
        if !is_blank(&store.read_all(&entry_path(version)).await?) {
            break;
        }
        found.push(version);
    }
    Ok(found)
}

/// Removes what [`empty_tail`] found, the newest first.
#[boxed]
pub async fn remove_empty_tail(store: &Store, versions: &[u64]) -> Result<(), TableError> {
    for version in versions {
        store.remove(vec![entry_path(*version)]).await?;
    }
    Ok(())
}
