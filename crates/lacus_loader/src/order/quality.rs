//! How well is an order shuffled? The entropy of the distances between neighbours, compared with that of a full shuffle.

use std::collections::HashMap;

use super::chance::{Chance, mixed};

/// Positions that are looked at: the measure hardly changes with more.
pub(crate) const LOOKED_AT: u64 = 1 << 17;

/// The entropy, in bits, of how far neighbours in an order are apart.
pub fn entropy(order: &[u64]) -> f64 {
    let mut counts: HashMap<u64, u32> = HashMap::new();
    for pair in order.windows(2) {
        *counts.entry(pair[0].abs_diff(pair[1])).or_default() += 1;
    }
    let all = order.len().saturating_sub(1) as f64;
    // In a fixed order, so that the sum is the same each time.
    let mut counts: Vec<u32> = counts.into_values().collect();
    counts.sort_unstable();
    let bits: f64 =
        counts.into_iter().map(|count| f64::from(count) / all).map(|share| -share * share.log2()).sum();
    // Without the sign of a zero.
    bits + 0.0
}

/// The entropy of the first places of an order of `rows` rows, as a share of what a full shuffle of them has: 0 for rows in their
/// order, 1 for a full shuffle.
pub fn quality(order: &[u64], rows: u64) -> f64 {
    if order.len() < 3 {
        return 1.0;
    }
    let mut chance = Chance::new(mixed(&[rows]));
    let full: Vec<u64> = match order.len() as u64 == rows {
        true => {
            let mut all: Vec<u64> = (0..rows).collect();
            chance.shuffle(&mut all);
            all
        }
        // So few of so many hardly ever come twice.
        false => (0..order.len()).map(|_| super::chance::scaled(chance.next(), rows.max(1))).collect(),
    };
    let best = entropy(&full);
    if best > 0.0 { (entropy(order) / best).min(1.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_has_no_entropy_and_chance_has_all() {
        let rows: Vec<u64> = (0..5000).collect();
        assert_eq!(entropy(&rows), 0.0);
        let mut shuffled = rows.clone();
        Chance::new(1).shuffle(&mut shuffled);
        assert!(quality(&shuffled, 5000) > 0.99);
        assert_eq!(quality(&rows, 5000), 0.0);
    }
}
