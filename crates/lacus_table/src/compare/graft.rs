//! Takes over tensors, chunks, samples and rows from another state of the dataset, as they are stored.
//!
//! ```text
//! Graft ─find in the source→ rows of its files ─all of a chunk file→ the file, linked
//!                                              └─some of a file────→ copied, not decoded
//!       ─what they replace─→ superseded rows, write set ─→ one version
//! ```

use lacus_io::boxed;
use std::collections::{BTreeMap, BTreeSet};

use lacus_layout::{Coords, chunk_extent};
use roaring::RoaringTreemap;
use serde_json::Value as Json;

use crate::compare::adopt::{TakenRows, adopt};
use crate::compare::difference::Graft;
use crate::compare::own_rows::{entry_of, held_among};
use crate::compare::tables::is_same_kind;
use crate::error::TableError;
use crate::files::chunk_file::StagedFile;
use crate::log::deletion;
use crate::log::held::PENDING;
use crate::log::identity::{identified, identity};
use crate::log::snapshot::{HeaderRow, TensorState};
use crate::read::row_index::RowAxis;
use crate::read::tensor_index::live_runs;
use crate::read::value_column::ValueColumn;
use crate::schema::{DATASET_ROW, ROW_AXIS};
use crate::table::Table;
use crate::table::rows::runs;
use crate::write::commit::{Staged, Supersede};
use crate::write::copy_rows::{Copied, copy_between};
use crate::write::copy_samples::Origin;
use crate::write::stage::WriteOptions;
use crate::write::stage_rows::{RowJobs, write_rows};
use crate::write::write_set::{Scope, WriteSet, Written};

impl Table {
    /// Takes over what `graft` lists from `source`, another version or branch of the same dataset, in one version.
    /// Samples of rows that this table does not have (and does not get) are left out.
    #[boxed]
    pub async fn graft(
        &mut self,
        source: &Table,
        graft: &Graft,
        op: &'static str,
        detail: Json,
        options: &WriteOptions,
    ) -> Result<u64, TableError> {
        self.writable().await?;
        if graft.is_empty() {
            return Ok(self.version());
        }
        let plan = Plan::new(self, source, graft).await?;
        let Plan { supersede, writes, .. } = &plan;
        let (supersede, writes) =
            (supersede.clone(), WriteSet { tensors: writes.clone(), everything: false });
        let mut files = Vec::new();
        if let Err(error) = self.stage_graft(source, plan, &mut files, options).await {
            // Unseen files are harmless; removing them is a courtesy that may fail.
            let vectors = files.iter().filter_map(|f| f.vector.as_ref().and_then(deletion::file_path));
            let new = files.iter().filter(|f| !f.is_old).map(|f| f.path.clone());
            let _ = self.store().remove(new.chain(vectors).collect()).await;
            return Err(error);
        }
        let staged = Staged { op, files, supersede, writes, detail, data_change: true };
        self.commit(staged, options).await
    }

    /// Makes the files of a graft.
    async fn stage_graft(
        &self,
        source: &Table,
        mut plan: Plan,
        files: &mut Vec<StagedFile>,
        options: &WriteOptions,
    ) -> Result<(), TableError> {
        let mut entries = Vec::new();
        let mut copied: BTreeSet<String> = BTreeSet::new();
        let with_header: BTreeSet<String> = plan.headers.keys().cloned().collect();
        let names = std::mem::take(&mut plan.names);
        let here = |there: &str| names.get(there).map_or(there, String::as_str).to_owned();
        for (path, taken) in &plan.taken {
            if options.cancelled() {
                return Err(TableError::Cancelled);
            }
            let Some(entry) = source.snapshot().files.get(path) else { continue };
            // A file says the names of what it holds.
            let is_renamed = taken.keys().any(|name| names.contains_key(name));
            let adopted = match is_renamed {
                true => None,
                false => adopt(self, source, entry, taken, &with_header).await?,
            };
            if let Some(file) = adopted {
                let brought = file.tags.tensors.iter().filter(|held| held.header.is_some());
                brought.for_each(|held| drop(plan.headers.remove(&held.name)));
                files.push(file);
                continue;
            }
            let held = entry.tags.tensors.iter();
            let held: Vec<_> = held.filter_map(|held| held_among(held, taken.get(&held.name)?)).collect();
            copied.extend(held.iter().map(|held| held.name.clone()));
            entries.push(entry_of(entry, held));
        }
        if !plan.headers.is_empty() || !plan.axis.is_empty() {
            let mut new_rows: Vec<u64> = plan.axis.iter().flat_map(|(_, ids)| ids).copied().collect();
            new_rows.sort_unstable();
            let headers = plan.headers.into_iter().collect();
            let jobs = RowJobs { headers, writes: Vec::new(), axis: plan.axis };
            let mut written = write_rows(self.store(), self.world(), jobs, options).await?;
            for file in written.iter_mut().filter(|f| f.tags.tensors.iter().any(|h| h.name == ROW_AXIS)) {
                file.new_rows = Some(runs(&new_rows));
            }
            files.extend(written);
        }
        if entries.is_empty() {
            return Ok(());
        }
        let (store, _, cache, snapshot) = source.parts();
        let origin = Origin {
            store,
            cache,
            snapshot: &snapshot.with_files(entries),
            axis: Some(source.rows().await?),
        };
        let copied = copied.into_iter();
        let copied = copied.map(|name| Copied { new_name: here(&name), name, header: None, only: None });
        let copied: Vec<Copied> = copied.collect();
        files.extend(copy_between(&origin, self.store(), self.world(), &copied, options).await?);
        Ok(())
    }
}

