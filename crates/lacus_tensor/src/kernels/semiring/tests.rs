use super::*;
use crate::kernels::multiply::tests::Case;
use crate::scalar::Scalar;
use proptest::prelude::*;

const ALL: [BinaryOp; 6] =
    [BinaryOp::Add, BinaryOp::Mul, BinaryOp::Min, BinaryOp::Max, BinaryOp::And, BinaryOp::Or];

fn check<T: Value>(
    [m, n, k]: [usize; 3],
    layouts: [u8; 3],
    value: impl Fn(usize, usize) -> T,
    scalar: impl Fn(T) -> Scalar,
) {
    let is_bool = T::DTYPE == DType::Bool;
    for plus in ALL {
        for times in ALL.into_iter().filter(|times| times.distributes_over(plus)) {
            let is_order = |op| matches!(op, BinaryOp::Min | BinaryOp::Max);
            if is_bool != (times.is_logical()) && !(is_bool && is_order(plus) && is_order(times)) {
                continue;
            }
            let a = Case::new([m, k], layouts[0], &value);
            let b = Case::new([k, n], layouts[1], |i, j| value(j + 3, i));
            let before = |i, j| value(j, i + 7);
            let mut c = Case::new([m, n], layouts[2], before);
            fold_product(plus, times, c.matrix_mut(), a.matrix(), b.matrix());
            for i in 0..m {
                for j in 0..n {
                    let mut expected = scalar(before(i, j));
                    for p in 0..k {
                        let product = scalar(a.matrix().at(i, p)).binary(times, scalar(b.matrix().at(p, j)));
                        expected = expected.binary(plus, product);
                    }
                    let got = scalar(c.matrix().at(i, j));
                    assert!(
                        got == expected || got.to_f64().is_nan() && expected.to_f64().is_nan(),
                        "({i}, {j}) of [{m}, {k}] × [{k}, {n}] over ({plus}, {times}): {got}, not {expected}",
                    );
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn products_are_those_of_the_definition(
        m in prop_oneof![0usize..10, Just(20), Just(101)],
        n in prop_oneof![0usize..10, Just(20), Just(70)],
        k in prop_oneof![0usize..10, Just(33), Just(260)],
        layouts in any::<[u8; 3]>(),
        seed in any::<u64>(),
        odd in 0u64..4,
    ) {
        let (m, n, k) = if m * n * k > 200_000 { (m, n / 7, k) } else { (m, n, k) };
        let number = |a: usize, b: usize| {
            ((a as u64 * 31 + b as u64 * 17 + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 50) as i64 % 64 - 32
        };
        // Rarely something of which NaN may come.
        let float = |a, b| match number(a, b) {
            31 if odd == 1 => f64::NAN,
            31 if odd > 1 => f64::INFINITY,
            30 if odd > 2 => f64::NEG_INFINITY,
            x => x as f64,
        };
        check([m, n, k], layouts, float, Scalar::F64);
        check([m, n, k], layouts, |a, b| float(a, b) as f32, Scalar::F32);
        check([m, n, k], layouts, number, Scalar::I64);
        check([m, n, k], layouts, |a, b| u8::from(number(a, b) > 20), |x| Scalar::Bool(x != 0));
    }
}

#[test]
#[should_panic(expected = "product: (+, +) is no semiring of float64")]
fn other_pairs_are_no_semirings() {
    let numbers = [1.0];
    let matrix = MatrixRef::from_rows(&numbers, 1, 1).unwrap();
    let mut c = [0.0];
    fold_product(BinaryOp::Add, BinaryOp::Add, MatrixMut::from_rows(&mut c, 1, 1).unwrap(), matrix, matrix);
}
