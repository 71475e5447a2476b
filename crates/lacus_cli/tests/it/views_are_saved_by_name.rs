//! `lacus views`, and what other commands do with a view.

use serde_json::json;

use crate::harness::{Sandbox, tree};

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::empty();
    let rows: String = (0..20).map(|i| format!("{i},word {i}\n")).collect();
    std::fs::write(sandbox.path("rows.csv"), format!("n,word\n{rows}")).unwrap();
    sandbox.lacus(["import", "rows.csv", "d"]).ok();
    sandbox.lacus(["commit", "d", "-m", "rows"]).ok();
    sandbox
}

#[test]
fn rows_and_columns_are_saved_and_shown() {
    let sandbox = sandbox();
    let args = ["views", "d", "odd", "--rows", "1::2", "--columns", "n", "-m", "odd ones", "--json"];
    assert_eq!(sandbox.lacus(args).json()["rows"], 10);
    sandbox.lacus(["views", "d", "last", "--rows", "-3:"]).ok();
    sandbox.lacus(["views", "d", "back", "--rows", "4::-2"]).ok();
    let listed = sandbox.lacus(["views", "d"]).ok();
    assert!(listed.contains("odd ones") && listed.lines().count() == 3, "{listed}");
    let listed = sandbox.lacus(["views", "d", "--json"]).json();
    assert_eq!(listed[2]["name"], "odd");
    assert_eq!((&listed[2]["rows"], &listed[2]["columns"]), (&json!(10), &json!(["n"])));
    let shown = sandbox.lacus(["head", "d", "--view", "back", "--json"]).json();
    let numbers: Vec<_> = shown.as_array().unwrap().iter().map(|row| row["n"].clone()).collect();
    assert_eq!(numbers, [json!(4), json!(2), json!(0)]);
    sandbox.lacus(["export", "d", "last.csv", "--view", "last"]).ok();
    let exported = std::fs::read_to_string(sandbox.path("last.csv")).unwrap();
    assert_eq!(exported, "n,word\n17,word 17\n18,word 18\n19,word 19\n");
    sandbox.lacus(["views", "d", "-d", "odd", "back"]).ok();
    assert_eq!(sandbox.lacus(["views", "d", "--json"]).json().as_array().unwrap().len(), 1);
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    let sandbox = sandbox();
    sandbox.lacus(["views", "d", "a", "--rows", ":"]).ok();
    for (args, code, said) in [
        (&["views", "d", "a", "--rows", ":3"][..], 4, "a"),
        (&["views", "d", "b"], 2, "--rows"),
        (&["views", "d", "b", "--rows", "x"], 2, "no slice"),
        (&["views", "d", "b", "--rows", "::0"], 2, "no slice"),
        (&["views", "d", "b", "--rows", ":", "--columns", "m"], 3, "m"),
        (&["views", "d", "b", "--rows", ":", "--at", "v9"], 3, "v9"),
        (&["views", "d", "a/../b", "--rows", ":"], 2, "name"),
        (&["views", "d", "-d", "a", "none"], 3, "none"),
        (&["head", "d", "--view", "none"], 3, "none"),
        (&["views", "nowhere"], 3, "nowhere"),
    ] {
        let before = tree(&sandbox.path("d"));
        let error = sandbox.lacus(args).fails(code);
        assert!(error.contains(said), "{args:?}: {said:?} is not in {error}");
        assert_eq!(tree(&sandbox.path("d")), before, "{args:?}");
    }
    std::fs::write(sandbox.path("more.csv"), "n,word\n1,x\n").unwrap();
    sandbox.lacus(["import", "more.csv", "d", "--append"]).ok();
    let error = sandbox.lacus(["views", "d", "draft", "--rows", ":"]).fails(2);
    assert!(error.contains("draft of 1 version"), "{error}");
}
