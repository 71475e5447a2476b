//! In which order rows come by their distances, and the first of them.
//!
//! The order is that of `ORDER BY … LIMIT`: floats by their total order, missing ones first or last, equal ones by their place.

use std::collections::BinaryHeap;

/// Which rows come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd)]
pub struct Ranking {
    /// Whether the greatest value comes first.
    pub descending: bool,
    /// Whether rows without a value come before all others.
    pub nulls_first: bool,
    /// Whether rows whose value is NaN count as rows without one.
    pub nan_is_null: bool,
}

impl Ranking {
    /// A number that is less the earlier a row with this value comes.
    #[inline]
    pub(crate) fn key(self, value: f64) -> u64 {
        if self.nan_is_null && value.is_nan() {
            return self.null();
        }
        let bits = value.to_bits() as i64;
        // As `f64::total_cmp` has it, from zero on.
        let key = ((bits ^ (((bits >> 63) as u64) >> 1) as i64) as u64) ^ (1 << 63);
        let key = if self.descending { !key } else { key };
        // The very ends stand for rows without a value.
        key.clamp(1, u64::MAX - 1)
    }

    /// The same for a row without a value.
    pub(crate) fn null(self) -> u64 {
        if self.nulls_first { 0 } else { u64::MAX }
    }
}

/// The first rows so far.
#[derive(Debug)]
pub(crate) struct Top {
    most: usize,
    /// No greater key gets in.
    limit: u64,
    /// Keys and places, the last first.
    held: BinaryHeap<(u64, u64)>,
}

impl Top {
    /// At most so many.
    pub(crate) fn new(most: usize) -> Top {
        Top::below(most, u64::MAX)
    }

    /// At most so many, with keys of at most `limit`.
    pub(crate) fn below(most: usize, limit: u64) -> Top {
        Top { most, limit, held: BinaryHeap::with_capacity(most.min(1024) + 1) }
    }

    /// How many it holds at most.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// The greatest key that may still get in.
    #[inline]
    pub(crate) fn worst(&self) -> u64 {
        match self.held.peek() {
            Some((key, _)) if self.held.len() >= self.most => *key,
            _ => self.limit,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, key: u64, place: u64) {
        if self.held.len() < self.most {
            self.held.push((key, place));
        } else if let Some(mut last) = self.held.peek_mut()
            && (key, place) < *last
        {
            *last = (key, place);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn add(&mut self, other: Top) {
        other.held.into_iter().for_each(|(key, place)| self.push(key, place));
    }

    /// Keys and places in order.
    pub(crate) fn into_sorted(self) -> Vec<(u64, u64)> {
        self.held.into_sorted_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(ranking: Ranking, values: &[Option<f64>], most: usize) -> Vec<u64> {
        let mut top = Top::new(most);
        for (place, value) in values.iter().enumerate().rev() {
            top.push(value.map_or(ranking.null(), |value| ranking.key(value)), place as u64);
        }
        top.into_sorted().into_iter().map(|(_, place)| place).collect()
    }

    #[test]
    fn the_order_is_that_of_sql() {
        let up = Ranking { descending: false, nulls_first: false, nan_is_null: false };
        let down = Ranking { descending: true, nulls_first: true, nan_is_null: false };
        let values =
            [Some(1.0), None, Some(f64::NAN), Some(-0.0), Some(0.0), Some(1.0), Some(f64::NEG_INFINITY)];
        assert_eq!(places(up, &values, 9), [6, 3, 4, 0, 5, 2, 1]);
        assert_eq!(places(down, &values, 9), [1, 2, 0, 5, 4, 3, 6]);
        let last = Ranking { nulls_first: false, nan_is_null: true, ..down };
        assert_eq!(places(last, &values, 9), [0, 5, 4, 3, 6, 1, 2]);
        assert_eq!(places(up, &values, 3), [6, 3, 4]);
        assert_eq!(places(up, &values, 0), [] as [u64; 0]);
    }
}
