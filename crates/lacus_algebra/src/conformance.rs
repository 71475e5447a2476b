//! Programs of every kind, and small inputs for them: what everybody who runs programs is compared on.

use crate::array::Array;
use crate::expr::CheckedProgram;
use crate::function::{Function, Functions};
use crate::infer::{Inputs, check};
use crate::syntax::parser::parse;
use lacus_tensor::{DType, Scalar, Shape};
use std::collections::BTreeMap;

/// Programs of every kind of statement. They save what they compute; all numbers are whole, so that sums are exact.
pub const PROGRAMS: [&str; 59] = [
    "C = A @ B\nsave(C, \"C\")",
    "C[i,j] = A[i,k] * B[k,j] + A[i,j]\nsave(C, \"C\")",
    "x[i] = 2 * A[i,j] * B[j,k] * v[k] + 3\nsave(x, \"x\")",
    "D[i,j] min= A[i,k] + B[k,j]\nsave(D, \"D\")",
    "D[i,j] max= min(A[i,k], B[k,j])\nsave(D, \"D\")",
    "x or= A[i,j] > 5\ny and= A[i,j] < 90\nsave(x, \"x\"); save(y, \"y\")",
    "x[] hypot= A[i,j]\nsave(whole(x), \"x\")",
    "x[j] *= A[i,j] if i < 3\nsave(x, \"x\")",
    "C = A + v\nD = transpose(C) - 1\nsave(D, \"D\")",
    "s = sum(A)\nC = A * s\nsave(C, \"C\"); save(s, \"s\")",
    "C = sum(A, 0) + max(B, axis=1)\nsave(C, \"C\")",
    "x[i] = v[i + 1] * 2\nsave(x, \"x\")",
    "x = v[1:] - v[:-1]\nsave(x, \"x\")",
    "x = A[::2, ::-1]\nsave(x, \"x\")",
    "x[i] = v[i] + where(i > 0, v[i - 1], 50)\nsave(x, \"x\")",
    "x[i] = v[i - 1] + v[i] + v[i + 1] if i > 0 and i < 6\nsave(x, \"x\")",
    "t[i] = where(i > 0, A[i-1,j] * v[j], 7)\nsave(t, \"t\")",
    "d[i] = A[i,i] + B[i,i]\nsave(d, \"d\")",
    "x[] = A[i,j] * B[j,i] if i == j\nsave(x, \"x\")",
    "U[i,j] = A[i,j] if j >= i\nsave(U, \"U\")",
    "x[i] = A[i,j] * v[j] if j > i\nsave(x, \"x\")",
    "x[i] = v[i + j] * w[j]\nsave(x, \"x\")",
    "x[i,j] = A[2, i] * v[j] * i\nsave(x, \"x\")",
    "x = where(A > 4, A, 0) * M\nsave(x, \"x\")",
    "x = zeros([7]) + full([7], 3) + ones([7])\nsave(x, \"x\")",
    "r = random([7, 7], 3)\nx = A * (r > 0.5)\nsave(x, \"x\")",
    "C = einsum(\"ij,kj->ik\", A, B)\nd = einsum(\"ii\", C)\nsave(d, \"d\"); save(C, \"C\")",
    "def f(x, y) { z = x @ y\n return z + x }\nC = f(A, f(B, A))\nsave(C, \"C\")",
    "x = v\nfor t in 0..3 { x = A @ x - v }\nsave(x, \"x\")",
    "x = zeros([7])\nfor t in 0..7 { x[i] = x[i] + A[i, t] * t }\nsave(x, \"x\")",
    "C = A\nfor t in 0..7 { C[i,j] = min(C[i,j], C[i,t] + C[t,j]) }\nsave(C, \"C\")",
    "x = 0\nfor t in 1..4 { for u in t..4 { x = x + t * u * sum(v[0:3]) } }\nsave(x, \"x\")",
    "k = 0\nx = v\nrepeat { k = k + 1\n x = x + v } until k >= 4\nsave(x, \"x\"); save(k, \"k\")",
    "x = 100\ny = v\nwhile x > 3 { x = x - sum(v)\n y = y + x }\nsave(x, \"x\"); save(y, \"y\")",
    "a = v\nb = v * 2\nfor t in 0..3 { c = a\n a = b\n b = c + 1 }\nsave(a, \"a\"); save(b, \"b\")",
    "x = v\nfor t in 0..2 { save(x, \"x\")\n y = x\n for u in 0..2 { y = y + A[u] }\n x = y }\nsave(x, \"z\")",
    "x = twice(v) + 1\ny[i] = A[i,j] * twice(v[j])\nsave(x + y, \"x\")",
    "for t in 0..3 { m = 2 * t\n x = v[m] }\nsave(x, \"x\")",
    "x = zeros([0])\ny = sum(x)\nz[i] = v[i] * y\nsave(z, \"z\"); save(x, \"x\")",
    "x = v[0:2]\nfor t in 0..3 { x = 2 * x + v[2*t : 2*t + 2] + A[t+4 : t : -2, t] }\nsave(x, \"x\")",
    "t = 2 * A\nu = t * t - B\nsave(sum(u, 0), \"x\")",
    "e[i,j,k] = A[i,k] * B[k,j]\nx[i,j] = e[i,j,k]\nsave(x, \"x\")",
    "t = A % 5\nx = where(M, t - 1, v)\nsave(x, \"x\")",
    "t = A + B\nd[i] = t[i,j] - v[i]\nu = d > 3\nsave(any(u), \"x\"); save(sum(where(u, d, 0)), \"y\")",
    "x = v\nfor t in 0..3 { e = A * x\n y[i] = e[i,j]\n z = y % 7\n x = z - t }\nsave(x, \"x\")",
    "C = A @ B\nD = A @ B + transpose(C)\nE = C * D @ A\nsave(E, \"E\"); save(sum(E), \"s\")",
    "C[i in 0..10, j] = where(i < 7, A[i,j], B[i - 7, j])\nsave(C, \"C\")",
    "t[i in 0..14] = where(i < 7, v[i], 2 * v[i - 7])\nx = t[3:11] + sum(t)\nsave(x, \"x\"); save(max(t), \"y\")",
    "r[i in 0..9] = 2 * i - 3\nE[i in 0..5, j in 0..4] = where(i == j, 1, 0)\nsave(r, \"r\"); save(E, \"E\")",
    "x[i in 0..3, j in 0..2] = v[2*i + j + 1]\nsave(x, \"x\")",
    "P[i in 0..9, j in 0..8] = A[i - 1, j - 1] if i >= 1 and i < 8 and j >= 1\nsave(sum(P, 0), \"s\"); save(P, \"P\")",
    "C[i in 0..14, j] = where(i < 7, A[i,j], B[i - 7, j])\nsave(C @ v, \"x\"); save(transpose(C) @ C, \"y\")",
    "x[i in 0..3] = v[i]\ny[i in 0..0] = v[i]\nz[i, k in 0..4] = v[i] * k\nsave(x, \"x\"); save(sum(y), \"y\"); save(z, \"z\")",
    "d[i in 0..5] = A[i + 2, i]\nD[i in 0..6, j in 0..6] = where(i == j + 1 and i < 6, d[j], 0)\nsave(D, \"D\")",
    "n = dim(A, 0)\nx[i in 0..n // 2] = A[2*i, j] * v[j]\nfor t in 0..3 { x[i in 0..3] = x[i] + t * i }\nsave(x, \"x\")",
    "e = zeros([0])\ny[i in 0..3] = where(i < 0, e[i], 7)\nz[i in 0..3] = e[i-1] if i >= 1 and i < 1\nsave(y, \"y\"); save(z, \"z\")",
    "y[i in 0..60] = where(i < 7, A[i, i], 1)\nz[i in 0..60] = where(i < 1, v[1000000000000 * i], 2)\nsave(y, \"y\"); save(z, \"z\")",
    "y[i in 0..30, j in 0..30] = where(i == j and i < 3, A[2*i, 6 - 3*j], v[6 % 4])\nsave(sum(y, 0), \"y\")",
    "x = v // 3 + v // -2 + floor(A[0] / 2) * ceil(v / 4) + round(A[1] / 8)\nsave(x, \"x\")",
];

