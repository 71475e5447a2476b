//! Writing tensors: put, regions, growth, names, metadata.

use futures::future::BoxFuture;
use lacus_io::boxed;
use std::sync::{Arc, Mutex};

use lacus_layout::{Choice, Header, Layout, LayoutError, Value, Wish, choose_dense, choose_sparse, encoder};
use lacus_tensor::{DType, Index, Selection, Shape, SparseTensor, Tensor, TensorRef};
use serde_json::{Value as Json, json};

use crate::error::TableError;
use crate::files::chunk_file::StagedFile;
use crate::log::identity::{Identities, identified, identity};
use crate::log::snapshot::HeaderRow;
use crate::read::array_read::read_all_sparse;
use crate::read::tensor_index::TensorIndex;
use crate::schema::DATASET_ROW;
use crate::table::{Put, Table, check_hidden, check_metadata, check_name, refuse_hidden};
use crate::write::commit::{Staged, Supersede, header_of};
use crate::write::copy_rows::{Copied, copy_rows};
use crate::write::region::{
    Overlay, RegionEncoder, expected_bytes, moved_edge, touched_chunks, with_first_dimension,
};
use crate::write::stage::{CellJob, ChunkJob, Meter, Ready, WriteOptions, write_cells, write_chunks};
use crate::write::write_set::{Scope, WriteSet, Written};

