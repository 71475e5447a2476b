//! Inverted lists (IVF): rows by the cluster that their vectors are in, and how many lists a search has to look at.
//!
//! ```text
//! vectors ─sample→ centres ─assign→ lists ─held-out queries against exact answers→ lists to probe for a recall
//! ```
//!
//! All of this is plain data; nothing is read or written here.

use lacus_tensor::TensorError;
use lacus_tensor::kernels::distance::{Measure, distance, distances};
use lacus_threads::Pool;
use serde::{Deserialize, Serialize};

use super::clusters::{Points, assigned, centres, products_of};
use super::random::Random;
use super::ranking::{Ranking, Top};

/// Vectors a centre is found from, at most: more make it slower, and not better.
const POINTS_PER_CENTRE: usize = 128;

/// Queries that say how many lists to probe.
const QUERIES: usize = 256;

/// Queries that one thread answers at once.
const QUERIES_AT_ONCE: usize = 16;

/// Vectors that are compared with queries at once.
const POINTS_AT_ONCE: usize = 1024;

/// Numbers of neighbours for which it is found out how many lists to probe.
const NEIGHBOURS: [usize; 4] = [1, 10, 100, 1000];

/// How an index is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndexSpec {
    /// By what vectors are compared: cosine, inner product or l2.
    pub measure: Measure,
    /// How many lists there are; by the number of rows if it does not say.
    pub lists: Option<usize>,
    /// The share of the true neighbours that a search is to find.
    pub recall: f64,
    /// Bits that an element of a vector has in a list: 8, or as in the column.
    pub bits: Option<u8>,
    /// What random choices depend on.
    pub seed: u64,
}

impl Default for IndexSpec {
    fn default() -> IndexSpec {
        IndexSpec { measure: Measure::Cosine, lists: None, recall: 0.95, bits: None, seed: 0 }
    }
}

/// How many lists find so many neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probes {
    /// So many neighbours.
    pub neighbours: usize,
    /// Lists to look at.
    pub probes: usize,
    /// The share of the neighbours that were found by that, of queries that were held out.
    pub recall: f64,
}

/// Rows by the clusters of their vectors.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lists {
    pub measure: Measure,
    /// Elements of a vector.
    pub size: usize,
    /// Centres of the lists, one after the other.
    pub centres: Vec<f32>,
    /// Where each list begins; the last holds vectors that are near to nothing, and its end is the last of these.
    pub starts: Vec<u64>,
    /// Ids of rows, list by list, ascending in each.
    pub rows: Vec<u64>,
    /// Ascending by neighbours.
    pub probes: Vec<Probes>,
}

/// A vector as lists have it: by a cosine only its direction counts. `None` if it is near to nothing.
pub(crate) fn prepared(measure: Measure, vector: &mut [f32]) -> Option<()> {
    if !vector.iter().all(|x| x.is_finite()) {
        return None;
    }
    if measure == Measure::Cosine {
        let length = distance(Measure::Inner, vector, vector).sqrt();
        if !(length > 0.0 && length.is_finite()) {
            return None;
        }
        vector.iter_mut().for_each(|x| *x /= length);
    }
    Some(())
}

/// How many lists so many rows get.
fn usual_lists(rows: usize) -> usize {
    ((2.0 * (rows as f64).sqrt()).round() as usize).clamp(1, rows.max(1))
}

impl Lists {
    /// Lists of rows. `points` are their vectors, prepared; those for which `odd` is true are near to nothing. Also returns which of
    /// the rows stands at each place of the lists.
    pub(crate) fn build(
        pool: &Pool,
        ids: &[u64],
        mut points: Vec<f32>,
        odd: &[bool],
        size: usize,
        spec: &IndexSpec,
    ) -> Result<(Lists, Vec<usize>), TensorError> {
        let good: Vec<usize> = (0..ids.len()).filter(|at| !odd[*at]).collect();
        if good.len() < ids.len() {
            points = Points { values: &points, size }.some(&good);
        }
        let all = Points { values: &points, size };
        let count = spec.lists.unwrap_or_else(|| usual_lists(good.len())).clamp(1, good.len().max(1));
        let (mut found, mut nearest, mut probes) = (vec![0f32; count * size], Vec::new(), Vec::new());
        if !good.is_empty() {
            let mut random = Random::new(spec.seed);
            // Queries first: no centre is found from them where there are enough others.
            let held_out = QUERIES.min(good.len());
            let mut drawn = random.some(good.len(), held_out + count * POINTS_PER_CENTRE);
            let queries: Vec<usize> = drawn[..held_out].to_vec();
            if drawn.len() >= held_out + count {
                drawn.drain(..held_out);
            }
            drawn.sort_unstable();
            let sample = all.some(&drawn);
            let is_round = spec.measure == Measure::Cosine;
            found = centres(pool, Points { values: &sample, size }, count, is_round, random.next())?;
            let places = Points { values: &found, size };
            nearest = assigned(pool, all, places)?;
            let calibration = Calibration { pool, all, nearest: &nearest, centres: places, spec };
            probes = calibration.probes(&queries)?;
        }
        let mut order: Vec<(u32, usize)> = nearest.iter().copied().zip(good).collect();
        order.extend((0..ids.len()).filter(|at| odd[*at]).map(|at| (count as u32, at)));
        order.sort_unstable_by_key(|(list, at)| (*list, ids[*at]));
        let before = |list: usize| order.partition_point(|(of, _)| (*of as usize) < list) as u64;
        let starts = (0..=count + 1).map(before).collect();
        let order: Vec<usize> = order.iter().map(|(_, at)| *at).collect();
        let rows = order.iter().map(|at| ids[*at]).collect();
        Ok((Lists { measure: spec.measure, size, centres: found, starts, rows, probes }, order))
    }

