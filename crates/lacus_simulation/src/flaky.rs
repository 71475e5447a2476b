//! A store that fails as a real one might: before a request is done, or after, with the answer lost.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

use crate::dice::Dice;

/// How often what goes wrong. 0 means never, n means once in n requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A read fails.
    pub read: u64,
    /// A put fails and nothing is written.
    pub put: u64,
    /// A put succeeds and its answer is lost.
    pub lost_answer: u64,
    /// A conditional put succeeds, its answer is lost, and the client's own retry finds the object there already.
    pub refused_retry: u64,
    /// From this request on the process is dead: every request fails. 0 means never.
    pub crash_at: u64,
    /// This one request fails and has no effect. 0 means none.
    pub fail_at: u64,
    /// This one request has its effect and its answer is lost. 0 means none.
    pub cut_at: u64,
    /// This one request is answered late: others that are under way go first. 0 means none.
    pub delay_at: u64,
}

/// A store with faults, over a real one.
#[derive(Debug)]
pub struct FlakyStore {
    inner: Arc<dyn ObjectStore>,
    faults: Faults,
    dice: Dice,
    requests: Arc<AtomicU64>,
    calm: Arc<AtomicBool>,
}

impl FlakyStore {
    /// Wraps a store; the faults fall as `seed` says.
    pub fn new(inner: Arc<dyn ObjectStore>, faults: Faults, seed: u64) -> Self {
        FlakyStore { inner, faults, dice: Dice::new(seed), requests: Arc::default(), calm: Arc::default() }
    }

    /// No faults from now on.
    pub fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    fn fails(&self, once_in: u64) -> bool {
        !self.calm.load(Ordering::Relaxed) && once_in > 0 && self.dice.one_in(once_in)
    }

    fn check(&self, what: &'static str, once_in: u64) -> Result<u64> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        if self.calm.load(Ordering::Relaxed) {
            return Ok(number);
        }
        let crashed = self.faults.crash_at > 0 && number >= self.faults.crash_at;
        match crashed || number == self.faults.fail_at || self.fails(once_in) {
            true => Err(broken(what)),
            false => Ok(number),
        }
    }

    /// Holds up the request that is to be late.
    async fn wait(&self, number: u64) {
        if number == self.faults.delay_at && !self.calm.load(Ordering::Relaxed) {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Loses the answer to the request that is to be cut.
    fn answer<T>(&self, number: u64, answer: T) -> Result<T> {
        match number == self.faults.cut_at && !self.calm.load(Ordering::Relaxed) {
            true => Err(broken("the answer was lost")),
            false => Ok(answer),
        }
    }
}

fn broken(what: &'static str) -> object_store::Error {
    object_store::Error::Generic { store: "flaky", source: format!("simulated fault: {what}").into() }
}

impl fmt::Display for FlakyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flaky {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for FlakyStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let number = self.check("put", self.faults.put)?;
        self.wait(number).await;
        let is_conditional = matches!(opts.mode, PutMode::Create);
        let result = self.answer(number, self.inner.put_opts(location, payload, opts).await?)?;
        if is_conditional && self.fails(self.faults.refused_retry) {
            let source = "simulated fault: the retry of a put that got in".into();
            return Err(object_store::Error::AlreadyExists { path: location.to_string(), source });
        }
        match self.fails(self.faults.lost_answer) {
            true => Err(broken("the answer to a put was lost")),
            false => Ok(result),
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.check("multipart", self.faults.put)?;
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let number = self.check("get", self.faults.read)?;
        self.wait(number).await;
        self.answer(number, self.inner.get_opts(location, options).await?)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.check("get", self.faults.read)?;
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        // Each is a request of its own: a process may die between two of them.
        let (requests, calm) = (Arc::clone(&self.requests), Arc::clone(&self.calm));
        let Faults { crash_at, fail_at, .. } = self.faults;
        let checked = locations.map(move |location| {
            let number = requests.fetch_add(1, Ordering::Relaxed) + 1;
            let fails = (crash_at > 0 && number >= crash_at) || number == fail_at;
            match fails && !calm.load(Ordering::Relaxed) {
                true => Err(broken("delete")),
                false => location,
            }
        });
        self.inner.delete_stream(checked.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.check("list", self.faults.read) {
            Ok(_) => self.inner.list(prefix),
            Err(error) => futures::stream::once(async { Err(error) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let number = self.check("list", self.faults.read)?;
        self.answer(number, self.inner.list_with_delimiter(prefix).await?)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let number = self.check("copy", self.faults.put)?;
        self.wait(number).await;
        self.inner.copy_opts(from, to, options).await?;
        self.answer(number, ())
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.check("rename", self.faults.put)?;
        self.inner.rename_opts(from, to, options).await
    }
}
