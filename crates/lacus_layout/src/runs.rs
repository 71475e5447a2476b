//! The encoder that all packed layouts share: sorted nonzeros, cut into chunks, each packed as a tree.

use std::borrow::Cow;
use std::ops::Range;

use lacus_tensor::SparseTensor;

use crate::chunk::{Codec, Coords, EncodeChunks, EncodedChunk, Scratch};
use crate::error::LayoutError;
use crate::levels::Levels;
use crate::order::sort_in_place;
use crate::packed::{Effort, Packer};
use crate::tree::{self, TreePlan};

/// One chunk to be: where its nonzeros lie in the order, its coordinates, its box.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) places: Range<usize>,
    pub(crate) coords: Coords,
}

/// Nonzeros of a tensor in the order of a layout, cut into runs.
pub(crate) struct Runs<'a, L> {
    tensor: &'a SparseTensor,
    order: Option<Vec<usize>>,
    runs: Vec<Run>,
    levels_of: L,
    plan: TreePlan,
}

/// Nonzeros that decide how the arrays are packed.
const PLAN_SAMPLE: usize = 16 << 10;

impl<'a, L: Fn(&Coords) -> Result<Levels, LayoutError> + Send + Sync> Runs<'a, L> {
    /// Takes the order of the nonzeros (`None` if it is theirs), the runs in ascending order of their
    /// coordinates, how the box of a run is folded, and how hard to pack.
    pub(crate) fn new(
        tensor: &'a SparseTensor,
        order: Option<Vec<usize>>,
        runs: Vec<Run>,
        effort: Effort,
        levels_of: L,
    ) -> Result<Runs<'a, L>, LayoutError> {
        let mut encoder = Runs { tensor, order, runs, levels_of, plan: TreePlan::plain(effort) };
        if let Some(run) = encoder.runs.get(encoder.runs.len() / 2) {
            let mut run = run.clone();
            run.places.end = run.places.end.min(run.places.start + PLAN_SAMPLE);
            let (mut tuples, mut words) = (Vec::new(), Default::default());
            let values = encoder.tuples(&run, &mut tuples, &mut words)?;
            encoder.plan = TreePlan::new(&tuples, tensor.dtype(), &values, effort, &mut Packer::default())?;
        }
        Ok(encoder)
    }

    /// Makes the tuples of a run, ascending, one column of numbers per level, and returns their values.
    fn tuples(
        &self,
        run: &Run,
        tuples: &mut Vec<Vec<u64>>,
        words: &mut [Vec<u64>; 2],
    ) -> Result<Cow<'a, [u8]>, LayoutError> {
        let tensor = self.tensor;
        let columns: Vec<&[i64]> = (0..tensor.shape().rank()).map(|axis| tensor.axis(axis)).collect();
        let levels = (self.levels_of)(&run.coords)?;
        let width = tensor.dtype().size_bytes();
        let values = match &self.order {
            None => {
                // A slice per column spares every place a check.
                let columns: Vec<&[i64]> = columns.iter().map(|column| &column[run.places.clone()]).collect();
                levels.fold_into(&columns, 0..run.places.len(), tuples);
                Cow::Borrowed(&tensor.values()[run.places.start * width..run.places.end * width])
            }
            Some(order) => {
                let places = &order[run.places.clone()];
                levels.fold_into(&columns, places.iter().copied(), tuples);
                Cow::Owned(gather(tensor.values(), width, places.iter().copied()))
            }
        };
        // Nonzeros of a block come in C order; its cells may be numbered in another.
        if let [ids] = &mut tuples[..]
            && sort_in_place(ids, levels.limits()?[0], words)
        {
            let places = words[0].iter().map(|place| *place as usize);
            return Ok(Cow::Owned(gather(&values, width, places)));
        }
        Ok(values)
    }
}

/// The elements of `width` bytes at `places`.
pub(crate) fn gather(values: &[u8], width: usize, places: impl ExactSizeIterator<Item = usize>) -> Vec<u8> {
    fn of<const W: usize>(values: &[u8], places: impl ExactSizeIterator<Item = usize>) -> Vec<u8> {
        let elements = values.as_chunks::<W>().0;
        let mut gathered = vec![0; places.len() * W];
        for (element, place) in gathered.as_chunks_mut::<W>().0.iter_mut().zip(places) {
            *element = elements[place];
        }
        gathered
    }
    match width {
        1 => of::<1>(values, places),
        2 => of::<2>(values, places),
        4 => of::<4>(values, places),
        8 => of::<8>(values, places),
        _ => of::<16>(values, places),
    }
}

impl<L: Fn(&Coords) -> Result<Levels, LayoutError> + Send + Sync> EncodeChunks for Runs<'_, L> {
    fn len(&self) -> usize {
        self.runs.len()
    }

    fn encode<'a>(&'a self, i: usize, scratch: &'a mut Scratch) -> Result<EncodedChunk<'a>, LayoutError> {
        let run = &self.runs[i];
        let Scratch { packer, tuples, words, out, .. } = scratch;
        let values = self.tuples(run, tuples, words)?;
        out.clear();
        tree::write(tuples, self.tensor.dtype(), &values, &self.plan, packer, out)?;
        Ok(EncodedChunk::new(run.coords, Codec::Packed, Cow::Borrowed(out), run.places.len() as u64))
    }
}

/// Nonzeros of a run aimed at, and the least and most it may have. Decoding one takes a fraction of a
/// millisecond; fewer would cost space (each chunk describes its distributions anew) and rows.
const AIM: usize = 48 << 10;
const LEAST: usize = 32 << 10;
const MOST: usize = 64 << 10;

/// Cuts `n` nonzeros into runs of about [`AIM`], where the tuple changes on as early a level as possible:
/// `changed(i)` is the first level on which nonzero `i` differs from the one before it.
pub(crate) fn cut(n: usize, changed: impl Fn(usize) -> usize) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut start = 0;
    while n - start > MOST {
        let aim = start + AIM;
        let candidates = start + LEAST..=start + MOST;
        let best = candidates.min_by_key(|i| (changed(*i), i.abs_diff(aim))).unwrap_or(aim);
        runs.push(start..best);
        start = best;
    }
    if start < n {
        runs.push(start..n);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_cover_everything_and_prefer_early_levels() {
        for n in [0, 1, MOST, MOST + 1, 1_000_000] {
            for row in [1, 1000, 40_000, 10_000_000] {
                let runs = cut(n, |i| if i % row == 0 { 0 } else { 1 });
                assert_eq!(runs.iter().map(Range::len).sum::<usize>(), n);
                assert!(runs.windows(2).all(|pair| pair[0].end == pair[1].start));
                assert!(runs.iter().all(|run| run.len() <= MOST));
                if row <= MOST - LEAST {
                    assert!(runs.iter().all(|run| run.start % row == 0), "n {n}, row {row}");
                }
            }
        }
    }

    #[test]
    fn elements_are_gathered() {
        let values: Vec<u8> = (0..64).collect();
        for width in [1, 2, 4, 8, 16] {
            let gathered = gather(&values, width, [3, 0, 3].into_iter());
            let at = |place: usize| &values[place * width..][..width];
            assert_eq!(gathered, [at(3), at(0), at(3)].concat());
        }
    }
}
