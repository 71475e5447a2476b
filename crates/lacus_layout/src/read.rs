//! A sparse tensor from its decoded chunks: put together, in C order, on several threads.

use std::sync::Mutex;

use lacus_tensor::{Buffer, Selection, SparseTensor, TensorError};
use lacus_threads::Team;

use crate::chunk::{Codec, Coords, Scratch};
use crate::decode::{chunk_nnz, decode_into, decode_sparse, levels_of};
use crate::error::LayoutError;
use crate::header::{Header, Layout};
use crate::order::reorder;
use crate::part::SparsePart;
use crate::runs::gather;
use crate::sparse_blocks::{block_sequence, in_c_order};

/// One stored chunk row, as fetched.
#[derive(Debug, Clone, Copy)]
pub struct StoredChunk<'a> {
    /// Its coordinates.
    pub coords: Coords,
    /// How to read its bytes.
    pub codec: Codec,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// Decodes the chunks that [`wanted`](crate::wanted) named, in that order, and puts them together on the
/// threads of a team: what [`decode_sparse`] and [`assemble`] do, without their copies where everything is
/// selected.
///
/// Fails with a corrupt error if a chunk cannot be decoded, if chunks overlap, or if all of them together
/// do not hold the nonzeros that the header counts.
pub fn read_sparse(
    header: &Header,
    selection: &Selection,
    chunks: &[StoredChunk<'_>],
    team: Team<'_>,
) -> Result<SparseTensor, LayoutError> {
    if selection.is_all() && *selection.input_shape() == header.shape {
        return read_all(header, chunks, team);
    }
    let parts = on_team(team, chunks.iter().collect(), |chunk: &StoredChunk<'_>, scratch| {
        decode_sparse(header, &chunk.coords, chunk.codec, chunk.bytes, selection, scratch)
    })?;
    assemble(header, selection, parts, team)
}

/// Puts the parts of a selection together, in any order, sorted if need be.
///
/// Fails with a corrupt error if two of them hold the same element.
pub fn assemble(
    header: &Header,
    selection: &Selection,
    parts: Vec<SparsePart>,
    team: Team<'_>,
) -> Result<SparseTensor, LayoutError> {
    let shape = selection.output_shape();
    let (rank, width) = (shape.rank(), header.dtype.size_bytes());
    let nnz = parts.iter().map(|part| part.values.len()).sum::<usize>() / width;
    let (mut coords, mut values) = nonzeros(rank, nnz, width)?;
    let mut start = 0;
    for part in &parts {
        let count = part.values.len() / width;
        if part.coords.len() != rank || part.coords.iter().any(|column| column.len() != count) {
            return Err(LayoutError::unsupported(header.layout.name(), "a part of another selection"));
        }
        values[start * width..][..part.values.len()].copy_from_slice(&part.values);
        let all = coords.cast_mut::<i64>();
        for (axis, column) in part.coords.iter().enumerate() {
            all[axis * nnz + start..][..count].copy_from_slice(column);
        }
        start += count;
    }
    drop(parts);
    let columns = columns_of(&coords, nnz);
    if (1..nnz).all(|i| compare(&columns, i - 1, i).is_lt()) {
        return Ok(SparseTensor::from_sorted(header.dtype, shape.clone(), coords, values));
    }
    let every: Vec<usize> = (0..rank).collect();
    let order = reorder(&columns, shape.dims(), &[], &every);
    let (coords, values) = match order {
        Some(order) => permute(&columns, &values, width, &order, team),
        None => (coords, values),
    };
    let columns = columns_of(&coords, nnz);
    if let Some(i) = (1..nnz).find(|i| compare(&columns, i - 1, *i).is_ge()) {
        let place: Vec<i64> = columns.iter().map(|column| column[i]).collect();
        return Err(LayoutError::corrupt("chunks", format!("two of them hold the element at {place:?}")));
    }
    Ok(SparseTensor::from_sorted(header.dtype, shape.clone(), coords, values))
}

/// Below this many nonzeros a thread costs more than it saves.
const THREADS_FROM: usize = 1 << 16;

