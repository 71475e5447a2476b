//! The vectors of a column in memory: blocks of some MiB, read once and kept as long as the budget of the process allows.
//!
//! ```text
//! rows wanted ─by block→ kept │ read whole and kept │ a few rows: read by themselves
//! ```
//!
//! A block is the rows of a range of ids. Its name says which rows of which files it was read from, so that it serves all states
//! and branches that have these rows, and an append makes new blocks only.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use lacus_dataset::{Batch, Dataset, DatasetError, PlacedRun};
use lacus_io::blocking;
use lacus_table::{Form, SamplePiece};
use lacus_tensor::{DType, Tensor};

use super::placed::{between, extend};

/// About the bytes of a block: it is read at once, and kept or dropped at once.
const BLOCK_BYTES: u64 = 4 << 20;

/// Bytes that are read before anything is done with them.
const WAVE_BYTES: u64 = 64 << 20;

/// Blocks that are read at the same time.
const AT_ONCE: usize = 4;

/// If fewer than one in so many rows of a block are wanted, they are read by themselves.
const FEW: u64 = 8;

/// A column of vectors of one size, at one state.
#[derive(Clone, Debug)]
pub(crate) struct Vectors {
    dataset: Arc<Dataset>,
    name: String,
    layout: Arc<Layout>,
}

/// Which blocks there are.
#[derive(Debug)]
struct Layout {
    dtype: DType,
    /// Elements of a vector.
    size: usize,
    /// Ids of rows that have a vector, ascending.
    present: Vec<(u64, u64)>,
    /// Ids in the range of a block.
    span: u64,
    /// Ascending by number: the first id of a block is its number times the span.
    plans: Vec<Plan>,
}

#[derive(Debug)]
struct Plan {
    number: u64,
    /// Its name.
    key: String,
    /// Ids, ascending.
    runs: Vec<(u64, u64)>,
    rows: u64,
}

/// Some vectors.
#[derive(Debug)]
pub(crate) struct Block {
    /// First id, count, and the row of the tensor that the first is.
    runs: Vec<(u64, u64, usize)>,
    vectors: Tensor,
}

/// Rows that were asked for, and where their vectors are.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    block: Arc<Block>,
    first_row: usize,
    /// The rows.
    pub run: PlacedRun,
}

impl Part {
    /// The bytes of the vectors of some of its rows, by number.
    pub(crate) fn bytes(&self, rows: std::ops::Range<usize>) -> &[u8] {
        let vectors = &self.block.vectors;
        let each = vectors.bytes().len() / (vectors.shape().dims()[0] as usize).max(1);
        &vectors.bytes()[(self.first_row + rows.start) * each..(self.first_row + rows.end) * each]
    }
}

/// What is searched: the dtype and size of the vectors of a column. Fails for columns that hold no vectors of one size.
pub(crate) fn vector_type(dataset: &Dataset, name: &str) -> Result<(DType, usize), DatasetError> {
    let column = dataset.column(name)?;
    let refused = |why: String| DatasetError::Refused { op: "search", why };
    let shape = column.fixed_shape();
    let is_vector = dataset.table().column(name)?.header.form == Form::Data
        && !column.htype().sequence
        && !column.htype().link
        && !column.files_keep_dtype();
    match (column.dtype().filter(|dtype| !dtype.is_complex()), shape.as_deref()) {
        (Some(dtype), Some([size])) if is_vector && *size > 0 => Ok((dtype, *size as usize)),
        _ => {
            let header = column.header();
            Err(refused(format!(
                "column {name:?} holds {} of dtype {:?} and shape {:?}; a search needs vectors that all have the same length, \
                 for example a column added with dtype=\"float32\", shape=(384,)",
                header.htype, header.dtype, header.shape
            )))
        }
    }
}

impl Vectors {
    /// The vectors of a column.
    pub(crate) async fn open(dataset: &Arc<Dataset>, name: &str) -> Result<Vectors, DatasetError> {
        let (dtype, size) = vector_type(dataset, name)?;
        let (table, made) = (dataset.table(), |layout| Vectors {
            dataset: Arc::clone(dataset),
            name: name.to_owned(),
            layout,
        });
        let key = format!("vectors {name} {}", table.content_key(name)?);
        if let Some(layout) = table.store().place().get::<Layout>(&key) {
            return Ok(made(layout));
        }
        let pieces = table.sample_pieces(name).await?;
        let layout = Arc::new(blocking(|| planned(name, dtype, size, &pieces)));
        let bytes = layout.plans.iter().map(|plan| 128 + 16 * plan.runs.len() as u64).sum::<u64>();
        table.store().place().put(key, Arc::clone(&layout), bytes + 16 * layout.present.len() as u64);
        Ok(made(layout))
    }

