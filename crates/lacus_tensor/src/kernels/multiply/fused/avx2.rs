//! Blocks of 4 rows and 3 vectors of 32 bytes.

use super::{Fused, Kernel, avx512};
use std::arch::asm;
use std::arch::x86_64::{
    __m256, __m256d, _MM_HINT_T0, _mm_prefetch, _mm256_add_pd, _mm256_add_ps, _mm256_loadu_pd,
    _mm256_loadu_ps, _mm256_mul_pd, _mm256_mul_ps, _mm256_set1_pd, _mm256_set1_ps, _mm256_setzero_pd,
    _mm256_setzero_ps, _mm256_storeu_pd, _mm256_storeu_ps,
};

/// Rows of the block in the registers: with 3 vectors each, 12 of the 16 registers. That many are being added to at any
/// time, as two additions can begin in each cycle and take four or five.
const HEIGHT: usize = 4;

/// Bytes of a row of the block in the registers. A panel of B is 24 KiB, which a first-level cache holds beside what passes
/// through it.
const BLOCK_BYTES: usize = 3 * 32;

/// Bytes of a column of A that are packed at once: 192 KiB of a second-level cache.
const ROWS_BYTES: usize = 24 * HEIGHT * 8;

/// One step of the inner axis: its row of B times each of its elements of A. The compiler would do it with one register
/// too few for most orders of these, so they are in the order in which they stand here.
macro_rules! step {
    ($at:literal, $size:literal, $load:literal, $spread:literal, $fuse:literal) => {
        concat!(
            $load,
            " ymm12, [{b} + 96 * ",
            $at,
            "]\n",
            $load,
            " ymm13, [{b} + 96 * ",
            $at,
            " + 32]\n",
            $load,
            " ymm14, [{b} + 96 * ",
            $at,
            " + 64]\n",
            step!(0, $at, $size, $spread, $fuse, 0, 1, 2),
            step!(1, $at, $size, $spread, $fuse, 3, 4, 5),
            step!(2, $at, $size, $spread, $fuse, 6, 7, 8),
            step!(3, $at, $size, $spread, $fuse, 9, 10, 11),
        )
    };
    ($row:literal, $at:literal, $size:literal, $spread:literal, $fuse:literal, $s0:literal, $s1:literal, $s2:literal) => {
        concat!(
            $spread,
            " ymm15, [{a} + ",
            $size,
            " * (4 * ",
            $at,
            " + ",
            $row,
            ")]\n",
            $fuse,
            " ymm",
            $s0,
            ", ymm15, ymm12\n",
            $fuse,
            " ymm",
            $s1,
            ", ymm15, ymm13\n",
            $fuse,
            " ymm",
            $s2,
            ", ymm15, ymm14\n",
        )
    };
}

macro_rules! block {
    (
        $name:ident, $kernel:ident, $float:ident, $vector:ident, $size:literal, [$load_it:literal, $spread:literal, $fuse:literal],
        $zero:ident, $all:ident, $load:ident, $times:ident, $plus:ident, $store:ident
    ) => {
        impl Fused for $float {
            const AVX2: Kernel<$float> = Kernel {
                height: HEIGHT,
                width: BLOCK_BYTES / size_of::<$float>(),
                rows: ROWS_BYTES / size_of::<$float>(),
                block: $name,
            };
            const AVX512: Kernel<$float> = avx512::$kernel;
        }

        /// See [`super::Block`].
        #[target_feature(enable = "avx2,fma")]
        unsafe fn $name(
            depth: usize,
            a: *const $float,
            b: *const $float,
            c: *mut $float,
            stride: isize,
            alpha: $float,
            is_first: bool,
        ) {
            const LANES: usize = 32 / size_of::<$float>();
            // C comes while the products are made.
            for row in 0..HEIGHT as isize {
                let row = c.wrapping_offset(row * stride).cast::<i8>();
                _mm_prefetch::<_MM_HINT_T0>(row);
                _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(BLOCK_BYTES - 1));
            }
            let zero = $zero();
            let (s00, s01, s02, s10, s11, s12, s20, s21, s22, s30, s31, s32);
            // SAFETY: reads the panels, which have `depth` of each.
            unsafe {
                asm!(
                    "test {fours}, {fours}",
                    "jz 3f",
                    "2:",
                    // A panel of A is read from the second-level cache.
                    concat!("prefetcht0 [{a} + ", $size, " * 64]"),
                    step!(0, $size, $load_it, $spread, $fuse),
                    step!(1, $size, $load_it, $spread, $fuse),
                    concat!("prefetcht0 [{a} + ", $size, " * 72]"),
                    step!(2, $size, $load_it, $spread, $fuse),
                    step!(3, $size, $load_it, $spread, $fuse),
                    concat!("add {a}, 16 * ", $size),
                    "add {b}, 4 * 96",
                    "dec {fours}",
                    "jnz 2b",
                    "3:",
                    "test {ones}, {ones}",
                    "jz 5f",
                    "4:",
                    step!(0, $size, $load_it, $spread, $fuse),
                    concat!("add {a}, 4 * ", $size),
                    "add {b}, 96",
                    "dec {ones}",
                    "jnz 4b",
                    "5:",
                    a = inout(reg) a => _,
                    b = inout(reg) b => _,
                    fours = inout(reg) depth / 4 => _,
                    ones = inout(reg) depth % 4 => _,
                    inout("ymm0") zero => s00,
                    inout("ymm1") zero => s01,
                    inout("ymm2") zero => s02,
                    inout("ymm3") zero => s10,
                    inout("ymm4") zero => s11,
                    inout("ymm5") zero => s12,
                    inout("ymm6") zero => s20,
                    inout("ymm7") zero => s21,
                    inout("ymm8") zero => s22,
                    inout("ymm9") zero => s30,
                    inout("ymm10") zero => s31,
                    inout("ymm11") zero => s32,
                    out("ymm12") _,
                    out("ymm13") _,
                    out("ymm14") _,
                    out("ymm15") _,
                    options(readonly, nostack),
                );
            }
            let sums: [[$vector; 3]; HEIGHT] =
                [[s00, s01, s02], [s10, s11, s12], [s20, s21, s22], [s30, s31, s32]];
            let alpha = $all(alpha);
            for (row, sums) in sums.into_iter().enumerate() {
                for (part, sum) in sums.into_iter().enumerate() {
                    let to = c.wrapping_offset(row as isize * stride).wrapping_add(part * LANES);
                    let sum = $times(alpha, sum);
                    // SAFETY: within the block.
                    unsafe { $store(to, if is_first { sum } else { $plus($load(to), sum) }) };
                }
            }
        }
    };
}
block!(
    block_f64,
    F64,
    f64,
    __m256d,
    8,
    ["vmovupd", "vbroadcastsd", "vfmadd231pd"],
    _mm256_setzero_pd,
    _mm256_set1_pd,
    _mm256_loadu_pd,
    _mm256_mul_pd,
    _mm256_add_pd,
    _mm256_storeu_pd
);
block!(
    block_f32,
    F32,
    f32,
    __m256,
    4,
    ["vmovups", "vbroadcastss", "vfmadd231ps"],
    _mm256_setzero_ps,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_mul_ps,
    _mm256_add_ps,
    _mm256_storeu_ps
);
