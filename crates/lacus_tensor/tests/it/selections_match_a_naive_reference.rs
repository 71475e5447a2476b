//! Any indexing gives the elements that a slow, literal reading of numpy's rules gives.
//!
//! The reference computes every output element on its own: unravel the place in the output, ask each
//! index which position it means, ravel the position in the input.

use crate::arbitrary::{dtypes, elements_at, indexed_shapes, numbered};
use lacus_tensor::{Group, Index, Selection, Shape, TensorError};
use proptest::prelude::*;

/// An index as the reference sees it: every array has one axis.
#[derive(Clone, Debug)]
enum Simple {
    Axis(Vec<u64>),
    New,
    Gap,
    Array { dims: Vec<u64>, values: Vec<u64>, on_axis: bool },
}

/// Output shape, and the input place of every output element. `None` when arrays do not broadcast.
pub(crate) fn reference(dims: &[u64], indices: &[Index]) -> Option<(Vec<u64>, Vec<u64>)> {
    let simple = simplify(dims, indices);
    let has_arrays = indices.iter().any(|index| match index {
        Index::List { dims, .. } => !dims.is_empty(),
        other => matches!(other, Index::Mask { .. }),
    });
    // Integers are arrays of no dimensions: on their own they add no axis, beside arrays they broadcast.
    let is_array = |item: &Simple| matches!(item, Simple::Array { .. });
    let mut common: Vec<u64> = vec![];
    for item in &simple {
        if let Simple::Array { dims, .. } = item {
            common = broadcast(&common, dims)?;
        }
    }
    let first = simple.iter().position(is_array);
    let last = simple.iter().rposition(is_array);
    let together = first.zip(last).is_none_or(|(first, last)| simple[first..=last].iter().all(is_array));
    let before: Vec<&Simple> = match first {
        Some(first) if together => simple[..first].iter().collect(),
        _ => vec![],
    };
    let size = |item: &&Simple| match item {
        Simple::Axis(positions) => Some(positions.len() as u64),
        Simple::New => Some(1),
        Simple::Gap | Simple::Array { .. } => None,
    };
    let mut out_dims: Vec<u64> = simple.iter().collect::<Vec<_>>().iter().filter_map(size).collect();
    let front = before.iter().filter_map(size).count();
    if has_arrays {
        out_dims.splice(front..front, common.iter().copied());
    }
    let count = out_dims.iter().product::<u64>();
    let places = (0..count).map(|place| {
        let at = unravel(place, &out_dims);
        let (shared, own): (Vec<u64>, Vec<u64>) = if has_arrays {
            let end = front + common.len();
            (at[front..end].to_vec(), [&at[..front], &at[end..]].concat())
        } else {
            (vec![], at)
        };
        let mut own = own.into_iter();
        let mut position = vec![];
        for item in &simple {
            match item {
                Simple::Axis(positions) => position.push(positions[own.next().unwrap() as usize]),
                Simple::New => drop(own.next()),
                Simple::Gap => {}
                Simple::Array { on_axis: false, .. } => {}
                Simple::Array { dims, values, .. } => {
                    let tail = &shared[shared.len() - dims.len()..];
                    let own: Vec<u64> =
                        tail.iter().zip(dims).map(|(&at, &size)| if size == 1 { 0 } else { at }).collect();
                    position.push(values[ravel(&own, dims) as usize]);
                }
            }
        }
        ravel(&position, dims)
    });
    let places = places.collect();
    Some((out_dims, places))
}

