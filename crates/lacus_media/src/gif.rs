//! GIF: the first frame, with its palette applied. Decodes to `(height, width, 3)`, or 4 if the frame has a
//! transparent color or leaves a part of the canvas uncovered. Always whole.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::ops::Range;

use ::gif::{ColorOutput, DecodeOptions, DecodingError, Encoder, Frame, MemoryLimit};
use lacus_tensor::{Buffer, DType, TensorRef};

use crate::error::Cause;
use crate::fields::{part, u16_le};
use crate::medium::{Details, Layout, Medium, note};
use crate::raster::Raster;

/// What the blocks say, with the pixels stepped over.
pub(crate) struct Gif {
    width: u16,
    height: u16,
    first: FirstFrame,
    frames: u64,
}

/// The rectangle that the first frame covers.
struct FirstFrame {
    left: u16,
    top: u16,
    width: u16,
    height: u16,
    has_transparency: bool,
}

pub(crate) fn open(bytes: &[u8]) -> Result<Gif, Cause> {
    let cut_off = || Cause::cut_off("the blocks");
    let screen = part(bytes, 6, 7).ok_or_else(cut_off)?;
    let side = |at: usize| u16_le(screen, at).unwrap_or(0);
    let (width, height) = (side(0), side(2));
    if width == 0 || height == 0 {
        return Err(Cause::malformed(format!("a canvas of {width} × {height} pixels")));
    }
    let mut at = 13 + palette_bytes(screen[4]);
    let (mut first, mut frames, mut has_transparency) = (None, 0, false);
    // Encoders forget the trailer often enough; the end of the file at the end of a block will do.
    while at < bytes.len() && bytes[at] != b';' {
        match bytes[at] {
            b'!' => {
                if *bytes.get(at + 1).ok_or_else(cut_off)? == 0xf9 && first.is_none() {
                    has_transparency = bytes.get(at + 3).ok_or_else(cut_off)? & 1 != 0;
                }
                at = skip_blocks(bytes, at + 2).ok_or_else(cut_off)?;
            }
            b',' => {
                let frame = part(bytes, at + 1, 9).ok_or_else(cut_off)?;
                let side = |at: usize| u16_le(frame, at).unwrap_or(0);
                let (left, top, width, height) = (side(0), side(2), side(4), side(6));
                first.get_or_insert(FirstFrame { left, top, width, height, has_transparency });
                frames += 1;
                at = skip_blocks(bytes, at + 11 + palette_bytes(frame[8])).ok_or_else(cut_off)?;
            }
            other => return Err(Cause::malformed(format!("a block of the unknown kind {other:#04x}"))),
        }
    }
    let first = first.ok_or_else(|| Cause::malformed("there is no frame"))?;
    let fits =
        |from: u16, size: u16, whole: u16| size > 0 && u32::from(from) + u32::from(size) <= whole.into();
    if !fits(first.left, first.width, width) || !fits(first.top, first.height, height) {
        return Err(Cause::malformed("the first frame reaches out of the canvas"));
    }
    Ok(Gif { width, height, first, frames })
}

/// Bytes of the palette that a flags byte announces.
fn palette_bytes(flags: u8) -> usize {
    if flags & 0x80 != 0 { 3 << ((flags & 7) + 1) } else { 0 }
}

/// Steps over blocks that each begin with their length, up to and with the empty one.
fn skip_blocks(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1 + length;
        if length == 0 {
            return Some(at);
        }
    }
}

impl Gif {
    fn channels(&self) -> usize {
        let covers = (self.first.width, self.first.height) == (self.width, self.height);
        if covers && !self.first.has_transparency { 3 } else { 4 }
    }
}

impl Medium for Gif {
    fn layout(&self) -> Layout {
        Layout::image(DType::U8, self.height.into(), self.width.into(), self.channels() as u64)
    }

    fn details(&self, details: &mut Details) {
        note(details, "bit_depth", 8);
        note(details, "palette", true);
        note(details, "frames", self.frames);
    }

