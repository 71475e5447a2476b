//! Small dense arrays: what the reference interpreters compute with. Slow and plain on purpose; the engine has
//! its own kernels and is compared with these.

use crate::error::AlgebraError;
use lacus_tensor::Scalar;
use lacus_tensor::{Buffer, DType, Shape, Tensor};

/// A small dense array in C order.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    dtype: DType,
    dims: Vec<usize>,
    items: Vec<Scalar>,
}

impl Array {
    /// An array of these elements, which are converted to `dtype` (one of bool, i64, f32, f64). Fails if there
    /// are not as many as the shape says.
    pub fn new(dtype: DType, dims: Vec<usize>, items: Vec<Scalar>) -> Result<Array, AlgebraError> {
        let count = dims.iter().try_fold(1usize, |product, &n| product.checked_mul(n));
        if count != Some(items.len()) {
            return Err(AlgebraError::TileShapes {
                what: format!("an array of {} elements", items.len()),
                shapes: vec![dims],
            });
        }
        let items = items.into_iter().map(|item| item.convert(dtype)).collect();
        Ok(Array { dtype, dims, items })
    }

    /// An array with `item(position)` at each position, in C order.
    pub fn from_fn(dtype: DType, dims: &[usize], mut item: impl FnMut(&[usize]) -> Scalar) -> Array {
        let items = positions(dims).map(|at| item(&at).convert(dtype)).collect();
        Array { dtype, dims: dims.to_vec(), items }
    }

    /// A scalar.
    pub fn scalar(item: Scalar) -> Array {
        Array { dtype: item.dtype(), dims: Vec::new(), items: vec![item] }
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its shape.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Its elements in C order.
    pub fn items(&self) -> &[Scalar] {
        &self.items
    }

    /// The element at a position within the shape.
    pub fn at(&self, position: &[usize]) -> Scalar {
        let offset = position.iter().zip(&self.dims).fold(0, |offset, (&at, &n)| offset * n + at);
        self.items[offset]
    }

    /// The same array with every element mapped; `dtype` is the type of the results.
    pub fn map(&self, dtype: DType, f: impl Fn(Scalar) -> Scalar) -> Array {
        let items = self.items.iter().map(|&item| f(item).convert(dtype)).collect();
        Array { dtype, dims: self.dims.clone(), items }
    }

    /// As a tensor. Fails if there is no memory for it.
    pub fn to_tensor(&self) -> Result<Tensor, AlgebraError> {
        let shape = Shape::new(self.dims.iter().map(|&n| n as u64).collect::<Vec<_>>())?;
        let buffer = match self.dtype {
            DType::Bool => {
                Buffer::from_slice(&self.items.iter().map(|x| u8::from(x.is_true())).collect::<Vec<_>>())
            }
            DType::I64 => Buffer::from_elements(&self.items.iter().map(|x| x.to_i64()).collect::<Vec<_>>()),
            DType::F32 => {
                Buffer::from_elements(&self.items.iter().map(|x| x.to_f64() as f32).collect::<Vec<_>>())
            }
            _ => Buffer::from_elements(&self.items.iter().map(|x| x.to_f64()).collect::<Vec<_>>()),
        };
        Ok(Tensor::new(self.dtype, shape, buffer)?)
    }

    /// A tensor's elements in the type they are computed in, see [`compute_dtype`]. `None` for the others.
    pub fn from_tensor(tensor: &Tensor) -> Option<Array> {
        let dtype = compute_dtype(tensor.dtype())?;
        let bytes = tensor.bytes();
        macro_rules! items {
            ($t:ty, $make:expr) => {
                bytes
                    .as_chunks::<{ size_of::<$t>() }>()
                    .0
                    .iter()
                    .map(|b| $make(<$t>::from_le_bytes(*b)))
                    .collect()
            };
        }
        let items: Vec<Scalar> = match tensor.dtype() {
            DType::Bool => bytes.iter().map(|&b| Scalar::Bool(b != 0)).collect(),
            DType::I8 => items!(i8, |x| Scalar::I64(i64::from(x))),
            DType::I16 => items!(i16, |x| Scalar::I64(i64::from(x))),
            DType::I32 => items!(i32, |x| Scalar::I64(i64::from(x))),
            DType::I64 => items!(i64, Scalar::I64),
            DType::U8 => items!(u8, |x| Scalar::I64(i64::from(x))),
            DType::U16 => items!(u16, |x| Scalar::I64(i64::from(x))),
            DType::U32 => items!(u32, |x| Scalar::I64(i64::from(x))),
            DType::F32 => items!(f32, Scalar::F32),
            DType::F64 => items!(f64, Scalar::F64),
            _ => return None,
        };
        let dims = tensor.shape().dims().iter().map(|&n| n as usize).collect();
        Some(Array { dtype, dims, items })
    }
}

/// The type that elements of a stored type are computed in: bool, f32 and f64 stay, integers that fit become
/// i64. `None` for u64, complex numbers and the half-precision floats.
pub fn compute_dtype(dtype: DType) -> Option<DType> {
    match dtype {
        DType::Bool | DType::F32 | DType::F64 => Some(dtype),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 | DType::U16 | DType::U32 => {
            Some(DType::I64)
        }
        DType::U64 | DType::F16 | DType::BF16 | DType::C64 | DType::C128 => None,
    }
}

/// All positions within a shape, in C order.
pub(crate) fn positions(dims: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let dims = dims.to_vec();
    let mut next = if dims.contains(&0) { None } else { Some(vec![0; dims.len()]) };
    std::iter::from_fn(move || {
        let current = next.clone()?;
        let mut axis = dims.len();
        next = loop {
            if axis == 0 {
                break None;
            }
            axis -= 1;
            let at = next.as_mut()?;
            at[axis] += 1;
            if at[axis] < dims[axis] {
                break next.take();
            }
            at[axis] = 0;
        };
        Some(current)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_come_in_c_order() {
        let all: Vec<_> = positions(&[2, 2]).collect();
        assert_eq!(all, [vec![0, 0], vec![0, 1], vec![1, 0], vec![1, 1]]);
        assert_eq!(positions(&[]).count(), 1);
        assert_eq!(positions(&[3, 0]).count(), 0);
    }

    #[test]
    fn tensors_come_and_go() {
        let array = Array::from_fn(DType::F32, &[2, 3], |at| Scalar::I64((at[0] * 3 + at[1]) as i64));
        let tensor = array.to_tensor().unwrap();
        assert_eq!(Array::from_tensor(&tensor), Some(array));
        let bytes = Tensor::new(DType::U8, Shape::new([2]).unwrap(), Buffer::from_slice(&[3, 255])).unwrap();
        assert_eq!(Array::from_tensor(&bytes).unwrap().items(), [Scalar::I64(3), Scalar::I64(255)]);
        assert!(Array::new(DType::I64, vec![2], vec![]).is_err());
    }
}
