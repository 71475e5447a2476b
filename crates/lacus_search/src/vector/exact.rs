//! The nearest rows, found by comparing with all of them.

use lacus_dataset::{DatasetError, PlacedRun};
use lacus_tensor::DType;
use lacus_tensor::kernels::distance::{Lane, Measure, distance, distances, widen};
use lacus_threads::Pool;

use super::blocks::{Part, Vectors};
use super::ranking::{Ranking, Top};

/// Rows that one thread compares before it takes others.
const ROWS_AT_ONCE: usize = 4096;

/// Bytes of vectors that are compared at once: what is widened, and what comes out, stays in a cache.
const TILE_BYTES: usize = 64 << 10;

/// Less than this is done on the calling thread alone.
const WORTH_A_THREAD: usize = 256 << 10;

/// The vector to compare with, in the type that is computed in.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryVector {
    /// Distances are float32.
    Single(Vec<f32>),
    /// Distances are float64.
    Double(Vec<f64>),
}

impl QueryVector {
    /// How many elements it has.
    pub fn len(&self) -> usize {
        match self {
            QueryVector::Single(values) => values.len(),
            QueryVector::Double(values) => values.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same, as singles.
    pub(crate) fn singles(&self) -> Vec<f32> {
        match self {
            QueryVector::Single(values) => values.clone(),
            QueryVector::Double(values) => values.iter().map(|value| *value as f32).collect(),
        }
    }
}

/// How rows are compared and ranked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparison<'a> {
    pub measure: Measure,
    pub query: &'a QueryVector,
    pub ranking: Ranking,
    pub dtype: DType,
}

/// Adds rows to the first ones. They ascend by id and have vectors.
pub(crate) async fn add_exact(
    vectors: &Vectors,
    runs: &[PlacedRun],
    comparison: Comparison<'_>,
    top: &mut Top,
) -> Result<(), DatasetError> {
    let pool = vectors.dataset().table().world().pool().clone();
    let row_bytes = vectors.size() * vectors.dtype().size_bytes();
    vectors
        .each(runs, &mut |parts| {
            let found = compared(&pool, &parts, comparison, row_bytes, top);
            top.add(found);
            Ok(())
        })
        .await
}

/// The first of the rows of some parts. `so_far` says which rows need not be looked at.
fn compared(pool: &Pool, parts: &[Part], comparison: Comparison<'_>, row_bytes: usize, so_far: &Top) -> Top {
    let mut tasks: Vec<(&Part, std::ops::Range<usize>)> = Vec::new();
    let mut rows = 0;
    for part in parts {
        let count = part.run.count as usize;
        rows += count;
        let cuts = (0..count).step_by(ROWS_AT_ONCE);
        tasks.extend(cuts.map(|from| (part, from..(from + ROWS_AT_ONCE).min(count))));
    }
    let threads = (rows * row_bytes / WORTH_A_THREAD).max(1);
    let (limit, most) = (so_far.worst(), so_far.most());
    // Each thread keeps its own first rows; several tasks of one thread share them.
    let share = tasks.len().div_ceil(pool.team(threads).threads()).max(1);
    let shares: Vec<&[(&Part, std::ops::Range<usize>)]> = tasks.chunks(share).collect();
    let tops = pool.team(threads).map(shares, |tasks| {
        let mut top = Top::below(most, limit);
        let mut tools = Tools::default();
        for (part, rows) in tasks {
            let first = part.run.place + rows.start as u64;
            tools.compare(part.bytes(rows.clone()), comparison, |row, value| {
                let key = comparison.ranking.key(value);
                if key <= top.worst() {
                    top.push(key, first + row as u64);
                }
            });
        }
        top
    });
    let mut found = Top::below(most, limit);
    tops.into_iter().for_each(|top| found.add(top));
    found
}

/// Memory that comparing needs again and again.
#[derive(Default)]
pub(crate) struct Tools {
    singles: Lanes<f32>,
    doubles: Lanes<f64>,
}

#[derive(Default)]
struct Lanes<T> {
    widened: Vec<T>,
    found: Vec<T>,
}

impl Tools {
    /// Calls `take` with the number of each vector and its distance from the query.
    pub(crate) fn compare(&mut self, bytes: &[u8], comparison: Comparison<'_>, take: impl FnMut(usize, f64)) {
        let Comparison { measure, query, dtype, .. } = comparison;
        match query {
            QueryVector::Single(query) => {
                self.singles.compare(bytes, dtype, measure, query, take);
            }
            QueryVector::Double(query) => {
                self.doubles.compare(bytes, dtype, measure, query, take);
            }
        }
    }

