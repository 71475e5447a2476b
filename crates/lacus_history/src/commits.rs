//! Commits: immutable objects, named after the hash of their bytes, so that damage shows.
//!
//! ```text
//! _lacus/commits/<id>.json    {"author":…,"changed":[…],"dataset":…,"directory":…,"format":1,…}
//! ```

use lacus_io::boxed;
use std::sync::Arc;

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

/// Reading ahead stops once this part of the process's budget is read: half of what there is for caches, so that what was
/// read first is still there when the walk comes to it. A commit takes about a kilobyte, so this is the whole history of
/// most datasets.
const AHEAD_PART: u64 = 4;

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

/// The commits of one dataset. Those that were read are cached in the store's `Place`: all handles on the dataset share them,
/// within the process's budget. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Commits {
    store: Store,
}

impl Commits {
    /// The commits of the dataset at `store`, which is the dataset's root.
    pub fn new(store: Store) -> Commits {
        Commits { store }
    }

    /// The dataset's root.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Writes a commit. One that is there already is fine: it says the same.
    #[boxed]
    pub async fn write(&self, commit: &Commit) -> Result<CommitId, HistoryError> {
        let bytes = commit.to_bytes()?;
        let id = CommitId::of(&bytes);
        let length = bytes.len();
        match self.store.put_new(&commit_path(&id), Bytes::from(bytes)).await {
            Ok(()) => {
                self.keep(id, Arc::new(commit.clone()), length);
            }
            // It may be there and torn, since a power cut.
            Err(e) if e.is_already_exists() => drop(self.read_stored(&id).await?),
            Err(e) => return Err(e.into()),
        }
        // What names a commit must not survive a power cut that the commit does not.
        self.store.make_durable(&[commit_path(&id)])?;
        Ok(id)
    }

    /// The commit of this id.
    #[boxed]
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
    #[boxed]
    pub async fn read_stored(&self, id: &CommitId) -> Result<Arc<Commit>, HistoryError> {
        Ok(self.load(id).await?.0)
    }

    /// Reads a commit from the store and caches it; also the bytes it takes.
    async fn load(&self, id: &CommitId) -> Result<(Arc<Commit>, u64), HistoryError> {
        let bytes = match self.store.read_all(&commit_path(id)).await {
            Ok(bytes) => bytes,
            Err(e) if e.is_not_found() => {
                return Err(HistoryError::NoSuchCommit { id: *id, referrer: None });
            }
            Err(e) => return Err(e.into()),
        };
        let commit = Arc::new(parse(id, &bytes)?);
        let taken = self.keep(*id, Arc::clone(&commit), bytes.len());
        Ok((commit, taken))
    }

    /// The ids of all commits that are stored, sorted, reachable or not. Objects of other names are left out.
    #[boxed]
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
            .map(|id| async move { self.load(&id).await.map_or(0, |(_, taken)| taken) })
            .buffer_unordered(AT_ONCE);
        let mut room = self.store.memory().bytes() / AHEAD_PART;
        while let Some(taken) = reads.next().await {
            if taken > room {
                return;
            }
            room -= taken;
        }
    }

    /// The commit, if it is in memory.
    pub(crate) fn known(&self, id: &CommitId) -> Option<Arc<Commit>> {
        self.store.place().get(&id.to_string())
    }

    /// Forgets commits that were removed.
    pub(crate) fn forget(&self, ids: impl Iterator<Item = CommitId>) {
        ids.for_each(|id| self.store.place().remove::<Commit>(&id.to_string()));
    }

    /// Caches a commit that is so long as JSON; returns about what it takes in memory.
    fn keep(&self, id: CommitId, commit: Arc<Commit>, length: usize) -> u64 {
        let bytes = (length + size_of::<Commit>()) as u64;
        self.store.place().put(id.to_string(), commit, bytes);
        bytes
    }
}
