//! Products of floats with AVX2 and FMA: a block of C of 4 rows and 3 vectors stays in the registers, its panel of A (12 KiB
//! for doubles) in the nearest cache, those of B in the next, the rest of A in the last one.
//!
//! An element of C is a chain of fused multiplications and additions over each part of the inner axis, and these are
//! added one after the other: the same bits whatever the strides are, and however C is cut into tiles.

use crate::buffer::Buffer;
use crate::kernels::matrix::{MatrixMut, MatrixRef};
use crate::kernels::number::Value;
use crate::kernels::panels::pack;
use std::arch::x86_64::{
    _MM_HINT_T0, _mm_prefetch, _mm256_add_pd, _mm256_add_ps, _mm256_broadcast_sd, _mm256_broadcast_ss,
    _mm256_fmadd_pd, _mm256_fmadd_ps, _mm256_loadu_pd, _mm256_loadu_ps, _mm256_mul_pd, _mm256_mul_ps,
    _mm256_set1_pd, _mm256_set1_ps, _mm256_setzero_pd, _mm256_setzero_ps, _mm256_storeu_pd, _mm256_storeu_ps,
};

/// Rows of the block in the registers: with 3 vectors each, 12 of the 16 registers. That many are being added to at any
/// time, as two additions can begin in each cycle and take four or five.
const HEIGHT: usize = 4;

/// Bytes of a row of the block in the registers.
const BLOCK_BYTES: usize = 3 * 32;

/// How much of the inner axis is packed at once: the more, the less often C is read and written.
const DEPTH: usize = 384;

/// Bytes of a row of B that are packed at once: 288 KiB with `DEPTH` of them, which a second-level cache holds.
const COLUMNS_BYTES: usize = 8 * BLOCK_BYTES;

/// Rows of A that are packed at once: 6 MiB for doubles, of a third-level cache that is shared.
const ROWS: usize = 2048;

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

