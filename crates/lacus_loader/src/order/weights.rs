//! Rows drawn by weight: with replacement, any position alone; without, one list per epoch.

use lacus_dataset::{Draw, drawn};

use super::chance::{mixed, scaled, unit};
use crate::error::LoaderError;

/// A table from which a row is drawn in constant time (Walker's alias method): 12 bytes per row.
#[derive(Clone, Debug)]
pub(crate) struct Alias {
    /// How likely each row keeps its own share of a draw.
    keeps: Vec<f64>,
    /// Who gets the rest.
    other: Vec<u32>,
}

impl Alias {
    /// Fails for weights that are none.
    pub(crate) fn new(weights: &[f64]) -> Result<Alias, LoaderError> {
        let count = weights.len();
        let sum = checked_sum(weights)?;
        if u32::try_from(count).is_err() {
            return Err(LoaderError::refused(format!(
                "weights for {count} rows; at most 2**32 - 1 can have weights"
            )));
        }
        let mut keeps: Vec<f64> = weights.iter().map(|weight| weight / sum * count as f64).collect();
        let mut other: Vec<u32> = (0..count as u32).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..count as u32).partition(|row| keeps[*row as usize] < 1.0);
        while let (Some(low), Some(high)) = (small.pop(), large.last().copied()) {
            other[low as usize] = high;
            keeps[high as usize] -= 1.0 - keeps[low as usize];
            if keeps[high as usize] < 1.0 {
                large.pop();
                small.push(high);
            }
        }
        // Rounding leaves rows whose share is nearly 1: they keep it, unless they weigh nothing.
        let heaviest = (0..count).max_by(|a, b| weights[*a].total_cmp(&weights[*b])).unwrap_or(0) as u32;
        for row in 0..count {
            if weights[row] == 0.0 && other[row] as usize == row {
                other[row] = heaviest;
            }
            if other[row] as usize == row {
                keeps[row] = 1.0;
            }
        }
        Ok(Alias { keeps, other })
    }

    /// The row at a position of an epoch's draws.
    pub(crate) fn at(&self, seed: u64, position: u64) -> u64 {
        let bits = mixed(&[seed, position]);
        let row = scaled(bits, self.keeps.len() as u64) as usize;
        match unit(mixed(&[bits])) < self.keeps[row] {
            true => row as u64,
            false => u64::from(self.other[row]),
        }
    }
}

/// `count` rows by weight, each at most once.
pub(crate) fn without_replacement(weights: &[f64], count: u64, seed: u64) -> Result<Vec<u64>, LoaderError> {
    let rows = weights.len() as u64;
    Ok(drawn(rows, Draw { count, seed, weights: Some(weights), replace: false })?)
}

/// The sum of weights; fails where they are not numbers of 0 or more, or all are 0.
pub(crate) fn checked_sum(weights: &[f64]) -> Result<f64, LoaderError> {
    if let Some(at) = weights.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0)) {
        let why = format!("invalid weight {} of row {at}: must be 0 or more", weights[at]);
        return Err(LoaderError::refused(why));
    }
    let sum: f64 = weights.iter().sum();
    match sum > 0.0 && sum.is_finite() {
        true => Ok(sum),
        false => Err(LoaderError::refused(format!("the weights add up to {sum}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_as_often_as_they_weigh() {
        let weights = [0.0, 1.0, 3.0, 0.0, 4.0];
        let alias = Alias::new(&weights).unwrap();
        let mut found = [0u32; 5];
        (0..80_000).for_each(|position| found[alias.at(7, position) as usize] += 1);
        assert_eq!((found[0], found[3]), (0, 0));
        for (row, expected) in [(1, 10_000), (2, 30_000), (4, 40_000)] {
            assert!(found[row].abs_diff(expected) < 700, "{found:?}");
        }
        for bad in [&[][..], &[0.0, 0.0], &[1.0, -1.0], &[f64::NAN]] {
            assert!(Alias::new(bad).is_err(), "{bad:?}");
        }
    }
}
