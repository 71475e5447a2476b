//! Formulas that finish a tile in place, part by part while it is in a cache: what is done with a product is done before
//! the product leaves for memory.

use super::{Bench, Form, Kind, NamedTile, Reads};
use crate::error::ExecuteError;
use crate::region::Region;
use crate::tile::Tile;
use crate::window::{Window, WindowMut};
use lacus_algebra::expr::Slot;
use lacus_algebra::{Known, Network};
use lacus_tensor::kernels::formula::Scratch;
use lacus_threads::Team;

/// Elements of a part, where the one who makes the tile has no parts of its own.
const PART: usize = 32 << 10;

/// What is done with a tile when all that is folded into it is there.
pub(crate) struct Finish<'a> {
    network: &'a Network,
    known: &'a Known,
    /// Coordinates of the tile.
    step: Vec<u64>,
    /// Formulas in their order, and what they read: also the tile itself, as the one before them left it.
    formulas: Vec<(&'a Form, Vec<NamedTile>)>,
}

impl<'a> Finish<'a> {
    pub(crate) fn new(network: &'a Network, known: &'a Known, step: Vec<u64>) -> Finish<'a> {
        Finish { network, known, step, formulas: Vec::new() }
    }

    /// Adds a formula of what there is in a tile, of a value that it reads, and of other tiles.
    pub(crate) fn push(
        &mut self,
        form: &'a Form,
        (value, tile, there): (Slot, u32, &Window),
        mut others: Vec<NamedTile>,
    ) {
        // A contribution that was folded into it has the same name.
        others.retain(|(other, number, _)| (*other, *number) != (value, tile));
        others.push((value, tile, Tile::Dense(there.clone())));
        self.formulas.push((form, others));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.formulas.is_empty()
    }

    /// Operations of all formulas.
    pub(crate) fn operations(&self) -> f64 {
        self.formulas.iter().map(|(form, _)| form.operations(&self.step)).sum()
    }

    /// Finishes a part of a tile, which begins there and has such a shape, by parts that stay in a near cache.
    ///
    /// # Safety
    /// Nobody else reads or writes this part meanwhile.
    pub(super) unsafe fn part(
        &self,
        scratch: &mut Scratch,
        tile: &Window,
        starts: &[usize],
        shape: &[usize],
    ) -> Result<(), ExecuteError> {
        each_part(shape, |from, shape| {
            let starts: Vec<usize> = starts.iter().zip(from).map(|(start, from)| start + from).collect();
            // SAFETY: a part of the caller's.
            unsafe { self.one(scratch, tile, &starts, shape) }
        })
    }

    /// The same at once.
    ///
    /// # Safety
    /// As above.
    unsafe fn one(
        &self,
        scratch: &mut Scratch,
        tile: &Window,
        starts: &[usize],
        shape: &[usize],
    ) -> Result<(), ExecuteError> {
        for (form, tiles) in &self.formulas {
            let Kind::Formula(elements) = &form.kind else { continue };
            let mut region = Region::of(&form.labels, &self.step);
            region.narrow(starts, shape);
            let operator = &self.network.operators[form.operator];
            let reads = Reads { form, operator, region: &region };
            let mut bench = Bench {
                network: self.network,
                known: self.known,
                tiles,
                scratch: &mut *scratch,
                team: Team::alone(),
                // Formulas that divide integers are not done in place.
                by_zero: None,
            };
            // SAFETY: the caller's promise. The formula itself reads this part, each element before it writes it: the lanes
            // of the two are the same.
            let mut out = unsafe { WindowMut::within(tile, starts, shape) };
            elements.run_into(&mut bench, &reads, &mut out)?;
        }
        Ok(())
    }

    /// Finishes a whole tile.
    pub(crate) fn all(&self, scratch: &mut Scratch, out: &mut WindowMut) -> Result<(), ExecuteError> {
        if self.is_empty() {
            return Ok(());
        }
        let tile = out.window().clone();
        // SAFETY: the tile is borrowed exclusively.
        unsafe { self.part(scratch, &tile, &vec![0; tile.shape().len()], tile.shape()) }
    }
}

/// Calls with the parts of an array, which have some [`PART`] elements each: where each begins, and its shape.
pub(super) fn each_part(
    shape: &[usize],
    mut call: impl FnMut(&[usize], &[usize]) -> Result<(), ExecuteError>,
) -> Result<(), ExecuteError> {
    if shape.contains(&0) {
        return Ok(());
    }
    // Whole along all axes after one, some of that one, one at a time of those before.
    let mut inner = 1;
    let mut axis = shape.len();
    while axis > 0 && inner * shape[axis - 1] <= PART {
        axis -= 1;
        inner *= shape[axis];
    }
    let mut part = shape.to_vec();
    if let Some(cut) = axis.checked_sub(1) {
        part[..cut].fill(1);
        part[cut] = (PART / inner).clamp(1, shape[cut]);
    }
    let mut starts = vec![0; shape.len()];
    loop {
        let here: Vec<usize> =
            (0..shape.len()).map(|axis| part[axis].min(shape[axis] - starts[axis])).collect();
        call(&starts, &here)?;
        let mut axis = shape.len();
        loop {
            if axis == 0 {
                return Ok(());
            }
            axis -= 1;
            starts[axis] += part[axis];
            if starts[axis] < shape[axis] {
                break;
            }
            starts[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_are_all_of_an_array_once(shape in proptest::collection::vec(0usize..400, 0..4)) {
            let strides = crate::window::c_strides(&shape);
            let mut seen = vec![0u8; shape.iter().product()];
            each_part(&shape, |starts, part| {
                assert!(part.iter().product::<usize>() <= PART);
                let first: usize = starts.iter().zip(&strides).map(|(at, stride)| at * *stride as usize).sum();
                // Parts are whole along all axes but the first of more than one element.
                let long = part.iter().position(|&n| n > 1).unwrap_or(part.len());
                assert!(part.iter().zip(&shape).skip(long + 1).all(|(part, whole)| part == whole));
                seen[first..first + part.iter().product::<usize>()].iter_mut().for_each(|seen| *seen += 1);
                Ok(())
            }).unwrap();
            prop_assert!(seen.iter().all(|&seen| seen == 1));
        }
    }
}
