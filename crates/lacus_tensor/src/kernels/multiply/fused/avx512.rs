//! Blocks of 8 rows and 3 vectors of 64 bytes.

use super::Kernel;
use std::arch::asm;
use std::arch::x86_64::{
    __m512, __m512d, _MM_HINT_T0, _mm_prefetch, _mm512_add_pd, _mm512_add_ps, _mm512_loadu_pd,
    _mm512_loadu_ps, _mm512_mul_pd, _mm512_mul_ps, _mm512_set1_pd, _mm512_set1_ps, _mm512_setzero_pd,
    _mm512_setzero_ps, _mm512_storeu_pd, _mm512_storeu_ps,
};

/// Rows of the block in the registers: with 3 vectors each, 24 of the 32 registers.
const HEIGHT: usize = 8;

/// Bytes of a row of the block in the registers. A panel of B is 48 KiB: more than some first-level caches hold, but a step
/// reads 192 bytes of it in 12 cycles at least, which a second-level cache gives easily.
const BLOCK_BYTES: usize = 3 * 64;

/// Bytes of a column of A that are packed at once: 384 KiB of a second-level cache, which is 1 MiB or more on machines with
/// these vectors.
const ROWS_BYTES: usize = 24 * HEIGHT * 8;

/// One step of the inner axis: its row of B times each of its elements of A.
macro_rules! step {
    ($at:literal, $size:literal, $load:literal, $spread:literal, $fuse:literal) => {
        concat!(
            step!(load $load, 24, $at, 0),
            step!(load $load, 25, $at, 64),
            step!(load $load, 26, $at, 128),
            step!(0, $at, $size, $spread, $fuse, 27, 0, 1, 2),
            step!(1, $at, $size, $spread, $fuse, 28, 3, 4, 5),
            step!(2, $at, $size, $spread, $fuse, 29, 6, 7, 8),
            step!(3, $at, $size, $spread, $fuse, 30, 9, 10, 11),
            step!(4, $at, $size, $spread, $fuse, 31, 12, 13, 14),
            step!(5, $at, $size, $spread, $fuse, 27, 15, 16, 17),
            step!(6, $at, $size, $spread, $fuse, 28, 18, 19, 20),
            step!(7, $at, $size, $spread, $fuse, 29, 21, 22, 23),
        )
    };
    (load $load:literal, $to:literal, $at:literal, $part:literal) => {
        concat!($load, " zmm", $to, ", [{b} + 192 * ", $at, " + ", $part, "]\n")
    };
    (
        $row:literal, $at:literal, $size:literal, $spread:literal, $fuse:literal, $one:literal, $s0:literal,
        $s1:literal, $s2:literal
    ) => {
        concat!(
            $spread, " zmm", $one, ", [{a} + ", $size, " * (8 * ", $at, " + ", $row, ")]\n",
            $fuse, " zmm", $s0, ", zmm", $one, ", zmm24\n",
            $fuse, " zmm", $s1, ", zmm", $one, ", zmm25\n",
            $fuse, " zmm", $s2, ", zmm", $one, ", zmm26\n",
        )
    };
}

