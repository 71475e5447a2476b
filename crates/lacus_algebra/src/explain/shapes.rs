//! Types of tensors as written on a command line: `A=40000x40000,x=1000:float32`.

use crate::error::AlgebraError;
use lacus_tensor::DType;
use std::collections::BTreeMap;

/// The type of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// The type of its elements.
    pub dtype: DType,
    /// Its shape.
    pub dims: Vec<u64>,
}

/// Tensors by name: `name=extent×extent…`, separated by commas, each with `:dtype` after it unless it is float64. `x`
/// and `×` both stand between extents. Fails with the part that cannot be read.
pub fn parse_shapes(text: &str) -> Result<BTreeMap<String, TensorType>, AlgebraError> {
    let mut all = BTreeMap::new();
    if text.trim().is_empty() {
        return Ok(all);
    }
    for part in text.split(',') {
        let part = part.trim();
        let wrong = |expected, found: &str| {
            let found = format!("'{found}' in '{part}'");
            Err(AlgebraError::Argument { what: "shapes", expected, found })
        };
        let Some((name, shape)) = part.split_once('=') else {
            return wrong("a name, '=' and extents, as A=100x200", part);
        };
        let (name, shape) = (name.trim(), shape.trim());
        if name.is_empty() {
            return wrong("a name before '='", name);
        }
        let (extents, element) = match shape.split_once(':') {
            Some((extents, element)) => (extents, element.trim()),
            None => (shape, "float64"),
        };
        let Ok(dtype) = element.parse::<DType>() else {
            return wrong("a type of elements, as float32, int64 or bool", element);
        };
        let mut dims = Vec::new();
        for extent in extents.split(['x', '×']) {
            match extent.trim().replace('_', "").parse::<u64>() {
                Ok(extent) => dims.push(extent),
                Err(_) => return wrong("a whole number of at most 64 bits", extent),
            }
        }
        if all.insert(name.to_owned(), TensorType { dtype, dims }).is_some() {
            return wrong("a name that has no shape yet", name);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_or_refused_with_the_part() {
        let all = parse_shapes("A=40000x40000, v = 1_000:float32,M=2×3×4:bool").unwrap();
        assert_eq!(all["A"], TensorType { dtype: DType::F64, dims: vec![40_000, 40_000] });
        assert_eq!(all["v"], TensorType { dtype: DType::F32, dims: vec![1_000] });
        assert_eq!(all["M"], TensorType { dtype: DType::Bool, dims: vec![2, 3, 4] });
        assert!(parse_shapes(" ").unwrap().is_empty());
        let check = |text: &str, expected: &str| {
            assert_eq!(parse_shapes(text).unwrap_err().to_string(), expected, "{text}");
        };
        check("A", "shapes: 'A' in 'A' is not a name, '=' and extents, as A=100x200");
        check("=3", "shapes: '' in '=3' is not a name before '='");
        check("A=3xx4", "shapes: '' in 'A=3xx4' is not a whole number of at most 64 bits");
        check("B=2,A=3x-4", "shapes: '-4' in 'A=3x-4' is not a whole number of at most 64 bits");
        check(
            "A=3:real",
            "shapes: 'real' in 'A=3:real' is not a type of elements, as float32, int64 or bool",
        );
        check("A=3,A=4", "shapes: 'A' in 'A=4' is not a name that has no shape yet");
    }
}
