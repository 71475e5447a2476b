use super::*;
use crate::key::KeyTerm;
use proptest::prelude::*;

fn ints(dims: &[usize], items: impl IntoIterator<Item = i64>) -> Array {
    Array::new(DType::I64, dims.to_vec(), items.into_iter().map(Scalar::I64).collect()).unwrap()
}

fn counted(dims: &[usize]) -> Array {
    ints(dims, (0..dims.iter().product::<usize>() as i64).map(|n| n * 7 % 11 - 5))
}

const ADD: ReduceKernel = ReduceKernel::Elementwise(BinaryOp::Add);

fn matmul(a: &Array, b: &Array) -> Array {
    JoinKernel::MATMUL.run(a, b).unwrap()
}

#[test]
fn the_examples_of_the_paper_hold() {
    let a = ints(&[4, 4], [1, 2, 5, 6, 3, 4, 7, 8, 9, 10, 13, 14, 11, 12, 15, 16]);
    let r = Relation::from_array(&a, &[2, 2], None).unwrap();
    let down = r.aggregate(&[1], &ADD).unwrap();
    assert_eq!(down.tiles()[&vec![0]], ints(&[2, 2], [10, 12, 14, 16]));
    assert_eq!(down.tiles()[&vec![1]], ints(&[2, 2], [18, 20, 22, 24]));
    assert_eq!(r.aggregate(&[], &ADD).unwrap().tiles()[&vec![]], ints(&[2, 2], [28, 32, 36, 40]));
    let joined = r.join(&r, &JoinOn::new(&[1], &[0], JoinKernel::MATMUL)).unwrap();
    assert_eq!(joined.tiles()[&vec![0, 1, 0]], ints(&[2, 2], [111, 122, 151, 166]));
    let product = joined.aggregate(&[0, 2], &ADD).unwrap();
    assert_eq!(product.to_array(&[4, 4], &[2, 2]).unwrap(), matmul(&a, &a));
    let equal = KeyCondition::Equal(KeyTerm::Part(0), KeyTerm::Part(1));
    let first = KeyFunction::project(2, &[0]).unwrap();
    let diagonal = r.filter(&equal).rekey(&first).unwrap().transform(&MapKernel::Diagonal).unwrap();
    assert_eq!(diagonal.to_array(&[4], &[2]).unwrap(), ints(&[4], [1, 4, 13, 16]));

    let b = ints(&[2, 8], [1, 2, 5, 6, 9, 10, 13, 14, 3, 4, 7, 8, 11, 12, 15, 16]);
    let whole = Relation::from_array(&b, &[2, 4], None)
        .unwrap()
        .rekey(&KeyFunction::project(2, &[1]).unwrap())
        .unwrap();
    let tiled = whole.tile(1, 2).unwrap();
    assert_eq!(tiled.tiles()[&vec![1, 0]], ints(&[2, 2], [9, 10, 11, 12]));
    assert_eq!(tiled.concat(1, 1).unwrap(), whole);
    let flat = KeyTerm::Sum(vec![(2, KeyTerm::Part(0)), (1, KeyTerm::Part(1))], 0);
    let rekeyed = tiled.rekey(&KeyFunction::new(2, vec![flat]).unwrap()).unwrap();
    assert_eq!(rekeyed.tiles()[&vec![3]], ints(&[2, 2], [13, 14, 15, 16]));
}

