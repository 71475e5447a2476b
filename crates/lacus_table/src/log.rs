//! The Delta log as Lacus uses it: entries in, entries out.
//!
//! Opening a table replays its log through delta-rs, which knows checkpoints and the protocol's
//! corner cases. From then on the table follows the log entry by entry, one small object per
//! version, and appends to it with a conditional put: whoever creates entry *n* first owns it.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use deltalake_core::DeltaTable;
use deltalake_core::kernel::EagerSnapshot;
use deltalake_core::logstore::{LogStore, StorageConfig, default_logstore};
use lacus_io::Store;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::deletion::Descriptor;
use crate::error::TableError;

/// A file that is part of the table.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Add {
    pub path: String,
    #[serde(default)]
    pub partition_values: HashMap<String, Option<String>>,
    pub size: i64,
    pub modification_time: i64,
    pub data_change: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<HashMap<String, Option<String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_vector: Option<Descriptor>,
}

/// A file that no longer is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Remove {
    pub path: String,
    pub deletion_timestamp: Option<i64>,
    pub data_change: bool,
    #[serde(default)]
    pub extended_file_metadata: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_values: Option<HashMap<String, Option<String>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_vector: Option<Descriptor>,
}

/// One line of a log entry.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Add(Add),
    Remove(Remove),
    Protocol(Json),
    Metadata(Json),
    CommitInfo(Json),
    /// A line that changes nothing Lacus looks at (`txn`, `cdc`, …).
    Other,
}

/// The log entry of a version, relative to the table's root.
pub(crate) fn entry_path(version: u64) -> String {
    format!("_delta_log/{version:020}.json")
}

/// Parses one log entry.
pub(crate) fn parse_entry(version: u64, bytes: &[u8]) -> Result<Vec<Action>, TableError> {
    let bad = |what: String| TableError::corrupt(entry_path(version), what);
    let text = std::str::from_utf8(bytes).map_err(|e| bad(e.to_string()))?;
    let mut actions = Vec::new();
    for line in text.lines().filter(|l| !l.trim().is_empty()) {
        let mut object: serde_json::Map<String, Json> =
            serde_json::from_str(line).map_err(|e| bad(format!("log entry is not JSON: {e}")))?;
        let action = if let Some(add) = object.remove("add") {
            let mut add: Add = serde_json::from_value(add).map_err(|e| bad(format!("add action: {e}")))?;
            add.path = percent_decoded(&add.path);
            Action::Add(add)
        } else if let Some(remove) = object.remove("remove") {
            let mut remove: Remove =
                serde_json::from_value(remove).map_err(|e| bad(format!("remove action: {e}")))?;
            remove.path = percent_decoded(&remove.path);
            Action::Remove(remove)
        } else if let Some(protocol) = object.remove("protocol") {
            Action::Protocol(protocol)
        } else if let Some(metadata) = object.remove("metaData") {
            Action::Metadata(metadata)
        } else if let Some(info) = object.remove("commitInfo") {
            Action::CommitInfo(info)
        } else {
            Action::Other
        };
        actions.push(action);
    }
    if actions.is_empty() {
        return Err(bad("log entry is empty".into()));
    }
    Ok(actions)
}

fn percent_decoded(path: &str) -> String {
    if !path.contains('%') {
        return path.to_owned();
    }
    let mut out = Vec::with_capacity(path.len());
    let bytes = path.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        let hex = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
        match (bytes[i], bytes.get(i + 1).copied().and_then(hex), bytes.get(i + 2).copied().and_then(hex)) {
            (b'%', Some(high), Some(low)) => {
                out.push(high << 4 | low);
                i += 3;
            }
            (b, ..) => {
                out.push(b);
                i += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| path.to_owned())
}

/// Paths are URIs in the log. Lacus' own have nothing to encode, other tools' may.
fn percent_encoded(path: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/=:@+,".contains(&b);
    path.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Renders actions as a log entry.
pub(crate) fn render_entry(actions: &[Action]) -> Bytes {
    let mut text = String::new();
    for action in actions {
        let line = match action {
            Action::Add(add) => json!({"add": Add { path: percent_encoded(&add.path), ..add.clone() }}),
            Action::Remove(remove) => {
                json!({"remove": Remove { path: percent_encoded(&remove.path), ..remove.clone() }})
            }
            Action::Protocol(p) => json!({"protocol": p}),
            Action::Metadata(m) => json!({"metaData": m}),
            Action::CommitInfo(info) => json!({"commitInfo": info}),
            Action::Other => continue,
        };
        text.push_str(&line.to_string());
        text.push('\n');
    }
    text.into()
}

/// The whole state of a table at a version, as delta-rs replays it.
pub(crate) struct Replayed {
    pub version: u64,
    pub adds: Vec<Add>,
    pub protocol: Json,
    pub metadata: Json,
}

fn delta_log_store(store: &Store) -> Arc<dyn LogStore> {
    default_logstore(store.object_store(), store.root_object_store(), store.url(), &StorageConfig::default())
}

/// Replays the log up to `version` (or its tip).
pub(crate) async fn replay(store: &Store, version: Option<u64>) -> Result<Replayed, TableError> {
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
    Ok(Replayed { version: snapshot.version(), adds, protocol, metadata })
}

/// Writes a log checkpoint at `version`, so that opening need not read every entry.
pub(crate) async fn write_log_checkpoint(store: &Store, version: u64) -> Result<(), TableError> {
    let mut table = DeltaTable::new(delta_log_store(store));
    table.load_version(version).await?;
    deltalake_core::checkpoints::create_checkpoint(&table, None).await?;
    Ok(())
}

/// Whether a Delta log is there at all.
pub(crate) async fn is_table(store: &Store) -> Result<bool, TableError> {
    if store.exists(&entry_path(0)).await? {
        return Ok(true);
    }
    Ok(store.exists("_delta_log/_last_checkpoint").await?)
}
