//! numpy's indexing rules, in numpy's order of checks: ellipses and the number of indices first, then
//! the shapes of masks, then integers and slices from left to right, then the broadcasting of arrays,
//! and the values of arrays last (they are not looked at when they broadcast to nothing).

use super::{Group, Index};
use crate::error::TensorError;
use crate::shape::{MAX_RANK, Shape};
use std::borrow::Cow;

/// An index after the first pass: what it does to which axis.
enum Item<'a> {
    /// An integer; counts as an array when there are arrays.
    Point { axis: usize, at: u64 },
    /// Becomes an output axis.
    Range { axis: usize, start: u64, step: i64, len: u64 },
    /// An ellipsis, however many axes it stands for: it parts arrays even when it stands for none.
    Gap,
    /// An output axis without an input axis.
    New,
    /// One array; a mask gives one per axis.
    Array { axis: Option<usize>, dims: Cow<'a, [u64]>, values: Cow<'a, [i64]> },
}

/// The shape of `tensor[indices]` and the groups, ordered by axis.
pub(super) fn resolve(shape: &Shape, indices: &[Index]) -> Result<(Shape, Vec<Group>), TensorError> {
    check_counts(shape, indices)?;
    let items = itemise(shape, indices)?;
    let arrays = Arrays::broadcast(shape, &items)?;

    // Where the arrays' axes go among the others: numpy's one rule that surprises.
    let mut out_dims: Vec<u64> = Vec::new();
    let mut groups = Vec::new();
    let mut place = Place::Unseen;
    for item in &items {
        match *item {
            Item::Array { .. } => place = place.advance(out_dims.len()),
            Item::Point { axis, at } => {
                place = place.advance(out_dims.len());
                groups.push(Group::Range { axis, start: at, step: 1, len: 1, out_axis: None });
            }
            Item::Range { axis, start, step, len } => {
                place = place.part();
                groups.push(Group::Range { axis, start, step, len, out_axis: Some(out_dims.len()) });
                out_dims.push(len);
            }
            Item::New => {
                place = place.part();
                out_dims.push(1);
            }
            Item::Gap => place = place.part(),
        }
    }
    if let Some(arrays) = arrays {
        let at = match place {
            Place::Together(at) | Place::Ended(at) => at,
            Place::Unseen | Place::Apart => 0,
        };
        let added = arrays.dims.len();
        for group in &mut groups {
            if let Group::Range { out_axis: Some(out_axis), .. } = group
                && *out_axis >= at
            {
                *out_axis += added;
            }
        }
        out_dims.splice(at..at, arrays.dims.iter().copied());
        groups.extend(arrays.into_group(at));
    }
    if out_dims.len() > MAX_RANK {
        return Err(TensorError::TooManyResultAxes { rank: out_dims.len() });
    }
    groups.sort_by_key(first_axis);
    Ok((Shape::from_dims(&out_dims)?, groups))
}

fn first_axis(group: &Group) -> usize {
    match group {
        Group::Range { axis, .. } => *axis,
        Group::Gather { axes, .. } => axes.first().copied().unwrap_or(MAX_RANK),
    }
}

/// Whether arrays (and the integers beside them) stand together, seen from left to right.
#[derive(Clone, Copy)]
enum Place {
    Unseen,
    /// The last item was one of them; the first stood before this output axis.
    Together(usize),
    /// Something else followed.
    Ended(usize),
    /// And then another one came.
    Apart,
}

impl Place {
    fn advance(self, out_axis: usize) -> Place {
        match self {
            Place::Unseen => Place::Together(out_axis),
            Place::Together(at) => Place::Together(at),
            Place::Ended(_) | Place::Apart => Place::Apart,
        }
    }

    fn part(self) -> Place {
        match self {
            Place::Together(at) => Place::Ended(at),
            other => other,
        }
    }
}

fn check_counts(shape: &Shape, indices: &[Index]) -> Result<(), TensorError> {
    if indices.iter().filter(|index| matches!(index, Index::Ellipsis)).count() > 1 {
        return Err(TensorError::TwoEllipses);
    }
    for index in indices {
        let (dims, found) = match index {
            Index::List { dims, values } => (dims, values.len()),
            Index::Mask { dims, bits } => (dims, bits.len()),
            _ => continue,
        };
        let expected = Shape::from_dims(dims)?.elements_saturating();
        if expected != found as u64 {
            return Err(TensorError::IndexValues { dims: dims.clone(), expected, found });
        }
    }
    let indexed = indices.iter().map(axes_taken).sum();
    if indexed > shape.rank() {
        return Err(TensorError::TooManyIndices { rank: shape.rank(), indexed });
    }
    let mut axis = 0;
    for index in indices {
        if let Index::Mask { dims, .. } = index {
            for (offset, (&size, &mask_size)) in shape.dims()[axis..].iter().zip(dims).enumerate() {
                if size != mask_size {
                    return Err(TensorError::MaskMismatch { axis: axis + offset, size, mask_size });
                }
            }
        }
        axis += if *index == Index::Ellipsis { shape.rank() - indexed } else { axes_taken(index) };
    }
    Ok(())
}

