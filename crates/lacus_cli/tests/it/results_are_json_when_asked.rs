//! `--json` is one JSON value on stdout, and nothing else anywhere, for every command.

use serde_json::{Value as Json, json};

use crate::harness::{Sandbox, counting, matrix};

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("a.npy", &counting(&[2, 3]));
    sandbox.write_one("m.tns", &matrix([3, 3], &[(1, 1, 1.0)]));
    sandbox.lacus(["put", "d", "a.npy", "m.tns"]).ok();
    sandbox
}

#[test]
fn of_writing_commands() {
    let sandbox = sandbox();
    let json = |args: &[&str]| sandbox.lacus(args.iter().chain(&["--json"])).json();
    assert_eq!(json(&["create", "e"]), json!({"url": "e", "version": 0}));
    let put = json(&["put", "e", "a.npy"]);
    assert_eq!((&put["version"], &put["tensors"][0]["name"]), (&json!(1), &json!("a")));
    assert_eq!(json(&["mv", "e", "a", "b"]), json!({"version": 2, "from": "a", "to": "b"}));
    assert_eq!(json(&["rm", "e", "b"]), json!({"version": 3, "removed": ["b"]}));
    let compact = json(&["compact", "e"]);
    assert!(compact["files_before"].is_u64() && compact["version"].is_u64(), "{compact}");
    let get = json(&["get", "d", "a", "-o", "b.npy"]);
    assert_eq!(get["tensors"], json!([{"name": "a", "dtype": "float32", "shape": [2, 3]}]));
    assert_eq!(get["bytes"], 128 + 24);
}

#[test]
fn of_reading_commands() {
    let sandbox = sandbox();
    let json = |args: &[&str]| sandbox.lacus(args.iter().chain(&["--json"])).json();
    let listed = json(&["ls", "d"]);
    let names: Vec<&Json> = listed.as_array().unwrap().iter().map(|tensor| &tensor["name"]).collect();
    assert_eq!(names, ["a", "m"]);
    assert_eq!(json(&["ls", "d", "x"]), json!([]));
    let info = json(&["info", "d", "m"]);
    assert_eq!(
        (&info["nnz"], &info["shape"], &info["dtype"]),
        (&json!(1), &json!([3, 3]), &json!("float64"))
    );
    assert!(info["reasons"].is_array() && info["stored_bytes"].is_u64() && info["layout"].is_string());
    let info = json(&["info", "d"]);
    assert_eq!((&info["version"], &info["tensors"]), (&json!(1), &json!(2)));
    let history = json(&["history", "d"]);
    assert_eq!(history[0]["detail"]["tensors"], json!(["a", "m"]));
    assert_eq!((&history[1]["operation"], &history[1]["version"]), (&json!("CREATE"), &json!(0)));
    assert_eq!(history[0]["author"], "Ada");
    assert_eq!(json(&["history", "d", "--limit", "1"]).as_array().unwrap().len(), 1);
    let doctor = json(&["doctor", "d"]);
    assert_eq!((&doctor["healthy"], &doctor["tensors"]), (&json!(true), &json!(2)));
    let get = json(&["get", "d", "m"]);
    assert_eq!((&get["indices"], &get["values"]), (&json!([[1, 1]]), &json!([1.0])));
    assert_eq!(json(&["get", "d", "a", "m"]).as_array().unwrap().len(), 2);
    assert!(json(&["completions", "bash"])["script"].as_str().unwrap().contains("lacus"));
}

#[test]
fn of_errors() {
    let sandbox = sandbox();
    let check = |args: &[&str], code: i32, kind: &str| {
        let error = sandbox.lacus(args.iter().chain(&["--json"])).fails(code);
        let error: Json = serde_json::from_str(&error).unwrap_or_else(|e| panic!("{args:?}: {e}: {error}"));
        assert_eq!(error["error"]["kind"], kind, "{args:?}");
        assert!(!error["error"]["message"].as_str().unwrap().is_empty());
    };
    check(&["ls", "nowhere"], 3, "not_found");
    check(&["get", "d", "b"], 3, "not_found");
    check(&["get", "d"], 2, "invalid");
    check(&["frobnicate"], 2, "invalid");
    check(&["get", "d", "a", "--slice", "!"], 2, "invalid");
    check(&["create", "d"], 4, "conflict");
    check(&["get", "d", "a", "-o", "-"], 2, "invalid");
}
