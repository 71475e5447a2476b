//! The rows of a view that are nearest to a vector.
//!
//! ```text
//! allowed rows ─split→ without a vector: by place │ with one: all compared │ by the index, and what it does not cover compared
//! ```

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use lacus_dataset::{DatasetError, PlacedRun, View};
use lacus_io::boxed;
use lacus_tensor::kernels::distance::Measure;

use super::blocks::Vectors;
use super::cover::{Cover, cover};
use super::exact::{Comparison, QueryVector, add_exact};
use super::placed::{all_rows, count, has_repeats, rows_at, split};
use super::probe::Probe;
use super::ranking::{Ranking, Top};
use super::stored::{Stored, builds, is_damage, open};

/// What is looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Nearest {
    /// The column of vectors.
    pub column: String,
    /// How they are compared.
    pub measure: Measure,
    /// With what.
    pub query: QueryVector,
    /// Which come first.
    pub ranking: Ranking,
    /// How many are wanted.
    pub count: usize,
    /// Whether an index may be used, if there is one.
    pub by_index: bool,
}

/// Which rows may be found.
#[derive(Clone, Copy, Debug)]
pub enum Allowed<'a> {
    /// All of the view.
    All,
    /// Those at these places.
    Places(&'a [u64]),
}

/// What was found, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The places of the rows in the view, nearest first.
    pub places: Vec<u64>,
    /// What it took.
    pub report: Report,
}

/// What a search took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Rows that might have been found.
    pub rows: u64,
    /// Rows whose vectors were compared.
    pub scanned: u64,
    /// How the index was used.
    pub index: Option<IndexUse>,
}

/// How an index was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexUse {
    /// Rows that might have been found and that the index covers.
    pub covered: u64,
    /// Lists that there are.
    pub lists: u64,
    /// Lists that were looked at; none where comparing all is less work.
    pub probed: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.index {
            None => write!(f, "exact")?,
            Some(IndexUse { probed: 0, covered, .. }) => write!(f, "exact, index_covers={covered}")?,
            Some(IndexUse { covered, lists, probed }) => {
                write!(f, "index=ivf, index_covers={covered}, lists_probed={probed} of {lists}")?;
            }
        }
        write!(f, ", rows_scanned={} of {}", self.scanned, self.rows)
    }
}

/// The nearest of the allowed rows: as many as are wanted, or all if there are fewer.
pub fn nearest<'a>(
    view: &'a View,
    wanted: &'a Nearest,
    allowed: Allowed<'a>,
) -> BoxFuture<'a, Result<Found, DatasetError>> {
    Box::pin(found(view, wanted, allowed))
}

async fn found(view: &View, wanted: &Nearest, allowed: Allowed<'_>) -> Result<Found, DatasetError> {
    let vectors = Vectors::open(view.source(), &wanted.column).await?;
    if wanted.query.len() != vectors.size() {
        let why = format!(
            "the vectors of column {:?} have {} elements, and the one to search for has {}",
            wanted.column,
            vectors.size(),
            wanted.query.len()
        );
        return Err(DatasetError::Refused { op: "search", why });
    }
    let runs = match allowed {
        Allowed::All => all_rows(view),
        Allowed::Places(places) => rows_at(view, places),
    };
    let (present, missing) = split(&runs, vectors.present());
    let mut top = Top::new(wanted.count);
    add_missing(&missing, wanted.ranking, &mut top);
    let mut report = Report { rows: count(&runs), scanned: 0, index: None };
    let comparison = Comparison {
        measure: wanted.measure,
        query: &wanted.query,
        ranking: wanted.ranking,
        dtype: vectors.dtype(),
    };
    if wanted.count > 0 {
        let rest = match usable(&vectors, wanted, &present).await? {
            None => present,
            Some((stored, cover)) => {
                let (covered, rest) = split(&present, &cover.runs);
                let probe = Probe {
                    vectors: &vectors,
                    stored: &stored,
                    cover: &cover,
                    allowed: &covered,
                    comparison,
                };
                let probed = match probe.plan(wanted.count) {
                    Some(probes) => damaged_or(probe.add(probes, &mut top).await, &vectors, &stored.prefix)?,
                    None => None,
                };
                let lists = stored.lists.count() as u64;
                let used = probed.map_or(0, |probed| probed.lists as u64);
                report.index = Some(IndexUse { covered: count(&covered), lists, probed: used });
                match probed {
                    Some(probed) => {
                        report.scanned = probed.rows;
                        rest
                    }
                    None => present,
                }
            }
        };
        add_exact(&vectors, &rest, comparison, &mut top).await?;
        report.scanned += count(&rest);
    }
    let places = top.into_sorted().into_iter().map(|(_, place)| place).collect();
    Ok(Found { places, report })
}

