//! `lacus query` and `lacus shell`.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use crate::harness::{Ended, Sandbox, tree};

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::empty();
    let rows: String =
        (0..30).map(|i| format!("{i},{},\"word, {i}\"\n", ["cat", "dog", "owl"][i % 3])).collect();
    std::fs::write(sandbox.path("rows.csv"), format!("n,animal,word\n{rows}")).unwrap();
    sandbox.lacus(["import", "rows.csv", "d"]).ok();
    sandbox.lacus(["commit", "d", "-m", "rows"]).ok();
    sandbox
}

/// Runs the shell with this on its standard input.
fn shell(sandbox: &Sandbox, args: &[&str], text: &str) -> std::process::Output {
    let mut child = sandbox
        .command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn as_a_table() {
    let sandbox = sandbox();
    let ended: Ended =
        sandbox.lacus(["query", "d", "SELECT animal, count(*) AS n GROUP BY animal ORDER BY animal"]);
    assert_eq!(ended.stderr(), "3 rows in a table\n");
    assert_eq!(ended.ok(), "animal   n\ncat     10\ndog     10\nowl     10\n");
    let ended = sandbox.lacus([
        "query",
        "d",
        "SELECT n, word WHERE animal = 'dog' ORDER BY n DESC",
        "--limit-shown",
        "2",
    ]);
    assert_eq!(ended.stderr(), "… 8 more rows; 10 rows in a view\n");
    assert_eq!(ended.ok(), " n  word\n28  word, 28\n25  word, 25\n");
}

#[test]
fn as_json_and_csv() {
    let sandbox = sandbox();
    let found = sandbox.lacus(["query", "d", "SELECT n, animal WHERE n < 2", "--json"]).json();
    assert_eq!(found, json!([{"n": 0, "animal": "cat"}, {"n": 1, "animal": "dog"}]));
    assert_eq!(sandbox.lacus(["query", "d", "SELECT * WHERE n > 99", "--json"]).json(), json!([]));
    let found = sandbox
        .lacus(["query", "d", "SELECT word, NULL AS nothing, n * 2 AS \"m\" WHERE n < 2", "--csv"])
        .ok();
    assert_eq!(found, "word,nothing,m\r\n\"word, 0\",,0\r\n\"word, 1\",,2\r\n");
}

#[test]
fn with_parameters() {
    let sandbox = sandbox();
    let count = |args: &[&str]| {
        let args = [&["query", "d"], args, &["--json"]].concat();
        sandbox.lacus(args).json().as_array().unwrap().len()
    };
    assert_eq!(count(&["SELECT * WHERE animal = ? AND n > ?", "--param", "dog", "--param", "20"]), 3);
    assert_eq!(count(&["SELECT * WHERE animal = :it", "--param", "it=owl"]), 10);
    assert_eq!(count(&["SELECT * WHERE word = ?", "--param", "'word, 7'"]), 1);
    assert_eq!(count(&["SELECT * WHERE n > ?", "--param", "-1"]), 30);
    assert_eq!(count(&["SELECT * WHERE n < 5 AND ? IS NULL", "--param", "null"]), 5);
    let error = sandbox.lacus(["query", "d", "SELECT * WHERE n > ?"]).fails(2);
    assert!(!error.is_empty());
}

#[test]
fn into_a_file() {
    let sandbox = sandbox();
    sandbox
        .lacus(["query", "d", "SELECT animal, sum(n) AS total GROUP BY animal", "--parquet", "sums.parquet"])
        .ok();
    sandbox.lacus(["import", "sums.parquet", "sums"]).ok();
    let found = sandbox.lacus(["query", "sums", "SELECT total ORDER BY total", "--json"]).json();
    assert_eq!(found, json!([{"total": 135}, {"total": 145}, {"total": 155}]));
    sandbox.lacus(["query", "d", "SELECT n, n % 2 AS odd WHERE n < 4", "--parquet", "some.parquet"]).ok();
    sandbox.lacus(["import", "some.parquet", "some"]).ok();
    assert_eq!(sandbox.lacus(["query", "some", "SELECT sum(odd) AS s", "--json"]).json(), json!([{"s": 2}]));
}

#[test]
fn as_a_saved_view() {
    let sandbox = sandbox();
    let args =
        ["query", "d", "SELECT n, animal WHERE animal = :a", "--param", "a=dog", "--save", "dogs", "--json"];
    assert_eq!(sandbox.lacus(args).json()["rows"], 10);
    let listed = sandbox.lacus(["views", "d", "--json"]).json();
    assert_eq!(listed[0]["query"], "SELECT n, animal WHERE animal = :a");
    let shown = sandbox.lacus(["head", "d", "--view", "dogs", "--json"]).json();
    assert_eq!(shown[1], json!({"n": 4, "animal": "dog"}));
    let error = sandbox.lacus(["query", "d", "SELECT count(*) AS n", "--save", "sum"]).fails(2);
    assert!(error.contains("a table"), "{error}");
}

#[test]
fn with_an_explanation() {
    let sandbox = sandbox();
    let told = sandbox.lacus(["query", "d", "SELECT * WHERE n > 3", "--explain"]).ok();
    assert!(told.contains("LacusScan"), "{told}");
    let told = sandbox.lacus(["query", "d", "SELECT * WHERE n > 3", "--analyze", "--json"]).json();
    assert!(told["plan"].as_str().unwrap().contains("rows: 26"), "{told}");
}

#[test]
fn of_older_states_and_other_datasets() {
    let sandbox = sandbox();
    sandbox.lacus(["tag", "d", "v1"]).ok();
    std::fs::write(sandbox.path("more.csv"), "n,animal,word\n99,cat,x\n").unwrap();
    sandbox.lacus(["import", "more.csv", "d", "--append"]).ok();
    let max =
        |args: &[&str]| sandbox.lacus([&["query", "d"], args, &["--json"]].concat()).json()[0]["m"].clone();
    assert_eq!(max(&["SELECT max(n) AS m"]), 99);
    assert_eq!(max(&["SELECT max(n) AS m", "--at", "v1"]), 29);
    assert_eq!(max(&["SELECT max(n) AS m FROM dataset@\"v1\""]), 29);
}

#[test]
fn errors_show_the_place_and_change_nothing() {
    let sandbox = sandbox();
    let before = tree(&sandbox.path("d"));
    for (text, said) in [
        ("SELECT anmial", "animal"),
        ("", "empty"),
        ("INSERT INTO dataset VALUES (1)", "only read"),
        ("SELECT * FROM", ""),
    ] {
        let error = sandbox.lacus(["query", "d", text]).fails(2);
        assert!(error.contains(said), "{text}: {error}");
    }
    let error = sandbox.lacus(["query", "d", "SELECT anmial", "--json"]).fails(2);
    assert!(error.contains("\"kind\":\"invalid\""), "{error}");
    sandbox.lacus(["query", "nowhere", "SELECT 1"]).fails(3);
    sandbox.lacus(["query", "d", "SELECT *", "--at", "v9"]).fails(3);
    sandbox.lacus(["query", "d", "SELECT *", "--memory", "much"]).fails(2);
    assert_eq!(tree(&sandbox.path("d")), before);
}

#[test]
fn one_after_the_other_in_a_shell() {
    let sandbox = sandbox();
    let text = "SELECT n\nFROM dataset -- all; of them\nWHERE n < 2;SELECT count(*) AS c;\n\\d\n\\timing\n\
                SELECT animal WHERE n = 4;\n\\q\nSELECT nothing;\n";
    let output = shell(&sandbox, &["shell", "d", "-q"], text);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.starts_with("n\n0\n1\n c\n30\n"), "{told}");
    assert!(told.contains("word    text\n") && told.ends_with("animal\ndog\n"), "{told}");
    let told = shell(&sandbox, &["shell", "d", "-q"], "\\x\nSELECT n, animal WHERE n = 4");
    assert_eq!(String::from_utf8(told.stdout).unwrap(), "-- row 1\nn       4\nanimal  dog\n");
    let told = shell(&sandbox, &["shell", "d"], "\\d animal\n\\?\n");
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("type") && told.contains("\\timing"), "{told}");
}

#[test]
fn a_shell_without_a_terminal_ends_at_the_first_failure() {
    let sandbox = sandbox();
    let output = shell(&sandbox, &["shell", "d"], "SELECT anmial;\nSELECT 1;\n");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
    let output = shell(&sandbox, &["shell", "d"], "\\nonsense\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("\\?"));
    assert_eq!(output.status.code(), Some(2));
}
