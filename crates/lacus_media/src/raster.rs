//! A tensor looked at as a picture, for the encoders.

use std::borrow::Cow;

use lacus_tensor::{DType, TensorRef};

use crate::error::Cause;

/// A picture in C order: `(height, width)`, or `(height, width, channels)`.
pub(crate) struct Raster<'a> {
    pub(crate) dtype: DType,
    pub(crate) height: u32,
    pub(crate) width: u32,
    pub(crate) channels: u32,
    pub(crate) bytes: Cow<'a, [u8]>,
}

impl<'a> Raster<'a> {
    /// Looks at `tensor` as a picture with sides of 1 to `longest` pixels, one of `dtypes`, and one of the
    /// numbers of `channels`. A last axis of size 1 counts as gray, like no such axis.
    pub(crate) fn of(
        tensor: &TensorRef<'a>,
        longest: u32,
        dtypes: &[DType],
        channels: &[u32],
    ) -> Result<Raster<'a>, Cause> {
        let expected = || {
            let names: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
            let shapes: Vec<String> = channels
                .iter()
                .map(|count| match count {
                    1 => "(height, width)".to_owned(),
                    count => format!("(height, width, {count})"),
                })
                .collect();
            Cause::request(format!(
                "takes {} of shape {} with sides of 1 to {longest}, found {} of shape {}",
                names.join(" or "),
                shapes.join(" or "),
                tensor.dtype(),
                tensor.shape()
            ))
        };
        let (height, width, found) = match *tensor.shape().dims() {
            [height, width] => (height, width, 1),
            [height, width, found] => (height, width, found),
            _ => return Err(expected()),
        };
        let side = |size: u64| {
            u32::try_from(size).ok().filter(|size| (1..=longest).contains(size)).ok_or_else(expected)
        };
        let (height, width) = (side(height)?, side(width)?);
        let channels =
            channels.iter().copied().find(|&count| u64::from(count) == found).ok_or_else(expected)?;
        if !dtypes.contains(&tensor.dtype()) {
            return Err(expected());
        }
        Ok(Raster { dtype: tensor.dtype(), height, width, channels, bytes: c_order(tensor) })
    }

    /// Bytes of one row of pixels.
    pub(crate) fn row_bytes(&self) -> usize {
        self.width as usize * self.channels as usize * self.dtype.size_bytes()
    }
}

/// The elements' bytes in C order: the tensor's own where they lie so, else a copy.
pub(crate) fn c_order<'a>(tensor: &TensorRef<'a>) -> Cow<'a, [u8]> {
    match tensor.contiguous_bytes() {
        Some(bytes) => Cow::Borrowed(bytes),
        None => Cow::Owned(tensor.to_tensor().bytes().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacus_tensor::Shape;

    #[test]
    fn pictures_are_told_from_other_tensors() {
        let bytes = [0; 4096];
        let check = |dtype: DType, dims: &[u64], expected: Option<(u32, u32, u32)>| {
            let shape = Shape::new(dims).unwrap();
            let length = shape.byte_len(dtype).unwrap();
            let tensor = TensorRef::contiguous(dtype, &shape, &bytes[..length]).unwrap();
            let found = Raster::of(&tensor, 100, &[DType::U8, DType::U16], &[1, 3]);
            assert_eq!(found.ok().map(|r| (r.height, r.width, r.channels)), expected, "{dtype} {dims:?}");
        };
        check(DType::U8, &[4, 5], Some((4, 5, 1)));
        check(DType::U16, &[4, 5, 3], Some((4, 5, 3)));
        check(DType::U8, &[4, 5, 1], Some((4, 5, 1)));
        check(DType::U8, &[4, 5, 4], None);
        check(DType::I8, &[4, 5], None);
        check(DType::U8, &[0, 5], None);
        check(DType::U8, &[101, 5], None);
        check(DType::U8, &[5], None);
        check(DType::U8, &[], None);
    }

    #[test]
    fn a_transposed_tensor_is_put_in_order() {
        let shape = Shape::new([2, 3]).unwrap();
        let tensor = TensorRef::contiguous(DType::U8, &shape, &[1, 2, 3, 4, 5, 6]).unwrap();
        let turned = tensor.transpose(&[1, 0]);
        let raster = Raster::of(&turned, 10, &[DType::U8], &[1]).unwrap();
        assert_eq!((raster.height, raster.width, &*raster.bytes), (3, 2, &[1, 4, 2, 5, 3, 6][..]));
    }
}
