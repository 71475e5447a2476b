//! Rows and columns of the table: what a dataset of samples is made of.

use futures::future::BoxFuture;
use lacus_io::boxed;
use std::sync::Arc;

use arrow::array::StringArray;
use bytes::Bytes;
use serde_json::{Map, Value as Json};

use crate::error::TableError;
use crate::log::content_key::state_key;
use crate::log::held::{PENDING, extend_run};
use crate::log::identity::{self, Identities, identified, identity};
use crate::log::snapshot::HeaderRow;
use crate::log::zone::Zone;
use crate::read::form::Form;
use crate::read::prune::may_hold;
use crate::read::row_index::{RowAxis, Segment};
use crate::read::sample_read::SampleRead;
use crate::read::samples::Samples;
use crate::read::scalars::{Numbers, ScalarRead};
use crate::schema::{COLUMN_LAYOUT, ROW_AXIS, is_hidden};
use crate::table::{Table, check_metadata, check_name, parse_metadata, refuse_hidden};
use crate::write::commit::{Staged, Supersede};
use crate::write::copy_rows::{Copied, copy_rows};
use crate::write::stage::WriteOptions;
use crate::write::stage_rows::{ColumnValues, ColumnWrite, RowJobs, write_rows};
use crate::write::write_set::{Scope, WriteSet, Written};

/// What the header row of a column says.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnHeader {
    /// The type of its samples.
    pub htype: String,
    /// Their dtype, in the words of the layer above.
    pub dtype: String,
    /// Their shape; -1 where it is open.
    pub shape: Vec<i64>,
    /// How rows hold them.
    pub form: Form,
    /// What else the type needs.
    pub parameters: Map<String, Json>,
    /// Metadata of the caller's.
    pub metadata: Option<Json>,
}

/// What is known of a column without reading it.
#[derive(Clone, Debug)]
pub struct ColumnInfo {
    /// Its name.
    pub name: String,
    /// What it is.
    pub header: ColumnHeader,
    /// Bytes its samples take in the files of this version.
    pub stored_bytes: u64,
}

/// Samples of rows with consecutive ids, which lie one after the other in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplePiece {
    /// The id of the first row.
    pub first_id: u64,
    /// How many rows there are.
    pub count: u64,
    /// A text that says which file, and that no other file ever has.
    pub file: Arc<str>,
    /// The row of the file that holds the first.
    pub first_row: u64,
}

/// A change of rows: all of it in one version, or nothing.
#[derive(Debug, Default)]
pub struct RowChange<'a> {
    /// What the history calls it.
    pub op: &'static str,
    /// What the history tells of it.
    pub detail: Json,
    /// Ids of new rows, ascending, from [`Table::reserve_ids`].
    pub append: Vec<u64>,
    /// Samples of new rows, or in place of those of old rows.
    pub writes: Vec<ColumnWrite<'a>>,
    /// Samples that become missing: columns and sorted ids.
    pub clear: Vec<(String, Vec<u64>)>,
    /// Ids of rows to delete, sorted.
    pub delete: Vec<u64>,
    /// Columns to make or to describe anew.
    pub headers: Vec<(String, ColumnHeader)>,
}

impl ColumnHeader {
    fn row(&self) -> HeaderRow {
        HeaderRow {
            row: 0,
            dtype: self.dtype.clone(),
            shape: self.shape.clone(),
            layout: COLUMN_LAYOUT.to_owned(),
            htype: Some(self.htype.clone()),
            chunk_shape: None,
            parameters: self.form.note(&self.parameters),
            metadata: self.metadata.as_ref().map(Json::to_string),
        }
    }

