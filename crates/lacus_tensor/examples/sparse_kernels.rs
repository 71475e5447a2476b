//! How fast are the sparse kernels on one core? `cargo run --release -p lacus_tensor --example sparse_kernels`
//!
//! Prints the best of a few runs of each.
#![expect(clippy::print_stdout, reason = "a program for people")]

use lacus_tensor::kernels::csr::{Csr, Pattern, dense_multiply, sampled};
use lacus_tensor::kernels::matrix::{MatrixMut, MatrixRef};
use lacus_tensor::{BinaryOp, TensorError};
use std::time::Instant;

fn main() -> Result<(), TensorError> {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let is_wanted = |name: &str| wanted.is_empty() || wanted == name;
    if is_wanted("sparse") {
        sparse_times_sparse()?;
    }
    if is_wanted("vector") {
        graph_times_vector()?;
    }
    if is_wanted("sampled") {
        sampled_product()?;
    }
    if is_wanted("dense") {
        sparse_times_dense()?;
    }
    Ok(())
}

/// 1 % × 1 % at 10,000², the result in dense panels of 1,000 rows.
fn sparse_times_sparse() -> Result<(), TensorError> {
    let n = 10_000;
    let mut random = Random(1);
    let (a, b) = (random.matrix(n, n, 100)?, random.matrix(n, n, 100)?);
    let panels: Vec<Csr<f64>> = (0..10).map(|i| a.slice(i * 1000..(i + 1) * 1000, 0..n)).collect();
    let mut c = vec![0.0; 1000 * n];
    let seconds = best(5, || {
        for panel in &panels {
            let c = MatrixMut::from_rows(&mut c, 1000, n).expect("memory for a panel");
            panel.multiply_into(1.0, &b, c, true);
        }
    });
    println!("sparse × sparse, 10,000² at 1 %, into dense panels: {:.0} ms", seconds * 1e3);
    let mut nnz = 0;
    let seconds = best(2, || nnz = panels.iter().map(|panel| panel.multiply(&b).nnz()).sum());
    println!("sparse × sparse, the same, into sparse panels: {:.0} ms, {nnz} stored", seconds * 1e3);
    let seconds = best(3, || assert_eq!(a.transpose().nnz(), a.nnz()));
    println!("transpose, 10,000² at 1 %: {:.1} ms", seconds * 1e3);
    let seconds = best(3, || assert!(a.add(&b).nnz() > a.nnz()));
    println!("sum of two, 10,000² at 1 %: {:.1} ms", seconds * 1e3);
    let union = Pattern::union(&[a.pattern(), b.pattern()]);
    let seconds = best(3, || assert_eq!(a.gather(&union).len(), union.nnz()));
    println!("gather at the union of two, 10,000² at 1 %: {:.1} ms", seconds * 1e3);
    let seconds = best(3, || {
        panels[0].to_dense(MatrixMut::from_rows(&mut c, 1000, n).expect("memory for a panel"));
    });
    println!("to dense, 1,000 × 10,000 at 1 %: {:.1} ms", seconds * 1e3);
    let dense = MatrixRef::from_rows(&c, 1000, n)?;
    let seconds = best(3, || assert_eq!(Csr::from_dense(dense).as_ref(), Ok(&panels[0])));
    println!("from dense, 1,000 × 10,000 at 1 %: {:.1} ms", seconds * 1e3);
    Ok(())
}

/// A graph of a million nodes and 16 million edges whose degrees follow a power law.
fn graph_times_vector() -> Result<(), TensorError> {
    let (nodes, edges) = (1_000_000usize, 16_000_000usize);
    let mut random = Random(2);
    let mut starts = vec![0usize];
    let mut indices: Vec<u32> = Vec::with_capacity(edges);
    for row in 0..nodes {
        // Pareto with exponent 2.1, of mean 16 or so; targets are popular by the square of a uniform number.
        let degree = ((8.5 * random.uniform().powf(-1.0 / 2.1)) as usize).clamp(1, nodes / 10);
        let mut targets: Vec<u32> = (0..degree)
            .map(|_| {
                let popular = random.uniform();
                ((popular * popular * nodes as f64) as u64 * 7_919 % nodes as u64) as u32
            })
            .collect();
        targets.sort_unstable();
        targets.dedup();
        indices.extend(targets);
        starts.push(indices.len());
        debug_assert_eq!(starts.len(), row + 2);
    }
    let nnz = indices.len();
    let values = (0..nnz).map(|_| random.uniform()).collect();
    let graph = Csr::from_pattern(Pattern::new(nodes, nodes, starts, indices)?, values)?;
    if let Ok(path) = std::env::var("SAVE_GRAPH") {
        // For a peer to read: starts, indices, values, one after the other.
        let mut bytes: Vec<u8> = Vec::new();
        bytes.extend(graph.pattern().starts().iter().flat_map(|x| (*x as u64).to_le_bytes()));
        bytes.extend(graph.pattern().indices().iter().flat_map(|x| x.to_le_bytes()));
        bytes.extend(graph.values().iter().flat_map(|x| x.to_le_bytes()));
        std::fs::write(path, bytes).expect("the graph can be saved");
    }
    let x: Vec<f64> = (0..nodes).map(|_| random.uniform()).collect();
    let mut y = vec![0.0; nodes];
    let bytes = nnz as f64 * 12.0 + nodes as f64 * 24.0;
    let report = |name: &str, seconds: f64| {
        println!("{name}, {nnz} edges: {:.1} ms, {:.1} GB/s", seconds * 1e3, bytes / seconds / 1e9);
    };
    let vector = MatrixRef::from_rows(&x, nodes, 1)?;
    let seconds = best(7, || {
        let y = MatrixMut::from_rows(&mut y, nodes, 1).expect("memory for a vector");
        graph.multiply_dense(1.0, vector, y, true);
    });
    report("graph × vector", seconds);
    let seconds = best(7, || {
        let y = MatrixMut::from_rows(&mut y, nodes, 1).expect("memory for a vector");
        graph.multiply_dense_transposed(1.0, vector, y, true);
    });
    report("graphᵀ × vector", seconds);
    for ring in [[BinaryOp::Min, BinaryOp::Add], [BinaryOp::Max, BinaryOp::Min]] {
        let seconds = best(3, || {
            let y = MatrixMut::from_rows(&mut y, nodes, 1).expect("memory for a vector");
            graph.multiply_dense_over(ring, vector, y, true);
        });
        report(&format!("graph × vector over ({}, {})", ring[0], ring[1]), seconds);
    }
    let x: Vec<f64> = (0..nodes * 8).map(|_| random.uniform()).collect();
    let mut y = vec![0.0; nodes * 8];
    let features = MatrixRef::from_rows(&x, nodes, 8)?;
    let seconds = best(3, || {
        let y = MatrixMut::from_rows(&mut y, nodes, 8).expect("memory for features");
        graph.multiply_dense(1.0, features, y, true);
    });
    println!("graph × 8 columns: {:.1} ms", seconds * 1e3);
    let seconds = best(3, || {
        let y = MatrixMut::from_rows(&mut y, nodes, 8).expect("memory for features");
        graph.multiply_dense_transposed(1.0, features, y, true);
    });
    println!("graphᵀ × 8 columns: {:.1} ms", seconds * 1e3);
    Ok(())
}

