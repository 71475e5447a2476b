//! PNG. Palettes and bit depths below 8 are expanded to 8 bits; a transparent color becomes an alpha
//! channel; 16 bits stay 16. Of an animated PNG the still image is decoded.
//!
//! | stored | decoded |
//! |---|---|
//! | gray | `(height, width)` |
//! | gray with alpha | `(height, width, 2)` |
//! | RGB, palette | `(height, width, 3)` |
//! | RGB or palette with alpha | `(height, width, 4)` |
//!
//! Rows are decoded from the first to the last wanted one, unless the picture is interlaced.

use std::io::Cursor;
use std::ops::Range;

use ::png::{BitDepth, ColorType, Compression, Decoder, DecodingError, Encoder, Reader, Transformations};
use lacus_tensor::{DType, TensorRef};

use crate::error::{Cause, quoted};
use crate::fields::{part, swap_u16, u32_be};
use crate::medium::{Details, Layout, Medium, note};
use crate::raster::Raster;

/// Memory that the decoder may take besides the pixels: rows and chunks.
const ROOM_BYTES: usize = 64 << 20;
/// The longest side that the format can say.
const LONGEST: u32 = (1 << 31) - 1;

/// What the chunks before the pixels say.
pub(crate) struct Png {
    width: u32,
    height: u32,
    depth: u8,
    channels: u64,
    has_palette: bool,
    is_interlaced: bool,
    frames: Option<u32>,
}

pub(crate) fn open(bytes: &[u8]) -> Result<Png, Cause> {
    let cut_off = || Cause::cut_off("the header");
    let header = part(bytes, 8, 25).ok_or_else(cut_off)?;
    let (b"\0\0\0\x0dIHDR", fields) = header.split_at(8) else {
        return Err(Cause::malformed("the first chunk is no IHDR"));
    };
    let (width, height) = (u32_be(fields, 0).unwrap_or(0), u32_be(fields, 4).unwrap_or(0));
    let (depth, color, is_interlaced) = (fields[8], fields[9], fields[12] != 0);
    if !(1..=LONGEST).contains(&width) || !(1..=LONGEST).contains(&height) {
        return Err(Cause::malformed(format!("a picture of {width} × {height} pixels")));
    }
    let (mut has_transparency, mut frames) = (false, None);
    let mut at = 33;
    loop {
        let length = u32_be(bytes, at).ok_or_else(cut_off)? as usize;
        match part(bytes, at + 4, 4).ok_or_else(cut_off)? {
            b"IDAT" => break,
            b"IEND" => return Err(Cause::malformed("there are no pixels")),
            b"tRNS" => has_transparency = true,
            b"acTL" => frames = u32_be(bytes, at + 8),
            _ => {}
        }
        at = at.saturating_add(12).saturating_add(length);
    }
    let channels = match (color, depth) {
        (0, 1 | 2 | 4 | 8 | 16) => 1 + u64::from(has_transparency),
        (2, 8 | 16) | (3, 1 | 2 | 4 | 8) => 3 + u64::from(has_transparency),
        (4, 8 | 16) => 2,
        (6, 8 | 16) => 4,
        _ => return Err(Cause::malformed(format!("color type {color} with {depth} bits"))),
    };
    Ok(Png { width, height, depth, channels, has_palette: color == 3, is_interlaced, frames })
}

/// Walks all chunks. Checksums are compared where the decoder compares them: of the chunks without which there is no
/// picture, and of the transparency, which decides on the channels.
pub(crate) fn verify(bytes: &[u8]) -> Result<(), Cause> {
    const OPTIONAL: u8 = 0x20;
    let mut at = 8;
    loop {
        let cut_off = || Cause::cut_off("a chunk");
        let length = u32_be(bytes, at).ok_or_else(cut_off)? as usize;
        let chunk = part(bytes, at + 4, length.saturating_add(4)).ok_or_else(cut_off)?;
        let (name, checksum_at) = (&chunk[..4], at + 8 + length);
        let checksum = u32_be(bytes, checksum_at).ok_or_else(cut_off)?;
        let is_needed = name[0] & OPTIONAL == 0 || name == b"tRNS";
        if is_needed && crc32fast::hash(chunk) != checksum {
            return Err(Cause::malformed(format!(
                "damaged: the checksum of the chunk {} at byte {at} is wrong",
                quoted(name)
            )));
        }
        if name == b"IEND" {
            return Ok(());
        }
        at = checksum_at + 4;
    }
}

impl Png {
    fn reader<'a>(&self, bytes: &'a [u8]) -> Result<Reader<Cursor<&'a [u8]>>, Cause> {
        let room = ROOM_BYTES.saturating_add(self.width as usize * 16);
        let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), ::png::Limits { bytes: room });
        decoder.set_transformations(Transformations::EXPAND);
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        let reader = decoder.read_info().map_err(fault)?;
        let (color, depth) = reader.output_color_type();
        let depth_matches = (depth == BitDepth::Sixteen) == (self.depth == 16);
        if color.samples() as u64 != self.channels || !depth_matches {
            return Err(Cause::malformed("chunks before the pixels contradict each other"));
        }
        Ok(reader)
    }
}

