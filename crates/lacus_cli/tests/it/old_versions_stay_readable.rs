//! `--at` reads what was there at a version or a time.

use crate::harness::{Sandbox, counting};

#[test]
fn by_number_and_by_time() {
    let sandbox = Sandbox::with_dataset();
    let put = |dims: &[u64]| {
        // Versions are told apart by their milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(5));
        sandbox.write_one("a.npy", &counting(dims));
        sandbox.lacus(["put", "d", "a.npy"]).ok();
    };
    put(&[3]);
    put(&[4]);
    sandbox.lacus(["mv", "d", "a", "b"]).ok();
    sandbox.lacus(["rm", "d", "b"]).ok();
    assert!(sandbox.names().is_empty());
    let shape = |at: &str, name: &str| {
        sandbox.lacus(["get", "d", name, "--json", "--at", at]).json()["shape"].to_string()
    };
    assert_eq!(shape("1", "a"), "[3]");
    assert_eq!(shape("2", "a"), "[4]");
    assert_eq!(shape("3", "b"), "[4]");
    let history = sandbox.lacus(["history", "d", "--json"]).json();
    let time = |version: usize| history[4 - version]["time"].as_str().unwrap().to_owned();
    assert_eq!(shape(&time(1), "a"), "[3]");
    assert_eq!(shape(&time(2), "a"), "[4]");
    assert_eq!(sandbox.lacus(["ls", "d", "--at", "2999-01-01"]).ok(), "");
    assert_eq!(sandbox.lacus(["ls", "d", "--at", "3"]).ok(), "b\n");
    assert_eq!(sandbox.lacus(["history", "d", "--at", "1", "--json"]).json().as_array().unwrap().len(), 2);
    assert_eq!(sandbox.lacus(["info", "d", "--at", "2", "--json"]).json()["version"], 2);
    assert_eq!(sandbox.lacus(["doctor", "d", "--at", "2", "--json"]).json()["version"], 2);
    sandbox.lacus(["get", "d", "a", "--at", "yesterday"]).fails(3);
}
