//! Are tags what the file says? Those of older versions have no checksum, and one digit more or less makes other rows of
//! other tensors of them.
//!
//! ```text
//! tags: tensors, header rows, runs of rows, ids ─→ the file's columns at the borders of runs ─→ equal, or damage
//! ```
//!
//! Rows of one tensor lie together in a file, so that a run whose first and last row are of a tensor is all of that tensor.

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use lacus_io::Store;
use roaring::RoaringTreemap;

use crate::error::TableError;
use crate::files::file_index::FileIndex;
use crate::files::scan::header_row;
use crate::log::held::extend_run;
use crate::log::snapshot::{FileEntry, HeaderRow};
use crate::schema::column;

/// What is compared of header rows, and by which tensors are told apart.
const COLUMNS: [&str; 8] = [
    column::TENSOR,
    column::DTYPE,
    column::SHAPE,
    column::LAYOUT,
    column::HTYPE,
    column::CHUNK_SHAPE,
    column::PARAMETERS,
    column::METADATA,
];

/// Fails unless a file's tags agree with its rows, as far as rows say what tags say.
pub(crate) async fn check_tags(
    store: &Store,
    entry: &FileEntry,
    file: &FileIndex,
    deleted: Option<&RoaringTreemap>,
) -> Result<(), TableError> {
    let bad = |what: String| {
        let what = format!("what the log says of this file (its tag \"lacus\") is not what is in it: {what}");
        TableError::corrupt(entry.path(), what)
    };
    let end = file.rows();
    let mut named = RoaringTreemap::new();
    let mut count = 0;
    // Rows to look at: whose they are, and the header row that is expected there.
    let mut wanted: Vec<(u64, &str, Option<&HeaderRow>)> = Vec::new();
    for held in &entry.tags.tensors {
        if let Some(header) = &held.header {
            wanted.push((header.row, &held.name, Some(header)));
            named.insert(header.row);
            count += 1;
        }
        for &(first, rows) in &held.rows {
            if rows == 0 || first.checked_add(rows).is_none_or(|last| last > end) {
                return Err(bad(format!("rows of {:?} are outside the file", held.name)));
            }
            named.insert_range(first..first + rows);
            count += rows;
            wanted.extend([(first, held.name.as_str(), None), (first + rows - 1, held.name.as_str(), None)]);
        }
    }
    if named.len() != count || named.max().is_some_and(|last| last >= end) {
        return Err(bad("rows overlap, or are outside the file".to_owned()));
    }
    if deleted.and_then(RoaringTreemap::max).is_some_and(|last| last >= end) {
        return Err(bad("rows are deleted that are outside the file".to_owned()));
    }
    let mut unnamed = RoaringTreemap::new();
    unnamed.insert_range(0..end);
    unnamed -= &named;
    if let Some(deleted) = deleted {
        unnamed -= deleted;
    }
    if let Some(row) = unnamed.min() {
        return Err(bad(format!("row {row} is of no tensor")));
    }
    wanted.sort_by_key(|(row, ..)| *row);
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (row, ..) in &wanted {
        if runs.last().is_none_or(|(first, count)| first + count <= *row) {
            extend_run(&mut runs, *row, 1);
        }
    }
    if runs.is_empty() {
        return Ok(());
    }
    let batch = file.columns(store, &runs, &COLUMNS).await?;
    let foreign = || bad("it does not have the table's columns".to_owned());
    let texts = |name: &str| batch.column_by_name(name)?.as_string_opt::<i32>();
    let tensors = texts(column::TENSOR).ok_or_else(foreign)?;
    let dtypes = texts(column::DTYPE).ok_or_else(foreign)?;
    let metadata = texts(column::METADATA).ok_or_else(foreign)?;
    let (mut at, mut last) = (0, None);
    for (row, name, header) in wanted {
        if last.is_some_and(|last| last != row) {
            at += 1;
        }
        last = Some(row);
        if tensors.is_null(at) || tensors.value(at) != name {
            return Err(bad(format!("row {row} is not of {name:?}")));
        }
        let is_header = dtypes.is_valid(at) || metadata.is_valid(at);
        match header {
            Some(header) => {
                let stored = header_row(&batch, at).ok_or_else(foreign)?;
                let is_live = deleted.is_none_or(|deleted| !deleted.contains(row));
                if !is_live || (HeaderRow { row, ..stored }) != *header {
                    return Err(bad(format!("the header row of {name:?} is another")));
                }
            }
            None if is_header => return Err(bad(format!("row {row} is a header row of {name:?}"))),
            None => {}
        }
    }
    for held in entry.tags.tensors.iter().filter(|held| !held.ids.is_empty() && !held.rows.is_empty()) {
        let batch = file.columns(store, &held.rows, &[column::ROW]).await?;
        let ids = batch.column_by_name(column::ROW).and_then(|c| c.as_primitive_opt::<Int64Type>());
        let ids = ids.filter(|ids| ids.null_count() == 0).ok_or_else(foreign)?;
        let told = held.ids.iter().flat_map(|&(first, count)| first..first.saturating_add(count));
        let found = ids.values().iter().map(|id| u64::try_from(*id).unwrap_or(u64::MAX));
        if !told.eq(found) {
            return Err(bad(format!("the rows of {:?} have other ids", held.name)));
        }
        let found = || ids.values().iter().map(|id| id.unsigned_abs());
        if held.span.is_some() && held.span != found().min().zip(found().max()) {
            return Err(bad(format!("the rows of {:?} have other ids", held.name)));
        }
    }
    Ok(())
}
