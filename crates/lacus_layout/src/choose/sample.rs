//! Samples of a sparse tensor: nonzeros that lie together in some order, and what they would take.
//!
//! Nonzeros picked at random would lie farther apart than all of them do. So a sample is everything in a few
//! slabs of the axis that comes first in the order in question.

use lacus_tensor::{DType, SparseTensor};

use crate::error::LayoutError;
use crate::header::product;
use crate::levels::Levels;
use crate::order::{reorder, sort_numbers};
use crate::packed::{Effort, Packer, Plan};
use crate::runs::gather;
use crate::tree;

/// Nonzeros that lie together, in C order, with all their coordinates and values.
pub(crate) struct Sample {
    pub(crate) columns: Vec<Vec<i64>>,
    pub(crate) values: Vec<u8>,
    dims: Vec<u64>,
    dtype: DType,
}

/// Values packed for an estimate.
const VALUES: usize = 4 << 10;

impl Sample {
    /// Takes at least `aim` nonzeros, if there are so many, that lie together when sorted by `axes`; each
    /// comes with a side, in whose units it is cut.
    pub(crate) fn new(tensor: &SparseTensor, axes: &[(usize, u64)], aim: usize) -> Sample {
        let places = slab(tensor, axes, aim);
        let column = |axis: usize| {
            let column = tensor.axis(axis);
            places.iter().map(|i| column[*i]).collect()
        };
        let dims = tensor.shape().dims().to_vec();
        Sample {
            columns: (0..dims.len()).map(column).collect(),
            values: gather(tensor.values(), tensor.dtype().size_bytes(), places.iter().copied()),
            dims,
            dtype: tensor.dtype(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.columns.first().map_or(0, Vec::len)
    }

    fn views(&self) -> Vec<&[i64]> {
        self.columns.iter().map(|column| &column[..]).collect()
    }

    /// What the gaps between the sample's cells would take, numbered in `order`: the entropy of their
    /// magnitudes and the bits below. Quick, and close to what packing makes of it.
    pub(crate) fn gap_bits(&self, order: &[usize]) -> f64 {
        if product(&self.dims).is_none_or(|cells| cells > i64::MAX as u64) {
            // The cells cannot be numbered, nor can their gaps tell orders apart.
            return 0.0;
        }
        let levels = Levels {
            axes: vec![order.to_vec()],
            origin: vec![0; self.dims.len()],
            extent: self.dims.to_vec(),
        };
        let mut cells = levels.fold(&self.views(), 0..self.len()).pop().unwrap_or_default();
        let limit = cells.iter().copied().max().unwrap_or(0) + 1;
        sort_numbers(&mut cells, limit);
        let mut counts = [0u32; 2 * 64];
        let mut raw_bits = 0;
        for pair in cells.windows(2) {
            let gap = (pair[1] - pair[0]).max(1);
            let bits = gap.ilog2();
            // The leading bit and the one below it make the symbol.
            let below = if bits == 0 { 0 } else { gap >> (bits - 1) & 1 };
            counts[2 * bits as usize + below as usize] += 1;
            raw_bits += u64::from(bits.saturating_sub(1));
        }
        let n = cells.len() as f64;
        let seen = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count));
        seen.map(|count| count * (n / count).log2()).sum::<f64>() + raw_bits as f64
    }

    /// The bytes of the sample's index, really packed.
    pub(crate) fn index_bytes(&self, levels: &Levels, effort: Effort) -> Result<f64, LayoutError> {
        if self.len() == 0 {
            return Ok(0.0);
        }
        let views = self.views();
        let c_order: Vec<usize> = (0..self.dims.len()).collect();
        let tuples = match reorder(&views, &self.dims, &c_order, &levels.order()) {
            None => levels.fold(&views, 0..self.len()),
            Some(places) => levels.fold(&views, places.iter().copied()),
        };
        Ok(tree::index_bytes(&tuples, effort, &mut Packer::default())? as f64)
    }

    /// The bytes of the sample's values.
    pub(crate) fn value_bytes(&self, effort: Effort) -> Result<f64, LayoutError> {
        let dtype = self.dtype;
        let part = &self.values[..self.values.len().min(VALUES * dtype.size_bytes())];
        let mut packer = Packer::default();
        let plan = Plan::for_values(dtype, part, effort, &mut packer)?;
        let mut packed = Vec::new();
        packer.write_values(dtype, part, &plan, &mut packed)?;
        Ok(packed.len() as f64 * self.values.len() as f64 / part.len().max(1) as f64)
    }
}

