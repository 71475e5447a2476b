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
const PROGRAMS: [(&str, bool); 34] = [
    ("x = transpose(S)\nsave(x, \"x\")", true),
    ("x = S[3:27:2, ::-3]\nsave(x, \"x\")", true),
    ("T = transpose(S)\nx = T * S\nsave(x, \"x\")", true),
    ("T = transpose(S)[5:, :]\nx = T @ D + S[:25, 1:2] @ D[0:1, :]\nsave(x, \"x\")", false),
    ("x = S @ D\nsave(x, \"x\")", false),
    ("x = D @ S\nsave(x, \"x\")", false),
    ("x = transpose(S) @ D\nsave(x, \"x\")", false),
    ("x = D @ transpose(S)\nsave(x, \"x\")", false),
    ("x = 3 * (S @ v)\nsave(x, \"x\")", false),
    ("x[j] = S[i,j] * v[i]\nsave(x, \"x\")", false),
    ("x = S @ U\nsave(x, \"x\")", false),
    ("x = Z @ Z\nsave(x, \"x\")", true),
    ("x[i,j] = Z[k,i] * Z[k,j]\nsave(x, \"x\")", true),
    ("x[i,j] = Z[j,k] * Z[i,k]\nsave(x, \"x\")", true),
    ("x[i,j] = Z[k,i] * Z[j,k]\nsave(x, \"x\")", true),
    ("y = Z @ Z\nx = y @ Z\nsave(x, \"x\")", true),
    ("y = Z @ Z\nsave(y, \"y\")\nx = Z @ Z + S\nsave(x, \"x\")", true),
    ("x = 2 * S * D\nsave(x, \"x\")", true),
    ("x = S + 2 * U\nsave(x, \"x\")", true),
    ("x = where(S != 0, S - D, 0)\nsave(x, \"x\")", true),
    ("x[i,j] = P[i,k] * Q[k,j] if S[i,j] != 0\nsave(x, \"x\")", true),
    ("E[i,j] = (S[i,j] - P[i,k] * Q[k,j]) if S[i,j] != 0\nG = E @ transpose(Q)\nsave(G, \"x\")", false),
    ("x = sum(S * S, 0) + sum(S, 1)\nsave(x, \"x\")", false),
    ("x = sum(abs(S))\nsave(x, \"x\")", false),
    ("x = sum(where(S != 0, S - P @ Q, 0))\nsave(x, \"x\")", false),
    ("x[] = abs(S[i,j] - D[i,j]) if S[i,j] > 2\nsave(x, \"x\")", false),
    ("G = P @ Q\nx[j] = S[i,j] - G[i,j] if S[i,j] != 0\nsave(x, \"x\")", false),
    ("G = P @ Q\nx[j,i] = where(S[i,j] != 0, G[i,j], 0)\nsave(x, \"x\")", false),
    ("G = P @ Q\nx[] = S[i,j] if S[i,j] != 0 and G[i,j] > 1\nsave(x, \"x\")", false),
    ("G = P @ Q\nx[i,j] = where(where(S[i,j] != 0, D[i,j], 0) > 0.5, G[i,j], 0)\nsave(x, \"x\")", true),
    ("T = int64(D)\nx[] = 7 % T[i,j] if S[i,j] != 0 and D[i,j] != 0\nsave(x, \"x\")", false),
    (
        "T = int64(D)\nx[i,j] = where(S[i,j] > 2 and T[i,j] != 0, int64(S[i,j]) % T[i,j], 0)\nsave(x, \"x\")",
        true,
    ),
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

/// A sparse matrix with a number in each of these places, which are sorted.
fn sparse(dims: [u64; 2], places: impl Iterator<Item = [i64; 2]> + Clone) -> Input<'static> {
    let coordinates: Vec<i64> =
        places.clone().map(|[row, _]| row).chain(places.map(|[_, column]| column)).collect();
    let values: Vec<f64> = (0..coordinates.len() / 2).map(|at| (at % 97 + 1) as f64 / 7.0).collect();
    let (coordinates, values) =
        (lacus_tensor::Buffer::from_elements(&coordinates), lacus_tensor::Buffer::from_elements(&values));
    let shape = Shape::new(dims).unwrap();
    let tensor =
        SparseTensor::new(DType::F64, shape, coordinates, values, lacus_tensor::Duplicates::Refuse).unwrap();
    Input::Sparse(Arc::new(tensor))
}

/// Runs a program on sparse R, and dense arrays of ones.
fn run_on(
    text: &str,
    r: &Input<'static>,
    ones: &[(&str, Vec<u64>)],
    options: &RunOptions,
) -> lacus_execute::Finished {
    let tensors: Vec<_> = ones
        .iter()
        .map(|(name, dims)| {
            let dims: Vec<usize> = dims.iter().map(|&n| n as usize).collect();
            (*name, Array::from_fn(DType::F64, &dims, |_| Scalar::F64(1.0)).to_tensor().unwrap())
        })
        .collect();
    let mut given: BTreeMap<String, Input<'_>> =
        tensors.iter().map(|(name, tensor)| ((*name).to_owned(), Input::from(tensor.as_ref()))).collect();
    given.insert("R".to_owned(), r.clone());
    let mut types = Inputs::new();
    for (name, input) in &given {
        let (dtype, shape, _) = input.describe().unwrap();
        types = types.with(name, dtype, shape);
    }
    let program = check(&parse(text).unwrap(), &types, &Functions::new()).unwrap();
    run(&program, &given, None, options).unwrap()
}

