//! `gc`, `expire` and `check`. Enabled in `main.rs` once the library does them.

use crate::harness::{Sandbox, counting, tree};

/// With two commits and a file that only an expired draft has.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("x.npy", &counting(&[400]));
    sandbox.lacus(["put", "d", "x.npy"]).ok();
    sandbox.lacus(["commit", "d", "-m", "first"]).ok();
    sandbox.lacus(["put", "d", "x.npy", "--name", "draft"]).ok();
    sandbox.lacus(["rm", "d", "draft"]).ok();
    sandbox.lacus(["put", "d", "x.npy", "--name", "y"]).ok();
    sandbox.lacus(["commit", "d", "-m", "second"]).ok();
    sandbox
}

#[test]
fn a_clean_up_tells_before_it_removes() {
    let sandbox = sandbox();
    sandbox.lacus(["branch", "d", "gone"]).ok();
    sandbox.lacus(["put", "d", "x.npy", "--name", "z", "--branch", "gone"]).ok();
    sandbox.lacus(["branch", "d", "-D", "gone"]).ok();
    let before = tree(&sandbox.path("d"));
    let plain = sandbox.lacus(["gc", "d", "--grace", "0"]);
    assert!(plain.stderr().contains("--remove"), "{}", plain.stderr());
    assert!(plain.stdout().contains("branch \"main\""), "{}", plain.stdout());
    sandbox.lacus(["gc", "d", "--grace", "0", "--dry-run"]).ok();
    assert_eq!(tree(&sandbox.path("d")), before);
    let json = sandbox.lacus(["gc", "d", "--grace", "0", "--json"]).json();
    assert_eq!(json["removed"], false);
    assert!(!json["removable"].as_array().unwrap().is_empty(), "{json}");
    // What is young may be about to be needed.
    let young = sandbox.lacus(["gc", "d", "--remove", "--json"]).json();
    assert!(young["removable"].as_array().unwrap().is_empty(), "{young}");
    let json = sandbox.lacus(["gc", "d", "--grace", "0", "--remove", "--json"]).json();
    assert_eq!(json["removed"], true);
    assert!(tree(&sandbox.path("d")).len() < before.len());
    assert_eq!(sandbox.names(), ["x", "y"]);
    sandbox.lacus(["get", "d", "x", "--at", "main~1", "-o", "a.npy"]).ok();
    sandbox.lacus(["check", "d"]).ok();
}

#[test]
fn old_drafts_expire() {
    let sandbox = sandbox();
    sandbox.lacus(["ls", "d", "--at", "2"]).ok();
    assert_eq!(sandbox.lacus(["expire", "d", "--older-than", "7d"]).ok(), "nothing to expire\n");
    let dry = sandbox.lacus(["expire", "d", "--older-than", "0", "--dry-run"]).ok();
    assert!(dry.starts_with("would expire "), "{dry}");
    sandbox.lacus(["ls", "d", "--at", "2"]).ok();
    let json = sandbox.lacus(["expire", "d", "--older-than", "0", "--json"]).json();
    assert_eq!(json["expired"][0]["branch"], "main", "{json}");
    sandbox.lacus(["gc", "d", "--grace", "0", "--remove"]).ok();
    assert_eq!(sandbox.names(), ["x", "y"]);
    sandbox.lacus(["check", "d"]).ok();
}

#[test]
fn a_check_finds_damage() {
    let sandbox = sandbox();
    let text = sandbox.lacus(["check", "d"]).ok();
    assert!(text.contains("1 branch, 0 tags, 2 commits") && text.ends_with("healthy\n"), "{text}");
    assert_eq!(sandbox.lacus(["check", "d", "--json"]).json()["healthy"], true);
    let id = sandbox.lacus(["log", "d", "--json"]).json()[1]["id"].as_str().unwrap().to_owned();
    std::fs::write(sandbox.path(&format!("d/_lacus/commits/{id}.json")), "{}").unwrap();
    let ended = sandbox.lacus(["check", "d"]);
    assert_eq!(ended.code(), Some(6), "{}", ended.stderr());
    assert!(ended.stdout().contains("damage"), "{}", ended.stdout());
    // Nobody can guess what it said.
    assert_eq!(sandbox.lacus(["check", "d", "--repair"]).code(), Some(6));
}
