//! The bit shuffle: all highest bits of the bytes, then all second highest, and so on, each plane packed.
//!
//! ```text
//! bytes   0b1000_0001 0b1000_0011 …       planes   11… (bit 7)  00… (bit 6)  …  11… (bit 0)
//! ```
//!
//! Neighbouring values that differ little agree in their high bits, which become long runs that even the quickest
//! compressor removes. (Bit shuffle of width 1 in the blosc and bitshuffle libraries, highest plane first.)

/// Bytes that go through together: they give a word of eight bytes to each plane.
const STEP: usize = 64;

/// Writes the bit planes of `source` into `target` of the same length. What is left behind the last whole 64 bytes
/// is copied as it is, behind the planes.
pub(crate) fn to_planes(source: &[u8], target: &mut [u8]) {
    let (steps, rest) = source.as_chunks::<STEP>();
    let plane_bytes = steps.len() * STEP / 8;
    let (planes, tail) = target.split_at_mut(plane_bytes * 8);
    tail.copy_from_slice(rest);
    if plane_bytes == 0 {
        return;
    }
    let mut planes = planes.chunks_exact_mut(plane_bytes);
    let mut planes: [&mut [[u8; 8]]; 8] =
        std::array::from_fn(|_| planes.next().unwrap_or_default().as_chunks_mut::<8>().0);
    for (i, step) in steps.iter().enumerate() {
        let mut words = [0u64; 8];
        for (k, part) in step.as_chunks::<16>().0.iter().enumerate() {
            for (word, bits) in words.iter_mut().zip(bits_of(part)) {
                *word |= u64::from(bits) << (16 * k);
            }
        }
        for (plane, word) in planes.iter_mut().zip(words) {
            plane[i] = word.to_le_bytes();
        }
    }
}

/// The inverse of [`to_planes`].
pub(crate) fn from_planes(source: &[u8], target: &mut [u8]) {
    let steps = target.len() / STEP;
    let plane_bytes = steps * STEP / 8;
    let (planes, tail) = source.split_at(plane_bytes * 8);
    let (body, rest) = target.split_at_mut(steps * STEP);
    rest.copy_from_slice(tail);
    if plane_bytes == 0 {
        return;
    }
    let mut planes = planes.chunks_exact(plane_bytes);
    let planes: [&[[u8; 8]]; 8] =
        std::array::from_fn(|_| planes.next().unwrap_or_default().as_chunks::<8>().0);
    for (i, step) in body.as_chunks_mut::<STEP>().0.iter_mut().enumerate() {
        *step = bytes_of(&planes.map(|plane| plane[i]));
    }
}

/// The 64 bytes whose bits lie in a word of each plane.
#[cfg(target_arch = "x86_64")]
fn bytes_of(planes: &[[u8; 8]; 8]) -> [u8; STEP] {
    use std::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_set1_epi64x, _mm_slli_epi64,
        _mm_srli_epi64, _mm_unpackhi_epi16, _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi8,
        _mm_unpacklo_epi16, _mm_unpacklo_epi32, _mm_xor_si128,
    };
    // SSE2 is part of every x86-64; these make no use of memory.
    // SAFETY: the instructions are there, and act on values only.
    unsafe {
        let word = |p: usize| _mm_set_epi64x(0, i64::from_le_bytes(planes[p]));
        // The eight bytes at the same place of all planes come together, the last plane's lowest.
        let (a, b) = (_mm_unpacklo_epi8(word(7), word(6)), _mm_unpacklo_epi8(word(5), word(4)));
        let (c, d) = (_mm_unpacklo_epi8(word(3), word(2)), _mm_unpacklo_epi8(word(1), word(0)));
        let (low, high) = (_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b));
        let (low2, high2) = (_mm_unpacklo_epi16(c, d), _mm_unpackhi_epi16(c, d));
        let squares = [
            _mm_unpacklo_epi32(low, low2),
            _mm_unpackhi_epi32(low, low2),
            _mm_unpacklo_epi32(high, high2),
            _mm_unpackhi_epi32(high, high2),
        ];
        // As in `transposed`, two squares at a time.
        macro_rules! exchange {
            ($x:expr, $shift:literal, $mask:literal) => {{
                let x: __m128i = $x;
                let t = _mm_and_si128(_mm_xor_si128(x, _mm_srli_epi64::<$shift>(x)), _mm_set1_epi64x($mask));
                _mm_xor_si128(_mm_xor_si128(x, t), _mm_slli_epi64::<$shift>(t))
            }};
        }
        let mut bytes = [0; STEP];
        for (bytes, square) in bytes.as_chunks_mut::<16>().0.iter_mut().zip(squares) {
            let x = exchange!(square, 7, 0x00aa_00aa_00aa_00aa);
            let x = exchange!(x, 14, 0x0000_cccc_0000_cccc);
            let x = exchange!(x, 28, 0x0000_0000_f0f0_f0f0);
            bytes[..8].copy_from_slice(&_mm_cvtsi128_si64(x).to_le_bytes());
            bytes[8..].copy_from_slice(&_mm_cvtsi128_si64(_mm_unpackhi_epi64(x, x)).to_le_bytes());
        }
        bytes
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn bytes_of(planes: &[[u8; 8]; 8]) -> [u8; STEP] {
    let mut bytes = [0; STEP];
    for (j, word) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *word = transposed(u64::from_be_bytes(planes.map(|plane| plane[j]))).to_le_bytes();
    }
    bytes
}

