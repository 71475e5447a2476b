//! Work on many samples, on the cores there are.

use std::sync::{LazyLock, Mutex};

/// Samples a thread takes at a time: few enough to share the work evenly.
const AT_A_TIME: usize = 16;

/// Starting a thread costs about as much as copying this many bytes.
const WORTH_A_THREAD: u64 = 256 << 10;

/// Calls `work` for `0..count` and returns the results in order. `weight` is about the bytes each works on: for
/// little work no thread is started.
pub(crate) fn in_parallel<T: Send>(count: usize, weight: u64, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    map_in_parallel(0..count, weight, work)
}

/// The same for items that are taken.
pub(crate) fn map_in_parallel<I: Send, T: Send>(
    items: impl ExactSizeIterator<Item = I> + Send,
    weight: u64,
    work: impl Fn(I) -> T + Sync,
) -> Vec<T> {
    static CORES: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, |cores| cores.get()));
    let count = items.len();
    let worth = usize::try_from(weight.saturating_mul(count as u64) / WORTH_A_THREAD).unwrap_or(usize::MAX);
    let threads = worth.clamp(1, *CORES).min(count.max(1));
    if threads == 1 {
        return items.map(work).collect();
    }
    let left = Mutex::new((0usize, items));
    let done: Mutex<Vec<(usize, Vec<T>)>> = Mutex::new(Vec::new());
    let run = || {
        loop {
            let (from, some) = {
                let mut left = left.lock().unwrap_or_else(|e| e.into_inner());
                let some: Vec<I> = left.1.by_ref().take(AT_A_TIME).collect();
                let from = left.0;
                left.0 += some.len();
                (from, some)
            };
            if some.is_empty() {
                return;
            }
            let some: Vec<T> = some.into_iter().map(&work).collect();
            done.lock().unwrap_or_else(|e| e.into_inner()).push((from, some));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(run);
        }
        run();
    });
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    done.sort_unstable_by_key(|(from, _)| *from);
    done.into_iter().flat_map(|(_, some)| some).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order() {
        for (count, weight) in [(0, 1), (1, 1 << 30), (1000, 1 << 20), (1000, 1)] {
            let expected: Vec<usize> = (0..count).map(|i| i * 3).collect();
            assert_eq!(in_parallel(count, weight, |i| i * 3), expected);
        }
    }
}
