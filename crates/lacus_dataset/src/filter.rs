//! Which rows are wanted: comparisons of columns with constants, joined by and, or, not. Plain data; nothing is read here.
//!
//! ```
//! use lacus_dataset::{Compare, Filter};
//! let cats = Filter::compare("label", Compare::Equal, "cat").and(Filter::compare("score", Compare::Above, 0.5));
//! assert_eq!(cats.columns(), ["label", "score"]);
//! ```
//!
//! As in SQL, a comparison with a missing sample is neither true nor false, nor is its opposite; only rows for which the whole
//! is true are wanted. As in numpy, NaN differs from everything and is neither below nor above anything.

use std::cmp::Ordering;

use lacus_table::Zone;
use lacus_tensor::DType;

/// What is asked of each row.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// The sample of a column compared with a constant.
    Compare(String, Compare, Constant),
    /// The sample of a column is one of some constants.
    In(String, Vec<Constant>),
    /// The size of an axis of a column's tensors, compared with a number. Of tensors without that axis it is neither true nor
    /// false.
    Size(String, usize, Compare, u64),
    /// A column has no sample.
    Missing(String),
    /// All of these.
    All(Vec<Filter>),
    /// One of these at least.
    Any(Vec<Filter>),
    /// Not this.
    Not(Box<Filter>),
}

/// A way to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// `=`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

/// A constant that samples are compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// A whole number, of any integer dtype; booleans are 0 and 1.
    Int(i128),
    /// A float.
    Float(f64),
    /// A text, or the name of a class.
    Text(String),
}

impl Filter {
    /// A comparison of a column's samples with a constant.
    pub fn compare(column: impl Into<String>, how: Compare, constant: impl Into<Constant>) -> Filter {
        Filter::Compare(column.into(), how, constant.into())
    }

    /// This and another.
    pub fn and(self, other: Filter) -> Filter {
        Filter::All(vec![self, other])
    }

    /// This or another.
    pub fn or(self, other: Filter) -> Filter {
        Filter::Any(vec![self, other])
    }

    /// The columns that are looked at, each once.
    pub fn columns(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.visit(&mut |column| {
            if !names.contains(&column) {
                names.push(column);
            }
        });
        names
    }

    fn visit<'a>(&'a self, see: &mut impl FnMut(&'a str)) {
        match self {
            Filter::Compare(column, ..)
            | Filter::In(column, _)
            | Filter::Size(column, ..)
            | Filter::Missing(column) => see(column),
            Filter::All(parts) | Filter::Any(parts) => parts.iter().for_each(|part| part.visit(see)),
            Filter::Not(part) => part.visit(see),
        }
    }
}

impl From<i64> for Constant {
    fn from(value: i64) -> Constant {
        Constant::Int(value.into())
    }
}

impl From<u64> for Constant {
    fn from(value: u64) -> Constant {
        Constant::Int(value.into())
    }
}

impl From<bool> for Constant {
    fn from(value: bool) -> Constant {
        Constant::Int(value.into())
    }
}

impl From<f64> for Constant {
    fn from(value: f64) -> Constant {
        Constant::Float(value)
    }
}

impl From<&str> for Constant {
    fn from(value: &str) -> Constant {
        Constant::Text(value.to_owned())
    }
}

impl Compare {
    /// Whether values that stand like this to the constant are wanted; `None` is NaN.
    pub(crate) fn accepts(self, order: Option<Ordering>) -> bool {
        match (self, order) {
            (Compare::Unequal, None) => true,
            (_, None) => false,
            (Compare::Equal, Some(order)) => order.is_eq(),
            (Compare::Unequal, Some(order)) => order.is_ne(),
            (Compare::Below, Some(order)) => order.is_lt(),
            (Compare::AtMost, Some(order)) => order.is_le(),
            (Compare::Above, Some(order)) => order.is_gt(),
            (Compare::AtLeast, Some(order)) => order.is_ge(),
        }
    }
}

