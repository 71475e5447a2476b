//! Numbered work on several threads, of which what comes is taken in order.

use crate::error::{ExecuteError, panicked};
use lacus_threads::Team;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};

/// Does `work` for all numbers below `count` on the threads of a team, and calls `take` with what comes of each, in order.
/// No thread has more than one result that is not taken yet. The first error ends it.
pub(crate) fn in_order<T: Send>(
    team: Team<'_>,
    count: usize,
    work: impl Fn(usize) -> Result<T, ExecuteError> + Sync,
    take: impl FnMut(usize, T) -> Result<(), ExecuteError> + Send,
) -> Result<(), ExecuteError> {
    struct Turn<F> {
        next: usize,
        error: Option<ExecuteError>,
        take: F,
    }
    let turn = Mutex::new(Turn { next: 0, error: None, take });
    let (moved, next) = (Condvar::new(), AtomicUsize::new(0));
    let lock = || turn.lock().unwrap_or_else(|e| e.into_inner());
    let one = |at: usize| -> Result<(), ExecuteError> {
        let found = work(at)?;
        let mut turn = lock();
        while turn.next != at && turn.error.is_none() {
            turn = moved.wait(turn).unwrap_or_else(|e| e.into_inner());
        }
        if turn.error.is_none() {
            (turn.take)(at, found)?;
            turn.next = at + 1;
        }
        Ok(())
    };
    let some = || {
        while lock().error.is_none() {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return;
            }
            // One that panics must not leave the others waiting for its turn.
            let done = catch_unwind(AssertUnwindSafe(|| one(at)));
            if let Err(error) = done.unwrap_or_else(|panic| Err(panicked(&*panic))) {
                lock().error.get_or_insert(error);
            }
            moved.notify_all();
        }
    };
    // Numbers are given out in order, so whoever has the first that is not taken yet waits for nobody: one thread is enough.
    team.at_most(count).run(&some);
    match turn.into_inner().unwrap_or_else(|e| e.into_inner()).error {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacus_threads::Pool;

    #[test]
    fn all_is_taken_in_order_until_something_fails() {
        let pool = Pool::new(3);
        for threads in [1, 3] {
            let team = pool.team(threads);
            let mut taken = Vec::new();
            in_order(
                team,
                100,
                |at| Ok(at * 2),
                |at, found| {
                    taken.push((at, found));
                    Ok(())
                },
            )
            .unwrap();
            assert_eq!(taken, (0..100).map(|at| (at, at * 2)).collect::<Vec<_>>());
            let mut count = 0;
            let failed = in_order(
                team,
                100,
                |at| if at == 40 { Err(ExecuteError::Cancelled) } else { Ok(()) },
                |_, ()| {
                    count += 1;
                    Ok(())
                },
            );
            assert!(matches!(failed, Err(ExecuteError::Cancelled)) && count <= 40);
            let failed =
                in_order(team, 9, |at| if at == 4 { panic!("four") } else { Ok(()) }, |_, ()| Ok(()));
            assert!(matches!(failed, Err(ExecuteError::Panic { what }) if what == "four"));
        }
    }
}
