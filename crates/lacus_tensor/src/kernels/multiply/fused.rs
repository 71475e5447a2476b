//! Products of floats with AVX2 and FMA: a block of C of 4 rows and 3 vectors stays in the registers, a panel of B (24 KiB)
//! in the nearest cache, those of A in the next, the rest of B in the last one.
//!
//! An element of C is a chain of fused multiplications and additions over each part of the inner axis, and these are
//! added one after the other: the same bits whatever the strides are, and however C is cut into tiles.

use crate::buffer::Buffer;
use crate::kernels::matrix::{MatrixMut, MatrixRef};
use crate::kernels::multiply::Then;
use crate::kernels::number::Value;
use crate::kernels::panels::pack;
use std::arch::asm;
use std::arch::x86_64::{
    __m256, __m256d, _MM_HINT_T0, _mm_prefetch, _mm256_add_pd, _mm256_add_ps, _mm256_loadu_pd,
    _mm256_loadu_ps, _mm256_mul_pd, _mm256_mul_ps, _mm256_set1_pd, _mm256_set1_ps, _mm256_setzero_pd,
    _mm256_setzero_ps, _mm256_storeu_pd, _mm256_storeu_ps,
};
use std::ptr::NonNull;

/// Rows of the block in the registers: with 3 vectors each, 12 of the 16 registers. That many are being added to at any
/// time, as two additions can begin in each cycle and take four or five.
const HEIGHT: usize = 4;

/// Bytes of a row of the block in the registers.
const BLOCK_BYTES: usize = 3 * 32;

/// How much of the inner axis is packed at once: the more, the less often C is read and written. A panel of B is
/// 24 KiB, which a first-level cache holds beside what passes through it.
const DEPTH: usize = 256;

/// Bytes of a column of A that are packed at once: 192 KiB with `DEPTH` of them, which a second-level cache holds.
const ROWS_BYTES: usize = 24 * HEIGHT * 8;

/// Bytes of a row of B that are packed at once: 4 MiB with `DEPTH` of them, of a third-level cache that is shared.
const COLUMNS_BYTES: usize = 170 * BLOCK_BYTES;

/// A float that the kernel is written for.
pub(super) trait Fused: Value {
    /// C = [C +] alpha · A · B for a block of `HEIGHT` rows and [`BLOCK_BYTES`], from panels of A and B of a depth. Rows of C
    /// are a stride apart.
    ///
    /// # Safety
    /// The machine has AVX2 and FMA; the panels and the block are there, and nobody else has the block.
    const BLOCK: unsafe fn(
        depth: usize,
        a: *const Self,
        b: *const Self,
        c: *mut Self,
        stride: isize,
        alpha: Self,
        is_first: bool,
    );
}

/// C = [C +] alpha · A · B; no side is empty. `then` gets parts of some hundred rows.
///
/// # Safety
/// The machine has AVX2 and FMA.
pub(super) unsafe fn multiply<T: Fused>(
    c: MatrixMut<'_, T>,
    alpha: T,
    a: MatrixRef<'_, T>,
    b: MatrixRef<'_, T>,
    is_first: bool,
    then: &mut Then<'_, T>,
) {
    let width = BLOCK_BYTES / size_of::<T>();
    let is_transposed = is_better_transposed(&c, width);
    let (mut c, a, b) =
        if is_transposed { (c.transposed(), b.transposed(), a.transposed()) } else { (c, a, b) };
    let [m, n, k] = [c.rows(), c.columns(), a.columns()];
    let [rows, columns] = [ROWS_BYTES, COLUMNS_BYTES].map(|bytes| bytes / size_of::<T>());
    // Even parts: a short one would cost as much of C as a long one.
    let depth = k.div_ceil(k.div_ceil(DEPTH));
    // One piece of memory, which is large enough for large pages if the product is.
    let for_a = (rows.min(m).next_multiple_of(HEIGHT) * depth).next_multiple_of(64 / size_of::<T>());
    let for_b = columns.min(n).next_multiple_of(width) * depth;
    let mut packed = Buffer::for_overwrite((for_a + for_b) * size_of::<T>());
    let (packed_a, packed_b) = packed.cast_mut::<T>().split_at_mut(for_a);
    for from_column in (0..n).step_by(columns) {
        let columns = from_column..n.min(from_column + columns);
        for from in (0..k).step_by(depth) {
            let inner = from..k.min(from + depth);
            let panels_b = pack(packed_b, b.transposed(), columns.clone(), inner.clone(), width);
            for from_row in (0..m).step_by(rows) {
                let rows = from_row..m.min(from_row + rows);
                let panels_a = pack(packed_a, a, rows.clone(), inner.clone(), HEIGHT);
                let offset = from_row as isize * c.row_stride() + from_column as isize * c.column_stride();
                let part = Part {
                    // An address within C.
                    first: c.as_mut_ptr().wrapping_offset(offset),
                    strides: [c.row_stride(), c.column_stride()],
                    shape: [rows.len(), columns.len()],
                };
                // SAFETY: the part is one of C, and all of it is packed.
                unsafe { part.multiply(panels_a, panels_b, inner.len(), alpha, is_first && from == 0) };
                if inner.end == k {
                    // SAFETY: a part of C, which is ours, and which nobody looks at meanwhile.
                    let done = unsafe { part.lend() };
                    match is_transposed {
                        false => then([from_row, from_column], done),
                        true => then([from_column, from_row], done.transposed()),
                    }
                }
            }
        }
    }
}

