//! Input that cannot be right gives an error that says what is wrong with it.

use lacus_tensor::{Buffer, DType, Duplicates, ErrorKind, Index, Selection, Shape, SparseTensor};

#[test]
fn sparse_parts_must_agree() {
    let check = |dims: &[u64], coords: &[i64], values: usize, expected: &str| {
        let (coords, values) = (Buffer::from_elements(coords), Buffer::zeroed(values));
        let shape = Shape::new(dims).unwrap();
        let error = SparseTensor::new(DType::F32, shape, coords, values, Duplicates::Refuse).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.kind()), (expected, ErrorKind::Invalid));
    };
    check(&[3], &[0, 1], 7, "the buffer of values takes 4 bytes, found 7");
    check(&[3], &[0, 1, 2], 8, "the buffer of coordinates takes 16 bytes, found 24");
    check(&[3, 3], &[0, 1], 8, "the buffer of coordinates takes 32 bytes, found 16");
    check(&[3], &[0, 3], 8, "nonzero 1 has coordinate 3 on axis 0, outside of [0, 3)");
    check(&[3], &[0, -1], 8, "nonzero 1 has coordinate -1 on axis 0, outside of [0, 3)");
    check(&[0], &[0], 4, "nonzero 0 has coordinate 0 on axis 0, outside of [0, 0)");
    check(&[2], &[0, 1, 1], 12, "3 nonzeros cannot be distinct in a tensor of 2 elements, shape (2,)");
    check(&[3, 2], &[2, 1, 2, 0, 1, 0], 12, "the coordinates (2, 0) appear more than once");
}

#[test]
fn index_arrays_must_have_their_values() {
    let shape = Shape::new([4]).unwrap();
    let check = |index: Index, expected: &str| {
        let error = Selection::resolve(&shape, &[index]).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.is_out_of_bounds()), (expected, false));
    };
    check(
        Index::List { dims: vec![2, 2], values: vec![0; 3] },
        "an index array of shape (2,2) takes 4 values, found 3",
    );
    check(Index::List { dims: vec![], values: vec![] }, "an index array of shape () takes 1 values, found 0");
    check(
        Index::Mask { dims: vec![4], bits: vec![] },
        "an index array of shape (4,) takes 4 values, found 0",
    );
}

#[test]
fn arrays_that_broadcast_beyond_memory_are_refused() {
    let shape = Shape::new([4, 4, 4]).unwrap();
    let long = |dims: Vec<u64>| Index::List { dims, values: vec![0; 1 << 21] };
    let indices = [long(vec![1 << 21, 1, 1]), long(vec![1, 1 << 21, 1]), long(vec![1, 1, 1 << 21])];
    let error = Selection::resolve(&shape, &indices).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
}
