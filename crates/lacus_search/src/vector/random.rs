//! Numbers that look random and depend on a seed alone: the same data gives the same index.

/// A stream of numbers (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below another.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// Some of the numbers below `end`, each once, in random order.
    pub(crate) fn some(&mut self, end: usize, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..end).collect();
        for at in 0..count.min(end) {
            let other = at + self.below(end - at);
            all.swap(at, other);
        }
        all.truncate(count);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_different_and_the_same_again() {
        let mut some = Random::new(7).some(100, 40);
        assert_eq!(some, Random::new(7).some(100, 40));
        assert_ne!(some, Random::new(8).some(100, 40));
        some.sort_unstable();
        some.dedup();
        assert!(some.len() == 40 && some.iter().all(|x| *x < 100));
        assert_eq!(Random::new(1).some(3, 9).len(), 3);
    }
}
