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

/// A time without a zone is local time, as in Python. `TZ` says which.
#[test]
fn times_without_a_zone_are_local() {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("a.npy", &counting(&[3]));
    sandbox.lacus(["put", "d", "a.npy"]).ok();
    let history = sandbox.lacus(["history", "d", "--json"]).json();
    let time = history[0]["time"].as_str().unwrap();
    // The same digits are hours earlier in the east of Greenwich, and later in its west.
    let bare = time.trim_end_matches('Z');
    let at = |zone: &str, time: &str| {
        let output = sandbox.command(["ls", "d", "--at", time]).env("TZ", zone).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for zone in ["XXX-9", "XXX", "XXX9"] {
        assert_eq!(at(zone, time), (Some(0), String::new()), "{zone}");
    }
    assert_eq!(at("XXX", bare).0, Some(0));
    assert_eq!(at("XXX9", bare).0, Some(0));
    let (code, said) = at("XXX-9", bare);
    assert_eq!(code, Some(3));
    // Dates, not milliseconds; and those of UTC, as the history shows them.
    assert!(said.contains(&time[..4]) && said.contains('Z') && !said.contains("000000"), "{said}");
    for text in ["@1", "version:1", "1"] {
        assert_eq!(sandbox.lacus(["ls", "d", "--at", text]).ok(), "a\n", "{text}");
    }
    let error = sandbox.lacus(["ls", "d", "--at", "v1"]).fails(3);
    assert!(error.contains("@1"), "{error}");
    sandbox.lacus(["commit", "d", "-m", "first"]).ok();
    let error = sandbox.lacus(["tag", "d", "12"]).fails(2);
    assert!(error.contains("version"), "{error}");
}
