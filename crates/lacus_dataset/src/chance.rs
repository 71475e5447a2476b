//! Orders and samples that follow from a seed alone: the same on every machine and in every version.

/// Numbers that follow from a seed (SplitMix64).
pub(crate) struct Seeded(u64);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Seeded {
        Seeded(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, all of them equally likely.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        loop {
            let wide = u128::from(self.next()) * u128::from(bound);
            // The few numbers that would make some results likelier are drawn again.
            if wide as u64 >= bound.wrapping_neg() % bound {
                return (wide >> 64) as u64;
            }
        }
    }

    /// A number above 0 and below 1.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
}

/// The numbers below `count` in an order that the seed decides.
pub(crate) fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..count).collect();
    let mut chance = Seeded::new(seed);
    for last in (1..order.len()).rev() {
        order.swap(last, chance.below(last as u64 + 1) as usize);
    }
    order
}

/// `wanted` of the numbers below `count`, each at most once.
pub(crate) fn some(count: u64, wanted: u64, seed: u64) -> Vec<u64> {
    let mut chance = Seeded::new(seed);
    // The first steps of a shuffle, in which only what was moved is kept.
    let mut moved = std::collections::HashMap::new();
    let mut taken = Vec::with_capacity(wanted as usize);
    for i in 0..wanted {
        let j = i + chance.below(count - i);
        let here = moved.get(&i).copied().unwrap_or(i);
        taken.push(moved.insert(j, here).unwrap_or(j));
    }
    taken
}

/// `wanted` of the numbers below `count`, any number of times.
pub(crate) fn some_repeated(count: u64, wanted: u64, seed: u64) -> Vec<u64> {
    let mut chance = Seeded::new(seed);
    (0..wanted).map(|_| chance.below(count)).collect()
}

/// `wanted` places of `weights`, each at most once, by weight: those with the least exponentially distributed waiting times, as
/// Efraimidis and Spirakis showed. What weighs nothing is never taken.
pub(crate) fn weighted(weights: &[f64], wanted: usize, seed: u64) -> Vec<u64> {
    let mut chance = Seeded::new(seed);
    let mut waits: Vec<(f64, u64)> = Vec::with_capacity(weights.len());
    for (place, weight) in weights.iter().enumerate() {
        let wait = -chance.unit().ln();
        if *weight > 0.0 {
            waits.push((wait / weight, place as u64));
        }
    }
    waits.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    waits.into_iter().take(wanted).map(|(_, place)| place).collect()
}

/// `wanted` places of `weights` by weight, any number of times.
pub(crate) fn weighted_repeated(weights: &[f64], wanted: u64, seed: u64) -> Vec<u64> {
    let mut chance = Seeded::new(seed);
    let mut total = 0.0;
    let sums: Vec<f64> = weights
        .iter()
        .map(|weight| {
            total += weight;
            total
        })
        .collect();
    let last = weights.iter().rposition(|weight| *weight > 0.0).unwrap_or(0);
    (0..wanted)
        .map(|_| {
            let point = chance.unit() * total;
            // Rounding must not lead past the last one that weighs anything.
            sums.partition_point(|sum| *sum <= point).min(last) as u64
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_follow_from_the_seed() {
        assert_eq!(shuffled(10, 7), shuffled(10, 7));
        assert_ne!(shuffled(100, 7), shuffled(100, 8));
        // Fixed for ever: what was trained on once can be trained on again.
        assert_eq!(shuffled(8, 42), [4, 3, 2, 0, 7, 6, 1, 5]);
        let mut all = shuffled(1000, 3);
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
        assert!(shuffled(0, 1).is_empty());
    }

    #[test]
    fn samples_are_fair() {
        let mut counts = [0u32; 10];
        for seed in 0..3000 {
            let taken = some(10, 3, seed);
            let mut distinct = taken.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), 3);
            taken.iter().for_each(|i| counts[*i as usize] += 1);
        }
        assert!(counts.iter().all(|count| (750..1050).contains(count)), "{counts:?}");
        let drawn = some_repeated(4, 8000, 1);
        let of = |i: u64| drawn.iter().filter(|j| **j == i).count();
        assert!((0..4).all(|i| (1800..2200).contains(&of(i))));
    }

    #[test]
    fn weights_count() {
        let drawn = weighted_repeated(&[0.0, 1.0, 3.0, 0.0], 8000, 5);
        let of = |i: u64| drawn.iter().filter(|j| **j == i).count();
        assert_eq!((of(0), of(3)), (0, 0));
        assert!((1800..2200).contains(&of(1)), "{}", of(1));
        assert_eq!(weighted(&[0.0, 1.0, 3.0, 0.0], 2, 1).len(), 2);
        let first = (0..4000).filter(|seed| weighted(&[1.0, 3.0], 1, *seed) == [1]).count();
        assert!((2850..3150).contains(&first), "{first}");
    }
}
