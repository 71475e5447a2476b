//! Marks: which versions of a table can no longer be opened, because their files go or are gone.
//!
//! ```text
//! _lacus/expired/main/00000000000000000000             {"before":40,"kept":[7,31],"time_millis":…}
//! _lacus/expired/_branches%2Fdev/00000000000000000000  {"before":9,"kept":[],"time_millis":…,"gone":true}
//! ```
//!
//! A mark says that the versions below `before` are expired, but for those in `kept`. Marks only ever come, so that what one
//! says stays true. They come before anything is removed: who is killed between leaves versions that nobody opens and
//! files that nobody needs.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use lacus_io::Store;
use lacus_table::{BLANK_SEAL, SEAL_KEY, Seal, look_at_seal, seal};
use serde::{Deserialize, Serialize};

use crate::error::HistoryError;
use crate::names::{decode, encode};

const PREFIX: &str = "_lacus/expired/";

/// The directory's name for the table at the root. Others begin with `_branches/`.
const ROOT: &str = "main";

/// Marks read at the same time.
const AT_ONCE: usize = 32;

/// Which versions of a table are expired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// The versions below are,
    pub before: u64,
    /// but for these, sorted.
    pub kept: Vec<u64>,
    /// Since when, in milliseconds since 1970.
    pub time_millis: i64,
    /// Whether the whole table is being removed. Its directory is never used again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
}

impl Mark {
    pub(crate) fn expires(&self, version: u64) -> bool {
        self.gone || (version < self.before && self.kept.binary_search(&version).is_err())
    }
}

/// The marks of a dataset, by directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    marks: BTreeMap<String, BTreeMap<u64, Mark>>,
}

impl Marks {
    /// Whether a version is expired; with `by`, whether it has been since then.
    pub(crate) fn is_expired(&self, directory: &str, version: u64, by: Option<i64>) -> bool {
        let marks = self.marks.get(directory).into_iter().flat_map(BTreeMap::values);
        marks.filter(|mark| by.is_none_or(|by| mark.time_millis <= by)).any(|mark| mark.expires(version))
    }

    /// Whether a table was being removed.
    pub(crate) fn is_gone(&self, directory: &str) -> bool {
        self.marks.get(directory).is_some_and(|marks| marks.values().any(|mark| mark.gone))
    }

    /// Takes one more into account.
    pub(crate) fn add(&mut self, directory: &str, mark: Mark) {
        let marks = self.marks.entry(directory.to_owned()).or_default();
        let number = marks.keys().next_back().map_or(0, |last| last + 1);
        marks.insert(number, mark);
    }
}

fn folder(directory: &str) -> String {
    format!("{PREFIX}{}/", if directory.is_empty() { ROOT.to_owned() } else { encode(directory) })
}

fn path(directory: &str, number: u64) -> String {
    format!("{}{number:020}", folder(directory))
}

/// The marks of all tables.
pub(crate) async fn list(store: &Store) -> Result<Marks, HistoryError> {
    list_below(store, PREFIX).await
}

/// The marks of one table.
pub(crate) async fn list_of(store: &Store, directory: &str) -> Result<Marks, HistoryError> {
    list_below(store, &folder(directory)).await
}

/// The directories that have marks.
pub(crate) async fn directories(store: &Store) -> Result<Vec<String>, HistoryError> {
    let found = store.names(PREFIX.trim_end_matches('/')).await?;
    Ok(found.iter().filter_map(|name| decode(name)).collect())
}

async fn list_below(store: &Store, prefix: &str) -> Result<Marks, HistoryError> {
    let found = match store.list(prefix).await {
        Ok(found) => found,
        Err(e) if e.is_not_found() => Vec::new(),
        Err(e) => return Err(e.into()),
    };
    let parse = |path: &str| -> Option<(String, u64)> {
        let (name, number) = path.strip_prefix(PREFIX)?.split_once('/')?;
        let directory = if name == ROOT { String::new() } else { decode(name)? };
        Some((directory, number.parse().ok()?))
    };
    let known = found.into_iter().filter_map(|entry| Some((parse(&entry.path)?, entry.path)));
    let reads = known.map(|((directory, number), path)| async move {
        let bytes = store.read_all(&path).await?;
        // A power cut left it empty, before anything was removed: as if it had not been put.
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let damaged = |what: String| {
            HistoryError::corrupt(&path, format!("a mark of expired versions is damaged: {what}"))
        };
        if look_at_seal(&bytes) == Seal::Broken {
            return Err(damaged("it does not have its checksum".to_owned()));
        }
        let mark: Mark = serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
        Ok::<_, HistoryError>(Some((directory, number, mark)))
    });
    let mut marks = Marks::default();
    let mut read = stream::iter(reads).buffer_unordered(AT_ONCE);
    while let Some(found) = read.try_next().await? {
        if let Some((directory, number, mark)) = found {
            marks.marks.entry(directory).or_default().insert(number, mark);
        }
    }
    Ok(marks)
}

/// Puts a mark, and makes it safe against power loss.
pub(crate) async fn put(store: &Store, directory: &str, mark: &Mark) -> Result<(), HistoryError> {
    let fault = |e: serde_json::Error| HistoryError::Fault { what: format!("a mark as JSON: {e}") };
    let mut stored = serde_json::to_value(mark).map_err(fault)?;
    stored[SEAL_KEY] = BLANK_SEAL.into();
    let bytes = Bytes::from(seal(stored.to_string().into_bytes()));
    let found = match store.list(&folder(directory)).await {
        Ok(found) => found,
        Err(e) if e.is_not_found() => Vec::new(),
        Err(e) => return Err(e.into()),
    };
    let taken = found.iter().filter_map(|entry| entry.path.rsplit('/').next()?.parse::<u64>().ok()).max();
    for number in taken.map_or(0, |taken| taken + 1).. {
        let own = path(directory, number);
        match store.put_new(&own, bytes.clone()).await {
            Ok(()) => {
                store.make_durable(&[own])?;
                return Ok(());
            }
            // Somebody else marked as well; both count.
            Err(e) if e.is_already_exists() => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_marks_say_adds_up() {
        let store = Store::open("memory://marks", &Default::default()).unwrap();
        let mark = |before, kept: &[u64], time_millis| Mark {
            before,
            kept: kept.to_vec(),
            time_millis,
            gone: false,
        };
        put(&store, "", &mark(10, &[3, 7], 100)).await.unwrap();
        put(&store, "", &mark(12, &[7], 200)).await.unwrap();
        put(&store, "_branches/a.b", &Mark { gone: true, ..mark(5, &[], 100) }).await.unwrap();
        let marks = list(&store).await.unwrap();
        let expired = |by| (0..14).filter(|version| marks.is_expired("", *version, by)).collect::<Vec<u64>>();
        assert_eq!(expired(None), [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11]);
        assert_eq!(expired(Some(150)), [0, 1, 2, 4, 5, 6, 8, 9]);
        assert!(marks.is_gone("_branches/a.b") && !marks.is_gone(""));
        assert_eq!(list_of(&store, "_branches/a").await.unwrap(), Marks::default());
        assert!(list_of(&store, "").await.unwrap().is_expired("", 4, None));
        let mut named = directories(&store).await.unwrap();
        named.sort();
        assert_eq!(named, ["_branches/a.b", "main"]);
    }
}
