//! From bytes to a tensor, or to a part of one.

use std::ops::Range;

use lacus_tensor::{Buffer, DType, Shape, Tensor};

use crate::error::{Cause, MediaError};
use crate::format::Format;
use crate::limits::Limits;
use crate::medium::{Layout, Medium, Part};
use crate::open::{format_of, guarded, open};
use crate::tiff;

/// Decodes `bytes`.
///
/// Fails with kind `Invalid` for broken or unsupported media, and for those that would exceed `limits`,
/// before memory is taken for them; with kind `Unavailable` for video without [`ffmpeg`](crate::ffmpeg).
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Tensor, MediaError> {
    let format = format_of(bytes)?;
    guarded(format, || {
        let medium = open(format, bytes)?;
        let layout = medium.layout();
        let all = 0..layout.rows();
        decode_rows(medium.as_ref(), bytes, &layout, all, limits)
    })
}

/// Decodes a TIFF of CMYK to its inks, four or with alpha five per pixel, and any other as [`decode`] does.
///
/// Fails as [`decode`] does, and with kind `Invalid` for other formats.
pub fn decode_inks(bytes: &[u8], limits: &Limits) -> Result<Tensor, MediaError> {
    let format = format_of(bytes)?;
    guarded(format, || {
        if format != Format::Tiff {
            return Err(Cause::request("only a TIFF is decoded to inks"));
        }
        let medium = tiff::open_inks(bytes)?;
        let layout = medium.layout();
        decode_rows(&medium, bytes, &layout, 0..layout.rows(), limits)
    })
}

/// Decodes `bytes` into `out`, which has exactly the length that the dtype and shape of
/// [`probe`](crate::probe) take. JPEG, PNG, BMP, TIFF and sound are decoded in place; where an error
/// happens, `out` holds anything.
///
/// Fails as [`decode`] does, and with kind `Invalid` for an `out` of another length.
pub fn decode_into(bytes: &[u8], limits: &Limits, out: &mut [u8]) -> Result<(), MediaError> {
    let format = format_of(bytes)?;
    guarded(format, || {
        let medium = open(format, bytes)?;
        let layout = medium.layout();
        let expected = limits.check(&layout)?;
        if out.len() != expected {
            return Err(Cause::request(format!(
                "{} of shape {} takes {expected} bytes, the output has {}",
                layout.dtype,
                Shape::new(layout.shape)?,
                out.len()
            )));
        }
        medium.decode(bytes, 0..layout.rows(), out)
    })
}

/// Decodes a box of `bytes`: one range per axis, leading axes first; axes that are left out are whole. The
/// result equals the same box of what [`decode`] gives.
///
/// How much is decoded for rows (or frames) of the first axis depends on the format; other axes are cut
/// afterwards:
///
/// | format | decoded |
/// |---|---|
/// | bmp, wav | the wanted ones, found by their place |
/// | tiff | the strips or tiles that hold them (all, for planes and fewer than 8 bits) |
/// | png | from the first row to the last wanted one (all, if interlaced) |
/// | mp3, ogg | from the start to the last wanted frame |
/// | flac | the wanted packets; those before are stepped over |
/// | mp4, webm | the wanted frames, from the key frame before them |
/// | jpeg, webp, gif, dicom | all |
///
/// `limits` apply to what is held at once: the wanted rows, or all where a format is decoded whole.
///
/// Fails as [`decode`] does, and with kind `Invalid` for a range that reaches out of its axis. A file that is
/// broken behind the wanted rows may not be noticed.
pub fn decode_region(bytes: &[u8], region: &[Range<u64>], limits: &Limits) -> Result<Tensor, MediaError> {
    let format = format_of(bytes)?;
    guarded(format, || {
        let medium = open(format, bytes)?;
        let layout = medium.layout();
        check_region(region, &layout)?;
        let Some(wanted) = region.first() else {
            let all = 0..layout.rows();
            return decode_rows(medium.as_ref(), bytes, &layout, all, limits);
        };
        let rows = if medium.takes_rows() { wanted.clone() } else { 0..layout.rows() };
        let decoded = decode_rows(medium.as_ref(), bytes, &layout, rows.clone(), limits)?;
        let (mut origin, mut extent) = (vec![0; layout.shape.len()], decoded.shape().dims().to_vec());
        for (axis, range) in region.iter().enumerate() {
            origin[axis] = range.start - if axis == 0 { rows.start } else { 0 };
            extent[axis] = range.end - range.start;
        }
        if extent == decoded.shape().dims() {
            return Ok(decoded);
        }
        Ok(decoded.as_ref().region(&origin, &extent).to_tensor())
    })
}

