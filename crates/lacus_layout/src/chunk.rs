//! A chunk: coordinates, a codec, a checksum, bytes. The unit that is stored, one table row each.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use lacus_tensor::{DType, MAX_RANK, Shape, SparseTensor, TensorRef};

use crate::compress::{SHUFFLE_WIDTHS, crc32c};
use crate::error::LayoutError;
use crate::packed::Packer;

/// The coordinates of a chunk row (`c0`, `c1`, …): up to 16 numbers, compared from the first on.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Coords {
    // Ordered by its used part, see `Ord`; the rest stays zero.
    values: [i64; MAX_RANK],
    len: u8,
}

impl Coords {
    /// The coordinates `values`; `None` if there are more than 16.
    pub fn new(values: &[i64]) -> Option<Coords> {
        let mut coords = Coords { values: [0; MAX_RANK], len: values.len() as u8 };
        coords.values.get_mut(..values.len())?.copy_from_slice(values);
        Some(coords)
    }

    /// As [`Coords::new`] for values whose number is bounded by a shape's rank.
    pub(crate) fn of(values: impl IntoIterator<Item = u64>) -> Coords {
        let mut coords = Coords { values: [0; MAX_RANK], len: 0 };
        for (slot, value) in coords.values.iter_mut().zip(values) {
            *slot = value as i64;
            coords.len += 1;
        }
        coords
    }
}

impl Deref for Coords {
    type Target = [i64];
    fn deref(&self) -> &[i64] {
        &self.values[..self.len as usize]
    }
}

impl PartialOrd for Coords {
    fn partial_cmp(&self, other: &Coords) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Coords {
    fn cmp(&self, other: &Coords) -> std::cmp::Ordering {
        self[..].cmp(&other[..])
    }
}

impl fmt::Debug for Coords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// How the bytes of one chunk are to be read, stored on its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// `raw`: the elements as they are, little-endian, C order.
    Raw,
    /// `zstd`: one zstd frame of the elements.
    Zstd,
    /// `shuffle<w>+zstd`: the elements byte-shuffled with width w, then one zstd frame.
    ShuffleZstd {
        /// The element width: 2, 4, 8 or 16.
        width: u8,
    },
    /// `bits+lz4`, `shuffle<w>+bits+lz4`: the elements byte-shuffled if they are wider than a byte, as bit
    /// planes, then one lz4 block.
    BitsLz4 {
        /// The element width: 1, 2, 4, 8 or 16.
        width: u8,
    },
    /// `packed`: a packed run or block of nonzeros, which describes itself.
    Packed,
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Codec {
    /// The text that is stored.
    pub fn name(&self) -> &'static str {
        match self {
            Codec::Raw => "raw",
            Codec::Zstd => "zstd",
            Codec::ShuffleZstd { width: 2 } => "shuffle2+zstd",
            Codec::ShuffleZstd { width: 4 } => "shuffle4+zstd",
            Codec::ShuffleZstd { width: 8 } => "shuffle8+zstd",
            Codec::ShuffleZstd { .. } => "shuffle16+zstd",
            Codec::BitsLz4 { width: 1 } => "bits+lz4",
            Codec::BitsLz4 { width: 2 } => "shuffle2+bits+lz4",
            Codec::BitsLz4 { width: 4 } => "shuffle4+bits+lz4",
            Codec::BitsLz4 { width: 8 } => "shuffle8+bits+lz4",
            Codec::BitsLz4 { .. } => "shuffle16+bits+lz4",
            Codec::Packed => "packed",
        }
    }
}

impl FromStr for Codec {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Codec, LayoutError> {
        let unknown = || LayoutError::Unknown { what: "codec", found: text.to_string() };
        match text {
            "raw" => Ok(Codec::Raw),
            "zstd" => Ok(Codec::Zstd),
            "packed" => Ok(Codec::Packed),
            "bits+lz4" => Ok(Codec::BitsLz4 { width: 1 }),
            _ => {
                let widths = || SHUFFLE_WIDTHS.iter().map(|width| *width as u8);
                let zstd = widths().map(|width| Codec::ShuffleZstd { width });
                let lz4 = widths().map(|width| Codec::BitsLz4 { width });
                zstd.chain(lz4).find(|codec| codec.name() == text).ok_or_else(unknown)
            }
        }
    }
}

