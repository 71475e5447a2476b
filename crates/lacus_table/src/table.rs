//! The table: what the doors call.

mod array_writer;
pub(crate) mod column_types;
mod fork;
pub(crate) mod rows;
mod transaction;
mod write;

pub use array_writer::{ArrayWriter, EncodedRows};
pub use transaction::Savepoint;

use lacus_io::boxed;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lacus_io::{Store, World, ensure_conditional_put};
use lacus_layout::{Header, Value, Wish};
use lacus_tensor::{Index, Selection};
use serde_json::{Value as Json, json};

use crate::error::TableError;
use crate::log::actions::{Action, Foreign, LogState, entry_path, is_table, read_entry, render_entry};
use crate::log::beginning::beginning;
use crate::log::history::{HistoryEntry, history, version_at};
use crate::log::replay::replay;
use crate::log::snapshot::Snapshot;
use crate::read::array_read::{ArrayRead, read};
use crate::read::arrays::{Read, read_dense};
use crate::read::row_index::RowCache;
use crate::read::samples::SampleCache;
use crate::read::tensor_index::{Cache, TensorIndex};
use crate::schema::{DATASET_ROW, is_hidden, metadata_action, protocol_action};
use crate::table::transaction::Transaction;
use crate::write::commit::{Committer, Staged, follow, scan_untagged};
use crate::write::row_ids::RowIds;
use crate::write::stage::WriteOptions;
use crate::write::write_set::WriteSet;

/// Which version to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// The newest, and writable.
    #[default]
    Tip,
    /// This version, pinned and read-only.
    Version(u64),
    /// The newest made at or before this time (milliseconds since 1970), pinned and read-only.
    Time(i64),
}

/// A tensor to put.
pub struct Put<'a> {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Value<'a>,
    /// What the caller wants of its layout.
    pub wish: Wish,
    /// Metadata of the caller's.
    pub metadata: Option<Json>,
}

/// What is known of a tensor without reading it.
#[derive(Clone, Debug)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// Type, shape, layout.
    pub header: Header,
    /// Bytes its rows take in the files of this version.
    pub stored_bytes: u64,
    /// Metadata the caller gave.
    pub metadata: Json,
}

/// A handle on one table, at one version until its own next write or [`Table::refresh`].
#[derive(Debug)]
pub struct Table {
    /// The dataset's root: the table's own, unless this is a fork.
    home: Store,
    store: Store,
    world: World,
    snapshot: Snapshot,
    cache: Arc<Cache>,
    rows: RowCache,
    samples: SampleCache,
    row_ids: RowIds,
    read_only: bool,
    transaction: Option<Transaction>,
    /// What whoever opened it knows it as.
    label: Option<Arc<str>>,
    /// Another number for every state that any handle of the process sees: version numbers do not tell those of a transaction apart.
    state: u64,
}

fn next_state() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Longest name of a tensor, in bytes.
const MAX_NAME_BYTES: usize = 1024;

/// Refuses names that no tensor of a user's may have.
pub(crate) fn check_name(name: &str) -> Result<(), TableError> {
    refuse_hidden(name)?;
    check_letters(name)
}

/// Refuses the names of tensors that belong to indexes.
pub(crate) fn refuse_hidden(name: &str) -> Result<(), TableError> {
    let why = "names that begin with \"_index/\" belong to indexes";
    match is_hidden(name) {
        true => Err(TableError::BadName { name: name.to_owned(), why }),
        false => Ok(()),
    }
}

/// Refuses names that no tensor of an index may have.
pub(crate) fn check_hidden(name: &str) -> Result<(), TableError> {
    match is_hidden(name) {
        true => check_letters(name),
        false => Err(TableError::Fault { what: format!("{name:?} is no name of an index") }),
    }
}

fn check_letters(name: &str) -> Result<(), TableError> {
    let bad = |why| Err(TableError::BadName { name: name.to_owned(), why });
    if name.is_empty() {
        return bad("it is empty");
    }
    if name.len() > MAX_NAME_BYTES {
        return bad("it is longer than 1024 bytes");
    }
    if name.chars().any(char::is_control) {
        return bad("it has control characters");
    }
    if name.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
        return bad("a part between slashes is empty, \".\" or \"..\"");
    }
    Ok(())
}

