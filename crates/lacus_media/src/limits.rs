//! How much a file may decode to: a few header bytes can ask for terabytes.

use crate::error::Cause;
use crate::medium::Layout;

/// What a caller allows one file to decode to. Checked against the header, before memory is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Pixels over all frames; for audio, samples over all channels.
    pub pixels: u64,
    /// Bytes of the decoded tensor.
    pub bytes: u64,
}

impl Default for Limits {
    /// 2^28 pixels and 2 GiB: a picture of 16384 × 16384, or fifty minutes of stereo sound. Larger ones exist,
    /// but somebody who has them knows, and the others are protected from bombs.
    fn default() -> Limits {
        Limits { pixels: 1 << 28, bytes: 2 << 30 }
    }
}

impl Limits {
    /// The bytes that `layout` takes, if they are allowed.
    pub(crate) fn check(&self, layout: &Layout) -> Result<usize, Cause> {
        let (pixels, bytes) = (layout.pixels(), layout.bytes());
        if pixels > self.pixels || bytes > self.bytes || bytes > isize::MAX as u64 {
            return Err(Cause::TooLarge {
                unit: layout.unit,
                pixels,
                bytes,
                pixels_limit: self.pixels,
                bytes_limit: self.bytes,
            });
        }
        Ok(bytes as usize)
    }
}
