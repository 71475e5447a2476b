//! FLAC. Up to 16 bits decode to `int16`, up to 24 to `int32`, both filled from above: full scale is that of
//! the dtype, whatever the file's depth.
//!
//! ```text
//! fLaC │ STREAMINFO: rate, channels, bits, frames, MD5 │ … │ packets
//! ```

use flac_codec::encode::{FlacSampleWriter, Options};
use lacus_tensor::{DType, TensorRef};

use crate::error::Cause;
use crate::fields::{part, u64_be};
use crate::format::Format;
use crate::raster::c_order;
use crate::sniff::skip_id3;
use crate::stream::{self, Stream};
use crate::wav::channels_of;

/// Reads the header. Only where it does not say how long the sound is are packets walked.
pub(crate) fn open(bytes: &[u8]) -> Result<Stream, Cause> {
    let tagless = skip_id3(bytes);
    let cut_off = || Cause::cut_off("the header");
    if part(tagless, 4, 1).ok_or_else(cut_off)?[0] & 0x7f != 0 {
        return Err(Cause::malformed("the first block is no STREAMINFO"));
    }
    // 20 bits of rate, 3 of channels, 5 of bits, 36 of frames.
    let word = u64_be(tagless, 18).ok_or_else(cut_off)?;
    let frames = word & 0xf_ffff_ffff;
    if frames == 0 {
        return stream::open(bytes, Format::Flac);
    }
    let (rate, channels, bits) = (word >> 44, (word >> 41 & 7) + 1, (word >> 36 & 31) + 1);
    if !(4..=24).contains(&bits) {
        return Err(Cause::unsupported(format!("{bits} bits per sample; read are 4 to 24")));
    }
    let (rate, bits) = (rate as u32, Some(bits as u32));
    Ok(Stream { format: Format::Flac, codec: "flac", bits, channels, rate, frames })
}

/// Walks the packets, whose checksums are compared on the way: those that are damaged are missing from the count.
pub(crate) fn verify(bytes: &[u8]) -> Result<(), Cause> {
    let (promised, found) = (open(bytes)?.frames, stream::open(bytes, Format::Flac)?.frames);
    match found < promised {
        true => Err(Cause::malformed(format!(
            "cut off or damaged: {promised} frames are promised, {found} are there"
        ))),
        false => Ok(()),
    }
}

/// Writes `int16` as 16 bits, and `int32` as 24 if the low 8 bits are all zero, as they are in what came
/// from 24 bits.
pub(crate) fn encode(tensor: &TensorRef<'_>, rate: u32) -> Result<Vec<u8>, Cause> {
    let channels = channels_of(tensor, &[DType::I16, DType::I32], 8)?;
    let bytes = c_order(tensor);
    let (bits, samples): (u32, Vec<i32>) = if tensor.dtype() == DType::I16 {
        (16, bytes.as_chunks().0.iter().map(|sample| i16::from_le_bytes(*sample).into()).collect())
    } else {
        let samples = bytes.as_chunks().0.iter().map(|sample| i32::from_le_bytes(*sample));
        if let Some(sample) = samples.clone().find(|sample| sample & 0xff != 0) {
            return Err(Cause::request(format!(
                "keeps the upper 24 bits of int32 and the sample {sample} has more; shift or encode as wav"
            )));
        }
        (24, samples.map(|sample| sample >> 8).collect())
    };
    if samples.is_empty() {
        return Err(Cause::request("takes at least one frame"));
    }
    let failed = |error: flac_codec::Error| Cause::request(error.to_string());
    let mut out = std::io::Cursor::new(Vec::with_capacity(1024 + bytes.len() / 2));
    let options = Options::default().no_padding();
    let total = Some(samples.len() as u64);
    let mut writer =
        FlacSampleWriter::new(&mut out, options, rate, bits, channels as u8, total).map_err(failed)?;
    writer.write(&samples).map_err(failed)?;
    writer.finalize().map_err(failed)?;
    Ok(out.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::Medium;
    use lacus_tensor::{Buffer, Shape, Tensor};

    fn sound(frames: usize) -> (Tensor, Vec<u8>) {
        let samples: Vec<i16> = (0..2 * frames).map(|at| (at * 7919 % 65536) as i16).collect();
        let shape = Shape::new([frames as u64, 2]).unwrap();
        let tensor = Tensor::new(DType::I16, shape, Buffer::from_elements(&samples)).unwrap();
        let bytes = encode(&tensor.as_ref(), 8000).unwrap();
        (tensor, bytes)
    }

    #[test]
    fn an_unknown_length_is_found_by_walking() {
        let (tensor, mut bytes) = sound(10_000);
        assert_eq!(open(&bytes).unwrap().frames, 10_000);
        bytes[21] &= 0xf0;
        bytes[22..26].fill(0);
        let stream = open(&bytes).unwrap();
        assert_eq!((stream.frames, stream.channels, stream.rate), (10_000, 2, 8000));
        let mut out = vec![0; tensor.bytes().len()];
        stream.decode(&bytes, 0..10_000, &mut out).unwrap();
        assert_eq!(out, tensor.bytes());
    }

    #[test]
    fn low_bits_that_would_be_lost_are_refused() {
        let check = |sample: i32, expected: bool| {
            let shape = Shape::new([1, 1]).unwrap();
            let tensor = Tensor::new(DType::I32, shape, Buffer::from_elements(&[sample])).unwrap();
            assert_eq!(encode(&tensor.as_ref(), 8000).is_ok(), expected, "{sample}");
        };
        check(256, true);
        check(i32::MIN, true);
        check(255, false);
        check(-1, false);
    }

    #[test]
    fn fewer_packets_than_promised_are_an_error() {
        let (tensor, mut bytes) = sound(10_000);
        bytes[25] += 1;
        let stream = open(&bytes).unwrap();
        let mut out = vec![0; tensor.bytes().len() + 4];
        let error = stream.decode(&bytes, 0..stream.frames, &mut out).unwrap_err();
        assert!(error.to_string().contains("cut off"), "{error}");
    }
}
