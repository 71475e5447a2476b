//! What is chosen can be stored, is asked for, and is what the tensor needs.

use lacus_layout::{
    Choice, Compression, CompressionWish, Header, Layout, LayoutError, Optimize, Value, Wish, choose_dense,
    choose_sparse, estimate, exact_size,
};
use lacus_tensor::{Buffer, DType, Duplicates, ErrorKind, Selection, Shape, SparseTensor, Tensor};
use proptest::prelude::*;

use crate::support::{config, dense_tensors, encode, read_dense, read_packed, sparse, sparse_tensors};

fn wish(layout: &str) -> Wish {
    Wish { layout: Some(layout.into()), ..Wish::default() }
}

fn header(choice: Result<Choice, LayoutError>) -> Header {
    match choice {
        Ok(Choice::Header(header)) => header,
        other => panic!("no header: {other:?}"),
    }
}

proptest! {
    #![proptest_config(config(80))]

    #[test]
    fn sparse_tensors_survive_their_choice(tensor in sparse_tensors()) {
        for optimize in [Optimize::Slices, Optimize::Size] {
            for layout in ["auto", "sparse", "CSR", "csc", "Csf", "BSGS"] {
                let header = header(choose_sparse(&tensor, &Wish { optimize, ..wish(layout) }));
                prop_assert!(!header.reasons.is_empty());
                let rows = encode(&header, Value::Sparse(&tensor));
                let back = read_packed(&header, &rows, &Selection::all(tensor.shape()));
                prop_assert_eq!(back.as_ref(), Ok(&tensor));
            }
            prop_assert_eq!(header(choose_sparse(&tensor, &wish("coo"))).layout, Layout::Coordinates);
        }
    }

    #[test]
    fn dense_tensors_survive_their_choice(tensor in dense_tensors()) {
        for optimize in [Optimize::Slices, Optimize::Size] {
            let header = header(choose_dense(&tensor.as_ref(), &Wish { optimize, ..wish("dense") }));
            let rows = encode(&header, Value::Dense(tensor.as_ref()));
            let back = read_dense(&header, &rows, &Selection::all(tensor.shape()));
            prop_assert_eq!(back.as_ref(), Ok(&tensor));
        }
    }
}

fn noise(i: u64) -> u64 {
    let mixed = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 24
}

/// Many places, each active at the same few hours of all days: place-major order repeats itself.
fn timetable() -> SparseTensor {
    let dims = [60, 24, 50, 40];
    let mut cells = Vec::new();
    for day in 0..60 {
        for place in 0..2000u64 {
            for k in 0..3 {
                let hour = noise(place * 7 + k) % 24;
                if noise(day * 2000 + place) % 10 > 1 {
                    cells.push((day * 24 + hour) * 2000 + place);
                }
            }
        }
    }
    cells.sort_unstable();
    cells.dedup();
    sparse(DType::F32, &dims, &cells, 0)
}

#[test]
fn slices_get_blocks_and_size_gets_another_order() {
    let tensor = timetable();
    let value = Value::Sparse(&tensor);
    let slices = header(choose_sparse(&tensor, &Wish::default()));
    let Layout::SparseBlocks { block_shape, .. } = &slices.layout else { panic!("{slices:?}") };
    assert_eq!(block_shape[1..], [24, 50, 40], "{slices:?}");
    assert!(block_shape[0] <= 4, "{slices:?}");
    let size = header(choose_sparse(&tensor, &Wish { optimize: Optimize::Size, ..Wish::default() }));
    let rows = header(choose_sparse(&tensor, &wish("CSR")));
    let bytes = |header: &Header| exact_size(header, &value).unwrap();
    assert!(bytes(&size) * 10 < bytes(&slices) * 9, "{size:?} {} {}", bytes(&size), bytes(&slices));
    for header in [&slices, &size, &rows] {
        let (exact, guess) = (bytes(header) as f64, estimate(header, &value).unwrap());
        let ratio = guess.stored_bytes as f64 / exact;
        assert!((0.7..1.4).contains(&ratio), "{} {exact} {guess:?}", header.layout.name());
        assert_eq!(guess.slice_bytes.len(), 4);
    }
    assert!(estimate(&slices, &value).unwrap().slice_bytes[0] < bytes(&slices) / 10);
}

