//! The worker threads, and the queue they take work from.
//!
//! This is not rayon, for three reasons. A thread that waits for its own work never picks up somebody
//! else's: it may hold a lock, or Python's, that the other work needs. The calling thread takes part
//! without being moved into the pool. And all threads can be ended before a fork and come back after
//! it, which rayon's global pool cannot.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::team::Team;

/// The environment variable that says how many threads the process's pool has.
pub const THREADS_VARIABLE: &str = "LACUS_THREADS";

/// A worker that had nothing to do for this long ends. Starting it again costs less than a tenth of a
/// millisecond.
const IDLE: Duration = Duration::from_secs(10);

/// Threads that wait for disks at once: a file system writes its journal once for all that wait for
/// it. A thousand small new files took 0.9 s to sync one after the other, 0.11 s four at a time,
/// 0.08 s sixteen at a time, and no less with more (ext4 on a virtual disk).
const WAITING_THREADS: usize = 16;

/// Worker threads that help the threads which call. Cheap to clone; clones are the same pool. Once the
/// last one is dropped, the workers end by themselves.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    /// How many threads one call may use, itself included.
    threads: AtomicUsize,
    /// The process that started the workers; 0 while there are none.
    owner: AtomicU32,
    queue: Mutex<Queue>,
    /// Tells workers that something is in the queue, or that they should end.
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Arc<Job>>,
    workers: Vec<JoinHandle<()>>,
    /// Workers that have not ended.
    alive: usize,
    idle: usize,
    /// The most workers there ever were at once.
    most: usize,
    ending: bool,
}

/// Work that workers may join.
struct Job {
    /// Valid until the call that made the job has closed it and seen `running` at 0.
    work: *const (dyn Fn() + Sync),
    places: Mutex<Places>,
    left: Condvar,
}

struct Places {
    /// How many more workers may join.
    open: usize,
    /// How many are at work.
    running: usize,
    panic: Option<Box<dyn Any + Send>>,
}

