//! numpy indexing, resolved and checked against a shape.
//!
//! ```text
//! tensor[0:100, [1, 5, 7], -1]  ─resolve→  Selection  =  a Group per input axis (or per several together)
//!                                                        + the shape of the result
//! ```
//!
//! The rules are numpy's to the letter: slices clip, integers and lists are checked, several integer
//! arrays broadcast, boolean arrays of k dimensions take k axes, and the axes made by arrays stand where
//! the first of them was unless a slice, an ellipsis or a new axis parts them, in which case they come first.
//!
//! ```
//! use lacus_tensor::{Selection, Shape, parse_indices};
//! let shape = Shape::new([1000, 3, 256, 256])?;
//! let selection = Selection::resolve(&shape, &parse_indices("10:20, 0, ..., ::-2")?)?;
//! assert_eq!(selection.output_shape().to_string(), "(10, 256, 128)");
//! assert_eq!(selection.bounding_box().unwrap(), [(10, 20), (0, 1), (0, 256), (1, 256)]);
//! # Ok::<(), lacus_tensor::TensorError>(())
//! ```

mod resolve;
mod text;

use crate::error::TensorError;
use crate::shape::Shape;
use std::ops::Range;

pub use text::parse_indices;

/// One item between the brackets of `tensor[…]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Index {
    /// An integer: selects one position and drops the axis. Negative ones count from the end.
    At(i64),
    /// `start:stop:step`, as in Python.
    Slice {
        /// First position; from the end when negative.
        start: Option<i64>,
        /// Position to stop before.
        stop: Option<i64>,
        /// Distance between positions; must not be zero.
        step: Option<i64>,
    },
    /// `...`: as many full slices as there are axes left.
    Ellipsis,
    /// `None` or `np.newaxis`: an axis of size one.
    NewAxis,
    /// An integer array of any rank. One of rank 0 is the same as [`Index::At`].
    List {
        /// Its shape.
        dims: Vec<u64>,
        /// Its values in C order; negative ones count from the end.
        values: Vec<i64>,
    },
    /// A boolean array: selects where it is true, on as many axes as it has. One of rank 0 adds an axis
    /// of size one or zero.
    Mask {
        /// Its shape, which must be that of the axes it indexes.
        dims: Vec<u64>,
        /// Its values in C order.
        bits: Vec<bool>,
    },
}

/// What is selected on one input axis, or on several together. Every input axis belongs to exactly one
/// group of its [`Selection`]. Output axes that belong to none have size one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// The positions `start`, `start + step`, … of one axis. All of them are inside of it.
    Range {
        /// Input axis.
        axis: usize,
        /// First position; 0 when there are none.
        start: u64,
        /// Distance between positions: not zero, maybe negative, 1 when there are fewer than two.
        step: i64,
        /// Number of positions.
        len: u64,
        /// Output axis; `None` when an integer dropped the axis (then `len` is 1).
        out_axis: Option<usize>,
    },
    /// Listed positions. At most one per selection, because all arrays of an indexing broadcast together.
    Gather {
        /// Input axes, ascending. Empty only when an indexing by `False` selects nothing.
        axes: Vec<usize>,
        /// Per axis, `len` positions inside of it.
        coords: Vec<Vec<u64>>,
        /// Number of positions: the product of `out_dims`.
        len: u64,
        /// First of the output axes, which follow each other.
        out_axis: usize,
        /// Sizes of the output axes.
        out_dims: Vec<u64>,
    },
}

/// Which elements of a tensor are wanted, and where each goes in the result: numpy indexing, checked
/// against a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    input: Shape,
    output: Shape,
    groups: Vec<Group>,
    /// The positions of the gather, sorted by their coordinate on its first axis (equal ones in order);
    /// `None` when they are sorted as they are. Finds those inside of a box without looking at all.
    gather_order: Option<Vec<usize>>,
}

impl Selection {
    /// Everything: `tensor[...]`.
    pub fn all(shape: &Shape) -> Selection {
        let whole = |(axis, &len)| Group::Range { axis, start: 0, step: 1, len, out_axis: Some(axis) };
        let groups = shape.dims().iter().enumerate().map(whole).collect();
        Selection { input: shape.clone(), output: shape.clone(), groups, gather_order: None }
    }