impl Table {
    /// Puts tensors, new or in place of old ones, all in one version.
    pub fn put<'a>(
        &'a mut self,
        items: Vec<Put<'a>>,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<u64, TableError>> {
        self.put_checked(items, check_name, options)
    }

    /// The same for tensors of indexes, whose names begin with [`crate::INDEX_PREFIX`]. [`Table::discard`] removes them.
    pub fn put_hidden<'a>(
        &'a mut self,
        items: Vec<Put<'a>>,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<u64, TableError>> {
        self.put_checked(items, check_hidden, options)
    }

    fn put_checked<'a>(
        &'a mut self,
        items: Vec<Put<'a>>,
        check: fn(&str) -> Result<(), TableError>,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<u64, TableError>> {
        Box::pin(async move {
            self.writable().await?;
            let mut seen = std::collections::HashSet::new();
            for item in &items {
                check(&item.name)?;
                check_metadata(item.metadata.as_ref())?;
                self.refuse_column(&item.name)?;
                if !seen.insert(item.name.as_str()) {
                    return Err(TableError::BadName { name: item.name.clone(), why: "it is given twice" });
                }
            }
            // A value whose layout wants the other form is converted once, here.
            let mut chosen: Vec<(Header, Converted)> = Vec::with_capacity(items.len());
            for item in &items {
                let choice = lacus_io::blocking(|| choose(&item.value, &item.wish))
                    .map_err(|e| TableError::Layout { tensor: Some(item.name.clone()), source: e })?;
                chosen.push(choice);
            }
            let total: u64 = items.iter().map(|i| value_bytes(&i.value)).sum();
            let (mut chunk_jobs, mut cell_jobs) = (Vec::new(), Vec::new());
            let mut identities = Identities::new(&self.snapshot, &self.world);
            for (item, (header, converted)) in items.iter().zip(&chosen) {
                let row = identities.give(&item.name, HeaderRow::new(header, item.metadata.as_ref()));
                let value = match converted {
                    Converted::Sparse(sparse) => Value::Sparse(sparse),
                    Converted::Dense(dense) => Value::Dense(dense.as_ref()),
                    Converted::No => item.value.clone(),
                };
                match (&header.layout, value) {
                    (Layout::Coordinates, Value::Sparse(tensor)) => {
                        cell_jobs.push(CellJob { name: item.name.clone(), header: row, tensor });
                    }
                    (_, value) => {
                        let encoder = lacus_io::blocking(|| encoder(header, value))
                            .map_err(TableError::of_tensor(&item.name))?;
                        chunk_jobs.push(ChunkJob {
                            name: item.name.clone(),
                            header: Some(row),
                            encoder,
                            value_bytes: value_bytes(&item.value),
                            expected_bytes: expected_bytes(header),
                        });
                    }
                }
            }
            let meter = Meter::new(options, total);
            let mut files = write_chunks(&self.store, &self.world, chunk_jobs, options, &meter).await?;
            match write_cells(&self.store, &self.world, cell_jobs, options, &meter).await {
                Ok(more) => files.extend(more),
                Err(error) => {
                    let _ = self.store.remove(files.into_iter().map(|f| f.path).collect()).await;
                    return Err(error);
                }
            }
            let names: Vec<String> = items.iter().map(|i| i.name.clone()).collect();
            let supersede = names.iter().cloned().map(Supersede::Tensor).collect();
            let staged = Staged {
                op: "PUT",
                files,
                supersede,
                writes: WriteSet::whole(names.iter().cloned()),
                detail: json!({"tensors": names}),
                data_change: true,
            };
            self.commit(staged, options).await
        })
    }

    /// Makes a dense array of zeros that takes no room until it is written to.
    #[boxed]
    pub async fn create_array(
        &mut self,
        name: &str,
        dtype: DType,
        shape: Shape,
        wish: &Wish,
        metadata: Option<Json>,
        options: &WriteOptions,
    ) -> Result<u64, TableError> {
        self.writable().await?;
        check_name(name)?;
        check_metadata(metadata.as_ref())?;
        if self.contains(name) {
            return Err(TableError::NameTaken { name: name.to_owned() });
        }
        let header = choose_zeros(dtype, &shape, wish).map_err(TableError::of_tensor(name))?;
        let row = HeaderRow::new(&header, metadata.as_ref());
        let row = Identities::new(&self.snapshot, &self.world).give(name, row);
        let files = self.stage_headers(vec![(name.to_owned(), row)], options).await?;
        let staged = Staged {
            op: "CREATE ARRAY",
            files,
            supersede: Vec::new(),
            writes: WriteSet::whole([name.to_owned()]),
            detail: json!({"tensors": [name]}),
            data_change: true,
        };
        self.commit(staged, options).await
    }

    pub(super) async fn stage_headers(
        &self,
        headers: Vec<(String, HeaderRow)>,
        options: &WriteOptions,
    ) -> Result<Vec<StagedFile>, TableError> {
        let jobs = headers
            .into_iter()
            .map(|(name, row)| ChunkJob {
                name,
                header: Some(row),
                encoder: Box::new(Ready { chunks: Vec::new() }),
                value_bytes: 0,
                expected_bytes: 0,
            })
            .collect();
        write_chunks(&self.store, &self.world, jobs, options, &Meter::new(options, 0)).await
    }

    /// Writes values into a region of a dense array. `values` has the selection's shape.
    pub fn write_region<'a>(
        &'a mut self,
        name: &'a str,
        indices: &'a [Index],
        values: TensorRef<'a>,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<u64, TableError>> {
        Box::pin(async move {
            self.writable().await?;
            refuse_hidden(name)?;
            let index = self.index(name).await?;
            refuse_sparse(&index, "write a region")?;
            let selection = Selection::resolve(&index.header.shape, indices)?;
            check_values(&index.header, selection.output_shape(), &values)?;
            let touched = touched_chunks(&index.header, &selection)?;
            if touched.is_empty() {
                return Ok(self.version());
            }
            let overlay = Overlay { selection, values: contiguous(&values) };
            let files = self
                .rewrite_chunks(name, &index, &index.header, None, &touched, Some(overlay), options)
                .await?;
            let staged = Staged {
                op: "WRITE REGION",
                files,
                writes: WriteSet {
                    tensors: vec![Written { tensor: name.to_owned(), scope: Scope::of_chunks(&touched) }],
                    everything: false,
                },
                supersede: vec![Supersede::Chunks(name.to_owned(), touched)],
                detail: json!({"tensors": [name]}),
                data_change: true,
            };
            self.commit(staged, options).await
        })
    }

    #[expect(clippy::too_many_arguments, reason = "a rewrite is all of these; used here alone")]
    async fn rewrite_chunks(
        &self,
        name: &str,
        old: &TensorIndex,
        header: &Header,
        header_row: Option<HeaderRow>,
        chunks: &[lacus_layout::Coords],
        overlay: Option<Overlay<'_>>,
        options: &WriteOptions,
    ) -> Result<Vec<StagedFile>, TableError> {
        let value_bytes = overlay.as_ref().map_or(0, |o| o.values.len() as u64);
        let failed: Mutex<Option<TableError>> = Mutex::new(None);
        let encoder = RegionEncoder {
            store: &self.store,
            runtime: tokio::runtime::Handle::current(),
            old,
            header,
            chunks,
            overlay,
            failed: &failed,
        };
        let job = ChunkJob {
            name: name.to_owned(),
            header: header_row,
            encoder: Box::new(encoder),
            value_bytes,
            expected_bytes: 0,
        };
        let meter = Meter::new(options, value_bytes);
        let written = write_chunks(&self.store, &self.world, vec![job], options, &meter).await;
        match failed.into_inner().unwrap_or_else(|e| e.into_inner()) {
            Some(error) => Err(error),
            None => written,
        }
    }

    /// Appends along the first axis.
    pub fn append<'a>(
        &'a mut self,
        name: &'a str,
        values: Value<'a>,
        options: &'a WriteOptions,
    ) -> BoxFuture<'a, Result<u64, TableError>> {
        Box::pin(async move {
            self.writable().await?;
            refuse_hidden(name)?;
            let index = self.index(name).await?;
            let added_shape = match &values {
                Value::Dense(tensor) => tensor.shape().clone(),
                Value::Sparse(tensor) => tensor.shape().clone(),
            };
            let (old, added) = (index.header.shape.dims(), added_shape.dims());
            if old.is_empty() || added.len() != old.len() || added[1..] != old[1..] {
                let why = format!(
                    "values of shape {added_shape} do not continue tensor {name:?} of shape {} along its first axis",
                    index.header.shape
                );
                return Err(TableError::refused("append", why));
            }
            if values.dtype() != index.header.dtype {
                let why = format!("values are {}, tensor {name:?} is {}", values.dtype(), index.header.dtype);
                return Err(TableError::refused("append", why));
            }
            let first = old[0]
                .checked_add(added[0])
                .ok_or_else(|| TableError::refused("append", "the first axis would be too long"))?;
            if index.header.layout.is_sparse() {
                let sparse = match &values {
                    Value::Sparse(tensor) => (*tensor).clone(),
                    Value::Dense(tensor) => lacus_io::blocking(|| SparseTensor::from_dense(tensor)),
                };
                return self
                    .resize_sparse(name, &index, first, Some((old[0], sparse)), "APPEND", options)
                    .await;
            }
            let tensor = match values {
                Value::Dense(tensor) => tensor,
                Value::Sparse(_) => {
                    let why = format!("tensor {name:?} is dense; make the values dense first");
                    return Err(TableError::refused("append", why));
                }
            };
            let header = with_first_dimension(&index.header, first)?;
            let start = i64::try_from(old[0]).unwrap_or(i64::MAX);
            let region = [Index::Slice { start: Some(start), stop: None, step: None }];
            let selection = Selection::resolve(&header.shape, &region)?;
            let overlay = Overlay { selection, values: contiguous(&tensor) };
            self.resize_dense(name, &index, header, Some(overlay), "APPEND", options).await
        })
    }

    /// Makes the first axis longer (the new part is zeros) or shorter.
    #[boxed]
    pub async fn resize(
        &mut self,
        name: &str,
        first: u64,
        options: &WriteOptions,
    ) -> Result<u64, TableError> {
        self.writable().await?;
        refuse_hidden(name)?;
        let index = self.index(name).await?;
        if index.header.layout.is_sparse() {
            return self.resize_sparse(name, &index, first, None, "RESIZE", options).await;
        }
        let header = with_first_dimension(&index.header, first)?;
        self.resize_dense(name, &index, header, None, "RESIZE", options).await
    }

    async fn resize_dense(
        &mut self,
        name: &str,
        index: &Arc<TensorIndex>,
        header: Header,
        overlay: Option<Overlay<'_>>,
        op: &'static str,
        options: &WriteOptions,
    ) -> Result<u64, TableError> {
        let (mut changed, dropped) = moved_edge(index, &header)?;
        if let Some(overlay) = &overlay {
            changed.extend(touched_chunks(&header, &overlay.selection)?);
            changed.sort_unstable();
            changed.dedup();
        }
        let metadata = header_of(&self.snapshot, name).and_then(|h| h.metadata);
        let row = HeaderRow { metadata, ..HeaderRow::new(&header, None) };
        let row = Identities::new(&self.snapshot, &self.world).give(name, row);
        let files = self.rewrite_chunks(name, index, &header, Some(row), &changed, overlay, options).await?;
        let mut superseded = changed;
        superseded.extend(dropped);
        let staged = Staged {
            op,
            files,
            supersede: vec![
                Supersede::Header(name.to_owned()),
                Supersede::Chunks(name.to_owned(), superseded),
            ],
            writes: WriteSet::whole([name.to_owned()]),
            detail: json!({"tensors": [name], "shape": header.shape.dims()}),
            data_change: true,
        };
        self.commit(staged, options).await
    }

    /// A sparse tensor is put anew with its rows changed, in the layout it has.
    async fn resize_sparse(
        &mut self,
        name: &str,
        index: &Arc<TensorIndex>,
        first: u64,
        added: Option<(u64, SparseTensor)>,
        op: &'static str,
        options: &WriteOptions,
    ) -> Result<u64, TableError> {
        let header = with_first_dimension(&index.header, first)?;
        let stored = read_all_sparse(&self.store, self.world.pool(), index).await?;
        let tensor = lacus_io::blocking(|| joined(&stored, &header.shape, added))?;
        let header = Header { nnz: Some(tensor.nnz() as u64), ..header };
        let metadata = header_of(&self.snapshot, name).and_then(|h| h.metadata);
        let row = HeaderRow { metadata, ..HeaderRow::new(&header, None) };
        let row = Identities::new(&self.snapshot, &self.world).give(name, row);
        let value_bytes = (tensor.coords().len() + tensor.values().len()) as u64;
        let meter = Meter::new(options, value_bytes);
        let files = if matches!(header.layout, Layout::Coordinates) {
            let job = CellJob { name: name.to_owned(), header: row, tensor: &tensor };
            write_cells(&self.store, &self.world, vec![job], options, &meter).await?
        } else {
            let encoder = encoder(&header, Value::Sparse(&tensor)).map_err(TableError::of_tensor(name))?;
            let job = ChunkJob {
                name: name.to_owned(),
                header: Some(row),
                encoder,
                value_bytes,
                expected_bytes: 0,
            };
            write_chunks(&self.store, &self.world, vec![job], options, &meter).await?
        };
        let staged = Staged {
            op,
            files,
            supersede: vec![Supersede::Tensor(name.to_owned())],
            writes: WriteSet::whole([name.to_owned()]),
            detail: json!({"tensors": [name], "shape": header.shape.dims()}),
            data_change: true,
        };
        self.commit(staged, options).await
    }

    /// Removes tensors.
    #[boxed]
    pub async fn remove(&mut self, names: &[&str], options: &WriteOptions) -> Result<u64, TableError> {
        self.writable().await?;
        names.iter().try_for_each(|name| refuse_hidden(name))?;
        if let Some(name) = names.iter().find(|n| !self.contains(n)) {
            return Err(self.no_such(name));
        }
        let staged = Staged {
            op: "REMOVE",
            files: Vec::new(),
            supersede: names.iter().map(|n| Supersede::Tensor((*n).to_owned())).collect(),
            writes: WriteSet::whole(names.iter().map(|n| (*n).to_owned())),
            detail: json!({"tensors": names}),
            data_change: true,
        };
        self.commit(staged, options).await
    }

    /// Removes tensors whatever others do with them meanwhile, and passes over those that are not there: for what only its
    /// owner needs. Inside a transaction they go when it ends, even if they came after it had begun.
    #[boxed]
    pub async fn discard(&mut self, names: &[&str], options: &WriteOptions) -> Result<u64, TableError> {
        self.writable().await?;
        let staged = Staged {
            op: "REMOVE",
            files: Vec::new(),
            supersede: names.iter().map(|n| Supersede::Tensor((*n).to_owned())).collect(),
            // Nothing that others write can clash with it.
            writes: WriteSet::default(),
            detail: json!({"tensors": names}),
            data_change: true,
        };
        self.commit(staged, options).await
    }

    /// Renames a tensor. Its rows carry its name, so they are copied, but not decoded.
    #[boxed]
    pub async fn rename(&mut self, from: &str, to: &str, options: &WriteOptions) -> Result<u64, TableError> {
        self.writable().await?;
        check_name(to)?;
        refuse_hidden(from)?;
        let header = header_of(&self.snapshot, from).ok_or_else(|| self.no_such(from))?;
        if from == to {
            return Ok(self.version());
        }
        if self.contains(to) {
            return Err(TableError::NameTaken { name: to.to_owned() });
        }
        let id = identity(from, &header);
        let header = Some(identified(header, &id));
        let copied = Copied { name: from.to_owned(), new_name: to.to_owned(), header, only: None };
        let files =
            copy_rows(&self.store, &self.world, &self.cache, &self.snapshot, &[copied], options).await?;
        let staged = Staged {
            op: "RENAME",
            files,
            supersede: vec![Supersede::Tensor(from.to_owned())],
            writes: WriteSet::whole([from.to_owned(), to.to_owned()]),
            detail: json!({"tensors": [from], "to": to}),
            data_change: true,
        };
        self.commit(staged, options).await
    }

    /// Replaces the metadata of a tensor, or of the dataset (`None`). It must be a JSON object.
    #[boxed]
    pub async fn set_metadata(
        &mut self,
        name: Option<&str>,
        metadata: Json,
        options: &WriteOptions,
    ) -> Result<u64, TableError> {
        self.writable().await?;
        check_metadata(Some(&metadata))?;
        let (key, row) = match name {
            Some(name) => {
                let row = header_of(&self.snapshot, name).ok_or_else(|| self.no_such(name))?;
                (name.to_owned(), HeaderRow { metadata: Some(metadata.to_string()), ..row })
            }
            None => (DATASET_ROW.to_owned(), HeaderRow::of_dataset(&metadata)),
        };
        let files = self.stage_headers(vec![(key.clone(), row)], options).await?;
        let staged = Staged {
            op: "SET METADATA",
            files,
            supersede: vec![Supersede::Header(key.clone())],
            writes: WriteSet::whole([key]),
            detail: json!({"tensors": name.map(|n| vec![n]).unwrap_or_default()}),
            data_change: true,
        };
        self.commit(staged, options).await
    }
}

