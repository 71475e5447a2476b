//! A small history in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use lacus_history::{COMMIT_FORMAT, Commit, CommitId, Commits};
use lacus_io::Store;
use object_store::ObjectStore;
use object_store::memory::InMemory;

pub(crate) fn store_over(inner: Arc<dyn ObjectStore>) -> Store {
    Store::over(url::Url::parse("memory:///history/").unwrap(), inner).unwrap()
}

pub(crate) fn memory() -> Store {
    store_over(Arc::new(InMemory::new()))
}

pub(crate) fn commit(message: &str, generation: u64, parents: Vec<CommitId>) -> Commit {
    Commit {
        format: COMMIT_FORMAT,
        parents,
        directory: String::new(),
        version: generation,
        generation,
        author: "Ada".to_owned(),
        time_millis: 1_700_000_000_000,
        message: message.to_owned(),
        metadata: Default::default(),
        lineage: Vec::new(),
        changed: Vec::new(),
        dataset: "d".to_owned(),
    }
}

/// Writes commits given as `name: parent parent`, parents first, and gives their ids by name.
pub(crate) async fn history(commits: &Commits, text: &str) -> BTreeMap<String, CommitId> {
    let mut ids: BTreeMap<String, CommitId> = BTreeMap::new();
    let mut generations: BTreeMap<String, u64> = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, parents) = line.split_once(':').unwrap();
        let parents: Vec<&str> = parents.split_whitespace().collect();
        let generation = 1 + parents.iter().map(|parent| generations[*parent]).max().unwrap_or(0);
        let parents = parents.iter().map(|parent| ids[*parent]).collect();
        ids.insert(name.to_owned(), commits.write(&commit(name, generation, parents)).await.unwrap());
        generations.insert(name.to_owned(), generation);
    }
    ids
}
