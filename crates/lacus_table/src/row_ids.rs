//! Reserves ids for new rows: no id is ever given out twice, whoever asks.
//!
//! ```text
//! _lacus/rows/00000000000000000000   "1024"     ids 0 to 1023 are taken
//! _lacus/rows/00000000000000001024   "50000"    ids 1024 to 51023 are taken
//! ```
//!
//! Whoever creates the object named after the first free id owns as many ids as it says. The newest one
//! is all that is needed to go on, so older ones are removed. Ids that a writer reserved and did not use
//! are lost, which does not matter.

use std::sync::Mutex;

use bytes::Bytes;
use lacus_io::{Store, World};

use crate::error::TableError;

const PREFIX: &str = "_lacus/rows/";

/// Ids taken from the store at least: a writer that appends row by row asks once in so many rows.
const BLOCK: u64 = 1024;

/// Ids this process may use, left over from its last reservation.
#[derive(Debug, Default)]
pub(crate) struct RowIds {
    left: Mutex<std::ops::Range<u64>>,
}

impl RowIds {
    /// `count` consecutive ids, all above `known`.
    pub(crate) async fn take(
        &self,
        store: &Store,
        world: &World,
        count: u64,
        known: Option<u64>,
    ) -> Result<std::ops::Range<u64>, TableError> {
        {
            let mut left = self.left.lock().unwrap_or_else(|e| e.into_inner());
            if left.end - left.start >= count {
                let taken = left.start..left.start + count;
                left.start = taken.end;
                return Ok(taken);
            }
        }
        let reserved = reserve(store, world, count.max(BLOCK), known.map_or(0, |id| id + 1)).await?;
        let taken = reserved.start..reserved.start + count;
        *self.left.lock().unwrap_or_else(|e| e.into_inner()) = taken.end..reserved.end;
        Ok(taken)
    }
}

async fn reserve(
    store: &Store,
    world: &World,
    count: u64,
    least: u64,
) -> Result<std::ops::Range<u64>, TableError> {
    let bad = |path: &str| TableError::corrupt(path, "not a reservation of row ids");
    for attempt in 0u32.. {
        let mut found = match store.list(PREFIX).await {
            Ok(found) => found,
            Err(e) if e.is_not_found() => Vec::new(),
            Err(e) => return Err(e.into()),
        };
        found.sort_by(|a, b| a.path.cmp(&b.path));
        let mut first = 0;
        if let Some(newest) = found.last() {
            let start = newest.path.strip_prefix(PREFIX).and_then(|name| name.parse::<u64>().ok());
            let text = match store.read_all(&newest.path).await {
                Ok(text) => text,
                // Somebody reserved more and cleaned up: look again.
                Err(e) if e.is_not_found() => continue,
                Err(e) => return Err(e.into()),
            };
            let length = std::str::from_utf8(&text).ok().and_then(|text| text.trim().parse::<u64>().ok());
            let end = start.zip(length).and_then(|(start, length)| start.checked_add(length));
            first = end.ok_or_else(|| bad(&newest.path))?;
        }
        // A dataset whose reservations were lost goes on above the ids it has.
        let first = first.max(least);
        let end = first.checked_add(count).filter(|end| *end <= i64::MAX as u64);
        let end = end.ok_or_else(|| TableError::refused("append", "there are no row ids left"))?;
        let path = format!("{PREFIX}{first:020}");
        match store.put_new(&path, Bytes::from(count.to_string())).await {
            Ok(()) => {
                // Tidying up is a courtesy that may fail.
                let old = found.into_iter().map(|entry| entry.path).collect();
                let _ = store.remove(old).await;
                return Ok(first..end);
            }
            Err(e) if e.is_already_exists() => world.back_off(attempt.min(16)).await,
            Err(e) => return Err(e.into()),
        }
    }
    Err(TableError::Cancelled)
}
