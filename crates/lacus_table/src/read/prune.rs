//! Which rows may hold what is looked for, by the zones of files and of the runs in them.
//!
//! ```text
//! files ─zones in their tags→ files that may ─zones in their footers→ runs that may ─→ ids of rows
//! ```

use lacus_io::Store;

use crate::error::TableError;
use crate::log::held::extend_run;
use crate::log::snapshot::FileEntry;
use crate::log::zone::Zone;
use crate::read::row_index::ColumnIndex;
use crate::read::tensor_index::{Cache, all};

/// Runs of the ids, ascending, of rows whose sample may be what is looked for. Rows of which nothing is known may.
pub(crate) async fn may_hold(
    cache: &Cache,
    store: &Store,
    index: &ColumnIndex,
    may: &(dyn Fn(&Zone) -> bool + Sync),
) -> Result<Vec<(u64, u64)>, TableError> {
    // Footers of files that may hold it are loaded at once.
    let files = all(index.files.iter().map(|entry| file(cache, store, index, entry, may)).collect()).await?;
    let mut ids = Vec::new();
    for segment in &index.segments {
        match &files[segment.file as usize] {
            File::None => {}
            File::All => extend_run(&mut ids, segment.first_id, segment.count),
            File::Some(runs) => {
                let end = segment.first_row + segment.count;
                let mut row = segment.first_row;
                let mut at = runs.partition_point(|(first, rows, _)| first + rows <= row);
                while row < end {
                    // Rows between runs may hold anything.
                    let (to, is_wanted) = match runs.get(at) {
                        Some(&(first, ..)) if first > row => (first.min(end), true),
                        Some(&(first, rows, may)) => {
                            at += 1;
                            ((first + rows).min(end), may)
                        }
                        None => (end, true),
                    };
                    if is_wanted {
                        extend_run(&mut ids, segment.first_id + (row - segment.first_row), to - row);
                    }
                    row = to;
                }
            }
        }
    }
    Ok(ids)
}

async fn file(
    cache: &Cache,
    store: &Store,
    index: &ColumnIndex,
    entry: &FileEntry,
    may: &(dyn Fn(&Zone) -> bool + Sync),
) -> Result<File, TableError> {
    // Tags that nothing vouches for do not rule out rows.
    let zone = entry.held(&index.name).and_then(|held| held.zone.as_ref());
    Ok(match zone.filter(|_| !entry.has_unproven_tags()) {
        None => File::All,
        Some(zone) if !may(zone) => File::None,
        // The index of a chunk file says all shapes: there are no zones of runs.
        Some(Zone::Shape(..)) => File::All,
        Some(_) => {
            let file = cache.file(store, entry).await?;
            let runs = file.zones().iter().map(|(first, rows, zone)| (*first, *rows, may(zone)));
            File::Some(runs.collect())
        }
    })
}

enum File {
    None,
    All,
    /// Runs of rows (first, count), and whether they may hold it.
    Some(Vec<(u64, u64, bool)>),
}