/// Types and values of the inputs.
///
/// # Panics
/// Never: the shapes are fine.
pub fn inputs() -> (Inputs, BTreeMap<String, Array>) {
    let number = |at: &[usize], seed: usize| {
        let place = at.iter().fold(seed, |place, at| place * 11 + at);
        Scalar::I64((place * 7919 % 23) as i64 - 9)
    };
    let mut types = Inputs::new();
    let mut values = BTreeMap::new();
    let all: [(&str, DType, &[usize]); 6] = [
        ("A", DType::I64, &[7, 7]),
        ("B", DType::I64, &[7, 7]),
        ("v", DType::I64, &[7]),
        ("w", DType::F64, &[3]),
        ("M", DType::Bool, &[7, 7]),
        ("F", DType::F32, &[5]),
    ];
    for (seed, (name, dtype, dims)) in all.into_iter().enumerate() {
        let shape: Vec<u64> = dims.iter().map(|&n| n as u64).collect();
        types = types.with(name, dtype, Shape::new(shape).unwrap());
        values.insert(name.to_owned(), Array::from_fn(dtype, dims, |at| number(at, seed + 1)));
    }
    (types, values)
}

/// A program, with what it needs loaded.
///
/// # Panics
/// If it is none.
pub fn checked(text: &str) -> CheckedProgram {
    let functions = Functions::new()
        .with(Function::new("hypot", 2, |x| x[0].hypot(x[1])).associative(0.0))
        .with(Function::new("whole", 1, |x| (x[0] + 1e-6).floor()))
        .with(Function::new("twice", 1, |x| 2.0 * x[0]));
    let header: String =
        ["A", "B", "v", "w", "M"].map(|name| format!("{name} = load(\"{name}\")\n")).concat();
    let program = parse(&format!("{header}{text}")).unwrap_or_else(|error| panic!("{text}\n{error}"));
    check(&program, &inputs().0, &functions).unwrap_or_else(|error| panic!("{text}\n{error}"))
}
