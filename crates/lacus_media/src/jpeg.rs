//! JPEG. Gray pictures decode to `(height, width)`, all others to `(height, width, 3)`: CMYK becomes RGB.
//!
//! ```text
//! SOI │ APP1 (EXIF) … │ SOF: precision, height, width, components │ … │ SOS, coded pixels │ EOI
//! ```
//!
//! The EXIF orientation is told as a detail and not applied: pixels come out as they are stored, and so
//! do boxes that somebody drew on them. A file without its end marker counts as cut off, because a decoder
//! fills what is missing with gray.
//!
//! Two decoders: [`baseline`] is ours, for the files that nearly all are. It decodes a part, or at a reduced size, and keeps its
//! tables between files. zune-jpeg decodes whatever that one does not take, damaged files included: it says what is wrong with them.

mod vectors;

mod lanes;

mod huffman;
mod idct;

mod color;

mod baseline;

use std::cell::RefCell;
use std::ops::Range;

use jpeg_encoder::{ColorType, Encoder};
use lacus_tensor::DType;
use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use self::baseline::{Baseline, Scratch};
use crate::error::Cause;
use crate::fields::{part, u16_be, u16_le, u32_be, u32_le};
use crate::medium::{Details, Layout, Medium, Part, note};
use crate::raster::Raster;

thread_local! {
    /// Tables and rows that the next file of this thread uses again.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// The longest side that the format can say.
const LONGEST: u32 = 65535;

/// The frame header (SOF) of a JPEG of any kind.
pub(crate) struct Frame {
    /// Which of the kinds SOF0 to SOF15.
    kind: u8,
    precision: u8,
    pub(crate) height: u16,
    pub(crate) width: u16,
    components: u8,
    exif: Range<usize>,
    /// Where the frame header ends.
    end: usize,
}

impl Frame {
    /// Walks the segments up to the frame header.
    pub(crate) fn find(bytes: &[u8]) -> Result<Frame, Cause> {
        let cut_off = || Cause::cut_off("the header");
        if !bytes.starts_with(b"\xff\xd8") {
            return Err(Cause::malformed("does not begin with a start marker"));
        }
        let mut at = 2;
        let mut exif = 0..0;
        loop {
            // Markers may be filled up with more 0xff, and decoders step over stray bytes before them.
            while *bytes.get(at).ok_or_else(cut_off)? != 0xff {
                at += 1;
            }
            while *bytes.get(at).ok_or_else(cut_off)? == 0xff {
                at += 1;
            }
            let marker = bytes[at];
            at += 1;
            match marker {
                // Stuffing, and markers that have no segment.
                0x00 | 0x01 | 0xd0..=0xd8 => continue,
                0xd9 | 0xda => return Err(Cause::malformed("the pixels begin before the frame header")),
                _ => {}
            }
            let length = usize::from(u16_be(bytes, at).ok_or_else(cut_off)?);
            let segment = part(bytes, at, length.max(2)).ok_or_else(cut_off)?;
            match marker {
                0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                    let [_, _, precision, h1, h0, w1, w0, components, ..] = *segment else {
                        return Err(Cause::malformed(format!("a frame header of {length} bytes")));
                    };
                    return Ok(Frame {
                        kind: marker - 0xc0,
                        precision,
                        height: u16::from_be_bytes([h1, h0]),
                        width: u16::from_be_bytes([w1, w0]),
                        components,
                        exif,
                        end: at + segment.len(),
                    });
                }
                0xe1 if segment[2..].starts_with(b"Exif\0\0") && exif.is_empty() => {
                    exif = at + 8..at + segment.len();
                }
                _ => {}
            }
            at += segment.len();
        }
    }
}

/// A JPEG that can be decoded.
pub(crate) struct Jpeg {
    frame: Frame,
    orientation: Option<u16>,
}

pub(crate) fn open(bytes: &[u8]) -> Result<Jpeg, Cause> {
    let frame = Frame::find(bytes)?;
    match frame.kind {
        0..=2 => {}
        3 | 7 | 11 | 15 => return Err(Cause::unsupported("lossless JPEG; only 8-bit lossy ones are read")),
        kind => return Err(Cause::unsupported(format!("coding SOF{kind}; read are SOF0 to SOF2"))),
    }
    if frame.precision != 8 {
        return Err(Cause::unsupported(format!("{} bits per sample; only 8 are read", frame.precision)));
    }
    if frame.width == 0 || frame.height == 0 {
        return Err(Cause::malformed(format!("a picture of {} × {} pixels", frame.width, frame.height)));
    }
    if !matches!(frame.components, 1 | 3 | 4) {
        return Err(Cause::unsupported(format!(
            "{} components; read are 1 (gray), 3 (color) and 4 (CMYK)",
            frame.components
        )));
    }
    let orientation = orientation(&bytes[frame.exif.clone()]);
    Ok(Jpeg { frame, orientation })
}