impl Table {
    /// Makes an empty table. Anything that is there already is left alone and is an error.
    #[boxed]
    pub async fn create(store: Store, world: World) -> Result<Table, TableError> {
        ensure_conditional_put(&store, &world).await?;
        let taken = || TableError::AlreadyExists { url: store.text().to_owned() };
        if is_table(&store).await? {
            return Err(taken());
        }
        let found = match store.list("").await {
            Ok(found) => found,
            Err(e) if e.is_not_found() => Vec::new(),
            Err(e) => return Err(e.into()),
        };
        if found.iter().any(|entry| !entry.path.starts_with("_lacus/probe/")) {
            return Err(taken());
        }
        let now = world.now_millis();
        let id = world.uuid().to_string();
        let metadata = metadata_action(&id, now, false)["metaData"].clone();
        let protocol = protocol_action(false)["protocol"].clone();
        let info = json!({
            "timestamp": now, "operation": "CREATE", "operationParameters": {},
            "engineInfo": concat!("lacus/", env!("CARGO_PKG_VERSION")),
            "userName": crate::write::commit::default_author(),
            "lacus": {"operation": world.uuid().to_string(), "writes": WriteSet::default(), "detail": {}},
        });
        let actions = [
            Action::CommitInfo(info),
            Action::Protocol(protocol.clone()),
            Action::Metadata(metadata.clone()),
        ];
        match store.put_new(&entry_path(0), render_entry(&actions)).await {
            Ok(()) => {
                // Somebody may still look at what was here before.
                store.place().forget();
                // What was just written need not be read.
                let foreign = Foreign::default();
                let made = LogState { version: 0, protocol, metadata, adds: Vec::new(), foreign };
                let (snapshot, _) = Snapshot::new(made)?;
                Ok(Table::over(store, world, snapshot, false))
            }
            Err(e) if e.is_already_exists() => Err(taken()),
            Err(e) => Err(e.into()),
        }
    }

    /// Opens the table at a version.
    #[boxed]
    pub async fn open(store: Store, world: World, at: At) -> Result<Table, TableError> {
        let explained = |error| match error {
            TableError::NotADataset { found, .. } => {
                let found = store.absence().unwrap_or(found);
                TableError::NotADataset { url: store.text().to_owned(), found }
            }
            other => other,
        };
        // A file system has many ways to say that there is nothing below a file.
        if let Some(found) = store.absence() {
            return Err(TableError::NotADataset { url: store.text().to_owned(), found });
        }
        let version = match at {
            At::Tip => None,
            At::Version(version) => Some(version),
            At::Time(time) => {
                let newest = replay(&store, None).await.map_err(explained)?;
                Some(version_at(&store, beginning(&newest.metadata), newest.version, time).await?)
            }
        };
        let state = match replay(&store, version).await.map_err(explained) {
            Ok(state) => state,
            Err(error) => {
                let Some(wanted) = version else { return Err(error) };
                let newest = replay(&store, None).await.map_err(explained)?.version;
                if wanted <= newest {
                    return Err(error);
                }
                return Err(TableError::NoSuchVersion { wanted: wanted.to_string(), newest });
            }
        };
        if let Some(wanted) = version.filter(|v| *v != state.version) {
            return Err(TableError::NoSuchVersion { wanted: wanted.to_string(), newest: state.version });
        }
        let (mut snapshot, untagged) = Snapshot::new(state).map_err(explained)?;
        scan_untagged(&store, &mut snapshot, untagged).await?;
        let table = Table::over(store, world, snapshot, version.is_some());
        // The dataset's own metadata is in a tag alone, and handed out without any file being read.
        if let Some(state) = table.snapshot.state(DATASET_ROW) {
            table.cache.prove_all(&table.store, &state.files).await?;
        }
        Ok(table)
    }

