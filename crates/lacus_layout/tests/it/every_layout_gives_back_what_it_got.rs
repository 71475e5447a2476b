//! decode(encode(tensor)) is the tensor, bit for bit.

use lacus_layout::{
    Compression, Header, Layout, Scratch, Value, chunk_nnz, decode_sparse_into, encoder, exact_size,
    verify_crc32c,
};
use lacus_tensor::{Buffer, DType, Duplicates, ErrorKind, Selection, Shape, SparseTensor, Tensor, TensorRef};
use proptest::prelude::*;

use crate::support::{
    config, dense_header, dense_tensors, element_bytes, encode, knobs, packed_layouts, permutation,
    read_dense, read_packed, sparse, sparse_header, sparse_tensors,
};

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn packed(tensor in sparse_tensors(), knobs in knobs()) {
        for layout in packed_layouts(tensor.shape().dims(), &knobs) {
            let header = sparse_header(&tensor, layout);
            let rows = encode(&header, Value::Sparse(&tensor));
            prop_assert_eq!(rows.iter().map(|row| row.nnz).sum::<u64>(), tensor.nnz() as u64);
            for row in &rows {
                prop_assert_eq!(chunk_nnz(&row.bytes), Ok(row.nnz));
                prop_assert_eq!(verify_crc32c(&row.bytes, row.crc), Ok(()));
            }
            let bytes: usize = rows.iter().map(|row| row.bytes.len()).sum();
            prop_assert_eq!(exact_size(&header, &Value::Sparse(&tensor)), Ok(bytes as u64));
            let back = read_packed(&header, &rows, &Selection::all(tensor.shape()));
            prop_assert_eq!(back.as_ref(), Ok(&tensor), "{:?}", header.layout);
        }
    }

    #[test]
    fn dense(tensor in dense_tensors(), knobs in knobs()) {
        let header = dense_header(&tensor, &knobs);
        let rows = encode(&header, Value::Dense(tensor.as_ref()));
        for row in &rows {
            prop_assert_eq!(verify_crc32c(&row.bytes, row.crc), Ok(()));
        }
        let back = read_dense(&header, &rows, &Selection::all(tensor.shape()));
        prop_assert_eq!(back.as_ref(), Ok(&tensor));
        // Chunks of zeros need not be stored.
        let stored: Vec<_> = rows.into_iter().filter(|row| row.nnz > 0).collect();
        prop_assert_eq!(read_dense(&header, &stored, &Selection::all(tensor.shape())), Ok(tensor));
    }

    #[test]
    fn strided(tensor in dense_tensors(), knobs in knobs()) {
        let axes = permutation(tensor.shape().rank(), &knobs);
        let turned = tensor.as_ref().transpose(&axes);
        let expected = turned.to_tensor();
        let header = dense_header(&expected, &knobs);
        let rows = encode(&header, Value::Dense(turned));
        prop_assert_eq!(read_dense(&header, &rows, &Selection::all(expected.shape())), Ok(expected));
    }
}

/// Several runs and blocks, long lines that are cut, and threads.
#[test]
fn large() {
    let noise = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let dims = [40, 30, 500];
    let mut cells: Vec<u64> = (0..170_000).map(|i| noise(i) % 600_000).collect();
    // One line with more nonzeros than a run may have would need more cells; make some dense at least.
    cells.extend(100_000..190_000);
    cells.sort_unstable();
    cells.dedup();
    let tensor = sparse(DType::F32, &dims, &cells, 2);
    let long_lines = sparse(DType::I16, &[3, 200_000], &cells, 1);
    for (tensor, rank) in [(&tensor, 3), (&long_lines, 2)] {
        let axes: Vec<usize> = (0..rank).collect();
        let turned: Vec<usize> = (0..rank).rev().collect();
        let mut layouts = vec![
            Layout::CompressedRows { split: 1 },
            Layout::CompressedRows { split: 0 },
            Layout::CompressedColumns { split: 1 },
            Layout::FiberTree { axis_order: axes.clone() },
            Layout::FiberTree { axis_order: turned.clone() },
        ];
        let dims = tensor.shape().dims().to_vec();
        for block_shape in [dims.clone(), dims.iter().map(|dim| dim.div_ceil(3)).collect(), {
            let mut slab = dims.clone();
            slab[0] = 1;
            slab
        }] {
            for axis_order in [&axes, &turned] {
                layouts.push(Layout::SparseBlocks {
                    block_shape: block_shape.clone(),
                    axis_order: axis_order.clone(),
                });
            }
        }
        for layout in layouts {
            let header = sparse_header(tensor, layout);
            let rows = encode(&header, Value::Sparse(tensor));
            let back = read_packed(&header, &rows, &Selection::all(tensor.shape())).unwrap();
            assert!(back == *tensor, "{:?}", header.layout);
        }
    }
}

