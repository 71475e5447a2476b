//! Every format in and out, every dtype, odd names.

use lacus::tensor::DType;

use crate::harness::{Sandbox, Value, counting, dense, matrix};

fn check(file: &str, value: &Value, back: &str) {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one(file, value);
    sandbox.lacus(["put", "d", file, "--name", "x"]).ok();
    sandbox.lacus(["get", "d", "x", "-o", back]).ok();
    assert_eq!(&sandbox.read_one(back), value, "{file} to {back}");
}

#[test]
fn in_every_format() {
    let cube = counting(&[4, 5, 6]);
    for (file, back) in [("a.npy", "b.npy"), ("a.npz", "b.npz"), ("a.safetensors", "b.safetensors")] {
        check(file, &cube, back);
    }
    check("a.npy", &cube, "b.safetensors");
    let sparse = matrix([30, 40], &[(0, 0, 1.5), (3, 39, -0.0), (29, 7, f64::INFINITY), (29, 8, 0.0)]);
    for packing in ["", ".gz", ".zst"] {
        for format in ["tns", "mtx"] {
            check(&format!("a.{format}{packing}"), &sparse, &format!("b.{format}{packing}"));
        }
    }
    check("a.tns", &sparse, "b.npz");
    check("a.npz", &sparse, "b.mtx.gz");
}

#[test]
fn in_every_layout() {
    let sandbox = Sandbox::with_dataset();
    let sparse = matrix([30, 40], &[(0, 0, 1.5), (3, 39, -2.0), (29, 7, 7.25)]);
    sandbox.write_one("a.tns", &sparse);
    for layout in ["auto", "sparse", "coo", "csr", "csc", "csf", "bsgs", "BSGS"] {
        sandbox.lacus(["put", "d", "a.tns", "--layout", layout]).ok();
        sandbox.lacus(["get", "d", "a", "-o", "b.tns"]).ok();
        assert_eq!(sandbox.read_one("b.tns"), sparse, "{layout}");
    }
    sandbox.write_one("c.npy", &counting(&[6, 7]));
    for layout in ["auto", "dense", "ftsf"] {
        sandbox.lacus(["put", "d", "c.npy", "--layout", layout, "--chunk-shape", "4,3"]).ok();
        sandbox.lacus(["get", "d", "c", "-o", "c2.npy"]).ok();
        assert_eq!(sandbox.read_one("c2.npy"), counting(&[6, 7]), "{layout}");
    }
}

#[test]
fn of_every_dtype() {
    for dtype in DType::ALL {
        let bytes: Vec<u8> = match dtype {
            DType::Bool => vec![0, 1, 1, 0, 0, 1],
            // NaN payloads, negative zeros, subnormals: whatever bytes these are.
            _ => (0..6 * dtype.size_bytes()).map(|i| (i * 37 + 129) as u8).collect(),
        };
        let extension = if dtype == DType::BF16 { "safetensors" } else { "npy" };
        check(&format!("a.{extension}"), &dense(dtype, &[2, 3], &bytes), &format!("b.{extension}"));
    }
}

#[test]
fn of_odd_shapes() {
    for dims in [&[][..], &[0], &[3, 0, 2], &[1; 16], &[1, 1]] {
        check("a.npy", &counting(dims), "b.npy");
    }
}

/// The parts a large tensor is streamed out in are put together in order.
#[test]
fn when_it_is_read_in_parts() {
    let sandbox = Sandbox::with_dataset();
    let bytes: Vec<u8> = (0u32..(90 << 20) / 4).flat_map(u32::to_le_bytes).collect();
    let value = dense(DType::U32, &[90, 512, 512], &bytes);
    sandbox.write_one("a.npy", &value);
    sandbox.lacus(["put", "d", "a.npy", "--chunk-shape", "7,512,512", "--compression", "none"]).ok();
    sandbox.lacus(["get", "d", "a", "-o", "b.npy"]).ok();
    assert!(sandbox.read_one("b.npy") == value);
}

#[test]
fn onto_stdout() {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("a.npy", &counting(&[4, 5]));
    sandbox.lacus(["put", "d", "a.npy"]).ok();
    let ended = sandbox.lacus(["get", "d", "a", "-o", "-"]);
    assert_eq!(ended.stderr(), "");
    std::fs::write(sandbox.path("b.npy"), &ended.output.stdout).unwrap();
    assert_eq!(sandbox.read_one("b.npy"), counting(&[4, 5]));
}

