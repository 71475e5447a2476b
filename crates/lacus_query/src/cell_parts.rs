//! Which part of an array a query wants, and how that is cut into pieces that fit into memory. No value is read.
//!
//! A part is a box. One that is too large is cut in two where chunks meet, along the first axis that makes sense: so parts
//! follow each other in C order as long as a slab of chunks fits. A sparse array is cut by what is stored, not by its shape, which may be
//! huge and empty.

use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use lacus_table::{Amount, ArrayRead, TableError, TensorInfo};
use lacus_tensor::{DType, Index};

/// Bytes of decoded cells that are in memory at a time, for each partition.
const PART_BYTES: u64 = 16 << 20;

/// Parts that are known before anything is read. What is larger still is cut while it is read.
const KNOWN_PARTS: usize = 1024;

/// A box of an array: a half-open range per axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part(Vec<(u64, u64)>);

impl Part {
    pub(crate) fn ranges(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// Keeps what lies in a range of an axis.
    pub(crate) fn narrow(&mut self, axis: usize, from: i128, to: i128) {
        let (low, high) = &mut self.0[axis];
        let clamped = |at: i128| at.clamp(i128::from(*low), i128::from(*high)) as u64;
        let (from, to) = (clamped(from), clamped(to));
        (*low, *high) = (from, to.max(from));
    }

    fn is_empty(&self) -> bool {
        self.0.iter().any(|(from, to)| from == to)
    }

    /// How many elements it has; `u64::MAX` if there are more.
    fn elements(&self) -> u64 {
        if self.is_empty() {
            return 0;
        }
        self.0.iter().fold(1, |count, (from, to)| count.saturating_mul(to - from))
    }

    fn indices(&self) -> Vec<Index> {
        // No axis is longer than numbers of 63 bits reach.
        let slice = |&(from, to): &(u64, u64)| Index::Slice {
            start: i64::try_from(from).ok(),
            stop: i64::try_from(to).ok(),
            step: None,
        };
        self.0.iter().map(slice).collect()
    }

    /// Coordinates on an axis of some elements, which are counted in C order.
    pub(crate) fn coordinates(&self, axis: usize, from: u64, to: u64) -> Vec<i64> {
        let (start, end) = self.0[axis];
        let repeats: u64 = self.0[axis + 1..].iter().map(|(from, to)| to - from).product();
        let mut found = Vec::with_capacity((to - from) as usize);
        let (mut at, mut left) = (start + from / repeats % (end - start), repeats - from % repeats);
        let mut wanted = to - from;
        while wanted > 0 {
            let count = left.min(wanted);
            found.extend(std::iter::repeat_n(at as i64, count as usize));
            wanted -= count;
            (at, left) = (if at + 1 == end { start } else { at + 1 }, repeats);
        }
        found
    }

    fn cut_at(&self, axis: usize, at: u64) -> (Part, Part) {
        let (mut front, mut back) = (self.clone(), self.clone());
        front.0[axis].1 = at;
        back.0[axis].0 = at;
        (front, back)
    }
}

/// A part in pieces.
#[derive(Debug)]
pub(crate) struct Cut {
    pub parts: Vec<Part>,
    /// Whether cells that are read piece by piece come in C order.
    pub is_in_order: bool,
}

/// Cuts an array into parts.
#[derive(Debug)]
pub(crate) struct Splitter {
    info: TensorInfo,
    read: ArrayRead,
    all: Amount,
    most_bytes: u64,
}

impl Splitter {
    /// Of an array, all of which `read` reads.
    pub(crate) fn new(info: TensorInfo, read: ArrayRead) -> Splitter {
        let all = read.amount();
        Splitter { info, read, all, most_bytes: PART_BYTES }
    }

    pub(crate) fn name(&self) -> &str {
        &self.info.name
    }

    pub(crate) fn dtype(&self) -> DType {
        self.info.header.dtype
    }

    pub(crate) fn dims(&self) -> &[u64] {
        self.info.header.shape.dims()
    }