#[test]
fn huge_shapes_get_a_tree() {
    let shape = Shape::new(vec![1 << 62; 4]).unwrap();
    let coords = Buffer::from_elements(&[1i64, 2, 3, 4, 5, 6, 7, 8]);
    let tensor =
        SparseTensor::new(DType::I8, shape, coords, Buffer::from_slice(&[1, 2]), Duplicates::Refuse).unwrap();
    for optimize in [Optimize::Slices, Optimize::Size] {
        let header = header(choose_sparse(&tensor, &Wish { optimize, ..Wish::default() }));
        assert_eq!(header.layout.name(), "CSF");
    }
    assert_eq!(choose_sparse(&tensor, &wish("CSR")).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(header(choose_sparse(&tensor, &wish("COO"))).layout, Layout::Coordinates);
}

#[test]
fn dense_tensors_with_few_nonzeros_become_sparse() {
    let shape = Shape::new(vec![200, 300]).unwrap();
    let mut tensor = Tensor::zeros(DType::F32, shape).unwrap();
    for i in 0..900u64 {
        let at = (noise(i) % 60_000) as usize * 4;
        tensor.bytes_mut()[at..at + 4].copy_from_slice(&(noise(i + 7) as f32).to_le_bytes());
    }
    let auto = |tensor: &Tensor| choose_dense(&tensor.as_ref(), &Wish::default()).unwrap();
    assert!(matches!(auto(&tensor), Choice::Sparse { .. }));
    assert!(matches!(choose_dense(&tensor.as_ref(), &wish("dense")).unwrap(), Choice::Header(_)));
    assert!(matches!(choose_dense(&tensor.as_ref(), &wish("csf")).unwrap(), Choice::Sparse { .. }));
    // All zeros compress to nothing as they are, and a full tensor has no zeros to leave out.
    let full: Vec<u8> = (0..240_000u64).map(|i| noise(i) as u8 | 1).collect();
    let full = Tensor::new(DType::F32, tensor.shape().clone(), Buffer::from_slice(&full)).unwrap();
    let Choice::Header(header) = auto(&full) else { panic!() };
    assert_eq!(header.compression, Compression::None, "{header:?}");
    let ramp: Vec<u8> = (0..60_000u32).flat_map(|i| i.to_le_bytes()).collect();
    let ramp = Tensor::new(DType::U32, tensor.shape().clone(), Buffer::from_slice(&ramp)).unwrap();
    let Choice::Header(header) = auto(&ramp) else { panic!() };
    assert_eq!(header.compression, Compression::Zstd { level: 1 }, "{header:?}");
}

#[test]
fn dense_chunk_shapes() {
    let chosen = |dtype, dims: &[u64], wish: &Wish| {
        let tensor = Tensor::zeros(dtype, Shape::new(dims.to_vec()).unwrap()).unwrap();
        header(choose_dense(&tensor.as_ref(), &Wish { layout: Some("ftsf".into()), ..wish.clone() }))
            .chunk_shape()
            .unwrap()
            .to_vec()
    };
    let auto = Wish::default();
    assert_eq!(chosen(DType::U8, &[100, 3, 256, 256], &auto), [5, 3, 256, 256]);
    assert_eq!(chosen(DType::U8, &[4, 3, 1024, 1024], &auto), [1, 3, 1024, 1024]);
    assert_eq!(chosen(DType::F32, &[384, 384], &auto), [384, 384]);
    assert_eq!(chosen(DType::F64, &[1000, 1000], &auto), [125, 1000]);
    assert_eq!(chosen(DType::F32, &[3_000_000], &auto), [250_000]);
    assert_eq!(chosen(DType::F32, &[], &auto), Vec::<u64>::new());
    assert_eq!(chosen(DType::F32, &[0, 7], &auto), [1, 7]);
    assert_eq!(chosen(DType::U8, &[4, 3, 8, 9], &Wish { chunk_rank: Some(2), ..auto.clone() }), [1, 1, 8, 9]);
    assert_eq!(chosen(DType::U8, &[4, 9], &Wish { chunk_shape: Some(vec![3, 20]), ..auto }), [3, 20]);
}

#[test]
fn wishes_that_cannot_be_are_refused() {
    let tensor = sparse(DType::U8, &[4, 5], &[3, 9], 0);
    let dense = tensor.to_dense().unwrap();
    let auto = Wish::default;
    #[rustfmt::skip]
    let impossible = [
        wish("LZ4"),
        Wish { chunk_shape: Some(vec![1, 1]), chunk_rank: Some(1), ..auto() },
        Wish { chunk_shape: Some(vec![1, 1]), ..wish("CSR") },
        Wish { compression: CompressionWish::Zstd(3), ..wish("BSGS") },
        Wish { block_shape: Some(vec![1, 1]), ..wish("CSF") },
        Wish { split: Some(1), ..wish("CSF") },
        Wish { axis_order: Some(vec![0, 1]), ..wish("COO") },
        Wish { axis_order: Some(vec![0, 1]), split: Some(1), ..auto() },
        Wish { split: Some(3), ..auto() },
        Wish { axis_order: Some(vec![0, 0]), ..auto() },
        Wish { axis_order: Some(vec![0, 2]), ..wish("BSGS") },
        Wish { block_shape: Some(vec![1]), ..auto() },
        Wish { block_shape: Some(vec![1, 0]), ..auto() },
        Wish { chunk_shape: Some(vec![1]), ..auto() },
        Wish { chunk_shape: Some(vec![0, 1]), ..auto() },
        Wish { chunk_rank: Some(3), ..auto() },
        Wish { compression: CompressionWish::Zstd(99), ..auto() },
    ];
    for wish in impossible {
        let answers = [choose_dense(&dense.as_ref(), &wish), choose_sparse(&tensor, &wish)];
        let errors: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
        assert!(!errors.is_empty(), "{wish:?}");
        assert!(errors.iter().all(|error| error.kind() == ErrorKind::Invalid), "{wish:?}: {errors:?}");
    }
    // An option names its layout.
    let named = |wish: Wish| header(choose_sparse(&tensor, &wish)).layout.name();
    assert_eq!(named(Wish { split: Some(1), ..auto() }), "CSR");
    assert_eq!(named(Wish { split: Some(1), ..wish("csc") }), "CSC");
    assert_eq!(named(Wish { axis_order: Some(vec![1, 0]), ..auto() }), "CSF");
    assert_eq!(named(Wish { block_shape: Some(vec![2, 2]), ..auto() }), "BSGS");
    assert_eq!(named(Wish { block_shape: Some(vec![2, 2]), axis_order: Some(vec![1, 0]), ..auto() }), "BSGS");
    assert!(matches!(choose_sparse(&tensor, &wish("dense")), Ok(Choice::Dense { .. })));
}
