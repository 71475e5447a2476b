//! Bad input to commands of the history: a clear error, the right exit code, nothing changed.

use lacus::tensor::DType;

use crate::harness::{Sandbox, counting, dense, tree};

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("x.npy", &counting(&[4]));
    sandbox.lacus(["put", "d", "x.npy"]).ok();
    sandbox.lacus(["commit", "d", "-m", "first"]).ok();
    sandbox.lacus(["branch", "d", "experiment"]).ok();
    sandbox.lacus(["tag", "d", "v1.0"]).ok();
    sandbox
}

#[track_caller]
fn refused(sandbox: &Sandbox, args: &[&str], code: i32, said: &[&str]) {
    let before = tree(&sandbox.path("d"));
    let error = sandbox.lacus(args).fails(code);
    for said in said.iter().chain(&["lacus: "]) {
        assert!(error.contains(said), "{args:?}: {said:?} is not in {error}");
    }
    assert_eq!(tree(&sandbox.path("d")), before, "{args:?}");
}

#[test]
fn names_that_nothing_has() {
    let sandbox = sandbox();
    refused(&sandbox, &["checkout", "d", "experimant"], 3, &["experimant", "did you mean experiment?"]);
    refused(&sandbox, &["get", "d", "x", "--at", "v1.1"], 3, &["v1.0"]);
    refused(&sandbox, &["ls", "d", "--branch", "experimen"], 3, &["experiment"]);
    refused(&sandbox, &["put", "d", "x.npy", "--branch", "none"], 3, &["none"]);
    refused(&sandbox, &["merge", "d", "nothing"], 3, &["nothing"]);
    refused(&sandbox, &["show", "d", "main~7"], 3, &["main~7"]);
    refused(&sandbox, &["diff", "d", "main", "99"], 3, &["99"]);
    refused(&sandbox, &["log", "d", "~"], 2, &["~"]);
    refused(&sandbox, &["branch", "d", "-d", "none"], 3, &["none"]);
    refused(&sandbox, &["branch", "d", "-m", "none", "other"], 3, &["none"]);
    refused(&sandbox, &["tag", "d", "-d", "v1.0", "v2"], 3, &["v2"]);
    refused(&sandbox, &["publish", "d", "none"], 3, &["none"]);
    for command in ["status", "log", "show", "branch", "tag", "diff"] {
        refused(&sandbox, &[command, "nowhere"], 3, &["nowhere"]);
    }
}

#[test]
fn an_ambiguous_beginning() {
    let sandbox = sandbox();
    // Of so many commits, two begin with the same four digits: objects are enough.
    let commits = sandbox.path("d/_lacus/commits");
    std::fs::write(commits.join(format!("beef{}.json", "0".repeat(60))), "x").unwrap();
    std::fs::write(commits.join(format!("beef{}.json", "1".repeat(60))), "x").unwrap();
    refused(&sandbox, &["show", "d", "beef"], 2, &["several commits", "beef000000", "beef111111"]);
}

#[test]
fn names_that_are_taken_or_not_allowed() {
    let sandbox = sandbox();
    refused(&sandbox, &["branch", "d", "experiment"], 4, &["experiment"]);
    refused(&sandbox, &["checkout", "d", "-b", "experiment"], 4, &["experiment"]);
    refused(&sandbox, &["branch", "d", "v1.0"], 4, &["tag"]);
    refused(&sandbox, &["tag", "d", "v1.0"], 4, &["v1.0"]);
    refused(&sandbox, &["tag", "d", "main"], 4, &["branch"]);
    refused(&sandbox, &["branch", "d", "-m", "experiment", "main"], 4, &["main"]);
    for name in ["a b", "a..b", "HEAD", "a//b", ".a", "a~1", ""] {
        refused(&sandbox, &["branch", "d", name], 2, &["name"]);
        refused(&sandbox, &["tag", "d", name], 2, &["name"]);
        refused(&sandbox, &["checkout", "d", "-b", name], 2, &["name"]);
    }
}

#[test]
fn the_branch_one_stands_on_and_the_last() {
    let sandbox = sandbox();
    refused(&sandbox, &["branch", "d", "-D", "main"], 2, &["main"]);
    sandbox.lacus(["checkout", "d", "experiment"]).ok();
    refused(&sandbox, &["branch", "d", "-D", "experiment"], 2, &["stands on", "checkout d main"]);
    // Even when another is named for this command.
    refused(&sandbox, &["branch", "d", "-D", "experiment", "--branch", "main"], 2, &["stands on"]);
    refused(&sandbox, &["branch", "d", "-D", "main"], 2, &["main"]);
    refused(&sandbox, &["branch", "d", "-m", "main", "master"], 2, &["main"]);
}

