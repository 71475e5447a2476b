//! TIFF: the first page. Elements keep the dtype of the file, of which there are many; pixels of fewer than
//! 8 bits are spread over 0 to 255. Palettes and subsampled colors are not read.
//!
//! | stored | decoded |
//! |---|---|
//! | gray | `(height, width)` |
//! | RGB | `(height, width, 3)` |
//! | CMYK of 8 or 16 bits | `(height, width, 3)`: RGB, as CMYK in a JPEG is |
//! | CMYK with alpha | `(height, width, 4)`: RGBA |
//! | gray or RGB with alpha, bands | `(height, width, samples)` |
//!
//! Planes that are stored one after the other are interleaved. Rows are decoded by the strips and tiles that
//! hold them, unless the picture has planes or fewer than 8 bits.

use std::io::Cursor;
use std::ops::Range;

use ::tiff::decoder::{Decoder, DecodingSampleType, Limits};
use ::tiff::encoder::colortype::{self, ColorType as Color};
use ::tiff::encoder::{TiffEncoder, TiffValue};
use ::tiff::tags::Tag;
use ::tiff::{ColorType, TiffError};
use lacus_tensor::{Buffer, DType, Element, TensorRef};

use crate::error::Cause;
use crate::medium::{Details, Layout, Medium, note};
use crate::raster::Raster;

/// The number of the compression by JPEG.
const JPEG: u16 = 7;
/// Pages counted at most: each costs a directory read.
const MOST_PAGES: u64 = 1000;

/// What the first directory says.
pub(crate) struct Tiff {
    width: u32,
    height: u32,
    color: ColorType,
    dtype: DType,
    planes: usize,
    pages: u64,
    /// CMYK is left as it is.
    keeps_inks: bool,
}

pub(crate) fn open(bytes: &[u8]) -> Result<Tiff, Cause> {
    let mut decoder = decoder(bytes, 0)?;
    let (width, height) = decoder.dimensions().map_err(fault)?;
    let color = decoder.colortype().map_err(fault)?;
    if width == 0 || height == 0 {
        return Err(Cause::malformed(format!("a picture of {width} × {height} pixels")));
    }
    let stored = decoder.image_buffer_layout().map_err(fault)?;
    let unknown = || Cause::unsupported(format!("samples of {:?}, {:?}", color, stored.sample_format));
    let dtype = match stored.sample_type.ok_or_else(unknown)? {
        DecodingSampleType::U8 => DType::U8,
        DecodingSampleType::U16 => DType::U16,
        DecodingSampleType::U32 => DType::U32,
        DecodingSampleType::U64 => DType::U64,
        DecodingSampleType::F16 => DType::F16,
        DecodingSampleType::F32 => DType::F32,
        DecodingSampleType::F64 => DType::F64,
        DecodingSampleType::I8 => DType::I8,
        DecodingSampleType::I16 => DType::I16,
        DecodingSampleType::I32 => DType::I32,
        DecodingSampleType::I64 => DType::I64,
    };
    let is_whole = usize::from(color.bit_depth()) == 8 * dtype.size_bytes();
    let is_spread = color.num_samples() == 1 && matches!(color.bit_depth(), 1 | 2 | 4) && dtype == DType::U8;
    if !is_whole && !is_spread {
        return Err(unknown());
    }
    if matches!(color, ColorType::Palette(_)) || color.num_samples() == 0 {
        return Err(unknown());
    }
    // The decoder takes the second component of a JPEG for a color, and gives wrong pixels for it.
    let compression = decoder.find_tag_unsigned::<u16>(Tag::Compression).map_err(fault)?;
    if compression == Some(JPEG) && color.num_samples() == 2 {
        return Err(Cause::unsupported("two samples per pixel coded as JPEG"));
    }
    let planes = stored.planes;
    let mut pages = 1;
    while pages < MOST_PAGES && decoder.more_images() && decoder.next_image().is_ok() {
        pages += 1;
    }
    Ok(Tiff { width, height, color, dtype, planes, pages, keeps_inks: false })
}

/// As [`open`], but CMYK is decoded to its inks.
pub(crate) fn open_inks(bytes: &[u8]) -> Result<Tiff, Cause> {
    Ok(Tiff { keeps_inks: true, ..open(bytes)? })
}