/// Bit k of the result's plane p is bit 7 - p of byte k.
#[cfg(target_arch = "x86_64")]
fn bits_of(step: &[u8; 16]) -> [u16; 8] {
    use std::arch::x86_64::{_mm_add_epi8, _mm_movemask_epi8, _mm_set_epi64x};
    let (low, high) = step.split_at(8);
    let word = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().unwrap_or_default());
    // SSE2 is part of every x86-64; these make no use of memory.
    // SAFETY: the instructions are there, and act on values only.
    unsafe {
        let mut bytes = _mm_set_epi64x(word(high), word(low));
        let mut planes = [0; 8];
        for plane in &mut planes {
            *plane = _mm_movemask_epi8(bytes) as u16;
            // The next bit moves to the top.
            bytes = _mm_add_epi8(bytes, bytes);
        }
        planes
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn bits_of(step: &[u8; 16]) -> [u16; 8] {
    std::array::from_fn(|plane| {
        step.iter().enumerate().fold(0, |bits, (k, byte)| bits | u16::from(byte >> (7 - plane) & 1) << k)
    })
}

#[cfg(any(test, not(target_arch = "x86_64")))]
/// The bits of an eight by eight square, rows in the bytes from the highest on, so that row 0 becomes the highest
/// bits of the result's bytes.
fn transposed(square: u64) -> u64 {
    // The well-known exchange of blocks: 1 by 1, 2 by 2, 4 by 4.
    let mut x = square;
    let exchange = |x: u64, shift: u32, mask: u64| {
        let t = (x ^ (x >> shift)) & mask;
        x ^ t ^ (t << shift)
    };
    x = exchange(x, 7, 0x00aa_00aa_00aa_00aa);
    x = exchange(x, 14, 0x0000_cccc_0000_cccc);
    exchange(x, 28, 0x0000_0000_f0f0_f0f0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_are_where_they_belong() {
        let mut source = [0u8; 64];
        (source[0], source[3], source[63]) = (0b1000_0001, 0b0000_0001, 0b0100_0000);
        let mut planes = [0u8; 64];
        to_planes(&source, &mut planes);
        let mut expected = [0u8; 64];
        (expected[0], expected[15], expected[56]) = (1, 0b1000_0000, 0b1001);
        assert_eq!(planes, expected);
    }

    /// What the instructions of one kind of processor do is what plain arithmetic does.
    #[test]
    fn squares_are_turned() {
        let planes: [[u8; 8]; 8] =
            std::array::from_fn(|p| std::array::from_fn(|j| (p * 37 + j * 101 + p * j * 7) as u8));
        let mut expected = [0; STEP];
        for (j, word) in expected.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *word = transposed(u64::from_be_bytes(planes.map(|plane| plane[j]))).to_le_bytes();
        }
        assert_eq!(bytes_of(&planes), expected);
    }

    #[test]
    fn planes_are_undone() {
        for length in [0, 1, 63, 64, 65, 127, 128, 1000, 4096, 4099] {
            let source: Vec<u8> = (0..length).map(|i: usize| (i * i * 31 + i / 7) as u8).collect();
            let mut planes = vec![0; length];
            to_planes(&source, &mut planes);
            let mut back = vec![0; length];
            from_planes(&planes, &mut back);
            assert_eq!(back, source, "length {length}");
        }
    }
}