/// How a search is going to be answered, for people.
#[boxed]
pub async fn expected(view: &View, wanted: &Nearest) -> Result<String, DatasetError> {
    let vectors = Vectors::open(view.source(), &wanted.column).await?;
    let (present, _) = split(&all_rows(view), vectors.present());
    let rows = count(&present);
    Ok(match usable(&vectors, wanted, &present).await? {
        None => format!("exact, vectors={rows}"),
        Some((stored, cover)) => {
            let covered = count(&split(&present, &cover.runs).0);
            let (lists, probes) = (stored.lists.count(), stored.lists.probes_for(wanted.count as f64));
            let bits = stored.header.bits.map(|bits| format!(", bits={bits}")).unwrap_or_default();
            let recall = stored.header.recall;
            format!(
                "index=ivf{bits}, index_covers={covered} of {rows}, lists={probes} of {lists} or more, recall={recall}"
            )
        }
    })
}

/// The index that a search may use, and what it covers.
async fn usable(
    vectors: &Vectors,
    wanted: &Nearest,
    present: &[PlacedRun],
) -> Result<Option<(Arc<Stored>, Arc<Cover>)>, DatasetError> {
    let is_nearest_first = wanted.ranking.descending == wanted.measure.is_similarity();
    if !wanted.by_index || !is_nearest_first || has_repeats(present) {
        return Ok(None);
    }
    let table = vectors.dataset().table();
    for prefix in builds(table, vectors.name())?.into_iter().rev() {
        let found = async {
            let stored = open(vectors.dataset(), &prefix).await?;
            let is_fit = stored.lists.measure == wanted.measure
                && (stored.dtype, stored.lists.size) == (vectors.dtype(), vectors.size());
            match is_fit {
                true => Ok(Some((Arc::clone(&stored), cover(vectors, &stored).await?))),
                false => Ok(None),
            }
        };
        if let Some(found) = damaged_or(found.await, vectors, &prefix)?.flatten() {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// What an index found; `None` if it is damaged, which is reported once.
fn damaged_or<T>(
    found: Result<T, DatasetError>,
    vectors: &Vectors,
    prefix: &str,
) -> Result<Option<T>, DatasetError> {
    struct Reported;
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_damage(&error) => {
            let (place, key) = (vectors.dataset().table().store().place(), format!("damaged {prefix}"));
            if place.get::<Reported>(&key).is_none() {
                place.put(key, Arc::new(Reported), 0);
                let column = vectors.name();
                tracing::warn!(%error, column, "an index is damaged: all vectors are compared; make it again");
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Adds rows without a vector: of those, the ones with the least places.
fn add_missing(runs: &[PlacedRun], ranking: Ranking, top: &mut Top) {
    let key = ranking.null();
    let mut runs: Vec<&PlacedRun> = runs.iter().collect();
    runs.sort_unstable_by_key(|run| run.place);
    let places = runs.iter().flat_map(|run| run.place..run.place + run.count);
    places.take(top.most()).for_each(|place| top.push(key, place));
}