/// Walks the segments and the coded pixels behind the frame header, up to the end marker. In coded pixels, 0xff is
/// followed by a zero, by a restart, or begins a marker.
pub(crate) fn verify(bytes: &[u8]) -> Result<(), Cause> {
    let cut_off = || Cause::malformed("cut off: there is no end marker");
    let mut at = Frame::find(bytes)?.end;
    let mut has_pixels = false;
    loop {
        at += bytes[at..].iter().position(|&byte| byte == 0xff).ok_or_else(cut_off)?;
        at += bytes[at..].iter().position(|&byte| byte != 0xff).ok_or_else(cut_off)?;
        let marker = bytes[at];
        at += 1;
        match marker {
            0xd9 if has_pixels => return Ok(()),
            0xd9 => return Err(Cause::malformed("there are no pixels")),
            // Tables, scans, notes: each says its length. Others are stuffing, restarts, or stray.
            0xc4 | 0xcc | 0xda..=0xdf | 0xe0..=0xef | 0xfe => {
                has_pixels |= marker == 0xda;
                let length = usize::from(u16_be(bytes, at).ok_or_else(cut_off)?).max(2);
                at = at.saturating_add(length);
                if at > bytes.len() {
                    return Err(cut_off());
                }
            }
            _ => {}
        }
    }
}

impl Jpeg {
    fn is_gray(&self) -> bool {
        self.frame.components == 1
    }

    fn check_end(&self, bytes: &[u8]) -> Result<(), Cause> {
        if bytes[self.frame.end..].windows(2).rev().any(|pair| pair == b"\xff\xd9") {
            Ok(())
        } else {
            Err(Cause::malformed("cut off: there is no end marker"))
        }
    }

    /// The sides when it is decoded to one `reduction`-th.
    fn reduced_sides(&self, reduction: u8) -> (usize, usize) {
        let side = |full: u16| usize::from(full).div_ceil(reduction.into());
        (side(self.frame.height), side(self.frame.width))
    }

    /// Decodes rows and columns of the picture at one `reduction`-th (1, 2, 4 or 8) of its size with our own decoder. `None` where
    /// it does not take the file.
    fn decode_quickly(
        &self,
        bytes: &[u8],
        reduction: u8,
        rows: Range<usize>,
        columns: Range<usize>,
        out: &mut [u8],
    ) -> Option<()> {
        SCRATCH.with_borrow_mut(|scratch| {
            let file = Baseline::read(bytes, scratch)?;
            let eighths = 8 / usize::from(reduction);
            // The first frame header that was found, and what memory was taken for, is the one that was read.
            if file.channels() != if self.is_gray() { 1 } else { 3 }
                || file.sides(eighths) != self.reduced_sides(reduction)
            {
                return None;
            }
            file.decode(eighths, rows, columns, scratch, out)
        })
    }

    fn decode_with(&self, bytes: &[u8], is_strict: bool, out: &mut [u8]) -> Result<(), DecodeErrors> {
        let color = if self.is_gray() { ColorSpace::Luma } else { ColorSpace::RGB };
        let options = DecoderOptions::default()
            .set_max_width(LONGEST as usize)
            .set_max_height(LONGEST as usize)
            .set_strict_mode(is_strict)
            .jpeg_set_out_colorspace(color);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
        decoder.decode_headers()?;
        let expected = Some((usize::from(self.frame.width), usize::from(self.frame.height)));
        if decoder.dimensions() != expected || decoder.output_buffer_size() != Some(out.len()) {
            return Err(DecodeErrors::FormatStatic("two frame headers disagree"));
        }
        decoder.decode_into(out)
    }
}

impl Medium for Jpeg {
    fn layout(&self) -> Layout {
        let channels = if self.is_gray() { 1 } else { 3 };
        Layout::image(DType::U8, self.frame.height.into(), self.frame.width.into(), channels)
    }

    fn details(&self, details: &mut Details) {
        note(details, "bit_depth", self.frame.precision);
        note(details, "components", self.frame.components);
        note(details, "progressive", self.frame.kind == 2);
        if let Some(orientation) = self.orientation {
            note(details, "orientation", orientation);
        }
    }

    fn decode(&self, bytes: &[u8], _rows: Range<u64>, out: &mut [u8]) -> Result<(), Cause> {
        self.check_end(bytes)?;
        let (height, width) = self.reduced_sides(1);
        if self.decode_quickly(bytes, 1, 0..height, 0..width, out).is_some() {
            return Ok(());
        }
        let result = match self.decode_with(bytes, true, out) {
            // Strict about the pixels, but bytes between segments harm nobody, and cameras write them.
            Err(DecodeErrors::FormatStatic(text)) if text.contains("Extra bytes") => {
                self.decode_with(bytes, false, out)
            }
            result => result,
        };
        result.map_err(|error| Cause::malformed(format!("{error}")))
    }

    fn reduces(&self) -> bool {
        true
    }

    fn decode_part(&self, bytes: &[u8], part: &Part, out: &mut [u8]) -> Result<bool, Cause> {
        self.check_end(bytes)?;
        Ok(self.decode_quickly(bytes, part.reduction, part.rows.clone(), part.columns.clone(), out).is_some())
    }
}

