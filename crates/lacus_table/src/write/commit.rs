//! Turns staged files into a table version, or finds that somebody else was faster.
//!
//! ```text
//! Staged ─resolve against the newest snapshot→ actions ─put entry n+1 if absent→ version n+1
//!    ▲                                                        │ taken
//!    └── no clash with what came between ── read entries n+1… ┘   clash: Conflict
//! ```
//!
//! The staged files never change on the way round: only which old rows they supersede, and where
//! those lie, is worked out anew.

use lacus_io::boxed;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::future::BoxFuture;
use lacus_io::{Store, World};
use lacus_layout::Coords;
use serde_json::{Value as Json, json};

use crate::error::TableError;
use crate::files::chunk_file::StagedFile;
use crate::files::stats::loosened;
use crate::log::actions::{Action, Add, LogState, entry_path, read_entry, render_entry};
use crate::log::deletion;
use crate::log::foreign_rows::is_in_the_way;
use crate::log::held::PENDING;
use crate::log::log_checkpoint::{self, CHECKPOINT_EVERY};
use crate::log::snapshot::{FileEntry, FileTags, HeaderRow, Held, Snapshot, render_tags};
use crate::read::row_index::RowCache;
use crate::read::tensor_index::Cache;
use crate::schema::ROW_AXIS;
use crate::write::copy_rows::{Copied, copy_rows};
use crate::write::file_changes::{
    FileChange, added, check_unchanged, enable_vectors, kill, net_actions, next_sequence, removed,
};
use crate::write::stage::WriteOptions;
use crate::write::sync::sync;
use crate::write::write_set::{WHOLE_DATASET, WriteSet};

/// A plain table rewrites at most this much before it starts to use deletion vectors: small tables
/// stay readable by tools that do not know them.
pub(crate) const MAX_REWRITE_BYTES: u64 = 1 << 20;

/// Rows that a commit replaces or removes.
#[derive(Clone, Debug)]
pub(crate) enum Supersede {
    /// A tensor, header and all.
    Tensor(String),
    /// Its header row.
    Header(String),
    /// Some of its chunks; those that are not stored are passed over.
    Chunks(String, Vec<Coords>),
    /// Samples of a column, by the ids of their rows (sorted); those that are missing are passed over.
    Samples(String, Vec<u64>),
    /// Rows of the dataset, by their ids (sorted), in every column.
    Rows(Vec<u64>),
    /// Whole files, whose live rows were copied.
    Files(Vec<FileEntry>),
    /// Files, in favour of others that hold the same rows.
    Replaced(Vec<FileEntry>, Vec<FileEntry>),
    /// The whole content, in favour of these files.
    Everything(Vec<FileEntry>),
}

/// Gives a version the name of a commit, when its number is known: the answer goes into its log entry.
pub type NameVersion<'a> = dyn Fn(u64) -> BoxFuture<'a, Result<String, TableError>> + Send + Sync + 'a;

/// Changes that are to become one version.
pub(crate) struct Attempt<'a, 'n> {
    pub op: &'static str,
    pub detail: Json,
    pub staged: &'a [Staged],
    /// What `staged` makes of the snapshot the attempt begins with, when that is known.
    pub ready: Option<Snapshot>,
    pub name: Option<&'a NameVersion<'n>>,
}

impl Attempt<'_, '_> {
    fn writes(&self) -> WriteSet {
        let mut all = WriteSet::default();
        self.staged.iter().for_each(|staged| all.join(&staged.writes));
        all
    }
}

/// A commit in the making.
#[derive(Debug)]
pub(crate) struct Staged {
    pub op: &'static str,
    pub files: Vec<StagedFile>,
    pub supersede: Vec<Supersede>,
    pub writes: WriteSet,
    /// What the history shows: names and the like.
    pub detail: Json,
    /// False for upkeep, which changes how rows lie and not what they say.
    pub data_change: bool,
}

impl Staged {
    /// The files that were written for it.
    pub(crate) fn made(&self) -> Vec<String> {
        let new = self.files.iter().filter(|f| !f.is_old).map(|f| f.path.clone());
        let vectors = self.files.iter().filter_map(|f| f.vector.as_ref().and_then(deletion::file_path));
        new.chain(vectors).collect()
    }
}

