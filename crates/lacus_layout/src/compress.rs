//! Bytes in, fewer bytes out: zstd, lz4, the byte shuffle, and the checksum of what is stored.
//!
//! The **byte shuffle** of width `w` writes all first bytes of the elements, then all second bytes, and so
//! on: for numbers of similar magnitude the high bytes become long runs, which zstd removes.
//!
//! ```
//! use lacus_layout::Compression;
//! assert_eq!("zstd".parse::<Compression>().unwrap(), Compression::Zstd { level: 1 });
//! assert_eq!(Compression::Zstd { level: 3 }.to_string(), "zstd:3");
//! ```

use std::fmt;
use std::str::FromStr;

use lacus_threads::Team;
use zstd::zstd_safe::{CParameter, ParamSwitch, Strategy, zstd_sys};

use crate::error::LayoutError;

/// How dense chunks are compressed. Packed sparse chunks always pack their own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Stored as they are: a chunk is read straight into place.
    None,
    /// lz4 of bit planes: less time than zstd on what compresses little, such as photos.
    Lz4,
    /// zstd, after a byte shuffle where that helps.
    Zstd {
        /// zstd's level, from -7 (fastest) to 22 (smallest), never 0.
        level: i32,
    },
}

/// The level of a bare `"zstd"`. Level 3 gained under 2 % on the tensors it was measured on and took
/// about twice the time.
pub const DEFAULT_ZSTD_LEVEL: i32 = 1;

const LEVELS: std::ops::RangeInclusive<i32> = -7..=22;

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compression::None => f.write_str("none"),
            Compression::Lz4 => f.write_str("lz4"),
            Compression::Zstd { level } => write!(f, "zstd:{level}"),
        }
    }
}

impl FromStr for Compression {
    type Err = LayoutError;

    /// Reads `none`, `lz4`, `zstd` or `zstd:<level>`.
    fn from_str(text: &str) -> Result<Compression, LayoutError> {
        match text {
            "none" => return Ok(Compression::None),
            "lz4" => return Ok(Compression::Lz4),
            "zstd" => return Ok(Compression::Zstd { level: DEFAULT_ZSTD_LEVEL }),
            _ => {}
        }
        let level = text.strip_prefix("zstd:").and_then(|level| level.parse::<i32>().ok());
        match level {
            Some(level) if level != 0 && LEVELS.contains(&level) => Ok(Compression::Zstd { level }),
            _ => Err(LayoutError::wish(
                "compression",
                format!("{text:?} is not one of none, lz4, zstd, zstd:<level from -7 to 22, not 0>"),
            )),
        }
    }
}

