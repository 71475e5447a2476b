//! `.npy`: one dense array, as `numpy.save` writes it.
//!
//! ```text
//! \x93NUMPY | version | header length | {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), } | elements
//! 6 bytes     2 bytes   2 or 4 bytes    a Python literal, padded so that the elements are aligned
//! ```
//!
//! Versions 1 to 3 are read. Elements in Fortran order stay where they are and get strides; big-endian
//! ones are swapped into memory of their own. numpy has no bfloat16, so that is not written.

use std::io::Write;
use std::ops::Range;

use lacus_tensor::{Buffer, DType, Shape, TensorRef};

use crate::error::{Fault, quoted};
use crate::value::{HeldDense, for_each_block};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads the array that `bytes` hold, all of them. The result's range is within `bytes`, and it owns
/// memory only if the elements had to be swapped.
pub(crate) fn read(bytes: &[u8]) -> Result<HeldDense, Fault> {
    let header = Header::parse(bytes)?;
    let expected = header.shape.byte_len(header.dtype)?;
    let found = bytes.len() - header.data_start;
    if found != expected {
        return Err(Fault::malformed(format!(
            "{} elements of shape {} take {expected} bytes, found {found}",
            header.dtype, header.shape
        )));
    }
    let range = header.data_start..bytes.len();
    let Header { dtype, shape, fortran, .. } = header;
    if !header.big_endian {
        return Ok(HeldDense { dtype, shape, fortran, range, owned: None });
    }
    let mut swapped = Buffer::try_for_overwrite(expected)?;
    swap_into(&mut swapped, &bytes[range], dtype.component_bytes());
    Ok(HeldDense { dtype, shape, fortran, range: 0..expected, owned: Some(swapped) })
}

/// The bytes of an `.npy` file before its elements, which follow little-endian and in C order. `None` for bfloat16, which numpy
/// does not have.
pub fn npy_header(dtype: DType, shape: &Shape) -> Option<Vec<u8>> {
    header(dtype, shape, false).ok()
}

/// The bytes before the elements, for a little-endian array.
pub(crate) fn header(dtype: DType, shape: &Shape, fortran: bool) -> Result<Vec<u8>, Fault> {
    let order = if fortran { "True" } else { "False" };
    let mut literal =
        format!("{{'descr': '{}', 'fortran_order': {order}, 'shape': {shape}, }}", descr(dtype)?)
            .into_bytes();
    // The line end is part of the length, which makes everything before the elements a multiple of 64.
    let before = MAGIC.len() + 4;
    let length = (before + literal.len() + 1).next_multiple_of(64) - before;
    literal.resize(length - 1, b' ');
    literal.push(b'\n');
    let length = u16::try_from(length).expect("sixteen dimensions of twenty digits fit");
    Ok([MAGIC, &[1, 0], &length.to_le_bytes(), &literal].concat())
}

/// Writes a whole array in C order.
pub(crate) fn write(out: &mut impl Write, tensor: &TensorRef<'_>) -> Result<(), Fault> {
    let header = header(tensor.dtype(), tensor.shape(), false)?;
    out.write_all(&header).map_err(Fault::io("write"))?;
    for_each_block(tensor, |block| out.write_all(block)).map_err(Fault::io("write"))
}

/// numpy's short name of a dtype.
fn descr(dtype: DType) -> Result<&'static str, Fault> {
    Ok(match dtype {
        DType::Bool => "|b1",
        DType::I8 => "|i1",
        DType::U8 => "|u1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::C64 => "<c8",
        DType::C128 => "<c16",
        DType::BF16 => {
            return Err(Fault::unsupported(
                "numpy files have no bfloat16; write a .safetensors file instead",
            ));
        }
    })
}

/// The dtype behind numpy's short name, and whether it is big-endian.
fn dtype_of(descr: &[u8]) -> Result<(DType, bool), Fault> {
    let (order, name) = match descr {
        [order @ (b'<' | b'>' | b'|' | b'='), name @ ..] => (*order, name),
        name => (b'=', name),
    };
    let dtype = match name {
        b"b1" | b"?" => DType::Bool,
        b"i1" => DType::I8,
        b"i2" => DType::I16,
        b"i4" => DType::I32,
        b"i8" => DType::I64,
        b"u1" => DType::U8,
        b"u2" => DType::U16,
        b"u4" => DType::U32,
        b"u8" => DType::U64,
        b"f2" => DType::F16,
        b"f4" => DType::F32,
        b"f8" => DType::F64,
        b"c8" => DType::C64,
        b"c16" => DType::C128,
        _ => {
            let what = match name.first() {
                Some(b'U' | b'S' | b'a') => "text is no tensor",
                Some(b'O') => "Python objects are no tensor",
                Some(b'M' | b'm') => "times, which could be stored as int64",
                Some(b'V') => "raw bytes; bfloat16 arrives this way, and safely in a .safetensors file",
                _ => "no tensor elements",
            };
            return Err(Fault::unsupported(format!("dtype {}: {what}", quoted(descr))));
        }
    };
    Ok((dtype, order == b'>' && dtype.component_bytes() > 1))
}