    /// What `tensor[indices]` selects of a tensor of this shape, by numpy's rules. Fails where numpy
    /// fails, with its messages, and when the result has more than [`MAX_RANK`](crate::MAX_RANK) axes.
    pub fn resolve(shape: &Shape, indices: &[Index]) -> Result<Selection, TensorError> {
        let (output, groups) = resolve::resolve(shape, indices)?;
        let gather_order = groups.iter().find_map(|group| match group {
            Group::Gather { coords, .. } => sorted_order(coords.first()?),
            Group::Range { .. } => None,
        });
        Ok(Selection { input: shape.clone(), output, groups, gather_order })
    }

    /// The shape that is indexed.
    pub fn input_shape(&self) -> &Shape {
        &self.input
    }

    /// The shape of the result.
    pub fn output_shape(&self) -> &Shape {
        &self.output
    }

    /// What is selected, ordered by (first) input axis.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// True when the result is the tensor itself.
    pub fn is_all(&self) -> bool {
        self.input == self.output
            && self.groups.iter().all(|group| match *group {
                Group::Range { axis, start, step, len, out_axis } => {
                    len == self.input.dims()[axis] && start == 0 && step == 1 && out_axis == Some(axis)
                }
                Group::Gather { .. } => false,
            })
    }

    /// Per input axis the smallest half-open range that holds every selected position; `None` when nothing
    /// is selected.
    pub fn bounding_box(&self) -> Option<Vec<(u64, u64)>> {
        if self.output_elements() == 0 {
            return None;
        }
        let mut bounds = vec![(0, 0); self.input.rank()];
        for group in &self.groups {
            match group {
                &Group::Range { axis, start, step, len, .. } => {
                    let last = range_position(start, step, len - 1);
                    bounds[axis] = (start.min(last), start.max(last) + 1);
                }
                Group::Gather { axes, coords, .. } => {
                    for (&axis, positions) in axes.iter().zip(coords) {
                        let (first, last) = (positions.iter().min()?, positions.iter().max()?);
                        bounds[axis] = (*first, last + 1);
                    }
                }
            }
        }
        Some(bounds)
    }

    /// The number of elements of the result, or `u64::MAX` when there are more.
    pub fn output_elements(&self) -> u64 {
        self.output.elements_saturating()
    }

    /// Places in the gather whose coordinate on its first axis lies in `within`; equal coordinates in order.
    pub(crate) fn gathered_within(&self, positions: &[u64], within: Range<u64>) -> Candidates<'_> {
        match &self.gather_order {
            None => {
                let first = positions.partition_point(|&position| position < within.start);
                let end = positions.partition_point(|&position| position < within.end);
                Candidates::InOrder(first..end)
            }
            Some(order) => {
                let first = order.partition_point(|&place| positions[place] < within.start);
                let end = order.partition_point(|&place| positions[place] < within.end);
                Candidates::Sorted(order[first..end].iter())
            }
        }
    }
}

/// The place of step `step_index` of a range. Inside of the axis, so nothing overflows.
pub(crate) fn range_position(start: u64, step: i64, step_index: u64) -> u64 {
    start.wrapping_add_signed(step.wrapping_mul(step_index as i64))
}

/// Iterator over places in a gather.
pub(crate) enum Candidates<'a> {
    InOrder(Range<usize>),
    Sorted(std::slice::Iter<'a, usize>),
}

impl Iterator for Candidates<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        match self {
            Candidates::InOrder(range) => range.next(),
            Candidates::Sorted(places) => places.next().copied(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Candidates::InOrder(range) => range.size_hint(),
            Candidates::Sorted(places) => places.size_hint(),
        }
    }
}

/// The order that sorts `positions`, or `None` when they are sorted already.
fn sorted_order(positions: &[u64]) -> Option<Vec<usize>> {
    if positions.is_sorted() {
        return None;
    }
    let mut order: Vec<usize> = (0..positions.len()).collect();
    order.sort_by_key(|&place| positions[place]);
    Some(order)
}