/// Whether all strips or tiles of the first page lie inside of the file.
pub(crate) fn verify(bytes: &[u8]) -> Result<(), Cause> {
    // Places and lengths take at least two bytes each in the file, and some tens in the decoder's memory.
    let mut decoder = decoder(bytes, bytes.len().saturating_mul(16).saturating_add(1024))?;
    for (offsets, lengths) in
        [(Tag::StripOffsets, Tag::StripByteCounts), (Tag::TileOffsets, Tag::TileByteCounts)]
    {
        let offsets = decoder.find_tag_unsigned_vec::<u64>(offsets).map_err(fault)?.unwrap_or_default();
        let lengths = decoder.find_tag_unsigned_vec::<u64>(lengths).map_err(fault)?.unwrap_or_default();
        for (offset, length) in offsets.into_iter().zip(lengths) {
            let end = offset.saturating_add(length);
            if end > bytes.len() as u64 {
                let found = bytes.len();
                return Err(Cause::malformed(format!(
                    "cut off: a strip or tile ends at byte {end}, the file has {found}"
                )));
            }
        }
    }
    Ok(())
}

fn decoder(bytes: &[u8], out_bytes: usize) -> Result<Decoder<Cursor<&[u8]>>, Cause> {
    let mut limits = Limits::default();
    limits.decoding_buffer_size = out_bytes;
    // A tag's value lies in the file, so it is no longer than that.
    limits.ifd_value_size = bytes.len().max(1024);
    Ok(Decoder::new(Cursor::new(bytes)).map_err(fault)?.with_limits(limits))
}

impl Tiff {
    fn is_plain(&self) -> bool {
        self.planes == 1 && self.color.bit_depth() >= 8
    }

    /// Samples of a pixel, as stored.
    fn samples(&self) -> u64 {
        self.color.num_samples().into()
    }

    /// Whether pixels are inks that become colors.
    fn is_converted(&self) -> bool {
        let is_cmyk = matches!(self.color, ColorType::CMYK(_) | ColorType::CMYKA(_));
        is_cmyk && matches!(self.dtype, DType::U8 | DType::U16) && !self.keeps_inks
    }

    fn channels(&self) -> u64 {
        self.samples() - u64::from(self.is_converted())
    }

    /// Decodes `rows` as they are stored, but interleaved.
    fn decode_samples(&self, bytes: &[u8], rows: Range<u64>, out: &mut [u8]) -> Result<(), Cause> {
        if !self.is_plain() {
            return self.decode_other(bytes, out);
        }
        if rows != (0..u64::from(self.height)) {
            return self.decode_chunks(bytes, rows, out);
        }
        let mut decoder = decoder(bytes, out.len())?;
        if decoder.image_buffer_layout().map_err(fault)?.len != out.len() {
            return Err(Cause::malformed("rows of another length"));
        }
        decoder.read_image_bytes(out).map_err(fault)
    }

    /// Decodes the strips or tiles that touch `rows`, and copies what is wanted of them.
    fn decode_chunks(&self, bytes: &[u8], rows: Range<u64>, out: &mut [u8]) -> Result<(), Cause> {
        let pixel_bytes = self.samples() as usize * self.dtype.size_bytes();
        let row_bytes = self.width as usize * pixel_bytes;
        let mut decoder = decoder(bytes, out.len())?;
        let (chunk_width, chunk_height) = decoder.chunk_dimensions();
        if chunk_width == 0 || chunk_height == 0 {
            return Err(Cause::malformed("tiles without pixels"));
        }
        let across = self.width.div_ceil(chunk_width);
        let mut chunk = Vec::new();
        for band in rows.start / u64::from(chunk_height)..rows.end.div_ceil(chunk_height.into()) {
            for column in 0..across {
                let index = u32::try_from(band * u64::from(across) + u64::from(column))
                    .map_err(|_| Cause::malformed("more tiles than can be counted"))?;
                // A chunk at the edge has less data than the others.
                let top = band * u64::from(chunk_height);
                let height = u64::from(chunk_height).min(u64::from(self.height) - top) as usize;
                let left = column as usize * chunk_width as usize;
                let width = (chunk_width as usize).min(self.width as usize - left);
                let stored = decoder.image_chunk_buffer_layout(index).map_err(fault)?;
                if stored.len != width * height * pixel_bytes {
                    return Err(Cause::malformed("a tile of another size"));
                }
                chunk.resize(stored.len, 0);
                decoder.read_chunk_bytes(index, &mut chunk).map_err(fault)?;
                for (row, line) in (top..).zip(chunk.chunks_exact(width * pixel_bytes)) {
                    if rows.contains(&row) {
                        let at = (row - rows.start) as usize * row_bytes + left * pixel_bytes;
                        out[at..at + line.len()].copy_from_slice(line);
                    }
                }
            }
        }
        Ok(())
    }