/// What a graft comes to.
#[derive(Default)]
struct Plan {
    /// Header rows to write, by tensor.
    headers: BTreeMap<String, HeaderRow>,
    /// New rows of the dataset with their sequences.
    axis: Vec<(u64, Vec<u64>)>,
    /// Rows to take, by file of the source.
    taken: BTreeMap<String, TakenRows>,
    supersede: Vec<Supersede>,
    writes: Vec<Written>,
    /// Names here of tensors that are called otherwise in the source, by their names there.
    names: BTreeMap<String, String>,
}

impl Plan {
    async fn new(table: &Table, source: &Table, graft: &Graft) -> Result<Plan, TableError> {
        let names = graft.names.iter().map(|(here, there)| (there.clone(), here.clone())).collect();
        let mut plan = Plan { names, ..Plan::default() };
        for name in &graft.drop {
            plan.supersede.push(Supersede::Tensor(name.clone()));
            plan.writes(name, Scope::Whole);
        }
        let added: RoaringTreemap = graft.rows_added.iter().copied().collect();
        let deleted: RoaringTreemap = graft.rows_deleted.iter().copied().collect();
        if added.len() != graft.rows_added.len() as u64 {
            return Err(TableError::refused("graft", "a row is to be added twice"));
        }
        let axis = table.rows().await?;
        let is_row = |id: u64| added.contains(id) || (axis.position(id).is_some() && !deleted.contains(id));
        for name in &graft.whole {
            plan.take_whole(source, [name, graft.there(name)], is_row).await?;
        }
        for name in &graft.headers {
            let (ours, theirs) = both(table, source, [name, graft.there(name)])?;
            check_header(table, graft, name, ours, theirs).await?;
            // Whoever is there stays who it is.
            let id = identity(name, &ours.header);
            plan.headers.insert(name.clone(), identified((*theirs.header).clone(), &id));
            plan.supersede.push(Supersede::Header(name.clone()));
            plan.writes(name, Scope::Whole);
        }
        for (name, chunks) in graft.chunks.iter().filter(|(_, chunks)| !chunks.is_empty()) {
            let (ours, theirs) = both(table, source, [name, graft.there(name)])?;
            check_grid(name, ours, theirs, graft.headers.contains(name))?;
            plan.take_chunks(source, [name, graft.there(name)], chunks).await?;
        }
        for (name, ids) in &graft.samples {
            let (ours, theirs) = both(table, source, [name, graft.there(name)])?;
            if ValueColumn::of(&ours.header)? != ValueColumn::of(&theirs.header)? {
                return Err(unfit(name, "its samples are kept in another form"));
            }
            let mut ids: Vec<u64> = ids.iter().copied().filter(|id| is_row(*id)).collect();
            ids.sort_unstable();
            plan.take_samples(source, [name, graft.there(name)], ids, &added).await?;
        }
        if !(added.is_empty() && deleted.is_empty()) {
            let touched: Vec<u64> = (&added | &deleted).iter().collect();
            plan.writes(ROW_AXIS, Scope::of_rows(runs(&touched)));
        }
        if !deleted.is_empty() {
            plan.supersede.push(Supersede::Rows(deleted.iter().collect()));
        }
        plan.axis = match graft.rows_return {
            true => returned(&*source.rows().await?, &axis, &added)?,
            false => last_in_order(&graft.rows_added),
        };
        if graft.metadata {
            plan.headers.insert(DATASET_ROW.to_owned(), HeaderRow::of_dataset(&source.metadata()));
            plan.supersede.push(Supersede::Header(DATASET_ROW.to_owned()));
            plan.writes(DATASET_ROW, Scope::Whole);
        }
        Ok(plan)
    }

