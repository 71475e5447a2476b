//! Who does the work?
//!
//! One pool of worker threads per process. A call that has much to do asks for a [`Team`] of some
//! threads and runs its work on it: the calling thread always takes part, and idle workers join.
//!
//! ```text
//! Pool ─team(3)→ Team ─run(work)→  calling thread  work() ─────────── waits for those who joined
//!                                  idle worker        └─ work() ─┘
//!                                  idle worker          └─ work() ┘
//! ```
//!
//! ```
//! use lacus_threads::Pool;
//!
//! let pool = Pool::new(4);
//! let squares = pool.team(4).map(vec![1, 2, 3], |n| n * n);
//! assert_eq!(squares, [1, 4, 9]);
//! ```
//!
//! A call never waits for a worker to become free: when all are busy, or there are none, the calling
//! thread does everything itself. So calls may be nested, and a small one costs no hand-over.

mod pool;
mod team;

pub use pool::{Pool, THREADS_VARIABLE};
pub use team::Team;
