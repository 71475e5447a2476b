//! Makes, lists and drops indexes of vectors.

use std::sync::Arc;

use lacus_dataset::{Dataset, DatasetError, PlacedRun};
use lacus_io::{blocking, boxed};
use lacus_table::WriteOptions;
use lacus_tensor::kernels::distance::{Measure, widen};

use super::blocks::Vectors;
use super::clusters::Points;
use super::cover::cover;
use super::lists::{Codes, IndexSpec, Lists, Probes, prepared};
use super::stored::{Made, Origin, arrays, builds, header, is_damage, open, store};

/// What is known of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexInfo {
    /// The column that it is of.
    pub column: String,
    /// `ivf`.
    pub kind: String,
    /// By what vectors are compared.
    pub metric: String,
    /// How many lists there are.
    pub lists: u64,
    /// Rows that were there when it was made.
    pub rows: u64,
    /// Rows that it covers: what was changed or deleted since is not among them, and what was added is searched exactly.
    pub covered: u64,
    /// Bits of an element in a list, if they are not as in the column.
    pub bits: Option<u8>,
    /// The recall that was promised.
    pub recall: f64,
    /// How many lists are looked at, and the recall of that with queries that were held out.
    pub probes: Vec<Probes>,
    /// Bytes that it takes.
    pub stored_bytes: u64,
    /// Why it is not used, if it is damaged.
    pub damage: Option<String>,
}

fn refused(why: String) -> DatasetError {
    DatasetError::Refused { op: "create_index", why }
}

/// Makes an index of the vectors of a column, in place of the one that it has.
#[boxed]
pub async fn create_index(
    dataset: &mut Dataset,
    column: &str,
    spec: &IndexSpec,
    options: &WriteOptions,
) -> Result<IndexInfo, DatasetError> {
    if !matches!(spec.measure, Measure::Cosine | Measure::Inner | Measure::L2) {
        let metric = spec.measure.name();
        return Err(refused(format!("an index compares by cosine, dot or l2, not by {metric}")));
    }
    if !(spec.recall > 0.0 && spec.recall <= 1.0) {
        return Err(refused(format!("the recall must be above 0 and at most 1, found {}", spec.recall)));
    }
    if spec.bits.is_some_and(|bits| bits != 8) {
        return Err(refused(format!("bits must be 8, or left out, found {}", spec.bits.unwrap_or(0))));
    }
    if spec.lists == Some(0) {
        return Err(refused("an index needs at least one list".to_owned()));
    }
    let frozen = Arc::new(dataset.frozen());
    let vectors = Vectors::open(&frozen, column).await?;
    let made = made(&vectors, spec).await?;
    store(dataset, column, &made, options).await?;
    let found = index_of(&Arc::new(dataset.frozen()), column).await?;
    found.ok_or_else(|| refused(format!("the index of column {column:?} is gone: somebody dropped it")))
}