macro_rules! block {
    (
        $name:ident, $kernel:ident, $float:ident, $vector:ident, $size:literal,
        [$load_it:literal, $spread:literal, $fuse:literal],
        $zero:ident, $all:ident, $load:ident, $times:ident, $plus:ident, $store:ident
    ) => {
        pub(super) const $kernel: Kernel<$float> = Kernel {
            height: HEIGHT,
            width: BLOCK_BYTES / size_of::<$float>(),
            rows: ROWS_BYTES / size_of::<$float>(),
            block: $name,
        };

        /// See [`super::Block`].
        #[target_feature(enable = "avx512f")]
        unsafe fn $name(
            depth: usize,
            a: *const $float,
            b: *const $float,
            c: *mut $float,
            stride: isize,
            alpha: $float,
            is_first: bool,
        ) {
            const LANES: usize = 64 / size_of::<$float>();
            // C comes while the products are made.
            for row in 0..HEIGHT as isize {
                let row = c.wrapping_offset(row * stride).cast::<i8>();
                for part in [0, 64, 128, BLOCK_BYTES - 1] {
                    _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(part));
                }
            }
            let mut sums: [$vector; 3 * HEIGHT] = [$zero(); 3 * HEIGHT];
            let [
                s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15, s16, s17, s18, s19, s20,
                s21, s22, s23,
            ] = &mut sums;
            // SAFETY: reads the panels, which have `depth` of each.
            unsafe {
                asm!(
                    "test {fours}, {fours}",
                    "jz 3f",
                    "2:",
                    // Of B, which lies in order, the machine sees by itself what comes next.
                    concat!("prefetcht0 [{a} + ", $size, " * 128]"),
                    step!(0, $size, $load_it, $spread, $fuse),
                    step!(1, $size, $load_it, $spread, $fuse),
                    concat!("prefetcht0 [{a} + ", $size, " * 144]"),
                    step!(2, $size, $load_it, $spread, $fuse),
                    step!(3, $size, $load_it, $spread, $fuse),
                    concat!("add {a}, 32 * ", $size),
                    "add {b}, 4 * 192",
                    "dec {fours}",
                    "jnz 2b",
                    "3:",
                    "test {ones}, {ones}",
                    "jz 5f",
                    "4:",
                    step!(0, $size, $load_it, $spread, $fuse),
                    concat!("add {a}, 8 * ", $size),
                    "add {b}, 192",
                    "dec {ones}",
                    "jnz 4b",
                    "5:",
                    a = inout(reg) a => _,
                    b = inout(reg) b => _,
                    fours = inout(reg) depth / 4 => _,
                    ones = inout(reg) depth % 4 => _,
                    inout("zmm0") *s0,
                    inout("zmm1") *s1,
                    inout("zmm2") *s2,
                    inout("zmm3") *s3,
                    inout("zmm4") *s4,
                    inout("zmm5") *s5,
                    inout("zmm6") *s6,
                    inout("zmm7") *s7,
                    inout("zmm8") *s8,
                    inout("zmm9") *s9,
                    inout("zmm10") *s10,
                    inout("zmm11") *s11,
                    inout("zmm12") *s12,
                    inout("zmm13") *s13,
                    inout("zmm14") *s14,
                    inout("zmm15") *s15,
                    inout("zmm16") *s16,
                    inout("zmm17") *s17,
                    inout("zmm18") *s18,
                    inout("zmm19") *s19,
                    inout("zmm20") *s20,
                    inout("zmm21") *s21,
                    inout("zmm22") *s22,
                    inout("zmm23") *s23,
                    out("zmm24") _,
                    out("zmm25") _,
                    out("zmm26") _,
                    out("zmm27") _,
                    out("zmm28") _,
                    out("zmm29") _,
                    out("zmm30") _,
                    out("zmm31") _,
                    options(readonly, nostack),
                );
            }
            let alpha = $all(alpha);
            for (at, sum) in sums.into_iter().enumerate() {
                let to = c.wrapping_offset((at / 3) as isize * stride).wrapping_add(at % 3 * LANES);
                let sum = $times(alpha, sum);
                // SAFETY: within the block.
                unsafe { $store(to, if is_first { sum } else { $plus($load(to), sum) }) };
            }
        }
    };
}
block!(
    block_f64,
    F64,
    f64,
    __m512d,
    8,
    ["vmovupd", "vbroadcastsd", "vfmadd231pd"],
    _mm512_setzero_pd,
    _mm512_set1_pd,
    _mm512_loadu_pd,
    _mm512_mul_pd,
    _mm512_add_pd,
    _mm512_storeu_pd
);
block!(
    block_f32,
    F32,
    f32,
    __m512,
    4,
    ["vmovups", "vbroadcastss", "vfmadd231ps"],
    _mm512_setzero_ps,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_mul_ps,
    _mm512_add_ps,
    _mm512_storeu_ps
);
