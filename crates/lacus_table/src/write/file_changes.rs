//! What a commit does to files, and the actions of the log that say so.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use roaring::RoaringTreemap;
use serde_json::json;

use crate::error::TableError;
use crate::files::chunk_file::StagedFile;
use crate::log::actions::{Action, Add, Remove};
use crate::log::held::PENDING;
use crate::log::snapshot::{FileEntry, Held, Snapshot, render_tags};
use crate::read::row_index::ColumnIndex;
use crate::schema::{ROW_AXIS, protocol_action};

/// The actions that lead from one snapshot to another, whatever happened between them.
pub(crate) fn net_actions(from: &Snapshot, to: &Snapshot, now: i64) -> Vec<Action> {
    let mut actions = Vec::new();
    let uses_vectors = to.files.values().any(|file| file.deletions().is_some());
    if !from.deletion_vectors && (to.deletion_vectors || uses_vectors) {
        enable_vectors(from, &mut actions);
    }
    let is_same = |entry: &FileEntry, other: Option<&Arc<FileEntry>>| {
        other.is_some_and(|other| {
            entry.add.deletion_vector == other.add.deletion_vector && entry.add.tags == other.add.tags
        })
    };
    for (path, entry) in &from.files {
        if !is_same(entry, to.files.get(path)) {
            actions.push(removed(entry, now, true));
        }
    }
    for (path, entry) in &to.files {
        if !is_same(entry, from.files.get(path)) {
            actions.push(Action::Add(Add { data_change: true, ..entry.add.clone() }));
        }
    }
    actions
}

/// Fails if somebody changed a file that was copied meanwhile: the copy is stale.
pub(crate) fn check_unchanged(snapshot: &Snapshot, file: &FileEntry) -> Result<(), TableError> {
    let current = snapshot.files.get(file.path());
    match current.is_some_and(|c| c.add.deletion_vector == file.add.deletion_vector) {
        true => Ok(()),
        false => {
            let what = format!("data file {:?}", file.path());
            Err(TableError::Conflict { what, version: snapshot.version })
        }
    }
}

/// Notes the death of the samples of some rows.
pub(crate) fn kill(index: &ColumnIndex, ids: &[u64], changes: &mut BTreeMap<String, FileChange>) {
    let mut touched = std::collections::BTreeSet::new();
    for (file, row) in ids.iter().flat_map(|id| index.places(*id)) {
        FileChange::of(changes, &index.files[file as usize]).dead.insert(row);
        touched.insert(file);
    }
    let live_rows = index.live_rows();
    for file in touched {
        let change = FileChange::of(changes, &index.files[file as usize]);
        let Some(at) = change.held.iter().position(|h| h.name == index.name) else { continue };
        let held = &mut change.held[at];
        let dead: u64 =
            held.rows.iter().map(|&(first, count)| change.dead.range_cardinality(first..first + count)).sum();
        let live = live_rows[file as usize];
        if dead < live {
            // A share of the bytes goes with each row: what exactly is not worth reading the file for.
            held.bytes -= (u128::from(held.bytes) * u128::from(dead) / u128::from(live)) as u64;
        } else if held.header.is_some() {
            let more_headers = std::mem::take(&mut held.more_headers);
            *held = Held { header: held.header.take(), more_headers, ..Held::new(&index.name) };
        } else {
            change.held.remove(at);
        }
    }
}

/// What a commit does to one file.
#[derive(Default)]
pub(crate) struct FileChange {
    /// Rows that die.
    pub dead: RoaringTreemap,
    /// What the file still holds afterwards.
    pub held: Vec<Held>,
}

impl FileChange {
    pub(crate) fn of<'a>(
        changes: &'a mut BTreeMap<String, FileChange>,
        entry: &FileEntry,
    ) -> &'a mut FileChange {
        changes
            .entry(entry.path().to_owned())
            .or_insert_with(|| FileChange { dead: RoaringTreemap::new(), held: entry.tags.tensors.clone() })
    }
}

pub(crate) fn removed(entry: &FileEntry, now: i64, data_change: bool) -> Action {
    Action::Remove(Remove {
        path: entry.add.path.clone(),
        deletion_timestamp: Some(now),
        data_change,
        extended_file_metadata: Some(true),
        partition_values: Some(HashMap::new()),
        size: Some(entry.add.size),
        deletion_vector: entry.add.deletion_vector.clone(),
    })
}

/// The first sequence for new rows: the version that writes them, or more where rows that were taken over from
/// elsewhere are ahead of it. New rows always come last.
pub(crate) fn next_sequence(snapshot: &Snapshot) -> u64 {
    let files = snapshot.state(ROW_AXIS).into_iter().flat_map(|state| &state.files);
    let held = files.filter_map(|file| file.held(ROW_AXIS));
    let highest = held.flat_map(|held| &held.sequences).map(|(sequence, _)| *sequence).max();
    highest.map_or(0, |highest| highest.saturating_add(1)).max(snapshot.version + 1)
}

/// Lets a plain table have deletion vectors.
pub(crate) fn enable_vectors(snapshot: &Snapshot, actions: &mut Vec<Action>) {
    if snapshot.deletion_vectors || actions.iter().any(|a| matches!(a, Action::Protocol(_))) {
        return;
    }
    actions.push(Action::Protocol(protocol_action(true)["protocol"].take()));
    let mut metadata = snapshot.metadata.clone();
    metadata["configuration"]["delta.enableDeletionVectors"] = json!("true");
    actions.push(Action::Metadata(metadata));
}

pub(crate) fn added(file: &StagedFile, now: i64, data_change: bool, first_sequence: u64) -> Action {
    let mut tags = file.tags.clone();
    for (sequence, _) in tags.tensors.iter_mut().flat_map(|held| &mut held.sequences) {
        if let Some(after) = sequence.checked_sub(PENDING) {
            *sequence = first_sequence.saturating_add(after);
        }
    }
    Action::Add(Add {
        path: file.path.clone(),
        partition_values: HashMap::new(),
        size: i64::try_from(file.bytes).unwrap_or(i64::MAX),
        modification_time: now,
        data_change,
        stats: file.stats.clone(),
        tags: Some(render_tags(&tags)),
        deletion_vector: file.vector.clone(),
    })
}