#[test]
fn a_branch_that_went_away() {
    let sandbox = sandbox();
    sandbox.lacus(["checkout", "d", "experiment"]).ok();
    let state = tempfile::tempdir().unwrap();
    let mut other = sandbox.command(["branch", "d", "-D", "experiment"]);
    assert!(other.env("XDG_STATE_HOME", state.path()).output().unwrap().status.success());
    refused(&sandbox, &["ls", "d"], 3, &["experiment", "lacus checkout d main"]);
    refused(&sandbox, &["put", "d", "x.npy"], 3, &["experiment"]);
    sandbox.lacus(["checkout", "d", "main"]).ok();
    assert_eq!(sandbox.names(), ["x"]);
}

#[test]
fn a_draft_in_the_way() {
    let sandbox = sandbox();
    sandbox.lacus(["put", "d", "x.npy", "--name", "y"]).ok();
    sandbox.lacus(["put", "d", "x.npy", "--name", "z"]).ok();
    for args in [
        &["checkout", "d", "experiment"][..],
        &["checkout", "d", "-b", "new"],
        &["merge", "d", "experiment"],
        &["cherry-pick", "d", "experiment"],
        &["revert", "d", "HEAD"],
        &["restore", "d", "HEAD"],
    ] {
        refused(&sandbox, args, 2, &["draft of 2 versions"]);
    }
}

#[test]
fn before_the_first_commit() {
    let sandbox = Sandbox::with_dataset();
    for args in [
        &["log", "d"][..],
        &["show", "d"],
        &["branch", "d", "a"],
        &["tag", "d", "a"],
        &["checkout", "d", "-b", "a"],
        &["merge", "d", "main"],
        &["lineage", "d", "x"],
    ] {
        refused(&sandbox, args, 3, &["has no commit yet", "lacus commit"]);
    }
}

#[test]
fn another_datasets_commits() {
    let sandbox = sandbox();
    sandbox.lacus(["create", "e"]).ok();
    sandbox.write_one("t.npy", &dense(DType::U8, &[1], &[1]));
    sandbox.lacus(["put", "e", "t.npy"]).ok();
    let id =
        sandbox.lacus(["commit", "e", "-m", "other", "--json"]).json()["commit"].as_str().unwrap().to_owned();
    let file = format!("_lacus/commits/{id}.json");
    std::fs::copy(sandbox.path("e").join(&file), sandbox.path("d").join(&file)).unwrap();
    refused(&sandbox, &["merge", "d", &id], 2, &["no common ancestor"]);
}

#[test]
fn a_damaged_commit() {
    let sandbox = sandbox();
    let id = sandbox.lacus(["log", "d", "--json"]).json()[0]["id"].as_str().unwrap().to_owned();
    let path = sandbox.path(&format!("d/_lacus/commits/{id}.json"));
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("first", "fist")).unwrap();
    for args in [
        &["log", "d"][..],
        &["show", "d", &id[..10]],
        &["branch", "d", "a"],
        &["merge", "d", "v1.0"],
        &["get", "d", "x", "--at", "v1.0"],
        &["status", "d"],
    ] {
        refused(&sandbox, args, 6, &["damaged commit", "lacus check"]);
    }
    // The data is there all the same.
    assert_eq!(sandbox.names(), ["x"]);
}

#[test]
fn options_that_make_no_sense() {
    let sandbox = sandbox();
    refused(&sandbox, &["commit", "d"], 2, &["--message"]);
    refused(&sandbox, &["branch", "d", "a", "main", "more"], 2, &["one name"]);
    refused(&sandbox, &["branch", "d", "-d"], 2, &["NAME"]);
    refused(&sandbox, &["merge", "d", "main", "--no-ff", "--ff-only"], 2, &["--ff-only"]);
    refused(&sandbox, &["merge", "d", "main", "-X", "luck"], 2, &["luck"]);
    refused(&sandbox, &["gc", "d", "--remove", "--dry-run"], 2, &["--dry-run"]);
    refused(&sandbox, &["gc", "d", "--grace", "soon"], 2, &["30d"]);
    refused(&sandbox, &["expire", "d"], 2, &["--older-than"]);
    refused(&sandbox, &["checkout", "d"], 2, &["REV"]);
}
