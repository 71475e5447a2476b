//! `lacus run` computes into a dataset, whole or not at all.

use lacus::tensor::DType;

use crate::harness::{Sandbox, counting, dense, matrix, tree};

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("A.npy", &counting(&[2, 3]));
    sandbox.lacus(["put", "d", "A.npy", "--name", "A"]).ok();
    sandbox
}

fn f32s(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[test]
fn what_is_saved_is_one_version() {
    let sandbox = sandbox();
    let text = "A = load(\"A\")\nG[i, j] = A[i, k] * A[j, k]\nsave(G, \"gram\")\nsave(sum(A), \"total\")\n";
    std::fs::write(sandbox.path("gram.lac"), text).unwrap();
    let words = ["run", "gram.lac", "--data", "d"];
    let json =
        sandbox.lacus(words.into_iter().chain(["--json", "--memory", "1GiB", "--workers", "2"])).json();
    assert_eq!(json["version"], 2);
    assert_eq!(json["tensors"][0]["name"], "gram");
    assert_eq!(sandbox.names(), ["A", "gram", "total"]);
    sandbox.lacus(["get", "d", "gram", "-o", "gram.npy"]).ok();
    assert_eq!(sandbox.read_one("gram.npy"), dense(DType::F32, &[2, 2], &f32s(&[5.0, 14.0, 14.0, 50.0])));
    let told = sandbox.lacus(words);
    assert!(
        told.stderr().starts_with("saved gram float32 (2, 2), total float32 () in "),
        "{}",
        told.stderr()
    );
    told.ok();
}

#[test]
fn inputs_come_before_the_dataset() {
    let sandbox = sandbox();
    sandbox.write_one("other.npy", &counting(&[3]));
    sandbox.write_one("s.mtx", &matrix([2, 3], &[(0, 1, 2.0)]));
    std::fs::write(sandbox.path("p.lac"), "save(load(\"A\") + load(\"S\"), \"x\")\n").unwrap();
    sandbox.lacus(["run", "p.lac", "--data", "d", "--input", "A=other.npy", "--input", "S=s.mtx"]).ok();
    sandbox.lacus(["get", "d", "x", "-o", "x.npy"]).ok();
    let expected: Vec<u8> = [0.0f64, 3.0, 2.0, 0.0, 1.0, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    assert_eq!(sandbox.read_one("x.npy"), dense(DType::F64, &[2, 3], &expected));
}

#[test]
fn what_fails_writes_nothing() {
    let sandbox = sandbox();
    sandbox.write("two.npz", &[("a", &counting(&[3])), ("b", &counting(&[3]))]);
    let before = tree(&sandbox.path("d"));
    let check = |text: &str, more: &[&str], code: i32, expected: &str| {
        std::fs::write(sandbox.path("p.lac"), text).unwrap();
        let words = ["run", "p.lac", "--data", "d"].into_iter().chain(more.iter().copied());
        let message = sandbox.lacus(words).fails(code);
        assert!(message.contains(expected), "{message}");
    };
    check("save(load(\"B\"), \"x\")", &[], 3, "there is no tensor 'B' to load");
    check("save(load(\"B\"), \"x\")", &[], 3, "hint: tensors that can be loaded: A");
    check("x = load(\"A\")", &[], 2, "the program saves nothing");
    check("save(load(\"A\") @ load(\"A\"), \"x\")", &[], 2, "p.lac: `@`: lhs [2, 3] and rhs [2, 3] disagree");
    check("save(load(\"A\") *, \"x\")", &[], 2, "line 1, column 17");
    check("save(log(0 - load(\"A\")), \"x\")", &["--forbid-nan"], 2, "\"x\": NaN");
    check("save(load(\"A\"), \"x\")", &["--input", "A"], 2, "\"A\" is not NAME=FILE");
    check("save(load(\"A\"), \"x\")", &["--input", "A=no.npy"], 3, "no.npy");
    check("save(load(\"A\"), \"x\")", &["--input", "A=two.npz"], 2, "--input A: two.npz holds 2 tensors");
    check("save(load(\"A\"), \"x\")", &["--workers", "0"], 2, "0");
    check("save(load(\"A\"), \"\")", &[], 2, "name");
    let large = "R = random([300, 300], 1); save(R @ R, \"x\")";
    check(large, &["--memory", "4KiB"], 2, "a memory budget of 4.0 KiB is too small: one step of ");
    check(large, &["--memory", "512KiB", "--spill", "p.lac/below"], 2, "\"p.lac/below\" is not a directory");
    assert_eq!(tree(&sandbox.path("d")), before);
    sandbox.lacus(["run", "none.lac", "--data", "d"]).fails(3);
    sandbox.lacus(["run", "p.lac", "--data", "nowhere"]).fails(3);
    sandbox.lacus(["run", "p.lac"]).fails(2);
}

#[test]
fn what_is_killed_goes_on() {
    let sandbox = sandbox();
    let text = "A = load(\"A\"); R = random([100, 100], 1); x = full([100], float64(sum(A)))
        for t in 0..2000 { y = R @ x; x = y / max(y) }
        save(x, \"x\")";
    std::fs::write(sandbox.path("p.lac"), text).unwrap();
    let words = ["run", "p.lac", "--data", "d", "--checkpoint-every", "5", "--json"];
    let mut child = sandbox.command(words).stdout(std::process::Stdio::null()).spawn().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !sandbox.names().iter().any(|name| name.starts_with("_run/")) {
        assert!(std::time::Instant::now() < until && child.try_wait().unwrap().is_none());
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!sandbox.names().contains(&"x".to_owned()));
    let json = sandbox.lacus(words).json();
    assert!(json["resumed_rounds"].as_u64().is_some_and(|rounds| rounds >= 5 && rounds % 5 == 0), "{json}");
    assert_eq!(json["rounds"], 2000);
    assert_eq!(sandbox.names(), ["A", "x"]);
}
