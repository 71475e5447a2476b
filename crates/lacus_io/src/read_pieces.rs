//! Reads many byte ranges and hands each to the caller where it is worked on: straight into the caller's memory from a
//! directory, out of merged requests from an object store.
//!
//! ```text
//! directory      worker threads: piece ─straight→ the caller's memory, or ─scratch→ take
//! object store   pieces ─merged→ requests, many in flight ─as they arrive→ take
//! ```
//!
//! Which of the two happens is decided here, and the caller gets the same result.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use lacus_threads::Pool;

use crate::blocking::blocking;
use crate::error::IoError;
use crate::fetch::fetch;
use crate::local::LocalRoot;
use crate::read_ranges::{requests_for, team_for};
use crate::store::Store;

/// Reads the bytes of one piece into two parts of memory: the first of them into one, the others into the other. Together
/// they are as long as the piece.
pub type ReadStraight<'r> = dyn FnMut(&mut [u8], &mut [u8]) -> Result<(), IoError> + 'r;

/// Who takes the pieces that were read. Pieces come in any order, several at once on several threads.
pub trait Pieces: Sync {
    /// What one thread uses again and again.
    type Tools: Default + Send;
    /// Why a piece is refused.
    type Error: From<IoError> + Send;

    /// Offers to read a piece straight to where it belongs. False if it has to be looked at first: then it is read and
    /// comes to [`Pieces::take`].
    fn straight(&self, piece: usize, read: &mut ReadStraight<'_>) -> Result<bool, Self::Error>;

    /// Takes the bytes of a piece.
    fn take(&self, piece: usize, bytes: &[u8], tools: &mut Self::Tools) -> Result<(), Self::Error>;
}

/// Reads the ranges `wanted` (file, range) of `files` and hands them to `pieces` by their place in the list. Stops at the
/// first error.
pub async fn read_pieces<P: Pieces>(
    store: &Store,
    pool: &Pool,
    files: &[String],
    wanted: &[(usize, Range<u64>)],
    pieces: &P,
) -> Result<(), P::Error> {
    if let Some(local) = store.local() {
        return blocking(|| from_directory(local, pool, files, wanted, pieces));
    }
    let requests = requests_for(store, wanted);
    let mut tools = P::Tools::default();
    fetch(store, files, &requests, |i, bytes: Bytes| {
        blocking(|| {
            let mut parts = requests[i].parts.iter();
            parts.try_for_each(|part| pieces.take(part.wanted, &bytes[part.within.clone()], &mut tools))
        })
    })
    .await
}

fn from_directory<P: Pieces>(
    local: &LocalRoot,
    pool: &Pool,
    files: &[String],
    wanted: &[(usize, Range<u64>)],
    pieces: &P,
) -> Result<(), P::Error> {
    let total: u64 = wanted.iter().map(|(_, range)| range.end - range.start).sum();
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<P::Error>> = Mutex::new(None);
    let work = || {
        let (mut tools, mut scratch) = (P::Tools::default(), Vec::new());
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            let Some((file, range)) = wanted.get(piece) else { return };
            let read = one_piece(local, &files[*file], range, pieces, piece, &mut tools, &mut scratch);
            if let Err(error) = read {
                next.store(wanted.len(), Ordering::Relaxed);
                failed.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(error);
                return;
            }
        }
    };
    team_for(pool, total).at_most(wanted.len()).run(&work);
    failed.into_inner().unwrap_or_else(|e| e.into_inner()).map_or(Ok(()), Err)
}

fn one_piece<P: Pieces>(
    local: &LocalRoot,
    path: &str,
    range: &Range<u64>,
    pieces: &P,
    piece: usize,
    tools: &mut P::Tools,
    scratch: &mut Vec<u8>,
) -> Result<(), P::Error> {
    let file = local.file(path)?;
    let mut read = |head: &mut [u8], body: &mut [u8]| local.read_at(&file, path, range.start, head, body);
    if pieces.straight(piece, &mut read)? {
        return Ok(());
    }
    scratch.resize((range.end - range.start) as usize, 0);
    read(&mut [], scratch)?;
    pieces.take(piece, scratch, tools)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::IoErrorKind;

    /// Pieces, each in a list of its own; those with even numbers may be read straight.
    struct Lists(Vec<Mutex<Vec<u8>>>);

    impl Pieces for Lists {
        type Tools = ();
        type Error = IoError;

        fn straight(&self, piece: usize, read: &mut ReadStraight<'_>) -> Result<bool, IoError> {
            if !piece.is_multiple_of(2) {
                return Ok(false);
            }
            let mut list = self.0[piece].lock().unwrap();
            let mut head = [0; 3];
            let length = list.len();
            read(&mut head[..3.min(length)], &mut list[3.min(length)..])?;
            list[..3.min(length)].copy_from_slice(&head[..3.min(length)]);
            Ok(true)
        }

        fn take(&self, piece: usize, bytes: &[u8], (): &mut ()) -> Result<(), IoError> {
            self.0[piece].lock().unwrap().copy_from_slice(bytes);
            Ok(())
        }
    }

    async fn check(store: Store) {
        let pool = Pool::new(2);
        let all: Vec<u8> = (0..2_000_000u32).map(|i| (i >> 3) as u8 ^ i as u8).collect();
        store.put_new("a", Bytes::from(all.clone())).await.unwrap();
        let files = ["a".to_owned()];
        let mut wanted: Vec<(usize, Range<u64>)> =
            (0..50).map(|i| (0, i * 39_000..i * 39_000 + 700 * (i % 30))).collect();
        wanted.retain(|(_, range)| !range.is_empty());
        let lists = |wanted: &[(usize, Range<u64>)]| {
            Lists(
                wanted
                    .iter()
                    .map(|(_, range)| Mutex::new(vec![0; (range.end - range.start) as usize]))
                    .collect(),
            )
        };
        let found = lists(&wanted);
        read_pieces(&store, &pool, &files, &wanted, &found).await.unwrap();
        for ((_, range), list) in wanted.iter().zip(&found.0) {
            assert!(*list.lock().unwrap() == all[range.start as usize..range.end as usize], "{range:?}");
        }
        wanted.push((0, 1_999_990..2_000_010));
        let failed = read_pieces(&store, &pool, &files, &wanted, &lists(&wanted)).await;
        assert_eq!(failed.unwrap_err().kind(), IoErrorKind::Truncated);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn pieces_come_from_anywhere() {
        check(Store::open("memory://read-pieces", &Default::default()).unwrap()).await;
        let directory = tempfile::tempdir().unwrap();
        check(Store::open(directory.path().to_str().unwrap(), &Default::default()).unwrap()).await;
    }
}
