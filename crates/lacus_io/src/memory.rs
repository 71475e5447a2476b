//! One budget in bytes for the whole process: what is on its way from stores, and what is cached.
//!
//! ```text
//! Memory ─┬ in flight   reserve(bytes).await → Reservation, given back when dropped
//!         └ cached      Place (one per dataset) → get, put; least recently used goes first
//! ```
//!
//! Half of the budget is for bytes in flight, half for caches. A request that is larger than its half
//! goes alone rather than never. Bytes that a caller has taken over are its own and count no longer.

mod cache;
mod place;
mod size;

pub use place::Place;

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use tokio::sync::oneshot;

use cache::Cache;
use place::Places;

/// The environment variable that says how many bytes the process's budget has: a number, or one with
/// `K`, `M`, `G` or `T` (powers of 1024; `KiB` and so on too).
pub const MEMORY_VARIABLE: &str = "LACUS_MEMORY";

/// The default is this part of the machine's memory, or of what the control group allows.
const SHARE: u64 = 8;

/// Bounds of the default. Less keeps too few requests under way (8 MiB each) for an object store; more
/// was never of use.
const LEAST_BYTES: u64 = 128 << 20;
const MOST_BYTES: u64 = 4 << 30;

/// A budget. Cheap to clone; clones are the same budget.
#[derive(Clone)]
pub struct Memory {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    flight: Mutex<Flight>,
    pub(crate) cache: Cache,
    pub(crate) places: Places,
}

struct Flight {
    limit: u64,
    used: u64,
    most: u64,
    /// First come, first served, so that a large request is not starved by small ones.
    waiting: VecDeque<(u64, oneshot::Sender<Reservation>)>,
}

impl Flight {
    fn fits(&self, bytes: u64) -> bool {
        self.used == 0 || self.used.saturating_add(bytes) <= self.limit
    }

    fn take(&mut self, bytes: u64) {
        self.used = self.used.saturating_add(bytes);
        self.most = self.most.max(self.used);
    }
}

impl Memory {
    /// A budget of so many bytes.
    pub fn new(bytes: u64) -> Memory {
        let flight = Flight { limit: bytes / 2, used: 0, most: 0, waiting: VecDeque::new() };
        let cache = Cache::new(bytes - bytes / 2);
        Memory { shared: Arc::new(Shared { flight: Mutex::new(flight), cache, places: Places::default() }) }
    }

