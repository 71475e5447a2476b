//! The same loops, compiled for the vectors of this machine, and one that the compiler does not vectorise by itself. All `unsafe` of
//! transforms is here.

use super::weights::{WEIGHT_BITS, Weights};

/// A loop that the compiler can vectorise. `run` and all it calls must be `#[inline(always)]`, else they are compiled for the
/// baseline.
pub(super) trait Loop {
    /// Runs it.
    fn run(self);
}

/// Runs a loop with vectors of 32 bytes where the machine has them. Wider vectors never change a result.
#[inline]
pub(super) fn vectorise(body: impl Loop) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has them.
        return unsafe { with_avx2(body) };
    }
    body.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(body: impl Loop) {
    body.run();
}

/// Bits of the lower part of a weight. Both parts fit into 16 bits, whose products with bytes are added in pairs by one instruction.
const LOWER_BITS: u32 = WEIGHT_BITS / 2;
/// Old pixels that are taken at once.
const PIXELS: usize = 4;
/// Bytes that are loaded for them; twelve are used.
const LOADED: usize = 16;

/// The weights of rows of three channels, as the loop takes them.
pub(super) struct TripleWeights {
    /// Of each new pixel: the first byte, and the groups of four old pixels.
    places: Vec<(usize, std::ops::Range<usize>)>,
    /// The upper and the lower parts: for pixels 0 and 1 four times, then for pixels 2 and 3 four times.
    groups: Vec<[[i16; 16]; 2]>,
}

impl TripleWeights {
    /// `None` where the machine has no vectors for it.
    pub(super) fn new(weights: &Weights) -> Option<TripleWeights> {
        if !has_vectors() {
            return None;
        }
        let mut all = TripleWeights { places: Vec::with_capacity(weights.firsts.len()), groups: Vec::new() };
        for new in 0..weights.firsts.len() {
            let (first, weights) = weights.of(new);
            let start = all.groups.len();
            for four in weights.chunks(PIXELS) {
                let mut group = [[0; 16]; 2];
                for (place, &weight) in four.iter().enumerate() {
                    for channel in 0..4 {
                        let at = place / 2 * 8 + channel * 2 + place % 2;
                        group[0][at] = (weight >> LOWER_BITS) as i16;
                        group[1][at] = (weight & ((1 << LOWER_BITS) - 1)) as i16;
                    }
                }
                all.groups.push(group);
            }
            all.places.push((first * 3, start..all.groups.len()));
        }
        Some(all)
    }

    /// Bytes that may be looked at behind a row, whose weight is zero.
    pub(super) const BEHIND: usize = LOADED;

    /// Makes a row of three channels narrower or wider. Behind the old row are [`TripleWeights::BEHIND`] bytes of anything.
    pub(super) fn apply(&self, old: &[u8], out: &mut [u8]) {
        #[cfg(target_arch = "x86_64")]
        if has_vectors() {
            // SAFETY: the machine has AVX2.
            unsafe { self.apply_with_avx2(old, out) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (old, out, &self.places, &self.groups);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn apply_with_avx2(&self, old: &[u8], out: &mut [u8]) {
        use std::arch::x86_64::*;
        // Pixels 0 and 1 side by side for each channel, as numbers of 16 bits; then pixels 2 and 3.
        let spread = _mm256_setr_epi8(
            0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, //
            6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1,
        );
        let half = _mm_set1_epi32(1 << (WEIGHT_BITS - 1));
        for ((first, groups), out) in self.places.iter().zip(out.as_chunks_mut::<3>().0) {
            let (mut upper, mut lower) = (_mm256_setzero_si256(), _mm256_setzero_si256());
            let mut at = *first;
            for [above, below] in &self.groups[groups.clone()] {
                let bytes: &[u8; LOADED] = old[at..at + LOADED].try_into().expect("as many bytes");
                // SAFETY: sixteen bytes, and thirty-two twice, are read from arrays of that length.
                let (bytes, above, below) = unsafe {
                    (
                        _mm_loadu_si128(bytes.as_ptr().cast()),
                        _mm256_loadu_si256(above.as_ptr().cast()),
                        _mm256_loadu_si256(below.as_ptr().cast()),
                    )
                };
                let numbers = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), spread);
                upper = _mm256_add_epi32(upper, _mm256_madd_epi16(numbers, above));
                lower = _mm256_add_epi32(lower, _mm256_madd_epi16(numbers, below));
                at += 3 * PIXELS;
            }
            let sums = _mm256_add_epi32(_mm256_slli_epi32::<{ LOWER_BITS as i32 }>(upper), lower);
            let sums = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
            let numbers = _mm_srai_epi32::<{ WEIGHT_BITS as i32 }>(_mm_add_epi32(sums, half));
            // Packing saturates.
            let packed = _mm_packus_epi16(_mm_packs_epi32(numbers, numbers), numbers);
            let [red, green, blue, _] = _mm_cvtsi128_si32(packed).to_le_bytes();
            *out = [red, green, blue];
        }
    }
}

fn has_vectors() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}
