//! Bytes that were once written are read for ever: one example of every form, byte for byte.

use lacus_layout::{
    Codec, Compression, Coords, Header, Layout, Scratch, StoredChunk, Value, crc32c, decode_dense,
    read_sparse,
};
use lacus_tensor::{Buffer, DType, Duplicates, Selection, Shape, SparseTensor, Tensor};
use lacus_threads::Team;

use crate::support::{encode, sparse_header};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The example of the format description: 6 nonzeros of a (3, 4, 5) tensor.
fn example() -> SparseTensor {
    let coords = Buffer::from_elements(&[0i64, 0, 0, 2, 2, 2, 1, 1, 3, 0, 0, 3, 2, 4, 0, 0, 1, 4]);
    let values = Buffer::from_elements(&[1i16, -2, 3, -4, 5, -6]);
    SparseTensor::new(DType::I16, Shape::new(vec![3, 4, 5]).unwrap(), coords, values, Duplicates::Refuse)
        .unwrap()
}

/// Coordinates, checksum, bytes.
type Stored<'a> = (&'a [i64], u32, &'a str);

#[test]
fn small_packed_chunks() {
    let tensor = example();
    let cases: [(Layout, &[Stored<'_>]); 4] = [
        (
            Layout::CompressedRows { split: 1 },
            &[(
                &[0, 0],
                0xcba7_42db,
                "1106020001000001010002020200020700000401050011100c01fe03fc05fa807f807f807f",
            )],
        ),
        (
            Layout::CompressedColumns { split: 1 },
            &[(
                &[0, 0],
                0xb06c_908a,
                "1106060001000005000501050300060000000000000006020200000002100cfc0501fe03fa7f80807f807f",
            )],
        ),
        (
            Layout::FiberTree { axis_order: vec![2, 0, 1] },
            &[(
                &[0, 0, 3],
                0x8ccc_24c8,
                "1206040600010000030000010004010000010004000200000002010100060000000000000006030000010103100c03fc0501fefa807f80807f7f",
            )],
        ),
        (
            Layout::SparseBlocks { block_shape: vec![2, 4, 3], axis_order: vec![1, 2, 0] },
            &[
                (&[0, 0, 0], 0x3dc2_cb70, "100200010a000107100401038080"),
                (&[0, 0, 1], 0xc144_bb47, "10010001061002fe7f"),
                (&[1, 0, 0], 0x108b_081b, "10020001000001001004fc057f80"),
                (&[1, 0, 1], 0xb7df_b537, "10010001071002fa7f"),
            ],
        ),
    ];
    for (layout, stored) in cases {
        let header = sparse_header(&tensor, layout);
        let rows = encode(&header, Value::Sparse(&tensor));
        assert_eq!(rows.len(), stored.len());
        let blobs: Vec<Vec<u8>> = stored.iter().map(|(_, _, hex)| bytes(hex)).collect();
        let mut chunks = Vec::new();
        for ((row, (coords, crc, _)), blob) in rows.iter().zip(stored).zip(&blobs) {
            assert_eq!((&row.coords[..], row.crc, &row.bytes), (*coords, *crc, blob), "{:?}", header.layout);
            assert_eq!(crc32c(blob), *crc);
            let coords = Coords::new(coords).unwrap();
            chunks.push(StoredChunk { coords, codec: Codec::Packed, bytes: blob });
        }
        assert_eq!(
            read_sparse(&header, &Selection::all(tensor.shape()), &chunks, Team::alone()).as_ref(),
            Ok(&tensor)
        );
    }
}

/// Frames of pco and of zstd. What compressors write may change; what they wrote is still read.
#[test]
fn compressed_frames() {
    let n = 600i64;
    let shape = || Shape::new(vec![30, 1000]).unwrap();
    let rows = || (0..n).map(|i| i / 20);
    let tensor = |columns: Vec<i64>, values: Vec<f32>| {
        let coords = Buffer::from_elements(&rows().chain(columns).collect::<Vec<i64>>());
        SparseTensor::new(DType::F32, shape(), coords, Buffer::from_elements(&values), Duplicates::Refuse)
            .unwrap()
    };
    let quarters = tensor(
        (0..n).map(|i| (i % 20) * 40 + (i * i) % 37).collect(),
        (0..n).map(|i| ((i * 7) % 11) as f32 / 4.0).collect(),
    );
    let repeated = tensor(
        (0..n).map(|i| (i % 20) * 50).collect(),
        (0..n).map(|i| f32::from_bits((i as u32 % 5) * 0x0102_0304)).collect(),
    );
    let cases = [
        (
            &quarters,
            Layout::CompressedRows { split: 1 },
            "11d8041e000100020704010010000000020704010010009800001e001e090b240a071b211903041c012210150c1a1a0c15
             1022011c0403192101ae0128b52ffd603a01250500a407282a2c2e30320f36133a173e1b1d1f462325272b082f31331037
             143b183f1c1e20222426282a292b082c2e302f3133320f36103714133a173b183f3e1b1d1c1e201f462322242625272928
             2a2c2b082f2e30323133100f361337143b3a173e183f1c1b1d1f1e202246232524262827292b2a2c2e082f3130320f1c04
             0d608001061860800106186080010618608001061860800106186080010618608001868d7a02412f28b52ffd6060082d01
             00b80000e04020c00010a0800080003f3f403f3f403f3e403f03004a40e595b85488951f6001",
        ),
        (
            &repeated,
            Layout::SparseBlocks { block_shape: vec![30, 1000], axis_order: vec![0, 1] },
            "10d804000100220b0401001000880100000000412a28b52ffd606008050100880004080c100306090c0204060801020304
             04042d50008902481440a2a06801",
        ),
    ];
    for (tensor, layout, hex) in cases {
        let header = sparse_header(tensor, layout);
        let blob = bytes(hex);
        let chunk = StoredChunk { coords: Coords::new(&[0, 0]).unwrap(), codec: Codec::Packed, bytes: &blob };
        assert_eq!(
            read_sparse(&header, &Selection::all(tensor.shape()), &[chunk], Team::alone()).as_ref(),
            Ok(tensor)
        );
    }
}

#[test]
fn dense_chunks() {
    let numbers: Vec<u16> = (1..=12).collect();
    let shape = Shape::new(vec![3, 4]).unwrap();
    let tensor = Tensor::new(DType::U16, shape.clone(), Buffer::from_elements(&numbers)).unwrap();
    let header = Header {
        dtype: DType::U16,
        shape,
        layout: Layout::DenseChunks { chunk_shape: vec![2, 3] },
        nnz: None,
        compression: Compression::None,
        reasons: vec![],
    };
    let expected: [(&[i64], &str); 4] = [
        (&[0, 0], "010002000300050006000700"),
        (&[0, 1], "04000800"),
        (&[1, 0], "09000a000b00"),
        (&[1, 1], "0c00"),
    ];
    let rows = encode(&header, Value::Dense(tensor.as_ref()));
    for (row, (coords, hex)) in rows.iter().zip(expected) {
        assert_eq!((&row.coords[..], row.codec, &row.bytes), (coords, Codec::Raw, &bytes(hex)));
    }

    let steps: Vec<u16> = (0..64).map(|i| 300 + i / 8).collect();
    let header = Header {
        shape: Shape::new(vec![64]).unwrap(),
        layout: Layout::DenseChunks { chunk_shape: vec![64] },
        ..header
    };
    let stored = bytes("28b52ffd2080d50000502c2c2d2e2f303132330109100094922fb32cf932cb92ef8005");
    let coords = Coords::new(&[0]).unwrap();
    let mut out = vec![0; 128];
    let codec = "shuffle2+zstd".parse().unwrap();
    decode_dense(&header, &coords, codec, &stored, &mut out, &mut Scratch::new()).unwrap();
    assert_eq!(out, steps.iter().flat_map(|step| step.to_le_bytes()).collect::<Vec<u8>>());
}