    /// Decodes into memory as stored, and from there puts the elements into their places.
    fn decode_other(&self, bytes: &[u8], out: &mut [u8]) -> Result<(), Cause> {
        let mut decoder = decoder(bytes, out.len())?;
        let stored = decoder.image_buffer_layout().map_err(fault)?;
        // Each is at most as long as what comes out of it, so the caller's limits hold.
        if stored.complete_len > out.len().max(1) {
            return Err(Cause::malformed("planes larger than the picture"));
        }
        let mut elements = Buffer::try_zeroed(stored.complete_len)?;
        decoder.read_image_bytes(&mut elements).map_err(fault)?;
        if self.planes > 1 {
            let size = self.dtype.size_bytes();
            let plane_bytes = self.width as usize * self.height as usize * size;
            if elements.len() != plane_bytes * self.planes || out.len() != elements.len() {
                return Err(Cause::malformed("planes of different sizes"));
            }
            for (plane, elements) in elements.chunks_exact(plane_bytes).enumerate() {
                for (pixel, element) in
                    out.chunks_exact_mut(size * self.planes).zip(elements.chunks_exact(size))
                {
                    pixel[plane * size..][..size].copy_from_slice(element);
                }
            }
            return Ok(());
        }
        let bits = usize::from(self.color.bit_depth());
        let row_bytes = (self.width as usize * bits).div_ceil(8);
        if elements.len() != row_bytes * self.height as usize {
            return Err(Cause::malformed("rows of another length"));
        }
        let most = (1usize << bits) - 1;
        let rows = out.chunks_exact_mut(self.width as usize).zip(elements.chunks_exact(row_bytes));
        for (row, stored) in rows {
            for (at, pixel) in row.iter_mut().enumerate() {
                let value = usize::from(stored[at * bits / 8]) >> (8 - bits - at * bits % 8) & most;
                *pixel = (value * 255 / most) as u8;
            }
        }
        Ok(())
    }
}

impl Medium for Tiff {
    fn layout(&self) -> Layout {
        Layout::image(self.dtype, self.height.into(), self.width.into(), self.channels())
    }

    fn details(&self, details: &mut Details) {
        note(details, "bit_depth", self.color.bit_depth());
        let color = match self.color {
            ColorType::Gray(_) => "gray",
            ColorType::GrayA(_) => "gray+alpha",
            ColorType::RGB(_) => "rgb",
            ColorType::RGBA(_) => "rgba",
            ColorType::CMYK(_) => "cmyk",
            ColorType::CMYKA(_) => "cmyk+alpha",
            ColorType::YCbCr(_) => "ycbcr",
            ColorType::Lab(_) => "lab",
            _ => "bands",
        };
        note(details, "color", color);
        note(details, "pages", self.pages);
    }

    fn takes_rows(&self) -> bool {
        self.is_plain()
    }

    fn decode(&self, bytes: &[u8], rows: Range<u64>, out: &mut [u8]) -> Result<(), Cause> {
        if !self.is_converted() {
            return self.decode_samples(bytes, rows, out);
        }
        let (samples, channels) = (self.samples() as usize, self.channels() as usize);
        let mut inks = Buffer::try_zeroed(out.len() / channels * samples)?;
        self.decode_samples(bytes, rows, &mut inks)?;
        match self.dtype {
            DType::U8 => colors::<1>(&inks, samples, out, 255, |[a]| a.into(), |v| [v as u8]),
            _ => {
                let (read, write) = (|b| u16::from_le_bytes(b).into(), |v| (v as u16).to_le_bytes());
                colors::<2>(&inks, samples, out, 65_535, read, write);
            }
        }
        Ok(())
    }
}

