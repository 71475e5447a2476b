//! Batches of samples of about the same length, so that little is padded.
//!
//! The order is cut into windows. In each, samples are sorted by length and cut into chunks, and the chunks are put into random order.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Placed;
use super::chance::{Chance, mixed};

const CHUNKS: u64 = 0x6275636b;

/// How samples are sorted into buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketSizes {
    /// Positions that are sorted together.
    pub window: u64,
    /// Samples of a bucket: those of a batch on all ranks.
    pub chunk: u64,
}

/// Lengths of samples, one for each row of each view.
pub type Lengths = Arc<[Arc<[u32]>]>;

#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    pub(crate) sizes: BucketSizes,
    lengths: Lengths,
    seed: u64,
    known: Option<(u64, Vec<Placed>)>,
}

impl Buckets {
    pub(crate) fn new(sizes: BucketSizes, lengths: Lengths, seed: u64) -> Buckets {
        Buckets { sizes, lengths, seed, known: None }
    }

    /// The sample at a position of `len`, where `plain` says which would be there without buckets.
    pub(crate) fn at(&mut self, position: u64, len: u64, mut plain: impl FnMut(u64) -> Placed) -> Placed {
        let window = position / self.sizes.window.max(1);
        let start = window * self.sizes.window.max(1);
        if self.known.as_ref().is_none_or(|(known, _)| *known != window) {
            let end = (start + self.sizes.window.max(1)).min(len);
            let mut samples: Vec<Placed> = (start..end).map(&mut plain).collect();
            let length = |placed: &Placed| {
                let of = self.lengths.get(placed.source as usize);
                of.and_then(|of| of.get(placed.place as usize)).copied().unwrap_or(0)
            };
            samples.sort_by_key(length);
            let mut chunks: Vec<&[Placed]> = samples.chunks(self.sizes.chunk.max(1) as usize).collect();
            // A short one stays at the end, so that the others are whole batches.
            let whole = samples.len() / self.sizes.chunk.max(1) as usize;
            Chance::new(mixed(&[self.seed, CHUNKS, window])).shuffle(&mut chunks[..whole]);
            self.known = Some((window, chunks.concat()));
        }
        match &self.known {
            Some((_, samples)) => samples[(position - start) as usize],
            None => plain(position),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_similar_lengths_and_every_sample_comes_once() {
        let lengths: Vec<u32> = (0..1000u32).map(|row| row.wrapping_mul(2_654_435_761) >> 22).collect();
        let all: Lengths = Arc::new([lengths.clone().into()]);
        let mut buckets = Buckets::new(BucketSizes { window: 400, chunk: 10 }, all, 3);
        let plain = |position| Placed { source: 0, place: position };
        let order: Vec<u64> = (0..1000).map(|position| buckets.at(position, 1000, plain).place).collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
        let spread = |rows: &[u64]| {
            let of = |row: &u64| lengths[*row as usize];
            rows.iter().map(of).max().unwrap_or(0) - rows.iter().map(of).min().unwrap_or(0)
        };
        let mean = |order: &[u64]| order.chunks(10).map(spread).sum::<u32>() / 100;
        assert!(mean(&order) * 10 < mean(&sorted), "{} {}", mean(&order), mean(&sorted));
        assert_ne!(order[..400], sorted[..400]);
    }
}
