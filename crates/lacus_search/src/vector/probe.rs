//! The nearest rows, found by an index: lists by the nearness of their centres, until there is reason to think that enough of the
//! nearest rows were in them.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use lacus_dataset::{DatasetError, PlacedRun};
use lacus_io::blocking;
use lacus_tensor::Tensor;
use lacus_tensor::kernels::distance::Measure;
use roaring::RoaringTreemap;

use super::blocks::Vectors;
use super::cover::Cover;
use super::exact::{Comparison, QueryVector, Tools, add_exact};
use super::lists::prepared;
use super::placed::{count, place_of};
use super::ranking::Top;
use super::stored::Stored;

/// Lists that are read at the same time.
const AT_ONCE: usize = 16;

/// Rows that codes find, for each that is wanted: these are compared again by their vectors.
const CANDIDATES: usize = 4;

/// A search by an index.
pub(crate) struct Probe<'a> {
    pub vectors: &'a Vectors,
    pub stored: &'a Stored,
    pub cover: &'a Cover,
    /// Rows that may be found and that the index covers, ascending by id, without repeats.
    pub allowed: &'a [PlacedRun],
    pub comparison: Comparison<'a>,
}

/// What it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Probed {
    pub lists: usize,
    pub rows: u64,
}

impl Probe<'_> {
    /// How many lists to look at for so many rows; `None` if comparing all is less work.
    pub(crate) fn plan(&self, wanted: usize) -> Option<usize> {
        let lists = &self.stored.lists;
        let (allowed, all) = (count(self.allowed), self.cover.rows.max(1));
        if allowed == 0 || wanted as u64 >= allowed {
            return None;
        }
        // The nearest of a tenth of the rows are, about, among ten times as many of all rows. Chance puts the last of them further away
        // now and then, by some roots of their number.
        let chance = if allowed < all { 2.0 * (wanted as f64).sqrt() } else { 0.0 };
        let among = (wanted as f64 + chance) * all as f64 / allowed as f64;
        let probes = lists.probes_for(among);
        let share = probes as f64 / lists.count().max(1) as f64;
        let work = lists.count() as f64 + share * all as f64;
        (work < allowed as f64).then_some(probes)
    }

    /// Adds the nearest rows of `probes` lists, and of more as long as there are not enough.
    pub(crate) async fn add(&self, probes: usize, top: &mut Top) -> Result<Probed, DatasetError> {
        let (stored, lists) = (self.stored, &self.stored.lists);
        let mut query = self.comparison.query.singles();
        if prepared(lists.measure, &mut query).is_none() {
            // Near to nothing: no list is better than another.
            add_exact(self.vectors, self.allowed, self.comparison, top).await?;
            return Ok(Probed { lists: lists.count(), rows: count(self.allowed) });
        }
        let order = lists.order(&query);
        let coded =
            stored.codes.as_ref().map(|codes| QueryVector::Single(codes.query(lists.measure, &query)));
        let comparison = match &coded {
            None => self.comparison,
            Some(query) => {
                let measure = if lists.measure == Measure::L2 { Measure::L2 } else { Measure::Inner };
                Comparison { measure, query, dtype: stored.list_dtype(), ..self.comparison }
            }
        };
        let allowed_rows = count(self.allowed);
        let is_all = allowed_rows == lists.rows.len() as u64;
        let filter = (!is_all).then(|| blocking(|| ids_of(self.allowed)));
        let wanted = top.most() as u64;
        let most = if coded.is_some() { top.most().saturating_mul(CANDIDATES) } else { top.most() };
        let mut found = Top::new(most);
        // Those that are near to nothing come first: they are few, and their order is nobody's to guess.
        let odd = lists.count();
        let mut next: Vec<usize> =
            order[..probes.min(order.len())].iter().map(|list| *list as usize).collect();
        next.push(odd);
        let (mut at, mut probed) =
            (probes.min(order.len()), Probed { lists: probes.min(order.len()), rows: 0 });
        let mut in_lists = 0u64;
        loop {
            let wave: Vec<(usize, Arc<Tensor>)> = futures::stream::iter(next.iter().copied())
                .map(|list| async move {
                    let vectors = stored.list(self.vectors.dataset().table(), list).await?;
                    Ok::<_, DatasetError>((list, vectors))
                })
                .buffered(AT_ONCE)
                .try_collect()
                .await?;
            in_lists += next.iter().map(|list| lists.places(*list).len() as u64).sum::<u64>();
            probed.rows += blocking(|| self.compare(&wave, filter.as_ref(), comparison, &mut found));
            // A filter may have left out just the lists that are near: then it is as if they had not been looked at.
            let usual = in_lists as f64 * allowed_rows as f64 / self.cover.rows.max(1) as f64;
            let is_enough =
                found.len() as u64 >= wanted.min(allowed_rows) && probed.rows as f64 * 2.0 >= usual;
            if is_enough || at == order.len() {
                break;
            }
            let to = (at + (probes / 2).max(1)).min(order.len());
            next = order[at..to].iter().map(|list| *list as usize).collect();
            probed.lists += to - at;
            at = to;
        }
        match coded.is_some() {
            false => top.add(found),
            true => {
                let mut places: Vec<u64> = found.into_sorted().into_iter().map(|(_, id)| id).collect();
                places.sort_unstable();
                let runs: Vec<PlacedRun> = places
                    .iter()
                    .filter_map(|id| {
                        Some(PlacedRun { place: place_of(self.allowed, *id)?, id: *id, count: 1 })
                    })
                    .collect();
                add_exact(self.vectors, &runs, self.comparison, top).await?;
            }
        }
        Ok(probed)
    }

    /// Adds the rows of some lists, and says how many were compared. Codes are held by id, vectors by place.
    fn compare(
        &self,
        lists: &[(usize, Arc<Tensor>)],
        filter: Option<&RoaringTreemap>,
        comparison: Comparison<'_>,
        found: &mut Top,
    ) -> u64 {
        let pool = self.vectors.dataset().table().world().pool();
        let bytes: usize = lists.iter().map(|(_, vectors)| vectors.bytes().len()).sum();
        let team = pool.team((bytes >> 18).max(1));
        let share = lists.len().div_ceil(team.threads()).max(1);
        let (most, limit) = (found.most(), found.worst());
        let by_id = self.stored.codes.is_some();
        let tops = team.map(lists.chunks(share).collect(), |lists: &[(usize, Arc<Tensor>)]| {
            let (mut top, mut tools, mut rows) = (Top::below(most, limit), Tools::default(), 0u64);
            for (list, vectors) in lists {
                let ids = &self.stored.lists.rows[self.stored.lists.places(*list)];
                let push = |at: usize, value: f64, top: &mut Top| {
                    let key = comparison.ranking.key(value);
                    if key > top.worst() {
                        return;
                    }
                    match by_id {
                        true => top.push(key, ids[at]),
                        false => {
                            if let Some(place) = place_of(self.allowed, ids[at]) {
                                top.push(key, place);
                            }
                        }
                    }
                };
                match filter {
                    None => {
                        rows += ids.len() as u64;
                        tools.compare(vectors.bytes(), comparison, |at, value| push(at, value, &mut top));
                    }
                    Some(filter) => {
                        let each = vectors.bytes().len() / ids.len().max(1);
                        for (at, _) in ids.iter().enumerate().filter(|(_, id)| filter.contains(**id)) {
                            rows += 1;
                            let bytes = &vectors.bytes()[at * each..(at + 1) * each];
                            push(at, tools.one(bytes, comparison), &mut top);
                        }
                    }
                }
            }
            (top, rows)
        });
        let mut rows = 0;
        for (top, compared) in tops {
            rows += compared;
            found.add(top);
        }
        rows
    }
}

