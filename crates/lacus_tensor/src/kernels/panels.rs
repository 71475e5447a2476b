//! Packing: a block of a matrix becomes panels, in which what a micro-kernel reads in one step lies side by side.

use super::matrix::MatrixRef;
use super::number::Value;
use super::vectorise::{Loop, vectorise};
use std::ops::Range;

/// Lines that are read together when each lies in memory on its own: few enough for the ways of a first-level cache, in
/// which lines at a distance of a power of two all want the same place.
const TOGETHER: usize = 4;

/// Packs lines (rows of `from`), of which `depth` is wanted, into panels of `width` lines: what the lines have in one column
/// lies side by side. The last panel is filled up with zeros. Gives back what was written.
///
/// Panics if the block is not within the matrix, or `to` is shorter than the panels.
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
    widths!(4, 6, 8, 12, 16, 24, 64);
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
        let Pack { to, from, lines, depth } = self;
        let [line_stride, stride] = [from.row_stride(), from.column_stride()];
        for (panel, first) in to.chunks_exact_mut(WIDTH * depth.len()).zip(lines.clone().step_by(WIDTH)) {
            let (panel, _) = panel.as_chunks_mut::<WIDTH>();
            let count = WIDTH.min(lines.end - first);
            let start =
                from.as_ptr().wrapping_offset(first as isize * line_stride + depth.start as isize * stride);
            if count < WIDTH {
                panel.fill([T::ZERO; WIDTH]);
                for i in 0..count {
                    let line = start.wrapping_offset(i as isize * line_stride);
                    for (p, out) in panel.iter_mut().enumerate() {
                        // SAFETY: an element of the matrix.
                        out[i] = unsafe { *line.wrapping_offset(p as isize * stride) };
                    }
                }
            } else if line_stride == 1 {
                for (p, out) in panel.iter_mut().enumerate() {
                    // SAFETY: elements of the matrix, side by side.
                    *out = unsafe { *start.wrapping_offset(p as isize * stride).cast::<[T; WIDTH]>() };
                }
            } else {
                for from in (0..WIDTH).step_by(TOGETHER) {
                    for (p, out) in panel.iter_mut().enumerate() {
                        for (i, out) in out[from..].iter_mut().enumerate().take(TOGETHER) {
                            let line = start.wrapping_offset((from + i) as isize * line_stride);
                            // SAFETY: an element of the matrix.
                            *out = unsafe { *line.wrapping_offset(p as isize * stride) };
                        }
                    }
                }
            }
        }
    }
}
