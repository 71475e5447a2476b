//! Programs on sparse matrices give what they give on dense ones, without ever looking at all zeros.

use lacus_algebra::{Array, Functions, Inputs, Limits, Scalar, check, interpret, parse};
use lacus_execute::{Input, Made, RunOptions, run};
use lacus_tensor::{DType, Shape, SparseTensor};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whole numbers, so that sums are exact in any order.
fn matrix(rows: usize, columns: usize, seed: u64, share: f64) -> Array {
    Array::from_fn(DType::F64, &[rows, columns], |at| {
        let place = (at[0] * columns + at[1]) as u64;
        let number = (lacus_algebra::random(seed + 100, place) * 17.0).floor() - 8.0;
        Scalar::F64(if lacus_algebra::random(seed, place) < share { number } else { 0.0 })
    })
}

/// Programs, and whether what they save is sparse.
const PROGRAMS: [(&str, bool); 17] = [
    ("x = S @ D\nsave(x, \"x\")", false),
    ("x = D @ S\nsave(x, \"x\")", false),
    ("x = transpose(S) @ D\nsave(x, \"x\")", false),
    ("x = D @ transpose(S)\nsave(x, \"x\")", false),
    ("x = 3 * (S @ v)\nsave(x, \"x\")", false),
    ("x[j] = S[i,j] * v[i]\nsave(x, \"x\")", false),
    ("x = S @ U\nsave(x, \"x\")", false),
    ("x = Z @ Z\nsave(x, \"x\")", true),
    ("x = 2 * S * D\nsave(x, \"x\")", true),
    ("x = S + 2 * U\nsave(x, \"x\")", true),
    ("x = where(S != 0, S - D, 0)\nsave(x, \"x\")", true),
    ("x[i,j] = P[i,k] * Q[k,j] if S[i,j] != 0\nsave(x, \"x\")", true),
    ("E[i,j] = (S[i,j] - P[i,k] * Q[k,j]) if S[i,j] != 0\nG = E @ transpose(Q)\nsave(G, \"x\")", false),
    ("x = sum(S * S, 0) + sum(S, 1)\nsave(x, \"x\")", false),
    ("x = sum(abs(S))\nsave(x, \"x\")", false),
    ("x = S + 1\nsave(x, \"x\")", false),
    ("r = v\nfor t in 0..3 { r = S @ r }\nsave(r, \"x\")", false),
];

#[test]
fn and_mean_the_same() {
    let n = 30;
    let arrays: BTreeMap<String, Array> = [
        ("S", matrix(n, n, 1, 0.08)),
        ("U", matrix(n, n, 2, 0.05)),
        ("Z", matrix(n, n, 3, 0.01)),
        ("D", matrix(n, n, 4, 1.0)),
        ("P", matrix(n, 7, 5, 1.0)),
        ("Q", matrix(7, n, 6, 1.0)),
    ]
    .into_iter()
    .map(|(name, array)| (name.to_owned(), array))
    .chain([("v".to_owned(), Array::from_fn(DType::F64, &[n], |at| Scalar::F64(at[0] as f64 - 9.0)))])
    .collect();
    let tensors: BTreeMap<String, _> =
        arrays.iter().map(|(name, array)| (name.clone(), array.to_tensor().unwrap())).collect();
    let mut types = Inputs::new();
    let mut given = BTreeMap::new();
    for (name, tensor) in &tensors {
        types = types.with(name, tensor.dtype(), tensor.shape().clone());
        let input = match name.as_str() {
            "S" | "U" | "Z" => Input::Sparse(Arc::new(SparseTensor::from_dense(&tensor.as_ref()))),
            _ => Input::from(tensor.as_ref()),
        };
        given.insert(name.clone(), input);
    }
    let header: String = arrays.keys().map(|name| format!("{name} = load(\"{name}\")\n")).collect();
    for (text, is_sparse) in PROGRAMS {
        let program = check(&parse(&format!("{header}{text}")).unwrap(), &types, &Functions::new()).unwrap();
        let expected = interpret(&program, &arrays, Limits::default()).unwrap();
        let settings = [(None, None, 1), (Some(7), None, 1), (Some(4), None, 3), (Some(10), Some(30_000), 2)];
        for (block, memory_bytes, workers) in settings {
            let options = RunOptions { block, memory_bytes, workers: Some(workers), ..RunOptions::default() };
            let done =
                run(&program, &given, None, &options).unwrap_or_else(|error| panic!("{text}\n{error}"));
            let found = match &done.made["x"] {
                Made::Dense(window) => {
                    assert!(!is_sparse, "{text}");
                    window.as_tensor().unwrap().to_tensor()
                }
                Made::Sparse(sparse) => {
                    assert!(is_sparse, "{text}");
                    sparse.to_dense().unwrap()
                }
            };
            assert_eq!(Array::from_tensor(&found).as_ref(), expected.saved.get("x"), "{text} at {block:?}");
        }
    }
}

#[test]
fn a_matrix_that_would_never_fit_is_multiplied() {
    // A million by a million: eight terabytes if it were dense.
    let n = 1_000_000u64;
    let places: Vec<i64> = (0..3000).map(|at| at * 331 % n as i64).collect();
    let mut rows = places.clone();
    rows.sort_unstable();
    let coordinates: Vec<i64> = rows.iter().chain(&places).copied().collect();
    let values: Vec<f64> = (0..3000).map(f64::from).collect();
    let buffers =
        (lacus_tensor::Buffer::from_elements(&coordinates), lacus_tensor::Buffer::from_elements(&values));
    let shape = Shape::new([n, n]).unwrap();
    let tensor =
        SparseTensor::new(DType::F64, shape.clone(), buffers.0, buffers.1, lacus_tensor::Duplicates::Refuse);
    let given = [("S".to_owned(), Input::Sparse(Arc::new(tensor.unwrap())))].into();
    let text =
        "S = load(\"S\")\nr = ones([dim(S, 0)])\nx = S @ r\nsave(sum(x), \"x\"); save(sum(S * S), \"y\")";
    let types = Inputs::new().with("S", DType::F64, shape);
    let program = check(&parse(text).unwrap(), &types, &Functions::new()).unwrap();
    let options = RunOptions { memory_bytes: Some(200 << 20), ..RunOptions::default() };
    let done = run(&program, &given, None, &options).unwrap();
    let number = |name: &str| match &done.made[name] {
        Made::Dense(window) => window.scalar().unwrap().to_f64(),
        Made::Sparse(_) => panic!("a sparse number"),
    };
    assert_eq!(number("x"), values.iter().sum::<f64>());
    assert_eq!(number("y"), values.iter().map(|x| x * x).sum::<f64>());
}
