//! Blocks of 4 rows and 3 vectors of 32 bytes.
//!
//! That is 12 of the 16 registers, and as many are being added to at any time: two additions can begin in each cycle and take
//! four or five. A panel of B is 24 KiB, which a first-level cache holds beside what passes through it.

/// Bytes of a column of A that are packed at once: 192 KiB of a second-level cache.
const ROWS_BYTES: usize = 24 * 4 * 8;

kernels!(
    "avx2,fma",
    "vpxor",
    ROWS_BYTES,
    ["ymm", 32, 4, [12, 13, 14], 15, [[0, 0, 1, 2], [1, 3, 4, 5], [2, 6, 7, 8], [3, 9, 10, 11]]],
    [
        "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8", "ymm9", "ymm10", "ymm11",
        "ymm12", "ymm13", "ymm14", "ymm15"
    ]
);
