//! The loader: views, how to order and how to load them, and batches from any place of any epoch.

use std::sync::Arc;

use lacus_dataset::{SampleFacts, View};
use lacus_io::boxed;

use crate::batch::LoadedBatch;
use crate::error::LoaderError;
use crate::job::{Job, SharedJob, row_bytes, shuffle_of, with_samples};
use crate::meter::{Meter, Stats};
use crate::order::{BucketSizes, Cut, Draws, OrderSpec};
use crate::pipeline::{Made, Pipeline, Place};
use crate::settings::{ColumnPlan, Settings, ShuffleWish};
use crate::state::{LoaderState, STATE_FORMAT, digest};

/// Buckets that are sorted together: enough that their samples differ little, few enough that samples are not sorted over all of the
/// epoch.
const WINDOW_CHUNKS: u64 = 64;

/// What to load.
#[derive(Clone, Debug)]
pub struct LoaderSpec {
    /// The views: one, or several that are mixed.
    pub views: Vec<View>,
    /// The columns of each.
    pub columns: Vec<ColumnPlan>,
    /// Columns without whose sample a row is left out.
    pub required: Vec<String>,
    /// How rows are shuffled.
    pub shuffle: ShuffleWish,
    /// Which rows come how often.
    pub draws: Draws,
    /// A column by whose lengths samples are sorted into buckets.
    pub bucket_by: Option<String>,
    /// How much, by whom, how far ahead.
    pub settings: Settings,
}

/// Loads batches of views. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Loader {
    job: SharedJob,
    meter: Arc<Meter>,
}

impl Loader {
    /// A loader. Reads what is known of the columns, and no samples.
    #[boxed]
    pub async fn new(spec: LoaderSpec) -> Result<Loader, LoaderError> {
        let LoaderSpec { views, columns, required, shuffle, draws, bucket_by, settings } = spec;
        if views.is_empty() {
            return Err(LoaderError::refused("there is no view to load"));
        }
        let mut sources = Vec::with_capacity(views.len());
        for view in &views {
            sources.push(with_samples(view, &required).await?);
        }
        let outputs = columns.iter().map(|plan| output_of(&sources, plan)).collect::<Result<_, _>>()?;
        let names: Vec<String> = columns.iter().map(|plan| plan.name.clone()).collect();
        let (mut shuffles, mut loaded_row_bytes) = (Vec::new(), 1);
        for view in &sources {
            shuffles.push(shuffle_of(shuffle, row_bytes(view, &view.columns()).await?));
            loaded_row_bytes = loaded_row_bytes.max(row_bytes(view, &names).await?);
        }
        let mut order = OrderSpec::new(sources.iter().map(View::len).collect(), shuffles, draws)?;
        if let Some(name) = &bucket_by {
            let chunk = settings.batch_size.saturating_mul(settings.ranks.world).max(1);
            let mut lengths = Vec::with_capacity(sources.len());
            for view in &sources {
                lengths.push(lengths_of(view, name).await?);
            }
            let sizes = BucketSizes { window: chunk.saturating_mul(WINDOW_CHUNKS), chunk };
            order = order.bucketed(sizes, lengths.into());
        }
        let digest = digest(&sources, &order);
        // Says what is wrong with ranks and sizes before anything is read.
        Cut::new(order.len(), 0, settings.batch_size, settings.ranks, settings.tail)?;
        let job = Job { sources, columns, outputs, order, settings, digest, loaded_row_bytes };
        Ok(Loader { job: Arc::new(job), meter: Arc::new(Meter::new()) })
    }

    /// How many samples an epoch has, over all ranks.
    pub fn samples(&self) -> u64 {
        self.job.order.len()
    }

    /// How many batches an epoch has from a place on: the same on every rank.
    pub fn batch_count(&self, consumed: u64) -> Result<u64, LoaderError> {
        Ok(self.cut(consumed)?.batches())
    }

    /// The views it loads: without the rows that lack a required sample.
    pub fn views(&self) -> &[View] {
        &self.job.sources
    }

    /// What the order of epochs depends on.
    pub fn order(&self) -> &OrderSpec {
        &self.job.order
    }

    /// How much, by whom, how far ahead.
    pub fn settings(&self) -> &Settings {
        &self.job.settings
    }

    /// How well epochs are shuffled, compared with a full shuffle.
    pub fn quality(&self, seed: u64) -> Result<f64, LoaderError> {
        self.job.order.quality(seed)
    }

    /// What was done so far.
    pub fn stats(&self) -> Stats {
        self.meter.stats()
    }

    /// The same loader, whose counters begin again.
    pub fn with_new_stats(&self) -> Loader {
        Loader { job: Arc::clone(&self.job), meter: Arc::new(Meter::new()) }
    }

    /// A place of an epoch as a state.
    pub fn state(&self, seed: u64, epoch: u64, consumed: u64) -> LoaderState {
        let done = consumed >= self.samples();
        LoaderState {
            format: STATE_FORMAT,
            view: self.job.digest.clone(),
            seed,
            epoch: if done { epoch + 1 } else { epoch },
            consumed: if done { 0 } else { consumed },
            shuffle: self.job.order.shuffles().to_vec(),
            buckets: self.job.order.buckets(),
        }
    }

    /// A loader that goes on as `state` says: with its way to shuffle. Fails if the state is of other views.
    pub fn resumed(&self, state: &LoaderState) -> Result<Loader, LoaderError> {
        state.check(&self.job.digest, &self.job.order)?;
        if state.shuffle == self.job.order.shuffles() && state.buckets == self.job.order.buckets() {
            return Ok(self.clone());
        }
        let job = Job {
            sources: self.job.sources.clone(),
            columns: self.job.columns.clone(),
            outputs: self.job.outputs.clone(),
            order: self.job.order.shuffled(state.shuffle.clone()).with_buckets(state.buckets),
            settings: self.job.settings.clone(),
            digest: self.job.digest.clone(),
            loaded_row_bytes: self.job.loaded_row_bytes,
        };
        Ok(Loader { job: Arc::new(job), meter: Arc::clone(&self.meter) })
    }

