//! Work on many samples, on the threads there are.

use lacus_threads::{Pool, Team};

/// Handing work to another thread costs about as much as copying this many bytes.
const WORTH_A_THREAD: u64 = 256 << 10;

/// Calls `work` for `0..count` and returns the results in order. `weight` is about the bytes each works on: little work
/// stays on the calling thread.
pub(crate) fn in_parallel<T: Send>(
    pool: &Pool,
    count: usize,
    weight: u64,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    team_for(pool, count, weight).map((0..count).collect(), work)
}

/// The same for items that are taken.
pub(crate) fn map_in_parallel<I: Send, T: Send>(
    pool: &Pool,
    items: Vec<I>,
    weight: u64,
    work: impl Fn(I) -> T + Sync,
) -> Vec<T> {
    team_for(pool, items.len(), weight).map(items, work)
}

fn team_for(pool: &Pool, count: usize, weight: u64) -> Team<'_> {
    let worth = usize::try_from(weight.saturating_mul(count as u64) / WORTH_A_THREAD).unwrap_or(usize::MAX);
    pool.team(worth.min(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_work_stays_on_the_calling_thread() {
        let pool = Pool::new(4);
        for (count, weight, threads) in
            [(0, 1, 1), (1, 1 << 30, 1), (1000, 1 << 20, 4), (1000, 1, 1), (3, 1 << 20, 3)]
        {
            assert_eq!(team_for(&pool, count, weight).threads(), threads, "{count} of {weight} bytes");
            let expected: Vec<usize> = (0..count).map(|i| i * 3).collect();
            assert_eq!(in_parallel(&pool, count, weight, |i| i * 3), expected);
        }
    }
}
