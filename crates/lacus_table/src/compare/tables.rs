//! What changed from one state of a dataset to another.
//!
//! ```text
//! snapshots ─files and vectors→ rows only one has ─→ ids, chunk coordinates ─both sides have it→ compare what is stored
//! ```
//!
//! Files that both states have are equal and never looked at. What both sides have in rows of their own is
//! compared by checksum or value: compaction and writing the same again are no changes.

use lacus_io::boxed;
use std::sync::Arc;

use lacus_layout::Layout;
use roaring::RoaringTreemap;
use serde_json::Value as Json;

use crate::compare::arrays::{cells_are_same, changed_chunks};
use crate::compare::difference::{Content, Difference, Fate, TensorDifference};
use crate::compare::own_rows::{Side, own_rows};
use crate::compare::samples::compare_samples;
use crate::error::TableError;
use crate::log::identity;
use crate::log::snapshot::{HeaderRow, TensorState};
use crate::read::row_index::{RowAxis, live_pieces, with_sequences};
use crate::read::value_column::ValueColumn;
use crate::schema::ROW_AXIS;
use crate::table::{Table, parse_metadata};

impl Table {
    /// What changed from this state to `later`: another version of the table, or a branch's. What is read is in
    /// proportion to what changed.
    #[boxed]
    pub async fn compare(&self, later: &Table) -> Result<Difference, TableError> {
        let sides = [
            Side { table: self, own: own_rows(self, later).await? },
            Side { table: later, own: own_rows(later, self).await? },
        ];
        let (rows_added, deleted) = compare_rows(&sides).await?;
        let mut tensors = Vec::new();
        let (old, new) = (self.snapshot(), later.snapshot());
        for pair in identity::pairs(old, new) {
            let one_sided = |name: &str, state: &TensorState, fate| TensorDifference {
                name: name.to_owned(),
                renamed_from: None,
                is_successor: false,
                is_column: state.header.is_column(),
                fate,
                metadata: false,
                content: Content::Same,
            };
            let states = (
                pair.before.and_then(|name| Some((name, old.tensor(name)?))),
                pair.after.and_then(|name| Some((name, new.tensor(name)?))),
            );
            match states {
                (Some((before, old)), Some((after, new))) => {
                    let headers = [&old.header, &new.header];
                    let found = compare_tensor(&sides, [before, after], headers, &deleted).await?;
                    tensors.extend(
                        found.map(|tensor| TensorDifference { is_successor: pair.by_name, ..tensor }),
                    );
                }
                (Some((name, old)), None) => tensors.push(one_sided(name, old, Fate::Dropped)),
                (None, Some((name, new))) => tensors.push(one_sided(name, new, Fate::Added)),
                (None, None) => {}
            }
        }
        let metadata = self.metadata() != later.metadata();
        Ok(Difference { tensors, rows_added, rows_deleted: deleted.iter().collect(), metadata })
    }
}

