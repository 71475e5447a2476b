//! WAV: samples as they are, behind a header.
//!
//! ```text
//! RIFF, length, WAVE │ fmt : coding, channels, rate, bits │ … │ data: frames of one sample per channel
//! ```
//!
//! | stored | decoded |
//! |---|---|
//! | 8 bits, unsigned | `uint8`, silence is 128 |
//! | 16 bits | `int16` |
//! | 24 bits | `int32`, shifted left by 8, so that full scale is 2^31 as for 32 bits |
//! | 32 bits | `int32` |
//! | float, 32 or 64 bits | `float32`, `float64` |
//!
//! Any frames are found by their place. Compressed codings (ADPCM, A-law, µ-law) are not read.

use std::ops::Range;

use lacus_tensor::{DType, TensorRef};

use crate::error::Cause;
use crate::fields::{part, u16_le, u32_le};
use crate::medium::{Details, Layout, Medium, note};
use crate::raster::c_order;

/// Seconds that frames last; none for a rate of zero.
pub(crate) fn duration_secs(frames: u64, rate: u32) -> f64 {
    if rate == 0 { 0.0 } else { frames as f64 / f64::from(rate) }
}

/// What the chunks say.
pub(crate) struct Wav {
    dtype: DType,
    bits: u16,
    channels: u16,
    rate: u32,
    data: Range<usize>,
}

pub(crate) fn open(bytes: &[u8]) -> Result<Wav, Cause> {
    let cut_off = || Cause::cut_off("the header");
    let mut at = 12;
    let mut format = None;
    loop {
        let name = part(bytes, at, 4).ok_or_else(cut_off)?;
        let length = u32_le(bytes, at + 4).ok_or_else(cut_off)?;
        at += 8;
        match name {
            b"fmt " => format = Some(part(bytes, at, (length as usize).clamp(16, 64)).ok_or_else(cut_off)?),
            b"data" => {
                let format =
                    format.ok_or_else(|| Cause::malformed("samples without a format before them"))?;
                return with_samples(bytes, format, at, length);
            }
            _ => {}
        }
        at = at.saturating_add(length as usize).saturating_add(length as usize & 1);
    }
}

fn with_samples(bytes: &[u8], format: &[u8], at: usize, length: u32) -> Result<Wav, Cause> {
    const EXTENSIBLE: u16 = 0xfffe;
    let short = |at: usize| u16_le(format, at).unwrap_or(0);
    let (mut coding, channels, bits) = (short(0), short(2), short(14));
    if coding == EXTENSIBLE {
        coding =
            u16_le(format, 24).ok_or_else(|| Cause::malformed("an extensible format that is too short"))?;
    }
    let dtype = match (coding, bits) {
        (1, 8) => DType::U8,
        (1, 16) => DType::I16,
        (1, 24 | 32) => DType::I32,
        (3, 32) => DType::F32,
        (3, 64) => DType::F64,
        _ => {
            return Err(Cause::unsupported(format!(
                "coding {coding} with {bits} bits; read are integers of 8, 16, 24 or 32 bits and floats"
            )));
        }
    };
    if channels == 0 {
        return Err(Cause::malformed("no channels"));
    }
    let left = bytes.len() - at;
    // Programs that do not know how much will come write the largest length, or zero, which is to be
    // believed only if the length of the whole file is no zero.
    let is_unknown = length == u32::MAX || (length == 0 && matches!(u32_le(bytes, 4), Some(0 | u32::MAX)));
    let length = match length {
        _ if is_unknown => left,
        length if length as usize > left => {
            return Err(Cause::malformed(format!(
                "cut off: the samples take {length} bytes, {left} are left"
            )));
        }
        length => length as usize,
    };
    let rate = u32_le(format, 4).unwrap_or(0);
    let frame_bytes = usize::from(channels) * usize::from(bits / 8);
    Ok(Wav { dtype, bits, channels, rate, data: at..at + length / frame_bytes * frame_bytes })
}

impl Wav {
    fn frame_bytes(&self) -> usize {
        usize::from(self.channels) * usize::from(self.bits / 8)
    }

    fn frames(&self) -> u64 {
        (self.data.len() / self.frame_bytes()) as u64
    }
}

impl Medium for Wav {
    fn layout(&self) -> Layout {
        Layout::audio(self.dtype, self.frames(), self.channels.into())
    }

    fn details(&self, details: &mut Details) {
        note(details, "sample_rate", self.rate);
        note(details, "channels", self.channels);
        note(details, "duration_secs", duration_secs(self.frames(), self.rate));
        note(details, "bits_per_sample", self.bits);
        note(details, "codec", "pcm");
    }

    fn takes_rows(&self) -> bool {
        true
    }

    fn decode(&self, bytes: &[u8], rows: Range<u64>, out: &mut [u8]) -> Result<(), Cause> {
        let place = |row: u64| self.data.start + row as usize * self.frame_bytes();
        let stored = &bytes[place(rows.start)..place(rows.end)];
        if self.bits != 24 {
            out.copy_from_slice(stored);
            return Ok(());
        }
        for (sample, &[low, middle, high]) in out.as_chunks_mut::<4>().0.iter_mut().zip(stored.as_chunks().0)
        {
            *sample = [0, low, middle, high];
        }
        Ok(())
    }
}

