//! Log checkpoints as Lacus does not write them: in parts, and of the protocol's second version.
//!
//! ```text
//! classic   <version>.checkpoint.parquet
//! parts     <version>.checkpoint.<part>.<parts>.parquet            all of them, or it is none
//! second    <version>.checkpoint.<uuid>.{json, parquet} ─names→ _sidecars/<name>.parquet
//! ```
//!
//! A classic name may hide a checkpoint of the second version.

use futures::{StreamExt, TryStreamExt};
use lacus_io::Store;

use crate::error::TableError;
use crate::log::actions::{Action, outer_path, parse_lines};
use crate::log::log_checkpoint::{LastCheckpoint, read, read_file};

/// Files of a checkpoint that are read at once.
const AT_ONCE: usize = 8;

/// The actions of the checkpoint of a version, whatever it is made of, if it is there and whole. `others` are the files of
/// it that a listing showed beside the classic one.
pub(crate) async fn read_any(
    store: &Store,
    version: u64,
    last: Option<&LastCheckpoint>,
    others: &[String],
) -> Result<Option<Vec<Action>>, TableError> {
    let last = last.filter(|last| last.is_classic());
    if let Some(actions) = read(store, version, last).await? {
        return with_sidecars(store, actions).await.map(Some);
    }
    let Some(files) = one_of(version, others) else { return Ok(None) };
    let mut parts = futures::stream::iter(files).map(|path| part(store, path)).buffered(AT_ONCE);
    let mut actions = Vec::new();
    while let Some(mut more) = parts.try_next().await? {
        actions.append(&mut more);
    }
    with_sidecars(store, actions).await.map(Some)
}

async fn part(store: &Store, path: String) -> Result<Vec<Action>, TableError> {
    if !path.ends_with(".json") {
        return read_file(store, &path).await;
    }
    parse_lines(&outer_path(store, &path), &store.read_all(&path).await?)
}

/// The files of one whole checkpoint among those of a version: one of the second version, or all parts of one.
fn one_of(version: u64, names: &[String]) -> Option<Vec<String>> {
    let in_log = |rest: &str| format!("_delta_log/{version:020}.checkpoint.{rest}");
    let mut counts = Vec::new();
    for name in names {
        let words: Vec<&str> = name.split('.').skip(2).collect();
        match words[..] {
            [_, parts, "parquet"] => counts.extend(parts.parse::<u64>().ok()),
            [_, "json" | "parquet"] => return Some(vec![in_log(&words.join("."))]),
            _ => {}
        }
    }
    counts.sort_unstable();
    counts.dedup();
    counts.into_iter().find_map(|parts| {
        // A count that no listing could hold comes from no writer.
        let wanted = (1..=parts).take(names.len() + 1).map(|part| format!("{part:010}.{parts:010}.parquet"));
        let wanted: Vec<String> = wanted.map(|rest| in_log(&rest)).collect();
        let is_there = |path: &String| names.iter().any(|name| path.ends_with(&format!("/{name}")));
        (wanted.len() as u64 == parts && wanted.iter().all(is_there)).then_some(wanted)
    })
}

/// Actions with those of the files that they name.
async fn with_sidecars(store: &Store, actions: Vec<Action>) -> Result<Vec<Action>, TableError> {
    let (sidecars, mut actions): (Vec<Action>, Vec<Action>) =
        actions.into_iter().partition(|action| matches!(action, Action::Sidecar(_)));
    let paths = sidecars.into_iter().filter_map(|action| match action {
        // A name, or a path that ends with it.
        Action::Sidecar(path) => {
            let name = path.rsplit('/').next().unwrap_or(&path);
            Some(format!("_delta_log/_sidecars/{name}"))
        }
        _ => None,
    });
    let paths: Vec<String> = paths.collect();
    let mut files = futures::stream::iter(paths)
        .map(|path| async move { read_file(store, &path).await })
        .buffered(AT_ONCE);
    while let Some(mut more) = files.try_next().await? {
        actions.append(&mut more);
    }
    Ok(actions)
}

#[cfg(test)]
mod tests;