impl Constant {
    /// How a value stands to this one; `None` if one of them is NaN, or if they cannot be compared.
    pub(crate) fn order_of(&self, value: &Constant) -> Option<Ordering> {
        match (value, self) {
            (Constant::Int(a), Constant::Int(b)) => Some(a.cmp(b)),
            (Constant::Float(a), Constant::Float(b)) => a.partial_cmp(b),
            (Constant::Int(a), Constant::Float(b)) => int_to_float(*a, *b),
            (Constant::Float(a), Constant::Int(b)) => int_to_float(*b, *a).map(Ordering::reverse),
            (Constant::Text(a), Constant::Text(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }
}

/// How a whole number stands to a float, exactly: it is not rounded.
fn int_to_float(int: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    let whole = float.floor();
    // Integers of a dtype have 65 bits at most. A cast keeps what is beyond at the ends.
    Some(match int.cmp(&(whole as i128)) {
        Ordering::Equal if float > whole => Ordering::Less,
        order => order,
    })
}

/// Values of some rows, between bounds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bounds {
    /// The least and the greatest; `None` where there is no such bound.
    low: Option<Constant>,
    high: Option<Constant>,
    /// Whether there are values between them, and whether there are NaNs.
    has_values: bool,
    has_nans: bool,
}

impl Bounds {
    /// What a zone says of samples of a dtype.
    pub(crate) fn of(zone: &Zone, dtype: Option<DType>) -> Bounds {
        let between = |low, high| Bounds { low, high, has_values: true, has_nans: false };
        match zone {
            // By their bits, large unsigned numbers lie below zero: a zone with both says nothing.
            Zone::Int(low, high) if dtype == Some(DType::U64) => match (*low < 0, *high < 0) {
                (true, false) => between(None, None),
                _ => {
                    let unsigned = |bits: i64| Some(Constant::Int((bits as u64).into()));
                    between(unsigned(*low), unsigned(*high))
                }
            },
            Zone::Int(low, high) => {
                between(Some(Constant::Int((*low).into())), Some(Constant::Int((*high).into())))
            }
            Zone::Float(low, high, nans) => Bounds {
                low: Some(Constant::Float(*low)),
                high: Some(Constant::Float(*high)),
                has_values: low <= high,
                has_nans: *nans > 0,
            },
            // Not of samples, but of their sizes: see `sizes`.
            Zone::Shape(..) => between(None, None),
            Zone::Text(low, high) => {
                between(Some(Constant::Text(low.clone())), high.clone().map(Constant::Text))
            }
        }
    }

    /// What a zone says of the sizes of an axis.
    pub(crate) fn sizes(zone: &Zone, axis: usize) -> Bounds {
        let size = |sizes: &[i64]| sizes.get(axis).map(|size| Constant::from(*size));
        let (low, high, has_values) = match zone {
            Zone::Shape(low, high) => (size(low), size(high), axis < low.len()),
            _ => (None, None, true),
        };
        Bounds { low, high, has_values, has_nans: false }
    }

    /// Whether a comparison may be true (or false, if `wanted` is) of one of these values.
    pub(crate) fn may(&self, how: Compare, constant: &Constant, wanted: bool) -> bool {
        if self.has_nans && how.accepts(None) == wanted {
            return true;
        }
        if !self.has_values {
            return false;
        }
        // The comparison that is true of numbers where this one is false.
        let how = match (how, wanted) {
            (how, true) => how,
            (Compare::Equal, _) => Compare::Unequal,
            (Compare::Unequal, _) => Compare::Equal,
            (Compare::Below, _) => Compare::AtLeast,
            (Compare::AtMost, _) => Compare::Above,
            (Compare::Above, _) => Compare::AtMost,
            (Compare::AtLeast, _) => Compare::Below,
        };
        // A constant that is NaN, or of another kind, is in no order: rows are looked at.
        let order = |bound: &Option<Constant>| match bound {
            Some(bound) => constant.order_of(bound).map(Some),
            None => Some(None),
        };
        let (Some(low), Some(high)) = (order(&self.low), order(&self.high)) else { return true };
        match how {
            Compare::Equal => low.is_none_or(Ordering::is_le) && high.is_none_or(Ordering::is_ge),
            Compare::Unequal => low != Some(Ordering::Equal) || high != Some(Ordering::Equal),
            Compare::Below => low.is_none_or(Ordering::is_lt),
            Compare::AtMost => low.is_none_or(Ordering::is_le),
            Compare::Above => high.is_none_or(Ordering::is_gt),
            Compare::AtLeast => high.is_none_or(Ordering::is_ge),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Compare; 6] =
        [Compare::Equal, Compare::Unequal, Compare::Below, Compare::AtMost, Compare::Above, Compare::AtLeast];

    #[test]
    fn whole_numbers_and_floats_compare_exactly() {
        let check = |int: i128, float: f64, expected: Option<Ordering>| {
            assert_eq!(Constant::Float(float).order_of(&Constant::Int(int)), expected, "{int} {float}");
            let back = Constant::Int(int).order_of(&Constant::Float(float));
            assert_eq!(back, expected.map(Ordering::reverse), "{float} {int}");
        };
        check((1 << 53) + 1, 9007199254740992.0, Some(Ordering::Greater));
        check(3, 3.5, Some(Ordering::Less));
        check(-3, -3.5, Some(Ordering::Greater));
        check(0, -0.0, Some(Ordering::Equal));
        check(i128::from(u64::MAX), f64::INFINITY, Some(Ordering::Less));
        check(i128::from(i64::MIN), f64::NEG_INFINITY, Some(Ordering::Greater));
        check(0, f64::NAN, None);
    }

    #[test]
    fn no_value_is_ruled_out_by_its_bounds() {
        // Every value of a small set, the bounds of every pair of them, every comparison: what is true of one is possible.
        let floats = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 2.0, f64::INFINITY, f64::NAN];
        for a in floats {
            for b in floats {
                let ordered: Vec<f64> = [a, b].into_iter().filter(|value| !value.is_nan()).collect();
                let low = ordered.iter().copied().fold(f64::INFINITY, f64::min);
                let high = ordered.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let bounds = Bounds::of(&Zone::Float(low, high, 2 - ordered.len() as u64), Some(DType::F64));
                for constant in floats.map(Constant::Float).into_iter().chain([Constant::Int(0)]) {
                    for how in ALL {
                        for value in [a, b] {
                            let is = how.accepts(constant.order_of(&Constant::Float(value)));
                            assert!(bounds.may(how, &constant, is), "{a} {b} {how:?} {constant:?}");
                        }
                    }
                }
            }
        }
        let ints = [0u64, 1, 7, i64::MAX as u64, 1 << 63, u64::MAX];
        for a in ints {
            for b in ints {
                let (low, high) = ((a as i64).min(b as i64), (a as i64).max(b as i64));
                let bounds = Bounds::of(&Zone::Int(low, high), Some(DType::U64));
                for constant in ints.map(Constant::from).into_iter().chain([Constant::Int(-1)]) {
                    for how in ALL {
                        for value in [a, b] {
                            let is = how.accepts(constant.order_of(&Constant::from(value)));
                            assert!(bounds.may(how, &constant, is), "{a} {b} {how:?} {constant:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn bounds_rule_out_what_is_beyond() {
        let ints = Bounds::of(&Zone::Int(3, 5), Some(DType::I64));
        let check = |bounds: &Bounds, how, constant: Constant, wanted, expected| {
            assert_eq!(bounds.may(how, &constant, wanted), expected, "{how:?} {constant:?} {wanted}");
        };
        check(&ints, Compare::Equal, 6i64.into(), true, false);
        check(&ints, Compare::Equal, 4i64.into(), true, true);
        check(&ints, Compare::Below, 3i64.into(), true, false);
        check(&ints, Compare::Below, 6i64.into(), false, false);
        check(&ints, Compare::AtMost, 2.5.into(), true, false);
        let same = Bounds::of(&Zone::Int(4, 4), Some(DType::I64));
        check(&same, Compare::Unequal, 4i64.into(), true, false);
        check(&same, Compare::Equal, 4i64.into(), false, false);
        let texts = Bounds::of(&Zone::Text("b".into(), Some("d".into())), None);
        check(&texts, Compare::Equal, "a".into(), true, false);
        check(&texts, Compare::Above, "d".into(), true, false);
        check(&Bounds::of(&Zone::Text("b".into(), None), None), Compare::Above, "z".into(), true, true);
        let sizes = |axis: usize| Bounds::sizes(&Zone::Shape(vec![2, 4], vec![9, 4]), axis);
        check(&sizes(0), Compare::Above, 9u64.into(), true, false);
        check(&sizes(1), Compare::Equal, 4u64.into(), true, true);
        check(&sizes(2), Compare::Unequal, 4u64.into(), true, false);
        let nans = Bounds::of(&Zone::Float(f64::INFINITY, f64::NEG_INFINITY, 2), Some(DType::F64));
        check(&nans, Compare::Equal, 1.0.into(), true, false);
        check(&nans, Compare::Unequal, 1.0.into(), true, true);
        check(&nans, Compare::Below, 1.0.into(), false, true);
    }
}
