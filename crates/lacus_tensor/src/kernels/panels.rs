//! Packing: a block of a matrix becomes panels, in which what a micro-kernel reads in one step lies side by side.

use super::matrix::MatrixRef;
use super::number::Value;
use super::vectorise::{Loop, prefetch, vectorise};
use std::ops::Range;

/// Lines that are read together when each lies in memory on its own: few enough for the ways of a first-level cache, in
/// which lines at a distance of a power of two all want the same place.
const TOGETHER: usize = 4;

/// Bytes of a line of a cache.
const LINE_BYTES: usize = 64;

/// Panels that are written together: few enough for the ways of a first-level cache as well.
const PANELS: usize = 8;

/// How many columns ahead of their use lines are asked for.
const COLUMNS_AHEAD: usize = 8;

/// Packs lines (rows of `from`), of which `depth` is wanted, into panels of `width` lines: what the lines have in one column
/// lies side by side. The last panel is filled up with zeros. Gives back what was written.
///
/// Panics if the block is not within the matrix or has no depth, or if `to` is shorter than the panels.
pub(super) fn pack<'t, T: Value>(
    to: &'t mut [T],
    from: MatrixRef<'_, T>,
    lines: Range<usize>,
    depth: Range<usize>,
    width: usize,
) -> &'t mut [T] {
    assert!(lines.end <= from.rows() && depth.end <= from.columns());
    let used = lines.len().next_multiple_of(width) * depth.len();
    let to = &mut to[..used];
    macro_rules! widths {
        ($($width:literal),*) => {
            match width {
                $($width => vectorise(Pack::<T, $width> { to: &mut *to, from, lines, depth }),)*
                _ => unreachable!("panels of {width} lines"),
            }
        };
    }
    widths!(4, 6, 8, 12, 16, 24, 48, 64);
    to
}

struct Pack<'a, T, const WIDTH: usize> {
    to: &'a mut [T],
    from: MatrixRef<'a, T>,
    lines: Range<usize>,
    depth: Range<usize>,
}

impl<T: Value, const WIDTH: usize> Loop for Pack<'_, T, WIDTH> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let whole = self.lines.len() / WIDTH;
        let (panels, rest) = self.to.split_at_mut(whole * WIDTH * self.depth.len());
        let lines = Lines { from: self.from, first: self.lines.start, depth: self.depth.clone() };
        if self.from.row_stride() == 1 {
            lines.side_by_side::<WIDTH>(panels);
        } else {
            lines.one_by_one::<WIDTH>(panels);
        }
        let left = self.lines.len() % WIDTH;
        let lines = Lines { first: self.lines.end - left, ..lines };
        let (panel, _) = rest.as_chunks_mut::<WIDTH>();
        panel.fill([T::ZERO; WIDTH]);
        for i in 0..left {
            for (p, out) in panel.iter_mut().enumerate() {
                // SAFETY: an element of the matrix.
                out[i] = unsafe { *lines.at(i, p) };
            }
        }
    }
}

/// Lines of a matrix from one on.
struct Lines<'a, T> {
    from: MatrixRef<'a, T>,
    first: usize,
    depth: Range<usize>,
}

impl<T: Value> Lines<'_, T> {
    /// Where an element is; an address that may be outside of the matrix.
    #[inline(always)]
    fn at(&self, line: usize, p: usize) -> *const T {
        let (line, p) = ((self.first + line) as isize, (self.depth.start + p) as isize);
        self.from.as_ptr().wrapping_offset(line * self.from.row_stride() + p * self.from.column_stride())
    }

    /// Elements of all lines lie side by side: they are read as they lie, and dealt out to some panels at once. Each
    /// column is far from the one before (often on a page of its own), so it is asked for some columns ahead.
    #[inline(always)]
    fn side_by_side<const WIDTH: usize>(&self, to: &mut [T]) {
        let depth = self.depth.len();
        for (to, first) in to.chunks_mut(PANELS * WIDTH * depth).zip((0..).step_by(PANELS * WIDTH)) {
            let panels = to.len() / (WIDTH * depth);
            for p in 0..depth {
                for ahead in (0..panels * WIDTH).step_by(LINE_BYTES / size_of::<T>()) {
                    prefetch(self.at(first + ahead, p + COLUMNS_AHEAD));
                }
                for panel in 0..panels {
                    // SAFETY: elements of the matrix, side by side.
                    let found = unsafe { *self.at(first + panel * WIDTH, p).cast::<[T; WIDTH]>() };
                    to[(panel * depth + p) * WIDTH..][..WIDTH].copy_from_slice(&found);
                }
            }
        }
    }

    /// Elements of each line lie somewhere else. While some lines are read, those that come next are asked for.
    #[inline(always)]
    fn one_by_one<const WIDTH: usize>(&self, to: &mut [T]) {
        let depth = self.depth.len();
        let per_line = LINE_BYTES / size_of::<T>();
        for (panel, first) in to.chunks_exact_mut(WIDTH * depth).zip((0..).step_by(WIDTH)) {
            let (panel, _) = panel.as_chunks_mut::<WIDTH>();
            for from in (0..WIDTH).step_by(TOGETHER) {
                for (p, out) in panel.iter_mut().enumerate() {
                    if p % per_line == 0 {
                        for i in 0..TOGETHER {
                            prefetch(self.at(first + from + TOGETHER + i, p));
                        }
                    }
                    for (i, out) in out[from..].iter_mut().enumerate().take(TOGETHER) {
                        // SAFETY: an element of the matrix.
                        *out = unsafe { *self.at(first + from + i, p) };
                    }
                }
            }
        }
    }
}
