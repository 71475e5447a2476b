//! An index as it is stored: arrays of the dataset under a name that no other index ever has.
//!
//! ```text
//! _index/vector/<column>/<build>/centres   float32 [lists, size]   metadata: what the index is
//!                                starts    uint64  [lists + 2]     where each list begins
//!                                rows      uint64  [rows]          ids of rows, list by list
//!                                stamps    uint32  [rows]          checksums of the stored vectors
//!                                pieces    uint64  [pieces, 4]     where the vectors lay: file, row, id, count
//!                                vectors   [rows, size]            as in the column, list by list; or in 8 bits:
//!                                codes     uint8   [rows, size]    and low float32 [size]
//! ```
//!
//! A column is named by its identity, so that an index outlives a new name of its column. Arrays are written once and never changed: a
//! new index has a new name. So branches and merges carry indexes along and find no conflict in them.

use std::sync::Arc;

use lacus_dataset::{Dataset, DatasetError};
use lacus_table::{CompressionWish, INDEX_PREFIX, Put, Read, Table, TableError, Value, Wish, WriteOptions};
use lacus_tensor::kernels::distance::Measure;
use lacus_tensor::{Buffer, DType, ErrorKind, Index, Shape, Tensor};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::lists::{Codes, Lists, Probes};

/// Names of indexes of vectors begin with this, behind the prefix of all indexes.
const KIND: &str = "vector/";

/// The form that this version writes, and the highest that it reads.
const FORMAT: u32 = 1;

/// Bytes of vectors that are stored together: a list is read in pieces of this size, so this much more than it has is read at most.
const CHUNK_BYTES: u64 = 32 << 10;

/// What the metadata of an index says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    format: u32,
    /// `ivf`.
    kind: String,
    pub measure: String,
    pub dtype: String,
    pub size: usize,
    pub lists: usize,
    pub rows: u64,
    /// What was promised.
    pub recall: f64,
    pub probes: Vec<Probes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<u8>,
    /// What one more in a code means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<f32>,
    /// Files that the pieces name.
    files: Vec<String>,
}

/// Where vectors lay when an index was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Keys of files.
    pub files: Vec<String>,
    /// File, first row, first id, count; ascending by id.
    pub pieces: Vec<[u64; 4]>,
}

/// An index to be stored.
pub(crate) struct Made {
    pub lists: Lists,
    pub dtype: DType,
    pub recall: f64,
    pub origin: Origin,
    /// By place in the lists.
    pub stamps: Vec<u32>,
    /// By place in the lists: vectors as in the column, or codes.
    pub vectors: Vec<u8>,
    pub codes: Option<Codes>,
}

/// An index that was read, without its vectors.
#[derive(Debug)]
pub(crate) struct Stored {
    /// What all of its arrays' names begin with.
    pub prefix: String,
    pub header: Header,
    pub lists: Lists,
    pub dtype: DType,
    pub codes: Option<Codes>,
    pub origin: Origin,
}

/// What all names of indexes of a column begin with.
pub(crate) fn prefix_of(table: &Table, column: &str) -> Result<String, DatasetError> {
    Ok(format!("{INDEX_PREFIX}{KIND}{}/", table.identity(column)?))
}

/// Names of the indexes of a column, the newest last.
pub(crate) fn builds(table: &Table, column: &str) -> Result<Vec<String>, DatasetError> {
    let prefix = prefix_of(table, column)?;
    let names = table.hidden_names().into_iter();
    let of = |name: String| {
        Some(name.strip_suffix("centres").filter(|name| name.starts_with(&prefix))?.to_owned())
    };
    Ok(names.filter_map(of).collect())
}

/// Names of all arrays of the indexes of a column.
pub(crate) fn arrays(table: &Table, column: &str) -> Result<Vec<String>, DatasetError> {
    let prefix = prefix_of(table, column)?;
    Ok(table.hidden_names().into_iter().filter(|name| name.starts_with(&prefix)).collect())
}