    /// The budget of this process: as many bytes as `LACUS_MEMORY` says, or an eighth of the machine's
    /// memory (128 MiB at least, 4 GiB at most).
    pub fn process() -> &'static Memory {
        static MEMORY: LazyLock<Memory> = LazyLock::new(|| {
            let said = std::env::var(MEMORY_VARIABLE).ok().and_then(|text| size::parse(&text));
            let share = || size::machine_bytes().map_or(MOST_BYTES, |all| all / SHARE);
            Memory::new(said.unwrap_or_else(|| share().clamp(LEAST_BYTES, MOST_BYTES)))
        });
        &MEMORY
    }

    /// Changes the budget. What is in flight is waited for, what is cached goes at once.
    pub fn set_bytes(&self, bytes: u64) {
        self.flight().limit = bytes / 2;
        self.shared.cache.set_limit(bytes - bytes / 2);
        self.serve();
    }

    /// The budget in bytes.
    pub fn bytes(&self) -> u64 {
        self.flight().limit + self.shared.cache.limit()
    }

    /// Bytes in flight now.
    pub fn in_flight(&self) -> u64 {
        self.flight().used
    }

    /// The most bytes that were ever in flight at once.
    pub fn most_in_flight(&self) -> u64 {
        self.flight().most
    }

    /// Bytes cached now.
    pub fn cached(&self) -> u64 {
        self.shared.cache.bytes()
    }

    /// How often something was put into the caches: what was found there was not loaded again.
    pub fn loads(&self) -> u64 {
        self.shared.cache.loads()
    }

    /// Waits until so many bytes may be in flight. Whoever holds a reservation must not wait for another
    /// one, or two might wait for each other.
    pub async fn reserve(&self, bytes: u64) -> Reservation {
        let granted = {
            let mut flight = self.flight();
            if flight.waiting.is_empty() && flight.fits(bytes) {
                flight.take(bytes);
                None
            } else {
                let (send, granted) = oneshot::channel();
                flight.waiting.push_back((bytes, send));
                Some(granted)
            }
        };
        let Some(granted) = granted else { return Reservation { memory: self.clone(), bytes } };
        match granted.await {
            Ok(reservation) => reservation,
            // The sender is dropped only after it was used.
            Err(_) => Reservation { memory: self.clone(), bytes: 0 },
        }
    }

    /// Lets those go on for whom there is room.
    fn serve(&self) {
        loop {
            let (bytes, waiter) = {
                let mut flight = self.flight();
                let Some(&(bytes, _)) = flight.waiting.front() else { return };
                if !flight.fits(bytes) {
                    return;
                }
                flight.take(bytes);
                let Some(next) = flight.waiting.pop_front() else { return };
                next
            };
            // One that nobody waits for any more comes back, and is given back by being dropped: later,
            // so that a long row of them does not pile up on the stack.
            if let Err(mut unwanted) = waiter.send(Reservation { memory: self.clone(), bytes }) {
                self.flight().used -= std::mem::take(&mut unwanted.bytes);
            }
        }
    }

    fn flight(&self) -> MutexGuard<'_, Flight> {
        self.shared.flight.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn is_same(&self, other: &Memory) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

/// Bytes that may be in flight until this is dropped.
#[derive(Debug)]
pub struct Reservation {
    memory: Memory,
    bytes: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.memory.flight().used -= self.bytes;
            self.memory.serve();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn requests_wait_in_order_and_large_ones_go_alone() {
        // Half of it is for bytes in flight.
        let memory = Memory::new(200);
        let first = memory.reserve(60).now_or_never().unwrap();
        let mut large = Box::pin(memory.reserve(500));
        let mut small = Box::pin(memory.reserve(40));
        assert!(large.as_mut().now_or_never().is_none());
        assert!(small.as_mut().now_or_never().is_none(), "it came later than the large one");
        drop(first);
        let large = large.now_or_never().expect("nothing else is in flight");
        assert!(small.as_mut().now_or_never().is_none());
        drop(large);
        let small = small.now_or_never().unwrap();
        assert_eq!((memory.in_flight(), memory.most_in_flight()), (40, 500));
        drop(small);
        assert_eq!(memory.in_flight(), 0);
    }

    #[test]
    fn those_who_give_up_take_nothing_with_them() {
        let memory = Memory::new(200);
        let first = memory.reserve(100).now_or_never().unwrap();
        let mut waiting: Vec<_> = (0..1000).map(|_| Box::pin(memory.reserve(100))).collect();
        waiting.iter_mut().for_each(|one| assert!(one.as_mut().now_or_never().is_none()));
        let mut last = waiting.pop().unwrap();
        drop(waiting);
        drop(first);
        drop(last.as_mut().now_or_never().expect("all others gave up"));
        // One that was let go on and then given up.
        let first = memory.reserve(100).now_or_never().unwrap();
        let mut granted = Box::pin(memory.reserve(100));
        assert!(granted.as_mut().now_or_never().is_none());
        drop(first);
        drop(granted);
        assert_eq!(memory.in_flight(), 0);
        // A budget that grows lets those on who waited for it.
        let _first = memory.reserve(100).now_or_never().unwrap();
        let mut more = Box::pin(memory.reserve(100));
        assert!(more.as_mut().now_or_never().is_none());
        memory.set_bytes(400);
        assert!(more.now_or_never().is_some());
    }
}
