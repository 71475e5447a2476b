//! From the coefficients of a block to its pixels, at full size or at a half, a quarter, an eighth of it.
//!
//! The inverse cosine transform of Loeffler, Ligtenberg and Moschytz in integers, columns first, with the rounding of the usual
//! library, so that pixels are the same bits as with other programs. The smaller ones compute fewer outputs of the same transform
//! instead of averaging them.

use super::lanes::Lanes;

/// Bits behind the point of the factors.
const FACTOR_BITS: i32 = 13;
/// Bits that are kept between the passes.
const KEPT_BITS: i32 = 2;

/// A number with [`FACTOR_BITS`] behind the point.
const fn fixed(number: f64) -> i32 {
    (number * (1 << FACTOR_BITS) as f64 + 0.5) as i32
}

/// One pass over eight vectors.
#[inline(always)]
fn pass<L: Lanes, const BITS: i32>(input: [L; 8]) -> [L; 8] {
    let [i0, i1, i2, i3, i4, i5, i6, i7] = input;
    // The even half.
    let z1 = i2.plus(i6).times(fixed(0.541196100));
    let low = z1.minus(i6.times(fixed(1.847759065)));
    let high = z1.plus(i2.times(fixed(0.765366865)));
    let sum = i0.plus(i4).shifted_left::<FACTOR_BITS>();
    let difference = i0.minus(i4).shifted_left::<FACTOR_BITS>();
    let (e0, e3) = (sum.plus(high), sum.minus(high));
    let (e1, e2) = (difference.plus(low), difference.minus(low));
    // The odd half.
    let z3 = i7.plus(i3);
    let z4 = i5.plus(i1);
    let z5 = z3.plus(z4).times(fixed(1.175875602));
    let z1 = i7.plus(i1).times(fixed(0.899976223));
    let z2 = i5.plus(i3).times(fixed(2.562915447));
    let z3 = z5.minus(z3.times(fixed(1.961570560)));
    let z4 = z5.minus(z4.times(fixed(0.390180644)));
    let o0 = i7.times(fixed(0.298631336)).minus(z1).plus(z3);
    let o1 = i5.times(fixed(2.053119869)).minus(z2).plus(z4);
    let o2 = i3.times(fixed(3.072711026)).minus(z2).plus(z3);
    let o3 = i1.times(fixed(1.501321110)).minus(z1).plus(z4);
    [
        e0.plus(o3).rounded::<BITS>(),
        e1.plus(o2).rounded::<BITS>(),
        e2.plus(o1).rounded::<BITS>(),
        e3.plus(o0).rounded::<BITS>(),
        e3.minus(o0).rounded::<BITS>(),
        e2.minus(o1).rounded::<BITS>(),
        e1.minus(o2).rounded::<BITS>(),
        e0.minus(o3).rounded::<BITS>(),
    ]
}

/// Where pixels of a block go: the first one, and how far apart rows are.
pub(super) struct Spot<'a> {
    pub(super) plane: &'a mut [u8],
    pub(super) at: usize,
    pub(super) stride: usize,
}

impl Spot<'_> {
    #[inline(always)]
    fn row<const N: usize>(&mut self, row: usize) -> &mut [u8; N] {
        let at = self.at + row * self.stride;
        (&mut self.plane[at..at + N]).try_into().expect("N bytes")
    }
}

/// The coefficients of a block times its quantisers, row by row.
#[inline(always)]
fn input<L: Lanes>(block: &[i16; 64], quantisers: &[i16; 64]) -> [L; 8] {
    let (rows, factors) = (block.as_chunks::<8>().0, quantisers.as_chunks::<8>().0);
    let row = |at: usize| L::products(&rows[at], &factors[at]);
    [row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)]
}

/// Eight by eight pixels.
#[inline(always)]
pub(super) fn full<L: Lanes>(block: &[i16; 64], quantisers: &[i16; 64], mut spot: Spot<'_>) {
    const FIRST: i32 = FACTOR_BITS - KEPT_BITS;
    const SECOND: i32 = FACTOR_BITS + KEPT_BITS + 3;
    let columns = L::transposed(pass::<L, FIRST>(input(block, quantisers)));
    let pixels = L::pixels(L::transposed(pass::<L, SECOND>(columns)));
    for (y, row) in pixels.iter().enumerate() {
        *spot.row::<8>(y) = *row;
    }
}

/// One pass of the transform to four outputs: the fifth input has no part in it.
#[inline(always)]
fn pass_to_four<L: Lanes, const BITS: i32>(input: [L; 8]) -> [L; 8] {
    const SHIFT: i32 = FACTOR_BITS + 1;
    let [i0, i1, i2, i3, _, i5, i6, i7] = input;
    let first = i0.shifted_left::<SHIFT>();
    let second = i2.times(fixed(1.847759065)).minus(i6.times(fixed(0.765366865)));
    let (e0, e1) = (first.plus(second), first.minus(second));
    let o1 = i5.times(fixed(1.451774981)).plus(i1.times(fixed(1.061594337)));
    let o1 = o1.minus(i7.times(fixed(0.211164243))).minus(i3.times(fixed(2.172734803)));
    let o0 = i3.times(fixed(0.899976223)).plus(i1.times(fixed(2.562915447)));
    let o0 = o0.minus(i7.times(fixed(0.509795579))).minus(i5.times(fixed(0.601344887)));
    let rows = [e0.plus(o0), e1.plus(o1), e1.minus(o1), e0.minus(o0)];
    let [r0, r1, r2, r3] = rows;
    let none = L::zeros();
    [
        r0.rounded::<BITS>(),
        r1.rounded::<BITS>(),
        r2.rounded::<BITS>(),
        r3.rounded::<BITS>(),
        none,
        none,
        none,
        none,
    ]
}