fn refuse_sparse(index: &TensorIndex, op: &'static str) -> Result<(), TableError> {
    if !index.header.layout.is_sparse() {
        return Ok(());
    }
    let why = format!(
        "tensor {:?} has the sparse layout {}; only dense arrays support region writes; use put to replace it",
        index.name,
        index.header.layout.name()
    );
    Err(TableError::refused(op, why))
}

fn check_values(header: &Header, shape: &Shape, values: &TensorRef<'_>) -> Result<(), TableError> {
    if values.shape() != shape {
        let why = format!("the selection has shape {shape}, the values have {}", values.shape());
        return Err(TableError::refused("write a region", why));
    }
    if values.dtype() != header.dtype {
        let why = format!("the values are {}, the tensor is {}", values.dtype(), header.dtype);
        return Err(TableError::refused("write a region", why));
    }
    Ok(())
}

fn contiguous<'a>(values: &TensorRef<'a>) -> std::borrow::Cow<'a, [u8]> {
    match values.contiguous_bytes() {
        Some(bytes) => std::borrow::Cow::Borrowed(bytes),
        None => std::borrow::Cow::Owned(values.to_tensor().bytes().to_vec()),
    }
}

fn value_bytes(value: &Value<'_>) -> u64 {
    match value {
        Value::Dense(tensor) => tensor.shape().byte_len(tensor.dtype()).unwrap_or(0) as u64,
        Value::Sparse(tensor) => (tensor.coords().len() + tensor.values().len()) as u64,
    }
}

