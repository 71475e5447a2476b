use super::*;
use crate::function::{Function, Functions};
use crate::infer::{Inputs, check};
use crate::syntax::parser::parse;
use lacus_tensor::Shape;

pub(crate) fn array(dtype: DType, dims: &[usize], items: &[f64]) -> Array {
    Array::new(dtype, dims.to_vec(), items.iter().map(|&item| Scalar::F64(item)).collect()).unwrap()
}

fn run(text: &str, inputs: &[(&str, Array)]) -> Result<Outcome, AlgebraError> {
    let functions = Functions::new()
        .with(Function::new("hypot", 2, |x| x[0].hypot(x[1])).associative(0.0))
        .with(Function::new("twice", 1, |x| 2.0 * x[0]));
    let mut types = Inputs::new();
    let mut values = BTreeMap::new();
    for (name, value) in inputs {
        let shape = Shape::new(value.dims().iter().map(|&n| n as u64).collect::<Vec<_>>()).unwrap();
        types = types.with(name, value.dtype(), shape);
        values.insert((*name).to_owned(), value.clone());
    }
    let header: String = inputs.iter().map(|(name, _)| format!("{name} = load(\"{name}\")\n")).collect();
    let program = check(&parse(&format!("{header}{text}"))?, &types, &functions)?;
    let outcome =
        interpret(&program, &values, Limits { rounds: 10_000, elements: 10_000, operations: 10_000_000 })?;
    for (name, value) in &outcome.variables {
        let slot = program.find(name).unwrap().1;
        let dims: Vec<u64> = value.dims().iter().map(|&n| n as u64).collect();
        assert_eq!(
            (value.dtype(), dims),
            (slot.dtype, slot.dims.clone()),
            "{name} is what it was inferred to be"
        );
    }
    Ok(outcome)
}

