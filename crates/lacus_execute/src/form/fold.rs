//! A formula, reduced. Where the last label that is folded lies closest in memory, runs along it are reduced at once,
//! with pairwise sums; elsewhere whole rows of the result are folded row by row.

use super::elements::Sources;
use super::{Bench, Elements, Reads, with_type};
use crate::error::ExecuteError;
use crate::region::{Walk, each_place, merge};
use crate::window::WindowMut;
use lacus_algebra::expr::{Element, ElementNode, ReduceOp};
use lacus_algebra::{BinaryOp, Network, Operator};
use lacus_tensor::kernels::number::Value;
use lacus_tensor::kernels::reduce::{fold_rows, reduce};
use std::borrow::Cow;

/// Elements that are computed before they are reduced: half of a first-level cache.
const PIECE: usize = 2048;

/// A formula, reduced.
pub(crate) struct FoldForm {
    elements: Elements,
    op: ReduceOp,
    rank: usize,
}

/// What an operator reduces: where its guard is false, that is nothing.
pub(super) fn counted(operator: &Operator) -> Cow<'_, Element> {
    let dtype = operator.body.dtype;
    let fold = operator.fold.as_ref();
    let Some((guard, identity)) = fold.and_then(|fold| fold.guard.clone().zip(fold.op.identity(dtype)))
    else {
        return Cow::Borrowed(&operator.body);
    };
    let nothing = Element { node: ElementNode::Constant(identity), dtype };
    let [guard, body, nothing] = [guard, operator.body.clone(), nothing].map(Box::new);
    Cow::Owned(Element { node: ElementNode::Where(guard, body, nothing), dtype })
}

impl FoldForm {
    pub(crate) fn of(network: &Network, operator: &Operator) -> FoldForm {
        let op = operator.fold.as_ref().map_or(ReduceOp::Op(BinaryOp::Add), |fold| fold.op.clone());
        let body = counted(operator);
        FoldForm { elements: Elements::of(network, operator, &body), op, rank: operator.axes.len() }
    }

    /// Operations for one element.
    pub(crate) fn size(&self) -> usize {
        self.elements.size()
    }

    pub(crate) fn run(
        &self,
        bench: &mut Bench<'_>,
        reads: &Reads<'_>,
        out: &mut WindowMut,
    ) -> Result<(), ExecuteError> {
        with_type!(out.window().dtype(), T => self.run_typed::<T>(bench, reads, out))
    }

