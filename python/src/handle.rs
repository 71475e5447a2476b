//! A table that several Python threads can share: readers run side by side, a writer runs alone.
//!
//! ```text
//! Handle ── Timeline          the dataset's history
//!        ├─ Place             the branch it is on, and whether it moves with it
//!        └─ RwLock<Dataset>   that branch's table, which a checkout replaces
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lacus_dataset::{Dataset, DatasetError, SampleTypes};
use lacus_history::{Commit, CommitId, HistoryError, MAIN, Resolved, Timeline};
use lacus_io::{Store, World};
use lacus_table::{At, Table, TableError, WriteOptions};
use pyo3::prelude::*;
use tokio::sync::RwLock;

use crate::errors::{invalid, raise, raise_dataset, raise_history};
use crate::runtime::{Interrupt, Outcome, is_sound, run_aside, run_here};

/// Options of a store by name.
pub(crate) type StorageOptions = BTreeMap<String, String>;

/// A state that is meant, as `lacus/history.py` hands it over: text, a version, or a time in milliseconds since 1970. Text may
/// come with the time that it says in a form that only Python knows, if it is not the name of anything.
pub(crate) type AtArguments = (Option<String>, Option<u64>, Option<i64>);

/// What a handle looks at.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The branch, or the one it was on when it looked away: revisions are told from there.
    pub branch: String,
    /// Whether it stays at one state, which is read-only.
    pub pinned: bool,
    /// The commit it stays at, if it is one.
    pub commit: Option<CommitId>,
}

/// Where a dataset is, and its table.
pub(crate) struct Handle {
    url: String,
    options: StorageOptions,
    read_only: bool,
    /// Changed only by who holds the dataset for writing.
    place: Mutex<Place>,
    /// The version it sees, which can be read while a writer has the table.
    version: AtomicU64,
    /// Both `None` only while it is dropped.
    timeline: Option<Timeline>,
    dataset: Option<RwLock<Dataset>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // In a child that lost the threads which worked on it, its locks may be held for ever.
        if !is_sound() {
            std::mem::forget(self.dataset.take());
            std::mem::forget(self.timeline.take());
        }
    }
}

/// The store at a URL.
pub(crate) fn store(url: &str, options: &StorageOptions) -> Outcome<Store> {
    Ok(Store::open(url, options)?)
}

/// Opens a state, and says what it is.
pub(crate) async fn open_at(
    timeline: &Timeline,
    branch: &str,
    at: &AtArguments,
) -> Result<(Table, Place), HistoryError> {
    let pinned = |table, commit| (table, Place { branch: branch.to_owned(), pinned: true, commit });
    let at = match at {
        (None, None, None) => {
            let table = timeline.open(branch, None).await?.table;
            return Ok((table, Place { branch: branch.to_owned(), pinned: false, commit: None }));
        }
        (Some(text), _, time) => match (timeline.resolve(branch, text).await, time) {
            (Ok(Resolved::Branch(held)), _) => {
                let table = timeline.open(held.name(), None).await?.table;
                let place = Place { branch: held.name().to_owned(), pinned: false, commit: None };
                return Ok((table, place));
            }
            (Ok(Resolved::Commit(id, commit)), _) => {
                return Ok(pinned(timeline.state(&id, &commit).await?, Some(id)));
            }
            (Ok(Resolved::Version(version)), _) => At::Version(version),
            (Ok(Resolved::Time(time)), _) => At::Time(time),
            // Python knows more forms of times.
            (Err(HistoryError::NoSuchRef { .. } | HistoryError::BadRevision { .. }), Some(time)) => {
                At::Time(*time)
            }
            (Err(error), _) => return Err(error),
        },
        (None, Some(version), _) => At::Version(*version),
        (None, None, Some(time)) => At::Time(*time),
    };
    Ok(pinned(timeline.pinned(branch, at).await?.table, None))
}

impl Handle {
    pub(crate) fn new(
        url: String,
        options: StorageOptions,
        read_only: bool,
        timeline: Timeline,
        (table, place): (Table, Place),
    ) -> Handle {
        let version = AtomicU64::new(table.version());
        let dataset = Some(RwLock::new(Dataset::new(table)));
        Handle {
            url,
            options,
            read_only,
            place: Mutex::new(place),
            version,
            timeline: Some(timeline),
            dataset,
        }
    }

