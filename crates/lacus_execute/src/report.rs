//! What a run has done so far, for those who watch it and for those who want to know afterwards.

use std::fmt;

/// Numbers of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Units that are done, and that there are as far as is known.
    pub done: u64,
    /// Units that are planned so far; loops add theirs round by round.
    pub planned: u64,
    /// Operations on elements.
    pub operations: f64,
    /// Seconds since the start.
    pub secs: f64,
    /// Bytes of tiles that were read from datasets.
    pub read_bytes: u64,
    /// Bytes of tiles that were stored.
    pub written_bytes: u64,
    /// Bytes of tiles in memory now.
    pub memory_bytes: u64,
    /// The most there were.
    pub peak_bytes: u64,
    /// The budget.
    pub budget_bytes: u64,
    /// Bytes that were put aside on disk.
    pub spilled_bytes: u64,
    /// Bytes that were read back.
    pub reread_bytes: u64,
    /// Rounds of loops, those of the run that this one goes on with included.
    pub rounds: u64,
    /// Rounds of outermost loops that an earlier run had done.
    pub resumed_rounds: u64,
    /// Elements that went from one site to another.
    pub moved_floats: u128,
    /// The same in bytes.
    pub moved_bytes: u128,
    /// Workers.
    pub workers: usize,
    /// Whether an integer was divided by zero, where that is no error.
    pub divided_by_zero: bool,
}

impl Report {
    /// Operations per second, in billions.
    pub fn gflops(&self) -> f64 {
        if self.secs > 0.0 { self.operations / self.secs / 1e9 } else { 0.0 }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let human = crate::error::human;
        write!(
            f,
            "{}/{} units, {:.1} GFLOP/s, {} read, {} in memory (peak {} of {}), {} spilled",
            self.done,
            self.planned,
            self.gflops(),
            human(self.read_bytes),
            human(self.memory_bytes),
            human(self.peak_bytes),
            human(self.budget_bytes),
            human(self.spilled_bytes),
        )
    }
}