/// A · B at 1 % of 10,000² places, inner extent 100.
fn sampled_product() -> Result<(), TensorError> {
    let (n, k) = (10_000, 100);
    let mut random = Random(3);
    let pattern = random.matrix(n, n, 100)?;
    let a: Vec<f64> = (0..n * k).map(|_| random.uniform()).collect();
    let b: Vec<f64> = (0..n * k).map(|_| random.uniform()).collect();
    let a = MatrixRef::from_rows(&a, n, k)?;
    for (name, b) in [
        ("by columns", MatrixRef::from_rows(&b, n, k)?.transposed()),
        ("by rows", MatrixRef::from_rows(&b, k, n)?),
    ] {
        let seconds = best(5, || assert_eq!(sampled(pattern.pattern(), a, b).nnz(), pattern.nnz()));
        let flops = 2.0 * pattern.nnz() as f64 * k as f64;
        println!(
            "sampled product, 10,000² at 1 %, k = 100, B {name}: {:.0} ms, {:.1} GF/s",
            seconds * 1e3,
            flops / seconds / 1e9
        );
    }
    Ok(())
}

/// 10,000² at 1 % times 10,000 × 200, on either side.
fn sparse_times_dense() -> Result<(), TensorError> {
    let (n, k) = (10_000, 200);
    let mut random = Random(4);
    let sparse = random.matrix(n, n, 100)?;
    let dense: Vec<f64> = (0..n * k).map(|_| random.uniform()).collect();
    let mut c = vec![0.0; n * k];
    let flops = 2.0 * sparse.nnz() as f64 * k as f64;
    let report = |name: &str, seconds: f64| {
        println!(
            "{name}, 10,000² at 1 %, k = {k}: {:.0} ms, {:.1} GF/s",
            seconds * 1e3,
            flops / seconds / 1e9
        );
    };
    let (tall, wide) = (MatrixRef::from_rows(&dense, n, k)?, MatrixRef::from_rows(&dense, k, n)?);
    let mut run = |name: &str, call: &dyn Fn(MatrixMut<'_, f64>), [rows, columns]: [usize; 2]| {
        let seconds =
            best(3, || call(MatrixMut::from_rows(&mut c, rows, columns).expect("memory for a result")));
        report(name, seconds);
    };
    run("sparse × dense", &|c| sparse.multiply_dense(1.0, tall, c, true), [n, k]);
    run("sparse × denseᵀ", &|c| sparse.multiply_dense(1.0, wide.transposed(), c, true), [n, k]);
    run("sparseᵀ × dense", &|c| sparse.multiply_dense_transposed(1.0, tall, c, true), [n, k]);
    run("dense × sparse", &|c| dense_multiply(1.0, wide, &sparse, c, true), [k, n]);
    Ok(())
}

fn best(runs: usize, mut run: impl FnMut()) -> f64 {
    let mut time = || {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    (0..runs).map(|_| time()).fold(f64::INFINITY, f64::min)
}

/// Numbers that look random and are the same every time (splitmix).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// Above 0, up to 1.
    fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// About so many elements per row, in random places.
    fn matrix(&mut self, rows: usize, columns: usize, per_row: usize) -> Result<Csr<f64>, TensorError> {
        let mut starts = vec![0];
        let mut indices = Vec::new();
        for _ in 0..rows {
            let mut row: Vec<u32> = (0..per_row).map(|_| (self.next() % columns as u64) as u32).collect();
            row.sort_unstable();
            row.dedup();
            indices.extend(row);
            starts.push(indices.len());
        }
        let values = indices.iter().map(|_| self.uniform()).collect();
        Csr::new(rows, columns, starts, indices, values)
    }
}