#[test]
fn sums_are_taken_at_known_places_only() {
    let n = 100_000u64;
    let r = sparse([n, n], (0..5000i64).map(|at| [at * 20, at * 7919 % n as i64]));
    let ones = [("P", vec![n, 8]), ("Q", vec![8, n])];
    let load = "R = load(\"R\"); P = load(\"P\"); Q = load(\"Q\")\n";
    for text in [
        "E[i,j] = R[i,j] - P[i,k] * Q[k,j] if R[i,j] != 0\nsave(sum(E), \"x\")",
        "guess[i,j] = P[i,k] * Q[k,j] if R[i,j] != 0\nE = R - guess\nsave(sum(E), \"x\")",
        "save(sum(where(R != 0, R - P @ Q, 0)), \"x\")",
        "G = P @ Q\nloss[] = abs(R[i,j] - G[i,j]) if R[i,j] != 0\nsave(loss, \"x\")",
    ] {
        let done = run_on(&format!("{load}{text}"), &r, &ones, &RunOptions::default());
        // All of them would be 1.6e11.
        assert!(done.report.operations < 1e6, "{text}: {}", done.report.operations);
    }
}

#[test]
fn a_tile_that_is_full_is_multiplied_and_masked() {
    // A corner of which the diagonal alone is unknown, in a matrix that is nearly empty.
    let corner = (0..20i64).flat_map(|i| (0..20).filter(move |j| *j != i).map(move |j| [i, j]));
    let r = sparse([200, 200], corner.chain([[150, 3], [199, 199]]));
    let text = "R = load(\"R\"); P = load(\"P\"); Q = load(\"Q\")
        x[i,j] = P[i,k] * Q[k,j] if R[i,j] != 0\nsave(sum(x), \"sum\"); save(sum(x, 0), \"columns\")";
    for block in [20, 7, 200] {
        let options = RunOptions { block: Some(block), ..RunOptions::default() };
        let done = run_on(text, &r, &[("P", vec![200, 50]), ("Q", vec![50, 200])], &options);
        let Made::Dense(sum) = &done.made["sum"] else { panic!("a sparse number") };
        assert_eq!(sum.scalar().unwrap().to_f64(), 50.0 * (20.0 * 19.0 + 2.0), "tiles of {block}");
    }
}

#[test]
fn a_product_that_workers_share_has_the_same_bits() {
    let places = (0..2000i64)
        .flat_map(|i| (0..2000).filter(move |j| (i * 31 + j * 17) % 13 == i * i % 3).map(move |j| [i, j]));
    let r = sparse([2000, 2000], places);
    let text = "R = load(\"R\"); v = load(\"v\")\nx = R @ (0.1 * v)\nsave(x, \"x\")";
    let bits = |workers: usize| {
        // One tile, so that nothing else runs.
        let options = RunOptions { block: Some(2000), workers: Some(workers), ..RunOptions::default() };
        let done = run_on(text, &r, &[("v", vec![2000])], &options);
        let Made::Dense(window) = &done.made["x"] else { panic!("a sparse vector") };
        window.slice::<f64>().unwrap().iter().map(|x| x.to_bits()).collect::<Vec<_>>()
    };
    let expected = bits(1);
    for workers in [2, 3, 8] {
        assert_eq!(bits(workers), expected, "{workers} workers");
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

#[test]
fn rows_without_end_and_columns_without_end_are_cut() {
    // Where rows start would be gigabytes; there are more columns than 32 bits count.
    let tall = sparse([300_000_000, 4], [[3, 1], [170_000_000, 0], [299_999_999, 3]].into_iter());
    let wide = sparse([4, 1 << 34], [[0, 5], [2, 1 << 33], [3, (1 << 34) - 1]].into_iter());
    let options = RunOptions { memory_bytes: Some(500 << 20), ..RunOptions::default() };
    for (r, axis) in [(tall, 0), (wide, 1)] {
        let text = format!("R = load(\"R\"); save(sum(R * R, {axis}), \"x\")");
        let done = run_on(&text, &r, &[], &options);
        let Made::Dense(sums) = &done.made["x"] else { panic!("a sparse vector") };
        let total: f64 = sums.slice::<f64>().unwrap().iter().sum();
        assert_eq!(total, [1.0, 2.0, 3.0f64].map(|x| (x / 7.0) * (x / 7.0)).iter().sum::<f64>());
        assert!(done.report.peak_bytes <= 500 << 20, "{}", done.report.peak_bytes);
    }
}