/// One chunk, ready to be a row.
#[derive(Debug, Clone)]
pub struct EncodedChunk<'a> {
    /// Where it belongs.
    pub coords: Coords,
    /// How to read its bytes.
    pub codec: Codec,
    /// CRC-32C of `bytes`.
    pub crc: u32,
    /// What is stored.
    pub bytes: Cow<'a, [u8]>,
    /// Elements it holds. 0 for a dense chunk whose bits are all zero, which need not be stored: a missing
    /// dense chunk means zeros.
    pub nnz: u64,
}

impl<'a> EncodedChunk<'a> {
    pub(crate) fn new(coords: Coords, codec: Codec, bytes: Cow<'a, [u8]>, nnz: u64) -> EncodedChunk<'a> {
        EncodedChunk { coords, codec, crc: crc32c(&bytes), bytes, nnz }
    }
}

/// A tensor cut into chunks that can be encoded in any order and from many threads.
pub trait EncodeChunks: Send + Sync {
    /// How many chunks there are.
    fn len(&self) -> usize;

    /// Encodes chunk `i`, counted in the order of coordinates. Each thread brings its own `scratch`; the
    /// result borrows it, or the caller's tensor where that is stored as it is.
    fn encode<'a>(&'a self, i: usize, scratch: &'a mut Scratch) -> Result<EncodedChunk<'a>, LayoutError>;

