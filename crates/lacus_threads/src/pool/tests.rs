use std::collections::HashSet;
use std::sync::Barrier;
use std::thread::ThreadId;

use super::*;

#[test]
fn workers_and_the_calling_thread_share_the_work() {
    let pool = Pool::new(3);
    // Three tasks that wait for each other end only if three threads run them.
    let together = Barrier::new(3);
    let threads = pool.team(8).map(vec![(); 3], |()| {
        together.wait();
        thread::current().id()
    });
    assert_eq!(threads.iter().collect::<HashSet<_>>().len(), 3);
    assert!(threads.contains(&thread::current().id()));
    assert_eq!(pool.workers(), 2);
}

#[test]
fn results_keep_their_order() {
    let pool = Pool::new(3);
    for count in [0, 1, 2, 17, 5000] {
        let expected: Vec<usize> = (0..count).map(|i| i * 3).collect();
        assert_eq!(pool.team(3).map((0..count).collect(), |i| i * 3), expected);
        assert_eq!(Team::alone().map((0..count).collect(), |i| i * 3), expected);
    }
}

#[test]
fn many_callers_share_few_workers() {
    let pool = Pool::new(3);
    let seen: Mutex<HashSet<ThreadId>> = Mutex::default();
    let callers: Vec<ThreadId> = thread::scope(|scope| {
        let call = || {
            for _ in 0..50 {
                pool.team(3).map((0..100).collect(), |_: i32| {
                    seen.lock().unwrap().insert(thread::current().id());
                });
            }
            thread::current().id()
        };
        let callers: Vec<_> = (0..8).map(|_| scope.spawn(call)).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    let mut workers = seen.into_inner().unwrap();
    workers.retain(|thread| !callers.contains(thread));
    assert!(workers.len() <= 2, "{workers:?}");
    assert!(pool.most_workers() <= 2);
}

#[test]
fn nested_work_ends_although_all_workers_are_busy() {
    let pool = Pool::new(2);
    let sums = pool.team(2).map((0..16).collect(), |i: u64| {
        let inner = pool.team(2).map((0..16).collect(), |j: u64| {
            pool.team(2).map((0..4).collect(), |k: u64| i * j * k).into_iter().sum::<u64>()
        });
        inner.into_iter().sum::<u64>()
    });
    assert_eq!(sums.iter().sum::<u64>(), 120 * 120 * 6);
}

#[test]
fn a_panic_is_passed_on_and_the_pool_lives() {
    let pool = Pool::new(3);
    let together = Barrier::new(3);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        pool.team(3).map(vec![0, 1, 2], |i| {
            together.wait();
            assert_ne!(i, 1, "no ones");
        })
    }));
    assert!(caught.is_err());
    assert_eq!(pool.team(3).map(vec![1, 2, 3], |i| i + 1), [2, 3, 4]);
}

#[test]
fn workers_end_and_come_back() {
    let pool = Pool::new(4);
    let meet = |threads: usize| {
        let together = Barrier::new(threads);
        pool.team(threads).map(vec![(); threads], |()| {
            together.wait();
        });
    };
    meet(4);
    assert_eq!(pool.workers(), 3);
    pool.end_workers();
    assert_eq!(pool.workers(), 0);
    meet(4);
    assert_eq!(pool.workers(), 3);
    pool.set_threads(2);
    while pool.workers() > 1 {
        thread::yield_now();
    }
    assert_eq!(pool.team(4).threads(), 2);
    pool.set_threads(1);
    meet(1);
}

#[test]
fn a_process_that_lost_its_workers_works_alone() {
    let pool = Pool::new(4);
    pool.shared.owner.store(std::process::id() + 1, Ordering::Release);
    // As after a fork in the middle of something: the lock will never open.
    let _held = locked(&pool.shared.queue);
    assert_eq!(pool.team(4).map(vec![1, 2, 3], |i| i + 1), [2, 3, 4]);
}