/// Four by four pixels.
#[inline(always)]
pub(super) fn half<L: Lanes>(block: &[i16; 64], quantisers: &[i16; 64], mut spot: Spot<'_>) {
    const FIRST: i32 = FACTOR_BITS - KEPT_BITS + 1;
    const SECOND: i32 = FACTOR_BITS + KEPT_BITS + 3 + 1;
    let columns = L::transposed(pass_to_four::<L, FIRST>(input(block, quantisers)));
    let pixels = L::pixels(L::transposed(pass_to_four::<L, SECOND>(columns)));
    for (y, row) in pixels[..4].iter().enumerate() {
        spot.row::<4>(y).copy_from_slice(&row[..4]);
    }
}

/// Two by two pixels.
#[inline(always)]
pub(super) fn quarter<L: Lanes>(block: &[i16; 64], quantisers: &[i16; 64], mut spot: Spot<'_>) {
    const SHIFT: i32 = FACTOR_BITS + 2;
    const FIRST: i32 = FACTOR_BITS - KEPT_BITS + 2;
    const SECOND: i32 = FACTOR_BITS + KEPT_BITS + 3 + 2;
    let [i0, i1, _, i3, _, i5, _, i7] = input::<L>(block, quantisers);
    let odd = i1.times(fixed(3.624509785)).plus(i5.times(fixed(0.850430095)));
    let odd = odd.minus(i3.times(fixed(1.272758580))).minus(i7.times(fixed(0.720959822)));
    let even = i0.shifted_left::<SHIFT>();
    for (y, row) in [even.plus(odd), even.minus(odd)].into_iter().enumerate() {
        let row = row.rounded::<FIRST>().numbers();
        let part = |place: usize, factor: f64| row[place].wrapping_mul(fixed(factor));
        let odd = part(1, 3.624509785).wrapping_add(part(5, 0.850430095));
        let odd = odd.wrapping_sub(part(3, 1.272758580)).wrapping_sub(part(7, 0.720959822));
        let even = row[0].wrapping_shl(SHIFT as u32);
        let round = |number: i32| pixel(number.wrapping_add(1 << (SECOND - 1)) >> SECOND);
        *spot.row::<2>(y) = [round(even.wrapping_add(odd)), round(even.wrapping_sub(odd))];
    }
}

/// A block that has one color, at any size.
#[inline(always)]
pub(super) fn flat<const N: usize>(first: i16, quantiser: i16, mut spot: Spot<'_>) {
    let value = pixel(i32::from(first).wrapping_mul(quantiser.into()).wrapping_add(4) >> 3);
    for y in 0..N {
        *spot.row::<N>(y) = [value; N];
    }
}

#[inline(always)]
fn pixel(number: i32) -> u8 {
    number.wrapping_add(128).clamp(0, 255) as u8
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::jpeg::lanes::{Avx2, Plain};
    use crate::jpeg::vectors::{Loop, has_avx2, vectorise};

    /// All sizes of one block, one behind the other.
    struct Sizes<'a, L>(&'a [i16; 64], &'a [i16; 64], std::marker::PhantomData<L>);

    impl<L: Lanes> Loop for Sizes<'_, L> {
        type Output = Vec<u8>;

        #[inline(always)]
        fn run(self) -> Vec<u8> {
            let mut pixels = vec![0; 64 + 16 + 4];
            full::<L>(self.0, self.1, Spot { plane: &mut pixels, at: 0, stride: 8 });
            half::<L>(self.0, self.1, Spot { plane: &mut pixels, at: 64, stride: 4 });
            quarter::<L>(self.0, self.1, Spot { plane: &mut pixels, at: 80, stride: 2 });
            pixels
        }
    }

    #[test]
    fn vectors_change_nothing() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        };
        for round in 0..300u64 {
            // From small numbers to those of broken files, which overflow.
            let bound = [20, 200, 2000, 32768][round as usize % 4];
            let mut block = [0i16; 64];
            block
                .iter_mut()
                .for_each(|number| *number = ((next() % (2 * bound)) as i64 - bound as i64) as i16);
            let mut quantisers = [1i16; 64];
            quantisers.iter_mut().for_each(|number| *number = (next() % (1 + bound)) as i16 & 0x7fff);
            let plain = Sizes::<Plain>(&block, &quantisers, std::marker::PhantomData).run();
            if has_avx2() {
                let wide = vectorise(Sizes::<Avx2>(&block, &quantisers, std::marker::PhantomData));
                assert_eq!(plain, wide, "{bound}");
            }
        }
    }

    #[test]
    fn a_block_of_one_color_is_flat() {
        for first in [-1024, -77, 0, 5, 1016] {
            let mut block = [0; 64];
            block[0] = first;
            let all = Sizes::<Plain>(&block, &[1; 64], std::marker::PhantomData).run();
            let mut one = [0];
            flat::<1>(first, 1, Spot { plane: &mut one, at: 0, stride: 1 });
            assert!(all.iter().all(|&pixel| pixel == one[0]), "{first}");
        }
    }
}
