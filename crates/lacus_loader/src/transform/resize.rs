//! Pictures of bytes at another size: across, then down, as Pillow does it, and bit for bit with its results.
//!
//! ```text
//! old rows that are needed ─across: sums of pixels→ narrow rows ─down: sums of rows→ new rows, one by one
//! ```

use std::ops::Range;

use super::picture::Picture;
use super::step::Interpolation;
use super::vectors::{Loop, TripleWeights, vectorise};
use super::weights::{WEIGHT_BITS, Weights};

/// What is made of a picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Resize {
    pub(super) filter: Interpolation,
    /// The part of the old picture that becomes the new one, in old pixels: from and to.
    pub(super) rows: (f64, f64),
    pub(super) columns: (f64, f64),
    pub(super) height: usize,
    pub(super) width: usize,
}

/// Memory that is used again.
#[derive(Default)]
pub(super) struct ResizeMemory {
    narrow: Vec<u8>,
    row: Vec<u8>,
    /// An old row, with some bytes behind it.
    old: Vec<u8>,
}

const HALF: i32 = 1 << (WEIGHT_BITS - 1);

#[inline(always)]
fn pixel(sum: i32) -> u8 {
    (sum >> WEIGHT_BITS).clamp(0, 255) as u8
}

/// Gives the rows `rows` of the new picture, cut to `columns`, one by one to `take`, with their numbers from 0 on.
pub(super) fn resize(
    old: Picture<'_>,
    resize: &Resize,
    rows: Range<usize>,
    columns: Range<usize>,
    memory: &mut ResizeMemory,
    mut take: impl FnMut(usize, &mut [u8]),
) {
    let down = Weights::new(resize.filter, old.height, resize.rows, resize.height, rows.clone());
    let across = Weights::new(resize.filter, old.width, resize.columns, resize.width, columns.clone());
    let needed = down.needed();
    let length = columns.len() * old.channels;
    memory.narrow.resize(needed.len() * length, 0);
    memory.row.resize(length, 0);
    let ResizeMemory { narrow, row, old: old_bytes } = memory;
    let is_as_wide = resize.columns == (0.0, old.width as f64) && resize.width == old.width;
    let triple = if old.channels == 3 && !is_as_wide { TripleWeights::new(&across) } else { None };
    for (y, out) in needed.clone().zip(narrow.chunks_exact_mut(length)) {
        let old_row = old.row(y);
        if is_as_wide {
            out.copy_from_slice(&old_row[columns.start * old.channels..columns.end * old.channels]);
        } else if let Some(triple) = &triple {
            old_bytes.clear();
            old_bytes.extend_from_slice(old_row);
            old_bytes.resize(old_row.len() + TripleWeights::BEHIND, 0);
            triple.apply(old_bytes, out);
        } else {
            vectorise(Across { old: old_row, channels: old.channels, weights: &across, out });
        }
    }
    let is_as_high = resize.rows == (0.0, old.height as f64) && resize.height == old.height;
    for y in 0..rows.len() {
        let (first, weights) = down.of(y);
        let first = first - needed.start;
        if is_as_high {
            let at = rows.start + y - needed.start;
            row.copy_from_slice(&narrow[at * length..][..length]);
        } else {
            vectorise(Down {
                narrow: &narrow[first * length..][..weights.len() * length],
                weights,
                out: row,
            });
        }
        take(y, row);
    }
}

/// One row, made narrower or wider.
struct Across<'a> {
    old: &'a [u8],
    channels: usize,
    weights: &'a Weights,
    out: &'a mut [u8],
}

impl Loop for Across<'_> {
    #[inline(always)]
    fn run(self) {
        match self.channels {
            1 => self.with_channels::<1>(),
            2 => self.with_channels::<2>(),
            3 => self.with_channels::<3>(),
            _ => self.with_channels::<4>(),
        }
    }
}

impl Across<'_> {
    #[inline(always)]
    fn with_channels<const C: usize>(self) {
        let old = self.old.as_chunks::<C>().0;
        for (new, out) in self.out.as_chunks_mut::<C>().0.iter_mut().enumerate() {
            let (first, weights) = self.weights.of(new);
            let mut sums = [HALF; C];
            for (&weight, pixel) in weights.iter().zip(&old[first..]) {
                for channel in 0..C {
                    sums[channel] =
                        sums[channel].wrapping_add(weight.wrapping_mul(i32::from(pixel[channel])));
                }
            }
            for channel in 0..C {
                out[channel] = pixel(sums[channel]);
            }
        }
    }
}

/// One new row of several old ones, which lie one behind the other.
struct Down<'a> {
    narrow: &'a [u8],
    weights: &'a [i32],
    out: &'a mut [u8],
}

impl Loop for Down<'_> {
    #[inline(always)]
    fn run(self) {
        /// Bytes whose sums stay in registers.
        const TOGETHER: usize = 32;
        let length = self.out.len();
        let (chunks, rest) = self.out.as_chunks_mut::<TOGETHER>();
        for (place, out) in chunks.iter_mut().enumerate() {
            let mut sums = [HALF; TOGETHER];
            for (&weight, row) in self.weights.iter().zip(self.narrow.chunks_exact(length)) {
                let bytes: &[u8; TOGETHER] =
                    row[place * TOGETHER..(place + 1) * TOGETHER].try_into().expect("as many bytes");
                for i in 0..TOGETHER {
                    sums[i] = sums[i].wrapping_add(weight.wrapping_mul(i32::from(bytes[i])));
                }
            }
            for i in 0..TOGETHER {
                out[i] = pixel(sums[i]);
            }
        }
        let start = length - rest.len();
        for (place, out) in rest.iter_mut().enumerate() {
            let mut sum = HALF;
            for (&weight, row) in self.weights.iter().zip(self.narrow.chunks_exact(length)) {
                sum = sum.wrapping_add(weight.wrapping_mul(i32::from(row[start + place])));
            }
            *out = pixel(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_change_nothing() {
        let filters =
            [Interpolation::Box, Interpolation::Bilinear, Interpolation::Bicubic, Interpolation::Lanczos];
        for (old, new) in [(1, 1), (2, 9), (9, 2), (100, 37), (37, 100), (640, 224), (5, 5)] {
            for filter in filters {
                let bytes: Vec<u8> =
                    (0..old * 3).map(|at| if at % 5 == 0 { 255 } else { (at * 89 % 256) as u8 }).collect();
                let weights = Weights::new(filter, old, (0.0, old as f64), new, 0..new);
                let mut expected = vec![0; new * 3];
                Across { old: &bytes, channels: 3, weights: &weights, out: &mut expected }.run();
                if let Some(triple) = TripleWeights::new(&weights) {
                    let mut found = vec![0; new * 3];
                    triple.apply(&[&bytes[..], &[77; TripleWeights::BEHIND]].concat(), &mut found);
                    assert_eq!(found, expected, "{filter:?} {old} {new}");
                }
            }
        }
    }
}
