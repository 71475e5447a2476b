//! Random numbers that follow from a seed alone: the same on every machine and in every version.

/// Scrambles 64 bits (the finish of SplitMix64).
fn scrambled(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// One number made of several: a seed for something that has a number of its own.
pub(crate) fn mixed(parts: &[u64]) -> u64 {
    parts.iter().fold(0x243f_6a88_85a3_08d3, |mixed, part| {
        scrambled((mixed ^ scrambled(part.wrapping_add(STEP))).wrapping_add(STEP))
    })
}

/// A number below `bound` for random bits, all of them as likely as 64 bits allow.
pub(crate) fn scaled(bits: u64, bound: u64) -> u64 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u64
}

/// A number from 0 up to, but not including, 1.
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// Numbers in a row (SplitMix64).
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        scrambled(self.0)
    }

    /// Puts items into a random order (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = scaled(self.next(), last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

/// A permutation of the numbers below `count` that takes no memory: any of its places is computed alone.
///
/// It is a Feistel network over the next even number of bits; numbers that fall outside are sent through again until they are inside,
/// which takes fewer than four rounds on average.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    count: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

/// Four rounds make a network that cannot be told from chance by an observer of this little patience; six are for small counts, whose
/// halves have few bits.
const ROUNDS: usize = 6;

impl Permutation {
    pub(crate) fn new(count: u64, seed: u64) -> Permutation {
        let bits = 64 - count.saturating_sub(1).leading_zeros();
        let mut chance = Chance::new(seed);
        Permutation {
            count,
            half_bits: bits.div_ceil(2).max(1),
            keys: std::array::from_fn(|_| chance.next()),
        }
    }

    fn mask(&self) -> u64 {
        (1 << self.half_bits) - 1
    }

    fn once(&self, number: u64) -> u64 {
        let (mut left, mut right) = (number >> self.half_bits, number & self.mask());
        for key in self.keys {
            (left, right) = (right, left ^ (scrambled(right ^ key) & self.mask()));
        }
        left << self.half_bits | right
    }

    fn once_back(&self, number: u64) -> u64 {
        let (mut left, mut right) = (number >> self.half_bits, number & self.mask());
        for key in self.keys.iter().rev() {
            (left, right) = (right ^ (scrambled(left ^ key) & self.mask()), left);
        }
        left << self.half_bits | right
    }

    /// What stands at a place below the count.
    pub(crate) fn at(&self, place: u64) -> u64 {
        let mut number = self.once(place);
        while number >= self.count {
            number = self.once(number);
        }
        number
    }

    /// Where a number below the count stands.
    pub(crate) fn place_of(&self, number: u64) -> u64 {
        let mut place = self.once_back(number);
        while place >= self.count {
            place = self.once_back(place);
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_has_each_number_once_and_knows_where() {
        for count in [1u64, 2, 3, 7, 8, 100, 1000, 4097] {
            for seed in 0..5 {
                let permutation = Permutation::new(count, seed);
                let mut found: Vec<u64> = (0..count).map(|place| permutation.at(place)).collect();
                (0..count).for_each(|n| assert_eq!(permutation.at(permutation.place_of(n)), n));
                found.sort_unstable();
                assert_eq!(found, (0..count).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn every_order_of_few_is_about_as_likely() {
        let mut seen = std::collections::BTreeMap::<Vec<u64>, u32>::new();
        for seed in 0..24_000u64 {
            let permutation = Permutation::new(4, mixed(&[seed]));
            *seen.entry((0..4).map(|place| permutation.at(place)).collect()).or_default() += 1;
        }
        assert_eq!(seen.len(), 24);
        assert!(seen.values().all(|count| (700..1300).contains(count)), "{seen:?}");
    }

    #[test]
    fn orders_never_change() {
        // What was trained on once can be trained on again.
        let permutation = Permutation::new(10, 42);
        let order: Vec<u64> = (0..10).map(|place| permutation.at(place)).collect();
        assert_eq!(order, [2, 7, 4, 0, 8, 3, 6, 9, 5, 1]);
        assert_eq!(mixed(&[1, 2, 3]), 16_299_856_255_350_999_488);
    }
}
