//! Where the samples of a column lie, and which rows the dataset has, in order.
//!
//! ```text
//! tags: rows (first, count), ids (first, count)  ─zip→ pieces ─without dead rows→ segments, sorted by id
//! ```

use std::sync::Arc;

use lacus_io::Store;
use roaring::RoaringTreemap;

use crate::error::TableError;
use crate::log::content_key::{file_key, held_key, state_key};
use crate::log::held::extend_run;
use crate::log::snapshot::{FileEntry, FileKind, HeaderRow, Held, Snapshot, TensorState};
use crate::read::cells::read_verified;
use crate::read::tensor_index::{Cache, all, long_column};
use crate::read::value_column::ValueColumn;
use crate::schema::{ROW_AXIS, column};

/// Rows of one file with consecutive ids, all alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub first_id: u64,
    pub count: u64,
    pub file: u32,
    pub first_row: u64,
}

/// Names for what is cached of a file.
#[derive(Debug)]
pub(crate) struct FileKeys {
    /// Of the whole file.
    pub file: String,
    /// Of the column's rows in it.
    pub rows: String,
}

/// One column, ready to be read.
#[derive(Debug)]
pub(crate) struct ColumnIndex {
    pub name: String,
    pub header: Arc<HeaderRow>,
    pub files: Vec<Arc<FileEntry>>,
    /// Names for what is cached of each file.
    pub file_keys: Vec<FileKeys>,
    /// Which column of the table holds the samples; `None` for the rows themselves.
    pub form: Option<ValueColumn>,
    /// Sorted by id. The tiles of one sample are segments of one row each, next to each other.
    pub segments: Vec<Segment>,
}

impl ColumnIndex {
    /// The rows (file, row) that hold the sample of `id`: none when it is missing, several for tiles.
    pub(crate) fn places(&self, id: u64) -> impl Iterator<Item = (u32, u64)> {
        let end = self.segments.partition_point(|s| s.first_id <= id);
        let start = self.segments[..end].partition_point(|s| s.first_id + s.count <= id);
        self.segments[start..end].iter().map(move |s| (s.file, s.first_row + (id - s.first_id)))
    }

    /// Calls `take` with where rows lie (file, first row) and how many do so one after the other, in the order of the ids,
    /// which come as runs (first id, count); with `None` for rows that have no sample. For columns that have one row a sample.
    pub(crate) fn spans(&self, ids: &[(u64, u64)], mut take: impl FnMut(Option<(u32, u64)>, u64)) {
        let segments = &self.segments;
        let mut at = 0;
        for &(first, count) in ids {
            let (mut id, end) = (first, first + count);
            // Often an id is in the segment of the one before.
            if !segments.get(at).is_some_and(|s| s.first_id <= id && id - s.first_id < s.count) {
                at = segments.partition_point(|s| s.first_id + s.count <= id);
            }
            while id < end {
                let Some(segment) = segments.get(at).filter(|s| s.first_id < end) else {
                    take(None, end - id);
                    break;
                };
                if segment.first_id > id {
                    take(None, segment.first_id - id);
                    id = segment.first_id;
                }
                let step = (segment.first_id + segment.count).min(end) - id;
                take(Some((segment.file, segment.first_row + (id - segment.first_id))), step);
                id += step;
                at += usize::from(id < end);
            }
        }
    }

    /// The files that hold samples of these ids, ascending.
    pub(crate) fn files_of(&self, ids: &[(u64, u64)]) -> Vec<u32> {
        let mut files: Vec<u32> = Vec::new();
        self.spans(ids, |place, _| {
            if let Some((file, _)) = place
                && files.last() != Some(&file)
            {
                files.push(file);
            }
        });
        files.sort_unstable();
        files.dedup();
        files
    }

    fn memory_bytes(&self) -> u64 {
        let keys: usize = self.file_keys.iter().map(|key| key.file.len() + key.rows.len() + 64).sum();
        (self.segments.len() * size_of::<Segment>() + keys + 256) as u64
    }

    /// How many samples of each file are alive; tiles count one by one.
    pub(crate) fn live_rows(&self) -> Vec<u64> {
        let mut live = vec![0; self.files.len()];
        self.segments.iter().for_each(|s| live[s.file as usize] += s.count);
        live
    }
}

