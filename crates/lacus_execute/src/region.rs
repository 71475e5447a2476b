//! Regions of an operator's labels, and walks through memory along them.
//!
//! ```text
//! C[i,j] = A[i, j+1]   tile of C = labels i in 4..8, j in 0..4   →   A is read at rows 4..8 and columns 1..5
//! walk through A       start + 1·stride per step of i, 1 per step of j
//! ```

use crate::window::{Window, WindowMut};
use lacus_algebra::expr::{Affine, Slot, Symbol};
use lacus_algebra::{Known, Network, Scalar, Tiles};
use lacus_tensor::DType;

/// A range of positions along every label: where it starts, and how many there are.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) starts: Vec<i64>,
    pub(crate) counts: Vec<usize>,
}

impl Region {
    /// The region of a step: a tile along every label.
    pub(crate) fn of(labels: &Tiles, step: &[u64]) -> Region {
        let ranges = step.iter().enumerate().map(|(label, &at)| labels.range(label, at));
        let (starts, counts) =
            ranges.map(|(first, last)| (first, (last + 1 - first).max(0) as usize)).unzip();
        Region { starts, counts }
    }

    /// Only a part of it: from there on along each label, and so many.
    pub(crate) fn narrow(&mut self, from: &[usize], counts: &[usize]) {
        self.starts.iter_mut().zip(from).for_each(|(start, &from)| *start += from as i64);
        self.counts.copy_from_slice(counts);
    }
}

/// How one goes through elements (or numbers): from a start, so far for a step along each label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    pub(crate) start: i64,
    pub(crate) steps: Vec<i64>,
}

impl Walk {
    /// Stays where it is.
    pub(crate) fn still(labels: usize) -> Walk {
        Walk { start: 0, steps: vec![0; labels] }
    }

    /// The values of a position.
    pub(crate) fn of_position(at: &Affine, region: &Region, numbers: &Numbers<'_>) -> Walk {
        let mut steps = vec![0; region.starts.len()];
        for (symbol, factor) in at.factors() {
            if let Symbol::Index(index) = symbol {
                steps[index.0 as usize] = factor;
            }
        }
        Walk { start: numbers.position(at, &region.starts), steps }
    }

    /// Through a window whose axes are some of the labels, from where the region starts.
    pub(crate) fn of_labels(strides: &[isize], labels: &[usize], count: usize) -> Walk {
        let mut steps = vec![0; count];
        for (&stride, &label) in strides.iter().zip(labels) {
            steps[label] += stride as i64;
        }
        Walk { start: 0, steps }
    }
}

/// Numbers that are known when a task runs: counters, and what follows from them.
#[derive(Clone, Copy)]
pub(crate) struct Numbers<'a> {
    pub(crate) network: &'a Network,
    pub(crate) known: &'a Known,
}

impl Numbers<'_> {
    /// A position at some values of the indices.
    pub(crate) fn position(&self, at: &Affine, indices: &[i64]) -> i64 {
        at.value(|symbol| match symbol {
            Symbol::Index(index) => indices[index.0 as usize],
            Symbol::Slot(slot) => self.slot(slot),
        })
    }

    fn slot(&self, slot: Slot) -> i64 {
        self.network.known(slot, self.known).map_or(0, Scalar::to_i64)
    }
}

/// What an operator reads of a tensor in a region: a window, and where in it that is.
pub(crate) struct Located {
    pub(crate) window: Window,
    place: Place,
}

enum Place {
    /// The window is a part of the tensor: the positions of its first element.
    Origin(Vec<i64>),
    /// The axes of the window are labels, from where the region starts.
    Labels(Vec<usize>),
}

