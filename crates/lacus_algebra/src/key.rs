//! Keys of tiles, and functions and conditions on them as data: they can be printed, composed, and followed
//! backwards, which closures cannot.
//!
//! ```text
//! ⟨k0, k1⟩ → ⟨k1⟩             projection        ⟨k0, k1⟩ → ⟨2·k0 + k1⟩     affine
//! ⟨k0⟩ → ⟨⌊k0/4⌋, k0 mod 4⟩   floor and modulo  compositions of all of these
//! ```

use crate::error::AlgebraError;
use std::fmt;

/// The key of a tile: one number per dimension.
pub type Key = Vec<i64>;

/// One number computed from a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyTerm {
    /// A part of the key.
    Part(usize),
    /// `Σ factor · term + offset`
    Sum(Vec<(i64, KeyTerm)>, i64),
    /// `⌊term / divisor⌋`, with a divisor of at least 1
    Floor(Box<KeyTerm>, i64),
    /// `term mod divisor` from 0 up, with a divisor of at least 1
    Modulo(Box<KeyTerm>, i64),
}

impl KeyTerm {
    /// A number.
    pub fn constant(value: i64) -> KeyTerm {
        KeyTerm::Sum(Vec::new(), value)
    }

    /// The number for a key. Parts the key does not have count as 0.
    pub fn value(&self, key: &[i64]) -> i64 {
        match self {
            KeyTerm::Part(at) => key.get(*at).copied().unwrap_or(0),
            KeyTerm::Sum(terms, offset) => terms
                .iter()
                .fold(*offset, |sum, (factor, term)| sum.wrapping_add(factor.wrapping_mul(term.value(key)))),
            KeyTerm::Floor(term, by) => term.value(key).div_euclid((*by).max(1)),
            KeyTerm::Modulo(term, by) => term.value(key).rem_euclid((*by).max(1)),
        }
    }

    /// Least and greatest value over a box of keys, given by closed ranges. Exact when no part occurs twice and
    /// nothing is taken modulo; never too narrow.
    pub fn range(&self, domain: &[(i64, i64)]) -> (i64, i64) {
        match self {
            KeyTerm::Part(at) => domain.get(*at).copied().unwrap_or((0, 0)),
            KeyTerm::Sum(terms, offset) => {
                terms.iter().fold((*offset, *offset), |(low, high), (factor, term)| {
                    let (least, most) = term.range(domain);
                    let ends = [factor.saturating_mul(least), factor.saturating_mul(most)];
                    (low.saturating_add(ends[0].min(ends[1])), high.saturating_add(ends[0].max(ends[1])))
                })
            }
            KeyTerm::Floor(term, by) => {
                let (low, high) = term.range(domain);
                (low.div_euclid((*by).max(1)), high.div_euclid((*by).max(1)))
            }
            KeyTerm::Modulo(term, by) => {
                let by = (*by).max(1);
                let (low, high) = term.range(domain);
                if low.div_euclid(by) == high.div_euclid(by) {
                    (low.rem_euclid(by), high.rem_euclid(by))
                } else {
                    (0, by - 1)
                }
            }
        }
    }

    /// Narrows the box to keys that may give a value within `wanted`. False when none can.
    fn narrow(&self, wanted: (i64, i64), domain: &mut [(i64, i64)]) -> bool {
        match self {
            KeyTerm::Part(at) => match domain.get_mut(*at) {
                Some(range) => {
                    *range = (range.0.max(wanted.0), range.1.min(wanted.1));
                    range.0 <= range.1
                }
                None => wanted.0 <= 0 && 0 <= wanted.1,
            },
            KeyTerm::Sum(terms, offset) => {
                for (at, (factor, term)) in terms.iter().enumerate() {
                    if *factor == 0 {
                        continue;
                    }
                    // factor · term lies within wanted − offset − all others.
                    let others = terms.iter().enumerate().filter(|(other, _)| *other != at);
                    let (low, high) = others.fold((*offset, *offset), |(low, high), (_, (factor, term))| {
                        let (least, most) = term.range(domain);
                        let ends = [factor.saturating_mul(least), factor.saturating_mul(most)];
                        (low.saturating_add(ends[0].min(ends[1])), high.saturating_add(ends[0].max(ends[1])))
                    });
                    let (least, most) = (wanted.0.saturating_sub(high), wanted.1.saturating_sub(low));
                    let inner = if *factor > 0 {
                        (ceil_div(least, *factor), most.div_euclid(*factor))
                    } else {
                        (
                            ceil_div(most.saturating_neg(), factor.saturating_neg()),
                            least.saturating_neg().div_euclid(factor.saturating_neg()),
                        )
                    };
                    if !term.narrow(inner, domain) {
                        return false;
                    }
                }
                let (low, high) = self.range(domain);
                low <= wanted.1 && wanted.0 <= high
            }
            KeyTerm::Floor(term, by) => {
                let by = (*by).max(1);
                let low = wanted.0.saturating_mul(by);
                let high = wanted.1.saturating_mul(by).saturating_add(by - 1);
                term.narrow((low, high), domain)
            }
            KeyTerm::Modulo(..) => {
                let (low, high) = self.range(domain);
                low <= wanted.1 && wanted.0 <= high
            }
        }
    }

