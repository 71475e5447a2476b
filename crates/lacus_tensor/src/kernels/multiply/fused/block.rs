//! The block of C that stays in the registers, in assembly: for most orders of the same instructions the compiler is short of
//! one register.
//!
//! Macros take what all blocks of some vectors have in common as one token tree, its frame:
//! `[name of registers, bytes of one, rows, [b0, b1, b2], a, [[row, s0, s1, s2], …]]`, where the rest are numbers of
//! registers: three for a row of B, one for an element of A, and for each row of the block those of its sums.

/// One step of the inner axis: its row of B times each of its elements of A.
macro_rules! step {
    (
        $at:literal, $size:literal, $kind:literal,
        [$v:literal, $bytes:literal, $height:literal, [$b0:literal, $b1:literal, $b2:literal], $a:literal,
            [$([$row:literal, $s0:literal, $s1:literal, $s2:literal]),*]]
    ) => {
        concat!(
            "vmovup", $kind, " ", $v, $b0, ", [{b} + ", $bytes, " * (3 * ", $at, ")]\n",
            "vmovup", $kind, " ", $v, $b1, ", [{b} + ", $bytes, " * (3 * ", $at, " + 1)]\n",
            "vmovup", $kind, " ", $v, $b2, ", [{b} + ", $bytes, " * (3 * ", $at, " + 2)]\n",
            $(
                "vbroadcasts", $kind, " ", $v, $a, ", [{a} + ", $size, " * (", $height, " * ", $at, " + ", $row, ")]\n",
                "vfmadd231p", $kind, " ", $v, $s0, ", ", $v, $a, ", ", $v, $b0, "\n",
                "vfmadd231p", $kind, " ", $v, $s1, ", ", $v, $a, ", ", $v, $b1, "\n",
                "vfmadd231p", $kind, " ", $v, $s2, ", ", $v, $a, ", ", $v, $b2, "\n",
            )*
        )
    };
}

/// Four steps, while what A has next comes. Of B, which lies in order, the machine sees by itself what comes next.
macro_rules! steps {
    ($size:literal, $kind:literal, [$v:literal, $bytes:literal, $height:literal, $($frame:tt)*]) => {
        concat!(
            "prefetcht0 [{a} + ", $size, " * 16 * ", $height, "]\n",
            step!(0, $size, $kind, [$v, $bytes, $height, $($frame)*]),
            step!(1, $size, $kind, [$v, $bytes, $height, $($frame)*]),
            "prefetcht0 [{a} + ", $size, " * 18 * ", $height, "]\n",
            step!(2, $size, $kind, [$v, $bytes, $height, $($frame)*]),
            step!(3, $size, $kind, [$v, $bytes, $height, $($frame)*]),
            "add {a}, 4 * ", $size, " * ", $height, "\n",
            "add {b}, 4 * 3 * ", $bytes, "\n",
        )
    };
}

/// Sums of nothing.
macro_rules! clear {
    ($clear:literal, [$v:literal, $bytes:literal, $height:literal, $b:tt, $a:literal, [$([$row:literal, $($s:literal),*]),*]]) => {
        concat!($($($clear, " ", $v, $s, ", ", $v, $s, ", ", $v, $s, "\n",)*)*)
    };
}

/// All sums times alpha.
macro_rules! scale {
    ($kind:literal, [$v:literal, $bytes:literal, $height:literal, $b:tt, $a:literal, [$([$row:literal, $($s:literal),*]),*]]) => {
        concat!(
            "vbroadcasts", $kind, " ", $v, $a, ", [{alpha}]\n",
            $($("vmulp", $kind, " ", $v, $s, ", ", $v, $s, ", ", $v, $a, "\n",)*)*
        )
    };
}

/// Sums go to C, together with what is there.
macro_rules! add {
    (
        $kind:literal,
        [$v:literal, $bytes:literal, $height:literal, $b:tt, $a:literal,
            [$([$row:literal, $s0:literal, $s1:literal, $s2:literal]),*]]
    ) => {
        concat!($(
            "vaddp", $kind, " ", $v, $s0, ", ", $v, $s0, ", [{c}]\n",
            "vaddp", $kind, " ", $v, $s1, ", ", $v, $s1, ", [{c} + ", $bytes, "]\n",
            "vaddp", $kind, " ", $v, $s2, ", ", $v, $s2, ", [{c} + 2 * ", $bytes, "]\n",
            put!($kind, $v, $bytes, $s0, $s1, $s2),
        )*)
    };
}

