//! A selection of a sparse tensor: which stored elements it names, and their new coordinates.
//!
//! ```text
//! rows that can match (leading axes are sorted) ─filter by ranges→ ─look up in the list→ new coordinates
//! ```

use super::{SparseTensor, items, order};
use crate::buffer::Buffer;
use crate::selection::{Group, Selection};
use crate::shape::Shape;
use std::cmp::Ordering;
use std::ops::Range;

impl SparseTensor {
    /// The selected elements, as a sparse tensor of the selection's output shape.
    ///
    /// # Panics
    /// If the selection is of another shape.
    pub fn select(&self, selection: &Selection) -> SparseTensor {
        assert_eq!(self.shape(), selection.input_shape(), "a selection fits tensors of its input shape");
        if selection.is_all() {
            return self.clone();
        }
        let shape = selection.output_shape();
        let Some(bounds) = selection.bounding_box() else {
            return self.picked(shape, Buffer::default(), &[]);
        };
        let mut rows: Vec<usize> = self.rows_within(&bounds).collect();
        for group in selection.groups() {
            if let &Group::Range { axis, start, step, len, .. } = group {
                self.keep_steps(&mut rows, axis, Steps { start, step, len });
            }
        }
        let mut places = Vec::new();
        for group in selection.groups() {
            if let Group::Gather { axes, coords, .. } = group {
                (rows, places) = self.find_listed(&rows, axes, coords);
            }
        }

        let mut coords = Buffer::zeroed(rows.len() * shape.rank() * size_of::<i64>());
        let mut columns: Vec<&mut [i64]> = coords.cast_mut().chunks_exact_mut(rows.len().max(1)).collect();
        for group in selection.groups().iter().filter(|_| !rows.is_empty()) {
            match group {
                &Group::Range { axis, start, step, len, out_axis: Some(out_axis) } => {
                    let (steps, from) = (Steps { start, step, len }, self.axis(axis));
                    for (to, &row) in columns[out_axis].iter_mut().zip(&rows) {
                        *to = steps.find(from[row] as u64).unwrap_or_default() as i64;
                    }
                }
                Group::Range { out_axis: None, .. } => {}
                Group::Gather { out_axis, out_dims, .. } => {
                    let mut left = places.clone();
                    let columns = &mut columns[*out_axis..*out_axis + out_dims.len()];
                    for (column, &size) in columns.iter_mut().zip(out_dims).rev() {
                        for (to, left) in column.iter_mut().zip(&mut left) {
                            *to = (*left % size as usize) as i64;
                            *left /= size as usize;
                        }
                    }
                }
            }
        }
        self.picked(shape, coords, &rows)
    }

    /// The tensor of these rows' values under new coordinates, sorted.
    fn picked(&self, shape: &Shape, coords: Buffer, rows: &[usize]) -> SparseTensor {
        let values = items::pick(&self.values, self.dtype.size_bytes(), rows);
        let mut picked = SparseTensor { dtype: self.dtype, shape: shape.clone(), coords, values };
        // Coordinates made from a selection are inside of its output shape, so there is no error to pass on.
        if order::check(shape, picked.coords.cast(), rows.len()) == Ok(order::Order::Unsorted) {
            picked.sort();
        }
        picked
    }

    /// Rows outside of which nothing lies inside of `bounds`.
    fn rows_within(&self, bounds: &[(u64, u64)]) -> Range<usize> {
        let mut rows = 0..self.nnz();
        for (axis, &(first, end)) in bounds.iter().enumerate() {
            let column = &self.axis(axis)[rows.clone()];
            let begin = rows.start;
            rows = begin + column.partition_point(|&at| (at as u64) < first)
                ..begin + column.partition_point(|&at| (at as u64) < end);
            // The next axis is sorted only where this one does not change.
            if end - first > 1 {
                break;
            }
        }
        rows
    }

    fn keep_steps(&self, rows: &mut Vec<usize>, axis: usize, steps: Steps) {
        if steps.len == self.shape.dims()[axis] {
            return;
        }
        let column = self.axis(axis);
        if steps.step == 1 {
            rows.retain(|&row| (column[row] as u64).wrapping_sub(steps.start) < steps.len);
        } else {
            rows.retain(|&row| steps.find(column[row] as u64).is_some());
        }
    }

    /// The rows whose coordinates are listed, with their place in the list; once for each time they are listed.
    fn find_listed(&self, rows: &[usize], axes: &[usize], coords: &[Vec<u64>]) -> (Vec<usize>, Vec<usize>) {
        let (mut found, mut places) = (Vec::new(), Vec::new());
        let (Some(&lead), Some(listed)) = (axes.first(), coords.first()) else { return (found, places) };
        let columns: Vec<&[i64]> = axes.iter().map(|&axis| self.axis(axis)).collect();
        let compare = |place: usize, row: usize| {
            let mut pairs =
                coords.iter().zip(&columns).map(|(listed, column)| listed[place].cmp(&(column[row] as u64)));
            pairs.find(|ordering| ordering.is_ne()).unwrap_or(Ordering::Equal)
        };
        let mut sorted: Vec<usize> = (0..listed.len()).collect();
        sorted.sort_by(|&a, &b| {
            let mut pairs = coords.iter().map(|listed| listed[a].cmp(&listed[b]));
            pairs.find(|ordering| ordering.is_ne()).unwrap_or(Ordering::Equal)
        });
        // Most rows are not listed, and one look at a table tells, where the axis is short enough for one.
        let size = self.shape.dims()[lead];
        let table_pays = size <= (4 * (rows.len() + listed.len())) as u64;
        let mut is_listed = vec![false; if table_pays { size as usize } else { 0 }];
        if table_pays {
            listed.iter().for_each(|&at| is_listed[at as usize] = true);
        }
        for &row in rows {
            if table_pays && !is_listed[columns[0][row] as usize] {
                continue;
            }
            let first = sorted.partition_point(|&place| compare(place, row).is_lt());
            for &place in sorted[first..].iter().take_while(|&&place| compare(place, row).is_eq()) {
                found.push(row);
                places.push(place);
            }
        }
        (found, places)
    }
}

/// The positions of a range.
#[derive(Clone, Copy)]
struct Steps {
    start: u64,
    step: i64,
    len: u64,
}

impl Steps {
    /// Which step is at this position, if one is.
    fn find(self, position: u64) -> Option<u64> {
        let (offset, stride) = (position as i64 - self.start as i64, self.step);
        let index = if stride == 1 {
            offset
        } else if offset % stride == 0 {
            offset / stride
        } else {
            -1
        };
        (index >= 0 && (index as u64) < self.len).then_some(index as u64)
    }
}
