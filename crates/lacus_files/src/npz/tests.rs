use super::*;
use std::path::Path;

/// An archive of arrays, stored or deflated.
fn archive(members: &[(&str, Vec<u8>)], method: CompressionMethod) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        archive.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn array(dtype: DType, dims: &[u64], bytes: &[u8]) -> Vec<u8> {
    [npy::header(dtype, &Shape::new(dims).unwrap(), false).unwrap(), bytes.to_vec()].concat()
}

/// Members of a sparse (2, 3) tensor with nonzeros at (1, 2) and (0, 1).
fn sparse_members(prefix: &str) -> Vec<(String, Vec<u8>)> {
    vec![
        (format!("{prefix}indices.npy"), array(DType::U8, &[2, 2], &[1, 2, 0, 1])),
        (format!("{prefix}values.npy"), array(DType::I8, &[2], &[7, 9])),
        (format!("{prefix}shape.npy"), array(DType::I32, &[2], &[2, 0, 0, 0, 3, 0, 0, 0])),
    ]
}

fn borrowed(members: &[(String, Vec<u8>)]) -> Vec<(&str, Vec<u8>)> {
    members.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect()
}

fn names(bytes: &[u8], options: &ReadOptions) -> Result<Vec<String>, String> {
    match read(bytes, "file", options) {
        Ok(entries) => Ok(entries.into_iter().map(|(name, _)| name).collect()),
        Err(fault) => Err(fault.in_file(Path::new("file.npz")).to_string()),
    }
}

#[test]
fn stored_members_are_mapped_and_deflated_ones_unpacked() {
    let members =
        [("b.npy", array(DType::U8, &[3], &[1, 2, 3])), ("a/x.npy", array(DType::U16, &[1], &[4, 5]))];
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let bytes = archive(&members, method);
        let entries = read(&bytes, "file", &ReadOptions::default()).unwrap();
        assert_eq!(entries.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["b", "a/x"]);
        for ((_, held), expected) in entries.iter().zip([vec![1, 2, 3], vec![4, 5]]) {
            let Held::Dense(dense) = held else { panic!("sparse") };
            assert_eq!(dense.owned.is_some(), method == CompressionMethod::Deflated);
            assert_eq!(dense.borrow(&bytes).unwrap().contiguous_bytes().unwrap(), expected);
        }
    }
}

#[test]
fn big_endian_members_own_their_elements() {
    let header = b"{'descr': '>u2', 'fortran_order': False, 'shape': (1,), }";
    let member = [b"\x93NUMPY\x01\x00".as_slice(), &[header.len() as u8, 0], header, &[1, 2]].concat();
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let bytes = archive(&[("b.npy", member.clone())], method);
        let entries = read(&bytes, "file", &ReadOptions::default()).unwrap();
        let Held::Dense(dense) = &entries[0].1 else { panic!("sparse") };
        assert_eq!(dense.borrow(&bytes).unwrap().contiguous_bytes().unwrap(), [2, 1]);
    }
}

#[test]
fn three_members_that_fit_are_one_sparse_tensor() {
    for (prefix, name) in [("", "file"), ("x/", "x"), ("x/y/", "x/y")] {
        let mut members = sparse_members(prefix);
        members.push(("map.npy".into(), array(DType::U8, &[1], &[1])));
        let bytes = archive(&borrowed(&members), CompressionMethod::Deflated);
        let entries = read(&bytes, "file", &ReadOptions::default()).unwrap();
        let [(found, Held::Sparse(tensor)), (other, Held::Dense(_))] = &entries[..] else {
            panic!("{entries:?}")
        };
        assert_eq!((found.as_str(), other.as_str()), (name, "map"));
        assert_eq!(tensor.shape().dims(), [2, 3]);
        assert_eq!((tensor.axis(0), tensor.axis(1)), (&[0, 1][..], &[1, 2][..]));
        assert_eq!(tensor.values()[..], [9, 7]);
    }
}

#[test]
fn members_that_do_not_fit_stay_apart() {
    let mut members = sparse_members("");
    members[1].1 = array(DType::I8, &[3], &[7, 8, 9]);
    let bytes = archive(&borrowed(&members), CompressionMethod::Stored);
    assert_eq!(names(&bytes, &ReadOptions::default()).unwrap(), ["indices", "values", "shape"]);
}

