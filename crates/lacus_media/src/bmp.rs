//! BMP, the Windows bitmap: rows of plain pixels, usually from the bottom up.
//!
//! ```text
//! BM, where the pixels are │ header: width, ±height, bits, compression │ masks, palette │ rows, padded to 4
//! ```
//!
//! A palette of grays decodes to `(height, width)`, other pixels to `(height, width, 3)`, and with an alpha
//! mask to 4 channels. The fourth byte of 32-bit pixels without masks is padding and dropped. Run-length
//! encoding and embedded JPEG or PNG are not read. Any rows can be decoded alone.

use std::ops::Range;

use lacus_tensor::{DType, TensorRef};

use crate::error::Cause;
use crate::fields::{i32_le, part, u16_le, u32_le};
use crate::medium::{Details, Layout, Medium, note};
use crate::raster::Raster;

/// The longest side written: what keeps the file's own length field, of 32 bits, from overflowing is
/// checked besides.
const LONGEST: u32 = 1 << 30;

/// What the header says.
pub(crate) struct Bmp {
    width: u64,
    height: u64,
    is_top_down: bool,
    bits: u16,
    pixels: Pixels,
    /// Where the rows begin.
    start: usize,
}

/// How a pixel is stored.
enum Pixels {
    Gray(Vec<u8>),
    Palette(Vec<[u8; 3]>),
    /// Blue, green, red in whole bytes, with this many bytes from pixel to pixel.
    Bytes(usize),
    /// Bits cut out of a 16- or 32-bit number: red, green, blue, and perhaps alpha.
    Masks(Vec<u32>),
}

pub(crate) fn open(bytes: &[u8]) -> Result<Bmp, Cause> {
    let cut_off = || Cause::cut_off("the header");
    let long = |at: usize| u32_le(bytes, at).ok_or_else(cut_off);
    let short = |at: usize| u16_le(bytes, at).ok_or_else(cut_off);
    let (start, header_bytes) = (long(10)? as usize, long(14)? as usize);
    let is_old = header_bytes == 12;
    let (width, height, bits, compression) = if is_old {
        (i64::from(short(18)?), i64::from(short(20)?), short(24)?, 0)
    } else {
        let side = |at: usize| i32_le(bytes, at).map(i64::from).ok_or_else(cut_off);
        (side(18)?, side(22)?, short(28)?, long(30)?)
    };
    if width <= 0 || height == 0 {
        return Err(Cause::malformed(format!("a picture of {width} × {height} pixels")));
    }
    let pixels = match (bits, compression) {
        (1 | 2 | 4 | 8, 0) => {
            let entry_bytes = if is_old { 3 } else { 4 };
            let used = if is_old { 0 } else { long(46)? as usize };
            let count = if used == 0 { 1 << bits } else { used.min(1 << bits) };
            let entries = part(bytes, 14 + header_bytes, count * entry_bytes).ok_or_else(cut_off)?;
            let palette: Vec<[u8; 3]> =
                entries.chunks_exact(entry_bytes).map(|entry| [entry[2], entry[1], entry[0]]).collect();
            if palette.iter().all(|[red, green, blue]| red == green && green == blue) {
                Pixels::Gray(palette.iter().map(|color| color[0]).collect())
            } else {
                Pixels::Palette(palette)
            }
        }
        (16, 0) => Pixels::Masks(vec![0x7c00, 0x03e0, 0x001f]),
        (24, 0) => Pixels::Bytes(3),
        (32, 0) => Pixels::Bytes(4),
        // The masks follow a header of 40 bytes, and are a part of the longer ones at the same place.
        (16 | 32, 3 | 6) => {
            let mut masks = vec![long(54)?, long(58)?, long(62)?];
            if header_bytes >= 56 || compression == 6 {
                masks.push(long(66)?);
            }
            if masks[..3].contains(&0) || masks.iter().any(|mask| !is_one_run(*mask)) {
                return Err(Cause::malformed(format!("the color masks {masks:08x?}")));
            }
            masks.retain(|&mask| mask != 0);
            Pixels::Masks(masks)
        }
        (_, 1 | 2) => return Err(Cause::unsupported("run-length encoded pixels")),
        (_, 4 | 5) => return Err(Cause::unsupported("a JPEG or PNG inside; take it out first")),
        _ => return Err(Cause::malformed(format!("{bits} bits with compression {compression}"))),
    };
    let (width, is_top_down) = (width as u64, height < 0);
    Ok(Bmp { width, height: height.unsigned_abs(), is_top_down, bits, pixels, start })
}

/// Whether all rows are there.
pub(crate) fn verify(bytes: &[u8]) -> Result<(), Cause> {
    open(bytes)?.check_rows(bytes)
}

/// Whether the ones of a mask are neighbours.
fn is_one_run(mask: u32) -> bool {
    mask == 0 || (mask >> mask.trailing_zeros()).trailing_ones() == mask.count_ones()
}

