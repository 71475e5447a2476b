//! Blocks of 8 rows and 3 vectors of 64 bytes.
//!
//! That is 24 of the 32 registers. A panel of B is 48 KiB: more than some first-level caches hold, but a step reads 192 bytes of
//! it in 12 cycles at least, which a second-level cache gives easily.

/// Bytes of a column of A that are packed at once: 384 KiB of a second-level cache, which is 1 MiB or more on machines with
/// these vectors.
const ROWS_BYTES: usize = 24 * 8 * 8;

kernels!(
    "avx512f",
    "vpxorq",
    ROWS_BYTES,
    [
        "zmm",
        64,
        8,
        [24, 25, 26],
        27,
        [
            [0, 0, 1, 2],
            [1, 3, 4, 5],
            [2, 6, 7, 8],
            [3, 9, 10, 11],
            [4, 12, 13, 14],
            [5, 15, 16, 17],
            [6, 18, 19, 20],
            [7, 21, 22, 23]
        ]
    ],
    [
        "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10", "zmm11",
        "zmm12", "zmm13", "zmm14", "zmm15", "zmm16", "zmm17", "zmm18", "zmm19", "zmm20", "zmm21", "zmm22",
        "zmm23", "zmm24", "zmm25", "zmm26", "zmm27"
    ]
);
