//! Several tensors in the bytes of one row.
//!
//! A **sequence** (codec `sequence`) is its elements one after the other, each of which can be stepped over:
//!
//! ```text
//! varint count │ per element: varint rank, rank varints: shape │ byte: length of the codec's name, its bytes │ varint length │ bytes
//! ```
//!
//! **Polygons** (codec `polygon`) are lists of points of the column's dtype:
//!
//! ```text
//! varint polygons │ varint numbers per point (2 or 3) │ per polygon: varint points │ all numbers, little-endian
//! ```
//!
//! A varint is LEB128: seven bits per byte, the lowest first, the high bit set on all but the last.

use std::ops::Range;

use lacus_tensor::{DType, MAX_RANK};

use crate::error::SampleError;
use crate::pack::Piece;

/// The codec of a sequence.
pub(crate) const SEQUENCE: &str = "sequence";
/// The codec of polygons.
pub(crate) const POLYGON: &str = "polygon";

/// One element of a stored sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) shape: Vec<u64>,
    pub(crate) codec: &'a str,
    pub(crate) bytes: &'a [u8],
}

/// The bytes of a sequence of `count` elements, to which they are [appended](append).
pub(crate) fn begin(count: usize) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, count as u64);
    out
}

/// Appends one element.
pub(crate) fn append(out: &mut Vec<u8>, piece: &Piece<'_>) {
    write(out, piece.shape.len() as u64);
    piece.shape.iter().for_each(|size| write(out, *size));
    out.push(piece.codec.len() as u8);
    out.extend_from_slice(piece.codec.as_bytes());
    write(out, piece.bytes.len() as u64);
    out.extend_from_slice(&piece.bytes);
}

/// The elements of a sequence, found but not decoded.
pub(crate) fn read_sequence(bytes: &[u8]) -> Result<Vec<Frame<'_>>, SampleError> {
    let mut reader = Reader { what: "sequence", rest: bytes };
    // An element takes three bytes at least, so that no list is longer than what is there.
    let count = reader.count(3)?;
    let mut frames = Vec::with_capacity(count);
    for _ in 0..count {
        let rank = reader.number()?;
        if rank > MAX_RANK as u64 {
            return Err(reader.bad(format!("an element of {rank} axes")));
        }
        let shape = (0..rank).map(|_| reader.number()).collect::<Result<Vec<_>, _>>()?;
        let length = reader.take(1)?[0];
        let codec = std::str::from_utf8(reader.take(length.into())?)
            .map_err(|_| SampleError::corrupt("sequence", "a codec that is no text"))?;
        let length = reader.count(1)?;
        frames.push(Frame { shape, codec, bytes: reader.take(length)? });
    }
    reader.end()?;
    Ok(frames)
}

/// The bytes of polygons: of each its number of points, and then the numbers of all.
pub(crate) fn polygons(points: &[u64], width: u64, numbers: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(numbers.len() + 2 + points.len() * 2);
    write(&mut out, points.len() as u64);
    write(&mut out, width);
    points.iter().for_each(|count| write(&mut out, *count));
    out.extend_from_slice(numbers);
    out
}

/// Polygons as stored: numbers per point, and per polygon its points and where its numbers are in `numbers`.
pub(crate) struct Polygons<'a> {
    pub(crate) width: u64,
    pub(crate) each: Vec<(u64, Range<usize>)>,
    pub(crate) numbers: &'a [u8],
}

/// Reads the bytes of polygons.
pub(crate) fn read_polygons(bytes: &[u8], dtype: DType) -> Result<Polygons<'_>, SampleError> {
    let mut reader = Reader { what: "polygons", rest: bytes };
    let count = reader.number()?;
    let width = reader.number()?;
    if count > reader.rest.len() as u64 {
        return Err(reader.bad(format!("{count} polygons in {} bytes", reader.rest.len())));
    }
    if !(2..=3).contains(&width) {
        return Err(reader.bad(format!("points of {width} numbers")));
    }
    let points = (0..count).map(|_| reader.number()).collect::<Result<Vec<_>, _>>()?;
    let (numbers, size) = (reader.rest, width * dtype.size_bytes() as u64);
    let mut each = Vec::with_capacity(points.len());
    let mut start = 0usize;
    for count in points {
        let length = count.checked_mul(size).and_then(|length| usize::try_from(length).ok());
        let end = length.and_then(|length| start.checked_add(length)).filter(|end| *end <= numbers.len());
        let end = end.ok_or_else(|| reader.bad("more points than bytes"))?;
        each.push((count, start..end));
        start = end;
    }
    match start == numbers.len() {
        true => Ok(Polygons { width, each, numbers }),
        false => Err(reader.bad(format!("{} bytes behind the last point", numbers.len() - start))),
    }
}

fn write(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

struct Reader<'a> {
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn bad(&self, detail: impl Into<String>) -> SampleError {
        SampleError::corrupt(self.what, detail)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], SampleError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.bad("cut off"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64, SampleError> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.bad("a number of more than 64 bits"))
    }

    /// A number of things of at least `least_bytes` each that follow.
    fn count(&mut self, least_bytes: usize) -> Result<usize, SampleError> {
        let count = self.number()?;
        let fitting = usize::try_from(count).ok().filter(|count| *count <= self.rest.len() / least_bytes);
        fitting.ok_or_else(|| self.bad(format!("{count} announced, {} bytes are left", self.rest.len())))
    }

    fn end(&self) -> Result<(), SampleError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(self.bad(format!("{left} bytes behind the last element"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    #[test]
    fn varints_go_both_ways() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            write(&mut bytes, number);
            let mut reader = Reader { what: "test", rest: &bytes };
            assert_eq!(reader.number().unwrap(), number);
            assert!(reader.end().is_ok());
        }
        for bytes in [&[0x80; 11][..], &[0xff; 10], &[0x80], &[]] {
            assert!(Reader { what: "test", rest: bytes }.number().is_err());
        }
    }

    #[test]
    fn the_bytes_of_a_sequence_are_these() {
        let mut bytes = begin(2);
        append(&mut bytes, &Piece { shape: vec![], codec: "raw", bytes: Cow::Borrowed(&[7]) });
        append(&mut bytes, &Piece { shape: vec![300, 2], codec: "jpeg", bytes: Cow::Borrowed(&[8, 9]) });
        assert_eq!(bytes, b"\x02\x00\x03raw\x01\x07\x02\xac\x02\x02\x04jpeg\x02\x08\x09");
        let frames = read_sequence(&bytes).unwrap();
        assert_eq!(frames[1], Frame { shape: vec![300, 2], codec: "jpeg", bytes: &[8, 9] });
        for end in 0..bytes.len() {
            assert!(read_sequence(&bytes[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn the_bytes_of_polygons_are_these() {
        let bytes = polygons(&[2, 0, 1], 2, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(bytes, [3, 2, 2, 0, 1, 1, 2, 3, 4, 5, 6]);
        let found = read_polygons(&bytes, DType::U8).unwrap();
        assert_eq!((found.width, found.each), (2, vec![(2, 0..4), (0, 4..4), (1, 4..6)]));
        for end in 0..bytes.len() {
            assert!(read_polygons(&bytes[..end], DType::U8).is_err(), "cut at {end}");
        }
    }
}
