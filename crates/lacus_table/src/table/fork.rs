//! Tables beside tables: a fork borrows the files of the table it was made from, a restored table takes back the
//! files of an older state.

use lacus_io::boxed;
use serde_json::json;

use crate::error::TableError;
use crate::log::actions::Add;
use crate::log::beginning::{FORKED_AT, beginning, first_entry};
use crate::log::deletion;
use crate::log::log_checkpoint;
use crate::log::snapshot::FileEntry;
use crate::table::{At, Table};
use crate::write::commit::{Staged, Supersede};
use crate::write::stage::{WriteOptions, new_path};
use crate::write::write_set::WriteSet;

/// The first object of a fork.
const CLAIM: &str = "_lacus/fork";

/// The table property that says to which dataset a fork belongs.
pub(crate) const DATASET: &str = "lacus.dataset";

impl Table {
    /// Makes a table at `directory` of the dataset that has this version's content and borrows its files. Only
    /// metadata is written. Version numbers go on from this one's.
    #[boxed]
    pub async fn fork(&self, directory: &str) -> Result<Table, TableError> {
        lacus_io::ensure_conditional_put(&self.home, &self.world).await?;
        let store = self.home.below(directory)?;
        // Whoever creates this object owns the directory: two forks in one would be neither.
        let claim = json!({"version": self.version(), "from": self.directory()}).to_string();
        match store.put_new(CLAIM, claim.into()).await {
            Ok(()) => {}
            Err(e) if e.is_already_exists() => {
                return Err(TableError::AlreadyExists { url: store.text().to_owned() });
            }
            Err(e) => return Err(e.into()),
        }
        let mut snapshot = self.snapshot.clone();
        let files = self.files_seen_from(&store)?;
        snapshot.replace_files(&files);
        snapshot.metadata["configuration"][DATASET] = json!(self.dataset_id());
        snapshot.metadata["id"] = json!(self.world.uuid().to_string());
        snapshot.metadata["createdTime"] = json!(self.world.now_millis());
        snapshot.metadata["configuration"][FORKED_AT] = json!(snapshot.version.to_string());
        log_checkpoint::write(&store, &snapshot.log_state()).await?;
        let mut table = Table::over(store, self.world.clone(), snapshot, false);
        table.home = self.home.clone();
        Ok(table)
    }

    /// The version with which this table's log begins.
    pub fn first_version(&self) -> u64 {
        beginning(&self.snapshot.metadata).0
    }

    /// The first version that a log entry describes: a fork's own first version is in its log checkpoint alone.
    pub(crate) fn first_entry(&self) -> u64 {
        first_entry(&self.snapshot.metadata)
    }

    /// The directory of the dataset this table is in; empty for the dataset's root.
    pub fn directory(&self) -> &str {
        self.store.directory()
    }

    /// How many of this version's files belong to other tables, and their bytes.
    pub fn borrowed_files(&self) -> (usize, u64) {
        let borrowed = self.snapshot.files.values().filter(|file| is_borrowed(file));
        borrowed.fold((0, 0), |(files, bytes), file| {
            (files + 1, bytes + u64::try_from(file.add.size).unwrap_or(0))
        })
    }

    /// The files of this version by the paths by which another table of the dataset reaches them.
    fn files_seen_from(&self, store: &lacus_io::Store) -> Result<Vec<FileEntry>, TableError> {
        let mut files: Vec<FileEntry> = Vec::with_capacity(self.snapshot.files.len());
        for entry in self.snapshot.files.values() {
            let path = store.path_to(&self.store.outer_path(entry.path())?);
            let deletion_vector = match entry.deletions() {
                Some(descriptor) => Some(deletion::seen_from(descriptor, &self.store, store)?),
                None => None,
            };
            files.push(FileEntry {
                add: Add { path, deletion_vector, ..entry.add.clone() },
                tags: entry.tags.clone(),
            });
        }
        // The order in which files were written is the order in which a snapshot takes them.
        files.sort_by(|a, b| {
            (a.add.modification_time, &a.add.path).cmp(&(b.add.modification_time, &b.add.path))
        });
        Ok(files)
    }

