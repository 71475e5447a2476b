//! Work on many samples, on the cores there are.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

/// Samples a thread takes at a time: few enough to share the work evenly.
const AT_A_TIME: usize = 16;

/// Calls `work` for `0..count` and returns the results in order. `weight` is about the bytes each works on: for
/// little work no thread is started.
pub(crate) fn in_parallel<T: Send>(count: usize, weight: u64, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    static CORES: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, |cores| cores.get()));
    // Starting a thread costs about as much as copying this many bytes.
    const WORTH_A_THREAD: u64 = 256 << 10;
    let worth = usize::try_from(weight.saturating_mul(count as u64) / WORTH_A_THREAD).unwrap_or(usize::MAX);
    let threads = worth.clamp(1, *CORES).min(count.max(1));
    if threads == 1 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Vec<T>)>> = Mutex::new(Vec::new());
    let run = || {
        loop {
            let from = next.fetch_add(AT_A_TIME, Ordering::Relaxed);
            if from >= count {
                return;
            }
            let some: Vec<T> = (from..(from + AT_A_TIME).min(count)).map(&work).collect();
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
