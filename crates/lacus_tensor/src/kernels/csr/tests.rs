//! Every kernel against its naive dense twin, on small matrices with all strides.

use super::*;
use crate::op::BinaryOp;
use proptest::prelude::*;

/// A dense matrix that is easy to be right about.
#[derive(Clone, Debug, PartialEq)]
struct Dense<T> {
    rows: usize,
    columns: usize,
    values: Vec<T>,
}

impl<T: Value> Dense<T> {
    fn at(&self, row: usize, column: usize) -> T {
        self.values[row * self.columns + column]
    }

    fn transposed(&self) -> Dense<T> {
        let values = (0..self.columns).flat_map(|j| (0..self.rows).map(move |i| self.at(i, j))).collect();
        Dense { rows: self.columns, columns: self.rows, values }
    }

    fn csr(&self) -> Csr<T> {
        Csr::from_dense(MatrixRef::from_rows(&self.values, self.rows, self.columns).unwrap()).unwrap()
    }

    fn of(csr: &Csr<T>) -> Dense<T> {
        let mut values = vec![T::ONE; csr.rows() * csr.columns()];
        csr.to_dense(MatrixMut::from_rows(&mut values, csr.rows(), csr.columns()).unwrap());
        Dense { rows: csr.rows(), columns: csr.columns(), values }
    }

    /// The same matrix in memory of some strides: by rows, by columns, with holes, backwards.
    fn laid_out(&self, layout: usize) -> (Vec<T>, usize, [isize; 2]) {
        let (r, c) = (self.rows as isize, self.columns as isize);
        let (offset, strides) = match layout % 4 {
            0 => (0, [c, 1]),
            1 => (0, [1, r]),
            2 => (3, [2 * c + 1, 2]),
            _ => ((r * c).max(1) - 1, [-c, -1]),
        };
        let mut memory = vec![T::ONE; 3 + 2 * ((r + 1) * (c + 1)) as usize];
        for i in 0..self.rows {
            for j in 0..self.columns {
                let at = offset + i as isize * strides[0] + j as isize * strides[1];
                memory[at as usize] = self.at(i, j);
            }
        }
        (memory, offset as usize, strides)
    }