    /// Makes this table's content that of another state of the dataset, as one version: files are taken back, not
    /// rows. Whatever anybody else writes meanwhile is a conflict. A table at the dataset's root gets files of its
    /// own (links, or copies made by the server); others borrow.
    #[boxed]
    pub async fn restore(&mut self, state: &Table, options: &WriteOptions) -> Result<u64, TableError> {
        self.writable().await?;
        let mut files = state.files_seen_from(&self.store)?;
        if self.store.directory().is_empty() {
            self.make_own(&mut files, options).await?;
        }
        let staged = Staged {
            op: "RESTORE",
            files: Vec::new(),
            supersede: vec![Supersede::Everything(files)],
            writes: WriteSet::everything(),
            detail: json!({"version": state.version(), "directory": state.directory()}),
            data_change: true,
        };
        self.commit(staged, options).await
    }

    /// Gives a fork files of its own, so that readers that know nothing of forks open it. Returns how many files it
    /// had borrowed.
    #[boxed]
    pub async fn own_files(&mut self, options: &WriteOptions) -> Result<usize, TableError> {
        self.writable().await?;
        self.refresh().await?;
        let borrowed: Vec<FileEntry> =
            self.snapshot.files.values().filter(|f| is_borrowed(f)).map(|f| (**f).clone()).collect();
        if borrowed.is_empty() {
            return Ok(0);
        }
        let mut own = borrowed.clone();
        self.make_own(&mut own, options).await?;
        let staged = Staged {
            op: "PUBLISH",
            files: Vec::new(),
            supersede: vec![Supersede::Replaced(borrowed, own)],
            writes: WriteSet::default(),
            detail: json!({}),
            data_change: false,
        };
        let count = self.borrowed_files().0;
        self.commit(staged, options).await?;
        Ok(count)
    }

    /// Puts files of other tables under this table's root, under new names.
    async fn make_own(&self, files: &mut [FileEntry], options: &WriteOptions) -> Result<(), TableError> {
        let total = files.iter().filter(|f| is_borrowed(f)).map(|f| f.add.size.unsigned_abs()).sum();
        let meter = crate::write::stage::Meter::new(options, total);
        for entry in files.iter_mut() {
            if options.cancelled() {
                return Err(TableError::Cancelled);
            }
            if let Some(descriptor) = entry.add.deletion_vector.clone()
                && let Some(path) = deletion::file_path(&descriptor).filter(|path| is_foreign(path))
            {
                let (own, name) = deletion::renamed(&descriptor, self.world.uuid());
                self.store.copy(&path, &name).await?;
                entry.add.deletion_vector = Some(own);
            }
            if is_foreign(entry.path()) {
                let own = new_path(&self.world);
                self.store.copy(entry.path(), &own).await?;
                entry.add.path = own;
                meter.add(entry.add.size.unsigned_abs());
            }
        }
        Ok(())
    }

    /// Opens a table of the dataset whose root is `home`, at a directory of it (`""` for the root itself).
    #[boxed]
    pub async fn open_in(
        home: &lacus_io::Store,
        directory: &str,
        world: lacus_io::World,
        at: At,
    ) -> Result<Table, TableError> {
        if directory.is_empty() {
            return Table::open(home.clone(), world, at).await;
        }
        let mut table = Table::open(home.below(directory)?, world, at).await?;
        table.home = home.clone();
        Ok(table)
    }
}

/// Whether a path leads to another table: out of this one, or from the dataset's root into one below it.
fn is_foreign(path: &str) -> bool {
    path.starts_with("../") || path.starts_with("_branches/")
}

fn is_borrowed(file: &FileEntry) -> bool {
    is_foreign(file.path())
        || file.deletions().and_then(deletion::file_path).is_some_and(|path| is_foreign(&path))
}
