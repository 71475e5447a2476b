//! A view with any strides copies the elements it shows, in C order.

use crate::arbitrary::{dtypes, elements_at, numbered, shapes};
use crate::selections_match_a_naive_reference::{ravel, unravel};
use lacus_tensor::{DType, Shape, TensorRef, count_nonzero};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn transposed_and_cut(dims in shapes(), dtype in dtypes(), seed: u64, order_seed: u64) {
        let tensor = numbered(dtype, &dims, seed);
        let rank = dims.len();
        let mut order: Vec<usize> = (0..rank).collect();
        order.sort_by_key(|&axis| crate::arbitrary::scrambled(order_seed ^ axis as u64));
        let turned = tensor.as_ref().transpose(&order);
        let turned_dims: Vec<u64> = order.iter().map(|&axis| dims[axis]).collect();
        prop_assert_eq!(turned.shape().dims(), &turned_dims);

        let origin: Vec<u64> = turned_dims.iter().map(|&size| seed % (size + 1)).collect();
        let sizes = turned_dims.iter().zip(&origin);
        let extent: Vec<u64> =
            sizes.map(|(&size, &from)| (order_seed % (size + 1)).min(size - from)).collect();
        let cut = turned.region(&origin, &extent);
        let places = (0..extent.iter().product::<u64>()).map(|place| {
            let at: Vec<u64> =
                unravel(place, &extent).iter().zip(&origin).map(|(at, from)| at + from).collect();
            let mut source = vec![0; rank];
            order.iter().zip(at).for_each(|(&axis, at)| source[axis] = at);
            ravel(&source, &dims)
        });
        let expected = elements_at(&tensor, places);
        let copied = cut.to_tensor();
        prop_assert_eq!(copied.buffer(), &expected);
        prop_assert_eq!(copied.shape(), cut.shape());
        if let Some(bytes) = cut.contiguous_bytes() {
            prop_assert_eq!(bytes, &expected[..]);
        }
        prop_assert_eq!(count_nonzero(&cut), count_nonzero(&copied.as_ref()));
    }

    #[test]
    fn any_strides(
        axes in prop::collection::vec((1..6u64, -20..20i64), 0..4),
        dtype in dtypes(),
        origin in 0..200usize,
        slack in -3..40i64,
    ) {
        let (dims, strides): (Vec<u64>, Vec<i64>) = axes.iter().copied().unzip();
        let width = dtype.size_bytes();
        let reach = |positive: bool| axes.iter().map(|&(size, stride)| (size as i64 - 1) * stride)
            .filter(|&reach| (reach > 0) == positive).sum::<i64>();
        let len = (origin as i64 + reach(true) + width as i64 + slack).max(0) as usize;
        let memory: Vec<u8> = (0..len).map(|byte| crate::arbitrary::scrambled(byte as u64) as u8).collect();
        let shape = Shape::new(dims.clone()).unwrap();
        let view = TensorRef::strided(dtype, &shape, &strides, origin, &memory);
        let fits = slack >= 0 && origin as i64 + reach(false) >= 0;
        prop_assert_eq!(view.is_ok(), fits);
        if let Ok(view) = view {
            let expected: Vec<u8> = (0..shape.elements().unwrap()).flat_map(|place| {
                let at = unravel(place, &dims);
                let offset: i64 = at.iter().zip(&strides).map(|(&at, stride)| at as i64 * stride).sum();
                memory[(origin as i64 + offset) as usize..][..width].to_vec()
            }).collect();
            let copied = view.to_tensor();
            prop_assert_eq!(copied.bytes(), &expected[..]);
        }
    }
}

#[test]
fn large_transposed_views_count_piece_by_piece() {
    let tensor = numbered(DType::I16, &[3, 500, 700], 3);
    let expected = tensor.buffer().cast::<i16>().iter().filter(|&&value| value != 0).count() as u64;
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
        assert_eq!(count_nonzero(&tensor.as_ref().transpose(&order)), expected);
    }
}