/// Cells beyond what 64 bits can count.
#[test]
fn more_cells_than_numbers() {
    let far = i64::MAX - 1;
    let shape = Shape::new(vec![i64::MAX as u64; 3]).unwrap();
    let coords = Buffer::from_elements(&[0, 0, far, far, 5, far, 1, far, far, 0, 7, far]);
    let values = Buffer::from_elements(&[1.0f64, -0.0, f64::NAN, 4.0]);
    let tensor = SparseTensor::new(DType::F64, shape.clone(), coords, values, Duplicates::Refuse).unwrap();
    for axis_order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let header = sparse_header(&tensor, Layout::FiberTree { axis_order: axis_order.to_vec() });
        let rows = encode(&header, Value::Sparse(&tensor));
        assert!(read_packed(&header, &rows, &Selection::all(&shape)).unwrap() == tensor);
    }
    let impossible = [
        Layout::CompressedRows { split: 1 },
        Layout::CompressedColumns { split: 2 },
        Layout::SparseBlocks { block_shape: vec![1, 2, i64::MAX as u64], axis_order: vec![0, 1, 2] },
    ];
    for layout in impossible {
        let error = encoder(&sparse_header(&tensor, layout), Value::Sparse(&tensor)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    // Blocks that can be numbered are fine, however many there might be.
    let block_shape = vec![1 << 20, 1 << 20, 1 << 20];
    let header = sparse_header(&tensor, Layout::SparseBlocks { block_shape, axis_order: vec![1, 2, 0] });
    let rows = encode(&header, Value::Sparse(&tensor));
    assert!(read_packed(&header, &rows, &Selection::all(&shape)).unwrap() == tensor);
}

/// Raw chunks are the caller's memory, not a copy of it.
#[test]
fn raw_chunks_are_borrowed() {
    let tensor = Tensor::zeros(DType::U8, Shape::new(vec![4, 100]).unwrap()).unwrap();
    let header = Header {
        dtype: DType::U8,
        shape: tensor.shape().clone(),
        layout: Layout::DenseChunks { chunk_shape: vec![2, 100] },
        nnz: None,
        compression: Compression::None,
        reasons: vec![],
    };
    let encoder = encoder(&header, Value::Dense(tensor.as_ref())).unwrap();
    let mut scratch = Scratch::new();
    let chunk = encoder.encode(1, &mut scratch).unwrap();
    assert!(std::ptr::eq(chunk.bytes.as_ptr(), tensor.bytes()[200..].as_ptr()));
    assert_eq!(chunk.nnz, 0, "zeros");
}

/// Chunks can be encoded and decoded from many threads at once.
#[test]
fn threads_share_an_encoder() {
    let cells: Vec<u64> = (0..200_000).map(|i| i * 3).collect();
    let tensor = sparse(DType::U16, &[60, 10_000], &cells, 0);
    let header =
        sparse_header(&tensor, Layout::SparseBlocks { block_shape: vec![1, 10_000], axis_order: vec![0, 1] });
    let encoder = encoder(&header, Value::Sparse(&tensor)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (encoder, header) = (&encoder, &header);
            scope.spawn(move || {
                let mut scratch = Scratch::new();
                for i in (thread..encoder.len()).step_by(4) {
                    let (coords, codec, bytes, nnz) = {
                        let chunk = encoder.encode(i, &mut scratch).unwrap();
                        (chunk.coords, chunk.codec, chunk.bytes.to_vec(), chunk.nnz as usize)
                    };
                    let (mut rows, mut columns, mut values) = (vec![0; nnz], vec![0; nnz], vec![0; nnz * 2]);
                    let mut slices = [&mut rows[..], &mut columns[..]];
                    decode_sparse_into(
                        header,
                        &coords,
                        codec,
                        &bytes,
                        &mut slices,
                        &mut values,
                        &mut scratch,
                    )
                    .unwrap();
                    assert!(rows.iter().all(|row| *row == i as i64));
                }
            });
        }
    });
}

#[test]
fn a_value_that_is_not_the_headers_is_refused() {
    let tensor = sparse(DType::U8, &[4, 4], &[3, 9], 0);
    let dense = tensor.to_dense().unwrap();
    let layout = || Layout::FiberTree { axis_order: vec![0, 1] };
    let good = sparse_header(&tensor, layout());
    let other_dtype = Header { dtype: DType::I8, ..good.clone() };
    let other_shape = Header { shape: Shape::new(vec![4, 5]).unwrap(), ..good.clone() };
    let other_nnz = Header { nnz: Some(3), ..good.clone() };
    let coordinates = Header { layout: Layout::Coordinates, ..good.clone() };
    for header in [&other_dtype, &other_shape, &other_nnz, &coordinates] {
        assert_eq!(encoder(header, Value::Sparse(&tensor)).err().unwrap().kind(), ErrorKind::Invalid);
    }
    assert_eq!(encoder(&good, Value::Dense(dense.as_ref())).err().unwrap().kind(), ErrorKind::Invalid);
    let bytes = element_bytes(DType::U8, 1, 1);
    let scalar = TensorRef::contiguous(DType::U8, &Shape::default(), &bytes).unwrap();
    let header = Header { layout: Layout::FiberTree { axis_order: vec![] }, shape: Shape::default(), ..good };
    assert_eq!(encoder(&header, Value::Dense(scalar)).err().unwrap().kind(), ErrorKind::Invalid);
}
