//! How fast the kernels are on one core of this machine:
//! `cargo run --release -p lacus_tensor --example kernels`.

#![expect(clippy::print_stdout, reason = "a program for people")]

use lacus_tensor::kernels::formula::{Formula, FormulaBuilder, Lane, Scratch};
use lacus_tensor::kernels::matrix::{MatrixMut, MatrixRef};
use lacus_tensor::kernels::multiply::multiply_add;
use lacus_tensor::kernels::number::{Number, Value};
use lacus_tensor::kernels::reduce::{fold_rows, reduce};
use lacus_tensor::kernels::semiring::fold_product;
use lacus_tensor::{BinaryOp, DType, Scalar, TensorError, UnaryOp};
use std::hint::black_box;

const SIDE: usize = 1000;

fn main() -> Result<(), TensorError> {
    products::<f64>("gemm f64", |x| x as f64)?;
    products::<f32>("gemm f32", |x| x as f32)?;
    products::<i64>("gemm i64", |x| x as i64)?;
    semirings::<f64>("f64", |x| x as f64)?;
    semirings::<f32>("f32", |x| x as f32)?;
    semirings::<i64>("i64", |x| x as i64)?;
    truths()?;
    vectors::<f64>("f64", |x| x as f64)?;
    vectors::<f32>("f32", |x| x as f32)?;
    reductions();
    formulas();
    Ok(())
}

/// Seconds of the best of several runs.
fn best(mut run: impl FnMut()) -> f64 {
    let times = (0..7).map(|_| {
        let start = seconds();
        run();
        seconds() - start
    });
    times.fold(f64::INFINITY, f64::min)
}

/// Processor time of this thread: the turns of others on a shared machine do not count.
fn seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to the place it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn print_flops(name: &str, operations: usize, seconds: f64) {
    println!("{name:<32} {:8.1} GF/s  {:8.2} ms", operations as f64 / seconds / 1e9, seconds * 1e3);
}

fn print_bytes(name: &str, bytes: usize, seconds: f64) {
    println!("{name:<32} {:8.1} GB/s  {:8.2} ms", bytes as f64 / seconds / 1e9, seconds * 1e3);
}

fn numbers<T>(n: usize, number: impl Fn(usize) -> T) -> Vec<T> {
    (0..n).map(|i| number(i * 7919 % 101 + 1)).collect()
}

fn products<T: Number>(name: &str, number: impl Fn(usize) -> T) -> Result<(), TensorError> {
    let (a, b) = (numbers(SIDE * SIDE, &number), numbers(SIDE * SIDE, &number));
    let mut c = vec![number(0); SIDE * SIDE];
    let (a, b) = (MatrixRef::from_rows(&a, SIDE, SIDE)?, MatrixRef::from_rows(&b, SIDE, SIDE)?);
    for (form, a) in [("", a), (", A transposed", a.transposed())] {
        let seconds = best(|| {
            let c = MatrixMut::from_rows(&mut c, SIDE, SIDE).expect("the slice is as long");
            multiply_add(c, number(1), a, b, true);
        });
        print_flops(&format!("{name} 1000³{form}"), 2 * SIDE.pow(3), seconds);
    }
    Ok(())
}

fn semirings<T: Value>(name: &str, number: impl Fn(usize) -> T) -> Result<(), TensorError> {
    let (a, b) = (numbers(SIDE * SIDE, &number), numbers(SIDE * SIDE, &number));
    let mut c = vec![number(1_000_000); SIDE * SIDE];
    let (a, b) = (MatrixRef::from_rows(&a, SIDE, SIDE)?, MatrixRef::from_rows(&b, SIDE, SIDE)?);
    for (plus, times) in [(BinaryOp::Min, BinaryOp::Add), (BinaryOp::Max, BinaryOp::Min)] {
        let seconds = best(|| {
            let c = MatrixMut::from_rows(&mut c, SIDE, SIDE).expect("the slice is as long");
            fold_product(plus, times, c, a, b);
        });
        print_flops(&format!("({plus}, {times}) {name} 1000³"), 2 * SIDE.pow(3), seconds);
    }
    Ok(())
}

fn truths() -> Result<(), TensorError> {
    let a = numbers(SIDE * SIDE, |x| u8::from(x == 1));
    let mut c = vec![0; SIDE * SIDE];
    let a = MatrixRef::from_rows(&a, SIDE, SIDE)?;
    let seconds = best(|| {
        let c = MatrixMut::from_rows(&mut c, SIDE, SIDE).expect("the slice is as long");
        fold_product(BinaryOp::Or, BinaryOp::And, c, a, a);
    });
    print_flops("(or, and) bool 1000³", 2 * SIDE.pow(3), seconds);
    Ok(())
}