    fn substitute(&self, by: &[KeyTerm]) -> KeyTerm {
        match self {
            KeyTerm::Part(at) => by.get(*at).cloned().unwrap_or_else(|| KeyTerm::constant(0)),
            KeyTerm::Sum(terms, offset) => {
                let terms = terms.iter().map(|(factor, term)| (*factor, term.substitute(by))).collect();
                KeyTerm::Sum(terms, *offset)
            }
            KeyTerm::Floor(term, divisor) => KeyTerm::Floor(Box::new(term.substitute(by)), *divisor),
            KeyTerm::Modulo(term, divisor) => KeyTerm::Modulo(Box::new(term.substitute(by)), *divisor),
        }
    }

    /// Calls `seen` with each part of the key that the number depends on.
    pub(crate) fn parts(&self, seen: &mut impl FnMut(usize)) {
        match self {
            KeyTerm::Part(at) => seen(*at),
            KeyTerm::Sum(terms, _) => terms.iter().for_each(|(_, term)| term.parts(seen)),
            KeyTerm::Floor(term, _) | KeyTerm::Modulo(term, _) => term.parts(seen),
        }
    }
}

fn ceil_div(a: i64, b: i64) -> i64 {
    let quotient = a.div_euclid(b);
    if a.rem_euclid(b) == 0 { quotient } else { quotient.saturating_add(1) }
}

/// A function from keys to keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyFunction {
    arity: usize,
    terms: Vec<KeyTerm>,
}

impl KeyFunction {
    /// A function of keys of `arity` parts, given by the parts of its result. Fails if a term uses a part that
    /// the key does not have, or divides by less than 1.
    pub fn new(arity: usize, terms: Vec<KeyTerm>) -> Result<KeyFunction, AlgebraError> {
        for term in &terms {
            let mut most = None;
            term.parts(&mut |part| most = most.max(Some(part)));
            if let Some(part) = most.filter(|&part| part >= arity) {
                return Err(AlgebraError::KeyArity {
                    what: "a key function",
                    expected: part + 1,
                    found: arity,
                });
            }
            check_divisors(term)?;
        }
        Ok(KeyFunction { arity, terms })
    }

    /// The function that changes nothing.
    pub fn identity(arity: usize) -> KeyFunction {
        KeyFunction { arity, terms: (0..arity).map(KeyTerm::Part).collect() }
    }

    /// The function that keeps some parts in a given order. Fails if the key does not have one of them.
    pub fn project(arity: usize, parts: &[usize]) -> Result<KeyFunction, AlgebraError> {
        KeyFunction::new(arity, parts.iter().map(|&part| KeyTerm::Part(part)).collect())
    }

    /// Parts of the keys it takes.
    pub fn arity(&self) -> usize {
        self.arity
    }

    /// The parts of its result.
    pub fn terms(&self) -> &[KeyTerm] {
        &self.terms
    }

    /// True when nothing changes.
    pub fn is_identity(&self) -> bool {
        *self == KeyFunction::identity(self.arity)
    }

    /// The result for a key.
    pub fn apply(&self, key: &[i64]) -> Key {
        self.terms.iter().map(|term| term.value(key)).collect()
    }

    /// The function that applies `self` first and then `next`. Fails if the arities do not fit.
    pub fn then(&self, next: &KeyFunction) -> Result<KeyFunction, AlgebraError> {
        if next.arity != self.terms.len() {
            let (expected, found) = (next.arity, self.terms.len());
            return Err(AlgebraError::KeyArity { what: "a composition of key functions", expected, found });
        }
        let terms = next.terms.iter().map(|term| term.substitute(&self.terms)).collect();
        Ok(KeyFunction { arity: self.arity, terms })
    }