/// The rows of a dataset in their order: position to id and back.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RowAxis {
    /// Runs (sequence, first id, count) in the order of positions.
    runs: Vec<(u64, u64, u64)>,
    /// The position at which each run begins, and the end.
    starts: Vec<u64>,
    /// (first id, run) sorted by id.
    by_id: Vec<(u64, u32)>,
}

impl RowAxis {
    /// Orders runs; `None` if an id is there twice.
    pub(crate) fn new(mut runs: Vec<(u64, u64, u64)>) -> Option<RowAxis> {
        runs.sort_unstable();
        let mut joined: Vec<(u64, u64, u64)> = Vec::with_capacity(runs.len());
        for (sequence, first, count) in runs {
            match joined.last_mut() {
                Some((same, start, length)) if *same == sequence && *start + *length == first => {
                    *length += count;
                }
                _ => joined.push((sequence, first, count)),
            }
        }
        let mut starts = Vec::with_capacity(joined.len() + 1);
        let mut next = 0;
        for (_, _, count) in &joined {
            starts.push(next);
            next += count;
        }
        starts.push(next);
        let mut by_id: Vec<(u64, u32)> = joined.iter().map(|run| run.1).zip(0..).collect();
        by_id.sort_unstable();
        let count = |run: u32| joined[run as usize].2;
        let apart = by_id.windows(2).all(|pair| pair[0].0 + count(pair[0].1) <= pair[1].0);
        apart.then_some(RowAxis { runs: joined, starts, by_id })
    }

    /// Whether one of `count` ids from `first` on is a row's.
    pub(crate) fn overlaps(&self, first: u64, count: u64) -> bool {
        let end = self.by_id.partition_point(|(id, _)| *id < first.saturating_add(count));
        let Some((id, run)) = end.checked_sub(1).map(|at| self.by_id[at]) else { return false };
        id + self.runs[run as usize].2 > first
    }

    /// How many rows there are.
    pub fn len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id of the row at a position.
    pub fn id(&self, position: u64) -> Option<u64> {
        if position >= self.len() {
            return None;
        }
        let run = self.starts.partition_point(|start| *start <= position) - 1;
        Some(self.runs[run].1 + (position - self.starts[run]))
    }

    /// Where the row with this id is.
    pub fn position(&self, id: u64) -> Option<u64> {
        let at = self.by_id.partition_point(|(first, _)| *first <= id).checked_sub(1)?;
        let (first, run) = self.by_id[at];
        let within = id - first;
        (within < self.runs[run as usize].2).then(|| self.starts[run as usize] + within)
    }

    /// The first of `count` ids from `first` on that is no row's; `None` if all are.
    pub fn absent(&self, first: u64, count: u64) -> Option<u64> {
        let (mut id, end) = (first, first.saturating_add(count));
        while id < end {
            let at = self.by_id.partition_point(|(first, _)| *first <= id).checked_sub(1);
            let Some((first, run)) = at.map(|at| self.by_id[at]) else { return Some(id) };
            let next = first + self.runs[run as usize].2;
            if next <= id {
                return Some(id);
            }
            id = next;
        }
        None
    }

    /// The sequence of the row with this id.
    pub(crate) fn sequence(&self, id: u64) -> Option<u64> {
        let at = self.by_id.partition_point(|(first, _)| *first <= id).checked_sub(1)?;
        let (first, run) = self.by_id[at];
        let (sequence, _, count) = self.runs[run as usize];
        (id - first < count).then_some(sequence)
    }

    /// The ids at `positions`, as runs (first, count) in their order.
    pub fn id_runs(&self, positions: std::ops::Range<u64>) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        let mut at = positions.start;
        let end = positions.end.min(self.len());
        while at < end {
            let run = self.starts.partition_point(|start| *start <= at) - 1;
            let count = self.starts[run + 1].min(end) - at;
            found.push((self.runs[run].1 + (at - self.starts[run]), count));
            at += count;
        }
        found
    }

    /// Runs (sequence, first id, count) in the order of positions.
    pub(crate) fn runs(&self) -> &[(u64, u64, u64)] {
        &self.runs
    }
}

