//! Shuffling within blocks: runs of rows are permuted, then the rows of several runs together.
//!
//! ```text
//! rows     0 1 2 3 | 4 5 6 7 | 8 9 10 11 | 12 13          runs of rows that lie next to each other
//! permuted 8 9 10 11 | 0 1 2 3 ‖ 12 13 | 4 5 6 7          ‖ ends a block
//! order    1 10 0 8 11 3 9 2 ‖ 5 13 4 12 7 6
//! ```
//!
//! Whoever reads a block reads a few long runs; whoever trains on it sees rows from all over the dataset.

use super::chance::{Chance, Permutation, mixed};

/// Keeps the random choices of this file apart from those of others.
const RUNS: u64 = 0x72756e73;
const ROWS: u64 = 0x726f7773;

/// The order of `count` rows, shuffled within blocks. Any block can be asked for; the last one is kept.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    count: u64,
    run: u64,
    runs_per_block: u64,
    runs: Permutation,
    /// Where the last run stands, which may be shorter, and by how much it is.
    short_at: u64,
    lacking: u64,
    seed: u64,
    known: Option<(u64, Vec<u64>)>,
}

impl Blocks {
    /// `run` rows per run and about `block` rows per block; both at least 1.
    pub(crate) fn new(count: u64, run: u64, block: u64, seed: u64) -> Blocks {
        let run = run.clamp(1, count.max(1));
        let slots = count.div_ceil(run).max(1);
        let runs = Permutation::new(slots, mixed(&[seed, RUNS]));
        let short_at = runs.place_of(slots - 1);
        let runs_per_block = (block / run).max(1);
        Blocks { count, run, runs_per_block, runs, short_at, lacking: slots * run - count, seed, known: None }
    }

    /// The first position of a block.
    fn start(&self, block: u64) -> u64 {
        let slot = block * self.runs_per_block;
        let lacking = if self.short_at < slot { self.lacking } else { 0 };
        (slot * self.run - lacking).min(self.count)
    }

    /// The block that a position is in, and the positions of that block.
    pub(crate) fn block_of(&self, position: u64) -> (u64, std::ops::Range<u64>) {
        let mut block = position / (self.runs_per_block * self.run);
        if self.start(block + 1) <= position {
            block += 1;
        }
        (block, self.start(block)..self.start(block + 1))
    }

    /// The row at a position.
    pub(crate) fn at(&mut self, position: u64) -> u64 {
        let (block, positions) = self.block_of(position);
        let at = (position - positions.start) as usize;
        match &self.known {
            Some((known, rows)) if *known == block => rows[at],
            _ => {
                let rows = self.rows(block);
                let row = rows[at];
                self.known = Some((block, rows));
                row
            }
        }
    }

    fn rows(&self, block: u64) -> Vec<u64> {
        let slots = self.count.div_ceil(self.run);
        let first = block * self.runs_per_block;
        let mut rows = Vec::new();
        for slot in first..(first + self.runs_per_block).min(slots) {
            let run = self.runs.at(slot);
            rows.extend(run * self.run..((run + 1) * self.run).min(self.count));
        }
        Chance::new(mixed(&[self.seed, ROWS, block])).shuffle(&mut rows);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_comes_once_from_anywhere() {
        for (count, run, block) in
            [(1, 1, 1), (14, 4, 8), (1000, 7, 50), (1000, 1, 1), (97, 100, 1000), (50, 3, 1)]
        {
            let mut blocks = Blocks::new(count, run, block, 9);
            let order: Vec<u64> = (0..count).map(|position| blocks.at(position)).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..count).collect::<Vec<_>>(), "{count} {run} {block}");
            let backwards: Vec<u64> = (0..count).rev().map(|position| blocks.at(position)).collect();
            assert!(order.iter().eq(backwards.iter().rev()));
        }
    }

    #[test]
    fn a_block_holds_whole_runs() {
        let mut blocks = Blocks::new(10_000, 16, 640, 3);
        let (_, positions) = blocks.block_of(3000);
        assert!((625..=640).contains(&(positions.end - positions.start)));
        let mut runs: Vec<u64> = positions.map(|position| blocks.at(position) / 16).collect();
        runs.sort_unstable();
        runs.dedup();
        assert_eq!(runs.len(), 40);
    }
}