    fn cut(&self, consumed: u64) -> Result<Cut, LoaderError> {
        let Settings { batch_size, ranks, tail, .. } = self.job.settings;
        Cut::new(self.job.order.len(), consumed, batch_size, ranks, tail)
    }

    /// The batches of an epoch, from a place on.
    pub fn batches(&self, seed: u64, epoch: u64, consumed: u64) -> Result<Batches, LoaderError> {
        self.strided_batches(seed, epoch, consumed, 1)
    }

    /// Every `stride`-th batch of an epoch, from a place on: for one of several workers of a rank, each of which begins one batch
    /// behind the one before.
    pub fn strided_batches(
        &self,
        seed: u64,
        epoch: u64,
        consumed: u64,
        stride: u64,
    ) -> Result<Batches, LoaderError> {
        let cut = self.cut(consumed)?.strided(stride);
        Ok(Batches {
            job: Arc::clone(&self.job),
            meter: Arc::clone(&self.meter),
            cut,
            seed,
            epoch,
            next: 0,
            pipeline: None,
        })
    }
}

/// The length of each sample of a column: the size of its first axis. Only the index is read.
async fn lengths_of(view: &View, name: &str) -> Result<Arc<[u32]>, LoaderError> {
    let ids: Vec<u64> = view.rows().iter().collect();
    let facts = view.facts(name, &ids).await?;
    let length = |fact: Option<SampleFacts>| {
        fact.and_then(|fact| fact.shape.first().copied())
            .map_or(0, |size| u32::try_from(size).unwrap_or(u32::MAX))
    };
    Ok(facts.into_iter().map(length).collect())
}

fn output_of(
    sources: &[View],
    plan: &ColumnPlan,
) -> Result<Option<crate::sample_transform::SampleOutput>, LoaderError> {
    let mut found = None;
    for view in sources {
        if let Some(text) = view.computed().get(&plan.name) {
            let why =
                format!("column {:?} is computed ({text}) and cannot be read from the store", plan.name);
            return Err(LoaderError::refused(why));
        }
        if !view.columns().contains(&plan.name) {
            // Says which columns there are.
            view.select(&[&plan.name])?;
        }
        let column = view.source().column(&plan.name)?;
        let Some(transform) = &plan.transform else { continue };
        let refused = |failure: crate::sample_transform::TransformFailure| LoaderError::Collate {
            column: plan.name.clone(),
            why: failure.why,
        };
        let output = transform.output(&column).map_err(refused)?;
        if let Some(other) = found.replace(output.clone())
            && other != output
        {
            let why = format!("the transform makes {other:?} of one view and {output:?} of another");
            return Err(LoaderError::Collate { column: plan.name.clone(), why });
        }
    }
    Ok(found)
}

/// The batches of an epoch, one after the other. What is made ahead is dropped with it.
pub struct Batches {
    job: SharedJob,
    meter: Arc<Meter>,
    cut: Cut,
    seed: u64,
    epoch: u64,
    /// The batch that is due.
    next: u64,
    pipeline: Option<Pipeline>,
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches")
            .field("epoch", &self.epoch)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Batches {
    /// How many batches are left.
    pub fn left(&self) -> u64 {
        self.cut.batches().saturating_sub(self.next)
    }

    /// How many samples of the epoch all ranks together have consumed.
    pub fn consumed(&self) -> u64 {
        self.cut.consumed(self.next)
    }

    /// The epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The next batch, if it is ready: for callers that would rather not wait. `None` says nothing about the end.
    pub fn ready(&mut self) -> Option<Result<LoadedBatch, LoaderError>> {
        let made = self.pipeline.as_mut()?.ready()?;
        Some(self.taken(made))
    }

    /// The next batch; `None` at the end of the epoch. After an error of a sample the next call goes on behind that batch, after any other
    /// error it tries again.
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<LoadedBatch>, LoaderError> {
        let meter = Arc::clone(&self.meter);
        let _waiting = meter.waiting();
        for attempt in 0..2 {
            if self.next >= self.cut.batches() {
                self.pipeline = None;
                return Ok(None);
            }
            if self.pipeline.is_none() {
                let place = Place { seed: self.seed, epoch: self.epoch, batch: self.next };
                self.pipeline = Some(Pipeline::start(&self.job, &self.cut, place, &self.meter)?);
            }
            let Some(pipeline) = &mut self.pipeline else { continue };
            match pipeline.next(self.job.settings.timeout, &self.meter).await {
                Ok(Some(made)) => return self.taken(made).map(Some),
                // Its tasks are gone: with a runtime that ended before a fork, for example.
                Ok(None) if attempt == 0 => self.pipeline = None,
                Ok(None) => break,
                Err(error) => {
                    self.pipeline = None;
                    return Err(error);
                }
            }
        }
        self.pipeline = None;
        Err(LoaderError::Broken { why: "batches stopped coming".to_owned() })
    }

    fn taken(&mut self, made: Made) -> Result<LoadedBatch, LoaderError> {
        match made.batch {
            Ok(batch) => {
                self.next = batch.number + 1;
                self.meter.delivered(&batch);
                if self.next >= self.cut.batches() {
                    self.pipeline = None;
                }
                Ok(batch)
            }
            Err(error) => {
                match error.is_of_data() {
                    true => self.next += 1,
                    false => self.pipeline = None,
                }
                Err(error)
            }
        }
    }
}
