//! Which old pixels make up a new one, and with what weight: the rules, the precision and the rounding of Pillow, so that the same
//! pixels come out.
//!
//! When a picture gets smaller, the filter gets as much wider: each old pixel has a part in some new one (antialiasing).

use std::f64::consts::PI;
use std::ops::Range;

use super::step::Interpolation;

/// Bits behind the point of a weight. Sums of 255 times weights that make up 1, or a bit more, stay within 32 bits.
pub(super) const WEIGHT_BITS: u32 = 22;

/// Weights for the new pixels along one axis.
#[derive(Default)]
pub(super) struct Weights {
    /// Of each new pixel: the first old one.
    pub(super) firsts: Vec<usize>,
    /// Of each new pixel: how many old ones.
    pub(super) counts: Vec<usize>,
    /// So many places per new pixel.
    pub(super) most: usize,
    pub(super) weights: Vec<i32>,
}

impl Weights {
    /// For the new pixels `wanted` of `size`, made of the part `from` to `to` of `old` pixels.
    pub(super) fn new(
        filter: Interpolation,
        old: usize,
        (from, to): (f64, f64),
        size: usize,
        wanted: Range<usize>,
    ) -> Weights {
        let step = (to - from) / size as f64;
        if filter == Interpolation::Nearest {
            let first = |new: usize| (from + (new as f64 + 0.5) * step) as usize;
            let firsts: Vec<usize> = wanted.map(|new| first(new).min(old - 1)).collect();
            let count = firsts.len();
            return Weights {
                firsts,
                counts: vec![1; count],
                most: 1,
                weights: vec![1 << WEIGHT_BITS; count],
            };
        }
        let stretch = step.max(1.0);
        let squeeze = 1.0 / stretch;
        let reach = reach(filter) * stretch;
        let most = reach.ceil() as usize * 2 + 1;
        let mut all = Weights {
            firsts: Vec::with_capacity(wanted.len()),
            counts: Vec::with_capacity(wanted.len()),
            most,
            weights: vec![0; wanted.len() * most],
        };
        let mut exact = vec![0.0f64; most];
        for (new, fixed) in wanted.zip(all.weights.chunks_exact_mut(most)) {
            let center = from + (new as f64 + 0.5) * step;
            let first = ((center - reach + 0.5).max(0.0) as usize).min(old - 1);
            let end = ((center + reach + 0.5) as usize).clamp(first + 1, old);
            let count = (end - first).min(most);
            let mut sum = 0.0;
            for (place, weight) in exact[..count].iter_mut().enumerate() {
                *weight = filter_at(filter, ((first + place) as f64 - center + 0.5) * squeeze);
                sum += *weight;
            }
            // A part that a filter has no weight for, at the very edge, is its nearest pixel.
            if sum == 0.0 {
                (exact[0], sum) = (1.0, 1.0);
            }
            let scale = 1.0 / sum;
            for (fixed, weight) in fixed.iter_mut().zip(&exact[..count]) {
                let weight = weight * scale * f64::from(1 << WEIGHT_BITS);
                *fixed = (weight + if weight < 0.0 { -0.5 } else { 0.5 }) as i32;
            }
            all.firsts.push(first);
            all.counts.push(count);
        }
        all
    }

    /// The old pixels that have a part in any new one.
    pub(super) fn needed(&self) -> Range<usize> {
        let start = self.firsts.iter().copied().min().unwrap_or(0);
        let end = self.firsts.iter().zip(&self.counts).map(|(first, count)| first + count).max().unwrap_or(0);
        start..end
    }

    /// The first old pixel of a new one, and the weights from there on.
    #[inline(always)]
    pub(super) fn of(&self, new: usize) -> (usize, &[i32]) {
        (self.firsts[new], &self.weights[new * self.most..][..self.counts[new]])
    }
}

/// How far a filter reaches to each side, in pixels.
fn reach(filter: Interpolation) -> f64 {
    match filter {
        Interpolation::Nearest | Interpolation::Box => 0.5,
        Interpolation::Bilinear => 1.0,
        Interpolation::Bicubic => 2.0,
        Interpolation::Lanczos => 3.0,
    }
}

fn filter_at(filter: Interpolation, x: f64) -> f64 {
    let distance = x.abs();
    match filter {
        // Half-open, so that two new pixels never share an old one that lies between them.
        Interpolation::Nearest | Interpolation::Box => f64::from(x > -0.5 && x <= 0.5),
        Interpolation::Bilinear => (1.0 - distance).max(0.0),
        Interpolation::Bicubic => {
            const SLOPE: f64 = -0.5;
            if distance < 1.0 {
                ((SLOPE + 2.0) * distance - (SLOPE + 3.0)) * distance * distance + 1.0
            } else if distance < 2.0 {
                (((distance - 5.0) * distance + 8.0) * distance - 4.0) * SLOPE
            } else {
                0.0
            }
        }
        Interpolation::Lanczos if (-3.0..3.0).contains(&x) => sinc(x) * sinc(x / 3.0),
        Interpolation::Lanczos => 0.0,
    }
}

/// The same bits on every machine.
fn sinc(x: f64) -> f64 {
    if x == 0.0 { 1.0 } else { libm::sin(x * PI) / (x * PI) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILTERS: [Interpolation; 5] = [
        Interpolation::Nearest,
        Interpolation::Box,
        Interpolation::Bilinear,
        Interpolation::Bicubic,
        Interpolation::Lanczos,
    ];

    #[test]
    fn weights_make_up_one_and_stay_inside() {
        for filter in FILTERS {
            for (old, new) in [(1, 1), (1, 9), (9, 1), (7, 5), (5, 7), (1000, 3), (224, 224), (3, 1000)] {
                for (from, to) in [(0.0, old as f64), (0.25, old as f64 * 0.75 + 0.2)] {
                    let weights = Weights::new(filter, old, (from, to), new, 0..new);
                    for at in 0..new {
                        let (first, weights) = weights.of(at);
                        assert!(first + weights.len() <= old && !weights.is_empty());
                        let sum: i64 = weights.iter().map(|&weight| i64::from(weight)).sum();
                        assert!(
                            (sum - (1 << WEIGHT_BITS)).abs() <= weights.len() as i64,
                            "{filter:?} {old} {new}: {sum}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn the_same_size_changes_nothing() {
        for filter in FILTERS {
            let weights = Weights::new(filter, 9, (0.0, 9.0), 9, 0..9);
            for at in 0..9 {
                let (first, weights) = weights.of(at);
                for (place, &weight) in weights.iter().enumerate() {
                    assert_eq!(weight, i32::from(first + place == at) << WEIGHT_BITS, "{filter:?} {at}");
                }
            }
        }
    }

    #[test]
    fn a_part_of_the_new_pixels_has_the_weights_of_the_whole() {
        let whole = Weights::new(Interpolation::Lanczos, 100, (0.0, 100.0), 37, 0..37);
        let part = Weights::new(Interpolation::Lanczos, 100, (0.0, 100.0), 37, 10..20);
        for at in 0..10 {
            assert_eq!(whole.of(10 + at), part.of(at));
        }
    }
}