/// Rows of a file: (first row, first id, count), in the order of rows.
pub(crate) type Piece = (u64, u64, u64);

/// Joins runs of rows with the runs of their ids.
pub(crate) fn zip_runs(rows: &[(u64, u64)], ids: &[(u64, u64)]) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(rows.len().max(ids.len()));
    let mut ids = ids.iter().copied();
    let (mut id, mut left) = (0, 0);
    for &(mut row, mut count) in rows {
        while count > 0 {
            if left == 0 {
                let Some(next) = ids.next() else { return pieces };
                (id, left) = next;
                continue;
            }
            let step = count.min(left);
            pieces.push((row, id, step));
            (row, id, count, left) = (row + step, id + step, count - step, left - step);
        }
    }
    pieces
}

/// The parts of `pieces` whose rows are not deleted.
pub(crate) fn without_dead(pieces: Vec<Piece>, deleted: Option<&RoaringTreemap>) -> Vec<Piece> {
    let Some(deleted) = deleted else { return pieces };
    let mut live = Vec::with_capacity(pieces.len());
    let mut dead = deleted.iter().peekable();
    for (first, id, count) in pieces {
        let end = first + count;
        let mut from = first;
        while dead.next_if(|row| *row < first).is_some() {}
        while let Some(row) = dead.next_if(|row| *row < end) {
            if row > from {
                live.push((from, id + (from - first), row - from));
            }
            from = row + 1;
        }
        if from < end {
            live.push((from, id + (from - first), end - from));
        }
    }
    live
}

/// Sets the tiles of a sample, rows with the same id next to each other, apart from the samples beside it.
fn with_tiles_apart(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut apart: Vec<Piece> = Vec::with_capacity(pieces.len());
    for (row, id, count) in pieces {
        match apart.last_mut() {
            Some((last_row, last_id, length)) if *last_id + *length == id + 1 => {
                let before = (*last_row + *length - 1, id, 1);
                *length -= 1;
                if *length == 0 {
                    apart.pop();
                }
                apart.push(before);
                apart.push((row, id, 1));
                if count > 1 {
                    apart.push((row + 1, id + 1, count - 1));
                }
            }
            _ => apart.push((row, id, count)),
        }
    }
    apart
}

