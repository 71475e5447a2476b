//! Elements of any dtype as numbers to compute with, and back.
//!
//! Nothing is computed in fifteen types: elements are widened to one of four, and results are narrowed to their dtype. Integers
//! wrap and floats are cut as C's casts do it, which is what numpy does.

use half::{bf16, f16};
use lacus_tensor::{Buffer, DType, Shape, Tensor, TensorError, TensorRef};

/// The type in which elements of a dtype are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// `i64`: signed integers and truth values.
    Int,
    /// `u64`.
    Uint,
    /// `f32`: as numpy does it for half precision, too.
    Single,
    /// `f64`.
    Double,
    /// Two `f64`.
    Complex,
}

impl Class {
    /// Of a dtype.
    pub(crate) fn of(dtype: DType) -> Class {
        match dtype {
            DType::Bool | DType::I8 | DType::I16 | DType::I32 | DType::I64 => Class::Int,
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => Class::Uint,
            DType::F16 | DType::BF16 | DType::F32 => Class::Single,
            DType::F64 => Class::Double,
            DType::C64 | DType::C128 => Class::Complex,
        }
    }
}

/// A number to compute with.
pub(crate) trait Wide: Copy + Default + PartialOrd + PartialEq + 'static {
    fn of_i64(value: i64) -> Self;
    fn of_u64(value: u64) -> Self;
    fn of_f32(value: f32) -> Self;
    fn of_f64(value: f64) -> Self;
    /// The lowest bits of the integer; floats are cut.
    fn bits(self) -> u64;
    fn single(self) -> f32;
    fn double(self) -> f64;
    fn is_true(self) -> bool;
}

macro_rules! wide {
    ($type:ty, $bits:expr) => {
        impl Wide for $type {
            fn of_i64(value: i64) -> $type {
                value as $type
            }
            fn of_u64(value: u64) -> $type {
                value as $type
            }
            fn of_f32(value: f32) -> $type {
                value as $type
            }
            fn of_f64(value: f64) -> $type {
                value as $type
            }
            fn bits(self) -> u64 {
                $bits(self)
            }
            fn single(self) -> f32 {
                self as f32
            }
            fn double(self) -> f64 {
                self as f64
            }
            fn is_true(self) -> bool {
                self != <$type>::default()
            }
        }
    };
}
wide!(i64, |value: i64| value as u64);
wide!(u64, |value: u64| value);
wide!(i128, |value: i128| value as u64);
wide!(f32, |value: f32| if value < 0.0 { value as i64 as u64 } else { value as u64 });
wide!(f64, |value: f64| if value < 0.0 { value as i64 as u64 } else { value as u64 });

/// Appends elements, widened. Of complex numbers the real parts.
pub(crate) fn load<W: Wide>(dtype: DType, bytes: &[u8], out: &mut Vec<W>) {
    macro_rules! each {
        ($size:literal, $read:expr) => {
            out.extend(bytes.as_chunks::<$size>().0.iter().map(|item| $read(*item)))
        };
    }
    match dtype {
        DType::Bool => each!(1, |item: [u8; 1]| W::of_i64(i64::from(item[0] != 0))),
        DType::U8 => each!(1, |item: [u8; 1]| W::of_u64(u64::from(item[0]))),
        DType::I8 => each!(1, |item| W::of_i64(i64::from(i8::from_le_bytes(item)))),
        DType::I16 => each!(2, |item| W::of_i64(i64::from(i16::from_le_bytes(item)))),
        DType::I32 => each!(4, |item| W::of_i64(i64::from(i32::from_le_bytes(item)))),
        DType::I64 => each!(8, |item| W::of_i64(i64::from_le_bytes(item))),
        DType::U16 => each!(2, |item| W::of_u64(u64::from(u16::from_le_bytes(item)))),
        DType::U32 => each!(4, |item| W::of_u64(u64::from(u32::from_le_bytes(item)))),
        DType::U64 => each!(8, |item| W::of_u64(u64::from_le_bytes(item))),
        DType::F16 => each!(2, |item| W::of_f32(f16::from_le_bytes(item).to_f32())),
        DType::BF16 => each!(2, |item| W::of_f32(bf16::from_le_bytes(item).to_f32())),
        DType::F32 => each!(4, |item| W::of_f32(f32::from_le_bytes(item))),
        DType::F64 => each!(8, |item| W::of_f64(f64::from_le_bytes(item))),
        DType::C64 => {
            each!(8, |item: [u8; 8]| W::of_f32(f32::from_le_bytes([item[0], item[1], item[2], item[3]])))
        }
        DType::C128 => out.extend(
            bytes.as_chunks::<8>().0.iter().step_by(2).map(|item| W::of_f64(f64::from_le_bytes(*item))),
        ),
    }
}

