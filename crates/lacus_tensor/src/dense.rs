//! Dense tensors: [`Tensor`] owns its elements in C order; [`TensorRef`] looks at somebody's memory
//! through strides (a numpy array, a transposed weight, a memory-mapped file) without copying it.
//!
//! ```
//! use lacus_tensor::{Buffer, DType, Shape, Tensor};
//! let matrix = Tensor::new(DType::U8, Shape::new([2, 3])?, Buffer::from_slice(&[1, 2, 3, 4, 5, 6]))?;
//! assert_eq!(matrix.as_ref().transpose(&[1, 0]).to_tensor().bytes(), [1, 4, 2, 5, 3, 6]);
//! # Ok::<(), lacus_tensor::TensorError>(())
//! ```

use crate::buffer::Buffer;
use crate::dtype::DType;
use crate::error::TensorError;
use crate::shape::{MAX_RANK, Shape};
use crate::strided::{Loop, Nest};
use std::fmt;

/// A dense tensor in C order, little-endian, that owns its memory. Equality is bitwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    dtype: DType,
    shape: Shape,
    buffer: Buffer,
}

impl Tensor {
    /// A tensor over `buffer`. Fails unless the buffer holds exactly the elements of `shape`.
    pub fn new(dtype: DType, shape: Shape, buffer: Buffer) -> Result<Tensor, TensorError> {
        let expected = shape.byte_len(dtype)?;
        if buffer.len() != expected {
            return Err(TensorError::WrongLength { what: "the tensor", expected, found: buffer.len() });
        }
        Ok(Tensor { dtype, shape, buffer })
    }

    /// A tensor of zeros. Fails if it does not fit into memory.
    pub fn zeros(dtype: DType, shape: Shape) -> Result<Tensor, TensorError> {
        let buffer = Buffer::try_zeroed(shape.byte_len(dtype)?)?;
        Ok(Tensor { dtype, shape, buffer })
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The elements' bytes, C order.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// The elements' bytes, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// The memory that holds the elements.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Gives the memory away.
    pub fn into_buffer(self) -> Buffer {
        self.buffer
    }

    /// A view of the whole tensor.
    pub fn as_ref(&self) -> TensorRef<'_> {
        TensorRef {
            dtype: self.dtype,
            shape: self.shape.clone(),
            strides: c_strides(self.dtype, &self.shape),
            origin: 0,
            bytes: &self.buffer,
        }
    }
}

/// A borrowed dense tensor with strides in bytes, which may be negative or zero.
#[derive(Clone)]
pub struct TensorRef<'a> {
    dtype: DType,
    shape: Shape,
    strides: [i64; MAX_RANK],
    origin: usize,
    bytes: &'a [u8],
}

impl<'a> TensorRef<'a> {
    /// A view of C-order bytes. Fails unless there are exactly as many as `shape` takes.
    pub fn contiguous(dtype: DType, shape: &Shape, bytes: &'a [u8]) -> Result<TensorRef<'a>, TensorError> {
        let expected = shape.byte_len(dtype)?;
        if bytes.len() != expected {
            return Err(TensorError::WrongLength { what: "the tensor", expected, found: bytes.len() });
        }
        Ok(TensorRef { dtype, shape: shape.clone(), strides: c_strides(dtype, shape), origin: 0, bytes })
    }

    /// A view of elements `strides_bytes` apart, the first at byte `origin`. Fails unless every element
    /// lies inside of `bytes`.
    pub fn strided(
        dtype: DType,
        shape: &Shape,
        strides_bytes: &[i64],
        origin: usize,
        bytes: &'a [u8],
    ) -> Result<TensorRef<'a>, TensorError> {
        let expected = shape.byte_len(dtype)?;
        let bad_strides = || TensorError::BadStrides {
            shape: Box::new(shape.clone()),
            strides: strides_bytes.to_vec(),
            origin,
            len: bytes.len(),
        };
        if strides_bytes.len() != shape.rank() {
            return Err(bad_strides());
        }
        if expected == 0 {
            return TensorRef::contiguous(dtype, shape, &[]);
        }
        // In i128 nothing overflows: the sizes multiply to less than 2^63, so their sum does not exceed it.
        let (mut first, mut last) = (origin as i128, origin as i128);
        for (&size, &stride) in shape.dims().iter().zip(strides_bytes) {
            let reach = (size as i128 - 1) * i128::from(stride);
            if reach < 0 { first += reach } else { last += reach }
        }
        if first < 0 || last + dtype.size_bytes() as i128 > bytes.len() as i128 {
            return Err(bad_strides());
        }
        let mut strides = [0; MAX_RANK];
        strides[..strides_bytes.len()].copy_from_slice(strides_bytes);
        Ok(TensorRef { dtype, shape: shape.clone(), strides, origin, bytes })
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Where its first element is. Without elements it may be anywhere.
    pub fn first(&self) -> *const u8 {
        self.bytes.as_ptr().wrapping_add(self.origin)
    }

    /// Strides in bytes, one per axis.
    pub fn strides(&self) -> &[i64] {
        &self.strides[..self.shape.rank()]
    }

    /// True when the elements lie in C order without gaps.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = self.dtype.size_bytes() as i64;
        for (&size, &stride) in self.shape.dims().iter().zip(self.strides()).rev() {
            if size == 0 {
                return true;
            }
            if size != 1 && stride != expected {
                return self.shape.dims().contains(&0);
            }
            expected = expected.saturating_mul(size as i64);
        }
        true
    }