    pub(crate) fn rank(&self) -> usize {
        self.dims().len()
    }

    /// Whether it has no row for elements that are not stored.
    pub(crate) fn is_sparse(&self) -> bool {
        self.info.header.layout.is_sparse()
    }

    /// Whether it is stored cell by cell.
    pub(crate) fn is_cells(&self) -> bool {
        self.info.header.layout.name() == "COO"
    }

    /// How many rows of the table hold the array.
    pub(crate) fn rows(&self) -> u64 {
        self.all.rows
    }

    /// The whole array.
    pub(crate) fn whole(&self) -> Part {
        Part(self.dims().iter().map(|size| (0, *size)).collect())
    }

    /// As numpy writes it.
    pub(crate) fn shown(&self, part: &Part) -> String {
        let axis = |(&(from, to), &size): (&(u64, u64), &u64)| match (from, to) {
            (0, to) if to == size => ":".to_owned(),
            (from, to) => format!("{from}:{to}"),
        };
        let axes: Vec<String> = part.0.iter().zip(self.dims()).map(axis).collect();
        axes.join(", ")
    }

    pub(crate) fn plan(&self, part: &Part) -> Result<ArrayRead, TableError> {
        self.read.of_part(&part.indices())
    }

    /// What of the stored array is read for a part.
    pub(crate) fn amount(&self, part: &Part) -> Result<Amount, TableError> {
        if part.is_empty() {
            return Ok(Amount::default());
        }
        self.read.amount_of_part(&part.indices())
    }

    /// How many cells a part has, and whether that is known exactly.
    pub(crate) fn cells(&self, part: &Part) -> Result<(u64, bool), TableError> {
        if !self.is_sparse() || part.is_empty() {
            let count = part.elements();
            return Ok((count, count < u64::MAX));
        }
        match self.info.header.nnz {
            Some(nnz) if *part == self.whole() => Ok((nnz, true)),
            _ => Ok((self.about(self.amount(part)?), false)),
        }
    }

    /// About how many cells so much holds.
    fn about(&self, amount: Amount) -> u64 {
        match self.info.header.nnz {
            Some(nnz) if !self.is_cells() => {
                let share = u128::from(nnz) * u128::from(amount.bytes) / u128::from(self.all.bytes.max(1));
                u64::try_from(share).unwrap_or(u64::MAX)
            }
            _ => amount.rows,
        }
    }

    /// Bytes that the cells of so much take in memory.
    fn bytes(&self, amount: Amount) -> u64 {
        let width = 8 * self.rank() + self.dtype().size_bytes();
        self.about(amount).saturating_mul(width as u64)
    }

    /// A part in pieces that fit into memory.
    pub(crate) fn cut(&self, part: Part) -> Result<Cut, TableError> {
        let mut cut = Cut { parts: Vec::new(), is_in_order: true };
        let mut rest = vec![part];
        while let Some(part) = rest.pop() {
            if part.is_empty() {
                continue;
            }
            let is_enough = cut.parts.len() + rest.len() >= KNOWN_PARTS;
            match self.split(&part)? {
                Some(_) if is_enough => {
                    cut.is_in_order = false;
                    cut.parts.push(part);
                }
                Some((axis, front, back)) => {
                    cut.is_in_order &= part.0[..axis].iter().all(|(from, to)| to - from == 1);
                    rest.extend([back, front]);
                }
                None => cut.parts.push(part),
            }
        }
        Ok(cut)
    }

