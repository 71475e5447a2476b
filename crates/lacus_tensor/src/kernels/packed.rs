//! Matrix products over any semiring by packing: blocks of A and B become panels, and a micro-kernel keeps a small block of C
//! in the registers, as in every fast matrix product.
//!
//! NaN wins in `min` and `max`, which costs instructions; so the packed blocks are searched for what could make a NaN, and
//! only those that have it take the longer way.

use super::matrix::{MatrixMut, MatrixRef};
use super::number::Value;
use super::panels::pack;
use super::reduce::Fold;
use super::vectorise::{Loop, vectorise, vectorise_narrowly};
use crate::buffer::Buffer;
use crate::dtype::DType;
use std::marker::PhantomData;

/// How much of the inner axis is packed at once: a panel of B is then 16 KiB, half of a first-level cache.
const DEPTH: usize = 256;

/// Rows of A that are packed at once: with `DEPTH`, at most 192 KiB for doubles, which a second-level cache holds.
const ROWS: usize = 96;

/// Columns of B that are packed at once: they share a third-level cache with others.
const COLUMNS_BYTES: usize = 8 << 10;

/// Bytes of a row of the block of C in the registers: two vectors of 32 bytes or one of 64.
const BLOCK_BYTES: usize = 64;

/// C = C ⊕ (A ⊗ B). For ordinary products A is multiplied by `scale`, which is 1 for all others.
pub(super) fn fold_packed<T: Value, P: Fold<T>, M: Fold<T>>(
    c: MatrixMut<'_, T>,
    scale: T,
    a: MatrixRef<'_, T>,
    b: MatrixRef<'_, T>,
) {
    // Rows of C are written; all of our ⊗ commute.
    let is_by_rows = c.column_stride().unsigned_abs() <= c.row_stride().unsigned_abs();
    let (mut c, a, b) = if is_by_rows { (c, a, b) } else { (c.transposed(), b.transposed(), a.transposed()) };
    let [m, n, k] = [c.rows(), c.columns(), a.columns()];
    if m == 0 || n == 0 || k == 0 {
        return;
    }
    let width = BLOCK_BYTES / size_of::<T>();
    let height = HEIGHT;
    let columns = COLUMNS_BYTES / size_of::<T>();
    let depth = k.min(DEPTH);
    let rows = ROWS.min(m.next_multiple_of(height));
    let mut packed_a = Buffer::for_overwrite(rows * depth * size_of::<T>());
    let mut packed_b = Buffer::for_overwrite(columns.min(n.next_multiple_of(width)) * depth * size_of::<T>());
    let (packed_a, packed_b) = (packed_a.cast_mut::<T>(), packed_b.cast_mut::<T>());
    for from_column in (0..n).step_by(columns) {
        let columns = columns.min(n - from_column);
        for from in (0..k).step_by(DEPTH) {
            let depth = DEPTH.min(k - from);
            let inner = from..from + depth;
            let lines = from_column..from_column + columns;
            let panels_b = &*pack(packed_b, b.transposed(), lines, inner.clone(), width);
            let seen_b = Seen::of(panels_b);
            for from_row in (0..m).step_by(ROWS) {
                let rows = ROWS.min(m - from_row);
                let panels_a = pack(packed_a, a, from_row..from_row + rows, inner.clone(), height);
                if scale != T::ONE {
                    panels_a.iter_mut().for_each(|element| *element = element.mul(scale));
                }
                let is_safe = !Seen::of(panels_a).makes_nan_with(seen_b);
                let offset = from_row as isize * c.row_stride() + from_column as isize * c.column_stride();
                let target = Target {
                    // An address within C.
                    first: c.as_mut_ptr().wrapping_offset(offset),
                    strides: [c.row_stride(), c.column_stride()],
                    shape: [rows, columns],
                };
                fold_blocks::<T, P, M>(is_safe, target, panels_a, panels_b, depth);
            }
        }
    }
}

/// Rows of the block of C in the registers, with 16 registers of 32 bytes: 12 of them hold the block, the others what is
/// multiplied.
const HEIGHT: usize = 6;

fn fold_blocks<T: Value, P: Fold<T>, M: Fold<T>>(
    is_safe: bool,
    target: Target<T>,
    a: &[T],
    b: &[T],
    depth: usize,
) {
    macro_rules! run {
        ($width:literal, $is_safe:literal) => {
            vectorise_narrowly(Blocks::<T, P, M, $width, $is_safe> { target, a, b, depth, ops: PhantomData })
        };
    }
    match (size_of::<T>(), is_safe) {
        (1, _) => run!(64, true),
        (4, true) => run!(16, true),
        (4, false) => run!(16, false),
        (_, true) => run!(8, true),
        (_, false) => run!(8, false),
    }
}

