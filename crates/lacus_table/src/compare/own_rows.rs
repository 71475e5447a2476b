//! Which rows only one of two states of a dataset has, told by files and deletion vectors alone.
//!
//! ```text
//! same file, same vector     nothing
//! same file, other vectors   rows alive here and dead there
//! file only here             its live rows
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use lacus_io::Store;
use roaring::RoaringTreemap;

use crate::error::TableError;
use crate::log::actions::Add;
use crate::log::deletion::{self, Descriptor};
use crate::log::held::extend_run;
use crate::log::snapshot::{FileEntry, FileTags, HeaderRow, Held, TensorState};
use crate::read::row_index::{Piece, with_sequences, without_dead, zip_runs};
use crate::table::Table;

/// Rows of one tensor in one file.
#[derive(Debug)]
pub(crate) struct OwnFile {
    /// The file as if it held these rows and nothing else.
    pub entry: Arc<FileEntry>,
    /// Whether the other state has the file too, with other rows alive.
    pub is_shared: bool,
    /// Rows of the whole file.
    pub file_rows: u64,
}

/// The rows that one state has and another has not, by tensor.
#[derive(Debug, Default)]
pub(crate) struct OwnRows {
    tensors: BTreeMap<String, Vec<OwnFile>>,
}

/// One of two states that are compared: the table, and the rows that the other has not.
pub(crate) struct Side<'a> {
    pub table: &'a Table,
    pub own: OwnRows,
}

