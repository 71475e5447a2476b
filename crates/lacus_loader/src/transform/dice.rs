//! Random numbers of one step for one sample: they follow from (seed, epoch, row, step) alone, so that threads, machines and the
//! order of work have no part in them. Fixed for ever: what was trained on once can be trained on again.

use crate::sample_transform::SampleKey;

/// Numbers in a row (SplitMix64), from a start of their own for each step of each sample.
pub(super) struct Dice(u64);

/// The golden ratio as a fraction of 2^64, which SplitMix64 counts by.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

impl Dice {
    /// `step` is the place of the step in its list.
    pub(super) fn new(key: SampleKey, step: usize) -> Dice {
        let start = [key.epoch, key.row, step as u64]
            .iter()
            .fold(mixed(key.seed.wrapping_add(STEP)), |state, &part| {
                mixed(state.wrapping_add(STEP) ^ mixed(part.wrapping_add(STEP)))
            });
        Dice(start)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mixed(self.0)
    }

    /// A number below `bound`, all of them equally likely.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        loop {
            let wide = u128::from(self.next()) * u128::from(bound);
            // The few numbers that would make some results likelier are drawn again.
            if wide as u64 >= bound.wrapping_neg() % bound {
                return (wide >> 64) as u64;
            }
        }
    }

    /// A number from 0 up to, but not including, 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number between two.
    pub(super) fn between(&mut self, [low, high]: [f64; 2]) -> f64 {
        low + (high - low) * self.unit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dice(seed: u64, epoch: u64, row: u64, step: usize) -> Dice {
        Dice::new(SampleKey { seed, epoch, row }, step)
    }

    #[test]
    fn numbers_are_fixed_for_ever() {
        let first = |seed, epoch, row, step| dice(seed, epoch, row, step).next();
        assert_eq!(
            [first(0, 0, 0, 0), first(1, 0, 0, 0), first(0, 1, 0, 0), first(0, 0, 1, 0), first(0, 0, 0, 1)],
            [
                0x993e_b9ad_c48b_88e0,
                0x353e_4bc3_5009_2183,
                0x4a9e_f135_14b2_4be5,
                0x9c63_27c0_3c73_43fe,
                0x0a12_b4b6_bba6_c529
            ]
        );
    }

    #[test]
    fn every_part_of_the_key_counts() {
        let mut seen = std::collections::HashSet::new();
        for seed in 0..6 {
            for epoch in 0..6 {
                for row in 0..6 {
                    for step in 0..6 {
                        assert!(seen.insert(dice(seed, epoch, row, step).next()));
                    }
                }
            }
        }
    }

    #[test]
    fn numbers_of_neighbouring_rows_are_spread_evenly() {
        let mut counts = [0u32; 10];
        (0..10_000).for_each(|row| counts[(dice(7, 0, row, 2).unit() * 10.0) as usize] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        let mut counts = [0u32; 6];
        (0..6_000).for_each(|epoch| counts[dice(7, epoch, 3, 2).below(6) as usize] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
