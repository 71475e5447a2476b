//! Copies elements between two places that are both walked by strides. The kernel below
//! [`TensorRef::copy_to`](crate::TensorRef::copy_to) and [`BoxCopy`](crate::BoxCopy).
//!
//! A copy is a nest of loops around one run of bytes. Before it runs, the nest is made as small as it
//! gets: loops of one step vanish, loops that continue each other merge, an innermost loop over
//! adjacent items becomes a longer run.
//!
//! ```text
//! box (4, 3, 256, 256) of u8, whole rows kept:   4 × [3 × [256 × [256 × 1 byte]]]   →   786,432 bytes
//! the same, columns 16..32 kept:                 4 × [3 × [256 × [ 16 × 1 byte]]]   →   3,072 × 16 bytes
//! ```

/// One loop: `count` steps; each moves the source by `src` and the destination by `dst` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    pub(crate) count: usize,
    pub(crate) src: isize,
    pub(crate) dst: isize,
}

/// Loops, outermost first, around a run of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nest {
    loops: Vec<Loop>,
    run_bytes: usize,
}

/// Side of the square of elements that is transposed at once: a square of the widest elements is 16 KiB,
/// half of a first-level cache, and a row of the narrowest is half of a cache line.
const TILE: usize = 32;

impl Nest {
    /// The smallest nest that copies the same elements as `loops` (outermost first) around `item_bytes`.
    /// No loop may have zero steps.
    pub(crate) fn new(loops: impl IntoIterator<Item = Loop>, item_bytes: usize) -> Nest {
        let mut kept: Vec<Loop> = Vec::new();
        // Sizes that overflow belong to no memory: such loops are left as they are and never run.
        for inner in loops.into_iter().filter(|each| each.count != 1) {
            let steps = inner.count as isize;
            match kept.last_mut() {
                Some(outer)
                    if Some(outer.src) == inner.src.checked_mul(steps)
                        && Some(outer.dst) == inner.dst.checked_mul(steps)
                        && let Some(count) = outer.count.checked_mul(inner.count) =>
                {
                    *outer = Loop { count, ..inner };
                }
                _ => kept.push(inner),
            }
        }
        let mut run_bytes = item_bytes;
        if let Some(last) = kept.last()
            && last.src == item_bytes as isize
            && last.dst == item_bytes as isize
            && let Some(longer) = item_bytes.checked_mul(last.count)
        {
            run_bytes = longer;
            kept.pop();
        }
        Nest { loops: kept, run_bytes }
    }

    /// The length of the one run this nest copies, when it is only one.
    pub(crate) fn single_run(&self) -> Option<usize> {
        self.loops.is_empty().then_some(self.run_bytes)
    }

    /// The nest that copies back.
    pub(crate) fn reversed(&self) -> Nest {
        let loops = self.loops.iter().map(|each| Loop { src: each.dst, dst: each.src, ..*each }).collect();
        Nest { loops, run_bytes: self.run_bytes }
    }

    /// Runs the copy.
    ///
    /// # Safety
    /// Every run reached from `src` is readable, every run reached from `dst` is writable and nobody
    /// else's, and the two do not overlap.
    pub(crate) unsafe fn copy(&self, src: *const u8, dst: *mut u8) {
        // SAFETY: passed on from the caller; the widths are those of `run_bytes`.
        unsafe {
            match self.run_bytes {
                1 => self.copy_sized::<1>(src, dst),
                2 => self.copy_sized::<2>(src, dst),
                4 => self.copy_sized::<4>(src, dst),
                8 => self.copy_sized::<8>(src, dst),
                16 => self.copy_sized::<16>(src, dst),
                _ => self.copy_runs(src, dst),
            }
        }
    }