    /// The elements' bytes when they lie in C order without gaps.
    pub fn contiguous_bytes(&self) -> Option<&'a [u8]> {
        self.is_contiguous().then(|| &self.bytes[self.origin..self.origin + self.byte_len()])
    }

    /// The box of `extent` elements per axis that starts at `origin`.
    ///
    /// # Panics
    /// If the box is not inside of the tensor.
    pub fn region(&self, origin: &[u64], extent: &[u64]) -> TensorRef<'a> {
        let rank = self.shape.rank();
        assert!(origin.len() == rank && extent.len() == rank, "a region has one range per axis");
        let mut region = self.clone();
        region.shape = Shape::from_dims(extent).expect("a region has as many axes as its tensor");
        let mut start = self.origin as i64;
        for (axis, (&from, &size)) in origin.iter().zip(extent).enumerate() {
            let inside = from.checked_add(size).is_some_and(|end| end <= self.shape.dims()[axis]);
            assert!(inside, "region {origin:?} + {extent:?} is outside of {}", self.shape);
            // An empty region may start at the end of an axis, where no element is.
            start = start.wrapping_add((from as i64).wrapping_mul(self.strides[axis]));
        }
        region.origin = if extent.contains(&0) { 0 } else { start as usize };
        region
    }

    /// The tensor at `index` of the first axis, without that axis.
    ///
    /// # Panics
    /// If there is no such axis, or no such place on it.
    pub fn row(&self, index: u64) -> TensorRef<'a> {
        let dims = self.shape.dims();
        assert!(dims.first().is_some_and(|rows| index < *rows), "row {index} is outside of {}", self.shape);
        let shape = Shape::from_dims(&dims[1..]).expect("a row has fewer axes than its tensor");
        let mut strides = [0; MAX_RANK];
        strides[..shape.rank()].copy_from_slice(&self.strides[1..dims.len()]);
        // As in a region, there is no first element where there are none.
        let start = (self.origin as i64).wrapping_add((index as i64).wrapping_mul(self.strides[0]));
        let origin = if shape.dims().contains(&0) { 0 } else { start as usize };
        TensorRef { shape, strides, origin, ..self.clone() }
    }

    /// The same elements with axis `order[k]` in place `k`.
    ///
    /// # Panics
    /// If `order` is not a permutation of the axes.
    pub fn transpose(&self, order: &[usize]) -> TensorRef<'a> {
        let mut axes = order.to_vec();
        axes.sort_unstable();
        assert!(axes.into_iter().eq(0..self.shape.rank()), "{order:?} is not an order of the axes");
        let dims: Vec<u64> = order.iter().map(|&axis| self.shape.dims()[axis]).collect();
        let mut strides = [0; MAX_RANK];
        for (stride, &axis) in strides.iter_mut().zip(order) {
            *stride = self.strides[axis];
        }
        let shape = Shape::from_dims(&dims).expect("a transposed tensor has as many axes");
        TensorRef { shape, strides, ..self.clone() }
    }

    /// Writes the elements in C order.
    ///
    /// # Panics
    /// If `out` is not exactly as long as the elements take.
    pub fn copy_to(&self, out: &mut [u8]) {
        assert_eq!(out.len(), self.byte_len(), "the output must hold the tensor exactly");
        if let Some(bytes) = self.contiguous_bytes() {
            return out.copy_from_slice(bytes);
        }
        let to = c_strides(self.dtype, &self.shape);
        let loops = self.shape.dims().iter().enumerate().map(|(axis, &size)| Loop {
            count: size as usize,
            src: self.strides[axis] as isize,
            dst: to[axis] as isize,
        });
        let nest = Nest::new(loops, self.dtype.size_bytes());
        // SAFETY: the constructors checked that every element lies inside of `bytes` (regions and
        // transpositions keep to the same elements), `out` holds them all in C order, and an exclusive
        // borrow does not overlap a shared one.
        unsafe { nest.copy(self.bytes.as_ptr().add(self.origin), out.as_mut_ptr()) };
    }

    /// An owned copy in C order.
    pub fn to_tensor(&self) -> Tensor {
        let mut buffer = Buffer::for_overwrite(self.byte_len());
        self.copy_to(&mut buffer);
        Tensor { dtype: self.dtype, shape: self.shape.clone(), buffer }
    }

    /// Bytes of the elements in C order; the constructors checked that they can be addressed.
    pub(crate) fn byte_len(&self) -> usize {
        self.shape.elements_saturating() as usize * self.dtype.size_bytes()
    }
}

impl fmt::Debug for TensorRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorRef({} {} strides {:?})", self.dtype, self.shape, self.strides())
    }
}

