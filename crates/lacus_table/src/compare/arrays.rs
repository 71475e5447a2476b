//! Which chunks of an array differ, and whether the cells of two states are the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::Array;
use lacus_layout::{Codec, Coords, Header};

use crate::compare::own_rows::Side;
use crate::error::TableError;
use crate::files::checks::overlapping;
use crate::log::snapshot::HeaderRow;
use crate::read::cells::read_cells;

/// Cells that are read to compare them: two sides of a gigabyte or so. More of them count as different.
const MAX_CELLS: u64 = 1 << 24;

/// What is stored of a chunk, short of its bytes.
type Stored = (Codec, u32, u64);

/// The chunks that differ or that one state does not have, sorted.
pub(crate) async fn changed_chunks(
    sides: &[Side<'_>; 2],
    names: [&str; 2],
    headers: [&Arc<HeaderRow>; 2],
) -> Result<Vec<Coords>, TableError> {
    let mut found: BTreeMap<Coords, [Option<Stored>; 2]> = BTreeMap::new();
    for (at, ((side, header), name)) in sides.iter().zip(headers).zip(names).enumerate() {
        let (store, _, cache, _) = side.table.parts();
        let index = cache.build(store, &side.own.state(name, header), name).await?;
        for (i, place) in index.places.iter().enumerate() {
            let stored = (place.codec, place.crc, place.bytes);
            found.entry(index.chunks.coords(i)).or_default()[at] = Some(stored);
        }
    }
    Ok(found.into_iter().filter(|(_, [old, new])| old != new).map(|(coords, _)| coords).collect())
}

/// Whether the cells that only one state has are the same as those that only the other has.
pub(crate) async fn cells_are_same(
    sides: &[Side<'_>; 2],
    names: [&str; 2],
    header: &Header,
) -> Result<bool, TableError> {
    let rows = |at: usize| {
        let held = sides[at].own.of(names[at]).iter().filter_map(|own| own.entry.held(names[at]));
        held.flat_map(|held| &held.rows).map(|(_, count)| *count).sum::<u64>()
    };
    let (old, new) = (rows(0), rows(1));
    if old != new {
        return Ok(false);
    }
    let old_checks = checks(&sides[0], names[0]).await?;
    if old_checks.is_some() && old_checks == checks(&sides[1], names[1]).await? {
        return Ok(true);
    }
    if old > MAX_CELLS {
        return Ok(false);
    }
    let mut cells = Vec::with_capacity(2);
    for (side, name) in sides.iter().zip(names) {
        let mut axes: Vec<Vec<i64>> = vec![Vec::new(); header.shape.rank()];
        let mut values = Vec::new();
        let (store, _, cache, _) = side.table.parts();
        for own in side.own.of(name) {
            let Some(held) = own.entry.held(name) else { continue };
            let file = cache.file(store, &own.entry).await?;
            let read = read_cells(store, &file, header, &held.rows).await?;
            for (axis, more) in axes.iter_mut().zip(read.axes()) {
                axis.extend_from_slice(more);
            }
            values.push(read.values().1);
        }
        let parts: Vec<&dyn Array> = values.iter().map(|values| values.as_ref()).collect();
        let values = arrow::compute::concat(&parts).map_err(|e| TableError::corrupt(name, e.to_string()))?;
        cells.push((axes, values.to_data()));
    }
    // Arrow compares floats without nulls by their bits.
    Ok(cells[0] == cells[1])
}

/// Lengths and checksums of runs of cells, if they cover exactly the rows of the side.
async fn checks(side: &Side<'_>, name: &str) -> Result<Option<Vec<(u64, u32)>>, TableError> {
    let (store, _, cache, _) = side.table.parts();
    let mut found = Vec::new();
    for own in side.own.of(name) {
        let Some(held) = own.entry.held(name) else { continue };
        let file = cache.file(store, &own.entry).await?;
        for &(first, count) in &held.rows {
            let covering = overlapping(file.checks(), first, count);
            let covered: u64 = covering.iter().map(|check| check.rows).sum();
            if covered != count || covering.first().is_none_or(|check| check.first != first) {
                return Ok(None);
            }
            found.extend(covering.iter().map(|check| (check.rows, check.crc)));
        }
    }
    Ok(Some(found))
}