#[test]
fn what_cannot_be_is_an_error() {
    let r = Relation::from_array(&counted(&[4, 4]), &[2, 2], None).unwrap();
    assert!(matches!(
        r.rekey(&KeyFunction::project(2, &[0]).unwrap()),
        Err(AlgebraError::DuplicateKey { .. })
    ));
    assert!(matches!(r.rekey(&KeyFunction::identity(3)), Err(AlgebraError::KeyArity { .. })));
    assert!(r.join(&r, &JoinOn::new(&[1], &[0, 1], JoinKernel::MATMUL)).is_err());
    assert!(r.join(&r, &JoinOn::new(&[1], &[0], JoinKernel::MATMUL).filled()).is_err());
    assert!(r.tile(2, 1).is_err() && r.tile(0, 0).is_err() && r.concat(0, 2).is_err());
    assert!(Relation::from_array(&counted(&[4]), &[0], None).is_err());
    let some = r.filter(&KeyCondition::Less(KeyTerm::Part(0), KeyTerm::constant(1)));
    assert!(matches!(some.to_array(&[4, 4], &[2, 2]), Err(AlgebraError::NoPartner { .. })));
    let on = JoinOn::new(&[0, 1], &[0, 1], JoinKernel::Elementwise(BinaryOp::Add)).filled();
    assert!(matches!(r.join(&some, &on), Err(AlgebraError::NoPartner { .. })));
}

proptest! {
    #[test]
    fn tiles_at_the_edges_are_trimmed_and_products_stay_what_they_are(
        n in 1..7usize, k in 1..7usize, m in 1..7usize, b in 1..4usize, c in 1..4usize, d in 1..4usize,
    ) {
        let (a, x) = (counted(&[n, k]), counted(&[k, m]));
        let left = Relation::from_array(&a, &[b, c], None).unwrap();
        prop_assert_eq!(left.to_array(&[n, k], &[b, c]).unwrap(), a.clone());
        let right = Relation::from_array(&x, &[c, d], None).unwrap();
        let joined = left.join(&right, &JoinOn::new(&[1], &[0], JoinKernel::MATMUL)).unwrap();
        let product = joined.aggregate(&[0, 2], &ADD).unwrap();
        prop_assert_eq!(product.to_array(&[n, m], &[b, d]).unwrap(), matmul(&a, &x));
        prop_assert_eq!(left.tile(0, d).unwrap().concat(2, 0).unwrap(), left);
    }

    /// Dropping tiles of the fill changes nothing: neither where the fill annihilates, nor where both key sets are
    /// united.
    #[test]
    fn a_missing_tile_is_one_of_the_fill(
        holes in prop::collection::vec(any::<bool>(), 9), others in prop::collection::vec(any::<bool>(), 9),
        semiring in any::<bool>(),
    ) {
        let (times, plus, zero) = if semiring {
            (BinaryOp::Mul, BinaryOp::Add, 0.0)
        } else {
            (BinaryOp::Add, BinaryOp::Min, f64::INFINITY)
        };
        let make = |holes: &[bool], shift: usize| {
            let array = Array::from_fn(DType::F64, &[5, 5], |at| {
                let hole = holes[at[0] / 2 * 3 + at[1] / 2];
                Scalar::F64(if hole { zero } else { (at[0] * 5 + at[1] + shift) as f64 })
            });
            let full = Relation::from_array(&array, &[2, 2], Some(Scalar::F64(zero))).unwrap();
            (full.clone(), full.without_fill())
        };
        let ((a, sparse_a), (b, sparse_b)) = (make(&holes, 1), make(&others, 3));
        let product = |a: &Relation, b: &Relation| {
            let kernel = JoinKernel::MatMul { times, plus };
            let joined = a.join(b, &JoinOn::new(&[1], &[0], kernel)).unwrap();
            joined.aggregate(&[0, 2], &ReduceKernel::Elementwise(plus)).unwrap().to_array(&[5, 5], &[2, 2]).unwrap()
        };
        prop_assert_eq!(product(&a, &b), product(&sparse_a, &sparse_b));
        let united = |a: &Relation, b: &Relation| {
            let on = JoinOn::new(&[0, 1], &[0, 1], JoinKernel::Elementwise(plus)).filled();
            a.join(b, &on).unwrap().to_array(&[5, 5], &[2, 2]).unwrap()
        };
        prop_assert_eq!(united(&a, &b), united(&sparse_a, &sparse_b));
    }
}