impl OwnRows {
    /// Those of one tensor, header rows left out.
    pub(crate) fn of(&self, name: &str) -> &[OwnFile] {
        self.tensors.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// A tensor that has these rows only.
    pub(crate) fn state(&self, name: &str, header: &Arc<HeaderRow>) -> TensorState {
        let files = self.of(name).iter().map(|own| Arc::clone(&own.entry)).collect();
        TensorState::new(Arc::clone(header), files)
    }
}

/// The rows that `table` has and `other` has not.
pub(crate) async fn own_rows(table: &Table, other: &Table) -> Result<OwnRows, TableError> {
    let (store, _, cache, snapshot) = table.parts();
    let (other_store, _, other_cache, other_snapshot) = other.parts();
    let mut theirs: HashMap<String, &Arc<FileEntry>> = HashMap::with_capacity(other_snapshot.files.len());
    for entry in other_snapshot.files.values() {
        theirs.insert(other_store.outer_path(entry.path())?, entry);
    }
    let mut own = OwnRows::default();
    for entry in snapshot.files.values() {
        let twin = theirs.get(&store.outer_path(entry.path())?).copied();
        if let Some(twin) = twin
            && vector_id(store, entry.deletions())? == vector_id(other_store, twin.deletions())?
        {
            continue;
        }
        cache.prove_all(store, std::slice::from_ref(entry)).await?;
        let dead = cache.deleted(store, entry).await?;
        let only = match twin {
            None => None,
            Some(twin) => {
                let mut only = match other_cache.deleted(other_store, twin).await? {
                    Some(dead) => dead.as_ref().clone(),
                    None => RoaringTreemap::new(),
                };
                if let Some(dead) = &dead {
                    only -= dead.as_ref();
                }
                Some(only)
            }
        };
        if only.as_ref().is_some_and(RoaringTreemap::is_empty) {
            continue;
        }
        let file_rows = entry.tags.tensors.iter().map(Held::row_count).sum();
        for held in &entry.tags.tensors {
            let kept = match &only {
                Some(only) => held_among(held, only),
                None => thinned(held, |pieces| without_dead(pieces, dead.as_deref())),
            };
            let Some(kept) = kept else { continue };
            let file = OwnFile {
                entry: Arc::new(entry_of(entry, vec![kept])),
                is_shared: only.is_some(),
                file_rows,
            };
            own.tensors.entry(held.name.clone()).or_default().push(file);
        }
    }
    Ok(own)
}

/// What tells a deletion vector from others, wherever the tables that name it have their roots.
fn vector_id(
    store: &Store,
    descriptor: Option<&Descriptor>,
) -> Result<Option<(String, Option<i32>)>, TableError> {
    let Some(descriptor) = descriptor else { return Ok(None) };
    let place = match deletion::file_path(descriptor) {
        Some(path) => store.outer_path(&path)?,
        None => descriptor.path_or_inline_dv.clone(),
    };
    Ok(Some((place, descriptor.offset)))
}

/// A file as if it held `tensors` and no row of them were dead.
pub(crate) fn entry_of(entry: &FileEntry, tensors: Vec<Held>) -> FileEntry {
    let add = Add {
        path: entry.add.path.clone(),
        partition_values: HashMap::new(),
        size: entry.add.size,
        modification_time: entry.add.modification_time,
        data_change: entry.add.data_change,
        stats: None,
        tags: None,
        deletion_vector: None,
    };
    let FileTags { kind, revision, tail, tail_crc, .. } = entry.tags;
    FileEntry { add, tags: FileTags { kind, revision, tail, tail_crc, deleted: 0, tensors } }
}

/// What is held of a tensor in the rows of `only`; `None` if that is nothing.
pub(crate) fn held_among(held: &Held, only: &RoaringTreemap) -> Option<Held> {
    thinned(held, |pieces| among(pieces, only))
}

fn thinned(held: &Held, thin: impl FnOnce(Vec<Piece>) -> Vec<Piece>) -> Option<Held> {
    // Where the tags do not say ids, row numbers stand in for them.
    let has_ids = !held.ids.is_empty();
    let kept = thin(zip_runs(&held.rows, if has_ids { &held.ids } else { &held.rows }));
    if kept.is_empty() {
        return None;
    }
    let mut thin = Held { bytes: held.bytes, span: held.span, ..Held::new(&held.name) };
    for &(row, id, count) in &kept {
        extend_run(&mut thin.rows, row, count);
        if has_ids {
            extend_run(&mut thin.ids, id, count);
        }
    }
    if !held.sequences.is_empty() {
        let sequences = with_sequences(held, kept);
        thin.sequences = sequences.into_iter().map(|(sequence, _, count)| (sequence, count)).collect();
    }
    Some(thin)
}

/// The parts of `pieces` whose rows are among `only`.
fn among(pieces: Vec<Piece>, only: &RoaringTreemap) -> Vec<Piece> {
    let mut found: Vec<Piece> = Vec::new();
    let mut rows = only.iter().peekable();
    for (first, id, count) in pieces {
        while rows.next_if(|row| *row < first).is_some() {}
        while let Some(row) = rows.next_if(|row| *row < first + count) {
            let at = id + (row - first);
            match found.last_mut() {
                // Ids go on where rows do, within a piece.
                Some((start, first_id, length)) if *start >= first && *start + *length == row => {
                    debug_assert_eq!(*first_id + *length, at);
                    *length += 1;
                }
                _ => found.push((row, at, 1)),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_ids_and_sequences() {
        let mut held = Held::new("x");
        held.rows = vec![(1, 4), (10, 3)];
        held.ids = vec![(50, 5), (90, 2)];
        held.sequences = vec![(3, 2), (8, 5)];
        let thin = held_among(&held, &RoaringTreemap::from_iter([2, 3, 10, 11, 30])).unwrap();
        assert_eq!(thin.rows, [(2, 2), (10, 2)]);
        assert_eq!(thin.ids, [(51, 2), (54, 1), (90, 1)]);
        assert_eq!(thin.sequences, [(3, 1), (8, 1), (8, 1), (8, 1)]);
        assert!(held_among(&held, &RoaringTreemap::from_iter([0, 5, 9, 13])).is_none());
        held.ids.clear();
        let thin = held_among(&held, &RoaringTreemap::from_iter([4, 10])).unwrap();
        assert_eq!((thin.rows, thin.ids), (vec![(4, 1), (10, 1)], vec![]));
    }
}