    fn over(store: Store, world: World, snapshot: Snapshot, read_only: bool) -> Table {
        let cache = Arc::new(Cache::default());
        Table {
            home: store.clone(),
            store,
            world,
            snapshot,
            rows: RowCache::new(Arc::clone(&cache)),
            samples: SampleCache::new(Arc::clone(&cache)),
            row_ids: RowIds::default(),
            cache,
            read_only,
            transaction: None,
            label: None,
            state: next_state(),
        }
    }

    /// Whether there is a table.
    #[boxed]
    pub async fn exists(store: &Store) -> Result<bool, TableError> {
        if store.absence().is_some() {
            return Ok(false);
        }
        is_table(store).await
    }

    /// Whether the table that this handle looks at is still there. Writes do not ask: for those who worked for long.
    #[boxed]
    pub async fn is_there(&self) -> Result<bool, TableError> {
        let seen = self.transaction.as_ref().map_or(&self.snapshot, Transaction::base);
        Ok(self.store.exists(&entry_path(seen.version)).await? || is_table(&self.store).await?)
    }

    /// Removes a table and everything in it. What is not a Lacus dataset is refused.
    #[boxed]
    pub async fn delete(store: Store, world: World) -> Result<(), TableError> {
        let table = Table::open(store, world, At::Tip).await?;
        let own = |path: &str| {
            ["_delta_log/", "_lacus/", "_branches/", "data/", "deletion_vector_"]
                .iter()
                .any(|prefix| path.starts_with(prefix))
        };
        let found = table.store.list("").await?;
        let mut paths: Vec<String> = found.into_iter().map(|e| e.path).filter(|p| own(p)).collect();
        // The log goes first, so that nobody opens what is half gone.
        paths.sort_by_key(|p| !p.starts_with("_delta_log/"));
        table.store.remove(paths).await?;
        table.store.place().forget();
        let directories = ["_delta_log", "_lacus/probe", "_lacus/rows", "_lacus", "_branches", "data", ""];
        table.store.remove_empty_directories(directories);
        Ok(())
    }

    /// The version this handle sees.
    pub fn version(&self) -> u64 {
        self.snapshot.version
    }

    /// Where the dataset is that the table belongs to.
    pub fn home(&self) -> &Store {
        &self.home
    }

    /// Where the table is.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// A number that is another one whenever this handle sees another state, and that no other handle of the process has, for those
    /// who remember what they saw.
    pub fn state_number(&self) -> u64 {
        self.state
    }

    /// The id of the dataset, which all its tables share.
    pub fn dataset_id(&self) -> &str {
        let metadata = &self.snapshot.metadata;
        let forked = metadata["configuration"][fork::DATASET].as_str();
        forked.or_else(|| metadata["id"].as_str()).unwrap_or_default()
    }

    /// Another handle at the version this one sees, without its transaction.
    pub fn twin(&self) -> Table {
        let snapshot = match &self.transaction {
            Some(transaction) => transaction.base().clone(),
            None => self.snapshot.clone(),
        };
        let mut twin = Table::over(self.store.clone(), self.world.clone(), snapshot, self.read_only);
        twin.home = self.home.clone();
        twin.label = self.label.clone();
        twin
    }

    /// Another handle on exactly what this one sees, the writes of its transaction included. It refuses writes and stays.
    pub fn frozen(&self) -> Table {
        let mut frozen = Table::over(self.store.clone(), self.world.clone(), self.snapshot.clone(), true);
        frozen.home = self.home.clone();
        frozen.label = self.label.clone();
        frozen
    }

    /// What whoever opened it knows it as: the name of its branch. A table knows nothing of branches; it keeps the name, so that
    /// nobody has to carry both and can mix them up.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Keeps a name for [`Table::label`].
    pub fn set_label(&mut self, label: &str) {
        self.label = Some(label.into());
    }

    /// Whether writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Refuses writes from now on.
    pub fn set_read_only(&mut self) {
        self.read_only = true;
    }