    /// How many lists there are, without the one of vectors that are near to nothing.
    pub(crate) fn count(&self) -> usize {
        self.starts.len().saturating_sub(2)
    }

    /// Places of the rows of a list.
    pub(crate) fn places(&self, list: usize) -> std::ops::Range<usize> {
        self.starts[list] as usize..self.starts[list + 1] as usize
    }

    /// The lists by how near their centres are to a prepared vector.
    pub(crate) fn order(&self, query: &[f32]) -> Vec<u32> {
        by_nearness(self.measure, Points { values: &self.centres, size: self.size }, query)
    }

    /// How many lists to look at for so many neighbours.
    pub(crate) fn probes_for(&self, neighbours: f64) -> usize {
        probes_for(&self.probes, neighbours, self.count())
    }
}

fn by_nearness(measure: Measure, centres: Points<'_>, query: &[f32]) -> Vec<u32> {
    let measure = if measure == Measure::L2 { Measure::L2 } else { Measure::Inner };
    let mut found = vec![0f32; centres.len()];
    distances(measure, query, centres.values, &mut found);
    let mut order: Vec<u32> = (0..centres.len() as u32).collect();
    let value = |list: u32| if measure == Measure::L2 { found[list as usize] } else { -found[list as usize] };
    order.sort_unstable_by(|a, b| value(*a).total_cmp(&value(*b)).then(a.cmp(b)));
    order
}

/// Between numbers of neighbours that were looked at, and beyond them, lists grow by a power of the neighbours.
fn probes_for(known: &[Probes], neighbours: f64, lists: usize) -> usize {
    let power = |a: &Probes, b: &Probes| {
        let (more, probes) = (b.neighbours as f64 / a.neighbours as f64, b.probes as f64 / a.probes as f64);
        (probes.ln() / more.ln()).clamp(0.0, 1.0)
    };
    let (Some(first), Some(last)) = (known.first(), known.last()) else { return lists };
    if neighbours <= first.neighbours as f64 {
        return first.probes.clamp(1, lists);
    }
    let (from, power) = match known.windows(2).find(|pair| neighbours <= pair[1].neighbours as f64) {
        Some(pair) => (&pair[0], power(&pair[0], &pair[1])),
        None => match known {
            [.., before, _] => (last, power(before, last).max(0.5)),
            _ => (last, 0.5),
        },
    };
    let probes = from.probes as f64 * (neighbours / from.neighbours as f64).powf(power);
    ((probes - 1e-6).ceil() as usize).clamp(1, lists)
}

/// Finds out how many lists have to be looked at.
struct Calibration<'a> {
    pool: &'a Pool,
    all: Points<'a>,
    /// The list of each point.
    nearest: &'a [u32],
    centres: Points<'a>,
    spec: &'a IndexSpec,
}