fn read_all(
    header: &Header,
    chunks: &[StoredChunk<'_>],
    team: Team<'_>,
) -> Result<SparseTensor, LayoutError> {
    let bad = |detail: String| Err(LayoutError::corrupt("chunks", detail));
    if let Some(pair) = chunks.windows(2).find(|pair| pair[0].coords >= pair[1].coords) {
        return bad(format!("{:?} does not come after {:?}", pair[1].coords, pair[0].coords));
    }
    let counts: Vec<u64> = chunks.iter().map(|chunk| chunk_nnz(chunk.bytes)).collect::<Result<_, _>>()?;
    let total = counts.iter().try_fold(0u64, |sum, count| sum.checked_add(*count));
    // Checked before anything is allocated: what the chunks claim is bounded by their bytes.
    if total != header.nnz {
        let count = |count: Option<u64>| count.map_or("too many".to_owned(), |count| count.to_string());
        return bad(format!("{} nonzeros are stored where {} belong", count(total), count(header.nnz)));
    }
    for (chunk, count) in chunks.iter().zip(&counts) {
        crate::packed::Reader::new(chunk.bytes)
            .check_frames(usize::try_from(*count).unwrap_or(usize::MAX))?;
    }
    let nnz = counts.iter().sum::<u64>() as usize;
    let (rank, width) = (header.shape.rank(), header.dtype.size_bytes());
    let (mut coords, mut values) = nonzeros(rank, nnz, width)?;

    // Each chunk owns its piece of every column.
    let mut pieces = Vec::with_capacity(chunks.len());
    let mut columns: Vec<&mut [i64]> = match nnz {
        0 => Vec::new(),
        _ => coords.cast_mut::<i64>().chunks_exact_mut(nnz).collect(),
    };
    let mut rest = &mut values[..];
    for (chunk, count) in chunks.iter().zip(&counts) {
        let count = *count as usize;
        let mut mine = Vec::with_capacity(rank);
        for column in &mut columns {
            let (piece, others) = std::mem::take(column).split_at_mut(count);
            mine.push(piece);
            *column = others;
        }
        let (piece, others) = rest.split_at_mut(count * width);
        rest = others;
        pieces.push((chunk, mine, piece));
    }
    let team = if nnz < THREADS_FROM { Team::alone() } else { team };
    let dims = header.shape.dims();
    // Blocks are sorted one by one only where the whole is then in order.
    let sort =
        matches!(&header.layout, Layout::SparseBlocks { block_shape, .. } if in_c_order(dims, block_shape));
    on_team(team, pieces, |(chunk, mut columns, values), scratch| {
        decode_into(header, &chunk.coords, chunk.codec, chunk.bytes, &mut columns, values, sort, scratch)
    })?;

    let columns = columns_of(&coords, nnz);
    let c_order: Vec<usize> = (0..rank).collect();
    let order = match (&header.layout, chunks.first()) {
        (_, None) => None,
        (Layout::SparseBlocks { .. }, _) if sort => None,
        (Layout::SparseBlocks { block_shape, axis_order }, _) => {
            reorder(&columns, dims, block_sequence(dims, block_shape, axis_order), &c_order)
        }
        (_, Some(chunk)) => {
            let from = levels_of(header, &chunk.coords)?.order();
            let in_order: Vec<&[i64]> = from.iter().map(|axis| columns[*axis]).collect();
            let mut start = 0;
            for count in &counts[..counts.len() - 1] {
                start += *count as usize;
                if compare(&in_order, start - 1, start).is_ge() {
                    return bad(format!("two of them overlap around nonzero {start}"));
                }
            }
            reorder(&columns, dims, &from, &c_order)
        }
    };
    if let Some(order) = order {
        (coords, values) = permute(&columns, &values, width, &order, team);
    }
    Ok(SparseTensor::from_sorted(header.dtype, header.shape.clone(), coords, values))
}

fn columns_of(coords: &Buffer, nnz: usize) -> Vec<&[i64]> {
    match nnz {
        0 => Vec::new(),
        _ => coords.cast::<i64>().chunks_exact(nnz).collect(),
    }
}

fn compare(columns: &[&[i64]], a: usize, b: usize) -> std::cmp::Ordering {
    columns
        .iter()
        .map(|column| column[a].cmp(&column[b]))
        .find(|ordering| ordering.is_ne())
        .unwrap_or(std::cmp::Ordering::Equal)
}

/// Memory for the coordinates and values of nonzeros.
fn nonzeros(rank: usize, nnz: usize, width: usize) -> Result<(Buffer, Buffer), LayoutError> {
    let named = |error: TensorError| error.for_what(format!("{nnz} nonzeros"));
    let coords = Buffer::try_for_overwrite(rank.saturating_mul(nnz).saturating_mul(8)).map_err(named)?;
    let values = Buffer::try_for_overwrite(nnz.saturating_mul(width)).map_err(named)?;
    Ok((coords, values))
}

/// Columns and values in another order, into fresh buffers. Bound by memory: a third thread gains nothing.
fn permute(
    columns: &[&[i64]],
    values: &[u8],
    width: usize,
    order: &[usize],
    team: Team<'_>,
) -> (Buffer, Buffer) {
    let mut coords = Buffer::for_overwrite(columns.len() * order.len() * 8);
    let team = if order.len() < THREADS_FROM { Team::alone() } else { team.at_most(2) };
    let outs = coords.cast_mut::<i64>().chunks_exact_mut(order.len().max(1));
    // The values are one task more, the first, as it takes longest.
    let columns = columns.iter().zip(outs).map(Some);
    let sorted = team.map(std::iter::once(None).chain(columns).collect(), |task| match task {
        None => Some(Buffer::from_slice(&gather(values, width, order.iter().copied()))),
        Some((column, out)) => {
            for (out, place) in out.iter_mut().zip(order) {
                *out = column[*place];
            }
            None
        }
    });
    let sorted = sorted.into_iter().flatten().next().unwrap_or_default();
    (coords, sorted)
}

/// Runs `task` on every item, each thread with its own scratch, and keeps the order of the results. The first error
/// that is seen ends it.
fn on_team<I: Send, O: Send>(
    team: Team<'_>,
    items: Vec<I>,
    task: impl Fn(I, &mut Scratch) -> Result<O, LayoutError> + Sync,
) -> Result<Vec<O>, LayoutError> {
    let failed: Mutex<Option<LayoutError>> = Mutex::new(None);
    let done = team.map_with(items, Scratch::new, |item, scratch| {
        let locked = || failed.lock().unwrap_or_else(|e| e.into_inner());
        if locked().is_some() {
            return None;
        }
        match task(item, scratch) {
            Ok(done) => Some(done),
            Err(error) => {
                locked().get_or_insert(error);
                None
            }
        }
    });
    match failed.into_inner().unwrap_or_else(|e| e.into_inner()) {
        Some(error) => Err(error),
        None => Ok(done.into_iter().flatten().collect()),
    }
}