fn c_strides(dtype: DType, shape: &Shape) -> [i64; MAX_RANK] {
    let mut strides = [0; MAX_RANK];
    for (place, stride) in strides.iter_mut().zip(shape.strides_elements()) {
        *place = i64::try_from(stride).unwrap_or(i64::MAX).saturating_mul(dtype.size_bytes() as i64);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(dims: &[u64]) -> Tensor {
        let shape = Shape::new(dims).unwrap();
        let bytes: Vec<u8> = (0..shape.elements().unwrap()).map(|value| value as u8).collect();
        Tensor::new(DType::U8, shape, Buffer::from_slice(&bytes)).unwrap()
    }

    #[test]
    fn lengths_are_checked() {
        let shape = Shape::new([2, 3]).unwrap();
        let error = Tensor::new(DType::F32, shape.clone(), Buffer::zeroed(23)).unwrap_err();
        assert_eq!(error.to_string(), "the tensor takes 24 bytes, found 23");
        assert!(TensorRef::contiguous(DType::F32, &shape, &[0; 25]).is_err());
        let endless = Shape::new([1 << 62]).unwrap();
        let error = Tensor::zeros(DType::U8, endless).unwrap_err().to_string();
        assert!(error.contains("takes 4611686018427387904 bytes of memory"), "{error}");
        assert_eq!(Tensor::zeros(DType::C128, Shape::default()).unwrap().bytes(), [0; 16]);
    }

    #[test]
    fn strides_must_stay_inside() {
        let check = |dims: &[u64], strides: &[i64], origin, len: usize, valid| {
            let bytes = vec![0; len];
            let shape = Shape::new(dims).unwrap();
            let view = TensorRef::strided(DType::U16, &shape, strides, origin, &bytes);
            assert_eq!(view.is_ok(), valid, "{dims:?} {strides:?} from {origin} in {len}");
        };
        check(&[3], &[2], 0, 6, true);
        check(&[3], &[2], 0, 5, false);
        check(&[3], &[2], 1, 7, true);
        check(&[3], &[-2], 4, 6, true);
        check(&[3], &[-2], 3, 6, false);
        check(&[3], &[0], 4, 6, true);
        check(&[3], &[i64::MAX], 0, 6, false);
        check(&[1], &[i64::MIN], 0, 2, true);
        check(&[3, 2], &[2, -2], 2, 8, true);
        check(&[3, 2], &[2], 0, 80, false);
        check(&[], &[], 0, 2, true);
        check(&[], &[], 1, 2, false);
        check(&[0, 5], &[100, 100], 77, 0, true);
        check(&[1 << 62, 4], &[0, 0], 0, 2, false);
    }

    #[test]
    fn views_read_what_numpy_reads() {
        let tensor = counting(&[2, 3, 4]);
        let whole = tensor.as_ref();
        let check = |view: TensorRef<'_>, dims: &[u64], expected: &[u8]| {
            assert_eq!(view.shape().dims(), dims);
            assert_eq!(view.to_tensor().bytes(), expected);
        };
        // a[1:, 1:, 1:3]
        check(whole.region(&[1, 1, 1], &[1, 2, 2]), &[1, 2, 2], &[17, 18, 21, 22]);
        // a.transpose(2, 0, 1)[1:3]
        let turned = whole.transpose(&[2, 0, 1]);
        check(
            turned.region(&[1, 0, 0], &[2, 2, 3]),
            &[2, 2, 3],
            &[1, 5, 9, 13, 17, 21, 2, 6, 10, 14, 18, 22],
        );
        check(whole.region(&[2, 3, 4], &[0, 0, 0]), &[0, 0, 0], &[]);
        check(whole.region(&[1, 0, 0], &[0, 3, 4]).transpose(&[2, 1, 0]), &[4, 3, 0], &[]);
        // a[:, ::-1, :1], and a broadcast row.
        let shape = Shape::new([2, 3, 1]).unwrap();
        let flipped = TensorRef::strided(DType::U8, &shape, &[12, -4, 1], 8, tensor.bytes()).unwrap();
        check(flipped, &[2, 3, 1], &[8, 4, 0, 20, 16, 12]);
        let repeated =
            TensorRef::strided(DType::U8, &Shape::new([3, 2]).unwrap(), &[0, 1], 5, tensor.bytes());
        check(repeated.unwrap(), &[3, 2], &[5, 6, 5, 6, 5, 6]);
    }

    #[test]
    fn contiguity_ignores_axes_of_one() {
        let tensor = counting(&[2, 3, 4]);
        let whole = tensor.as_ref();
        assert_eq!(whole.contiguous_bytes(), Some(tensor.bytes()));
        assert_eq!(whole.region(&[1, 0, 0], &[1, 3, 4]).contiguous_bytes(), Some(&tensor.bytes()[12..]));
        assert_eq!(whole.region(&[1, 1, 2], &[1, 1, 2]).contiguous_bytes(), Some(&[18, 19][..]));
        assert!(!whole.region(&[0, 0, 0], &[2, 2, 4]).is_contiguous());
        assert!(!whole.transpose(&[1, 0, 2]).is_contiguous());
        assert!(whole.transpose(&[1, 0, 2]).region(&[0, 0, 0], &[1, 0, 1]).is_contiguous());
    }
}