/// What the elements of a packed block are, as far as NaN may come of it.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    nan: bool,
    plus_infinity: bool,
    minus_infinity: bool,
}

impl Seen {
    /// True if a sum, or a smaller or larger one, of one element each may be NaN.
    fn makes_nan_with(self, other: Seen) -> bool {
        self.nan
            || other.nan
            || self.plus_infinity && other.minus_infinity
            || self.minus_infinity && other.plus_infinity
    }
}

impl Seen {
    fn of<T: Value>(packed: &[T]) -> Seen {
        match T::DTYPE {
            DType::F32 | DType::F64 => vectorise(Look(packed)),
            _ => Seen::default(),
        }
    }
}

struct Look<'a, T>(&'a [T]);

impl<T: Value> Loop for Look<'_, T> {
    type Output = Seen;
    #[inline(always)]
    fn run(self) -> Seen {
        let mut seen = Seen::default();
        for &element in self.0 {
            // The comparison with itself is the one that only NaN fails.
            #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
            let is_nan = element != element;
            seen.nan |= is_nan;
            seen.plus_infinity |= element == T::GREATEST;
            seen.minus_infinity |= element == T::LEAST;
        }
        seen
    }
}

/// A part of C.
#[derive(Clone, Copy)]
struct Target<T> {
    first: *mut T,
    strides: [isize; 2],
    shape: [usize; 2],
}

/// All blocks of a part of C, whose panels are packed. `IS_SAFE`: no operation makes a NaN.
struct Blocks<'a, T, P, M, const WIDTH: usize, const IS_SAFE: bool> {
    target: Target<T>,
    a: &'a [T],
    b: &'a [T],
    depth: usize,
    ops: PhantomData<(P, M)>,
}

impl<T: Value, P: Fold<T>, M: Fold<T>, const WIDTH: usize, const IS_SAFE: bool> Loop
    for Blocks<'_, T, P, M, WIDTH, IS_SAFE>
{
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Target { first, strides, shape: [rows, columns] } = self.target;
        for (b, j) in self.b.chunks_exact(WIDTH * self.depth).zip((0..columns).step_by(WIDTH)) {
            for (a, i) in self.a.chunks_exact(HEIGHT * self.depth).zip((0..rows).step_by(HEIGHT)) {
                let sums = block::<T, P, M, WIDTH, IS_SAFE>(a, b);
                let (height, width) = (HEIGHT.min(rows - i), WIDTH.min(columns - j));
                for (r, sums) in sums.iter().enumerate().take(height) {
                    let row = first.wrapping_offset((i + r) as isize * strides[0] + j as isize * strides[1]);
                    if strides[1] == 1 && width == WIDTH {
                        // SAFETY: WIDTH elements of C, side by side, which nobody else has.
                        let row = unsafe { &mut *row.cast::<[T; WIDTH]>() };
                        for (c, &sum) in row.iter_mut().zip(sums) {
                            *c = P::fold(*c, sum);
                        }
                    } else {
                        for (s, &sum) in sums.iter().enumerate().take(width) {
                            let c = row.wrapping_offset(s as isize * strides[1]);
                            // SAFETY: an element of C.
                            unsafe { *c = P::fold(*c, sum) };
                        }
                    }
                }
            }
        }
    }
}

/// The micro-kernel: a block of C in the registers.
#[inline(always)]
fn block<T: Value, P: Fold<T>, M: Fold<T>, const WIDTH: usize, const IS_SAFE: bool>(
    a: &[T],
    b: &[T],
) -> [[T; WIDTH]; HEIGHT] {
    let mut sums = [[P::IDENTITY; WIDTH]; HEIGHT];
    let (a, _) = a.as_chunks::<HEIGHT>();
    let (b, _) = b.as_chunks::<WIDTH>();
    for (a, b) in a.iter().zip(b) {
        for i in 0..HEIGHT {
            for j in 0..WIDTH {
                let product = if IS_SAFE { M::fold_known(a[i], b[j]) } else { M::fold(a[i], b[j]) };
                sums[i][j] =
                    if IS_SAFE { P::fold_known(sums[i][j], product) } else { P::fold(sums[i][j], product) };
            }
        }
    }
    sums
}