/// All elements, widened.
pub(crate) fn loaded<W: Wide>(dtype: DType, bytes: &[u8]) -> Vec<W> {
    let mut out = Vec::with_capacity(bytes.len() / dtype.size_bytes());
    load(dtype, bytes, &mut out);
    out
}

/// Writes numbers as elements; `out` has room for exactly as many. Imaginary parts are zero.
pub(crate) fn store<W: Wide>(dtype: DType, values: &[W], out: &mut [u8]) {
    macro_rules! each {
        ($size:literal, $write:expr) => {
            for (item, value) in out.as_chunks_mut::<$size>().0.iter_mut().zip(values) {
                *item = $write(*value);
            }
        };
    }
    match dtype {
        DType::Bool => each!(1, |value: W| [u8::from(value.is_true())]),
        DType::U8 | DType::I8 => each!(1, |value: W| [value.bits() as u8]),
        DType::U16 | DType::I16 => each!(2, |value: W| (value.bits() as u16).to_le_bytes()),
        DType::U32 | DType::I32 => each!(4, |value: W| (value.bits() as u32).to_le_bytes()),
        DType::U64 | DType::I64 => each!(8, |value: W| value.bits().to_le_bytes()),
        DType::F16 => each!(2, |value: W| f16::from_f64(value.double()).to_le_bytes()),
        DType::BF16 => each!(2, |value: W| bf16::from_f64(value.double()).to_le_bytes()),
        DType::F32 => each!(4, |value: W| value.single().to_le_bytes()),
        DType::F64 => each!(8, |value: W| value.double().to_le_bytes()),
        DType::C64 => each!(8, |value: W| {
            let mut item = [0; 8];
            item[..4].copy_from_slice(&value.single().to_le_bytes());
            item
        }),
        DType::C128 => each!(16, |value: W| {
            let mut item = [0; 16];
            item[..8].copy_from_slice(&value.double().to_le_bytes());
            item
        }),
    }
}

/// Complex numbers; real ones have no imaginary part.
pub(crate) fn loaded_complex(dtype: DType, bytes: &[u8]) -> Vec<[f64; 2]> {
    match dtype {
        DType::C64 => pairs(&loaded::<f64>(DType::F32, bytes)),
        DType::C128 => pairs(&loaded::<f64>(DType::F64, bytes)),
        real => loaded::<f64>(real, bytes).into_iter().map(|value| [value, 0.0]).collect(),
    }
}

fn pairs(parts: &[f64]) -> Vec<[f64; 2]> {
    parts.as_chunks::<2>().0.to_vec()
}

/// Writes complex numbers as elements of a complex dtype, or their real parts as those of another.
pub(crate) fn store_complex(dtype: DType, values: &[[f64; 2]], out: &mut [u8]) {
    match dtype {
        DType::C64 => store(DType::F32, values.as_flattened(), out),
        DType::C128 => store(DType::F64, values.as_flattened(), out),
        real => store(real, &values.iter().map(|value| value[0]).collect::<Vec<_>>(), out),
    }
}

