//! Links: samples that lie elsewhere, read through the same stores, and only from where the reader allows.
//!
//! A dataset may come from a stranger, and its links may point anywhere. So nothing is followed unless it lies
//! under a root that whoever opened the dataset allowed. What lies under the dataset itself always is.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use bytes::Bytes;
use lacus_io::{IoError, Store, blocking};
use lacus_sample::{Column, check_linked};
use url::Url;

use crate::error::DatasetError;

/// The environment variable with roots to allow, separated by commas.
const ROOTS_VARIABLE: &str = "LACUS_LINK_ROOTS";

/// Bytes that are read of a file when a link to it is written: enough for the headers of nearly all files, and one
/// request.
const LOOKED_AT_BYTES: u64 = 64 << 10;

/// Where links may lead.
#[derive(Debug)]
pub struct LinkRoots {
    roots: Vec<String>,
    options: BTreeMap<String, String>,
    stores: Mutex<HashMap<String, Store>>,
}

impl Clone for LinkRoots {
    fn clone(&self) -> LinkRoots {
        LinkRoots { roots: self.roots.clone(), options: self.options.clone(), stores: Mutex::default() }
    }
}

impl LinkRoots {
    /// Allows what is under `dataset`, and what the environment variable `LACUS_LINK_ROOTS` names.
    pub(crate) fn new(dataset: &str) -> LinkRoots {
        let named = std::env::var(ROOTS_VARIABLE).unwrap_or_default();
        let roots = named.split(',').map(str::trim).filter(|root| !root.is_empty());
        let roots = std::iter::once(dataset).chain(roots).filter_map(|root| normal(root, true)).collect();
        LinkRoots { roots, options: BTreeMap::new(), stores: Mutex::default() }
    }

    /// Allows what is under `root`: a directory or a URL. `options` are those of its store.
    pub fn allow(&mut self, root: &str, options: &BTreeMap<String, String>) -> Result<(), DatasetError> {
        let root = normal(root, true).ok_or_else(|| {
            DatasetError::refused("allow links", format!("{root:?} is neither a directory nor a URL"))
        })?;
        self.options.extend(options.iter().map(|(key, value)| (key.clone(), value.clone())));
        if !self.roots.contains(&root) {
            self.roots.push(root);
        }
        Ok(())
    }

    /// The roots.
    pub fn roots(&self) -> &[String] {
        &self.roots
    }

    /// The store and the path in it that a link leads to.
    fn resolve(&self, link: &str) -> Result<(Store, String), DatasetError> {
        let refused = || DatasetError::LinkRefused { url: link.to_owned(), allowed: self.roots.join(", ") };
        let url = normal(link, false).ok_or_else(refused)?;
        let root = self.roots.iter().find(|root| url.starts_with(root.as_str())).ok_or_else(refused)?;
        let path = url[root.len()..].to_owned();
        if path.is_empty() || path.split('/').any(|part| part == ".." || part == ".") {
            return Err(refused());
        }
        // Paths of objects are plain, those of URLs are not.
        let path = Url::parse("file:///").ok().and_then(|base| base.join(&path).ok()).and_then(|url| {
            let decoded = url.to_file_path().ok()?;
            decoded.to_str().map(|path| path.trim_start_matches('/').to_owned())
        });
        let path = path.ok_or_else(refused)?;
        if !stays_inside(root, &path) {
            return Err(refused());
        }
        let mut stores = self.stores.lock().unwrap_or_else(|e| e.into_inner());
        let store = match stores.get(root) {
            Some(store) => store.clone(),
            None => {
                let store = Store::open(root, &self.options).map_err(|source| DatasetError::Link {
                    url: link.to_owned(),
                    source: Box::new(source),
                })?;
                stores.insert(root.clone(), store.clone());
                store
            }
        };
        Ok((store, path))
    }

    /// The bytes a link leads to.
    pub(crate) async fn read(&self, link: &str) -> Result<Bytes, DatasetError> {
        let (store, path) = self.resolve(link)?;
        let failed = |source: IoError| DatasetError::Link { url: link.to_owned(), source: Box::new(source) };
        store.read_all(&path).await.map_err(failed)
    }

    /// Fails unless a link may be followed and leads to a sample of the column, as far as the beginning of the file
    /// tells.
    pub(crate) async fn check(&self, link: &str, column: &Column) -> Result<(), DatasetError> {
        let (store, path) = self.resolve(link)?;
        let (start, size) =
            store.read_head(&path, LOOKED_AT_BYTES).await.map_err(|source| match source.is_not_found() {
                true => DatasetError::NoLinkTarget { url: link.to_owned() },
                false => DatasetError::Link { url: link.to_owned(), source: Box::new(source) },
            })?;
        let is_whole = start.len() as u64 == size;
        blocking(|| check_linked(column, &start, is_whole))
            .map_err(|source| DatasetError::Linked { url: link.to_owned(), source: Box::new(source) })
    }
}

/// Whether a path under a local root is there by itself, and not by a symbolic link that leads out of it.
fn stays_inside(root: &str, path: &str) -> bool {
    let Some(root) = Url::parse(root).ok().filter(|url| url.scheme() == "file") else { return true };
    let Some(root) = root.to_file_path().ok().and_then(|root| root.canonicalize().ok()) else { return true };
    match root.join(path).canonicalize() {
        Ok(real) => real.starts_with(root),
        // Nothing is there, which is found out later.
        Err(_) => true,
    }
}

/// A link as it is stored: a path is made absolute, so that it means the same wherever it is read.
pub(crate) fn absolute(link: &str) -> String {
    match link.contains("://") {
        true => link.to_owned(),
        false => match std::path::absolute(link) {
            Ok(path) => path.to_string_lossy().into_owned(),
            Err(_) => link.to_owned(),
        },
    }
}

/// A directory or URL in the one way it is compared: absolute, without `..`; a directory ends with a slash.
fn normal(text: &str, directory: bool) -> Option<String> {
    let url = match text.contains("://") {
        true => Url::parse(text).ok()?,
        false => {
            let path = std::path::absolute(text).ok()?;
            Url::from_file_path(path).ok()?
        }
    };
    let mut text = String::from(url);
    if directory && !text.ends_with('/') {
        text.push('/');
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_under_their_roots() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_str().unwrap();
        std::fs::create_dir_all(directory.path().join("ds")).unwrap();
        let mut links = LinkRoots::new(&format!("{path}/ds"));
        assert!(links.resolve(&format!("{path}/ds/a.jpg")).is_ok());
        for outside in [
            format!("{path}/b.jpg"),
            format!("{path}/ds/../b.jpg"),
            format!("file://{path}/ds/%2e%2e/b.jpg"),
            "/etc/passwd".to_owned(),
            "s3://bucket/x".to_owned(),
            format!("{path}/ds2/a.jpg"),
        ] {
            assert!(matches!(links.resolve(&outside), Err(DatasetError::LinkRefused { .. })), "{outside}");
        }
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("ds/out")).unwrap();
        assert!(matches!(links.resolve(&format!("{path}/ds/out")), Err(DatasetError::LinkRefused { .. })));
        links.allow(path, &BTreeMap::new()).unwrap();
        let (_, found) = links.resolve(&format!("file://{path}/with%20space.jpg")).unwrap();
        assert_eq!(found, "with space.jpg");
    }
}