    fn parse(row: &HeaderRow) -> Result<ColumnHeader, TableError> {
        let mut parameters: Map<String, Json> = serde_json::from_str(&row.parameters).unwrap_or_default();
        parameters.remove("form");
        parameters.remove(identity::KEY);
        Ok(ColumnHeader {
            htype: row.htype.clone().unwrap_or_default(),
            dtype: row.dtype.clone(),
            shape: row.shape.clone(),
            form: Form::of(row)?,
            parameters,
            metadata: row.metadata.as_deref().map(|text| parse_metadata(Some(text))),
        })
    }
}

impl Table {
    /// Whether a tensor is a column of samples.
    pub fn is_column(&self, name: &str) -> bool {
        self.snapshot().tensor(name).is_some_and(|state| state.header.is_column())
    }

    /// The names of the columns, in the order in which they were added.
    pub fn column_names(&self) -> Vec<String> {
        let is_listed = |name: &str| !is_hidden(name);
        let columns =
            self.snapshot().tensors().filter(|(name, state)| state.header.is_column() && is_listed(name));
        let mut named: Vec<(String, &String)> =
            columns.map(|(name, state)| (identity(name, &state.header), name)).collect();
        named.sort_unstable();
        named.into_iter().map(|(_, name)| name.clone()).collect()
    }

    /// The columns, in the order in which they were added.
    pub fn columns(&self) -> Result<Vec<ColumnInfo>, TableError> {
        self.column_names().iter().map(|name| self.column(name)).collect()
    }

    /// What is known of a column.
    pub fn column(&self, name: &str) -> Result<ColumnInfo, TableError> {
        let state = self.snapshot().tensor(name).filter(|state| state.header.is_column());
        let state = state.ok_or_else(|| self.no_such(name))?;
        Ok(ColumnInfo {
            name: name.to_owned(),
            header: ColumnHeader::parse(&state.header)?,
            stored_bytes: state.stored_bytes(name),
        })
    }

    /// Names close to one that is not there.
    pub fn close_to(&self, name: &str) -> Vec<String> {
        self.snapshot().close_to(name)
    }

    /// Rows of the files of this version that no longer count, and all rows.
    pub fn dead_rows(&self) -> (u64, u64) {
        let files = self.snapshot().files.values();
        files.fold((0, 0), |(dead, rows), file| {
            let held: u64 = file.tags.tensors.iter().map(|held| held.row_count()).sum();
            (dead + file.tags.deleted, rows + held.max(file.tags.deleted))
        })
    }

    /// The rows, in their order.
    #[boxed]
    pub async fn rows(&self) -> Result<Arc<RowAxis>, TableError> {
        self.row_cache().axis(self.store(), self.snapshot()).await
    }

    /// Ids for new rows, consecutive and never given to anybody else.
    #[boxed]
    pub async fn reserve_ids(&mut self, count: u64) -> Result<std::ops::Range<u64>, TableError> {
        self.writable().await?;
        let known = self.snapshot().state(ROW_AXIS).into_iter().flat_map(|state| &state.files);
        let highest = known.filter_map(|file| file.held(ROW_AXIS)?.span).map(|(_, last)| last).max();
        self.row_ids().take(self.home(), self.world(), count, highest).await
    }

    /// The scalars of rows, given as runs (first id, count).
    #[boxed]
    pub async fn read_scalars(&self, name: &str, ids: &[(u64, u64)]) -> Result<ScalarRead, TableError> {
        let index = self.row_cache().column(self.store(), self.snapshot(), name).await?;
        self.sample_cache().scalars(self.store(), &index, ids).await
    }

    /// The scalars of rows, given as runs (first id, count), in memory that a tensor can take over.
    #[boxed]
    pub async fn read_numbers(&self, name: &str, ids: &[(u64, u64)]) -> Result<Numbers, TableError> {
        let index = self.row_cache().column(self.store(), self.snapshot(), name).await?;
        self.sample_cache().numbers(self.store(), &index, ids).await
    }

