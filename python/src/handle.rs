//! A checkout that several Python threads can share: readers run side by side, a writer runs alone.
//!
//! ```text
//! Handle ── Repository          the dataset
//!        ├─ RwLock<Checkout>    the branch it is on, or the state it stays at
//!        └─ Place, version      where that is, to be asked while a writer has it
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lacus::dataset::{Dataset, DatasetError};
use lacus::table::{Table, TableError, WriteOptions};
use lacus::{At, Checkout, Error, Place, Repository, StorageOptions, View};
use pyo3::prelude::*;
use tokio::sync::RwLock;

use crate::errors::{invalid, raise, raise_dataset, raise_error};
use crate::runtime::{Interrupt, Outcome, is_sound, run_aside, run_here};

/// A state that is meant, as `lacus/history.py` hands it over: text, a version, or a time in milliseconds since 1970. Text may
/// come with the time that it says in a form that only Python knows, if it is not the name of anything.
pub(crate) type AtArguments = (Option<String>, Option<u64>, Option<i64>);

/// All rows and columns of a state, and a handle that stays there.
pub(crate) type Whole = (Arc<Handle>, View);

/// The state that is meant.
pub(crate) fn at((text, version, time): &AtArguments) -> At {
    match (text, version, time) {
        (Some(text), _, Some(time)) => At::TextOrTime(text.clone(), *time),
        (Some(text), _, None) => At::Text(text.clone()),
        (None, Some(version), _) => At::Version(*version),
        (None, None, Some(time)) => At::Time(*time),
        (None, None, None) => At::Here,
    }
}

/// Where a dataset is, and a checkout of it.
pub(crate) struct Handle {
    options: StorageOptions,
    read_only: bool,
    /// Changed only by who holds the checkout for writing.
    place: Mutex<Place>,
    /// The version it sees, which can be read while a writer has the table.
    version: AtomicU64,
    /// All rows and columns of the state with this number, and a handle that stays there: what views are made of.
    whole: Mutex<Option<(u64, Whole)>>,
    /// Both `None` only while it is dropped.
    repository: Option<Repository>,
    checkout: Option<RwLock<Checkout>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // In a child that lost the threads which worked on it, its locks may be held for ever.
        if !is_sound() {
            std::mem::forget(self.checkout.take());
            std::mem::forget(self.repository.take());
            std::mem::forget(std::mem::take(&mut self.whole));
        }
    }
}

impl Handle {
    pub(crate) fn new(options: StorageOptions, read_only: bool, checkout: Checkout) -> Handle {
        Handle {
            options,
            read_only,
            place: Mutex::new(checkout.place().clone()),
            version: AtomicU64::new(checkout.table().version()),
            whole: Mutex::default(),
            repository: Some(checkout.repository().clone()),
            checkout: Some(RwLock::new(checkout)),
        }
    }

    /// Makes a dataset.
    pub(crate) fn create(py: Python<'_>, url: String, options: StorageOptions) -> PyResult<Handle> {
        let made = run_here(py, async || Ok(Repository::create(&url, &options).await))?;
        Ok(Handle::new(options, false, done(py, made)?))
    }

