use super::*;
use proptest::prelude::*;

/// A matrix in memory of its own, with strides that leave gaps, run backwards, or go by columns.
#[derive(Clone, Debug)]
pub(in crate::kernels) struct Case<T> {
    memory: Vec<T>,
    offset: usize,
    shape: [usize; 2],
    strides: [isize; 2],
}

impl<T: Copy + Default> Case<T> {
    pub(in crate::kernels) fn new(
        shape: [usize; 2],
        layout: u8,
        mut value: impl FnMut(usize, usize) -> T,
    ) -> Case<T> {
        let [rows, columns] = shape.map(|side| side.max(1) as isize);
        let strides = match layout % 5 {
            0 => [columns, 1],
            1 => [1, rows],
            2 => [columns * 2 + 3, 2],
            3 => [-columns, -1],
            _ => [3, -3 * rows],
        };
        let reach = [(rows - 1) * strides[0], (columns - 1) * strides[1]];
        let offset = -reach.iter().map(|&end| end.min(0)).sum::<isize>();
        let len = offset + reach.iter().map(|&end| end.max(0)).sum::<isize>() + 1;
        let mut case =
            Case { memory: vec![T::default(); len as usize], offset: offset as usize, shape, strides };
        for row in 0..shape[0] {
            for column in 0..shape[1] {
                case.matrix_mut().set(row, column, value(row, column));
            }
        }
        case
    }

    pub(in crate::kernels) fn matrix(&self) -> MatrixRef<'_, T> {
        MatrixRef::new(&self.memory, self.offset, self.shape, self.strides).unwrap()
    }

    pub(in crate::kernels) fn matrix_mut(&mut self) -> MatrixMut<'_, T> {
        MatrixMut::new(&mut self.memory, self.offset, self.shape, self.strides).unwrap()
    }
}

fn check<T: Number>(
    [m, n, k]: [usize; 3],
    layouts: [u8; 3],
    seed: u64,
    small: impl Fn(i64) -> T,
    garbage: T,
    is_first: bool,
) {
    // Small whole numbers: every order of summation gives the same bits.
    let number = |a: usize, b: usize| {
        small(((a as u64 * 31 + b as u64 * 17 + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60) as i64 - 8)
    };
    let a = Case::new([m, k], layouts[0], &number);
    let b = Case::new([k, n], layouts[1], |i, j| number(j + 3, i));
    let before = |i, j| if is_first { garbage } else { number(j, i + 7) };
    let mut c = Case::new([m, n], layouts[2], before);
    let mut same = c.clone();
    multiply_add(c.matrix_mut(), small(3), a.matrix(), b.matrix(), is_first);
    let then = &mut |[row, column]: [usize; 2], mut part: MatrixMut<'_, T>| {
        for i in 0..part.rows() {
            for j in 0..part.columns() {
                let sum = part.as_ref().at(i, j);
                part.set(i, j, sum.add(number(row + i, column + j)));
            }
        }
    };
    multiply_add_then(same.matrix_mut(), small(3), a.matrix(), b.matrix(), is_first, then);
    for i in 0..m {
        for j in 0..n {
            let mut sum = T::ZERO;
            for p in 0..k {
                sum = sum.add(a.matrix().at(i, p).mul(b.matrix().at(p, j)));
            }
            let sum = small(3).mul(sum);
            let expected = if is_first { sum } else { before(i, j).add(sum) };
            assert_eq!(c.matrix().at(i, j), expected, "({i}, {j}) of [{m}, {k}] × [{k}, {n}], {layouts:?}");
            // Each element once, and by its own place.
            assert_eq!(
                same.matrix().at(i, j),
                expected.add(number(i, j)),
                "then, at ({i}, {j}), {layouts:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn products_are_those_of_the_definition(
        m in prop_oneof![Just(1usize), 0usize..30, Just(65)],
        n in prop_oneof![Just(1usize), 0usize..30, Just(65)],
        k in prop_oneof![0usize..10, 0usize..50, Just(300)],
        layouts in any::<[u8; 3]>(),
        seed in any::<u64>(),
        is_first: bool,
    ) {
        check::<f64>([m, n, k], layouts, seed, |x| x as f64, f64::NAN, is_first);
        check::<f32>([m, n, k], layouts, seed, |x| x as f32, f32::NAN, is_first);
        check::<i64>([m, n, k], layouts, seed, |x| x, 77, is_first);
    }
}

/// Shapes of which kernels take more than one part of each side, and a rest.
#[test]
fn large_products_are_put_together_from_parts() {
    for (shape, layouts) in
        [([203, 305, 30], [0, 0, 0]), ([5, 4105, 20], [1, 1, 1]), ([2050, 7, 600], [2, 4, 3])]
    {
        check::<f64>(shape, layouts, 3, |x| x as f64, f64::NAN, true);
        check::<f32>(shape, layouts, 5, |x| x as f32, f32::NAN, false);
    }
}

#[test]
#[should_panic(expected = "multiply: [1, 2] × [1, 2] is not [1, 2]")]
fn shapes_must_fit() {
    let numbers = [1i64, 2];
    let matrix = MatrixRef::from_rows(&numbers, 1, 2).unwrap();
    multiply_add(MatrixMut::from_rows(&mut [0, 0], 1, 2).unwrap(), 1, matrix, matrix, true);
}
