//! Packed bytes from front to back: lengths and frames.

use crate::error::LayoutError;

/// The most numbers one frame holds. It bounds what a few forged bytes can make a reader allocate, and
/// costs under 0.1 % against unbounded frames.
pub(crate) const FRAME_NUMBERS: usize = 1 << 16;

/// The fewest bytes a frame takes: its kind, its length and a byte.
const FRAME_BYTES: usize = 3;

/// Appends `value` as LEB128: seven bits a byte, low ones first, the top bit set on all but the last.
pub(crate) fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads packed bytes from front to back.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

/// One frame, not yet looked into.
pub(crate) struct Frame<'a> {
    pub(crate) encoding: u8,
    pub(crate) code: u8,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    pub(crate) fn byte(&mut self) -> Result<u8, LayoutError> {
        let (first, rest) = self.bytes.split_first().ok_or_else(|| bad("ends early".into()))?;
        self.bytes = rest;
        Ok(*first)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, LayoutError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(bad("a length of more than 64 bits".into()))
    }

    /// Fails if `count` numbers cannot be in the bytes that are left, however well they are packed.
    pub(crate) fn check_frames(&self, count: usize) -> Result<(), LayoutError> {
        match count.div_ceil(FRAME_NUMBERS) <= self.bytes.len() / FRAME_BYTES {
            true => Ok(()),
            false => Err(bad(format!("{} bytes cannot hold {count} numbers", self.bytes.len()))),
        }
    }

    /// Fails unless everything was read.
    pub(crate) fn finish(self) -> Result<(), LayoutError> {
        match self.bytes.len() {
            0 => Ok(()),
            more => Err(bad(format!("{more} bytes too many"))),
        }
    }

    /// What is left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// The number type of the frame that comes next.
    pub(crate) fn next_code(&self) -> Option<u8> {
        self.bytes.first().map(|head| head >> 4)
    }

    pub(crate) fn frame(&mut self) -> Result<Frame<'a>, LayoutError> {
        let head = self.byte()?;
        let len = self.varint()?;
        if len > self.bytes.len() as u64 {
            return Err(bad(format!("a frame of {len} bytes where {} are left", self.bytes.len())));
        }
        let (bytes, rest) = self.bytes.split_at(len as usize);
        self.bytes = rest;
        Ok(Frame { encoding: head & 0xf, code: head >> 4, bytes })
    }
}

pub(crate) fn bad(detail: String) -> LayoutError {
    LayoutError::corrupt("packed array", detail)
}
