//! Large samples are cut into tiles, so that a part of one can be read without the rest.
//!
//! The grid follows from the shape, the dtype and the bounds kept with the column, so that nothing about it is
//! stored per sample. Trailing axes stay whole while they fit.

use std::ops::Range;

use lacus_tensor::DType;

use crate::error::SampleError;

/// When a sample is tiled, and how large its tiles are. Kept with the column: rows written under one bound are
/// read under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiling {
    over_bytes: u64,
    tile_bytes: u64,
}

impl Default for Tiling {
    /// Samples over 4 MiB, in tiles of about 1 MiB: a good request on any store, and slices have something to skip.
    fn default() -> Tiling {
        Tiling { over_bytes: 4 << 20, tile_bytes: 1 << 20 }
    }
}

/// The most tiles of one sample: 128 GiB of default ones. A damaged shape must not make a list of more.
const MOST_TILES: u64 = 1 << 17;

impl Tiling {
    /// Samples larger than `over_bytes` are cut into tiles of about `tile_bytes`, which must not be zero or
    /// larger.
    pub fn new(over_bytes: u64, tile_bytes: u64) -> Result<Tiling, SampleError> {
        if tile_bytes == 0 || tile_bytes > over_bytes || over_bytes > i64::MAX as u64 {
            let detail = format!("tiles of {tile_bytes} bytes for samples over {over_bytes} are impossible");
            return Err(SampleError::spec("tiling", detail));
        }
        Ok(Tiling { over_bytes, tile_bytes })
    }

    /// Samples larger than this are tiled.
    pub fn over_bytes(&self) -> u64 {
        self.over_bytes
    }

    /// About the size of a tile.
    pub fn tile_bytes(&self) -> u64 {
        self.tile_bytes
    }

    /// The extent of a tile per axis; `None` if a sample of this shape is not tiled.
    pub(crate) fn tile_shape(&self, shape: &[u64], dtype: DType) -> Option<Vec<u64>> {
        let item = dtype.size_bytes() as u64;
        let whole = shape.iter().fold(item, |bytes, &size| bytes.saturating_mul(size));
        if whole <= self.over_bytes || shape.is_empty() || shape.contains(&0) {
            return None;
        }
        let mut tile = vec![1; shape.len()];
        let mut bytes = item;
        for (side, &size) in tile.iter_mut().zip(shape).rev() {
            let whole = bytes.saturating_mul(size);
            if whole <= self.tile_bytes {
                *side = size;
                bytes = whole;
                continue;
            }
            // One index of an axis (an image, a frame) stays whole up to the bound, rather than being cut.
            if bytes >= self.tile_bytes / 4 && whole <= self.over_bytes {
                *side = size;
            } else {
                // Even pieces: 1000 in pieces of at most 300 is 4 times 250.
                let most = (self.tile_bytes / bytes).max(1);
                *side = size.div_ceil(size.div_ceil(most));
            }
            break;
        }
        Some(tile)
    }
}

/// The coordinates of the tiles within `ranges` of the grid, in order. Fails if there are too many to be true.
pub(crate) fn coordinates(ranges: &[Range<u64>]) -> Result<Vec<Vec<u64>>, SampleError> {
    let count = ranges.iter().fold(1u64, |count, range| count.saturating_mul(range.end - range.start));
    if count > MOST_TILES {
        let detail = format!("a shape of {count} tiles, more than the {MOST_TILES} there can be");
        return Err(SampleError::corrupt("tiles", detail));
    }
    let mut all = Vec::with_capacity(count as usize);
    let mut at: Vec<u64> = ranges.iter().map(|range| range.start).collect();
    for _ in 0..count {
        all.push(at.clone());
        for (place, range) in at.iter_mut().zip(ranges).rev() {
            *place += 1;
            if *place < range.end {
                break;
            }
            *place = range.start;
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailing_axes_stay_whole() {
        let check = |shape: &[u64], dtype: DType, expected: Option<&[u64]>| {
            let found = Tiling::default().tile_shape(shape, dtype);
            assert_eq!(found.as_deref(), expected, "{shape:?} {dtype}");
        };
        check(&[], DType::C128, None);
        check(&[1024, 1024, 4], DType::U8, None);
        check(&[0, u64::MAX], DType::U8, None);
        check(&[2000, 2000, 3], DType::U8, Some(&[167, 2000, 3]));
        check(&[10, 1000, 1000], DType::U8, Some(&[1, 1000, 1000]));
        check(&[10, 600, 1000], DType::F32, Some(&[1, 200, 1000]));
        check(&[20, 5 << 20], DType::U8, Some(&[1, 1 << 20]));
        check(&[1 << 23], DType::F64, Some(&[1 << 17]));
        check(&[u64::MAX, u64::MAX], DType::F64, Some(&[1, 131072]));
    }

    #[test]
    fn tiles_are_listed_in_order_and_within_reason() {
        let list = coordinates(&[1..3, 0..2]).unwrap();
        assert_eq!(list, [[1, 0], [1, 1], [2, 0], [2, 1]]);
        assert_eq!(coordinates(&[0..2, 3..3]).unwrap(), Vec::<Vec<u64>>::new());
        assert_eq!(coordinates(&[]).unwrap(), [Vec::<u64>::new()]);
        let error = coordinates(&[0..1 << 40, 0..1 << 40]).unwrap_err();
        assert_eq!(error.kind(), lacus_tensor::ErrorKind::Corrupt);
        for (over, tile) in [(0, 0), (10, 11), (10, 0), (u64::MAX, 5)] {
            assert!(Tiling::new(over, tile).is_err());
        }
    }
}
