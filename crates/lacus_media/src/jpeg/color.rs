//! From planes of brightness and color to rows of RGB: color that is stored at half the resolution is interpolated between its
//! neighbours, three parts to one, with the rounding of the usual library.

use super::lanes::Lanes;

/// Numbers of one component: rows of the blocks that were decoded.
#[derive(Default)]
pub(super) struct Plane {
    pub(super) numbers: Vec<u8>,
    /// Numbers in a row.
    pub(super) stride: usize,
    /// Which column and row of the component the first number is.
    pub(super) left: usize,
    pub(super) top: usize,
    /// Columns and rows that the picture has; those behind are padding.
    pub(super) width: usize,
    pub(super) height: usize,
    /// How many pixels share a number, across and down: 1 or 2.
    pub(super) across: usize,
    pub(super) down: usize,
    /// Whether to interpolate, instead of repeating.
    pub(super) is_smooth: bool,
}

impl Plane {
    /// From column `from` on, in row `row` or the last one.
    #[inline(always)]
    fn row(&self, row: usize, from: usize) -> &[u8] {
        let start = (row.min(self.height - 1) - self.top) * self.stride;
        &self.numbers[start + from - self.left..start + self.stride]
    }
}

/// Memory for a row, used again for each.
#[derive(Default)]
pub(super) struct Row {
    /// Sums over two rows, with a neighbour on both sides.
    sums: Vec<u16>,
    numbers: Vec<u8>,
}

impl Row {
    /// The numbers of `plane` for the pixels `from..to` of row `y`.
    #[inline(always)]
    pub(super) fn of<'a>(&'a mut self, plane: &'a Plane, y: usize, from: usize, to: usize) -> &'a [u8] {
        if (plane.across, plane.down) == (1, 1) {
            return &plane.row(y, from)[..to - from];
        }
        let (first, end) = (from / plane.across, (to.div_ceil(plane.across)).min(plane.width));
        let count = end - first;
        // One row, or the nearer and the farther one of two.
        let near = plane.row(y / plane.down, first);
        let is_mixed = plane.down == 2 && plane.is_smooth;
        let far = if y.is_multiple_of(2) { (y / 2).saturating_sub(1) } else { y / 2 + 1 };
        let far = if is_mixed { plane.row(far, first) } else { near };
        self.numbers.resize(count * plane.across, 0);
        if plane.across == 1 {
            let bias = if !is_mixed { 2 } else { 1 + (y % 2) as u16 };
            for ((out, &near), &far) in self.numbers.iter_mut().zip(near).zip(far) {
                *out = ((3 * u16::from(near) + u16::from(far) + bias) >> 2) as u8;
            }
            return &self.numbers[from - first..to - first];
        }
        let (pairs, _) = self.numbers.as_chunks_mut::<2>();
        if !plane.is_smooth {
            pairs.iter_mut().zip(near).for_each(|(pair, &number)| *pair = [number; 2]);
            return &self.numbers[from - 2 * first..to - 2 * first];
        }
        // With `far` the same as `near`, sums are four times it: halves of both roundings below stay exact.
        self.sums.resize(count + 2, 0);
        for ((sum, &near), &far) in self.sums[1..].iter_mut().zip(&near[..count]).zip(far) {
            *sum = 3 * u16::from(near) + u16::from(far);
        }
        // The neighbours outside, or the edge again.
        let sum_at = |column: usize| {
            let at = |row: usize| u16::from(plane.row(row, column)[0]);
            let far_row = if y.is_multiple_of(2) { (y / 2).saturating_sub(1) } else { y / 2 + 1 };
            if is_mixed { 3 * at(y / 2) + at(far_row) } else { 4 * at(y / plane.down) }
        };
        self.sums[0] = if first == 0 { self.sums[1] } else { sum_at(first - 1) };
        self.sums[count + 1] = if end == plane.width { self.sums[count] } else { sum_at(end) };
        // Rounding down by 8 and 7 of 16 where rows are mixed; by 1 and 2 of 4, which is 4 and 8 of 16, where they are not.
        let (left_bias, right_bias) = if is_mixed { (8, 7) } else { (4, 8) };
        let (lefts, middles, rights) = (&self.sums[..count], &self.sums[1..=count], &self.sums[2..]);
        for (((pair, &left), &middle), &right) in pairs.iter_mut().zip(lefts).zip(middles).zip(rights) {
            *pair = [
                ((3 * middle + left + left_bias) >> 4) as u8,
                ((3 * middle + right + right_bias) >> 4) as u8,
            ];
        }
        &self.numbers[from - 2 * first..to - 2 * first]
    }
}

/// Pixels that are converted at once.
const TOGETHER: usize = 16;

/// Writes RGB.
#[inline(always)]
pub(super) fn to_rgb<L: Lanes>(luma: &[u8], blue: &[u8], red: &[u8], out: &mut [u8]) {
    let (lumas, luma_rest) = luma.as_chunks::<TOGETHER>();
    let (blues, blue_rest) = blue.as_chunks::<TOGETHER>();
    let (reds, red_rest) = red.as_chunks::<TOGETHER>();
    let (outs, out_rest) = out.as_chunks_mut::<{ 3 * TOGETHER }>();
    for (((luma, blue), red), out) in lumas.iter().zip(blues).zip(reds).zip(outs) {
        *out = L::interleaved(&convert(luma, blue, red));
    }
    let last = |rest: &[u8]| -> [u8; TOGETHER] {
        let mut padded = [0; TOGETHER];
        padded[..rest.len()].copy_from_slice(rest);
        padded
    };
    let pixels = L::interleaved(&convert(&last(luma_rest), &last(blue_rest), &last(red_rest)));
    let length = out_rest.len();
    out_rest.copy_from_slice(&pixels[..length]);
}

#[inline(always)]
fn convert(luma: &[u8; TOGETHER], blue: &[u8; TOGETHER], red: &[u8; TOGETHER]) -> [[u8; TOGETHER]; 3] {
    const fn fixed(number: f64) -> i32 {
        (number * 65536.0 + 0.5) as i32
    }
    const HALF: i32 = 1 << 15;
    let (mut reds, mut greens, mut blues) = ([0; TOGETHER], [0; TOGETHER], [0; TOGETHER]);
    // One loop for each: the compiler makes vectors of them.
    for ((out, &y), &cr) in reds.iter_mut().zip(luma).zip(red) {
        let cr = i32::from(cr) - 128;
        *out = (i32::from(y) + ((fixed(1.402) * cr + HALF) >> 16)).clamp(0, 255) as u8;
    }
    for (((out, &y), &cb), &cr) in greens.iter_mut().zip(luma).zip(blue).zip(red) {
        let (cb, cr) = (i32::from(cb) - 128, i32::from(cr) - 128);
        *out =
            (i32::from(y) + ((HALF - fixed(0.34414) * cb - fixed(0.71414) * cr) >> 16)).clamp(0, 255) as u8;
    }
    for ((out, &y), &cb) in blues.iter_mut().zip(luma).zip(blue) {
        let cb = i32::from(cb) - 128;
        *out = (i32::from(y) + ((fixed(1.772) * cb + HALF) >> 16)).clamp(0, 255) as u8;
    }
    [reds, greens, blues]
}
