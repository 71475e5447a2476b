//! Commits: immutable objects, named after the hash of their bytes, so that damage shows.
//!
//! ```text
//! _lacus/commits/<id>.json    {"author":…,"changed":[…],"dataset":…,"directory":…,"format":1,…}
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::{StreamExt, stream};
use lacus_io::Store;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::HistoryError;
use crate::id::CommitId;

/// Where commits are.
pub(crate) const PREFIX: &str = "_lacus/commits/";

/// The form of commits that this code writes, and the newest it reads.
pub const COMMIT_FORMAT: u32 = 1;

/// Bytes of commits kept in memory. One takes less than a kilobyte as a rule, so that this is the whole history of
/// most datasets.
const KEPT_BYTES: usize = 32 << 20;

/// Commits read at the same time: as many as hide the latency of an object store.
const AT_ONCE: usize = 32;

/// A point in a dataset's history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// The form of this object.
    pub format: u32,
    /// The commits it was made from: none for the first, two for a merge, ours first.
    pub parents: Vec<CommitId>,
    /// The directory of the table in the dataset; `""` is main's.
    pub directory: String,
    /// The table version whose content this is.
    pub version: u64,
    /// One more than the highest of its parents'; 1 for the first.
    pub generation: u64,
    /// Who made it.
    pub author: String,
    /// When, in milliseconds since 1970, UTC.
    pub time_millis: i64,
    /// What for.
    pub message: String,
    /// Whatever the caller wants to keep with it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Where its tensors came from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lineage: Vec<Lineage>,
    /// Names of the tensors that differ from the first parent, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// The dataset's own id: commits of another dataset are not merged.
    pub dataset: String,
}

/// Where tensors came from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lineage {
    /// The tensors made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// The program that made them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The function that made them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// What they were made from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<LineageInput>,
    /// With which parameters.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub parameters: Value,
}

/// What tensors were made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LineageInput {
    /// The commit they were read from, when it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
    /// Where it is, unless it is in the same dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The tensors read; none stands for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tensors: Vec<String>,
}

impl Commit {
    /// The bytes that are stored: JSON without spaces, the keys of each object sorted. The same commit always gives
    /// the same bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, HistoryError> {
        let fault = |e: serde_json::Error| HistoryError::Fault { what: format!("a commit as JSON: {e}") };
        let mut value = serde_json::to_value(self).map_err(fault)?;
        // Some builds of serde_json keep keys as they came.
        value.sort_all_objects();
        serde_json::to_vec(&value).map_err(fault)
    }

    /// The first line of the message.
    pub fn summary(&self) -> &str {
        self.message.trim_start().lines().next().unwrap_or_default().trim_end()
    }
}

/// Where the commit of this id is stored.
pub fn commit_path(id: &CommitId) -> String {
    format!("{PREFIX}{id}.json")
}

/// The id of the commit that is stored at a path; `None` for a path of something else.
pub(crate) fn id_of(path: &str) -> Option<CommitId> {
    CommitId::parse(path.strip_prefix(PREFIX)?.strip_suffix(".json")?)
}

/// The commit that `bytes` are, as stored at the path of `id`.
fn parse(id: &CommitId, bytes: &[u8]) -> Result<Commit, HistoryError> {
    let path = || commit_path(id);
    let found = CommitId::of(bytes);
    if found != *id {
        let what = match bytes.is_empty() {
            true => "damaged commit: the object is empty".to_owned(),
            false => format!("damaged commit: its {} bytes have the hash {found}", bytes.len()),
        };
        return Err(HistoryError::corrupt(path(), what));
    }
    // The hash is right, so these bytes are what was written: by a newer Lacus, if they say so.
    #[derive(Deserialize)]
    struct Form {
        format: u32,
    }
    let bad = |e: serde_json::Error| HistoryError::corrupt(path(), format!("this is no commit: {e}"));
    let form: Form = serde_json::from_slice(bytes).map_err(bad)?;
    if form.format > COMMIT_FORMAT {
        let what = format!("commit of format {}", form.format);
        return Err(HistoryError::NewerFormat { path: path(), what });
    }
    serde_json::from_slice(bytes).map_err(bad)
}

/// The commits of one dataset, with those that were read kept in memory. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Commits {
    store: Store,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    commits: HashMap<CommitId, Arc<Commit>>,
    bytes: usize,
}

impl Commits {
    /// The commits of the dataset at `store`, which is the dataset's root.
    pub fn new(store: Store) -> Commits {
        Commits { store, kept: Arc::default() }
    }

