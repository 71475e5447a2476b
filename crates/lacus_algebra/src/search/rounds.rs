//! How often things run: rounds of loops, and the numbers that counters take.

use crate::expr::{Affine, Slot, Symbol};
use crate::network::{Made, Network, Operator, Until, slots_of};
use crate::touch::Ranges;
use std::collections::BTreeSet;

/// Rounds that are looked at one by one, at most; of more, counters are taken as ranges.
pub(crate) const MAX_ROUNDS: usize = 1024;

/// More rounds than that count as that, so that what all of them move can be counted in 128 bits.
const MOST_TIMES: u128 = 1 << 40;

/// The rounds in which a scope runs.
#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    /// What the counters around it are, in order. More than one number where there are too many rounds to list.
    pub(crate) counters: Vec<Ranges>,
    /// How often it runs for each of these.
    pub(crate) times: u128,
}

impl Rounds {
    /// How often it runs.
    pub(crate) fn count(&self) -> u128 {
        self.counters.len() as u128 * self.times
    }
}

/// The rounds of a scope, where loops that depend on data take `assumed` of them.
pub(crate) fn rounds_of(network: &Network, scope: usize, assumed: u64) -> Rounds {
    let mut chain: Vec<usize> = network.around(scope).collect();
    chain.reverse();
    let mut rounds = Rounds { counters: vec![Ranges::new()], times: 1 };
    for (at, &each) in chain.iter().enumerate() {
        let Some(of) = network.scopes[each].of else { continue };
        // The second part of a round has its own number, instead of that of the first.
        if chain.get(at + 1).is_some_and(|&next| network.scopes[next].of == Some(of)) {
            continue;
        }
        match &network.loops[of].until {
            Until::Is(..) => {
                let times = if network.scopes[each].is_after { assumed - 1 } else { assumed };
                rounds.times = rounds.times.saturating_mul(u128::from(times)).min(MOST_TIMES);
            }
            Until::Counted(counter, from, to) => rounds = counted(network, rounds, *counter, from, to),
        }
    }
    rounds
}

fn counted(network: &Network, outer: Rounds, counter: Slot, from: &Affine, to: &Affine) -> Rounds {
    let bounds = |ranges: &Ranges| {
        let exact = ranges.iter().filter(|(_, (low, high))| low == high);
        let known = exact.map(|(slot, (low, _))| (*slot, *low)).collect();
        Some((network.position(from, &known)?, network.position(to, &known)?))
    };
    let all: Option<Vec<(i64, i64)>> = outer.counters.iter().map(bounds).collect();
    let total =
        all.iter().flatten().map(|(from, to)| (i128::from(*to) - i128::from(*from)).max(0)).sum::<i128>();
    match all {
        Some(all) if total <= MAX_ROUNDS as i128 => {
            let each = outer.counters.iter().zip(all).flat_map(|(ranges, (from, to))| {
                (from..to).map(move |n| {
                    let mut ranges = ranges.clone();
                    ranges.insert(counter, (n, n));
                    ranges
                })
            });
            Rounds { counters: each.collect(), times: outer.times }
        }
        all => {
            let mut ranges = outer.counters.first().cloned().unwrap_or_default();
            for other in &outer.counters {
                for (slot, (low, high)) in other {
                    let own = ranges.entry(*slot).or_insert((*low, *high));
                    *own = (own.0.min(*low), own.1.max(*high));
                }
            }
            let of = |symbol: Symbol| match symbol {
                Symbol::Slot(slot) => ranges.get(&slot).copied().unwrap_or((0, 0)),
                Symbol::Index(_) => (0, 0),
            };
            let (low, high) = (from.range(of).0, to.range(of).1 - 1);
            let clamp = |n: i128| n.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
            // Bounds that follow from outer counters: as many rounds as there would be halfway.
            let total = match all {
                Some(_) => total.max(0) as u128,
                None => (outer.counters.len() as u128)
                    .saturating_mul(((high - low + 1).max(0) / 2).max(1) as u128),
            };
            ranges.insert(counter, (clamp(low), clamp(high.max(low))));
            Rounds { counters: vec![ranges], times: outer.times.saturating_mul(total).min(MOST_TIMES) }
        }
    }
}

/// The counters that decide which tiles an operator reads.
pub(crate) fn counters_of(network: &Network, operator: &Operator) -> BTreeSet<Slot> {
    let mut open: BTreeSet<Slot> = BTreeSet::new();
    for read in &operator.reads {
        read.at.iter().for_each(|at| slots_in(at, &mut open));
        read.under.iter().for_each(|(condition, _)| slots_of(condition, &mut open));
    }
    for guard in operator.fold.iter().filter_map(|fold| fold.guard.as_ref()) {
        slots_of(guard, &mut open);
    }
    let (mut all, mut seen) = (BTreeSet::new(), BTreeSet::new());
    while let Some(slot) = open.pop_first() {
        match &network.value(slot).made {
            Made::Counter(_) => {
                all.insert(slot);
            }
            Made::Parameter(element) if seen.insert(slot) => slots_of(element, &mut open),
            _ => {}
        }
    }
    all
}

fn slots_in(at: &Affine, all: &mut BTreeSet<Slot>) {
    all.extend(at.factors().filter_map(|(symbol, _)| match symbol {
        Symbol::Slot(slot) => Some(slot),
        Symbol::Index(_) => None,
    }));
}