    /// The two halves of a part that is too large, and the axis along which it is cut. `None` if it fits, or cannot be cut.
    pub(crate) fn split(&self, part: &Part) -> Result<Option<(usize, Part, Part)>, TableError> {
        if !self.is_sparse() {
            let bytes = part.elements().saturating_mul(self.dtype().size_bytes() as u64);
            if bytes <= self.most_bytes {
                return Ok(None);
            }
            let halves = (0..self.rank()).find_map(|axis| {
                let (front, back) = part.cut_at(axis, self.middle(part, axis)?);
                Some((axis, front, back))
            });
            return Ok(halves);
        }
        let whole = self.amount(part)?;
        if self.bytes(whole) <= self.most_bytes {
            return Ok(None);
        }
        // Along some axes both halves need the same chunks: those are no use.
        let mut best: Option<(u64, (usize, Part, Part))> = None;
        for axis in 0..self.rank() {
            let Some(at) = self.middle(part, axis) else { continue };
            let (front, back) = part.cut_at(axis, at);
            let bytes = self.amount(&front)?.bytes + self.amount(&back)?.bytes;
            if bytes < whole.bytes + whole.bytes / 2 && best.as_ref().is_none_or(|(least, _)| bytes < *least)
            {
                best = Some((bytes, (axis, front, back)));
            }
        }
        Ok(best.map(|(_, halves)| halves))
    }

    /// Where chunks meet in the middle of a part, if they do.
    fn middle(&self, part: &Part, axis: usize) -> Option<u64> {
        let side = self.info.header.chunk_shape().map_or(1, |sides| sides[axis].max(1));
        let (from, to) = part.0[axis];
        let (first, last) = (from / side, (to - 1) / side);
        (last > first).then(|| (first + (last - first).div_ceil(2)) * side)
    }
}

/// What a predicate says of a coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AxisRange {
    pub axis: usize,
    /// From here on.
    pub from: i128,
    /// Up to here, excluded.
    pub to: i128,
    /// Whether the predicate is true for all of the range.
    pub is_exact: bool,
}

