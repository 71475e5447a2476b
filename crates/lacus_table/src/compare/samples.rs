//! Which samples of a column differ.

use std::sync::Arc;

use roaring::RoaringTreemap;

use crate::compare::difference::Content;
use crate::compare::own_rows::{OwnFile, Side};
use crate::error::TableError;
use crate::log::held::extend_run;
use crate::log::snapshot::HeaderRow;
use crate::read::row_index::{ColumnIndex, build_column};
use crate::read::samples::{SampleCache, Samples};
use crate::read::value_column::ValueColumn;
use crate::schema::{CELL_PAGE_ROWS, TEXT_PAGE_BYTES};

/// Samples compared at a time.
const GROUP_SAMPLES: usize = 16 << 10;

/// Values in files that both states have are read only while that takes at most so many times the bytes that were
/// written: a thousand labels changed here and there would otherwise cost reading all labels. Beyond, a number
/// or text that was written again counts as changed.
const LOOK_FACTOR: u64 = 2;

/// A file this small is always looked into: an object store charges the same for less.
const SMALL_FILE_BYTES: u64 = 64 << 10;

/// What became of the samples of a column. `deleted` are the rows that only the earlier state has.
pub(crate) async fn compare_samples(
    sides: &[Side<'_>; 2],
    names: [&str; 2],
    headers: [&Arc<HeaderRow>; 2],
    deleted: &RoaringTreemap,
) -> Result<Content, TableError> {
    let form = ValueColumn::of(headers[1])?;
    let old = index_of(&sides[0], names[0], headers[0]).await?;
    let new = index_of(&sides[1], names[1], headers[1]).await?;
    let (old_ids, new_ids) = (ids_of(&old, |_| true), ids_of(&new, |_| true));
    let mut unsure = &old_ids & &new_ids;
    let mut updated = RoaringTreemap::new();
    // A rename wrote all samples again: taking those for changed would make every merge with it a conflict.
    if form != ValueColumn::Data && names[0] == names[1] {
        let name = names[1];
        let files = || sides.iter().flat_map(|side| side.own.of(name));
        let written = files().filter(|own| !own.is_shared).map(file_bytes).sum::<u64>();
        let large = files().filter(|own| is_large(own));
        let needed = large.map(|own| look_bytes(own, name, form)).sum::<u64>();
        if needed > written.saturating_mul(LOOK_FACTOR) {
            for (side, index) in sides.iter().zip([&old, &new]) {
                let files = side.own.of(name);
                let costly = ids_of(index, |file| files.get(file as usize).is_some_and(is_large));
                updated |= &costly & &unsure;
            }
            unsure -= &updated;
        }
    }
    updated |= differing(sides, [old, new], form, &unsure).await?;
    let added: Vec<u64> = (&new_ids - &old_ids).iter().collect();
    let cleared: Vec<u64> = (old_ids - new_ids - deleted).iter().collect();
    let updated: Vec<u64> = updated.iter().collect();
    Ok(match added.is_empty() && updated.is_empty() && cleared.is_empty() {
        true => Content::Same,
        false => Content::Samples { added, updated, cleared },
    })
}

async fn index_of(
    side: &Side<'_>,
    name: &str,
    header: &Arc<HeaderRow>,
) -> Result<Arc<ColumnIndex>, TableError> {
    let (store, _, cache, _) = side.table.parts();
    Ok(Arc::new(build_column(store, cache, &side.own.state(name, header), name).await?))
}

fn ids_of(index: &ColumnIndex, is_wanted: impl Fn(u32) -> bool) -> RoaringTreemap {
    let mut ids = RoaringTreemap::new();
    for segment in index.segments.iter().filter(|segment| is_wanted(segment.file)) {
        ids.insert_range(segment.first_id..segment.first_id + segment.count);
    }
    ids
}

fn is_large(own: &OwnFile) -> bool {
    own.is_shared && file_bytes(own) > SMALL_FILE_BYTES
}

fn file_bytes(own: &OwnFile) -> u64 {
    u64::try_from(own.entry.add.size).unwrap_or(0)
}

/// About how many bytes reading the values of these rows takes.
fn look_bytes(own: &OwnFile, name: &str, form: ValueColumn) -> u64 {
    let Some(held) = own.entry.held(name) else { return 0 };
    let values = own.entry.tags.tail;
    let pages = match form {
        ValueColumn::Text => held.row_count() * TEXT_PAGE_BYTES as u64,
        _ => {
            let page_rows = CELL_PAGE_ROWS as u64;
            let mut pages = 0;
            let mut next = 0;
            for &(first, count) in &held.rows {
                let (from, to) = ((first / page_rows).max(next), (first + count).div_ceil(page_rows));
                pages += to.saturating_sub(from);
                next = to.max(next);
            }
            let rows = u128::from(own.file_rows.max(1));
            (u128::from(values) * u128::from(pages * page_rows) / rows) as u64
        }
    };
    file_bytes(own).saturating_sub(values) + pages.min(values)
}

/// Those of `ids`, which both sides have, whose samples differ.
async fn differing(
    sides: &[Side<'_>; 2],
    indexes: [Arc<ColumnIndex>; 2],
    form: ValueColumn,
    ids: &RoaringTreemap,
) -> Result<RoaringTreemap, TableError> {
    let mut differ = RoaringTreemap::new();
    let stores = [sides[0].table.store(), sides[1].table.store()];
    let caches = sides.iter().map(|side| SampleCache::new(Arc::clone(side.table.parts().2)));
    let caches: Vec<SampleCache> = caches.collect();
    let all: Vec<u64> = ids.iter().collect();
    for group in all.chunks(GROUP_SAMPLES) {
        match form {
            ValueColumn::Int | ValueColumn::Float | ValueColumn::Real => {
                let mut runs = Vec::new();
                group.iter().for_each(|id| extend_run(&mut runs, *id, 1));
                let old = caches[0].scalars(stores[0], &indexes[0], &runs).await?;
                let new = caches[1].scalars(stores[1], &indexes[1], &runs).await?;
                let same = |i: usize| old.values.is_same_at(&new.values, i);
                differ.extend((0..group.len()).filter(|i| !same(*i)).map(|i| group[i]));
            }
            ValueColumn::Text => {
                let old = caches[0].texts(stores[0], &indexes[0], group).await?;
                let new = caches[1].texts(stores[1], &indexes[1], group).await?;
                differ.extend((0..group.len()).filter(|i| old[*i] != new[*i]).map(|i| group[i]));
            }
            ValueColumn::Data => {
                let old = caches[0].locate(stores[0], Arc::clone(&indexes[0]), group).await?;
                let new = caches[1].locate(stores[1], Arc::clone(&indexes[1]), group).await?;
                let differs = |i: &usize| tiles(&old, *i) != tiles(&new, *i);
                differ.extend((0..group.len()).filter(differs).map(|i| group[i]));
            }
        }
    }
    Ok(differ)
}

/// What is stored of a tile, short of its bytes: coordinates, codec, length, checksum and shape.
type Tile<'a> = (Vec<i64>, &'a str, u64, u32, Option<&'a [i64]>);

fn tiles(samples: &Samples, sample: usize) -> Vec<Tile<'_>> {
    let tile = |tile: usize| {
        let (coords, codec, bytes) = samples.tile(tile);
        (coords, codec, bytes, samples.crc(tile), samples.tile_shape(tile))
    };
    let mut tiles: Vec<_> = samples.tiles(sample).map(tile).collect();
    tiles.sort_unstable();
    tiles
}
