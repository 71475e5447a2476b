//! Blocks of 4 rows and 3 vectors of 32 bytes.

use super::Kernel;

/// Rows of the block in the registers: with 3 vectors each, 12 of the 16 registers. That many are being added to at any
/// time, as two additions can begin in each cycle and take four or five.
const HEIGHT: usize = 4;

/// Bytes of a row of the block in the registers. A panel of B is 24 KiB, which a first-level cache holds beside what passes
/// through it.
const BLOCK_BYTES: usize = 3 * 32;

/// Bytes of a column of A that are packed at once: 192 KiB of a second-level cache.
const ROWS_BYTES: usize = 24 * HEIGHT * 8;

macro_rules! kernel {
    ($kernel:ident, $block:ident, $float:ident, $size:literal, $kind:literal) => {
        pub(super) const $kernel: Kernel<$float> = Kernel {
            height: HEIGHT,
            width: BLOCK_BYTES / size_of::<$float>(),
            rows: ROWS_BYTES / size_of::<$float>(),
            block: $block,
        };
        block!(
            $block,
            $float,
            $size,
            $kind,
            "avx2,fma",
            "vpxor",
            ["ymm", 32, 4, [12, 13, 14], 15, [[0, 0, 1, 2], [1, 3, 4, 5], [2, 6, 7, 8], [3, 9, 10, 11]]],
            [
                "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8", "ymm9", "ymm10",
                "ymm11", "ymm12", "ymm13", "ymm14", "ymm15"
            ]
        );
    };
}
kernel!(F64, block_f64, f64, 8, "d");
kernel!(F32, block_f32, f32, 4, "s");
