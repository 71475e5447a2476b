//! Chance from a seed, and time that passes when somebody sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use lacus_io::{Chance, Clock, World};

/// A sequence of pseudo-random numbers (SplitMix64), the same for the same seed.
#[derive(Debug)]
pub struct Dice {
    state: AtomicU64,
}

impl Dice {
    /// Dice that fall as `seed` says.
    pub fn new(seed: u64) -> Self {
        Dice { state: AtomicU64::new(seed) }
    }

    /// 64 random bits.
    pub fn roll(&self) -> u64 {
        let step = 0x9e37_79b9_7f4a_7c15u64;
        let mut z = self.state.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound` (0 for a bound of 0).
    pub fn below(&self, bound: u64) -> u64 {
        self.roll().checked_rem(bound).unwrap_or(0)
    }

    /// True once in `n` times.
    pub fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }
}

impl Chance for Dice {
    fn bits(&self) -> u64 {
        self.roll()
    }
}

/// A clock that stands still until somebody sleeps, and then jumps.
#[derive(Debug)]
pub struct SimulatedClock {
    millis: Arc<AtomicI64>,
}

impl SimulatedClock {
    /// A clock that shows `millis`.
    pub fn new(millis: i64) -> Self {
        SimulatedClock { millis: Arc::new(AtomicI64::new(millis)) }
    }
}

impl Clock for SimulatedClock {
    fn now_millis(&self) -> i64 {
        // Each look takes a moment, so that two writes never happen at the same time.
        self.millis.fetch_add(1, Ordering::Relaxed)
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        self.millis.fetch_add(millis, Ordering::Relaxed);
        Box::pin(tokio::task::yield_now())
    }
}

/// A world whose clock and dice a seed decides.
pub fn seeded_world(seed: u64) -> World {
    World::new(Arc::new(SimulatedClock::new(1_700_000_000_000)), Arc::new(Dice::new(seed)))
}