    pub(crate) fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn dtype(&self) -> DType {
        self.layout.dtype
    }

    /// Elements of a vector.
    pub(crate) fn size(&self) -> usize {
        self.layout.size
    }

    fn row_bytes(&self) -> u64 {
        (self.layout.size * self.layout.dtype.size_bytes()) as u64
    }

    /// Ids of rows that have a vector, ascending.
    pub(crate) fn present(&self) -> &[(u64, u64)] {
        &self.layout.present
    }

    /// Hands the vectors of rows to `work`, in parts, as many at once as are held at once. The rows ascend by id and have vectors.
    pub(crate) async fn each(
        &self,
        runs: &[PlacedRun],
        work: &mut (dyn FnMut(Vec<Part>) -> Result<(), DatasetError> + Send),
    ) -> Result<(), DatasetError> {
        let plans = &self.layout.plans;
        let (mut wave, mut held): (Vec<(usize, Vec<PlacedRun>)>, u64) = (Vec::new(), 0);
        let (mut at, mut rest) = (0, runs.iter().copied());
        let mut left: Option<PlacedRun> = None;
        while let Some(run) = left.take().or_else(|| rest.next()) {
            let number = run.id / self.layout.span;
            while plans.get(at).is_some_and(|plan| plan.number < number) {
                at += 1;
            }
            // Repeated rows come again with lower ids.
            if plans.get(at).is_none_or(|plan| plan.number != number) {
                at = plans.partition_point(|plan| plan.number < number);
            }
            let Some(plan) = plans.get(at).filter(|plan| plan.number == number) else {
                return Err(missing(&self.name, run.id));
            };
            let end = (number + 1).saturating_mul(self.layout.span);
            left = between(&run, end, u64::MAX);
            let run = between(&run, 0, end).unwrap_or(run);
            match wave.last_mut() {
                Some((last, runs)) if *last == at => runs.push(run),
                _ => {
                    if held >= WAVE_BYTES {
                        self.wave(std::mem::take(&mut wave), work).await?;
                        held = 0;
                    }
                    let is_kept = self.dataset.table().store().place().get::<Block>(&plan.key).is_some();
                    held += if is_kept { 0 } else { plan.rows * self.row_bytes() };
                    wave.push((at, vec![run]));
                }
            }
        }
        match wave.is_empty() {
            true => Ok(()),
            false => self.wave(wave, work).await,
        }
    }

    async fn wave(
        &self,
        wanted: Vec<(usize, Vec<PlacedRun>)>,
        work: &mut (dyn FnMut(Vec<Part>) -> Result<(), DatasetError> + Send),
    ) -> Result<(), DatasetError> {
        let place = self.dataset.table().store().place();
        let (mut parts, mut few, mut loads) = (Vec::new(), Vec::new(), Vec::new());
        for (at, runs) in wanted {
            let plan = &self.layout.plans[at];
            let rows: u64 = runs.iter().map(|run| run.count).sum();
            match place.get::<Block>(&plan.key) {
                Some(block) => add_parts(&mut parts, &block, &runs, &self.name)?,
                None if rows.saturating_mul(FEW) < plan.rows => few.extend(runs),
                None => loads.push((at, runs)),
            }
        }
        let loaded: Vec<(Arc<Block>, Vec<PlacedRun>)> = futures::stream::iter(loads)
            .map(|(at, runs)| async move {
                let plan = &self.layout.plans[at];
                let vectors = self.read(&plan.runs).await?;
                let block = Arc::new(Block::new(&plan.runs, vectors));
                let bytes = block.vectors.bytes().len() + 24 * block.runs.len();
                self.dataset.table().store().place().put(plan.key.clone(), Arc::clone(&block), bytes as u64);
                Ok::<_, DatasetError>((block, runs))
            })
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        for (block, runs) in &loaded {
            add_parts(&mut parts, block, runs, &self.name)?;
        }
        if !few.is_empty() {
            let ids: Vec<(u64, u64)> = few.iter().map(|run| (run.id, run.count)).collect();
            let block = Arc::new(Block::new(&ids, self.read(&ids).await?));
            let firsts: Vec<usize> = block.runs.iter().map(|(_, _, row)| *row).collect();
            let of =
                |(run, first_row): (PlacedRun, usize)| Part { block: Arc::clone(&block), first_row, run };
            parts.extend(few.into_iter().zip(firsts).map(of));
        }
        blocking(|| work(parts))
    }