impl Calibration<'_> {
    fn probes(&self, queries: &[usize]) -> Result<Vec<Probes>, TensorError> {
        let most = (self.all.len() / 10).clamp(1, 1000);
        let wanted: Vec<usize> = NEIGHBOURS.into_iter().filter(|count| *count <= most).collect();
        let answers = self.neighbours(queries, wanted.last().copied().unwrap_or(1))?;
        let lists = self.centres.len();
        // For each number of neighbours and of lists: sums of recalls and of their squares.
        let mut sums = vec![vec![(0f64, 0f64); lists]; wanted.len()];
        for (query, answer) in queries.iter().zip(&answers) {
            let mut rank = vec![0usize; lists];
            let order = by_nearness(self.spec.measure, self.centres, self.all.row(*query));
            order.iter().enumerate().for_each(|(at, list)| rank[*list as usize] = at);
            for (sums, count) in sums.iter_mut().zip(&wanted) {
                let answer = &answer[..answer.len().min(*count)];
                let mut found = vec![0usize; lists];
                answer.iter().for_each(|row| found[rank[self.nearest[*row] as usize]] += 1);
                let mut so_far = 0;
                for (sum, found) in sums.iter_mut().zip(found) {
                    so_far += found;
                    let recall = so_far as f64 / answer.len().max(1) as f64;
                    *sum = (sum.0 + recall, sum.1 + recall * recall);
                }
            }
        }
        let count = queries.len().max(1) as f64;
        let one = |(sums, neighbours): (&Vec<(f64, f64)>, &usize)| {
            // Another draw of queries may do a little worse.
            let sure = |(sum, squares): &(f64, f64)| {
                let mean = sum / count;
                mean - (((squares / count - mean * mean).max(0.0)) / count).sqrt()
            };
            let at = sums.iter().position(|sum| sure(sum) >= self.spec.recall - 1e-9);
            let at = at.unwrap_or(lists.saturating_sub(1));
            Probes { neighbours: *neighbours, probes: at + 1, recall: sums[at].0 / count }
        };
        Ok(sums.iter().zip(&wanted).map(one).collect())
    }

    /// The nearest points of some points, by all of them, nearest first. A point is no neighbour of itself.
    fn neighbours(&self, queries: &[usize], count: usize) -> Result<Vec<Vec<usize>>, TensorError> {
        let ranking = Ranking { descending: true, nulls_first: false, nan_is_null: true };
        let size = self.all.size;
        let zero = vec![0f32; size];
        let mut lengths = vec![0f32; self.all.len()];
        if self.spec.measure == Measure::L2 {
            distances(Measure::L2, &zero, self.all.values, &mut lengths);
        }
        let groups: Vec<&[usize]> = queries.chunks(QUERIES_AT_ONCE).collect();
        let answered = self.pool.team(groups.len()).map(groups, |group| {
            let vectors = self.all.some(group);
            let vectors = Points { values: &vectors, size };
            let mut tops: Vec<Top> = group.iter().map(|_| Top::new(count)).collect();
            let mut products = Vec::new();
            for from in (0..self.all.len()).step_by(POINTS_AT_ONCE) {
                let rows = from..(from + POINTS_AT_ONCE).min(self.all.len());
                products_of(self.all, rows.clone(), vectors, &mut products)?;
                for (row, products) in rows.zip(products.chunks(group.len())) {
                    let square = lengths[row] * lengths[row];
                    for ((top, query), product) in tops.iter_mut().zip(group).zip(products) {
                        let key = ranking.key(f64::from(2.0 * product - square));
                        if key <= top.worst() && row != *query {
                            top.push(key, row as u64);
                        }
                    }
                }
            }
            let rows = |top: Top| top.into_sorted().into_iter().map(|(_, row)| row as usize).collect();
            Ok(tops.into_iter().map(rows).collect::<Vec<Vec<usize>>>())
        });
        let answered = answered.into_iter().collect::<Result<Vec<_>, TensorError>>()?;
        Ok(answered.into_iter().flatten().collect())
    }
}

/// Vectors in eight bits an element: all with one step, so that distances of codes rank as those of vectors do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Codes {
    /// The least value of each element.
    pub low: Vec<f32>,
    /// What one more in a code means.
    pub step: f32,
}

impl Codes {
    /// For some vectors.
    pub(crate) fn of(points: Points<'_>, odd: &[bool]) -> Codes {
        let (mut low, mut high) = (vec![f32::INFINITY; points.size], vec![f32::NEG_INFINITY; points.size]);
        for at in (0..points.len()).filter(|at| !odd[*at]) {
            for (axis, value) in points.row(at).iter().enumerate() {
                low[axis] = low[axis].min(*value);
                high[axis] = high[axis].max(*value);
            }
        }
        let widest = low.iter().zip(&high).map(|(low, high)| high - low).fold(0.0, f32::max);
        let low = low.into_iter().map(|low| if low.is_finite() { low } else { 0.0 }).collect();
        Codes { low, step: if widest > 0.0 && widest.is_finite() { widest / 255.0 } else { 1.0 } }
    }

    pub(crate) fn encode(&self, vector: &[f32], out: &mut Vec<u8>) {
        let code = |(value, low): (&f32, &f32)| ((value - low) / self.step).round().clamp(0.0, 255.0) as u8;
        out.extend(vector.iter().zip(&self.low).map(code));
    }

