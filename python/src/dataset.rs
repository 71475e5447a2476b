//! A dataset: its tensors by name, its versions, its upkeep.

use std::sync::Arc;

use lacus::history::CommitId;
use lacus::table::{Put, StagedTensors, Table, Wish};
use lacus::{Pinned, Place, Repository, StorageOptions};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::{WishArguments, dtype, json, shape};
use crate::errors::{raise, raise_on};
use crate::handle::{AtArguments, Handle, at, done};
use crate::history::History;
use crate::rows::Rows;
use crate::runtime::{Outcome, run_here};
use crate::tensor::{Held, Tensor, TensorInfo};
use crate::view::{SavedRow, View, data, saved_row};

/// An open dataset.
#[pyclass(frozen, module = "lacus._native")]
pub(crate) struct Dataset {
    handle: Arc<Handle>,
}

/// A tensor to put: name, array or `Sparse`, dtype of the array's elements, metadata as JSON text.
type PutArguments<'py> = (String, Bound<'py, PyAny>, String, Option<String>);

/// A version: number, time in milliseconds since 1970, author, operation, detail as JSON text, durable.
type HistoryRow = (u64, i64, String, String, String, bool);

impl Dataset {
    pub(crate) fn over(handle: Handle) -> Dataset {
        Dataset { handle: Arc::new(handle) }
    }

    pub(crate) fn handle(&self) -> Arc<Handle> {
        Arc::clone(&self.handle)
    }
}

impl Dataset {
    /// A view of another state, on a handle of its own.
    fn of_rows(&self, rows: lacus::View) -> View {
        let place = Place::on(self.handle.place().branch).at(pinned(&rows));
        let handle = self.handle.beside(rows.source().table().frozen(), place);
        View::new(Arc::new(handle), rows)
    }
}

/// The state of a view.
fn pinned(rows: &lacus::View) -> Pinned {
    let state = rows.state();
    let commit = state.commit.as_deref().and_then(CommitId::parse);
    commit.map_or(Pinned::Version(state.version), Pinned::Commit)
}

/// Tensors to put, while Python holds on to their values.
type HeldPut<'py> = (String, Held<'py>, Option<serde_json::Value>);

fn held<'py>(py: Python<'_>, items: Vec<PutArguments<'py>>) -> PyResult<Vec<HeldPut<'py>>> {
    let mut held = Vec::with_capacity(items.len());
    for (name, value, dtype_name, metadata) in items {
        let metadata = metadata.map(|text| json(py, &text)).transpose()?;
        held.push((name, Held::new(&value, &dtype_name)?, metadata));
    }
    Ok(held)
}

fn puts<'a>(held: &'a [HeldPut<'_>], wish: &Wish) -> PyResult<Vec<Put<'a>>> {
    let put = |(name, value, metadata): &'a HeldPut<'_>| -> PyResult<Put<'a>> {
        let (name, metadata) = (name.clone(), metadata.clone());
        Ok(Put { name, value: value.value()?, wish: wish.clone(), metadata })
    };
    held.iter().map(put).collect()
}

fn checked<T>(py: Python<'_>, outcome: Outcome<T>) -> PyResult<T> {
    outcome.map_err(|error| raise(py, &error))
}

#[pymethods]
impl Dataset {
    #[staticmethod]
    fn create(py: Python<'_>, url: String, options: StorageOptions) -> PyResult<Dataset> {
        Ok(Dataset { handle: Arc::new(Handle::create(py, url, options)?) })
    }