    /// How many data files this version has, and how many bytes they take.
    pub fn files(&self) -> (usize, u64) {
        let bytes = self.snapshot.files.values().map(|f| u64::try_from(f.add.size).unwrap_or(0)).sum();
        (self.snapshot.files.len(), bytes)
    }

    /// Moves to the newest version. Inside a transaction nothing moves.
    #[boxed]
    pub async fn refresh(&mut self) -> Result<u64, TableError> {
        if self.read_only || self.transaction.is_some() {
            return Ok(self.version());
        }
        loop {
            let version = self.snapshot.version + 1;
            let Some(actions) = read_entry(&self.store, version).await? else { break };
            follow(&self.store, &mut self.snapshot, version, &actions).await?;
        }
        self.trim();
        Ok(self.version())
    }

    /// Forgets what the state that is seen from now on no longer has.
    fn trim(&mut self) {
        self.state = next_state();
        self.cache.trim(&self.snapshot);
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The clock, the dice and the threads this handle uses.
    pub fn world(&self) -> &World {
        &self.world
    }

    pub(crate) fn row_cache(&self) -> &RowCache {
        &self.rows
    }

    pub(crate) fn sample_cache(&self) -> &SampleCache {
        &self.samples
    }

    pub(crate) fn row_ids(&self) -> &RowIds {
        &self.row_ids
    }

    /// The names of the tensors, sorted, without those of indexes.
    pub fn names(&self) -> Vec<String> {
        self.snapshot.tensors().map(|(name, _)| name).filter(|name| !is_hidden(name)).cloned().collect()
    }

    /// The names of the tensors that belong to indexes, sorted.
    pub fn hidden_names(&self) -> Vec<String> {
        self.snapshot.tensors().map(|(name, _)| name).filter(|name| is_hidden(name)).cloned().collect()
    }

    /// Whether there is a tensor of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.snapshot.tensor(name).is_some()
    }

    /// What is known of a tensor.
    pub fn tensor(&self, name: &str) -> Result<TensorInfo, TableError> {
        let state = self.snapshot.tensor(name).ok_or_else(|| self.no_such(name))?;
        self.refuse_column(name)?;
        let header = state.header.parse().map_err(TableError::of_tensor(name))?;
        Ok(TensorInfo {
            name: name.to_owned(),
            header,
            stored_bytes: state.stored_bytes(name),
            metadata: parse_metadata(state.header.metadata.as_deref()),
        })
    }

    /// A text that is the same only as long as a tensor is: of where its rows lie. Upkeep may change it, writes to other
    /// tensors seldom do.
    pub fn fingerprint(&self, name: &str) -> Result<String, TableError> {
        let state = self.snapshot.tensor(name).ok_or_else(|| self.no_such(name))?;
        self.refuse_column(name)?;
        let mut text = String::new();
        for file in &state.files {
            if let Some(held) = file.held(name) {
                let (path, rows) = (&file.add.path, &held.rows);
                text.push_str(&format!("{path}:{}:{rows:?}\n", held.header.is_some()));
            }
        }
        Ok(text)
    }

    pub(crate) fn no_such(&self, name: &str) -> TableError {
        TableError::NoSuchTensor {
            name: name.to_owned(),
            version: self.version(),
            close: self.snapshot.close_to(name),
        }
    }

    /// The dataset's own metadata.
    pub fn metadata(&self) -> Json {
        parse_metadata(self.snapshot.dataset_row().and_then(|row| row.metadata.as_deref()))
    }

    /// The metadata of a tensor or column, or of the dataset (`None`); empty where there is none.
    pub fn metadata_of(&self, name: Option<&str>) -> Json {
        match name {
            None => self.metadata(),
            Some(name) => {
                let state = self.snapshot.tensor(name);
                parse_metadata(state.and_then(|state| state.header.metadata.as_deref()))
            }
        }
    }

    /// Columns are read and written row by row.
    /// Fails if a name is one of a column, which is not written like a tensor.
    pub fn refuse_column(&self, name: &str) -> Result<(), TableError> {
        match self.is_column(name) {
            true => Err(TableError::IsColumn { name: name.to_owned() }),
            false => Ok(()),
        }
    }

