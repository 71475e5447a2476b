//! Several views in one order, by proportion.
//!
//! The order is cut into stretches of [`STRETCH`] positions. Each has as many samples of every source as its share says, exact over any
//! number of stretches, in random order. A source that is used up begins again with another order.

use super::chance::{Chance, mixed};

/// Positions after which proportions are exact (to within one sample of each source).
const STRETCH: u64 = 1024;

const SOURCES: u64 = 0x6d6978;

/// Which source comes at which position.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    /// The shares of the first source, of the first two, …; the last is 1.
    until: Vec<f64>,
    seed: u64,
    known: Option<(u64, Vec<(u32, u64)>)>,
}

impl Mix {
    /// Shares are above 0; they need not add up to 1.
    pub(crate) fn new(shares: &[f64], seed: u64) -> Mix {
        let sum: f64 = shares.iter().sum();
        let mut before = 0.0;
        let mut until: Vec<f64> = shares
            .iter()
            .map(|share| {
                before += share / sum;
                before
            })
            .collect();
        if let Some(last) = until.last_mut() {
            *last = 1.0;
        }
        Mix { until, seed, known: None }
    }

    /// How many samples of a source come in the first `stretches` stretches.
    fn before(&self, source: usize, stretches: u64) -> u64 {
        let all = (stretches * STRETCH) as f64;
        let until = |source: usize| (all * self.until[source]).floor() as u64;
        until(source) - if source == 0 { 0 } else { until(source - 1) }
    }

    /// The source at a position, and how many samples of it come before.
    pub(crate) fn at(&mut self, position: u64) -> (u32, u64) {
        let (stretch, at) = (position / STRETCH, (position % STRETCH) as usize);
        if self.known.as_ref().is_none_or(|(known, _)| *known != stretch) {
            let mut sources = Vec::with_capacity(STRETCH as usize);
            for source in 0..self.until.len() {
                let count = self.before(source, stretch + 1) - self.before(source, stretch);
                sources.extend((0..count).map(|_| source as u32));
            }
            Chance::new(mixed(&[self.seed, SOURCES, stretch])).shuffle(&mut sources);
            let mut next: Vec<u64> = (0..self.until.len()).map(|s| self.before(s, stretch)).collect();
            let numbered = sources.into_iter().map(|source| {
                next[source as usize] += 1;
                (source, next[source as usize] - 1)
            });
            self.known = Some((stretch, numbered.collect()));
        }
        self.known.as_ref().map_or((0, 0), |(_, sources)| sources[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proportions_hold_and_each_source_is_counted() {
        let mut mix = Mix::new(&[7.0, 2.0, 1.0], 5);
        let all: Vec<(u32, u64)> = (0..10 * STRETCH).map(|position| mix.at(position)).collect();
        for (source, share) in [(0, 0.7), (1, 0.2), (2, 0.1)] {
            let of: Vec<u64> = all.iter().filter(|(s, _)| *s == source).map(|(_, nth)| *nth).collect();
            assert!(of.iter().copied().eq(0..of.len() as u64));
            assert!((of.len() as f64 - share * all.len() as f64).abs() <= 1.0, "{source}: {}", of.len());
        }
        assert_eq!(mix.at(5000), all[5000]);
    }
}
