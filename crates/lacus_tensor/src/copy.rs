//! Moves the elements of one stored box to their places in a selection's output, and back.
//!
//! ```text
//!              box of the input                          output of the selection
//!   scatter    chunk bytes, C order of the box    ──→    some of the result's elements
//!   gather     chunk bytes                        ←──    values in the result's shape
//! ```
//!
//! A [`BoxCopy`] is planned once per box without touching data. Each group of the selection gives the
//! positions that fall into the box; what they share is a nest of loops, at most one of them over a list.
//! Where box and output agree on the order of trailing axes, whole runs are copied at once, and when the
//! box lands in one piece [`BoxCopy::whole_run`] says where, so that it can be read straight into place.

use crate::buffer::Buffer;
use crate::dense::{Tensor, TensorRef};
use crate::error::TensorError;
use crate::selection::{Group, Selection, range_position};
use crate::strided::{Loop, Nest, for_each_step};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Range;

/// An output buffer that several threads fill, each at its own places.
pub struct Target<'a> {
    start: *mut u8,
    len: usize,
    bytes: PhantomData<&'a mut [u8]>,
}

// SAFETY: stands for a `&mut [u8]`, which can be sent.
unsafe impl Send for Target<'_> {}
// SAFETY: it is written through at disjoint places only; see `slice_mut` and `BoxCopy::scatter`.
unsafe impl Sync for Target<'_> {}