fn simplify(dims: &[u64], indices: &[Index]) -> Vec<Simple> {
    let taken = |index: &Index| match index {
        Index::Ellipsis | Index::NewAxis => 0,
        Index::Mask { dims, .. } => dims.len(),
        _ => 1,
    };
    let spare = dims.len() - indices.iter().map(taken).sum::<usize>();
    let mut simple = vec![];
    let mut axis = 0;
    let mut indices = indices.to_vec();
    if !indices.contains(&Index::Ellipsis) {
        indices.push(Index::Ellipsis);
    }
    for index in &indices {
        let from_start = |value: i64| if value < 0 { value + dims[axis] as i64 } else { value } as u64;
        match index {
            Index::At(at) => {
                simple.push(Simple::Array { dims: vec![], values: vec![from_start(*at)], on_axis: true });
            }
            Index::Slice { start, stop, step } => {
                simple.push(Simple::Axis(slice_positions(dims[axis], *start, *stop, *step)));
            }
            Index::Ellipsis => {
                simple.push(Simple::Gap);
                simple.extend(dims[axis..axis + spare].iter().map(|&size| Simple::Axis((0..size).collect())));
                axis += spare;
            }
            Index::NewAxis => simple.push(Simple::New),
            Index::List { dims, values } => simple.push(Simple::Array {
                dims: dims.clone(),
                values: values.iter().map(|&value| from_start(value)).collect(),
                on_axis: true,
            }),
            Index::Mask { dims, bits } => {
                let set: Vec<Vec<u64>> = (0..bits.len())
                    .filter(|&place| bits[place])
                    .map(|place| unravel(place as u64, dims))
                    .collect();
                let array_dims = vec![set.len() as u64];
                for axis in 0..dims.len() {
                    let values = set.iter().map(|at| at[axis]).collect();
                    simple.push(Simple::Array { dims: array_dims.clone(), values, on_axis: true });
                }
                if dims.is_empty() {
                    simple.push(Simple::Array { dims: array_dims, values: vec![], on_axis: false });
                }
            }
        }
        axis += taken(index);
    }
    simple
}

/// Walks a slice step by step, clipping its ends as Python's documentation says.
fn slice_positions(size: u64, start: Option<i64>, stop: Option<i64>, step: Option<i64>) -> Vec<u64> {
    let (size, step) = (size as i64, step.unwrap_or(1));
    let from_start = |bound: i64| if bound < 0 { bound + size } else { bound };
    let mut at = match start {
        None => {
            if step > 0 {
                0
            } else {
                size - 1
            }
        }
        Some(start) if step > 0 => from_start(start).max(0),
        Some(start) => from_start(start).min(size - 1),
    };
    let stop = match stop {
        None => {
            if step > 0 {
                size
            } else {
                -1
            }
        }
        Some(stop) if step > 0 => from_start(stop).min(size),
        Some(stop) => from_start(stop).max(-1),
    };
    let mut positions = vec![];
    while if step > 0 { at < stop } else { at > stop } {
        positions.push(at as u64);
        at += step;
    }
    positions
}

fn broadcast(a: &[u64], b: &[u64]) -> Option<Vec<u64>> {
    let rank = a.len().max(b.len());
    let padded = |dims: &[u64]| [vec![1; rank - dims.len()], dims.to_vec()].concat();
    let pairs = padded(a).into_iter().zip(padded(b));
    pairs.map(|(a, b)| if a == 1 { Some(b) } else { (b == 1 || a == b).then_some(a) }).collect()
}

pub(crate) fn unravel(mut place: u64, dims: &[u64]) -> Vec<u64> {
    let mut at = vec![0; dims.len()];
    for axis in (0..dims.len()).rev() {
        at[axis] = place % dims[axis];
        place /= dims[axis];
    }
    at
}