/// C = [C +] alpha · A · B; no side is empty.
///
/// # Safety
/// The machine has AVX2 and FMA.
pub(super) unsafe fn multiply<T: Fused>(
    c: MatrixMut<'_, T>,
    alpha: T,
    a: MatrixRef<'_, T>,
    b: MatrixRef<'_, T>,
    is_first: bool,
) {
    let width = BLOCK_BYTES / size_of::<T>();
    let (mut c, a, b) = if is_better_transposed(&c, width) {
        (c.transposed(), b.transposed(), a.transposed())
    } else {
        (c, a, b)
    };
    let [m, n, k] = [c.rows(), c.columns(), a.columns()];
    let columns = COLUMNS_BYTES / size_of::<T>();
    // Even parts: a short one would cost as much of C as a long one.
    let depth = k.div_ceil(k.div_ceil(DEPTH));
    let mut packed_a = Buffer::for_overwrite(ROWS.min(m).next_multiple_of(HEIGHT) * depth * size_of::<T>());
    let mut packed_b = Buffer::for_overwrite(columns.min(n).next_multiple_of(width) * depth * size_of::<T>());
    let (packed_a, packed_b) = (packed_a.cast_mut::<T>(), packed_b.cast_mut::<T>());
    for from_row in (0..m).step_by(ROWS) {
        let rows = from_row..m.min(from_row + ROWS);
        for from in (0..k).step_by(depth) {
            let inner = from..k.min(from + depth);
            let panels_a = pack(packed_a, a, rows.clone(), inner.clone(), HEIGHT);
            for from_column in (0..n).step_by(columns) {
                let columns = from_column..n.min(from_column + columns);
                let panels_b = pack(packed_b, b.transposed(), columns.clone(), inner.clone(), width);
                let offset = from_row as isize * c.row_stride() + from_column as isize * c.column_stride();
                let part = Part {
                    // An address within C.
                    first: c.as_mut_ptr().wrapping_offset(offset),
                    strides: [c.row_stride(), c.column_stride()],
                    shape: [rows.len(), columns.len()],
                };
                // SAFETY: the part is one of C, and all of it is packed.
                unsafe { part.multiply(panels_a, panels_b, inner.len(), alpha, is_first && from == 0) };
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
    /// The machine has AVX2 and FMA, and the part belongs to nobody else.
    unsafe fn multiply(&self, a: &[T], b: &[T], depth: usize, alpha: T, is_first: bool) {
        let width = BLOCK_BYTES / size_of::<T>();
        let ([rows, columns], [row_stride, column_stride]) = (self.shape, self.strides);
        let mut aside = [T::ZERO; HEIGHT * BLOCK_BYTES / 4];
        for (a, i) in a.chunks_exact(HEIGHT * depth).zip((0..rows).step_by(HEIGHT)) {
            for (b, j) in b.chunks_exact(width * depth).zip((0..columns).step_by(width)) {
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

macro_rules! block {
    (
        $name:ident, $float:ident, $zero:ident, $all:ident, $load:ident, $spread:ident, $fuse:ident, $times:ident, $plus:ident,
        $store:ident
    ) => {
        impl Fused for $float {
            const BLOCK: unsafe fn(usize, *const $float, *const $float, *mut $float, isize, $float, bool) =
                $name;
        }

        /// See [`Fused::BLOCK`].
        #[target_feature(enable = "avx2,fma")]
        unsafe fn $name(
            depth: usize,
            mut a: *const $float,
            mut b: *const $float,
            c: *mut $float,
            stride: isize,
            alpha: $float,
            is_first: bool,
        ) {
            const LANES: usize = 32 / size_of::<$float>();
            const WIDTH: usize = 3 * LANES;
            // C comes while the products are made.
            for row in 0..HEIGHT as isize {
                let row = c.wrapping_offset(row * stride).cast::<i8>();
                _mm_prefetch::<_MM_HINT_T0>(row);
                _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(BLOCK_BYTES - 1));
            }
            let (mut s00, mut s01, mut s02) = ($zero(), $zero(), $zero());
            let (mut s10, mut s11, mut s12) = ($zero(), $zero(), $zero());
            let (mut s20, mut s21, mut s22) = ($zero(), $zero(), $zero());
            let (mut s30, mut s31, mut s32) = ($zero(), $zero(), $zero());
            macro_rules! step {
                ($p:expr) => {
                    // SAFETY: within the panels.
                    unsafe {
                        // A panel of B is read from the second-level cache.
                        _mm_prefetch::<_MM_HINT_T0>(b.wrapping_add(($p + 8) * WIDTH).cast());
                        _mm_prefetch::<_MM_HINT_T0>(b.wrapping_add(($p + 8) * WIDTH + 2 * LANES).cast());
                        let b0 = $load(b.add($p * WIDTH));
                        let b1 = $load(b.add($p * WIDTH + LANES));
                        let b2 = $load(b.add($p * WIDTH + 2 * LANES));
                        let a0 = $spread(&*a.add($p * HEIGHT));
                        (s00, s01, s02) = ($fuse(a0, b0, s00), $fuse(a0, b1, s01), $fuse(a0, b2, s02));
                        let a1 = $spread(&*a.add($p * HEIGHT + 1));
                        (s10, s11, s12) = ($fuse(a1, b0, s10), $fuse(a1, b1, s11), $fuse(a1, b2, s12));
                        let a2 = $spread(&*a.add($p * HEIGHT + 2));
                        (s20, s21, s22) = ($fuse(a2, b0, s20), $fuse(a2, b1, s21), $fuse(a2, b2, s22));
                        let a3 = $spread(&*a.add($p * HEIGHT + 3));
                        (s30, s31, s32) = ($fuse(a3, b0, s30), $fuse(a3, b1, s31), $fuse(a3, b2, s32));
                    }
                };
            }
            for _ in 0..depth / 4 {
                step!(0);
                step!(1);
                step!(2);
                step!(3);
                (a, b) = (a.wrapping_add(4 * HEIGHT), b.wrapping_add(4 * WIDTH));
            }
            for _ in 0..depth % 4 {
                step!(0);
                (a, b) = (a.wrapping_add(HEIGHT), b.wrapping_add(WIDTH));
            }
            let alpha = $all(alpha);
            let sums = [[s00, s01, s02], [s10, s11, s12], [s20, s21, s22], [s30, s31, s32]];
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
    _mm256_setzero_pd,
    _mm256_set1_pd,
    _mm256_loadu_pd,
    _mm256_broadcast_sd,
    _mm256_fmadd_pd,
    _mm256_mul_pd,
    _mm256_add_pd,
    _mm256_storeu_pd
);
block!(
    block_f32,
    f32,
    _mm256_setzero_ps,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_broadcast_ss,
    _mm256_fmadd_ps,
    _mm256_mul_ps,
    _mm256_add_ps,
    _mm256_storeu_ps
);
