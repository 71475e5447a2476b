//! Products of floats by fused multiplications and additions: a block of C stays in the registers, a panel of B in the
//! nearest cache or the next, those of A in the next, the rest of B in the last one.
//!
//! An element of C is a chain of fused multiplications and additions over each part of the inner axis, and these are
//! added one after the other: the same bits whatever the strides are, however C is cut into tiles, and whatever vectors
//! the block is made of.

#[macro_use]
mod block;
mod avx2;
mod avx512;

use crate::buffer::Buffer;
use crate::kernels::matrix::{MatrixMut, MatrixRef};
use crate::kernels::multiply::Then;
use crate::kernels::number::Value;
use crate::kernels::panels::pack;
use crate::kernels::vectorise::{Vectors, vectors};
use std::ptr::NonNull;

/// How much of the inner axis is packed at once: the more, the less often C is read and written. Part of what fixes bits.
const DEPTH: usize = 256;

/// Bytes of a row of B that are packed at once: 4 MiB with `DEPTH` of them, of a third-level cache that is shared.
const COLUMNS_BYTES: usize = 16_320;

/// Elements of the largest block in the registers.
const LARGEST: usize = 8 * 48;

/// C = [C +] alpha · A · B for one block of C, from panels of A and B of a depth. Rows of C are a stride apart.
///
/// # Safety
/// The machine has the vectors; the panels and the block are there, and nobody else has the block.
type Block<T> =
    unsafe fn(depth: usize, a: *const T, b: *const T, c: *mut T, stride: isize, alpha: T, is_first: bool);

/// How blocks are done with some vectors.
#[derive(Clone, Copy)]
pub(super) struct Kernel<T> {
    /// Rows and columns of the block in the registers.
    height: usize,
    width: usize,
    /// Rows of A that are packed at once, for the second-level cache to hold.
    rows: usize,
    block: Block<T>,
}

/// A float that there are kernels for.
pub(super) trait Fused: Value {
    /// The one for AVX2 and FMA.
    const AVX2: Kernel<Self>;
    /// The one for AVX-512.
    const AVX512: Kernel<Self>;
}

macro_rules! fused {
    ($float:ident, $kernel:ident) => {
        impl Fused for $float {
            const AVX2: Kernel<$float> = avx2::$kernel;
            const AVX512: Kernel<$float> = avx512::$kernel;
        }
    };
}
fused!(f32, F32);
fused!(f64, F64);

/// The kernel for this machine.
pub(super) fn kernel<T: Fused>() -> Option<Kernel<T>> {
    match vectors() {
        Vectors::Baseline => None,
        Vectors::Avx2 => Some(T::AVX2),
        Vectors::Avx512 => Some(T::AVX512),
    }
}

/// C = [C +] alpha · A · B; no side is empty. `then` gets parts of some hundred rows.
///
/// # Safety
/// The machine has the vectors of the kernel.
pub(super) unsafe fn multiply<T: Fused>(
    kernel: &Kernel<T>,
    c: MatrixMut<'_, T>,
    alpha: T,
    a: MatrixRef<'_, T>,
    b: MatrixRef<'_, T>,
    is_first: bool,
    then: &mut Then<'_, T>,
) {
    let Kernel { height, width, rows, .. } = *kernel;
    let is_transposed = is_better_transposed(&c, height, width);
    let (mut c, a, b) =
        if is_transposed { (c.transposed(), b.transposed(), a.transposed()) } else { (c, a, b) };
    let [m, n, k] = [c.rows(), c.columns(), a.columns()];
    let columns = COLUMNS_BYTES / size_of::<T>();
    // Even parts: a short one would cost as much of C as a long one.
    let depth = k.div_ceil(k.div_ceil(DEPTH));
    // One piece of memory, which is large enough for large pages if the product is.
    let for_a = (rows.min(m).next_multiple_of(height) * depth).next_multiple_of(64 / size_of::<T>());
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
                let panels_a = pack(packed_a, a, rows.clone(), inner.clone(), height);
                let offset = from_row as isize * c.row_stride() + from_column as isize * c.column_stride();
                let part = Part {
                    // An address within C.
                    first: c.as_mut_ptr().wrapping_offset(offset),
                    strides: [c.row_stride(), c.column_stride()],
                    shape: [rows.len(), columns.len()],
                };
                // SAFETY: the part is one of C, and all of it is packed.
                unsafe {
                    part.multiply(kernel, panels_a, panels_b, inner.len(), alpha, is_first && from == 0)
                };
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
fn is_better_transposed<T: Copy>(c: &MatrixMut<'_, T>, height: usize, width: usize) -> bool {
    let [m, n] = [c.rows(), c.columns()];
    let is_by_columns = c.row_stride().unsigned_abs() < c.column_stride().unsigned_abs();
    let done = |m: usize, n: usize| m.next_multiple_of(height) * n.next_multiple_of(width);
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
    /// The machine has the vectors of the kernel, and the part belongs to nobody else.
    unsafe fn multiply(&self, kernel: &Kernel<T>, a: &[T], b: &[T], depth: usize, alpha: T, is_first: bool) {
        let Kernel { height, width, block, .. } = *kernel;
        let ([rows, columns], [row_stride, column_stride]) = (self.shape, self.strides);
        let mut aside = [T::ZERO; LARGEST];
        for (b, j) in b.chunks_exact(width * depth).zip((0..columns).step_by(width)) {
            for (a, i) in a.chunks_exact(height * depth).zip((0..rows).step_by(height)) {
                let to = self.first.wrapping_offset(i as isize * row_stride + j as isize * column_stride);
                let [height_here, width_here] = [height.min(rows - i), width.min(columns - j)];
                if column_stride == 1 && height_here == height && width_here == width {
                    // SAFETY: a whole block of C.
                    unsafe { block(depth, a.as_ptr(), b.as_ptr(), to, row_stride, alpha, is_first) };
                    continue;
                }
                // SAFETY: a block of our own.
                unsafe {
                    block(depth, a.as_ptr(), b.as_ptr(), aside.as_mut_ptr(), width as isize, alpha, true);
                }
                for (r, sums) in aside.chunks_exact(width).enumerate().take(height_here) {
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
