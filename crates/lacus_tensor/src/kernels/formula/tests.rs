use super::*;
use crate::op::{BinaryOp, UnaryOp};
use proptest::prelude::*;
use std::sync::Arc;

/// All operations on one element: those with names, and those with signs.
fn unary(at: u8) -> UnaryOp {
    let all = [&UnaryOp::NAMED[..], &[UnaryOp::Neg, UnaryOp::Not]].concat();
    all[usize::from(at) % all.len()]
}

const BINARY: [BinaryOp; 17] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Mod,
    BinaryOp::FloorDiv,
    BinaryOp::Pow,
    BinaryOp::Min,
    BinaryOp::Max,
    BinaryOp::Eq,
    BinaryOp::Ne,
    BinaryOp::Lt,
    BinaryOp::Le,
    BinaryOp::Gt,
    BinaryOp::Ge,
    BinaryOp::And,
    BinaryOp::Or,
];

const DTYPES: [DType; 4] = [DType::Bool, DType::I64, DType::F32, DType::F64];

/// Elements on which operations differ.
fn element(dtype: DType, i: u64) -> Scalar {
    let i = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    let float = match i % 12 {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => f64::NEG_INFINITY,
        3 => 0.0,
        4 => -0.0,
        5 => 1e300,
        rest => (i >> 5 & 63) as f64 / 8.0 - 3.0 * (rest as f64 - 6.0),
    };
    match dtype {
        DType::Bool => Scalar::Bool(i.is_multiple_of(3)),
        DType::I64 => Scalar::I64(match i % 9 {
            0 => i64::MIN,
            1 => i64::MAX,
            _ => (i >> 6 & 15) as i64 - 7,
        }),
        DType::F32 => Scalar::F32(float as f32),
        _ => Scalar::F64(float),
    }
}

