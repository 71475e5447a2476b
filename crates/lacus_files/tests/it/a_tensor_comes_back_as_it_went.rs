//! Every dtype through every format that can hold it, bit by bit.

use lacus_files::{FileValue, Format, Item, Metadata, Packing, ReadOptions, open, write};
use lacus_tensor::{Buffer, DType, Duplicates, ErrorKind, Shape, SparseTensor, Tensor, TensorRef};
use proptest::prelude::*;

/// Bytes that are elements of a dtype, from a seed: bools are 0 or 1, and where `text` is asked for NaNs
/// are the ones that text can say.
fn elements(dtype: DType, count: usize, seed: u64, text: bool) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        // Small bytes are frequent, so that whole numbers, zeros and subnormals occur.
        if state >> 62 == 0 { 0 } else { (state >> 33) as u8 }
    })
    .take(count * dtype.size_bytes())
    .collect();
    if dtype == DType::Bool {
        bytes.iter_mut().for_each(|byte| *byte &= 1);
    }
    let (exponent, width) = match dtype {
        DType::F16 => (0x7c00u64, 2),
        DType::BF16 => (0x7f80, 2),
        DType::F32 | DType::C64 => (0x7f80_0000, 4),
        DType::F64 | DType::C128 => (0x7ff0_0000_0000_0000, 8),
        _ => return bytes,
    };
    if text {
        for item in bytes.chunks_exact_mut(width) {
            let mut bits = [0; 8];
            bits[..width].copy_from_slice(item);
            // Infinities stay; a NaN loses its payload, which makes it one.
            if u64::from_le_bytes(bits) & exponent == exponent {
                let kept = u64::from_le_bytes(bits) & (exponent | 1 << (width * 8 - 1));
                item.copy_from_slice(&kept.to_le_bytes()[..width]);
            }
        }
    }
    bytes
}

fn dense(dtype: DType, dims: &[u64], seed: u64, text: bool) -> Tensor {
    let shape = Shape::new(dims).unwrap();
    let count = shape.elements().unwrap() as usize;
    Tensor::new(dtype, shape, Buffer::from_slice(&elements(dtype, count, seed, text))).unwrap()
}

/// A sparse tensor with about a third of its cells stored, zeros among them.
fn sparse(dtype: DType, dims: &[u64], seed: u64, text: bool) -> SparseTensor {
    let shape = Shape::new(dims).unwrap();
    let cells: Vec<u64> =
        (0..shape.elements().unwrap()).filter(|cell| (cell ^ seed).is_multiple_of(3)).collect();
    let strides = shape.strides_elements();
    let coords: Vec<i64> = (0..dims.len())
        .flat_map(|axis| cells.iter().map(move |cell| (axis, *cell)))
        .map(|(axis, cell)| (cell / strides[axis] % dims[axis]) as i64)
        .collect();
    let values = Buffer::from_slice(&elements(dtype, cells.len(), seed, text));
    SparseTensor::new(dtype, shape, Buffer::from_elements(&coords), values, Duplicates::Refuse).unwrap()
}

fn item<'a>(name: &'a str, value: FileValue<'a>) -> Item<'a> {
    Item { name, value, metadata: None }
}

