//! Results on stdout, talk on stderr, aligned and without noise.

use crate::harness::{Sandbox, counting, dense, matrix};
use lacus::tensor::DType;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("größe.npy", &counting(&[2, 3]));
    sandbox.write_one("m.tns", &matrix([30, 400], &[(1, 1, 1.0), (22, 333, -2.5)]));
    sandbox.lacus(["put", "d", "größe.npy", "m.tns"]).ok();
    sandbox
}

#[test]
fn data_on_stdout_and_talk_on_stderr() {
    let sandbox = sandbox();
    let put = sandbox.lacus(["put", "d", "größe.npy"]);
    assert_eq!(put.stdout(), "");
    let said = put.stderr();
    assert!(
        said.starts_with("größe  float32 (2, 3)  FTSF  ") && said.ends_with("put 1 tensor as version 2\n"),
        "{said}"
    );
    let get = sandbox.lacus(["get", "d", "größe", "-o", "b.npy"]);
    assert_eq!(
        (get.stdout(), get.stderr()),
        (String::new(), "wrote b.npy: float32 (2, 3), 152 B\n".to_owned())
    );
    let quiet = sandbox.lacus(["put", "d", "größe.npy", "--quiet"]);
    assert_eq!((quiet.stdout(), quiet.stderr()), (String::new(), String::new()));
    let quiet = sandbox.lacus(["ls", "d", "-q"]);
    assert_eq!((quiet.stdout().as_str(), quiet.stderr().as_str()), ("größe\nm\n", ""));
    let quiet = sandbox.lacus(["get", "d", "x", "--quiet"]);
    assert!(quiet.stderr().contains("no tensor"), "{}", quiet.stderr());
}

#[test]
fn a_list_in_columns() {
    let sandbox = sandbox();
    let text = sandbox.lacus(["ls", "d", "--long"]).ok();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].starts_with("NAME   DTYPE    SHAPE      LAYOUT  "), "{text}");
    assert!(lines[1].starts_with("größe  float32  (2, 3)     FTSF    "), "{text}");
    assert!(lines[2].starts_with("m      float64  (30, 400)  "), "{text}");
    assert!(lines.iter().all(|line| line.trim_end() == *line));
    assert_eq!(sandbox.lacus(["ls", "d", "m"]).ok(), "m\n");
    assert_eq!(sandbox.lacus(["ls", "d", "x", "--long"]).ok(), "");
}

#[test]
fn facts_about_a_tensor() {
    let sandbox = sandbox();
    let text = sandbox.lacus(["info", "d", "m"]).ok();
    for said in [
        "name      m",
        "dtype     float64",
        "shape     (30, 400)",
        "nonzeros  2 (",
        "layout    ",
        "stored    ",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let text = sandbox.lacus(["info", "d"]).ok();
    for said in ["version  1", "tensors  2", "stored   "] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn what_happened() {
    let sandbox = sandbox();
    sandbox.lacus(["mv", "d", "m", "n"]).ok();
    sandbox.lacus(["rm", "d", "n"]).ok();
    let text = sandbox.lacus(["history", "d"]).ok();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("VERSION  TIME"), "{text}");
    assert!(lines[1].starts_with("      3  20") && lines[1].ends_with("Ada     remove     n"), "{text}");
    assert!(lines[2].ends_with("rename     m to n"), "{text}");
    assert!(lines[3].ends_with("put        größe, m"), "{text}");
    assert!(lines[4].ends_with("create"), "{text}");
}

#[test]
fn a_look_at_a_tensor() {
    let sandbox = sandbox();
    assert_eq!(
        sandbox.lacus(["get", "d", "größe"]).ok(),
        "größe: float32 (2, 3)\n[[0.0 1.0 2.0]\n [3.0 4.0 5.0]]\n"
    );
    assert_eq!(sandbox.lacus(["get", "d", "größe", "--slice", "1, 2"]).ok(), "größe: float32 ()\n5.0\n");
    assert_eq!(sandbox.lacus(["get", "d", "m"]).ok(), "m: float64 (30, 400)\n 1    1   1.0\n22  333  -2.5\n");
    let bytes: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
    sandbox.write_one("big.npy", &dense(DType::U8, &[100, 1000], &bytes));
    sandbox.lacus(["put", "d", "big.npy"]).ok();
    let text = sandbox.lacus(["get", "d", "big", "--slice", "::-1, ::2"]).ok();
    let expected = "big: uint8 (100, 500)
[[106 108 110 ...  96  98 100]
 [110 112 114 ... 100 102 104]
 [114 116 118 ... 104 106 108]
 ...
 [243 245 247 ... 233 235 237]
 [247 249   0 ... 237 239 241]
 [  0   2   4 ... 241 243 245]]
";
    assert_eq!(text, expected);
    // A selection by lists is read whole.
    assert!(
        sandbox.lacus(["get", "d", "big", "--slice", "[0, 99]"]).ok().starts_with("big: uint8 (2, 1000)\n[[")
    );
}

#[test]
fn small_files_are_joined() {
    let sandbox = sandbox();
    assert_eq!(sandbox.lacus(["compact", "d"]).code(), Some(0));
    for i in 0..3 {
        sandbox.lacus(["put", "d", "größe.npy", "--name", &format!("x{i}")]).ok();
    }
    let said = sandbox.lacus(["compact", "d"]).stderr();
    assert!(said.starts_with("compacted ") && said.contains(" files ("), "{said}");
    assert_eq!(sandbox.lacus(["compact", "d"]).stderr(), "nothing to compact\n");
    let doctor = sandbox.lacus(["doctor", "d"]).ok();
    assert!(doctor.contains("unused") && doctor.ends_with("healthy\n"), "{doctor}");
}