    /// The box that holds all results for a box of keys, both as closed ranges.
    pub fn image(&self, domain: &[(i64, i64)]) -> Vec<(i64, i64)> {
        self.terms.iter().map(|term| term.range(domain)).collect()
    }

    /// All keys of a box (closed ranges) with this result, in order. The box is narrowed through the terms before
    /// anything is enumerated, so that for projections, affine functions and floors only few keys are tried.
    pub fn preimage(&self, result: &[i64], domain: &[(i64, i64)]) -> Vec<Key> {
        let mut narrowed = domain.to_vec();
        if result.len() != self.terms.len() || narrowed.iter().any(|(low, high)| low > high) {
            return Vec::new();
        }
        loop {
            let before = narrowed.clone();
            for (term, &value) in self.terms.iter().zip(result) {
                if !term.narrow((value, value), &mut narrowed) {
                    return Vec::new();
                }
            }
            if narrowed == before {
                break;
            }
        }
        keys_of_box(&narrowed).filter(|key| self.apply(key) == result).collect()
    }
}

fn check_divisors(term: &KeyTerm) -> Result<(), AlgebraError> {
    match term {
        KeyTerm::Part(_) => Ok(()),
        KeyTerm::Sum(terms, _) => terms.iter().try_for_each(|(_, term)| check_divisors(term)),
        KeyTerm::Floor(term, by) | KeyTerm::Modulo(term, by) => {
            if *by < 1 {
                let (what, expected) = ("a key function", "a divisor of at least 1");
                return Err(AlgebraError::Argument { what, expected, found: by.to_string() });
            }
            check_divisors(term)
        }
    }
}

/// All keys of a box of closed ranges, in order.
pub(crate) fn keys_of_box(domain: &[(i64, i64)]) -> impl Iterator<Item = Key> + use<> {
    let lows: Vec<i64> = domain.iter().map(|range| range.0).collect();
    let dims: Vec<usize> = domain
        .iter()
        .map(|(low, high)| if high < low { 0 } else { (i128::from(*high) - i128::from(*low) + 1) as usize })
        .collect();
    crate::array::positions(&dims)
        .map(move |at| at.iter().zip(&lows).map(|(&at, low)| low + at as i64).collect())
}

/// A condition on keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyCondition {
    /// Always true.
    Always,
    /// Two numbers computed from the key are equal.
    Equal(KeyTerm, KeyTerm),
    /// The first number is less than the second.
    Less(KeyTerm, KeyTerm),
    /// Not the condition.
    Not(Box<KeyCondition>),
    /// All of the conditions.
    All(Vec<KeyCondition>),
}

impl KeyCondition {
    /// Whether a key meets it.
    pub fn holds(&self, key: &[i64]) -> bool {
        match self {
            KeyCondition::Always => true,
            KeyCondition::Equal(a, b) => a.value(key) == b.value(key),
            KeyCondition::Less(a, b) => a.value(key) < b.value(key),
            KeyCondition::Not(inner) => !inner.holds(key),
            KeyCondition::All(all) => all.iter().all(|each| each.holds(key)),
        }
    }

    /// Both conditions.
    pub fn and(self, other: KeyCondition) -> KeyCondition {
        KeyCondition::All(vec![self, other])
    }

    /// The parts of the key it depends on, in order.
    pub fn parts(&self) -> Vec<usize> {
        let mut all = Vec::new();
        self.visit(&mut |part| all.push(part));
        all.sort_unstable();
        all.dedup();
        all
    }

    fn visit(&self, seen: &mut impl FnMut(usize)) {
        match self {
            KeyCondition::Always => {}
            KeyCondition::Equal(a, b) | KeyCondition::Less(a, b) => {
                a.parts(seen);
                b.parts(seen);
            }
            KeyCondition::Not(inner) => inner.visit(seen),
            KeyCondition::All(all) => all.iter().for_each(|each| each.visit(seen)),
        }
    }

    /// The condition on keys from which each part is computed by a term: `c(f(key))`.
    pub fn after(&self, terms: &[KeyTerm]) -> KeyCondition {
        match self {
            KeyCondition::Always => KeyCondition::Always,
            KeyCondition::Equal(a, b) => KeyCondition::Equal(a.substitute(terms), b.substitute(terms)),
            KeyCondition::Less(a, b) => KeyCondition::Less(a.substitute(terms), b.substitute(terms)),
            KeyCondition::Not(inner) => KeyCondition::Not(Box::new(inner.after(terms))),
            KeyCondition::All(all) => KeyCondition::All(all.iter().map(|each| each.after(terms)).collect()),
        }
    }
}