    async fn index(&self, name: &str) -> Result<Arc<TensorIndex>, TableError> {
        self.refuse_column(name)?;
        self.cache.tensor(&self.store, &self.snapshot, name).await
    }

    /// Reads a selection of a tensor: dense layouts give dense tensors, sparse ones sparse.
    #[boxed]
    pub async fn read(&self, name: &str, indices: &[Index]) -> Result<Read, TableError> {
        let index = self.index(name).await?;
        let selection = Selection::resolve(&index.header.shape, indices)?;
        read(&self.store, self.world.pool(), &index, selection).await
    }

    /// Plans to read a selection of a tensor: the first of three steps, of which the second fetches bytes and the third
    /// verifies and decodes them. Waits only for indexes that are not known yet.
    #[boxed]
    pub async fn plan(&self, name: &str, indices: &[Index]) -> Result<ArrayRead, TableError> {
        let index = self.index(name).await?;
        let selection = Selection::resolve(&index.header.shape, indices)?;
        ArrayRead::plan(&self.store, self.world.pool(), index, selection)
    }

    /// Reads a selection of a dense tensor into memory of exactly its size.
    #[boxed]
    pub async fn read_into(&self, name: &str, indices: &[Index], out: &mut [u8]) -> Result<(), TableError> {
        let index = self.index(name).await?;
        let selection = Selection::resolve(&index.header.shape, indices)?;
        let needed = selection.output_shape().byte_len(index.header.dtype)?;
        if index.header.layout.is_sparse() {
            return Err(TableError::refused("read into", format!("tensor {name:?} is sparse")));
        }
        if out.len() != needed {
            let why = format!("the selection takes {needed} bytes, the buffer has {}", out.len());
            return Err(TableError::refused("read into", why));
        }
        read_dense(&self.store, self.world.pool(), &index, &selection, out).await
    }

    /// The versions, newest first.
    #[boxed]
    pub async fn history(&self, limit: Option<usize>) -> Result<Vec<HistoryEntry>, TableError> {
        history(&self.store, self.first_entry(), self.version(), limit).await
    }

    // Writing.

    pub(crate) async fn writable(&mut self) -> Result<(), TableError> {
        if self.read_only {
            return Err(TableError::ReadOnly { version: self.version() });
        }
        if let Some(what) = &self.snapshot.unknown_to_writers {
            return Err(TableError::NewerFormat { what: what.clone() });
        }
        Ok(ensure_conditional_put(&self.home, &self.world).await?)
    }

    /// Makes what was staged a version, or a part of the transaction that is open.
    pub(crate) async fn commit(&mut self, staged: Staged, options: &WriteOptions) -> Result<u64, TableError> {
        if self.transaction.is_some() {
            return self.stage_privately(staged, options).await;
        }
        let cache = Arc::clone(&self.cache);
        let committer = Committer { store: &self.store, world: &self.world, cache: &cache, rows: &self.rows };
        let version = committer.commit(&mut self.snapshot, staged, options).await?;
        self.trim();
        Ok(version)
    }

    /// Makes this version, and everything before it, safe against power loss. What costs is what was written since this
    /// was done last.
    #[boxed]
    pub async fn sync(&self) -> Result<(), TableError> {
        let committer =
            Committer { store: &self.store, world: &self.world, cache: &self.cache, rows: &self.rows };
        committer.sync(&self.snapshot).await
    }

    pub(crate) fn parts(&self) -> (&Store, &World, &Arc<Cache>, &Snapshot) {
        (&self.store, &self.world, &self.cache, &self.snapshot)
    }
}

pub(crate) fn check_metadata(metadata: Option<&Json>) -> Result<(), TableError> {
    match metadata {
        Some(json) if !json.is_object() => Err(TableError::refused("metadata", "it must be a JSON object")),
        _ => Ok(()),
    }
}

pub(crate) fn parse_metadata(text: Option<&str>) -> Json {
    text.and_then(|t| serde_json::from_str(t).ok()).unwrap_or_else(|| json!({}))
}
