//! Whatever the stored bytes are, reading them ends in a tensor or in a corrupt error.

use lacus_layout::{
    ChunkIndex, Codec, Coords, Header, Scratch, Value, chunk_nnz, decode_dense, decode_sparse, read_sparse,
    verify_crc32c, wanted,
};
use lacus_tensor::{Buffer, Duplicates, ErrorKind, Selection, SparseTensor};
use lacus_threads::Team;
use proptest::prelude::*;

use crate::support::{
    Row, config, dense_header, dense_tensors, encode, knobs, packed_layouts, selection, sparse_header,
    sparse_tensors,
};

/// Cuts, flips and garbage, made from numbers.
fn damage(bytes: &[u8], knobs: &[u64]) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    if damaged.is_empty() {
        return vec![knobs[0] as u8; 3];
    }
    match knobs[0] % 5 {
        0 => damaged.truncate(knobs[1] as usize % damaged.len()),
        1 => {
            let at = knobs[1] as usize % damaged.len();
            damaged[at] ^= 1 << (knobs[2] % 8);
        }
        2 => {
            for knob in &knobs[1..5] {
                let at = *knob as usize % damaged.len();
                damaged[at] = (knob >> 40) as u8;
            }
        }
        3 => damaged.extend(knobs[1].to_le_bytes()),
        _ => damaged = knobs.iter().flat_map(|knob| knob.to_le_bytes()).take(bytes.len()).collect(),
    }
    damaged
}

/// A decoded tensor keeps the promises of sparse tensors.
fn is_sound(tensor: &SparseTensor) -> bool {
    let (coords, values) = (Buffer::from_slice(tensor.coords()), Buffer::from_slice(tensor.values()));
    let again = SparseTensor::new(tensor.dtype(), tensor.shape().clone(), coords, values, Duplicates::Refuse);
    again.as_ref() == Ok(tensor)
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn packed(tensor in sparse_tensors(), of_layout in knobs(), of_damage in knobs(), of_selection in knobs()) {
        for layout in packed_layouts(tensor.shape().dims(), &of_layout) {
            let header = sparse_header(&tensor, layout);
            let mut rows = encode(&header, Value::Sparse(&tensor));
            if rows.is_empty() {
                continue;
            }
            let which = of_damage[10] as usize % rows.len();
            let before = rows[which].bytes.clone();
            rows[which].bytes = damage(&before, &of_damage);
            let changed = rows[which].bytes != before;
            prop_assert_eq!(verify_crc32c(&rows[which].bytes, rows[which].crc).is_err(), changed);

            let _ = chunk_nnz(&rows[which].bytes);
            let stored: Vec<_> = rows.iter().map(Row::stored).collect();
            match read_sparse(&header, &Selection::all(tensor.shape()), &stored, Team::alone()) {
                Ok(found) => prop_assert!(is_sound(&found)),
                Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Corrupt, "{}", error),
            }
            if let Some(selection) = selection(tensor.shape(), &of_selection) {
                match read_sparse(&header, &selection, &stored, Team::alone()) {
                    Ok(found) => prop_assert!(is_sound(&found)),
                    Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Corrupt, "{}", error),
                }
            }
        }
    }

    /// Rows under wrong coordinates, with wrong codecs, or under another header.
    #[test]
    fn misplaced(tensor in sparse_tensors(), of_layout in knobs(), at in knobs()) {
        let layouts = packed_layouts(tensor.shape().dims(), &of_layout);
        let all = Selection::all(tensor.shape());
        let mut scratch = Scratch::new();
        for layout in &layouts {
            let header = sparse_header(&tensor, layout.clone());
            let rows = encode(&header, Value::Sparse(&tensor));
            let Some(row) = rows.first() else { continue };
            let wild: Vec<i64> = at.iter().take(at[11] as usize % 8).map(|knob| *knob as i64 >> (knob % 60)).collect();
            let coords = [Coords::new(&wild).unwrap(), row.coords];
            let others = layouts.iter().map(|layout| sparse_header(&tensor, layout.clone()));
            let fewer = Header { nnz: Some(tensor.nnz() as u64 - 1), ..header.clone() };
            for other in others.chain([fewer]) {
                for coords in &coords {
                    for codec in [Codec::Packed, Codec::Raw, Codec::Zstd, Codec::ShuffleZstd { width: 4 }] {
                        let found = decode_sparse(&other, coords, codec, &row.bytes, &all, &mut scratch);
                        if let Err(error) = found {
                            prop_assert_eq!(error.kind(), ErrorKind::Corrupt, "{}", error);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn dense(tensor in dense_tensors(), of_layout in knobs(), of_damage in knobs()) {
        let header = dense_header(&tensor, &of_layout);
        let rows = encode(&header, Value::Dense(tensor.as_ref()));
        let mut scratch = Scratch::new();
        for row in rows.iter().take(4) {
            let (_, extent) = lacus_layout::chunk_extent(&header, &row.coords).unwrap();
            let mut out = vec![0; extent.iter().product::<u64>() as usize * header.dtype.size_bytes()];
            let bytes = damage(&row.bytes, &of_damage);
            for codec in [row.codec, Codec::Raw, Codec::Zstd, Codec::ShuffleZstd { width: 2 }, Codec::ShuffleZstd { width: 16 }, Codec::Packed] {
                if let Err(error) = decode_dense(&header, &row.coords, codec, &bytes, &mut out, &mut scratch) {
                    prop_assert_eq!(error.kind(), ErrorKind::Corrupt, "{}", error);
                }
            }
        }
    }

    /// Coordinates of any kind name rows or nothing.
    #[test]
    fn wild_coordinates(tensor in sparse_tensors(), of_layout in knobs(), of_selection in knobs(), wild in proptest::collection::vec(0i64..i64::MAX, 0..12)) {
        let Some(selection) = selection(tensor.shape(), &of_selection) else { return Ok(()) };
        for layout in packed_layouts(tensor.shape().dims(), &of_layout) {
            let header = sparse_header(&tensor, layout);
            let columns = lacus_layout::coordinate_columns(&header);
            let mut rows: Vec<Vec<i64>> = wild.iter().map(|knob| (0..columns).map(|k| knob >> (k * 7 + *knob as usize % 60).min(63)).collect()).collect();
            rows.sort_unstable();
            rows.dedup();
            let index = ChunkIndex::new((0..columns).map(|k| rows.iter().map(|row| row[k]).collect()).collect()).unwrap();
            let found = wanted(&header, &selection, &index);
            prop_assert!(found.is_sorted() && found.iter().all(|row| *row < index.len()));
        }
    }

    #[test]
    fn headers(dtype in "[a-z0-9]{0,9}", layout in "[A-Z]{0,5}", shape in proptest::collection::vec(-2i64..i64::MAX, 0..18), parameters in "\\PC{0,40}") {
        for layout in [&layout[..], "FTSF", "COO", "CSR", "CSC", "CSF", "BSGS"] {
            for dtype in [&dtype[..], "float32"] {
                for parameters in [&parameters[..], r#"{"nnz":5,"split":1}"#, r#"{"nnz":5,"axis_order":[1,0]}"#, "{}"] {
                    for chunk_shape in [None, Some(&shape[..]), Some(&[1i64, 1][..])] {
                        if let Err(error) = Header::from_parts(dtype, &shape, layout, chunk_shape, parameters) {
                            prop_assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Invalid));
                        }
                    }
                }
            }
        }
    }
}
