//! Some of many rows, at random: which places, by a seed.

use crate::chance;
use crate::error::DatasetError;

/// How many of a sample to draw, and how.
#[derive(Clone, Copy, Debug)]
pub struct Draw<'a> {
    /// How many.
    pub count: u64,
    /// What decides which.
    pub seed: u64,
    /// How likely each row is compared with others, one number for each.
    pub weights: Option<&'a [f64]>,
    /// Whether a row may be drawn more than once.
    pub replace: bool,
}

/// The places that are drawn of `rows` rows. Fails for weights that are none, and for more rows than there are.
pub fn drawn(rows: u64, draw: Draw<'_>) -> Result<Vec<u64>, DatasetError> {
    let Draw { count, seed, weights, replace } = draw;
    let refused = |why: String| Err(DatasetError::refused("sample", why));
    if let Some(weights) = weights {
        if weights.len() as u64 != rows {
            return refused(format!("{} weights for {rows} rows", weights.len()));
        }
        if let Some(weight) = weights.iter().find(|weight| !(weight.is_finite() && **weight >= 0.0)) {
            return refused(format!("invalid weight {weight}: must be 0 or more"));
        }
        let sum: f64 = weights.iter().sum();
        if count > 0 && sum <= 0.0 {
            return refused("the weights add up to 0".to_owned());
        }
        if !sum.is_finite() {
            return refused("the weights sum up to more than a number can hold".to_owned());
        }
    }
    let candidates = match weights {
        Some(weights) => weights.iter().filter(|weight| **weight > 0.0).count() as u64,
        None => rows,
    };
    if (!replace && count > candidates) || (count > 0 && candidates == 0) {
        let which = if weights.is_some() { "rows with a weight above zero" } else { "rows" };
        return refused(format!("{count} of {candidates} {which}; replace=True draws rows more than once"));
    }
    if Vec::<u64>::new().try_reserve_exact(usize::try_from(count).unwrap_or(usize::MAX)).is_err() {
        return refused(format!("{count} rows are more than memory can hold"));
    }
    Ok(match (weights, replace) {
        (None, false) => chance::some(rows, count, seed),
        (None, true) => chance::some_repeated(rows, count, seed),
        (Some(weights), false) => chance::weighted(weights, count as usize, seed),
        (Some(weights), true) => chance::weighted_repeated(weights, count, seed),
    })
}
