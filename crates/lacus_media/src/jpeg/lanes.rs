//! Eight numbers at once: as vectors of the machine where it has them (AVX2), else as an array.
//!
//! The compiler makes no vectors of the cosine transform by itself: it takes the arrays apart first.

/// Eight numbers of 32 bits. Those of broken files may overflow: they wrap.
pub(super) trait Lanes: Copy {
    fn zeros() -> Self;
    /// Products of two rows of numbers.
    fn products(row: &[i16; 8], factors: &[i16; 8]) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, factor: i32) -> Self;
    fn shifted_left<const BITS: i32>(self) -> Self;
    /// Divided by a power of two, rounded.
    fn rounded<const BITS: i32>(self) -> Self;
    fn transposed(rows: [Self; 8]) -> [Self; 8];
    /// With 128 added, and what is out of range set to its end.
    fn pixels(rows: [Self; 8]) -> [[u8; 8]; 8];
    fn numbers(self) -> [i32; 8];
    /// Three planes of sixteen bytes as pixels of three.
    fn interleaved(planes: &[[u8; 16]; 3]) -> [u8; 48];
}

/// For every machine.
#[derive(Clone, Copy)]
pub(super) struct Plain([i32; 8]);

#[inline(always)]
fn each(number: impl Fn(usize) -> i32) -> Plain {
    let mut numbers = [0; 8];
    for (i, place) in numbers.iter_mut().enumerate() {
        *place = number(i);
    }
    Plain(numbers)
}

impl Lanes for Plain {
    #[inline(always)]
    fn zeros() -> Plain {
        Plain([0; 8])
    }
    #[inline(always)]
    fn products(row: &[i16; 8], factors: &[i16; 8]) -> Plain {
        each(|i| i32::from(row[i]) * i32::from(factors[i]))
    }
    #[inline(always)]
    fn plus(self, other: Plain) -> Plain {
        each(|i| self.0[i].wrapping_add(other.0[i]))
    }
    #[inline(always)]
    fn minus(self, other: Plain) -> Plain {
        each(|i| self.0[i].wrapping_sub(other.0[i]))
    }
    #[inline(always)]
    fn times(self, factor: i32) -> Plain {
        each(|i| self.0[i].wrapping_mul(factor))
    }
    #[inline(always)]
    fn shifted_left<const BITS: i32>(self) -> Plain {
        each(|i| self.0[i] << BITS)
    }
    #[inline(always)]
    fn rounded<const BITS: i32>(self) -> Plain {
        each(|i| self.0[i].wrapping_add(1 << (BITS - 1)) >> BITS)
    }
    #[inline(always)]
    fn transposed(rows: [Plain; 8]) -> [Plain; 8] {
        let mut columns = [Plain([0; 8]); 8];
        for (i, row) in rows.iter().enumerate() {
            for (column, &number) in columns.iter_mut().zip(&row.0) {
                column.0[i] = number;
            }
        }
        columns
    }
    #[inline(always)]
    fn pixels(rows: [Plain; 8]) -> [[u8; 8]; 8] {
        let mut pixels = [[0; 8]; 8];
        for (out, row) in pixels.iter_mut().zip(&rows) {
            for (out, &number) in out.iter_mut().zip(&row.0) {
                *out = number.wrapping_add(128).clamp(0, 255) as u8;
            }
        }
        pixels
    }
    #[inline(always)]
    fn numbers(self) -> [i32; 8] {
        self.0
    }
    #[inline(always)]
    fn interleaved(planes: &[[u8; 16]; 3]) -> [u8; 48] {
        let mut pixels = [0; 48];
        for (i, pixel) in pixels.as_chunks_mut::<3>().0.iter_mut().enumerate() {
            *pixel = [planes[0][i], planes[1][i], planes[2][i]];
        }
        pixels
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use avx2::Avx2;

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::Lanes;

    /// For machines with AVX2. Used only inside of functions that are compiled for it, which are called only where it was found:
    /// this is what makes each block below sound.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx2(__m256i);

    impl Lanes for Avx2 {
        #[inline(always)]
        fn zeros() -> Avx2 {
            // SAFETY: AVX2 is there.
            Avx2(unsafe { _mm256_setzero_si256() })
        }
        #[inline(always)]
        fn products(row: &[i16; 8], factors: &[i16; 8]) -> Avx2 {
            // SAFETY: AVX2 is there, and 16 bytes are read from each.
            unsafe {
                let row = _mm256_cvtepi16_epi32(_mm_loadu_si128(row.as_ptr().cast()));
                let factors = _mm256_cvtepi16_epi32(_mm_loadu_si128(factors.as_ptr().cast()));
                // Both are sums of one product: the high halves are signs, which `mullo` takes into account.
                Avx2(_mm256_mullo_epi32(row, factors))
            }
        }
        #[inline(always)]
        fn plus(self, other: Avx2) -> Avx2 {
            // SAFETY: AVX2 is there.
            Avx2(unsafe { _mm256_add_epi32(self.0, other.0) })
        }
        #[inline(always)]
        fn minus(self, other: Avx2) -> Avx2 {
            // SAFETY: AVX2 is there.
            Avx2(unsafe { _mm256_sub_epi32(self.0, other.0) })
        }
        #[inline(always)]
        fn times(self, factor: i32) -> Avx2 {
            // SAFETY: AVX2 is there.
            Avx2(unsafe { _mm256_mullo_epi32(self.0, _mm256_set1_epi32(factor)) })
        }
        #[inline(always)]
        fn shifted_left<const BITS: i32>(self) -> Avx2 {
            // SAFETY: AVX2 is there.
            Avx2(unsafe { _mm256_slli_epi32::<BITS>(self.0) })
        }
        #[inline(always)]
        fn rounded<const BITS: i32>(self) -> Avx2 {
            // SAFETY: AVX2 is there.
            Avx2(unsafe {
                _mm256_srai_epi32::<BITS>(_mm256_add_epi32(self.0, _mm256_set1_epi32(1 << (BITS - 1))))
            })
        }
        #[inline(always)]
        fn transposed(rows: [Avx2; 8]) -> [Avx2; 8] {
            let [r0, r1, r2, r3, r4, r5, r6, r7] = rows.map_plain();
            // SAFETY: AVX2 is there.
            unsafe {
                // Pairs of rows, then fours, within halves of vectors; then the halves.
                let (a0, a1) = (_mm256_unpacklo_epi32(r0, r1), _mm256_unpackhi_epi32(r0, r1));
                let (a2, a3) = (_mm256_unpacklo_epi32(r2, r3), _mm256_unpackhi_epi32(r2, r3));
                let (a4, a5) = (_mm256_unpacklo_epi32(r4, r5), _mm256_unpackhi_epi32(r4, r5));
                let (a6, a7) = (_mm256_unpacklo_epi32(r6, r7), _mm256_unpackhi_epi32(r6, r7));
                let (b0, b1) = (_mm256_unpacklo_epi64(a0, a2), _mm256_unpackhi_epi64(a0, a2));
                let (b2, b3) = (_mm256_unpacklo_epi64(a1, a3), _mm256_unpackhi_epi64(a1, a3));
                let (b4, b5) = (_mm256_unpacklo_epi64(a4, a6), _mm256_unpackhi_epi64(a4, a6));
                let (b6, b7) = (_mm256_unpacklo_epi64(a5, a7), _mm256_unpackhi_epi64(a5, a7));
                [
                    Avx2(_mm256_permute2x128_si256::<0x20>(b0, b4)),
                    Avx2(_mm256_permute2x128_si256::<0x20>(b1, b5)),
                    Avx2(_mm256_permute2x128_si256::<0x20>(b2, b6)),
                    Avx2(_mm256_permute2x128_si256::<0x20>(b3, b7)),
                    Avx2(_mm256_permute2x128_si256::<0x31>(b0, b4)),
                    Avx2(_mm256_permute2x128_si256::<0x31>(b1, b5)),
                    Avx2(_mm256_permute2x128_si256::<0x31>(b2, b6)),
                    Avx2(_mm256_permute2x128_si256::<0x31>(b3, b7)),
                ]
            }
        }
        #[inline(always)]
        fn pixels(rows: [Avx2; 8]) -> [[u8; 8]; 8] {
            let [r0, r1, r2, r3, r4, r5, r6, r7] = rows.map_plain();
            let mut pixels = [[0; 8]; 8];
            // SAFETY: AVX2 is there, and 32 bytes are written twice to 64.
            unsafe {
                let out: *mut __m256i = pixels.as_mut_ptr().cast();
                _mm256_storeu_si256(out, four_rows(r0, r1, r2, r3));
                _mm256_storeu_si256(out.add(1), four_rows(r4, r5, r6, r7));
            }
            pixels
        }
        #[inline(always)]
        fn numbers(self) -> [i32; 8] {
            let mut numbers = [0; 8];
            // SAFETY: AVX2 is there, and 32 bytes are written.
            unsafe { _mm256_storeu_si256(numbers.as_mut_ptr().cast(), self.0) };
            numbers
        }
        #[inline(always)]
        fn interleaved(planes: &[[u8; 16]; 3]) -> [u8; 48] {
            let mut pixels = [0u8; 48];
            for (part, out) in pixels.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                // SAFETY: AVX2 is there, 16 bytes are read from each plane and mask, and 16 are written.
                unsafe {
                    let load = |bytes: &[u8; 16]| _mm_loadu_si128(bytes.as_ptr().cast());
                    let taken =
                        |plane: usize| _mm_shuffle_epi8(load(&planes[plane]), load(&TAKEN[part][plane]));
                    let all = _mm_or_si128(_mm_or_si128(taken(0), taken(1)), taken(2));
                    _mm_storeu_si128(out.as_mut_ptr().cast(), all);
                }
            }
            pixels
        }
    }