    /// Runs the copy once for each item, at its offsets of source and destination.
    ///
    /// # Safety
    /// As for [`Nest::copy`], at every item; destinations may repeat.
    pub(crate) unsafe fn copy_each(
        &self,
        items: impl Iterator<Item = (isize, isize)>,
        src: *const u8,
        dst: *mut u8,
    ) {
        // SAFETY: passed on from the caller; the widths are those of the one run.
        unsafe {
            match self.single_run() {
                Some(1) => copy_items::<1>(items, src, dst),
                Some(2) => copy_items::<2>(items, src, dst),
                Some(4) => copy_items::<4>(items, src, dst),
                Some(8) => copy_items::<8>(items, src, dst),
                Some(16) => copy_items::<16>(items, src, dst),
                _ => items.for_each(|(from, to)| self.copy(src.offset(from), dst.offset(to))),
            }
        }
    }

    /// Runs of any length: each is a call to `memcpy`.
    ///
    /// # Safety
    /// As for [`Nest::copy`].
    unsafe fn copy_runs(&self, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller vouches for every offset of the nest.
        for_each_step(&self.loops, &mut |from, to| unsafe {
            std::ptr::copy_nonoverlapping(src.offset(from), dst.offset(to), self.run_bytes);
        });
    }

    /// Runs of a few bytes: a load and a store each, in a loop of their own.
    ///
    /// # Safety
    /// As for [`Nest::copy`], with `N == run_bytes`.
    unsafe fn copy_sized<const N: usize>(&self, src: *const u8, dst: *mut u8) {
        let Some((&line, outer)) = self.loops.split_last() else {
            // SAFETY: the nest is one run.
            return unsafe { std::ptr::copy_nonoverlapping(src, dst, N) };
        };
        // Writing in order while reading far apart wastes all but one element of each cache line read.
        // When another loop reads adjacent elements, the two together are a transposition.
        let across = outer.iter().position(|each| each.src == N as isize);
        if let Some(place) = across.filter(|_| line.src != N as isize) {
            let across = outer[place];
            let mut rest = outer.to_vec();
            rest.remove(place);
            // SAFETY: the same runs, in another order.
            for_each_step(&rest, &mut |from, to| unsafe {
                transpose::<N>(across, line, src.offset(from), dst.offset(to));
            });
        } else {
            // SAFETY: as above.
            for_each_step(outer, &mut |from, to| unsafe {
                copy_line::<N>(line, src.offset(from), dst.offset(to));
            });
        }
    }
}

/// Calls `visit` with the source and destination offset of every step of these loops.
pub(crate) fn for_each_step(loops: &[Loop], visit: &mut impl FnMut(isize, isize)) {
    walk(loops, 0, 0, visit);
}

fn walk(loops: &[Loop], from: isize, to: isize, visit: &mut impl FnMut(isize, isize)) {
    match loops {
        [] => visit(from, to),
        [outer, inner @ ..] => {
            for step in 0..outer.count as isize {
                walk(inner, from + step * outer.src, to + step * outer.dst, visit);
            }
        }
    }
}

/// # Safety
/// As for [`Nest::copy`], of a nest with this one loop.
unsafe fn copy_line<const N: usize>(line: Loop, src: *const u8, dst: *mut u8) {
    for step in 0..line.count as isize {
        // SAFETY: the caller vouches for every step.
        unsafe { std::ptr::copy_nonoverlapping(src.offset(step * line.src), dst.offset(step * line.dst), N) };
    }
}

/// # Safety
/// As for [`Nest::copy_each`], of a nest that is one run of `N` bytes.
unsafe fn copy_items<const N: usize>(
    items: impl Iterator<Item = (isize, isize)>,
    src: *const u8,
    dst: *mut u8,
) {
    for (from, to) in items {
        // SAFETY: the caller vouches for every item.
        unsafe { std::ptr::copy_nonoverlapping(src.offset(from), dst.offset(to), N) };
    }
}