fn axes_taken(index: &Index) -> usize {
    match index {
        Index::At(_) | Index::Slice { .. } | Index::List { .. } => 1,
        Index::Ellipsis | Index::NewAxis => 0,
        Index::Mask { dims, .. } => dims.len(),
    }
}

fn itemise<'a>(shape: &Shape, indices: &'a [Index]) -> Result<Vec<Item<'a>>, TensorError> {
    let indexed: usize = indices.iter().map(axes_taken).sum();
    let mut items = Vec::new();
    let mut axis = 0;
    // Axes that no index names are taken whole by an ellipsis, which stands last when it is not written.
    let implied = (!indices.contains(&Index::Ellipsis)).then_some(&Index::Ellipsis);
    for index in indices.iter().chain(implied) {
        match index {
            Index::At(at) => items.push(point(shape, axis, *at)?),
            Index::List { dims, values } if dims.is_empty() => items.push(point(shape, axis, values[0])?),
            Index::Slice { start, stop, step } => {
                let (start, step, len) = slice(shape.dims()[axis], *start, *stop, *step)?;
                items.push(Item::Range { axis, start, step, len });
            }
            Index::Ellipsis => {
                items.push(Item::Gap);
                for axis in axis..axis + shape.rank() - indexed {
                    items.push(Item::Range { axis, start: 0, step: 1, len: shape.dims()[axis] });
                }
                axis += shape.rank() - indexed;
            }
            Index::NewAxis => items.push(Item::New),
            Index::List { dims, values } => items.push(Item::Array {
                axis: Some(axis),
                dims: Cow::Borrowed(dims),
                values: Cow::Borrowed(values),
            }),
            Index::Mask { dims, bits } => {
                let count = bits.iter().filter(|&&bit| bit).count();
                let array = |axis, values| Item::Array { axis, dims: vec![count as u64].into(), values };
                if dims.is_empty() {
                    items.push(array(None, vec![0; count].into()));
                }
                let columns = true_positions(dims, bits, count).into_iter().enumerate();
                items.extend(columns.map(|(offset, values)| array(Some(axis + offset), values.into())));
            }
        }
        axis += axes_taken(index);
    }
    Ok(items)
}

fn point<'a>(shape: &Shape, axis: usize, at: i64) -> Result<Item<'a>, TensorError> {
    Ok(Item::Point { axis, at: wrap(at, axis, shape.dims()[axis])? })
}

/// A position counted from either end, as one counted from the start.
fn wrap(index: i64, axis: usize, size: u64) -> Result<u64, TensorError> {
    // Sizes do not exceed i64::MAX, so a negative index plus the size does not overflow.
    let at = if index < 0 { index + size as i64 } else { index };
    if at < 0 || at >= size as i64 {
        return Err(TensorError::IndexOutOfBounds { index, axis, size });
    }
    Ok(at as u64)
}

/// Python's `slice.indices`: first position, distance, number of positions.
fn slice(
    size: u64,
    start: Option<i64>,
    stop: Option<i64>,
    step: Option<i64>,
) -> Result<(u64, i64, u64), TensorError> {
    let size = size as i64;
    // The smallest integer cannot be negated; no axis is long enough to tell it from its neighbour.
    let step = step.unwrap_or(1).max(-i64::MAX);
    if step == 0 {
        return Err(TensorError::ZeroStep);
    }
    // A backward slice runs from size-1 down to, but not including, -1.
    let (low, high) = if step < 0 { (-1, size - 1) } else { (0, size) };
    let clip = |bound: i64| (if bound < 0 { bound + size } else { bound }).clamp(low, high);
    let (first, end) = if step < 0 { (high, low) } else { (low, high) };
    let (start, stop) = (start.map_or(first, clip), stop.map_or(end, clip));
    let span = if step < 0 { start - stop } else { stop - start };
    Ok(match span {
        ..=0 => (0, 1, 0),
        _ if span <= step.abs() => (start as u64, 1, 1),
        _ => (start as u64, step, ((span - 1) / step.abs() + 1) as u64),
    })
}

/// Per axis of a mask, the coordinates of its true elements in C order.
fn true_positions(dims: &[u64], bits: &[bool], count: usize) -> Vec<Vec<i64>> {
    let mut columns: Vec<Vec<i64>> = dims.iter().map(|_| Vec::with_capacity(count)).collect();
    let (Some((last, outer)), Some(&width)) = (columns.split_last_mut(), dims.last()) else { return columns };
    let mut at = vec![0; outer.len()];
    // An axis of size zero has no rows, and no chunks.
    for row in bits.chunks_exact((width as usize).max(1)) {
        last.extend((0..).zip(row).filter_map(|(at, &bit)| bit.then_some(at)));
        for (column, &at) in outer.iter_mut().zip(&at) {
            column.resize(last.len(), at);
        }
        for (at, &size) in at.iter_mut().zip(dims).rev() {
            *at += 1;
            if *at < size as i64 {
                break;
            }
            *at = 0;
        }
    }
    columns
}

