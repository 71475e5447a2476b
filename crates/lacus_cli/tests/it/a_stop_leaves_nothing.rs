//! Ctrl-C: exit code 130, nothing written, nothing left over.

#![cfg(unix)]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::harness::{Sandbox, counting, tree};

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn while_a_file_is_read() {
    let sandbox = Sandbox::with_dataset();
    let before = tree(&sandbox.path("d"));
    assert!(Command::new("mkfifo").arg(sandbox.path("slow.tns")).status().unwrap().success());
    let child = sandbox
        .command(["put", "d", "slow.tns"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Opens once the command reads, which then waits for more.
    let mut slow = OpenOptions::new().write(true).open(sandbox.path("slow.tns")).unwrap();
    slow.write_all(b"1 1 1.0\n").unwrap();
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "lacus: stopped; nothing was written\n");
    assert_eq!(tree(&sandbox.path("d")), before);
}

/// Wherever the signal hits: before the end nothing is there, after it everything.
#[test]
fn while_a_tensor_is_written() {
    for millis in [50, 150, 400, 800] {
        let sandbox = Sandbox::with_dataset();
        // A large file of holes, whose last element is not zero.
        let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (1024, 1048576), }";
        let mut file = File::create(sandbox.path("a.npy")).unwrap();
        file.write_all(b"\x93NUMPY\x01\x00\x76\x00").unwrap();
        file.write_all(format!("{header:117}\n").as_bytes()).unwrap();
        file.set_len(128 + (1 << 30)).unwrap();
        let child = sandbox
            .command(["put", "d", "a.npy", "--layout", "ftsf", "--compression", "zstd:9"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(millis));
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(130) => {
                assert_eq!(said, "lacus: stopped; nothing was written\n");
                assert!(sandbox.names().is_empty());
                assert!(!sandbox.path("d/data").exists() || tree(&sandbox.path("d/data")).is_empty());
            }
            Some(0) => assert_eq!(sandbox.names(), ["a"]),
            // Hit before it listened: it died at once, as it should.
            None => assert!(sandbox.names().is_empty()),
            code => panic!("{code:?}: {said}"),
        }
    }
}

#[test]
fn while_a_file_is_written() {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("a.npy", &counting(&[100, 512, 512]));
    sandbox.lacus(["put", "d", "a.npy", "--compression", "none"]).ok();
    for (millis, file) in [(20, "b.tns"), (100, "b.tns"), (400, "b.tns"), (60, "b.npy"), (120, "b.npy")] {
        let child = sandbox.command(["get", "d", "a", "-o", file]).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(millis));
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        match output.status.code() {
            Some(130) => assert_eq!(sandbox.files(), ["a.npy", "d"]),
            Some(0) => std::fs::remove_file(sandbox.path(file)).unwrap(),
            // Hit before it listened.
            None => assert_eq!(sandbox.files(), ["a.npy", "d"]),
            code => panic!("{code:?}: {}", String::from_utf8_lossy(&output.stderr)),
        }
    }
}
