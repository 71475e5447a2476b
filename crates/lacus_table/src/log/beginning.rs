//! With which version a log begins: a table's own with entry 0, a fork's with a log checkpoint of the version that it was made
//! from, which has no entry there.

use serde_json::Value as Json;

/// The table property that says at which version a fork began.
pub(crate) const FORKED_AT: &str = "lacus.forked_at";

/// The version with which a log begins, and when that was made, if no entry says it.
pub(crate) fn beginning(metadata: &Json) -> (u64, Option<i64>) {
    match forked_at(metadata) {
        Some(version) => (version, metadata["createdTime"].as_i64()),
        None => (0, None),
    }
}

/// The first version that a log entry describes.
pub(crate) fn first_entry(metadata: &Json) -> u64 {
    forked_at(metadata).map_or(0, |version| version + 1)
}

/// The version at which a fork began, which may be 0.
fn forked_at(metadata: &Json) -> Option<u64> {
    metadata["configuration"][FORKED_AT].as_str()?.parse().ok()
}