    /// Makes a dataset.
    pub(crate) fn create(py: Python<'_>, url: String, options: StorageOptions) -> PyResult<Handle> {
        let table = run_here(py, async || Table::create(store(&url, &options)?, World::real()).await)?;
        let table = table.map_err(|e| raise(py, &e))?;
        let timeline = timeline_of(table.home().clone());
        let place = Place { branch: MAIN.to_owned(), pinned: false, commit: None };
        Ok(Handle::new(url, options, false, timeline, (table, place)))
    }

    /// Opens a branch of a dataset, or a state of it, where it is pinned; with `read_only` it moves, but refuses writes.
    pub(crate) fn open(
        py: Python<'_>,
        url: String,
        options: StorageOptions,
        branch: &str,
        at: &AtArguments,
        read_only: bool,
    ) -> PyResult<Handle> {
        let opened = run_here(py, async || {
            let home = store(&url, &options)?;
            let timeline = timeline_of(home.clone());
            let mut opened = open_at(&timeline, branch, at).await;
            if let Ok((table, place)) = &mut opened
                && at.0.is_some()
            {
                // What is looked at is never written to, even if it is the tip of a branch.
                table.set_read_only();
                place.pinned = true;
            }
            if let Err(error) = &opened
                && !matches!(error, HistoryError::Table(_))
                && !Table::exists(&home).await?
            {
                // Nothing is called anything where there is no dataset.
                Table::open(home, World::real(), At::Tip).await?;
            }
            Ok(opened.map(|opened| (timeline, opened)))
        })?;
        let (timeline, opened) =
            opened.map_err(HistoryError::from).flatten().map_err(|e| raise_history(py, &e))?;
        Ok(Handle::new(url, options, read_only, timeline, opened))
    }

    /// Opens a version of one of a dataset's tables, as another handle saw it.
    pub(crate) fn reopen(
        py: Python<'_>,
        url: String,
        options: StorageOptions,
        directory: &str,
        version: u64,
        place: Place,
    ) -> PyResult<Handle> {
        let opened = run_here(py, async || {
            let home = store(&url, &options)?;
            let table = Table::open_in(&home, directory, World::real(), At::Version(version)).await?;
            Ok((timeline_of(home), table))
        })?;
        let (timeline, table) = opened.map_err(|e| raise(py, &e))?;
        Ok(Handle::new(url, options, true, timeline, (table, place)))
    }

    /// A handle on a state that was opened, which stays there.
    pub(crate) fn beside(&self, table: Table, commit: Option<CommitId>) -> Handle {
        let place = Place { pinned: true, commit, ..self.place() };
        Handle::new(self.url.clone(), self.options.clone(), true, self.timeline().clone(), (table, place))
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn options(&self) -> &StorageOptions {
        &self.options
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only || self.place().pinned
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    pub(crate) fn place(&self) -> Place {
        self.place.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    pub(crate) fn set_place(&self, place: Place) {
        *self.place.lock().unwrap_or_else(|e| e.into_inner()) = place;
    }

    pub(crate) fn timeline(&self) -> &Timeline {
        self.timeline.as_ref().expect("there until it is dropped")
    }

    fn dataset(&self) -> &RwLock<Dataset> {
        self.dataset.as_ref().expect("there until it is dropped")
    }

    /// Looks at what is known without reading anything, holding the GIL: it takes microseconds.
    pub(crate) fn peek<T: Send>(&self, py: Python<'_>, look: impl FnOnce(&Table) -> T + Send) -> PyResult<T> {
        self.peek_rows(py, |dataset| look(dataset.table()))
    }

    /// The same of rows and columns.
    pub(crate) fn peek_rows<T: Send>(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&Dataset) -> T + Send,
    ) -> PyResult<T> {
        if let Ok(dataset) = self.dataset().try_read() {
            return Ok(look(&dataset));
        }
        let looked = run_here(py, async || Ok(look(&*self.dataset().read().await)))?;
        looked.map_err(|e| raise(py, &e))
    }

    /// Reads rows, as [`Handle::read`] reads tensors.
    pub(crate) fn read_rows<T: Send>(
        &self,
        py: Python<'_>,
        short: bool,
        work: impl AsyncFnOnce(&Dataset) -> Result<T, DatasetError> + Send,
    ) -> PyResult<T> {
        let work = async || Ok(work(&*self.dataset().read().await).await);
        let read = if short { run_here(py, work)? } else { run_aside(py, &Interrupt::Abandon, work)? };
        read.map_err(DatasetError::from).flatten().map_err(|e| raise_dataset(py, &e))
    }

    /// Writes rows, as [`Handle::write`] writes tensors.
    pub(crate) fn write_rows<T: Send>(
        &self,
        py: Python<'_>,
        durable: bool,
        work: impl AsyncFnOnce(&mut Dataset, &WriteOptions) -> Result<T, DatasetError> + Send,
    ) -> PyResult<T> {
        let written =
            self.write_dataset(py, durable, async |dataset: &mut Dataset, options: &WriteOptions| {
                Ok(work(dataset, options).await)
            })?;
        written.map_err(DatasetError::from).flatten().map_err(|e| raise_dataset(py, &e))
    }

    /// Changes what only this handle knows.
    pub(crate) fn set_up<T: Send>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut Dataset) -> T + Send,
    ) -> PyResult<T> {
        let changed = run_here(py, async || Ok(change(&mut *self.dataset().write().await)))?;
        changed.map_err(|e| raise(py, &e))
    }

