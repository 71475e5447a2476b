//! The Delta log as Lacus uses it: entries in, entries out.
//!
//! A table follows the log entry by entry, one small object per version, and appends to it with a
//! conditional put: whoever creates entry *n* first owns it.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use lacus_io::Store;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::error::TableError;
use crate::log::deletion::Descriptor;
use crate::log::seal::{BLANK_SEAL, SEAL_KEY, Seal, look_at_seal, seal};

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
    pub tags: Option<BTreeMap<String, Option<String>>>,
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
    /// How far an application of another writer's got.
    Transaction(Json),
    /// What another writer keeps under a domain's name.
    Domain(Json),
    /// In a log checkpoint: the name of a file that holds more of its actions.
    Sidecar(String),
    /// A line that changes nothing Lacus looks at (`cdc`, or what it has never heard of). The protocol has readers pass over
    /// these, and log checkpoints leave them out.
    Other,
}

/// What other writers keep in the log. Lacus hands it on from log checkpoint to log checkpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Foreign {
    /// The newest `txn` action of each `appId`.
    pub transactions: BTreeMap<String, Json>,
    /// The newest `domainMetadata` action of each `domain` that has not been removed.
    pub domains: BTreeMap<String, Json>,
}

impl Foreign {
    /// Takes note of an action, if it is another writer's.
    pub(crate) fn note(&mut self, action: &Action) {
        let key = |action: &Json, name: &str| action[name].as_str().unwrap_or_default().to_owned();
        match action {
            Action::Transaction(txn) => {
                self.transactions.insert(key(txn, "appId"), txn.clone());
            }
            Action::Domain(domain) if domain["removed"] == true => {
                self.domains.remove(&key(domain, "domain"));
            }
            Action::Domain(domain) => {
                self.domains.insert(key(domain, "domain"), domain.clone());
            }
            _ => {}
        }
    }
}

/// All that a log says of a table at one version.
#[derive(Clone, Debug)]
pub(crate) struct LogState {
    pub version: u64,
    pub protocol: Json,
    pub metadata: Json,
    pub adds: Vec<Add>,
    /// What other writers keep in the log.
    pub foreign: Foreign,
}

/// The log entry of a version, relative to the table's root.
pub(crate) fn entry_path(version: u64) -> String {
    format!("_delta_log/{version:020}.json")
}

/// Reads a log entry, if it is there.
pub(crate) async fn read_entry(store: &Store, version: u64) -> Result<Option<Vec<Action>>, TableError> {
    match store.read_all(&entry_path(version)).await {
        Ok(bytes) => parse_entry(store, version, &bytes).map(Some),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Reads a log entry that must be there.
pub(crate) async fn read_known_entry(store: &Store, version: u64) -> Result<Vec<Action>, TableError> {
    match read_entry(store, version).await? {
        Some(actions) => Ok(actions),
        None => Err(missing_entry(store, version)),
    }
}

/// The error for an entry that should be there and is not.
pub(crate) fn missing_entry(store: &Store, version: u64) -> TableError {
    let what = format!("log entry {version} is missing; restore it from a copy");
    TableError::corrupt(outer_path(store, &entry_path(version)), what)
}

/// A path as people look for it: from the dataset's root.
pub(crate) fn outer_path(store: &Store, path: &str) -> String {
    store.outer_path(path).unwrap_or_else(|_| path.to_owned())
}

/// Parses the log entry of a version. One without a single action is damage: no program writes such, and a power cut
/// leaves one of a file that had not reached the disk.
pub(crate) fn parse_entry(store: &Store, version: u64, bytes: &[u8]) -> Result<Vec<Action>, TableError> {
    let path = outer_path(store, &entry_path(version));
    let bad = |what: String| Err(TableError::corrupt(&path, what));
    if is_blank(bytes) {
        return bad(format!(
            "log entry {version} is empty, as after a power cut; `lacus check --repair` removes it if it is the newest \
             and was never confirmed as safe, otherwise restore it from a copy"
        ));
    }
    if look_at_seal(bytes) == Seal::Broken {
        return bad(format!("log entry {version} does not have its checksum; restore it from a copy"));
    }
    let actions = parse_lines(&path, bytes)?;
    match actions.is_empty() {
        true => bad(format!("log entry {version} has no action; restore it from a copy")),
        false => Ok(actions),
    }
}

/// Whether there is nothing in an object: what a power cut leaves of one that was not synced.
pub(crate) fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0 || byte.is_ascii_whitespace())
}

/// Parses actions, one in a line. Empty lines and empty objects are passed over.
pub(crate) fn parse_lines(path: &str, bytes: &[u8]) -> Result<Vec<Action>, TableError> {
    let bad = |what: String| TableError::corrupt(path, what);
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
        } else if let Some(txn) = object.remove("txn") {
            Action::Transaction(txn)
        } else if let Some(domain) = object.remove("domainMetadata") {
            Action::Domain(domain)
        } else if let Some(sidecar) = object.remove("sidecar") {
            let path =
                sidecar["path"].as_str().ok_or_else(|| bad("sidecar action: it has no path".into()))?;
            Action::Sidecar(percent_decoded(path))
        } else if object.is_empty() {
            continue;
        } else {
            Action::Other
        };
        actions.push(action);
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

/// A log entry: actions, one in a line, with a checksum of all of them in what Lacus adds to `commitInfo`.
pub(crate) fn render_entry(actions: &[Action]) -> Bytes {
    let with_seal = |action: &Action| match action {
        Action::CommitInfo(info) if info["lacus"].is_object() => {
            let mut info = info.clone();
            info["lacus"][SEAL_KEY] = BLANK_SEAL.into();
            Action::CommitInfo(info)
        }
        other => other.clone(),
    };
    let actions: Vec<Action> = actions.iter().map(with_seal).collect();
    seal(render_lines(&actions)).into()
}

/// Actions, one in a line.
pub(crate) fn render_lines(actions: &[Action]) -> Vec<u8> {
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
            Action::Transaction(txn) => json!({"txn": txn}),
            Action::Domain(domain) => json!({"domainMetadata": domain}),
            Action::Sidecar(_) | Action::Other => continue,
        };
        text.push_str(&line.to_string());
        text.push('\n');
    }
    text.into_bytes()
}

/// Whether a Delta log is there at all. The objects that a log usually has are asked for first: a listing is only made
/// of one that lost them.
pub(crate) async fn is_table(store: &Store) -> Result<bool, TableError> {
    if store.exists(&entry_path(0)).await? || store.exists("_delta_log/_last_checkpoint").await? {
        return Ok(true);
    }
    let names = store.names("_delta_log").await?;
    Ok(names.iter().any(|name| is_part_of_a_log(name)))
}

/// Whether a name is one of an entry or a checkpoint: they begin with a version of twenty digits.
fn is_part_of_a_log(name: &str) -> bool {
    let version = name.split('.').next().unwrap_or_default();
    let has_version = version.len() == 20 && version.bytes().all(|digit| digit.is_ascii_digit());
    has_version && (name.ends_with(".json") || name.ends_with(".parquet"))
}
