//! `lacus … | head -1` ends without a word.

use std::process::Stdio;

use crate::harness::{Sandbox, counting};

/// A full disk is no closed pipe.
#[cfg(target_os = "linux")]
#[test]
fn but_a_full_one_is_an_error() {
    let sandbox = Sandbox::with_dataset();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = sandbox.command(["info", "d"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&output.stderr).contains("stdout"));
}

#[test]
fn when_the_reader_has_enough() {
    let sandbox = Sandbox::with_dataset();
    // More than a pipe holds, so that the command is still writing when nobody reads.
    sandbox.write_one("a.npy", &counting(&[100, 1000]));
    sandbox.lacus(["put", "d", "a.npy"]).ok();
    let commands: [&[&str]; 6] = [
        &["get", "d", "a", "-o", "-"],
        &["get", "d", "a", "--json"],
        &["get", "d", "a"],
        &["ls", "d"],
        &["completions", "zsh"],
        &["--help"],
    ];
    for args in commands {
        let mut child = sandbox.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
    }
}
