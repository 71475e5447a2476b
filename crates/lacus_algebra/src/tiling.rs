//! Tiles: how an extent is cut. The cut depends on the extent alone, so that tensors that meet along an index are cut
//! alike.

use crate::error::AlgebraError;
use crate::expr::{Affine, Axis, Slot, Symbol};
use crate::network::Network;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tiles of one tensor, at most: planning looks at each.
const MAX_TILES: u64 = 1 << 20;

/// Tiles of one tensor that are aimed at when nobody said how large they shall be.
const WANTED_TILES: u64 = 1 << 14;

/// The extent of a tile when nobody said: a matrix of doubles of 8 MB, on which kernels are fast and which is quickly moved.
const WANTED_BLOCK: u64 = 1000;

/// How extents are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiling {
    block: u64,
    /// Extents are cut into at least so many tiles, where there are that many elements.
    least: u64,
    /// Into how many tiles some extents are cut instead.
    counts: Arc<BTreeMap<u64, u64>>,
}

/// Tiles are no longer than this along any axis.
const LONGEST: u64 = 1 << 31;

impl Tiling {
    /// Tiles of a given extent.
    pub fn of_block(block: u64) -> Tiling {
        Tiling { block: block.max(1), least: 1, counts: Arc::default() }
    }

    /// Tiles for a network: of the extent asked for, else such that every site can have one along any axis. Fails if a
    /// tensor has more tiles than can be planned.
    pub fn choose(network: &Network, block: Option<u64>, sites: u64) -> Result<Tiling, AlgebraError> {
        let mut tiling = match block {
            Some(block) => Tiling::of_block(block),
            None => Tiling { block: WANTED_BLOCK, least: sites, counts: Arc::default() },
        };
        let most =
            |tiling: &Tiling| network.values.iter().map(|value| Tiles::count(tiling, &value.dims)).max();
        while block.is_none() && most(&tiling).unwrap_or(0) > WANTED_TILES && tiling.block < u64::MAX / 4 {
            tiling.block *= 2;
            if tiling.block > WANTED_BLOCK << 8 {
                tiling.least = tiling.least.div_ceil(2);
            }
        }
        tiling.check(network)?;
        Ok(tiling)
    }

    /// The largest tiles of which each takes at most so many bytes, such that operators with much to do have tiles for
    /// several to work on. `bytes` says what a whole value takes: less than its elements would if it is sparse. Fails if a
    /// tensor has more tiles than can be planned.
    pub fn by_bytes(
        network: &Network,
        bytes: impl Fn(Slot) -> f64,
        tile_bytes: u64,
    ) -> Result<Tiling, AlgebraError> {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        let sizes: Vec<(Vec<u64>, f64)> = network
            .present()
            .into_iter()
            .map(|slot| (network.value(slot).dims.clone(), bytes(slot)))
            .filter(|(dims, _)| !dims.is_empty() && !dims.contains(&0))
            .collect();
        // What is stored of a value: less than one if it is sparse.
        let share = |slot: Slot| {
            let value = network.value(slot);
            let all: f64 = value.dims.iter().map(|&n| n as f64).product();
            bytes(slot) / (all * value.dtype.size_bytes() as f64).max(1.0)
        };
        sizes.iter().flat_map(|(dims, _)| dims).for_each(|&extent| {
            counts.insert(extent, 1);
        });
        for (dims, whole) in &sizes {
            while whole / tiles(dims, &counts) > tile_bytes as f64 && split_longest(dims, &mut counts) {}
        }
        for at in network.running() {
            let operator = &network.operators[at];
            let labels: Vec<u64> = operator.labels().iter().map(|axis| axis.extent).collect();
            let least = operator.reads.iter().map(|read| share(read.value)).fold(1.0, f64::min);
            let work = labels.iter().map(|&extent| extent as f64).product::<f64>()
                * (least * SPARSE_OPERATIONS).min(1.0);
            let wanted = (work / WORTH_A_TASK).min(WANTED_TASKS);
            while tiles(&labels, &counts) < wanted && split_longest(&labels, &mut counts) {}
        }
        // What is read by other positions than indices of the same extent lies in two tiles along an axis, and not in more.
        for at in network.running() {
            let operator = &network.operators[at];
            let labels = operator.labels();
            for read in &operator.reads {
                for (at, &extent) in read.at.iter().zip(&network.value(read.value).dims) {
                    while split_reach(at, extent, &labels, &mut counts) {}
                }
            }
        }
        // Columns of sparse tiles are numbers of 32 bits; dense tiles are never as long.
        for (&extent, count) in &mut counts {
            *count = (*count).max(extent.div_ceil(LONGEST));
        }
        // Tiles of a matrix are dealt out evenly, to any power of two.
        counts.values_mut().filter(|count| **count > 2).for_each(|count| *count = count.next_multiple_of(4));
        let tiling = Tiling { block: u64::MAX, least: 1, counts: Arc::new(counts) };
        tiling.check(network)?;
        Ok(tiling)
    }

