//! What the code of every format has in common: a header is read into something that knows the layout of
//! the decoded tensor, tells details, and decodes rows of it.
//!
//! ```text
//! bytes ─(one function per format)→ impl Medium ─layout→ limits checked, memory taken ─decode→ elements
//! ```

use std::ops::Range;

use lacus_tensor::DType;
use serde_json::{Map, Value};

use crate::error::Cause;

/// Facts by name, as JSON.
pub(crate) type Details = Map<String, Value>;

/// The layout of a decoded tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<u64>,
    /// Elements per pixel; 1 where the elements themselves are counted.
    pub(crate) channels: u64,
    /// What is counted: "pixels" or "samples".
    pub(crate) unit: &'static str,
}

impl Layout {
    /// One picture. A single channel has no axis of its own.
    pub(crate) fn image(dtype: DType, height: u64, width: u64, channels: u64) -> Layout {
        let shape = if channels == 1 { vec![height, width] } else { vec![height, width, channels] };
        Layout { dtype, shape, channels, unit: "pixels" }
    }

    /// Several pictures.
    pub(crate) fn video(dtype: DType, frames: u64, height: u64, width: u64, channels: u64) -> Layout {
        let mut layout = Layout::image(dtype, height, width, channels);
        layout.shape.insert(0, frames);
        layout
    }

    /// Samples over time.
    pub(crate) fn audio(dtype: DType, frames: u64, channels: u64) -> Layout {
        Layout { dtype, shape: vec![frames, channels], channels: 1, unit: "samples" }
    }

    /// The same with other rows.
    pub(crate) fn with_rows(&self, rows: u64) -> Layout {
        let mut layout = self.clone();
        layout.shape[0] = rows;
        layout
    }

    /// Entries of the first axis.
    pub(crate) fn rows(&self) -> u64 {
        self.shape[0]
    }

    pub(crate) fn elements(&self) -> u64 {
        if self.shape.contains(&0) {
            return 0;
        }
        self.shape.iter().fold(1, |product: u64, &size| product.saturating_mul(size))
    }

    pub(crate) fn pixels(&self) -> u64 {
        self.elements() / self.channels.max(1)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.elements().saturating_mul(self.dtype.size_bytes() as u64)
    }
}

/// What of a picture is decoded: rows and columns of the picture that it is at one `reduction`-th of its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// 1, 2, 4 or 8.
    pub reduction: u8,
    /// Rows of the reduced picture.
    pub rows: Range<usize>,
    /// Columns of the reduced picture.
    pub columns: Range<usize>,
}

/// One file whose header has been read.
pub(crate) trait Medium {
    /// What [`decode`](Medium::decode) makes.
    fn layout(&self) -> Layout;

    /// Notes what else the header says.
    fn details(&self, details: &mut Details);

    /// Whether rows (entries of the first axis) can be decoded without holding the others. If not,
    /// [`decode`](Medium::decode) is only asked for all of them.
    fn takes_rows(&self) -> bool {
        false
    }

    /// Whether [`decode_part`](Medium::decode_part) does anything.
    fn reduces(&self) -> bool {
        false
    }

    /// Decodes a part of a picture into `out`, which has exactly its length. False where that cannot be done without the whole.
    fn decode_part(&self, _bytes: &[u8], _part: &Part, _out: &mut [u8]) -> Result<bool, Cause> {
        Ok(false)
    }

    /// Decodes `rows` into `out`, which has exactly their length. `bytes` are those the header was read
    /// from.
    fn decode(&self, bytes: &[u8], rows: Range<u64>, out: &mut [u8]) -> Result<(), Cause>;
}

/// Notes a fact.
pub(crate) fn note(details: &mut Details, name: &str, value: impl Into<Value>) {
    details.insert(name.to_owned(), value.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_counted_without_overflow() {
        let layout = Layout::image(DType::U16, 4, 5, 3);
        assert_eq!((layout.shape.as_slice(), layout.pixels(), layout.bytes()), (&[4, 5, 3][..], 20, 120));
        assert_eq!(Layout::image(DType::U8, 4, 5, 1).shape, [4, 5]);
        assert_eq!(Layout::audio(DType::F32, 10, 2).pixels(), 20);
        assert_eq!(Layout::video(DType::U8, u64::MAX, 2, 2, 3).bytes(), u64::MAX);
        assert_eq!(Layout::video(DType::U8, u64::MAX, u64::MAX, 0, 3).bytes(), 0);
        assert_eq!(layout.with_rows(1).shape, [1, 5, 3]);
    }
}
