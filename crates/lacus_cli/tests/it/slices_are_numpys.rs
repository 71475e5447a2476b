//! `--slice` means what it means between numpy's brackets.

use lacus::tensor::DType;

use crate::harness::{Sandbox, counting, dense, matrix};

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("a.npy", &counting(&[4, 6]));
    sandbox.lacus(["put", "d", "a.npy", "--chunk-shape", "2,4"]).ok();
    sandbox
}

#[test]
fn of_dense_tensors() {
    let sandbox = sandbox();
    let check = |slice: &str, shape: &str, values: &str| {
        let found = sandbox.lacus(["get", "d", "a", "--json", "--slice", slice]).json();
        assert_eq!(found["shape"].to_string(), shape, "{slice}");
        assert_eq!(found["values"].to_string(), values, "{slice}");
        // Files hold the same.
        sandbox.lacus(["get", "d", "a", "-o", "b.npy", "--slice", slice]).ok();
        sandbox.lacus(["put", "d", "b.npy"]).ok();
        let stored = sandbox.lacus(["get", "d", "b", "--json"]).json();
        assert_eq!(stored["values"], found["values"], "{slice}");
    };
    check("1:3, ::3", "[2,2]", "[[6.0,9.0],[12.0,15.0]]");
    check("-1", "[6]", "[18.0,19.0,20.0,21.0,22.0,23.0]");
    check("::-2, 0", "[2]", "[18.0,6.0]");
    check("..., 5", "[4]", "[5.0,11.0,17.0,23.0]");
    check("[3, 0], [0, 5]", "[2]", "[18.0,5.0]");
    check("2, None, [1, 1]", "[2,1]", "[[13.0],[13.0]]");
    check("3, 3", "[]", "21.0");
    check("4:, :", "[0,6]", "[]");
}

/// Lists with a slice between them bring their axis to the front.
#[test]
fn of_axes_that_move() {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("a.npy", &counting(&[2, 3, 4]));
    sandbox.lacus(["put", "d", "a.npy"]).ok();
    let found = sandbox.lacus(["get", "d", "a", "--json", "--slice", "1, :, [0, 1]"]).json();
    assert_eq!(found["values"].to_string(), "[[12.0,16.0,20.0],[13.0,17.0,21.0]]");
    let shown = sandbox.lacus(["get", "d", "a", "--slice", "1, :, [0, 1]"]).ok();
    assert_eq!(shown, "a: float32 (2, 3)\n[[12.0 16.0 20.0]\n [13.0 17.0 21.0]]\n");
    sandbox.lacus(["get", "d", "a", "-o", "b.npy", "--slice", "1, :, [0, 1]"]).ok();
    let bytes: Vec<u8> =
        [12.0f32, 16.0, 20.0, 13.0, 17.0, 21.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(sandbox.read_one("b.npy"), dense(DType::F32, &[2, 3], &bytes));
}

#[test]
fn of_sparse_tensors() {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("a.tns", &matrix([5, 6], &[(0, 1, 1.0), (2, 0, 2.0), (2, 4, 3.0), (4, 5, 4.0)]));
    for layout in ["coo", "csr", "csc", "csf", "bsgs"] {
        sandbox.lacus(["put", "d", "a.tns", "--layout", layout]).ok();
        let found = sandbox.lacus(["get", "d", "a", "--json", "--slice", "::-2, 3:"]).json();
        assert_eq!(found["shape"].to_string(), "[3,3]", "{layout}");
        assert_eq!(found["indices"].to_string(), "[[0,2],[1,1]]", "{layout}");
        assert_eq!(found["values"].to_string(), "[4.0,3.0]", "{layout}");
        let dense = sandbox.lacus(["get", "d", "a", "--json", "--slice", "2", "--dense"]).json();
        assert_eq!(dense["values"].to_string(), "[2.0,0.0,0.0,0.0,3.0,0.0]", "{layout}");
    }
}

#[test]
fn out_of_bounds_is_said_with_the_shape() {
    let sandbox = sandbox();
    let check = |slice: &str, said: &str| {
        let error = sandbox.lacus(["get", "d", "a", "--slice", slice, "-o", "b.npy"]).fails(2);
        assert!(error.contains(said), "{slice}: {error}");
        assert_eq!(sandbox.files(), ["a.npy", "d"]);
    };
    check("4", "tensor \"a\" of shape (4, 6): index 4 is out of bounds for axis 0 with size 4");
    check("0, 0, 0", "too many indices");
    check("[0, 9]", "index 9 is out of bounds");
    check("::0", "step cannot be zero");
    check("1:x", "cannot read selection");
    check("..., ...", "single ellipsis");
}
