//! Samples on their way out: rows in batches of bounded size, media as the files they came as.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use lacus_arrow::Cell;
use lacus_dataset::{Base, Batch, Column, Dataset, DatasetError};
use lacus_io::blocking;
use lacus_media::{EncodeOptions, Format};
use lacus_sample::Compression;
use lacus_tensor::{Shape, Tensor};
use serde_json::Value as Json;

use crate::error::ExchangeError;
use crate::options::{ExportOptions, Progress, Report, check_cancel};

/// Samples read together take about this much.
const BATCH_BYTES: u64 = 64 << 20;

/// And are of at most so many rows.
const BATCH_ROWS: u64 = 16 << 10;

/// A column that goes out.
#[derive(Clone, Debug)]
pub(crate) struct OutColumn {
    pub name: String,
    pub column: Arc<Column>,
    pub metadata: Option<Json>,
    stored_bytes: u64,
}

/// The columns that the caller chose: all of them by default.
pub(crate) fn chosen(dataset: &Dataset, options: &ExportOptions) -> Result<Vec<OutColumn>, ExchangeError> {
    let names = match &options.columns {
        Some(names) => names.clone(),
        None => dataset.column_names(),
    };
    let mut columns: Vec<OutColumn> = Vec::with_capacity(names.len());
    for name in names {
        let facts = dataset.column_facts(&name)?;
        if columns.iter().any(|column| column.name == name) {
            return Err(ExchangeError::Lacking(format!("column {name:?} is named twice")));
        }
        let lacus_dataset::ColumnFacts { column, stored_bytes, metadata, .. } = facts;
        columns.push(OutColumn { name, column, metadata, stored_bytes });
    }
    if columns.is_empty() {
        return Err(ExchangeError::Lacking("the dataset has no columns".to_owned()));
    }
    Ok(columns)
}

/// Whether samples of a column are files of a kind.
pub(crate) fn is_media(column: &Column) -> bool {
    let media = [Base::Image, Base::ImageGray, Base::Video, Base::Audio, Base::Dicom];
    media.contains(&column.htype().base) && !column.htype().sequence
}

/// Calls `each` with every row and its cells, one per column.
pub(crate) async fn export_rows(
    dataset: &Dataset,
    columns: &[OutColumn],
    options: &ExportOptions,
    report: &mut Report,
    mut each: impl FnMut(&mut Report, u64, Vec<Cell>) -> Result<(), ExchangeError>,
) -> Result<(), ExchangeError> {
    export_batches(dataset, columns, options, report, |report, first, batch| {
        let rows = batch.first().map_or(0, Vec::len);
        let mut cells: Vec<_> = batch.into_iter().map(Vec::into_iter).collect();
        for row in first..first + rows as u64 {
            let row_cells = cells.iter_mut().map(|column| column.next().unwrap_or(Cell::Missing)).collect();
            each(report, row, row_cells)?;
        }
        Ok(())
    })
    .await
}

/// Calls `each` with the first row of a batch and its columns.
pub(crate) async fn export_batches(
    dataset: &Dataset,
    columns: &[OutColumn],
    options: &ExportOptions,
    report: &mut Report,
    mut each: impl FnMut(&mut Report, u64, Vec<Vec<Cell>>) -> Result<(), ExchangeError>,
) -> Result<(), ExchangeError> {
    let axis = dataset.table().rows().await?;
    let all = options.rows.as_ref();
    let rows = all.map_or(axis.len(), |rows| rows.len());
    // Four times what is stored: tensors are larger in memory, media are not decoded.
    let stored: u64 = columns.iter().map(|column| column.stored_bytes).sum();
    let at_once = (BATCH_BYTES * axis.len().max(1) / (4 * stored).max(1)).clamp(1, BATCH_ROWS);
    let mut first = 0;
    while first < rows {
        check_cancel(options.cancel.as_ref())?;
        let places = first..(first + at_once).min(rows);
        let positions: Vec<u64> = match all {
            None => places.collect(),
            Some(all) => {
                let version = dataset.table().version();
                let ids = all.every(first, 1, places.end - first);
                let position = |id: u64| axis.position(id).ok_or(DatasetError::NoSuchRow { id, version });
                ids.iter().map(position).collect::<Result<_, _>>()?
            }
        };
        let mut batch = Vec::with_capacity(columns.len());
        for column in columns {
            batch.push(read(dataset, column, &positions).await?);
        }
        blocking(|| each(report, first, batch))?;
        first += positions.len() as u64;
        if let Some(progress) = &options.progress {
            progress(Progress { items: first, bytes: report.bytes, total_items: Some(rows) });
        }
    }
    Ok(())
}

