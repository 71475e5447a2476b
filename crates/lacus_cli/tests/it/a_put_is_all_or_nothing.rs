//! All files of one call are one version, or nothing is written at all.

use crate::harness::{Sandbox, counting, tree};

#[test]
fn one_bad_file_among_good_ones() {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("a.npy", &counting(&[3]));
    sandbox.write_one("z.npy", &counting(&[3]));
    std::fs::write(sandbox.path("bad.npy"), b"not an array").unwrap();
    let before = tree(&sandbox.path("d"));
    for args in [["a.npy", "bad.npy", "z.npy"], ["bad.npy", "a.npy", "z.npy"], ["a.npy", "z.npy", "none.npy"]]
    {
        let ended = sandbox.lacus(["put", "d"].iter().chain(&args));
        assert!(matches!(ended.code(), Some(2 | 3)), "{}", ended.stderr());
        assert_eq!(tree(&sandbox.path("d")), before);
    }
    assert!(sandbox.names().is_empty());
}

#[test]
fn one_tensor_that_does_not_fit_its_layout() {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("a.npy", &counting(&[3, 4]));
    sandbox.write_one("b.npy", &counting(&[3]));
    let before = tree(&sandbox.path("d"));
    let error = sandbox.lacus(["put", "d", "a.npy", "b.npy", "--chunk-shape", "1,4"]).fails(2);
    assert!(error.contains("\"b\""), "{error}");
    assert_eq!(tree(&sandbox.path("d")), before);
}

#[test]
fn many_files_are_one_version() {
    let sandbox = Sandbox::with_dataset();
    let names: Vec<String> = (0..20).map(|i| format!("t{i:02}.npy")).collect();
    for name in &names {
        sandbox.write_one(name, &counting(&[3]));
    }
    let put =
        sandbox.lacus(["put", "d", "--json"].into_iter().chain(names.iter().map(String::as_str))).json();
    assert_eq!((put["version"].as_u64(), put["tensors"].as_array().unwrap().len()), (Some(1), 20));
    assert_eq!(sandbox.names().len(), 20);
}

#[test]
fn a_removal_with_one_unknown_name_removes_nothing() {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("a.npy", &counting(&[3]));
    sandbox.lacus(["put", "d", "a.npy"]).ok();
    sandbox.lacus(["rm", "d", "a", "b"]).fails(3);
    assert_eq!(sandbox.names(), ["a"]);
}
