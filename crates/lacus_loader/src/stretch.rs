//! Stretches: some batches whose bytes are read together.
//!
//! ```text
//! order ─Planner→ rows of some batches, up to the end of a block ─plan→ byte ranges ─fetch, again if the store is gone→ Stretch
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use lacus_dataset::{Dataset, FetchedIds, IdsRead};
use lacus_io::World;
use lacus_tensor::ErrorKind;

use crate::batch::BatchRow;
use crate::error::LoaderError;
use crate::job::{Job, SharedJob};
use crate::meter::Meter;
use crate::order::{Cut, EpochOrder};

/// The rows of a batch, and where they are among what was fetched.
#[derive(Debug)]
pub(crate) struct BatchRows {
    pub(crate) number: u64,
    pub(crate) rows: Vec<BatchRow>,
    pub(crate) repeated: u64,
    /// For each row, its number among those of its source in the stretch.
    pub(crate) at: Vec<u32>,
    /// About the bytes of the batch.
    pub(crate) bytes: u64,
}

/// Batches that were fetched together.
#[derive(Debug)]
pub(crate) struct Stretch {
    pub(crate) batches: Vec<BatchRows>,
    /// What was fetched: by column, by source; `None` for a source of which there are no rows.
    pub(crate) columns: Vec<Vec<Option<FetchedIds>>>,
}

impl Stretch {
    pub(crate) fn fetched(&self, column: usize, row: &BatchRow) -> Option<&FetchedIds> {
        self.columns[column][row.source as usize].as_ref()
    }
}

/// A stretch whose bytes are known, not yet read.
pub(crate) struct PlannedStretch {
    pub(crate) batches: Vec<BatchRows>,
    reads: Vec<Read>,
    pub(crate) stored_bytes: u64,
}

struct Read {
    column: usize,
    source: usize,
    dataset: Arc<Dataset>,
    name: String,
    ids: Vec<u64>,
    planned: IdsRead,
}

/// Walks over the order of an epoch, stretch by stretch.
pub(crate) struct Planner {
    job: SharedJob,
    order: EpochOrder,
    cut: Cut,
    next: u64,
    /// Batches of the next stretch, if bytes and blocks allow: the first is one batch, so that it comes soon.
    wanted: u64,
    /// Stored bytes of a stretch, at most.
    stretch_bytes: u64,
    /// Stored bytes of a sample, as far as samples were seen.
    sample_bytes: f64,
}

/// Stretches grow by this factor until they have their full length.
const GROWTH: u64 = 4;

/// No stretch has more batches than this: planning it would hold up the first of them.
const MOST_BATCHES: u64 = 1024;

impl Planner {
    pub(crate) fn new(job: SharedJob, order: EpochOrder, cut: Cut, from: u64, stretch_bytes: u64) -> Planner {
        let sample_bytes = job.loaded_row_bytes as f64;
        Planner { job, order, cut, next: from, wanted: 1, stretch_bytes, sample_bytes }
    }

    /// The next stretch, planned; `None` at the end. A store that cannot be reached is tried again until the time-out.
    pub(crate) async fn next(&mut self, meter: &Meter) -> Result<Option<PlannedStretch>, LoaderError> {
        let Some(mut batches) = self.batches() else { return Ok(None) };
        let mut patience = Patience::new(&self.job);
        let (reads, stored_bytes) = loop {
            match plan(&self.job, &mut batches).await {
                Ok(planned) => break planned,
                Err(error) => patience.after(error, "where samples lie", meter).await?,
            }
        };
        let rows: usize = batches.iter().map(|batch| batch.rows.len()).sum();
        self.sample_bytes = stored_bytes as f64 / rows.max(1) as f64;
        Ok(Some(PlannedStretch { batches, reads, stored_bytes }))
    }

    fn batches(&mut self) -> Option<Vec<BatchRows>> {
        let all = self.cut.batches();
        if self.next >= all {
            return None;
        }
        let batch_bytes = self.sample_bytes * self.job.settings.batch_size as f64;
        let by_bytes = (self.stretch_bytes as f64 / batch_bytes.max(1.0)) as u64;
        let most = self.wanted.min(by_bytes).clamp(1, MOST_BATCHES).min(all - self.next);
        self.wanted = (self.wanted * GROWTH).min(MOST_BATCHES);
        let first = self.cut.everyone(self.next);
        let block_end = self.order.block_end(first.start);
        let mut batches = Vec::with_capacity(most as usize);
        let mut counts = vec![0u32; self.job.sources.len()];
        while (batches.len() as u64) < most {
            // A batch that reaches into the next block is the last of its stretch.
            if block_end.is_some_and(|end| !batches.is_empty() && self.cut.everyone(self.next).start >= end) {
                break;
            }
            batches.push(self.batch(&mut counts));
            self.next += 1;
        }
        Some(batches)
    }