/// A set of ids.
fn ids_of(runs: &[PlacedRun]) -> RoaringTreemap {
    let mut set = RoaringTreemap::new();
    for run in runs {
        set.insert_range(run.id..run.id + run.count);
    }
    set
}

#[cfg(test)]
mod tests {
    use lacus_dataset::{ColumnSpec, Dataset, Extend, Sample, View};
    use lacus_io::{Store, World};
    use lacus_table::{Table, WriteOptions};
    use lacus_tensor::{Buffer, DType, Shape};

    use super::super::cover::cover;
    use super::super::create::create_index;
    use super::super::lists::IndexSpec;
    use super::super::placed::{all_rows, split};
    use super::super::random::Random;
    use super::super::ranking::Ranking;
    use super::super::stored::{builds, open};
    use super::*;

    async fn dataset(url: &str, rows: usize, size: usize) -> Dataset {
        let store = Store::open(url, &Default::default()).unwrap();
        let mut dataset = Dataset::new(Table::create(store, World::real()).await.unwrap());
        let spec = ColumnSpec {
            dtype: Some(DType::F32),
            shape: Some(vec![Some(size as u64)]),
            ..ColumnSpec::default()
        };
        dataset.add_column("v", &spec, None, None, &WriteOptions::default()).await.unwrap();
        let mut random = Random::new(4);
        let mut sample = || {
            let values: Vec<f32> = (0..size).map(|_| random.below(2001) as f32 / 1000.0 - 1.0).collect();
            let shape = Shape::new([size as u64]).unwrap();
            let tensor = Tensor::new(DType::F32, shape, Buffer::from_elements(&values)).unwrap();
            Sample::Tensor(Box::leak(Box::new(tensor)).as_ref())
        };
        let samples: Vec<Sample<'static>> = (0..rows).map(|_| sample()).collect();
        let columns = vec![("v".to_owned(), samples.into())];
        dataset.extend(Extend { columns, ..Extend::default() }, &WriteOptions::default()).await.unwrap();
        dataset
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn all_lists_are_all_rows() {
        let (rows, size) = (700, 6);
        let mut dataset = dataset("memory://all-lists", rows, size).await;
        for (measure, bits) in [
            (Measure::Cosine, None),
            (Measure::L2, None),
            (Measure::Inner, None),
            (Measure::L2, Some(8)),
            (Measure::Cosine, Some(8)),
        ] {
            let spec = IndexSpec { measure, bits, ..IndexSpec::default() };
            create_index(&mut dataset, "v", &spec, &WriteOptions::default()).await.unwrap();
            let view = View::all(Arc::new(dataset.frozen()), None).await.unwrap();
            let vectors = Vectors::open(view.source(), "v").await.unwrap();
            let prefix = builds(view.source().table(), "v").unwrap().pop().unwrap();
            let stored = open(view.source(), &prefix).await.unwrap();
            let cover = cover(&vectors, &stored).await.unwrap();
            assert_eq!(cover.rows, rows as u64);
            let query = QueryVector::Single(vec![0.3, -0.2, 0.9, 0.1, 0.0, -0.7]);
            let ranking =
                Ranking { descending: measure.is_similarity(), nulls_first: false, nan_is_null: false };
            let comparison = Comparison { measure, query: &query, ranking, dtype: DType::F32 };
            let all = all_rows(&view);
            // All rows, and every third with a hole.
            let third: Vec<(u64, u64)> = all
                .iter()
                .flat_map(|run| {
                    (run.id..run.id + run.count).filter(|id| id % 3 == 0 && !(90..300).contains(id))
                })
                .map(|id| (id, 1))
                .collect();
            for allowed in [all.clone(), split(&all, &third).0] {
                let (mut exact, mut probed) = (Top::new(20), Top::new(20));
                add_exact(&vectors, &allowed, comparison, &mut exact).await.unwrap();
                let probe = Probe {
                    vectors: &vectors,
                    stored: &stored,
                    cover: &cover,
                    allowed: &allowed,
                    comparison,
                };
                let took = probe.add(stored.lists.count(), &mut probed).await.unwrap();
                assert_eq!((took.lists, took.rows), (stored.lists.count(), count(&allowed)));
                assert_eq!(probed.into_sorted(), exact.into_sorted(), "{measure:?} {bits:?}");
            }
        }
    }
}