fn vectors<T: Number>(name: &str, number: impl Fn(usize) -> T) -> Result<(), TensorError> {
    // Tiles of 8 MB, several of them, so that no cache holds them.
    let side = (8_000_000 / size_of::<T>()).isqrt();
    let tiles: Vec<Vec<T>> = (0..8).map(|_| numbers(side * side, &number)).collect();
    let bytes = tiles.len() * side * side * size_of::<T>();
    let x = numbers(side, &number);
    let x = MatrixRef::from_rows(&x, side, 1)?;
    let mut y = vec![number(0); side];
    for is_transposed in [false, true] {
        let seconds = best(|| {
            for tile in &tiles {
                let a = MatrixRef::from_rows(tile, side, side).expect("the slice is as long");
                let y = MatrixMut::from_rows(&mut y, side, 1).expect("the slice is as long");
                multiply_add(y, number(1), if is_transposed { a.transposed() } else { a }, x, true);
            }
        });
        let form = if is_transposed { "by columns" } else { "by rows" };
        print_bytes(&format!("gemv {name} {form}, read"), bytes, seconds);
    }
    let mut to = vec![number(0); side * side];
    let seconds = best(|| {
        for tile in &tiles {
            to.copy_from_slice(black_box(tile));
            black_box(&mut to);
        }
    });
    print_bytes(&format!("copy {name}, read + written"), 2 * bytes, seconds);
    Ok(())
}

fn reductions() {
    let a = numbers(20_000_000, |x| x as f64);
    let seconds = best(|| {
        black_box(reduce(BinaryOp::Add, black_box(&a)));
    });
    print_bytes("sum of 2e7 f64", a.len() * 8, seconds);
    let seconds = best(|| {
        black_box(reduce(BinaryOp::Max, black_box(&a)));
    });
    print_bytes("max of 2e7 f64", a.len() * 8, seconds);
    let mut acc = vec![0.0; 1000];
    let seconds = best(|| {
        for row in a.chunks_exact(1000) {
            fold_rows(BinaryOp::Add, &mut acc, row);
        }
    });
    print_bytes("sum of rows of 1000 f64", a.len() * 8, seconds);
}

fn formulas() {
    let n = 20_000_000;
    let (a, b) = (numbers(n, |x| x as f64), numbers(n, |x| 1.0 / x as f64));
    let mut out = vec![0.0f64; n];
    let mut scratch = Scratch::new();
    let mut run = |name: &str, formula: &Formula| {
        let seconds = best(|| {
            let lanes = [a.as_ptr(), b.as_ptr()].map(|first| Lane::contiguous(first.cast()));
            // SAFETY: three vectors of n doubles.
            unsafe { formula.run(&lanes, n, out.as_mut_ptr().cast(), 1, &mut scratch) };
        });
        print_bytes(name, 3 * 8 * n, seconds);
        let (m, rows) = (1000, n / 1000);
        let seconds = best(|| {
            for row in 0..rows {
                let lanes =
                    [&a[row * m..], &b[row * m..]].map(|first| Lane::contiguous(first.as_ptr().cast()));
                // SAFETY: rows of m doubles.
                unsafe { formula.run(&lanes, m, out[row * m..].as_mut_ptr().cast(), 1, &mut scratch) };
            }
        });
        print_bytes(&format!("{name}, rows of 1000"), 3 * 8 * n, seconds);
    };
    let build = |make: fn(&mut FormulaBuilder, [_; 4]) -> _| {
        let mut build = FormulaBuilder::new();
        let (a, b) = (build.input(DType::F64), build.input(DType::F64));
        let (two, three) = (build.constant(Scalar::F64(2.0)), build.constant(Scalar::F64(3.0)));
        let result = make(&mut build, [a, b, two, three]);
        build.finish(result)
    };
    let sum = build(|build, [a, b, ..]| build.binary(BinaryOp::Add, a, b));
    run("a + b", &sum);
    let mixed = build(|build, [a, b, two, three]| {
        let (x, y) = (build.binary(BinaryOp::Mul, two, a), build.binary(BinaryOp::Mul, three, b));
        let sum = build.binary(BinaryOp::Add, x, y);
        let product = build.binary(BinaryOp::Mul, a, b);
        build.binary(BinaryOp::Sub, sum, product)
    });
    run("2a + 3b - ab", &mixed);
    let chosen = build(|build, [a, b, two, _]| {
        let is_less = build.binary(BinaryOp::Lt, a, two);
        let low = build.binary(BinaryOp::Min, a, b);
        let chosen = build.select(is_less, low, a);
        build.unary(UnaryOp::Relu, chosen)
    });
    run("relu(if a < 2 then min(a, b)...)", &chosen);
}