/// A value in the form its layout takes, when that is not the form it came in.
enum Converted {
    No,
    Sparse(SparseTensor),
    Dense(Tensor),
}

/// The header for a value, and the value converted where the layout wants the other form.
fn choose(value: &Value<'_>, wish: &Wish) -> Result<(Header, Converted), LayoutError> {
    let first = match value {
        Value::Dense(tensor) => choose_dense(tensor, wish)?,
        Value::Sparse(tensor) => choose_sparse(tensor, wish)?,
    };
    let (converted, reasons) = match (first, value) {
        (Choice::Header(header), _) => return Ok((header, Converted::No)),
        (Choice::Sparse { reasons }, Value::Dense(tensor)) => {
            (Converted::Sparse(SparseTensor::from_dense(tensor)), reasons)
        }
        (Choice::Dense { reasons }, Value::Sparse(tensor)) => (Converted::Dense(tensor.to_dense()?), reasons),
        (Choice::Sparse { reasons } | Choice::Dense { reasons }, _) => return Err(undecided(reasons)),
    };
    let second = match &converted {
        Converted::Sparse(tensor) => choose_sparse(tensor, wish)?,
        Converted::Dense(tensor) => choose_dense(&tensor.as_ref(), wish)?,
        Converted::No => return Err(undecided(reasons)),
    };
    match second {
        Choice::Header(mut header) => {
            header.reasons.splice(0..0, reasons);
            Ok((header, converted))
        }
        Choice::Sparse { reasons } | Choice::Dense { reasons } => Err(undecided(reasons)),
    }
}