/// Everything a commit needs of the table.
pub(crate) struct Committer<'a> {
    pub store: &'a Store,
    pub world: &'a World,
    pub cache: &'a Cache,
    pub rows: &'a RowCache,
}

impl Committer<'_> {
    /// Makes `staged` the next version. On an error the staged files are removed again.
    pub(crate) async fn commit(
        &self,
        snapshot: &mut Snapshot,
        staged: Staged,
        options: &WriteOptions,
    ) -> Result<u64, TableError> {
        let mut made = staged.made();
        let (op, detail) = (staged.op, staged.detail.clone());
        let attempt = Attempt { op, detail, staged: &[staged], ready: None, name: None };
        self.commit_all(snapshot, attempt, options, &mut made).await
    }

    /// Makes all changes of an attempt one version. On an error the files `made` for them are removed.
    pub(crate) async fn commit_all(
        &self,
        snapshot: &mut Snapshot,
        attempt: Attempt<'_, '_>,
        options: &WriteOptions,
        made: &mut Vec<String>,
    ) -> Result<u64, TableError> {
        let operation = self.world.uuid().to_string();
        let mut unsure = false;
        let result = self.attempts(snapshot, attempt, options, &operation, made, &mut unsure).await;
        if result.is_err() && !unsure {
            // Unseen files are harmless; removing them is a courtesy that may fail.
            let _ = self.store.remove(std::mem::take(made)).await;
        }
        result
    }

    /// Tries until the commit stands or cannot. `unsure` is set while a put was sent and it is not
    /// known whether it got in: a lost answer must not cost the files of a version that exists.
    async fn attempts(
        &self,
        snapshot: &mut Snapshot,
        mut attempt: Attempt<'_, '_>,
        options: &WriteOptions,
        operation: &str,
        made: &mut Vec<String>,
        unsure: &mut bool,
    ) -> Result<u64, TableError> {
        let writes = attempt.writes();
        for tries in 0u32.. {
            if options.cancelled() {
                return Err(TableError::Cancelled);
            }
            let ready = attempt.ready.take();
            let mut actions = match (ready, attempt.staged) {
                (Some(ready), _) => net_actions(snapshot, &ready, self.world.now_millis()),
                (None, [staged]) => self.resolve(snapshot, staged, options, made).await?,
                (None, staged) => {
                    let ready = self.resolve_all(snapshot, staged, options, made).await?;
                    net_actions(snapshot, &ready, self.world.now_millis())
                }
            };
            let version = snapshot.version + 1;
            let name = match attempt.name {
                Some(name) => Some(name(version).await?),
                None => None,
            };
            let info = self.commit_info(&attempt, &writes, name, options, operation, &actions);
            actions.insert(0, Action::CommitInfo(info));
            *unsure = true;
            let put = self.store.put_new(&entry_path(version), render_entry(&actions)).await;
            match put {
                Ok(()) => {
                    self.accept(snapshot, version, &actions).await?;
                    self.after(snapshot, options).await?;
                    return Ok(version);
                }
                Err(e) if e.is_already_exists() => {}
                Err(e) => {
                    // The entry may have been written before the answer was lost, or may yet be.
                    return match self.catch_up(snapshot, &writes, operation).await {
                        Ok(Some(version)) => {
                            self.after(snapshot, options).await?;
                            Ok(version)
                        }
                        _ => Err(e.into()),
                    };
                }
            }
            match self.catch_up(snapshot, &writes, operation).await {
                Ok(Some(version)) => {
                    self.after(snapshot, options).await?;
                    return Ok(version);
                }
                Ok(None) => {
                    *unsure = false;
                    // What came between may ask more of writers than this one knows.
                    if let Some(what) = &snapshot.unknown_to_writers {
                        return Err(TableError::NewerFormat { what: what.clone() });
                    }
                }
                Err(error) => {
                    *unsure = !matches!(error, TableError::Conflict { .. });
                    return Err(error);
                }
            }
            self.world.back_off(tries.min(16)).await;
        }
        Err(TableError::Cancelled)
    }

    /// What several changes, one after the other, make of a snapshot.
    async fn resolve_all(
        &self,
        snapshot: &Snapshot,
        staged: &[Staged],
        options: &WriteOptions,
        made: &mut Vec<String>,
    ) -> Result<Snapshot, TableError> {
        let mut ready = snapshot.clone();
        for staged in staged {
            self.apply_privately(&mut ready, staged, options, made).await?;
        }
        Ok(ready)
    }

    /// Makes a change in a snapshot that nobody else sees.
    #[boxed]
    pub(crate) async fn apply_privately(
        &self,
        snapshot: &mut Snapshot,
        staged: &Staged,
        options: &WriteOptions,
        made: &mut Vec<String>,
    ) -> Result<(), TableError> {
        let actions = self.resolve(snapshot, staged, options, made).await?;
        snapshot.apply(snapshot.version + 1, &actions)?;
        Ok(())
    }

    async fn accept(
        &self,
        snapshot: &mut Snapshot,
        version: u64,
        actions: &[Action],
    ) -> Result<(), TableError> {
        // Log checkpoints are made from the snapshot: it must not lack a file.
        let untagged = snapshot.apply(version, actions)?;
        scan_untagged(self.store, snapshot, untagged).await?;
        self.cache.trim(snapshot);
        Ok(())
    }

    /// Follows the log to its tip. An entry with our own `operation` means that we had won; an
    /// entry that wrote what `writes` writes is a conflict.
    #[boxed]
    async fn catch_up(
        &self,
        snapshot: &mut Snapshot,
        writes: &WriteSet,
        operation: &str,
    ) -> Result<Option<u64>, TableError> {
        let mut won = None;
        loop {
            let version = snapshot.version + 1;
            let Some(actions) = read_entry(self.store, version).await? else { return Ok(won) };
            let info = actions.iter().find_map(|a| match a {
                Action::CommitInfo(info) => Some(&info["lacus"]),
                _ => None,
            });
            let is_own = info.is_some_and(|i| i["operation"] == operation);
            if is_own {
                won = Some(version);
            } else if let Some(what) = clash(writes, info, &actions).filter(|_| won.is_none()) {
                // What came after a commit of ours that stands is no longer our concern.
                return Err(TableError::Conflict { what, version });
            }
            follow(self.store, snapshot, version, &actions).await?;
            self.cache.trim(snapshot);
        }
    }

    fn commit_info(
        &self,
        attempt: &Attempt<'_, '_>,
        writes: &WriteSet,
        name: Option<String>,
        options: &WriteOptions,
        operation: &str,
        actions: &[Action],
    ) -> Json {
        let only_adds = !actions.iter().any(|a| matches!(a, Action::Remove(_)));
        let moved = attempt.staged.iter().all(|staged| !staged.data_change);
        let mut info = json!({
            "timestamp": self.world.now_millis(),
            "operation": attempt.op,
            "operationParameters": {},
            "engineInfo": concat!("lacus/", env!("CARGO_PKG_VERSION")),
            "userName": options.author.clone().unwrap_or_else(default_author),
            "isBlindAppend": only_adds,
            "lacus": {
                "operation": operation,
                "durable": options.durable,
                "detail": attempt.detail,
                "writes": writes,
                "moved": moved,
            },
        });
        if let Some(name) = name {
            info["lacus"]["commit"] = Json::String(name);
        }
        info
    }

    /// The actions that make `staged` true on top of `snapshot`.
    #[boxed]
    async fn resolve(
        &self,
        snapshot: &Snapshot,
        staged: &Staged,
        options: &WriteOptions,
        made: &mut Vec<String>,
    ) -> Result<Vec<Action>, TableError> {
        let now = self.world.now_millis();
        let sequence = next_sequence(snapshot);
        let mut actions: Vec<Action> = Vec::new();
        self.check_new_rows(snapshot, staged).await?;
        if let [Supersede::Everything(files)] = staged.supersede.as_slice() {
            let mut target = snapshot.clone();
            target.replace_files(files);
            return Ok(net_actions(snapshot, &target, now));
        }
        // Somebody else brought back the same file: its entry must not be replaced by ours.
        if let Some(file) = staged.files.iter().find(|f| f.is_old && snapshot.files.contains_key(&f.path)) {
            let what = format!("data file {:?}", file.path);
            return Err(TableError::Conflict { what, version: snapshot.version });
        }
        let mut changes: BTreeMap<String, FileChange> = BTreeMap::new();
        for superseded in &staged.supersede {
            self.mark(snapshot, superseded, &mut changes, &mut actions, now).await?;
        }
        let to_rewrite: u64 = changes
            .iter()
            .filter(|(_, change)| !change.held.is_empty())
            .flat_map(|(_, change)| &change.held)
            .map(|held| held.bytes)
            .sum();
        let brings_vectors = staged.files.iter().any(|f| f.vector.is_some());
        // Rows that nothing here could copy stay in the file they are in.
        let in_the_way =
            changes.values().flat_map(|change| &change.held).any(|held| is_in_the_way(snapshot, held));
        let use_vectors =
            snapshot.deletion_vectors || brings_vectors || in_the_way || to_rewrite > MAX_REWRITE_BYTES;
        if brings_vectors {
            enable_vectors(snapshot, &mut actions);
        }
        let mut rewrites = Vec::new();
        for (path, change) in changes {
            let entry = &snapshot.files[&path];
            // What the file still holds is said anew, with a checksum.
            self.cache.prove_all(self.store, std::slice::from_ref(entry)).await?;
            actions.push(removed(entry, now, staged.data_change));
            if change.held.is_empty() {
                continue;
            }
            if !use_vectors {
                rewrites.push((path, change));
                continue;
            }
            enable_vectors(snapshot, &mut actions);
            let mut dead = change.dead;
            if let Some(before) = self.cache.deleted(self.store, entry).await? {
                dead |= before.as_ref();
            }
            let encoded = deletion::encode(&dead, self.world.uuid());
            if let Some((path, bytes)) = encoded.file {
                self.store.put_new(&path, bytes).await?;
                made.push(path);
            }
            let tags = FileTags { tensors: change.held, deleted: dead.len(), ..entry.tags.clone() };
            actions.push(Action::Add(Add {
                deletion_vector: Some(encoded.descriptor),
                data_change: staged.data_change,
                stats: entry.add.stats.as_deref().map(loosened),
                tags: Some(render_tags(&tags)),
                ..entry.add.clone()
            }));
        }
        if !rewrites.is_empty() {
            let files = self.rewrite(snapshot, rewrites, options).await?;
            made.extend(files.iter().map(|f| f.path.clone()));
            actions.extend(files.iter().map(|f| added(f, now, staged.data_change, sequence)));
        }
        actions.extend(staged.files.iter().map(|f| added(f, now, staged.data_change, sequence)));
        Ok(actions)
    }

    /// New rows must have ids that no row has: whatever went wrong with their reservation ends here.
    #[boxed]
    async fn check_new_rows(&self, snapshot: &Snapshot, staged: &Staged) -> Result<(), TableError> {
        let is_pending = |held: &Held| held.sequences.iter().any(|(sequence, _)| *sequence >= PENDING);
        for file in &staged.files {
            let rows = file.tags.tensors.iter().find(|held| held.name == ROW_AXIS);
            let Some(held) = rows.filter(|held| file.new_rows.is_some() || is_pending(held)) else {
                continue;
            };
            let span = held.span.map(|(low, high)| (low, high - low + 1));
            let runs = match &file.new_rows {
                Some(runs) => runs.clone(),
                None if held.ids.is_empty() => span.into_iter().collect(),
                None => held.ids.clone(),
            };
            let axis = self.rows.axis(self.store, snapshot).await?;
            if runs.iter().any(|(first, count)| axis.overlaps(*first, *count)) {
                let what = "rows whose ids others have; try again".to_owned();
                return Err(TableError::Conflict { what, version: snapshot.version });
            }
        }
        Ok(())
    }

    /// Notes which rows of which files a supersession kills.
    #[boxed]
    async fn mark(
        &self,
        snapshot: &Snapshot,
        superseded: &Supersede,
        changes: &mut BTreeMap<String, FileChange>,
        actions: &mut Vec<Action>,
        now: i64,
    ) -> Result<(), TableError> {
        match superseded {
            Supersede::Tensor(name) => {
                let Some(state) = snapshot.state(name) else { return Ok(()) };
                for entry in &state.files {
                    let change = FileChange::of(changes, entry);
                    let Some(at) = change.held.iter().position(|h| h.name == *name) else { continue };
                    let held = change.held.remove(at);
                    change.dead.extend(held.header.iter().map(|h| h.row));
                    change.dead.extend(&held.more_headers);
                    for &(first, count) in &held.rows {
                        change.dead.insert_range(first..first + count);
                    }
                }
            }
            Supersede::Header(name) => {
                let Some(state) = snapshot.state(name) else { return Ok(()) };
                // Only another writer can have left several.
                let holders = state.files.iter().filter(|f| f.held(name).is_some_and(|h| h.header.is_some()));
                for entry in holders {
                    let change = FileChange::of(changes, entry);
                    let Some(at) = change.held.iter().position(|h| h.name == *name) else { continue };
                    let held = &mut change.held[at];
                    change.dead.extend(held.header.take().iter().map(|h| h.row));
                    change.dead.extend(std::mem::take(&mut held.more_headers));
                    if held.rows.is_empty() {
                        change.held.remove(at);
                    }
                }
            }
            Supersede::Chunks(name, chunks) => {
                if snapshot.tensor(name).is_none() {
                    return Ok(());
                }
                let index = self.cache.tensor(self.store, snapshot, name).await?;
                let mut live: HashMap<u32, u64> = HashMap::new();
                for place in &index.places {
                    *live.entry(place.file).or_default() += 1;
                }
                for coords in chunks {
                    let Some(i) = index.chunks.find(coords) else { continue };
                    let place = &index.places[i];
                    let entry = &snapshot.files[&index.files[place.file as usize].path];
                    let change = FileChange::of(changes, entry);
                    change.dead.insert(place.row);
                    let left = live.entry(place.file).or_default();
                    *left = left.saturating_sub(1);
                    if let Some(at) = change.held.iter().position(|h| h.name == *name) {
                        let held = &mut change.held[at];
                        held.bytes = held.bytes.saturating_sub(place.bytes);
                        if *left == 0 {
                            held.rows.clear();
                            held.bytes = 0;
                            if held.header.is_none() {
                                change.held.remove(at);
                            }
                        }
                    }
                }
            }
            Supersede::Samples(name, ids) => {
                if snapshot.tensor(name).is_some() {
                    let index = self.rows.column(self.store, snapshot, name).await?;
                    kill(&index, ids, changes);
                }
            }
            Supersede::Rows(ids) => {
                for (name, _) in snapshot.tensors().filter(|(_, state)| state.header.is_column()) {
                    let index = self.rows.column(self.store, snapshot, name).await?;
                    kill(&index, ids, changes);
                }
                let index = self.rows.axis_index(self.store, snapshot).await?;
                kill(&index, ids, changes);
            }
            // Stands alone, see `resolve`.
            Supersede::Everything(_) => {
                let what = "a whole state can only be restored by itself".to_owned();
                return Err(TableError::Fault { what });
            }
            Supersede::Files(files) => {
                for file in files {
                    check_unchanged(snapshot, file)?;
                    actions.push(removed(file, now, false));
                }
            }
            Supersede::Replaced(files, others) => {
                for file in files {
                    check_unchanged(snapshot, file)?;
                    actions.push(removed(file, now, false));
                }
                let add = |file: &FileEntry| Action::Add(Add { data_change: false, ..file.add.clone() });
                actions.extend(others.iter().map(add));
            }
        }
        Ok(())
    }

    /// Copies what is left of small files into new ones.
    #[boxed]
    async fn rewrite(
        &self,
        snapshot: &Snapshot,
        changes: Vec<(String, FileChange)>,
        options: &WriteOptions,
    ) -> Result<Vec<StagedFile>, TableError> {
        let mut tensors: BTreeMap<String, Copied> = BTreeMap::new();
        // What must not be copied: rows that die with this commit. They are kept out by copying
        // against a snapshot in which they are dead already.
        let mut thinned = snapshot.clone();
        let private = Arc::new(Cache::default());
        for (path, change) in changes {
            let entry = &snapshot.files[&path];
            let mut dead = change.dead;
            if let Some(before) = self.cache.deleted(self.store, entry).await? {
                dead |= before.as_ref();
            }
            let descriptor = deletion::encode_inline(&dead);
            for held in &change.held {
                let copied = tensors.entry(held.name.clone()).or_insert_with(|| Copied {
                    name: held.name.clone(),
                    new_name: held.name.clone(),
                    header: None,
                    only: Some(Vec::new()),
                });
                copied.header = copied.header.take().or_else(|| held.header.clone());
                copied.only.get_or_insert_default().push(path.clone());
            }
            let add = Add { deletion_vector: Some(descriptor), ..entry.add.clone() };
            let tags = FileTags { tensors: change.held, ..entry.tags.clone() };
            thinned.insert(FileEntry { add, tags });
        }
        // A tensor whose header dies here but whose chunks are copied is still read by its old header.
        for (name, state) in snapshot.tensors() {
            if tensors.contains_key(name) {
                thinned.set_header(name, &state.header);
            }
        }
        let tensors: Vec<Copied> = tensors.into_values().collect();
        let quiet = WriteOptions { progress: None, ..options.clone() };
        copy_rows(self.store, self.world, &private, &thinned, &tensors, &quiet).await
    }

    /// Log checkpoints, and durability when asked for.
    #[boxed]
    async fn after(&self, snapshot: &Snapshot, options: &WriteOptions) -> Result<(), TableError> {
        if options.durable {
            sync(self.store, snapshot).await?;
        }
        if snapshot.version.is_multiple_of(CHECKPOINT_EVERY) {
            // The version stands whether or not the checkpoint could be written.
            if let Err(error) = self.checkpoint(&snapshot.log_state()).await {
                tracing::warn!(version = snapshot.version, %error, "no log checkpoint was written");
            }
        }
        Ok(())
    }

    async fn checkpoint(&self, state: &LogState) -> Result<(), TableError> {
        log_checkpoint::write(self.store, state).await
    }
}