    fn writes(&mut self, name: &str, scope: Scope) {
        self.writes.push(Written { tensor: name.to_owned(), scope });
    }

    fn take(&mut self, path: &str, name: &str) -> &mut RoaringTreemap {
        let file = self.taken.entry(path.to_owned()).or_default();
        file.entry(name.to_owned()).or_default()
    }

    async fn take_whole(
        &mut self,
        source: &Table,
        [name, there]: [&str; 2],
        is_row: impl Fn(u64) -> bool,
    ) -> Result<(), TableError> {
        let (store, _, cache, snapshot) = source.parts();
        let state = snapshot.tensor(there).ok_or_else(|| source.no_such(there))?;
        // A tensor without an id is who its name there says.
        let id = identity(there, &state.header);
        let header =
            if name == there { (*state.header).clone() } else { identified((*state.header).clone(), &id) };
        self.headers.insert(name.to_owned(), header);
        self.supersede.push(Supersede::Tensor(name.to_owned()));
        self.writes(name, Scope::Whole);
        if !state.header.is_column() {
            for entry in &state.files {
                let dead = cache.deleted(store, entry).await?;
                let rows = entry.held(there).map(|held| held.rows.as_slice()).unwrap_or_default();
                for (first, count) in live_runs(rows, dead.as_deref()) {
                    self.take(entry.path(), there).insert_range(first..first + count);
                }
            }
            return Ok(());
        }
        let index = source.row_cache().column(store, snapshot, there).await?;
        let mut ids = RoaringTreemap::new();
        for segment in &index.segments {
            let path = index.files[segment.file as usize].path();
            for at in (0..segment.count).filter(|at| is_row(segment.first_id + at)) {
                self.take(path, there).insert(segment.first_row + at);
                ids.insert(segment.first_id + at);
            }
        }
        // A row that is deleted meanwhile must not have a sample here.
        let ids: Vec<u64> = ids.iter().collect();
        self.writes(name, Scope::of_rows(runs(&ids)));
        Ok(())
    }

    async fn take_chunks(
        &mut self,
        source: &Table,
        [name, there]: [&str; 2],
        chunks: &[Coords],
    ) -> Result<(), TableError> {
        let (store, _, cache, snapshot) = source.parts();
        let index = cache.tensor(store, snapshot, there).await?;
        for place in chunks.iter().filter_map(|coords| index.chunks.find(coords)).map(|i| index.places[i]) {
            self.take(&index.files[place.file as usize].path, there).insert(place.row);
        }
        self.supersede.push(Supersede::Chunks(name.to_owned(), chunks.to_vec()));
        self.writes(name, Scope::of_chunks(chunks));
        Ok(())
    }

    /// Takes samples of rows, those of new rows (`added`) among them.
    async fn take_samples(
        &mut self,
        source: &Table,
        [name, there]: [&str; 2],
        ids: Vec<u64>,
        added: &RoaringTreemap,
    ) -> Result<(), TableError> {
        if ids.is_empty() {
            return Ok(());
        }
        let index = source.row_cache().column(source.store(), source.snapshot(), there).await?;
        for (file, row) in ids.iter().flat_map(|id| index.places(*id)) {
            self.take(index.files[file as usize].path(), there).insert(row);
        }
        self.writes(name, Scope::of_rows(runs(&ids)));
        let old: Vec<u64> = ids.into_iter().filter(|id| !added.contains(*id)).collect();
        if !old.is_empty() {
            self.supersede.push(Supersede::Samples(name.to_owned(), old));
        }
        Ok(())
    }
}