/// Writes and opens again; the file must hold exactly `items`, by name.
fn check(file_name: &str, items: &[Item<'_>]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(file_name);
    let (format, packing) = Format::from_path(&path).unwrap();
    write(&path, format, packing, items).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    let file = open(&path, &ReadOptions::default()).unwrap();
    assert_eq!(file.len(), items.len());
    for Item { name, value, .. } in items {
        match (file.get(name).unwrap(), value) {
            (FileValue::Dense(found), FileValue::Dense(expected)) => {
                assert!(found.to_tensor() == expected.to_tensor(), "{file_name}: {}", expected.dtype());
            }
            (FileValue::Sparse(found), FileValue::Sparse(expected)) => {
                assert!(found == *expected, "{file_name}: {}", expected.dtype());
            }
            _ => panic!("{file_name}: {name} is held another way"),
        }
    }
}

proptest! {
    // Each case goes through all dtypes, and each file is synced to the disk.
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn dense_tensors(dims in prop::collection::vec(0u64..5, 0..5), seed in any::<u64>()) {
        for dtype in DType::ALL {
            let tensor = dense(dtype, &dims, seed, false);
            let backwards: Vec<usize> = (0..dims.len()).rev().collect();
            for value in [tensor.as_ref(), tensor.as_ref().transpose(&backwards)] {
                if dtype != DType::BF16 {
                    check("t.npy", &[item("t", FileValue::Dense(value.clone()))]);
                    check("f.npz", &[item("a/b", FileValue::Dense(value.clone()))]);
                }
                if dtype != DType::C128 {
                    check("f.safetensors", &[item("a/b", FileValue::Dense(value.clone()))]);
                }
            }
        }
    }

    #[test]
    fn dense_matrices_as_text(rows in 0u64..6, columns in 0u64..6, seed in any::<u64>()) {
        for dtype in DType::ALL {
            let tensor = dense(dtype, &[rows, columns], seed, true);
            for name in ["t.mtx", "t.mtx.gz", "t.mtx.zst"] {
                check(name, &[item("t", FileValue::Dense(tensor.as_ref()))]);
            }
            check("t.mtx", &[item("t", FileValue::Dense(tensor.as_ref().transpose(&[1, 0])))]);
        }
    }

    #[test]
    fn sparse_tensors(dims in prop::collection::vec(0u64..6, 1..5), seed in any::<u64>()) {
        for dtype in DType::ALL {
            let tensor = sparse(dtype, &dims, seed, true);
            for name in ["t.tns", "t.tns.gz", "t.tns.zst"] {
                check(name, &[item("t", FileValue::Sparse(&tensor))]);
            }
            if dims.len() == 2 {
                check("t.mtx", &[item("t", FileValue::Sparse(&tensor))]);
            }
            if dtype != DType::BF16 {
                let tensor = sparse(dtype, &dims, seed, false);
                check("f.npz", &[item("a/b", FileValue::Sparse(&tensor))]);
            }
        }
    }

    #[test]
    fn sparse_matrices_as_text(rows in 1u64..9, columns in 1u64..9, seed in any::<u64>()) {
        for dtype in DType::ALL {
            let tensor = sparse(dtype, &[rows, columns], seed, true);
            check("t.mtx.zst", &[item("t", FileValue::Sparse(&tensor))]);
        }
    }
}

#[test]
fn several_of_all_kinds() {
    let tensors: Vec<Tensor> = DType::ALL.map(|dtype| dense(dtype, &[3, 5, 2], 7, false)).into();
    let of = |left_out: DType| -> Vec<Item<'_>> {
        tensors
            .iter()
            .filter(|tensor| tensor.dtype() != left_out)
            .map(|tensor| item(tensor.dtype().name(), FileValue::Dense(tensor.as_ref())))
            .collect()
    };
    check("f.safetensors", &of(DType::C128));
    let counts = sparse(DType::I16, &[4, 4, 4], 7, false);
    let mut mixed = of(DType::BF16);
    mixed.push(item("counts", FileValue::Sparse(&counts)));
    check("f.npz", &mixed);
    check("f.npz", &[]);
    check("f.safetensors", &[]);
}

#[test]
fn a_large_strided_tensor() {
    let tensor = dense(DType::F32, &[300, 7, 1100], 3, false);
    let turned = tensor.as_ref().transpose(&[2, 0, 1]);
    for name in ["t.npy", "t.npz", "t.safetensors"] {
        check(name, &[item("t", FileValue::Dense(turned.clone()))]);
    }
}

#[test]
fn pattern_and_large_unsigned_matrices() {
    let shape = || Shape::new([2, 2]).unwrap();
    let coords = || Buffer::from_elements(&[0i64, 1, 1, 0]);
    let truths =
        SparseTensor::new(DType::Bool, shape(), coords(), Buffer::from_slice(&[1, 1]), Duplicates::Refuse);
    let large = Buffer::from_elements(&[u64::MAX, 1]);
    let large = SparseTensor::new(DType::U64, shape(), coords(), large, Duplicates::Refuse);
    let dir = tempfile::tempdir().unwrap();
    for (tensor, header) in [(truths, "coordinate pattern"), (large, "coordinate unsigned-integer")] {
        let tensor = tensor.unwrap();
        check("t.mtx", &[item("t", FileValue::Sparse(&tensor))]);
        let path = dir.path().join("t.mtx");
        write(&path, Format::Mtx, Packing::Plain, &[item("t", FileValue::Sparse(&tensor))]).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains(header));
        let full = tensor.to_dense().unwrap();
        check("t.mtx", &[item("t", FileValue::Dense(full.as_ref()))]);
    }
}

