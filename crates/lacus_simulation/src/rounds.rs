//! A store that counts round trips: how many reads had to wait for others, one after the other.
//!
//! Every read belongs to the round after the last one that was complete when it began. Reads are held up until all that
//! were asked for with them have begun too, so that the count does not depend on how fast anything is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

/// How often a read lets everything else go on before it is answered: enough for each of some hundred reads to begin.
const TURNS: usize = 50;

/// A store that counts rounds of reads. Writes and lists are passed on.
#[derive(Debug)]
pub struct RoundsStore {
    inner: Arc<dyn ObjectStore>,
    complete: Arc<AtomicU64>,
}

impl RoundsStore {
    /// Wraps a store.
    pub fn new(inner: Arc<dyn ObjectStore>) -> RoundsStore {
        RoundsStore { inner, complete: Arc::default() }
    }

    /// The rounds so far, which go on counting.
    pub fn rounds(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.complete)
    }
}

impl fmt::Display for RoundsStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rounds of {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for RoundsStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let round = self.complete.load(Ordering::SeqCst) + 1;
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
        let found = self.inner.get_opts(location, options).await;
        self.complete.fetch_max(round, Ordering::SeqCst);
        found
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::join_all;
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    #[tokio::test]
    async fn reads_at_once_are_one_round_and_reads_in_a_row_are_many() {
        let store = RoundsStore::new(Arc::new(InMemory::new()));
        let path = Path::from("x");
        store.put(&path, "abc".into()).await.unwrap();
        let rounds = || store.complete.load(Ordering::SeqCst);
        assert_eq!(rounds(), 0);
        join_all((0..300).map(|_| store.get(&path))).await;
        assert_eq!(rounds(), 1);
        for _ in 0..5 {
            store.get(&path).await.unwrap();
        }
        assert_eq!(rounds(), 6);
    }
}
