//! A table that several Python threads can share: readers run side by side, a writer runs alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lacus_dataset::{Dataset, DatasetError};
use lacus_io::{Store, World};
use lacus_table::{At, Table, TableError, WriteOptions};
use pyo3::prelude::*;
use tokio::sync::RwLock;

use crate::errors::{invalid, raise, raise_dataset};
use crate::runtime::{Interrupt, Outcome, is_sound, run_aside, run_here};

/// Options of a store by name.
pub(crate) type StorageOptions = BTreeMap<String, String>;

/// Where a dataset is, and its table.
pub(crate) struct Handle {
    url: String,
    options: StorageOptions,
    /// Opened at a version, where it stays.
    pinned: bool,
    read_only: bool,
    /// The version it sees, which can be read while a writer has the table.
    version: AtomicU64,
    /// `None` only while it is dropped.
    dataset: Option<RwLock<Dataset>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // In a child that lost the threads which worked on it, its locks may be held for ever.
        if !is_sound() {
            std::mem::forget(self.dataset.take());
        }
    }
}

/// The store at a URL.
pub(crate) fn store(url: &str, options: &StorageOptions) -> Outcome<Store> {
    Ok(Store::open(url, options)?)
}

impl Handle {
    fn new(url: String, options: StorageOptions, pinned: bool, read_only: bool, table: Table) -> Handle {
        let version = AtomicU64::new(table.version());
        let dataset = Some(RwLock::new(Dataset::new(table)));
        Handle { url, options, pinned, read_only, version, dataset }
    }

    /// Makes a dataset.
    pub(crate) fn create(py: Python<'_>, url: String, options: StorageOptions) -> PyResult<Handle> {
        let table = run_here(py, async || Table::create(store(&url, &options)?, World::real()).await)?;
        let table = table.map_err(|e| raise(py, &e))?;
        Ok(Handle::new(url, options, false, false, table))
    }

    /// Opens a dataset. At a version or time it is pinned there; with `read_only` it moves, but refuses
    /// writes.
    pub(crate) fn open(
        py: Python<'_>,
        url: String,
        options: StorageOptions,
        at: At,
        read_only: bool,
    ) -> PyResult<Handle> {
        let table = run_here(py, async || Table::open(store(&url, &options)?, World::real(), at).await)?;
        let table = table.map_err(|e| raise(py, &e))?;
        let pinned = at != At::Tip;
        Ok(Handle::new(url, options, pinned, read_only || pinned, table))
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn options(&self) -> &StorageOptions {
        &self.options
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
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

    fn write_dataset<T: Send>(
        &self,
        py: Python<'_>,
        durable: bool,
        work: impl AsyncFnOnce(&mut Dataset, &WriteOptions) -> Outcome<T> + Send,
    ) -> PyResult<Outcome<T>> {
        if self.pinned {
            return Ok(Err(TableError::ReadOnly { version: self.version() }));
        }
        if self.read_only {
            let message = "this handle was opened with read_only=True; open the dataset without it to write";
            return Err(invalid(py, message));
        }
        let cancel = Arc::new(AtomicBool::new(false));
        let options = WriteOptions { durable, cancel: Some(Arc::clone(&cancel)), ..WriteOptions::default() };
        run_aside(py, &Interrupt::Cancel(cancel), async || {
            let mut dataset = self.dataset().write().await;
            let written = work(&mut dataset, &options).await;
            self.version.store(dataset.table().version(), Ordering::Relaxed);
            written
        })
    }
}
