//! A sparse tensor gives what the dense tensor of the same elements gives, bit by bit.

use crate::arbitrary::{dtypes, indexed_shapes, mostly_zero, numbered, scrambled, shapes};
use lacus_tensor::{
    Buffer, DType, Duplicates, Selection, Shape, SparseTensor, TensorRef, count_nonzero, parse_indices,
};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn there_and_back(dims in shapes(), dtype in dtypes(), seed: u64, one_in in 1..9u64) {
        let dense = mostly_zero(dtype, &dims, seed, one_in);
        let sparse = SparseTensor::from_dense(&dense.as_ref());
        prop_assert_eq!(&sparse.to_dense().unwrap(), &dense);
        prop_assert_eq!(sparse.nnz() as u64, count_nonzero(&dense.as_ref()));
        let elements = dense.bytes().chunks(dtype.size_bytes());
        prop_assert_eq!(sparse.nnz(), elements.filter(|bytes| bytes.iter().any(|&byte| byte != 0)).count());
    }

    #[test]
    fn any_selection((dims, indices) in indexed_shapes(), dtype in dtypes(), seed: u64, one_in in 1..5u64) {
        let shape = Shape::new(dims.clone()).unwrap();
        let Ok(selection) = Selection::resolve(&shape, &indices) else { return Ok(()) };
        let dense = mostly_zero(dtype, &dims, seed, one_in);
        let expected = SparseTensor::from_dense(&dense.as_ref().select(&selection).unwrap().as_ref());
        let found = SparseTensor::from_dense(&dense.as_ref()).select(&selection);
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn any_order_of_rows(dims in shapes(), dtype in dtypes(), seed: u64) {
        let sparse = SparseTensor::from_dense(&numbered(dtype, &dims, seed).as_ref());
        let (nnz, width) = (sparse.nnz(), dtype.size_bytes());
        let mut rows: Vec<usize> = (0..nnz).collect();
        rows.sort_by_key(|&row| scrambled(row as u64 ^ seed));
        let coords: Vec<i64> =
            (0..dims.len()).flat_map(|axis| rows.iter().map(move |&row| (axis, row)))
                .map(|(axis, row)| sparse.axis(axis)[row]).collect();
        let values: Vec<u8> =
            rows.iter().flat_map(|&row| &sparse.values()[row * width..][..width]).copied().collect();
        for duplicates in [Duplicates::Refuse, Duplicates::Sum] {
            let (coords, values) = (Buffer::from_elements(&coords), Buffer::from_slice(&values));
            let made = SparseTensor::new(dtype, sparse.shape().clone(), coords, values, duplicates);
            prop_assert_eq!(made.as_ref(), Ok(&sparse));
        }
    }

    #[test]
    fn duplicates_sum_like_a_dense_accumulation(
        entries in prop::collection::vec((0..3i64, 0..4i64, any::<i32>()), 0..40),
    ) {
        let columns = entries.iter().map(|entry| entry.0).chain(entries.iter().map(|entry| entry.1));
        let coords: Vec<i64> = columns.collect();
        let values: Vec<i32> = entries.iter().map(|entry| entry.2).collect();
        let shape = Shape::new([3, 4]).unwrap();
        let sparse = SparseTensor::new(
            DType::I32, shape, Buffer::from_elements(&coords), Buffer::from_elements(&values), Duplicates::Sum,
        ).unwrap();
        let mut expected = [0i32; 12];
        for (row, column, value) in entries {
            let sum = &mut expected[(row * 4 + column) as usize];
            *sum = sum.wrapping_add(value);
        }
        let dense = sparse.to_dense().unwrap();
        prop_assert_eq!(dense.buffer().cast::<i32>(), &expected);
    }
}