    /// Reads, side by side with other readers. What is `short` runs on this thread.
    pub(crate) fn read<T: Send>(
        &self,
        py: Python<'_>,
        short: bool,
        work: impl AsyncFnOnce(&Table) -> Outcome<T> + Send,
    ) -> PyResult<Outcome<T>> {
        let work = async || work(self.dataset().read().await.table()).await;
        if short { run_here(py, work) } else { run_aside(py, &Interrupt::Abandon, work) }
    }

    /// Moves to the newest version, unless pinned.
    pub(crate) fn refresh(&self, py: Python<'_>) -> PyResult<u64> {
        let version = run_here(py, async || {
            let mut dataset = self.dataset().write().await;
            let refreshed = dataset.table_mut().refresh().await;
            self.version.store(dataset.table().version(), Ordering::Relaxed);
            refreshed
        })?;
        version.map_err(|e| raise(py, &e))
    }

    /// Writes, alone. Ctrl-C cancels it.
    pub(crate) fn write<T: Send>(
        &self,
        py: Python<'_>,
        durable: bool,
        work: impl AsyncFnOnce(&mut Table, &WriteOptions) -> Outcome<T> + Send,
    ) -> PyResult<Outcome<T>> {
        self.write_dataset(py, durable, async |dataset: &mut Dataset, options: &WriteOptions| {
            work(dataset.table_mut(), options).await
        })
    }

    /// Fails if this handle must not change the dataset.
    fn refuse_read_only(&self, py: Python<'_>) -> PyResult<()> {
        match self.read_only && !self.place().pinned {
            true => {
                let message =
                    "this handle was opened with read_only=True; open the dataset without it to write";
                Err(invalid(py, message))
            }
            false => Ok(()),
        }
    }

    fn write_dataset<T: Send>(
        &self,
        py: Python<'_>,
        durable: bool,
        work: impl AsyncFnOnce(&mut Dataset, &WriteOptions) -> Outcome<T> + Send,
    ) -> PyResult<Outcome<T>> {
        if self.place().pinned {
            return Ok(Err(TableError::ReadOnly { version: self.version() }));
        }
        self.refuse_read_only(py)?;
        let cancel = Arc::new(AtomicBool::new(false));
        let options = WriteOptions { durable, cancel: Some(Arc::clone(&cancel)), ..WriteOptions::default() };
        run_aside(py, &Interrupt::Cancel(cancel), async || {
            let mut dataset = self.dataset().write().await;
            let written = work(&mut dataset, &options).await;
            self.version.store(dataset.table().version(), Ordering::Relaxed);
            written
        })
    }

    /// Looks at the history. The table is left to others meanwhile.
    pub(crate) fn look<T: Send>(
        &self,
        py: Python<'_>,
        work: impl AsyncFnOnce(&Timeline, &Place) -> Result<T, HistoryError> + Send,
    ) -> PyResult<T> {
        let looked =
            run_aside(py, &Interrupt::Abandon, async || Ok(work(self.timeline(), &self.place()).await))?;
        looked.map_err(HistoryError::from).flatten().map_err(|e| raise_history(py, &e))
    }

    /// Changes refs and other things beside the table; or only looks, with all that is needed to change them.
    pub(crate) fn manage<T: Send>(
        &self,
        py: Python<'_>,
        changes: bool,
        work: impl AsyncFnOnce(&Timeline, &Place, &WriteOptions) -> Result<T, HistoryError> + Send,
    ) -> PyResult<T> {
        if changes {
            self.refuse_read_only(py)?;
        }
        let cancel = Arc::new(AtomicBool::new(false));
        let options = WriteOptions { cancel: Some(Arc::clone(&cancel)), ..WriteOptions::default() };
        let managed = run_aside(py, &Interrupt::Cancel(cancel), async || {
            Ok(work(self.timeline(), &self.place(), &options).await)
        })?;
        managed.map_err(HistoryError::from).flatten().map_err(|e| raise_history(py, &e))
    }