/// Nonzeros that lie together when sorted by `axes` (each with a side, in whose units it is cut): all those
/// of one or a few slabs of the first axis, of which only some slabs of the second if these are too many,
/// and so on. At least `aim` of them if there are so many, ascending.
fn slab(tensor: &SparseTensor, axes: &[(usize, u64)], aim: usize) -> Vec<usize> {
    let mut places: Vec<usize> = Vec::new();
    let mut count = tensor.nnz();
    for (axis, side) in axes {
        if count <= 4 * aim {
            break;
        }
        let among = (count < tensor.nnz()).then_some(&places[..]);
        // Slabs spread evenly stand for the whole. If they are nearly empty, the nonzeros are crowded
        // elsewhere: slabs around some of them are then the better sample.
        let column = tensor.axis(*axis);
        let dim = tensor.shape().dims()[*axis];
        let side = widened(*side, dim, count, aim);
        let slabs = dim.div_ceil(side).max(1);
        let evenly = (0..SEEDS as u64)
            .map(|k| (u128::from(slabs) * u128::from(2 * k + 1) / (2 * SEEDS as u128)) as u64);
        let mut chosen = in_slabs(column, among, *axis == 0, dim, side, evenly.collect(), aim);
        if chosen.len() < aim / 4 {
            let at_nonzeros = (0..SEEDS).map(|k| {
                let at = count * (2 * k + 1) / (2 * SEEDS);
                column[among.map_or(at, |places| places[at])] as u64 / side
            });
            chosen = in_slabs(column, among, *axis == 0, dim, side, at_nonzeros.collect(), aim);
        }
        if chosen.len() < aim / 8 {
            break;
        }
        places = chosen;
        count = places.len();
    }
    if count == tensor.nnz() {
        places = (0..count).collect();
    }
    if count > 16 * aim {
        // The axes could not tell them apart: neighbours in storage order are the best there is.
        let from = (count - 4 * aim) / 2;
        places = places[from..from + 4 * aim].to_vec();
    }
    places
}

/// A multiple of `side` so wide that as many slabs as there are seeds hold `aim` of `count` nonzeros, if all
/// hold the same.
fn widened(side: u64, dim: u64, count: usize, aim: usize) -> u64 {
    let slabs = dim.div_ceil(side).max(1);
    let times = (u128::from(slabs) * aim as u128).div_ceil((SEEDS * count.max(1)) as u128);
    side.saturating_mul(u64::try_from(times).unwrap_or(u64::MAX))
}

/// The nonzeros in slabs `side` wide of one axis, among the given ones or all: whole slabs from all over the
/// axis until they hold `aim`.
fn in_slabs(
    column: &[i64],
    among: Option<&[usize]>,
    is_sorted: bool,
    dim: u64,
    side: u64,
    mut slabs: Vec<u64>,
    aim: usize,
) -> Vec<usize> {
    slabs.sort_unstable();
    slabs.dedup();
    let slab_of = |at: u64| slabs.binary_search(&(at / side)).ok();
    // By table where the axis is not too long.
    let table: Vec<u8> = match dim <= LONGEST_TABLE {
        true => (0..dim).map(|at| slab_of(at).map_or(u8::MAX, |k| k as u8)).collect(),
        false => Vec::new(),
    };
    let mut found: Vec<Vec<usize>> = vec![Vec::new(); slabs.len()];
    let look = |found: &mut [Vec<usize>], i: usize| {
        let at = column[i] as u64;
        let slab = match table.get(at as usize) {
            Some(&u8::MAX) => None,
            Some(k) => Some(usize::from(*k)),
            None => slab_of(at),
        };
        if let Some(k) = slab {
            found[k].push(i);
        }
    };
    match among {
        // The first axis is in order: each slab is one run.
        None if is_sorted => {
            for (slab, found) in slabs.iter().zip(&mut found) {
                let start = slab.saturating_mul(side).min(i64::MAX as u64) as i64;
                let end = slab.saturating_add(1).saturating_mul(side).min(i64::MAX as u64) as i64;
                let run = column.partition_point(|at| *at < start)..column.partition_point(|at| *at < end);
                found.extend(run);
            }
        }
        None => (0..column.len()).for_each(|i| look(&mut found, i)),
        Some(places) => places.iter().for_each(|i| look(&mut found, *i)),
    }
    // In the order of reversed bits, any first few of them are spread; the middle one comes first.
    let mut spread: Vec<usize> = (0..found.len()).collect();
    let half = found.len().div_ceil(2);
    spread.sort_by_key(|k| ((k + half) % found.len()).reverse_bits());
    let mut chosen: Vec<usize> = Vec::new();
    for k in spread {
        if chosen.len() >= aim {
            break;
        }
        chosen.append(&mut found[k]);
    }
    chosen.sort_unstable();
    chosen
}

/// Slabs looked at: the more, the better they stand for the whole, as far as they can be narrow.
const SEEDS: usize = 32;

/// A table of this many bytes stays in the second-level cache.
const LONGEST_TABLE: u64 = 1 << 18;