#[test]
fn metadata_comes_back_from_safetensors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.safetensors");
    let tensor = dense(DType::BF16, &[2, 2], 1, false);
    let metadata =
        Metadata::from([("format".to_owned(), "pt".to_owned()), ("\"é\n".to_owned(), "\u{1}".to_owned())]);
    let item =
        Item { name: "w \"1\"\n", value: FileValue::Dense(tensor.as_ref()), metadata: Some(&metadata) };
    write(&path, Format::Safetensors, Packing::Plain, &[item]).unwrap();
    let file = open(&path, &ReadOptions::default()).unwrap();
    assert_eq!(file.metadata(), &metadata);
    assert_eq!(file.entries().next().unwrap().name(), "w \"1\"\n");
}

#[test]
fn what_a_format_cannot_hold_is_refused_and_the_old_file_stays() {
    let dir = tempfile::tempdir().unwrap();
    let full = |dtype| dense(dtype, &[2, 2], 1, false);
    let (floats, half, complex) = (full(DType::F32), full(DType::BF16), full(DType::C128));
    let cube = dense(DType::F32, &[2, 2, 2], 1, false);
    let counts = sparse(DType::BF16, &[2, 2], 1, false);
    let check = |name: &str, packing: Packing, items: &[&Item<'_>], expected: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, "old").unwrap();
        let format = Format::ALL.into_iter().find(|format| name.ends_with(format.extension())).unwrap();
        let items: Vec<Item<'_>> = items.iter().map(|&item| item.clone()).collect();
        let error = write(&path, format, packing, &items).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
    };
    let of = |tensor: TensorRef<'static>| item("t", FileValue::Dense(tensor));
    let [floats, half, complex, cube] =
        [floats, half, complex, cube].map(|t| of(Box::leak(Box::new(t)).as_ref()));
    let counts = item("c", FileValue::Sparse(&counts));
    let plain = Packing::Plain;
    check("a.npy", plain, &[&half], ".safetensors");
    check("a.npz", plain, &[&half], ".safetensors");
    check("a.npz", plain, &[&counts], ".tns");
    check("a.npy", plain, &[&counts], ".npz");
    check("a.npy", plain, &[&floats, &floats], "one tensor, not 2");
    check("a.npy", plain, &[], "one tensor, not 0");
    check("a.npz", plain, &[&floats, &floats], "\"t\"");
    check("a.safetensors", plain, &[&floats, &floats], "two tensors");
    check("a.safetensors", plain, &[&complex], "no complex128");
    check("a.safetensors", plain, &[&counts], "dense tensors only");
    check("a.tns", plain, &[&floats], "sparse tensors");
    check("a.mtx", plain, &[&cube], "(2, 2, 2)");
    check("a.npy", Packing::Gzip, &[&floats], "not compressed");
    assert!(
        std::fs::read_dir(dir.path())
            .unwrap()
            .all(|entry| entry.unwrap().path().extension() != Some("partial".as_ref()))
    );
}

/// A file of ten gigabytes with holes, which takes no space, and would take long to read.
#[test]
fn a_large_file_is_mapped_and_not_read() {
    const COUNT: u64 = 10 << 30;
    let dir = tempfile::tempdir().unwrap();
    let npy = format!("{{'descr': '|u1', 'fortran_order': True, 'shape': ({}, 1024), }}\n", COUNT / 1024);
    let npy = [b"\x93NUMPY\x01\x00", &(npy.len() as u16).to_le_bytes()[..], npy.as_bytes()].concat();
    let json =
        format!(r#"{{"t":{{"dtype":"U8","shape":[1024,{}],"data_offsets":[0,{COUNT}]}}}}"#, COUNT / 1024);
    let safetensors = [&(json.len() as u64).to_le_bytes()[..], json.as_bytes()].concat();
    for (name, header) in [("t.npy", npy), ("t.safetensors", safetensors)] {
        let path = dir.path().join(name);
        std::fs::write(&path, &header).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(header.len() as u64 + COUNT).unwrap();
        let file = open(&path, &ReadOptions::default()).unwrap();
        let Some(FileValue::Dense(tensor)) = file.get("t") else { panic!("{name}") };
        assert_eq!(tensor.shape().elements(), Some(COUNT));
        let last: Vec<u64> = tensor.shape().dims().iter().map(|dim| dim - 1).collect();
        assert_eq!(tensor.region(&last, &[1, 1]).to_tensor().bytes(), [0]);
        // While it is open: had it been read, all of it would be in memory.
        if let Ok(pages) = std::fs::read_to_string("/proc/self/statm") {
            let resident: u64 = pages.split(' ').nth(1).unwrap().parse().unwrap();
            assert!(resident * 4096 < COUNT / 2, "{name} was read: {resident} pages are in memory");
        }
    }
}
