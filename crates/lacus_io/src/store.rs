//! Where a dataset lives: a prefix in an object store, or a directory.

use async_recursion::async_recursion as boxed;
use std::collections::BTreeMap;
use std::io;
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
use crate::error::{IoError, IoErrorKind};
use crate::layers::counting::{CountingStore, Counts};
use crate::local::LocalRoot;
use crate::memory::{Memory, Place};
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
    place: Arc<Place>,
}

impl Store {
    /// The store at `url`: a local path, `file://`, `memory://`, `s3://`, `gs://` or `az://`.
    /// Nothing is touched yet.
    pub fn open(url: &str, options: &BTreeMap<String, String>) -> Result<Store, IoError> {
        let found = locate(url, options)?;
        // Whoever has other rights, or asks another server, shares nothing.
        let place = Memory::process().place(&format!("{}\n{options:?}", found.url));
        Ok(Store::assemble(
            url.to_owned(),
            found.url,
            found.root,
            found.prefix,
            found.directory,
            found.unproven_endpoint,
            place,
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
        let place = match self.inner.place.identity() {
            Some(identity) => self.memory().place(&format!("{identity}\n{directory}")),
            None => self.memory().own_place(),
        };
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
                place,
            }),
        })
    }

    /// The same store within another budget than the process's, for tests and for programs that keep several.
    /// Nothing is shared with stores within other budgets.
    pub fn within(&self, memory: &Memory) -> Store {
        let inner = &self.inner;
        let place = match inner.place.identity() {
            _ if inner.place.memory().is_same(memory) => Arc::clone(&inner.place),
            Some(identity) => memory.place(identity),
            None => memory.own_place(),
        };
        let local = inner.local.as_ref().map(|local| local.again());
        Store {
            inner: Arc::new(Inner {
                text: inner.text.clone(),
                url: inner.url.clone(),
                root: Arc::clone(&inner.root),
                prefix: inner.prefix.clone(),
                prefixed: Arc::clone(&inner.prefixed),
                directory: inner.directory.clone(),
                local,
                counts: Arc::clone(&inner.counts),
                unproven_endpoint: inner.unproven_endpoint.clone(),
                proven: AtomicBool::new(inner.proven.load(std::sync::atomic::Ordering::Acquire)),
                place,
            }),
        }
    }

    /// What all handles on this store share: caches of what never changes.
    pub fn place(&self) -> &Place {
        &self.inner.place
    }

    /// The budget that reads from this store are part of.
    pub fn memory(&self) -> &Memory {
        self.inner.place.memory()
    }

    /// A store over a given object store, for tests and simulations. `url` only names it.
    pub fn over(url: Url, root: Arc<dyn ObjectStore>) -> Result<Store, IoError> {
        let prefix = Path::from_url_path(url.path())
            .map_err(|e| IoError::new(IoErrorKind::Invalid, "open", url.as_str(), e.to_string()))?;
        let place = Memory::process().own_place();
        Ok(Store::assemble(url.to_string(), url, root, prefix, None, None, place))
    }

    fn assemble(
        text: String,
        url: Url,
        root: Arc<dyn ObjectStore>,
        prefix: Path,
        directory: Option<PathBuf>,
        unproven_endpoint: Option<String>,
        place: Arc<Place>,
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
                place,
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
    pub(crate) fn local(&self) -> Option<&LocalRoot> {
        self.inner.local.as_ref()
    }

    /// Why there can be no dataset here: nothing is there, or no directory. `None` where there is one, where nobody can look,
    /// and on object stores, which have no directories.
    pub fn absence(&self) -> Option<&'static str> {
        match std::fs::metadata(self.local()?.path()) {
            Ok(found) if found.is_dir() => None,
            Ok(found) if found.is_file() => Some("this is a file"),
            Ok(_) => Some("nothing is there"),
            Err(error) => [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory]
                .contains(&error.kind())
                .then_some("nothing is there"),
        }
    }

    /// Whether what was put is safe against power loss at once, so that [`Store::make_durable`] has nothing to do.
    pub fn is_durable_at_once(&self) -> bool {
        self.local().is_none()
    }

    /// Makes objects safe against power loss: files on this machine, and the directories they are in, are synced; object
    /// stores have done so once they have answered.
    pub fn make_durable(&self, paths: &[String]) -> Result<(), IoError> {
        match self.local() {
            Some(local) => blocking(|| local.sync(paths)),
            None => Ok(()),
        }
    }

    /// Puts a small object in place of an old one. Readers see one or the other; on a file system, a power loss may leave
    /// either, or an empty file.
    #[boxed]
    pub async fn replace(&self, path: &str, bytes: Bytes) -> Result<(), IoError> {
        if let Some(local) = self.local() {
            return blocking(|| local.replace(path, &bytes));
        }
        let put = self.inner.prefixed.put(&self.path(path)?, bytes.into()).await;
        put.map(|_| ()).map_err(|e| IoError::from_store("put", path, e))
    }

    /// When an object came to be under its name, in milliseconds since 1970, where that is known better than from a listing:
    /// a hard link has the time of what it links to, but the file system knows when it was made.
    pub fn changed_millis(&self, path: &str) -> Option<i64> {
        self.local()?.changed_millis(path).ok()
    }

    /// Removes directories, given by their paths, that have nothing in them any more. Object stores have none.
    pub fn remove_empty_directories<'p>(&self, directories: impl IntoIterator<Item = &'p str>) {
        let Some(local) = self.local() else { return };
        for directory in directories {
            // A directory with something else in it stays.
            let _ = std::fs::remove_dir(local.path().join(directory));
        }
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
    fn located(&self, path: &str) -> Result<(&Arc<dyn ObjectStore>, Path), IoError> {
        if !path.starts_with("../") {
            return Ok((&self.inner.prefixed, self.path(path)?));
        }
        let (up, rest) = climb(path, climbs(self.directory()))?;
        let above = self.inner.prefix.parts().count() - up;
        let rest = self.path(rest)?;
        Ok((&self.inner.root, Path::from_iter(self.inner.prefix.parts().take(above).chain(rest.parts()))))
    }

    /// The bytes of an object in `range`, exactly.
    #[boxed]
    pub async fn read(&self, path: &str, range: Range<u64>) -> Result<Bytes, IoError> {
        let length = range.end.saturating_sub(range.start);
        if let Some(local) = self.local() {
            let file = local.file(path)?;
            let size = usize::try_from(length)
                .map_err(|_| IoError::new(IoErrorKind::Invalid, "read", path, "range too long"))?;
            // The range may come from damaged metadata: look before allocating.
            let held = file.metadata().map_err(|e| IoError::from_os("read", path, e))?.len();
            if range.end > held {
                return Err(too_short(path, &range, held));
            }
            let mut bytes = vec![0; size];
            local.read_at(&file, path, range.start, &mut [], &mut bytes)?;
            return Ok(bytes.into());
        }
        let (objects, location) = self.located(path)?;
        if length == 0 {
            // No store answers a request for no bytes.
            let found = objects.head(&location).await.map_err(|e| IoError::from_store("read", path, e))?;
            return match found.size < range.end {
                true => Err(too_short(path, &range, found.size)),
                false => Ok(Bytes::new()),
            };
        }
        let bytes = match objects.get_range(&location, range.clone()).await {
            Ok(bytes) => bytes,
            Err(error @ object_store::Error::NotFound { .. }) => {
                return Err(IoError::from_store("read", path, error));
            }
            // Stores refuse a range beyond the end each in words of its own: an object that is too short is damage, not an
            // outage.
            Err(error) => match objects.head(&location).await {
                Ok(found) if found.size < range.end => return Err(too_short(path, &range, found.size)),
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
    #[boxed]
    pub async fn read_all(&self, path: &str) -> Result<Bytes, IoError> {
        let (objects, location) = self.located(path)?;
        let found = objects.get(&location).await.map_err(|e| IoError::from_store("read", path, e))?;
        found.bytes().await.map_err(|e| IoError::from_store("read", path, e))
    }

    /// The first `length` bytes of an object (all of it when it is shorter), and its size.
    #[boxed]
    pub async fn read_head(&self, path: &str, length: u64) -> Result<(Bytes, u64), IoError> {
        self.read_end(path, length, GetRange::Bounded(0..length)).await
    }

    /// The last `length` bytes of an object (all of it when it is shorter), and its size.
    #[boxed]
    pub async fn read_tail(&self, path: &str, length: u64) -> Result<(Bytes, u64), IoError> {
        self.read_end(path, length, GetRange::Suffix(length)).await
    }

    /// Up to `length` bytes at one end of an object, in one request where the store can do that.
    async fn read_end(&self, path: &str, length: u64, range: GetRange) -> Result<(Bytes, u64), IoError> {
        let failed = |e| IoError::from_store("read", path, e);
        let (objects, location) = self.located(path)?;
        let from_end = matches!(range, GetRange::Suffix(_));
        if length > 0 {
            let options = GetOptions { range: Some(range), ..Default::default() };
            match objects.get_opts(&location, options).await {
                Ok(found) => {
                    let size = found.meta.size;
                    return Ok((found.bytes().await.map_err(failed)?, size));
                }
                Err(error @ object_store::Error::NotFound { .. }) => return Err(failed(error)),
                // Azure knows no ranges from the end, and stores refuse a range of an object without bytes. Asking for the
                // size first works everywhere; an outage shows again there.
                Err(_) => {}
            }
        }
        let size = objects.head(&location).await.map_err(failed)?.size;
        let taken = length.min(size);
        let range = if from_end { size - taken..size } else { 0..taken };
        Ok((self.read(path, range).await?, size))
    }

    /// Puts a small object that must not be there yet; `AlreadyExists` when it is.
    #[boxed]
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
    #[boxed]
    pub async fn copy(&self, from: &str, to: &str) -> Result<(), IoError> {
        if let Some(local) = self.local() {
            return blocking(|| local.link(from, to));
        }
        let (_, from_location) = self.located(from)?;
        // The store that sees both is the root.
        let absolute = |path: Path, climbed: bool| match climbed {
            true => path,
            false => Path::from_iter(self.inner.prefix.parts().chain(path.parts())),
        };
        let from_location = absolute(from_location, from.starts_with("../"));
        let to_location = absolute(self.path(to)?, false);
        // The name is new, so nothing is overwritten; stores without conditional copies have this one. (To Google,
        // object_store 0.13 sends this one as the conditional one, and the other way round, which comes to the same here.)
        let copied = self.inner.root.copy(&from_location, &to_location).await;
        copied.map_err(|e| IoError::from_store("copy", from, e))
    }

    /// Whether an object is there.
    #[boxed]
    pub async fn exists(&self, path: &str) -> Result<bool, IoError> {
        let (objects, location) = self.located(path)?;
        match objects.head(&location).await {
            Ok(_) => Ok(true),
            Err(e) => match IoError::from_store("look", path, e) {
                // No object has such a path.
                error if error.is_not_found() || error.kind() == IoErrorKind::Invalid => Ok(false),
                error => Err(error),
            },
        }
    }

    /// Every object below `prefix` (`""` for all), in no particular order.
    #[boxed]
    pub async fn list(&self, prefix: &str) -> Result<Vec<Entry>, IoError> {
        let within = if prefix.is_empty() { None } else { Some(self.path(prefix)?) };
        let found = self.inner.prefixed.list(within.as_ref()).map_ok(|meta| Entry {
            path: meta.location.to_string(),
            bytes: meta.size,
            modified_millis: meta.last_modified.timestamp_millis(),
        });
        match found.try_collect().await.map_err(|e| IoError::from_store("list", prefix, e)) {
            // Nothing is there. On an object store it may be the bucket that is missing, which is an error.
            Err(error) if error.is_not_found() && self.local().is_some() => Ok(Vec::new()),
            found => found,
        }
    }

    /// The objects and directories right below `prefix` (`""` for the root): names only, in no particular order.
    #[boxed]
    pub async fn names(&self, prefix: &str) -> Result<Vec<String>, IoError> {
        let within = if prefix.is_empty() { None } else { Some(self.path(prefix)?) };
        let found = match self.inner.prefixed.list_with_delimiter(within.as_ref()).await {
            Ok(found) => found,
            Err(e) => match IoError::from_store("list", prefix, e) {
                error if error.is_not_found() => return Ok(Vec::new()),
                error => return Err(error),
            },
        };
        let objects = found.objects.into_iter().map(|meta| meta.location);
        let names = found.common_prefixes.into_iter().chain(objects);
        Ok(names.filter_map(|path| path.filename().map(str::to_owned)).collect())
    }

    /// Removes objects; those that are gone already are no error.
    #[boxed]
    pub async fn remove(&self, paths: Vec<String>) -> Result<(), IoError> {
        let locations = paths.iter().map(|p| self.path(p)).collect::<Result<Vec<_>, _>>()?;
        let stream = futures::stream::iter(locations.into_iter().map(Ok)).boxed();
        let mut removed = self.inner.prefixed.delete_stream(stream);
        while let Some(result) = removed.next().await {
            match result {
                Ok(_) => {}
                Err(e) => match IoError::from_store("remove", self.text(), e) {
                    error if error.is_not_found() => {}
                    error => return Err(error),
                },
            }
        }
        Ok(())
    }
}

/// An object that ends before the range does: damage, not an outage.
fn too_short(path: &str, range: &Range<u64>, size: u64) -> IoError {
    let message = format!("wanted bytes {}..{}, the object has {size}", range.start, range.end);
    IoError::new(IoErrorKind::Truncated, "read", path, message)
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
