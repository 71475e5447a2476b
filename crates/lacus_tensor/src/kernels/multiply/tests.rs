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

/// A product, and what is done with its parts.
type Go<T> = dyn Fn(MatrixMut<'_, T>, T, MatrixRef<'_, T>, MatrixRef<'_, T>, bool, &mut Then<'_, T>);

fn check<T: Number>(
    shape: [usize; 3],
    layouts: [u8; 3],
    seed: u64,
    small: impl Fn(i64) -> T,
    garbage: T,
    is_first: bool,
) {
    check_by(&multiply_add_then::<T>, shape, layouts, seed, small, garbage, is_first);
}

fn check_by<T: Number>(
    go: &Go<T>,
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
    go(c.matrix_mut(), small(3), a.matrix(), b.matrix(), is_first, &mut |_, _| ());
    let then = &mut |[row, column]: [usize; 2], mut part: MatrixMut<'_, T>| {
        for i in 0..part.rows() {
            for j in 0..part.columns() {
                let sum = part.as_ref().at(i, j);
                part.set(i, j, sum.add(number(row + i, column + j)));
            }
        }
    };
    go(same.matrix_mut(), small(3), a.matrix(), b.matrix(), is_first, then);
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

/// Kernels for all vectors of this machine, not only the one that is used.
#[cfg(target_arch = "x86_64")]
#[test]
fn kernels_for_any_vectors_give_the_same() {
    use fused::Fused;
    fn go<T: Fused>(kernel: fused::Kernel<T>) -> Box<Go<T>> {
        // SAFETY: only those are called that the machine has the vectors of.
        Box::new(move |c, alpha, a, b, is_first, then| unsafe {
            fused::multiply(&kernel, c, alpha, a, b, is_first, then);
        })
    }
    let has_avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    let has_avx512 = is_x86_feature_detected!("avx512f");
    let shapes =
        [[203, 305, 30], [5, 4105, 20], [2050, 7, 600], [2, 2, 1], [13, 3, 2], [64, 65, 300], [97, 500, 513]];
    for (name, is_here, wide, narrow) in
        [("AVX2", has_avx2, f64::AVX2, f32::AVX2), ("AVX-512", has_avx512, f64::AVX512, f32::AVX512)]
    {
        if !is_here {
            use std::io::Write;
            // Past the capture of tests, which would hide it.
            let _ = writeln!(std::io::stderr(), "SKIPPED: this machine has no {name}");
            continue;
        }
        for (at, shape) in shapes.into_iter().enumerate() {
            for layout in 0..5u8 {
                let (layouts, is_first) = ([layout, layout + at as u8, layout / 2], layout % 2 == 0);
                check_by(&go(wide), shape, layouts, 3, |x| x as f64, f64::NAN, is_first);
                check_by(&go(narrow), shape, layouts, 5, |x| x as f32, f32::NAN, is_first);
            }
        }
    }
    if !(has_avx2 && has_avx512) {
        return;
    }
    // Also where sums are rounded.
    let fraction = |i: usize, j: usize| ((i * 7919 + j * 104_729) % 1009) as f64 / 1009.0 - 0.5;
    let (a, b) = (Case::new([77, 700], 0, fraction), Case::new([700, 91], 1, fraction));
    let [narrow, wide] = [f64::AVX2, f64::AVX512].map(|kernel| {
        let mut c = Case::new([77, 91], 0, |_, _| 0.0);
        go(kernel)(c.matrix_mut(), 0.7, a.matrix(), b.matrix(), true, &mut |_, _| ());
        c
    });
    for (i, j) in (0..77).flat_map(|i| (0..91).map(move |j| (i, j))) {
        assert_eq!(narrow.matrix().at(i, j).to_bits(), wide.matrix().at(i, j).to_bits(), "({i}, {j})");
    }
}

#[test]
#[should_panic(expected = "multiply: [1, 2] × [1, 2] is not [1, 2]")]
fn shapes_must_fit() {
    let numbers = [1i64, 2];
    let matrix = MatrixRef::from_rows(&numbers, 1, 2).unwrap();
    multiply_add(MatrixMut::from_rows(&mut [0, 0], 1, 2).unwrap(), 1, matrix, matrix, true);
}