    /// Opens a branch of a dataset, or a state of it, where it is pinned; with `read_only` it moves, but refuses writes.
    pub(crate) fn open(
        py: Python<'_>,
        url: String,
        options: StorageOptions,
        branch: &str,
        wanted: &AtArguments,
        read_only: bool,
    ) -> PyResult<Handle> {
        let opened = run_here(py, async || {
            let open = async || {
                let repository = Repository::at(&url, &options)?;
                match at(wanted) {
                    At::Here => repository.checkout(branch).await,
                    // What is looked at is never written to, even if it is the tip of a branch.
                    at => repository.look(&Place::on(branch), &at).await,
                }
            };
            Ok(open().await)
        })?;
        Ok(Handle::new(options, read_only, done(py, opened)?))
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
            let open = async || {
                let repository = Repository::at(&url, &options)?;
                let at = lacus::table::At::Version(version);
                let table = repository.timeline().table(directory, at).await?;
                Ok(repository.around(table, place))
            };
            Ok(open().await)
        })?;
        Ok(Handle::new(options, true, done(py, opened)?))
    }

    /// A handle on a state that was opened, which stays there.
    pub(crate) fn beside(&self, table: Table, place: Place) -> Handle {
        Handle::new(self.options.clone(), true, self.repository().around(table, place))
    }

    /// A handle on what this one sees, which stays there.
    pub(crate) fn frozen(&self, py: Python<'_>) -> PyResult<Handle> {
        let checkout = self.peek_checkout(py, Checkout::frozen)?;
        Ok(Handle::new(self.options.clone(), true, checkout))
    }

    pub(crate) fn url(&self) -> &str {
        self.repository().url()
    }

    pub(crate) fn options(&self) -> &StorageOptions {
        &self.options
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only || self.place().pinned.is_some()
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    pub(crate) fn place(&self) -> Place {
        self.place.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    pub(crate) fn repository(&self) -> &Repository {
        self.repository.as_ref().expect("there until it is dropped")
    }

    fn checkout(&self) -> &RwLock<Checkout> {
        self.checkout.as_ref().expect("there until it is dropped")
    }

    /// Looks at what is known without reading anything, holding the GIL: it takes microseconds.
    pub(crate) fn peek<T: Send>(&self, py: Python<'_>, look: impl FnOnce(&Table) -> T + Send) -> PyResult<T> {
        self.peek_checkout(py, |checkout| look(checkout.table()))
    }

    /// The same of rows and columns.
    pub(crate) fn peek_rows<T: Send>(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&Dataset) -> T + Send,
    ) -> PyResult<T> {
        self.peek_checkout(py, |checkout| look(checkout.dataset()))
    }

    fn peek_checkout<T: Send>(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&Checkout) -> T + Send,
    ) -> PyResult<T> {
        if let Ok(checkout) = self.checkout().try_read() {
            return Ok(look(&checkout));
        }
        let looked = run_here(py, async || Ok(look(&*self.checkout().read().await)))?;
        looked.map_err(|e| raise(py, &e))
    }

    /// All rows and columns of what this handle sees. Views of one state share what is known of it.
    pub(crate) fn whole(&self, py: Python<'_>) -> PyResult<Whole> {
        let state = self.peek(py, Table::state_number)?;
        let known = || self.whole.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((number, whole)) = &*known()
            && *number == state
        {
            return Ok(whole.clone());
        }
        let made = run_here(py, async || {
            let checkout = self.checkout().read().await;
            let view = checkout.view().await;
            Ok(view.map(|view| (checkout.table().state_number(), checkout.frozen(), view)))
        })?;
        let (state, frozen, view) = done(py, made)?;
        let whole = (Arc::new(Handle::new(self.options.clone(), true, frozen)), view);
        *known() = Some((state, whole.clone()));
        Ok(whole)
    }

    /// Reads rows, as [`Handle::read`] reads tensors.
    pub(crate) fn read_rows<T: Send>(
        &self,
        py: Python<'_>,
        short: bool,
        work: impl AsyncFnOnce(&Dataset) -> Result<T, DatasetError> + Send,
    ) -> PyResult<T> {
        let work = async || Ok(work(self.checkout().read().await.dataset()).await);
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
            self.write_checkout(py, durable, async |checkout: &mut Checkout, options: &WriteOptions| {
                Ok(work(checkout.dataset_mut(), options).await)
            })?;
        written.map_err(DatasetError::from).flatten().map_err(|e| raise_dataset(py, &e))
    }

    /// Changes what only this handle knows.
    pub(crate) fn set_up<T: Send>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut Dataset) -> T + Send,
    ) -> PyResult<T> {
        let changed = run_here(py, async || Ok(change(self.checkout().write().await.dataset_mut())))?;
        *self.whole.lock().unwrap_or_else(|e| e.into_inner()) = None;
        changed.map_err(|e| raise(py, &e))
    }

    /// Reads, side by side with other readers. What is `short` runs on this thread.
    pub(crate) fn read<T: Send>(
        &self,
        py: Python<'_>,
        short: bool,
        work: impl AsyncFnOnce(&Table) -> Outcome<T> + Send,
    ) -> PyResult<Outcome<T>> {
        let work = async || work(self.checkout().read().await.table()).await;
        if short { run_here(py, work) } else { run_aside(py, &Interrupt::Abandon, work) }
    }

    /// Moves to the newest version, unless pinned.
    pub(crate) fn refresh(&self, py: Python<'_>) -> PyResult<u64> {
        let version = run_here(py, async || {
            let mut checkout = self.checkout().write().await;
            let refreshed = checkout.table_mut().refresh().await;
            self.version.store(checkout.table().version(), Ordering::Relaxed);
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
        self.write_checkout(py, durable, async |checkout: &mut Checkout, options: &WriteOptions| {
            work(checkout.table_mut(), options).await
        })
    }

    /// Fails if this handle must not change the dataset.
    pub(crate) fn refuse_read_only(&self, py: Python<'_>) -> PyResult<()> {
        match self.read_only && self.place().pinned.is_none() {
            true => {
                let message =
                    "this handle was opened with read_only=True; open the dataset without it to write";
                Err(invalid(py, message))
            }
            false => Ok(()),
        }
    }

    fn write_checkout<T: Send>(
        &self,
        py: Python<'_>,
        durable: bool,
        work: impl AsyncFnOnce(&mut Checkout, &WriteOptions) -> Outcome<T> + Send,
    ) -> PyResult<Outcome<T>> {
        if self.place().pinned.is_some() {
            return Ok(Err(TableError::ReadOnly { version: self.version() }));
        }
        self.refuse_read_only(py)?;
        let cancel = Arc::new(AtomicBool::new(false));
        let options = WriteOptions { durable, cancel: Some(Arc::clone(&cancel)), ..WriteOptions::default() };
        run_aside(py, &Interrupt::Cancel(cancel), async || {
            let mut checkout = self.checkout().write().await;
            let written = work(&mut checkout, &options).await;
            self.moved(&checkout);
            written
        })
    }

    /// Notes where the checkout is now.
    fn moved(&self, checkout: &Checkout) {
        self.version.store(checkout.table().version(), Ordering::Relaxed);
        *self.place.lock().unwrap_or_else(|e| e.into_inner()) = checkout.place().clone();
    }

    /// Looks at the history. The table is left to others meanwhile.
    pub(crate) fn look<T: Send>(
        &self,
        py: Python<'_>,
        work: impl AsyncFnOnce(&Repository, &Place) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let looked =
            run_aside(py, &Interrupt::Abandon, async || Ok(work(self.repository(), &self.place()).await))?;
        done(py, looked)
    }

    /// Changes refs and other things beside the table; or only looks, with all that is needed to change them.
    pub(crate) fn manage<T: Send>(
        &self,
        py: Python<'_>,
        changes: bool,
        work: impl AsyncFnOnce(&Repository, &Place, &WriteOptions) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        if changes {
            self.refuse_read_only(py)?;
        }
        let cancel = Arc::new(AtomicBool::new(false));
        let options = WriteOptions { cancel: Some(Arc::clone(&cancel)), ..WriteOptions::default() };
        let managed = run_aside(py, &Interrupt::Cancel(cancel), async || {
            Ok(work(self.repository(), &self.place(), &options).await)
        })?;
        done(py, managed)
    }

    /// Changes the history of the branch it is on.
    pub(crate) fn record<T: Send>(
        &self,
        py: Python<'_>,
        work: impl AsyncFnOnce(&mut Checkout, &WriteOptions) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let written =
            self.write_checkout(py, false, async |checkout: &mut Checkout, options: &WriteOptions| {
                Ok(work(checkout, options).await)
            })?;
        done(py, written)
    }

    /// Looks at another state from now on; with `create`, at a branch of this name that is made from it. A draft must not be
    /// left behind unless `force`.
    pub(crate) fn move_to(
        &self,
        py: Python<'_>,
        wanted: &AtArguments,
        create: Option<&str>,
        force: bool,
    ) -> PyResult<()> {
        if create.is_some() {
            self.refuse_read_only(py)?;
        }
        let force = force || self.read_only;
        let moved = run_aside(py, &Interrupt::Abandon, async || {
            let mut checkout = self.checkout().write().await;
            let moved = match create {
                Some(name) => checkout.switch_to_new(name, wanted.0.as_deref(), force).await,
                None => checkout.switch(&at(wanted), force).await,
            };
            self.moved(&checkout);
            Ok(moved)
        })?;
        done(py, moved)
    }

    /// The branch it is on has another name now.
    pub(crate) fn renamed(&self, py: Python<'_>, branch: &str) -> PyResult<()> {
        let renamed = run_here(py, async || {
            let mut checkout = self.checkout().write().await;
            checkout.renamed(branch);
            self.moved(&checkout);
            Ok(())
        })?;
        renamed.map_err(|e| raise(py, &e))
    }
}

/// What came of it, as an exception if it failed.
pub(crate) fn done<T>(py: Python<'_>, outcome: Outcome<Result<T, Error>>) -> PyResult<T> {
    outcome.map_err(Error::from).flatten().map_err(|e| raise_error(py, &e))
}
