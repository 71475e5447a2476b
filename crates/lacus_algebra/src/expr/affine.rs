//! Positions along an axis: sums of indices times whole numbers.

use std::collections::BTreeMap;
use std::fmt;

/// An index of a comprehension, numbered within its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Index(pub u32);

/// A variable of a checked program, numbered within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub usize);

/// What an affine position depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Symbol {
    /// An index that runs.
    Index(Index),
    /// A whole number that a loop counts or that was computed from one.
    Slot(Slot),
}

/// `Σ factor · symbol + offset`, without symbols of factor 0.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Affine {
    factors: BTreeMap<Symbol, i64>,
    offset: i64,
}

impl Affine {
    /// A number.
    pub fn constant(offset: i64) -> Affine {
        Affine { factors: BTreeMap::new(), offset }
    }

    /// A symbol alone.
    pub fn symbol(symbol: Symbol) -> Affine {
        Affine { factors: BTreeMap::from([(symbol, 1)]), offset: 0 }
    }

    /// An index alone.
    pub fn index(index: Index) -> Affine {
        Affine::symbol(Symbol::Index(index))
    }

    /// Symbols and their factors.
    pub fn factors(&self) -> impl Iterator<Item = (Symbol, i64)> + '_ {
        self.factors.iter().map(|(&symbol, &factor)| (symbol, factor))
    }

    /// What is added.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// The factor of a symbol, 0 where it does not occur.
    pub fn factor(&self, symbol: Symbol) -> i64 {
        self.factors.get(&symbol).copied().unwrap_or(0)
    }

    /// The number, when there is nothing else.
    pub fn as_constant(&self) -> Option<i64> {
        self.factors.is_empty().then_some(self.offset)
    }

    /// The index, when it stands alone.
    pub fn as_index(&self) -> Option<Index> {
        match (self.factors.iter().next(), self.factors.len(), self.offset) {
            (Some((&Symbol::Index(index), 1)), 1, 0) => Some(index),
            _ => None,
        }
    }

    /// `self + other · times`, or `None` when a number exceeds 64 bits.
    pub fn plus(&self, other: &Affine, times: i64) -> Option<Affine> {
        let mut sum = self.clone();
        sum.offset = sum.offset.checked_add(other.offset.checked_mul(times)?)?;
        for (symbol, factor) in other.factors() {
            let entry = sum.factors.entry(symbol).or_insert(0);
            *entry = entry.checked_add(factor.checked_mul(times)?)?;
        }
        sum.factors.retain(|_, factor| *factor != 0);
        Some(sum)
    }

    /// This position with an index replaced, or `None` when a number exceeds 64 bits.
    pub fn substitute(&self, index: Index, by: &Affine) -> Option<Affine> {
        let symbol = Symbol::Index(index);
        let factor = self.factor(symbol);
        if factor == 0 {
            return Some(self.clone());
        }
        let mut rest = self.clone();
        rest.factors.remove(&symbol);
        rest.plus(by, factor)
    }

    /// This position with every symbol replaced, or `None` when a number exceeds 64 bits.
    pub fn replace(&self, mut by: impl FnMut(Symbol) -> Affine) -> Option<Affine> {
        let start = Affine::constant(self.offset);
        self.factors().try_fold(start, |sum, (symbol, factor)| sum.plus(&by(symbol), factor))
    }

    /// The value where each symbol has the value `of` says. Wraps beyond 64 bits.
    pub fn value(&self, mut of: impl FnMut(Symbol) -> i64) -> i64 {
        self.factors()
            .fold(self.offset, |sum, (symbol, factor)| sum.wrapping_add(factor.wrapping_mul(of(symbol))))
    }

    /// The least and greatest values where each symbol lies within the (closed) range that `of` says.
    pub fn range(&self, mut of: impl FnMut(Symbol) -> (i64, i64)) -> (i128, i128) {
        self.factors().fold(
            (i128::from(self.offset), i128::from(self.offset)),
            |(low, high), (symbol, factor)| {
                let (least, most) = of(symbol);
                let ends = [i128::from(least) * i128::from(factor), i128::from(most) * i128::from(factor)];
                (low + ends[0].min(ends[1]), high + ends[0].max(ends[1]))
            },
        )
    }
}

impl fmt::Display for Affine {
    /// Indices as `x3`, variables as `v2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (symbol, factor) in self.factors() {
            let name = match symbol {
                Symbol::Index(index) => format!("x{}", index.0),
                Symbol::Slot(slot) => format!("v{}", slot.0),
            };
            match (first, factor) {
                (true, 1) => write!(f, "{name}")?,
                (true, -1) => write!(f, "-{name}")?,
                (true, _) => write!(f, "{factor}*{name}")?,
                (false, 1) => write!(f, " + {name}")?,
                (false, -1) => write!(f, " - {name}")?,
                (false, _) if factor < 0 => write!(f, " - {}*{name}", factor.unsigned_abs())?,
                (false, _) => write!(f, " + {factor}*{name}")?,
            }
            first = false;
        }
        match (first, self.offset) {
            (true, offset) => write!(f, "{offset}"),
            (false, 0) => Ok(()),
            (false, offset) if offset < 0 => write!(f, " - {}", offset.unsigned_abs()),
            (false, offset) => write!(f, " + {offset}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_add_substitute_and_know_their_range() {
        let [i, j] = [Index(0), Index(1)];
        let twice = Affine::constant(3).plus(&Affine::index(i), 2).unwrap();
        assert_eq!(twice.to_string(), "2*x0 + 3");
        let both = twice.plus(&Affine::index(j), -1).unwrap();
        assert_eq!(both.to_string(), "2*x0 - x1 + 3");
        assert_eq!(both.range(|_| (0, 9)), (-6, 21));
        assert_eq!(both.substitute(j, &twice).unwrap(), Affine::default());
        assert_eq!(Affine::index(i).as_index(), Some(i));
        assert_eq!(twice.as_index(), None);
        assert_eq!(Affine::constant(i64::MAX).plus(&Affine::constant(1), 1), None);
    }
}