/// Moves a snapshot on by one log entry, or not at all.
pub(crate) async fn follow(
    store: &Store,
    snapshot: &mut Snapshot,
    version: u64,
    actions: &[Action],
) -> Result<(), TableError> {
    let mut next = snapshot.clone();
    let untagged = next.apply(version, actions)?;
    scan_untagged(store, &mut next, untagged).await?;
    *snapshot = next;
    Ok(())
}

/// Files that came without tags are read to make them.
pub(crate) async fn scan_untagged(
    store: &Store,
    snapshot: &mut Snapshot,
    untagged: Vec<Add>,
) -> Result<(), TableError> {
    for add in untagged {
        let entry = crate::files::scan::scan(store, add).await?;
        snapshot.insert(entry);
    }
    Ok(())
}

/// Whether an entry that came between clashes with `writes`, and on what.
fn clash(writes: &WriteSet, info: Option<&Json>, actions: &[Action]) -> Option<String> {
    let theirs = info.and_then(|i| serde_json::from_value::<WriteSet>(i["writes"].clone()).ok());
    match theirs {
        Some(theirs) => writes.clash(&theirs).map(describe),
        None => {
            // Another tool's commit: what only adds, or only moves rows, is no concern of ours.
            let changes = actions.iter().any(|a| matches!(a, Action::Remove(r) if r.data_change));
            let adds = actions.iter().any(|a| matches!(a, Action::Add(add) if add.data_change));
            let clashes = (changes && !writes.is_empty()) || (adds && writes.everything);
            clashes.then(|| "the table".to_owned())
        }
    }
}

fn describe(tensor: &str) -> String {
    match tensor {
        "" => "the dataset's metadata".to_owned(),
        WHOLE_DATASET => "the dataset".to_owned(),
        name => format!("tensor {name:?}"),
    }
}

/// Who writes, when nobody says: the user this process runs as.
pub fn default_author() -> String {
    ["LACUS_AUTHOR", "USER", "LOGNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()))
        .or_else(user_name)
        .unwrap_or_else(|| "unknown".to_owned())
}

/// The name of the user this process runs as, where the system keeps a list of them.
fn user_name() -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let user = std::fs::metadata("/proc/self").ok()?.uid().to_string();
    let list = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut lines = list.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)? == user).then(|| name.to_owned())
    })
}

/// The header row a rewritten or renamed tensor gets.
pub(crate) fn header_of(snapshot: &Snapshot, name: &str) -> Option<HeaderRow> {
    snapshot.tensor(name).map(|state| (*state.header).clone())
}