impl Located {
    /// How one goes through it.
    pub(crate) fn walk(&self, at: &[Affine], region: &Region, numbers: &Numbers<'_>) -> Walk {
        let origin = match &self.place {
            Place::Origin(origin) => origin,
            Place::Labels(labels) => {
                return Walk::of_labels(self.window.strides(), labels, region.starts.len());
            }
        };
        let mut walk = Walk::still(region.starts.len());
        for (axis, at) in at.iter().enumerate() {
            let stride = self.window.strides()[axis] as i64;
            let own = Walk::of_position(at, region, numbers);
            walk.start += (own.start - origin[axis]) * stride;
            walk.steps.iter_mut().zip(own.steps).for_each(|(step, own)| *step += own * stride);
        }
        walk
    }
}

/// The labels that positions depend on.
pub(crate) fn labels_of(at: &[Affine]) -> Vec<usize> {
    let mut all: Vec<usize> = Vec::new();
    for (symbol, _) in at.iter().flat_map(Affine::factors) {
        if let Symbol::Index(index) = symbol {
            all.push(index.0 as usize);
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// A read of a tensor in a region.
struct Reading<'r, 't> {
    at: &'r [Affine],
    region: &'r Region,
    numbers: &'r Numbers<'r>,
    tensor: &'r Tiles,
    dtype: DType,
    /// The tiles that are there. One that no condition lets anybody look at is not.
    tile: &'r dyn Fn(usize) -> Option<&'t Window>,
}

/// Finds what a read needs: one tile as it is, or several put together. Positions outside of the tensor, which a
/// condition excludes, get zeros.
pub(crate) fn locate<'t>(
    at: &[Affine],
    region: &Region,
    numbers: &Numbers<'_>,
    tensor: &Tiles,
    dtype: DType,
    tile: &dyn Fn(usize) -> Option<&'t Window>,
) -> Located {
    Reading { at, region, numbers, tensor, dtype, tile }.locate()
}

impl Reading<'_, '_> {
    fn locate(&self) -> Located {
        let tensor = self.tensor;
        let ranges: Vec<(i128, i128)> = self.at.iter().map(|at| self.range(at)).collect();
        let is_outside =
            |(&(low, high), &extent): (&(i128, i128), &u64)| high < 0 || low >= i128::from(extent);
        if tensor.is_empty() || ranges.iter().zip(&tensor.dims).any(is_outside) {
            let window = WindowMut::zeroed(self.dtype, &[]).freeze();
            return Located { window, place: Place::Labels(Vec::new()) };
        }
        let clipped: Vec<(i64, i64)> = ranges
            .iter()
            .zip(&tensor.dims)
            .map(|(&(low, high), &extent)| (low.max(0) as i64, high.min(i128::from(extent) - 1) as i64))
            .collect();
        let is_inside = ranges
            .iter()
            .zip(&clipped)
            .all(|(&(low, high), &(first, last))| (low, high) == (i128::from(first), i128::from(last)));
        let blocks = |axis: usize| tensor.blocks[axis] as i64;
        let is_one =
            clipped.iter().enumerate().all(|(axis, (low, high))| low / blocks(axis) == high / blocks(axis));
        if is_inside && is_one {
            let at: Vec<u64> =
                clipped.iter().enumerate().map(|(axis, (low, _))| (low / blocks(axis)) as u64).collect();
            if let Some(window) = (self.tile)(tensor.number(&at)) {
                let origin = at.iter().enumerate().map(|(axis, &at)| at as i64 * blocks(axis)).collect();
                return Located { window: window.clone(), place: Place::Origin(origin) };
            }
        }
        let elements = |ranges: &mut dyn Iterator<Item = (i128, i128)>| {
            ranges.fold(1i128, |all, (low, high)| all.saturating_mul(high - low + 1))
        };
        let within = elements(&mut clipped.iter().map(|&(low, high)| (low.into(), high.into())));
        let labels = labels_of(self.at);
        let places = labels.iter().map(|&label| (1, self.region.counts[label] as i128));
        let few = within.max(elements(&mut places.into_iter()));
        // A box that is mostly outside of the tensor would take more memory than anybody counted on.
        if !is_inside && elements(&mut ranges.iter().copied()) > few.saturating_mul(2).saturating_add(1024) {
            return self.gather(labels);
        }
        self.copy(ranges.into_iter().map(|(low, high)| (low as i64, high as i64)).collect(), &clipped)
    }

    /// Where a position starts, and how far it goes with each label.
    fn walk(&self, at: &Affine) -> (i128, Vec<i64>) {
        let (start, _) = at.range(|symbol| {
            let value = match symbol {
                Symbol::Index(index) => self.region.starts[index.0 as usize],
                Symbol::Slot(slot) => self.numbers.slot(slot),
            };
            (value, value)
        });
        let mut steps = vec![0; self.region.starts.len()];
        for (symbol, factor) in at.factors() {
            if let Symbol::Index(index) = symbol {
                steps[index.0 as usize] = factor;
            }
        }
        (start, steps)
    }

    /// The least and the greatest value of a position.
    fn range(&self, at: &Affine) -> (i128, i128) {
        let (start, steps) = self.walk(at);
        let reach = |pick: fn(i128, i128) -> i128| -> i128 {
            let steps = steps.iter().zip(&self.region.counts);
            steps.map(|(&step, &count)| pick(i128::from(step) * (count as i128 - 1).max(0), 0)).sum()
        };
        (start + reach(i128::min), start + reach(i128::max))
    }

    /// A box with all positions, put together from the tiles that it meets. The tensor has some of it.
    fn copy(&self, ranges: Vec<(i64, i64)>, clipped: &[(i64, i64)]) -> Located {
        let blocks = |axis: usize| self.tensor.blocks[axis] as i64;
        let shape: Vec<usize> = ranges.iter().map(|(low, high)| (high - low + 1) as usize).collect();
        let all = WindowMut::zeroed(self.dtype, &shape);
        let spans = clipped
            .iter()
            .enumerate()
            .map(|(axis, &(first, last))| (first / blocks(axis), last / blocks(axis)));
        let spans: Vec<(i64, i64)> = spans.collect();
        let mut at: Vec<i64> = spans.iter().map(|span| span.0).collect();
        loop {
            let coordinates: Vec<u64> = at.iter().map(|&at| at as u64).collect();
            if let Some(window) = (self.tile)(self.tensor.number(&coordinates)) {
                let (mut from, mut to, mut counts) = (Vec::new(), Vec::new(), Vec::new());
                for (axis, &(low, high)) in ranges.iter().enumerate() {
                    let first = at[axis] * blocks(axis);
                    let (start, end) = (low.max(first), (high + 1).min(first + window.shape()[axis] as i64));
                    from.push((start - first) as usize);
                    to.push((start - low) as usize);
                    counts.push((end - start).max(0) as usize);
                }
                // SAFETY: the box is ours alone.
                let mut part = unsafe { WindowMut::within(all.window(), &to, &counts) };
                part.copy_from(&window.part(&from, &counts));
            }
            let mut axis = at.len();
            loop {
                if axis == 0 {
                    let origin = ranges.into_iter().map(|(low, _)| low).collect();
                    return Located { window: all.freeze(), place: Place::Origin(origin) };
                }
                axis -= 1;
                at[axis] += 1;
                if at[axis] <= spans[axis].1 {
                    break;
                }
                at[axis] = spans[axis].0;
            }
        }
    }

    /// One element for each place along the labels that positions depend on.
    fn gather(&self, labels: Vec<usize>) -> Located {
        let shape: Vec<usize> = labels.iter().map(|&label| self.region.counts[label]).collect();
        let mut all = WindowMut::zeroed(self.dtype, &shape);
        let walks: Vec<(i128, Vec<i64>)> = self.at.iter().map(|at| self.walk(at)).collect();
        let size = self.dtype.size_bytes();
        let out = all.bytes_mut().unwrap_or_default();
        let mut along = vec![0usize; shape.len()];
        for to in out.chunks_exact_mut(size) {
            let position = |(start, steps): &(i128, Vec<i64>)| {
                let far = labels.iter().zip(&along).map(|(&label, &n)| i128::from(steps[label]) * n as i128);
                start + far.sum::<i128>()
            };
            let positions: Vec<i128> = walks.iter().map(position).collect();
            if let Some(one) = self.element(&positions) {
                to.copy_from_slice(one.head().unwrap_or_default());
            }
            for (n, &count) in along.iter_mut().zip(&shape).rev() {
                *n += 1;
                if *n < count {
                    break;
                }
                *n = 0;
            }
        }
        Located { window: all.freeze(), place: Place::Labels(labels) }
    }

    /// A window that begins with the element at some positions, if it is within the tensor and there.
    fn element(&self, positions: &[i128]) -> Option<Window> {
        let (mut coordinates, mut within) = (Vec::new(), Vec::new());
        for (axis, &position) in positions.iter().enumerate() {
            let position = u64::try_from(position).ok().filter(|&at| at < self.tensor.dims[axis])?;
            coordinates.push(position / self.tensor.blocks[axis]);
            within.push((position % self.tensor.blocks[axis]) as usize);
        }
        let window = (self.tile)(self.tensor.number(&coordinates))?;
        Some(window.part(&within, &vec![1; within.len()]))
    }
}

/// Loops over labels, the last one innermost, made as few as they get: labels along which all walks go on as if they
/// were one become one.
pub(crate) fn merge(counts: &[usize], walks: &mut [Walk]) -> Vec<usize> {
    let mut kept: Vec<usize> = Vec::new();
    let mut merged: Vec<Vec<i64>> = vec![Vec::new(); walks.len()];
    for (label, &count) in counts.iter().enumerate() {
        if count == 1 {
            continue;
        }
        let goes_on = kept.last().is_some()
            && walks
                .iter()
                .zip(&merged)
                .all(|(walk, merged)| merged.last() == Some(&(walk.steps[label] * count as i64)));
        if goes_on {
            let last = kept.len() - 1;
            kept[last] *= count;
            for (walk, merged) in walks.iter().zip(&mut merged) {
                merged[last] = walk.steps[label];
            }
        } else {
            kept.push(count);
            for (walk, merged) in walks.iter().zip(&mut merged) {
                merged.push(walk.steps[label]);
            }
        }
    }
    for (walk, merged) in walks.iter_mut().zip(merged) {
        walk.steps = merged;
    }
    kept
}

/// Calls for every combination of the loops with where each walk is then.
pub(crate) fn each_place(counts: &[usize], walks: &[Walk], mut call: impl FnMut(&[i64])) {
    if counts.contains(&0) {
        return;
    }
    let mut places: Vec<i64> = walks.iter().map(|walk| walk.start).collect();
    let mut at = vec![0usize; counts.len()];
    loop {
        call(&places);
        let mut label = counts.len();
        loop {
            if label == 0 {
                return;
            }
            label -= 1;
            at[label] += 1;
            if at[label] < counts[label] {
                places.iter_mut().zip(walks).for_each(|(place, walk)| *place += walk.steps[label]);
                break;
            }
            let back = counts[label] as i64 - 1;
            places.iter_mut().zip(walks).for_each(|(place, walk)| *place -= walk.steps[label] * back);
            at[label] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_that_go_on_are_one() {
        let walk = |steps: &[i64]| Walk { start: 0, steps: steps.to_vec() };
        let mut walks = [walk(&[12, 4, 1]), walk(&[12, 4, 1])];
        assert_eq!(merge(&[2, 3, 4], &mut walks), [24]);
        assert_eq!(walks[0].steps, [1]);
        let mut walks = [walk(&[12, 4, 1]), walk(&[0, 4, 1])];
        assert_eq!(merge(&[2, 3, 4], &mut walks), [2, 12]);
        let mut walks = [walk(&[5, 7])];
        assert!(merge(&[1, 1], &mut walks).is_empty());
        let mut places = Vec::new();
        each_place(&[2, 3], &[Walk { start: 5, steps: vec![10, -1] }], |at| places.push(at[0]));
        assert_eq!(places, [5, 4, 3, 15, 14, 13]);
    }
}