fn is_same(a: Scalar, b: Scalar) -> bool {
    match (a, b) {
        (Scalar::F32(a), Scalar::F32(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
        (Scalar::F64(a), Scalar::F64(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
        _ => a == b,
    }
}

/// One input in memory of its own.
struct Input {
    dtype: DType,
    memory: Vec<u64>,
    lane: Lane,
}

impl Input {
    fn new(dtype: DType, form: u8, n: usize, seed: u64) -> Input {
        let size = dtype.size_bytes();
        let stride = [1isize, 0, -1, 3, 2][usize::from(form) % 5];
        let mut memory = vec![u64::MAX; (n * 3 + 3) * size / 8 + 1];
        let first = if stride < 0 { (n - 1) * size } else { 0 };
        let first = memory.as_mut_ptr().cast::<u8>().wrapping_add(first);
        for i in 0..if stride == 0 { 1 } else { n } {
            let at = first.wrapping_offset(i as isize * stride * size as isize);
            // SAFETY: the memory has room for three times as many.
            unsafe { Kind::new(dtype).write(at, element(dtype, seed + i as u64)) };
        }
        let mut lane = Lane::Strided { first, stride };
        if dtype == DType::I64 && form >= 5 {
            lane = Lane::Ramp { start: seed as i64, step: i64::from(form) - 6 };
        }
        Input { dtype, memory, lane }
    }

    fn at(&self, i: usize) -> Scalar {
        match self.lane {
            Lane::Ramp { start, step } => Scalar::I64(start.wrapping_add(step.wrapping_mul(i as i64))),
            Lane::Strided { first, stride } => {
                let at = first.wrapping_offset(i as isize * stride * self.dtype.size_bytes() as isize);
                assert!(self.memory.as_ptr_range().contains(&at.cast()) || !at.cast::<u64>().is_aligned());
                // SAFETY: within the memory.
                unsafe { Kind::new(self.dtype).read(at) }
            }
        }
    }
}

/// A value of the naive twin: an element for each lane, and the register.
type Twin = (Vec<Scalar>, Register);

/// Extends both the formula and its twin by one operation.
fn extend(
    build: &mut FormulaBuilder,
    values: &mut Vec<Twin>,
    [what, a, b, c]: [u8; 4],
    is_zero_met: &mut Vec<bool>,
) {
    let pick = |values: &[Twin], i: u8| values[usize::from(i) % values.len()].clone();
    let (mut x, mut y) = (pick(values, a), pick(values, b));
    let dtype = build.dtype(x.1);
    let convert = |build: &mut FormulaBuilder, value: &mut Twin, dtype| {
        value.1 = build.convert(value.1, dtype);
        value.0.iter_mut().for_each(|element| *element = element.convert(dtype));
    };
    let zip = |x: &Twin, y: &Twin, f: &dyn Fn(Scalar, Scalar) -> Scalar| {
        x.0.iter().zip(&y.0).map(|(&x, &y)| f(x, y)).collect::<Vec<_>>()
    };
    let made = match what % 6 {
        0 => {
            let op = unary(b);
            (x.0.iter().map(|x| x.unary(op)).collect(), build.unary(op, x.1))
        }
        1 | 2 => {
            let op = BINARY[usize::from(c) % BINARY.len()];
            let dtype = if op.is_logical() { DType::Bool } else { dtype };
            convert(build, &mut x, dtype);
            convert(build, &mut y, dtype);
            if op.divides_whole() && matches!(dtype, DType::I64 | DType::Bool) {
                is_zero_met.push(y.0.iter().any(|y| y.to_i64() == 0));
            }
            (zip(&x, &y, &|x, y| x.binary(op, y)), build.binary(op, x.1, y.1))
        }
        3 => {
            convert(build, &mut x, DTYPES[usize::from(b) % 4]);
            x
        }
        4 => {
            let mut condition = pick(values, c);
            convert(build, &mut condition, DType::Bool);
            convert(build, &mut y, dtype);
            let chosen = condition.0.iter().zip(zip(&x, &y, &|x, _| x)).zip(zip(&x, &y, &|_, y| y));
            let elements = chosen.map(|((c, x), y)| if c.is_true() { x } else { y }).collect();
            (elements, build.select(condition.1, x.1, y.1))
        }
        _ => {
            let least = |args: &[Scalar]| Scalar::F64(args[0].to_f64() - 2.0 * args[1].to_f64());
            let to = DTYPES[usize::from(c) % 4];
            let elements = zip(&x, &y, &|x, y| least(&[x, y]).convert(to));
            (elements, build.call(Arc::new(least), &[x.1, y.1], to))
        }
    };
    values.push(made);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn formulas_mean_what_scalars_say(
        n in prop_oneof![1usize..70, Just(2500usize)],
        inputs in prop::collection::vec((0usize..4, 0u8..8), 1..4),
        constant in 0u64..100,
        program in prop::collection::vec(any::<[u8; 4]>(), 0..12),
        out_stride in prop_oneof![Just(1isize), Just(1), Just(2), Just(-3)],
        seed in 0u64..1000,
    ) {
        let inputs: Vec<Input> = inputs
            .into_iter()
            .enumerate()
            .map(|(i, (dtype, form))| Input::new(DTYPES[dtype], form, n, seed + 1000 * i as u64))
            .collect();
        let mut build = FormulaBuilder::new();
        let mut values: Vec<Twin> = Vec::new();
        for input in &inputs {
            values.push(((0..n).map(|i| input.at(i)).collect(), build.input(input.dtype)));
        }
        let constant = element(DTYPES[constant as usize % 4], constant);
        values.push((vec![constant; n], build.constant(constant)));
        let mut is_zero_met = Vec::new();
        for step in program {
            extend(&mut build, &mut values, step, &mut is_zero_met);
        }
        let (expected, result) = values.pop().unwrap();
        let formula = build.finish(result);
        prop_assert_eq!(formula.dtype(), expected[0].dtype());
        let kind = formula.kind;
        let size = kind.size_bytes();
        let lanes: Vec<Lane> = inputs.iter().map(|input| input.lane).collect();
        let mut memory = vec![0xAAAA_AAAA_AAAA_AAAAu64; (n * 3 + 2) * size / 8 + 1];
        let first = if out_stride < 0 { 3 * (n - 1) * size } else { 0 };
        let out = memory.as_mut_ptr().cast::<u8>().wrapping_add(first);
        // SAFETY: the inputs hold n elements, and there is room for the result with its stride.
        let met = unsafe { formula.run(&lanes, n, out, out_stride, &mut Scratch::new()) };
        // A `%` that does not count for the result is not run.
        prop_assert!(!met || is_zero_met.contains(&true));
        for (i, &expected) in expected.iter().enumerate() {
            let at = out.wrapping_offset(i as isize * out_stride * size as isize);
            // SAFETY: just written.
            let got = unsafe { kind.read(at) };
            prop_assert!(is_same(got, expected), "element {}: {} instead of {}", i, got, expected);
        }
    }
}

#[test]
fn equal_parts_are_computed_once_and_dead_ones_never() {
    let mut build = FormulaBuilder::new();
    let (a, b) = (build.input(DType::F64), build.input(DType::F64));
    let sum = build.binary(BinaryOp::Add, a, b);
    let again = build.binary(BinaryOp::Add, a, b);
    let dead = build.unary(UnaryOp::Exp, sum);
    let two = build.constant(Scalar::F64(2.0));
    let four = build.binary(BinaryOp::Mul, two, two);
    assert_eq!(four, build.constant(Scalar::F64(4.0)));
    let product = build.binary(BinaryOp::Mul, sum, again);
    let result = build.binary(BinaryOp::Sub, product, four);
    assert_ne!(dead, result);
    let formula = build.finish(result);
    let loops = formula.steps.iter().filter(|step| matches!(step.work, Work::Loop(..))).count();
    assert_eq!(loops, 3);
}

#[test]
fn long_chains_need_few_registers() {
    let mut build = FormulaBuilder::new();
    let mut value = build.input(DType::F64);
    let mut expected = 2.0f64;
    for i in 0..100 {
        let other = build.constant(Scalar::F64(f64::from(i)));
        value = build.binary(if i % 2 == 0 { BinaryOp::Add } else { BinaryOp::Sub }, value, other);
        expected += if i % 2 == 0 { f64::from(i) } else { -f64::from(i) };
    }
    let formula = build.finish(value);
    assert_eq!(formula.slots, 2);
    let mut out = vec![0.0; 5000];
    formula.apply(&[Slice::F64(&vec![2.0; 5000])], &mut out);
    assert!(out.iter().all(|&x| x == expected));
}

#[test]
fn zero_divisors_are_told() {
    let mut build = FormulaBuilder::new();
    let (a, b) = (build.input(DType::I64), build.ramp());
    let rest = build.binary(BinaryOp::Mod, a, b);
    let whole = build.binary(BinaryOp::FloorDiv, a, b);
    let ten = build.constant(Scalar::I64(10));
    let tens = build.binary(BinaryOp::Mul, whole, ten);
    let both = build.binary(BinaryOp::Add, tens, rest);
    let formula = build.finish(both);
    let mut out = [0i64; 3];
    assert!(!formula.apply(&[Slice::I64(&[5, 6, 7]), Slice::Ramp { start: 1, step: 1 }], &mut out));
    assert_eq!(out, [50, 30, 21]);
    assert!(formula.apply(&[Slice::I64(&[5, 6, 7]), Slice::Ramp { start: -1, step: 1 }], &mut out));
    assert_eq!(out, [-50, 0, 70]);
}

#[test]
fn the_result_may_take_the_places_of_an_input() {
    let mut build = FormulaBuilder::new();
    let (x, y) = (build.input(DType::F64), build.input(DType::F64));
    let sum = build.binary(BinaryOp::Add, x, y);
    let product = build.binary(BinaryOp::Mul, sum, x);
    let formula = build.finish(product);
    let mut build = FormulaBuilder::new();
    let same = build.input(DType::F64);
    let identity = build.finish(same);
    for (n, stride) in [(1, 1), (700, 1), (2_500, 1), (700, 3)] {
        let mut x: Vec<f64> = (0..n * stride).map(|i| i as f64).collect();
        let y: Vec<f64> = (0..n).map(|i| 0.5 * i as f64).collect();
        let places = (0..n).map(|i| i * stride);
        let expected: Vec<f64> = places.clone().zip(&y).map(|(at, y)| (x[at] + y) * x[at]).collect();
        let out = x.as_mut_ptr().cast::<u8>();
        let own = Lane::Strided { first: out, stride: stride as isize };
        let mut scratch = Scratch::new();
        // SAFETY: as many elements are there; the first input is the result's places.
        unsafe {
            let inputs = [own, Lane::contiguous(y.as_ptr().cast())];
            assert!(!formula.run(&inputs, n, out, stride as isize, &mut scratch));
            assert!(!identity.run(&[own], n, out, stride as isize, &mut scratch));
        }
        assert_eq!(places.map(|at| x[at]).collect::<Vec<_>>(), expected, "{n} elements, {stride} apart");
    }
}