/// Rows of blocks are wide, and go to C as they are if its rows lie side by side. But when C has few columns most of a
/// block would be in vain.
fn is_better_transposed<T: Copy>(c: &MatrixMut<'_, T>, width: usize) -> bool {
    let [m, n] = [c.rows(), c.columns()];
    let is_by_columns = c.row_stride().unsigned_abs() < c.column_stride().unsigned_abs();
    let done = |m: usize, n: usize| m.next_multiple_of(HEIGHT) * n.next_multiple_of(width);
    let [as_it_is, transposed] = [done(m, n), done(n, m)];
    match is_by_columns {
        true => transposed <= as_it_is + as_it_is / 4,
        false => transposed + transposed / 4 < as_it_is,
    }
}

/// A part of C.
struct Part<T> {
    first: *mut T,
    strides: [isize; 2],
    shape: [usize; 2],
}

impl<T: Fused> Part<T> {
    /// # Safety
    /// It belongs to nobody else for as long as it is lent.
    unsafe fn lend<'a>(&self) -> MatrixMut<'a, T> {
        // SAFETY: an address within C, and the caller's promise.
        unsafe { MatrixMut::from_raw(NonNull::new_unchecked(self.first), self.shape, self.strides) }
    }

    /// # Safety
    /// The machine has AVX2 and FMA, and the part belongs to nobody else.
    unsafe fn multiply(&self, a: &[T], b: &[T], depth: usize, alpha: T, is_first: bool) {
        let width = BLOCK_BYTES / size_of::<T>();
        let ([rows, columns], [row_stride, column_stride]) = (self.shape, self.strides);
        let mut aside = [T::ZERO; HEIGHT * BLOCK_BYTES / 4];
        for (b, j) in b.chunks_exact(width * depth).zip((0..columns).step_by(width)) {
            for (a, i) in a.chunks_exact(HEIGHT * depth).zip((0..rows).step_by(HEIGHT)) {
                let to = self.first.wrapping_offset(i as isize * row_stride + j as isize * column_stride);
                let [height, width_here] = [HEIGHT.min(rows - i), width.min(columns - j)];
                if column_stride == 1 && height == HEIGHT && width_here == width {
                    // SAFETY: a whole block of C.
                    unsafe { T::BLOCK(depth, a.as_ptr(), b.as_ptr(), to, row_stride, alpha, is_first) };
                    continue;
                }
                // SAFETY: a block of our own.
                unsafe {
                    T::BLOCK(depth, a.as_ptr(), b.as_ptr(), aside.as_mut_ptr(), width as isize, alpha, true);
                }
                for (r, sums) in aside.chunks_exact(width).enumerate().take(height) {
                    for (s, &sum) in sums.iter().enumerate().take(width_here) {
                        let c = to.wrapping_offset(r as isize * row_stride + s as isize * column_stride);
                        // SAFETY: an element of C.
                        unsafe { *c = if is_first { sum } else { (*c).add(sum) } };
                    }
                }
            }
        }
    }
}

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
        $name:ident, $float:ident, $vector:ident, $size:literal, [$load_it:literal, $spread:literal, $fuse:literal],
        $zero:ident, $all:ident, $load:ident, $times:ident, $plus:ident, $store:ident
    ) => {
        impl Fused for $float {
            const BLOCK: unsafe fn(usize, *const $float, *const $float, *mut $float, isize, $float, bool) =
                $name;
        }

        /// See [`Fused::BLOCK`].
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
