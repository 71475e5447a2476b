//! What a plan is made for: sites, what they can do, and what is to be little.

use crate::error::AlgebraError;

/// What a site can do. The defaults are one core of 2024 and a network of 10 Gb/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Operations on elements per second of a site.
    pub operations_per_sec: f64,
    /// Bytes per second that a site sends or receives.
    pub bytes_per_sec: f64,
    /// What a task takes on top of its operations.
    pub task_secs: f64,
    /// Bytes per second to and from a site's disk, for what does not fit memory.
    pub spill_bytes_per_sec: f64,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine {
            // A double-precision product of matrices does some 25 multiplications and additions per nanosecond.
            operations_per_sec: 2.5e10,
            bytes_per_sec: 1.25e9,
            task_secs: 1e-5,
            spill_bytes_per_sec: 1e9,
        }
    }
}

/// What is to be little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Objective {
    /// Elements that move between sites, with at least as many sites at work as TensorPlanner's ⌊√p⌋ × ⌊p/⌊√p⌋⌋ uses.
    /// (On one site nothing would move.)
    Moved,
    /// The time that all takes, as estimated.
    #[default]
    Time,
}

/// What a program is planned for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanOptions {
    /// Sites there are.
    pub sites: u64,
    /// The extent of a tile along every axis; `None` chooses one.
    pub block: Option<u64>,
    /// What is to be little.
    pub objective: Objective,
    /// What a site can do.
    pub machine: Machine,
    /// Bytes of memory of a site; `None` for as many as it takes.
    pub memory_bytes: Option<u64>,
    /// Rounds that a loop is assumed to take whose end depends on data, at least 2.
    pub rounds: u64,
    /// Tiles that the search may look at for each of its choices: the more, the more combinations of spreads it compares.
    pub effort: u64,
}

impl Default for PlanOptions {
    fn default() -> PlanOptions {
        PlanOptions {
            sites: 1,
            block: None,
            objective: Objective::default(),
            machine: Machine::default(),
            memory_bytes: None,
            rounds: 10,
            // A fraction of a second.
            effort: 20_000_000,
        }
    }
}

/// Sites that are planned for, at most: sets of them are kept for every tile.
pub const MAX_SITES: u64 = 4096;

impl PlanOptions {
    /// Fails with the number that cannot be.
    pub fn check(&self) -> Result<(), AlgebraError> {
        let wrong = |what, expected, found: String| Err(AlgebraError::Argument { what, expected, found });
        if !(1..=MAX_SITES).contains(&self.sites) {
            return wrong("a number of sites", "between 1 and 4096", self.sites.to_string());
        }
        if self.block == Some(0) {
            return wrong("the extent of a tile", "at least 1", "0".to_owned());
        }
        // The body of a `while` runs once less than its condition.
        if self.rounds < 2 {
            return wrong("the assumed rounds of a loop", "at least 2", self.rounds.to_string());
        }
        let machine = &self.machine;
        for speed in [machine.operations_per_sec, machine.bytes_per_sec, machine.spill_bytes_per_sec] {
            if !(speed > 0.0 && speed.is_finite()) {
                return wrong("a speed", "a number above 0", speed.to_string());
            }
        }
        if !(machine.task_secs >= 0.0 && machine.task_secs.is_finite()) {
            return wrong("the time of a task", "a number from 0", machine.task_secs.to_string());
        }
        Ok(())
    }

    /// Sites that are at work at least when only movement counts.
    pub fn least_sites(&self) -> u64 {
        let root = self.sites.isqrt().max(1);
        root * (self.sites / root)
    }
}