    /// Whether there is nothing to store.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A tensor as the caller has it.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "made once per tensor and taken apart at once")]
pub enum Value<'a> {
    /// Every element, strided.
    Dense(TensorRef<'a>),
    /// The nonzeros.
    Sparse(&'a SparseTensor),
}

impl Value<'_> {
    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        match self {
            Value::Dense(tensor) => tensor.dtype(),
            Value::Sparse(tensor) => tensor.dtype(),
        }
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        match self {
            Value::Dense(tensor) => tensor.shape(),
            Value::Sparse(tensor) => tensor.shape(),
        }
    }
}

/// Buffers and compressors that one thread uses again and again.
#[derive(Default)]
pub struct Scratch {
    pub(crate) packer: Packer,
    /// Gathered elements.
    pub(crate) gathered: Vec<u8>,
    /// Shuffled elements.
    pub(crate) shuffled: Vec<u8>,
    /// Bit planes.
    pub(crate) planes: Vec<u8>,
    /// Columns of folded coordinates.
    pub(crate) tuples: Vec<Vec<u64>>,
    /// Words to sort, and room to sort them.
    pub(crate) words: [Vec<u64>; 2],
    /// What `encode` hands out.
    pub(crate) out: Vec<u8>,
}

impl Scratch {
    /// Empty buffers, which grow to the largest chunk they meet.
    pub fn new() -> Scratch {
        Scratch::default()
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}

/// The coordinates of all stored chunk rows of one tensor, in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChunkIndex {
    columns: Vec<Vec<i64>>,
    len: usize,
}

impl ChunkIndex {
    /// Takes one column per coordinate (see [`coordinate_columns`](crate::coordinate_columns)).
    ///
    /// Fails with a corrupt error if the columns differ in length, hold a negative number, or the rows are
    /// not in ascending order without repetition.
    pub fn new(columns: Vec<Vec<i64>>) -> Result<ChunkIndex, LayoutError> {
        let bad = |detail: String| Err(LayoutError::corrupt("chunk coordinates", detail));
        if columns.len() > MAX_RANK {
            return bad(format!("{} columns, at most {MAX_RANK} are possible", columns.len()));
        }
        let len = columns.first().map_or(0, Vec::len);
        if columns.iter().any(|column| column.len() != len) {
            return bad("the columns differ in length".into());
        }
        if columns.iter().flatten().any(|value| *value < 0) {
            return bad("a coordinate is negative".into());
        }
        let index = ChunkIndex { columns, len };
        for row in 1..len {
            if index.compare(row - 1, row) != std::cmp::Ordering::Less {
                return bad(format!(
                    "row {row} at {:?} does not come after {:?}",
                    index.coords(row),
                    index.coords(row - 1)
                ));
            }
        }
        Ok(index)
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many coordinates a row has.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// The coordinates of row `i`, which must exist.
    pub fn coords(&self, i: usize) -> Coords {
        Coords::of(self.columns.iter().map(|column| column[i] as u64))
    }

    /// The row with exactly these coordinates.
    pub fn find(&self, coords: &Coords) -> Option<usize> {
        let row = self.first_at_or_after(0, coords);
        (row < self.len && self.coords(row) == *coords).then_some(row)
    }

    /// The first row from `from` on whose coordinates are at or after `coords`; `len()` if there is none.
    /// Costs the logarithm of the distance.
    pub(crate) fn first_at_or_after(&self, from: usize, coords: &Coords) -> usize {
        let before = |row: usize| self.coords(row) < *coords;
        let mut low = from;
        let mut step = 1;
        while low < self.len && before(low) {
            if low + step >= self.len || !before(low + step) {
                let (mut below, mut above) = (low, (low + step).min(self.len));
                while above - below > 1 {
                    let middle = below + (above - below) / 2;
                    if before(middle) { below = middle } else { above = middle }
                }
                return above;
            }
            low += step;
            step *= 2;
        }
        low.min(self.len)
    }

    fn compare(&self, a: usize, b: usize) -> std::cmp::Ordering {
        self.columns
            .iter()
            .map(|column| column[a].cmp(&column[b]))
            .find(|o| o.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacus_tensor::ErrorKind;

    #[test]
    fn codec_names() {
        for text in
            ["raw", "zstd", "packed", "shuffle2+zstd", "shuffle4+zstd", "shuffle8+zstd", "shuffle16+zstd"]
        {
            assert_eq!(text.parse::<Codec>().map(|codec| codec.to_string()), Ok(text.to_string()));
        }
        for text in
            ["", "RAW", "shuffle1+zstd", "shuffle3+zstd", "shuffle04+zstd", "shuffle258+zstd", "shuffle+zstd"]
        {
            assert_eq!(text.parse::<Codec>().unwrap_err().kind(), ErrorKind::Invalid, "{text}");
        }
    }

    #[test]
    fn an_index_finds_its_rows() {
        let index = ChunkIndex::new(vec![vec![0, 0, 1, 1, 5], vec![0, 3, 2, 7, 0]]).unwrap();
        for row in 0..index.len() {
            assert_eq!(index.find(&index.coords(row)), Some(row));
            for from in 0..=row {
                assert_eq!(index.first_at_or_after(from, &index.coords(row)), row);
            }
        }
        let at = |values: &[i64]| Coords::new(values).unwrap();
        for (coords, row) in [([0, 1], 1), ([0, 4], 2), ([1, 8], 4), ([2, 0], 4), ([5, 1], 5), ([9, 9], 5)] {
            assert_eq!(index.find(&at(&coords)), None);
            assert_eq!(index.first_at_or_after(0, &at(&coords)), row, "{coords:?}");
        }
        assert_eq!(ChunkIndex::new(vec![]).unwrap().find(&at(&[])), None);
    }

    #[test]
    fn disorder_is_corrupt() {
        let cases: [Vec<Vec<i64>>; 5] = [
            vec![vec![1, 0]],
            vec![vec![1, 1]],
            vec![vec![0, 0], vec![2, 1]],
            vec![vec![-1]],
            vec![vec![1], vec![1, 2]],
        ];
        for columns in cases {
            assert_eq!(
                ChunkIndex::new(columns.clone()).unwrap_err().kind(),
                ErrorKind::Corrupt,
                "{columns:?}"
            );
        }
    }
}