#[test]
fn explicit_zeros_negative_zeros_and_nans_keep_their_bits() {
    let bits = [0x8000_0000, 0x7fa0_0001, 0xffc1_2345u32, 0, 0x3f80_0000];
    let coords = Buffer::from_elements(&[0i64, 1, 2, 3, 4]);
    let values = Buffer::from_elements(&bits);
    let shape = Shape::new([6]).unwrap();
    let sparse = SparseTensor::new(DType::F32, shape.clone(), coords, values, Duplicates::Sum).unwrap();
    assert_eq!(sparse.nnz(), 5);
    let dense = sparse.to_dense().unwrap();
    assert_eq!(dense.buffer().cast::<u32>(), [bits[0], bits[1], bits[2], 0, bits[4], 0]);
    let again = SparseTensor::from_dense(&dense.as_ref());
    assert_eq!((again.nnz(), again.values().cast::<u32>()), (4, &[bits[0], bits[1], bits[2], bits[4]][..]));
    assert_ne!(again, sparse);
    let reversed = sparse.select(&Selection::resolve(&shape, &parse_indices("::-1").unwrap()).unwrap());
    assert_eq!(reversed.axis(0), [1, 2, 3, 4, 5]);
    assert_eq!(reversed.values().cast::<u32>(), [bits[4], 0, bits[2], bits[1], bits[0]]);
}

#[test]
fn shapes_without_a_number_of_elements_work() {
    let shape = Shape::new([1 << 50, 7, 1 << 50]).unwrap();
    let coords = Buffer::from_elements(&[1 << 49, 5, 5, 6, 0, 0, 3, 1 << 45, 2i64]);
    let values = Buffer::from_slice(&[1, 2, 3]);
    let sparse = SparseTensor::new(DType::U8, shape.clone(), coords, values, Duplicates::Refuse).unwrap();
    assert_eq!(sparse.axis(0), [5, 5, 1 << 49]);
    assert_eq!(sparse.axis(2), [2, 1 << 45, 3]);
    assert_eq!(sparse.values()[..], [3, 2, 1]);
    let check = |indices: &str, expected: &[u8]| {
        let selection = Selection::resolve(&shape, &parse_indices(indices).unwrap()).unwrap();
        assert_eq!(sparse.select(&selection).values()[..], *expected, "{indices}");
    };
    check("5", &[3, 2]);
    check("5, 0, 2", &[3]);
    check("::-1", &[1, 3, 2]);
    check("[9, 5], :, [7, 2]", &[3]);
    check("..., [2, 3, 2]", &[3, 3, 1]);
    assert!(sparse.to_dense().is_err());
}

#[test]
fn scalars_hold_one_or_none() {
    let make = |values: &[u8], duplicates| {
        SparseTensor::new(
            DType::U8,
            Shape::default(),
            Buffer::default(),
            Buffer::from_slice(values),
            duplicates,
        )
    };
    assert_eq!(make(&[], Duplicates::Refuse).unwrap().to_dense().unwrap().bytes(), [0]);
    assert_eq!(make(&[5], Duplicates::Refuse).unwrap().to_dense().unwrap().bytes(), [5]);
    assert_eq!(make(&[5, 6], Duplicates::Sum).unwrap().to_dense().unwrap().bytes(), [11]);
    let error = make(&[5, 6], Duplicates::Refuse).unwrap_err();
    assert_eq!(error.to_string(), "2 nonzeros cannot be distinct in a tensor of 1 elements, shape ()");
    let scalar = make(&[5], Duplicates::Refuse).unwrap();
    let selection = Selection::resolve(&Shape::default(), &parse_indices("None").unwrap()).unwrap();
    assert_eq!(scalar.select(&selection).axis(0), [0]);
}

#[test]
fn long_runs_of_zeros_and_unaligned_bytes() {
    for dtype in DType::ALL {
        let width = dtype.size_bytes();
        let mut bytes = vec![0u8; 3 + width * 10_000];
        for place in [0, 7, 1023, 1024, 4095, 9_998, 9_999] {
            bytes[3 + place * width + width - 1] = 0x80;
        }
        let shape = Shape::new([10, 1, 1000]).unwrap();
        let view = TensorRef::contiguous(dtype, &shape, &bytes[3..]).unwrap();
        let sparse = SparseTensor::from_dense(&view);
        assert_eq!(sparse.axis(0), [0, 0, 1, 1, 4, 9, 9]);
        assert_eq!(sparse.axis(2), [0, 7, 23, 24, 95, 998, 999]);
        assert_eq!(count_nonzero(&view), 7);
    }
}
