//! WebP. Decodes to `(height, width, 3)`, or 4 where the header announces alpha; of an animation the first
//! frame. Always whole: its predictors run across all rows.

use std::io::Cursor;
use std::ops::Range;

use image_webp::{ColorType, DecodingError, WebPDecoder, WebPEncoder};
use lacus_tensor::{DType, TensorRef};

use crate::error::{Cause, quoted};
use crate::fields::{part, u16_le, u24_le, u32_le};
use crate::medium::{Details, Layout, Medium, note};
use crate::raster::Raster;

/// The longest side that the format can say in a picture of one part.
const LONGEST: u32 = 16384;

/// What the chunk headers say.
pub(crate) struct WebP {
    width: u32,
    height: u32,
    has_alpha: bool,
    /// `None` for pictures with several frames, whose parts may differ.
    is_lossless: Option<bool>,
    frames: Option<u64>,
}

pub(crate) fn open(bytes: &[u8]) -> Result<WebP, Cause> {
    let cut_off = || Cause::cut_off("the header");
    let chunk = part(bytes, 12, 4).ok_or_else(cut_off)?;
    // The lossy decoder makes up what is missing, so the outer length is compared here.
    let length = u32_le(bytes, 4).ok_or_else(cut_off)? as usize;
    if length > bytes.len() - 8 {
        return Err(Cause::malformed(format!("cut off: says {length} bytes, {} are there", bytes.len() - 8)));
    }
    match chunk {
        b"VP8 " => {
            let (width, height) = lossy_sides(bytes, 20).ok_or_else(cut_off)?;
            Ok(WebP { width, height, has_alpha: false, is_lossless: Some(false), frames: None })
        }
        b"VP8L" => {
            let word = u32_le(bytes, 21).ok_or_else(cut_off)?;
            let (width, height) = (1 + (word & 0x3fff), 1 + (word >> 14 & 0x3fff));
            Ok(WebP { width, height, has_alpha: word >> 28 & 1 != 0, is_lossless: Some(true), frames: None })
        }
        b"VP8X" => {
            let flags = *bytes.get(20).ok_or_else(cut_off)?;
            let side = |at: usize| u24_le(bytes, at).map(|size| size + 1).ok_or_else(cut_off);
            let (width, height) = (side(24)?, side(27)?);
            let (frames, is_lossless) = parts(bytes, (width, height))?;
            let frames = (flags & 2 != 0).then_some(frames);
            Ok(WebP { width, height, has_alpha: flags & 0x10 != 0, is_lossless, frames })
        }
        other => Err(Cause::malformed(format!("the first chunk is {}", quoted(other)))),
    }
}

/// Walks the chunks up to the length that the file says of itself.
pub(crate) fn verify(bytes: &[u8]) -> Result<(), Cause> {
    let cut_off = || Cause::cut_off("a chunk");
    let end = (u32_le(bytes, 4).ok_or_else(cut_off)? as usize).saturating_add(8);
    let file = bytes.get(..end).ok_or_else(cut_off)?;
    let mut at = 12;
    // A lone byte is the padding of the last chunk.
    while at + 1 < file.len() {
        let length = u32_le(file, at + 4).ok_or_else(cut_off)? as usize;
        at = at.saturating_add(8).saturating_add(length);
        if at > file.len() {
            return Err(cut_off());
        }
        at += length & 1;
    }
    Ok(())
}

/// Width and height in the header of a lossy frame.
fn lossy_sides(bytes: &[u8], at: usize) -> Option<(u32, u32)> {
    let side = |at: usize| u16_le(bytes, at).map(|size| u32::from(size & 0x3fff));
    Some((side(at + 6)?, side(at + 8)?))
}

/// Walks the chunks behind an extended header: how many frames there are, and whether a single picture is
/// lossless. A lossy part larger than the canvas is refused here, because the decoder makes room for it
/// before it compares.
fn parts(bytes: &[u8], canvas: (u32, u32)) -> Result<(u64, Option<bool>), Cause> {
    let (mut frames, mut is_lossless) = (0, None);
    let mut at = 30;
    while let (Some(name), Some(length)) = (part(bytes, at, 4), u32_le(bytes, at + 4)) {
        let mut inside = at + 8;
        if name == b"ANMF" {
            frames += 1;
            inside += 16;
        }
        for place in [at, inside] {
            let lossy =
                (part(bytes, place, 4) == Some(b"VP8 ")).then(|| lossy_sides(bytes, place + 8)).flatten();
            if lossy.is_some_and(|(width, height)| width > canvas.0 || height > canvas.1) {
                return Err(Cause::malformed("a part is larger than the picture"));
            }
        }
        match name {
            b"VP8 " => is_lossless = Some(false),
            b"VP8L" => is_lossless = Some(true),
            _ => {}
        }
        at = at.saturating_add(8).saturating_add(length as usize).saturating_add(length as usize & 1);
    }
    Ok((frames, is_lossless))
}

impl Medium for WebP {
    fn layout(&self) -> Layout {
        let channels = if self.has_alpha { 4 } else { 3 };
        Layout::image(DType::U8, self.height.into(), self.width.into(), channels)
    }

    fn details(&self, details: &mut Details) {
        note(details, "bit_depth", 8);
        if let Some(is_lossless) = self.is_lossless {
            note(details, "lossless", is_lossless);
        }
        if let Some(frames) = self.frames {
            note(details, "frames", frames);
        }
    }

    fn decode(&self, bytes: &[u8], _rows: Range<u64>, out: &mut [u8]) -> Result<(), Cause> {
        let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(fault)?;
        if decoder.dimensions() != (self.width, self.height) || decoder.has_alpha() != self.has_alpha {
            return Err(Cause::malformed("chunks before the pixels contradict each other"));
        }
        decoder.set_memory_limit(out.len().saturating_mul(2).saturating_add(1 << 20));
        decoder.read_image(out).map_err(fault)
    }
}

/// Writes RGB or RGBA without loss. The format has no gray, which would come back as RGB.
pub(crate) fn encode(tensor: &TensorRef<'_>) -> Result<Vec<u8>, Cause> {
    let raster = Raster::of(tensor, LONGEST - 1, &[DType::U8], &[3, 4])?;
    let color = if raster.channels == 3 { ColorType::Rgb8 } else { ColorType::Rgba8 };
    let mut out = Vec::with_capacity(1024 + raster.bytes.len() / 2);
    WebPEncoder::new(&mut out)
        .encode(&raster.bytes, raster.width, raster.height, color)
        .map_err(|error| Cause::request(error.to_string()))?;
    Ok(out)
}

fn fault(error: DecodingError) -> Cause {
    match error {
        DecodingError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Cause::cut_off("the pixels")
        }
        DecodingError::UnsupportedFeature(what) => Cause::unsupported(what),
        error => Cause::malformed(error.to_string()),
    }
}