/// Writes gray or RGB. Color is kept at full resolution from quality 90 on, below at half of it.
pub(crate) fn encode(tensor: &lacus_tensor::TensorRef<'_>, quality: u8) -> Result<Vec<u8>, Cause> {
    let raster = Raster::of(tensor, LONGEST, &[DType::U8], &[1, 3])?;
    if !(1..=100).contains(&quality) {
        return Err(Cause::request(format!("quality goes from 1 to 100, found {quality}")));
    }
    let color = if raster.channels == 1 { ColorType::Luma } else { ColorType::Rgb };
    // A guess that a usual photograph does not outgrow, so that the output is seldom moved.
    let mut out = Vec::with_capacity(1024 + raster.bytes.len() / 4);
    Encoder::new(&mut out, quality)
        .encode(&raster.bytes, raster.width as u16, raster.height as u16, color)
        .map_err(|error| Cause::request(error.to_string()))?;
    Ok(out)
}

/// The orientation (1 to 8) that EXIF notes in its first directory.
fn orientation(exif: &[u8]) -> Option<u16> {
    const ORIENTATION: u16 = 0x0112;
    type Short = fn(&[u8], usize) -> Option<u16>;
    type Long = fn(&[u8], usize) -> Option<u32>;
    let (short, long): (Short, Long) = match exif.get(..2)? {
        b"II" => (u16_le, u32_le),
        b"MM" => (u16_be, u32_be),
        _ => return None,
    };
    let directory = long(exif, 4)? as usize;
    let entries = usize::from(short(exif, directory)?);
    (0..entries).map(|entry| directory + 2 + entry * 12).find_map(|at| {
        if short(exif, at)? == ORIENTATION {
            short(exif, at + 8).filter(|value| (1..=8).contains(value))
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacus_tensor::{Shape, TensorRef};

    fn sample() -> Vec<u8> {
        let shape = Shape::new([16, 8, 3]).unwrap();
        let pixels: Vec<u8> = (0..16 * 8 * 3).map(|at| (at % 251) as u8).collect();
        encode(&TensorRef::contiguous(DType::U8, &shape, &pixels).unwrap(), 90).unwrap()
    }

    /// Puts a segment behind the start marker.
    fn with_segment(jpeg: &[u8], marker: u8, content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u16 + 2).to_be_bytes();
        [&jpeg[..2], &[0xff, marker], &length, content, &jpeg[2..]].concat()
    }

    #[test]
    fn the_orientation_is_told_and_not_applied() {
        for (order, entry) in [
            ("MM\0*\0\0\0\x08\0\x01", [0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0]),
            ("II*\0\x08\0\0\0\x01\0", [0x12, 0x01, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0]),
        ] {
            let exif = [b"Exif\0\0", order.as_bytes(), &entry].concat();
            let jpeg = open(&with_segment(&sample(), 0xe1, &exif)).unwrap();
            let mut details = Details::new();
            jpeg.details(&mut details);
            assert_eq!(details["orientation"], 6);
            assert_eq!(jpeg.layout().shape, [16, 8, 3]);
        }
    }

    #[test]
    fn a_missing_end_marker_is_noticed_even_behind_a_thumbnail() {
        let whole = with_segment(&sample(), 0xe1, b"a thumbnail ends in \xff\xd9");
        let mut out = vec![0; 16 * 8 * 3];
        open(&whole).unwrap().decode(&whole, 0..16, &mut out).unwrap();
        let cut = &whole[..whole.len() - 2];
        let error = open(cut).unwrap().decode(cut, 0..16, &mut out).unwrap_err();
        assert!(error.to_string().starts_with("cut off"), "{error}");
    }

    #[test]
    fn stray_bytes_between_segments_are_no_damage() {
        let plain = sample();
        let stray = [&plain[..2], b"stray bytes", &plain[2..]].concat();
        let (mut expected, mut found) = (vec![0; 16 * 8 * 3], vec![0; 16 * 8 * 3]);
        open(&plain).unwrap().decode(&plain, 0..16, &mut expected).unwrap();
        open(&stray).unwrap().decode(&stray, 0..16, &mut found).unwrap();
        assert_eq!(expected, found);
    }

    #[test]
    fn kinds_that_cannot_be_decoded_are_named() {
        let check = |kind: u8, precision: u8, components: u8, expected: &str| {
            let mut bytes = b"\xff\xd8\xff".to_vec();
            bytes.extend([0xc0 + kind, 0, 8 + 3 * components, precision, 0, 4, 0, 4, components]);
            bytes.extend(vec![0; 3 * usize::from(components)]);
            let error = open(&bytes).err().map(|cause| cause.to_string()).unwrap_or_default();
            assert!(error.contains(expected), "{error}");
        };
        check(3, 8, 3, "lossless");
        check(9, 8, 3, "SOF9");
        check(1, 12, 3, "12 bits");
        check(0, 8, 2, "2 components");
        check(0, 8, 3, "");
    }
}