/// Stores an index in place of those that a column has: a first version has both, a second only the new one.
pub(crate) async fn store(
    dataset: &mut Dataset,
    column: &str,
    made: &Made,
    options: &WriteOptions,
) -> Result<String, DatasetError> {
    let table = dataset.table();
    let old = arrays(table, column)?;
    // Builds are told apart, and sorted, by their time.
    let (millis, chance) = (table.world().now_millis().max(0), table.world().uuid().as_u64_pair().0);
    let prefix = format!("{}{millis:013x}-{chance:016x}/", prefix_of(table, column)?);
    let Lists { measure, size, centres, starts, rows, probes } = &made.lists;
    let header = Header {
        format: FORMAT,
        kind: "ivf".to_owned(),
        measure: measure.name().to_owned(),
        dtype: made.dtype.name().to_owned(),
        size: *size,
        lists: made.lists.count(),
        rows: rows.len() as u64,
        recall: made.recall,
        probes: probes.clone(),
        bits: made.codes.as_ref().map(|_| 8),
        step: made.codes.as_ref().map(|codes| codes.step),
        files: made.origin.files.clone(),
    };
    let metadata = serde_json::to_value(&header).unwrap_or(Json::Null);
    let (count, width) = (rows.len() as u64, *size as u64);
    let pieces: Vec<u64> = made.origin.pieces.iter().flatten().copied().collect();
    let mut tensors = vec![
        ("centres", DType::F32, vec![header.lists as u64, width], lacus_tensor::bytes_of(centres)),
        ("starts", DType::U64, vec![starts.len() as u64], lacus_tensor::bytes_of(starts)),
        ("rows", DType::U64, vec![count], lacus_tensor::bytes_of(rows)),
        ("stamps", DType::U32, vec![count], lacus_tensor::bytes_of(&made.stamps)),
        ("pieces", DType::U64, vec![made.origin.pieces.len() as u64, 4], lacus_tensor::bytes_of(&pieces)),
    ];
    match &made.codes {
        None => tensors.push(("vectors", made.dtype, vec![count, width], &made.vectors)),
        Some(codes) => {
            tensors.push(("low", DType::F32, vec![width], lacus_tensor::bytes_of(&codes.low)));
            tensors.push(("codes", DType::U8, vec![count, width], &made.vectors));
        }
    }
    let shapes =
        tensors.iter().map(|(.., shape, _)| Shape::new(shape.clone())).collect::<Result<Vec<_>, _>>()?;
    let mut puts = Vec::with_capacity(tensors.len());
    for ((name, dtype, dims, bytes), shape) in tensors.iter().zip(&shapes) {
        let row_bytes = dims[1..].iter().product::<u64>() * dtype.size_bytes() as u64;
        let is_large = matches!(*name, "vectors" | "codes");
        let chunk = (CHUNK_BYTES / row_bytes.max(1)).max(1).min(dims[0].max(1));
        let mut chunk_shape = vec![chunk];
        chunk_shape.extend_from_slice(&dims[1..]);
        let wish = Wish {
            layout: Some("dense".to_owned()),
            chunk_shape: is_large.then_some(chunk_shape),
            // Read again and again, and hardly smaller if it were compressed.
            compression: if is_large { CompressionWish::None } else { CompressionWish::Auto },
            ..Wish::default()
        };
        puts.push(Put {
            name: format!("{prefix}{name}"),
            value: Value::Dense(lacus_tensor::TensorRef::contiguous(*dtype, shape, bytes)?),
            wish,
            metadata: (*name == "centres").then(|| metadata.clone()),
        });
    }
    dataset.table_mut().put_hidden(puts, options).await?;
    if !old.is_empty() {
        let old: Vec<&str> = old.iter().map(String::as_str).collect();
        dataset.table_mut().discard(&old, options).await?;
    }
    Ok(prefix)
}

/// What the metadata of an index says.
pub(crate) fn header(table: &Table, prefix: &str) -> Result<Header, DatasetError> {
    let metadata = table.metadata_of(Some(&format!("{prefix}centres")));
    let header: Header =
        serde_json::from_value(metadata).map_err(|error| broken(prefix, error.to_string()))?;
    match header.format <= FORMAT && header.kind == "ivf" {
        true => Ok(header),
        false => Err(broken(prefix, format!("it is of kind {:?}, form {}", header.kind, header.format))),
    }
}

