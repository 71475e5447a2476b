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

    /// About `aim` of the sample's nonzeros, which lie together as the sample's do in any order of axes that
    /// begins with `outer`, after axes of which there are few indices: all those of some slabs of it, taken
    /// at equal steps, so that each nonzero is as likely to be among them.
    ///
    /// The slabs are moved together, and the gap from one to the next is much like what it was. `None` if
    /// there are no such slabs.
    pub(crate) fn thinned(&self, outer: usize, aim: usize) -> Option<Sample> {
        let column = &self.columns[outer];
        let (low, high) = (column.iter().min()?, column.iter().max()?);
        let indices = high.abs_diff(*low).checked_add(1)?;
        // Each holds so many nonzeros that the gap to the next hardly counts.
        let slab_count = (self.len() / FEWEST_IN_SLAB).min(usize::try_from(indices).unwrap_or(usize::MAX));
        let width = indices.div_ceil(slab_count.max(1) as u64);
        let step = (self.len() / aim.max(1)).min(slab_count / FEWEST_SLABS) as u64;
        if step < 2 {
            return None;
        }
        let moved = |at: &i64| {
            let (slab, within) = (at.abs_diff(*low) / width, at.abs_diff(*low) % width);
            (slab % step == step / 2).then_some((slab / step * width + within) as i64)
        };
        // By table where there are few enough indices: a division takes longer than all the rest.
        let table: Vec<i64> = match indices <= self.len() as u64 {
            true => (*low..=*high).map(|at| moved(&at).unwrap_or(-1)).collect(),
            false => Vec::new(),
        };
        let look = |at: &i64| match table.get(at.abs_diff(*low) as usize) {
            Some(moved) => (*moved >= 0).then_some(*moved),
            None => moved(at),
        };
        let (places, within): (Vec<usize>, Vec<i64>) =
            column.iter().enumerate().filter_map(|(i, at)| Some((i, look(at)?))).unzip();
        let expected = self.len() / step as usize;
        if !(expected / 2..=2 * expected).contains(&places.len()) {
            return None;
        }
        let mut columns: Vec<Vec<i64>> =
            self.columns.iter().map(|column| places.iter().map(|i| column[*i]).collect()).collect();
        columns[outer] = within;
        Some(Sample { columns, values: Vec::new(), dims: self.dims.clone(), dtype: self.dtype })
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
    pub(crate) fn index_bytes(
        &self,
        levels: &Levels,
        effort: Effort,
        packer: &mut Packer,
    ) -> Result<f64, LayoutError> {
        if self.len() == 0 {
            return Ok(0.0);
        }
        let views = self.views();
        let c_order: Vec<usize> = (0..self.dims.len()).collect();
        let tuples = match reorder(&views, &self.dims, &c_order, &levels.order()) {
            None => levels.fold(&views, 0..self.len()),
            Some(places) => levels.fold(&views, places.iter().copied()),
        };
        Ok(tree::index_bytes(&tuples, effort, packer)? as f64)
    }

    /// The bytes of the sample's values.
    pub(crate) fn value_bytes(&self, effort: Effort, packer: &mut Packer) -> Result<f64, LayoutError> {
        Plan::bytes_of_values(self.dtype, &self.values, effort, packer)
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
    // In the order of reversed bits, any first few of them are spread; the middle one comes first.
    let mut spread: Vec<usize> = (0..slabs.len()).collect();
    let half = slabs.len().div_ceil(2);
    spread.sort_by_key(|k| ((k + half) % slabs.len()).reverse_bits());
    let mut chosen: Vec<usize> = Vec::new();
    if among.is_none() && is_sorted {
        // The first axis is in order: each slab is one run.
        for k in spread {
            if chosen.len() >= aim {
                break;
            }
            let start = slabs[k].saturating_mul(side).min(i64::MAX as u64) as i64;
            let end = slabs[k].saturating_add(1).saturating_mul(side).min(i64::MAX as u64) as i64;
            chosen.extend(column.partition_point(|at| *at < start)..column.partition_point(|at| *at < end));
        }
        chosen.sort_unstable();
        return chosen;
    }
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
        None => (0..column.len()).for_each(|i| look(&mut found, i)),
        Some(places) => places.iter().for_each(|i| look(&mut found, *i)),
    }
    for k in spread {
        if chosen.len() >= aim {
            break;
        }
        chosen.append(&mut found[k]);
    }
    chosen.sort_unstable();
    chosen
}

/// Slabs of a thinned sample: fewer do not stand for the whole, nor do smaller ones.
const FEWEST_SLABS: usize = 8;
const FEWEST_IN_SLAB: usize = 64;

/// Slabs looked at: the more, the better they stand for the whole, as far as they can be narrow.
const SEEDS: usize = 32;

/// A table of this many bytes stays in the second-level cache.
const LONGEST_TABLE: u64 = 1 << 18;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thinned_sample_tells_the_same() {
        // Crowded in the middle of both long axes, a little different from hour to hour.
        let dims = vec![24u64, 400, 300];
        let noise = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        let middle =
            |i: u64, dim: u64| (noise(i) % dim + noise(i ^ 0x5555) % dim + noise(i ^ 0x3333) % dim) / 3;
        let mut cells: Vec<[i64; 3]> = (0..16_000u64)
            .map(|i| [(noise(7 * i) % 24) as i64, middle(3 * i, 400) as i64, middle(5 * i, 300) as i64])
            .collect();
        cells.sort_unstable();
        cells.dedup();
        let columns = (0..3).map(|axis| cells.iter().map(|cell| cell[axis]).collect()).collect();
        let sample = Sample { columns, values: Vec::new(), dims, dtype: DType::F32 };
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let thinned = sample.thinned(order[0], 3000).unwrap();
            assert!((2000..8000).contains(&thinned.len()), "{order:?}: {}", thinned.len());
            let bits = |sample: &Sample| sample.gap_bits(&order) / sample.len() as f64;
            let ratio = bits(&thinned) / bits(&sample);
            assert!((0.96..1.04).contains(&ratio), "{order:?}: {ratio}");
        }
        // An axis of few indices has no slabs to choose from.
        let short =
            Sample { columns: vec![vec![0, 1, 2, 3]], values: Vec::new(), dims: vec![4], dtype: DType::F32 };
        assert!(short.thinned(0, 2).is_none());
    }
}