impl<'a> Target<'a> {
    /// Borrows the buffer for as long as it is being filled.
    pub fn new(bytes: &'a mut [u8]) -> Target<'a> {
        Target { start: bytes.as_mut_ptr(), len: bytes.len(), bytes: PhantomData }
    }

    /// Bytes of the buffer.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of the buffer, to read or decompress straight into.
    ///
    /// # Safety
    /// While the result is used, no other reference into `range` is used, and nothing is scattered into it.
    ///
    /// # Panics
    /// If `range` is not inside of the buffer.
    #[expect(clippy::mut_from_ref, reason = "several parts are written at once; that is what it is for")]
    pub unsafe fn slice_mut(&self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} is outside of {}", self.len);
        // SAFETY: inside of the buffer; the caller vouches for exclusiveness.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}

/// Which elements of a box of the input go where in the output of a selection.
#[derive(Clone, Debug)]
pub struct BoxCopy {
    /// Byte of the first element in the box and in the output.
    from: usize,
    to: usize,
    /// Loops around the list. Empty when there is no list.
    outer: Vec<Loop>,
    list: List,
    /// What is copied for each item of the list, or in all when there is no list.
    inner: Nest,
    box_bytes: usize,
    out_bytes: usize,
    covers_box: bool,
}

/// The listed positions of a gather, as byte offsets.
#[derive(Clone, Debug)]
enum List {
    None,
    /// Where in the box and in the output one copy of `inner` begins.
    Items(Vec<(isize, isize)>),
    /// The same when many follow each other: with the bytes to copy.
    Runs(Vec<(isize, isize, usize)>),
}

impl BoxCopy {
    /// Plans the copy of the box that starts at `origin` and has `extent` elements per axis, of elements
    /// of `item_bytes`. `None` when nothing in it is selected.
    ///
    /// # Panics
    /// If `origin` and `extent` do not have one number per input axis.
    pub fn plan(sel: &Selection, origin: &[u64], extent: &[u64], item_bytes: usize) -> Option<BoxCopy> {
        let rank = sel.input_shape().rank();
        assert!(origin.len() == rank && extent.len() == rank, "a box has one range per axis");
        let box_strides = byte_strides(extent, item_bytes);
        let out_strides = byte_strides(sel.output_shape().dims(), item_bytes);

        let (mut from, mut to, mut covers_box) = (0usize, 0usize, true);
        // Loops by the output axis they write.
        let mut loops: Vec<(usize, Loop)> = Vec::with_capacity(rank);
        let mut listed: Option<(usize, Vec<(isize, isize)>)> = None;
        // Sizes that no memory holds saturate and wrap; such a plan refuses every buffer.
        for group in sel.groups() {
            match group {
                &Group::Range { axis, start, step, len, out_axis } => {
                    let inside = steps_within(start, step, len, origin[axis], extent[axis]);
                    if inside.is_empty() {
                        return None;
                    }
                    let first = range_position(start, step, inside.start) - origin[axis];
                    let count = inside.end - inside.start;
                    let out_stride = out_axis.map_or(0, |out_axis| out_strides[out_axis]);
                    from = from.wrapping_add((first as usize).wrapping_mul(box_strides[axis]));
                    to = to.wrapping_add((inside.start as usize).wrapping_mul(out_stride));
                    covers_box &= count == extent[axis];
                    let src = (box_strides[axis] as isize).wrapping_mul(step as isize);
                    let each = Loop { count: count as usize, src, dst: out_stride as isize };
                    loops.extend(out_axis.map(|out_axis| (out_axis, each)));
                }
                Group::Gather { axes, coords, out_axis, out_dims, .. } => {
                    let out_stride = out_strides[out_axis + out_dims.len() - 1];
                    let boxed = Boxed { origin, extent, strides: &box_strides };
                    let items = boxed.items_within(sel, axes, coords, out_stride);
                    if items.is_empty() {
                        return None;
                    }
                    covers_box &= boxed.is_covered_by(&items, axes);
                    listed = Some((*out_axis, items));
                }
            }
        }
        // In the order of the output, so that it is written in order.
        loops.sort_by_key(|&(out_axis, _)| out_axis);
        let at = listed.as_ref().map_or(0, |(at, _)| loops.partition_point(|(out_axis, _)| out_axis < at));
        let mut outer: Vec<Loop> = loops[..at].iter().map(|&(_, each)| each).collect();
        let mut inner = Nest::new(loops[at..].iter().map(|&(_, each)| each), item_bytes);
        let mut list = listed.map_or(List::None, |(_, items)| List::new(items, &inner));
        if let List::Runs(runs) = &list
            && let [(run_from, run_to, bytes)] = runs[..]
        {
            // One run is no list.
            from = from.wrapping_add_signed(run_from);
            to = to.wrapping_add_signed(run_to);
            inner = Nest::new(outer.drain(..), bytes);
            list = List::None;
        }
        let box_bytes = byte_len(extent, item_bytes);
        let out_bytes = byte_len(sel.output_shape().dims(), item_bytes);
        Some(BoxCopy { from, to, outer, list, inner, box_bytes, out_bytes, covers_box })
    }

    /// The bytes of the output that are exactly the bytes of the box, when it is selected whole and lands in
    /// one piece: it can be read or decompressed straight into place.
    pub fn whole_run(&self) -> Option<Range<usize>> {
        let whole = matches!(self.list, List::None) && self.inner.single_run() == Some(self.box_bytes);
        whole.then(|| self.to..self.to + self.box_bytes)
    }

    /// True when every element of the box is selected, so that writing it needs no reading first.
    pub fn covers_box(&self) -> bool {
        self.covers_box
    }

    /// Copies the selected elements of the box (`chunk`, C order) to their places in the output. Fails
    /// unless `chunk` holds exactly the box and `out` exactly the output.
    ///
    /// Several threads may scatter into one target at once as long as their boxes do not overlap:
    /// an output element comes from one input element, so boxes apart write apart.
    pub fn scatter(&self, chunk: &[u8], out: &Target<'_>) -> Result<(), TensorError> {
        check_len("the chunk", self.box_bytes, chunk.len())?;
        check_len("the output", self.out_bytes, out.len)?;
        // SAFETY: all offsets of a plan lie inside of the box and the output, whose lengths were checked,
        // a shared borrow and an exclusively borrowed buffer do not overlap, and boxes apart write apart.
        unsafe { self.copy::<false>(chunk.as_ptr().add(self.from), out.start.add(self.to)) };
        Ok(())
    }

    /// Copies the elements of `values` (the selection's output, C order) to their places in the box. Others
    /// keep what `chunk` holds. Where a list names an element twice, the last value stays, as in numpy.
    ///
    /// # Panics
    /// If `values` is not exactly as long as the output, or `chunk` as the box.
    pub fn gather(&self, values: &[u8], chunk: &mut [u8]) {
        assert_eq!(values.len(), self.out_bytes, "the values must fill the selection");
        assert_eq!(chunk.len(), self.box_bytes, "the chunk must hold the box");
        // SAFETY: as in `scatter`, with the chunk borrowed exclusively.
        unsafe { self.copy::<true>(values.as_ptr().add(self.to), chunk.as_mut_ptr().add(self.from)) };
    }

    /// Copies from `src` to `dst`: box to output, or output to box when `BACK`.
    ///
    /// # Safety
    /// `src` and `dst` point to the first elements of the plan, in buffers as long as it says, that do not
    /// overlap.
    unsafe fn copy<const BACK: bool>(&self, src: *const u8, dst: *mut u8) {
        let inner = if BACK { Cow::Owned(self.inner.reversed()) } else { Cow::Borrowed(&self.inner) };
        let turn = |from, to| if BACK { (to, from) } else { (from, to) };
        match &self.list {
            // SAFETY: passed on from the caller.
            List::None => unsafe { inner.copy(src, dst) },
            List::Items(items) => for_each_step(&self.outer, &mut |from, to| {
                let (from, to) = turn(from, to);
                let items = items.iter().map(|&(from, to)| turn(from, to));
                // SAFETY: offsets of the plan.
                unsafe { inner.copy_each(items, src.offset(from), dst.offset(to)) };
            }),
            List::Runs(runs) => for_each_step(&self.outer, &mut |from, to| {
                for &(run_from, run_to, bytes) in runs {
                    let (from, to) = turn(from + run_from, to + run_to);
                    // SAFETY: offsets of the plan.
                    unsafe { std::ptr::copy_nonoverlapping(src.offset(from), dst.offset(to), bytes) };
                }
            }),
        }
    }
}

impl List {
    /// Joins items that follow each other in the box and in the output, if that pays.
    fn new(items: Vec<(isize, isize)>, inner: &Nest) -> List {
        let Some(bytes) = inner.single_run() else { return List::Items(items) };
        let mut runs: Vec<(isize, isize, usize)> = Vec::new();
        for &(from, to) in &items {
            match runs.last_mut() {
                Some((run_from, run_to, run_bytes))
                    if run_from.wrapping_add_unsigned(*run_bytes) == from
                        && run_to.wrapping_add_unsigned(*run_bytes) == to =>
                {
                    *run_bytes += bytes;
                }
                _ => runs.push((from, to, bytes)),
            }
            // A copy of known width is several times faster than one of any width.
            if runs.len() > 1 + items.len() / 2 {
                return List::Items(items);
            }
        }
        List::Runs(runs)
    }
}

/// A box of the input and its strides in bytes.
struct Boxed<'a> {
    origin: &'a [u64],
    extent: &'a [u64],
    strides: &'a [usize],
}

impl Boxed<'_> {
    /// The positions of a gather that lie in the box, as offsets in the box and in the output.
    fn items_within(
        &self,
        sel: &Selection,
        axes: &[usize],
        coords: &[Vec<u64>],
        out_stride: usize,
    ) -> Vec<(isize, isize)> {
        let (Some(&first), Some(lead)) = (axes.first(), coords.first()) else { return Vec::new() };
        let within = self.origin[first]..self.origin[first].saturating_add(self.extent[first]);
        let mut items = Vec::new();
        'places: for place in sel.gathered_within(lead, within) {
            let mut from = 0usize;
            for (&axis, positions) in axes.iter().zip(coords) {
                let offset = positions[place].wrapping_sub(self.origin[axis]);
                if offset >= self.extent[axis] {
                    continue 'places;
                }
                from = from.wrapping_add((offset as usize).wrapping_mul(self.strides[axis]));
            }
            items.push((from as isize, place.wrapping_mul(out_stride) as isize));
        }
        items
    }

    /// True when the items name every position of the box on their axes.
    fn is_covered_by(&self, items: &[(isize, isize)], axes: &[usize]) -> bool {
        let cells = axes.iter().fold(1u64, |cells, &axis| cells.saturating_mul(self.extent[axis]));
        if (items.len() as u64) < cells {
            return false;
        }
        let mut named: Vec<isize> = items.iter().map(|&(from, _)| from).collect();
        named.sort_unstable();
        named.dedup();
        named.len() as u64 == cells
    }
}