/// Sums go to C.
macro_rules! put {
    (
        $kind:literal,
        [$v:literal, $bytes:literal, $height:literal, $b:tt, $a:literal,
            [$([$row:literal, $s0:literal, $s1:literal, $s2:literal]),*]]
    ) => {
        concat!($(put!($kind, $v, $bytes, $s0, $s1, $s2),)*)
    };
    ($kind:literal, $v:literal, $bytes:literal, $s0:literal, $s1:literal, $s2:literal) => {
        concat!(
            "vmovup", $kind, " [{c}], ", $v, $s0, "\n",
            "vmovup", $kind, " [{c} + ", $bytes, "], ", $v, $s1, "\n",
            "vmovup", $kind, " [{c} + 2 * ", $bytes, "], ", $v, $s2, "\n",
            "add {c}, {stride}\n",
        )
    };
}

/// Kernels for both floats, `F64` and `F32`, by instructions of a feature and what clears a register with them. `$rows` are bytes of
/// a column of A that are packed at once.
macro_rules! kernels {
    ($feature:literal, $clear:literal, $rows:expr, $frame:tt, $registers:tt) => {
        block!(F64, block_f64, f64, 8, "d", $feature, $clear, $rows, $frame, $registers);
        block!(F32, block_f32, f32, 4, "s", $feature, $clear, $rows, $frame, $registers);
    };
}

/// The same for one float with a size and a kind, `"d"` or `"s"`.
macro_rules! block {
    (
        $kernel:ident, $name:ident, $float:ident, $size:literal, $kind:literal, $feature:literal, $clear:literal,
        $rows:expr, [$v:literal, $bytes:literal, $height:literal, $($frame:tt)*], [$($register:tt),*]
    ) => {
        pub(super) const $kernel: super::Kernel<$float> = super::Kernel {
            height: $height,
            width: 3 * $bytes / $size,
            rows: $rows / $size,
            block: $name,
        };

        /// See [`Block`](super::Block).
        #[target_feature(enable = $feature)]
        unsafe fn $name(
            depth: usize,
            a: *const $float,
            b: *const $float,
            c: *mut $float,
            stride: isize,
            alpha: $float,
            is_first: bool,
        ) {
            // A row of C comes while four steps are made: all at once would keep the first steps waiting.
            let early = (depth / 4).min($height);
            // SAFETY: reads the panels, which have `depth` of each, and writes the block.
            unsafe {
                std::arch::asm!(
                    clear!($clear, [$v, $bytes, $height, $($frame)*]),
                    "test {early}, {early}",
                    "jz 3f",
                    "2:",
                    "prefetchw [{row}]",
                    concat!("prefetchw [{row} + ", $bytes, "]"),
                    concat!("prefetchw [{row} + 2 * ", $bytes, "]"),
                    concat!("prefetchw [{row} + 3 * ", $bytes, " - 1]"),
                    "add {row}, {stride}",
                    steps!($size, $kind, [$v, $bytes, $height, $($frame)*]),
                    "dec {early}",
                    "jnz 2b",
                    "3:",
                    "test {late}, {late}",
                    "jz 5f",
                    "4:",
                    steps!($size, $kind, [$v, $bytes, $height, $($frame)*]),
                    "dec {late}",
                    "jnz 4b",
                    "5:",
                    "test {ones}, {ones}",
                    "jz 7f",
                    "6:",
                    step!(0, $size, $kind, [$v, $bytes, $height, $($frame)*]),
                    concat!("add {a}, ", $size, " * ", $height),
                    concat!("add {b}, 3 * ", $bytes),
                    "dec {ones}",
                    "jnz 6b",
                    "7:",
                    scale!($kind, [$v, $bytes, $height, $($frame)*]),
                    "test {is_first}, {is_first}",
                    "jnz 8f",
                    add!($kind, [$v, $bytes, $height, $($frame)*]),
                    "jmp 9f",
                    "8:",
                    put!($kind, [$v, $bytes, $height, $($frame)*]),
                    "9:",
                    a = inout(reg) a => _,
                    b = inout(reg) b => _,
                    c = inout(reg) c => _,
                    row = inout(reg) c => _,
                    stride = in(reg) stride * $size,
                    early = inout(reg) early => _,
                    late = inout(reg) depth / 4 - early => _,
                    ones = inout(reg) depth % 4 => _,
                    alpha = in(reg) &raw const alpha,
                    is_first = in(reg) usize::from(is_first),
                    $(out($register) _,)*
                    options(nostack),
                );
            }
        }
    };
}
