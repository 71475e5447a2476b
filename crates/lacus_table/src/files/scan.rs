//! Makes a file's tags anew from its rows, for files that another tool wrote.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use lacus_io::Store;

use crate::error::TableError;
use crate::files::file_index::FileIndex;
use crate::log::actions::Add;
use crate::log::foreign_rows::UNNAMED;
use crate::log::held::extend_run;
use crate::log::snapshot::{FILE_REVISION, FileEntry, FileKind, FileTags, HeaderRow, Held};
use crate::schema::column;

/// Reads which tensors a file holds, in which rows, and their header rows.
pub(crate) async fn scan(store: &Store, add: Add) -> Result<FileEntry, TableError> {
    let mut entry = FileEntry {
        add,
        tags: FileTags {
            kind: FileKind::Foreign,
            revision: FILE_REVISION,
            tail: 0,
            tail_crc: None,
            deleted: 0,
            tensors: Vec::new(),
        },
    };
    let index = FileIndex::load(store, &entry).await?;
    let deleted = match entry.deletions() {
        Some(descriptor) => Some(crate::log::deletion::read(store, descriptor).await?),
        None => None,
    };
    let names = [
        column::TENSOR,
        column::DTYPE,
        column::SHAPE,
        column::LAYOUT,
        column::HTYPE,
        column::CHUNK_SHAPE,
        column::PARAMETERS,
        column::METADATA,
        column::BYTES,
        column::ROW,
    ];
    let rows = index.rows();
    let batch = match rows {
        0 => return Ok(entry),
        _ => index.columns(store, &[(0, rows)], &names).await?,
    };
    let bad = || TableError::corrupt(entry.path(), "the file does not have the table's columns");
    let tensors =
        batch.column_by_name(column::TENSOR).and_then(|c| c.as_string_opt::<i32>()).ok_or_else(bad)?;
    let lengths = batch.column_by_name(column::BYTES).and_then(|c| c.as_primitive_opt::<Int64Type>());
    let ids = batch.column_by_name(column::ROW).and_then(|c| c.as_primitive_opt::<Int64Type>());
    let dtypes =
        batch.column_by_name(column::DTYPE).and_then(|c| c.as_string_opt::<i32>()).ok_or_else(bad)?;
    let metadata = batch.column_by_name(column::METADATA).ok_or_else(bad)?;
    let mut found: BTreeMap<String, Held> = BTreeMap::new();
    for row in 0..batch.num_rows() {
        let at = row as u64;
        if deleted.as_ref().is_some_and(|d| d.contains(at)) {
            continue;
        }
        let name = if tensors.is_valid(row) { tensors.value(row) } else { UNNAMED };
        let held = found.entry(name.to_owned()).or_insert_with(|| Held::new(name));
        let is_header = dtypes.is_valid(row) || metadata.is_valid(row);
        if is_header {
            let header = header_row(&batch, row).ok_or_else(bad)?;
            held.more_headers.extend(held.header.replace(header).map(|before| before.row));
            continue;
        }
        extend_run(&mut held.rows, at, 1);
        if let Some(id) =
            ids.filter(|ids| ids.is_valid(row)).and_then(|ids| u64::try_from(ids.value(row)).ok())
        {
            let (low, high) = held.span.unwrap_or((id, id));
            held.span = Some((low.min(id), high.max(id)));
        }
        if let Some(lengths) = lengths.filter(|l| l.is_valid(row)) {
            held.bytes += u64::try_from(lengths.value(row)).unwrap_or(0);
        }
    }
    entry.tags.tensors = found.into_values().collect();
    Ok(entry)
}

/// The header row at `row` of a batch, as tags say it.
pub(crate) fn header_row(batch: &RecordBatch, row: usize) -> Option<HeaderRow> {
    let text = |name: &str| -> Option<String> {
        let array = batch.column_by_name(name)?.as_string_opt::<i32>()?;
        array.is_valid(row).then(|| array.value(row).to_owned())
    };
    let longs = |name: &str| -> Option<Vec<i64>> {
        let list = batch.column_by_name(name)?.as_list_opt::<i32>()?;
        if !list.is_valid(row) {
            return None;
        }
        Some(list.value(row).as_primitive_opt::<Int64Type>()?.values().to_vec())
    };
    Some(HeaderRow {
        row: row as u64,
        dtype: text(column::DTYPE).unwrap_or_default(),
        shape: longs(column::SHAPE).unwrap_or_default(),
        layout: text(column::LAYOUT).unwrap_or_default(),
        htype: text(column::HTYPE),
        chunk_shape: longs(column::CHUNK_SHAPE),
        parameters: text(column::PARAMETERS).unwrap_or_default(),
        metadata: text(column::METADATA),
    })
}