pub(crate) fn ravel(at: &[u64], dims: &[u64]) -> u64 {
    at.iter().zip(dims).fold(0, |place, (&at, &size)| place * size + at)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn any_indexing((dims, indices) in indexed_shapes(), dtype in dtypes(), seed: u64) {
        let shape = Shape::new(dims.clone()).unwrap();
        let resolved = Selection::resolve(&shape, &indices);
        let Some((out_dims, places)) = reference(&dims, &indices) else {
            let refused = matches!(resolved, Err(TensorError::IndexBroadcast { .. }));
            prop_assert!(refused, "{:?}", resolved);
            return Ok(());
        };
        let selection = resolved.unwrap();
        prop_assert_eq!(selection.output_shape().dims(), &out_dims);
        prop_assert_eq!(selection.output_elements(), places.len() as u64);

        let tensor = numbered(dtype, &dims, seed);
        let result = tensor.as_ref().select(&selection).unwrap();
        prop_assert_eq!(result.buffer(), &elements_at(&tensor, places.iter().copied()));

        check_groups(&selection);
        let bounds = selection.bounding_box();
        prop_assert_eq!(bounds.is_none(), places.is_empty());
        if let Some(bounds) = bounds {
            for (axis, &(first, end)) in bounds.iter().enumerate() {
                let on_axis: Vec<u64> = places.iter().map(|&place| unravel(place, &dims)[axis]).collect();
                prop_assert_eq!(on_axis.iter().min(), Some(&first));
                prop_assert_eq!(on_axis.iter().max(), Some(&(end - 1)));
            }
        }
        let identity = out_dims == dims && places.iter().copied().eq(0..places.len() as u64);
        // A list that names every position in order is an identity too, and so is an indexing of nothing.
        prop_assert!(identity || !selection.is_all());
    }
}

/// Every input axis is in one group, output axes are taken at most once, and others have size one.
fn check_groups(selection: &Selection) {
    let (mut axes, mut out_axes, mut gathers) = (vec![], vec![], 0);
    for group in selection.groups() {
        match group {
            Group::Range { axis, start, step, len, out_axis } => {
                let size = selection.input_shape().dims()[*axis];
                let last = *start as i64 + step * (*len as i64 - 1);
                assert!(*len == 0 || *start < size && last >= 0 && (last as u64) < size);
                assert!(*step != 0 && (*len > 1 || *step == 1));
                assert!(out_axis.is_some() || *len == 1);
                axes.push(*axis);
                out_axes.extend(*out_axis);
                assert!(out_axis.is_none_or(|out| selection.output_shape().dims()[out] == *len));
            }
            Group::Gather { axes: own, coords, len, out_axis, out_dims } => {
                gathers += 1;
                assert_eq!(*len, out_dims.iter().product::<u64>());
                assert_eq!(own.len(), coords.len());
                for (&axis, positions) in own.iter().zip(coords) {
                    assert_eq!(positions.len() as u64, *len);
                    assert!(positions.iter().all(|&at| at < selection.input_shape().dims()[axis]));
                }
                axes.extend(own);
                out_axes.extend(*out_axis..out_axis + out_dims.len());
                assert_eq!(selection.output_shape().dims()[*out_axis..][..out_dims.len()], out_dims[..]);
            }
        }
    }
    assert!(gathers <= 1);
    axes.sort_unstable();
    assert!(axes.into_iter().eq(0..selection.input_shape().rank()));
    for (axis, &size) in selection.output_shape().dims().iter().enumerate() {
        let owners = out_axes.iter().filter(|&&out_axis| out_axis == axis).count();
        assert!(owners == 1 || owners == 0 && size == 1);
    }
}

#[test]
fn everything_is_all() {
    for dims in [vec![], vec![3], vec![0, 2], vec![2, 1, 4]] {
        let shape = Shape::new(dims).unwrap();
        assert!(Selection::all(&shape).is_all());
        assert_eq!(Selection::resolve(&shape, &[]), Ok(Selection::all(&shape)));
        assert_eq!(Selection::resolve(&shape, &[Index::Ellipsis]), Ok(Selection::all(&shape)));
        assert!(!Selection::resolve(&shape, &[Index::NewAxis]).unwrap().is_all());
    }
    let shape = Shape::new([4]).unwrap();
    let mask = Index::Mask { dims: vec![4], bits: vec![true; 4] };
    assert!(Selection::resolve(&shape, &[mask]).unwrap().is_all());
}