    fn decode(&self, bytes: &[u8], _rows: Range<u64>, out: &mut [u8]) -> Result<(), Cause> {
        let first = &self.first;
        let pixels = usize::from(first.width) * usize::from(first.height);
        let mut options = DecodeOptions::new();
        options.set_color_output(ColorOutput::Indexed);
        options
            .set_memory_limit(MemoryLimit::Bytes(NonZeroU64::new(pixels as u64).unwrap_or(NonZeroU64::MIN)));
        let mut decoder = options.read_info(bytes).map_err(fault)?;
        let frame = decoder.next_frame_info().map_err(fault)?;
        let frame = frame.ok_or_else(|| Cause::malformed("there is no frame"))?;
        let found = (frame.left, frame.top, frame.width, frame.height, frame.transparent.is_some());
        if found != (first.left, first.top, first.width, first.height, first.has_transparency) {
            return Err(Cause::malformed("blocks contradict each other"));
        }
        let transparent = frame.transparent;
        let mut indices = Buffer::try_for_overwrite(pixels)?;
        decoder.read_into_buffer(&mut indices).map_err(fault)?;

        let palette = decoder.palette().map_err(fault)?.as_chunks::<3>().0;
        let channels = self.channels();
        if channels == 4 {
            out.fill(0);
        }
        let row_bytes = usize::from(self.width) * channels;
        let rows = out.chunks_exact_mut(row_bytes).skip(first.top.into());
        for (row, indices) in rows.zip(indices.chunks_exact(first.width.into())) {
            let row = &mut row[usize::from(first.left) * channels..];
            for (pixel, &index) in row.chunks_exact_mut(channels).zip(indices) {
                let color = palette.get(usize::from(index)).ok_or_else(|| {
                    Cause::malformed(format!("color {index} of a palette of {}", palette.len()))
                })?;
                if transparent != Some(index) {
                    pixel[..3].copy_from_slice(color);
                    pixel[3..].fill(255);
                }
            }
        }
        Ok(())
    }
}

/// Writes RGB of at most 256 colors, without loss.
pub(crate) fn encode(tensor: &TensorRef<'_>) -> Result<Vec<u8>, Cause> {
    let raster = Raster::of(tensor, u16::MAX.into(), &[DType::U8], &[3])?;
    let (mut palette, mut known) = (Vec::new(), HashMap::new());
    let mut indices = Vec::with_capacity(raster.bytes.len() / 3);
    for color in raster.bytes.as_chunks::<3>().0 {
        let index = *known.entry(*color).or_insert_with(|| {
            palette.extend(color);
            palette.len() / 3 - 1
        });
        indices.push(u8::try_from(index).map_err(|_| {
            Cause::request("has more than the 256 colors that the format can hold; encode it as png or webp")
        })?);
    }
    let (width, height) = (raster.width as u16, raster.height as u16);
    let frame = Frame::from_palette_pixels(width, height, indices, palette, None);
    let failed = |error: ::gif::EncodingError| Cause::request(error.to_string());
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, width, height, &[]).map_err(failed)?;
    encoder.write_frame(&frame).map_err(failed)?;
    drop(encoder);
    Ok(out)
}

fn fault(error: DecodingError) -> Cause {
    match error {
        DecodingError::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Cause::cut_off("the pixels")
        }
        error => Cause::malformed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A canvas of 4 × 3 with frames of two colors.
    fn animated(frames: &[(u16, u16, u16, u16, Option<u8>)]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out, 4, 3, &[]).unwrap();
        for &(left, top, width, height, transparent) in frames {
            let pixels = (0..width * height).map(|at| (at % 2) as u8).collect::<Vec<_>>();
            let frame =
                Frame::from_palette_pixels(width, height, pixels, vec![9, 8, 7, 1, 2, 3], transparent);
            encoder.write_frame(&Frame { left, top, ..frame }).unwrap();
        }
        drop(encoder);
        out
    }

    fn decoded(bytes: &[u8]) -> (Vec<u64>, Vec<u8>, u64) {
        let gif = open(bytes).unwrap();
        let layout = gif.layout();
        let mut out = vec![77; layout.bytes() as usize];
        gif.decode(bytes, 0..3, &mut out).unwrap();
        (layout.shape, out, gif.frames)
    }

    #[test]
    fn the_first_frame_is_decoded_and_all_are_counted() {
        let (shape, pixels, frames) = decoded(&animated(&[(0, 0, 4, 3, None), (1, 1, 2, 2, None)]));
        assert_eq!((shape, frames), (vec![3, 4, 3], 2));
        assert_eq!(pixels[..6], [9, 8, 7, 1, 2, 3]);
    }

    #[test]
    fn what_a_frame_leaves_open_is_transparent() {
        let (shape, pixels, _) = decoded(&animated(&[(1, 1, 2, 2, None)]));
        assert_eq!(shape, [3, 4, 4]);
        assert_eq!(pixels[..20], [0; 20]);
        assert_eq!(pixels[20..32], [9, 8, 7, 255, 1, 2, 3, 255, 0, 0, 0, 0]);
        let (shape, pixels, _) = decoded(&animated(&[(0, 0, 4, 3, Some(1))]));
        assert_eq!((shape, &pixels[..8]), (vec![3, 4, 4], &[9, 8, 7, 255, 0, 0, 0, 0][..]));
    }

    #[test]
    fn frames_outside_of_the_canvas_are_refused() {
        let mut bytes = animated(&[(0, 0, 4, 3, None)]);
        bytes[6] = 3;
        assert!(open(&bytes).is_err());
    }
}
