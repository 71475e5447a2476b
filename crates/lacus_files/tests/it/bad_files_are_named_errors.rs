//! Files that are not what they seem, and options that do not apply.

use lacus_files::{FileError, FileTensors, ReadOptions, open};
use lacus_tensor::{DType, ErrorKind, Shape};
use proptest::prelude::*;

fn open_bytes(name: &str, bytes: &[u8], options: &ReadOptions) -> Result<FileTensors, FileError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    open(&path, options)
}

const NAMES: [&str; 9] =
    ["a.npy", "a.npz", "a.safetensors", "a.tns", "a.tns.gz", "a.tns.zst", "a.mtx", "a.mtx.gz", "a.mtx.zst"];

#[test]
fn empty_files_and_garbage() {
    for name in NAMES {
        for bytes in [&b""[..], b"\0", b"garbage", &[0xff; 100], &[0; 4096]] {
            let error = open_bytes(name, bytes, &ReadOptions::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().contains(&format!("{name}: ")), "{error}");
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in any::<Vec<u8>>(), name in prop::sample::select(&NAMES)) {
        let _ = open_bytes(name, &bytes, &ReadOptions::default());
    }
}

#[test]
fn a_file_that_is_not_there_and_one_that_is_no_file() {
    let dir = tempfile::tempdir().unwrap();
    for name in NAMES {
        let error = open(dir.path().join(name), &ReadOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        let directory = dir.path().join(format!("dir-{name}"));
        std::fs::create_dir(&directory).unwrap();
        let error = open(&directory, &ReadOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
}

#[test]
fn options_that_do_not_apply_are_refused() {
    let mtx = b"%%MatrixMarket matrix array real general\n1 1\n1\n";
    let check = |name: &str, options: ReadOptions, expected: &str| {
        let error = open_bytes(name, mtx, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(expected), "{error}");
    };
    let plain = ReadOptions::default;
    check("a.mtx", ReadOptions { dims: Some(Shape::new([1, 1]).unwrap()), ..plain() }, "a shape was given");
    check("a.mtx", ReadOptions { tns_pattern: true, ..plain() }, "a pattern was given");
    check("a.mtx", ReadOptions { one_based: false, ..plain() }, "a first coordinate was given");
    check("a.npy", ReadOptions { dtype: Some(DType::F32), ..plain() }, "a dtype was given");
    assert!(open_bytes("a.mtx", mtx, &ReadOptions { dtype: Some(DType::F32), ..plain() }).is_ok());
}

#[test]
fn a_tensor_asked_for_by_name() {
    let tns = b"1 1 1\n";
    let only = |name: &str| ReadOptions { only: vec![name.into()], ..Default::default() };
    assert!(open_bytes("uber.tns", tns, &only("uber")).is_ok());
    let error = open_bytes("uber.tns", tns, &only("flights")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().ends_with("uber.tns: has no tensor \"flights\""), "{error}");
}
