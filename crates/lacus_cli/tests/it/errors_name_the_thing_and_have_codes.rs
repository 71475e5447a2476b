//! Bad input: a clear error with the right exit code, which names the thing, and nothing written.

use std::path::Path;

use lacus::tensor::DType;

use crate::harness::{Sandbox, counting, dense, matrix, tree};

/// Puts a file that is bad, and checks what is said.
#[track_caller]
fn bad_put(file: &str, bytes: &[u8], options: &[&str], code: i32, said: &[&str]) {
    let sandbox = Sandbox::with_dataset();
    std::fs::write(sandbox.path(file), bytes).unwrap();
    let before = tree(&sandbox.path("d"));
    let error = sandbox.lacus(["put", "d", file].iter().chain(options)).fails(code);
    for said in said.iter().chain(&["lacus: ", file]) {
        assert!(error.contains(said), "{said:?} is not in {error}");
    }
    assert_eq!(tree(&sandbox.path("d")), before);
}

fn npy(header: &str, elements: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(elements);
    bytes
}

#[test]
fn files_that_are_no_tensors() {
    let header = |descr: &str, shape: &str| {
        format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n")
    };
    bad_put("object.npy", &npy(&header("'|O'", "(2,)"), b"pickle"), &[], 2, &["Python objects"]);
    bad_put("dtype.npy", &npy(&header("'<f3'", "(1,)"), &[0; 3]), &[], 2, &["<f3"]);
    bad_put("fields.npy", &npy(&header("[('a', '<f4')]", "(1,)"), &[0; 4]), &[], 2, &[]);
    bad_put("short.npy", &npy(&header("'<f4'", "(10,)"), &[0; 8]), &[], 2, &["40 bytes", "8"]);
    bad_put("huge.npy", &npy(&header("'<f4'", "(4611686018427387904, 4)"), &[0; 8]), &[], 2, &[]);
    bad_put("negative.npy", &npy(&header("'<f4'", "(-1,)"), &[]), &[], 2, &[]);
    bad_put("garbage.npy", b"not an array at all", &[], 2, &[]);
    bad_put("empty.npy", b"", &[], 2, &[]);
    bad_put("garbage.npz", b"not an archive at all", &[], 2, &[]);
    bad_put("garbage.safetensors", &[0xff; 40], &[], 2, &[]);
    bad_put("a.csv", b"1,2,3", &[], 2, &["extension", ".npy"]);
}

#[test]
fn coordinates_that_cannot_be() {
    bad_put("zero.tns", b"0 1 1.0\n", &[], 2, &["line 1", "coordinate 0"]);
    bad_put("negative.tns", b"1 1 1.0\n-3 1 1.0\n", &[], 2, &["line 2", "-3"]);
    bad_put("nan.tns", b"1 1 1.0\nnan 1 1.0\n", &[], 2, &["line 2", "nan"]);
    bad_put("half.tns", b"1.5 1 1.0\n", &[], 2, &["line 1", "1.5"]);
    bad_put("large.tns", b"99999999999999999999 1 1.0\n", &[], 2, &["line 1"]);
    bad_put("outside.tns", b"4 1 1.0\n", &["--shape", "3,3"], 2, &["line 1", "(3, 3)"]);
    bad_put("ragged.tns", b"1 1 1.0\n1 1 1 1.0\n", &[], 2, &["line 2", "columns"]);
    bad_put("words.tns", b"1 1 one\n", &[], 2, &["line 1", "one"]);
    bad_put("twice.tns", b"1 1 1.0\n1 1 2.0\n2 2 1.0\n", &[], 2, &["1 1", "--sum-duplicates"]);
    let matrix = b"%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1.0\n";
    bad_put("outside.mtx", matrix, &[], 2, &["line 3"]);
    let matrix = b"%%MatrixMarket matrix coordinate real general\n2 2 9\n1 1 1.0\n";
    bad_put("toomany.mtx", matrix, &[], 2, &["9"]);
}

#[test]
fn duplicates_are_summed_when_asked() {
    let sandbox = Sandbox::with_dataset();
    std::fs::write(sandbox.path("a.tns"), "1 1 1.0\n1 1 2.5\n").unwrap();
    sandbox.lacus(["put", "d", "a.tns", "--sum-duplicates"]).ok();
    assert_eq!(sandbox.lacus(["get", "d", "a", "--json"]).json()["values"].to_string(), "[3.5]");
}

