use super::*;
use crate::error::Cause;

/// An array file as numpy lays it out, with a header of our choice.
fn file(version: u8, literal: &str, elements: &[u8]) -> Vec<u8> {
    let mut bytes = [MAGIC, &[version, 0]].concat();
    match version {
        1 => bytes.extend_from_slice(&(literal.len() as u16).to_le_bytes()),
        _ => bytes.extend_from_slice(&(literal.len() as u32).to_le_bytes()),
    }
    [&bytes, literal.as_bytes(), elements].concat()
}

fn elements(bytes: &[u8]) -> Vec<u8> {
    read(bytes).unwrap().borrow(bytes).unwrap().to_tensor().bytes().to_vec()
}

#[test]
fn our_header_is_numpys_to_the_byte() {
    let found = header(DType::F64, &Shape::new([3, 4]).unwrap(), false).unwrap();
    let mut expected =
        b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }".to_vec();
    expected.resize(127, b' ');
    expected.push(b'\n');
    assert_eq!(found, expected);
    for shape in [vec![], vec![3], vec![u64::MAX >> 1; 16]] {
        assert_eq!(header(DType::U8, &Shape::new(shape).unwrap(), true).unwrap().len() % 64, 0);
    }
    let check = |dtype: DType, dims: &[u64], expected: &str| {
        let header = npy_header(dtype, &Shape::new(dims).unwrap()).unwrap();
        assert_eq!(std::str::from_utf8(&header[10..]).unwrap().trim_end(), expected);
    };
    check(DType::Bool, &[7], "{'descr': '|b1', 'fortran_order': False, 'shape': (7,), }");
    check(DType::C128, &[], "{'descr': '<c16', 'fortran_order': False, 'shape': (), }");
    check(DType::F16, &[0], "{'descr': '<f2', 'fortran_order': False, 'shape': (0,), }");
    assert_eq!(npy_header(DType::BF16, &Shape::new([1]).unwrap()), None);
}

#[test]
fn versions_orders_and_old_spellings() {
    let c = "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 2), }\n";
    for version in 1..=3 {
        assert_eq!(elements(&file(version, c, &[1, 0, 2, 0, 3, 0, 4, 0])), [1, 0, 2, 0, 3, 0, 4, 0]);
    }
    let fortran = "{'descr': '<u2', 'fortran_order': True, 'shape': (2, 2), }";
    assert_eq!(elements(&file(1, fortran, &[1, 0, 2, 0, 3, 0, 4, 0])), [1, 0, 3, 0, 2, 0, 4, 0]);
    let big = "{'descr': '>u2', 'fortran_order': False, 'shape': (2, 2)}";
    assert_eq!(elements(&file(1, big, &[0, 1, 0, 2, 0, 3, 0, 4])), [1, 0, 2, 0, 3, 0, 4, 0]);
    let both = "{'shape': (2L, 2L), 'descr': \">u2\", 'fortran_order': True}";
    assert_eq!(elements(&file(1, both, &[0, 1, 0, 2, 0, 3, 0, 4])), [1, 0, 3, 0, 2, 0, 4, 0]);
    let complex = "{'descr': '>c8', 'fortran_order': False, 'shape': (), }";
    assert_eq!(elements(&file(1, complex, &[1, 2, 3, 4, 5, 6, 7, 8])), [4, 3, 2, 1, 8, 7, 6, 5]);
    let empty = "{'descr': '<f8', 'fortran_order': True, 'shape': (0, 4611686018427387904, 8), }";
    assert!(elements(&file(1, empty, &[])).is_empty());
    let vector = "{'descr': '|b1', 'fortran_order': True, 'shape': (3,), }";
    assert_eq!(elements(&file(1, vector, &[1, 0, 1])), [1, 0, 1]);
}

#[test]
fn nothing_is_copied_unless_swapped() {
    let bytes = file(1, "{'descr': '<u2', 'fortran_order': True, 'shape': (2, 2), }", &[0; 8]);
    assert!(read(&bytes).unwrap().owned.is_none());
    let bytes = file(1, "{'descr': '>u2', 'fortran_order': True, 'shape': (2, 2), }", &[0; 8]);
    assert!(read(&bytes).unwrap().owned.is_some());
    let bytes = file(1, "{'descr': '>i1', 'fortran_order': True, 'shape': (8,), }", &[0; 8]);
    assert!(read(&bytes).unwrap().owned.is_none());
}

#[test]
fn what_is_no_tensor_is_named() {
    let check = |descr: &str, expected: &str| {
        let literal = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (1,), }}");
        let Cause::Unsupported(found) = read(&file(1, &literal, &[0; 8])).unwrap_err().cause else {
            panic!("{descr} is read");
        };
        assert!(found.contains(expected), "{found}");
    };
    check("'<U5'", "text");
    check("'|S3'", "text");
    check("'|O'", "Python objects");
    check("'<M8[ns]'", "times");
    check("'|V2'", "bfloat16");
    check("'<f16'", "no tensor elements");
    check("[('a', '<f4')]", "structured");
    check("('<f4', (2,))", "structured");
}

#[test]
fn malformed_headers_are_errors() {
    let check = |bytes: &[u8], expected: &str| {
        let error = read(bytes).unwrap_err().in_file(std::path::Path::new("a.npy")).to_string();
        assert!(error.contains(expected), "{error}");
    };
    let good = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }";
    check(b"", "not an npy array");
    check(b"PK\x03\x04", "not an npy array");
    check(b"\x93NUMPY", "cut off");
    check(b"\x93NUMPY\x01\x00\x10", "cut off");
    check(b"\x93NUMPY\x02\x00\x10\x00\x00", "cut off");
    check(b"\x93NUMPY\x09\x00\x10\x00\x00", "version 9");
    check(b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "4294967295 bytes in a file that has 0 left");
    check(&file(1, good, &[0; 15]), "take 16 bytes, found 15");
    check(&file(1, good, &[0; 17]), "take 16 bytes, found 17");
    check(&file(1, &good.replace("2,", "1152921504606846976,"), &[0; 8]), "too large");
    check(
        &file(1, &good.replace("2,", "144115188075855872,"), &[0; 8]),
        "take 1152921504606846976 bytes, found 8",
    );
    check(&file(1, &good.replace("2,", "99999999999999999999,"), &[]), "a size should be");
    check(&file(1, &good.replace("2,", &"1,".repeat(17)), &[]), "dimensions");
    check(&file(1, &good.replace("2,", "-2,"), &[]), "a size should be");
    check(&file(1, &good.replace("shape", "form"), &[]), "unknown key");
    check(&file(1, "{'shape': (), 'shape': ()}", &[]), "twice");
    check(&file(1, "{'shape': ()}", &[]), "needs descr");
    check(&file(1, "{'shape': () 'descr'", &[]), "} should be");
    check(&file(1, &format!("{good} x"), &[]), "end of the header");
    check(&file(1, "{'descr", &[]), "closing quote");
    check(&file(1, "", &[]), "{ should be");
}

#[test]
fn every_cut_is_an_error() {
    let whole = file(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", &[0; 16]);
    for length in 0..whole.len() {
        assert!(read(&whole[..length]).is_err(), "{length}");
    }
}

proptest::proptest! {
    #[test]
    fn no_header_panics(literal in "[ {}()'\"\\\\a-z_:,<>|0-9L]{0,80}", noise in proptest::prelude::any::<Vec<u8>>()) {
        let _ = read(&file(1, &literal, &[0; 8]));
        let _ = read(&noise);
        let _ = read(&[MAGIC, &noise].concat());
    }
}