/// Reads an index, without its vectors. Kept in memory: it is never changed.
pub(crate) async fn open(dataset: &Dataset, prefix: &str) -> Result<Arc<Stored>, DatasetError> {
    let table = dataset.table();
    let place = table.store().place();
    if let Some(stored) = place.get::<Stored>(prefix) {
        return Ok(stored);
    }
    let header = header(table, prefix)?;
    let wrong = |why: &str| broken(prefix, why);
    let read = async |name: &str, dtype: DType, dims: &[u64]| -> Result<Buffer, DatasetError> {
        let tensor = match table.read(&format!("{prefix}{name}"), &[]).await? {
            Read::Dense(tensor) => tensor,
            Read::Sparse(_) => return Err(broken(prefix, format!("{name} is sparse"))),
        };
        match tensor.dtype() == dtype && tensor.shape().dims() == dims {
            true => Ok(tensor.into_buffer()),
            false => Err(broken(prefix, format!("{name} has another type or shape"))),
        }
    };
    let (lists, size) = (header.lists as u64, header.size as u64);
    let centres = read("centres", DType::F32, &[lists, size]).await?.cast::<f32>().to_vec();
    let starts = read("starts", DType::U64, &[lists + 2]).await?.cast::<u64>().to_vec();
    let rows = read("rows", DType::U64, &[header.rows]).await?.cast::<u64>().to_vec();
    let pieces = match table.read(&format!("{prefix}pieces"), &[]).await? {
        Read::Dense(tensor) if tensor.dtype() == DType::U64 => tensor.into_buffer().cast::<u64>().to_vec(),
        _ => return Err(wrong("pieces have another type")),
    };
    let codes = match (header.bits, header.step) {
        (None, _) => None,
        (Some(8), Some(step)) => {
            Some(Codes { low: read("low", DType::F32, &[size]).await?.cast::<f32>().to_vec(), step })
        }
        _ => return Err(wrong("its codes are of another kind")),
    };
    let ascends = starts.windows(2).all(|pair| pair[0] <= pair[1]);
    if !ascends || starts.first() != Some(&0) || starts.last() != Some(&header.rows) {
        return Err(wrong("its lists contradict each other"));
    }
    let measure = [Measure::Cosine, Measure::Inner, Measure::L2]
        .into_iter()
        .find(|measure| measure.name() == header.measure)
        .ok_or_else(|| wrong("it compares vectors in a way that is not known"))?;
    let dtype = header.dtype.parse::<DType>().map_err(|_| wrong("it has no dtype"))?;
    let pieces: Vec<[u64; 4]> = pieces.as_chunks::<4>().0.to_vec();
    if pieces.iter().any(|[file, ..]| *file as usize >= header.files.len()) {
        return Err(wrong("its pieces name files that it does not know"));
    }
    let origin = Origin { files: header.files.clone(), pieces };
    let lists = Lists { measure, size: header.size, centres, starts, rows, probes: header.probes.clone() };
    let bytes = 8 * lists.rows.len() + 4 * lists.centres.len() + 32 * origin.pieces.len() + 256;
    let stored = Arc::new(Stored { prefix: prefix.to_owned(), header, lists, dtype, codes, origin });
    place.put(prefix.to_owned(), Arc::clone(&stored), bytes as u64);
    Ok(stored)
}

impl Stored {
    /// The dtype of what the lists hold.
    pub(crate) fn list_dtype(&self) -> DType {
        if self.codes.is_some() { DType::U8 } else { self.dtype }
    }

    /// The vectors or codes of a list. Kept in memory as long as there is room.
    pub(crate) async fn list(&self, table: &Table, list: usize) -> Result<Arc<Tensor>, DatasetError> {
        let key = format!("{} {list}", self.prefix);
        let place = table.store().place();
        if let Some(known) = place.get::<Tensor>(&key) {
            return Ok(known);
        }
        let rows = self.lists.places(list);
        let what = if self.codes.is_some() { "codes" } else { "vectors" };
        let end = |place: usize| i64::try_from(place).unwrap_or(i64::MAX);
        let slice = Index::Slice { start: Some(end(rows.start)), stop: Some(end(rows.end)), step: None };
        let tensor = match table.read(&format!("{}{what}", self.prefix), &[slice]).await? {
            Read::Dense(tensor) => tensor,
            Read::Sparse(_) => return Err(broken(&self.prefix, "its vectors are sparse")),
        };
        let expected = [rows.len() as u64, self.lists.size as u64];
        if tensor.dtype() != self.list_dtype() || tensor.shape().dims() != expected {
            return Err(broken(&self.prefix, "its vectors have another type or shape"));
        }
        let (bytes, tensor) = (tensor.bytes().len() as u64, Arc::new(tensor));
        place.put(key, Arc::clone(&tensor), bytes);
        Ok(tensor)
    }

    /// The checksums that the vectors had, by place in the lists.
    pub(crate) async fn stamps(&self, table: &Table) -> Result<Vec<u32>, DatasetError> {
        match table.read(&format!("{}stamps", self.prefix), &[]).await? {
            Read::Dense(tensor)
                if tensor.dtype() == DType::U32 && tensor.shape().dims() == [self.header.rows] =>
            {
                Ok(tensor.into_buffer().cast::<u32>().to_vec())
            }
            _ => Err(broken(&self.prefix, "its stamps have another type or shape")),
        }
    }
}

/// An index that contradicts itself.
fn broken(prefix: &str, why: impl Into<String>) -> DatasetError {
    let what = format!("the index cannot be used: {}", why.into());
    DatasetError::Table(TableError::Corrupt { path: prefix.to_owned(), what })
}

/// Whether an error says that an index is damaged, so that a search does without.
pub(crate) fn is_damage(error: &DatasetError) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound | ErrorKind::Invalid)
}