    /// The texts of rows, given as runs (first id, count), as one array: null where a row has none. `None` if they are more
    /// than the 32-bit offsets of an array reach, so that fewer rows have to be read.
    #[boxed]
    pub async fn read_text_array(
        &self,
        name: &str,
        ids: &[(u64, u64)],
    ) -> Result<Option<StringArray>, TableError> {
        let index = self.row_cache().column(self.store(), self.snapshot(), name).await?;
        self.sample_cache().text_array(self.store(), &index, ids).await
    }

    /// The texts of rows.
    #[boxed]
    pub async fn read_texts(&self, name: &str, ids: &[u64]) -> Result<Vec<Option<String>>, TableError> {
        let index = self.row_cache().column(self.store(), self.snapshot(), name).await?;
        self.sample_cache().texts(self.store(), &index, ids).await
    }

    /// Finds the blobs of rows; what is known of them is then at hand, nothing of them is read.
    #[boxed]
    pub async fn locate(&self, name: &str, ids: &[u64]) -> Result<Samples, TableError> {
        let index = self.row_cache().column(self.store(), self.snapshot(), name).await?;
        self.sample_cache().locate(self.store(), index, ids).await
    }

    /// Plans to read tiles of samples that were found: the first of three steps, of which the second fetches bytes and the
    /// third verifies them.
    pub fn plan_samples(&self, samples: Arc<Samples>, tiles: Vec<usize>) -> Result<SampleRead, TableError> {
        SampleRead::plan(self.store(), self.world().pool(), samples, tiles)
    }

    /// Reads tiles of samples that were found, all in one planned read.
    #[boxed]
    pub async fn fetch(&self, samples: &Samples, tiles: &[usize]) -> Result<Vec<Bytes>, TableError> {
        samples.fetch(self.store(), self.world().pool(), tiles).await
    }

    /// How many samples of a column there are (tiles counted one by one).
    #[boxed]
    pub async fn sample_rows(&self, name: &str) -> Result<u64, TableError> {
        let index = self.row_cache().column(self.store(), self.snapshot(), name).await?;
        Ok(index.segments.iter().map(|segment| segment.count).sum())
    }

    /// The ids of rows, ascending and as runs, whose sample of a column may lie in a zone that `may` accepts. Zones of files and
    /// of runs in them are looked at; no sample is read.
    #[boxed]
    pub async fn may_hold(
        &self,
        name: &str,
        may: &(dyn Fn(&Zone) -> bool + Sync),
    ) -> Result<Vec<(u64, u64)>, TableError> {
        let index = self.row_cache().column(self.store(), self.snapshot(), name).await?;
        may_hold(self.parts().2, self.store(), &index, may).await
    }

    /// The ids of rows, ascending and as runs, that have a sample of a column. Nothing of it is read.
    #[boxed]
    pub async fn present(&self, name: &str) -> Result<Vec<(u64, u64)>, TableError> {
        let index = self.row_cache().column(self.store(), self.snapshot(), name).await?;
        let mut ids: Vec<(u64, u64)> = Vec::new();
        for segment in &index.segments {
            // The tiles of a sample have the same id.
            if ids.last().is_none_or(|(first, count)| first + count <= segment.first_id) {
                extend_run(&mut ids, segment.first_id, segment.count);
            }
        }
        Ok(ids)
    }

    /// A text that is the same only as long as a column and its samples are, wherever they lie.
    pub fn content_key(&self, name: &str) -> Result<String, TableError> {
        let state = self.snapshot().tensor(name).ok_or_else(|| self.no_such(name))?;
        Ok(state_key(state, name).to_owned())
    }

    /// Who a tensor is: it stays the same when the tensor is renamed, and on branches.
    pub fn identity(&self, name: &str) -> Result<String, TableError> {
        let state = self.snapshot().tensor(name).ok_or_else(|| self.no_such(name))?;
        Ok(identity(name, &state.header))
    }

