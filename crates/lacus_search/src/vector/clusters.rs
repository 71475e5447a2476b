//! Clusters of vectors: k-means, by products of matrices.
//!
//! The same vectors and the same seed give the same clusters, on any number of threads.

use lacus_tensor::TensorError;
use lacus_tensor::kernels::distance::{Measure, distance};
use lacus_tensor::kernels::matrix::{MatrixMut, MatrixRef};
use lacus_tensor::kernels::multiply::multiply_add;
use lacus_threads::Pool;

use super::random::Random;

/// Rounds of assigning vectors to centres and moving the centres. Recall hardly gains from more.
const ROUNDS: usize = 10;

/// Vectors that one thread assigns at once.
const ROWS_AT_ONCE: usize = 256;

/// Vectors one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Points<'a> {
    pub values: &'a [f32],
    pub size: usize,
}

impl<'a> Points<'a> {
    pub(crate) fn len(&self) -> usize {
        self.values.len() / self.size.max(1)
    }

    pub(crate) fn row(&self, at: usize) -> &'a [f32] {
        &self.values[at * self.size..(at + 1) * self.size]
    }

    /// Some of them.
    pub(crate) fn some(&self, rows: &[usize]) -> Vec<f32> {
        rows.iter().flat_map(|row| self.row(*row)).copied().collect()
    }
}

/// Centres of clusters. If `is_round`, the points have length one, and so do the centres.
pub(crate) fn centres(
    pool: &Pool,
    points: Points<'_>,
    count: usize,
    is_round: bool,
    seed: u64,
) -> Result<Vec<f32>, TensorError> {
    let mut random = Random::new(seed);
    let mut centres = points.some(&random.some(points.len(), count));
    for _ in 0..ROUNDS {
        let nearest = assigned(pool, points, Points { values: &centres, size: points.size })?;
        let mut sums = vec![0f64; centres.len()];
        let mut counts = vec![0usize; count];
        for (at, centre) in nearest.iter().enumerate() {
            let centre = *centre as usize;
            counts[centre] += 1;
            let sum = &mut sums[centre * points.size..(centre + 1) * points.size];
            sum.iter_mut().zip(points.row(at)).for_each(|(sum, value)| *sum += f64::from(*value));
        }
        for centre in 0..count {
            let place = centre * points.size..(centre + 1) * points.size;
            if counts[centre] == 0 {
                // A centre that nothing is near to takes the place of a point of some large cluster.
                let largest = (0..count).max_by_key(|at| (counts[*at], count - at)).unwrap_or(0);
                let members: Vec<usize> =
                    (0..points.len()).filter(|at| nearest[*at] as usize == largest).collect();
                if members.len() > 1 {
                    let member = members[random.below(members.len())];
                    centres[place].copy_from_slice(points.row(member));
                    counts[largest] -= 1;
                    counts[centre] = 1;
                }
                continue;
            }
            let mean = sums[place.clone()].iter().map(|sum| sum / counts[centre] as f64);
            let mean: Vec<f64> = mean.collect();
            let length = match is_round {
                true => mean.iter().map(|x| x * x).sum::<f64>().sqrt(),
                false => 1.0,
            };
            let to = &mut centres[place];
            if length > 0.0 {
                to.iter_mut().zip(mean).for_each(|(to, mean)| *to = (mean / length) as f32);
            }
        }
    }
    Ok(centres)
}

/// The nearest centre of each point, by the length of the difference; of several the first.
pub(crate) fn assigned(
    pool: &Pool,
    points: Points<'_>,
    centres: Points<'_>,
) -> Result<Vec<u32>, TensorError> {
    let zero = vec![0f32; centres.size];
    let squares: Vec<f32> = (0..centres.len())
        .map(|at| distance(Measure::L2, centres.row(at), &zero))
        .map(|length| length * length)
        .collect();
    let mut nearest = vec![0u32; points.len()];
    let parts: Vec<(usize, &mut [u32])> = nearest.chunks_mut(ROWS_AT_ONCE).enumerate().collect();
    let done = pool.team(parts.len()).map_with(parts, Vec::new, |(part, out), products: &mut Vec<f32>| {
        let first = part * ROWS_AT_ONCE;
        products_of(points, first..first + out.len(), centres, products)?;
        for (row, out) in out.iter_mut().enumerate() {
            let products = &products[row * centres.len()..(row + 1) * centres.len()];
            let (mut best, mut least) = (0, f32::INFINITY);
            for (at, (product, square)) in products.iter().zip(&squares).enumerate() {
                let found = square - 2.0 * product;
                if found < least {
                    (best, least) = (at, found);
                }
            }
            *out = best as u32;
        }
        Ok(())
    });
    done.into_iter().collect::<Result<(), TensorError>>()?;
    Ok(nearest)
}

/// The inner products of some points with all others, row by row.
pub(crate) fn products_of(
    points: Points<'_>,
    rows: std::ops::Range<usize>,
    others: Points<'_>,
    products: &mut Vec<f32>,
) -> Result<(), TensorError> {
    products.resize(rows.len() * others.len(), 0.0);
    let (count, size) = (rows.len(), points.size);
    let left = MatrixRef::from_rows(&points.values[rows.start * size..rows.end * size], count, size)?;
    let right = MatrixRef::from_rows(others.values, others.len(), size)?.transposed();
    multiply_add(MatrixMut::from_rows(products, count, others.len())?, 1.0, left, right, true);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points around three places.
    fn heaps() -> Vec<f32> {
        let mut random = Random::new(3);
        let noise = |random: &mut Random| random.below(1000) as f32 / 1000.0;
        (0..900)
            .flat_map(|at| {
                let (x, y) = [(0.0, 0.0), (10.0, 0.0), (0.0, 10.0)][at % 3];
                [x + noise(&mut random), y + noise(&mut random)]
            })
            .collect()
    }

    #[test]
    fn heaps_are_found_on_any_number_of_threads() {
        let values = heaps();
        let points = Points { values: &values, size: 2 };
        let alone = centres(&Pool::new(1), points, 12, false, 1).unwrap();
        assert_eq!(alone, centres(&Pool::new(4), points, 12, false, 1).unwrap());
        let found = Points { values: &alone, size: 2 };
        let nearest = assigned(&Pool::new(2), points, found).unwrap();
        for (at, centre) in nearest.iter().enumerate() {
            let away = distance(Measure::L2, points.row(at), found.row(*centre as usize));
            assert!(away < 1.5, "{at}: {away}");
            let least =
                (0..12).map(|c| distance(Measure::L2, points.row(at), found.row(c))).fold(9.0, f32::min);
            assert!(away <= least + 1e-3, "{at}: {away}, {least}");
        }
        // All points alike: no centre is NaN.
        let same = vec![1.0f32; 200];
        let found = centres(&Pool::new(2), Points { values: &same, size: 2 }, 5, true, 1).unwrap();
        assert!(found.iter().all(|x| x.is_finite()));
    }
}