/// Cuts segments so that any two have the same ids or none in common.
fn cut_alike(segments: Vec<Segment>) -> Vec<Segment> {
    let mut cuts: Vec<u64> = segments.iter().flat_map(|s| [s.first_id, s.first_id + s.count]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut alike = Vec::with_capacity(segments.len());
    for segment in segments {
        let end = segment.first_id + segment.count;
        let mut from = segment.first_id;
        let next = cuts.partition_point(|cut| *cut <= from);
        for &cut in cuts[next..].iter().take_while(|cut| **cut <= end) {
            let first_row = segment.first_row + (from - segment.first_id);
            alike.push(Segment { first_id: from, count: cut - from, first_row, ..segment });
            from = cut;
        }
    }
    alike.sort_by_key(|s| (s.first_id, s.file, s.first_row));
    alike
}

/// The live rows of one tensor in one file, with their ids. `value` is the column that holds its samples in cell files: their
/// checksums are of ids and samples together.
pub(crate) async fn live_pieces(
    store: &Store,
    cache: &Cache,
    entry: &FileEntry,
    held: &Held,
    value: Option<&str>,
) -> Result<Vec<Piece>, TableError> {
    let deleted = cache.deleted(store, entry).await?;
    if !held.ids.is_empty() {
        return Ok(without_dead(zip_runs(&held.rows, &held.ids), deleted.as_deref()));
    }
    let file = cache.file(store, entry).await?;
    if held.rows.iter().any(|&(first, count)| first.saturating_add(count) > file.rows()) {
        return Err(TableError::corrupt(entry.path(), "the file has fewer rows than its tags say"));
    }
    let batch = match entry.tags.kind {
        FileKind::Cells => read_verified(store, &file, &[column::ROW], value, &held.rows).await?,
        // In a chunk file ids are part of the tail, which has a checksum.
        FileKind::Chunks | FileKind::Foreign => file.columns(store, &held.rows, &[column::ROW]).await?,
    };
    let ids = long_column(&batch, column::ROW)
        .ok_or_else(|| TableError::corrupt(entry.path(), "rows of a column have no ids"))?;
    let mut runs = Vec::new();
    for &id in ids {
        let id = u64::try_from(id).map_err(|_| TableError::corrupt(entry.path(), "a negative row id"))?;
        extend_run(&mut runs, id, 1);
    }
    Ok(without_dead(zip_runs(&held.rows, &runs), deleted.as_deref()))
}

/// The index of any state of a column.
pub(crate) async fn build_column(
    store: &Store,
    cache: &Cache,
    state: &TensorState,
    name: &str,
) -> Result<ColumnIndex, TableError> {
    cache.prove_all(store, &state.files).await?;
    let form = match name {
        ROW_AXIS => None,
        _ => Some(ValueColumn::of(&state.header)?),
    };
    let value = form.map(ValueColumn::name);
    let mut segments = Vec::new();
    let (mut numbers, mut loads) = (Vec::new(), Vec::new());
    for (number, entry) in (0..).zip(&state.files) {
        let Some(held) = entry.held(name).filter(|h| !h.rows.is_empty()) else { continue };
        numbers.push(number);
        loads.push(live_pieces(store, cache, entry, held, value));
    }
    for (number, pieces) in numbers.into_iter().zip(all(loads).await?) {
        segments.extend(with_tiles_apart(pieces).into_iter().map(|(first_row, first_id, count)| Segment {
            first_id,
            count,
            file: number,
            first_row,
        }));
    }
    segments.sort_by_key(|s| (s.first_id, s.file, s.first_row));
    let overlap = |pair: &[Segment]| pair[0].first_id + pair[0].count > pair[1].first_id;
    if segments.windows(2).any(overlap) {
        // Only blobs have several rows for one sample: tiles, which may even lie in several files.
        if form != Some(ValueColumn::Data) {
            let what = format!("column {name:?} has two samples for one row");
            return Err(TableError::corrupt(name, what));
        }
        segments = cut_alike(segments);
    }
    Ok(ColumnIndex {
        name: name.to_owned(),
        header: Arc::clone(&state.header),
        files: state.files.clone(),
        file_keys: state
            .files
            .iter()
            .map(|entry| FileKeys { file: file_key(entry), rows: held_key(entry, name) })
            .collect(),
        form,
        segments,
    })
}

/// What was learned of rows and columns, in the store's place like everything that is learned.
#[derive(Debug)]
pub(crate) struct RowCache {
    base: Arc<Cache>,
}

impl RowCache {
    pub(crate) fn new(base: Arc<Cache>) -> RowCache {
        RowCache { base }
    }

    /// The index of a column at a snapshot.
    pub(crate) async fn column(
        &self,
        store: &Store,
        snapshot: &Snapshot,
        name: &str,
    ) -> Result<Arc<ColumnIndex>, TableError> {
        let state = snapshot.tensor(name).ok_or_else(|| TableError::NoSuchTensor {
            name: name.to_owned(),
            version: snapshot.version,
            close: snapshot.close_to(name),
        })?;
        self.index_of(store, state, name).await
    }

    /// The rows of the dataset as if they were a column.
    pub(crate) async fn axis_index(
        &self,
        store: &Store,
        snapshot: &Snapshot,
    ) -> Result<Arc<ColumnIndex>, TableError> {
        match snapshot.state(ROW_AXIS) {
            Some(state) => self.index_of(store, state, ROW_AXIS).await,
            None => Ok(Arc::new(ColumnIndex {
                name: ROW_AXIS.to_owned(),
                header: Arc::new(HeaderRow::of_dataset(&serde_json::Value::Null)),
                files: Vec::new(),
                file_keys: Vec::new(),
                form: None,
                segments: Vec::new(),
            })),
        }
    }

    async fn index_of(
        &self,
        store: &Store,
        state: &TensorState,
        name: &str,
    ) -> Result<Arc<ColumnIndex>, TableError> {
        let key = state_key(state, name);
        if let Some(index) = store.place().get(key) {
            return Ok(index);
        }
        let index = Arc::new(build_column(store, &self.base, state, name).await?);
        store.place().put(key.to_owned(), Arc::clone(&index), index.memory_bytes());
        Ok(index)
    }

    /// The rows of the dataset at a snapshot.
    pub(crate) async fn axis(&self, store: &Store, snapshot: &Snapshot) -> Result<Arc<RowAxis>, TableError> {
        let Some(state) = snapshot.state(ROW_AXIS) else { return Ok(Arc::default()) };
        let key = state_key(state, ROW_AXIS);
        if let Some(axis) = store.place().get(key) {
            return Ok(axis);
        }
        self.base.prove_all(store, &state.files).await?;
        let (mut holders, mut loads) = (Vec::new(), Vec::new());
        for entry in &state.files {
            let Some(held) = entry.held(ROW_AXIS) else { continue };
            holders.push(held);
            loads.push(live_pieces(store, &self.base, entry, held, None));
        }
        let mut runs = Vec::new();
        for (held, pieces) in holders.into_iter().zip(all(loads).await?) {
            runs.extend(with_sequences(held, pieces));
        }
        // Where another tool lost the order of some rows, that of all is their ids'.
        let lost = |entry: &Arc<FileEntry>| entry.held(ROW_AXIS).is_some_and(|h| h.sequences.is_empty());
        if state.files.iter().any(lost) {
            runs.iter_mut().for_each(|(sequence, ..)| *sequence = 0);
        }
        let twice = || TableError::corrupt(ROW_AXIS, "two rows have the same id");
        let axis = Arc::new(RowAxis::new(runs).ok_or_else(twice)?);
        let bytes = (axis.runs.len() * (24 + 8 + 16)) as u64;
        store.place().put(key.to_owned(), Arc::clone(&axis), bytes);
        Ok(axis)
    }
}

/// Gives pieces of the axis the sequences of their rows. Without any (another tool rewrote the file)
/// all are 0: rows are then ordered by id.
pub(crate) fn with_sequences(held: &Held, pieces: Vec<Piece>) -> Vec<(u64, u64, u64)> {
    if held.sequences.is_empty() {
        return pieces.into_iter().map(|(_, id, count)| (0, id, count)).collect();
    }
    // Rows of the axis are numbered among themselves: the k-th has the k-th sequence.
    let mut numbered = Vec::with_capacity(held.sequences.len());
    let mut next = 0;
    for &(sequence, count) in &held.sequences {
        numbered.push((next, sequence));
        next += count;
    }
    let mut before = Vec::with_capacity(held.rows.len());
    let mut rows = 0;
    for &(first, count) in &held.rows {
        before.push((first, rows));
        rows += count;
    }
    let mut found = Vec::new();
    for (mut row, mut id, mut count) in pieces {
        while count > 0 {
            let run = before.partition_point(|(first, _)| *first <= row).saturating_sub(1);
            let (first, rows) = before[run];
            let ordinal = rows + (row - first);
            let at = numbered.partition_point(|(start, _)| *start <= ordinal).saturating_sub(1);
            let end = numbered.get(at + 1).map_or(u64::MAX, |(start, _)| *start);
            let step = count.min(end - ordinal);
            found.push((numbered[at].1, id, step));
            (row, id, count) = (row + step, id + step, count - step);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_follow_sequence_then_id() {
        // Ids 100.. were written before ids 0.., which a slower writer had reserved.
        let axis = RowAxis::new(vec![(7, 0, 10), (5, 100, 20), (9, 120, 5), (9, 10, 2)]).unwrap();
        assert!(RowAxis::new(vec![(1, 0, 10), (2, 9, 1)]).is_none());
        assert!(
            axis.overlaps(11, 5) && axis.overlaps(0, 1) && axis.overlaps(90, 11) && axis.overlaps(124, 9)
        );
        assert!(!axis.overlaps(12, 88) && !axis.overlaps(125, 5));
        assert_eq!(axis.len(), 37);
        assert_eq!((axis.id(0), axis.id(19), axis.id(20)), (Some(100), Some(119), Some(0)));
        assert_eq!(
            (axis.id(30), axis.id(31), axis.id(36), axis.id(37)),
            (Some(10), Some(11), Some(124), None)
        );
        for position in 0..axis.len() {
            let id = axis.id(position).unwrap();
            assert_eq!(axis.position(id), Some(position));
        }
        assert_eq!((axis.position(12), axis.position(99), axis.position(125)), (None, None, None));
        assert_eq!(axis.id_runs(15..25), [(115, 5), (0, 5)]);
    }

    #[test]
    fn rows_and_ids_are_joined_and_thinned() {
        let pieces = zip_runs(&[(1, 4), (10, 3)], &[(50, 5), (90, 2)]);
        assert_eq!(pieces, [(1, 50, 4), (10, 54, 1), (11, 90, 2)]);
        let dead = RoaringTreemap::from_iter([0, 2, 4, 11, 30]);
        assert_eq!(without_dead(pieces, Some(&dead)), [(1, 50, 1), (3, 52, 1), (10, 54, 1), (12, 91, 1)]);
    }

    #[test]
    fn tiles_are_set_apart() {
        // Ids 3, 4, 5, 5, 5, 6, 7, 7 in rows 0 to 7.
        let pieces = zip_runs(&[(0, 8)], &[(3, 3), (5, 1), (5, 3), (7, 1)]);
        let apart = [(0, 3, 2), (2, 5, 1), (3, 5, 1), (4, 5, 1), (5, 6, 1), (6, 7, 1), (7, 7, 1)];
        assert_eq!(with_tiles_apart(pieces), apart);
    }

    #[test]
    fn segments_are_cut_alike() {
        let segment = |first_id, count, file, first_row| Segment { first_id, count, file, first_row };
        // A sample whose tiles lie in two files.
        let cut = cut_alike(vec![segment(5, 3, 0, 10), segment(7, 1, 1, 0), segment(7, 3, 2, 4)]);
        let expected = [
            segment(5, 2, 0, 10),
            segment(7, 1, 0, 12),
            segment(7, 1, 1, 0),
            segment(7, 1, 2, 4),
            segment(8, 2, 2, 5),
        ];
        assert_eq!(cut, expected);
    }

    #[test]
    fn sequences_are_counted_over_rows() {
        let mut held = Held::new(ROW_AXIS);
        held.rows = vec![(3, 4), (20, 6)];
        held.sequences = vec![(1, 2), (5, 8)];
        let pieces = vec![(3, 0, 4), (21, 5, 3)];
        assert_eq!(with_sequences(&held, pieces), [(1, 0, 2), (5, 2, 2), (5, 5, 3)]);
    }

    #[test]
    fn samples_are_found_by_id() {
        let segment = |first_id, count, file, first_row| Segment { first_id, count, file, first_row };
        let index = ColumnIndex {
            name: "x".into(),
            header: Arc::new(HeaderRow::of_dataset(&serde_json::Value::Null)),
            files: Vec::new(),
            file_keys: Vec::new(),
            form: None,
            segments: vec![
                segment(5, 3, 0, 1),
                segment(9, 1, 1, 7),
                segment(9, 1, 1, 8),
                segment(12, 2, 0, 4),
            ],
        };
        let places = |id| index.places(id).collect::<Vec<_>>();
        assert_eq!(places(4), []);
        assert_eq!(places(6), [(0, 2)]);
        assert_eq!(places(8), []);
        assert_eq!(places(9), [(1, 7), (1, 8)]);
        assert_eq!(places(13), [(0, 5)]);
        assert_eq!(places(14), []);
        let spans = |ids: &[(u64, u64)]| {
            let mut found = Vec::new();
            index.spans(ids, |place, count| found.push((place, count)));
            found
        };
        assert_eq!(
            spans(&[(12, 1), (6, 1), (6, 1)]),
            [(Some((0, 4)), 1), (Some((0, 2)), 1), (Some((0, 2)), 1)]
        );
        assert_eq!(spans(&[(0, 8), (13, 5)]), [(None, 5), (Some((0, 1)), 3), (Some((0, 5)), 1), (None, 4)]);
        assert_eq!(spans(&[(8, 1), (100, 2), (5, 0)]), [(None, 1), (None, 2)]);
        assert_eq!((index.files_of(&[(9, 1), (5, 1)]), index.files_of(&[(8, 1)])), (vec![0, 1], vec![]));
    }
}