/// A tensor of these numbers, narrowed to a dtype. Fails unless there are as many as the shape takes.
pub(crate) fn tensor_of<W: Wide>(dtype: DType, shape: &[u64], values: &[W]) -> Result<Tensor, TensorError> {
    let shape = Shape::new(shape)?;
    let mut buffer = Buffer::try_for_overwrite(values.len() * dtype.size_bytes())?;
    store(dtype, values, &mut buffer);
    Tensor::new(dtype, shape, buffer)
}

/// The bytes of a tensor in C order; copied if they lie otherwise.
pub(crate) fn in_order<'a>(tensor: &TensorRef<'a>) -> std::borrow::Cow<'a, [u8]> {
    match tensor.contiguous_bytes() {
        Some(bytes) => bytes.into(),
        None => tensor.to_tensor().bytes().to_vec().into(),
    }
}

/// The same numbers in another dtype, as `astype` of numpy makes them.
pub(crate) fn cast(tensor: &TensorRef<'_>, dtype: DType) -> Result<Tensor, TensorError> {
    let from = tensor.dtype();
    if from == dtype {
        return Ok(tensor.to_tensor());
    }
    let bytes = in_order(tensor);
    let count = bytes.len() / from.size_bytes();
    let mut buffer = Buffer::try_for_overwrite(count * dtype.size_bytes())?;
    // In blocks, which stay in the cache.
    const BLOCK: usize = 4096;
    let blocks = bytes.chunks(BLOCK * from.size_bytes()).zip(buffer.chunks_mut(BLOCK * dtype.size_bytes()));
    for (bytes, out) in blocks {
        match (Class::of(from), Class::of(dtype)) {
            (Class::Complex, _) | (_, Class::Complex) => {
                store_complex(dtype, &loaded_complex(from, bytes), out)
            }
            (Class::Int, _) => store(dtype, &loaded::<i64>(from, bytes), out),
            (Class::Uint, _) => store(dtype, &loaded::<u64>(from, bytes), out),
            (Class::Single, _) => store(dtype, &loaded::<f32>(from, bytes), out),
            (Class::Double, _) => store(dtype, &loaded::<f64>(from, bytes), out),
        }
    }
    Tensor::new(dtype, tensor.shape().clone(), buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_are_numpys() {
        let check = |from: DType, value: f64, to: DType, expected: f64| {
            let tensor = tensor_of(from, &[1], &[value]).unwrap();
            let found = cast(&tensor.as_ref(), to).unwrap();
            assert_eq!(loaded::<f64>(to, found.bytes()), [expected], "{value} of {from} as {to}");
        };
        check(DType::F64, 2.9, DType::I32, 2.0);
        check(DType::F64, -2.9, DType::I32, -2.0);
        check(DType::F64, 300.0, DType::U8, 44.0);
        check(DType::I64, -1.0, DType::U8, 255.0);
        check(DType::I16, -1.0, DType::U16, 65535.0);
        check(DType::F32, 0.5, DType::Bool, 1.0);
        check(DType::U8, 200.0, DType::I8, -56.0);
        check(DType::F64, 1.0 / 3.0, DType::F16, f64::from(f16::from_f64(1.0 / 3.0)));
        check(DType::F64, 70000.0, DType::F16, f64::INFINITY);
        check(DType::F32, 3.0, DType::C64, 3.0);
        check(DType::BF16, 1.5, DType::F64, 1.5);
        let large = tensor_of(DType::U64, &[1], &[u64::MAX]).unwrap();
        assert_eq!(loaded::<u64>(DType::U64, cast(&large.as_ref(), DType::U64).unwrap().bytes()), [u64::MAX]);
        assert_eq!(
            loaded::<f64>(DType::F64, cast(&large.as_ref(), DType::F64).unwrap().bytes()),
            [u64::MAX as f64]
        );
    }
}
