//! From a pixel data element to elements in C order.
//!
//! ```text
//! plain        frames one after the other, samples interleaved or in planes
//! fragments    RLE: one per frame; JPEG: frames one after the other, each in one or more fragments
//! ```

use jpeg_decoder::{ColorTransform, Decoder, PixelFormat};

use super::Dicom;
use crate::error::Cause;
use crate::fields::u32_le;
use crate::jpeg::Frame;

const RLE: &str = "1.2.840.10008.1.2.5";
/// JPEG baseline, extended, and the two lossless ones.
const JPEG: [&str; 4] =
    ["1.2.840.10008.1.2.4.50", "1.2.840.10008.1.2.4.51", "1.2.840.10008.1.2.4.57", "1.2.840.10008.1.2.4.70"];

/// Plain pixels of a big-endian file, with their bytes turned around.
pub(super) fn little_endian(dicom: &Dicom, bytes: &[u8], is_words: bool) -> Vec<u8> {
    let width = match dicom.bits_allocated {
        1 | 8 if is_words => 2,
        bits => usize::from(bits / 8).max(1),
    };
    let mut turned = bytes.to_vec();
    turned.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    turned
}

/// Bytes that plain pixels take which decode to so many.
fn plain_bytes(dicom: &Dicom, decoded: u64) -> u64 {
    if dicom.bits_allocated == 1 { decoded.div_ceil(8) } else { decoded }
}

/// Fails if plain pixels are too short. More may follow: a byte, because elements have even lengths, or the padding of
/// some scanners.
pub(super) fn check_plain(dicom: &Dicom, bytes: &[u8], decoded: u64) -> Result<(), Cause> {
    let expected = plain_bytes(dicom, decoded);
    match (bytes.len() as u64) < expected {
        true => {
            Err(Cause::malformed(format!("the pixels should take {expected} bytes and take {}", bytes.len())))
        }
        false => Ok(()),
    }
}

/// Fails if fragments are too few, or of a coding that is not read.
pub(super) fn check_fragments(dicom: &Dicom, fragments: &[&[u8]]) -> Result<(), Cause> {
    match dicom.transfer_syntax.as_str() {
        RLE if fragments.len() != dicom.frames as usize => {
            Err(Cause::malformed(format!("{} frames in {} fragments", dicom.frames, fragments.len())))
        }
        RLE => Ok(()),
        syntax if JPEG.contains(&syntax) => Ok(()),
        other => Err(Cause::unsupported(format!(
            "pixels of the transfer syntax {other}; read are plain ones, RLE and JPEG"
        ))),
    }
}

/// Places plain pixels.
pub(super) fn plain(dicom: &Dicom, bytes: &[u8], out: &mut [u8]) -> Result<(), Cause> {
    check_plain(dicom, bytes, out.len() as u64)?;
    let bytes = &bytes[..plain_bytes(dicom, out.len() as u64) as usize];
    if dicom.bits_allocated == 1 {
        out.iter_mut().enumerate().for_each(|(at, pixel)| *pixel = bytes[at / 8] >> (at % 8) & 1);
    } else if dicom.is_planar && dicom.samples > 1 {
        interleave(dicom, bytes, usize::from(dicom.bits_allocated / 8), out);
    } else {
        out.copy_from_slice(bytes);
    }
    Ok(())
}

/// Puts samples that lie in planes beside each other.
fn interleave(dicom: &Dicom, bytes: &[u8], size: usize, out: &mut [u8]) {
    let frame_bytes = out.len() / dicom.frames as usize;
    let planes = usize::from(dicom.samples);
    for (frame, stored) in out.chunks_exact_mut(frame_bytes).zip(bytes.chunks_exact(frame_bytes)) {
        for (plane, stored) in stored.chunks_exact(frame_bytes / planes).enumerate() {
            for (pixel, sample) in frame.chunks_exact_mut(size * planes).zip(stored.chunks_exact(size)) {
                pixel[plane * size..][..size].copy_from_slice(sample);
            }
        }
    }
}