/// The samples of a column.
pub(crate) async fn read(
    dataset: &Dataset,
    column: &OutColumn,
    positions: &[u64],
) -> Result<Vec<Cell>, ExchangeError> {
    let as_files = column.column.htype().link
        || matches!(column.column.compression(), Compression::Auto | Compression::Media(_));
    if is_media(&column.column) && as_files {
        let found = dataset.stored_bytes(&column.name, positions).await?;
        // A picture without a pixel is no file.
        let cell = |bytes: Option<Bytes>| bytes.filter(|b| !b.is_empty()).map_or(Cell::Missing, Cell::Media);
        return Ok(found.into_iter().map(cell).collect());
    }
    let cells: Vec<Cell> = match dataset.read(&column.name, positions, &[]).await? {
        Batch::Values(values) => {
            values.into_iter().map(|value| value.map_or(Cell::Missing, Cell::of_value)).collect()
        }
        Batch::Stacked(tensor) => unstacked(&tensor).map_err(lacus_dataset::DatasetError::from)?,
    };
    let has_files = matches!(column.column.htype().base, Base::Image | Base::ImageGray | Base::Audio);
    match has_files {
        true => blocking(|| cells.into_iter().map(|cell| as_file(column, cell)).collect()),
        false => Ok(cells),
    }
}

/// The samples along the first axis.
fn unstacked(tensor: &Tensor) -> Result<Vec<Cell>, lacus_tensor::TensorError> {
    let dims = tensor.shape().dims();
    let (count, inner) = (dims[0] as usize, &dims[1..]);
    let item = Shape::new(inner)?.byte_len(tensor.dtype())?;
    (0..count)
        .map(|i| {
            let bytes = &tensor.bytes()[i * item..(i + 1) * item];
            match inner.is_empty() && tensor.dtype().size_bytes() <= 8 {
                true => Ok(Cell::scalar(tensor.dtype(), bytes)),
                false => Cell::tensor(tensor.dtype(), inner, bytes),
            }
        })
        .collect()
}

/// A picture or sound that is kept without a file around it, as one.
fn as_file(column: &OutColumn, cell: Cell) -> Result<Cell, ExchangeError> {
    let is_sound = column.column.htype().base == Base::Audio;
    Ok(match cell {
        Cell::Tensor(tensor) if tensor.bytes().is_empty() => Cell::Missing,
        Cell::Tensor(tensor) => {
            let format = if is_sound { Format::Wav } else { Format::Png };
            let mut options = EncodeOptions::default();
            let rate = column.column.options().get("sample_rate").and_then(|rate| rate.as_u64());
            if let Some(rate) = rate.and_then(|rate| u32::try_from(rate).ok()) {
                options.sample_rate = rate;
            }
            let bytes = lacus_media::encode(tensor.as_ref().as_ref(), format, &options);
            Cell::Media(
                bytes
                    .map_err(|e| ExchangeError::bad(format!("column {:?}", column.name), e.to_string()))?
                    .into(),
            )
        }
        Cell::List(cells) => {
            Cell::List(cells.into_iter().map(|cell| as_file(column, cell)).collect::<Result<_, _>>()?)
        }
        other => other,
    })
}

/// A directory that gets its name when it is complete, and goes away otherwise.
pub(crate) struct NewDirectory {
    partial: tempfile::TempDir,
    dest: PathBuf,
}

/// Makes one. Fails if there is something at `dest`, unless it is an empty directory.
pub(crate) fn new_directory(dest: &Path) -> Result<NewDirectory, ExchangeError> {
    let taken = match fs::read_dir(dest) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    };
    if taken {
        return Err(ExchangeError::Taken { path: dest.to_owned() });
    }
    let parent = parent_of(dest);
    let partial = tempfile::Builder::new().prefix(".lacus-").suffix(".partial").tempdir_in(&parent);
    let partial = partial.map_err(ExchangeError::io(&parent, "make a directory in"))?;
    Ok(NewDirectory { partial, dest: dest.to_owned() })
}

impl NewDirectory {
    pub(crate) fn path(&self) -> &Path {
        self.partial.path()
    }

    /// Gives it its name.
    pub(crate) fn keep(self) -> Result<(), ExchangeError> {
        // Temporary directories are their owner's alone; this one shall be as others are.
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let open = fs::Permissions::from_mode(0o755);
            fs::set_permissions(self.partial.path(), open).map_err(ExchangeError::io(&self.dest, "make"))?;
        }
        fs::rename(self.partial.path(), &self.dest).map_err(ExchangeError::io(&self.dest, "rename"))
    }
}

/// A file that gets its name when it is complete, and goes away otherwise.
pub(crate) fn new_file(dest: &Path) -> Result<tempfile::NamedTempFile, ExchangeError> {
    let parent = parent_of(dest);
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o644));
    }
    let file = builder.prefix(".lacus-").suffix(".partial").tempfile_in(&parent);
    file.map_err(ExchangeError::io(dest, "create"))
}

/// Gives it its name, over what was there.
pub(crate) fn keep_file(file: tempfile::NamedTempFile, dest: &Path) -> Result<(), ExchangeError> {
    file.as_file().sync_all().map_err(ExchangeError::io(dest, "write"))?;
    file.persist(dest).map_err(|error| ExchangeError::io(dest, "rename")(error.error))?;
    Ok(())
}

fn parent_of(dest: &Path) -> PathBuf {
    match dest.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
