//! Which coordinates a selection reaches on each axis, and the next reached place at or after a given one.
//!
//! Every layout finds the rows it wants with one question: *given a place in the stored order, what is the
//! first selected place at or after it?* Rows before the answer are skipped by a galloping search, so the
//! cost follows what is wanted, not what is stored.

use lacus_tensor::{Group, MAX_RANK, Selection};

use crate::chunk::{ChunkIndex, Coords};

/// A place: one coordinate per axis.
pub(crate) type Place = [u64; MAX_RANK];

/// The coordinates a selection reaches, axis by axis. Where a selection picks points by lists on several
/// axes, this is the product of the lists, which holds all of the points and more.
pub(crate) struct Reach<'a> {
    axes: Vec<AxisSet>,
    points: Option<(&'a [usize], &'a [Vec<u64>])>,
}

#[derive(Debug)]
enum AxisSet {
    /// `start`, `start + step`, …, `last`.
    Range { start: u64, step: u64, last: u64 },
    /// Ascending, without repetition, not empty.
    List(Vec<u64>),
}

impl AxisSet {
    fn next(&self, at: u64) -> Option<u64> {
        match self {
            AxisSet::Range { start, step, last } => {
                let next = match at.checked_sub(*start) {
                    None => *start,
                    Some(distance) => start.checked_add(distance.div_ceil(*step).checked_mul(*step)?)?,
                };
                (next <= *last).then_some(next)
            }
            AxisSet::List(values) => values.get(values.partition_point(|value| *value < at)).copied(),
        }
    }

    /// As `next`, in units of boxes `side` long.
    fn next_box(&self, at: u64, side: u64) -> Option<u64> {
        Some(self.next(at.checked_mul(side)?)? / side)
    }
}

impl<'a> Reach<'a> {
    /// What `selection` reaches; `None` if it selects nothing.
    pub(crate) fn of(selection: &'a Selection) -> Option<Reach<'a>> {
        if selection.output_elements() == 0 {
            return None;
        }
        let mut axes: Vec<AxisSet> = Vec::new();
        axes.resize_with(selection.input_shape().rank(), || AxisSet::List(Vec::new()));
        let mut points = None;
        for group in selection.groups() {
            match group {
                Group::Range { axis, start, step, len, .. } => {
                    let (step, reverse) = (step.unsigned_abs().max(1), *step < 0);
                    let span = step * (len - 1);
                    let start = if reverse { start - span } else { *start };
                    axes[*axis] = AxisSet::Range { start, step, last: start + span };
                }
                Group::Gather { axes: of, coords, .. } => {
                    for (axis, values) in of.iter().zip(coords) {
                        let mut values = values.clone();
                        values.sort_unstable();
                        values.dedup();
                        axes[*axis] = AxisSet::List(values);
                    }
                    if of.len() > 1 {
                        points = Some((&of[..], &coords[..]));
                    }
                }
            }
        }
        Some(Reach { axes, points })
    }

    /// The first reached place at or after `at`, comparing axes in the order `order`, in units of boxes of
    /// the sides `sides` (both indexed by axis; `at` and the result by position in `order`).
    pub(crate) fn next(&self, order: &[usize], sides: Option<&[u64]>, at: &Place) -> Option<Place> {
        let next = |position: usize, from: u64| {
            let axis = order[position];
            self.axes[axis].next_box(from, sides.map_or(1, |sides| sides[axis]))
        };
        let mut place = *at;
        let mut changed = None;
        for position in 0..order.len() {
            match next(position, at[position]) {
                Some(value) if value == at[position] => {}
                Some(value) => {
                    place[position] = value;
                    changed = Some(position);
                    break;
                }
                None => {
                    // Carry: the closest axis before this one that can move on.
                    let earlier =
                        (0..position).rev().find_map(|p| Some((p, next(p, at[p].checked_add(1)?)?)));
                    let (p, value) = earlier?;
                    place[p] = value;
                    changed = Some(p);
                    break;
                }
            }
        }
        if let Some(changed) = changed {
            for (position, slot) in place.iter_mut().enumerate().take(order.len()).skip(changed + 1) {
                *slot = next(position, 0)?;
            }
        }
        Some(place)
    }

    /// Rows of `index` whose coordinates are boxes of the sides `sides` that the selection reaches.
    pub(crate) fn boxes(&self, sides: &[u64], index: &ChunkIndex) -> Vec<usize> {
        let order: Vec<usize> = (0..sides.len()).collect();
        let mut rows = Vec::new();
        let mut row = 0;
        while row < index.len() {
            let at = place_of(&index.coords(row));
            let Some(next) = self.next(&order, Some(sides), &at) else { break };
            if next == at {
                rows.push(row);
                row += 1;
            } else {
                row = index.first_at_or_after(row, &Coords::of(next.iter().copied().take(sides.len())));
            }
        }
        if let Some((axes, coords)) = self.points {
            // The product of the lists was searched; keep the boxes in which one of the points lies.
            let in_box = |point: usize| -> Vec<u64> {
                axes.iter().zip(coords).map(|(axis, values)| values[point] / sides[*axis]).collect()
            };
            let points = coords.first().map_or(0, Vec::len);
            let mut boxes: Vec<Vec<u64>> = (0..points).map(in_box).collect();
            boxes.sort_unstable();
            boxes.dedup();
            rows.retain(|row| {
                let at = index.coords(*row);
                let of_row: Vec<u64> = axes.iter().map(|axis| at[*axis] as u64).collect();
                boxes.binary_search(&of_row).is_ok()
            });
        }
        rows
    }

    /// Rows of `index` that may hold a reached place, where row `i` holds the places from its start up to
    /// the start of row `i + 1`, in the order `order`. `start_of` turns coordinates into the place.
    pub(crate) fn runs(
        &self,
        order: &[usize],
        index: &ChunkIndex,
        start_of: impl Fn(&Coords) -> Place,
        coords_of: impl Fn(&Place) -> Coords,
    ) -> Vec<usize> {
        let mut rows = Vec::new();
        let mut row = 0;
        while row < index.len() {
            let Some(next) = self.next(order, None, &start_of(&index.coords(row))) else { break };
            // The last row that starts at or before the place holds it.
            let target = coords_of(&next);
            let after = index.first_at_or_after(row, &target);
            let holder = match after < index.len() && index.coords(after) == target {
                true => after,
                false => after.saturating_sub(1).max(row),
            };
            rows.push(holder);
            row = holder + 1;
        }
        // A selection may also begin before the first row's start without reaching beyond it; and a row's
        // own start can lie after a place that an earlier row holds: both are covered by starting at 0.
        rows
    }
}

pub(crate) fn place_of(coords: &Coords) -> Place {
    let mut place = [0; MAX_RANK];
    for (slot, value) in place.iter_mut().zip(coords.iter()) {
        *slot = *value as u64;
    }
    place
}
