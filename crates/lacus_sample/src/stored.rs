//! What a table row holds of a sample: a number, a text, or a blob of one or more tiles.

use std::borrow::Cow;

/// A sample as a table row holds it.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored<'a> {
    /// There is none.
    Missing,
    /// A bool or an integer; unsigned ones of 64 bits by their bits.
    Int(i64),
    /// The bits of a float32.
    Float(u32),
    /// The bits of a float64.
    Real(u64),
    /// Text.
    Text(Cow<'a, str>),
    /// Bytes.
    Blob(Blob<'a>),
}

/// Bytes of a sample, in one piece or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob<'a> {
    /// The shape of the sample; the number of elements or polygons for those.
    pub shape: Vec<u64>,
    /// One tile with no coordinates, or the boxes of a grid, in order.
    pub tiles: Vec<Tile<'a>>,
}

/// One piece of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile<'a> {
    /// Its place in the grid; empty where there is none.
    pub coords: Vec<u64>,
    /// How its bytes are to be read: a codec of `lacus_layout`, a media format, `sequence` or `polygon`.
    pub codec: &'static str,
    /// Its bytes.
    pub bytes: Cow<'a, [u8]>,
}
