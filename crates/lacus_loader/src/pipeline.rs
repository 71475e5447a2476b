//! Makes batches ahead of time: plans, fetches and decodes, each stage as far ahead as its share of bytes allows.
//!
//! ```text
//! planner ─stretches, in order→ fetches (several at once) ─in order→ decoder ─batches, in order→ Batches::next
//!    └ waits for its half of the bytes                        └ waits for the other half      └ gives both back
//! ```
//!
//! Two tasks of the runtime drive a pipeline. They and what they started end when it is dropped; it is started again, from the batch that
//! is due, by the next call that needs it: after an error, after a fork, on another runtime.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{JoinError, JoinHandle};

use crate::batch::LoadedBatch;
use crate::decode::Decoding;
use crate::error::LoaderError;
use crate::job::SharedJob;
use crate::meter::Meter;
use crate::order::Cut;
use crate::stretch::{BatchRows, Planner, Stretch};

/// Decoded bytes that are worth sharing out at once: much less, and threads wait for each other more often than they work; more, and
/// the first of them comes late.
const AT_ONCE_BYTES: u64 = 4 << 20;

/// Stretches that are on their way at once, at most; bytes bound them earlier, unless they are tiny.
const STRETCHES: usize = 8;

/// Permits of a budget are so many bytes each.
const PERMIT_BYTES: u64 = 1 << 10;

/// Where an epoch is to begin, and what it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) seed: u64,
    pub(crate) epoch: u64,
    pub(crate) batch: u64,
}

/// A batch with the bytes it was allowed to take.
pub(crate) struct Made {
    pub(crate) batch: Result<LoadedBatch, LoaderError>,
    _permit: Option<OwnedSemaphorePermit>,
}

/// Two tasks, and the batches that they made.
pub(crate) struct Pipeline {
    made: mpsc::UnboundedReceiver<Made>,
    stop: Arc<AtomicBool>,
    _planner: Task<()>,
    _decoder: Task<()>,
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A task that ends when it is dropped.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// So many bytes, of which stages take some for what they hold.
#[derive(Clone)]
struct Budget {
    permits: Arc<Semaphore>,
    all: u32,
}

impl Budget {
    fn new(bytes: u64) -> Budget {
        let all = u32::try_from((bytes / PERMIT_BYTES).max(1)).unwrap_or(u32::MAX >> 4).min(u32::MAX >> 4);
        Budget { permits: Arc::new(Semaphore::new(all as usize)), all }
    }

    /// Waits until so many bytes are free. What is larger than the budget goes alone.
    async fn take(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let wanted = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX).clamp(1, self.all);
        Arc::clone(&self.permits).acquire_many_owned(wanted).await.ok()
    }
}