/// Two loops at once; elements are adjacent in the source along `across`. Goes by squares, each read
/// row by row into a small buffer first, so that a cache line is read once however far apart rows are.
///
/// # Safety
/// As for [`Nest::copy`], of a nest of these two loops, with `across.src == N`.
unsafe fn transpose<const N: usize>(across: Loop, line: Loop, src: *const u8, dst: *mut u8) {
    let whole = |each: Loop| each.count - each.count % TILE;
    let mut square = [[[0u8; N]; TILE]; TILE];
    for a in (0..whole(across)).step_by(TILE) {
        for l in (0..whole(line)).step_by(TILE) {
            // SAFETY: TILE steps of both loops from `a` and `l` on are steps of them; a row of the square is
            // as long as TILE adjacent elements of the source.
            unsafe {
                let from = src.offset(l as isize * line.src).add(a * N);
                for (step, row) in square.iter_mut().enumerate() {
                    let from = from.offset(step as isize * line.src);
                    std::ptr::copy_nonoverlapping(from, row.as_mut_ptr().cast(), TILE * N);
                }
                let to = dst.offset(a as isize * across.dst + l as isize * line.dst);
                for column in 0..TILE {
                    let to = to.offset(column as isize * across.dst);
                    for (step, row) in square.iter().enumerate() {
                        let place = to.offset(step as isize * line.dst);
                        std::ptr::copy_nonoverlapping(row[column].as_ptr(), place, N);
                    }
                }
            }
        }
    }
    // What is left at the two edges: rows below the squares, and columns beside them. Along the longer
    // loop, because a line has a cost to begin.
    let below = Loop { count: line.count % TILE, ..line };
    let beside = Loop { count: across.count % TILE, ..across };
    let edges =
        [(across, below, 0, whole(line)), (beside, Loop { count: whole(line), ..line }, whole(across), 0)];
    for (across, line, a, l) in edges {
        let (inner, outer) = if across.count > line.count { (across, line) } else { (line, across) };
        for step in 0..outer.count as isize {
            // SAFETY: steps of both loops that the squares left out.
            unsafe {
                let from = src.add(a * N).offset(l as isize * line.src + step * outer.src);
                let to = dst.offset(a as isize * across.dst + l as isize * line.dst + step * outer.dst);
                copy_line::<N>(inner, from, to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nest(loops: &[(usize, isize, isize)], item: usize) -> Nest {
        Nest::new(loops.iter().map(|&(count, src, dst)| Loop { count, src, dst }), item)
    }

    #[test]
    fn nests_shrink() {
        let check = |loops: &[(usize, isize, isize)], item, left: &[(usize, isize, isize)], run_bytes| {
            let loops_left = left.iter().map(|&(count, src, dst)| Loop { count, src, dst }).collect();
            assert_eq!(nest(loops, item), Nest { loops: loops_left, run_bytes });
        };
        check(&[], 4, &[], 4);
        check(&[(4, 12, 12), (3, 4, 4)], 4, &[], 48);
        check(&[(4, 12, 8), (2, 4, 4)], 4, &[(4, 12, 8)], 8);
        check(&[(4, 24, 12), (3, 8, 4)], 4, &[(12, 8, 4)], 4);
        check(&[(4, -12, 12), (1, 99, 5), (3, 4, 4)], 4, &[(4, -12, 12)], 12);
        check(&[(2, 4, 12), (3, 8, 4)], 4, &[(2, 4, 12), (3, 8, 4)], 4);
    }

    #[test]
    fn transposes_odd_sizes_of_every_width() {
        for width in [1, 2, 3, 4, 8, 16] {
            let (rows, columns) = (70, 37);
            let src: Vec<u8> = (0..rows * columns * width).map(|byte| (byte % 251) as u8).collect();
            let mut dst = vec![0; src.len()];
            let w = width as isize;
            let plan = nest(&[(columns, w, rows as isize * w), (rows, columns as isize * w, w)], width);
            // SAFETY: both hold rows × columns elements.
            unsafe { plan.copy(src.as_ptr(), dst.as_mut_ptr()) };
            for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                let from = (row * columns + column) * width;
                let to = (column * rows + row) * width;
                assert_eq!(src[from..from + width], dst[to..to + width]);
            }
            let mut back = vec![0; src.len()];
            // SAFETY: as above.
            unsafe { plan.reversed().copy(dst.as_ptr(), back.as_mut_ptr()) };
            assert_eq!(back, src);
        }
    }
}