    fn check(&self, network: &Network) -> Result<(), AlgebraError> {
        for value in network.present().into_iter().map(|slot| network.value(slot)) {
            let found = Tiles::count(self, &value.dims);
            if found > MAX_TILES {
                let blocks = Tiles::of(self, &value.dims).blocks;
                let found = format!("{found} tiles of '{}' {:?} at {blocks:?} each", value.name, value.dims);
                let (what, expected) =
                    ("a plan", "over at most 1048576 tiles of a tensor: make tiles larger");
                return Err(AlgebraError::Argument { what, expected, found });
            }
        }
        Ok(())
    }

    /// The extent of a tile along an axis, at least 1.
    pub fn block(&self, extent: u64) -> u64 {
        match self.counts.get(&extent) {
            Some(&count) => match extent.div_ceil(count).max(1) {
                block if block < 10 * KERNEL_BLOCK => block,
                block => block.next_multiple_of(KERNEL_BLOCK).min(extent),
            },
            None => self.block.min(extent.div_ceil(self.least)).max(1),
        }
    }

    /// The extent that was asked for or aimed at.
    pub fn largest_block(&self) -> u64 {
        self.block
    }
}

/// Operations that are worth a task of their own: some ten milliseconds of one core.
const WORTH_A_TASK: f64 = 4e6;

/// What one element of a sparse operand costs, in operations on elements that lie side by side. Not more: rows that are cut
/// cost, too.
const SPARSE_OPERATIONS: f64 = 2.0;

/// Long tiles are a multiple of this, so that the blocks of matrix kernels, 4 to 24 rows and columns, are full.
const KERNEL_BLOCK: u64 = 48;

/// Tasks of an operator with much to do: enough to keep the workers of a laptop busy to the end.
const WANTED_TASKS: f64 = 16.0;

/// Tiles of a shape.
fn tiles(dims: &[u64], counts: &BTreeMap<u64, u64>) -> f64 {
    dims.iter().map(|extent| counts.get(extent).copied().unwrap_or(1) as f64).product()
}

/// Cuts the extent with the longest tile into one more. False if all tiles are single elements.
fn split_longest(dims: &[u64], counts: &mut BTreeMap<u64, u64>) -> bool {
    let block = |extent: &u64| extent.div_ceil(counts.get(extent).copied().unwrap_or(1).max(1));
    let Some(&longest) = dims.iter().max_by_key(|extent| block(extent)) else { return false };
    if block(&longest) <= 1 {
        return false;
    }
    // So many that tiles really are smaller: the last of them is trimmed.
    let shorter = block(&longest) - 1;
    let more = counts.entry(longest).or_insert(1);
    *more = (*more + 1).max(longest.div_ceil(shorter));
    true
}

/// Cuts a label into one more tile if positions along an axis reach further in one step than a tile of that axis. False if
/// they do not, or if all tiles are single elements.
fn split_reach(at: &Affine, extent: u64, labels: &[Axis], counts: &mut BTreeMap<u64, u64>) -> bool {
    let block = |extent: u64| extent.div_ceil(counts.get(&extent).copied().unwrap_or(1).max(1));
    let steps = at.factors().filter_map(|(symbol, factor)| match symbol {
        Symbol::Index(index) => {
            let label = labels.iter().find(|label| label.index == index)?;
            let reach = u128::from(block(label.extent).max(1) - 1) * u128::from(factor.unsigned_abs());
            Some((reach, label.extent))
        }
        Symbol::Slot(_) => None,
    });
    let steps: Vec<(u128, u64)> = steps.collect();
    let reach = steps.iter().map(|(reach, _)| reach).sum::<u128>() + 1;
    let Some(&(farthest, longest)) = steps.iter().max() else { return false };
    if block(extent) >= extent || reach <= u128::from(block(extent)) || farthest == 0 {
        return false;
    }
    split_longest(&[longest], counts)
}

/// The tiles of a shape. The last one along an axis is trimmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// The shape.
    pub dims: Vec<u64>,
    /// The extent of a tile along each axis.
    pub blocks: Vec<u64>,
    /// Tiles along each axis.
    pub counts: Vec<u64>,
}

impl Tiles {
    /// The tiles of a shape.
    pub fn of(tiling: &Tiling, dims: &[u64]) -> Tiles {
        let blocks: Vec<u64> = dims.iter().map(|&extent| tiling.block(extent)).collect();
        let counts = dims.iter().zip(&blocks).map(|(extent, &block)| extent.div_ceil(block)).collect();
        Tiles { dims: dims.to_vec(), blocks, counts }
    }

