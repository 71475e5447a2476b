//! A picture of bytes in memory, or a part of one: rows of pixels, channels last.

/// A picture that is only looked at.
#[derive(Clone, Copy)]
pub(super) struct Picture<'a> {
    /// From the first pixel on.
    bytes: &'a [u8],
    /// Bytes from one row to the next.
    stride: usize,
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) channels: usize,
}

/// A part of a picture, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) top: usize,
    pub(super) left: usize,
    pub(super) height: usize,
    pub(super) width: usize,
}

impl Area {
    pub(super) fn whole(height: usize, width: usize) -> Area {
        Area { top: 0, left: 0, height, width }
    }

    /// A part of this part.
    pub(super) fn part(self, part: Area) -> Area {
        Area { top: self.top + part.top, left: self.left + part.left, ..part }
    }
}

impl<'a> Picture<'a> {
    /// The bytes hold at least these pixels, without gaps.
    pub(super) fn new(bytes: &'a [u8], height: usize, width: usize, channels: usize) -> Picture<'a> {
        debug_assert!(bytes.len() >= height * width * channels);
        Picture { bytes, stride: width * channels, height, width, channels }
    }

    /// A part, which lies inside.
    pub(super) fn part(self, area: Area) -> Picture<'a> {
        debug_assert!(area.top + area.height <= self.height && area.left + area.width <= self.width);
        let start = area.top * self.stride + area.left * self.channels;
        Picture { bytes: &self.bytes[start..], height: area.height, width: area.width, ..self }
    }

    /// The bytes of a row.
    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> &'a [u8] {
        &self.bytes[row * self.stride..][..self.width * self.channels]
    }
}
