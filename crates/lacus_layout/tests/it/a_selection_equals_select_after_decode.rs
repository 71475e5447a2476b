//! Reading a selection is decoding everything and selecting then, but cheaper.

use lacus_layout::{Layout, Scratch, Value, assemble, chunk_extent, decode_sparse, wanted};
use lacus_tensor::{BoxCopy, DType, ErrorKind, Index, Selection, SparseTensor};
use lacus_threads::Team;
use proptest::prelude::*;

use crate::support::{
    config, dense_header, dense_tensors, encode, index_of, knobs, packed_layouts, read_dense, read_packed,
    selection, sparse, sparse_header, sparse_tensors,
};

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn packed(tensor in sparse_tensors(), of_layout in knobs(), of_selection in knobs()) {
        let Some(selection) = selection(tensor.shape(), &of_selection) else { return Ok(()) };
        let expected = tensor.select(&selection);
        for layout in packed_layouts(tensor.shape().dims(), &of_layout) {
            let header = sparse_header(&tensor, layout);
            let rows = encode(&header, Value::Sparse(&tensor));
            let found = read_packed(&header, &rows, &selection);
            prop_assert_eq!(found.as_ref(), Ok(&expected), "{:?} {:?}", header.layout, selection);
        }
    }

    #[test]
    fn dense(tensor in dense_tensors(), of_layout in knobs(), of_selection in knobs()) {
        let Some(selection) = selection(tensor.shape(), &of_selection) else { return Ok(()) };
        let header = dense_header(&tensor, &of_layout);
        let rows = encode(&header, Value::Dense(tensor.as_ref()));
        let expected = SparseTensor::from_dense(&tensor.as_ref()).select(&selection).to_dense().unwrap();
        prop_assert_eq!(read_dense(&header, &rows, &selection), Ok(expected), "{:?} {:?}", header.layout, selection);
    }

    /// Boxes that are not reached are not wanted, and no box is wanted in vain.
    #[test]
    fn only_reached_boxes_are_wanted(tensor in sparse_tensors(), of_layout in knobs(), of_selection in knobs()) {
        let Some(selection) = selection(tensor.shape(), &of_selection) else { return Ok(()) };
        let layout = packed_layouts(tensor.shape().dims(), &of_layout).remove(3);
        let header = sparse_header(&tensor, layout);
        let rows = encode(&header, Value::Sparse(&tensor));
        let found = wanted(&header, &selection, &index_of(&header, &rows));
        for (i, row) in rows.iter().enumerate() {
            let (origin, extent) = chunk_extent(&header, &row.coords).unwrap();
            let copy = BoxCopy::plan(&selection, &origin, &extent, 1);
            prop_assert_eq!(found.contains(&i), copy.is_some(), "{:?} {:?}", row.coords, selection);
        }
    }
}

/// A slice of a tensor of many runs fetches a few of them.
#[test]
fn a_slice_costs_the_slice() {
    let cells: Vec<u64> = (0..900_000).map(|i| i * 2).collect();
    let tensor = sparse(DType::U8, &[90, 20, 1000], &cells, 0);
    let at = |axis: usize| {
        let mut indices = vec![Index::Slice { start: None, stop: None, step: None }; 3];
        indices[axis] = Index::At(7);
        Selection::resolve(tensor.shape(), &indices).unwrap()
    };
    let cases = [
        (Layout::CompressedRows { split: 1 }, 0, 2),
        (Layout::CompressedRows { split: 2 }, 0, 2),
        (Layout::CompressedColumns { split: 2 }, 2, 2),
        (Layout::FiberTree { axis_order: vec![0, 1, 2] }, 0, 2),
        (Layout::FiberTree { axis_order: vec![2, 0, 1] }, 2, 2),
        (Layout::SparseBlocks { block_shape: vec![1, 20, 1000], axis_order: vec![0, 1, 2] }, 0, 1),
        (Layout::SparseBlocks { block_shape: vec![90, 2, 1000], axis_order: vec![2, 1, 0] }, 1, 1),
    ];
    for (layout, axis, most) in cases {
        let header = sparse_header(&tensor, layout);
        let rows = encode(&header, Value::Sparse(&tensor));
        assert!(rows.len() >= 10);
        let selection = at(axis);
        let found = wanted(&header, &selection, &index_of(&header, &rows));
        assert!((1..=most).contains(&found.len()), "{:?}: {found:?}", header.layout);
        assert!(
            read_packed(&header, &rows, &selection).unwrap() == tensor.select(&selection),
            "{:?}",
            header.layout
        );
    }
}

/// Parts can be decoded in any order and put together.
#[test]
fn parts_come_in_any_order() {
    let tensor = sparse(DType::I32, &[6, 7, 8], &(0..300).collect::<Vec<_>>(), 1);
    let block_shape = vec![2, 3, 8];
    let header = sparse_header(&tensor, Layout::SparseBlocks { block_shape, axis_order: vec![2, 0, 1] });
    let rows = encode(&header, Value::Sparse(&tensor));
    let selection = Selection::resolve(
        tensor.shape(),
        &[
            Index::Slice { start: None, stop: None, step: Some(-1) },
            Index::List { dims: vec![3], values: vec![5, 1, 5] },
        ],
    )
    .unwrap();
    let mut scratch = Scratch::new();
    let mut parts: Vec<_> = rows
        .iter()
        .map(|row| {
            decode_sparse(&header, &row.coords, row.codec, &row.bytes, &selection, &mut scratch).unwrap()
        })
        .collect();
    parts.reverse();
    assert!(
        assemble(&header, &selection, parts.clone(), Team::alone()).unwrap() == tensor.select(&selection)
    );
    // The same part twice cannot be.
    parts.push(parts.iter().find(|part| !part.values.is_empty()).unwrap().clone());
    let error = assemble(&header, &selection, parts, Team::alone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}