impl Bmp {
    fn channels(&self) -> usize {
        match &self.pixels {
            Pixels::Gray(_) => 1,
            Pixels::Palette(_) | Pixels::Bytes(_) => 3,
            Pixels::Masks(masks) => masks.len(),
        }
    }

    /// Bytes of a stored row, with its padding.
    fn stored_row_bytes(&self) -> u64 {
        (self.width * u64::from(self.bits)).div_ceil(32) * 4
    }

    /// Bytes of a stored row that hold pixels.
    fn used_row_bytes(&self) -> u64 {
        (self.width * u64::from(self.bits)).div_ceil(8)
    }

    /// Fails unless all rows are there. Programs leave out the padding of the last one, which is not missed.
    fn check_rows(&self, bytes: &[u8]) -> Result<(), Cause> {
        let above = (self.height - 1).saturating_mul(self.stored_row_bytes());
        let needed = above.saturating_add(self.used_row_bytes());
        let found = bytes.len().saturating_sub(self.start) as u64;
        match found < needed {
            true => {
                Err(Cause::malformed(format!("cut off: the pixels take {needed} bytes, {found} are left")))
            }
            false => Ok(()),
        }
    }

    fn decode_row(&self, stored: &[u8], row: &mut [u8]) -> Result<(), Cause> {
        match &self.pixels {
            Pixels::Gray(palette) => {
                for (at, pixel) in row.iter_mut().enumerate() {
                    *pixel = *self.color(palette, stored, at)?;
                }
            }
            Pixels::Palette(palette) => {
                for (at, pixel) in row.as_chunks_mut::<3>().0.iter_mut().enumerate() {
                    *pixel = *self.color(palette, stored, at)?;
                }
            }
            Pixels::Bytes(step) => {
                for (pixel, from) in row.as_chunks_mut::<3>().0.iter_mut().zip(stored.chunks_exact(*step)) {
                    *pixel = [from[2], from[1], from[0]];
                }
            }
            Pixels::Masks(masks) => {
                let step = usize::from(self.bits) / 8;
                for (pixel, from) in row.chunks_exact_mut(masks.len()).zip(stored.chunks_exact(step)) {
                    let word = from.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
                    for (value, &mask) in pixel.iter_mut().zip(masks) {
                        let most = u64::from(mask >> mask.trailing_zeros());
                        let found = u64::from((word & mask) >> mask.trailing_zeros());
                        *value = ((found * 255 + most / 2) / most) as u8;
                    }
                }
            }
        }
        Ok(())
    }

    /// The palette's entry for one pixel of a row.
    fn color<'a, T>(&self, palette: &'a [T], stored: &[u8], at: usize) -> Result<&'a T, Cause> {
        let bits = usize::from(self.bits);
        let shift = 8 - bits - at * bits % 8;
        let index = usize::from(stored[at * bits / 8] >> shift) & ((1 << bits) - 1);
        palette
            .get(index)
            .ok_or_else(|| Cause::malformed(format!("color {index} of a palette of {}", palette.len())))
    }
}

impl Medium for Bmp {
    fn layout(&self) -> Layout {
        Layout::image(DType::U8, self.height, self.width, self.channels() as u64)
    }

    fn details(&self, details: &mut Details) {
        note(details, "bit_depth", 8);
        note(details, "bits_per_pixel", self.bits);
        note(details, "palette", matches!(self.pixels, Pixels::Gray(_) | Pixels::Palette(_)));
    }

    fn takes_rows(&self) -> bool {
        true
    }

    fn decode(&self, bytes: &[u8], rows: Range<u64>, out: &mut [u8]) -> Result<(), Cause> {
        // Checked for the whole picture, so that a cut-off file is one whichever rows are wanted.
        self.check_rows(bytes)?;
        let (stored_bytes, used_bytes) = (self.stored_row_bytes(), self.used_row_bytes());
        let row_bytes = self.width as usize * self.channels();
        for (row, out) in rows.zip(out.chunks_exact_mut(row_bytes)) {
            let place = if self.is_top_down { row } else { self.height - 1 - row };
            let at = self.start + (place * stored_bytes) as usize;
            self.decode_row(&bytes[at..at + used_bytes as usize], out)?;
        }
        Ok(())
    }
}

