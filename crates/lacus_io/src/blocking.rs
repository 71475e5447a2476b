//! Sync work inside async functions.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs sync work that takes a while, without holding up the other tasks of a multi-threaded
/// runtime.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(work)
        }
        _ => work(),
    }
}

/// Runs sync work that may itself wait for the runtime, which it finds as the current one. It runs on this thread, unless
/// that thread drives a single-threaded runtime: tokio lets no one wait there, so the work gets a thread of its own. The pool
/// cannot lend one, because its callers always take part themselves.
pub fn on_plain_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let single = |runtime: &Handle| runtime.runtime_flavor() != RuntimeFlavor::MultiThread;
    let Some(runtime) = Handle::try_current().ok().filter(single) else { return blocking(work) };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _inside = runtime.enter();
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
