//! The test world: a clock that a test moves, dice that a seed decides, and a store that fails when
//! told to. A failing seed reproduces.
//!
//! ```
//! use lacus_simulation::{Dice, seeded_world};
//! let (a, b) = (seeded_world(7), seeded_world(7));
//! assert_eq!(a.uuid(), b.uuid());
//! assert_eq!(Dice::new(3).below(10), Dice::new(3).below(10));
//! ```

mod dice;
mod flaky;

pub use dice::{Dice, SimulatedClock, seeded_world};
pub use flaky::{Faults, FlakyStore};