/// Writes gray (as a palette of 256 grays), RGB, or RGBA (with masks, as the newest header has them).
pub(crate) fn encode(tensor: &TensorRef<'_>) -> Result<Vec<u8>, Cause> {
    let raster = Raster::of(tensor, LONGEST, &[DType::U8], &[1, 3, 4])?;
    let channels = raster.channels as usize;
    let stored_bytes = (raster.width as usize * channels).next_multiple_of(4);
    let (header_bytes, compression) = if channels == 4 { (108, 3u32) } else { (40, 0) };
    let palette_bytes = if channels == 1 { 1024 } else { 0 };
    let start = 14 + header_bytes + palette_bytes;
    let length = stored_bytes
        .checked_mul(raster.height as usize)
        .and_then(|bytes| u32::try_from(bytes + start).ok())
        .ok_or_else(|| Cause::request("takes more than the 4 GiB that a bmp can hold"))?;

    let mut out = Vec::with_capacity(length as usize);
    out.extend(b"BM");
    out.extend(length.to_le_bytes());
    out.extend([0; 4]);
    out.extend((start as u32).to_le_bytes());
    out.extend((header_bytes as u32).to_le_bytes());
    out.extend((raster.width as i32).to_le_bytes());
    out.extend((raster.height as i32).to_le_bytes());
    out.extend(1u16.to_le_bytes());
    out.extend((8 * channels as u16).to_le_bytes());
    out.extend(compression.to_le_bytes());
    out.extend([0; 20]);
    if channels == 4 {
        for mask in [0x00ff_0000u32, 0x0000_ff00, 0x0000_00ff, 0xff00_0000] {
            out.extend(mask.to_le_bytes());
        }
        // The color space is sRGB; its end points and gamma stay zero.
        out.extend(b"BGRs");
        out.extend([0; 48]);
    }
    if channels == 1 {
        out.extend((0..=255u8).flat_map(|gray| [gray, gray, gray, 0]));
    }
    for row in raster.bytes.chunks_exact(raster.row_bytes()).rev() {
        match channels {
            1 => out.extend(row),
            3 => out.extend(row.as_chunks::<3>().0.iter().flat_map(|&[red, green, blue]| [blue, green, red])),
            _ => out.extend(
                row.as_chunks::<4>()
                    .0
                    .iter()
                    .flat_map(|&[red, green, blue, alpha]| [blue, green, red, alpha]),
            ),
        }
        out.resize(out.len() + stored_bytes - row.len(), 0);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of 40 bytes, then what follows.
    fn bmp(width: i32, height: i32, bits: u16, compression: u32, rest: &[u8], pixels: &[u8]) -> Vec<u8> {
        let mut out = b"BM\0\0\0\0\0\0\0\0".to_vec();
        out.extend((54 + rest.len() as u32).to_le_bytes());
        out.extend(40u32.to_le_bytes());
        out.extend(width.to_le_bytes());
        out.extend(height.to_le_bytes());
        out.extend([1, 0]);
        out.extend(bits.to_le_bytes());
        out.extend(compression.to_le_bytes());
        out.extend([0; 20]);
        [&out, rest, pixels].concat()
    }

    fn check(bytes: &[u8], shape: &[u64], pixels: &[u8]) {
        let bmp = open(bytes).unwrap();
        assert_eq!(bmp.layout().shape, shape);
        let mut out = vec![0; bmp.layout().bytes() as usize];
        bmp.decode(bytes, 0..bmp.height, &mut out).unwrap();
        assert_eq!(out, pixels);
    }

    #[test]
    fn rows_go_up_or_down() {
        let pixels = [3, 2, 1, 0, 6, 5, 4, 0];
        check(&bmp(1, 2, 24, 0, &[], &pixels), &[2, 1, 3], &[4, 5, 6, 1, 2, 3]);
        check(&bmp(1, -2, 24, 0, &[], &pixels), &[2, 1, 3], &[1, 2, 3, 4, 5, 6]);
        check(&bmp(1, -2, 32, 0, &[], &pixels), &[2, 1, 3], &[1, 2, 3, 4, 5, 6]);
        // The padding of the last row may be missing.
        check(&bmp(1, -2, 24, 0, &[], &pixels[..7]), &[2, 1, 3], &[1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn palettes_of_any_depth() {
        let two = [0, 0, 0, 0, 255, 255, 255, 0];
        check(&bmp(3, 1, 1, 0, &two, &[0b1010_0000, 0, 0, 0]), &[1, 3], &[255, 0, 255]);
        let sixteen: Vec<u8> = (0..16).flat_map(|at| [at, 2 * at, 3 * at, 0]).collect();
        check(&bmp(2, 1, 4, 0, &sixteen, &[0x1f, 0, 0, 0]), &[1, 2, 3], &[3, 2, 1, 45, 30, 15]);
    }

    #[test]
    fn masks_cut_channels_out() {
        let five_six_five = [0x00, 0xf8, 0, 0, 0xe0, 0x07, 0, 0, 0x1f, 0, 0, 0];
        check(
            &bmp(2, 1, 16, 3, &five_six_five, &[0x00, 0xf8, 0xe0, 0x07]),
            &[1, 2, 3],
            &[255, 0, 0, 0, 255, 0],
        );
        check(&bmp(1, 1, 16, 0, &[], &[0x1f, 0, 0, 0]), &[1, 1, 3], &[0, 0, 255]);
        assert!(open(&bmp(1, 1, 16, 3, &[0; 12], &[0; 4])).is_err());
    }

    #[test]
    fn what_is_not_read_is_said() {
        let check = |bits: u16, compression: u32, expected: &str| {
            let error = open(&bmp(1, 1, bits, compression, &[0; 64], &[0; 4])).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(8, 1, "run-length");
        check(4, 2, "run-length");
        check(24, 4, "JPEG");
        check(7, 0, "7 bits");
    }
}