/// A stretch that is being fetched.
struct Coming {
    stretch: Task<Result<Stretch, LoaderError>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Pipeline {
    /// Starts the tasks on the runtime of the caller.
    pub(crate) fn start(
        job: &SharedJob,
        cut: &Cut,
        place: Place,
        meter: &Arc<Meter>,
    ) -> Result<Pipeline, LoaderError> {
        let prefetch = job.settings.prefetch_bytes;
        let (stored, decoded) = (Budget::new(prefetch / 2), Budget::new(prefetch - prefetch / 2));
        let order = job.order.epoch(place.seed, place.epoch)?;
        let planner = Planner::new(Arc::clone(job), order, cut.clone(), place.batch, prefetch / 4);
        let (coming, stretches) = mpsc::channel(STRETCHES);
        let (send, made) = mpsc::unbounded_channel();
        let stop = Arc::new(AtomicBool::new(false));
        let planning = plan_all(planner, Arc::clone(job), stored, coming, Arc::clone(meter));
        let decoder = Decoder {
            job: Arc::clone(job),
            cut: cut.clone(),
            place,
            budget: decoded,
            made: send,
            stop: Arc::clone(&stop),
            meter: Arc::clone(meter),
        };
        Ok(Pipeline {
            made,
            stop,
            _planner: Task(tokio::spawn(planning)),
            _decoder: Task(tokio::spawn(decoder.run(stretches))),
        })
    }

    /// A batch that is ready.
    pub(crate) fn ready(&mut self) -> Option<Made> {
        self.made.try_recv().ok()
    }

    /// The next batch; `None` if the tasks are gone.
    pub(crate) async fn next(&mut self, limit: Duration, meter: &Meter) -> Result<Option<Made>, LoaderError> {
        match tokio::time::timeout(limit, self.made.recv()).await {
            Ok(made) => Ok(made),
            Err(_) => Err(LoaderError::TimedOut { secs: limit.as_secs(), what: meter.awaited() }),
        }
    }
}

/// Plans stretches and begins to fetch them, as far ahead as bytes allow.
async fn plan_all(
    mut planner: Planner,
    job: SharedJob,
    budget: Budget,
    coming: mpsc::Sender<Coming>,
    meter: Arc<Meter>,
) {
    loop {
        let planned = match planner.next(&meter).await {
            Ok(Some(planned)) => planned,
            Ok(None) => return,
            Err(error) => {
                // Behind what is on its way.
                let stretch = Task(tokio::spawn(async move { Err(error) }));
                let _ = coming.send(Coming { stretch, _permit: None }).await;
                return;
            }
        };
        let permit = budget.take(planned.stored_bytes).await;
        let (job, meter) = (Arc::clone(&job), Arc::clone(&meter));
        if let (Some(first), Some(last)) = (planned.batches.first(), planned.batches.last()) {
            let url = job.sources.first().map_or("", |view| view.source().table().home().text()).to_owned();
            meter.awaits(format!(
                "{} bytes of batches {} to {} from {url}",
                planned.stored_bytes, first.number, last.number
            ));
        }
        let fetch = async move { planned.fetch(&job, &meter).await };
        let stretch = Task(tokio::spawn(fetch));
        if coming.send(Coming { stretch, _permit: permit }).await.is_err() {
            return;
        }
    }
}

/// Decodes stretches as they come, in order.
struct Decoder {
    job: SharedJob,
    cut: Cut,
    place: Place,
    budget: Budget,
    made: mpsc::UnboundedSender<Made>,
    stop: Arc<AtomicBool>,
    meter: Arc<Meter>,
}

impl Decoder {
    async fn run(self, mut stretches: mpsc::Receiver<Coming>) {
        while let Some(mut coming) = stretches.recv().await {
            let stretch = match (&mut coming.stretch.0).await {
                Ok(Ok(stretch)) => stretch,
                Ok(Err(error)) => {
                    let _ = self.made.send(Made { batch: Err(error), _permit: None });
                    return;
                }
                Err(ended) => {
                    self.report(&ended, "fetched");
                    return;
                }
            };
            let stretch = Arc::new(stretch);
            let mut start = 0;
            while start < stretch.batches.len() {
                let end = start + group_len(&stretch.batches[start..], &self.budget);
                let mut permits = Vec::with_capacity(end - start);
                for batch in &stretch.batches[start..end] {
                    permits.push(self.budget.take(batch.bytes).await);
                }
                let Some(made) = self.decoded(Arc::clone(&stretch), start..end).await else { return };
                for (batch, permit) in made.into_iter().zip(permits) {
                    if self.made.send(Made { batch, _permit: permit }).is_err() {
                        return;
                    }
                }
                start = end;
            }
        }
    }

    /// Decodes some batches of a stretch, on a thread that may take its time. `None` if the runtime ends, or after a fault, which is
    /// reported.
    async fn decoded(
        &self,
        stretch: Arc<Stretch>,
        batches: Range<usize>,
    ) -> Option<Vec<Result<LoadedBatch, LoaderError>>> {
        let (job, cut, place) = (Arc::clone(&self.job), self.cut.clone(), self.place);
        let (stop, meter) = (Arc::clone(&self.stop), Arc::clone(&self.meter));
        let decoding = tokio::task::spawn_blocking(move || {
            let _decoding = meter.decoding();
            let pool = job.pool();
            let decoding = Decoding {
                job: &job,
                stretch: &stretch,
                cut: &cut,
                seed: place.seed,
                epoch: place.epoch,
                pool: &pool,
                stop: &stop,
            };
            decoding.batches(&stretch.batches[batches])
        });
        match decoding.await {
            Ok(made) => Some(made),
            Err(ended) => {
                self.report(&ended, "decoded");
                None
            }
        }
    }

    /// Says that a task panicked; one that was stopped is nobody's fault.
    fn report(&self, ended: &JoinError, what: &str) {
        if ended.is_panic() {
            let error = LoaderError::Broken { why: format!("a fault in lacus while samples were {what}") };
            let _ = self.made.send(Made { batch: Err(error), _permit: None });
        }
    }
}

/// How many batches are decoded at once, within a budget.
fn group_len(batches: &[BatchRows], budget: &Budget) -> usize {
    let most = AT_ONCE_BYTES.min(u64::from(budget.all) * PERMIT_BYTES);
    let mut bytes = 0u64;
    let fits = |batch: &&BatchRows| {
        // Rounded as permits are.
        bytes = bytes.saturating_add(batch.bytes).saturating_add(PERMIT_BYTES);
        bytes <= most
    };
    batches.iter().take_while(fits).count().max(1)
}
