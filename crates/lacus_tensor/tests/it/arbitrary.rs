//! Random shapes, tensors and indices, and a way to see more of a random number.

use lacus_tensor::{Buffer, DType, Index, Shape, Tensor};
use proptest::prelude::*;

/// Shapes of few elements, with empty axes and axes of one among them.
pub(crate) fn shapes() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![1 => Just(0u64), 2 => Just(1), 12 => 2..6u64], 0..5)
}

/// A shape and indices that fit it.
pub(crate) fn indexed_shapes() -> impl Strategy<Value = (Vec<u64>, Vec<Index>)> {
    (shapes(), any::<bool>()).prop_flat_map(|(dims, with_arrays)| {
        let choices = dims.iter().map(|&size| index(size, with_arrays)).collect::<Vec<_>>();
        let extras = prop::collection::vec((0..5usize, extra(with_arrays)), 0..3);
        (choices, 0..6usize, 0..5usize, extras, mask(dims.clone())).prop_map(
            move |(mut indices, kept, ellipsis, extras, mask)| {
                indices.truncate(kept);
                let rank = dims.len();
                if with_arrays && kept == 5 && rank > 1 {
                    // One mask over two axes in place of their own indices.
                    indices.splice(0..2, [mask]);
                }
                if ellipsis < indices.len() && indices.len() == rank {
                    indices[ellipsis] = Index::Ellipsis;
                }
                for (at, extra) in extras {
                    indices.insert(at.min(indices.len()), extra);
                }
                (dims.clone(), indices)
            },
        )
    })
}

fn extra(with_arrays: bool) -> BoxedStrategy<Index> {
    if with_arrays {
        let bit = any::<bool>().prop_map(|bit| Index::Mask { dims: vec![], bits: vec![bit] });
        prop_oneof![4 => Just(Index::NewAxis), 1 => bit].boxed()
    } else {
        Just(Index::NewAxis).boxed()
    }
}

/// A mask over the first two axes.
fn mask(dims: Vec<u64>) -> impl Strategy<Value = Index> {
    let dims: Vec<u64> = dims.into_iter().take(2).collect();
    let size = dims.iter().product::<u64>() as usize;
    prop::collection::vec(any::<bool>(), size).prop_map(move |bits| Index::Mask { dims: dims.clone(), bits })
}

fn index(size: u64, with_arrays: bool) -> BoxedStrategy<Index> {
    let reach = size as i64 + 2;
    let bound = || prop::option::of(-reach..=reach);
    let step = prop_oneof![-3..0i64, 1..4i64];
    let slice = (bound(), bound(), prop::option::of(step)).prop_map(|(start, stop, step)| Index::Slice {
        start,
        stop,
        step,
    });
    if size == 0 {
        return slice.boxed();
    }
    let inside = -(size as i64)..size as i64;
    let at = inside.clone().prop_map(Index::At);
    if !with_arrays {
        return prop_oneof![3 => slice, 1 => at].boxed();
    }
    // Shapes that broadcast with each other.
    let list_dims = prop::sample::select(vec![vec![], vec![3], vec![1], vec![2, 3], vec![2, 1], vec![1, 3]]);
    let list = list_dims.prop_flat_map(move |dims: Vec<u64>| {
        let count = dims.iter().product::<u64>() as usize;
        prop::collection::vec(inside.clone(), count)
            .prop_map(move |values| Index::List { dims: dims.clone(), values })
    });
    let mask = prop::collection::vec(any::<bool>(), size as usize)
        .prop_map(move |bits| Index::Mask { dims: vec![size], bits });
    prop_oneof![3 => slice, 2 => at, 4 => list, 1 => mask].boxed()
}

pub(crate) fn dtypes() -> impl Strategy<Value = DType> {
    prop::sample::select(DType::ALL.to_vec())
}

/// A tensor whose elements all differ in most of their bits, from their place in C order and a seed.
pub(crate) fn numbered(dtype: DType, dims: &[u64], seed: u64) -> Tensor {
    let shape = Shape::new(dims).unwrap();
    let mut tensor = Tensor::zeros(dtype, shape).unwrap();
    for (place, byte) in tensor.bytes_mut().iter_mut().enumerate() {
        *byte = scrambled(place as u64 ^ seed << 32) as u8;
    }
    tensor
}

/// A tensor in which about one element in `one_in` is not zero.
pub(crate) fn mostly_zero(dtype: DType, dims: &[u64], seed: u64, one_in: u64) -> Tensor {
    let mut tensor = numbered(dtype, dims, seed);
    let width = dtype.size_bytes();
    for (place, element) in tensor.bytes_mut().chunks_mut(width).enumerate() {
        if !scrambled(seed.wrapping_add(place as u64)).is_multiple_of(one_in) {
            element.fill(0);
        }
    }
    tensor
}

/// A fixed mixing of bits.
pub(crate) fn scrambled(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 7
}

/// Copies of the bytes of elements at these places.
pub(crate) fn elements_at(tensor: &Tensor, places: impl IntoIterator<Item = u64>) -> Buffer {
    let width = tensor.dtype().size_bytes();
    let bytes = places.into_iter().flat_map(|place| &tensor.bytes()[place as usize * width..][..width]);
    Buffer::from_slice(&bytes.copied().collect::<Vec<u8>>())
}
