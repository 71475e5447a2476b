//! Which tiles a tile of a result reads: an operator, partially evaluated over tile coordinates. Positions become
//! ranges of positions, and conditions become true, false or open, so that tiles nobody looks at get no task.

use crate::expr::{Affine, Element, ElementNode, Index, Slot, Symbol};
use crate::network::{Made, Network, Operator, Read};
use crate::tiling::{Tiles, Tiling, each_of};
use lacus_tensor::{BinaryOp, UnaryOp};
use std::collections::BTreeMap;

/// The ranges (both ends included) that loop counters run through: one number each while tasks are made.
pub(crate) type Ranges = BTreeMap<Slot, (i64, i64)>;

/// An operator and the tiles of its axes.
pub(crate) struct Tiled<'a> {
    pub(crate) network: &'a Network,
    pub(crate) operator: &'a Operator,
    /// The tiles of all labels: axes of the result, then those of the fold.
    pub(crate) labels: Tiles,
    /// Axes of the result.
    pub(crate) rank: usize,
}

impl<'a> Tiled<'a> {
    pub(crate) fn new(network: &'a Network, tiling: &Tiling, operator: &'a Operator) -> Tiled<'a> {
        let extents: Vec<u64> = operator.labels().iter().map(|axis| axis.extent).collect();
        Tiled { network, operator, labels: Tiles::of(tiling, &extents), rank: operator.axes.len() }
    }

    /// Tiles along each axis of the result.
    pub(crate) fn counts(&self) -> &[u64] {
        &self.labels.counts[..self.rank]
    }

    /// Tiles along each axis of the fold.
    pub(crate) fn folded(&self) -> &[u64] {
        &self.labels.counts[self.rank..]
    }

    fn range(&self, index: Index, at: &[u64]) -> (i64, i64) {
        match index.0 as usize {
            label if label < at.len() && at[label] != u64::MAX => self.labels.range(label, at[label]),
            label => (0, self.labels.dims.get(label).map_or(0, |&extent| extent.max(1) as i64 - 1)),
        }
    }

    /// The least and greatest value of a position in the tile `at`. Labels at `u64::MAX` run as far as they go.
    pub(crate) fn positions(&self, position: &Affine, at: &[u64], ranges: &Ranges) -> (i128, i128) {
        position.range(|symbol| match symbol {
            Symbol::Index(index) => self.range(index, at),
            Symbol::Slot(slot) => number_range(self.network, slot, ranges),
        })
    }

    /// Whether a condition holds everywhere in the tile `at`, or nowhere; `None` if that is open.
    pub(crate) fn truth(&self, condition: &Element, at: &[u64], ranges: &Ranges) -> Option<bool> {
        match &condition.node {
            ElementNode::Constant(value) => Some(value.is_true()),
            ElementNode::Unary(UnaryOp::Not, a) => self.truth(a, at, ranges).map(|truth| !truth),
            ElementNode::Binary(op, a, b) if op.is_logical() => {
                let settles = *op == BinaryOp::Or;
                match (self.truth(a, at, ranges), self.truth(b, at, ranges)) {
                    (Some(truth), _) | (_, Some(truth)) if truth == settles => Some(settles),
                    (Some(_), Some(_)) => Some(!settles),
                    _ => None,
                }
            }
            ElementNode::Binary(op, a, b) if op.is_comparison() => {
                let difference = as_position(a)?.plus(&as_position(b)?, -1)?;
                let (low, high) = self.positions(&difference, at, ranges);
                match op {
                    BinaryOp::Lt => decided(high < 0, low >= 0),
                    BinaryOp::Le => decided(high <= 0, low > 0),
                    BinaryOp::Gt => decided(low > 0, high <= 0),
                    BinaryOp::Ge => decided(low >= 0, high < 0),
                    BinaryOp::Eq => decided(low == 0 && high == 0, low > 0 || high < 0),
                    _ => decided(low > 0 || high < 0, low == 0 && high == 0),
                }
            }
            _ => None,
        }
    }

    /// True unless the guard leaves out the whole step.
    pub(crate) fn lives(&self, at: &[u64], ranges: &Ranges) -> bool {
        let guard = self.operator.fold.as_ref().and_then(|fold| fold.guard.as_ref());
        guard.is_none_or(|guard| self.truth(guard, at, ranges) != Some(false))
    }

    /// True when the guard can leave out whole steps.
    pub(crate) fn is_guarded(&self) -> bool {
        let guard = self.operator.fold.as_ref().and_then(|fold| fold.guard.as_ref());
        guard.is_some_and(|guard| !decisive(guard).is_empty())
    }

    /// Calls with the number of every tile that a read needs in the step `at`.
    pub(crate) fn tiles(
        &self,
        read: &Read,
        tensor: &Tiles,
        at: &[u64],
        ranges: &Ranges,
        mut call: impl FnMut(usize),
    ) {
        if read.under.iter().any(|(condition, wanted)| self.truth(condition, at, ranges) == Some(!wanted)) {
            return;
        }
        let mut spans: Vec<(u64, u64)> = Vec::with_capacity(read.at.len());
        for (axis, position) in read.at.iter().enumerate() {
            let (low, high) = self.positions(position, at, ranges);
            let last = i128::from(tensor.dims[axis]) - 1;
            if high < 0 || low > last || last < 0 {
                return;
            }
            let block = i128::from(tensor.blocks[axis]);
            spans.push(((low.max(0) / block) as u64, (high.min(last) / block) as u64));
        }
        let counts: Vec<u64> = spans.iter().map(|(first, last)| last - first + 1).collect();
        if counts.iter().all(|&n| n == 1) {
            let first = spans.iter().zip(&tensor.counts);
            return call(first.fold(0, |number, (&(at, _), &count)| number * count + at) as usize);
        }
        let mut tile = vec![0; spans.len()];
        each_of(&counts, &mut |offset| {
            for (axis, &offset) in offset.iter().enumerate() {
                tile[axis] = spans[axis].0 + offset;
            }
            call(tensor.number(&tile));
        });
    }

    /// The labels on which it depends which tiles a read needs.
    pub(crate) fn labels_of(&self, read: &Read) -> Vec<usize> {
        let guard = self.operator.fold.iter().filter_map(|fold| fold.guard.as_ref());
        let conditions = read.under.iter().map(|(condition, _)| condition).chain(guard);
        let mut all: Vec<usize> =
            read.at.iter().flat_map(indices).chain(conditions.flat_map(decisive)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// What every tile of a tensor is needed for: coordinates along the labels that matter, and a tile.
pub(crate) struct Touches {
    /// The labels that matter; along all others everything needs the same.
    pub(crate) labels: Vec<usize>,
    /// Coordinates along them, one after another.
    pub(crate) steps: Vec<u32>,
    /// The tile for each step.
    pub(crate) tiles: Vec<u32>,
}

impl Touches {
    /// Everything that a read needs, by the labels that matter, or by all of them.
    pub(crate) fn of(
        tiled: &Tiled<'_>,
        read: &Read,
        tensor: &Tiles,
        ranges: &Ranges,
        by_all: bool,
    ) -> Touches {
        let labels = if by_all { (0..tiled.labels.counts.len()).collect() } else { tiled.labels_of(read) };
        let counts: Vec<u64> = labels.iter().map(|&label| tiled.labels.counts[label]).collect();
        let (mut steps, mut tiles) = (Vec::new(), Vec::new());
        let mut at = vec![u64::MAX; tiled.labels.counts.len()];
        let is_empty = tiled.labels.counts.contains(&0);
        each_of(&counts, &mut |step| {
            labels.iter().zip(step).for_each(|(&label, &n)| at[label] = n);
            if is_empty || !tiled.lives(&at, ranges) {
                return;
            }
            tiled.tiles(read, tensor, &at, ranges, |tile| {
                steps.extend(step.iter().map(|&n| n as u32));
                tiles.push(tile as u32);
            });
        });
        Touches { labels, steps, tiles }
    }
}

fn decided(holds: bool, fails: bool) -> Option<bool> {
    match (holds, fails) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

fn indices(at: &Affine) -> Vec<usize> {
    at.factors()
        .filter_map(|(symbol, _)| match symbol {
            Symbol::Index(index) => Some(index.0 as usize),
            Symbol::Slot(_) => None,
        })
        .collect()
}

/// The labels that can decide a condition, without looking at data.
fn decisive(condition: &Element) -> Vec<usize> {
    match &condition.node {
        ElementNode::Unary(UnaryOp::Not, a) => decisive(a),
        ElementNode::Binary(op, a, b) if op.is_logical() => [decisive(a), decisive(b)].concat(),
        ElementNode::Binary(op, a, b) if op.is_comparison() => match (as_position(a), as_position(b)) {
            (Some(a), Some(b)) => [indices(&a), indices(&b)].concat(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn as_position(element: &Element) -> Option<Affine> {
    match &element.node {
        ElementNode::Position(at) => Some(at.clone()),
        ElementNode::Constant(lacus_tensor::Scalar::I64(n)) => Some(Affine::constant(*n)),
        _ => None,
    }
}

/// What is assumed of a number of which nothing is known: more than any tensor is long, and small enough to add to.
const ANY: (i64, i64) = (i64::MIN / 4, i64::MAX / 4);

/// The range of a number that follows from counters.
fn number_range(network: &Network, slot: Slot, ranges: &Ranges) -> (i64, i64) {
    let found = match &network.value(slot).made {
        Made::Counter(_) => ranges.get(&slot).copied(),
        Made::Parameter(element) => {
            let exact = ranges.iter().filter(|(_, (low, high))| low == high);
            let known = exact.map(|(slot, (low, _))| (*slot, *low)).collect();
            match network.evaluate(element, &known) {
                Some(value) => Some((value.to_i64(), value.to_i64())),
                None => element_range(network, element, ranges),
            }
        }
        _ => None,
    };
    found.unwrap_or(ANY)
}

fn element_range(network: &Network, element: &Element, ranges: &Ranges) -> Option<(i64, i64)> {
    let clamp = |n: i128| n.clamp(i128::from(ANY.0), i128::from(ANY.1)) as i64;
    match &element.node {
        ElementNode::Constant(lacus_tensor::Scalar::I64(n)) => Some((*n, *n)),
        ElementNode::Position(at) => {
            let (low, high) = at.range(|symbol| match symbol {
                Symbol::Slot(inner) => number_range(network, inner, ranges),
                Symbol::Index(_) => ANY,
            });
            Some((clamp(low), clamp(high)))
        }
        ElementNode::Read(slot, _) => Some(number_range(network, *slot, ranges)),
        ElementNode::Binary(op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), a, b) => {
            let wide = |(low, high): (i64, i64)| (i128::from(low), i128::from(high));
            let (a, b) = (wide(element_range(network, a, ranges)?), wide(element_range(network, b, ranges)?));
            let ends = match op {
                BinaryOp::Add => [a.0 + b.0, a.1 + b.1, a.0 + b.0, a.1 + b.1],
                BinaryOp::Sub => [a.0 - b.1, a.1 - b.0, a.0 - b.1, a.1 - b.0],
                _ => [a.0 * b.0, a.0 * b.1, a.1 * b.0, a.1 * b.1],
            };
            let low = ends.iter().copied().fold(i128::MAX, i128::min);
            let high = ends.iter().copied().fold(i128::MIN, i128::max);
            Some((clamp(low), clamp(high)))
        }
        _ => None,
    }
}