    /// Calls with this matrix in such a layout, to be read.
    fn read<R>(&self, layout: usize, call: impl FnOnce(MatrixRef<'_, T>) -> R) -> R {
        let (memory, offset, strides) = self.laid_out(layout);
        call(MatrixRef::new(&memory, offset, [self.rows, self.columns], strides).unwrap())
    }

    /// Calls with this matrix in such a layout, to be written, and returns what was.
    fn write(&self, layout: usize, call: impl FnOnce(MatrixMut<'_, T>)) -> Dense<T> {
        let (mut memory, offset, strides) = self.laid_out(layout);
        let shape = [self.rows, self.columns];
        call(MatrixMut::new(&mut memory, offset, shape, strides).unwrap());
        let matrix = MatrixRef::new(&memory, offset, shape, strides).unwrap();
        let values = (0..self.rows).flat_map(|i| (0..self.columns).map(move |j| matrix.at(i, j))).collect();
        Dense { rows: self.rows, columns: self.columns, values }
    }
}

/// `C ⊕ alpha ⊗ A ⊗ B` over the stored elements of one of the factors, in ascending order of the inner index.
fn naive<T: Value>(
    [plus, times]: [BinaryOp; 2],
    alpha: Option<T>,
    a: &Dense<T>,
    b: &Dense<T>,
    c: Option<&Dense<T>>,
    is_stored: impl Fn(usize, usize, usize) -> bool,
) -> Dense<T> {
    let zero = T::from_scalar(plus.identity(T::DTYPE).unwrap());
    let mut values = Vec::new();
    for i in 0..a.rows {
        for j in 0..b.columns {
            let mut sum = c.map_or(zero, |c| c.at(i, j));
            for k in (0..a.columns).filter(|&k| is_stored(i, k, j)) {
                let left = alpha.map_or(a.at(i, k), |alpha| alpha.binary(times, a.at(i, k)));
                sum = sum.binary(plus, left.binary(times, b.at(k, j)));
            }
            values.push(sum);
        }
    }
    Dense { rows: a.rows, columns: b.columns, values }
}

const RINGS: [[BinaryOp; 2]; 4] = [
    [BinaryOp::Add, BinaryOp::Mul],
    [BinaryOp::Min, BinaryOp::Add],
    [BinaryOp::Max, BinaryOp::Add],
    [BinaryOp::Max, BinaryOp::Min],
];

const SUM: [BinaryOp; 2] = [BinaryOp::Add, BinaryOp::Mul];

/// Small integers: floats are exact, so that even sums in another order agree.
fn element<T: Value>() -> impl Strategy<Value = T> {
    (-4i64..5).prop_map(|x| T::from_scalar(crate::Scalar::I64(x)))
}

fn dense<T: Value>(rows: usize, columns: usize) -> impl Strategy<Value = Dense<T>> {
    proptest::collection::vec(element::<T>(), rows * columns).prop_map(move |values| Dense {
        rows,
        columns,
        values,
    })
}

fn sparse<T: Value>(rows: usize, columns: usize) -> impl Strategy<Value = Dense<T>> {
    let density = prop_oneof![Just(0u8), Just(20), Just(90), Just(255)];
    (dense::<T>(rows, columns), density, proptest::collection::vec(any::<u8>(), rows * columns)).prop_map(
        |(mut matrix, density, chances)| {
            for (value, chance) in matrix.values.iter_mut().zip(chances) {
                if chance > density {
                    *value = T::ZERO;
                }
            }
            matrix
        },
    )
}

/// Two factors, a result to add to, and how they lie in memory.
type Case<T> = (Dense<T>, Dense<T>, Dense<T>, [usize; 2], bool);

fn case<T: Value>(is_left_sparse: bool, is_right_sparse: bool) -> impl Strategy<Value = Case<T>> {
    let columns = prop_oneof![0usize..6, Just(33usize), 60usize..70];
    (0usize..7, 0usize..9, columns).prop_flat_map(move |(m, k, n)| {
        let left = if is_left_sparse { sparse(m, k).boxed() } else { dense(m, k).boxed() };
        let right = if is_right_sparse { sparse(k, n).boxed() } else { dense(k, n).boxed() };
        (left, right, dense(m, n), [0usize..4, 0..4], any::<bool>())
    })
}

/// Checks all products with this case; the left factor is the sparse one.
fn check_sparse_dense<T: Value>((a, b, c, layouts, is_first): Case<T>) -> Result<(), TestCaseError> {
    let alpha = T::from_scalar(crate::Scalar::I64(3));
    let csr = a.csr();
    let old = (!is_first).then_some(&c);
    let expected = naive(SUM, Some(alpha), &a, &b, old, |i, k, _| !a.at(i, k).is_zero());

    let found = b.read(layouts[0], |b| c.write(layouts[1], |c| csr.multiply_dense(alpha, b, c, is_first)));
    prop_assert_eq!(&found, &expected);
    let transposed = csr.transpose();
    let found = b.read(layouts[0], |b| {
        c.write(layouts[1], |c| transposed.multiply_dense_transposed(alpha, b, c, is_first))
    });
    prop_assert_eq!(&found, &expected);

    // Dense × sparse: the same case, seen from the other side.
    let (left, right_expected) = (b.transposed(), expected.transposed());
    let found = left.read(layouts[0], |left| {
        c.transposed().write(layouts[1], |c| dense_multiply(alpha, left, &transposed, c, is_first))
    });
    prop_assert_eq!(&found, &right_expected);
    let found = left.read(layouts[0], |left| {
        c.transposed().write(layouts[1], |c| dense_multiply_transposed(alpha, left, &csr, c, is_first))
    });
    prop_assert_eq!(&found, &right_expected);

    for ring in RINGS {
        let expected = naive(ring, None, &a, &b, old, |i, k, _| !a.at(i, k).is_zero());
        let found =
            b.read(layouts[0], |b| c.write(layouts[1], |c| csr.multiply_dense_over(ring, b, c, is_first)));
        prop_assert_eq!(&found, &expected);
        let found = b.read(layouts[0], |b| {
            c.write(layouts[1], |c| transposed.multiply_dense_transposed_over(ring, b, c, is_first))
        });
        prop_assert_eq!(&found, &expected);
    }
    Ok(())
}

fn check_sparse_sparse<T: Value>((a, b, c, layouts, is_first): Case<T>) -> Result<(), TestCaseError> {
    let alpha = T::from_scalar(crate::Scalar::I64(3));
    let old = (!is_first).then_some(&c);
    let is_stored = |i, k, j| !a.at(i, k).is_zero() && !b.at(k, j).is_zero();
    let expected = naive(SUM, Some(alpha), &a, &b, old, is_stored);
    let found = c.write(layouts[0], |c| a.csr().multiply_into(alpha, &b.csr(), c, is_first));
    prop_assert_eq!(&found, &expected);

    let product = a.csr().multiply(&b.csr());
    // Rows that are computed apart are those of the whole, and were counted right.
    let (left, right) = (a.csr(), b.csr());
    for cut in [0, a.rows / 3, a.rows] {
        for rows in [0..cut, cut..a.rows] {
            let counts = left.count_product(rows.clone(), &right);
            let nnz = counts.iter().map(|&count| count as usize).sum();
            let part = left.multiply_rows(rows.clone(), &right, nnz);
            for (at, row) in rows.enumerate() {
                assert_eq!((part.row(at), counts[at] as usize), (product.row(row), product.row(row).0.len()));
            }
        }
    }
    prop_assert_eq!(&Dense::of(&product), &naive(SUM, None, &a, &b, None, is_stored));
    let (pattern, values) = product.into_parts();
    let checked =
        Pattern::new(pattern.rows, pattern.columns, pattern.starts.clone(), pattern.indices.clone());
    prop_assert_eq!(checked.as_ref(), Ok(&pattern));
    prop_assert_eq!(values.len(), pattern.nnz());
    for i in 0..a.rows {
        for j in 0..b.columns {
            let meets = (0..a.columns).any(|k| is_stored(i, k, j));
            prop_assert_eq!(pattern.row(i).contains(&(j as u32)), meets);
        }
    }

    for ring in RINGS {
        let expected = naive(ring, None, &a, &b, old, is_stored);
        let found = c.write(layouts[0], |c| a.csr().multiply_into_over(ring, &b.csr(), c, is_first));
        prop_assert_eq!(&found, &expected);
        let expected = naive(ring, None, &a, &b, None, is_stored);
        let product = a.csr().multiply_over(ring, &b.csr());
        let stored = expected.read(0, |expected| product.pattern().gather_dense(expected));
        prop_assert_eq!(product.values(), stored);
    }
    Ok(())
}

fn check_sampled<T: Value>((a, b, c, layouts, _): Case<T>) -> Result<(), TestCaseError> {
    let product = naive(SUM, None, &a, &b, None, |_, _, _| true);
    let pattern = c.csr().pattern().clone();
    let found = a.read(layouts[0], |a| b.read(layouts[1], |b| sampled(&pattern, a, b)));
    prop_assert_eq!(found.pattern(), &pattern);
    let expected = product.read(0, |product| pattern.gather_dense(product));
    prop_assert_eq!(found.values(), expected);
    Ok(())
}

fn check_elementwise<T: Value>((a, b, layout): (Dense<T>, Dense<T>, usize)) -> Result<(), TestCaseError> {
    let (x, y) = (a.csr(), b.csr());
    let zip = |f: &dyn Fn(T, T) -> T| -> Vec<T> {
        a.values.iter().zip(&b.values).map(|(&x, &y)| f(x, y)).collect()
    };
    prop_assert_eq!(Dense::of(&x).values, a.values.clone());
    prop_assert_eq!(a.read(layout, |a| Csr::from_dense(a).unwrap()), x.clone());
    prop_assert_eq!(a.write(layout, |a| y.to_dense(a)), b.clone());
    prop_assert_eq!(Dense::of(&x.transpose()), a.transposed());
    prop_assert_eq!(x.transpose().transpose(), x.clone());
    prop_assert_eq!(x.nnz(), a.values.iter().filter(|x| !x.is_zero()).count());
    let [row_of, column_of] = x.coordinates();
    let again = Csr::from_coordinates(a.rows, a.columns, [&row_of, &column_of], x.values().to_vec());
    prop_assert_eq!(again.unwrap(), x.clone());

    prop_assert_eq!(Dense::of(&x.add(&y)).values, zip(&T::add));
    let three = T::from_scalar(crate::Scalar::I64(3));
    let found = a.write(layout, |a| y.scatter_add(three, a));
    prop_assert_eq!(found.values, zip(&|a, b| a.add(three.mul(b))));
    let mut scaled = x.clone();
    scaled.scale(three);
    prop_assert_eq!(Dense::of(&scaled).values, zip(&|a, _| three.mul(a)));

    let union = Pattern::union(&[x.pattern(), y.pattern()]);
    let both = Pattern::intersection(&[x.pattern(), y.pattern()]);
    let ones = |pattern: &Pattern| {
        let csr = Csr::from_pattern(pattern.clone(), vec![T::ONE; pattern.nnz()]).unwrap();
        Dense::of(&csr).values
    };
    let truth = |x: bool| if x { T::ONE } else { T::ZERO };
    prop_assert_eq!(ones(&union), zip(&|a, b| truth(!a.is_zero() || !b.is_zero())));
    prop_assert_eq!(ones(&both), zip(&|a, b| truth(!a.is_zero() && !b.is_zero())));
    for pattern in [&union, &both, x.pattern(), y.pattern()] {
        prop_assert_eq!(x.gather(pattern), a.read(layout, |a| pattern.gather_dense(a)));
    }
    Ok(())
}

fn check_pieces<T: Value>(
    (a, _, _): (Dense<T>, Dense<T>, usize),
    cuts: [[usize; 2]; 2],
) -> Result<(), TestCaseError> {
    let csr = a.csr();
    let cut = |cuts: [usize; 2], len: usize| {
        let (x, y) = (cuts[0] % (len + 1), cuts[1] % (len + 1));
        [0, x.min(y), x.max(y), len]
    };
    let (rows, columns) = (cut(cuts[0], a.rows), cut(cuts[1], a.columns));
    let mut parts = Vec::new();
    for r in rows.windows(2) {
        for c in columns.windows(2) {
            let part = csr.slice(r[0]..r[1], c[0]..c[1]);
            let values = (r[0]..r[1]).flat_map(|i| (c[0]..c[1]).map(move |j| (i, j)));
            let expected: Vec<T> = values.map(|(i, j)| a.at(i, j)).collect();
            prop_assert_eq!(Dense::of(&part).values, expected);
            parts.push(part);
        }
    }
    let parts: Vec<_> = parts.iter().collect();
    prop_assert_eq!(Csr::assemble(&parts, 3), Ok(csr.clone()));
    prop_assert!(Csr::assemble(&parts, 2).is_err());

    for op in [BinaryOp::Add, BinaryOp::Mul, BinaryOp::Min, BinaryOp::Max] {
        let start = T::from_scalar(op.identity(T::DTYPE).unwrap());
        let by_rows: Vec<T> =
            (0..a.rows).map(|i| (0..a.columns).fold(start, |sum, j| sum.binary(op, a.at(i, j)))).collect();
        prop_assert_eq!(csr.reduce_rows(op), by_rows);
        let by_columns: Vec<T> =
            (0..a.columns).map(|j| (0..a.rows).fold(start, |sum, i| sum.binary(op, a.at(i, j)))).collect();
        prop_assert_eq!(csr.reduce_columns(op), by_columns);
    }
    Ok(())
}

fn pair<T: Value>() -> impl Strategy<Value = (Dense<T>, Dense<T>, usize)> {
    (0usize..7, 0usize..9).prop_flat_map(|(m, n)| (sparse(m, n), sparse(m, n), 0usize..4))
}

macro_rules! for_all_types {
    ($($name:ident: $type:ty,)*) => {
        $(mod $name {
            use super::*;

            proptest! {
                #[test]
                fn sparse_times_dense_is_the_naive_product(case in case::<$type>(true, false)) {
                    check_sparse_dense(case)?;
                }

                #[test]
                fn sparse_times_sparse_is_the_naive_product(case in case::<$type>(true, true)) {
                    check_sparse_sparse(case)?;
                }

                #[test]
                fn a_sampled_product_is_the_product_at_its_places(case in case::<$type>(false, false)) {
                    check_sampled(case)?;
                }

                #[test]
                fn pieces_fit_together(pair in pair::<$type>(), cuts in any::<[[usize; 2]; 2]>()) {
                    check_pieces(pair, cuts)?;
                }

                #[test]
                fn elements_are_where_the_dense_matrix_has_them(pair in pair::<$type>()) {
                    check_elementwise(pair)?;
                }
            }
        })*
    };
}

for_all_types! { f32s: f32, f64s: f64, i64s: i64, bools: u8, }

#[test]
fn parts_that_do_not_fit_are_refused() {
    let new = |starts: &[usize], indices: &[u32]| {
        Csr::new(2, 3, starts.to_vec(), indices.to_vec(), vec![1.0; indices.len()]).is_ok()
    };
    assert!(new(&[0, 2, 3], &[0, 2, 1]));
    assert!(!new(&[0, 3], &[0, 1, 2]));
    assert!(!new(&[1, 2, 3], &[0, 1, 2]));
    assert!(!new(&[0, 2, 2], &[0, 1, 2]));
    assert!(!new(&[0, 4, 3], &[0, 1, 2]));
    assert!(!new(&[0, 2, 3], &[2, 0, 1]));
    assert!(!new(&[0, 2, 3], &[1, 1, 1]));
    assert!(!new(&[0, 2, 3], &[0, 3, 1]));
    assert!(Csr::new(1, 3, vec![0, 1], vec![1], vec![1.0, 2.0]).is_err());
    assert!(Csr::<f64>::empty(1, (1 << 32) + 1).is_err());
    let from = |rows: &[i64], columns: &[i64]| {
        Csr::from_coordinates(2, 3, [rows, columns], vec![1.0; rows.len()]).is_ok()
    };
    assert!(from(&[0, 0, 1], &[0, 2, 1]));
    assert!(!from(&[0, 1, 0], &[0, 2, 1]));
    assert!(!from(&[0, 0, 2], &[0, 2, 1]));
    assert!(!from(&[0, 0, -1], &[0, 2, 1]));
    assert!(!from(&[0, 0, 1], &[0, 3, 1]));
    assert!(!from(&[0, 0, 1], &[0, -1, 1]));
    assert!(!from(&[0, 0, 1], &[0, 0, 1]));
    assert!(!from(&[0, 0, 1], &[0, 1]));
}

#[test]
fn what_is_stored_stays_stored() {
    let csr = Csr::new(1, 4, vec![0, 3], vec![0, 1, 3], vec![0.0, -0.0, f64::NAN]).unwrap();
    assert_eq!(csr.nnz(), 3);
    let sum = csr.add(&Csr::empty(1, 4).unwrap());
    assert_eq!(
        sum.values().iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
        csr.values().iter().map(|x| x.to_bits()).collect::<Vec<_>>()
    );
    assert_eq!(csr.transpose().pattern().starts(), [0, 1, 2, 2, 3]);
}

#[test]
fn shortest_paths_are_products_over_min_and_plus() {
    // 0 -1→ 1 -2→ 2, and 0 -9→ 2.
    let edges = Csr::new(3, 3, vec![0, 2, 3, 3], vec![1, 2, 2], vec![1.0, 9.0, 2.0]).unwrap();
    let two_steps = edges.multiply_over([BinaryOp::Min, BinaryOp::Add], &edges);
    assert_eq!(two_steps.row(0), (&[2][..], &[3.0][..]));
    let mut distance = [0.0, f64::INFINITY, f64::INFINITY];
    for _ in 0..2 {
        let old = distance;
        edges.multiply_dense_transposed_over(
            [BinaryOp::Min, BinaryOp::Add],
            MatrixRef::from_rows(&old, 3, 1).unwrap(),
            MatrixMut::from_rows(&mut distance, 3, 1).unwrap(),
            false,
        );
    }
    assert_eq!(distance, [0.0, 1.0, 3.0]);
}

/// Larger than the blocks of every kernel, so that each of their paths is taken, with sums that round.
#[test]
fn large_products_have_the_bits_of_the_naive_ones() {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    let (m, k, n) = (70, 300, 203);
    let mut matrix = |rows: usize, columns: usize, one_in: u64| {
        let mut value = || if random() % one_in == 0 { random() as f64 / 7.0 } else { 0.0 };
        Dense { rows, columns, values: (0..rows * columns).map(|_| value()).collect() }
    };
    let (dense, old) = (matrix(k, n, 1), matrix(m, n, 1));
    for (one_in_left, one_in_right) in [(3, 3), (20, 3), (30, 60), (90, 90)] {
        let (a, b) = (matrix(m, k, one_in_left), matrix(k, n, one_in_right));
        let (left, right) = (a.csr(), b.csr());
        let product = naive(SUM, None, &a, &b, None, |_, _, _| true);
        assert_eq!(Dense::of(&left.multiply(&right)), product);
        assert_eq!(old.write(0, |c| left.multiply_into(1.0, &right, c, true)), product);
        let product = naive(SUM, Some(0.3), &a, &dense, Some(&old), |_, _, _| true);
        let transposed = left.transpose();
        for layout in 0..4 {
            dense.read(layout, |dense| {
                let found = old.write(layout / 2, |c| left.multiply_dense(0.3, dense, c, false));
                assert_eq!(found, product);
                let found = old.write(layout / 2, |mut below| {
                    for rows in left.even_rows(3) {
                        let (own, rest) = below.split_at_row(rows.len());
                        left.multiply_dense_rows(rows, 0.3, dense, own, false);
                        below = rest;
                    }
                });
                assert_eq!(found, product);
                let found =
                    old.write(layout / 2, |c| transposed.multiply_dense_transposed(0.3, dense, c, false));
                assert_eq!(found, product);
            });
        }
        // In another order, hence only about the same; but alike for all strides.
        let product = naive(SUM, None, &a, &dense, None, |_, _, _| true);
        let pattern = left.multiply(&right).pattern().clone();
        let exact = product.read(0, |product| pattern.gather_dense(product));
        let first = a.read(0, |a| dense.read(0, |b| sampled(&pattern, a, b)));
        assert!(first.values().iter().zip(&exact).all(|(x, y)| (x - y).abs() <= 1e-13 * y.abs()));
        let mut values = vec![0.0; pattern.nnz()];
        for piece in [0..128, 128..256, 256..k] {
            let rows = &dense.values[piece.start * n..piece.end * n];
            let columns = MatrixRef::new(&a.values, piece.start, [m, piece.len()], [k as isize, 1]).unwrap();
            let rows = MatrixRef::from_rows(rows, piece.len(), n).unwrap();
            sampled_into(&pattern, columns, rows, &mut values);
        }
        assert_eq!(values, first.values());
        for layout in 1..4 {
            assert_eq!(a.read(layout, |a| dense.read(layout, |b| sampled(&pattern, a, b))), first);
        }
    }
}

#[test]
fn densities_of_products_are_guessed() {
    assert!((estimate_density(0.01, 0.01, 10_000) - 0.632).abs() < 1e-3);
    assert_eq!(estimate_density(0.0, 0.5, 10), 0.0);
    assert_eq!(estimate_density(1.0, 1.0, 10), 1.0);
    assert!((estimate_density(1e-12, 1e-12, 1) / 1e-24 - 1.0).abs() < 1e-9);
}