    fn batch(&mut self, counts: &mut [u32]) -> BatchRows {
        let (ranges, repeated) = self.cut.mine(self.next);
        let mut rows = Vec::new();
        for position in ranges.into_iter().flatten() {
            let placed = self.order.at(position);
            let id = self.job.sources[placed.source as usize].rows().get(placed.place).unwrap_or(u64::MAX);
            rows.push(BatchRow { source: placed.source, place: placed.place, id, position });
        }
        let number = |row: &BatchRow| {
            let count = &mut counts[row.source as usize];
            *count += 1;
            *count - 1
        };
        let at = rows.iter().map(number).collect();
        BatchRows { number: self.next, rows, repeated, at, bytes: 0 }
    }
}

async fn plan(job: &Job, batches: &mut [BatchRows]) -> Result<(Vec<Read>, u64), LoaderError> {
    batches.iter_mut().for_each(|batch| batch.bytes = 0);
    let mut ids: Vec<Vec<u64>> = vec![Vec::new(); job.sources.len()];
    for row in batches.iter().flat_map(|batch| &batch.rows) {
        ids[row.source as usize].push(row.id);
    }
    let (mut reads, mut stored_bytes) = (Vec::new(), 0);
    for (column, plan) in job.columns.iter().enumerate() {
        for (source, view) in job.sources.iter().enumerate() {
            if ids[source].is_empty() {
                continue;
            }
            let planned = Dataset::plan_ids(view.source(), &plan.name, ids[source].clone()).await?;
            stored_bytes += planned.stored_bytes();
            let fixed = job.transformed_bytes(column);
            for batch in batches.iter_mut() {
                for (row, at) in batch.rows.iter().zip(&batch.at) {
                    if row.source as usize == source {
                        batch.bytes += fixed.unwrap_or_else(|| planned.decoded_bytes(*at as usize));
                    }
                }
            }
            let (dataset, name, ids) = (Arc::clone(view.source()), plan.name.clone(), ids[source].clone());
            reads.push(Read { column, source, dataset, name, ids, planned });
        }
    }
    Ok((reads, stored_bytes))
}

impl PlannedStretch {
    /// Reads the bytes. A store that cannot be reached is tried again until the time-out.
    pub(crate) async fn fetch(self, job: &Job, meter: &Meter) -> Result<Stretch, LoaderError> {
        let _fetching = meter.fetching();
        let PlannedStretch { batches, reads, stored_bytes } = self;
        let mut columns: Vec<Vec<Option<FetchedIds>>> = Vec::new();
        columns.resize_with(job.columns.len(), || {
            let mut sources = Vec::new();
            sources.resize_with(job.sources.len(), || None);
            sources
        });
        let all = reads.into_iter().map(|read| async move {
            let (column, source) = (read.column, read.source);
            read.fetch(job, meter).await.map(|fetched| (column, source, fetched))
        });
        for (column, source, fetched) in futures::future::try_join_all(all).await? {
            columns[column][source] = Some(fetched);
        }
        meter.fetched(stored_bytes);
        Ok(Stretch { batches, columns })
    }
}

impl Read {
    async fn fetch(self, job: &Job, meter: &Meter) -> Result<FetchedIds, LoaderError> {
        let Read { dataset, name, ids, planned, .. } = self;
        let what = format!("the samples of column {name:?}");
        let mut patience = Patience::new(job);
        let mut next = Ok(planned);
        loop {
            let failed = match next {
                Ok(planned) => match planned.fetch().await {
                    Ok(fetched) => return Ok(fetched),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            patience.after(failed.into(), &what, meter).await?;
            next = Dataset::plan_ids(&dataset, &name, ids.clone()).await;
        }
    }
}

/// How long to go on asking a store that cannot be reached.
struct Patience {
    began: Instant,
    limit: Duration,
    world: World,
    attempts: u32,
}

impl Patience {
    fn new(job: &Job) -> Patience {
        // A little less than the consumer has, who would hear of the waiting and not of its cause.
        let limit = job.settings.timeout.mul_f64(0.9);
        let world =
            job.sources.first().map_or_else(World::real, |view| view.source().table().world().clone());
        Patience { began: Instant::now(), limit, world, attempts: 0 }
    }

    /// Waits before the next attempt; fails with the error if that makes no sense.
    async fn after(&mut self, error: LoaderError, what: &str, meter: &Meter) -> Result<(), LoaderError> {
        if error.kind() != ErrorKind::Unavailable || self.began.elapsed() >= self.limit {
            return Err(error);
        }
        self.attempts += 1;
        meter.retried();
        meter.awaits(format!("{what}, after {} attempts: {error}", self.attempts));
        // The store has waited between its own attempts; this is for one that is gone for longer.
        for _ in 0..self.attempts.min(8) {
            self.world.back_off(7).await;
        }
        Ok(())
    }
}