/// Makes colors of inks: what a full ink leaves of a color is nothing, and black takes from all three. Alpha stays.
fn colors<const N: usize>(
    inks: &[u8],
    samples: usize,
    out: &mut [u8],
    most: u64,
    read: impl Fn([u8; N]) -> u64,
    write: impl Fn(u64) -> [u8; N],
) {
    let pixels = inks.as_chunks::<N>().0.chunks_exact(samples);
    for (pixel, color) in pixels.zip(out.as_chunks_mut::<N>().0.chunks_exact_mut(samples - 1)) {
        let left = most - read(pixel[3]);
        for (channel, ink) in color.iter_mut().zip(&pixel[..3]) {
            *channel = write(((most - read(*ink)) * left + most / 2) / most);
        }
        if let (Some(alpha), Some(stored)) = (color.get_mut(3), pixel.get(4)) {
            *alpha = *stored;
        }
    }
}

/// Writes gray, RGB or RGBA uncompressed, so that rows are found without decoding others.
pub(crate) fn encode(tensor: &TensorRef<'_>) -> Result<Vec<u8>, Cause> {
    use DType::{F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    use colortype::*;
    let any = [U8, U16, U32, U64, I8, I16, I32, I64, F32, F64];
    let unsigned = [U8, U16, U32, U64, F32, F64];
    let is_gray = matches!(tensor.shape().dims(), [_, _] | [_, _, 1]);
    let raster = Raster::of(tensor, 1 << 30, if is_gray { &any } else { &unsigned }, &[1, 3, 4])?;
    match (raster.channels, raster.dtype) {
        (1, U8) => write::<Gray8, u8>(&raster),
        (1, U16) => write::<Gray16, u16>(&raster),
        (1, U32) => write::<Gray32, u32>(&raster),
        (1, U64) => write::<Gray64, u64>(&raster),
        (1, I8) => write::<GrayI8, i8>(&raster),
        (1, I16) => write::<GrayI16, i16>(&raster),
        (1, I32) => write::<GrayI32, i32>(&raster),
        (1, I64) => write::<GrayI64, i64>(&raster),
        (1, F32) => write::<Gray32Float, f32>(&raster),
        (1, _) => write::<Gray64Float, f64>(&raster),
        (3, U8) => write::<RGB8, u8>(&raster),
        (3, U16) => write::<RGB16, u16>(&raster),
        (3, U32) => write::<RGB32, u32>(&raster),
        (3, U64) => write::<RGB64, u64>(&raster),
        (3, F32) => write::<RGB32Float, f32>(&raster),
        (3, _) => write::<RGB64Float, f64>(&raster),
        (_, U8) => write::<RGBA8, u8>(&raster),
        (_, U16) => write::<RGBA16, u16>(&raster),
        (_, U32) => write::<RGBA32, u32>(&raster),
        (_, U64) => write::<RGBA64, u64>(&raster),
        (_, F32) => write::<RGBA32Float, f32>(&raster),
        (_, _) => write::<RGBA64Float, f64>(&raster),
    }
}

fn write<C: Color<Inner = T>, T: Element>(raster: &Raster<'_>) -> Result<Vec<u8>, Cause>
where
    [T]: TiffValue,
{
    // The encoder wants numbers, which foreign memory may not be aligned for.
    let elements = Buffer::from_slice(&raster.bytes);
    let mut out = Cursor::new(Vec::with_capacity(1024 + elements.len()));
    let failed = |error: TiffError| Cause::request(error.to_string());
    let mut encoder = TiffEncoder::new(&mut out).map_err(failed)?;
    encoder.write_image::<C>(raster.width, raster.height, elements.cast::<T>()).map_err(failed)?;
    Ok(out.into_inner())
}

fn fault(error: TiffError) -> Cause {
    match error {
        TiffError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Cause::cut_off("a strip or a directory")
        }
        TiffError::UnsupportedError(error) => Cause::unsupported(error.to_string()),
        error => Cause::malformed(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