/// The range of coordinates outside of which a predicate is false; `None` if it says nothing of the kind.
pub(crate) fn range_of(predicate: &Expr, rank: usize) -> Option<AxisRange> {
    match predicate {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            match (range_of(left, rank), range_of(right, rank)) {
                (Some(left), Some(right)) if left.axis == right.axis => Some(AxisRange {
                    from: left.from.max(right.from),
                    to: left.to.min(right.to),
                    is_exact: left.is_exact && right.is_exact,
                    ..left
                }),
                (one, other) => one.or(other).map(|range| AxisRange { is_exact: false, ..range }),
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let (left, right) = (range_of(left, rank)?, range_of(right, rank)?);
            (left.axis == right.axis).then(|| hull(left, right))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (axis(left, rank), integer(right)) {
            (Some(axis), Some(value)) => compared(axis, *op, value),
            _ => compared(axis(right, rank)?, op.swap()?, integer(left)?),
        },
        Expr::InList(InList { expr, list, negated: false }) => {
            let axis = axis(expr, rank)?;
            let mut values = list.iter().map(|value| compared(axis, Operator::Eq, integer(value)?));
            let first = values.next()??;
            values.try_fold(first, |range, value| Some(hull(range, value?)))
        }
        Expr::Between(between) if !between.negated => {
            let axis = axis(&between.expr, rank)?;
            let (from, to) = (integer(&between.low)?, integer(&between.high)?);
            Some(AxisRange { axis, from, to: to + 1, is_exact: true })
        }
        Expr::Alias(alias) => range_of(&alias.expr, rank),
        _ => None,
    }
}

fn compared(axis: usize, op: Operator, value: i128) -> Option<AxisRange> {
    let (from, to) = match op {
        Operator::Eq => (value, value + 1),
        Operator::Lt => (i128::MIN, value),
        Operator::LtEq => (i128::MIN, value + 1),
        Operator::Gt => (value + 1, i128::MAX),
        Operator::GtEq => (value, i128::MAX),
        _ => return None,
    };
    Some(AxisRange { axis, from, to, is_exact: true })
}

/// A range that has two others and what is between them.
fn hull(one: AxisRange, other: AxisRange) -> AxisRange {
    let is_exact = one.is_exact && other.is_exact && one.from.max(other.from) <= one.to.min(other.to);
    AxisRange { axis: one.axis, from: one.from.min(other.from), to: one.to.max(other.to), is_exact }
}

/// The axis that a column `c3` is of.
fn axis(expr: &Expr, rank: usize) -> Option<usize> {
    let Expr::Column(Column { name, .. }) = expr else { return None };
    (0..rank).find(|axis| name.strip_prefix('c') == Some(axis.to_string().as_str()))
}

fn integer(expr: &Expr) -> Option<i128> {
    let Expr::Literal(value, _) = expr else { return None };
    Some(match value {
        ScalarValue::Int8(Some(value)) => (*value).into(),
        ScalarValue::Int16(Some(value)) => (*value).into(),
        ScalarValue::Int32(Some(value)) => (*value).into(),
        ScalarValue::Int64(Some(value)) => (*value).into(),
        ScalarValue::UInt8(Some(value)) => (*value).into(),
        ScalarValue::UInt16(Some(value)) => (*value).into(),
        ScalarValue::UInt32(Some(value)) => (*value).into(),
        ScalarValue::UInt64(Some(value)) => (*value).into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::{col, lit};

    #[test]
    fn predicates_become_ranges() {
        let check = |expr: Expr, expected: Option<(usize, i128, i128, bool)>| {
            let found = range_of(&expr, 2).map(|range| (range.axis, range.from, range.to, range.is_exact));
            assert_eq!(found, expected, "{expr}");
        };
        let (c0, c1) = (|| col("c0"), || col("c1"));
        check(c0().eq(lit(3i64)), Some((0, 3, 4, true)));
        check(lit(3i64).gt(c1()), Some((1, i128::MIN, 3, true)));
        check(c1().gt_eq(lit(-2i64)), Some((1, -2, i128::MAX, true)));
        check(c0().between(lit(2i64), lit(5i64)), Some((0, 2, 6, true)));
        check(c0().gt(lit(2i64)).and(c0().lt_eq(lit(5i64))), Some((0, 3, 6, true)));
        check(c0().gt(lit(2i64)).and(c1().lt_eq(lit(5i64))), Some((0, 3, i128::MAX, false)));
        check(c0().in_list(vec![lit(9i64), lit(2i64)], false), Some((0, 2, 10, false)));
        check(c0().in_list(vec![lit(3i64), lit(2i64)], false), Some((0, 2, 4, true)));
        check(c0().in_list(vec![lit(3i64)], true), None);
        check(c0().eq(lit(1i64)).or(c0().eq(lit(7i64))), Some((0, 1, 8, false)));
        check(c0().eq(lit(1i64)).or(c1().eq(lit(7i64))), None);
        check(c0().not_eq(lit(1i64)), None);
        check(c0().lt(c1()), None);
        check(col("c2").eq(lit(1i64)), None);
        check(col("value").eq(lit(1i64)), None);
        check(c0().lt(lit(1.5)), None);
        check(c0().eq(lit(u64::MAX)), Some((0, u64::MAX.into(), i128::from(u64::MAX) + 1, true)));
    }

    #[test]
    fn narrowing_stays_inside() {
        let check = |from: i128, to: i128, expected: (u64, u64)| {
            let mut part = Part(vec![(2, 10)]);
            part.narrow(0, from, to);
            assert_eq!(part.0, [expected], "{from}..{to}");
        };
        check(i128::MIN, i128::MAX, (2, 10));
        check(3, 7, (3, 7));
        check(-5, 3, (2, 3));
        check(-5, -3, (2, 2));
        check(50, 60, (10, 10));
        check(7, 3, (7, 7));
    }

    #[test]
    fn coordinates_are_those_of_c_order() {
        let part = Part(vec![(1, 3), (5, 6), (2, 5)]);
        let all: Vec<[i64; 3]> = (1..3).flat_map(|a| (2..5).map(move |c| [a, 5, c])).collect();
        for from in 0..6u64 {
            for to in from..=6 {
                for axis in 0..3 {
                    let expected: Vec<i64> =
                        all[from as usize..to as usize].iter().map(|at| at[axis]).collect();
                    assert_eq!(part.coordinates(axis, from, to), expected, "axis {axis}, {from}..{to}");
                }
            }
        }
    }
}