/// The picture in a file, before it is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureFacts {
    /// The dtype of its numbers.
    pub dtype: DType,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// Numbers per pixel; 1 for gray.
    pub channels: usize,
}

/// Decodes a part of a picture, perhaps at a reduced size, into `memory`, which grows as needed and is meant to be used again.
///
/// `choose` is called once, with what the header says, and answers with what is wanted: a JPEG decodes no more than that, and takes
/// any reduction. For all other files, and those JPEGs that are progressive or unusual, the whole picture is decoded. What was decoded
/// comes back: the numbers are in C order at the start of `memory`.
///
/// A reduced JPEG is what libjpeg makes of it with the same scale. A file that is broken behind the wanted rows may not be noticed.
///
/// Fails as [`decode`] does, with what `choose` fails with, and with kind `Invalid` for what is no single picture.
pub fn decode_part<E: From<MediaError>>(
    bytes: &[u8],
    limits: &Limits,
    memory: &mut Vec<u8>,
    choose: impl FnOnce(&PictureFacts) -> Result<Part, E>,
) -> Result<(PictureFacts, Part), E> {
    let format = format_of(bytes)?;
    let (medium, layout) = guarded(format, || {
        let medium = open(format, bytes)?;
        let layout = medium.layout();
        limits.check(&layout)?;
        Ok((medium, layout))
    })?;
    let facts = guarded(format, || match *layout.shape.as_slice() {
        _ if layout.unit != "pixels" => Err(Cause::request("holds sound, not a picture")),
        [height, width] => Ok((height, width, 1)),
        [height, width, channels] if layout.channels == channels => Ok((height, width, channels)),
        _ => Err(Cause::request("holds several pictures, not one")),
    })?;
    let (height, width, channels) = (facts.0 as usize, facts.1 as usize, facts.2 as usize);
    let facts = PictureFacts { dtype: layout.dtype, height, width, channels };
    let wanted = choose(&facts)?;
    let part = guarded(format, || {
        let whole = Part { reduction: 1, rows: 0..height, columns: 0..width };
        if medium.reduces() && wanted != whole {
            wanted.check(&facts)?;
            memory.resize(wanted.rows.len() * wanted.columns.len() * channels, 0);
            if medium.decode_part(bytes, &wanted, memory)? {
                return Ok(wanted);
            }
        }
        memory.resize(layout.bytes() as usize, 0);
        medium.decode(bytes, 0..layout.rows(), memory)?;
        Ok(whole)
    })?;
    Ok((facts, part))
}

impl Part {
    fn check(&self, facts: &PictureFacts) -> Result<(), Cause> {
        let fits = |range: &Range<usize>, side: usize| {
            range.start < range.end && range.end <= side.div_ceil(self.reduction.into())
        };
        if !matches!(self.reduction, 1 | 2 | 4 | 8) {
            return Err(Cause::request(format!(
                "reduced to 1, 1/2, 1/4 or 1/8 of its size, not to 1/{}",
                self.reduction
            )));
        }
        if !fits(&self.rows, facts.height) || !fits(&self.columns, facts.width) {
            return Err(Cause::request(format!(
                "rows {:?} and columns {:?} reach out of a picture of {} × {}, reduced to 1/{}",
                self.rows, self.columns, facts.height, facts.width, self.reduction
            )));
        }
        Ok(())
    }
}

fn decode_rows(
    medium: &dyn Medium,
    bytes: &[u8],
    layout: &Layout,
    rows: Range<u64>,
    limits: &Limits,
) -> Result<Tensor, Cause> {
    let layout = layout.with_rows(rows.end - rows.start);
    let length = limits.check(&layout)?;
    let mut buffer = Buffer::try_for_overwrite(length)?;
    if length > 0 {
        medium.decode(bytes, rows, &mut buffer)?;
    }
    Ok(Tensor::new(layout.dtype, Shape::new(layout.shape)?, buffer)?)
}

fn check_region(region: &[Range<u64>], layout: &Layout) -> Result<(), Cause> {
    if region.len() > layout.shape.len() {
        return Err(Cause::request(format!(
            "a region of {} ranges in a tensor of {} axes",
            region.len(),
            layout.shape.len()
        )));
    }
    for (axis, (range, &size)) in region.iter().zip(&layout.shape).enumerate() {
        if range.start > range.end || range.end > size {
            return Err(Cause::request(format!(
                "the range {}..{} reaches out of axis {axis} of size {size}",
                range.start, range.end
            )));
        }
    }
    Ok(())
}