fn undecided(reasons: Vec<String>) -> LayoutError {
    LayoutError::Unsupported { layout: "auto", detail: reasons.join("; ") }
}

/// The header of a dense array of zeros: chosen by a view in which every element is the same zero.
pub(super) fn choose_zeros(dtype: DType, shape: &Shape, wish: &Wish) -> Result<Header, LayoutError> {
    let zero = [0; 16];
    let strides = vec![0; shape.rank()];
    let zeros = TensorRef::strided(dtype, shape, &strides, 0, &zero[..dtype.size_bytes()])?;
    let wish = Wish { layout: Some("FTSF".to_owned()), ..wish.clone() };
    match choose_dense(&zeros, &wish)? {
        Choice::Header(header) => Ok(header),
        Choice::Sparse { reasons } | Choice::Dense { reasons } => Err(undecided(reasons)),
    }
}

/// `stored` cut or grown to `shape`, with `added` behind it from a row on.
fn joined(
    stored: &SparseTensor,
    shape: &Shape,
    added: Option<(u64, SparseTensor)>,
) -> Result<SparseTensor, TableError> {
    let limit = shape.dims().first().map_or(0, |&d| i64::try_from(d).unwrap_or(i64::MAX));
    let kept = match shape.rank() {
        0 => stored.nnz(),
        _ => stored.axis(0).partition_point(|&c| c < limit),
    };
    let item = stored.dtype().size_bytes();
    let more = added.as_ref().map_or(0, |(_, tensor)| tensor.nnz());
    let mut coords: Vec<i64> = Vec::with_capacity((kept + more) * shape.rank());
    for k in 0..shape.rank() {
        coords.extend_from_slice(&stored.axis(k)[..kept]);
        if let Some((from, tensor)) = &added {
            let shift = if k == 0 { i64::try_from(*from).unwrap_or(i64::MAX) } else { 0 };
            coords.extend(tensor.axis(k).iter().map(|c| c + shift));
        }
    }
    let mut values = stored.values()[..kept * item].to_vec();
    if let Some((_, tensor)) = &added {
        values.extend_from_slice(tensor.values());
    }
    Ok(SparseTensor::new(
        stored.dtype(),
        shape.clone(),
        lacus_tensor::Buffer::from_elements(&coords),
        lacus_tensor::Buffer::from_slice(&values),
        lacus_tensor::Duplicates::Refuse,
    )?)
}