/// Runs `text` on a 2×3 matrix `A`, a 3×2 `B`, vectors `v` (3) and `w` (2), an f32 `F` (2), an i64 `N` (3) and a
/// bool `M` (3), and compares its `x`.
fn check_x(text: &str, dtype: DType, dims: &[usize], expected: &[f64]) {
    let inputs = [
        ("A", array(DType::F64, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
        ("B", array(DType::F64, &[3, 2], &[1.0, 0.0, 0.0, 1.0, 2.0, -1.0])),
        ("v", array(DType::F64, &[3], &[1.0, -2.0, 3.0])),
        ("w", array(DType::F64, &[2], &[10.0, 20.0])),
        ("F", array(DType::F32, &[2], &[0.5, 1.5])),
        ("N", array(DType::I64, &[3], &[7.0, -8.0, 9.0])),
        ("M", array(DType::Bool, &[3], &[1.0, 0.0, 1.0])),
    ];
    let outcome = run(text, &inputs).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let found = &outcome.variables["x"];
    let values: Vec<f64> = found.items().iter().map(|item| item.to_f64()).collect();
    assert_eq!((found.dtype(), found.dims()), (dtype, dims), "{text}");
    let close = values.iter().zip(expected).all(|(a, b)| a == b || (a - b).abs() < 1e-9);
    assert!(close && values.len() == expected.len(), "{text}: {values:?}, expected {expected:?}");
}

const F64: DType = DType::F64;

#[test]
fn indices_on_the_right_are_summed_within_their_term() {
    check_x("x[i,j] = A[i,k] * B[k,j]", F64, &[2, 2], &[7.0, -1.0, 16.0, -1.0]);
    check_x("b = 100\nx[i] = 2 * A[i,j] * v[j] + b", F64, &[2], &[112.0, 124.0]);
    check_x("x[i] = 2 * (A[i,j] * v[j] + 100)", F64, &[2], &[212.0, 224.0]);
    check_x("x[i] = A[i,j] * (v[j] + N[j])", F64, &[2], &[8.0 - 20.0 + 36.0, 32.0 - 50.0 + 72.0]);
    check_x("x[i] = w[i] - A[i,j]", F64, &[2], &[4.0, 5.0]);
    check_x("x[] = abs(v[i])", F64, &[], &[6.0]);
    check_x("x[] = A[i,j]", F64, &[], &[21.0]);
    check_x("x[i] = A[i,j] * v[j] * w[k]", F64, &[2], &[180.0, 360.0]);
    check_x("x[i] = -(A[i,j] + 1) / 2", F64, &[2], &[-3.5, -8.0]);
    check_x("x[] = v[i] > 0", DType::I64, &[], &[2.0]);
    check_x("x[j,i] = A[i,j]", F64, &[3, 2], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    check_x("x[i,j] = w[i] * v[j]", F64, &[2, 3], &[10.0, -20.0, 30.0, 20.0, -40.0, 60.0]);
    check_x("x[i] = v[i] * i", F64, &[3], &[0.0, -2.0, 6.0]);
}

#[test]
fn other_operations_reduce_the_whole_right_side() {
    check_x("x[i] min= A[i,j] + v[j]", F64, &[2], &[0.0, 3.0]);
    check_x("x max= A[i,j]", F64, &[], &[6.0]);
    check_x("x[j] *= A[i,j]", F64, &[3], &[4.0, 10.0, 18.0]);
    check_x("x or= v[i] < 0", DType::Bool, &[], &[1.0]);
    check_x("x and= v[i] < 0", DType::Bool, &[], &[0.0]);
    check_x("x[] hypot= A[i,j]", F64, &[], &[91f64.sqrt()]);
    check_x("D = full([2, 2], 5.0)\nx[i,j] min= D[i,k] + D[k,j]", F64, &[2, 2], &[10.0; 4]);
    check_x("x[i] min= A[i,j] if j > 5", F64, &[2], &[f64::INFINITY; 2]);
    check_x("x[] min= N[i] if N[i] > 0", DType::I64, &[], &[7.0]);
}

#[test]
fn positions_may_be_sums_constants_and_ranges() {
    check_x("x[i] = v[i + 1] * 2", F64, &[2], &[-4.0, 6.0]);
    check_x("x = v[1:] - v[:-1]", F64, &[2], &[-3.0, 5.0]);
    check_x("x[i] = v[2 * i]", F64, &[2], &[1.0, 3.0]);
    check_x("x[i] = v[2 - i]", F64, &[3], &[3.0, -2.0, 1.0]);
    check_x("x[i] = v[i + j] * w[j]", F64, &[2], &[-30.0, 40.0]);
    check_x("x[j] = A[1, j]", F64, &[3], &[4.0, 5.0, 6.0]);
    check_x("x[j] = A[-1, j]", F64, &[3], &[4.0, 5.0, 6.0]);
    check_x("x = A[1, 0:2]", F64, &[2], &[4.0, 5.0]);
    check_x("x = A[:, ::-2]", F64, &[2, 2], &[3.0, 1.0, 6.0, 4.0]);
    check_x("x = A[1]", F64, &[3], &[4.0, 5.0, 6.0]);
    check_x("x = v[5:]", F64, &[0], &[]);
    check_x("x[i] = A[:, 1:][i, j]", F64, &[2], &[5.0, 11.0]);
    check_x("n = dim(A, 1)\nx = v[n - 1]", F64, &[], &[3.0]);
    check_x("x = zeros([2])\nfor t in 0..3 { x[i] = x[i] + A[i, t] }", F64, &[2], &[6.0, 15.0]);
}

#[test]
fn conditions_choose_what_counts() {
    check_x("x[i,j] = A[i,j] if j >= i", F64, &[2, 3], &[1.0, 2.0, 3.0, 0.0, 5.0, 6.0]);
    check_x("x[i] = A[i,j] if j > i", F64, &[2], &[5.0, 6.0]);
    check_x("x[] = B[i,j] * A[j,i] if i == j", F64, &[], &[1.0 + 5.0]);
    check_x("x[i] = v[i - 1] if i > 0", F64, &[4], &[0.0, 1.0, -2.0, 3.0]);
    check_x("x[i] = v[i] + v[i - 1] + v[i + 1] if i > 0 and i < 2", F64, &[3], &[0.0, 2.0, 0.0]);
    check_x("x[i] = v[i] + where(i > 0, v[i - 1], 50)", F64, &[3], &[51.0, -1.0, 1.0]);
    check_x("x[i] = v[i - j] * v[j] if j <= i and M[j]", F64, &[3], &[1.0, -2.0, 6.0]);
    check_x("x = where(v > 0, v, 0)", F64, &[3], &[1.0, 0.0, 3.0]);
}

#[test]
fn whole_arrays_compute_and_broadcast_as_numpy_does() {
    check_x("x = A @ B", F64, &[2, 2], &[7.0, -1.0, 16.0, -1.0]);
    check_x("x = A @ v", F64, &[2], &[6.0, 12.0]);
    check_x("x = w @ A", F64, &[3], &[90.0, 120.0, 150.0]);
    check_x("x = v @ v", F64, &[], &[14.0]);
    check_x("x = A + v", F64, &[2, 3], &[2.0, 0.0, 6.0, 5.0, 3.0, 9.0]);
    check_x("x = A[:, 0:1] + v", F64, &[2, 3], &[2.0, -1.0, 4.0, 5.0, 2.0, 7.0]);
    check_x("x = sum(A)", F64, &[], &[21.0]);
    check_x("x = sum(A, 0)", F64, &[3], &[5.0, 7.0, 9.0]);
    check_x("x = max(A, axis=-1)", F64, &[2], &[3.0, 6.0]);
    check_x("x = sum(A, [1, 0])", F64, &[], &[21.0]);
    check_x("x = prod(N)", DType::I64, &[], &[-504.0]);
    check_x("x = min(v)", F64, &[], &[-2.0]);
    check_x("x = min(v, 0, N)", F64, &[3], &[0.0, -8.0, 0.0]);
    check_x("x = any(v < 0) and all(M)", DType::Bool, &[], &[0.0]);
    check_x("x = transpose(A)", F64, &[3, 2], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    check_x("x = transpose(A, [1, 0])[2]", F64, &[2], &[3.0, 6.0]);
    check_x("x = einsum(\"ik,kj->ij\", A, B)", F64, &[2, 2], &[7.0, -1.0, 16.0, -1.0]);
    check_x("x = einsum(\"ii\", A @ B)", F64, &[], &[6.0]);
    check_x("x = einsum(\"ij->ji\", A)[0]", F64, &[2], &[1.0, 4.0]);
    check_x("x = einsum(\"i,j\", w, v)", F64, &[2, 3], &[10.0, -20.0, 30.0, 20.0, -40.0, 60.0]);
    check_x("x = full([2], 7)", DType::I64, &[2], &[7.0, 7.0]);
    check_x("x = sum(random([100], 3)) > 30 and sum(random([100], 3)) < 70", DType::Bool, &[], &[1.0]);
    check_x("x = random([4], 1)[2] == random([9], 1)[2]", DType::Bool, &[], &[1.0]);
    check_x("x = pow(v, 2) + twice(w[0])", F64, &[3], &[21.0, 24.0, 29.0]);
    check_x("x = sigmoid(0) + relu(-3) + sign(-2.5) + sqrt(4) + tanh(0)", F64, &[], &[1.5]);
    check_x("x = -2 ** 2 + 7 % 4", F64, &[], &[-1.0]);
}

#[test]
fn types_promote_and_literals_give_way() {
    check_x("x = F * 2", DType::F32, &[2], &[1.0, 3.0]);
    check_x("x = F * 0.5 + 1 / 4", DType::F32, &[2], &[0.5, 1.0]);
    check_x("c = 2.5\nx = F + c", DType::F32, &[2], &[3.0, 4.0]);
    check_x("x = N + 1", DType::I64, &[3], &[8.0, -7.0, 10.0]);
    check_x("x = N + 0.5", F64, &[3], &[7.5, -7.5, 9.5]);
    check_x("x = N / 2", F64, &[3], &[3.5, -4.0, 4.5]);
    check_x("x = M + M", DType::I64, &[3], &[2.0, 0.0, 2.0]);
    check_x("x = sum(M)", DType::I64, &[], &[2.0]);
    check_x("x = N[0:2] + F", F64, &[2], &[7.5, -6.5]);
    check_x("x = abs(N)", DType::I64, &[3], &[7.0, 8.0, 9.0]);
    check_x("x = exp(M)", F64, &[3], &[1f64.exp(), 1.0, 1f64.exp()]);
}

#[test]
fn loops_and_functions_run() {
    check_x("x = 1\nfor t in 0..5 { x = x * 2 }", DType::I64, &[], &[32.0]);
    check_x("x = 0\nfor t in 1..4 { for u in t..4 { x = x + t * u } }", DType::I64, &[], &[25.0]);
    check_x("x = 100.0\nwhile x > 1 { x = x / 2 }", F64, &[], &[0.78125]);
    check_x("x = 0\nwhile x < 0 { x = x + 1 }", DType::I64, &[], &[0.0]);
    check_x("k = 0\nrepeat { k = k + 1\n x = k * k } until x > 50", DType::I64, &[], &[64.0]);
    check_x("def f(a, b) = a * b + 1\nx = f(v, 2)", F64, &[3], &[3.0, -3.0, 7.0]);
    check_x("def f(a) = a * a\nx[i] = f(A[i,j]) * v[j]", F64, &[2], &[20.0, 74.0]);
    check_x(
        "def f(x) {\n x = x + 1\n y = x @ x\n return y\n}\nx = v\ny = f(x)\nx = x * y",
        F64,
        &[3],
        &[21.0, -42.0, 63.0],
    );
    check_x("x = load(\"w\")", F64, &[2], &[10.0, 20.0]);
    check_x("x = load(\"w\")\ny = x\nx = x + 1\nx = x + y", F64, &[2], &[21.0, 41.0]);
    check_x("x = v\nfor t in 0..2 { x = x + v }", F64, &[3], &[3.0, -6.0, 9.0]);
    check_x("x = 0.0\nfor t in 0..3 { m = t + 1\n x = x + sum(v[0:3]) * m }", F64, &[], &[12.0]);
    check_x("def g(t) = v0(t)\ndef v0(t) = t * 2\nx = g(4)", DType::I64, &[], &[8.0]);
}

#[test]
fn the_page_rank_of_the_issue_runs() {
    // Columns sum to 1: page 0 links to 1 and 2, page 1 to 2, page 2 to 0.
    let g = array(DType::F64, &[3, 3], &[0.0, 0.0, 1.0, 0.5, 0.0, 0.0, 0.5, 1.0, 0.0]);
    for text in [
        "n = dim(G, 0)\nr = full([n], 1/n)\nrepeat {\n  s[i] = 0.85 * G[i,j] * r[j] + 0.15/n\n  \
         d = sum(abs(s - r))\n  r = s\n} until d < 1e-8\nsave(r, \"rank\")",
        "n = dim(G, 0)\nr = full([n], 1/n)\nrepeat { s[i] = 0.85 * G[i,j] * r[j] + 0.15/n   d = sum(abs(s - r))   \
         r = s } until d < 1e-8\nsave(r, \"rank\")",
    ] {
        let outcome = run(text, &[("G", g.clone())]).unwrap_or_else(|error| panic!("{error}"));
        let rank: Vec<f64> = outcome.saved["rank"].items().iter().map(|item| item.to_f64()).collect();
        assert!((rank.iter().sum::<f64>() - 1.0).abs() < 1e-7, "{rank:?}");
        for i in 0..3 {
            let linked: f64 = (0..3).map(|j| g.at(&[i, j]).to_f64() * rank[j]).sum();
            assert!((rank[i] - 0.85 * linked - 0.05).abs() < 1e-7, "{rank:?}");
        }
    }
}

#[test]
fn limits_are_kept() {
    let check = |text: &str, expected: &str| {
        let error = run(text, &[]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("x = 1.0\nwhile x > 0 { x = x + 1 }", "more than 10000 rounds of loops\n --> line 2, column 1");
    check("x = sum(zeros([100000, 100000]))", "20000000000 operations for one array, more than 10000000");
    check("x = zeros([1000, 1000])", "1000000 elements in one array, more than 10000");
}

#[test]
fn types_are_converted_when_asked() {
    check_x("x = float32(v) + F[0]", DType::F32, &[3], &[1.5, -1.5, 3.5]);
    check_x("x = int64(v / 2)", DType::I64, &[3], &[0.0, -1.0, 1.0]);
    check_x("x = bool(v - 1)", DType::Bool, &[3], &[0.0, 1.0, 1.0]);
    check_x("x[i] = float64(M[i]) * N[i]", F64, &[3], &[7.0, 0.0, 9.0]);
    check_x("x = F + float64(1)", F64, &[2], &[1.5, 2.5]);
    let error = run("def float32(x) = x", &[]).unwrap_err().to_string();
    assert!(error.contains("float32"), "{error}");
}

#[test]
fn none_adds_an_axis() {
    check_x("x = w[:, None] + v[None]", F64, &[2, 3], &[11.0, 8.0, 13.0, 21.0, 18.0, 23.0]);
    check_x("x = A[1, None, ::2]", F64, &[1, 2], &[4.0, 6.0]);
    check_x("x = sum(A, axis=1)[:, None] @ v[None, 0:2]", F64, &[2, 2], &[6.0, -12.0, 15.0, -30.0]);
    check_x("x = sum(v)[None]", F64, &[1], &[2.0]);
}

#[test]
fn the_beginning_of_an_array_is_not_the_array() {
    check_x("x = v[0:2]", F64, &[2], &[1.0, -2.0]);
    check_x("x = A[:, :1]", F64, &[2, 1], &[1.0, 4.0]);
    check_x("x = sum(v[:2])", F64, &[], &[-1.0]);
    check_x("x[i] = v[0:2][i]", F64, &[2], &[1.0, -2.0]);
    check_x("def f(y) = sum(y)\nx = f(v[:2])", F64, &[], &[-1.0]);
}
