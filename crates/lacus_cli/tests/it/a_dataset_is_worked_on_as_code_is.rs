//! Commits, branches, diffs and merges, as a person or a script makes them.

use lacus::tensor::DType;
use serde_json::Value as Json;

use crate::harness::{Sandbox, dense};

/// Puts int64 numbers in chunks of two as `x` into `d`.
fn put(sandbox: &Sandbox, name: &str, numbers: &[i64]) {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    sandbox.write_one("t.npy", &dense(DType::I64, &[numbers.len() as u64], &bytes));
    sandbox.lacus(["put", "d", "t.npy", "--name", name, "--chunk-shape", "2", "--compression", "none"]).ok();
}

fn commit(sandbox: &Sandbox, message: &str) -> String {
    let done = sandbox.lacus(["commit", "d", "-m", message, "--json"]).json();
    done["commit"].as_str().unwrap().to_owned()
}

fn numbers(sandbox: &Sandbox, name: &str) -> String {
    sandbox.lacus(["get", "d", name, "--json"]).json()["values"].to_string()
}

/// With one commit of `x`.
fn begun() -> Sandbox {
    let sandbox = Sandbox::with_dataset();
    put(&sandbox, "x", &[0, 0, 0, 0]);
    commit(&sandbox, "first");
    sandbox
}

/// Ids as their number of appearance, and dates as `DATE`.
fn masked(text: &str) -> String {
    let mut ids: Vec<String> = Vec::new();
    let mut masked = String::new();
    for line in text.lines() {
        let line = match line.split_once("Date:   ") {
            Some((before, _)) => format!("{before}Date:   DATE"),
            None => line.to_owned(),
        };
        let words: Vec<String> = line
            .split(' ')
            .map(|word| {
                let (id, end) = word.strip_suffix(']').map_or((word, ""), |id| (id, "]"));
                if id.len() != 10 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return word.to_owned();
                }
                let at = ids.iter().position(|known| known == id).unwrap_or_else(|| {
                    ids.push(id.to_owned());
                    ids.len() - 1
                });
                format!("#{at}{end}")
            })
            .collect();
        masked.push_str(&words.join(" "));
        masked.push('\n');
    }
    masked
}

#[test]
fn a_draft_becomes_a_commit() {
    let sandbox = Sandbox::with_dataset();
    let status = sandbox.lacus(["status", "d"]).ok();
    assert_eq!(status, "On branch main, version 0\nNo commits yet\n\nnothing to commit, no draft\n");
    put(&sandbox, "x", &[1, 2]);
    let status = sandbox.lacus(["status", "d"]).ok();
    for said in
        ["No commits yet", "Draft of 1 version:", "put", " x  | added: int64 (2,) FTSF", "1 tensor added"]
    {
        assert!(status.contains(said), "{said}: {status}");
    }
    let said =
        sandbox.lacus(["commit", "d", "-m", "first\n\nand why", "--meta", "run=12", "--author", "Eve"]);
    assert_eq!(said.stdout(), "");
    let said = masked(&said.stderr());
    assert!(
        said.starts_with("[main (first commit) ") && said.ends_with("first\n 1 tensor changed\n"),
        "{said}"
    );
    let status = sandbox.lacus(["status", "d", "--json"]).json();
    assert_eq!(status["head"]["metadata"]["run"], 12);
    assert_eq!(
        (status["branch"].as_str(), status["draft"].as_array().map(Vec::len)),
        (Some("main"), Some(0))
    );
    let text = masked(&sandbox.lacus(["show", "d"]).ok());
    let expected = "commit #0 (HEAD -> main)
Author: Eve
Date:   DATE
Meta:   run=12

    first

    and why

 x  | added: int64 (2,) FTSF
 1 tensor added
";
    assert_eq!(text, expected);
    let error = sandbox.lacus(["commit", "d", "-m", "again"]).fails(2);
    assert!(error.contains("nothing to commit"), "{error}");
    sandbox.lacus(["commit", "d", "-m", "empty", "--allow-empty"]).ok();
    assert_eq!(sandbox.lacus(["log", "d", "--json"]).json().as_array().unwrap().len(), 2);
    sandbox.lacus(["commit", "d", "-m", " ", "--allow-empty"]).fails(2);
}