// SAFETY: `work` points to something `Sync`, and is used only between joining and leaving, while the
// call that lent it waits (see `Pool::run`).
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// A pool by which a call may use up to `threads` threads, its own included (at least 1). Workers
    /// start when they are first needed.
    pub fn new(threads: usize) -> Pool {
        let shared = Shared {
            threads: AtomicUsize::new(threads.max(1)),
            owner: AtomicU32::new(0),
            queue: Mutex::default(),
            changed: Condvar::new(),
        };
        Pool { shared: Arc::new(shared) }
    }

    /// The pool of this process: as many threads as `LACUS_THREADS` says, or as there are cores.
    pub fn process() -> &'static Pool {
        static POOL: LazyLock<Pool> = LazyLock::new(|| {
            let said = std::env::var(THREADS_VARIABLE).ok().and_then(|text| text.trim().parse().ok());
            let cores = || thread::available_parallelism().map_or(1, usize::from);
            Pool::new(said.filter(|threads| *threads > 0).unwrap_or_else(cores))
        });
        &POOL
    }

    /// A second pool of this process, for work that waits for a disk and needs no core meanwhile.
    pub fn for_waiting() -> &'static Pool {
        static POOL: LazyLock<Pool> = LazyLock::new(|| Pool::new(WAITING_THREADS));
        &POOL
    }

    /// Ends the workers of the process's pools: called before a fork, which no thread survives. They
    /// come back when they are next needed, in parent and child.
    pub fn end_process_workers() {
        Pool::process().end_workers();
        Pool::for_waiting().end_workers();
    }

    /// How many threads a call may use, itself included.
    pub fn threads(&self) -> usize {
        self.shared.threads.load(Ordering::Relaxed)
    }

    /// Changes how many threads a call may use (at least 1). Workers that are too many end after what
    /// they are doing.
    pub fn set_threads(&self, threads: usize) {
        self.shared.threads.store(threads.max(1), Ordering::Relaxed);
        // Under the lock, so that no worker misses it between looking and waiting.
        let _queue = locked(&self.shared.queue);
        self.shared.changed.notify_all();
    }

    /// Workers there are now.
    pub fn workers(&self) -> usize {
        locked(&self.shared.queue).alive
    }

    /// The most workers there ever were at once.
    pub fn most_workers(&self) -> usize {
        locked(&self.shared.queue).most
    }

    /// Up to `wanted` of this pool's threads, the calling one included.
    pub fn team(&self, wanted: usize) -> Team<'_> {
        Team::of(self, wanted.clamp(1, self.threads()))
    }

    /// Ends all workers and waits for them. What runs is finished first.
    pub fn end_workers(&self) {
        let owner = self.shared.owner.load(Ordering::Acquire);
        if owner != 0 && owner != std::process::id() {
            // They are the threads of another process, from which this one was forked without our knowing.
            return;
        }
        let workers = {
            let mut queue = locked(&self.shared.queue);
            queue.ending = true;
            self.shared.changed.notify_all();
            std::mem::take(&mut queue.workers)
        };
        for worker in workers {
            // It catches the panics of what it runs.
            let _ = worker.join();
        }
        let mut queue = locked(&self.shared.queue);
        queue.ending = false;
        self.shared.owner.store(0, Ordering::Release);
    }

    /// Calls `work` on this thread, and at the same time on up to `helpers` workers. Returns when all
    /// calls have. A panic in one of them is passed on.
    pub(crate) fn run(&self, helpers: usize, work: &(dyn Fn() + Sync)) {
        let Some(job) = self.offer(helpers, work) else { return work() };
        let own = catch_unwind(AssertUnwindSafe(work));
        locked(&self.shared.queue).jobs.retain(|other| !Arc::ptr_eq(other, &job));
        let mut places = locked(&job.places);
        places.open = 0;
        while places.running > 0 {
            places = job.left.wait(places).unwrap_or_else(PoisonError::into_inner);
        }
        // From here on nobody uses `work`.
        let panic = own.err().or_else(|| places.panic.take());
        drop(places);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Puts work into the queue; `None` when nobody could take it.
    fn offer(&self, helpers: usize, work: &(dyn Fn() + Sync)) -> Option<Arc<Job>> {
        let helpers = helpers.min(self.threads() - 1);
        if helpers == 0 {
            return None;
        }
        // A process that was forked without our knowing has no workers, and perhaps a lock that nobody
        // will ever open: it works alone.
        let owner = self.shared.owner.load(Ordering::Acquire);
        let own = std::process::id();
        if owner != 0 && owner != own {
            return None;
        }
        // SAFETY: only the lifetime changes. `run`, the one caller, returns only after the job was
        // closed and everyone who joined it has left, so `work` is not used after its borrow ends.
        let work: *const (dyn Fn() + Sync) =
            unsafe { std::mem::transmute::<&(dyn Fn() + Sync), &'static (dyn Fn() + Sync)>(work) };
        let places = Mutex::new(Places { open: helpers, running: 0, panic: None });
        let job = Arc::new(Job { work, places, left: Condvar::new() });
        let mut queue = locked(&self.shared.queue);
        self.shared.owner.store(own, Ordering::Release);
        let missing = helpers.saturating_sub(queue.idle);
        for _ in 0..missing {
            if queue.alive + 1 >= self.threads() || queue.ending || !self.start_worker(&mut queue) {
                break;
            }
        }
        if queue.alive == 0 {
            return None;
        }
        queue.jobs.push_back(Arc::clone(&job));
        drop(queue);
        if helpers == 1 {
            self.shared.changed.notify_one();
        } else {
            self.shared.changed.notify_all();
        }
        Some(job)
    }

    fn start_worker(&self, queue: &mut Queue) -> bool {
        let shared = Arc::clone(&self.shared);
        let name = "lacus-worker".to_owned();
        let started = thread::Builder::new().name(name).spawn(move || shared.serve());
        let Ok(worker) = started else { return false };
        queue.workers.retain(|worker| !worker.is_finished());
        queue.workers.push(worker);
        queue.alive += 1;
        queue.most = queue.most.max(queue.alive);
        true
    }
}

impl Shared {
    /// What a worker does.
    fn serve(&self) {
        let mut queue = locked(&self.queue);
        loop {
            if let Some(job) = queue.jobs.front().cloned() {
                if !job.join() {
                    queue.jobs.retain(|other| !Arc::ptr_eq(other, &job));
                    continue;
                }
                drop(queue);
                job.work_and_leave();
                queue = locked(&self.queue);
                continue;
            }
            if queue.ending || queue.alive + 1 > self.threads.load(Ordering::Relaxed) {
                break;
            }
            queue.idle += 1;
            let (woken, waited) =
                self.changed.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
            queue = woken;
            queue.idle -= 1;
            if waited.timed_out() && queue.jobs.is_empty() {
                break;
            }
        }
        queue.alive -= 1;
    }
}

impl Job {
    /// Takes one of the open places.
    fn join(&self) -> bool {
        let mut places = locked(&self.places);
        if places.open == 0 {
            return false;
        }
        places.open -= 1;
        places.running += 1;
        true
    }

    fn work_and_leave(&self) {
        // SAFETY: this thread has joined, so the call that lent `work` waits until it leaves.
        let work = unsafe { &*self.work };
        let done = catch_unwind(AssertUnwindSafe(work));
        let mut places = locked(&self.places);
        places.running -= 1;
        // A thread that comes now would find nothing left to do.
        places.open = 0;
        if let Err(panic) = done {
            places.panic.get_or_insert(panic);
        }
        if places.running == 0 {
            self.left.notify_all();
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