    /// The dataset's root.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Writes a commit. One that is there already is fine: it says the same.
    pub async fn write(&self, commit: &Commit) -> Result<CommitId, HistoryError> {
        let bytes = commit.to_bytes()?;
        let id = CommitId::of(&bytes);
        let length = bytes.len();
        match self.store.put_new(&commit_path(&id), Bytes::from(bytes)).await {
            Ok(()) => self.keep(id, Arc::new(commit.clone()), length),
            // It may be there and torn, since a power cut.
            Err(e) if e.is_already_exists() => drop(self.read_stored(&id).await?),
            Err(e) => return Err(e.into()),
        }
        // What names a commit must not survive a power cut that the commit does not.
        if let Some(local) = self.store.local() {
            lacus_io::blocking(|| local.sync(&[commit_path(&id)]))?;
        }
        Ok(id)
    }

    /// The commit of this id.
    pub async fn read(&self, id: &CommitId) -> Result<Arc<Commit>, HistoryError> {
        match self.known(id) {
            Some(commit) => Ok(commit),
            None => self.read_stored(id).await,
        }
    }

    /// As [`Commits::read`], and if it is not there the error says that `referrer` refers to it.
    pub async fn read_for(
        &self,
        id: &CommitId,
        referrer: impl FnOnce() -> String,
    ) -> Result<Arc<Commit>, HistoryError> {
        self.read(id).await.map_err(|error| match error {
            HistoryError::NoSuchCommit { id, .. } => {
                HistoryError::NoSuchCommit { id, referrer: Some(referrer()) }
            }
            error => error,
        })
    }

    /// As [`Commits::read`], from the store even if it is in memory: for those who look for damage.
    pub async fn read_stored(&self, id: &CommitId) -> Result<Arc<Commit>, HistoryError> {
        let bytes = match self.store.read_all(&commit_path(id)).await {
            Ok(bytes) => bytes,
            Err(e) if e.is_not_found() => {
                return Err(HistoryError::NoSuchCommit { id: *id, referrer: None });
            }
            Err(e) => return Err(e.into()),
        };
        let commit = Arc::new(parse(id, &bytes)?);
        self.keep(*id, Arc::clone(&commit), bytes.len());
        Ok(commit)
    }

    /// The ids of all commits that are stored, sorted, reachable or not. Objects of other names are left out.
    pub async fn list(&self) -> Result<Vec<CommitId>, HistoryError> {
        let found = match self.store.list(PREFIX).await {
            Ok(found) => found,
            Err(e) if e.is_not_found() => Vec::new(),
            Err(e) => return Err(e.into()),
        };
        let mut ids: Vec<CommitId> = found.iter().filter_map(|entry| id_of(&entry.path)).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Reads what there is into memory, many at once. A long walk would wait for one commit after the other, as
    /// only a commit knows its parents. What cannot be read is left to the walk, if it comes to it.
    pub(crate) async fn read_ahead(&self) {
        let Ok(ids) = self.list().await else { return };
        let missing = ids.into_iter().filter(|id| self.known(id).is_none());
        let mut reads = stream::iter(missing)
            .map(|id| async move { self.read_stored(&id).await.is_ok() })
            .buffer_unordered(AT_ONCE);
        while reads.next().await.is_some() {
            let kept = self.kept.lock().unwrap_or_else(|e| e.into_inner()).bytes;
            // Beyond, what was read first would be thrown away.
            if kept > KEPT_BYTES / 4 * 3 {
                return;
            }
        }
    }

    /// The commit, if it is in memory.
    pub(crate) fn known(&self, id: &CommitId) -> Option<Arc<Commit>> {
        self.kept.lock().unwrap_or_else(|e| e.into_inner()).commits.get(id).cloned()
    }

    /// Forgets commits that were removed.
    pub(crate) fn forget(&self, ids: impl Iterator<Item = CommitId>) {
        let mut kept = self.kept.lock().unwrap_or_else(|e| e.into_inner());
        // Their bytes stay counted: memory is emptied somewhat earlier, then.
        ids.for_each(|id| drop(kept.commits.remove(&id)));
    }

    fn keep(&self, id: CommitId, commit: Arc<Commit>, bytes: usize) {
        let mut kept = self.kept.lock().unwrap_or_else(|e| e.into_inner());
        if kept.bytes + bytes > KEPT_BYTES {
            *kept = Kept::default();
        }
        if kept.commits.insert(id, commit).is_none() {
            kept.bytes += bytes;
        }
    }
}