/// A tensor as it is here and in the source, which must be the same sort of thing.
fn both<'a>(
    table: &'a Table,
    source: &'a Table,
    [name, there]: [&str; 2],
) -> Result<(&'a TensorState, &'a TensorState), TableError> {
    let ours = table.snapshot().tensor(name).ok_or_else(|| table.no_such(name))?;
    let theirs = source.snapshot().tensor(there).ok_or_else(|| source.no_such(there))?;
    match ours.header.is_column() == theirs.header.is_column() {
        true => Ok((ours, theirs)),
        false => Err(unfit(name, "only one of the two is a column")),
    }
}

fn unfit(name: &str, why: &str) -> TableError {
    TableError::refused("graft", format!("tensor {name:?} can only be taken whole: {why}"))
}

/// Whether what is here can be read by the header of the source.
async fn check_header(
    table: &Table,
    graft: &Graft,
    name: &str,
    ours: &TensorState,
    theirs: &TensorState,
) -> Result<(), TableError> {
    if is_same_kind(&ours.header, &theirs.header) {
        return Ok(());
    }
    if ours.header.is_column() {
        return match ValueColumn::of(&ours.header)? == ValueColumn::of(&theirs.header)? {
            true => Ok(()),
            false => Err(unfit(name, "its samples are kept in another form")),
        };
    }
    check_grid(name, ours, theirs, true)?;
    let (store, _, cache, snapshot) = table.parts();
    let index = cache.tensor(store, snapshot, name).await?;
    let header = theirs.header.parse().map_err(TableError::of_tensor(name))?;
    let replaced: BTreeSet<&Coords> =
        graft.chunks.iter().filter(|(of, _)| of == name).flat_map(|(_, chunks)| chunks).collect();
    for coords in (0..index.chunks.len()).map(|i| index.chunks.coords(i)) {
        let extent = |header| chunk_extent(header, &coords).ok().map(|(_, extent)| extent);
        if extent(&index.header) != extent(&header) && !replaced.contains(&coords) {
            return Err(unfit(name, "a chunk that is kept does not fit the other shape"));
        }
    }
    Ok(())
}

/// Whether chunks of the source can take the place of chunks that are here.
fn check_grid(
    name: &str,
    ours: &TensorState,
    theirs: &TensorState,
    takes_header: bool,
) -> Result<(), TableError> {
    let (a, b) = (&ours.header, &theirs.header);
    let header = b.parse().map_err(TableError::of_tensor(name))?;
    if header.layout.is_sparse() {
        return Err(unfit(name, "its layout is sparse"));
    }
    if (&a.dtype, &a.layout, &a.chunk_shape) != (&b.dtype, &b.layout, &b.chunk_shape) {
        return Err(unfit(name, "it is cut into other chunks"));
    }
    if a.shape != b.shape && !takes_header {
        return Err(unfit(name, "it has another shape"));
    }
    Ok(())
}

/// New rows behind all others: those whose ids ascend share a sequence.
fn last_in_order(ids: &[u64]) -> Vec<(u64, Vec<u64>)> {
    let mut runs: Vec<(u64, Vec<u64>)> = Vec::new();
    for &id in ids {
        let next = PENDING + runs.len() as u64;
        match runs.last_mut() {
            Some((_, run)) if run.last().is_some_and(|last| *last < id) => run.push(id),
            _ => runs.push((next, vec![id])),
        }
    }
    runs
}