    /// Opens a branch, or a state of it.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        url: String,
        options: StorageOptions,
        branch: &str,
        at: AtArguments,
        read_only: bool,
    ) -> PyResult<Dataset> {
        Ok(Dataset { handle: Arc::new(Handle::open(py, url, options, branch, &at, read_only)?) })
    }

    /// Opens what another handle saw: a version of the table in a directory of the dataset.
    #[staticmethod]
    fn reopen(
        py: Python<'_>,
        url: String,
        options: StorageOptions,
        directory: &str,
        version: u64,
        branch: String,
        commit: Option<&str>,
    ) -> PyResult<Dataset> {
        let commit = commit.and_then(CommitId::parse);
        let place = Place::on(branch).at(commit.map_or(Pinned::Version(version), Pinned::Commit));
        Ok(Dataset { handle: Arc::new(Handle::reopen(py, url, options, directory, version, place)?) })
    }

    /// A handle on exactly what this one sees, the writes of its transaction included, which stays there.
    fn frozen(&self, py: Python<'_>) -> PyResult<Dataset> {
        Ok(Dataset::over(self.handle.frozen(py)?))
    }

    /// The dataset at the state of a view.
    #[staticmethod]
    fn of_view(view: &View) -> Dataset {
        Dataset { handle: Arc::clone(view.handle()) }
    }

    /// All rows and columns of what this handle sees.
    fn view(&self, py: Python<'_>) -> PyResult<View> {
        let (handle, rows) = self.handle.whole(py)?;
        Ok(View::new(handle, rows))
    }

    /// The view that JSON text describes, of the dataset at a URL.
    #[staticmethod]
    fn view_at(
        py: Python<'_>,
        url: &str,
        options: StorageOptions,
        text: &str,
        links: Vec<(String, StorageOptions)>,
    ) -> PyResult<View> {
        let data = data(py, text)?;
        let opened = run_here(py, async || {
            let open = async || {
                let repository = Repository::at(url, &options)?;
                let rows = repository.view_of(&data).await?;
                let mut roots = rows.source().links().clone();
                for (root, of_store) in &links {
                    roots.allow(root, of_store)?;
                }
                let rows = rows.following(roots);
                let place = Place::main().at(pinned(&rows));
                Ok((repository.around(rows.source().table().frozen(), place), rows))
            };
            Ok(open().await)
        })?;
        let (checkout, rows) = done(py, opened)?;
        Ok(View::new(Arc::new(Handle::new(options, true, checkout)), rows))
    }

    /// A handle on another state, seen from where this one stands.
    fn look(&self, py: Python<'_>, wanted: AtArguments) -> PyResult<Dataset> {
        let found = self.handle.look(py, async |repository: &Repository, place: &Place| {
            repository.look(place, &at(&wanted)).await
        })?;
        Ok(Dataset::over(Handle::new(self.handle.options().clone(), true, found)))
    }

    /// The views that were saved.
    fn views(&self, py: Python<'_>) -> PyResult<Vec<SavedRow>> {
        let found = self.handle.look(py, async |repository: &Repository, _: &_| repository.views().await)?;
        Ok(found.into_iter().map(saved_row).collect())
    }

    /// What is known of a saved view, and the view.
    fn saved_view(&self, py: Python<'_>, name: &str) -> PyResult<(SavedRow, View)> {
        let found =
            self.handle.look(py, async |repository: &Repository, _: &_| repository.saved_view(name).await);
        let (saved, rows) = found?;
        let links = self.handle.peek_rows(py, |dataset| dataset.links().clone())?;
        Ok((saved_row(saved), self.of_rows(rows.following(links))))
    }

    fn delete_view(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.handle.manage(py, true, async |repository: &Repository, _: &_, _: &_| {
            repository.delete_view(name).await
        })
    }

    /// Its history.
    fn timeline(&self) -> History {
        History::new(Arc::clone(&self.handle))
    }

    /// The directory of the dataset its table is in.
    fn directory(&self, py: Python<'_>) -> PyResult<String> {
        self.handle.peek(py, |table| table.directory().to_owned())
    }

    #[getter]
    fn url(&self) -> &str {
        self.handle.url()
    }

    #[getter]
    fn options(&self) -> StorageOptions {
        self.handle.options().clone()
    }

    #[getter]
    fn version(&self) -> u64 {
        self.handle.version()
    }

    #[getter]
    fn is_read_only(&self) -> bool {
        self.handle.is_read_only()
    }

    fn refresh(&self, py: Python<'_>) -> PyResult<u64> {
        self.handle.refresh(py)
    }

    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.handle.peek(py, |table| table.names())
    }

    fn contains(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.handle.peek(py, |table| table.contains(name))
    }

    /// What is known of the first `limit` tensors, and how many there are.
    fn infos(&self, py: Python<'_>, limit: usize) -> PyResult<(Vec<TensorInfo>, usize)> {
        let (found, count) = self.handle.peek(py, |table| {
            let mut names = table.names();
            names.retain(|name| !table.is_column(name));
            let found: Outcome<Vec<_>> = names.iter().take(limit).map(|name| table.tensor(name)).collect();
            (found, names.len())
        })?;
        let infos: PyResult<Vec<_>> =
            checked(py, found)?.into_iter().map(|info| TensorInfo::new(py, info)).collect();
        Ok((infos?, count))
    }

    /// Bytes that its arrays and columns take in the files of this version.
    #[getter]
    fn stored_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        let found: Outcome<u64> = self.handle.peek(py, |table| {
            let of = |name: &String| match table.is_column(name) {
                true => table.column(name).map(|column| column.stored_bytes),
                false => table.tensor(name).map(|tensor| tensor.stored_bytes),
            };
            table.names().iter().map(of).sum()
        })?;
        checked(py, found)
    }

    /// Its rows and columns.
    fn rows(&self) -> Rows {
        Rows::new(Arc::clone(&self.handle))
    }

    fn tensor(&self, py: Python<'_>, name: String) -> PyResult<Tensor> {
        Tensor::new(py, Arc::clone(&self.handle), name)
    }

    /// Puts tensors in one commit, all with the same wish.
    fn put(
        &self,
        py: Python<'_>,
        items: Vec<PutArguments<'_>>,
        wish: WishArguments,
        durable: bool,
    ) -> PyResult<u64> {
        let held = held(py, items)?;
        let puts = puts(&held, &wish.wish(py)?)?;
        let written = self
            .handle
            .write(py, durable, async |table: &mut Table, options: &_| table.put(puts, options).await)?;
        checked(py, written)
    }

    /// Writes tensors that nobody sees yet; `add_staged` is told of them by what this returns.
    fn stage<'py>(
        &self,
        py: Python<'py>,
        items: Vec<PutArguments<'_>>,
        wish: WishArguments,
        durable: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let held = held(py, items)?;
        let puts = puts(&held, &wish.wish(py)?)?;
        let staged = self.handle.write(py, durable, async |table: &mut Table, options: &_| {
            table.stage(puts, options).await?.to_bytes()
        })?;
        Ok(PyBytes::new(py, &checked(py, staged)?))
    }

    /// Makes what was staged one version.
    fn add_staged(&self, py: Python<'_>, parts: Vec<Vec<u8>>, durable: bool) -> PyResult<u64> {
        let written = self.handle.write(py, durable, async |table: &mut Table, options: &_| {
            let parts = parts.iter().map(|part| StagedTensors::from_bytes(part)).collect::<Outcome<_>>()?;
            table.add_staged(parts, options).await
        })?;
        checked(py, written)
    }

    #[expect(clippy::too_many_arguments, reason = "one for each of the Python method")]
    fn create_array(
        &self,
        py: Python<'_>,
        name: &str,
        dims: Vec<u64>,
        dtype_name: &str,
        wish: WishArguments,
        metadata: Option<&str>,
        durable: bool,
    ) -> PyResult<u64> {
        let (dtype, shape, wish) = (dtype(py, dtype_name)?, shape(py, dims)?, wish.wish(py)?);
        let metadata = metadata.map(|text| json(py, text)).transpose()?;
        let written = self.handle.write(py, durable, async |table: &mut Table, options: &_| {
            table.create_array(name, dtype, shape, &wish, metadata, options).await
        })?;
        written.map_err(|error| raise_on(py, name, &error))
    }

    fn remove(&self, py: Python<'_>, names: Vec<String>, durable: bool) -> PyResult<u64> {
        let written = self.handle.write(py, durable, async |table: &mut Table, options: &_| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            table.remove(&names, options).await
        })?;
        checked(py, written)
    }

    fn rename(&self, py: Python<'_>, from_name: &str, to_name: &str, durable: bool) -> PyResult<u64> {
        let written = self.handle.write(py, durable, async |table: &mut Table, options: &_| {
            table.rename(from_name, to_name, options).await
        })?;
        checked(py, written)
    }

    fn metadata(&self, py: Python<'_>) -> PyResult<String> {
        self.handle.peek(py, |table| table.metadata().to_string())
    }

    fn set_metadata(&self, py: Python<'_>, metadata: &str, durable: bool) -> PyResult<u64> {
        let metadata = json(py, metadata)?;
        let written = self.handle.write(py, durable, async |table: &mut Table, options: &_| {
            table.set_metadata(None, metadata, options).await
        })?;
        checked(py, written)
    }

    /// The versions, newest first.
    fn history(&self, py: Python<'_>, limit: Option<usize>) -> PyResult<Vec<HistoryRow>> {
        let entries = self.handle.read(py, true, async |table: &Table| table.history(limit).await)?;
        let row = |entry: lacus::table::HistoryEntry| {
            let detail = entry.detail.to_string();
            (entry.version, entry.time_millis, entry.author, entry.operation, detail, entry.durable)
        };
        Ok(checked(py, entries)?.into_iter().map(row).collect())
    }

    /// Files before and after, bytes before and after, the version it made.
    fn compact(&self, py: Python<'_>, durable: bool) -> PyResult<(usize, usize, u64, u64, u64, usize)> {
        let report = self
            .handle
            .write(py, durable, async |table: &mut Table, options: &_| table.compact(options).await)?;
        let report = checked(py, report)?;
        let (files, bytes) =
            ((report.files_before, report.files_after), (report.bytes_before, report.bytes_after));
        Ok((files.0, files.1, bytes.0, bytes.1, report.version, report.files_kept))
    }
}

/// Whether there is a dataset at a URL.
#[pyfunction]
pub(crate) fn exists(py: Python<'_>, url: &str, options: StorageOptions) -> PyResult<bool> {
    let found = run_here(py, async || Ok(Repository::exists(url, &options).await))?;
    done(py, found)
}

/// Removes a dataset.
#[pyfunction]
pub(crate) fn delete(py: Python<'_>, url: &str, options: StorageOptions) -> PyResult<()> {
    let deleted = run_here(py, async || Ok(Repository::delete(url, &options).await))?;
    done(py, deleted)
}