/// What was dense is given back dense, even when it was stored sparse.
#[test]
fn when_zeros_were_not_stored() {
    let sandbox = Sandbox::with_dataset();
    let mut bytes = vec![0; 4 * 100 * 100];
    for i in [4, 400, 20_000] {
        bytes[i] = 7;
    }
    let mostly_zero = dense(DType::I32, &[100, 100], &bytes);
    sandbox.write_one("a.npy", &mostly_zero);
    sandbox.lacus(["put", "d", "a.npy", "--layout", "sparse"]).ok();
    for file in ["b.npy", "b.safetensors"] {
        sandbox.lacus(["get", "d", "a", "-o", file]).ok();
        assert_eq!(sandbox.read_one(file), mostly_zero, "{file}");
    }
    sandbox.lacus(["get", "d", "a", "-o", "b.npz", "--dense"]).ok();
    assert_eq!(sandbox.read_one("b.npz"), mostly_zero);
    // And the other way round: nonzeros of a dense tensor.
    sandbox.lacus(["put", "d", "a.npy", "--layout", "dense"]).ok();
    sandbox.lacus(["get", "d", "a", "-o", "b.tns"]).ok();
    let Value::Sparse(found) = sandbox.read_one("b.tns") else { panic!("tns is sparse") };
    assert_eq!(found.nnz(), 3);
}

#[test]
fn several_at_once() {
    let sandbox = Sandbox::with_dataset();
    let (weight, bias) = (counting(&[3, 4]), counting(&[4]));
    sandbox.write("model.safetensors", &[("weight", &weight), ("bias", &bias)]);
    sandbox.lacus(["put", "d", "model.safetensors", "--prefix", "run 1"]).ok();
    assert_eq!(sandbox.names(), ["run 1/bias", "run 1/weight"]);
    for file in ["back.npz", "back.safetensors"] {
        sandbox.lacus(["get", "d", "run 1/bias", "run 1/weight", "-o", file]).ok();
        let mut found = sandbox.read(file);
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["run 1/bias", "run 1/weight"]);
        assert!(found[0].1 == bias && found[1].1 == weight, "{file}");
    }
}

#[test]
fn under_odd_names() {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("a.npy", &counting(&[3]));
    let names =
        ["with space", "größe/東京/🦀", "a/b/c", "--help", "x=1&y='2'\"", ".hidden", "%2F", "a\\b", "[0]"];
    for name in names {
        sandbox.lacus(["put", "d", "a.npy", &format!("--name={name}")]).ok();
    }
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    assert_eq!(sandbox.names(), sorted);
    for name in names {
        sandbox.lacus(["get", "d", "-o", "b.npy", "--", name]).ok();
        assert_eq!(sandbox.read_one("b.npy"), counting(&[3]), "{name}");
        sandbox.lacus(["mv", "d", "--", name, "moved"]).ok();
        sandbox.lacus(["mv", "d", "--", "moved", name]).ok();
    }
    sandbox.lacus(["compact", "d"]).ok();
    assert_eq!(sandbox.names(), sorted);
    sandbox.lacus(["rm", "d", "--"].iter().chain(&names)).ok();
    assert!(sandbox.names().is_empty());
}

#[test]
fn with_its_metadata() {
    let sandbox = Sandbox::with_dataset();
    sandbox.write_one("a.npy", &counting(&[3]));
    sandbox.lacus(["put", "d", "a.npy", "--metadata", r#"{"unit": "mm", "scale": [1, 2]}"#]).ok();
    assert_eq!(sandbox.lacus(["info", "d", "a", "--json"]).json()["metadata"]["scale"][1], 2);
    // npy has no place for it, and that is said.
    let ended = sandbox.lacus(["get", "d", "a", "-o", "b.npy"]);
    assert!(ended.stderr().contains("no place for the metadata of a"), "{}", ended.stderr());
    // safetensors keeps it as texts, in both directions.
    sandbox.lacus(["get", "d", "a", "-o", "b.safetensors"]).ok();
    sandbox.lacus(["put", "d", "b.safetensors", "--name", "b"]).ok();
    let metadata = &sandbox.lacus(["info", "d", "b", "--json"]).json()["metadata"];
    assert_eq!(metadata, &serde_json::json!({"unit": "mm", "scale": "[1,2]"}));
}
