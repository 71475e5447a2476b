//! Regions of an operator's labels, and walks through memory along them.
//!
//! ```text
//! C[i,j] = A[i, j+1]   tile of C = labels i in 4..8, j in 0..4   →   A is read at rows 4..8 and columns 1..5
//! walk through A       start + 1·stride per step of i, 1 per step of j
//! ```

use crate::window::{Window, WindowMut};
use lacus_algebra::expr::{Affine, Symbol};
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
            Symbol::Slot(slot) => self.network.known(slot, self.known).map_or(0, Scalar::to_i64),
        })
    }
}

/// What an operator reads of a tensor in a region: a window, and the positions of its first element.
pub(crate) struct Located {
    pub(crate) window: Window,
    pub(crate) origin: Vec<i64>,
}

impl Located {
    /// How one goes through it.
    pub(crate) fn walk(&self, at: &[Affine], region: &Region, numbers: &Numbers<'_>) -> Walk {
        let mut walk = Walk::still(region.starts.len());
        for (axis, at) in at.iter().enumerate() {
            let stride = self.window.strides()[axis] as i64;
            let own = Walk::of_position(at, region, numbers);
            walk.start += (own.start - self.origin[axis]) * stride;
            walk.steps.iter_mut().zip(own.steps).for_each(|(step, own)| *step += own * stride);
        }
        walk
    }
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
    let ranges: Vec<(i64, i64)> = at
        .iter()
        .map(|at| {
            let own = Walk::of_position(at, region, numbers);
            let reach = |pick: fn(i64, i64) -> i64| -> i64 {
                let steps = own.steps.iter().zip(&region.counts);
                steps.map(|(step, &count)| pick(step * (count as i64 - 1).max(0), 0)).sum()
            };
            (own.start + reach(i64::min), own.start + reach(i64::max))
        })
        .collect();
    let blocks = |axis: usize| tensor.blocks[axis] as i64;
    let is_inside =
        ranges.iter().zip(&tensor.dims).all(|(&(low, high), &extent)| low >= 0 && high < extent as i64);
    let is_one =
        ranges.iter().enumerate().all(|(axis, (low, high))| low / blocks(axis) == high / blocks(axis));
    if is_inside && is_one {
        let at: Vec<u64> =
            ranges.iter().enumerate().map(|(axis, (low, _))| (low / blocks(axis)) as u64).collect();
        if let Some(window) = tile(tensor.number(&at)) {
            let origin = at.iter().enumerate().map(|(axis, &at)| at as i64 * blocks(axis)).collect();
            return Located { window: window.clone(), origin };
        }
    }
    let shape: Vec<usize> = ranges.iter().map(|(low, high)| (high - low + 1) as usize).collect();
    let all = WindowMut::zeroed(dtype, &shape);
    // The tiles that the box meets, along each axis.
    let spans: Vec<(i64, i64)> = ranges
        .iter()
        .enumerate()
        .map(|(axis, &(low, high))| {
            let last = tensor.dims[axis] as i64 - 1;
            (low.clamp(0, last) / blocks(axis), high.clamp(0, last) / blocks(axis))
        })
        .collect();
    let is_outside =
        ranges.iter().zip(&tensor.dims).any(|(&(low, high), &extent)| high < 0 || low >= extent as i64);
    if is_outside {
        return boxed(all, ranges);
    }
    let mut at: Vec<i64> = spans.iter().map(|span| span.0).collect();
    loop {
        let coordinates: Vec<u64> = at.iter().map(|&at| at as u64).collect();
        // A tile that no condition lets anybody look at is not there.
        if let Some(window) = tile(tensor.number(&coordinates)) {
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
                return boxed(all, ranges);
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

fn boxed(all: WindowMut, ranges: Vec<(i64, i64)>) -> Located {
    Located { window: all.freeze(), origin: ranges.into_iter().map(|(low, _)| low).collect() }
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
