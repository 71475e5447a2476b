//! Threads that functions of the caller's run on while a query waits for them, and how Ctrl-C reaches them.
//!
//! ```text
//! worker of the runtime   hands its tasks on ─ waits ──────────────────── goes on
//! thread of the calls                        └─ attach ─ the function ─ detach ┘
//! ```
//!
//! The function may use lacus itself: its thread is none of the runtime's, and the workers have other threads to run on meanwhile. A function
//! that does not listen to an interrupt is left behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

/// How often a query that waits for a function looks whether it was interrupted.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

type Job = Box<dyn FnOnce() + Send>;

/// The calls of functions of one question.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    is_stopped: AtomicBool,
    /// Threads that are in a function, as Python numbers them.
    busy: Mutex<Vec<u64>>,
    /// Threads that wait for the next call. They end when this is emptied.
    idle: Mutex<Vec<Sender<Job>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl Calls {
    /// Makes ready for another run.
    pub(crate) fn begin(&self) {
        self.is_stopped.store(false, Ordering::Relaxed);
    }

    /// Ends all threads that do nothing. A fork between two runs finds none.
    pub(crate) fn end(&self) {
        locked(&self.idle).clear();
    }

    /// Runs a job on a thread of its own and waits for it. Fails with why there is no result.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        tokio::task::block_in_place(|| {
            if self.is_stopped.load(Ordering::Relaxed) {
                return Err("interrupted".to_owned());
            }
            let idle = locked(&self.idle).pop();
            let worker = match idle {
                Some(worker) => worker,
                None => worker().map_err(|error| format!("start a thread: {error}"))?,
            };
            let (done, ended) = channel();
            let job: Job = Box::new(move || {
                // Nobody may be waiting any more.
                let _ = done.send(job());
            });
            worker.send(job).map_err(|_| "a thread ended".to_owned())?;
            loop {
                match ended.recv_timeout(LOOKS_EVERY) {
                    Ok(result) => {
                        locked(&self.idle).push(worker);
                        return Ok(result);
                    }
                    Err(RecvTimeoutError::Timeout) if self.is_stopped.load(Ordering::Relaxed) => {
                        return Err("interrupted".to_owned());
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err("a fault in lacus: it panicked".to_owned());
                    }
                }
            }
        })
    }

    /// Says that this thread is in a function, for as long as `work` takes.
    pub(crate) fn during<T>(&self, py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        let thread: u64 = py.import("threading")?.call_method0("get_ident")?.extract()?;
        locked(&self.busy).push(thread);
        let done = work();
        locked(&self.busy).retain(|busy| *busy != thread);
        done
    }

    /// Raises KeyboardInterrupt in all functions that run, and lets no other begin.
    pub(crate) fn interrupt(&self, py: Python<'_>) {
        self.is_stopped.store(true, Ordering::Relaxed);
        let busy = locked(&self.busy).clone();
        // If that fails, the query is given up all the same, and its functions end when they are done.
        let _ = py.import("lacus.udf").and_then(|module| module.call_method1("_interrupt", (busy,)));
    }
}

/// A thread that does jobs for as long as there may be some.
fn worker() -> std::io::Result<Sender<Job>> {
    let (sender, jobs) = channel::<Job>();
    thread::Builder::new().name("lacus-udf".to_owned()).spawn(move || {
        while let Ok(job) = jobs.recv() {
            job();
        }
    })?;
    Ok(sender)
}
