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

use crate::blocking::blocking;
use crate::climb::{climb, climbs};
use crate::error::{IoError, IoErrorKind, is_below_a_file};
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
    /// This store's root in `root`.
    prefix: Path,
    prefixed: Arc<dyn ObjectStore>,
    /// The directories that lead here from the outermost store's root; empty for that store itself.
    directory: String,
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

    /// The store whose root is a directory of this one. Its paths may climb (`../x`), but not out of this store.
    /// Traffic is counted together.
    pub fn below(&self, directory: &str) -> Result<Store, IoError> {
        let bad = |message: String| IoError::new(IoErrorKind::Invalid, "open", directory, message);
        let below = self.path(directory)?;
        let text = format!("{}/{directory}", self.text().trim_end_matches('/'));
        let url = self.url().join(&format!("{directory}/")).map_err(|e| bad(e.to_string()))?;
        let prefix = Path::from_iter(self.inner.prefix.parts().chain(below.parts()));
        let directory = match self.inner.directory.as_str() {
            "" => directory.to_owned(),
            above => format!("{above}/{directory}"),
        };
        let root = Arc::clone(&self.inner.root);
        let counts = Arc::clone(&self.inner.counts);
        let local = self.local().map(|local| {
            LocalRoot::new(local.path().join(below.as_ref()), climbs(&directory), Arc::clone(&counts))
        });
        Ok(Store {
            inner: Arc::new(Inner {
                text,
                url,
                prefixed: Arc::new(PrefixStore::new(Arc::clone(&root), prefix.clone())),
                root,
                prefix,
                directory,
                local,
                counts,
                unproven_endpoint: self.inner.unproven_endpoint.clone(),
                proven: AtomicBool::new(self.inner.proven.load(std::sync::atomic::Ordering::Acquire)),
            }),
        })
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
        let prefixed: Arc<dyn ObjectStore> = Arc::new(PrefixStore::new(Arc::clone(&root), prefix.clone()));
        let local = directory.map(|d| LocalRoot::new(d, 0, Arc::clone(&counts)));
        let proven = AtomicBool::new(unproven_endpoint.is_none());
        let directory = String::new();
        Store {
            inner: Arc::new(Inner {
                text,
                url,
                root,
                prefix,
                prefixed,
                directory,
                local,
                counts,
                unproven_endpoint,
                proven,
            }),
        }
    }

    /// Where this store's root is in the outermost store: `""` for that store itself.
    pub fn directory(&self) -> &str {
        &self.inner.directory
    }

    /// A path of this store as seen from the outermost store's root, by which stores below it can be compared.
    pub fn outer_path(&self, path: &str) -> Result<String, IoError> {
        let (up, rest) = climb(path, climbs(self.directory()))?;
        let kept = climbs(self.directory()) - up;
        let mut parts: Vec<&str> = self.directory().split('/').take(kept).collect();
        parts.push(rest);
        Ok(parts.join("/"))
    }

    /// The path by which this store reaches what the outermost store calls `outer`.
    pub fn path_to(&self, outer: &str) -> String {
        let own = outer.strip_prefix(self.directory()).and_then(|rest| rest.strip_prefix('/'));
        match own.filter(|_| !self.directory().is_empty()) {
            Some(own) => own.to_owned(),
            None => "../".repeat(climbs(self.directory())) + outer,
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

    /// The object store to ask for `path`, and what it calls it.
    fn place(&self, path: &str) -> Result<(&Arc<dyn ObjectStore>, Path), IoError> {
        if !path.starts_with("../") {
            return Ok((&self.inner.prefixed, self.path(path)?));
        }
        let (up, rest) = climb(path, climbs(self.directory()))?;
        let above = self.inner.prefix.parts().count() - up;
        let rest = self.path(rest)?;
        Ok((&self.inner.root, Path::from_iter(self.inner.prefix.parts().take(above).chain(rest.parts()))))
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
        let (objects, location) = self.place(path)?;
        let bytes = match objects.get_range(&location, range.clone()).await {
            Ok(bytes) => bytes,
            Err(error @ object_store::Error::NotFound { .. }) => {
                return Err(IoError::from_store("read", path, error));
            }
            // Stores refuse a range beyond the end each in words of its own: an object that is too short is damage, not an
            // outage.
            Err(error) => match objects.head(&location).await {
                Ok(found) if found.size < range.end => {
                    let message =
                        format!("wanted bytes {}..{}, the object has {}", range.start, range.end, found.size);
                    return Err(IoError::new(IoErrorKind::Truncated, "read", path, message));
                }
                _ => return Err(IoError::from_store("read", path, error)),
            },
        };
        if bytes.len() as u64 != length {
            let message = format!("wanted {length} bytes at {}, got {}", range.start, bytes.len());
            return Err(IoError::new(IoErrorKind::Truncated, "read", path, message));
        }
        Ok(bytes)
    }

    /// A whole object.
    pub async fn read_all(&self, path: &str) -> Result<Bytes, IoError> {
        let (objects, location) = self.place(path)?;
        let found = objects.get(&location).await.map_err(|e| IoError::from_store("read", path, e))?;
        found.bytes().await.map_err(|e| IoError::from_store("read", path, e))
    }

    /// The first `length` bytes of an object (all of it when it is shorter), and its size.
    pub async fn read_head(&self, path: &str, length: u64) -> Result<(Bytes, u64), IoError> {
        let (objects, location) = self.place(path)?;
        let options = GetOptions { range: Some(GetRange::Bounded(0..length)), ..Default::default() };
        let found = match objects.get_opts(&location, options).await {
            Ok(found) => found,
            Err(error @ object_store::Error::NotFound { .. }) => {
                return Err(IoError::from_store("read", path, error));
            }
            // Stores refuse a range of an object without bytes.
            Err(_) => objects.get(&location).await.map_err(|e| IoError::from_store("read", path, e))?,
        };
        let size = found.meta.size;
        let bytes = found.bytes().await.map_err(|e| IoError::from_store("read", path, e))?;
        Ok((bytes, size))
    }

    /// The last `length` bytes of an object (all of it when it is shorter), and its size.
    pub async fn read_tail(&self, path: &str, length: u64) -> Result<(Bytes, u64), IoError> {
        let (objects, location) = self.place(path)?;
        let options = GetOptions { range: Some(GetRange::Suffix(length)), ..Default::default() };
        let found =
            objects.get_opts(&location, options).await.map_err(|e| IoError::from_store("read", path, e))?;
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

    /// Makes `to`, which must not be there yet, the same as `from`: a hard link on this machine, a copy made by
    /// the server elsewhere.
    pub async fn copy(&self, from: &str, to: &str) -> Result<(), IoError> {
        if let Some(local) = self.local() {
            return blocking(|| local.link(from, to));
        }
        let (_, from_location) = self.place(from)?;
        // The store that sees both is the root.
        let absolute = |path: Path, climbed: bool| match climbed {
            true => path,
            false => Path::from_iter(self.inner.prefix.parts().chain(path.parts())),
        };
        let from_location = absolute(from_location, from.starts_with("../"));
        let to_location = absolute(self.path(to)?, false);
        // The name is new, so nothing is overwritten; stores without conditional copies have this one.
        let copied = self.inner.root.copy(&from_location, &to_location).await;
        copied.map_err(|e| IoError::from_store("copy", from, e))
    }

    /// Whether an object is there.
    pub async fn exists(&self, path: &str) -> Result<bool, IoError> {
        let (objects, location) = self.place(path)?;
        match objects.head(&location).await {
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
        let found = self.inner.prefixed.list(within.as_ref()).map_ok(|meta| Entry {
            path: meta.location.to_string(),
            bytes: meta.size,
            modified_millis: meta.last_modified.timestamp_millis(),
        });
        match found.try_collect().await {
            // Below a file there is nothing.
            Err(error) if is_below_a_file(&error) => Ok(Vec::new()),
            found => found.map_err(|e| IoError::from_store("list", prefix, e)),
        }
    }

    /// The objects and directories right below `prefix` (`""` for the root): names only, in no particular order.
    pub async fn names(&self, prefix: &str) -> Result<Vec<String>, IoError> {
        let within = if prefix.is_empty() { None } else { Some(self.path(prefix)?) };
        let found = match self.inner.prefixed.list_with_delimiter(within.as_ref()).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(Vec::new()),
            Err(e) => return Err(IoError::from_store("list", prefix, e)),
        };
        let objects = found.objects.into_iter().map(|meta| meta.location);
        let names = found.common_prefixes.into_iter().chain(objects);
        Ok(names.filter_map(|path| path.filename().map(str::to_owned)).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_climb_within_the_outermost_store() {
        let outer = Store::open("memory://climbing", &Default::default()).unwrap();
        let branch = outer.below("_branches/b").unwrap();
        assert_eq!(branch.outer_path("../../data/x").unwrap(), "data/x");
        assert_eq!(branch.outer_path("../a/data/x").unwrap(), "_branches/a/data/x");
        assert_eq!(branch.outer_path("data/x").unwrap(), "_branches/b/data/x");
        assert_eq!(branch.path_to("_branches/b/data/x"), "data/x");
        assert_eq!(branch.path_to("_branches/bb/data/x"), "../../_branches/bb/data/x");
        assert_eq!(outer.path_to("data/x"), "data/x");
        assert_eq!(outer.outer_path("data/x").unwrap(), "data/x");
        assert!(branch.outer_path("../../../x").is_err());
        assert!(branch.outer_path("data/../../../x").is_err());
        assert!(outer.outer_path("../x").is_err());
    }

    async fn check(outer: Store) {
        let branch = outer.below("_branches/b").unwrap();
        outer.put_new("data/x", Bytes::from_static(b"abc")).await.unwrap();
        assert_eq!(&branch.read_all("../../data/x").await.unwrap()[..], b"abc");
        assert_eq!(&branch.read("../../data/x", 1..3).await.unwrap()[..], b"bc");
        assert_eq!(branch.read_tail("../../data/x", 2).await.unwrap(), (Bytes::from_static(b"bc"), 3));
        assert!(branch.exists("../../data/x").await.unwrap());
        branch.copy("../../data/x", "data/y").await.unwrap();
        branch.copy("data/y", "data/z").await.unwrap();
        assert_eq!(&outer.read_all("_branches/b/data/z").await.unwrap()[..], b"abc");
        assert!(branch.read_all("../../../data/x").await.is_err());
        let mut names = outer.names("_branches/b").await.unwrap();
        names.extend(outer.names("_branches/b/data").await.unwrap());
        names.sort();
        assert_eq!(names, ["data", "y", "z"]);
        assert_eq!(outer.names("nowhere").await.unwrap(), Vec::<String>::new());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_store_below_reaches_what_is_above() {
        check(Store::open("memory://below", &Default::default()).unwrap()).await;
        let directory = tempfile::tempdir().unwrap();
        check(Store::open(directory.path().to_str().unwrap(), &Default::default()).unwrap()).await;
    }
}