#[test]
fn only_some_are_read() {
    let mut members = sparse_members("x/");
    let text = array(DType::U8, &[1], &[1]);
    let text = [&text[..20], b"'|S1'", &text[25..]].concat();
    members.push(("label.npy".into(), text));
    let bytes = archive(&borrowed(&members), CompressionMethod::Stored);
    let only = |name: &str| ReadOptions { only: vec![name.into()], ..Default::default() };
    assert!(names(&bytes, &ReadOptions::default()).unwrap_err().contains("\"label\": dtype \"|S1\": text"));
    assert!(names(&bytes, &ReadOptions::default()).unwrap_err().contains("name the tensors"));
    assert!(!names(&bytes, &only("label")).unwrap_err().contains("name the tensors"));
    assert_eq!(names(&bytes, &only("x")).unwrap(), ["x"]);
    assert_eq!(names(&bytes, &only("x/values")).unwrap(), ["x/values"]);
    assert_eq!(names(&bytes, &only("y")).unwrap(), Vec::<String>::new());
}

#[test]
fn a_scipy_archive_gets_advice() {
    let text = array(DType::U8, &[1], &[1]);
    let text = [&text[..20], b"'|S1'", &text[25..]].concat();
    let one = || array(DType::U8, &[1], &[1]);
    let members = [("indptr.npy", one()), ("shape.npy", one()), ("format.npy", text)];
    let error = names(&archive(&members, CompressionMethod::Deflated), &ReadOptions::default()).unwrap_err();
    assert!(error.contains("scipy.io.mmwrite"), "{error}");
}

#[test]
fn bad_archives_are_errors() {
    let check = |bytes: &[u8], expected: &str| {
        let error = names(bytes, &ReadOptions::default()).unwrap_err();
        assert!(error.contains(expected), "{error}");
    };
    check(b"", "zip archive");
    check(b"no zip here, not at all, whatever", "zip archive");
    check(
        &archive(&[("readme.txt", vec![1])], CompressionMethod::Stored),
        "\"readme.txt\": a member that is no .npy",
    );
    check(&archive(&[("a.npy", vec![1])], CompressionMethod::Stored), "\"a\": not an npy array");
    let mut members = sparse_members("");
    members[2].1 = array(DType::I8, &[2], &[2, 2]);
    check(&archive(&borrowed(&members), CompressionMethod::Stored), "\"file\": nonzero");
    members[2].1 = array(DType::I8, &[2], &[2, 0xff]);
    check(&archive(&borrowed(&members), CompressionMethod::Stored), "a negative size");
    members[0].1 = array(DType::U64, &[2, 2], &[0xff; 32]);
    check(&archive(&borrowed(&members), CompressionMethod::Stored), "the index 18446744073709551615");
}

#[test]
fn a_changed_byte_is_noticed() {
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let content: Vec<u8> = (0..=255).collect();
        let bytes = archive(&[("a.npy", array(DType::U8, &[256], &content))], method);
        let mut changed = bytes.clone();
        changed[200] ^= 1;
        let error = names(&changed, &ReadOptions::default()).unwrap_err();
        assert!(error.contains("\"a\": "), "{error}");
    }
}

#[test]
fn a_claimed_size_is_not_believed() {
    let bytes = archive(&[("a.npy", array(DType::U8, &[3], &[1, 2, 3]))], CompressionMethod::Deflated);
    let directory = bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    let mut changed = bytes.clone();
    changed[directory + 24..directory + 28].copy_from_slice(&0xf000_0000u32.to_le_bytes());
    let error = names(&changed, &ReadOptions::default()).unwrap_err();
    assert!(error.contains("cannot unpack to 4026531840"), "{error}");
}

#[test]
fn every_cut_and_every_changed_byte_is_survived() {
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let bytes = archive(&borrowed(&sparse_members("x/")), method);
        for length in 0..bytes.len() {
            assert!(names(&bytes[..length], &ReadOptions::default()).is_err(), "{length}");
        }
        for at in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                let _ = names(&changed, &ReadOptions::default());
            }
        }
    }
}

#[test]
fn names_must_differ() {
    let shape = Shape::new([1]).unwrap();
    let value = || FileValue::Dense(TensorRef::contiguous(DType::U8, &shape, &[1]).unwrap());
    let item = |name| Item { name, value: value(), metadata: None };
    let fault = write(&mut Cursor::new(Vec::new()), &[item("a"), item("a")]).unwrap_err();
    assert_eq!(fault.place, Place::Member("a".into()));
}

#[test]
fn elements_are_aligned() {
    let shape = Shape::new([1]).unwrap();
    let tensor = TensorRef::contiguous(DType::U8, &shape, &[1]).unwrap();
    let item = |name| Item { name, value: FileValue::Dense(tensor.clone()), metadata: None };
    let mut out = Cursor::new(Vec::new());
    write(&mut out, &[item("a"), item("some/name")]).unwrap();
    let bytes = out.into_inner();
    for (_, held) in read(&bytes, "file", &ReadOptions::default()).unwrap() {
        let Held::Dense(dense) = held else { panic!("sparse") };
        assert_eq!(dense.range.start % 64, 0);
    }
}