/// Rows that are `there` and come back `here`, with the sequences they have there. Where a compaction gave the rows
/// around them others since, they get those that put them between the same neighbours.
fn returned(
    there: &RowAxis,
    here: &RowAxis,
    ids: &RoaringTreemap,
) -> Result<Vec<(u64, Vec<u64>)>, TableError> {
    if let Some(id) = ids.iter().find(|id| there.position(*id).is_none()) {
        return Err(TableError::refused("graft", format!("the source has no row {id}")));
    }
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = there
        .runs()
        .iter()
        .flat_map(|&(sequence, first, count)| (first..first + count).map(move |id| (sequence, id)));
    let mut order: Vec<(u64, u64)> = Vec::new();
    let mut known: Vec<(u64, u64)> = Vec::new();
    for (sequence, id) in rows {
        match here.sequence(id).filter(|_| !ids.contains(id)) {
            Some(sequence) => known.push((sequence, id)),
            None if !ids.contains(id) => continue,
            None => {}
        }
        order.push((sequence, id));
    }
    // Rows that were merged in stand elsewhere than there: they are nobody's neighbours.
    let neighbours: BTreeMap<u64, u64> =
        longest_ascent(&known).into_iter().map(|(sequence, id)| (id, sequence)).collect();
    order.retain(|(_, id)| ids.contains(*id) || neighbours.contains_key(id));
    let place = |id: u64| neighbours.get(&id).map(|sequence| (*sequence, id));
    let mut limits = vec![None; order.len()];
    let mut limit = None;
    for (slot, &(_, id)) in limits.iter_mut().zip(&order).rev() {
        *slot = limit;
        limit = place(id).or(limit);
    }
    let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut before = None;
    for (&(sequence, id), limit) in order.iter().zip(limits) {
        if let Some(known) = place(id) {
            before = Some(known);
            continue;
        }
        let beside =
            [before.map(|(s, _)| s), limit.map(|(s, _)| s), before.map(|(s, _)| s.saturating_add(1))];
        let fits = |s: &u64| Some((*s, id)) > before && limit.is_none_or(|limit| (*s, id) < limit);
        let mut choices = std::iter::once(sequence).chain(beside.into_iter().flatten());
        let chosen = choices.find(fits).unwrap_or(sequence);
        before = Some((chosen, id));
        found.entry(chosen).or_default().push(id);
    }
    found.values_mut().for_each(|ids| ids.sort_unstable());
    Ok(found.into_iter().collect())
}

/// The longest part of a list, elements left out, that ascends.
fn longest_ascent(keys: &[(u64, u64)]) -> Vec<(u64, u64)> {
    // For each length, the element with which the lowest ascent of it ends; for each element, the one before.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(keys.len());
    for (i, key) in keys.iter().enumerate() {
        let length = ends.partition_point(|end| keys[*end] < *key);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = i,
            None => ends.push(i),
        }
    }
    let mut ascent: Vec<(u64, u64)> = Vec::with_capacity(ends.len());
    let mut at = ends.last().copied();
    while let Some(i) = at {
        ascent.push(keys[i]);
        at = before[i];
    }
    ascent.reverse();
    ascent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_ascend_share_a_sequence() {
        let expected = [(PENDING, vec![5, 6, 9]), (PENDING + 1, vec![2, 7]), (PENDING + 2, vec![1])];
        assert_eq!(last_in_order(&[5, 6, 9, 2, 7, 1]), expected);
        assert!(last_in_order(&[]).is_empty());
    }

    #[test]
    fn the_longest_ascent_is_found() {
        let keys = |list: &[u64]| list.iter().map(|key| (*key, 0)).collect::<Vec<_>>();
        assert_eq!(longest_ascent(&keys(&[1, 2, 90, 3, 91, 4, 5])), keys(&[1, 2, 3, 4, 5]));
        assert_eq!(longest_ascent(&keys(&[7, 8, 9])), keys(&[7, 8, 9]));
        assert!(longest_ascent(&[]).is_empty());
    }

    #[test]
    fn rows_return_to_their_places() {
        let axis = RowAxis::new(vec![(4, 10, 5), (7, 0, 3)]).unwrap();
        let ids = RoaringTreemap::from_iter([1, 11, 14]);
        let rest = RowAxis::new(vec![(4, 10, 1), (4, 12, 2), (7, 0, 1), (7, 2, 1)]).unwrap();
        assert_eq!(returned(&axis, &rest, &ids).unwrap(), [(4, vec![11, 14]), (7, vec![1])]);
        assert!(returned(&axis, &rest, &RoaringTreemap::from_iter([9])).is_err());
        // What was left of them was compacted: rows 0, 20 and 30 share a sequence now.
        let axis = RowAxis::new(vec![(2, 0, 1), (3, 15, 1), (5, 20, 1), (6, 4, 1), (8, 30, 1)]).unwrap();
        let rest = RowAxis::new(vec![(2, 0, 1), (2, 20, 1), (2, 30, 1)]).unwrap();
        let ids = RoaringTreemap::from_iter([15]);
        assert_eq!(returned(&axis, &rest, &ids).unwrap(), [(2, vec![15])]);
    }
}