/// CRC-32C (Castagnoli; CRC-32/ISCSI in the catalogue of parametrised CRCs) of `bytes`.
///
/// ```
/// assert_eq!(lacus_layout::crc32c(b"123456789"), 0xe306_9283);
/// ```
pub fn crc32c(bytes: &[u8]) -> u32 {
    // A 32-bit algorithm leaves the upper half of the result zero.
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// The CRC-32C of bytes that come in several pieces.
///
/// ```
/// let mut crc = lacus_layout::Crc32c::new();
/// crc.update(b"1234");
/// crc.update(b"56789");
/// assert_eq!(crc.finish(), lacus_layout::crc32c(b"123456789"));
/// ```
#[derive(Debug)]
pub struct Crc32c(crc_fast::Digest);

impl Crc32c {
    /// That of no bytes.
    pub fn new() -> Crc32c {
        Crc32c(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }

    /// Goes on with more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// That of all bytes so far.
    pub fn finish(&self) -> u32 {
        self.0.finalize() as u32
    }
}

impl Default for Crc32c {
    fn default() -> Crc32c {
        Crc32c::new()
    }
}

/// 128 bits of each content that tell contents apart: two CRC-64 of different polynomials (NVME, XZ), over pieces. Equal bytes have
/// equal ones; two contents that differ by chance have equal ones with a probability of about 2^-128. Whoever wants to can make two
/// that collide: this is no signature. It runs at the speed of memory, where a cryptographic hash would take longer than writing the
/// bytes does.
///
/// ```
/// let found = lacus_layout::content_digests(&[b"a", b"b", b"a"], lacus_threads::Team::alone());
/// assert!(found[0] == found[2] && found[0] != found[1]);
/// ```
pub fn content_digests(contents: &[&[u8]], team: Team<'_>) -> Vec<u128> {
    let pieces = contents.iter().flat_map(|content| content.chunks(PIECE_BYTES)).collect();
    let mut found = team.map(pieces, digest_of_piece).into_iter();
    let join = |content: &&[u8]| {
        let count = content.len().div_ceil(PIECE_BYTES);
        let pieces: Vec<u8> = found.by_ref().take(count).flat_map(u128::to_le_bytes).collect();
        digest_of_piece(&pieces)
    };
    contents.iter().map(join).collect()
}

/// What one thread takes at a time. Part of what a digest is.
const PIECE_BYTES: usize = 8 << 20;

fn digest_of_piece(bytes: &[u8]) -> u128 {
    // Both read a part while it is in the cache.
    const CACHED: usize = 256 << 10;
    let mut nvme = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
    let mut xz = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Xz);
    for part in bytes.chunks(CACHED) {
        nvme.update(part);
        xz.update(part);
    }
    (u128::from(nvme.finalize()) << 64) | u128::from(xz.finalize())
}

/// Checks stored bytes against the checksum on their row.
///
/// Fails with [`LayoutError::Checksum`] (corrupt) if they differ.
pub fn verify_crc32c(bytes: &[u8], stored: u32) -> Result<(), LayoutError> {
    let computed = crc32c(bytes);
    if computed == stored {
        return Ok(());
    }
    Err(LayoutError::Checksum { stored, computed, bytes: bytes.len() })
}

/// zstd contexts that are made once per thread and used for many chunks: making one costs more than
/// compressing a small chunk.
#[derive(Default)]
pub(crate) struct Zstd {
    compressor: Option<(i32, zstd::bulk::Compressor<'static>)>,
    counter: Option<zstd::bulk::Compressor<'static>>,
    decompressor: Option<zstd::bulk::Decompressor<'static>>,
}

impl Zstd {
    /// Replaces `out` with the compressed form of `bytes`.
    pub(crate) fn compress(
        &mut self,
        bytes: &[u8],
        level: i32,
        out: &mut Vec<u8>,
    ) -> Result<(), LayoutError> {
        let compressor = match &mut self.compressor {
            Some((at, compressor)) if *at == level => compressor,
            slot => {
                let compressor = zstd::bulk::Compressor::new(level).map_err(failed)?;
                &mut slot.insert((level, compressor)).1
            }
        };
        compress_with(compressor, bytes, out)
    }

    /// Replaces `out` with a zstd frame of `bytes` in which they are coded by how often they occur, and no
    /// more: the quickest where little repeats.
    pub(crate) fn compress_by_counts(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), LayoutError> {
        let compressor = match &mut self.counter {
            Some(compressor) => compressor,
            slot => {
                let mut compressor = zstd::bulk::Compressor::new(1).map_err(failed)?;
                let parameters = [
                    CParameter::Strategy(Strategy::ZSTD_fast),
                    // Between two places where it looks for a repetition, it skips as far as it can.
                    CParameter::TargetLength(zstd_sys::ZSTD_TARGETLENGTH_MAX),
                    // The smallest table keeps track of so few places.
                    CParameter::HashLog(zstd_sys::ZSTD_HASHLOG_MIN),
                    // On its own it would then leave bytes as they are, for more haste still.
                    CParameter::LiteralCompressionMode(ParamSwitch::Enable),
                ];
                for parameter in parameters {
                    compressor.set_parameter(parameter).map_err(failed)?;
                }
                slot.insert(compressor)
            }
        };
        compress_with(compressor, bytes, out)
    }

    /// Decompresses one zstd frame that holds exactly `out.len()` bytes.
    pub(crate) fn decompress(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<(), LayoutError> {
        let corrupt = |detail: String| LayoutError::corrupt("zstd frame", detail);
        if self.decompressor.is_none() {
            self.decompressor = Some(zstd::bulk::Decompressor::new().map_err(failed)?);
        }
        let Some(decompressor) = &mut self.decompressor else { return Ok(()) };
        let written =
            decompressor.decompress_to_buffer(bytes, out).map_err(|error| corrupt(error.to_string()))?;
        if written != out.len() {
            return Err(corrupt(format!("holds {written} bytes where {} belong", out.len())));
        }
        Ok(())
    }
}

fn compress_with(
    compressor: &mut zstd::bulk::Compressor<'static>,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), LayoutError> {
    out.clear();
    out.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
    compressor.compress_to_buffer(bytes, out).map_err(failed)?;
    Ok(())
}

fn failed(error: std::io::Error) -> LayoutError {
    LayoutError::Compressor { op: "zstd", detail: error.to_string() }
}

/// Replaces `out` with one lz4 block of `bytes`.
pub(crate) fn lz4_compress(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), LayoutError> {
    out.resize(lz4_flex::block::get_maximum_output_size(bytes.len()), 0);
    let written = lz4_flex::block::compress_into(bytes, out)
        .map_err(|error| LayoutError::Compressor { op: "lz4", detail: error.to_string() })?;
    out.truncate(written);
    Ok(())
}

/// Decompresses one lz4 block that holds exactly `out.len()` bytes.
pub(crate) fn lz4_decompress(bytes: &[u8], out: &mut [u8]) -> Result<(), LayoutError> {
    let corrupt = |detail: String| LayoutError::corrupt("lz4 block", detail);
    let written = lz4_flex::block::decompress_into(bytes, out).map_err(|error| corrupt(error.to_string()))?;
    match written == out.len() {
        true => Ok(()),
        false => Err(corrupt(format!("holds {written} bytes where {} belong", out.len()))),
    }
}

/// Byte-shuffles `source` (whose length is a multiple of `width`) into `target` of the same length.
pub(crate) fn shuffle(source: &[u8], width: usize, target: &mut [u8]) {
    match width {
        2 => shuffle_by::<2>(source, target),
        4 => shuffle_by::<4>(source, target),
        8 => shuffle_by::<8>(source, target),
        16 => shuffle_by::<16>(source, target),
        _ => target.copy_from_slice(source),
    }
}

/// The inverse of [`shuffle`].
pub(crate) fn unshuffle(source: &[u8], width: usize, target: &mut [u8]) {
    match width {
        2 => unshuffle_by::<2>(source, target),
        4 => unshuffle_by::<4>(source, target),
        8 => unshuffle_by::<8>(source, target),
        16 => unshuffle_by::<16>(source, target),
        _ => target.copy_from_slice(source),
    }
}

/// Widths [`shuffle`] knows beside 1, which changes nothing.
pub(crate) const SHUFFLE_WIDTHS: [usize; 4] = [2, 4, 8, 16];

fn shuffle_by<const W: usize>(source: &[u8], target: &mut [u8]) {
    let count = source.len() / W;
    let (elements, _) = source.as_chunks::<W>();
    for (plane, target) in target.chunks_exact_mut(count.max(1)).take(W).enumerate() {
        for (byte, element) in target.iter_mut().zip(elements) {
            *byte = element[plane];
        }
    }
}

fn unshuffle_by<const W: usize>(source: &[u8], target: &mut [u8]) {
    let count = source.len() / W;
    let (elements, _) = target.as_chunks_mut::<W>();
    // Blocks small enough for the first-level cache: each is passed over once per plane.
    const BLOCK: usize = 1024;
    for (block, elements) in elements.chunks_mut(BLOCK).enumerate() {
        let start = block * BLOCK;
        for plane in 0..W {
            let bytes = &source[plane * count + start..][..elements.len()];
            for (element, byte) in elements.iter_mut().zip(bytes) {
                element[plane] = *byte;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacus_tensor::ErrorKind;

    #[test]
    fn shuffling_is_undone() {
        for width in [1, 2, 4, 8, 16] {
            for count in [0, 1, 3, 1023, 1024, 5000] {
                let source: Vec<u8> = (0..count * width).map(|i| (i * 31 % 251) as u8).collect();
                let mut shuffled = vec![0; source.len()];
                shuffle(&source, width, &mut shuffled);
                let mut back = vec![0; source.len()];
                unshuffle(&shuffled, width, &mut back);
                assert_eq!(source, back, "width {width}, count {count}");
            }
        }
        let mut shuffled = [0; 6];
        shuffle(&[1, 2, 3, 4, 5, 6], 2, &mut shuffled);
        assert_eq!(shuffled, [1, 3, 5, 2, 4, 6]);
    }

    #[test]
    fn bytes_are_coded_by_their_counts() {
        // Three quarters are the same, without an order that could repeat.
        let noise = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).wrapping_pow(2) >> 7;
        let bytes: Vec<u8> = (0..20_000).map(|i| (noise(i) % 16).saturating_sub(12) as u8).collect();
        let (mut zstd, mut out) = (Zstd::default(), Vec::new());
        zstd.compress_by_counts(&bytes, &mut out).unwrap();
        assert!(out.len() < bytes.len() / 4, "{}", out.len());
        let mut back = vec![0; bytes.len()];
        zstd.decompress(&out, &mut back).unwrap();
        assert!(back == bytes);
    }

    #[test]
    fn compression_texts() {
        for text in ["none", "lz4", "zstd:1", "zstd:22", "zstd:-7"] {
            assert_eq!(text.parse::<Compression>().map(|c| c.to_string()), Ok(text.to_string()));
        }
        for text in ["", "zstd:0", "zstd:23", "zstd:x", "gzip", "ZSTD:"] {
            let error = text.parse::<Compression>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
        }
    }

    #[test]
    fn a_changed_byte_is_seen() {
        let bytes = b"the stored bytes".to_vec();
        let crc = crc32c(&bytes);
        assert_eq!(verify_crc32c(&bytes, crc), Ok(()));
        let mut changed = bytes;
        changed[3] ^= 1;
        assert_eq!(verify_crc32c(&changed, crc).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