    fn run_typed<T: Value + Number>(
        &self,
        bench: &mut Bench<'_>,
        reads: &Reads<'_>,
        out: &mut WindowMut,
    ) -> Result<(), ExecuteError> {
        let sources = self.elements.sources(bench, reads)?;
        let count = reads.region.counts.len();
        let mut walks = sources.walks.clone();
        let labels: Vec<usize> = (0..self.rank).collect();
        walks.push(Walk::of_labels(out.window().strides(), &labels, count));
        let own = walks.len() - 1;
        let counts = &reads.region.counts;
        if counts.contains(&0) {
            return Ok(());
        }
        let first = out.first().as_ptr().cast::<T>();
        let mut lanes = Vec::new();
        let mut piece = vec![T::default(); PIECE];
        let mut is_zero_met = false;
        if self.is_along_the_fold(&walks[..own], counts) {
            // Labels of the result outside, those of the fold as one run where they go on.
            let outer = counts[..self.rank].to_vec();
            let folded = counts[self.rank..].to_vec();
            let mut inner: Vec<Walk> =
                walks.iter().map(|walk| Walk { start: 0, steps: walk.steps[self.rank..].to_vec() }).collect();
            let folded = merge(&folded, &mut inner);
            let (loops, n) = match folded.split_last() {
                Some((n, loops)) => (loops.to_vec(), *n),
                None => (Vec::new(), 1),
            };
            let steps: Vec<i64> = inner.iter().map(|walk| walk.steps.last().copied().unwrap_or(0)).collect();
            let there = self.as_they_lie::<T>(&sources, &steps);
            inner.iter_mut().for_each(|walk| walk.steps.truncate(loops.len()));
            walks.iter_mut().for_each(|walk| walk.steps.truncate(self.rank));
            let mut total = Vec::with_capacity(walks.len());
            let mut partial: Vec<T> = Vec::new();
            each_place(&outer, &walks, |places| {
                partial.clear();
                let mut filled = 0;
                each_place(&loops, &inner, |within| {
                    let mut at = 0;
                    while at < n {
                        // Pieces are full whatever the runs are: bits must not depend on how a tile lies in memory.
                        let len = (PIECE - filled).min(n - at);
                        total.clear();
                        let here = places.iter().zip(within).zip(&steps);
                        total.extend(here.map(|((place, within), step)| place + within + step * at as i64));
                        // SAFETY: places lie within the windows that the region was located in, and a piece has room.
                        unsafe {
                            let to = piece.as_mut_ptr().add(filled);
                            match there.map(|there| there.offset(total[0] as isize)) {
                                Some(there) if len == PIECE => {
                                    partial.push(self.reduce(std::slice::from_raw_parts(there, PIECE)));
                                    at += PIECE;
                                    continue;
                                }
                                Some(there) => std::ptr::copy_nonoverlapping(there, to, len),
                                None => {
                                    is_zero_met |= self.elements.lanes(
                                        &sources,
                                        &total,
                                        &steps,
                                        len,
                                        to.cast(),
                                        1,
                                        &mut lanes,
                                        bench.scratch,
                                    );
                                }
                            }
                        }
                        (at, filled) = (at + len, filled + len);
                        if filled == PIECE {
                            partial.push(self.reduce(&piece));
                            filled = 0;
                        }
                    }
                });
                if filled > 0 {
                    partial.push(self.reduce(&piece[..filled]));
                }
                let sum = self.reduce(&partial);
                // SAFETY: a place of the result.
                unsafe {
                    let to = first.offset(places[own] as isize);
                    *to = self.combine(*to, sum);
                }
            });
        } else {
            // The last label of the result innermost.
            let last = self.rank - 1;
            let n = counts[last];
            let mut order: Vec<usize> = (0..count).filter(|&label| label != last).collect();
            order.push(last);
            let steps: Vec<i64> = walks.iter().map(|walk| walk.steps[last]).collect();
            for walk in &mut walks {
                walk.steps = order[..count - 1].iter().map(|&label| walk.steps[label]).collect();
            }
            let outer: Vec<usize> = order[..count - 1].iter().map(|&label| counts[label]).collect();
            let there = self.as_they_lie::<T>(&sources, &steps);
            let mut total: Vec<i64> = Vec::with_capacity(walks.len());
            each_place(&outer, &walks, |places| {
                for at in (0..n).step_by(PIECE) {
                    let len = PIECE.min(n - at);
                    total.clear();
                    total.extend(places.iter().zip(&steps).map(|(place, step)| place + step * at as i64));
                    // SAFETY: places lie within the windows that the region was located in, and within the result, of
                    // which nobody else has this part.
                    unsafe {
                        if let (Some(there), 1, ReduceOp::Op(op)) = (there, steps[own], &self.op) {
                            let to = std::slice::from_raw_parts_mut(first.offset(total[own] as isize), len);
                            let row = std::slice::from_raw_parts(there.offset(total[0] as isize), len);
                            fold_rows(*op, to, row);
                            continue;
                        }
                        let to = piece.as_mut_ptr().cast();
                        is_zero_met |= self.elements.lanes(
                            &sources,
                            &total,
                            &steps,
                            len,
                            to,
                            1,
                            &mut lanes,
                            bench.scratch,
                        );
                        let to = first.offset(total[own] as isize);
                        if let (1, ReduceOp::Op(op)) = (steps[own], &self.op) {
                            fold_rows(*op, std::slice::from_raw_parts_mut(to, len), &piece[..len]);
                        } else {
                            for (i, &value) in piece[..len].iter().enumerate() {
                                let to = to.offset(i as isize * steps[own] as isize);
                                *to = self.combine(*to, value);
                            }
                        }
                    }
                }
            });
        }
        if is_zero_met {
            self.elements.look_for_zero(bench, reads, counts)?;
        }
        Ok(())
    }

    /// Where the elements of a tensor are that is reduced as it is, if those of a run lie side by side.
    fn as_they_lie<T>(&self, sources: &Sources, steps: &[i64]) -> Option<*const T> {
        self.elements.as_read()?;
        let is_side_by_side = steps.first() == Some(&1) && sources.sizes.first() == Some(&size_of::<T>());
        let first = sources.firsts.first().copied().flatten()?;
        is_side_by_side.then_some(first.cast())
    }

    /// True when elements that are folded lie closer to each other than those of the result.
    fn is_along_the_fold(&self, walks: &[Walk], counts: &[usize]) -> bool {
        if self.rank == 0 {
            return true;
        }
        let (result, folded) = (self.rank - 1, counts.len() - 1);
        if counts[result] == 1 || folded < self.rank {
            return true;
        }
        let far = |label: usize| walks.iter().map(|walk| walk.steps[label].unsigned_abs()).max().unwrap_or(0);
        counts[folded] > 1 && far(folded) <= far(result).max(1) && counts[folded] >= 16
    }

    fn reduce<T: Value + Number>(&self, run: &[T]) -> T {
        match &self.op {
            ReduceOp::Op(op) => reduce(*op, run),
            ReduceOp::Function(function) => {
                let mut all = run.iter().copied();
                let first = all.next().unwrap_or_default();
                all.fold(first, |a, b| T::of(function.call(&[a.double(), b.double()])))
            }
        }
    }

    fn combine<T: Value + Number>(&self, a: T, b: T) -> T {
        match &self.op {
            ReduceOp::Op(op) => reduce(*op, &[a, b]),
            ReduceOp::Function(function) => T::of(function.call(&[a.double(), b.double()])),
        }
    }
}

/// Elements as doubles, for functions of the caller.
pub(crate) trait Number: Copy {
    fn double(self) -> f64;
    fn of(double: f64) -> Self;
}

macro_rules! number {
    ($($t:ty),*) => {$(
        impl Number for $t {
            fn double(self) -> f64 {
                self as f64
            }
            fn of(double: f64) -> $t {
                double as $t
            }
        }
    )*};
}
number!(i64, f32, f64);

impl Number for u8 {
    fn double(self) -> f64 {
        f64::from(self)
    }
    fn of(double: f64) -> u8 {
        u8::from(double != 0.0)
    }
}
