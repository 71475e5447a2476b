//! Reserves ids for new rows: no id is ever given out twice, whoever asks.
//!
//! ```text
//! _lacus/rows/00000000000000000000   "crc32c:… 1024"     ids 0 to 1023 are taken
//! _lacus/rows/00000000000000001024   "crc32c:… 50000"    ids 1024 to 51023 are taken
//! ```
//!
//! Whoever creates the object named after the first free id owns as many ids as it says. The newest one
//! is all that is needed to go on, so older ones are removed. Ids that a writer reserved and did not use
//! are lost, which does not matter.

use lacus_io::boxed;
use std::sync::Mutex;

use bytes::Bytes;
use lacus_io::{Store, World};

use crate::error::TableError;
use crate::log::seal::{parse_number, sealed_number};

const PREFIX: &str = "_lacus/rows/";

/// Ids taken from the store at least: a writer that appends row by row asks once in so many rows.
const BLOCK: u64 = 1024;

/// Ids a reservation that cannot be read may have taken: more than anybody appends at once.
const UNREADABLE: u64 = 1 << 32;

/// Ids this process may use, left over from its last reservation.
#[derive(Debug, Default)]
pub(crate) struct RowIds {
    left: Mutex<Left>,
}

/// A child that was forked has a copy of what its parent may use, which is not its own.
#[derive(Debug, Default)]
struct Left {
    process: u32,
    ids: std::ops::Range<u64>,
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
        let least = match known {
            Some(id) => id.checked_add(1).ok_or_else(none_left)?,
            None => 0,
        };
        {
            let mut left = self.left.lock().unwrap_or_else(|e| e.into_inner());
            let start = left.ids.start.max(least);
            if left.process == std::process::id() && left.ids.end.saturating_sub(start) >= count {
                left.ids.start = start + count;
                return Ok(start..start + count);
            }
        }
        let reserved = reserve(store, world, count.max(BLOCK), least).await?;
        let taken = reserved.start..reserved.start + count;
        let left = Left { process: std::process::id(), ids: taken.end..reserved.end };
        *self.left.lock().unwrap_or_else(|e| e.into_inner()) = left;
        Ok(taken)
    }

    /// Gives up what is left, as nobody knows whose it is.
    pub(crate) fn forget(&self) {
        *self.left.lock().unwrap_or_else(|e| e.into_inner()) = Left::default();
    }
}

fn none_left() -> TableError {
    TableError::refused("append", "there are no row ids left")
}

async fn reserve(
    store: &Store,
    world: &World,
    count: u64,
    least: u64,
) -> Result<std::ops::Range<u64>, TableError> {
    for attempt in 0u32.. {
        let found = reservations(store).await?;
        let mut first = 0;
        if let Some((start, path)) = found.last() {
            let text = match store.read_all(path).await {
                Ok(text) => text,
                // Somebody reserved more and tidied up: look again.
                Err(e) if e.is_not_found() => continue,
                Err(e) => return Err(e.into()),
            };
            // One that a power cut left empty, or that is damaged, may have taken any number of ids.
            first = start.checked_add(parse_number(&text).unwrap_or(UNREADABLE)).ok_or_else(none_left)?;
        }
        // A dataset whose reservations were lost goes on above the ids it has.
        let first = first.max(least);
        let end = first.checked_add(count).filter(|end| *end <= i64::MAX as u64).ok_or_else(none_left)?;
        let path = format!("{PREFIX}{first:020}");
        match store.put_new(&path, Bytes::from(sealed_number(count))).await {
            Ok(()) => {}
            Err(e) if e.is_already_exists() => {
                world.back_off(attempt.min(16)).await;
                continue;
            }
            Err(e) => return Err(e.into()),
        }
        // Who was slow may have put what others had reserved, used and tidied away: they went on from there, so
        // that there is a newer one. The newest is never removed.
        if reservations(store).await?.last().is_some_and(|(start, _)| *start > first) {
            continue;
        }
        // Tidying up is a courtesy that may fail.
        let _ = store.remove(found.into_iter().map(|(_, path)| path).collect()).await;
        return Ok(first..end);
    }
    Err(TableError::Cancelled)
}

/// The first id that nobody has reserved in a dataset.
#[boxed]
pub async fn reserved_until(home: &Store) -> Result<u64, TableError> {
    loop {
        let found = reservations(home).await?;
        let Some((start, path)) = found.last() else { return Ok(0) };
        let text = match home.read_all(path).await {
            Ok(text) => text,
            Err(e) if e.is_not_found() => continue,
            Err(e) => return Err(e.into()),
        };
        return Ok(start.saturating_add(parse_number(&text).unwrap_or(UNREADABLE)));
    }
}

/// Makes sure that nobody is given `id` or any id below it.
#[boxed]
pub async fn reserve_above(home: &Store, world: &World, id: u64) -> Result<(), TableError> {
    if reserved_until(home).await? <= id {
        reserve(home, world, 1, id.checked_add(1).ok_or_else(none_left)?).await?;
    }
    Ok(())
}

/// First ids and paths of the reservations there are, in order.
async fn reservations(store: &Store) -> Result<Vec<(u64, String)>, TableError> {
    let found = match store.list(PREFIX).await {
        Ok(found) => found,
        Err(e) if e.is_not_found() => Vec::new(),
        Err(e) => return Err(e.into()),
    };
    let mut known = Vec::with_capacity(found.len());
    for entry in found {
        let start = entry.path.strip_prefix(PREFIX).and_then(|name| name.parse::<u64>().ok());
        let bad = || TableError::corrupt(&entry.path, "not a reservation of row ids");
        known.push((start.ok_or_else(bad)?, entry.path.clone()));
    }
    known.sort();
    Ok(known)
}
