//! The selected nonzeros of one chunk, and how they are picked.

use lacus_tensor::{Buffer, DType, Duplicates, Group, Selection, Shape, SparseTensor};

use crate::error::LayoutError;

/// Nonzeros of one chunk that a selection picked, with their coordinates in the selection's output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SparsePart {
    /// One column of coordinates per output axis.
    pub coords: Vec<Vec<i64>>,
    /// The elements' bytes, in the order of the columns.
    pub values: Vec<u8>,
}

/// Which nonzeros a selection picks.
pub(crate) enum Picked {
    /// All of them, and where they go.
    All(Vec<Vec<i64>>),
    /// Those at these places, and where they go.
    Some(Vec<usize>, Vec<Vec<i64>>),
    /// Lists are involved: [`pick_listed`] does it.
    Listed,
}

/// Picks nonzeros, given by one column of coordinates per input axis, if the selection has no lists.
pub(crate) fn pick(selection: &Selection, columns: &[&[i64]]) -> Picked {
    let n = columns.first().map_or(0, |column| column.len());
    let dims = selection.input_shape().dims();
    let mut places: Option<Vec<usize>> = None;
    for group in selection.groups() {
        let Group::Range { axis, start, step, len, .. } = group else { return Picked::Listed };
        if *start == 0 && *step == 1 && *len == dims[*axis] {
            continue;
        }
        let column = columns[*axis];
        let span = step.unsigned_abs() * len.saturating_sub(1);
        let low = if *step < 0 { start.saturating_sub(span) } else { *start };
        let step = step.unsigned_abs().max(1);
        let reached = |i: &usize| {
            let distance = (column[*i] as u64).wrapping_sub(low);
            *len > 0 && distance <= span && (step == 1 || distance.is_multiple_of(step))
        };
        match &mut places {
            // A chunk often lies inside of what is selected.
            None if (0..n).all(|i| reached(&i)) => {}
            None => places = Some((0..n).filter(reached).collect()),
            Some(places) => places.retain(reached),
        }
    }
    let picked = places.as_ref().map_or(n, Vec::len);
    // Axes that `None` adds to the output stay 0.
    let mut coords = vec![vec![0i64; picked]; selection.output_shape().rank()];
    for group in selection.groups() {
        let Group::Range { axis, start, step, out_axis: Some(out_axis), .. } = group else { continue };
        let move_to = |value: i64| match *step {
            1 => value - *start as i64,
            step => (value - *start as i64) / step,
        };
        let column = columns[*axis];
        let out = &mut coords[*out_axis];
        match &places {
            None => out.iter_mut().zip(column).for_each(|(out, value)| *out = move_to(*value)),
            Some(places) => {
                out.iter_mut().zip(places).for_each(|(out, place)| *out = move_to(column[*place]))
            }
        }
    }
    match places {
        None => Picked::All(coords),
        Some(places) => Picked::Some(places, coords),
    }
}

/// Picks nonzeros by a selection with lists.
pub(crate) fn pick_listed(
    dtype: DType,
    shape: &Shape,
    selection: &Selection,
    columns: &[&[i64]],
    values: &[u8],
) -> Result<SparsePart, LayoutError> {
    let coords = Buffer::from_elements(&columns.concat());
    let tensor =
        SparseTensor::new(dtype, shape.clone(), coords, Buffer::from_slice(values), Duplicates::Refuse)?;
    let picked = tensor.select(selection);
    let rank = picked.shape().rank();
    Ok(SparsePart {
        coords: (0..rank).map(|axis| picked.axis(axis).to_vec()).collect(),
        values: picked.values().to_vec(),
    })
}
