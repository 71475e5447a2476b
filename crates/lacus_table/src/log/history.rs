//! Who did what, when: read from the log entries themselves.

use futures::{StreamExt, TryStreamExt};
use lacus_io::Store;
use serde_json::Value as Json;

use crate::error::TableError;
use crate::log::actions::{Action, read_known_entry};

/// One version of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryEntry {
    /// The version.
    pub version: u64,
    /// When it was made, milliseconds since 1970.
    pub time_millis: i64,
    /// Who made it.
    pub author: String,
    /// What was done: `CREATE`, `PUT`, `WRITE REGION`, …
    pub operation: String,
    /// Facts about it, such as the tensors' names.
    pub detail: Json,
    /// Whether it was made safe against power loss.
    pub durable: bool,
    /// Tensors that were written.
    pub tensors: Vec<String>,
    /// Whether only the place of rows changed, and not what they say.
    pub moved: bool,
    /// The program that made it, where it was not Lacus.
    pub foreign: Option<String>,
    /// The commit whose content this version has, where it was made as one.
    pub commit: Option<String>,
}

/// Entries read at once: they are small, and each is a request.
const AT_ONCE: usize = 32;

/// The versions from `newest` back to `first`, at most `limit`.
pub(crate) async fn history(
    store: &Store,
    first: u64,
    newest: u64,
    limit: Option<usize>,
) -> Result<Vec<HistoryEntry>, TableError> {
    let oldest = match limit {
        Some(limit) => (newest + 1).saturating_sub(limit as u64).max(first),
        None => first,
    };
    futures::stream::iter((oldest..=newest).rev())
        .map(|version| entry(store, version))
        .buffered(AT_ONCE)
        .try_collect()
        .await
}

/// One entry of the history.
pub(crate) async fn entry(store: &Store, version: u64) -> Result<HistoryEntry, TableError> {
    Ok(describe(version, &read_known_entry(store, version).await?))
}

/// What the actions of an entry say of their version.
pub(crate) fn describe(version: u64, actions: &[Action]) -> HistoryEntry {
    let info = actions.iter().find_map(|a| match a {
        Action::CommitInfo(info) => Some(info.clone()),
        _ => None,
    });
    let info = info.unwrap_or_default();
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    HistoryEntry {
        version,
        time_millis: info["timestamp"].as_i64().unwrap_or_default(),
        author: text(&info["userName"]),
        operation: text(&info["operation"]),
        detail: info["lacus"]["detail"].clone(),
        durable: info["lacus"]["durable"] == true,
        tensors: tensors_of(&info["lacus"]["writes"]),
        moved: info["lacus"]["moved"] == true,
        foreign: info["lacus"].is_null().then(|| match info["engineInfo"].as_str() {
            Some(engine) => engine.to_owned(),
            None => "another program".to_owned(),
        }),
        commit: info["lacus"]["commit"].as_str().map(str::to_owned),
    }
}

/// The tensors a write set names, each once.
fn tensors_of(writes: &Json) -> Vec<String> {
    let written = writes["tensors"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<String> =
        written.iter().filter_map(|w| w["tensor"].as_str()).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// A time as people read it.
fn date(millis: i64) -> String {
    match chrono::DateTime::from_timestamp_millis(millis) {
        Some(time) => time.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true),
        None => format!("{millis} ms since 1970"),
    }
}

/// The newest version made at or before a time. A log that begins with `first` says with `begun` when that was,
/// where there is no entry for it.
pub(crate) async fn version_at(
    store: &Store,
    (first, begun): (u64, Option<i64>),
    newest: u64,
    time_millis: i64,
) -> Result<u64, TableError> {
    let (mut low, mut high) = (first, newest);
    let begun = match begun {
        Some(begun) => begun,
        None => entry(store, first).await?.time_millis,
    };
    if begun > time_millis {
        let wanted = format!("at or before {}, the first is of {}", date(time_millis), date(begun));
        return Err(TableError::NoSuchVersion { wanted, newest });
    }
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if entry(store, middle).await?.time_millis <= time_millis {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Ok(low)
}