#[test]
fn a_checkout_is_the_users_own() {
    let sandbox = begun();
    let said = sandbox.lacus(["checkout", "d", "-b", "dev"]).stderr();
    assert_eq!(said, "Switched to a new branch 'dev'\n");
    put(&sandbox, "x", &[1, 0, 0, 0]);
    assert_eq!(numbers(&sandbox, "x"), "[1,0,0,0]");
    // Somebody else is still on main.
    let state = tempfile::tempdir().unwrap();
    let other = |args: &[&str]| {
        let output = sandbox.command(args).env("XDG_STATE_HOME", state.path()).output().unwrap();
        assert!(output.status.success(), "{args:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(other(&["status", "d"]).starts_with("On branch main"));
    assert!(other(&["get", "d", "x", "--json"]).contains("[0,0,0,0]"));
    assert!(other(&["get", "d", "x", "--json", "--branch", "dev"]).contains("[1,0,0,0]"));
    let mut command = sandbox.command(["get", "d", "x", "--json"]);
    let output = command.env("XDG_STATE_HOME", state.path()).env("LACUS_BRANCH", "dev").output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("[1,0,0,0]"));

    // A draft is in the way, unless it is left there.
    let error = sandbox.lacus(["checkout", "d", "main"]).fails(2);
    assert!(error.contains("\"dev\" has a draft of 1 version") && error.contains("--force"), "{error}");
    sandbox.lacus(["checkout", "d", "-b", "more"]).fails(2);
    sandbox.lacus(["checkout", "d", "dev"]).ok();
    sandbox.lacus(["checkout", "d", "main", "--force"]).ok();
    assert_eq!(numbers(&sandbox, "x"), "[0,0,0,0]");
    let list = masked(&sandbox.lacus(["branch", "d"]).ok());
    assert_eq!(list, "  dev   #0  [draft of 1 version] first\n* main  #0  first\n");

    // A new dataset at the same place is on main.
    sandbox.lacus(["checkout", "d", "dev"]).ok();
    std::fs::remove_dir_all(sandbox.path("d")).unwrap();
    sandbox.lacus(["create", "d"]).ok();
    assert!(sandbox.lacus(["status", "d"]).ok().starts_with("On branch main"));
}

#[test]
fn an_older_state_is_only_looked_at() {
    let sandbox = begun();
    sandbox.lacus(["tag", "d", "v1", "-m", "the first"]).ok();
    put(&sandbox, "x", &[1, 1, 1, 1]);
    commit(&sandbox, "second");
    let said = sandbox.lacus(["checkout", "d", "v1"]).stderr();
    assert!(said.starts_with("Detached at ") && said.contains("first"), "{said}");
    assert_eq!(numbers(&sandbox, "x"), "[0,0,0,0]");
    for args in [
        &["put", "d", "t.npy"][..],
        &["rm", "d", "x"],
        &["mv", "d", "x", "y"],
        &["compact", "d"],
        &["commit", "d", "-m", "no"],
        &["merge", "d", "main"],
        &["restore", "d", "main"],
        &["discard", "d"],
    ] {
        let error = sandbox.lacus(args).fails(2);
        assert!(error.contains("detached") && error.contains("-b NAME"), "{args:?}: {error}");
    }
    assert!(sandbox.lacus(["status", "d"]).ok().starts_with("Detached at "));
    assert!(sandbox.lacus(["branch", "d"]).ok().starts_with("* (detached at "));
    assert_eq!(sandbox.lacus(["log", "d", "--json"]).json().as_array().unwrap().len(), 1);
    assert_eq!(sandbox.lacus(["diff", "d"]).ok(), "");
    assert!(sandbox.lacus(["diff", "d", "main", "HEAD"]).ok().contains("2 chunks changed"));
    sandbox.lacus(["checkout", "d", "1"]).ok();
    assert_eq!(numbers(&sandbox, "x"), "[0,0,0,0]");
    sandbox.lacus(["checkout", "d", "v1"]).ok();
    sandbox.lacus(["checkout", "d", "-b", "fix"]).ok();
    put(&sandbox, "y", &[7]);
    assert_eq!(numbers(&sandbox, "x"), "[0,0,0,0]");
}

#[test]
fn any_state_is_read() {
    let sandbox = begun();
    sandbox.lacus(["tag", "d", "v1"]).ok();
    put(&sandbox, "x", &[1, 1, 1, 1]);
    let second = commit(&sandbox, "second");
    sandbox.lacus(["branch", "d", "dev"]).ok();
    put(&sandbox, "x", &[2, 2, 2, 2]);
    let at = |revision: &str| {
        sandbox.lacus(["get", "d", "x", "--json", "--at", revision]).json()["values"][0].as_i64().unwrap()
    };
    assert_eq!([at("v1"), at("main~1"), at("HEAD~1"), at("1")], [0; 4]);
    assert_eq!([at("dev"), at(&second), at(&second[..10]), at("HEAD"), at("2")], [1; 5]);
    assert_eq!([at("main"), at("3"), at("2999-01-01")], [2; 3]);
    for command in ["ls", "info", "history", "doctor"] {
        sandbox.lacus([command, "d", "--at", "v1"]).ok();
    }
}

#[test]
fn a_diff_says_what_and_where() {
    let sandbox = begun();
    put(&sandbox, "x", &[0, 0, 0, 9]);
    put(&sandbox, "y", &[5]);
    let text = sandbox.lacus(["diff", "d"]).ok();
    let expected = " x  | 1 chunk changed\n y  | added: int64 (1,) FTSF\n 1 tensor changed, 1 added\n";
    assert_eq!(text, expected);
    assert_eq!(sandbox.lacus(["diff", "d", "--stat"]).ok(), expected);
    let text = sandbox.lacus(["diff", "d", "--values"]).ok();
    assert_eq!(text, format!("{expected}\n@@ x[2:4]\n- [0 0]\n+ [0 9]\n"));
    let json = sandbox.lacus(["diff", "d", "--json", "--values", "1"]).json();
    assert_eq!(json["tensors"][0]["chunks"].to_string(), r#"[{"chunk":[1],"region":[[2,4]]}]"#);
    assert_eq!(json["tensors"][1]["change"], "added");
    assert_eq!(json["values"][0]["after"]["values"].to_string(), "[0,9]");
    commit(&sandbox, "second");
    assert_eq!(sandbox.lacus(["diff", "d"]).ok(), "");
    assert_eq!(sandbox.lacus(["diff", "d", "main~1"]).ok(), expected);
    assert_eq!(sandbox.lacus(["diff", "d", "main~1..main"]).ok(), expected);
    let back = sandbox.lacus(["diff", "d", "main", "main~1"]).ok();
    assert!(back.contains(" y  | dropped: int64 (1,) FTSF"), "{back}");
    sandbox.lacus(["diff", "d", "main~1...main"]).fails(2);
}

#[test]
fn rows_have_values_too() {
    let sandbox = Sandbox::empty();
    std::fs::write(sandbox.path("p.csv"), "name,age\nada,36\nbob,41\n").unwrap();
    sandbox.lacus(["import", "p.csv", "d"]).ok();
    commit(&sandbox, "people");
    std::fs::write(sandbox.path("q.csv"), "name,age\neve,28\n").unwrap();
    sandbox.lacus(["import", "q.csv", "d", "--append"]).ok();
    let text = sandbox.lacus(["diff", "d", "--values"]).ok();
    for said in
        ["age", "samples: 1 added", "(rows)", "1 row added", "@@ name row 2\n+ eve\n", "@@ age row 2\n+ 28\n"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
}

/// Both sides changed different places, and then the same.
fn two_lines() -> Sandbox {
    let sandbox = begun();
    sandbox.lacus(["checkout", "d", "-b", "dev"]).ok();
    put(&sandbox, "x", &[1, 0, 0, 0]);
    commit(&sandbox, "on dev");
    sandbox.lacus(["checkout", "d", "main"]).ok();
    put(&sandbox, "x", &[0, 0, 0, 9]);
    commit(&sandbox, "on main");
    sandbox
}

#[test]
fn lines_of_work_come_together() {
    let sandbox = two_lines();
    let list = masked(&sandbox.lacus(["branch", "d"]).ok());
    assert_eq!(list, "  dev   #0  [ahead 1, behind 1] on dev\n* main  #1  on main\n");
    sandbox.lacus(["merge", "d", "dev", "--ff-only"]).fails(2);
    let said = masked(&sandbox.lacus(["merge", "d", "dev"]).stderr());
    assert_eq!(said, "[main #0] Merge dev into main\n x  | 1 chunk changed\n 1 tensor changed\n");
    assert_eq!(numbers(&sandbox, "x"), "[1,0,0,9]");
    assert_eq!(sandbox.lacus(["merge", "d", "dev"]).stderr(), "Already up to date.\n");
    let text = masked(&sandbox.lacus(["log", "d", "--graph", "--oneline", "--all"]).ok());
    let expected = "\
* #0 (HEAD -> main) Merge dev into main
|\\
* | #1 on main
| * #2 (dev) on dev
|/
* #3 first
";
    assert_eq!(text, expected);
    let text = masked(&sandbox.lacus(["log", "d", "--graph", "-n", "1"]).ok());
    let expected = "\
* commit #0 (HEAD -> main)
| Merge:  #1 #2
| Author: Ada
| Date:   DATE
|
|     Merge dev into main
";
    assert_eq!(text, expected);
    // Dev only lags behind.
    sandbox.lacus(["checkout", "d", "dev"]).ok();
    let said = sandbox.lacus(["merge", "d", "main", "--json"]).json();
    assert_eq!(said["result"], "fast_forward");
    let log = sandbox.lacus(["log", "d", "--json"]).json();
    assert_eq!(log[0]["refs"].as_array().unwrap().len(), 2, "{log}");
}

#[test]
fn conflicts_are_listed_and_settled() {
    let sandbox = two_lines();
    put(&sandbox, "x", &[5, 0, 0, 9]);
    commit(&sandbox, "the same place");
    let before = sandbox.lacus(["status", "d", "--json"]).json();
    let error = sandbox.lacus(["merge", "d", "dev"]).fails(4);
    assert!(
        error.contains("\"x\", chunk [0]: changed on both sides") && error.contains("-X ours"),
        "{error}"
    );
    let error = sandbox.lacus(["merge", "d", "dev", "--json"]).fails(4);
    let error: Json = serde_json::from_str(&error).unwrap();
    assert_eq!(error["error"]["kind"], "conflict");
    let conflicts = error["error"]["conflicts"].to_string();
    assert_eq!(conflicts, r#"[{"array":"x","conflict":"chunk","coords":[0]}]"#);
    let error = sandbox.lacus(["merge", "d", "dev", "--union"]).fails(4);
    assert!(error.contains("has no union"), "{error}");
    assert_eq!(sandbox.lacus(["status", "d", "--json"]).json(), before);
    sandbox.lacus(["merge", "d", "dev", "--ours", "--theirs"]).fails(2);

    sandbox.lacus(["branch", "d", "other"]).ok();
    sandbox.lacus(["merge", "d", "dev", "-X", "theirs", "-m", "theirs"]).ok();
    assert_eq!(numbers(&sandbox, "x"), "[1,0,0,9]");
    sandbox.lacus(["checkout", "d", "other"]).ok();
    sandbox.lacus(["merge", "d", "dev", "--ours"]).ok();
    assert_eq!(numbers(&sandbox, "x"), "[5,0,0,9]");
    let log = sandbox.lacus(["log", "d", "-n", "1", "--json"]).json();
    assert_eq!(log[0]["parents"].as_array().unwrap().len(), 2, "{log}");
}

#[test]
fn one_commit_is_undone_or_taken() {
    let sandbox = two_lines();
    sandbox.lacus(["cherry-pick", "d", "dev"]).ok();
    assert_eq!(numbers(&sandbox, "x"), "[1,0,0,9]");
    let log = sandbox.lacus(["log", "d", "--json"]).json();
    assert_eq!(
        (log[0]["message"].as_str(), log[0]["parents"].as_array().map(Vec::len)),
        (Some("on dev"), Some(1))
    );
    sandbox.lacus(["revert", "d", "HEAD~1"]).ok();
    assert_eq!(numbers(&sandbox, "x"), "[1,0,0,0]");
    let log = sandbox.lacus(["log", "d", "--oneline", "-n", "1"]).ok();
    assert!(log.ends_with("Revert \"on main\"\n"), "{log}");
    let error = sandbox.lacus(["revert", "d", "main~3"]).fails(2);
    assert!(error.contains("first"), "{error}");
    let error = sandbox.lacus(["revert", "d", "main", "--mainline", "1"]).fails(2);
    assert!(error.contains("is not a merge"), "{error}");

    sandbox.lacus(["restore", "d", "main~2"]).ok();
    assert_eq!(numbers(&sandbox, "x"), "[0,0,0,9]");
    assert!(sandbox.lacus(["status", "d"]).ok().contains("Draft of 1 version"));
    sandbox.lacus(["merge", "d", "dev"]).fails(2);
    // What somebody else wrote is not thrown away by mistake.
    let output = sandbox.command(["discard", "d"]).env("LACUS_AUTHOR", "Eve").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = sandbox.lacus(["discard", "d"]).stderr();
    assert_eq!(said, "discarded 1 version of branch main\n");
    assert_eq!(numbers(&sandbox, "x"), "[1,0,0,0]");
    assert_eq!(sandbox.lacus(["discard", "d"]).stderr(), "nothing to discard\n");
}

#[test]
fn names_come_and_go() {
    let sandbox = begun();
    sandbox.lacus(["tag", "d", "v1", "-m", "the first"]).ok();
    sandbox.lacus(["tag", "d", "same", "main"]).ok();
    assert_eq!(masked(&sandbox.lacus(["tag", "d"]).ok()), "same  #0  first\nv1    #0  the first\n");
    assert!(
        masked(&sandbox.lacus(["show", "d", "v1"]).ok()).starts_with("tag v1\nTagger: Ada\nDate:   DATE\n")
    );
    sandbox.lacus(["tag", "d", "-d", "same"]).ok();
    assert_eq!(sandbox.lacus(["tag", "d", "--json"]).json().as_array().unwrap().len(), 1);
    sandbox.lacus(["checkout", "d", "-b", "dev"]).ok();
    sandbox.lacus(["branch", "d", "-m", "work/one"]).ok();
    assert!(sandbox.lacus(["status", "d"]).ok().starts_with("On branch work/one"));
    let published = sandbox.lacus(["publish", "d"]).ok();
    assert!(published.starts_with("file://") && published.contains("/_branches/"), "{published}");
    assert_eq!(sandbox.lacus(["branch", "d", "--json"]).json()[1]["borrowed_files"], 0);
    let path = published.trim().strip_prefix("file://").unwrap().to_owned();
    assert_eq!(sandbox.lacus(["ls", path.as_str()]).ok(), "x\n");
    put(&sandbox, "y", &[1]);
    commit(&sandbox, "only here");
    sandbox.lacus(["checkout", "d", "main"]).ok();
    let error = sandbox.lacus(["branch", "d", "-d", "work/one"]).fails(2);
    assert!(error.contains("no other branch"), "{error}");
    sandbox.lacus(["branch", "d", "-D", "work/one"]).ok();
    assert_eq!(sandbox.lacus(["branch", "d", "--json"]).json().as_array().unwrap().len(), 1);
}

#[test]
fn where_a_tensor_came_from() {
    let sandbox = begun();
    put(&sandbox, "y", &[5]);
    let made = [
        "commit",
        "d",
        "-m",
        "make y",
        "--program",
        "make.py",
        "--function",
        "f",
        "--input",
        "HEAD:x",
        "--param",
        "k=3",
        "--param",
        "how=fast",
    ];
    sandbox.lacus(made).ok();
    let text = sandbox.lacus(["lineage", "d", "y"]).ok();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("y  ") && lines[0].ends_with("Ada  make y"), "{text}");
    assert_eq!(lines[1], "  by make.py, function f");
    assert!(lines[2].starts_with("  from x at "), "{text}");
    assert_eq!(lines[3], "  with how=\"fast\", k=3");
    assert!(lines[4].starts_with("    x  ") && lines[4].ends_with("first"), "{text}");
    let json = sandbox.lacus(["lineage", "d", "y", "--json"]).json();
    assert_eq!(
        (json[0]["lineage"]["parameters"]["k"].as_i64(), json[1]["depth"].as_i64()),
        (Some(3), Some(1))
    );
    sandbox.lacus(["lineage", "d", "z"]).fails(3);
    sandbox.lacus(["lineage", "d", "y", "--at", "main~1"]).fails(3);
    put(&sandbox, "z", &[5]);
    sandbox.lacus(["commit", "d", "-m", "z", "--output", "z"]).fails(2);
    sandbox.lacus(["commit", "d", "-m", "z", "--input", "HEAD:none"]).fails(3);
    sandbox.lacus(["commit", "d", "-m", "z", "--input", "nowhere:x"]).fails(3);
}

#[test]
fn a_merge_is_undone() {
    let sandbox = two_lines();
    let before = numbers(&sandbox, "x");
    sandbox.lacus(["merge", "d", "dev"]).ok();
    assert_ne!(numbers(&sandbox, "x"), before);
    let error = sandbox.lacus(["revert", "d", "HEAD"]).fails(2);
    for said in ["mainline", "1 goes back to", "2 goes back to", "on main", "on dev"] {
        assert!(error.contains(said), "{said}: {error}");
    }
    sandbox.lacus(["revert", "d", "HEAD", "--mainline", "3"]).fails(2);
    sandbox.lacus(["revert", "d", "HEAD", "--mainline", "1"]).ok();
    assert_eq!(numbers(&sandbox, "x"), before);
}