    /// Which bytes of each plane go to which place of each sixteen bytes of pixels; 128 for none.
    const TAKEN: [[[u8; 16]; 3]; 3] = {
        let mut taken = [[[128; 16]; 3]; 3];
        let mut at = 0;
        while at < 48 {
            taken[at / 16][at % 3][at % 16] = (at / 3) as u8;
            at += 1;
        }
        taken
    };

    /// Thirty-two numbers as pixels, row by row.
    #[inline(always)]
    fn four_rows(r0: __m256i, r1: __m256i, r2: __m256i, r3: __m256i) -> __m256i {
        // SAFETY: AVX2 is there.
        unsafe {
            // Packing saturates: first to 16 bits, then, with 128 added, to bytes. It works within halves of vectors, so that words
            // of four bytes end up as 0 1 2 3 (left halves of the rows) 0 1 2 3 (right halves).
            let middle = _mm256_set1_epi16(128);
            let first = _mm256_adds_epi16(_mm256_packs_epi32(r0, r1), middle);
            let second = _mm256_adds_epi16(_mm256_packs_epi32(r2, r3), middle);
            let packed = _mm256_packus_epi16(first, second);
            _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
        }
    }

    /// Takes the vectors out.
    trait Vectors {
        fn map_plain(self) -> [__m256i; 8];
    }

    impl Vectors for [Avx2; 8] {
        #[inline(always)]
        fn map_plain(self) -> [__m256i; 8] {
            let [a, b, c, d, e, f, g, h] = self;
            [a.0, b.0, c.0, d.0, e.0, f.0, g.0, h.0]
        }
    }
}