    /// Moves a branch: a write of the history. Refused while a transaction is open, unless it is what ends one.
    pub(crate) fn record<T: Send>(
        &self,
        py: Python<'_>,
        op: &'static str,
        ends_transaction: bool,
        work: impl AsyncFnOnce(&Timeline, &str, &mut Table, &WriteOptions) -> Result<T, HistoryError> + Send,
    ) -> PyResult<T> {
        let written =
            self.write_dataset(py, false, async |dataset: &mut Dataset, options: &WriteOptions| {
                if dataset.table().in_transaction() != ends_transaction {
                    return Ok(Err(refuse_transaction(op, ends_transaction)));
                }
                let branch = self.place().branch;
                let table = dataset.table_mut();
                let done = work(self.timeline(), &branch, table, options).await;
                // Whatever went wrong, no transaction outlives the call.
                if done.is_err() && table.in_transaction() {
                    table.abandon().await;
                }
                dataset.forget_columns();
                Ok(done)
            })?;
        written.map_err(HistoryError::from).flatten().map_err(|e| raise_history(py, &e))
    }

    /// Looks at another state from now on; with `create`, at a branch of this name that is made from it. A draft must not be
    /// left behind unless `force`.
    pub(crate) fn move_to(
        &self,
        py: Python<'_>,
        at: &AtArguments,
        create: Option<&str>,
        force: bool,
    ) -> PyResult<()> {
        if create.is_some() {
            self.refuse_read_only(py)?;
        }
        let moved = run_aside(py, &Interrupt::Abandon, async || {
            let mut dataset = self.dataset().write().await;
            Ok(self.swap(&mut dataset, at, create, force).await)
        })?;
        moved.map_err(HistoryError::from).flatten().map_err(|e| raise_history(py, &e))
    }

    async fn swap(
        &self,
        dataset: &mut Dataset,
        at: &AtArguments,
        create: Option<&str>,
        force: bool,
    ) -> Result<(), HistoryError> {
        if dataset.table().in_transaction() {
            return Err(refuse_transaction("checkout", false));
        }
        let (from, timeline) = (self.place(), self.timeline());
        let may_leave = from.pinned || self.read_only || force;
        let (table, to) = match create {
            Some(name) => {
                if !may_leave {
                    self.refuse_draft(dataset, &from.branch).await?;
                }
                let (id, commit) = commit_at(timeline, &from, at.0.as_deref()).await?;
                timeline.create_branch(name, (id, &commit)).await?;
                open_at(timeline, name, &(None, None, None)).await?
            }
            None => {
                let (table, to) = open_at(timeline, &from.branch, at).await?;
                let stays = !to.pinned && to.branch == from.branch;
                if !may_leave && !stays {
                    self.refuse_draft(dataset, &from.branch).await?;
                }
                (table, to)
            }
        };
        self.version.store(table.version(), Ordering::Relaxed);
        dataset.replace_table(table);
        self.set_place(to);
        Ok(())
    }

    async fn refuse_draft(&self, dataset: &Dataset, branch: &str) -> Result<(), HistoryError> {
        let tip = self.timeline().tip_near(branch, dataset.table()).await?;
        let count = tip.draft.len();
        if count == 0 {
            return Ok(());
        }
        let versions = if count == 1 { "version" } else { "versions" };
        let why = format!(
            "branch {branch:?} has a draft of {count} {versions}; commit or discard it first, or use force to leave it \
             there"
        );
        Err(HistoryError::Refused { op: "checkout", why })
    }
}

/// The commit that a revision means; without one, the commit this is or the newest of the branch it is on.
pub(crate) async fn commit_at(
    timeline: &Timeline,
    place: &Place,
    revision: Option<&str>,
) -> Result<(CommitId, Arc<Commit>), HistoryError> {
    match (revision, place.commit) {
        (Some(text), _) => timeline.resolve_commit(&place.branch, text).await,
        (None, Some(id)) => Ok((id, timeline.commits().read(&id).await?)),
        (None, None) => timeline.resolve_commit(&place.branch, "HEAD").await,
    }
}

fn refuse_transaction(op: &'static str, ends_transaction: bool) -> HistoryError {
    let why = match ends_transaction {
        true => "no transaction is open",
        false => "a transaction is open; this is done before or after it",
    };
    HistoryError::Refused { op, why: why.to_owned() }
}

/// The history of a dataset, by somebody who knows the types of its columns.
fn timeline_of(home: Store) -> Timeline {
    Timeline::new(home, World::real()).with_types(Arc::new(SampleTypes))
}
