//! What is told of a run before it is one.

use crate::support::random;
use lacus_algebra::{Functions, Inputs, check, parse};
use lacus_execute::{Input, RunOptions, explain_run};
use lacus_tensor::{SparseTensor, Tensor};
use lacus_threads::Pool;
use std::collections::BTreeMap;
use std::sync::Arc;

fn explained(text: &str, given: &[(&str, Input<'_>)], block: Option<u64>) -> String {
    let mut types = Inputs::new();
    let mut inputs = BTreeMap::new();
    for (name, input) in given {
        let (dtype, shape, _) = input.describe().unwrap();
        types = types.with(name, dtype, shape);
        inputs.insert((*name).to_owned(), input.clone());
    }
    let program = check(&parse(text).unwrap(), &types, &Functions::new()).unwrap();
    let options = RunOptions {
        block,
        memory_bytes: Some(1 << 20),
        workers: Some(2),
        pool: Some(Pool::new(2)),
        ..RunOptions::default()
    };
    explain_run(&program, &inputs, &options).unwrap()
}

#[test]
fn with_tiles_loops_and_what_is_done_in_place() {
    let (x, w): (Tensor, Tensor) = (random(&[40, 30], 1), random(&[30, 20], 2));
    let text = "x = load(\"x\"); w = load(\"w\")
        for t in 0..3 {
            h = relu(x @ w + 1)
            w = w - 0.5 * transpose(x) @ h
        }
        save(w, \"w\")";
    let found = explained(text, &[("x", x.as_ref().into()), ("w", w.as_ref().into())], Some(16));
    let expected = "\
within 1.0 MiB, of which results take 4.7 KiB; 2 workers, sums split among 8 lanes

loads
  x float64 [40, 30], of the caller: 6 tiles of [16, 16]
  w float64 [30, 20], of the caller: 4 tiles of [16, 16]

steps
  _6[i,j] = 0.5 * x[j,i]
    formula: 6 tiles of [16, 16]
  counted rounds, which carry w
    _4[i,j] = sum[k] x[i,k] * w[k,j]
      product: 6 tiles of [16, 16]
    h[i,j] = relu(_4[i,j] + 1.0)
      in place of _4, part by part as that is made: 6 tiles of [16, 16]
    _7[i,j] = sum[k] _6[i,k] * h[k,j]
      product: 4 tiles of [16, 16]
    w[i,j] = w[i,j] - _7[i,j]
      in place of _7, part by part as that is made: 4 tiles of [16, 16]
  save \"w\": w float64 [30, 20]
";
    assert_eq!(found, expected);
}

#[test]
fn with_what_stays_sparse() {
    let mut dense = vec![0.0; 40 * 40];
    (0..40).for_each(|at| dense[at * 40 + at * 7 % 40] = 1.0);
    let dense = crate::support::tensor(
        lacus_tensor::DType::F64,
        &[40, 40],
        lacus_tensor::Buffer::from_elements(&dense),
    );
    let r = SparseTensor::from_dense(&dense.as_ref());
    let (p, q) = (random(&[40, 3], 1), random(&[3, 40], 2));
    let text = "R = load(\"R\"); P = load(\"P\"); Q = load(\"Q\")
        E[i,j] = R[i,j] - P[i,k] * Q[k,j] if R[i,j] != 0
        save(E, \"E\"); save(R @ P, \"RP\"); save(sum(R * 2, 1), \"s\")";
    let given = [("R", Input::Sparse(Arc::new(r))), ("P", p.as_ref().into()), ("Q", q.as_ref().into())];
    let found = explained(text, &given, None);
    let expected = "\
within 1.0 MiB, of which results take 1.2 KiB; 2 workers, sums split among 8 lanes

loads
  R float64 [40, 40], 2.5 % of it not zero, of the caller: one tile
  P float64 [40, 3], of the caller: one tile
  Q float64 [3, 40], of the caller: one tile

steps
  r.1[i,j] = sum[k] P[i,k] * Q[k,j] if R[i,j] != 0.0
    product at the nonzeros only: one tile
  E[i,j] = where(R[i,j] != 0.0, R[i,j] - r.1[i,j], 0.0)
    formula at the nonzeros: one tile
  save \"E\": E float64 [40, 40], 7.5 % of it not zero
  _4[i,j] = sum[k] R[i,k] * P[k,j]
    product with sparse factors: one tile
  save \"RP\": _4 float64 [40, 3]
  _5[i] = sum[j] R[i,j] * 2.0
    sum of a formula at the nonzeros: one tile
  save \"s\": _5 float64 [40]
";
    assert_eq!(found, expected);
}
