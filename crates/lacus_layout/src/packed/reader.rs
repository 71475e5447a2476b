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

/// Writes `values` as [`write_varint`] does to the front of `bytes`, which grow as needed and are never cut,
/// so that they are cleared only once; returns where the values end.
pub(crate) fn put_varints(values: &[u64], bytes: &mut Vec<u8>) -> usize {
    /// Values between two looks at the room there is.
    const PIECE: usize = 256;
    /// The most bytes a value takes.
    const MOST: usize = 10;
    let mut end = 0;
    for piece in values.chunks(PIECE) {
        if bytes.len() < end + PIECE * MOST {
            bytes.resize(end + PIECE * MOST, 0);
        }
        let bytes = &mut bytes[..];
        for value in piece {
            if *value >= 1 << 28 {
                let mut rest = *value;
                while rest >= 0x80 {
                    bytes[end] = rest as u8 | 0x80;
                    end += 1;
                    rest >>= 7;
                }
                bytes[end] = rest as u8;
                end += 1;
                continue;
            }
            // Four bytes in one go, of which those that are not needed are overwritten by what follows: how
            // long a value is cannot be foretold, so a branch on it costs more than all of this.
            let value = *value as u32;
            let spread = value & 0x7f
                | (value & 0x7f << 7) << 1
                | (value & 0x7f << 14) << 2
                | (value & 0x7f << 21) << 3;
            let more = [7, 14, 21].map(|bits| u32::from(value >> bits > 0)).into_iter().sum::<u32>();
            let marks = 0x8080_8080 & ((1u32 << (8 * more)) - 1);
            bytes[end..end + 4].copy_from_slice(&(spread | marks).to_le_bytes());
            end += 1 + more as usize;
        }
    }
    end
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