/// Copies `from` with the bytes of each component reversed.
fn swap_into(into: &mut [u8], from: &[u8], width: usize) {
    into.copy_from_slice(from);
    macro_rules! swap {
        ($width:literal) => {
            into.as_chunks_mut::<$width>().0.iter_mut().for_each(|item| item.reverse())
        };
    }
    match width {
        2 => swap!(2),
        4 => swap!(4),
        8 => swap!(8),
        _ => {}
    }
}

/// What the literal says.
struct Header {
    dtype: DType,
    big_endian: bool,
    fortran: bool,
    shape: Shape,
    data_start: usize,
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Header, Fault> {
        let range = literal_range(bytes)?;
        let data_start = range.end;
        let mut literal = Literal { rest: &bytes[range] };
        let (mut descr, mut fortran, mut dims) = (None, None, None);
        literal.expect(b"{")?;
        while !literal.take(b"}") {
            let key = literal.text()?;
            literal.expect(b":")?;
            let repeated = match key {
                b"descr" if literal.starts_with(b"[") || literal.starts_with(b"(") => {
                    return Err(Fault::unsupported(
                        "a structured dtype; save each field as an array of its own",
                    ));
                }
                b"descr" => descr.replace(literal.text()?).is_some(),
                b"fortran_order" => fortran.replace(literal.truth()?).is_some(),
                b"shape" => dims.replace(literal.dims()?).is_some(),
                other => return Err(Fault::malformed(format!("npy header: unknown key {}", quoted(other)))),
            };
            if repeated {
                return Err(Fault::malformed(format!("npy header: key {} twice", quoted(key))));
            }
            if !literal.take(b",") {
                literal.expect(b"}")?;
                break;
            }
        }
        if !literal.rest.trim_ascii().is_empty() {
            return Err(literal.unexpected("the end of the header"));
        }
        let (Some(descr), Some(fortran), Some(dims)) = (descr, fortran, dims) else {
            return Err(Fault::malformed("npy header: needs descr, fortran_order and shape"));
        };
        let (dtype, big_endian) = dtype_of(descr)?;
        Ok(Header { dtype, big_endian, fortran, shape: Shape::new(dims)?, data_start })
    }
}

/// Where the literal is.
fn literal_range(bytes: &[u8]) -> Result<Range<usize>, Fault> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return Err(Fault::malformed(format!(
            "not an npy array: begins with {}",
            quoted(&bytes[..bytes.len().min(6)])
        )));
    };
    let (start, length) = match rest {
        [1, _, a, b, ..] => (10, usize::from(u16::from_le_bytes([*a, *b]))),
        [2 | 3, _, a, b, c, d, ..] => (12, u32::from_le_bytes([*a, *b, *c, *d]) as usize),
        [1..=3, ..] | [] => return Err(Fault::malformed("the npy header is cut off")),
        [version, ..] => return Err(Fault::unsupported(format!("npy version {version}; known are 1 to 3"))),
    };
    let room = bytes.len() - start;
    if length > room {
        return Err(Fault::malformed(format!(
            "an npy header of {length} bytes in a file that has {room} left"
        )));
    }
    Ok(start..start + length)
}

/// The Python literal, read from the front.
struct Literal<'a> {
    rest: &'a [u8],
}

impl<'a> Literal<'a> {
    fn starts_with(&mut self, sign: &[u8]) -> bool {
        self.rest = self.rest.trim_ascii_start();
        self.rest.starts_with(sign)
    }

    fn take(&mut self, sign: &[u8]) -> bool {
        let found = self.starts_with(sign);
        if found {
            self.rest = &self.rest[sign.len()..];
        }
        found
    }

    fn expect(&mut self, sign: &[u8]) -> Result<(), Fault> {
        if self.take(sign) { Ok(()) } else { Err(self.unexpected(&String::from_utf8_lossy(sign))) }
    }

    /// A quoted text without escapes.
    fn text(&mut self) -> Result<&'a [u8], Fault> {
        for quote in [b'\'', b'"'] {
            if self.take(&[quote]) {
                let length = self.rest.iter().position(|&byte| byte == quote || byte == b'\\');
                return match length {
                    Some(length) if self.rest[length] == quote => {
                        let text = &self.rest[..length];
                        self.rest = &self.rest[length + 1..];
                        Ok(text)
                    }
                    _ => Err(self.unexpected("a closing quote")),
                };
            }
        }
        Err(self.unexpected("a quoted text"))
    }

    fn truth(&mut self) -> Result<bool, Fault> {
        if self.take(b"True") {
            Ok(true)
        } else if self.take(b"False") {
            Ok(false)
        } else {
            Err(self.unexpected("True or False"))
        }
    }

    /// A tuple of sizes. Python 2 wrote an L behind each.
    fn dims(&mut self) -> Result<Vec<u64>, Fault> {
        let mut dims = Vec::new();
        self.expect(b"(")?;
        while !self.take(b")") {
            self.rest = self.rest.trim_ascii_start();
            let length = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (digits, rest) = self.rest.split_at(length);
            let size = crate::numbers::unsigned(digits).ok_or_else(|| self.unexpected("a size"))?;
            self.rest = rest;
            self.take(b"L");
            dims.push(size);
            if !self.take(b",") {
                self.expect(b")")?;
                break;
            }
        }
        Ok(dims)
    }

    fn unexpected(&self, wanted: &str) -> Fault {
        Fault::malformed(format!("npy header: {} where {wanted} should be", quoted(self.rest)))
    }
}

#[cfg(test)]
mod tests;