    fn count(tiling: &Tiling, dims: &[u64]) -> u64 {
        dims.iter().fold(1, |all, &extent| all.saturating_mul(extent.div_ceil(tiling.block(extent))))
    }

    /// Tiles there are.
    pub fn len(&self) -> usize {
        self.counts.iter().product::<u64>() as usize
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.counts.contains(&0)
    }

    /// The number of the tile at coordinates, in C order.
    pub fn number(&self, at: &[u64]) -> usize {
        at.iter().zip(&self.counts).fold(0, |number, (&at, &count)| number * count + at) as usize
    }

    /// The coordinates of a tile.
    pub fn coordinates(&self, number: usize) -> Vec<u64> {
        let mut rest = number as u64;
        let mut at = vec![0; self.counts.len()];
        for (at, &count) in at.iter_mut().zip(&self.counts).rev() {
            (*at, rest) = (rest % count.max(1), rest / count.max(1));
        }
        at
    }

    /// The first and the last position of a tile along an axis.
    pub fn range(&self, axis: usize, at: u64) -> (i64, i64) {
        let first = at * self.blocks[axis];
        (first as i64, (first + self.blocks[axis]).min(self.dims[axis]) as i64 - 1)
    }

    /// The shape of a tile.
    pub fn shape(&self, at: &[u64]) -> Vec<u64> {
        let extent = |axis| {
            let (first, last) = self.range(axis, at[axis]);
            (last + 1 - first).max(0) as u64
        };
        (0..at.len()).map(extent).collect()
    }

    /// Elements of each tile.
    pub fn floats(&self) -> Vec<u64> {
        let mut all = vec![1u64];
        for axis in 0..self.dims.len() {
            let extents: Vec<u64> = (0..self.counts[axis])
                .map(|at| {
                    let (first, last) = self.range(axis, at);
                    (last + 1 - first) as u64
                })
                .collect();
            all = all.iter().flat_map(|size| extents.iter().map(move |extent| size * extent)).collect();
        }
        all
    }

    /// Calls with the coordinates of every tile, in C order.
    pub fn each(&self, mut call: impl FnMut(&[u64])) {
        each_of(&self.counts, &mut call);
    }
}

/// Calls with all coordinates within counts, in C order.
pub(crate) fn each_of(counts: &[u64], call: &mut impl FnMut(&[u64])) {
    if counts.contains(&0) {
        return;
    }
    let mut at = vec![0; counts.len()];
    loop {
        call(&at);
        let mut axis = counts.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            at[axis] += 1;
            if at[axis] < counts[axis] {
                break;
            }
            at[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_by_bytes_are_large_and_many_enough() {
        use crate::{Functions, Inputs, check, lower, parse};
        use lacus_tensor::{DType, Shape};
        let blocks = |text: &str, dims: &[u64]| {
            let inputs = Inputs::new().with("A", DType::F64, Shape::new(dims.to_vec()).unwrap());
            let network = lower(&check(&parse(text).unwrap(), &inputs, &Functions::new()).unwrap()).unwrap();
            let bytes = |slot: Slot| network.value(slot).dims.iter().product::<u64>() as f64 * 8.0;
            let tiling = Tiling::by_bytes(&network, bytes, 8 << 20).unwrap();
            Tiles::of(&tiling, dims).blocks
        };
        assert_eq!(blocks("A = load(\"A\"); save(A @ A, \"B\")", &[8000, 8000]), [1008, 1008]);
        assert_eq!(blocks("A = load(\"A\"); save(A @ A, \"B\")", &[100, 100]), [100, 100]);
        let step = "A = load(\"A\"); v = ones([dim(A, 1)]); save(A @ v, \"B\")";
        assert_eq!(blocks(step, &[400_000, 1000]), [1056, 1000]);
        assert_eq!(blocks("A = load(\"A\"); save(A + 1, \"B\")", &[20_000_000]), [1_000_032]);
        assert_eq!(blocks("A = load(\"A\"); save(A + 1, \"B\")", &[0, 3]), [1, 3]);
    }

    #[test]
    fn tiles_are_cut_by_extent_and_trimmed() {
        let tiles = Tiles::of(&Tiling::of_block(4), &[10, 3]);
        assert_eq!((tiles.counts.clone(), tiles.len()), (vec![3, 1], 3));
        assert_eq!(tiles.floats(), [12, 12, 6]);
        assert_eq!(tiles.shape(&[2, 0]), [2, 3]);
        assert_eq!((tiles.number(&[2, 0]), tiles.coordinates(2)), (2, vec![2, 0]));
        assert_eq!(Tiles::of(&Tiling::of_block(4), &[]).floats(), [1]);
        assert!(Tiles::of(&Tiling::of_block(4), &[3, 0]).is_empty());
        let mut all = Vec::new();
        tiles.each(|at| all.push(at.to_vec()));
        assert_eq!(all, [[0, 0], [1, 0], [2, 0]]);
    }
}