#[test]
fn wishes_that_do_not_fit() {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("a.npy", &counting(&[4, 4]));
    sandbox.write_one("m.tns", &matrix([3, 3], &[(1, 1, 1.0)]));
    let before = tree(&sandbox.path("d"));
    let check = |args: &[&str], said: &str| {
        let error = sandbox.lacus(["put", "d"].iter().chain(args)).fails(2);
        assert!(error.contains(said), "{args:?}: {error}");
        assert_eq!(tree(&sandbox.path("d")), before, "{args:?}");
    };
    check(&["a.npy", "--chunk-shape", "1,2,3"], "[1, 2, 3]");
    check(&["a.npy", "--chunk-shape", "0,2"], "[0, 2]");
    check(&["a.npy", "--chunk-shape", "a,b"], "--chunk-shape");
    check(&["a.npy", "--chunk-rank", "3"], "chunk");
    check(&["m.tns", "--layout", "csr", "--split", "7"], "split");
    check(&["m.tns", "--layout", "csf", "--axis-order", "0,0"], "axis");
    check(&["m.tns", "--layout", "bsgs", "--block-shape", "1"], "[1]");
    check(&["a.npy", "--layout", "zarr"], "zarr");
    check(&["a.npy", "--compression", "lzma"], "lzma");
    check(&["a.npy", "--compression", "zstd:99"], "zstd:99");
    check(&["a.npy", "--optimize", "luck"], "luck");
    check(&["a.npy", "--metadata", "[1]"], "JSON object");
    check(&["a.npy", "--metadata", "{"], "not JSON");
    check(&["a.npy", "--dtype", "float31"], "float31");
    // What would be ignored is refused, too.
    check(&["a.npy", "--shape", "4,4"], "shape");
    check(&["a.npy", "--dtype", "float32"], "dtype");
    check(&["a.npy", "--zero-based"], "coordinate");
    check(&["a.npy", "--pattern"], "pattern");
    check(&["a.npy", "m.tns", "--name", "x"], "--name");
}

#[test]
fn names_that_cannot_be() {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("a.npy", &counting(&[3]));
    sandbox.lacus(["put", "d", "a.npy"]).ok();
    let before = tree(&sandbox.path("d"));
    let long = "x".repeat(2000);
    for name in ["", "a\nb", "a\u{7}", "/a", "a/", "a//b", "../a", ".", long.as_str()] {
        let error = sandbox.lacus(["put", "d", "a.npy", "--name", name]).fails(2);
        assert!(error.contains("name"), "{name:?}: {error}");
        sandbox.lacus(["mv", "d", "a", name]).fails(2);
        assert_eq!(tree(&sandbox.path("d")), before, "{name:?}");
    }
}

#[test]
fn things_that_are_not_there() {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("photos.npy", &counting(&[3]));
    sandbox.lacus(["put", "d", "photos.npy"]).ok();
    let check = |args: &[&str], said: &str| {
        let error = sandbox.lacus(args).fails(3);
        assert!(error.contains(said), "{args:?}: {error}");
    };
    check(&["ls", "nowhere"], "lacus create nowhere");
    check(&["put", "nowhere", "photos.npy"], "nowhere");
    check(&["put", "d", "none.npy"], "none.npy");
    check(&["get", "d", "photo"], "photos");
    check(&["get", "d", "photos", "--at", "99"], "99");
    check(&["ls", "d", "--at", "1999-01-01"], "history");
    check(&["info", "d", "x"], "\"x\"");
    check(&["rm", "d", "photos", "x"], "\"x\"");
    check(&["mv", "d", "x", "y"], "\"x\"");
    check(&["get", "d", "photos", "-o", "none/a.npy"], "none/a.npy");
    assert_eq!(sandbox.names(), ["photos"]);
}

#[test]
fn places_that_are_no_datasets() {
    let sandbox = Sandbox::empty();
    std::fs::create_dir(sandbox.path("plain")).unwrap();
    std::fs::write(sandbox.path("plain/letter.txt"), "hello").unwrap();
    std::fs::write(sandbox.path("file"), "hello").unwrap();
    sandbox.write_one("a.npy", &counting(&[3]));
    for place in ["plain", "file", "file/below"] {
        for args in [
            &["ls", place][..],
            &["info", place],
            &["put", place, "a.npy"],
            &["doctor", place],
            &["compact", place],
        ] {
            let error = sandbox.lacus(args).fails(3);
            assert!(error.contains("no dataset") && error.contains(place), "{args:?}: {error}");
        }
    }
    // Nothing is made where something else is.
    let error = sandbox.lacus(["create", "plain"]).fails(4);
    assert!(error.contains("plain"), "{error}");
    sandbox.lacus(["create", "file"]).output.status.code().filter(|code| *code != 0).unwrap();
    assert_eq!(tree(&sandbox.path("plain")).len(), 1);
    assert_eq!(std::fs::read(sandbox.path("file")).unwrap(), b"hello");
    for url in ["ftp://host/x", "s3://", ""] {
        let error = sandbox.lacus(["ls", url]).fails(2);
        assert!(error.contains("lacus: "), "{error}");
    }
    let error = sandbox.lacus(["ls", "plain", "--storage-option", "color=red"]).fails(2);
    assert!(error.contains("color"), "{error}");
    sandbox.lacus(["ls", "plain", "--storage-option", "color"]).fails(2);
}