/// The index of all vectors of a column.
async fn made(vectors: &Vectors, spec: &IndexSpec) -> Result<Made, DatasetError> {
    let table = vectors.dataset().table();
    let (size, dtype) = (vectors.size(), vectors.dtype());
    let runs: Vec<PlacedRun> =
        vectors.present().iter().map(|&(id, count)| PlacedRun { place: id, id, count }).collect();
    let ids: Vec<u64> = runs.iter().flat_map(|run| run.id..run.id + run.count).collect();
    let row_bytes = size * dtype.size_bytes();
    let mut bytes: Vec<u8> = Vec::new();
    bytes
        .try_reserve_exact(ids.len() * row_bytes)
        .map_err(|_| refused(format!("{} vectors of {row_bytes} bytes do not fit into memory", ids.len())))?;
    vectors
        .each(&runs, &mut |parts| {
            let mut parts: Vec<_> = parts.iter().collect();
            parts.sort_unstable_by_key(|part| part.run.id);
            parts.iter().for_each(|part| bytes.extend_from_slice(part.bytes(0..part.run.count as usize)));
            Ok(())
        })
        .await?;
    let samples = table.locate(vectors.name(), &ids).await?;
    let stamps: Vec<u32> = (0..ids.len()).map(|at| samples.crc(samples.tiles(at).start)).collect();
    let mut origin = Origin::default();
    for piece in table.sample_pieces(vectors.name()).await? {
        let known = origin.files.iter().rposition(|file| **file == *piece.file);
        let file = known.unwrap_or_else(|| {
            origin.files.push(piece.file.to_string());
            origin.files.len() - 1
        });
        origin.pieces.push([file as u64, piece.first_row, piece.first_id, piece.count]);
    }
    let pool = table.world().pool().clone();
    blocking(move || {
        let mut points = vec![0f32; ids.len() * size];
        let mut odd = vec![false; ids.len()];
        for (at, row) in points.chunks_exact_mut(size).enumerate() {
            widen(dtype, &bytes[at * row_bytes..(at + 1) * row_bytes], row);
            odd[at] = prepared(spec.measure, row).is_none();
        }
        let codes = spec.bits.map(|_| Codes::of(Points { values: &points, size }, &odd));
        let coded = codes.as_ref().map(|codes| {
            let mut coded = Vec::with_capacity(points.len());
            points.chunks_exact(size).for_each(|row| codes.encode(row, &mut coded));
            coded
        });
        let (lists, order) = Lists::build(&pool, &ids, points, &odd, size, spec)?;
        let (from, each) = match &coded {
            Some(coded) => (coded, size),
            None => (&bytes, row_bytes),
        };
        let mut ordered = Vec::with_capacity(from.len());
        order.iter().for_each(|at| ordered.extend_from_slice(&from[at * each..(at + 1) * each]));
        let stamps = order.iter().map(|at| stamps[*at]).collect();
        Ok(Made { lists, dtype, recall: spec.recall, origin, stamps, vectors: ordered, codes })
    })
}

/// Drops the index of a column; false if there is none.
#[boxed]
pub async fn drop_index(
    dataset: &mut Dataset,
    column: &str,
    options: &WriteOptions,
) -> Result<bool, DatasetError> {
    dataset.column(column)?;
    let names = arrays(dataset.table(), column)?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if !names.is_empty() {
        dataset.table_mut().discard(&names, options).await?;
    }
    Ok(!names.is_empty())
}

/// The indexes of vectors of a dataset, by the order of the columns.
#[boxed]
pub async fn indexes(dataset: &Arc<Dataset>) -> Result<Vec<IndexInfo>, DatasetError> {
    let mut found = Vec::new();
    for column in dataset.column_names() {
        found.extend(index_of(dataset, &column).await?);
    }
    Ok(found)
}

/// The index that a search of a column uses.
pub(crate) async fn index_of(
    dataset: &Arc<Dataset>,
    column: &str,
) -> Result<Option<IndexInfo>, DatasetError> {
    let table = dataset.table();
    let Some(prefix) = builds(table, column)?.pop() else { return Ok(None) };
    let arrays = table.hidden_names().into_iter().filter(|name| name.starts_with(&prefix));
    let sizes = arrays.map(|name| Ok(table.tensor(&name)?.stored_bytes));
    let stored_bytes = sizes.sum::<Result<u64, DatasetError>>()?;
    let covered = async {
        let stored = open(dataset, &prefix).await?;
        Ok::<u64, DatasetError>(cover(&Vectors::open(dataset, column).await?, &stored).await?.rows)
    };
    let (covered, damage) = match covered.await {
        Ok(covered) => (covered, None),
        Err(error) if is_damage(&error) => (0, Some(error.to_string())),
        Err(error) => return Err(error),
    };
    Ok(Some(match header(table, &prefix) {
        Ok(header) => IndexInfo {
            column: column.to_owned(),
            kind: "ivf".to_owned(),
            metric: header.measure,
            lists: header.lists as u64,
            rows: header.rows,
            covered,
            bits: header.bits,
            recall: header.recall,
            probes: header.probes,
            stored_bytes,
            damage,
        },
        Err(error) => IndexInfo {
            column: column.to_owned(),
            kind: "ivf".to_owned(),
            metric: String::new(),
            lists: 0,
            rows: 0,
            covered: 0,
            bits: None,
            recall: 0.0,
            probes: Vec::new(),
            stored_bytes,
            damage: Some(error.to_string()),
        },
    }))
}
