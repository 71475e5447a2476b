//! Time, chance and threads, handed in by the caller so that a test can replace them.

use async_recursion::async_recursion as boxed;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;
use lacus_threads::Pool;
use uuid::Uuid;

/// What time it is, and how to wait.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970, UTC.
    fn now_millis(&self) -> i64;
    /// A future that is ready once `time` has passed on this clock.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}

/// A source of random bits.
pub trait Chance: Send + Sync {
    /// 64 random bits.
    fn bits(&self) -> u64;
}

/// The clock, the dice and the worker threads of one process, or of one simulated run.
#[derive(Clone)]
pub struct World {
    clock: Arc<dyn Clock>,
    chance: Arc<dyn Chance>,
    pool: Pool,
}

impl World {
    /// A world of the given parts, and the threads of the process.
    pub fn new(clock: Arc<dyn Clock>, chance: Arc<dyn Chance>) -> Self {
        World { clock, chance, pool: Pool::process().clone() }
    }

    /// The same world with other threads.
    pub fn with_pool(self, pool: Pool) -> Self {
        World { pool, ..self }
    }

    /// The machine's own clock and randomness.
    pub fn real() -> Self {
        World::new(Arc::new(SystemClock), Arc::new(SystemChance))
    }

    /// The worker threads.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Milliseconds since 1970, UTC.
    pub fn now_millis(&self) -> i64 {
        self.clock.now_millis()
    }

    /// A fresh identifier (version 4, drawn from this world's chance).
    pub fn uuid(&self) -> Uuid {
        uuid::Builder::from_random_bytes(
            (u128::from(self.chance.bits()) << 64 | u128::from(self.chance.bits())).to_be_bytes(),
        )
        .into_uuid()
    }

    /// Waits before the given attempt (0, 1, 2 …) is repeated: a random time below a bound that
    /// doubles from 2 ms to 256 ms. Full jitter keeps writers from marching in step, and the low
    /// cap keeps any one of them from starving.
    #[boxed]
    pub async fn back_off(&self, attempt: u32) {
        let bound_micros = 2_000u64 << attempt.min(7);
        let micros = self.chance.bits() % bound_micros;
        self.clock.sleep(Duration::from_micros(micros)).await;
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

struct SystemClock;

impl Clock for SystemClock {
    fn now_millis(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

struct SystemChance;

impl Chance for SystemChance {
    fn bits(&self) -> u64 {
        Uuid::new_v4().as_u64_pair().0 ^ Uuid::new_v4().as_u64_pair().1.rotate_left(17)
    }
}