impl fmt::Display for KeyTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyTerm::Part(at) => write!(f, "k{at}"),
            KeyTerm::Sum(terms, offset) => {
                let mut first = true;
                for (factor, term) in terms {
                    let sign = if first { "" } else { " + " };
                    let factor = if *factor == 1 { String::new() } else { format!("{factor}·") };
                    write!(f, "{sign}{factor}{term}")?;
                    first = false;
                }
                match (first, offset) {
                    (true, offset) => write!(f, "{offset}"),
                    (false, 0) => Ok(()),
                    (false, offset) => write!(f, " + {offset}"),
                }
            }
            KeyTerm::Floor(term, by) => write!(f, "⌊({term})/{by}⌋"),
            KeyTerm::Modulo(term, by) => write!(f, "({term}) mod {by}"),
        }
    }
}

impl fmt::Display for KeyFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms: Vec<String> = self.terms.iter().map(KeyTerm::to_string).collect();
        write!(f, "⟨{}⟩", terms.join(", "))
    }
}

impl fmt::Display for KeyCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyCondition::Always => f.write_str("true"),
            KeyCondition::Equal(a, b) => write!(f, "{a} = {b}"),
            KeyCondition::Less(a, b) => write!(f, "{a} < {b}"),
            KeyCondition::Not(inner) => write!(f, "not ({inner})"),
            KeyCondition::All(all) => {
                let all: Vec<String> = all.iter().map(KeyCondition::to_string).collect();
                f.write_str(&all.join(" and "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn terms() -> impl Strategy<Value = KeyTerm> {
        let leaf = prop_oneof![(0..2usize).prop_map(KeyTerm::Part), (-3..4i64).prop_map(KeyTerm::constant)];
        leaf.prop_recursive(3, 8, 2, |inner| {
            prop_oneof![
                (prop::collection::vec((-3..4i64, inner.clone()), 1..3), -3..4i64)
                    .prop_map(|(terms, offset)| KeyTerm::Sum(terms, offset)),
                (inner.clone(), 1..4i64).prop_map(|(term, by)| KeyTerm::Floor(Box::new(term), by)),
                (inner, 1..4i64).prop_map(|(term, by)| KeyTerm::Modulo(Box::new(term), by)),
            ]
        })
    }

    proptest! {
        #[test]
        fn image_and_preimage_agree_with_enumeration(
            all in prop::collection::vec(terms(), 1..3),
            next in prop::collection::vec(terms(), 1..3),
            low in -3..3i64, size in 0..4i64, high in 0..4i64,
        ) {
            let domain = [(low, low + size), (0, high)];
            let function = KeyFunction::new(2, all.clone()).unwrap();
            let image = function.image(&domain);
            for key in keys_of_box(&domain) {
                let result = function.apply(&key);
                prop_assert!(result.iter().zip(&image).all(|(at, (low, high))| low <= at && at <= high));
                let expected: Vec<Key> = keys_of_box(&domain).filter(|key| function.apply(key) == result).collect();
                prop_assert_eq!(function.preimage(&result, &domain), expected, "{}", function);
            }
            let mut padded = all;
            padded.resize(2, KeyTerm::constant(1));
            let (first, second) = (KeyFunction::new(2, padded).unwrap(), KeyFunction::new(2, next).unwrap());
            let both = first.then(&second).unwrap();
            for key in keys_of_box(&domain) {
                prop_assert_eq!(both.apply(&key), second.apply(&first.apply(&key)));
            }
        }
    }

    #[test]
    fn a_preimage_is_found_without_walking_a_large_box() {
        let huge = [(0, 1 << 40), (0, 3)];
        let tile = KeyTerm::Sum(vec![(4, KeyTerm::Part(0)), (1, KeyTerm::Part(1))], 0);
        let function = KeyFunction::new(2, vec![tile]).unwrap();
        assert_eq!(function.preimage(&[(1 << 39) + 3], &huge), [vec![1 << 37, 3]]);
        assert_eq!(function.to_string(), "⟨4·k0 + k1⟩");
        assert!(KeyFunction::project(2, &[2]).is_err());
        assert!(KeyFunction::new(1, vec![KeyTerm::Floor(Box::new(KeyTerm::Part(0)), 0)]).is_err());
    }
}
