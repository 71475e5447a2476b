//! `--help` of every command shows how it is used.

use crate::harness::Sandbox;

const COMMANDS: [&str; 37] = [
    "create",
    "put",
    "get",
    "import",
    "export",
    "head",
    "query",
    "shell",
    "ls",
    "info",
    "rm",
    "mv",
    "history",
    "commit",
    "status",
    "log",
    "show",
    "branch",
    "tag",
    "views",
    "checkout",
    "diff",
    "merge",
    "cherry-pick",
    "revert",
    "restore",
    "discard",
    "publish",
    "lineage",
    "gc",
    "expire",
    "check",
    "compact",
    "doctor",
    "run",
    "explain",
    "completions",
];

#[test]
fn of_every_command() {
    let sandbox = Sandbox::empty();
    for command in COMMANDS {
        let help = sandbox.lacus([command, "--help"]).ok();
        assert!(help.contains(&format!("Examples:\n  lacus {command} ")), "{help}");
        assert!(help.contains(&format!("Usage: lacus {command} ")), "{help}");
        for global in ["--json", "--quiet", "--storage-option", "--branch"] {
            assert!(help.contains(global), "{command} {global}");
        }
        assert_eq!(sandbox.lacus(["help", command]).ok(), help);
        let longest = help.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= 100, "{command}: a line of {longest}");
    }
    for command in ["get", "export", "head", "query", "shell", "ls", "info", "history", "doctor"] {
        assert!(sandbox.lacus([command, "-h"]).ok().contains("--at"), "{command}");
    }
}

#[test]
fn of_the_whole() {
    let sandbox = Sandbox::empty();
    let help = sandbox.lacus(["--help"]).ok();
    for word in COMMANDS.iter().chain(&["Examples:", "Exit codes:", "s3://"]) {
        assert!(help.contains(word), "{word}");
    }
    assert_eq!(sandbox.lacus(["--version"]).ok(), concat!("lacus ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn a_wrong_word_is_explained() {
    let sandbox = Sandbox::empty();
    let error = sandbox.lacus(["hisotry", "d"]).fails(2);
    assert!(error.starts_with("lacus: ") && error.contains("'history'"), "{error}");
    let error = sandbox.lacus(["get", "d", "a", "--slic", "0"]).fails(2);
    assert!(error.contains("--slice"), "{error}");
    let error = sandbox.lacus(["rm", "d"]).fails(2);
    assert!(error.contains("<NAME>"), "{error}");
    let nothing: [&str; 0] = [];
    assert_eq!(sandbox.lacus(nothing).code(), Some(2));
}

#[test]
fn completions_are_for_every_shell() {
    let sandbox = Sandbox::empty();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = sandbox.lacus(["completions", shell]).ok();
        assert!(script.contains("lacus") && script.contains("compact"), "{shell}");
    }
    sandbox.lacus(["completions", "tcsh"]).fails(2);
}
