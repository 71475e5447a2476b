//! Where a dataset lives: a prefix in an object store, or a directory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use url::Url;

use crate::error::{IoError, IoErrorKind};
use crate::layers::counting::{CountingStore, Counts};
use crate::local::LocalRoot;
use crate::options::locate;

/// One object under a store's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path relative to the store's root.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Last change, milliseconds since 1970.
    pub modified_millis: i64,
}

/// A place for one dataset. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    text: String,
    url: Url,
    root: Arc<dyn ObjectStore>,
    prefixed: Arc<dyn ObjectStore>,
    local: Option<LocalRoot>,
    counts: Arc<Counts>,
    unproven_endpoint: Option<String>,
    proven: AtomicBool,
}

impl Store {
    /// The store at `url`: a local path, `file://`, `memory://`, `s3://`, `gs://` or `az://`.
    /// Nothing is touched yet.
    pub fn open(url: &str, options: &BTreeMap<String, String>) -> Result<Store, IoError> {
        let found = locate(url, options)?;
        Ok(Store::assemble(
            url.to_owned(),
            found.url,
            found.root,
            found.prefix,
            found.directory,
            found.unproven_endpoint,
        ))
    }

    /// A store over a given object store, for tests and simulations. `url` only names it.
    pub fn over(url: Url, root: Arc<dyn ObjectStore>) -> Result<Store, IoError> {
        let prefix = Path::from_url_path(url.path())
            .map_err(|e| IoError::new(IoErrorKind::Invalid, "open", url.as_str(), e.to_string()))?;
        Ok(Store::assemble(url.to_string(), url, root, prefix, None, None))
    }

    fn assemble(
        text: String,
        url: Url,
        root: Arc<dyn ObjectStore>,
        prefix: Path,
        directory: Option<PathBuf>,
        unproven_endpoint: Option<String>,
    ) -> Store {
        let counts = Arc::new(Counts::default());
        let root: Arc<dyn ObjectStore> = Arc::new(CountingStore::new(root, Arc::clone(&counts)));
        let prefixed: Arc<dyn ObjectStore> = Arc::new(PrefixStore::new(Arc::clone(&root), prefix));
        let local = directory.map(|d| LocalRoot::new(d, Arc::clone(&counts)));
        let proven = AtomicBool::new(unproven_endpoint.is_none());
        Store {
            inner: Arc::new(Inner { text, url, root, prefixed, local, counts, unproven_endpoint, proven }),
        }
    }

    /// The URL as the caller wrote it.
    pub fn text(&self) -> &str {
        &self.inner.text
    }

    /// The URL, absolute and ending with a slash.
    pub fn url(&self) -> &Url {
        &self.inner.url
    }