    /// Where the samples of a column lie, ascending by the ids of their rows. Nothing of them is read.
    #[boxed]
    pub async fn sample_pieces(&self, name: &str) -> Result<Vec<SamplePiece>, TableError> {
        let index = self.row_cache().column(self.store(), self.snapshot(), name).await?;
        let files: Vec<Arc<str>> = index.file_keys.iter().map(|keys| keys.file.as_str().into()).collect();
        let piece = |segment: &Segment| SamplePiece {
            first_id: segment.first_id,
            count: segment.count,
            file: Arc::clone(&files[segment.file as usize]),
            first_row: segment.first_row,
        };
        Ok(index.segments.iter().map(piece).collect())
    }

    /// Makes a change of rows one version.
    pub fn change_rows<'a>(
        &'a mut self,
        change: RowChange<'a>,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<u64, TableError>> {
        Box::pin(async move {
            self.writable().await?;
            let mut written = Vec::new();
            let mut supersede = Vec::new();
            for (name, header) in &change.headers {
                check_name(name)?;
                check_metadata(header.metadata.as_ref())?;
                if let Some(state) = self.snapshot().tensor(name) {
                    if !state.header.is_column() {
                        return Err(TableError::NameTaken { name: name.clone() });
                    }
                    supersede.push(Supersede::Header(name.clone()));
                }
                written.push(Written { tensor: name.clone(), scope: Scope::Whole });
            }
            for write in &change.writes {
                check_write(write)?;
                let scope = Scope::of_rows(runs(&write.ids));
                written.push(Written { tensor: write.name.clone(), scope });
                let old: Vec<u64> =
                    write.ids.iter().copied().filter(|id| change.append.binary_search(id).is_err()).collect();
                if !old.is_empty() {
                    supersede.push(Supersede::Samples(write.name.clone(), old));
                }
            }
            for (name, ids) in &change.clear {
                written.push(Written { tensor: name.clone(), scope: Scope::of_rows(runs(ids)) });
                supersede.push(Supersede::Samples(name.clone(), ids.clone()));
            }
            let mut rows = change.append.clone();
            rows.extend_from_slice(&change.delete);
            if !rows.is_empty() {
                rows.sort_unstable();
                written.push(Written { tensor: ROW_AXIS.to_owned(), scope: Scope::of_rows(runs(&rows)) });
            }
            if !change.delete.is_empty() {
                supersede.push(Supersede::Rows(change.delete));
            }
            if written.is_empty() {
                return Ok(self.version());
            }
            let axis = match change.append.is_empty() {
                true => Vec::new(),
                false => vec![(PENDING, change.append)],
            };
            let mut identities = Identities::new(self.snapshot(), self.world());
            let headers = change.headers.iter();
            let jobs = RowJobs {
                headers: headers
                    .map(|(name, header)| (name.clone(), identities.give(name, header.row())))
                    .collect(),
                writes: change.writes,
                axis,
            };
            let empty = jobs.headers.is_empty()
                && jobs.axis.is_empty()
                && jobs.writes.iter().all(|w| w.ids.is_empty());
            let files = match empty {
                true => Vec::new(),
                false => write_rows(self.store(), self.world(), jobs, options).await?,
            };
            let staged = Staged {
                op: change.op,
                files,
                supersede,
                writes: WriteSet { tensors: written, everything: false },
                detail: change.detail,
                data_change: true,
            };
            let committed = self.commit(staged, options).await;
            if committed.is_err() {
                self.row_ids().forget();
            }
            committed
        })
    }

    /// Gives tensors other names (old and new ones), all at once, so that two can swap theirs. Stored bytes are copied.
    #[boxed]
    pub async fn rename_all(
        &mut self,
        names: &[(String, String)],
        options: &WriteOptions,
    ) -> Result<u64, TableError> {
        self.writable().await?;
        let (mut copied, mut writes) = (Vec::new(), WriteSet::default());
        for (from, to) in names {
            check_name(to)?;
            refuse_hidden(from)?;
            let moves_on = names.iter().any(|(old, _)| old == to);
            if (self.contains(to) && !moves_on) || names.iter().filter(|(_, new)| new == to).count() > 1 {
                return Err(TableError::NameTaken { name: to.clone() });
            }
            let state = self.snapshot().tensor(from).ok_or_else(|| self.no_such(from))?;
            let id = identity(from, &state.header);
            let header = identified((*state.header).clone(), &id);
            if header.is_column() {
                // A row that is deleted meanwhile must not come back under the new name.
                let index = self.row_cache().column(self.store(), self.snapshot(), from).await?;
                let runs = index.segments.iter().map(|segment| (segment.first_id, segment.count)).collect();
                writes.tensors.push(Written { tensor: to.clone(), scope: Scope::of_rows(runs) });
            }
            for name in [from, to] {
                writes.tensors.push(Written { tensor: name.clone(), scope: Scope::Whole });
            }
            let (name, new_name) = (from.clone(), to.clone());
            copied.push(Copied { name, new_name, header: Some(header), only: None });
        }
        if copied.is_empty() {
            return Ok(self.version());
        }
        let (store, world, cache, snapshot) = self.parts();
        let files = copy_rows(store, world, cache, snapshot, &copied, options).await?;
        let staged = Staged {
            op: "RENAME",
            files,
            supersede: names.iter().map(|(from, _)| Supersede::Tensor(from.clone())).collect(),
            writes,
            detail: serde_json::json!({"tensors": names.iter().map(|(from, _)| from).collect::<Vec<_>>()}),
            data_change: true,
        };
        self.commit(staged, options).await
    }

    /// Gives a column another name. Stored bytes are copied.
    #[boxed]
    pub async fn rename_column(
        &mut self,
        from: &str,
        to: &str,
        options: &WriteOptions,
    ) -> Result<u64, TableError> {
        self.writable().await?;
        check_name(to)?;
        if self.contains(to) {
            return Err(TableError::NameTaken { name: to.to_owned() });
        }
        let header = self.snapshot().tensor(from).filter(|state| state.header.is_column());
        let header = header.map(|state| (*state.header).clone()).ok_or_else(|| self.no_such(from))?;
        let id = identity(from, &header);
        let header = identified(header, &id);
        let copied =
            [Copied { name: from.to_owned(), new_name: to.to_owned(), header: Some(header), only: None }];
        // A row that is deleted meanwhile must not come back under the new name.
        let mut writes = WriteSet::whole([from.to_owned(), to.to_owned()]);
        let index = self.row_cache().column(self.store(), self.snapshot(), from).await?;
        let runs = index.segments.iter().map(|segment| (segment.first_id, segment.count)).collect();
        writes.tensors.push(Written { tensor: to.to_owned(), scope: Scope::of_rows(runs) });
        let (store, world, cache, snapshot) = self.parts();
        let files = copy_rows(store, world, cache, snapshot, &copied, options).await?;
        let staged = Staged {
            op: "RENAME COLUMN",
            files,
            supersede: vec![Supersede::Tensor(from.to_owned())],
            writes,
            detail: serde_json::json!({"tensors": [from, to]}),
            data_change: true,
        };
        self.commit(staged, options).await
    }
}

/// Sorted ids as runs.
pub(crate) fn runs(ids: &[u64]) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    for &id in ids {
        crate::log::held::extend_run(&mut found, id, 1);
    }
    found
}

fn check_write(write: &ColumnWrite<'_>) -> Result<(), TableError> {
    let sorted = write.ids.windows(2).all(|pair| pair[0] < pair[1]);
    let tiled = match &write.values {
        ColumnValues::Blobs(samples) => samples.iter().all(|sample| !sample.tiles.is_empty()),
        _ => true,
    };
    match sorted && tiled && write.ids.len() == write.values.len() {
        true => Ok(()),
        false => {
            Err(TableError::Fault { what: format!("samples of {:?} do not fit their rows", write.name) })
        }
    }
}
