//! The one place that owns tokio. Work runs without the GIL, and Ctrl-C ends it.
//!
//! ```text
//! run_now     calling thread   detach ─ work ─ attach
//! run_here    calling thread   detach ─ work, signals looked for whenever it waits ─ attach
//! run_aside   calling thread   detach ─ wait 100 ms ─ signals? ─ wait 100 ms ─ … ─── attach
//!             worker thread             └─ work ────────────────────────────┘
//! ```
//!
//! Python runs its signal handlers on the main thread only, so work that keeps a thread busy for long has
//! to be on another. Work that does not, is spared the switches.
//!
//! **Forks.** Threads do not survive one, and what they held at that moment, from locks to the queues they
//! wait in, is lost for the child. So Python calls us before it forks: calls that run are waited for, new
//! ones are held up, and the runtime and the pool of workers are ended with all their threads. The child then finds everything as if it
//! had been alone all along, connections closed, locks open, and both go on with a fresh runtime and
//! fresh workers when they need them. A child that was forked in spite of calls that run, or without Python knowing, is told so
//! whenever it calls.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use lacus::table::TableError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use crate::calls::Calls;
use crate::errors;

/// How often a waiting call looks for signals: often enough for a finger on Ctrl-C, too seldom to be seen
/// in a profile.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// How long a fork waits for calls that run. They end on their own, so the wait is worth more than the
/// child's surprise; but a fork must not seem to hang.
const FORK_WAITS: Duration = Duration::from_secs(20);

/// How often a fork looks whether they have ended.
const FORK_LOOKS_EVERY: Duration = Duration::from_millis(1);

struct State {
    /// The process this is the state of.
    pid: u32,
    runtime: Option<Arc<Runtime>>,
    /// Calls under way.
    running: usize,
    /// Forks under way: threads between the call before and the call after.
    forks: usize,
    /// Whether one of them ends threads at the moment: others wait, as a fork in the middle of it would leave the child a
    /// part of them.
    ending: bool,
    /// Set in a child that has lost threads in the middle of their work.
    broken: bool,
}

thread_local! {
    /// True while this thread runs a function of the caller's that is told of progress: the work it belongs to holds the
    /// dataset, and would wait for the function as the function for it.
    static TELLING: Cell<bool> = const { Cell::new(false) };
    /// True while this thread runs a function that a query calls: the query is a call under way, which ends after those that
    /// the function makes.
    static CALLING: Cell<bool> = const { Cell::new(false) };
}

/// Runs a function that a query calls.
pub(crate) fn calling<T>(call: impl FnOnce() -> T) -> T {
    CALLING.set(true);
    let done = call();
    CALLING.set(false);
    done
}

/// Calls a function that is told of progress.
pub(crate) fn telling<T>(call: impl FnOnce() -> T) -> T {
    TELLING.set(true);
    let told = call();
    TELLING.set(false);
    told
}

/// Locked only while the GIL is held, and never across a release of it. Python forks while it holds the GIL,
/// so a child never finds this locked.
static STATE: Mutex<State> =
    Mutex::new(State { pid: 0, runtime: None, running: 0, forks: 0, ending: false, broken: false });

fn state(_: Python<'_>) -> MutexGuard<'static, State> {
    let mut state = STATE.lock().unwrap_or_else(|e| e.into_inner());
    let pid = std::process::id();
    if state.pid != pid {
        // A fork that we were not told of: harmless if there was nothing to lose.
        state.broken |= state.pid != 0 && (state.runtime.is_some() || state.running > 0);
        state.pid = pid;
    }
    state
}

/// A call under way. Made and dropped with the GIL held. One that needs no runtime has none.
struct Call<R = Arc<Runtime>> {
    runtime: R,
}

impl Call {
    fn begin(py: Python<'_>) -> PyResult<Call> {
        Call::begin_with(py, |state| match &state.runtime {
            Some(runtime) => Ok(Arc::clone(runtime)),
            None => {
                let made = Builder::new_multi_thread().thread_name("lacus").enable_all().build();
                let made = made.map_err(|e| errors::unavailable(py, format!("start threads: {e}")))?;
                Ok(Arc::clone(state.runtime.insert(Arc::new(made))))
            }
        })
    }
}

impl<R> Call<R> {
    fn begin_with(py: Python<'_>, runtime: impl Fn(&mut State) -> PyResult<R>) -> PyResult<Call<R>> {
        if TELLING.get() {
            let message =
                "a progress function runs in the middle of the work, and cannot use datasets itself";
            return Err(errors::invalid(py, message));
        }
        loop {
            let mut state = state(py);
            if state.broken {
                let message = "this process was forked while lacus was at work in another thread, which broke it \
                               here; fork before, or start processes with the method \"spawn\" or \"forkserver\"";
                return Err(errors::unavailable(py, message));
            }
            // A fork waits for the query, and so for this call.
            if state.forks == 0 || CALLING.get() {
                let runtime = runtime(&mut state)?;
                state.running += 1;
                return Ok(Call { runtime });
            }
            drop(state);
            py.detach(|| thread::sleep(FORK_LOOKS_EVERY));
        }
    }

    fn end(self, py: Python<'_>) {
        state(py).running -= 1;
    }
}

/// Whether what this process inherited can be used and dropped.
pub(crate) fn is_sound() -> bool {
    Python::attach(|py| !state(py).broken)
}

/// Waits for calls that run and ends the runtime. Called by Python before it forks.
#[pyfunction]
fn before_fork(py: Python<'_>) {
    state(py).forks += 1;
    let give_up = Instant::now() + FORK_WAITS;
    let is_busy = || {
        let state = state(py);
        state.running > 0 || state.ending
    };
    while is_busy() && Instant::now() < give_up {
        py.detach(|| thread::sleep(FORK_LOOKS_EVERY));
    }
    let mut now = state(py);
    if now.running > 0 || now.ending || now.broken {
        return;
    }
    now.ending = true;
    let runtime = now.runtime.take();
    drop(now);
    // The last reference, as no call runs: its threads are joined here, and so are the workers, who have nothing to do.
    py.detach(|| {
        drop(runtime);
        lacus::io::Pool::end_process_workers();
    });
    state(py).ending = false;
}

/// Called by Python after a fork, in the parent.
#[pyfunction]
fn after_fork_in_parent(py: Python<'_>) {
    state(py).forks -= 1;
}

/// Called by Python after a fork, in the child.
#[pyfunction]
fn after_fork_in_child(py: Python<'_>) {
    let mut state = state(py);
    state.forks = 0;
    state.running = 0;
    state.ending = false;
}

/// Asks Python to be called around forks.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let hooks = pyo3::types::PyDict::new(py);
    hooks.set_item("before", wrap_pyfunction!(before_fork, py)?)?;
    hooks.set_item("after_in_parent", wrap_pyfunction!(after_fork_in_parent, py)?)?;
    hooks.set_item("after_in_child", wrap_pyfunction!(after_fork_in_child, py)?)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&hooks))?;
    Ok(())
}