/// Decodes pixels in fragments.
pub(super) fn compressed(dicom: &Dicom, fragments: &[&[u8]], out: &mut [u8]) -> Result<(), Cause> {
    check_fragments(dicom, fragments)?;
    let frame_bytes = out.len() / dicom.frames as usize;
    let frames = out.chunks_exact_mut(frame_bytes);
    match dicom.transfer_syntax.as_str() {
        RLE => frames.zip(fragments).try_for_each(|(frame, fragment)| rle(dicom, fragment, frame)),
        _ => {
            let stored = fragments.concat();
            let mut rest = stored.as_slice();
            for frame in frames {
                rest = jpeg(dicom, rest, frame)?;
            }
            Ok(())
        }
    }
}

/// Decodes the next JPEG of `bytes`, and returns what follows it.
fn jpeg<'a>(dicom: &Dicom, bytes: &'a [u8], out: &mut [u8]) -> Result<&'a [u8], Cause> {
    let start = bytes.windows(2).position(|pair| pair == b"\xff\xd8");
    let bytes = &bytes[start.ok_or_else(|| Cause::malformed("cut off: a frame is missing"))?..];
    // Compared before the decoder makes room for what its header says.
    let header = Frame::find(bytes)?;
    if (header.height, header.width) != (dicom.rows, dicom.columns) {
        return Err(Cause::malformed(format!(
            "a JPEG of {} × {} pixels in a picture of {} × {}",
            header.width, header.height, dicom.columns, dicom.rows
        )));
    }
    let broken = |error: jpeg_decoder::Error| Cause::malformed(error.to_string());
    let mut rest = bytes;
    let mut decoder = Decoder::new(&mut rest);
    decoder.set_max_decoding_buffer_size(out.len());
    // Left to itself the decoder takes three components without a marker for YCbCr.
    if dicom.photometric == "RGB" {
        decoder.set_color_transform(ColorTransform::RGB);
    }
    let pixels = decoder.decode().map_err(broken)?;
    let format = decoder.info().map(|info| info.pixel_format);
    drop(decoder);
    let is_matching = match format {
        Some(PixelFormat::L8) => (dicom.samples, dicom.bits_allocated) == (1, 8),
        Some(PixelFormat::L16) => (dicom.samples, dicom.bits_allocated) == (1, 16),
        Some(PixelFormat::RGB24) => (dicom.samples, dicom.bits_allocated) == (3, 8),
        _ => false,
    };
    if !is_matching || pixels.len() != out.len() {
        return Err(Cause::malformed(format!(
            "a JPEG of {format:?} in a picture of {} samples of {} bits",
            dicom.samples, dicom.bits_allocated
        )));
    }
    out.copy_from_slice(&pixels);
    Ok(rest)
}

/// Decodes one frame of runs (PackBits): a segment per sample and byte, the highest byte first.
fn rle(dicom: &Dicom, fragment: &[u8], out: &mut [u8]) -> Result<(), Cause> {
    if dicom.bits_allocated < 8 {
        return Err(Cause::unsupported("run-length encoded masks"));
    }
    let broken = || Cause::malformed("cut off: a run-length encoded frame");
    let size = usize::from(dicom.bits_allocated / 8);
    let step = size * usize::from(dicom.samples);
    let segments = u32_le(fragment, 0).ok_or_else(broken)? as usize;
    // The header has room for 15.
    if segments != step || segments > 15 || fragment.len() < 64 {
        return Err(Cause::malformed(format!("{segments} segments for pixels of {step} bytes")));
    }
    for segment in 0..segments {
        let offset = |index: usize| u32_le(fragment, 4 + 4 * index).map(|offset| offset as usize);
        let start = offset(segment).ok_or_else(broken)?;
        let end =
            if segment + 1 < segments { offset(segment + 1).ok_or_else(broken)? } else { fragment.len() };
        let mut runs = fragment.get(start..end).ok_or_else(broken)?;
        let (sample, byte) = (segment / size, segment % size);
        let mut places = out[sample * size + size - 1 - byte..].iter_mut().step_by(step);
        while places.len() > 0 {
            let (&length, rest) = runs.split_first().ok_or_else(broken)?;
            let length = length as i8;
            if length >= 0 {
                let (values, rest) = rest.split_at_checked(length as usize + 1).ok_or_else(broken)?;
                places.by_ref().zip(values).for_each(|(place, value)| *place = *value);
                runs = rest;
            } else if length != i8::MIN {
                let (&value, rest) = rest.split_first().ok_or_else(broken)?;
                places.by_ref().take(1 + usize::from(length.unsigned_abs())).for_each(|place| *place = value);
                runs = rest;
            } else {
                runs = rest;
            }
        }
    }
    Ok(())
}
