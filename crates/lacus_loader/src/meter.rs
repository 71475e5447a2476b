//! Where does the time go? Counters that every stage adds to, and a verdict in words.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// Counters of one loader, from the first batch asked for on.
#[derive(Debug)]
pub(crate) struct Meter {
    started: Instant,
    fetch: Stage,
    decode: Stage,
    wait: Stage,
    samples: AtomicU64,
    batches: AtomicU64,
    stored_bytes: AtomicU64,
    decoded_bytes: AtomicU64,
    failures: AtomicU64,
    retries: AtomicU64,
    repeated: AtomicU64,
    /// What the pipeline waits for, for errors.
    waiting: Mutex<String>,
    /// The last samples that could not be loaded.
    failed: Mutex<Vec<String>>,
}

/// How many failed samples are kept by name: enough to see a pattern.
const KEPT_FAILURES: usize = 100;

/// Time during which at least one of something runs.
#[derive(Debug, Default)]
struct Stage {
    now: Mutex<(u32, Option<Instant>, u64)>,
}

impl Stage {
    fn begin(&self) {
        let mut now = locked(&self.now);
        if now.0 == 0 {
            now.1 = Some(Instant::now());
        }
        now.0 += 1;
    }

    fn end(&self) {
        let mut now = locked(&self.now);
        now.0 = now.0.saturating_sub(1);
        if now.0 == 0
            && let Some(since) = now.1.take()
        {
            now.2 += since.elapsed().as_nanos() as u64;
        }
    }

    fn nanos(&self) -> u64 {
        let now = locked(&self.now);
        now.2 + now.1.map_or(0, |since| since.elapsed().as_nanos() as u64)
    }
}

/// Something that runs until this is dropped.
pub(crate) struct Running<'a>(&'a Stage);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl Meter {
    pub(crate) fn new() -> Meter {
        Meter {
            started: Instant::now(),
            fetch: Stage::default(),
            decode: Stage::default(),
            wait: Stage::default(),
            samples: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            stored_bytes: AtomicU64::new(0),
            decoded_bytes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            waiting: Mutex::new("its first batch to be planned".to_owned()),
            failed: Mutex::default(),
        }
    }

    pub(crate) fn fetching(&self) -> Running<'_> {
        self.fetch.begin();
        Running(&self.fetch)
    }

    pub(crate) fn decoding(&self) -> Running<'_> {
        self.decode.begin();
        Running(&self.decode)
    }

    pub(crate) fn waiting(&self) -> Running<'_> {
        self.wait.begin();
        Running(&self.wait)
    }

    pub(crate) fn fetched(&self, bytes: u64) {
        self.stored_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn retried(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn delivered(&self, batch: &crate::batch::LoadedBatch) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.samples.fetch_add(batch.rows.len() as u64, Ordering::Relaxed);
        self.decoded_bytes.fetch_add(batch.bytes, Ordering::Relaxed);
        self.repeated.fetch_add(batch.repeated, Ordering::Relaxed);
        self.failures.fetch_add(batch.failures.len() as u64, Ordering::Relaxed);
        if !batch.failures.is_empty() {
            let mut failed = locked(&self.failed);
            for failure in &batch.failures {
                let crate::batch::Failure { column, row, why, .. } = failure;
                failed.push(format!("column {column:?}, row {} (id {}): {why}", row.place, row.id));
            }
            let surplus = failed.len().saturating_sub(KEPT_FAILURES);
            failed.drain(..surplus);
        }
    }

    /// Says what is waited for from now on.
    pub(crate) fn awaits(&self, what: String) {
        *locked(&self.waiting) = what;
    }

    pub(crate) fn awaited(&self) -> String {
        locked(&self.waiting).clone()
    }

    pub(crate) fn stats(&self) -> Stats {
        let secs = self.started.elapsed().as_secs_f64().max(1e-9);
        let share = |stage: &Stage| (stage.nanos() as f64 / 1e9 / secs).clamp(0.0, 1.0);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (samples, stored, decoded) =
            (load(&self.samples), load(&self.stored_bytes), load(&self.decoded_bytes));
        let mut stats = Stats {
            secs,
            samples,
            batches: load(&self.batches),
            samples_per_sec: samples as f64 / secs,
            stored_bytes: stored,
            stored_bytes_per_sec: stored as f64 / secs,
            decoded_bytes: decoded,
            decoded_bytes_per_sec: decoded as f64 / secs,
            fetch: share(&self.fetch),
            decode: share(&self.decode),
            wait: share(&self.wait),
            failures: load(&self.failures),
            repeated: load(&self.repeated),
            retries: load(&self.retries),
            failed: locked(&self.failed).clone(),
            verdict: String::new(),
        };
        stats.verdict = verdict(&stats);
        stats
    }
}

/// What a loader has done since its first batch was asked for.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Seconds since then.
    pub secs: f64,
    /// Samples handed over.
    pub samples: u64,
    /// Batches handed over.
    pub batches: u64,
    /// Samples a second.
    pub samples_per_sec: f64,
    /// Bytes fetched.
    pub stored_bytes: u64,
    /// Bytes fetched a second.
    pub stored_bytes_per_sec: f64,
    /// Bytes handed over.
    pub decoded_bytes: u64,
    /// Bytes handed over a second.
    pub decoded_bytes_per_sec: f64,
    /// The share of the time in which something was being fetched.
    pub fetch: f64,
    /// The share of the time in which something was being decoded or transformed.
    pub decode: f64,
    /// The share of the time in which the consumer waited for a batch.
    pub wait: f64,
    /// Samples that could not be loaded.
    pub failures: u64,
    /// Samples that came twice, so that ranks had equally many batches.
    pub repeated: u64,
    /// Reads that were tried again.
    pub retries: u64,
    /// The last samples that could not be loaded, and why.
    pub failed: Vec<String>,
    /// What limits the speed, in words.
    pub verdict: String,
}

/// What limits the speed, in words.
fn verdict(stats: &Stats) -> String {
    let idle = |busy: f64| format!("{:.0} %", 100.0 * (1.0 - busy));
    if stats.batches == 0 {
        return "no batch was handed over yet".to_owned();
    }
    // What the consumer does not wait for does not limit anything.
    if stats.wait < 0.1 {
        return format!(
            "the consumer is the limit: it waited {:.0} % of the time; decoding idles {}, fetching {}",
            100.0 * stats.wait,
            idle(stats.decode),
            idle(stats.fetch)
        );
    }
    match stats.decode >= stats.fetch {
        true => format!("decoding is the limit; fetching idles {}", idle(stats.fetch)),
        false => format!("fetching is the limit; decoding idles {}", idle(stats.decode)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_stage_is_named() {
        let stats =
            |fetch, decode, wait| verdict(&Stats { batches: 1, fetch, decode, wait, ..Meter::new().stats() });
        assert_eq!(stats(0.29, 0.95, 0.8), "decoding is the limit; fetching idles 71 %");
        assert_eq!(stats(0.9, 0.3, 0.8), "fetching is the limit; decoding idles 70 %");
        assert!(stats(0.2, 0.3, 0.02).starts_with("the consumer is the limit"));
        assert_eq!(Meter::new().stats().verdict, "no batch was handed over yet");
    }

    #[test]
    fn stages_that_overlap_count_once() {
        let meter = Meter::new();
        let first = meter.fetching();
        let second = meter.fetching();
        drop(first);
        assert_eq!(locked(&meter.fetch.now).0, 1);
        drop(second);
        let nanos = meter.fetch.nanos();
        assert_eq!(meter.fetch.nanos(), nanos, "time stands still while nothing runs");
    }
}