    /// The vectors of rows, in the order of their ids.
    async fn read(&self, ids: &[(u64, u64)]) -> Result<Tensor, DatasetError> {
        let axis = self.dataset.table().rows().await?;
        let mut positions = Vec::new();
        for &(first, count) in ids {
            for id in first..first + count {
                positions.push(axis.position(id).ok_or_else(|| missing(&self.name, id))?);
            }
        }
        match self.dataset.read(&self.name, &positions, &[]).await? {
            Batch::Stacked(tensor) => Ok(tensor),
            Batch::Values(_) => Err(missing(&self.name, ids.first().map_or(0, |(first, _)| *first))),
        }
    }
}

impl Block {
    fn new(ids: &[(u64, u64)], vectors: Tensor) -> Block {
        let mut row = 0;
        let run = |&(first, count): &(u64, u64)| {
            row += count as usize;
            (first, count, row - count as usize)
        };
        Block { runs: ids.iter().map(run).collect(), vectors }
    }
}

/// A row that has a vector by all that is known, and has none.
fn missing(name: &str, id: u64) -> DatasetError {
    let why = format!("column {name:?}: the vector of the row with id {id} is not where it should be");
    DatasetError::Refused { op: "search", why }
}

fn add_parts(
    parts: &mut Vec<Part>,
    block: &Arc<Block>,
    runs: &[PlacedRun],
    name: &str,
) -> Result<(), DatasetError> {
    for run in runs {
        let (mut id, end) = (run.id, run.id + run.count);
        let mut at = block.runs.partition_point(|(first, count, _)| first + count <= id);
        while id < end {
            let Some(&(first, count, row)) = block.runs.get(at).filter(|(first, _, _)| *first <= id) else {
                return Err(missing(name, id));
            };
            let next = (first + count).min(end);
            let run = PlacedRun { place: run.place + (id - run.id), id, count: next - id };
            parts.push(Part { block: Arc::clone(block), first_row: row + (id - first) as usize, run });
            id = next;
            at += 1;
        }
    }
    Ok(())
}

/// Cuts the rows of a column into blocks.
fn planned(name: &str, dtype: DType, size: usize, pieces: &[SamplePiece]) -> Layout {
    let row_bytes = (size * dtype.size_bytes()).max(1) as u64;
    let span = (BLOCK_BYTES / row_bytes).clamp(64, 64 << 10).next_power_of_two();
    let mut present = Vec::new();
    let mut plans: Vec<(Plan, DefaultHasher, DefaultHasher)> = Vec::new();
    for piece in pieces {
        extend(&mut present, piece.first_id, piece.count);
        let (mut id, end) = (piece.first_id, piece.first_id + piece.count);
        while id < end {
            let number = id / span;
            let next = ((number + 1) * span).min(end);
            if plans.last().is_none_or(|(plan, ..)| plan.number != number) {
                let plan = Plan { number, key: String::new(), runs: Vec::new(), rows: 0 };
                let (first, mut second) = (DefaultHasher::new(), DefaultHasher::new());
                second.write_u8(1);
                plans.push((plan, first, second));
            }
            if let Some((plan, first, second)) = plans.last_mut() {
                let what = (&piece.file, piece.first_row + (id - piece.first_id), id, next - id);
                what.hash(first);
                what.hash(second);
                extend(&mut plan.runs, id, next - id);
                plan.rows += next - id;
            }
            id = next;
        }
    }
    let named = |(plan, first, second): (Plan, DefaultHasher, DefaultHasher)| {
        let digest = format!("{:016x}{:016x}", first.finish(), second.finish());
        Plan { key: format!("vectors {name} {dtype} {size} {digest}"), ..plan }
    };
    Layout { dtype, size, present, span, plans: plans.into_iter().map(named).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_change_only_where_rows_do() {
        let piece = |first_id, count, file: &str, first_row| SamplePiece {
            first_id,
            count,
            file: file.into(),
            first_row,
        };
        // 4 KiB a vector: 1024 of them in a block.
        let keys = |pieces: &[SamplePiece]| -> Vec<String> {
            planned("v", DType::F32, 1024, pieces).plans.into_iter().map(|plan| plan.key).collect()
        };
        let before = [piece(0, 3000, "a", 0)];
        let layout = planned("v", DType::F32, 1024, &before);
        assert_eq!((layout.span, layout.present), (1024, vec![(0, 3000)]));
        assert_eq!(layout.plans.iter().map(|plan| plan.rows).collect::<Vec<_>>(), [1024, 1024, 952]);
        let old = keys(&before);
        let appended = keys(&[piece(0, 3000, "a", 0), piece(9000, 5, "b", 0)]);
        assert_eq!((&appended[..3], appended.len()), (&old[..], 4));
        let updated = keys(&[piece(0, 1500, "a", 0), piece(1500, 1, "b", 7), piece(1501, 1499, "a", 1501)]);
        assert!(updated[0] == old[0] && updated[1] != old[1] && updated[2] == old[2]);
    }
}