/// How a call that is interrupted comes to an end.
pub(crate) enum Interrupt {
    /// Given up at once: a read changes nothing.
    Abandon,
    /// Told by its flag and waited for, so that it can clean up; given up at the second interrupt.
    Cancel(Arc<AtomicBool>),
    /// Given up at once, and functions of the caller's that it runs are interrupted.
    Calls(Arc<Calls>),
}

/// What became of the work.
pub(crate) type Outcome<T> = Result<T, TableError>;

/// Runs work that waits for nobody and is done sooner than a thread is started, on this thread and without the runtime. It
/// cannot be interrupted.
pub(crate) fn run_now<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let call = Call::begin_with(py, |_| Ok(()))?;
    let ended = py.detach(|| catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panic_text(&*panic)));
    call.end(py);
    ended.map_err(|panic| errors::internal(py, panic))
}

/// Runs work that waits for others or is done at once, but never computes for long, on this thread. A
/// signal handler that raises ends it, and its exception is what the caller gets.
pub(crate) fn run_here<T, F>(py: Python<'_>, work: impl FnOnce() -> F + Send) -> PyResult<Outcome<T>>
where
    T: Send,
    F: Future<Output = Outcome<T>>,
{
    let call = Call::begin(py)?;
    let runtime = &call.runtime;
    let ended = py.detach(|| {
        let on_this_thread = || {
            runtime.block_on(async {
                let mut work = pin!(work());
                loop {
                    tokio::select! {
                        biased;
                        outcome = &mut work => return Ok(outcome),
                        () = tokio::time::sleep(SIGNALS_EVERY) => Python::attach(|py| py.check_signals())?,
                    }
                }
            })
        };
        catch_unwind(AssertUnwindSafe(on_this_thread)).map_err(|panic| panic_text(&*panic))
    });
    call.end(py);
    ended.unwrap_or_else(|panic| Err(errors::internal(py, panic)))
}

/// Runs work that may take long on a thread of its own, with the same effect.
pub(crate) fn run_aside<T, F>(
    py: Python<'_>,
    interrupt: &Interrupt,
    work: impl FnOnce() -> F + Send,
) -> PyResult<Outcome<T>>
where
    T: Send,
    F: Future<Output = Outcome<T>>,
{
    let call = Call::begin(py)?;
    let runtime = &call.runtime;
    let abandoned = Notify::new();
    let (joined, signal) = py.detach(|| {
        let (done, ended) = channel::<()>();
        thread::scope(|scope| {
            let body = || {
                // Dropped when the work ends, in whatever way, which wakes the waiting thread.
                let _done = done;
                runtime.block_on(async {
                    tokio::select! {
                        biased;
                        () = abandoned.notified() => Err(TableError::Cancelled),
                        outcome = work() => outcome,
                    }
                })
            };
            let worker = match thread::Builder::new().name("lacus-call".to_owned()).spawn_scoped(scope, body)
            {
                Ok(worker) => worker,
                Err(error) => return (Err(format!("start a thread: {error}")), None),
            };
            let mut signal: Option<PyErr> = None;
            while ended.recv_timeout(SIGNALS_EVERY) == Err(RecvTimeoutError::Timeout) {
                let Err(raised) = Python::attach(|py| py.check_signals()) else { continue };
                match interrupt {
                    Interrupt::Cancel(flag) if !flag.swap(true, Ordering::Relaxed) => {}
                    Interrupt::Calls(calls) => {
                        Python::attach(|py| calls.interrupt(py));
                        abandoned.notify_one();
                    }
                    _ => abandoned.notify_one(),
                }
                signal.get_or_insert(raised);
            }
            (worker.join().map_err(|panic| panic_text(&*panic)), signal)
        })
    });
    call.end(py);
    match (signal, joined) {
        (Some(signal), _) => Err(signal),
        (None, Ok(outcome)) => Ok(outcome),
        (None, Err(panic)) => Err(errors::internal(py, panic)),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a fault in lacus: {}", text.unwrap_or("it panicked"))
}