    /// The whole object store the dataset is in (paths from the store's root).
    pub fn root_object_store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.inner.root)
    }

    /// The object store as seen from the dataset's root.
    pub fn object_store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.inner.prefixed)
    }

    /// The directory, when the dataset is on this machine.
    pub fn local(&self) -> Option<&LocalRoot> {
        self.inner.local.as_ref()
    }

    /// Traffic so far through this store and its clones.
    pub fn counts(&self) -> &Counts {
        &self.inner.counts
    }

    pub(crate) fn unproven_endpoint(&self) -> Option<&str> {
        self.inner.unproven_endpoint.as_deref()
    }

    pub(crate) fn proven(&self) -> &AtomicBool {
        &self.inner.proven
    }

    fn path(&self, path: &str) -> Result<Path, IoError> {
        Path::parse(path).map_err(|e| IoError::new(IoErrorKind::Invalid, "path", path, e.to_string()))
    }

    /// The bytes of an object in `range`, exactly.
    pub async fn read(&self, path: &str, range: Range<u64>) -> Result<Bytes, IoError> {
        let length = range.end.saturating_sub(range.start);
        if let Some(local) = self.local() {
            let file = local.file(path)?;
            let size = usize::try_from(length)
                .map_err(|_| IoError::new(IoErrorKind::Invalid, "read", path, "range too long"))?;
            // The range may come from damaged metadata: look before allocating.
            let held = file.metadata().map_err(|e| IoError::from_os("read", path, e))?.len();
            if range.end > held {
                let message = format!("wanted bytes {}..{}, the file has {held}", range.start, range.end);
                return Err(IoError::new(IoErrorKind::Truncated, "read", path, message));
            }
            let mut bytes = vec![0; size];
            local.read_at(&file, path, range.start, &mut [], &mut bytes)?;
            return Ok(bytes.into());
        }
        let location = self.path(path)?;
        let bytes = self
            .inner
            .prefixed
            .get_range(&location, range.clone())
            .await
            .map_err(|e| IoError::from_store("read", path, e))?;
        if bytes.len() as u64 != length {
            let message = format!("wanted {length} bytes at {}, got {}", range.start, bytes.len());
            return Err(IoError::new(IoErrorKind::Truncated, "read", path, message));
        }
        Ok(bytes)
    }

    /// A whole object.
    pub async fn read_all(&self, path: &str) -> Result<Bytes, IoError> {
        let location = self.path(path)?;
        let found =
            self.inner.prefixed.get(&location).await.map_err(|e| IoError::from_store("read", path, e))?;
        found.bytes().await.map_err(|e| IoError::from_store("read", path, e))
    }

    /// The last `length` bytes of an object (all of it when it is shorter), and its size.
    pub async fn read_tail(&self, path: &str, length: u64) -> Result<(Bytes, u64), IoError> {
        let location = self.path(path)?;
        let options = GetOptions { range: Some(GetRange::Suffix(length)), ..Default::default() };
        let found = self
            .inner
            .prefixed
            .get_opts(&location, options)
            .await
            .map_err(|e| IoError::from_store("read", path, e))?;
        let size = found.meta.size;
        let bytes = found.bytes().await.map_err(|e| IoError::from_store("read", path, e))?;
        Ok((bytes, size))
    }

    /// Puts a small object that must not be there yet; `AlreadyExists` when it is.
    pub async fn put_new(&self, path: &str, bytes: Bytes) -> Result<(), IoError> {
        let location = self.path(path)?;
        let options = PutOptions { mode: PutMode::Create, ..Default::default() };
        self.inner
            .prefixed
            .put_opts(&location, bytes.into(), options)
            .await
            .map(|_| ())
            .map_err(|e| IoError::from_store("put", path, e))
    }

    /// Whether an object is there.
    pub async fn exists(&self, path: &str) -> Result<bool, IoError> {
        let location = self.path(path)?;
        match self.inner.prefixed.head(&location).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(e) => match IoError::from_store("look", path, e) {
                // A file where a directory was expected: nothing is below it.
                error if error.kind() == IoErrorKind::Invalid => Ok(false),
                error => Err(error),
            },
        }
    }

    /// Every object below `prefix` (`""` for all), in no particular order.
    pub async fn list(&self, prefix: &str) -> Result<Vec<Entry>, IoError> {
        let within = if prefix.is_empty() { None } else { Some(self.path(prefix)?) };
        self.inner
            .prefixed
            .list(within.as_ref())
            .map_ok(|meta| Entry {
                path: meta.location.to_string(),
                bytes: meta.size,
                modified_millis: meta.last_modified.timestamp_millis(),
            })
            .try_collect()
            .await
            .map_err(|e| IoError::from_store("list", prefix, e))
    }

    /// Removes objects; those that are gone already are no error.
    pub async fn remove(&self, paths: Vec<String>) -> Result<(), IoError> {
        let locations = paths.iter().map(|p| self.path(p)).collect::<Result<Vec<_>, _>>()?;
        let stream = futures::stream::iter(locations.into_iter().map(Ok)).boxed();
        let mut removed = self.inner.prefixed.delete_stream(stream);
        while let Some(result) = removed.next().await {
            match result {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(e) => return Err(IoError::from_store("remove", self.text(), e)),
            }
        }
        Ok(())
    }
}
