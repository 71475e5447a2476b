//! Reads many byte ranges of files, from wherever they lie.
//!
//! This is the place that knows what a request costs: on a disk about as much as copying 4 KiB, on an object store as much
//! as reading 128 KiB.

use std::ops::Range;

use bytes::Bytes;
use lacus_threads::{Pool, Team};

use crate::blocking::blocking;
use crate::error::{IoError, IoErrorKind};
use crate::fetch::fetch;
use crate::local::LocalRoot;
use crate::read_plan::{Request, coalesce};
use crate::store::Store;

/// Gaps read through rather than asked for separately.
const LOCAL_GAP_BYTES: u64 = 4 << 10;
const REMOTE_GAP_BYTES: u64 = 128 << 10;

/// The largest request made by merging.
const MAX_REQUEST_BYTES: u64 = 8 << 20;

/// Below this many bytes a second thread costs more than it brings.
const BYTES_PER_THREAD: u64 = 512 << 10;

/// A request above this is compared with the file's length before memory is taken for it: it may come from damaged
/// metadata.
const CHECKED_BYTES: u64 = 1 << 20;

/// The requests worth making for the ranges `wanted` (file, range), given where the store is. None is empty.
pub fn requests_for(store: &Store, wanted: &[(usize, Range<u64>)]) -> Vec<Request> {
    let gap = if store.local().is_some() { LOCAL_GAP_BYTES } else { REMOTE_GAP_BYTES };
    let mut requests = coalesce(wanted, gap, MAX_REQUEST_BYTES);
    // Object stores refuse to read no bytes.
    requests.retain(|request| !request.range.is_empty());
    requests
}

/// The threads worth using to read so many bytes.
pub(crate) fn team_for(pool: &Pool, bytes: u64) -> Team<'_> {
    pool.team(usize::try_from(bytes / BYTES_PER_THREAD).unwrap_or(usize::MAX))
}

/// Reads the ranges `wanted` (file, range) of `files`; the results have their order. Ranges that lie close together are one
/// request, and share its memory. What is on its way from an object store is bounded by the store's budget; from a
/// directory bytes are read straight into what `memory` gives for a length, on the threads of `pool` where there are many.
pub async fn read_ranges<M, E>(
    store: &Store,
    pool: &Pool,
    files: &[String],
    wanted: &[(usize, Range<u64>)],
    memory: impl Fn(usize) -> Result<M, E> + Sync,
) -> Result<Vec<Bytes>, E>
where
    M: AsMut<[u8]> + AsRef<[u8]> + Send + 'static,
    E: From<IoError> + Send,
{
    let mut found = vec![Bytes::new(); wanted.len()];
    let requests = requests_for(store, wanted);
    match store.local() {
        Some(local) => {
            let total: u64 = requests.iter().map(|r| r.range.end - r.range.start).sum();
            let team = team_for(pool, total);
            let read = |request: &Request| read_local(local, &files[request.file], &request.range, &memory);
            let read = blocking(|| team.map(requests.iter().collect(), read));
            for (request, bytes) in requests.iter().zip(read) {
                hand_out(request, bytes?, &mut found);
            }
        }
        None => {
            fetch(store, files, &requests, |i, bytes| {
                hand_out(&requests[i], bytes, &mut found);
                Ok::<_, IoError>(())
            })
            .await?;
        }
    }
    Ok(found)
}

fn hand_out(request: &Request, bytes: Bytes, found: &mut [Bytes]) {
    for part in &request.parts {
        found[part.wanted] = bytes.slice(part.within.clone());
    }
}

fn read_local<M, E>(
    local: &LocalRoot,
    path: &str,
    range: &Range<u64>,
    memory: impl Fn(usize) -> Result<M, E>,
) -> Result<Bytes, E>
where
    M: AsMut<[u8]> + AsRef<[u8]> + Send + 'static,
    E: From<IoError>,
{
    let file = local.file(path)?;
    let length = range.end - range.start;
    if length > CHECKED_BYTES {
        let held = file.metadata().map_err(|e| IoError::from_os("read", path, e))?.len();
        if range.end > held {
            let message = format!("wanted bytes {}..{}, the file has {held}", range.start, range.end);
            return Err(IoError::new(IoErrorKind::Truncated, "read", path, message).into());
        }
    }
    let size = usize::try_from(length)
        .map_err(|_| IoError::new(IoErrorKind::Invalid, "read", path, "range too long"))?;
    let mut bytes = memory(size)?;
    local.read_at(&file, path, range.start, &mut [], bytes.as_mut())?;
    Ok(Bytes::from_owner(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(store: Store) {
        let pool = Pool::new(2);
        let all: Vec<u8> = (0..3_000_000u32).map(|i| (i >> 3) as u8 ^ i as u8).collect();
        for name in ["a", "b"] {
            store.put_new(name, Bytes::from(all.clone())).await.unwrap();
        }
        let files = ["a".to_owned(), "b".to_owned()];
        let memory = |length| Ok::<_, IoError>(vec![0; length]);
        let wanted = vec![(1, 10..20), (0, 2_000_000..2_900_000), (1, 0..5), (0, 7..7), (0, 0..1_500_000)];
        let found = read_ranges(&store, &pool, &files, &wanted, memory).await.unwrap();
        for ((_, range), bytes) in wanted.iter().zip(&found) {
            assert!(bytes == &all[range.start as usize..range.end as usize], "{range:?}");
        }
        for range in [2_999_990..3_000_010, 0..1 << 40] {
            let found = read_ranges(&store, &pool, &files, &[(0, range)], memory).await;
            assert_eq!(found.unwrap_err().kind(), IoErrorKind::Truncated);
        }
        let none = read_ranges(&store, &pool, &files, &[], memory).await.unwrap();
        assert_eq!(none, Vec::<Bytes>::new());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn ranges_come_back_in_order_from_anywhere() {
        check(Store::open("memory://read-ranges", &Default::default()).unwrap()).await;
        let directory = tempfile::tempdir().unwrap();
        check(Store::open(directory.path().to_str().unwrap(), &Default::default()).unwrap()).await;
    }
}