/// Rows of the dataset: those added, in their order, and those deleted.
async fn compare_rows(sides: &[Side<'_>; 2]) -> Result<(Vec<u64>, RoaringTreemap), TableError> {
    let mut ids = [RoaringTreemap::new(), RoaringTreemap::new()];
    let mut runs = Vec::new();
    for (is_later, side) in sides.iter().enumerate() {
        let (store, _, cache, _) = side.table.parts();
        for own in side.own.of(ROW_AXIS) {
            let Some(held) = own.entry.held(ROW_AXIS) else { continue };
            let pieces = live_pieces(store, cache, &own.entry, held, None).await?;
            for &(_, first, count) in &pieces {
                ids[is_later].insert_range(first..first + count);
            }
            if is_later == 1 {
                runs.extend(with_sequences(held, pieces));
            }
        }
    }
    let [old, new] = ids;
    let added = &new - &old;
    if added.is_empty() {
        return Ok((Vec::new(), old - new));
    }
    // As the axis itself does: where the order of some rows was lost, that of all is their ids'.
    let state = sides[1].table.snapshot().state(ROW_AXIS);
    let mut held = state.into_iter().flat_map(|state| &state.files).filter_map(|file| file.held(ROW_AXIS));
    if held.any(|held| held.sequences.is_empty()) {
        runs.iter_mut().for_each(|(sequence, ..)| *sequence = 0);
    }
    let twice = || TableError::corrupt(ROW_AXIS, "two rows have the same id");
    let axis = RowAxis::new(runs).ok_or_else(twice)?;
    let ordered = axis.runs().iter().flat_map(|&(_, first, count)| first..first + count);
    Ok((ordered.filter(|id| added.contains(*id)).collect(), old - new))
}

/// How a tensor that both states have differs, if it does.
async fn compare_tensor(
    sides: &[Side<'_>; 2],
    names: [&str; 2],
    headers: [&Arc<HeaderRow>; 2],
    deleted: &RoaringTreemap,
) -> Result<Option<TensorDifference>, TableError> {
    let [old, new] = headers;
    let is_kept = is_same_kind(old, new);
    let metadata = old.metadata != new.metadata
        && parse_metadata(old.metadata.as_deref()) != parse_metadata(new.metadata.as_deref());
    let is_untouched = sides.iter().zip(names).all(|(side, name)| side.own.of(name).is_empty());
    let content = match (old.is_column(), new.is_column()) {
        (true, true) if ValueColumn::of(old)? != ValueColumn::of(new)? => Content::Whole,
        (true, true) if is_untouched => Content::Same,
        (true, true) => compare_samples(sides, names, headers, deleted).await?,
        (false, false) => compare_array(sides, names, headers, is_kept, is_untouched).await?,
        _ => Content::Whole,
    };
    let [before, after] = names;
    let renamed_from = (before != after).then(|| before.to_owned());
    if is_kept && !metadata && content == Content::Same && renamed_from.is_none() {
        return Ok(None);
    }
    Ok(Some(TensorDifference {
        name: after.to_owned(),
        renamed_from,
        is_successor: false,
        is_column: new.is_column(),
        fate: if is_kept { Fate::Kept } else { Fate::Retyped },
        metadata,
        content,
    }))
}

async fn compare_array(
    sides: &[Side<'_>; 2],
    names: [&str; 2],
    headers: [&Arc<HeaderRow>; 2],
    is_kept: bool,
    is_untouched: bool,
) -> Result<Content, TableError> {
    let [old, new] = headers;
    let parsed = new.parse().map_err(TableError::of_tensor(names[1]))?;
    let is_dense = matches!(parsed.layout, Layout::DenseChunks { .. });
    let same_grid = (&old.dtype, &old.layout, &old.chunk_shape, old.shape.len())
        == (&new.dtype, &new.layout, &new.chunk_shape, new.shape.len());
    if !(is_kept || (is_dense && same_grid)) {
        return Ok(Content::Whole);
    }
    if is_untouched {
        return Ok(Content::Same);
    }
    if matches!(parsed.layout, Layout::Coordinates) {
        return Ok(if cells_are_same(sides, names, &parsed).await? { Content::Same } else { Content::Whole });
    }
    let changed = changed_chunks(sides, names, headers).await?;
    Ok(match changed.is_empty() {
        true => Content::Same,
        false if is_dense => Content::Chunks { changed },
        // The chunks of a sparse layout make sense together only.
        false => Content::Whole,
    })
}

/// Whether two headers say the same but for metadata.
pub(crate) fn is_same_kind(old: &HeaderRow, new: &HeaderRow) -> bool {
    // Of an array's parameters some follow from its values: they say nothing of what kind of thing it is. Nor does an id.
    let parameters = |header: &HeaderRow| {
        let mut parameters = serde_json::from_str::<Json>(&header.parameters).ok()?;
        if let Some(object) = parameters.as_object_mut() {
            object.remove(identity::KEY);
            if !header.is_column() {
                object.retain(|key, _| !["reasons", "nnz", "compression"].contains(&key.as_str()));
            }
        }
        Some(parameters)
    };
    (&old.dtype, &old.shape, &old.layout, &old.htype, &old.chunk_shape)
        == (&new.dtype, &new.shape, &new.layout, &new.htype, &new.chunk_shape)
        && (old.parameters == new.parameters || parameters(old) == parameters(new))
}
