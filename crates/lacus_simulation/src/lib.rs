//! The test world: a clock that a test moves, dice that a seed decides, a store that fails when
//! told to, and one that counts round trips. A failing seed reproduces. [`conformance`] is what every store promises, as a
//! suite of checks.
//!
//! ```
//! use lacus_simulation::{Dice, seeded_world};
//! let (a, b) = (seeded_world(7), seeded_world(7));
//! assert_eq!(a.uuid(), b.uuid());
//! assert_eq!(Dice::new(3).below(10), Dice::new(3).below(10));
//! ```

mod dice;
mod flaky;
mod rounds;
pub mod conformance;

pub use dice::{Dice, SimulatedClock, seeded_world};
pub use flaky::{Faults, FlakyStore};
pub use rounds::RoundsStore;