/// Which steps of a range fall into `[origin, origin + extent)`. They follow each other.
fn steps_within(start: u64, step: i64, len: u64, origin: u64, extent: u64) -> Range<u64> {
    let stride = step.unsigned_abs();
    let end = origin.saturating_add(extent);
    let inside = if extent == 0 {
        0..0
    } else if step > 0 {
        origin.saturating_sub(start).div_ceil(stride)..end.saturating_sub(start).div_ceil(stride)
    } else if start < origin {
        0..0
    } else {
        start.saturating_sub(end - 1).div_ceil(stride)..(start - origin) / stride + 1
    };
    inside.start..inside.end.min(len)
}

/// Strides of C order.
fn byte_strides(dims: &[u64], item_bytes: usize) -> Vec<usize> {
    let mut strides = vec![item_bytes; dims.len()];
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(dims[axis] as usize);
    }
    strides
}

fn byte_len(dims: &[u64], item_bytes: usize) -> usize {
    dims.iter().fold(item_bytes, |bytes, &size| bytes.saturating_mul(size as usize))
}

fn check_len(what: &'static str, expected: usize, found: usize) -> Result<(), TensorError> {
    if expected == found { Ok(()) } else { Err(TensorError::WrongLength { what, expected, found }) }
}

impl TensorRef<'_> {
    /// The selected elements, in memory. Fails if the selection is of another shape, or the result does
    /// not fit into memory.
    pub fn select(&self, selection: &Selection) -> Result<Tensor, TensorError> {
        let expected = selection.input_shape();
        if self.shape() != expected {
            let (expected, found) = (Box::new(expected.clone()), Box::new(self.shape().clone()));
            return Err(TensorError::ShapeMismatch { what: "select", expected, found });
        }
        let shape = selection.output_shape().clone();
        let mut buffer = Buffer::try_for_overwrite(shape.byte_len(self.dtype())?)?;
        if let Some(bounds) = selection.bounding_box() {
            let (origin, extent): (Vec<u64>, Vec<u64>) =
                bounds.iter().map(|&(first, end)| (first, end - first)).unzip();
            let copied;
            let (origin, extent, bytes) = match self.contiguous_bytes() {
                Some(bytes) => (vec![0; origin.len()], self.shape().dims().to_vec(), bytes),
                None => {
                    copied = self.region(&origin, &extent).to_tensor();
                    (origin, extent, copied.bytes())
                }
            };
            let plan = BoxCopy::plan(selection, &origin, &extent, self.dtype().size_bytes());
            if let Some(plan) = plan {
                plan.scatter(bytes, &Target::new(&mut buffer))?;
            }
        }
        Tensor::new(self.dtype(), shape, buffer)
    }
}
