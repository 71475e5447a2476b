//! Numbers of many rows, encoded at once, are stored as each would be by itself.

use lacus_sample::{Column, ColumnSpec, Sample, Stored, encode, encode_scalars};
use lacus_tensor::DType;
use proptest::prelude::*;
use serde_json::json;

use crate::support::{config, dtypes, filled, generic, spec, tensor, with_options};

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn numbers_of_every_dtype(from in dtypes(), to in dtypes(), rows in 0u64..20, seed in any::<u64>()) {
        // Doubles are rounded where they come by rows, and refused as tensors.
        prop_assume!(!from.is_complex() && !to.is_complex() && from != DType::F64);
        let column = generic(to, Some(vec![]), "auto");
        let all = filled(from, &[rows], seed);
        let whole = all.as_ref();
        let found = encode_scalars(&column, &whole);
        prop_assert_eq!(found.len() as u64, rows);
        for (row, found) in (0..).zip(found) {
            let expected = encode(&column, Sample::Tensor(whole.row(row)));
            match (found, expected) {
                (Ok(found), Ok(expected)) => prop_assert_eq!(found, expected),
                (found, expected) => {
                    prop_assert_eq!(found.unwrap_err().to_string(), expected.unwrap_err().to_string());
                }
            }
        }
    }
}

#[test]
fn one_that_does_not_fit_leaves_the_others() {
    let labels = with_options("class_label", json!({"class_names": ["cat", "dog"]}));
    let given = tensor(DType::I64, &[4], &[0i64, 1, 2, 1]);
    let found = encode_scalars(&labels, &given.as_ref());
    assert_eq!(found[1].as_ref().unwrap(), &Stored::Int(1));
    let error = found[2].as_ref().unwrap_err().to_string();
    assert_eq!(error, "class_label: expected a class from 0 to 1, found 2");
    assert!(found[3].is_ok());
    let text = Column::new(&ColumnSpec { ..spec("text") }).unwrap();
    assert!(encode_scalars(&text, &given.as_ref()).iter().all(Result::is_err));
}

#[test]
fn doubles_are_rounded_as_pythons_are() {
    let column = generic(DType::F32, Some(vec![]), "auto");
    let found = encode_scalars(&column, &tensor(DType::F64, &[3], &[0.1f64, f64::INFINITY, 1e39]).as_ref());
    assert_eq!(found[0].as_ref().unwrap(), &Stored::Float(0.1f32.to_bits()));
    assert_eq!(found[1].as_ref().unwrap(), &Stored::Float(f32::INFINITY.to_bits()));
    assert!(found[2].as_ref().unwrap_err().to_string().contains("the value 1e39"));
}