/// All arrays of an indexing, broadcast together and checked.
struct Arrays {
    dims: Vec<u64>,
    axes: Vec<usize>,
    coords: Vec<Vec<u64>>,
    len: u64,
}

impl Arrays {
    fn broadcast(shape: &Shape, items: &[Item<'_>]) -> Result<Option<Arrays>, TensorError> {
        let arrays = || {
            items.iter().filter_map(|item| match item {
                Item::Array { axis, dims, values } => Some((*axis, &dims[..], &values[..])),
                _ => None,
            })
        };
        if arrays().next().is_none() {
            return Ok(None);
        }
        let dims = broadcast_dims(arrays().map(|(_, dims, _)| dims)).ok_or_else(|| {
            TensorError::IndexBroadcast { shapes: arrays().map(|(_, dims, _)| dims.to_vec()).collect() }
        })?;
        let len = Shape::from_dims(&dims)?.elements_saturating();
        let (mut axes, mut coords) = (Vec::new(), Vec::new());
        for (axis, own_dims, values) in arrays() {
            if let Some(axis) = axis {
                axes.push(axis);
                coords.push(spread(values, own_dims, &dims, len, axis, shape.dims()[axis])?);
            }
        }
        Ok(Some(Arrays { dims, axes, coords, len }))
    }

    /// The group of these arrays. An array that counts is a range, which is cheaper everywhere; arrays
    /// without an axis (`True`) add an output axis and select nothing.
    fn into_group(self, out_axis: usize) -> Option<Group> {
        let Arrays { dims, axes, coords, len } = self;
        if let ([axis], [positions], [_]) = (&axes[..], &coords[..], &dims[..])
            && let Some((start, step)) = arithmetic(positions)
        {
            return Some(Group::Range { axis: *axis, start, step, len, out_axis: Some(out_axis) });
        }
        let selects_nothing = axes.is_empty() && len > 0;
        (!selects_nothing).then_some(Group::Gather { axes, coords, len, out_axis, out_dims: dims })
    }
}

fn broadcast_dims<'a>(shapes: impl Iterator<Item = &'a [u64]>) -> Option<Vec<u64>> {
    let mut dims: Vec<u64> = Vec::new();
    for shape in shapes {
        if shape.len() > dims.len() {
            dims.splice(0..0, vec![1; shape.len() - dims.len()]);
        }
        let skipped = dims.len() - shape.len();
        for (size, &own) in dims[skipped..].iter_mut().zip(shape) {
            match (*size, own) {
                (_, 1) => {}
                (1, _) => *size = own,
                (size, own) if size == own => {}
                _ => return None,
            }
        }
    }
    Some(dims)
}

/// The positions of one array after broadcasting from `own` to `dims`.
fn spread(
    values: &[i64],
    own: &[u64],
    dims: &[u64],
    len: u64,
    axis: usize,
    size: u64,
) -> Result<Vec<u64>, TensorError> {
    let mut spread = Vec::new();
    if len == 0 {
        return Ok(spread);
    }
    let checked = values.iter().map(|&value| wrap(value, axis, size)).collect::<Result<Vec<u64>, _>>()?;
    if checked.len() as u64 == len {
        return Ok(checked);
    }
    let bytes = usize::try_from(len).unwrap_or(usize::MAX).saturating_mul(size_of::<u64>());
    spread.try_reserve_exact(bytes / size_of::<u64>()).map_err(|_| TensorError::OutOfMemory {
        what: "a list of positions".to_owned(),
        bytes,
        available: None,
    })?;
    // Strides of the array seen with the broadcast shape: zero where it repeats.
    let mut strides = vec![0; dims.len()];
    let mut stride = 1;
    for (place, &own_size) in strides.iter_mut().rev().zip(own.iter().rev()) {
        *place = if own_size == 1 { 0 } else { stride };
        stride *= own_size as usize;
    }
    let mut at = vec![0; dims.len()];
    let mut from = 0;
    loop {
        spread.push(checked[from]);
        let mut place = dims.len();
        loop {
            if place == 0 {
                return Ok(spread);
            }
            place -= 1;
            at[place] += 1;
            from += strides[place];
            if at[place] < dims[place] {
                break;
            }
            from -= strides[place] * dims[place] as usize;
            at[place] = 0;
        }
    }
}

/// Start and step when the positions are that of a range.
fn arithmetic(positions: &[u64]) -> Option<(u64, i64)> {
    match *positions {
        [] => Some((0, 1)),
        [only] => Some((only, 1)),
        [first, second, ..] => {
            let step = (second as i64) - (first as i64);
            let even = positions.windows(2).all(|pair| pair[1] as i64 - pair[0] as i64 == step);
            (step != 0 && even).then_some((first, step))
        }
    }
}