#[test]
fn files_that_cannot_hold_it() {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("a.npy", &counting(&[3, 4, 5]));
    sandbox.write_one("half.safetensors", &dense(DType::BF16, &[2], &[0; 4]));
    sandbox.write_one("m.tns", &matrix([3, 3], &[(1, 1, 1.0)]));
    std::fs::write(sandbox.path("big.tns"), "3000000 3000000 1.0\n").unwrap();
    sandbox.lacus(["put", "d", "a.npy", "m.tns", "big.tns"]).ok();
    sandbox.lacus(["put", "d", "half.safetensors", "--name", "half"]).ok();
    let files = sandbox.files();
    let check = |args: &[&str], said: &str| {
        let error = sandbox.lacus(["get", "d"].iter().chain(args)).fails(2);
        assert!(error.contains(said), "{args:?}: {error}");
        assert_eq!(sandbox.files(), files, "{args:?}");
    };
    check(&["half", "-o", "b.npy"], "bfloat16");
    check(&["a", "-o", "b.mtx"], "b.mtx");
    check(&["a", "m", "-o", "b.npy"], ".npz");
    check(&["a", "m", "-o", "-"], "one tensor");
    check(&["m", "-o", "-"], "sparse");
    check(&["a", "-o", "b.txt"], "extension");
    check(&["a", "-o", "d"], "d");
    check(&["big", "-o", "b.npy"], "--dense");
}

#[test]
fn a_name_that_is_taken() {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("a.npy", &counting(&[3]));
    sandbox.write_one("b.npy", &counting(&[4]));
    sandbox.lacus(["put", "d", "a.npy", "b.npy"]).ok();
    let error = sandbox.lacus(["mv", "d", "a", "b"]).fails(4);
    assert!(error.contains("\"b\""), "{error}");
    assert_eq!(sandbox.names(), ["a", "b"]);
    let error = sandbox.lacus(["create", "d"]).fails(4);
    assert!(error.contains("already"), "{error}");
    // The same name twice in one put.
    sandbox.write("c.npz", &[("a", &counting(&[5]))]);
    let error = sandbox.lacus(["put", "d", "a.npy", "c.npz"]).fails(2);
    assert!(error.contains("\"a\"") && error.contains("twice"), "{error}");
}

/// The data files of the dataset.
fn data_files(dataset: &Path) -> Vec<std::path::PathBuf> {
    let is_data = |path: &Path| path.extension().is_some_and(|extension| extension == "parquet");
    tree(dataset).into_iter().map(|(path, _)| path).filter(|path| is_data(path)).collect()
}

fn with_photos() -> Sandbox {
    let sandbox = Sandbox::with_dataset();
    let bytes: Vec<u8> = (0..100_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    sandbox.write_one("a.npy", &dense(DType::U8, &[100, 1000], &bytes));
    sandbox.lacus(["put", "d", "a.npy", "--chunk-shape", "10,1000", "--compression", "none"]).ok();
    sandbox
}

#[test]
fn damaged_bytes() {
    let sandbox = with_photos();
    let file = data_files(&sandbox.path("d")).remove(0);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[2000] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    for args in [&["get", "d", "a", "-o", "b.npy"][..], &["get", "d", "a", "-o", "b.npz"]] {
        let error = sandbox.lacus(args).fails(6);
        assert!(error.contains("checksum") || error.contains("damaged"), "{error}");
    }
    assert_eq!(sandbox.files(), ["a.npy", "d"]);
    let doctor = sandbox.lacus(["doctor", "d"]);
    assert_eq!(doctor.code(), Some(6));
    assert!(doctor.stdout().contains("damage") && doctor.stdout().contains("\"a\""), "{}", doctor.stdout());
    assert!(doctor.stderr().contains("1 problem found"), "{}", doctor.stderr());
}

#[test]
fn truncated_and_missing_files() {
    let sandbox = with_photos();
    let file = data_files(&sandbox.path("d")).remove(0);
    let bytes = std::fs::read(&file).unwrap();
    for length in [0, 10, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&file, &bytes[..length]).unwrap();
        let error = sandbox.lacus(["get", "d", "a", "-o", "b.npy"]).fails(6);
        assert!(error.contains(".parquet"), "{length}: {error}");
        assert_eq!(sandbox.lacus(["doctor", "d"]).code(), Some(6), "{length}");
    }
    std::fs::remove_file(&file).unwrap();
    assert_eq!(sandbox.lacus(["doctor", "d"]).code(), Some(6));
    assert!(!sandbox.lacus(["get", "d", "a"]).output.status.success());
    // The catalogue is in the log, so it is still known what was there.
    assert_eq!(sandbox.names(), ["a"]);
}

#[test]
fn a_newer_format() {
    let sandbox = Sandbox::with_dataset();
    let log = sandbox.path("d/_delta_log/00000000000000000000.json");
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains(r#""lacus.format":"1""#), "{text}");
    // Without its checksum, which would no longer fit.
    let newer = text.replace(r#""lacus.format":"1""#, r#""lacus.format":"99""#).replace("crc32c", "other");
    std::fs::write(&log, newer).unwrap();
    let error = sandbox.lacus(["ls", "d"]).fails(2);
    assert!(error.contains("newer"), "{error}");
}