    /// A prepared vector such that its distances from codes rank as from vectors.
    pub(crate) fn query(&self, measure: Measure, vector: &[f32]) -> Vec<f32> {
        match measure {
            Measure::L2 => vector.iter().zip(&self.low).map(|(x, low)| (x - low) / self.step).collect(),
            _ => vector.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn vectors(rows: usize, size: usize, seed: u64) -> Vec<f32> {
        let mut random = Random::new(seed);
        let heaps: Vec<f32> = (0..40 * size).map(|_| random.below(2000) as f32 / 1000.0 - 1.0).collect();
        (0..rows)
            .flat_map(|_| {
                let heap = random.below(40) * size;
                (0..size).map(|at| heaps[heap + at] + random.below(1000) as f32 / 1500.0).collect::<Vec<_>>()
            })
            .collect()
    }

    fn built(measure: Measure, lists: Option<usize>) -> (Lists, Vec<f32>) {
        let (rows, size) = (3000, 12);
        let mut points = vectors(rows, size, 5);
        points[7 * size..8 * size].fill(0.0);
        points[9 * size] = f32::NAN;
        let odd: Vec<bool> = points.chunks_mut(size).map(|row| prepared(measure, row).is_none()).collect();
        let ids: Vec<u64> = (0..rows as u64).map(|at| 2 * at + 5).collect();
        let spec = IndexSpec { measure, lists, ..IndexSpec::default() };
        let pool = Pool::new(2);
        let (lists, order) = Lists::build(&pool, &ids, points.clone(), &odd, size, &spec).unwrap();
        let again = Lists::build(&Pool::new(1), &ids, points.clone(), &odd, size, &spec).unwrap();
        assert_eq!(lists.rows, again.0.rows, "the same on one thread");
        assert!(order.iter().zip(&lists.rows).all(|(at, id)| ids[*at] == *id));
        (lists, points)
    }

    #[test]
    fn every_row_is_in_one_list() {
        for measure in [Measure::Cosine, Measure::L2, Measure::Inner] {
            let (lists, _) = built(measure, None);
            assert_eq!((lists.count(), lists.starts.len()), (110, 112));
            let odd: Vec<u64> = lists.rows[lists.places(lists.count())].to_vec();
            let expected: &[u64] = if measure == Measure::Cosine { &[19, 23] } else { &[23] };
            assert_eq!(odd, expected, "{measure:?}");
            let mut rows = lists.rows.clone();
            rows.sort_unstable();
            assert!(rows.iter().copied().eq((0..3000).map(|at| 2 * at + 5)));
            assert_eq!(lists.probes.iter().map(|probes| probes.neighbours).collect::<Vec<_>>(), [1, 10, 100]);
            let recalls: Vec<f64> = lists.probes.iter().map(|probes| probes.recall).collect();
            assert!(recalls.iter().all(|recall| *recall >= 0.95), "{recalls:?}");
            assert!(lists.probes[1].probes < 60, "{:?}", lists.probes);
        }
    }

    #[test]
    fn lists_are_ordered_by_their_centres() {
        let (lists, _) = built(Measure::L2, Some(20));
        for list in 0..20 {
            let centre = lists.centres[list * 12..(list + 1) * 12].to_vec();
            assert_eq!(lists.order(&centre)[0] as usize, list);
        }
    }

    #[test]
    fn probes_grow_with_neighbours() {
        let known: Vec<Probes> = [(1, 2), (10, 8), (100, 32)]
            .map(|(neighbours, probes)| Probes { neighbours, probes, recall: 0.96 })
            .into();
        let check = |neighbours: f64, expected| assert_eq!(probes_for(&known, neighbours, 500), expected);
        check(0.5, 2);
        check(10.0, 8);
        check(100.0, 32);
        check(31.7, 17);
        check(1000.0, 128);
        check(1e9, 500);
        assert_eq!(probes_for(&[], 5.0, 500), 500);
        assert_eq!(probes_for(&known[..1], 4.0, 500), 4);
    }

    #[test]
    fn codes_rank_as_vectors_do() {
        let (size, rows) = (16, 400);
        let points = vectors(rows, size, 9);
        let all = Points { values: &points, size };
        let codes = Codes::of(all, &vec![false; rows]);
        let mut coded = Vec::new();
        (0..rows).for_each(|at| codes.encode(all.row(at), &mut coded));
        for measure in [Measure::L2, Measure::Inner] {
            let query = codes.query(measure, all.row(3));
            let value = |at: usize| {
                let row: Vec<f32> = coded[at * size..(at + 1) * size].iter().map(|x| f32::from(*x)).collect();
                distance(measure, &row, &query)
            };
            let sign = if measure == Measure::L2 { 1.0 } else { -1.0 };
            let order = |of: &dyn Fn(usize) -> f32| {
                let mut order: Vec<usize> = (0..rows).collect();
                order.sort_by(|a, b| (sign * of(*a)).total_cmp(&(sign * of(*b))));
                order[..10].to_vec()
            };
            let (found, expected) = (order(&value), order(&|at| distance(measure, all.row(at), all.row(3))));
            let same = found.iter().filter(|at| expected.contains(at)).count();
            assert!(same >= 9, "{measure:?}: {found:?} {expected:?}");
        }
    }
}
