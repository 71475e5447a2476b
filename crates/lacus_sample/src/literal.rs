//! JSON numbers, and lists of lists of them, as tensors: what is written down has no dtype but the widest.

use lacus_tensor::{Buffer, DType, MAX_RANK, Shape, Tensor};
use serde_json::Value;

/// The tensor that a JSON value is, of bool, int64, uint64 or float64. Fails with what it is instead.
pub(crate) fn tensor_of(value: &Value) -> Result<Tensor, String> {
    let mut dims = Vec::new();
    let mut first = value;
    while let Value::Array(items) = first {
        dims.push(items.len() as u64);
        if dims.len() > MAX_RANK {
            return Err(format!("lists more than {MAX_RANK} deep"));
        }
        match items.first() {
            Some(item) => first = item,
            None => break,
        }
    }
    let mut leaves = Vec::new();
    collect(value, &dims, &mut leaves)?;
    let all = |test: fn(&Value) -> bool| !leaves.is_empty() && leaves.iter().all(|leaf| test(leaf));
    let (dtype, buffer) = if all(Value::is_boolean) {
        let bits: Vec<u8> = leaves.iter().map(|leaf| u8::from(leaf.as_bool() == Some(true))).collect();
        (DType::Bool, Buffer::from_slice(&bits))
    } else if all(Value::is_i64) {
        let numbers: Vec<i64> = leaves.iter().filter_map(|leaf| leaf.as_i64()).collect();
        (DType::I64, Buffer::from_elements(&numbers))
    } else if all(Value::is_u64) {
        let numbers: Vec<u64> = leaves.iter().filter_map(|leaf| leaf.as_u64()).collect();
        (DType::U64, Buffer::from_elements(&numbers))
    } else if leaves.iter().all(|leaf| leaf.is_number()) {
        let numbers: Vec<f64> = leaves.iter().filter_map(|leaf| leaf.as_f64()).collect();
        (DType::F64, Buffer::from_elements(&numbers))
    } else {
        let odd = leaves.iter().find(|leaf| !leaf.is_number()).unwrap_or(&value);
        return Err(match odd {
            Value::Bool(_) => "numbers and booleans mixed".to_owned(),
            Value::String(_) => "text".to_owned(),
            Value::Null => "null".to_owned(),
            _ => "an object".to_owned(),
        });
    };
    let shape = Shape::new(dims).map_err(|error| error.to_string())?;
    Tensor::new(dtype, shape, buffer).map_err(|error| error.to_string())
}

/// Appends what is in the lists, which must have the sizes `dims`.
fn collect<'a>(value: &'a Value, dims: &[u64], leaves: &mut Vec<&'a Value>) -> Result<(), String> {
    match (value, dims) {
        (Value::Array(items), [size, rest @ ..]) if items.len() as u64 == *size => {
            items.iter().try_for_each(|item| collect(item, rest, leaves))
        }
        (Value::Array(_), _) | (_, [_, ..]) => Err("lists of different lengths".to_owned()),
        (leaf, []) => {
            leaves.push(leaf);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_and_lists_become_tensors() {
        let check = |value: Value, expected: &str| {
            let found = tensor_of(&value);
            let found = found.map(|t| format!("{} {} {:?}", t.dtype(), t.shape(), t.bytes()));
            assert_eq!(found.unwrap_or_else(|error| error), expected, "{value}");
        };
        check(json!(true), "bool () [1]");
        check(json!([1, -1]), "int64 (2,) [1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]");
        check(json!(u64::MAX), "uint64 () [255, 255, 255, 255, 255, 255, 255, 255]");
        check(json!([[1, 1.5]]), "float64 (1, 2) [0, 0, 0, 0, 0, 0, 240, 63, 0, 0, 0, 0, 0, 0, 248, 63]");
        check(json!([]), "float64 (0,) []");
        check(json!([[], []]), "float64 (2, 0) []");
        check(json!([[1], []]), "lists of different lengths");
        check(json!([1, [2]]), "lists of different lengths");
        check(json!([[1], 2]), "lists of different lengths");
        check(json!([1, true]), "numbers and booleans mixed");
        check(json!(["a"]), "text");
        check(json!(null), "null");
        check(json!([{}]), "an object");
        let mut deep = json!(1);
        for _ in 0..17 {
            deep = json!([deep]);
        }
        check(deep, "lists more than 16 deep");
    }
}
