//! Rows that other writers left and that belong to no tensor, or to one that has a header row already.
//!
//! Nothing in Lacus reads such rows, and nothing in Lacus may lose them: files that hold some are not rewritten, and
//! `check` says what is in them.

use std::collections::{BTreeMap, BTreeSet};

use crate::log::snapshot::{Held, Snapshot};
use crate::schema::{DATASET_ROW, ROW_AXIS};

/// The name under which rows without a name are listed; no tensor can be called so.
pub(crate) const UNNAMED: &str = "/unnamed";

/// What other writers left in a table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ForeignRows {
    /// Names that have rows and no header row, and how many rows.
    pub unknown: BTreeMap<String, u64>,
    /// Tensors that have several header rows, and how many.
    pub headers: BTreeMap<String, u64>,
    /// The files that hold any of these.
    pub files: BTreeSet<String>,
}

/// Looks for such rows by the files' tags, without reading anything.
pub(crate) fn foreign_rows(snapshot: &Snapshot) -> ForeignRows {
    let mut found = ForeignRows::default();
    let mut headers: BTreeMap<&str, u64> = BTreeMap::new();
    for held in snapshot.files.values().flat_map(|file| &file.tags.tensors) {
        *headers.entry(&held.name).or_default() += header_count(held);
    }
    headers.retain(|_, count| *count > 1);
    for (path, file) in &snapshot.files {
        for held in &file.tags.tensors {
            if is_unknown(snapshot, held) {
                let rows = held.row_count() + header_count(held);
                *found.unknown.entry(held.name.clone()).or_default() += rows;
                found.files.insert(path.clone());
            } else if header_count(held) > 0 && headers.contains_key(held.name.as_str()) {
                found.files.insert(path.clone());
            }
        }
    }
    let known = headers.into_iter().filter(|(name, _)| !found.unknown.contains_key(*name));
    found.headers = known.map(|(name, count)| (name.to_owned(), count)).collect();
    found
}

/// Whether what a file holds of one tensor would be lost if the file were rewritten.
pub(crate) fn is_in_the_way(snapshot: &Snapshot, held: &Held) -> bool {
    let holders = || {
        let files = snapshot.state(&held.name).map(|state| &state.files[..]).unwrap_or_default();
        files.iter().filter_map(|file| file.held(&held.name)).map(header_count).sum::<u64>()
    };
    is_unknown(snapshot, held) || (held.header.is_some() && holders() > 1)
}

fn header_count(held: &Held) -> u64 {
    u64::from(held.header.is_some()) + held.more_headers.len() as u64
}

fn is_unknown(snapshot: &Snapshot, held: &Held) -> bool {
    match held.name.as_str() {
        // The dataset's own metadata is a header row and nothing else; its rows are anything but that.
        DATASET_ROW => held.row_count() > 0,
        ROW_AXIS => header_count(held) > 0,
        name => snapshot.tensor(name).is_none() && held.row_count() + header_count(held) > 0,
    }
}