    /// The distance of one vector from the query.
    pub(crate) fn one(&mut self, bytes: &[u8], comparison: Comparison<'_>) -> f64 {
        let Comparison { measure, query, dtype, .. } = comparison;
        match query {
            QueryVector::Single(query) => self.singles.one(bytes, dtype, measure, query).double(),
            QueryVector::Double(query) => self.doubles.one(bytes, dtype, measure, query),
        }
    }
}

impl<T: Lane + Element> Lanes<T> {
    fn compare(
        &mut self,
        bytes: &[u8],
        dtype: DType,
        measure: Measure,
        query: &[T],
        mut take: impl FnMut(usize, f64),
    ) {
        let row_bytes = (query.len() * dtype.size_bytes()).max(1);
        let rows_at_once = (TILE_BYTES / row_bytes).max(1);
        for (tile, bytes) in bytes.chunks(rows_at_once * row_bytes).enumerate() {
            let rows = bytes.len() / row_bytes;
            self.found.resize(rows, T::default());
            let elements = match as_lanes::<T>(bytes, dtype) {
                Some(elements) => elements,
                None => {
                    self.widened.resize(rows * query.len(), T::default());
                    widen(dtype, bytes, &mut self.widened);
                    &self.widened
                }
            };
            distances(measure, query, elements, &mut self.found);
            for (row, found) in self.found.iter().enumerate() {
                take(tile * rows_at_once + row, found.double());
            }
        }
    }

    fn one(&mut self, bytes: &[u8], dtype: DType, measure: Measure, query: &[T]) -> T {
        match as_lanes::<T>(bytes, dtype) {
            Some(elements) => distance(measure, elements, query),
            None => {
                self.widened.resize(query.len(), T::default());
                widen(dtype, bytes, &mut self.widened);
                distance(measure, &self.widened, query)
            }
        }
    }
}

/// A type that elements of a dtype may be already.
pub(crate) trait Element: lacus_tensor::Element {
    const DTYPE: DType;
    fn double(self) -> f64;
}

impl Element for f32 {
    const DTYPE: DType = DType::F32;
    fn double(self) -> f64 {
        self.into()
    }
}

impl Element for f64 {
    const DTYPE: DType = DType::F64;
    fn double(self) -> f64 {
        self
    }
}

/// Elements where they lie, if they are of this type and lie as the machine wants them.
fn as_lanes<T: Element>(bytes: &[u8], dtype: DType) -> Option<&[T]> {
    if dtype != T::DTYPE {
        return None;
    }
    lacus_tensor::elements_of(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacus_tensor::bytes_of;

    #[test]
    fn every_dtype_and_every_row() {
        let ranking = Ranking { descending: false, nulls_first: false, nan_is_null: false };
        let rows: Vec<f32> = (0..3000 * 3).map(|x| ((x * 7919) % 101) as f32).collect();
        let expected: Vec<f64> = rows
            .chunks(3)
            .map(|row| row.iter().zip([1.0f32, 2.0, 3.0]).map(|(a, b)| f64::from((a - b).abs())).sum())
            .collect();
        let bytes: Vec<u8> = rows.iter().map(|x| *x as u8).collect();
        let doubles: Vec<f64> = rows.iter().map(|x| f64::from(*x)).collect();
        let (single, double) =
            (QueryVector::Single(vec![1.0, 2.0, 3.0]), QueryVector::Double(vec![1.0, 2.0, 3.0]));
        for query in [&single, &double] {
            for (dtype, bytes) in
                [(DType::F32, bytes_of(&rows)), (DType::U8, &bytes[..]), (DType::F64, bytes_of(&doubles))]
            {
                let comparison = Comparison { measure: Measure::L1, query, ranking, dtype };
                let mut found = vec![f64::NAN; 3000];
                Tools::default().compare(bytes, comparison, |row, value| found[row] = value);
                assert_eq!(found, expected, "{dtype}");
                let each = 3 * dtype.size_bytes();
                assert_eq!(Tools::default().one(&bytes[each..2 * each], comparison), expected[1]);
            }
        }
    }
}