/// Sound to be written: `(frames, channels)`, or `(frames,)` for one channel.
pub(crate) fn channels_of(tensor: &TensorRef<'_>, dtypes: &[DType], most: u64) -> Result<u16, Cause> {
    let channels = match *tensor.shape().dims() {
        [_] => Some(1),
        [_, channels] => Some(channels).filter(|channels| (1..=most).contains(channels)),
        _ => None,
    };
    channels.filter(|_| dtypes.contains(&tensor.dtype())).map(|channels| channels as u16).ok_or_else(|| {
        let names: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
        Cause::request(format!(
            "takes {} of shape (frames, channels) with 1 to {most} channels, found {} of shape {}",
            names.join(" or "),
            tensor.dtype(),
            tensor.shape()
        ))
    })
}

/// Writes the samples as they are.
pub(crate) fn encode(tensor: &TensorRef<'_>, rate: u32) -> Result<Vec<u8>, Cause> {
    let dtypes = [DType::U8, DType::I16, DType::I32, DType::F32, DType::F64];
    let channels = channels_of(tensor, &dtypes, u16::MAX.into())?;
    let size = tensor.dtype().size_bytes() as u16;
    let coding: u16 = if tensor.dtype().is_float() { 3 } else { 1 };
    let too_wide =
        || Cause::request(format!("{channels} channels of {} make too wide a frame", tensor.dtype()));
    let frame_bytes = channels.checked_mul(size).ok_or_else(too_wide)?;
    let samples = c_order(tensor);
    // The outer length counts 36 more bytes of header, and a padding byte.
    let length = u32::try_from(samples.len())
        .ok()
        .filter(|&length| length <= u32::MAX - 37)
        .ok_or_else(|| Cause::request("takes more than the 4 GiB that a wav can hold"))?;

    let mut out = Vec::with_capacity(44 + samples.len() + 1);
    out.extend(b"RIFF");
    out.extend((36 + length + length % 2).to_le_bytes());
    out.extend(b"WAVEfmt ");
    out.extend(16u32.to_le_bytes());
    out.extend(coding.to_le_bytes());
    out.extend(channels.to_le_bytes());
    out.extend(rate.to_le_bytes());
    out.extend(rate.saturating_mul(frame_bytes.into()).to_le_bytes());
    out.extend(frame_bytes.to_le_bytes());
    out.extend((8 * size).to_le_bytes());
    out.extend(b"data");
    out.extend(length.to_le_bytes());
    out.extend_from_slice(&samples);
    if length % 2 == 1 {
        out.push(0);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wav(format: &[u8], length: u32, data: &[u8]) -> Vec<u8> {
        let mut out = b"RIFF\0\0\0\0WAVELIST\x03\0\0\0abc\0fmt ".to_vec();
        out.extend((format.len() as u32).to_le_bytes());
        out.extend(format);
        out.extend(b"data");
        out.extend(length.to_le_bytes());
        out.extend(data);
        out
    }

    fn format(coding: u16, channels: u16, bits: u16) -> Vec<u8> {
        let mut out = [coding.to_le_bytes(), channels.to_le_bytes()].concat();
        out.extend(8000u32.to_le_bytes());
        out.extend([0; 6]);
        out.extend(bits.to_le_bytes());
        out
    }

    #[test]
    fn samples_of_24_bits_fill_32_from_above() {
        let bytes = wav(&format(1, 1, 24), 6, &[1, 2, 3, 0xff, 0xff, 0xff]);
        let sound = open(&bytes).unwrap();
        assert_eq!((sound.layout().dtype, sound.layout().shape), (DType::I32, vec![2, 1]));
        let mut out = [0; 8];
        sound.decode(&bytes, 0..2, &mut out).unwrap();
        assert_eq!(out, [0, 1, 2, 3, 0, 0xff, 0xff, 0xff]);
        assert_eq!(i32::from_le_bytes(out[4..].try_into().unwrap()), -256);
    }

    #[test]
    fn an_extensible_format_says_its_coding_later() {
        let mut extended = format(0xfffe, 2, 32);
        extended.extend([22, 0, 32, 0, 0, 0, 0, 0, 3, 0]);
        extended.resize(40, 0);
        let sound = open(&wav(&extended, 16, &[0; 16])).unwrap();
        assert_eq!((sound.layout().dtype, sound.layout().shape), (DType::F32, vec![2, 2]));
    }

    #[test]
    fn lengths_that_are_unknown_or_not_whole_frames() {
        let check = |length: u32, expected: Option<u64>| {
            let sound = open(&wav(&format(1, 2, 16), length, &[0; 10]));
            assert_eq!(sound.ok().map(|sound| sound.frames()), expected, "{length}");
        };
        check(8, Some(2));
        check(10, Some(2));
        check(u32::MAX, Some(2));
        check(0, Some(2));
        check(11, None);
        let mut silent = wav(&format(1, 2, 16), 0, b"LIST\x04\0\0\0abcd");
        silent[4] = 60;
        assert_eq!(open(&silent).unwrap().frames(), 0);
    }

    #[test]
    fn compressed_codings_are_refused_by_name() {
        let error = open(&wav(&format(7, 1, 8), 4, &[0; 4])).err().unwrap();
        assert!(error.to_string().contains("coding 7 with 8 bits"), "{error}");
    }
}