impl Medium for Png {
    fn layout(&self) -> Layout {
        let dtype = if self.depth == 16 { DType::U16 } else { DType::U8 };
        Layout::image(dtype, self.height.into(), self.width.into(), self.channels)
    }

    fn details(&self, details: &mut Details) {
        note(details, "bit_depth", self.depth);
        note(details, "palette", self.has_palette);
        note(details, "interlaced", self.is_interlaced);
        if let Some(frames) = self.frames {
            note(details, "frames", frames);
        }
    }

    fn takes_rows(&self) -> bool {
        !self.is_interlaced
    }

    fn decode(&self, bytes: &[u8], rows: Range<u64>, out: &mut [u8]) -> Result<(), Cause> {
        let mut reader = self.reader(bytes)?;
        if rows == (0..u64::from(self.height)) {
            reader.next_frame(out).map_err(fault)?;
            // Reads to the end chunk, so that a file cut off behind the last pixel is noticed as well.
            reader.finish().map_err(fault)?;
        } else if !rows.is_empty() {
            for _ in 0..rows.start {
                reader.next_row().map_err(fault)?;
            }
            let row_bytes = out.len() / (rows.end - rows.start) as usize;
            for row in out.chunks_exact_mut(row_bytes) {
                reader.read_row(row).map_err(fault)?;
            }
        }
        if self.depth == 16 {
            swap_u16(out);
        }
        Ok(())
    }
}

/// Writes gray, gray with alpha, RGB or RGBA, fast rather than small: a lakehouse reads pixels more often
/// than it moves them.
pub(crate) fn encode(tensor: &TensorRef<'_>) -> Result<Vec<u8>, Cause> {
    let raster = Raster::of(tensor, LONGEST, &[DType::U8, DType::U16], &[1, 2, 3, 4])?;
    let color = match raster.channels {
        1 => ColorType::Grayscale,
        2 => ColorType::GrayscaleAlpha,
        3 => ColorType::Rgb,
        _ => ColorType::Rgba,
    };
    let mut out = Vec::with_capacity(1024 + raster.bytes.len() / 2);
    let mut encoder = Encoder::new(&mut out, raster.width, raster.height);
    encoder.set_color(color);
    encoder.set_compression(Compression::Fast);
    let mut pixels = raster.bytes;
    if raster.dtype == DType::U16 {
        encoder.set_depth(BitDepth::Sixteen);
        swap_u16(pixels.to_mut());
    }
    let failed = |error: ::png::EncodingError| Cause::request(error.to_string());
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(out)
}

fn fault(error: DecodingError) -> Cause {
    match error {
        DecodingError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Cause::cut_off("the pixels")
        }
        error => Cause::malformed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(set_up: impl FnOnce(&mut Encoder<'_, &mut Vec<u8>>), pixels: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, 4, 2);
        set_up(&mut encoder);
        encoder.write_header().unwrap().write_image_data(pixels).unwrap();
        bytes
    }

    fn decoded(bytes: &[u8]) -> (Vec<u64>, Vec<u8>) {
        let png = open(bytes).unwrap();
        let layout = png.layout();
        let mut out = vec![7; layout.bytes() as usize];
        png.decode(bytes, 0..2, &mut out).unwrap();
        (layout.shape, out)
    }

    #[test]
    fn palettes_and_few_bits_are_expanded() {
        let palette = encoded(
            |encoder| {
                encoder.set_color(ColorType::Indexed);
                encoder.set_depth(BitDepth::Two);
                encoder.set_palette(vec![1, 2, 3, 4, 5, 6, 7, 8, 9]);
            },
            &[0b00_01_10_00, 0b10_10_01_00],
        );
        let expected =
            [[1, 2, 3], [4, 5, 6], [7, 8, 9], [1, 2, 3], [7, 8, 9], [7, 8, 9], [4, 5, 6], [1, 2, 3]];
        assert_eq!(decoded(&palette), (vec![2, 4, 3], expected.concat()));

        let clear = encoded(
            |encoder| {
                encoder.set_color(ColorType::Indexed);
                encoder.set_depth(BitDepth::Eight);
                encoder.set_palette(vec![1, 2, 3, 4, 5, 6]);
                encoder.set_trns(vec![0]);
            },
            &[0, 1, 1, 1, 1, 1, 1, 1],
        );
        let (shape, pixels) = decoded(&clear);
        assert_eq!((shape, &pixels[..8]), (vec![2, 4, 4], &[1, 2, 3, 0, 4, 5, 6, 255][..]));

        let gray = encoded(|encoder| encoder.set_depth(BitDepth::One), &[0b0110_0000, 0b1000_0000]);
        assert_eq!(decoded(&gray), (vec![2, 4], vec![0, 255, 255, 0, 255, 0, 0, 0]));
    }

    #[test]
    fn a_transparent_gray_is_an_alpha_channel() {
        let bytes = encoded(
            |encoder| {
                encoder.set_depth(BitDepth::Eight);
                encoder.set_trns(vec![0, 9]);
            },
            &[9, 8, 7, 6, 5, 4, 3, 2],
        );
        let (shape, pixels) = decoded(&bytes);
        assert_eq!((shape, &pixels[..4]), (vec![2, 4, 2], &[9, 0, 8, 255][..]));
    }
}
